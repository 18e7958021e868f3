// SPDX-License-Identifier: GPL-2.0
/*
 * Grants: an export opened by one session, and the segments of it that the peer has
 * keys of.
 *
 * Grants and segments of a session are touched by its service alone (service.c, and
 * down_work when that can't run any more), so they need no lock. Others only leave a
 * note: grant->revoke, grant->shed.
 *
 * Limits: export->max_segments over all peers, KRDMA_SESSION_SEGMENTS of one.
 * At a limit another user who has clearly more of that export's segments is asked
 * to shed some, and the coldest of the session itself are recalled; if it has none, it
 * waits until the session with most of them has shed some.
 */
#include <linux/slab.h>

#include "krdma.h"

static DECLARE_WAIT_QUEUE_HEAD(krdma_segments_wait);

/* A service that waits for another session to shed segments. */
struct krdma_shedding {
	struct list_head node; /* krdma_sheddings */
	struct krdma_grant *grant;
};

static LIST_HEAD(krdma_sheddings); /* krdma_exports_lock */

/**
 * krdma_segments_wake - a segment was released, or a session goes down
 *
 * Context: any.
 */
void krdma_segments_wake(void)
{
	wake_up_all(&krdma_segments_wait);
}

/* ---- segments given back ---- */

/* The peer does not use these any more: kill their keys, give back the memory. */
static int krdma_segments_release(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	u32 i;
	int rc;

	rc = krdma_segs_invalidate(sess, segs, n) ?: krdma_segs_fence(sess);
	for (i = 0; !rc && i < n; i++)
		krdma_seg_free(segs[i]);
	return rc;
}

/* Coldest segments of a grant that have a key and are not asked for just now. */
static u32 krdma_segments_coldest(struct krdma_grant *grant, struct krdma_seg **segs, u32 most)
{
	struct krdma_seg *seg;
	u32 n = 0;

	list_for_each_entry(seg, &grant->sess->segs, node) {
		if (n == most)
			break;
		if (seg->grant == grant && seg->valid && !seg->busy)
			segs[n++] = seg;
	}
	return n;
}

/* RECALL or REVOKE. Without the right answer the keys are in use: the session ends. */
static int krdma_grant_ask(struct krdma_grant *grant, struct krdma_msg *msg)
{
	struct krdma_session *sess = grant->sess;
	int rc;

	rc = krdma_ask_wait(sess, msg, 2 * KRDMA_QUESTION_MS * sess->ch->timeout_scale, NULL, NULL);
	if (!rc && (msg->grant.grant != grant->id || msg->grant.generation != grant->generation))
		rc = -EPROTO;
	if (rc == -ENOMEM)
		krdma_session_fail(sess, rc, "no memory to take keys back",
				   KRDMA_WIRE_REASON_LIMIT);
	else if (rc && rc != -ENOTCONN)
		krdma_session_protocol(sess, "keys are not given back");
	return rc;
}

/**
 * krdma_grant_recall - take back the segments used longest ago
 * @grant: grant
 * @want: how many, at most; no more than KRDMA_REG_SLOTS are
 *
 * Context: the session's service.
 * Return: how many, -ENOMEM: nobody was asked, -ENOTCONN
 */
int krdma_grant_recall(struct krdma_grant *grant, u32 want)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_seg *segs[KRDMA_REG_SLOTS];
	struct krdma_msg *msg;
	u32 i, n;
	int rc;

	n = krdma_segments_coldest(grant, segs, min_t(u32, want, KRDMA_REG_SLOTS));
	if (!n)
		return 0;
	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	msg->type = KRDMA_WIRE_RECALL;
	msg->recall.grant = grant->id;
	msg->recall.generation = grant->generation;
	msg->recall.count = n;
	for (i = 0; i < n; i++)
		msg->recall.index[i] = segs[i]->index;
	rc = krdma_grant_ask(grant, msg);
	kfree(msg);
	if (rc)
		return -ENOTCONN;
	krdma_stat_add(KRDMA_STAT_RECALLS, n);
	atomic64_add(n, &grant->export->recalls);
	return krdma_segments_release(sess, segs, n) ?: n;
}

/* ---- grants ---- */

/**
 * krdma_grant_free - the end of a grant
 * @grant: without segments
 *
 * Context: the session's service, or down_work.
 */
