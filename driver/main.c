// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading.
 *
 * Unloading needs no open file (the file operations hold the module) and no client in
 * the kernel (which holds it, besides its use of our symbols). Listeners and sessions
 * do not hold it: krdma_exit ends them, tells the peers, and waits.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "frontend/ctx.h"
#include "inject.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

u64 krdma_incarnation;
struct workqueue_struct *krdma_wq;
struct workqueue_struct *krdma_rpc_wq;
struct workqueue_struct *krdma_count_wq;
struct workqueue_struct *krdma_tick_wq;
struct workqueue_struct *krdma_down_wq;
struct workqueue_struct *krdma_leave_wq;
struct workqueue_struct *krdma_local_wq;
struct workqueue_struct *krdma_close_wq;
struct workqueue_struct *krdma_event_wq;

/**
 * krdma_explain - say why a call fails
 * @error: where to; NULL if nobody asks
 * @err: negative errno
 * @fmt: one sentence without a full stop
 *
 * The first explanation stays: it is the one nearest to the cause.
 *
 * Context: any.
 * Return: @err
 */
int krdma_explain(struct krdma_error *error, int err, const char *fmt, ...)
{
	va_list args;

	if (!error || error->err)
		return err;
	error->err = -err;
	va_start(args, fmt);
	vscnprintf(error->text, sizeof(error->text), fmt, args);
	va_end(args);
	return err;
}

/*
 * No work in these waits for a peer: one queue could be filled by those that do. Time, the
 * end of sessions and the end of files have queues of their own all the same, so that they
 * depend on nothing else. Those that a transfer may need have a rescuer, as it may be one that
 * memory is to be reclaimed by. The rescuer has the queue's name: no queue has the name of the
 * command.
 */
static const struct {
	struct workqueue_struct **wq;
	const char *name;
	unsigned int flags;
} krdma_wqs[] = {
	{ &krdma_wq, "krdma_work", WQ_MEM_RECLAIM },
	{ &krdma_local_wq, "krdma_local" },
	{ &krdma_rpc_wq, "krdma_rpc", WQ_MEM_RECLAIM },
	{ &krdma_count_wq, "krdma_count" },
	{ &krdma_tick_wq, "krdma_tick", WQ_MEM_RECLAIM },
	{ &krdma_down_wq, "krdma_down", WQ_MEM_RECLAIM },
	{ &krdma_leave_wq, "krdma_leave" },
	{ &krdma_close_wq, "krdma_close" },
	{ &krdma_event_wq, "krdma_event" },
};

/* From the last to the first: a work may queue one on a queue that is before its own. */
static void krdma_wqs_destroy(void)
{
	int i;

	for (i = ARRAY_SIZE(krdma_wqs); i--;)
		if (*krdma_wqs[i].wq)
			destroy_workqueue(*krdma_wqs[i].wq);
}

static int krdma_wqs_create(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(krdma_wqs); i++) {
		*krdma_wqs[i].wq = krdma_inject(alloc_workqueue(krdma_wqs[i].name,
								WQ_UNBOUND | krdma_wqs[i].flags,
								WQ_UNBOUND_MAX_ACTIVE),
						NULL);
		if (!*krdma_wqs[i].wq)
			return -ENOMEM;
	}
	return 0;
}

/* What krdma_init begins before there are devices, as far as it got. */
static void krdma_end(void)
{
	krdma_listeners_exit();
	krdma_wqs_destroy();
	krdma_fault_exit();
	krdma_reqs_exit();
}

static int __init krdma_init(void)
{
	int rc;

	do {
		krdma_incarnation = get_random_u64();
	} while (!krdma_incarnation);

	krdma_stats_init();
	krdma_digest_init();
	krdma_session_roles(&krdma_initiator_ops, &krdma_target_ops);
	rc = krdma_reqs_init();
	if (rc)
		return rc;
	krdma_fault_init();
	rc = krdma_wqs_create() ?: krdma_device_init(&krdma_session_device_ops);
	if (rc)
		goto out;

	rc = krdma_cdev_register();
	if (rc) {
		krdma_device_exit();
		goto out;
	}

	pr_info("krdma_mover: version %s, incarnation %016llx\n", KRDMA_VERSION, krdma_incarnation);
	return 0;

out:
	krdma_end();
	return rc;
}

static void __exit krdma_exit(void)
{
	krdma_cdev_unregister();
	/* Files that were closed just now may still be ending their listeners. */
	flush_workqueue(krdma_close_wq);
	krdma_listeners_drop(NULL);
	krdma_sessions_exit();
	/* No session is left, so that no device is in use. */
	krdma_device_exit();
	krdma_end();
	krdma_stats_exit();
}

module_init(krdma_init);
module_exit(krdma_exit);

MODULE_DESCRIPTION("Moves bytes between the memories of hosts over RDMA");
MODULE_VERSION(KRDMA_VERSION);
MODULE_LICENSE("GPL");
