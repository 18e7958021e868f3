// SPDX-License-Identifier: GPL-2.0
/*
 * WRITEs and READs of a page by include/linux/krdma_mover.h. krdma_raw_run.c does the same by verbs
 * alone. Not a part of krdma_mover; selftests/tools/bench/insn loads this module.
 *
 *	echo "write refill 32 2048" >/sys/module/krdma_kbench/parameters/run
 *	cat /sys/module/krdma_kbench/parameters/run
 *
 * runs 2048 operations, 32 under way, and prints the nanoseconds and the microseconds for which
 * the processor was idle. The first run connects, and so does a run after a failed one. The ways:
 *
 *	refill	->done submits the next operation, one at a time
 *	chain	->done of the last operation submits all of the next ones with one call
 *	wait	like chain, by a thread that sleeps meanwhile
 */
#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <net/net_namespace.h>

#include <linux/krdma_mover.h>

#include "krdma_run.h"

static char *kbench_src = "10.9.0.1";
module_param_named(src, kbench_src, charp, 0444);
MODULE_PARM_DESC(src, "Address to connect from");

static char *kbench_dst = "10.9.0.2";
module_param_named(dst, kbench_dst, charp, 0444);
MODULE_PARM_DESC(dst, "Host that publishes memory");

static char *kbench_name = "bench";
module_param_named(name, kbench_name, charp, 0444);
MODULE_PARM_DESC(name, "Name of that memory");

struct kbench_slot {
	struct krdma_io io;
	struct bio_vec bvec;
};

static struct {
	bool ready; /* between init and exit, for parameters may be written before and after */
	struct krdma_client *client;
	struct krdma_session_handle *session;
	struct krdma_region_handle *region;
	struct kbench_slot slot[RUN_SLOTS];

	struct run run;
	atomic_t left;      /* operations to submit */
	atomic_t under_way; /* slots in use; of a chain those that have not ended */
	int err;
	bool pages_lost;
	struct completion done;
} kb;

/* ---- a run ---- */

static void kbench_submit_all(void)
{
	LIST_HEAD(batch);
	u32 i;

	atomic_set(&kb.under_way, kb.run.depth);
	for (i = 0; i < kb.run.depth; i++)
		list_add_tail(&kb.slot[i].io.node, &batch);
	krdma_io_submit_batch(&batch);
}

static void kbench_done(struct krdma_io *io)
{
	if (unlikely(io->status)) {
		WRITE_ONCE(kb.err, io->status);
		if (io->pages_lost)
			kb.pages_lost = true;
	}
	/* Nothing is submitted after an error: that might fail at once, and come back here. */
	if (kb.run.way == RUN_REFILL && !READ_ONCE(kb.err) &&
	    atomic_dec_if_positive(&kb.left) >= 0) {
		krdma_io_submit(io);
		return;
	}
	if (!atomic_dec_and_test(&kb.under_way))
		return;
	if (kb.run.way == RUN_CHAIN && !READ_ONCE(kb.err) && atomic_read(&kb.left)) {
		atomic_sub(kb.run.depth, &kb.left);
		kbench_submit_all();
		return;
	}
	complete(&kb.done);
}

/* Nothing but submissions between the two looks at the clock. */
static int kbench_run(void)
{
	u32 depth = kb.run.depth, i;

	for (i = 0; i < depth; i++)
		kb.slot[i].io.op = kb.run.op == RUN_READ ? KRDMA_OP_READ : KRDMA_OP_WRITE;
	kb.err = 0;
	atomic_set(&kb.left, kb.run.n - depth);
	reinit_completion(&kb.done);

	run_begin(&kb.run);
	switch (kb.run.way) {
	case RUN_REFILL:
		atomic_set(&kb.under_way, depth);
		/* One turn of the software interrupt for all, as krdma_raw has it. */
		local_bh_disable();
		for (i = 0; i < depth; i++)
			krdma_io_submit(&kb.slot[i].io);
		local_bh_enable();
		wait_for_completion(&kb.done);
		break;
	case RUN_CHAIN:
		kbench_submit_all();
		wait_for_completion(&kb.done);
		break;
	case RUN_WAIT:
		for (i = 0; i < kb.run.n && !kb.err; i += depth) {
			kbench_submit_all();
			wait_for_completion(&kb.done);
		}
		break;
	default:
		break;
	}
	run_end(&kb.run);
	if (kb.err)
		pr_err("krdma_kbench: an operation failed (%pe)\n", ERR_PTR(kb.err));
	return kb.err;
}

