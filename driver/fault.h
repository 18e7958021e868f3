/* SPDX-License-Identifier: GPL-2.0 */
/* Faults that tests can have, on a kernel with fault injection: /sys/kernel/debug. */
#ifndef KRDMA_FAULT_H
#define KRDMA_FAULT_H

#include <linux/types.h>

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
void krdma_fault_init(void);
void krdma_fault_exit(void);
void krdma_fault_flip(u8 *at, u32 len);
#else
static inline void krdma_fault_init(void)
{
}

static inline void krdma_fault_exit(void)
{
}

static inline void krdma_fault_flip(u8 *at, u32 len)
{
}
#endif

#endif /* KRDMA_FAULT_H */
