// SPDX-License-Identifier: GPL-2.0
/* krdma monitor: events of the module, one line each. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* Events read at a time. */
#define BATCH 64

enum {
	OPT_UNTIL = OPT_LONG_ONLY,
	OPT_TIMEOUT
};

static const char *const event_names[] = {
	[KRDMA_EVENT_SESSION_UP] = "session-up",
	[KRDMA_EVENT_SESSION_RESUMING] = "session-resuming",
	[KRDMA_EVENT_SESSION_RESUMED] = "session-resumed",
	[KRDMA_EVENT_SESSION_DRAINING] = "session-draining",
	[KRDMA_EVENT_SESSION_ENDED] = "session-ended",
	[KRDMA_EVENT_PATH_UP] = "path-up",
	[KRDMA_EVENT_PATH_LOST] = "path-lost",
	[KRDMA_EVENT_EXPORT_ADDED] = "export-added",
	[KRDMA_EVENT_EXPORT_ENDED] = "export-ended",
	[KRDMA_EVENT_EXPORT_REVOKED] = "export-revoked",
	[KRDMA_EVENT_EXPORT_TAKEN_OVER] = "export-taken-over",
	[KRDMA_EVENT_REGION_REVOKED] = "region-revoked",
	[KRDMA_EVENT_LISTENER_UP] = "listener-up",
	[KRDMA_EVENT_LISTENER_WAITING] = "listener-waiting",
	[KRDMA_EVENT_LISTENER_CLOSED] = "listener-closed",
	[KRDMA_EVENT_LISTENER_ENDED] = "listener-ended",
	[KRDMA_EVENT_DEVICE_ADDED] = "device-added",
	[KRDMA_EVENT_DEVICE_REMOVED] = "device-removed",
};

struct monitor_options {
	uint64_t count;      /* 0: no end */
	uint64_t timeout_ns; /* 0: none */
	uint32_t until;      /* enum krdma_event_type; 0: none */
};

static uint32_t event_named(const char *name)
{
	uint32_t i;

	for (i = 1; i < ARRAY_SIZE(event_names); i++)
		if (!strcmp(event_names[i], name))
			return i;
	return 0;
}

/* Return: -1 to go on, else the exit status. */
static int monitor_options(int argc, char **argv, struct monitor_options *opts)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "until", required_argument, NULL, OPT_UNTIL },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		COMMON_LONG,
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, ":n:" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (parse_count(optarg, UINT64_MAX, &opts->count) || !opts->count)
				return usage_error("'%s' is not a number of events", optarg);
			break;
		case OPT_UNTIL:
			opts->until = event_named(optarg);
			if (!opts->until)
				return usage_error("there is no event '%s'", optarg);
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		default:
			rc = common_option(&cmd_monitor, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	return -1;
}

static const char *event_name(const struct krdma_monitor_event *event)
{
	return event->type < ARRAY_SIZE(event_names) && event_names[event->type] ?
		       event_names[event->type] :
		       "unknown";
}

/* The members that an event has; text prints the same, in this order. */
static struct json_object *event_object(const struct krdma_monitor_event *event)
{
	const bool path = event->type == KRDMA_EVENT_PATH_UP ||
			  event->type == KRDMA_EVENT_PATH_LOST;
	const bool export = event->type >= KRDMA_EVENT_EXPORT_ADDED &&
			    event->type <= KRDMA_EVENT_REGION_REVOKED;
	struct json_object *root = json_root();
	const time_t seconds = (time_t)(event->time_ns / NSEC_PER_SEC);
	char text[64];
	size_t used;
	struct tm tm;

	localtime_r(&seconds, &tm);
	used = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	used += (size_t)snprintf(text + used, sizeof(text) - used, ".%03u",
				 (unsigned int)(event->time_ns % NSEC_PER_SEC / 1000000));
	strftime(text + used, sizeof(text) - used, "%z", &tm);
	json_add_text(root, "time", text);
	json_add_text(root, "event", event_name(event));
	if (event->session)
		json_add_count(root, "session", event->session);
	if (path)
		json_add_count(root, "path", event->path);
	if (*event->name)
		json_add_text(root, export ? "export" : "device", event->name);
	if (event->local.family)
		json_add_addr(root, event->session ? "local" : "address", &event->local);
	if (event->peer.family)
		json_add_addr(root, "peer", &event->peer);
	if (event->session || export)
		json_add_count(root, "uid", event->uid);
	if (event->flags & KRDMA_SESSION_INBOUND)
		json_object_object_add(root, "inbound", json_object_new_boolean(true));
	if (event->status)
		json_add_text(root, "error", strerrorname_np(-event->status));
	if (*event->cause)
		json_add_text(root, "cause", event->cause);
	if (event->lost)
		json_add_count(root, "lost", event->lost);
	return root;
}

