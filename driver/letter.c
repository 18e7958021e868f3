// SPDX-License-Identifier: GPL-2.0
/*
 * Messages, at the sender: MESSAGE questions, each in a place of the owner's.
 *
 * A message is copied into the letter of its place, so that its memory is of no more
 * concern once it is sent. It waits for a place on region->senders, in order; regions
 * with such take turns on session->mail. None has more places than are free, so that slow
 * receivers do not hold up those of other exports: they have 32, 16, 8 and so on, and
 * others one at least. A place is free again when the
 * owner has answered, whatever became of the operation; and its letter when the send
 * has completed, too.
 *
 * What is posted goes behind all that was posted before, so a message that tells of a
 * WRITE comes when its bytes are in the owner's memory (Documentation/uapi.rst).
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/* The bytes of a message begin here. */
#define KRDMA_LETTER_HEAD (KRDMA_WIRE_LETTER_MAX - KRDMA_WIRE_DATA_MAX)

static void krdma_letter_free(struct krdma_channel *ch, struct krdma_letter *l)
{
	if (!l->posted && !l->region)
		list_add_tail(&l->node, &ch->letters_free);
}

/* May it have one place more? */
static bool krdma_region_place(const struct krdma_region *region)
{
	const struct krdma_channel *ch = region->sess->ch;

	return krdma_share_ok(region->letters + 1, ch->places_used + 1, ch->places);
}

/**
 * krdma_letter_queue - send the message of an operation
 * @x: KRDMA_OP_SEND, or a WRITE with one, of which all is posted; on a list by
 *	->node, or on none
 * @now: the time
 * @done: transfers that ended
 *
 * krdma_transfer_pump sends it.
 *
 * Context: session->lock held.
 */
void krdma_letter_queue(struct krdma_transfer *x, ktime_t now, struct krdma_queue *done)
{
	struct krdma_region *region = x->region;

	lockdep_assert_held(&x->sess->lock);
	if (region->err) {
		krdma_transfer_end(x, region->err, done);
		return;
	}
	list_move_tail(&x->node, &region->senders);
	krdma_transfer_wait_since(x, KRDMA_WAIT_RECEIVER, now);
	if (list_empty(&region->mail))
		list_add_tail(&region->mail, &region->sess->mail);
}

static int krdma_letter_write(struct krdma_channel *ch, struct krdma_letter *l,
			      const struct krdma_transfer *x)
{
	struct krdma_msg *msg = ch->letter_msg;
	bool written = x->opcode == KRDMA_OP_WRITE;
	int rc;

	msg->type = KRDMA_WIRE_MESSAGE;
	msg->tag = l - ch->letters + 1;
	msg->message.grant = x->region->grant;
	msg->message.generation = x->region->generation;
	msg->message.value = x->operand;
	msg->message.flags = written ? KRDMA_WIRE_WRITTEN : 0;
	msg->message.length = written ? 0 : x->length;
	msg->message.data = l->buf + KRDMA_LETTER_HEAD;
	rc = krdma_local_copy(x, l->buf + KRDMA_LETTER_HEAD, msg->message.length);
	if (rc)
		return rc;
	rc = krdma_proto_encode(msg, l->buf, KRDMA_WIRE_LETTER_MAX);
	if (WARN_ON_ONCE(rc < 0))
		return rc;
	l->sge.length = rc;
	ib_dma_sync_single_for_device(ch->sess->dev->ib, l->dma, rc, DMA_TO_DEVICE);
	trace_krdma_message(ch->sess->serial, true, msg->type, false, msg->tag);
	return 0;
}

/* The next message of a region goes into a letter. */
static bool krdma_letter_fill(struct krdma_channel *ch, struct krdma_letter *l,
			      struct krdma_transfer *x, ktime_t now, struct krdma_queue *done)
{
	int rc = ktime_compare(x->deadline, now) <= 0 ? -ETIMEDOUT : krdma_letter_write(ch, l, x);

	if (rc) {
		krdma_transfer_end(x, rc, done);
		return false;
	}
	list_del_init(&l->node);
	list_del_init(&x->node);
	x->mail = KRDMA_MAIL_SENT;
	x->posted = x->length;
	krdma_stat_inc(KRDMA_STAT_MESSAGES_SENT);
	x->letter = l;
	l->transfer = x;
	l->region = x->region;
	kref_get(&x->region->ref);
	x->region->letters++;
	ch->places_used++;
	l->posted = true;
	l->wr.next = NULL;
	return true;
}

