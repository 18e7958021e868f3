// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that come, at the owner of an export: into its queue (inbox.c), and their
 * answers.
 *
 * What finds no room in the queue stays in the receive that it came in, and is not
 * answered: that keeps the sender's place, of which it has few. As soon as there is room
 * the queue's own work gives it to those who wait, one message each in turn; not the work
 * of a session, of which the peer says how busy it is. Who comes later waits behind them,
 * so messages of a grant keep their order.
 *
 * Messages are stored in softirqs. The memory of one is what the exporter's memory cgroup
 * pays for: if there is none at once, that is left to the same work.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ctx.h"
#include "inbox.h"
#include "trace.h"

/* A grant that may send to a queue. */
struct krdma_sender {
	struct kref ref; /* the grant, who receives or delivers while at it */
	struct krdma_box *box;
	struct krdma_session *sess; /* while not closed */
	u32 grant;
	u32 generation;
	u32 rights;
	bool closed;           /* box->lock, as all below */
	bool busy;             /* deliver_work is at a message of it */
	struct list_head node; /* box->waiting */
	struct list_head held; /* krdma_rx.node */
};

/* ---- grants that send ---- */

static void krdma_sender_release(struct kref *ref)
{
	struct krdma_sender *sender = container_of(ref, struct krdma_sender, ref);

	krdma_box_put(sender->box);
	kfree(sender);
}

static void krdma_sender_put(struct krdma_sender *sender)
{
	kref_put(&sender->ref, krdma_sender_release);
}

/**
 * krdma_senders_init - no grant may send yet
 * @sess: session, new
 *
 * Here, so that its lock has a class of its own: that of other xarrays is not taken in
 * softirqs.
 *
 * Context: process.
 */
void krdma_senders_init(struct krdma_session *sess)
{
	xa_init_flags(&sess->senders, XA_FLAGS_LOCK_BH);
}

/**
 * krdma_sender_open - a grant may send
 * @grant: grant with the right, of an export with a queue
 *
 * Context: process; the session's service.
 * Return: 0 or -ENOMEM
 */
int krdma_sender_open(struct krdma_grant *grant)
{
	struct krdma_sender *sender = kzalloc(sizeof(*sender), GFP_KERNEL);
	int rc;

	if (!sender)
		return -ENOMEM;
	kref_init(&sender->ref);
	INIT_LIST_HEAD(&sender->node);
	INIT_LIST_HEAD(&sender->held);
	sender->box = grant->export->box;
	kref_get(&sender->box->ref);
	sender->sess = grant->sess;
	sender->grant = grant->id;
	sender->generation = grant->generation;
	sender->rights = grant->rights;
	rc = xa_err(xa_store_bh(&grant->sess->senders, grant->id, sender, GFP_KERNEL));
	if (rc)
		krdma_sender_put(sender);
	else
		grant->sender = sender;
	return rc;
}

/* The sender of a message, with a reference. */
static struct krdma_sender *krdma_sender_find(struct krdma_session *sess, u32 grant, u32 generation)
{
	struct krdma_sender *sender;

	xa_lock_bh(&sess->senders);
	sender = xa_load(&sess->senders, grant);
	if (sender && sender->generation == generation)
		kref_get(&sender->ref);
	else
		sender = NULL;
	xa_unlock_bh(&sess->senders);
	return sender;
}

/*
 * Its receive is not needed any more, and its place is the peer's with the answer, which
 * krdma_mail_answer gives.
 */
static void krdma_message_taken(struct krdma_session *sess, struct krdma_rx *rx, u32 tag,
				u16 status)
{
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	/* ORDER: the receive first. */
	if (!krdma_post_rx_locked(sess->ch, rx, &done)) {
		sess->taken[sess->ntaken].tag = tag;
		sess->taken[sess->ntaken++].status = status;
	}
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
}

static void krdma_taken_answer(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	if (sess->ntaken && sess->state == KRDMA_SESSION_UP)
		queue_work(krdma_wq, &sess->rx_work);
	spin_unlock_bh(&sess->lock);
}

