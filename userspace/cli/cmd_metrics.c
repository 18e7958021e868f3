// SPDX-License-Identifier: GPL-2.0
/*
 * krdma metrics: what 'krdma status' shows, for Prometheus and its like, as OpenMetrics text
 * (https://prometheus.io/docs/specs/om/open_metrics_spec/).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* A member of the objects of a list. */
struct metric {
	const char *key;
	const char *name; /* without "krdma_", and "_total" of a counter */
	bool counter;
	const char *help;
};

/* A list, the members that tell its objects apart, and what is measured. */
struct family {
	const struct list *list;
	const char *labels[4];
	struct metric metrics[16];
};

static const struct family families[] = {
	{ &list_listeners,
	  { "address" },
	  { { "up", "listener_up", false, "A device has its address, and it takes sessions" },
	    { "sessions", "listener_sessions", false, "Live sessions that came through it" },
	    { "accepted", "listener_accepted", true, "Sessions accepted" },
	    { "refused", "listener_refused", true, "Connects refused" } } },
	{ &list_sessions,
	  { "session", "peer", "device" },
	  { { "up", "session_up", false, "It has a connection" },
	    { "in_flight", "session_in_flight", false, "Operations posted" },
	    { "waiting", "session_waiting", false, "Operations that wait" },
	    { "grants", "session_grants", false, "Exports of this host that the peer has open" },
	    { "segments", "session_segments", false, "Segments of this host registered for it" },
	    { "bytes_read", "session_read_bytes", true, "Bytes that READs of this host moved" },
	    { "bytes_written", "session_written_bytes", true,
	      "Bytes that WRITEs of this host moved" },
	    { "transfers", "session_operations", true, "Operations of this host that succeeded" },
	    { "failures", "session_failures", true, "Those that failed" },
	    { "served_read_bytes", "session_served_read_bytes", true,
	      "Bytes that READs of the peer moved, as it reports" },
	    { "served_written_bytes", "session_served_written_bytes", true,
	      "Bytes that WRITEs of the peer moved, as it reports" } } },
	{ &list_paths,
	  { "session", "path", "local", "peer" },
	  { { "up", "path_up", false, "It has a channel" },
	    { "bytes_read", "path_read_bytes", true, "Bytes that READs moved over it" },
	    { "bytes_written", "path_written_bytes", true, "Bytes that WRITEs moved over it" },
	    { "failures", "path_failures", true, "Operations that failed on it" },
	    { "losses", "path_losses", true, "Channels that were lost on it" } } },
	{ &list_exports,
	  { "name" },
	  { { "length", "export_length_bytes", false, "Its length" },
	    { "pinned_bytes", "export_pinned_bytes", false, "Memory pinned for it" },
	    { "grants", "export_grants", false, "Sessions that have it open" },
	    { "segments", "export_segments", false, "Segments registered" },
	    { "held", "export_held_segments", false, "Segments that peers hold" },
	    { "messages", "export_messages", false, "Messages in its queue" },
	    { "recalls", "export_recalls", true, "Segments recalled because of its limit" },
	    { "served_read_bytes", "export_served_read_bytes", true,
	      "Bytes that READs of peers moved, as they report" },
	    { "served_written_bytes", "export_served_written_bytes", true,
	      "Bytes that WRITEs of peers moved, as they report" },
	    { "served_reads", "export_served_reads", true, "READs of peers, as they report" },
	    { "served_writes", "export_served_writes", true, "WRITEs of peers, as they report" } } },
	{ &list_grants,
	  { "name", "session", "grant", "peer" },
	  { { "read_bytes", "grant_read_bytes", true,
	      "Bytes that READs of this peer moved, as it reports" },
	    { "written_bytes", "grant_written_bytes", true,
	      "Bytes that WRITEs of this peer moved, as it reports" } } },
};

/* Of the module's counters, those that go up and down. */
static const char *const gauges[] = { "segment_pages", "pinned_bytes",    "peer_bytes",
				      "dma_mappings",  "messages_queued", "messages_held" };

/*
 * The older text format of Prometheus, which the textfile collector reads: there the name of a counter
 * has its _total in all lines, and units have none.
 */
