// SPDX-License-Identifier: GPL-2.0
/*
 * What is posted next: whose turn it is on a channel, and the work request that is made of it.
 *
 * Submitters take turns, and so do the transfers of each, a work request each. A work request is
 * made when there is room for it and the key of its segment is known, and is cut at the end of that
 * segment. The chain of them is posted by wr.c.
 */
#include "initiator/wr.h"

/* ---- a work request ---- */

static void krdma_wr_rdma(struct krdma_wr *w, u8 opcode, u64 remote, u32 rkey)
{
	w->wr.wr.opcode = opcode == KRDMA_OP_READ ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE;
	if (w->sink) {
		w->wr.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
		w->wr.wr.ex.invalidate_rkey = w->sink->mr->lkey;
	}
	w->wr.remote_addr = remote;
	w->wr.rkey = rkey;
}

static void krdma_wr_atomic(struct krdma_wr *w, u64 remote, u32 rkey)
{
	const struct krdma_transfer *x = w->transfer;

	if (x->opcode == KRDMA_OP_CMP_SWAP) {
		w->atomic.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
		w->atomic.compare_add = x->compare;
		w->atomic.swap = x->operand;
	} else {
		w->atomic.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
		w->atomic.compare_add = x->operand;
	}
	w->atomic.remote_addr = remote;
	w->atomic.rkey = rkey;
}

/*
 * On iWARP its completion does not tell that the bytes are in the peer's memory; elsewhere
 * somebody may want to know more than that the adapter has them, if that is not the same.
 */
static bool krdma_needs_read(const struct krdma_channel *ch, const struct krdma_transfer *x)
{
	/* Where the session resumes, what has not arrived is written again. */
	return x->opcode == KRDMA_OP_WRITE &&
	       ((x->placed && !ch->places) || (ch->iwarp && (ch->resumes || !x->unplaced)));
}

/*
 * The next work request of a transfer with bytes left to post, by the key of the segment of the
 * next byte. Return: NULL if there is no room; ERR_PTR(-EAGAIN) if its memory can't be mapped now;
 * or another ERR_PTR
 */
static __always_inline struct krdma_wr *
krdma_wr_build(struct krdma_channel *ch, struct krdma_transfer *x, const struct krdma_key *key)
{
	const struct krdma_vec *range = &x->range[x->far.i];
	u64 at = range->addr + x->far.in;
	u64 in_seg = krdma_segment_offset(at, x->region->segment_shift);
	bool sink = ch->iwarp && x->opcode == KRDMA_OP_READ;
	u32 bytes, n = 1;
	struct krdma_wr *w;
	int rc;

	lockdep_assert_held(&ch->lock);
	w = ch->free;
	/* Work requests end in order, some on iWARP do not: one may be free when no slot is. */
	if (!w || ch->tail - ch->head == ch->slots || ch->posted_bytes >= ch->posted_max)
		return NULL;

	bytes = krdma_split_bytes(range->length - x->far.in, in_seg, key->length);
	if (sink)
		bytes = krdma_split_short(bytes, at);
	/* Its path is over another device. */
	if (x->local.map && unlikely(x->local.map->dev != &ch->dev->dma) &&
	    !krdma_local_remap(&x->local, &ch->dev->dma))
		return ERR_PTR(-EAGAIN);
	w->at = x->local.at;
	w->bytes = bytes;
	w->transfer = x;
	w->unproven = krdma_needs_read(ch, x);
	w->tail = NULL;
	if (sink) {
		rc = krdma_sink_map(ch, w);
		if (rc)
			return rc == -EBUSY ? NULL : ERR_PTR(rc);
	} else {
		n = krdma_local_sges(&x->local, &ch->dev->dma, ch->pd->local_dma_lkey, w->sge,
				     x->opcode == KRDMA_OP_READ ? ch->max_sge_rd : ch->max_sge,
				     &w->bytes);
		w->mapped = x->local.bvec ? n : 0;
		/* What others have mapped may be in the way, of this host or of this session. */
		if (!n)
			return ERR_PTR(-EAGAIN);
	}
	bytes = w->bytes;
	x->unmapped = false;
	krdma_split_step(&x->far, x->range, x->nrange, bytes);

	w->wr.wr.num_sge = n;
	if (ch->tails && x->opcode != KRDMA_OP_WRITE)
		krdma_wr_tail(ch, w);
	if (krdma_opcode_atomic(x->opcode))
		krdma_wr_atomic(w, key->address + in_seg, key->rkey);
	else
		krdma_wr_rdma(w, x->opcode, key->address + in_seg, key->rkey);

	ch->free = w->next;
	w->index = ch->tail++;
	*krdma_ring_at(ch, w->index) = w;
	ch->slots_used++;
	ch->posted_bytes += bytes;
	x->nwrs++;
	x->posted += bytes;
	x->behind = ch->messages_posted;
	return w;
}

