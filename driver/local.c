// SPDX-License-Identifier: GPL-2.0
/* The local memory of an operation as the CPU sees it, page by page. */
#include <linux/highmem.h>
#include <linux/page-flags.h>

#include "krdma.h"

/* To the entry that the next byte is in. */
static void krdma_local_entry(const struct krdma_transfer *x, struct krdma_cursor *at)
{
	u64 length;

	while (at->in >= (length = x->bvec ? x->bvec[at->i].bv_len : x->local[at->i].length)) {
		at->in -= length;
		at->i++;
	}
}

/**
 * krdma_local_page - the page of a byte of an operation's local memory
 * @x: operation, with its memory pinned
 * @at: the byte, inside; out: as seen from its entry
 * @offset: out: where in the page it is
 * @rest: out: bytes that follow in that page, from that one on
 *
 * Context: any.
 * Return: the page
 */
struct page *krdma_local_page(const struct krdma_transfer *x, struct krdma_cursor *at, u32 *offset,
			      u64 *rest)
{
	const struct bio_vec *bv;
	u64 addr;

	krdma_local_entry(x, at);
	if (!x->bvec) {
		addr = x->map->mem->offset + x->local[at->i].addr + at->in;
		*rest = krdma_page_rest(addr, x->local[at->i].length - at->in);
		*offset = offset_in_page(addr);
		return x->map->mem->pages[addr >> PAGE_SHIFT];
	}
	bv = &x->bvec[at->i];
	addr = bv->bv_offset + at->in;
	*rest = krdma_page_rest(addr, bv->bv_len - at->in);
	*offset = offset_in_page(addr);
	return pfn_to_page(page_to_pfn(bv->bv_page) + (addr >> PAGE_SHIFT));
}

/**
 * krdma_local_copy - copy the local memory of an operation
 * @x: operation, with its memory pinned; from where ->at stands
 * @to: where to
 * @length: bytes; there are as many
 *
 * Context: any.
 * Return: 0, or -EFAULT: a page is poisoned, and reading it may be the end
 */
int krdma_local_copy(const struct krdma_transfer *x, void *to, u32 length)
{
	struct krdma_cursor at = x->at;
	struct page *page;
	u32 offset;
	u64 rest;

	for (; length; length -= rest, to += rest, at.in += rest) {
		page = krdma_local_page(x, &at, &offset, &rest);
		rest = min_t(u64, rest, length);
		if (PageHWPoison(page))
			return -EFAULT;
		memcpy_from_page(to, page, offset, rest);
	}
	return 0;
}
