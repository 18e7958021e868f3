// SPDX-License-Identifier: GPL-2.0
/*
 * Keys of a region's segments.
 *
 * A key is requested when a transfer needs it, a little ahead where transfers go on in order, and
 * kept until the target recalls it. Rule of a RECALL: the key is not used from its arrival, and the
 * reply is sent when the last work request that uses it has ended. A RECALL without segments is
 * about all keys of the region at once, for good.
 */
#include <linux/slab.h>

#include "initiator/wr.h"
#include "trace.h"

static u64 krdma_region_segments(const struct krdma_region *region)
{
	return krdma_segments(region->length, region->segment_shift);
}

/* Segments requested beyond a transfer that goes on where the last one ended. */
#define KRDMA_PREFETCH 8

/* A SEGS request under way. */
struct krdma_segs_rpc {
	struct krdma_region *region; /* holds a reference */
	u64 first;
	u32 count;
};

/**
 * krdma_region_key_find - find the key of a segment, and remember it
 * @region: region
 * @ch: channel that will use it
 * @index: of the segment
 *
 * Context: channel->lock held.
 * Return: the key, or NULL
 */
struct krdma_key *krdma_region_key_find(struct krdma_region *region, struct krdma_channel *ch,
					u64 index)
{
	lockdep_assert_held(&ch->lock);
	return region->on[ch->index].last_key = xa_load(&region->keys, index);
}

static void krdma_key_free(struct krdma_region *region, struct krdma_key *key)
{
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&region->sess->lock);
	xa_erase(&region->keys, key->index);
	region->nkeys--;
	/* ORDER: it is not found any more, so it is not remembered again. */
	krdma_for_each_channel(ch, region->sess, i) {
		spin_lock(&ch->lock);
		if (region->on[i].last_key == key)
			region->on[i].last_key = NULL;
		spin_unlock(&ch->lock);
	}
	kfree_rcu(key, rcu);
}

/* The next SEGS of a channel: what the first waiter lacks, and what will be wanted next. */
static bool krdma_region_next(struct krdma_region *region, struct krdma_channel *ch, u64 *want,
			      u32 *extra)
{
	u64 first, last, end = krdma_region_segments(region) - 1;
	struct krdma_transfer *x, *next;

	lockdep_assert_held(&ch->lock);
	list_for_each_entry_safe(x, next, &region->on[ch->index].waiters, node) {
		const struct krdma_vec *range = &x->range[x->far.i];

		first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);
		if (xa_load(&region->keys, first)) {
			krdma_transfer_advance(x, 0);
			continue;
		}
		last = krdma_segment_last(range->addr, range->length, region->segment_shift);
		if (first == region->next || first == 0)
			last = min(last + KRDMA_PREFETCH, end);
		*want = first;
		*extra = min_t(u64, last - first, KRDMA_WIRE_SEGS_MAX - 1);
		region->next = first + 1 + *extra;
		return true;
	}
	return false;
}

/* Too many keys: forget one. The target gives it again. */
static void krdma_key_forget(struct krdma_region *region)
{
	unsigned long i = region->forget;
	struct krdma_key *key = xa_find(&region->keys, &i, ULONG_MAX, XA_PRESENT);

	if (key)
		krdma_key_free(region, key);
	region->forget = key ? i + 1 : 0;
}

static int krdma_keys_store(struct krdma_region *region, const union krdma_wire_msg *msg,
			    const struct krdma_segs_rpc *segs)
{
	u64 index = segs->first, end = krdma_region_segments(region);
	const struct krdma_wire_seg *seg = msg->segs_reply.seg;
	struct krdma_session *sess = region->sess;
	u32 i, n = krdma_wire_entries(msg);

	if (n > segs->count)
		return -EPROTO;

	for (i = 0; i < n; i++, seg++, index++) {
		u32 length = le32_to_cpu(seg->length);
		struct krdma_key *key, *new;
		bool ok = true;

		if (index >= end ||
		    length != krdma_segment_length(index, region->length, region->segment_shift))
			return -EPROTO;
		new = krdma_inject(kzalloc(sizeof(*new), GFP_KERNEL), NULL);
		if (!new ||
		    krdma_inject(xa_reserve_bh(&region->keys, index, GFP_KERNEL), -ENOMEM)) {
			kfree(new);
			/* The first is needed, the others were a guess. */
			return i ? 0 : -ENOMEM;
		}
		new->index = index;
		new->address = le64_to_cpu(seg->address);
		new->length = length;
		new->rkey = le32_to_cpu(seg->rkey);
		spin_lock_bh(&sess->lock);
		key = xa_load(&region->keys, index);
		if (key) {
			/* In use: it can only be the same. */
			ok = key->rkey == new->rkey && key->address == new->address;
		} else {
			if (region->nkeys >= KRDMA_REGION_KEYS)
				krdma_key_forget(region);
			/* Its slot is reserved. */
			xa_store(&region->keys, index, new, 0);
			region->nkeys++;
			new = NULL;
		}
		spin_unlock_bh(&sess->lock);
		kfree(new);
		if (!ok)
			return -EPROTO;
	}
	return 0;
}

