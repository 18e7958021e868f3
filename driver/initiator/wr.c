// SPDX-License-Identifier: GPL-2.0
/*
 * The work requests of READs, WRITEs and atomics: posted in chains, until they have ended.
 *
 * iWARP differs in two ways. What a READ fills is registered for it (sink.c). And
 * a WRITE completes when TCP has the bytes: the last of a chain has a READ of its
 * last byte behind it, whose completion is that of all WRITEs before. Not of no
 * bytes: siw responds to such a READ with what it sent last (siw_activate_tx keeps the
 * old SGE). And all WRITEs are signalled, or siw hands their pages to TCP, which
 * may send them even after the end of the queue pair. A READ that begins just
 * before the end of a page ends there: siw as the target responds to short ones that go
 * over it with wrong bytes (siw_try_1seg).
 *
 * Elsewhere such a READ is behind WRITEs that ask for it (KRDMA_OPF_PLACED), into memory
 * that needs no key. It proves all before it: an adapter executes what comes on a queue
 * pair in order, and on PCIe a read does not overtake a write, relaxed or not. It is left out
 * where the peer says that the acknowledge proves as much (KRDMA_WIRE_PLACES).
 *
 * On rxe a READ or an atomic may complete with success that has brought nothing (quirks.c). So its
 * last 8 bytes arrive in memory of the channel's own that has a mark, and are put in their place
 * from there; a channel that finds the mark is lost, as if it were in error. Where less than 8
 * bytes may come last there is a READ behind the READ, which is flushed if that was false.
 *
 * Except on iWARP not each work request is signalled: a reliable connection completes in order, so
 * a completion ends all work requests before it. A chain completes in KRDMA_SIGNAL_PARTS parts or
 * more: the submitter of the first can go on while the last are on the wire.
 *
 * A work request is in ch->ring until it has ended. Nothing relies on a completion for
 * each when the queue pair is in error: siw may lose some, and give others twice.
 * What failed on iWARP, or never completed, ends with the queue pair and its
 * completion queue (krdma_wrs_reap).
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "initiator/wr.h"

static __always_inline void krdma_wr_unmap(struct krdma_channel *ch, struct krdma_wr *w)
{
	if (!w->mapped)
		return;
	for (; w->mapped; w->mapped--)
		krdma_local_unmap(&w->transfer->local, &ch->dev->dma, w->sge[w->mapped - 1].addr,
				  w->sge[w->mapped - 1].length);
	krdma_transfers_map_again(ch);
}

/* ---- the work requests that are posted, in order ---- */

static void krdma_graces_end(struct krdma_channel *ch)
{
	struct krdma_mark *mark, *next;
	struct krdma_grace *grace;

	list_for_each_entry_safe(mark, next, &ch->graces, node) {
		if ((s32)(ch->head - mark->tail) < 0)
			break;
		list_del(&mark->node);
		/* ORDER: the last one is through with all marks. */
		grace = mark->grace;
		if (atomic_dec_and_test(&grace->left))
			grace->over(grace);
	}
}

/**
 * krdma_grace_begin - begin a grace period
 * @sess: session
 * @grace: not begun, or over
 * @over: called once when it is over, under the lock of a channel
 *
 * A channel that fails has its part in it until its queue pair is gone. One that is connected
 * later posts nothing that the grace period is about.
 *
 * Context: session->lock held.
 * Return: true if it is over at once, without @over
 */
bool krdma_grace_begin(struct krdma_session *sess, struct krdma_grace *grace,
		       void (*over)(struct krdma_grace *grace))
{
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&sess->lock);
	grace->over = over;
	atomic_set(&grace->left, 1);
	krdma_for_each_channel(ch, sess, i) {
		struct krdma_mark *mark = &grace->marks[i];

		spin_lock(&ch->lock);
		if (ch->head != ch->tail) {
			mark->grace = grace;
			mark->tail = ch->tail;
			atomic_inc(&grace->left);
			list_add_tail(&mark->node, &ch->graces);
		}
		spin_unlock(&ch->lock);
	}
	return atomic_dec_and_test(&grace->left);
}

/* ---- tails of READs and atomics ---- */

/* A packet of less than the path's MTU is the last one; each MTU is a multiple of this. */
#define KRDMA_MTU_MIN 256

/**
 * krdma_wr_tail - have the last 8 bytes of a READ arrive elsewhere, or make it unproven
 * @ch: channel with tails
 * @w: READ or atomic, with its SGEs, of which there may be one more then
 *
 * Context: channel->lock held.
 */
