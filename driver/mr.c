// SPDX-License-Identifier: GPL-2.0
/*
 * Registered memory: where a peer gets a key to memory of this host, to a
 * segment of an export, and on iWARP to what a READ fills.
 *
 * The order that never bends: invalidate and see it complete, see that nothing
 * is still at it where an invalidation is no fence (rxe: ib_dereg_mr waits for
 * users; iWARP: krdma_ask_fence), ib_dereg_mr, DMA unmap, give the pages back.
 * Where a device has no invalidation, or refuses it, ib_dereg_mr is in its place: that
 * of a key that is alive ends it. Only there, as some drivers hide its failure.
 * Where the queue pair is gone, so are all of its PD, and ib_dereg_mr alone
 * ends the key. A fresh key at each registration; no address of this host on
 * the wire: the key's address is the offset in the export.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/* The pages of a segment: borrowed from the export, or taken from its file. */
static int krdma_seg_pages(struct krdma_seg *seg, struct page ***pages)
{
	struct krdma_export *export = seg->grant->export;
	u32 shift = seg->grant->sess->dev->segment_shift;
	pgoff_t first = krdma_segment_start(seg->index, shift) >> PAGE_SHIFT;
	int rc;

	if (export->mem || export->pages) {
		*pages = (export->mem ? export->mem->pages : export->pages) + first;
		return 0;
	}
	rc = krdma_account_charge(export->acct, seg->npages, &seg->grant->error);
	if (rc)
		return rc;
	seg->pages = kvmalloc_array(seg->npages, sizeof(*seg->pages), GFP_KERNEL);
	if (!seg->pages) {
		rc = -ENOMEM;
		goto out;
	}
	rc = krdma_backing_hold(export, first, seg->npages, seg->pages, &seg->grant->error);
	if (rc)
		goto out;
	atomic64_add(seg->npages, &export->pinned_pages);
	*pages = seg->pages;
	return 0;
out:
	kvfree(seg->pages);
	seg->pages = NULL;
	krdma_account_uncharge(export->acct, seg->npages);
	return rc;
}

static void krdma_seg_put_pages(struct krdma_seg *seg)
{
	struct krdma_export *export = seg->grant->export;

	if (!seg->pages)
		return;
	krdma_backing_release(export, seg->pages, seg->npages,
			      krdma_rights_change(seg->grant->rights));
	kvfree(seg->pages);
	atomic64_sub(seg->npages, &export->pinned_pages);
	krdma_account_uncharge(export->acct, seg->npages);
}

static enum dma_data_direction krdma_seg_dir(const struct krdma_seg *seg)
{
	return krdma_rights_change(seg->grant->rights) ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/**
 * krdma_seg_prepare - take, map and describe the memory of a segment
 * @grant: grant
 * @index: segment of it, inside the export
 *
 * The segment is on the session's list and in the grant's table afterwards,
 * with no key yet.
 *
 * Context: the session's service.
 * Return: the segment, or an ERR_PTR
 */
struct krdma_seg *krdma_seg_prepare(struct krdma_grant *grant, u64 index)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_device *dev = sess->dev;
	u64 start = krdma_segment_start(index, dev->segment_shift);
	struct page **pages;
	struct krdma_seg *seg;
	u32 room;
	int rc;

	seg = kzalloc(sizeof(*seg), GFP_KERNEL);
	if (!seg)
		return ERR_PTR(-ENOMEM);
	seg->grant = grant;
	seg->index = index;
	seg->length = krdma_segment_length(index, grant->export->length, dev->segment_shift);
	seg->npages = krdma_pages(0, seg->length);

