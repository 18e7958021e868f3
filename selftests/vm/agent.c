// SPDX-License-Identifier: GPL-2.0
/*
 * The lab's agent: runs commands in a guest for a client elsewhere.
 *
 *   agent serve [PORT-DEVICE]         in a guest, as process 1
 *   agent call [options] SOCKET CMD   on the host, through a virtio-serial port
 *   on NODE CMD ARGS...               in a guest, over the management wire
 *   agent tsc                         the frequency of the host's counter
 *
 * One program because guests are emulated and slow: a command on the other
 * node costs one static binary, no shell and no crypto. It trusts its wire,
 * which only ever connects the guests of one run.
 *
 * A frame is a type, a length (little endian, 4 bytes) and a payload:
 *
 *   client to agent                     agent to client
 *   R request: see struct request       O standard output
 *   I standard input, empty at its end  E standard error
 *   S a signal number                   K number of input bytes written
 *   W rows and columns of a terminal    X exit status, the last frame
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define AGENT_TCP_PORT 7778
#define HEADER         5
#define CHUNK          16384
#define FRAME_MAX      (1 << 20)
/* Input sent but not yet written to the command: keeps signals from queueing behind it. */
#define INPUT_WINDOW (4 * CHUNK)
/* A command whose client is gone gets SIGTERM, and after this many milliseconds SIGKILL. */
#define KILL_AFTER_MS 5000

#define EXIT_LOST 255

static const char *progname = "agent";

struct buf {
	char *data;
	size_t len, cap;
};

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", progname);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_LOST);
}

