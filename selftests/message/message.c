// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to the target of an export: KRDMA_OP_SEND, KRDMA_OPF_MESSAGE, message queues. Node B
 * reads them, and looks whether each is right and the next one of its sender.
 *
 * SLOW is how many seconds a receiver is slow for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"
#include "kst_uring.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BYTES (KST_MESSAGE_BYTES * KST_MESSAGE_SLOTS)
#define ALL   (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
/* What a message queue has room for, and a region credits for what finds none. */
#define ROOM    256
#define CREDITS 32

static int fd;
static __u32 session, region, buffer;
static unsigned char *memory;
static __u32 next; /* number of our next message; we are sender 1 */

static int one(const struct krdma_op *op)
{
	struct krdma_completion comp = { .status = -ENODATA };
	struct krdma_op copy = *op;
	int rc = kst_submit(fd, &copy, &comp, 1, NULL);

	if (!rc && !comp.status && comp.result != op->length)
		return -EBADMSG;
	return rc ? rc : comp.status;
}

/* The next message of ours, of so many bytes from there. */
static struct krdma_op message(void *at, __u64 length)
{
	struct krdma_op op = kst_op(KRDMA_OP_SEND, region, 0, at, length);

	kst_fill(at, next, length, 1);
	op.operand = KST_MESSAGE_VALUE(1, next);
	op.user_data = next++;
	return op;
}

/* A WRITE that tells of itself. */
static struct krdma_op message_write(void *at, unsigned int flags)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, region,
				    next % KST_MESSAGE_SLOTS * KST_MESSAGE_BYTES, at,
				    KST_MESSAGE_BYTES);

	kst_fill(at, next, KST_MESSAGE_BYTES, 1);
	op.flags = KRDMA_OPF_MESSAGE | flags;
	op.operand = KST_MESSAGE_VALUE(1, next);
	op.user_data = next++;
	return op;
}

/* Node B reads so many, all of them right. */
static bool received(unsigned int n)
{
	const char *reply = kst_peer("receive message %u 0", n);

	return reply && !strcmp(reply, "0");
}

static long number(const char *reply)
{
	return reply ? strtol(reply, NULL, 10) : -1;
}

