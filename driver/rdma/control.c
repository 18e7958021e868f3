// SPDX-License-Identifier: GPL-2.0
/*
 * Control messages: what the two hosts say to each other, on the first channel.
 *
 * Each host counts the messages that it has sent and received. A buffer is kept in
 * ->tx_sent until the peer has its message: a SEND that has completed was received, whatever
 * becomes of the connection. Not on iWARP, where TCP has it: there each message says how many its
 * sender has received, and of a session that resumes a buffer is kept until one does.
 *
 * Where the session outlives its connection, the two say with the next one how many they have
 * received: krdma_control_resume() sends what is behind that, in order, and with it what was to be
 * sent meanwhile. So each arrives once, and nobody above notices. What was received and is not
 * handled yet keeps its buffer (->busy). Messages of users are counted alone: initiator/message.c.
 */
#include <linux/slab.h>

#include "rdma/rdma.h"
#include "trace.h"

/**
 * krdma_post_rx_later - a receive buffer is handled
 * @ch: channel
 * @rx: the buffer; krdma_post_rx_again() posts it
 *
 * Context: channel->lock held.
 */
void krdma_post_rx_later(struct krdma_channel *ch, struct krdma_rx *rx)
{
	lockdep_assert_held(&ch->lock);
	rx->busy = false;
	/* Else it is posted when there is a queue pair. */
	if (!ch->rx_ready)
		return;
	ib_dma_sync_single_for_device(ch->dev->ib, rx->dma, ch->rx_size, DMA_FROM_DEVICE);
	rx->wr.next = ch->rx_again;
	ch->rx_again = &rx->wr;
}

/**
 * krdma_post_rx_again - give the queue pair the receive buffers that are handled, as a chain
 * @ch: channel
 *
 * Context: channel->lock held.
 * Return: 0, also where a channel that resumes posts them later; or a negative errno
 */
int krdma_post_rx_again(struct krdma_channel *ch)
{
	const struct ib_recv_wr *first = ch->rx_again;
	int rc = ch->resumes ? 0 : -ENOTCONN;

	lockdep_assert_held(&ch->lock);
	if (!first)
		return 0;
	ch->rx_again = NULL;
	if (ch->state <= KRDMA_CHANNEL_UP)
		rc = krdma_inject(ib_post_recv(ch->qp, first, NULL), -ENOMEM);
	/* The peer counts on it. */
	if (rc && ch->state == KRDMA_CHANNEL_UP)
		krdma_channel_fail(ch, -ENOTCONN, "a receive was not accepted", KRDMA_BYE_LOST);
	else if (rc && ch->resumes)
		krdma_channel_broken_locked(ch, "a receive was not accepted");
	return ch->resumes ? 0 : rc;
}

/**
 * krdma_post_rx - give a receive buffer to the queue pair
 * @ch: channel
 * @rx: the buffer, handled by now
 *
 * Context: any; no lock of the session or the channel held.
 * Return: 0 or a negative errno
 */
int krdma_post_rx(struct krdma_channel *ch, struct krdma_rx *rx)
{
	int rc;

	krdma_channel_lock(ch);
	krdma_post_rx_later(ch, rx);
	rc = krdma_post_rx_again(ch);
	krdma_channel_unlock(ch);
	return rc;
}

/**
 * krdma_control_receive - give the queue pair all receive buffers, before the peer can send
 * @ch: channel with a new queue pair
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_control_receive(struct krdma_channel *ch)
{
	u32 i;
	int rc;

	krdma_channel_lock(ch);
	ch->rx_ready = true;
	for (i = 0; i < ch->nrx; i++)
		if (!ch->rx[i].busy)
			krdma_post_rx_later(ch, &ch->rx[i]);
	rc = krdma_post_rx_again(ch);
	if (ch->broken || ch->state != KRDMA_CHANNEL_CONNECTING)
		rc = -ENOTCONN;
	krdma_channel_unlock(ch);
	return rc;
}

/*
 * Under the lock to the end: a waiter for the last buffer may free the channel. Some waiters look
 * without the lock, so the barrier of wq_has_sleeper is needed.
 */
