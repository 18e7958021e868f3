// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The inline functions of krdma.h, as functions: for foreign languages and calls by pointer. */
#include <krdma/krdma.h>

extern inline __typeof__(krdma_connect_flags) krdma_connect_flags;
extern inline __typeof__(krdma_event_next) krdma_event_next;
extern inline __typeof__(krdma_message_data) krdma_message_data;
extern inline __typeof__(krdma_message_next) krdma_message_next;
extern inline __typeof__(krdma_op_buffer) krdma_op_buffer;
extern inline __typeof__(krdma_op_cmp_swap) krdma_op_cmp_swap;
extern inline __typeof__(krdma_op_digest) krdma_op_digest;
extern inline __typeof__(krdma_op_fetch_add) krdma_op_fetch_add;
extern inline __typeof__(krdma_op_flush) krdma_op_flush;
extern inline __typeof__(krdma_op_message) krdma_op_message;
extern inline __typeof__(krdma_op_placed) krdma_op_placed;
extern inline __typeof__(krdma_op_ranges) krdma_op_ranges;
extern inline __typeof__(krdma_op_read) krdma_op_read;
extern inline __typeof__(krdma_op_send) krdma_op_send;
extern inline __typeof__(krdma_op_vector) krdma_op_vector;
extern inline __typeof__(krdma_op_verify) krdma_op_verify;
extern inline __typeof__(krdma_op_write) krdma_op_write;
