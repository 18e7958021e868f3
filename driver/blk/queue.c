// SPDX-License-Identifier: GPL-2.0
/*
 * The requests of a disk: a hardware queue collects a batch, which is one call of krdma_mover, and
 * each request completes on the processor that it came from, or by its submitter, which polls.
 *
 * That an adapter has acknowledged a write is not enough (KRDMA_OPF_PLACED): the next request to
 * the same block may take another queue pair or adapter, and overtake it on the way to memory. In
 * durable memory as well, where WRITEs have one queue pair, but READs do not.
 */
#include <linux/bvec.h>
#include <linux/krdma_mover.h>
#include <linux/mm.h>

#include "blk/blk.h"
#include "blk/compat.h"

/* A request's own memory. */
struct krdma_disk_io {
	struct krdma_io io;
	struct bio_vec bvecs[KRDMA_DISK_BVECS];
};

static blk_status_t krdma_disk_status(const struct krdma_io *io)
{
	switch (io->status) {
	case 0:
		return BLK_STS_OK;
	case -ETIMEDOUT:
		return BLK_STS_TIMEOUT;
	case -ENOTCONN:
	case -ECONNRESET:
	case -ESTALE:
	case -ECANCELED:
		return BLK_STS_TRANSPORT;
	}
	return BLK_STS_IOERR;
}

static void krdma_disk_complete(struct request *rq)
{
	const struct krdma_disk_io *dio = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, krdma_disk_status(&dio->io));
}

/*
 * The device may still write to them: the page allocator does not get them back, ever. Those of the
 * page cache are not read through this disk again, which is lost. Memory of kmalloc() can't be
 * kept.
 */
static void krdma_disk_keep_pages(struct krdma_disk *kd, struct request *rq)
{
	struct req_iterator iter;
	struct bio_vec bvec;

	pr_err_ratelimited("krdma_blk: %s: the RDMA device keeps pages\n", kd->disk->disk_name);
	queue_work(krdma_blk_wq, &kd->keeps);
	rq_for_each_segment(bvec, rq, iter) {
		struct folio *folio = page_folio(bvec.bv_page);

		/* It fails for memory without a reference count: large kmalloc() of new kernels. */
		if (!folio_test_slab(folio))
			folio_try_get(folio);
	}
}

static void krdma_disk_done(struct krdma_io *io)
{
	struct request *rq = blk_mq_rq_from_pdu(container_of(io, struct krdma_disk_io, io));
	struct krdma_disk *kd = rq->q->queuedata;
	bool flush = io->op == KRDMA_OP_FLUSH;

	if (unlikely(io->pages_lost))
		krdma_disk_keep_pages(kd, rq);
	if (kd->flusher && io->op == KRDMA_OP_WRITE)
		krdma_flusher_written(kd->flusher, io->offset, io->length);
	/*
	 * ORDER: polled requests do not end in a softirq: the block layer caches their bios for
	 * each processor. Nor do flushes, on any queue: a flush ends the polled writes before it.
	 */
	if (rq->mq_hctx->type == HCTX_TYPE_POLL || (flush && kd->param.poll_queues)) {
		struct krdma_disk_queue *q = rq->mq_hctx->driver_data;

		spin_lock_bh(&q->lock);
		list_add_tail(&io->node, &q->polled);
		spin_unlock_bh(&q->lock);
		/* The submitter may be stopped; no submitter polls for a flush. */
		if (unlikely(READ_ONCE(kd->dead) || flush))
			queue_work(krdma_blk_wq, &kd->reaps);
		return;
	}
	blk_mq_complete_request(rq);
}

/* Complete requests that are polled for. Return: their number */
static int krdma_disk_reap(struct krdma_disk_queue *q)
{
	struct krdma_io *io, *next;
	LIST_HEAD(ended);
	int n = 0;

	/* What is added at this moment is found the next time. */
	if (list_empty(&q->polled))
		return 0;
	spin_lock_bh(&q->lock);
	list_splice_init(&q->polled, &ended);
	spin_unlock_bh(&q->lock);
	list_for_each_entry_safe(io, next, &ended, node) {
		struct request *rq = blk_mq_rq_from_pdu(container_of(io, struct krdma_disk_io, io));

		/* As blk_mq_complete_request(), which may go to a softirq of another processor. */
		blk_mq_set_request_complete(rq);
		krdma_disk_complete(rq);
		n++;
	}
	return n;
}

