// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of driver/window.h: places for questions, and their tags. */
#include <linux/limits.h>
#include <linux/prandom.h>

#include <kunit/test.h>

#include "window.h"

#define ROUNDS 5000

/* ---- our questions ---- */

static const u32 sizes[] = { 0, 1, 2, 3, KRDMA_WINDOW - 1, KRDMA_WINDOW, 256, U16_MAX };

static void size_desc(const u32 *size, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u places", *size);
}

KUNIT_ARRAY_PARAM(size, sizes, size_desc);

static void as_many_as_places(struct kunit *test)
{
	u32 i, size = *(const u32 *)test->param_value;
	struct krdma_window window = { .size = size };

	for (i = 0; i < size; i++)
		KUNIT_ASSERT_TRUE(test, krdma_window_take(&window));
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
	KUNIT_EXPECT_EQ(test, window.used, size);
	if (!size)
		return;
	krdma_window_put(&window);
	KUNIT_EXPECT_TRUE(test, krdma_window_take(&window));
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
	for (i = 0; i < size; i++)
		krdma_window_put(&window);
	KUNIT_EXPECT_EQ(test, window.used, 0);
	KUNIT_EXPECT_EQ(test, window.size, size);
}

/* The peer's window is known only when it has answered the connect request. */
static void window_shrinks(struct kunit *test)
{
	struct krdma_window window = { .size = 4 };
	u32 i;

	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_TRUE(test, krdma_window_take(&window));
	window.size = 2;
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
	krdma_window_put(&window);
	krdma_window_put(&window);
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
	krdma_window_put(&window);
	KUNIT_EXPECT_TRUE(test, krdma_window_take(&window));
	KUNIT_EXPECT_FALSE(test, krdma_window_take(&window));
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
	struct krdma_window window = { .size = 2, .used = 1, .last_tag = c->last };

	KUNIT_EXPECT_EQ(test, krdma_window_tag(&window), c->first);
	KUNIT_EXPECT_EQ(test, krdma_window_tag(&window), c->second);
	KUNIT_EXPECT_EQ(test, window.used, 1);
}

/* ---- the peer's questions ---- */

static const char *const same = "two questions with the same tag";
static const char *const more = "more questions than the window";

/* Tags that are not in order, so that a place and its tag are not the same number. */
static u32 some_tag(u32 i)
{
	return (i + 1) * 0x9e3779b1U;
}

static void fill_window(struct kunit *test, struct krdma_tags *tags, u32 n)
{
	u32 i;

	memset(tags, 0, sizeof(*tags));
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_NULL(test, krdma_tags_begin(tags, some_tag(i)));
}

static u32 taken(const struct krdma_tags *tags)
{
	u32 i, n = 0;

	for (i = 0; i < KRDMA_WINDOW; i++)
		n += tags->tag[i] != 0;
	return n;
}

static const u32 places[] = { 0, 1, 2, KRDMA_WINDOW / 2, KRDMA_WINDOW - 2, KRDMA_WINDOW - 1 };

static void place_desc(const u32 *place, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "question %u", *place);
}

KUNIT_ARRAY_PARAM(place, places, place_desc);

static void one_more_is_refused(struct kunit *test)
{
	struct krdma_tags tags, before;

	fill_window(test, &tags, KRDMA_WINDOW);
	before = tags;
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(KRDMA_WINDOW)), more);
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, U32_MAX), more);
	KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
}

static void same_tag_is_refused(struct kunit *test)
{
	u32 n, place = *(const u32 *)test->param_value;
	struct krdma_tags tags, before;

	/* With places left, and with none. */
	for (n = place + 1; n <= KRDMA_WINDOW; n++) {
		fill_window(test, &tags, n);
		before = tags;
		KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(place)), same);
		KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
	}
}

