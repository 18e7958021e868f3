// SPDX-License-Identifier: GPL-2.0
/* krdma bench: perftest's letters and columns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli.h"

#define SIZE_DEFAULT         (64 * KIB)
#define SIZE_MIN             2ULL
#define SIZE_MAX_ALL         (8 * MIB)
#define ITERATIONS_BANDWIDTH 5000
#define ITERATIONS_LATENCY   1000
#define DEPTH_MAX            64ULL
/* Bytes under way by default, and the most local memory unless one operation has more. */
#define WINDOW (8 * MIB)
/* Batches over which the peak is taken. */
#define PEAK_BATCHES 16
#define WORKERS      2

enum {
	OPT_GBITS = OPT_LONG_ONLY,
	OPT_LATENCY,
	OPT_PINNED,
	OPT_TIMEOUT
};

struct bench_options {
	enum krdma_opcode opcode;
	uint64_t size;
	bool all;
	uint64_t iterations;  /* 0: not given */
	uint64_t duration_ns; /* 0: not given */
	uint64_t depth;       /* 0: not given */
	bool gbits;
	bool latency;
	bool pinned;
	uint64_t timeout_ns;
};

struct mark {
	uint64_t ns;
	uint64_t done;
};

/* The lock of the crew protects claimed and all below it. */
struct bench {
	struct crew crew;
	struct bench_options opts;
	struct remote remote;
	char *memory;
	uint64_t memory_size;
	uint32_t buffer;

	/* of one row */
	uint64_t size;
	uint64_t depth;
	uint64_t iterations; /* UINT64_MAX with a duration */
	uint64_t end_ns;     /* UINT64_MAX without one */

	uint64_t claimed;
	uint64_t done;
	uint64_t batches;
	uint64_t last_ns;
	double peak; /* operations per second */
	struct mark marks[PEAK_BATCHES];
	unsigned int workers;
};

/* ---- Operations ---- */

/* The nth operation: remote and local memory are walked in a ring, as far as they go. */
static void bench_op(const struct bench *bench, uint64_t n, struct krdma_op *op)
{
	uint64_t remote_slots = bench->remote.length / bench->size;
	const uint64_t local_slots = bench->memory_size / bench->size;
	const uint64_t local = n % local_slots * bench->size;

	if (remote_slots > bench->depth)
		remote_slots = bench->depth;
	*op = (struct krdma_op){
		.opcode = (uint8_t)bench->opts.opcode,
		.flags = bench->opts.pinned ? 0 : KRDMA_OP_BUFFER,
		.region = bench->remote.region.id,
		.user_data = n,
		.offset = bench->remote.offset + n % remote_slots * bench->size,
		.length = bench->size,
		.addr = bench->opts.pinned ? (uintptr_t)bench->memory + local : local,
		.buffer = bench->buffer,
		.timeout_ns = bench->opts.timeout_ns,
	};
}

/* Operations for the next batch, at most max. Return: 0 at the end. */
static uint64_t claim(struct bench *bench, uint64_t max, uint64_t *first)
{
	uint64_t count = 0;

	pthread_mutex_lock(&bench->crew.lock);
	if (!bench->crew.failed && now_ns() < bench->end_ns) {
		count = bench->iterations - bench->claimed;
		if (count > max)
			count = max;
	}
	*first = bench->claimed;
	bench->claimed += count;
	pthread_mutex_unlock(&bench->crew.lock);
	return count;
}

static void account(struct bench *bench, uint64_t count)
{
	struct mark *mark;

	pthread_mutex_lock(&bench->crew.lock);
	bench->done += count;
	bench->last_ns = now_ns();
	mark = &bench->marks[bench->batches % PEAK_BATCHES];
	if (bench->batches >= PEAK_BATCHES && bench->last_ns > mark->ns) {
		const double rate = (double)(bench->done - mark->done) * 1e9 /
				    (double)(bench->last_ns - mark->ns);

		if (rate > bench->peak)
			bench->peak = rate;
	}
	*mark = (struct mark){ bench->last_ns, bench->done };
	bench->batches++;
	pthread_mutex_unlock(&bench->crew.lock);
}

