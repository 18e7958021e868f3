// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests, each post beside its completion: what the two hosts say to each other,
 * the service's registrations, the heartbeat. Data is chunk.c's, messages are letter.c's.
 *
 * Budget of the send queue, reserved at set-up so that no post can fail for
 * want of room:
 *
 *	KRDMA_DATA_SLOTS * 2	READs, WRITEs and atomics, one chunk each, and the READs behind
 *				the WRITEs
 *	KRDMA_SINKS + 1		iWARP: registrations of what READs fill
 *	ntx			control messages
 *	KRDMA_PLACES		messages, of an initiator that may send them
 *	KRDMA_REG_SLOTS		registrations or invalidations of the service
 *	1			heartbeat
 *	1			drain (ib_drain_sq)
 *
 * Posting happens under session->lock with the session up, so that nothing is
 * posted behind a drain.
 */
#include <linux/slab.h>

#include "krdma.h"

/**
 * krdma_post_broken - a completion has failed: the queue pair is in error
 * @ch: channel, whose session ends
 * @wc: the completion
 * @done: transfers that ended
 *
 * Context: completion handler, session->lock held.
 */
void krdma_post_broken(struct krdma_channel *ch, const struct ib_wc *wc, struct krdma_queue *done)
{
	/* A refused connect flushes the receives: rdma_cm tells the reason. */
	if (ch->sess->state == KRDMA_SESSION_CONNECTING && !ch->sess->inbound) {
		ch->broken = ib_wc_status_msg(wc->status);
		return;
	}
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		pr_info_ratelimited("krdma_mover: session %llu: %s (vendor error %#x)\n",
				    ch->sess->serial, ib_wc_status_msg(wc->status), wc->vendor_err);
	krdma_session_lost_locked(ch->sess, ib_wc_status_msg(wc->status), done);
}

/**
 * krdma_post_lost - is it the connection that is going, not a work request that is refused?
 * @ch: channel
 * @err: of ib_post_send(); siw has -ENOTCONN when the queue pair leaves its state
 * @done: transfers that ended
 *
 * Context: session->lock held.
 * Return: true if so: the session has failed then
 */
bool krdma_post_lost(struct krdma_channel *ch, int err, struct krdma_queue *done)
{
	if (err != -ENOTCONN && !ch->lost)
		return false;
	krdma_session_lost_locked(ch->sess, "the connection is going", done);
	return true;
}

/**
 * krdma_post_refused - the device has refused a work request that others can do without
 * @ch: channel
 * @err: of ib_post_send()
 * @done: transfers that ended
 *
 * The poster of a chain sets ->refusals to 0 if the device takes all of it at once; not if it
 * takes the rest of one: so there is an end to posting what is left.
 *
 * Context: session->lock held, session up.
 * Return: true if what is behind it can be posted again; else the session has failed
 */
bool krdma_post_refused(struct krdma_channel *ch, int err, struct krdma_queue *done)
{
	lockdep_assert_held(&ch->sess->lock);
	pr_info_ratelimited("krdma_mover: session %llu: a work request was refused (%pe)\n",
			    ch->sess->serial, ERR_PTR(err));
	if (++ch->refusals < KRDMA_REFUSALS_MAX)
		return true;
	krdma_session_fail_locked(ch->sess, -ENOTCONN, "work requests are not accepted", -1, done);
	return false;
}

/* ---- control messages ---- */

static void krdma_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_rx *rx = container_of(wc->wr_cqe, struct krdma_rx, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	bool answer = false;

	spin_lock_bh(&sess->lock);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc, &done);
	} else if (wc->opcode != IB_WC_RECV || wc->byte_len > ch->rx_size ||
		   (wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE))) {
		/* Not in the protocol; and rxe does not look whose key is invalidated. */
		krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
		krdma_session_fail_locked(sess, -ECONNRESET, "the peer sent more than a message",
					  KRDMA_WIRE_REASON_PROTOCOL, &done);
	} else if (sess->state <= KRDMA_SESSION_UP) {
		ib_dma_sync_single_for_cpu(sess->dev->ib, rx->dma, wc->byte_len, DMA_FROM_DEVICE);
		ch->heard = true;
		rx->len = wc->byte_len;
		if (ch->bye < 0)
			ch->bye = krdma_proto_bye(rx->buf, rx->len);
		ch->last_wc = jiffies;
		answer = krdma_ctl_rx_came(sess, rx);
	}
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	if (answer)
		krdma_ctl_rx_answer(sess, rx);
}

