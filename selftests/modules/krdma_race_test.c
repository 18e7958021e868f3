// SPDX-License-Identifier: GPL-2.0
/*
 * Races on purpose in the in-kernel API, like selftests/stress for the device: two threads on two
 * processors run each pair of operations concurrently, with choices that depend on @seed. For
 * selftests/stress/stress.sh.
 *
 * This module is both ends, over the address @self, where this host has to listen. It does not
 * break the rules of include/linux/krdma_mover.h: it submits nothing to a region that is being
 * closed (world.lock). It loads if
 *  - each transfer has ended, once, and none after its region was closed
 *  - moved bytes are right where a transfer reported success, and unchanged where none writes
 *  - the objects could be made anew after each pair
 * Otherwise the kernel's log names the pair, for @first and @second.
 */
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/net_namespace.h>

#include <linux/krdma_mover.h>

/* What is exported: bytes that nobody writes, a page of each thread, and one for anybody. */
#define PAGES       16
#define STILL_PAGES 8
#define OWN_PAGE    STILL_PAGES
#define ANY_PAGE    (STILL_PAGES + 2)
/* Transfers of the world, which nobody waits for. */
#define POOL 8
/* So that those of a dead path end. */
#define TIMEOUT   (2LL * NSEC_PER_SEC)
#define PATIENCE  (180 * HZ)
#define RIGHTS    (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
#define RACE_NAME "kapi-race"

static char *self = "10.77.0.1";
module_param(self, charp, 0444);
static unsigned int seed = 1;
module_param(seed, uint, 0444);
static unsigned int rounds = 1;
module_param(rounds, uint, 0444);
static unsigned int seconds;
module_param(seconds, uint, 0444);
static unsigned int effort = 100;
module_param(effort, uint, 0444);
/* Only the pair of these. */
static char *first;
module_param(first, charp, 0444);
static char *second;
module_param(second, charp, 0444);

/* For the test to read. */
static unsigned int pairs, done, good;
module_param(pairs, uint, 0444);
module_param(done, uint, 0444);
module_param(good, uint, 0444);

struct region {
	struct krdma_region_handle *krdma;
	atomic_t events;
	bool closed;
};

struct transfer {
	struct krdma_io io;
	struct bio_vec bvec;
	struct page *page;
	struct mutex lock; /* what follows */
	bool cancellable;  /* its region is not being closed */
	atomic_t busy;
	atomic_t submitted, ended;
};

static struct {
	/* Held to submit and to cancel; for writing to take what is to be ended. */
	struct rw_semaphore lock;
	struct krdma_client *client;
	struct krdma_session_handle *session;
	struct region *region;
	struct krdma_export_handle *export;
	struct transfer pool[POOL];
	struct page *pages[PAGES];
	struct sockaddr_storage dst;
	wait_queue_head_t idle;
} world;

struct racer {
	int nr;
	const struct operation *op;
	unsigned int need;
	atomic_t done;
	unsigned int good;
	struct rnd_state random;
	struct krdma_io io;
	struct bio_vec bvec;
	struct page *page;
	struct completion io_done, over;
	u8 count;
};

struct operation {
	const char *name;
	bool (*run)(struct racer *r);
	unsigned int need;
};

static struct racer racers[2];
static atomic_t barrier;
static const char *name_of[2];
static bool broken;

static void __printf(1, 2) fail(const char *fmt, ...)
{
	struct va_format vaf;
	va_list args;

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	pr_err("krdma_race_test: %pV; again: seed=%u first=%s second=%s\n", &vaf, seed, name_of[0],
	       name_of[1]);
	va_end(args);
	WRITE_ONCE(broken, true);
}

static u32 below(struct racer *r, u32 n)
{
	return prandom_u32_state(&r->random) % n;
}

/* Of a byte that nobody writes. */
static u8 still(u32 at)
{
	return (at * 7 + (at >> 8) * 31 + 3) & 0xff;
}

static bool still_is(u32 from, const u8 *at, u32 length)
{
	u32 i;

	for (i = 0; i < length; i++)
		if (at[i] != still(from + i))
			return false;
	return true;
}

/* ---- what is made and ended ---- */

