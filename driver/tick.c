// SPDX-License-Identifier: GPL-2.0
/*
 * Times of a session: how long its peer may be silent, and the tick, which comes when the
 * first of them is over: deadlines, heartbeat, late answers, linger.
 */
#include <linux/moduleparam.h>

#include "ctx.h"

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

/**
 * krdma_default_ms - how long a caller waits who may say it
 * @timeout_ms: what it says, 0 for nothing
 *
 * Context: any.
 * Return: milliseconds
 */
u32 krdma_default_ms(u32 timeout_ms)
{
	return timeout_ms ?: KRDMA_QUESTION_MS * READ_ONCE(krdma_timeout_scale);
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
	s64 ns;

	lockdep_assert_held(&sess->lock);
	if (sess->state > KRDMA_SESSION_UP || !ktime_before(when, sess->tick_at))
		return;
	sess->tick_at = when;
	ns = min_t(s64, ktime_to_ns(ktime_sub(when, ktime_get())), 3600 * NSEC_PER_SEC);
	mod_delayed_work(krdma_tick_wq, &sess->tick, ns <= 0 ? 0 : nsecs_to_jiffies(ns) + 1);
}

static void krdma_session_linger(struct krdma_session *sess)
{
	if (sess->inbound)
		return;
	mutex_lock(&krdma_sessions_lock);
	if (!sess->users &&
	    time_after_eq(jiffies, sess->idle_since + msecs_to_jiffies(KRDMA_LINGER_MS)))
		krdma_session_fail(sess, -ENOTCONN, "it was not used any more",
				   KRDMA_WIRE_REASON_NONE);
	mutex_unlock(&krdma_sessions_lock);
}

static void krdma_session_tick(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, tick.work);
	unsigned long next = jiffies + msecs_to_jiffies(KRDMA_HEARTBEAT_MS), beat;
	struct krdma_channel *ch = sess->ch;
	ktime_t now = ktime_get(), soonest;
	bool ask = false;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	krdma_session_linger(sess);

	spin_lock_bh(&sess->lock);
	sess->tick_at = KTIME_MAX;
	if (sess->state == KRDMA_SESSION_CONNECTING &&
	    ktime_ms_delta(now, sess->made) >= krdma_session_connect_ms(sess))
		krdma_session_fail_locked(sess, -ETIMEDOUT, "the connection was not completed", -1,
					  &done);
	/* By now all that came before has been seen. */
	if (sess->state == KRDMA_SESSION_UP && ch->lost &&
	    time_after_eq(jiffies, ch->lost_at + msecs_to_jiffies(KRDMA_LOST_MS)))
		krdma_session_lost_locked(sess, ch->lost, &done);
	if (sess->state > KRDMA_SESSION_UP)
		goto out;

	soonest = krdma_transfers_expire(sess, &done);
	if (sess->state > KRDMA_SESSION_UP)
		goto out;
	if (krdma_asks_expired(sess, &next)) {
		krdma_session_fail_locked(sess, -ETIMEDOUT, "the peer did not answer a question",
					  KRDMA_WIRE_REASON_TIMEOUT, &done);
		goto out;
	}
	if (sess->state == KRDMA_SESSION_UP) {
		/* RFC 5044: who connected speaks first. */
		bool shy = ch->iwarp && sess->inbound && !ch->heard;

		if (ch->outstanding)
			beat = krdma_post_late(ch);
		else
			beat = ch->last_wc +
			       msecs_to_jiffies(shy ? KRDMA_DEAD_MS * ch->timeout_scale :
						      KRDMA_HEARTBEAT_MS);
		if (time_after_eq(jiffies, beat)) {
			if (ch->outstanding || shy) {
				krdma_session_fail_locked(sess, -ENOTCONN,
							  "the peer gives no sign of life", -1,
							  &done);
				goto out;
			}
			if (ch->iwarp)
				ask = !ch->heartbeat;
			else
				krdma_post_heartbeat(ch, &done);
		} else if (time_before(beat, next)) {
			next = beat;
		}
	}
	if (ch->lost)
		next = ch->lost_at + msecs_to_jiffies(KRDMA_LOST_MS);
	now = ktime_add_ms(now, jiffies_to_msecs(max_t(long, next - jiffies, 1)));
	krdma_session_tick_by(sess, ktime_before(soonest, now) ? soonest : now);
out:
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	if (ask)
		krdma_ask_heartbeat(sess);
}

/**
 * krdma_session_tick_init - begin with the times of a session
 * @sess: session, new
 *
 * It keeps the timeout_scale of now.
 *
 * Context: process.
 */
void krdma_session_tick_init(struct krdma_session *sess)
{
	sess->timeout_scale = READ_ONCE(krdma_timeout_scale);
	sess->tick_at = KTIME_MAX;
	INIT_DELAYED_WORK(&sess->tick, krdma_session_tick);
}
