// SPDX-License-Identifier: GPL-2.0
/* krdma cp: files to and from shares. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp.h"

#define OPERANDS_MAX 1024
/* Of the progress bar. */
#define TICK_NS 200000000

enum {
	OPT_PROGRESS = OPT_LONG_ONLY,
	OPT_TIMEOUT,
	OPT_SYNC
};

struct cp_options {
	bool recursive, all, quiet, progress, sync; /* progress: not if quiet */
	struct krdma_connect_options connect;
};

/* Return: -1 to go on, else the exit status. */
static int cp_options(int argc, char **argv, struct cp_options *opts)
{
	static const struct option options[] = {
		{ "recursive", no_argument, NULL, 'r' },
		{ "archive", no_argument, NULL, 'a' },
		{ "ignore-times", no_argument, NULL, 'I' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "progress", no_argument, NULL, OPT_PROGRESS },
		{ "sync", no_argument, NULL, OPT_SYNC },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "resume", required_argument, NULL, OPT_RESUME },
		CONNECT_LONG,
		COMMON_LONG,
	};
	uint64_t timeout_ns = 0;
	int c, rc;

	*opts = (struct cp_options){ .progress = isatty(STDERR_FILENO) };
	while ((c = getopt_long(argc, argv, ":raIq" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'a': /* Modes and times are kept in any case. */
		case 'r':
			opts->recursive = true;
			break;
		case 'I':
			opts->all = true;
			break;
		case 'q':
			opts->quiet = true;
			break;
		case OPT_PROGRESS:
			opts->progress = true;
			break;
		case OPT_SYNC:
			opts->sync = true;
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &timeout_ns))
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
			rc = common_option(&cmd_cp, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	opts->connect.timeout_ms = timeout_to_ms(timeout_ns);
	opts->progress &= !opts->quiet;
	if (argc - optind < 2)
		return usage_error("two operands are needed");
	if (argc - optind > OPERANDS_MAX)
		return usage_error("there are more than %d operands", OPERANDS_MAX);
	return -1;
}

/* HOST[:PORT]/SHARE:PATH. Return: false for a path of this host, "./a/b:c" at the latest. */
static bool parse_remote(const char *text, struct cp_job *job)
{
	const char *slash = strchr(text, '/');
	const char *colon = slash ? strchr(slash, ':') : NULL;
	size_t host, share;

	if (!colon || *text == '/' || *text == '.' ||
	    memchr(slash + 1, '/', (size_t)(colon - slash - 1)))
		return false;
	host = (size_t)(slash - text);
	share = (size_t)(colon - slash - 1);
	if (!host || host >= sizeof(job->host) || !share || share > SHARE_NAME_MAX)
		return false;
	snprintf(job->host, sizeof(job->host), "%.*s", (int)host, text);
	snprintf(job->share, sizeof(job->share), "%.*s", (int)share, slash + 1);
	job->path = colon + 1;
	snprintf(job->text, sizeof(job->text), "%s/%s", job->host, job->share);
	return strlen(job->path) <= FILES_PATH_MAX;
}

bool cp_is_remote(const char *text)
{
	struct cp_job job;

	return parse_remote(text, &job);
}

/* The name that a path has where it is copied to; "" for the contents of a directory. */
static char *top_of(const char *path)
{
	size_t length = strlen(path), from;
	char *top;

	while (length && path[length - 1] == '/')
		length--;
	for (from = length; from && path[from - 1] != '/';)
		from--;
	top = strndup(path + from, length - from);
	if (top && (!strcmp(top, ".") || !strcmp(top, "..")))
		*top = '\0';
	return top;
}

/* ---- Progress and summary ---- */

static uint64_t tree_bytes;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F)
		tree_bytes += files_allocated(st);
	return 0;
}

struct copy {
	const struct cp_options *opts;
	struct cp_job *jobs;
	size_t count;
	uint64_t began_ns;
};

static struct files_counts sum(const struct copy *c)
{
	struct files_counts all = { 0 }, one;
	size_t i;

	for (i = 0; i < c->count; i++) {
		one = cp_counts(&c->jobs[i]);
		all.files += one.files;
		all.bytes += one.bytes;
		all.sent += one.sent;
	}
	return all;
}

/* Until all jobs are over. */
static void show(struct copy *c)
{
	const struct timespec tick = { .tv_nsec = TICK_NS };
	uint64_t done;
	size_t i;

	for (;;) {
		for (i = 0; i < c->count && c->jobs[i].over; i++)
			;
		if (i == c->count)
			break;
		nanosleep(&tick, NULL);
		done = sum(c).bytes;
		cp_report_lock();
		if (cp_progress.total && done > cp_progress.total)
			cp_progress.total = done;
		progress_update(&cp_progress, done);
		cp_report_unlock();
	}
	progress_clear(&cp_progress);
}

