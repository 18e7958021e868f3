// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is pinned for an operation which the peer keeps waiting: for seconds at most,
 * or it is accounted as a buffer is. Messages that nobody reads make the others wait, as
 * these have KRDMA_OP_AFTER.
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

#include "kst_uring.h"

#define RW     (PROT_READ | PROT_WRITE)
#define RIGHTS (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
#define BYTES  (1UL << 20)
#define PAGES  16UL
#define SECOND 1000000000ULL
/* More than an inbox has room for and a region places, so that the others wait. */
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

	op.flags = KRDMA_OP_AFTER;
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

/* ---- by the time that they may last ---- */

static void test_long(void)
{
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 60 * SECOND));
	kst_ok(kst_vmpin() == vmpin + (long)(PAGES * 4) && pinned(&first) == PAGES * KST_PAGE,
	       "what may last for 60 s is accounted: VmPin");
	kst_is(cancelled(&first), -ECANCELED, "it is cancelled");
	kst_ok(kst_vmpin() == vmpin && !pinned(&first), "and accounted no more");
	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 0));
	kst_ok(kst_vmpin() == vmpin + (long)(PAGES * 4), "so is what may last as long as is usual");
	kst_is(cancelled(&first), -ECANCELED, "it is cancelled");
	kst_ok(kst_vmpin() == vmpin, "and accounted no more");
}

static void test_short(void)
{
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, memory, PAGES * KST_PAGE, 2 * SECOND));
	kst_ok(kst_vmpin() == vmpin && pinned(&first) == PAGES * KST_PAGE,
	       "what may last for 2 s is pinned, and not in VmPin");
	kst_ok(kst_wait(nothing_pinned, &first), "its pages are given back, whoever reads it");
	kst_is(status(&first), -ETIMEDOUT, "by then its time was over");
}

