// SPDX-License-Identifier: GPL-2.0
/*
 * Two users of one host, who have the group of the device node and no capabilities. Neither user
 * can use or see the objects of the other, or exhaust the resources of the other. The test also
 * checks whose file is a file that is passed on, inherited, or used with another user id
 * (Documentation/uapi.rst, "Users of one host").
 *
 * Each part is a process with a user's id, which reports the result of each step. This process,
 * which is root, checks the results. users.sh runs this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BOTH  (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
#define ANN   2001
#define BOB   2002
#define GROUP 3000

/* Limits that Documentation/uapi.rst states. */
#define HOST_SESSIONS 256
#define HOST_SENDERS  32
#define USER_EXPORTS  4096
#define OPS_MAX       4096
/* Of the export "few". */
#define FEW          64
#define FEW_SEGMENTS 16
/* What a user may lock, unless a test says more. */
#define LOCKED (64 * KST_PAGE)
#define BYTES  (256UL * 1024)

static int self; /* this program, as a file */
static __u64 few_segment;

/* ---- processes of users ---- */

struct note {
	int rc;
	long value;
	char text[240]; /* the sentence, if it failed */
};

struct job {
	pid_t pid;
	int in, out;
};

static int job_in, job_out;
/* Of the jobs that run: one that inherits it would keep another from its end. */
static int ends[4] = { -1, -1, -1, -1 };

/* In the job: what came of a step. @fd: of the sentence, or -1. */
static void tell(int fd, int rc, long value)
{
	struct note note = { .rc = rc, .value = value };

	if (rc && fd >= 0)
		snprintf(note.text, sizeof(note.text), "%s", kst_last_error(fd, NULL));
	if (write(job_out, &note, sizeof(note)) != sizeof(note))
		_exit(1);
}

/* In the job: until this is wanted; at the test's end it is, too. */
static void await(void)
{
	char c;

	if (read(job_in, &c, 1) < 0)
		_exit(1);
}

static bool wanted(void)
{
	struct pollfd p = { .fd = job_in, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Operations that may last long count in RLIMIT_MEMLOCK, too: not here, beside what is registered. */
#define BESIDE (64UL << 20)

static void limit_locked(bool operations)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		if (!operations && limit.rlim_max != RLIM_INFINITY && limit.rlim_max > BESIDE)
			limit.rlim_cur -= BESIDE;
		if (!setrlimit(RLIMIT_MEMLOCK, &limit))
			return;
	}
	kst_bail("RLIMIT_MEMLOCK: %s", strerror(errno));
}