void krdma_wr_tail(struct krdma_channel *ch, struct krdma_wr *w)
{
	struct ib_sge *last = &w->sge[w->wr.wr.num_sge - 1];
	u64 *tail = &ch->tails[w - ch->wrs];

	if (last->length < sizeof(*tail) ||
	    (w->bytes > KRDMA_MTU_MIN && (w->bytes - 1) % KRDMA_MTU_MIN + 1 < sizeof(*tail))) {
		w->unproven = true;
		return;
	}
	last->length -= sizeof(*tail);
	w->place = last->addr + last->length;
	if (last->length) {
		last++;
		w->wr.wr.num_sge++;
	}
	*tail = ch->mark;
	/*
	 * Virtual DMA: addresses are the kernel's, and what krdma_wr_unmap() unmaps of this SGE
	 * does not matter. A piece of an atomic's memory is never shorter.
	 */
	last->addr = (uintptr_t)tail;
	last->length = sizeof(*tail);
	last->lkey = ch->pd->local_dma_lkey;
	w->tail = tail;
}

static bool krdma_wr_false(const struct krdma_channel *ch, const struct krdma_wr *w)
{
	return w->tail && *w->tail == ch->mark;
}

/* Work requests up to @last have completed with success, but have they? */
static noinline void krdma_wrs_check(struct krdma_channel *ch, u32 last)
{
	const struct krdma_wr *w;
	u32 i;

	for (i = ch->head; i != last + 1; i++) {
		w = *krdma_ring_at(ch, i);
		if (w && krdma_wr_false(ch, w)) {
			krdma_channel_broken_locked(ch, "a READ or an atomic has brought nothing");
			return;
		}
	}
}

static __always_inline void krdma_ring_del(struct krdma_channel *ch, struct krdma_wr *w)
{
	*krdma_ring_at(ch, w->index) = NULL;
	while (ch->head != ch->tail && !*krdma_ring_at(ch, ch->head))
		ch->head++;
	if (unlikely(!list_empty(&ch->graces)))
		krdma_graces_end(ch);
}

/* A posted work request has ended: krdma_wr_end(), inline for those that one behind them ends. */
static __always_inline void krdma_wr_over(struct krdma_channel *ch, struct krdma_wr *w, int err)
{
	struct krdma_transfer *x = w->transfer;

	lockdep_assert_held(&ch->lock);
	krdma_local_sync(&x->local, w->at, w->bytes, false);
	if (w->tail && !err) {
		if (krdma_wr_false(ch, w))
			err = -ECONNRESET;
		else
			memcpy((void *)(uintptr_t)w->place, w->tail, sizeof(*w->tail));
	}
	w->posted = false;
	krdma_ring_del(ch, w);
	if (w->sink)
		krdma_sink_put(ch, w);
	else
		krdma_wr_unmap(ch, w);
	ch->slots_used--;
	ch->posted_bytes -= w->bytes;
	w->next = ch->free;
	ch->free = w;
	if (err) {
		/* What was refused, or not posted, has never been on its way. */
		bool sent = err == -ECONNRESET && w->wr.wr.num_sge;

		x->gap = true;
		x->flushed |= sent;
		/* The session may go on: nothing else says that bytes may still arrive. */
		if (!x->status && krdma_transfer_outlives(x))
			x->again = true;
		else if (!x->status || (sent && krdma_opcode_atomic(x->opcode)))
			x->status = err;
	} else if (!x->gap) {
		x->moved += w->bytes;
	}
	krdma_transfer_less(x);
}

static noinline void krdma_wr_end(struct krdma_channel *ch, struct krdma_wr *w, int err)
{
	krdma_wr_over(ch, w, err);
}

/*
 * Work requests before @index have completed, as one behind them has. On iWARP each has a
 * completion of its own; those that are unproven end when the READ behind them completes (@read).
 */
static void krdma_wrs_before(struct krdma_channel *ch, u32 index, bool read)
{
	struct krdma_wr *w;
	u32 i;

	for (i = ch->head; i != index; i++) {
		w = *krdma_ring_at(ch, i);
		if (w && (ch->iwarp ? read && w->unproven : read || !w->unproven))
			krdma_wr_over(ch, w, 0);
	}
}

/*
 * Done again, a work request that the peer or this host's device took offence at does the same.
 * LOC_QP_OP: rxe has no route.
 */
