// SPDX-License-Identifier: GPL-2.0
/*
 * krdma top: rates of sessions, paths, exports and users. Two looks at the lists of 'krdma status',
 * an interval apart, make one set of rows.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

struct top_options {
	uint64_t interval_ns;
	uint64_t count; /* 0: no end */
	char sort;      /* of sort_keys */
	bool screen;    /* in place, with keys */
};

/* What a row is named by, as it is; and what is divided by the time, from which member. */
struct rate {
	const char *key;
	const char *from;
};

struct block {
	const struct list *list;
	const char *names[7];
	struct rate rates[6];
	const struct field *fields;
	size_t count;
};

/* What is cut where a line is too long comes last. */
static const struct field session_fields[] = {
	{ "session", FIELD_COUNT, false },      { "peer", FIELD_TEXT, false },
	{ "state", FIELD_TEXT, false },         { "waits_for", FIELD_TEXT, false },
	{ "read_s", FIELD_SIZE, false },        { "written_s", FIELD_SIZE, false },
	{ "operations_s", FIELD_REAL, false },  { "mean_us", FIELD_REAL, false },
	{ "in_flight", FIELD_COUNT, false },    { "waiting", FIELD_COUNT, false },
	{ "served_read_s", FIELD_SIZE, false }, { "served_written_s", FIELD_SIZE, false },
	{ "uid", FIELD_COUNT, false },
};

static const struct field path_fields[] = {
	{ "session", FIELD_COUNT, false },     { "path", FIELD_COUNT, false },
	{ "peer", FIELD_TEXT, false },         { "state", FIELD_TEXT, false },
	{ "read_s", FIELD_SIZE, false },       { "written_s", FIELD_SIZE, false },
	{ "operations_s", FIELD_REAL, false }, { "mean_us", FIELD_REAL, false },
	{ "under_way", FIELD_COUNT, false },
};

static const struct field export_fields[] = {
	{ "name", FIELD_TEXT, false },      { "grants", FIELD_COUNT, false },
	{ "segments", FIELD_COUNT, false }, { "read_s", FIELD_SIZE, false },
	{ "written_s", FIELD_SIZE, false }, { "operations_s", FIELD_REAL, false },
	{ "recalls_s", FIELD_REAL, false }, { "messages", FIELD_COUNT, false },
};

static const struct field user_fields[] = {
	{ "uid", FIELD_COUNT, false },         { "sessions", FIELD_COUNT, false },
	{ "read_s", FIELD_SIZE, false },       { "written_s", FIELD_SIZE, false },
	{ "operations_s", FIELD_REAL, false }, { "waiting", FIELD_COUNT, false },
};

static const struct block blocks[] = {
	{ &list_sessions,
	  { "session", "peer", "state", "uid", "flags", "in_flight", "waiting" },
	  { { "read_s", "bytes_read" },
	    { "written_s", "bytes_written" },
	    { "operations_s", "transfers" },
	    { "served_read_s", "served_read_bytes" },
	    { "served_written_s", "served_written_bytes" } },
	  session_fields,
	  ARRAY_SIZE(session_fields) },
	{ &list_paths,
	  { "session", "path", "peer", "state", "under_way" },
	  { { "read_s", "bytes_read" },
	    { "written_s", "bytes_written" },
	    { "operations_s", "transfers" } },
	  path_fields,
	  ARRAY_SIZE(path_fields) },
	{ &list_exports,
	  { "name", "grants", "segments", "messages" },
	  { { "read_s", "served_read_bytes" },
	    { "written_s", "served_written_bytes" },
	    { "operations_s", "served_operations" },
	    { "recalls_s", "recalls" } },
	  export_fields,
	  ARRAY_SIZE(export_fields) },
};

static const struct {
	char letter;
	const char *key; /* NULL: both rates of bytes */
} sort_keys[] = {
	{ 'b', NULL }, { 'o', "operations_s" }, { 'l', "mean_us" }, { 'w', "waiting" }, { 's', "" },
};

static double member(struct json_object *row, const char *key)
{
	return json_object_get_double(json_object_object_get(row, key));
}

/* Paths have the number of their session and their own. */
static bool same_row(const struct block *block, struct json_object *a, struct json_object *b)
{
	const size_t n = block->list == &list_paths ? 2 : 1;
	size_t i;

	for (i = 0; i < n; i++)
		if (!json_object_equal(json_object_object_get(a, block->names[i]),
				       json_object_object_get(b, block->names[i])))
			return false;
	return true;
}

