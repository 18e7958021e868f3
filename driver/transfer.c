// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers: from submission to the one terminal status.
 *
 * A transfer is on one list at a time by .node:
 *
 *	session->ready		can be posted as soon as there is room; or in a
 *				krdma_queue, while they are submitted
 *	session->unmapped	its memory could not be mapped for DMA: tried again when a
 *				mapping has gone, and by the tick, until the deadline
 *	region->waiters		lacks the key of its next segment
 *	region->digests		the peer's digest of it is not known
 *	region->senders		its message waits for a place
 *	(none)			all that will be posted is on the wire, or it is held:
 *				others have to end before it starts
 *	(none)			ended, in a krdma_queue: ->done is called without the lock
 *
 * and on session->transfers by .all until it ends. It ends when it has a status,
 * or all its bytes (verified, if asked for), and no chunk of it is on the wire any more,
 * nor is its memory being read for a digest, which counts as a chunk: a posted work
 * request can't be taken back, so a deadline only keeps the next from being
 * posted.
 */
#include "krdma.h"
#include "trace.h"

/**
 * krdma_transfer_wait_since - krdma_transfer_wait where the time is known
 * @x: transfer
 * @wait: what for
 * @now: the time
 *
 * Context: session->lock held.
 */
void krdma_transfer_wait_since(struct krdma_transfer *x, enum krdma_wait wait, ktime_t now)
{
	if (x->wait == wait)
		return;
	x->wait = wait;
	x->since = now;
	trace_krdma_transfer_wait(x->sess->serial, x, wait);
}

/**
 * krdma_transfer_wait - note what a transfer waits for
 * @x: transfer
 * @wait: what for
 *
 * Context: session->lock held.
 */
void krdma_transfer_wait(struct krdma_transfer *x, enum krdma_wait wait)
{
	krdma_transfer_wait_since(x, wait, ktime_get());
}

/**
 * krdma_transfer_ready - a transfer can be posted again
 * @x: transfer on its region's waiters
 *
 * Context: session->lock held.
 */
void krdma_transfer_ready(struct krdma_transfer *x)
{
	lockdep_assert_held(&x->sess->lock);
	list_move_tail(&x->node, &x->sess->ready);
	krdma_transfer_wait(x, KRDMA_WAIT_SLOT);
}

/**
 * krdma_transfer_finish - the one place where a transfer becomes finished
 * @x: transfer with a status or all its bytes, and nothing on the wire
 * @done: gets it
 *
 * Context: session->lock held.
 */
void krdma_transfer_finish(struct krdma_transfer *x, struct krdma_queue *done)
{
	struct krdma_session *sess = x->sess;

	if (x->moved == x->length && !(x->verify | x->mail))
		x->status = 0;
	if (x->status) {
		sess->failures++;
		krdma_stat_inc(KRDMA_STAT_TRANSFERS_FAILED);
		if (x->status == -ETIMEDOUT)
			krdma_stat_inc(KRDMA_STAT_TRANSFERS_TIMED_OUT);
	} else {
		sess->ended_transfers++;
	}
	if (x->opcode == KRDMA_OP_READ) {
		sess->bytes_read += x->moved;
		krdma_stat_inc(KRDMA_STAT_READS);
		krdma_stat_add(KRDMA_STAT_READ_BYTES, x->moved);
	} else if (x->opcode == KRDMA_OP_WRITE) {
		sess->bytes_written += x->moved;
		krdma_stat_inc(KRDMA_STAT_WRITES);
		krdma_stat_add(KRDMA_STAT_WRITE_BYTES, x->moved);
	} else if (x->opcode == KRDMA_OP_DIGEST) {
		krdma_stat_inc(KRDMA_STAT_DIGESTS);
	} else if (x->opcode == KRDMA_OP_SEND) {
		krdma_stat_inc(KRDMA_STAT_SENDS);
	} else {
		krdma_stat_inc(KRDMA_STAT_ATOMICS);
	}
	trace_krdma_transfer_end(sess->serial, x, x->status);
	x->ended = true;
	if (unlikely(sess->scan == &x->all))
		sess->scan = x->all.next;
	hlist_del_init(&x->all);
	sess->ntransfers--;
	/* Mostly it is on no list: all of it was on the wire. */
	if (!list_empty(&x->node)) {
		list_del_init(&x->node);
		/* The answer finds nobody any more. */
		if (x->region->asked == x)
			x->region->asked = NULL;
	}
	/* Nor the answer to its message. */
	if (unlikely(x->letter)) {
		x->letter->transfer = NULL;
		x->letter = NULL;
	}
	krdma_queue_add(done, x);
}

