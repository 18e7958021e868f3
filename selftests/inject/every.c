// SPDX-License-Identifier: GPL-2.0
/*
 * Uses each function of the module once, for faults.sh, which injects a fault into any of them.
 * An operation that fails is printed, and the rest that depends on it left out. All other results
 * have to be right.
 *
 * usage: every HOST EXPORT RECEIVER SELF [idle]
 * EXPORT grants reading and writing, and atomic operations if the transport has them; RECEIVER
 * also grants messages. SELF is this host, which recalls and revokes exports that this process
 * uses. With "idle", the program waits for a heartbeat, which takes seconds.
 *
 * Exit status: 0 all was done; 1 an operation failed; 2 wrong bytes, or this program can't go on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <krdma/krdma.h>
#include <krdma/uring.h>

#include "crc32c.h"

/* Some pages, and not whole ones. */
#define BYTES      70001
#define TIMEOUT_MS 20000
#define FIRST      4000
#define SLOTS      4
#define IDLE_MS    10000

static int status;
static unsigned char *out, *back;
/* What is in the region from FIRST on, while that is known. */
static unsigned char image[BYTES];
static bool known;

static int note(const char *step, int rc)
{
	if (rc >= 0)
		return rc;
	printf("# %s: %s\n", step, krdma_error());
	status = status ? status : 1;
	return rc;
}

static void wrong(const char *what)
{
	printf("# %s: WRONG\n", what);
	status = 2;
}

static void *memory(void)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return at;
}

static void fill(void)
{
	static unsigned int seed = 1;
	size_t i;

	for (i = 0; i < BYTES; i++)
		out[i] = (unsigned char)((seed = seed * 1103515245 + 12345) >> 16);
	memset(back, 0, BYTES);
}

/* Return: 0, or it has failed. */
static int one(struct krdma *krdma, const char *step, struct krdma_op *op, uint64_t moved)
{
	struct krdma_completion done = { 0 };
	int rc;

	op->timeout_ns = TIMEOUT_MS * 1000000ULL;
	rc = note(step, krdma_submit(krdma, op, &done, 1));
	if (rc < 0)
		return rc;
	if (done.status)
		return note(step, krdma_explain(krdma, -done.status));
	if (done.result != moved)
		wrong(step);
	return 0;
}

/* What this process gives to others. */
static void publish(struct krdma *krdma)
{
	uint32_t id;
	int fd, queue;

	fd = krdma_memfd("every", BYTES);
	if (fd < 0) {
		perror("memfd");
		exit(2);
	}
	if (note("export of a memfd",
		 krdma_export_memfd(krdma, "every.memfd", fd, 0, BYTES,
				    KRDMA_RIGHT_READ | KRDMA_RIGHT_MESSAGE, 0, &id)) >= 0) {
		queue = note("queue", krdma_message_queue(krdma, id, KRDMA_MESSAGE_QUEUE_NONBLOCK));
		if (queue >= 0)
			close(queue);
		note("end of an export", krdma_destroy(krdma, id));
	}
	close(fd);
	queue = note("monitor", krdma_monitor(krdma, KRDMA_MONITOR_NONBLOCK));
	if (queue >= 0)
		close(queue);
	if (note("export of memory", krdma_export_memory(krdma, "every.memory", back, BYTES,
							 KRDMA_RIGHT_WRITE, 0, &id)) >= 0)
		note("end of an export", krdma_destroy(krdma, id));
}

static void address(const char *text, struct krdma_sockaddr *addr)
{
	if (krdma_resolve(text, addr, 1) == 1)
		return;
	printf("# %s\n", krdma_error());
	exit(2);
}

/* An allow-list, and a family that this kernel may not have. */
static void listeners(struct krdma *krdma)
{
	struct krdma_sockaddr addr;
	struct krdma_prefix allow;

	krdma_parse_prefix("10.0.0.0/8", &allow);
	address("0.0.0.0:7998", &addr);
	if (note("listen to some", krdma_listen(krdma, &addr, &allow, 1)) >= 0)
		note("unlisten", krdma_unlisten(krdma, &addr));
	if (access("/proc/net/if_inet6", F_OK))
		return;
	address("[::]:7998", &addr);
	if (note("listen with IPv6", krdma_listen(krdma, &addr, NULL, 0)) >= 0)
		note("unlisten", krdma_unlisten(krdma, &addr));
}