static void print_event(const struct krdma_monitor_event *event)
{
	struct json_object *root = event_object(event);

	if (json_asked) {
		json_finish(root);
		return;
	}
	json_object_object_foreach(root, key, value) {
		if (!strcmp(key, "schema"))
			continue;
		if (!strcmp(key, "time"))
			printf("%s", json_object_get_string(value));
		else if (!strcmp(key, "event"))
			printf(" %s", json_object_get_string(value));
		else if (!strcmp(key, "inbound"))
			printf(" inbound");
		else if (!strcmp(key, "cause"))
			printf(": %s", json_object_get_string(value));
		else if (!strcmp(key, "lost"))
			printf(" (%s events before it are lost)", json_object_get_string(value));
		else
			printf(" %s %s", key, json_object_get_string(value));
	}
	putchar('\n');
	json_object_put(root);
}

/* Print the events that there are. Return: DONE to go on, -1 at the end, or FAILED */
static int monitor_read(const struct monitor_options *opts, int fd, uint64_t *left)
{
	static _Alignas(8) char buf[BATCH * sizeof(struct krdma_monitor_event)];
	const struct krdma_monitor_event *event = NULL;
	const ssize_t bytes = read(fd, buf, sizeof(buf));

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return DONE;
	if (bytes <= 0)
		return fail(bytes ? errno : ESTALE, "the events can't be read: %s",
			    bytes ? strerror(errno) : "they have ended");
	while ((event = krdma_event_next(buf, (size_t)bytes, event))) {
		print_event(event);
		if (!--*left || event->type == opts->until)
			return finish_output(DONE) ? FAILED : -1;
	}
	/* At once, for a reader at the other end of a pipe. */
	return finish_output(DONE);
}

static int monitor_events(const struct monitor_options *opts, int fd)
{
	const uint64_t end = now_ns() + opts->timeout_ns;
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint64_t left = opts->count ? opts->count : UINT64_MAX;
	int rc = DONE;

	while (!rc) {
		const uint64_t now = now_ns(), rest = end > now ? end - now : 0;
		const struct timespec timeout = {
			.tv_sec = (time_t)(rest / NSEC_PER_SEC),
			.tv_nsec = (long)(rest % NSEC_PER_SEC),
		};

		rc = ppoll(&poll_fd, 1, opts->timeout_ns ? &timeout : NULL, NULL);
		if (rc < 0)
			return fail(errno, "poll: %s", strerror(errno));
		if (!rc)
			return fail(ETIMEDOUT, "the events have not come in time");
		rc = monitor_read(opts, fd, &left);
	}
	return rc < 0 ? DONE : rc;
}

static int monitor_run(int argc, char **argv)
{
	struct monitor_options opts = { 0 };
	struct krdma *krdma;
	int rc, fd;

	rc = monitor_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	if (module_open(&krdma))
		return FAILED;
	fd = krdma_monitor(krdma, KRDMA_MONITOR_NONBLOCK);
	if (fd < 0) {
		rc = fail_krdma();
	} else {
		/* What happens from now on is seen. */
		tell("watching");
		rc = monitor_events(&opts, fd);
		close(fd);
	}
	krdma_free(krdma);
	return rc;
}

const struct command cmd_monitor = {
	.name = "monitor",
	.usage = "krdma monitor [OPTIONS]",
	.summary = "print what happens: sessions, paths, exports, listeners, devices",
	.help = "Says 'watching' on standard error as soon as no event is missed. An event is a line, or\n"
		"with --json an object; krdma(8) names the events.\n\n"
		"  -n, --count N     end after N events\n"
		"  --until EVENT     end after the first EVENT, session-up for example\n"
		"  --timeout SECONDS fail if the end has not come by then\n",
	.run = monitor_run,
};
