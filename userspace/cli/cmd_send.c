// SPDX-License-Identifier: GPL-2.0
/* krdma send: messages to the holder of an export. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum {
	OPT_LINES = OPT_LONG_ONLY,
	OPT_TIMEOUT,
	OPT_VALUE
};

struct send_options {
	const char *text;    /* of the region */
	const char *message; /* NULL: from standard input */
	struct region_spec spec;
	bool lines;
	uint64_t value;
	uint64_t timeout_ns;
	struct krdma_connect_options connect;
};

/* Return: -1 to go on, else the exit status. */
static int send_options(int argc, char **argv, struct send_options *opts)
{
	static const struct option options[] = {
		{ "lines", no_argument, NULL, OPT_LINES },
		{ "value", required_argument, NULL, OPT_VALUE },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "resume", required_argument, NULL, OPT_RESUME },
		CONNECT_LONG,
		COMMON_LONG,
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case OPT_LINES:
			opts->lines = true;
			break;
		case OPT_VALUE:
			if (parse_count(optarg, UINT64_MAX, &opts->value))
				return usage_error("'%s' is not a number", optarg);
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
			rc = common_option(&cmd_send, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind < 1 || argc - optind > 2)
		return usage_error("a region is needed, and one message at most");
	opts->connect.timeout_ms = timeout_to_ms(opts->timeout_ns);
	opts->text = argv[optind];
	opts->message = argv[optind + 1];
	if (opts->lines && opts->message)
		return usage_error("--lines is for standard input");
	if (parse_region(opts->text, &opts->spec) || opts->spec.offset || opts->spec.length)
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME", opts->text);
	return -1;
}

/* Return: the exit status. */
static int send_one(const struct range *range, const struct send_options *opts, const char *message,
		    size_t length)
{
	struct krdma_completion completion;
	struct krdma_op op;

	if (length > KRDMA_MESSAGE_MAX)
		return fail(EMSGSIZE, "a message has %d bytes at most", KRDMA_MESSAGE_MAX);
	krdma_op_send(&op, range->region.id, message, length, opts->value);
	op.timeout_ns = opts->timeout_ns;
	return krdma_submit(range->krdma, &op, &completion, 1) ? fail_krdma() : DONE;
}

/* One message after the other: each is in the message queue before the next is sent. */
static int send_lines(const struct range *range, const struct send_options *opts,
		      uint64_t *messages, uint64_t *bytes)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	int rc = DONE;

	while (!rc && (length = getline(&line, &room, stdin)) >= 0) {
		if (length && line[length - 1] == '\n')
			length--;
		rc = send_one(range, opts, line, (size_t)length);
		*messages += !rc;
		*bytes += rc ? 0 : (uint64_t)length;
	}
	if (!rc && ferror(stdin))
		rc = fail(errno, "standard input can't be read: %s", strerror(errno));
	free(line);
	return rc;
}

static int send_input(const struct range *range, const struct send_options *opts, uint64_t *bytes)
{
	char message[KRDMA_MESSAGE_MAX + 1];

	*bytes = fread(message, 1, sizeof(message), stdin);
	if (ferror(stdin))
		return fail(errno, "standard input can't be read: %s", strerror(errno));
	return send_one(range, opts, message, *bytes);
}

static int send_run(int argc, char **argv)
{
	struct send_options opts = { 0 };
	uint64_t messages = 0, bytes = 0;
	struct json_object *root;
	struct range range;
	int rc;

	rc = send_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("send %s", opts.text);
	rc = range_open(&range, &opts.spec, KRDMA_RIGHT_MESSAGE, opts.connect);
	if (rc)
		return rc;
	if (opts.lines) {
		rc = send_lines(&range, &opts, &messages, &bytes);
	} else {
		if (opts.message) {
			bytes = strlen(opts.message);
			rc = send_one(&range, &opts, opts.message, bytes);
		} else {
			rc = send_input(&range, &opts, &bytes);
		}
		messages = !rc;
	}
	range_close(&range);
	if (rc || !json_asked)
		return rc;
	root = json_root();
	json_add_text(root, "region", opts.text);
	json_add_count(root, "messages", messages);
	json_add_count(root, "bytes", bytes);
	json_finish(root);
	return finish_output(DONE);
}

const struct command cmd_send = {
	.name = "send",
	.usage = "krdma send [OPTIONS] HOST[:PORT]/NAME [MESSAGE]",
	.summary = "send messages to the holder of an export",
	.help = "Without MESSAGE, standard input is the message: 4096 bytes at most. The command\n"
		"ends when the message is in the receiver's queue; while that queue is full it waits.\n\n"
		"  --lines           each line of standard input is a message, without its newline\n"
		"  --value NUMBER    number of 64 bits that goes with each message (default 0)\n"
		"  --timeout SECONDS give up after this time (default 30)\n"
		"  --resume SECONDS  wait so long for a lost connection to come back, but not longer than\n"
		"                    --timeout; 0: fail at once; 'always': no limit\n" PATH_HELP,
	.run = send_run,
};
