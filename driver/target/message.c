// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that come, at the target of an export: into its queue (queue.c), and their
 * replies.
 *
 * What finds no room in the queue stays in the receive that it came in, without a reply:
 * that keeps the sender's credit, of which it has few. As soon as there is room
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

#include "target/queue.h"

/* Instead of the status of a message: it stays in its receive. */
#define KRDMA_MESSAGE_HELD (-1)

/* A grant that may send to a queue. */
struct krdma_sender {
	struct kref ref; /* the grant, who receives or delivers while at it */
	struct krdma_message_queue *queue;
	struct krdma_session *sess; /* while not closed */
	u32 generation;
	bool write;            /* the grant has that right, too */
	bool closed;           /* queue->lock, as all below */
	bool busy;             /* deliver_work is at a message of it */
	struct list_head node; /* queue->waiting */
	struct list_head held; /* krdma_rx.node */
};

/* ---- grants that send ---- */

static void krdma_sender_release(struct kref *ref)
{
	struct krdma_sender *sender = container_of(ref, struct krdma_sender, ref);

	krdma_message_queue_put(sender->queue);
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

/* Stands for a grant without the right, with as much of its generation as fits. */
static void *krdma_no_sender(u32 generation)
{
	return xa_mk_value(generation & INT_MAX);
}

/**
 * krdma_sender_open - a grant of a session with messages
 * @grant: grant; if it has the right, of an export with a queue
 *
 * Context: process; the session's service.
 * Return: 0 or -ENOMEM
 */
int krdma_sender_open(struct krdma_grant *grant)
{
	struct krdma_sender *sender;
	int rc;

	if (!(grant->rights & KRDMA_RIGHT_MESSAGE))
		return xa_err(
			krdma_inject(xa_store_bh(&grant->sess->senders, grant->id,
						 krdma_no_sender(grant->generation), GFP_KERNEL),
				     XA_ERROR(-ENOMEM)));
	sender = krdma_inject(kzalloc(sizeof(*sender), GFP_KERNEL), NULL);
	if (!sender)
		return -ENOMEM;
	kref_init(&sender->ref);
	INIT_LIST_HEAD(&sender->node);
	INIT_LIST_HEAD(&sender->held);
	sender->queue = grant->export->message_queue;
	kref_get(&sender->queue->ref);
	sender->sess = grant->sess;
	sender->generation = grant->generation;
	sender->write = grant->rights & KRDMA_RIGHT_WRITE;
	rc = xa_err(krdma_inject(xa_store_bh(&grant->sess->senders, grant->id, sender, GFP_KERNEL),
				 XA_ERROR(-ENOMEM)));
	if (rc)
		krdma_sender_put(sender);
	else
		grant->sender = sender;
	return rc;
}

/* The sender of a message, with a reference; NULL with a status if there is none. */
static struct krdma_sender *krdma_sender_find(struct krdma_session *sess,
					      const struct krdma_wire_message *msg, int *status)
{
	u32 generation = le32_to_cpu(msg->generation);
	struct krdma_sender *sender;

	*status = KRDMA_WIRE_STALE;
	xa_lock_bh(&sess->senders);
	sender = xa_load(&sess->senders, le32_to_cpu(msg->grant));
	if (sender == krdma_no_sender(generation))
		*status = KRDMA_WIRE_ACCES;
	if (xa_is_value(sender) || (sender && sender->generation != generation))
		sender = NULL;
	if (sender && (le32_to_cpu(msg->flags) & KRDMA_WIRE_WRITTEN) && !sender->write) {
		*status = KRDMA_WIRE_ACCES;
		sender = NULL;
	}
	if (sender)
		kref_get(&sender->ref);
	xa_unlock_bh(&sess->senders);
	return sender;
}

/*
 * Its receive is not needed any more, and its credit is the peer's with the reply, which
 * krdma_messages_reply gives.
 */
static void krdma_message_taken(struct krdma_session *sess, struct krdma_rx *rx, u16 status)
{
	/* The receive is another message's as soon as it is posted. */
	__le32 tag = cpu_to_le32(rx->tag);

	/* ORDER: the receive first. */
	if (krdma_post_rx(sess->ch, rx))
		return;
	spin_lock_bh(&sess->lock);
	sess->taken[sess->ntaken++] = (struct krdma_wire_taken){
		.tag = tag,
		.status = cpu_to_le16(status),
	};
	spin_unlock_bh(&sess->lock);
}

static void krdma_taken_reply(struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	if (sess->ntaken && sess->state == KRDMA_SESSION_UP)
		queue_work(krdma_wq, &sess->rx_work);
	spin_unlock_bh(&sess->lock);
}

static bool krdma_sender_idle(struct krdma_sender *sender)
{
	bool idle;

	spin_lock_bh(&sender->queue->lock);
	idle = !sender->busy;
	spin_unlock_bh(&sender->queue->lock);
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

	xa_erase_bh(&sess->senders, grant->id);
	if (!sender)
		return;
	spin_lock_bh(&sender->queue->lock);
	sender->closed = true;
	list_splice_init(&sender->held, &held);
	list_del_init(&sender->node);
	spin_unlock_bh(&sender->queue->lock);
	/* ORDER: then nobody looks at the session any more, nor at its receives. */
	wait_event(sender->queue->idle, krdma_sender_idle(sender));

	list_for_each_entry_safe(rx, next, &held, node) {
		krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, -1);
		krdma_message_taken(sess, rx, KRDMA_WIRE_STALE);
	}
	krdma_taken_reply(sess);
	krdma_sender_put(sender);
}

