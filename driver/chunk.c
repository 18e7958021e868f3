// SPDX-License-Identifier: GPL-2.0
/*
 * Chunks: the READs, WRITEs and atomics of transfers, one work request each.
 *
 * iWARP differs in two ways. What a READ fills is registered for it (mr.c). And
 * a WRITE completes when TCP has the bytes: the last of a chain has a READ of its
 * last byte behind it, whose completion is that of all WRITEs before. Not of no
 * bytes: siw answers such a READ with what it sent last (siw_activate_tx keeps the
 * old SGE). And all WRITEs are signalled, or siw hands their pages to TCP, which
 * may send them even after the end of the queue pair. A READ that begins just
 * before the end of a page ends there: siw as the owner answers short ones that go
 * over it with wrong bytes (siw_try_1seg).
 *
 * Elsewhere such a READ is behind WRITEs that ask for it (KRDMA_OP_PLACED), into memory
 * that needs no key. It proves all before it: an adapter executes what comes on a queue
 * pair in order, and on PCIe a read does not overtake a write, relaxed or not.
 *
 * A chunk is in ch->ring until it has ended. Nothing relies on a completion for
 * each when the queue pair is in error: siw may lose some, and give others twice.
 * What failed on iWARP, or never completed, ends with the queue pair and its
 * completion queue (krdma_chunks_reap).
 */
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

static void krdma_chunk_sync(struct krdma_channel *ch, struct krdma_chunk *c, bool to_device)
{
	const struct krdma_mapping *map = c->transfer->map;

	if (map && map->need_sync)
		krdma_mapping_sync(c->transfer, c->at, c->bytes, ch->sess->dev, to_device);
}

static void krdma_chunk_unmap(struct krdma_channel *ch, struct krdma_chunk *c)
{
	if (!c->mapped)
		return;
	for (; c->mapped; c->mapped--)
		krdma_local_unmap(c->transfer, ch->sess->dev->ib, c->sge[c->mapped - 1].addr,
				  c->sge[c->mapped - 1].length);
	krdma_transfers_map_again(ch->sess);
}

/* Pages that are mapped with the chunk have an SGE for each run. */
static u32 krdma_chunk_pages(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes, u32 max)
{
	struct krdma_session *sess = ch->sess;
	u32 left = bytes, n = 0, len;

	for (; left && n < max; left -= len, n++) {
		len = krdma_pages_next(c->transfer, sess->dev, left, &c->sge[n].addr);
		if (!len)
			break;
		c->sge[n].length = len;
		c->sge[n].lkey = sess->pd->local_dma_lkey;
	}
	c->bytes = bytes - left;
	c->mapped = n;
	return n;
}

static u32 krdma_chunk_registered(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes,
				  u32 max)
{
	struct krdma_transfer *x = c->transfer;
	u32 n = 0, len;

	for (c->bytes = 0; c->bytes < bytes; c->bytes += len) {
		const struct krdma_vec *v = &x->local[x->at.i];

		len = krdma_split_sges(x->map->page, x->map->mem->offset + v->addr + x->at.in,
				       min_t(u64, bytes - c->bytes, v->length - x->at.in),
				       ch->sess->pd->local_dma_lkey, c->sge, max, &n);
		if (!len)
			break;
		krdma_split_step(&x->at, x->local, x->nlocal, len);
	}
	return n;
}

/* The SGEs of a chunk: up to @bytes, from where its transfer stands. */
static u32 krdma_chunk_sges(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes)
{
	u32 max = c->transfer->opcode == KRDMA_OP_READ ? ch->max_sge_rd : ch->max_sge;

	return c->transfer->bvec ? krdma_chunk_pages(ch, c, bytes, max) :
				   krdma_chunk_registered(ch, c, bytes, max);
}

/* ---- the chunks that are posted, in order ---- */

static struct krdma_chunk **krdma_ring_at(struct krdma_channel *ch, u32 place)
{
	return &ch->ring[place & (KRDMA_DATA_SLOTS - 1)];
}

/* They end in order, but for some on iWARP: there may be chunks to be had, but no place. */
static bool krdma_ring_full(const struct krdma_channel *ch)
{
	return ch->tail - ch->head == KRDMA_DATA_SLOTS;
}

