// SPDX-License-Identifier: GPL-2.0
/*
 * Messages, at the sender: MESSAGE requests, each with a credit of the target.
 *
 * A message is copied into a buffer, so its memory is free again as soon as it is sent. It waits
 * for a credit on region->unsent, in order; regions with such messages take turns on
 * channel->sending. A region gets no more credits than there are free ones, so slow receivers do
 * not hold up the messages of other exports: they have 32, 16, 8 and so on, and each region gets
 * one at least. The target's reply gives back the credit, whatever became of the operation; the
 * buffer is free when the send has completed as well. On iWARP, where a send completes without
 * the target, it is the reply that says that the message has arrived.
 *
 * A message is posted behind all that was posted before it, so one that belongs to a WRITE comes
 * when the bytes are in the target's memory (Documentation/uapi.rst).
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "initiator/wr.h"
#include "trace.h"

/* Neither the device nor the target, nor the next connection needs it. */
static void krdma_send_free(struct krdma_channel *ch, struct krdma_send *send)
{
	if (!send->posted && !send->region && list_empty(&send->node))
		list_add_tail(&send->node, &ch->sends_free);
}

/* Behind the others; or to its place among them, if its WRITE was done again meanwhile. */
static void krdma_send_line_up(struct krdma_region *region, struct krdma_transfer *x)
{
	struct krdma_transfer *behind;

	if (!x->turn) {
		x->turn = ++region->turns;
		list_add_tail(&x->node, &region->unsent);
		return;
	}
	list_for_each_entry(behind, &region->unsent, node)
		if (behind->turn > x->turn)
			break;
	list_add_tail(&x->node, &behind->node);
}

/**
 * krdma_send_enqueue - send the message of an operation
 * @x: KRDMA_OP_SEND, or a WRITE with one, of which all is posted; on a list by
 *	->node, or on none
 * @now: the time
 *
 * krdma_transfer_pump sends it.
 *
 * Context: channel->lock held.
 */
void krdma_send_enqueue(struct krdma_transfer *x, ktime_t now)
{
	struct krdma_region *region = x->region;
	int err = READ_ONCE(region->err);

	lockdep_assert_held(&x->ch->lock);
	if (err) {
		krdma_transfer_end(x, err);
		return;
	}
	if (!list_empty(&x->node))
		list_del(&x->node);
	krdma_send_line_up(region, x);
	x->message = KRDMA_MESSAGE_STATE_QUEUED;
	krdma_transfer_wait(x, KRDMA_WAIT_RECEIVER, now);
	if (list_empty(&region->sending))
		list_add_tail(&region->sending, &x->ch->sending);
}

static int krdma_send_write(struct krdma_channel *ch, struct krdma_send *send,
			    const struct krdma_transfer *x)
{
	bool written = x->opcode == KRDMA_OP_WRITE;
	u32 length = written ? 0 : x->length;
	struct krdma_wire_message *msg;
	int rc;

	msg = krdma_wire_build(send->buf, KRDMA_WIRE_MESSAGE, sizeof(*msg), length);
	msg->hdr.tag = cpu_to_le32(send - ch->sends + 1);
	msg->grant = cpu_to_le32(x->region->grant);
	msg->generation = cpu_to_le32(x->region->generation);
	msg->value = cpu_to_le64(x->operand);
	msg->flags = cpu_to_le32(written ? KRDMA_WIRE_WRITTEN : 0);
	rc = krdma_local_copy(&x->local, msg->data, length);
	if (rc)
		return rc;
	send->wr.send_flags = krdma_post_message(ch, &send->sge, &msg->hdr, send->dma);
	trace_krdma_message(ch->serial, true, &msg->hdr);
	return 0;
}

/* The next message of a region goes into a send buffer. */
static bool krdma_send_fill(struct krdma_channel *ch, struct krdma_send *send,
			    struct krdma_transfer *x, ktime_t now)
{
	int rc = ktime_compare(x->deadline, now) <= 0 ? -ETIMEDOUT : krdma_send_write(ch, send, x);

	if (rc) {
		krdma_transfer_end(x, rc);
		return false;
	}
	list_del_init(&send->node);
	list_del_init(&x->node);
	x->message = KRDMA_MESSAGE_STATE_SENT;
	x->posted = x->length;
	krdma_stat_inc(KRDMA_STAT_CONTROL_SENT);
	x->send = send;
	send->transfer = x;
	send->region = x->region;
	kref_get(&x->region->ref);
	x->region->nsends++;
	ch->message_credits_used++;
	send->repeats = 0;
	send->seq = ++ch->messages_sent;
	ch->messages_posted = send->seq;
	list_add_tail(&send->node, &ch->sends_sent);
	send->posted = true;
	send->wr.next = NULL;
	return true;
}

