/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of initiator/ share: keys, work requests, and steps of a transfer. */
#ifndef KRDMA_WR_H
#define KRDMA_WR_H

#include "initiator/initiator.h"
#include "trace.h"

/* More than siw puts behind the head of a response (MAX_HDR_INLINE). */
#define KRDMA_SHORT       64
#define KRDMA_REGION_KEYS 262144
/* Memory that could not be mapped is tried again after this, or when a mapping has gone. */
#define KRDMA_MAP_AGAIN_MS 5
/* The target has lost the path, and this host has not noticed: a key is asked for again. */
#define KRDMA_AWAY_MS 100
/*
 * Not on iWARP: a chain has a completion for each of so many parts, and at least one for MAX work
 * requests, or for so many bytes.
 */
#define KRDMA_SIGNAL_PARTS 4
#define KRDMA_SIGNAL_MAX   16U
#define KRDMA_SIGNAL_BYTES SZ_64K
/* Transfers that are ended, or looked at, without a pause. */
#define KRDMA_TRANSFER_BATCH 128
/* An OPEN that takes over is sent again after this. */
#define KRDMA_TAKEOVER_MS 100
/* The end of a region that is exclusive waits so long for the target, times the timeout_scale. */
#define KRDMA_CLOSED_MS 3000

/*
 * A key of the peer for one segment, until the peer recalls it. It never changes: a
 * finder under a channel's lock uses the key until that lock is dropped.
 */
struct krdma_key {
	u64 index;
	u64 address;
	u32 length;
	u32 rkey;
	u32 era; /* the path's; another by now: the key is dead */
	struct rcu_head rcu;
};

/* A SEGS request under way. */
struct krdma_segs_rpc {
	struct list_head node;       /* region->segs, session->lock */
	struct krdma_region *region; /* holds a reference */
	u32 path;                    /* index */
	u32 era;                     /* of the path when it was sent */
	u64 first;
	u32 needed; /* 1: a transfer waits for the first; 0: all are ahead */
	u32 count;
};

/* A RECALL of the peer; the reply is sent when the grace period is over. */
struct krdma_recall {
	struct list_head node; /* session->recalls */
	struct krdma_session *sess;
	__le32 tag;
	struct krdma_grace grace;
	bool due;            /* the grace period is over; set under the lock of a channel */
	struct krdma_tx *tx; /* for the reply */
};

/* What a message of ours is sent from; it stands for a credit. */
struct krdma_send {
	struct ib_cqe cqe;
	struct list_head node; /* channel->sends_free or ->sends_sent */
	void *buf;
	u64 dma;
	u16 seq;                         /* which of all messages */
	u8 repeats;                      /* how often it was the first to be sent again */
	bool posted;                     /* its completion is to come */
	struct krdma_region *region;     /* no reply yet; holds a reference */
	struct krdma_transfer *transfer; /* NULL: it has ended */
	struct ib_sge sge;
	struct ib_send_wr wr;
};

/* iWARP: memory that a READ fills is known to the peer by a key, for that READ. */
struct krdma_sink {
	struct list_head node; /* channel->sinks */
	struct ib_mr *mr;
	struct scatterlist *sg; /* what it covers; to be unmapped if the krdma_wr says so */
	struct ib_cqe cqe;
	struct ib_reg_wr reg;
};

struct krdma_wr {
	struct ib_cqe cqe;
	struct krdma_wr *next; /* of channel->free, or of the chain being built */
	u32 index;             /* in channel->ring */
	bool posted;           /* its end is to come */
	bool unproven;         /* it ends when the READ behind it has completed */
	u64 *tail; /* channel->tails: its last bytes arrive there; NULL: they do not... */
	u64 place; /* ...but are to be there */
	struct krdma_transfer *transfer;
	struct krdma_cursor at; /* its first byte */
	u32 bytes;
	u32 mapped; /* SGEs to unmap when it ends */
	union {
		struct ib_rdma_wr wr;
		struct ib_atomic_wr atomic; /* begins with the same struct ib_send_wr */
	};
	struct ib_sge sge[KRDMA_SGE_MAX];
	struct krdma_sink *sink; /* iWARP, of a READ */
	struct ib_cqe placed_cqe;
	struct ib_rdma_wr placed; /* the READ behind it */
	struct ib_sge placed_sge;
};