static void krdma_ring_add(struct krdma_channel *ch, struct krdma_chunk *c)
{
	c->place = ch->tail++;
	*krdma_ring_at(ch, c->place) = c;
}

static void krdma_ring_del(struct krdma_channel *ch, struct krdma_chunk *c)
{
	*krdma_ring_at(ch, c->place) = NULL;
	while (ch->head != ch->tail && !*krdma_ring_at(ch, ch->head))
		ch->head++;
}

/* A posted chunk has ended. */
static void krdma_chunk_end(struct krdma_channel *ch, struct krdma_chunk *c, int err,
			    struct krdma_queue *done)
{
	struct krdma_transfer *x = c->transfer;

	lockdep_assert_held(&ch->sess->lock);
	krdma_chunk_sync(ch, c, false);
	c->posted = false;
	krdma_ring_del(ch, c);
	if (c->sink)
		krdma_sink_put(ch, c);
	else
		krdma_chunk_unmap(ch, c);
	krdma_key_unpost(x->region, c->key);
	ch->slots_used--;
	ch->posted_bytes -= c->bytes;
	c->next = ch->free;
	ch->free = c;
	x->chunks--;
	if (err) {
		x->gap = true;
		if (!x->status)
			x->status = err;
	} else if (!x->gap) {
		x->moved += c->bytes;
	}
	if (!x->chunks && (x->status || x->moved == x->length)) {
		if (likely(x->status || !(x->verify | x->mail)))
			krdma_transfer_finish(x, done);
		else if (x->verify)
			krdma_digest_queue(x);
		/* Else the answer to its message ends it. */
	}
}

/*
 * On iWARP its completion does not tell that the bytes are in the peer's memory; elsewhere
 * somebody may want to know more than that the adapter has them.
 */
static bool krdma_needs_read(const struct krdma_channel *ch, const struct krdma_transfer *x)
{
	return x->opcode == KRDMA_OP_WRITE && (x->placed || (ch->iwarp && !x->unplaced));
}

static void krdma_data_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_chunk *c = container_of(wc->wr_cqe, struct krdma_chunk, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	int err = wc->status == IB_WC_SUCCESS ? 0 : -ECONNRESET;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	/* Softirqs are off: IB_POLL_SOFTIRQ. */
	spin_lock(&sess->lock);
	krdma_post_alive(ch);
	/* ORDER: the session fails first, so that transfers see why. */
	if (err)
		krdma_post_broken(ch, wc, &done);
	if (!c->posted)
		goto out;
	trace_krdma_complete(sess->serial, c->transfer, c->bytes, wc->status);
	/* Not before the READ behind it; and on iWARP a key of ours may be alive. */
	if (err ? ch->iwarp : krdma_needs_read(ch, c->transfer))
		goto out;
	krdma_chunk_end(ch, c, err, &done);
	krdma_transfer_pump(sess, &done);
out:
	spin_unlock(&sess->lock);
	krdma_transfers_finish(&done);
}

/* The READ behind WRITEs. What it leaves when it fails ends with the queue pair. */
static void krdma_placed_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_chunk *last = container_of(wc->wr_cqe, struct krdma_chunk, placed_cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 place;

	spin_lock(&sess->lock);
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc, &done);
		goto out;
	}
	if (!last->posted)
		goto out;
	for (place = ch->head; place != last->place + 1; place++) {
		struct krdma_chunk *c = *krdma_ring_at(ch, place);

		if (c && krdma_needs_read(ch, c->transfer))
			krdma_chunk_end(ch, c, 0, &done);
	}
	krdma_transfer_pump(sess, &done);
out:
	spin_unlock(&sess->lock);
	krdma_transfers_finish(&done);
}

