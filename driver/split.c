// SPDX-License-Identifier: GPL-2.0
/*
 * How an operation is cut into work requests, and their bytes into SGEs. Numbers
 * only: nothing is posted here, and no lock is needed.
 */
#include <linux/sizes.h>

#include "krdma.h"

/**
 * krdma_split_short - no short work request over the end of a page of the peer
 * @bytes: how much it would carry, not 0
 * @at: first byte in the region; a peer's pages have 4 KiB at least
 *
 * Context: any.
 * Return: the bytes: to the end of the page if that is less than KRDMA_SHORT away
 */
u32 krdma_split_short(u32 bytes, u64 at)
{
	u32 rest = SZ_4K - (at & (SZ_4K - 1));

	return rest < KRDMA_SHORT ? min(bytes, rest) : bytes;
}

/**
 * krdma_split_sges - the SGEs of one work request
 * @page: DMA address of each page of the local memory
 * @mem: first byte, counted from the beginning of the first page
 * @bytes: how many to carry
 * @lkey: for all of them
 * @sge: out: room for @max
 * @max: most SGEs, at least 1
 * @used: in: SGEs that the work request has already; out: those that it has now
 *
 * Pages whose addresses follow each other share an SGE.
 *
 * Context: any.
 * Return: the bytes that were added: fewer than @bytes where @max is reached
 */
u32 krdma_split_sges(const dma_addr_t *page, u64 mem, u32 bytes, u32 lkey, struct ib_sge *sge,
		     u32 max, u32 *used)
{
	u32 done = 0, n = *used;

	while (done < bytes) {
		u32 len = krdma_page_rest(mem, bytes - done);
		dma_addr_t addr = page[mem >> PAGE_SHIFT] + offset_in_page(mem);

		if (n && sge[n - 1].addr + sge[n - 1].length == addr) {
			sge[n - 1].length += len;
		} else {
			if (n == max)
				break;
			sge[n].addr = addr;
			sge[n].length = len;
			sge[n].lkey = lkey;
			n++;
		}
		done += len;
		mem += len;
	}
	*used = n;
	return done;
}
