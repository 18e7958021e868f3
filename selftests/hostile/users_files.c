// SPDX-License-Identifier: GPL-2.0
/* Whose a file is that is passed on, inherited, or used with another user id. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

static int pair[2];

static void send_file(int fd, struct passed *p)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = p, .iov_len = sizeof(*p) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(pair[0], &msg, 0) != sizeof(*p))
		kst_bail("sendmsg: %s", strerror(errno));
}

static int receive_file(struct passed *p)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = p, .iov_len = sizeof(*p) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};
	int fd = -1;

	if (recvmsg(pair[1], &msg, 0) == sizeof(*p) && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void pass_on(void)
{
	char *mem = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	struct passed p;
	int fd;

	memset(mem, 'a', KST_PAGE);
	kst_fill(mem + KST_PAGE, 0, KST_PAGE, 5);
	fd = make_file(O_CLOEXEC, &p, mem + KST_PAGE);
	p.at = (uintptr_t)mem;
	send_file(fd, &p);
	close(fd);
	tell(-1, 0, kst_vmpin());
	await();
	tell(-1, 0, kst_all(mem, KST_PAGE, 'a'));
	tell(-1, 0, kst_vmpin());
	await();
}

static void receive(void)
{
	struct passed p;
	int fd = receive_file(&p), rc;
	__u32 id, mine;
	__u64 serial;
	char *mem;

	tell(-1, fd < 0 ? -EBADF : 0, 0);
	/* The address that the opener has other memory at. */
	mem = mmap((void *)(uintptr_t)p.at, KST_PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0);
	if (mem == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
	rc = move(fd, KRDMA_OP_READ, p.region, 0, mem, KST_PAGE);
	tell(fd, rc, has_base(mem, KST_PAGE));
	rc = kst_buffer(fd, mem, KST_PAGE, 0, &mine);
	tell(fd, rc, kst_vmpin());
	tell(fd, 0, (long)query(fd).pinned_bytes);
	mem = kst_map(LOCKED, RW, MAP_PRIVATE);
	tell(fd, kst_buffer(fd, mem, LOCKED, 0, &id), 0);
	kst_destroy(fd, mine);
	tell(fd, 0, first_session_user(fd));
	tell(fd, 0, kst_count(KRDMA_LIST_SESSIONS, NULL, NULL));
	serial = connect_serial(fd, &id);
	tell(fd, 0, serial == p.serial);
	tell(fd, listen_here(fd), 0);
	await();
	/* The opener has ended. */
	rc = by_buffer(fd, KRDMA_OP_WRITE, p.region, p.buffer);
	if (!rc)
		rc = move(fd, KRDMA_OP_READ, p.region, 0, mem, KST_PAGE);
	tell(fd, rc, kst_check(mem, 0, KST_PAGE, 5) < 0);
	/* As it was, for the tests to come. */
	kst_fill(mem, 0, KST_PAGE, KST_BASE);
	rc = move(fd, KRDMA_OP_WRITE, p.region, 0, mem, KST_PAGE);
	if (!rc)
		rc = by_buffer(fd, KRDMA_OP_READ, p.region, p.buffer);
	tell(fd, rc, 0);
	await();
}

void test_passing(void)
{
	struct kst_state before = alone(), with;
	struct job ann, bob;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		kst_bail("socketpair: %s", strerror(errno));
	ann = start(ANN, 2 * LOCKED, pass_on);
	bob = start(BOB, LOCKED, receive);
	close(pair[0]);
	close(pair[1]);
	hear_good(&ann, 4, "a user registers a page in a file that it passes on and closes");
	hear_good(&bob, -1, "another user gets it over a socket");
	hear_good(&bob, 1, "an address is of the caller's memory: the bytes come there");
	hear_good(&bob, 4, "what it registers is of its own VmPin");
	hear_good(&bob, 2 * KST_PAGE, "and counts in the file with the opener's");
	hear_bad(&bob, -ENOMEM, "RLIMIT_MEMLOCK is 256 KiB", "its own RLIMIT_MEMLOCK applies");
	hear_good(&bob, ANN, "the file shows the sessions of its opener");
	hear_good(&bob, 0, "its own file shows it none");
	hear_good(&bob, 1, "CONNECT on it shares the opener's session");
	hear_bad(&bob, -EPERM, "CAP_NET_ADMIN", "capabilities are the caller's");
	kst_ok(peer_number("sessions", ANN) == 1 && !peer_number("sessions", BOB),
	       "for the peer it is the opener");
	go_on(&ann);
	hear_good(&ann, 1, "the opener's memory at the same address is as it was");
	hear_good(&ann, 4, "and its VmPin");
	finish(&ann, "the opener ends");
	with = kst_now();
	kst_ok(with.pins == before.pins + 1, "the page that it had registered stays pinned");
	go_on(&bob);
	hear_good(&bob, 1, "and is the source of a WRITE, by its id");
	hear_good(&bob, -1, "and the sink of a READ");
	finish(&bob, "the last holder ends");
	kst_ok(kst_same(&before), "then the page is not pinned any more, and nothing is left");
}

/* ---- fork, exec, setuid ---- */

