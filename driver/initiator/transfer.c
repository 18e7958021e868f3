// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers: from submission to the one terminal status.
 *
 * A transfer is on one list at a time by .node:
 *
 *	flow->transfers		can be posted as soon as there is room, in its turn: the flow
 *				is on channel->ready; or in a krdma_queue, while they are
 *				submitted
 *	channel->unmapped	its memory could not be mapped for DMA: tried again when a
 *				mapping has gone, and by the tick, until the deadline
 *	region->on[].waiters	lacks the key of its next segment
 *	region->digests		the peer's digest of it is not known, or it is a flush
 *	region->unsent		its message waits for a credit
 *	channel->fenced		the first's: a WRITE of a lost channel, to be done again, or to
 *				end, when nothing of it can arrive any more
 *	(none)			all that will be posted is on the wire, or it is held:
 *				others have to end before it starts
 *	(none)			ended, in channel->ended: krdma_channel_unlock() calls ->done
 *
 * and on channel->transfers by .all until it ends. It ends when it has a status,
 * or all its bytes (verified, if requested), and no work request of it is on the wire any more,
 * nor is its memory being read for a digest, which counts as a work request: a posted work
 * request can't be taken back, so a deadline only keeps the next from being
 * posted.
 * What becomes of it when its channel is lost is loss.c's.
 */
#include "initiator/wr.h"

/**
 * krdma_transfer_wait - note what a transfer waits for
 * @x: transfer
 * @wait: what for
 * @now: the time, or 0 to have it read if it is needed
 *
 * Context: channel->lock held.
 */
void krdma_transfer_wait(struct krdma_transfer *x, enum krdma_wait wait, ktime_t now)
{
	krdma_transfer_note(x, wait, now);
}

/* krdma_transfer_leave(), inline for the end of each. */
static __always_inline void krdma_transfer_off(struct krdma_transfer *x)
{
	struct krdma_flow *flow = krdma_transfer_flow(x);
	struct krdma_channel *ch = x->ch;

	if (unlikely(ch->scan == &x->all))
		ch->scan = x->all.next;
	hlist_del_init(&x->all);
	if (unlikely(x->moved_on))
		atomic_inc(&ch->sess->moves_begun);
	if (!--ch->ntransfers && unlikely(ch->drains) && !x->moved_on)
		ch->events |= KRDMA_CHANNEL_IDLE;
	/* Mostly it is on no list: all of it was on the wire. */
	if (!list_empty(&x->node))
		list_del_init(&x->node);
	/* ORDER: the submitter may go with its last transfer. */
	if (unlikely(!list_empty(&flow->node)) && list_empty(&flow->transfers))
		list_del_init(&flow->node);
	/* The clock is read once for those that end together. */
	if (!ch->ended.first)
		ch->ended_at = ktime_get();
	krdma_queue_add(&ch->ended, x);
}

/**
 * krdma_transfer_leave - take a transfer off its channel
 * @x: transfer, nothing of which is on the wire: krdma_channel_unlock() has what comes next
 *
 * Context: channel->lock held.
 */
void krdma_transfer_leave(struct krdma_transfer *x)
{
	krdma_transfer_off(x);
}

/* One that has succeeded has just ended. */
static void krdma_transfer_took(struct krdma_channel *ch, const struct krdma_transfer *x)
{
	u64 took = max_t(s64, ktime_sub(ch->ended_at, x->submitted), 1);

	ch->took_ns += took;
	/* Of one that is verified the end may come when its connection is lost. */
	if (likely(ch->dev))
		krdma_latency_count(ch->dev, x->opcode, x->length, took);
	if (unlikely(ch->measures) && !krdma_opcode_asks(x->opcode))
		/* Of the last eight or so. */
		WRITE_ONCE(ch->latency,
			   ch->latency - ch->latency / 8 + (u32)min_t(u64, took >> 4, U32_MAX) / 8);
}

/* Has the peer, perhaps, some of it? */
static bool krdma_transfer_sent(const struct krdma_transfer *x)
{
	return x->moved || x->flushed || x->repeats || x->send || x->verify == KRDMA_VERIFY_AGAIN;
}

