// SPDX-License-Identifier: GPL-2.0
/*
 * Operations by io_uring, as its users use it: IORING_OP_URING_CMD on a ring of
 * 128-byte SQEs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst_harness.h"
#include "kst_uring.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BYTES (8UL << 20)
#define DEPTH 32

static int fd;
static __u32 session, region, buffer;
static unsigned char *memory;
static __u64 features;

/* ---- a ring ---- */

static struct io_uring ring;

static bool ring_open(unsigned int flags)
{
	return kst_ring_open(&ring, DEPTH * 2, flags, memory, BYTES);
}

FIXTURE(uring)
{
	/* io_uring gives the buffers of a ring back some time after its end. */
	struct kst_state before, without_ring;
};

FIXTURE_SETUP(uring)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	fd = kst_setup(true);
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, BYTES);
	ASSERT_NOT(kst_call(fd, KRDMA_IOC_QUERY, &query) ||
			   kst_setup_region(fd, "uring", BYTES, &session, &region, NULL) ||
			   kst_buffer(fd, memory, KST_PAGE, KRDMA_BUFFER_WRITABLE, &buffer),
		   "no region, or no buffer: %s", kst_last_error(fd, NULL));
	features = query.features;
	self->without_ring = kst_now();
	if (!(features & KRDMA_FEATURE_URING) || !ring_open(0))
		SKIP(return, "this kernel has no io_uring, or it is switched off");
	self->before = kst_now();
}

FIXTURE_TEARDOWN(uring)
{
	EXPECT_SAME(&self->before, "nothing is left of it");
	io_uring_queue_exit(&ring);
	EXPECT_SAME(&self->without_ring, "the ring has ended");
	EXPECT_THAT(kst_teardown(fd), "with its file everything ends");
}

static struct krdma_op op_of(int opcode, __u64 offset, __u64 at, __u64 length)
{
	return kst_op(opcode, region, offset, memory + at, length);
}

static struct io_uring_sqe *prep(const struct krdma_op *op, __u64 user_data, bool fixed)
{
	return kst_ring_op(&ring, fd, op, user_data, fixed);
}

/* Submits what is prepared, and waits for @n completions: the first bad result. */
static int finish(unsigned int n)
{
	struct io_uring_cqe *cqe;
	int rc = io_uring_submit(&ring), bad = 0;

	if (rc < 0)
		return rc;
	while (n--) {
		rc = kst_ring_wait(&ring, &cqe);
		if (rc)
			return rc;
		if (cqe->res < 0 && !bad)
			bad = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
	}
	return bad;
}

/* One operation: its result. */
static int one(const struct krdma_op *op, bool fixed)
{
	struct io_uring_cqe *cqe;
	int rc;

	prep(op, 1, fixed);
	rc = io_uring_submit(&ring);
	if (rc < 0)
		return rc;
	rc = kst_ring_wait(&ring, &cqe);
	if (rc)
		return rc;
	rc = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return rc;
}

static bool there_and_back(__u64 offset, __u64 length, bool fixed, unsigned int seed)
{
	struct krdma_op op = op_of(KRDMA_OP_WRITE, offset, 77, length);
	int rc;

	kst_fill(memory + 77, offset, length, seed);
	rc = one(&op, fixed);
	if (rc != (int)length || !kst_peer_has("uring", offset, length, seed))
		goto bad;
	op = op_of(KRDMA_OP_READ, offset, BYTES / 2 + 3, length);
	memset(memory + BYTES / 2, 0xee, length + 10);
	rc = one(&op, !fixed);
	if (rc == (int)length && kst_check(memory + BYTES / 2 + 3, offset, length, seed) < 0 &&
	    kst_all(memory + BYTES / 2, 3, 0xee) &&
	    kst_all(memory + BYTES / 2 + 3 + length, 7, 0xee))
		return true;
bad:
	kst_diag("%llu bytes%s: %d: %s", (unsigned long long)length, fixed ? ", fixed" : "", rc,
		 kst_last_error(fd, NULL));
	return false;
}

TEST_F(uring, sizes)
{
	static const __u64 sizes[] = { 1, 8, 4095, 4096, 4097, 65536, 1000001, 3 << 20 };
	unsigned int i;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		EXPECT_THAT(there_and_back(1000 + i, sizes[i], false, 20 + i),
			    "plain memory, both ways");
		EXPECT_THAT(there_and_back(KST_PAGE - i, sizes[i], true, 40 + i),
			    "fixed memory, both ways");
	}
}

