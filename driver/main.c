// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading.
 *
 * Unloading needs no open file (the file operations hold the module). Listeners
 * and sessions do not hold it: krdma_exit ends them, tells the peers, and waits.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "krdma.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

u64 krdma_incarnation;
struct workqueue_struct *krdma_wq;

/**
 * krdma_explain - say why a call fails
 * @why: where to; NULL if nobody asks
 * @err: negative errno
 * @fmt: one sentence without a full stop
 *
 * The first explanation stays: it is the one nearest to the cause.
 *
 * Context: any.
 * Return: @err
 */
int krdma_explain(struct krdma_why *why, int err, const char *fmt, ...)
{
	va_list args;

	if (!why || why->err)
		return err;
	why->err = -err;
	va_start(args, fmt);
	vscnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	return err;
}

static int __init krdma_init(void)
{
	int rc;

	do {
		krdma_incarnation = get_random_u64();
	} while (!krdma_incarnation);

	/* Services wait for the peer: unbound, and as many as there are sessions. */
	krdma_wq = alloc_workqueue("krdma", WQ_UNBOUND | WQ_SYSFS, WQ_UNBOUND_MAX_ACTIVE);
	if (!krdma_wq)
		return -ENOMEM;

	rc = krdma_device_init();
	if (rc)
		goto out_wq;

	rc = krdma_cdev_register();
	if (rc)
		goto out_device;

	pr_info("krdma_mover: version %s, incarnation %016llx\n", KRDMA_VERSION, krdma_incarnation);
	return 0;

out_device:
	krdma_device_exit();
	krdma_listeners_exit();
out_wq:
	destroy_workqueue(krdma_wq);
	return rc;
}

static void __exit krdma_exit(void)
{
	krdma_cdev_unregister();
	krdma_listeners_drop(NULL);
	krdma_sessions_exit();
	/* No session is left, so that no device is in use. */
	krdma_device_exit();
	krdma_listeners_exit();
	destroy_workqueue(krdma_wq);
}

module_init(krdma_init);
module_exit(krdma_exit);

MODULE_DESCRIPTION("Moves bytes between the memories of hosts over RDMA");
MODULE_VERSION(KRDMA_VERSION);
MODULE_LICENSE("GPL");