	rc = krdma_seg_pages(seg, &pages);
	if (rc)
		goto out_seg;
	rc = sg_alloc_table_from_pages_segment(&seg->sgt, pages, seg->npages, 0, seg->length,
					       krdma_dma_run(dev), GFP_KERNEL);
	if (rc)
		goto out_pages;
	rc = krdma_dma_map(dev->ib, &seg->sgt, krdma_seg_dir(seg));
	if (rc)
		goto out_table;
	if (!krdma_dma_shared(dev->ib, &seg->sgt)) {
		pr_warn_ratelimited(
			"krdma_mover: peers can't have '%s' through %s: its DMA is bounced, or not coherent\n",
			grant->export->name, dev_name(&dev->ib->dev));
		rc = -EOPNOTSUPP;
		goto out_map;
	}
	room = krdma_mr_pages(&dev->policy, seg->npages);
	seg->mr = ib_alloc_mr(sess->pd, IB_MR_TYPE_MEM_REG, krdma_mr_entries(&dev->policy, room));
	if (IS_ERR(seg->mr)) {
		rc = PTR_ERR(seg->mr);
		goto out_map;
	}
	rc = ib_map_mr_sg(seg->mr, seg->sgt.sgl, seg->sgt.nents, NULL, dev->policy.reg_page);
	if (rc != seg->sgt.nents) {
		rc = rc < 0 ? rc : -EIO;
		goto out_mr;
	}
	rc = xa_err(xa_store(&grant->segs, index, seg, GFP_KERNEL));
	if (rc)
		goto out_mr;

	/* Page-aligned, as what it replaces. */
	seg->mr->iova = start;
	ib_update_fast_reg_key(seg->mr, get_random_u8());
	seg->room = room;
	krdma_stat_add(KRDMA_STAT_SEGMENT_PAGES, room);
	list_add_tail(&seg->node, &sess->segs);
	WRITE_ONCE(sess->nsegs, sess->nsegs + 1);
	WRITE_ONCE(grant->nsegs, grant->nsegs + 1);
	return seg;

out_mr:
	ib_dereg_mr(seg->mr);
out_map:
	krdma_dma_unmap(dev->ib, &seg->sgt, krdma_seg_dir(seg));
out_table:
	sg_free_table(&seg->sgt);
out_pages:
	krdma_seg_put_pages(seg);
out_seg:
	kfree(seg);
	return ERR_PTR(rc);
}

/**
 * krdma_seg_free - end a segment whose key is dead
 * @seg: never registered, or invalidated or deregistered, or of a session without a queue
 *	pair
 *
 * Context: the session's service, or down_work.
 */
void krdma_seg_free(struct krdma_seg *seg)
{
	struct krdma_grant *grant = seg->grant;
	struct krdma_session *sess = grant->sess;
	int rc;

	xa_erase(&grant->segs, seg->index);
	list_del(&seg->node);
	WRITE_ONCE(sess->nsegs, sess->nsegs - 1);
	WRITE_ONCE(grant->nsegs, grant->nsegs - 1);
	krdma_stat_add(KRDMA_STAT_SEGMENT_PAGES, -(s64)seg->room);
	rc = seg->mr ? ib_dereg_mr(seg->mr) : 0;
	if (WARN_ON_ONCE(rc)) {
		/* The key may live: better lose the memory than give it away. */
		pr_err("krdma_mover: %s keeps a registration (%pe), its memory is lost\n",
		       dev_name(&sess->dev->ib->dev), ERR_PTR(rc));
		if (grant->export->pages)
			WRITE_ONCE(grant->export->lost, true); /* krdma_unexport(): -EIO */
		else
			kref_get(&grant->export->ref);
		return;
	}
	krdma_dma_unmap(sess->dev->ib, &seg->sgt, krdma_seg_dir(seg));
	sg_free_table(&seg->sgt);
	krdma_seg_put_pages(seg);
	atomic_dec(&grant->export->segments);
	/* ORDER: who sees this finds the room; krdma_segments_released(). */
	smp_mb__before_atomic();
	atomic_inc(&grant->export->released);
	krdma_stat_inc(KRDMA_STAT_SEGMENTS_RELEASED);
	trace_krdma_segment(sess->serial, grant->id, seg->index, false);
	kfree(seg);
	krdma_segments_wake();
}

/* ---- work requests of the service ---- */