static struct json_object *row_before(const struct block *block, struct json_object *before,
				      struct json_object *row)
{
	struct json_object *rows = json_object_object_get(before, block->list->key);
	size_t i;

	for (i = 0; i < json_object_array_length(rows); i++)
		if (same_row(block, json_object_array_get_idx(rows, i), row))
			return json_object_array_get_idx(rows, i);
	return NULL;
}

static double difference(struct json_object *row, struct json_object *before, const char *key)
{
	const double more = member(row, key) - (before ? member(before, key) : 0);

	/* An export may be another one of that name. */
	return more > 0 ? more : 0;
}

/* One that was not there before has no rate yet: nobody knows since when it counts. */
static struct json_object *rated_row(const struct block *block, struct json_object *row,
				     struct json_object *before, double seconds)
{
	struct json_object *to = json_object_new_object();
	double operations;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(block->names) && block->names[i]; i++)
		json_object_object_add(
			to, block->names[i],
			json_object_get(json_object_object_get(row, block->names[i])));
	for (i = 0; i < ARRAY_SIZE(block->rates) && block->rates[i].key; i++)
		json_add_real(to, block->rates[i].key,
			      before ? difference(row, before, block->rates[i].from) / seconds : 0);
	operations = difference(row, before, "transfers");
	if (block->list != &list_exports)
		json_add_real(to, "mean_us",
			      before && operations > 0 ?
				      difference(row, before, "transfers_ns") / operations / 1000 :
				      0);
	return to;
}

/* What most of the unfinished transfers of a session wait for. */
static const char *waits_for(struct json_object *transfers, uint64_t session)
{
	const char *most = "-";
	size_t i, k, n, best = 0;

	for (i = 0; i < json_object_array_length(transfers); i++) {
		struct json_object *one = json_object_array_get_idx(transfers, i);
		struct json_object *waits = json_object_object_get(one, "waits_for");

		if (json_object_get_uint64(json_object_object_get(one, "session")) != session)
			continue;
		for (n = 0, k = i; k < json_object_array_length(transfers); k++) {
			struct json_object *other = json_object_array_get_idx(transfers, k);

			n += json_object_get_uint64(json_object_object_get(other, "session")) ==
				     session &&
			     json_object_equal(json_object_object_get(other, "waits_for"), waits);
		}
		if (n > best)
			most = json_object_get_string(waits);
		best = n > best ? n : best;
	}
	return most;
}

/* Sessions of a user of this host; those that peers made are theirs. */
static struct json_object *user_rows(struct json_object *sessions)
{
	static const char *const rates[] = { "read_s", "written_s", "operations_s" };
	struct json_object *users = json_object_new_array();
	size_t i, k;

	for (i = 0; i < json_object_array_length(sessions); i++) {
		struct json_object *session = json_object_array_get_idx(sessions, i), *user = NULL;
		struct json_object *uid = json_object_object_get(session, "uid");

		if (strstr(json_object_get_string(json_object_object_get(session, "flags")),
			   "inbound"))
			continue;
		for (k = 0; k < json_object_array_length(users) && !user; k++) {
			user = json_object_array_get_idx(users, k);
			if (!json_object_equal(json_object_object_get(user, "uid"), uid))
				user = NULL;
		}
		if (!user) {
			user = json_object_new_object();
			json_object_object_add(user, "uid", json_object_get(uid));
			json_object_array_add(users, user);
		}
		json_add_count(user, "sessions", (uint64_t)member(user, "sessions") + 1);
		json_add_count(user, "waiting",
			       (uint64_t)(member(user, "waiting") + member(session, "waiting")));
		for (k = 0; k < ARRAY_SIZE(rates); k++)
			json_add_real(user, rates[k],
				      member(user, rates[k]) + member(session, rates[k]));
	}
	return users;
}

static char sorted_by;

static double sort_value(struct json_object *row)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sort_keys); i++)
		if (sort_keys[i].letter == sorted_by)
			break;
	if (i < ARRAY_SIZE(sort_keys) && sort_keys[i].key)
		return member(row, sort_keys[i].key);
	return member(row, "read_s") + member(row, "written_s") + member(row, "served_read_s") +
	       member(row, "served_written_s");
}