/* READ the last byte of a WRITE into the void. */
static void krdma_read_placed(struct krdma_channel *ch, struct krdma_chunk *c)
{
	struct ib_mr *mr = ch->void_sink.mr;

	c->placed_sge.addr = mr ? mr->iova : ch->void_dma;
	c->placed_sge.length = 1;
	c->placed_sge.lkey = mr ? mr->lkey : ch->sess->pd->local_dma_lkey;
	memset(&c->placed, 0, sizeof(c->placed));
	c->placed.wr.wr_cqe = &c->placed_cqe;
	c->placed.wr.sg_list = &c->placed_sge;
	c->placed.wr.num_sge = 1;
	c->placed.wr.opcode = IB_WR_RDMA_READ;
	c->placed.wr.send_flags = IB_SEND_SIGNALED;
	c->placed.remote_addr = c->wr.remote_addr + c->bytes - 1;
	c->placed.rkey = c->wr.rkey;
}

static void krdma_chunk_rdma(struct krdma_chunk *c, u64 remote)
{
	c->wr.wr.opcode = c->transfer->opcode == KRDMA_OP_READ ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE;
	if (c->sink) {
		c->wr.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
		c->wr.wr.ex.invalidate_rkey = c->sink->mr->lkey;
	}
	c->wr.remote_addr = remote;
	c->wr.rkey = c->key->rkey;
}

static void krdma_chunk_atomic(struct krdma_chunk *c, u64 remote)
{
	const struct krdma_transfer *x = c->transfer;

	if (x->opcode == KRDMA_OP_CMP_SWAP) {
		c->atomic.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
		c->atomic.compare_add = x->compare;
		c->atomic.swap = x->operand;
	} else {
		c->atomic.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
		c->atomic.compare_add = x->operand;
	}
	c->atomic.remote_addr = remote;
	c->atomic.rkey = c->key->rkey;
}

/**
 * krdma_chunk_build - build the next work request of a transfer
 * @ch: channel
 * @x: transfer, with bytes left to post
 * @key: key of the segment of the next byte
 *
 * Context: session->lock held.
 * Return: the chunk, to be given to krdma_chunks_post; NULL if there is no room;
 *	ERR_PTR(-EAGAIN) if its memory can't be mapped now; or another ERR_PTR
 */
struct krdma_chunk *krdma_chunk_build(struct krdma_channel *ch, struct krdma_transfer *x,
				      struct krdma_key *key)
{
	const struct krdma_vec *range = &x->range[x->far.i];
	u64 in_seg = krdma_segment_offset(krdma_transfer_at(x), x->region->segment_shift);
	bool read = x->opcode == KRDMA_OP_READ;
	u32 bytes, n = 1;
	struct krdma_chunk *c;
	int rc;

	lockdep_assert_held(&ch->sess->lock);
	c = ch->free;
	if (!c || krdma_ring_full(ch) || ch->posted_bytes >= KRDMA_POSTED_MAX)
		return NULL;

	bytes = krdma_split_bytes(range->length - x->far.in, in_seg, key->length);
	if (read && ch->iwarp)
		bytes = krdma_split_short(bytes, krdma_transfer_at(x));
	c->at = x->at;
	c->mapped = 0;
	c->transfer = x;
	c->key = key;
	if (read && ch->iwarp) {
		rc = krdma_sink_map(ch, c, bytes);
		if (rc)
			return rc == -EBUSY ? NULL : ERR_PTR(rc);
	} else {
		n = krdma_chunk_sges(ch, c, bytes);
		/* What others have mapped may be in the way, of this host or of this session. */
		if (!n)
			return ERR_PTR(-EAGAIN);
	}
	x->unmapped = false;
	krdma_split_step(&x->far, x->range, x->nrange, c->bytes);

	c->wr.wr.num_sge = n;
	if (krdma_opcode_atomic(x->opcode))
		krdma_chunk_atomic(c, key->address + in_seg);
	else
		krdma_chunk_rdma(c, key->address + in_seg);

	ch->free = c->next;
	krdma_ring_add(ch, c);
	ch->slots_used++;
	ch->posted_bytes += c->bytes;
	key->posted++;
	x->region->posted++;
	x->chunks++;
	x->posted += c->bytes;
	return c;
}

/* Chain a chunk's work requests. Return: where the next ones are to be chained. */
static struct ib_send_wr **krdma_chunk_link(struct krdma_chunk *c, struct ib_send_wr **link)
{
	if (c->sink) {
		*link = &c->sink->reg.wr;
		link = &c->sink->reg.wr.next;
	}
	*link = &c->wr.wr;
	return &c->wr.wr.next;
}

