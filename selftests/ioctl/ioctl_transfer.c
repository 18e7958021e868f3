// SPDX-License-Identifier: GPL-2.0
/*
 * Operations between two nodes: that the right bytes arrive at the right place
 * and no others change, batches and their statuses, and what is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

#define RW           (PROT_READ | PROT_WRITE)
#define REGION_BYTES ((10ULL << 20) + 12345)
#define MEMORY_BYTES (12UL << 20)
#define LATE_BYTES   (48UL << 20)
#define GUARD        64

static int fd;
static __u32 session, region, region_ro, region_wo, region_big;
static const char *name_wo = "'transfer-wo'";
static __u32 buffer, buffer_ro;
static __u64 segment;
static unsigned char *memory; /* MEMORY_BYTES, all of it in the two buffers */

static bool reads_to_write(const void *entry, void *arg)
{
	const struct krdma_device_info *dev = entry;

	(void)arg;
	return (dev->flags & KRDMA_DEVICE_USABLE) && (dev->flags & KRDMA_DEVICE_READ_TO_WRITE);
}

/* To be written only; what may not be read at all is no use to some transports. */
static int open_write_only(struct __test_metadata *_metadata)
{
	__u32 id;
	int rc;

	if (!kst_count(KRDMA_LIST_DEVICES, reads_to_write, NULL))
		return kst_open_region(fd, session, "transfer-wo", 0, &region_wo, NULL);
	rc = kst_open_region(fd, session, "transfer-wo", 0, &id, NULL);
	EXPECT_FAILS(fd, rc, -EOPNOTSUPP, "'transfer-wo'",
		     "a write-only export can't be confirmed");
	name_wo = "'transfer'";
	return kst_open_region(fd, session, "transfer", KRDMA_RIGHT_WRITE, &region_wo, NULL);
}

