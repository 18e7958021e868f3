// SPDX-License-Identifier: GPL-2.0
/* krdma serve: a directory that 'krdma cp' copies to and from. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "conf.h"
#include "serve.h"

#define CLIENTS_DEFAULT 16
#define CLIENTS_MAX     256
/* Between two looks at the sessions, while there are clients. */
#define LOOK_MS 1000
/* A client that asks for something does so soon after its hello; others make room. */
#define SILENT_NS (5 * NSEC_PER_SEC)
/* Hellos read at a time. */
#define BATCH 16

enum {
	OPT_NAME = OPT_LONG_ONLY,
	OPT_READ_ONLY,
	OPT_CLIENTS,
	OPT_CONFIG
};

struct serve_options {
	const char *dir;
	const char *name;
	const char *config;
	bool read_only;
	uint64_t clients;
};

struct server {
	struct serve_share share;
	struct share_info *info; /* what peers read */
	uint32_t export;
	int queue;
	unsigned int refusals;
	size_t clients_max, count;
	struct serve_client *clients[CLIENTS_MAX + 1]; /* one of them is about to end */
};

/* Return: -1 to go on, else the exit status. */
static int serve_options(int argc, char **argv, struct serve_options *opts)
{
	static const struct option options[] = {
		{ "name", required_argument, NULL, OPT_NAME },
		{ "read-only", no_argument, NULL, OPT_READ_ONLY },
		{ "max-clients", required_argument, NULL, OPT_CLIENTS },
		{ "config", optional_argument, NULL, OPT_CONFIG },
		COMMON_LONG,
	};
	static char path[4096];
	bool other = false;
	int c, rc;

	*opts = (struct serve_options){ .dir = ".", .clients = CLIENTS_DEFAULT };
	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		other |= c != OPT_CONFIG && c != 'j' && c != 'p';
		switch (c) {
		case OPT_NAME:
			opts->name = optarg;
			break;
		case OPT_READ_ONLY:
			opts->read_only = true;
			break;
		case OPT_CLIENTS:
			if (parse_count(optarg, CLIENTS_MAX, &opts->clients) || !opts->clients)
				return usage_error("'%s' is not a number of clients, 1 to %d",
						   optarg, CLIENTS_MAX);
			break;
		case OPT_CONFIG:
			opts->config = optarg ? optarg : CONF_FILE;
			break;
		default:
			rc = common_option(&cmd_serve, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 1)
		return usage_error("one directory is needed");
	if (opts->config) {
		opts->name = argv[optind];
		return other ? usage_error("--config excludes other options") : -1;
	}
	opts->dir = argv[optind];
	if (!opts->name) {
		/* "." has the name that it has in its parent. */
		if (!realpath(opts->dir, path))
			return fail(errno, "%s: %s", opts->dir, strerror(errno));
		opts->name = strrchr(path, '/') + 1;
	}
	if (!*opts->name || strlen(opts->name) > SHARE_NAME_MAX || strchr(opts->name, ':') ||
	    !name_ok(opts->name))
		return usage_error(
			"'%s' is no name of a share, 1 to %d of A-Z a-z 0-9 . _ - + = (--name)",
			opts->name, (int)SHARE_NAME_MAX);
	return -1;
}

static void refuse(struct server *s, const uint8_t token[SHARE_TOKEN], int error)
{
	struct share_refusal *r = &s->info->refusals[s->refusals++ % SHARE_REFUSALS];

	r->error = (uint32_t)error;
	memcpy(r->token, token, SHARE_TOKEN);
}

/* End the clients whose session is gone. */
static void look_at_sessions(struct server *s)
{
	bool there[ARRAY_SIZE(s->clients)] = { false };
	const struct krdma_session_info *info;
	struct krdma_iter *iter;
	size_t i;

	if (krdma_iter_new(s->share.krdma, KRDMA_LIST_SESSIONS, 0, &iter))
		return;
	while ((info = krdma_iter_next(iter)))
		for (i = 0; i < s->count; i++)
			there[i] |= info->serial == serve_client_session(s->clients[i]);
	if (krdma_iter_free(iter))
		return;
	for (i = 0; i < s->count; i++)
		if (serve_client_is_gone(s->clients[i], there[i]))
			serve_client_end(s->clients[i]);
}

static void end_clients(struct server *s)
{
	size_t i;

	for (i = 0; i < s->count; i++) {
		if (serve_client_is_over(s->clients[i]))
			serve_client_end(s->clients[i]);
		if (serve_client_free(s->clients[i]))
			s->clients[i--] = s->clients[--s->count];
	}
}

/*
 * A client that says hello and asks for nothing must not keep others out: when all places are taken,
 * the client that has been silent longest loses its place. Return: is there a place?
 */
static bool make_room(struct server *s)
{
	struct serve_client *silent = NULL;
	uint64_t longest = SILENT_NS, ns;
	size_t i;

	if (s->count < s->clients_max)
		return true;
	/* The one before has not ended yet. */
	if (s->count > s->clients_max)
		return false;
	for (i = 0; i < s->count; i++) {
		ns = serve_client_silent_ns(s->clients[i]);
		if (ns < longest)
			continue;
		longest = ns;
		silent = s->clients[i];
	}
	if (silent)
		serve_client_end(silent);
	return silent;
}

static void take_hello(struct server *s, const struct krdma_message *message)
{
	struct share_hello hello;
	size_t i;

	if (message->length != sizeof(hello))
		return;
	memcpy(&hello, krdma_message_data(message), sizeof(hello));
	if (hello.magic != SHARE_MAGIC || hello.version != SHARE_VERSION)
		return;
	end_clients(s);
	/* One session has the memory of one client, or it could take that of all. */
	for (i = 0; i < s->count; i++) {
		if (serve_client_session(s->clients[i]) == message->session) {
			refuse(s, hello.token, EALREADY);
			return;
		}
	}
	/* One that is gone may have locked what this one wants. */
	look_at_sessions(s);
	end_clients(s);
	if (!make_room(s)) {
		refuse(s, hello.token, EBUSY);
		return;
	}
	s->clients[s->count] = serve_client_new(&s->share, hello.token, message);
	if (s->clients[s->count]) {
		s->count++;
	} else {
		tell("a client gets no memory: %s", strerror(errno));
		refuse(s, hello.token, errno);
	}
}

/* Return: 0 or -1; a failure has been reported. */
static int take_hellos(struct server *s)
{
	static _Alignas(8) char buf[BATCH * (sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX)];
	const struct krdma_message *m = NULL;
	ssize_t bytes;

	bytes = read(s->queue, buf, sizeof(buf));
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (bytes <= 0) {
		fail(bytes ? errno : ESTALE, "the message queue can't be read: %s",
		     bytes ? strerror(errno) : "the export has ended");
		return -1;
	}
	while ((m = krdma_message_next(buf, (size_t)bytes, m)))
		take_hello(s, m);
	return 0;
}

/* Return: the exit status. */
static int serve(struct server *s, const sigset_t *signals)
{
	struct pollfd fds[] = {
		{ .fd = signalfd(-1, signals, SFD_CLOEXEC), .events = POLLIN },
		{ .fd = s->queue, .events = POLLIN },
		{ .fd = s->share.wake, .events = POLLIN },
	};
	uint64_t looked = 0;
	eventfd_t value;

	if (fds[0].fd < 0)
		return fail(errno, "signalfd: %s", strerror(errno));
	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), s->count ? LOOK_MS : -1) < 0 && errno != EINTR)
			return fail(errno, "poll: %s", strerror(errno));
		if (fds[0].revents)
			return DONE;
		if (fds[2].revents)
			eventfd_read(s->share.wake, &value);
		if (fds[1].revents && take_hellos(s))
			return FAILED;
		if (now_ns() - looked > LOOK_MS * 1000000ULL) {
			looked = now_ns();
			look_at_sessions(s);
		}
		end_clients(s);
	}
}

