// SPDX-License-Identifier: GPL-2.0
/*
 * Local memory of an operation: pages, or ranges of a registered buffer. Its next bytes as
 * they are for a device, and as the CPU sees them, page by page. What most operations do is
 * in mem.h, inline.
 */
#include <linux/highmem.h>
#include <linux/page-flags.h>

#include "mem/mem.h"

/* ---- for a device ---- */

/*
 * ->bvec: how long the run of the next bytes is, up to @most. Entries that follow each other in
 * memory are one: io_uring has one for each page up to Linux 6.11.
 */
static u32 krdma_local_run(const struct krdma_local *l, u32 most)
{
	const struct bio_vec *bv = &l->bvec[l->at.i];
	u32 len = min_t(u64, most, bv->bv_len - l->at.in), i, more;
	phys_addr_t end = page_to_phys(bv->bv_page) + bv->bv_offset + l->at.in + len;

	for (i = l->at.i + 1; len < most && i < l->n; i++, len += more, end += more) {
		bv = &l->bvec[i];
		more = min(bv->bv_len, most - len);
		if (page_to_phys(bv->bv_page) + bv->bv_offset != end)
			break;
	}
	return len;
}

/* krdma_local_sges(), of more than one entry or page. */
u32 krdma_local_sges_many(struct krdma_local *l, struct krdma_dma_device *dev, u32 lkey,
			  struct ib_sge *sge, u32 max, u32 *bytes)
{
	u32 left = *bytes, n = 0, len;

	if (l->bvec) {
		for (; left && n < max; left -= len, n++) {
			len = krdma_local_next(l, dev, left, &sge[n].addr);
			if (!len)
				break;
			sge[n].length = len;
			sge[n].lkey = lkey;
		}
	} else {
		for (; left; left -= len) {
			len = krdma_split_sges(l->map->page, krdma_local_pos(l, &l->at),
					       min_t(u64, left, l->vec[l->at.i].length - l->at.in),
					       lkey, sge, max, &n);
			if (!len)
				break;
			krdma_split_step(&l->at, l->vec, l->n, len);
		}
	}
	*bytes -= left;
	return n;
}

/**
 * krdma_local_next - the next run, for a device; and go behind it
 * @l: local memory
 * @dev: the device
 * @most: most bytes, not 0
 * @addr: out: its DMA address
 *
 * Pages are mapped here, and krdma_local_unmap() has to undo that.
 *
 * Context: any.
 * Return: the bytes of the run; 0 if it can't be mapped
 */
u32 krdma_local_next(struct krdma_local *l, struct krdma_dma_device *dev, u32 most, u64 *addr)
{
	u64 pos;
	u32 len;

	if (l->bvec)
		return krdma_local_map(l, dev, krdma_local_run(l, min(most, dev->max_map)), addr);
	pos = krdma_local_pos(l, &l->at);
	*addr = l->map->page[pos >> PAGE_SHIFT] + offset_in_page(pos);
	len = krdma_page_rest(pos, min_t(u64, most, l->vec[l->at.i].length - l->at.in));
	krdma_split_step(&l->at, l->vec, l->n, len);
	return len;
}

/**
 * krdma_local_sg - the next bytes as a scatter list for one registration; and go behind them
 * @l: local memory
 * @dev: the device
 * @sg: out: DMA addresses and lengths, a page each at most; room for @max
 * @max: most entries, at least 1
 * @bytes: in: most bytes, not 0; out: those of the entries, which have no gap inside
 * @mapped: out: entries that krdma_local_unmap() has to undo
 *
 * Context: any.
 * Return: the entries; 0 if nothing can be mapped now
 */
u32 krdma_local_sg(struct krdma_local *l, struct krdma_dma_device *dev, struct scatterlist *sg,
		   u32 max, u32 *bytes, u32 *mapped)
{
	u32 left = *bytes, end = 0, n, len;

	sg_init_table(sg, max);
	for (n = 0; left && n < max; n++) {
		u32 offset = offset_in_page(krdma_local_pos(l, &l->at));
		u64 addr;

		if (n && (offset || offset_in_page(end)))
			break;
		len = krdma_local_next(l, dev, krdma_page_rest(offset, left), &addr);
		if (!len)
			break;
		sg_dma_address(&sg[n]) = addr;
		sg_dma_len(&sg[n]) = len;
		end = offset + len;
		left -= len;
	}
	*bytes -= left;
	*mapped = l->bvec ? n : 0;
	return n;
}

