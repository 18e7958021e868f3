// SPDX-License-Identifier: GPL-2.0
/* krdma recv: publish a name for messages, and print them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

/* Messages read at a time: all that the queue of an export has room for. */
#define BATCH 256

enum {
	OPT_DISCARD = OPT_LONG_ONLY,
	OPT_RAW,
	OPT_TIMEOUT
};

struct recv_options {
	const char *name;
	uint64_t size;       /* 0: no memory to be written or read */
	uint64_t count;      /* 0: no end */
	uint64_t timeout_ns; /* 0: none */
	bool discard;
	bool raw;
};

/* Return: -1 to go on, else the exit status. */
static int recv_options(int argc, char **argv, struct recv_options *opts)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "discard", no_argument, NULL, OPT_DISCARD },
		{ "raw", no_argument, NULL, OPT_RAW },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		COMMON_LONG,
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, ":n:s:" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (parse_count(optarg, UINT64_MAX, &opts->count) || !opts->count)
				return usage_error("'%s' is not a number of messages", optarg);
			break;
		case 's':
			if (parse_size(optarg, &opts->size))
				return usage_error("'%s' is not a size", optarg);
			break;
		case OPT_DISCARD:
			opts->discard = true;
			break;
		case OPT_RAW:
			opts->raw = true;
			break;
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		default:
			rc = common_option(&cmd_recv, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 1)
		return usage_error("one name is needed");
	if (opts->raw + opts->discard + json_asked > 1)
		return usage_error("--raw, --discard and --json exclude each other");
	opts->name = argv[optind];
	return -1;
}

/* After a signal to end, printing what has come may take so long. */
#define STOP_SECONDS 2

static volatile sig_atomic_t stopping;

static void on_stop(int sig)
{
	(void)sig;
	stopping = 1;
	alarm(STOP_SECONDS);
}

/* A write() blocks while nobody reads the output: only this signal handler ends it. */
static void on_late(int sig)
{
	static const char text[] = "krdma: recv: nobody reads its output: some of it is lost\n";
	static const char json[] =
		"{\"schema\":1,\"error\":{\"status\":1,\"object\":\"recv\","
		"\"message\":\"nobody reads its output: some of it is lost\"}}\n";
	ssize_t rc = json_asked ? write(STDERR_FILENO, json, sizeof(json) - 1) :
				  write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)sig;
	(void)rc;
	_exit(FAILED);
}

/* Bytes that are not printable are escaped: they could look like other output, or control a terminal. */
static void print_bytes(const unsigned char *at, uint32_t length)
{
	for (; length--; at++)
		if (*at >= ' ' && *at < 0x7f && *at != '\\')
			putchar(*at);
		else
			printf("\\x%02x", *at);
}

static bool printable(const unsigned char *at, uint32_t length)
{
	while (length--)
		if (at[length] < ' ' || at[length] >= 0x7f)
			return false;
	return true;
}

static void print_json(const struct krdma_message *m)
{
	const unsigned char *data = krdma_message_data(m);
	struct json_object *root = json_root();
	char hex[2 * KRDMA_MESSAGE_MAX + 1];
	size_t i;

	json_add_addr(root, "peer", &m->peer);
	json_add_count(root, "uid", m->uid);
	json_add_count(root, "session", m->session);
	json_add_count(root, "value", m->value);
	json_object_object_add(root, "written",
			       json_object_new_boolean((m->flags & KRDMA_MESSAGE_WRITTEN) != 0));
	json_add_count(root, "bytes", m->length);
	if (printable(data, m->length)) {
		json_object_object_add(root, "text",
				       json_object_new_string_len((const char *)data,
								  (int)m->length));
	} else {
		for (i = 0; i < m->length; i++)
			snprintf(hex + 2 * i, 3, "%02x", data[i]);
		json_add_text(root, "hex", hex);
	}
	json_finish(root);
}

static void print_message(const struct recv_options *opts, const struct krdma_message *m)
{
	char text[KRDMA_ADDR_TEXT];

	if (opts->discard)
		return;
	if (json_asked) {
		print_json(m);
		return;
	}
	if (opts->raw) {
		fwrite(krdma_message_data(m), 1, m->length, stdout);
		return;
	}
	printf("%s uid %u value %llu%s%s", krdma_format_addr(&m->peer, text), m->uid,
	       (unsigned long long)m->value, m->flags & KRDMA_MESSAGE_WRITTEN ? " written" : "",
	       m->length ? ": " : "");
	print_bytes(krdma_message_data(m), m->length);
	putchar('\n');
}

