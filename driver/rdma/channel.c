// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests, each post beside its completion: what the two hosts say to each other,
 * and the service's registrations. Data is initiator/wr.c's, messages are
 * initiator/message.c's.
 *
 * Budget of the send queue, reserved at set-up so that no post can fail for
 * want of room:
 *
 *	slots * 2		READs, WRITEs and atomics, and the READs behind
 *				the WRITEs
 *	KRDMA_SINKS + 1		iWARP: registrations of what READs fill
 *	ntx			control messages
 *	KRDMA_MESSAGE_CREDITS		messages, of an initiator that may send them
 *	KRDMA_REG_SLOTS		registrations or invalidations of the service
 *	1			heartbeat
 *	1			drain (ib_drain_sq)
 *
 * Posting happens under channel->lock with the channel up, so that nothing is
 * posted behind a drain.
 *
 * A channel that fails is down at once, and its transfers end. krdma_channel_unlock() lets the
 * session know, which takes it apart; if it is the first, the session ends.
 */
#include <linux/slab.h>

#include "rdma/rdma.h"

/* Post what is ready, and complete what ended. */
static void krdma_channel_kick(struct tasklet_struct *t)
{
	struct krdma_channel *ch = from_tasklet(ch, t, kick);

	krdma_channel_lock(ch);
	if (ch->data)
		ch->data->pump(ch);
	krdma_channel_unlock(ch);
}

/**
 * krdma_channel_init - begin with a channel
 * @ch: channel, zeroed
 * @sess: its session
 * @ops: what it needs of that; ->data is set by the caller
 *
 * Context: any.
 */
void krdma_channel_init(struct krdma_channel *ch, struct krdma_session *sess,
			const struct krdma_channel_ops *ops)
{
	ch->sess = sess;
	ch->ops = ops;
	spin_lock_init(&ch->lock);
	ch->state = KRDMA_CHANNEL_DEAD;
	krdma_queue_init(&ch->ended);
	tasklet_setup(&ch->kick, krdma_channel_kick);
	INIT_HLIST_HEAD(&ch->transfers);
	INIT_LIST_HEAD(&ch->ready);
	INIT_LIST_HEAD(&ch->unmapped);
	INIT_LIST_HEAD(&ch->sending);
	INIT_LIST_HEAD(&ch->fenced);
}

/**
 * krdma_channel_begin - begin with a connection of a channel
 * @ch: channel that has none yet, or was taken apart: no work or tasklet of it but ->kick runs
 *
 * Context: session->lock held.
 */
void krdma_channel_begin(struct krdma_channel *ch)
{
	spin_lock(&ch->lock);
	memset_startat(ch, 0, beginning);
	ch->beginning = true;
	ch->bye = -1;
	ch->last_wc = jiffies;
	ch->progress = jiffies;
	ch->tick_at = KTIME_MAX;
	init_completion(&ch->cm_done);
	init_waitqueue_head(&ch->tx_wait);
	INIT_WORK(&ch->qp_event_work, krdma_conn_qp_work);
	INIT_DELAYED_WORK(&ch->tick, krdma_channel_tick);
	INIT_LIST_HEAD(&ch->tx_free);
	INIT_LIST_HEAD(&ch->rx_list);
	INIT_LIST_HEAD(&ch->graces);
	INIT_LIST_HEAD(&ch->sinks);
	INIT_LIST_HEAD(&ch->sends_free);
	ch->ops->begin(ch);
	WRITE_ONCE(ch->state, KRDMA_CHANNEL_CONNECTING);
	krdma_channel_unlock_later(ch);
}

/**
 * krdma_channel_settle - krdma_channel_unlock() where the session has to know something
 * @ch: channel, locked, with events
 *
 * Context: as for krdma_channel_unlock().
 */
