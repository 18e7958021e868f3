// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers whose channel is lost, and those whose time is over.
 *
 * A transfer outlives its channel where the session does. When its work requests have ended, it
 * goes on behind the last byte that has completed without a gap. A READ does so at once: its queue
 * pair here is gone, so nothing fills its memory any more. A WRITE waits for the fence: of what
 * it posted, packets may be on their way as long as the peer has its queue pair, and would
 * overwrite what is written after the WRITE has ended. That queue pair is gone when the peer
 * accepts the channel anew, as each channel has one at a time, or says so (session/path.c). The
 * WRITE of another channel than the first waits on the first, and moves to one that is up. An
 * atomic is never repeated.
 *
 * What was posted on the first channel is done again there, behind the same fence: nothing is
 * posted on it before it is up again. What was not posted keeps its place. A message is behind the
 * WRITEs that were posted before it, now as then.
 */
#include "initiator/wr.h"
#include "trace.h"

/* Does its session go on, although a channel is lost? */
static bool krdma_transfer_goes_on(const struct krdma_transfer *x)
{
	const struct krdma_channel *first = x->ch->first ?: x->ch;

	return krdma_post_good(first) || READ_ONCE(first->resumes);
}

/**
 * krdma_transfer_outlives - does a transfer go on when its channel is lost?
 * @x: transfer of that channel
 *
 * Context: channel->lock held.
 * Return: true if it does: krdma_transfer_again(), when its work requests have ended
 */
bool krdma_transfer_outlives(const struct krdma_transfer *x)
{
	return krdma_transfer_goes_on(x) && (!x->posted || !krdma_opcode_atomic(x->opcode));
}

/* Until its fence is over. */
static void krdma_transfer_fence(struct krdma_transfer *x)
{
	x->again = false;
	list_move_tail(&x->node, &x->ch->fenced);
	krdma_transfer_wait(x, KRDMA_WAIT_FENCE, 0);
}

/* To begin on another channel; one with a fence waits on the first. */
static void krdma_transfer_go(struct krdma_transfer *x)
{
	x->again = false;
	x->moved_on = true;
	krdma_transfer_leave(x);
}

/**
 * krdma_transfer_lingers - does a WRITE that ends with an error wait for its fence?
 * @x: transfer with a status and ->flushed or ->fence, without work requests
 *
 * One of a kernel user does, unless it is cancelled or its region or its session ends. One that
 * ends before its fence is over has ->fence, as its bytes may still arrive.
 *
 * Context: channel->lock held.
 * Return: true if it does, and has been moved
 */
bool krdma_transfer_lingers(struct krdma_transfer *x)
{
	struct krdma_channel *ch = x->ch;

	lockdep_assert_held(&ch->lock);
	if (x->opcode != KRDMA_OP_WRITE)
		return false;
	if (!x->fence) {
		x->fence = ch;
		x->fence_connections = ch->connections;
	} else if (krdma_fence_over(x)) {
		return false;
	}
	if (x->pid || !krdma_transfer_goes_on(x) || READ_ONCE(x->region->err) ||
	    atomic_read(&x->submitter->cancels) != x->cancel)
		return false;
	if (ch->first)
		krdma_transfer_go(x);
	else
		krdma_transfer_fence(x);
	return true;
}

/* Back to the last byte that has completed without a gap. Return: false if it has ended */
static bool krdma_transfer_rewind(struct krdma_transfer *x)
{
	/* Perhaps the path does not bear what it does. A kernel user waits for longer. */
	x->repeats = x->moved == x->repeated_at ? min(x->repeats + 1, U8_MAX) : 1;
	x->repeated_at = x->moved;
	if (x->repeats > (x->pid ? KRDMA_REPEATS_MAX : KRDMA_REPEATS_KERNEL_MAX)) {
		krdma_transfer_end(x, -ECONNRESET);
		return false;
	}
	krdma_local_seek(&x->local, x->from, x->moved);
	x->far = (struct krdma_cursor){};
	krdma_split_step(&x->far, x->range, x->nrange, x->moved);
	x->posted = x->moved;
	x->gap = false;
	krdma_stat_inc(KRDMA_STAT_TRANSFERS_REPLAYED);
	return true;
}

