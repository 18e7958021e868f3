/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rdma/: devices and channels, and nothing of what a channel is for.
 *
 * A channel is an rdma_cm id, a queue pair and a completion queue, with the budget of its send
 * queue, its control messages, its signs of life, and a lock and a state of its own. It knows
 * its session as a pointer alone: what the floors above have to do is in the two tables of
 * callbacks that they hand down, krdma_channel_ops (the session's) and krdma_data_ops (of the
 * initiator, who moves data). channel.c posts, cm.c connects, liveness.c watches the time,
 * device.c and quirks.c know the devices. Below are mem/ and wire/; session/, initiator/,
 * target/ and frontend/ call this floor.
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

/* As a reason to tell the peer: it ended the session itself, and nothing is wrong. */
#define KRDMA_BYE_QUIET (-2)

/* Times, milliseconds. DEAD and ALONE are longer by the channel's timeout_scale. */
#define KRDMA_HEARTBEAT_MS 2000
#define KRDMA_DEAD_MS      8000
/* A work request may be outstanding so many times longer, as long as others complete. */
#define KRDMA_OLD_FACTOR 4
/* The peer disconnected: so long what came before may take to be handled. */
#define KRDMA_LOST_MS 1000
/* More than the adapter's time, after which it sends again. */
#define KRDMA_ALONE_MS 1000
/* On iWARP all is one stream: a sign of life comes behind all before it, and is sent again. */
#define KRDMA_IWARP_TIMEOUT_SCALE 3

struct krdma_channel;

struct krdma_rx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->rx_list, krdma_sender.held */
	void *buf;
	u64 dma;
	u32 len;
	__le32 tag; /* of a message with a credit */
	struct ib_sge sge;
	struct ib_recv_wr wr;
};

struct krdma_tx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->tx_free */
	void *buf;
	u64 dma;
	bool posted; /* its completion is to come */
};

/*
 * Transfers in order, by ->next: not begun yet; begun, until the lock is dropped that they began
 * under; or ended, before they are completed.
 */
struct krdma_queue {
	struct krdma_transfer *first;
	struct krdma_transfer **last;
};

/* What a channel needs of its session. */
struct krdma_channel_ops {
	/* channel->lock held */
	void (*begin)(struct krdma_channel *ch);
	void (*hold)(struct krdma_channel *ch); /* until ->settle */
	void (*tx_free)(struct krdma_channel *ch);
	void (*received)(struct krdma_channel *ch, struct krdma_rx *rx); /* softirq */
	/* no lock of the session or the channel held */
	void (*settle)(struct krdma_channel *ch, u32 events);
	void (*established)(struct krdma_channel *ch); /* inbound; rdma_cm's handler */
	void (*beat)(struct krdma_channel *ch);        /* iWARP: ask for a sign of life */
};

/* What a channel needs of the initiator, whose data it moves. */
struct krdma_data_ops {
	/* process context; ->teardown undoes ->setup, whatever that returned */
	void (*fail_rest)(struct krdma_channel *ch); /* what ->fail has left */
	int (*setup)(struct krdma_channel *ch);
	void (*teardown)(struct krdma_channel *ch);
	void (*reap)(struct krdma_channel *ch); /* queue pair and completion queue are gone */
	/* channel->lock held */
	void (*fail)(struct krdma_channel *ch); /* it is down now */
	void (*pump)(struct krdma_channel *ch);
	/* deadlines, in process context; drops the lock for a while. Return: the next one */
	ktime_t (*expire)(struct krdma_channel *ch);
	/* any context but hard interrupts, no lock that a submitter's ->done takes */
	void (*complete)(struct krdma_transfer *first);
	void (*connected)(struct krdma_channel *ch); /* it is, and not the first */
};

enum krdma_channel_state {
	KRDMA_CHANNEL_CONNECTING = KRDMA_SESSION_CONNECTING,
	KRDMA_CHANNEL_UP = KRDMA_SESSION_UP,
	KRDMA_CHANNEL_DOWN = KRDMA_SESSION_CLOSING, /* nothing is posted any more */
	KRDMA_CHANNEL_DEAD = KRDMA_SESSION_DEAD,    /* taken apart: it may begin anew */
};

/* What is left to krdma_channel_unlock(), as it takes other locks. */
enum krdma_channel_event {
	KRDMA_CHANNEL_LOST = 1, /* it has failed; with the first the session has to end */
	KRDMA_CHANNEL_TX = 2,   /* ->tx_wanted, and a buffer came back */
};

/* One queue pair of a session. */
struct krdma_channel {
	const struct krdma_channel_ops *ops;
	const struct krdma_data_ops *data; /* NULL: it moves none */
	struct krdma_session *sess;        /* whose reference it is part of */
	u64 serial;                        /* of the session */
	u32 index;                         /* in the session */
	struct krdma_channel *first; /* whose device and PD it shares; NULL: it is the first */
	bool inbound;

	spinlock_t lock; /* all below that moves */
	enum krdma_channel_state state;
	u32 events;                 /* enum krdma_channel_event */
	struct krdma_queue ended;   /* transfers; krdma_channel_unlock() completes them */
	struct tasklet_struct kick; /* posts, and completes, what others have left to it */
	const char *lost_cause;     /* what ended it, or its connection before this one */
	u32 connections;            /* that were up so far, this one included */

