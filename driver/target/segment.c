// SPDX-License-Identifier: GPL-2.0
/*
 * Segments: where a peer gets a key to memory of this host.
 *
 * The order that never bends: invalidate and see it complete, see that nothing
 * is still at it where an invalidation is no fence (rxe: ib_dereg_mr waits for
 * users; iWARP: krdma_rpc_fence), ib_dereg_mr, DMA unmap, give the pages back.
 * Where a device has no invalidation, or refuses it, ib_dereg_mr is in its place: that
 * of a key that is alive ends it. Only there, as some drivers hide its failure.
 * Where the queue pairs of a session are gone, so are all of its PDs, and ib_dereg_mr alone
 * ends the key. A fresh key at each registration; no address of this host on
 * the wire: the key's address is the offset in the export.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "target/grant.h"
#include "trace.h"

/* Have the pages of a segment: borrowed from the export, or taken from its file. */
static int krdma_seg_pages(struct krdma_seg *seg)
{
	struct krdma_export *export = seg->grant->export;
	u32 shift = seg->grant->sess->segment_shift;
	pgoff_t first = krdma_segment_start(seg->index, shift) >> PAGE_SHIFT;
	int rc;

	if (export->mem || export->pages)
		return 0;
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

/* The pages that a segment has. */
static struct page **krdma_seg_held(const struct krdma_seg *seg)
{
	struct krdma_export *export = seg->grant->export;
	struct page **all = export->mem ? export->mem->pages : export->pages;
	u64 start = krdma_segment_start(seg->index, seg->grant->sess->segment_shift);

	return seg->pages ?: all + (start >> PAGE_SHIFT);
}

/**
 * krdma_seg_key_prepare - map and describe the memory of a segment for a path
 * @seg: segment, with pages, without a key for the path
 * @path: path, with a device
 *
 * Context: the session's service.
 * Return: 0 or a negative errno
 */
int krdma_seg_key_prepare(struct krdma_seg *seg, struct krdma_path *path)
{
	struct krdma_device *dev = path->dev;
	struct krdma_seg_key *key;
	int rc;

	key = krdma_inject(kzalloc(sizeof(*key), GFP_KERNEL), NULL);
	if (!key)
		return -ENOMEM;
	key->seg = seg;
	key->path = path;
	rc = krdma_inject(sg_alloc_table_from_pages_segment(&key->sgt, krdma_seg_held(seg),
							    seg->npages, 0, seg->length,
							    krdma_dma_run(&dev->dma), GFP_KERNEL),
			  -ENOMEM);
	if (rc)
		goto out;
	rc = krdma_dma_map(dev->ib, &key->sgt, krdma_seg_dir(seg));
	if (rc)
		goto out;
	if (!krdma_dma_shared(dev->ib, &key->sgt)) {
		pr_warn_ratelimited(
			"krdma_mover: peers can't have '%s' through %s: its DMA is bounced, or not coherent\n",
			seg->grant->export->name, dev_name(&dev->ib->dev));
		rc = -EOPNOTSUPP;
		goto out_map;
	}
	key->room = krdma_mr_pages(&dev->policy, seg->npages);
	key->mr = krdma_inject(ib_alloc_mr(path->pd, IB_MR_TYPE_MEM_REG,
					   krdma_mr_entries(&dev->policy, key->room)),
			       ERR_PTR(-ENOMEM));
	if (IS_ERR(key->mr)) {
		rc = PTR_ERR(key->mr);
		goto out_map;
	}
	rc = krdma_inject(ib_map_mr_sg(key->mr, key->sgt.sgl, key->sgt.nents, NULL,
				       dev->policy.reg_page),
			  -ENOMEM);
	if (rc != key->sgt.nents) {
		rc = rc < 0 ? rc : -EIO;
		goto out_mr;
	}
	/* Page-aligned, as what it replaces. */
	key->mr->iova = krdma_segment_start(seg->index, seg->grant->sess->segment_shift);
	ib_update_fast_reg_key(key->mr, get_random_u8());
	krdma_stat_add(KRDMA_STAT_SEGMENT_PAGES, key->room);
	seg->keys[path->index] = key;
	return 0;

out_mr:
	ib_dereg_mr(key->mr);
out_map:
	krdma_dma_unmap(dev->ib, &key->sgt, krdma_seg_dir(seg));
out:
	sg_free_table(&key->sgt);
	kfree(key);
	return rc;
}

/* A key is dead. Return: false if its memory has to be lost with it */
static bool krdma_seg_key_free(struct krdma_seg_key *key)
{
	struct ib_device *ib = key->path->dev->ib;
	struct krdma_seg *seg = key->seg;
	int rc = key->mr ? ib_dereg_mr(key->mr) : 0;

	krdma_stat_add(KRDMA_STAT_SEGMENT_PAGES, -(s64)key->room);
	seg->keys[key->path->index] = NULL;
	if (WARN_ON_ONCE(rc)) {
		pr_err("krdma_mover: %s keeps a registration (%pe), its memory is lost\n",
		       dev_name(&ib->dev), ERR_PTR(rc));
		return false;
	}
	krdma_dma_unmap(ib, &key->sgt, krdma_seg_dir(seg));
	sg_free_table(&key->sgt);
	kfree(key);
	return true;
}

/**
 * krdma_seg_prepare - take, map and describe the memory of a segment
 * @grant: grant
 * @index: segment of it, inside the export
 * @path: path, with a device
 *
 * The segment is on the session's list and in the grant's table afterwards,
 * with no key yet.
 *
 * Context: the session's service.
 * Return: the segment, or an ERR_PTR
 */
struct krdma_seg *krdma_seg_prepare(struct krdma_grant *grant, u64 index, struct krdma_path *path)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_seg *seg;
	int rc;

	seg = krdma_inject(kzalloc(sizeof(*seg), GFP_KERNEL), NULL);
	if (!seg)
		return ERR_PTR(-ENOMEM);
	seg->grant = grant;
	seg->index = index;
	seg->length = krdma_segment_length(index, grant->length, sess->segment_shift);
	seg->npages = krdma_pages(0, seg->length);

	rc = krdma_seg_pages(seg) ?: krdma_seg_key_prepare(seg, path);
	if (rc)
		goto out;
	rc = xa_err(
		krdma_inject(xa_store(&grant->segs, index, seg, GFP_KERNEL), XA_ERROR(-ENOMEM)));
	if (rc)
		goto out_key;
	list_add_tail(&seg->node, &sess->segs);
	WRITE_ONCE(sess->nsegs, sess->nsegs + 1);
	WRITE_ONCE(grant->nsegs, grant->nsegs + 1);
	return seg;

out_key:
	krdma_seg_key_free(seg->keys[path->index]);
out:
	krdma_seg_put_pages(seg);
	kfree(seg);
	return ERR_PTR(rc);
}

