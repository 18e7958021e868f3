/* SPDX-License-Identifier: GPL-2.0 */
/*
 * initiator/: whoever moves bytes to and from the memory of a peer.
 *
 * A region is an export of the peer, opened here. A transfer is one operation on a region, until
 * its one terminal status: READ, WRITE, an atomic, a digest, a flush or a message. Nothing here
 * knows whether it comes from an ioctl, from io_uring or from another module. region.c has regions
 * and their keys, transfer.c decides what a transfer does next, pump.c, wr.c and sink.c make work
 * requests of it, message.c and digest.c do what is not READ or WRITE. Below are session/, rdma/,
 * mem/ and wire/; it does not see target/. frontend/ calls this floor.
 */
#ifndef KRDMA_INITIATOR_H
#define KRDMA_INITIATOR_H

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "initiator/opcode.h"
#include "session/session.h"

/* Where more than a round trip is needed, the default time is so many times as long. */
#define KRDMA_OPEN_LONG 4
/* One work request never carries more. */
#define KRDMA_WR_MAX SZ_1M

/* Is what was moved to be compared with the peer's digest? */
enum krdma_verify {
	KRDMA_VERIFY_NONE, /* no, or they are equal */
	KRDMA_VERIFY_ONCE, /* if it differs it is moved again */
	KRDMA_VERIFY_AGAIN,
};

/* Does it end with a message to the target? */
enum krdma_message_state {
	KRDMA_MESSAGE_STATE_NONE,   /* no, or the target has it */
	KRDMA_MESSAGE_STATE_WANTED, /* when its bytes are posted, or verified */
	KRDMA_MESSAGE_STATE_QUEUED, /* on region->unsent */
	KRDMA_MESSAGE_STATE_SENT,   /* no reply yet */
};

#define KRDMA_QUEUE_INIT(name)        \
	{                             \
		.last = &(name).first \
	}

/* What a submitter has to post on a channel; that channel's lock. */
struct krdma_flow {
	struct list_head node;      /* channel->ready */
	struct list_head transfers; /* krdma_transfer.node */
};

/*
 * Who submits: an open region, of a file or of a client in the kernel. Submitters take turns on a
 * channel, so that one with very many transfers does not hold up one that has few.
 */
struct krdma_submitter {
	atomic_t cancels; /* how often it has cancelled all that it has */
	struct krdma_flow flows[KRDMA_CHANNELS_MAX]; /* by the index of the channel */
};

/*
 * One operation under way. Owned by whoever submitted it until
 * krdma_transfers_submit, by the channel until ->done is called, exactly once, and
 * by the submitter again from there.
 */
struct krdma_transfer {
	struct list_head node;       /* krdma_flow.transfers, a region's waiters or digests */
	struct hlist_node all;       /* channel->transfers */
	struct krdma_transfer *next; /* in a krdma_queue */
	struct krdma_region *region; /* the submitter holds a reference */
	struct krdma_submitter *submitter;
	struct krdma_channel *ch;      /* krdma_transfer_route() */
	const struct krdma_vec *range; /* of the region */
	u32 nrange;
	kuid_t uid;
	struct krdma_vec one[2]; /* room for a single entry of ->local.vec and ->range */
	u64 length;
	ktime_t timeout; /* from the submission */
	ktime_t deadline;
	ktime_t submitted;
	ktime_t since; /* began to wait for .wait */
	u64 operand;   /* of an atomic operation, or the value of a message */
	u64 compare;
	struct krdma_cursor from; /* where ->local.at was when it began */
	u64 digested;             /* bytes that the peer's digest is known of */
	u32 value;                /* the peer's, so far */
	u32 local_value;          /* what it has to be */
	bool counted;             /* that is known */
	u8 verify;                /* enum krdma_verify; set by the submitter */
	u8 message;               /* enum krdma_message_state; the same */
	bool unplaced;            /* a WRITE need not be in the peer's memory; the same */
	bool placed;              /* a READ has to be behind a WRITE; the same */
	u8 opcode;
	/*
	 * It has ended, and perhaps others, by ->next: of those it may take more, as long as
	 * krdma_transfer_alike() is true. Any context but hard interrupts; no lock of a session or
	 * channel held. Return: the first that it has not taken
	 */
	struct krdma_transfer *(*done)(struct krdma_transfer *first);