/* The next message of a region. Return: false if it has none */
static bool krdma_send_next(struct krdma_channel *ch, struct krdma_send *send,
			    struct krdma_region *region, ktime_t now)
{
	struct krdma_transfer *x;

	while ((x = list_first_entry_or_null(&region->unsent, struct krdma_transfer, node)))
		if (krdma_send_fill(ch, send, x, now))
			return true;
	return false;
}

/* Fill @send with the first message of the next region that may have a credit. */
static bool krdma_sending_next(struct krdma_channel *ch, struct krdma_send *send, ktime_t now)
{
	struct krdma_region *region, *next;
	bool filled;

	list_for_each_entry_safe(region, next, &ch->sending, sending) {
		if (!krdma_share_ok(region->nsends + 1, ch->message_credits_used + 1,
				    ch->message_credits))
			continue;
		filled = krdma_send_next(ch, send, region, now);
		if (list_empty(&region->unsent))
			list_del_init(&region->sending);
		else if (!list_is_last(&region->sending, &ch->sending))
			list_move_tail(&region->sending, &ch->sending);
		if (filled)
			return true;
	}
	return false;
}

static void krdma_send_end(struct krdma_channel *ch, struct krdma_send *send, int err)
{
	struct krdma_region *region = send->region;
	struct krdma_transfer *x = send->transfer;

	lockdep_assert_held(&ch->lock);
	send->region = NULL;
	send->transfer = NULL;
	region->nsends--;
	ch->message_credits_used--;
	if (ch->iwarp)
		list_del_init(&send->node);
	krdma_send_free(ch, send);
	if (x) {
		x->send = NULL;
		if (err) {
			krdma_transfer_replied(x, err);
		} else {
			x->message = KRDMA_MESSAGE_STATE_NONE;
			if (x->opcode == KRDMA_OP_SEND)
				x->moved = x->length;
			krdma_transfer_advance(x, 0);
		}
	}
	/* ORDER: its transfers are at their end, or hold it. */
	krdma_region_put_soft(region);
}

/* It was not sent, and will not be: those behind it move up. */
static void krdma_send_unsent(struct krdma_channel *ch, struct krdma_send *send)
{
	struct krdma_send *behind = send;

	list_for_each_entry_continue(behind, &ch->sends_sent, node)
		behind->seq--;
	ch->messages_sent--;
	if ((s16)(ch->messages_posted - ch->messages_sent) > 0)
		ch->messages_posted = ch->messages_sent;
	list_del_init(&send->node);
}

/* The device has refused a message; the other messages of its region go on. */
static void krdma_send_refused(struct krdma_channel *ch, struct krdma_send *send)
{
	ch->outstanding--;
	send->posted = false;
	krdma_send_unsent(ch, send);
	krdma_stat_add(KRDMA_STAT_CONTROL_SENT, -1);
	krdma_transfer_refused(send->transfer);
	krdma_send_end(ch, send, -EIO);
}

/* Return: true if some were refused, and the channel is up. */
static bool krdma_sends_chain(struct krdma_channel *ch, const struct ib_send_wr *first)
{
	const struct ib_send_wr *bad;
	bool refused = false;
	int rc;

	do {
		bad = NULL;
		krdma_stat_inc(KRDMA_STAT_DOORBELLS);
		rc = krdma_inject_post(ch->qp, first, &bad);
		if (likely(!rc)) {
			if (!refused)
				ch->refusals = 0;
			return refused;
		}
		/* siw: an error without a bad one means that all are posted all the same. */
		if (!bad) {
			krdma_channel_fail(ch, -ENOTCONN, "a message was not accepted",
					   KRDMA_BYE_LOST);
			return false;
		}
		if (krdma_post_lost(ch, rc)) {
			first = bad;
			break;
		}
		refused = true;
		first = bad->next;
		krdma_send_refused(ch, container_of(bad, struct krdma_send, wr));
	} while (krdma_post_refused(ch, rc) && first);

	if (ch->state == KRDMA_CHANNEL_UP)
		return true;
	for (; first; first = first->next) {
		container_of(first, struct krdma_send, wr)->posted = false;
		ch->outstanding--;
	}
	return false;
}

/**
 * krdma_sends_post - send what there are credits for, with one doorbell
 * @ch: channel that is up
 * @now: the time
 *
 * Context: channel->lock held.
 */
