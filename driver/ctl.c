// SPDX-License-Identifier: GPL-2.0
/*
 * What was received: the peer's questions, and answers to ours (Documentation/wire.rst).
 *
 * rx_work, for messages a tasklet, and for their answers the completion's handler, handles
 * it in order, one at a time, and never waits for the peer. Questions that take longer go
 * to the service (service.c). A receive is posted again before the answer that gives the
 * peer its place back, and before a place of our own becomes free.
 *
 * A question is not begun before there is a buffer for its answer. Until a completion frees
 * one it is parked, and with it all that came behind it: a peer that does not take its
 * answers delays nobody else.
 */
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/* What is handled at a time. */
#define KRDMA_RX_MANY 16

/* ---- the peer's questions ---- */

/* A place of our window. Return: NULL, or how the peer broke the protocol. */
static const char *krdma_question_begin(struct krdma_session *sess, u32 tag)
{
	const char *cause;

	spin_lock_bh(&sess->lock);
	cause = krdma_tags_begin(&sess->tags, tag);
	spin_unlock_bh(&sess->lock);
	return cause;
}

static void krdma_question_end(struct krdma_session *sess, u32 tag)
{
	spin_lock_bh(&sess->lock);
	krdma_tags_end(&sess->tags, tag);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_answer - answer a question of the peer
 * @sess: session
 * @tx: buffer for it; owned by the post from here
 * @msg: the answer, with the question's tag
 *
 * Context: any, no session lock held; the receive of the question is posted again.
 * Return: 0 or -ENOTCONN
 */
int krdma_answer(struct krdma_session *sess, struct krdma_tx *tx, struct krdma_msg *msg)
{
	int len;

	msg->answer = true;
	len = krdma_proto_encode(msg, tx->buf, KRDMA_WIRE_MSG_MAX);
	if (WARN_ON_ONCE(len < 0)) {
		krdma_post_tx_put(sess->ch, tx);
		return len;
	}
	trace_krdma_message(sess->serial, true, msg->type, true, msg->tag);
	/* Messages have places of their own. */
	if (msg->type != KRDMA_WIRE_MESSAGE)
		krdma_question_end(sess, msg->tag);
	return krdma_post_tx(sess->ch, tx, len, false);
}

static int krdma_answer_status(struct krdma_session *sess, struct krdma_tx *tx,
			       const struct krdma_msg *question, u16 status)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	int rc;

	if (!msg) {
		krdma_post_tx_put(sess->ch, tx);
		return -ENOMEM;
	}
	msg->type = question->type;
	msg->tag = question->tag;
	msg->status = status;
	rc = krdma_answer(sess, tx, msg);
	kfree(msg);
	return rc;
}

/* The echo is encoded before its receive buffer is posted again. */
static void krdma_ctl_ping(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			   struct krdma_msg *msg)
{
	int len;

	msg->answer = true;
	len = krdma_proto_encode(msg, tx->buf, KRDMA_WIRE_MSG_MAX);
	if (WARN_ON_ONCE(len < 0) || krdma_post_rx(sess->ch, rx)) {
		krdma_post_tx_put(sess->ch, tx);
		return;
	}
	trace_krdma_message(sess->serial, true, msg->type, true, msg->tag);
	krdma_question_end(sess, msg->tag);
	krdma_post_tx(sess->ch, tx, len, false);
}

static void krdma_ctl_request(struct krdma_session *sess, struct krdma_tx *tx,
			      const struct krdma_msg *msg)
{
	struct krdma_request *req = kmalloc(sizeof(*req), GFP_KERNEL);

	if (req)
		req->msg = kmemdup(msg, sizeof(*msg), GFP_KERNEL);
	if (!req || !req->msg) {
		kfree(req);
		/* After a CLOSE nobody asks for the end of the grant again. */
		if (msg->type == KRDMA_WIRE_CLOSE)
			krdma_post_tx_put(sess->ch, tx);
		if (msg->type == KRDMA_WIRE_CLOSE ||
		    krdma_answer_status(sess, tx, msg, KRDMA_WIRE_NOMEM) == -ENOMEM)
			krdma_session_fail(sess, -ENOMEM, "no memory for the peer's question",
					   KRDMA_WIRE_REASON_LIMIT);
		return;
	}
	req->tx = tx;
	spin_lock_bh(&sess->lock);
	list_add_tail(&req->node, &sess->requests);
	spin_unlock_bh(&sess->lock);
	krdma_session_serve(sess);
}

