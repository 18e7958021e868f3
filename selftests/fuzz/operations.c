// SPDX-License-Identifier: GPL-2.0
/*
 * Operations, and SUBMIT.
 */
#include <string.h>

#include "fuzz.h"

static __u64 any_timeout(void)
{
	static const __u64 short_ones[] = { 1, 20000, 200000, 2000000 };
	uint8_t which = byte();

	if (which < 192)
		return 2000000000ULL * slow;
	return which < 240 ? short_ones[which % 4] :
	       which < 250 ? 0 :
			     (__u64)any_word() << 32 | any_word();
}

static __u16 any_vector(struct krdma_vec *vecs, bool local, __u64 total)
{
	__u16 n = 1 + byte() % VECTOR_MAX, i;
	__u64 each = total / n;

	for (i = 0; i < n; i++) {
		vecs[i].addr = local ? any_pointer() : byte() * 100;
		vecs[i].length = rarely(16) ? any_length() : i ? each : total - each * (n - 1);
	}
	return n;
}

void any_op(struct file *f, struct krdma_op *op, struct area *area, unsigned int i)
{
	unsigned int changes;
	uint8_t shape = byte();

	memset(op, 0, sizeof(*op));
	op->opcode = 1 + shape % 6;
	changes = shape / 6 >= 32 ? shape / 6 % 8 % 3 : 0;
	op->region = any_id(f, KIND_REGION);
	op->user_data = byte() % 8;
	op->offset = byte() * 128;
	op->length = any_length();
	op->timeout_ns = any_timeout();
	shape = byte();
	if (shape & 1)
		op->flags |= KRDMA_OPF_AFTER;
	if ((shape & 6) == 6 && op->opcode == KRDMA_OP_READ)
		op->flags |= KRDMA_OPF_VERIFY;
	if (op->opcode == KRDMA_OP_WRITE)
		op->flags |= (shape & 14) == 14 ? KRDMA_OPF_MESSAGE :
			     (shape & 14) == 12 ? KRDMA_OPF_UNPLACED :
			     (shape & 14) == 10 ? KRDMA_OPF_VERIFY :
						  0;
	switch (op->opcode) {
	case KRDMA_OP_SEND:
		op->offset = 0;
		op->length %= KRDMA_MESSAGE_MAX + 2;
		op->operand = byte();
		break;
	case KRDMA_OP_DIGEST:
		/* Or a flush, which has no local memory. */
		if (shape & 0x80) {
			op->opcode = KRDMA_OP_FLUSH;
			op->addr = 0;
		}
		break;
	case KRDMA_OP_FETCH_ADD:
	case KRDMA_OP_CMP_SWAP:
		op->length = 8;
		op->operand = byte();
		op->compare = op->opcode == KRDMA_OP_CMP_SWAP ? byte() : 0;
		break;
	}
	if ((shape & 0x70) == 0x70) {
		op->flags |= KRDMA_OPF_BUFFER;
		op->buffer = any_id(f, KIND_BUFFER);
		op->addr = byte() * 64;
	}
	if ((shape & 0x70) == 0x60) {
		op->flags |= KRDMA_OPF_VECTOR;
		op->naddr = any_vector(area->vecs[2 * i], true, op->length);
	}
	if ((shape & 0x70) == 0x50) {
		op->flags |= KRDMA_OPF_RANGES;
		op->nranges = any_vector(area->vecs[2 * i + 1], false, op->length);
	}
	for (; changes; changes--) {
		__u32 *at = (__u32 *)op + byte() % (sizeof(*op) / 4);

		*at = byte() & 1 ? *at ^ 1U << byte() % 32 : any_word();
	}
	if (!(op->flags & KRDMA_OPF_BUFFER))
		op->addr = op->flags & KRDMA_OPF_VECTOR && shape & 0x80 ?
				   (uintptr_t)area->vecs[2 * i] :
				   any_pointer();
	else if (op->flags & KRDMA_OPF_VECTOR)
		op->addr = (uintptr_t)area->vecs[2 * i];
	if (op->flags & KRDMA_OPF_RANGES)
		op->offset = shape & 0x80 ? (uintptr_t)area->vecs[2 * i + 1] : any_pointer();
	/* There may be nobody who makes room: that must not take long. */
	if (op->opcode == KRDMA_OP_SEND || op->flags & KRDMA_OPF_MESSAGE) {
		op->timeout_ns = 1 + op->timeout_ns % (20000000ULL * slow);
		live.message_sent = true;
	}
}

void step_submit(enum step step)
{
	static const __u32 strides[] = { sizeof(struct krdma_op), 96, 128, STRIDE_MAX };
	struct head head = any_head();
	uint8_t shape = byte();
	struct krdma_ioc_submit *cmd;
	union call c = { 0 };
	bool async = shape & 1;
	__u32 i, n, stride;

	head.file = who_has(head.file, KIND_REGION);
	cmd = &c.submit;
	cmd->flags = async ? KRDMA_SUBMIT_ASYNC : 0;
	cmd->count = 1 + (shape >> 1) % BATCH_MAX % 4;
	cmd->op_stride = strides[(shape >> 4) % 8 < 6 ? 0 : (shape >> 4) % 4];
	cmd->completion_stride = async ? 0 : 32 + (shape >> 7) * 8;
	n = cmd->count;
	stride = cmd->op_stride;
	memset(head.area->ops, 0, sizeof(head.area->ops));
	for (i = 0; i < n; i++)
		any_op(head.file, (struct krdma_op *)(head.area->ops + i * stride), head.area, i);
	change(&head, step, &c);
	cmd->ops = rarely(8) ? any_pointer() : (uintptr_t)head.area->ops;
	if (!async || rarely(8))
		cmd->completions = any_pointer();
	go(&head, step, &c);
}