static void *bench_work(void *arg)
{
	struct bench *bench = arg;
	struct krdma_completion *completions;
	uint64_t max, first, count, i;
	struct krdma_op *ops;

	/* The first worker takes the odd one of the depth. */
	pthread_mutex_lock(&bench->crew.lock);
	max = (bench->depth + (bench->workers++ ? 0 : 1)) / WORKERS;
	pthread_mutex_unlock(&bench->crew.lock);

	ops = calloc(max, sizeof(*ops));
	completions = calloc(max, sizeof(*completions));
	if (!ops || !completions)
		crew_fail(&bench->crew, "out of memory");
	while (ops && completions && (count = claim(bench, max, &first))) {
		for (i = 0; i < count; i++)
			bench_op(bench, first + i, &ops[i]);
		if (krdma_submit(bench->remote.krdma, ops, completions, (unsigned int)count)) {
			crew_fail(&bench->crew, "%s", krdma_error());
			break;
		}
		account(bench, count);
	}
	free(ops);
	free(completions);
	crew_leave(&bench->crew);
	return NULL;
}

/* One untimed operation on each place, so that keys are not part of the result. */
static int warm_up(struct bench *bench)
{
	struct krdma_completion completion;
	struct krdma_op op;
	uint64_t i;

	for (i = 0; i < bench->depth; i++) {
		bench_op(bench, i, &op);
		if (krdma_submit(bench->remote.krdma, &op, &completion, 1))
			return fail_krdma();
	}
	return DONE;
}

/* ---- Rows ---- */

static void row_begin(struct bench *bench, uint64_t size)
{
	const struct bench_options *opts = &bench->opts;

	bench->size = size;
	bench->depth = opts->depth;
	/* Two at least: one on the wire while the other returns. */
	if (opts->latency) {
		bench->depth = 1;
	} else if (!bench->depth) {
		bench->depth = WINDOW / size;
		if (bench->depth < WORKERS)
			bench->depth = WORKERS;
		if (bench->depth > DEPTH_MAX)
			bench->depth = DEPTH_MAX;
	}
	bench->iterations = opts->iterations;
	bench->end_ns = UINT64_MAX;
	if (opts->duration_ns)
		bench->iterations = UINT64_MAX;
	else if (!bench->iterations)
		bench->iterations = opts->latency ? ITERATIONS_LATENCY : ITERATIONS_BANDWIDTH;
	bench->claimed = 0;
	bench->done = 0;
	bench->batches = 0;
	bench->peak = 0;
	bench->workers = 0;
}

static int bandwidth_row(struct bench *bench, struct json_object *rows)
{
	const double unit = bench->opts.gbits ? 1e9 / 8 : (double)MIB;
	struct json_object *row;
	double average, bytes = (double)bench->size;
	uint64_t start;
	unsigned int i;
	bool failed;

	crew_init(&bench->crew);
	start = now_ns();
	if (bench->opts.duration_ns)
		bench->end_ns = start + bench->opts.duration_ns;
	for (i = 0; i < WORKERS && i < bench->depth; i++)
		crew_start(&bench->crew, bench_work, bench);
	pthread_mutex_lock(&bench->crew.lock);
	crew_wait_locked(&bench->crew, 0);
	failed = bench->crew.failed;
	pthread_mutex_unlock(&bench->crew.lock);
	if (failed)
		return fail("%s", bench->crew.error);
	crew_join(&bench->crew);

	average = bench->done ? (double)bench->done * 1e9 / (double)(bench->last_ns - start) : 0;
	if (bench->peak < average)
		bench->peak = average;
	if (!json_asked) {
		printf(" %-7llu    %-10llu       %-7.2f            %-7.2f               %-7.6f\n",
		       (unsigned long long)bench->size, (unsigned long long)bench->done,
		       bench->peak * bytes / unit, average * bytes / unit, average / 1e6);
		return DONE;
	}
	row = json_object_new_object();
	json_add_count(row, "bytes", bench->size);
	json_add_count(row, "iterations", bench->done);
	json_add_real(row, "bw_peak", bench->peak * bytes / unit);
	json_add_real(row, "bw_average", average * bytes / unit);
	json_add_real(row, "msg_rate_mpps", average / 1e6);
	json_object_array_add(rows, row);
	return DONE;
}

