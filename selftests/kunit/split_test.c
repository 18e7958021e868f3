// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of driver/mem/split.c, mem.h and initiator/wr.h: cutting an operation into work
 * requests and SGEs. Tables of pages and SGEs have exactly their size, so that KASAN reports an
 * access beyond their ends.
 */
#include <linux/limits.h>
#include <linux/prandom.h>
#include <linux/sizes.h>

#include <kunit/test.h>

#include "mem/split.c"
#include "initiator/wr.h"
#include "rdma/quirks.h"
#include "wire/wire.h"

#define ROUNDS 300
#define LKEY   0x12345678

/* ---- how much ---- */

static const struct bytes_case {
	const char *name;
	u64 left, in_segment;
	u32 covered, bytes;
} bytes_cases[] = {
	{ "one byte", 1, 0, SZ_2M, 1 },
	{ "the last byte of a segment", SZ_1G, SZ_2M - 1, SZ_2M, 1 },
	{ "the last byte of both", 1, SZ_2M - 1, SZ_2M, 1 },
	{ "one less than a work request", KRDMA_WR_MAX - 1, 0, SZ_2M, KRDMA_WR_MAX - 1 },
	{ "a work request", KRDMA_WR_MAX, 0, SZ_2M, KRDMA_WR_MAX },
	{ "one more than a work request", KRDMA_WR_MAX + 1, 0, SZ_2M, KRDMA_WR_MAX },
	{ "a work request before the end", SZ_1G, SZ_2M - KRDMA_WR_MAX, SZ_2M, KRDMA_WR_MAX },
	{ "less than a work request before the end", SZ_1G, SZ_2M - KRDMA_WR_MAX + 1, SZ_2M,
	  KRDMA_WR_MAX - 1 },
	{ "a page of a segment", SZ_1G, 0, SZ_4K, SZ_4K },
	{ "a byte behind a segment of a page", SZ_4K + 1, 0, SZ_4K, SZ_4K },
	{ "a byte before the end of that", SZ_4K - 1, 0, SZ_4K, SZ_4K - 1 },
	{ "the rest of a short last segment", SZ_1G, 100, 777, 677 },
	{ "2^32 - 1 bytes left", U32_MAX, 0, SZ_4K, SZ_4K },
	{ "2^32 bytes left", 1ULL << 32, 0, SZ_4K, SZ_4K },
	{ "2^32 + 1 bytes left", (1ULL << 32) + 1, 0, SZ_4K, SZ_4K },
	{ "2^63 bytes left", 1ULL << 63, 1, SZ_4K, SZ_4K - 1 },
	{ "all numbers left", U64_MAX, 0, SZ_2M, KRDMA_WR_MAX },
	{ "a segment of 2^31", U64_MAX, (1ULL << 31) - 3, 1U << 31, 3 },
	{ "a key of 2^32 - 1", U64_MAX, 0, U32_MAX, KRDMA_WR_MAX },
	{ "the end of a key of 2^32 - 1", U64_MAX, U32_MAX - 1, U32_MAX, 1 },
};

KUNIT_ARRAY_PARAM_DESC(bytes, bytes_cases, name);

static void bytes_of_work_request(struct kunit *test)
{
	const struct bytes_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, krdma_split_bytes(c->left, c->in_segment, c->covered), c->bytes);
}

/* ---- which pages ---- */

#define P     PAGE_SIZE
#define AT(n) (0x100000000ULL + PAGE_SIZE * (n))
#define SGE(a, l)                                        \
	{                                                \
		.addr = (a), .length = (l), .lkey = LKEY \
	}

