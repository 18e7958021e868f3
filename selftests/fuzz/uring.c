// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring.
 */
#include <errno.h>
#include <poll.h>

#include "fuzz.h"
#include "kst_uring.h"

#define RING_ENTRIES 16

static struct io_uring ring, short_ring;
static bool have_ring, have_short_ring;
static unsigned int ring_flying;
/* Or reads, for which io_uring polls: they may wait for what never comes. */
static bool ring_polls;
/*
 * One that waits for those before it: in Linux 6.12 for ever, if one behind it is refused
 * when it is read (req_need_defer counts that completion as well).
 */
static bool ring_drains;

bool ring_waits(void)
{
	return ring_polls;
}

static bool ring_open(void)
{
	if (!have_ring)
		have_ring = kst_ring_open(&ring, RING_ENTRIES, IORING_SETUP_SUBMIT_ALL, fixed,
					  FIXED_BYTES);
	return have_ring;
}

bool ring_begin(void)
{
	have_short_ring = !io_uring_queue_init(4, &short_ring, 0);
	return ring_open();
}

static void ring_cancel(struct io_uring_sqe *sqe)
{
	io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
	sqe->user_data = STEP_URING_OTHER;
}

/* Its completion is not counted among those that are waited for. */
#define RING_CANCEL STEPS

static void ring_cancel_all(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	ring_cancel(sqe);
	sqe->user_data = RING_CANCEL;
	io_uring_submit(&ring);
}

static void ring_flush(bool wait)
{
	struct __kernel_timespec soon = { .tv_nsec = 10000000 };
	struct io_uring_cqe *cqe;
	int rc;

	if (!ring_flying)
		return;
	io_uring_submit(&ring);
	if (wait && ring_polls)
		ring_cancel_all();
	while (ring_flying) {
		rc = !wait      ? io_uring_peek_cqe(&ring, &cqe) :
		     ring_polls ? io_uring_wait_cqe_timeout(&ring, &cqe, &soon) :
				  kst_ring_wait(&ring, &cqe);
		/* Some begin only when one before them has ended. */
		if (rc == -ETIME)
			ring_cancel_all();
		if (rc == -ETIME || rc == -EINTR)
			continue;
		if (rc)
			break;
		if (cqe->user_data != RING_CANCEL) {
			result(cqe->user_data, cqe->res);
			ring_flying--;
		}
		io_uring_cqe_seen(&ring, cqe);
	}
	ring_polls = ring_polls && ring_flying;
	ring_drains = ring_drains && ring_flying;
}

void step_uring_flush(enum step step)
{
	(void)step;
	ring_flush(byte() & 1);
}

/* Room for one more. */
static void ring_room(void)
{
	if (ring_flying == RING_ENTRIES)
		ring_flush(true);
	ring_flying++;
}

void step_uring_op(enum step step)
{
	struct file *f = &files[byte() % FILES];
	bool from_fixed = byte() & 1;
	struct io_uring_sqe *sqe;
	struct krdma_op op;

	if (!ring_open())
		return;
	f = who_has(f, KIND_REGION);
	any_op(f, &op, areas[0], ring_flying % BATCH_MAX);
	if (from_fixed && !(op.flags & (KRDMA_OPF_BUFFER | KRDMA_OPF_VECTOR)))
		op.addr = (uintptr_t)fixed + byte() * 256;
	if (have_short_ring && rarely(4)) {
		/* An SQE of 64 bytes has no room for an operation: it is refused at once. */
		struct io_uring_cqe *cqe;

		sqe = io_uring_get_sqe(&short_ring);
		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, f->fd, NULL, 0, 0);
		sqe->off = KRDMA_URING_OP;
		io_uring_submit(&short_ring);
		if (!kst_ring_wait(&short_ring, &cqe)) {
			result(step, cqe->res);
			io_uring_cqe_seen(&short_ring, cqe);
		}
		return;
	}
	ring_room();
	sqe = kst_ring_op(&ring, f->fd, &op, step, from_fixed);
	switch (byte()) {
	case 255:
		sqe->off = KRDMA_IOC_QUERY;
		break;
	case 254:
		if (!ring_drains)
			sqe->rw_flags = word();
		break;
	case 253:
		if (!ring_drains)
			sqe->buf_index = byte();
		break;
	case 252:
		sqe->flags |= IOSQE_ASYNC;
		break;
	case 251:
		sqe->flags |= IOSQE_IO_LINK;
		break;
	case 250:
		/* To cancel what it waits for would have to wait for it, too. */
		if (!ring_polls) {
			sqe->flags |= IOSQE_IO_DRAIN;
			ring_drains = true;
		}
		break;
	}
}

void step_uring_other(enum step step)
{
	struct file *f = &files[byte() % FILES];
	struct io_uring_sqe *sqe;
	uint8_t what = byte();

	if (!ring_open())
		return;
	open_file(f);
	ring_room();
	sqe = io_uring_get_sqe(&ring);
	switch (what % 4) {
	case 0:
		ring_cancel(sqe);
		break;
	case 1:
		io_uring_prep_poll_add(sqe, what & 4 ? *any_queue() : f->fd,
				       what & 8 ? POLLIN : POLLOUT);
		break;
	case 2:
		io_uring_prep_read(sqe, *any_queue(), (void *)(uintptr_t)any_pointer(), 512, 0);
		break;
	case 3:
		io_uring_prep_read(sqe, f->fd, (void *)(uintptr_t)any_pointer(), 128, 0);
		if (f->live)
			live.counted = false;
		break;
	}
	sqe->user_data = step;
	ring_polls = true;
}

/* With what is under way in it. */
void step_uring_end(enum step step)
{
	if (!have_ring || costly++)
		return;
	io_uring_submit(&ring);
	io_uring_queue_exit(&ring);
	result(step, 0);
	have_ring = ring_polls = ring_drains = false;
	ring_flying = 0;
}

void ring_reset(void)
{
	unsigned int i;

	if (!ring_flying)
		return;
	io_uring_submit(&ring);
	for (i = 0; i < FILES; i++)
		if (files[i].fd >= 0)
			kst_cancel(files[i].fd, 0, KRDMA_CANCEL_ALL);
	ring_flush(true);
}