void krdma_sends_post(struct krdma_channel *ch, ktime_t now)
{
	struct ib_send_wr *first, **link;
	struct krdma_send *send;

	lockdep_assert_held(&ch->lock);
	if (unlikely(ch->sends_held))
		return;
	do {
		first = NULL;
		link = &first;
		while ((send = list_first_entry_or_null(&ch->sends_free, struct krdma_send,
							node)) &&
		       krdma_sending_next(ch, send, now)) {
			*link = &send->wr;
			link = &send->wr.next;
			krdma_post_count(ch, 1);
		}
		/* What was refused has given its credit back. */
	} while (first && krdma_sends_chain(ch, first));
}

static void krdma_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_send *send = container_of(wc->wr_cqe, struct krdma_send, cqe);
	struct krdma_channel *ch = cq->cq_context;

	spin_lock(&ch->lock);
	krdma_post_completed_locked(ch, wc);
	/* siw may tell twice. */
	if (send->posted) {
		send->posted = false;
		if (!ch->resumes || (wc->status == IB_WC_SUCCESS && !ch->iwarp))
			list_del_init(&send->node);
		krdma_send_free(ch, send);
		krdma_transfer_pump(ch);
	}
	krdma_channel_unlock_softirq(ch);
}

/**
 * krdma_sends_resume - the first channel is up again: which messages has the target received?
 * @ch: channel; ->peer says it
 *
 * The others are not sent before WRITEs are done again that were posted before them.
 *
 * Context: channel->lock held.
 * Return: false if what the peer says can't be
 */
bool krdma_sends_resume(struct krdma_channel *ch)
{
	u16 next = le16_to_cpu(ch->peer.messages) + 1;
	struct krdma_send *send, *after;
	u32 i;

	lockdep_assert_held(&ch->lock);
	ch->sends_held = true;
	/* No completion is to come of a connection before; siw may have lost some. */
	for (i = 0; i < ch->message_credits; i++) {
		send = &ch->sends[i];
		if (send->posted) {
			send->posted = false;
			krdma_send_free(ch, send);
		}
	}
	list_for_each_entry_safe(send, after, &ch->sends_sent, node) {
		if ((s16)(send->seq - next) < 0) {
			list_del_init(&send->node);
			krdma_send_free(ch, send);
		} else if (send->seq != next++ || !send->region) {
			/* One that completed, or was replied to, was received. */
			return false;
		}
	}
	ch->messages_posted = le16_to_cpu(ch->peer.messages);
	return next == (u16)(ch->messages_sent + 1);
}

/**
 * krdma_sends_again - send messages that the target has not received; then new ones may be sent
 * @ch: channel; if it is up, what was posted before them is done
 *
 * Not those of operations that have ended, as they have failed.
 *
 * Context: channel->lock held.
 */
void krdma_sends_again(struct krdma_channel *ch)
{
	struct ib_send_wr *first = NULL, **link = &first;
	struct krdma_send *send, *after;

	lockdep_assert_held(&ch->lock);
	if (!ch->sends_held || ch->state != KRDMA_CHANNEL_UP)
		return;
	ch->sends_held = false;
	/* Perhaps it is the first that the path, or the target, does not bear. */
	send = list_first_entry_or_null(&ch->sends_sent, struct krdma_send, node);
	if (send && send->transfer && send->repeats++ == KRDMA_REPEATS_MAX)
		krdma_transfer_end(send->transfer, -ECONNRESET);
	list_for_each_entry_safe(send, after, &ch->sends_sent, node) {
		if (!send->transfer) {
			krdma_send_unsent(ch, send);
			krdma_send_end(ch, send, 0);
			continue;
		}
		send->wr.send_flags = krdma_post_message(ch, &send->sge, send->buf, send->dma);
		send->wr.next = NULL;
		send->posted = true;
		ch->messages_posted = send->seq;
		*link = &send->wr;
		link = &send->wr.next;
		krdma_post_count(ch, 1);
	}
	if (first)
		krdma_sends_chain(ch, first);
}

/**
 * krdma_sends_replied - the target has, or has not, taken messages
 * @sess: session
 * @rx: receive of the reply; posted again here
 * @msg: the reply
 *
 * Context: the lock of the first channel held, which is up.
 * Return: NULL, or how the peer broke the protocol
 */