	/* From here all zero at first; ->local is set before it begins. */
	struct krdma_local local; /* ->local.at: next byte to post */
	u64 turn;                 /* of its message among those of the region; 0: none so far */
	struct krdma_send *send;  /* with the message, KRDMA_MESSAGE_STATE_SENT */
	struct krdma_cursor far;  /* the same, of the region */
	u64 posted;
	u64 moved;       /* completed from the start, without a gap */
	u64 repeated_at; /* ->moved, when it was done again */
	u64 user_data;
	/* A WRITE: a lost channel; of what was posted there some may still arrive. Or NULL. */
	struct krdma_channel *fence;
	u32 fence_connections; /* that channel's, when it was lost */
	u32 nwrs; /* on the wire; and one while its memory is read for a digest, or mapped */
	int status;
	enum krdma_wait wait;
	pid_t pid;     /* 0: the kernel */
	u16 behind;    /* the channel's ->messages_posted, when it was posted */
	u8 repeats;    /* how often it was done again, at ->repeated_at */
	bool replay;   /* it is done again; messages of its channel wait for that */
	bool replied;  /* ->status is what the peer has replied */
	bool held;     /* waits for its turn */
	bool unmapped; /* its next bytes could not be mapped so far */
	bool ended;    /* ->done is called, or will be */
	bool again;    /* its channel is lost: what has not completed is done again */
	bool moved_on; /* it leaves a channel, to begin on another */
	bool lost;     /* a key to its memory may be alive: it must not be given back */
	bool flushed;  /* work requests were lost with a channel: until its fence they may arrive */
	bool gap;      /* a work request failed: no more counting in .moved */
	bool refused;  /* the device did not take a work request of it: the reason of its -EIO */
	int cancel;    /* ->submitter->cancels when it was submitted; another: it is cancelled */
};

/**
 * krdma_submitter_init - begin with a submitter
 * @submitter: submitter; has to be there until all of its transfers have ended
 */
static inline void krdma_submitter_init(struct krdma_submitter *submitter)
{
	u32 i;

	atomic_set(&submitter->cancels, 0);
	for (i = 0; i < KRDMA_CHANNELS_MAX; i++) {
		INIT_LIST_HEAD(&submitter->flows[i].node);
		INIT_LIST_HEAD(&submitter->flows[i].transfers);
	}
}

/**
 * krdma_transfer_init - begin with a transfer
 * @x: transfer, of any content; to be filled in by the submitter
 */
static inline void krdma_transfer_init(struct krdma_transfer *x)
{
	memset_startat(x, 0, local);
	INIT_HLIST_NODE(&x->all);
	INIT_LIST_HEAD(&x->node);
}

/**
 * krdma_queue_add - one more, behind the others
 * @queue: transfers
 * @x: transfer, in no queue
 */
static inline void krdma_queue_add(struct krdma_queue *queue, struct krdma_transfer *x)
{
	x->next = NULL;
	*queue->last = x;
	queue->last = &x->next;
}

/**
 * krdma_transfer_alike - is a transfer one for the same ->done?
 * @first: transfer that ->done was called with
 * @x: one behind it, or NULL behind the last
 *
 * Return: true if ->done may take it.
 */
static inline bool krdma_transfer_alike(const struct krdma_transfer *first,
					const struct krdma_transfer *x)
{
	return x && x->done == first->done && !x->moved_on;
}

/**
 * krdma_transfer_at - where in the region the next byte to post goes
 * @x: transfer
 *
 * Return: its offset, behind the last byte when all are posted.
 */
