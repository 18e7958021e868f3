// SPDX-License-Identifier: GPL-2.0
/*
 * Counts instructions: WRITEs and READs of 4 KiB, and messages of 8 bytes, by each front end of
 * krdma_mover and by krdma_raw.ko, the baseline. Runs in the machine of selftests/tools/bench/insn,
 * where an instruction takes a nanosecond; the machine's two network devices are connected.
 *
 * usage: insn OPERATIONS SEED
 *
 * SEED is a delay before each measurement. The delay shifts the timer's interrupts, and other
 * events that depend on time, relative to the measurement. Prints for each measurement
 *
 *	insn: OPERATION WAY MEMORY DEPTH OPERATIONS NANOSECONDS IDLE-MICROSECONDS
 *
 * and for longer operations, with and without verification,
 *
 *	insn-long: OPERATION BYTES HOW OPERATIONS NANOSECONDS
 *
 * Disks are measured likewise: one of krdma_blk, and /dev/nvme0n1 if it is there.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <liburing.h>

#include <linux/krdma_blk.h>

#define SIZE    4096
#define MESSAGE 8
#define DEPTH   32
#define WARM    128
#define SRC     "10.9.0.1"
#define DST     "10.9.0.2"

/* Parameters of the modules that move by themselves. */
#define RAW    "/sys/module/krdma_raw/parameters/"
#define KBENCH "/sys/module/krdma_kbench/parameters/"

enum memory {
	PINNED, /* for each operation */
	BUFFER, /* a buffer of the file */
	FIXED,  /* a buffer of io_uring, and a registered file */
};

static const char *const op_names[] = {
	[KRDMA_OP_READ] = "read",
	[KRDMA_OP_WRITE] = "write",
	[KRDMA_OP_SEND] = "send",
};

static const char *const memory_names[] = { "pinned", "buffer", "fixed" };

static struct {
	int fd;
	uint32_t session;
	uint32_t region;
	uint32_t buffer;
	int queue;
	int disk;             /* 0: not of a disk */
	unsigned char *local; /* DEPTH places */
	unsigned char *remote;
	uint8_t opcode;
	uint32_t length; /* of an operation */
	enum memory memory;
	struct io_uring ring;
	/* places that nothing is under way for */
	unsigned int idle[DEPTH];
	unsigned int nidle;
} b;

/* The kernel's own sentence about what went wrong. */
static void __attribute__((noreturn)) give_up(const char *what)
{
	struct krdma_ioc_last_error last = { .size = sizeof(last) };

	if (ioctl(b.fd, KRDMA_IOC_LAST_ERROR, &last) || !last.error)
		err(1, "%s", what);
	errx(1, "%s: %s", what, last.text);
}

/* ---- set-up ---- */

static void *pages(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	memset(p, 0x5a, length);
	return p;
}

static struct __kernel_sockaddr_storage ipv4(const char *text)
{
	struct __kernel_sockaddr_storage addr = { 0 };
	struct sockaddr_in in = { .sin_family = AF_INET };

	inet_pton(AF_INET, text, &in.sin_addr);
	memcpy(&addr, &in, sizeof(in));
	return addr;
}

static void set_up(void)
{
	struct krdma_ioc_listen listener = { .size = sizeof(listener), .addr = ipv4(DST) };
	struct krdma_ioc_connect peer = { .size = sizeof(peer), .flags = KRDMA_CONNECT_MESSAGES };
	struct krdma_ioc_export export = {
		.size = sizeof(export),
		.length = (uint64_t)DEPTH * SIZE,
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE,
		.name = "bench",
	};
	struct krdma_ioc_message_queue queue = { .size = sizeof(queue),
						 .flags = KRDMA_MESSAGE_QUEUE_NONBLOCK };
	struct krdma_ioc_open region = {
		.size = sizeof(region),
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE,
		.name = "bench",
	};
	struct krdma_ioc_buffer buffer = {
		.size = sizeof(buffer),
		.flags = KRDMA_BUFFER_WRITABLE,
		.length = (uint64_t)DEPTH * SIZE,
	};

	b.fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC);
	if (b.fd < 0)
		err(1, "/dev/krdma_mover");
	b.local = pages((size_t)DEPTH * SIZE);
	b.remote = pages((size_t)DEPTH * SIZE);

	if (ioctl(b.fd, KRDMA_IOC_LISTEN, &listener))
		give_up("listen");
	export.addr = (uintptr_t)b.remote;
	if (ioctl(b.fd, KRDMA_IOC_EXPORT, &export))
		give_up("export");
	queue.id = export.id;
	if (ioctl(b.fd, KRDMA_IOC_MESSAGE_QUEUE, &queue))
		give_up("queue");
	b.queue = queue.fd;
	peer.src = ipv4(SRC);
	peer.dst = ipv4(DST);
	if (ioctl(b.fd, KRDMA_IOC_CONNECT, &peer))
		give_up("connect");
	b.session = peer.id;
	region.session = peer.id;
	if (ioctl(b.fd, KRDMA_IOC_OPEN, &region))
		give_up("open");
	b.region = region.id;
	buffer.addr = (uintptr_t)b.local;
	if (ioctl(b.fd, KRDMA_IOC_BUFFER, &buffer))
		give_up("buffer");
	b.buffer = buffer.id;
}