/**
 * krdma_local_sync_mapped - krdma_local_sync() where it is needed
 * @l: ranges of a registered buffer
 * @at: the first of the bytes
 * @bytes: their number
 * @to_device: to the device, before it moves them; or back
 *
 * What the device only reads does not come back: the process may have changed it. What it is
 * to fill goes there before, as it may fill less.
 *
 * Context: any.
 */
void krdma_local_sync_mapped(const struct krdma_local *l, struct krdma_cursor at, u32 bytes,
			     bool to_device)
{
	enum dma_data_direction dir = l->fills ? l->map->dir : DMA_TO_DEVICE;
	struct krdma_dma_device *dev = l->map->dev;
	struct krdma_local part = *l;
	u64 addr;
	u32 len;

	for (part.at = at; bytes; bytes -= len) {
		len = krdma_local_next(&part, dev, bytes, &addr);
		if (to_device)
			ib_dma_sync_single_for_device(dev->ib, addr, len, dir);
		else
			ib_dma_sync_single_for_cpu(dev->ib, addr, len, dir);
	}
}

/**
 * krdma_local_remap - go on with the mapping for another device
 * @l: local memory, ranges of a registered buffer
 * @dev: the device
 *
 * Context: any; nothing of it is posted.
 * Return: false if there is none
 */
bool krdma_local_remap(struct krdma_local *l, const struct krdma_dma_device *dev)
{
	struct krdma_mapping *map = krdma_mem_mapped(l->map->mem, dev);

	if (map)
		l->map = map;
	return map;
}

/**
 * krdma_local_seek - go to a byte
 * @l: local memory
 * @from: where to count from
 * @bytes: how many are behind then; there are as many
 *
 * Context: any.
 */
void krdma_local_seek(struct krdma_local *l, struct krdma_cursor from, u64 bytes)
{
	u32 part;

	l->at = from;
	if (!l->bvec)
		krdma_split_step(&l->at, l->vec, l->n, bytes);
	for (; l->bvec && bytes; bytes -= part) {
		part = min_t(u64, bytes, SZ_1G);
		krdma_bvec_step(&l->at, l->bvec, l->n, part);
	}
}

/* ---- for the CPU ---- */

/**
 * krdma_local_page - the page of a byte
 * @l: local memory, pinned
 * @at: the byte, inside; out: as seen from its entry
 * @offset: out: where in the page it is
 * @rest: out: bytes that follow in that page, from that one on
 *
 * Context: any.
 * Return: the page
 */
struct page *krdma_local_page(const struct krdma_local *l, struct krdma_cursor *at, u32 *offset,
			      u64 *rest)
{
	u64 length, pos;

	/* To the entry that the byte is in. */
	while (at->in >= (length = l->bvec ? l->bvec[at->i].bv_len : l->vec[at->i].length)) {
		at->in -= length;
		at->i++;
	}
	pos = krdma_local_pos(l, at);
	*offset = offset_in_page(pos);
	*rest = krdma_page_rest(pos, length - at->in);
	if (l->bvec)
		return l->bvec[at->i].bv_page + (pos >> PAGE_SHIFT);
	return l->map->mem->pages[pos >> PAGE_SHIFT];
}

/**
 * krdma_local_copy - copy the next bytes
 * @l: local memory, pinned
 * @to: where to
 * @length: bytes; there are as many
 *
 * Context: any.
 * Return: 0, or -EFAULT: a page is poisoned, and reading it may be the end
 */
int krdma_local_copy(const struct krdma_local *l, void *to, u32 length)
{
	struct krdma_cursor at = l->at;
	struct page *page;
	u32 offset;
	u64 rest;

	for (; length; length -= rest, to += rest, at.in += rest) {
		page = krdma_local_page(l, &at, &offset, &rest);
		rest = min_t(u64, rest, length);
		if (PageHWPoison(page))
			return -EFAULT;
		memcpy_from_page(to, page, offset, rest);
	}
	return 0;
}

/**
 * krdma_local_store - put a number at the next byte
 * @l: local memory, pinned
 * @from: the number
 * @length: its bytes, which are in one page
 *
 * Context: any.
 */
void krdma_local_store(const struct krdma_local *l, const void *from, u32 length)
{
	struct krdma_cursor at = l->at;
	u32 offset;
	u64 rest;
	struct page *page = krdma_local_page(l, &at, &offset, &rest);

	if (!WARN_ON_ONCE(rest < length))
		memcpy_to_page(page, offset, from, length);
}
