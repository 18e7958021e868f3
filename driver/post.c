// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests: all that is posted but for messages (letter.c), each post beside its
 * completion.
 *
 * Budget of the send queue, reserved at set-up so that no post can fail for
 * want of room:
 *
 *	KRDMA_DATA_SLOTS	READs, WRITEs and atomics, one chunk each; on iWARP twice, for
 *				the READs behind the WRITEs, and
 *	KRDMA_SINKS + 1		registrations of what READs fill
 *	ntx			control messages
 *	KRDMA_PLACES		messages, of an initiator that may send them
 *	KRDMA_REG_SLOTS		registrations or invalidations of the service
 *	1			heartbeat
 *	1			drain (ib_drain_sq)
 *
 * Posting happens under session->lock with the session up, so that nothing is
 * posted behind a drain.
 *
 * iWARP differs in two ways. What a READ fills is registered for it (mr.c). And
 * a WRITE completes when TCP has the bytes: the last of a chain has a READ of its
 * last byte behind it, whose completion is that of all WRITEs before. Not of no
 * bytes: siw answers such a READ with what it sent last (siw_activate_tx keeps the
 * old SGE). And all WRITEs are signalled, or siw hands their pages to TCP, which
 * may send them even after the end of the queue pair. A READ that begins just
 * before the end of a page ends there: siw as the owner answers short ones that go
 * over it with wrong bytes (siw_try_1seg).
 *
 * A chunk is in ch->ring until it has ended. Nothing relies on a completion for
 * each when the queue pair is in error: siw may lose some, and give others twice.
 * What failed on iWARP, or never completed, ends with the queue pair and its
 * completion queue (krdma_post_reap).
 */
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/* Something completed: the path works. */
static void krdma_post_alive(struct krdma_channel *ch)
{
	ch->last_wc = jiffies;
	if (ch->outstanding)
		ch->outstanding--;
	/* Who waits has looked under the same lock, and was on the queue before. */
	if (!ch->outstanding && waitqueue_active(&ch->tx_wait))
		wake_up_all(&ch->tx_wait);
}

/**
 * krdma_post_count - something is about to be posted
 * @ch: channel
 * @n: work requests with a completion each
 *
 * Context: session->lock held.
 */
void krdma_post_count(struct krdma_channel *ch, u32 n)
{
	if (!ch->outstanding)
		ch->last_wc = jiffies;
	ch->outstanding += n;
}

/* A failed completion means that the queue pair is in error: so ends the session. */
static void krdma_post_broken(struct krdma_channel *ch, const struct ib_wc *wc,
			      struct krdma_queue *done)
{
	/* A refused connect flushes the receives: rdma_cm tells the reason. */
	if (ch->sess->state == KRDMA_SESSION_CONNECTING && !ch->sess->inbound) {
		ch->broken = ib_wc_status_msg(wc->status);
		return;
	}
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		pr_info_ratelimited("krdma_mover: session %llu: %s (vendor error %#x)\n",
				    ch->sess->serial, ib_wc_status_msg(wc->status), wc->vendor_err);
	krdma_session_fail_locked(ch->sess, -ECONNRESET, ib_wc_status_msg(wc->status), -1, done);
}

/* ---- data ---- */

/* Registered buffers stay mapped: hand the bytes over and back. */
static void krdma_chunk_sync_runs(struct krdma_channel *ch, struct krdma_chunk *c, bool to_device)
{
	struct krdma_device *dev = ch->sess->dev;
	struct krdma_xfer at = {
		.map = c->xfer->map,
		.local = c->xfer->local,
		.nlocal = c->xfer->nlocal,
		.at = c->at,
	};
	u32 left, len;
	u64 addr;

	for (left = c->bytes; left; left -= len) {
		len = krdma_local_next(&at, dev, left, &addr);
		if (to_device)
			ib_dma_sync_single_for_device(dev->ib, addr, len, at.map->dir);
		else
			ib_dma_sync_single_for_cpu(dev->ib, addr, len, at.map->dir);
	}
}

static void krdma_chunk_sync(struct krdma_channel *ch, struct krdma_chunk *c, bool to_device)
{
	const struct krdma_mapping *map = c->xfer->map;

	if (map && map->need_sync)
		krdma_chunk_sync_runs(ch, c, to_device);
}