/**
 * krdma_post_rx_locked - give a receive buffer to the queue pair
 * @ch: channel
 * @rx: the buffer, handled by now
 * @done: transfers that ended
 *
 * Context: session->lock held.
 * Return: 0 or a negative errno
 */
int krdma_post_rx_locked(struct krdma_channel *ch, struct krdma_rx *rx, struct krdma_queue *done)
{
	struct ib_device *ib = ch->sess->dev->ib;
	struct ib_sge sge = {
		.addr = rx->dma,
		.length = ch->rx_size,
		.lkey = ch->sess->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &rx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int rc = -ENOTCONN;

	lockdep_assert_held(&ch->sess->lock);
	ib_dma_sync_single_for_device(ib, rx->dma, ch->rx_size, DMA_FROM_DEVICE);
	if (ch->sess->state <= KRDMA_SESSION_UP)
		rc = ib_post_recv(ch->qp, &wr, NULL);
	/* The peer counts on it. */
	if (rc && ch->sess->state == KRDMA_SESSION_UP)
		krdma_session_fail_locked(ch->sess, -ENOTCONN, "a receive was not accepted", -1,
					  done);
	return rc;
}

/**
 * krdma_post_rx - the same, without the lock
 * @ch: channel
 * @rx: the buffer, handled by now
 *
 * Context: any; no session lock held.
 * Return: 0 or a negative errno
 */
int krdma_post_rx(struct krdma_channel *ch, struct krdma_rx *rx)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	int rc;

	spin_lock_bh(&ch->sess->lock);
	rc = krdma_post_rx_locked(ch, rx, &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
	return rc;
}

/**
 * krdma_post_receives - post all receives, before the peer can send
 * @ch: channel with a queue pair
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_post_receives(struct krdma_channel *ch)
{
	int rc;
	u32 i;

	for (i = 0; i < ch->nrx; i++) {
		rc = krdma_post_rx(ch, &ch->rx[i]);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Under the lock to the end: who waits for the last may free the channel. Some look without
 * it, so the barrier of wq_has_sleeper is needed.
 */
static void krdma_tx_wake(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->sess->lock);
	if (wq_has_sleeper(&ch->tx_wait))
		wake_up(&ch->tx_wait);
}

/* One is free: those that are parked for want of it go on. */
static void krdma_tx_free(struct krdma_channel *ch, struct krdma_tx *tx)
{
	struct krdma_session *sess = ch->sess;

	tx->posted = false;
	list_add(&tx->node, &ch->tx_free);
	ch->tx_busy--;
	krdma_tx_wake(ch);
	krdma_ctl_rx_kick(sess);
	krdma_credits_settle(sess);
	if (ch->tx_busy == ch->tx_taken)
		krdma_session_left(sess);
}

static void krdma_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_tx *tx = container_of(wc->wr_cqe, struct krdma_tx, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	krdma_post_completed_locked(ch, wc, &done);
	if (tx->posted)
		krdma_tx_free(ch, tx);
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_post_tx_any - is there a buffer for a control message?
 * @ch: channel
 * @reserve: buffers that are for others
 *
 * Context: session->lock held.
 * Return: true if there is
 */
bool krdma_post_tx_any(const struct krdma_channel *ch, u32 reserve)
{
	lockdep_assert_held(&ch->sess->lock);
	return ch->sess->state == KRDMA_SESSION_UP && ch->ntx - ch->tx_busy > reserve;
}

/**
 * krdma_post_tx_take - take a buffer for a control message, if there is one
 * @ch: channel
 * @reserve: buffers that are for others
 *
 * Nobody waits for one: krdma_tx_free kicks those that found none.
 *
 * Context: session->lock held.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_take(struct krdma_channel *ch, u32 reserve)
{
	struct krdma_tx *tx;

	/* ORDER: none is taken when down, so that down_work can wait for those out. */
	if (!krdma_post_tx_any(ch, reserve))
		return NULL;
	tx = list_first_entry(&ch->tx_free, struct krdma_tx, node);
	list_del(&tx->node);
	ch->tx_busy++;
	ch->tx_taken++;
	return tx;
}

