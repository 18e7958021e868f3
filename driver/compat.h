/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels. No other file knows about it. */
#ifndef KRDMA_COMPAT_H
#define KRDMA_COMPAT_H

#include <linux/mm.h>

static inline long krdma_pin_user_pages(unsigned long start, unsigned long n, unsigned int flags,
					struct page **pages)
{
	return pin_user_pages(start, n, flags, pages, NULL);
}

#endif /* KRDMA_COMPAT_H */
