// SPDX-License-Identifier: GPL-2.0
/* KRDMA_IOC_MONITOR: a file that events are read from. */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/net_namespace.h>

#include "event.h"
#include "frontend/ctx.h"

static void krdma_monitor_free(struct krdma_monitor *monitor)
{
	put_net(monitor->net);
	kvfree(monitor);
}

/* As many as there are and fit. Return: bytes, 0 if there are none, or an errno */
static ssize_t krdma_monitor_copy(struct krdma_monitor *monitor, struct iov_iter *to)
{
	struct krdma_monitor_event event;
	ssize_t moved = 0;
	size_t copied;
	u64 at;
	u32 n;

	/* No longer than the ring is: others fill it meanwhile. */
	for (n = 0; n < KRDMA_EVENTS_MAX && krdma_monitor_peek(monitor, &event, &at); n++) {
		if (iov_iter_count(to) < sizeof(event))
			return moved ?: -EMSGSIZE;
		event.uid = from_kuid_munged(current_user_ns(), KUIDT_INIT(event.uid));
		copied = copy_to_iter(&event, sizeof(event), to);
		if (copied != sizeof(event)) {
			iov_iter_revert(to, copied);
			return moved ?: -EFAULT;
		}
		krdma_monitor_read(monitor, at, event.lost);
		moved += copied;
	}
	return moved;
}

static ssize_t krdma_monitor_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	bool nowait = iocb->ki_flags & IOCB_NOWAIT;
	bool wait = !nowait && !(iocb->ki_filp->f_flags & O_NONBLOCK);
	struct krdma_monitor *monitor = iocb->ki_filp->private_data;
	ssize_t rc;

	if (!iov_iter_count(to))
		return 0;
	for (;;) {
		if (nowait && !mutex_trylock(&monitor->reading))
			return -EAGAIN;
		if (!nowait && mutex_lock_interruptible(&monitor->reading))
			return -ERESTARTSYS;
		rc = krdma_monitor_copy(monitor, to);
		mutex_unlock(&monitor->reading);
		if (rc)
			return rc;
		if (!wait)
			return -EAGAIN;
		if (wait_event_interruptible(monitor->wait, krdma_monitor_any(monitor)))
			return -ERESTARTSYS;
	}
}

static __poll_t krdma_monitor_poll(struct file *file, poll_table *wait)
{
	struct krdma_monitor *monitor = file->private_data;

	poll_wait(file, &monitor->wait, wait);
	return krdma_monitor_any(monitor) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int krdma_monitor_close(struct inode *inode, struct file *file)
{
	struct krdma_monitor *monitor = file->private_data;

	krdma_monitor_del(monitor);
	krdma_monitor_free(monitor);
	return 0;
}

static const struct file_operations krdma_monitor_fops = {
	.owner = THIS_MODULE,
	.read_iter = krdma_monitor_read_iter,
	.poll = krdma_monitor_poll,
	.release = krdma_monitor_close,
	.llseek = noop_llseek,
};

/**
 * krdma_monitor_open - a file to read events from
 * @ctx: open file, of whose user and namespace they are
 * @nonblock: read does not wait
 * @error: explanation
 *
 * Context: process.
 * Return: the file, or an ERR_PTR
 */
struct file *krdma_monitor_open(struct krdma_ctx *ctx, bool nonblock, struct krdma_error *error)
{
	struct krdma_monitor *monitor;
	struct file *file;
	int rc;

	monitor = krdma_inject(kvzalloc(sizeof(*monitor), GFP_KERNEL_ACCOUNT), NULL);
	if (!monitor)
		return ERR_PTR(-ENOMEM);
	monitor->net = get_net(ctx->net);
	monitor->uid = ctx->user->uid;
	monitor->admin = ns_capable(ctx->net->user_ns, CAP_NET_ADMIN);
	init_waitqueue_head(&monitor->wait);
	mutex_init(&monitor->reading);
	rc = krdma_monitor_add(monitor);
	if (rc) {
		krdma_monitor_free(monitor);
		return ERR_PTR(krdma_explain(error, rc, "too many files read events"));
	}
	file = krdma_inject(anon_inode_getfile("[krdma_monitor]", &krdma_monitor_fops, monitor,
					       O_RDONLY | (nonblock ? O_NONBLOCK : 0)),
			    ERR_PTR(-ENOMEM));
	if (IS_ERR(file)) {
		krdma_monitor_del(monitor);
		krdma_monitor_free(monitor);
		return file;
	}
	stream_open(file_inode(file), file);
	file->f_mode |= FMODE_NOWAIT;
	return file;
}