/* A counter of the module, here. */
static long counter(const char *name)
{
	char path[128], line[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/misc/krdma_mover/counters/%s", name);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof(line), f))
		kst_bail("%s: %s", path, strerror(errno));
	fclose(f);
	return strtol(line, NULL, 10);
}

/* RNR NAKs that rxe has got; siw has no such thing. */
static long rnr(void)
{
	static const char path[] = "/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_rnr_err";
	char line[32] = "0";
	FILE *f = fopen(path, "r");

	if (f) {
		if (!fgets(line, sizeof(line), f))
			line[0] = 0;
		fclose(f);
	}
	return strtol(line, NULL, 10);
}

FIXTURE(message)
{
	struct kst_state before;
};

FIXTURE_SETUP(message)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	fd = kst_setup(true);
	kst_call(fd, KRDMA_IOC_QUERY, &query);
	if (!(query.features & KRDMA_FEATURE_MESSAGES))
		SKIP(return, "this module has no messages");
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	ASSERT_NOT(!kst_peer("export message mem %lu %u %d", BYTES, ALL, KST_BASE) ||
			   !kst_peer("queue message") ||
			   kst_connect(fd, KRDMA_CONNECT_MESSAGES, &session) ||
			   kst_open_region(fd, session, "message", 0, &region, NULL) ||
			   kst_buffer(fd, memory, BYTES, 0, &buffer),
		   "no region of node B: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

FIXTURE_TEARDOWN(message)
{
	EXPECT_SAME(&self->before, "nothing is left of it");
	kst_peer("unexport message");
	EXPECT_IS(0, number(kst_peer("rest message")), "no message is left");
	EXPECT_THAT(!counter("messages_queued") && !counter("messages_held"), "nor here");
	EXPECT_THAT(kst_teardown(fd), "with its file everything ends");
}

TEST_F(message, sizes)
{
	static const unsigned int sizes[] = { 0, 1, 7, 8, 9, 100, 1000, 2048, 4095, 4096 };
	unsigned int i, bad = 0;
	struct krdma_op op;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		/* Also across the end of a page. */
		op = message(memory + (i & 1 ? 4000 : 0), sizes[i]);
		rc = one(&op);
		if (rc) {
			kst_diag("%u bytes: %d", sizes[i], rc);
			bad++;
		}
	}
	EXPECT_THAT(!bad && received(i), "messages of 0 to 4096 bytes");
	EXPECT_THAT(number(kst_peer("ready message")) == 0, "poll: none is left");
	op = message(memory, 5);
	rc = one(&op);
	EXPECT_THAT(!rc && number(kst_peer("ready message")) == POLLIN, "poll: there is one");
	EXPECT_THAT(received(1), "which can be read");
}

static void refused(struct __test_metadata *_metadata, const struct krdma_op *op, int want,
		    const char *word, const char *what)
{
	EXPECT_FAILS(fd, one(op), want, word, "%s", what);
}

TEST_F(message, refused)
{
	__u32 id, other, plain, was = next;
	struct krdma_op op, good;
	struct krdma_ioc_open open = { .size = sizeof(open), .name = "message" };

	good = message(memory, 100);
	next = was;
	op = good;
	op.length = KRDMA_MESSAGE_MAX + 1;
	refused(_metadata, &op, -EINVAL, "4096", "a message that is too long");
	op = good;
	op.offset = 8;
	refused(_metadata, &op, -EINVAL, "offset", "an offset");
	op = good;
	op.flags = KRDMA_OPF_VERIFY;
	refused(_metadata, &op, -EINVAL, "message", "to verify a message");
	op = good;
	op.compare = 1;
	refused(_metadata, &op, -EINVAL, "reserved", "a value to compare");
	op = kst_op(KRDMA_OP_READ, region, 0, memory, 100);
	op.flags = KRDMA_OPF_MESSAGE;
	refused(_metadata, &op, -EINVAL, "WRITE", "a READ with a message");
	op = kst_op(KRDMA_OP_WRITE, region, 0, memory, 100);
	op.operand = 1;
	refused(_metadata, &op, -EINVAL, "reserved", "a value without a message");
	op = good;
	op.addr = 4096;
	refused(_metadata, &op, -EFAULT, "memory", "memory that is not there");

	ASSERT_NOT(kst_open_region(fd, session, "message", KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
				   &other, NULL),
		   "no second region: %s", kst_last_error(fd, NULL));
	op = good;
	op.region = other;
	refused(_metadata, &op, -EACCES, "messages", "a region that was not opened for messages");
	op = kst_op(KRDMA_OP_WRITE, other, 0, memory, 100);
	op.flags = KRDMA_OPF_MESSAGE;
	refused(_metadata, &op, -EACCES, "messages", "nor is a WRITE with one");
	kst_destroy(fd, other);

	ASSERT_NOT(kst_connect(fd, 0, &id) || kst_connect(fd, KRDMA_CONNECT_PRIVATE, &plain),
		   "no session: %s", kst_last_error(fd, NULL));
	open.session = id;
	open.rights = KRDMA_RIGHT_MESSAGE;
	EXPECT_THAT(!kst_call(fd, KRDMA_IOC_OPEN, &open) && open.granted == KRDMA_RIGHT_MESSAGE,
		    "a session for messages serves others");
	op = good;
	op.region = open.id;
	op.operand = KST_MESSAGE_VALUE(2, 0);
	kst_fill(memory, 0, 100, 2);
	EXPECT_THAT(!one(&op) && received(1), "with a region for messages alone");
	op = kst_op(KRDMA_OP_READ, open.id, 0, memory, 100);
	refused(_metadata, &op, -EACCES, "reading", "which can't be read");
	kst_destroy(fd, open.id);
	open.session = plain;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_OPEN, &open), -EOPNOTSUPP, "KRDMA_CONNECT_MESSAGES",
		     "another session has none");
	open.rights = 0;
	EXPECT_THAT(!kst_call(fd, KRDMA_IOC_OPEN, &open) && !(open.granted & KRDMA_RIGHT_MESSAGE),
		    "its regions are without");
	op = good;
	op.region = open.id;
	refused(_metadata, &op, -EOPNOTSUPP, "KRDMA_CONNECT_MESSAGES", "and say so");
	kst_destroy(fd, plain);
	kst_destroy(fd, open.id);
	kst_destroy(fd, id);
	EXPECT_FAILS(fd, kst_message_queue(fd, region, 0), -ENOENT, "export",
		     "a message queue of a region");
	EXPECT_IS(-EOPNOTSUPP, kst_message_queue(fd, region, 8), "a message queue with flags");
}

