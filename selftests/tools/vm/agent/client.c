// SPDX-License-Identifier: GPL-2.0
/* Runs a command by an agent: `on` in a guest, `agent call` on the host. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "frames.h"

/* Input sent but not yet written to the command: keeps signals from queueing behind it. */
#define INPUT_WINDOW (4 * CHUNK)

struct options {
	const char *prefix; /* before each line of output */
	const char *status; /* file to write the exit status to */
	const char *cwd;
	bool tty, no_input, clean_env;
	struct buf env; /* NAME=VALUE strings added */
};

struct output {
	int fd;
	struct buf line;
};

static struct termios saved_tty;
static bool tty_is_raw;

static void restore_tty(void)
{
	if (tty_is_raw)
		tcsetattr(0, TCSADRAIN, &saved_tty);
	tty_is_raw = false;
}

static void raw_tty(void)
{
	struct termios t;

	if (tcgetattr(0, &saved_tty))
		return;
	t = saved_tty;
	cfmakeraw(&t);
	tty_is_raw = !tcsetattr(0, TCSADRAIN, &t);
	atexit(restore_tty);
}

/* False when nobody reads our output any more. */
static bool emit(struct output *o, const char *prefix, const char *data, size_t len, bool end)
{
	const char *nl;
	size_t n;
	bool ok = true;

	if (!prefix)
		return write_all(o->fd, data, len);
	/* Whole lines in single writes: two nodes print to the same place. */
	while (ok && len) {
		nl = memchr(data, '\n', len);
		n = nl ? (size_t)(nl - data) + 1 : len;
		if (!o->line.len)
			buf_add(&o->line, prefix, strlen(prefix));
		buf_add(&o->line, data, n);
		if (nl || o->line.len > CHUNK) {
			if (!nl)
				buf_add(&o->line, "\n", 1);
			ok = write_all(o->fd, o->line.data, o->line.len);
			o->line.len = 0;
		}
		data += n;
		len -= n;
	}
	if (end && o->line.len) {
		buf_add(&o->line, "\n", 1);
		ok = write_all(o->fd, o->line.data, o->line.len);
		o->line.len = 0;
	}
	return ok;
}

static void add_winsize(struct buf *b)
{
	struct winsize ws = { .ws_row = 24, .ws_col = 80 };
	char v[8];

	ioctl(0, TIOCGWINSZ, &ws);
	put_u32(v, ws.ws_row);
	put_u32(v + 4, ws.ws_col);
	buf_add(b, v, 8);
}

static bool env_is_of_node(const char *e)
{
	/* The other node has its own; LAB_OUT and the like are the same everywhere. */
	return !strncmp(e, "LAB_NODE=", 9) || !strncmp(e, "HOSTNAME=", 9) || !strncmp(e, "_=", 2) ||
	       !strncmp(e, "SHLVL=", 6);
}

static void add_request(struct buf *out, const struct options *opt, char **argv)
{
	struct buf req = { 0 };
	char v[4], cwd[PATH_MAX];
	uint32_t argc = 0;
	char **e;

	while (argv[argc])
		argc++;
	put_u32(v, opt->tty ? REQUEST_TTY : 0);
	buf_add(&req, v, 4);
	add_winsize(&req);
	put_u32(v, argc);
	buf_add(&req, v, 4);
	if (!getcwd(cwd, sizeof(cwd)))
		strcpy(cwd, "/");
	buf_add(&req, opt->cwd ? opt->cwd : cwd, strlen(opt->cwd ? opt->cwd : cwd) + 1);
	for (; *argv; argv++)
		buf_add(&req, *argv, strlen(*argv) + 1);
	for (e = environ; !opt->clean_env && *e; e++)
		if (!env_is_of_node(*e))
			buf_add(&req, *e, strlen(*e) + 1);
	buf_add(&req, opt->env.data, opt->env.len);
	if (req.len > FRAME_MAX)
		die("arguments and environment are too long");
	frame_add(out, 'R', req.data, req.len);
	free(req.data);
}