/**
 * krdma_transfer_again - move all of a transfer once more
 * @x: transfer that is on a list by ->node, with nothing on the wire
 *
 * Context: session->lock held.
 */
void krdma_transfer_again(struct krdma_transfer *x)
{
	x->at = x->from;
	x->far = (struct krdma_cursor){};
	x->posted = 0;
	x->moved = 0;
	krdma_transfer_ready(x);
}

/**
 * krdma_transfer_end - give an unfinished transfer a status
 * @x: transfer
 * @err: negative errno; an earlier one stays
 * @done: gets the transfer if nothing of it is on the wire
 *
 * Context: session->lock held.
 */
void krdma_transfer_end(struct krdma_transfer *x, int err, struct krdma_queue *done)
{
	lockdep_assert_held(&x->sess->lock);
	if (!x->status)
		x->status = err;
	if (!x->chunks) {
		krdma_transfer_finish(x, done);
		return;
	}
	list_del_init(&x->node);
	krdma_transfer_wait(x, KRDMA_WAIT_WIRE);
}

/**
 * krdma_transfer_refused - the device has refused a work request of a transfer
 * @x: transfer
 * @done: gets the transfer if nothing of it is on the wire
 *
 * Context: session->lock held.
 */
void krdma_transfer_refused(struct krdma_transfer *x, struct krdma_queue *done)
{
	x->refused = !x->status;
	krdma_transfer_end(x, -EIO, done);
}

/**
 * krdma_transfer_answered - end a transfer with what was answered
 * @x: transfer
 * @err: of the peer's answer; or why there is none
 * @done: gets it
 *
 * Context: session->lock held.
 */
void krdma_transfer_answered(struct krdma_transfer *x, int err, struct krdma_queue *done)
{
	if (!x->status)
		x->answered = err != -ENOTCONN;
	krdma_transfer_end(x, err, done);
}

/* Why it ends whose deadline has passed. */
static int krdma_transfer_late(const struct krdma_transfer *x)
{
	return x->unmapped ? -EIO : -ETIMEDOUT;
}

/* Others go on: what it lacks may be short for them as well, or for it alone. */
static void krdma_transfer_unmapped(struct krdma_transfer *x, ktime_t now)
{
	x->unmapped = true;
	list_move_tail(&x->node, &x->sess->unmapped);
	krdma_session_tick_by(x->sess, ktime_add_ms(now, KRDMA_MAP_AGAIN_MS));
}

/* Whose turn it is. */
static struct krdma_transfer *krdma_pump_next(struct krdma_session *sess,
					      struct krdma_transfer **fresh)
{
	struct krdma_transfer *x = *fresh;

	if (!x)
		return list_first_entry_or_null(&sess->ready, struct krdma_transfer, node);
	*fresh = x->next;
	return x;
}

/* There is no room for these: it is their turn before that of any that had a chunk. */
static void krdma_pump_keep(struct krdma_session *sess, struct krdma_transfer *fresh)
{
	LIST_HEAD(rest);

	for (; fresh; fresh = fresh->next)
		list_add_tail(&fresh->node, &rest);
	list_splice(&rest, &sess->ready);
}

