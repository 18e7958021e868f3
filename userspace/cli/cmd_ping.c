// SPDX-License-Identifier: GPL-2.0
/* krdma ping: round trips to the peer's module over the session. */
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "cli.h"

#define COUNT_DEFAULT 10
#define SIZE_DEFAULT  64

enum {
	OPT_TIMEOUT = OPT_LONG_ONLY
};

struct ping_options {
	const char *host;
	uint64_t count;
	uint32_t length;
	uint64_t interval_ns;
	uint64_t timeout_ns;
	bool verbose;
};

static volatile sig_atomic_t stop;

static void on_interrupt(int sig)
{
	(void)sig;
	stop = 1;
}

/* Return: -1 to go on, else the exit status. */
static int ping_options(int argc, char **argv, struct ping_options *opts)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'c' },
		{ "size", required_argument, NULL, 's' },
		{ "interval", required_argument, NULL, 'i' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		COMMON_LONG,
	};
	uint64_t value;
	int c, rc;

	*opts = (struct ping_options){ .count = COUNT_DEFAULT, .length = SIZE_DEFAULT };
	while ((c = getopt_long(argc, argv, ":c:s:i:v" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'c':
			if (parse_count(optarg, UINT64_MAX, &opts->count) || !opts->count)
				return usage_error("'%s' is not a count", optarg);
			break;
		case 's':
			if (parse_count(optarg, KRDMA_PING_MAX, &value))
				return usage_error("'%s' is not a size, 0 to %d bytes", optarg,
						   KRDMA_PING_MAX);
			opts->length = (uint32_t)value;
			break;
		case 'i':
			if (parse_seconds(optarg, &opts->interval_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		case 'v':
			opts->verbose = true;
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		default:
			rc = common_option(&cmd_ping, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 1)
		return usage_error("one host is needed");
	opts->host = argv[optind];
	return -1;
}

static void ping_print(const struct ping_options *opts, const struct krdma_sockaddr *peer,
		       const struct stats *stats)
{
	const double values[] = {
		stats_min(stats),
		stats_average(stats),
		stats_max(stats),
		stats_percentile(stats, 50),
		stats_percentile(stats, 99),
		stats_percentile(stats, 99.9),
		stats_stddev(stats),
	};
	static const char *const keys[] = {
		"min_us", "avg_us", "max_us", "p50_us", "p99_us", "p99_9_us", "stddev_us",
	};
	struct json_object *root;
	char text[KRDMA_ADDR_TEXT];
	size_t i;

	if (json_asked) {
		root = json_root();
		json_add_addr(root, "peer", peer);
		json_add_count(root, "size", opts->length);
		json_add_count(root, "count", stats->count);
		for (i = 0; i < ARRAY_SIZE(keys); i++)
			json_add_real(root, keys[i], values[i]);
		json_finish(root);
		return;
	}
	printf("%llu round trips of %u bytes with %s\n", (unsigned long long)stats->count,
	       opts->length, krdma_format_addr(peer, text));
	printf("min/avg/max/p50/p99/p99.9/stddev = %.1f/%.1f/%.1f/%.1f/%.1f/%.1f/%.1f us\n",
	       values[0], values[1], values[2], values[3], values[4], values[5], values[6]);
}

static int ping_loop(struct krdma *krdma, const struct ping_options *opts, uint32_t session,
		     struct stats *stats)
{
	const struct timespec interval = {
		.tv_sec = (time_t)(opts->interval_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(opts->interval_ns % NSEC_PER_SEC),
	};
	uint64_t i, rtt_ns;

	for (i = 0; i < opts->count && !stop; i++) {
		/* A signal ends the interval, and so the loop. */
		if (i && opts->interval_ns && nanosleep(&interval, NULL))
			break;
		if (krdma_ping(krdma, session, opts->length, timeout_to_ms(opts->timeout_ns),
			       &rtt_ns))
			return fail_krdma();
		stats_add(stats, rtt_ns);
		if (opts->verbose && !json_asked) {
			printf("%u bytes: seq=%llu time=%.1f us\n", opts->length,
			       (unsigned long long)i + 1, (double)rtt_ns / 1000);
			fflush(stdout);
		}
	}
	return DONE;
}

static int ping_run(int argc, char **argv)
{
	/* The first SIGINT ends the loop, and a summary follows; the second one kills the process. */
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
	struct krdma_connect_options connect;
	static struct stats stats;
	struct ping_options opts;
	struct krdma_sockaddr peer;
	struct krdma *krdma;
	uint32_t session;
	int rc;

	rc = ping_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("ping %s", opts.host);
	if (module_open(&krdma))
		return FAILED;
	connect = connect_options(0, opts.timeout_ns);
	if (krdma_connect_host(krdma, opts.host, &connect, &session, &peer)) {
		rc = fail_krdma();
	} else {
		sigaction(SIGINT, &action, NULL);
		rc = ping_loop(krdma, &opts, session, &stats);
		if (!rc)
			ping_print(&opts, &peer, &stats);
	}
	krdma_free(krdma);
	return rc;
}

const struct command cmd_ping = {
	.name = "ping",
	.usage = "krdma ping [OPTIONS] HOST[:PORT]",
	.summary = "measure round trips to a peer's module",
	.help = "  -c, --count N     round trips (default 10)\n"
		"  -s, --size BYTES  bytes each way, 0 to 512 (default 64)\n"
		"  -i, --interval S  seconds between two (default none)\n"
		"  -v, --verbose     print each\n"
		"  --timeout SECONDS give up on one after this time (default 10)\n",
	.run = ping_run,
};