static void on_event(void *priv, enum krdma_event event)
{
	struct region *region = priv;

	might_sleep();
	if (READ_ONCE(region->closed))
		fail("an event of a region that is closed");
	if (event == KRDMA_EVENT_RESUMING || event == KRDMA_EVENT_RESUMED)
		return;
	if (atomic_inc_return(&region->events) > 1)
		fail("a second event of a region");
}

static void on_message(void *priv, const struct krdma_received *message)
{
	might_sleep();
}

static struct region *region_open(struct krdma_session_handle *session)
{
	struct region *region = kzalloc(sizeof(*region), GFP_KERNEL);
	struct krdma_open_param open = {
		.name = RACE_NAME,
		.timeout_ms = 2000,
		.event = on_event,
		.priv = region,
	};

	if (!region || IS_ERR_OR_NULL(session)) {
		kfree(region);
		return NULL;
	}
	region->krdma = krdma_open(session, &open);
	if (!IS_ERR(region->krdma))
		return region;
	kfree(region);
	return NULL;
}

static void region_close(struct region *region)
{
	if (!region)
		return;
	krdma_close(region->krdma);
	WRITE_ONCE(region->closed, true);
	kfree(region);
}

static struct krdma_session_handle *connect(unsigned int flags)
{
	struct krdma_connect_param param = {
		.dst = &world.dst,
		.flags = flags | KRDMA_CONNECT_MESSAGES,
		.timeout_ms = 2000,
	};
	struct krdma_session_handle *session = krdma_connect(world.client, &param);

	return IS_ERR(session) ? NULL : session;
}

/* In the place of the one before, which is the caller's then. Nobody submits to that any more. */
static struct region *swap_region(struct region *region)
{
	int i;

	down_write(&world.lock);
	swap(world.region, region);
	for (i = 0; i < POOL; i++)
		world.pool[i].cancellable = false;
	up_write(&world.lock);
	return region;
}

static struct krdma_session_handle *swap_session(struct krdma_session_handle *session)
{
	down_write(&world.lock);
	swap(world.session, session);
	up_write(&world.lock);
	return session;
}

static void unexport(void)
{
	struct krdma_export_handle *export = NULL;

	down_write(&world.lock);
	swap(world.export, export);
	up_write(&world.lock);
	if (krdma_unexport(export))
		fail("memory can't be taken back");
}

/* The name may be taken by the other thread's. */
static void export_again(void)
{
	struct krdma_export_handle *export = krdma_export(
		world.client, RACE_NAME, world.pages, PAGES * PAGE_SIZE, RIGHTS, on_message, NULL);

	if (IS_ERR(export))
		return;
	down_write(&world.lock);
	swap(world.export, export);
	up_write(&world.lock);
	krdma_unexport(export);
}

/* The region of a session that may be ended meanwhile, so that one stays. */
static void reopen(void)
{
	struct region *region;

	down_read(&world.lock);
	region = region_open(world.session);
	up_read(&world.lock);
	if (region)
		region_close(swap_region(region));
}

/* ---- transfers that are waited for ---- */

static void racer_done(struct krdma_io *io)
{
	struct racer *r = container_of(io, struct racer, io);

	complete(&r->io_done);
}

/* Its status, and -ENODEV if there is no region. */
static int racer_io(struct racer *r, enum krdma_opcode op, u64 offset, u64 length)
{
	r->bvec = (struct bio_vec){ r->page, PAGE_SIZE, 0 };
	r->io = (struct krdma_io){
		.bvec = &r->bvec,
		.nr_bvecs = 1,
		.op = op,
		.operand = 1,
		.offset = offset,
		.length = length,
		/* Nobody may take a message. */
		.timeout = op == KRDMA_OP_SEND ? 100 * NSEC_PER_MSEC : TIMEOUT,
		.done = racer_done,
	};
	if (op == KRDMA_OP_READ || op == KRDMA_OP_WRITE)
		r->io.flags = below(r, 4) ? 0 : KRDMA_OPF_VERIFY;
	reinit_completion(&r->io_done);
	down_read(&world.lock);
	if (!world.region) {
		up_read(&world.lock);
		return -ENODEV;
	}
	r->io.region = world.region->krdma;
	krdma_io_submit(&r->io);
	/* Its region may be closed with it on the wire. */
	up_read(&world.lock);
	wait_for_completion(&r->io_done);
	if (!r->io.status && op != KRDMA_OP_SEND && op != KRDMA_OP_DIGEST && r->io.moved != length)
		fail("op %d: %llu of %llu bytes, and no error", op, r->io.moved, length);
	return r->io.status;
}

