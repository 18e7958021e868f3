// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is pinned for an operation which the peer keeps waiting: for seconds at most,
 * or it is accounted as a buffer is. Messages that nobody reads make the others wait, as
 * these have KRDMA_OPF_AFTER.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"
#include "kst_uring.h"

#define RW     (PROT_READ | PROT_WRITE)
#define RIGHTS (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
#define BYTES  (1UL << 20)
#define PAGES  16UL
#define SECOND 1000000000ULL
/* More than a message queue has room for and a region credits, so that the others wait. */
#define MANY 330
#define ROOM 256
/* What is cancelled on purpose, and what is not. */
#define STUCK 77
#define TRIED 78

struct file {
	int fd;
	__u32 session, region;
};

static struct file first;
static char *memory;

static __u64 pinned(const struct file *f)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	if (kst_call(f->fd, KRDMA_IOC_QUERY, &query))
		kst_bail("QUERY: %s", kst_last_error(f->fd, NULL));
	return query.pinned_bytes;
}

static bool nothing_pinned(void *arg)
{
	return !pinned(arg);
}

static bool stuck(const void *entry, void *arg)
{
	const struct krdma_transfer_info *info = entry;

	(void)arg;
	return info->wait == KRDMA_WAIT_RECEIVER;
}

static bool rest_stuck(void *arg)
{
	return kst_count(KRDMA_LIST_TRANSFERS, stuck, arg) == MANY - ROOM;
}

/* A file whose messages wait; what comes after them does, too. */
static void file_open(struct file *f)
{
	static struct krdma_op ops[MANY];
	__u32 accepted;

	f->fd = kst_open();
	if (f->fd < 0 || kst_connect(f->fd, KRDMA_CONNECT_MESSAGES, &f->session) ||
	    kst_open_region(f->fd, f->session, "pins", RIGHTS, &f->region, NULL))
		kst_bail("no region of node B: %s", kst_last_error(f->fd, NULL));
	for (int i = 0; i < MANY; i++) {
		ops[i] = kst_op(KRDMA_OP_SEND, f->region, 0, NULL, 0);
		ops[i].user_data = STUCK;
	}
	if (kst_start(f->fd, ops, MANY, &accepted) || accepted != MANY)
		kst_bail("messages: %s", kst_last_error(f->fd, NULL));
}

/* It waits, with its memory, for those that wait. */
static struct krdma_op waiting(const struct file *f, void *addr, __u64 length, __u64 timeout)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, f->region, 0, addr, length);

	op.flags = KRDMA_OPF_AFTER;
	op.timeout_ns = timeout;
	op.user_data = TRIED;
	return op;
}

static void start(const struct file *f, struct krdma_op op)
{
	__u32 accepted;

	if (kst_start(f->fd, &op, 1, &accepted) || accepted != 1)
		kst_bail("an operation: %s", kst_last_error(f->fd, NULL));
}

/* The status of the one that was tried; messages may end before it. */
static int status(const struct file *f)
{
	struct krdma_completion comp;

	do {
		if (kst_reap(f->fd, &comp, 1) != 1)
			return -ENODATA;
	} while (comp.user_data != TRIED);
	return comp.status;
}

static int cancelled(const struct file *f)
{
	kst_cancel(f->fd, TRIED, 0);
	return status(f);
}

FIXTURE(pins){};

FIXTURE_SETUP(pins)
{
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, BYTES);
	close(kst_setup(true));
	ASSERT_NOT(!kst_peer("export pins mem %lu %u %d", BYTES, RIGHTS, KST_BASE) ||
			   !kst_peer("queue pins"),
		   "no export");
	file_open(&first);
	ASSERT_TRUE(kst_wait(rest_stuck, NULL));
}

FIXTURE_TEARDOWN(pins)
{
	EXPECT_THAT(kst_teardown(first.fd), "at the end everything is as it was");
}

/* ---- by the time that they may last ---- */

TEST_F(pins, long)
{
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 60 * SECOND));
	EXPECT_THAT(kst_vmpin() == vmpin + (long)(PAGES * 4) && pinned(&first) == PAGES * KST_PAGE,
		    "what may last for 60 s is accounted: VmPin");
	EXPECT_IS(-ECANCELED, cancelled(&first), "it is cancelled");
	EXPECT_THAT(kst_vmpin() == vmpin && !pinned(&first), "and accounted no more");
	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 0));
	EXPECT_THAT(kst_vmpin() == vmpin + (long)(PAGES * 4),
		    "so is what may last as long as is usual");
	EXPECT_IS(-ECANCELED, cancelled(&first), "it is cancelled");
	EXPECT_THAT(kst_vmpin() == vmpin, "and accounted no more");
}

TEST_F(pins, short)
{
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 2 * SECOND));
	EXPECT_THAT(kst_vmpin() == vmpin && pinned(&first) == PAGES * KST_PAGE,
		    "what may last for 2 s is pinned, and not in VmPin");
	EXPECT_THAT(kst_wait(nothing_pinned, &first), "its pages are given back, whoever reads it");
	EXPECT_IS(-ETIMEDOUT, status(&first), "by then its time was over");
}