void krdma_channel_settle(struct krdma_channel *ch) __releases(&ch->lock)
{
	struct krdma_transfer *x = krdma_channel_ended(ch);
	const struct krdma_data_ops *data = ch->data;
	u32 events = ch->events;

	lockdep_assert_held(&ch->lock);
	ch->events = 0;
	/* ORDER: under the lock, where the session is there. */
	ch->ops->hold(ch);
	spin_unlock_bh(&ch->lock);
	/* ORDER: the session first, so that submitters find why. It may be gone then. */
	ch->ops->settle(ch, events);
	if (x)
		data->complete(x);
}

/**
 * krdma_channel_close - nothing is posted any more
 * @ch: channel
 *
 * Context: channel->lock held.
 */
void krdma_channel_close(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	if (ch->state >= KRDMA_CHANNEL_DOWN)
		return;
	WRITE_ONCE(ch->state, KRDMA_CHANNEL_DOWN);
	if (ch->data)
		ch->data->fail(ch);
	/* A sender may wait to post. */
	wake_up_all(&ch->tx_wait);
}

/**
 * krdma_channel_fail - end a channel; its session knows what ends with it
 * @ch: channel
 * @err: negative errno
 * @cause: a phrase, static
 * @bye: enum krdma_wire_reason to tell the peer, or KRDMA_BYE_QUIET; -1: no BYE is sent
 *
 * Context: channel->lock held.
 */
void krdma_channel_fail(struct krdma_channel *ch, int err, const char *cause, int bye)
{
	lockdep_assert_held(&ch->lock);
	if (ch->state >= KRDMA_CHANNEL_DOWN)
		return;
	ch->err = err;
	WRITE_ONCE(ch->lost_cause, cause);
	ch->lost_bye = bye;
	ch->events |= KRDMA_CHANNEL_LOST;
	krdma_channel_close(ch);
}

/**
 * krdma_channel_lost - the connection is lost
 * @ch: channel
 * @cause: a phrase, static
 *
 * The reason that the peer gave stays the reason, though its BYE may not be handled yet.
 *
 * Context: channel->lock held.
 */
void krdma_channel_lost(struct krdma_channel *ch, const char *cause)
{
	if (ch->bye >= 0)
		krdma_channel_fail(ch, -ECONNRESET, krdma_wire_reason_text(ch->bye),
				   ch->bye ? -1 : KRDMA_BYE_QUIET);
	else
		krdma_channel_fail(ch, -ECONNRESET, ch->lost ?: cause, -1);
}

/* Is it this host that connects? While it does, the connect work tells what it was. */
static bool krdma_channel_connects(const struct krdma_channel *ch)
{
	return ch->state == KRDMA_CHANNEL_CONNECTING && !ch->inbound;
}

/**
 * krdma_channel_broken_locked - the connection is lost
 * @ch: channel
 * @cause: a phrase, static
 *
 * Context: channel->lock held.
 */
void krdma_channel_broken_locked(struct krdma_channel *ch, const char *cause)
{
	/* The connect work tells, or krdma_session_up(). */
	if (krdma_channel_connects(ch))
		ch->broken = cause;
	else
		krdma_channel_lost(ch, cause);
}

/**
 * krdma_channel_broken - the same, without the lock
 * @ch: channel
 * @cause: a phrase, static
 *
 * Context: any but hard interrupts; no lock of the session or the channel held.
 */
void krdma_channel_broken(struct krdma_channel *ch, const char *cause)
{
	krdma_channel_lock(ch);
	krdma_channel_broken_locked(ch, cause);
	krdma_channel_unlock(ch);
}

/**
 * krdma_post_broken - a completion has failed: the queue pair is in error
 * @ch: channel, which fails
 * @wc: the completion
 *
 * Context: completion handler, channel->lock held.
 */
void krdma_post_broken(struct krdma_channel *ch, const struct ib_wc *wc)
{
	/* A refused connect flushes the receives: rdma_cm tells the reason. */
	if (!krdma_channel_connects(ch) && wc->status != IB_WC_WR_FLUSH_ERR)
		pr_info_ratelimited("krdma_mover: session %llu: %s (vendor error %#x)\n",
				    ch->serial, ib_wc_status_msg(wc->status), wc->vendor_err);
	krdma_channel_broken_locked(ch, ib_wc_status_msg(wc->status));
}