/**
 * krdma_transfer_again - continue a transfer, on another channel or on the first when it is up
 * @x: transfer of a channel that is lost, without work requests
 *
 * Context: channel->lock held.
 */
void krdma_transfer_again(struct krdma_transfer *x)
{
	struct krdma_channel *ch = x->ch;

	lockdep_assert_held(&ch->lock);
	if (x->opcode == KRDMA_OP_WRITE && x->posted != x->moved) {
		x->fence = ch;
		x->fence_connections = ch->connections;
	}
	/* It was taken off region->unsent. */
	if (x->message == KRDMA_MESSAGE_STATE_QUEUED)
		x->message = KRDMA_MESSAGE_STATE_WANTED;
	if (!ch->first && x->fence) {
		/* What has arrived, the next connection may tell: krdma_transfers_resume(). */
		krdma_transfer_fence(x);
		return;
	}
	if (x->posted != x->moved && !krdma_transfer_rewind(x))
		return;
	if (ch->first) {
		krdma_transfer_go(x);
		return;
	}
	x->again = false;
	/* All of it may have completed meanwhile. */
	krdma_transfer_advance(x, 0);
}

/* The status of a transfer that ends with its session, or with its channel. */
static int krdma_transfer_lost(const struct krdma_transfer *x)
{
	/* A peer that was restarted has no grant, but may have had the message before. */
	if (READ_ONCE(x->ch->sess->err) == -ESTALE && !x->send)
		return -ESTALE;
	if (x->posted || x->repeats || x->send || x->verify == KRDMA_VERIFY_AGAIN)
		return -ECONNRESET;
	return -ENOTCONN;
}

static void krdma_transfer_fail(struct krdma_transfer *x)
{
	if (x->status) {
		/* Its fence may never be over. */
		if (x->fence)
			krdma_transfer_advance(x, 0);
		return;
	}
	/* Nobody else has to know that a channel is lost. */
	if (krdma_transfer_outlives(x)) {
		/* Its message is with those that the peer may not have. */
		if (!x->ch->first &&
		    (x->fence || x->posted == x->moved || x->opcode == KRDMA_OP_SEND))
			return;
		x->again = true;
		if (!x->nwrs) {
			krdma_transfer_again(x);
			return;
		}
		list_del_init(&x->node);
		krdma_transfer_wait(x, KRDMA_WAIT_WIRE, 0);
		return;
	}
	krdma_transfer_end(x, krdma_transfer_lost(x));
}

/* Of those that are looked at one by one the next; they come and go meanwhile. */
static struct krdma_transfer *krdma_transfers_next(struct krdma_channel *ch)
{
	struct hlist_node *node = ch->scan;

	lockdep_assert_held(&ch->lock);
	if (!node)
		return NULL;
	/* Whose end comes before its turn is taken off here by krdma_transfer_finish(). */
	ch->scan = node->next;
	return hlist_entry(node, struct krdma_transfer, all);
}

/* Let others have the processor and the lock, and complete the transfers that have ended. */
static void krdma_transfers_pause(struct krdma_channel *ch) __must_hold(&ch->lock)
{
	krdma_channel_unlock(ch);
	cond_resched();
	krdma_channel_lock(ch);
}

/* Those that the walk comes to next, without a pause. */
static void krdma_transfers_fail_batch(struct krdma_channel *ch)
{
	struct krdma_transfer *x;
	u32 n;

	for (n = 0; n < KRDMA_TRANSFER_BATCH && (x = krdma_transfers_next(ch)); n++)
		krdma_transfer_fail(x);
	trace_krdma_transfer_batch(ch->serial, n, ch->ntransfers);
}

/**
 * krdma_transfers_fail - end or put aside the transfers of a channel that is down
 * @ch: channel
 *
 * The first ones: mostly it is all of them. krdma_transfers_fail_rest() has those that are left.
 *
 * Context: channel->lock held.
 */
void krdma_transfers_fail(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	ch->scan = ch->transfers.first;
	krdma_transfers_fail_batch(ch);
}

/**
 * krdma_transfers_fail_rest - krdma_transfers_fail() for all that are left
 * @ch: channel that is down; twice does no harm
 *
 * Context: process.
 */
void krdma_transfers_fail_rest(struct krdma_channel *ch)
{
	krdma_channel_lock(ch);
	ch->scan = ch->transfers.first;
	while (ch->scan) {
		krdma_transfers_fail_batch(ch);
		krdma_transfers_pause(ch);
	}
	krdma_channel_unlock(ch);
}

