// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of driver/range.h: ranges, segments, pages, shares. */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/prandom.h>
#include <linux/sizes.h>

#include <kunit/test.h>

#include "range.h"
#include "wire/wire.h"

#define ROUNDS 5000
#define TOP    BIT_ULL(63)

/* Numbers as users and peers would choose them: small ones, and near each power of 2. */
static u64 some_number(struct rnd_state *rnd)
{
	u64 number = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);

	switch (prandom_u32_state(rnd) % 4) {
	case 0:
		return number % 8;
	case 1:
		return number >> prandom_u32_state(rnd) % 64;
	default:
		return (1ULL << prandom_u32_state(rnd) % 64) + number % 5 - 2;
	}
}

static u32 some_shift(struct rnd_state *rnd)
{
	return KRDMA_WIRE_SHIFT_MIN +
	       prandom_u32_state(rnd) % (KRDMA_WIRE_SHIFT_MAX - KRDMA_WIRE_SHIFT_MIN + 1);
}

/* ---- is it inside? ---- */

static const struct range_case {
	u64 offset, length, size;
	bool ok;
} range_cases[] = {
	{ 0, 0, 0, true },
	{ 0, 1, 0, false },
	{ 1, 0, 0, false },
	{ 0, 1, 1, true },
	{ 1, 0, 1, true },
	{ 1, 1, 1, false },
	{ 0, 2, 1, false },
	{ 2, 0, 1, false },
	{ 0, PAGE_SIZE - 1, PAGE_SIZE, true },
	{ 0, PAGE_SIZE, PAGE_SIZE, true },
	{ 0, PAGE_SIZE + 1, PAGE_SIZE, false },
	{ 1, PAGE_SIZE - 1, PAGE_SIZE, true },
	{ 1, PAGE_SIZE, PAGE_SIZE, false },
	{ PAGE_SIZE - 1, 1, PAGE_SIZE, true },
	{ PAGE_SIZE - 1, 2, PAGE_SIZE, false },
	{ PAGE_SIZE, 0, PAGE_SIZE, true },
	{ PAGE_SIZE, 1, PAGE_SIZE, false },
	{ PAGE_SIZE + 1, 0, PAGE_SIZE, false },
	{ U32_MAX, 1, 1ULL << 32, true },
	{ U32_MAX, 1, U32_MAX, false },
	{ U32_MAX, 2, 1ULL << 32, false },
	{ 1, U32_MAX, 1ULL << 32, true },
	{ 1ULL << 32, 1, 1, false }, /* 1 in 32 bits */
	{ 0, 1ULL << 32, 1, false },
	{ 0, (1ULL << 32) + 1, 1, false },
	{ TOP - 1, 1, TOP, true },
	{ TOP, 0, TOP, true },
	{ TOP, TOP, PAGE_SIZE, false }, /* a sum of 0 */
	{ TOP, TOP, U64_MAX, false },
	{ TOP, TOP - 1, U64_MAX, true },
	{ TOP, 1, TOP, false },
	{ TOP + 1, TOP, PAGE_SIZE, false }, /* a sum of 1 */
	{ TOP - 1, TOP + 1, U64_MAX, false },
	{ U64_MAX, 0, U64_MAX, true },
	{ U64_MAX, 1, U64_MAX, false },
	{ U64_MAX, 1, 0, false },
	{ U64_MAX, 2, 1, false },
	{ U64_MAX, U64_MAX, U64_MAX, false },
	{ 0, U64_MAX, U64_MAX, true },
	{ 1, U64_MAX, U64_MAX, false },
	{ 1, U64_MAX - 1, U64_MAX, true },
	{ 2, U64_MAX, 1, false },
	{ U64_MAX - PAGE_SIZE + 1, PAGE_SIZE - 1, U64_MAX, true },
	{ U64_MAX - PAGE_SIZE + 1, PAGE_SIZE, U64_MAX, false },
};

static void range_desc(const struct range_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%#llx bytes at %#llx of %#llx", c->length, c->offset,
		 c->size);
}

