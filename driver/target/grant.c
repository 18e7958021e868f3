// SPDX-License-Identifier: GPL-2.0
/*
 * Grants: an export opened by one session, and the segments of it that the peer has
 * keys of.
 *
 * Grants and segments of a session are touched by its service alone (service.c, and
 * down_work when that can't run any more), so they need no lock. Others only leave a
 * note: grant->revoke, grant->shed.
 *
 * Keys are taken back by reclaim.c, many at a time, while the service goes on.
 *
 * Limits: export->max_segments over all peers, KRDMA_SESSION_SEGMENTS of one.
 * At a limit another user who has clearly more of that export's segments is asked
 * to shed some, and the coldest of the session itself are recalled; if it has none, it
 * waits until the session with most of them has shed some.
 */
#include <linux/slab.h>

#include "target/grant.h"

static DECLARE_WAIT_QUEUE_HEAD(krdma_segments_wait);
static LIST_HEAD(krdma_sheddings); /* krdma_grant.shedding_node, krdma_exports_lock */

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

/**
 * krdma_segments_coldest - segments of a grant that were requested longest ago
 * @grant: grant
 * @segs: out: those that have a key, are not requested just now, and have no RECALL under way
 * @most: how many at most
 *
 * Context: the session's service.
 * Return: how many there are
 */
u32 krdma_segments_coldest(struct krdma_grant *grant, struct krdma_seg **segs, u32 most)
{
	struct krdma_seg *seg;
	u32 n = 0;

	list_for_each_entry(seg, &grant->sess->segs, node) {
		if (n == most)
			break;
		if (seg->grant == grant && krdma_seg_valid(seg) && !seg->busy && !seg->recalled)
			segs[n++] = seg;
	}
	return n;
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
	grant->export->held -= grant->held;
	sess->nheld -= grant->held;
	if (grant->revoke)
		WRITE_ONCE(sess->revoked, sess->revoked - 1);
	mutex_unlock(&krdma_exports_lock);
	xa_erase(&sess->grants, grant->id);
	WRITE_ONCE(sess->ngrants, sess->ngrants - 1);
	xa_destroy(&grant->segs);
	krdma_export_put(grant->export);
	kfree(grant);
}

/**
 * krdma_grant_over - have the session's service revoke a grant
 * @grant: grant
 * @cause: a phrase
 *
 * Context: process, krdma_exports_lock held.
 */
void krdma_grant_over(struct krdma_grant *grant, const char *cause)
{
	struct krdma_session *sess = grant->sess;

	lockdep_assert_held(&krdma_exports_lock);
	if (grant->revoke)
		return;
	WRITE_ONCE(grant->revoke, true);
	WRITE_ONCE(sess->revoked, sess->revoked + 1);
	krdma_export_event(grant->export, KRDMA_EVENT_EXPORT_REVOKED, sess, cause);
	krdma_session_serve(sess);
}

/**
 * krdma_grant_matters - may a grant exclude another, or be excluded?
 * @grant: grant, with its rights and ->exclusive
 *
 * Return: true if so: it is before all others on the list of its export
 */
bool krdma_grant_matters(const struct krdma_grant *grant)
{
	return grant->exclusive || krdma_rights_change(grant->rights);
}

/* May one of them not be there beside the other? */
static bool krdma_grants_collide(const struct krdma_grant *one, const struct krdma_grant *other)
{
	return (one->exclusive && krdma_rights_change(other->rights)) ||
	       (other->exclusive && krdma_rights_change(one->rights));
}

/* Does somebody wait until those that are in the way have ended, of which this would be one? */
static bool krdma_grant_taken(const struct krdma_grant *grant)
{
	return krdma_grant_matters(grant) &&
	       time_before64(get_jiffies_64(), grant->export->taken_until);
}

/*
 * Peers decide how many grants there are. Where one excludes this one, so does the first: those
 * that matter are before the others, and are either exclusive, or change memory, or one is both.
 * Return: 0; or -EBUSY: another grant excludes it, which is revoked if it is taken over
 */
