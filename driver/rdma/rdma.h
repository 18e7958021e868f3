/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rdma/: devices and channels, and nothing of what a channel is for.
 *
 * A channel is an rdma_cm id, a queue pair and a completion queue, with the budget of its send
 * queue, its control messages, its signs of life, and a lock and a state of its own. It knows
 * its session as a pointer alone: what the floors above have to do is in the two tables of
 * callbacks that they hand down, krdma_channel_ops (the session's) and krdma_data_ops (of the
 * initiator, who moves data). channel.c has its state, control.c its messages, cm.c connects,
 * liveness.c watches the time, device.c and quirks.c know the devices. Below are mem/ and wire/;
 * session/, initiator/, target/ and frontend/ call this floor.
 */
#ifndef KRDMA_RDMA_H
#define KRDMA_RDMA_H

#include <linux/completion.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include <uapi/linux/krdma_mover.h>
#include "error.h"
#include "inject.h"
#include "mem/mem.h"
#include "rdma/device.h"
#include "range.h"
#include "stats.h"
#include "wire/wire.h"
#include "work.h"

/* Requests that a peer may have under way here. */
#define KRDMA_CREDITS 32
/* iWARP: a side that has received so many messages and has sent none sends a heartbeat. */
#define KRDMA_ACK_MANY (KRDMA_CREDITS / 2)
/* Bytes of a message that a work request should have room for; siw has 80. */
#define KRDMA_INLINE 64
/* Messages of a session without a reply. */
#define KRDMA_MESSAGE_CREDITS KRDMA_WIRE_MESSAGE_CREDITS_MAX
/* READs under way where the memory that they fill has to be registered. */
#define KRDMA_SINKS 16
/* Registrations or invalidations in one chain. */
#define KRDMA_REG_SLOTS KRDMA_WIRE_SEGS_MAX
/*
 * So many work requests that the device refuses, with no chain between them that it takes as a
 * whole, end the channel: then it is not they that are wrong. A queue pair in error may refuse
 * all; and siw's does once it has refused one, as siw_post_send() leaves that slot of its queue
 * in use.
 */
#define KRDMA_REFUSALS_MAX 8

/*
 * Instead of a reason to tell the peer. LOST: the connection is gone, and nothing more: a session
 * that resumes outlives it. QUIET: the peer ended the session, and nothing is wrong; ENDED: it is.
 */
#define KRDMA_BYE_LOST  (-1)
#define KRDMA_BYE_QUIET (-2)
#define KRDMA_BYE_ENDED (-3)

/*
 * What was posted on connections that were lost is posted again so often without progress.
 * KERNEL: for transfers of kernel users, and for requests and replies; the counter is a u8.
 */
#define KRDMA_REPEATS_MAX        4
#define KRDMA_REPEATS_KERNEL_MAX 254

/* How often an adapter sends a packet again. */
#define KRDMA_RETRIES 6
/* A work request may be outstanding so many times longer, as long as others complete. */
#define KRDMA_OLD_FACTOR 8
/* A channel of a session that is up may be accepted and not established for so long. */
#define KRDMA_ESTABLISH_MS 10000
/* The peer disconnected: so long what came before may take to be handled; milliseconds. */
#define KRDMA_LOST_MS 1000
/* On iWARP all is one stream: a sign of life comes behind all before it, and is sent again. */
#define KRDMA_IWARP_TIMEOUT_SCALE 3

#include "rdma/channel.h"

/* channel.c: its state and its lock */
void krdma_channel_init(struct krdma_channel *ch, struct krdma_session *sess,
			const struct krdma_channel_ops *ops);
void krdma_channel_set_state(struct krdma_channel *ch, enum krdma_channel_state state);
void krdma_channel_begin(struct krdma_channel *ch, struct krdma_path *path);
void krdma_channel_close(struct krdma_channel *ch);
void krdma_channel_fail(struct krdma_channel *ch, int err, const char *cause, int bye);
void krdma_channel_lost(struct krdma_channel *ch, const char *cause);
void krdma_channel_broken_locked(struct krdma_channel *ch, const char *cause);
void krdma_channel_broken(struct krdma_channel *ch, const char *cause);
void krdma_channel_settle(struct krdma_channel *ch) __releases(&ch->lock);

