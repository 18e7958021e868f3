/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Operations of krdma_mover in the submission queue of io_uring
 *
 * For programs that use liburing; libkrdma itself does not use it. The ring needs IORING_SETUP_SQE128: an operation fills a queue entry to its end,
 * and io_uring_get_sqe() then gives entries of 128 bytes.
 *
 * The result in the CQE is a negative errno, for which krdma_explain() gets the
 * kernel's error text, or the bytes moved, at most 2^31 - 1; with
 * IORING_SETUP_CQE32, big_cqe[0] has the full number.
 */
#ifndef KRDMA_URING_H
#define KRDMA_URING_H

#include <stddef.h>
#include <string.h>

#include <liburing.h>

#include <krdma/krdma.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * krdma_prep_op() - fill a queue entry with an operation
 * @sqe: the entry, all of it is written: set its flags and user_data afterwards
 * @krdma: the handle; must not be freed while the entry is in use
 * @op: the operation, which is copied; its user_data is for krdma_cancel() only
 */
static inline void krdma_prep_op(struct io_uring_sqe *sqe, const struct krdma *krdma,
				 const struct krdma_op *op)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = krdma_fd(krdma);
	sqe->cmd_op = KRDMA_URING_OP;
	/* From the last 16 bytes of the first half to the end of the second. */
	memcpy((char *)sqe + offsetof(struct io_uring_sqe, cmd), op, sizeof(*op));
}

/**
 * krdma_prep_op_fixed() - the same, with local memory that io_uring has registered
 * @sqe: the entry
 * @krdma: the handle
 * @op: the operation. Its @addr is an address in that buffer, not an offset; neither
 *	krdma_op_buffer() nor krdma_op_vector() can be combined with it.
 * @buf_index: number of the buffer, as in io_uring_prep_read_fixed()
 */
static inline void krdma_prep_op_fixed(struct io_uring_sqe *sqe, const struct krdma *krdma,
				       const struct krdma_op *op, unsigned int buf_index)
{
	krdma_prep_op(sqe, krdma, op);
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	sqe->buf_index = (__u16)buf_index;
}

#ifdef __cplusplus
}
#endif

#endif /* KRDMA_URING_H */
