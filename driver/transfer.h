/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transfers: what is known of one while it is under way, and how it is cut into work
 * requests. No verbs here, and no locks.
 */
#ifndef KRDMA_TRANSFER_H
#define KRDMA_TRANSFER_H

#include <linux/bvec.h>
#include <linux/dma-direction.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/uidgid.h>
#include <rdma/ib_verbs.h>

#include <uapi/linux/krdma_mover.h>
#include "range.h"

/* One work request never carries more. */
#define KRDMA_CHUNK_MAX SZ_1M
/* The local memory of an operation that tells a number. */
#define KRDMA_NUMBER_BYTES 8
/* More than siw puts behind the head of an answer (MAX_HDR_INLINE). */
#define KRDMA_SHORT 64

/* Is what was moved to be compared with the peer's digest? */
enum krdma_verify {
	KRDMA_VERIFY_NONE, /* no, or they are equal */
	KRDMA_VERIFY_ONCE, /* if it differs it is moved again */
	KRDMA_VERIFY_AGAIN,
};

/* Does it end with a message to the owner? */
enum krdma_mail_state {
	KRDMA_MAIL_NONE,   /* no, or the owner has it */
	KRDMA_MAIL_WANTED, /* not sent yet */
	KRDMA_MAIL_SENT,   /* no answer yet */
};

struct krdma_letter;
struct krdma_mapping;
struct krdma_region;
struct krdma_session;

/* A place in a list of pieces or ranges. */
struct krdma_cursor {
	u32 i;  /* entry */
	u64 in; /* bytes of it that are behind */
};

/*
 * Transfers in order: not begun yet; begun, until the lock is let go of that they began
 * under; or ended, and their submitters are to be told.
 */
struct krdma_queue {
	struct krdma_transfer *first;
	struct krdma_transfer **last;
};

#define KRDMA_QUEUE_INIT(name)        \
	{                             \
		.last = &(name).first \
	}

/*
 * One operation under way. Owned by whoever submitted it until
 * krdma_transfers_submit, by the session until ->done is called, exactly once, and
 * by the submitter again from there.
 *
 * Its local memory is either ranges of memory that stays mapped (->map, ->local),
 * or pages that are mapped with each chunk (->bvec).
 */
struct krdma_transfer {
	struct list_head node;         /* session->ready, region->waiters or ->digests */
	struct hlist_node all;         /* session->transfers */
	struct krdma_transfer *next;   /* in a krdma_queue */
	struct krdma_session *sess;    /* of the region */
	struct krdma_region *region;   /* the submitter holds a reference */
	const struct krdma_vec *range; /* of the region */
	u32 nrange;
	u32 nlocal;              /* entries of ->local or ->bvec */
	struct krdma_vec one[2]; /* room for a single ->local and ->range */
	u64 length;
	ktime_t timeout; /* from the submission */
	ktime_t deadline;
	ktime_t submitted;
	ktime_t since; /* began to wait for .wait */
	u64 operand;   /* of an atomic operation, or the value of a message */
	u64 compare;
	struct krdma_cursor from; /* of ->verify: where ->at was when it began */
	u64 digested;             /* bytes that the peer's digest is known of */
	u32 value;                /* the peer's, so far */
	u32 local_value;          /* what it has to be */
	bool counted;             /* that is known */
	u8 verify;                /* enum krdma_verify; set by the submitter */
	u8 mail;                  /* enum krdma_mail_state; the same */
	bool unplaced;            /* a WRITE need not be in the peer's memory; the same */
	bool placed;              /* a READ has to be behind a WRITE; the same */
	kuid_t uid;
	u8 opcode;
	/*
	 * Any context, no session lock held. What ends because of this is added to
	 * the list, never told from here.
	 */
	void (*done)(struct krdma_transfer *x, struct krdma_queue *more);

	/* From here all zero at first; ->bvec is set before it begins, or ->local and ->map. */
	const struct bio_vec *bvec;
	const struct krdma_vec *local;
	struct krdma_mapping *map;
	struct krdma_letter *letter; /* with the message, KRDMA_MAIL_SENT */
	struct krdma_cursor at;      /* next byte to post: of local memory */
	struct krdma_cursor far;     /* and of the region */
	u64 posted;
	u64 moved;  /* completed from the start, without a gap */
	u32 chunks; /* on the wire; and one while a digest of its memory is computed */
	int status;
	bool answered; /* ->status is what the peer has answered */
	enum krdma_wait wait;
	bool held;     /* waits for its turn */
	bool unmapped; /* its next bytes could not be mapped so far */
	bool ended;    /* ->done is called, or will be */
	bool lost;     /* a key to its memory may be alive: it must not be given back */
	bool gap;      /* a chunk failed: no more counting in .moved */
	pid_t pid;     /* 0: the kernel */
	u64 user_data;
	/* The device did not take a work request of it: the reason of its -EIO. */
	bool refused;
};

/**
 * krdma_transfer_init - begin with a transfer
 * @x: transfer, of any content; to be filled in by the submitter
 */