/* Private and read-only: it can't stay pinned. */
TEST_F(pins, kinds)
{
	void *text = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, text, 100, 60 * SECOND));
	EXPECT_FAILS(first.fd, status(&first), -EOPNOTSUPP, "5 s at most",
		     "memory that can't stay pinned, for 60 s");
	start(&first, waiting(&first, text, 100, 5 * SECOND));
	EXPECT_THAT(pinned(&first) == KST_PAGE, "it can be pinned for 5 s");
	EXPECT_IS(-ECANCELED, cancelled(&first), "it is cancelled");
	start(&first, waiting(&first, text, 100, 0));
	EXPECT_THAT(kst_vmpin() == vmpin && pinned(&first) == KST_PAGE,
		    "and where nobody says how long it is pinned for that time");
	EXPECT_IS(-ETIMEDOUT, status(&first), "which ends it");
}

/* ---- by RLIMIT_MEMLOCK ---- */

static int limited(void)
{
	struct rlimit limit = { PAGES * KST_PAGE, PAGES * KST_PAGE };
	long vmpin;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setresuid(65534, 65534, 65534))
		return 1;
	vmpin = kst_vmpin();
	start(&first, waiting(&first, memory, (PAGES + 1) * KST_PAGE, 60 * SECOND));
	if (status(&first) != -ENOMEM || !kst_sentence(first.fd, -ENOMEM, "RLIMIT_MEMLOCK") ||
	    !kst_sentence(first.fd, -ENOMEM, "5 s at most"))
		return 2;
	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 60 * SECOND));
	if (kst_vmpin() != vmpin + (long)(PAGES * 4) || cancelled(&first) != -ECANCELED)
		return 3;
	start(&first, waiting(&first, memory, (PAGES + 1) * KST_PAGE, 0));
	if (kst_vmpin() != vmpin || pinned(&first) != (PAGES + 1) * KST_PAGE)
		return 4;
	return status(&first) == -ETIMEDOUT ? 0 : 5;
}

TEST_F(pins, memlock)
{
	int state = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(limited());
	waitpid(pid, &state, 0);
	EXPECT_THAT(WIFEXITED(state) && !WEXITSTATUS(state),
		    "RLIMIT_MEMLOCK is for what may last longer (%d)", WEXITSTATUS(state));
}

/* ---- operations that wait for others ---- */

static struct krdma_op pair[2];
static struct krdma_completion comps[2];
static bool returned;

static bool both_pinned(void *arg)
{
	return pinned(arg) > KST_PAGE;
}

static bool one_unpinned(void *arg)
{
	return pinned(arg) <= KST_PAGE;
}

static void *submit_pair(void *unused)
{
	int rc = kst_submit(first.fd, pair, comps, 2, NULL);

	__atomic_store_n(&returned, true, __ATOMIC_SEQ_CST);
	return (void *)(long)rc ?: unused;
}

TEST_F(pins, batch)
{
	pthread_t thread;
	__u32 buffer;
	void *rc;

	ASSERT_NOT(kst_buffer(first.fd, memory, KST_PAGE, 0, &buffer), "BUFFER: %s",
		   kst_last_error(first.fd, NULL));
	pair[0] = waiting(&first, memory, PAGES * KST_PAGE, SECOND);
	pair[1] = waiting(&first, NULL, KST_PAGE, KST_TIMEOUT_NS);
	pair[1].flags |= KRDMA_OPF_BUFFER;
	pair[1].buffer = buffer;
	ASSERT_NOT(pthread_create(&thread, NULL, submit_pair, NULL), "no thread");
	/* The buffer's page, when it has ended; both, before. */
	kst_wait(both_pinned, &first);
	EXPECT_THAT(kst_wait(one_unpinned, &first) && !__atomic_load_n(&returned, __ATOMIC_SEQ_CST),
		    "of two operations in one call the first is unpinned while the other waits");
	kst_cancel(first.fd, STUCK, 0);
	pthread_join(thread, &rc);
	EXPECT_THAT(!rc && comps[0].status == -ETIMEDOUT && !comps[1].status,
		    "and both end as they should");
	kst_destroy(first.fd, buffer);
}

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* Task work runs when the process asks io_uring for completions; it does not. */
TEST_F(pins, uring)
{
	struct krdma_op op = waiting(&first, memory, PAGES * KST_PAGE, SECOND);
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int rc;

	kst_call(first.fd, KRDMA_IOC_QUERY, &query);
	if (!(query.features & KRDMA_FEATURE_URING) ||
	    io_uring_queue_init(4, &ring,
				IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
					IORING_SETUP_DEFER_TASKRUN))
		SKIP(return, "this kernel has no such ring");
	kst_ring_op(&ring, first.fd, &op, TRIED, false);
	rc = io_uring_submit(&ring);
	EXPECT_THAT(rc == 1 && pinned(&first) == PAGES * KST_PAGE,
		    "an operation of io_uring waits");
	EXPECT_THAT(kst_wait(nothing_pinned, &first),
		    "its pages are given back, though its process does not ask");
	rc = kst_ring_wait(&ring, &cqe) ?: cqe->res;
	EXPECT_IS(-ETIMEDOUT, rc, "by then its time was over");
	io_uring_queue_exit(&ring);
}

