// SPDX-License-Identifier: GPL-2.0
/*
 * Exports of persistent memory: what a peer has written is in the caches of this host's processors,
 * or on the way there, until these are written back.
 *
 * What the peer's device has put into memory before the request came is seen by the processors:
 * the request came behind it, on the same queue pair.
 */
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/page-flags.h>

#include "target/grant.h"

/* Pages that are written back without a pause. */
#define KRDMA_FLUSH_PAGES 64

/**
 * krdma_flush_grant - make a range of an export durable
 * @grant: grant of an export with KRDMA_EXPORT_DURABLE
 * @offset: first byte
 * @length: bytes, inside the export
 *
 * Context: process; the service of the session.
 * Return: 0; -ENOTCONN or -ESTALE when it is of no use any more; or -EIO: memory is broken
 */
int krdma_flush_grant(const struct krdma_grant *grant, u64 offset, u64 length)
{
	struct page **pages = grant->export->mem->pages;
	u64 flushed = 0;
	u32 i, len;
	int rc = 0;

	while (length && !rc) {
		if (krdma_session_over(grant->sess))
			return -ENOTCONN;
		if (READ_ONCE(grant->revoke))
			return -ESTALE;
		/* For few at a time. */
		down(&krdma_service_sem);
		for (i = 0; length && i < KRDMA_FLUSH_PAGES; i++, offset += len, length -= len) {
			struct page *page = pages[offset >> PAGE_SHIFT];

			len = krdma_page_rest(offset, length);
			/* Its bytes are lost. */
			if (PageHWPoison(page)) {
				rc = -EIO;
				break;
			}
			arch_wb_cache_pmem(page_address(page) + offset_in_page(offset), len);
			flushed += len;
		}
		up(&krdma_service_sem);
		cond_resched();
	}
	/* ORDER: before the reply. */
	pmem_wmb();
	krdma_stat_add(KRDMA_STAT_FLUSHED_BYTES, flushed);
	return rc;
}