/*
 * Map registered buffers of transfers that have come from a channel on another device: nobody
 * else has mapped them for this one.
 */
static void krdma_transfers_remap(struct krdma_channel *ch) __must_hold(&ch->lock)
{
	struct krdma_device *dev = ch->dev;
	struct krdma_transfer *x, *next;
	struct krdma_mem *mem;
	bool ok = true;

	refcount_inc(&dev->refs);
again:
	list_for_each_entry_safe(x, next, &ch->unmapped, node) {
		if (!ok || !x->local.map)
			continue;
		if (krdma_local_remap(&x->local, &dev->dma)) {
			krdma_transfer_ready(x);
			continue;
		}
		/* ORDER: it does not end meanwhile, so its submitter holds the memory. */
		x->nwrs++;
		mem = x->local.map->mem;
		/* Those that have ended do not wait for that. */
		krdma_channel_unlock(ch);
		ok = !IS_ERR(krdma_mem_map(mem, &dev->dma, NULL));
		krdma_channel_lock(ch);
		krdma_transfer_less(x);
		goto again;
	}
	krdma_device_put(dev);
}

/**
 * krdma_transfers_expire - end transfers whose deadline has passed
 * @ch: channel; may go down meanwhile
 *
 * Those go on that lacked a mapping.
 *
 * Context: process, channel->lock held, which is dropped for a while.
 * Return: the next deadline, KTIME_MAX if there is none
 */
ktime_t krdma_transfers_expire(struct krdma_channel *ch)
{
	ktime_t now = ktime_get(), soonest = KTIME_MAX;
	struct krdma_transfer *x;
	u32 n = 0;

	lockdep_assert_held(&ch->lock);
	ch->scan = ch->transfers.first;
	while ((ch->state <= KRDMA_CHANNEL_UP || ch->resumes) && (x = krdma_transfers_next(ch))) {
		if (!x->status && ktime_compare(x->deadline, now) <= 0)
			krdma_transfer_end(x, krdma_transfer_late(x));
		else if (!x->status && ktime_before(x->deadline, soonest))
			soonest = x->deadline;
		if (++n % KRDMA_TRANSFER_BATCH)
			continue;
		trace_krdma_transfer_batch(ch->serial, KRDMA_TRANSFER_BATCH, ch->ntransfers);
		krdma_transfers_pause(ch);
	}
	ch->scan = NULL;
	if (unlikely(!list_empty(&ch->unmapped)) && ch->state == KRDMA_CHANNEL_UP)
		krdma_transfers_remap(ch);
	krdma_transfers_map_again(ch);
	krdma_transfer_pump(ch);
	return soonest;
}

/**
 * krdma_replay_end - a WRITE is done again, or has ended
 * @x: transfer with ->replay
 *
 * Context: channel->lock held.
 */
void krdma_replay_end(struct krdma_transfer *x)
{
	x->replay = false;
	if (!--x->ch->replays && x->ch->sends_held)
		krdma_channel_later(x->ch);
}

/**
 * krdma_transfers_resume - the first channel is up again: do WRITEs again that may not have arrived
 * @ch: channel
 *
 * If a message has arrived, the WRITEs posted before it have arrived, too: they are not repeated,
 * as the target may have given their memory to others. Messages that have not arrived wait for the
 * WRITEs that are repeated: krdma_sends_again().
 *
 * Context: session->lock and channel->lock held; nothing is posted.
 * Return: false if what the peer says of messages can't be
 */
bool krdma_transfers_resume(struct krdma_channel *ch)
{
	u16 messages = le16_to_cpu(ch->peer.messages);
	struct krdma_transfer *x, *next;
	struct krdma_region *region;
	bool all;

	lockdep_assert_held(&ch->lock);
	list_for_each_entry(region, &ch->sess->regions, node)
		krdma_region_path_changed(region, ch);
	if (!krdma_sends_resume(ch))
		return false;
	list_for_each_entry_safe(x, next, &ch->fenced, node) {
		if (x->fence != ch || !krdma_fence_over(x))
			continue;
		if (x->status) {
			krdma_transfer_advance(x, 0);
			continue;
		}
		if ((s16)(messages - x->behind) > 0) {
			x->moved = x->posted;
			x->gap = false;
			list_del_init(&x->node);
			if (x->posted == x->length)
				krdma_transfer_advance(x, 0);
			else
				krdma_transfer_ready(x);
			continue;
		}
		/* No message promises the bytes of one that was not posted to its end. */
		all = x->posted == x->length;
		if (!krdma_transfer_rewind(x))
			continue;
		if (all && !x->replay) {
			x->replay = true;
			ch->replays++;
		}
		krdma_transfer_ready(x);
		krdma_transfer_wait(x, KRDMA_WAIT_SLOT, 0);
	}
	return true;
}