TEST_F(message, doors)
{
	struct krdma_completion comps[64];
	struct krdma_vec pieces[3];
	struct krdma_op ops[64];
	unsigned int i, good = 0;
	int rc;

	for (i = 0; i < 64; i++)
		ops[i] = message(memory + i * 2048, 2048 - i);
	rc = kst_submit(fd, ops, comps, 64, NULL);
	for (i = 0; !rc && i < 64; i++)
		good += !comps[i].status && comps[i].result == 2048 - i;
	EXPECT_THAT(good == 64 && received(64), "64 in a call");

	ops[0] = message(memory + 40, 3000);
	ops[0].flags = KRDMA_OPF_BUFFER;
	ops[0].buffer = buffer;
	ops[0].addr = 40;
	EXPECT_THAT(!one(&ops[0]) && received(1), "from a buffer");

	ops[0] = message(memory, 3001);
	memcpy(memory + 10000, memory + 5, 2995);
	pieces[0] = (struct krdma_vec){ (uintptr_t)memory, 5 };
	pieces[1] = (struct krdma_vec){ (uintptr_t)memory + 10000, 2995 };
	pieces[2] = (struct krdma_vec){ (uintptr_t)memory + 3000, 1 };
	memset(memory + 5, 0xee, 2995);
	ops[0].flags = KRDMA_OPF_VECTOR;
	ops[0].naddr = 3;
	ops[0].addr = (uintptr_t)pieces;
	EXPECT_THAT(!one(&ops[0]) && received(1), "in pieces");
}