/**
 * krdma_transfer_pump_ready - krdma_transfer_pump where something is ready
 * @sess: session
 * @fresh: NULL; or transfers that have just been submitted, by ->next, where nothing
 *	else is ready: mostly they are posted at once, and need no list
 * @done: transfers that ended
 *
 * Context: session->lock held.
 */
void krdma_transfer_pump_ready(struct krdma_session *sess, struct krdma_transfer *fresh,
			       struct krdma_queue *done)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_transfer *x;
	struct krdma_chunk *chain, **link;
	ktime_t now;
	int rc;

	lockdep_assert_held(&sess->lock);
	if (sess->state != KRDMA_SESSION_UP)
		return;
	now = ktime_get();
again:
	chain = NULL;
	link = &chain;
	while ((x = krdma_pump_next(sess, &fresh))) {
		struct krdma_region *region = x->region;
		struct krdma_chunk *c;
		struct krdma_key *key;

		/* The tick ends those that wait; nothing is posted behind its back. */
		if (ktime_compare(x->deadline, now) <= 0) {
			krdma_transfer_end(x, krdma_transfer_late(x), done);
			continue;
		}
		if (x->opcode == KRDMA_OP_DIGEST) {
			krdma_digest_queue(x);
			continue;
		}
		if (x->opcode == KRDMA_OP_SEND) {
			krdma_letter_queue(x, now, done);
			continue;
		}
		key = krdma_region_key(region, krdma_transfer_at(x));
		if (!key || !key->valid) {
			list_move_tail(&x->node, &region->waiters);
			krdma_transfer_wait_since(x, KRDMA_WAIT_CREDIT, now);
			krdma_region_want(region);
			continue;
		}
		c = krdma_chunk_build(ch, x, key);
		if (!c) {
			if (list_empty(&x->node))
				fresh = x;
			break;
		}
		if (c == ERR_PTR(-EAGAIN)) {
			krdma_transfer_unmapped(x, now);
			continue;
		}
		if (IS_ERR(c)) {
			krdma_transfer_end(x, PTR_ERR(c), done);
			continue;
		}
		c->next = NULL;
		*link = c;
		link = &c->next;
		if (unlikely(x->mail && !x->verify && x->posted == x->length)) {
			krdma_letter_queue(x, now, done);
		} else if (x->posted == x->length) {
			if (!list_empty(&x->node))
				list_del_init(&x->node);
			krdma_transfer_wait_since(x, KRDMA_WAIT_WIRE, now);
		} else {
			list_move_tail(&x->node, &sess->ready);
		}
	}
	/* ORDER: before the session may fail, which ends all of its transfers. */
	if (unlikely(fresh))
		krdma_pump_keep(sess, fresh);
	rc = chain ? krdma_chunks_post(ch, chain, done) : 0;
	if (unlikely(rc < 0))
		return;
	/* Perhaps nothing is on the wire that would go on here when it ends. */
	if (unlikely(rc)) {
		fresh = NULL;
		goto again;
	}
	/* ORDER: behind the WRITEs that they tell of. */
	if (!list_empty(&sess->mail))
		krdma_letters_post(sess, now, done);
}

static void krdma_transfer_begin(struct krdma_transfer *x, ktime_t now, struct krdma_queue *fresh,
				 struct krdma_queue *done)
{
	struct krdma_session *sess = x->sess;