static inline u64 krdma_transfer_at(const struct krdma_transfer *x)
{
	return x->range[x->far.i].addr + x->far.in;
}

/**
 * krdma_transfer_flags - how a transfer is done
 * @x: transfer with ->opcode
 * @flags: KRDMA_OPF_*, checked; those of local memory and of order are not looked at
 */
static inline void krdma_transfer_flags(struct krdma_transfer *x, u32 flags)
{
	x->verify = flags & KRDMA_OPF_VERIFY ? KRDMA_VERIFY_ONCE : KRDMA_VERIFY_NONE;
	x->unplaced = flags & KRDMA_OPF_UNPLACED;
	x->placed = flags & KRDMA_OPF_PLACED;
	x->message = x->opcode == KRDMA_OP_SEND || (flags & KRDMA_OPF_MESSAGE) ?
			     KRDMA_MESSAGE_STATE_WANTED :
			     KRDMA_MESSAGE_STATE_NONE;
}

/* ---- regions ---- */

/* Somebody to be notified when the session of a region resumes, and when the region has ended. */
struct krdma_watch {
	struct list_head node; /* region->watches, session->lock */
	/* Any context, session->lock held. @err: of the region, once; 0: see session->resuming. */
	void (*changed)(struct krdma_watch *watch, int err);
};

/* How far a channel had posted when a grace period began. */
struct krdma_mark {
	struct list_head node; /* channel->graces */
	struct krdma_grace *grace;
	u32 tail; /* of the channel */
};

/*
 * A grace period of a session: when it is over, all that was posted before it began has
 * completed on each of its channels. What is not posted any more, such as work requests that
 * use a recalled key, is not on the wire then.
 */
struct krdma_grace {
	atomic_t left; /* channels that have not completed what they had posted */
	struct krdma_mark marks[KRDMA_CHANNELS_MAX];
	/* the lock of one of the channels held */
	void (*over)(struct krdma_grace *grace);
};

struct krdma_key;

/* Keys of a region for a path; session->lock. */
struct krdma_region_path {
	struct xarray keys; /* krdma_key by segment index; read without the lock */
	u32 nkeys;
	u32 ndead;            /* of them; each is replaced by the next of its segment */
	unsigned long forget; /* where to look for a key to forget */
	/* key.c */
	bool scarce;   /* the target does not give all that is requested */
	u64 next, end; /* segments to be requested ahead of the transfers */
	u32 window;    /* how many of them were a guess; 0: none */
	u64 mark;      /* of them the one at which more are; written under a channel's as well */
};

/* A region as one channel uses it; that channel's lock. */
struct krdma_region_channel {
	struct krdma_key *last_key; /* the one that was used last, or NULL */
	struct list_head waiters;   /* transfers that wait for a key */
	struct krdma_used used;     /* by transfers that have ended on it */
};

struct krdma_region {
	struct kref ref;
	struct krdma_session *sess; /* holds a reference */
	char name[KRDMA_NAME_MAX];
	u32 wanted; /* rights requested */
	u32 flags;  /* KRDMA_OPEN_* */

	/* what the OPEN's reply says; ->length grows by GROW, and is read without a lock */
	u32 rights;
	u32 grant;
	u32 generation;
	u32 segment_shift;
	u64 length;
	u32 lacks;    /* rights that were wanted and not granted */
	u32 on_first; /* opcodes, a bit each: krdma_region_on_first() */
	bool blind;   /* of no use: to be written only, on iWARP */
	bool atomics; /* this host's end could do them */

	/* session->lock */
	struct list_head node;    /* session->regions */
	u32 users;                /* handles; 0: closing, found by nobody */
	int err;                  /* -ESTALE and the like: no more transfers; read without it */
	bool replied, revoked;    /* the OPEN has its reply; the target closed the grant itself */
	bool aborted;             /* what failed may arrive as long as the target has the grant */
	bool closing;             /* ->grace has begun, and may be over */
	struct krdma_used told;   /* to the target, of what it was used for */
	u32 usage_round;          /* in which that was */
	struct list_head watches; /* krdma_watch.node */