/* region.c */
struct krdma_region *krdma_region_find(struct krdma_session *sess, u32 grant, u32 generation);
void krdma_region_fail(struct krdma_region *region, int err);

/* key.c */
void krdma_region_keys_work(struct work_struct *work);
bool krdma_region_recall(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			 const union krdma_wire_msg *request);
void krdma_region_recalls_reply(struct krdma_session *sess);
struct krdma_key *krdma_region_key_find(struct krdma_region *region, struct krdma_channel *ch,
					u64 index);
bool krdma_region_key_there(struct krdma_region *region, u32 path, u64 index);
void krdma_region_want(struct krdma_region *region);
void krdma_region_keys_init(struct krdma_region *region);
void krdma_region_keys_free(struct krdma_region *region);
void krdma_region_keys_void(struct krdma_region *region, u32 path);
int krdma_keys_store(struct krdma_region *region, const union krdma_wire_msg *msg,
		     const struct krdma_segs_rpc *segs);
void krdma_region_path_changed(struct krdma_region *region, struct krdma_channel *ch);

/* hold.c */
void krdma_region_hold_path(struct krdma_region *region, u32 path);
int krdma_region_hold(struct krdma_region *region, u32 timeout_ms);

/**
 * krdma_region_segments - how many segments a region has
 * @region: region, open
 *
 * Return: their number
 */
static inline u64 krdma_region_segments(const struct krdma_region *region)
{
	return krdma_segments(READ_ONCE(region->length), region->segment_shift);
}

/**
 * krdma_region_key - the key of a byte
 * @region: region
 * @ch: channel that will use it
 * @at: offset of the byte
 *
 * Context: channel->lock held.
 * Return: the key, or NULL
 */
static inline struct krdma_key *krdma_region_key(struct krdma_region *region,
						 struct krdma_channel *ch, u64 at)
{
	u64 index = krdma_segment_of(at, region->segment_shift);
	struct krdma_key *key = region->on[ch->index].last_key;

	/* Mostly the transfer before used the same key. */
	return key && key->index == index ? key : krdma_region_key_find(region, ch, index);
}

/* Where it waits for its turn on its channel. */
static inline struct krdma_flow *krdma_transfer_flow(const struct krdma_transfer *x)
{
	return &x->submitter->flows[x->ch->index];
}

/* transfer.c */
extern const struct krdma_data_ops krdma_transfer_ops;
void krdma_transfer_advance(struct krdma_transfer *x, ktime_t now);
void krdma_transfer_wait(struct krdma_transfer *x, enum krdma_wait wait, ktime_t now);
void krdma_transfer_leave(struct krdma_transfer *x);
void krdma_transfer_refused(struct krdma_transfer *x);
void krdma_transfer_replied(struct krdma_transfer *x, int err);

/* What a transfer does next. */
enum krdma_step {
	KRDMA_STEP_DATA,    /* READ, WRITE or an atomic is to be posted, when its key is there */
	KRDMA_STEP_DIGEST,  /* the target's digest, or a flush, is requested */
	KRDMA_STEP_MESSAGE, /* its message is to be sent */
	KRDMA_STEP_WIRE,    /* what is posted has to complete */
	KRDMA_STEP_REPLY,   /* its message is sent in turn, and has to be replied to */
	KRDMA_STEP_END,
};

/* In the order in which an operation does them; most have one. */
static __always_inline enum krdma_step krdma_transfer_step(const struct krdma_transfer *x)
{
	bool all = x->moved == x->length, posted = x->posted == x->length;

	if (x->status || ((all || posted) && !(x->verify | x->message)))
		return x->nwrs ? KRDMA_STEP_WIRE : KRDMA_STEP_END;
	if (!posted && krdma_opcode_data(x->opcode))
		return KRDMA_STEP_DATA;
	if (krdma_opcode_asks(x->opcode))
		return KRDMA_STEP_DIGEST;
	if (x->verify)
		return all ? KRDMA_STEP_DIGEST : KRDMA_STEP_WIRE;
	/* ORDER: a message goes behind the WRITE, whether that has completed or not. */
	return x->message == KRDMA_MESSAGE_STATE_WANTED ? KRDMA_STEP_MESSAGE : KRDMA_STEP_REPLY;
}