static bool become(uid_t uid, rlim_t locked)
{
	struct rlimit limit = { locked, locked == RLIM_INFINITY ? locked : locked + BESIDE };
	gid_t group = GROUP;

	return !setrlimit(RLIMIT_MEMLOCK, &limit) && !setgroups(1, &group) &&
	       !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

static struct job start(uid_t uid, rlim_t locked, void (*work)(void))
{
	int to[2], from[2];
	struct job job;
	size_t i;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		kst_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	job.pid = fork();
	if (!job.pid) {
		job_in = to[0];
		job_out = from[1];
		close(to[1]);
		close(from[0]);
		for (i = 0; i < KST_ARRAY_SIZE(ends); i++)
			close(ends[i]);
		/* A job that hangs ends with the test. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (uid && !become(uid, locked))
			kst_bail("can't be user %u: %s", uid, strerror(errno));
		work();
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	job.in = to[1];
	job.out = from[0];
	for (i = 0; i < KST_ARRAY_SIZE(ends) - 1 && ends[i] >= 0;)
		i++;
	ends[i] = job.in;
	return job;
}

static const struct note *hear(struct job *job)
{
	static struct note note;

	if (read(job->out, &note, sizeof(note)) != sizeof(note))
		note = (struct note){ .rc = -ESRCH, .text = "the process has ended" };
	return &note;
}

/* A step that has to succeed, and to come to something (-1: whatever it is). */
static void hear_good(struct job *job, long value, const char *what)
{
	const struct note *note = hear(job);

	if (!kst_ok(!note->rc && (value < 0 || note->value == value), "%s", what))
		kst_diag("%s, value %ld, expected %ld: %s", strerror(-note->rc), note->value, value,
			 note->text);
}

/* One that has to fail, with @word in its sentence. Its value. */
static long hear_bad(struct job *job, int rc, const char *word, const char *what)
{
	const struct note *note = hear(job);

	if (!kst_ok(note->rc == rc && strstr(note->text, word), "%s", what))
		kst_diag("%s instead of %s, value %ld: %s", strerror(-note->rc), strerror(-rc),
			 note->value, note->text);
	return note->value;
}

static void go_on(struct job *job)
{
	if (write(job->in, "", 1) != 1)
		kst_diag("a process has ended too early");
}

static void finish(struct job *job, const char *what)
{
	int status;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(ends); i++)
		if (ends[i] == job->in)
			ends[i] = -1;
	close(job->in);
	waitpid(job->pid, &status, 0);
	close(job->out);
	kst_ok(WIFEXITED(status) && !WEXITSTATUS(status), "%s", what);
}

static long peer_number(const char *verb, uid_t uid)
{
	const char *reply = kst_peer("%s %u", verb, uid);

	return reply ? atol(reply) : -1;
}

static bool no_sessions(void *arg)
{
	static const uid_t users[] = { 0, ANN, BOB };
	size_t i;

	(void)arg;
	for (i = 0; i < KST_ARRAY_SIZE(users); i++)
		if (peer_number("sessions", users[i]))
			return false;
	return !kst_count(KRDMA_LIST_SESSIONS, NULL, NULL);
}

/* Where sessions are counted none may linger. Return: what the tests begin with. */
static struct kst_state alone(void)
{
	if (!kst_peer("relisten") || !kst_wait(no_sessions, NULL))
		kst_bail("sessions do not end");
	return kst_now();
}

/* ---- what a user does ---- */

/* In time, or it fails: what is promised to a user while another takes what it can. */
static int move(int fd, int opcode, __u32 region, __u64 offset, void *mem, __u64 length)
{
	struct krdma_op op = kst_op(opcode, region, offset, mem, length);
	struct krdma_completion comp = { .status = -ENODATA };
	int rc;

	op.timeout_ns = 30000000000ULL * kst_number("TIME_FACTOR", 1);
	limit_locked(true);
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	limit_locked(false);
	return rc ? rc : comp.status;
}

static int by_buffer(int fd, int opcode, __u32 region, __u32 buffer)
{
	struct krdma_op op = kst_op(opcode, region, 0, NULL, KST_PAGE);
	struct krdma_completion comp = { .status = -ENODATA };
	int rc;

	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = buffer;
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	return rc ? rc : comp.status;
}

static bool has_base(const void *mem, size_t length)
{
	return kst_check(mem, 0, length, KST_BASE) < 0;
}

static int export_fd(int fd, int file, const char *name)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = KRDMA_RIGHT_READ,
		.fd = file,
		.length = KST_PAGE,
	};

	snprintf(cmd.name, sizeof(cmd.name), "%s", name);
	return kst_call(fd, KRDMA_IOC_EXPORT, &cmd);
}

static int page_file(void)
{
	int file = memfd_create("users", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, KST_PAGE) || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		kst_bail("memfd: %s", strerror(errno));
	return file;
}

static int listen_here(int fd)
{
	struct krdma_ioc_listen cmd = { .size = sizeof(cmd), .addr = kst_ipv4("0.0.0.0", 7499) };

	return kst_call(fd, KRDMA_IOC_LISTEN, &cmd);
}

static struct krdma_ioc_query query(int fd)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };

	kst_call(fd, KRDMA_IOC_QUERY, &q);
	return q;
}

/* The user of the first session that this file shows, or a negative errno. */
static long first_session_user(int fd)
{
	struct krdma_session_info info = { 0 };
	struct krdma_ioc_list cmd = {
		.size = sizeof(cmd),
		.kind = KRDMA_LIST_SESSIONS,
		.entries = (uintptr_t)&info,
		.stride = sizeof(info),
		.count = 1,
	};
	int rc = kst_call(fd, KRDMA_IOC_LIST, &cmd);

	return rc ? rc : cmd.count ? (long)info.uid : -ENOENT;
}

/* ---- ids and lists ---- */