/* @tx: for the answer. Return: false if it was not used */
static bool krdma_ctl_question(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			       struct krdma_msg *msg)
{
	const char *cause = krdma_question_begin(sess, msg->tag);

	if (cause) {
		krdma_session_protocol(sess, cause);
		return false;
	}
	if (msg->type == KRDMA_WIRE_PING) {
		krdma_ctl_ping(sess, rx, tx, msg);
		return true;
	}
	if (sess->inbound == (msg->type == KRDMA_WIRE_RECALL || msg->type == KRDMA_WIRE_REVOKE)) {
		krdma_session_protocol(sess, "a question of the other role");
		return false;
	}
	if (krdma_post_rx(sess->ch, rx))
		return false;
	if (msg->type == KRDMA_WIRE_RECALL)
		krdma_region_recall(sess, msg, tx);
	else if (msg->type == KRDMA_WIRE_REVOKE)
		krdma_region_revoke(sess, msg, tx);
	else
		krdma_ctl_request(sess, tx, msg);
	return true;
}

/* ---- what was received ---- */

/* A message, or the answer to some: handled without sleeping. */
static bool krdma_rx_soft(const struct krdma_rx *rx)
{
	return rx->len && (((const u8 *)rx->buf)[0] & ~KRDMA_WIRE_ANSWER) == KRDMA_WIRE_MESSAGE;
}

/* Will it have an answer of its own? */
static bool krdma_rx_question(const struct krdma_rx *rx)
{
	u8 type = rx->len ? ((const u8 *)rx->buf)[0] : KRDMA_WIRE_BYE;

	return !(type & KRDMA_WIRE_ANSWER) && type != KRDMA_WIRE_MESSAGE && type != KRDMA_WIRE_BYE;
}

/* The first that was received, unless it is parked. */
static struct krdma_rx *krdma_rx_first(struct krdma_channel *ch)
{
	struct krdma_rx *rx = list_first_entry_or_null(&ch->rx_list, struct krdma_rx, node);

	return rx && krdma_rx_question(rx) && !krdma_post_tx_any(ch, 0) ? NULL : rx;
}

/**
 * krdma_ctl_rx_kick - see to it that somebody handles what was received
 * @sess: session
 *
 * Context: session->lock held.
 */
void krdma_ctl_rx_kick(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_rx *rx;

	lockdep_assert_held(&sess->lock);
	if (sess->state != KRDMA_SESSION_UP)
		return;
	if (ch->rx_answer && krdma_post_tx_any(ch, 0))
		queue_work(krdma_wq, &sess->rx_work);
	/* One that is busy with it looks again. */
	rx = ch->rx_busy ? NULL : krdma_rx_first(ch);
	if (rx && krdma_rx_soft(rx))
		tasklet_schedule(&ch->rx_tasklet);
	else if (rx)
		queue_work(krdma_wq, &sess->rx_work);
}

/**
 * krdma_ctl_rx_came - see to it that what was received is handled
 * @sess: session
 * @rx: what
 *
 * An answer is for all messages that could be taken together, so an initiator gains
 * nothing by waiting for more.
 *
 * Context: session->lock held.
 * Return: true if the caller has to call krdma_ctl_rx_answer, without the lock
 */
bool krdma_ctl_rx_came(struct krdma_session *sess, struct krdma_rx *rx)
{
	struct krdma_channel *ch = sess->ch;

	lockdep_assert_held(&sess->lock);
	if (!sess->inbound && sess->state == KRDMA_SESSION_UP && !ch->rx_busy &&
	    list_empty(&ch->rx_list) && krdma_rx_soft(rx)) {
		ch->rx_busy = true;
		return true;
	}
	list_add_tail(&rx->node, &ch->rx_list);
	krdma_ctl_rx_kick(sess);
	return false;
}

/*
 * The next one, if nobody else is at it. With NULL the caller is not at it any more, and
 * what it leaves is begun anew.
 */
static struct krdma_rx *krdma_ctl_next(struct krdma_session *sess, bool *at_it, bool soft,
				       struct krdma_tx **tx)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_rx *rx = NULL;

	spin_lock_bh(&sess->lock);
	if (*at_it == ch->rx_busy) {
		if (sess->state == KRDMA_SESSION_UP)
			rx = krdma_rx_first(ch);
		if (rx && soft && !krdma_rx_soft(rx))
			rx = NULL;
		*at_it = rx;
		ch->rx_busy = rx;
		if (rx)
			list_del(&rx->node);
		else
			krdma_ctl_rx_kick(sess);
		*tx = rx && krdma_rx_question(rx) ? krdma_post_tx_take(ch, 0) : NULL;
	}
	spin_unlock_bh(&sess->lock);
	return rx;
}

static void krdma_ctl_end(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	sess->ch->rx_busy = false;
	krdma_ctl_rx_kick(sess);
	spin_unlock_bh(&sess->lock);
}