static void with_child(void)
{
	char *mem = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	char *page = mem + KST_PAGE;
	struct passed p;
	int fd, status;
	pid_t pid;

	memset(mem, 'a', 2 * KST_PAGE);
	fd = make_file(O_CLOEXEC, &p, page);
	pid = fork();
	if (!pid) {
		__u32 id;

		if (move(fd, KRDMA_OP_READ, p.region, 0, mem, KST_PAGE) || !has_base(mem, KST_PAGE))
			_exit(1);
		if (by_buffer(fd, KRDMA_OP_READ, p.region, p.buffer))
			_exit(2);
		/* That is the parent's page, of which this one has a copy. */
		if (!kst_all(page, KST_PAGE, 'a'))
			_exit(3);
		if (kst_vmpin() || kst_buffer(fd, mem, KST_PAGE, 0, &id) || kst_vmpin() != 4)
			_exit(4);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	tell(fd, 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	tell(fd, 0, kst_all(mem, KST_PAGE, 'a'));
	tell(fd, 0, has_base(page, KST_PAGE));
	tell(fd, 0, kst_vmpin());
	tell(fd, 0, (long)query(fd).pinned_bytes);
}

void test_fork(void)
{
	struct kst_state before = kst_now();
	struct job ann = start(ANN, LOCKED, with_child);

	hear_good(&ann, 0, "a child uses the file: its memory, and its parent's buffer by its id");
	hear_good(&ann, 1, "its addresses are not the parent's memory");
	hear_good(&ann, 1, "the buffer is: the bytes are there");
	hear_good(&ann, 4, "the parent's VmPin is its own page");
	hear_good(&ann, 2 * KST_PAGE, "what the child registered stays when it has gone");
	finish(&ann, "the parent ends");
	kst_ok(kst_same(&before), "then nothing is left");
}

/* The program that is begun: exit status tells the step that went wrong. */
int after_exec(char **argv)
{
	char *mem = kst_map(KST_PAGE, RW, MAP_PRIVATE);
	int fd = atoi(argv[2]), closed = atoi(argv[3]);
	__u32 region = atoi(argv[4]), buffer = atoi(argv[5]), id;

	if (fcntl(closed, F_GETFD) >= 0 || errno != EBADF)
		return 1;
	if (kst_vmpin() || query(fd).pinned_bytes != KST_PAGE)
		return 2;
	if (move(fd, KRDMA_OP_READ, region, 0, mem, KST_PAGE) || !has_base(mem, KST_PAGE))
		return 3;
	if (by_buffer(fd, KRDMA_OP_READ, region, buffer))
		return 4;
	if (kst_buffer(fd, mem, KST_PAGE, 0, &id) || kst_vmpin() != 4)
		return 5;
	if (kst_destroy(fd, buffer) || kst_vmpin() != 4 || query(fd).pinned_bytes != KST_PAGE)
		return 6;
	return 0;
}

static void with_exec(void)
{
	char *page = kst_map(KST_PAGE, RW, MAP_PRIVATE), text[4][16];
	struct passed p, other;
	int fd, closed, status;
	pid_t pid = fork();

	if (!pid) {
		char *args[] = { "users", "exec", text[0], text[1], text[2], text[3], NULL };

		fd = make_file(0, &p, page);
		closed = make_file(O_CLOEXEC, &other, page);
		snprintf(text[0], sizeof(text[0]), "%d", fd);
		snprintf(text[1], sizeof(text[1]), "%d", closed);
		snprintf(text[2], sizeof(text[2]), "%u", p.region);
		snprintf(text[3], sizeof(text[3]), "%u", p.buffer);
		fexecve(self, args, environ);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	tell(-1, 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

void test_exec(void)
{
	struct kst_state before = kst_now();
	struct job ann = start(ANN, LOCKED, with_exec);

	hear_good(&ann, 0, "after exec a file is as it was, except the memory; O_CLOEXEC ends it");
	finish(&ann, "the process ends");
	kst_ok(kst_same(&before), "then nothing is left");
}

static int given = -1;

/* A file that root has opened. */
static void use_given(void)
{
	char *mem = kst_map(LOCKED + KST_PAGE, RW, MAP_PRIVATE);
	__u32 id;
	int rc;

	rc = connect_serial(given, &id) ? 0 : -EIO;
	tell(given, rc, first_session_user(given));
	tell(given, kst_buffer(given, mem, LOCKED + KST_PAGE, 0, &id), 0);
	tell(given, listen_here(given), 0);
	await();
}

/* Opened as one user, used as another. */
static void change_user(void)
{
	gid_t group = GROUP;
	__u32 id;
	int fd, rc;

	if (setgroups(1, &group) || seteuid(ANN))
		kst_bail("seteuid: %s", strerror(errno));
	fd = kst_open();
	if (seteuid(0) || !become(BOB, LOCKED))
		kst_bail("setuid: %s", strerror(errno));
	rc = connect_serial(fd, &id) ? 0 : -EIO;
	tell(fd, rc, first_session_user(fd));
	await();
}

void test_setuid(void)
{
	struct kst_state before = alone();
	struct job job;

	given = kst_open();
	job = start(ANN, LOCKED, use_given);
	hear_good(&job, 0, "a user with root's file acts as root: its sessions are root's");
	hear_bad(&job, -ENOMEM, "RLIMIT_MEMLOCK", "it may not pin as root may");
	hear_bad(&job, -EPERM, "CAP_NET_ADMIN", "nor listen");
	kst_ok(!peer_number("sessions", ANN), "for the peer it is root");
	finish(&job, "it ends");
	close(given);
	job = start(0, 0, change_user);
	hear_good(&job, ANN, "opened with one effective user id, it is that user's for good");
	kst_ok(peer_number("sessions", ANN) == 1 && !peer_number("sessions", BOB),
	       "for the peer, too");
	finish(&job, "it ends");
	kst_ok(kst_same(&before), "nothing is left of them");
}
