// SPDX-License-Identifier: GPL-2.0
/* krdma listen: accept peers, show and remove listeners. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "conf.h"

enum {
	OPT_REMOVE = OPT_LONG_ONLY,
	OPT_CLOSE,
	OPT_ALLOW,
	OPT_REPLACE,
	OPT_WAIT
};

struct listen_options {
	const char *address;
	bool remove;
	bool close; /* not yet */
	bool replace;
	bool wait;
	uint32_t allow_count;
	struct krdma_prefix allow[KRDMA_LISTEN_ALLOW_MAX];
};

/* Return: -1 to go on, else the exit status. */
static int listen_options(int argc, char **argv, struct listen_options *opts)
{
	static const struct option options[] = {
		{ "remove", required_argument, NULL, OPT_REMOVE },
		{ "close", required_argument, NULL, OPT_CLOSE },
		{ "allow", required_argument, NULL, OPT_ALLOW },
		{ "replace", no_argument, NULL, OPT_REPLACE },
		{ "wait", no_argument, NULL, OPT_WAIT },
		COMMON_LONG,
	};
	int c, rc;

	memset(opts, 0, sizeof(*opts));
	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case OPT_REMOVE:
		case OPT_CLOSE:
			opts->remove = true;
			opts->close = c == OPT_CLOSE;
			opts->address = optarg;
			break;
		case OPT_ALLOW:
			if (opts->allow_count == KRDMA_LISTEN_ALLOW_MAX)
				return usage_error("more than %d prefixes", KRDMA_LISTEN_ALLOW_MAX);
			if (krdma_parse_prefix(optarg, &opts->allow[opts->allow_count++]))
				return usage_error("%s", krdma_error());
			break;
		case OPT_REPLACE:
			opts->replace = true;
			break;
		case OPT_WAIT:
			opts->wait = true;
			break;
		default:
			rc = common_option(&cmd_listen, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind > (opts->remove ? 0 : 1))
		return usage_error("too many operands");
	if (optind < argc)
		opts->address = argv[optind];
	if ((opts->allow_count || opts->replace || opts->wait) && (!opts->address || opts->remove))
		return usage_error("--allow, --replace and --wait need an address to listen on");
	return -1;
}

static int show_listeners(struct krdma *krdma)
{
	struct json_object *root = json_root();

	if (list_fetch(krdma, &list_listeners, 0, root)) {
		json_object_put(root);
		return fail_krdma();
	}
	if (json_asked) {
		json_finish(root);
		return DONE;
	}
	list_print_table(&list_listeners, root);
	json_object_put(root);
	return DONE;
}

void warn_of_nobody(struct krdma *krdma)
{
	const struct krdma_listener_info *info;
	struct krdma_iter *iter;
	bool any = false, up = false;

	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return;
	while ((info = krdma_iter_next(iter))) {
		any = true;
		up |= !(info->flags & (KRDMA_LISTENER_DOWN | KRDMA_LISTENER_CLOSED));
	}
	if (krdma_iter_free(iter) || up)
		return;
	tell(any ? "no peer can reach it yet: each listener of this host is closed, or waits for an "
		   "RDMA device (krdma listen)" :
		   "no peer can reach it yet: this host has no listener (krdma listen)");
}

/* It is there, and hears nobody. */
static void warn_of_waiting(struct krdma *krdma, const struct krdma_sockaddr *addr)
{
	const struct krdma_listener_info *info;
	struct krdma_iter *iter;
	bool waits = false;

	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return;
	while ((info = krdma_iter_next(iter)))
		waits |= (info->flags & KRDMA_LISTENER_DOWN) &&
			 !memcmp(&info->addr, addr, sizeof(*addr));
	krdma_iter_free(iter);
	if (waits)
		tell("it waits for an RDMA device with that address (krdma devices)");
}

bool listener_ends_with_file(struct krdma *krdma, const struct krdma_sockaddr *addr)
{
	const struct krdma_listener_info *info;
	struct krdma_iter *iter;
	bool ends = false;

	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return false;
	while ((info = krdma_iter_next(iter)))
		ends |= (info->flags & KRDMA_LISTENER_FILE) &&
			!memcmp(&info->addr, addr, sizeof(*addr));
	krdma_iter_free(iter);
	return ends;
}

