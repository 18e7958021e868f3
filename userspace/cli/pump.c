// SPDX-License-Identifier: GPL-2.0
/*
 * The pump between a file and the wire.
 *
 *   put:  file -> [WITH_FILE -> FOR_WIRE] ring of slots [FOR_WIRE -> ON_WIRE -> WITH_FILE] -> wire
 *   get:  wire -> [FOR_WIRE -> ON_WIRE -> WITH_FILE] ring of slots [WITH_FILE -> FOR_WIRE] -> file
 *
 * One thread handles the file, another the wire. The ring has twice as many slots as
 * operations may be under way, so that the file is read ahead and written behind
 * while the wire is busy. Block n of the range uses slot n % slot_count. The file's
 * thread takes blocks in order; on the wire they start in order and end in any order.
 * The state of a slot says which thread owns it: only that thread touches its memory.
 *
 * The wire's thread sleeps only on an eventfd. The kernel signals it when an
 * operation has ended, the file's thread when a block is ready.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"

/* Size of the ring, unless SLOT_MIN or SLOT_MAX says otherwise. */
#define RING_SIZE (16 * MIB)
#define SLOT_MAX  (4 * MIB)
#define SLOT_MIN  (64 * KIB)
#define LOOK_NS   (NSEC_PER_SEC / 4)

enum slot_state {
	WITH_FILE, /* the file's thread fills or empties it */
	FOR_WIRE,  /* its operation may start */
	ON_WIRE,   /* its operation is under way */
};

struct slot {
	enum slot_state state;
	size_t length;
};

struct pump {
	struct crew crew;
	struct krdma *krdma;
	uint32_t region;
	uint32_t buffer;
	enum krdma_opcode opcode;
	uint32_t flags;
	uint64_t offset; /* of the range in the region */
	uint64_t limit;  /* bytes that fit */
	uint64_t length; /* bytes to move, 0 if not known */
	uint64_t timeout_ns;
	const char *path;
	int fd;
	int wake_fd; /* the eventfd */
	char *memory;
	size_t slot_size;
	unsigned int slot_count;
	unsigned int depth; /* most operations under way, not more than slots */

	/* The lock of the crew protects these three. */
	struct slot *slots;
	uint64_t blocks; /* UINT64_MAX while not known */
	uint64_t moved;

	/* For the wire's thread only. */
	uint64_t started; /* blocks */
	uint64_t ended;
	struct krdma_op *ops;
	struct krdma_completion *completions;
};

static struct slot *slot_of(const struct pump *pump, uint64_t block)
{
	return &pump->slots[block % pump->slot_count];
}

static char *slot_memory(const struct pump *pump, uint64_t block)
{
	return pump->memory + (block % pump->slot_count) * pump->slot_size;
}

static void slot_set(struct pump *pump, uint64_t block, enum slot_state state, uint64_t moved)
{
	pthread_mutex_lock(&pump->crew.lock);
	slot_of(pump, block)->state = state;
	pump->moved += moved;
	pthread_cond_broadcast(&pump->crew.changed);
	pthread_mutex_unlock(&pump->crew.lock);
}

/* ---- The wire ---- */

static void wake_wire(const struct pump *pump)
{
	const uint64_t one = 1;

	/* Only a bug in this program can make it fail. */
	if (write(pump->wake_fd, &one, sizeof(one)) < 0)
		abort();
}

static void fill_op(const struct pump *pump, uint64_t block, struct krdma_op *op)
{
	const uint64_t start = block * pump->slot_size;
	struct slot *slot = slot_of(pump, block);

	if (pump->opcode == KRDMA_OP_READ) {
		slot->length = pump->slot_size;
		if (pump->length - start < slot->length)
			slot->length = (size_t)(pump->length - start);
	}
	*op = (struct krdma_op){
		.opcode = (uint8_t)pump->opcode,
		.flags = KRDMA_OPF_BUFFER | pump->flags,
		.region = pump->region,
		.user_data = block,
		.offset = pump->offset + start,
		.length = slot->length,
		.addr = (block % pump->slot_count) * pump->slot_size,
		.buffer = pump->buffer,
		.timeout_ns = pump->timeout_ns,
	};
}