static int krdma_grant_exclude(const struct krdma_grant *grant, bool takeover)
{
	struct krdma_export *export = grant->export;
	struct krdma_grant *other;
	bool taken = false;
	int rc = 0;

	if (!takeover && krdma_grant_taken(grant))
		return -EBUSY;
	list_for_each_entry(other, &export->grants, export_node) {
		if (!krdma_grants_collide(grant, other))
			break;
		rc = -EBUSY;
		if (!takeover)
			return rc;
		taken |= !other->revoke;
		if (!other->revoke)
			pr_info_ratelimited("krdma_mover: %pISpc takes '%s' over from %pISpc\n",
					    &grant->sess->dst, export->name, &other->sess->dst);
		krdma_grant_over(other, "it is taken over");
	}
	if (taken)
		krdma_export_event(export, KRDMA_EVENT_EXPORT_TAKEN_OVER, grant->sess, NULL);
	if (rc) {
		export->taken_until = get_jiffies_64() +
				      msecs_to_jiffies(KRDMA_TAKER_MS * grant->sess->timeout_scale);
		krdma_segments_wake();
	} else if (takeover) {
		export->taken_until = 0;
	}
	return rc;
}

/*
 * May a grant hold so many segments more, where @held of its export and @mine of its session are
 * held? An eighth of what each of them may have, and at least one, is left for those that are
 * recalled.
 */
static bool krdma_grant_hold_fits(const struct krdma_grant *grant, u64 more, u32 held, u32 mine)
{
	return more <= krdma_hold_max(grant->export->max_segments) - held &&
	       more <= krdma_hold_max(KRDMA_SESSION_SEGMENTS) - mine;
}

/*
 * Segments that are never recalled. What is taken over counts no more. Return: how many the
 * grant has, or -EDQUOT
 */
static int krdma_grant_holds(const struct krdma_grant *grant, bool takeover)
{
	const struct krdma_session *sess = grant->sess;
	const struct krdma_export *export = grant->export;
	u64 n = krdma_segments(grant->length, sess->segment_shift);
	u32 held = export->held, mine = sess->nheld;
	const struct krdma_grant *other;

	list_for_each_entry(other, &export->grants, export_node) {
		/* As in krdma_grant_exclude(). */
		if (!takeover || !krdma_grants_collide(grant, other))
			break;
		held -= other->held;
		mine -= other->sess == sess ? other->held : 0;
	}
	return krdma_grant_hold_fits(grant, n, held, mine) ? n : -EDQUOT;
}

/**
 * krdma_grant_admit - may a grant be there beside those that there are?
 * @grant: grant, with its export and its rights, not on the export's list
 * @flags: KRDMA_WIRE_OPEN_*, checked
 *
 * What is held or exclusive holds up others, so root of the peer alone may have it.
 *
 * Context: process, krdma_exports_lock held.
 * Return: 0; -EACCES; -EDQUOT: it can't be held; or -EBUSY: others exclude it, which give way
 *	to a takeover: it is to be tried again
 */
int krdma_grant_admit(struct krdma_grant *grant, u32 flags)
{
	bool takeover = flags & KRDMA_WIRE_OPEN_TAKEOVER;
	int rc = 0, held = 0;

	lockdep_assert_held(&krdma_exports_lock);
	if (flags && !uid_eq(grant->sess->uid, GLOBAL_ROOT_UID))
		return -EACCES;
	/* Messages alone have no segments. */
	if ((flags & KRDMA_WIRE_OPEN_HELD) && !(grant->rights & ~KRDMA_RIGHT_MESSAGE))
		return -EACCES;
	grant->exclusive = flags & KRDMA_WIRE_OPEN_EXCLUSIVE;
	/* Whoever excludes it may hold what it lacks: that is the error to report. */
	if (!takeover)
		rc = krdma_grant_exclude(grant, false);
	if (!rc && (flags & KRDMA_WIRE_OPEN_HELD))
		held = krdma_grant_holds(grant, takeover);
	if (held < 0)
		return held;
	/* ORDER: nobody is revoked for what fails then. */
	if (takeover)
		rc = krdma_grant_exclude(grant, true);
	if (rc)
		return rc;
	grant->held = held;
	grant->export->held += held;
	grant->sess->nheld += held;
	return 0;
}

/**
 * krdma_grant_grow - have a grant be of all that its export has by now
 * @grant: grant
 *
 * Keys stay as they are, so its last segment has to be a whole one.
 *
 * Context: the session's service.
 * Return: 0; -EDQUOT: it can't be held; or -EOPNOTSUPP: its last segment is not a whole one
 */