KST_FIXTURE(transfer, fd)
FIXTURE_SETUP(transfer)
{
	fd = kst_setup(true);
	memory = kst_map(MEMORY_BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, MEMORY_BYTES);
	ASSERT_NOT(kst_setup_region(fd, "transfer", REGION_BYTES, &session, &region, &segment) ||
			   !kst_peer("export transfer-ro mem 4096 1 1") ||
			   !kst_peer("export transfer-wo mem 4096 2 1") ||
			   !kst_peer("export transfer-big memfd %llu 3 0", 2ULL << 30) ||
			   kst_open_region(fd, session, "transfer-ro", 0, &region_ro, NULL) ||
			   open_write_only(_metadata) ||
			   kst_open_region(fd, session, "transfer-big", 0, &region_big, NULL) ||
			   kst_buffer(fd, memory, MEMORY_BYTES, KRDMA_BUFFER_WRITABLE, &buffer) ||
			   kst_buffer(fd, memory, MEMORY_BYTES, 0, &buffer_ro),
		   "no regions of node B: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

/* Is the peer's memory as it should be? */
static bool peer_has(__u64 offset, __u64 length, unsigned int seed)
{
	return kst_peer_has("transfer", offset, length, seed);
}

/* The bytes before and behind a range, which nobody has written. */
static bool peer_around(__u64 offset, __u64 length)
{
	__u64 before = offset < GUARD ? offset : GUARD;
	__u64 after = REGION_BYTES - offset - length;

	if (after > GUARD)
		after = GUARD;
	return peer_has(offset - before, before, KST_BASE) &&
	       peer_has(offset + length, after, KST_BASE);
}

static void peer_base(__u64 offset, __u64 length)
{
	if (!kst_peer("fill transfer %llu %llu %d", (unsigned long long)offset,
		      (unsigned long long)length, KST_BASE))
		kst_bail("node B can't fill its memory");
}

/* ---- every size, both ways ---- */

/* @at: offset in memory; by address, or through the buffer that covers it. */
static int move(int opcode, bool by_buffer, __u64 offset, size_t at, __u64 length, __u64 *moved)
{
	struct krdma_op op = {
		.opcode = opcode,
		.flags = by_buffer ? KRDMA_OPF_BUFFER : 0,
		.region = region,
		.user_data = 0x1122334455667788ULL,
		.offset = offset,
		.length = length,
		.addr = by_buffer ? at : (uintptr_t)memory + at,
		.buffer = by_buffer ? buffer : 0,
	};
	struct krdma_completion comp;
	__u32 failed = 99;
	int rc;

	memset(&comp, 0xff, sizeof(comp));
	rc = kst_submit(fd, &op, &comp, 1, &failed);
	if (rc)
		return rc;
	if (comp.user_data != op.user_data || comp.flags || comp.reserved ||
	    failed != !!comp.status || (!comp.status && comp.result != length)) {
		kst_diag("a completion makes no sense: status %d result %llu", comp.status,
			 (unsigned long long)comp.result);
		return -EBADMSG;
	}
	if (moved)
		*moved = comp.result;
	return comp.status;
}

static bool there_and_back(__u64 offset, size_t at, __u64 length, bool by_buffer)
{
	unsigned char *mem = memory + at, *back = mem + 1;
	static unsigned int seed = 100;
	bool good;
	int rc;

	seed++;
	kst_fill(mem, offset, length, seed);
	rc = move(KRDMA_OP_WRITE, by_buffer, offset, at, length, NULL);
	good = !rc && peer_has(offset, length, seed) && peer_around(offset, length) &&
	       kst_check(mem, offset, length, seed) < 0;
	if (!rc) {
		/* Another way, to another address, with something around it. */
		memset(back - GUARD, 0xee, length + 2 * GUARD);
		rc = move(KRDMA_OP_READ, !by_buffer, offset, at + 1, length, NULL);
		good &= !rc && kst_check(back, offset, length, seed) < 0 &&
			kst_all(back - GUARD, GUARD, 0xee) && kst_all(back + length, GUARD, 0xee);
	}
	if (!good)
		kst_diag("%llu bytes at %llu, memory at %zu%s: %s", (unsigned long long)length,
			 (unsigned long long)offset, at, by_buffer ? " (buffer)" : "",
			 rc ? kst_last_error(fd, NULL) : "wrong bytes");
	peer_base(offset, length);
	return good;
}

TEST_F(transfer, sizes)
{
	static const __u64 sizes[] = { 1,  2,   3,    4,    7,    8,    9,    63,   64,
				       65, 511, 1000, 2047, 4095, 4096, 4097, 8191, 8193 };
	const __u64 large[] = { 65537, segment - 1, segment, segment + 1, 3 * segment + 5 };
	__u64 length;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		length = sizes[i];
		EXPECT_THAT(there_and_back(1001 * i + 7, KST_PAGE + 333 * i, length, i & 1),
			    "small sizes, odd places");
		EXPECT_THAT(there_and_back(segment - (length + 1) / 2, 2 * KST_PAGE - length / 2,
					   length, !(i & 1)),
			    "small sizes across a segment's end");
	}
	for (length = 2; length < 70; length += length < 9 ? 1 : 15)
		EXPECT_THAT(there_and_back(9 * KST_PAGE - 1 - length / 3, KST_PAGE - 5, length,
					   length & 1),
			    "small sizes across the end of a page");
	for (i = 0; i < KST_ARRAY_SIZE(large); i++) {
		EXPECT_THAT(there_and_back(0, KST_PAGE, large[i], i & 1),
			    "sizes around a segment's");
		EXPECT_THAT(there_and_back(segment + 4095 - i, KST_PAGE + 99, large[i], !(i & 1)),
			    "several segments");
	}
	EXPECT_THAT(there_and_back(REGION_BYTES - 1, 2 * KST_PAGE - 1, 1, true), "the last byte");
	EXPECT_THAT(there_and_back(REGION_BYTES - 12346, KST_PAGE, 12346, false), "the end");
	EXPECT_THAT(there_and_back(0, KST_PAGE, REGION_BYTES, true), "all of the region");
	EXPECT_THAT(peer_has(0, REGION_BYTES, KST_BASE), "nothing else in the region has changed");
}

/* ---- what is outside, and what was not granted ---- */

TEST_F(transfer, ranges)
{
	static const struct {
		__u64 offset, length;
	} ranges[] = {
		{ REGION_BYTES, 1 },
		{ REGION_BYTES - 1, 2 },
		{ 0, REGION_BYTES + 1 },
		{ ~0ULL, 1 },
		{ ~0ULL, 2 },
		{ 1, ~0ULL },
		{ 1ULL << 63, 1ULL << 63 },
		{ 0, (1ULL << 32) - 1 },
		{ 0, 1ULL << 63 },
		{ 1ULL << 32, 1 },
	};
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(ranges); i++)
		EXPECT_FAILS(fd,
			     move(i & 1 ? KRDMA_OP_READ : KRDMA_OP_WRITE, false, ranges[i].offset,
				  0, ranges[i].length, NULL),
			     -ERANGE, "'transfer'", "range %zu, outside the region, is ERANGE", i);
	EXPECT_FAILS(fd, move(KRDMA_OP_READ, false, 0, 0, 0, NULL), -EINVAL, "length",
		     "no bytes are EINVAL");
}

