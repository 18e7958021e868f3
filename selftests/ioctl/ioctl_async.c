// SPDX-License-Identifier: GPL-2.0
/*
 * Asynchronous operations: KRDMA_SUBMIT_ASYNC, read, poll, eventfd, cancel, and
 * what operations of every front end can do: vectors, ranges, order. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

#define RW     (PROT_READ | PROT_WRITE)
#define BYTES  (8UL << 20) /* of the region, and of the memory */
#define OPS    64
#define LIMIT  4096
#define PIECES 40

static int fd;
static __u32 session, region, buffer;
static unsigned char *memory;

KST_FIXTURE(async, fd)
FIXTURE_SETUP(async)
{
	fd = kst_setup(true);
	memory = kst_map(BYTES, RW, MAP_PRIVATE);
	memset(memory, 0x55, BYTES);
	ASSERT_NOT(kst_setup_region(fd, "async", BYTES, &session, &region, NULL) ||
			   kst_buffer(fd, memory, BYTES, KRDMA_BUFFER_WRITABLE, &buffer),
		   "no region, or no buffer: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

/* ---- many at once ---- */

static struct krdma_op op_of(int opcode, __u64 user_data, __u64 offset, __u64 at, __u64 length)
{
	struct krdma_op op = kst_op(opcode, region, offset, memory + at, length);

	op.user_data = user_data;
	return op;
}

/* Reads @n completions, at most @batch at a time; each of 0 to @n - 1 once, all good. */
static bool all_done(int file, unsigned int n, unsigned int batch, __u64 length)
{
	static struct krdma_completion comps[LIMIT];
	static bool seen[LIMIT];
	unsigned int done = 0;
	int i, got;

	memset(seen, 0, sizeof(seen));
	while (done < n) {
		got = kst_reap(file, comps, batch);
		if (got == -EAGAIN) {
			struct pollfd p = { .fd = file, .events = POLLIN };

			poll(&p, 1, 30000);
			continue;
		}
		if (got <= 0) {
			kst_diag("read after %u of %u: %d", done, n, got);
			return false;
		}
		for (i = 0; i < got; i++, done++) {
			__u64 k = comps[i].user_data;

			if (k >= n || seen[k] || comps[i].status || comps[i].result != length) {
				kst_diag("completion %llu: status %d result %llu%s",
					 (unsigned long long)k, comps[i].status,
					 (unsigned long long)comps[i].result,
					 k < n && seen[k] ? ", twice" : "");
				return false;
			}
			seen[k] = true;
		}
	}
	return true;
}

static bool write_many(int file, unsigned int n, unsigned int seed)
{
	struct krdma_op ops[OPS];
	__u32 accepted;
	unsigned int i;
	int rc;

	kst_fill(memory, 0, n * KST_PAGE, seed);
	for (i = 0; i < n; i++)
		ops[i] = op_of(KRDMA_OP_WRITE, i, i * KST_PAGE, i * KST_PAGE, KST_PAGE);
	rc = kst_start(file, ops, n, &accepted);
	if (!rc && accepted == n)
		return true;
	kst_diag("submit: %d, %u of %u: %s", rc, accepted, n, kst_last_error(file, NULL));
	return false;
}

TEST_F(async, many)
{
	struct krdma_completion comp;
	struct krdma_op op;

	EXPECT_IS(0, kst_reap(fd, &comp, 1),
		  "nothing is under way: read gives nothing, and does not wait");
	EXPECT_THAT(write_many(fd, OPS, 11) && all_done(fd, OPS, OPS, KST_PAGE),
		    "%d operations in a call, completions in batches", OPS);
	EXPECT_THAT(kst_peer_has("async", 0, OPS * KST_PAGE, 11), "the bytes are there");
	EXPECT_THAT(write_many(fd, OPS, 12) && all_done(fd, OPS, 1, KST_PAGE), "one by one");
	EXPECT_THAT(kst_peer_has("async", 0, OPS * KST_PAGE, 12), "the bytes are there");
	EXPECT_IS(0, kst_reap(fd, &comp, 1), "then there is none left");
	EXPECT_IS(-EINVAL, read(fd, &comp, sizeof(comp) - 1) < 0 ? -errno : 0,
		  "a read of less than a completion is EINVAL");

	op = op_of(KRDMA_OP_READ, 7, 0, 0, 100);
	op.addr = 4096;
	EXPECT_IS(0, kst_start(fd, &op, 1, NULL), "memory that is not there: the call works");
	EXPECT_THAT(kst_reap(fd, &comp, 1) == 1 && comp.status == -EFAULT && comp.user_data == 7,
		    "its completion is EFAULT");
	EXPECT_THAT(kst_sentence(fd, -EFAULT, "0x1000"), "the reader gets the sentence");

	op = op_of(KRDMA_OP_READ, 8, 0, 0, 100);
	ASSERT_NOT(kst_start(fd, &op, 1, NULL), "SUBMIT: %s", kst_last_error(fd, NULL));
	EXPECT_IS(-EFAULT, kst_reap(fd, NULL, 1), "completions to nowhere are EFAULT");
	EXPECT_THAT(kst_reap(fd, &comp, 1) == 1 && !comp.status && comp.user_data == 8,
		    "and are not lost");
	op.opcode = 77;
	EXPECT_FAILS(fd, kst_start(fd, &op, 1, NULL), -EOPNOTSUPP, "77",
		     "a malformed one is refused");
	EXPECT_IS(0, kst_reap(fd, &comp, 1), "and has no completion");
}

/* ---- turns ---- */

#define MANY 960 /* a multiple of OPS */
#define LONG 65536

/* Completions that are there. Return: their number, or -1 if one has failed */
static int reap_good(int file)
{
	static struct krdma_completion comps[LIMIT];
	int got = kst_reap(file, comps, LIMIT), i;

	for (i = 0; i < got; i++)
		if (comps[i].status || comps[i].result != LONG)
			return -1;
	return got < 0 ? 0 : got;
}

TEST_F(async, turns)
{
	int other = kst_open(), before, done = 0, got = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	__u32 its_session, its_region, accepted = OPS;
	struct krdma_op ops[OPS];
	unsigned int i, n;
	cpu_set_t cpus;

	/* Both on one channel. */
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	ASSERT_NOT(sched_setaffinity(0, sizeof(cpus), &cpus), "one processor");
	ASSERT_NOT(kst_connect(other, 0, &its_session) ||
			   kst_open_region(other, its_session, "async", 0, &its_region, NULL),
		   "another file: %s", kst_last_error(other, NULL));
	/* The keys are there. */
	ASSERT_NOT(kst_move(fd, KRDMA_OP_WRITE, region, 0, memory, BYTES, NULL), "WRITE: %s",
		   kst_last_error(fd, NULL));
	for (i = 0; i < OPS; i++) {
		ops[i] = op_of(KRDMA_OP_WRITE, 0, 0, 0, LONG);
		ops[i].flags |= KRDMA_OPF_BUFFER;
		ops[i].buffer = buffer;
		ops[i].addr = 0;
	}
	for (n = 0; n < MANY && accepted == OPS; n += accepted)
		ASSERT_NOT(kst_start(fd, ops, OPS, &accepted), "SUBMIT: %s",
			   kst_last_error(fd, NULL));
	before = reap_good(fd);
	EXPECT_IS(0, kst_move(other, KRDMA_OP_WRITE, its_region, LONG, memory, LONG, NULL),
		  "one operation of a file, behind very many of another");
	done = reap_good(fd);
	EXPECT_THAT(before >= 0 && done >= 0, "all are good");
	/* Other processors may move them as fast as this one submits. */
	if (MANY - before > 4 * OPS)
		EXPECT_THAT(done < (MANY - before) / 2, "did not wait for them: %d of %d were done",
			    done, MANY - before);
	done += before;
	while (done >= 0 && done < MANY && poll(&p, 1, 60000) == 1 && (got = reap_good(fd)) >= 0)
		done += got;
	EXPECT_IS(MANY, done, "and they are done as well");
	close(other);
}

/* ---- poll, eventfd ---- */

static short ready(int file, short events, int ms)
{
	struct pollfd p = { .fd = file, .events = events };

	return poll(&p, 1, ms) == 1 ? p.revents : 0;
}

TEST_F(async, poll)
{
	struct krdma_ioc_eventfd set = { .size = sizeof(set) };
	struct epoll_event event = { .events = EPOLLIN };
	struct krdma_completion comps[OPS];
	int efd = eventfd(0, EFD_NONBLOCK), epoll = epoll_create1(0);
	unsigned int got = 0;
	uint64_t count, sum = 0;

	EXPECT_IS(POLLOUT, ready(fd, POLLIN | POLLOUT, 0),
		  "idle: there is room, and nothing to read");
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	set.fd = efd;
	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_EVENTFD, &set), "an eventfd");
	write_many(fd, OPS, 13);
	EXPECT_IS(POLLIN, ready(fd, POLLIN, 30000), "poll waits for a completion");
	EXPECT_IS(1, epoll_wait(epoll, &event, 1, 30000), "so does epoll");
	while (sum < OPS && ready(efd, POLLIN, 30000) && read(efd, &count, 8) == 8)
		sum += count;
	EXPECT_THAT(sum == OPS, "the eventfd counts every one");
	while (got < OPS) {
		int n = kst_reap(fd, comps + got, OPS - got);

		if (n <= 0)
			break;
		got += n;
	}
	EXPECT_THAT(got == OPS, "all are there to be read by then");
	EXPECT_IS(POLLOUT, ready(fd, POLLIN | POLLOUT, 0), "when all are read poll says so");
	set.fd = epoll;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_EVENTFD, &set), -EINVAL, "eventfd",
		     "what is no eventfd is EINVAL");
	set.fd = 1000000;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_EVENTFD, &set), -EBADF, "eventfd",
		     "what is not open is EBADF");
	set.fd = -1;
	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_EVENTFD, &set), "no eventfd any more");
	write_many(fd, 1, 14);
	all_done(fd, 1, 1, KST_PAGE);
	EXPECT_THAT(read(efd, &count, 8) < 0 && errno == EAGAIN, "it is not told of more");
	close(epoll);
	close(efd);
}

