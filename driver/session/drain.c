// SPDX-License-Identifier: GPL-2.0
/*
 * The end of sessions that are to finish what is under way.
 *
 * From then on no transfer begins, and the session ends with its last one, or at a deadline. Only
 * the initiator knows what is under way: a target gives it notice (a BYE with a time), and the
 * initiator ends the session.
 */
#include <linux/slab.h>
#include <linux/string.h>

#include "session/session.h"

/*
 * Nothing of an initiator's session is under way. A transfer that moves between channels may be
 * missed on both: then the numbers differ, and its own end comes here again.
 */
static bool krdma_session_idle(struct krdma_session *sess)
{
	int ended = atomic_read(&sess->moves_ended);
	struct krdma_channel *ch;
	bool idle = true;
	u32 i;

	lockdep_assert_held(&sess->lock);
	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		idle &= !ch->ntransfers;
		spin_unlock(&ch->lock);
	}
	return idle && atomic_read(&sess->moves_begun) == ended;
}

static void krdma_session_drained_locked(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	if (sess->drains && sess->state == KRDMA_SESSION_UP && !sess->inbound &&
	    krdma_session_idle(sess))
		krdma_session_fail_locked(sess, -ENOTCONN, sess->drains, sess->drain_bye);
}

/**
 * krdma_session_drained - the last transfer of a channel has ended
 * @sess: session
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_session_drained(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	krdma_session_drained_locked(sess);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_session_drain_tick - end a session whose time to finish is over
 * @sess: session
 *
 * Context: session->lock held.
 * Return: true if the peer has no notice yet: krdma_session_notice()
 */
bool krdma_session_drain_tick(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	if (!sess->drains || sess->state != KRDMA_SESSION_UP)
		return false;
	if (ktime_compare(ktime_get(), sess->drain_until) >= 0) {
		sess->cut = true;
		krdma_session_fail_locked(sess, -ENOTCONN, sess->drains, sess->drain_bye);
		return false;
	}
	krdma_session_tick_by(sess, sess->drain_until);
	return sess->inbound && !sess->noticed;
}

/**
 * krdma_session_notice - tell the initiator when its session ends
 * @sess: session
 *
 * Without a buffer for it, the next one that comes back lets the tick try again.
 *
 * Context: process; no lock of the session or the channel held.
 */
void krdma_session_notice(struct krdma_session *sess)
{
	bool wanted;
	s64 left_ms;
	int bye;

	spin_lock_bh(&sess->lock);
	wanted = sess->drains && sess->inbound && sess->state == KRDMA_SESSION_UP && !sess->noticed;
	/* RFC 5044: not before the peer has spoken. */
	wanted &= !sess->ch->iwarp || READ_ONCE(sess->ch->heard);
	sess->noticed |= wanted;
	/* The initiator takes no more. */
	wanted = wanted && sess->notices < KRDMA_NOTICES_MAX;
	sess->notices += wanted;
	left_ms = ktime_ms_delta(sess->drain_until, ktime_get());
	bye = sess->drain_bye;
	spin_unlock_bh(&sess->lock);
	if (!wanted || krdma_ctl_notice(sess, bye, clamp_t(s64, left_ms, 1, KRDMA_DRAIN_MAX_MS)))
		return;
	spin_lock_bh(&sess->lock);
	sess->noticed = false;
	sess->notices--;
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_session_drain - end a session when what is under way has ended
 * @sess: session
 * @timeout_ms: how long that may take; an earlier deadline that it has stays
 * @cause: why, a phrase, static
 * @bye: the same as enum krdma_wire_reason
 *
 * Context: process; no lock of the session or the channel held.
 */
void krdma_session_drain(struct krdma_session *sess, u32 timeout_ms, const char *cause, int bye)
{
	ktime_t until = ktime_add_ms(ktime_get(), timeout_ms);
	struct krdma_channel *ch;
	u32 i;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_CONNECTING)
		krdma_session_fail_locked(sess, -ENOTCONN, cause, KRDMA_BYE_LOST);
	if (sess->state == KRDMA_SESSION_UP &&
	    (!sess->drains || ktime_before(until, sess->drain_until))) {
		if (!sess->drains)
			krdma_session_event(sess, KRDMA_EVENT_SESSION_DRAINING, NULL, 0, cause);
		WRITE_ONCE(sess->drains, cause);
		sess->drain_bye = bye;
		sess->drain_until = until;
		sess->noticed = false;
		krdma_for_each_channel(ch, sess, i) {
			spin_lock(&ch->lock);
			ch->drains = true;
			spin_unlock(&ch->lock);
		}
		krdma_session_tick_by(sess, until);
		krdma_session_drained_locked(sess);
	}
	spin_unlock_bh(&sess->lock);
	krdma_session_notice(sess);
}