static bool krdma_sender_idle(struct krdma_sender *sender)
{
	bool idle;

	spin_lock_bh(&sender->box->lock);
	idle = !sender->busy;
	spin_unlock_bh(&sender->box->lock);
	return idle;
}

/**
 * krdma_sender_close - a grant ends
 * @grant: grant; its messages that found no room are refused
 *
 * Waits for no peer, but while the exporter's memory cgroup gives memory, or not.
 *
 * Context: process; the session's service, or down_work.
 */
void krdma_sender_close(struct krdma_grant *grant)
{
	struct krdma_sender *sender = grant->sender;
	struct krdma_session *sess = grant->sess;
	struct krdma_rx *rx, *next;
	LIST_HEAD(held);

	if (!sender)
		return;
	xa_erase_bh(&sess->senders, sender->grant);
	spin_lock_bh(&sender->box->lock);
	sender->closed = true;
	list_splice_init(&sender->held, &held);
	list_del_init(&sender->node);
	spin_unlock_bh(&sender->box->lock);
	/* ORDER: then nobody looks at the session any more, nor at its receives. */
	wait_event(sender->box->idle, krdma_sender_idle(sender));

	list_for_each_entry_safe(rx, next, &held, node) {
		krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, -1);
		krdma_message_taken(sess, rx, rx->tag, KRDMA_WIRE_STALE);
	}
	krdma_taken_answer(sess);
	krdma_sender_put(sender);
}

/* ---- messages ---- */

static_assert(offsetof(struct krdma_mail, data) == offsetofend(struct krdma_mail, head));

static u32 krdma_mail_size(u32 length)
{
	return ALIGN(sizeof(struct krdma_message) + length, sizeof(u64));
}

static struct krdma_mail *krdma_mail_alloc(struct krdma_box *box, u32 length, gfp_t gfp)
{
	struct mem_cgroup *memcg = set_active_memcg(box->memcg);
	struct krdma_mail *mail;

	gfp |= __GFP_NOWARN | (box->memcg ? __GFP_ACCOUNT : 0);
	mail = kmalloc(offsetof(struct krdma_mail, head) + krdma_mail_size(length), gfp);
	set_active_memcg(memcg);
	return mail;
}

/* @mail: with room for it */
static void krdma_mail_fill(struct krdma_mail *mail, const struct krdma_session *sess,
			    const struct krdma_msg *msg)
{
	u32 size = krdma_mail_size(msg->message.length);

	mail->head = (struct krdma_message){
		.size = size,
		.length = msg->message.length,
		.value = msg->message.value,
		.session = sess->serial,
		.uid = from_kuid(&init_user_ns, sess->uid),
		.flags = msg->message.flags & KRDMA_WIRE_WRITTEN ? KRDMA_MESSAGE_WRITTEN : 0,
		.region = msg->message.grant,
	};
	krdma_addr_to_user(&sess->dst, &mail->head.peer);
	memcpy(mail->data, msg->message.data, msg->message.length);
	memset(mail->data + msg->message.length, 0,
	       size - sizeof(mail->head) - msg->message.length);
}

/* There is room for it, which it has taken; NULL: but no memory. Return: its status */
static u16 krdma_mail_store(struct krdma_sender *sender, struct krdma_mail *mail)
{
	struct krdma_box *box = sender->box;
	bool stale;

	spin_lock_bh(&box->lock);
	stale = box->over || sender->closed;
	if (stale || !mail) {
		box->used--;
		krdma_box_deliver(box);
	} else {
		list_add_tail(&mail->node, &box->mails);
		box->nmails++;
		krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, 1);
		krdma_stat_inc(KRDMA_STAT_DELIVERIES);
		krdma_box_wake(box);
	}
	spin_unlock_bh(&box->lock);
	if (stale)
		kfree(mail);
	return stale ? KRDMA_WIRE_STALE : mail ? KRDMA_WIRE_OK : KRDMA_WIRE_NOMEM;
}