KUNIT_ARRAY_PARAM(range, range_cases, range_desc);

static void range_inside(struct kunit *test)
{
	const struct range_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, krdma_range_ok(c->offset, c->length, c->size), c->ok);
}

/* As a sum, where that can be had. */
static void range_as_a_sum(struct kunit *test)
{
	struct rnd_state rnd;
	u32 round, inside = 0;

	prandom_seed_state(&rnd, 3);
	for (round = 0; round < ROUNDS; round++) {
		u64 offset = some_number(&rnd), length = some_number(&rnd);
		u64 end, size = some_number(&rnd);
		bool ok;

		/* Half of them about the end. */
		if (round % 2)
			size = offset + length + round % 5 - 2;
		ok = !check_add_overflow(offset, length, &end) && end <= size;
		KUNIT_ASSERT_EQ_MSG(test, krdma_range_ok(offset, length, size), ok,
				    "%#llx bytes at %#llx of %#llx", length, offset, size);
		inside += ok;
	}
	KUNIT_EXPECT_GT(test, inside, ROUNDS / 4);
	KUNIT_EXPECT_LT(test, inside, ROUNDS * 3 / 4);
}

static const struct has_case {
	u64 offset, length, at;
	bool has;
} has_cases[] = {
	{ 0, 0, 0, false },
	{ 0, 1, 0, true },
	{ 0, 1, 1, false },
	{ 0, 1, U64_MAX, false },
	{ 5, 3, 4, false },
	{ 5, 3, 5, true },
	{ 5, 3, 7, true },
	{ 5, 3, 8, false },
	{ 5, 0, 5, false },
	{ 5, 3, 5 + (1ULL << 32), false },
	{ U32_MAX, 2, 1ULL << 32, true },
	{ TOP, 1, TOP, true },
	{ TOP, 1, 0, false },
	{ U64_MAX, 1, U64_MAX, true },
	{ U64_MAX, 1, 0, false },
	{ U64_MAX - 1, 2, U64_MAX, true },
	{ 0, U64_MAX, U64_MAX - 1, true },
	{ 0, U64_MAX, U64_MAX, false },
	{ U64_MAX, 3, 1, false }, /* it does not go on at 0 */
};

static void has_desc(const struct has_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%#llx in %#llx at %#llx", c->at, c->length,
		 c->offset);
}

KUNIT_ARRAY_PARAM(has, has_cases, has_desc);

static void range_members(struct kunit *test)
{
	const struct has_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, krdma_range_has(c->offset, c->length, c->at), c->has);
}

/* ---- segments ---- */

static const struct segments_case {
	u64 size;
	u32 shift;
	u64 segments, last_length;
} segments_cases[] = {
	{ 1, 12, 1, 1 },
	{ 4095, 12, 1, 4095 },
	{ 4096, 12, 1, 4096 },
	{ 4097, 12, 2, 1 },
	{ 8192, 12, 2, 4096 },
	{ 1, 40, 1, 1 },
	{ SZ_2M - 1, 21, 1, SZ_2M - 1 },
	{ SZ_2M, 21, 1, SZ_2M },
	{ SZ_2M + 1, 21, 2, 1 },
	{ U32_MAX, 12, 1 << 20, 4095 },
	{ 1ULL << 32, 12, 1 << 20, 4096 },
	{ (1ULL << 32) + 1, 12, (1 << 20) + 1, 1 },
	{ U32_MAX, 31, 2, 0x7fffffff },
	{ U32_MAX, 32, 1, U32_MAX },
	{ U32_MAX, 40, 1, U32_MAX },
	{ 1ULL << 40, 31, 512, 1ULL << 31 },
	{ TOP, 12, 1ULL << 51, 4096 },
	{ TOP + 1, 12, (1ULL << 51) + 1, 1 },
	{ U64_MAX, 12, 1ULL << 52, 4095 },
	{ U64_MAX, 31, 1ULL << 33, 0x7fffffff },
	{ U64_MAX, 40, 1ULL << 24, (1ULL << 40) - 1 },
};