/**
 * krdma_post_tx_free - give a buffer back that was not posted
 * @ch: channel
 * @tx: the buffer
 *
 * Context: session->lock held.
 */
void krdma_post_tx_free(struct krdma_channel *ch, struct krdma_tx *tx)
{
	lockdep_assert_held(&ch->sess->lock);
	ch->tx_taken--;
	krdma_tx_free(ch, tx);
}

/**
 * krdma_post_tx_put - give a buffer back that was not posted
 * @ch: channel
 * @tx: the buffer
 *
 * Context: any; no session lock held.
 */
void krdma_post_tx_put(struct krdma_channel *ch, struct krdma_tx *tx)
{
	spin_lock_bh(&ch->sess->lock);
	krdma_post_tx_free(ch, tx);
	spin_unlock_bh(&ch->sess->lock);
}

/**
 * krdma_post_tx_last - take a buffer for a BYE of a closing session
 * @ch: channel
 *
 * Context: any; no session lock held.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_last(struct krdma_channel *ch)
{
	struct krdma_tx *tx;

	spin_lock_bh(&ch->sess->lock);
	tx = list_first_entry_or_null(&ch->tx_free, struct krdma_tx, node);
	if (tx) {
		list_del(&tx->node);
		ch->tx_busy++;
		ch->tx_taken++;
	}
	spin_unlock_bh(&ch->sess->lock);
	return tx;
}

/**
 * krdma_post_tx - send a control message
 * @ch: channel
 * @tx: buffer with the encoded message; owned by the post from here
 * @len: bytes
 * @last: a BYE, the one message that a closing session may send
 *
 * Context: any; no session lock held.
 * Return: 0 or -ENOTCONN
 */
int krdma_post_tx(struct krdma_channel *ch, struct krdma_tx *tx, u32 len, bool last)
{
	struct krdma_session *sess = ch->sess;
	struct ib_sge sge = {
		.addr = tx->dma,
		.length = len,
		.lkey = sess->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &tx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	const struct ib_send_wr *bad = NULL;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	int rc = -ENOTCONN;

	ib_dma_sync_single_for_device(sess->dev->ib, tx->dma, len, DMA_TO_DEVICE);
	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP || (last && sess->state == KRDMA_SESSION_CLOSING)) {
		krdma_post_count(ch, 1);
		rc = ib_post_send(ch->qp, &wr, &bad);
		tx->posted = !rc || !bad;
		if (rc) {
			if (bad)
				ch->outstanding--;
			krdma_session_fail_locked(sess, -ENOTCONN, "a message was not accepted", -1,
						  &done);
			rc = -ENOTCONN;
		}
	}
	ch->tx_taken--;
	if (!tx->posted)
		krdma_tx_free(ch, tx);
	else
		krdma_tx_wake(ch);
	if (!rc)
		krdma_stat_inc(KRDMA_STAT_MESSAGES_SENT);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	return rc;
}

/* ---- the service's registrations ---- */

