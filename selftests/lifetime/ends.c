// SPDX-License-Identifier: GPL-2.0
/*
 * What has ended writes no more. READs fill memory that is poisoned as soon as nothing may
 * write it any longer, and looked at later, when others have gone on for a while:
 *
 *  - the place of an operation when its completion was read, be it done, cancelled or late.
 *    Before the place is used again it has to be poison still;
 *  - all the memory of a process that was killed, or of a ring or file that was closed, with
 *    DEPTH operations under way: when nothing of it is pinned any more, as the pins may
 *    outlive the process (Documentation/lifetime.rst, "Who unpins"). It is shared with this
 *    process, so that it is there to be looked at.
 *
 * Node B has other bytes each time, so that stray ones tell when they were asked for.
 *
 * KILLS is how many ends there are, CANCELS how many operations are cancelled. SEED makes
 * the choices come again, though not the moments.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kst_harness.h"
#include "kst_uring.h"

#define RW     (PROT_READ | PROT_WRITE)
#define DEPTH  32
#define PLACES 48
#define PLACE  (128UL << 10) /* what node B has for each of them to read */
#define AREA   (PLACES * PLACE)
#define AREAS  4
#define RANGES 32
#define POISON 0xa5

enum front {
	ASYNC,
	WAIT,
	RING
};

/* What was wrong: as operations ended, or behind an end of all. */
enum stage {
	COMPLETIONS,
	ENDS,
	STAGES
};

/* Of a process that is killed, for the one that watches. */
struct notes {
	unsigned int under_way;
	unsigned int moved, cancelled, late, strange, told;
	unsigned int wrong[STAGES];
	char text[STAGES][200]; /* the first that was wrong */
	bool rests[PLACES];
};

static struct notes *notes;
static unsigned char *memory, *area; /* all AREAS, one of them */
static unsigned int round_now;       /* with the pattern of that round */
static struct kst_state idle;
static bool have_ring, ring_cancels;

static int file;
static __u32 region, buffer;
static struct io_uring ring;
static unsigned int factor;

static unsigned int random_state;

static unsigned int any(unsigned int n)
{
	random_state = random_state * 1103515245 + 12345;
	return (random_state >> 8) % n;
}

static void wrong(enum stage stage, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!notes->wrong[stage]++)
		vsnprintf(notes->text[stage], sizeof(notes->text[stage]), fmt, args);
	va_end(args);
}

static bool all_right(enum stage stage)
{
	if (!notes->wrong[stage])
		return true;
	kst_diag("%u times, first: %s", notes->wrong[stage], notes->text[stage]);
	notes->wrong[stage] = 0;
	return false;
}

/* ---- poison ---- */

static void look(const unsigned char *mem, size_t length, enum stage stage, const char *when)
{
	size_t at = 0, place;
	unsigned int of;

	if (kst_all(mem, length, POISON))
		return;
	while (mem[at] == POISON)
		at++;
	place = (mem + at - memory) % AREA;
	for (of = round_now; of > KST_BASE; of--)
		if (kst_check(mem + at, place % PLACE, length - at < 8 ? length - at : 8, of) < 0)
			break;
	wrong(stage,
	      "%s: area %zu, place %zu, byte %zu is no poison any more, but of round %u (now: %u)",
	      when, (mem + at - memory) / AREA, place / PLACE, place % PLACE, of - KST_BASE,
	      round_now - KST_BASE);
}

static void next_round(void)
{
	round_now++;
	area = memory + round_now % AREAS * AREA;
	look(area, AREA, ENDS, "an area that has rested");
	if (!kst_peer("fill ends 0 %lu %u", PLACE, round_now))
		kst_bail("node B can't fill its memory");
}

/* ---- begin and end ---- */

static bool unpinned(void *arg)
{
	struct kst_state now = kst_now();

	(void)arg;
	return now.pins == idle.pins && now.accounted == idle.accounted &&
	       now.transfers == idle.transfers;
}