static void krdma_chunk_unmap(struct krdma_channel *ch, struct krdma_chunk *c)
{
	for (; c->mapped; c->mapped--)
		krdma_local_unmap(c->xfer, ch->sess->dev->ib, c->sge[c->mapped - 1].addr,
				  c->sge[c->mapped - 1].length);
}

/* Pages that are mapped with the chunk have an SGE for each run. */
static u32 krdma_chunk_pages(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes, u32 max)
{
	struct krdma_session *sess = ch->sess;
	u32 left = bytes, n = 0, len;

	for (; left && n < max; left -= len, n++) {
		len = krdma_pages_next(c->xfer, sess->dev, left, &c->sge[n].addr);
		if (!len)
			break;
		c->sge[n].length = len;
		c->sge[n].lkey = sess->pd->local_dma_lkey;
	}
	c->bytes = bytes - left;
	c->mapped = n;
	return n;
}

static u32 krdma_chunk_registered(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes,
				  u32 max)
{
	struct krdma_xfer *x = c->xfer;
	u32 n = 0, len;

	for (c->bytes = 0; c->bytes < bytes; c->bytes += len) {
		const struct krdma_vec *v = &x->local[x->at.i];

		len = krdma_split_sges(x->map->page, x->map->mem->offset + v->addr + x->at.in,
				       min_t(u64, bytes - c->bytes, v->length - x->at.in),
				       ch->sess->pd->local_dma_lkey, c->sge, max, &n);
		if (!len)
			break;
		krdma_split_step(&x->at, x->local, x->nlocal, len);
	}
	return n;
}

/* The SGEs of a chunk: up to @bytes, from where its transfer stands. */
static u32 krdma_chunk_sges(struct krdma_channel *ch, struct krdma_chunk *c, u32 bytes)
{
	u32 max = c->xfer->opcode == KRDMA_OP_READ ? ch->max_sge_rd : ch->max_sge;

	return c->xfer->bvec ? krdma_chunk_pages(ch, c, bytes, max) :
			       krdma_chunk_registered(ch, c, bytes, max);
}

/* ---- the chunks that are posted, in order ---- */

static struct krdma_chunk **krdma_ring_at(struct krdma_channel *ch, u32 place)
{
	return &ch->ring[place & (KRDMA_DATA_SLOTS - 1)];
}

/* They end in order, but for some on iWARP: there may be chunks to be had, but no place. */
static bool krdma_ring_full(const struct krdma_channel *ch)
{
	return ch->tail - ch->head == KRDMA_DATA_SLOTS;
}

static void krdma_ring_add(struct krdma_channel *ch, struct krdma_chunk *c)
{
	c->place = ch->tail++;
	*krdma_ring_at(ch, c->place) = c;
}

static void krdma_ring_del(struct krdma_channel *ch, struct krdma_chunk *c)
{
	*krdma_ring_at(ch, c->place) = NULL;
	while (ch->head != ch->tail && !*krdma_ring_at(ch, ch->head))
		ch->head++;
}

/* A posted chunk has ended. */
static void krdma_chunk_end(struct krdma_channel *ch, struct krdma_chunk *c, int err,
			    struct krdma_queue *done)
{
	struct krdma_xfer *x = c->xfer;

	lockdep_assert_held(&ch->sess->lock);
	krdma_chunk_sync(ch, c, false);
	c->posted = false;
	krdma_ring_del(ch, c);
	if (c->sink)
		krdma_sink_put(ch, c);
	else
		krdma_chunk_unmap(ch, c);
	krdma_key_unpost(x->region, c->key);
	ch->slots_used--;
	ch->posted_bytes -= c->bytes;
	c->next = ch->free;
	ch->free = c;
	x->chunks--;
	if (err) {
		x->gap = true;
		if (!x->status)
			x->status = err;
	} else if (!x->gap) {
		x->moved += c->bytes;
	}
	if (!x->chunks && (x->status || x->moved == x->length)) {
		if (likely(x->status || !(x->verify | x->mail)))
			krdma_xfer_finish(x, done);
		else if (x->verify)
			krdma_digest_queue(x);
		/* Else the answer to its message ends it. */
	}
}