static bool classic;

static void print_head(const struct metric *metric)
{
	const char *end = classic && metric->counter ? "_total" : "";

	printf("# TYPE krdma_%s%s %s\n# HELP krdma_%s%s %s\n", metric->name, end,
	       metric->counter ? "counter" : "gauge", metric->name, end, metric->help);
}

static void print_label(const char *name, struct json_object *value, const char *before)
{
	const char *text = json_object_get_string(value);

	printf("%s%s=\"", before, name);
	for (; text && *text; text++) {
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static uint64_t metric_value(const struct metric *metric, struct json_object *row)
{
	const char *state;

	if (strcmp(metric->key, "up") != 0)
		return json_object_get_uint64(json_object_object_get(row, metric->key));
	state = json_object_get_string(json_object_object_get(row, "state"));
	return state && !strcmp(state, "up");
}

static void print_metric(const struct family *family, const struct metric *metric,
			 struct json_object *rows)
{
	size_t i, k;

	print_head(metric);
	for (i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		printf("krdma_%s%s", metric->name, metric->counter ? "_total" : "");
		for (k = 0; k < ARRAY_SIZE(family->labels) && family->labels[k]; k++)
			print_label(family->labels[k],
				    json_object_object_get(row, family->labels[k]), k ? "," : "{");
		printf("} %llu\n", (unsigned long long)metric_value(metric, row));
	}
}

/* A histogram for each device, operation and size. */
static void print_latency(struct json_object *row)
{
	struct json_object *counts = json_object_object_get(row, "counts");
	struct json_object *size = json_object_object_get(row, "length_max");
	const size_t n = json_object_array_length(counts);
	uint64_t count = 0;
	char labels[256];
	size_t i;

	snprintf(labels, sizeof(labels), "device=\"%s\",operation=\"%s\",length_max=\"%s\"",
		 json_object_get_string(json_object_object_get(row, "device")),
		 json_object_get_string(json_object_object_get(row, "operation")),
		 size ? json_object_get_string(size) : "none");
	for (i = 0; i < n; i++) {
		count += json_object_get_uint64(json_object_array_get_idx(counts, i));
		printf("krdma_operation_seconds_bucket{%s,le=\"", labels);
		if (i < n - 1)
			printf("%.9f", (double)latency_bound(i) / 1e9);
		else
			printf("+Inf");
		printf("\"} %llu\n", (unsigned long long)count);
	}
	printf("krdma_operation_seconds_count{%s} %llu\n", labels, (unsigned long long)count);
	printf("krdma_operation_seconds_sum{%s} %.9f\n", labels,
	       (double)json_object_get_uint64(json_object_object_get(row, "sum_ns")) / 1e9);
}

static int print_latencies(struct krdma *krdma)
{
	struct json_object *root = json_object_new_object(), *rows;
	size_t i;
	int rc = DONE;

	if (list_fetch(krdma, &list_latencies, 0, root))
		rc = fail_krdma();
	else
		printf("# TYPE krdma_operation_seconds histogram\n%s"
		       "# HELP krdma_operation_seconds Operations of this host, from submission to end\n",
		       classic ? "" : "# UNIT krdma_operation_seconds seconds\n");
	rows = json_object_object_get(root, list_latencies.key);
	for (i = 0; !rc && i < json_object_array_length(rows); i++)
		print_latency(json_object_array_get_idx(rows, i));
	json_object_put(root);
	return rc;
}

static int print_lists(struct krdma *krdma)
{
	struct json_object *root = json_object_new_object();
	size_t i, k;
	int rc = DONE;

	for (i = 0; !rc && i < ARRAY_SIZE(families); i++) {
		const struct family *family = &families[i];

		if (list_fetch(krdma, family->list, 0, root)) {
			rc = fail_krdma();
			break;
		}
		for (k = 0; k < ARRAY_SIZE(family->metrics) && family->metrics[k].key; k++)
			print_metric(family, &family->metrics[k],
				     json_object_object_get(root, family->list->key));
	}
	json_object_put(root);
	return rc;
}

static int print_counters(void)
{
	struct krdma_counter *counters;
	const int count = krdma_counters(&counters);
	struct metric metric = { .help = "See Documentation/debugging.rst, Counters" };
	int i;
	size_t k;

	if (count < 0)
		return fail_krdma();
	for (i = 0; i < count; i++) {
		metric.name = counters[i].name;
		metric.counter = true;
		for (k = 0; k < ARRAY_SIZE(gauges); k++)
			metric.counter &= strcmp(gauges[k], metric.name) != 0;
		print_head(&metric);
		printf("krdma_%s%s %llu\n", metric.name, metric.counter ? "_total" : "",
		       (unsigned long long)counters[i].value);
	}
	free(counters);
	return DONE;
}

static int print_module(struct krdma *krdma)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	if (krdma_query(krdma, &query))
		return fail_krdma();
	printf("# TYPE krdma_module gauge\n# HELP krdma_module The module\n"
	       "krdma_module{version=\"%.*s\",incarnation=\"%016llx\"} 1\n",
	       (int)sizeof(query.version), query.version, (unsigned long long)query.incarnation);
	return DONE;
}

/* What a browser or Prometheus asks is not looked at: there is one page. */
static void answer_http(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin) && strcspn(line, "\r\n"))
		;
	fputs("HTTP/1.1 200 OK\r\nConnection: close\r\n"
	      "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\r\n",
	      stdout);
}

