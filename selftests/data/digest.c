// SPDX-License-Identifier: GPL-2.0
/*
 * Digests: KRDMA_OP_DIGEST beside a CRC32C computed here, and KRDMA_OPF_VERIFY. On a
 * kernel with fault injection bits are flipped between the wire and the check, on either
 * node: each has to be found.
 *
 * FLIPS is how many.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crc32c.h"
#include "kst_harness.h"
#include "kst_uring.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BYTES (9UL << 20) /* more than two requests */

static int fd;
static __u32 session, region, region_wo, region_memfd, buffer;
static unsigned char *memory, *back;

KST_FIXTURE(digest, fd)
FIXTURE_SETUP(digest)
{
	fd = kst_setup(true);
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	back = kst_map(BYTES, RW, MAP_PRIVATE);
	kst_fill(memory, 0, BYTES, KST_BASE);
	ASSERT_NOT(kst_setup_region(fd, "digest", BYTES, &session, &region, NULL) ||
			   !kst_peer("export digest-wo mem 4096 2 1") ||
			   !kst_peer("export digest-memfd memfd %lu 1 0", BYTES) ||
			   kst_open_region(fd, session, "digest-memfd", 0, &region_memfd, NULL) ||
			   kst_buffer(fd, back, BYTES, KRDMA_BUFFER_WRITABLE, &buffer),
		   "no regions, or no buffer: %s", kst_last_error(fd, NULL));
	if (kst_open_region(fd, session, "digest-wo", 0, &region_wo, NULL))
		region_wo = 0;
	self->before = kst_now();
}

static int one(struct krdma_op op)
{
	struct krdma_completion comp = { 0 };
	int rc = kst_submit(fd, &op, &comp, 1, NULL);

	if (!rc && !comp.status && comp.result != op.length)
		return -EBADMSG;
	return rc ? rc : comp.status;
}

static struct krdma_op digest_op(__u32 of, __u64 offset, __u64 length, __u64 *to)
{
	struct krdma_op op = kst_op(KRDMA_OP_DIGEST, of, offset, to, length);

	*to = 0xeeeeeeeeeeeeeeee;
	return op;
}

TEST_F(digest, known)
{
	/* RFC 3720, B.4 */
	static const struct {
		unsigned char byte;
		__u32 crc;
	} known[] = { { 0, 0x8a9136aa }, { 0xff, 0x62a8ab43 } };
	__u64 number;
	unsigned int i;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(known); i++) {
		memset(memory, known[i].byte, 32);
		kst_move(fd, KRDMA_OP_WRITE, region, 100, memory, 32, NULL);
		rc = one(digest_op(region, 100, 32, &number));
		EXPECT_THAT(!rc && number == known[i].crc && number == crc32c(memory, 32),
			    "32 bytes of %#x: %#llx (%d)", known[i].byte,
			    (unsigned long long)number, rc);
	}
}

TEST_F(digest, sizes)
{
	static const __u64 sizes[] = { 1,     7,       8,       4095,          4096, 4097,
				       65536, 1000001, 4 << 20, (4 << 20) + 1, BYTES };
	unsigned int i, bad = 0;
	__u64 number, offset;
	int rc = 0;

	kst_peer("fill digest 0 %lu 7", BYTES);
	kst_fill(memory, 0, BYTES, 7);
	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		for (offset = 0; offset <= 5000 && offset + sizes[i] <= BYTES; offset += 2500) {
			rc = one(digest_op(region, offset, sizes[i], &number));
			if (rc || number != crc32c(memory + offset, sizes[i])) {
				kst_diag("%llu at %llu: %#llx (%d)", (unsigned long long)sizes[i],
					 (unsigned long long)offset, (unsigned long long)number,
					 rc);
				bad++;
			}
		}
	}
	EXPECT_THAT(!bad, "sizes and places of all kinds");
	/* Nothing of it was ever touched. */
	rc = one(digest_op(region_memfd, 0, BYTES, &number));
	memset(back, 0, BYTES);
	EXPECT_THAT(!rc && number == crc32c(back, BYTES),
		    "pages of a memfd that are not there yet (%d)", rc);
}

