// SPDX-License-Identifier: GPL-2.0
/*
 * The baseline: WRITEs, READs and SENDs with ib_post_send and a completion queue, and nothing
 * else. Not a part of krdma_mover; selftests/tools/bench/insn and selftests/tools/vm/compare load
 * this module.
 *
 * It connects by rdma_cm, with one queue pair at each end, or "pairs" of them, set up as
 * krdma_mover does (driver/rdma/cm.c): the same kind of completion queue, the same times and
 * limits, local memory by local_dma_lkey, and remote memory that was registered by work requests.
 * Both ends are in this module, with 32 pages each; or in two hosts, with 4 MiB each: side=target
 * on one host, then side=initiator on the other. The target sends its keys in a message. (Not on
 * iWARP, where the side that connects has to send first, and the memory of a READ has to be
 * registered.)
 *
 *	echo "write refill 32 2048" >/sys/module/krdma_raw/parameters/run
 *	cat /sys/module/krdma_raw/parameters/run
 *
 * runs 2048 operations of a page, 32 under way, and prints the nanoseconds and the microseconds
 * for which the processor was idle. "send" is a message of up to a page, which the other end's
 * completion handler returns: a round trip of the software at both ends. A fifth word is another
 * size, a power of two: all operations under way have to fit into the memory, and one operation
 * into 1 MiB of it. The ways:
 *
 *	refill	the completion handler posts the next operation, one at a time
 *	chain	the handler posts all of the next operations with one call, when all have ended
 *	wait	like chain, by a thread that sleeps meanwhile
 *	time	like wait, and reads the clock before and after each chain: the median and the
 *		99th percentile, in nanoseconds, are in parameters/latency
 *
 * After "echo 4 >parameters/submitters" a run by "refill" is by four queue pairs, each on its
 * processor. It is over when the first of them has ended all of its operations;
 * parameters/ended is how many all of them have ended by then.
 */
#include <linux/cpu.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "krdma_raw.h"

#define RAW_TIMES_MAX SZ_1M

struct raw_state raw = { .npairs = 1 };

static char *raw_side_name = "both";
module_param_named(side, raw_side_name, charp, 0444);
MODULE_PARM_DESC(side, "both (the default), target or initiator");

module_param_named(pairs, raw.npairs, uint, 0444);
MODULE_PARM_DESC(pairs, "queue pairs, one for each submitter");

static unsigned int raw_submitters = 1;

static const char *const raw_sides[] = { "both", "target", "initiator", NULL };

/* ---- a run ---- */

static void raw_post(struct raw_pair *pair, u32 slot, u32 n)
{
	int rc;

	/*
	 * As under the lock that any user of a queue pair has: rxe goes on in a software
	 * interrupt, which is run at its end, or else by a thread that has to be woken.
	 */
	local_bh_disable();
	rc = ib_post_send(pair->here.id->qp, &pair->slot[slot].wr.wr, NULL);
	local_bh_enable();
	if (rc) {
		pr_err("krdma_raw: %u work requests were not accepted (%d)\n", n, rc);
		raw.err = rc;
		complete(&raw.done);
	}
}

void raw_op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_slot *slot = container_of(wc->wr_cqe, struct raw_slot, cqe);
	struct raw_pair *pair = raw_pair_of(cq);

	if (wc->status != IB_WC_SUCCESS) {
		pr_err("krdma_raw: %s\n", ib_wc_status_msg(wc->status));
		raw.err = -EIO;
		complete(&raw.done);
		return;
	}
	/* That of a message is its reply. */
	if (raw.run.op != RUN_SEND)
		raw_ended(pair, slot - pair->slot);
}

void raw_ended(struct raw_pair *pair, u32 slot)
{
	pair->ended++;
	if (raw.run.way == RUN_REFILL && pair->left) {
		pair->left--;
		raw_post(pair, slot, 1);
	} else if (raw.run.way == RUN_CHAIN && pair->left && !(pair->ended % raw.run.depth)) {
		pair->left -= raw.run.depth;
		raw_post(pair, 0, raw.run.depth);
	}
	if (pair->ended == pair->goal)
		complete(&raw.done);
}

static int raw_wait(void)
{
	if (!wait_for_completion_timeout(&raw.done, 60 * HZ))
		return -ETIMEDOUT;
	return raw.err;
}