/* Return: NULL, or how the peer broke the protocol: the session ends. */
static const char *krdma_ctl_handle(struct krdma_session *sess, struct krdma_rx *rx,
				    struct krdma_tx *tx, struct krdma_msg *msg)
{
	const char *cause = NULL;

	krdma_stat_inc(KRDMA_STAT_MESSAGES_RECEIVED);
	if (krdma_proto_decode(rx->buf, rx->len, msg, &cause)) {
		krdma_session_protocol(sess, cause);
		goto out;
	}
	trace_krdma_message(sess->serial, false, msg->type, msg->answer, msg->tag);
	if (msg->answer && msg->type == KRDMA_WIRE_MESSAGE)
		krdma_letters_answered(sess, rx, msg);
	else if (msg->answer)
		krdma_ask_answered(sess, rx, msg);
	else if (msg->type == KRDMA_WIRE_BYE)
		krdma_session_fail(sess, -ECONNRESET, krdma_proto_reason_text(msg->bye.reason),
				   msg->bye.reason ? -1 : KRDMA_BYE_QUIET);
	else if (msg->type == KRDMA_WIRE_MESSAGE)
		krdma_mail_came(sess, rx, msg);
	else if (krdma_ctl_question(sess, rx, tx, msg))
		tx = NULL;
out:
	if (tx)
		krdma_post_tx_put(sess->ch, tx);
	return cause;
}

/*
 * In order, by one at a time. However busy the peer keeps it: it ends, and begins anew.
 * Return: false if the session ends.
 */
static bool krdma_ctl_receive(struct krdma_session *sess, struct krdma_msg *msg, bool soft)
{
	const char *cause = NULL;
	struct krdma_tx *tx = NULL;
	struct krdma_rx *rx;
	bool at_it = false;
	u32 n;

	for (n = 0; n < KRDMA_RX_MANY && !cause && (rx = krdma_ctl_next(sess, &at_it, soft, &tx));
	     n++)
		cause = krdma_ctl_handle(sess, rx, tx, msg);
	if (at_it)
		krdma_ctl_end(sess);
	return !cause;
}

/**
 * krdma_ctl_rx_work - handle what was received, and give answers that are due
 * @work: of a session
 *
 * Context: work; one at a time for a session.
 */
void krdma_ctl_rx_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, rx_work);

	if (!krdma_ctl_receive(sess, sess->rx_msg, false))
		return;
	krdma_mail_answer(sess, sess->rx_msg);
	krdma_region_recalls_answer(sess);
}

/**
 * krdma_ctl_rx_soft - the same for messages, and their answers, alone
 * @t: of a channel
 *
 * As a tasklet it runs when all completions that there are have been handled, so that
 * messages that come together have one answer.
 *
 * Context: softirq.
 */
void krdma_ctl_rx_soft(struct tasklet_struct *t)
{
	struct krdma_channel *ch = from_tasklet(ch, t, rx_tasklet);

	/* Nobody else has the scratch of an owner, which gets no answers to messages. */
	if (krdma_ctl_receive(ch->sess, ch->rx_msg, true) && ch->sess->inbound)
		krdma_mail_answer(ch->sess, ch->rx_msg);
}

/**
 * krdma_ctl_rx_answer - handle what krdma_ctl_rx_came has left to the caller
 * @sess: session of an initiator
 * @rx: an answer to messages, or what should be one
 *
 * Context: completion handler, no session lock held.
 */
void krdma_ctl_rx_answer(struct krdma_session *sess, struct krdma_rx *rx)
{
	krdma_ctl_handle(sess, rx, NULL, sess->ch->rx_msg);
	krdma_ctl_end(sess);
}

/**
 * krdma_ctl_bye - tell the peer that the session ends
 * @sess: session, closing, its queue pair still good
 * @reason: enum krdma_wire_reason
 *
 * Context: process.
 * Return: true if it was posted
 */
bool krdma_ctl_bye(struct krdma_session *sess, u8 reason)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	struct krdma_channel *ch = sess->ch;
	struct krdma_tx *tx;
	bool posted = false;
	int len;

	if (!msg)
		return false;
	msg->type = KRDMA_WIRE_BYE;
	msg->bye.reason = reason;
	tx = krdma_post_tx_last(ch);
	if (tx) {
		len = krdma_proto_encode(msg, tx->buf, KRDMA_WIRE_MSG_MAX);
		trace_krdma_message(sess->serial, true, msg->type, false, 0);
		posted = !krdma_post_tx(ch, tx, len, true);
	}
	kfree(msg);
	return posted;
}
