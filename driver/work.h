/* SPDX-License-Identifier: GPL-2.0 */
/* Queues of work, main.c. None of them waits for a peer: session->wq is for that. */
#ifndef KRDMA_WORK_H
#define KRDMA_WORK_H

#include <linux/workqueue.h>

#define KRDMA_VERSION "0.1"

extern u64 krdma_incarnation;
extern struct workqueue_struct *krdma_wq;       /* what was received */
extern struct workqueue_struct *krdma_rpc_wq;   /* requests */
extern struct workqueue_struct *krdma_count_wq; /* digests of this host's memory */
extern struct workqueue_struct *krdma_tick_wq;  /* what time does */
extern struct workqueue_struct *krdma_down_wq;  /* the end of sessions and channels */
extern struct workqueue_struct *krdma_leave_wq; /* the same, of those that peers have made */
extern struct workqueue_struct *krdma_local_wq; /* what waits for memory, and no transfer for it */
extern struct workqueue_struct *krdma_close_wq; /* the end of files */
extern struct workqueue_struct *krdma_event_wq; /* code of other modules */

#endif /* KRDMA_WORK_H */
