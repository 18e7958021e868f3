// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of krdma_mover's in-kernel API that uses its limits, for selftests/kapi/kapi.sh.
 * "what" selects the test:
 *
 *	errors	invalid calls and their errors; objects ended in any order
 *	numbers	atomic operations, if available, digests, verified and unplaced transfers
 *	sends messages to this module itself, to the address @self
 *	stress	many transfers, cancelled and timed out at random, some submitted again
 *		from ->done; each has to end exactly once
 *	crowd	@crowd messages to this module itself, which reads them slowly; the test
 *		ends the session, and reads in "ended" that each message has ended
 *	loop	transfers in a thread, until one fails, on the channel of @cpu, and polled for
 *		(@polls), with a deadline of @timeout_ms; the result is in
 *		/sys/module/krdma_kapi_test/parameters. Writing to "reopen" there opens the region
 *		again, and they go on; writing to "cancel" cancels those under way
 *
 * The module loads if all checks pass; otherwise the kernel's log names the failure.
 */
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/crc32c.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/net_namespace.h>

#include <linux/krdma_mover.h>

#define PAGES      8
#define PIECES     (2 * PAGES)
#define SLOT_BYTES (PAGES * PAGE_SIZE)
/* More than a device takes at once. */
#define BIG_PIECES 1024
#define BIG_BYTES  (BIG_PIECES * PAGE_SIZE)
#define PATIENCE   (180 * HZ)
#define RW         (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)

static char *address = "10.77.0.2";
module_param(address, charp, 0444);
static char *second; /* address of one more path */
module_param(second, charp, 0444);
static char *name = "scratch";
module_param(name, charp, 0444);
static char *self = "10.77.0.1";
module_param(self, charp, 0444);
static char *what = "errors";
module_param(what, charp, 0444);
static unsigned int depth = 64;
module_param(depth, uint, 0444);
static unsigned int rounds = 20;
module_param(rounds, uint, 0444);
static unsigned int cpu; /* of struct krdma_io */
module_param(cpu, uint, 0444);
static bool polls;
module_param(polls, bool, 0444);
static unsigned int timeout_ms; /* of struct krdma_io */
module_param(timeout_ms, uint, 0444);
static unsigned int crowd = 100000;
module_param(crowd, uint, 0444);

/* For the test to read. */
static atomic_t events;
static int event, status, revoked, lost, ended, cancelled, timed_out;
module_param(revoked, int, 0444);
module_param(lost, int, 0444);
module_param(status, int, 0444);
module_param(ended, int, 0444);
module_param(cancelled, int, 0444);
module_param(timed_out, int, 0444);

struct slot {
	struct krdma_io io;
	struct bio_vec bvec[PIECES];
	struct page *page[PAGES];
	atomic_t calls;
	int again; /* times that ->done submits it */
	int expected;
	bool single;    /* not submitted again */
	bool submitted; /* may be cancelled; cancel_lock */
};

static struct slot *slots, big;
static struct bio_vec big_bvec[BIG_PIECES];
static struct krdma_client *client;
static struct krdma_session_handle *session;
static struct krdma_region_handle *region;
static struct task_struct *thread;
static atomic_t pending;
static DECLARE_COMPLETION(all_done);
static DEFINE_MUTEX(cancel_lock);
static bool disturb, broken;

