// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of an export's messages: it has room for KRDMA_MESSAGE_QUEUE_MAX. They are read from
 * files, or a module's function is called with them.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "target/queue.h"

static void krdma_message_queue_release(struct kref *ref)
{
	struct krdma_message_queue *queue = container_of(ref, struct krdma_message_queue, ref);
	struct krdma_message_entry *entry, *next;

	list_for_each_entry_safe(entry, next, &queue->entries, node)
		kfree(entry);
	krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, -(u64)queue->nentries);
	mem_cgroup_put(queue->memcg);
	kfree(queue);
}

/**
 * krdma_message_queue_put - let go of a queue
 * @queue: the queue, or NULL
 *
 * Context: any.
 */
void krdma_message_queue_put(struct krdma_message_queue *queue)
{
	if (queue)
		kref_put(&queue->ref, krdma_message_queue_release);
}

/**
 * krdma_message_queue_deliver - let deliver_work look, if there is room and somebody waits for it
 * @queue: the queue
 *
 * Context: queue->lock held.
 */
void krdma_message_queue_deliver(struct krdma_message_queue *queue)
{
	lockdep_assert_held(&queue->lock);
	if (list_empty(&queue->waiting) || queue->used >= KRDMA_MESSAGE_QUEUE_MAX)
		return;
	kref_get(&queue->ref);
	/* Not the last: whoever calls has one. */
	if (!queue_work(krdma_local_wq, &queue->deliver_work))
		krdma_message_queue_put(queue);
}

/*
 * The first message; NULL, or an ERR_PTR if it has more than @room bytes. @before was read, or is
 * NULL. A message keeps its room until it was read, which bounds the queue.
 */
static struct krdma_message_entry *krdma_message_queue_next(struct krdma_message_queue *queue,
							    struct krdma_message_entry *before,
							    size_t room)
{
	struct krdma_message_entry *entry;

	spin_lock_bh(&queue->lock);
	if (before) {
		queue->out--;
		queue->used--;
		krdma_message_queue_deliver(queue);
		/* Others may have to be notified of the end. */
		if (queue->over)
			wake_up_interruptible_poll(&queue->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	}
	entry = list_first_entry_or_null(&queue->entries, struct krdma_message_entry, node);
	if (entry && entry->head.size > room) {
		entry = ERR_PTR(-EMSGSIZE);
	} else if (entry) {
		list_del(&entry->node);
		queue->nentries--;
		queue->out++;
	}
	spin_unlock_bh(&queue->lock);
	if (before) {
		krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, -1);
		kfree(before);
	}
	return entry;
}

/* It could not be read: who comes next may. */
static void krdma_message_queue_back(struct krdma_message_queue *queue,
				     struct krdma_message_entry *entry)
{
	spin_lock_bh(&queue->lock);
	queue->out--;
	queue->nentries++;
	list_add(&entry->node, &queue->entries);
	wake_up_interruptible_poll(&queue->wait, EPOLLIN | EPOLLRDNORM);
	spin_unlock_bh(&queue->lock);
}

/* A module's function, with one message after the other. */
static void krdma_message_queue_work(struct work_struct *work)
{
	struct krdma_message_queue *queue = container_of(work, struct krdma_message_queue, work);
	struct krdma_message_entry *entry = NULL;

	while ((entry = krdma_message_queue_next(queue, entry, SIZE_MAX))) {
		/* The end of the export waits for this. */
		if (!READ_ONCE(queue->over))
			queue->fn(queue->priv, &entry->head);
		cond_resched();
	}
}

/**
 * krdma_message_queue_wake - notify who reads of a message
 * @queue: the queue
 *
 * Context: any, queue->lock not held.
 */
void krdma_message_queue_wake(struct krdma_message_queue *queue)
{
	if (!queue->fn) {
		if (wq_has_sleeper(&queue->wait))
			wake_up_interruptible_poll(&queue->wait, EPOLLIN | EPOLLRDNORM);
		return;
	}
	/* ORDER: under the lock, so that no work is queued when the queue is over. */
	spin_lock_bh(&queue->lock);
	if (!queue->over)
		queue_work(krdma_event_wq, &queue->work);
	spin_unlock_bh(&queue->lock);
}

/**
 * krdma_message_queue_new - a queue for an export's messages
 * @fn: of a module, to be called with each; NULL: they are read from files
 * @priv: for @fn
 *
 * Context: process, of the user who pays for it.
 * Return: the queue with a reference, or NULL
 */
struct krdma_message_queue *krdma_message_queue_new(krdma_receive_fn fn, void *priv)
{
	struct krdma_message_queue *queue =
		krdma_inject(kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT), NULL);

	if (!queue)
		return NULL;
	kref_init(&queue->ref);
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->entries);
	INIT_LIST_HEAD(&queue->waiting);
	init_waitqueue_head(&queue->wait);
	init_waitqueue_head(&queue->idle);
	INIT_WORK(&queue->work, krdma_message_queue_work);
	INIT_WORK(&queue->deliver_work, krdma_deliver_work);
	/* A module's messages are the kernel's. */
	queue->memcg = fn ? NULL : get_mem_cgroup_from_mm(current->mm);
	queue->fn = fn;
	queue->priv = priv;
	return queue;
}