/* Return: 0 or -1; a failure has been reported. */
static int publish(struct server *s)
{
	int fd = krdma_memfd(s->share.name, SHARE_PAGE), rc;

	_Static_assert(sizeof(*s->info) <= SHARE_PAGE, "the share has one page");
	if (fd < 0) {
		fail_krdma();
		return -1;
	}
	s->info = mmap(NULL, SHARE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->info == MAP_FAILED) {
		fail(errno, "no memory: %s", strerror(errno));
		return -1;
	}
	s->info->version = SHARE_VERSION;
	s->info->magic = SHARE_MAGIC;
	rc = krdma_export_memfd(s->share.krdma, s->share.name, fd, 0, SHARE_PAGE,
				KRDMA_RIGHT_READ | KRDMA_RIGHT_MESSAGE, 0, &s->export);
	close(fd);
	if (!rc)
		s->queue = krdma_message_queue(s->share.krdma, s->export,
					       KRDMA_MESSAGE_QUEUE_NONBLOCK);
	if (rc || s->queue < 0) {
		fail_krdma();
		return -1;
	}
	return 0;
}

static void print_published(const struct serve_options *opts)
{
	struct json_object *root;

	if (!json_asked) {
		printf("serving %s as %s%s\n", opts->dir, opts->name,
		       opts->read_only ? ", read-only" : "");
		return;
	}
	root = json_root();
	json_add_text(root, "name", opts->name);
	json_add_text(root, "directory", opts->dir);
	json_object_object_add(root, "read_only", json_object_new_boolean(opts->read_only));
	json_finish(root);
}

