// SPDX-License-Identifier: GPL-2.0
/*
 * Atomic operations: what they do to the peer's memory and give back, by each way in;
 * what is refused; and that none is lost or done twice when many processes on two hosts
 * add to one number. Where the transport has none: that it says so.
 *
 * ADDS is how many there are of these, in all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"
#include "kst_uring.h"

#define RW     (PROT_READ | PROT_WRITE)
#define BYTES  (4UL << 20)
#define DEPTH  32
#define ADDERS 4 /* processes on each host */

static int fd;
static __u32 session, region, plain_region, buffer, buffer_ro;
static __u64 segment;
static __u64 *memory;

/* What is in the peer's memory there. */
static __u64 peer_value(__u64 offset)
{
	const char *reply = kst_peer("value atomic %llu", (unsigned long long)offset);

	if (!reply)
		kst_bail("node B does not tell what it has");
	return strtoull(reply, NULL, 0);
}

static struct krdma_op add(__u64 offset, void *before, __u64 value)
{
	struct krdma_op op = kst_op(KRDMA_OP_FETCH_ADD, region, offset, before, 8);

	op.operand = value;
	return op;
}

static struct krdma_op swap(__u64 offset, void *before, __u64 compare, __u64 value)
{
	struct krdma_op op = kst_op(KRDMA_OP_CMP_SWAP, region, offset, before, 8);

	op.compare = compare;
	op.operand = value;
	return op;
}

static bool has_atomics(const void *entry, void *arg)
{
	const struct krdma_device_info *info = entry;

	(void)arg;
	return info->flags & KRDMA_DEVICE_USABLE && info->flags & KRDMA_DEVICE_ATOMIC;
}

static bool shell(const char *command)
{
	return !system(command); /* NOLINT(cert-env33-c): of a test */
}

/* As need_cuts in lib.sh, which says why: before there are packets. */
static bool loses; /* acknowledgments can be lost */

static bool may_lose(void)
{
	return !strcmp(getenv("LAB_RDMA") ?: "", "rxe") && kst_number("LAB_NODES", 1) > 1 &&
	       shell("for dev in lo data0; do "
		     "tc qdisc show dev $dev | grep -q clsact || tc qdisc add dev $dev clsact || exit; "
		     "done");
}

KST_FIXTURE(atomic, fd)
FIXTURE_SETUP(atomic)
{
	struct krdma_ioc_open cmd = { .size = sizeof(cmd), .name = "atomic" };

	if (!kst_count(KRDMA_LIST_DEVICES, has_atomics, NULL))
		SKIP(return, "this transport has no atomic operations");
	loses = may_lose();
	fd = kst_setup(true);
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	memset(memory, 0, BYTES);
	ASSERT_NOT(kst_setup_region(fd, "atomic-plain", KST_PAGE, &session, &plain_region, NULL) ||
			   !kst_peer("export atomic mem %lu 7 1", BYTES),
		   "no region: %s", kst_last_error(fd, NULL));
	cmd.session = session;
	ASSERT_NOT(kst_call(fd, KRDMA_IOC_OPEN, &cmd) ||
			   kst_buffer(fd, memory, BYTES, KRDMA_BUFFER_WRITABLE, &buffer) ||
			   kst_buffer(fd, memory, BYTES, 0, &buffer_ro),
		   "no region, or no buffer: %s", kst_last_error(fd, NULL));
	region = cmd.id;
	segment = cmd.segment_size;
	EXPECT_THAT((cmd.granted & 7) == 7, "the region has all rights: %#x", cmd.granted);
	self->before = kst_now();
}

/* The call's error, or the operation's. */
static int one(struct krdma_op op)
{
	struct krdma_completion comp = { 0 };
	int rc = kst_submit(fd, &op, &comp, 1, NULL);

	if (!rc && !comp.status && comp.result != 8)
		return -EBADMSG;
	return rc ? rc : comp.status;
}