	x->deadline = x->timeout < KTIME_MAX - now ? now + x->timeout : KTIME_MAX;
	x->submitted = now;
	x->since = now;
	if (unlikely(x->verify))
		x->from = x->at;
	x->wait = x->held ? KRDMA_WAIT_TURN : KRDMA_WAIT_SLOT;
	trace_krdma_transfer_submit(sess->serial, x);
	hlist_add_head(&x->all, &sess->transfers);
	sess->ntransfers++;
	if (x->status) {
		krdma_transfer_end(x, x->status, done);
	} else if (x->region->err) {
		krdma_transfer_end(x, x->region->err, done);
	} else if (sess->state != KRDMA_SESSION_UP) {
		krdma_transfer_end(x, -ENOTCONN, done);
	} else {
		if (ktime_before(x->deadline, sess->tick_at))
			krdma_session_tick_by(sess, x->deadline);
		if (likely(!x->held && list_empty(&sess->ready)))
			krdma_queue_add(fresh, x);
		else if (!x->held)
			list_add_tail(&x->node, &sess->ready);
	}
}

/**
 * krdma_transfers_submit - start transfers
 * @batch: transfers, filled in by the submitter, who holds references on what
 *	they use; empty on return
 *
 * Those of a session that follow each other have one doorbell. ->done is called
 * once for each, perhaps before this returns.
 *
 * Context: any; no session lock held.
 */
void krdma_transfers_submit(struct krdma_queue *batch)
{
	struct krdma_transfer *x = batch->first, *next;
	ktime_t now = ktime_get();
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	krdma_queue_init(batch);
	while (x) {
		struct krdma_queue fresh = KRDMA_QUEUE_INIT(fresh);
		struct krdma_session *sess = x->sess;

		spin_lock_bh(&sess->lock);
		for (; x && x->sess == sess; x = next) {
			/* One that ends at once is in another queue. */
			next = x->next;
			krdma_transfer_begin(x, now, &fresh, &done);
		}
		if (fresh.first)
			krdma_transfer_pump_ready(sess, fresh.first, &done);
		else
			krdma_transfer_pump(sess, &done);
		/* ORDER: a session is there as long as something of it is under way. */
		spin_unlock_bh(&sess->lock);
		krdma_transfers_finish(&done);
	}
}

/**
 * krdma_transfer_release - it is the turn of a transfer that was held
 * @x: transfer; it may have ended, or not be submitted yet
 * @done: transfers that ended
 *
 * Context: any; no session lock held.
 */