static void krdma_tx_wake(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	if (wq_has_sleeper(&ch->tx_wait))
		wake_up(&ch->tx_wait);
}

/* A buffer is free: requests that are parked without one go on. */
static void krdma_tx_free(struct krdma_channel *ch, struct krdma_tx *tx)
{
	tx->posted = false;
	list_move(&tx->node, &ch->tx_free);
	ch->tx_used[tx->kind]--;
	krdma_tx_wake(ch);
	ch->ops->tx_free(ch);
	if (ch->tx_wanted)
		ch->events |= KRDMA_CHANNEL_TX;
	ch->tx_wanted = false;
}

static void krdma_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_tx *tx = container_of(wc->wr_cqe, struct krdma_tx, cqe);
	struct krdma_channel *ch = cq->cq_context;

	spin_lock(&ch->lock);
	krdma_post_completed_locked(ch, wc);
	/* siw may tell twice. */
	if (tx->posted) {
		tx->posted = false;
		if (!ch->resumes || (wc->status == IB_WC_SUCCESS && (!ch->iwarp || tx->acked)))
			krdma_tx_free(ch, tx);
	}
	krdma_channel_unlock_softirq(ch);
}

/**
 * krdma_post_tx_any - is there a buffer for a control message?
 * @ch: channel
 * @kind: what for
 *
 * Context: channel->lock held.
 * Return: true if there is
 */
bool krdma_post_tx_any(const struct krdma_channel *ch, enum krdma_tx_kind kind)
{
	/* A request too many is not parked, but found to have no credit. */
	u32 most = KRDMA_CREDITS + (kind == KRDMA_TX_REPLY);

	lockdep_assert_held(&ch->lock);
	return ch->state == KRDMA_CHANNEL_UP && ch->tx_used[kind] < most &&
	       !list_empty(&ch->tx_free);
}

static struct krdma_tx *krdma_tx_pop(struct krdma_channel *ch, enum krdma_tx_kind kind)
{
	struct krdma_tx *tx = list_first_entry_or_null(&ch->tx_free, struct krdma_tx, node);

	if (tx) {
		list_del_init(&tx->node);
		tx->sent = false;
		tx->acked = false;
		tx->repeats = 0;
		tx->kind = kind;
		ch->tx_used[kind]++;
		ch->tx_taken++;
	}
	return tx;
}

/**
 * krdma_post_tx_take - take a buffer for a control message, if there is one
 * @ch: channel
 * @kind: what for
 *
 * Nobody waits for a buffer: requesters that found none are kicked.
 *
 * Context: channel->lock held.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_take(struct krdma_channel *ch, enum krdma_tx_kind kind)
{
	/* ORDER: none is taken when down, so that down_work can wait for those out. */
	return krdma_post_tx_any(ch, kind) ? krdma_tx_pop(ch, kind) : NULL;
}

/**
 * krdma_post_tx_get - take a buffer for a request, if there is one
 * @ch: channel
 * @kind: what for
 *
 * ->settle comes when there may be one again.
 *
 * Context: any; channel->lock not held, perhaps session->lock.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_get(struct krdma_channel *ch, enum krdma_tx_kind kind)
{
	struct krdma_tx *tx;

	spin_lock_bh(&ch->lock);
	tx = krdma_post_tx_take(ch, kind);
	ch->tx_wanted |= !tx;
	spin_unlock_bh(&ch->lock);
	return tx;
}

/**
 * krdma_post_tx_out - is there a message that was sent and has not gone out?
 * @ch: channel
 *
 * ->settle comes when that may be over.
 *
 * Context: any; channel->lock not held, perhaps session->lock.
 * Return: true if there is
 */
