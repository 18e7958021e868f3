// SPDX-License-Identifier: GPL-2.0
/*
 * Times of a session: how long its peer may be silent, and the tick, which comes when the first
 * of them is over: late replies, linger, a connection that is not completed. A channel has a
 * tick of its own (rdma/liveness.c).
 */
#include <linux/moduleparam.h>

#include "session/session.h"

/* How long peers may be silent, for sessions made from now on. */
static unsigned int krdma_timeout_scale = 1;

static int krdma_timeout_scale_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, 1, KRDMA_TIMEOUT_SCALE_MAX);
}

static const struct kernel_param_ops krdma_timeout_scale_ops = {
	.set = krdma_timeout_scale_set,
	.get = param_get_uint,
};
module_param_cb(timeout_scale, &krdma_timeout_scale_ops, &krdma_timeout_scale, 0644);
__MODULE_PARM_TYPE(timeout_scale, "uint");
MODULE_PARM_DESC(timeout_scale,
		 "factor of the times after which a silent peer counts as dead, 1 to 4 (1)");

/* How long sessions outlive a connection, for sessions made from now on. */
static unsigned int krdma_resume = 60;

static int krdma_resume_set(const char *text, const struct kernel_param *param)
{
	unsigned int seconds;
	int rc = kstrtouint(text, 0, &seconds);

	if (!rc && seconds == KRDMA_RESUME_ALWAYS)
		return param_set_uint(text, param);
	return param_set_uint_minmax(text, param, 0, KRDMA_RESUME_MAX);
}

static const struct kernel_param_ops krdma_resume_ops = {
	.set = krdma_resume_set,
	.get = param_get_uint,
};
module_param_cb(resume, &krdma_resume_ops, &krdma_resume, 0644);
__MODULE_PARM_TYPE(resume, "uint");
MODULE_PARM_DESC(
	resume,
	"seconds that a session goes on when its connection is lost, 0 to 3600, or 65535 for no limit; the lesser of the two hosts counts (60)");

/* How soon a dead path is noticed, for sessions made from now on. */
static unsigned int krdma_keepalive = 5;

static int krdma_keepalive_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, 1, KRDMA_KEEPALIVE_MAX);
}

static const struct kernel_param_ops krdma_keepalive_ops = {
	.set = krdma_keepalive_set,
	.get = param_get_uint,
};
module_param_cb(keepalive, &krdma_keepalive_ops, &krdma_keepalive, 0644);
__MODULE_PARM_TYPE(keepalive, "uint");
MODULE_PARM_DESC(keepalive,
		 "seconds, and one more, after which a dead path is noticed, 1 to 60 (5)");

/**
 * krdma_session_resume_wanted - how long a session is to outlive its connection
 * @sess: session, which connects; inbound, as long as this host allows
 *
 * Context: any.
 * Return: seconds; 0: not at all
 */
u32 krdma_session_resume_wanted(const struct krdma_session *sess)
{
	if (sess->options.flags & KRDMA_CONNECT_FAIL_FAST)
		return sess->npaths > 1 ? KRDMA_FAIL_FAST_S : 0;
	return sess->options.resume_s ?: READ_ONCE(krdma_resume);
}

/**
 * krdma_connect_options_check - can a session be like that?
 * @options: of a caller; the flags are known ones
 * @error: explanation
 *
 * Context: any.
 * Return: 0 or -EINVAL
 */
int krdma_connect_options_check(const struct krdma_connect_options *options,
				struct krdma_error *error)
{
	u32 resume = options->resume_s;

	if (resume > KRDMA_RESUME_MAX && resume != KRDMA_RESUME_ALWAYS)
		return krdma_explain(error, -EINVAL, "a session resumes for at most %u s",
				     KRDMA_RESUME_MAX);
	if (resume && (options->flags & KRDMA_CONNECT_FAIL_FAST))
		return krdma_explain(error, -EINVAL,
				     "a session with KRDMA_CONNECT_FAIL_FAST does not resume");
	if (options->keepalive_s > KRDMA_KEEPALIVE_MAX)
		return krdma_explain(error, -EINVAL, "a keepalive has at most %u s",
				     KRDMA_KEEPALIVE_MAX);
	if (options->policy > KRDMA_POLICY_LATENCY)
		return krdma_explain(error, -EINVAL, "there is no policy %u", options->policy);
	return 0;
}

/**
 * krdma_default_ms - how long a caller waits who may say it
 * @timeout_ms: what it says, 0 for nothing
 *
 * Context: any.
 * Return: milliseconds
 */
u32 krdma_default_ms(u32 timeout_ms)
{
	return timeout_ms ?: KRDMA_REQUEST_MS * READ_ONCE(krdma_timeout_scale);
}

/**
 * krdma_session_connect_ms - how long a session may be connecting
 * @sess: session
 *
 * Not longer for those who connect to us, of which there may be only so many.
 *
 * Context: any.
 * Return: milliseconds
 */
u32 krdma_session_connect_ms(const struct krdma_session *sess)
{
	return KRDMA_CONNECT_MS * (sess->inbound ? 1 : sess->timeout_scale);
}