TEST_F(digest, doors)
{
	struct krdma_vec ranges[] = { { 5000, 3000 }, { 0, 1 }, { 100000, 70000 } };
	__u64 *numbers = (__u64 *)back;
	struct krdma_op op = digest_op(region, (uintptr_t)ranges, 73001, &numbers[0]);
	__u32 want;
	int rc;

	op.flags = KRDMA_OPF_RANGES;
	op.nranges = KST_ARRAY_SIZE(ranges);
	rc = one(op);
	memcpy(back + 4096, memory + 5000, 3000);
	back[4096 + 3000] = memory[0];
	memcpy(back + 4096 + 3001, memory + 100000, 70000);
	want = crc32c(back + 4096, 73001);
	EXPECT_THAT(!rc && numbers[0] == want, "ranges count as one after the other (%d)", rc);
	want = crc32c(memory + 30, 5000);
	op = digest_op(region, 30, 5000, &numbers[0]);
	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = buffer;
	op.addr = 64;
	rc = one(op);
	EXPECT_THAT(!rc && numbers[8] == want, "into a buffer (%d)", rc);
}

TEST_F(digest, uring)
{
	__u32 want = crc32c(memory + 30, 5000);
	__u64 *numbers = (__u64 *)back;
	unsigned int i, good = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct krdma_op op;

	if (!kst_ring_open(&ring, 64, 0, back, BYTES))
		SKIP(return, "this kernel has no io_uring");
	for (i = 0; i < 32; i++) {
		op = digest_op(region, 30, 5000, &numbers[i]);
		kst_ring_op(&ring, fd, &op, i, i % 2);
	}
	ASSERT_NOT(io_uring_submit(&ring) != 32, "the ring takes less");
	for (i = 0; i < 32 && !kst_ring_wait(&ring, &cqe); i++) {
		good += cqe->res == 5000;
		io_uring_cqe_seen(&ring, cqe);
	}
	for (i = 0; i < 32; i++)
		good += numbers[i] == want;
	EXPECT_THAT(good == 64,
		    "by io_uring, 32 at a time, fixed buffers in turn with other memory");
	io_uring_queue_exit(&ring);
}

TEST_F(digest, refused)
{
	__u64 numbers[2];
	struct krdma_op op;

	EXPECT_FAILS(fd, one(digest_op(region, BYTES, 1, numbers)), -ERANGE, "'digest'",
		     "behind the region");
	EXPECT_FAILS(fd, one(digest_op(region, 0, 0, numbers)), -EINVAL, "length", "of nothing");
	op = digest_op(region, 0, 8, numbers);
	op.addr += 4;
	EXPECT_FAILS(fd, one(op), -EINVAL, "multiple of 8", "not to a multiple of 8");
	op = digest_op(region, 0, 8, numbers);
	op.flags = KRDMA_OPF_VERIFY;
	EXPECT_FAILS(fd, one(op), -EINVAL, "verified", "a digest that is verified");
}

TEST_F(digest, no_right)
{
	__u64 number;
	struct krdma_op op;

	if (!region_wo)
		SKIP(return, "this transport has no regions to be written only");
	EXPECT_FAILS(fd, one(digest_op(region_wo, 0, 1, &number)), -EACCES, "reading",
		     "a digest without the right to read");
	op = kst_op(KRDMA_OP_WRITE, region_wo, 0, memory, 8);
	op.flags = KRDMA_OPF_VERIFY;
	EXPECT_FAILS(fd, one(op), -EACCES, "reading", "verifying without it");
}

static unsigned long counter(const char *name)
{
	unsigned long value = 0;
	char path[100];
	FILE *in;

	snprintf(path, sizeof(path), "/sys/class/misc/krdma_mover/counters/%s", name);
	in = fopen(path, "r");
	if (!in || fscanf(in, "%lu", &value) != 1)
		kst_bail("%s: %s", path, strerror(errno));
	fclose(in);
	return value;
}