/* ---- the user's share ---- */

/* Pages that all are the same few, which count as often as they are pinned. */
static int take(const struct file *f, unsigned long pages)
{
	static struct krdma_vec vec[KRDMA_VECTOR_MAX], range[KRDMA_VECTOR_MAX];
	unsigned long each = BYTES / 8;
	__u64 left = pages * KST_PAGE;
	struct krdma_op op;
	unsigned int n;
	__u32 accepted;

	while (left) {
		for (n = 0; n < KRDMA_VECTOR_MAX && left; n++) {
			vec[n].addr = (uintptr_t)memory;
			vec[n].length = left < each ? left : each;
			range[n].length = vec[n].length;
			left -= vec[n].length;
		}
		op = waiting(f, vec, 0, 5 * SECOND);
		op.flags |= KRDMA_OPF_VECTOR | KRDMA_OPF_RANGES;
		op.naddr = op.nranges = n;
		op.offset = (uintptr_t)range;
		for (unsigned int i = 0; i < n; i++)
			op.length += vec[i].length;
		if (kst_start(f->fd, &op, 1, &accepted))
			return -EBADMSG;
	}
	return 0;
}

static int shared(void)
{
	struct file f, g;
	unsigned long most;

	if (setresuid(65534, 65534, 65534))
		return 1;
	file_open(&f);
	file_open(&g);
	/* What a file may have is half of all memory; so is a user's share. */
	most = sysconf(_SC_PHYS_PAGES) / 2;
	if (take(&f, most * 3 / 4) || pinned(&f) < most / 2 * KST_PAGE)
		return 2;
	if (take(&g, most * 3 / 4))
		return 3;
	if (status(&g) != -EDQUOT || !kst_sentence(g.fd, -EDQUOT, "a user may keep"))
		return 4;
	kst_cancel(f.fd, 0, KRDMA_CANCEL_ALL);
	kst_cancel(g.fd, 0, KRDMA_CANCEL_ALL);
	return 0;
}

TEST_F(pins, share)
{
	int state = -1;
	struct stat st;
	pid_t pid;

	ASSERT_NOT(stat("/dev/krdma_mover", &st) || chmod("/dev/krdma_mover", 0666), "chmod: %s",
		   strerror(errno));
	pid = fork();
	if (!pid)
		_exit(shared());
	waitpid(pid, &state, 0);
	EXPECT_THAT(
		WIFEXITED(state) && !WEXITSTATUS(state),
		"what is pinned for operations is in the share of the user, not only of the file (%d)",
		WEXITSTATUS(state));
	ASSERT_NOT(chmod("/dev/krdma_mover", st.st_mode & 07777), "chmod: %s", strerror(errno));
}

/* ---- memory that can't be mapped for the device ---- */

#define FAIL "/sys/kernel/debug/krdma_mover_fail/"

/* The points where that is looked at, and how often it failed there. */
static int map_points(char point[8][64], unsigned long *failed)
{
	FILE *f = fopen(FAIL "points", "r");
	char line[256], call[64];
	unsigned long n;
	int points = 0;

	*failed = 0;
	while (f && points < 8 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %63s reached %*u failed %lu", point[points], call, &n) !=
			    3 ||
		    strncmp(point[points], "mem.h:", 6) || strcmp(call, "ib_dma_mapping_error"))
			continue;
		points++;
		*failed += n;
	}
	if (f)
		fclose(f);
	return points;
}

static void map_fails(const char *point, unsigned int times)
{
	FILE *f = fopen(FAIL "arm", "w");

	if (!f || fprintf(f, "%s %d %u", point, times ? 1 : 0, times ? times : 1) < 0 || fclose(f))
		kst_bail(FAIL "arm: %s", strerror(errno));
}

TEST_F(pins, map)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE);
	struct krdma_completion comp;
	unsigned long before, after;
	char point[8][64];
	int rc;

	ASSERT_EQ(0, kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL));
	if (!map_points(point, &before))
		SKIP(return, "this kernel has no fault injection");
	map_fails(point[0], 7);
	EXPECT_IS(0, kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL),
		  "a WRITE whose memory can't be mapped 7 times");
	map_fails(point[0], 3);
	EXPECT_IS(0, kst_move(first.fd, KRDMA_OP_READ, first.region, 0, memory, KST_PAGE, NULL),
		  "a READ, 3 times");
	map_points(point, &after);
	EXPECT_THAT(after - before == 10, "it was tried again each time (%lu)", after - before);
	map_fails(point[0], 1000000);
	op.timeout_ns = SECOND / 2;
	rc = kst_submit(first.fd, &op, &comp, 1, NULL);
	map_fails(point[0], 0);
	EXPECT_FAILS(first.fd, rc ? rc : comp.status, -EIO, "could not be mapped",
		     "one whose memory can never be mapped ends at its deadline, and says so");
	EXPECT_IS(0, kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL),
		  "the session goes on");
}

KST_HARNESS_MAIN(2)