/* The log tells which one it was. */
#define want(condition)                                                                         \
	({                                                                                      \
		bool _ok = (condition);                                                         \
		if (!_ok)                                                                       \
			pr_err("krdma_kapi_test: line %d: not so: %s\n", __LINE__, #condition); \
		_ok;                                                                            \
	})

static struct krdma_session_handle *connect_to(const struct sockaddr_storage *dst,
					       unsigned int flags)
{
	struct krdma_connect_param param = { .dst = dst, .flags = flags };
	struct sockaddr_storage other = {};
	struct krdma_path_param path = { .dst = &other };

	if (second) {
		inet_pton_with_scope(&init_net, AF_UNSPEC, second, "7471", &other);
		param.paths = &path;
		param.npaths = 1;
	}
	return krdma_connect(client, &param);
}

static u32 below(u32 n)
{
	return get_random_u32() % n;
}

static struct krdma_region_handle *open_region(struct krdma_session_handle *s, const char *export,
					       unsigned int rights)
{
	const struct krdma_open_param open = { .name = export, .rights = rights };

	return krdma_open(s, &open);
}

static void on_event(void *priv, enum krdma_event e)
{
	might_sleep();
	if (e == KRDMA_EVENT_RESUMING || e == KRDMA_EVENT_RESUMED)
		return;
	event = e;
	if (e == KRDMA_EVENT_REVOKED)
		revoked++;
	else
		lost++;
	atomic_inc(&events);
}

static void slot_done(struct krdma_io *io)
{
	struct slot *s = container_of(io, struct slot, io);

	atomic_inc(&s->calls);
	if (!io->status && s->again) {
		s->again--;
		s->expected++;
		krdma_io_submit(io);
		return;
	}
	if (atomic_dec_and_test(&pending))
		complete(&all_done);
}

static void slots_begin(unsigned int n)
{
	atomic_set(&pending, n);
	reinit_completion(&all_done);
}

static bool slots_wait(void)
{
	return want(wait_for_completion_timeout(&all_done, PATIENCE));
}

/* The whole of a slot, in one run for each page. */
static void slot_fill(struct slot *s, enum krdma_opcode op)
{
	int i;

	for (i = 0; i < PAGES; i++)
		s->bvec[i] = (struct bio_vec){ s->page[i], PAGE_SIZE, 0 };
	s->io = (struct krdma_io){
		.region = region,
		.bvec = s->bvec,
		.nr_bvecs = PAGES,
		.op = op,
		.offset = (s - slots) * SLOT_BYTES,
		.length = SLOT_BYTES,
		.done = slot_done,
	};
	atomic_set(&s->calls, 0);
	s->expected = 1;
	s->again = 0;
	s->single = true;
}

/* Any bytes of it, in pieces of any size, some of them empty. */
static void slot_shuffle(struct slot *s)
{
	u32 i, sum = 0;

	slot_fill(s, below(2) ? KRDMA_OP_READ : KRDMA_OP_WRITE);
	for (i = 0; i < PIECES; i++) {
		u32 offset = below(PAGE_SIZE), len = below(PAGE_SIZE - offset + 1);

		if (!below(4))
			offset = 0, len = PAGE_SIZE;
		if (!below(8))
			len = 0;
		/* Of a page, no byte twice: nobody knows what a READ would leave there. */
		if (i >= PAGES)
			len = 0;
		s->bvec[i] = (struct bio_vec){ s->page[i % PAGES], len, offset };
		sum += len;
	}
	s->io.nr_bvecs = PIECES;
	if (sum < 2) {
		s->bvec[0] = (struct bio_vec){ s->page[0], PAGE_SIZE, 0 };
		sum = PAGE_SIZE;
	}
	s->io.skip = below(2) ? below(sum / 2) : 0;
	s->io.length = 1 + below(sum - s->io.skip);
	s->io.offset += below(SLOT_BYTES - s->io.length + 1);
	if (!below(8))
		s->io.timeout = below(3 * NSEC_PER_MSEC) + 1;
	if (!below(4))
		s->again = below(4);
	s->single = !s->again;
}

/* The same page again and again, which nothing else changes; behind all the slots. */
static void slot_big(void)
{
	u32 i;

	for (i = 0; i < BIG_PIECES; i++)
		big_bvec[i] = (struct bio_vec){ big.page[0], PAGE_SIZE, 0 };
	big.io = (struct krdma_io){
		.region = region,
		.bvec = big_bvec,
		.nr_bvecs = BIG_PIECES,
		.op = KRDMA_OP_WRITE,
		.offset = depth * SLOT_BYTES,
		.length = BIG_BYTES,
		.done = slot_done,
	};
	atomic_set(&big.calls, 0);
	big.expected = 1;
}

static u8 pattern(u32 seed, u32 slot, u32 i)
{
	return (seed * 31 + slot * 17 + i * 7 + (i >> 8)) & 0xff;
}

static bool slots_verify(void)
{
	u32 seed = get_random_u32(), i, j;
	LIST_HEAD(batch);
	bool ok = true;

	for (i = 0; i < depth; i++) {
		slot_fill(&slots[i], KRDMA_OP_WRITE);
		for (j = 0; j < SLOT_BYTES; j++)
			((u8 *)page_address(slots[i].page[j / PAGE_SIZE]))[j % PAGE_SIZE] =
				pattern(seed, i, j);
		list_add_tail(&slots[i].io.node, &batch);
	}
	slots_begin(depth);
	krdma_io_submit_batch(&batch);
	if (!want(list_empty(&batch)) || !slots_wait())
		return false;
	for (i = 0; i < depth; i++) {
		ok &= want(!slots[i].io.status && slots[i].io.moved == SLOT_BYTES);
		slot_fill(&slots[i], KRDMA_OP_READ);
		for (j = 0; j < PAGES; j++)
			memset(page_address(slots[i].page[j]), 0x5a, PAGE_SIZE);
		list_add_tail(&slots[i].io.node, &batch);
	}
	slots_begin(depth);
	krdma_io_submit_batch(&batch);
	if (!slots_wait())
		return false;
	for (i = 0; i < depth; i++) {
		ok &= want(!slots[i].io.status && slots[i].io.moved == SLOT_BYTES);
		for (j = 0; ok && j < SLOT_BYTES; j++)
			ok &= want(
				((u8 *)page_address(slots[i].page[j / PAGE_SIZE]))[j % PAGE_SIZE] ==
				pattern(seed, i, j));
	}
	return ok;
}

/* ---- memory in one piece, told of page by page ---- */

#define JOINED_PAGES 64
#define JOINED_BYTES (JOINED_PAGES * PAGE_SIZE)

static bool joined_io(struct page *pages, enum krdma_opcode op)
{
	u32 i;

	slot_big();
	for (i = 0; i < JOINED_PAGES; i++)
		big_bvec[i] = (struct bio_vec){ pages + i, PAGE_SIZE, 0 };
	big.io.nr_bvecs = JOINED_PAGES;
	big.io.op = op;
	big.io.offset = 0;
	big.io.length = JOINED_BYTES;
	slots_begin(1);
	krdma_io_submit(&big.io);
	return slots_wait() && want(!big.io.status && big.io.moved == JOINED_BYTES);
}

/* More pages than a work request has SGEs: who loaded this counts work requests. */
static bool joined(void)
{
	struct page *pages = alloc_pages(GFP_KERNEL, get_order(JOINED_BYTES));
	u32 seed = get_random_u32(), i;
	u8 *at;
	bool ok;

	if (!want(pages))
		return false;
	at = page_address(pages);
	for (i = 0; i < JOINED_BYTES; i++)
		at[i] = pattern(seed, 0, i);
	ok = joined_io(pages, KRDMA_OP_WRITE);
	memset(at, 0x5a, JOINED_BYTES);
	ok = ok && joined_io(pages, KRDMA_OP_READ);
	for (i = 0; ok && i < JOINED_BYTES; i++)
		ok &= want(at[i] == pattern(seed, 0, i));
	__free_pages(pages, get_order(JOINED_BYTES));
	return ok;
}

/* ---- stress ---- */

/* Cancels what it finds, from another thread. */
static int disturber(void *unused)
{
	while (!kthread_should_stop()) {
		mutex_lock(&cancel_lock);
		if (READ_ONCE(disturb)) {
			struct slot *s = &slots[below(depth)];

			if (s->submitted)
				krdma_io_cancel(&s->io);
			if (!below(32))
				krdma_region_cancel(region);
		}
		mutex_unlock(&cancel_lock);
		usleep_range(50, 2000);
	}
	return 0;
}

static bool stress_round(void)
{
	bool ok = true;
	u32 i, n;

	for (i = 0; i < depth; i++)
		slot_shuffle(&slots[i]);
	slot_big();
	slots_begin(depth + 1);
	krdma_io_submit(&big.io);
	disturb = below(4);
	for (i = 0; i < depth; i += n) {
		LIST_HEAD(batch);
		u32 j;

		n = min(1 + below(16), depth - i);
		for (j = i; j < i + n; j++)
			list_add_tail(&slots[j].io.node, &batch);
		mutex_lock(&cancel_lock);
		krdma_io_submit_batch(&batch);
		/* What ->done submits again can't be cancelled one by one. */
		for (j = i; j < i + n; j++)
			slots[j].submitted = slots[j].single;
		mutex_unlock(&cancel_lock);
		j = i + below(n);
		if (!below(4) && slots[j].single)
			krdma_io_cancel(&slots[j].io);
		if (!below(32))
			krdma_region_cancel(region);
		/* What it does not cancel goes on elsewhere. */
		if (!below(32))
			krdma_region_abort(region);
		if (!below(3))
			usleep_range(10, 500);
	}
	if (below(4))
		krdma_io_cancel(&big.io);
	if (!slots_wait())
		return false;
	mutex_lock(&cancel_lock);
	disturb = false;
	for (i = 0; i < depth; i++)
		slots[i].submitted = false;
	mutex_unlock(&cancel_lock);
	for (i = 0; i <= depth; i++) {
		struct slot *s = i < depth ? &slots[i] : &big;
		struct krdma_io *io = &s->io;

		ok &= want(atomic_read(&s->calls) == s->expected);
		/* The path may be lost, as in any test; that has an event. */
		broken |= io->status == -ENOTCONN;
		/* Or posted on a channel that was taken down, and cancelled or late then. */
		ok &= want(!io->status || io->status == -ECANCELED || io->status == -ETIMEDOUT ||
			   io->status == -ECONNRESET || broken);
		ok &= want(io->status ? io->moved <= io->length : io->moved == io->length);
		ok &= want(!io->pages_lost);
		ended += s->expected;
		cancelled += io->status == -ECANCELED;
		timed_out += io->status == -ETIMEDOUT;
		if (!ok)
			pr_err("krdma_kapi_test: slot %u: op %d status %d moved %llu of %llu\n", i,
			       io->op, io->status, io->moved, io->length);
	}
	return ok;
}

static bool stress(void)
{
	struct task_struct *task = kthread_run(disturber, NULL, "krdma_disturb");
	bool ok = true;
	u32 i;

	if (IS_ERR(task))
		return false;
	for (i = 0; ok && !broken && i < rounds; i++)
		ok = stress_round() && (broken || slots_verify());
	kthread_stop(task);
	/* Closing while all are under way: they have ended when it returns. */
	for (i = 0; ok && i < depth; i++)
		slot_fill(&slots[i], KRDMA_OP_WRITE);
	if (ok) {
		slots_begin(depth);
		for (i = 0; i < depth; i++)
			krdma_io_submit(&slots[i].io);
		if (below(2))
			krdma_region_cancel(region);
		if (below(2))
			krdma_region_abort(region);
		krdma_close(region);
		region = NULL;
		ok &= want(!atomic_read(&pending));
		for (i = 0; i < depth; i++)
			ok &= want(atomic_read(&slots[i].calls) == 1);
	}
	if (broken)
		pr_err("krdma_kapi_test: the path was lost, and %d events told so\n", lost);
	return ok && !broken && want(!atomic_read(&events));
}

/* ---- errors ---- */

static int one(void)
{
	slots_begin(1);
	krdma_io_submit(&slots[0].io);
	if (!slots_wait() || !want(atomic_read(&slots[0].calls) == 1))
		return 1;
	/* It has ended: nothing happens. */
	krdma_io_cancel(&slots[0].io);
	return want(atomic_read(&slots[0].calls) == 1) ? slots[0].io.status : 1;
}

static bool errors_of_io(void)
{
	struct krdma_io *io = &slots[0].io;
	struct krdma_limits limits;
	bool ok = true;

	ok &= want(!krdma_region_limits(region, &limits));
	ok &= want(limits.length >= depth * SLOT_BYTES && limits.rights == RW &&
		   limits.segment_size >= PAGE_SIZE && limits.read_bvecs && limits.write_bvecs);

	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0 && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->length = 0;
	ok &= want(one() == -EINVAL && !io->moved);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->skip = 1;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->length = U64_MAX;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->nr_bvecs = 0;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = -1;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->op = 77;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->offset = limits.length - SLOT_BYTES + 1;
	ok &= want(one() == -ERANGE);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->offset = U64_MAX;
	ok &= want(one() == -ERANGE);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->offset = limits.length - SLOT_BYTES;
	ok &= want(one() == 0);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = 1;
	ok &= want(one() == -ETIMEDOUT);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = KTIME_MAX;
	ok &= want(one() == 0);
	return ok;
}

static bool errors_of_open(void)
{
	struct krdma_region_handle *r, *keep = region;
	struct sockaddr_storage nowhere = {};
	struct krdma_connect_param param = { .dst = &nowhere };
	bool ok = true;

	r = open_region(session, "there-is-no-such", 0);
	ok &= want(r == ERR_PTR(-ENOENT));
	krdma_close(r);
	ok &= want(open_region(session, "no name", 0) == ERR_PTR(-EINVAL));
	ok &= want(open_region(session, "", 0) == ERR_PTR(-EINVAL));
	ok &= want(open_region(session, name, 64) == ERR_PTR(-EINVAL));
	ok &= want(krdma_connect(client, &param) == ERR_PTR(-EAFNOSUPPORT));
	param.flags = 64;
	ok &= want(krdma_connect(client, &param) == ERR_PTR(-EOPNOTSUPP));
	param.flags = KRDMA_CONNECT_FAIL_FAST;
	inet_pton_with_scope(&init_net, AF_UNSPEC, address, "7999", &nowhere);
	ok &= want(IS_ERR(krdma_connect(client, &param)));
	param.resume_s = 1;
	ok &= want(krdma_connect(client, &param) == ERR_PTR(-EINVAL));
	param = (struct krdma_connect_param){ .dst = &nowhere, .npaths = KRDMA_PATHS_MAX };
	ok &= want(krdma_connect(client, &param) == ERR_PTR(-EINVAL));
	param = (struct krdma_connect_param){ .dst = &nowhere, .policy = 3 };
	ok &= want(krdma_connect(client, &param) == ERR_PTR(-EINVAL));

	r = open_region(session, name, KRDMA_RIGHT_READ);
	if (!want(!IS_ERR(r)))
		return false;
	region = r;
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	ok &= want(one() == -EACCES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0);
	region = keep;
	krdma_close(r);
	return ok;
}

static bool errors_of_export(void)
{
	struct krdma_export_handle *p, *q;
	bool ok = true;

	p = krdma_export(client, "kapi-test", slots[0].page, SLOT_BYTES - 5, RW, NULL, NULL);
	if (!want(!IS_ERR(p)))
		return false;
	q = krdma_export(client, "kapi-test", slots[1].page, SLOT_BYTES, RW, NULL, NULL);
	ok &= want(q == ERR_PTR(-EEXIST));
	ok &= want(!krdma_unexport(q));
	ok &= want(krdma_export(client, "", slots[1].page, 1, RW, NULL, NULL) == ERR_PTR(-EINVAL));
	ok &= want(krdma_export(client, "x", slots[1].page, 0, RW, NULL, NULL) == ERR_PTR(-EINVAL));
	ok &= want(krdma_export(client, "x", slots[1].page, 1, 0, NULL, NULL) == ERR_PTR(-EINVAL));
	ok &= want(krdma_export(client, "x", slots[1].page, U64_MAX, RW, NULL, NULL) ==
		   ERR_PTR(-EINVAL));
	ok &= want(!krdma_unexport(p));
	p = krdma_export(client, "kapi-test", slots[0].page, SLOT_BYTES, KRDMA_RIGHT_READ, NULL,
			 NULL);
	ok &= want(!IS_ERR(p) && !krdma_unexport(p));
	return ok;
}

static bool errors(void)
{
	const struct krdma_open_param open = { .name = name, .rights = RW, .event = on_event };
	struct krdma_region_handle *other;
	bool ok;

	ok = errors_of_io() && errors_of_open() && errors_of_export();
	/* Objects end in any order. */
	other = krdma_open(session, &open);
	ok &= want(!IS_ERR(other));
	krdma_client_destroy(client);
	client = NULL;
	krdma_disconnect(session);
	session = NULL;
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	ok &= want(one() == 0);
	krdma_close(other);
	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0);
	return ok && want(!atomic_read(&events));
}