	/* transfers */
	struct hlist_head transfers; /* all under way, the last first */
	struct list_head ready;      /* whose transfers can be posted, in turn */
	struct list_head unmapped;   /* could not be mapped for DMA; to be tried again */
	struct list_head sending;    /* regions with messages to send */
	struct list_head fenced;     /* the first: WRITEs that wait for another to be made anew */
	struct hlist_node *scan;     /* where the walk of ->transfers goes on */
	u32 ntransfers;
	u64 bytes_read;
	u64 bytes_written;
	u64 ended_transfers;
	u64 failures;

	/* From here a connection's: krdma_channel_begin() makes it new. */
	bool beginning;           /* it is being connected or accepted; session->lock */
	int err;                  /* what ended it */
	int lost_bye;             /* the same as a reason for the peer */
	struct krdma_device *dev; /* holds a reference */
	struct ib_pd *pd;         /* the first channel's */
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	struct ib_cq *cq;
	u32 qp_num;
	u32 port;

	/* connection set-up, rdma/cm.c */
	struct completion cm_done;
	const char *broken;    /* lost while connecting */
	const char *lost;      /* the peer disconnected: what it sent before may still come */
	unsigned long lost_at; /* jiffies */
	int bye;               /* reason of the peer's BYE, which may not be handled yet; or -1 */
	const char *cause;     /* the step that failed; the connect work's */
	char text[80];         /* a phrase that is not static */
	int cm_err;
	enum rdma_cm_event_type cm_event;
	const char *cm_why; /* what is wrong with the first event that says so, or NULL */
	struct krdma_wire_hello peer;

	/* data */
	struct krdma_wr *wrs;
	struct krdma_wr *free;
	struct krdma_wr **ring;  /* in the order of their posting; NULL: has ended */
	u32 head;                /* first that may not have ended; head and tail go on and on */
	u32 tail;                /* behind the last */
	struct list_head graces; /* krdma_mark.node, in order */
	u32 slots;               /* a power of two; 0 at a target */
	u32 slots_used;
	u32 posted_max; /* bytes */
	u64 posted_bytes;
	u32 max_sge;
	u32 max_sge_rd;
	u32 max_inline; /* of a message; 0: none */

	/* data on iWARP */
	bool iwarp;
	u32 peer_scale;              /* the session's timeout_scale */
	u32 timeout_scale;           /* the same, not less than iWARP's */
	struct krdma_sink *sink;     /* all, KRDMA_SINKS */
	struct list_head sinks;      /* free */
	struct scatterlist *sink_sg; /* for each of them, or scratch */
	u32 sink_pages;
	struct krdma_sink *void_sink; /* of READs behind WRITEs, registered by the first */
	bool void_ready;

	/* what READs behind WRITEs fill */
	void *void_buf;
	u64 void_dma;

	/* control */
	struct krdma_tx *tx;
	u32 ntx;
	struct list_head tx_free;
	u32 tx_busy;               /* not in tx_free */
	u32 tx_taken;              /* of those, not posted yet */
	bool tx_wanted;            /* somebody found none */
	wait_queue_head_t tx_wait; /* a buffer came back */
	struct krdma_rx *rx;
	u32 nrx;
	u32 rx_size;
	struct list_head rx_list;            /* received, not handled yet */
	bool rx_busy;                        /* one handles what was received */
	struct ib_recv_wr *rx_again;         /* handled: krdma_post_rx_again() */
	struct tasklet_struct reply_tasklet; /* replies to messages */
	bool rx_reply;                       /* they wait for a buffer */
	bool heard;                          /* something was received */

	/* messages */
	bool messages;            /* the initiator may send them */
	struct krdma_send *sends; /* KRDMA_MESSAGE_CREDITS of them */
	u32 message_credits;
	u32 message_credits_used;
	struct list_head sends_free;

	/* liveness */
	u32 outstanding;        /* send-queue work requests without a completion */
	u32 refusals;           /* work requests, since a whole chain was taken */
	u32 completed;          /* those that have one; goes on and on */
	unsigned long last_wc;  /* jiffies: something completed, a receive as well */
	unsigned long progress; /* jiffies: a send did; or of the post that ended idleness */
	u32 *posted_at;         /* jiffies of each outstanding one's post */
	u32 posted_mask;        /* of its indices */
	struct ib_cqe heartbeat_cqe;
	bool heartbeat; /* one is under way */
	struct delayed_work tick;
	ktime_t tick_at;

	enum ib_event_type qp_event;
	struct work_struct qp_event_work;
};

/* channel.c: its state and its lock */
void krdma_channel_init(struct krdma_channel *ch, struct krdma_session *sess,
			const struct krdma_channel_ops *ops);
void krdma_channel_begin(struct krdma_channel *ch);
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
void krdma_tick_queue(struct delayed_work *tick, ktime_t when);
void krdma_channel_tick(struct work_struct *work);
void krdma_channel_tick_by(struct krdma_channel *ch, ktime_t when);

/* cm.c: rdma_cm */
int krdma_conn_connect(struct krdma_channel *ch, struct net *net,
		       const struct sockaddr_storage *src, const struct sockaddr_storage *dst,
		       const struct krdma_wire_hello *hello, u32 limit_ms);
int krdma_conn_accept(struct krdma_channel *ch, struct rdma_cm_id *id,
		      const struct krdma_wire_hello *hello, const struct rdma_conn_param *peer);
void krdma_conn_qp_work(struct work_struct *work);
void krdma_conn_stop(struct krdma_channel *ch);
void krdma_conn_drain(struct krdma_channel *ch);
void krdma_conn_destroy(struct krdma_channel *ch);
void krdma_conn_release(struct krdma_channel *ch);
bool krdma_conn_endless(const struct rdma_conn_param *param);

#include "rdma/post.h"

#endif /* KRDMA_RDMA_H */