void krdma_grant_free(struct krdma_grant *grant)
{
	struct krdma_session *sess = grant->sess;

	krdma_sender_close(grant);
	mutex_lock(&krdma_exports_lock);
	list_del(&grant->export_node);
	mutex_unlock(&krdma_exports_lock);
	xa_erase(&sess->grants, grant->id);
	WRITE_ONCE(sess->ngrants, sess->ngrants - 1);
	xa_destroy(&grant->segs);
	krdma_export_put(grant->export);
	kfree(grant);
}

/**
 * krdma_grant_end - end a grant that the peer has stopped using
 * @grant: grant; gone if 0 is returned
 *
 * Context: the session's service.
 * Return: 0 or -ENOTCONN
 */
int krdma_grant_end(struct krdma_grant *grant)
{
	struct krdma_seg *segs[KRDMA_REG_SLOTS], *seg;
	struct krdma_session *sess = grant->sess;
	unsigned long i;
	u32 n;
	int rc = 0;

	while (!rc && (n = krdma_segments_coldest(grant, segs, KRDMA_REG_SLOTS)))
		rc = krdma_segs_invalidate(sess, segs, n);
	/* One round trip for all of them. */
	if (!rc && grant->nsegs)
		rc = krdma_segs_fence(sess);
	if (rc)
		return rc;
	xa_for_each(&grant->segs, i, seg)
		krdma_seg_free(seg);
	krdma_grant_free(grant);
	return 0;
}

/**
 * krdma_grant_revoke - have the peer stop using a grant, and end it
 * @grant: grant; gone unless the session is down
 *
 * Context: the session's service.
 */
void krdma_grant_revoke(struct krdma_grant *grant)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	int rc;

	/* A revocation has nobody else to report a failure to. */
	if (!msg) {
		krdma_session_fail(grant->sess, -ENOMEM, "no memory for a revocation",
				   KRDMA_WIRE_REASON_LIMIT);
		return;
	}
	msg->type = KRDMA_WIRE_REVOKE;
	msg->grant.grant = grant->id;
	msg->grant.generation = grant->generation;
	rc = krdma_grant_ask(grant, msg);
	kfree(msg);
	krdma_stat_inc(KRDMA_STAT_REVOKES);
	if (!rc)
		krdma_grant_end(grant);
}

/**
 * krdma_grants_release - end all grants of a session
 * @sess: session without a queue pair, so that no key can be used
 *
 * Context: down_work.
 */
void krdma_grants_release(struct krdma_session *sess)
{
	struct krdma_request *req, *tmp;
	struct krdma_seg *seg, *next;
	struct krdma_grant *grant;
	unsigned long i;

	list_for_each_entry_safe(seg, next, &sess->segs, node)
		krdma_seg_free(seg);
	xa_for_each(&sess->grants, i, grant)
		krdma_grant_free(grant);
	list_for_each_entry_safe(req, tmp, &sess->requests, node) {
		krdma_post_tx_put(sess->ch, req->tx);
		kfree(req->msg);
		kfree(req);
	}
	INIT_LIST_HEAD(&sess->requests);
}

/**
 * krdma_grant_lacks - write to the log what a peer asked for in vain
 * @grant: grant, whose ->error says it if the cause is on this host
 *
 * Once a minute for each export: the owner sees nothing of it otherwise.
 *
 * Context: the session's service.
 */
void krdma_grant_lacks(struct krdma_grant *grant)
{
	struct krdma_export *export = grant->export;

	if (grant->error.err && __ratelimit(&export->told))
		pr_notice_ratelimited("krdma_mover: '%s' can't be had by %pISpc: %s\n",
				      export->name, &grant->sess->dst, grant->error.text);
}

/* ---- room for one more segment ---- */

/* Others wait for segments of this session. */
static bool krdma_grants_noted(struct krdma_session *sess)
{
	struct krdma_grant *grant;
	unsigned long i;

	xa_for_each(&sess->grants, i, grant)
		if (READ_ONCE(grant->shed))
			return true;
	return false;
}

static bool krdma_segment_try(struct krdma_grant *grant)
{
	return grant->sess->nsegs < KRDMA_SESSION_SEGMENTS &&
	       atomic_add_unless(&grant->export->segments, 1, grant->export->max_segments);
}

static u32 krdma_segments_released(const struct krdma_export *export)
{
	return atomic_read_acquire(&export->released);
}

/* Of the other grants of the export, or those of other users only, the one with most segments. */
static struct krdma_grant *krdma_segments_most(struct krdma_grant *grant, bool others)
{
	struct krdma_grant *other, *most = NULL;
	u32 n = 0;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(other, &grant->export->grants, export_node) {
		if (other == grant || READ_ONCE(other->nsegs) <= n ||
		    (others && krdma_session_same_user(other->sess, grant->sess)))
			continue;
		most = other;
		n = READ_ONCE(other->nsegs);
	}
	return most;
}