TEST_F(uring, fixed)
{
	struct kst_state now;
	struct krdma_op op;
	unsigned int i;

	for (i = 0; i < DEPTH; i++) {
		op = op_of(KRDMA_OP_WRITE, i * KST_PAGE, i * KST_PAGE, KST_PAGE);
		prep(&op, i, true);
	}
	kst_fill(memory, 0, DEPTH * KST_PAGE, 60);
	EXPECT_IS(0, finish(DEPTH), "%d operations on a registered buffer", DEPTH);
	now = kst_now();
	EXPECT_THAT(now.accounted == self->before.accounted, "the module pins nothing for them");
	EXPECT_THAT(kst_peer_has("uring", 0, DEPTH * KST_PAGE, 60), "the bytes are there");
	op = op_of(KRDMA_OP_WRITE, 0, BYTES - 10, 11);
	EXPECT_FAILS(fd, one(&op, true), -EFAULT, "buffer of io_uring",
		     "outside the registered buffer");
	op = op_of(KRDMA_OP_WRITE, 0, 0, 10);
	op.flags = KRDMA_OPF_BUFFER;
	op.addr = 0;
	op.buffer = buffer;
	EXPECT_FAILS(fd, one(&op, true), -EOPNOTSUPP, "buffer of io_uring",
		     "a buffer of both kinds");
	EXPECT_IS(10, one(&op, false), "a buffer of the file's own");
}

TEST_F(uring, refused)
{
	struct krdma_vec vec[2] = { { (uintptr_t)memory, 10 }, { (uintptr_t)memory + 50, 5 } };
	struct io_uring small, big;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct krdma_op op;

	op = op_of(KRDMA_OP_WRITE, 0, 0, 15);
	op.flags = KRDMA_OPF_VECTOR;
	op.naddr = 2;
	op.addr = (uintptr_t)vec;
	EXPECT_IS(15, one(&op, false), "a vector");
	op.naddr = 1;
	EXPECT_FAILS(fd, one(&op, false), -EINVAL, "10 bytes", "a vector that does not fit");
	op = op_of(KRDMA_OP_WRITE, BYTES, 0, 1);
	EXPECT_FAILS(fd, one(&op, false), -ERANGE, "'uring'", "outside the region");
	op = op_of(KRDMA_OP_READ, 0, 0, 1);
	op.addr = 4096;
	EXPECT_FAILS(fd, one(&op, false), -EFAULT, "0x1000", "memory that is not there");
	op = op_of(99, 0, 0, 1);
	EXPECT_FAILS(fd, one(&op, false), -EOPNOTSUPP, "99", "no such operation");
	op = op_of(KRDMA_OP_READ, 0, 0, 1);
	op.region = session;
	EXPECT_FAILS(fd, one(&op, false), -ENOENT, "region", "a session for a region");
	op = op_of(KRDMA_OP_READ, 0, 0, BYTES);
	op.timeout_ns = 1;
	EXPECT_FAILS(fd, one(&op, false), -ETIMEDOUT, "deadline", "a deadline that has passed");

	op = op_of(KRDMA_OP_READ, 0, 0, 1);
	sqe = prep(&op, 1, false);
	sqe->off = KRDMA_URING_OP + 1;
	EXPECT_IS(-ENOTTY, finish(1), "another command is ENOTTY");

	/* SQEs of 64 bytes have no room for it. */
	ASSERT_NOT(io_uring_queue_init(4, &small, 0), "ring of small SQEs");
	sqe = io_uring_get_sqe(&small);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->off = KRDMA_URING_OP;
	io_uring_submit(&small);
	kst_ring_wait(&small, &cqe);
	EXPECT_IS(-EINVAL, cqe->res, "a ring of 64-byte SQEs is EINVAL");
	io_uring_queue_exit(&small);

	ASSERT_NOT(io_uring_queue_init(4, &big, IORING_SETUP_SQE128 | IORING_SETUP_CQE32),
		   "ring of big CQEs");
	small = ring;
	ring = big;
	prep(&op, 5, false);
	io_uring_submit(&ring);
	kst_ring_wait(&ring, &cqe);
	EXPECT_THAT(cqe->res == 1 && ((__u64 *)(cqe + 1))[0] == 1,
		    "a CQE of 32 bytes has the bytes moved in its second half");
	io_uring_queue_exit(&ring);
	ring = small;
}