/**
 * krdma_session_tick_by - let the tick come by a certain time
 * @sess: session
 * @when: latest time
 *
 * Context: session->lock held.
 */
void krdma_session_tick_by(struct krdma_session *sess, ktime_t when)
{
	lockdep_assert_held(&sess->lock);
	if (sess->state > KRDMA_SESSION_UP || !ktime_before(when, sess->tick_at))
		return;
	sess->tick_at = when;
	krdma_tick_queue(&sess->tick, when);
}

/* Does the peer have what it does not know to be closed? */
static bool krdma_session_unheard(struct krdma_session *sess)
{
	struct krdma_rpc *rpc;
	bool unheard;

	spin_lock_bh(&sess->lock);
	unheard = sess->nregions;
	list_for_each_entry(rpc, &sess->rpcs, node)
		unheard |= rpc->type == KRDMA_WIRE_OPEN;
	spin_unlock_bh(&sess->lock);
	return unheard;
}

/**
 * krdma_session_retire - end a session that has no user for too long
 * @sess: session
 *
 * A shared one lingers. It stays until the peer has replied to what was closed, but not for longer
 * than a session resumes.
 *
 * Context: process, krdma_sessions_lock held.
 */
void krdma_session_retire(struct krdma_session *sess)
{
	unsigned long longest = min_t(u32, READ_ONCE(sess->resume_s), KRDMA_RESUME_MAX) * HZ;
	unsigned long idle = jiffies - sess->idle_since;

	lockdep_assert_held(&krdma_sessions_lock);
	if (sess->inbound || sess->users ||
	    idle < msecs_to_jiffies(sess->private ? 0 : KRDMA_LINGER_MS))
		return;
	if (idle < longest && krdma_session_unheard(sess))
		return;
	krdma_session_fail(sess, -ENOTCONN, "it was not used any more", KRDMA_WIRE_REASON_NONE);
}

/* Its connection is lost: for too long? Not so long where others wait for what the peer has. */
static void krdma_session_away_tick(struct krdma_session *sess)
{
	unsigned long away = jiffies - sess->lost_at;
	bool wanted = READ_ONCE(sess->revoked) || READ_ONCE(sess->shed) ||
		      !list_empty(&sess->reclaims);

	lockdep_assert_held(&sess->lock);
	if (sess->resume_s != KRDMA_RESUME_ALWAYS && away >= sess->resume_s * HZ)
		krdma_session_fail_locked(sess, -ECONNRESET, "its connection did not come back",
					  KRDMA_BYE_LOST);
	else if (READ_ONCE(sess->replaced) &&
		 away >= msecs_to_jiffies(KRDMA_REQUEST_MS * sess->timeout_scale))
		krdma_session_fail_locked(sess, -ECONNRESET, "its host was started anew",
					  KRDMA_BYE_LOST);
	else if (wanted && away >= msecs_to_jiffies(KRDMA_REQUEST_MS * sess->timeout_scale))
		krdma_session_fail_locked(sess, -ECONNRESET, "keys are not given back",
					  KRDMA_BYE_LOST);
}

static void krdma_session_tick(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, tick.work);
	unsigned long next = jiffies + msecs_to_jiffies(KRDMA_SESSION_TICK_MS);
	ktime_t now = ktime_get();
	bool notice;

	/* What comes from here on may want another one soon. */
	spin_lock_bh(&sess->lock);
	sess->tick_at = KTIME_MAX;
	spin_unlock_bh(&sess->lock);
	if (!sess->inbound) {
		mutex_lock(&krdma_sessions_lock);
		krdma_session_retire(sess);
		mutex_unlock(&krdma_sessions_lock);
	}

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_CONNECTING &&
	    ktime_ms_delta(now, sess->made) >= krdma_session_connect_ms(sess))
		krdma_session_fail_locked(sess, -ETIMEDOUT, "the connection was not completed",
					  KRDMA_BYE_LOST);
	else if (krdma_rpcs_expired(sess, &next))
		krdma_session_fail_locked(sess, -ETIMEDOUT, "the peer did not reply to a request",
					  KRDMA_WIRE_REASON_TIMEOUT);
	else if (sess->resuming)
		krdma_session_away_tick(sess);
	notice = krdma_session_drain_tick(sess);
	now = ktime_add_ms(now, jiffies_to_msecs(max_t(long, next - jiffies, 1)));
	krdma_session_tick_by(sess, now);
	spin_unlock_bh(&sess->lock);
	if (notice)
		krdma_session_notice(sess);
	if (sess->role->tick)
		sess->role->tick(sess);
}

/**
 * krdma_session_tick_init - begin with the times of a session
 * @sess: session, new
 *
 * It keeps the timeout_scale and the keepalive of now.
 *
 * Context: process.
 */
void krdma_session_tick_init(struct krdma_session *sess)
{
	sess->timeout_scale = READ_ONCE(krdma_timeout_scale);
	sess->keepalive_s = READ_ONCE(krdma_keepalive);
	sess->tick_at = KTIME_MAX;
	INIT_DELAYED_WORK(&sess->tick, krdma_session_tick);
}