static void print_listening(const struct krdma_sockaddr *addr)
{
	char text[KRDMA_ADDR_TEXT];
	struct json_object *root;

	if (!json_asked) {
		printf("listening on %s\n", krdma_format_addr(addr, text));
		return;
	}
	root = json_root();
	json_add_addr(root, "address", addr);
	json_finish(root);
}

static int add_listener(struct krdma *krdma, const struct krdma_sockaddr *addr,
			const struct listen_options *opts)
{
	sigset_t signals;
	int rc, sig;
	bool there;

	there = opts->replace && listener_ends_with_file(krdma, addr);
	if (opts->wait)
		stop_signals_block(&signals);
	if (opts->replace ? krdma_replace_listener(krdma, addr, opts->allow, opts->allow_count) :
			    krdma_listen(krdma, addr, opts->allow, opts->allow_count))
		return fail_krdma();
	if (!opts->wait && !there && listener_ends_with_file(krdma, addr))
		return fail(
			EINVAL,
			"in this network namespace a listener ends with its command: use --wait");
	warn_of_waiting(krdma, addr);
	if (!opts->wait)
		return DONE;
	print_listening(addr);
	rc = finish_output(DONE);
	if (!rc)
		sigwait(&signals, &sig);
	if (krdma_unlisten(krdma, addr))
		rc = fail_krdma();
	return rc;
}

/* "10.0.0.1:7471", "[::]:7471", "fe80::1%eth0": no name that is to be looked up. */
static bool numeric(const char *address)
{
	const char *colon = strchr(address, ':');
	const size_t length = colon ? (size_t)(colon - address) : strlen(address);

	return *address == '[' || (colon && strchr(colon + 1, ':')) ||
	       strspn(address, "0123456789.") == length;
}

int listen_check(int argc, char **argv)
{
	struct listen_options opts;
	struct krdma_sockaddr addr;
	int rc = listen_options(argc, argv, &opts);
	bool any = !opts.allow_count;
	uint32_t i;

	if (rc >= 0)
		return rc;
	if (conf_checks && !numeric(opts.address))
		return usage_error("'%s' is no local address in numbers", opts.address);
	if (krdma_resolve(opts.address, &addr, 1) < 0)
		return usage_error("%s", krdma_error());
	for (i = 0; i < opts.allow_count; i++)
		any |= opts.allow[i].addr.family == addr.family;
	return any ? -1 :
		     usage_error("no prefix has the family of the address, so nobody is admitted");
}

static int listen_run(int argc, char **argv)
{
	struct listen_options opts;
	struct krdma_sockaddr addr;
	struct krdma *krdma;
	int rc;

	rc = listen_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	if (opts.address) {
		subject_set("listen %s%s",
			    opts.close  ? "--close " :
			    opts.remove ? "--remove " :
					  "",
			    opts.address);
		if (krdma_resolve(opts.address, &addr, 1) < 0)
			return fail_krdma();
		if (!addr.port)
			addr.port = KRDMA_DEFAULT_PORT;
	}
	if (module_open(&krdma))
		return FAILED;
	if (!opts.address)
		rc = show_listeners(krdma);
	else if (!opts.remove)
		rc = add_listener(krdma, &addr, &opts);
	else if (opts.close)
		rc = krdma_close_listener(krdma, &addr) ? fail_krdma() : DONE;
	else
		rc = krdma_unlisten(krdma, &addr) ? fail_krdma() : DONE;
	krdma_free(krdma);
	return rc;
}

const struct command cmd_listen = {
	.name = "listen",
	.usage = "krdma listen [--allow PREFIX]... [--replace] [--wait] ADDRESS[:PORT]\n"
		 "       krdma listen --remove|--close ADDRESS[:PORT]\n"
		 "       krdma listen",
	.summary = "accept peers at a local address, show and remove listeners",
	.help = "The default port is 7471. Without an address, the listeners are shown.\n\n"
		"  --allow PREFIX    only peers of this prefix, 10.1.0.0/16; may be repeated\n"
		"  --replace         give a listener that is there these prefixes; its sessions go on\n"
		"  --remove ADDRESS  stop listening, and end the sessions that came through it\n"
		"  --close ADDRESS   refuse new sessions; existing ones go on, until it is removed\n"
		"  --wait            stay, and remove the listener at SIGINT or SIGTERM; needed in a\n"
		"                    network namespace other than the first, where a listener ends\n"
		"                    with the command that made it\n",
	.run = listen_run,
};