/* @got has to be what is at @offset of the region. */
static void compare(const char *step, const unsigned char *got, uint64_t offset, size_t length)
{
	if (known && memcmp(got, image + (offset - FIRST), length))
		wrong(step);
}

static void plain(struct krdma *krdma, uint32_t region)
{
	struct krdma_op op;

	fill();
	krdma_op_write(&op, region, FIRST, out, BYTES);
	known = !one(krdma, "write", &op, BYTES);
	memcpy(image, out, BYTES);
	krdma_op_read(&op, region, FIRST, back, BYTES);
	if (!one(krdma, "read", &op, BYTES))
		compare("read", back, FIRST, BYTES);
}

static void vectors(struct krdma *krdma, uint32_t region)
{
	struct krdma_vec pieces[] = { { (uintptr_t)out, 5000 }, { (uintptr_t)out + 9000, 1 } };
	struct krdma_vec ranges[] = { { FIRST, 1 }, { 20000, 5000 } };
	struct krdma_op op;

	krdma_op_write(&op, region, 0, NULL, 0);
	krdma_op_vector(&op, pieces, 2);
	krdma_op_ranges(&op, ranges, 2);
	krdma_op_verify(&op);
	if (one(krdma, "write of pieces to ranges, verified", &op, 5001))
		known = false;
	image[0] = out[0];
	memcpy(image + (20000 - FIRST), out + 1, 4999);
	image[20000 - FIRST + 4999] = out[9000];
	memset(back, 0, BYTES);
	krdma_op_read(&op, region, FIRST, back, BYTES);
	if (!one(krdma, "read of the ranges", &op, BYTES))
		compare("write of pieces to ranges", back, FIRST, BYTES);
}

static void buffer(struct krdma *krdma, uint32_t region)
{
	struct krdma_completion done[SLOTS];
	struct krdma_op ops[SLOTS] = { 0 };
	int fd, i, n, rc;
	uint32_t id;

	if (note("buffer", krdma_register_buffer(krdma, back, BYTES, KRDMA_BUFFER_WRITABLE, &id)) <
	    0)
		return;
	memset(back, 0, BYTES);
	fd = eventfd(0, EFD_CLOEXEC);
	note("eventfd", krdma_eventfd(krdma, fd));
	for (i = 0; i < SLOTS; i++) {
		krdma_op_read(&ops[i], region, FIRST + 5000 * (uint64_t)i, NULL, 5000);
		krdma_op_buffer(&ops[i], id, 5000 * (uint64_t)i);
		ops[i].user_data = 5000 * (uint64_t)i;
		ops[i].timeout_ns = TIMEOUT_MS * 1000000ULL;
	}
	n = note("asynchronous reads", krdma_submit_async(krdma, ops, SLOTS));
	while (n > 0) {
		rc = note("completions", krdma_reap(krdma, done, SLOTS));
		if (rc < 0)
			break;
		for (i = 0; i < rc; i++) {
			if (done[i].status)
				note("an asynchronous read", krdma_explain(krdma, -done[i].status));
			else if (done[i].result != 5000)
				wrong("an asynchronous read");
			else
				compare("an asynchronous read", back + done[i].user_data,
					FIRST + done[i].user_data, 5000);
		}
		n -= rc;
	}
	note("no eventfd", krdma_eventfd(krdma, -1));
	close(fd);
	note("end of a buffer", krdma_destroy(krdma, id));
}

static void ring(struct krdma *krdma, uint32_t region)
{
	struct iovec iov = { .iov_base = back, .iov_len = BYTES };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring uring;
	struct krdma_op op;
	int rc, i;

	rc = io_uring_queue_init(SLOTS, &uring, IORING_SETUP_SQE128);
	if (rc) {
		fprintf(stderr, "io_uring: %s\n", strerror(-rc));
		exit(2);
	}
	rc = io_uring_register_buffers(&uring, &iov, 1);
	if (rc) {
		fprintf(stderr, "buffers of io_uring: %s\n", strerror(-rc));
		exit(2);
	}
	memset(back, 0, BYTES);
	for (i = 0; i < 2; i++) {
		krdma_op_read(&op, region, FIRST + 3000 * (uint64_t)i, back + 3000 * i, 3000);
		op.timeout_ns = TIMEOUT_MS * 1000000ULL;
		sqe = io_uring_get_sqe(&uring);
		if (i)
			krdma_prep_op_fixed(sqe, krdma, &op, 0);
		else
			krdma_prep_op(sqe, krdma, &op);
		sqe->user_data = 3000 * (uint64_t)i;
	}
	io_uring_submit(&uring);
	for (i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&uring, &cqe)) {
			printf("# io_uring: no completion\n");
			status = 2;
			break;
		}
		if (cqe->res < 0)
			note("io_uring", krdma_explain(krdma, -cqe->res));
		else if (cqe->res != 3000)
			wrong("io_uring");
		else
			compare("io_uring", back + cqe->user_data, FIRST + cqe->user_data, 3000);
		io_uring_cqe_seen(&uring, cqe);
	}
	io_uring_queue_exit(&uring);
}