/* Sleeps where it has to: what ran before must not run on into a measurement. */
static void settle(unsigned int seed)
{
	volatile unsigned int i;

	usleep(20000);
	for (i = 0; i < seed * 40009; i++)
		;
}

/* ---- the clock ---- */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		err(1, "%s", path);
	text[n] = '\0';
	close(fd);
}

/* Microseconds that the processor was idle; nothing should be waited for here. */
static uint64_t idle(void)
{
	char text[32];

	read_text(RAW "idle", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

/* For selftests/tools/bench/profile.c: it counts between two of these, which do nothing. */
static void mark(void)
{
	__asm__ volatile("xchg %%r13, %%r13" ::: "memory");
}

static void report(const char *way, const char *memory, unsigned int depth, unsigned int n,
		   uint64_t ns, uint64_t idle_us)
{
	printf("insn: %s %s %s %u %u %llu %llu\n", op_names[b.opcode], way, memory, depth, n,
	       (unsigned long long)ns, (unsigned long long)idle_us);
	fflush(stdout);
}

/* ---- ways ---- */

static void fill(struct krdma_op *op, unsigned int place)
{
	memset(op, 0, sizeof(*op));
	op->opcode = b.opcode;
	op->region = b.region;
	op->user_data = place;
	op->offset = b.opcode == KRDMA_OP_SEND ? 0 : (uint64_t)place * SIZE;
	op->length = b.length;
	if (b.memory == BUFFER) {
		op->flags = KRDMA_OPF_BUFFER;
		op->buffer = b.buffer;
		op->addr = (uint64_t)place * SIZE;
	} else {
		op->addr = (uintptr_t)(b.local + (size_t)place * SIZE);
	}
}

/* One call does as many as are to be under way, and waits for them. */
static void by_sync(unsigned int depth, unsigned int n)
{
	struct krdma_completion done[DEPTH];
	struct krdma_op op[DEPTH];
	struct krdma_ioc_submit submit = {
		.size = sizeof(submit),
		.ops = (uintptr_t)op,
		.completions = (uintptr_t)done,
		.count = depth,
		.op_stride = sizeof(op[0]),
		.completion_stride = sizeof(done[0]),
	};
	unsigned int i;

	for (; n; n -= depth) {
		for (i = 0; i < depth; i++)
			fill(&op[i], i);
		if (ioctl(b.fd, KRDMA_IOC_SUBMIT, &submit) || submit.failed)
			give_up("submit");
	}
}

static void async_submit(const struct krdma_op *op, unsigned int count)
{
	struct krdma_ioc_submit submit = {
		.size = sizeof(submit),
		.flags = KRDMA_SUBMIT_ASYNC,
		.ops = (uintptr_t)op,
		.count = count,
		.op_stride = sizeof(*op),
	};

	if (ioctl(b.fd, KRDMA_IOC_SUBMIT, &submit) || submit.accepted != count)
		give_up("submit");
}

/* Submit for the places that are idle, up to @batch with one call; what has ended is read. */
static void by_async(unsigned int depth, unsigned int n, unsigned int batch)
{
	struct krdma_completion done[DEPTH];
	struct krdma_op op[DEPTH];
	unsigned int left = n, count, i;
	ssize_t got;

	for (b.nidle = 0; b.nidle < depth; b.nidle++)
		b.idle[b.nidle] = b.nidle;
	while (n) {
		while (b.nidle && left) {
			for (count = 0; count < batch && b.nidle && left; count++, left--)
				fill(&op[count], b.idle[--b.nidle]);
			async_submit(op, count);
		}
		got = read(b.fd, done, sizeof(done));
		if (got <= 0)
			give_up("read");
		for (i = 0; i < (size_t)got / sizeof(done[0]); i++, n--) {
			if (done[i].status)
				give_up("operation");
			b.idle[b.nidle++] = (unsigned int)done[i].user_data;
		}
	}
}

static void by_async_one(unsigned int depth, unsigned int n)
{
	by_async(depth, n, 1);
}

static void by_async_batch(unsigned int depth, unsigned int n)
{
	by_async(depth, n, depth);
}

static void uring_prep(unsigned int place)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&b.ring);
	struct krdma_op op;

	if (!sqe)
		errx(1, "io_uring: the queue is full");
	if (b.disk) {
		io_uring_prep_rw(b.opcode == KRDMA_OP_WRITE ? IORING_OP_WRITE : IORING_OP_READ, sqe,
				 b.disk, b.local + (size_t)place * SIZE, b.length,
				 (uint64_t)place * SIZE);
		sqe->user_data = place;
		return;
	}
	fill(&op, place);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	/* Where buffers are registered the file is, too. */
	sqe->fd = b.memory == FIXED ? 0 : b.fd;
	if (b.memory == FIXED)
		sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = KRDMA_URING_OP;
	sqe->user_data = place;
	memcpy((char *)sqe + offsetof(struct io_uring_sqe, cmd), &op, sizeof(op));
	if (b.memory == FIXED)
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
}