/* iWARP: its completion does not tell that the bytes are in the peer's memory. */
static bool krdma_needs_read(const struct krdma_xfer *x)
{
	return x->opcode == KRDMA_OP_WRITE && !x->unplaced;
}

static void krdma_data_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_chunk *c = container_of(wc->wr_cqe, struct krdma_chunk, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	int err = wc->status == IB_WC_SUCCESS ? 0 : -ECONNRESET;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	/* Softirqs are off: IB_POLL_SOFTIRQ. */
	spin_lock(&sess->lock);
	krdma_post_alive(ch);
	/* ORDER: the session fails first, so that transfers see why. */
	if (err)
		krdma_post_broken(ch, wc, &done);
	if (!c->posted)
		goto out;
	trace_krdma_complete(sess->serial, c->xfer, c->bytes, wc->status);
	/* Not before the READ behind it; and a key of ours may be alive. */
	if (ch->iwarp && (err || krdma_needs_read(c->xfer)))
		goto out;
	krdma_chunk_end(ch, c, err, &done);
	krdma_xfer_pump(sess, &done);
out:
	spin_unlock(&sess->lock);
	krdma_xfers_finish(&done);
}

/* iWARP: the READ behind WRITEs. */
static void krdma_placed_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_chunk *last = container_of(wc->wr_cqe, struct krdma_chunk, placed_cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 place;

	spin_lock(&sess->lock);
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc, &done);
		goto out;
	}
	if (!last->posted)
		goto out;
	for (place = ch->head; place != last->place + 1; place++) {
		struct krdma_chunk *c = *krdma_ring_at(ch, place);

		if (c && krdma_needs_read(c->xfer))
			krdma_chunk_end(ch, c, 0, &done);
	}
	krdma_xfer_pump(sess, &done);
out:
	spin_unlock(&sess->lock);
	krdma_xfers_finish(&done);
}

/* iWARP: READ the last byte of a WRITE into the void. */
static void krdma_read_placed(struct krdma_channel *ch, struct krdma_chunk *c)
{
	c->placed_sge.addr = ch->void_sink.mr->iova;
	c->placed_sge.length = 1;
	c->placed_sge.lkey = ch->void_sink.mr->lkey;
	memset(&c->placed, 0, sizeof(c->placed));
	c->placed.wr.wr_cqe = &c->placed_cqe;
	c->placed.wr.sg_list = &c->placed_sge;
	c->placed.wr.num_sge = 1;
	c->placed.wr.opcode = IB_WR_RDMA_READ;
	c->placed.wr.send_flags = IB_SEND_SIGNALED;
	c->placed.remote_addr = c->wr.remote_addr + c->bytes - 1;
	c->placed.rkey = c->wr.rkey;
}

static void krdma_chunk_rdma(struct krdma_chunk *c, u64 remote)
{
	c->wr.wr.opcode = c->xfer->opcode == KRDMA_OP_READ ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE;
	if (c->sink) {
		c->wr.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
		c->wr.wr.ex.invalidate_rkey = c->sink->mr->lkey;
	}
	c->wr.remote_addr = remote;
	c->wr.rkey = c->key->rkey;
}

static void krdma_chunk_atomic(struct krdma_chunk *c, u64 remote)
{
	const struct krdma_xfer *x = c->xfer;

	if (x->opcode == KRDMA_OP_CMP_SWAP) {
		c->atomic.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
		c->atomic.compare_add = x->compare;
		c->atomic.swap = x->operand;
	} else {
		c->atomic.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
		c->atomic.compare_add = x->operand;
	}
	c->atomic.remote_addr = remote;
	c->atomic.rkey = c->key->rkey;
}

/**
 * krdma_post_chunk - build the next work request of a transfer
 * @ch: channel
 * @x: transfer, with bytes left to post
 * @key: key of the segment of the next byte
 *
 * Context: session->lock held.
 * Return: the chunk, to be given to krdma_post_chain; NULL if there is no room;
 *	an ERR_PTR if its memory can't be mapped
 */
struct krdma_chunk *krdma_post_chunk(struct krdma_channel *ch, struct krdma_xfer *x,
				     struct krdma_key *key)
{
	const struct krdma_vec *range = &x->range[x->far.i];
	u64 in_seg = krdma_segment_offset(krdma_xfer_at(x), x->region->segment_shift);
	bool read = x->opcode == KRDMA_OP_READ;
	u32 bytes, n = 1;
	struct krdma_chunk *c;
	int rc;

