// SPDX-License-Identifier: GPL-2.0
/*
 * What was received: the peer's requests, and replies to ours (Documentation/wire.rst).
 *
 * rx_work, and for messages and their replies the completion's handler, handles it in order, one
 * at a time, and never waits for the peer. Requests that take longer go to the service
 * (service.c). A receive is posted again before the reply that gives the peer its credit back,
 * and before a credit of our own becomes free.
 *
 * A request is not begun before there is a buffer for its reply. Until a completion frees
 * one it is parked, and with it all that came behind it: a peer that does not take its
 * replies delays nobody else.
 */
#include <linux/slab.h>

#include "session/session.h"
#include "trace.h"

/* What is handled at a time. */
#define KRDMA_RX_MANY 16

/* ---- the peer's requests ---- */

/**
 * krdma_reply - reply to a request of the peer
 * @sess: session
 * @tx: buffer with the reply; owned by the post from here
 * @tag: of the request
 *
 * Context: any, no lock of the session or the channel held; the receive of the request is posted
 *	again.
 * Return: 0 or -ENOTCONN
 */
int krdma_reply(struct krdma_session *sess, struct krdma_tx *tx, __le32 tag)
{
	struct krdma_wire_hdr *hdr = tx->buf;

	hdr->tag = tag;
	trace_krdma_message(sess->serial, true, hdr);
	spin_lock_bh(&sess->lock);
	krdma_tags_end(&sess->tags, le32_to_cpu(tag));
	spin_unlock_bh(&sess->lock);
	return krdma_post_tx(sess->ch, tx, false);
}

/**
 * krdma_reply_status - reply to a request of the peer with a header alone
 * @sess: session
 * @tx: buffer for it; owned by the post from here
 * @type: of the request
 * @tag: of the request
 * @status: enum krdma_wire_status
 *
 * Context: as for krdma_reply().
 * Return: 0 or -ENOTCONN
 */
int krdma_reply_status(struct krdma_session *sess, struct krdma_tx *tx, u8 type, __le32 tag,
		       u16 status)
{
	struct krdma_wire_hdr *hdr;

	hdr = krdma_wire_build(tx->buf, KRDMA_WIRE_REPLY | type, sizeof(*hdr), 0);
	hdr->status = cpu_to_le16(status);
	return krdma_reply(sess, tx, tag);
}

/* The bytes are copied before their receive is posted again. Return: false without a reply */
static bool krdma_ctl_ping(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			   const union krdma_wire_msg *msg)
{
	struct krdma_wire_hdr *hdr = tx->buf;

	memcpy(hdr, msg, rx->len);
	hdr->type |= KRDMA_WIRE_REPLY;
	if (krdma_post_rx(sess->ch, rx))
		return false;
	krdma_reply(sess, tx, hdr->tag);
	return true;
}

/**
 * krdma_ctl_serve - leave a request to the session's service
 * @sess: session
 * @rx: its receive, posted again here
 * @tx: buffer for the reply
 * @msg: the request, which is copied
 *
 * Context: rx_work.
 * Return: false if @tx is not used: the session ends
 */
bool krdma_ctl_serve(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
		     const union krdma_wire_msg *msg)
{
	struct krdma_request *req = krdma_inject(
		kmalloc(struct_size(req, bytes, DIV_ROUND_UP(rx->len, sizeof(u64))), GFP_NOIO),
		NULL);
	u8 type = msg->hdr.type;
	__le32 tag = msg->hdr.tag;

	if (req) {
		req->tx = tx;
		memcpy(req->bytes, msg, rx->len);
	}
	if (krdma_post_rx(sess->ch, rx)) {
		kfree(req);
		return false;
	}
	if (req) {
		spin_lock_bh(&sess->lock);
		list_add_tail(&req->node, &sess->requests);
		spin_unlock_bh(&sess->lock);
		krdma_session_serve(sess);
		return true;
	}
	if (type != KRDMA_WIRE_CLOSE) {
		krdma_reply_status(sess, tx, type, tag, KRDMA_WIRE_NOMEM);
		return true;
	}
	/* The peer does not send CLOSE again. */
	krdma_session_fail(sess, -ENOMEM, "no memory for the peer's request",
			   KRDMA_WIRE_REASON_LIMIT);
	return false;
}