static void buf_add(struct buf *b, const void *data, size_t len)
{
	if (b->len + len > b->cap) {
		b->cap = (b->len + len) * 2 + 256;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			die("out of memory");
	}
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void buf_drop(struct buf *b, size_t len)
{
	b->len -= len;
	memmove(b->data, b->data + len, b->len);
}

static void put_u32(char *p, uint32_t v)
{
	p[0] = v;
	p[1] = v >> 8;
	p[2] = v >> 16;
	p[3] = v >> 24;
}

static uint32_t get_u32(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void frame_add(struct buf *out, char type, const void *data, uint32_t len)
{
	char header[HEADER] = { type };

	put_u32(header + 1, len);
	buf_add(out, header, HEADER);
	buf_add(out, data, len);
}

/* Is there a whole frame at the start of @in? */
static bool frame_ready(const struct buf *in, char *type, char **data, uint32_t *len)
{
	if (in->len < HEADER)
		return false;
	*type = in->data[0];
	*len = get_u32(in->data + 1);
	*data = in->data + HEADER;
	if (*len > FRAME_MAX)
		die("a frame of %u bytes: the stream is out of step", *len);
	return in->len >= HEADER + *len;
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			poll(&p, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= n;
	}
	return true;
}

static void set_nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * A request: flags (1 = terminal), rows, columns, number of arguments, each
 * 4 bytes; then as strings the directory, the arguments and the environment.
 */
#define REQUEST_TTY   1
#define REQUEST_FIXED 16

/* ---------------------------------------------------------------- agent */

struct session {
	int conn;
	pid_t pid;
	int in, out, err; /* of the command; -1 when closed */
	bool tty;
	struct buf to_conn, to_cmd;
	bool in_ended;
	bool lost; /* the client went away */
	long kill_at;
};

static __attribute__((noreturn)) void exec_request(char *data, uint32_t len)
{
	uint32_t argc = get_u32(data + 12), i;
	char *p = data + REQUEST_FIXED, *end = data + len;
	char *cwd = p;
	char **argv = calloc(argc + 1, sizeof(*argv));

	p += strlen(p) + 1;
	for (i = 0; argv && i < argc && p < end; i++, p += strlen(p) + 1)
		argv[i] = p;
	for (; p < end; p += strlen(p) + 1)
		putenv(p);
	if (!argv || !argv[0])
		_exit(126);
	if (chdir(cwd) && chdir("/"))
		_exit(126);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void child_defaults(void)
{
	sigset_t none;
	int sig;

	for (sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool session_start(struct session *s, char *data, uint32_t len)
{
	int in[2], out[2], err[2], i;
	struct winsize ws = { 0 };

	if (len < REQUEST_FIXED + 2 || data[len - 1])
		return false;
	s->tty = get_u32(data) & REQUEST_TTY;
	ws.ws_row = get_u32(data + 4);
	ws.ws_col = get_u32(data + 8);
	if (s->tty) {
		int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

		if (master < 0 || grantpt(master) || unlockpt(master))
			return false;
		ioctl(master, TIOCSWINSZ, &ws);
		s->pid = fork();
		if (!s->pid) {
			int slave;

			setsid();
			slave = open(ptsname(master), O_RDWR);
			for (i = 0; i < 3; i++)
				dup2(slave, i);
			ioctl(0, TIOCSCTTY, 0);
			if (slave > 2)
				close(slave);
			child_defaults();
			exec_request(data, len);
		}
		s->out = master;
		s->in = dup(master);
		s->err = -1;
	} else {
		if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
			return false;
		s->pid = fork();
		if (!s->pid) {
			setsid();
			dup2(in[0], 0);
			dup2(out[1], 1);
			dup2(err[1], 2);
			child_defaults();
			exec_request(data, len);
		}
		close(in[0]);
		close(out[1]);
		close(err[1]);
		s->in = in[1];
		s->out = out[0];
		s->err = err[0];
		set_nonblock(s->err);
	}
	set_nonblock(s->in);
	set_nonblock(s->out);
	return s->pid > 0;
}

static void session_frame(struct session *s, char type, char *data, uint32_t len)
{
	switch (type) {
	case 'I':
		if (len)
			buf_add(&s->to_cmd, data, len);
		else
			s->in_ended = true;
		break;
	case 'S':
		if (len == 1)
			kill(-s->pid, data[0]);
		break;
	case 'W':
		if (len == 8 && s->tty) {
			struct winsize ws = { .ws_row = get_u32(data),
					      .ws_col = get_u32(data + 4) };

			ioctl(s->out, TIOCSWINSZ, &ws);
		}
		break;
	}
}

/* Returns false when there is nothing to read now; closes at the end of file. */
static bool session_output(struct session *s, int *fd, char type)
{
	char data[CHUNK];
	ssize_t n;

	if (*fd < 0)
		return false;
	n = read(*fd, data, sizeof(data));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
		return false;
	}
	if (!s->lost)
		frame_add(&s->to_conn, type, data, n);
	return true;
}

static void session_input(struct session *s)
{
	ssize_t n;
	char ack[4];

	while (s->to_cmd.len && s->in >= 0) {
		n = write(s->in, s->to_cmd.data, s->to_cmd.len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* it does not want any more */
			close(s->in);
			s->in = -1;
			break;
		}
		buf_drop(&s->to_cmd, n);
		put_u32(ack, n);
		frame_add(&s->to_conn, 'K', ack, 4);
	}
	if (s->in < 0 && s->to_cmd.len) {
		put_u32(ack, s->to_cmd.len);
		frame_add(&s->to_conn, 'K', ack, 4);
		s->to_cmd.len = 0;
	}
	if (s->in_ended && s->in >= 0 && !s->to_cmd.len) {
		if (s->tty && write(s->in, "\004", 1) < 0)
			return;
		close(s->in);
		s->in = -1;
	}
}

static void session_lose(struct session *s)
{
	s->lost = true;
	s->to_conn.len = 0;
	s->in_ended = true;
	s->to_cmd.len = 0;
	kill(-s->pid, SIGTERM);
	kill(-s->pid, SIGCONT);
	s->kill_at = now_ms() + KILL_AFTER_MS;
}

static void session_flush(struct session *s)
{
	while (s->to_conn.len && !s->lost) {
		ssize_t n = write(s->conn, s->to_conn.data, s->to_conn.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			session_lose(s);
			return;
		}
		buf_drop(&s->to_conn, n);
	}
}

/* Serve one request, whose frame is at the start of @in. False if the client is lost. */
static bool serve_request(int conn, struct buf *in, int sigfd)
{
	struct session s = { .conn = conn, .in = -1, .out = -1, .err = -1 };
	struct signalfd_siginfo si;
	char *data, type, code, chunk[CHUNK];
	bool exited = false;
	uint32_t len;
	int status = 0;
	ssize_t n;

	frame_ready(in, &type, &data, &len);
	if (!session_start(&s, data, len)) {
		static const char msg[] = "agent: cannot start the command\n";

		frame_add(&s.to_conn, 'E', msg, sizeof(msg) - 1);
		frame_add(&s.to_conn, 'X', "\176", 1);
		write_all(conn, s.to_conn.data, s.to_conn.len);
		buf_drop(in, HEADER + len);
		free(s.to_conn.data);
		return true;
	}
	buf_drop(in, HEADER + len);

	while (!exited) {
		struct pollfd p[5];
		int timeout = -1;

		while (frame_ready(in, &type, &data, &len)) {
			session_frame(&s, type, data, len);
			buf_drop(in, HEADER + len);
		}
		session_input(&s);
		session_flush(&s);

		p[0] = (struct pollfd){ sigfd, POLLIN, 0 };
		p[1] = (struct pollfd){ s.lost ? -1 : conn, POLLIN, 0 };
		if (s.to_conn.len)
			p[1].events |= POLLOUT;
		/* Output waits while the client is behind: at most one chunk of each is held. */
		p[2] = (struct pollfd){ s.to_conn.len ? -1 : s.out, POLLIN, 0 };
		p[3] = (struct pollfd){ s.to_conn.len ? -1 : s.err, POLLIN, 0 };
		p[4] = (struct pollfd){ s.to_cmd.len ? s.in : -1, POLLOUT, 0 };
		if (s.kill_at) {
			timeout = s.kill_at - now_ms();
			if (timeout < 0)
				timeout = 0;
		}
		if (poll(p, 5, timeout) < 0 && errno != EINTR)
			break;
		if (s.kill_at && now_ms() >= s.kill_at) {
			kill(-s.pid, SIGKILL);
			s.kill_at = now_ms() + KILL_AFTER_MS;
		}
		if (p[1].revents & POLLIN) {
			n = read(conn, chunk, sizeof(chunk));
			if (n > 0)
				buf_add(in, chunk, n);
			else if (n == 0 || (errno != EAGAIN && errno != EINTR))
				session_lose(&s);
		} else if (p[1].revents & (POLLHUP | POLLERR)) {
			session_lose(&s);
		}
		if (p[2].revents)
			session_output(&s, &s.out, 'O');
		if (p[3].revents)
			session_output(&s, &s.err, 'E');
		if (p[0].revents && read(sigfd, &si, sizeof(si)) > 0)
			exited = waitpid(s.pid, &status, WNOHANG) == s.pid;
	}
	/*
	 * The command has ended: its last output is in the pipes. Whatever it
	 * left running in the background may keep them open and full: not
	 * waited for.
	 */
	if (!s.lost) {
		int left;

		for (left = 64; left && session_output(&s, &s.out, 'O'); left--)
			;
		for (left = 64; left && session_output(&s, &s.err, 'E'); left--)
			;
		code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		frame_add(&s.to_conn, 'X', &code, 1);
		if (!write_all(conn, s.to_conn.data, s.to_conn.len))
			s.lost = true;
	}
	if (s.in >= 0)
		close(s.in);
	if (s.out >= 0)
		close(s.out);
	if (s.err >= 0)
		close(s.err);
	free(s.to_conn.data);
	free(s.to_cmd.data);
	return !s.lost;
}

/* Serve requests until the stream ends. */
static void serve_stream(int conn)
{
	struct buf in = { 0 };
	char chunk[CHUNK], type, *data;
	sigset_t set;
	uint32_t len;
	ssize_t n;
	int sigfd;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigfd = signalfd(-1, &set, SFD_CLOEXEC);
	set_nonblock(conn);

	for (;;) {
		struct pollfd p = { conn, POLLIN, 0 };

		/* What is left of an ended request (its input) is skipped. */
		while (frame_ready(&in, &type, &data, &len) && type != 'R')
			buf_drop(&in, HEADER + len);
		if (frame_ready(&in, &type, &data, &len)) {
			if (!serve_request(conn, &in, sigfd))
				break;
			continue;
		}
		poll(&p, 1, -1);
		n = read(conn, chunk, sizeof(chunk));
		if (n > 0)
			buf_add(&in, chunk, n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	free(in.data);
	close(sigfd);
}

/* A virtio-serial port reads as ended while the host is not connected to it. */
static __attribute__((noreturn)) void serve_port(const char *path)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd < 0)
			die("%s: %s", path, strerror(errno));
		serve_stream(fd);
		close(fd);
		usleep(20000);
	}
}

static int cmd_serve(int argc, char **argv)
{
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(AGENT_TCP_PORT),
	};
	struct sockaddr_in addr4 = {
		.sin_family = AF_INET,
		.sin_port = htons(AGENT_TCP_PORT),
	};
	int one = 1, fd;

	/* As process 1 it inherits orphans: reap them all without asking. */
	signal(SIGCHLD, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
			die("bind: %s", strerror(errno));
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&addr4, sizeof(addr4)) < 0)
			die("bind: %s", strerror(errno));
	}
	if (listen(fd, 64))
		die("listen: %s", strerror(errno));
	if (argc > 0 && !fork())
		serve_port(argv[0]);
	for (;;) {
		int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (conn < 0)
			continue;
		if (!fork()) {
			close(fd);
			setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			setsockopt(conn, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
			serve_stream(conn);
			_exit(0);
		}
		close(conn);
	}
}

/* --------------------------------------------------------------- client */

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

static int cmd_call(int argc, char **argv)
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

static int cmd_on(int argc, char **argv)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(AGENT_TCP_PORT),
	};
	struct options opt = { 0 };
	const char *self = getenv("LAB_NODE"), *node, *ip;
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
		ip = "127.0.0.1";
	else if (!strcmp(node, "A"))
		ip = "10.78.0.1";
	else if (!strcmp(node, "B"))
		ip = "10.78.0.2";
	else
		die("%s: no such node (A or B)", argv[optind]);
	inet_pton(AF_INET, ip, &addr.sin_addr);
	conn = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(conn, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(conn, (struct sockaddr *)&addr, sizeof(addr)))
		die("node %s cannot be reached: %s", node, strerror(errno));
	return client(conn, &opt, argv + optind + 1);
}