/* ---- what io_uring does with requests ---- */

TEST_F(uring, flags)
{
	struct krdma_op op;
	unsigned int i;
	bool good = true;
	int rc;

	/* Each WRITE over the one before: the last is what remains. */
	for (i = 0; i < 8; i++) {
		kst_fill(memory + i * 100000, 0, 100000, 70 + i);
		op = op_of(KRDMA_OP_WRITE, 0, i * 100000, 100000);
		prep(&op, i, i & 1)->flags |= IOSQE_ASYNC | (i < 7 ? IOSQE_IO_LINK : 0);
	}
	io_uring_submit(&ring);
	/* They are copied by now. */
	memset(ring.sq.sqes, 0xff, DEPTH * 2 * 128);
	EXPECT_IS(0, finish(8), "8 operations, linked");
	EXPECT_THAT(kst_peer_has("uring", 0, 100000, 77), "are done one after the other");

	op = op_of(KRDMA_OP_READ, BYTES, 0, 1);
	prep(&op, 0, false)->flags |= IOSQE_IO_LINK;
	op = op_of(KRDMA_OP_WRITE, 0, 0, 100000);
	prep(&op, 1, false);
	rc = finish(2);
	EXPECT_THAT(rc == -ERANGE || rc == -ECANCELED, "a link behind one that fails");
	EXPECT_THAT(kst_peer_has("uring", 0, 100000, 77), "is not done");

	kst_fill(memory + BYTES / 2, 0, KST_PAGE, 82);
	op = op_of(KRDMA_OP_WRITE, 0, 0, BYTES / 2);
	prep(&op, 0, true);
	op = op_of(KRDMA_OP_WRITE, 0, BYTES / 2, KST_PAGE);
	op.flags = KRDMA_OPF_AFTER;
	prep(&op, 1, true);
	EXPECT_THAT(!finish(2) && kst_peer_has("uring", 0, KST_PAGE, 82),
		    "one with KRDMA_OPF_AFTER is done behind the others");

	kst_fill(memory, 0, BYTES / 2, 80);
	kst_fill(memory + BYTES / 2, 0, KST_PAGE, 81);
	op = op_of(KRDMA_OP_WRITE, 0, 0, BYTES / 2);
	prep(&op, 0, true);
	op = op_of(KRDMA_OP_WRITE, 0, BYTES / 2, KST_PAGE);
	prep(&op, 1, true)->flags |= IOSQE_IO_DRAIN;
	EXPECT_THAT(!finish(2) && kst_peer_has("uring", 0, KST_PAGE, 81) &&
			    kst_peer_has("uring", KST_PAGE, BYTES / 2 - KST_PAGE, 80),
		    "so is a drained one");

	for (i = 0; i < DEPTH; i++) {
		op = op_of(KRDMA_OP_WRITE, i * 5000, i * 5000, 5000);
		prep(&op, i, i & 1)->flags |= IOSQE_ASYNC;
	}
	kst_fill(memory, 0, DEPTH * 5000, 83);
	good = !finish(DEPTH) && kst_peer_has("uring", 0, DEPTH * 5000, 83);
	EXPECT_THAT(good, "IOSQE_ASYNC: from threads of io_uring");
}

TEST_F(uring, sqpoll)
{
	struct io_uring plain = ring;
	struct krdma_op op;
	unsigned int i;

	if (!ring_open(IORING_SETUP_SQPOLL)) {
		ring = plain;
		SKIP(return, "this kernel does not allow it here");
	}
	for (i = 0; i < DEPTH; i++) {
		op = op_of(KRDMA_OP_WRITE, i * 5000, i * 5000, 5000);
		prep(&op, i, i & 1);
	}
	kst_fill(memory, 0, DEPTH * 5000, 84);
	EXPECT_THAT(!finish(DEPTH) && kst_peer_has("uring", 0, DEPTH * 5000, 84),
		    "SQPOLL: submitted by the kernel's thread");
	io_uring_queue_exit(&ring);
	ring = plain;
}