static int print_all(struct krdma *krdma)
{
	int rc = print_module(krdma);

	if (!rc)
		rc = print_lists(krdma);
	if (!rc)
		rc = print_latencies(krdma);
	if (!rc)
		rc = print_counters();
	/* Without it, the text is known to be cut short; a file is there whole or not at all. */
	if (!rc && !classic)
		puts("# EOF");
	return rc;
}

/* Whoever reads the file finds all of the text, or all of the one before. */
static int print_file(struct krdma *krdma, const char *path)
{
	char *temporary;
	int rc, fd;

	subject_set("metrics --textfile %s", path);
	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return fail(ENOMEM, "out of memory");
	/* It may be a directory of another user, who can't have the name before. */
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0644) || dup2(fd, STDOUT_FILENO) < 0) {
		rc = fail(errno, "cannot write '%s': %s", temporary, strerror(errno));
	} else {
		rc = finish_output(print_all(krdma));
		if (!rc && rename(temporary, path))
			rc = fail(errno, "cannot rename '%s': %s", temporary, strerror(errno));
	}
	if (rc && fd >= 0)
		unlink(temporary);
	if (fd >= 0)
		close(fd);
	free(temporary);
	return rc;
}

enum {
	OPT_HTTP = OPT_LONG_ONLY,
	OPT_TEXTFILE
};

static int metrics_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "http", no_argument, NULL, OPT_HTTP },
		{ "textfile", required_argument, NULL, OPT_TEXTFILE },
		COMMON_LONG,
	};
	const char *textfile = NULL;
	struct krdma *krdma;
	bool http = false;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		if (c == OPT_HTTP || c == OPT_TEXTFILE) {
			http |= c == OPT_HTTP;
			if (c == OPT_TEXTFILE)
				textfile = optarg;
			continue;
		}
		rc = common_option(&cmd_metrics, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	if (http && textfile)
		return usage_error("--http and --textfile exclude each other");
	if (json_asked)
		return usage_error("OpenMetrics text is not JSON; see 'krdma status -j'");
	if (module_open(&krdma))
		return FAILED;
	classic = textfile;
	if (http)
		answer_http();
	rc = textfile ? print_file(krdma, textfile) : print_all(krdma);
	krdma_free(krdma);
	return rc;
}

const struct command cmd_metrics = {
	.name = "metrics",
	.usage = "krdma metrics [--http | --textfile FILE]",
	.summary = "print counters and objects as OpenMetrics text, for Prometheus",
	.help = "For Prometheus itself, enable krdma-metrics.socket (port 9471).\n\n"
		"  --http            read a request from standard input, and print a reply, as a service\n"
		"                    of a socket does\n"
		"  --textfile FILE   write FILE, by a file beside it that is renamed: for the textfile\n"
		"                    collector of node_exporter\n",
	.run = metrics_run,
};
