// SPDX-License-Identifier: GPL-2.0
/*
 * Times of a channel: its tick comes when the first deadline of a transfer is over, or when it
 * is time for a sign of life. A channel is alive as long as its oldest work request is not too
 * old; an idle one asks the peer's adapter from time to time.
 *
 * A keepalive of K seconds is divided: after 2K/5 without a completion an idle channel asks, and
 * what is outstanding may last 3K/5 and a second, the adapter's repeats included. So a path that
 * dies when nothing was outstanding is found after K + 1 at the latest.
 */
#include <linux/log2.h>
#include <linux/math64.h>

#include "rdma/rdma.h"

/* How often the adapter sends a packet: KRDMA_RETRIES and once more. */
#define KRDMA_TRIES (KRDMA_RETRIES + 1)

/**
 * krdma_channel_beat_ms - how long a channel may be idle before it asks for a sign of life
 * @ch: channel
 *
 * Context: any.
 * Return: milliseconds
 */
u32 krdma_channel_beat_ms(const struct krdma_channel *ch)
{
	return ch->keepalive_s * MSEC_PER_SEC * 2 / 5;
}

/* How long what is outstanding may last. */
static u32 krdma_dead_ms(u32 keepalive_s, u32 scale)
{
	return (keepalive_s * MSEC_PER_SEC * 3 / 5 + MSEC_PER_SEC) * scale;
}

/**
 * krdma_channel_ack_timeout - how long the adapter waits before it sends again
 * @ch: channel
 *
 * All of its tries end before the channel counts as dead. With a keepalive of 5 s that is 17:
 * 0.54 s, seven times.
 *
 * Context: any.
 * Return: n of 4.096 us << n
 */
u8 krdma_channel_ack_timeout(const struct krdma_channel *ch)
{
	u64 ns = (u64)krdma_dead_ms(ch->keepalive_s, ch->peer_scale) * NSEC_PER_MSEC;

	return ilog2(div_u64(ns, KRDMA_TRIES * 4096));
}

/**
 * krdma_channel_alone_ms - how long to wait until nothing is sent again any more
 * @ch: channel
 *
 * Twice the adapter's time: then it has sent once more what was lost.
 *
 * Context: any.
 * Return: milliseconds
 */
u32 krdma_channel_alone_ms(const struct krdma_channel *ch)
{
	return div_u64(2ULL << (12 + krdma_channel_ack_timeout(ch)), NSEC_PER_MSEC);
}

/**
 * krdma_tick_queue - let a tick come by a certain time
 * @tick: the tick
 * @when: latest time
 *
 * Context: any; the lock under which its time is kept is held.
 */
void krdma_tick_queue(struct delayed_work *tick, ktime_t when)
{
	s64 ns = min_t(s64, ktime_to_ns(ktime_sub(when, ktime_get())), 3600 * NSEC_PER_SEC);

	mod_delayed_work(krdma_tick_wq, tick, ns <= 0 ? 0 : nsecs_to_jiffies(ns) + 1);
}

/**
 * krdma_channel_tick_by - let the channel's tick come by a certain time
 * @ch: channel
 * @when: latest time
 *
 * Context: channel->lock held.
 */
void krdma_channel_tick_by(struct krdma_channel *ch, ktime_t when)
{
	lockdep_assert_held(&ch->lock);
	/* Transfers of one that resumes have deadlines while it is down. */
	if ((ch->state >= KRDMA_CHANNEL_DOWN && !ch->resumes) || !ktime_before(when, ch->tick_at))
		return;
	ch->tick_at = when;
	krdma_tick_queue(&ch->tick, when);
}

static void krdma_heartbeat_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_channel *ch = cq->cq_context;

	krdma_channel_lock(ch);
	ch->heartbeat = false;
	krdma_post_completed_locked(ch, wc);
	krdma_channel_unlock(ch);
}

/*
 * Ask the peer's adapter for a sign of life. A WRITE of no bytes needs no key and no receive, and
 * the peer's software has no part in its acknowledgment. Not a READ: rxe up to 6.1 breaks the
 * queue pair when the response to an empty one is lost (read_reply looks for its key again). Not
 * on iWARP, where it completes without the peer: ->beat asks for a reply.
 */
static void krdma_post_heartbeat(struct krdma_channel *ch)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &ch->heartbeat_cqe,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
	};

	lockdep_assert_held(&ch->lock);
	if (ch->heartbeat)
		return;
	ch->heartbeat_cqe.done = krdma_heartbeat_done;
	krdma_post_count(ch, 1);
	if (krdma_inject_post(ch->qp, &wr.wr, NULL)) {
		ch->outstanding--;
		krdma_channel_fail(ch, -ENOTCONN, "a heartbeat was not accepted", KRDMA_BYE_LOST);
		return;
	}
	ch->heartbeat = true;
	krdma_stat_inc(KRDMA_STAT_HEARTBEATS);
}