static inline void krdma_transfer_init(struct krdma_transfer *x)
{
	memset_startat(x, 0, bvec);
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
 * krdma_queue_init - empty, as KRDMA_QUEUE_INIT
 * @queue: of any content
 */
static inline void krdma_queue_init(struct krdma_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
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
 * krdma_opcode_atomic - is it an atomic operation?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it is.
 */
static inline bool krdma_opcode_atomic(u8 opcode)
{
	return opcode == KRDMA_OP_FETCH_ADD || opcode == KRDMA_OP_CMP_SWAP;
}

/**
 * krdma_opcode_number - does an operation put a number into local memory?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it does: KRDMA_NUMBER_BYTES, at a multiple of that.
 */
static inline bool krdma_opcode_number(u8 opcode)
{
	return opcode >= KRDMA_OP_FETCH_ADD;
}

/**
 * krdma_opcode_fills - does an operation put bytes into local memory?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it does.
 */
static inline bool krdma_opcode_fills(u8 opcode)
{
	return opcode != KRDMA_OP_WRITE && opcode != KRDMA_OP_SEND;
}

/**
 * krdma_opcode_right - the right that an operation needs
 * @opcode: any byte
 *
 * Return: KRDMA_RIGHT_*, 0 if there is no such operation.
 */
static inline u32 krdma_opcode_right(u8 opcode)
{
	/* Eight bits for each: no branches, and no table to look outside of. */
	const u64 rights = (u64)KRDMA_RIGHT_READ << 8 * KRDMA_OP_READ |
			   (u64)KRDMA_RIGHT_WRITE << 8 * KRDMA_OP_WRITE |
			   (u64)KRDMA_RIGHT_MESSAGE << 8 * KRDMA_OP_SEND |
			   (u64)KRDMA_RIGHT_ATOMIC << 8 * KRDMA_OP_FETCH_ADD |
			   (u64)KRDMA_RIGHT_ATOMIC << 8 * KRDMA_OP_CMP_SWAP |
			   (u64)KRDMA_RIGHT_READ << 8 * KRDMA_OP_DIGEST;

	return opcode < 8 ? rights >> 8 * opcode & 0xff : 0;
}

/**
 * krdma_flags_right - the rights that flags of an operation need beside its own
 * @flags: KRDMA_OP_*
 *
 * Return: KRDMA_RIGHT_*
 */
static inline u32 krdma_flags_right(u32 flags)
{
	return (flags & (KRDMA_OP_VERIFY | KRDMA_OP_PLACED) ? KRDMA_RIGHT_READ : 0) |
	       (flags & KRDMA_OP_MESSAGE ? KRDMA_RIGHT_MESSAGE : 0);
}

/**
 * krdma_transfer_flags - how a transfer is done
 * @x: transfer with ->opcode
 * @flags: KRDMA_OP_*, checked; those of local memory and of order are not looked at
 */
static inline void krdma_transfer_flags(struct krdma_transfer *x, u32 flags)
{
	x->verify = flags & KRDMA_OP_VERIFY ? KRDMA_VERIFY_ONCE : KRDMA_VERIFY_NONE;
	x->unplaced = flags & KRDMA_OP_UNPLACED;
	x->placed = flags & KRDMA_OP_PLACED;
	x->mail = x->opcode == KRDMA_OP_SEND || (flags & KRDMA_OP_MESSAGE) ? KRDMA_MAIL_WANTED :
									     KRDMA_MAIL_NONE;
}

static inline enum dma_data_direction krdma_transfer_dir(const struct krdma_transfer *x)
{
	return krdma_opcode_fills(x->opcode) ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
}

/* ---- cutting; split.c ---- */

/**
 * krdma_split_bytes - how much the next work request may carry
 * @left: bytes of the operation that are not posted yet
 * @in_segment: where in its segment the first of them is
 * @covered: bytes of the segment that the key covers, more than @in_segment
 *
 * Context: any.
 * Return: the bytes: to the end of the operation or of the key, and at most
 *	KRDMA_CHUNK_MAX.
 */
static inline u32 krdma_split_bytes(u64 left, u64 in_segment, u32 covered)
{
	return min3(left, covered - in_segment, (u64)KRDMA_CHUNK_MAX);
}

/**
 * krdma_split_step - go on in a list of pieces or ranges
 * @at: the place
 * @vec: the list
 * @n: its entries
 * @bytes: how far: not behind the end of the last one
 *
 * Stands at the beginning of an entry rather than at the end of the one before,
 * but for the last.
 *
 * Context: any.
 */
static inline void krdma_split_step(struct krdma_cursor *at, const struct krdma_vec *vec, u32 n,
				    u64 bytes)
{
	for (;;) {
		u64 rest = vec[at->i].length - at->in;

		if (bytes < rest || at->i + 1 == n) {
			at->in += bytes;
			return;
		}
		bytes -= rest;
		at->i++;
		at->in = 0;
	}
}

u32 krdma_split_short(u32 bytes, u64 at);
u32 krdma_split_sges(const dma_addr_t *page, u64 mem, u32 bytes, u32 lkey, struct ib_sge *sge,
		     u32 max, u32 *used);

#endif /* KRDMA_TRANSFER_H */