/* ---- numbers ---- */

/* An operation that tells one, in the second 8 bytes of the slot's first page. */
static int number(enum krdma_opcode op, u64 offset, u64 length, u64 operand, u64 compare, u64 *told)
{
	struct krdma_io *io = &slots[0].io;
	u64 all[3] = { 1, 2, 3 };
	int rc;

	memcpy_to_page(slots[0].page[0], 0, (char *)all, sizeof(all));
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->nr_bvecs = 1;
	io->skip = 8;
	io->op = op;
	io->offset = offset;
	io->length = length;
	io->operand = operand;
	io->compare = compare;
	rc = one();
	memcpy_from_page((char *)all, slots[0].page[0], 0, sizeof(all));
	*told = all[1];
	return want(all[0] == 1 && all[2] == 3) ? rc : 1;
}

static bool numbers_atomic(struct krdma_region_handle *r)
{
	struct krdma_region_handle *keep = region;
	struct krdma_limits limits;
	u64 first, told;
	bool ok;

	region = r;
	ok = want(!krdma_region_limits(r, &limits) && (limits.rights & KRDMA_RIGHT_ATOMIC));
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 5, 0, &first));
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) && told == first + 5);
	ok &= want(!number(KRDMA_OP_CMP_SWAP, 4096, 8, 77, told, &told) && told == first + 5);
	ok &= want(!number(KRDMA_OP_CMP_SWAP, 4096, 8, 1, told, &told) && told == 77);
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) && told == 77);
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4100, 8, 0, 0, &told) == -EINVAL);
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4096, 4, 0, 0, &told) == -EINVAL);
	region = keep;
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) == -EACCES);
	krdma_close(r);
	return ok;
}

