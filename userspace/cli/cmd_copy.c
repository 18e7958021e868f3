// SPDX-License-Identifier: GPL-2.0
/* krdma put and krdma get: between a file and a peer's memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp.h"

/* With the ring of pump.c: operations of 1 MiB, and 8 MiB under way, enough to keep a session busy. */
#define DEPTH_DEFAULT 8
#define FLUSH_BYTES   (1ULL << 30)

enum {
	OPT_PROGRESS = OPT_LONG_ONLY,
	OPT_TIMEOUT,
	OPT_VERIFY,
	OPT_PLACED,
	OPT_DURABLE
};

struct copy_options {
	bool quiet;
	bool progress;
	bool durable;
	uint32_t flags;
	uint64_t depth;
	uint64_t timeout_ns;
	struct krdma_connect_options connect;
};

#define COPY_HELP                                                                                  \
	"  -q, --quiet       print no summary and no progress bar\n"                               \
	"  -Q, --depth N     operations under way (default 8)\n"                                   \
	"  --progress        show the bar even if stderr is no terminal\n"                         \
	"  --timeout SECONDS deadline of each operation (default 30 and the time of --resume)\n"   \
	"  --resume SECONDS  wait so long for a lost connection to come back; 0: fail at once;\n"  \
	"                    'always': no limit (default: the module's parameter, 60)\n" PATH_HELP \
	"  --verify          compare the CRC32C of the moved bytes at both ends\n"

#define PUT_HELP                                                                         \
	"  --placed          have a READ behind each WRITE, if the peer needs one\n"     \
	"  --durable         end when the target has carried the bytes to its medium;\n" \
	"                    it has to be persistent memory\n"