int serve_check(int argc, char **argv)
{
	struct serve_options opts;

	return serve_options(argc, argv, &opts);
}

bool serve_same(int argc, char **argv, int other_argc, char **other_argv)
{
	struct serve_options a, b;

	optind = 0;
	if (serve_options(argc, argv, &a) >= 0)
		return false;
	optind = 0;
	return serve_options(other_argc, other_argv, &b) < 0 && !a.config && !b.config && a.name &&
	       b.name && !strcmp(a.name, b.name) && !strcmp(a.dir, b.dir) &&
	       a.read_only == b.read_only && a.clients == b.clients;
}

static int serve_run(int argc, char **argv)
{
	static struct server s;
	struct serve_options opts;
	sigset_t signals;
	int rc;

	rc = serve_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("serve %s", opts.name);
	if (opts.config)
		return conf_exec(opts.config, &conf_share, opts.name);
	files_process();
	s.clients_max = opts.clients;
	s.share = (struct serve_share){ .name = opts.name, .read_only = opts.read_only };
	s.share.dir = open(opts.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s.share.dir < 0)
		return fail(errno, "%s: %s", opts.dir, strerror(errno));
	s.share.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s.share.wake < 0)
		return fail(errno, "eventfd: %s", strerror(errno));
	stop_signals_block(&signals);
	if (module_open(&s.share.krdma))
		return FAILED;
	if (publish(&s))
		return FAILED;
	print_published(&opts);
	warn_of_nobody(s.share.krdma);
	rc = finish_output(DONE);
	sd_notify(0, "READY=1");
	if (!rc)
		rc = serve(&s, &signals);
	/* With the file, all exports end; threads may be busy with a disk. */
	krdma_free(s.share.krdma);
	return rc;
}

const struct command cmd_serve = {
	.name = "serve",
	.usage = "krdma serve [OPTIONS] DIR\n"
		 "       krdma serve --config[=FILE] NAME",
	.summary = "let peers copy files to and from a directory, until SIGINT or SIGTERM",
	.help = "Prints one line as soon as peers can use the share with 'krdma cp'. Files belong to\n"
		"the user that serves them. No path leads out of DIR.\n\n"
		"  --name NAME       name of the share (default: the last name of DIR)\n"
		"  --read-only       peers may not write\n"
		"  --max-clients N   clients at a time (default 16)\n"
		"  --config[=FILE]   as the section [share NAME] of FILE says (/etc/krdma/krdma.conf)\n",
	.run = serve_run,
};