/* Of ranges. */
static int flush(const struct krdma_vec *ranges, u32 n)
{
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	slots[0].io.ranges = ranges;
	slots[0].io.nr_ranges = n;
	return one();
}

/* Of volatile memory: that of durable memory is tested by krdma_blk. */
static bool flushes(void)
{
	struct krdma_vec ranges[2] = { { 0, SLOT_BYTES - 1 }, { SLOT_BYTES, 1 } };
	struct krdma_io *io = &slots[0].io;
	bool ok = true;

	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->length = 0;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->offset = U64_MAX;
	ok &= want(one() == -ERANGE);
	ok &= want(flush(ranges, 2) == -EOPNOTSUPP);
	ok &= want(flush(ranges, 1) == -EINVAL);
	ok &= want(flush(ranges, 0) == -EINVAL);
	ranges[1].addr = U64_MAX;
	ok &= want(flush(ranges, 2) == -ERANGE);
	ranges[1] = (struct krdma_vec){ 0, 0 };
	ok &= want(flush(ranges, 2) == -EINVAL);
	ranges[1].length = U64_MAX;
	ok &= want(flush(ranges, 2) == -EINVAL);
	return ok;
}

static bool numbers(void)
{
	struct krdma_io *io = &slots[0].io;
	struct krdma_region_handle *r;
	u64 told;
	bool ok = true;
	u32 crc;
	u8 *at;

	r = open_region(session, name, KRDMA_RIGHT_ATOMIC);
	if (r == ERR_PTR(-EOPNOTSUPP))
		pr_info("krdma_kapi_test: no atomics\n");
	else
		ok = want(!IS_ERR(r)) && numbers_atomic(r);

	slot_fill(&slots[0], KRDMA_OP_WRITE);
	at = kmap_local_page(slots[0].page[0]);
	get_random_bytes(at, PAGE_SIZE);
	crc = ~crc32c(~0, at + 100, 1000);
	kunmap_local(at);
	io->nr_bvecs = 1;
	io->length = PAGE_SIZE;
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(!one());
	ok &= want(!number(KRDMA_OP_DIGEST, io->offset + 100, 1000, 0, 0, &told) && told == crc);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_UNPLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_UNPLACED;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_PLACED | KRDMA_OPF_UNPLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_BUFFER;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_SEND);
	io->flags |= KRDMA_OPF_AFTER;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_DIGEST);
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(one() == -EINVAL);
	return ok & flushes();
}