/* Where a chunk begins in a chain. */
static const struct ib_send_wr *krdma_chunk_first(const struct krdma_chunk *c)
{
	return c->sink ? &c->sink->reg.wr : &c->wr.wr;
}

/* The last of the chunks that need a READ behind them, or NULL. */
static struct krdma_chunk *krdma_chain_write(const struct krdma_channel *ch,
					     struct krdma_chunk *chain)
{
	struct krdma_chunk *c, *write = NULL;

	for (c = chain; c; c = c->next)
		if (krdma_needs_read(ch, c->transfer))
			write = c;
	return write;
}

/* Post chunks, and the READ behind @write, if there is one. Return: as ib_post_send(). */
static int krdma_chain_post(struct krdma_channel *ch, struct krdma_chunk *chain,
			    struct krdma_chunk *write, const struct ib_send_wr **first,
			    const struct ib_send_wr **bad)
{
	struct ib_send_wr *wr, **link = &wr;
	struct krdma_chunk *c;
	int rc;

	for (c = chain; c; c = c->next)
		link = krdma_chunk_link(c, link);
	if (write) {
		krdma_read_placed(ch, write);
		krdma_post_count(ch, 1);
		krdma_stat_inc(KRDMA_STAT_PLACEMENTS);
		if (ch->iwarp && !ch->void_ready) {
			*link = &ch->void_sink.reg.wr;
			link = &ch->void_sink.reg.wr.next;
		}
		*link = &write->placed.wr;
		link = &write->placed.wr.next;
	}
	*link = NULL;

	krdma_stat_inc(KRDMA_STAT_DOORBELLS);
	*first = wr;
	*bad = NULL;
	rc = ib_post_send(ch->qp, wr, bad);
	if (unlikely(rc))
		return rc;
	if (write)
		ch->void_ready = true;
	return 0;
}

/* The session has failed: chunks that were not posted come to an end. */
static void krdma_chain_failed(struct krdma_channel *ch, struct krdma_chunk *chain,
			       struct krdma_queue *done)
{
	struct krdma_chunk *c, *next;

	for (c = chain; c; c = next) {
		next = c->next;
		ch->outstanding--;
		/* A registration in front of it may have been posted. */
		if (!ch->iwarp)
			krdma_chunk_end(ch, c, -ENOTCONN, done);
	}
}

/*
 * Nothing of the first chunk was posted, as it was refused. Its transfer ends, and all that it
 * has in the chain with it. Return: the chunks of the others.
 */
static struct krdma_chunk *krdma_chain_refused(struct krdma_channel *ch, struct krdma_chunk *chain,
					       struct krdma_queue *done)
{
	struct krdma_chunk *c, *next, *rest = NULL, **link = &rest;
	struct krdma_transfer *x = chain->transfer;

	krdma_transfer_refused(x, done);
	for (c = chain; c; c = next) {
		next = c->next;
		if (c->transfer == x) {
			ch->outstanding--;
			krdma_chunk_end(ch, c, -EIO, done);
		} else {
			*link = c;
			link = &c->next;
		}
	}
	*link = NULL;
	return rest;
}

/*
 * The device has refused one of a chain's work requests. What is before that is posted, what
 * is behind it is posted again.
 * Return: 1; or -ENOTCONN: the session has failed
 */
static noinline int krdma_chain_again(struct krdma_channel *ch, struct krdma_chunk *chain,
				      const struct ib_send_wr *bad, int err,
				      struct krdma_queue *done)
{
	struct krdma_chunk *write = krdma_chain_write(ch, chain), *unread = NULL;
	const struct ib_send_wr *first = krdma_chunk_first(chain);

