// SPDX-License-Identifier: GPL-2.0
/*
 * The write cache of a disk in durable memory: what has been written, and has not been flushed.
 *
 * A flush costs the peer time for each line of memory, so the request names where something was
 * written, in chunks. In the beginning that is everywhere: somebody else may have written.
 *
 * A flush request is about the writes that have ended before it. One round is under way at a
 * time: it takes all requests that are there, goes through all chunks once, and ends them. A
 * chunk is marked when a write to it has ended, never before, as a round would take a mark that
 * comes before the bytes.
 */
#include <linux/bitmap.h>
#include <linux/krdma_mover.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "blk/blk.h"

/* Chunks have 64 KiB, or more where they would be too many: each flush looks at all bits. */
#define KRDMA_CHUNK_SHIFT 16
#define KRDMA_CHUNKS_LOG  20
/* Ranges, and bytes, of one operation, which has a deadline. */
#define KRDMA_FLUSH_RANGES 32
#define KRDMA_FLUSH_BYTES  SZ_1G

struct krdma_flusher {
	struct krdma_region_handle *region;
	u64 bytes; /* of the disk */
	u32 shift; /* a chunk has 1 << shift bytes */
	unsigned long chunks;
	unsigned long *written; /* a bit for each chunk */
	bool shared; /* others write as well: a round is about all chunks, not ->written */
	bool dead;
	spinlock_t lock;          /* ->running, ->waiting */
	bool running;             /* a round is under way, which has what follows */
	struct list_head waiting; /* krdma_io.node: for the next round */
	struct list_head served;  /* for this one */
	unsigned long next;       /* the first chunk that it has not looked at */
	struct krdma_vec ranges[KRDMA_FLUSH_RANGES];
	struct krdma_io io;
};

/* The chunks of a range that is going to be flushed. */
static void krdma_flusher_range(struct krdma_flusher *f, struct krdma_vec *range,
				unsigned long most)
{
	unsigned long first, end;

	/* What is written meanwhile may be of the next round: its flush comes later. */
	first = f->shared ? f->next : data_race(find_next_bit(f->written, f->chunks, f->next));
	end = first;
	while (end < f->chunks && end - first < most &&
	       (f->shared || test_and_clear_bit(end, f->written)))
		end++;
	range->addr = (u64)first << f->shift;
	range->length = min((u64)end << f->shift, f->bytes) - min(range->addr, f->bytes);
	f->next = end;
}

/* Mark them again: a flush that fails may be repeated. */
static void krdma_flusher_undo(struct krdma_flusher *f)
{
	u32 i;

	for (i = 0; i < f->io.nr_ranges; i++)
		krdma_flusher_written(f, f->ranges[i].addr, f->ranges[i].length);
}

/* All requests of a list have ended. */
static void krdma_flusher_end(struct list_head *ios, int status)
{
	struct krdma_io *io, *next;

	list_for_each_entry_safe(io, next, ios, node) {
		list_del_init(&io->node);
		io->status = status;
		io->pages_lost = false;
		io->done(io);
	}
}

/* The next ranges of a round. Return: false if there are none, or the disk is dead */
static bool krdma_flusher_submit(struct krdma_flusher *f)
{
	struct krdma_io *io = &f->io;
	u64 left = KRDMA_FLUSH_BYTES;

	io->length = 0;
	io->nr_ranges = 0;
	while (io->nr_ranges < KRDMA_FLUSH_RANGES && left) {
		struct krdma_vec *range = &f->ranges[io->nr_ranges];

		krdma_flusher_range(f, range, left >> f->shift);
		if (!range->length)
			break;
		io->length += range->length;
		left -= min(left, ALIGN(range->length, 1ULL << f->shift));
		io->nr_ranges++;
	}
	if (!io->nr_ranges)
		return false;
	krdma_io_submit(io);
	return true;
}

/*
 * Go on with the round; or end it, and begin with the next one. With an error all requests end,
 * those that wait as well: no round begins where the one before has just failed.
 */
