/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by krdma_raw and krdma_kbench: the parameter "run", which names the operations of a run,
 * and the measurement of the time.
 */
#ifndef KRDMA_RUN_H
#define KRDMA_RUN_H

#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tick.h>

/* At most so many under way. */
#define RUN_SLOTS 32

#define RUN_DESC \
	"write|read|send refill|chain|wait|time DEPTH OPERATIONS [SIZE]; then nanoseconds and idle us"

enum run_op {
	RUN_WRITE,
	RUN_READ,
	RUN_SEND
};

enum run_way {
	RUN_REFILL,
	RUN_CHAIN,
	RUN_WAIT,
	RUN_TIME
};

struct run {
	enum run_op op;
	enum run_way way;
	u32 depth;
	u32 n;
	u32 size;

	ktime_t begun;
	u64 ns;
	u64 idle; /* microseconds */
};

static inline u64 run_idle(void)
{
	return get_cpu_idle_time_us(raw_smp_processor_id(), NULL);
}

static inline int run_parse(struct run *run, const char *val)
{
	static const char *const ways[] = { "refill", "chain", "wait", "time", NULL };
	static const char *const ops[] = { "write", "read", "send", NULL };
	char op[8], name[8];
	int what, way;
	u32 depth, n, size = PAGE_SIZE;

	if (sscanf(val, "%7s %7s %u %u %u", op, name, &depth, &n, &size) < 4)
		return -EINVAL;
	what = match_string(ops, -1, op);
	way = match_string(ways, -1, name);
	if (what < 0 || way < 0 || !depth || depth > RUN_SLOTS || !n || n % depth)
		return -EINVAL;
	run->op = what;
	run->way = way;
	run->depth = depth;
	run->n = n;
	run->size = size;
	return 0;
}

static inline void run_begin(struct run *run)
{
	run->idle = run_idle();
	run->begun = ktime_get();
}

static inline void run_end(struct run *run)
{
	run->ns = ktime_to_ns(ktime_sub(ktime_get(), run->begun));
	run->idle = run_idle() - run->idle;
}

static inline int run_show(const struct run *run, char *buffer)
{
	return sysfs_emit(buffer, "%llu %llu\n", run->ns, run->idle);
}

#endif /* KRDMA_RUN_H */
