// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to the owner of an export: KRDMA_OP_SEND, KRDMA_OP_MESSAGE, inboxes. Node B
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

#include "kst_uring.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BYTES (KST_MAIL_BYTES * KST_MAIL_PLACES)
#define ALL   (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
/* What an inbox has room for, and a region places for what finds none. */
#define ROOM   256
#define PLACES 32

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
static struct krdma_op mail(void *at, __u64 length)
{
	struct krdma_op op = kst_op(KRDMA_OP_SEND, region, 0, at, length);

	kst_fill(at, next, length, 1);
	op.operand = KST_MAIL_VALUE(1, next);
	op.user_data = next++;
	return op;
}

/* A WRITE that tells of itself. */
static struct krdma_op mail_write(void *at, unsigned int flags)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, region, next % KST_MAIL_PLACES * KST_MAIL_BYTES,
				    at, KST_MAIL_BYTES);

	kst_fill(at, next, KST_MAIL_BYTES, 1);
	op.flags = KRDMA_OP_MESSAGE | flags;
	op.operand = KST_MAIL_VALUE(1, next);
	op.user_data = next++;
	return op;
}

/* Node B reads so many, all of them right. */
static bool received(unsigned int n)
{
	const char *answer = kst_peer("receive message %u 0", n);

	return answer && !strcmp(answer, "0");
}

static long number(const char *answer)
{
	return answer ? strtol(answer, NULL, 10) : -1;
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

static void test_sizes(void)
{
	static const unsigned int sizes[] = { 0, 1, 7, 8, 9, 100, 1000, 2048, 4095, 4096 };
	unsigned int i, bad = 0;
	struct krdma_op op;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		/* Also across the end of a page. */
		op = mail(memory + (i & 1 ? 4000 : 0), sizes[i]);
		rc = one(&op);
		if (rc) {
			kst_diag("%u bytes: %d", sizes[i], rc);
			bad++;
		}
	}
	kst_ok(!bad && received(i), "messages of 0 to 4096 bytes");
	kst_ok(number(kst_peer("ready message")) == 0, "poll: none is left");
	op = mail(memory, 5);
	rc = one(&op);
	kst_ok(!rc && number(kst_peer("ready message")) == POLLIN, "poll: there is one");
	kst_ok(received(1), "which can be read");
}

static void refused(const struct krdma_op *op, int want, const char *word, const char *what)
{
	kst_fails(fd, one(op), want, word, "%s", what);
}

static void test_refused(void)
{
	__u32 id, other, plain, was = next;
	struct krdma_op op, good;
	struct krdma_ioc_open open = { .size = sizeof(open), .name = "message" };

	good = mail(memory, 100);
	next = was;
	op = good;
	op.length = KRDMA_MESSAGE_MAX + 1;
	refused(&op, -EINVAL, "4096", "a message that is too long");
	op = good;
	op.offset = 8;
	refused(&op, -EINVAL, "place", "an offset");
	op = good;
	op.flags = KRDMA_OP_VERIFY;
	refused(&op, -EINVAL, "message", "to verify a message");
	op = good;
	op.compare = 1;
	refused(&op, -EINVAL, "reserved", "a value to compare");
	op = kst_op(KRDMA_OP_READ, region, 0, memory, 100);
	op.flags = KRDMA_OP_MESSAGE;
	refused(&op, -EINVAL, "WRITE", "a READ with a message");
	op = kst_op(KRDMA_OP_WRITE, region, 0, memory, 100);
	op.operand = 1;
	refused(&op, -EINVAL, "reserved", "a value without a message");
	op = good;
	op.addr = 4096;
	refused(&op, -EFAULT, "memory", "memory that is not there");

	if (kst_open_region(fd, session, "message", KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE, &other,
			    NULL))
		kst_bail("no second region: %s", kst_last_error(fd, NULL));
	op = good;
	op.region = other;
	refused(&op, -EACCES, "messages", "a region that was not opened for messages");
	op = kst_op(KRDMA_OP_WRITE, other, 0, memory, 100);
	op.flags = KRDMA_OP_MESSAGE;
	refused(&op, -EACCES, "messages", "nor is a WRITE with one");
	kst_destroy(fd, other);

	if (kst_connect(fd, 0, &id) || kst_connect(fd, KRDMA_CONNECT_PRIVATE, &plain))
		kst_bail("no session: %s", kst_last_error(fd, NULL));
	open.session = id;
	open.rights = KRDMA_RIGHT_MESSAGE;
	kst_ok(!kst_call(fd, KRDMA_IOC_OPEN, &open) && open.granted == KRDMA_RIGHT_MESSAGE,
	       "a session for messages serves others");
	op = good;
	op.region = open.id;
	op.operand = KST_MAIL_VALUE(2, 0);
	kst_fill(memory, 0, 100, 2);
	kst_ok(!one(&op) && received(1), "with a region for messages alone");
	op = kst_op(KRDMA_OP_READ, open.id, 0, memory, 100);
	refused(&op, -EACCES, "reading", "which can't be read");
	kst_destroy(fd, open.id);
	open.session = plain;
	kst_fails(fd, kst_call(fd, KRDMA_IOC_OPEN, &open), -EOPNOTSUPP, "KRDMA_CONNECT_MESSAGES",
		  "another session has none");
	open.rights = 0;
	kst_ok(!kst_call(fd, KRDMA_IOC_OPEN, &open) && !(open.granted & KRDMA_RIGHT_MESSAGE),
	       "its regions are without");
	op = good;
	op.region = open.id;
	refused(&op, -EOPNOTSUPP, "KRDMA_CONNECT_MESSAGES", "and say so");
	kst_destroy(fd, plain);
	kst_destroy(fd, open.id);
	kst_destroy(fd, id);
	kst_fails(fd, kst_inbox(fd, region, 0), -ENOENT, "export", "an inbox of a region");
	kst_is(kst_inbox(fd, region, 8), -EOPNOTSUPP, "an inbox with flags");
}