/*
 * How many segments of the export another user should give to this one, to have as many:
 * 0 unless it has an eighth more, else the two would take them from each other all the time.
 */
static u32 krdma_segments_surplus(struct krdma_grant *grant)
{
	struct krdma_grant *other, *most;
	u32 mine = 0, theirs = 0;

	mutex_lock(&krdma_exports_lock);
	most = krdma_segments_most(grant, true);
	if (most) {
		list_for_each_entry(other, &grant->export->grants, export_node) {
			if (!READ_ONCE(other->nsegs))
				continue;
			if (krdma_session_same_user(other->sess, grant->sess))
				mine += READ_ONCE(other->nsegs);
			else if (krdma_session_same_user(other->sess, most->sess))
				theirs += READ_ONCE(other->nsegs);
		}
	}
	mutex_unlock(&krdma_exports_lock);
	return theirs > mine + mine / 8 + 1 ? (theirs - mine) / 2 : 0;
}

/* Ask the session that has most segments of the export to shed some. */
static bool krdma_segment_shed(struct krdma_grant *grant, u32 n, bool others)
{
	struct krdma_grant *most;
	bool more = false;

	mutex_lock(&krdma_exports_lock);
	most = krdma_segments_most(grant, others);
	if (most) {
		more = most->shed < n;
		most->shed = max(most->shed, n);
		krdma_session_serve(most->sess);
	}
	mutex_unlock(&krdma_exports_lock);
	/* Its service may itself be waiting for room; who asks again has woken it before. */
	if (more)
		krdma_segments_wake();
	return most;
}

/* Those who can shed need a worker too; and no user and no host takes all places for waiting. */
static bool krdma_shedding_begin(struct krdma_shedding *wait, struct krdma_grant *grant)
{
	u32 user = 1, host = 1, all = 1;
	struct krdma_shedding *other;
	bool ok;

	wait->grant = grant;
	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(other, &krdma_sheddings, node) {
		all++;
		host += krdma_session_same_host(other->grant->sess, grant->sess);
		user += krdma_session_same_user(other->grant->sess, grant->sess);
	}
	ok = krdma_share_ok(host, all, KRDMA_SHED_WAITERS) &&
	     krdma_share_ok(user, all, KRDMA_SHED_WAITERS);
	if (ok) {
		list_add_tail(&wait->node, &krdma_sheddings);
		atomic_inc(&grant->export->waiting);
	}
	mutex_unlock(&krdma_exports_lock);
	return ok;
}

static void krdma_shedding_end(struct krdma_shedding *wait)
{
	mutex_lock(&krdma_exports_lock);
	list_del(&wait->node);
	atomic_dec(&wait->grant->export->waiting);
	mutex_unlock(&krdma_exports_lock);
}

/*
 * Wait until another session has given a segment of the export back, since
 * export->released was @released. Notes for this session are served meanwhile, so that
 * two services can't wait for each other. Return: 1, or -EDQUOT if nobody has one, or
 * gives one until @until, or why it is over
 */
static int krdma_segment_shed_wait(struct krdma_grant *grant, u32 n, u32 released,
				   unsigned long until)
{
	struct krdma_session *sess = grant->sess;
	unsigned long again = jiffies;
	struct krdma_shedding wait;
	struct krdma_grant *other;
	unsigned long i;
	u32 none = 0;
	int rc = 1;

	if (!krdma_shedding_begin(&wait, grant))
		return -EDQUOT;
	while (rc > 0 && krdma_segments_released(grant->export) == released) {
		if (time_after_eq(jiffies, again)) {
			again = jiffies + msecs_to_jiffies(KRDMA_SHED_AGAIN_MS);
			/* Who is just taking one, or giving one back, has none to be asked for. */
			if (krdma_segment_shed(grant, n, false) ||
			    atomic_read(&grant->export->segments) > grant->nsegs)
				none = 0;
			else
				none++;
			if (none > 1 || time_after_eq(jiffies, until)) {
				rc = -EDQUOT;
				break;
			}
		}
		wait_event_timeout(krdma_segments_wait,
				   krdma_segments_released(grant->export) != released ||
					   krdma_grants_noted(sess) || READ_ONCE(grant->revoke) ||
					   !krdma_session_is_up(sess),
				   max_t(long, again - jiffies, 1));
		if (!krdma_session_is_up(sess))
			rc = -ENOTCONN;
		else if (READ_ONCE(grant->revoke))
			rc = -ESTALE;
		xa_for_each(&sess->grants, i, other) {
			u32 shed = rc > 0 ? xchg(&other->shed, 0) : 0;
			int err = shed ? krdma_grant_recall(other, shed) : 0;

			if (err >= 0)
				continue;
			/* No RECALL was sent: the next walk of the grants sends it. */
			if (err == -ENOMEM)
				cmpxchg(&other->shed, 0, shed);
			rc = err;
		}
	}
	krdma_shedding_end(&wait);
	return rc;
}

