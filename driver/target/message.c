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
#include "trace.h"

/* Instead of the status of a message: it stays in its receive. */
#define KRDMA_MESSAGE_HELD (-1)

/* A grant that may send to a queue. */
struct krdma_sender {
	struct krdma_message_queue *queue;
	struct krdma_session *sess;
	u32 generation;
	bool write;                /* the grant has that right, too */
	struct krdma_message head; /* what its messages have in common */
	bool closed;               /* queue->lock, as all below */
	bool busy;                 /* deliver_work is at a message of it */
	struct list_head node;     /* queue->waiting */
	struct list_head held;     /* krdma_rx.node */
};

/* ---- grants that send ---- */

static void krdma_sender_free(struct krdma_sender *sender)
{
	krdma_message_queue_put(sender->queue);
	kfree(sender);
}

/**
 * krdma_senders_init - no grant may send yet
 * @sess: session, new
 *
 * Here, so that its lock has a class of its own: that of other xarrays is not taken below a lock
 * of softirqs.
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
	INIT_LIST_HEAD(&sender->node);
	INIT_LIST_HEAD(&sender->held);
	sender->queue = grant->export->message_queue;
	kref_get(&sender->queue->ref);
	sender->sess = grant->sess;
	sender->generation = grant->generation;
	sender->write = grant->rights & KRDMA_RIGHT_WRITE;
	sender->head.session = grant->sess->serial;
	sender->head.uid = from_kuid(&init_user_ns, grant->sess->uid);
	sender->head.region = grant->id;
	krdma_addr_to_user(&grant->sess->dst, &sender->head.peer);
	rc = xa_err(krdma_inject(xa_store_bh(&grant->sess->senders, grant->id, sender, GFP_KERNEL),
				 XA_ERROR(-ENOMEM)));
	if (rc)
		krdma_sender_free(sender);
	else
		grant->sender = sender;
	return rc;
}

/*
 * The sender of a message, which stays as long as the channel is locked; NULL with a status if
 * there is none.
 */
static struct krdma_sender *krdma_sender_find(struct krdma_session *sess,
					      const struct krdma_wire_message *msg, int *status)
{
	struct krdma_sender *sender = xa_load(&sess->senders, le32_to_cpu(msg->grant));
	u32 generation = le32_to_cpu(msg->generation);

	*status = KRDMA_WIRE_STALE;
	if (sender == krdma_no_sender(generation))
		*status = KRDMA_WIRE_ACCES;
	if (!sender || xa_is_value(sender) || sender->generation != generation)
		return NULL;
	if (!(le32_to_cpu(msg->flags) & KRDMA_WIRE_WRITTEN) || sender->write)
		return sender;
	*status = KRDMA_WIRE_ACCES;
	return NULL;
}

/*
 * Its receive is not needed any more, and its credit is the peer's with the reply, which
 * krdma_messages_reply gives.
 */
static void krdma_message_taken(struct krdma_session *sess, struct krdma_rx *rx, u16 status)
{
	lockdep_assert_held(&sess->ch->lock);
	sess->taken[sess->ntaken++] = (struct krdma_wire_taken){
		.tag = rx->tag,
		.status = cpu_to_le16(status),
	};
	krdma_post_rx_later(sess->ch, rx);
}