/**
 * krdma_post_lost - is it the connection that is going, not a work request that is refused?
 * @ch: channel
 * @err: of ib_post_send(); siw has -ENOTCONN when the queue pair leaves its state
 *
 * Context: channel->lock held.
 * Return: true if so: the channel has failed then
 */
bool krdma_post_lost(struct krdma_channel *ch, int err)
{
	if (err != -ENOTCONN && !ch->lost)
		return false;
	krdma_channel_lost(ch, "the connection is going");
	return true;
}

/**
 * krdma_post_refused - the device has refused a work request that others can do without
 * @ch: channel
 * @err: of ib_post_send()
 *
 * The poster of a chain sets ->refusals to 0 if the device takes all of it at once; not if it
 * takes the rest of one: so there is an end to posting what is left.
 *
 * Context: channel->lock held, channel up.
 * Return: true if what is behind it can be posted again; else the channel has failed
 */
bool krdma_post_refused(struct krdma_channel *ch, int err)
{
	lockdep_assert_held(&ch->lock);
	pr_info_ratelimited("krdma_mover: session %llu: a work request was refused (%pe)\n",
			    ch->serial, ERR_PTR(err));
	if (++ch->refusals < KRDMA_REFUSALS_MAX)
		return true;
	krdma_channel_fail(ch, -ENOTCONN, "work requests are not accepted", -1);
	return false;
}

/* ---- control messages ---- */

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
		krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
		krdma_channel_fail(ch, -ECONNRESET, "the peer sent more than a message",
				   KRDMA_WIRE_REASON_PROTOCOL);
	} else if (ch->state <= KRDMA_CHANNEL_UP) {
		ib_dma_sync_single_for_cpu(ch->dev->ib, rx->dma, wc->byte_len, DMA_FROM_DEVICE);
		ch->heard = true;
		rx->len = wc->byte_len;
		if (ch->bye < 0)
			WRITE_ONCE(ch->bye, krdma_wire_bye_reason(rx->buf, rx->len));
		ch->last_wc = jiffies;
		ch->ops->received(ch, rx);
	}
	krdma_channel_unlock_softirq(ch);
}

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
	ib_dma_sync_single_for_device(ch->dev->ib, rx->dma, ch->rx_size, DMA_FROM_DEVICE);
	rx->wr.next = ch->rx_again;
	ch->rx_again = &rx->wr;
}

/**
 * krdma_post_rx_again - give the queue pair the receive buffers that are handled, as a chain
 * @ch: channel
 *
 * Context: channel->lock held.
 * Return: 0 or a negative errno
 */
int krdma_post_rx_again(struct krdma_channel *ch)
{
	const struct ib_recv_wr *first = ch->rx_again;
	int rc = -ENOTCONN;

	lockdep_assert_held(&ch->lock);
	if (!first)
		return 0;
	ch->rx_again = NULL;
	if (ch->state <= KRDMA_CHANNEL_UP)
		rc = krdma_inject(ib_post_recv(ch->qp, first, NULL), -ENOMEM);
	/* The peer counts on it. */
	if (rc && ch->state == KRDMA_CHANNEL_UP)
		krdma_channel_fail(ch, -ENOTCONN, "a receive was not accepted", -1);
	return rc;
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

/*
 * Under the lock to the end: who waits for the last may free the channel. Some look without
 * it, so the barrier of wq_has_sleeper is needed.
 */
static void krdma_tx_wake(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	if (wq_has_sleeper(&ch->tx_wait))
		wake_up(&ch->tx_wait);
}

/* One is free: those that are parked for want of it go on. */
static void krdma_tx_free(struct krdma_channel *ch, struct krdma_tx *tx)
{
	tx->posted = false;
	list_add(&tx->node, &ch->tx_free);
	ch->tx_busy--;
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
	if (tx->posted)
		krdma_tx_free(ch, tx);
	krdma_channel_unlock_softirq(ch);
}

/**
 * krdma_post_tx_any - is there a buffer for a control message?
 * @ch: channel
 * @reserve: buffers that are for others
 *
 * Context: channel->lock held.
 * Return: true if there is
 */
bool krdma_post_tx_any(const struct krdma_channel *ch, u32 reserve)
{
	lockdep_assert_held(&ch->lock);
	return ch->state == KRDMA_CHANNEL_UP && ch->ntx - ch->tx_busy > reserve;
}

static struct krdma_tx *krdma_tx_pop(struct krdma_channel *ch)
{
	struct krdma_tx *tx = list_first_entry_or_null(&ch->tx_free, struct krdma_tx, node);

	if (tx) {
		list_del(&tx->node);
		ch->tx_busy++;
		ch->tx_taken++;
	}
	return tx;
}

/**
 * krdma_post_tx_take - take a buffer for a control message, if there is one
 * @ch: channel
 * @reserve: buffers that are for others
 *
 * Nobody waits for one: those that found none are kicked.
 *
 * Context: channel->lock held.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_take(struct krdma_channel *ch, u32 reserve)
{
	/* ORDER: none is taken when down, so that down_work can wait for those out. */
	return krdma_post_tx_any(ch, reserve) ? krdma_tx_pop(ch) : NULL;
}

