// SPDX-License-Identifier: GPL-2.0
/* Slots: transfers whose memory and place in the region are their own. What all subjects use. */
#include <linux/completion.h>
#include <linux/gfp.h>
#include <linux/inet.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "test.h"

#define BIG_BYTES (BIG_PIECES * PAGE_SIZE)

struct slot *slots;
struct slot big_slot;
struct bio_vec big_bvec[BIG_PIECES];
atomic_t slots_pending;
static DECLARE_COMPLETION(slots_done);

struct krdma_session_handle *connect_to(const struct sockaddr_storage *dst, unsigned int flags)
{
	struct krdma_connect_param param = { .dst = dst, .flags = flags };
	struct sockaddr_storage other = {};
	struct krdma_path_param path = { .dst = &other };

	if (test_second) {
		inet_pton_with_scope(&init_net, AF_UNSPEC, test_second, "7471", &other);
		param.paths = &path;
		param.npaths = 1;
	}
	return krdma_connect(test_client, &param);
}

u32 below(u32 n)
{
	return get_random_u32() % n;
}

struct krdma_region_handle *open_region(struct krdma_session_handle *s, const char *export,
					unsigned int rights)
{
	const struct krdma_open_param open = { .name = export, .rights = rights };

	return krdma_open(s, &open);
}

int slots_alloc(void)
{
	u32 i, j;

	slots = kvcalloc(test_depth, sizeof(*slots), GFP_KERNEL);
	big_slot.page[0] = alloc_page(GFP_KERNEL);
	if (!slots || !big_slot.page[0])
		return -ENOMEM;
	for (i = 0; i < test_depth; i++)
		for (j = 0; j < PAGES; j++) {
			slots[i].page[j] = alloc_page(GFP_KERNEL);
			if (!slots[i].page[j])
				return -ENOMEM;
		}
	return 0;
}

void slots_free(void)
{
	u32 i, j;

	if (big_slot.page[0])
		__free_page(big_slot.page[0]);
	for (i = 0; slots && i < test_depth; i++)
		for (j = 0; j < PAGES; j++)
			if (slots[i].page[j])
				__free_page(slots[i].page[j]);
	kvfree(slots);
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
	if (atomic_dec_and_test(&slots_pending))
		complete(&slots_done);
}

void slots_begin(unsigned int n)
{
	atomic_set(&slots_pending, n);
	reinit_completion(&slots_done);
}

bool slots_wait(void)
{
	return want(wait_for_completion_timeout(&slots_done, PATIENCE));
}

/* The whole of a slot, in one run for each page. */
void slot_fill(struct slot *s, enum krdma_opcode op)
{
	int i;

	for (i = 0; i < PAGES; i++)
		s->bvec[i] = (struct bio_vec){ s->page[i], PAGE_SIZE, 0 };
	s->io = (struct krdma_io){
		.region = test_region,
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
void slot_shuffle(struct slot *s)
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
void slot_big(void)
{
	u32 i;

	for (i = 0; i < BIG_PIECES; i++)
		big_bvec[i] = (struct bio_vec){ big_slot.page[0], PAGE_SIZE, 0 };
	big_slot.io = (struct krdma_io){
		.region = test_region,
		.bvec = big_bvec,
		.nr_bvecs = BIG_PIECES,
		.op = KRDMA_OP_WRITE,
		.offset = test_depth * SLOT_BYTES,
		.length = BIG_BYTES,
		.done = slot_done,
	};
	atomic_set(&big_slot.calls, 0);
	big_slot.expected = 1;
}

u8 pattern(u32 seed, u32 slot, u32 i)
{
	return (seed * 31 + slot * 17 + i * 7 + (i >> 8)) & 0xff;
}

bool slots_verify(void)
{
	u32 seed = get_random_u32(), i, j;
	LIST_HEAD(batch);
	bool ok = true;

	for (i = 0; i < test_depth; i++) {
		slot_fill(&slots[i], KRDMA_OP_WRITE);
		for (j = 0; j < SLOT_BYTES; j++)
			((u8 *)page_address(slots[i].page[j / PAGE_SIZE]))[j % PAGE_SIZE] =
				pattern(seed, i, j);
		list_add_tail(&slots[i].io.node, &batch);
	}
	slots_begin(test_depth);
	krdma_io_submit_batch(&batch);
	if (!want(list_empty(&batch)) || !slots_wait())
		return false;
	for (i = 0; i < test_depth; i++) {
		ok &= want(!slots[i].io.status && slots[i].io.moved == SLOT_BYTES);
		slot_fill(&slots[i], KRDMA_OP_READ);
		for (j = 0; j < PAGES; j++)
			memset(page_address(slots[i].page[j]), 0x5a, PAGE_SIZE);
		list_add_tail(&slots[i].io.node, &batch);
	}
	slots_begin(test_depth);
	krdma_io_submit_batch(&batch);
	if (!slots_wait())
		return false;
	for (i = 0; i < test_depth; i++) {
		ok &= want(!slots[i].io.status && slots[i].io.moved == SLOT_BYTES);
		for (j = 0; ok && j < SLOT_BYTES; j++)
			ok &= want(
				((u8 *)page_address(slots[i].page[j / PAGE_SIZE]))[j % PAGE_SIZE] ==
				pattern(seed, i, j));
	}
	return ok;
}

/* Submits the first slot alone. Returns its status, or 1 if it has not ended once. */
int one(void)
{
	slots_begin(1);
	krdma_io_submit(&slots[0].io);
	if (!slots_wait() || !want(atomic_read(&slots[0].calls) == 1))
		return 1;
	/* It has ended: nothing happens. */
	krdma_io_cancel(&slots[0].io);
	return want(atomic_read(&slots[0].calls) == 1) ? slots[0].io.status : 1;
}