static void krdma_flusher_go(struct krdma_flusher *f, int status)
{
	LIST_HEAD(ended);
	bool more;

	do {
		/* ORDER: krdma_disk_kill() waits for this, and then cancels what was submitted. */
		rcu_read_lock();
		if (!status && READ_ONCE(f->dead))
			status = -ECANCELED;
		more = !status && krdma_flusher_submit(f);
		rcu_read_unlock();
		if (more)
			return;
		spin_lock_bh(&f->lock);
		list_splice_tail_init(&f->served, &ended);
		if (status)
			list_splice_tail_init(&f->waiting, &ended);
		list_splice_init(&f->waiting, &f->served);
		f->next = 0;
		more = !list_empty(&f->served);
		f->running = more;
		spin_unlock_bh(&f->lock);
		/* ORDER: the last one; the disk may go when its requests have ended. */
		krdma_flusher_end(&ended, status);
	} while (more);
}

static void krdma_flusher_done(struct krdma_io *io)
{
	struct krdma_flusher *f = container_of(io, struct krdma_flusher, io);

	if (io->status)
		krdma_flusher_undo(f);
	krdma_flusher_go(f, io->status);
}

/**
 * krdma_flusher_flush - make durable what has been written
 * @f: the flusher
 * @io: its ->done is called with ->status when that has happened, perhaps from here
 *
 * Context: any but hard interrupts.
 */
void krdma_flusher_flush(struct krdma_flusher *f, struct krdma_io *io)
{
	bool begin;

	spin_lock_bh(&f->lock);
	begin = !f->running;
	f->running = true;
	list_add_tail(&io->node, begin ? &f->served : &f->waiting);
	spin_unlock_bh(&f->lock);
	if (begin)
		krdma_flusher_go(f, 0);
}

/**
 * krdma_flusher_written - a write has ended, with any status
 * @f: the flusher
 * @offset: its first byte
 * @length: its bytes, not 0
 *
 * Context: any.
 */
void krdma_flusher_written(struct krdma_flusher *f, u64 offset, u64 length)
{
	unsigned long chunk = offset >> f->shift, last = (offset + length - 1) >> f->shift;

	for (; chunk <= last; chunk++)
		if (!test_bit(chunk, f->written))
			set_bit(chunk, f->written);
}

/**
 * krdma_flusher_kill - begin with no operation any more
 * @f: the flusher
 *
 * One that is beginning has been submitted after a grace period of RCU.
 *
 * Context: any.
 */
void krdma_flusher_kill(struct krdma_flusher *f)
{
	WRITE_ONCE(f->dead, true);
}

/**
 * krdma_flusher_new - the write cache of a disk
 * @region: its region, with KRDMA_RIGHT_DURABLE
 * @bytes: of the disk
 * @timeout: of each operation
 * @shared: what another disk has written is flushed as well
 *
 * Context: process.
 * Return: the flusher, for krdma_flusher_free(); or NULL
 */
struct krdma_flusher *krdma_flusher_new(struct krdma_region_handle *region, u64 bytes,
					ktime_t timeout, bool shared)
{
	struct krdma_flusher *f = kzalloc(sizeof(*f), GFP_KERNEL);

	if (!f)
		return NULL;
	/* The length is what the peer says. */
	f->shift = max(KRDMA_CHUNK_SHIFT, fls64(bytes - 1) - KRDMA_CHUNKS_LOG);
	if (f->shift > ilog2(KRDMA_FLUSH_BYTES)) {
		kfree(f);
		return NULL;
	}
	f->chunks = ((bytes - 1) >> f->shift) + 1;
	f->written = kvcalloc(BITS_TO_LONGS(f->chunks), sizeof(long), GFP_KERNEL | __GFP_NOWARN);
	if (!f->written) {
		kfree(f);
		return NULL;
	}
	bitmap_fill(f->written, f->chunks);
	f->shared = shared;
	f->region = region;
	f->bytes = bytes;
	spin_lock_init(&f->lock);
	INIT_LIST_HEAD(&f->waiting);
	INIT_LIST_HEAD(&f->served);
	f->io.region = region;
	f->io.op = KRDMA_OP_FLUSH;
	f->io.ranges = f->ranges;
	f->io.timeout = timeout;
	f->io.done = krdma_flusher_done;
	return f;
}

/**
 * krdma_flusher_free - the end of a disk
 * @f: the flusher, without requests; NULL is ignored
 *
 * Context: process, after krdma_close() of its region.
 */
void krdma_flusher_free(struct krdma_flusher *f)
{
	if (!f)
		return;
	kvfree(f->written);
	kfree(f);
}