static void own_things(void)
{
	static __u64 mem[KST_PAGE / 8] __attribute__((aligned(4096)));
	int fd = kst_open(), rc;
	__u32 session = 0, region = 0, id = 0;

	rc = kst_connect(fd, 0, &session);
	if (!rc)
		rc = kst_open_region(fd, session, "users", 0, &region, NULL);
	if (!rc)
		rc = kst_buffer(fd, mem, KST_PAGE, KRDMA_BUFFER_WRITABLE, &id);
	if (!rc)
		rc = kst_export(fd, "users-ann", mem, KST_PAGE, BOTH | KRDMA_RIGHT_MESSAGE, &id);
	tell(fd, rc, id);
	await();
	rc = move(fd, KRDMA_OP_READ, region, 0, mem, KST_PAGE);
	tell(fd, rc, has_base(mem, KST_PAGE));
	tell(fd, 0, kst_count(KRDMA_LIST_EXPORTS, NULL, NULL));
	await();
}

/* How many calls on an id of another file do not say ENOENT. */
static int uses_of(int fd, __u32 region, __u32 id)
{
	struct krdma_peer_export_info entries[12];
	struct krdma_ioc_list list = {
		.size = sizeof(list),
		.kind = KRDMA_LIST_PEER_EXPORTS,
		.session = id,
		.entries = (uintptr_t)entries,
		.stride = sizeof(entries[0]),
		.count = KST_ARRAY_SIZE(entries),
	};
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .session = id };
	char byte[8];
	__u32 other;

	return (kst_call(fd, KRDMA_IOC_PING, &ping) != -ENOENT) +
	       (kst_call(fd, KRDMA_IOC_LIST, &list) != -ENOENT) +
	       (kst_open_region(fd, id, "users", 0, &other, NULL) != -ENOENT) +
	       (kst_move(fd, KRDMA_OP_READ, id, 0, byte, 8, NULL) != -ENOENT) +
	       (by_buffer(fd, KRDMA_OP_READ, region, id) != -ENOENT) +
	       (kst_message_queue(fd, id, 0) != -ENOENT) + (kst_destroy(fd, id) != -ENOENT);
}

static void other_things(void)
{
	__u32 session, region, id, used = 0;
	int fd = kst_open(), rc, kind, seen = 0;
	static __u64 mem[KST_PAGE / 8] __attribute__((aligned(4096)));

	for (kind = KRDMA_LIST_SESSIONS; kind <= KRDMA_LIST_TRANSFERS; kind++)
		seen += kst_count(kind, NULL, NULL);
	tell(fd, 0, seen);
	tell(fd, open("/sys/kernel/debug/tracing", O_RDONLY) < 0 ? -errno : 0, 0);
	/* Behind them, so that ids of this file are not meant. */
	for (id = 0; id < 100; id++)
		if (kst_buffer(fd, mem, KST_PAGE, 0, &used))
			break;
	for (id = 1; id < used; id++)
		kst_destroy(fd, id);
	rc = kst_connect(fd, 0, &session);
	if (!rc)
		rc = kst_open_region(fd, session, "users", 0, &region, NULL);
	tell(fd, rc, 0);
	for (id = 1, used = 0; id <= 32; id++)
		if (id != session && id != region)
			used += uses_of(fd, region, id);
	tell(fd, 0, used);
	tell(fd, 0, kst_cancel(fd, 0, KRDMA_CANCEL_ALL));
	tell(fd, 0, kst_count(KRDMA_LIST_SESSIONS, NULL, NULL));
	tell(fd, 0, kst_count(KRDMA_LIST_EXPORTS, NULL, NULL));
	tell(fd, kst_export(fd, "users-ann", mem, KST_PAGE, BOTH, &id), 0);
	tell(fd, listen_here(fd), 0);
}

static void test_ids(void)
{
	struct kst_state before = alone();
	struct job ann = start(ANN, LOCKED, own_things), bob;

	hear_good(&ann, -1, "a user has a session, a region, a buffer and an export");
	bob = start(BOB, LOCKED, other_things);
	hear_good(&bob, 0, "another user sees none of them, in no list");
	hear_bad(&bob, -EACCES, "", "nor debugfs");
	hear_good(&bob, 0, "has a session and a region of its own");
	hear_good(&bob, 0, "no id of the other's file can be used: ENOENT");
	hear_good(&bob, 0, "no operation of it is cancelled");
	hear_good(&bob, 1, "its own session is all that it sees");
	hear_good(&bob, 0, "and no export");
	hear_bad(&bob, -EEXIST, "'users-ann'",
		 "names are of the host: one that is taken is EEXIST");
	hear_bad(&bob, -EPERM, "CAP_NET_ADMIN", "it can't listen");
	kst_ok(peer_number("sessions", ANN) == 1 && peer_number("sessions", BOB) == 1,
	       "the peer has a session of each");
	go_on(&ann);
	hear_good(&ann, 1, "the first user's things are as they were");
	hear_good(&ann, 1, "and it sees its export");
	finish(&bob, "the one ends");
	finish(&ann, "and the other");
	kst_ok(kst_same(&before), "and nothing is left of either");
}