static int latency_row(struct bench *bench, struct json_object *rows)
{
	static const char *const keys[] = {
		"t_min_us",   "t_max_us", "t_typical_us", "t_avg_us",
		"t_stdev_us", "t_p99_us", "t_p99_9_us",
	};
	static struct stats stats;
	struct krdma_completion completion;
	double values[ARRAY_SIZE(keys)];
	struct json_object *row;
	struct krdma_op op;
	uint64_t i, before, after;

	memset(&stats, 0, sizeof(stats));
	if (bench->opts.duration_ns)
		bench->end_ns = now_ns() + bench->opts.duration_ns;
	bench_op(bench, 0, &op);
	before = now_ns();
	for (i = 0; i < bench->iterations && before < bench->end_ns; i++) {
		if (krdma_submit(bench->remote.krdma, &op, &completion, 1))
			return fail_krdma();
		after = now_ns();
		stats_add(&stats, after - before);
		before = after;
	}

	values[0] = stats_min(&stats);
	values[1] = stats_max(&stats);
	values[2] = stats_percentile(&stats, 50);
	values[3] = stats_average(&stats);
	values[4] = stats_stddev(&stats);
	values[5] = stats_percentile(&stats, 99);
	values[6] = stats_percentile(&stats, 99.9);
	if (!json_asked) {
		printf(" %-7llu %-10llu    %-7.2f        %-7.2f        %-7.2f        %-7.2f"
		       "        %-7.2f          %-7.2f              %-7.2f\n",
		       (unsigned long long)bench->size, (unsigned long long)stats.count, values[0],
		       values[1], values[2], values[3], values[4], values[5], values[6]);
		return DONE;
	}
	row = json_object_new_object();
	json_add_count(row, "bytes", bench->size);
	json_add_count(row, "iterations", stats.count);
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		json_add_real(row, keys[i], values[i]);
	json_object_array_add(rows, row);
	return DONE;
}

static void print_heading(const struct bench_options *opts)
{
	if (opts->latency)
		puts(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]"
		     "    t_avg[usec]    t_stdev[usec]   99% percentile[usec]"
		     "   99.9% percentile[usec]");
	else
		printf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]\n",
		       opts->gbits ? "Gb/sec" : "MiB/sec", opts->gbits ? "Gb/sec" : "MiB/sec");
}

static int bench_rows(struct bench *bench, struct json_object *rows)
{
	const struct bench_options *opts = &bench->opts;
	const uint64_t first = opts->all ? SIZE_MIN : opts->size;
	const uint64_t last = opts->all ? SIZE_MAX_ALL : opts->size;
	uint64_t size;
	int rc;

	if (!json_asked)
		print_heading(opts);
	for (size = first; size <= last && size <= bench->remote.length; size *= 2) {
		row_begin(bench, size);
		rc = warm_up(bench);
		if (!rc)
			rc = opts->latency ? latency_row(bench, rows) : bandwidth_row(bench, rows);
		if (!rc)
			rc = finish_output(DONE);
		if (rc)
			return rc;
	}
	return DONE;
}

/* ---- The command ---- */