static bool run_write(struct racer *r)
{
	u64 at = (OWN_PAGE + r->nr) * PAGE_SIZE;
	u32 length = 1 + below(r, PAGE_SIZE);
	u8 *mem = page_address(r->page);

	memset(mem, ++r->count, length);
	if (racer_io(r, KRDMA_OP_WRITE, at, length))
		return false;
	memset(mem, ~r->count, length);
	if (racer_io(r, KRDMA_OP_READ, at, length))
		return false;
	if (memchr_inv(mem, r->count, length))
		fail("what was written is not what is read");
	return true;
}

static bool run_read(struct racer *r)
{
	u32 length = 1 + below(r, PAGE_SIZE), at = below(r, STILL_PAGES * PAGE_SIZE - length);

	if (racer_io(r, KRDMA_OP_READ, at, length))
		return false;
	if (!still_is(at, page_address(r->page), length))
		fail("other bytes than were exported");
	return true;
}

static bool run_send(struct racer *r)
{
	return !racer_io(r, KRDMA_OP_SEND, 0, below(r, 200));
}

static bool run_digest(struct racer *r)
{
	return !racer_io(r, KRDMA_OP_DIGEST, 0, 1 + below(r, STILL_PAGES * PAGE_SIZE));
}

/* ---- those of the pool ---- */

static void pool_done(struct krdma_io *io)
{
	struct transfer *t = container_of(io, struct transfer, io);

	atomic_inc(&t->ended);
	if (!atomic_xchg(&t->busy, 0))
		fail("a transfer that ended twice");
	wake_up(&world.idle);
}

/* Those that are idle, each or together. */
static bool start(struct racer *r)
{
	u32 n = 1 + below(r, 4), i;
	bool together = below(r, 2), some = false;
	LIST_HEAD(batch);

	down_read(&world.lock);
	for (i = 0; world.region && i < n; i++) {
		u32 reads = below(r, 2), length = 1 + below(r, PAGE_SIZE);
		struct transfer *t = &world.pool[below(r, POOL)];

		mutex_lock(&t->lock);
		if (!atomic_cmpxchg(&t->busy, 0, 1)) {
			t->bvec = (struct bio_vec){ t->page, PAGE_SIZE, 0 };
			t->io = (struct krdma_io){
				.region = world.region->krdma,
				.bvec = &t->bvec,
				.nr_bvecs = 1,
				.op = reads ? KRDMA_OP_READ : KRDMA_OP_WRITE,
				.offset = reads ? 0 : ANY_PAGE * PAGE_SIZE,
				.length = length,
				.timeout = below(r, 4) ? TIMEOUT : 1 + below(r, 2 * NSEC_PER_MSEC),
				.done = pool_done,
			};
			atomic_inc(&t->submitted);
			some = true;
			if (together) {
				/* Submitted below, and cancelled by nobody before. */
				t->cancellable = false;
				list_add_tail(&t->io.node, &batch);
			} else {
				krdma_io_submit(&t->io);
				t->cancellable = true;
			}
		}
		mutex_unlock(&t->lock);
	}
	krdma_io_submit_batch(&batch);
	up_read(&world.lock);
	return some;
}

static bool run_cancel(struct racer *r)
{
	struct transfer *t = &world.pool[below(r, POOL)];
	bool some;

	start(r);
	down_read(&world.lock);
	mutex_lock(&t->lock);
	some = t->cancellable;
	if (some)
		krdma_io_cancel(&t->io);
	mutex_unlock(&t->lock);
	up_read(&world.lock);
	return some;
}

static bool run_cancel_all(struct racer *r)
{
	bool some;

	start(r);
	down_read(&world.lock);
	some = world.region;
	if (some)
		krdma_region_cancel(world.region->krdma);
	up_read(&world.lock);
	return some;
}

static bool run_limits(struct racer *r)
{
	struct krdma_limits limits;
	bool some;

	down_read(&world.lock);
	some = world.region && !krdma_region_limits(world.region->krdma, &limits);
	up_read(&world.lock);
	return some;
}