/* ---- what one takes ---- */

/* As many as there are, until one is refused. */
static void take_sessions(void)
{
	int fd = kst_open(), rc, n = 0;
	__u32 id;

	while (!(rc = kst_connect(fd, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES, &id)))
		n++;
	tell(fd, rc, n);
	while (!(rc = kst_connect(fd, KRDMA_CONNECT_PRIVATE, &id)))
		n++;
	tell(fd, rc, n);
	await();
}

static void connect_both(void)
{
	int fd = kst_open();
	__u32 id;

	tell(fd, kst_connect(fd, 0, &id), 0);
	tell(fd, kst_connect(fd, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES, &id), 0);
}

/* Alone: so many connections are a load by themselves for a device in software. */
static void test_sessions(void)
{
	struct kst_state before = alone();
	struct job ann = start(ANN, LOCKED, take_sessions), bob;
	long n;

	n = hear_bad(&ann, -ECONNREFUSED, "limit",
		     "a user makes sessions for messages until the peer refuses");
	kst_ok(n == HOST_SENDERS / 2, "that is a half of what the host may have: %ld", n);
	n = hear_bad(&ann, -ECONNREFUSED, "limit", "and others");
	/* Less by what other users have, such as sessions that still linger. */
	kst_ok(n <= HOST_SESSIONS / 2 && n > HOST_SESSIONS / 2 - 8,
	       "a half of what the host may have, with those: %ld", n);
	bob = start(BOB, LOCKED, connect_both);
	hear_good(&bob, -1, "another user has a session");
	hear_good(&bob, -1, "and one for messages");
	finish(&bob, "the one ends");
	finish(&ann, "and the other");
	kst_ok(kst_same(&before), "nothing is left of the sessions");
}

#define MOST 128

static __u32 sessions[MOST], regions[MOST];
static unsigned int nsessions;

/* Opens the export on all sessions. */
static int open_everywhere(int fd, const char *name)
{
	unsigned int i;
	int rc = 0;

	for (i = 0; i < nsessions && !rc; i++)
		rc = kst_open_region(fd, sessions[i], name, 0, &regions[i], NULL);
	return rc;
}