static void numbers(struct krdma *krdma, uint32_t session, const char *name, uint32_t region)
{
	struct krdma_region atomic = { 0 };
	uint64_t before[2], digest;
	struct krdma_op op;
	int i;

	krdma_op_digest(&op, region, FIRST, BYTES, &digest);
	if (!one(krdma, "digest", &op, BYTES) && known && digest != crc32c(image, BYTES))
		wrong("digest");
	if (krdma_open_region(krdma, session, name, KRDMA_RIGHT_ATOMIC, TIMEOUT_MS, &atomic)) {
		/* iWARP has none. */
		if (errno != EOPNOTSUPP)
			note("open for atomic operations", -1);
		return;
	}
	for (i = 0; i < 2; i++) {
		krdma_op_fetch_add(&op, atomic.id, 8, &before[i], 1);
		if (one(krdma, "fetch and add", &op, sizeof(before[i])))
			break;
	}
	if (i == 2 && before[1] != before[0] + 1)
		wrong("fetch and add");
	note("close", krdma_destroy(krdma, atomic.id));
}

static void messages(struct krdma *krdma, uint32_t session, const char *name)
{
	struct krdma_region region = { 0 };
	struct krdma_op op;

	if (note("open for messages",
		 krdma_open_region(krdma, session, name, KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE,
				   TIMEOUT_MS, &region)) < 0)
		return;
	krdma_op_send(&op, region.id, out, KRDMA_MESSAGE_MAX, 1);
	one(krdma, "send", &op, KRDMA_MESSAGE_MAX);
	krdma_op_write(&op, region.id, 0, out, 5000);
	krdma_op_message(&op, 2);
	one(krdma, "write with a message", &op, 5000);
	note("close", krdma_destroy(krdma, region.id));
}

static void look(struct krdma *krdma, uint32_t session)
{
	struct krdma_region region = { 0 };
	struct krdma_iter *iter;
	uint64_t ns;
	int kind;

	note("ping", krdma_ping(krdma, session, 100, TIMEOUT_MS, &ns));
	for (kind = KRDMA_LIST_DEVICES; kind <= KRDMA_LIST_GRANTS; kind++) {
		bool peer = kind == KRDMA_LIST_PEER_EXPORTS || kind == KRDMA_LIST_ADDRESSES;

		if (note("list", krdma_iter_new(krdma, kind, peer ? session : 0, &iter)) < 0)
			continue;
		while (krdma_iter_next(iter))
			;
		note("list", krdma_iter_free(iter));
	}
	if (!krdma_open_region(krdma, session, "every.none", KRDMA_RIGHT_READ, TIMEOUT_MS,
			       &region)) {
		wrong("open of what is not there");
		note("close", krdma_destroy(krdma, region.id));
	} else if (errno != ENOENT) {
		note("open of what is not there", -1);
	}
}

/* ---- as target and initiator ---- */

/* Segments at most 2 MiB large, of which one at a time may be registered. */
#define OWN_BYTES (4UL << 20)
#define OWN_PORT  7999

static void recalled(struct krdma *krdma, uint32_t region, const unsigned char *memory)
{
	const uint64_t offset[] = { 0, OWN_BYTES - BYTES };
	struct krdma_op op;
	int i;

	for (i = 0; i < 2; i++) {
		fill();
		krdma_op_write(&op, region, offset[i], out, BYTES);
		if (!one(krdma, i ? "write to the last segment" : "write to the first segment", &op,
			 BYTES) &&
		    memcmp(memory + offset[i], out, BYTES))
			wrong("write to a segment");
	}
}