/* ---- ends ---- */

static bool run_end_region(struct racer *r)
{
	start(r);
	region_close(swap_region(NULL));
	reopen();
	return true;
}

static bool run_end_session(struct racer *r)
{
	struct krdma_session_handle *session = connect(below(r, 2) ? KRDMA_CONNECT_PRIVATE : 0);

	krdma_disconnect(swap_session(session));
	reopen();
	return session;
}

static bool run_end_export(struct racer *r)
{
	unexport();
	export_again();
	reopen();
	return true;
}

static bool run_connect(struct racer *r)
{
	struct krdma_session_handle *session = connect(below(r, 4) ? KRDMA_CONNECT_PRIVATE : 0);

	krdma_disconnect(session);
	return session;
}

static bool run_open(struct racer *r)
{
	struct region *region;

	down_read(&world.lock);
	region = region_open(world.session);
	up_read(&world.lock);
	region_close(region);
	return region;
}

static bool run_client(struct racer *r)
{
	struct krdma_client *client = krdma_client_create(&init_net);

	krdma_client_destroy(client);
	return !IS_ERR(client);
}

static const struct operation operations[] = {
	{ "write", run_write, 20 },
	{ "read", run_read, 20 },
	{ "send", run_send, 10 },
	{ "digest", run_digest, 20 },
	{ "start", start, 20 },
	{ "cancel", run_cancel, 20 },
	{ "cancel-all", run_cancel_all, 20 },
	{ "limits", run_limits, 20 },
	{ "end-region", run_end_region, 8 },
	{ "end-session", run_end_session, 4 },
	{ "end-export", run_end_export, 4 },
	{ "connect", run_connect, 4 },
	{ "open", run_open, 8 },
	{ "client", run_client, 20 },
};

/* ---- pairs ---- */

static bool pool_is_idle(void)
{
	int i;

	for (i = 0; i < POOL; i++)
		if (atomic_read(&world.pool[i].busy))
			return false;
	return true;
}

static void pool_check(void)
{
	int i;

	if (!wait_event_timeout(world.idle, pool_is_idle(), PATIENCE)) {
		fail("transfers do not end");
		/* They are the module's. */
		wait_event(world.idle, pool_is_idle());
	}
	for (i = 0; i < POOL; i++)
		if (atomic_read(&world.pool[i].submitted) != atomic_read(&world.pool[i].ended))
			fail("a transfer did not end as often as it was submitted");
}

static void end_world(void)
{
	region_close(swap_region(NULL));
	krdma_disconnect(swap_session(NULL));
	unexport();
}

/* The device, or the listener, may be away for a moment. */
static void mend(void)
{
	unsigned long until = jiffies + PATIENCE / 2;
	struct racer *r = &racers[0];

	while (!run_write(r)) {
		if (time_after(jiffies, until)) {
			fail("nothing works any more: %d", r->io.status);
			return;
		}
		end_world();
		export_again();
		krdma_disconnect(swap_session(connect(0)));
		reopen();
		if (!world.region)
			msleep(20);
	}
}

static int race(void *arg)
{
	struct racer *r = arg, *other = &racers[!r->nr];

	/* From here on both. */
	atomic_dec(&barrier);
	while (atomic_read(&barrier))
		cond_resched();
	while (atomic_read(&r->done) < r->need || atomic_read(&other->done) < other->need) {
		r->good += r->op->run(r);
		atomic_inc(&r->done);
		cond_resched();
	}
	/* Not in code of this module any more when it is unloaded. */
	kthread_complete_and_exit(&r->over, 0);
}