static void segments_desc(const struct segments_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%#llx bytes, shift %u", c->size, c->shift);
}

KUNIT_ARRAY_PARAM(segments, segments_cases, segments_desc);

static void segments_of_export(struct kunit *test)
{
	const struct segments_case *c = test->param_value;
	u64 last = c->segments - 1;

	KUNIT_EXPECT_EQ(test, krdma_segments(c->size, c->shift), c->segments);
	KUNIT_EXPECT_EQ(test, krdma_segment_last(0, c->size, c->shift), last);
	KUNIT_EXPECT_EQ(test, krdma_segment_of(c->size - 1, c->shift), last);
	KUNIT_EXPECT_EQ(test, krdma_segment_length(last, c->size, c->shift), c->last_length);
	KUNIT_EXPECT_EQ(test, krdma_segment_start(last, c->shift), c->size - c->last_length);
	KUNIT_EXPECT_EQ(test, krdma_segment_offset(c->size - 1, c->shift), c->last_length - 1);
	KUNIT_EXPECT_EQ(test, krdma_segment_start(0, c->shift), 0);
	if (!last)
		return;
	KUNIT_EXPECT_EQ(test, krdma_segment_length(0, c->size, c->shift), 1ULL << c->shift);
	KUNIT_EXPECT_EQ(test, krdma_segment_length(last - 1, c->size, c->shift), 1ULL << c->shift);
	KUNIT_EXPECT_EQ(test, krdma_segment_last(0, c->size - c->last_length, c->shift), last - 1);
}

static const u32 shifts[] = { 12, 13, 21, 24, 31, 32, 33, 39, 40 };

static void shift_desc(const u32 *shift, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "shift %u", *shift);
}

KUNIT_ARRAY_PARAM(shift, shifts, shift_desc);

static void segment_edges(struct kunit *test)
{
	u32 shift = *(const u32 *)test->param_value;
	u64 size = 1ULL << shift;
	static const u64 indexes[] = { 0, 1, 2, 4095, (1 << 20) - 1, (1 << 23) - 1 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(indexes); i++) {
		u64 index = indexes[i], start = index * size;

		KUNIT_EXPECT_EQ(test, krdma_segment_start(index, shift), start);
		KUNIT_EXPECT_EQ(test, krdma_segment_of(start, shift), index);
		KUNIT_EXPECT_EQ(test, krdma_segment_of(start + size - 1, shift), index);
		KUNIT_EXPECT_EQ(test, krdma_segment_of(start + size, shift), index + 1);
		KUNIT_EXPECT_EQ(test, krdma_segment_offset(start, shift), 0);
		KUNIT_EXPECT_EQ(test, krdma_segment_offset(start + 1, shift), 1);
		KUNIT_EXPECT_EQ(test, krdma_segment_offset(start + size - 1, shift), size - 1);
		KUNIT_EXPECT_EQ(test, krdma_segment_last(start, 1, shift), index);
		KUNIT_EXPECT_EQ(test, krdma_segment_last(start, size, shift), index);
		KUNIT_EXPECT_EQ(test, krdma_segment_last(start, size + 1, shift), index + 1);
		KUNIT_EXPECT_EQ(test, krdma_segment_last(start + 1, size, shift), index + 1);
		KUNIT_EXPECT_EQ(test, krdma_segment_last(start + size - 1, 1, shift), index);
	}
}

/* Exports of up to some thousand segments, one after the other: no gap, no overlap. */
static void segments_cover_export(struct kunit *test)
{
	struct rnd_state rnd;
	u32 round;

	prandom_seed_state(&rnd, 4);
	for (round = 0; round < 100; round++) {
		u32 shift = some_shift(&rnd);
		u64 full = 1ULL << shift, size = some_number(&rnd) % (64 * full) + 1;
		u64 index, at = 0, n = krdma_segments(size, shift);

		for (index = 0; index < n; index++) {
			u64 length = krdma_segment_length(index, size, shift);

			KUNIT_ASSERT_EQ(test, krdma_segment_start(index, shift), at);
			KUNIT_ASSERT_GT(test, length, 0);
			KUNIT_ASSERT_LE(test, length, full);
			if (index + 1 < n)
				KUNIT_ASSERT_EQ(test, length, full);
			at += length;
		}
		KUNIT_ASSERT_EQ(test, at, size);
	}
}

