// SPDX-License-Identifier: GPL-2.0
/*
 * Channels: their state, and the work requests of the target's service. Control messages are
 * control.c's, data is initiator/pump.c's and wr.c's, messages are initiator/message.c's.
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
 * A channel that fails is down at once. krdma_channel_unlock() lets the session know, which takes
 * it apart; with the first the session ends, unless the channel resumes: then what it has to send
 * waits, and goes on over its next connection.
 */
#include <linux/slab.h>

#include "rdma/rdma.h"
#include "trace.h"

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
	INIT_LIST_HEAD(&ch->tx_free);
	INIT_LIST_HEAD(&ch->tx_sent);
	INIT_LIST_HEAD(&ch->rx_list);
	INIT_LIST_HEAD(&ch->sends_free);
	INIT_LIST_HEAD(&ch->sends_sent);
	init_waitqueue_head(&ch->tx_wait);
	INIT_DELAYED_WORK(&ch->tick, krdma_channel_tick);
	ch->tick_at = KTIME_MAX;
}

/**
 * krdma_channel_set_state - change the state of a channel
 * @ch: channel
 * @state: Documentation/lifetime.rst, "A further channel"
 *
 * Context: channel->lock held.
 */
void krdma_channel_set_state(struct krdma_channel *ch, enum krdma_channel_state state)
{
	lockdep_assert_held(&ch->lock);
	trace_krdma_channel_state(ch->serial, ch->index, ch->state, state);
	WRITE_ONCE(ch->state, state);
}

/**
 * krdma_channel_begin - begin with a connection of a channel
 * @ch: channel that has none yet, or was taken apart: no work or tasklet of it but ->kick runs
 * @path: over which
 *
 * Context: session->lock held.
 */
void krdma_channel_begin(struct krdma_channel *ch, struct krdma_path *path)
{
	spin_lock(&ch->lock);
	memset_startat(ch, 0, beginning);
	WRITE_ONCE(ch->path, path);
	ch->beginning = true;
	ch->bye = -1;
	ch->last_wc = jiffies;
	ch->progress = jiffies;
	init_completion(&ch->cm_done);
	INIT_WORK(&ch->qp_event_work, krdma_conn_qp_work);
	INIT_LIST_HEAD(&ch->graces);
	INIT_LIST_HEAD(&ch->sinks);
	ch->ops->begin(ch);
	krdma_channel_set_state(ch, KRDMA_CHANNEL_CONNECTING);
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
	krdma_channel_set_state(ch, KRDMA_CHANNEL_DOWN);
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
 * @bye: enum krdma_wire_reason to tell the peer, or KRDMA_BYE_*; with any but KRDMA_BYE_LOST it
 *	does not resume, even if it is down by now
 *
 * Context: channel->lock held.
 */
void krdma_channel_fail(struct krdma_channel *ch, int err, const char *cause, int bye)
{
	bool ends = ch->resumes && (bye != KRDMA_BYE_LOST || ch->bye >= 0);

	lockdep_assert_held(&ch->lock);
	if (ends)
		WRITE_ONCE(ch->resumes, false);
	else if (ch->state >= KRDMA_CHANNEL_DOWN)
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
				   ch->bye ? KRDMA_BYE_ENDED : KRDMA_BYE_QUIET);
	else
		krdma_channel_fail(ch, -ECONNRESET, ch->lost ?: cause, KRDMA_BYE_LOST);
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
	krdma_channel_fail(ch, -ENOTCONN, "work requests are not accepted", KRDMA_BYE_LOST);
	return false;
}

/* ---- the service's registrations ---- */

static bool krdma_post_wrs_try(struct krdma_channel *ch, u32 connection, struct ib_send_wr *first,
			       u32 n, bool waits, int *ret)
{
	const struct ib_send_wr *bad = NULL, *wr;
	u32 posted = 0;
	int rc = 0;

	krdma_channel_lock(ch);
	if (ch->state == KRDMA_CHANNEL_UP && ch->connections == connection) {
		if (waits && ch->outstanding && ch->dev->policy.repeats &&
		    first->opcode == IB_WR_REG_MR) {
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
						   KRDMA_BYE_LOST);
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
 * @connection: of its ->connections the one that the work requests are for
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
int krdma_post_wrs(struct krdma_channel *ch, u32 connection, struct ib_send_wr *first, u32 n)
{
	int posted;

	if (!wait_event_timeout(ch->tx_wait,
				krdma_post_wrs_try(ch, connection, first, n, true, &posted),
				msecs_to_jiffies(krdma_channel_alone_ms(ch))))
		krdma_post_wrs_try(ch, connection, first, n, false, &posted);
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
 * krdma_buf_alloc - a buffer that is sent from or received into
 * @size: bytes
 *
 * Context: process.
 * Return: the buffer, zeroed; NULL on failure
 */
void *krdma_buf_alloc(u32 size)
{
	return krdma_inject(kzalloc(size, GFP_KERNEL), NULL);
}

/**
 * krdma_buf_map - map such a buffer; ib_dma_unmap_single() undoes it
 * @ib: device
 * @buf: the buffer
 * @dma: out: its address for the device
 * @size: bytes
 * @dir: direction
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_buf_map(struct ib_device *ib, void *buf, u64 *dma, u32 size, enum dma_data_direction dir)
{
	*dma = ib_dma_map_single(ib, buf, size, dir);
	return krdma_inject(ib_dma_mapping_error(ib, *dma), -ENOMEM);
}

/**
 * krdma_post_setup - allocate what a channel posts
 * @ch: channel; slots, ntx, nrx and posted_mask are set
 *
 * The messages of one that resumes are there.
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_post_rest and krdma_post_teardown clean up in either case
 */
int krdma_post_setup(struct krdma_channel *ch)
{
	int rc = ch->tx ? 0 : krdma_control_setup(ch);

	/* The next attempt does not find half of it. */
	if (rc) {
		krdma_control_teardown(ch);
		return rc;
	}
	ch->set_up = true;
	rc = krdma_control_map(ch);
	if (rc)
		return rc;
	ch->posted_at = krdma_inject(
		kvcalloc(ch->posted_mask + 1, sizeof(*ch->posted_at), GFP_KERNEL), NULL);
	if (!ch->posted_at)
		return -ENOMEM;
	return ch->data ? ch->data->setup(ch) : 0;
}

/**
 * krdma_post_rest - free what a channel posts, except for messages, and unmap those
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_post_rest(struct krdma_channel *ch)
{
	if (!ch->set_up)
		return;
	ch->set_up = false;
	if (ch->data)
		ch->data->teardown(ch);
	krdma_control_unmap(ch);
	kvfree(ch->posted_at);
}

/**
 * krdma_post_teardown - free the messages of a channel
 * @ch: channel, after krdma_post_rest()
 *
 * Context: process.
 */
void krdma_post_teardown(struct krdma_channel *ch)
{
	if (ch->data)
		ch->data->release(ch);
	krdma_control_teardown(ch);
}