/* ---- the limit ---- */

/* The first thread: in the ioctl, as it does nothing else. */
static bool sleeps(void *arg)
{
	char path[64], state = 0;
	FILE *file;

	(void)arg;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}

static void *reap_later(void *arg)
{
	struct krdma_completion comps[2];

	kst_wait(sleeps, arg);
	kst_reap(fd, comps, 2);
	return NULL;
}

TEST_F(async, limit)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct krdma_completion comps[256];
	struct krdma_op ops[OPS];
	int flags = fcntl(fd, F_GETFL), rc, n;
	__u32 accepted, sum = 0;
	pthread_t thread;
	unsigned int i;

	kst_call(fd, KRDMA_IOC_QUERY, &query);
	EXPECT_THAT(query.ops_max == LIMIT, "a file may have %d operations", LIMIT);
	for (i = 0; i < OPS; i++)
		ops[i] = op_of(KRDMA_OP_WRITE, i, 0, 0, 1);
	ops[0].addr = 4096; /* ends at once */
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	EXPECT_IS(-EAGAIN, kst_reap(fd, comps, 1), "O_NONBLOCK, nothing under way: EAGAIN");
	while (!(rc = kst_start(fd, ops, sum + OPS > LIMIT - 10 ? 50 : OPS, &accepted)))
		sum += accepted;
	EXPECT_IS(-EAGAIN, rc, "at the limit there is no room without waiting");
	EXPECT_THAT(sum == LIMIT, "up to it there was, and the last call took what went in");
	EXPECT_IS(0, ready(fd, POLLOUT, 0), "poll says that there is none");
	fcntl(fd, F_SETFL, flags);
	pthread_create(&thread, NULL, reap_later, NULL);
	rc = kst_start(fd, ops, 5, &accepted);
	pthread_join(thread, NULL);
	EXPECT_THAT(!rc && accepted == 2,
		    "the waiting submitter goes on when two are read, with two");
	for (sum = 0; (n = kst_reap(fd, comps, KST_ARRAY_SIZE(comps))) > 0; sum += n)
		;
	EXPECT_THAT(!n && sum == LIMIT, "every one has a completion");
}