	struct krdma_region_path paths[KRDMA_PATHS_MAX];    /* by the index of the path */
	struct krdma_region_channel on[KRDMA_CHANNELS_MAX]; /* by the index of the channel */
	atomic_t wanted_keys; /* keys_work is queued, or waits for a credit */
	/* key.c, session->lock */
	struct list_head segs; /* SEGS under way */
	u32 turn;              /* the channel that is asked next; keys_work's */

	/* the lock of the first channel */
	bool digesting;                    /* digest_work is queued, or a DIGEST under way */
	u32 nsends;                        /* credits that it has */
	u32 digest_bytes;                  /* of the DIGEST */
	struct krdma_transfer *digest_for; /* the one that the DIGEST is for; NULL: it has ended */
	struct list_head digests;          /* transfers that wait for the peer's digest or flush */
	struct list_head unsent;           /* transfers that wait for a credit for their message */
	u64 turns;                         /* how many messages have been there */
	struct list_head sending;          /* channel->sending: some do */

	struct work_struct keys_work;
	struct krdma_credit keys_credit; /* of keys_work */
	struct work_struct digest_work;
	struct work_struct count_work;     /* of digest_work */
	struct krdma_credit digest_credit; /* of digest_work */
	struct work_struct close_work;
	struct krdma_credit close_credit; /* of close_work */
	struct krdma_grace grace;         /* of close_work */
};

/**
 * krdma_transfer_route - choose the channel of a transfer
 * @x: transfer, with its region, opcode and flags; not submitted yet
 * @cpu: processor
 *
 * The channel of the processor's data, or the first: for messages and what is verified, for what
 * krdma_region_on_first() says, and for atomics where there are several paths, as a device's are
 * not atomic for another.
 *
 * Context: any.
 */
static inline void krdma_transfer_route(struct krdma_transfer *x, u32 cpu)
{
	const struct krdma_region *region = x->region;
	struct krdma_session *sess = region->sess;
	bool first = x->verify | x->message | (region->on_first >> x->opcode & 1);

	x->ch = first || (unlikely(sess->npaths > 1) && krdma_opcode_atomic(x->opcode)) ?
			sess->ch :
			krdma_session_channel(sess, cpu);
}

/* region.c */
extern const struct krdma_role_ops krdma_initiator_ops;
struct krdma_region *krdma_region_open(struct krdma_session *sess, const char *name, u32 rights,
				       u32 flags, u32 timeout_ms, struct krdma_error *error);
void krdma_region_close(struct krdma_region *region, bool waits);
void krdma_region_put(struct krdma_region *region);
void krdma_region_put_soft(struct krdma_region *region);
int krdma_region_refuse(struct krdma_region *region, u32 right, struct krdma_error *error);
void krdma_region_watch(struct krdma_region *region, struct krdma_watch *watch);
void krdma_region_unwatch(struct krdma_region *region, struct krdma_watch *watch);

/* grow.c */
int krdma_region_grow(struct krdma_region *region, u32 timeout_ms, struct krdma_error *error);

/* key.c */
u32 krdma_region_nkeys(const struct krdma_region *region);

/* transfer.c */
void krdma_transfers_complete(struct krdma_transfer *x);
u32 krdma_region_poll_channels(const struct krdma_region *region);
void krdma_transfers_submit(struct krdma_queue *batch);
void krdma_transfer_release(struct krdma_transfer *x);
void krdma_transfer_cancel(struct krdma_transfer *x, int err);
void krdma_transfer_end(struct krdma_transfer *x, int err);
int krdma_transfer_explain(struct krdma_transfer *x, struct krdma_error *error);

#endif /* KRDMA_INITIATOR_H */