static void krdma_svc_completed(struct krdma_channel *ch, const struct ib_wc *wc)
{
	struct krdma_session *sess = ch->sess;

	krdma_post_completed(ch, wc);
	if (atomic_dec_and_test(&sess->svc_pending))
		complete(&sess->svc_done);
}

static void krdma_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	krdma_svc_completed(cq->cq_context, wc);
}

static void krdma_inv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_seg *seg = container_of(wc->wr_cqe, struct krdma_seg, cqe);

	/* A flushed invalidation leaves the key alive. */
	if (wc->status == IB_WC_SUCCESS)
		seg->valid = false;
	krdma_svc_completed(cq->cq_context, wc);
}

/*
 * Post a chain and wait until all that was posted has completed. Return: how many these are;
 * the error with which the device refused the first; or -ENOTCONN.
 */
static int krdma_svc_post(struct krdma_session *sess, struct ib_send_wr *first, u32 n)
{
	u32 posted;
	int rc;

	reinit_completion(&sess->svc_done);
	atomic_set(&sess->svc_pending, n + 1);
	rc = krdma_post_wrs(sess->ch, first, n);
	posted = max(rc, 0);
	/* Bounded: a session that fails breaks the queue pair, which flushes. */
	if (!atomic_sub_and_test(n - posted + 1, &sess->svc_pending))
		wait_for_completion(&sess->svc_done);
	return krdma_session_is_up(sess) ? rc : -ENOTCONN;
}

/*
 * A driver may say that it has atomics, and not be able to register memory for them: mlx5
 * where umr_modify_atomic_disabled is set (set_reg_wr()), which no attribute tells. Later
 * OPENs get fewer rights; those that have them get no keys, as they would break the channel.
 */
static int krdma_reg_refused(struct krdma_session *sess, u32 access, int rc)
{
	struct krdma_device *dev = sess->dev;
	u32 rights = READ_ONCE(dev->policy.rights);

	if (!(access & IB_ACCESS_REMOTE_ATOMIC) || rc >= 0 || rc == -ENOMEM)
		return -EIO;
	if (rights & KRDMA_RIGHT_ATOMIC)
		pr_warn("krdma_mover: %s registers no memory for atomic operations (%pe)\n",
			dev_name(&dev->ib->dev), ERR_PTR(rc));
	WRITE_ONCE(dev->policy.rights, rights & ~(KRDMA_RIGHT_ATOMIC | KRDMA_RIGHT_ATOMIC_CPU));
	return -EOPNOTSUPP;
}

/**
 * krdma_segs_register - give segments their keys
 * @sess: session
 * @segs: prepared segments
 * @n: their number, 1 to KRDMA_REG_SLOTS
 *
 * Context: the session's service.
 * Return: 0; -EIO or -EOPNOTSUPP if the device has refused some, which are not ->valid then and
 *	can be freed; or -ENOTCONN: keys may be alive then, the queue pair must go
 */
int krdma_segs_register(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	int rc;
	u32 i;

	for (i = 0; i < n; i++) {
		struct krdma_seg *seg = segs[i];
		u32 rights = seg->grant->rights;

		seg->cqe.done = krdma_reg_done;
		memset(&seg->reg, 0, sizeof(seg->reg));
		seg->reg.wr.opcode = IB_WR_REG_MR;
		seg->reg.wr.wr_cqe = &seg->cqe;
		seg->reg.wr.send_flags = IB_SEND_SIGNALED;
		seg->reg.wr.next = i + 1 < n ? &segs[i + 1]->reg.wr : NULL;
		seg->reg.mr = seg->mr;
		seg->reg.key = seg->mr->rkey;
		if (rights & KRDMA_RIGHT_READ)
			seg->reg.access |= IB_ACCESS_REMOTE_READ;
		if (rights & KRDMA_RIGHT_WRITE)
			seg->reg.access |= IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE;
		if (rights & KRDMA_RIGHT_ATOMIC)
			seg->reg.access |= IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_LOCAL_WRITE;
		seg->valid = true;
		krdma_stat_inc(KRDMA_STAT_SEGMENTS_REGISTERED);
		trace_krdma_segment(sess->serial, seg->grant->id, seg->index, true);
	}
	rc = krdma_svc_post(sess, &segs[0]->reg.wr, n);
	if (rc == n || rc == -ENOTCONN)
		return min(rc, 0);
	/* Those before have their keys, and the peer gets them when it asks again. */
	for (i = max(rc, 0); i < n; i++)
		segs[i]->valid = false;
	return krdma_reg_refused(sess, segs[0]->reg.access, rc);
}

