// SPDX-License-Identifier: GPL-2.0
/* krdma bench by ioctl(2) and read(2). */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"

static struct {
	struct krdma *krdma;
	char *memory;
	uint32_t buffer; /* 0: none */
	unsigned int depth;
	struct krdma_completion *completions;
} engine;

static int ioctl_open(struct krdma *krdma, void *memory, size_t length, unsigned int depth)
{
	engine.krdma = krdma;
	engine.memory = memory;
	engine.depth = depth;
	engine.completions = calloc(depth, sizeof(*engine.completions));
	if (!engine.completions)
		return fail(ENOMEM, "out of memory");
	if (memory &&
	    krdma_register_buffer(krdma, memory, length, KRDMA_BUFFER_WRITABLE, &engine.buffer))
		return fail_krdma();
	return DONE;
}

static void ioctl_place(struct krdma_op *op, char *where)
{
	if (engine.buffer)
		krdma_op_buffer(op, engine.buffer, (uint64_t)(where - engine.memory));
	else
		op->addr = (uintptr_t)where;
}

static int ioctl_submit(const struct krdma_op *ops, unsigned int count)
{
	int taken;

	/* A single operation at a time is started and awaited in one call, as a program would do. */
	if (engine.depth == 1)
		return krdma_submit(engine.krdma, ops, engine.completions, count) ? fail_krdma() :
										    DONE;
	while (count) {
		taken = krdma_submit_async(engine.krdma, ops, count);
		if (taken == -EINTR)
			continue;
		if (taken < 0)
			return fail_krdma();
		ops += taken;
		count -= (unsigned int)taken;
	}
	return DONE;
}

static int ioctl_reap(uint64_t *ended, unsigned int max)
{
	int count = 1, i;

	if (engine.depth > 1) {
		do {
			count = krdma_reap(engine.krdma, engine.completions, max);
		} while (count == -EINTR);
	}
	if (count <= 0) {
		if (count)
			fail_krdma();
		else
			fail(EIO, "the module has lost operations");
		return -1;
	}
	for (i = 0; i < count; i++) {
		if (engine.completions[i].status) {
			fail_krdma();
			return -1;
		}
		ended[i] = engine.completions[i].user_data;
	}
	return count;
}

static void ioctl_close(void)
{
	if (engine.buffer)
		krdma_destroy(engine.krdma, engine.buffer);
	free(engine.completions);
}

const struct engine engine_ioctl = {
	.name = "ioctl",
	.open = ioctl_open,
	.place = ioctl_place,
	.submit = ioctl_submit,
	.reap = ioctl_reap,
	.close = ioctl_close,
};