/* Start the blocks that are ready, as far as the depth allows. Return: 0, or -1 after a failure. */
static int wire_start(struct pump *pump)
{
	const uint64_t under_way = pump->started - pump->ended;
	unsigned int count = 0;
	int taken, i;

	pthread_mutex_lock(&pump->crew.lock);
	while (under_way + count < pump->depth && pump->started + count < pump->blocks &&
	       slot_of(pump, pump->started + count)->state == FOR_WIRE) {
		fill_op(pump, pump->started + count, &pump->ops[count]);
		count++;
	}
	pthread_mutex_unlock(&pump->crew.lock);
	if (!count)
		return 0;
	taken = krdma_submit_async(pump->krdma, pump->ops, count);
	/* The module may take fewer: there is room when one has ended. */
	if (taken == -EAGAIN && under_way)
		return 0;
	if (taken < 0) {
		crew_fail(&pump->crew, krdma_errno(), "%s", krdma_error());
		return -1;
	}
	for (i = 0; i < taken; i++)
		slot_set(pump, pump->started++, ON_WIRE, 0);
	return 0;
}

/* Take the operations that have ended. Return: 0, or -1 after a failure. */
static int wire_end(struct pump *pump)
{
	int count = krdma_reap(pump->krdma, pump->completions, pump->depth);
	int i;

	if (count == -EAGAIN)
		return 0;
	for (i = 0; i < count; i++) {
		const uint64_t block = pump->completions[i].user_data;

		if (pump->completions[i].status)
			break;
		/* A put's bytes have arrived; a get's still have to reach the file. */
		slot_set(pump, block, WITH_FILE,
			 pump->opcode == KRDMA_OP_WRITE ? slot_of(pump, block)->length : 0);
		pump->ended++;
	}
	if (i == count)
		return 0;
	crew_fail(&pump->crew, krdma_errno(), "%s", krdma_error());
	return -1;
}

/* Wait until an operation has ended or a block is ready. Return: false if nothing is left. */
static bool wire_wait(struct pump *pump)
{
	uint64_t count;
	bool done;

	pthread_mutex_lock(&pump->crew.lock);
	done = pump->ended == pump->blocks;
	pthread_mutex_unlock(&pump->crew.lock);
	return !done && (read(pump->wake_fd, &count, sizeof(count)) > 0 || errno == EINTR);
}

static void *wire_work(void *arg)
{
	struct pump *pump = arg;

	while (!wire_start(pump) && wire_wait(pump) && !wire_end(pump))
		;
	crew_leave(&pump->crew);
	return NULL;
}

/* ---- The file ---- */

/* Wait until the file's thread owns the slot of the block. Return: false after a failure. */
static bool await_slot(struct pump *pump, uint64_t block)
{
	bool failed;

	pthread_mutex_lock(&pump->crew.lock);
	while (!pump->crew.failed && slot_of(pump, block)->state != WITH_FILE)
		pthread_cond_wait(&pump->crew.changed, &pump->crew.lock);
	failed = pump->crew.failed;
	pthread_mutex_unlock(&pump->crew.lock);
	return !failed;
}

/* Hand the slot over to the wire's thread. */
static void pass_slot(struct pump *pump, uint64_t block, uint64_t moved)
{
	slot_set(pump, block, FOR_WIRE, moved);
	wake_wire(pump);
}

bool io_again(int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	return errno == EINTR || (errno == EAGAIN && (poll(&ready, 1, -1) > 0 || errno == EINTR));
}