/* What a channel's waiters do with it. */
static void krdma_region_keys_came(struct krdma_region *region, struct krdma_channel *ch,
				   const struct krdma_segs_rpc *segs,
				   const union krdma_wire_msg *msg, int err)
{
	struct list_head *waiters = &region->on[ch->index].waiters;
	struct krdma_transfer *x, *next;

	krdma_channel_lock(ch);
	list_for_each_entry_safe(x, next, waiters, node) {
		u64 first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);

		if (!krdma_range_has(segs->first, segs->count, first))
			continue;
		/* The target's error is about the first; the others request again. */
		if (!err || first != segs->first)
			krdma_transfer_advance(x, 0);
		else if (msg)
			krdma_transfer_end(x, err);
		else
			krdma_transfer_replied(x, err);
	}
	if (!list_empty(waiters))
		krdma_region_want(region);
	krdma_transfer_pump(ch);
	krdma_channel_unlock(ch);
}

/* Reply to SEGS. */
static void krdma_region_keys_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg,
				      int err)
{
	struct krdma_segs_rpc *segs = rpc->arg;
	struct krdma_region *region = segs->region;
	struct krdma_channel *ch;
	u32 i;

	if (msg && !READ_ONCE(region->err)) {
		err = krdma_keys_store(region, msg, segs);
		if (err == -EPROTO)
			krdma_session_protocol(region->sess, "a reply with keys that do not fit");
	}

	/* ORDER: before it is seen whether any wait. */
	atomic_set(&region->requesting, 0);
	krdma_for_each_channel(ch, region->sess, i)
		krdma_region_keys_came(region, ch, segs, msg, err);
	kfree(segs);
	krdma_region_put(region);
}

static void krdma_region_keys_failed(struct krdma_region *region, int err)
{
	struct krdma_channel *ch;
	struct krdma_transfer *x;
	u32 i;

	atomic_set(&region->requesting, 0);
	krdma_for_each_channel(ch, region->sess, i) {
		struct list_head *waiters = &region->on[i].waiters;

		krdma_channel_lock(ch);
		/* One of them; the others try for themselves. */
		x = list_first_entry_or_null(waiters, struct krdma_transfer, node);
		if (x)
			krdma_transfer_end(x, err);
		if (!list_empty(waiters))
			krdma_region_want(region);
		krdma_channel_unlock(ch);
	}
}

static void krdma_region_waiting(struct krdma_region *region, enum krdma_wait wait)
{
	struct krdma_channel *ch;
	struct krdma_transfer *x;
	u32 i;

	krdma_for_each_channel(ch, region->sess, i) {
		krdma_channel_lock(ch);
		list_for_each_entry(x, &region->on[i].waiters, node)
			krdma_transfer_wait(x, wait, 0);
		krdma_channel_unlock(ch);
	}
}

/* The next SEGS of all channels. With none, those that begin to wait from now on ask anew. */
static bool krdma_region_wanted(struct krdma_region *region, u64 *want, u32 *extra)
{
	struct krdma_channel *ch;
	bool wanted = false;
	u32 i;

	/* Channels take turns. */
	for (i = 0; i < KRDMA_CHANNELS_MAX && !wanted; i++) {
		region->turn = (region->turn + 1) % KRDMA_CHANNELS_MAX;
		ch = krdma_session_slot(region->sess, region->turn);
		if (!ch)
			continue;
		krdma_channel_lock(ch);
		wanted = krdma_region_next(region, ch, want, extra);
		/* Some that waited may have found their key. */
		krdma_transfer_pump(ch);
		krdma_channel_unlock(ch);
	}
	if (wanted)
		return true;
	atomic_set(&region->requesting, 0);
	/* ORDER: whoever came before that found a request under way. */
	krdma_for_each_channel(ch, region->sess, i) {
		krdma_channel_lock(ch);
		if (!list_empty(&region->on[i].waiters))
			krdma_region_want(region);
		krdma_channel_unlock(ch);
	}
	return false;
}

/**
 * krdma_region_keys_work - request the keys that transfers wait for
 * @work: of a region; holds a reference on it
 *
 * Context: work.
 */
