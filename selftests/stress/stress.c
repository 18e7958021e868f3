// SPDX-License-Identifier: GPL-2.0
/*
 * Races on purpose: two threads on two processors run each pair of operations of
 * /dev/krdma_mover concurrently. TAP, for selftests/stress/stress.sh.
 *
 * usage: stress [PEER [EXPORT]]	default: this host
 *
 * The objects (the "world") are a file with a session, a region, a buffer, asynchronous
 * operations and memory, another file with the export; a listener; the RDMA device; the module. Two
 * threads repeat the operations of a pair, until the slower thread has done enough of them. An
 * operation may return any errno. These are failures:
 *  - a pair that does not end in WATCHDOG seconds: prints both threads' operations
 *  - wrong bytes where a transfer reported success, or where no transfer writes
 *  - a missing or a second completion, or a transfer that does not end
 *  - a world that can't be made to work again after a pair
 *  - a tainted kernel
 *
 * The environment:
 *	SEED		of all choices; the moments are not repeatable
 *	ROUNDS		passes over all pairs (1), or
 *	SECONDS		for how long
 *	PAIRS		patterns of pairs to run: "write*cancel device*", or not to run: "!device*"
 *	EFFORT		percent of the iterations (100)
 *	DELAY		microseconds, at most, that one of ten fault points takes (0)
 *	WATCHDOG	seconds (60)
 *	VERBOSE		prints each pair
 *	TIME_FACTOR	factor of the time limits
 *	KRDMA_MODULE	the module's file, which is unloaded and loaded; default: neither
 *	LAB_RDMA, LAB_RDMA_DEV	the device, made anew on data0; default: it stays
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_uring.h"

#define PORT 7490
/* What is exported: bytes that nobody writes, places of each thread, and what anybody writes. */
#define EXPORT_BYTES (1UL << 20)
#define STILL_BYTES  (256UL << 10)
#define STILL_SEED   5
#define PLACE_BYTES  8192UL
#define PLACES       15
#define THREAD_BYTES ((PLACES + 1) * PLACE_BYTES)
#define THREAD_AT(i) (STILL_BYTES + (i)*THREAD_BYTES)
#define ANY_AT       (768UL << 10)
#define ANY_BYTES    (256UL << 10)
#define MAP_BYTES    (64UL << 10)
#define BURST        4
#define GUARD        0xee

struct thread {
	int nr, cpu;
	const struct operation *op;
	const char *volatile in; /* for the watchdog */
	unsigned int need;
	atomic_uint done, good;
	uint64_t random;
	pthread_t pthread;
	pid_t tid;
	/* Its memory, and what goes where. */
	unsigned char *out, *back, *sink;
	unsigned int seq;
	uint64_t *before, number; /* atomic operations */
	bool numbered;
	struct io_uring ring;
	bool ring_open;
};

struct operation {
	const char *name;
	void (*run)(struct thread *t);
	unsigned int need; /* iterations, at least */
	uint64_t done, good;
};

/* Children use it too. */
static struct world {
	int fd, target_fd; /* numbers that stay, of files that come and go */
	unsigned char *map;
	_Atomic uint32_t session, region, buffer, export;
	_Atomic uint32_t rights;
	atomic_uint accepted, reaped;
	atomic_bool swapped; /* nobody knows what became of some operations */
} * w;

static struct thread threads[2];
static pthread_barrier_t barrier;
static atomic_bool failed;
static struct __kernel_sockaddr_storage peer;
static const char *peer_export;
static bool alone; /* the peer is this host */
static unsigned char *exported;
static int export_memfd;
static const char *module, *device, *device_kind;
static unsigned int seed, delay_us, time_factor, watchdog_s;
static char pair_name[64];
static uint64_t op_timeout_ns;
static uint32_t connect_ms;

static struct operation operations[];

/* ---- chance ---- */

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static unsigned int below(struct thread *t, unsigned int n)
{
	return random_next(&t->random) % n;
}

/* ---- failures ---- */

static void again(void)
{
	kst_diag("again: SEED=%u ROUNDS=1 PAIRS='%s'", seed, pair_name);
}

static void __kst_printf(1, 2) fail(const char *fmt, ...)
{
	char text[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	kst_diag("FAILED: %s: %s", pair_name, text);
	if (!atomic_exchange(&failed, true))
		again();
}

static void show(const char *fmt, pid_t tid)
{
	char path[64], text[4096];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), fmt, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return;
	text[got] = '\0';
	kst_diag("%s:\n%s", path, text);
}