static void krdma_message_hold(struct krdma_sender *sender, struct krdma_rx *rx, u32 tag)
{
	struct krdma_box *box = sender->box;

	lockdep_assert_held(&box->lock);
	rx->tag = tag;
	list_add_tail(&rx->node, &sender->held);
	if (list_empty(&sender->node))
		list_add_tail(&sender->node, &box->waiting);
	krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, 1);
	krdma_box_deliver(box);
}

/* Stored at once, held (true), or refused with a status. */
static bool krdma_message_try(struct krdma_sender *sender, struct krdma_rx *rx,
			      const struct krdma_msg *msg, u16 *status)
{
	struct krdma_box *box = sender->box;
	bool hold = false, room = false;
	struct krdma_mail *mail;

	spin_lock_bh(&box->lock);
	if (box->over || sender->closed) {
		*status = KRDMA_WIRE_STALE;
	} else if (sender->busy || !list_empty(&box->waiting) || box->used >= KRDMA_BOX_MESSAGES) {
		krdma_message_hold(sender, rx, msg->tag);
		hold = true;
	} else {
		box->used++;
		room = true;
	}
	spin_unlock_bh(&box->lock);
	if (!room)
		return hold;

	mail = krdma_mail_alloc(box, msg->message.length, GFP_NOWAIT);
	if (mail) {
		krdma_mail_fill(mail, sender->sess, msg);
		*status = krdma_mail_store(sender, mail);
		return false;
	}
	/* No memory at once: for deliver_work, which may sleep. */
	spin_lock_bh(&box->lock);
	box->used--;
	hold = !box->over && !sender->closed;
	if (hold)
		krdma_message_hold(sender, rx, msg->tag);
	else
		*status = KRDMA_WIRE_STALE;
	/* Another may have begun to wait for the room. */
	krdma_box_deliver(box);
	spin_unlock_bh(&box->lock);
	return hold;
}

/**
 * krdma_mail_came - a message has come
 * @sess: session
 * @rx: receive that it is in; posted again when it is taken
 * @msg: the message, decoded
 *
 * Context: softirq, or rx_work.
 */
void krdma_mail_came(struct krdma_session *sess, struct krdma_rx *rx, const struct krdma_msg *msg)
{
	u16 status = KRDMA_WIRE_STALE;
	struct krdma_sender *sender;
	bool hold = false;

	if (!sess->inbound || !sess->ch->messages || msg->tag > KRDMA_PLACES) {
		krdma_session_protocol(sess, "a message without a place");
		return;
	}
	if (test_and_set_bit(msg->tag, sess->places)) {
		krdma_session_protocol(sess, "a message in a place that is taken");
		return;
	}
	sender = krdma_sender_find(sess, msg->message.grant, msg->message.generation);
	if (sender && (msg->message.flags & KRDMA_WIRE_WRITTEN) &&
	    !(sender->rights & KRDMA_RIGHT_WRITE)) {
		krdma_sender_put(sender);
		krdma_session_protocol(sess, "a message of a WRITE that was not granted");
		return;
	}
	if (sender) {
		hold = krdma_message_try(sender, rx, msg, &status);
		krdma_sender_put(sender);
	}
	if (!hold)
		krdma_message_taken(sess, rx, msg->tag, status);
}

/* How long the next one is that is held; -1 if none is, or there is no room. */
static int krdma_deliver_length(struct krdma_box *box)
{
	struct krdma_sender *sender;
	int length = -1;

	spin_lock_bh(&box->lock);
	sender = list_first_entry_or_null(&box->waiting, struct krdma_sender, node);
	/* With its head, which is more than is needed. */
	if (sender && box->used < KRDMA_BOX_MESSAGES)
		length = list_first_entry(&sender->held, struct krdma_rx, node)->len;
	spin_unlock_bh(&box->lock);
	return length;
}

