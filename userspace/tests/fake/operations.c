// SPDX-License-Identifier: GPL-2.0
/* Operations, and SUBMIT that waits for them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

static unsigned int submits;

static bool op_shall_fail(int *error)
{
	const char *text = getenv("KRDMA_FAKE_FAIL_OP");
	unsigned long n;

	counts.operations++;
	if (!text)
		return false;
	n = strtoul(text, (char **)&text, 10);
	*error = (int)strtol(text + 1, NULL, 10);
	return counts.operations == n;
}

static uint32_t op_right(const struct krdma_op *op)
{
	if (op->opcode == KRDMA_OP_SEND)
		return KRDMA_RIGHT_MESSAGE;
	if (op->opcode == KRDMA_OP_READ || op->opcode == KRDMA_OP_DIGEST)
		return KRDMA_RIGHT_READ;
	if (op->opcode == KRDMA_OP_FLUSH)
		return KRDMA_RIGHT_DURABLE;
	return KRDMA_RIGHT_WRITE | ((op->flags & KRDMA_OPF_MESSAGE) ? KRDMA_RIGHT_MESSAGE : 0);
}

int check_op(const struct krdma_op *op)
{
	const struct object *region = object_get(op->region, REGION);
	const struct object *buffer = object_get(op->buffer, BUFFER);

	if (op->flags & ~(KRDMA_OPF_BUFFER | KRDMA_OPF_VERIFY | KRDMA_OPF_MESSAGE))
		return give(EOPNOTSUPP, "the fake has no such operation");
	if (!region)
		return give(ENOENT, "no region %u", op->region);
	if (op->flags & KRDMA_OPF_BUFFER) {
		if (!buffer || op->addr + op->length > buffer->length)
			return give(ERANGE, "outside of the buffer");
		if (op->opcode == KRDMA_OP_READ && !(buffer->rights & KRDMA_BUFFER_WRITABLE))
			return give(EACCES, "the buffer is not writable");
	}
	if (op_right(op) & ~region->rights)
		return give(EACCES, "the region is %s", lacks(op_right(op) & ~region->rights));
	if (op->opcode == KRDMA_OP_SEND) {
		if (op->length > KRDMA_MESSAGE_MAX || op->offset)
			return give(EINVAL, "the message is too long, or has an offset");
		return 0;
	}
	if (op->offset + op->length > region->length || !op->length)
		return give(ERANGE, "outside of the region");
	return 0;
}

/* What an operation tells as a number. */
static void run_number(const struct object *region, const struct krdma_op *op, uint64_t *to)
{
	const off_t end = (off_t)(op->offset + op->length);
	uint32_t crc = ~0U;
	uint64_t value;
	off_t at;
	uint8_t bytes[65536];
	ssize_t i, n;
	int bit;

	if (op->opcode == KRDMA_OP_DIGEST) {
		for (at = (off_t)op->offset; at < end; at += n) {
			n = end - at < (off_t)sizeof(bytes) ? (ssize_t)(end - at) :
							      (ssize_t)sizeof(bytes);
			if (pread(region->fd, bytes, (size_t)n, at) != n)
				abort();
			for (i = 0; i < n; i++)
				for (crc ^= bytes[i], bit = 0; bit < 8; bit++)
					crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
		}
		*to = (uint32_t)~crc;
		return;
	}
	if (pread(region->fd, to, sizeof(*to), (off_t)op->offset) != sizeof(*to))
		abort();
	value = op->opcode == KRDMA_OP_FETCH_ADD ? *to + op->operand : op->operand;
	if ((op->opcode == KRDMA_OP_FETCH_ADD || *to == op->compare) &&
	    pwrite(region->fd, &value, sizeof(value), (off_t)op->offset) != sizeof(value))
		abort();
}

/* The wire, or an adapter, changes a byte. */
static void flip(const struct object *region, const struct krdma_op *op, char *addr)
{
	const unsigned int most = number("KRDMA_FAKE_FLIP", 0);
	const off_t last = (off_t)(op->offset + op->length - 1);
	char byte;

	if (!most || op->length <= most)
		return;
	if (op->opcode == KRDMA_OP_READ)
		addr[op->length - 1] ^= 1;
	else if (pread(region->fd, &byte, 1, last) != 1 ||
		 pwrite(region->fd, &(char){ (char)(byte ^ 1) }, 1, last) != 1)
		abort();
}

void run_op(const struct krdma_op *op, struct krdma_completion *completion)
{
	const struct object *region = &objects[op->region];
	uint64_t addr = op->addr;
	ssize_t moved;
	int error;

	*completion = (struct krdma_completion){ .user_data = op->user_data };
	if (op->flags & KRDMA_OPF_BUFFER)
		addr += objects[op->buffer].addr;
	if (op_shall_fail(&error)) {
		completion->status = -error;
		give(error, "operation %lu on '%s' failed on purpose", counts.operations,
		     strrchr(region->path, '/') + 1);
		return;
	}
	if (op->flags & KRDMA_OPF_VERIFY)
		say("verify %llu\n", (unsigned long long)op->length);
	if (op->opcode == KRDMA_OP_FLUSH) {
		say("flush %llu at %llu\n", (unsigned long long)op->length,
		    (unsigned long long)op->offset);
		completion->result = op->length;
		return;
	}
	if (op->opcode >= KRDMA_OP_FETCH_ADD) {
		run_number(region, op, (uint64_t *)(uintptr_t)addr);
		completion->result = op->length;
		return;
	}
	if (op->opcode == KRDMA_OP_SEND)
		moved = (ssize_t)op->length;
	else if (op->opcode == KRDMA_OP_READ)
		moved = pread(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	else
		moved = pwrite(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	if (moved != (ssize_t)op->length)
		abort();
	if (op->opcode != KRDMA_OP_SEND)
		flip(region, op, (char *)(uintptr_t)addr);
	if (op->opcode == KRDMA_OP_SEND || op->flags & KRDMA_OPF_MESSAGE) {
		error = run_message(region, op, (const void *)(uintptr_t)addr);
		if (error) {
			completion->status = -error;
			give(error, "'%s' takes no message: %s", strrchr(region->path, '/') + 1,
			     strerror(error));
			return;
		}
	}
	completion->result = op->length;
}

struct timespec op_delay(void)
{
	const unsigned int ms = number("KRDMA_FAKE_DELAY_MS", 0);

	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
}

static int do_submit_sync(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	struct krdma_completion *completions = (void *)(uintptr_t)arg->completions;
	struct timespec delay = op_delay();
	uint32_t i;

	submits++;
	if (submits > counts.submits_max)
		counts.submits_max = submits;
	/* As in the kernel, others go on while this one waits for the wire. */
	pthread_mutex_unlock(&lock);
	nanosleep(&delay, NULL);
	while (getenv("KRDMA_FAKE_HANG"))
		pause();
	pthread_mutex_lock(&lock);
	for (i = 0; i < arg->count; i++) {
		run_op(&ops[i], &completions[i]);
		if (completions[i].status)
			arg->failed++;
	}
	arg->accepted = arg->count;
	submits--;
	return 0;
}

int do_submit(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	uint32_t i;

	arg->failed = 0;
	arg->accepted = 0;
	if (!arg->count || arg->count > KRDMA_SUBMIT_MAX)
		return give(EINVAL, "%u operations", arg->count);
	for (i = 0; i < arg->count; i++)
		if (check_op(&ops[i]))
			return -1;
	if (!(arg->flags & KRDMA_SUBMIT_ASYNC))
		return do_submit_sync(arg);
	return do_submit_async(arg);
}