int krdma_grant_grow(struct krdma_grant *grant)
{
	struct krdma_export *export = grant->export;
	struct krdma_session *sess = grant->sess;
	u32 shift = sess->segment_shift, more = 0;
	int rc = 0;
	u64 n;

	mutex_lock(&krdma_exports_lock);
	if (export->length == grant->length)
		goto out;
	n = krdma_segments(export->length, shift) - krdma_segments(grant->length, shift);
	if (krdma_segment_offset(grant->length, shift))
		rc = -EOPNOTSUPP;
	else if (grant->held && !krdma_grant_hold_fits(grant, n, export->held, sess->nheld))
		rc = -EDQUOT;
	if (rc)
		goto out;
	if (grant->held)
		more = n;
	grant->length = export->length;
	grant->held += more;
	export->held += more;
	sess->nheld += more;
out:
	mutex_unlock(&krdma_exports_lock);
	return rc;
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

	/* The peer uses none of them, whatever RECALLs are under way. */
	krdma_reclaims_forget(grant);
	xa_for_each(&grant->segs, i, seg)
		seg->recalled = false;
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

	krdma_reclaims_drop(sess);
	list_for_each_entry_safe(seg, next, &sess->segs, node)
		krdma_seg_free(seg);
	xa_for_each(&sess->grants, i, grant)
		krdma_grant_free(grant);
	list_for_each_entry_safe(req, tmp, &sess->requests, node) {
		krdma_post_tx_put(sess->ch, req->tx);
		kfree(req);
	}
	INIT_LIST_HEAD(&sess->requests);
}

/**
 * krdma_grant_lacks - write to the log what a peer requested in vain
 * @grant: grant, whose ->error says it if the cause is on this host
 *
 * Once a minute for each export: the exporter sees nothing of it otherwise.
 *
 * Context: the session's service.
 */
void krdma_grant_lacks(struct krdma_grant *grant)
{
	struct krdma_export *export = grant->export;

	if (grant->error.err && __ratelimit(&export->told))
		pr_notice_ratelimited("krdma_mover: '%s' is not available to %pISpc: %s\n",
				      export->name, &grant->sess->dst, grant->error.text);
}

/* ---- room for one more segment ---- */

/**
 * krdma_service_left - does a device wait for the service to give back a path?
 * @sess: session
 *
 * Context: the session's service; also as the condition of wait_event().
 * Return: true if the device of a path goes that keys are not being registered for
 */
bool krdma_service_left(const struct krdma_session *sess)
{
	u32 p;

	for (p = 0; p < KRDMA_PATHS_MAX; p++)
		if (&sess->paths[p] != sess->serves && krdma_path_left(sess, &sess->paths[p]))
			return true;
	return false;
}

/*
 * Others wait for segments of this session, or for the end of a grant; a reply has come; or a
 * device goes.
 */
static bool krdma_service_noted(struct krdma_session *sess)
{
	struct krdma_grant *grant;
	unsigned long i;

	if (READ_ONCE(sess->nreplied) || krdma_service_left(sess))
		return true;
	xa_for_each(&sess->grants, i, grant)
		if (krdma_grant_noted(grant))
			return true;
	return false;
}

static bool krdma_segment_try(struct krdma_grant *grant)
{
	return grant->sess->nsegs < KRDMA_SESSION_SEGMENTS &&
	       atomic_add_unless(&grant->export->segments, 1, grant->export->max_segments);
}

/**
 * krdma_segments_released - how many segments of an export have been given back
 * @export: export
 *
 * Context: any.
 * Return: their number since the export was made, modulo 2^32
 */
static u32 krdma_segments_released(const struct krdma_export *export)
{
	return atomic_read_acquire(&export->released);
}

/**
 * krdma_segments_wait_event - wait for what a service that needs a segment can go on with
 * @grant: grant that needs one
 * @released: of its export; it waits for another number, a note, or the end
 * @timeout: jiffies
 *
 * What others have left for the service is done then.
 *
 * Context: the session's service.
 * Return: replies to RECALL handled; -ESTALE: the grant is over; -EAGAIN: the path's device
 *	goes; or -ENOTCONN
 */