/* ---- a buffer that goes ---- */

static bool unpinned(void *before)
{
	return kst_vmpin() == *(long *)before;
}

TEST_F(async, destroyed)
{
	unsigned char *mem = kst_map(BYTES, RW, MAP_PRIVATE);
	struct krdma_op op = op_of(KRDMA_OP_READ, 1, 0, 0, BYTES);
	long before = kst_vmpin();
	struct krdma_completion comp;
	__u32 id, accepted;
	int rc;

	memset(mem, 0x55, BYTES);
	ASSERT_NOT(kst_buffer(fd, mem, BYTES, KRDMA_BUFFER_WRITABLE, &id), "BUFFER: %s",
		   kst_last_error(fd, NULL));
	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = id;
	op.addr = 0;
	rc = kst_start(fd, &op, 1, &accepted);
	kst_destroy(fd, id);
	EXPECT_THAT(!rc && !unpinned(&before), "a buffer destroyed under a READ is pinned");
	EXPECT_THAT(kst_wait(unpinned, &before),
		    "not after the READ has ended, though nobody reads its completion");
	EXPECT_THAT(kst_reap(fd, &comp, 1) == 1 && !comp.status && comp.result == BYTES,
		    "which is there to be read");
	munmap(mem, BYTES);
}

/* ---- vectors and ranges ---- */

