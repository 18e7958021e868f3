// SPDX-License-Identifier: GPL-2.0
/* Runs commands for clients, in a guest, each command in a session of its own. */
#include <errno.h>
#include <fcntl.h>
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
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "frames.h"

/* A command whose client is gone gets SIGTERM, and after this many milliseconds SIGKILL. */
#define KILL_AFTER_MS 5000

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
		/* A port may have the request of the next client before it is connected: it stays there. */
		if (p.revents & POLLHUP)
			break;
		n = read(conn, chunk, sizeof(chunk));
		if (n > 0)
			buf_add(&in, chunk, n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	free(in.data);
	close(sigfd);
}

/*
 * A virtio-serial port reads as ended while the host is not connected to it. It stays
 * open nevertheless: closing it discards what the host has sent in the moment before.
 */
static __attribute__((noreturn)) void serve_port(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	for (;;) {
		serve_stream(fd);
		usleep(20000);
	}
}

int cmd_serve(int argc, char **argv)
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