static bool all_unpinned(void)
{
	struct kst_state now;

	if (kst_wait(unpinned, NULL))
		return true;
	now = kst_now();
	kst_diag("%ld pages pinned and %ld bytes accounted too much, %u operations",
		 now.pins - idle.pins, now.accounted - idle.accounted,
		 now.transfers - idle.transfers);
	return false;
}

FIXTURE(ends)
{
	int fd;
};

FIXTURE_SETUP(ends)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	__u32 session, keep;

	self->fd = kst_setup(true);
	ASSERT_NOT(kst_setup_region(self->fd, "ends", 2 * PLACE, &session, &keep, NULL),
		   "no region of node B: %s", kst_last_error(self->fd, NULL));
	factor = kst_number("TIME_FACTOR", 1);
	random_state = kst_number("SEED", time(NULL));
	kst_diag("SEED=%u", random_state);
	kst_call(self->fd, KRDMA_IOC_QUERY, &query);
	ring_cancels = query.features & KRDMA_FEATURE_CANCEL;
	memory = kst_map(AREAS * AREA, RW, MAP_SHARED);
	memset(memory, POISON, AREAS * AREA);
	notes = kst_map(sizeof(*notes), RW, MAP_SHARED);
	round_now = KST_BASE;
	area = memory;
	idle = kst_now();
	have_ring = query.features & KRDMA_FEATURE_URING &&
		    kst_ring_open(&ring, 2 * DEPTH, 0, area, AREA);
	if (have_ring)
		io_uring_queue_exit(&ring);
	ASSERT_TRUE(kst_wait(unpinned, NULL));
}

FIXTURE_TEARDOWN(ends)
{
	look(memory, AREAS * AREA, ENDS, "at the end of all");
	EXPECT_THAT(all_right(ENDS), "nothing was written after an end until now");
	EXPECT_THAT(kst_teardown(self->fd), "at the end everything is as it was");
}

/* ---- operations ---- */

static struct {
	struct krdma_op op;
	struct krdma_vec ranges[RANGES];
	size_t at; /* in its place */
	bool busy;
} places[PLACES];
static unsigned int resting[PLACES]; /* the one that has rested longest at first % PLACES */
static unsigned int first, under_way, ready;
static struct krdma_op ops[DEPTH];

static void all_rest(void)
{
	unsigned int i;

	for (i = 0; i < PLACES; i++) {
		places[i].busy = false;
		resting[i] = i;
		notes->rests[i] = true;
	}
	first = 0;
	under_way = 0;
	ready = 0;
	notes->under_way = 0;
}

static unsigned char *place_of(unsigned int i)
{
	return area + i * PLACE;
}

/* READs most of all; of one packet, of a work request and of many. */
static struct krdma_op *choose(enum front front)
{
	static const __u64 sizes[] = { 1, KST_PAGE, 10000, 60000, PLACE - KST_PAGE };
	__u64 length = sizes[any(KST_ARRAY_SIZE(sizes))], offset;
	static __u64 number;
	unsigned int i = resting[first++ % PLACES], k, n;
	struct krdma_op *op = &places[i].op;
	bool read = any(8);

	look(place_of(i), PLACE, COMPLETIONS, "after a completion");
	notes->rests[i] = false;
	places[i].at = any(KST_PAGE);
	places[i].busy = true;
	/* Behind what is read is room to write. */
	offset = places[i].at + (read ? 0 : PLACE);
	*op = kst_op(read ? KRDMA_OP_READ : KRDMA_OP_WRITE, region, offset,
		     place_of(i) + places[i].at, length);
	op->user_data = ++number << 8 | i;
	if (front != RING && any(2)) {
		op->flags |= KRDMA_OPF_BUFFER;
		op->buffer = buffer;
		op->addr = i * PLACE + places[i].at;
	}
	if (any(2) && length >= RANGES) {
		/* A work request has a range at most. */
		for (k = 0; k < RANGES; k++, offset += n, length -= n) {
			n = k < RANGES - 1 ? op->length / RANGES : length;
			places[i].ranges[k] = (struct krdma_vec){ offset, n };
		}
		op->flags |= KRDMA_OPF_RANGES;
		op->nranges = RANGES;
		op->offset = (uintptr_t)places[i].ranges;
	}
	if (!any(8))
		op->flags |= KRDMA_OPF_AFTER;
	if (!any(8))
		op->flags |= KRDMA_OPF_VERIFY;
	if (!any(8))
		op->timeout_ns = 1 + any(3000000);
	else if (front == RING && !ring_cancels)
		op->timeout_ns = 2000000000ULL;
	notes->under_way = ++under_way;
	return op;
}