	lockdep_assert_held(&ch->sess->lock);
	c = ch->free;
	if (!c || krdma_ring_full(ch) || ch->posted_bytes >= KRDMA_POSTED_MAX)
		return NULL;

	bytes = krdma_split_bytes(range->length - x->far.in, in_seg, key->length);
	if (read && ch->iwarp)
		bytes = krdma_split_short(bytes, krdma_xfer_at(x));
	c->at = x->at;
	c->mapped = 0;
	c->xfer = x;
	c->key = key;
	if (read && ch->iwarp) {
		rc = krdma_sink_map(ch, c, bytes);
		if (rc)
			return rc == -EAGAIN ? NULL : ERR_PTR(rc);
	} else {
		n = krdma_chunk_sges(ch, c, bytes);
		/* What others have mapped may be in the way, and comes back. */
		if (!n)
			return ch->slots_used ? NULL : ERR_PTR(-EIO);
	}
	krdma_split_step(&x->far, x->range, x->nrange, c->bytes);

	c->wr.wr.num_sge = n;
	if (krdma_opcode_atomic(x->opcode))
		krdma_chunk_atomic(c, key->address + in_seg);
	else
		krdma_chunk_rdma(c, key->address + in_seg);

	ch->free = c->next;
	krdma_ring_add(ch, c);
	ch->slots_used++;
	ch->posted_bytes += c->bytes;
	key->posted++;
	x->region->posted++;
	x->chunks++;
	x->posted += c->bytes;
	return c;
}

/* Chain a chunk's work requests. Return: where the next ones are to be chained. */
static struct ib_send_wr **krdma_chunk_link(struct krdma_chunk *c, struct ib_send_wr **link)
{
	if (c->sink) {
		*link = &c->sink->reg.wr;
		link = &c->sink->reg.wr.next;
	}
	*link = &c->wr.wr;
	return &c->wr.wr.next;
}

/* Some of a chain was not accepted: the session has failed, the rest comes to an end. */
static void krdma_chain_failed(struct krdma_channel *ch, struct krdma_chunk *chain,
			       const struct ib_send_wr *bad, struct krdma_queue *done)
{
	struct krdma_chunk *c, *next;

	for (c = chain; c; c = next) {
		next = c->next;
		if (bad == &c->wr.wr || (c->sink && bad == &c->sink->reg.wr))
			bad = NULL;
		/* Before the bad one they were posted: their completions will come. */
		if (bad)
			continue;
		ch->outstanding--;
		/* A registration in front of it may have been posted. */
		if (!ch->iwarp)
			krdma_chunk_end(ch, c, -ENOTCONN, done);
	}
}

/**
 * krdma_post_chain - post chunks with one doorbell
 * @ch: channel
 * @chain: chunks by ->next, in order
 * @done: transfers that ended
 *
 * Context: session->lock held, session up.
 * Return: 0, or a negative errno: the session has failed then, and the chunks
 *	that were not posted have ended with an error
 */
int krdma_post_chain(struct krdma_channel *ch, struct krdma_chunk *chain, struct krdma_queue *done)
{
	struct krdma_chunk *c, *last_write = NULL;
	const struct ib_send_wr *bad = NULL;
	struct ib_send_wr *first, **link = &first;
	int rc;

	lockdep_assert_held(&ch->sess->lock);
	for (c = chain; c; c = c->next) {
		link = krdma_chunk_link(c, link);
		krdma_chunk_sync(ch, c, true);
		krdma_post_count(ch, 1);
		c->posted = true;
		if (krdma_needs_read(c->xfer))
			last_write = c;
		krdma_stat_inc(KRDMA_STAT_CHUNKS);
		trace_krdma_post(ch->sess->serial, c->xfer, c->bytes, c->wr.wr.num_sge);
	}
	if (ch->iwarp && last_write) {
		krdma_read_placed(ch, last_write);
		krdma_post_count(ch, 1);
		if (!ch->void_ready) {
			*link = &ch->void_sink.reg.wr;
			link = &ch->void_sink.reg.wr.next;
			ch->void_ready = true;
		}
		*link = &last_write->placed.wr;
		link = &last_write->placed.wr.next;
	}
	*link = NULL;

	krdma_stat_inc(KRDMA_STAT_DOORBELLS);
	rc = ib_post_send(ch->qp, first, &bad);
	if (rc) {
		krdma_session_fail_locked(ch->sess, -ENOTCONN, "a work request was not accepted",
					  -1, done);
		/* siw: an error without a bad one means that all are posted all the same. */
		if (bad) {
			/* The last of the chain, so it was not posted. */
			if (ch->iwarp && last_write)
				ch->outstanding--;
			krdma_chain_failed(ch, chain, bad, done);
		}
	}
	return rc;
}