/* The greatest first. */
static int compare_rows(const void *a, const void *b)
{
	const double x = sort_value(*(struct json_object *const *)a);
	const double y = sort_value(*(struct json_object *const *)b);

	return x > y ? -1 : x < y;
}

/* The lists as they are. Return: NULL after a failure, which has been reported */
static struct json_object *look(struct krdma *krdma)
{
	struct json_object *root = json_object_new_object(), *rows, *row;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < ARRAY_SIZE(blocks); i++)
		rc = list_fetch(krdma, blocks[i].list, 0, root);
	if (!rc)
		rc = list_fetch(krdma, &list_transfers, 0, root);
	if (rc) {
		fail_krdma();
		json_object_put(root);
		return NULL;
	}
	rows = json_object_object_get(root, list_exports.key);
	for (i = 0; i < json_object_array_length(rows); i++) {
		row = json_object_array_get_idx(rows, i);
		json_add_real(row, "served_operations",
			      member(row, "served_reads") + member(row, "served_writes"));
	}
	return root;
}

/* What is printed, of two looks. */
static struct json_object *rated(struct json_object *before, struct json_object *now,
				 double seconds)
{
	struct json_object *root = json_root();
	struct json_object *transfers = json_object_object_get(now, list_transfers.key);
	struct json_object *row, *sessions;
	size_t i, k;

	json_add_count(root, "time", (uint64_t)time(NULL));
	json_add_real(root, "seconds", seconds);
	for (i = 0; i < ARRAY_SIZE(blocks); i++) {
		const struct block *block = &blocks[i];
		struct json_object *from = json_object_object_get(now, block->list->key);
		struct json_object *rows = json_object_new_array();

		for (k = 0; k < json_object_array_length(from); k++) {
			row = json_object_array_get_idx(from, k);
			json_object_array_add(rows,
					      rated_row(block, row, row_before(block, before, row),
							seconds));
		}
		json_object_object_add(root, block->list->key, rows);
	}
	sessions = json_object_object_get(root, list_sessions.key);
	for (k = 0; k < json_object_array_length(sessions); k++) {
		row = json_object_array_get_idx(sessions, k);
		json_add_text(row, "waits_for",
			      waits_for(transfers, json_object_get_uint64(json_object_object_get(
							   row, "session"))));
	}
	json_object_object_add(root, "users", user_rows(sessions));
	return root;
}

/* Of the screen, which must not scroll. */
static int lines_left = INT_MAX;

static void print_block(const struct field *fields, size_t count, struct json_object *rows)
{
	size_t n = json_object_array_length(rows);

	if (!n || lines_left < 4)
		return;
	/* 's' is the order in which they were made. */
	if (sorted_by != 's')
		json_object_array_sort(rows, compare_rows);
	/* Beside a blank line, a heading, and the last line of the screen. */
	if (n > (size_t)lines_left - 3) {
		json_object_array_del_idx(rows, (size_t)lines_left - 3,
					  n - ((size_t)lines_left - 3));
		n = (size_t)lines_left - 3;
	}
	lines_left -= (int)n + 2;
	putchar('\n');
	table_print(fields, count, rows);
}