static const struct sges_case {
	const char *name;
	u32 npages;
	dma_addr_t page[5];
	u64 mem;
	u32 bytes, max;
	u32 done, used;
	struct ib_sge sge[5];
} sges_cases[] = {
	{ "one byte", 1, { AT(7) }, 0, 1, 1, 1, 1, { SGE(AT(7), 1) } },
	{ "a byte in the middle", 1, { AT(7) }, 100, 1, 1, 1, 1, { SGE(AT(7) + 100, 1) } },
	{ "the last byte of a page", 1, { AT(7) }, P - 1, 1, 1, 1, 1, { SGE(AT(7) + P - 1, 1) } },
	{ "a page less one", 1, { AT(7) }, 0, P - 1, 1, P - 1, 1, { SGE(AT(7), P - 1) } },
	{ "a page", 1, { AT(7) }, 0, P, 1, P, 1, { SGE(AT(7), P) } },
	{ "a page and one, side by side",
	  2,
	  { AT(7), AT(8) },
	  0,
	  P + 1,
	  1,
	  P + 1,
	  1,
	  { SGE(AT(7), P + 1) } },
	{ "a page and one, apart",
	  2,
	  { AT(7), AT(9) },
	  0,
	  P + 1,
	  2,
	  P + 1,
	  2,
	  { SGE(AT(7), P), SGE(AT(9), 1) } },
	{ "a page and one, no room", 2, { AT(7), AT(9) }, 0, P + 1, 1, P, 1, { SGE(AT(7), P) } },
	{ "two bytes over an edge",
	  2,
	  { AT(7), AT(8) },
	  P - 1,
	  2,
	  2,
	  2,
	  1,
	  { SGE(AT(7) + P - 1, 2) } },
	{ "two bytes over an edge, apart",
	  2,
	  { AT(8), AT(7) },
	  P - 1,
	  2,
	  2,
	  2,
	  2,
	  { SGE(AT(8) + P - 1, 1), SGE(AT(7), 1) } },
	{ "the same page twice",
	  2,
	  { AT(7), AT(7) },
	  0,
	  2 * P,
	  2,
	  2 * P,
	  2,
	  { SGE(AT(7), P), SGE(AT(7), P) } },
	{ "backwards",
	  3,
	  { AT(3), AT(2), AT(1) },
	  5,
	  3 * P - 5,
	  3,
	  3 * P - 5,
	  3,
	  { SGE(AT(3) + 5, P - 5), SGE(AT(2), P), SGE(AT(1), P) } },
	{ "pages before are left alone",
	  3,
	  { AT(1), AT(2), AT(9) },
	  2 * P + 8,
	  16,
	  4,
	  16,
	  1,
	  { SGE(AT(9) + 8, 16) } },
	{ "pages behind are left alone",
	  3,
	  { AT(1), AT(2), AT(3) },
	  0,
	  P,
	  4,
	  P,
	  1,
	  { SGE(AT(1), P) } },
	{ "pairs",
	  5,
	  { AT(1), AT(2), AT(5), AT(6), AT(9) },
	  1,
	  5 * P - 2,
	  5,
	  5 * P - 2,
	  3,
	  { SGE(AT(1) + 1, 2 * P - 1), SGE(AT(5), 2 * P), SGE(AT(9), P - 1) } },
	{ "pairs, room for two",
	  5,
	  { AT(1), AT(2), AT(5), AT(6), AT(9) },
	  1,
	  5 * P - 2,
	  2,
	  4 * P - 1,
	  2,
	  { SGE(AT(1) + 1, 2 * P - 1), SGE(AT(5), 2 * P) } },
	{ "pairs, room for one",
	  5,
	  { AT(1), AT(2), AT(5), AT(6), AT(9) },
	  1,
	  5 * P - 2,
	  1,
	  2 * P - 1,
	  1,
	  { SGE(AT(1) + 1, 2 * P - 1) } },
	{ "all apart, the last one short",
	  5,
	  { AT(9), AT(7), AT(5), AT(3), AT(1) },
	  0,
	  4 * P + 1,
	  5,
	  4 * P + 1,
	  5,
	  { SGE(AT(9), P), SGE(AT(7), P), SGE(AT(5), P), SGE(AT(3), P), SGE(AT(1), 1) } },
};

KUNIT_ARRAY_PARAM_DESC(sges, sges_cases, name);