/* When the pair under way has to be over. */
static _Atomic time_t watched;

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static void *watchdog(void *unused)
{
	int i;

	(void)unused;
	while (now() < watched)
		sleep(1);
	printf("not ok - %s does not end\n", pair_name);
	again();
	for (i = 0; i < 2; i++) {
		kst_diag("thread %d, %u times %s: in %s", i, threads[i].done,
			 threads[i].op ? threads[i].op->name : "-", threads[i].in);
		show("/proc/self/task/%d/stack", threads[i].tid);
		show("/proc/self/task/%d/syscall", threads[i].tid);
	}
	show("/proc/%d/stack", getpid());
	fflush(stdout);
	_exit(1);
}

static long tainted(void)
{
	long mask = 0;
	FILE *file = fopen("/proc/sys/kernel/tainted", "r");

	if (file && fscanf(file, "%ld", &mask) != 1)
		mask = 0;
	if (file)
		fclose(file);
	/* Not by modules that are loaded: P, F, O, E. */
	return mask & ~(1L << 0 | 1L << 1 | 1L << 12 | 1L << 13);
}

/* ---- commands ---- */

static void command(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (!posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ))
		waitpid(pid, NULL, 0);
	posix_spawn_file_actions_destroy(&actions);
}

static void device_delete(void)
{
	command((char *[]){ "rdma", "link", "delete", (char *)device, NULL });
}

static void device_add(void)
{
	command((char *[]){ "rdma", "link", "add", (char *)device, "type", (char *)device_kind,
			    "netdev", "data0", NULL });
}

static void put(const char *name, int value)
{
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/krdma_mover_delay/%s", name);
	file = fopen(path, "w");
	if (!file)
		return;
	fprintf(file, "%d", value);
	fclose(file);
}

/* A module that was loaded anew has none. */
static void delays(unsigned int us)
{
	put("us", (int)us);
	put("times", -1);
	put("probability", us ? 10 : 0);
}

static bool module_load(void)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);
	bool loaded = fd >= 0 && !syscall(SYS_finit_module, fd, "", 0);

	close(fd);
	if (loaded && delay_us)
		delays(delay_us);
	return loaded;
}

static bool module_unload(void)
{
	return !syscall(SYS_delete_module, "krdma_mover", O_NONBLOCK);
}

/* ---- objects of the world; each takes the place of the one before ---- */

static void replace(int fd, _Atomic uint32_t *place, uint32_t id)
{
	uint32_t old = atomic_exchange(place, id);

	if (old)
		kst_destroy(fd, old);
}

/* Nothing takes its place yet. An id that is free may be that of the next object. */
static int end(int fd, _Atomic uint32_t *place)
{
	uint32_t id = *place;
	int rc = kst_destroy(fd, id);

	atomic_compare_exchange_strong(place, &id, 0);
	return rc;
}

static int connect_flags(int fd, uint32_t flags, uint32_t *id)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = flags | KRDMA_CONNECT_MESSAGES,
		.dst = peer,
		.timeout_ms = connect_ms,
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	*id = rc ? 0 : cmd.id;
	return rc;
}

static int open_region(int fd, uint32_t session, struct krdma_ioc_open *cmd)
{
	*cmd = (struct krdma_ioc_open){
		.size = sizeof(*cmd),
		.session = session,
		.timeout_ms = connect_ms,
	};
	snprintf(cmd->name, sizeof(cmd->name), "%s", peer_export);
	return kst_call(fd, KRDMA_IOC_OPEN, cmd);
}

static int make_session(uint32_t flags)
{
	uint32_t id;
	int rc = connect_flags(w->fd, flags, &id);

	if (!rc)
		replace(w->fd, &w->session, id);
	return rc;
}

static int make_region(void)
{
	struct krdma_ioc_open cmd;
	int rc = open_region(w->fd, w->session, &cmd);

	if (rc)
		return rc;
	w->rights = cmd.granted;
	replace(w->fd, &w->region, cmd.id);
	return 0;
}

static int make_buffer(void)
{
	uint32_t id;
	int rc = kst_buffer(w->fd, w->map, MAP_BYTES, KRDMA_BUFFER_WRITABLE, &id);

	if (!rc)
		replace(w->fd, &w->buffer, id);
	return rc;
}

/* Of the same memory each time, by its file or by its address. */
static int make_export(bool by_address)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = by_address ? 0 : KRDMA_EXPORT_FD,
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC |
			  KRDMA_RIGHT_MESSAGE,
		.fd = by_address ? 0 : export_memfd,
		.addr = by_address ? (uintptr_t)exported : 0,
		.length = EXPORT_BYTES,
		.name = "stress",
	};
	int rc = kst_call(w->target_fd, KRDMA_IOC_EXPORT, &cmd);

	if (!rc)
		replace(w->target_fd, &w->export, cmd.id);
	return rc;
}

