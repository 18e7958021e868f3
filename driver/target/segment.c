// SPDX-License-Identifier: GPL-2.0
/*
 * Segments: where a peer gets a key to memory of this host.
 *
 * The order that never bends: invalidate and see it complete, see that nothing
 * is still at it where an invalidation is no fence (rxe: ib_dereg_mr waits for
 * users; iWARP: krdma_rpc_fence), ib_dereg_mr, DMA unmap, give the pages back.
 * Where a device has no invalidation, or refuses it, ib_dereg_mr is in its place: that
 * of a key that is alive ends it. Only there, as some drivers hide its failure.
 * Where the queue pairs of a session are gone, so are all of its PD, and ib_dereg_mr alone
 * ends the key. A fresh key at each registration; no address of this host on
 * the wire: the key's address is the offset in the export.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "target/grant.h"
#include "trace.h"

/* The pages of a segment: borrowed from the export, or taken from its file. */
static int krdma_seg_pages(struct krdma_seg *seg, struct page ***pages)
{
	struct krdma_export *export = seg->grant->export;
	u32 shift = seg->grant->sess->ch->dev->segment_shift;
	pgoff_t first = krdma_segment_start(seg->index, shift) >> PAGE_SHIFT;
	int rc;

	if (export->mem || export->pages) {
		*pages = (export->mem ? export->mem->pages : export->pages) + first;
		return 0;
	}
	rc = krdma_account_charge(export->acct, seg->npages, &seg->grant->error);
	if (rc)
		return rc;
	seg->pages =
		krdma_inject(kvmalloc_array(seg->npages, sizeof(*seg->pages), GFP_KERNEL), NULL);
	rc = seg->pages ? krdma_backing_hold(export, first, seg->npages, seg->pages,
					     &seg->grant->error) :
			  -ENOMEM;
	if (rc) {
		kvfree(seg->pages);
		seg->pages = NULL;
		krdma_account_uncharge(export->acct, seg->npages);
		return rc;
	}
	atomic64_add(seg->npages, &export->pinned_pages);
	*pages = seg->pages;
	return 0;
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
	struct krdma_device *dev = sess->ch->dev;
	struct page **pages;
	struct krdma_seg *seg;
	int rc;

	seg = krdma_inject(kzalloc(sizeof(*seg), GFP_KERNEL), NULL);
	if (!seg)
		return ERR_PTR(-ENOMEM);
	seg->grant = grant;
	seg->index = index;
	seg->length = krdma_segment_length(index, grant->export->length, dev->segment_shift);
	seg->npages = krdma_pages(0, seg->length);

	rc = krdma_seg_pages(seg, &pages);
	if (rc)
		goto out;
	rc = krdma_inject(sg_alloc_table_from_pages_segment(&seg->sgt, pages, seg->npages, 0,
							    seg->length, krdma_dma_run(&dev->dma),
							    GFP_KERNEL),
			  -ENOMEM);
	if (rc)
		goto out;
	rc = krdma_dma_map(dev->ib, &seg->sgt, krdma_seg_dir(seg));
	if (rc)
		goto out;
	if (!krdma_dma_shared(dev->ib, &seg->sgt)) {
		pr_warn_ratelimited(
			"krdma_mover: peers can't have '%s' through %s: its DMA is bounced, or not coherent\n",
			grant->export->name, dev_name(&dev->ib->dev));
		rc = -EOPNOTSUPP;
		goto out_map;
	}
	seg->room = krdma_mr_pages(&dev->policy, seg->npages);
	seg->mr = krdma_inject(ib_alloc_mr(sess->ch->pd, IB_MR_TYPE_MEM_REG,
					   krdma_mr_entries(&dev->policy, seg->room)),
			       ERR_PTR(-ENOMEM));
	if (IS_ERR(seg->mr)) {
		rc = PTR_ERR(seg->mr);
		goto out_map;
	}
	rc = krdma_inject(ib_map_mr_sg(seg->mr, seg->sgt.sgl, seg->sgt.nents, NULL,
				       dev->policy.reg_page),
			  -ENOMEM);
	if (rc != seg->sgt.nents) {
		rc = rc < 0 ? rc : -EIO;
		goto out_mr;
	}
	rc = xa_err(
		krdma_inject(xa_store(&grant->segs, index, seg, GFP_KERNEL), XA_ERROR(-ENOMEM)));
	if (rc)
		goto out_mr;

	/* Page-aligned, as what it replaces. */
	seg->mr->iova = krdma_segment_start(index, dev->segment_shift);
	ib_update_fast_reg_key(seg->mr, get_random_u8());
	krdma_stat_add(KRDMA_STAT_SEGMENT_PAGES, seg->room);
	list_add_tail(&seg->node, &sess->segs);
	WRITE_ONCE(sess->nsegs, sess->nsegs + 1);
	WRITE_ONCE(grant->nsegs, grant->nsegs + 1);
	return seg;

out_mr:
	ib_dereg_mr(seg->mr);
out_map:
	krdma_dma_unmap(dev->ib, &seg->sgt, krdma_seg_dir(seg));
out:
	sg_free_table(&seg->sgt);
	krdma_seg_put_pages(seg);
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
		       dev_name(&sess->ch->dev->ib->dev), ERR_PTR(rc));
		if (grant->export->pages)
			WRITE_ONCE(grant->export->lost, true); /* krdma_unexport(): -EIO */
		else
			kref_get(&grant->export->ref);
		return;
	}
	krdma_dma_unmap(sess->ch->dev->ib, &seg->sgt, krdma_seg_dir(seg));
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