bool krdma_post_tx_out(struct krdma_channel *ch)
{
	struct krdma_tx *tx;
	bool out = false;

	spin_lock_bh(&ch->lock);
	list_for_each_entry(tx, &ch->tx_sent, node)
		out |= tx->posted;
	/* TCP has it: the peer disconnects when it has, too. */
	if (ch->iwarp && ch->said_bye && !ch->left && ch->bye < 0)
		out = true;
	ch->tx_wanted |= out;
	spin_unlock_bh(&ch->lock);
	return out;
}

/**
 * krdma_post_tx_put - give a buffer back that was not posted
 * @ch: channel
 * @tx: the buffer
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_post_tx_put(struct krdma_channel *ch, struct krdma_tx *tx)
{
	krdma_channel_lock(ch);
	ch->tx_taken--;
	krdma_tx_free(ch, tx);
	krdma_channel_unlock(ch);
}

/**
 * krdma_post_tx_last - take a buffer for a BYE of a channel that is down
 * @ch: channel
 *
 * Context: any; no lock of the session or the channel held.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_last(struct krdma_channel *ch)
{
	struct krdma_tx *tx;

	spin_lock_bh(&ch->lock);
	tx = krdma_tx_pop(ch, KRDMA_TX_LAST);
	spin_unlock_bh(&ch->lock);
	return tx;
}

/* iWARP: a target sends nothing before the initiator has, RFC 5044. */
static bool krdma_control_shy(const struct krdma_channel *ch)
{
	return ch->iwarp && ch->inbound && !ch->heard;
}

/* Return: 0 or a negative errno: the channel has failed */
static int krdma_tx_send(struct krdma_channel *ch, struct krdma_tx *tx)
{
	struct ib_sge sge = { .lkey = ch->pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_cqe = &tx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = krdma_post_message(ch, &sge, tx->buf, tx->dma),
	};
	const struct ib_send_wr *bad = NULL;
	int rc;

	krdma_post_count(ch, 1);
	rc = krdma_inject_post(ch->qp, &wr, &bad);
	tx->posted = !rc || !bad;
	tx->sent |= tx->posted;
	if (!rc)
		return 0;
	if (bad)
		ch->outstanding--;
	krdma_channel_fail(ch, -ENOTCONN, "a message was not accepted", KRDMA_BYE_LOST);
	return -ENOTCONN;
}

/**
 * krdma_post_tx_locked - send a control message
 * @ch: channel; if it is down and resumes, the message is sent when it is up again
 * @tx: buffer with the message; owned by the post from here
 * @last: a BYE, the one message that a channel may send that is down
 *
 * Context: channel->lock held.
 * Return: 0 or -ENOTCONN
 */
int krdma_post_tx_locked(struct krdma_channel *ch, struct krdma_tx *tx, bool last)
{
	bool up = ch->state == KRDMA_CHANNEL_UP && !krdma_control_shy(ch);
	int rc = -ENOTCONN;

	lockdep_assert_held(&ch->lock);
	tx->seq = ++ch->sent;
	list_add_tail(&tx->node, &ch->tx_sent);
	if (up || (last && ch->state == KRDMA_CHANNEL_DOWN))
		rc = krdma_tx_send(ch, tx);
	ch->said_bye |= last && !rc;
	if (ch->resumes)
		rc = 0;
	ch->tx_taken--;
	if (rc && !tx->posted)
		krdma_tx_free(ch, tx);
	else
		krdma_tx_wake(ch);
	if (!rc)
		krdma_stat_inc(KRDMA_STAT_CONTROL_SENT);
	return rc;
}

/**
 * krdma_post_tx - the same, without the lock
 * @ch: channel
 * @tx: buffer with the message; owned by the post from here
 * @last: a BYE
 *
 * Context: any; no lock of the session or the channel held.
 * Return: 0 or -ENOTCONN
 */
int krdma_post_tx(struct krdma_channel *ch, struct krdma_tx *tx, bool last)
{
	int rc;

	krdma_channel_lock(ch);
	rc = krdma_post_tx_locked(ch, tx, last);
	krdma_channel_unlock(ch);
	return rc;
}

/* ---- what is received ---- */

