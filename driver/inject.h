/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults that tests can have, on a kernel with fault injection (inject.c): each allocation,
 * registration, post and call of rdma_cm stands in krdma_inject() where it is made, so that it
 * can be made to fail.
 */
#ifndef KRDMA_INJECT_H
#define KRDMA_INJECT_H

#include <linux/list.h>
#include <linux/types.h>

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
struct ib_qp;
struct ib_send_wr;

/* A call that can be made to fail. */
struct krdma_fault_point {
	struct list_head node; /* when it has been reached */
	const char *file;
	const char *call; /* as it is written: the function, and its arguments */
	const char *in;   /* function */
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

/* Shall this call fail? */
#define krdma_fault(_call)                                                                \
	({                                                                                \
		static struct krdma_fault_point __point = {                               \
			.file = __FILE__, .line = __LINE__, .call = _call, .in = __func__ \
		};                                                                        \
		krdma_fault_fails(&__point);                                              \
	})

/*
 * The value of @_call, or without it @_value where it shall fail. Software devices, which tests
 * have, map nothing that would have to be unmapped then.
 */
#define krdma_inject(_call, _value) (krdma_fault(#_call) ? (_value) : (_call))
/* ib_post_send(), where one of a chain may be refused behind others. */
#define krdma_inject_post(_qp, _wr, _bad)                                 \
	(krdma_fault("ib_post_send") ? krdma_fault_post(_qp, _wr, _bad) : \
				       ib_post_send(_qp, _wr, _bad))
#else
#define krdma_inject(_call, _value)       (_call)
#define krdma_inject_post(_qp, _wr, _bad) ib_post_send(_qp, _wr, _bad)

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

#endif /* KRDMA_INJECT_H */