static void bytes_in_their_segments(struct kunit *test)
{
	struct rnd_state rnd;
	u32 round;

	prandom_seed_state(&rnd, 5);
	for (round = 0; round < ROUNDS; round++) {
		u32 shift = some_shift(&rnd);
		u64 at = some_number(&rnd), length = some_number(&rnd) | 1;
		u64 index = krdma_segment_of(at, shift), in = krdma_segment_offset(at, shift);

		KUNIT_ASSERT_LT(test, in, 1ULL << shift);
		KUNIT_ASSERT_EQ(test, krdma_segment_start(index, shift) + in, at);
		if (!krdma_range_ok(at, length, U64_MAX))
			continue;
		KUNIT_ASSERT_EQ(test, krdma_segment_last(at, length, shift),
				krdma_segment_of(at + length - 1, shift));
	}
}

/* ---- pages ---- */

static const struct pages_case {
	u64 offset, length, pages;
	u32 rest;
} pages_cases[] = {
	{ 0, 1, 1, 1 },
	{ 0, PAGE_SIZE - 1, 1, PAGE_SIZE - 1 },
	{ 0, PAGE_SIZE, 1, PAGE_SIZE },
	{ 0, PAGE_SIZE + 1, 2, PAGE_SIZE },
	{ 1, PAGE_SIZE - 1, 1, PAGE_SIZE - 1 },
	{ 1, PAGE_SIZE, 2, PAGE_SIZE - 1 },
	{ PAGE_SIZE - 1, 1, 1, 1 },
	{ PAGE_SIZE - 1, 2, 2, 1 },
	{ PAGE_SIZE - 1, PAGE_SIZE + 1, 2, 1 },
	{ PAGE_SIZE - 1, PAGE_SIZE + 2, 3, 1 },
	{ PAGE_SIZE, 1, 1, 1 },
	{ PAGE_SIZE, PAGE_SIZE, 1, PAGE_SIZE },
	{ PAGE_SIZE + 1, PAGE_SIZE, 2, PAGE_SIZE - 1 },
	{ 3 * PAGE_SIZE - 1, 2 * PAGE_SIZE, 3, 1 },
	{ 0, U32_MAX, 1ULL << (32 - PAGE_SHIFT), PAGE_SIZE },
	{ 0, 1ULL << 32, 1ULL << (32 - PAGE_SHIFT), PAGE_SIZE },
	{ 0, (1ULL << 32) + 1, (1ULL << (32 - PAGE_SHIFT)) + 1, PAGE_SIZE },
	{ U32_MAX, 1, 1, 1 },
	{ U32_MAX, 2, 2, 1 },
	{ 1ULL << 32, 1, 1, 1 },
	{ TOP - 1, 2, 2, 1 },
	{ TOP, TOP - 1, 1ULL << (63 - PAGE_SHIFT), PAGE_SIZE },
	{ 0, U64_MAX, 1ULL << (64 - PAGE_SHIFT), PAGE_SIZE },
	{ U64_MAX - 1, 1, 1, 1 },
};

static void pages_desc(const struct pages_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%#llx bytes at %#llx", c->length, c->offset);
}

KUNIT_ARRAY_PARAM(pages, pages_cases, pages_desc);

static void pages_of_range(struct kunit *test)
{
	const struct pages_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, krdma_pages(c->offset, c->length), c->pages);
	KUNIT_EXPECT_EQ(test, krdma_page_rest(c->offset, c->length), c->rest);
	KUNIT_EXPECT_EQ(test, krdma_page_rest(c->offset, 0), 0);
}