/**
 * krdma_seg_free - end a segment whose keys are dead
 * @seg: never registered, or invalidated or deregistered, or of a session without a queue
 *	pair
 *
 * Context: the session's service, or down_work.
 */
void krdma_seg_free(struct krdma_seg *seg)
{
	struct krdma_grant *grant = seg->grant;
	struct krdma_session *sess = grant->sess;
	bool all = !seg->lost;
	u32 p;

	xa_erase(&grant->segs, seg->index);
	list_del(&seg->node);
	WRITE_ONCE(sess->nsegs, sess->nsegs - 1);
	WRITE_ONCE(grant->nsegs, grant->nsegs - 1);
	for (p = 0; p < KRDMA_PATHS_MAX; p++)
		if (seg->keys[p])
			all &= krdma_seg_key_free(seg->keys[p]);
	if (!all) {
		/* The key may live: better lose the memory than give it away. */
		if (grant->export->pages)
			WRITE_ONCE(grant->export->lost, true); /* krdma_unexport(): -EIO */
		else
			kref_get(&grant->export->ref);
		return;
	}
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
	struct krdma_seg_key *key = container_of(wc->wr_cqe, struct krdma_seg_key, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;

	/* A flushed invalidation leaves the key alive. */
	if (wc->status == IB_WC_SUCCESS && key->wr.wr.opcode == IB_WR_LOCAL_INV)
		key->valid = false;
	krdma_post_completed(ch, wc);
	if (atomic_dec_and_test(&sess->svc_pending))
		krdma_session_svc_done(sess);
}

/* A channel of a path that registrations can be posted on, and its connection; or NULL. */
static struct krdma_channel *krdma_svc_channel(struct krdma_session *sess,
					       const struct krdma_path *path, u32 *connection)
{
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		bool up;

		krdma_channel_lock(ch);
		up = ch->path == path && ch->state == KRDMA_CHANNEL_UP;
		*connection = ch->connections;
		krdma_channel_unlock(ch);
		if (up)
			return ch;
	}
	return NULL;
}