/* The next region that may have a place, and has a message for it. */
static struct krdma_region *krdma_mail_next(struct krdma_session *sess, struct krdma_letter *l,
					    ktime_t now, struct krdma_queue *done)
{
	struct krdma_region *region, *next;
	struct krdma_transfer *x;

	list_for_each_entry_safe(region, next, &sess->mail, mail) {
		if (!krdma_region_place(region))
			continue;
		while ((x = list_first_entry_or_null(&region->senders, struct krdma_transfer,
						     node)))
			if (krdma_letter_fill(sess->ch, l, x, now, done))
				return region;
		list_del_init(&region->mail);
	}
	return NULL;
}

/* Return: its region, to be put without the lock. */
static struct krdma_region *krdma_letter_end(struct krdma_channel *ch, struct krdma_letter *l,
					     int err, struct krdma_queue *done)
{
	struct krdma_region *region = l->region;
	struct krdma_transfer *x = l->transfer;

	lockdep_assert_held(&ch->sess->lock);
	l->region = NULL;
	l->transfer = NULL;
	region->letters--;
	ch->places_used--;
	krdma_letter_free(ch, l);
	if (!x)
		return region;
	x->letter = NULL;
	if (err) {
		krdma_transfer_answered(x, err, done);
		return region;
	}
	x->mail = KRDMA_MAIL_NONE;
	if (x->opcode == KRDMA_OP_SEND)
		x->moved = x->length;
	if (!x->chunks && x->moved == x->length)
		krdma_transfer_finish(x, done);
	return region;
}

/* The device has refused a message; the other messages of its region go on. */
static void krdma_letter_refused(struct krdma_channel *ch, struct krdma_letter *l,
				 struct krdma_queue *done)
{
	struct krdma_region *region;

	ch->outstanding--;
	l->posted = false;
	krdma_stat_add(KRDMA_STAT_MESSAGES_SENT, -1);
	krdma_transfer_refused(l->transfer, done);
	region = krdma_letter_end(ch, l, -EIO, done);
	krdma_region_put_soft(region);
}

/* Return: true if some were refused, and the session is up. */
static bool krdma_letters_chain(struct krdma_channel *ch, const struct ib_send_wr *first,
				struct krdma_queue *done)
{
	const struct ib_send_wr *bad;
	bool refused = false;
	int rc;

	do {
		bad = NULL;
		krdma_stat_inc(KRDMA_STAT_DOORBELLS);
		rc = ib_post_send(ch->qp, first, &bad);
		if (likely(!rc)) {
			if (!refused)
				ch->refusals = 0;
			return refused;
		}
		/* siw: an error without a bad one means that all are posted all the same. */
		if (!bad) {
			krdma_session_fail_locked(ch->sess, -ENOTCONN, "a message was not accepted",
						  -1, done);
			return false;
		}
		if (krdma_post_lost(ch, rc, done)) {
			first = bad;
			break;
		}
		refused = true;
		first = bad->next;
		krdma_letter_refused(ch, container_of(bad, struct krdma_letter, wr), done);
	} while (krdma_post_refused(ch, rc, done) && first);

	if (krdma_session_is_up(ch->sess))
		return true;
	for (; first; first = first->next) {
		container_of(first, struct krdma_letter, wr)->posted = false;
		ch->outstanding--;
	}
	return false;
}

/**
 * krdma_letters_post - send what there are places for, with one doorbell
 * @sess: session that is up
 * @now: the time
 * @done: transfers that ended
 *
 * Context: session->lock held.
 */
void krdma_letters_post(struct krdma_session *sess, ktime_t now, struct krdma_queue *done)
{
	struct krdma_channel *ch = sess->ch;
	struct ib_send_wr *first, **link;
	struct krdma_region *region;
	struct krdma_letter *l;

	lockdep_assert_held(&sess->lock);
	do {
		first = NULL;
		link = &first;
		while ((l = list_first_entry_or_null(&ch->letters_free, struct krdma_letter,
						     node)) &&
		       (region = krdma_mail_next(sess, l, now, done))) {
			*link = &l->wr;
			link = &l->wr.next;
			krdma_post_count(ch, 1);
			list_move_tail(&region->mail, &sess->mail);
		}
		/* What was refused has given its place back. */
	} while (first && krdma_letters_chain(ch, first, done));
}

static void krdma_letter_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct krdma_letter *l = container_of(wc->wr_cqe, struct krdma_letter, cqe);
	struct krdma_channel *ch = cq->cq_context;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&ch->sess->lock);
	krdma_post_completed_locked(ch, wc, &done);
	/* siw may tell twice. */
	if (l->posted) {
		l->posted = false;
		krdma_letter_free(ch, l);
		krdma_transfer_pump(ch->sess, &done);
	}
	spin_unlock_bh(&ch->sess->lock);
	krdma_transfers_finish(&done);
}