/* One call submits for all places that are idle, and waits for one to end at least. */
static void by_uring(unsigned int depth, unsigned int n)
{
	unsigned int left = n, head, count;
	struct io_uring_cqe *cqe;
	int rc;

	for (b.nidle = 0; b.nidle < depth; b.nidle++)
		b.idle[b.nidle] = b.nidle;
	while (n) {
		for (; b.nidle && left; left--)
			uring_prep(b.idle[--b.nidle]);
		rc = io_uring_submit_and_wait(&b.ring, 1);
		if (rc < 0)
			errx(1, "io_uring: %s", strerror(-rc));
		count = 0;
		io_uring_for_each_cqe(&b.ring, head, cqe)
		{
			if (cqe->res != (int)b.length)
				give_up("operation of io_uring");
			b.idle[b.nidle++] = (unsigned int)cqe->user_data;
			count++;
		}
		io_uring_cq_advance(&b.ring, count);
		n -= count;
	}
}

static void ring_open(unsigned int flags)
{
	const struct iovec vec = { .iov_base = b.local, .iov_len = (size_t)DEPTH * SIZE };
	int rc;

	rc = io_uring_queue_init(DEPTH, &b.ring, IORING_SETUP_SQE128 | flags);
	if (!rc && b.memory == FIXED)
		rc = io_uring_register_buffers(&b.ring, &vec, 1);
	if (!rc && b.memory == FIXED)
		rc = io_uring_register_files(&b.ring, &b.fd, 1);
	if (rc)
		errx(1, "io_uring: %s", strerror(-rc));
}

struct way {
	const char *name;
	void (*move)(unsigned int depth, unsigned int n);
	bool ring;
	unsigned int ring_flags;
};

static const struct way ways[] = {
	{ "ioctl", by_sync, false, 0 },
	{ "ioctl-async", by_async_one, false, 0 },
	{ "ioctl-batch", by_async_batch, false, 0 },
	{ "io_uring", by_uring, true, 0 },
	{ "io_uring-defer", by_uring, true,
	  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN },
};

/* What has come is read: there is room for more. */
static void move(const struct way *way, unsigned int depth, unsigned int n)
{
	static unsigned char message[SIZE];
	unsigned int some;

	for (; n; n -= some) {
		some = b.opcode == KRDMA_OP_SEND && n > DEPTH ? DEPTH : n;
		way->move(depth, some);
		while (b.opcode == KRDMA_OP_SEND && read(b.queue, message, sizeof(message)) > 0)
			;
	}
}

