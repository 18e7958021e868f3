// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: made, shared, ended. What time does to them is tick.c's.
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
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "ctx.h"
#include "trace.h"

DEFINE_MUTEX(krdma_sessions_lock); /* list of sessions and the users of each */
LIST_HEAD(krdma_sessions);
static DECLARE_WAIT_QUEUE_HEAD(krdma_sessions_wait);
static atomic_t krdma_sessions_beginning;
static u64 krdma_session_serial;
static u32 krdma_nsessions;

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
 * Context: any; a hint, unless session->lock is held.
 * Return: true if it can
 */
bool krdma_session_is_up(struct krdma_session *sess)
{
	return READ_ONCE(sess->state) == KRDMA_SESSION_UP;
}

/**
 * krdma_session_up - the channel is established
 * @sess: session
 *
 * Context: process.
 */
void krdma_session_up(struct krdma_session *sess)
{
	ktime_t now = ktime_get();
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_CONNECTING) {
		sess->ch->last_wc = jiffies;
		krdma_session_set_state(sess, KRDMA_SESSION_UP);
		/* Lost between the last step of the connect and here. */
		if (sess->ch->broken)
			krdma_session_lost_locked(sess, sess->ch->broken, &done);
	}
	if (sess->state == KRDMA_SESSION_UP) {
		krdma_session_tick_by(sess, ktime_add_ms(now, KRDMA_HEARTBEAT_MS));
		/* The peer's first message may be here already. */
		queue_work(krdma_wq, &sess->rx_work);
		krdma_stat_inc(KRDMA_STAT_SESSIONS_MADE);
	}
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
}

/*
 * Nothing sets the channel up any more. A session that failed meanwhile is taken apart
 * from here, and not waited for there: siw may sit in a TCP connect for two minutes.
 */
static void krdma_session_begun_locked(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	sess->beginning = false;
	if (sess->dev)
		atomic_dec(&sess->dev->beginning);
	atomic_dec(&krdma_sessions_beginning);
	wake_up_all(&krdma_sessions_wait);
	if (sess->state >= KRDMA_SESSION_CLOSING)
		queue_delayed_work(krdma_down_wq, &sess->down_work, 0);
}