/**
 * krdma_post_reap - end what no completion has ended
 * @ch: channel without a queue pair and a completion queue
 *
 * ORDER: the keys of READs die first, then the submitters are told.
 *
 * Context: process.
 */
void krdma_post_reap(struct krdma_channel *ch)
{
	struct krdma_chunk *c;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 place;

	/* No lock: no handler runs any more, and nothing is posted. */
	for (place = ch->head; place != ch->tail; place++) {
		c = *krdma_ring_at(ch, place);
		if (c && c->sink)
			krdma_sink_dereg(c);
	}
	spin_lock_bh(&ch->sess->lock);
	for (place = ch->head; place != ch->tail; place++) {
		c = *krdma_ring_at(ch, place);
		if (c)
			krdma_chunk_end(ch, c, -ECONNRESET, &done);
	}
	spin_unlock_bh(&ch->sess->lock);
	krdma_xfers_finish(&done);
}

/* ---- control messages ---- */

static void krdma_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_rx *rx = container_of(wc->wr_cqe, struct krdma_rx, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_session *sess = ch->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	if (wc->status != IB_WC_SUCCESS) {
		krdma_post_broken(ch, wc, &done);
	} else if (wc->opcode != IB_WC_RECV || wc->byte_len > ch->rx_size ||
		   (wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE))) {
		/* Not in the protocol; and rxe does not look whose key is invalidated. */
		krdma_stat_inc(KRDMA_STAT_PROTOCOL_ERRORS);
		krdma_session_fail_locked(sess, -ECONNRESET, "the peer sent more than a message",
					  KRDMA_WIRE_REASON_PROTOCOL, &done);
	} else if (sess->state <= KRDMA_SESSION_UP) {
		ch->heard = true;
		rx->len = wc->byte_len;
		list_add_tail(&rx->node, &ch->rx_list);
		ch->last_wc = jiffies;
		queue_work(krdma_wq, &sess->rx_work);
	}
	spin_unlock_bh(&sess->lock);
	krdma_xfers_finish(&done);
}

/**
 * krdma_post_rx - give a receive buffer to the queue pair
 * @ch: channel
 * @rx: the buffer, handled by now
 *
 * Context: any; no session lock held.
 * Return: 0 or a negative errno
 */