/* ---- messages ---- */

static_assert(offsetof(struct krdma_message_entry, data) ==
	      offsetofend(struct krdma_message_entry, head));

static u32 krdma_message_entry_size(u32 length)
{
	return ALIGN(sizeof(struct krdma_message) + length, sizeof(u64));
}

static struct krdma_message_entry *krdma_message_entry_alloc(struct krdma_message_queue *queue,
							     u32 length, gfp_t gfp)
{
	struct mem_cgroup *memcg = set_active_memcg(queue->memcg);
	struct krdma_message_entry *entry;

	gfp |= __GFP_NOWARN | (queue->memcg ? __GFP_ACCOUNT : 0);
	entry = krdma_inject(kmalloc(offsetof(struct krdma_message_entry, head) +
					     krdma_message_entry_size(length),
				     gfp),
			     NULL);
	set_active_memcg(memcg);
	return entry;
}

/* @entry: with room for it */
static void krdma_message_entry_fill(struct krdma_message_entry *entry,
				     const struct krdma_session *sess,
				     const union krdma_wire_msg *msg)
{
	u32 length = krdma_wire_entries(msg), size = krdma_message_entry_size(length);

	entry->head = (struct krdma_message){
		.size = size,
		.length = length,
		.value = le64_to_cpu(msg->message.value),
		.session = sess->serial,
		.uid = from_kuid(&init_user_ns, sess->uid),
		.flags = msg->message.flags ? KRDMA_MESSAGE_WRITTEN : 0,
		.region = le32_to_cpu(msg->message.grant),
	};
	krdma_addr_to_user(&sess->dst, &entry->head.peer);
	memcpy(entry->data, msg->message.data, length);
	memset(entry->data + length, 0, size - sizeof(entry->head) - length);
}

/* Are its messages refused? */
static bool krdma_sender_over(const struct krdma_sender *sender)
{
	return sender->queue->over || sender->closed;
}

/* There is room for it, which it has taken; @entry is NULL: but no memory. Return: its status */
static u16 krdma_message_entry_store(struct krdma_sender *sender, struct krdma_message_entry *entry,
				     const union krdma_wire_msg *msg)
{
	struct krdma_message_queue *queue = sender->queue;
	bool stale;

	if (entry)
		krdma_message_entry_fill(entry, sender->sess, msg);
	spin_lock_bh(&queue->lock);
	stale = krdma_sender_over(sender);
	if (stale || !entry) {
		queue->used--;
		krdma_message_queue_deliver(queue);
	} else {
		list_add_tail(&entry->node, &queue->entries);
		queue->nentries++;
		krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, 1);
		krdma_stat_inc(KRDMA_STAT_MESSAGES_DELIVERED);
		krdma_message_queue_wake(queue);
	}
	spin_unlock_bh(&queue->lock);
	if (stale)
		kfree(entry);
	return stale ? KRDMA_WIRE_STALE : entry ? KRDMA_WIRE_OK : KRDMA_WIRE_NOMEM;
}