static void krdma_session_begun(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	krdma_session_begun_locked(sess);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_session_fail_locked - end a session
 * @sess: session
 * @err: negative errno
 * @cause: a phrase, static
 * @bye: enum krdma_wire_reason to tell the peer, -1 where that is no use,
 *	KRDMA_BYE_QUIET where the peer has ended it in peace
 * @done: transfers that ended by it
 *
 * Context: session->lock held.
 */
void krdma_session_fail_locked(struct krdma_session *sess, int err, const char *cause, int bye,
			       struct krdma_queue *done)
{
	lockdep_assert_held(&sess->lock);
	if (sess->state >= KRDMA_SESSION_CLOSING)
		return;
	sess->err = err;
	sess->cause = cause;
	sess->bye = sess->state == KRDMA_SESSION_UP ? bye : -1;
	if (sess->state == KRDMA_SESSION_UP && bye != KRDMA_WIRE_REASON_NONE &&
	    bye != KRDMA_BYE_QUIET) {
		krdma_stat_inc(KRDMA_STAT_SESSIONS_LOST);
		pr_info_ratelimited("krdma_mover: session %llu with %pISpc ends: %s\n",
				    sess->serial, &sess->dst, cause);
	}
	krdma_session_set_state(sess, KRDMA_SESSION_CLOSING);
	krdma_transfers_fail(sess, done);
	krdma_regions_lost(sess);
	/* A connect that waits for an event, a sender that waits for a buffer. */
	complete(&sess->ch->cm_done);
	wake_up_all(&sess->ch->tx_wait);
	krdma_segments_wake();
	if (cancel_work(&sess->connect_work))
		krdma_session_begun_locked(sess);
	else if (!sess->beginning)
		queue_delayed_work(krdma_down_wq, &sess->down_work, 0);
}

/**
 * krdma_session_fail - end a session
 * @sess: session
 * @err: negative errno
 * @cause: a phrase, static
 * @bye: enum krdma_wire_reason to tell the peer, -1 where that is no use
 *
 * Context: any; no session lock held.
 */
void krdma_session_fail(struct krdma_session *sess, int err, const char *cause, int bye)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	krdma_session_fail_locked(sess, err, cause, bye, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_session_lost_locked - the connection is lost: end the session
 * @sess: session
 * @cause: a phrase, static
 * @done: transfers that ended by it
 *
 * The reason that the peer gave stays the reason, though its BYE may not be handled yet.
 *
 * Context: session->lock held.
 */
void krdma_session_lost_locked(struct krdma_session *sess, const char *cause,
			       struct krdma_queue *done)
{
	const struct krdma_channel *ch = sess->ch;

	if (ch->bye >= 0)
		krdma_session_fail_locked(sess, -ECONNRESET, krdma_proto_reason_text(ch->bye),
					  ch->bye ? -1 : KRDMA_BYE_QUIET, done);
	else
		krdma_session_fail_locked(sess, -ECONNRESET, ch->lost ?: cause, -1, done);
}

/**
 * krdma_session_broken - the connection is lost
 * @sess: session
 * @cause: a phrase, static
 *
 * While we connect, the connect work tells what it was.
 *
 * Context: any but hard interrupts; no session lock held.
 */
void krdma_session_broken(struct krdma_session *sess, const char *cause)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_CONNECTING && !sess->inbound)
		sess->ch->broken = cause;
	else
		krdma_session_lost_locked(sess, cause, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_session_protocol - the peer broke the protocol
 * @sess: session
 * @cause: how, static
 *
 * Context: any; no session lock held.
 */
void krdma_session_protocol(struct krdma_session *sess, const char *cause)
{
	krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
	pr_warn_ratelimited("krdma_mover: session %llu: %pISpc broke the protocol: %s\n",
			    sess->serial, &sess->dst, cause);
	krdma_session_fail(sess, -ECONNRESET, "the peer broke the protocol",
			   KRDMA_WIRE_REASON_PROTOCOL);
}

/**
 * krdma_session_explain - the sentence for a session that is not up
 * @sess: session
 * @err: errno that the user gets
 * @error: explanation
 *
 * Context: any.
 * Return: @err
 */
int krdma_session_explain(struct krdma_session *sess, int err, struct krdma_error *error)
{
	const char *reason;

	spin_lock_bh(&sess->lock);
	reason = sess->cause;
	spin_unlock_bh(&sess->lock);
	return krdma_explain(error, err, "the session with %pISpc is lost: %s", &sess->dst,
			     reason ?: "it is not up");
}

/**
 * krdma_session_device - the device of a session that is up
 * @sess: session
 *
 * Context: any.
 * Return: the device, to be put by krdma_device_put; NULL if not up
 */
struct krdma_device *krdma_session_device(struct krdma_session *sess)
{
	struct krdma_device *dev = NULL;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP) {
		dev = sess->dev;
		refcount_inc(&dev->refs);
	}
	spin_unlock_bh(&sess->lock);
	return dev;
}

/**
 * krdma_session_serve - let the service look for work
 * @sess: session
 *
 * Context: any; no session lock held.
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

	xa_destroy(&sess->grants);
	xa_destroy(&sess->senders);
	/* That of one that was listed went before, in down_work. */
	if (sess->wq)
		destroy_workqueue(sess->wq);
	kfree(sess->rx_msg);
	kfree(sess->ch->rx_msg);
	kfree(sess->ch);
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
	int reason = sess->bye;
	bool leaving;

	sess->bye = -1;
	/* RFC 5044: not before the peer has spoken. */
	if (reason < 0 || (sess->ch->iwarp && sess->inbound && !sess->ch->heard))
		return false;
	if (!krdma_ctl_bye(sess, reason))
		return false;
	spin_lock_bh(&sess->lock);
	sess->leaving = sess->ch->tx_busy > sess->ch->tx_taken;
	/* No worker waits for it: the peer may not take it. */
	if (sess->leaving)
		queue_delayed_work(krdma_down_wq, &sess->down_work, msecs_to_jiffies(KRDMA_BYE_MS));
	leaving = sess->leaving;
	spin_unlock_bh(&sess->lock);
	return leaving;
}