/**
 * krdma_transfers_kick - post what can be posted, held messages as well
 * @ch: channel
 *
 * Context: channel->lock held.
 */
void krdma_transfers_kick(struct krdma_channel *ch)
{
	if (unlikely(ch->sends_held) && !ch->replays)
		krdma_sends_again(ch);
	krdma_transfer_pump(ch);
}

/* The fence of a channel for data is over: WRITEs that waited for that go on. */
static void krdma_transfers_unfence(struct krdma_channel *ch)
{
	struct krdma_channel *first = ch->first;
	struct krdma_transfer *x, *next;
	u32 n;

	do {
		n = 0;
		krdma_channel_lock(first);
		list_for_each_entry_safe(x, next, &first->fenced, node) {
			if (x->fence != ch || !krdma_fence_over(x))
				continue;
			x->moved_on = true;
			krdma_transfer_leave(x);
			/* ORDER: krdma_transfer_lock() sees what was done above. */
			smp_store_release(&x->ch, ch);
			if (++n == KRDMA_TRANSFER_BATCH)
				break;
		}
		krdma_channel_unlock(first);
	} while (n == KRDMA_TRANSFER_BATCH);
}

/**
 * krdma_transfers_connected - a lost channel is connected again
 * @ch: channel; the peer has no queue pair of the old connection
 *
 * Context: process, no lock of the session or the channel held.
 */
void krdma_transfers_connected(struct krdma_channel *ch)
{
	if (ch->first) {
		krdma_transfers_unfence(ch);
		return;
	}
	krdma_channel_lock(ch);
	krdma_transfers_kick(ch);
	krdma_channel_unlock(ch);
}

/**
 * krdma_transfers_fenced - the peer has no queue pair of a connection that was lost
 * @ch: channel for data
 * @connection: the number of the connection
 *
 * Context: process, no lock of the session or the channel held.
 */
void krdma_transfers_fenced(struct krdma_channel *ch, u32 connection)
{
	krdma_channel_lock(ch);
	WRITE_ONCE(ch->fenced_connection, connection);
	krdma_channel_unlock(ch);
	krdma_transfers_unfence(ch);
}

/**
 * krdma_transfer_reroute - the target has lost the path of a transfer that lacks a key for it
 * @x: transfer
 *
 * Context: channel->lock held.
 */
void krdma_transfer_reroute(struct krdma_transfer *x)
{
	struct krdma_channel *ch = x->ch;

	/* This host will notice the loss, too: until then it asks again now and then. */
	if (!ch->first || x->nwrs || x->posted != x->moved) {
		list_move_tail(&x->node, &ch->unmapped);
		krdma_channel_tick_by(ch, ktime_add_ms(ktime_get(), KRDMA_AWAY_MS));
		return;
	}
	x->moved_on = true;
	krdma_transfer_leave(x);
	/* ORDER: krdma_transfer_lock() sees what was done above. */
	smp_store_release(&x->ch, ch->first);
}

/**
 * krdma_transfer_move - begin with a transfer that has left a channel
 * @x: transfer
 *
 * It begins on the channel that it is to be on, or on the first if that is not up, with the time
 * that is left.
 *
 * Context: as for krdma_transfers_submit().
 */
void krdma_transfer_move(struct krdma_transfer *x)
{
	struct krdma_queue queue = KRDMA_QUEUE_INIT(queue);
	ktime_t now = ktime_get();

	x->timeout = x->deadline == KTIME_MAX ? KTIME_MAX : max_t(ktime_t, x->deadline - now, 0);
	krdma_queue_add(&queue, x);
	krdma_transfers_submit(&queue);
}