static int make_listener(void)
{
	struct krdma_ioc_listen cmd = { .size = sizeof(cmd), .addr = kst_ipv4("0.0.0.0", PORT) };

	return kst_call(w->target_fd, KRDMA_IOC_LISTEN, &cmd);
}

static int end_listener(void)
{
	struct krdma_ioc_unlisten cmd = { .size = sizeof(cmd), .addr = kst_ipv4("0.0.0.0", PORT) };

	return kst_call(w->target_fd, KRDMA_IOC_UNLISTEN, &cmd);
}

/* Another file at that number; the one before is closed when its last call returns. */
static bool swap_file(int number, const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	if (number == w->fd)
		w->swapped = true;
	dup3(fd, number, O_CLOEXEC);
	close(fd);
	return true;
}

/* What was made anew is ended no sooner than the other thread could use it. */
static void give_way(struct thread *t)
{
	struct thread *other = &threads[!t->nr];
	unsigned int seen = other->done + 1 + below(t, 3);
	struct timespec ts;
	uint64_t until, ns;

	t->in = "waiting for the other thread";
	clock_gettime(CLOCK_MONOTONIC, &ts);
	until = ts.tv_sec * 1000000000ULL + ts.tv_nsec + 20000000ULL * time_factor;
	do {
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	} while (other->done < seen && ns < until);
}

/* ---- operations ---- */

static struct krdma_op an_op(int opcode, uint64_t offset, const void *addr, uint64_t length)
{
	struct krdma_op op = kst_op(opcode, w->region, offset, addr, length);

	op.timeout_ns = op_timeout_ns;
	return op;
}

/* As a good one, or what it is otherwise. */
static int submit_one(struct krdma_op *op)
{
	struct krdma_completion comp = { .status = -ENODATA };
	int rc = kst_submit(w->fd, op, &comp, 1, NULL);

	if (!rc && !comp.status && op->opcode != KRDMA_OP_SEND && comp.result != op->length)
		fail("opcode %u: %llu of %llu bytes, and no error", op->opcode, comp.result,
		     op->length);
	return rc ? rc : comp.status;
}

/* Bytes that nobody writes. */
static int read_still(struct thread *t)
{
	unsigned int length = 1 + below(t, PLACE_BYTES), at = below(t, STILL_BYTES - length);
	struct krdma_op op = an_op(KRDMA_OP_READ, at, t->back, length);
	long wrong;
	int rc;

	if (below(t, 4) == 0)
		op.flags |= KRDMA_OPF_VERIFY;
	memset(t->back, GUARD, PLACE_BYTES + 64);
	rc = submit_one(&op);
	if (!rc) {
		wrong = kst_check(t->back, at, length, STILL_SEED);
		if (wrong >= 0)
			fail("READ at %u of %u bytes: byte %ld is not that of the export", at,
			     length, wrong);
	}
	if (!kst_all(t->back + length, 64, GUARD))
		fail("READ of %u bytes wrote behind them", length);
	return rc;
}

/* To a place of this thread: what was late for it before can't come to it any more. */
static int write_and_read(struct thread *t)
{
	unsigned int n = t->seq++, length = 1 + below(t, PLACE_BYTES);
	uint64_t at = THREAD_AT(t->nr) + n % PLACES * PLACE_BYTES;
	struct krdma_op op;
	long wrong;
	int rc;

	kst_fill(t->out, n, length, n);
	op = an_op(KRDMA_OP_WRITE, at, t->out, length);
	if (below(t, 4) == 0)
		op.flags |= below(t, 2) ? KRDMA_OPF_VERIFY : KRDMA_OPF_PLACED;
	rc = submit_one(&op);
	if (rc)
		return rc;
	op = an_op(KRDMA_OP_READ, at, t->back, length);
	memset(t->back, GUARD, length);
	rc = submit_one(&op);
	if (rc)
		return rc;
	wrong = kst_check(t->back, n, length, n);
	if (wrong >= 0)
		fail("WRITE %u of %u bytes, read back: byte %ld is another", n, length, wrong);
	return 0;
}

/* Memory that comes and goes, to where anybody writes or from where nobody does. */
static struct krdma_op stray_op(struct thread *t)
{
	unsigned int length = 1 + below(t, 4 * PLACE_BYTES), at = below(t, MAP_BYTES - length);
	bool reads = below(t, 2);
	struct krdma_op op = an_op(reads ? KRDMA_OP_READ : KRDMA_OP_WRITE,
				   reads ? below(t, STILL_BYTES - length) :
					   ANY_AT + below(t, ANY_BYTES - length),
				   w->map + at, length);

	if (below(t, 2)) {
		op.flags |= KRDMA_OPF_BUFFER;
		op.buffer = w->buffer;
		op.addr = at;
	}
	if (below(t, 8) == 0)
		op.flags |= KRDMA_OPF_AFTER;
	if (below(t, 8) == 0)
		op.timeout_ns = 1 + below(t, 2000000);
	op.user_data = 1 + below(t, 4);
	return op;
}

