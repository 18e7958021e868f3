/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's kselftest_harness.h for tests of /dev/krdma_mover: checks that say what
 * should have been, and what each test begins and ends with. Each test is a process: what is
 * static is the test's own.
 */
#ifndef KST_HARNESS_H
#define KST_HARNESS_H

#include "kselftest_harness.h"
#include "kst.h"

/* Checks with a text (printf), which is printed if they fail. Each is one statement. */
#define __KST_CHECK(check, ...)              \
	do {                                 \
		check                        \
		{                            \
			TH_LOG(__VA_ARGS__); \
		}                            \
	} while (0)
#define EXPECT_THAT(cond, ...)     __KST_CHECK(EXPECT_TRUE(cond), __VA_ARGS__)
#define ASSERT_NOT(cond, ...)      __KST_CHECK(ASSERT_FALSE(cond), __VA_ARGS__)
#define EXPECT_IS(want, seen, ...) __KST_CHECK(EXPECT_EQ(want, seen), __VA_ARGS__)
/* A call has failed with this errno and a sentence, which has @word in it. */
#define EXPECT_FAILS(fd, rc, want, word, ...) \
	EXPECT_THAT(kst_failed(fd, rc, want, word), __VA_ARGS__)
/* Everything is as it was then. */
#define EXPECT_SAME(before, ...) EXPECT_THAT(kst_same(before), __VA_ARGS__)

/*
 * A fixture is the file @fd, and node B's helper if there is one (kst_setup()); what its
 * FIXTURE_SETUP() has made is in @before. In the end nothing may be left of a test, and with
 * its file nothing of all that.
 */
#define KST_FIXTURE(name, fd)                                                   \
	FIXTURE(name)                                                           \
	{                                                                       \
		struct kst_state before;                                        \
	};                                                                      \
	FIXTURE_TEARDOWN(name)                                                  \
	{                                                                       \
		EXPECT_SAME(&self->before, "nothing is left of it");            \
		EXPECT_THAT(kst_teardown(fd), "with its file everything ends"); \
	}

/* Seconds; times TIME_FACTOR. It is the runner that ends a program which takes too long. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 300

/* main() of tests that need so many nodes. */
#define KST_HARNESS_MAIN(nodes)                            \
	int main(int argc, char **argv)                    \
	{                                                  \
		return kst_harness_run(argc, argv, nodes); \
	}

static inline int kst_harness_run(int argc, char **argv, int nodes)
{
	unsigned int factor = kst_number("TEST_FACTOR", kst_number("TIME_FACTOR", 1));
	int rc = test_harness_argv_check(argc, argv);
	struct __fixture_metadata *f;
	struct __test_metadata *t;

	if (rc)
		return rc;
	kst_main(argc, argv, nodes);
	kst_in_harness = true;
	for (f = __fixture_list; f; f = f->next)
		for (t = f->tests; t; t = t->next)
			t->timeout *= factor;
	return test_harness_run(argc, argv);
}

#endif /* KST_HARNESS_H */