/* Private and read-only: it can't stay pinned. */
static void test_kinds(void)
{
	void *text = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	long vmpin = kst_vmpin();

	start(&first, waiting(&first, text, 100, 60 * SECOND));
	kst_fails(first.fd, status(&first), -EOPNOTSUPP, "5 s at most",
		  "memory that can't stay pinned, for 60 s");
	start(&first, waiting(&first, text, 100, 5 * SECOND));
	kst_ok(pinned(&first) == KST_PAGE, "it can be pinned for 5 s");
	kst_is(cancelled(&first), -ECANCELED, "it is cancelled");
	start(&first, waiting(&first, text, 100, 0));
	kst_ok(kst_vmpin() == vmpin && pinned(&first) == KST_PAGE,
	       "and where nobody says how long it is pinned for that time");
	kst_is(status(&first), -ETIMEDOUT, "which ends it");
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

static void test_memlock(void)
{
	int state = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(limited());
	waitpid(pid, &state, 0);
	kst_ok(WIFEXITED(state) && !WEXITSTATUS(state),
	       "RLIMIT_MEMLOCK is for what may last longer (%d)", WEXITSTATUS(state));
}

/* ---- who waits for others ---- */

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

static void test_batch(void)
{
	pthread_t thread;
	__u32 buffer;
	void *rc;

	if (kst_buffer(first.fd, memory, KST_PAGE, 0, &buffer))
		kst_bail("BUFFER: %s", kst_last_error(first.fd, NULL));
	pair[0] = waiting(&first, memory, PAGES * KST_PAGE, SECOND);
	pair[1] = waiting(&first, NULL, KST_PAGE, KST_TIMEOUT_NS);
	pair[1].flags |= KRDMA_OP_BUFFER;
	pair[1].buffer = buffer;
	if (pthread_create(&thread, NULL, submit_pair, NULL))
		kst_bail("no thread");
	/* The buffer's page, when it has ended; both, before. */
	kst_wait(both_pinned, &first);
	kst_ok(kst_wait(one_unpinned, &first) && !__atomic_load_n(&returned, __ATOMIC_SEQ_CST),
	       "of two operations in one call the first is unpinned while the other waits");
	kst_cancel(first.fd, STUCK, 0);
	pthread_join(thread, &rc);
	kst_ok(!rc && comps[0].status == -ETIMEDOUT && !comps[1].status,
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
static void test_uring(void)
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
					IORING_SETUP_DEFER_TASKRUN)) {
		kst_skip("this kernel has no such ring", "task work that does not come");
		return;
	}
	kst_ring_op(&ring, first.fd, &op, TRIED, false);
	rc = io_uring_submit(&ring);
	kst_ok(rc == 1 && pinned(&first) == PAGES * KST_PAGE, "an operation of io_uring waits");
	kst_ok(kst_wait(nothing_pinned, &first),
	       "its pages are given back, though its process does not ask");
	rc = kst_ring_wait(&ring, &cqe) ?: cqe->res;
	kst_is(rc, -ETIMEDOUT, "by then its time was over");
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
		op.flags |= KRDMA_OP_VECTOR | KRDMA_OP_RANGES;
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

static void test_share(void)
{
	int state = -1;
	struct stat st;
	pid_t pid;

	if (stat("/dev/krdma_mover", &st) || chmod("/dev/krdma_mover", 0666))
		kst_bail("chmod: %s", strerror(errno));
	pid = fork();
	if (!pid)
		_exit(shared());
	waitpid(pid, &state, 0);
	kst_ok(WIFEXITED(state) && !WEXITSTATUS(state),
	       "what is pinned for operations is in the share of the user, not only of the file (%d)",
	       WEXITSTATUS(state));
	if (chmod("/dev/krdma_mover", st.st_mode & 07777))
		kst_bail("chmod: %s", strerror(errno));
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
		    strncmp(point[points], "krdma.h:", 8) || strcmp(call, "ib_dma_mapping_error"))
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

static void test_map(void)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE);
	struct krdma_completion comp;
	unsigned long before, after;
	char point[8][64];
	int rc;

	rc = kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL);
	if (rc || !map_points(point, &before)) {
		kst_skip("this kernel has no fault injection", "memory that can't be mapped (%d)",
			 rc);
		return;
	}
	map_fails(point[0], 7);
	kst_is(kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL), 0,
	       "a WRITE whose memory can't be mapped 7 times");
	map_fails(point[0], 3);
	kst_is(kst_move(first.fd, KRDMA_OP_READ, first.region, 0, memory, KST_PAGE, NULL), 0,
	       "a READ, 3 times");
	map_points(point, &after);
	kst_ok(after - before == 10, "it was tried again each time (%lu)", after - before);
	map_fails(point[0], 1000000);
	op.timeout_ns = SECOND / 2;
	rc = kst_submit(first.fd, &op, &comp, 1, NULL);
	map_fails(point[0], 0);
	kst_fails(first.fd, rc ? rc : comp.status, -EIO, "could not be mapped",
		  "one whose memory can never be mapped ends at its deadline, and says so");
	kst_is(kst_move(first.fd, KRDMA_OP_WRITE, first.region, 0, memory, KST_PAGE, NULL), 0,
	       "the session goes on");
}

int main(int argc, char **argv)
{
	struct kst_state before;

	kst_main(argc, argv, 2);
	before = kst_now();
	kst_peer_start();
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, BYTES);
	if (!kst_peer("export pins mem %lu %u %d", BYTES, RIGHTS, KST_BASE) ||
	    !kst_peer("inbox pins"))
		kst_bail("no export");
	file_open(&first);
	if (!kst_wait(rest_stuck, NULL))
		kst_bail("no message waits");

	test_map();
	test_long();
	test_short();
	test_kinds();
	test_memlock();
	test_uring();
	test_share();
	test_batch();
	close(first.fd);
	kst_peer("unexport pins");
	kst_peer_stop();
	kst_settled(&before, "at the end everything is as it was");
	return kst_done();
}