static void run_write(struct thread *t)
{
	struct krdma_op op;

	if (below(t, 4)) {
		t->good += !write_and_read(t);
		return;
	}
	op = stray_op(t);
	t->good += !submit_one(&op);
}

static void run_read(struct thread *t)
{
	t->good += !read_still(t);
}

static void run_atomic(struct thread *t)
{
	struct krdma_op op =
		an_op(KRDMA_OP_FETCH_ADD, THREAD_AT(t->nr) + PLACES * PLACE_BYTES, t->before, 8);
	int rc;

	op.operand = 1;
	rc = submit_one(&op);
	/* Of one that failed nobody knows whether it was done. */
	if (!rc && t->numbered && *t->before != t->number + 1)
		fail("FETCH_ADD found %llu, and not %llu", (unsigned long long)*t->before,
		     (unsigned long long)t->number + 1);
	t->numbered = !rc;
	t->number = *t->before;
	t->good += !rc;
}

static void run_message_queue(struct thread *t)
{
	uint64_t buf[1024];
	int fd = kst_message_queue(w->target_fd, w->export, KRDMA_MESSAGE_QUEUE_NONBLOCK);

	if (fd < 0)
		return;
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
	t->good++;
}

static void run_send(struct thread *t)
{
	struct krdma_op op = an_op(KRDMA_OP_SEND, 0, t->out, below(t, 200));

	/* For want of a reader they come to wait. */
	if (below(t, 16) == 0)
		run_message_queue(t);
	op.timeout_ns = 10000000 * time_factor;
	t->good += !submit_one(&op);
}

static int start(struct thread *t)
{
	struct krdma_op ops[BURST];
	__u32 n = 1 + below(t, BURST), i, accepted;
	int rc;

	for (i = 0; i < n; i++)
		ops[i] = stray_op(t);
	rc = kst_start(w->fd, ops, n, &accepted);
	w->accepted += accepted;
	return rc;
}

static void run_async(struct thread *t)
{
	t->good += !start(t);
}

static void run_cancel(struct thread *t)
{
	start(t);
	t->good += (below(t, 2) ? kst_cancel(w->fd, 0, KRDMA_CANCEL_ALL) :
				  kst_cancel(w->fd, 1 + below(t, 4), 0)) > 0;
}

static void run_reap(struct thread *t)
{
	struct krdma_completion comps[BURST];
	int n;

	start(t);
	n = kst_reap(w->fd, comps, 1 + below(t, BURST));
	if (n > 0)
		w->reaped += (unsigned int)n;
	t->good += n > 0;
}