/* Page by page to the end of a range: as many as were counted, each in one page. */
static void pages_cover_range(struct kunit *test)
{
	struct rnd_state rnd;
	u32 round;

	prandom_seed_state(&rnd, 6);
	for (round = 0; round < 1000; round++) {
		u64 at = some_number(&rnd) >> 1, left = some_number(&rnd) % SZ_256K + 1;
		u64 n = 0, pages = krdma_pages(at, left);

		while (left) {
			u32 rest = krdma_page_rest(at, left);

			KUNIT_ASSERT_GT(test, rest, 0);
			KUNIT_ASSERT_LE(test, rest, left);
			KUNIT_ASSERT_EQ(test, at >> PAGE_SHIFT, (at + rest - 1) >> PAGE_SHIFT);
			at += rest;
			left -= rest;
			n++;
		}
		KUNIT_ASSERT_EQ(test, n, pages);
	}
}

/* ---- shares ---- */

static const struct share_case {
	u64 max;
	u64 shares[8]; /* of those who come one after the other, and take all they may */
} share_cases[] = {
	{ 0, { 0 } },
	{ 1, { 1, 0 } },
	{ 2, { 1, 1, 0 } },
	{ 3, { 2, 1, 0 } },
	{ 32, { 16, 8, 4, 2, 1, 1, 0 } },
	{ 64, { 32, 16, 8, 4, 2, 1, 1, 0 } },
	{ 256, { 128, 64, 32, 16, 8, 4, 2, 1 } },
	{ 1000, { 500, 250, 125, 63, 31, 16, 8, 4 } },
};

static void share_desc(const struct share_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%llu", c->max);
}

KUNIT_ARRAY_PARAM(share, share_cases, share_desc);

static void shares_in_turn(struct kunit *test)
{
	const struct share_case *c = test->param_value;
	u64 used = 0, mine;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(c->shares); i++) {
		for (mine = 0; krdma_share_ok(mine + 1, used + 1, c->max); mine++)
			used++;
		KUNIT_EXPECT_EQ(test, mine, c->shares[i]);
	}
	KUNIT_EXPECT_LE(test, used, c->max);
}

/* Many at once, as pages are: as much as one by one. */
static void shares_at_once(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, krdma_share_ok(500, 500, 1000));
	KUNIT_EXPECT_FALSE(test, krdma_share_ok(501, 501, 1000));
	KUNIT_EXPECT_TRUE(test, krdma_share_ok(250, 750, 1000));
	KUNIT_EXPECT_FALSE(test, krdma_share_ok(1001, 1001, 1000));
	KUNIT_EXPECT_TRUE(test, krdma_share_ok(1, U64_MAX, U64_MAX));
	KUNIT_EXPECT_FALSE(test, krdma_share_ok(2, U64_MAX, U64_MAX));
	KUNIT_EXPECT_TRUE(test, krdma_share_ok(TOP, TOP, U64_MAX));
	KUNIT_EXPECT_FALSE(test, krdma_share_ok(TOP + 1, TOP + 1, U64_MAX));
}

static struct kunit_case range_test_cases[] = { KUNIT_CASE_PARAM(range_inside, range_gen_params),
						KUNIT_CASE(range_as_a_sum),
						KUNIT_CASE_PARAM(range_members, has_gen_params),
						KUNIT_CASE_PARAM(segments_of_export,
								 segments_gen_params),
						KUNIT_CASE_PARAM(segment_edges, shift_gen_params),
						KUNIT_CASE(segments_cover_export),
						KUNIT_CASE(bytes_in_their_segments),
						KUNIT_CASE_PARAM(pages_of_range, pages_gen_params),
						KUNIT_CASE(pages_cover_range),
						KUNIT_CASE_PARAM(shares_in_turn, share_gen_params),
						KUNIT_CASE(shares_at_once),
						{} };

static struct kunit_suite range_suite = {
	.name = "krdma_range",
	.test_cases = range_test_cases,
};

kunit_test_suite(range_suite);

MODULE_DESCRIPTION("KUnit tests of krdma_mover");
MODULE_LICENSE("GPL");