static void give_up(const char *what, int rc)
{
	kst_bail("%s: %s: %s", what, strerror(-rc), kst_last_error(file, NULL));
}

/* As many as there may be under way; those that are waited for are only made ready. */
static void start(enum front front)
{
	const struct krdma_op *op;
	__u32 n = 0, accepted;
	int rc = 0;

	while (under_way < DEPTH) {
		op = choose(front);
		/* In one of four the pages are pinned by the module. */
		if (front == RING)
			kst_ring_op(&ring, file, op, op->user_data, any(4));
		ops[n++] = *op;
	}
	ready = n;
	if (front == RING)
		rc = io_uring_submit(&ring) == (int)n ? 0 : -EIO;
	else if (front == ASYNC && n)
		rc = kst_start(file, ops, n, &accepted);
	if (!rc && front == ASYNC && n && accepted != n)
		rc = -EAGAIN;
	if (rc)
		give_up("SUBMIT", rc);
}

static void ended(__u64 user_data, __u64 moved, int status)
{
	unsigned int i = user_data & 0xff;
	const struct krdma_op *op = &places[i % PLACES].op;
	unsigned char *mem;
	size_t at, page;

	if (i >= PLACES || !places[i].busy || op->user_data != user_data) {
		notes->strange++;
		wrong(COMPLETIONS, "a completion, status %d, of what is not under way", status);
		return;
	}
	places[i].busy = false;
	if (!status)
		notes->moved++;
	else if (status == -ECANCELED)
		notes->cancelled++;
	else if (status == -ETIMEDOUT)
		notes->late++;
	else
		wrong(COMPLETIONS, "an operation ends with %s", strerror(-status));
	if (moved > op->length || (!status && moved != op->length))
		wrong(COMPLETIONS, "status %d with %llu bytes of %llu", status,
		      (unsigned long long)moved, (unsigned long long)op->length);
	mem = place_of(i);
	at = places[i].at;
	if (op->opcode == KRDMA_OP_WRITE) {
		look(mem, PLACE, COMPLETIONS, "the memory of a WRITE");
	} else {
		look(mem, at, COMPLETIONS, "in front of a READ");
		look(mem + at + op->length, PLACE - at - op->length, COMPLETIONS, "behind a READ");
		/* Some of each page will do. */
		for (page = 0; page < moved; page += KST_PAGE)
			if (kst_check(mem + at + page, at + page,
				      moved - page < 64 ? moved - page : 64, round_now) >= 0)
				wrong(COMPLETIONS, "a READ has other bytes than node B");
	}
	memset(mem, POISON, PLACE);
	resting[(first + PLACES - under_way) % PLACES] = i;
	notes->under_way = --under_way;
	/* ORDER: who looks at it sees poison if this says so. */
	__atomic_store_n(&notes->rests[i], true, __ATOMIC_RELEASE);
}

/* Completions: at least one, a few at most. */
static void collect(enum front front)
{
	struct krdma_completion comps[DEPTH];
	unsigned int i, most = 1 + any(8);
	struct io_uring_cqe *cqe;
	int n = 0, rc = 0;

	switch (front) {
	case ASYNC:
		n = kst_reap(file, comps, most);
		if (n < 1)
			give_up("read", n ? n : -ENODATA);
		break;
	case WAIT:
		n = ready;
		rc = kst_submit(file, ops, comps, n, NULL);
		break;
	case RING:
		rc = kst_ring_wait(&ring, &cqe);
		for (; !rc && most; most--, n++) {
			comps[n] = (struct krdma_completion){
				.user_data = cqe->user_data,
				.result = cqe->res < 0 ? 0 : cqe->res,
				.status = cqe->res < 0 ? cqe->res : 0,
			};
			io_uring_cqe_seen(&ring, cqe);
			if (io_uring_peek_cqe(&ring, &cqe))
				most = 1;
		}
		break;
	}
	if (rc)
		give_up("completions", rc);
	for (i = 0; i < (unsigned int)n; i++)
		ended(comps[i].user_data, comps[i].result, comps[i].status);
}