TEST_F(transfer, rights)
{
	__u32 id;
	int rc;

	EXPECT_FAILS(fd, kst_move(fd, KRDMA_OP_WRITE, region_ro, 0, memory, 8, NULL), -EACCES,
		     "'transfer-ro'", "a WRITE to a read-only export is EACCES");
	EXPECT_IS(0, kst_move(fd, KRDMA_OP_READ, region_ro, 0, memory, 8, NULL), "a READ is not");
	EXPECT_FAILS(fd, kst_move(fd, KRDMA_OP_READ, region_wo, 0, memory, 8, NULL), -EACCES,
		     name_wo, "a READ from a write-only region is EACCES");
	EXPECT_IS(0, kst_move(fd, KRDMA_OP_WRITE, region_wo, 0, memory, 8, NULL), "a WRITE is not");
	EXPECT_FAILS(fd, kst_open_region(fd, session, "transfer-ro", KRDMA_RIGHT_WRITE, &id, NULL),
		     -EACCES, "'transfer-ro'", "opening it for writing is EACCES");
	rc = kst_open_region(fd, session, "transfer", KRDMA_RIGHT_READ, &id, NULL);
	EXPECT_IS(0, rc, "an export can be opened with fewer rights than it has");
	EXPECT_FAILS(fd, kst_move(fd, KRDMA_OP_WRITE, id, 0, memory, 8, NULL), -EACCES,
		     "'transfer'", "the others are EACCES then");
	kst_destroy(fd, id);
}

/* ---- batches ---- */

static struct krdma_op ops[KRDMA_SUBMIT_MAX + 1];
static struct krdma_completion comps[KRDMA_SUBMIT_MAX + 1];

/* Small operations all over the region, memory in between left alone. */
static void batch(int opcode, __u32 n, size_t at)
{
	__u32 i;

	memset(ops, 0, sizeof(ops));
	memset(comps, 0xaa, sizeof(comps));
	for (i = 0; i < n; i++) {
		ops[i].opcode = opcode;
		ops[i].region = region;
		ops[i].user_data = ~(__u64)i;
		ops[i].offset = 5000ULL * i + 1;
		ops[i].length = 50;
		ops[i].addr = (uintptr_t)memory + at + 50 * i;
	}
}