/* ---- turns ---- */

/* Whose turn it is. */
static struct krdma_transfer *krdma_pump_next(struct krdma_channel *ch,
					      struct krdma_transfer **fresh)
{
	struct krdma_transfer *x = *fresh;
	struct krdma_flow *flow;

	if (x) {
		*fresh = x->next;
		return x;
	}
	while ((flow = list_first_entry_or_null(&ch->ready, struct krdma_flow, node))) {
		x = list_first_entry_or_null(&flow->transfers, struct krdma_transfer, node);
		if (x)
			return x;
		list_del_init(&flow->node);
	}
	return NULL;
}

/* It had its turn; it may have another behind the others. */
static void krdma_pump_turn(struct krdma_transfer *x)
{
	struct krdma_flow *flow = krdma_transfer_flow(x);

	if (unlikely(!list_empty(&flow->node)))
		list_move_tail(&flow->node, &x->ch->ready);
}

/* There is no room for these: it is their turn before that of any that had a work request. */
static void krdma_pump_keep(struct krdma_channel *ch, struct krdma_transfer *fresh)
{
	struct krdma_transfer *x, *next;
	struct krdma_flow *flow;
	LIST_HEAD(rest);

	for (; fresh; fresh = fresh->next)
		list_add_tail(&fresh->node, &rest);
	list_for_each_entry_safe_reverse(x, next, &rest, node) {
		flow = krdma_transfer_flow(x);
		list_move(&x->node, &flow->transfers);
		list_move(&flow->node, &ch->ready);
	}
}

/**
 * krdma_transfer_pump_ready - krdma_transfer_pump where something is ready
 * @ch: channel
 * @fresh: NULL; or transfers that have just been submitted, by ->next, where nothing
 *	else is ready: mostly they are posted at once, and need no list
 *
 * Context: channel->lock held.
 */
void krdma_transfer_pump_ready(struct krdma_channel *ch, struct krdma_transfer *fresh)
{
	struct krdma_transfer *x;
	struct krdma_wr *chain, **link;
	ktime_t now;
	int rc;

	lockdep_assert_held(&ch->lock);
	if (unlikely(ch->state != KRDMA_CHANNEL_UP)) {
		/* They wait for the next connection. */
		krdma_pump_keep(ch, fresh);
		return;
	}
	now = ktime_get();
again:
	chain = NULL;
	link = &chain;
	while ((x = krdma_pump_next(ch, &fresh))) {
		struct krdma_region *region = x->region;
		struct krdma_wr *w;
		struct krdma_key *key;

		/* The tick ends those that wait; nothing is posted behind its back. */
		if (ktime_compare(x->deadline, now) <= 0) {
			krdma_transfer_end(x, krdma_transfer_late(x));
			continue;
		}
		if (unlikely(krdma_transfer_step(x) != KRDMA_STEP_DATA)) {
			krdma_transfer_advance(x, now);
			continue;
		}
		key = krdma_region_key(region, ch, krdma_transfer_at(x));
		if (!key) {
			list_move_tail(&x->node, &region->on[ch->index].waiters);
			krdma_transfer_wait(x, KRDMA_WAIT_CREDIT, now);
			krdma_region_want(region);
			continue;
		}
		w = krdma_wr_build(ch, x, key);
		if (!w) {
			if (list_empty(&x->node))
				fresh = x;
			break;
		}
		if (w == ERR_PTR(-EAGAIN)) {
			/* Others go on: what it lacks they may lack as well, or it alone. */
			x->unmapped = true;
			list_move_tail(&x->node, &ch->unmapped);
			krdma_channel_tick_by(ch, ktime_add_ms(now, KRDMA_MAP_AGAIN_MS));
			continue;
		}
		if (IS_ERR(w)) {
			krdma_transfer_end(x, PTR_ERR(w));
			continue;
		}
		w->next = NULL;
		*link = w;
		link = &w->next;
		/* Fresh it is on no list, and its submitter keeps its place for once. */
		if (!list_empty(&x->node))
			krdma_pump_turn(x);
		if (x->posted != x->length)
			krdma_transfer_ready(x);
		else if (likely(!(x->verify | x->message)))
			krdma_transfer_wire(x, now);
		else
			krdma_transfer_advance(x, now);
	}
	/* ORDER: before the channel may fail, which ends all of its transfers. */
	if (unlikely(fresh))
		krdma_pump_keep(ch, fresh);
	rc = chain ? krdma_wrs_post(ch, chain) : 0;
	if (unlikely(rc < 0))
		return;
	/* Perhaps nothing is on the wire that would go on here when it ends. */
	if (unlikely(rc)) {
		fresh = NULL;
		goto again;
	}
	/* ORDER: behind the WRITEs that they tell of. */
	if (!list_empty(&ch->sending))
		krdma_sends_post(ch, now);
}