/* Is it with that peer? */
static bool krdma_session_with(const struct krdma_session *sess, const struct krdma_sockaddr *peer)
{
	struct krdma_sockaddr addr;

	if (peer->family == AF_UNSPEC)
		return true;
	krdma_addr_to_user(&sess->dst, &addr);
	return addr.family == peer->family && !memcmp(addr.addr, peer->addr, sizeof(addr.addr)) &&
	       (!peer->port || addr.port == peer->port);
}

/* Which sessions are to end, and who wants it. */
struct krdma_drain {
	struct net *net;
	kuid_t uid;
	bool admin;
	u64 serial;
	const struct krdma_sockaddr *peer;
};

/* Return: 1 if it is meant, -EPERM if the caller may not, or 0 */
static int krdma_drain_means(const struct krdma_drain *drain, const struct krdma_session *sess)
{
	if (sess->net != drain->net || (drain->serial && sess->serial != drain->serial) ||
	    !krdma_session_with(sess, drain->peer))
		return 0;
	if (drain->admin)
		return 1;
	/* A session of another user is one that there is not. */
	if (!uid_eq(sess->uid, drain->uid))
		return 0;
	return sess->inbound ? -EPERM : 1;
}

/* The sessions that are meant, in an array, each with a reference. Return: how many, or an errno */
static int krdma_drain_sessions(const struct krdma_drain *drain, struct krdma_session ***array,
				struct krdma_error *error)
{
	struct krdma_session *sess;
	int n = 0, rc = 0, means;

	*array = krdma_inject(kvcalloc(drain->serial ? 1 : KRDMA_SESSIONS_MAX, sizeof(**array),
				       GFP_KERNEL_ACCOUNT),
			      NULL);
	if (!*array)
		return -ENOMEM;
	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node) {
		means = krdma_drain_means(drain, sess);
		rc = means < 0 ? means : rc;
		if (means <= 0)
			continue;
		kref_get(&sess->ref);
		(*array)[n++] = sess;
	}
	mutex_unlock(&krdma_sessions_lock);
	if (n || (!drain->serial && drain->peer->family == AF_UNSPEC))
		return n;
	kvfree(*array);
	if (rc)
		return krdma_explain(error, rc,
				     "the peer has made the session: that takes CAP_NET_ADMIN");
	return drain->serial ?
		       krdma_explain(error, -ENOENT, "there is no session %llu", drain->serial) :
		       krdma_explain(error, -ENOENT, "there is no session with that peer");
}

/**
 * krdma_sessions_drain - end sessions when what is under way in them has ended
 * @net: network namespace
 * @uid: whose outbound sessions
 * @admin: those of all, and inbound ones as well
 * @serial: one session alone; or 0 for all
 * @peer: with this address alone, and this port unless it is 0; or AF_UNSPEC
 * @timeout_ms: how long that may take; what is under way then ends with an error
 * @error: explanation
 *
 * Context: process; waits until they are taken apart. A fatal signal ends the wait, and nothing
 *	else.
 * Return: 0, -ENOENT, -EPERM, -ENOMEM, -EINTR; or -ETIMEDOUT: they have ended, and something was
 *	under way
 */
int krdma_sessions_drain(struct net *net, kuid_t uid, bool admin, u64 serial,
			 const struct krdma_sockaddr *peer, u32 timeout_ms,
			 struct krdma_error *error)
{
	const struct krdma_drain drain = {
		.net = net,
		.uid = uid,
		.admin = admin,
		.serial = serial,
		.peer = peer,
	};
	struct krdma_session **array, *late;
	int i, n, cut = 0, rc = 0;

	n = krdma_drain_sessions(&drain, &array, error);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++)
		krdma_session_drain(array[i], timeout_ms, "it was disconnected on this host",
				    KRDMA_WIRE_REASON_ADMIN);
	for (i = 0; i < n && !rc; i++) {
		rc = krdma_session_wait_gone(array[i]);
		if (rc || !array[i]->cut)
			continue;
		cut++;
		late = array[i];
	}
	if (rc)
		rc = -EINTR;
	else if (cut == 1)
		rc = krdma_explain(error, -ETIMEDOUT,
				   "session %llu with %pISpc was not idle in time, and has ended",
				   late->serial, &late->dst);
	else if (cut)
		rc = krdma_explain(error, -ETIMEDOUT,
				   "%d of %d sessions were not idle in time, and have ended", cut,
				   n);
	for (i = 0; i < n; i++)
		krdma_session_put(array[i]);
	kvfree(array);
	return rc;
}