int krdma_post_rx(struct krdma_channel *ch, struct krdma_rx *rx)
{
	struct ib_device *ib = ch->sess->dev->ib;
	struct ib_sge sge = {
		.addr = rx->dma,
		.length = ch->rx_size,
		.lkey = ch->sess->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &rx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	int rc = -ENOTCONN;

	ib_dma_sync_single_for_device(ib, rx->dma, ch->rx_size, DMA_FROM_DEVICE);
	spin_lock_bh(&ch->sess->lock);
	if (ch->sess->state <= KRDMA_SESSION_UP)
		rc = ib_post_recv(ch->qp, &wr, NULL);
	/* The peer counts on it. */
	if (rc && ch->sess->state == KRDMA_SESSION_UP)
		krdma_session_fail_locked(ch->sess, -ENOTCONN, "a receive was not accepted", -1,
					  &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_xfers_finish(&done);
	return rc;
}

/**
 * krdma_post_receives - post all receives, before the peer can send
 * @ch: channel with a queue pair
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_post_receives(struct krdma_channel *ch)
{
	int rc;
	u32 i;

	for (i = 0; i < ch->nrx; i++) {
		rc = krdma_post_rx(ch, &ch->rx[i]);
		if (rc)
			return rc;
	}
	return 0;
}

/* Under the lock to the end: who waits for the last may free the channel. */
static void krdma_tx_free(struct krdma_channel *ch, struct krdma_tx *tx)
{
	tx->posted = false;
	list_add(&tx->node, &ch->tx_free);
	ch->tx_busy--;
	wake_up(&ch->tx_wait);
}

static void krdma_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_tx *tx = container_of(wc->wr_cqe, struct krdma_tx, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	krdma_post_completed_locked(ch, wc, &done);
	if (tx->posted)
		krdma_tx_free(ch, tx);
	spin_unlock_bh(&ch->sess->lock);
	krdma_xfers_finish(&done);
}

static bool krdma_tx_try(struct krdma_channel *ch, bool last, struct krdma_tx **tx)
{
	bool over;

	spin_lock_bh(&ch->sess->lock);
	over = !last && ch->sess->state != KRDMA_SESSION_UP;
	/* ORDER: none is taken when down, so that down_work can wait for those out. */
	*tx = over ? NULL : list_first_entry_or_null(&ch->tx_free, struct krdma_tx, node);
	if (*tx) {
		list_del(&(*tx)->node);
		ch->tx_busy++;
		ch->tx_taken++;
	}
	spin_unlock_bh(&ch->sess->lock);
	return *tx || over || last;
}

/**
 * krdma_post_tx_get - take a buffer for a control message
 * @ch: channel
 * @last: for a BYE of a closing session: do not wait
 *
 * Waits until an earlier message has gone out, which the heartbeat bounds.
 *
 * Context: process.
 * Return: the buffer, NULL if there is none and the session is down
 */
struct krdma_tx *krdma_post_tx_get(struct krdma_channel *ch, bool last)
{
	struct krdma_tx *tx;

	wait_event(ch->tx_wait, krdma_tx_try(ch, last, &tx));
	return tx;
}

/**
 * krdma_post_tx_put - give a buffer back that was not posted
 * @ch: channel
 * @tx: the buffer
 *
 * Context: any; no session lock held.
 */
void krdma_post_tx_put(struct krdma_channel *ch, struct krdma_tx *tx)
{
	spin_lock_bh(&ch->sess->lock);
	ch->tx_taken--;
	krdma_tx_free(ch, tx);
	spin_unlock_bh(&ch->sess->lock);
}

/**
 * krdma_post_tx - send a control message
 * @ch: channel
 * @tx: buffer with the encoded message; owned by the post from here
 * @len: bytes
 * @last: a BYE, the one message that a closing session may send
 *
 * Context: any; no session lock held.
 * Return: 0 or -ENOTCONN
 */
int krdma_post_tx(struct krdma_channel *ch, struct krdma_tx *tx, u32 len, bool last)
{
	struct krdma_session *sess = ch->sess;
	struct ib_sge sge = {
		.addr = tx->dma,
		.length = len,
		.lkey = sess->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &tx->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	const struct ib_send_wr *bad = NULL;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	int rc = -ENOTCONN;

	ib_dma_sync_single_for_device(sess->dev->ib, tx->dma, len, DMA_TO_DEVICE);
	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP || (last && sess->state == KRDMA_SESSION_CLOSING)) {
		krdma_post_count(ch, 1);
		rc = ib_post_send(ch->qp, &wr, &bad);
		tx->posted = !rc || !bad;
		if (rc) {
			if (bad)
				ch->outstanding--;
			krdma_session_fail_locked(sess, -ENOTCONN, "a message was not accepted", -1,
						  &done);
			rc = -ENOTCONN;
		}
	}
	ch->tx_taken--;
	if (!tx->posted)
		krdma_tx_free(ch, tx);
	else
		wake_up(&ch->tx_wait);
	if (!rc)
		krdma_stat_inc(KRDMA_STAT_MESSAGES_SENT);
	spin_unlock_bh(&sess->lock);
	krdma_xfers_finish(&done);
	return rc;
}

/* ---- the service's registrations ---- */

static bool krdma_post_wrs_try(struct krdma_channel *ch, struct ib_send_wr *first, u32 n,
			       bool alone, u32 *ret)
{
	struct krdma_session *sess = ch->sess;
	const struct ib_send_wr *bad = NULL, *wr;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	u32 posted = 0;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP) {
		if (alone && ch->outstanding) {
			spin_unlock_bh(&sess->lock);
			return false;
		}
		posted = n;
		krdma_post_count(ch, n);
		if (ib_post_send(ch->qp, first, &bad)) {
			/* All of them where none is bad: siw. */
			for (posted = 0, wr = first; wr && wr != bad; wr = wr->next)
				posted++;
			ch->outstanding -= n - posted;
			krdma_session_fail_locked(sess, -ENOTCONN,
						  "a registration was not accepted", -1, &done);
		}
	}
	spin_unlock_bh(&sess->lock);
	krdma_xfers_finish(&done);
	*ret = posted;
	return true;
}

/**
 * krdma_post_wrs - post work requests whose completions the caller handles
 * @ch: channel
 * @first: chain of signalled work requests
 * @n: their number, at most KRDMA_REG_SLOTS
 *
 * Each handler calls krdma_post_completed.
 *
 * A registration waits on rxe until all before it has been acknowledged: if a
 * packet is lost, rxe does again all that came behind it, local work requests
 * as well (req_retry), and a registration done twice breaks the queue pair. Not
 * for ever, as a peer may keep us busy with questions.
 *
 * Context: process; only the session's service.
 * Return: number posted; less than @n only if the session is down or goes down
 */
u32 krdma_post_wrs(struct krdma_channel *ch, struct ib_send_wr *first, u32 n)
{
	bool alone = ch->sess->dev->repeats && first->opcode == IB_WR_REG_MR;
	u32 posted;

	if (!wait_event_timeout(ch->tx_wait, krdma_post_wrs_try(ch, first, n, alone, &posted),
				msecs_to_jiffies(KRDMA_ALONE_MS)))
		krdma_post_wrs_try(ch, first, n, false, &posted);
	return posted;
}

/**
 * krdma_post_completed_locked - account for a completion
 * @ch: channel
 * @wc: the completion
 * @done: transfers that ended
 *
 * Context: completion handler, session->lock held.
 */
void krdma_post_completed_locked(struct krdma_channel *ch, const struct ib_wc *wc,
				 struct krdma_queue *done)
{
	krdma_post_alive(ch);
	if (wc->status != IB_WC_SUCCESS)
		krdma_post_broken(ch, wc, done);
}

/**
 * krdma_post_completed - account for completions of krdma_post_wrs
 * @ch: channel
 * @wc: the completion
 *
 * Context: completion handler; no session lock held.
 */
void krdma_post_completed(struct krdma_channel *ch, const struct ib_wc *wc)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	krdma_post_completed_locked(ch, wc, &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_xfers_finish(&done);
}

/* ---- heartbeat ---- */

static void krdma_heartbeat_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	ch->heartbeat = false;
	krdma_post_completed_locked(ch, wc, &done);
	spin_unlock_bh(&ch->sess->lock);
	krdma_xfers_finish(&done);
}