/* The same of one that was held. */
static void krdma_message_taken_late(struct krdma_session *sess, struct krdma_rx *rx, u16 status)
{
	struct krdma_channel *ch = sess->ch;

	krdma_stat_add(KRDMA_STAT_MESSAGES_HELD, -1);
	krdma_channel_lock(ch);
	krdma_message_taken(sess, rx, status);
	if (ch->state == KRDMA_CHANNEL_UP)
		queue_work(krdma_wq, &sess->rx_work);
	krdma_channel_unlock(ch);
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

	/* ORDER: under the lock, then no message that comes is of it. */
	krdma_channel_lock(sess->ch);
	xa_erase(&sess->senders, grant->id);
	krdma_channel_unlock(sess->ch);
	if (!sender)
		return;
	spin_lock_bh(&sender->queue->lock);
	sender->closed = true;
	list_splice_init(&sender->held, &held);
	list_del_init(&sender->node);
	spin_unlock_bh(&sender->queue->lock);
	/* ORDER: then nobody looks at the session any more, nor at its receives. */
	wait_event(sender->queue->idle, krdma_sender_idle(sender));

	list_for_each_entry_safe(rx, next, &held, node)
		krdma_message_taken_late(sess, rx, KRDMA_WIRE_STALE);
	krdma_sender_free(sender);
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
				     const struct krdma_sender *sender,
				     const union krdma_wire_msg *msg, u32 length)
{
	u32 size = krdma_message_entry_size(length);

	entry->head = sender->head;
	entry->head.size = size;
	entry->head.length = length;
	entry->head.value = le64_to_cpu(msg->message.value);
	entry->head.flags = msg->message.flags ? KRDMA_MESSAGE_WRITTEN : 0;
	memcpy(entry->data, msg->message.data, length);
	memset(entry->data + length, 0, size - sizeof(entry->head) - length);
}

/* Are its messages refused? */
static bool krdma_sender_over(const struct krdma_sender *sender)
{
	return sender->queue->over || sender->closed;
}

/* It has room, which is counted. */
static void krdma_message_entry_add(struct krdma_message_queue *queue,
				    struct krdma_message_entry *entry)
{
	lockdep_assert_held(&queue->lock);
	list_add_tail(&entry->node, &queue->entries);
	queue->nentries++;
	krdma_stat_inc(KRDMA_STAT_MESSAGES_QUEUED);
	krdma_stat_inc(KRDMA_STAT_MESSAGES_DELIVERED);
}

static void krdma_message_hold(struct krdma_sender *sender, struct krdma_rx *rx)
{
	struct krdma_message_queue *queue = sender->queue;

	lockdep_assert_held(&queue->lock);
	list_add_tail(&rx->node, &sender->held);
	if (list_empty(&sender->node))
		list_add_tail(&sender->node, &queue->waiting);
	krdma_stat_inc(KRDMA_STAT_MESSAGES_HELD);
	krdma_message_queue_deliver(queue);
}

/* Readers are woken when the reply is on its way, once for messages that come together. */
static void krdma_message_tell(struct krdma_session *sess, struct krdma_message_queue *queue)
{
	struct krdma_message_queue *told = sess->told;

	if (told == queue)
		return;
	kref_get(&queue->ref);
	sess->told = queue;
	if (!told)
		return;
	krdma_message_queue_wake(told);
	krdma_message_queue_put(told);
}

/*
 * Stored at once, refused, or held: also if there is no memory at once, for deliver_work, which may
 * sleep. Return: its status, or KRDMA_MESSAGE_HELD
 */
static int krdma_message_try(struct krdma_sender *sender, struct krdma_rx *rx,
			     const union krdma_wire_msg *msg)
{
	u32 length = rx->len - sizeof(msg->message);
	struct krdma_message_queue *queue = sender->queue;
	struct krdma_message_entry *entry;
	int status = KRDMA_MESSAGE_HELD;

	entry = krdma_message_entry_alloc(queue, length, GFP_NOWAIT);
	if (entry)
		krdma_message_entry_fill(entry, sender, msg, length);
	spin_lock(&queue->lock);
	if (unlikely(krdma_sender_over(sender))) {
		status = KRDMA_WIRE_STALE;
	} else if (entry && !sender->busy && list_empty(&queue->waiting) &&
		   queue->used < KRDMA_MESSAGE_QUEUE_MAX) {
		queue->used++;
		krdma_message_entry_add(queue, entry);
		status = KRDMA_WIRE_OK;
	} else {
		krdma_message_hold(sender, rx);
	}
	spin_unlock(&queue->lock);
	if (likely(status == KRDMA_WIRE_OK))
		krdma_message_tell(sender->sess, queue);
	else
		kfree(entry);
	return status;
}

/**
 * krdma_message_came - a message has come
 * @sess: session
 * @rx: receive that it is in; posted again when it is taken
 * @msg: the message, in @rx
 *
 * Context: the lock of the first channel held, which is up.
 * Return: NULL, or how the peer broke the protocol
 */
