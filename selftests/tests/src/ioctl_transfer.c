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

#include "kst.h"

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
		.flags = by_buffer ? KRDMA_OP_BUFFER : 0,
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

static void test_sizes(void)
{
	static const __u64 sizes[] = { 1,  2,   3,    4,    7,    8,    9,    63,   64,
				       65, 511, 1000, 2047, 4095, 4096, 4097, 8191, 8193 };
	const __u64 large[] = { 65537, segment - 1, segment, segment + 1, 3 * segment + 5 };
	bool good = true;
	__u64 length;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		length = sizes[i];
		good &= there_and_back(1001 * i + 7, KST_PAGE + 333 * i, length, i & 1);
		good &= there_and_back(segment - (length + 1) / 2, 2 * KST_PAGE - length / 2,
				       length, !(i & 1));
	}
	kst_ok(good, "small sizes, odd places, and across a segment's end, both ways");
	for (good = true, length = 2; length < 70; length += length < 9 ? 1 : 15)
		good &= there_and_back(9 * KST_PAGE - 1 - length / 3, KST_PAGE - 5, length,
				       length & 1);
	kst_ok(good, "small sizes across the end of a page, both ways");
	for (good = true, i = 0; i < KST_ARRAY_SIZE(large); i++) {
		good &= there_and_back(0, KST_PAGE, large[i], i & 1);
		good &= there_and_back(segment + 4095 - i, KST_PAGE + 99, large[i], !(i & 1));
	}
	kst_ok(good, "sizes around a segment's, and several segments");
	good = there_and_back(REGION_BYTES - 1, 2 * KST_PAGE - 1, 1, true) &&
	       there_and_back(REGION_BYTES - 12346, KST_PAGE, 12346, false) &&
	       there_and_back(0, KST_PAGE, REGION_BYTES, true);
	kst_ok(good, "the last byte, the end, and all of the region");
	kst_ok(peer_has(0, REGION_BYTES, KST_BASE), "nothing else in the region has changed");
}

/* ---- what is outside, and what was not granted ---- */

static void test_ranges(void)
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
	bool good = true;
	size_t i;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(ranges); i++) {
		rc = move(i & 1 ? KRDMA_OP_READ : KRDMA_OP_WRITE, false, ranges[i].offset, 0,
			  ranges[i].length, NULL);
		if (rc == -ERANGE && kst_sentence(fd, -ERANGE, "'transfer'"))
			continue;
		kst_diag("range %zu: %s", i, strerror(-rc));
		good = false;
	}
	kst_ok(good, "a range outside the region is ERANGE");
	kst_fails(fd, move(KRDMA_OP_READ, false, 0, 0, 0, NULL), -EINVAL, "length",
		  "no bytes are EINVAL");
}

static bool reads_to_write(const void *entry, void *arg)
{
	const struct krdma_device_info *dev = entry;

	(void)arg;
	return (dev->flags & KRDMA_DEVICE_USABLE) && (dev->flags & KRDMA_DEVICE_READ_TO_WRITE);
}

/* To be written only; what may not be read at all is no use to some transports. */
static int open_write_only(void)
{
	__u32 id;
	int rc;

	if (!kst_count(KRDMA_LIST_DEVICES, reads_to_write, NULL))
		return kst_open_region(fd, session, "transfer-wo", 0, &region_wo, NULL);
	rc = kst_open_region(fd, session, "transfer-wo", 0, &id, NULL);
	kst_fails(fd, rc, -EOPNOTSUPP, "'transfer-wo'", "a write-only export can't be confirmed");
	name_wo = "'transfer'";
	return kst_open_region(fd, session, "transfer", KRDMA_RIGHT_WRITE, &region_wo, NULL);
}