static int krdma_segments_wait_event(struct krdma_grant *grant, u32 released, long timeout)
{
	/* Idle: the connection may be lost meanwhile, for longer than a task may hang. */
	wait_event_idle_timeout(
		krdma_segments_wait,
		krdma_segments_released(grant->export) != released ||
			krdma_service_noted(grant->sess) || READ_ONCE(grant->revoke) ||
			krdma_session_over(grant->sess) || READ_ONCE(grant->sess->serves->gone),
		timeout);
	if (krdma_session_over(grant->sess))
		return -ENOTCONN;
	if (READ_ONCE(grant->sess->serves->gone))
		return -EAGAIN;
	if (READ_ONCE(grant->revoke))
		return -ESTALE;
	return krdma_service_notes(grant->sess, grant);
}

/**
 * krdma_reclaim_wait - wait until a RECALL is through
 * @grant: grant that the caller uses
 * @released: of its export; a change ends the wait as well
 *
 * What others have left for the service is done meanwhile.
 *
 * Context: the session's service, a RECALL is under way.
 * Return: 1, -ESTALE: the grant is over, or -ENOTCONN
 */
static int krdma_reclaim_wait(struct krdma_grant *grant, u32 released)
{
	int n = 0;

	while (!n && krdma_segments_released(grant->export) == released)
		n = krdma_segments_wait_event(grant, released, MAX_SCHEDULE_TIMEOUT);
	return min(n, 0) ?: 1;
}

/* Of the other grants of the export, or those of other users only, the one with most segments. */
static struct krdma_grant *krdma_segments_most(struct krdma_grant *grant, bool others)
{
	struct krdma_grant *other, *most = NULL;
	u32 n = 0;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(other, &grant->export->grants, export_node) {
		if (other == grant || other->held || READ_ONCE(other->nsegs) <= n ||
		    (others && krdma_session_same_user(other->sess, grant->sess)))
			continue;
		most = other;
		n = READ_ONCE(other->nsegs);
	}
	return most;
}

/*
 * How many segments of the export the user of @most should give to this one, to have as many:
 * 0 unless it has an eighth more, else the two would take them from each other all the time.
 */
static u32 krdma_segments_surplus(struct krdma_grant *grant, struct krdma_grant *most)
{
	struct krdma_grant *other;
	u32 mine = 0, theirs = 0;

	list_for_each_entry(other, &grant->export->grants, export_node) {
		if (other->held || !READ_ONCE(other->nsegs))
			continue;
		if (krdma_session_same_user(other->sess, grant->sess))
			mine += READ_ONCE(other->nsegs);
		else if (krdma_session_same_user(other->sess, most->sess))
			theirs += READ_ONCE(other->nsegs);
	}
	return theirs > mine + mine / 8 + 1 ? (theirs - mine) / 2 : 0;
}

/*
 * Ask the session that has most segments of the export to shed some; or, of @others, the one of
 * another user, who sheds no more than his surplus.
 */
static bool krdma_segment_shed(struct krdma_grant *grant, u32 n, bool others)
{
	struct krdma_grant *most;
	bool more = false;

	mutex_lock(&krdma_exports_lock);
	most = krdma_segments_most(grant, others);
	if (most && others)
		n = min(n, krdma_segments_surplus(grant, most));
	if (most && n) {
		more = most->shed < n;
		most->shed = max(most->shed, n);
		WRITE_ONCE(most->sess->shed, true);
		krdma_session_serve(most->sess);
	}
	mutex_unlock(&krdma_exports_lock);
	/* Its service may itself be waiting for room; who asks again has woken it before. */
	if (more)
		krdma_segments_wake();
	return most;
}