/* ------------------------------------------------------------------ clock */

#ifdef __x86_64__
static unsigned long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Both clocks at one moment: the try that was interrupted least. */
static void read_both(unsigned long long *ns, unsigned long long *tsc)
{
	unsigned long long best = ~0ULL, before, after, t;
	int i;

	for (i = 0; i < 100; i++) {
		before = now_ns();
		t = __builtin_ia32_rdtsc();
		after = now_ns();
		if (after - before < best) {
			best = after - before;
			*ns = before + best / 2;
			*tsc = t;
		}
	}
}

/* Prints the frequency of this host's time stamp counter in kHz. */
static int cmd_tsc(void)
{
	unsigned long long ns[2], tsc[2];

	read_both(&ns[0], &tsc[0]);
	usleep(200000);
	read_both(&ns[1], &tsc[1]);
	printf("%llu\n", (tsc[1] - tsc[0]) * 1000000 / (ns[1] - ns[0]));
	return 0;
}
#else
static int cmd_tsc(void)
{
	return 1;
}
#endif

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	name = name ? name + 1 : argv[0];
	if (!strcmp(name, "on"))
		return cmd_on(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return cmd_serve(argc - 2, argv + 2);
	if (argc > 1 && !strcmp(argv[1], "call"))
		return cmd_call(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "tsc"))
		return cmd_tsc();
	fputs("usage: agent serve [PORT] | agent call [options] SOCKET COMMAND... | agent tsc\n",
	      stderr);
	return 2;
}