/* A slot has the same place in the memory of both ends. */
static void raw_aim(struct raw_pair *pair, bool chained)
{
	u32 size = raw.run.size, i, at;

	for (i = 0, at = 0; i < raw.run.depth; i++, at += size) {
		const struct raw_key *key = &pair->key[at / raw.region_size];
		struct raw_slot *slot = &pair->slot[i];
		struct ib_rdma_wr *wr = &slot->wr;

		slot->sge.addr = pair->block[at / raw.block_size].dma + at % raw.block_size;
		slot->sge.length = size;
		wr->remote_addr = le64_to_cpu(key->address) + at % raw.region_size;
		wr->rkey = le32_to_cpu(key->rkey);
		wr->wr.opcode = raw.run.op == RUN_READ  ? IB_WR_RDMA_READ :
				raw.run.op == RUN_WRITE ? IB_WR_RDMA_WRITE :
							  IB_WR_SEND;
		wr->wr.next = chained && i + 1 < raw.run.depth ? &pair->slot[i + 1].wr.wr : NULL;
	}
}

/* Chains, one after the other, each with its time. */
static int raw_run_timed(struct raw_pair *pair, u32 n)
{
	ktime_t t;
	int rc;
	u32 i;

	pair->goal = 0;
	for (i = 0; i < n; i++) {
		t = ktime_get();
		pair->goal += raw.run.depth;
		raw_post(pair, 0, raw.run.depth);
		rc = raw_wait();
		if (rc)
			return rc;
		raw.times[i] = min_t(u64, ktime_to_ns(ktime_sub(ktime_get(), t)), U32_MAX);
	}
	return 0;
}

/* All of the first operations in one turn of the software interrupt, as a driver's would be. */
static void raw_fill(struct raw_pair *pair, u32 chains)
{
	u32 i;

	local_bh_disable();
	for (i = 0; i < chains; i++)
		raw_post(pair, i, 1);
	local_bh_enable();
}

static void raw_begin_work(struct work_struct *work)
{
	raw_fill(container_of(work, struct raw_pair, begin), raw.run.depth);
}

/*
 * Each queue pair on a processor of its own, where its completions are as well; until one of
 * them has ended all of its operations. The others go on meanwhile, and are waited for then.
 */
static int raw_run_beside(u32 npairs)
{
	int rc, err;
	u32 i;

	cpus_read_lock();
	for (i = 0; i < npairs; i++)
		schedule_work_on(i, &raw.pair[i]->begin);
	rc = raw_wait();
	run_end(&raw.run);
	for (i = 0, raw.ended = 0; i < npairs; i++)
		raw.ended += READ_ONCE(raw.pair[i]->ended);
	for (i = 1; i < npairs; i++) {
		err = raw_wait();
		rc = rc ?: err;
	}
	for (i = 0; i < npairs; i++)
		flush_work(&raw.pair[i]->begin);
	cpus_read_unlock();
	return rc;
}

/* Nothing but posts between the two looks at the clock. */
static int raw_run_alone(struct raw_pair *pair)
{
	u32 depth = raw.run.depth, n = raw.run.n;
	int rc = 0;
	u32 i;

	if (raw.run.way == RUN_TIME) {
		rc = raw_run_timed(pair, n / depth);
	} else if (raw.run.way == RUN_WAIT) {
		for (i = 0; i < n && !rc; i += depth) {
			pair->goal = i + depth;
			raw_post(pair, 0, depth);
			rc = raw_wait();
		}
	} else {
		raw_fill(pair, raw.run.way == RUN_CHAIN ? 1 : depth);
		rc = raw_wait();
	}
	run_end(&raw.run);
	raw.ended = pair->ended;
	return rc;
}

static int raw_run(void)
{
	bool chained = raw.run.way != RUN_REFILL;
	u32 i;

	for (i = 0; i < raw_submitters; i++) {
		struct raw_pair *pair = raw.pair[i];

		raw_aim(pair, chained);
		pair->ended = 0;
		pair->goal = raw.run.n;
		pair->left = raw.run.n - raw.run.depth;
	}
	raw.err = 0;
	reinit_completion(&raw.done);
	run_begin(&raw.run);
	return raw_submitters > 1 ? raw_run_beside(raw_submitters) : raw_run_alone(raw.pair[0]);
}

static int raw_compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static int raw_run_timing(void)
{
	u32 count = raw.run.n / raw.run.depth;
	int rc;

	if (count > RAW_TIMES_MAX)
		return -EINVAL;
	raw.times = kvmalloc_array(count, sizeof(*raw.times), GFP_KERNEL);
	if (!raw.times)
		return -ENOMEM;
	rc = raw_run();
	if (!rc) {
		sort(raw.times, count, sizeof(*raw.times), raw_compare, NULL);
		raw.median = raw.times[(count - 1) / 2];
		raw.p99 = raw.times[count - 1 - count / 100];
	}
	kvfree(raw.times);
	return rc;
}