/**
 * krdma_channel_lock - lock a channel
 * @ch: channel
 *
 * Context: any but hard interrupts. Below session->lock, a spin_lock().
 */
static inline void krdma_channel_lock(struct krdma_channel *ch)
{
	spin_lock_bh(&ch->lock);
}

/**
 * krdma_queue_init - empty
 * @queue: of any content
 */
static inline void krdma_queue_init(struct krdma_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

/* What ended under the lock, to be completed without it. */
static inline struct krdma_transfer *krdma_channel_ended(struct krdma_channel *ch)
{
	struct krdma_transfer *x = ch->ended.first;

	if (x)
		krdma_queue_init(&ch->ended);
	return x;
}

/**
 * krdma_channel_unlock - unlock a channel, and complete the transfers that ended under the lock
 * @ch: channel; may be gone on return, unless the caller holds its session
 *
 * What the session has to know comes first, so that submitters find why.
 *
 * Context: any but hard interrupts, with no lock that a submitter's ->done takes, and without
 *	session->lock. With such a lock, krdma_channel_unlock_later().
 */
static inline void krdma_channel_unlock(struct krdma_channel *ch)
{
	struct krdma_transfer *x;

	if (unlikely(ch->events)) {
		krdma_channel_settle(ch);
		return;
	}
	x = krdma_channel_ended(ch);
	spin_unlock_bh(&ch->lock);
	if (x)
		ch->data->complete(x);
}

/**
 * krdma_channel_unlock_softirq - krdma_channel_unlock() behind spin_lock()
 * @ch: channel
 *
 * Context: softirq, or softirqs are off.
 */
static inline void krdma_channel_unlock_softirq(struct krdma_channel *ch)
{
	struct krdma_transfer *x;

	if (unlikely(ch->events)) {
		local_bh_disable();
		krdma_channel_settle(ch);
		return;
	}
	x = krdma_channel_ended(ch);
	spin_unlock(&ch->lock);
	if (x)
		ch->data->complete(x);
}

/**
 * krdma_channel_later - leave posting, and completing, to a tasklet
 * @ch: channel
 *
 * Context: channel->lock held.
 */
static inline void krdma_channel_later(struct krdma_channel *ch)
{
	tasklet_schedule(&ch->kick);
}

/**
 * krdma_channel_unlock_later - unlock a channel; a tasklet does what krdma_channel_unlock() would
 * @ch: channel, locked by spin_lock()
 *
 * Context: softirqs are off.
 */
static inline void krdma_channel_unlock_later(struct krdma_channel *ch)
{
	if (ch->ended.first || ch->events)
		krdma_channel_later(ch);
	spin_unlock(&ch->lock);
}

/* liveness.c: its times */
u32 krdma_channel_beat_ms(const struct krdma_channel *ch);
u8 krdma_channel_ack_timeout(const struct krdma_channel *ch);
u32 krdma_channel_alone_ms(const struct krdma_channel *ch);
void krdma_tick_queue(struct delayed_work *tick, ktime_t when);
void krdma_channel_tick(struct work_struct *work);
void krdma_channel_tick_by(struct krdma_channel *ch, ktime_t when);

/* cm.c: rdma_cm */
int krdma_conn_connect(struct krdma_channel *ch, struct net *net,
		       const struct krdma_wire_hello *hello, u32 limit_ms);
int krdma_conn_accept(struct krdma_channel *ch, struct rdma_cm_id *id,
		      struct krdma_wire_hello *hello, const struct rdma_conn_param *peer);
void krdma_conn_qp_work(struct work_struct *work);
void krdma_conn_stop(struct krdma_channel *ch);
void krdma_conn_drain(struct krdma_channel *ch);
u32 krdma_conn_poll(struct krdma_channel *ch);
void krdma_conn_destroy(struct krdma_channel *ch);
void krdma_conn_rest(struct krdma_channel *ch);
void krdma_conn_release(struct krdma_channel *ch);
void krdma_path_release(struct krdma_path *path);
bool krdma_conn_endless(const struct rdma_conn_param *param);

#include "rdma/post.h"

#endif /* KRDMA_RDMA_H */