/* The peer says how many messages it has received. Return: false if that can't be */
static bool krdma_control_acked(struct krdma_channel *ch, const struct krdma_wire_hdr *hdr)
{
	u16 received = le16_to_cpu(hdr->received);
	struct krdma_tx *tx, *next;

	if (!ch->iwarp)
		return !received;
	if ((s16)(received - ch->acked) < 0 || (s16)(ch->sent - received) < 0)
		return false;
	ch->acked = received;
	list_for_each_entry_safe(tx, next, &ch->tx_sent, node) {
		if ((s16)(tx->seq - received) > 0)
			break;
		if (!tx->sent)
			return false;
		tx->acked = true;
		if (!tx->posted)
			krdma_tx_free(ch, tx);
	}
	return true;
}

/**
 * krdma_control_arrived - can the peer reply to a request?
 * @ch: channel
 * @type: of the request
 * @tag: likewise
 *
 * Context: any; channel->lock not held.
 * Return: false if it has not said that it has received the request, where it would: on iWARP
 */
bool krdma_control_arrived(struct krdma_channel *ch, u8 type, __le32 tag)
{
	struct krdma_tx *tx;
	bool arrived = true;

	if (!READ_ONCE(ch->iwarp))
		return true;
	spin_lock_bh(&ch->lock);
	list_for_each_entry(tx, &ch->tx_sent, node) {
		const struct krdma_wire_hdr *hdr = tx->buf;

		if (hdr->type == type && hdr->tag == tag && !tx->acked)
			arrived = !ch->resumes;
	}
	spin_unlock_bh(&ch->lock);
	return arrived;
}

/* The first message of a connection has come: what waited for it is sent. */
static void krdma_control_heard(struct krdma_channel *ch)
{
	struct krdma_tx *tx;

	list_for_each_entry(tx, &ch->tx_sent, node)
		if (ch->state == KRDMA_CHANNEL_UP)
			krdma_tx_send(ch, tx);
}

/* Return: NULL, or how the peer broke the protocol */
static const char *krdma_control_count(struct krdma_channel *ch, const struct krdma_rx *rx, u8 type)
{
	bool shy = krdma_control_shy(ch);
	const char *cause;

	ch->heard = true;
	/* What is shorter krdma_wire_check() refuses. */
	if (rx->len >= sizeof(struct krdma_wire_hdr) && !krdma_control_acked(ch, rx->buf))
		return "it has received what can't be";
	if (shy)
		krdma_control_heard(ch);
	if (type == KRDMA_WIRE_ACK) {
		krdma_stat_inc(KRDMA_STAT_CONTROL_RECEIVED);
		if (!krdma_wire_check(rx->buf, rx->len, &cause))
			return cause;
		return shy ? NULL : "an ACK that is not the first";
	}
	if (type == KRDMA_WIRE_MESSAGE)
		ch->messages_received++;
	else
		ch->received++;
	/* It says so with what it sends; or with a heartbeat. */
	if (ch->iwarp && ++ch->unacked >= KRDMA_ACK_MANY)
		krdma_channel_tick_by(ch, ktime_get());
	return NULL;
}

static void krdma_rx_breach(struct krdma_channel *ch, const char *cause)
{
	krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
	krdma_channel_fail(ch, -ECONNRESET, cause, KRDMA_WIRE_REASON_PROTOCOL);
}

static void krdma_rx_came(struct krdma_channel *ch, struct krdma_rx *rx)
{
	u8 type = rx->len ? *(const u8 *)rx->buf : 0;
	const char *cause = krdma_control_count(ch, rx, type);

	if (cause) {
		krdma_rx_breach(ch, cause);
		return;
	}
	if (type == KRDMA_WIRE_ACK) {
		krdma_post_rx_later(ch, rx);
		krdma_post_rx_again(ch);
		return;
	}
	if (ch->bye < 0)
		WRITE_ONCE(ch->bye, krdma_wire_bye_reason(rx->buf, rx->len));
	ch->ops->received(ch, rx);
	/* The connection is lost: nobody handles a BYE that is behind that. */
	if (ch->state == KRDMA_CHANNEL_DOWN && ch->bye >= 0)
		krdma_channel_lost(ch, NULL);
}