static int raw_run_set(const char *val, const struct kernel_param *kp)
{
	int rc = run_parse(&raw.run, val);
	u32 size = raw.run.size, i;

	if (rc)
		return rc;
	if (!is_power_of_2(size) || size > raw.block_size ||
	    (u64)raw.run.depth * size > raw.nblocks * raw.block_size)
		return -EINVAL;
	if (raw.run.op == RUN_SEND && size > PAGE_SIZE)
		return -EINVAL;
	if (raw_submitters > 1 && (raw.run.way != RUN_REFILL || raw_submitters > num_online_cpus()))
		return -EINVAL;
	for (i = 0; i < raw_submitters; i++)
		if (!raw.pair[i]->here.up)
			return -ENOTCONN;
	return raw.run.way == RUN_TIME ? raw_run_timing() : raw_run();
}

static int raw_run_get(char *buffer, const struct kernel_param *kp)
{
	return run_show(&raw.run, buffer);
}

static const struct kernel_param_ops raw_run_ops = {
	.set = raw_run_set,
	.get = raw_run_get,
};
module_param_cb(run, &raw_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, RUN_DESC);

static int raw_latency_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%u %u\n", raw.median, raw.p99);
}

static const struct kernel_param_ops raw_latency_ops = {
	.get = raw_latency_get,
};
module_param_cb(latency, &raw_latency_ops, NULL, 0400);
MODULE_PARM_DESC(latency, "of the last run by 'time': median and 99th percentile, nanoseconds");

/* How many of the queue pairs a run uses. */
static int raw_submitters_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;
	int rc = kstrtouint(val, 0, &n);

	if (rc)
		return rc;
	if (!n || n > raw.npairs)
		return -EINVAL;
	raw_submitters = n;
	return 0;
}

static const struct kernel_param_ops raw_submitters_ops = {
	.set = raw_submitters_set,
	.get = param_get_uint,
};
module_param_cb(submitters, &raw_submitters_ops, &raw_submitters, 0600);
MODULE_PARM_DESC(submitters, "queue pairs that a run uses, each on its processor");

module_param_named(ended, raw.ended, uint, 0400);
MODULE_PARM_DESC(ended, "operations of the last run that had ended at its end");

static int raw_idle_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%llu\n", run_idle());
}

static const struct kernel_param_ops raw_idle_ops = {
	.get = raw_idle_get,
};
module_param_cb(idle, &raw_idle_ops, NULL, 0400);
MODULE_PARM_DESC(idle, "microseconds that this processor has been idle");

/* ---- begin and end ---- */

static void raw_exit(void)
{
	u32 i;

	if (raw.listener)
		rdma_destroy_id(raw.listener);
	for (i = 0; i < RAW_PAIRS_MAX && raw.pair[i]; i++) {
		raw_pair_end(raw.pair[i]);
		kvfree(raw.pair[i]);
	}
}

static struct raw_pair *raw_pair_new(void)
{
	struct raw_pair *pair = kvzalloc(sizeof(*pair), GFP_KERNEL);

	if (!pair)
		return NULL;
	pair->here.pair = pair;
	pair->there.pair = pair;
	init_completion(&pair->here.event);
	init_completion(&pair->there.event);
	init_completion(&pair->registered);
	init_completion(&pair->told);
	INIT_WORK(&pair->begin, raw_begin_work);
	return pair;
}

static int raw_begin(void)
{
	int rc = 0;
	u32 i;

	if (!raw.npairs || raw.npairs > RAW_PAIRS_MAX)
		return -EINVAL;
	for (i = 0; i < raw.npairs; i++) {
		raw.pair[i] = raw_pair_new();
		if (!raw.pair[i])
			return -ENOMEM;
	}
	if (raw.side != RAW_INITIATOR)
		rc = raw_listen();
	for (i = 0; i < raw.npairs && !rc; i++)
		rc = raw_pair_begin(raw.pair[i]);
	return rc;
}

static int __init raw_init(void)
{
	bool both;
	int rc;

	rc = match_string(raw_sides, -1, raw_side_name);
	if (rc < 0)
		return rc;
	raw.side = rc;
	both = raw.side == RAW_BOTH;
	raw.nblocks = both ? RUN_SLOTS : RAW_REGIONS;
	raw.block_size = both ? PAGE_SIZE : RAW_REGION_SIZE;
	raw.nregions = both ? 1 : RAW_REGIONS;
	raw.region_size = both ? RUN_SLOTS * PAGE_SIZE : RAW_REGION_SIZE;
	init_completion(&raw.done);
	rc = raw_begin();
	if (rc) {
		pr_err("krdma_raw: no connection from %s to %s (%d)\n", raw_src, raw_dst, rc);
		raw_exit();
	}
	return rc;
}

module_init(raw_init);
module_exit(raw_exit);

MODULE_DESCRIPTION("READ and WRITE by the kernel's verbs alone, to be counted or timed");
MODULE_LICENSE("GPL");
