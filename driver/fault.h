/* SPDX-License-Identifier: GPL-2.0 */
/* Faults that tests can have, on a kernel with fault injection: /sys/kernel/debug. */
#ifndef KRDMA_FAULT_H
#define KRDMA_FAULT_H

#include <linux/list.h>
#include <linux/types.h>

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
struct ib_qp;
struct ib_send_wr;

/* A call that can be made to fail. */
struct krdma_fault_point {
	struct list_head node; /* when it has been reached */
	const char *file;
	const char *call;
	const char *in; /* function */
	u32 line;
	bool listed;
	u64 reached;
	u64 failed;
};

void krdma_fault_init(void);
void krdma_fault_exit(void);
void krdma_fault_flip(u8 *at, u32 len);
bool krdma_fault_fails(struct krdma_fault_point *point);
int krdma_fault_post(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
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