/**
 * krdma_post_heartbeat - ask the peer's adapter for a sign of life
 * @ch: channel of a session that is up
 * @done: transfers that ended
 *
 * A WRITE of no bytes needs no key and no receive, and the peer's software has
 * no part in its acknowledgment. Not a READ: rxe up to 6.1 breaks the queue
 * pair when the answer to an empty one is lost (read_reply looks for its key
 * again). Not on iWARP, where it completes without the peer: krdma_ctl_heartbeat.
 *
 * Context: session->lock held.
 */
void krdma_post_heartbeat(struct krdma_channel *ch, struct krdma_queue *done)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &ch->heartbeat_cqe,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
	};

	lockdep_assert_held(&ch->sess->lock);
	if (ch->heartbeat)
		return;
	krdma_post_count(ch, 1);
	if (ib_post_send(ch->qp, &wr.wr, NULL)) {
		ch->outstanding--;
		krdma_session_fail_locked(ch->sess, -ENOTCONN, "a heartbeat was not accepted", -1,
					  done);
		return;
	}
	ch->heartbeat = true;
	krdma_stat_inc(KRDMA_STAT_HEARTBEATS);
}

/* ---- set-up ---- */

/**
 * krdma_buf_map - a buffer that is sent from or received into
 * @ib: device
 * @buf: out: the buffer, zeroed; NULL on failure
 * @dma: out: its address for the device
 * @size: bytes
 * @dir: direction
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_buf_map(struct ib_device *ib, void **buf, u64 *dma, u32 size, enum dma_data_direction dir)
{
	*buf = kzalloc(size, GFP_KERNEL);
	if (!*buf)
		return -ENOMEM;
	*dma = ib_dma_map_single(ib, *buf, size, dir);
	if (ib_dma_mapping_error(ib, *dma)) {
		kfree(*buf);
		*buf = NULL;
		return -ENOMEM;
	}
	return 0;
}

/**
 * krdma_buf_unmap - undo krdma_buf_map
 * @ib: device
 * @buf: the buffer, or NULL
 * @dma: its address
 * @size: bytes
 * @dir: direction
 *
 * Context: process.
 */
