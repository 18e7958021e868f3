// SPDX-License-Identifier: GPL-2.0
/* krdma connect: hold a session, so that it is there when programs want it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "conf.h"

enum {
	OPT_TIMEOUT = OPT_LONG_ONLY,
	OPT_MESSAGES,
	OPT_CONFIG
};

struct hold_options {
	const char *host;
	const char *config;
	uint64_t timeout_ns;
	struct krdma_connect_options connect;
};

/* Return: -1 to go on, else the exit status */
static int hold_options(int argc, char **argv, struct hold_options *opts)
{
	static const struct option options[] = {
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "messages", no_argument, NULL, OPT_MESSAGES },
		{ "config", optional_argument, NULL, OPT_CONFIG },
		{ "resume", required_argument, NULL, OPT_RESUME },
		CONNECT_LONG,
		COMMON_LONG,
	};
	uint32_t messages = 0;
	bool other = false;
	int c, rc;

	*opts = (struct hold_options){ 0 };
	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		rc = -1;
		other |= c != OPT_CONFIG && c != 'j' && c != 'p';
		switch (c) {
		case OPT_TIMEOUT:
			if (parse_seconds(optarg, &opts->timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		case OPT_MESSAGES:
			messages = KRDMA_CONNECT_MESSAGES;
			break;
		case OPT_CONFIG:
			opts->config = optarg ? optarg : CONF_FILE;
			break;
		case OPT_RESUME:
		case OPT_KEEPALIVE:
		case OPT_PATH:
		case OPT_POLICY:
			rc = connect_option(c, optarg, &opts->connect);
			if (!rc)
				rc = -1;
			break;
		default:
			rc = common_option(&cmd_connect, argv, c);
		}
		if (rc >= 0)
			return rc;
	}
	if (argc - optind != 1)
		return usage_error("one host is needed");
	opts->host = argv[optind];
	if (opts->config && other)
		return usage_error("--config excludes other options");
	opts->connect.flags |= messages;
	opts->connect.timeout_ms = timeout_to_ms(opts->timeout_ns);
	return -1;
}

int connect_check(int argc, char **argv)
{
	struct hold_options opts;

	return hold_options(argc, argv, &opts);
}

/* The value of the nth --path, NULL behind the last */
static const char *nth_path(int argc, char **argv, int n)
{
	int i;

	for (i = 0; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--path") && !n--)
			return argv[i + 1];
	return NULL;
}

bool connect_same(int argc, char **argv, int other_argc, char **other_argv)
{
	struct hold_options a, b;
	const char *path, *other;
	int n = 0, rc;

	/* Nothing is looked up: names may have other addresses by now. */
	conf_checks = true;
	optind = 0;
	rc = hold_options(argc, argv, &a);
	optind = 0;
	if (rc < 0)
		rc = hold_options(other_argc, other_argv, &b);
	conf_checks = false;
	if (rc >= 0)
		return false;
	do {
		path = nth_path(argc, argv, n);
		other = nth_path(other_argc, other_argv, n);
		if (!path != !other || (path && strcmp(path, other) != 0))
			return false;
		n++;
	} while (path);
	return !a.config && !b.config && !strcmp(a.host, b.host) &&
	       a.connect.flags == b.connect.flags && a.connect.timeout_ms == b.connect.timeout_ms &&
	       a.connect.resume_s == b.connect.resume_s &&
	       a.connect.keepalive_s == b.connect.keepalive_s &&
	       a.connect.policy == b.connect.policy;
}

static void print_connected(const struct krdma_sockaddr *peer, uint64_t serial)
{
	char text[KRDMA_ADDR_TEXT];
	struct json_object *root;

	if (!json_asked) {
		printf("connected with %s: session %llu\n", krdma_format_addr(peer, text),
		       (unsigned long long)serial);
		return;
	}
	root = json_root();
	json_add_addr(root, "peer", peer);
	json_add_count(root, "session", serial);
	json_finish(root);
}

/* Until a signal, or the session's end. Return: DONE or FAILED */
static int hold(struct krdma *krdma, uint32_t session, const sigset_t *signals)
{
	/* Nothing tells that a session ends. */
	const struct timespec interval = { .tv_sec = 1 };
	struct krdma_session_info info;

	while (sigtimedwait(signals, NULL, &interval) < 0) {
		if (errno != EAGAIN)
			continue;
		if (krdma_session(krdma, session, &info))
			return fail_krdma();
		if (info.state == KRDMA_SESSION_CLOSING || info.state == KRDMA_SESSION_DEAD)
			return fail(ECONNRESET, "the session has ended");
	}
	return DONE;
}

static int connect_run(int argc, char **argv)
{
	struct krdma_session_info info;
	struct hold_options opts;
	struct krdma_sockaddr peer;
	struct krdma *krdma;
	sigset_t signals;
	uint32_t session;
	int rc;

	rc = hold_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("connect %s", opts.host);
	if (opts.config)
		return conf_exec(opts.config, &conf_connect, opts.host);
	if (module_open(&krdma))
		return FAILED;
	if (krdma_connect_host(krdma, opts.host, &opts.connect, &session, &peer) ||
	    krdma_session(krdma, session, &info)) {
		krdma_free(krdma);
		return fail_krdma();
	}
	/* Not before: a signal ends a command that connects. */
	stop_signals_block(&signals);
	print_connected(&peer, info.serial);
	rc = finish_output(DONE);
	sd_notify(0, "READY=1");
	if (!rc)
		rc = hold(krdma, session, &signals);
	krdma_free(krdma);
	return rc;
}

const struct command cmd_connect = {
	.name = "connect",
	.usage = "krdma connect [OPTIONS] HOST[:PORT]\n"
		 "       krdma connect --config[=FILE] HOST[:PORT]",
	.summary = "hold a session with a host, until SIGINT or SIGTERM",
	.help = "Programs of the same user that connect with the same options share it, and need not wait.\n\n"
		"  --resume SECONDS  wait so long for a connection that is lost: 0 to 3600, or 'always';\n"
		"                    other commands have the module's parameter, as is the default here\n"
		"  --messages        a session that can carry messages\n" PATH_HELP
		"  --timeout SECONDS give up connecting after this time (default 10)\n"
		"  --config[=FILE]   as the section [connect HOST] of FILE says (/etc/krdma/krdma.conf)\n",
	.run = connect_run,
};