static bool run_pair(const struct operation *a, const struct operation *b, u32 number)
{
	int cpu = cpumask_first(cpu_online_mask), i;

	name_of[0] = a->name;
	name_of[1] = b->name;
	atomic_set(&barrier, 2);
	for (i = 0; i < 2; i++) {
		struct racer *r = &racers[i];

		r->nr = i;
		r->op = i ? b : a;
		r->need = 1 + r->op->need * effort / 100;
		atomic_set(&r->done, 0);
		r->good = 0;
		prandom_seed_state(&r->random, (u64)seed << 32 | number << 1 | i);
		reinit_completion(&r->over);
	}
	for (i = 0; i < 2; i++) {
		struct task_struct *task = kthread_create(race, &racers[i], "krdma_race/%d", i);

		if (IS_ERR(task)) {
			fail("no thread");
			if (i)
				wait_for_completion(&racers[0].over);
			return false;
		}
		kthread_bind(task, cpu);
		wake_up_process(task);
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
	for (i = 0; i < 2; i++) {
		if (!wait_for_completion_timeout(&racers[i].over, PATIENCE)) {
			fail("%s does not end, after %d times", racers[i].op->name,
			     atomic_read(&racers[i].done));
			/* It is this module's code. */
			wait_for_completion(&racers[i].over);
		}
		done += atomic_read(&racers[i].done);
		good += racers[i].good;
	}
	mend();
	down_read(&world.lock);
	if (world.region)
		krdma_region_cancel(world.region->krdma);
	up_read(&world.lock);
	pool_check();
	for (i = 0; i < STILL_PAGES; i++)
		if (!still_is(i * PAGE_SIZE, page_address(world.pages[i]), PAGE_SIZE))
			fail("bytes that nobody writes have changed");
	pairs++;
	return !broken;
}

static bool is_wanted(const struct operation *op, const char *name)
{
	return !name || !strcmp(op->name, name);
}

static bool pass(void)
{
	u32 a, b;

	for (a = 0; a < ARRAY_SIZE(operations); a++)
		for (b = a; b < ARRAY_SIZE(operations); b++)
			if (is_wanted(&operations[a], first) && is_wanted(&operations[b], second) &&
			    !run_pair(&operations[a], &operations[b], a << 8 | b))
				return false;
	return true;
}

/* ---- beginning and end ---- */

static void free_pages_of(void)
{
	int i;

	for (i = 0; i < PAGES; i++)
		if (world.pages[i])
			__free_page(world.pages[i]);
	for (i = 0; i < POOL; i++)
		if (world.pool[i].page)
			__free_page(world.pool[i].page);
	for (i = 0; i < 2; i++)
		if (racers[i].page)
			__free_page(racers[i].page);
}

static bool alloc_pages_of(void)
{
	bool all = true;
	int i, j;

	for (i = 0; i < PAGES; i++) {
		world.pages[i] = alloc_page(GFP_KERNEL);
		all &= !!world.pages[i];
		for (j = 0; world.pages[i] && j < PAGE_SIZE; j++)
			((u8 *)page_address(world.pages[i]))[j] = still(i * PAGE_SIZE + j);
	}
	for (i = 0; i < POOL; i++) {
		mutex_init(&world.pool[i].lock);
		world.pool[i].page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		all &= !!world.pool[i].page;
	}
	for (i = 0; i < 2; i++) {
		init_completion(&racers[i].io_done);
		init_completion(&racers[i].over);
		racers[i].page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		all &= !!racers[i].page;
	}
	return all;
}

static int __init race_init(void)
{
	unsigned long until = jiffies + seconds * HZ;
	unsigned int round;
	int rc;

	init_rwsem(&world.lock);
	init_waitqueue_head(&world.idle);
	rc = inet_pton_with_scope(&init_net, AF_UNSPEC, self, NULL, &world.dst);
	if (rc)
		return rc;
	rc = -ENOMEM;
	if (!alloc_pages_of())
		goto out;
	world.client = krdma_client_create(&init_net);
	rc = PTR_ERR_OR_ZERO(world.client);
	if (rc)
		goto out;
	name_of[0] = "none";
	name_of[1] = "none";
	mend();
	for (round = 0; !broken && (seconds ? time_before(jiffies, until) : round < rounds);
	     round++) {
		pass();
		seed++;
	}
	end_world();
	pool_check();
	krdma_client_destroy(world.client);
	pr_info("krdma_race_test: %u pairs, %u operations, %u of them good\n", pairs, done, good);
	rc = broken ? -EIO : 0;
out:
	if (rc)
		free_pages_of();
	return rc;
}

static void __exit race_exit(void)
{
	free_pages_of();
}

module_init(race_init);
module_exit(race_exit);

MODULE_DESCRIPTION("Races of krdma_mover's in-kernel API");
MODULE_LICENSE("GPL");