/* Return: the bytes read, fewer than requested only at the end of the file, or -1. */
static ssize_t read_full(int fd, char *memory, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = read(fd, memory + done, length - done);

		if (n < 0 && io_again(fd, POLLIN))
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

		if (n < 0 && io_again(fd, POLLOUT))
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

/* Whether the file has more bytes than fit. */
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
	uint64_t block = 0, offset = 0;
	bool end = false;

	while (!end && await_slot(pump, block)) {
		size_t want = pump->slot_size;
		ssize_t got;

		if (pump->limit - offset < want)
			want = (size_t)(pump->limit - offset);
		got = read_full(pump->fd, slot_memory(pump, block), want);
		if (got < 0) {
			crew_fail(&pump->crew, errno, "cannot read %s: %s", name, strerror(errno));
			break;
		}
		offset += (uint64_t)got;
		end = (size_t)got < want || offset == pump->limit;
		if (got) {
			slot_of(pump, block)->length = (size_t)got;
			pass_slot(pump, block++, 0);
		}
	}
	if (end && pump->length && offset < pump->length)
		crew_fail(&pump->crew, EIO, "%s became shorter while it was read", name);
	else if (end && !pump->length && offset == pump->limit && more_to_read(pump))
		crew_fail(&pump->crew, EFBIG, "%s is longer than the range, which has %s", name,
			  size_text(pump->limit, text));

	pthread_mutex_lock(&pump->crew.lock);
	pump->blocks = block;
	pthread_mutex_unlock(&pump->crew.lock);
	wake_wire(pump);
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
	uint64_t block;

	for (block = 0; block < pump->blocks && !error; block++) {
		size_t length;

		if (!await_slot(pump, block))
			goto out;
		if (!block)
			error = open_output(pump);
		length = slot_of(pump, block)->length;
		if (!error)
			error = write_full(pump->fd, slot_memory(pump, block), length);
		pass_slot(pump, block, error ? 0 : length);
	}
	/* Some file systems report a full disk only here. */
	if (!error && pump->path && close(pump->fd))
		error = errno;
	if (error)
		crew_fail(&pump->crew, error, "cannot write %s: %s",
			  file_name(pump, "standard output"), strerror(error));
out:
	crew_leave(&pump->crew);
	return NULL;
}

/* ---- Together ---- */

/* Choose number and size of the slots; a small transfer does not need the whole ring. */
static void ring_shape(struct pump *pump)
{
	size_t size;

	pump->slot_count = 2 * pump->depth;
	size = RING_SIZE / pump->slot_count / SLOT_MIN * SLOT_MIN;
	if (size < SLOT_MIN)
		size = SLOT_MIN;
	if (size > SLOT_MAX)
		size = SLOT_MAX;
	if (pump->length) {
		/* Small transfers, too, are cut into blocks that overlap on the wire. */
		while (size > SLOT_MIN && (uint64_t)size * pump->depth >= pump->length)
			size = size / 2 / SLOT_MIN * SLOT_MIN;
		if (pump->length <= (uint64_t)size * (pump->slot_count - 1))
			pump->slot_count = (unsigned int)((pump->length + size - 1) / size);
	}
	pump->slot_size = size;
}

/*
 * Register the ring. A small limit on locked memory makes the ring smaller and the
 * transfer slower; the command fails only if not even the smallest ring fits.
 */
static int pump_memory(struct pump *pump)
{
	for (;;) {
		const size_t size = pump->slot_count * pump->slot_size;
		void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);
		int rc;

		if (memory == MAP_FAILED)
			return fail(errno, "cannot allocate buffers: %s", strerror(errno));
		rc = krdma_register_buffer(
			pump->krdma, memory, size,
			pump->opcode == KRDMA_OP_READ ? KRDMA_BUFFER_WRITABLE : 0, &pump->buffer);
		if (!rc) {
			pump->memory = memory;
			if (pump->depth > pump->slot_count)
				pump->depth = pump->slot_count;
			return DONE;
		}
		munmap(memory, size);
		if (rc != -ENOMEM && rc != -EDQUOT)
			return fail_krdma();
		if (pump->slot_size > SLOT_MIN)
			pump->slot_size = pump->slot_size / 2 / SLOT_MIN * SLOT_MIN;
		else if (pump->slot_count > 2)
			pump->slot_count = (pump->slot_count + 1) / 2;
		else
			return fail_krdma();
	}
}