/* Return: KRDMA_MESSAGE_HELD, or the status if the export or the grant is gone */
static int krdma_message_hold(struct krdma_sender *sender, struct krdma_rx *rx)
{
	struct krdma_message_queue *queue = sender->queue;

	lockdep_assert_held(&queue->lock);
	if (krdma_sender_over(sender))
		return KRDMA_WIRE_STALE;
	list_add_tail(&rx->node, &sender->held);
	if (list_empty(&sender->node))
		list_add_tail(&sender->node, &queue->waiting);
	krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, 1);
	krdma_message_queue_deliver(queue);
	return KRDMA_MESSAGE_HELD;
}

/* Stored at once, refused, or held. Return: its status, or KRDMA_MESSAGE_HELD */
static int krdma_message_try(struct krdma_sender *sender, struct krdma_rx *rx,
			     const union krdma_wire_msg *msg)
{
	struct krdma_message_queue *queue = sender->queue;
	struct krdma_message_entry *entry;
	int status = KRDMA_WIRE_OK;
	bool room;

	spin_lock_bh(&queue->lock);
	room = !krdma_sender_over(sender) && !sender->busy && list_empty(&queue->waiting) &&
	       queue->used < KRDMA_MESSAGE_QUEUE_MAX;
	if (room)
		queue->used++;
	else
		status = krdma_message_hold(sender, rx);
	spin_unlock_bh(&queue->lock);
	if (!room)
		return status;

	entry = krdma_message_entry_alloc(queue, krdma_wire_entries(msg), GFP_NOWAIT);
	if (entry)
		return krdma_message_entry_store(sender, entry, msg);
	/* No memory at once: for deliver_work, which may sleep. */
	spin_lock_bh(&queue->lock);
	queue->used--;
	status = krdma_message_hold(sender, rx);
	/* Another may have begun to wait for the room. */
	krdma_message_queue_deliver(queue);
	spin_unlock_bh(&queue->lock);
	return status;
}

/**
 * krdma_message_came - a message has come
 * @sess: session
 * @rx: receive that it is in; posted again when it is taken
 * @msg: the message, in @rx
 *
 * Context: softirq, or rx_work.
 */
void krdma_message_came(struct krdma_session *sess, struct krdma_rx *rx,
			const union krdma_wire_msg *msg)
{
	u32 tag = le32_to_cpu(msg->hdr.tag);
	struct krdma_sender *sender;
	int status;

	if (!sess->ch->messages || tag > KRDMA_MESSAGE_CREDITS) {
		krdma_session_protocol(sess, "a message without a credit");
		return;
	}
	if (test_and_set_bit(array_index_nospec(tag, KRDMA_MESSAGE_CREDITS + 1),
			     sess->message_tags)) {
		krdma_session_protocol(sess, "a message with a credit that is in use");
		return;
	}
	rx->tag = tag;
	sender = krdma_sender_find(sess, &msg->message, &status);
	if (sender) {
		status = krdma_message_try(sender, rx, msg);
		krdma_sender_put(sender);
	}
	if (status != KRDMA_MESSAGE_HELD)
		krdma_message_taken(sess, rx, status);
}

/* How long the next one is that is held; -1 if none is, or there is no room. */
static int krdma_deliver_length(struct krdma_message_queue *queue)
{
	struct krdma_sender *sender;
	int length = -1;

	spin_lock_bh(&queue->lock);
	sender = list_first_entry_or_null(&queue->waiting, struct krdma_sender, node);
	/* With its head, which is more than is needed. */
	if (sender && queue->used < KRDMA_MESSAGE_QUEUE_MAX)
		length = list_first_entry(&sender->held, struct krdma_rx, node)->len;
	spin_unlock_bh(&queue->lock);
	return length;
}