/**
 * krdma_session_left - all that was sent has gone out
 * @sess: session
 *
 * Context: session->lock held.
 */
void krdma_session_left(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	if (!sess->leaving)
		return;
	sess->leaving = false;
	mod_delayed_work(krdma_down_wq, &sess->down_work, 0);
}

/* Takes the session apart; nothing is posted since the state is CLOSING. */
static void krdma_session_down_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, down_work.work);

	/* 1. Nothing starts what the next steps end. */
	cancel_delayed_work_sync(&sess->tick);
	krdma_transfers_fail_rest(sess);
	krdma_asks_fail(sess);
	if (krdma_session_bye(sess))
		return;
	spin_lock_bh(&sess->lock);
	sess->leaving = false;
	spin_unlock_bh(&sess->lock);
	/* The BYE may have gone out when its time was over: once is enough. */
	cancel_delayed_work(&sess->down_work);
	/* 2. What is posted ends, who waits for an answer hears of it. */
	krdma_conn_stop(sess->ch);
	krdma_asks_fail(sess);
	cancel_work_sync(&sess->rx_work);
	tasklet_kill(&sess->ch->rx_tasklet);
	krdma_conn_drain(sess->ch);
	/* The service may wait for a completion that does not come (siw). */
	complete(&sess->svc_done);
	cancel_work_sync(&sess->svc_work);
	/* 3. ORDER: the queue pair goes first, then no key can be used, and no handler runs. */
	krdma_conn_destroy(sess);
	krdma_grants_release(sess);
	krdma_letters_drop(sess->ch);
	krdma_regions_drop(sess);
	krdma_conn_release(sess);

	spin_lock_bh(&sess->lock);
	krdma_session_set_state(sess, KRDMA_SESSION_DEAD);
	spin_unlock_bh(&sess->lock);

	if (sess->wq)
		destroy_workqueue(sess->wq);
	sess->wq = NULL;
	if (!sess->inbound)
		put_net(sess->net);
	mutex_lock(&krdma_sessions_lock);
	list_del(&sess->node);
	krdma_nsessions--;
	mutex_unlock(&krdma_sessions_lock);
	wake_up_all(&krdma_sessions_wait);
	krdma_session_put(sess);
}

static void krdma_session_connect_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, connect_work);
	int rc = krdma_conn_connect(sess);

	if (rc)
		krdma_session_fail(sess, rc, sess->ch->cause, -1);
	else
		krdma_session_up(sess);
	krdma_session_begun(sess);
}

/**
 * krdma_session_new - allocate a session, connecting
 *
 * Context: process.
 * Return: the session with one reference, NULL without memory
 */
struct krdma_session *krdma_session_new(void)
{
	struct krdma_session *sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	struct krdma_channel *ch = kzalloc(sizeof(*ch), GFP_KERNEL);