const char *krdma_message_came(struct krdma_session *sess, struct krdma_rx *rx,
			       const union krdma_wire_msg *msg)
{
	u32 tag = le32_to_cpu(msg->hdr.tag);
	struct krdma_sender *sender;
	int status;

	lockdep_assert_held(&sess->ch->lock);
	if (!sess->ch->messages || tag > KRDMA_MESSAGE_CREDITS)
		return "a message without a credit";
	if (__test_and_set_bit(array_index_nospec(tag, KRDMA_MESSAGE_CREDITS + 1),
			       sess->message_tags))
		return "a message with a credit that is in use";
	rx->tag = msg->hdr.tag;
	sender = krdma_sender_find(sess, &msg->message, &status);
	if (sender)
		status = krdma_message_try(sender, rx, msg);
	if (status == KRDMA_MESSAGE_HELD)
		return NULL;
	krdma_message_taken(sess, rx, status);
	tasklet_schedule(&sess->ch->reply_tasklet);
	return NULL;
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
		*who = sender;
	}
	spin_unlock_bh(&queue->lock);
	return rx;
}

/* The room is taken; @entry is NULL: but no memory. Return: its status */
static u16 krdma_deliver_store(struct krdma_sender *sender, struct krdma_rx *rx,
			       struct krdma_message_entry *entry)
{
	/* It has been checked when it came. */
	const union krdma_wire_msg *msg = rx->buf;
	struct krdma_message_queue *queue = sender->queue;
	bool stale;

	if (entry)
		krdma_message_entry_fill(entry, sender, msg, rx->len - sizeof(msg->message));
	spin_lock_bh(&queue->lock);
	stale = krdma_sender_over(sender);
	if (stale || !entry) {
		queue->used--;
		krdma_message_queue_deliver(queue);
	} else {
		krdma_message_entry_add(queue, entry);
	}
	spin_unlock_bh(&queue->lock);
	if (!stale)
		return entry ? KRDMA_WIRE_OK : KRDMA_WIRE_NOMEM;
	kfree(entry);
	return KRDMA_WIRE_STALE;
}

/* @entry: with room for it; NULL: there is no memory */
static void krdma_deliver(struct krdma_sender *sender, struct krdma_rx *rx,
			  struct krdma_message_entry *entry)
{
	struct krdma_message_queue *queue = sender->queue;

	krdma_message_taken_late(sender->sess, rx, krdma_deliver_store(sender, rx, entry));
	/* ORDER: it is not looked at any more, nor is its session. */
	spin_lock_bh(&queue->lock);
	sender->busy = false;
	spin_unlock_bh(&queue->lock);
	wake_up_all(&queue->idle);
	krdma_message_queue_wake(queue);
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

static void krdma_messages_reply_by(struct krdma_session *sess, struct krdma_tx *tx)
{
	u32 i, n = sess->ntaken, bytes = n * sizeof(*sess->taken);
	struct krdma_wire_message_reply *reply;

	reply = krdma_wire_build(tx->buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_MESSAGE, sizeof(*reply),
				 bytes);
	reply->hdr.tag = sess->taken[0].tag;
	memcpy(reply->taken, sess->taken, bytes);
	for (i = 0; i < n; i++)
		__clear_bit(le32_to_cpu(sess->taken[i].tag), sess->message_tags);
	sess->ntaken = 0;
	trace_krdma_message(sess->serial, true, &reply->hdr);
	krdma_post_tx_locked(sess->ch, tx, false);
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
	struct krdma_channel *ch = sess->ch;
	struct krdma_message_queue *told;
	struct krdma_tx *tx;

	krdma_channel_lock(ch);
	told = sess->told;
	sess->told = NULL;
	/* ORDER: the receives first: with the reply the credits are the peer's. */
	if (sess->ntaken && !krdma_post_rx_again(ch)) {
		tx = krdma_post_tx_take(ch, KRDMA_TX_TAKEN);
		ch->rx_reply = !tx;
		if (tx)
			krdma_messages_reply_by(sess, tx);
	}
	krdma_channel_unlock(ch);
	/* Those who wait for the reply come first. */
	if (!told)
		return;
	krdma_message_queue_wake(told);
	krdma_message_queue_put(told);
}