static bool krdma_wc_guilty(const struct ib_wc *wc)
{
	return wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR &&
	       wc->status != IB_WC_RETRY_EXC_ERR && wc->status != IB_WC_RNR_RETRY_EXC_ERR &&
	       wc->status != IB_WC_LOC_QP_OP_ERR;
}

static void krdma_data_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_wr *w = container_of(wc->wr_cqe, struct krdma_wr, cqe);
	struct krdma_channel *ch = cq->cq_context;
	int err = wc->status == IB_WC_SUCCESS ? 0 : -ECONNRESET;

	/* Softirqs are off: IB_POLL_SOFTIRQ. */
	spin_lock(&ch->lock);
	krdma_post_alive(ch);
	/* ORDER: the channel fails first, so that transfers see why. */
	if (err)
		krdma_post_broken(ch, wc);
	if (!w->posted)
		goto out;
	trace_krdma_complete(ch->serial, w->transfer, w->bytes, wc->status);
	if (!err && ch->tails)
		krdma_wrs_check(ch, w->index);
	/* A flushed work request tells nothing of the others, which are flushed one by one. */
	if (wc->status != IB_WC_WR_FLUSH_ERR && !ch->iwarp)
		krdma_wrs_before(ch, w->index, false);
	if (unlikely(krdma_wc_guilty(wc)) && !w->transfer->status)
		w->transfer->status = err;
	/* Not before the READ behind it; and on iWARP a key of ours may be alive. */
	if (err ? ch->iwarp : w->unproven)
		goto out;
	krdma_wr_end(ch, w, err);
	krdma_transfer_pump(ch);
out:
	krdma_channel_unlock_softirq(ch);
}

/* The READ behind WRITEs, or READs. What it leaves when it fails ends with the queue pair. */
static void krdma_placed_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_wr *last = container_of(wc->wr_cqe, struct krdma_wr, placed_cqe);
	struct krdma_channel *ch = cq->cq_context;

	spin_lock(&ch->lock);
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc);
		if (krdma_wc_guilty(wc) && last->posted && !last->transfer->status)
			last->transfer->status = -ECONNRESET;
		goto out;
	}
	if (!last->posted)
		goto out;
	if (ch->tails)
		krdma_wrs_check(ch, last->index);
	krdma_wrs_before(ch, last->index + 1, true);
	krdma_transfer_pump(ch);
out:
	krdma_channel_unlock_softirq(ch);
}

/* READ the last byte of a WRITE, or a READ, into the void. */
static void krdma_read_placed(struct krdma_channel *ch, struct krdma_wr *w)
{
	struct ib_mr *mr = ch->void_sink ? ch->void_sink->mr : NULL;

	w->placed_sge.addr = mr ? mr->iova : ch->void_dma;
	w->placed_sge.length = 1;
	w->placed_sge.lkey = mr ? mr->lkey : ch->pd->local_dma_lkey;
	memset(&w->placed, 0, sizeof(w->placed));
	w->placed.wr.wr_cqe = &w->placed_cqe;
	w->placed.wr.sg_list = &w->placed_sge;
	w->placed.wr.num_sge = 1;
	w->placed.wr.opcode = IB_WR_RDMA_READ;
	w->placed.wr.send_flags = IB_SEND_SIGNALED;
	w->placed.remote_addr = w->wr.remote_addr + w->bytes - 1;
	w->placed.rkey = w->wr.rkey;
}

/* Link a work request into a chain. Return: where the next one goes. */
static struct ib_send_wr **krdma_wr_link(struct ib_send_wr **link, struct ib_send_wr *wr)
{
	*link = wr;
	return &wr->next;
}

/* Where one begins in a chain. */
static const struct ib_send_wr *krdma_wr_first(const struct krdma_wr *w)
{
	return w->sink ? &w->sink->reg.wr : &w->wr.wr;
}

/* The last of the work requests that need a READ behind them, or NULL. */
static struct krdma_wr *krdma_chain_write(struct krdma_wr *chain)
{
	struct krdma_wr *w, *write = NULL;

	for (w = chain; w; w = w->next)
		if (w->unproven)
			write = w;
	return write;
}

static bool krdma_wr_signalled(const struct krdma_wr *w)
{
	return w->wr.wr.send_flags & IB_SEND_SIGNALED;
}

/*
 * Post work requests, every @every-th of them signalled, and the READ behind @write, if there is
 * one. Return: as ib_post_send().
 */