struct shape {
	struct krdma_vec vec[PIECES];
	unsigned int n;
	__u64 length;
};

static unsigned int seed = 4711;

static unsigned int any(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % n;
}

/* Pieces that do not overlap, with a gap behind some; all of @length. */
static void shape(struct shape *s, __u64 base, __u64 length)
{
	__u64 at = base + any(5000), len;

	s->length = length;
	for (s->n = 0; length; s->n++) {
		len = 1 + any(any(4) ? 3000 : 100000);
		if (len > length || s->n == PIECES - 1)
			len = length;
		s->vec[s->n] = (struct krdma_vec){ .addr = at, .length = len };
		at += len + (any(2) ? any(5000) : 0);
		length -= len;
	}
}

/* Byte @i of a shape. */
static __u64 shape_at(const struct shape *s, __u64 i)
{
	unsigned int k = 0;

	while (i >= s->vec[k].length)
		i -= s->vec[k++].length;
	return s->vec[k].addr + i;
}

/* One there, and back to other places; the model is what node B sends us plainly. */
static bool shaped(bool by_buffer)
{
	static unsigned char *plain;
	struct shape from, to, ranges;
	struct krdma_vec vec[PIECES];
	__u64 length = 1 + any(300000), i;
	struct krdma_completion comp = { 0 };
	unsigned int k;
	struct krdma_op op;
	int rc;

	if (!plain)
		plain = kst_map(BYTES, RW, MAP_PRIVATE);
	shape(&from, 0, length);
	shape(&to, BYTES / 2, length);
	shape(&ranges, 0, length);
	for (i = 0; i < BYTES; i++)
		memory[i] = any(256);
	op = op_of(KRDMA_OP_WRITE, 1, (uintptr_t)ranges.vec, 0, length);
	op.flags = KRDMA_OPF_VECTOR | KRDMA_OPF_RANGES | (by_buffer ? KRDMA_OPF_BUFFER : 0);
	op.nranges = ranges.n;
	op.buffer = by_buffer ? buffer : 0;
	op.addr = (uintptr_t)vec;
	for (k = 0; k < from.n; k++)
		vec[k] = (struct krdma_vec){ from.vec[k].addr + (by_buffer ? 0 : (uintptr_t)memory),
					     from.vec[k].length };
	op.naddr = from.n;
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	if (rc || comp.status || comp.result != length)
		goto failed;
	/* What is there now, read plainly. */
	rc = kst_move(fd, KRDMA_OP_READ, region, 0, plain, BYTES, NULL);
	for (i = 0; i < length && !rc; i++)
		if (plain[shape_at(&ranges, i)] != memory[shape_at(&from, i)])
			rc = -EILSEQ;
	if (rc)
		goto failed;
	op.opcode = KRDMA_OP_READ;
	for (k = 0; k < to.n; k++)
		vec[k] = (struct krdma_vec){ to.vec[k].addr + (by_buffer ? 0 : (uintptr_t)memory),
					     to.vec[k].length };
	op.naddr = to.n;
	memset(plain, 0, BYTES);
	memcpy(plain, memory, BYTES);
	for (i = 0; i < length; i++)
		plain[shape_at(&to, i)] = memory[shape_at(&from, i)];
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	if (rc || comp.status || comp.result != length)
		goto failed;
	/* Every byte, also of those around. */
	if (!memcmp(plain, memory, BYTES))
		return true;
	rc = -EILSEQ;
failed:
	kst_diag("%llu bytes, %u pieces, %u ranges: %s, status %d: %s", (unsigned long long)length,
		 op.naddr, ranges.n, strerror(-rc), comp.status, kst_last_error(fd, NULL));
	return false;
}