/* One of those under way, or what was started last; now and then all. */
static void cancel(void)
{
	unsigned int i;
	int rc;

	if (!any(60)) {
		rc = kst_cancel(file, 0, KRDMA_CANCEL_ALL);
	} else if (any(2) && ready) {
		rc = kst_cancel(file, ops[any(ready)].user_data, 0);
	} else {
		i = any(PLACES);
		while (!places[i].busy)
			i = (i + 1) % PLACES;
		rc = kst_cancel(file, places[i].op.user_data, 0);
	}
	if (rc < 0)
		give_up("CANCEL", rc);
	notes->told += rc;
}

static bool open_front(enum front front)
{
	__u32 session;

	all_rest();
	file = kst_open();
	return !kst_connect(file, 0, &session) &&
	       !kst_open_region(file, session, "ends", 0, &region, NULL) &&
	       (front == RING ? kst_ring_open(&ring, 2 * DEPTH, 0, area, AREA) :
				!kst_buffer(file, area, AREA, KRDMA_BUFFER_WRITABLE, &buffer));
}

/* ---- ends at random moments ---- */

static const struct kind {
	enum front front;
	bool kill;
	const char *name;
} kinds[] = {
	{ ASYNC, true, "a process with asynchronous operations killed" },
	{ RING, true, "a process with a ring and fixed buffers killed" },
	{ RING, false, "a ring closed by a process that goes on" },
	{ WAIT, true, "a process that waits for its operations killed" },
	{ ASYNC, false, "a file closed by a process that goes on" },
};

static struct tally {
	unsigned int ends, least, sum, failed;
	double longest;
} tallies[KST_ARRAY_SIZE(kinds)];

/* Random moments are what this test is about. */
static void some_time(void)
{
	usleep(any(40000 * factor));
}

/* What the module has under way at the end: now. */
static void count(struct tally *t)
{
	unsigned int n = kst_count(KRDMA_LIST_TRANSFERS, NULL, NULL);

	if (!t->ends || n < t->least)
		t->least = n;
	t->sum += n;
	t->ends++;
}

static void victim(enum front front, int out)
{
	/* Not the choices of the process before, a little later. */
	random_state += round_now * 2654435761u;
	if (!open_front(front)) {
		kst_diag("it can't begin: %s", kst_last_error(file, NULL));
		fflush(stdout);
		_exit(2);
	}
	start(front);
	if (write(out, "x", 1) != 1)
		_exit(3);
	for (;;) {
		collect(front);
		if (front != WAIT && !any(4))
			cancel();
		start(front);
	}
}

static void end_of_process(const struct kind *kind, struct tally *t)
{
	int to[2], status;
	pid_t pid;
	char c;

	if (pipe(to))
		kst_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid)
		victim(kind->front, to[1]);
	close(to[1]);
	if (read(to[0], &c, 1) == 1) {
		some_time();
		count(t);
	}
	close(to[0]);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status)) {
		kst_diag("it ended by itself: %#x", status);
		t->failed++;
	}
}

static void end_of_file(const struct kind *kind, struct tally *t)
{
	unsigned int turns;

	if (!open_front(kind->front)) {
		t->failed++;
		return;
	}
	for (turns = any(10); turns; turns--) {
		start(kind->front);
		collect(kind->front);
	}
	start(kind->front);
	some_time();
	count(t);
	if (kind->front == RING)
		io_uring_queue_exit(&ring);
	else
		close(file);
}