	if (sess)
		sess->rx_msg = kzalloc(sizeof(*sess->rx_msg), GFP_KERNEL);
	if (ch)
		ch->rx_msg = kzalloc(sizeof(*ch->rx_msg), GFP_KERNEL);
	if (!sess || !ch || !sess->rx_msg || !ch->rx_msg)
		goto out_free;
	kref_init(&sess->ref);
	spin_lock_init(&sess->lock);
	init_waitqueue_head(&sess->wait);
	INIT_LIST_HEAD(&sess->node);
	INIT_LIST_HEAD(&sess->asks);
	INIT_LIST_HEAD(&sess->creditless);
	INIT_LIST_HEAD(&sess->requests);
	INIT_LIST_HEAD(&sess->regions);
	INIT_HLIST_HEAD(&sess->transfers);
	INIT_LIST_HEAD(&sess->ready);
	INIT_LIST_HEAD(&sess->unmapped);
	INIT_LIST_HEAD(&sess->recalls);
	INIT_LIST_HEAD(&sess->segs);
	INIT_LIST_HEAD(&sess->mail);
	xa_init(&sess->grants);
	krdma_senders_init(sess);
	init_completion(&sess->svc_done);
	INIT_WORK(&sess->connect_work, krdma_session_connect_work);
	INIT_WORK(&sess->rx_work, krdma_ctl_rx_work);
	INIT_WORK(&sess->svc_work, krdma_service_work);
	INIT_DELAYED_WORK(&sess->down_work, krdma_session_down_work);
	krdma_session_tick_init(sess);
	sess->state = KRDMA_SESSION_CONNECTING;
	sess->made = ktime_get();
	sess->beginning = true;
	sess->bye = -1;
	sess->window.size = KRDMA_WINDOW;
	sess->last_answer = jiffies;
	sess->generation = get_random_u32();
	sess->ch = ch;
	ch->sess = sess;
	ch->bye = -1;
	ch->timeout_scale = sess->timeout_scale;
	init_completion(&ch->cm_done);
	ch->last_wc = jiffies;
	ch->progress = jiffies;
	init_waitqueue_head(&ch->tx_wait);
	INIT_WORK(&ch->qp_event_work, krdma_conn_qp_work);
	INIT_LIST_HEAD(&ch->tx_free);
	INIT_LIST_HEAD(&ch->rx_list);
	tasklet_setup(&ch->rx_tasklet, krdma_ctl_rx_soft);
	INIT_LIST_HEAD(&ch->sinks);
	INIT_LIST_HEAD(&ch->letters_free);
	return sess;

out_free:
	if (sess)
		kfree(sess->rx_msg);
	if (ch)
		kfree(ch->rx_msg);
	kfree(sess);
	kfree(ch);
	return NULL;
}

/**
 * krdma_session_queue - make the queue of the works that may wait for the peer
 * @sess: session
 *
 * Its own, so that a peer that keeps it waiting holds up no other session: a queue that
 * they shared could be filled.
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_session_queue(struct krdma_session *sess)
{
	sess->wq = alloc_ordered_workqueue("krdma_session", 0);
	return sess->wq ? 0 : -ENOMEM;
}

/**
 * krdma_session_same_host - are two sessions of the same host?
 * @a: a session
 * @b: the other one
 *
 * Outbound ones are of this one, inbound ones of the address that they come from:
 * session->host.
 *
 * Context: any.
 * Return: true if they are
 */
bool krdma_session_same_host(const struct krdma_session *a, const struct krdma_session *b)
{
	if (!a->inbound || !b->inbound)
		return a->inbound == b->inbound;
	return !memcmp(&a->host, &b->host, sizeof(a->host));
}

/**
 * krdma_session_same_user - are two sessions of the same user?
 * @a: a session
 * @b: the other one
 *
 * Of inbound ones it is the user that the peer tells of, on that peer.
 *
 * Context: any.
 * Return: true if they are
 */
bool krdma_session_same_user(const struct krdma_session *a, const struct krdma_session *b)
{
	return krdma_session_same_host(a, b) && uid_eq(a->uid, b->uid);
}

/* How many sessions there are, of the same host and of the same user. */
struct krdma_session_count {
	u32 all;
	u32 host;
	u32 user;
};

static void krdma_session_count(struct krdma_session_count *count, const struct krdma_session *sess,
				const struct krdma_session *other)
{
	count->all++;
	count->host += krdma_session_same_host(sess, other);
	count->user += krdma_session_same_user(sess, other);
}