/**
 * krdma_control_left - the peer is not there any more: nobody waits until it has a BYE
 * @ch: channel
 *
 * Context: channel->lock held.
 */
void krdma_control_left(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	ch->left = true;
	if (ch->tx_wanted && ch->said_bye)
		ch->events |= KRDMA_CHANNEL_TX;
}

static void krdma_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_rx *rx = container_of(wc->wr_cqe, struct krdma_rx, cqe);
	struct krdma_channel *ch = cq->cq_context;

	spin_lock(&ch->lock);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc);
	} else if (wc->opcode != IB_WC_RECV || wc->byte_len > ch->rx_size ||
		   (wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE))) {
		/* Not in the protocol; and rxe does not look whose key is invalidated. */
		krdma_rx_breach(ch, "the peer sent more than a message");
	} else if (ch->state <= KRDMA_CHANNEL_UP || ch->resumes) {
		ib_dma_sync_single_for_cpu(ch->dev->ib, rx->dma, wc->byte_len, DMA_FROM_DEVICE);
		rx->len = wc->byte_len;
		rx->busy = true;
		ch->last_wc = jiffies;
		krdma_rx_came(ch, rx);
	} else if (ch->said_bye) {
		/* So does the peer: neither waits for the other. */
		ib_dma_sync_single_for_cpu(ch->dev->ib, rx->dma, wc->byte_len, DMA_FROM_DEVICE);
		if (krdma_wire_bye_reason(rx->buf, wc->byte_len) >= 0)
			krdma_control_left(ch);
	}
	krdma_channel_unlock_softirq(ch);
}

/*
 * iWARP: the target may send when it has received something, and there is nothing to be sent
 * again: an ACK, which is not counted.
 */
static void krdma_control_ack(struct krdma_channel *ch)
{
	struct krdma_tx *tx = NULL;

	if (ch->state == KRDMA_CHANNEL_UP)
		tx = krdma_tx_pop(ch, KRDMA_TX_LAST);

	if (!tx)
		return;
	krdma_wire_build(tx->buf, KRDMA_WIRE_ACK, sizeof(struct krdma_wire_hdr), 0);
	trace_krdma_message(ch->serial, true, tx->buf);
	tx->seq = ch->sent;
	tx->acked = true;
	list_add_tail(&tx->node, &ch->tx_sent);
	ch->tx_taken--;
	krdma_tx_send(ch, tx);
}

/**
 * krdma_control_resume - send what the peer has not received, or that there is nothing
 * @ch: channel that is up; ->peer says what the peer has received
 *
 * Context: channel->lock held.
 * Return: false if what the peer says can't be: the session has to end
 */
bool krdma_control_resume(struct krdma_channel *ch)
{
	u16 received = le16_to_cpu(ch->peer.received), next = received + 1;
	bool shy = krdma_control_shy(ch);
	struct krdma_tx *tx, *after;

	lockdep_assert_held(&ch->lock);
	list_for_each_entry_safe(tx, after, &ch->tx_sent, node) {
		/* No completion is to come of a connection before. */
		tx->posted = false;
		if (tx->acked || (s16)(tx->seq - next) < 0) {
			/* It has received what only waits to be sent. */
			if (!tx->acked && !tx->sent)
				return false;
			krdma_tx_free(ch, tx);
			continue;
		}
		/* What is before the first that is left has completed. */
		if (tx->seq != next++)
			return false;
		if (list_is_first(&tx->node, &ch->tx_sent) && tx->sent &&
		    tx->repeats++ == KRDMA_REPEATS_KERNEL_MAX)
			krdma_channel_fail(ch, -ECONNRESET, "a message does not arrive",
					   KRDMA_BYE_ENDED);
		if (ch->state == KRDMA_CHANNEL_UP && !shy)
			krdma_tx_send(ch, tx);
	}
	ch->acked = received;
	if (ch->iwarp && !ch->inbound && next == (u16)(received + 1))
		krdma_control_ack(ch);
	return next == (u16)(ch->sent + 1);
}