/* The one place where a transfer becomes finished, unless it has to wait for its fence. */
static void krdma_transfer_finish(struct krdma_transfer *x)
{
	struct krdma_channel *ch = x->ch;
	struct krdma_used *used = &x->region->on[ch->index].used;

	if (unlikely(x->status)) {
		if ((x->flushed || x->fence) && krdma_transfer_lingers(x))
			return;
		/* Whatever else has ended it, bytes may still arrive, or have arrived. */
		if (x->again || x->fence || (x->status == -ENOTCONN && krdma_transfer_sent(x)))
			x->status = -ECONNRESET;
		ch->failures++;
		krdma_stat_inc(KRDMA_STAT_TRANSFERS_FAILED);
		if (x->status == -ETIMEDOUT)
			krdma_stat_inc(KRDMA_STAT_TRANSFERS_TIMED_OUT);
	} else {
		ch->ended_transfers++;
	}
	if (x->opcode == KRDMA_OP_READ) {
		ch->bytes_read += x->moved;
		used->read_bytes += x->moved;
		used->reads++;
		krdma_stat_inc(KRDMA_STAT_READS);
		krdma_stat_add(KRDMA_STAT_READ_BYTES, x->moved);
	} else if (x->opcode == KRDMA_OP_WRITE) {
		ch->bytes_written += x->moved;
		used->written_bytes += x->moved;
		used->writes++;
		krdma_stat_inc(KRDMA_STAT_WRITES);
		krdma_stat_add(KRDMA_STAT_WRITE_BYTES, x->moved);
	} else if (x->opcode == KRDMA_OP_DIGEST) {
		krdma_stat_inc(KRDMA_STAT_DIGESTS);
	} else if (x->opcode == KRDMA_OP_FLUSH) {
		krdma_stat_inc(KRDMA_STAT_FLUSHES);
	} else if (x->opcode == KRDMA_OP_SEND) {
		krdma_stat_inc(KRDMA_STAT_SENDS);
	} else {
		krdma_stat_inc(KRDMA_STAT_ATOMICS);
	}
	trace_krdma_transfer_end(ch->serial, x, x->status);
	x->ended = true;
	/* The reply finds nobody any more. */
	if (unlikely(!list_empty(&x->node)) && !ch->first && x->region->digest_for == x)
		x->region->digest_for = NULL;
	/* Nor the reply to its message. */
	if (unlikely(x->send)) {
		x->send->transfer = NULL;
		x->send = NULL;
	}
	krdma_transfer_off(x);
	if (likely(!x->status))
		krdma_transfer_took(ch, x);
	/* Whose end it was, for the sentence. */
	if (unlikely(x->fence))
		/* ORDER: krdma_transfer_lock() sees what was done above. */
		smp_store_release(&x->ch, x->fence);
}

/**
 * krdma_transfer_advance - let a transfer do what it does next
 * @x: transfer that has done something: it began, all of it is posted, or has completed, its
 *	key, its digest or the reply to its message has come, or it has a status; on a list by
 *	->node, or on none
 * @now: the time, or 0 to have it read if it is needed
 *
 * Context: channel->lock held.
 */
void krdma_transfer_advance(struct krdma_transfer *x, ktime_t now)
{
	lockdep_assert_held(&x->ch->lock);
	if (unlikely(x->replay) && !x->nwrs && (x->status || x->moved == x->length))
		krdma_replay_end(x);
	switch (krdma_transfer_step(x)) {
	case KRDMA_STEP_END:
		/* A status that came too late. */
		if (x->moved == x->length && !(x->verify | x->message))
			x->status = 0;
		krdma_transfer_finish(x);
		break;
	case KRDMA_STEP_DATA:
		krdma_transfer_ready(x);
		krdma_transfer_wait(x, KRDMA_WAIT_SLOT, now);
		break;
	case KRDMA_STEP_WIRE:
		krdma_transfer_wire(x, now);
		break;
	case KRDMA_STEP_DIGEST:
		krdma_digest_queue(x, now);
		break;
	case KRDMA_STEP_MESSAGE:
		krdma_send_enqueue(x, now);
		break;
	case KRDMA_STEP_REPLY:
		/* Done again, and its message is sent, or held. */
		if (x->message == KRDMA_MESSAGE_STATE_SENT && !list_empty(&x->node))
			list_del_init(&x->node);
		break;
	}
}

/**
 * krdma_transfer_end - give an unfinished transfer a status
 * @x: transfer
 * @err: negative errno; an earlier one stays
 *
 * Context: channel->lock held.
 */