/* One more inbound session? Users of a host share what the host may have. */
static bool krdma_session_room(const struct krdma_session_count *count, u32 max, u32 host_max)
{
	return count->all < max && krdma_share_ok(count->user + 1, count->host + 1, host_max);
}

/* Nobody takes all: not one peer, not all peers, not one user of a peer or of this host. */
static int krdma_session_limits(struct krdma_session *sess)
{
	struct krdma_session_count in = {}, out = {}, messages = {}, new = {};
	struct krdma_session *other;
	bool room;

	if (krdma_nsessions >= KRDMA_SESSIONS_MAX)
		return -EDQUOT;
	list_for_each_entry(other, &krdma_sessions, node) {
		krdma_session_count(other->inbound ? &in : &out, sess, other);
		if (!other->inbound)
			continue;
		if (READ_ONCE(other->state) == KRDMA_SESSION_CONNECTING)
			krdma_session_count(&new, sess, other);
		if (other->messages)
			krdma_session_count(&messages, sess, other);
	}
	if (sess->inbound) {
		room = krdma_share_ok(new.host + 1, new.all + 1, KRDMA_INBOUND_NEW_MAX) &&
		       krdma_session_room(&in, KRDMA_INBOUND_MAX, KRDMA_INBOUND_PEER_MAX);
		if (sess->messages)
			room &= krdma_session_room(&messages, KRDMA_INBOUND_MESSAGES_MAX,
						   KRDMA_INBOUND_MESSAGES_PEER_MAX);
	} else {
		room = out.user < KRDMA_OUTBOUND_USER_MAX || uid_eq(sess->uid, GLOBAL_ROOT_UID);
	}
	return room ? 0 : -EDQUOT;
}

static int krdma_session_list(struct krdma_session *sess)
{
	lockdep_assert_held(&krdma_sessions_lock);
	if (krdma_session_limits(sess))
		return -EDQUOT;
	krdma_nsessions++;
	sess->serial = ++krdma_session_serial;
	list_add_tail(&sess->node, &krdma_sessions);
	atomic_inc(&krdma_sessions_beginning);
	/* Completion of the connection has a time limit. */
	spin_lock_bh(&sess->lock);
	krdma_session_tick_by(sess, ktime_add_ms(sess->made, krdma_session_connect_ms(sess)));
	spin_unlock_bh(&sess->lock);
	return 0;
}

/**
 * krdma_session_add - put an inbound session on the list
 * @sess: session; its reference goes to the list on success
 *
 * Context: process.
 * Return: 0 or -EDQUOT
 */
int krdma_session_add(struct krdma_session *sess)
{
	int rc;

	mutex_lock(&krdma_sessions_lock);
	rc = krdma_session_list(sess);
	mutex_unlock(&krdma_sessions_lock);
	return rc;
}

/**
 * krdma_session_accepted - the handler of a connect request is through
 * @sess: inbound session on the list
 * @rc: 0, or why it could not be accepted
 *
 * A session that failed meanwhile is not taken apart before this.
 *
 * Context: process.
 */
void krdma_session_accepted(struct krdma_session *sess, int rc)
{
	if (rc)
		krdma_session_fail(sess, rc, "it could not be accepted", -1);
	krdma_session_begun(sess);
}

static bool krdma_session_matches(struct krdma_session *sess, struct krdma_ctx *ctx,
				  const struct sockaddr_storage *dst,
				  const struct sockaddr_storage *src, u32 flags)
{
	/* One for messages serves those as well who want none. */
	if ((flags & KRDMA_CONNECT_MESSAGES) && !sess->messages)
		return false;
	return !sess->inbound && !sess->private && sess->net == ctx->net &&
	       uid_eq(sess->uid, ctx->user->uid) && READ_ONCE(sess->state) <= KRDMA_SESSION_UP &&
	       krdma_addr_equal(&sess->dst, dst) && krdma_addr_equal(&sess->src, src);
}