static void sges_of_pages(struct kunit *test)
{
	const struct sges_case *c = test->param_value;
	struct ib_sge *sge = kunit_kmalloc(test, c->max * sizeof(*sge), GFP_KERNEL);
	dma_addr_t *page = kunit_kmalloc(test, c->npages * sizeof(*page), GFP_KERNEL);
	u32 i, used = 0;

	KUNIT_ASSERT_NOT_NULL(test, sge);
	KUNIT_ASSERT_NOT_NULL(test, page);
	memcpy(page, c->page, c->npages * sizeof(*page));
	memset(sge, 0xee, c->max * sizeof(*sge));

	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, c->mem, c->bytes, LKEY, sge, c->max, &used),
			c->done);
	KUNIT_ASSERT_EQ(test, used, c->used);
	for (i = 0; i < used; i++) {
		KUNIT_EXPECT_EQ(test, sge[i].addr, c->sge[i].addr);
		KUNIT_EXPECT_EQ(test, sge[i].length, c->sge[i].length);
		KUNIT_EXPECT_EQ(test, sge[i].lkey, LKEY);
	}
	for (; i < c->max; i++)
		KUNIT_EXPECT_EQ_MSG(test, sge[i].addr, 0xeeeeeeeeeeeeeeee, "SGE %u is not needed",
				    i);
}

/* The most that the driver asks for: room for every page, and for as many as it has. */
static void whole_wrs(struct kunit *test)
{
	u32 i, used = 0, npages = KRDMA_WR_MAX / PAGE_SIZE + 1;
	struct ib_sge *sge = kunit_kmalloc(test, KRDMA_SGE_MAX * sizeof(*sge), GFP_KERNEL);
	dma_addr_t *page = kunit_kmalloc(test, npages * sizeof(*page), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sge);
	KUNIT_ASSERT_NOT_NULL(test, page);
	for (i = 0; i < npages; i++)
		page[i] = AT(i);
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, P - 1, KRDMA_WR_MAX, LKEY, sge, 1, &used),
			KRDMA_WR_MAX);
	KUNIT_EXPECT_EQ(test, used, 1);
	/* The work request is full: nothing more. */
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 0, 1, LKEY, sge, 1, &used), 0);
	KUNIT_EXPECT_EQ(test, used, 1);
	used = 0;
	KUNIT_EXPECT_EQ(test, sge[0].length, KRDMA_WR_MAX);

	for (i = 0; i < npages; i++)
		page[i] = AT(2 * i);
	KUNIT_EXPECT_EQ(
		test, krdma_split_sges(page, P - 1, KRDMA_WR_MAX, LKEY, sge, KRDMA_SGE_MAX, &used),
		(KRDMA_SGE_MAX - 1) * P + 1);
	KUNIT_EXPECT_EQ(test, used, KRDMA_SGE_MAX);
}

/* ---- whole operations ---- */

/* An operation with all that decides how it is cut, and how far it is. */
struct op {
	u64 size, offset, length, posted; /* of the export, of the operation */
	u32 shift;
	u64 mem; /* of the first byte, from the first page */
	u32 npages;
	dma_addr_t *page;
	u32 max_sge;
	struct ib_sge *sge;
};

static u32 below(struct rnd_state *rnd, u32 n)
{
	return prandom_u32_state(rnd) % n;
}

/* Runs of neighbours, of a length that is typical for the operation. */
static void some_pages(struct op *op, struct rnd_state *rnd)
{
	u32 i, run = 1 + below(rnd, 2) * below(rnd, 600);

	for (i = 0; i < op->npages; i++)
		op->page[i] = i && below(rnd, run) ? op->page[i - 1] + P :
						     (dma_addr_t)prandom_u32_state(rnd) * 2 * P;
}