void krdma_transfer_end(struct krdma_transfer *x, int err)
{
	if (!x->status)
		x->status = err;
	krdma_transfer_advance(x, 0);
}

/**
 * krdma_transfer_refused - the device has refused a work request of a transfer
 * @x: transfer
 *
 * Context: channel->lock held.
 */
void krdma_transfer_refused(struct krdma_transfer *x)
{
	if (!x->status)
		x->refused = true;
	krdma_transfer_end(x, -EIO);
}

/**
 * krdma_transfer_replied - end a transfer with what was replied
 * @x: transfer
 * @err: of the peer's reply; or why there is none
 *
 * Context: channel->lock held.
 */
void krdma_transfer_replied(struct krdma_transfer *x, int err)
{
	if (!x->status)
		x->replied = err != -ENOTCONN;
	krdma_transfer_end(x, err);
}

static void krdma_transfer_begin(struct krdma_transfer *x, ktime_t now, struct krdma_queue *fresh)
{
	struct krdma_channel *ch = x->ch;
	bool moved_on = x->moved_on;
	int err;

	x->deadline = x->timeout < KTIME_MAX - now ? now + x->timeout : KTIME_MAX;
	x->since = now;
	x->wait = KRDMA_WAIT_SLOT;
	if (likely(!moved_on)) {
		x->submitted = now;
		x->from = x->local.at;
		trace_krdma_transfer_submit(ch->serial, x);
	}
	hlist_add_head(&x->all, &ch->transfers);
	ch->ntransfers++;
	/* krdma_region_fail() sets ->err first, and then ends what is on ->transfers. */
	err = x->status ?: READ_ONCE(x->region->err);
	/* It was on no channel for a moment, where a submitter that cancels all did not see it. */
	if (unlikely(moved_on)) {
		x->moved_on = false;
		atomic_inc(&ch->sess->moves_ended);
		if (!err && atomic_read(&x->submitter->cancels) != x->cancel)
			err = -ECANCELED;
	} else if (!err && unlikely(ch->drains)) {
		err = -ENOTCONN;
	}
	if (!err && unlikely(ch->state != KRDMA_CHANNEL_UP && !ch->resumes))
		err = -ENOTCONN;
	if (unlikely(err)) {
		/* Parts of it were sent on a channel that was lost before. */
		if (err == -ENOTCONN && (x->posted || x->repeats))
			err = -ECONNRESET;
		krdma_transfer_end(x, err);
		return;
	}
	if (ktime_before(x->deadline, ch->tick_at))
		krdma_channel_tick_by(ch, x->deadline);
	if (unlikely(x->held)) {
		x->wait = KRDMA_WAIT_TURN;
		return;
	}
	if (unlikely(x->fence) && !krdma_fence_over(x)) {
		krdma_transfer_wait(x, KRDMA_WAIT_FENCE, now);
		list_add_tail(&x->node, &ch->fenced);
		return;
	}
	/* In their turn, whatever they do first: a message does not pass a WRITE here. */
	if (likely(list_empty(&ch->ready)))
		krdma_queue_add(fresh, x);
	else
		krdma_transfer_ready(x);
}

/**
 * krdma_region_poll_channels - handle completions that have come of a region's transfers
 * @region: region
 *
 * Of the channels that krdma_transfer_route() has for this processor, whose completions may be
 * of other regions.
 *
 * Context: as for krdma_conn_poll().
 * Return: the completions
 */
u32 krdma_region_poll_channels(const struct krdma_region *region)
{
	const struct krdma_session *sess = region->sess;
	u32 found = krdma_paths_poll(sess);

	if (region->rights & (KRDMA_RIGHT_MESSAGE | KRDMA_RIGHT_DURABLE))
		found += krdma_conn_poll(sess->ch);
	return found;
}

/* The channel of a transfer, locked: another takes the place of one that is not up. */
static struct krdma_channel *krdma_transfer_lock(struct krdma_transfer *x) __acquires(&x->ch->lock)
{
	struct krdma_channel *ch;

	for (;;) {
		ch = READ_ONCE(x->ch);
		krdma_channel_lock(ch);
		if (likely(ch == x->ch))
			return ch;
		spin_unlock_bh(&ch->lock);
	}
}

