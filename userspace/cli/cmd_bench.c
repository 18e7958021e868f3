// SPDX-License-Identifier: GPL-2.0
/* krdma bench: options and columns are those of perftest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define SIZE_DEFAULT (64 * KIB)

enum {
	OPT_GBITS = OPT_LONG_ONLY,
	OPT_ENGINE,
	OPT_LATENCY,
	OPT_PINNED,
	OPT_TIMEOUT,
	OPT_UNPLACED,
	OPT_PLACED,
	OPT_VERIFY,
	OPT_MATRIX,
	OPT_SIZES,
	OPT_DEPTHS,
	OPT_MESSAGES
};

/* ---- Rows ---- */

static void print_row(const struct bench *bench, const struct load *load, uint64_t size,
		      struct json_object *rows)
{
	static const char *const keys[] = {
		"t_min_us",   "t_max_us", "t_typical_us", "t_avg_us",
		"t_stdev_us", "t_p99_us", "t_p99_9_us",
	};
	const double times[ARRAY_SIZE(keys)] = {
		stats_min(load->stats),
		stats_max(load->stats),
		stats_percentile(load->stats, 50),
		stats_average(load->stats),
		stats_stddev(load->stats),
		stats_percentile(load->stats, 99),
		stats_percentile(load->stats, 99.9),
	};
	const double unit = (bench->opts.gbits ? 1e9 / 8 : (double)MIB) / (double)size;
	const double rate = load->done ? (double)load->done * 1e9 / (double)load->elapsed_ns : 0;
	struct json_object *row;
	size_t i;

	if (!json_asked && bench->opts.latency) {
		printf(" %-7llu %-10llu    %-7.2f        %-7.2f        %-7.2f        %-7.2f"
		       "        %-7.2f          %-7.2f              %-7.2f\n",
		       (unsigned long long)size, (unsigned long long)load->done, times[0], times[1],
		       times[2], times[3], times[4], times[5], times[6]);
		return;
	}
	if (!json_asked) {
		printf(" %-7llu    %-10llu       %-7.2f            %-7.2f               %-7.6f\n",
		       (unsigned long long)size, (unsigned long long)load->done, load->peak / unit,
		       rate / unit, rate / 1e6);
		return;
	}
	row = json_object_new_object();
	json_add_count(row, "bytes", size);
	json_add_count(row, "iterations", load->done);
	json_add_count(row, "depth", load->depth / bench->lanes);
	json_add_real(row, "bw_peak", load->peak / unit);
	json_add_real(row, "bw_average", rate / unit);
	json_add_real(row, "msg_rate_mpps", rate / 1e6);
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		json_add_real(row, keys[i], times[i]);
	json_object_array_add(rows, row);
}

static int bench_row(const struct bench *bench, uint64_t size, struct json_object *rows)
{
	struct load load;
	const int rc = bench_measure(bench, size, &load);

	if (rc)
		return rc;
	print_row(bench, &load, size, rows);
	return finish_output(DONE);
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

static int bench_rows(const struct bench *bench, struct json_object *rows)
{
	const struct bench_options *opts = &bench->opts;
	const uint64_t first = opts->all ? BENCH_SIZE_MIN : opts->size;
	const uint64_t last = opts->all ? BENCH_SIZE_MAX_ALL : opts->size;
	uint64_t size;
	int rc;

	if (!json_asked)
		print_heading(opts);
	for (size = first; size <= last && size <= bench_most(bench); size *= 2) {
		rc = bench_row(bench, size, rows);
		if (rc)
			return rc;
	}
	return DONE;
}

/* ---- The command ---- */

static const struct engine *engine_find(const char *name)
{
	static const struct engine *const engines[] = { &engine_ioctl, &engine_uring };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(engines); i++)
		if (!strcmp(engines[i]->name, name))
			return engines[i];
	return NULL;
}