/* Each registration has but one key: it ends with it. */
static int krdma_segs_dereg(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		int rc = ib_dereg_mr(segs[i]->mr);

		/* Once more when the queue pair is gone: krdma_seg_free(). */
		if (rc) {
			krdma_session_fail(sess, -ENOTCONN, "a key could not be ended", -1);
			return -ENOTCONN;
		}
		segs[i]->mr = NULL;
		segs[i]->valid = false;
	}
	return 0;
}

/**
 * krdma_segs_invalidate - kill the keys of segments that the peer gave back
 * @sess: session
 * @segs: array of segments
 * @n: their number, 1 to KRDMA_REG_SLOTS
 *
 * Their memory may be touched until krdma_segs_fence().
 *
 * Context: the session's service.
 * Return: 0 when all are dead; else -ENOTCONN: the queue pair must go first
 */
int krdma_segs_invalidate(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	int rc;
	u32 i;

	if (sess->dev->policy.dereg_valid)
		return krdma_segs_dereg(sess, segs, n);
	for (i = 0; i < n; i++) {
		struct krdma_seg *seg = segs[i];

		seg->cqe.done = krdma_inv_done;
		memset(&seg->inv, 0, sizeof(seg->inv));
		seg->inv.opcode = IB_WR_LOCAL_INV;
		seg->inv.wr_cqe = &seg->cqe;
		seg->inv.send_flags = IB_SEND_SIGNALED;
		seg->inv.next = i + 1 < n ? &segs[i + 1]->inv : NULL;
		seg->inv.ex.invalidate_rkey = seg->mr->rkey;
	}
	rc = krdma_svc_post(sess, &segs[0]->inv, n);
	/* A device that has none, though nobody knew. */
	if (rc < 0 && rc != -ENOTCONN)
		return krdma_segs_dereg(sess, segs, n);
	rc = min(rc, 0);
	for (i = 0; i < n; i++)
		if (segs[i]->valid)
			rc = -ENOTCONN;
	return rc;
}

/**
 * krdma_segs_fence - see that nothing is at the memory of segments any more
 * @sess: session
 *
 * Context: the session's service.
 * Return: 0; else -ENOTCONN: the queue pair must go first
 */
int krdma_segs_fence(struct krdma_session *sess)
{
	return sess->ch->iwarp ? krdma_ask_fence(sess) : 0;
}

/* ---- memory that a READ behind WRITEs fills ---- */

/**
 * krdma_void_setup - allocate it
 * @ch: channel that moves data
 *
 * A page, as on iWARP the peer has a key of it.
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_void_setup(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->sess->dev->ib;

	ch->void_buf = (void *)get_zeroed_page(GFP_KERNEL);
	if (!ch->void_buf)
		return -ENOMEM;
	ch->void_dma = ib_dma_map_single(ib, ch->void_buf, PAGE_SIZE, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(ib, ch->void_dma)) {
		free_page((unsigned long)ch->void_buf);
		ch->void_buf = NULL;
		return -ENOMEM;
	}
	return 0;
}

/**
 * krdma_void_free - undo krdma_void_setup
 * @ch: channel without a queue pair, and without a registration of it
 *
 * Context: process.
 */
void krdma_void_free(struct krdma_channel *ch)
{
	if (!ch->void_buf)
		return;
	ib_dma_unmap_single(ch->sess->dev->ib, ch->void_dma, PAGE_SIZE, DMA_FROM_DEVICE);
	free_page((unsigned long)ch->void_buf);
}