static void try_vector(struct __test_metadata *_metadata, int want, const char *word,
		       unsigned int naddr, unsigned int nranges, struct krdma_vec *vec,
		       __u64 length, const char *what)
{
	struct krdma_op op = op_of(KRDMA_OP_WRITE, 1, 0, 0, length);
	struct krdma_completion comp;

	if (nranges) {
		op.flags = KRDMA_OPF_RANGES;
		op.offset = (uintptr_t)vec;
	} else {
		op.flags = KRDMA_OPF_VECTOR;
		op.addr = (uintptr_t)vec;
	}
	op.naddr = naddr;
	op.nranges = nranges;
	EXPECT_FAILS(fd, kst_submit(fd, &op, &comp, 1, NULL), want, word, "%s", what);
}

TEST_F(async, vectors)
{
	__u64 mem = (uintptr_t)memory;
	struct krdma_vec two[2] = { { mem, 10 }, { mem + 100, 20 } };
	struct krdma_vec wraps[2] = { { mem, ~0ULL }, { mem, 31 } };
	struct krdma_vec empty[2] = { { mem, 30 }, { mem, 0 } };
	struct krdma_vec far[2] = { { 0, 10 }, { BYTES - 10, 20 } };
	struct krdma_op op;
	bool good = true;
	int i;

	for (i = 0; i < 25; i++)
		good &= shaped(i & 1);
	EXPECT_THAT(good,
		    "pieces and ranges of all sizes, there and back, and no byte around them");
	try_vector(_metadata, -EINVAL, "30", 2, 0, two, 31, "more bytes than the vector has");
	try_vector(_metadata, -EINVAL, "30", 2, 0, two, 29, "fewer bytes than the vector has");
	try_vector(_metadata, -EINVAL, "malformed", 2, 0, wraps, 30,
		   "a vector whose sum wraps around");
	try_vector(_metadata, -EINVAL, "malformed", 2, 0, empty, 30, "a piece without bytes");
	try_vector(_metadata, -EINVAL, "1024", 1025, 0, two, 30, "more pieces than may be");
	op = op_of(KRDMA_OP_WRITE, 1, 0, 0, 10);
	op.flags = KRDMA_OPF_VECTOR;
	EXPECT_FAILS(fd, kst_submit(fd, &op, (struct krdma_completion[1]){}, 1, NULL), -EINVAL,
		     "1024", "a vector of none");
	try_vector(_metadata, -EFAULT, "vector", 2, 0, NULL, 30, "a vector that is not there");
	try_vector(_metadata, -ERANGE, "'async'", 0, 2, far, 30,
		   "a range that is not in the region");
}

/* ---- order ---- */

TEST_F(async, order)
{
	struct krdma_completion comps[3];
	struct krdma_op ops[3];
	unsigned int i, wrong = 0, late = 0;
	int n;

	/* Without the flag the short ones pass the long one, and are overwritten. */
	for (i = 0; i < 5; i++) {
		kst_fill(memory, 0, BYTES / 2, 100 + i);
		kst_fill(memory + BYTES / 2, BYTES / 2 - KST_PAGE, KST_PAGE, 200 + i);
		ops[0] = op_of(KRDMA_OP_WRITE, 0, 0, 0, BYTES / 2);
		ops[1] = op_of(KRDMA_OP_WRITE, 1, BYTES / 2 - KST_PAGE, BYTES / 2, KST_PAGE);
		ops[2] = op_of(KRDMA_OP_READ, 2, BYTES / 2 - KST_PAGE, BYTES / 2 + 2 * KST_PAGE,
			       KST_PAGE);
		ops[1].flags = KRDMA_OPF_AFTER;
		ops[2].flags = KRDMA_OPF_AFTER;
		ASSERT_NOT(kst_start(fd, ops, 3, NULL), "SUBMIT: %s", kst_last_error(fd, NULL));
		for (n = 0; n < 3; n++)
			if (kst_reap(fd, comps + n, 1) != 1 || comps[n].status ||
			    comps[n].user_data != (unsigned int)n)
				late++;
		if (!kst_peer_has("async", 0, BYTES / 2 - KST_PAGE, 100 + i) ||
		    !kst_peer_has("async", BYTES / 2 - KST_PAGE, KST_PAGE, 200 + i) ||
		    kst_check(memory + BYTES / 2 + 2 * KST_PAGE, BYTES / 2 - KST_PAGE, KST_PAGE,
			      200 + i) >= 0)
			wrong++;
	}
	EXPECT_THAT(!late, "what comes after the others ends after them");
	EXPECT_THAT(!wrong, "and finds what they have done");

	ops[0] = op_of(KRDMA_OP_WRITE, 0, 0, 0, BYTES);
	ops[1] = op_of(KRDMA_OP_WRITE, 1, 0, 0, 1);
	ops[1].flags = KRDMA_OPF_AFTER;
	ops[1].timeout_ns = 1;
	ASSERT_NOT(kst_start(fd, ops, 2, NULL), "SUBMIT: %s", kst_last_error(fd, NULL));
	for (n = 0; n < 2; n++)
		kst_reap(fd, comps + n, 1);
	EXPECT_THAT(comps[0].user_data == 1 && comps[0].status == -ETIMEDOUT && !comps[1].status,
		    "an operation waits for its turn no longer than its deadline");

	for (i = 0; i < 3; i++) {
		ops[i] = op_of(KRDMA_OP_WRITE, i, 0, 0, i ? 1 : BYTES);
		ops[i].flags = i ? KRDMA_OPF_AFTER : 0;
	}
	ASSERT_NOT(kst_start(fd, ops, 3, NULL), "SUBMIT: %s", kst_last_error(fd, NULL));
	EXPECT_IS(1, kst_cancel(fd, 1, 0), "an operation that waits for its turn can be cancelled");
	EXPECT_THAT(kst_reap(fd, comps, 1) == 1 && comps[0].user_data == 1 &&
			    comps[0].status == -ECANCELED,
		    "and ends at once");
	for (n = 0; n < 2; n++)
		kst_reap(fd, comps + n, 1);
	EXPECT_THAT(!comps[0].user_data && comps[1].user_data == 2 && !comps[0].status &&
			    !comps[1].status,
		    "those before and behind go on");
}