TEST_F(atomic, values)
{
	__u64 before[3] = { 1, 2, 3 };
	int rc;

	kst_peer("set atomic 64 40");
	kst_peer("set atomic 56 %llu", ~0ULL);
	kst_peer("set atomic 72 %llu", ~0ULL);
	rc = one(add(64, &before[1], 2));
	EXPECT_THAT(!rc && before[1] == 40 && peer_value(64) == 42, "40 and 2 are 42 (%d)", rc);
	rc = one(add(64, &before[1], -2ULL));
	EXPECT_THAT(!rc && before[1] == 42 && peer_value(64) == 40, "and 2 less are 40 (%d)", rc);
	rc = one(swap(64, &before[1], 40, 0x1122334455667788));
	EXPECT_THAT(!rc && before[1] == 40 && peer_value(64) == 0x1122334455667788,
		    "what is equal is swapped (%d)", rc);
	rc = one(swap(64, &before[1], 40, 7));
	EXPECT_THAT(!rc && before[1] == 0x1122334455667788 && peer_value(64) == before[1],
		    "what does not match stays, and is returned (%d)", rc);
	rc = one(add(56, &before[1], 1));
	EXPECT_THAT(!rc && before[1] == ~0ULL && !peer_value(56), "nothing is beyond 64 bits (%d)",
		    rc);
	EXPECT_THAT(before[0] == 1 && before[2] == 3 && peer_value(72) == ~0ULL &&
			    peer_value(64) == 0x1122334455667788,
		    "what is around it stays as it was, on either side");
}

/* The ends of the region and of a segment, and each place of a page. */
TEST_F(atomic, places)
{
	__u64 at, before, bad = 0;
	int rc = 0;

	for (at = 0; at < KST_PAGE; at += 8) {
		__u64 to = at % 64 ? at : (segment < BYTES ? segment : BYTES) - at - 8,
		      was = peer_value(to);

		rc = one(add(to, (char *)memory + at, at + 1));
		before = memory[at / 8];
		if (rc || before != was || peer_value(to) != was + at + 1)
			bad++;
	}
	EXPECT_THAT(!bad, "each place of a page (%llu are wrong, last: %d)",
		    (unsigned long long)bad, rc);
	at = BYTES - 8;
	before = peer_value(at);
	rc = one(add(at, memory, 1));
	EXPECT_THAT(!rc && memory[0] == before && peer_value(at) == before + 1,
		    "the last 8 bytes of the region (%d)", rc);
}

TEST_F(atomic, refused)
{
	struct krdma_vec vec = { (uintptr_t)memory, 8 };
	struct krdma_op op;
	unsigned int i;

	for (i = 1; i < 8; i++) {
		EXPECT_FAILS(fd, one(add(i, memory, 1)), -EINVAL, "multiple of 8",
			     "at %u in the region", i);
		EXPECT_FAILS(fd, one(add(0, (char *)memory + i, 1)), -EINVAL, "multiple of 8",
			     "to an address with %u left", i);
	}
	op = add(0, memory, 1);
	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = buffer;
	op.addr = 4;
	EXPECT_FAILS(fd, one(op), -EINVAL, "multiple of 8", "at 4 in a buffer");
	op.addr = 0;
	op.buffer = buffer_ro;
	EXPECT_FAILS(fd, one(op), -EACCES, "writable", "to a buffer that can't be filled");
	for (i = 0; i <= 16; i += 4) {
		op = add(0, memory, 1);
		op.length = i;
		if (i != 8)
			EXPECT_FAILS(fd, one(op), -EINVAL, NULL, "%u bytes", i);
	}
	op = add(0, &vec, 1);
	op.flags = KRDMA_OPF_VECTOR;
	op.naddr = 1;
	EXPECT_FAILS(fd, one(op), -EINVAL, "8 bytes", "to a vector");
	op = add(0, memory, 1);
	op.flags = KRDMA_OPF_RANGES;
	op.offset = (uintptr_t)&vec;
	op.nranges = 1;
	EXPECT_FAILS(fd, one(op), -EINVAL, "8 bytes", "to ranges");
	op = add(0, memory, 1);
	op.compare = 1;
	EXPECT_FAILS(fd, one(op), -EINVAL, "reserved", "an addition with something to compare");
	op = kst_op(KRDMA_OP_READ, region, 0, memory, 8);
	op.operand = 1;
	EXPECT_FAILS(fd, one(op), -EINVAL, "reserved", "a READ with an operand");
	EXPECT_FAILS(fd, one(add(BYTES, memory, 1)), -ERANGE, "'atomic'", "behind the region");
	EXPECT_FAILS(fd, one(add(-8ULL, memory, 1)), -ERANGE, "'atomic'", "far behind it");
	op = add(0, memory, 1);
	op.region = plain_region;
	EXPECT_FAILS(fd, one(op), -EACCES, "atomic", "in a region that was not opened for it");
	op = add(0, (void *)KST_PAGE, 1);
	EXPECT_FAILS(fd, one(op), -EFAULT, "0x1000", "to memory that is not there");
}

