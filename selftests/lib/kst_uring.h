/* SPDX-License-Identifier: GPL-2.0 */
/* Operations by io_uring, for tests that are linked with liburing. */
#ifndef KST_URING_H
#define KST_URING_H

#include <liburing.h>
#include <string.h>

#include "kst.h"

/* Not in the header of older liburing. */
#define KST_URING_FIXED 1U

/* With @memory as its one registered buffer. */
static inline bool kst_ring_open(struct io_uring *ring, unsigned int entries, unsigned int flags,
				 void *memory, size_t length)
{
	struct iovec iov = { memory, length };
	int rc = io_uring_queue_init(entries, ring, IORING_SETUP_SQE128 | flags);

	if (!rc) {
		rc = io_uring_register_buffers(ring, &iov, 1);
		if (rc)
			io_uring_queue_exit(ring);
	}
	if (rc)
		kst_diag("ring: %s", strerror(-rc));
	return !rc;
}

/* What an operation may take where time is not the subject; where there is no cancel it is less. */
static inline __u64 kst_ring_timeout(int fd, __u64 timeout)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	if (timeout != KST_TIMEOUT_NS || kst_call(fd, KRDMA_IOC_QUERY, &query) ||
	    (query.features & KRDMA_FEATURE_CANCEL))
		return timeout;
	return KRDMA_URING_TIMEOUT_NS;
}

static inline struct io_uring_sqe *
kst_ring_op(struct io_uring *ring, int fd, const struct krdma_op *op, __u64 user_data, bool fixed)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		kst_bail("no SQE");
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	/* Behind the head: cmd_op, flags and buffer are where other commands have theirs. */
	sqe->off = KRDMA_URING_OP;
	sqe->rw_flags = fixed ? KST_URING_FIXED : 0;
	sqe->buf_index = 0;
	sqe->user_data = user_data;
	memcpy((char *)sqe + 48, op, sizeof(*op));
	((struct krdma_op *)((char *)sqe + 48))->timeout_ns = kst_ring_timeout(fd, op->timeout_ns);
	return sqe;
}

/* The next completion; a signal does not matter. */
static inline int kst_ring_wait(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	int rc;

	do {
		rc = io_uring_wait_cqe(ring, cqe);
	} while (rc == -EINTR);
	return rc;
}

#endif /* KST_URING_H */