TEST_F(transfer, batches)
{
	const __u32 n = KRDMA_SUBMIT_MAX;
	__u32 failed = 99, i;
	bool good;
	int rc;

	batch(KRDMA_OP_WRITE, n, 0);
	for (i = 0; i < n; i++)
		kst_fill(memory + 50 * i, ops[i].offset, 50, 7);
	rc = kst_submit(fd, ops, comps, n, &failed);
	for (good = !rc && !failed, i = 0; i < n; i++)
		good &= comps[i].user_data == ~(__u64)i && !comps[i].status &&
			comps[i].result == 50 && !comps[i].flags && !comps[i].reserved;
	EXPECT_THAT(good, "%u operations in one call, a completion for each, in order", n);
	good = peer_has(ops[n - 1].offset, 50, 7) && peer_around(ops[n - 1].offset, 50) &&
	       peer_has(ops[500].offset, 50, 7) && peer_around(ops[500].offset, 50);
	batch(KRDMA_OP_READ, n, MEMORY_BYTES / 2);
	memset(memory + MEMORY_BYTES / 2, 0, 50 * n);
	rc = kst_submit(fd, ops, comps, n, &failed);
	for (good &= !rc && !failed, i = 0; i < n; i++)
		good &= kst_check(memory + MEMORY_BYTES / 2 + 50 * i, ops[i].offset, 50, 7) < 0;
	EXPECT_THAT(good, "each has moved its own bytes");
	peer_base(0, REGION_BYTES);

	EXPECT_FAILS(fd, kst_submit(fd, ops, comps, n + 1, NULL), -EINVAL, "1024",
		     "one more is EINVAL");
	EXPECT_FAILS(fd, kst_submit(fd, ops, comps, 0, NULL), -EINVAL, "1024", "none is EINVAL");
	EXPECT_FAILS(fd, kst_submit(fd, ops, comps, ~0U, NULL), -EINVAL, "1024",
		     "2^32-1 are EINVAL");
	batch(KRDMA_OP_READ, 1, 0);
	EXPECT_THAT(!kst_submit(fd, ops, comps, 1, NULL) && !comps[0].status &&
			    kst_all(comps + 1, sizeof(comps[0]), 0xaa),
		    "one gets one completion");
}

static int submit_strides(void *from, __u32 op_stride, void *to, __u32 comp_stride, __u32 n)
{
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)from,
		.completions = (uintptr_t)to,
		.count = n,
		.op_stride = op_stride,
		.completion_stride = comp_stride,
	};

	return kst_call(fd, KRDMA_IOC_SUBMIT, &cmd);
}

TEST_F(transfer, strides)
{
	const __u32 op = sizeof(struct krdma_op), comp = sizeof(struct krdma_completion);
	static unsigned char from[2 * 4096], to[2 * 4096];
	const __u32 bad[][2] = { { 0, comp }, { op - 1, comp }, { 4097, comp }, { ~0U, comp },
				 { op, 0 },   { op, comp - 1 }, { op, 4097 },   { op, ~0U } };
	const __u32 fine[][2] = { { op + 1, comp + 3 }, { op + 48, comp + 32 }, { 4096, 4096 } };
	size_t i;
	int rc;

	batch(KRDMA_OP_READ, 2, 0);
	for (i = 0; i < KST_ARRAY_SIZE(bad); i++)
		EXPECT_FAILS(fd, submit_strides(ops, bad[i][0], comps, bad[i][1], 2), -EINVAL,
			     "stride", "strides too short or too long are EINVAL");
	for (i = 0; i < KST_ARRAY_SIZE(fine); i++) {
		__u32 s = fine[i][0], t = fine[i][1];
		struct krdma_completion c[2];

		memset(from, 0, sizeof(from));
		memset(to, 0xff, sizeof(to));
		memcpy(from, &ops[0], op);
		memcpy(from + s, &ops[1], op);
		rc = submit_strides(from, s, to, t, 2);
		memcpy(&c[0], to, comp);
		memcpy(&c[1], to + t, comp);
		EXPECT_THAT(!rc && !c[0].status && !c[1].status && c[1].user_data == ~1ULL &&
				    kst_all(to + comp, t - comp, 0) &&
				    kst_all(to + t + comp, t - comp, 0) &&
				    kst_all(to + 2 * t, sizeof(to) - 2 * t, 0xff),
			    "longer ones pass zero tails, and zero those of completions");
		from[s + s - 1] = 1;
		EXPECT_FAILS(fd, submit_strides(from, s, to, t, 2), -E2BIG, "operation 1",
			     "and refuse others");
	}
}

/* ---- one bad operation, and nothing is started ---- */

static struct krdma_op *last = &ops[2];