/* What is in it is cancelled, but not waited for: its memory may still be filled. */
static void ring_close(struct thread *t)
{
	if (!t->ring_open)
		return;
	io_uring_queue_exit(&t->ring);
	t->ring_open = false;
	munmap(t->sink, BURST * PLACE_BYTES);
	t->sink = kst_map(BURST * PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void run_uring(struct thread *t)
{
	unsigned int n = 1 + below(t, BURST), length = 1 + below(t, PLACE_BYTES), i, at[BURST];
	struct io_uring_cqe *cqe;
	struct krdma_op op;
	bool fixed;
	int got;

	if (!t->ring_open)
		t->ring_open = kst_ring_open(&t->ring, 8, 0, t->sink, BURST * PLACE_BYTES);
	if (!t->ring_open)
		return;
	for (i = 0; i < n; i++) {
		at[i] = below(t, STILL_BYTES - length);
		fixed = below(t, 2);
		op = an_op(KRDMA_OP_READ, at[i], t->sink + i * PLACE_BYTES, length);
		op.user_data = 1 + below(t, 4);
		kst_ring_op(&t->ring, w->fd, &op, i, fixed);
	}
	t->in = "io_uring_submit";
	got = io_uring_submit(&t->ring);
	if (below(t, 8) == 0) {
		t->in = "the end of a ring";
		ring_close(t);
		return;
	}
	t->in = "io_uring_wait_cqe";
	for (; got > 0; got--) {
		if (kst_ring_wait(&t->ring, &cqe))
			break;
		i = (unsigned int)cqe->user_data;
		if (cqe->res == (int)length &&
		    kst_check(t->sink + i * PLACE_BYTES, at[i], length, STILL_SEED) >= 0)
			fail("READ by io_uring at %u of %u bytes: other bytes", at[i], length);
		t->good += cqe->res == (int)length;
		io_uring_cqe_seen(&t->ring, cqe);
	}
}

/* The new file has a session and a region when it takes the place of the old one. */
static void run_close(struct thread *t)
{
	struct krdma_ioc_open cmd;
	uint32_t session;
	int fd;

	/* Its name was taken until the file before had ended. */
	if (!w->export)
		make_export(below(t, 2));
	if (below(t, 4) == 0) {
		if (swap_file(w->target_fd, "/dev/krdma_mover")) {
			w->export = 0;
			t->good += !make_export(below(t, 2));
			make_region();
			give_way(t);
		}
		return;
	}
	fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (!connect_flags(fd, 0, &session) && !open_region(fd, session, &cmd)) {
		w->swapped = true;
		w->session = session;
		w->region = cmd.id;
		w->buffer = 0;
		dup3(fd, w->fd, O_CLOEXEC);
		t->good += !make_buffer();
	}
	t->in = "close";
	close(fd);
	give_way(t);
}

/* A child that has written to all its memory, and may use the file as well. */
static void child(struct thread *t, bool exec)
{
	pid_t pid;

	t->in = "fork";
	pid = fork();
	if (pid < 0)
		return;
	if (!pid) {
		struct krdma_op op = an_op(KRDMA_OP_WRITE, ANY_AT, t->out, PLACE_BYTES);
		__u32 accepted;

		memset(t->out, 1, PLACE_BYTES);
		memset(t->back, 2, PLACE_BYTES);
		memset(t->sink, 3, BURST * PLACE_BYTES);
		if (below(t, 2)) {
			kst_start(w->fd, &op, 1, &accepted);
			w->accepted += accepted;
		}
		if (exec) {
			/* It has the file until it ends. */
			if (below(t, 2))
				fcntl(w->fd, F_SETFD, 0);
			execl("/bin/true", "true", NULL);
		}
		_exit(0);
	}
	t->in = "waitpid";
	waitpid(pid, NULL, 0);
	t->good++;
}

static void run_fork(struct thread *t)
{
	child(t, false);
}

static void run_exec(struct thread *t)
{
	child(t, true);
}

/* Nothing else may come to be at that address, so the hole is not one for others. */
static void run_munmap(struct thread *t)
{
	if (below(t, 4) == 0) {
		madvise(w->map, MAP_BYTES, MADV_DONTNEED);
	} else {
		mmap(w->map, MAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		mmap(w->map, MAP_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	t->good++;
}

static void run_end_session(struct thread *t)
{
	t->good += !end(w->fd, &w->session);
	t->in = "connect";
	make_session(below(t, 2) ? KRDMA_CONNECT_PRIVATE : 0);
	t->in = "open";
	make_region();
	give_way(t);
}

static void run_end_region(struct thread *t)
{
	t->good += !end(w->fd, &w->region);
	make_region();
	give_way(t);
}

static void run_end_buffer(struct thread *t)
{
	t->good += !end(w->fd, &w->buffer);
	make_buffer();
	give_way(t);
}

static void run_end_export(struct thread *t)
{
	t->good += !end(w->target_fd, &w->export);
	make_export(below(t, 2));
	t->in = "open";
	make_region();
	give_way(t);
}

static void run_unlisten(struct thread *t)
{
	t->good += !end_listener();
	make_listener();
	t->in = "connect";
	make_session(0);
	t->in = "open";
	make_region();
	give_way(t);
}

static void run_connect(struct thread *t)
{
	uint32_t id;

	if (!connect_flags(w->fd, below(t, 4) ? KRDMA_CONNECT_PRIVATE : 0, &id)) {
		t->in = "disconnect";
		t->good += !kst_destroy(w->fd, id);
	}
}

static void run_open(struct thread *t)
{
	struct krdma_ioc_open cmd;

	if (!open_region(w->fd, w->session, &cmd))
		t->good += !kst_destroy(w->fd, cmd.id);
}

static void run_ping(struct thread *t)
{
	struct krdma_ioc_ping cmd = {
		.size = sizeof(cmd),
		.session = w->session,
		.length = below(t, KRDMA_PING_MAX),
		.timeout_ms = connect_ms,
	};

	t->good += !kst_call(w->fd, KRDMA_IOC_PING, &cmd);
}

static int list(int kind, void *entries, unsigned int stride, unsigned int count)
{
	bool peer = kind == KRDMA_LIST_PEER_EXPORTS || kind == KRDMA_LIST_ADDRESSES;
	struct krdma_ioc_list cmd = {
		.size = sizeof(cmd),
		.kind = kind,
		.session = peer ? w->session : 0,
		.entries = (uintptr_t)entries,
		.stride = stride,
		.count = count,
	};
	int rc = kst_call(w->fd, KRDMA_IOC_LIST, &cmd);

	return rc ? rc : (int)cmd.count;
}

static void run_list(struct thread *t)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	unsigned char entries[16 * 256];
	struct krdma_ioc_last_error last = { .size = sizeof(last) };
	int kind;

	for (kind = KRDMA_LIST_DEVICES; kind <= KRDMA_LIST_GRANTS; kind++)
		t->good += list(kind, entries, 256, 16) >= 0;
	kst_call(w->fd, KRDMA_IOC_QUERY, &query);
	kst_call(w->fd, KRDMA_IOC_LAST_ERROR, &last);
}

static void run_eventfd(struct thread *t)
{
	struct krdma_ioc_eventfd cmd = { .size = sizeof(cmd), .fd = eventfd(0, EFD_CLOEXEC) };

	t->good += !kst_call(w->fd, KRDMA_IOC_EVENTFD, &cmd);
	close(cmd.fd);
	cmd.fd = -1;
	if (below(t, 2))
		kst_call(w->fd, KRDMA_IOC_EVENTFD, &cmd);
}

static void run_device(struct thread *t)
{
	if (!device)
		return;
	t->in = "rdma link delete";
	device_delete();
	t->in = "rdma link add";
	device_add();
	t->good++;
	/* The listener would have it a second later. */
	t->in = "unlisten";
	end_listener();
	make_listener();
	t->in = "connect";
	make_session(0);
	t->in = "open";
	make_region();
	give_way(t);
}

static void remake(struct thread *t);

/* With a file that is open it is refused, so they are closed now and then. */
static void run_unload(struct thread *t)
{
	bool closed = below(t, 4) == 0;
	int tries;

	if (!module)
		return;

	if (closed) {
		swap_file(w->fd, "/dev/null");
		swap_file(w->target_fd, "/dev/null");
	}
	t->in = "delete_module";
	for (tries = 0; tries < 3; tries++) {
		if (!module_unload())
			continue;
		t->good++;
		closed = true;
		t->in = "init_module";
		module_load();
		break;
	}
	if (!closed)
		return;
	t->in = "a new world";
	swap_file(w->fd, "/dev/krdma_mover");
	swap_file(w->target_fd, "/dev/krdma_mover");
	remake(t);
	give_way(t);
}

static struct operation operations[] = {
	{ "write", run_write, 24, 0, 0 },
	{ "read", run_read, 24, 0, 0 },
	{ "atomic", run_atomic, 24, 0, 0 },
	{ "send", run_send, 12, 0, 0 },
	{ "async", run_async, 24, 0, 0 },
	{ "cancel", run_cancel, 24, 0, 0 },
	{ "reap", run_reap, 24, 0, 0 },
	{ "uring", run_uring, 12, 0, 0 },
	{ "close", run_close, 6, 0, 0 },
	{ "fork", run_fork, 4, 0, 0 },
	{ "exec", run_exec, 3, 0, 0 },
	{ "munmap", run_munmap, 24, 0, 0 },
	{ "end-session", run_end_session, 6, 0, 0 },
	{ "end-region", run_end_region, 12, 0, 0 },
	{ "end-buffer", run_end_buffer, 12, 0, 0 },
	{ "end-export", run_end_export, 8, 0, 0 },
	{ "unlisten", run_unlisten, 4, 0, 0 },
	{ "connect", run_connect, 6, 0, 0 },
	{ "open", run_open, 12, 0, 0 },
	{ "ping", run_ping, 24, 0, 0 },
	{ "list", run_list, 12, 0, 0 },
	{ "queue", run_message_queue, 12, 0, 0 },
	{ "eventfd", run_eventfd, 24, 0, 0 },
	{ "device", run_device, 2, 0, 0 },
	{ "unload", run_unload, 4, 0, 0 },
};

#define OPERATIONS KST_ARRAY_SIZE(operations)

/* ---- the world ---- */

/* What is lacking is made; what is there already is refused. */
static void remake(struct thread *t)
{
	w->session = w->region = w->buffer = w->export = 0;
	make_listener();
	make_export(below(t, 2));
	make_session(0);
	make_region();
	make_buffer();
}

/* By all of it, but the listener: who made it fails. */
static int try_world(struct thread *t)
{
	struct krdma_op op;
	int rc;

	rc = make_listener();
	if (rc && rc != -EEXIST)
		return rc;
	rc = write_and_read(t);
	if (rc)
		return rc;
	op = an_op(KRDMA_OP_WRITE, ANY_AT, NULL, PLACE_BYTES);
	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = w->buffer;
	return submit_one(&op);
}

/* Whoever is not this host has not written its bytes. */
static int write_still(void)
{
	struct krdma_op op = an_op(KRDMA_OP_WRITE, 0, exported, STILL_BYTES);

	op.timeout_ns = KST_TIMEOUT_NS;
	return alone ? 0 : submit_one(&op);
}

static bool mend(struct thread *t)
{
	time_t until = now() + 40 * time_factor;
	int tries, rc = 0;

	for (tries = 0; now() < until; tries++) {
		rc = try_world(t);
		if (!rc)
			return true;
		if (module && access("/sys/module/krdma_mover", F_OK))
			module_load();
		if (device && tries)
			device_add();
		if (tries > 1)
			end_listener();
		swap_file(w->fd, "/dev/krdma_mover");
		swap_file(w->target_fd, "/dev/krdma_mover");
		remake(t);
		if (tries)
			usleep(20000);
	}
	fail("the world can't be made to work again: %s", strerror(-rc));
	return false;
}

static void drain(void)
{
	struct krdma_completion comps[64];
	struct krdma_transfer_info transfers[16];
	time_t until = now() + 30 * time_factor;
	int n;

	kst_cancel(w->fd, 0, KRDMA_CANCEL_ALL);
	/* Waits for those under way; without any it does not. */
	fcntl(w->fd, F_SETFL, 0);
	while ((n = kst_reap(w->fd, comps, KST_ARRAY_SIZE(comps))) > 0)
		w->reaped += (unsigned int)n;
	fcntl(w->fd, F_SETFL, O_NONBLOCK);
	if (!w->swapped && w->accepted != w->reaped)
		fail("%u operations and %u completions", w->accepted, w->reaped);
	w->accepted = w->reaped = 0;
	w->swapped = false;
	/* Of files that were closed. */
	do {
		n = list(KRDMA_LIST_TRANSFERS, transfers, sizeof(transfers[0]),
			 KST_ARRAY_SIZE(transfers));
	} while (n > 0 && now() < until && !usleep(1000));
	if (n > 0)
		fail("%d transfers stay, the first with opcode %u, which waits for %u", n,
		     transfers[0].opcode, transfers[0].wait);
}

/* ---- pairs ---- */

static void *run(void *arg)
{
	struct thread *t = arg, *other = &threads[!t->nr];
	cpu_set_t cpu;

	t->tid = gettid();
	CPU_ZERO(&cpu);
	CPU_SET(t->cpu, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	pthread_barrier_wait(&barrier);
	while ((t->done < t->need || other->done < other->need) && !failed) {
		t->in = t->op->name;
		t->op->run(t);
		t->done++;
	}
	t->in = "its end";
	ring_close(t);
	return NULL;
}

static bool pair_is_wanted(const char *patterns, unsigned int a, unsigned int b)
{
	char forth[64], back[64], text[500], *each, *rest = text;
	bool wanted = false, only = false, no;

	snprintf(forth, sizeof(forth), "%s*%s", operations[a].name, operations[b].name);
	snprintf(back, sizeof(back), "%s*%s", operations[b].name, operations[a].name);
	snprintf(text, sizeof(text), "%s", patterns);
	while ((each = strsep(&rest, " ,\t"))) {
		no = *each == '!';
		only |= *each && !no;
		if (!*each || (fnmatch(each + no, forth, 0) && fnmatch(each + no, back, 0)))
			continue;
		if (no)
			return false;
		wanted = true;
	}
	return wanted || !only;
}

static void run_pair(unsigned int a, unsigned int b, unsigned int effort, const cpu_set_t *cpus)
{
	static long taint = -1;
	int i, cpu = -1;

	if (taint < 0)
		taint = tainted();
	snprintf(pair_name, sizeof(pair_name), "%s*%s", operations[a].name, operations[b].name);
	watched = now() + watchdog_s * time_factor;
	for (i = 0; i < 2; i++) {
		struct thread *t = &threads[i];

		do {
			cpu = (cpu + 1) % CPU_SETSIZE;
		} while (!CPU_ISSET(cpu, cpus));
		t->cpu = cpu;
		t->op = &operations[i ? b : a];
		t->need = 1 + t->op->need * effort / 100;
		t->done = t->good = 0;
		t->numbered = false;
		/* The pair alone has the same choices as among all. */
		t->random = (uint64_t)seed << 32 | a << 16 | b << 8 | (unsigned int)i;
	}
	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i].pthread, NULL, run, &threads[i]))
			kst_bail("pthread_create");
	for (i = 0; i < 2; i++)
		pthread_join(threads[i].pthread, NULL);
	for (i = 0; i < 2; i++) {
		operations[i ? b : a].done += threads[i].done;
		operations[i ? b : a].good += threads[i].good;
	}
	if (getenv("VERBOSE"))
		kst_diag("%s: %u of %u, %u of %u", pair_name, threads[0].good, threads[0].done,
			 threads[1].good, threads[1].done);
	watched = now() + (watchdog_s + 60) * time_factor;
	threads[0].in = threads[1].in = "the look at the world";
	drain();
	mend(&threads[0]);
	if (alone && kst_check(exported, 0, STILL_BYTES, STILL_SEED) >= 0)
		fail("bytes that nobody writes have changed");
	if (tainted() != taint) {
		fail("the kernel is tainted: %lx", tainted());
		taint = tainted();
	}
}

/* ---- beginning and end ---- */

static void setup(void)
{
	int i, fd;

	w = kst_map(sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED);
	w->map = kst_map(MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	export_memfd = memfd_create("stress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (export_memfd < 0 || ftruncate(export_memfd, EXPORT_BYTES) ||
	    fcntl(export_memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		kst_bail("a memfd: %s", strerror(errno));
	exported = mmap(NULL, EXPORT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, export_memfd, 0);
	if (exported == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
	kst_fill(exported, 0, STILL_BYTES, STILL_SEED);
	for (i = 0; i < 2; i++) {
		threads[i].nr = i;
		threads[i].out = kst_map(2 * PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		threads[i].back = kst_map(2 * PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		threads[i].sink = kst_map(BURST * PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		threads[i].before = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	}
	fd = kst_open();
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	w->target_fd = fcntl(fd, F_DUPFD_CLOEXEC, 101);
	close(fd);
	swap_file(w->fd, "/dev/krdma_mover");
	swap_file(w->target_fd, "/dev/krdma_mover");
	remake(&threads[0]);
	pthread_barrier_init(&barrier, NULL, 2);
}

static bool pass(const char *patterns, unsigned int effort, const cpu_set_t *cpus, bool rows,
		 unsigned int *pairs)
{
	unsigned int a, b, n;
	bool good = true;

	for (a = 0; a < OPERATIONS; a++) {
		bool row_good = true;

		for (b = a, n = 0; b < OPERATIONS; b++) {
			if (!pair_is_wanted(patterns, a, b))
				continue;
			failed = false;
			run_pair(a, b, effort, cpus);
			row_good &= !failed;
			n++;
		}
		*pairs += n;
		good &= row_good;
		if (rows && n)
			kst_ok(row_good, "%s beside each of %u operations", operations[a].name, n);
	}
	return good;
}

int main(int argc, char **argv)
{
	unsigned int rounds = kst_number("ROUNDS", 1), seconds = kst_number("SECONDS", 0);
	unsigned int effort = kst_number("EFFORT", 100), pairs = 0, i, round;
	const char *patterns = getenv("PAIRS") ?: "";
	time_t began = now();
	pthread_t dog;
	cpu_set_t cpus;
	bool good;

	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = kst_number("SEED", (unsigned int)time(NULL) % 1000000);
	delay_us = kst_number("DELAY", 0);
	watchdog_s = kst_number("WATCHDOG", 60);
	time_factor = kst_number("TIME_FACTOR", 1);
	op_timeout_ns = 500000000ULL * time_factor;
	connect_ms = 2000 * time_factor;
	module = getenv("KRDMA_MODULE");
	device = getenv("LAB_RDMA_DEV");
	device_kind = getenv("LAB_RDMA");
	if (!device_kind)
		device = NULL;
	alone = argc < 2;
	peer = kst_ipv4(alone ? "10.77.0.1" : argv[1], PORT);
	peer_export = argc < 3 ? "stress" : argv[2];
	sched_getaffinity(0, sizeof(cpus), &cpus);
	kst_diag("SEED=%u DELAY=%u, %d processors", seed, delay_us, CPU_COUNT(&cpus));

	setup();
	if (delay_us)
		delays(delay_us);
	watched = now() + watchdog_s * time_factor;
	snprintf(pair_name, sizeof(pair_name), "the beginning");
	if (pthread_create(&dog, NULL, watchdog, NULL))
		kst_bail("pthread_create");
	if (!mend(&threads[0]) || write_still())
		kst_bail("there is no peer");
	drain();
	for (round = 0; seconds ? now() < began + (time_t)seconds : round < rounds; round++) {
		bool rows = !seconds && rounds == 1;

		good = pass(patterns, effort, &cpus, rows, &pairs);
		if (!rows)
			kst_ok(good, "pass %u, with SEED=%u", round + 1, seed);
		seed++;
	}
	for (i = 0; i < OPERATIONS; i++)
		if (operations[i].done)
			kst_diag("%-12s %8llu times, %8llu good", operations[i].name,
				 (unsigned long long)operations[i].done,
				 (unsigned long long)operations[i].good);
	kst_diag("%u pairs in %ld s", pairs, (long)(now() - began));
	watched = now() + watchdog_s * time_factor;
	snprintf(pair_name, sizeof(pair_name), "the end");
	delays(0);
	close(w->fd);
	end_listener();
	close(w->target_fd);
	return kst_done();
}