/* ---- connection ---- */

static void kbench_disconnect(void)
{
	krdma_close(kb.region);
	krdma_disconnect(kb.session);
	kb.region = NULL;
	kb.session = NULL;
}

static int kbench_connect(void)
{
	struct sockaddr_storage src, dst;
	struct krdma_connect_param param = { .dst = &dst, .src = &src };
	struct krdma_open_param open = {
		.name = kbench_name,
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
	};
	u32 i;
	int rc;

	rc = inet_pton_with_scope(&init_net, AF_UNSPEC, kbench_src, NULL, &src);
	if (!rc)
		rc = inet_pton_with_scope(&init_net, AF_UNSPEC, kbench_dst, NULL, &dst);
	if (rc)
		return rc;
	kb.session = krdma_connect(kb.client, &param);
	if (IS_ERR(kb.session))
		return PTR_ERR(kb.session);
	kb.region = krdma_open(kb.session, &open);
	if (IS_ERR(kb.region))
		return PTR_ERR(kb.region);
	for (i = 0; i < RUN_SLOTS; i++)
		kb.slot[i].io.region = kb.region;
	return 0;
}

static int kbench_run_set(const char *val, const struct kernel_param *kp)
{
	int rc;

	if (!kb.ready)
		return -ENODEV;
	rc = run_parse(&kb.run, val);
	if (rc)
		return rc;
	/* Its places are pages; single times are for krdma_raw. */
	if (kb.run.size != PAGE_SIZE || kb.run.way == RUN_TIME || kb.run.op == RUN_SEND)
		return -EINVAL;
	if (!kb.region)
		rc = kbench_connect();
	if (!rc)
		rc = kbench_run();
	if (rc)
		kbench_disconnect();
	return rc;
}

static int kbench_run_get(char *buffer, const struct kernel_param *kp)
{
	return run_show(&kb.run, buffer);
}

static const struct kernel_param_ops kbench_run_ops = {
	.set = kbench_run_set,
	.get = kbench_run_get,
};
module_param_cb(run, &kbench_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, RUN_DESC);

/* ---- begin and end ---- */

static void kbench_free(void)
{
	u32 i;

	kbench_disconnect();
	krdma_client_destroy(kb.client);
	for (i = 0; i < RUN_SLOTS; i++)
		if (kb.slot[i].bvec.bv_page && !kb.pages_lost)
			__free_page(kb.slot[i].bvec.bv_page);
}

static void kbench_exit(void)
{
	/* A run may be under way still: sysfs lives longer than this. */
	kernel_param_lock(THIS_MODULE);
	kb.ready = false;
	kbench_free();
	kernel_param_unlock(THIS_MODULE);
}

static int __init kbench_init(void)
{
	u32 i;

	init_completion(&kb.done);
	for (i = 0; i < RUN_SLOTS; i++) {
		struct kbench_slot *slot = &kb.slot[i];

		slot->bvec.bv_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!slot->bvec.bv_page) {
			kbench_free();
			return -ENOMEM;
		}
		slot->bvec.bv_len = PAGE_SIZE;
		slot->io.bvec = &slot->bvec;
		slot->io.nr_bvecs = 1;
		slot->io.offset = i * PAGE_SIZE;
		slot->io.length = PAGE_SIZE;
		slot->io.done = kbench_done;
	}
	kb.client = krdma_client_create(NULL);
	if (IS_ERR(kb.client)) {
		int rc = PTR_ERR(kb.client);

		kbench_free();
		return rc;
	}
	kb.ready = true;
	return 0;
}

module_init(kbench_init);
module_exit(kbench_exit);

MODULE_DESCRIPTION("READ and WRITE by a user of krdma_mover in the kernel, to be counted");
MODULE_LICENSE("GPL");
