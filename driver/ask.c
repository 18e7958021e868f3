// SPDX-License-Identifier: GPL-2.0
/*
 * Our questions to the peer, and their places in its window (Documentation/wire.rst).
 *
 * A question needs a credit: a place, and a buffer to send from. Those that find none are
 * in a row, session->creditless, and no worker sleeps for it: the answer that frees a
 * place, or the completion that frees a buffer, hands it on.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/**
 * krdma_ask_new - a question to the peer
 * @type: enum krdma_wire_type
 * @fn: gets the answer
 * @arg: for @fn
 *
 * Context: process.
 * Return: the question with one reference, NULL without memory
 */
struct krdma_ask *krdma_ask_new(u8 type, krdma_ask_fn fn, void *arg)
{
	struct krdma_ask *ask = kzalloc(sizeof(*ask), GFP_KERNEL);

	if (!ask)
		return NULL;
	refcount_set(&ask->refs, 1);
	INIT_LIST_HEAD(&ask->node);
	init_completion(&ask->done);
	ask->type = type;
	/* What the owner's service answers may wait for other peers. */
	ask->service = type == KRDMA_WIRE_LIST || type == KRDMA_WIRE_OPEN ||
		       type == KRDMA_WIRE_SEGS || type == KRDMA_WIRE_CLOSE ||
		       type == KRDMA_WIRE_DIGEST;
	ask->fn = fn;
	ask->arg = arg;
	return ask;
}

/**
 * krdma_ask_put - let go of a question
 * @ask: the question
 *
 * Context: any.
 */
void krdma_ask_put(struct krdma_ask *ask)
{
	if (refcount_dec_and_test(&ask->refs))
		kfree(ask);
}

/**
 * krdma_credit_init - nobody has or waits for it yet
 * @credit: credit
 * @work: queued when the wait is over; NULL: session->wait is woken up
 *
 * Context: any.
 */
void krdma_credit_init(struct krdma_credit *credit, struct work_struct *work)
{
	INIT_LIST_HEAD(&credit->node);
	credit->work = work;
	credit->tx = NULL;
}

static void krdma_credit_settle(struct krdma_session *sess, struct krdma_credit *credit,
				struct krdma_tx *tx)
{
	list_del_init(&credit->node);
	credit->tx = tx;
	if (credit->work)
		queue_work(krdma_ask_wq, credit->work);
	else
		wake_up(&sess->wait);
}

/* A place and a buffer. As many buffers stay as there may be answers to give. */
static struct krdma_tx *krdma_credit_new(struct krdma_session *sess)
{
	struct krdma_tx *tx;

	if (!krdma_window_take(&sess->window))
		return NULL;
	tx = krdma_post_tx_take(sess->ch, KRDMA_WINDOW);
	if (!tx)
		krdma_window_put(&sess->window);
	return tx;
}

/**
 * krdma_credits_settle - a place or a buffer is free: the first that wait for one go on
 * @sess: session
 *
 * Context: session->lock held.
 */
void krdma_credits_settle(struct krdma_session *sess)
{
	struct krdma_credit *first;
	struct krdma_tx *tx;

	lockdep_assert_held(&sess->lock);
	while ((first = list_first_entry_or_null(&sess->creditless, struct krdma_credit, node)) &&
	       (tx = krdma_credit_new(sess)))
		krdma_credit_settle(sess, first, tx);
}

/* A place of the window is free. */
static void krdma_credit_free(struct krdma_session *sess)
{
	krdma_window_put(&sess->window);
	krdma_credits_settle(sess);
}

/**
 * krdma_credit_take_locked - have a place in the peer's window and a buffer, or wait for them
 * @sess: session
 * @credit: credit; may be waiting already
 *
 * Context: session->lock held.
 * Return: true if the wait is over: it has them, or the session is down.
 *	Otherwise it waits, and has to stay until that or krdma_credit_put.
 */
bool krdma_credit_take_locked(struct krdma_session *sess, struct krdma_credit *credit)
{
	lockdep_assert_held(&sess->lock);
	if (sess->state != KRDMA_SESSION_UP)
		return true;
	if (!credit->tx && list_empty(&credit->node)) {
		if (list_empty(&sess->creditless))
			credit->tx = krdma_credit_new(sess);
		if (!credit->tx)
			list_add_tail(&credit->node, &sess->creditless);
	}
	return credit->tx;
}

/**
 * krdma_credit_take - krdma_credit_take_locked
 * @sess: session
 * @credit: likewise
 *
 * Context: any; no session lock held.
 * Return: likewise
 */