/*
 * Have some of the export given back, or be content with what has been since export->released
 * was @released. Who is slow to give back makes nobody slow who has some to give itself.
 * Return: >0, or a negative errno
 */
static int krdma_segment_give(struct krdma_grant *grant, u32 n, u32 released, unsigned long until)
{
	u32 more = krdma_segments_surplus(grant);
	int rc;

	if (more)
		krdma_segment_shed(grant, min(n, more), true);
	rc = krdma_grant_recall(grant, n);
	return rc ?: krdma_segment_shed_wait(grant, n, released, until);
}

static int krdma_segment_room(struct krdma_grant *grant, unsigned long until)
{
	u32 batch = clamp_t(u32, grant->export->max_segments / 8, 1, KRDMA_REG_SLOTS);
	struct krdma_session *sess = grant->sess;
	struct krdma_grant *other;
	unsigned long i;
	u32 released;
	int rc;

	/* ORDER: what is given back behind a look at it ends the wait. */
	while (released = krdma_segments_released(grant->export), !krdma_segment_try(grant)) {
		if (sess->nsegs < KRDMA_SESSION_SEGMENTS) {
			rc = krdma_segment_give(grant, batch, released, until);
		} else {
			/* Of other exports only where the session itself is full. */
			rc = krdma_grant_recall(grant, batch);
			if (!rc)
				xa_for_each(&sess->grants, i, other) {
					rc = krdma_grant_recall(other, batch);
					if (rc)
						break;
				}
		}
		/* That of a failed registration comes free, and nobody is told. */
		if ((!rc || rc == -EDQUOT) && krdma_segment_try(grant))
			return 0;
		if (rc <= 0)
			return rc ?: -EDQUOT;
	}
	return 0;
}

/**
 * krdma_segment_get - a segment of a grant, registered or prepared
 * @grant: grant
 * @index: segment, of the export
 * @needed: make room for it, if that is what it takes
 *
 * Context: the session's service. Waits for the peer, and for others.
 * Return: the segment, NULL if it is not @needed and there is no room, or an
 *	ERR_PTR
 */
struct krdma_seg *krdma_segment_get(struct krdma_grant *grant, u64 index, bool needed)
{
	struct krdma_seg *seg = xa_load(&grant->segs, index);
	/* Longer than a RECALL that is not answered, which ends the other session. */
	unsigned long until =
		jiffies + msecs_to_jiffies(KRDMA_SHED_MS * grant->sess->ch->timeout_scale);
	u32 released;
	int rc;

	if (seg) {
		list_move_tail(&seg->node, &grant->sess->segs);
		return seg;
	}
	for (;;) {
		krdma_error_init(&grant->error);
		if (needed) {
			rc = krdma_segment_room(grant, until);
			if (rc)
				return ERR_PTR(rc);
		} else if (atomic_read(&grant->export->waiting) || !krdma_segment_try(grant)) {
			/* A session that waits for one needs it more. */
			return NULL;
		}
		released = krdma_segments_released(grant->export);
		krdma_error_init(&grant->error);
		seg = krdma_seg_prepare(grant, index);
		if (!IS_ERR(seg))
			return seg;
		/* Told to nobody: what was refused here is refused there, and back again. */
		atomic_dec(&grant->export->segments);
		/* No room comes from what others give back. */
		if (PTR_ERR(seg) == -ENOSPC)
			return needed ? ERR_PTR(-ENOMEM) : NULL;
		/* RLIMIT_MEMLOCK of the exporter is a limit like the others. */
		if (PTR_ERR(seg) != -ENOMEM && PTR_ERR(seg) != -EDQUOT)
			return seg;
		if (!needed)
			return NULL;
		rc = krdma_segment_give(grant, KRDMA_REG_SLOTS / 4, released, until);
		if (rc < 0)
			return rc == -EDQUOT ? seg : ERR_PTR(rc);
	}
}