static bool krdma_post_wrs_try(struct krdma_channel *ch, struct ib_send_wr *first, u32 n,
			       bool alone, int *ret)
{
	struct krdma_session *sess = ch->sess;
	const struct ib_send_wr *bad = NULL, *wr;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 posted = 0;
	int rc = 0;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP) {
		if (alone && ch->outstanding) {
			spin_unlock_bh(&sess->lock);
			return false;
		}
		posted = n;
		krdma_post_count(ch, n);
		rc = ib_post_send(ch->qp, first, &bad);
		if (rc) {
			/* All of them where none is bad: siw. */
			for (posted = 0, wr = first; wr && wr != bad; wr = wr->next)
				posted++;
			ch->outstanding -= n - posted;
			/*
			 * One that is not registered costs a question, one that is not
			 * invalidated, as the device can't, ends with its registration. siw may
			 * have posted all, see above.
			 */
			if (krdma_post_lost(ch, rc, &done))
				;
			else if (first->opcode == IB_WR_REG_MR ?
					 !bad || !krdma_post_refused(ch, rc, &done) :
					 posted || (rc != -EINVAL && rc != -EOPNOTSUPP))
				krdma_session_fail_locked(sess, -ENOTCONN,
							  "a registration was not accepted", -1,
							  &done);
		} else {
			ch->refusals = 0;
		}
	}
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	*ret = posted ?: rc;
	return true;
}

/**
 * krdma_post_wrs - post work requests whose completions the caller handles
 * @ch: channel
 * @first: chain of signalled work requests
 * @n: their number, at most KRDMA_REG_SLOTS
 *
 * Each handler calls krdma_post_completed.
 *
 * A registration waits on rxe until all before it has been acknowledged: if a
 * packet is lost, rxe does again all that came behind it, local work requests
 * as well (req_retry), and a registration done twice breaks the queue pair. Not
 * for ever, as a peer may keep us busy with questions.
 *
 * Context: process; only the session's service.
 * Return: number posted; less than @n only if the session is down or goes down, or the device
 *	refuses a registration; or the error with which it refuses the first: then none is
 *	posted, and the session goes on
 */
int krdma_post_wrs(struct krdma_channel *ch, struct ib_send_wr *first, u32 n)
{
	bool alone = ch->sess->dev->policy.repeats && first->opcode == IB_WR_REG_MR;
	int posted;

	if (!wait_event_timeout(ch->tx_wait, krdma_post_wrs_try(ch, first, n, alone, &posted),
				msecs_to_jiffies(KRDMA_ALONE_MS * ch->timeout_scale)))
		krdma_post_wrs_try(ch, first, n, false, &posted);
	return posted;
}

/**
 * krdma_post_completed_locked - account for a completion
 * @ch: channel
 * @wc: the completion
 * @done: transfers that ended
 *
 * Context: completion handler, session->lock held.
 */
void krdma_post_completed_locked(struct krdma_channel *ch, const struct ib_wc *wc,
				 struct krdma_queue *done)
{
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS)
		krdma_post_broken(ch, wc, done);
}

/**
 * krdma_post_completed - account for completions of krdma_post_wrs
 * @ch: channel
 * @wc: the completion
 *
 * Context: completion handler; no session lock held.
 */
void krdma_post_completed(struct krdma_channel *ch, const struct ib_wc *wc)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	krdma_post_completed_locked(ch, wc, &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
}

/* ---- heartbeat ---- */

static void krdma_heartbeat_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	ch->heartbeat = false;
	krdma_post_completed_locked(ch, wc, &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_post_heartbeat - ask the peer's adapter for a sign of life
 * @ch: channel of a session that is up
 * @done: transfers that ended
 *
 * A WRITE of no bytes needs no key and no receive, and the peer's software has
 * no part in its acknowledgment. Not a READ: rxe up to 6.1 breaks the queue
 * pair when the answer to an empty one is lost (read_reply looks for its key
 * again). Not on iWARP, where it completes without the peer: krdma_ask_heartbeat.
 *
 * Context: session->lock held.
 */
void krdma_post_heartbeat(struct krdma_channel *ch, struct krdma_queue *done)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &ch->heartbeat_cqe,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
	};

	lockdep_assert_held(&ch->sess->lock);
	if (ch->heartbeat)
		return;
	krdma_post_count(ch, 1);
	if (ib_post_send(ch->qp, &wr.wr, NULL)) {
		ch->outstanding--;
		krdma_session_fail_locked(ch->sess, -ENOTCONN, "a heartbeat was not accepted", -1,
					  done);
		return;
	}
	ch->heartbeat = true;
	krdma_stat_inc(KRDMA_STAT_HEARTBEATS);
}

