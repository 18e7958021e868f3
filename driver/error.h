/* SPDX-License-Identifier: GPL-2.0 */
/* Why a call failed: the sentence of KRDMA_IOC_LAST_ERROR. */
#ifndef KRDMA_ERROR_H
#define KRDMA_ERROR_H

#include <linux/compiler.h>

struct krdma_error {
	int err;
	char text[240];
};

/* No sentence so far, and nobody looks at the text. */
static inline void krdma_error_init(struct krdma_error *error)
{
	error->err = 0;
}

__printf(3, 4) int krdma_explain(struct krdma_error *error, int err, const char *fmt, ...);

#endif /* KRDMA_ERROR_H */