static int client(int conn, const struct options *opt, char **argv)
{
	struct output out = { .fd = 1 }, err = { .fd = 2 };
	struct buf to_agent = { 0 }, in = { 0 };
	bool input = !opt->no_input, done = false;
	size_t unacked = 0;
	char chunk[CHUNK], type, *data;
	int sigfd, status = EXIT_LOST;
	uint32_t len;
	sigset_t set;
	ssize_t n;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigfd = signalfd(-1, &set, SFD_CLOEXEC);

	add_request(&to_agent, opt, argv);
	if (!input)
		frame_add(&to_agent, 'I', "", 0);
	if (opt->tty)
		raw_tty();
	set_nonblock(conn);
	while (!done) {
		struct pollfd p[3];

		p[0] = (struct pollfd){ conn, POLLIN, 0 };
		if (to_agent.len)
			p[0].events |= POLLOUT;
		p[1] = (struct pollfd){ sigfd, POLLIN, 0 };
		p[2] = (struct pollfd){ input && unacked < INPUT_WINDOW ? 0 : -1, POLLIN, 0 };
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		if (p[1].revents) {
			struct signalfd_siginfo si;

			if (read(sigfd, &si, sizeof(si)) == sizeof(si)) {
				if (si.ssi_signo == SIGWINCH) {
					struct buf ws = { 0 };

					add_winsize(&ws);
					frame_add(&to_agent, 'W', ws.data, ws.len);
					free(ws.data);
				} else {
					char sig = si.ssi_signo;

					frame_add(&to_agent, 'S', &sig, 1);
				}
			}
		}
		if (p[2].revents) {
			n = read(0, chunk, sizeof(chunk));
			if (n > 0) {
				frame_add(&to_agent, 'I', chunk, n);
				unacked += n;
			} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
				frame_add(&to_agent, 'I', "", 0);
				input = false;
			}
		}
		if (to_agent.len) {
			n = write(conn, to_agent.data, to_agent.len);
			if (n > 0)
				buf_drop(&to_agent, n);
			else if (n < 0 && errno != EAGAIN && errno != EINTR)
				to_agent.len = 0; /* reading will tell */
		}
		if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) {
			n = read(conn, chunk, sizeof(chunk));
			if (n > 0)
				buf_add(&in, chunk, n);
			else if (n == 0 || (errno != EAGAIN && errno != EINTR))
				done = true;
		}
		while (frame_ready(&in, &type, &data, &len)) {
			bool ok = true;

			switch (type) {
			case 'O':
				ok = emit(&out, opt->prefix, data, len, false);
				break;
			case 'E':
				ok = emit(&err, opt->prefix, data, len, false);
				break;
			case 'K':
				unacked -= get_u32(data);
				break;
			case 'X':
				status = (unsigned char)data[0];
				done = true;
				if (opt->status) {
					FILE *f = fopen(opt->status, "w");

					if (f) {
						fprintf(f, "%d\n", status);
						fclose(f);
					}
				}
				break;
			}
			/* As a local command would: end, and by that end the remote one. */
			if (!ok)
				exit(128 + SIGPIPE);
			buf_drop(&in, HEADER + len);
			if (type == 'X')
				goto ended;
		}
	}
ended:
	emit(&out, opt->prefix, "", 0, true);
	emit(&err, opt->prefix, "", 0, true);
	restore_tty();
	free(out.line.data);
	free(err.line.data);
	free(to_agent.data);
	free(in.data);
	if (status == EXIT_LOST && !opt->status)
		fprintf(stderr, "%s: the connection was lost\n", progname);
	return status;
}

int cmd_call(int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct options opt = { .clean_env = true };
	int c, conn, tries;

	while ((c = getopt(argc, argv, "+np:s:d:e:t")) != -1) {
		switch (c) {
		case 'n':
			opt.no_input = true;
			break;
		case 'p':
			opt.prefix = optarg;
			break;
		case 's':
			opt.status = optarg;
			break;
		case 'd':
			opt.cwd = optarg;
			break;
		case 'e':
			buf_add(&opt.env, optarg, strlen(optarg) + 1);
			break;
		case 't':
			opt.tty = true;
			break;
		default:
			exit(2);
		}
	}
	if (argc - optind < 2)
		die("call: a socket and a command are needed");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", argv[optind]);
	/* The emulator is just starting: its socket appears soon or not at all. */
	for (tries = 0;; tries++) {
		conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(conn, (struct sockaddr *)&addr, sizeof(addr)))
			break;
		close(conn);
		if (tries > 500)
			die("%s: %s", argv[optind], strerror(errno));
		usleep(20000);
	}
	return client(conn, &opt, argv + optind + 1);
}

static void usage_on(FILE *f)
{
	fputs("usage: on [-n] [-t] NODE COMMAND [ARGUMENT...]\n"
	      "Run COMMAND on node A or B, in this directory and with this environment.\n"
	      "  -n  leave standard input alone   -t  give it a terminal\n"
	      "Standard input, output and error are passed, signals too; the exit status\n"
	      "is the command's. When this client is killed the command gets SIGTERM.\n",
	      f);
}

int cmd_on(int argc, char **argv)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(AGENT_TCP_PORT),
	};
	struct options opt = { 0 };
	const char *self = getenv("LAB_NODE"), *node;
	char ip[] = "10.78.0.1";
	int c, conn, one = 1;
	char cmdline[4096] = "";

	progname = "on";
	while ((c = getopt(argc, argv, "+nth")) != -1) {
		switch (c) {
		case 'n':
			opt.no_input = true;
			break;
		case 't':
			opt.tty = true;
			break;
		case 'h':
			usage_on(stdout);
			exit(0);
		default:
			usage_on(stderr);
			exit(2);
		}
	}
	if (argc - optind < 2) {
		usage_on(stderr);
		exit(2);
	}
	node = argv[optind];
	if (!strncmp(node, "node", 4))
		node += 4;
	if (!self) { /* an emptied environment: the kernel's command line knows */
		int fd = open("/proc/cmdline", O_RDONLY);

		if (fd >= 0 && read(fd, cmdline, sizeof(cmdline) - 1) > 0) {
			self = strstr(cmdline, "lab.node=");
			self = self ? self + 9 : NULL;
		}
		if (fd >= 0)
			close(fd);
	}
	if (self && self[0] == node[0] && !node[1])
		memcpy(ip, "127.0.0.1", sizeof(ip));
	else if (node[0] >= 'A' && node[0] <= 'D' && !node[1])
		ip[sizeof(ip) - 2] = (char)('1' + node[0] - 'A');
	else
		die("%s: no such node (A to D)", argv[optind]);
	inet_pton(AF_INET, ip, &addr.sin_addr);
	conn = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(conn, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(conn, (struct sockaddr *)&addr, sizeof(addr)))
		die("node %s cannot be reached: %s", node, strerror(errno));
	return client(conn, &opt, argv + optind + 1);
}
