// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of driver/session/credit.h: credits for requests, and their tags. */
#include <linux/limits.h>
#include <linux/prandom.h>

#include <kunit/test.h>

#include "session/credit.h"

#define ROUNDS 5000

/* ---- our requests ---- */

static const u32 sizes[] = { 0, 1, 2, 3, KRDMA_CREDITS - 1, KRDMA_CREDITS, 256, U16_MAX };

static void size_desc(const u32 *size, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u credits", *size);
}

KUNIT_ARRAY_PARAM(size, sizes, size_desc);

static void as_many_as_credits(struct kunit *test)
{
	u32 i, size = *(const u32 *)test->param_value;
	struct krdma_credit_pool pool = { .size = size };

	for (i = 0; i < size; i++)
		KUNIT_ASSERT_TRUE(test, krdma_credit_pool_take(&pool, 0));
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
	KUNIT_EXPECT_EQ(test, pool.used, size);
	if (!size)
		return;
	krdma_credit_pool_put(&pool);
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 1));
	KUNIT_EXPECT_TRUE(test, krdma_credit_pool_take(&pool, 0));
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
	for (i = 0; i < size; i++)
		krdma_credit_pool_put(&pool);
	KUNIT_EXPECT_EQ(test, pool.used, 0);
	KUNIT_EXPECT_EQ(test, pool.size, size);
}

/* The peer's credits are known only when it has accepted the connect request. */
static void pool_shrinks(struct kunit *test)
{
	struct krdma_credit_pool pool = { .size = 4 };
	u32 i;

	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_TRUE(test, krdma_credit_pool_take(&pool, 0));
	pool.size = 2;
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
	krdma_credit_pool_put(&pool);
	krdma_credit_pool_put(&pool);
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
	krdma_credit_pool_put(&pool);
	KUNIT_EXPECT_TRUE(test, krdma_credit_pool_take(&pool, 0));
	KUNIT_EXPECT_FALSE(test, krdma_credit_pool_take(&pool, 0));
}

static const struct tag_case {
	const char *name;
	u32 last, first, second;
} tag_cases[] = {
	{ "of a new session", 0, 1, 2 },
	{ "in the middle", 41, 42, 43 },
	{ "across 2^31", 0x7ffffffe, 0x7fffffff, 0x80000000 },
	{ "up to the last", U32_MAX - 2, U32_MAX - 1, U32_MAX },
	{ "across the last", U32_MAX - 1, U32_MAX, 1 },
	{ "behind the last", U32_MAX, 1, 2 },
};

KUNIT_ARRAY_PARAM_DESC(tag, tag_cases, name);

static void tags_count_up(struct kunit *test)
{
	const struct tag_case *c = test->param_value;
	struct krdma_credit_pool pool = { .size = 2, .used = 1, .last_tag = c->last };

	KUNIT_EXPECT_EQ(test, krdma_credit_pool_tag(&pool), c->first);
	KUNIT_EXPECT_EQ(test, krdma_credit_pool_tag(&pool), c->second);
	KUNIT_EXPECT_EQ(test, pool.used, 1);
}

/* ---- the peer's requests ---- */

static const char *const same = "two requests with the same tag";
static const char *const more = "more requests than credits";

/* Tags that are not in order, so that a slot and its tag are not the same number. */
static u32 some_tag(u32 i)
{
	return (i + 1) * 0x9e3779b1U;
}

static void fill_tags(struct kunit *test, struct krdma_tags *tags, u32 n)
{
	u32 i;

	memset(tags, 0, sizeof(*tags));
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_NULL(test, krdma_tags_begin(tags, some_tag(i)));
}

static u32 taken(const struct krdma_tags *tags)
{
	u32 i, n = 0;

	for (i = 0; i < KRDMA_CREDITS; i++)
		n += tags->tag[i] != 0;
	return n;
}

static const u32 slots[] = { 0, 1, 2, KRDMA_CREDITS / 2, KRDMA_CREDITS - 2, KRDMA_CREDITS - 1 };

static void slot_desc(const u32 *slot, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "request %u", *slot);
}

KUNIT_ARRAY_PARAM(slot, slots, slot_desc);

static void one_more_is_refused(struct kunit *test)
{
	struct krdma_tags tags, before;

	fill_tags(test, &tags, KRDMA_CREDITS);
	before = tags;
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(KRDMA_CREDITS)), more);
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, U32_MAX), more);
	KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
}

static void same_tag_is_refused(struct kunit *test)
{
	u32 n, slot = *(const u32 *)test->param_value;
	struct krdma_tags tags, before;

	/* With slots left, and with none. */
	for (n = slot + 1; n <= KRDMA_CREDITS; n++) {
		fill_tags(test, &tags, n);
		before = tags;
		KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(slot)), same);
		KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
	}
}