/**
 * krdma_letters_answered - the owner has, or has not, taken messages
 * @sess: session
 * @rx: receive of the answer; posted again here
 * @msg: the answer
 *
 * Context: softirq, or rx_work.
 */
void krdma_letters_answered(struct krdma_session *sess, struct krdma_rx *rx,
			    const struct krdma_msg *msg)
{
	struct krdma_region *regions[KRDMA_WIRE_PLACES_MAX];
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	struct krdma_channel *ch = sess->ch;
	struct krdma_letter *l;
	bool wrong = false;
	u32 i, n = 0, place;

	spin_lock_bh(&sess->lock);
	/* ORDER: the receive first, then the places for the next messages. */
	if (krdma_post_rx_locked(ch, rx, &done))
		goto out;
	for (i = 0; i < msg->message_answer.count && !wrong; i++) {
		const struct krdma_msg_taken *taken = &msg->message_answer.taken[i];

		place = taken->tag - 1;
		wrong = place >= ch->places;
		if (wrong)
			break;
		l = &ch->letters[array_index_nospec(place, ch->places)];
		wrong = !l->region;
		if (!wrong)
			regions[n++] =
				krdma_letter_end(ch, l, krdma_proto_errno(taken->status), &done);
	}
	krdma_transfer_pump(sess, &done);
out:
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	while (n)
		krdma_region_put_soft(regions[--n]);
	if (wrong)
		krdma_session_protocol(sess, "an answer to a message never sent");
}

/* ---- set-up ---- */

/**
 * krdma_letters_setup - allocate what messages are sent from
 * @ch: channel of an initiator
 *
 * Context: process.
 * Return: 0 or -ENOMEM; krdma_letters_free cleans up in either case
 */
int krdma_letters_setup(struct krdma_channel *ch)
{
	int rc;
	u32 i;

	ch->letters = kcalloc(KRDMA_PLACES, sizeof(*ch->letters), GFP_KERNEL);
	ch->letter_msg = kzalloc(sizeof(*ch->letter_msg), GFP_KERNEL);
	if (!ch->letters || !ch->letter_msg)
		return -ENOMEM;
	for (i = 0; i < KRDMA_PLACES; i++) {
		struct krdma_letter *l = &ch->letters[i];

		rc = krdma_buf_map(ch->sess->dev->ib, &l->buf, &l->dma, KRDMA_WIRE_LETTER_MAX,
				   DMA_TO_DEVICE);
		if (rc)
			return rc;
		INIT_LIST_HEAD(&l->node);
		l->cqe.done = krdma_letter_done;
		l->sge.addr = l->dma;
		l->sge.lkey = ch->sess->pd->local_dma_lkey;
		l->wr.wr_cqe = &l->cqe;
		l->wr.sg_list = &l->sge;
		l->wr.num_sge = 1;
		l->wr.opcode = IB_WR_SEND;
		l->wr.send_flags = IB_SEND_SIGNALED;
	}
	return 0;
}

/**
 * krdma_letters_begin - the owner has told how many places there are
 * @ch: channel of an initiator, connected
 * @places: at most KRDMA_PLACES are used
 *
 * Context: process; no region is open yet.
 */
void krdma_letters_begin(struct krdma_channel *ch, u32 places)
{
	u32 i;

	ch->places = min_t(u32, places, KRDMA_PLACES);
	for (i = 0; i < ch->places; i++)
		list_add_tail(&ch->letters[i].node, &ch->letters_free);
}

/**
 * krdma_letters_drop - no answer will come any more
 * @ch: channel without a queue pair
 *
 * Context: process; the session's transfers have ended.
 */
void krdma_letters_drop(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; i < ch->places; i++) {
		if (ch->letters[i].region)
			krdma_region_put(ch->letters[i].region);
		ch->letters[i].region = NULL;
	}
}

/**
 * krdma_letters_free - undo krdma_letters_setup
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_letters_free(struct krdma_channel *ch)
{
	u32 i;

	for (i = 0; ch->letters && i < KRDMA_PLACES; i++)
		krdma_buf_unmap(ch->sess->dev->ib, ch->letters[i].buf, ch->letters[i].dma,
				KRDMA_WIRE_LETTER_MAX, DMA_TO_DEVICE);
	kfree(ch->letters);
	kfree(ch->letter_msg);
}