/* Context: process. */
static int krdma_disk_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	struct krdma_disk *kd = hctx->queue->queuedata;
	struct krdma_disk_queue *q = hctx->driver_data;

	krdma_region_poll(kd->region);
	return krdma_disk_reap(q);
}

/* The pages of a request. The array has to stay until it is done; the array of a bio does. */
static void krdma_disk_pages(struct request *rq, struct krdma_disk_io *dio)
{
	struct krdma_io *io = &dio->io;
	struct req_iterator iter;
	struct bio_vec bvec;
	u32 n = 0;

	io->skip = 0;
	if (rq->bio == rq->biotail) {
		rq_for_each_bvec(bvec, rq, iter)
			n++;
		io->bvec = __bvec_iter_bvec(rq->bio->bi_io_vec, rq->bio->bi_iter);
		io->skip = rq->bio->bi_iter.bi_bvec_done;
		io->nr_bvecs = n;
		return;
	}
	/* No more than segments, of which there are KRDMA_DISK_BVECS at most. */
	rq_for_each_bvec(bvec, rq, iter)
		dio->bvecs[n++] = bvec;
	io->bvec = dio->bvecs;
	io->nr_bvecs = n;
}

/* What was put off until the last of a batch. */
static void krdma_disk_submit(struct krdma_disk_queue *q)
{
	LIST_HEAD(batch);

	spin_lock_bh(&q->lock);
	list_splice_init(&q->batch, &batch);
	spin_unlock_bh(&q->lock);
	if (!list_empty(&batch))
		krdma_io_submit_batch(&batch);
}

static void krdma_disk_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	krdma_disk_submit(hctx->driver_data);
}

static bool krdma_disk_can(const struct krdma_disk *kd, const struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return true;
	case REQ_OP_FLUSH:
		return kd->flusher;
	default:
		return false;
	}
}

static blk_status_t krdma_disk_queue_rq(struct blk_mq_hw_ctx *hctx,
					const struct blk_mq_queue_data *bd)
{
	struct krdma_disk_queue *q = hctx->driver_data;
	struct krdma_disk *kd = hctx->queue->queuedata;
	struct request *rq = bd->rq;
	struct krdma_disk_io *dio = blk_mq_rq_to_pdu(rq);
	struct krdma_io *io = &dio->io;

	if (READ_ONCE(kd->dead) || !krdma_disk_can(kd, rq)) {
		/* Nobody else submits what is before it in a batch. */
		krdma_disk_submit(q);
		return READ_ONCE(kd->dead) ? BLK_STS_OFFLINE : BLK_STS_NOTSUPP;
	}
	io->done = krdma_disk_done;
	if (req_op(rq) == REQ_OP_FLUSH) {
		io->op = KRDMA_OP_FLUSH;
		blk_mq_start_request(rq);
		krdma_disk_submit(q);
		krdma_flusher_flush(kd->flusher, io);
		return BLK_STS_OK;
	}
	krdma_disk_pages(rq, dio);
	io->region = kd->region;
	io->op = req_op(rq) == REQ_OP_WRITE ? KRDMA_OP_WRITE : KRDMA_OP_READ;
	io->flags = io->op == KRDMA_OP_WRITE ? KRDMA_OPF_PLACED : 0;
	io->offset = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	io->length = blk_rq_bytes(rq);
	/* All of it: a read may have been merged with readahead. */
	io->timeout = blk_noretry_request(rq) && !(rq->rq_flags & RQF_MIXED_MERGE) ?
			      kd->fast_timeout :
			      kd->timeout;
	io->cpu = 1 + blk_mq_rq_cpu(rq);
	blk_mq_start_request(rq);
	spin_lock_bh(&q->lock);
	list_add_tail(&io->node, &q->batch);
	spin_unlock_bh(&q->lock);
	if (bd->last)
		krdma_disk_submit(q);
	return BLK_STS_OK;
}

/*
 * krdma_mover has a deadline for each: memory on the wire can't be taken back before. The submitter
 * of one that is polled for may be late.
 */
static enum blk_eh_timer_return krdma_disk_timeout(struct request *rq)
{
	krdma_disk_reap(rq->mq_hctx->driver_data);
	return blk_mq_request_started(rq) ? BLK_EH_RESET_TIMER : BLK_EH_DONE;
}