/* By our own means: IORING_OP_ASYNC_CANCEL does not reach a driver's commands. */
TEST_F(uring, cancel)
{
	unsigned int i, n, stopped = 0, strange = 0, told = 0;
	unsigned char seen[DEPTH] = { 0 };
	struct io_uring_cqe *cqe;
	struct krdma_op op;

	for (i = 0; i < DEPTH; i++) {
		op = op_of(i & 1 ? KRDMA_OP_READ : KRDMA_OP_WRITE, 0, 0, 2 << 20);
		op.user_data = 1000 + i;
		prep(&op, i, i & 2);
	}
	io_uring_submit(&ring);
	for (i = 0; i < DEPTH; i += 2)
		told += kst_cancel(fd, 1000 + i, 0) == 1;
	for (n = 0; n < DEPTH && !kst_ring_wait(&ring, &cqe); n++) {
		bool again = cqe->user_data >= DEPTH || seen[cqe->user_data]++;

		if (cqe->res == -ECANCELED && !(cqe->user_data & 1))
			stopped++;
		else if (cqe->res != 2 << 20 || again)
			strange++;
		if (again || (cqe->res < 0 && cqe->res != -ECANCELED))
			kst_diag("operation %llu ends with %d%s",
				 (unsigned long long)cqe->user_data, cqe->res,
				 again ? " again" : "");
		io_uring_cqe_seen(&ring, cqe);
	}
	EXPECT_THAT(n == DEPTH && !strange, "of %d operations half are cancelled: each ends once",
		    DEPTH);
	/* With both ends in one kernel they may have ended before. */
	EXPECT_THAT(stopped <= told && (stopped > DEPTH / 4 || getenv("LAB_ONE_KERNEL")),
		    "most of those in time (%u of %u)", stopped, told);
}

/*
 * Linux 6.1 and 6.12 look for polls, timeouts, futexes, and what their threads are at: a command of
 * a driver is not found. A kernel that finds it has to end it as KRDMA_IOC_CANCEL does. Either way
 * what the cancel says is what happens, and both end once.
 */
TEST_F(uring, async_cancel)
{
	struct krdma_op op = op_of(KRDMA_OP_WRITE, 0, 0, 2 << 20);
	int flags, n, by[2], moved = 2 << 20;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	for (flags = 0; flags < 2; flags++) {
		prep(&op, 0, flags);
		sqe = io_uring_get_sqe(&ring);
		ASSERT_NOT(!sqe, "no SQE");
		io_uring_prep_cancel64(sqe, 0, flags ? IORING_ASYNC_CANCEL_ALL : 0);
		sqe->user_data = 1;
		EXPECT_IS(2, io_uring_submit(&ring), "an operation, and its cancel");
		for (n = 0; n < 2 && !kst_ring_wait(&ring, &cqe); n++) {
			EXPECT_THAT(cqe->user_data < 2, "one of the two");
			by[cqe->user_data & 1] = cqe->res;
			io_uring_cqe_seen(&ring, cqe);
		}
		kst_diag("IORING_OP_ASYNC_CANCEL: %d, the operation: %d", by[1], by[0]);
		/* With CANCEL_ALL the result is how many were found. */
		if (by[1] == -ENOENT || by[1] == -EALREADY || (flags && !by[1]))
			EXPECT_IS(moved, by[0], "not found: the operation is done");
		else
			EXPECT_THAT(by[1] == flags && (by[0] == -ECANCELED || by[0] == moved),
				    "found: it is cancelled, or was too far: %d, %d", by[1], by[0]);
	}
}

/* Where io_uring has no way to ask for the end, an operation has to have one of its own. */
TEST_F(uring, longest)
{
	struct krdma_op op = op_of(KRDMA_OP_WRITE, 0, 0, KST_PAGE);
	int fixed;

	for (fixed = 0; fixed < 2; fixed++) {
		if (!fixed) {
			op.flags = KRDMA_OPF_BUFFER;
			op.addr = 0;
			op.buffer = buffer;
		} else {
			op = op_of(KRDMA_OP_WRITE, 0, 0, KST_PAGE);
		}
		op.timeout_ns = KRDMA_URING_TIMEOUT_NS;
		EXPECT_IS(KST_PAGE, one(&op, fixed), "%s: a deadline of 60 s",
			  fixed ? "a buffer of io_uring" : "a buffer");
		op.timeout_ns++;
		if (features & KRDMA_FEATURE_CANCEL)
			EXPECT_IS(KST_PAGE, one(&op, fixed), "and a longer one");
		else
			EXPECT_FAILS(fd, one(&op, fixed), -EINVAL, "60 s at most",
				     "a longer one, without a way to cancel");
	}
}

KST_HARNESS_MAIN(2)