/* ---- messages ---- */

/* More than the queue has room for. */
#define MESSAGES 700

static atomic_t messages_got, messages_bad;
static DECLARE_WAIT_QUEUE_HEAD(messages_wait);
static bool messages_slow;

static void message_received(void *priv, const struct krdma_received *m)
{
	u32 n = atomic_read(&messages_got), i;
	const u8 *data = m->data;
	bool bad = priv != &messages_got || m->value != n || m->peer.ss_family != AF_INET ||
		   !uid_eq(m->uid, GLOBAL_ROOT_UID) || !m->session;

	might_sleep();
	if (m->written)
		bad |= m->length;
	else
		bad |= m->length != n * 37 % 4097;
	for (i = 0; i < m->length; i++)
		bad |= data[i] != pattern(n, 0, i);
	if (bad && !atomic_inc_return(&messages_bad))
		pr_err("krdma_kapi_test: message %u has value %llu, length %u\n", n, m->value,
		       m->length);
	if (bad)
		atomic_inc(&messages_bad);
	if (messages_slow)
		msleep(20);
	atomic_inc(&messages_got);
	wake_up(&messages_wait);
}

static void message_fill(struct krdma_region_handle *r, u32 n)
{
	struct slot *s = &slots[n % depth];
	u32 i, length = n * 37 % 4097;
	u8 *at = kmap_local_page(s->page[0]);

	for (i = 0; i < min_t(u32, length, PAGE_SIZE); i++)
		at[i] = pattern(n, 0, i);
	kunmap_local(at);
	slot_fill(s, KRDMA_OP_SEND);
	s->io.region = r;
	s->io.offset = 0;
	s->io.length = length;
	s->io.operand = n;
	s->io.timeout = KTIME_MAX;
	/* Some tell of a WRITE instead. */
	if (n % 5 == 4) {
		s->io.op = KRDMA_OP_WRITE;
		s->io.flags |= KRDMA_OPF_MESSAGE;
		s->io.length = 64 + n;
	}
}