/**
 * krdma_message_queue_end - the export is gone
 * @queue: its queue; takes no more messages, and its function is not called any more
 *	when this returns
 *
 * Context: process.
 */
void krdma_message_queue_end(struct krdma_message_queue *queue)
{
	spin_lock_bh(&queue->lock);
	queue->over = true;
	spin_unlock_bh(&queue->lock);
	wake_up_interruptible_poll(&queue->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	if (queue->fn)
		cancel_work_sync(&queue->work);
}

/**
 * krdma_message_queue_count - how many messages are in a queue
 * @queue: the queue
 * @waiting: out: grants with messages that found no room
 *
 * Context: process.
 * Return: messages
 */
u32 krdma_message_queue_count(struct krdma_message_queue *queue, u32 *waiting)
{
	struct list_head *sender;
	u32 entries;

	*waiting = 0;
	spin_lock_bh(&queue->lock);
	entries = queue->nentries;
	list_for_each(sender, &queue->waiting)
		(*waiting)++;
	spin_unlock_bh(&queue->lock);
	return entries;
}

/* ---- files ---- */

/* A message, or the end: not while one is out that may come back. */
static bool krdma_message_queue_readable(struct krdma_message_queue *queue, bool *end)
{
	bool some;

	spin_lock_bh(&queue->lock);
	some = !list_empty(&queue->entries);
	*end = !some && queue->over && !queue->out;
	spin_unlock_bh(&queue->lock);
	return some || *end;
}

/* As many as there are and fit. Return: bytes, 0 if there are none, or an errno */
static ssize_t krdma_message_queue_copy(struct krdma_message_queue *queue, struct iov_iter *to)
{
	struct krdma_message_entry *entry = NULL;
	ssize_t moved = 0;
	size_t copied;
	u32 n;

	/* No longer than a queue is long: others fill it meanwhile. */
	for (n = 0;; n++) {
		bool end = n == KRDMA_MESSAGE_QUEUE_MAX || (n && signal_pending(current));

		/* At the end there is room for none. */
		entry = krdma_message_queue_next(queue, entry, end ? 0 : iov_iter_count(to));
		if (IS_ERR_OR_NULL(entry))
			return moved ?: PTR_ERR(entry);
		copied = copy_to_iter(&entry->head, entry->head.size, to);
		if (copied != entry->head.size) {
			iov_iter_revert(to, copied);
			krdma_message_queue_back(queue, entry);
			return moved ?: -EFAULT;
		}
		moved += copied;
	}
}

static ssize_t krdma_message_queue_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	bool wait = !(iocb->ki_flags & IOCB_NOWAIT) && !(iocb->ki_filp->f_flags & O_NONBLOCK);
	struct krdma_message_queue *queue = iocb->ki_filp->private_data;
	bool end;
	ssize_t rc;

	if (!iov_iter_count(to))
		return 0;
	do {
		rc = krdma_message_queue_copy(queue, to);
		if (rc)
			return rc;
		if (!wait && !krdma_message_queue_readable(queue, &end))
			return -EAGAIN;
		if (wait && wait_event_interruptible(queue->wait,
						     krdma_message_queue_readable(queue, &end)))
			return -ERESTARTSYS;
	} while (!end);
	return 0;
}

static __poll_t krdma_message_queue_poll(struct file *file, poll_table *wait)
{
	struct krdma_message_queue *queue = file->private_data;
	__poll_t mask = 0;
	bool end;

	poll_wait(file, &queue->wait, wait);
	if (krdma_message_queue_readable(queue, &end))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(queue->over))
		mask |= EPOLLHUP;
	return mask;
}

static int krdma_message_queue_close(struct inode *inode, struct file *file)
{
	krdma_message_queue_put(file->private_data);
	return 0;
}

static const struct file_operations krdma_message_queue_fops = {
	.owner = THIS_MODULE,
	.read_iter = krdma_message_queue_read_iter,
	.poll = krdma_message_queue_poll,
	.release = krdma_message_queue_close,
	.llseek = noop_llseek,
};

/**
 * krdma_message_queue_open - a file to read the messages to an export from
 * @export: export
 * @nonblock: read does not wait
 * @error: explanation
 *
 * Context: process.
 * Return: the file, or an ERR_PTR
 */
struct file *krdma_message_queue_open(struct krdma_export *export, bool nonblock,
				      struct krdma_error *error)
{
	struct krdma_message_queue *queue = export->message_queue;
	struct file *file;

	if (!queue)
		return ERR_PTR(krdma_explain(error, -EACCES, "'%s' is not published for messages",
					     export->name));
	file = krdma_inject(anon_inode_getfile("[krdma_message_queue]", &krdma_message_queue_fops,
					       queue, O_RDONLY | (nonblock ? O_NONBLOCK : 0)),
			    ERR_PTR(-ENOMEM));
	if (IS_ERR(file))
		return file;
	kref_get(&queue->ref);
	stream_open(file_inode(file), file);
	file->f_mode |= FMODE_NOWAIT;
	return file;
}
