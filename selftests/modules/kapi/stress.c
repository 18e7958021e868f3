// SPDX-License-Identifier: GPL-2.0
/*
 * Many transfers at a time, cancelled and timed out at random, some submitted again from ->done.
 * Each ends exactly once, and what is written after them is read as it was.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/mutex.h>

#include "test.h"

static DEFINE_MUTEX(cancel_lock);
static bool disturb, broken;

/* Cancels what it finds, from another thread. */
static int disturber(void *unused)
{
	while (!kthread_should_stop()) {
		mutex_lock(&cancel_lock);
		if (READ_ONCE(disturb)) {
			struct slot *s = &slots[below(test_depth)];

			if (s->submitted)
				krdma_io_cancel(&s->io);
			if (!below(32))
				krdma_region_cancel(test_region);
		}
		mutex_unlock(&cancel_lock);
		usleep_range(50, 2000);
	}
	return 0;
}

static bool stress_round(void)
{
	bool ok = true;
	u32 i, n;

	for (i = 0; i < test_depth; i++)
		slot_shuffle(&slots[i]);
	slot_big();
	slots_begin(test_depth + 1);
	krdma_io_submit(&big_slot.io);
	disturb = below(4);
	for (i = 0; i < test_depth; i += n) {
		LIST_HEAD(batch);
		u32 j;

		n = min(1 + below(16), test_depth - i);
		for (j = i; j < i + n; j++)
			list_add_tail(&slots[j].io.node, &batch);
		mutex_lock(&cancel_lock);
		krdma_io_submit_batch(&batch);
		/* What ->done submits again can't be cancelled one by one. */
		for (j = i; j < i + n; j++)
			slots[j].submitted = slots[j].single;
		mutex_unlock(&cancel_lock);
		j = i + below(n);
		if (!below(4) && slots[j].single)
			krdma_io_cancel(&slots[j].io);
		if (!below(32))
			krdma_region_cancel(test_region);
		/* What it does not cancel goes on elsewhere. */
		if (!below(32))
			krdma_region_abort(test_region);
		if (!below(3))
			usleep_range(10, 500);
	}
	if (below(4))
		krdma_io_cancel(&big_slot.io);
	if (!slots_wait())
		return false;
	mutex_lock(&cancel_lock);
	disturb = false;
	for (i = 0; i < test_depth; i++)
		slots[i].submitted = false;
	mutex_unlock(&cancel_lock);
	for (i = 0; i <= test_depth; i++) {
		struct slot *s = i < test_depth ? &slots[i] : &big_slot;
		struct krdma_io *io = &s->io;

		ok &= want(atomic_read(&s->calls) == s->expected);
		/* The path may be lost, as in any test; that has an event. */
		broken |= io->status == -ENOTCONN;
		/* Or posted on a channel that was taken down, and cancelled or late then. */
		ok &= want(!io->status || io->status == -ECANCELED || io->status == -ETIMEDOUT ||
			   io->status == -ECONNRESET || broken);
		ok &= want(io->status ? io->moved <= io->length : io->moved == io->length);
		ok &= want(!io->pages_lost);
		test_ended += s->expected;
		test_cancelled += io->status == -ECANCELED;
		test_timed_out += io->status == -ETIMEDOUT;
		if (!ok)
			pr_err("krdma_kapi_test: slot %u: op %d status %d moved %llu of %llu\n", i,
			       io->op, io->status, io->moved, io->length);
	}
	return ok;
}

bool test_stress(void)
{
	struct task_struct *task = kthread_run(disturber, NULL, "krdma_disturb");
	bool ok = true;
	u32 i;

	if (IS_ERR(task))
		return false;
	for (i = 0; ok && !broken && i < test_rounds; i++)
		ok = stress_round() && (broken || slots_verify());
	kthread_stop(task);
	/* Closing while all are under way: they have ended when it returns. */
	for (i = 0; ok && i < test_depth; i++)
		slot_fill(&slots[i], KRDMA_OP_WRITE);
	if (ok) {
		slots_begin(test_depth);
		for (i = 0; i < test_depth; i++)
			krdma_io_submit(&slots[i].io);
		if (below(2))
			krdma_region_cancel(test_region);
		if (below(2))
			krdma_region_abort(test_region);
		krdma_close(test_region);
		test_region = NULL;
		ok &= want(!atomic_read(&slots_pending));
		for (i = 0; i < test_depth; i++)
			ok &= want(atomic_read(&slots[i].calls) == 1);
	}
	if (broken)
		pr_err("krdma_kapi_test: the path was lost, and %d events told so\n", test_lost);
	return ok && !broken && want(!atomic_read(&test_events));
}