/* Does a request take a feature that the session has not? */
static bool krdma_ctl_unused(const struct krdma_session *sess, const union krdma_wire_msg *msg)
{
	if (msg->hdr.type == KRDMA_WIRE_GROW)
		return !sess->grows;
	return !sess->usage.wanted &&
	       (msg->hdr.type == KRDMA_WIRE_USAGE ||
		(msg->hdr.type == KRDMA_WIRE_CLOSE && krdma_wire_entries(msg)));
}

/* @tx: for the reply. Return: false if it was not used */
static bool krdma_ctl_request(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			      const union krdma_wire_msg *msg)
{
	bool recall = msg->hdr.type == KRDMA_WIRE_RECALL;
	const char *cause;

	spin_lock_bh(&sess->lock);
	cause = krdma_tags_begin(&sess->tags, le32_to_cpu(msg->hdr.tag));
	spin_unlock_bh(&sess->lock);
	if (!cause && msg->hdr.type == KRDMA_WIRE_PING)
		return krdma_ctl_ping(sess, rx, tx, msg);
	/* The target's; all others are the initiator's. */
	if (!cause && sess->inbound == recall)
		cause = "a request of the other role";
	if (!cause && krdma_ctl_unused(sess, msg))
		cause = "a request without the feature";
	if (!cause && msg->hdr.type == KRDMA_WIRE_FENCE)
		return krdma_fence_serve(sess, rx, tx, &msg->fence);
	if (!cause)
		return sess->role->request(sess, rx, tx, msg);
	krdma_session_protocol(sess, cause);
	return false;
}

/* ---- what was received ---- */

/* A message, or the reply to some: handled without sleeping. */
static bool krdma_rx_message(const struct krdma_rx *rx)
{
	return rx->len && (((const u8 *)rx->buf)[0] & ~KRDMA_WIRE_REPLY) == KRDMA_WIRE_MESSAGE;
}

/* Will it have a reply of its own? */
static bool krdma_rx_request(const struct krdma_rx *rx)
{
	u8 type = rx->len ? ((const u8 *)rx->buf)[0] : KRDMA_WIRE_BYE;

	return !(type & KRDMA_WIRE_REPLY) && type != KRDMA_WIRE_MESSAGE && type != KRDMA_WIRE_BYE;
}

/* The first that was received, unless it is parked. */
static struct krdma_rx *krdma_rx_first(struct krdma_channel *ch)
{
	struct krdma_rx *rx = list_first_entry_or_null(&ch->rx_list, struct krdma_rx, node);

	return rx && krdma_rx_request(rx) && !krdma_post_tx_any(ch, KRDMA_TX_REPLY) ? NULL : rx;
}

/**
 * krdma_ctl_rx_kick - see to it that somebody handles what was received
 * @ch: channel
 *
 * Context: channel->lock held.
 */
void krdma_ctl_rx_kick(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	if (ch->state != KRDMA_CHANNEL_UP)
		return;
	/* One that is busy with what was received looks again. */
	if ((ch->rx_reply && krdma_post_tx_any(ch, KRDMA_TX_TAKEN)) ||
	    (!ch->rx_busy && krdma_rx_first(ch)))
		queue_work(krdma_wq, &ch->sess->rx_work);
}