/* A session to share, with a user and a reference. */
static struct krdma_session *krdma_session_share(struct krdma_ctx *ctx,
						 const struct sockaddr_storage *dst,
						 const struct sockaddr_storage *src, u32 flags)
{
	struct krdma_session *sess;

	lockdep_assert_held(&krdma_sessions_lock);
	if (flags & KRDMA_CONNECT_PRIVATE)
		return NULL;
	list_for_each_entry(sess, &krdma_sessions, node) {
		if (krdma_session_matches(sess, ctx, dst, src, flags)) {
			sess->users++;
			kref_get(&sess->ref);
			return sess;
		}
	}
	return NULL;
}

static struct krdma_session *krdma_session_outbound(struct krdma_ctx *ctx,
						    const struct sockaddr_storage *dst,
						    const struct sockaddr_storage *src, u32 flags)
{
	struct krdma_session *sess = krdma_session_new();

	if (!sess)
		return NULL;
	if (krdma_session_queue(sess)) {
		krdma_session_put(sess);
		return NULL;
	}
	sess->private = flags & KRDMA_CONNECT_PRIVATE;
	sess->messages = flags & KRDMA_CONNECT_MESSAGES;
	sess->uid = ctx->user->uid;
	sess->dst = *dst;
	sess->src = *src;
	sess->users = 1;
	sess->net = get_net(ctx->net);
	return sess;
}

/* A session to share, or a new one that connects; with a user and a reference. */
static struct krdma_session *krdma_session_find(struct krdma_ctx *ctx,
						const struct sockaddr_storage *dst,
						const struct sockaddr_storage *src, u32 flags)
{
	struct krdma_session *sess, *new = NULL;
	int rc = 0;

	mutex_lock(&krdma_sessions_lock);
	sess = krdma_session_share(ctx, dst, src, flags);
	mutex_unlock(&krdma_sessions_lock);
	if (sess)
		return sess;
	/* ORDER: not under the lock, which connect requests need: memory may be had by I/O only. */
	new = krdma_session_outbound(ctx, dst, src, flags);
	if (!new)
		return ERR_PTR(-ENOMEM);

	mutex_lock(&krdma_sessions_lock);
	/* Another may have been made meanwhile. */
	sess = krdma_session_share(ctx, dst, src, flags);
	if (!sess)
		rc = krdma_session_list(new);
	if (!sess && !rc) {
		kref_get(&new->ref);
		/* ORDER: under the lock, or it may be lost to the tick, which calls it off. */
		spin_lock_bh(&new->lock);
		queue_work(new->wq, &new->connect_work);
		spin_unlock_bh(&new->lock);
	}
	mutex_unlock(&krdma_sessions_lock);
	if (!sess && !rc)
		return new;
	put_net(new->net);
	krdma_session_put(new);
	return sess ?: ERR_PTR(rc);
}

/**
 * krdma_session_connect - get a session with a peer
 * @ctx: open file
 * @dst: the peer
 * @src: local address, AF_UNSPEC for any
 * @flags: KRDMA_CONNECT_*
 * @timeout_ms: how long to wait
 * @error: explanation
 *
 * Context: process.
 * Return: the session, up, with a user and a reference, to be given to
 *	krdma_session_leave; or an ERR_PTR
 */