/* ---- set-up ---- */

/**
 * krdma_control_setup - allocate what control messages are sent from and received into
 * @ch: channel; ntx, nrx and rx_size are set
 *
 * They are mapped for each connection: the next one may be over another device.
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_control_teardown cleans up in either case
 */
int krdma_control_setup(struct krdma_channel *ch)
{
	u32 i;

	ch->tx = krdma_inject(kcalloc(ch->ntx, sizeof(*ch->tx), GFP_KERNEL), NULL);
	ch->rx = krdma_inject(kcalloc(ch->nrx, sizeof(*ch->rx), GFP_KERNEL), NULL);
	if (!ch->tx || !ch->rx)
		return -ENOMEM;
	for (i = 0; i < ch->ntx; i++) {
		ch->tx[i].buf = krdma_buf_alloc(KRDMA_WIRE_MSG_MAX);
		if (!ch->tx[i].buf)
			return -ENOMEM;
		ch->tx[i].cqe.done = krdma_tx_done;
		list_add_tail(&ch->tx[i].node, &ch->tx_free);
	}
	for (i = 0; i < ch->nrx; i++) {
		ch->rx[i].buf = krdma_buf_alloc(ch->rx_size);
		if (!ch->rx[i].buf)
			return -ENOMEM;
		ch->rx[i].cqe.done = krdma_rx_done;
		ch->rx[i].wr = (struct ib_recv_wr){
			.wr_cqe = &ch->rx[i].cqe,
			.sg_list = &ch->rx[i].sge,
			.num_sge = 1,
		};
	}
	return 0;
}

/**
 * krdma_control_map - map what control messages are sent from and received into
 * @ch: channel with a device and a PD
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_control_unmap cleans up in either case
 */
int krdma_control_map(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->dev->ib;
	int rc = 0;

	for (; !rc && ch->ntx_mapped < ch->ntx; ch->ntx_mapped += !rc) {
		struct krdma_tx *tx = &ch->tx[ch->ntx_mapped];

		rc = krdma_buf_map(ib, tx->buf, &tx->dma, KRDMA_WIRE_MSG_MAX, DMA_TO_DEVICE);
	}
	for (; !rc && ch->nrx_mapped < ch->nrx; ch->nrx_mapped += !rc) {
		struct krdma_rx *rx = &ch->rx[ch->nrx_mapped];

		rc = krdma_buf_map(ib, rx->buf, &rx->dma, ch->rx_size, DMA_FROM_DEVICE);
		rx->sge = (struct ib_sge){ rx->dma, ch->rx_size, ch->pd->local_dma_lkey };
	}
	return rc;
}

/**
 * krdma_control_unmap - undo krdma_control_map
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_control_unmap(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->dev->ib;

	while (ch->ntx_mapped)
		ib_dma_unmap_single(ib, ch->tx[--ch->ntx_mapped].dma, KRDMA_WIRE_MSG_MAX,
				    DMA_TO_DEVICE);
	while (ch->nrx_mapped)
		ib_dma_unmap_single(ib, ch->rx[--ch->nrx_mapped].dma, ch->rx_size, DMA_FROM_DEVICE);
}

/**
 * krdma_control_teardown - free what control messages are sent from and received into
 * @ch: channel, after krdma_control_unmap()
 *
 * Context: process.
 */
void krdma_control_teardown(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; ch->tx && i < ch->ntx; i++)
		kfree(ch->tx[i].buf);
	for (i = 0; ch->rx && i < ch->nrx; i++)
		kfree(ch->rx[i].buf);
	kfree(ch->tx);
	kfree(ch->rx);
	ch->tx = NULL;
	ch->rx = NULL;
	INIT_LIST_HEAD(&ch->tx_free);
	INIT_LIST_HEAD(&ch->tx_sent);
	INIT_LIST_HEAD(&ch->rx_list);
}