static int verified(int opcode, __u64 offset, void *at, __u64 length)
{
	struct krdma_op op = kst_op(opcode, region, offset, at, length);

	op.flags = KRDMA_OPF_VERIFY;
	return one(op);
}

TEST_F(digest, verify)
{
	struct krdma_vec pieces[] = { { (uintptr_t)memory + 11, 70000 },
				      { (uintptr_t)memory + 200000, 5 },
				      { (uintptr_t)memory + 300001, 9999 } };
	struct krdma_vec same[] = { { 0, 8 }, { 0, 8 } };
	unsigned long found;
	struct krdma_op op;
	int rc;

	kst_fill(memory, 123, 5 << 20, 21);
	rc = verified(KRDMA_OP_WRITE, 123, memory, 5 << 20);
	EXPECT_THAT(!rc && kst_peer_has("digest", 123, 5 << 20, 21),
		    "a WRITE that is verified (%d)", rc);
	memset(back, 0, 5 << 20);
	rc = verified(KRDMA_OP_READ, 123, back, 5 << 20);
	EXPECT_THAT(!rc && !memcmp(back, memory, 5 << 20), "a READ that is verified (%d)", rc);
	op = kst_op(KRDMA_OP_WRITE, region, 777, pieces, 80004);
	op.flags = KRDMA_OPF_VERIFY | KRDMA_OPF_VECTOR;
	op.naddr = KST_ARRAY_SIZE(pieces);
	EXPECT_IS(0, one(op), "pieces that are verified");
	op = kst_op(KRDMA_OP_READ, region, 777, NULL, 80004);
	op.flags = KRDMA_OPF_VERIFY | KRDMA_OPF_BUFFER;
	op.buffer = buffer;
	op.addr = 3;
	rc = one(op);
	EXPECT_THAT(!rc && !memcmp(back + 3, memory + 11, 70000) &&
			    !memcmp(back + 3 + 70005, memory + 300001, 9999),
		    "into a buffer, verified (%d)", rc);
	op.timeout_ns = 1000;
	EXPECT_IS(-ETIMEDOUT, one(op), "with a deadline that is over");

	/* The second half takes the place of the first: so they differ, both times. */
	found = counter("mismatches");
	kst_fill(memory, 0, 16, 40);
	op = kst_op(KRDMA_OP_WRITE, region, (uintptr_t)same, memory, 16);
	op.flags = KRDMA_OPF_VERIFY | KRDMA_OPF_RANGES;
	op.nranges = KST_ARRAY_SIZE(same);
	EXPECT_FAILS(fd, one(op), -EILSEQ, "differ", "two ranges that are one");
	EXPECT_THAT(counter("mismatches") - found == 2, "it is moved twice");
	op.flags &= ~KRDMA_OPF_VERIFY;
	EXPECT_IS(0, one(op), "which an operation without VERIFY does not find");
}