/* Return: -1 to go on, else the exit status. */
static int copy_options(const struct command *command, int argc, char **argv,
			struct copy_options *opts)
{
	static const struct option options[] = {
		{ "quiet", no_argument, NULL, 'q' },
		{ "depth", required_argument, NULL, 'Q' },
		{ "progress", no_argument, NULL, OPT_PROGRESS },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "resume", required_argument, NULL, OPT_RESUME },
		CONNECT_LONG,
		{ "verify", no_argument, NULL, OPT_VERIFY },
		{ "placed", no_argument, NULL, OPT_PLACED },
		{ "durable", no_argument, NULL, OPT_DURABLE },
		COMMON_LONG,
	};
	int c, rc;

	*opts = (struct copy_options){ .progress = isatty(STDERR_FILENO) };
	while ((c = getopt_long(argc, argv, ":qQ:" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'q':
			opts->quiet = true;
			break;
		case 'Q':
			if (parse_count(optarg, KRDMA_SUBMIT_MAX, &opts->depth) || !opts->depth)
				return usage_error("'%s' is not a depth, 1 to %d", optarg,
						   KRDMA_SUBMIT_MAX);
			break;
		case OPT_PROGRESS:
			opts->progress = true;
			break;
		case OPT_VERIFY:
			opts->flags |= KRDMA_OPF_VERIFY;
			break;
		case OPT_PLACED:
			if (command != &cmd_put)
				return usage_error("--placed is for 'put'");
			opts->flags |= KRDMA_OPF_PLACED;
			break;
		case OPT_DURABLE:
			if (command != &cmd_put)
				return usage_error("--durable is for 'put'");
			opts->durable = true;
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		case OPT_RESUME:
		case OPT_KEEPALIVE:
		case OPT_PATH:
		case OPT_POLICY:
			rc = connect_option(c, optarg, &opts->connect);
			if (rc)
				return rc;
			break;
		default:
			rc = common_option(command, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 2)
		return usage_error("two operands are needed");
	opts->connect.timeout_ms = timeout_to_ms(opts->timeout_ns);
	subject_set("%s %s %s", command->name, argv[optind], argv[optind + 1]);
	return -1;
}

static void summary(const char *command, const struct pump_job *job)
{
	const double seconds = (double)job->elapsed_ns / 1e9;
	const double rate = seconds > 0 ? (double)job->moved / seconds : 0;
	char size[SIZE_TEXT], speed[SIZE_TEXT];

	if (json_asked) {
		struct json_object *root = json_root();

		json_add_text(root, "command", command);
		json_add_count(root, "bytes", job->moved);
		json_add_real(root, "seconds", seconds);
		json_add_real(root, "mib_per_second", rate / (double)MIB);
		json_finish(root);
		return;
	}
	fprintf(stderr, "%s: %s in %.2f s, %s/s\n", command, size_text(job->moved, size), seconds,
		size_text((uint64_t)rate, speed));
}

/* What was put is durable. Each piece has a deadline. */
static int put_flush(const struct range *range, uint64_t length, uint64_t timeout_ns)
{
	struct krdma_completion completion;
	struct krdma_op op;
	uint64_t done, piece;

	for (done = 0; done < length; done += piece) {
		piece = length - done < FLUSH_BYTES ? length - done : FLUSH_BYTES;
		krdma_op_flush(&op, range->region.id, range->offset + done, piece);
		op.timeout_ns = timeout_ns ? timeout_ns : patient_timeout(range);
		if (krdma_submit(range->krdma, &op, &completion, 1))
			return fail_krdma();
	}
	return DONE;
}

static int copy_run(const struct command *command, const struct copy_options *opts,
		    struct pump_job *job, const char *name)
{
	static struct progress progress;
	uint64_t start;
	int rc;

	progress.name = name;
	progress.total = job->length;
	job->timeout_ns = opts->timeout_ns;
	job->quiet = opts->quiet;
	job->depth = opts->depth ? (unsigned int)opts->depth : DEPTH_DEFAULT;
	job->flags = opts->flags;
	if (opts->progress && !opts->quiet)
		job->progress = &progress;
	rc = pump_run(job);
	if (!rc && opts->durable) {
		start = now_ns();
		rc = put_flush(job->range, job->moved, job->timeout_ns);
		job->elapsed_ns += now_ns() - start;
	}
	if (!rc && (json_asked || !opts->quiet))
		summary(command->name, job);
	return rc;
}

/* Bytes from the file position to the end; 0 if the length is not known, as of a pipe or in /proc. */
static uint64_t bytes_left(int fd, const struct stat *st)
{
	off_t here, end;

	if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
		return 0;
	here = lseek(fd, 0, SEEK_CUR);
	end = lseek(fd, 0, SEEK_END);
	if (here < 0 || lseek(fd, here, SEEK_SET) < 0)
		return 0;
	return end > here ? (uint64_t)(end - here) : 0;
}

/* FILE and HOST/SHARE:PATH, or the other way round. Bytes of files are compared in any case. */
static int share_run(const struct copy_options *opts, char **operands)
{
	if (opts->depth || opts->flags & KRDMA_OPF_PLACED)
		return usage_error(
			"--depth and --placed are for exports, not for files of a share");
	if (!strcmp(operands[0], "-"))
		return usage_error("standard input can't be copied to a share: name a file");
	return cp_one(operands, &opts->connect, opts->quiet, opts->progress, opts->durable);
}

/* What is no region. Return: the exit status */
static int no_region(const char *text, const struct copy_options *opts, char **operands)
{
	return cp_is_remote(text) ?
		       share_run(opts, operands) :
		       usage_error(
			       "'%s' is of none of the forms HOST[:PORT]/NAME[@OFFSET[+LENGTH]] "
			       "and HOST[:PORT]/SHARE:PATH",
			       text);
}

/* What 'krdma serve' publishes is not memory that a user wants. */
static bool is_share(const struct range *range)
{
	struct krdma_completion completion;
	struct krdma_op op;
	uint64_t magic;

	if (range->region.length != SHARE_PAGE)
		return false;
	krdma_op_read(&op, range->region.id, 0, &magic, sizeof(magic));
	return !krdma_submit(range->krdma, &op, &completion, 1) && magic == SHARE_MAGIC;
}

static int put_run(int argc, char **argv)
{
	struct copy_options opts;
	struct pump_job job = { .opcode = KRDMA_OP_WRITE, .fd = STDIN_FILENO };
	struct region_spec spec;
	struct range range;
	char length[SIZE_TEXT], room[SIZE_TEXT];
	uint32_t rights;
	struct stat st;
	int rc;

	rc = copy_options(&cmd_put, argc, argv, &opts);
	if (rc >= 0)
		return rc;
	if (strcmp(argv[optind], "-") != 0)
		job.path = argv[optind];
	if (parse_region(argv[optind + 1], &spec))
		return no_region(argv[optind + 1], &opts, argv + optind);

	if (job.path)
		job.fd = open(job.path, O_RDONLY | O_CLOEXEC);
	if (job.fd < 0 || fstat(job.fd, &st))
		return fail(errno, "cannot open %s: %s", argv[optind], strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fail(EISDIR, "%s is a directory", argv[optind]);
	job.length = bytes_left(job.fd, &st);

	spec.copied = true;
	rights = KRDMA_RIGHT_WRITE | (opts.flags ? KRDMA_RIGHT_READ : 0);
	rc = range_open(&range, &spec, rights, opts.connect);
	if (rc) {
		close(job.fd);
		return rc == OF_A_SHARE ? share_run(&opts, argv + optind) : rc;
	}
	job.range = &range;
	if (job.length > range.length)
		rc = fail(EFBIG, "%s has %s (%llu bytes), the range has %s (%llu bytes)",
			  job.path ? job.path : "standard input", size_text(job.length, length),
			  (unsigned long long)job.length, size_text(range.length, room),
			  (unsigned long long)range.length);
	else if (opts.durable && !(range.region.rights & KRDMA_RIGHT_DURABLE))
		rc = fail(EOPNOTSUPP, "'%s' is not durable: its memory is volatile", spec.name);
	else
		rc = copy_run(&cmd_put, &opts, &job, job.path ? job.path : "standard input");
	if (!rc)
		range_close(&range);
	return rc;
}

static int get_run(int argc, char **argv)
{
	struct copy_options opts;
	struct pump_job job = { .opcode = KRDMA_OP_READ, .fd = -1 };
	struct region_spec spec;
	struct range range;
	int rc;

	rc = copy_options(&cmd_get, argc, argv, &opts);
	if (rc >= 0)
		return rc;
	if (parse_region(argv[optind], &spec))
		return no_region(argv[optind], &opts, argv + optind);
	if (strcmp(argv[optind + 1], "-") != 0)
		job.path = argv[optind + 1];
	else if (json_asked)
		return usage_error("the bytes and JSON can't both go to standard output");

	spec.copied = true;
	rc = range_open(&range, &spec, KRDMA_RIGHT_READ, opts.connect);
	if (rc)
		return rc == OF_A_SHARE ? share_run(&opts, argv + optind) : rc;
	job.range = &range;
	job.length = range.length;
	if (is_share(&range))
		rc = fail(EISDIR, "it is a share: '%s/%s:PATH' is a file of it", spec.host,
			  spec.name);
	else
		rc = copy_run(&cmd_get, &opts, &job, argv[optind]);
	if (!rc)
		range_close(&range);
	return rc;
}

const struct command cmd_put = {
	.name = "put",
	.usage = "krdma put [OPTIONS] FILE HOST[:PORT]/NAME[@OFFSET[+LENGTH]]\n"
		 "       krdma put [OPTIONS] FILE HOST[:PORT]/SHARE:PATH",
	.summary = "write a file into a peer's memory, or into a share",
	.help = "FILE may be '-' for standard input. OFFSET and LENGTH are bytes, or with one of\n"
		"the letters K, M, G and T. A file that is longer than the range is refused. A\n"
		"file of a share is copied as by 'krdma cp'.\n\n" COPY_HELP PUT_HELP,
	.run = put_run,
};

const struct command cmd_get = {
	.name = "get",
	.usage = "krdma get [OPTIONS] HOST[:PORT]/NAME[@OFFSET[+LENGTH]] FILE\n"
		 "       krdma get [OPTIONS] HOST[:PORT]/SHARE:PATH FILE",
	.summary = "read a peer's memory, or a file of a share, into a file",
	.help = "FILE may be '-' for standard output. OFFSET and LENGTH are bytes, or with one of\n"
		"the letters K, M, G and T. Without a range, all of NAME is read. A file of a share\n"
		"is copied as by 'krdma cp'.\n\n" COPY_HELP,
	.run = get_run,
};