/* krdma_transfer_wait(), inline for the two that each transfer waits for. */
static __always_inline void krdma_transfer_note(struct krdma_transfer *x, enum krdma_wait wait,
						ktime_t now)
{
	if (x->wait == wait)
		return;
	x->wait = wait;
	x->since = now ?: ktime_get();
	trace_krdma_transfer_wait(x->ch->serial, x, wait);
}

static __always_inline void krdma_transfer_wire(struct krdma_transfer *x, ktime_t now)
{
	if (!list_empty(&x->node))
		list_del_init(&x->node);
	krdma_transfer_note(x, KRDMA_WAIT_WIRE, now);
}

/* pump.c */
void krdma_transfer_pump_ready(struct krdma_channel *ch, struct krdma_transfer *fresh);

/* Can nothing of what it posted on a lost channel arrive any more? */
static inline bool krdma_fence_over(struct krdma_transfer *x)
{
	if (READ_ONCE(x->fence->connections) == x->fence_connections &&
	    READ_ONCE(x->fence->fenced_connection) != x->fence_connections)
		return false;
	x->fence = NULL;
	x->flushed = false;
	return true;
}

/* Why it ends whose deadline has passed. */
static inline int krdma_transfer_late(const struct krdma_transfer *x)
{
	return x->unmapped ? -EIO : -ETIMEDOUT;
}

/**
 * krdma_transfer_pump - post what can be posted, with one doorbell
 * @ch: channel
 *
 * Submitters take turns, and so do the transfers of each, a work request each: so a long one
 * does not hold up short ones, nor do many those of another submitter.
 *
 * Context: channel->lock held.
 */
static inline void krdma_transfer_pump(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	if (!list_empty(&ch->ready) || !list_empty(&ch->sending))
		krdma_transfer_pump_ready(ch, NULL);
}

/**
 * krdma_transfer_ready - let a transfer be posted when it is its turn
 * @x: transfer, begun; on a list by ->node, or on none
 *
 * Context: channel->lock held.
 */
static inline void krdma_transfer_ready(struct krdma_transfer *x)
{
	struct krdma_flow *flow = krdma_transfer_flow(x);

	list_move_tail(&x->node, &flow->transfers);
	if (list_empty(&flow->node))
		list_add_tail(&flow->node, &x->ch->ready);
}

/**
 * krdma_transfers_map_again - a mapping has gone: those that lacked one may have it
 * @ch: channel, to be pumped
 *
 * Context: channel->lock held.
 */
static inline void krdma_transfers_map_again(struct krdma_channel *ch)
{
	lockdep_assert_held(&ch->lock);
	while (unlikely(!list_empty(&ch->unmapped)))
		krdma_transfer_ready(list_first_entry(&ch->unmapped, struct krdma_transfer, node));
}

/* loss.c */
bool krdma_transfer_outlives(const struct krdma_transfer *x);
bool krdma_transfer_lingers(struct krdma_transfer *x);
void krdma_transfer_again(struct krdma_transfer *x);
void krdma_transfer_move(struct krdma_transfer *x);
void krdma_transfers_fail(struct krdma_channel *ch);
void krdma_transfers_fail_rest(struct krdma_channel *ch);
ktime_t krdma_transfers_expire(struct krdma_channel *ch);
void krdma_transfers_connected(struct krdma_channel *ch);
void krdma_transfers_fenced(struct krdma_channel *ch, u32 connection);
void krdma_transfer_reroute(struct krdma_transfer *x);
bool krdma_transfers_resume(struct krdma_channel *ch);
void krdma_transfers_kick(struct krdma_channel *ch);
void krdma_replay_end(struct krdma_transfer *x);