/* The matrix's own. Return: -1 to go on, else the exit status. */
static int matrix_option(struct matrix *matrix, int c)
{
	int rc = DONE;

	if (c == OPT_MATRIX)
		matrix->file = optarg;
	else if (c == OPT_MESSAGES)
		matrix->messages = optarg;
	else
		rc = c == OPT_SIZES ? matrix_sizes(matrix, optarg) : matrix_depths(matrix, optarg);
	return rc ? rc : -1;
}

/* Return: -1 to go on, else the exit status. */
static int bench_option(struct bench_options *opts, struct matrix *matrix, char **argv, int c)
{
	int rc;

	switch (c) {
	case 's':
		if (parse_size(optarg, &opts->size))
			return usage_error("'%s' is not a size", optarg);
		opts->size_given = true;
		return -1;
	case 'a':
		opts->all = true;
		return -1;
	case 'n':
		if (parse_count(optarg, UINT64_MAX, &opts->iterations) || !opts->iterations)
			return usage_error("'%s' is not a number of iterations", optarg);
		return -1;
	case 'D':
		if (parse_seconds(optarg, &opts->duration_ns))
			return usage_error("'%s' is not a time in seconds", optarg);
		return -1;
	case 't':
		if (parse_count(optarg, KRDMA_SUBMIT_MAX, &opts->depth) || !opts->depth)
			return usage_error("'%s' is not a depth, 1 to %d", optarg,
					   KRDMA_SUBMIT_MAX);
		return -1;
	case 'q':
		if (parse_count(optarg, SESSIONS_MAX, &opts->sessions) || !opts->sessions)
			return usage_error("'%s' is not a number of sessions, 1 to %d", optarg,
					   SESSIONS_MAX);
		return -1;
	case 'l':
		if (parse_count(optarg, KRDMA_SUBMIT_MAX, &opts->batch) || !opts->batch)
			return usage_error("'%s' is not a batch, 1 to %d", optarg,
					   KRDMA_SUBMIT_MAX);
		return -1;
	case 'b':
		opts->both = true;
		return -1;
	case OPT_ENGINE:
		opts->engine = engine_find(optarg);
		if (!opts->engine)
			return usage_error("'%s' is no engine: ioctl or uring", optarg);
		return -1;
	case OPT_GBITS:
		opts->gbits = true;
		return -1;
	case OPT_LATENCY:
		opts->latency = true;
		return -1;
	case OPT_PINNED:
		opts->pinned = true;
		return -1;
	case OPT_PLACED:
		opts->flags |= KRDMA_OPF_PLACED;
		return -1;
	case OPT_UNPLACED:
		opts->flags |= KRDMA_OPF_UNPLACED;
		return -1;
	case OPT_VERIFY:
		opts->flags |= KRDMA_OPF_VERIFY;
		return -1;
	case OPT_TIMEOUT:
		if (parse_seconds(optarg, &opts->timeout_ns))
			return usage_error("'%s' is not a time in seconds", optarg);
		return -1;
	case OPT_MATRIX:
	case OPT_SIZES:
	case OPT_DEPTHS:
	case OPT_MESSAGES:
		return matrix_option(matrix, c);
	case OPT_KEEPALIVE:
	case OPT_PATH:
	case OPT_POLICY:
		rc = connect_option(c, optarg, &opts->connect);
		return rc ? rc : -1;
	default:
		return common_option(&cmd_bench, argv, c);
	}
}

/* Return: -1 to go on, else the exit status. */
static int matrix_options(int argc, struct bench_options *opts)
{
	if (opts->size_given || opts->all || opts->depth || opts->latency || opts->gbits ||
	    opts->both || opts->flags)
		return usage_error(
			"--matrix has operations, sizes and depths of its own: no -s, -a, "
			"-t, -b, --latency, --report_gbits, --verify, --placed or "
			"--unplaced");
	if (argc - optind != 1)
		return usage_error("with --matrix a region is needed, and no operation");
	if (!opts->iterations && !opts->duration_ns)
		opts->duration_ns = NSEC_PER_SEC;
	return -1;
}