/* ---- iWARP: memory that a READ fills ---- */

static void krdma_sink_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	/* Not signalled, so a failure: that of the READ behind it tells it all. */
}

/* What is registered, by a key that is new, and how. */
static int krdma_sink_describe(struct krdma_sink *sink, struct scatterlist *sg, u32 n, u32 reg_page)
{
	if (ib_map_mr_sg(sink->mr, sg, n, NULL, reg_page) != n)
		return -EIO;
	/* As in its first page, as the device sees it. */
	sink->mr->iova &= ~PAGE_MASK;
	ib_update_fast_reg_key(sink->mr, get_random_u8());

	memset(&sink->reg, 0, sizeof(sink->reg));
	sink->reg.wr.opcode = IB_WR_REG_MR;
	sink->reg.wr.wr_cqe = &sink->cqe;
	sink->reg.mr = sink->mr;
	sink->reg.key = sink->mr->rkey;
	sink->reg.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	return 0;
}

/**
 * krdma_sinks_setup - allocate the registrations of a channel's READs
 * @ch: channel on iWARP with a PD, after krdma_void_setup()
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_sinks_free cleans up in either case
 */
int krdma_sinks_setup(struct krdma_channel *ch)
{
	const struct krdma_policy *policy = &ch->sess->dev->policy;
	struct ib_device *ib = ch->sess->dev->ib;
	struct scatterlist *sg;
	u32 i, own = 0;
	int rc;

	/* A chunk, begun in the middle of a page. */
	ch->sink_pages = min_t(u32, policy->segment_pages, KRDMA_CHUNK_MAX / PAGE_SIZE + 1);
	ch->sink = kcalloc(KRDMA_SINKS, sizeof(*ch->sink), GFP_KERNEL);
	/* What is mapped for a READ is unmapped from there; siw maps nothing. */
	if (!ib_uses_virt_dma(ib))
		own = ch->sink_pages;
	ch->sink_sg =
		kvcalloc(max(own * KRDMA_SINKS, ch->sink_pages), sizeof(*ch->sink_sg), GFP_KERNEL);
	if (!ch->sink || !ch->sink_sg)
		return -ENOMEM;
	for (i = 0; i < KRDMA_SINKS; i++) {
		struct krdma_sink *sink = &ch->sink[i];
		struct ib_mr *mr = ib_alloc_mr(ch->sess->pd, IB_MR_TYPE_MEM_REG,
					       krdma_mr_entries(policy, ch->sink_pages));

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		sink->mr = mr;
		sink->sg = ch->sink_sg + i * own;
		sink->cqe.done = krdma_sink_reg_done;
		list_add_tail(&sink->node, &ch->sinks);
	}

	/* The peer may write into the void for as long as the channel lives. */
	ch->void_sink.mr =
		ib_alloc_mr(ch->sess->pd, IB_MR_TYPE_MEM_REG, krdma_mr_entries(policy, 1));
	if (IS_ERR(ch->void_sink.mr)) {
		rc = PTR_ERR(ch->void_sink.mr);
		ch->void_sink.mr = NULL;
		return rc;
	}
	sg = ch->sink_sg;
	sg_init_table(sg, 1);
	sg_dma_address(sg) = ch->void_dma;
	sg_dma_len(sg) = PAGE_SIZE;
	ch->void_sink.cqe.done = krdma_sink_reg_done;
	return krdma_sink_describe(&ch->void_sink, sg, 1, policy->reg_page);
}

/**
 * krdma_sinks_free - undo krdma_sinks_setup
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_sinks_free(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; ch->sink && i < KRDMA_SINKS; i++)
		if (ch->sink[i].mr)
			WARN_ON_ONCE(ib_dereg_mr(ch->sink[i].mr));
	if (ch->void_sink.mr)
		WARN_ON_ONCE(ib_dereg_mr(ch->void_sink.mr));
	kfree(ch->sink);
	kvfree(ch->sink_sg);
}

/* In its page, where the next byte of a transfer is. */
static u32 krdma_local_offset(const struct krdma_transfer *x)
{
	if (x->bvec)
		return offset_in_page(x->bvec[x->at.i].bv_offset + x->at.in);
	return offset_in_page(x->map->mem->offset + x->local[x->at.i].addr + x->at.in);
}

