// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers in a thread, until one fails. Parameters that can be written to open the region again,
 * and cancel what is under way.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "test.h"

static struct task_struct *thread;

static int loop(void *unused)
{
	u32 i;

	while (!kthread_should_stop()) {
		if (test_status) {
			schedule_timeout_interruptible(HZ / 20);
			continue;
		}
		slots_begin(test_depth);
		for (i = 0; i < test_depth; i++) {
			slot_fill(&slots[i], i % 2 ? KRDMA_OP_READ : KRDMA_OP_WRITE);
			slots[i].io.offset = 0;
			slots[i].io.length = PAGE_SIZE;
			slots[i].io.cpu = test_cpu;
			slots[i].io.timeout = ms_to_ktime(test_timeout_ms);
			krdma_io_submit(&slots[i].io);
		}
		while (test_polls && atomic_read(&slots_pending)) {
			krdma_region_poll(test_region);
			cond_resched();
		}
		if (!slots_wait())
			break;
		for (i = 0; i < test_depth; i++)
			if (slots[i].io.status && !test_status)
				test_status = slots[i].io.status;
		test_ended += test_depth;
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 20);
	return 0;
}

static int reopen_set(const char *text, const struct kernel_param *param)
{
	int rc;

	if (!thread)
		return -EINVAL;
	rc = krdma_reopen(test_region, test_session, 0);
	if (!rc)
		WRITE_ONCE(test_status, 0);
	return rc;
}

static const struct kernel_param_ops reopen_ops = { .set = reopen_set };
module_param_cb(reopen, &reopen_ops, NULL, 0200);

static int cancel_set(const char *text, const struct kernel_param *param)
{
	if (!thread)
		return -EINVAL;
	krdma_region_cancel(test_region);
	return 0;
}

static const struct kernel_param_ops cancel_ops = { .set = cancel_set };
module_param_cb(cancel, &cancel_ops, NULL, 0200);

int loop_begin(void)
{
	int rc;

	thread = kthread_run(loop, NULL, "krdma_loop");
	rc = PTR_ERR_OR_ZERO(thread);
	if (rc)
		thread = NULL;
	return rc;
}

void loop_end(void)
{
	if (thread)
		kthread_stop(thread);
}