/*
 * When does a channel with something outstanding count as dead? When nothing completes; or,
 * however little else does, when the oldest work request is too old. What is received says
 * nothing: a peer may send and take nothing. Return: jiffies
 */
static unsigned long krdma_post_late(const struct krdma_channel *ch)
{
	u32 first = ch->posted_at[ch->completed & ch->posted_mask];
	unsigned long dead = msecs_to_jiffies(krdma_dead_ms(ch->keepalive_s, ch->timeout_scale));
	unsigned long old = jiffies - ((u32)jiffies - first) + KRDMA_OLD_FACTOR * dead;

	dead += ch->progress;
	return time_before(dead, old) ? dead : old;
}

/* Is it time for a heartbeat on iWARP, or over for one that has no reply? */
static bool krdma_channel_asks(struct krdma_channel *ch, unsigned long idle)
{
	unsigned long dead = msecs_to_jiffies(krdma_dead_ms(ch->keepalive_s, ch->timeout_scale));

	if (ch->heartbeat && time_after_eq(jiffies, ch->heartbeat_at + dead))
		krdma_channel_fail(ch, -ENOTCONN, "the peer gives no sign of life",
				   ch->resumes ? KRDMA_BYE_LOST : KRDMA_WIRE_REASON_TIMEOUT);
	/*
	 * Behind what is outstanding as well: siw may not see what came with the end of the
	 * handshake before more comes (siw_accept).
	 */
	return !ch->heartbeat && (time_after_eq(jiffies, idle) || ch->unacked >= KRDMA_ACK_MANY);
}

/* What was posted goes on, or an idle channel shows that it can. Return: the next time to look. */
static unsigned long krdma_channel_beat(struct krdma_channel *ch, bool *ask)
{
	/* RFC 5044: the host that connected sends first. */
	bool shy = ch->iwarp && ch->inbound && !ch->heard;
	u32 idle_ms = shy ? krdma_dead_ms(ch->keepalive_s, ch->timeout_scale) :
			    krdma_channel_beat_ms(ch);
	unsigned long idle = ch->last_wc + msecs_to_jiffies(idle_ms);
	unsigned long beat = ch->outstanding ? krdma_post_late(ch) : idle;

	if (ch->iwarp && !shy)
		*ask = krdma_channel_asks(ch, idle);
	if (time_before(jiffies, beat))
		return beat;
	if (ch->outstanding || shy)
		krdma_channel_fail(ch, -ENOTCONN, "the peer gives no sign of life", KRDMA_BYE_LOST);
	/* One is enough for a session of one path, and for the peer. */
	else if (ch->beats && !ch->iwarp)
		krdma_post_heartbeat(ch);
	return jiffies + msecs_to_jiffies(krdma_channel_beat_ms(ch));
}

/**
 * krdma_channel_tick - deadlines of transfers, and the peer's signs of life
 * @work: of a channel
 *
 * Context: work.
 */
void krdma_channel_tick(struct work_struct *work)
{
	struct krdma_channel *ch = container_of(work, struct krdma_channel, tick.work);
	unsigned long next = jiffies + msecs_to_jiffies(krdma_channel_beat_ms(ch)), beat;
	ktime_t now = ktime_get(), soonest;
	bool ping = false;

	krdma_channel_lock(ch);
	ch->tick_at = KTIME_MAX;
	/* By now all that came before has been seen. */
	if (ch->state == KRDMA_CHANNEL_UP && ch->lost &&
	    time_after_eq(jiffies, ch->lost_at + msecs_to_jiffies(KRDMA_LOST_MS)))
		krdma_channel_lost(ch, ch->lost);
	/* Of a new session this is the session's. */
	if (ch->state == KRDMA_CHANNEL_CONNECTING && ch->inbound &&
	    time_after_eq(jiffies, ch->last_wc + msecs_to_jiffies(KRDMA_ESTABLISH_MS)))
		krdma_channel_lost(ch, "the connection was not completed");
	soonest = ch->data ? ch->data->expire(ch) : KTIME_MAX;
	if (ch->state == KRDMA_CHANNEL_UP) {
		beat = krdma_channel_beat(ch, &ping);
		if (time_before(beat, next))
			next = beat;
	}
	if (ch->lost && ch->state == KRDMA_CHANNEL_UP)
		next = ch->lost_at + msecs_to_jiffies(KRDMA_LOST_MS);
	now = ktime_add_ms(now, jiffies_to_msecs(max_t(long, next - jiffies, 1)));
	krdma_channel_tick_by(ch, ktime_before(soonest, now) ? soonest : now);
	krdma_channel_unlock(ch);
	if (ping)
		ch->ops->beat(ch);
}