static bool messages_arrive(u32 n)
{
	return want(wait_event_timeout(messages_wait, atomic_read(&messages_got) == n, PATIENCE));
}

static bool messages_send(struct krdma_region_handle *r, u32 total)
{
	u32 i, k, n = 0;
	bool ok = true;

	while (ok && n < total) {
		k = min(depth, total - n);
		slots_begin(k);
		for (i = 0; i < k; i++)
			message_fill(r, n + i);
		for (i = 0; i < k; i++)
			krdma_io_submit(&slots[(n + i) % depth].io);
		ok = slots_wait();
		for (i = 0; i < k; i++) {
			struct krdma_io *io = &slots[(n + i) % depth].io;

			ok &= want(!io->status && io->moved == io->length);
		}
		n += k;
	}
	return ok && messages_arrive(total) && want(!atomic_read(&messages_bad));
}

static int message_one(struct krdma_region_handle *r, enum krdma_opcode op, u64 length,
		       bool message)
{
	slot_fill(&slots[0], op);
	slots[0].io.region = r;
	slots[0].io.offset = 0;
	slots[0].io.length = length;
	slots[0].io.flags = message ? KRDMA_OPF_MESSAGE : 0;
	return one();
}

static bool messaging(void)
{
	struct krdma_region_handle *r = NULL, *w = NULL;
	struct krdma_export_handle *export;
	struct krdma_session_handle *p = NULL;
	struct sockaddr_storage dst;
	bool ok = true;
	u32 i, got;

	ok &= want(krdma_export(client, "kapi-messages", slots[0].page, SLOT_BYTES,
				KRDMA_RIGHT_MESSAGE, NULL, NULL) == ERR_PTR(-EINVAL));
	ok &= want(krdma_export(client, "kapi-messages", slots[0].page, SLOT_BYTES, RW,
				message_received, NULL) == ERR_PTR(-EINVAL));
	export = krdma_export(client, "kapi-messages", big.page, PAGE_SIZE,
			      RW | KRDMA_RIGHT_MESSAGE, message_received, &messages_got);
	ok &= want(!IS_ERR(export)) &&
	      want(!inet_pton_with_scope(&init_net, AF_UNSPEC, self, NULL, &dst));
	if (ok)
		p = connect_to(&dst, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES);
	ok = ok && want(!IS_ERR_OR_NULL(p));
	if (ok) {
		r = open_region(p, "kapi-messages", 0);
		w = open_region(p, "kapi-messages", RW);
		ok = want(!IS_ERR(r)) && want(!IS_ERR(w));
	}
	if (!ok)
		goto out;
	ok &= want(message_one(r, KRDMA_OP_SEND, 4097, false) == -EINVAL);
	ok &= want(message_one(r, KRDMA_OP_SEND, 8, true) == -EINVAL);
	ok &= want(message_one(r, KRDMA_OP_READ, 8, true) == -EINVAL);
	ok &= want(message_one(w, KRDMA_OP_SEND, 8, false) == -EACCES);
	ok &= want(message_one(w, KRDMA_OP_WRITE, 8, true) == -EACCES);
	ok &= want(open_region(session, name, KRDMA_RIGHT_MESSAGE) == ERR_PTR(-EOPNOTSUPP));
	ok &= want(open_region(p, "krdma-none", KRDMA_RIGHT_MESSAGE) == ERR_PTR(-ENOENT));
	/* A WRITE that had to ask for its key would come late. */
	ok &= want(!message_one(r, KRDMA_OP_WRITE, 8, false));
	ok = ok && messages_send(r, MESSAGES);

	/* Taken back while they wait: no callback runs any more. */
	messages_slow = true;
	atomic_set(&messages_got, 0);
	slots_begin(depth);
	for (i = 0; i < depth; i++)
		message_fill(r, i);
	for (i = 0; i < depth; i++)
		krdma_io_submit(&slots[i].io);
	ok &= want(!krdma_unexport(export));
	export = NULL;
	got = atomic_read(&messages_got);
	ok &= slots_wait();
	for (i = 0; i < depth; i++)
		ok &= want(!slots[i].io.status || slots[i].io.status == -ESTALE);
	ok &= want(atomic_read(&messages_got) == got && got < depth);
	ok &= want(!atomic_read(&messages_bad));
out:
	krdma_close(w);
	krdma_close(r);
	krdma_disconnect(p);
	krdma_unexport(export);
	return ok;
}