static void some_op(struct kunit *test, struct op *op, struct rnd_state *rnd)
{
	static const u32 lengths[] = { 1, 8, SZ_4K, SZ_64K, KRDMA_WR_MAX, SZ_4M };
	u64 most;

	op->shift = KRDMA_WIRE_SHIFT_MIN + below(rnd, 13);
	op->size = 1 + (u64)below(rnd, 2) * prandom_u32_state(rnd) + below(rnd, SZ_8M);
	op->length = lengths[below(rnd, ARRAY_SIZE(lengths))];
	if (below(rnd, 2))
		op->length = 1 + below(rnd, op->length);
	op->length = min(op->length, op->size);
	most = op->size - op->length;
	op->offset = below(rnd, 4) ? most - min_t(u64, most, below(rnd, SZ_2M)) : 0;
	op->posted = 0;
	op->mem = below(rnd, 3) ? below(rnd, 3 * P) : 0;
	op->npages = krdma_pages(0, op->mem + op->length);
	op->max_sge = 1 + below(rnd, 2) * below(rnd, KRDMA_SGE_MAX);

	op->page = kunit_kmalloc(test, op->npages * sizeof(*op->page), GFP_KERNEL);
	op->sge = kunit_kmalloc(test, op->max_sge * sizeof(*op->sge), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, op->page);
	KUNIT_ASSERT_NOT_NULL(test, op->sge);
	some_pages(op, rnd);
}

/* The SGEs are the next bytes of the memory, in order, and as few as can be. */
static void sges_are_right(struct kunit *test, const struct op *op, u32 bytes, u32 used)
{
	u64 mem = op->mem + op->posted;
	u32 i, done = 0;

	KUNIT_ASSERT_GE(test, used, 1);
	KUNIT_ASSERT_LE(test, used, op->max_sge);
	for (i = 0; i < used; i++) {
		const struct ib_sge *sge = &op->sge[i];
		u32 at = 0;

		KUNIT_ASSERT_EQ(test, sge->lkey, LKEY);
		KUNIT_ASSERT_GT(test, sge->length, 0);
		if (i)
			KUNIT_ASSERT_NE(test, sge->addr, sge[-1].addr + sge[-1].length);
		while (at < sge->length) {
			u32 in_page = (mem + done) % P,
			    len = min_t(u32, sge->length - at, P - in_page);

			KUNIT_ASSERT_EQ(test, sge->addr + at, op->page[(mem + done) / P] + in_page);
			at += len;
			done += len;
		}
	}
	KUNIT_ASSERT_EQ(test, done, bytes);
}

/* One piece, and why it is not longer. */
static void one_piece(struct kunit *test, struct op *op)
{
	u64 left = op->length - op->posted, at = op->offset + op->posted;
	u64 index = krdma_segment_of(at, op->shift), end;
	u32 bytes, wanted, used = 0;

	wanted = krdma_split_bytes(left, krdma_segment_offset(at, op->shift),
				   krdma_segment_length(index, op->size, op->shift));
	bytes = krdma_split_sges(op->page, op->mem + op->posted, wanted, LKEY, op->sge, op->max_sge,
				 &used);
	KUNIT_ASSERT_GT(test, bytes, 0);
	KUNIT_ASSERT_LE(test, bytes, left);
	KUNIT_ASSERT_LE(test, bytes, KRDMA_WR_MAX);
	KUNIT_ASSERT_EQ(test, (at + bytes - 1) >> op->shift, index);
	sges_are_right(test, op, bytes, used);

	end = at + bytes;
	if (bytes == left || bytes == KRDMA_WR_MAX || !(end & ((1ULL << op->shift) - 1)))
		goto out;
	/* Then there was no room for the next page, which stands alone. */
	KUNIT_ASSERT_EQ(test, used, op->max_sge);
	end = op->mem + op->posted + bytes;
	KUNIT_ASSERT_EQ(test, end % P, 0);
	KUNIT_ASSERT_NE(test, op->page[end / P], op->page[end / P - 1] + P);
out:
	op->posted += bytes;
}

static void pieces_cover_operation(struct kunit *test)
{
	struct rnd_state rnd;
	u32 round, pieces = 0;
	struct op op;

	prandom_seed_state(&rnd, 7);
	for (round = 0; round < ROUNDS; round++) {
		some_op(test, &op, &rnd);
		while (op.posted < op.length) {
			one_piece(test, &op);
			pieces++;
		}
		KUNIT_ASSERT_EQ(test, op.posted, op.length);
		kunit_kfree(test, op.sge);
		kunit_kfree(test, op.page);
	}
	KUNIT_EXPECT_GT(test, pieces, 2 * ROUNDS);
}