/* The queue pair of a connection that was up is gone, or the session is about to end. */
static bool krdma_svc_gone(const struct krdma_channel *ch, u32 connection)
{
	return krdma_connection_gone(ch, connection) || krdma_session_over(ch->sess);
}

/* What was posted on a connection has completed, or will not. */
static bool krdma_svc_over(const struct krdma_channel *ch, u32 connection)
{
	return completion_done(&ch->sess->svc_done) || krdma_connection_gone(ch, connection);
}

/* A channel of a path is up, or it has no queue pair; or the session is about to end. */
static bool krdma_svc_settled(const struct krdma_session *sess, const struct krdma_path *path)
{
	struct krdma_channel *ch;
	u32 i;

	if (krdma_session_over(sess) || krdma_path_up(sess, path))
		return true;
	krdma_for_each_channel(ch, sess, i)
		if (READ_ONCE(ch->path) == path && READ_ONCE(ch->state) != KRDMA_CHANNEL_DEAD)
			return false;
	return true;
}

/*
 * Post ->wr of each as a chain and wait until all that was posted has completed; up to @wait_ms for
 * a channel that is connecting. Return: how many these are; the error with which the device
 * refused the first; -EAGAIN: no channel of the path is up, or what was posted may have been done
 * or not, on a queue pair that is gone by now; -ETIMEDOUT: some still connect; or -ENOTCONN.
 */
static int krdma_svc_post(struct krdma_session *sess, struct krdma_seg_key **keys, u32 n,
			  u32 wait_ms)
{
	long left = msecs_to_jiffies(wait_ms);
	struct krdma_path *path = keys[0]->path;
	struct krdma_channel *ch;
	u32 connection, i;
	bool same;
	int rc;

	while (!(ch = krdma_svc_channel(sess, path, &connection))) {
		left = wait_event_idle_timeout(sess->wait, krdma_svc_settled(sess, path), left);
		if (krdma_session_over(sess))
			return -ENOTCONN;
		if (!left)
			return -ETIMEDOUT;
		if (!krdma_path_up(sess, path))
			return -EAGAIN;
	}
	for (i = 0; i < n; i++) {
		keys[i]->cqe.done = krdma_svc_done;
		keys[i]->wr.wr.wr_cqe = &keys[i]->cqe;
		keys[i]->wr.wr.send_flags = IB_SEND_SIGNALED;
		keys[i]->wr.wr.next = i + 1 < n ? &keys[i + 1]->wr.wr : NULL;
	}
	reinit_completion(&sess->svc_done);
	atomic_set(&sess->svc_pending, n + 1);
	rc = krdma_post_wrs(ch, connection, &keys[0]->wr.wr, n);
	/* Bounded: a channel that fails breaks the queue pair, which flushes; siw not all. */
	if (!atomic_sub_and_test(n - max(rc, 0) + 1, &sess->svc_pending))
		wait_event_idle(sess->wait, krdma_svc_over(ch, connection));
	krdma_channel_lock(ch);
	same = ch->state == KRDMA_CHANNEL_UP && ch->connections == connection;
	krdma_channel_unlock(ch);
	if (krdma_session_over(sess))
		return -ENOTCONN;
	if (same)
		return rc;
	/* ends_work takes it apart. */
	wait_event_idle(sess->wait, krdma_svc_gone(ch, connection));
	return krdma_session_over(sess) ? -ENOTCONN : -EAGAIN;
}

static bool krdma_svc_back(struct krdma_session *sess, const struct krdma_path *path)
{
	struct krdma_channel *ch = READ_ONCE(sess->ch);

	return krdma_session_over(sess) || !READ_ONCE(ch->resumes) || READ_ONCE(path->gone) ||
	       krdma_service_left(sess) || krdma_path_up(sess, path) ||
	       (READ_ONCE(ch->path) != path && READ_ONCE(ch->state) == KRDMA_CHANNEL_UP);
}