/* Return: the exit status; a failure has been reported. */
static int pump_events(struct pump *pump)
{
	const int fd = krdma_fd(pump->krdma);

	pump->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (pump->wake_fd < 0)
		return fail(errno, "cannot create an eventfd: %s", strerror(errno));
	if (krdma_eventfd(pump->krdma, pump->wake_fd))
		return fail_krdma();
	/* The thread waits for the eventfd only. */
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return fail(errno, "cannot set O_NONBLOCK: %s", strerror(errno));
	return DONE;
}

static void pump_free(struct pump *pump)
{
	free(pump->slots);
	free(pump->ops);
	free(pump->completions);
	free(pump);
}

static struct pump *pump_new(const struct pump_job *job)
{
	struct pump *pump = calloc(1, sizeof(*pump));

	if (!pump)
		return NULL;
	crew_init(&pump->crew);
	pump->krdma = job->range->krdma;
	pump->region = job->range->region.id;
	pump->offset = job->range->offset;
	pump->limit = job->length ? job->length : job->range->length;
	pump->opcode = job->opcode;
	pump->flags = job->flags;
	pump->length = job->length;
	pump->timeout_ns = job->timeout_ns ? job->timeout_ns : patient_timeout(job->range);
	pump->path = job->path;
	pump->fd = job->fd;
	pump->depth = job->depth;
	ring_shape(pump);
	pump->slots = calloc(pump->slot_count, sizeof(*pump->slots));
	pump->ops = calloc(pump->depth, sizeof(*pump->ops));
	pump->completions = calloc(pump->depth, sizeof(*pump->completions));
	if (pump->slots && pump->ops && pump->completions)
		return pump;
	pump_free(pump);
	return NULL;
}

static void pump_start(struct pump *pump)
{
	const bool put = pump->opcode == KRDMA_OP_WRITE;
	unsigned int i;

	if (put)
		pump->blocks = UINT64_MAX;
	else
		pump->blocks = (pump->length + pump->slot_size - 1) / pump->slot_size;
	for (i = 0; i < pump->slot_count; i++)
		pump->slots[i].state = put ? WITH_FILE : FOR_WIRE;
	crew_start(&pump->crew, put ? read_work : write_work, pump);
	crew_start(&pump->crew, wire_work, pump);
}

/* Until all threads have ended, or one has failed; with the crew's lock held. */
static void pump_watch(struct pump *pump, struct pump_job *job)
{
	struct watch watch = { .moved = 0 };
	uint64_t moved;

	while (!crew_wait_locked(&pump->crew, job->quiet ? 0 : LOOK_NS)) {
		moved = pump->moved;
		pthread_mutex_unlock(&pump->crew.lock);
		if (job->progress)
			progress_update(job->progress, moved);
		connection_watch(&watch, job->range, job->progress, moved);
		pthread_mutex_lock(&pump->crew.lock);
	}
}

int pump_run(struct pump_job *job)
{
	const uint64_t start = now_ns();
	struct pump *pump = pump_new(job);
	bool failed;

	if (!pump)
		return fail(ENOMEM, "out of memory");
	/* After a failure the process ends, which frees all. */
	if (pump_memory(pump) || pump_events(pump))
		return FAILED;
	if (job->progress)
		job->progress->start_ns = start;
	pump_start(pump);

	pthread_mutex_lock(&pump->crew.lock);
	pump_watch(pump, job);
	failed = pump->crew.failed;
	job->moved = pump->moved;
	pthread_mutex_unlock(&pump->crew.lock);

	job->elapsed_ns = now_ns() - start;
	if (job->progress)
		progress_clear(job->progress);
	/* Threads may still use the pump and its buffers: these end with the process. */
	if (failed)
		return fail(pump->crew.error, "%s", pump->crew.text);
	crew_join(&pump->crew);
	krdma_destroy(pump->krdma, pump->buffer);
	close(pump->wake_fd);
	munmap(pump->memory, pump->slot_count * pump->slot_size);
	pump_free(pump);
	return DONE;
}
