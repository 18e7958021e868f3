// SPDX-License-Identifier: GPL-2.0
/* krdma bench by io_uring. */
#include <errno.h>
#include <string.h>

#include <krdma/uring.h>

#include "cli.h"

static struct {
	struct krdma *krdma;
	struct io_uring ring;
	bool fixed; /* the memory is registered, as buffer 0 */
} engine;

static int uring_open(struct krdma *krdma, void *memory, size_t length, unsigned int depth)
{
	const struct iovec vec = { .iov_base = memory, .iov_len = length };
	struct krdma_ioc_query query = { .size = sizeof(query) };
	char text[SIZE_TEXT];
	int rc;

	engine.krdma = krdma;
	engine.fixed = memory;
	if (krdma_query(krdma, &query))
		return fail_krdma();
	if (!(query.features & KRDMA_FEATURE_URING))
		return fail(EOPNOTSUPP,
			    "the module does not know io_uring, or the kernel has none");
	rc = io_uring_queue_init(depth, &engine.ring, IORING_SETUP_SQE128);
	if (rc)
		return fail(-rc, "cannot make a ring of io_uring for %u operations: %s%s", depth,
			    strerror(-rc),
			    rc == -EPERM ? ": see /proc/sys/kernel/io_uring_disabled" : "");
	rc = engine.fixed ? io_uring_register_buffers(&engine.ring, &vec, 1) : 0;
	if (rc)
		return fail(-rc, "io_uring can't register a buffer of %s: %s",
			    size_text(length, text), strerror(-rc));
	return DONE;
}

static void uring_place(struct krdma_op *op, char *where)
{
	op->addr = (uintptr_t)where;
}

static int uring_failed(int rc)
{
	return fail(-rc, "io_uring: %s", strerror(-rc));
}

/* Fills the queue; uring_reap() hands it over and waits, in one call. */
static int uring_submit(const struct krdma_op *ops, unsigned int count)
{
	struct io_uring_sqe *sqe;
	unsigned int i;
	int rc;

	/* What is in the queue already was a batch of its own. */
	if (io_uring_sq_ready(&engine.ring)) {
		rc = io_uring_submit(&engine.ring);
		if (rc < 0)
			return uring_failed(rc);
	}
	for (i = 0; i < count; i++) {
		sqe = io_uring_get_sqe(&engine.ring);
		if (!sqe)
			return fail(EBUSY, "io_uring: the queue is full");
		if (engine.fixed)
			krdma_prep_op_fixed(sqe, engine.krdma, &ops[i], 0);
		else
			krdma_prep_op(sqe, engine.krdma, &ops[i]);
		sqe->user_data = ops[i].user_data;
	}
	return DONE;
}

static int uring_reap(uint64_t *ended, unsigned int max)
{
	unsigned int head, count = 0;
	struct io_uring_cqe *cqe;
	int rc;

	do {
		rc = io_uring_submit_and_wait(&engine.ring, 1);
	} while (rc == -EINTR);
	if (rc < 0) {
		uring_failed(rc);
		return -1;
	}
	io_uring_for_each_cqe(&engine.ring, head, cqe)
	{
		if (cqe->res < 0) {
			krdma_explain(engine.krdma, -cqe->res);
			fail_krdma();
			return -1;
		}
		if (count == max)
			break;
		ended[count++] = cqe->user_data;
	}
	io_uring_cq_advance(&engine.ring, count);
	return (int)count;
}

static void uring_close(void)
{
	io_uring_queue_exit(&engine.ring);
}

const struct engine engine_uring = {
	.name = "uring",
	.open = uring_open,
	.place = uring_place,
	.submit = uring_submit,
	.reap = uring_reap,
	.close = uring_close,
};