static void take_operations(int fd, __u32 session)
{
	struct krdma_op ops[64];
	__u32 region, accepted, i;
	long n = 0;
	int rc;

	rc = kst_open_region(fd, session, "stuck", KRDMA_RIGHT_MESSAGE, &region, NULL);
	for (i = 0; i < KST_ARRAY_SIZE(ops); i++)
		ops[i] = kst_op(KRDMA_OP_SEND, region, 0, NULL, 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (; !rc; n += accepted)
		rc = kst_start(fd, ops, KST_ARRAY_SIZE(ops), &accepted);
	tell(fd, rc, n);
	fcntl(fd, F_SETFL, 0);
}

static void take_exports(int fd)
{
	int file = page_file(), other = kst_open(), n, rc = 0;
	char name[32];

	for (n = 0; !rc; n += !rc) {
		snprintf(name, sizeof(name), "users-%d", n);
		rc = export_fd(n < USER_EXPORTS ? other : fd, file, name);
	}
	tell(fd, rc, n);
}

/* READs through one segment, on all sessions at a time, until told to stop. */
static void crowd(int fd)
{
	struct krdma_completion comps[64];
	static char bytes[MOST][8];
	unsigned int i, j, under_way = 0;
	struct krdma_op op;
	int n, rc;

	rc = open_everywhere(fd, "one");
	tell(fd, rc, nsessions);
	limit_locked(true);
	for (i = 0; i < nsessions; i++) {
		op = kst_op(KRDMA_OP_READ, regions[i], i % 4 * few_segment, bytes[i], 8);
		op.user_data = i;
		under_way += !kst_start(fd, &op, 1, NULL);
	}
	tell(fd, 0, under_way);
	while (under_way && (n = kst_reap(fd, comps, KST_ARRAY_SIZE(comps))) > 0) {
		for (j = 0; j < (unsigned int)n; j++) {
			under_way--;
			if (wanted())
				continue;
			i = comps[j].user_data;
			op = kst_op(KRDMA_OP_READ, regions[i], i % 4 * few_segment, bytes[i], 8);
			op.user_data = i;
			under_way += !kst_start(fd, &op, 1, NULL);
		}
	}
	await();
}

static void take_all(void)
{
	char *mem = kst_map(LOCKED + KST_PAGE, RW, MAP_PRIVATE);
	unsigned int most = kst_number("CROWD", 8);
	int senders = kst_open(), fd = kst_open(), rc, n;
	__u32 sender = 0;
	long i;

	rc = kst_connect(senders, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES, &sender);
	for (; !rc && nsessions < most && nsessions < MOST; nsessions += !rc)
		rc = kst_connect(fd, KRDMA_CONNECT_PRIVATE, &sessions[nsessions]);
	tell(fd, rc, nsessions);
	rc = kst_open_region(fd, sessions[0], "few", 0, &regions[0], NULL);
	for (i = 0; !rc && i < FEW; i++)
		rc = move(fd, KRDMA_OP_READ, regions[0], i * few_segment, mem, 8);
	tell(fd, rc, 0);
	take_operations(senders, sender);
	take_exports(fd);
	rc = kst_buffer(fd, mem, LOCKED, 0, NULL);
	tell(fd, rc, kst_vmpin() * 1024);
	tell(fd, kst_buffer(fd, mem, KST_PAGE, 0, NULL), 0);
	for (n = 0; open("/dev/krdma_mover", O_RDWR | O_CLOEXEC) >= 0; n++)
		;
	tell(-1, -errno, n);
	await();
	crowd(fd);
	await();
}

static int write_and_read(int fd, __u32 region, __u64 offset, size_t length, unsigned int seed)
{
	char *mem = kst_map(length, RW, MAP_PRIVATE);
	int rc;

	kst_fill(mem, offset, length, seed);
	rc = move(fd, KRDMA_OP_WRITE, region, offset, mem, length);
	memset(mem, 0, length);
	if (!rc)
		rc = move(fd, KRDMA_OP_READ, region, offset, mem, length);
	if (!rc && kst_check(mem, offset, length, seed) >= 0)
		rc = -EBADMSG;
	munmap(mem, length);
	return rc;
}

static int async_reads(int fd, __u32 region)
{
	static char bytes[64][4096];
	struct krdma_completion comps[64];
	struct krdma_op ops[64];
	__u32 accepted, i;
	int rc, n;

	for (i = 0; i < KST_ARRAY_SIZE(ops); i++) {
		ops[i] = kst_op(KRDMA_OP_READ, region, i * 512, bytes[i], sizeof(bytes[i]));
		ops[i].timeout_ns = 30000000000ULL * kst_number("TIME_FACTOR", 1);
	}
	limit_locked(true);
	rc = kst_start(fd, ops, KST_ARRAY_SIZE(ops), &accepted);
	limit_locked(false);
	if (rc || accepted != KST_ARRAY_SIZE(ops))
		return rc ? rc : -EAGAIN;
	for (; accepted; accepted -= n) {
		n = kst_reap(fd, comps, KST_ARRAY_SIZE(comps));
		if (n <= 0)
			return n ? n : -ENODATA;
		for (i = 0; i < (__u32)n; i++)
			rc = rc ? rc : comps[i].status;
	}
	for (i = 0; !rc && i < KST_ARRAY_SIZE(ops); i++)
		if (kst_check(bytes[i], i * 512, sizeof(bytes[i]), KST_BASE) >= 0)
			rc = -EBADMSG;
	return rc;
}

/* All that another user does, while the first has taken what it could. */
static void beside(void)
{
	char *mem = kst_map(LOCKED, RW, MAP_PRIVATE);
	__u32 session, sender, region, queue, few, one, id;
	int fd = kst_open(), rc, i;

	tell(fd, kst_connect(fd, 0, &session), 0);
	tell(fd, kst_connect(fd, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES, &sender), 0);
	rc = kst_open_region(fd, session, "users", 0, &region, NULL);
	if (!rc)
		rc = async_reads(fd, region);
	tell(fd, rc, 0);
	tell(fd, rc ? rc : write_and_read(fd, region, BYTES, BYTES, 7), 0);
	rc = kst_open_region(fd, sender, "queue", KRDMA_RIGHT_MESSAGE, &queue, NULL);
	for (i = 0; !rc && i < 20; i++)
		rc = move(fd, KRDMA_OP_SEND, queue, 0, mem, 100);
	tell(fd, rc, i);
	rc = kst_buffer(fd, mem, LOCKED, 0, &id);
	tell(fd, rc, kst_vmpin() * 1024);
	tell(fd, export_fd(fd, page_file(), "users-bob"), 0);
	rc = kst_open_region(fd, session, "few", 0, &few, NULL);
	tell(fd, rc, 0);
	await();
	for (i = 0; !rc && i < FEW; i++)
		rc = write_and_read(fd, few, i * few_segment, 1000, i + 10);
	tell(fd, rc, i);
	await();
	rc = kst_open_region(fd, session, "one", 0, &one, NULL);
	for (i = 0; !rc && i < 6; i++)
		rc = write_and_read(fd, one, i * few_segment, 1000, i);
	tell(fd, rc, i);
	await();
}

static void test_exhaustion(void)
{
	struct kst_state before = alone();
	struct job ann = start(ANN, LOCKED, take_all), bob;
	long mine, theirs, n;

	hear_good(&ann, -1, "a user makes sessions, some by themselves, and one for messages");
	hear_good(&ann, -1, "uses all segments of an export");
	n = hear_bad(&ann, -EAGAIN, "",
		     "sends to a reader that does not read, to the limit of its file");
	kst_ok(n == OPS_MAX, "with %ld operations", n);
	n = hear_bad(&ann, -EDQUOT, "a user may have", "publishes until it is EDQUOT");
	kst_ok(n == USER_EXPORTS, "%ld exports, in more than one file", n);
	hear_good(&ann, LOCKED, "registers its RLIMIT_MEMLOCK");
	hear_bad(&ann, -ENOMEM, "RLIMIT_MEMLOCK", "and no page more");
	n = hear_bad(&ann, -EMFILE, "", "opens all the files that it may");
	kst_diag("%ld files", n);
	theirs = peer_number("segments", ANN);
	kst_ok(theirs == FEW_SEGMENTS, "the peer keeps %ld segments for it", theirs);

	bob = start(BOB, LOCKED, beside);
	hear_good(&bob, -1, "beside it another user connects");
	hear_good(&bob, -1, "and for messages");
	hear_good(&bob, -1, "reads right bytes, 64 operations at a time, all in time");
	hear_good(&bob, -1, "writes right bytes in time");
	hear_good(&bob, 20, "sends messages");
	hear_good(&bob, LOCKED, "registers its own RLIMIT_MEMLOCK");
	hear_good(&bob, -1, "publishes");
	hear_good(&bob, -1, "opens the export whose segments the other has");
	mine = peer_number("segments", BOB);
	go_on(&bob);
	hear_good(&bob, FEW, "writes and reads all of that in time");
	mine = peer_number("segments", BOB) - mine;
	theirs = peer_number("segments", ANN);
	if (!kst_ok(mine >= FEW_SEGMENTS / 2 - 1, "and comes to have as many segments"))
		kst_diag("%ld of %d", mine, FEW_SEGMENTS);
	kst_ok(theirs >= FEW_SEGMENTS / 2 - 1, "while the first keeps its half: %ld", theirs);

	go_on(&ann);
	hear_good(&ann, -1, "all sessions of the first user open an export of one segment");
	hear_good(&ann, -1, "and read from it, again and again");
	go_on(&bob);
	hear_good(&bob, 6, "the other one writes to it and reads in time");
	finish(&bob, "the one ends");
	finish(&ann, "and the other");
	kst_ok(kst_same(&before), "nothing is left of what they took");
}

/* ---- pinned memory of a user ---- */

#define PINNED (16UL << 20)

/* A process pins through a file that it has from its parent, and ends. */
static void pin_and_leave(int fd)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		char *mem = kst_map(PINNED, RW, MAP_PRIVATE);

		_exit(!!kst_buffer(fd, mem, PINNED, 0, NULL));
	}
	waitpid(pid, &status, 0);
	tell(fd, WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO,
	     (long)query(fd).pinned_bytes);
	tell(fd, 0, kst_vmpin());
}