static void taken_back(struct krdma *krdma, uint32_t region, uint32_t export)
{
	struct krdma_completion done = { 0 };
	unsigned int tries = 100000;
	struct krdma_op op;
	int rc;

	if (note("end of an export that is in use", krdma_destroy(krdma, export)) < 0)
		return;
	/* It is over when the peer has heard of it, which here is this process. */
	do {
		krdma_op_read(&op, region, 0, back, BYTES);
		op.timeout_ns = TIMEOUT_MS * 1000000ULL;
		rc = krdma_submit(krdma, &op, &done, 1);
	} while (rc >= 0 && !done.status && tries--);
	if (rc < 0)
		note("read of what was taken back", rc);
	else if (!done.status)
		wrong("read of what was taken back");
	else if (done.status != -ESTALE)
		note("read of what was taken back", krdma_explain(krdma, -done.status));
}

static void own(struct krdma *krdma, const char *self)
{
	struct krdma_region region = { 0 };
	struct krdma_sockaddr addr;
	uint32_t session, export;
	unsigned char *memory;
	int fd;

	fd = krdma_memfd("every.own", OWN_BYTES);
	memory = mmap(NULL, OWN_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || memory == MAP_FAILED) {
		perror("memfd");
		exit(2);
	}
	if (note("export of a memfd",
		 krdma_export_memfd(krdma, "every.own", fd, 0, OWN_BYTES,
				    KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE, 1, &export)) < 0)
		goto out;
	address("0.0.0.0:7999", &addr);
	if (note("listen", krdma_listen(krdma, &addr, NULL, 0)) < 0)
		goto out;
	address(self, &addr);
	addr.port = OWN_PORT;
	if (note("connect to itself", krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE,
							  TIMEOUT_MS, &session)) >= 0) {
		if (note("open its own", krdma_open_region(krdma, session, "every.own",
							   KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
							   TIMEOUT_MS, &region)) >= 0) {
			recalled(krdma, region.id, memory);
			taken_back(krdma, region.id, export);
			note("close", krdma_destroy(krdma, region.id));
		}
		note("disconnect", krdma_destroy(krdma, session));
	}
	address("0.0.0.0:7999", &addr);
	note("unlisten", krdma_unlisten(krdma, &addr));
out:
	munmap(memory, OWN_BYTES);
	close(fd);
}

/* ---- heartbeats ---- */

static unsigned long heartbeats(void)
{
	FILE *file = fopen("/sys/class/misc/krdma_mover/counters/heartbeats", "r");
	unsigned long n;

	if (!file || fscanf(file, "%lu", &n) != 1) {
		perror("heartbeats");
		exit(2);
	}
	fclose(file);
	return n;
}

/* They come when there is nothing else for two seconds; not where one fails. */
static void idle(void)
{
	unsigned long before = heartbeats();
	int i;

	for (i = 0; i < IDLE_MS / 10 && heartbeats() == before; i++)
		usleep(10000);
	if (heartbeats() == before) {
		printf("# no heartbeat\n");
		status = status ? status : 1;
	}
}

static void peer(struct krdma *krdma, const char *host, const char *export, const char *receiver,
		 bool wait)
{
	struct krdma_region region = { 0 };
	struct krdma_sockaddr addr;
	uint32_t session;

	address(host, &addr);
	if (note("connect",
		 krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES,
				     TIMEOUT_MS, &session)) < 0)
		return;
	look(krdma, session);
	if (wait)
		idle();
	if (note("open",
		 krdma_open_region(krdma, session, export, KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
				   TIMEOUT_MS, &region)) >= 0) {
		plain(krdma, region.id);
		vectors(krdma, region.id);
		buffer(krdma, region.id);
		ring(krdma, region.id);
		numbers(krdma, session, export, region.id);
		note("close", krdma_destroy(krdma, region.id));
	}
	messages(krdma, session, receiver);
	note("disconnect", krdma_destroy(krdma, session));
}

int main(int argc, char **argv)
{
	struct krdma *krdma;

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: every HOST EXPORT RECEIVER SELF [idle]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	out = memory();
	back = memory();
	if (note("the device", krdma_new(&krdma)) < 0)
		return status;
	publish(krdma);
	listeners(krdma);
	peer(krdma, argv[1], argv[2], argv[3], argc == 6);
	own(krdma, argv[4]);
	krdma_free(krdma);
	return status;
}