struct krdma_session *krdma_session_connect(struct krdma_ctx *ctx,
					    const struct sockaddr_storage *dst,
					    const struct sockaddr_storage *src, u32 flags,
					    u32 timeout_ms, struct krdma_error *error)
{
	struct krdma_session *sess;
	const char *reason;
	long left;
	int rc;

	sess = krdma_session_find(ctx, dst, src, flags);
	if (sess == ERR_PTR(-EDQUOT))
		krdma_explain(error, -EDQUOT,
			      "there are too many sessions: a user may have %u, a host %u",
			      KRDMA_OUTBOUND_USER_MAX, KRDMA_SESSIONS_MAX);
	if (IS_ERR(sess))
		return sess;

	left = wait_event_killable_timeout(sess->wait,
					   READ_ONCE(sess->state) != KRDMA_SESSION_CONNECTING,
					   msecs_to_jiffies(timeout_ms));
	spin_lock_bh(&sess->lock);
	rc = left < 0 ? -EINTR : sess->state == KRDMA_SESSION_CONNECTING ? -ETIMEDOUT : sess->err;
	reason = rc == sess->err ? sess->cause : "no answer in time";
	spin_unlock_bh(&sess->lock);
	if (!rc)
		return sess;
	krdma_explain(error, rc, "can't connect to %pISpc: %s", dst, reason ?: "it failed");
	krdma_session_leave(sess);
	return ERR_PTR(rc);
}

/**
 * krdma_session_join - one more handle needs the session
 * @sess: session of a handle that the caller holds
 *
 * Context: process.
 */
void krdma_session_join(struct krdma_session *sess)
{
	mutex_lock(&krdma_sessions_lock);
	sess->users++;
	kref_get(&sess->ref);
	mutex_unlock(&krdma_sessions_lock);
}

/**
 * krdma_session_leave - a handle of the session ends
 * @sess: session; lingers idle with the last, a private one ends
 *
 * Context: process. The handle's reference is put.
 */
void krdma_session_leave(struct krdma_session *sess)
{
	mutex_lock(&krdma_sessions_lock);
	if (!--sess->users) {
		sess->idle_since = jiffies;
		if (sess->private)
			krdma_session_fail(sess, -ENOTCONN, "it was not used any more",
					   KRDMA_WIRE_REASON_NONE);
		spin_lock_bh(&sess->lock);
		krdma_session_tick_by(sess, ktime_add_ms(ktime_get(), KRDMA_LINGER_MS));
		spin_unlock_bh(&sess->lock);
	}
	mutex_unlock(&krdma_sessions_lock);
	krdma_session_put(sess);
}

/**
 * krdma_sessions_fail_device - end the sessions on a device that goes
 * @dev: the device
 *
 * Context: process.
 */
void krdma_sessions_fail_device(struct krdma_device *dev)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node)
		if (READ_ONCE(sess->dev) == dev)
			krdma_session_fail(sess, -ENOTCONN, "the RDMA device was removed",
					   KRDMA_WIRE_REASON_SHUTDOWN);
	mutex_unlock(&krdma_sessions_lock);
}

/**
 * krdma_sessions_wait_begun - wait until no session is being connected on a device
 * @dev: the device, which takes no new ones
 *
 * Idle, not as a task that hangs: siw can't be called back from a connect.
 *
 * Context: process.
 */
void krdma_sessions_wait_begun(struct krdma_device *dev)
{
	wait_event_idle(krdma_sessions_wait, !atomic_read(&dev->beginning));
}

/**
 * krdma_sessions_fail_listener - end the sessions that came through a listener
 * @serial: of the listener
 *
 * Context: process.
 */
void krdma_sessions_fail_listener(u64 serial)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node)
		if (sess->inbound && sess->listener == serial)
			krdma_session_fail(sess, -ENOTCONN, "the listener was removed",
					   KRDMA_WIRE_REASON_SHUTDOWN);
	mutex_unlock(&krdma_sessions_lock);
}

/**
 * krdma_sessions_exit - end all sessions and wait, at unload
 *
 * Context: process; no listener and no open file is left.
 */
void krdma_sessions_exit(void)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node)
		krdma_session_fail(sess, -ENOTCONN, "the module is unloaded",
				   KRDMA_WIRE_REASON_SHUTDOWN);
	mutex_unlock(&krdma_sessions_lock);
	/* As for a device; nobody connects any more. */
	wait_event_idle(krdma_sessions_wait, !atomic_read(&krdma_sessions_beginning));
	wait_event(krdma_sessions_wait, list_empty_careful(&krdma_sessions));
}