bool krdma_credit_take(struct krdma_session *sess, struct krdma_credit *credit)
{
	bool over;

	spin_lock_bh(&sess->lock);
	over = krdma_credit_take_locked(sess, credit);
	spin_unlock_bh(&sess->lock);
	return over;
}

/**
 * krdma_credit_put - give up a credit, or the wait for one
 * @sess: session
 * @credit: credit; may have none
 *
 * Context: any; no session lock held.
 */
void krdma_credit_put(struct krdma_session *sess, struct krdma_credit *credit)
{
	spin_lock_bh(&sess->lock);
	list_del_init(&credit->node);
	if (credit->tx) {
		krdma_window_put(&sess->window);
		/* Settles what waits. */
		krdma_post_tx_free(sess->ch, credit->tx);
	}
	credit->tx = NULL;
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_ask_post - ask the peer
 * @sess: session
 * @credit: goes with the question, in any case, and is not used any more when
 *	->fn is called; may be empty if the session is down
 * @ask: the question; ->fn is called exactly once if this returns 0
 * @msg: what to ask; the tag is set here
 *
 * An answer that does not come within KRDMA_QUESTION_MS, or KRDMA_SERVICE_MS
 * where the owner's service gives it, times the timeout_scale, ends the session.
 *
 * Context: process.
 * Return: 0 or -ENOTCONN
 */
int krdma_ask_post(struct krdma_session *sess, struct krdma_credit *credit, struct krdma_ask *ask,
		   struct krdma_msg *msg)
{
	u32 answer_ms = ask->service ? KRDMA_SERVICE_MS * sess->timeout_scale :
				       KRDMA_QUESTION_MS * sess->ch->timeout_scale;
	struct krdma_tx *tx = credit->tx;
	int len, rc = -ENOTCONN;
	bool listed;

	if (!tx) {
		krdma_credit_put(sess, credit);
		return rc;
	}
	/* ->fn may let go of what holds the session. */
	kref_get(&sess->ref);
	refcount_inc(&ask->refs);
	spin_lock_bh(&sess->lock);
	ask->tag = krdma_window_tag(&sess->window);
	msg->tag = ask->tag;
	ask->posted = ktime_get();
	ask->expires = jiffies + msecs_to_jiffies(answer_ms);
	list_add_tail(&ask->node, &sess->asks);
	credit->tx = NULL;
	krdma_session_tick_by(sess, ktime_add_ms(ask->posted, answer_ms));
	spin_unlock_bh(&sess->lock);

	len = krdma_proto_encode(msg, tx->buf, KRDMA_WIRE_MSG_MAX);
	if (WARN_ON_ONCE(len < 0)) {
		krdma_post_tx_put(sess->ch, tx);
		rc = len;
		goto out_list;
	}
	trace_krdma_message(sess->serial, true, msg->type, false, ask->tag);
	rc = krdma_post_tx(sess->ch, tx, len, false);
	if (!rc)
		goto out;

out_list:
	spin_lock_bh(&sess->lock);
	listed = !list_empty(&ask->node);
	list_del_init(&ask->node);
	if (listed)
		krdma_credit_free(sess);
	spin_unlock_bh(&sess->lock);
	/* Else krdma_asks_fail has told the asker already. */
	if (listed)
		krdma_ask_put(ask);
	else
		rc = 0;
out:
	krdma_session_put(sess);
	return rc;
}

/**
 * krdma_ask_send - ask the peer as soon as it has a place for the question
 * @sess: session
 * @ask: as for krdma_ask_post
 * @msg: likewise
 * @wait_ms: how long to wait for a place in the peer's window; 0: do not wait at all
 *
 * Context: process.
 * Return: 0, -ENOTCONN, -ETIMEDOUT or -EINTR
 */
int krdma_ask_send(struct krdma_session *sess, struct krdma_ask *ask, struct krdma_msg *msg,
		   u32 wait_ms)
{
	struct krdma_credit credit;
	long left;

	krdma_credit_init(&credit, NULL);
	left = wait_event_killable_timeout(sess->wait, krdma_credit_take(sess, &credit),
					   msecs_to_jiffies(wait_ms));
	if (left <= 0) {
		krdma_credit_put(sess, &credit);
		return left ? -EINTR : -ETIMEDOUT;
	}
	return krdma_ask_post(sess, &credit, ask, msg);
}

static void krdma_ask_sync(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	if (msg)
		*ask->msg = *msg;
	ask->err = err;
	complete(&ask->done);
}

/**
 * krdma_ask_wait - ask the peer and wait for the answer
 * @sess: session
 * @msg: the question; the answer, if 0 is returned and @fn is NULL
 * @wait_ms: how long to wait at most
 * @fn: looks at the answer, sets ask->err and completes ask->done; NULL to have
 *	it copied
 * @rtt_ns: round trip, may be NULL
 *
 * Context: process.
 * Return: 0 or a negative errno, also that of the answer's status
 */
int krdma_ask_wait(struct krdma_session *sess, struct krdma_msg *msg, u32 wait_ms, krdma_ask_fn fn,
		   s64 *rtt_ns)
{
	struct krdma_ask *ask;
	bool waiting;
	long left;
	int rc;

	ask = krdma_ask_new(msg->type, fn ?: krdma_ask_sync, NULL);
	if (!ask)
		return -ENOMEM;
	ask->msg = msg;
	rc = krdma_ask_send(sess, ask, msg, wait_ms);
	if (rc)
		goto out;

	left = wait_for_completion_killable_timeout(&ask->done, msecs_to_jiffies(wait_ms));
	if (left <= 0) {
		spin_lock_bh(&sess->lock);
		waiting = ask->fn;
		ask->fn = NULL;
		spin_unlock_bh(&sess->lock);
		if (waiting) {
			rc = left ? -EINTR : -ETIMEDOUT;
			goto out;
		}
		/* The answer is being handed over. */
		wait_for_completion(&ask->done);
	}
	rc = ask->err;
	if (rtt_ns)
		*rtt_ns = ktime_to_ns(ktime_sub(ask->answered, ask->posted));
out:
	krdma_ask_put(ask);
	return rc;
}

/**
 * krdma_asks_fail - tell all askers that no answer will come
 * @sess: session, down
 *
 * Context: process.
 */
void krdma_asks_fail(struct krdma_session *sess)
{
	struct krdma_credit *credit, *next;
	struct krdma_ask *ask;
	krdma_ask_fn fn;

	spin_lock_bh(&sess->lock);
	list_for_each_entry_safe(credit, next, &sess->creditless, node)
		krdma_credit_settle(sess, credit, NULL);
	spin_unlock_bh(&sess->lock);
	for (;;) {
		spin_lock_bh(&sess->lock);
		ask = list_first_entry_or_null(&sess->asks, struct krdma_ask, node);
		if (!ask) {
			spin_unlock_bh(&sess->lock);
			return;
		}
		list_del_init(&ask->node);
		krdma_window_put(&sess->window);
		fn = ask->fn;
		ask->fn = NULL;
		spin_unlock_bh(&sess->lock);
		ask->answered = ktime_get();
		if (fn)
			fn(ask, NULL, -ENOTCONN);
		krdma_ask_put(ask);
	}
}

/**
 * krdma_asks_expired - is the peer late with an answer?
 * @sess: session
 * @next: lowered to the jiffies when the next answer is due
 *
 * Context: session->lock held.
 * Return: true if it is
 */
bool krdma_asks_expired(struct krdma_session *sess, unsigned long *next)
{
	unsigned long answer = msecs_to_jiffies(KRDMA_SERVICE_MS * sess->timeout_scale);
	unsigned long most = msecs_to_jiffies(KRDMA_SERVICE_MAX_MS * sess->timeout_scale);
	struct krdma_ask *ask;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(ask, &sess->asks, node) {
		unsigned long due = ask->expires;

		/*
		 * The owner's service answers one after the other: as long as it
		 * answers, none is late.
		 */
		if (ask->service && time_before(due, sess->last_answer + answer))
			due = sess->last_answer + answer;
		/* Nor can it answer others for ever instead. */
		if (ask->service && time_after(due, ask->expires + most))
			due = ask->expires + most;
		if (time_after_eq(jiffies, due))
			return true;
		if (time_before(due, *next))
			*next = due;
	}
	return false;
}

/**
 * krdma_ask_answered - an answer has come, not that of a message
 * @sess: session
 * @rx: its receive, posted again here unless the peer broke the protocol
 * @msg: the answer
 *
 * Context: rx_work.
 */
void krdma_ask_answered(struct krdma_session *sess, struct krdma_rx *rx,
			const struct krdma_msg *msg)
{
	ktime_t now = ktime_get();
	struct krdma_ask *ask;
	krdma_ask_fn fn = NULL;
	bool found = false;
	int err;

	spin_lock_bh(&sess->lock);
	sess->last_answer = jiffies;
	list_for_each_entry(ask, &sess->asks, node) {
		if (ask->tag == msg->tag && ask->type == msg->type) {
			list_del_init(&ask->node);
			fn = ask->fn;
			ask->fn = NULL;
			found = true;
			break;
		}
	}
	spin_unlock_bh(&sess->lock);
	if (!found) {
		krdma_session_protocol(sess, "an answer to a question never asked");
		return;
	}
	ask->answered = now;
	err = msg->status ? krdma_proto_errno(msg->status) : 0;
	if (fn)
		fn(ask, err ? NULL : msg, err);
	krdma_ask_put(ask);

	/* ORDER: the receive first, then the place for the next question. */
	krdma_post_rx(sess->ch, rx);
	spin_lock_bh(&sess->lock);
	krdma_credit_free(sess);
	spin_unlock_bh(&sess->lock);
}

/* ---- is the peer there? ---- */

static void krdma_ping_answer(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	const struct krdma_msg *sent = ask->msg;

	if (!err && (msg->ping.length != sent->ping.length ||
		     memcmp(msg->ping.data, sent->ping.data, sent->ping.length)))
		err = -EILSEQ;
	ask->err = err;
	complete(&ask->done);
}

static void krdma_heartbeat_answer(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	struct krdma_session *sess = ask->arg;

	spin_lock_bh(&sess->lock);
	sess->ch->heartbeat = false;
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_ask_heartbeat - ask the peer for a sign of life, on iWARP
 * @sess: session that is up
 *
 * There a WRITE completes without the peer, and siw answers a READ of no bytes
 * with others (siw_activate_tx). If the window is full, questions are under way
 * that serve as well.
 *
 * Context: the session's tick.
 */
void krdma_ask_heartbeat(struct krdma_session *sess)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	struct krdma_ask *ask = krdma_ask_new(KRDMA_WIRE_PING, krdma_heartbeat_answer, sess);

	if (!msg || !ask)
		goto out;
	spin_lock_bh(&sess->lock);
	sess->ch->heartbeat = true;
	spin_unlock_bh(&sess->lock);
	msg->type = KRDMA_WIRE_PING;
	if (!krdma_ask_send(sess, ask, msg, 0)) {
		krdma_stat_inc(KRDMA_STAT_HEARTBEATS);
	} else {
		spin_lock_bh(&sess->lock);
		sess->ch->heartbeat = false;
		spin_unlock_bh(&sess->lock);
	}
out:
	if (ask)
		krdma_ask_put(ask);
	kfree(msg);
}

/**
 * krdma_ask_fence - see that nothing is at the memory of keys that are dead
 * @sess: session
 *
 * On iWARP an invalidation does not wait for a packet that is being placed, nor
 * for TCP to be through with what a READ of the peer was answered with. The
 * answer to a question asked after it comes behind both: a stream is received
 * in order by one after the other, and the peer has got all before the question.
 *
 * Context: process; only the session's service.
 * Return: 0, or -ENOTCONN: the session fails, the queue pair must go first
 */
int krdma_ask_fence(struct krdma_session *sess)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	int rc = -ENOMEM;

	if (msg) {
		msg->type = KRDMA_WIRE_PING;
		rc = krdma_ask_wait(sess, msg, KRDMA_FOREVER_MS, krdma_ping_answer, NULL);
		kfree(msg);
	}
	if (!rc)
		return 0;
	/* No fence without an answer, whatever the reason. */
	krdma_session_fail(sess, rc, "a revoked key could not be fenced", KRDMA_WIRE_REASON_LIMIT);
	return -ENOTCONN;
}