static void test_doors(void)
{
	struct krdma_completion comps[64];
	struct krdma_vec pieces[3];
	struct krdma_op ops[64];
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int i, good = 0;
	int rc;

	for (i = 0; i < 64; i++)
		ops[i] = mail(memory + i * 2048, 2048 - i);
	rc = kst_submit(fd, ops, comps, 64, NULL);
	for (i = 0; !rc && i < 64; i++)
		good += !comps[i].status && comps[i].result == 2048 - i;
	kst_ok(good == 64 && received(64), "64 in a call");

	ops[0] = mail(memory + 40, 3000);
	ops[0].flags = KRDMA_OP_BUFFER;
	ops[0].buffer = buffer;
	ops[0].addr = 40;
	kst_ok(!one(&ops[0]) && received(1), "from a buffer");

	ops[0] = mail(memory, 3001);
	memcpy(memory + 10000, memory + 5, 2995);
	pieces[0] = (struct krdma_vec){ (uintptr_t)memory, 5 };
	pieces[1] = (struct krdma_vec){ (uintptr_t)memory + 10000, 2995 };
	pieces[2] = (struct krdma_vec){ (uintptr_t)memory + 3000, 1 };
	memset(memory + 5, 0xee, 2995);
	ops[0].flags = KRDMA_OP_VECTOR;
	ops[0].naddr = 3;
	ops[0].addr = (uintptr_t)pieces;
	kst_ok(!one(&ops[0]) && received(1), "in pieces");

	if (!kst_ring_open(&ring, 64, 0, memory, BYTES)) {
		kst_skip("this kernel has no io_uring", "by io_uring");
		return;
	}
	for (i = 0; i < 32; i++) {
		ops[i] = mail(memory + i * 4096, 4096 - i * 10);
		kst_ring_op(&ring, fd, &ops[i], i, i % 2);
	}
	if (io_uring_submit(&ring) != 32)
		kst_bail("the ring takes less");
	for (i = 0, good = 0; i < 32 && !kst_ring_wait(&ring, &cqe); i++) {
		good += cqe->res == 4096 - (int)cqe->user_data * 10;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	kst_ok(good == 32 && received(32), "by io_uring");
}

/* Node B looks at the memory as soon as it has the message. */
static void test_written(void)
{
	static const unsigned int flags[] = { 0, KRDMA_OP_UNPLACED, KRDMA_OP_VERIFY };
	static const char *const names[] = { "", ", unplaced", ", verified" };
	struct krdma_completion comps[KST_MAIL_PLACES];
	struct krdma_op ops[KST_MAIL_PLACES];
	unsigned int i, k, round, good;
	int rc = 0;

	for (k = 0; k < KST_ARRAY_SIZE(flags); k++) {
		for (round = good = 0; round < 4 && !rc; round++) {
			/* Each to a place of its own, in order. */
			for (i = 0; i < KST_MAIL_PLACES; i++) {
				ops[i] = mail_write(memory + i * KST_MAIL_BYTES, flags[k]);
				/* Verified they are told of in the order in which they end. */
				if (flags[k] & KRDMA_OP_VERIFY)
					ops[i].flags |= KRDMA_OP_AFTER;
			}
			rc = kst_submit(fd, ops, comps, KST_MAIL_PLACES, NULL);
			for (i = 0; !rc && i < KST_MAIL_PLACES; i++)
				good += !comps[i].status && comps[i].result == KST_MAIL_BYTES;
			good += received(KST_MAIL_PLACES);
		}
		kst_ok(good == 4 * (KST_MAIL_PLACES + 1), "WRITEs that tell of themselves%s (%d)",
		       names[k], rc);
	}
}

static bool held(void *arg)
{
	return kst_count(KRDMA_LIST_TRANSFERS, NULL, NULL) == *(int *)arg;
}

/* Nobody reads: the inbox fills, then the places, then it is the sender who waits. */
static void test_full(void)
{
	enum {
		SENT = ROOM + PLACES + 100
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = SENT - ROOM, ended = 0, good = 0, late = 0;
	struct krdma_op op;
	__u32 accepted;

	for (i = 0; i < SENT; i++)
		ops[i] = mail(memory, 64);
	/* Their bytes are the same memory: those of a number below. */
	next -= SENT;
	for (i = 0; i < SENT; i++) {
		ops[i].length = 0;
		ops[i].user_data = i;
	}
	next += SENT;
	if (kst_start(fd, ops, SENT, &accepted) || accepted != SENT)
		kst_bail("SUBMIT: %s", kst_last_error(fd, NULL));
	kst_ok(kst_wait(held, &waiting), "%d messages that nobody reads: %d wait", SENT, waiting);
	op = kst_op(KRDMA_OP_WRITE, region, 0, memory, 100000);
	kst_ok(!one(&op), "other operations of the region do not");
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
	kst_ok(good == ROOM && late == 100, "those that can be are cancelled: %d done, %d not",
	       good, late);
	next -= 100;
	kst_ok(received(ROOM + PLACES), "all others come, in order");
	while (ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0) {
		for (i = 0; i < n; i++)
			good += !comps[i].status;
		ended += n;
	}
	kst_ok(ended == SENT && good == ROOM + PLACES, "and are done (%d)", good);
}

/* Deadlines, and cancels of what has gone out: that comes all the same. */
static void test_late(void)
{
	enum {
		SENT = ROOM + PLACES,
		LATE = 10
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = PLACES, ended, good = 0, late = 0, stopped = 0, rc;
	__u32 accepted;

	for (i = 0; i < SENT; i++)
		ops[i] = mail(memory, 0);
	if (kst_start(fd, ops, SENT, &accepted) || accepted != SENT)
		kst_bail("SUBMIT: %s", kst_last_error(fd, NULL));
	kst_wait(held, &waiting);
	for (i = 0; i < LATE; i++) {
		ops[i] = mail(memory, 0);
		ops[i].timeout_ns = 1000000000ULL;
	}
	rc = kst_submit(fd, ops, comps, LATE, NULL);
	for (i = 0; !rc && i < LATE; i++)
		late += comps[i].status == -ETIMEDOUT;
	kst_ok(late == LATE, "%d of %d have no place in time (%d)", late, LATE, rc);
	/* They have not gone out. */
	next -= LATE;
	kst_cancel(fd, 0, KRDMA_CANCEL_ALL);
	for (ended = 0; ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0; ended += n)
		for (i = 0; i < n; i++) {
			good += !comps[i].status;
			stopped += comps[i].status == -ECANCELED;
		}
	kst_ok(good == ROOM && stopped == PLACES, "%d are done, %d cancelled", good, stopped);
	kst_ok(received(SENT), "which come all the same");
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
			ops[0].operand = KST_MAIL_VALUE(id, sent);
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

static void test_slow(void)
{
	unsigned int seconds = kst_number("SLOW", 6), id;
	long *sent = kst_map(4096, RW, MAP_SHARED);
	long before = rnr(), n, more, rest;
	int status, bad = 0;

	if (!kst_peer("export slow mem 4096 %u 1", KRDMA_RIGHT_MESSAGE) || !kst_peer("inbox slow"))
		kst_bail("no export");
	fflush(stdout);
	for (id = 3; id <= 4; id++)
		if (!fork())
			_exit(sender(id, seconds, sent));
	/* A tenth of what is usual between two of them. */
	n = number(kst_peer("slow slow %u %u", seconds * 1000, seconds < 30 ? 100 : 1000));
	/* Faster from here: they end, each having all of its messages in the inbox. */
	kst_ok(n >= 0, "a slow receiver gets %ld messages in %u s, all of them right", n, seconds);
	for (id = 0; id < 2; id++) {
		while (!waitpid(-1, &status, WNOHANG)) {
			more = number(kst_peer("slow slow 100 1"));
			if (more < 0)
				kst_bail("the receiver has failed");
			n += more;
		}
		bad += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	kst_ok(!bad, "two fast senders: each of theirs is done");
	kst_peer("unexport slow");
	rest = number(kst_peer("rest slow"));
	kst_ok(rest >= 0 && rest <= ROOM, "what was left is %ld, no more than its room", rest);
	kst_ok(n + rest == *sent, "none is lost, and none came twice: %ld of %ld", n + rest, *sent);
	kst_ok(rnr() == before, "the receiver was always ready (RNR NAKs: %ld)", rnr() - before);
}

/* ---- the end of an export ---- */

static void test_revoked(void)
{
	enum {
		SENT = ROOM + PLACES + 10
	};
	static struct krdma_completion comps[SENT];
	static struct krdma_op ops[SENT];
	int i, n, waiting = SENT - ROOM, good = 0, stale = 0, ended;
	__u32 to, accepted;

	if (!kst_peer("export gone mem 4096 %u 1", KRDMA_RIGHT_MESSAGE) ||
	    !kst_peer("inbox gone") || kst_open_region(fd, session, "gone", 0, &to, NULL))
		kst_bail("no export: %s", kst_last_error(fd, NULL));
	for (i = 0; i < SENT; i++) {
		ops[i] = kst_op(KRDMA_OP_SEND, to, 0, memory, 0);
		ops[i].operand = KST_MAIL_VALUE(5, i);
	}
	if (kst_start(fd, ops, SENT, &accepted) || accepted != SENT)
		kst_bail("SUBMIT: %s", kst_last_error(fd, NULL));
	kst_wait(held, &waiting);
	kst_peer("unexport gone");
	for (ended = 0; ended < SENT && (n = kst_reap(fd, comps, SENT)) > 0; ended += n)
		for (i = 0; i < n; i++) {
			good += !comps[i].status;
			stale += comps[i].status == -ESTALE;
		}
	kst_ok(good == ROOM && good + stale == SENT, "the receiver goes: %d done, %d ESTALE", good,
	       stale);
	kst_ok(number(kst_peer("rest gone")) == ROOM, "it reads what was done, then the end");
	ops[0].user_data = 0;
	kst_fails(fd, one(&ops[0]), -ESTALE, "gone", "one more");
	kst_destroy(fd, to);
}

/* Regions and files that go while messages wait: nothing is left of them. */
static void test_closed(void)
{
	enum {
		SENT = ROOM + PLACES + 10
	};
	static struct krdma_op ops[SENT];
	unsigned int round, i, bad = 0;
	__u32 sess, to, accepted;
	int file;

	for (round = 0; round < 3; round++) {
		if (!kst_peer("export closed mem 4096 %u 1", KRDMA_RIGHT_MESSAGE))
			kst_bail("no export");
		file = kst_open();
		if (kst_connect(file, KRDMA_CONNECT_MESSAGES | (round ? KRDMA_CONNECT_PRIVATE : 0),
				&sess) ||
		    kst_open_region(file, sess, "closed", 0, &to, NULL))
			kst_bail("no region: %s", kst_last_error(file, NULL));
		for (i = 0; i < SENT; i++)
			ops[i] = kst_op(KRDMA_OP_SEND, to, 0, memory, 4096);
		bad += kst_start(file, ops, SENT, &accepted) || accepted != SENT;
		if (round == 1)
			kst_destroy(file, to);
		close(file);
		kst_peer("unexport closed");
	}
	kst_ok(!bad, "files and regions closed over messages that wait");
}

/* ---- in one host: files ---- */

static void test_inbox(void)
{
	struct krdma_ioc_listen listen = { .size = sizeof(listen),
					   .addr = kst_ipv4("0.0.0.0", 7481) };
	struct krdma_ioc_unlisten unlisten = { .size = sizeof(unlisten), .addr = listen.addr };
	struct krdma_ioc_connect self = {
		.size = sizeof(self),
		.flags = KRDMA_CONNECT_MESSAGES,
		.dst = kst_ipv4("10.77.0.1", 7481),
	};
	struct krdma_message *m = (void *)(memory + 8192);
	__u32 export, to = 0, plain;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int in, again, file;
	ssize_t rc;

	file = kst_open();
	if (kst_call(file, KRDMA_IOC_LISTEN, &listen) ||
	    kst_export(file, "self", memory, 4096, KRDMA_RIGHT_MESSAGE, &export) ||
	    kst_export(file, "plain", memory, 4096, KRDMA_RIGHT_READ, &plain))
		kst_bail("no export: %s", kst_last_error(file, NULL));
	if (kst_call(file, KRDMA_IOC_CONNECT, &self) ||
	    kst_open_region(file, self.id, "self", 0, &to, NULL))
		kst_bail("no region: %s", kst_last_error(file, NULL));
	kst_fails(file, kst_inbox(file, plain, 0), -EACCES, "messages",
		  "an inbox of an export without messages");
	in = kst_inbox(file, export, KRDMA_INBOX_NONBLOCK);
	again = kst_inbox(file, export, 0);
	if (in < 0 || again < 0)
		kst_bail("INBOX: %s", kst_last_error(file, NULL));
	kst_ok((fcntl(in, F_GETFD) & FD_CLOEXEC) && read(in, m, 4096) == -1 && errno == EAGAIN,
	       "an inbox is closed on exec, and empty");
	kst_ok(!kst_move(file, KRDMA_OP_SEND, to, 0, memory, 100, NULL), "a message to oneself");
	rc = read(in, m, 100);
	kst_ok(rc == -1 && errno == EMSGSIZE, "a read that is too short for it");
	rc = read(in, (void *)4096, 4096);
	kst_ok(rc == -1 && errno == EFAULT, "or into nowhere");
	rc = read(again, m, 4096);
	kst_ok(rc == m->size && m->length == 100, "loses nothing, and another file has it (%zd)",
	       rc);
	kst_ok(write(in, m, 8) == -1 && lseek(in, 0, SEEK_SET) <= 0, "nothing else can be done");

	if (io_uring_queue_init(8, &ring, 0)) {
		kst_skip("this kernel has no io_uring", "a read by io_uring");
	} else {
		/* It waits there without a thread. */
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, again, m, 8192, 0);
		io_uring_submit(&ring);
		rc = io_uring_peek_cqe(&ring, &cqe);
		kst_ok(rc == -EAGAIN, "a read by io_uring waits (%zd)", rc);
		kst_move(file, KRDMA_OP_SEND, to, 0, memory, 4096, NULL);
		rc = kst_ring_wait(&ring, &cqe) ? -1 : cqe->res;
		kst_ok(rc == m->size && m->length == 4096, "and has the message (%zd)", rc);
		io_uring_queue_exit(&ring);
	}
	kst_move(file, KRDMA_OP_SEND, to, 0, memory, 1, NULL);
	kst_destroy(file, export);
	rc = read(again, m, 8192);
	kst_ok(rc == m->size && read(again, m, 8192) == 0,
	       "the export goes: what was there is read, then the end");
	close(file);
	close(in);
	close(again);
	file = kst_open();
	kst_call(file, KRDMA_IOC_UNLISTEN, &unlisten);
	close(file);
}

int main(int argc, char **argv)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct kst_state before;

	kst_main(argc, argv, 2);
	before = kst_now();
	kst_peer_start();
	fd = kst_open();
	kst_call(fd, KRDMA_IOC_QUERY, &query);
	if (!(query.features & KRDMA_FEATURE_MESSAGES))
		kst_skip_all("this module has no messages");
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	if (!kst_peer("export message mem %lu %u %d", BYTES, ALL, KST_BASE) ||
	    !kst_peer("inbox message") || kst_connect(fd, KRDMA_CONNECT_MESSAGES, &session) ||
	    kst_open_region(fd, session, "message", 0, &region, NULL) ||
	    kst_buffer(fd, memory, BYTES, 0, &buffer))
		kst_bail("no region of node B: %s", kst_last_error(fd, NULL));

	test_sizes();
	test_refused();
	test_doors();
	test_written();
	test_full();
	test_late();
	test_slow();
	test_revoked();
	test_closed();
	test_inbox();
	kst_peer("unexport message");
	kst_ok(number(kst_peer("rest message")) == 0, "no message is left");
	kst_ok(!counter("messages_queued") && !counter("messages_held"), "nor here");
	close(fd);
	kst_settled(&before, "at the end everything is as it was");
	return kst_done();
}