/* Pieces behind each other: those that are neighbours in memory share an SGE. */
static void pieces_of_work_request(struct kunit *test)
{
	const dma_addr_t page[] = { AT(3), AT(4), AT(9) };
	struct ib_sge sge[3];
	u32 used = 0;

	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 100, 50, LKEY, sge, 3, &used), 50);
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 150, P, LKEY, sge, 3, &used), P);
	KUNIT_EXPECT_EQ(test, used, 1);
	KUNIT_EXPECT_EQ(test, sge[0].addr, AT(3) + 100);
	KUNIT_EXPECT_EQ(test, sge[0].length, P + 50);
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 2 * P + 7, 5, LKEY, sge, 3, &used), 5);
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 0, 1, LKEY, sge, 3, &used), 1);
	KUNIT_EXPECT_EQ(test, used, 3);
	KUNIT_EXPECT_EQ(test, sge[1].addr, AT(9) + 7);
	KUNIT_EXPECT_EQ(test, sge[2].addr, AT(3));
	KUNIT_EXPECT_EQ(test, krdma_split_sges(page, 50, 1, LKEY, sge, 3, &used), 0);
	KUNIT_EXPECT_EQ(test, used, 3);
}

static void short_ones(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, krdma_split_short(8, SZ_4K - 1), 1);
	KUNIT_EXPECT_EQ(test, krdma_split_short(SZ_1M, 9 * SZ_4K - 63), 63);
	KUNIT_EXPECT_EQ(test, krdma_split_short(SZ_1M, 9 * SZ_4K - 64), SZ_1M);
	KUNIT_EXPECT_EQ(test, krdma_split_short(7, SZ_4K - 7), 7);
	KUNIT_EXPECT_EQ(test, krdma_split_short(7, SZ_4K - 6), 6);
	KUNIT_EXPECT_EQ(test, krdma_split_short(8, SZ_4K), 8);
	KUNIT_EXPECT_EQ(test, krdma_split_short(1, U64_MAX), 1);
}

static void steps(struct kunit *test)
{
	static const struct krdma_vec vec[] = { { 0, 5 }, { 100, 1 }, { 7, 1ULL << 40 }, { 0, 3 } };
	struct krdma_cursor at = { 0, 0 };

	krdma_split_step(&at, vec, 4, 4);
	KUNIT_EXPECT_EQ(test, at.i, 0);
	KUNIT_EXPECT_EQ(test, at.in, 4);
	krdma_split_step(&at, vec, 4, 1);
	KUNIT_EXPECT_EQ(test, at.i, 1);
	KUNIT_EXPECT_EQ(test, at.in, 0);
	krdma_split_step(&at, vec, 4, 0);
	KUNIT_EXPECT_EQ(test, at.i, 1);
	krdma_split_step(&at, vec, 4, (1ULL << 40) + 2);
	KUNIT_EXPECT_EQ(test, at.i, 3);
	KUNIT_EXPECT_EQ(test, at.in, 1);
	/* At the end of the last it stays. */
	krdma_split_step(&at, vec, 4, 2);
	KUNIT_EXPECT_EQ(test, at.i, 3);
	KUNIT_EXPECT_EQ(test, at.in, 3);
	krdma_split_step(&at, vec, 4, 0);
	KUNIT_EXPECT_EQ(test, at.in, 3);
}

static struct kunit_case split_cases[] = { KUNIT_CASE_PARAM(bytes_of_work_request,
							    bytes_gen_params),
					   KUNIT_CASE_PARAM(sges_of_pages, sges_gen_params),
					   KUNIT_CASE(whole_wrs),
					   KUNIT_CASE(pieces_of_work_request),
					   KUNIT_CASE(steps),
					   KUNIT_CASE(short_ones),
					   KUNIT_CASE(pieces_cover_operation),
					   {} };

static struct kunit_suite split_suite = {
	.name = "krdma_split",
	.test_cases = split_cases,
};

kunit_test_suite(split_suite);