static void summary(const struct copy *c, int rc)
{
	const double seconds = (double)(now_ns() - c->began_ns) / 1e9;
	const struct files_counts all = sum(c);
	char size[SIZE_TEXT], sent[SIZE_TEXT], speed[SIZE_TEXT];
	struct json_object *root;

	/* Of what has failed at once, the sentence is enough. */
	if (json_asked ? rc && !all.files : c->opts->quiet || (rc && !all.files))
		return;
	if (json_asked) {
		root = json_root();
		json_add_text(root, "command", "cp");
		json_add_count(root, "files", all.files);
		json_add_count(root, "bytes", all.bytes);
		json_add_count(root, "bytes_sent", all.sent);
		json_add_real(root, "seconds", seconds);
		json_add_real(root, "mib_per_second", (double)all.bytes / (double)MIB / seconds);
		json_finish(root);
		return;
	}
	fprintf(stderr, "cp: %llu file%s, %s", (unsigned long long)all.files,
		all.files == 1 ? "" : "s", size_text(all.bytes, size));
	if (all.sent != all.bytes)
		fprintf(stderr, " (%s sent)", size_text(all.sent, sent));
	fprintf(stderr, " in %.2f s, %s/s\n", seconds,
		size_text((uint64_t)((double)all.bytes / seconds), speed));
}

/* ---- Copying ---- */

static void job_options(struct cp_job *job, const struct cp_options *opts, bool push, bool into)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	job->push = push;
	job->flags = (opts->recursive ? SHARE_RECURSIVE : 0) | (into ? SHARE_INTO : 0) |
		     (opts->sync ? SHARE_SYNC : 0) | (opts->all ? SHARE_ALL : 0);
	job->options = opts->connect;
	job->workers = processors > CP_WORKERS ? CP_WORKERS :
		       processors < 2          ? 2 :
						 (unsigned int)processors;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Two sources of one name: which of them would stay is chance. Directories are merged. */
static bool same_name(const struct cp_options *opts, const char *a, const char *b, bool remote)
{
	char *one = top_of(a), *other = top_of(b);
	bool same = one && other && *one && !strcmp(one, other);

	free(one);
	free(other);
	return same && !(opts->recursive && (remote || (is_directory(a) && is_directory(b))));
}

static bool ends_with_slash(const char *path)
{
	return *path && path[strlen(path) - 1] == '/';
}

/* Start all jobs, and wait for them. Return: the exit status. */
static int run(struct copy *c)
{
	pthread_t threads[OPERANDS_MAX];
	size_t i, n;
	int failed = 0;

	cp_progress.name = "cp";
	cp_progress.start_ns = now_ns();
	for (n = 0; n < c->count; n++)
		if (pthread_create(&threads[n], NULL, cp_run, &c->jobs[n])) {
			cp_report_lock();
			fail(ENOMEM, "cannot start a thread for %s", c->jobs[n].text);
			cp_report_unlock();
			break;
		}
	for (i = n; i < c->count; i++)
		c->jobs[i].failed = c->jobs[i].over = true;
	if (c->opts->progress)
		show(c);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < c->count; i++)
		failed |= c->jobs[i].failed;
	return failed ? FAILED : DONE;
}

static int push(const struct cp_options *opts, char **sources, size_t count, struct cp_job *jobs,
		size_t dests)
{
	static struct files_operand operands[OPERANDS_MAX];
	struct copy c = { .opts = opts, .jobs = jobs, .count = dests, .began_ns = now_ns() };
	bool into = count > 1;
	size_t i, other;
	int rc;

	for (i = 0; i < count; i++) {
		operands[i] = (struct files_operand){
			.dir = AT_FDCWD,
			.path = sources[i],
			.top = top_of(sources[i]),
		};
		if (!operands[i].top)
			return fail(ENOMEM, "no memory");
		into |= !*operands[i].top;
		for (other = 0; other < i; other++)
			if (same_name(opts, sources[other], sources[i], false))
				return usage_error("'%s' and '%s' have one name at the destination",
						   sources[other], sources[i]);
		if (opts->progress)
			nftw(sources[i], add_size, 16, FTW_PHYS);
	}
	cp_progress.total = tree_bytes * dests;
	for (i = 0; i < dests; i++) {
		job_options(&jobs[i], opts, true, into || ends_with_slash(jobs[i].path));
		jobs[i].operands = operands;
		jobs[i].count = count;
	}
	rc = run(&c);
	for (i = 0; i < count; i++)
		free((char *)(uintptr_t)operands[i].top);
	summary(&c, rc);
	return rc;
}

/* "-": standard output. Return: the receiver, NULL with errno. */
static struct files_receiver *pull_receiver(struct cp_job *job, const char *to, const char *top)
{
	if (strcmp(to, "-") != 0)
		return files_receiver_new(AT_FDCWD, to, 0, share_receiver_flags(job->flags), top);
	job->in_order = true;
	return files_receiver_new_stream(STDOUT_FILENO, top);
}