/*
 * Polled requests have queues of their own, so that a submitter that does not poll keeps nobody's
 * tags; their channels are those of the others, with interrupts. Reads use the queues of writes.
 */
static void krdma_disk_map_queues(struct blk_mq_tag_set *tags)
{
	const struct krdma_disk *kd = tags->driver_data;
	struct blk_mq_queue_map *map = tags->map;

	/* An older kernel that was started after a crash has one queue for all. */
	if (tags->nr_maps > HCTX_TYPE_POLL) {
		map[HCTX_TYPE_DEFAULT].nr_queues = kd->param.queues;
		/* Not all of them, as the block layer has set it. */
		map[HCTX_TYPE_READ].nr_queues = 0;
		map[HCTX_TYPE_POLL].nr_queues = kd->param.poll_queues;
		map[HCTX_TYPE_POLL].queue_offset = kd->param.queues;
		blk_mq_map_queues(&map[HCTX_TYPE_POLL]);
	}
	blk_mq_map_queues(&map[HCTX_TYPE_DEFAULT]);
}

static int krdma_disk_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct krdma_disk *kd = data;
	struct krdma_disk_queue *q = &kd->queues[index];

	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->batch);
	INIT_LIST_HEAD(&q->polled);
	hctx->driver_data = q;
	return 0;
}

static const struct blk_mq_ops krdma_disk_mq_ops = {
	.queue_rq = krdma_disk_queue_rq,
	.commit_rqs = krdma_disk_commit_rqs,
	.complete = krdma_disk_complete,
	.timeout = krdma_disk_timeout,
	.poll = krdma_disk_poll,
	.map_queues = krdma_disk_map_queues,
	.init_hctx = krdma_disk_init_hctx,
};

/**
 * krdma_disk_queues_alloc - make the hardware queues of a disk
 * @kd: the disk; ->param.queues, ->param.poll_queues and ->param.depth are what is asked for, then
 *	what there is
 *
 * Context: process.
 * Return: 0, for blk_mq_free_tag_set() of ->tags; or a negative errno
 */
int krdma_disk_queues_alloc(struct krdma_disk *kd)
{
	struct blk_mq_tag_set *tags = &kd->tags;
	int rc;

	tags->ops = &krdma_disk_mq_ops;
	/* Not more than there are processors. */
	kd->param.queues = min(kd->param.queues, nr_cpu_ids);
	kd->param.poll_queues = min(kd->param.poll_queues, nr_cpu_ids);
	tags->nr_maps = kd->param.poll_queues ? HCTX_MAX_TYPES : 1;
	tags->nr_hw_queues = kd->param.queues + kd->param.poll_queues;
	tags->queue_depth = kd->param.depth;
	tags->numa_node = NUMA_NO_NODE;
	tags->cmd_size = sizeof(struct krdma_disk_io);
	/*
	 * STACKING: no processor waits for its requests before it goes offline. They do not
	 * depend on it, and may be parked for as long as the peer is away.
	 */
	tags->flags = KRDMA_BLK_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT | BLK_MQ_F_STACKING;
	tags->driver_data = kd;
	rc = blk_mq_alloc_tag_set(tags);
	if (rc)
		return rc;
	kd->param.queues = tags->map[HCTX_TYPE_DEFAULT].nr_queues;
	kd->param.poll_queues = tags->nr_hw_queues - kd->param.queues;
	kd->param.depth = tags->queue_depth;
	return 0;
}

/**
 * krdma_disk_reaps - complete requests of the queues for polling that have ended
 * @work: ->reaps
 */
void krdma_disk_reaps(struct work_struct *work)
{
	struct krdma_disk *kd = container_of(work, struct krdma_disk, reaps);
	u32 i;

	for (i = 0; i < kd->tags.nr_hw_queues; i++)
		krdma_disk_reap(&kd->queues[i]);
}

/**
 * krdma_disk_queues_flush - submit what was let pass before a disk was dead
 * @kd: the disk, which is ->dead
 *
 * Context: process.
 */
void krdma_disk_queues_flush(struct krdma_disk *kd)
{
	u32 i;

	blk_mq_quiesce_queue(kd->disk->queue);
	for (i = 0; i < kd->tags.nr_hw_queues; i++)
		krdma_disk_submit(&kd->queues[i]);
	blk_mq_unquiesce_queue(kd->disk->queue);
}
