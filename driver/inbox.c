// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of an export's messages: it has room for KRDMA_BOX_MESSAGES. They are read from
 * files, or a module's function is called with them.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "inbox.h"

static void krdma_box_release(struct kref *ref)
{
	struct krdma_box *box = container_of(ref, struct krdma_box, ref);
	struct krdma_mail *mail, *next;

	list_for_each_entry_safe(mail, next, &box->mails, node)
		kfree(mail);
	krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, -(u64)box->nmails);
	mem_cgroup_put(box->memcg);
	kfree(box->msg);
	kfree(box);
}

/**
 * krdma_box_put - let go of a queue
 * @box: the queue, or NULL
 *
 * Context: any.
 */
void krdma_box_put(struct krdma_box *box)
{
	if (box)
		kref_put(&box->ref, krdma_box_release);
}

/**
 * krdma_box_deliver - let deliver_work look, if there is room and somebody waits for it
 * @box: the queue
 *
 * Context: box->lock held.
 */
void krdma_box_deliver(struct krdma_box *box)
{
	lockdep_assert_held(&box->lock);
	if (list_empty(&box->waiting) || box->used >= KRDMA_BOX_MESSAGES)
		return;
	kref_get(&box->ref);
	/* Not the last: whoever calls has one. */
	if (!queue_work(krdma_wq, &box->deliver_work))
		kref_put(&box->ref, krdma_box_release);
}

/* The first message; NULL, or an ERR_PTR if it has more than @room bytes. */
static struct krdma_mail *krdma_box_pop(struct krdma_box *box, size_t room)
{
	struct krdma_mail *mail;

	spin_lock_bh(&box->lock);
	mail = list_first_entry_or_null(&box->mails, struct krdma_mail, node);
	if (mail && mail->head.size > room) {
		mail = ERR_PTR(-EMSGSIZE);
	} else if (mail) {
		list_del(&mail->node);
		box->nmails--;
		box->out++;
	}
	spin_unlock_bh(&box->lock);
	return mail;
}