/*
 * No channel of the path that is served is up: wait for one, unless control goes over another
 * path, or the device of another one goes: then there is other work. Idle, as that may last
 * longer than a task may hang.
 * Return: 0, -EAGAIN, or -ENOTCONN: the session ends
 */
static int krdma_svc_wait(struct krdma_session *sess, const struct krdma_path *path)
{
	wait_event_idle(sess->wait, krdma_svc_back(sess, path));
	if (krdma_session_over(sess))
		return -ENOTCONN;
	return krdma_path_up(sess, path) ? 0 : -EAGAIN;
}

/* Each registration has but one key: it ends with it. */
static int krdma_segs_dereg(struct krdma_session *sess, struct krdma_seg_key **keys, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		int rc;

		if (!keys[i]->valid)
			continue;
		rc = ib_dereg_mr(keys[i]->mr);
		/* Once more when the queue pair is gone: krdma_seg_free(). */
		if (rc) {
			krdma_session_fail(sess, -ENOTCONN, "a key could not be invalidated", -1);
			return -ENOTCONN;
		}
		keys[i]->mr = NULL;
		keys[i]->valid = false;
	}
	return 0;
}

/*
 * A driver may say that it has atomics, and not be able to register memory for them: mlx5
 * where umr_modify_atomic_disabled is set (set_reg_wr()), which no attribute tells. Later
 * OPENs get fewer rights; those that have them get no keys, as they would break the channel.
 */
static int krdma_reg_refused(struct krdma_session *sess, struct krdma_device *dev, u32 access,
			     int rc)
{
	const u32 atomic = KRDMA_RIGHT_ATOMIC | KRDMA_RIGHT_ATOMIC_CPU;

	if (!(access & IB_ACCESS_REMOTE_ATOMIC) || rc >= 0 || rc == -ENOMEM)
		return -EIO;
	if (krdma_device_rights(dev) & KRDMA_RIGHT_ATOMIC)
		pr_warn("krdma_mover: %s registers no memory for atomic operations (%pe)\n",
			dev_name(&dev->ib->dev), ERR_PTR(rc));
	WRITE_ONCE(dev->refused, atomic);
	WRITE_ONCE(sess->rights, sess->rights & ~atomic);
	return -EOPNOTSUPP;
}

/**
 * krdma_segs_register - give segments their keys for a path
 * @sess: session
 * @path: the path
 * @keys: prepared
 * @n: their number, 1 to KRDMA_REG_SLOTS
 *
 * Context: the session's service.
 * Return: 0; -EIO or -EOPNOTSUPP if the device has refused some, which are not ->valid then and
 *	can be freed; -EAGAIN if the connection was lost, or there is none: the same; or
 *	-ENOTCONN: keys may be alive then, the queue pair must go
 */
int krdma_segs_register(struct krdma_session *sess, struct krdma_path *path,
			struct krdma_seg_key **keys, u32 n)
{
	int rc;
	u32 i;

	for (i = 0; i < n; i++) {
		struct krdma_seg_key *key = keys[i];
		struct krdma_grant *grant = key->seg->grant;
		u32 rights = grant->rights;

		key->wr = (struct ib_reg_wr){
			.wr.opcode = IB_WR_REG_MR,
			.mr = key->mr,
			.key = key->mr->rkey,
			.access = (rights & KRDMA_RIGHT_READ ? IB_ACCESS_REMOTE_READ : 0) |
				  (rights & KRDMA_RIGHT_WRITE ? IB_ACCESS_REMOTE_WRITE : 0) |
				  (rights & KRDMA_RIGHT_ATOMIC ? IB_ACCESS_REMOTE_ATOMIC : 0) |
				  (krdma_rights_change(rights) ? IB_ACCESS_LOCAL_WRITE : 0),
		};
		key->valid = true;
		krdma_stat_inc(KRDMA_STAT_SEGMENTS_REGISTERED);
		trace_krdma_segment(sess->serial, grant->id, key->seg->index, true);
	}
	/* One is established in that time or taken apart; but the peer may go on with others. */
	rc = krdma_svc_post(sess, keys, n, KRDMA_ESTABLISH_MS);
	if (rc == n)
		return 0;
	/* Nobody knows these keys: they end with their registrations, which are made anew. */
	if (rc == -ETIMEDOUT)
		return krdma_segs_dereg(sess, keys, n) ?: -EAGAIN;
	if (rc == -EAGAIN)
		return krdma_segs_dereg(sess, keys, n) ?: krdma_svc_wait(sess, path) ?: -EAGAIN;
	if (rc == -ENOTCONN)
		return rc;
	/* Those before have their keys, and the peer gets them when it requests them again. */
	for (i = max(rc, 0); i < n; i++)
		keys[i]->valid = false;
	return krdma_reg_refused(sess, path->dev, keys[0]->wr.access, rc);
}