static void answer_frees_its_place(struct kunit *test)
{
	u32 i, place = *(const u32 *)test->param_value;
	struct krdma_tags tags;

	fill_window(test, &tags, KRDMA_WINDOW);
	krdma_tags_end(&tags, some_tag(place));
	KUNIT_EXPECT_EQ(test, taken(&tags), KRDMA_WINDOW - 1);
	for (i = 0; i < KRDMA_WINDOW; i++)
		if (i != place)
			KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(i)), same);
	/* The same tag may be used again, but only once. */
	KUNIT_EXPECT_NULL(test, krdma_tags_begin(&tags, some_tag(place)));
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(place)), same);
	KUNIT_EXPECT_STREQ(test, krdma_tags_begin(&tags, some_tag(KRDMA_WINDOW)), more);
}

static void answer_to_nothing(struct kunit *test)
{
	struct krdma_tags tags, before;
	u32 n;

	for (n = 0; n <= KRDMA_WINDOW; n++) {
		fill_window(test, &tags, n);
		before = tags;
		krdma_tags_end(&tags, some_tag(n));
		krdma_tags_end(&tags, 0);
		KUNIT_EXPECT_MEMEQ(test, &tags, &before, sizeof(tags));
	}
}

/* Decoding refuses it; were it let through, it would be lost among free places. */
static void tag_0_takes_no_place(struct kunit *test)
{
	struct krdma_tags tags;
	u32 n;

	for (n = 0; n < KRDMA_WINDOW; n++) {
		fill_window(test, &tags, n);
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
			else if (count == KRDMA_WINDOW)
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
 * Two sides that keep to the rules: questions as long as there are places, answers
 * in any order, and tags that go over their end meanwhile. Nobody is ever blamed,
 * and the window is used to the full.
 */
static void both_sides(struct kunit *test)
{
	u32 size = *(const u32 *)test->param_value;
	struct krdma_window window = { .last_tag = U32_MAX - ROUNDS / 8 };
	struct krdma_tags tags = {};
	u32 asked[KRDMA_WINDOW];
	struct rnd_state rnd;
	u32 round, full = 0;

	window.size = min_t(u32, size, KRDMA_WINDOW);
	prandom_seed_state(&rnd, 2 + size);
	for (round = 0; round < ROUNDS; round++) {
		u32 i, tag;

		if (prandom_u32_state(&rnd) % 16 < 9) {
			if (!krdma_window_take(&window)) {
				KUNIT_ASSERT_EQ(test, window.used, window.size);
				full++;
				continue;
			}
			tag = krdma_window_tag(&window);
			KUNIT_ASSERT_NE(test, tag, 0);
			KUNIT_ASSERT_NULL(test, krdma_tags_begin(&tags, tag));
			asked[window.used - 1] = tag;
		} else if (window.used) {
			i = prandom_u32_state(&rnd) % window.used;
			krdma_tags_end(&tags, asked[i]);
			asked[i] = asked[window.used - 1];
			krdma_window_put(&window);
		}
		KUNIT_ASSERT_EQ(test, taken(&tags), window.used);
	}
	KUNIT_EXPECT_GT(test, full, 0);
	if (size)
		KUNIT_EXPECT_LT(test, window.last_tag, ROUNDS);
}

static struct kunit_case window_cases[] = { KUNIT_CASE_PARAM(as_many_as_places, size_gen_params),
					    KUNIT_CASE(window_shrinks),
					    KUNIT_CASE_PARAM(tags_count_up, tag_gen_params),
					    KUNIT_CASE(one_more_is_refused),
					    KUNIT_CASE_PARAM(same_tag_is_refused, place_gen_params),
					    KUNIT_CASE_PARAM(answer_frees_its_place,
							     place_gen_params),
					    KUNIT_CASE(answer_to_nothing),
					    KUNIT_CASE(tag_0_takes_no_place),
					    KUNIT_CASE(as_a_set),
					    KUNIT_CASE_PARAM(both_sides, size_gen_params),
					    {} };

static struct kunit_suite window_suite = {
	.name = "krdma_window",
	.test_cases = window_cases,
};

kunit_test_suite(window_suite);