/* ---- set-up ---- */

/**
 * krdma_buf_map - a buffer that is sent from or received into
 * @ib: device
 * @buf: out: the buffer, zeroed; NULL on failure
 * @dma: out: its address for the device
 * @size: bytes
 * @dir: direction
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_buf_map(struct ib_device *ib, void **buf, u64 *dma, u32 size, enum dma_data_direction dir)
{
	*buf = kzalloc(size, GFP_KERNEL);
	if (!*buf)
		return -ENOMEM;
	*dma = ib_dma_map_single(ib, *buf, size, dir);
	if (ib_dma_mapping_error(ib, *dma)) {
		kfree(*buf);
		*buf = NULL;
		return -ENOMEM;
	}
	return 0;
}

/**
 * krdma_buf_unmap - undo krdma_buf_map
 * @ib: device
 * @buf: the buffer, or NULL
 * @dma: its address
 * @size: bytes
 * @dir: direction
 *
 * Context: process.
 */
void krdma_buf_unmap(struct ib_device *ib, void *buf, u64 dma, u32 size,
		     enum dma_data_direction dir)
{
	if (!buf)
		return;
	ib_dma_unmap_single(ib, dma, size, dir);
	kfree(buf);
}

/**
 * krdma_post_setup - allocate what a channel posts
 * @ch: channel; slots, ntx and nrx are set
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_post_teardown cleans up in either case
 */
int krdma_post_setup(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->sess->dev->ib;
	int rc;
	u32 i;

	ch->heartbeat_cqe.done = krdma_heartbeat_done;
	ch->tx = kcalloc(ch->ntx, sizeof(*ch->tx), GFP_KERNEL);
	ch->rx = kcalloc(ch->nrx, sizeof(*ch->rx), GFP_KERNEL);
	if (!ch->tx || !ch->rx)
		return -ENOMEM;
	rc = krdma_chunks_setup(ch);
	if (rc)
		return rc;
	for (i = 0; i < ch->ntx; i++) {
		rc = krdma_buf_map(ib, &ch->tx[i].buf, &ch->tx[i].dma, KRDMA_WIRE_MSG_MAX,
				   DMA_TO_DEVICE);
		if (rc)
			return rc;
		ch->tx[i].cqe.done = krdma_tx_done;
		list_add_tail(&ch->tx[i].node, &ch->tx_free);
	}
	for (i = 0; i < ch->nrx; i++) {
		rc = krdma_buf_map(ib, &ch->rx[i].buf, &ch->rx[i].dma, ch->rx_size,
				   DMA_FROM_DEVICE);
		if (rc)
			return rc;
		ch->rx[i].cqe.done = krdma_rx_done;
	}
	rc = ch->messages && ch->slots ? krdma_letters_setup(ch) : 0;
	if (rc)
		return rc;
	if (ch->slots)
		rc = krdma_void_setup(ch);
	return !rc && ch->iwarp && ch->slots ? krdma_sinks_setup(ch) : rc;
}

/**
 * krdma_post_teardown - free what a channel posts
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_post_teardown(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->sess->dev->ib;
	u32 i;

	for (i = 0; ch->tx && i < ch->ntx; i++)
		krdma_buf_unmap(ib, ch->tx[i].buf, ch->tx[i].dma, KRDMA_WIRE_MSG_MAX,
				DMA_TO_DEVICE);
	for (i = 0; ch->rx && i < ch->nrx; i++)
		krdma_buf_unmap(ib, ch->rx[i].buf, ch->rx[i].dma, ch->rx_size, DMA_FROM_DEVICE);
	krdma_letters_free(ch);
	krdma_sinks_free(ch);
	krdma_void_free(ch);
	krdma_chunks_free(ch);
	kfree(ch->tx);
	kfree(ch->rx);
}