/* Return: -1 to go on, else the exit status. */
static int bench_options(int argc, char **argv, struct bench_options *opts, struct matrix *matrix)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "all", no_argument, NULL, 'a' },
		{ "iters", required_argument, NULL, 'n' },
		{ "duration", required_argument, NULL, 'D' },
		{ "depth", required_argument, NULL, 't' },
		{ "tx-depth", required_argument, NULL, 't' },
		{ "sessions", required_argument, NULL, 'q' },
		{ "batch", required_argument, NULL, 'l' },
		{ "bidirectional", no_argument, NULL, 'b' },
		{ "engine", required_argument, NULL, OPT_ENGINE },
		{ "report_gbits", no_argument, NULL, OPT_GBITS },
		{ "latency", no_argument, NULL, OPT_LATENCY },
		{ "pinned", no_argument, NULL, OPT_PINNED },
		{ "unplaced", no_argument, NULL, OPT_UNPLACED },
		{ "placed", no_argument, NULL, OPT_PLACED },
		{ "verify", no_argument, NULL, OPT_VERIFY },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "matrix", required_argument, NULL, OPT_MATRIX },
		{ "sizes", required_argument, NULL, OPT_SIZES },
		{ "depths", required_argument, NULL, OPT_DEPTHS },
		{ "messages", required_argument, NULL, OPT_MESSAGES },
		CONNECT_LONG,
		COMMON_LONG,
	};
	int c, rc;

	*opts = (struct bench_options){ .size = SIZE_DEFAULT, .engine = &engine_ioctl };
	while ((c = getopt_long(argc, argv, ":s:an:D:t:q:l:b" COMMON_SHORT, options, NULL)) != -1) {
		rc = bench_option(opts, matrix, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (opts->iterations && opts->duration_ns)
		return usage_error("-n and -D exclude each other");
	if (opts->latency && opts->gbits)
		return usage_error("--latency and --report_gbits exclude each other");
	if (matrix->file)
		return matrix_options(argc, opts);
	if (matrix->size_count || matrix->depth_count || matrix->messages)
		return usage_error("--sizes, --depths and --messages are for --matrix");
	if (argc - optind != 2)
		return usage_error("'read', 'write', 'atomic' or 'send' and a region are needed");
	return -1;
}

static int bench_print(const struct bench *bench, const char *operation, const char *region)
{
	const struct bench_options *opts = &bench->opts;
	struct json_object *root = json_root();
	struct json_object *rows = json_object_new_array();
	int rc;

	json_add_text(root, "operation", operation);
	json_object_object_add(root, "bidirectional", json_object_new_boolean(opts->both));
	json_add_text(root, "region", region);
	json_add_text(root, "engine", opts->engine->name);
	json_add_count(root, "sessions", opts->sessions ? opts->sessions : 1);
	if (opts->batch)
		json_add_count(root, "batch", opts->batch);
	json_add_text(root, "unit", opts->gbits ? "Gb/sec" : "MiB/sec");
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
	static struct bench bench;
	struct bench_options *opts = &bench.opts;
	const struct operation *operation;
	struct matrix matrix = { 0 };
	struct region_spec spec;
	int rc;

	rc = bench_options(argc, argv, opts, &matrix);
	if (rc >= 0)
		return rc;
	if (matrix.file)
		return matrix_run(&matrix, opts, argv[optind]);
	operation = operation_find(argv[optind]);
	if (!operation)
		return usage_error("'%s' is none of read, write, atomic and send", argv[optind]);
	opts->opcode = operation->opcode;
	opts->right = operation->right;
	if (opts->opcode == KRDMA_OP_FETCH_ADD) {
		if (opts->all || opts->both || opts->size_given)
			return usage_error("an atomic operation has 8 bytes: no -s, -a or -b");
		opts->size = ATOMIC_BYTES;
	}
	if (opts->opcode == KRDMA_OP_SEND) {
		if (!opts->size_given)
			opts->size = KRDMA_MESSAGE_MAX;
		if (opts->both || opts->size > KRDMA_MESSAGE_MAX)
			return usage_error("a message has %d bytes at most, and there is no -b",
					   KRDMA_MESSAGE_MAX);
	}
	if ((opts->flags & KRDMA_OPF_UNPLACED) && (opts->both || opts->opcode != KRDMA_OP_WRITE))
		return usage_error("--unplaced is for 'write'");
	if ((opts->flags & KRDMA_OPF_PLACED) && (opts->both || opts->opcode != KRDMA_OP_WRITE))
		return usage_error("--placed is for 'write'");
	if ((opts->flags & KRDMA_OPF_PLACED) && (opts->flags & KRDMA_OPF_UNPLACED))
		return usage_error("--placed and --unplaced exclude each other");
	if ((opts->flags & KRDMA_OPF_VERIFY) && opts->opcode > KRDMA_OP_WRITE)
		return usage_error("--verify is for 'read' and 'write'");
	if (parse_region(argv[optind + 1], &spec))
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
				   argv[optind + 1]);
	if (opts->opcode == KRDMA_OP_SEND && (spec.offset || spec.length))
		return usage_error("with 'send' the region has no offset and no length");
	subject_set("bench %s %s", operation->name, argv[optind + 1]);

	rc = bench_open(&bench, &spec);
	if (!rc)
		rc = bench_print(&bench, operation->name, argv[optind + 1]);
	if (rc)
		return rc;
	bench_close(&bench);
	return DONE;
}