/* Messages are the target's, replies to them the initiator's. Return: as krdma_ctl_handle() */
static const char *krdma_ctl_message(struct krdma_channel *ch, struct krdma_rx *rx)
{
	struct krdma_session *sess = ch->sess;
	const union krdma_wire_msg *msg;
	const char *cause;
	bool reply;

	lockdep_assert_held(&ch->lock);
	krdma_stat_inc(KRDMA_STAT_CONTROL_RECEIVED);
	msg = krdma_wire_check(rx->buf, rx->len, &cause);
	if (msg) {
		trace_krdma_message(sess->serial, false, &msg->hdr);
		reply = msg->hdr.type & KRDMA_WIRE_REPLY;
		if (sess->inbound != reply)
			cause = sess->role->message(sess, rx, msg);
		else
			cause = reply ? "a reply to no message" : "a message without a credit";
	}
	if (cause)
		krdma_session_protocol_locked(sess, cause);
	return cause;
}

/**
 * krdma_ctl_rx_came - handle a message or a reply to some; leave all else to rx_work
 * @ch: channel
 * @rx: what was received
 *
 * In order: behind what rx_work has not handled, a message is left to it, too.
 *
 * Context: softirq, channel->lock held.
 */
void krdma_ctl_rx_came(struct krdma_channel *ch, struct krdma_rx *rx)
{
	lockdep_assert_held(&ch->lock);
	if (krdma_rx_message(rx) && ch->state == KRDMA_CHANNEL_UP && !ch->rx_busy &&
	    list_empty(&ch->rx_list)) {
		krdma_ctl_message(ch, rx);
		return;
	}
	list_add_tail(&rx->node, &ch->rx_list);
	krdma_ctl_rx_kick(ch);
}

/*
 * The next one, if nobody else is at it. With NULL the caller is not at it any more, and
 * what it leaves is begun anew.
 */
static struct krdma_rx *krdma_ctl_next(struct krdma_channel *ch, bool at_it, struct krdma_tx **tx)
{
	struct krdma_rx *rx = NULL;

	krdma_channel_lock(ch);
	if (at_it == ch->rx_busy) {
		if (ch->state == KRDMA_CHANNEL_UP)
			rx = krdma_rx_first(ch);
		ch->rx_busy = rx;
		if (rx)
			list_del(&rx->node);
		else
			krdma_ctl_rx_kick(ch);
		*tx = rx && krdma_rx_request(rx) ? krdma_post_tx_take(ch, KRDMA_TX_REPLY) : NULL;
	}
	krdma_channel_unlock(ch);
	return rx;
}

static void krdma_ctl_end(struct krdma_channel *ch)
{
	krdma_channel_lock(ch);
	ch->rx_busy = false;
	krdma_ctl_rx_kick(ch);
	krdma_channel_unlock(ch);
}

/* One that came behind others. */
static const char *krdma_ctl_message_late(struct krdma_channel *ch, struct krdma_rx *rx)
{
	const char *cause = NULL;

	krdma_channel_lock(ch);
	if (ch->state == KRDMA_CHANNEL_UP)
		cause = krdma_ctl_message(ch, rx);
	else
		list_add(&rx->node, &ch->rx_list);
	krdma_channel_unlock(ch);
	return cause;
}

/* The peer ends the session; or gives notice that it will. Return: as krdma_ctl_handle() */
static const char *krdma_ctl_left(struct krdma_session *sess, struct krdma_rx *rx,
				  const struct krdma_wire_bye *bye)
{
	u32 reason = le32_to_cpu(bye->reason), notice_ms = le32_to_cpu(bye->notice);
	const char *cause = krdma_wire_reason_text(reason), *wrong = NULL;

	if (!notice_ms) {
		krdma_session_fail(sess, -ECONNRESET, cause, reason ? -1 : KRDMA_BYE_QUIET);
		return NULL;
	}
	if (sess->inbound)
		wrong = "a notice of an initiator";
	else if (++sess->notices > KRDMA_NOTICES_MAX)
		wrong = "too many notices";
	if (wrong)
		krdma_session_protocol(sess, wrong);
	/* ORDER: @bye is in the receive; it is the last that is handled, if it can't be posted. */
	else if (!krdma_post_rx(sess->ch, rx))
		krdma_session_drain(sess, min_t(u32, notice_ms, KRDMA_DRAIN_MAX_MS), cause, reason);
	return wrong;
}