/* The next one, no longer than @length, takes its room; NULL if it is another by now. */
static struct krdma_rx *krdma_deliver_next(struct krdma_message_queue *queue, u32 length,
					   struct krdma_sender **who)
{
	struct krdma_sender *sender;
	struct krdma_rx *rx = NULL;

	spin_lock_bh(&queue->lock);
	sender = list_first_entry_or_null(&queue->waiting, struct krdma_sender, node);
	if (sender && queue->used < KRDMA_MESSAGE_QUEUE_MAX)
		rx = list_first_entry(&sender->held, struct krdma_rx, node);
	if (rx && rx->len > length)
		rx = NULL;
	if (rx) {
		list_del(&rx->node);
		/* The next one is the next turn's. */
		if (list_empty(&sender->held))
			list_del_init(&sender->node);
		else
			list_move_tail(&sender->node, &queue->waiting);
		queue->used++;
		sender->busy = true;
		kref_get(&sender->ref);
		*who = sender;
	}
	spin_unlock_bh(&queue->lock);
	return rx;
}

/* @entry: with room for it; NULL: there is no memory */
static void krdma_deliver(struct krdma_sender *sender, struct krdma_rx *rx,
			  struct krdma_message_entry *entry)
{
	struct krdma_message_queue *queue = sender->queue;

	krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, -1);
	/* It has been checked when it came. */
	krdma_message_taken(sender->sess, rx, krdma_message_entry_store(sender, entry, rx->buf));
	krdma_taken_reply(sender->sess);
	/* ORDER: its session is not looked at any more. */
	spin_lock_bh(&queue->lock);
	sender->busy = false;
	spin_unlock_bh(&queue->lock);
	wake_up_all(&queue->idle);
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
	struct krdma_message_queue *queue =
		container_of(work, struct krdma_message_queue, deliver_work);
	struct krdma_sender *sender;
	struct krdma_message_entry *entry;
	struct krdma_rx *rx;
	int length;

	while ((length = krdma_deliver_length(queue)) >= 0) {
		/* ORDER: no session is held up while memory is waited for. */
		entry = krdma_message_entry_alloc(queue, length, GFP_KERNEL | __GFP_NORETRY);
		rx = krdma_deliver_next(queue, length, &sender);
		if (rx)
			krdma_deliver(sender, rx, entry);
		else
			kfree(entry);
		cond_resched();
	}
	krdma_message_queue_put(queue);
}

/**
 * krdma_messages_reply - reply to the messages that are taken
 * @sess: session
 *
 * Without a buffer that is left to rx_work, when there is one.
 *
 * Context: any, no lock of the session or the channel held.
 */
void krdma_messages_reply(struct krdma_session *sess)
{
	struct krdma_wire_message_reply *reply;
	struct krdma_channel *ch = sess->ch;
	struct krdma_tx *tx = NULL;
	u32 i, n;

	if (!READ_ONCE(sess->ntaken))
		return;
	spin_lock_bh(&sess->lock);
	n = sess->ntaken;
	spin_lock(&ch->lock);
	if (n)
		tx = krdma_post_tx_take(ch, 0);
	ch->rx_reply = n && !tx;
	spin_unlock(&ch->lock);
	if (!tx) {
		spin_unlock_bh(&sess->lock);
		return;
	}
	reply = krdma_wire_build(tx->buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_MESSAGE, sizeof(*reply),
				 n * sizeof(*sess->taken));
	memcpy(reply->taken, sess->taken, n * sizeof(*sess->taken));
	for (i = 0; i < n; i++)
		clear_bit(le32_to_cpu(sess->taken[i].tag), sess->message_tags);
	sess->ntaken = 0;
	spin_unlock_bh(&sess->lock);
	krdma_reply(sess, tx, reply->taken[0].tag);
}