const struct command cmd_bench = {
	.name = "bench",
	.usage = "krdma bench [OPTIONS] read|write|atomic|send HOST[:PORT]/NAME[@OFFSET[+LENGTH]]\n"
		 "krdma bench --matrix FILE [OPTIONS] HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
	.summary = "measure bandwidth or latency; 'write' overwrites the range, 'atomic' adds 0",
	.help = "  -s, --size SIZE   bytes of an operation (default 64K; 8 with 'atomic'; with\n"
		"                    'send' 4K, the most, to 'krdma recv --discard NAME')\n"
		"  -a, --all         all sizes from 2 to 8M, powers of two, as far as they fit\n"
		"  -n, --iters N     operations for a row (default 5000, 1000 with --latency)\n"
		"  -D, --duration S  seconds for a row, instead of -n\n"
		"  -t, --depth N     operations under way, in each session and direction (default\n"
		"                    2 to 64, at most 8 MiB; 1 with --latency)\n"
		"  -q, --sessions N  private sessions (default: one that may be shared)\n"
		"  -l, --batch N     operations in a call (default: those that ended together)\n"
		"  -b, --bidirectional  both READ and WRITE at once; overwrites the range\n"
		"  --engine NAME     ioctl (the default) or uring, for io_uring\n"
		"  --report_gbits    10^9 bits per second instead of MiB per second\n"
		"  --latency         print perftest's latency columns\n"
		"  --pinned          pin local memory for each operation instead of registering it\n"
		"  --unplaced        a WRITE may end before its bytes are in the peer's memory (iWARP)\n"
		"  --placed          have a READ behind each WRITE, if the peer needs one\n"
		"  --verify          compare the CRC32C of the moved bytes at both ends\n"
		"  --timeout SECONDS deadline of each operation (default 30)\n"
		"  --matrix FILE     each operation that the region allows, in several sizes and\n"
		"                    depths, to FILE as JSON, drawn beside it as SVG by gnuplot\n"
		"  --sizes LIST      for --matrix (default 8,512,4K,64K,1M)\n"
		"  --depths LIST     for --matrix (default 1,8,32)\n"
		"  --messages NAME   for --matrix: measure 'send' as well, to this export of HOST\n" PATH_HELP,
	.run = bench_run,
};