/* So much, of memory without access: EFAULT tells that no limit is in the way. */
static void try_much(int fd)
{
	__u64 much = query(fd).pinned_limit - PINNED * 3 / 4;
	char *mem = kst_map(much, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);

	tell(fd, kst_buffer(fd, mem, much, 0, NULL), 0);
}

static void pin_by_others(void)
{
	int fd = kst_open();

	pin_and_leave(fd);
	try_much(kst_open());
	await();
	close(fd);
}

static void pin_much(void)
{
	try_much(kst_open());
}

static void test_pins(void)
{
	struct kst_state before = kst_now();
	struct job ann = start(ANN, RLIM_INFINITY, pin_by_others), bob;

	hear_good(&ann, PINNED, "what a process has pinned stays when it has gone, with the file");
	hear_good(&ann, 0, "and is not of its parent's VmPin");
	hear_bad(&ann, -EDQUOT, "a user may keep",
		 "it counts for the user: another file can't have the rest of its half");
	bob = start(BOB, RLIM_INFINITY, pin_much);
	hear_bad(&bob, -EFAULT, "", "another user could have as much");
	finish(&bob, "the one ends");
	finish(&ann, "and the other");
	kst_ok(kst_same(&before), "nothing is charged to either any more");
}

/* ---- files that are passed on ---- */