#define BREAK(_what, _errno, ...)                                                              \
	do {                                                                                   \
		batch(KRDMA_OP_WRITE, 3, 0);                                                   \
		__VA_ARGS__;                                                                   \
		EXPECT_FAILS(fd, kst_submit(fd, ops, comps, 3, NULL), -(_errno), NULL, _what); \
		EXPECT_THAT(kst_all(comps, 3 * sizeof(comps[0]), 0xaa), _what);                \
	} while (0)
#define BY_BUFFER last->flags = KRDMA_OPF_BUFFER, last->buffer = buffer, last->addr = 0

TEST_F(transfer, all_or_nothing)
{
	char *page;
	int rc;

	memset(memory, 0x55, 4096);
	BREAK("opcode 0", EOPNOTSUPP, last->opcode = 0);
	BREAK("opcode 8", EOPNOTSUPP, last->opcode = 8);
	BREAK("a flush with local memory", EINVAL, last->opcode = KRDMA_OP_FLUSH);
	BREAK("a flush with a buffer", EINVAL, last->opcode = KRDMA_OP_FLUSH, BY_BUFFER);
	BREAK("a flush of no bytes", EINVAL, last->opcode = KRDMA_OP_FLUSH, last->addr = 0,
	      last->length = 0);
	BREAK("a flush that is verified", EINVAL, last->opcode = KRDMA_OP_FLUSH, last->addr = 0,
	      last->flags = KRDMA_OPF_VERIFY);
	BREAK("a flush with a message", EINVAL, last->opcode = KRDMA_OP_FLUSH, last->addr = 0,
	      last->flags = KRDMA_OPF_MESSAGE);
	BREAK("a flush outside of the region", ERANGE, last->opcode = KRDMA_OP_FLUSH,
	      last->addr = 0, last->offset = ~0ULL);
	BREAK("a flush of volatile memory", EOPNOTSUPP, last->opcode = KRDMA_OP_FLUSH,
	      last->addr = 0);
	BREAK("opcode 255", EOPNOTSUPP, last->opcode = 255);
	BREAK("a flag", EOPNOTSUPP, last->flags = KRDMA_OPF_UNPLACED << 1);
	BREAK("placed and unplaced", EINVAL, last->opcode = KRDMA_OP_WRITE,
	      last->flags |= KRDMA_OPF_PLACED | KRDMA_OPF_UNPLACED);
	BREAK("a READ that is placed", EINVAL, last->opcode = KRDMA_OP_READ,
	      last->flags |= KRDMA_OPF_PLACED);
	BREAK("flag 0x8000", EOPNOTSUPP, last->flags = 0x8000);
	BREAK("reserved0", EINVAL, last->reserved0 = 1);
	BREAK("naddr without a vector", EINVAL, last->naddr = 1);
	BREAK("nranges without ranges", EINVAL, last->nranges = 0x8000);
	BREAK("reserved2", EINVAL, last->reserved2 = 1ULL << 63);
	BREAK("operand", EINVAL, last->operand = 1);
	BREAK("compare", EINVAL, last->compare = 1);
	BREAK("a buffer without its flag", EINVAL, last->buffer = buffer);
	BREAK("length 0", EINVAL, last->length = 0);
	BREAK("length 2^32-1", ERANGE, last->length = 0xffffffffU);
	BREAK("length 2^63", ERANGE, last->length = 1ULL << 63);
	BREAK("a range that wraps", ERANGE, last->length = -last->offset);
	BREAK("no region", ENOENT, last->region = 0);
	BREAK("a session for a region", ENOENT, last->region = session);
	BREAK("a buffer for a region", ENOENT, last->region = buffer);
	BREAK("a READ not granted", EACCES, last->opcode = KRDMA_OP_READ, last->region = region_wo,
	      last->offset = 0);
	BREAK("a WRITE not granted", EACCES, last->region = region_ro, last->offset = 0);
	BREAK("no buffer", ENOENT, last->flags = KRDMA_OPF_BUFFER, last->addr = 0);
	BREAK("a region for a buffer", ENOENT, BY_BUFFER, last->buffer = region);
	BREAK("outside the buffer", ERANGE, BY_BUFFER, last->addr = MEMORY_BYTES - 49);
	BREAK("far outside the buffer", ERANGE, BY_BUFFER, last->addr = 1ULL << 63);
	BREAK("wrapping in the buffer", ERANGE, BY_BUFFER, last->addr = -49ULL);
	BREAK("a READ to a buffer that is not writable", EACCES, BY_BUFFER,
	      last->opcode = KRDMA_OP_READ, last->buffer = buffer_ro);
	BREAK("more than may be pinned for it", EDQUOT, last->region = region_big, last->offset = 0,
	      last->length = (1ULL << 30) + 1);

	page = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	munmap(page + KST_PAGE, KST_PAGE);
	batch(KRDMA_OP_WRITE, 3, 0);
	page += KST_PAGE - 2 * sizeof(ops[0]);
	memcpy(page, ops, 2 * sizeof(ops[0]));
	rc = kst_submit(fd, (void *)page, comps, 3, NULL);
	EXPECT_FAILS(fd, rc, -EFAULT, "operation 2", "operations that can't be read are EFAULT");
	EXPECT_FAILS(fd, kst_submit(fd, NULL, comps, 1, NULL), -EFAULT, NULL, "also at NULL");
	munmap(page - KST_PAGE + 2 * sizeof(ops[0]), KST_PAGE);
	EXPECT_THAT(peer_has(0, 3 * 5000, KST_BASE),
		    "none of these calls has started an operation");
}

