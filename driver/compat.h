/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels. No other file knows about it. */
#ifndef KRDMA_COMPAT_H
#define KRDMA_COMPAT_H

#include <linux/mm.h>

#include <compat_config.h>

static inline long krdma_pin_user_pages(unsigned long start, unsigned long n, unsigned int flags,
					struct page **pages)
{
#ifdef HAVE_PIN_USER_PAGES_WITHOUT_VMAS
	return pin_user_pages(start, n, flags, pages);
#else
	return pin_user_pages(start, n, flags, pages, NULL);
#endif
}

#endif /* KRDMA_COMPAT_H */
