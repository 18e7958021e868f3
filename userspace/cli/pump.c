// SPDX-License-Identifier: GPL-2.0
/*
 * The pump between a file and the wire.
 *
 *   put:  file -> [EMPTY -> FULL] ring of buffers [FULL -> BUSY -> EMPTY] -> wire
 *   get:  wire -> [EMPTY -> BUSY -> FULL] ring of buffers [FULL -> EMPTY] -> file
 *
 * One thread has the file, two submit operations: while the batch of one
 * returns, the other's is on the wire. Chunk n of the range uses slot n % SLOTS,
 * and both sides take chunks in order, so a slot's state says whose it is: the
 * side that waits for that state may touch the memory, nobody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"

#define SLOTS      4
#define SLOT_MAX   (4 * MIB)
#define SLOT_MIN   (64 * KIB)
#define SUBMITTERS 2
#define BAR_NS     (NSEC_PER_SEC / 4)

enum slot_state {
	EMPTY,
	FULL,
	BUSY
};

struct slot {
	enum slot_state state;
	size_t length;
};

/* The lock of the crew protects what changes: slots, next, chunks, moved. */
struct pump {
	struct crew crew;
	struct krdma *krdma;
	uint32_t region;
	uint32_t buffer;
	enum krdma_opcode opcode;
	enum slot_state wire_from; /* a slot that a submitter takes */
	enum slot_state file_from; /* a slot that the file's thread takes */
	uint64_t offset;           /* of the range in the region */
	uint64_t limit;            /* bytes that fit */
	uint64_t length;           /* bytes to move, 0 if not known */
	uint64_t timeout_ns;
	const char *path;
	int fd;
	char *memory;
	size_t slot_size;
	struct slot slots[SLOTS];
	uint64_t next;   /* chunk that the next submitter takes */
	uint64_t chunks; /* UINT64_MAX while not known */
	uint64_t moved;
};

static char *slot_memory(const struct pump *pump, uint64_t chunk)
{
	return pump->memory + (chunk % SLOTS) * pump->slot_size;
}

static void slot_set(struct pump *pump, uint64_t chunk, enum slot_state state, uint64_t moved)
{
	pthread_mutex_lock(&pump->crew.lock);
	pump->slots[chunk % SLOTS].state = state;
	pump->moved += moved;
	pthread_cond_broadcast(&pump->crew.changed);
	pthread_mutex_unlock(&pump->crew.lock);
}

/* ---- The wire ---- */

/* The next chunk for the wire. Return: false if there is none. */
static bool take_chunk(struct pump *pump, uint64_t *chunk)
{
	bool taken = false;

	pthread_mutex_lock(&pump->crew.lock);
	while (!pump->crew.failed && pump->next < pump->chunks) {
		struct slot *slot = &pump->slots[pump->next % SLOTS];

		if (slot->state == pump->wire_from) {
			slot->state = BUSY;
			*chunk = pump->next++;
			taken = true;
			break;
		}
		pthread_cond_wait(&pump->crew.changed, &pump->crew.lock);
	}
	pthread_mutex_unlock(&pump->crew.lock);
	return taken;
}

static void *submit_work(void *arg)
{
	struct pump *pump = arg;
	uint64_t chunk;

	while (take_chunk(pump, &chunk)) {
		struct slot *slot = &pump->slots[chunk % SLOTS];
		const uint64_t start = chunk * pump->slot_size;
		struct krdma_completion completion;
		struct krdma_op op = {
			.opcode = (uint8_t)pump->opcode,
			.flags = KRDMA_OP_BUFFER,
			.region = pump->region,
			.user_data = chunk,
			.offset = pump->offset + start,
			.addr = (chunk % SLOTS) * pump->slot_size,
			.buffer = pump->buffer,
			.timeout_ns = pump->timeout_ns,
		};

		if (pump->opcode == KRDMA_OP_READ) {
			slot->length = pump->slot_size;
			if (pump->length - start < slot->length)
				slot->length = (size_t)(pump->length - start);
		}
		op.length = slot->length;
		if (krdma_submit(pump->krdma, &op, &completion, 1)) {
			crew_fail(&pump->crew, "%s", krdma_error());
			break;
		}
		/* A put's bytes have arrived; a get's still have to reach the file. */
		slot_set(pump, chunk, pump->file_from,
			 pump->opcode == KRDMA_OP_WRITE ? op.length : 0);
	}
	crew_leave(&pump->crew);
	return NULL;
}

