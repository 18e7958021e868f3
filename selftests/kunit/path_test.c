// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of driver/session/path_choice.h: where the first channel is connected next. */
#include <kunit/test.h>

#include "session/path_choice.h"

#define NONE 3

static const struct path_case {
	const char *name;
	u32 npaths, last, up, except, tried;
	bool fail_fast;
	/* what is to come of it */
	u32 next, tried_then;
} path_cases[] = {
	{ "the only one", 1, 0, 0, 0, 0, false, 0, 0 },
	{ "the only one again", 1, 0, 0, 0, 1, false, 0, 0 },
	{ "not where it was lost", 2, 0, 0, 0, 0, false, 1, 0 },
	{ "one that others use", 3, 0, 4, 0, 0, false, 2, 0 },
	{ "one that others use, though it was there last", 3, 1, 2, 0, 0, false, 1, 0 },
	{ "one that was not tried", 2, 0, 2, 0, 2, false, 0, 2 },
	{ "none was not tried", 3, 2, 0, 0, 7, false, 0, 0 },
	{ "not one of the exceptions", 3, 0, 4, 4, 0, false, 1, 0 },
	{ "all are exceptions", NONE, 0, 0, 7, 0, false, NONE, 0 },
	{ "fast: one that others use", 3, 0, 4, 0, 0, true, 2, 0 },
	{ "fast: that one again, as no other is up", 2, 0, 2, 0, 2, true, 1, 0 },
	{ "fast: another one that is up", 3, 0, 6, 0, 2, true, 2, 2 },
	{ "fast: none is up", 2, 0, 0, 0, 2, true, 0, 2 },
	{ "fast: the one that is up is an exception", NONE, 0, 2, 2, 0, true, NONE, 0 },
};

KUNIT_ARRAY_PARAM_DESC(path, path_cases, name);

static void next_path(struct kunit *test)
{
	const struct path_case *c = test->param_value;
	u32 tried = c->tried;

	KUNIT_EXPECT_EQ(test, c->next,
			krdma_path_next(c->npaths, c->last, c->up, c->except, c->fail_fast,
					&tried));
	KUNIT_EXPECT_EQ(test, c->tried_then, tried);
}

static struct kunit_case path_choice_cases[] = { KUNIT_CASE_PARAM(next_path, path_gen_params), {} };

static struct kunit_suite path_suite = {
	.name = "krdma_path",
	.test_cases = path_choice_cases,
};

kunit_test_suite(path_suite);