/* Read the messages that have come. Return: their number, or -1; a failure has been reported. */
static int recv_read(const struct recv_options *opts, int queue, uint64_t most)
{
	static _Alignas(8) char buf[BATCH * (sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX)];
	const struct krdma_message *m;
	ssize_t bytes;
	int n = 0;

	bytes = read(queue, buf, sizeof(buf));
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (bytes <= 0) {
		fail(bytes ? errno : ESTALE, "the message queue can't be read: %s",
		     bytes ? strerror(errno) : "the export has ended");
		return -1;
	}
	for (m = NULL; (m = krdma_message_next(buf, (size_t)bytes, m)); n++)
		if ((uint64_t)n < most)
			print_message(opts, m);
	return n;
}

/* Return: the exit status. @signals are blocked; one of them ends the loop. */
static int recv_messages(const struct recv_options *opts, int queue, const sigset_t *signals)
{
	const struct timespec timeout = {
		.tv_sec = (time_t)(opts->timeout_ns / 1000000000),
		.tv_nsec = (long)(opts->timeout_ns % 1000000000),
	};
	struct pollfd fd = { .fd = queue, .events = POLLIN };
	uint64_t left = opts->count ? opts->count : UINT64_MAX;
	sigset_t waiting;
	int rc;

	sigprocmask(SIG_BLOCK, NULL, &waiting);
	sigdelset(&waiting, SIGINT);
	sigdelset(&waiting, SIGTERM);
	while (left) {
		/* After a signal, too: the senders know that their messages are in the queue. */
		const bool last = stopping;

		rc = last ? 1 : ppoll(&fd, 1, opts->timeout_ns ? &timeout : NULL, &waiting);
		if (rc < 0 && errno != EINTR)
			return fail(errno, "poll: %s", strerror(errno));
		if (!rc)
			return fail(ETIMEDOUT, "no message has come in time");
		/* The signals interrupt no write(), but end one that blocks for long. */
		sigprocmask(SIG_UNBLOCK, signals, NULL);
		rc = recv_read(opts, queue, left);
		if (rc < 0)
			return FAILED;
		left -= (uint64_t)rc < left ? (uint64_t)rc : left;
		/* At once, for a reader at the other end of a pipe. */
		rc = finish_output(DONE);
		if (rc)
			return rc;
		sigprocmask(SIG_BLOCK, signals, NULL);
		if (last)
			break;
	}
	return DONE;
}

/* The export lives until the process ends. Return: the file of its message queue, or -1. */
static int publish(struct krdma *krdma, const struct recv_options *opts)
{
	uint32_t rights = KRDMA_RIGHT_MESSAGE, id;
	uint64_t size = opts->size ? opts->size : 1;
	int fd, rc;

	if (opts->size)
		rights |= KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE;
	fd = krdma_memfd(opts->name, size);
	if (fd < 0)
		return -1;
	rc = krdma_export_memfd(krdma, opts->name, fd, 0, size, rights, 0, &id);
	close(fd);
	return rc ? -1 : krdma_message_queue(krdma, id, KRDMA_MESSAGE_QUEUE_NONBLOCK);
}

static int recv_run(int argc, char **argv)
{
	struct recv_options opts = { 0 };
	struct sigaction stop = { .sa_handler = on_stop, .sa_flags = (int)SA_RESTART };
	struct sigaction late = { .sa_handler = on_late };
	struct krdma *krdma;
	sigset_t signals;
	int rc, queue;

	rc = recv_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("recv %s", opts.name);
	stop_signals_block(&signals);
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGALRM, &late, NULL);
	if (module_open(&krdma))
		return FAILED;
	queue = publish(krdma, &opts);
	if (queue < 0) {
		rc = fail_krdma();
	} else {
		warn_of_nobody(krdma);
		if (json_asked)
			tell("receiving as %s", opts.name);
		else
			fprintf(stderr, "receiving as %s\n", opts.name);
		rc = recv_messages(&opts, queue, &signals);
		alarm(0);
		close(queue);
	}
	krdma_free(krdma);
	return rc;
}

const struct command cmd_recv = {
	.name = "recv",
	.usage = "krdma recv [OPTIONS] NAME",
	.summary = "publish a name for messages and print them, until SIGINT or SIGTERM",
	.help = "Says 'receiving as NAME' on standard error as soon as peers can send. A message\n"
		"is a line: the sender's address and user, the value, and the bytes, where they are\n"
		"not printable as \\xHH.\n\n"
		"  -n, --count N     end after N messages\n"
		"  -s, --size SIZE   memory as well that peers may read and write\n"
		"  --raw             print the bytes of the messages and nothing else\n"
		"  --discard         print nothing: for 'krdma bench send'\n"
		"  --timeout SECONDS fail when no message has come for so long\n",
	.run = recv_run,
};