/* ---- The file ---- */

/* Wait until the slot of the chunk is the file's. Return: false after a failure. */
static bool await_slot(struct pump *pump, uint64_t chunk)
{
	bool failed;

	pthread_mutex_lock(&pump->crew.lock);
	while (!pump->crew.failed && pump->slots[chunk % SLOTS].state != pump->file_from)
		pthread_cond_wait(&pump->crew.changed, &pump->crew.lock);
	failed = pump->crew.failed;
	pthread_mutex_unlock(&pump->crew.lock);
	return !failed;
}

/* Return: the bytes read, fewer than asked at the end of the file only, or -1. */
static ssize_t read_full(int fd, char *memory, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = read(fd, memory + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Return: 0 or an errno. */
static int write_full(int fd, const char *memory, size_t length)
{
	while (length) {
		ssize_t n = write(fd, memory, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		memory += n;
		length -= (size_t)n;
	}
	return 0;
}

static const char *file_name(const struct pump *pump, const char *standard)
{
	return pump->path ? pump->path : standard;
}

/* Whether the file goes on after the bytes that fit. */
static bool more_to_read(struct pump *pump)
{
	char byte;

	return read_full(pump->fd, &byte, 1) > 0;
}

static void *read_work(void *arg)
{
	struct pump *pump = arg;
	const char *name = file_name(pump, "standard input");
	char text[SIZE_TEXT];
	uint64_t chunk = 0, offset = 0;
	bool end = false;

	while (!end && await_slot(pump, chunk)) {
		size_t want = pump->slot_size;
		ssize_t got;

		if (pump->limit - offset < want)
			want = (size_t)(pump->limit - offset);
		got = read_full(pump->fd, slot_memory(pump, chunk), want);
		if (got < 0) {
			crew_fail(&pump->crew, "cannot read %s: %s", name, strerror(errno));
			break;
		}
		offset += (uint64_t)got;
		end = (size_t)got < want || offset == pump->limit;
		if (got) {
			pump->slots[chunk % SLOTS].length = (size_t)got;
			slot_set(pump, chunk++, FULL, 0);
		}
	}
	if (end && pump->length && offset < pump->length)
		crew_fail(&pump->crew, "%s became shorter while it was read", name);
	else if (end && !pump->length && offset == pump->limit && more_to_read(pump))
		crew_fail(&pump->crew, "%s is longer than the range, which has %s", name,
			  size_text(pump->limit, text));

	pthread_mutex_lock(&pump->crew.lock);
	pump->chunks = chunk;
	pthread_mutex_unlock(&pump->crew.lock);
	crew_leave(&pump->crew);
	return NULL;
}

/* Return: 0 or an errno. */
static int open_output(struct pump *pump)
{
	if (!pump->path) {
		pump->fd = STDOUT_FILENO;
		return 0;
	}
	pump->fd = open(pump->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return pump->fd < 0 ? errno : 0;
}

static void *write_work(void *arg)
{
	struct pump *pump = arg;
	int error = 0;
	uint64_t chunk;

	for (chunk = 0; chunk < pump->chunks && !error; chunk++) {
		size_t length;

		if (!await_slot(pump, chunk))
			goto out;
		if (!chunk)
			error = open_output(pump);
		length = pump->slots[chunk % SLOTS].length;
		if (!error)
			error = write_full(pump->fd, slot_memory(pump, chunk), length);
		slot_set(pump, chunk, EMPTY, error ? 0 : length);
	}
	/* Some filesystems report a full disk here only. */
	if (!error && pump->path && close(pump->fd))
		error = errno;
	if (error)
		crew_fail(&pump->crew, "cannot write %s: %s", file_name(pump, "standard output"),
			  strerror(error));
out:
	crew_leave(&pump->crew);
	return NULL;
}

/* ---- Together ---- */

/*
 * Register the ring. A small limit on locked memory makes it smaller and the
 * transfer slower; only one that leaves no room at all is a failure.
 */
static int pump_memory(struct pump *pump)
{
	size_t size = SLOT_MAX;
	int rc;

	/* Small transfers overlap too, and need not pin the whole ring. */
	while (pump->length && size > SLOT_MIN && (uint64_t)size * SLOTS / 2 >= pump->length)
		size /= 2;
	for (;; size /= 2) {
		void *memory = mmap(NULL, SLOTS * size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return fail("cannot allocate buffers: %s", strerror(errno));
		rc = krdma_register_buffer(
			pump->krdma, memory, SLOTS * size,
			pump->opcode == KRDMA_OP_READ ? KRDMA_BUFFER_WRITABLE : 0, &pump->buffer);
		if (!rc) {
			pump->memory = memory;
			pump->slot_size = size;
			return DONE;
		}
		munmap(memory, SLOTS * size);
		if ((rc != -ENOMEM && rc != -EDQUOT) || size <= SLOT_MIN)
			return fail_krdma();
	}
}

static struct pump *pump_new(const struct pump_job *job)
{
	const bool put = job->opcode == KRDMA_OP_WRITE;
	struct pump *pump = calloc(1, sizeof(*pump));

	if (!pump)
		return NULL;
	crew_init(&pump->crew);
	pump->krdma = job->remote->krdma;
	pump->region = job->remote->region.id;
	pump->offset = job->remote->offset;
	pump->limit = job->length ? job->length : job->remote->length;
	pump->opcode = job->opcode;
	pump->wire_from = put ? FULL : EMPTY;
	pump->file_from = put ? EMPTY : FULL;
	pump->length = job->length;
	pump->timeout_ns = job->timeout_ns;
	pump->path = job->path;
	pump->fd = job->fd;
	return pump;
}

static void pump_start(struct pump *pump)
{
	const bool put = pump->opcode == KRDMA_OP_WRITE;
	int i;

	if (put)
		pump->chunks = UINT64_MAX;
	else
		pump->chunks = (pump->length + pump->slot_size - 1) / pump->slot_size;
	crew_start(&pump->crew, put ? read_work : write_work, pump);
	for (i = 0; i < SUBMITTERS; i++)
		crew_start(&pump->crew, submit_work, pump);
}

int pump_run(struct pump_job *job)
{
	const uint64_t start = now_ns();
	struct pump *pump = pump_new(job);
	bool failed;

	if (!pump)
		return fail("out of memory");
	if (pump_memory(pump)) {
		free(pump);
		return FAILED;
	}
	if (job->progress)
		job->progress->start_ns = start;
	pump_start(pump);

	pthread_mutex_lock(&pump->crew.lock);
	while (!crew_wait_locked(&pump->crew, job->progress ? BAR_NS : 0))
		progress_update(job->progress, pump->moved);
	failed = pump->crew.failed;
	job->moved = pump->moved;
	pthread_mutex_unlock(&pump->crew.lock);

	job->elapsed_ns = now_ns() - start;
	if (job->progress)
		progress_clear(job->progress);
	/* Threads may still use the pump and its buffers: they go with the process. */
	if (failed)
		return fail("%s", pump->crew.error);
	crew_join(&pump->crew);
	krdma_destroy(pump->krdma, pump->buffer);
	munmap(pump->memory, SLOTS * pump->slot_size);
	free(pump);
	return DONE;
}