#define FILTER(verb) "tc filter " verb " dev data0 ingress "
/* Acknowledgments, also of atomics (InfiniBand Architecture Specification, Volume 1, 9.2.1). */
#define LOSE          \
	FILTER("add") \
	"protocol ip u32 match ip protocol 17 0xff match u8 0x10 0xfc at 28 action drop"

static bool is_added(void *arg)
{
	(void)arg;
	return peer_value(192) == 41;
}

/* What rxe then has for the response of the second is none. */
TEST_F(atomic, acknowledgments)
{
	struct krdma_completion comps[2], done[2] = { 0 };
	__u32 accepted = 0, n;
	struct krdma_op ops[2];
	int rc, i;

	if (!loses)
		SKIP(return, "no acknowledgment can be lost");
	kst_peer("set atomic 192 40");
	memory[0] = memory[1] = ~0ULL;
	ops[0] = kst_op(KRDMA_OP_WRITE, region, 200, &memory[1], 8);
	ops[1] = add(192, &memory[0], 1);
	ops[1].user_data = 1;
	if (!shell(LOSE))
		kst_bail("no filter");
	rc = kst_start(fd, ops, 2, &accepted);
	ASSERT_NOT(rc || accepted != 2, "a WRITE and an addition begin: %d", rc);
	EXPECT_THAT(kst_wait(is_added, NULL), "40 and 1 are 41");
	if (!shell(FILTER("del")))
		kst_bail("the filter stays");
	for (n = 0; n < accepted; n += rc) {
		rc = kst_reap(fd, comps, 2);
		if (rc <= 0)
			kst_bail("they do not end");
		for (i = 0; i < rc; i++)
			done[comps[i].user_data] = comps[i];
	}
	EXPECT_THAT(!done[0].status && peer_value(200) == ~0ULL, "the WRITE is done: %d",
		    done[0].status);
	EXPECT_THAT(
		done[1].status ? done[1].status == -ECONNRESET && memory[0] == ~0ULL :
				 memory[0] == 40,
		"the outcome of the other is unknown, or it has brought what was there: %d, %lld",
		done[1].status, (long long)memory[0]);
}

/* The front ends beside the one of the tests above. */
TEST_F(atomic, async)
{
	struct krdma_op ops[DEPTH];
	struct krdma_completion comps[DEPTH];
	__u32 accepted, i, n, sum = 0;
	bool inorder = true;
	int rc;

	kst_peer("set atomic 128 1000");
	/* Each after the one before: so each finds what that has left. */
	for (i = 0; i < DEPTH; i++) {
		ops[i] = add(128, &memory[i], 1);
		ops[i].flags = KRDMA_OPF_AFTER | (i % 2 ? KRDMA_OPF_BUFFER : 0);
		ops[i].buffer = i % 2 ? buffer : 0;
		if (i % 2)
			ops[i].addr = i * sizeof(*memory);
		ops[i].user_data = i;
	}
	rc = kst_start(fd, ops, DEPTH, &accepted);
	for (n = 0; !rc && n < accepted; n += rc, rc = 0) {
		rc = kst_reap(fd, comps, DEPTH);
		if (rc <= 0)
			break;
		for (i = 0; i < (__u32)rc; i++)
			sum += comps[i].status ? 0 : 1;
	}
	for (i = 0; i < DEPTH; i++)
		inorder &= memory[i] == 1000 + i;
	EXPECT_THAT(!rc && sum == DEPTH && inorder && peer_value(128) == 1000 + DEPTH,
		    "asynchronous, one after the other, buffers in turn with other memory");
}