static void measure(const struct way *way, unsigned int depth, unsigned int n, unsigned int seed)
{
	uint64_t t, idle_us;

	if (way->ring)
		ring_open(way->ring_flags);
	/* Keys, caches of the allocator, and what is done once. */
	move(way, depth, WARM);
	settle(seed);
	idle_us = idle();
	mark();
	t = now();
	move(way, depth, n);
	t = now() - t;
	mark();
	idle_us = idle() - idle_us;
	if (way->ring)
		io_uring_queue_exit(&b.ring);
	report(way->name, memory_names[b.memory], depth, n, t, idle_us);
}

/* ---- in the kernel: the floor, and by include/linux/krdma_mover.h ---- */

static void module_run(const char *run, const char *way, unsigned int depth, unsigned int n)
{
	char text[64];
	ssize_t length = snprintf(text, sizeof(text), "%s %s %u %u %u", op_names[b.opcode], way,
				  depth, n, b.length);
	int fd = open(run, O_WRONLY);

	if (fd < 0 || write(fd, text, (size_t)length) != length)
		err(1, "%s of '%s'", run, text);
	close(fd);
}

static void measure_module(const char *user, const char *run, const char *way, unsigned int depth,
			   unsigned int n, unsigned int seed)
{
	unsigned long long ns = 0, idle_us = 0;
	char text[64];
	char name[32];

	module_run(run, way, depth, WARM);
	settle(seed);
	mark();
	module_run(run, way, depth, n);
	mark();
	read_text(run, text, sizeof(text));
	if (sscanf(text, "%llu %llu", &ns, &idle_us) != 2)
		errx(1, "%s: %s", run, text);
	snprintf(name, sizeof(name), "%s-%s", user, way);
	report(name, "-", depth, n, ns, idle_us);
}

static void measure_modules(unsigned int depth, unsigned int n, unsigned int seed)
{
	static const char *const hows[] = { "refill", "chain", "wait" };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		/* A chain of one is posted like any other. */
		if (i == 1 && depth == 1)
			continue;
		measure_module("verbs", RAW "run", hows[i], depth, n, seed);
	}
	/* There messages are not measured. */
	for (i = 0; i < 3 && b.opcode != KRDMA_OP_SEND; i++)
		measure_module("in-kernel", KBENCH "run", hows[i], depth, n, seed);
}

/* ---- disks ---- */

/* Neighbours would be one request. */
static void keep_apart(const char *disk)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/nomerges", disk);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "2", 1) != 1)
		err(1, "%s", path);
	close(fd);
}

/* Blocks of the same memory, by io_uring and O_DIRECT. */
static void measure_disk(const char *name, const char *path, unsigned int n, unsigned int seed)
{
	const uint8_t opcodes[] = { KRDMA_OP_WRITE, KRDMA_OP_READ };
	const struct way way = { name, by_uring, true, 0 };
	unsigned int i;

	keep_apart(path + strlen("/dev/"));
	b.disk = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (b.disk < 0)
		err(1, "%s", path);
	b.memory = PINNED;
	b.length = SIZE;
	for (i = 0; i < 2; i++) {
		b.opcode = opcodes[i];
		measure(&way, DEPTH, n, seed);
		measure(&way, 1, n, seed);
	}
	close(b.disk);
	b.disk = 0;
}

static void measure_disks(unsigned int n, unsigned int seed)
{
	const char *nvme = "/dev/nvme0n1";
	struct krdma_blk_attach disk = {
		.size = sizeof(disk),
		/* The ways before have the export open. */
		.flags = KRDMA_BLK_SHARED,
		.dst = { .family = AF_INET },
		.src = { .family = AF_INET },
		.name = "bench",
	};
	char path[32];
	int fd = open("/dev/krdma_blk", O_RDWR | O_CLOEXEC);

	inet_pton(AF_INET, DST, disk.dst.addr);
	inet_pton(AF_INET, SRC, disk.src.addr);
	if (fd < 0 || ioctl(fd, KRDMA_BLK_ATTACH, &disk))
		err(1, "/dev/krdma_blk");
	snprintf(path, sizeof(path), "/dev/krdmab%u", disk.disk);
	measure_disk("disk-krdma", path, n, seed);
	close(fd);
	if (access(nvme, F_OK))
		return;
	/* The path below, where requests are made (native multipath). */
	if (!access("/sys/block/nvme0c0n1", F_OK))
		keep_apart("nvme0c0n1");
	measure_disk("disk-nvme", nvme, n, seed);
}

/* ---- longer ones, and digests ---- */

