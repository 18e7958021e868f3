// SPDX-License-Identifier: GPL-2.0
/* io_uring: a ring in plain memory, of which entries end when they are submitted. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <liburing.h>

#include "fake.h"

static struct {
	unsigned int khead, ktail, cq_head, cq_tail;
	struct iovec fixed;
} uring;

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	unsigned size = 1;

	if (getenv("KRDMA_FAKE_NO_URING"))
		return -EPERM;
	while (size < entries)
		size *= 2;
	memset(ring, 0, sizeof(*ring));
	memset(&uring, 0, sizeof(uring));
	ring->flags = flags;
	ring->sq.khead = &uring.khead;
	ring->sq.ktail = &uring.ktail;
	ring->sq.ring_entries = size;
	ring->sq.ring_mask = size - 1;
	ring->sq.sqes = calloc(size, (flags & IORING_SETUP_SQE128) ? 128 : 64);
	ring->cq.khead = &uring.cq_head;
	ring->cq.ktail = &uring.cq_tail;
	ring->cq.ring_entries = 2 * size;
	ring->cq.ring_mask = 2 * size - 1;
	ring->cq.cqes = calloc(2 * (size_t)size, sizeof(ring->cq.cqes[0]));
	return ring->sq.sqes && ring->cq.cqes ? 0 : -ENOMEM;
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs, unsigned count)
{
	(void)ring;
	if (count != 1)
		return -EINVAL;
	uring.fixed = *iovecs;
	say("uring buffer %zu\n", iovecs->iov_len);
	return 0;
}

static int uring_op(const struct io_uring_sqe *sqe)
{
	struct krdma_completion completion;
	struct krdma_op op;

	if (sqe->opcode != IORING_OP_URING_CMD || sqe->fd != device_fd ||
	    sqe->cmd_op != KRDMA_URING_OP)
		return -EINVAL;
	memcpy(&op, (const char *)sqe + 48, sizeof(op));
	if (sqe->uring_cmd_flags & IORING_URING_CMD_FIXED &&
	    (sqe->buf_index || op.addr < (uintptr_t)uring.fixed.iov_base ||
	     op.addr + op.length > (uintptr_t)uring.fixed.iov_base + uring.fixed.iov_len))
		return -EFAULT;
	if (check_op(&op))
		return -errno;
	run_op(&op, &completion);
	return completion.status ? completion.status : (int)completion.result;
}

int io_uring_submit(struct io_uring *ring)
{
	const unsigned int shift = (ring->flags & IORING_SETUP_SQE128) ? 1 : 0;
	const unsigned int count = ring->sq.sqe_tail - ring->sq.sqe_head;

	pthread_mutex_lock(&lock);
	for (; ring->sq.sqe_head != ring->sq.sqe_tail; ring->sq.sqe_head++) {
		const struct io_uring_sqe *sqe =
			&ring->sq.sqes[(ring->sq.sqe_head & ring->sq.ring_mask) << shift];
		struct io_uring_cqe *cqe = &ring->cq.cqes[uring.cq_tail & ring->cq.ring_mask];

		*cqe = (struct io_uring_cqe){ .user_data = sqe->user_data, .res = uring_op(sqe) };
		uring.cq_tail++;
	}
	uring.khead = ring->sq.sqe_head;
	count_under_way(uring.cq_tail - uring.cq_head, count);
	pthread_mutex_unlock(&lock);
	return (int)count;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr)
{
	struct timespec delay = op_delay();

	(void)wait_nr;
	nanosleep(&delay, NULL);
	return io_uring_submit(ring);
}

void io_uring_queue_exit(struct io_uring *ring)
{
	free(ring->sq.sqes);
	free(ring->cq.cqes);
}