/* Return: NULL, or how the peer broke the protocol: the session ends. */
static const char *krdma_ctl_handle(struct krdma_session *sess, struct krdma_rx *rx,
				    struct krdma_tx *tx)
{
	const union krdma_wire_msg *msg;
	const char *cause;

	if (krdma_rx_message(rx))
		return krdma_ctl_message_late(sess->ch, rx);
	krdma_stat_inc(KRDMA_STAT_CONTROL_RECEIVED);
	msg = krdma_wire_check(rx->buf, rx->len, &cause);
	if (!msg) {
		krdma_session_protocol(sess, cause);
		goto out;
	}
	trace_krdma_message(sess->serial, false, &msg->hdr);
	if (msg->hdr.type & KRDMA_WIRE_REPLY)
		krdma_rpc_replied(sess, rx, msg);
	else if (msg->hdr.type == KRDMA_WIRE_BYE)
		cause = krdma_ctl_left(sess, rx, &msg->bye);
	else if (krdma_ctl_request(sess, rx, tx, msg))
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
static bool krdma_ctl_receive(struct krdma_session *sess)
{
	const char *cause = NULL;
	struct krdma_tx *tx = NULL;
	struct krdma_rx *rx = NULL;
	u32 n;

	for (n = 0; n < KRDMA_RX_MANY && !cause; n++) {
		rx = krdma_ctl_next(sess->ch, rx, &tx);
		if (!rx)
			break;
		cause = krdma_ctl_handle(sess, rx, tx);
	}
	if (rx)
		krdma_ctl_end(sess->ch);
	return !cause;
}

/**
 * krdma_ctl_rx_work - handle what was received, and give replies that are due
 * @work: of a session
 *
 * Context: work; one at a time for a session.
 */
void krdma_ctl_rx_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, rx_work);

	if (krdma_ctl_receive(sess))
		sess->role->replies_due(sess);
}

/**
 * krdma_ctl_replies - reply to messages
 * @t: of the channel of a target
 *
 * As a tasklet it runs when all completions that there are have been handled, so that
 * messages that come together have one reply.
 *
 * Context: softirq.
 */
void krdma_ctl_replies(struct tasklet_struct *t)
{
	struct krdma_channel *ch = from_tasklet(ch, t, reply_tasklet);

	ch->sess->role->replies_due(ch->sess);
}

static bool krdma_ctl_bye_in(struct krdma_session *sess, struct krdma_tx *tx, u8 reason,
			     u32 notice_ms)
{
	struct krdma_wire_bye *bye;

	if (!tx)
		return false;
	bye = krdma_wire_build(tx->buf, KRDMA_WIRE_BYE, sizeof(*bye), 0);
	bye->reason = cpu_to_le32(reason);
	bye->notice = cpu_to_le32(notice_ms);
	trace_krdma_message(sess->serial, true, &bye->hdr);
	return !krdma_post_tx(sess->ch, tx, !notice_ms);
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
	return krdma_ctl_bye_in(sess, krdma_post_tx_last(sess->ch), reason, 0);
}

/**
 * krdma_ctl_notice - tell the initiator when the session ends
 * @sess: session, inbound
 * @reason: enum krdma_wire_reason
 * @notice_ms: milliseconds until then
 *
 * Context: process.
 * Return: true if it is sent, or will be when the connection is back
 */
bool krdma_ctl_notice(struct krdma_session *sess, u8 reason, u32 notice_ms)
{
	return krdma_ctl_bye_in(sess, krdma_post_tx_get(sess->ch, KRDMA_TX_REQUEST), reason,
				notice_ms);
}