/* Begin those of a channel that follow each other. Return: the rest */
static struct krdma_transfer *krdma_transfers_begin(struct krdma_channel *ch,
						    struct krdma_transfer *x, ktime_t now)
{
	struct krdma_queue fresh = KRDMA_QUEUE_INIT(fresh);
	struct krdma_transfer *next;

	for (; x && x->ch == ch; x = next) {
		/* One that ends at once is in another queue. */
		next = x->next;
		krdma_transfer_begin(x, now, &fresh);
	}
	if (fresh.first)
		krdma_transfer_pump_ready(ch, fresh.first);
	else
		krdma_transfer_pump(ch);
	return x;
}

/**
 * krdma_transfers_submit - start transfers
 * @batch: transfers, filled in by the submitter, who holds references on what
 *	they use; empty on return
 *
 * Those of a channel that follow each other have one doorbell. ->done is called
 * once for each, perhaps before this returns.
 *
 * Context: any; no lock of a session or channel held.
 */
void krdma_transfers_submit(struct krdma_queue *batch)
{
	struct krdma_transfer *x = batch->first;
	u32 cpu = raw_smp_processor_id();
	ktime_t now = ktime_get();

	krdma_queue_init(batch);
	while (x) {
		struct krdma_channel *ch = x->ch;

		krdma_channel_lock(ch);
		if (unlikely(ch->first && ch->state != KRDMA_CHANNEL_UP))
			/* krdma_transfer_lock() may have seen the other. */
			WRITE_ONCE(x->ch,
				   x->fence ? ch->first : krdma_session_channel(ch->sess, cpu));
		else
			x = krdma_transfers_begin(ch, x, now);
		/* ORDER: a channel is there as long as something of it is under way. */
		krdma_channel_unlock(ch);
	}
}

/**
 * krdma_transfer_release - it is the turn of a transfer that was held
 * @x: transfer; it may have ended, or not be submitted yet
 *
 * The channel's tasklet posts it, so that ->done may call this.
 *
 * Context: any; no lock of a session or channel held.
 */
void krdma_transfer_release(struct krdma_transfer *x)
{
	struct krdma_channel *ch = krdma_transfer_lock(x);

	if (x->held) {
		x->held = false;
		if (!hlist_unhashed(&x->all) && !x->status) {
			krdma_transfer_ready(x);
			krdma_transfer_wait(x, KRDMA_WAIT_SLOT, 0);
			krdma_channel_later(ch);
		}
	}
	spin_unlock_bh(&ch->lock);
}

/**
 * krdma_transfer_cancel - post nothing more of a transfer
 * @x: transfer; it may have ended, or not be submitted yet
 * @err: its status, if it has not
 *
 * ->done is called by the channel's tasklet, not from here.
 *
 * Context: any; no lock of a session or channel held.
 */
void krdma_transfer_cancel(struct krdma_transfer *x, int err)
{
	struct krdma_channel *ch = krdma_transfer_lock(x);

	/* Nobody waits for what may still arrive: krdma_transfer_lingers(). */
	if (!x->ended)
		x->cancel = atomic_read(&x->submitter->cancels) - 1;
	if (!hlist_unhashed(&x->all))
		krdma_transfer_end(x, err);
	else if (!x->ended && !x->status)
		x->status = err;
	if (ch->ended.first)
		krdma_channel_later(ch);
	spin_unlock_bh(&ch->lock);
}

/**
 * krdma_transfers_complete - call ->done of transfers
 * @x: the first, or NULL; the others by ->next
 *
 * Context: any but hard interrupts, with no lock that a submitter's ->done takes.
 */
void krdma_transfers_complete(struct krdma_transfer *x)
{
	struct krdma_transfer *next;

	for (; x; x = next) {
		if (likely(!x->moved_on)) {
			next = x->done(x);
			continue;
		}
		/* ORDER: it is in another queue then. */
		next = x->next;
		krdma_transfer_move(x);
	}
}

static int krdma_transfers_setup(struct krdma_channel *ch)
{
	int rc = krdma_wrs_setup(ch);

	/* Not when it is connected again: memory may be short until then. */
	if (!ch->connections)
		krdma_device_measure(ch->dev);
	if (!rc && ch->messages && !ch->sends) {
		rc = krdma_sends_setup(ch);
		/* The next attempt does not find half of them; those that are in use stay. */
		if (rc)
			krdma_sends_free(ch);
	}
	if (!rc && ch->sends)
		rc = krdma_sends_map(ch);
	if (!rc)
		rc = krdma_void_setup(ch);
	return !rc && ch->iwarp ? krdma_sinks_setup(ch) : rc;
}

