// SPDX-License-Identifier: GPL-2.0
/*
 * Faults that tests can have, on a kernel with fault injection: files in
 * /sys/kernel/debug, Documentation/debugging.rst.
 *
 *	krdma_mover_flip	a bit of the memory that a digest is computed of: between
 *				the wire and the check
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/random.h>

#include "fault.h"
#include "krdma.h"

static DECLARE_FAULT_ATTR(krdma_flip);
static struct dentry *krdma_flip_dir;

/**
 * krdma_fault_init - make the files
 *
 * Without debugfs there are none.
 *
 * Context: process.
 */
void krdma_fault_init(void)
{
	krdma_flip_dir = fault_create_debugfs_attr("krdma_mover_flip", NULL, &krdma_flip);
}

/**
 * krdma_fault_exit - remove them
 *
 * Context: process.
 */
void krdma_fault_exit(void)
{
	debugfs_remove_recursive(krdma_flip_dir);
}

/**
 * krdma_fault_flip - turn a bit over, if asked for
 * @at: memory
 * @len: its bytes, not 0
 *
 * Context: any.
 */
void krdma_fault_flip(u8 *at, u32 len)
{
	u32 bit;

	if (!should_fail(&krdma_flip, 1))
		return;
	bit = get_random_u32() % (len * 8);
	at[bit / 8] ^= 1 << bit % 8;
	krdma_stat_inc(KRDMA_STAT_FLIPS);
}