/**
 * krdma_post_tx_get - take a buffer for a request, if there is one
 * @ch: channel
 * @reserve: buffers that are for others
 *
 * ->settle comes when there may be one again.
 *
 * Context: any; channel->lock not held, perhaps session->lock.
 * Return: the buffer, or NULL
 */
struct krdma_tx *krdma_post_tx_get(struct krdma_channel *ch, u32 reserve)
{
	struct krdma_tx *tx;

	spin_lock_bh(&ch->lock);
	tx = krdma_post_tx_take(ch, reserve);
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
	bool out;

	spin_lock_bh(&ch->lock);
	out = ch->tx_busy > ch->tx_taken;
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
	tx = krdma_tx_pop(ch);
	spin_unlock_bh(&ch->lock);
	return tx;
}

/**
 * krdma_post_tx_locked - send a control message
 * @ch: channel
 * @tx: buffer with the message; owned by the post from here
 * @last: a BYE, the one message that a channel may send that is down
 *
 * Context: channel->lock held.
 * Return: 0 or -ENOTCONN
 */
int krdma_post_tx_locked(struct krdma_channel *ch, struct krdma_tx *tx, bool last)
{
	u32 len = le32_to_cpu(((const struct krdma_wire_hdr *)tx->buf)->length);
	struct ib_sge sge = { .lkey = ch->pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_cqe = &tx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | krdma_post_from(ch, &sge, tx->buf, tx->dma, len),
	};
	const struct ib_send_wr *bad = NULL;
	int rc = -ENOTCONN;

	lockdep_assert_held(&ch->lock);
	if (ch->state == KRDMA_CHANNEL_UP || (last && ch->state == KRDMA_CHANNEL_DOWN)) {
		krdma_post_count(ch, 1);
		rc = krdma_inject_post(ch->qp, &wr, &bad);
		tx->posted = !rc || !bad;
		if (rc) {
			if (bad)
				ch->outstanding--;
			krdma_channel_fail(ch, -ENOTCONN, "a message was not accepted", -1);
			rc = -ENOTCONN;
		}
	}
	ch->tx_taken--;
	if (!tx->posted)
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

/* ---- the service's registrations ---- */

static bool krdma_post_wrs_try(struct krdma_channel *ch, struct ib_send_wr *first, u32 n,
			       bool alone, int *ret)
{
	const struct ib_send_wr *bad = NULL, *wr;
	u32 posted = 0;
	int rc = 0;

	krdma_channel_lock(ch);
	if (ch->state == KRDMA_CHANNEL_UP) {
		if (alone && ch->outstanding) {
			krdma_channel_unlock(ch);
			return false;
		}
		posted = n;
		krdma_post_count(ch, n);
		rc = krdma_inject_post(ch->qp, first, &bad);
		if (rc) {
			/* All of them where none is bad: siw. */
			for (posted = 0, wr = first; wr && wr != bad; wr = wr->next)
				posted++;
			ch->outstanding -= n - posted;
			/*
			 * One that is not registered costs a request, one that is not
			 * invalidated, as the device can't, ends with its registration. siw may
			 * have posted all, see above.
			 */
			if (krdma_post_lost(ch, rc))
				;
			else if (first->opcode == IB_WR_REG_MR ?
					 !bad || !krdma_post_refused(ch, rc) :
					 posted || (rc != -EINVAL && rc != -EOPNOTSUPP))
				krdma_channel_fail(ch, -ENOTCONN, "a registration was not accepted",
						   -1);
		} else {
			ch->refusals = 0;
		}
	}
	krdma_channel_unlock(ch);
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
 * for ever, as a peer may keep us busy with requests.
 *
 * Context: process; only the session's service.
 * Return: number posted; less than @n only if the session is down or goes down, or the device
 *	refuses a registration; or the error with which it refuses the first: then none is
 *	posted, and the session goes on
 */
int krdma_post_wrs(struct krdma_channel *ch, struct ib_send_wr *first, u32 n)
{
	bool alone = ch->dev->policy.repeats && first->opcode == IB_WR_REG_MR;
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
 *
 * Context: completion handler, channel->lock held.
 */
void krdma_post_completed_locked(struct krdma_channel *ch, const struct ib_wc *wc)
{
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS)
		krdma_post_broken(ch, wc);
}

/**
 * krdma_post_completed - account for completions of krdma_post_wrs
 * @ch: channel
 * @wc: the completion
 *
 * Context: completion handler; no lock of the session or the channel held.
 */
void krdma_post_completed(struct krdma_channel *ch, const struct ib_wc *wc)
{
	krdma_channel_lock(ch);
	krdma_post_completed_locked(ch, wc);
	krdma_channel_unlock(ch);
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
	*buf = krdma_inject(kzalloc(size, GFP_KERNEL), NULL);
	if (!*buf)
		return -ENOMEM;
	*dma = ib_dma_map_single(ib, *buf, size, dir);
	if (krdma_inject(ib_dma_mapping_error(ib, *dma), -ENOMEM)) {
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
 * @ch: channel; slots, ntx, nrx and posted_mask are set
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_post_teardown cleans up in either case
 */
int krdma_post_setup(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->dev->ib;
	int rc;
	u32 i;

	ch->tx = krdma_inject(kcalloc(ch->ntx, sizeof(*ch->tx), GFP_KERNEL), NULL);
	ch->rx = krdma_inject(kcalloc(ch->nrx, sizeof(*ch->rx), GFP_KERNEL), NULL);
	ch->posted_at = krdma_inject(
		kvcalloc(ch->posted_mask + 1, sizeof(*ch->posted_at), GFP_KERNEL), NULL);
	if (!ch->tx || !ch->rx || !ch->posted_at)
		return -ENOMEM;
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
		ch->rx[i].sge = (struct ib_sge){
			.addr = ch->rx[i].dma,
			.length = ch->rx_size,
			.lkey = ch->pd->local_dma_lkey,
		};
		ch->rx[i].wr = (struct ib_recv_wr){
			.wr_cqe = &ch->rx[i].cqe,
			.sg_list = &ch->rx[i].sge,
			.num_sge = 1,
		};
	}
	return ch->data ? ch->data->setup(ch) : 0;
}

/**
 * krdma_post_teardown - free what a channel posts
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_post_teardown(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->dev->ib;
	u32 i;

	for (i = 0; ch->tx && i < ch->ntx; i++)
		krdma_buf_unmap(ib, ch->tx[i].buf, ch->tx[i].dma, KRDMA_WIRE_MSG_MAX,
				DMA_TO_DEVICE);
	for (i = 0; ch->rx && i < ch->nrx; i++)
		krdma_buf_unmap(ib, ch->rx[i].buf, ch->rx[i].dma, ch->rx_size, DMA_FROM_DEVICE);
	if (ch->data)
		ch->data->teardown(ch);
	kfree(ch->tx);
	kfree(ch->rx);
	kvfree(ch->posted_at);
}