/* The next one, no longer than @length, takes its room; NULL if it is another by now. */
static struct krdma_rx *krdma_deliver_next(struct krdma_box *box, u32 length,
					   struct krdma_sender **who)
{
	struct krdma_sender *sender;
	struct krdma_rx *rx = NULL;

	spin_lock_bh(&box->lock);
	sender = list_first_entry_or_null(&box->waiting, struct krdma_sender, node);
	if (sender && box->used < KRDMA_BOX_MESSAGES)
		rx = list_first_entry(&sender->held, struct krdma_rx, node);
	if (rx && rx->len > length)
		rx = NULL;
	if (rx) {
		list_del(&rx->node);
		/* The next one is the next turn's. */
		if (list_empty(&sender->held))
			list_del_init(&sender->node);
		else
			list_move_tail(&sender->node, &box->waiting);
		box->used++;
		sender->busy = true;
		kref_get(&sender->ref);
		*who = sender;
	}
	spin_unlock_bh(&box->lock);
	return rx;
}

/* @mail: with room for it; NULL: there is no memory */
static void krdma_deliver(struct krdma_sender *sender, struct krdma_rx *rx, struct krdma_mail *mail)
{
	struct krdma_box *box = sender->box;
	const char *cause;

	krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, -1);
	/* It has been decoded before. */
	if (WARN_ON_ONCE(krdma_proto_decode(rx->buf, rx->len, box->msg, &cause))) {
		kfree(mail);
		mail = NULL;
	}
	if (mail)
		krdma_mail_fill(mail, sender->sess, box->msg);
	krdma_message_taken(sender->sess, rx, rx->tag, krdma_mail_store(sender, mail));
	krdma_taken_answer(sender->sess);
	/* ORDER: its session is not looked at any more. */
	spin_lock_bh(&box->lock);
	sender->busy = false;
	spin_unlock_bh(&box->lock);
	wake_up_all(&box->idle);
	krdma_sender_put(sender);
}

/**
 * krdma_deliver_work - store messages that found no room, as long as there is some
 * @work: of a queue
 *
 * Context: work.
 */
void krdma_deliver_work(struct work_struct *work)
{
	struct krdma_box *box = container_of(work, struct krdma_box, deliver_work);
	struct krdma_sender *sender;
	struct krdma_mail *mail;
	struct krdma_rx *rx;
	int length;

	while ((length = krdma_deliver_length(box)) >= 0) {
		/* ORDER: no session is held up while memory is waited for. */
		mail = krdma_mail_alloc(box, length, GFP_KERNEL | __GFP_NORETRY);
		rx = krdma_deliver_next(box, length, &sender);
		if (rx)
			krdma_deliver(sender, rx, mail);
		else
			kfree(mail);
		cond_resched();
	}
	krdma_box_put(box);
}

/**
 * krdma_mail_answer - answer the messages that are taken
 * @sess: session
 * @msg: scratch
 *
 * Without a buffer that is left to rx_work, when there is one.
 *
 * Context: any, no session lock held.
 */
void krdma_mail_answer(struct krdma_session *sess, struct krdma_msg *msg)
{
	struct krdma_tx *tx = NULL;
	u32 i, n;

	if (!READ_ONCE(sess->ntaken))
		return;
	msg->type = KRDMA_WIRE_MESSAGE;
	msg->status = KRDMA_WIRE_OK;
	spin_lock_bh(&sess->lock);
	n = sess->ntaken;
	if (n)
		tx = krdma_post_tx_take(sess->ch, 0);
	sess->ch->rx_answer = n && !tx;
	if (!tx) {
		spin_unlock_bh(&sess->lock);
		return;
	}
	msg->message_answer.count = n;
	memcpy(msg->message_answer.taken, sess->taken, n * sizeof(*sess->taken));
	for (i = 0; i < n; i++)
		clear_bit(sess->taken[i].tag, sess->places);
	sess->ntaken = 0;
	spin_unlock_bh(&sess->lock);
	msg->tag = msg->message_answer.taken[0].tag;
	krdma_answer(sess, tx, msg);
}