/* Ended in the middle: by a cancel, by the end of what it is about, by that of the file. */
TEST_F(digest, ends)
{
	struct krdma_op ops[32];
	struct krdma_completion comps[KST_ARRAY_SIZE(ops)];
	unsigned int i, n, round, strange = 0, ended;
	__u64 *numbers = (__u64 *)back;
	__u32 accepted, other, id;
	int file, rc;

	for (round = 0; round < 12; round++) {
		file = kst_open();
		ASSERT_NOT(!kst_peer("export digest-end mem %lu 3 1", BYTES) ||
				   kst_connect(file, 0, &other) ||
				   kst_open_region(file, other, "digest-end", 0, &id, NULL),
			   "no region: %s", kst_last_error(file, NULL));
		n = KST_ARRAY_SIZE(ops);
		for (i = 0; i < n; i++) {
			ops[i] = digest_op(id, i * 1000, 8 << 20, &numbers[i]);
			if (i % 2) {
				ops[i] = kst_op(KRDMA_OP_WRITE, id, 4096 * i, memory, 100000);
				ops[i].flags = KRDMA_OPF_VERIFY;
			}
			ops[i].timeout_ns = round % 4 == 3 ? (i + 1) * 1000000 : KST_TIMEOUT_NS;
		}
		ASSERT_NOT(kst_start(file, ops, n, &accepted) || accepted != n, "SUBMIT: %s",
			   kst_last_error(file, NULL));
		/* Some have ended by now. */
		for (ended = 0; ended < round; ended += rc) {
			rc = kst_reap(file, comps, round - ended);
			ASSERT_NOT(rc <= 0, "read: %d", rc);
			for (i = 0; i < (unsigned int)rc; i++)
				strange += comps[i].status && comps[i].status != -EILSEQ &&
					   comps[i].status != -ETIMEDOUT;
		}
		if (round % 4 == 0)
			kst_cancel(file, 0, KRDMA_CANCEL_ALL);
		else if (round % 4 == 1)
			kst_peer("unexport digest-end");
		else if (round % 4 == 2)
			close(file);
		for (; round % 4 != 2 && ended < n; ended += rc) {
			rc = kst_reap(file, comps, n);
			ASSERT_NOT(rc <= 0, "read: %d", rc);
			for (i = 0; i < (unsigned int)rc; i++)
				strange += comps[i].status && comps[i].status != -ECANCELED &&
					   comps[i].status != -ESTALE &&
					   comps[i].status != -EILSEQ &&
					   comps[i].status != -ETIMEDOUT;
		}
		if (round % 4 != 2)
			close(file);
		if (round % 4 != 1)
			kst_peer("unexport digest-end");
	}
	EXPECT_THAT(!strange, "cancelled, revoked, closed and late: each ends once, as it should");
}

/* ---- flips ---- */

/* The next @times that memory is looked at, here or on node B. */
static void flip(bool there, unsigned int times)
{
	if (there ? !kst_peer("fault krdma_mover_flip %u", times) :
		    kst_fault("krdma_mover_flip", times))
		kst_bail("no bits can be flipped");
}

static void flips(struct __test_metadata *_metadata, bool there)
{
	static const __u64 sizes[] = { 1, 100, 4096, 70000 };
	unsigned int times = kst_number("FLIPS", 100), i, wrong = 0;
	const char *where = there ? "on node B" : "here";
	unsigned long found = counter("mismatches");
	__u64 number, length;
	int rc = 0;

	for (i = 0; i < times; i++) {
		length = sizes[i % KST_ARRAY_SIZE(sizes)];
		flip(there, 1);
		if (there) {
			kst_fill(memory, i, length, 30);
			rc = verified(KRDMA_OP_WRITE, i, memory, length);
			wrong += rc || !kst_peer_has("digest", i, length, 30);
		} else {
			memset(back, 0, length);
			rc = verified(KRDMA_OP_READ, i, back, length);
			wrong += rc || kst_check(back, i, length, 7) >= 0;
		}
	}
	EXPECT_THAT(!wrong && counter("mismatches") - found == times,
		    "%u flips of a bit %s: %lu are found, and what is moved again is right (%d)",
		    times, where, counter("mismatches") - found, rc);
	for (i = 0; i < 4; i++) {
		flip(there, 1000);
		rc = there ? verified(KRDMA_OP_WRITE, 0, memory, sizes[i]) :
			     verified(KRDMA_OP_READ, 0, back, sizes[i]);
		flip(there, 0);
		EXPECT_FAILS(fd, rc, -EILSEQ, "differ", "%llu bytes, flipped %s again and again",
			     (unsigned long long)sizes[i], where);
	}
	EXPECT_IS(0, one(digest_op(region, 0, 100, &number)), "and then all is as ever");
}

TEST_F(digest, flips)
{
	if (access("/sys/kernel/debug/krdma_mover_flip", F_OK))
		SKIP(return, "this kernel has no fault injection");
	if (getenv("LAB_ONE_KERNEL"))
		SKIP(return, "both ends flip bits, and may flip the same");
	kst_peer("fill digest 0 %lu 7", BYTES);
	flips(_metadata, false);
	flips(_metadata, true);
}

KST_HARNESS_MAIN(2)