void krdma_transfer_release(struct krdma_transfer *x, struct krdma_queue *done)
{
	struct krdma_session *sess = x->sess;

	spin_lock_bh(&sess->lock);
	if (x->held) {
		x->held = false;
		if (!hlist_unhashed(&x->all) && !x->status) {
			list_add_tail(&x->node, &sess->ready);
			krdma_transfer_wait(x, KRDMA_WAIT_SLOT);
			krdma_transfer_pump(sess, done);
		}
	}
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_transfer_cancel - post nothing more of a transfer
 * @x: transfer; it may have ended, or not be submitted yet
 * @err: its status, if it has not
 * @done: gets the transfer if nothing of it is on the wire
 *
 * Context: any; no session lock held.
 */
void krdma_transfer_cancel(struct krdma_transfer *x, int err, struct krdma_queue *done)
{
	spin_lock_bh(&x->sess->lock);
	if (!hlist_unhashed(&x->all))
		krdma_transfer_end(x, err, done);
	else if (!x->ended && !x->status)
		x->status = err;
	spin_unlock_bh(&x->sess->lock);
}

static void krdma_transfer_fail(struct krdma_transfer *x, struct krdma_queue *done)
{
	if (x->status)
		return;
	krdma_transfer_end(x,
			   x->posted || x->letter || x->verify == KRDMA_VERIFY_AGAIN ? -ECONNRESET :
										       -ENOTCONN,
			   done);
}

/* Of those that are looked at one by one the next; they come and go meanwhile. */
static struct krdma_transfer *krdma_transfers_next(struct krdma_session *sess)
{
	struct hlist_node *node = sess->scan;

	lockdep_assert_held(&sess->lock);
	if (!node)
		return NULL;
	/* Whose end comes before its turn is taken off here by krdma_transfer_finish(). */
	sess->scan = node->next;
	return hlist_entry(node, struct krdma_transfer, all);
}

/* Let others have the processor and the lock, and complete the transfers that have ended. */
static void krdma_transfers_pause(struct krdma_session *sess, struct krdma_queue *done)
{
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(done);
	cond_resched();
	spin_lock_bh(&sess->lock);
}

/**
 * krdma_transfers_fail - begin to end the transfers of a session that goes down
 * @sess: session, closing
 * @done: those with nothing on the wire; the others follow with their chunks
 *
 * The first ones: mostly it is all of them. krdma_transfers_fail_rest() has those that are left.
 *
 * Context: session->lock held.
 */
void krdma_transfers_fail(struct krdma_session *sess, struct krdma_queue *done)
{
	struct hlist_node *next;
	struct krdma_transfer *x;
	u32 n = 0;

	lockdep_assert_held(&sess->lock);
	hlist_for_each_entry_safe(x, next, &sess->transfers, all) {
		if (n == KRDMA_TRANSFER_BATCH)
			break;
		n++;
		krdma_transfer_fail(x, done);
	}
	trace_krdma_transfer_batch(sess->serial, n, sess->ntransfers);
}

/**
 * krdma_transfers_fail_rest - end all transfers of a session that goes down
 * @sess: session, closing, without a tick; twice does no harm
 *
 * Context: work.
 */
void krdma_transfers_fail_rest(struct krdma_session *sess)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	struct krdma_transfer *x;
	u32 n;

	spin_lock_bh(&sess->lock);
	sess->scan = sess->transfers.first;
	while (sess->scan) {
		for (n = 0; n < KRDMA_TRANSFER_BATCH && (x = krdma_transfers_next(sess)); n++)
			krdma_transfer_fail(x, &done);
		trace_krdma_transfer_batch(sess->serial, n, sess->ntransfers);
		krdma_transfers_pause(sess, &done);
	}
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_transfers_expire - end transfers whose deadline has passed
 * @sess: session; it may go down meanwhile
 * @done: those with nothing on the wire
 *
 * And those go on that lacked a mapping.
 *
 * Context: work of the session, one at a time. session->lock held; it is let go of from time
 * to time.
 * Return: the next deadline, KTIME_MAX if there is none
 */
ktime_t krdma_transfers_expire(struct krdma_session *sess, struct krdma_queue *done)
{
	ktime_t now = ktime_get(), soonest = KTIME_MAX;
	struct krdma_transfer *x;
	u32 n = 0;

	lockdep_assert_held(&sess->lock);
	sess->scan = sess->transfers.first;
	while (sess->state <= KRDMA_SESSION_UP && (x = krdma_transfers_next(sess))) {
		if (!x->status && ktime_compare(x->deadline, now) <= 0)
			krdma_transfer_end(x, krdma_transfer_late(x), done);
		else if (!x->status && ktime_before(x->deadline, soonest))
			soonest = x->deadline;
		if (++n % KRDMA_TRANSFER_BATCH)
			continue;
		trace_krdma_transfer_batch(sess->serial, KRDMA_TRANSFER_BATCH, sess->ntransfers);
		krdma_transfers_pause(sess, done);
	}
	sess->scan = NULL;
	if (unlikely(!list_empty(&sess->unmapped))) {
		krdma_transfers_map_again(sess);
		krdma_transfer_pump(sess, done);
	}
	return soonest;
}

/**
 * krdma_transfers_finish - tell the submitters
 * @done: transfers that ended; empty on return
 *
 * Context: any; no session lock held.
 */
void krdma_transfers_finish(struct krdma_queue *done)
{
	struct krdma_transfer *x;

	while ((x = done->first)) {
		done->first = x->next;
		if (!done->first)
			done->last = &done->first;
		x->done(x, done);
	}
}

/* What was to come when all its bytes were moved; NULL if they were not. */
static const char *krdma_transfer_rest(const struct krdma_transfer *x)
{
	if (x->opcode == KRDMA_OP_SEND)
		return "its message was not taken";
	if (x->moved != x->length)
		return NULL;
	return x->verify ? "all bytes were moved, but not verified" :
			   "all bytes were moved, but its message was not taken";
}

/**
 * krdma_transfer_explain - the sentence for a transfer that failed
 * @x: transfer, ended
 * @error: explanation
 *
 * Context: process.
 * Return: its status
 */
int krdma_transfer_explain(struct krdma_transfer *x, struct krdma_error *error)
{
	struct krdma_region *region = x->region;
	const char *end, *rest = krdma_transfer_rest(x);

	switch (x->status) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		if (rest)
			return krdma_explain(error, x->status,
					     "'%s' of %pISpc: the deadline passed: %s",
					     region->name, &x->sess->dst, rest);
		return krdma_explain(error, x->status,
				     "'%s' of %pISpc: the deadline passed after %llu of %llu bytes",
				     region->name, &x->sess->dst, x->moved, x->length);
	case -ESTALE:
		return krdma_explain(error, x->status, "'%s' was revoked by %pISpc", region->name,
				     &x->sess->dst);
	case -ECANCELED:
		end = region->err == -ECANCELED ? "the region was closed" : "it was cancelled";
		if (rest)
			return krdma_explain(error, x->status, "'%s' of %pISpc: %s: %s",
					     region->name, &x->sess->dst, end, rest);
		return krdma_explain(error, x->status,
				     "'%s' of %pISpc: %s after %llu of %llu bytes", region->name,
				     &x->sess->dst, end, x->moved, x->length);
	case -ENOMEM:
		if (x->answered)
			return krdma_explain(
				error, x->status,
				"the owner of '%s' at %pISpc lacks memory at %llu: its log says of which limit",
				region->name, &x->sess->dst, krdma_transfer_at(x));
		return krdma_explain(error, x->status,
				     "'%s' of %pISpc at %llu: not enough memory on this host",
				     region->name, &x->sess->dst, krdma_transfer_at(x));
	case -EILSEQ:
		return krdma_explain(error, x->status,
				     "'%s' of %pISpc: what was moved differs at both ends, twice",
				     region->name, &x->sess->dst);
	case -EIO:
		if (x->unmapped)
			return krdma_explain(
				error, x->status,
				"'%s' of %pISpc at %llu: the deadline passed, and the memory here could not be mapped for the device",
				region->name, &x->sess->dst, krdma_transfer_at(x));
		if (x->refused)
			return krdma_explain(
				error, x->status,
				"'%s' of %pISpc: the RDMA device refused a work request after %llu of %llu bytes",
				region->name, &x->sess->dst, x->moved, x->length);
		if (x->answered)
			return krdma_explain(
				error, x->status,
				"the owner of '%s' at %pISpc can't reach its memory at %llu",
				region->name, &x->sess->dst, krdma_transfer_at(x));
		return krdma_explain(
			error, x->status,
			"'%s' of %pISpc at %llu: out of a device's reach, there or here",
			region->name, &x->sess->dst, krdma_transfer_at(x));
	case -EOPNOTSUPP:
		return krdma_explain(
			error, x->status,
			"'%s' of %pISpc at %llu: the device there can't share memory (its DMA is bounced, or not coherent)",
			region->name, &x->sess->dst, krdma_transfer_at(x));
	case -EDQUOT:
		return krdma_explain(error, x->status, "%pISpc gives no access to '%s' at %llu: %s",
				     &x->sess->dst, region->name, krdma_transfer_at(x),
				     krdma_proto_status_text(krdma_proto_status(x->status)));
	case -ECONNRESET:
	case -ENOTCONN:
		return krdma_session_explain(x->sess, x->status, error);
	default:
		return krdma_explain(error, x->status, "'%s' of %pISpc: transfer failed (%pe)",
				     region->name, &x->sess->dst, ERR_PTR(x->status));
	}
}