static void krdma_transfers_teardown(struct krdma_channel *ch)
{
	krdma_sinks_free(ch);
	krdma_void_free(ch);
	krdma_sends_unmap(ch);
	krdma_wrs_free(ch);
}

const struct krdma_data_ops krdma_transfer_ops = {
	.setup = krdma_transfers_setup,
	.teardown = krdma_transfers_teardown,
	.release = krdma_sends_free,
	.reap = krdma_wrs_reap,
	.fail = krdma_transfers_fail,
	.fail_rest = krdma_transfers_fail_rest,
	.pump = krdma_transfers_kick,
	.resume = krdma_transfers_resume,
	.expire = krdma_transfers_expire,
	.complete = krdma_transfers_complete,
	.connected = krdma_transfers_connected,
	.fenced = krdma_transfers_fenced,
};

/* What was to come when all its bytes were moved; NULL if they were not. */
static const char *krdma_transfer_rest(const struct krdma_transfer *x)
{
	if (x->opcode == KRDMA_OP_SEND)
		return "its message was not taken";
	if (x->moved != x->length)
		return NULL;
	return x->verify ? "all bytes were moved, but not verified" :
			   "all bytes were moved, but its message was not taken";
}

/**
 * krdma_transfer_explain - the sentence for a transfer that failed
 * @x: transfer, ended
 * @error: explanation
 *
 * Context: process.
 * Return: its status
 */
int krdma_transfer_explain(struct krdma_transfer *x, struct krdma_error *error)
{
	const char *rest = krdma_transfer_rest(x), *end = NULL, *why = NULL;
	struct krdma_region *region = x->region;
	struct krdma_session *sess = region->sess;

	switch (x->status) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		end = "the deadline passed";
		break;
	case -ESTALE:
		if (READ_ONCE(sess->err) == -ESTALE)
			return krdma_session_explain(sess, x->ch, x->status, error);
		return krdma_explain(error, x->status, "'%s' was revoked by %pISpc", region->name,
				     &sess->dst);
	case -ECANCELED:
		end = READ_ONCE(region->err) == -ECANCELED ? "the region was closed" :
							     "it was cancelled";
		break;
	case -ENOMEM:
		why = x->replied ? "the target lacks memory, its log names the limit" :
				   "not enough memory on this host";
		break;
	case -EILSEQ:
		return krdma_explain(error, x->status,
				     "'%s' of %pISpc: the moved bytes differ at both ends, twice",
				     region->name, &sess->dst);
	case -EIO:
		if (x->unmapped)
			return krdma_explain(
				error, x->status,
				"'%s' of %pISpc at %llu: the deadline passed, and the memory here could not be mapped for the device",
				region->name, &sess->dst, krdma_transfer_at(x));
		if (x->refused) {
			end = "the RDMA device refused a work request";
			rest = NULL;
		} else {
			why = x->replied ? "the target can't reach its memory" :
					   "out of a device's reach, there or here";
		}
		break;
	case -EOPNOTSUPP:
		why = "the device there can't share memory (its DMA is bounced, or not coherent)";
		break;
	case -EDQUOT:
		return krdma_explain(error, x->status, "%pISpc gives no access to '%s' at %llu: %s",
				     &sess->dst, region->name, krdma_transfer_at(x),
				     krdma_wire_status_text(krdma_wire_status(x->status)));
	case -ECONNRESET:
	case -ENOTCONN:
		return krdma_session_explain(sess, x->ch, x->status, error);
	default:
		return krdma_explain(error, x->status, "'%s' of %pISpc: transfer failed (%pe)",
				     region->name, &sess->dst, ERR_PTR(x->status));
	}
	if (why)
		return krdma_explain(error, x->status, "'%s' of %pISpc at %llu: %s", region->name,
				     &sess->dst, krdma_transfer_at(x), why);
	if (rest)
		return krdma_explain(error, x->status, "'%s' of %pISpc: %s: %s", region->name,
				     &sess->dst, end, rest);
	return krdma_explain(error, x->status, "'%s' of %pISpc: %s after %llu of %llu bytes",
			     region->name, &sess->dst, end, x->moved, x->length);
}
