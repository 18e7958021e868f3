/* SPDX-License-Identifier: GPL-2.0 */
/* What operations have and need, by their opcodes and flags. */
#ifndef KRDMA_OPCODE_H
#define KRDMA_OPCODE_H

#include <linux/types.h>
#include <uapi/linux/krdma_mover.h>

/* The local memory of an operation that tells a number. */
#define KRDMA_NUMBER_BYTES 8

/**
 * krdma_opcode_atomic - is it an atomic operation?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it is.
 */
static inline bool krdma_opcode_atomic(u8 opcode)
{
	return opcode == KRDMA_OP_FETCH_ADD || opcode == KRDMA_OP_CMP_SWAP;
}

/**
 * krdma_opcode_number - does an operation put a number into local memory?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it does: KRDMA_NUMBER_BYTES, at a multiple of that.
 */
static inline bool krdma_opcode_number(u8 opcode)
{
	return opcode >= KRDMA_OP_FETCH_ADD && opcode <= KRDMA_OP_DIGEST;
}

/**
 * krdma_opcode_asks - is an operation a request to the target's kernel, and nothing else?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it is: a digest or a flush.
 */
static inline bool krdma_opcode_asks(u8 opcode)
{
	return opcode >= KRDMA_OP_DIGEST;
}

/**
 * krdma_opcode_data - is it a READ, a WRITE or an atomic operation?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it is.
 */
static inline bool krdma_opcode_data(u8 opcode)
{
	const u32 data = 1 << KRDMA_OP_READ | 1 << KRDMA_OP_WRITE | 1 << KRDMA_OP_FETCH_ADD |
			 1 << KRDMA_OP_CMP_SWAP;

	return data >> opcode & 1;
}

/**
 * krdma_opcode_fills - does an operation put bytes into local memory?
 * @opcode: enum krdma_opcode
 *
 * Return: true if it does.
 */
static inline bool krdma_opcode_fills(u8 opcode)
{
	return opcode == KRDMA_OP_READ || krdma_opcode_number(opcode);
}

/**
 * krdma_opcode_right - the right that an operation needs
 * @opcode: any byte
 *
 * Return: KRDMA_RIGHT_*, 0 if there is no such operation.
 */
static inline u32 krdma_opcode_right(u8 opcode)
{
	/* Eight bits for each: no branches, and no table to look outside of. */
	const u64 rights = (u64)KRDMA_RIGHT_READ << 8 * KRDMA_OP_READ |
			   (u64)KRDMA_RIGHT_WRITE << 8 * KRDMA_OP_WRITE |
			   (u64)KRDMA_RIGHT_MESSAGE << 8 * KRDMA_OP_SEND |
			   (u64)KRDMA_RIGHT_ATOMIC << 8 * KRDMA_OP_FETCH_ADD |
			   (u64)KRDMA_RIGHT_ATOMIC << 8 * KRDMA_OP_CMP_SWAP |
			   (u64)KRDMA_RIGHT_READ << 8 * KRDMA_OP_DIGEST |
			   (u64)KRDMA_RIGHT_DURABLE << 8 * KRDMA_OP_FLUSH;

	return opcode < 8 ? rights >> 8 * opcode & 0xff : 0;
}

/**
 * krdma_flags_right - the rights that flags of an operation need beside its own
 * @flags: KRDMA_OPF_*
 *
 * Return: KRDMA_RIGHT_*
 */
static inline u32 krdma_flags_right(u32 flags)
{
	return (flags & (KRDMA_OPF_VERIFY | KRDMA_OPF_PLACED) ? KRDMA_RIGHT_READ : 0) |
	       (flags & KRDMA_OPF_MESSAGE ? KRDMA_RIGHT_MESSAGE : 0);
}

#endif /* KRDMA_OPCODE_H */