static int pair[2];

struct passed {
	__u32 session, region, buffer;
	__u64 serial, at;
};

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

static __u64 connect_serial(int fd, __u32 *id)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.dst = kst_ipv4("10.77.0.2", KST_PORT),
	};

	if (kst_call(fd, KRDMA_IOC_CONNECT, &cmd))
		return 0;
	*id = cmd.id;
	return cmd.serial;
}

/* A file with a session, a region and a page as a buffer. */
static int make_file(int flags, struct passed *p, char *page)
{
	int fd = open("/dev/krdma_mover", O_RDWR | flags);

	if (fd < 0)
		kst_bail("/dev/krdma_mover: %s", strerror(errno));
	p->serial = connect_serial(fd, &p->session);
	if (!p->serial || kst_open_region(fd, p->session, "users", 0, &p->region, NULL) ||
	    kst_buffer(fd, page, KST_PAGE, KRDMA_BUFFER_WRITABLE, &p->buffer))
		kst_bail("a file to pass on: %s", kst_last_error(fd, NULL));
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

static void test_passing(void)
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

static void test_fork(void)
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
static int after_exec(char **argv)
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

static void test_exec(void)
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

static void test_setuid(void)
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

static void prepare(void)
{
	__u32 session, region;
	int fd = kst_open();

	if (!kst_peer("export users mem %lu 3 %d", 4 * BYTES, KST_BASE) ||
	    !kst_peer("export stuck mem 4096 16 0") || !kst_peer("export queue mem 4096 16 0") ||
	    kst_connect(fd, 0, &session) ||
	    kst_open_region(fd, session, "users", 0, &region, &few_segment) ||
	    !kst_peer("export few memfd %llu 3 0 %d", FEW * few_segment, FEW_SEGMENTS) ||
	    !kst_peer("export one memfd %llu 3 0 1", 8 * few_segment))
		kst_bail("no exports in node B: %s", kst_last_error(fd, NULL));
	close(fd);
}

int main(int argc, char **argv)
{
	struct kst_state begin;
	struct stat st;

	if (argc == 6 && !strcmp(argv[1], "exec"))
		return after_exec(argv);
	kst_main(argc, argv, 2);
	begin = kst_now();
	kst_peer_start();
	self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (self < 0 || stat("/dev/krdma_mover", &st) || chown("/dev/krdma_mover", 0, GROUP) ||
	    chmod("/dev/krdma_mover", 0660))
		kst_bail("/dev/krdma_mover: %s", strerror(errno));
	prepare();
	test_ids();
	test_sessions();
	test_exhaustion();
	test_pins();
	test_passing();
	test_fork();
	test_exec();
	test_setuid();
	if (chmod("/dev/krdma_mover", st.st_mode & 07777) ||
	    chown("/dev/krdma_mover", st.st_uid, st.st_gid))
		kst_diag("/dev/krdma_mover: %s", strerror(errno));
	kst_ok(kst_same(&begin), "at the end everything is as it was");
	return kst_done();
}