#define LONG_BYTES (1U << 20)
#define LONG_OPS   16

static void by_long(uint32_t region, uint32_t buffer, uint8_t opcode, uint16_t flags,
		    uint32_t length)
{
	struct krdma_completion done;
	struct krdma_op op = {
		.opcode = opcode,
		.flags = KRDMA_OPF_BUFFER | flags,
		.region = region,
		.length = length,
		.buffer = buffer,
	};
	struct krdma_ioc_submit submit = {
		.size = sizeof(submit),
		.ops = (uintptr_t)&op,
		.completions = (uintptr_t)&done,
		.count = 1,
		.op_stride = sizeof(op),
		.completion_stride = sizeof(done),
	};

	if (ioctl(b.fd, KRDMA_IOC_SUBMIT, &submit) || submit.failed)
		give_up("submit");
}

/* One after the other, by KRDMA_IOC_SUBMIT, from a registered buffer. */
static void measure_long(uint32_t session, unsigned int seed)
{
	static const struct {
		const char *what, *how;
		uint8_t opcode;
		uint16_t flags;
	} kinds[] = {
		{ "write", "plain", KRDMA_OP_WRITE, 0 },
		{ "write", "verified", KRDMA_OP_WRITE, KRDMA_OPF_VERIFY },
		{ "read", "plain", KRDMA_OP_READ, 0 },
		{ "read", "verified", KRDMA_OP_READ, KRDMA_OPF_VERIFY },
		{ "digest", "plain", KRDMA_OP_DIGEST, 0 },
	};
	struct krdma_ioc_export export = {
		.size = sizeof(export),
		.addr = (uintptr_t)pages(LONG_BYTES),
		.length = LONG_BYTES,
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
		.name = "long",
	};
	struct krdma_ioc_open region = { .size = sizeof(region),
					 .session = session,
					 .name = "long" };
	struct krdma_ioc_buffer buffer = {
		.size = sizeof(buffer),
		.flags = KRDMA_BUFFER_WRITABLE,
		.addr = (uintptr_t)pages(LONG_BYTES),
		.length = LONG_BYTES,
	};
	unsigned int k, i;
	uint32_t length;
	uint64_t t;

	if (ioctl(b.fd, KRDMA_IOC_EXPORT, &export) || ioctl(b.fd, KRDMA_IOC_OPEN, &region) ||
	    ioctl(b.fd, KRDMA_IOC_BUFFER, &buffer))
		give_up("longer operations");
	for (length = 64 << 10; length <= LONG_BYTES; length *= 16) {
		for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			by_long(region.id, buffer.id, kinds[k].opcode, kinds[k].flags, length);
			settle(seed);
			t = now();
			for (i = 0; i < LONG_OPS; i++)
				by_long(region.id, buffer.id, kinds[k].opcode, kinds[k].flags,
					length);
			t = now() - t;
			printf("insn-long: %s %u %s %u %llu\n", kinds[k].what, length, kinds[k].how,
			       LONG_OPS, (unsigned long long)t);
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	const uint8_t opcodes[] = { KRDMA_OP_WRITE, KRDMA_OP_READ, KRDMA_OP_SEND };
	const unsigned int depths[] = { DEPTH, 1 };
	unsigned int n, seed, i, w, m, d;
	uint64_t was;

	n = argc == 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	if (!n || n % DEPTH)
		errx(2, "usage: insn OPERATIONS SEED; the operations a multiple of %u", DEPTH);
	seed = (unsigned int)strtoul(argv[2], NULL, 10);
	set_up();
	was = idle();
	settle(0);
	if (idle() - was < 10000)
		errx(1, "the kernel does not know how long it was idle");
	for (i = 0; i < sizeof(opcodes); i++) {
		b.opcode = opcodes[i];
		b.length = b.opcode == KRDMA_OP_SEND ? MESSAGE : SIZE;
		for (d = 0; d < 2; d++) {
			measure_modules(depths[d], n, seed);
			for (w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
				/* Batches of one are the way before. */
				if (ways[w].move == by_async_batch && depths[d] == 1)
					continue;
				for (m = PINNED; m <= (ways[w].ring ? FIXED : BUFFER); m++) {
					b.memory = m;
					measure(&ways[w], depths[d], n, seed);
				}
			}
		}
	}
	measure_disks(n, seed);
	measure_long(b.session, seed);
	return 0;
}