/* ---- operations that fail, and completions that can't be told ---- */

TEST_F(transfer, statuses)
{
	char *ro = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	__u32 failed = 99;
	int rc;

	batch(KRDMA_OP_WRITE, 4, 0);
	kst_fill(memory, 0, 200, 9);
	ops[1].addr = 4096;
	ops[3].opcode = KRDMA_OP_READ;
	ops[3].addr = (uintptr_t)ro;
	rc = kst_submit(fd, ops, comps, 4, &failed);
	EXPECT_THAT(!rc && failed == 2 && !comps[0].status && comps[1].status == -EFAULT &&
			    !comps[1].result && !comps[2].status && comps[2].result == 50 &&
			    comps[3].status == -EFAULT && !comps[3].result &&
			    comps[3].user_data == ~3ULL,
		    "memory that can't be pinned fails its own operation only");
	EXPECT_THAT(kst_sentence(fd, -EFAULT, "0x1000"), "and the sentence is that of the first");
	EXPECT_THAT(peer_has(ops[1].offset - GUARD, 50 + 2 * GUARD, KST_BASE),
		    "it has moved nothing");
	EXPECT_THAT(kst_all(ro, KST_PAGE, 0), "a read-only sink stays as it was");
	munmap(ro, KST_PAGE);
	peer_base(0, 20000);
}

TEST_F(transfer, completions)
{
	char *page = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	struct krdma_completion *half = (void *)(page + KST_PAGE - sizeof(*half));
	struct krdma_ioc_submit *cmd = kst_map(KST_PAGE, RW, MAP_PRIVATE);
	int rc;

	munmap(page + KST_PAGE, KST_PAGE);
	batch(KRDMA_OP_WRITE, 2, 0);
	kst_fill(memory, ops[0].offset, 50, 11);
	rc = kst_submit(fd, ops, NULL, 2, NULL);
	EXPECT_FAILS(fd, rc, -EFAULT, "completion", "completions at NULL are EFAULT");
	EXPECT_THAT(peer_has(ops[0].offset, 50, 11), "though the operations were done");
	rc = kst_submit(fd, ops, half, 2, NULL);
	EXPECT_FAILS(fd, rc, -EFAULT, "completion", "so is one of them in unmapped memory");
	EXPECT_THAT(half->user_data == ~0ULL && !half->status && half->result == 50,
		    "those before it are counted");
	mprotect(page, KST_PAGE, PROT_READ);
	EXPECT_FAILS(fd, kst_submit(fd, ops, (void *)page, 1, NULL), -EFAULT, "completion",
		     "and one in read-only memory");
	munmap(page, KST_PAGE);

	/* The errno of the call and that of its sentence, where an operation failed as well. */
	batch(KRDMA_OP_READ, 1, 0);
	ops[0].region = region_big;
	ops[0].length = MEMORY_BYTES;
	ops[0].timeout_ns = 1;
	EXPECT_FAILS(fd, kst_submit(fd, ops, NULL, 1, NULL), -EFAULT, NULL,
		     "the sentence is about the call, not about an operation in it");
	*cmd = (struct krdma_ioc_submit){
		.size = sizeof(*cmd),
		.ops = (uintptr_t)ops,
		.completions = (uintptr_t)comps,
		.count = 1,
		.op_stride = sizeof(ops[0]),
		.completion_stride = sizeof(comps[0]),
	};
	mprotect(cmd, KST_PAGE, PROT_READ);
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_SUBMIT, cmd), -EFAULT, NULL,
		     "also where the call's own reply can't be written");
	munmap(cmd, KST_PAGE);
	peer_base(0, 20000);
}