/* ---- crowd ---- */

static struct krdma_io *crowd_ios;
static struct krdma_export_handle *crowd_export;
static struct krdma_session_handle *crowd_session;
static struct krdma_region_handle *crowd_region;
static atomic_t crowd_ended;

static void crowd_received(void *priv, const struct krdma_received *message)
{
	msleep(20);
}

static void crowd_done(struct krdma_io *io)
{
	WRITE_ONCE(ended, atomic_inc_return(&crowd_ended));
	if (io->status)
		WRITE_ONCE(status, io->status);
}

static void crowd_end(void)
{
	krdma_close(crowd_region);
	krdma_disconnect(crowd_session);
	krdma_unexport(crowd_export);
	kvfree(crowd_ios);
}

static bool crowd_begin(void)
{
	struct sockaddr_storage dst;
	LIST_HEAD(batch);
	u32 i;

	crowd_export = krdma_export(client, "kapi-crowd", big.page, PAGE_SIZE,
				    RW | KRDMA_RIGHT_MESSAGE, crowd_received, NULL);
	if (!want(!IS_ERR(crowd_export)) ||
	    !want(!inet_pton_with_scope(&init_net, AF_UNSPEC, self, NULL, &dst)))
		return false;
	crowd_session = connect_to(&dst, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES);
	if (!want(!IS_ERR(crowd_session)))
		return false;
	crowd_region = open_region(crowd_session, "kapi-crowd", 0);
	crowd_ios = kvcalloc(crowd, sizeof(*crowd_ios), GFP_KERNEL);
	if (!want(!IS_ERR(crowd_region)) || !want(crowd_ios))
		return false;
	for (i = 0; i < crowd; i++) {
		crowd_ios[i] = (struct krdma_io){
			.region = crowd_region,
			.op = KRDMA_OP_SEND,
			.timeout = KTIME_MAX,
			.done = crowd_done,
		};
		list_add_tail(&crowd_ios[i].node, &batch);
		if (i % 64 == 63 || i + 1 == crowd) {
			krdma_io_submit_batch(&batch);
			cond_resched();
		}
	}
	return true;
}