static void krdma_svc_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_seg *seg = container_of(wc->wr_cqe, struct krdma_seg, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;

	/* A flushed invalidation leaves the key alive. */
	if (wc->status == IB_WC_SUCCESS && seg->wr.wr.opcode == IB_WR_LOCAL_INV)
		seg->valid = false;
	krdma_post_completed(ch, wc);
	if (atomic_dec_and_test(&sess->svc_pending))
		complete(&sess->svc_done);
}

/*
 * Post ->wr of each as a chain and wait until all that was posted has completed. Return: how many
 * these are; the error with which the device refused the first; or -ENOTCONN.
 */
static int krdma_svc_post(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	u32 connection = READ_ONCE(sess->ch->connections);
	bool same;
	int rc;
	u32 i;

	for (i = 0; i < n; i++) {
		segs[i]->cqe.done = krdma_svc_done;
		segs[i]->wr.wr.wr_cqe = &segs[i]->cqe;
		segs[i]->wr.wr.send_flags = IB_SEND_SIGNALED;
		segs[i]->wr.wr.next = i + 1 < n ? &segs[i + 1]->wr.wr : NULL;
	}
	reinit_completion(&sess->svc_done);
	atomic_set(&sess->svc_pending, n + 1);
	rc = krdma_post_wrs(sess->ch, &segs[0]->wr.wr, n);
	/* Bounded: a channel that fails breaks the queue pair, which flushes. */
	if (!atomic_sub_and_test(n - max(rc, 0) + 1, &sess->svc_pending))
		wait_for_completion(&sess->svc_done);
	/* Of what was posted on a lost connection, nobody knows what was done. */
	krdma_channel_lock(sess->ch);
	same = sess->ch->state == KRDMA_CHANNEL_UP && sess->ch->connections == connection;
	krdma_channel_unlock(sess->ch);
	return same && krdma_session_is_up(sess) ? rc : -ENOTCONN;
}

/* There is a later connection than @lost, or there will be none. */
static bool krdma_svc_resumed(const struct krdma_session *sess, u32 lost)
{
	return READ_ONCE(sess->ch->connections) != lost || krdma_session_over(sess) ||
	       !READ_ONCE(sess->ch->resumes);
}

/*
 * The connection was lost under the service. Wait for the next one: then the queue pair is gone on
 * which it may have given keys, or killed some. Idle, as that may last longer than a task may hang.
 * Return: 0 or -ENOTCONN: the session ends
 */