/* Kill keys of one path. */
static int krdma_seg_keys_invalidate(struct krdma_session *sess, struct krdma_seg_key **keys, u32 n)
{
	int rc;
	u32 i;

	if (keys[0]->path->dev->policy.dereg_valid)
		return krdma_segs_dereg(sess, keys, n);
	for (i = 0; i < n; i++)
		keys[i]->wr = (struct ib_reg_wr){
			.wr.opcode = IB_WR_LOCAL_INV,
			.wr.ex.invalidate_rkey = keys[i]->mr->rkey,
		};
	rc = krdma_svc_post(sess, keys, n, KRDMA_RECLAIM_MS);
	/* ORDER: their queue pairs are there, and some drivers hide that ib_dereg_mr() fails. */
	if (rc == -ETIMEDOUT) {
		krdma_session_fail(sess, rc, "keys can't be invalidated: no channel is completed",
				   KRDMA_WIRE_REASON_TIMEOUT);
		return -ENOTCONN;
	}
	if (rc == -ENOTCONN)
		return rc;
	/* Those that it has not reached; or a device that has none, though nobody knew. */
	if (rc < 0)
		return krdma_segs_dereg(sess, keys, n);
	rc = 0;
	for (i = 0; i < n; i++)
		if (keys[i]->valid)
			rc = -ENOTCONN;
	return rc;
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
	struct krdma_seg_key *keys[KRDMA_REG_SLOTS];
	u32 i, p, some;
	int rc = 0;

	for (p = 0; p < KRDMA_PATHS_MAX && !rc; p++) {
		for (i = 0, some = 0; i < n; i++)
			if (segs[i]->keys[p] && segs[i]->keys[p]->valid)
				keys[some++] = segs[i]->keys[p];
		if (some)
			rc = krdma_seg_keys_invalidate(sess, keys, some);
	}
	return rc;
}

/**
 * krdma_seg_unregistered - a segment has got no key for a path
 * @seg: segment, gone if it has none for another path and is not held
 * @path: path
 *
 * Context: the session's service.
 */
void krdma_seg_unregistered(struct krdma_seg *seg, struct krdma_path *path)
{
	struct krdma_seg_key *key = seg->keys[path->index];

	if (!krdma_seg_valid(seg) && !seg->grant->held)
		krdma_seg_free(seg);
	else if (key && !key->valid && !krdma_seg_key_free(key))
		seg->lost = true;
}

/**
 * krdma_segs_path_gone - the device of a path goes: end what is registered for it
 * @sess: session
 * @path: path without a channel, so that no key can be used
 *
 * Segments that have a key for another path stay, and those that are held.
 *
 * Context: the session's service.
 */
void krdma_segs_path_gone(struct krdma_session *sess, struct krdma_path *path)
{
	struct krdma_seg *seg, *next;

	list_for_each_entry_safe(seg, next, &sess->segs, node) {
		struct krdma_seg_key *key = seg->keys[path->index];

		if (key && !krdma_seg_key_free(key))
			seg->lost = true;
		/* A RECALL under way has it, or a SEGS for another path; or it keeps its memory. */
		if (key && !seg->recalled && !seg->busy && !seg->grant->held &&
		    !krdma_seg_valid(seg))
			krdma_seg_free(seg);
	}
	krdma_path_release(path);
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
	return sess->iwarp ? krdma_rpc_fence(sess) : 0;
}
