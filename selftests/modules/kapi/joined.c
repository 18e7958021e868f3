// SPDX-License-Identifier: GPL-2.0
/* Memory in one piece, told of page by page, is written and read. */
#include <linux/gfp.h>
#include <linux/random.h>

#include "test.h"

#define JOINED_PAGES 64
#define JOINED_BYTES (JOINED_PAGES * PAGE_SIZE)

static bool joined_io(struct page *pages, enum krdma_opcode op)
{
	u32 i;

	slot_big();
	for (i = 0; i < JOINED_PAGES; i++)
		big_bvec[i] = (struct bio_vec){ pages + i, PAGE_SIZE, 0 };
	big_slot.io.nr_bvecs = JOINED_PAGES;
	big_slot.io.op = op;
	big_slot.io.offset = 0;
	big_slot.io.length = JOINED_BYTES;
	slots_begin(1);
	krdma_io_submit(&big_slot.io);
	return slots_wait() && want(!big_slot.io.status && big_slot.io.moved == JOINED_BYTES);
}

/* More pages than a work request has SGEs: who loaded this counts work requests. */
bool test_joined(void)
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