static int krdma_svc_resume(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	u32 lost;
	bool up;

	krdma_channel_lock(ch);
	lost = ch->connections;
	up = ch->state == KRDMA_CHANNEL_UP;
	krdma_channel_unlock(ch);
	if (!up)
		wait_event_idle(sess->wait, krdma_svc_resumed(sess, lost));
	up |= READ_ONCE(ch->connections) != lost;
	return up && !krdma_session_over(sess) ? 0 : -ENOTCONN;
}

/* Each registration has but one key: it ends with it. */
static int krdma_segs_dereg(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		int rc;

		if (!segs[i]->valid)
			continue;
		rc = ib_dereg_mr(segs[i]->mr);
		/* Once more when the queue pair is gone: krdma_seg_free(). */
		if (rc) {
			krdma_session_fail(sess, -ENOTCONN, "a key could not be invalidated", -1);
			return -ENOTCONN;
		}
		segs[i]->mr = NULL;
		segs[i]->valid = false;
	}
	return 0;
}

/*
 * A driver may say that it has atomics, and not be able to register memory for them: mlx5
 * where umr_modify_atomic_disabled is set (set_reg_wr()), which no attribute tells. Later
 * OPENs get fewer rights; those that have them get no keys, as they would break the channel.
 */
static int krdma_reg_refused(struct krdma_session *sess, u32 access, int rc)
{
	struct krdma_device *dev = sess->ch->dev;
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
 *	can be freed; -EAGAIN if the connection was lost, and there is another: the same; or
 *	-ENOTCONN: keys may be alive then, the queue pair must go
 */
int krdma_segs_register(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	int rc;
	u32 i;

	for (i = 0; i < n; i++) {
		struct krdma_seg *seg = segs[i];
		u32 rights = seg->grant->rights;

		seg->wr = (struct ib_reg_wr){
			.wr.opcode = IB_WR_REG_MR,
			.mr = seg->mr,
			.key = seg->mr->rkey,
			.access = (rights & KRDMA_RIGHT_READ ? IB_ACCESS_REMOTE_READ : 0) |
				  (rights & KRDMA_RIGHT_WRITE ? IB_ACCESS_REMOTE_WRITE : 0) |
				  (rights & KRDMA_RIGHT_ATOMIC ? IB_ACCESS_REMOTE_ATOMIC : 0) |
				  (krdma_rights_change(rights) ? IB_ACCESS_LOCAL_WRITE : 0),
		};
		seg->valid = true;
		krdma_stat_inc(KRDMA_STAT_SEGMENTS_REGISTERED);
		trace_krdma_segment(sess->serial, seg->grant->id, seg->index, true);
	}
	rc = krdma_svc_post(sess, segs, n);
	if (rc == n)
		return 0;
	/* Nobody knows these keys: they end with their registrations, which are made anew. */
	if (rc == -ENOTCONN)
		return krdma_svc_resume(sess) ?: krdma_segs_dereg(sess, segs, n) ?: -EAGAIN;
	/* Those before have their keys, and the peer gets them when it requests them again. */
	for (i = max(rc, 0); i < n; i++)
		segs[i]->valid = false;
	return krdma_reg_refused(sess, segs[0]->wr.access, rc);
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

	if (sess->ch->dev->policy.dereg_valid)
		return krdma_segs_dereg(sess, segs, n);
	for (i = 0; i < n; i++)
		segs[i]->wr = (struct ib_reg_wr){
			.wr.opcode = IB_WR_LOCAL_INV,
			.wr.ex.invalidate_rkey = segs[i]->mr->rkey,
		};
	rc = krdma_svc_post(sess, segs, n);
	/* Those that it has not reached. */
	if (rc == -ENOTCONN)
		return krdma_svc_resume(sess) ?: krdma_segs_dereg(sess, segs, n);
	/* A device that has none, though nobody knew. */
	if (rc < 0)
		return krdma_segs_dereg(sess, segs, n);
	rc = 0;
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
	return sess->ch->iwarp ? krdma_rpc_fence(sess) : 0;
}