/* It was read. Until then it has its room: so a queue is bounded, whoever reads how. */
static void krdma_box_read(struct krdma_box *box, struct krdma_mail *mail)
{
	spin_lock_bh(&box->lock);
	box->out--;
	box->used--;
	krdma_box_deliver(box);
	/* Others may have to be told of the end. */
	if (box->over)
		wake_up_interruptible_poll(&box->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	spin_unlock_bh(&box->lock);
	krdma_stat_add(KRDMA_STAT_MESSAGES_QUEUED, -1);
	kfree(mail);
}

/* It could not be read: who comes next may. */
static void krdma_box_back(struct krdma_box *box, struct krdma_mail *mail)
{
	spin_lock_bh(&box->lock);
	box->out--;
	box->nmails++;
	list_add(&mail->node, &box->mails);
	wake_up_interruptible_poll(&box->wait, EPOLLIN | EPOLLRDNORM);
	spin_unlock_bh(&box->lock);
}

/* A module's function, with one message after the other. */
static void krdma_box_work(struct work_struct *work)
{
	struct krdma_box *box = container_of(work, struct krdma_box, work);
	struct krdma_mail *mail;

	while (!READ_ONCE(box->over) && (mail = krdma_box_pop(box, SIZE_MAX))) {
		box->fn(box->priv, &mail->head);
		krdma_box_read(box, mail);
		cond_resched();
	}
}

/**
 * krdma_box_wake - tell who reads of a message
 * @box: the queue
 *
 * ORDER: under the lock, so that no work is queued when the queue is over.
 *
 * Context: box->lock held.
 */
void krdma_box_wake(struct krdma_box *box)
{
	lockdep_assert_held(&box->lock);
	if (box->fn)
		queue_work(krdma_event_wq, &box->work);
	else
		wake_up_interruptible_poll(&box->wait, EPOLLIN | EPOLLRDNORM);
}

/**
 * krdma_box_new - a queue for an export's messages
 * @fn: of a module, to be called with each; NULL: they are read from files
 * @priv: for @fn
 *
 * Context: process, of the user who pays for it.
 * Return: the queue with a reference, or NULL
 */
struct krdma_box *krdma_box_new(krdma_receive_fn fn, void *priv)
{
	struct krdma_box *box = kzalloc(sizeof(*box), GFP_KERNEL_ACCOUNT);

	if (!box)
		return NULL;
	box->msg = kzalloc(sizeof(*box->msg), GFP_KERNEL_ACCOUNT);
	if (!box->msg) {
		kfree(box);
		return NULL;
	}
	kref_init(&box->ref);
	spin_lock_init(&box->lock);
	INIT_LIST_HEAD(&box->mails);
	INIT_LIST_HEAD(&box->waiting);
	init_waitqueue_head(&box->wait);
	init_waitqueue_head(&box->idle);
	INIT_WORK(&box->work, krdma_box_work);
	INIT_WORK(&box->deliver_work, krdma_deliver_work);
	/* A module's messages are the kernel's. */
	box->memcg = fn ? NULL : get_mem_cgroup_from_mm(current->mm);
	box->fn = fn;
	box->priv = priv;
	return box;
}

/**
 * krdma_box_end - the export is gone
 * @box: its queue; takes no more messages, and its function is not called any more
 *	when this returns
 *
 * Context: process.
 */
void krdma_box_end(struct krdma_box *box)
{
	spin_lock_bh(&box->lock);
	box->over = true;
	spin_unlock_bh(&box->lock);
	wake_up_interruptible_poll(&box->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	if (box->fn)
		cancel_work_sync(&box->work);
}

/**
 * krdma_box_count - how many messages are in a queue
 * @box: the queue
 * @waiting: out: grants with messages that found no room
 *
 * Context: process.
 * Return: messages
 */
u32 krdma_box_count(struct krdma_box *box, u32 *waiting)
{
	struct list_head *sender;
	u32 n = 0, mails;

	spin_lock_bh(&box->lock);
	mails = box->nmails;
	list_for_each(sender, &box->waiting)
		n++;
	spin_unlock_bh(&box->lock);
	*waiting = n;
	return mails;
}

/* ---- files ---- */

/* A message, or the end: not while one is out that may come back. */
static bool krdma_box_readable(struct krdma_box *box, bool *end)
{
	bool some;

	spin_lock_bh(&box->lock);
	some = !list_empty(&box->mails);
	*end = !some && box->over && !box->out;
	spin_unlock_bh(&box->lock);
	return some || *end;
}

/* As many as there are and fit. Return: bytes, 0 if there are none, or an errno */
static ssize_t krdma_inbox_take(struct krdma_box *box, struct iov_iter *to)
{
	struct krdma_mail *mail;
	ssize_t moved = 0;
	size_t copied;
	u32 n;

	/* No longer than a queue is long: others fill it meanwhile. */
	for (n = 0; n < KRDMA_BOX_MESSAGES && !(n && signal_pending(current)); n++) {
		mail = krdma_box_pop(box, iov_iter_count(to));
		if (IS_ERR_OR_NULL(mail))
			return moved ?: PTR_ERR(mail);
		copied = copy_to_iter(&mail->head, mail->head.size, to);
		if (copied != mail->head.size) {
			iov_iter_revert(to, copied);
			krdma_box_back(box, mail);
			return moved ?: -EFAULT;
		}
		moved += copied;
		krdma_box_read(box, mail);
	}
	return moved;
}

static ssize_t krdma_inbox_read(struct kiocb *iocb, struct iov_iter *to)
{
	bool wait = !(iocb->ki_flags & IOCB_NOWAIT) && !(iocb->ki_filp->f_flags & O_NONBLOCK);
	struct krdma_box *box = iocb->ki_filp->private_data;
	bool end;
	ssize_t rc;

	if (!iov_iter_count(to))
		return 0;
	for (;;) {
		rc = krdma_inbox_take(box, to);
		if (rc)
			return rc;
		if (krdma_box_readable(box, &end)) {
			if (end)
				return 0;
			continue;
		}
		if (!wait)
			return -EAGAIN;
		if (wait_event_interruptible(box->wait, krdma_box_readable(box, &end)))
			return -ERESTARTSYS;
	}
}

static __poll_t krdma_inbox_poll(struct file *file, poll_table *wait)
{
	struct krdma_box *box = file->private_data;
	__poll_t mask = 0;
	bool end;

	poll_wait(file, &box->wait, wait);
	if (krdma_box_readable(box, &end))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(box->over))
		mask |= EPOLLHUP;
	return mask;
}

static int krdma_inbox_release(struct inode *inode, struct file *file)
{
	krdma_box_put(file->private_data);
	return 0;
}

static const struct file_operations krdma_inbox_fops = {
	.owner = THIS_MODULE,
	.read_iter = krdma_inbox_read,
	.poll = krdma_inbox_poll,
	.release = krdma_inbox_release,
	.llseek = noop_llseek,
};

/**
 * krdma_inbox_open - a file to read the messages to an export from
 * @export: export
 * @nonblock: read does not wait
 * @error: explanation
 *
 * Context: process.
 * Return: the file, or an ERR_PTR
 */
struct file *krdma_inbox_open(struct krdma_export *export, bool nonblock, struct krdma_error *error)
{
	struct krdma_box *box = export->box;
	struct file *file;

	if (!box)
		return ERR_PTR(krdma_explain(error, -EACCES, "'%s' is not published for messages",
					     export->name));
	file = anon_inode_getfile("[krdma_inbox]", &krdma_inbox_fops, box,
				  O_RDONLY | (nonblock ? O_NONBLOCK : 0));
	if (IS_ERR(file))
		return file;
	kref_get(&box->ref);
	stream_open(file_inode(file), file);
	file->f_mode |= FMODE_NOWAIT;
	return file;
}
