// SPDX-License-Identifier: GPL-2.0
/* How bytes of mapped pages are cut into SGEs: numbers only. */
#include "mem/mem.h"

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
