// SPDX-License-Identifier: GPL-2.0
/* A user who takes all that the limits allow leaves another user enough. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

/* Limits that Documentation/uapi.rst states. */
#define HOST_SESSIONS 256
#define HOST_SENDERS  32
#define USER_EXPORTS  4096
#define OPS_MAX       4096

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
void test_sessions(void)
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

void test_exhaustion(void)
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

void test_pins(void)
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