/* Those who can shed need a worker too; and no user and no host takes all slots for waiting. */
static bool krdma_shedding_begin(struct krdma_grant *grant)
{
	u32 user = 1, host = 1, all = 1;
	struct krdma_grant *other;
	bool ok;

	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(other, &krdma_sheddings, shedding_node) {
		all++;
		host += krdma_session_same_host(other->sess, grant->sess);
		user += krdma_session_same_user(other->sess, grant->sess);
	}
	ok = krdma_share_ok(host, all, KRDMA_SHED_WAITERS) &&
	     krdma_share_ok(user, all, KRDMA_SHED_WAITERS);
	if (ok) {
		list_add_tail(&grant->shedding_node, &krdma_sheddings);
		atomic_inc(&grant->export->waiting);
	}
	mutex_unlock(&krdma_exports_lock);
	return ok;
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
	unsigned long again = jiffies;
	u32 none = 0;
	int rc = 1;

	if (!krdma_shedding_begin(grant))
		return -EDQUOT;
	while (rc > 0 && krdma_segments_released(grant->export) == released) {
		if (time_after_eq(jiffies, again)) {
			again = jiffies + msecs_to_jiffies(KRDMA_SHED_AGAIN_MS);
			/* A session that takes or returns a segment has none to be recalled. */
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
		rc = krdma_segments_wait_event(grant, released, max_t(long, again - jiffies, 1));
		rc = min(rc, 0) ?: 1;
	}
	mutex_lock(&krdma_exports_lock);
	list_del(&grant->shedding_node);
	atomic_dec(&grant->export->waiting);
	mutex_unlock(&krdma_exports_lock);
	return rc;
}

/*
 * Have some of the export given back, or be content with what has been since export->released
 * was @released. A session that has segments of its own to recall does not wait for a slow peer.
 * Return: >0, or a negative errno
 */
static int krdma_segment_give(struct krdma_grant *grant, u32 n, u32 released, unsigned long until)
{
	int rc;

	krdma_segment_shed(grant, n, true);
	rc = krdma_grant_recall(grant, n);
	if (rc < 0)
		return rc;
	return rc ? krdma_reclaim_wait(grant, released) :
		    krdma_segment_shed_wait(grant, n, released, until);
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
			if (rc > 0)
				rc = krdma_reclaim_wait(grant, released);
		}
		/* That of a failed registration comes free, and nobody is notified. */
		if ((!rc || rc == -EDQUOT) && krdma_segment_try(grant))
			return 0;
		if (rc <= 0)
			return rc ?: -EDQUOT;
	}
	return 0;
}

/* A key of a segment that there is, for one more path. Return: as krdma_segment_get() */
static struct krdma_seg *krdma_segment_key(struct krdma_seg *seg, struct krdma_path *path,
					   bool needed, unsigned long until)
{
	struct krdma_grant *grant = seg->grant;
	u32 released;
	int rc;

	while (!seg->keys[path->index]) {
		released = krdma_segments_released(grant->export);
		rc = krdma_seg_key_prepare(seg, path);
		if (rc && !needed)
			return NULL;
		if (!rc)
			break;
		if (rc == -ENOMEM) {
			/* Not this one. */
			seg->busy = true;
			rc = krdma_segment_give(grant, KRDMA_REG_SLOTS / 4, released, until);
			rc = rc == -EDQUOT ? -ENOMEM : rc;
			seg->busy = false;
		}
		if (rc < 0) {
			/* Perhaps the device of its other key has gone meanwhile. */
			krdma_seg_unregistered(seg, path);
			return ERR_PTR(rc);
		}
	}
	return seg;
}

/**
 * krdma_segment_get - a segment of a grant, registered or prepared
 * @grant: grant
 * @index: segment, of the export
 * @path: path that it is for, with a device
 * @needed: make room for it, if that is what it takes
 * @until: jiffies: how long to wait for others to give theirs back
 *
 * Context: the session's service. Waits for the peer, and for others.
 * Return: the segment, NULL if it is not @needed and there is no room, or an
 *	ERR_PTR
 */
struct krdma_seg *krdma_segment_get(struct krdma_grant *grant, u64 index, struct krdma_path *path,
				    bool needed, unsigned long until)
{
	struct krdma_seg *seg = xa_load(&grant->segs, index);
	u32 released;
	int rc;

	/* It gets a new key when the old one is dead. */
	while (seg && seg->recalled) {
		if (!needed)
			return NULL;
		rc = krdma_reclaim_wait(grant, krdma_segments_released(grant->export));
		if (rc < 0)
			return ERR_PTR(rc);
		seg = xa_load(&grant->segs, index);
	}
	if (seg) {
		list_move_tail(&seg->node, &grant->sess->segs);
		return krdma_segment_key(seg, path, needed, until);
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
		seg = krdma_seg_prepare(grant, index, path);
		if (!IS_ERR(seg))
			return seg;
		/* Reported to nobody: what was refused here is refused there, and back again. */
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