/**
 * krdma_ping - one round trip to the peer's module
 * @sess: session
 * @length: bytes to carry, at most KRDMA_PING_MAX
 * @timeout_ms: how long to wait
 * @rtt_ns: out: nanoseconds
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_ping(struct krdma_session *sess, u32 length, u32 timeout_ms, u64 *rtt_ns,
	       struct krdma_error *error)
{
	struct krdma_msg *msg;
	void *data;
	s64 rtt;
	int rc;

	msg = kzalloc(sizeof(*msg) + KRDMA_PING_MAX, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	data = msg + 1;
	get_random_bytes(data, length);
	msg->type = KRDMA_WIRE_PING;
	msg->ping.length = length;
	msg->ping.data = data;
	rc = krdma_ask_wait(sess, msg, timeout_ms, krdma_ping_answer, &rtt);
	kfree(msg);
	if (!rc)
		*rtt_ns = rtt;
	else if (rc == -ENOTCONN)
		rc = krdma_session_explain(sess, -ENOTCONN, error);
	else if (rc == -EILSEQ)
		krdma_explain(error, rc, "%pISpc answers the ping with other bytes", &sess->dst);
	else
		krdma_explain(error, rc, "%pISpc does not answer the ping (%pe)", &sess->dst,
			      ERR_PTR(rc));
	return rc;
}