	/* siw: an error without a bad one means that all are posted all the same. */
	while (bad) {
		/* The READ is the last of all, so it was not posted. */
		if (write)
			ch->outstanding--;
		for (; chain && bad != krdma_chunk_first(chain) && bad != &chain->wr.wr;
		     chain = chain->next)
			if (krdma_needs_read(ch, chain->transfer))
				unread = chain;
		/* WRITEs would never be known to have arrived, or a key of ours would live on. */
		if (!chain || bad != krdma_chunk_first(chain))
			break;
		if (krdma_post_lost(ch, err, done))
			break;
		chain = krdma_chain_refused(ch, chain, done);
		if (!krdma_post_refused(ch, err, done))
			break;
		write = krdma_chain_write(ch, chain) ?: unread;
		if (!chain && !write)
			return 1;
		err = krdma_chain_post(ch, chain, write, &first, &bad);
		if (!err)
			return 1;
	}
	krdma_session_fail_locked(ch->sess, -ENOTCONN, "a work request was not accepted", -1, done);
	krdma_chain_failed(ch, bad ? chain : NULL, done);
	return -ENOTCONN;
}

/**
 * krdma_chunks_post - post chunks with one doorbell
 * @ch: channel
 * @chain: chunks by ->next, in order
 * @done: transfers that ended
 *
 * Context: session->lock held, session up.
 * Return: 0; 1 if the device has refused some: their transfers have ended, with -EIO, and
 *	there is room again; or a negative errno: the session has failed, and the chunks that
 *	were not posted have ended with an error
 */
int krdma_chunks_post(struct krdma_channel *ch, struct krdma_chunk *chain, struct krdma_queue *done)
{
	const struct ib_send_wr *first, *bad;
	struct krdma_chunk *c;
	int rc;

	lockdep_assert_held(&ch->sess->lock);
	for (c = chain; c; c = c->next) {
		krdma_chunk_sync(ch, c, true);
		krdma_post_count(ch, 1);
		c->posted = true;
		krdma_stat_inc(KRDMA_STAT_CHUNKS);
		trace_krdma_post(ch->sess->serial, c->transfer, c->bytes, c->wr.wr.num_sge);
	}
	rc = krdma_chain_post(ch, chain, krdma_chain_write(ch, chain), &first, &bad);
	if (unlikely(rc))
		return krdma_chain_again(ch, chain, bad, rc, done);
	ch->refusals = 0;
	return 0;
}

/**
 * krdma_chunks_reap - end what no completion has ended
 * @ch: channel without a queue pair and a completion queue
 *
 * ORDER: the keys of READs die first, then the submitters are told.
 *
 * Context: process.
 */
void krdma_chunks_reap(struct krdma_channel *ch)
{
	struct krdma_chunk *c;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 place;

	/* No lock: no handler runs any more, and nothing is posted. */
	for (place = ch->head; place != ch->tail; place++) {
		c = *krdma_ring_at(ch, place);
		if (c && c->sink)
			krdma_sink_dereg(c);
	}
	spin_lock_bh(&ch->sess->lock);
	for (place = ch->head; place != ch->tail; place++) {
		c = *krdma_ring_at(ch, place);
		if (c)
			krdma_chunk_end(ch, c, -ECONNRESET, &done);
	}
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_chunks_setup - allocate the chunks of a channel
 * @ch: channel; slots is set
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_chunks_free cleans up in either case
 */
int krdma_chunks_setup(struct krdma_channel *ch)
{
	u32 i;

	/* A place in the ring is found by a mask. */
	BUILD_BUG_ON_NOT_POWER_OF_2(KRDMA_DATA_SLOTS);
	ch->chunks = kvcalloc(ch->slots, sizeof(*ch->chunks), GFP_KERNEL);
	ch->ring = kcalloc(ch->slots, sizeof(struct krdma_chunk *), GFP_KERNEL);
	if (!ch->chunks || !ch->ring)
		return -ENOMEM;
	for (i = 0; i < ch->slots; i++) {
		struct krdma_chunk *c = &ch->chunks[i];

		c->cqe.done = krdma_data_done;
		c->placed_cqe.done = krdma_placed_done;
		/* What is the same in each of its work requests. */
		c->wr.wr.wr_cqe = &c->cqe;
		c->wr.wr.sg_list = c->sge;
		c->wr.wr.send_flags = IB_SEND_SIGNALED;
		c->next = ch->free;
		ch->free = c;
	}
	return 0;
}

/**
 * krdma_chunks_free - undo krdma_chunks_setup
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_chunks_free(struct krdma_channel *ch)
{
	kvfree(ch->chunks);
	kfree(ch->ring);
}