static void print_text(struct json_object *root, const struct top_options *opts)
{
	const time_t at = (time_t)json_object_get_uint64(json_object_object_get(root, "time"));
	struct tm tm;
	char text[32];
	size_t i;

	sorted_by = opts->sort;
	lines_left--;
	localtime_r(&at, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("krdma top  %s  rates of %.1f s%s\n", text, member(root, "seconds"),
	       opts->screen ?
		       "  q: end  sort by b: bytes o: operations l: latency w: waiting s: session" :
		       "");
	for (i = 0; i < ARRAY_SIZE(blocks); i++)
		print_block(blocks[i].fields, blocks[i].count,
			    json_object_object_get(root, blocks[i].list->key));
	print_block(user_fields, ARRAY_SIZE(user_fields), json_object_object_get(root, "users"));
}

/* ---- the terminal ---- */

static volatile sig_atomic_t stopping;

static void on_stop(int sig)
{
	(void)sig;
	stopping = 1;
}

static struct termios terminal;

static void screen_begin(void)
{
	struct sigaction stop = { .sa_handler = on_stop };
	struct termios keys;

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	tcgetattr(STDIN_FILENO, &terminal);
	keys = terminal;
	keys.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	/* No cursor, and long lines are cut. */
	fputs("\033[?25l\033[?7l", stdout);
}

static void screen_end(void)
{
	fputs("\033[?25h\033[?7h", stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
}

static void screen_print(struct json_object *root, const struct top_options *opts)
{
	struct winsize size;

	lines_left = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? 24 : size.ws_row;
	fputs("\033[H\033[J", stdout);
	print_text(root, opts);
}

/* Wait for the next look. Return: false if it is to end */
static bool screen_wait(struct top_options *opts, uint64_t until)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t i;
	char key;

	while (!stopping) {
		const uint64_t now = now_ns();
		const int ms = until > now ? (int)((until - now + 999999) / 1000000) : 0;

		if (poll(&input, 1, ms) <= 0)
			return !stopping;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
			return false;
		for (i = 0; i < ARRAY_SIZE(sort_keys); i++)
			if (sort_keys[i].letter == key)
				opts->sort = key;
	}
	return false;
}

static bool wait_until(struct top_options *opts, uint64_t until)
{
	const struct timespec at = { .tv_sec = (time_t)(until / NSEC_PER_SEC),
				     .tv_nsec = (long)(until % NSEC_PER_SEC) };

	if (opts->screen)
		return screen_wait(opts, until);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
	return true;
}

/* ---- the command ---- */

/* Return: -1 to go on, else the exit status. */
static int top_options(int argc, char **argv, struct top_options *opts)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "sort", required_argument, NULL, 's' },
		COMMON_LONG,
	};
	size_t i;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":n:d:s:" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (parse_count(optarg, UINT64_MAX, &opts->count) || !opts->count)
				return usage_error("'%s' is not a number of looks", optarg);
			break;
		case 'd':
			if (parse_seconds(optarg, &opts->interval_ns) || !opts->interval_ns)
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		case 's':
			opts->sort = 0;
			for (i = 0; i < ARRAY_SIZE(sort_keys); i++)
				if (sort_keys[i].letter == *optarg && !optarg[1])
					opts->sort = *optarg;
			if (!opts->sort)
				return usage_error("'%s' is none of b, o, l, w and s", optarg);
			break;
		default:
			rc = common_option(&cmd_top, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	opts->screen = !json_asked && !opts->count && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	return -1;
}

static int top_look(struct krdma *krdma, struct top_options *opts, struct json_object **before,
		    uint64_t *at)
{
	struct json_object *now = look(krdma), *root;
	const uint64_t time_ns = now_ns();

	if (!now)
		return FAILED;
	root = rated(*before, now, (double)(time_ns - *at) / 1e9);
	json_object_put(*before);
	*before = now;
	*at = time_ns;
	if (json_asked) {
		json_finish(root);
		return finish_output(DONE);
	}
	if (opts->screen) {
		screen_print(root, opts);
	} else {
		lines_left = INT_MAX;
		print_text(root, opts);
	}
	json_object_put(root);
	return finish_output(DONE);
}

static int top_loop(struct krdma *krdma, struct top_options *opts)
{
	struct json_object *before = look(krdma);
	uint64_t at = now_ns(), left = opts->count ? opts->count : UINT64_MAX;
	int rc = before ? DONE : FAILED;

	while (!rc && left && wait_until(opts, at + opts->interval_ns)) {
		rc = top_look(krdma, opts, &before, &at);
		if (--left && !opts->screen && !json_asked)
			putchar('\n');
	}
	json_object_put(before);
	return rc;
}

static int top_run(int argc, char **argv)
{
	struct top_options opts = { .interval_ns = 2 * NSEC_PER_SEC, .sort = 'b' };
	struct krdma *krdma;
	int rc;

	rc = top_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	if (module_open(&krdma))
		return FAILED;
	if (opts.screen)
		screen_begin();
	rc = top_loop(krdma, &opts);
	if (opts.screen)
		screen_end();
	krdma_free(krdma);
	return rc;
}

const struct command cmd_top = {
	.name = "top",
	.usage = "krdma top [OPTIONS]",
	.summary = "show rates, latencies and waits of sessions, paths, exports and users",
	.help = "On a terminal it refreshes in place until the key q; other keys sort. Elsewhere, and with\n"
		"--count, each look is a block of text, or with --json a line.\n\n"
		"  -d, --delay SECONDS  from one look to the next (default 2)\n"
		"  -n, --count N     end after N looks\n"
		"  -s, --sort LETTER by b: bytes (default), o: operations, l: latency, w: waiting,\n"
		"                    s: session\n",
	.run = top_run,
};