/* ---- deadlines ---- */

/* One that can't be done in that time, and a short one that can. */
static void late(struct __test_metadata *_metadata, int opcode, __u64 ns, unsigned char *mem,
		 unsigned int seed)
{
	const char *name = opcode == KRDMA_OP_READ ? "READ" : "WRITE";
	bool good;
	int rc;

	batch(KRDMA_OP_READ, 2, 0);
	ops[0].opcode = opcode;
	ops[0].region = region_big;
	ops[0].offset = 0;
	ops[0].length = LATE_BYTES;
	ops[0].addr = (uintptr_t)mem;
	ops[0].timeout_ns = ns;
	if (opcode == KRDMA_OP_WRITE)
		kst_fill(mem, 0, LATE_BYTES, seed);
	else
		memset(mem, 0xff, LATE_BYTES);
	rc = kst_submit(fd, ops, comps, 2, NULL);
	good = !rc && comps[0].status == -ETIMEDOUT && comps[0].result < LATE_BYTES &&
	       !comps[1].status && kst_sentence(fd, -ETIMEDOUT, "deadline");
	/* What is said to have moved has moved; node B's memfd is zero or was written before. */
	if (good && opcode == KRDMA_OP_WRITE)
		good = kst_peer_has("transfer-big", 0, comps[0].result, seed);
	else if (good)
		good = kst_all(mem, comps[0].result, 0);
	EXPECT_THAT(
		good,
		"a %s that has %llu ns is ETIMEDOUT, another in the call is done: call %s, status %s, %llu bytes",
		name, (unsigned long long)ns, strerror(-rc), strerror(-comps[0].status),
		(unsigned long long)comps[0].result);
}

TEST_F(transfer, deadlines)
{
	static const __u64 times[] = { 1, 1000, 1000000 };
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .session = session };
	unsigned char *mem = kst_map(LATE_BYTES, RW, MAP_PRIVATE);
	size_t i;
	int rc;

	/* So that the target has its pages, which count here if it is this host. */
	EXPECT_EQ(0, kst_move(fd, KRDMA_OP_READ, region_big, 0, mem, LATE_BYTES, NULL));
	self->before = kst_now();
	for (i = 0; i < KST_ARRAY_SIZE(times); i++)
		late(_metadata, KRDMA_OP_READ, times[i], mem, 0);
	for (i = 0; i < KST_ARRAY_SIZE(times); i++)
		late(_metadata, KRDMA_OP_WRITE, times[i], mem, 21 + i);
	munmap(mem, LATE_BYTES);
	/* A posted work request can't be taken back: a short one may be done in time. */
	batch(KRDMA_OP_READ, 1, 0);
	ops[0].timeout_ns = 1;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	EXPECT_THAT(!rc && (comps[0].status == -ETIMEDOUT ||
			    (!comps[0].status && comps[0].result == 50)),
		    "a short one is done, or ETIMEDOUT");
	/* Pinned without an account it may not be for long (uapi.rst, SUBMIT). */
	ops[0].timeout_ns = 300000000001ULL;
	EXPECT_FAILS(fd, kst_submit(fd, ops, comps, 1, NULL), -EINVAL, NULL,
		     "without a buffer more than 300 s are EINVAL");
	ops[0].timeout_ns = 300000000000ULL;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	EXPECT_IS(0, rc ? rc : comps[0].status, "300 s are not");
	ops[0].flags = KRDMA_OPF_BUFFER;
	ops[0].buffer = buffer;
	ops[0].addr = 0;
	ops[0].timeout_ns = ~0ULL;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	EXPECT_IS(0, rc ? rc : comps[0].status, "with a buffer the longest does not pass at once");
	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_PING, &ping), "the session takes no harm");
}