/* Return: -1 to go on, else the exit status. */
static int bench_options(int argc, char **argv, struct bench_options *opts)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "all", no_argument, NULL, 'a' },
		{ "iters", required_argument, NULL, 'n' },
		{ "duration", required_argument, NULL, 'D' },
		{ "tx-depth", required_argument, NULL, 't' },
		{ "report_gbits", no_argument, NULL, OPT_GBITS },
		{ "latency", no_argument, NULL, OPT_LATENCY },
		{ "pinned", no_argument, NULL, OPT_PINNED },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		COMMON_LONG,
	};
	int c, rc;

	*opts = (struct bench_options){ .size = SIZE_DEFAULT };
	while ((c = getopt_long(argc, argv, ":s:an:D:t:" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (parse_size(optarg, &opts->size))
				return usage_error("'%s' is not a size", optarg);
			break;
		case 'a':
			opts->all = true;
			break;
		case 'n':
			if (parse_count(optarg, UINT64_MAX, &opts->iterations) || !opts->iterations)
				return usage_error("'%s' is not a number of iterations", optarg);
			break;
		case 'D':
			if (parse_seconds(optarg, &opts->duration_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		case 't':
			if (parse_count(optarg, KRDMA_SUBMIT_MAX, &opts->depth) || !opts->depth)
				return usage_error("'%s' is not a depth, 1 to %d", optarg,
						   KRDMA_SUBMIT_MAX);
			break;
		case OPT_GBITS:
			opts->gbits = true;
			break;
		case OPT_LATENCY:
			opts->latency = true;
			break;
		case OPT_PINNED:
			opts->pinned = true;
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		default:
			rc = common_option(&cmd_bench, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (opts->iterations && opts->duration_ns)
		return usage_error("-n and -D exclude each other");
	if (opts->latency && (opts->depth || opts->gbits))
		return usage_error(
			"--latency does one operation at a time: no -t, no --report_gbits");
	if (argc - optind != 2)
		return usage_error("'read' or 'write' and a target are needed");
	return -1;
}

/* Page-aligned local memory, registered unless each operation shall pin it. */
static int bench_memory(struct bench *bench)
{
	const struct bench_options *opts = &bench->opts;
	const uint64_t page = 4 * KIB;
	void *memory;

	bench->memory_size = opts->all || opts->size < WINDOW ? WINDOW : opts->size;
	bench->memory_size = (bench->memory_size + page - 1) / page * page;
	memory = mmap(NULL, bench->memory_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return fail("cannot allocate local memory: %s", strerror(errno));
	bench->memory = memory;
	if (!opts->pinned &&
	    krdma_register_buffer(bench->remote.krdma, memory, bench->memory_size,
				  opts->opcode == KRDMA_OP_READ ? KRDMA_BUFFER_WRITABLE : 0,
				  &bench->buffer))
		return fail_krdma();
	return DONE;
}

static int bench_print(struct bench *bench, const char *operation, const char *target)
{
	struct json_object *root = json_root();
	struct json_object *rows = json_object_new_array();
	int rc;

	json_add_text(root, "operation", operation);
	json_add_text(root, "target", target);
	if (!bench->opts.latency)
		json_add_text(root, "unit", bench->opts.gbits ? "Gb/sec" : "MiB/sec");
	json_object_object_add(root, "results", rows);
	rc = bench_rows(bench, rows);
	if (!rc && json_asked)
		json_finish(root);
	else
		json_object_put(root);
	return rc;
}

static int bench_run(int argc, char **argv)
{
	/* Static: after a failure, a worker may use it until the process has ended. */
	static struct bench bench;
	struct bench_options *opts = &bench.opts;
	struct target target;
	const char *operation;
	char need[SIZE_TEXT], has[SIZE_TEXT];
	int rc;

	rc = bench_options(argc, argv, opts);
	if (rc >= 0)
		return rc;
	operation = argv[optind];
	if (*operation && !strncmp("read", operation, strlen(operation)))
		opts->opcode = KRDMA_OP_READ;
	else if (*operation && !strncmp("write", operation, strlen(operation)))
		opts->opcode = KRDMA_OP_WRITE;
	else
		return usage_error("'%s' is neither 'read' nor 'write'", operation);
	operation = opts->opcode == KRDMA_OP_READ ? "read" : "write";
	if (parse_target(argv[optind + 1], &target))
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
				   argv[optind + 1]);
	subject_set("bench %s %s", operation, argv[optind + 1]);

	rc = remote_open(&bench.remote, &target,
			 opts->opcode == KRDMA_OP_READ ? KRDMA_RIGHT_READ : KRDMA_RIGHT_WRITE,
			 opts->timeout_ns);
	if (rc)
		return rc;
	if ((opts->all ? SIZE_MIN : opts->size) > bench.remote.length)
		return fail("the range has %s, an operation needs %s",
			    size_text(bench.remote.length, has), size_text(opts->size, need));
	rc = bench_memory(&bench);
	if (rc)
		return rc;
	rc = bench_print(&bench, operation, argv[optind + 1]);
	if (!rc)
		remote_close(&bench.remote);
	return rc;
}

const struct command cmd_bench = {
	.name = "bench",
	.usage = "krdma bench [OPTIONS] read|write HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
	.summary = "measure bandwidth or latency; 'write' overwrites the range",
	.help = "  -s, --size SIZE   bytes of an operation (default 64K)\n"
		"  -a, --all         all sizes from 2 to 8M, powers of two, as far as they fit\n"
		"  -n, --iters N     operations for a row (default 5000, 1000 with --latency)\n"
		"  -D, --duration S  seconds for a row, instead of -n\n"
		"  -t, --tx-depth N  operations under way (default 2 to 64, at most 8 MiB)\n"
		"  --report_gbits    10^9 bits per second instead of MiB per second\n"
		"  --latency         one operation at a time, print perftest's latency columns\n"
		"  --pinned          pin local memory for each operation, don't register it\n"
		"  --timeout SECONDS deadline of each operation (default 30)\n",
	.run = bench_run,
};