static int pull(const struct cp_options *opts, struct cp_job *jobs, size_t count, const char *to)
{
	struct copy c = { .opts = opts, .jobs = jobs, .count = count, .began_ns = now_ns() };
	bool into = count > 1 || ends_with_slash(to);
	char *tops[OPERANDS_MAX];
	size_t i, other;
	int rc;

	for (i = 0; i < count; i++) {
		for (other = 0; other < i; other++)
			if (same_name(opts, jobs[other].path, jobs[i].path, true))
				return usage_error(
					"%s:%s and %s:%s have one name at the destination",
					jobs[other].text, jobs[other].path, jobs[i].text,
					jobs[i].path);
		tops[i] = top_of(jobs[i].path);
		if (!tops[i])
			return fail(ENOMEM, "no memory");
		into |= !*tops[i];
	}
	for (i = 0; i < count; i++) {
		job_options(&jobs[i], opts, false, into);
		jobs[i].receiver = pull_receiver(&jobs[i], to, tops[i]);
		free(tops[i]);
		if (!jobs[i].receiver && errno == EEXIST)
			return fail(errno, "%s is no regular file; '-' is standard output", to);
		if (!jobs[i].receiver)
			return fail(errno, "%s: %s", to, strerror(errno));
	}
	rc = run(&c);
	summary(&c, rc);
	for (i = 0; i < count; i++)
		files_receiver_free(jobs[i].receiver);
	return rc;
}

static int cp_operands(const struct cp_options *opts, char **argv, size_t count)
{
	static struct cp_job jobs[OPERANDS_MAX];
	size_t i, remote = 0;
	bool first, last;

	files_process();
	first = parse_remote(argv[0], &jobs[0]);
	last = parse_remote(argv[count - 1], &jobs[0]);
	if (first == last)
		return usage_error("either the first or the last operand is of the form "
				   "HOST[:PORT]/SHARE:PATH");
	for (i = 0; i < count; i++) {
		if (parse_remote(argv[i], &jobs[remote]))
			remote++;
		else if (last && remote)
			return usage_error("'%s' is no destination of the form "
					   "HOST[:PORT]/SHARE:PATH",
					   argv[i]);
		else if (first && i < count - 1)
			return usage_error("'%s' is no source of the form HOST[:PORT]/SHARE:PATH",
					   argv[i]);
	}
	if (last)
		return push(opts, argv, count - remote, jobs, remote);
	if (!strcmp(argv[count - 1], "-") && (remote > 1 || opts->recursive))
		return usage_error("to standard output one file is copied, and no directory");
	if (!strcmp(argv[count - 1], "-") && json_asked)
		return usage_error("the bytes and JSON can't both go to standard output");
	return pull(opts, jobs, remote, argv[count - 1]);
}

int cp_one(char **operands, const struct krdma_connect_options *connect, bool quiet, bool progress,
	   bool sync)
{
	const struct cp_options opts = {
		.quiet = quiet, .progress = progress && !quiet, .sync = sync, .connect = *connect
	};

	return cp_operands(&opts, operands, 2);
}

static int cp_run_command(int argc, char **argv)
{
	struct cp_options opts;
	int rc = cp_options(argc, argv, &opts);

	return rc >= 0 ? rc : cp_operands(&opts, argv + optind, (size_t)(argc - optind));
}

const struct command cmd_cp = {
	.name = "cp",
	.usage = "krdma cp [OPTIONS] SOURCE... HOST[:PORT]/SHARE:PATH...\n"
		 "       krdma cp [OPTIONS] HOST[:PORT]/SHARE:PATH... DESTINATION",
	.summary = "copy files to and from a share of a peer (krdma serve)",
	.help = "Names, modes, times, symbolic links and holes are kept. A file has its name when it\n"
		"is whole; of a copy that was interrupted, only what differs is sent. With several\n"
		"destinations each gets all sources, at the same time. As DESTINATION, '-' is standard\n"
		"output, for one file; './-' is a file.\n\n"
		"  -r, --recursive   directories with what is in them; 'DIR/.': what is in DIR\n"
		"  -a, --archive     the same: modes and times are kept in any case\n"
		"  -I, --ignore-times  also files that have the same length, time and mode there\n"
		"  -q, --quiet       print no summary and no progress bar\n"
		"  --progress        show the bar even if stderr is no terminal\n"
		"  --sync            end when bytes and names are on the disk\n"
		"  --timeout SECONDS give up connecting after this time\n"
		"  --resume SECONDS  wait so long for a lost connection to come back; 0: fail at once;\n"
		"                    'always': no limit (default: the module's parameter, 60)\n" PATH_HELP,
	.run = cp_run_command,
};