/* ---- loop ---- */

static int loop(void *unused)
{
	u32 i;

	while (!kthread_should_stop()) {
		if (status) {
			schedule_timeout_interruptible(HZ / 20);
			continue;
		}
		slots_begin(depth);
		for (i = 0; i < depth; i++) {
			slot_fill(&slots[i], i % 2 ? KRDMA_OP_READ : KRDMA_OP_WRITE);
			slots[i].io.offset = 0;
			slots[i].io.length = PAGE_SIZE;
			slots[i].io.cpu = cpu;
			slots[i].io.timeout = ms_to_ktime(timeout_ms);
			krdma_io_submit(&slots[i].io);
		}
		while (polls && atomic_read(&pending)) {
			krdma_region_poll(region);
			cond_resched();
		}
		if (!slots_wait())
			break;
		for (i = 0; i < depth; i++)
			if (slots[i].io.status && !status)
				status = slots[i].io.status;
		ended += depth;
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 20);
	return 0;
}

static int reopen_set(const char *text, const struct kernel_param *param)
{
	int rc;

	if (!thread)
		return -EINVAL;
	rc = krdma_reopen(region, session, 0);
	if (!rc)
		WRITE_ONCE(status, 0);
	return rc;
}

static const struct kernel_param_ops reopen_ops = { .set = reopen_set };
module_param_cb(reopen, &reopen_ops, NULL, 0200);

static int cancel_set(const char *text, const struct kernel_param *param)
{
	if (!thread)
		return -EINVAL;
	krdma_region_cancel(region);
	return 0;
}

static const struct kernel_param_ops cancel_ops = { .set = cancel_set };
module_param_cb(cancel, &cancel_ops, NULL, 0200);

/* ---- beginning and end ---- */

static void test_exit(void)
{
	u32 i, j;

	if (thread)
		kthread_stop(thread);
	crowd_end();
	krdma_close(region);
	/* There is no event any more. */
	pr_info("krdma_kapi_test: in the end %d revoked, %d lost\n", revoked, lost);
	krdma_disconnect(session);
	krdma_client_destroy(client);
	if (big.page[0])
		__free_page(big.page[0]);
	for (i = 0; slots && i < depth; i++)
		for (j = 0; j < PAGES; j++)
			if (slots[i].page[j])
				__free_page(slots[i].page[j]);
	kvfree(slots);
}

static int test_setup(void)
{
	struct krdma_open_param open = { .rights = RW, .event = on_event };
	struct sockaddr_storage dst;
	u32 i, j;
	int rc;

	slots = kvcalloc(depth, sizeof(*slots), GFP_KERNEL);
	big.page[0] = alloc_page(GFP_KERNEL);
	if (!slots || !big.page[0])
		return -ENOMEM;
	for (i = 0; i < depth; i++)
		for (j = 0; j < PAGES; j++) {
			slots[i].page[j] = alloc_page(GFP_KERNEL);
			if (!slots[i].page[j])
				return -ENOMEM;
		}
	rc = inet_pton_with_scope(&init_net, AF_UNSPEC, address, NULL, &dst);
	if (rc)
		return rc;
	client = krdma_client_create(&init_net);
	if (IS_ERR(client))
		return PTR_ERR(client);
	session = connect_to(&dst, KRDMA_CONNECT_PRIVATE);
	if (IS_ERR(session))
		return PTR_ERR(session);
	open.name = name;
	region = krdma_open(session, &open);
	return PTR_ERR_OR_ZERO(region);
}

static int __init test_init(void)
{
	int rc = test_setup();

	if (!rc && !strcmp(what, "stress")) {
		rc = stress() ? 0 : -EIO;
	} else if (!rc && !strcmp(what, "errors")) {
		rc = errors() ? 0 : -EIO;
	} else if (!rc && !strcmp(what, "numbers")) {
		rc = numbers() ? 0 : -EIO;
	} else if (!rc && !strcmp(what, "messages")) {
		rc = messaging() ? 0 : -EIO;
	} else if (!rc && !strcmp(what, "crowd")) {
		rc = crowd_begin() ? 0 : -EIO;
	} else if (!rc && !strcmp(what, "joined")) {
		rc = joined() ? 0 : -EIO;
	} else if (!rc) {
		thread = kthread_run(loop, NULL, "krdma_loop");
		rc = PTR_ERR_OR_ZERO(thread);
		if (rc)
			thread = NULL;
	}
	if (rc) {
		pr_err("krdma_kapi_test: %s failed (%pe)\n", what, ERR_PTR(rc));
		test_exit();
	}
	return rc;
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Test of krdma_mover's in-kernel API");
MODULE_LICENSE("GPL");