static int krdma_chain_post(struct krdma_channel *ch, struct krdma_wr *chain, u32 every,
			    struct krdma_wr *write, const struct ib_send_wr **bad)
{
	u32 quiet = 0, bytes = 0, completions = 0;
	struct ib_send_wr *wr, **link = &wr;
	struct krdma_wr *w;
	int rc;

	for (w = chain; w; w = w->next) {
		bytes += w->bytes;
		w->wr.wr.send_flags = 0;
		/* The last of all, so that each is sure to end. */
		if (++quiet >= every || bytes >= KRDMA_SIGNAL_BYTES || !w->next) {
			w->wr.wr.send_flags = IB_SEND_SIGNALED;
			completions++;
			quiet = 0;
			bytes = 0;
		}
		if (w->sink)
			link = krdma_wr_link(link, &w->sink->reg.wr);
		link = krdma_wr_link(link, &w->wr.wr);
	}
	if (write) {
		krdma_read_placed(ch, write);
		completions++;
		krdma_stat_inc(KRDMA_STAT_PLACEMENTS);
		if (ch->iwarp && !ch->void_ready)
			link = krdma_wr_link(link, &ch->void_sink->reg.wr);
		link = krdma_wr_link(link, &write->placed.wr);
	}
	*link = NULL;

	krdma_post_count(ch, completions);
	krdma_stat_inc(KRDMA_STAT_DOORBELLS);
	*bad = NULL;
	rc = krdma_inject_post(ch->qp, wr, bad);
	if (write && !rc)
		ch->void_ready = true;
	return rc;
}

/* The channel has failed: work requests that were not posted come to an end. */
static void krdma_chain_failed(struct krdma_channel *ch, struct krdma_wr *chain)
{
	struct krdma_wr *w, *next;

	for (w = chain; w; w = next) {
		next = w->next;
		/* A registration in front of it may have been posted. */
		if (!ch->iwarp)
			krdma_wr_end(ch, w, -ENOTCONN);
	}
}

/* Make it a WRITE of no bytes, which needs no key; of a transfer that has failed. */
static void krdma_wr_empty(struct krdma_wr *w)
{
	w->tail = NULL;
	w->transfer->gap = true;
	w->unproven = false;
	w->wr.wr.opcode = IB_WR_RDMA_WRITE;
	w->wr.wr.num_sge = 0;
	w->wr.remote_addr = 0;
	w->wr.rkey = 0;
}

/*
 * Nothing of the first work request was posted, as it was refused. Its transfer ends, and
 * all that it has in the chain with it. Where those that were posted before it are not signalled
 * (@quiet), it is posted without bytes in its old place: its completion ends them.
 * Return: the work requests that are to be posted
 */
static struct krdma_wr *krdma_chain_refused(struct krdma_channel *ch, struct krdma_wr *chain,
					    bool quiet)
{
	struct krdma_wr *w = chain, *next, *rest = NULL, **link = &rest;
	struct krdma_transfer *x = chain->transfer;

	krdma_transfer_refused(x);
	if (quiet) {
		krdma_wr_empty(w);
		*link = w;
		link = &w->next;
		w = w->next;
	}
	for (; w; w = next) {
		next = w->next;
		if (w->transfer == x) {
			krdma_wr_end(ch, w, -EIO);
		} else {
			*link = w;
			link = &w->next;
		}
	}
	*link = NULL;
	return rest;
}

/*
 * The device has refused one of a chain's work requests. What is before that is posted, what
 * is behind it is posted again.
 * Return: 1; or -ENOTCONN: the channel has failed
 */
static noinline int krdma_chain_again(struct krdma_channel *ch, struct krdma_wr *chain,
				      const struct ib_send_wr *bad, int err)
{
	struct krdma_wr *write = krdma_chain_write(chain), *unread = NULL, *w;
	bool quiet = false;

	/* siw: an error without a bad one means that all are posted all the same. */
	while (bad) {
		for (; chain && bad != krdma_wr_first(chain) && bad != &chain->wr.wr;
		     chain = chain->next) {
			if (chain->unproven)
				unread = chain;
			quiet = !krdma_wr_signalled(chain);
		}
		for (w = chain; w; w = w->next)
			ch->outstanding -= krdma_wr_signalled(w);
		/* The READ is the last of all, so it was not posted. */
		if (write)
			ch->outstanding--;
		/* WRITEs would never be known to have arrived, or a key of ours would live on. */
		if (!chain || bad != krdma_wr_first(chain))
			break;
		if (krdma_post_lost(ch, err))
			break;
		chain = krdma_chain_refused(ch, chain, quiet);
		if (!krdma_post_refused(ch, err))
			break;
		write = krdma_chain_write(chain) ?: unread;
		if (!chain && !write)
			return 1;
		err = krdma_chain_post(ch, chain, 1, write, &bad);
		if (!err)
			return 1;
	}
	krdma_channel_fail(ch, -ENOTCONN, "a work request was not accepted", KRDMA_BYE_LOST);
	krdma_chain_failed(ch, bad ? chain : NULL);
	return -ENOTCONN;
}