/* ---- sessions, shared and not ---- */

static bool mine(const void *entry, void *arg)
{
	const struct krdma_session_info *s = entry;
	struct krdma_session_info *want = arg;

	if (s->flags != want->flags || s->state != KRDMA_SESSION_UP || s->peer.port != KST_PORT)
		return false;
	*want = *s;
	return true;
}

static int sessions(__u32 flags, struct krdma_session_info *info)
{
	*info = (struct krdma_session_info){ .flags = flags };
	return kst_count(KRDMA_LIST_SESSIONS, mine, info);
}

static bool no_private(void *arg)
{
	struct krdma_session_info info;

	(void)arg;
	return !sessions(KRDMA_SESSION_PRIVATE, &info);
}

/* Another process with a session; tells and waits to be told. */
static int other_process(int told, int tell)
{
	int file = kst_open();
	__u32 id, reg;
	char c = 0;

	if (kst_connect(file, 0, &id) || kst_open_region(file, id, "transfer", 0, &reg, NULL) ||
	    write(tell, &c, 1) != 1 || read(told, &c, 1) != 1)
		return 1;
	return kst_move(file, KRDMA_OP_READ, reg, 0, memory, 100, NULL) ? 2 : 0;
}

TEST_F(transfer, sharing)
{
	struct krdma_session_info info, alone;
	int to[2], from[2], status;
	__u32 id, private;
	pid_t pid;
	char c;

	ASSERT_NOT(pipe(to) || pipe(from), "pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(other_process(to[0], from[1]));
	close(from[1]);
	ASSERT_NOT(read(from[0], &c, 1) != 1, "the other process has no session");
	EXPECT_THAT(sessions(0, &info) == 1 && info.users >= 2, "two processes share one session");
	ASSERT_NOT(kst_connect(fd, 0, &id), "CONNECT: %s", kst_last_error(fd, NULL));
	EXPECT_THAT(id != session && sessions(0, &alone) == 1 && alone.serial == info.serial &&
			    alone.users > info.users,
		    "a file that connects again gets another id of it");
	kst_destroy(fd, id);
	ASSERT_NOT(kst_connect(fd, KRDMA_CONNECT_PRIVATE, &private), "CONNECT: %s",
		   kst_last_error(fd, NULL));
	EXPECT_THAT(sessions(0, &info) == 1 && sessions(KRDMA_SESSION_PRIVATE, &alone) == 1 &&
			    alone.serial != info.serial && alone.users == 1,
		    "a private session is another one");
	ASSERT_NOT(kst_connect(fd, KRDMA_CONNECT_PRIVATE, &id), "CONNECT: %s",
		   kst_last_error(fd, NULL));
	EXPECT_THAT(sessions(KRDMA_SESSION_PRIVATE, &alone) == 2, "two private ones are two");
	kst_destroy(fd, id);
	kst_destroy(fd, private);
	EXPECT_THAT(kst_wait_ms(KST_STILL_MS, no_private, NULL), "they do not linger");
	ASSERT_NOT(write(to[1], &c, 1) != 1, "pipe: %s", strerror(errno));
	waitpid(pid, &status, 0);
	EXPECT_THAT(WIFEXITED(status) && !WEXITSTATUS(status),
		    "the other process has used it meanwhile");
	close(to[0]);
	close(to[1]);
	close(from[0]);
}

KST_HARNESS_MAIN(2)