static void one_end(const struct kind *kind, struct tally *t)
{
	unsigned int i;
	double began;

	next_round();
	if (kind->kill)
		end_of_process(kind, t);
	else
		end_of_file(kind, t);
	began = kst_seconds();
	/* What is on the wire ends when the transport says so. */
	if (!all_unpinned())
		kst_bail("%s: memory stays pinned", kind->name);
	if (kst_seconds() - began > t->longest)
		t->longest = kst_seconds() - began;
	/* These had their completions, the others are poisoned now. */
	for (i = 0; i < PLACES; i++)
		if (__atomic_load_n(&notes->rests[i], __ATOMIC_ACQUIRE))
			look(place_of(i), PLACE, COMPLETIONS, "after a completion and the end");
	memset(area, POISON, AREA);
	if (kind->front == RING && !kind->kill)
		close(file);
}

TEST_F_TIMEOUT(ends, ends, 3600)
{
	unsigned int kills = kst_number("KILLS", 20), i, k;
	struct tally *t;

	for (i = 0, k = 0; i < kills; k = (k + 1) % KST_ARRAY_SIZE(kinds)) {
		if (kinds[k].front == RING && !have_ring)
			continue;
		one_end(&kinds[k], &tallies[k]);
		/* Many of them take long where all is checked. */
		if (!(++i % 50) && i < kills)
			kst_diag("%u of %u ends", i, kills);
	}
	for (k = 0; k < KST_ARRAY_SIZE(kinds); k++) {
		t = &tallies[k];
		/* With few of them not all kinds have their turn. */
		if (!t->failed && !t->ends)
			continue;
		EXPECT_THAT(!t->failed, "%s, %u times: no pin is left", kinds[k].name, t->ends);
		kst_diag("%u to %d under way, %.1f on average; pinned for %.2f s at most", t->least,
			 DEPTH, t->ends ? (double)t->sum / t->ends : 0.0, t->longest);
	}
	EXPECT_THAT(all_right(COMPLETIONS), "nothing was written after a completion");
	EXPECT_THAT(all_right(ENDS), "nothing was written after an end, when nothing was pinned");
}

/* ---- cancels at random moments ---- */

static bool nothing_more(enum front front)
{
	struct krdma_completion comp;
	struct io_uring_cqe *cqe;

	return front == RING ? io_uring_peek_cqe(&ring, &cqe) == -EAGAIN :
			       !kst_reap(file, &comp, 1);
}

static void cancels(struct __test_metadata *_metadata, enum front front, const char *name)
{
	unsigned int times = kst_number("CANCELS", 2000) / 2, until = 0, more = 0, n;

	*notes = (struct notes){ 0 };
	next_round();
	if (!open_front(front))
		give_up("a file with a region and a buffer", -EIO);
	while (notes->told < times) {
		/* Now and then all come to their end, and node B has something else. */
		for (until += 500; notes->told < until && notes->told < times;) {
			start(front);
			for (n = any(4); n; n--)
				cancel();
			collect(front);
		}
		while (under_way)
			collect(front);
		more += !nothing_more(front) || kst_cancel(file, 0, KRDMA_CANCEL_ALL);
		round_now++;
		ASSERT_NOT(!kst_peer("fill ends 0 %lu %u", PLACE, round_now),
			   "node B can't fill its memory");
	}
	EXPECT_THAT(!more && !notes->strange, "%s, %u cancels: each operation ends once", name,
		    notes->told);
	kst_diag("%u moved, %u cancelled, %u late", notes->moved, notes->cancelled, notes->late);
	EXPECT_THAT(notes->moved && notes->cancelled, "some were in time, some were not");
	look(area, AREA, COMPLETIONS, "when all have ended");
	EXPECT_THAT(all_right(COMPLETIONS), "nothing was written after a completion");
	if (front == RING)
		io_uring_queue_exit(&ring);
	close(file);
	EXPECT_THAT(all_unpinned(), "nothing stays pinned");
}

TEST_F_TIMEOUT(ends, cancels, 3600)
{
	cancels(_metadata, ASYNC, "asynchronous");
}

TEST_F_TIMEOUT(ends, cancels_uring, 3600)
{
	if (!have_ring)
		SKIP(return, "this kernel has no io_uring");
	cancels(_metadata, RING, "io_uring");
}

KST_HARNESS_MAIN(2)