static void test_rights(void)
{
	__u32 id;
	int rc;

	kst_fails(fd, kst_move(fd, KRDMA_OP_WRITE, region_ro, 0, memory, 8, NULL), -EACCES,
		  "'transfer-ro'", "a WRITE to a read-only export is EACCES");
	kst_is(kst_move(fd, KRDMA_OP_READ, region_ro, 0, memory, 8, NULL), 0, "a READ is not");
	kst_fails(fd, kst_move(fd, KRDMA_OP_READ, region_wo, 0, memory, 8, NULL), -EACCES, name_wo,
		  "a READ from a write-only region is EACCES");
	kst_is(kst_move(fd, KRDMA_OP_WRITE, region_wo, 0, memory, 8, NULL), 0, "a WRITE is not");
	kst_fails(fd, kst_open_region(fd, session, "transfer-ro", KRDMA_RIGHT_WRITE, &id, NULL),
		  -EACCES, "'transfer-ro'", "opening it for writing is EACCES");
	rc = kst_open_region(fd, session, "transfer", KRDMA_RIGHT_READ, &id, NULL);
	kst_is(rc, 0, "an export can be opened with fewer rights than it has");
	kst_fails(fd, kst_move(fd, KRDMA_OP_WRITE, id, 0, memory, 8, NULL), -EACCES, "'transfer'",
		  "the others are EACCES then");
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

static void test_batches(void)
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
	kst_ok(good, "%u operations in one call, a completion for each, in order", n);
	good = peer_has(ops[n - 1].offset, 50, 7) && peer_around(ops[n - 1].offset, 50) &&
	       peer_has(ops[500].offset, 50, 7) && peer_around(ops[500].offset, 50);
	batch(KRDMA_OP_READ, n, MEMORY_BYTES / 2);
	memset(memory + MEMORY_BYTES / 2, 0, 50 * n);
	rc = kst_submit(fd, ops, comps, n, &failed);
	for (good &= !rc && !failed, i = 0; i < n; i++)
		good &= kst_check(memory + MEMORY_BYTES / 2 + 50 * i, ops[i].offset, 50, 7) < 0;
	kst_ok(good, "each has moved its own bytes");
	peer_base(0, REGION_BYTES);

	kst_fails(fd, kst_submit(fd, ops, comps, n + 1, NULL), -EINVAL, "1024",
		  "one more is EINVAL");
	kst_fails(fd, kst_submit(fd, ops, comps, 0, NULL), -EINVAL, "1024", "none is EINVAL");
	kst_fails(fd, kst_submit(fd, ops, comps, ~0U, NULL), -EINVAL, "1024", "2^32-1 are EINVAL");
	batch(KRDMA_OP_READ, 1, 0);
	kst_ok(!kst_submit(fd, ops, comps, 1, NULL) && !comps[0].status &&
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

static void test_strides(void)
{
	const __u32 op = sizeof(struct krdma_op), comp = sizeof(struct krdma_completion);
	static unsigned char from[2 * 4096], to[2 * 4096];
	const __u32 bad[][2] = { { 0, comp }, { op - 1, comp }, { 4097, comp }, { ~0U, comp },
				 { op, 0 },   { op, comp - 1 }, { op, 4097 },   { op, ~0U } };
	const __u32 fine[][2] = { { op + 1, comp + 3 }, { op + 48, comp + 32 }, { 4096, 4096 } };
	bool good = true;
	size_t i;
	int rc;

	batch(KRDMA_OP_READ, 2, 0);
	for (i = 0; i < KST_ARRAY_SIZE(bad); i++) {
		rc = submit_strides(ops, bad[i][0], comps, bad[i][1], 2);
		good &= rc == -EINVAL && kst_sentence(fd, -EINVAL, "stride");
	}
	kst_ok(good, "strides too short or too long are EINVAL");
	for (good = true, i = 0; i < KST_ARRAY_SIZE(fine); i++) {
		__u32 s = fine[i][0], t = fine[i][1];
		struct krdma_completion c[2];

		memset(from, 0, sizeof(from));
		memset(to, 0xff, sizeof(to));
		memcpy(from, &ops[0], op);
		memcpy(from + s, &ops[1], op);
		rc = submit_strides(from, s, to, t, 2);
		memcpy(&c[0], to, comp);
		memcpy(&c[1], to + t, comp);
		good &= !rc && !c[0].status && !c[1].status && c[1].user_data == ~1ULL &&
			kst_all(to + comp, t - comp, 0) && kst_all(to + t + comp, t - comp, 0) &&
			kst_all(to + 2 * t, sizeof(to) - 2 * t, 0xff);
		from[s + s - 1] = 1;
		good &= submit_strides(from, s, to, t, 2) == -E2BIG &&
			kst_sentence(fd, -E2BIG, "operation 1");
	}
	kst_ok(good, "longer ones pass zero tails, refuse others, and zero those of completions");
}

/* ---- one bad operation, and nothing is started ---- */

static struct krdma_op *last = &ops[2];

#define BREAK(_what, _errno, ...)                                                                \
	do {                                                                                     \
		batch(KRDMA_OP_WRITE, 3, 0);                                                     \
		__VA_ARGS__;                                                                     \
		rc = kst_submit(fd, ops, comps, 3, NULL);                                        \
		if (rc != -(_errno) || !kst_sentence(fd, -(_errno), NULL) ||                     \
		    !kst_all(comps, 3 * sizeof(comps[0]), 0xaa)) {                               \
			kst_diag("%s: %s, expected %s", _what, strerror(-rc), strerror(_errno)); \
			good = false;                                                            \
		}                                                                                \
	} while (0)
#define BY_BUFFER last->flags = KRDMA_OP_BUFFER, last->buffer = buffer, last->addr = 0

static void test_all_or_nothing(void)
{
	struct kst_state before = kst_now();
	bool good = true;
	char *page;
	int rc;

	memset(memory, 0x55, 4096);
	BREAK("opcode 0", EOPNOTSUPP, last->opcode = 0);
	BREAK("opcode 7", EOPNOTSUPP, last->opcode = 7);
	BREAK("opcode 255", EOPNOTSUPP, last->opcode = 255);
	BREAK("a flag", EOPNOTSUPP, last->flags = KRDMA_OP_UNPLACED << 1);
	BREAK("placed and unplaced", EINVAL, last->opcode = KRDMA_OP_WRITE,
	      last->flags |= KRDMA_OP_PLACED | KRDMA_OP_UNPLACED);
	BREAK("a READ that is placed", EINVAL, last->opcode = KRDMA_OP_READ,
	      last->flags |= KRDMA_OP_PLACED);
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
	BREAK("no buffer", ENOENT, last->flags = KRDMA_OP_BUFFER, last->addr = 0);
	BREAK("a region for a buffer", ENOENT, BY_BUFFER, last->buffer = region);
	BREAK("outside the buffer", ERANGE, BY_BUFFER, last->addr = MEMORY_BYTES - 49);
	BREAK("far outside the buffer", ERANGE, BY_BUFFER, last->addr = 1ULL << 63);
	BREAK("wrapping in the buffer", ERANGE, BY_BUFFER, last->addr = -49ULL);
	BREAK("a READ to a buffer that is not writable", EACCES, BY_BUFFER,
	      last->opcode = KRDMA_OP_READ, last->buffer = buffer_ro);
	BREAK("more than may be pinned for it", EDQUOT, last->region = region_big, last->offset = 0,
	      last->length = (1ULL << 30) + 1);
	kst_ok(good, "a malformed operation is told from the others by its errno");

	page = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	munmap(page + KST_PAGE, KST_PAGE);
	batch(KRDMA_OP_WRITE, 3, 0);
	page += KST_PAGE - 2 * sizeof(ops[0]);
	memcpy(page, ops, 2 * sizeof(ops[0]));
	rc = kst_submit(fd, (void *)page, comps, 3, NULL);
	kst_fails(fd, rc, -EFAULT, "operation 2", "operations that can't be read are EFAULT");
	kst_fails(fd, kst_submit(fd, NULL, comps, 1, NULL), -EFAULT, NULL, "also at NULL");
	munmap(page - KST_PAGE + 2 * sizeof(ops[0]), KST_PAGE);
	kst_ok(peer_has(0, 3 * 5000, KST_BASE), "none of these calls has started an operation");
	kst_settled(&before, "and none has left anything");
}

/* ---- operations that fail, and completions that can't be told ---- */

static void test_statuses(void)
{
	struct kst_state before = kst_now();
	char *ro = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	__u32 failed = 99;
	bool good;
	int rc;

	batch(KRDMA_OP_WRITE, 4, 0);
	kst_fill(memory, 0, 200, 9);
	ops[1].addr = 4096;
	ops[3].opcode = KRDMA_OP_READ;
	ops[3].addr = (uintptr_t)ro;
	rc = kst_submit(fd, ops, comps, 4, &failed);
	good = !rc && failed == 2 && !comps[0].status && comps[1].status == -EFAULT &&
	       !comps[1].result && !comps[2].status && comps[2].result == 50 &&
	       comps[3].status == -EFAULT && !comps[3].result && comps[3].user_data == ~3ULL;
	kst_ok(good, "memory that can't be pinned fails its own operation only");
	kst_ok(kst_sentence(fd, -EFAULT, "0x1000"), "and the sentence is that of the first");
	kst_ok(peer_has(ops[1].offset - GUARD, 50 + 2 * GUARD, KST_BASE), "it has moved nothing");
	kst_ok(kst_all(ro, KST_PAGE, 0), "a read-only sink stays as it was");
	munmap(ro, KST_PAGE);
	peer_base(0, 20000);
	kst_settled(&before, "nothing is left of those that failed");
}

static void test_completions(void)
{
	struct kst_state before = kst_now();
	char *page = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	struct krdma_completion *half = (void *)(page + KST_PAGE - sizeof(*half));
	struct krdma_ioc_submit *cmd = kst_map(KST_PAGE, RW, MAP_PRIVATE);
	int rc;

	munmap(page + KST_PAGE, KST_PAGE);
	batch(KRDMA_OP_WRITE, 2, 0);
	kst_fill(memory, ops[0].offset, 50, 11);
	rc = kst_submit(fd, ops, NULL, 2, NULL);
	kst_fails(fd, rc, -EFAULT, "completion", "completions at NULL are EFAULT");
	kst_ok(peer_has(ops[0].offset, 50, 11), "though the operations were done");
	rc = kst_submit(fd, ops, half, 2, NULL);
	kst_fails(fd, rc, -EFAULT, "completion", "so is one of them in unmapped memory");
	kst_ok(half->user_data == ~0ULL && !half->status && half->result == 50,
	       "those before it are told");
	mprotect(page, KST_PAGE, PROT_READ);
	kst_fails(fd, kst_submit(fd, ops, (void *)page, 1, NULL), -EFAULT, "completion",
		  "and one in read-only memory");
	munmap(page, KST_PAGE);

	/* The errno of the call and that of its sentence, where an operation failed as well. */
	batch(KRDMA_OP_READ, 1, 0);
	ops[0].region = region_big;
	ops[0].length = MEMORY_BYTES;
	ops[0].timeout_ns = 1;
	kst_fails(fd, kst_submit(fd, ops, NULL, 1, NULL), -EFAULT, NULL,
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
	kst_fails(fd, kst_call(fd, KRDMA_IOC_SUBMIT, cmd), -EFAULT, NULL,
		  "also where the call's own answer can't be written");
	munmap(cmd, KST_PAGE);
	peer_base(0, 20000);
	kst_settled(&before, "nothing is left of these");
}

/* ---- deadlines ---- */

/* One that can't be done in that time, and a short one that can. */
static void late(int opcode, __u64 ns, unsigned char *mem, unsigned int seed)
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
	if (!kst_ok(good, "a %s that has %llu ns is ETIMEDOUT, another in the call is done", name,
		    (unsigned long long)ns))
		kst_diag("call %s, status %s, %llu bytes", strerror(-rc),
			 strerror(-comps[0].status), (unsigned long long)comps[0].result);
}

static void test_deadlines(void)
{
	static const __u64 times[] = { 1, 1000, 1000000 };
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .session = session };
	unsigned char *mem = kst_map(LATE_BYTES, RW, MAP_PRIVATE);
	struct kst_state before = kst_now();
	size_t i;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(times); i++)
		late(KRDMA_OP_READ, times[i], mem, 0);
	for (i = 0; i < KST_ARRAY_SIZE(times); i++)
		late(KRDMA_OP_WRITE, times[i], mem, 21 + i);
	munmap(mem, LATE_BYTES);
	/* A posted work request can't be taken back: a short one may be done in time. */
	batch(KRDMA_OP_READ, 1, 0);
	ops[0].timeout_ns = 1;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	kst_ok(!rc && (comps[0].status == -ETIMEDOUT ||
		       (!comps[0].status && comps[0].result == 50)),
	       "a short one is done, or ETIMEDOUT");
	/* Pinned without an account it may not be for long (uapi.rst, SUBMIT). */
	ops[0].timeout_ns = 300000000001ULL;
	kst_fails(fd, kst_submit(fd, ops, comps, 1, NULL), -EINVAL, NULL,
		  "without a buffer more than 300 s are EINVAL");
	ops[0].timeout_ns = 300000000000ULL;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	kst_is(rc ? rc : comps[0].status, 0, "300 s are not");
	ops[0].flags = KRDMA_OP_BUFFER;
	ops[0].buffer = buffer;
	ops[0].addr = 0;
	ops[0].timeout_ns = ~0ULL;
	rc = kst_submit(fd, ops, comps, 1, NULL);
	kst_is(rc ? rc : comps[0].status, 0, "with a buffer the longest does not pass at once");
	kst_is(kst_call(fd, KRDMA_IOC_PING, &ping), 0, "the session takes no harm");
	kst_settled(&before, "nothing is left of what was late");
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

static void test_sharing(void)
{
	struct kst_state before = kst_now();
	struct krdma_session_info info, alone;
	int to[2], from[2], status;
	__u32 id, private;
	pid_t pid;
	char c;

	if (pipe(to) || pipe(from))
		kst_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(other_process(to[0], from[1]));
	close(from[1]);
	if (read(from[0], &c, 1) != 1)
		kst_bail("the other process has no session");
	kst_ok(sessions(0, &info) == 1 && info.users >= 2, "two processes share one session");
	if (kst_connect(fd, 0, &id))
		kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
	kst_ok(id != session && sessions(0, &alone) == 1 && alone.serial == info.serial &&
		       alone.users > info.users,
	       "a file that connects again gets another id of it");
	kst_destroy(fd, id);
	if (kst_connect(fd, KRDMA_CONNECT_PRIVATE, &private))
		kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
	kst_ok(sessions(0, &info) == 1 && sessions(KRDMA_SESSION_PRIVATE, &alone) == 1 &&
		       alone.serial != info.serial && alone.users == 1,
	       "a private session is another one");
	if (kst_connect(fd, KRDMA_CONNECT_PRIVATE, &id))
		kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
	kst_ok(sessions(KRDMA_SESSION_PRIVATE, &alone) == 2, "two private ones are two");
	kst_destroy(fd, id);
	kst_destroy(fd, private);
	kst_ok(kst_wait_ms(KST_STILL_MS, no_private, NULL), "they do not linger");
	if (write(to[1], &c, 1) != 1)
		kst_bail("pipe: %s", strerror(errno));
	waitpid(pid, &status, 0);
	kst_ok(WIFEXITED(status) && !WEXITSTATUS(status),
	       "the other process has used it meanwhile");
	close(to[0]);
	close(to[1]);
	close(from[0]);
	kst_settled(&before, "its part has ended with it");
}

int main(int argc, char **argv)
{
	fd = kst_begin(argc, argv, "transfer", REGION_BYTES, &session, &region, &segment);
	memory = kst_map(MEMORY_BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, MEMORY_BYTES);
	if (!kst_peer("export transfer-ro mem 4096 1 1") ||
	    !kst_peer("export transfer-wo mem 4096 2 1") ||
	    !kst_peer("export transfer-big memfd %llu 3 0", 2ULL << 30) ||
	    kst_open_region(fd, session, "transfer-ro", 0, &region_ro, NULL) || open_write_only() ||
	    kst_open_region(fd, session, "transfer-big", 0, &region_big, NULL) ||
	    kst_buffer(fd, memory, MEMORY_BYTES, KRDMA_BUFFER_WRITABLE, &buffer) ||
	    kst_buffer(fd, memory, MEMORY_BYTES, 0, &buffer_ro))
		kst_bail("no regions of node B: %s", kst_last_error(fd, NULL));

	test_sizes();
	test_ranges();
	test_rights();
	test_batches();
	test_strides();
	test_all_or_nothing();
	test_statuses();
	test_completions();
	test_deadlines();
	test_sharing();
	return kst_end(fd);
}