TEST_F(atomic, ring)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct krdma_op op;
	unsigned int i, good = 0, places = 0;

	if (!kst_ring_open(&ring, 2 * DEPTH, 0, memory, BYTES)) {
		SKIP(return, "this kernel has no io_uring");
	}
	kst_peer("set atomic 136 0");
	for (i = 0; i < DEPTH; i++) {
		op = add(136, &memory[i], 1);
		kst_ring_op(&ring, fd, &op, i, i % 2);
	}
	ASSERT_NOT(io_uring_submit(&ring) != DEPTH, "the ring takes less than %d", DEPTH);
	for (i = 0; i < DEPTH && !kst_ring_wait(&ring, &cqe); i++) {
		good += cqe->res == 8;
		io_uring_cqe_seen(&ring, cqe);
	}
	/* Each had a turn of its own. */
	for (i = 0; i < DEPTH; i++)
		places |= memory[i] < DEPTH ? 1U << memory[i] : 0;
	EXPECT_THAT(good == DEPTH && places == ~0U && peer_value(136) == DEPTH,
		    "by io_uring, fixed buffers in turn with other memory: %u done, turns %#x",
		    good, places);
	io_uring_queue_exit(&ring);
}

TEST_F(atomic, exact)
{
	unsigned int factor = kst_number("TIME_FACTOR", 1);
	unsigned int all = kst_number("ADDS", 100000 / factor / factor), each = all / ADDERS / 2;
	unsigned int failed = 0, i;
	pid_t pids[ADDERS];
	double began = kst_seconds();
	bool told;
	int status;

	kst_peer("set atomic 4096 0");
	fflush(stdout);
	for (i = 0; i < ADDERS; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(kst_add("atomic", 4096, each, i % 2));
	}
	told = kst_peer("adders atomic 4096 %u %u", each, ADDERS);
	for (i = 0; i < ADDERS; i++) {
		waitpid(pids[i], &status, 0);
		failed += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	EXPECT_THAT(told && !failed && peer_value(4096) == 2ULL * ADDERS * each,
		    "%u processes on 2 hosts add 1, %u times in all: %llu", 2 * ADDERS,
		    2 * ADDERS * each, (unsigned long long)peer_value(4096));
	kst_diag("in %.1f s", kst_seconds() - began);
}

/* ---- where there are none ---- */

KST_FIXTURE(without, fd)
FIXTURE_SETUP(without)
{
	if (kst_count(KRDMA_LIST_DEVICES, has_atomics, NULL))
		SKIP(return, "this transport has atomic operations");
	fd = kst_setup(true);
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	ASSERT_NOT(kst_setup_region(fd, "atomic-plain", KST_PAGE, &session, &plain_region, NULL) ||
			   !kst_peer("export atomic mem %lu 7 1", BYTES),
		   "no region: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

TEST_F(without, refused)
{
	struct krdma_op op = kst_op(KRDMA_OP_FETCH_ADD, plain_region, 0, memory, 8);
	__u32 id;

	EXPECT_FAILS(fd, kst_open_region(fd, session, "atomic", KRDMA_RIGHT_ATOMIC, &id, NULL),
		     -EOPNOTSUPP, "no atomic operations", "a region for atomics");
	EXPECT_FAILS(fd, one(op), -EOPNOTSUPP, "no atomic operations", "an operation");
	EXPECT_THAT(!kst_open_region(fd, session, "atomic", 0, &id, NULL),
		    "all rights that there are: the others");
	kst_destroy(fd, id);
}

KST_HARNESS_MAIN(2)