const char *krdma_sends_replied(struct krdma_session *sess, struct krdma_rx *rx,
				const union krdma_wire_msg *msg)
{
	const struct krdma_wire_taken *taken = msg->message_reply.taken;
	u32 entries = (rx->len - sizeof(msg->message_reply)) / sizeof(*taken), index;
	struct krdma_channel *ch = sess->ch;
	struct krdma_send *send;

	lockdep_assert_held(&ch->lock);
	for (; entries; entries--, taken++) {
		index = le32_to_cpu(taken->tag) - 1;
		if (index >= ch->message_credits)
			break;
		send = &ch->sends[array_index_nospec(index, ch->message_credits)];
		/* Or it was not sent on this connection so far. */
		if (!send->region || (ch->sends_held && !list_empty(&send->node)))
			break;
		krdma_send_end(ch, send, krdma_wire_errno(le16_to_cpu(taken->status)));
	}
	/* ORDER: the receive, which is read no more, before the next messages are sent. */
	krdma_post_rx_later(ch, rx);
	if (!krdma_post_rx_again(ch))
		krdma_transfer_pump(ch);
	return entries ? "a reply to no message" : NULL;
}

/* ---- set-up ---- */

/**
 * krdma_sends_setup - allocate what messages are sent from
 * @ch: channel of an initiator
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_sends_free cleans up in either case
 */
int krdma_sends_setup(struct krdma_channel *ch)
{
	u32 i;

	ch->sends =
		krdma_inject(kcalloc(KRDMA_MESSAGE_CREDITS, sizeof(*ch->sends), GFP_KERNEL), NULL);
	if (!ch->sends)
		return -ENOMEM;
	for (i = 0; i < KRDMA_MESSAGE_CREDITS; i++) {
		struct krdma_send *send = &ch->sends[i];

		send->buf = krdma_buf_alloc(KRDMA_WIRE_MESSAGE_MAX);
		if (!send->buf)
			return -ENOMEM;
		INIT_LIST_HEAD(&send->node);
		send->cqe.done = krdma_send_done;
		send->wr.wr_cqe = &send->cqe;
		send->wr.sg_list = &send->sge;
		send->wr.num_sge = 1;
		send->wr.opcode = IB_WR_SEND;
	}
	return 0;
}

/**
 * krdma_sends_map - map what messages are sent from
 * @ch: channel with a device and a PD
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_sends_unmap cleans up in either case
 */
int krdma_sends_map(struct krdma_channel *ch)
{
	int rc = 0;

	for (; !rc && ch->nsends_mapped < KRDMA_MESSAGE_CREDITS; ch->nsends_mapped += !rc) {
		struct krdma_send *send = &ch->sends[ch->nsends_mapped];

		rc = krdma_buf_map(ch->dev->ib, send->buf, &send->dma, KRDMA_WIRE_MESSAGE_MAX,
				   DMA_TO_DEVICE);
		send->sge.lkey = ch->pd->local_dma_lkey;
	}
	return rc;
}

/**
 * krdma_sends_unmap - undo krdma_sends_map
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_sends_unmap(struct krdma_channel *ch)
{
	while (ch->nsends_mapped)
		ib_dma_unmap_single(ch->dev->ib, ch->sends[--ch->nsends_mapped].dma,
				    KRDMA_WIRE_MESSAGE_MAX, DMA_TO_DEVICE);
}

/**
 * krdma_sends_begin - the target has said how many credits there are
 * @sess: session, connected; at most KRDMA_MESSAGE_CREDITS are used
 *
 * Context: process; no region is open yet.
 */
void krdma_sends_begin(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	u32 i;

	if (!ch->messages)
		return;
	ch->message_credits =
		min_t(u32, le16_to_cpu(ch->peer.message_credits), KRDMA_MESSAGE_CREDITS);
	for (i = 0; i < ch->message_credits; i++)
		list_add_tail(&ch->sends[i].node, &ch->sends_free);
}

/**
 * krdma_sends_drop - no reply will come any more
 * @ch: channel without a queue pair
 *
 * Context: process; the session's transfers have ended.
 */
void krdma_sends_drop(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; i < ch->message_credits; i++) {
		if (ch->sends[i].region)
			krdma_region_put(ch->sends[i].region);
		ch->sends[i].region = NULL;
	}
}

/**
 * krdma_sends_free - undo krdma_sends_setup
 * @ch: channel, after krdma_sends_unmap()
 *
 * Context: process.
 */
void krdma_sends_free(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; ch->sends && i < KRDMA_MESSAGE_CREDITS; i++)
		kfree(ch->sends[i].buf);
	kfree(ch->sends);
	ch->sends = NULL;
}