static void krdma_sink_unmap(struct krdma_channel *ch, struct krdma_sink *sink,
			     struct krdma_chunk *c)
{
	u32 i;

	if (!c->mapped)
		return;
	for (i = 0; i < c->mapped; i++)
		krdma_local_unmap(c->transfer, ch->sess->dev->ib, sg_dma_address(&sink->sg[i]),
				  sg_dma_len(&sink->sg[i]));
	c->mapped = 0;
	krdma_transfers_map_again(ch->sess);
}

/**
 * krdma_sink_map - describe what a READ fills, as one registration
 * @ch: channel on iWARP
 * @c: chunk; ->transfer is set, ->sink, ->bytes and one SGE on success. The transfer
 *	stands behind them then
 * @left: bytes that it may have at most
 *
 * The peer gets the key, with the right to write, for this READ alone: the
 * READ's own invalidation ends it where it completes.
 *
 * Context: session->lock held.
 * Return: 0; -EBUSY while all are in use; -EAGAIN if nothing can be mapped now; -EIO
 */
int krdma_sink_map(struct krdma_channel *ch, struct krdma_chunk *c, u32 left)
{
	struct krdma_sink *sink = list_first_entry_or_null(&ch->sinks, struct krdma_sink, node);
	struct krdma_device *dev = ch->sess->dev;
	struct krdma_transfer *x = c->transfer;
	u32 n = 0, end = 0;

	lockdep_assert_held(&ch->sess->lock);
	if (!sink)
		return -EBUSY;
	sg_init_table(sink->sg, ch->sink_pages);
	for (c->bytes = 0; c->bytes < left && n < ch->sink_pages; n++) {
		u32 offset = krdma_local_offset(x), len;
		u64 addr;

		/* One registration has no gap inside. */
		if (n && (offset || offset_in_page(end)))
			break;
		len = krdma_local_next(x, dev, krdma_page_rest(offset, left - c->bytes), &addr);
		if (!len)
			break;
		sg_dma_address(&sink->sg[n]) = addr;
		sg_dma_len(&sink->sg[n]) = len;
		end = offset + len;
		c->bytes += len;
	}
	if (x->bvec)
		c->mapped = n;
	/* What others have mapped may be in the way, and comes back. */
	if (!n)
		return -EAGAIN;
	if (krdma_sink_describe(sink, sink->sg, n, dev->policy.reg_page)) {
		krdma_sink_unmap(ch, sink, c);
		return -EIO;
	}
	c->sge[0].addr = sink->mr->iova;
	c->sge[0].length = c->bytes;
	c->sge[0].lkey = sink->mr->lkey;
	list_del(&sink->node);
	c->sink = sink;
	return 0;
}

/**
 * krdma_sink_put - the key of a READ is dead
 * @ch: channel
 * @c: chunk
 *
 * Context: session->lock held.
 */
void krdma_sink_put(struct krdma_channel *ch, struct krdma_chunk *c)
{
	lockdep_assert_held(&ch->sess->lock);
	krdma_sink_unmap(ch, c->sink, c);
	/* Without a registration it is of no use any more. */
	if (c->sink->mr)
		list_add(&c->sink->node, &ch->sinks);
	c->sink = NULL;
}

/**
 * krdma_sink_dereg - end the key of a READ that failed
 * @c: chunk of a channel without a queue pair
 *
 * Context: process.
 */
void krdma_sink_dereg(struct krdma_chunk *c)
{
	struct ib_mr *mr = c->sink->mr;

	c->sink->mr = NULL;
	/* The key may live: better lose the memory than give it away. */
	if (WARN_ON_ONCE(ib_dereg_mr(mr))) {
		c->transfer->lost = true;
		c->mapped = 0;
	}
}
