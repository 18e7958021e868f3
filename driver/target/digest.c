// SPDX-License-Identifier: GPL-2.0
/*
 * Digests of a range of an export, for a peer. The service of a session computes one piece after
 * the other, and few services do so at a time.
 */
#include <linux/cpumask.h>
#include <linux/page-flags.h>
#include <linux/semaphore.h>

#include "target/grant.h"

/* Pages that are gone through at a time; of a file, that are held. */
#define KRDMA_DIGEST_PAGES 16

/* Services that keep a processor busy, with digests or flushes. */
struct semaphore krdma_service_sem;

/**
 * krdma_digest_init - how many services may compute at a time
 *
 * Context: process.
 */
void krdma_digest_init(void)
{
	sema_init(&krdma_service_sem, max(1U, num_online_cpus() / 4));
}

/**
 * krdma_digest_grant - digest of a range of an export
 * @grant: grant of it, with the right to read
 * @offset: first byte
 * @length: bytes, inside the export, KRDMA_WIRE_DIGEST_MAX at most
 * @value: in: the register before the first byte; out: behind the last, if 0 is returned
 *
 * Context: process; the service of the session.
 * Return: 0; -ENOTCONN or -ESTALE when it is of no use any more; or another negative
 *	errno if the memory can't be had
 */
int krdma_digest_grant(struct krdma_grant *grant, u64 offset, u32 length, u32 *value)
{
	struct krdma_export *export = grant->export;
	struct page **own = export->mem ? export->mem->pages : export->pages;
	struct page *held[KRDMA_DIGEST_PAGES], **pages = held;
	bool written = grant->rights & KRDMA_RIGHT_WRITE;
	int rc = 0;
	u32 i, n, len;

	while (length && !rc) {
		if (krdma_session_over(grant->sess))
			return -ENOTCONN;
		if (READ_ONCE(grant->revoke))
			return -ESTALE;
		n = min_t(u64, krdma_pages(offset_in_page(offset), length), KRDMA_DIGEST_PAGES);
		if (own)
			pages = own + (offset >> PAGE_SHIFT);
		else
			rc = krdma_backing_get(export, offset >> PAGE_SHIFT, n, held,
					       &grant->error);
		if (rc)
			break;
		/* For few at a time, and never while memory is waited for. */
		down(&krdma_service_sem);
		for (i = 0; i < n && !rc; i++, offset += len, length -= len) {
			len = krdma_page_rest(offset, length);
			/* A processor that reads it may not survive that. */
			if (PageHWPoison(pages[i]))
				rc = -EIO;
			else
				*value = krdma_digest_page(*value, pages[i], offset_in_page(offset),
							   len, written);
		}
		up(&krdma_service_sem);
		cond_resched();
		if (!own)
			krdma_backing_put(held, n);
	}
	return rc;
}