void krdma_region_keys_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, keys_work);
	struct krdma_session *sess = region->sess;
	struct krdma_segs_rpc *segs;
	struct krdma_wire_segs *msg;
	struct krdma_rpc *rpc;
	u32 extra;
	int rc = -ENOMEM;

	/* If it has to wait, it is queued again, with the reference. */
	if (!krdma_credit_take(sess, &region->keys_credit))
		return;
	segs = krdma_inject(kzalloc(sizeof(*segs), GFP_KERNEL), NULL);
	rpc = krdma_rpc_new(krdma_region_keys_replied, segs);
	if (!segs || !rpc)
		goto out;

	rc = 0;
	if (!krdma_region_wanted(region, &segs->first, &extra))
		goto out;

	kref_get(&region->ref);
	segs->region = region;
	segs->count = 1 + extra;
	msg = krdma_credit_build(&region->keys_credit, KRDMA_WIRE_SEGS, sizeof(*msg), 0);
	if (msg) {
		msg->grant = cpu_to_le32(region->grant);
		msg->generation = cpu_to_le32(region->generation);
		msg->first = cpu_to_le64(segs->first);
		msg->count = cpu_to_le32(1);
		msg->extra = cpu_to_le32(extra);
	}
	rc = krdma_rpc_post(sess, &region->keys_credit, rpc);
	if (rc) {
		krdma_region_put(region);
	} else {
		segs = NULL;
		krdma_region_waiting(region, KRDMA_WAIT_KEY);
	}
out:
	krdma_credit_put(sess, &region->keys_credit);
	if (rc)
		krdma_region_keys_failed(region, rc);
	krdma_rpc_put(rpc);
	kfree(segs);
	krdma_region_put(region);
}

/**
 * krdma_region_want - see to it that the keys of the waiters are requested
 * @region: the region
 *
 * Context: the lock of the waiters' channel held.
 */
void krdma_region_want(struct krdma_region *region)
{
	if (atomic_xchg(&region->requesting, 1))
		return;
	kref_get(&region->ref);
	/* Put by the work; requesting is false again before it is queued again. */
	if (!queue_work(krdma_rpc_wq, &region->keys_work))
		krdma_region_put(region); /* not the last */
}

/* ---- RECALL ---- */

static void krdma_recall_over(struct krdma_grace *grace)
{
	struct krdma_recall *recall = container_of(grace, struct krdma_recall, grace);
	struct krdma_session *sess = recall->sess;

	/* ORDER: rx_work may free it then. */
	WRITE_ONCE(recall->due, true);
	/* Of another channel: the session ends it when no channel has a queue pair any more. */
	if (READ_ONCE(sess->ch->state) == KRDMA_CHANNEL_UP)
		queue_work(krdma_wq, &sess->rx_work);
}

/**
 * krdma_region_recall - the target wants keys back
 * @sess: session
 * @rx: receive of the RECALL, posted again here
 * @tx: buffer for the reply, which comes when rx_work ends, or later
 * @request: the RECALL
 *
 * Context: rx_work.
 * Return: false if @tx is not used: the session ends
 */
bool krdma_region_recall(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			 const union krdma_wire_msg *request)
{
	const struct krdma_wire_recall *msg = &request->recall;
	/* Segments that it names; 0: all of the grant, which is over. */
	u32 i, n = krdma_wire_entries(request);
	struct krdma_recall *recall = krdma_inject(kzalloc(sizeof(*recall), GFP_KERNEL), NULL);
	struct krdma_region *region;
	struct krdma_key *key;

	if (!recall) {
		krdma_session_fail(sess, -ENOMEM, "no memory for a recall",
				   KRDMA_WIRE_REASON_LIMIT);
		return false;
	}
	recall->sess = sess;
	recall->tag = msg->hdr.tag;
	recall->tx = tx;
	spin_lock_bh(&sess->lock);
	region = krdma_region_find(sess, le32_to_cpu(msg->grant), le32_to_cpu(msg->generation));
	for (i = n; region && i--;) {
		key = xa_load(&region->keys, le64_to_cpu(msg->index[i]));
		if (key)
			krdma_key_free(region, key);
	}
	if (region && !n) {
		WRITE_ONCE(region->revoked, true);
		krdma_region_fail(region, -ESTALE);
	}
	/*
	 * The keys are not used from here on: the reply is due when none is on the wire. If the
	 * region is unknown its CLOSE has crossed the RECALL.
	 */
	list_add_tail(&recall->node, &sess->recalls);
	if (krdma_grace_begin(sess, &recall->grace, krdma_recall_over))
		recall->due = true;
	spin_unlock_bh(&sess->lock);
	krdma_stat_inc(n ? KRDMA_STAT_RECALLS : KRDMA_STAT_REVOKES);
	krdma_post_rx(sess->ch, rx);
	return true;
}

/**
 * krdma_region_recalls_reply - send the replies that are due
 * @sess: session
 *
 * Context: rx_work.
 */
void krdma_region_recalls_reply(struct krdma_session *sess)
{
	struct krdma_recall *recall, *next;
	LIST_HEAD(due);

	spin_lock_bh(&sess->lock);
	list_for_each_entry_safe(recall, next, &sess->recalls, node)
		if (READ_ONCE(recall->due))
			list_move_tail(&recall->node, &due);
	spin_unlock_bh(&sess->lock);
	list_for_each_entry_safe(recall, next, &due, node) {
		krdma_reply_status(sess, recall->tx, KRDMA_WIRE_RECALL, recall->tag, KRDMA_WIRE_OK);
		kfree(recall);
	}
}