void krdma_buf_unmap(struct ib_device *ib, void *buf, u64 dma, u32 size,
		     enum dma_data_direction dir)
{
	if (!buf)
		return;
	ib_dma_unmap_single(ib, dma, size, dir);
	kfree(buf);
}

/**
 * krdma_post_setup - allocate what a channel posts
 * @ch: channel; slots, ntx and nrx are set
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_post_teardown cleans up in either case
 */
int krdma_post_setup(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->sess->dev->ib;
	int rc;
	u32 i;

	/* A place in the ring is found by a mask. */
	BUILD_BUG_ON_NOT_POWER_OF_2(KRDMA_DATA_SLOTS);
	ch->heartbeat_cqe.done = krdma_heartbeat_done;
	ch->chunks = kvcalloc(ch->slots, sizeof(*ch->chunks), GFP_KERNEL);
	ch->ring = kcalloc(ch->slots, sizeof(struct krdma_chunk *), GFP_KERNEL);
	ch->tx = kcalloc(ch->ntx, sizeof(*ch->tx), GFP_KERNEL);
	ch->rx = kcalloc(ch->nrx, sizeof(*ch->rx), GFP_KERNEL);
	if (!ch->chunks || !ch->ring || !ch->tx || !ch->rx)
		return -ENOMEM;

	for (i = 0; i < ch->slots; i++) {
		struct krdma_chunk *c = &ch->chunks[i];

		c->cqe.done = krdma_data_done;
		c->placed_cqe.done = krdma_placed_done;
		/* What is the same in each of its work requests. */
		c->wr.wr.wr_cqe = &c->cqe;
		c->wr.wr.sg_list = c->sge;
		c->wr.wr.send_flags = IB_SEND_SIGNALED;
		c->next = ch->free;
		ch->free = c;
	}
	for (i = 0; i < ch->ntx; i++) {
		rc = krdma_buf_map(ib, &ch->tx[i].buf, &ch->tx[i].dma, KRDMA_WIRE_MSG_MAX,
				   DMA_TO_DEVICE);
		if (rc)
			return rc;
		ch->tx[i].cqe.done = krdma_tx_done;
		list_add_tail(&ch->tx[i].node, &ch->tx_free);
	}
	for (i = 0; i < ch->nrx; i++) {
		rc = krdma_buf_map(ib, &ch->rx[i].buf, &ch->rx[i].dma, ch->rx_size,
				   DMA_FROM_DEVICE);
		if (rc)
			return rc;
		ch->rx[i].cqe.done = krdma_rx_done;
	}
	rc = ch->messages && ch->slots ? krdma_letters_setup(ch) : 0;
	if (rc)
		return rc;
	return ch->iwarp && ch->slots ? krdma_sinks_setup(ch) : 0;
}

/**
 * krdma_post_teardown - free what a channel posts
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_post_teardown(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->sess->dev->ib;
	u32 i;

	for (i = 0; ch->tx && i < ch->ntx; i++)
		krdma_buf_unmap(ib, ch->tx[i].buf, ch->tx[i].dma, KRDMA_WIRE_MSG_MAX,
				DMA_TO_DEVICE);
	for (i = 0; ch->rx && i < ch->nrx; i++)
		krdma_buf_unmap(ib, ch->rx[i].buf, ch->rx[i].dma, ch->rx_size, DMA_FROM_DEVICE);
	krdma_letters_free(ch);
	krdma_sinks_free(ch);
	kvfree(ch->chunks);
	kfree(ch->ring);
	kfree(ch->tx);
	kfree(ch->rx);
}
