// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: made, ended. What time does to them is keepalive.c's.
 *
 * States, changed by krdma_session_set_state alone:
 *
 *	CONNECTING -> UP -> CLOSING -> DEAD
 *	     `--------------^
 *
 * One way down: whoever finds a reason calls krdma_session_fail, from any
 * context; the first reason stays. From that moment nothing is posted, and
 * down_work takes the session apart (Documentation/lifetime.rst, "Teardown").
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "session/session.h"
#include "trace.h"

static const struct krdma_role_ops *krdma_roles[2];

/**
 * krdma_session_roles - hand down what sessions are for
 * @initiator: of outbound sessions
 * @target: of inbound ones
 *
 * Context: process; before the first session.
 */
void krdma_session_roles(const struct krdma_role_ops *initiator,
			 const struct krdma_role_ops *target)
{
	krdma_roles[0] = initiator;
	krdma_roles[1] = target;
}

static void krdma_session_set_state(struct krdma_session *sess, enum krdma_session_state state)
{
	lockdep_assert_held(&sess->lock);
	trace_krdma_session_state(sess->serial, sess->state, state, sess->err);
	WRITE_ONCE(sess->state, state);
	wake_up_all(&sess->wait);
}

/**
 * krdma_session_is_up - can something be posted?
 * @sess: session
 *
 * Context: any; a hint, as the channel may fail at any time.
 * Return: true if it can
 */
bool krdma_session_is_up(struct krdma_session *sess)
{
	return READ_ONCE(sess->state) == KRDMA_SESSION_UP &&
	       READ_ONCE(sess->ch->state) == KRDMA_CHANNEL_UP;
}

/* What is to be sent first on the first channel is. Return: false if what the peer says can't be */
static bool krdma_session_first(struct krdma_channel *ch, bool begins)
{
	bool can = begins || (ch->data ? ch->data->resume(ch) : !ch->peer.messages);

	return can && krdma_control_resume(ch);
}

/* The first channel is up again: what waited for it goes on. */
static void krdma_session_resumed(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	krdma_rpcs_resume(sess);
	krdma_credits_settle(sess);
	wake_up_all(&sess->wait);
	krdma_stat_inc(KRDMA_STAT_SESSIONS_RESUMED);
	krdma_session_event(sess, KRDMA_EVENT_SESSION_RESUMED, NULL, 0, NULL);
	sess->role->changed(sess);
	pr_info_ratelimited("krdma_mover: session %llu with %pISpc goes on after %u ms\n",
			    sess->serial, &sess->dst, jiffies_to_msecs(jiffies - sess->lost_at));
}

/**
 * krdma_session_up - a channel is established
 * @ch: channel; with the first one the session is up
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_session_up(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	bool begins = !ch->first && !ch->connections, up, lost;
	enum krdma_session_state before = begins ? KRDMA_SESSION_CONNECTING : KRDMA_SESSION_UP;

	spin_lock_bh(&sess->lock);
	spin_lock(&ch->lock);
	up = sess->state == before && ch->state == KRDMA_CHANNEL_CONNECTING;
	if (up) {
		WRITE_ONCE(ch->connections, ch->connections + 1);
		krdma_channel_set_state(ch, KRDMA_CHANNEL_UP);
		ch->last_wc = jiffies;
		krdma_channel_tick_by(ch, ktime_add_ms(ktime_get(), krdma_channel_beat_ms(ch)));
		if (begins)
			WRITE_ONCE(ch->resumes, sess->resume_s);
		/* The loss may not be settled yet. */
		if (!ch->first && !sess->resuming)
			sess->lost_at = jiffies;
		if (!ch->first) {
			sess->resuming = false;
			sess->replaced = false;
			sess->tried = 0;
		}
		if (!ch->first && !krdma_session_first(ch, begins))
			krdma_session_protocol_locked(sess, "it has received what can't be");
		ch->last_path = ch->path;
		/* Lost between the last step of the connect and here. */
		if (ch->broken)
			krdma_channel_lost(ch, ch->broken);
	}
	lost = ch->state == KRDMA_CHANNEL_DOWN && !ch->resumes;
	krdma_channel_unlock_later(ch);
	/* The service may wait for it. */
	if (up)
		wake_up_all(&sess->wait);
	if (up && begins) {
		krdma_session_set_state(sess, KRDMA_SESSION_UP);
		krdma_stat_inc(KRDMA_STAT_SESSIONS_MADE);
		krdma_session_event(sess, KRDMA_EVENT_SESSION_UP, NULL, 0, NULL);
		krdma_session_tick_by(sess, ktime_add_ms(ktime_get(), KRDMA_SESSION_TICK_MS));
	} else if (up && !ch->first && !lost) {
		krdma_session_resumed(sess);
	}
	if (up)
		krdma_paths_event(sess, NULL);
	/* The peer's first message may be here already. */
	if (up && !ch->first)
		queue_work(krdma_wq, &sess->rx_work);
	/* ORDER: under the lock, so that no waiter finds the session up. */
	if (lost && !ch->first)
		krdma_session_fail_locked(sess, ch->err, ch->lost_cause, ch->lost_bye);
	spin_unlock_bh(&sess->lock);
	if (up && !begins && ch->data)
		ch->data->connected(ch);
}

/**
 * krdma_session_begin - begin to connect or to accept a channel of a session that is up
 * @sess: session
 * @ch: channel, dead; krdma_session_begun() follows
 * @path: over which
 *
 * Context: session->lock held.
 */
void krdma_session_begin(struct krdma_session *sess, struct krdma_channel *ch,
			 struct krdma_path *path)
{
	lockdep_assert_held(&sess->lock);
	sess->beginning++;
	krdma_sessions_begin();
	krdma_channel_begin(ch, path);
}

/*
 * Nothing sets the channel up any more. A session that failed meanwhile is taken apart
 * from here, and not waited for there: siw may sit in a TCP connect for two minutes.
 */
static void krdma_session_begun_locked(struct krdma_session *sess, struct krdma_channel *ch)
{
	lockdep_assert_held(&sess->lock);
	if (ch->attached)
		atomic_dec(&ch->dev->beginning);
	ch->attached = false;
	krdma_sessions_begun();
	krdma_channels_begun(ch);
	if (!--sess->beginning && sess->state >= KRDMA_SESSION_CLOSING)
		queue_delayed_work(sess->down_wq, &sess->down_work, 0);
}

/**
 * krdma_session_fail_locked - end a session
 * @sess: session
 * @err: negative errno
 * @cause: a phrase, static
 * @bye: enum krdma_wire_reason to tell the peer, or KRDMA_BYE_*
 *
 * Context: session->lock held.
 */
void krdma_session_fail_locked(struct krdma_session *sess, int err, const char *cause, int bye)
{
	bool told = true;
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&sess->lock);
	if (sess->state >= KRDMA_SESSION_CLOSING)
		return;
	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		/* What follows from the first one's end may be here first: that is the reason. */
		if (!ch->first && ch->err && !ch->resumes) {
			err = ch->err;
			cause = ch->lost_cause;
			bye = ch->lost_bye;
		}
		/* There is nobody to tell while it is lost. */
		if (!ch->first)
			told = ch->state == KRDMA_CHANNEL_UP || !(sess->resuming || ch->resumes);
		/* ORDER: it is the status of transfers that end with their channel. */
		WRITE_ONCE(sess->err, err);
		WRITE_ONCE(ch->resumes, false);
		krdma_channel_close(ch);
		/* A connect that waits for an event. */
		complete(&ch->cm_done);
		krdma_channel_unlock_later(ch);
	}
	sess->cause = cause;
	sess->bye = sess->state == KRDMA_SESSION_UP && told ? bye : KRDMA_BYE_LOST;
	if (sess->state == KRDMA_SESSION_UP && bye != KRDMA_WIRE_REASON_NONE &&
	    bye != KRDMA_BYE_QUIET) {
		krdma_stat_inc(KRDMA_STAT_SESSIONS_LOST);
		pr_info_ratelimited("krdma_mover: session %llu with %pISpc ends: %s\n",
				    sess->serial, &sess->dst, cause);
	}
	if (sess->state == KRDMA_SESSION_UP)
		krdma_session_event(sess, KRDMA_EVENT_SESSION_ENDED, NULL, err, cause);
	krdma_session_set_state(sess, KRDMA_SESSION_CLOSING);
	sess->role->changed(sess);
	if (cancel_work(&sess->connect_work))
		krdma_session_begun_locked(sess, sess->ch);
	else if (!sess->beginning)
		queue_delayed_work(sess->down_wq, &sess->down_work, 0);
}

/**
 * krdma_session_fail - end a session
 * @sess: session
 * @err: negative errno
 * @cause: a phrase, static
 * @bye: enum krdma_wire_reason to tell the peer, -1 where that is no use
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_session_fail(struct krdma_session *sess, int err, const char *cause, int bye)
{
	spin_lock_bh(&sess->lock);
	krdma_session_fail_locked(sess, err, cause, bye);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_session_begun - the connect work, or the handler of a connect request, is through
 * @ch: channel
 * @rc: 0, or why it could not be connected or accepted
 * @cause: the same as a phrase, static
 *
 * A session that failed meanwhile is not taken apart before this.
 *
 * Context: process.
 */
void krdma_session_begun(struct krdma_channel *ch, int rc, const char *cause)
{
	struct krdma_session *sess = ch->sess;

	spin_lock_bh(&sess->lock);
	if (rc)
		krdma_session_fail_locked(sess, rc, cause, -1);
	krdma_session_begun_locked(sess, ch);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_session_protocol_locked - the peer broke the protocol
 * @sess: session, which ends when the lock is dropped
 * @cause: how, static
 *
 * Context: the lock of the first channel held.
 */
void krdma_session_protocol_locked(struct krdma_session *sess, const char *cause)
{
	krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
	pr_warn_ratelimited("krdma_mover: session %llu: %pISpc broke the protocol: %s\n",
			    sess->serial, &sess->dst, cause);
	krdma_channel_fail(sess->ch, -ECONNRESET, "the peer broke the protocol",
			   KRDMA_WIRE_REASON_PROTOCOL);
}

/**
 * krdma_session_protocol - the same, without the lock
 * @sess: session
 * @cause: how, static
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_session_protocol(struct krdma_session *sess, const char *cause)
{
	krdma_channel_lock(sess->ch);
	krdma_session_protocol_locked(sess, cause);
	krdma_channel_unlock(sess->ch);
}

/**
 * krdma_session_explain - the sentence for a session or a channel that is not up
 * @sess: session
 * @ch: channel that was used
 * @err: errno that the user gets
 * @error: explanation
 *
 * Context: any.
 * Return: @err
 */
int krdma_session_explain(struct krdma_session *sess, const struct krdma_channel *ch, int err,
			  struct krdma_error *error)
{
	const char *reason;
	bool up;

	spin_lock_bh(&sess->lock);
	/* The channel fails first. */
	reason = sess->cause ?: sess->drains ?: READ_ONCE(ch->lost_cause);
	up = sess->state == KRDMA_SESSION_UP && !sess->drains &&
	     (ch->first || READ_ONCE(ch->resumes));
	spin_unlock_bh(&sess->lock);
	if (up)
		return krdma_explain(error, err, "channel %u to %pISpc is lost: %s", ch->index,
				     &sess->dst, reason ?: "it is not up");
	return krdma_explain(error, err, "the session with %pISpc is lost: %s", &sess->dst,
			     reason ?: "it is not up");
}

/**
 * krdma_session_rights - the rights that the transport can have
 * @sess: session that was up
 *
 * Return: KRDMA_RIGHT_*
 */
u32 krdma_session_rights(const struct krdma_session *sess)
{
	u32 rights = READ_ONCE(sess->rights);

	return sess->ch->messages ? rights | KRDMA_RIGHT_MESSAGE : rights;
}

/**
 * krdma_session_shown - the rights that the peer knows
 * @sess: inbound session with a channel
 *
 * Those of the protocol's version, and of the features that are used: others are not for it to
 * see. Whether the transport has them is another question, krdma_session_rights().
 *
 * Return: KRDMA_RIGHT_*
 */
u32 krdma_session_shown(const struct krdma_session *sess)
{
	u32 rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC;

	return sess->ch->messages ? rights | KRDMA_RIGHT_MESSAGE : rights;
}

/**
 * krdma_session_device - the device of a channel of a session that is up
 * @sess: session
 * @ch: channel
 *
 * Context: any.
 * Return: the device, to be put by krdma_device_put; NULL if there is none, or it goes
 */
struct krdma_device *krdma_session_device(struct krdma_session *sess,
					  const struct krdma_channel *ch)
{
	struct krdma_device *dev = NULL;

	spin_lock_bh(&sess->lock);
	/* ORDER: it goes only when it is ->gone, or the session is down. */
	if (sess->state == KRDMA_SESSION_UP) {
		/* ORDER: ->gone before ->dev, as in krdma_path_release(). */
		if (!smp_load_acquire(&ch->path->gone) && ch->path->epoch)
			dev = READ_ONCE(ch->path->dev);
		if (dev)
			refcount_inc(&dev->refs);
	}
	spin_unlock_bh(&sess->lock);
	return dev;
}

/**
 * krdma_session_serve - let the service look for work
 * @sess: session
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_session_serve(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP)
		queue_work(sess->wq, &sess->svc_work);
	spin_unlock_bh(&sess->lock);
}

/* ---- life ---- */

static void krdma_session_release(struct kref *ref)
{
	struct krdma_session *sess = container_of(ref, struct krdma_session, ref);
	struct krdma_channel *ch;
	u32 i;

	xa_destroy(&sess->grants);
	/* That of one that was listed went before, in down_work. */
	if (sess->wq)
		destroy_workqueue(sess->wq);
	krdma_for_each_channel(ch, sess, i)
		kfree(ch);
	kfree(sess);
}

/**
 * krdma_session_put - let go of a session's memory
 * @sess: session
 *
 * Context: any; process, if it was never listed.
 */
void krdma_session_put(struct krdma_session *sess)
{
	kref_put(&sess->ref, krdma_session_release);
}

/* Tell the peer. Return: it is on its way, and down_work comes again when it has gone out. */
static bool krdma_session_bye(struct krdma_session *sess)
{
	/* RFC 5044: not before the peer has spoken. */
	bool shy = sess->ch->iwarp && sess->inbound && !sess->ch->heard;
	bool leaving;

	leaving = sess->bye >= 0 && !shy && krdma_ctl_bye(sess, sess->bye);
	sess->bye = -1;
	spin_lock_bh(&sess->lock);
	leaving = leaving && krdma_post_tx_out(sess->ch);
	sess->leaving = leaving;
	/* No worker waits for it: the peer may not take it. */
	if (leaving)
		queue_delayed_work(sess->down_wq, &sess->down_work, msecs_to_jiffies(KRDMA_BYE_MS));
	spin_unlock_bh(&sess->lock);
	return leaving;
}

/* A buffer that somebody lacked has come back. */
static void krdma_session_tx_free(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	krdma_credits_settle(sess);
	if (sess->drains && sess->inbound && !sess->noticed)
		krdma_session_tick_by(sess, ktime_get());
	if (sess->leaving && !krdma_post_tx_out(sess->ch)) {
		sess->leaving = false;
		mod_delayed_work(sess->down_wq, &sess->down_work, 0);
	}
	spin_unlock_bh(&sess->lock);
}

/* Takes the session apart; nothing is posted since the state is CLOSING. */
static void krdma_session_down_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, down_work.work);
	/* Transfers of the session end with it. */
	unsigned int noio = memalloc_noio_save();
	struct krdma_channel *ch;
	u32 i;

	/* 1. Nothing starts what the next steps end. */
	cancel_delayed_work_sync(&sess->tick);
	cancel_delayed_work_sync(&sess->channels_work);
	cancel_work_sync(&sess->ends_work);
	krdma_for_each_channel(ch, sess, i) {
		cancel_delayed_work_sync(&ch->tick);
		if (ch->data)
			ch->data->fail_rest(ch);
	}
	krdma_rpcs_fail(sess);
	if (krdma_session_bye(sess)) {
		memalloc_noio_restore(noio);
		return;
	}
	/* The BYE may have gone out when its time was over: once is enough. */
	cancel_delayed_work(&sess->down_work);
	/* 2. What is posted ends, and each requester without a reply is woken. */
	krdma_for_each_channel(ch, sess, i)
		krdma_channel_stop(ch);
	krdma_rpcs_fail(sess);
	cancel_work_sync(&sess->rx_work);
	krdma_for_each_channel(ch, sess, i) {
		tasklet_kill(&ch->reply_tasklet);
		krdma_conn_drain(ch);
	}
	/* The service may wait for a completion that does not come (siw). */
	krdma_session_svc_done(sess);
	cancel_work_sync(&sess->svc_work);
	/* 3. ORDER: the queue pairs go first, then no key can be used, and no handler runs. */
	krdma_for_each_channel(ch, sess, i) {
		krdma_conn_destroy(ch);
		/* All transfers have ended: the last that was left to it is completed. */
		tasklet_kill(&ch->kick);
	}
	/* A grace period may have ended on another channel than the first. */
	cancel_work_sync(&sess->rx_work);
	sess->role->drop(sess);
	krdma_fences_drop(sess);
	krdma_for_each_channel(ch, sess, i)
		krdma_conn_release(ch);
	krdma_paths_release(sess);

	spin_lock_bh(&sess->lock);
	krdma_session_set_state(sess, KRDMA_SESSION_DEAD);
	spin_unlock_bh(&sess->lock);

	/* ORDER: the session may be freed from here on. */
	queue_work(krdma_close_wq, &sess->gone_work);
	memalloc_noio_restore(noio);
}

/* Not by down_work: a worker with a rescuer must not wait for a queue without one. */
static void krdma_session_gone_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, gone_work);

	if (sess->wq)
		destroy_workqueue(sess->wq);
	sess->wq = NULL;
	if (!sess->inbound)
		put_net(sess->net);
	krdma_sessions_del(sess);
	krdma_session_put(sess);
}

/**
 * krdma_session_svc_done - what the service has posted has completed
 * @sess: session
 *
 * Context: any.
 */
void krdma_session_svc_done(struct krdma_session *sess)
{
	complete(&sess->svc_done);
	wake_up_all(&sess->wait);
}

/* Work of session->wq, so that it may wait for the peer. */
static void krdma_session_svc_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, svc_work);

	sess->role->serve(sess);
}

/* ---- what its channels need of it ---- */

static void krdma_session_channel_begin(struct krdma_channel *ch)
{
	tasklet_setup(&ch->reply_tasklet, krdma_ctl_replies);
	ch->drains = ch->sess->drains;
	/* Each path has to be watched. */
	ch->beats = !ch->first || ch->sess->npaths > 1;
	ch->measures = ch->sess->npaths > 1 && ch->sess->options.policy == KRDMA_POLICY_LATENCY;
	ch->peer_scale = ch->sess->timeout_scale;
	ch->keepalive_s = ch->sess->keepalive_s;
}

/* Can a session go on with a channel's device as with the one that it began on? */
static const char *krdma_session_unfit(const struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	/* Not what it has refused since: a session that has such a right goes on. */
	u32 rights = ch->dev->policy.rights;

	/* Some adapters tell of atomics, and do iWARP, which has none. */
	if (ch->iwarp)
		rights &= KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE;
	if (!ch->first && !ch->connections) {
		sess->segment_shift = ch->dev->segment_shift;
		sess->rights = rights & krdma_device_rights(ch->dev);
		sess->iwarp = ch->iwarp;
		return NULL;
	}
	if (ch->iwarp != sess->iwarp)
		return "its transport is another one";
	if (ch->dev->segment_shift < sess->segment_shift || (sess->rights & ~rights))
		return "its RDMA device can do less than the session's first one";
	return NULL;
}

static void krdma_session_hold(struct krdma_channel *ch)
{
	kref_get(&ch->sess->ref);
}

static void krdma_session_settle(struct krdma_channel *ch, u32 events)
{
	struct krdma_session *sess = ch->sess;

	if ((events & KRDMA_CHANNEL_LOST) && (ch->first || READ_ONCE(ch->resumes)))
		krdma_channels_lost(ch);
	else if (events & KRDMA_CHANNEL_LOST)
		krdma_session_fail(sess, ch->err, ch->lost_cause, ch->lost_bye);
	if (events & KRDMA_CHANNEL_TX)
		krdma_session_tx_free(sess);
	if (events & KRDMA_CHANNEL_IDLE)
		krdma_session_drained(sess);
	krdma_session_put(sess);
}

static const struct krdma_channel_ops krdma_session_channel_ops = {
	.begin = krdma_session_channel_begin,
	.unfit = krdma_session_unfit,
	.hold = krdma_session_hold,
	.tx_free = krdma_ctl_rx_kick,
	.received = krdma_ctl_rx_came,
	.settle = krdma_session_settle,
	.established = krdma_session_up,
	.beat = krdma_rpc_heartbeat,
	.moved = krdma_path_moved,
};

/**
 * krdma_channel_new - allocate a channel
 * @sess: its session
 * @index: in that
 *
 * Context: process.
 * Return: the channel, dead; NULL without memory
 */
struct krdma_channel *krdma_channel_new(struct krdma_session *sess, u32 index)
{
	struct krdma_channel *ch = krdma_inject(kzalloc(sizeof(*ch), GFP_KERNEL), NULL);

	if (!ch)
		return NULL;
	krdma_channel_init(ch, sess, &krdma_session_channel_ops);
	ch->serial = sess->serial;
	ch->index = index;
	ch->first = sess->ch;
	ch->inbound = sess->inbound;
	ch->data = sess->role->data;
	return ch;
}

/**
 * krdma_session_new - allocate a session, connecting
 * @inbound: the peer connects
 *
 * Context: process.
 * Return: the session with one reference, NULL without memory
 */
struct krdma_session *krdma_session_new(bool inbound)
{
	struct krdma_session *sess = krdma_inject(kzalloc(sizeof(*sess), GFP_KERNEL), NULL);

	if (!sess)
		return NULL;
	sess->inbound = inbound;
	sess->role = krdma_roles[inbound];
	/* The end waits for the service, which may wait for memory and for pages of files. */
	sess->down_wq = inbound ? krdma_leave_wq : krdma_down_wq;
	sess->ch = krdma_channel_new(sess, 0);
	if (!sess->ch) {
		kfree(sess);
		return NULL;
	}
	sess->channels[0] = sess->ch;
	sess->nchannels = 1;
	kref_init(&sess->ref);
	spin_lock_init(&sess->lock);
	init_waitqueue_head(&sess->wait);
	INIT_LIST_HEAD(&sess->rpcs);
	INIT_LIST_HEAD(&sess->creditless);
	INIT_LIST_HEAD(&sess->requests);
	INIT_LIST_HEAD(&sess->regions);
	INIT_LIST_HEAD(&sess->recalls);
	INIT_LIST_HEAD(&sess->segs);
	INIT_LIST_HEAD(&sess->reclaims);
	xa_init(&sess->grants);
	init_completion(&sess->svc_done);
	INIT_WORK(&sess->connect_work, krdma_session_connect_work);
	INIT_DELAYED_WORK(&sess->channels_work, krdma_channels_work);
	INIT_WORK(&sess->ends_work, krdma_channels_ends_work);
	INIT_WORK(&sess->rx_work, krdma_ctl_rx_work);
	INIT_WORK(&sess->svc_work, krdma_session_svc_work);
	INIT_DELAYED_WORK(&sess->down_work, krdma_session_down_work);
	INIT_WORK(&sess->gone_work, krdma_session_gone_work);
	krdma_session_tick_init(sess);
	sess->state = KRDMA_SESSION_CONNECTING;
	sess->made = ktime_get();
	sess->beginning = 1;
	sess->bye = -1;
	sess->credits.size = KRDMA_CREDITS;
	sess->last_reply = jiffies;
	sess->generation = get_random_u32();
	krdma_paths_init(sess);
	spin_lock_bh(&sess->lock);
	krdma_channel_begin(sess->ch, &sess->paths[0]);
	spin_unlock_bh(&sess->lock);
	if (sess->role->init)
		sess->role->init(sess);
	return sess;
}

/**
 * krdma_session_queue - make the queue of the works that may wait for the peer
 * @sess: session
 *
 * Its own, so that a peer that keeps it waiting holds up no other session: a queue that
 * they shared could be filled. With a rescuer where transfers wait for a connection that is lost.
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_session_queue(struct krdma_session *sess)
{
	sess->wq = krdma_inject(
		alloc_ordered_workqueue("krdma_session", sess->inbound ? 0 : WQ_MEM_RECLAIM), NULL);
	return sess->wq ? 0 : -ENOMEM;
}