/**
 * krdma_wrs_post - post work requests with one doorbell
 * @ch: channel
 * @chain: work requests by ->next, in order
 *
 * Context: channel->lock held, channel up.
 * Return: 0; 1 if the device has refused some: their transfers have ended, with -EIO, and
 *	there is room again; or a negative errno: the channel has failed, and the work requests that
 *	were not posted have ended with an error
 */
int krdma_wrs_post(struct krdma_channel *ch, struct krdma_wr *chain)
{
	const struct ib_send_wr *bad;
	struct krdma_wr *w, *write = NULL;
	u32 n = 0;
	int rc;

	lockdep_assert_held(&ch->lock);
	for (w = chain; w; w = w->next, n++) {
		krdma_local_sync(&w->transfer->local, w->at, w->bytes, true);
		w->posted = true;
		if (w->unproven)
			write = w;
		trace_krdma_post(ch->serial, w->transfer, w->bytes, w->wr.wr.num_sge);
	}
	krdma_stat_add(KRDMA_STAT_WORK_REQUESTS, n);
	rc = krdma_chain_post(ch, chain,
			      ch->iwarp ? 1 : clamp(n / KRDMA_SIGNAL_PARTS, 1U, KRDMA_SIGNAL_MAX),
			      write, &bad);
	if (unlikely(rc))
		return krdma_chain_again(ch, chain, bad, rc);
	ch->refusals = 0;
	return 0;
}

/**
 * krdma_wrs_reap - end what no completion has ended
 * @ch: channel without a queue pair and a completion queue
 *
 * ORDER: the keys of READs die first, then the submitters are notified.
 *
 * Context: process.
 */
void krdma_wrs_reap(struct krdma_channel *ch)
{
	struct krdma_wr *w;
	u32 index;

	/* No lock: no handler runs any more, and nothing is posted. */
	for (index = ch->head; index != ch->tail; index++) {
		w = *krdma_ring_at(ch, index);
		if (w && w->sink)
			krdma_sink_dereg(w);
	}
	krdma_channel_lock(ch);
	for (index = ch->head; index != ch->tail; index++) {
		w = *krdma_ring_at(ch, index);
		if (w)
			krdma_wr_end(ch, w, -ECONNRESET);
	}
	krdma_channel_unlock(ch);
}

/**
 * krdma_wrs_setup - allocate the work requests of a channel
 * @ch: channel; slots is set
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_wrs_free cleans up in either case
 */
int krdma_wrs_setup(struct krdma_channel *ch)
{
	u32 i;

	ch->wrs = krdma_inject(kvcalloc(ch->slots, sizeof(*ch->wrs), GFP_KERNEL), NULL);
	ch->ring = krdma_inject(kvcalloc(ch->slots, sizeof(struct krdma_wr *), GFP_KERNEL), NULL);
	if (!ch->wrs || !ch->ring)
		return -ENOMEM;
	/* Not kvcalloc(): rxe_mr_copy_dma() takes the page of what has no MR by virt_to_page(). */
	if (ch->dev->policy.unproven_reads && !WARN_ON_ONCE(!ib_uses_virt_dma(ch->dev->ib))) {
		ch->tails = krdma_inject(kcalloc(ch->slots, sizeof(*ch->tails), GFP_KERNEL), NULL);
		if (!ch->tails)
			return -ENOMEM;
		ch->mark = get_random_u64();
	}
	for (i = 0; i < ch->slots; i++) {
		struct krdma_wr *w = &ch->wrs[i];

		w->cqe.done = krdma_data_done;
		w->placed_cqe.done = krdma_placed_done;
		/* What is the same in each of its work requests. */
		w->wr.wr.wr_cqe = &w->cqe;
		w->wr.wr.sg_list = w->sge;
		w->next = ch->free;
		ch->free = w;
	}
	return 0;
}

/**
 * krdma_wrs_free - undo krdma_wrs_setup
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_wrs_free(struct krdma_channel *ch)
{
	kfree(ch->tails);
	kvfree(ch->wrs);
	kvfree(ch->ring);
}
