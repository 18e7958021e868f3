// SPDX-License-Identifier: GPL-2.0
/* Digests of memory: CRC32C, by the code of the kernel. */
#include <linux/crc32c.h>
#include <linux/highmem.h>

#include "mem/mem.h"

/**
 * krdma_digest_page - the digest goes on over bytes of a page
 * @value: the register before them, KRDMA_DIGEST_SEED at first; its complement is the digest
 * @page: the page
 * @offset: the first byte in it
 * @len: bytes
 * @arrived: what is there has come from the other side, or may have
 *
 * Context: process.
 * Return: the register behind them
 */
u32 krdma_digest_page(u32 value, struct page *page, u32 offset, u32 len, bool arrived)
{
	u8 *at = kmap_local_page(page);

	if (arrived)
		krdma_fault_flip(at + offset, len);
	value = crc32c(value, at + offset, len);
	kunmap_local(at);
	return value;
}