/**
 * krdma_transfer_less - one work request less of a transfer is under way
 * @x: transfer, whose ->moved or ->status says what came of it
 *
 * Context: channel->lock held.
 */
static inline void krdma_transfer_less(struct krdma_transfer *x)
{
	/* Otherwise more of it is on the wire, or waits for its turn or for a key. */
	if (--x->nwrs)
		return;
	if (unlikely(x->again) && !x->status)
		krdma_transfer_again(x);
	else if (x->status || x->posted == x->length)
		krdma_transfer_advance(x, 0);
}

/* wr.c */
/* Where the work request of an index is, until it has ended. */
static inline struct krdma_wr **krdma_ring_at(struct krdma_channel *ch, u32 index)
{
	return &ch->ring[index & (ch->slots - 1)];
}

void krdma_wr_tail(struct krdma_channel *ch, struct krdma_wr *w);
int krdma_wrs_post(struct krdma_channel *ch, struct krdma_wr *chain);
bool krdma_grace_begin(struct krdma_session *sess, struct krdma_grace *grace,
		       void (*over)(struct krdma_grace *grace));
void krdma_wrs_reap(struct krdma_channel *ch);
int krdma_wrs_setup(struct krdma_channel *ch);
void krdma_wrs_free(struct krdma_channel *ch);

/* sink.c: iWARP, and what READs behind WRITEs fill */
int krdma_void_setup(struct krdma_channel *ch);
void krdma_void_free(struct krdma_channel *ch);
int krdma_sinks_setup(struct krdma_channel *ch);
void krdma_sinks_free(struct krdma_channel *ch);
int krdma_sink_map(struct krdma_channel *ch, struct krdma_wr *w);
void krdma_sink_put(struct krdma_channel *ch, struct krdma_wr *w);
void krdma_sink_dereg(struct krdma_wr *w);

/* message.c */
void krdma_send_enqueue(struct krdma_transfer *x, ktime_t now);
void krdma_sends_post(struct krdma_channel *ch, ktime_t now);
const char *krdma_sends_replied(struct krdma_session *sess, struct krdma_rx *rx,
				const union krdma_wire_msg *msg);
bool krdma_sends_resume(struct krdma_channel *ch);
void krdma_sends_again(struct krdma_channel *ch);
int krdma_sends_setup(struct krdma_channel *ch);
int krdma_sends_map(struct krdma_channel *ch);
void krdma_sends_unmap(struct krdma_channel *ch);
void krdma_sends_begin(struct krdma_session *sess);
void krdma_sends_drop(struct krdma_channel *ch);
void krdma_sends_free(struct krdma_channel *ch);

/* digest.c */
void krdma_digest_queue(struct krdma_transfer *x, ktime_t now);
void krdma_digest_work(struct work_struct *work);
void krdma_count_work(struct work_struct *work);

/* ---- cutting ---- */

/**
 * krdma_split_bytes - how much the next work request may carry
 * @left: bytes of the operation that are not posted yet
 * @in_segment: where in its segment the first of them is
 * @covered: bytes of the segment that the key covers, more than @in_segment
 *
 * Context: any.
 * Return: the bytes: to the end of the operation or of the key, and at most
 *	KRDMA_WR_MAX.
 */
static inline u32 krdma_split_bytes(u64 left, u64 in_segment, u32 covered)
{
	return min3(left, covered - in_segment, (u64)KRDMA_WR_MAX);
}

/**
 * krdma_split_short - no short work request over the end of a page of the peer
 * @bytes: how much it would carry, not 0
 * @at: first byte in the region; a peer's pages have 4 KiB at least
 *
 * Context: any.
 * Return: the bytes: to the end of the page if that is less than KRDMA_SHORT away
 */
static inline u32 krdma_split_short(u32 bytes, u64 at)
{
	u32 rest = SZ_4K - (at & (SZ_4K - 1));

	return rest < KRDMA_SHORT ? min(bytes, rest) : bytes;
}

/* usage.c: reports to the target */
bool krdma_usage_last(struct krdma_region *region, struct krdma_wire_used *used);
void krdma_usage_tick(struct krdma_session *sess);

#endif /* KRDMA_WR_H */