static void reply_frees_its_slot(struct kunit *test)
{
	u32 i, slot = *(const u32 *)test->param_value;
	struct krdma_tags tags;

	fill_tags(test, &tags, KRDMA_CREDITS);
	krdma_tags_end(&tags, some_tag(slot));
	KUNIT_EXPECT_EQ(test, taken(&tags), KRDMA_CREDITS - 1);
	for (i = 0; i < KRDMA_CREDITS; i++)
		if (i != slot)
			KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(i)), same);
	/* The same tag may be used again, but only once. */
	KUNIT_EXPECT_NULL(test, krdma_tags_begin(&tags, some_tag(slot)));
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(slot)), same);
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(KRDMA_CREDITS)), more);
}

static void reply_to_nothing(struct kunit *test)
{
	struct krdma_tags tags, before;
	u32 n;

	for (n = 0; n <= KRDMA_CREDITS; n++) {
		fill_tags(test, &tags, n);
		before = tags;
		krdma_tags_end(&tags, some_tag(n));
		krdma_tags_end(&tags, 0);
		KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
	}
}

/* Decoding refuses it; were it let through, it would be lost among free slots. */
static void tag_0_takes_no_slot(struct kunit *test)
{
	struct krdma_tags tags;
	u32 n;

	for (n = 0; n < KRDMA_CREDITS; n++) {
		fill_tags(test, &tags, n);
		KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, 0), same);
		KUNIT_EXPECT_EQ(test, taken(&tags), n);
	}
}

/* Tags of a small range, against a bitmap of those that are under way. */
static void as_a_set(struct kunit *test)
{
	struct krdma_tags tags = {};
	struct rnd_state rnd;
	u32 round, count = 0;
	u64 set = 0;

	prandom_seed_state(&rnd, 1);
	for (round = 0; round < ROUNDS; round++) {
		u32 tag = 1 + prandom_u32_state(&rnd) % 63;
		const char *why, *expected = NULL;

		if (prandom_u32_state(&rnd) % 5 < 2) {
			krdma_tags_end(&tags, tag);
			count -= !!(set & BIT_ULL(tag));
			set &= ~BIT_ULL(tag);
		} else {
			if (set & BIT_ULL(tag))
				expected = same;
			else if (count == KRDMA_CREDITS)
				expected = more;
			why = krdma_tags_begin(&tags, tag);
			if (expected) {
				KUNIT_ASSERT_STREQ(test, why, expected);
			} else {
				KUNIT_ASSERT_NULL(test, why);
				set |= BIT_ULL(tag);
				count++;
			}
		}
		KUNIT_ASSERT_EQ(test, taken(&tags), count);
	}
}

/*
 * Two sides that keep to the rules: requests as long as there are credits, replies
 * in any order, and tags that go over their end meanwhile. Nobody is ever blamed,
 * and all credits are used.
 */
static void both_sides(struct kunit *test)
{
	u32 size = *(const u32 *)test->param_value;
	struct krdma_credit_pool pool = { .last_tag = U32_MAX - ROUNDS / 8 };
	struct krdma_tags tags = {};
	u32 requested[KRDMA_CREDITS];
	struct rnd_state rnd;
	u32 round, full = 0;

	pool.size = min_t(u32, size, KRDMA_CREDITS);
	prandom_seed_state(&rnd, 2 + size);
	for (round = 0; round < ROUNDS; round++) {
		u32 i, tag;

		if (prandom_u32_state(&rnd) % 16 < 9) {
			if (!krdma_credit_pool_take(&pool, 0)) {
				KUNIT_ASSERT_EQ(test, pool.used, pool.size);
				full++;
				continue;
			}
			tag = krdma_credit_pool_tag(&pool);
			KUNIT_ASSERT_NE(test, tag, 0);
			KUNIT_ASSERT_NULL(test, krdma_tags_begin(&tags, tag));
			requested[pool.used - 1] = tag;
		} else if (pool.used) {
			i = prandom_u32_state(&rnd) % pool.used;
			krdma_tags_end(&tags, requested[i]);
			requested[i] = requested[pool.used - 1];
			krdma_credit_pool_put(&pool);
		}
		KUNIT_ASSERT_EQ(test, taken(&tags), pool.used);
	}
	KUNIT_EXPECT_GT(test, full, 0);
	if (size)
		KUNIT_EXPECT_LT(test, pool.last_tag, ROUNDS);
}

static struct kunit_case credit_cases[] = { KUNIT_CASE_PARAM(as_many_as_credits, size_gen_params),
					    KUNIT_CASE(pool_shrinks),
					    KUNIT_CASE_PARAM(tags_count_up, tag_gen_params),
					    KUNIT_CASE(one_more_is_refused),
					    KUNIT_CASE_PARAM(same_tag_is_refused, slot_gen_params),
					    KUNIT_CASE_PARAM(reply_frees_its_slot, slot_gen_params),
					    KUNIT_CASE(reply_to_nothing),
					    KUNIT_CASE(tag_0_takes_no_slot),
					    KUNIT_CASE(as_a_set),
					    KUNIT_CASE_PARAM(both_sides, size_gen_params),
					    {} };

static struct kunit_suite credit_suite = {
	.name = "krdma_credit",
	.test_cases = credit_cases,
};

kunit_test_suite(credit_suite);