/* ---- deadlines, close ---- */

static int hurried(void)
{
	int file = kst_open();
	struct krdma_completion comps[OPS];
	struct krdma_op ops[OPS];
	__u32 s, r;
	int i, n, round;

	if (kst_connect(file, 0, &s) || kst_open_region(file, s, "async", 0, &r, NULL))
		return 2;
	for (round = 0; round < 50; round++) {
		for (i = 0; i < OPS; i++) {
			ops[i] = op_of(KRDMA_OP_READ, i, BYTES / 2, 0, 100000);
			ops[i].region = r;
			ops[i].timeout_ns = 1000;
		}
		if (kst_start(file, ops, OPS, NULL))
			return 3;
		for (i = 0; i < OPS; i += n) {
			n = kst_reap(file, comps, OPS);
			if (n <= 0)
				return 4;
		}
	}
	return 0;
}

/* A process with deadlines of 1 us beside one that streams. */
TEST_F(async, neighbour)
{
	struct krdma_completion comp;
	unsigned int lost = 0, rounds = 0;
	struct krdma_op op;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(hurried());
	do {
		kst_fill(memory, 0, BYTES / 2, 300 + rounds);
		op = op_of(KRDMA_OP_WRITE, rounds++, 0, 0, BYTES / 2);
		if (kst_start(fd, &op, 1, NULL) || kst_reap(fd, &comp, 1) != 1 || comp.status)
			lost++;
	} while (!waitpid(pid, &status, WNOHANG));
	EXPECT_THAT(WIFEXITED(status) && !WEXITSTATUS(status),
		    "a process with deadlines of 1 us has all its completions");
	EXPECT_THAT(!lost && kst_peer_has("async", 0, BYTES / 2, 300 + rounds - 1),
		    "another one, which streams beside it, loses nothing");
	kst_diag("%u rounds, status %#x", rounds, status);
}

TEST_F(async, close)
{
	struct krdma_op ops[OPS];
	unsigned int i, round;
	__u32 s, r;
	int file;

	for (round = 0; round < 4; round++) {
		file = kst_open();
		ASSERT_NOT(kst_connect(file, 0, &s) ||
				   kst_open_region(file, s, "async", 0, &r, NULL),
			   "OPEN: %s", kst_last_error(file, NULL));
		for (i = 0; i < OPS; i++) {
			ops[i] = op_of(i & 1 ? KRDMA_OP_READ : KRDMA_OP_WRITE, i, 0, i * 100000,
				       100000);
			ops[i].region = r;
			ops[i].flags = i % 8 == 7 ? KRDMA_OPF_AFTER : 0;
		}
		ASSERT_NOT(kst_start(file, ops, OPS, NULL), "SUBMIT: %s",
			   kst_last_error(file, NULL));
		if (round & 1)
			kst_destroy(file, r);
		close(file);
	}
}

KST_HARNESS_MAIN(2)