TEST_F(message, uring)
{
	unsigned int i, good = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct krdma_op op;

	if (!kst_ring_open(&ring, 64, 0, memory, BYTES))
		SKIP(return, "this kernel has no io_uring");
	for (i = 0; i < 32; i++) {
		op = message(memory + i * 4096, 4096 - i * 10);
		kst_ring_op(&ring, fd, &op, i, i % 2);
	}
	ASSERT_NOT(io_uring_submit(&ring) != 32, "the ring takes less");
	for (i = 0; i < 32 && !kst_ring_wait(&ring, &cqe); i++) {
		good += cqe->res == 4096 - (int)cqe->user_data * 10;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	EXPECT_THAT(good == 32 && received(32), "by io_uring");
}

/* Node B looks at the memory as soon as it has the message. */
TEST_F(message, written)
{
	static const unsigned int flags[] = { 0, KRDMA_OPF_UNPLACED, KRDMA_OPF_VERIFY };
	static const char *const names[] = { "", ", unplaced", ", verified" };
	struct krdma_completion comps[KST_MESSAGE_SLOTS];
	struct krdma_op ops[KST_MESSAGE_SLOTS];
	unsigned int i, k, round, good;
	int rc = 0;

	for (k = 0; k < KST_ARRAY_SIZE(flags); k++) {
		for (round = good = 0; round < 4 && !rc; round++) {
			/* Each to a place of its own, in order. */
			for (i = 0; i < KST_MESSAGE_SLOTS; i++) {
				ops[i] = message_write(memory + i * KST_MESSAGE_BYTES, flags[k]);
				/* Verified messages are reported in the order in which they end. */
				if (flags[k] & KRDMA_OPF_VERIFY)
					ops[i].flags |= KRDMA_OPF_AFTER;
			}
			rc = kst_submit(fd, ops, comps, KST_MESSAGE_SLOTS, NULL);
			for (i = 0; !rc && i < KST_MESSAGE_SLOTS; i++)
				good += !comps[i].status && comps[i].result == KST_MESSAGE_BYTES;
			good += received(KST_MESSAGE_SLOTS);
		}
		EXPECT_THAT(good == 4 * (KST_MESSAGE_SLOTS + 1),
			    "WRITEs that tell of themselves%s (%d)", names[k], rc);
	}
}

static bool held(void *arg)
{
	return kst_count(KRDMA_LIST_TRANSFERS, NULL, NULL) == *(int *)arg;
}

/*
 * Nobody reads: the message queue fills, then the credits are used up, then it is the
 * sender that waits.
 */
TEST_F(message, full)
{
	enum {
		SENT = ROOM + CREDITS + 100
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = SENT - ROOM, ended = 0, good = 0, late = 0;
	struct krdma_op op;
	__u32 accepted;

	for (i = 0; i < SENT; i++)
		ops[i] = message(memory, 64);
	/* Their bytes are the same memory: those of a number below. */
	next -= SENT;
	for (i = 0; i < SENT; i++) {
		ops[i].length = 0;
		ops[i].user_data = i;
	}
	next += SENT;
	ASSERT_NOT(kst_start(fd, ops, SENT, &accepted) || accepted != SENT, "SUBMIT: %s",
		   kst_last_error(fd, NULL));
	EXPECT_THAT(kst_wait(held, &waiting), "%d messages that nobody reads: %d wait", SENT,
		    waiting);
	op = kst_op(KRDMA_OP_WRITE, region, 0, memory, 100000);
	EXPECT_THAT(!one(&op), "other operations of the region do not");
	/* The last ones have not left this host. */
	for (i = SENT - 100; i < SENT; i++)
		kst_cancel(fd, i, 0);
	while (ended < ROOM + 100 && (n = kst_reap(fd, comps, SENT)) > 0) {
		for (i = 0; i < n; i++) {
			good += comps[i].user_data < ROOM && !comps[i].status;
			late += comps[i].user_data >= SENT - 100 && comps[i].status == -ECANCELED;
		}
		ended += n;
	}
	EXPECT_THAT(good == ROOM && late == 100, "those that can be are cancelled: %d done, %d not",
		    good, late);
	next -= 100;
	EXPECT_THAT(received(ROOM + CREDITS), "all others come, in order");
	while (ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0) {
		for (i = 0; i < n; i++)
			good += !comps[i].status;
		ended += n;
	}
	EXPECT_THAT(ended == SENT && good == ROOM + CREDITS, "and are done (%d)", good);
}

/* Deadlines, and cancels of what has gone out: that comes all the same. */
TEST_F(message, late)
{
	enum {
		SENT = ROOM + CREDITS,
		LATE = 10
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = CREDITS, ended, good = 0, late = 0, stopped = 0, rc;
	__u32 accepted;

	for (i = 0; i < SENT; i++)
		ops[i] = message(memory, 0);
	ASSERT_NOT(kst_start(fd, ops, SENT, &accepted) || accepted != SENT, "SUBMIT: %s",
		   kst_last_error(fd, NULL));
	kst_wait(held, &waiting);
	for (i = 0; i < LATE; i++) {
		ops[i] = message(memory, 0);
		ops[i].timeout_ns = 1000000000ULL;
	}
	rc = kst_submit(fd, ops, comps, LATE, NULL);
	for (i = 0; !rc && i < LATE; i++)
		late += comps[i].status == -ETIMEDOUT;
	EXPECT_THAT(late == LATE, "%d of %d have no credit in time (%d)", late, LATE, rc);
	/* They have not gone out. */
	next -= LATE;
	kst_cancel(fd, 0, KRDMA_CANCEL_ALL);
	for (ended = 0; ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0; ended += n)
		for (i = 0; i < n; i++) {
			good += !comps[i].status;
			stopped += comps[i].status == -ECANCELED;
		}
	EXPECT_THAT(good == ROOM && stopped == CREDITS, "%d are done, %d cancelled", good, stopped);
	EXPECT_THAT(received(SENT), "which come all the same");
}

/* ---- fast senders, a slow receiver ---- */

/* Sends as fast as it can until @seconds are over, and tells how many. Its exit status. */
static int sender(unsigned int id, int seconds, long *count)
{
	struct krdma_completion comps[64];
	static struct krdma_op ops[64];
	double end = kst_seconds() + seconds;
	__u32 sess, to, accepted, sent = 0;
	int file = kst_open(), rc, i, under_way = 0;

	if (kst_connect(file, KRDMA_CONNECT_MESSAGES | KRDMA_CONNECT_PRIVATE, &sess) ||
	    kst_open_region(file, sess, "slow", KRDMA_RIGHT_MESSAGE, &to, NULL))
		goto bad;
	memory = kst_map(64 * 4096, RW, MAP_PRIVATE);
	while (kst_seconds() < end || under_way) {
		/* Each has its memory until it has ended, and they end in order. */
		while (under_way < 64 && kst_seconds() < end) {
			unsigned char *at = memory + sent % 64 * 4096;

			ops[0] = kst_op(KRDMA_OP_SEND, to, 0, at, 4096);
			kst_fill(at, sent, 4096, id);
			ops[0].operand = KST_MESSAGE_VALUE(id, sent);
			ops[0].user_data = sent;
			if (kst_start(file, ops, 1, &accepted))
				goto bad;
			under_way++;
			sent++;
		}
		rc = kst_reap(file, comps, 64);
		if (rc <= 0)
			goto bad;
		for (i = 0; i < rc; i++)
			if (comps[i].status)
				goto bad;
		under_way -= rc;
	}
	__atomic_add_fetch(count, sent, __ATOMIC_SEQ_CST);
	close(file);
	return 0;
bad:
	printf("# sender %u: %s\n", id, kst_last_error(file, NULL));
	fflush(stdout);
	return 1;
}

TEST_F(message, slow)
{
	unsigned int seconds = kst_number("SLOW", 6), id;
	long *sent = kst_map(4096, RW, MAP_SHARED);
	long before = rnr(), n, more, rest;
	int status, bad = 0;

	ASSERT_NOT(!kst_peer("export slow mem 4096 %u 1", KRDMA_RIGHT_MESSAGE) ||
			   !kst_peer("queue slow"),
		   "no export");
	fflush(stdout);
	for (id = 3; id <= 4; id++)
		if (!fork())
			_exit(sender(id, seconds, sent));
	/* A tenth of what is usual between two of them. */
	n = number(kst_peer("slow slow %u %u", seconds * 1000, seconds < 30 ? 100 : 1000));
	/* Faster from here: they end, each having all of its messages in the message queue. */
	EXPECT_THAT(n >= 0, "a slow receiver gets %ld messages in %u s, all of them right", n,
		    seconds);
	for (id = 0; id < 2; id++) {
		while (!waitpid(-1, &status, WNOHANG)) {
			more = number(kst_peer("slow slow 100 1"));
			ASSERT_NOT(more < 0, "the receiver has failed");
			n += more;
		}
		bad += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	EXPECT_THAT(!bad, "two fast senders: each of theirs is done");
	kst_peer("unexport slow");
	rest = number(kst_peer("rest slow"));
	EXPECT_THAT(rest >= 0 && rest <= ROOM, "what was left is %ld, no more than its room", rest);
	EXPECT_THAT(n + rest == *sent, "none is lost, and none came twice: %ld of %ld", n + rest,
		    *sent);
	EXPECT_THAT(rnr() == before, "the receiver was always ready (RNR NAKs: %ld)",
		    rnr() - before);
}

/* ---- the end of an export ---- */

TEST_F(message, revoked)
{
	enum {
		SENT = ROOM + CREDITS + 10
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = SENT - ROOM, good = 0, stale = 0, ended;
	__u32 to, accepted;

	ASSERT_NOT(!kst_peer("export gone mem 4096 %u 1", KRDMA_RIGHT_MESSAGE) ||
			   !kst_peer("queue gone") ||
			   kst_open_region(fd, session, "gone", 0, &to, NULL),
		   "no export: %s", kst_last_error(fd, NULL));
	for (i = 0; i < SENT; i++) {
		ops[i] = kst_op(KRDMA_OP_SEND, to, 0, memory, 0);
		ops[i].operand = KST_MESSAGE_VALUE(5, i);
	}
	ASSERT_NOT(kst_start(fd, ops, SENT, &accepted) || accepted != SENT, "SUBMIT: %s",
		   kst_last_error(fd, NULL));
	kst_wait(held, &waiting);
	kst_peer("unexport gone");
	for (ended = 0; ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0; ended += n)
		for (i = 0; i < n; i++) {
			good += !comps[i].status;
			stale += comps[i].status == -ESTALE;
		}
	EXPECT_THAT(good == ROOM && good + stale == SENT, "the receiver goes: %d done, %d ESTALE",
		    good, stale);
	EXPECT_THAT(number(kst_peer("rest gone")) == ROOM, "it reads what was done, then the end");
	ops[0].user_data = 0;
	EXPECT_FAILS(fd, one(&ops[0]), -ESTALE, "gone", "one more");
	kst_destroy(fd, to);
}

/* Regions and files that go while messages wait: nothing is left of them. */
TEST_F(message, closed)
{
	enum {
		SENT = ROOM + CREDITS + 10
	};
	static struct krdma_op ops[SENT];
	unsigned int round, i, bad = 0;
	__u32 sess, to, accepted;
	int file;

	for (round = 0; round < 3; round++) {
		ASSERT_NOT(!kst_peer("export closed mem 4096 %u 1", KRDMA_RIGHT_MESSAGE),
			   "no export");
		file = kst_open();
		ASSERT_NOT(kst_connect(file,
				       KRDMA_CONNECT_MESSAGES | (round ? KRDMA_CONNECT_PRIVATE : 0),
				       &sess) ||
				   kst_open_region(file, sess, "closed", 0, &to, NULL),
			   "no region: %s", kst_last_error(file, NULL));
		for (i = 0; i < SENT; i++)
			ops[i] = kst_op(KRDMA_OP_SEND, to, 0, memory, 4096);
		bad += kst_start(file, ops, SENT, &accepted) || accepted != SENT;
		if (round == 1)
			kst_destroy(file, to);
		close(file);
		kst_peer("unexport closed");
	}
	EXPECT_THAT(!bad, "files and regions closed over messages that wait");
}

/* ---- in one host: files ---- */

TEST_F(message, queue)
{
	struct krdma_ioc_listen listen = { .size = sizeof(listen),
					   .addr = kst_ipv4("0.0.0.0", 7481) };
	struct krdma_ioc_unlisten unlisten = { .size = sizeof(unlisten), .addr = listen.addr };
	struct krdma_ioc_connect connect = {
		.size = sizeof(connect),
		.flags = KRDMA_CONNECT_MESSAGES,
		.dst = kst_ipv4(KST_A, 7481),
	};
	struct krdma_message *m = (void *)(memory + 8192);
	__u32 export, to = 0, plain;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int in, again, file;
	ssize_t rc;

	file = kst_open();
	ASSERT_NOT(kst_call(file, KRDMA_IOC_LISTEN, &listen) ||
			   kst_export(file, "self", memory, 4096, KRDMA_RIGHT_MESSAGE, &export) ||
			   kst_export(file, "plain", memory, 4096, KRDMA_RIGHT_READ, &plain),
		   "no export: %s", kst_last_error(file, NULL));
	ASSERT_NOT(kst_call(file, KRDMA_IOC_CONNECT, &connect) ||
			   kst_open_region(file, connect.id, "self", 0, &to, NULL),
		   "no region: %s", kst_last_error(file, NULL));
	EXPECT_FAILS(file, kst_message_queue(file, plain, 0), -EACCES, "messages",
		     "a message queue of an export without messages");
	in = kst_message_queue(file, export, KRDMA_MESSAGE_QUEUE_NONBLOCK);
	again = kst_message_queue(file, export, 0);
	ASSERT_NOT(in < 0 || again < 0, "MESSAGE_QUEUE: %s", kst_last_error(file, NULL));
	EXPECT_THAT((fcntl(in, F_GETFD) & FD_CLOEXEC) && read(in, m, 4096) == -1 && errno == EAGAIN,
		    "a message queue is closed on exec, and empty");
	EXPECT_THAT(!kst_move(file, KRDMA_OP_SEND, to, 0, memory, 100, NULL),
		    "a message to oneself");
	rc = read(in, m, 100);
	EXPECT_THAT(rc == -1 && errno == EMSGSIZE, "a read that is too short for it");
	rc = read(in, (void *)4096, 4096);
	EXPECT_THAT(rc == -1 && errno == EFAULT, "or into nowhere");
	rc = read(again, m, 4096);
	EXPECT_THAT(rc == m->size && m->length == 100,
		    "loses nothing, and another file has it (%zd)", rc);
	EXPECT_THAT(write(in, m, 8) == -1 && lseek(in, 0, SEEK_SET) <= 0,
		    "nothing else can be done");

	if (io_uring_queue_init(8, &ring, 0)) {
		kst_diag("this kernel has no io_uring");
	} else {
		/* It waits there without a thread. */
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, again, m, 8192, 0);
		io_uring_submit(&ring);
		rc = io_uring_peek_cqe(&ring, &cqe);
		EXPECT_THAT(rc == -EAGAIN, "a read by io_uring waits (%zd)", rc);
		kst_move(file, KRDMA_OP_SEND, to, 0, memory, 4096, NULL);
		rc = kst_ring_wait(&ring, &cqe) ? -1 : cqe->res;
		EXPECT_THAT(rc == m->size && m->length == 4096, "and has the message (%zd)", rc);
		io_uring_queue_exit(&ring);
	}
	kst_move(file, KRDMA_OP_SEND, to, 0, memory, 1, NULL);
	kst_destroy(file, export);
	rc = read(again, m, 8192);
	EXPECT_THAT(rc == m->size && read(again, m, 8192) == 0,
		    "the export goes: what was there is read, then the end");
	close(file);
	close(in);
	close(again);
	file = kst_open();
	kst_call(file, KRDMA_IOC_UNLISTEN, &unlisten);
	close(file);
}

KST_HARNESS_MAIN(2)
