// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: the interface of /dev/krdma_mover, with a live peer.
 *
 * An input is a sequence of calls: a byte selects the call, the following bytes its struct. Most
 * of the struct is valid (ids of earlier calls, mapped memory, names of the peer's exports); then
 * some words may be overwritten. Pointers never come from the input, so the kernel writes only to
 * memory that the fuzzer assigns.
 *
 * Connecting is slow, so file 0 keeps a session with the peer and one with this host, with regions
 * and a buffer, from input to input. All other objects end with the input. libFuzzer's extra
 * counters are the module's coverage of the calling thread (KCOV, if the kernel has it), and the
 * errnos of each call.
 *
 * An input fails if a call returns an errno that the header does not name, if an operation does
 * not have exactly one completion, or if the kernel is tainted, as by KASAN and warnings.
 *
 * The environment:
 *	FUZZ_PEER, FUZZ_SELF	addresses of the target and of this host
 *	FUZZ_CURRENT		a file for the input that runs
 *	FUZZ_BLOCKS		a file for the offsets of the covered blocks
 *	FUZZ_VERBOSE		prints each call
 *	TIME_FACTOR		factor of the time limits
 * The peer exports "fuzz", with all rights except messages, and "fuzz-messages", which
 * takes messages.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcov.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst_uring.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- coverage ---- */

/* More than the module has blocks; libFuzzer looks at all of them after each input. */
#define BLOCKS_MAX 16384
/* Longest distance of code of the module from its beginning. */
#define TEXT_MAX (4UL << 20)
#define KCOV_PCS (1UL << 18)
#define ERRNOS   136

enum step {
	STEP_QUERY,
	STEP_LAST_ERROR,
	STEP_DESTROY,
	STEP_LIST,
	STEP_LISTEN,
	STEP_UNLISTEN,
	STEP_CONNECT,
	STEP_PING,
	STEP_BUFFER,
	STEP_EXPORT,
	STEP_OPEN,
	STEP_SUBMIT,
	STEP_CANCEL,
	STEP_EVENTFD,
	STEP_QUEUE,
	STEP_MONITOR,
	STEP_RAW,
	STEP_READ,
	STEP_POLL,
	STEP_CLOSE,
	STEP_DUP,
	STEP_NONBLOCK,
	STEP_QUEUE_READ,
	STEP_QUEUE_CLOSE,
	STEP_URING_OP,
	STEP_URING_OTHER,
	STEP_URING_FLUSH,
	STEP_URING_END,
	STEP_MEMORY,
	STEPS,
};

/* libFuzzer clears all of the section, and takes what is not zero for a feature. */
static struct {
	uint8_t blocks[BLOCKS_MAX];
	uint8_t results[STEPS][ERRNOS];
} features __attribute__((section("__libfuzzer_extra_counters")));

static unsigned long *kcov; /* how many, then the PCs of this thread */
static unsigned long text;  /* where the module's code begins */
/* The number of a block, by its place: from 1 on, in the order in which they were met. */
static uint16_t block_of[TEXT_MAX];
static unsigned int nblocks;

static unsigned long read_number(const char *path, int base)
{
	char line[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, line, sizeof(line) - 1) < 0)
		line[0] = 0;
	close(fd);
	return strtoul(line, NULL, base);
}

static void kcov_open(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	void *area;

	text = read_number("/sys/module/krdma_mover/sections/.text", 16);
	if (fd < 0 || !text || ioctl(fd, KCOV_INIT_TRACE, KCOV_PCS)) {
		fprintf(stderr, "fuzz: no KCOV: without coverage of the module\n");
		return;
	}
	area = mmap(NULL, KCOV_PCS * sizeof(*kcov), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED || ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		kst_bail("KCOV: %s", strerror(errno));
	kcov = area;
}

static void kcov_begin(void)
{
	if (kcov)
		__atomic_store_n(&kcov[0], 0, __ATOMIC_RELAXED);
}

static void kcov_end(void)
{
	unsigned long n = kcov ? __atomic_load_n(&kcov[0], __ATOMIC_RELAXED) : 0, i, at;
	uint8_t *count;

	for (i = 1; i <= n; i++) {
		at = kcov[i] - text;
		if (at >= TEXT_MAX)
			continue;
		if (!block_of[at] && nblocks < BLOCKS_MAX - 1)
			block_of[at] = ++nblocks;
		count = &features.blocks[block_of[at]];
		*count += *count != 0xff;
	}
}

/* ---- the input ---- */

static const uint8_t *in;
static size_t in_left;

static uint8_t byte(void)
{
	if (!in_left)
		return 0;
	in_left--;
	return *in++;
}

static __u32 word(void)
{
	__u32 w = byte();

	w |= byte() << 8;
	w |= byte() << 16;
	return w | (__u32)byte() << 24;
}

/* One of 256 that is below @n. */
static bool rarely(unsigned int n)
{
	return byte() > 255 - n;
}

static __u32 any_word(void)
{
	static const __u32 likely[] = {
		0,   1,    2,    3,    4,    5,    6,          7,          8,   16,      64,
		96,  112,  512,  4095, 4096, 4097, 8192,       65536,      ~0U, ~0U - 1, 1U << 20,
		128, 1024, 1025, 256,  8,    7471, 0x7fffffff, 0x80000000, 24,  32,      40,
	};
	uint8_t which = byte();

	return which < 192 ? likely[which % KST_ARRAY_SIZE(likely)] : word();
}

/* ---- memory ---- */

#define ARENA_PAGES 64
#define ARENA_BYTES (ARENA_PAGES * KST_PAGE)
/* More than a LIST or SUBMIT writes, or reads, behind the place where it begins. */
#define GUARD_BYTES (16UL << 20)
/* Operations of a SUBMIT, then their vectors. */
#define BATCH_MAX   8
#define STRIDE_MAX  256
#define VECTOR_MAX  8
#define AREA_BYTES  (8 * KST_PAGE)
#define FIXED_BYTES (16 * KST_PAGE)

static unsigned char *arena, *read_only, *fixed;
static bool arena_changed;
static int zero_fd, event_fd, plain_memfd, sealed_memfd, write_sealed_memfd;

/* Nothing behind it may be taken for an operation. */
struct area {
	unsigned char ops[BATCH_MAX * STRIDE_MAX];
	struct krdma_vec vecs[2 * BATCH_MAX][VECTOR_MAX];
	struct krdma_prefix allow[4];
};

static struct area *areas[2]; /* of this thread, of the other one */

static unsigned char *guarded(size_t bytes)
{
	unsigned char *mem =
		kst_map(bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);

	mem += GUARD_BYTES;
	if (mprotect(mem, bytes, PROT_READ | PROT_WRITE))
		kst_bail("mprotect: %s", strerror(errno));
	return mem;
}

static __u64 any_pointer(void)
{
	uint8_t which = byte();

	if (which < 224)
		return (uintptr_t)arena + which % ARENA_PAGES * KST_PAGE +
		       (which & 64 ? byte() * 16 : 0);
	switch (which % 8) {
	case 0:
		return 0;
	case 1:
		return byte();
	case 2:
		return (uintptr_t)read_only + byte();
	case 3:
		return (uintptr_t)arena - byte();
	case 4:
		return (uintptr_t)arena + ARENA_BYTES - byte();
	case 5:
		return ~0ULL - byte() * 32;
	case 6:
		return 0xffff888000000000ULL + word();
	default:
		return (uintptr_t)arena + word() % ARENA_BYTES;
	}
}

static __u64 any_length(void)
{
	static const __u64 likely[] = {
		0,
		1,
		2,
		8,
		64,
		512,
		4095,
		4096,
		4097,
		8192,
		65536,
		65537,
		131072,
		1ULL << 20,
		1ULL << 30,
		1ULL << 32,
		(1ULL << 32) - 1,
		1ULL << 40,
		1ULL << 63,
		~0ULL,
		~0ULL - 4095,
	};
	uint8_t which = byte();

	if (which < 128)
		return 1 + which * 64;
	if (which < 224)
		return likely[which % 14];
	return which < 248 ? likely[which % KST_ARRAY_SIZE(likely)] : (__u64)word() << 32 | word();
}

static void memory_open(void)
{
	size_t i;

	arena = guarded(ARENA_BYTES);
	for (i = 0; i < KST_ARRAY_SIZE(areas); i++)
		areas[i] = (void *)guarded(AREA_BYTES);
	_Static_assert(sizeof(struct area) <= AREA_BYTES, "an area has room");
	fixed = guarded(FIXED_BYTES);
	read_only = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	zero_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	plain_memfd = memfd_create("fuzz", MFD_CLOEXEC);
	sealed_memfd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	write_sealed_memfd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (zero_fd < 0 || event_fd < 0 || ftruncate(plain_memfd, 1 << 20) ||
	    ftruncate(sealed_memfd, 1 << 20) || ftruncate(write_sealed_memfd, 1 << 20) ||
	    fcntl(sealed_memfd, F_ADD_SEALS, F_SEAL_SHRINK) ||
	    fcntl(write_sealed_memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE))
		kst_bail("memory to fuzz with: %s", strerror(errno));
}

/* Memory changes under what is under way, and may be gone. */
static void step_memory(void)
{
	unsigned char *at = arena + byte() % ARENA_PAGES * KST_PAGE;
	size_t length = (1 + byte() % 8) * KST_PAGE;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_FIXED;

	if (at + length > arena + ARENA_BYTES)
		length = arena + ARENA_BYTES - at;
	arena_changed = true;
	switch (byte() % 8) {
	case 0:
		/* Nothing else may come to be there. */
		prot = PROT_NONE;
		flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
		break;
	case 1:
		mprotect(at, length, PROT_READ);
		return;
	case 2:
		madvise(at, length, MADV_DONTNEED);
		return;
	case 3:
		mmap(at, length, prot, flags | MAP_SHARED, sealed_memfd, 0);
		return;
	case 4:
		mmap(at, length, PROT_READ, flags | MAP_SHARED, write_sealed_memfd, 0);
		return;
	case 5:
		madvise(at, length, MADV_DONTFORK);
		return;
	case 6:
		/* Not by this program, which must not touch what may not be there. */
		if (read(zero_fd, at, length) < 0)
			return;
		return;
	default:
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
		break;
	}
	if (mmap(at, length, prot, flags, -1, 0) == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
}

static void memory_reset(void)
{
	if (!arena_changed)
		return;
	arena_changed = false;
	if (mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
}

/* ---- what there is ---- */

enum kind {
	KIND_SESSION,
	KIND_REGION,
	KIND_BUFFER,
	KIND_EXPORT,
	KINDS
};

#define IDS 16

/* An open file. A dup of one has the ids that it had then. */
struct file {
	int fd; /* or -1 */
	unsigned int generation;
	unsigned int nids[KINDS];
	__u32 ids[KINDS][IDS];
	bool live; /* file 0, or a dup of it */
};

#define FILES     4
#define QUEUES    4
#define LISTENERS 4
/* Of this host, for the input's own listeners; others are never touched. */
#define PORT 43000

static struct file files[FILES] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
static int queues[QUEUES] = { -1, -1, -1, -1 };
static struct __kernel_sockaddr_storage listeners[LISTENERS];
static unsigned int nlisteners;
static const char *peer_address, *self_address;
static unsigned int slow; /* TIME_FACTOR */
static bool verbose;

/* What file 0 keeps: ids[][] begins with them. */
static unsigned int kept[KINDS];
static int live_queue = -1;       /* of its export */
static bool live_lost, live_poor; /* one of them is gone, or may be */
static bool have_self;
static bool message_sent, nonblock_set;
/* Asynchronous operations of file 0, and completions of them; if all of these were seen. */
static __u64 live_accepted, live_reaped;
static bool live_counted;
static unsigned int costly; /* what takes long, of this input */

static __u64 calls[STEPS], done[STEPS];

static const char *const step_names[STEPS] = {
	[STEP_QUERY] = "QUERY",
	[STEP_LAST_ERROR] = "LAST_ERROR",
	[STEP_DESTROY] = "DESTROY",
	[STEP_LIST] = "LIST",
	[STEP_LISTEN] = "LISTEN",
	[STEP_UNLISTEN] = "UNLISTEN",
	[STEP_CONNECT] = "CONNECT",
	[STEP_PING] = "PING",
	[STEP_BUFFER] = "BUFFER",
	[STEP_EXPORT] = "EXPORT",
	[STEP_OPEN] = "OPEN",
	[STEP_SUBMIT] = "SUBMIT",
	[STEP_CANCEL] = "CANCEL",
	[STEP_EVENTFD] = "EVENTFD",
	[STEP_QUEUE] = "MESSAGE_QUEUE",
	[STEP_MONITOR] = "MONITOR",
	[STEP_RAW] = "raw ioctl",
	[STEP_READ] = "read",
	[STEP_POLL] = "poll",
	[STEP_DUP] = "dup",
	[STEP_NONBLOCK] = "O_NONBLOCK",
	[STEP_QUEUE_READ] = "queue",
	[STEP_QUEUE_CLOSE] = "queue close",
	[STEP_URING_OP] = "uring op",
	[STEP_URING_OTHER] = "uring other",
	[STEP_CLOSE] = "close",
	[STEP_URING_FLUSH] = "uring flush",
	[STEP_URING_END] = "uring end",
	[STEP_MEMORY] = "memory",
};

/* What came of a step: 0 or more, or a negative errno. */
static void result(enum step step, int rc)
{
	__u8 *feature;

	if (verbose)
		fprintf(stderr, "fuzz: %s: %d\n", step_names[step], rc);
	calls[step]++;
	done[step] += rc >= 0;
	if (rc == -ENOTCONN || rc == -ECONNRESET || rc == -ESTALE)
		live_poor = true;
	if (rc > 0 || -rc >= ERRNOS)
		return;
	feature = &features.results[step][-rc];
	*feature += *feature < 2;
}

static _Noreturn void finding(const char *what, long value)
{
	fprintf(stderr, "fuzz: FOUND: %s: %ld\n", what, value);
	abort();
}

static void keep(struct file *f, enum kind kind, __u32 id)
{
	/* The id of the file that it was: it has died with that. */
	if (f->fd < 0)
		return;
	if (f->nids[kind] == IDS)
		kst_destroy(f->fd, f->ids[kind][--f->nids[kind]]);
	f->ids[kind][f->nids[kind]++] = id;
}

static void forget(struct file *f, __u32 id)
{
	unsigned int kind, i;

	for (kind = 0; kind < KINDS; kind++)
		for (i = 0; i < f->nids[kind]; i++)
			if (f->ids[kind][i] == id) {
				live_lost = live_lost || (f == files && i < kept[kind]);
				memmove(&f->ids[kind][i], &f->ids[kind][i + 1],
					(--f->nids[kind] - i) * sizeof(id));
				return;
			}
}

/* Is it one of those that file 0 keeps? */
static bool kept_id(__u32 id)
{
	unsigned int kind, i;

	for (kind = 0; kind < KINDS; kind++)
		for (i = 0; i < kept[kind]; i++)
			if (files[0].ids[kind][i] == id)
				return true;
	return false;
}

static __u32 any_id(struct file *f, enum kind kind)
{
	uint8_t which = byte();

	if (which >= 240)
		return any_word();
	if (which >= 224)
		kind = which % KINDS;
	return f->nids[kind] ? f->ids[kind][which % f->nids[kind]] : 0;
}

static void open_file(struct file *f)
{
	if (f->fd >= 0)
		return;
	f->fd = kst_open();
	f->generation++;
	memset(f->nids, 0, sizeof(f->nids));
	f->live = false;
}

static void close_file(struct file *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
	f->generation++;
	if (f == files) {
		live_lost = true;
		live_counted = false;
	}
}

static int *any_queue(void)
{
	unsigned int first = byte(), i;

	for (i = 0; i < QUEUES; i++)
		if (queues[(first + i) % QUEUES] >= 0)
			break;
	return &queues[(first + i) % QUEUES];
}

/* The file itself if it has what a call wants, else mostly file 0, which has. */
static struct file *who_has(struct file *f, enum kind kind)
{
	if (!f->nids[kind] && !rarely(32))
		f = &files[0];
	open_file(f);
	return f;
}

/* ---- calls ---- */

union call {
	__u32 size;
	__u32 words[72]; /* as many as the longest has, or more */
	struct krdma_ioc_query query;
	struct krdma_ioc_last_error last_error;
	struct krdma_ioc_destroy destroy;
	struct krdma_ioc_list list;
	struct krdma_ioc_listen listen;
	struct krdma_ioc_unlisten unlisten;
	struct krdma_ioc_connect connect;
	struct krdma_ioc_disconnect disconnect;
	struct krdma_ioc_ping ping;
	struct krdma_ioc_buffer buffer;
	struct krdma_ioc_export export;
	struct krdma_ioc_open open;
	struct krdma_ioc_submit submit;
	struct krdma_ioc_cancel cancel;
	struct krdma_ioc_eventfd eventfd;
	struct krdma_ioc_message_queue queue;
	struct krdma_ioc_monitor monitor;
};

static const struct {
	unsigned long nr;
	__u32 size;
} commands[] = {
	[STEP_QUERY] = { KRDMA_IOC_QUERY, sizeof(struct krdma_ioc_query) },
	[STEP_LAST_ERROR] = { KRDMA_IOC_LAST_ERROR, sizeof(struct krdma_ioc_last_error) },
	[STEP_DESTROY] = { KRDMA_IOC_DESTROY, sizeof(struct krdma_ioc_destroy) },
	[STEP_LIST] = { KRDMA_IOC_LIST, sizeof(struct krdma_ioc_list) },
	[STEP_LISTEN] = { KRDMA_IOC_LISTEN, sizeof(struct krdma_ioc_listen) },
	[STEP_UNLISTEN] = { KRDMA_IOC_UNLISTEN, sizeof(struct krdma_ioc_unlisten) },
	[STEP_CONNECT] = { KRDMA_IOC_CONNECT, sizeof(struct krdma_ioc_connect) },
	[STEP_PING] = { KRDMA_IOC_PING, sizeof(struct krdma_ioc_ping) },
	[STEP_BUFFER] = { KRDMA_IOC_BUFFER, sizeof(struct krdma_ioc_buffer) },
	[STEP_EXPORT] = { KRDMA_IOC_EXPORT, sizeof(struct krdma_ioc_export) },
	[STEP_OPEN] = { KRDMA_IOC_OPEN, sizeof(struct krdma_ioc_open) },
	[STEP_SUBMIT] = { KRDMA_IOC_SUBMIT, sizeof(struct krdma_ioc_submit) },
	[STEP_CANCEL] = { KRDMA_IOC_CANCEL, sizeof(struct krdma_ioc_cancel) },
	[STEP_EVENTFD] = { KRDMA_IOC_EVENTFD, sizeof(struct krdma_ioc_eventfd) },
	[STEP_QUEUE] = { KRDMA_IOC_MESSAGE_QUEUE, sizeof(struct krdma_ioc_message_queue) },
	[STEP_MONITOR] = { KRDMA_IOC_MONITOR, sizeof(struct krdma_ioc_monitor) },
};

/* One ioctl; the other thread does it beside what comes next if there is one at a time. */
struct job {
	enum step step;
	struct file *file;
	unsigned int generation;
	bool live;
	int fd;
	union call call;
	union call *arg;
	int rc;
};

static void reply(struct job *job)
{
	struct file *f = job->file;
	union call *c = &job->call;
	int rc = job->rc;
	bool same = f->generation == job->generation && job->arg == c;

	result(job->step, rc);
	if (rc && !kst_documented(rc) && rc != -EAGAIN && rc != -EMFILE && rc != -ENFILE)
		finding("an errno that the header does not name", rc);
	if (rc)
		return;
	switch (job->step) {
	case STEP_DESTROY:
		forget(f, c->destroy.id);
		break;
	case STEP_LISTEN:
		if (nlisteners == LISTENERS) {
			struct krdma_ioc_unlisten gone = { .size = sizeof(gone),
							   .addr = listeners[--nlisteners] };

			kst_call(files[0].fd, KRDMA_IOC_UNLISTEN, &gone);
		}
		listeners[nlisteners++] = c->listen.addr;
		break;
	case STEP_CONNECT:
	case STEP_BUFFER:
	case STEP_EXPORT:
	case STEP_OPEN:
		if (!same)
			break;
		if (job->step == STEP_CONNECT)
			keep(f, KIND_SESSION, c->connect.id);
		else if (job->step == STEP_BUFFER)
			keep(f, KIND_BUFFER, c->buffer.id);
		else if (job->step == STEP_EXPORT)
			keep(f, KIND_EXPORT, c->export.id);
		else
			keep(f, KIND_REGION, c->open.id);
		break;
	case STEP_SUBMIT:
		if (job->live && c->submit.flags & KRDMA_SUBMIT_ASYNC)
			live_accepted += c->submit.accepted;
		break;
	case STEP_QUEUE:
	case STEP_MONITOR: {
		int *at = &queues[c->queue.fd % QUEUES];

		/* Read like a queue; both structs end with the file. */
		_Static_assert(offsetof(struct krdma_ioc_monitor, fd) ==
				       offsetof(struct krdma_ioc_message_queue, fd),
			       "the same place");

		close(*at);
		*at = c->queue.fd;
		/* This program waits for nothing that need not come. */
		fcntl(*at, F_SETFL, O_NONBLOCK);
		break;
	}
	default:
		break;
	}
}

static void run(struct job *job)
{
	job->rc = kst_call(job->fd, commands[job->step].nr, job->arg);
}

static pthread_mutex_t worker_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t worker_cond = PTHREAD_COND_INITIALIZER;
static enum {
	WORKER_IDLE,
	WORKER_BUSY,
	WORKER_DONE
} worker_state;
static struct job worker_job;

static void *worker(void *unused)
{
	pthread_mutex_lock(&worker_lock);
	for (;;) {
		while (worker_state != WORKER_BUSY)
			pthread_cond_wait(&worker_cond, &worker_lock);
		pthread_mutex_unlock(&worker_lock);
		run(&worker_job);
		pthread_mutex_lock(&worker_lock);
		worker_state = WORKER_DONE;
		pthread_cond_broadcast(&worker_cond);
	}
	return unused;
}

/* The other thread is idle afterwards. */
static void worker_wait(void)
{
	bool ended;

	pthread_mutex_lock(&worker_lock);
	while (worker_state == WORKER_BUSY)
		pthread_cond_wait(&worker_cond, &worker_lock);
	ended = worker_state == WORKER_DONE;
	worker_state = WORKER_IDLE;
	pthread_mutex_unlock(&worker_lock);
	if (ended)
		reply(&worker_job);
}

/* The head of each call: the file, who calls it, how many words are overwritten. */
struct head {
	struct file *file;
	bool aside;
	unsigned int changes;
	struct area *area;
};

static struct head any_head(void)
{
	uint8_t b = byte();
	struct head head = {
		.file = &files[b % FILES],
		.aside = (b >> 2) % 8 == 7,
		.changes = b >> 5 < 6 ? 0 : (b >> 5) - 5,
	};

	open_file(head.file);
	if (head.aside)
		worker_wait();
	head.area = areas[head.aside];
	return head;
}

static void change(struct head *head, enum step step, union call *call)
{
	call->size = commands[step].size;
	for (; head->changes; head->changes--) {
		__u32 *at = &call->words[byte() % (commands[step].size / 4)];

		*at = byte() & 1 ? *at ^ 1U << byte() % 32 : any_word();
	}
}

static void go(struct head *head, enum step step, union call *call)
{
	struct job here = {
		.step = step,
		.file = head->file,
		.generation = head->file->generation,
		.live = head->file->live,
		.fd = head->file->fd,
		.call = *call,
	};
	struct job *job = head->aside ? &worker_job : &here;

	*job = here;
	job->arg = &job->call;
	/* A pointer to nothing, where nothing can be made that would have to be ended. */
	if (step != STEP_LISTEN && step != STEP_QUEUE && step != STEP_MONITOR &&
	    step != STEP_SUBMIT && rarely(3))
		job->arg = (void *)(uintptr_t)any_pointer();
	if (!head->aside) {
		run(job);
		reply(job);
		return;
	}
	pthread_mutex_lock(&worker_lock);
	worker_state = WORKER_BUSY;
	pthread_cond_broadcast(&worker_cond);
	pthread_mutex_unlock(&worker_lock);
}

static struct __kernel_sockaddr_storage any_address(void)
{
	struct __kernel_sockaddr_storage addr =
		kst_ipv4(byte() & 1 ? self_address : "0.0.0.0", PORT + byte() % 4);

	if (rarely(16)) {
		addr.ss_family = AF_INET6;
		/* The port is where it is for IPv4. */
		memset((char *)&addr + offsetof(struct sockaddr_in, sin_addr), 0,
		       sizeof(struct in_addr));
	}
	return addr;
}

/* Of IPv4 or IPv6: it is in the same place. */
static __u16 port_of(const struct __kernel_sockaddr_storage *addr)
{
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	return ntohs(in.sin_port);
}

/* After words of it were overwritten: only ports that are the input's own. */
static void own_port(struct __kernel_sockaddr_storage *addr)
{
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	if (port_of(addr) < PORT || port_of(addr) > PORT + 7)
		in.sin_port = htons(PORT + port_of(addr) % 4);
	memcpy(addr, &in, sizeof(in));
}

static void step_simple(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	unsigned int i;
	enum kind kind;

	switch (step) {
	case STEP_DESTROY:
		kind = byte() % KINDS;
		for (i = 0; i < KINDS && !head.file->nids[kind]; i++)
			kind = (kind + 1) % KINDS;
		c.destroy.id = any_id(head.file, kind);
		/* Of what file 0 keeps only seldom one: it has to be made again. */
		if (head.file == files && kept_id(c.destroy.id) && !rarely(8))
			c.destroy.id = head.file->nids[kind] > kept[kind] ?
					       head.file->ids[kind][kept[kind]] :
					       0;
		break;
	case STEP_PING:
		head.file = who_has(head.file, KIND_SESSION);
		c.ping.session = any_id(head.file, KIND_SESSION);
		c.ping.length = byte() * 2;
		c.ping.timeout_ms = rarely(32) ? 1 : 2000 * slow;
		break;
	case STEP_BUFFER:
		c.buffer.flags = byte() & 1;
		break;
	case STEP_OPEN:
		head.file = who_has(head.file, KIND_SESSION);
		c.open.session = any_id(head.file, KIND_SESSION);
		c.open.rights = rarely(96) ? byte() & 31 : 0;
		c.open.timeout_ms = rarely(16) ? 1 : 2000 * slow;
		snprintf(c.open.name, sizeof(c.open.name), "fuzz%s",
			 ((const char *[]){ "", "", "-messages", "-own", "-0", "-1", "-2",
					    "-none" })[byte() % 8]);
		break;
	case STEP_CANCEL:
		if (byte() & 1)
			c.cancel.flags = KRDMA_CANCEL_ALL;
		else
			c.cancel.user_data = byte() % 8;
		break;
	case STEP_QUEUE:
		head.file = who_has(head.file, KIND_EXPORT);
		c.queue.flags = byte() & 1;
		c.queue.id = any_id(head.file, KIND_EXPORT);
		break;
	case STEP_MONITOR:
		c.monitor.flags = byte() & 1;
		break;
	default:
		break;
	}
	change(&head, step, &c);
	if (step == STEP_BUFFER) {
		c.buffer.addr = any_pointer();
		c.buffer.length = any_length();
	}
	go(&head, step, &c);
}

static void step_list(void)
{
	struct head head = any_head();
	union call c = { 0 };

	c.list.kind = 1 + byte() % KRDMA_LIST_GRANTS;
	c.list.stride = rarely(64) ? any_word() : 112 + byte() % 16 * 8;
	c.list.count = rarely(64) ? any_word() : 12 + byte() % 32;
	c.list.cursor = rarely(64) ? any_word() : 0;
	if (c.list.kind == KRDMA_LIST_PEER_EXPORTS || c.list.kind == KRDMA_LIST_ADDRESSES ||
	    rarely(16))
		c.list.session = any_id(head.file, KIND_SESSION);
	change(&head, STEP_LIST, &c);
	c.list.entries = any_pointer();
	go(&head, STEP_LIST, &c);
}

static void step_listen(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	unsigned int i;

	if (step == STEP_LISTEN) {
		c.listen.addr = any_address();
		c.listen.allow_count = byte() % 5;
		if (c.listen.allow_count < 3)
			c.listen.allow_count = 0;
		for (i = 0; i < c.listen.allow_count; i++)
			head.area->allow[i % 4] = (struct krdma_prefix){
				.addr = kst_small_ipv4(self_address, 0),
				.prefix_len = byte() % 34,
			};
		change(&head, step, &c);
		own_port(&c.listen.addr);
		c.listen.allow = rarely(16) ? any_pointer() : (uintptr_t)head.area->allow;
	} else {
		c.unlisten.addr = nlisteners ? listeners[byte() % nlisteners] : any_address();
		change(&head, step, &c);
		own_port(&c.unlisten.addr);
	}
	go(&head, step, &c);
}

static void step_connect(void)
{
	struct head head = any_head();
	struct krdma_ioc_connect *cmd;
	union call c = { 0 };
	uint8_t to = byte(), flags = byte();

	cmd = &c.connect;
	cmd->flags = flags & KRDMA_CONNECT_MESSAGES;
	if (to >= 248 && nlisteners)
		cmd->dst = kst_ipv4(self_address, port_of(&listeners[to % nlisteners]));
	else if (to >= 240)
		cmd->dst = kst_ipv4("203.0.113.1", to % 4);
	else if (to >= 236)
		cmd->dst = kst_ipv4(peer_address, PORT + 4);
	else
		cmd->dst = kst_ipv4(to % 4 == 3 && have_self ? self_address : peer_address, 0);
	if (rarely(8))
		cmd->flags |= KRDMA_CONNECT_PRIVATE;
	if (rarely(16))
		cmd->src = kst_ipv4(self_address, byte() & 1 ? PORT + 6 : 0);
	cmd->timeout_ms = 2000 * slow;
	/* What is not shared, or leads to nobody, takes its time: one of an input. */
	if (head.changes || to >= 236 || cmd->src.ss_family || cmd->flags & KRDMA_CONNECT_PRIVATE) {
		if (costly++) {
			head.changes = 0;
			cmd->flags &= ~KRDMA_CONNECT_PRIVATE;
			cmd->dst = kst_ipv4(peer_address, 0);
			memset(&cmd->src, 0, sizeof(cmd->src));
		}
	}
	if (head.changes) {
		change(&head, STEP_CONNECT, &c);
		cmd->timeout_ms = 1 + cmd->timeout_ms % (20 * slow);
	} else {
		cmd->size = sizeof(*cmd);
	}
	if (flags >= 224) {
		cmd->flags |= KRDMA_CONNECT_ASYNC;
		cmd->timeout_ms = 0;
		cmd->eventfd = flags & 1 ? event_fd : -1;
	}
	go(&head, STEP_CONNECT, &c);
}

static void step_export(void)
{
	struct head head = any_head();
	union call c = { 0 };
	__u32 fd = 0;

	c.export.rights = byte() & 23;
	c.export.max_segments = byte() & 1;
	c.export.length = any_length();
	snprintf(c.export.name, sizeof(c.export.name), "fuzz-%u", byte() % 4);
	if (byte() & 1) {
		c.export.flags = KRDMA_EXPORT_FD;
		c.export.addr = rarely(64) ? any_length() : byte() % 16 * KST_PAGE;
		fd = byte() % 16;
		c.export.fd = fd == 0 ? plain_memfd :
			      fd == 1 ? write_sealed_memfd :
			      fd == 2 ? zero_fd :
			      fd == 3 ? -1 :
					sealed_memfd;
	}
	change(&head, STEP_EXPORT, &c);
	if (!(c.export.flags & KRDMA_EXPORT_FD))
		c.export.addr = any_pointer();
	go(&head, STEP_EXPORT, &c);
}

static void step_eventfd(void)
{
	struct head head = any_head();
	union call c = { 0 };
	uint8_t which = byte();

	c.eventfd.fd = which < 128 ? event_fd : which < 192 ? -1 : which < 224 ? zero_fd : which;
	change(&head, STEP_EVENTFD, &c);
	go(&head, STEP_EVENTFD, &c);
}

/* ---- operations ---- */

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

static void any_op(struct file *f, struct krdma_op *op, struct area *area, unsigned int i)
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
		message_sent = true;
	}
}

static void step_submit(void)
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
	change(&head, STEP_SUBMIT, &c);
	cmd->ops = rarely(8) ? any_pointer() : (uintptr_t)head.area->ops;
	if (!async || rarely(8))
		cmd->completions = any_pointer();
	go(&head, STEP_SUBMIT, &c);
}

/* ---- io_uring ---- */

#define RING_ENTRIES 16

static struct io_uring ring, short_ring;
static bool have_ring, have_short_ring;
static unsigned int ring_flying;
/* Or reads, for which io_uring polls: they may wait for what never comes. */
static bool ring_polls;
/*
 * One that waits for those before it: in Linux 6.12 for ever, if one behind it is refused
 * when it is read (req_need_defer counts that completion as well).
 */
static bool ring_drains;

static bool ring_open(void)
{
	if (!have_ring)
		have_ring = kst_ring_open(&ring, RING_ENTRIES, IORING_SETUP_SUBMIT_ALL, fixed,
					  FIXED_BYTES);
	return have_ring;
}

static void ring_cancel(struct io_uring_sqe *sqe)
{
	io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
	sqe->user_data = STEP_URING_OTHER;
}

/* Its completion is not counted among those that are waited for. */
#define RING_CANCEL STEPS

static void ring_cancel_all(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	ring_cancel(sqe);
	sqe->user_data = RING_CANCEL;
	io_uring_submit(&ring);
}

static void ring_flush(bool wait)
{
	struct __kernel_timespec soon = { .tv_nsec = 10000000 };
	struct io_uring_cqe *cqe;
	int rc;

	if (!ring_flying)
		return;
	io_uring_submit(&ring);
	if (wait && ring_polls)
		ring_cancel_all();
	while (ring_flying) {
		rc = !wait      ? io_uring_peek_cqe(&ring, &cqe) :
		     ring_polls ? io_uring_wait_cqe_timeout(&ring, &cqe, &soon) :
				  kst_ring_wait(&ring, &cqe);
		/* Some begin only when one before them has ended. */
		if (rc == -ETIME)
			ring_cancel_all();
		if (rc == -ETIME || rc == -EINTR)
			continue;
		if (rc)
			break;
		if (cqe->user_data != RING_CANCEL) {
			result(cqe->user_data, cqe->res);
			ring_flying--;
		}
		io_uring_cqe_seen(&ring, cqe);
	}
	ring_polls = ring_polls && ring_flying;
	ring_drains = ring_drains && ring_flying;
}

/* Room for one more. */
static void ring_room(void)
{
	if (ring_flying == RING_ENTRIES)
		ring_flush(true);
	ring_flying++;
}

static void step_uring_op(void)
{
	struct file *f = &files[byte() % FILES];
	bool from_fixed = byte() & 1;
	struct io_uring_sqe *sqe;
	struct krdma_op op;

	if (!ring_open())
		return;
	f = who_has(f, KIND_REGION);
	any_op(f, &op, areas[0], ring_flying % BATCH_MAX);
	if (from_fixed && !(op.flags & (KRDMA_OPF_BUFFER | KRDMA_OPF_VECTOR)))
		op.addr = (uintptr_t)fixed + byte() * 256;
	if (have_short_ring && rarely(4)) {
		/* An SQE of 64 bytes has no room for an operation: it is refused at once. */
		struct io_uring_cqe *cqe;

		sqe = io_uring_get_sqe(&short_ring);
		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, f->fd, NULL, 0, 0);
		sqe->off = KRDMA_URING_OP;
		io_uring_submit(&short_ring);
		if (!kst_ring_wait(&short_ring, &cqe)) {
			result(STEP_URING_OP, cqe->res);
			io_uring_cqe_seen(&short_ring, cqe);
		}
		return;
	}
	ring_room();
	sqe = kst_ring_op(&ring, f->fd, &op, STEP_URING_OP, from_fixed);
	switch (byte()) {
	case 255:
		sqe->off = KRDMA_IOC_QUERY;
		break;
	case 254:
		if (!ring_drains)
			sqe->rw_flags = word();
		break;
	case 253:
		if (!ring_drains)
			sqe->buf_index = byte();
		break;
	case 252:
		sqe->flags |= IOSQE_ASYNC;
		break;
	case 251:
		sqe->flags |= IOSQE_IO_LINK;
		break;
	case 250:
		/* To cancel what it waits for would have to wait for it, too. */
		if (!ring_polls) {
			sqe->flags |= IOSQE_IO_DRAIN;
			ring_drains = true;
		}
		break;
	}
}

static void step_uring_other(void)
{
	struct file *f = &files[byte() % FILES];
	struct io_uring_sqe *sqe;
	uint8_t what = byte();

	if (!ring_open())
		return;
	open_file(f);
	ring_room();
	sqe = io_uring_get_sqe(&ring);
	switch (what % 4) {
	case 0:
		ring_cancel(sqe);
		break;
	case 1:
		io_uring_prep_poll_add(sqe, what & 4 ? *any_queue() : f->fd,
				       what & 8 ? POLLIN : POLLOUT);
		break;
	case 2:
		io_uring_prep_read(sqe, *any_queue(), (void *)(uintptr_t)any_pointer(), 512, 0);
		break;
	case 3:
		io_uring_prep_read(sqe, f->fd, (void *)(uintptr_t)any_pointer(), 128, 0);
		if (f->live)
			live_counted = false;
		break;
	}
	sqe->user_data = STEP_URING_OTHER;
	ring_polls = true;
}

/* With what is under way in it. */
static void step_uring_end(void)
{
	if (!have_ring || costly++)
		return;
	io_uring_submit(&ring);
	io_uring_queue_exit(&ring);
	result(STEP_URING_END, 0);
	have_ring = ring_polls = ring_drains = false;
	ring_flying = 0;
}

static void ring_reset(void)
{
	unsigned int i;

	if (!ring_flying)
		return;
	io_uring_submit(&ring);
	for (i = 0; i < FILES; i++)
		if (files[i].fd >= 0)
			kst_cancel(files[i].fd, 0, KRDMA_CANCEL_ALL);
	ring_flush(true);
}

/* ---- files ---- */

static void step_read(void)
{
	static struct krdma_completion comps[8];
	struct file *f = &files[byte() % FILES];
	uint8_t shape = byte();
	ssize_t n;

	open_file(f);
	n = read(f->fd, shape < 192 ? comps : (void *)(uintptr_t)any_pointer(),
		 shape & 1 ? sizeof(comps) : (shape % 9) * 32);
	result(STEP_READ, n < 0 ? -errno : n);
	if (!f->live)
		return;
	if (n > 0)
		live_reaped += n / sizeof(comps[0]);
	else if (n < 0 && errno != EAGAIN)
		live_counted = false;
}

static void step_poll(void)
{
	struct pollfd fds[FILES + QUEUES + 1];
	unsigned int i;

	for (i = 0; i < FILES; i++)
		fds[i] = (struct pollfd){ files[i].fd, POLLIN | POLLOUT, 0 };
	for (i = 0; i < QUEUES; i++)
		fds[FILES + i] = (struct pollfd){ queues[i], POLLIN, 0 };
	fds[FILES + QUEUES] = (struct pollfd){ event_fd, POLLIN, 0 };
	result(STEP_POLL, poll(fds, KST_ARRAY_SIZE(fds), 0));
}

/* File 0 seldom: what it keeps has to be made again. */
static void step_close(void)
{
	uint8_t which = byte();

	close_file(&files[which < 248 ? 1 + which % (FILES - 1) : 0]);
	result(STEP_CLOSE, 0);
}

static void step_dup(void)
{
	uint8_t which = byte();
	struct file *from = &files[which % FILES], *to = &files[1 + which / FILES % (FILES - 1)];
	unsigned int generation = to->generation;

	if (from == to)
		return;
	open_file(from);
	close_file(to);
	*to = *from;
	to->generation = generation + 1;
	to->fd = dup(from->fd);
	/* A read in the ring that was for what had this number before. */
	if (to->live && ring_polls)
		live_counted = false;
	result(STEP_DUP, to->fd < 0 ? -errno : 0);
}

static void step_nonblock(void)
{
	struct file *f = &files[byte() % FILES];

	open_file(f);
	nonblock_set = true;
	fcntl(f->fd, F_SETFL, byte() & 1 ? O_NONBLOCK : 0);
	result(STEP_NONBLOCK, 0);
}

static void step_queue(bool end)
{
	static unsigned char buf[KST_PAGE + sizeof(struct krdma_message)];
	int *at = any_queue();
	size_t size = byte() * 32;
	ssize_t n;

	if (*at < 0)
		return;
	if (end) {
		result(STEP_QUEUE_CLOSE, close(*at));
		*at = -1;
		return;
	}
	n = read(*at, buf, size < sizeof(buf) ? size : sizeof(buf));
	result(STEP_QUEUE_READ, n < 0 ? -errno : n);
}

/* Any number of an ioctl, any bytes. */
static void step_raw(void)
{
	struct file *f = &files[byte() % FILES];
	__u32 nr = byte() < 192 ? _IO(KRDMA_IOC_TYPE, byte() % 64) : word();
	union call c = { 0 };
	unsigned int i, n = byte() % 32;
	int rc;

	open_file(f);
	c.size = byte();
	for (i = 1; i <= n; i++)
		c.words[i] = any_word();
	/* Listeners outlive the file, message queues are files themselves: not for this. */
	if (nr == KRDMA_IOC_LISTEN || nr == KRDMA_IOC_UNLISTEN || nr == KRDMA_IOC_MESSAGE_QUEUE ||
	    nr == KRDMA_IOC_MONITOR)
		return;
	/* Not to who knows where, for as long as it likes. */
	if (nr == KRDMA_IOC_CONNECT)
		return;
	/* Mostly it ends all sessions, or none. */
	if (nr == KRDMA_IOC_DISCONNECT)
		c.disconnect.timeout_ms %= 256;
	rc = kst_call(f->fd, nr, &c);
	result(STEP_RAW, rc);
	if (nr == KRDMA_IOC_DISCONNECT && (!rc || rc == -ETIMEDOUT))
		live_lost = true;
	if (rc)
		return;
	if (nr == KRDMA_IOC_DESTROY)
		forget(f, c.destroy.id);
	if (!f->live)
		return;
	if (nr == KRDMA_IOC_SUBMIT)
		live_counted = false;
	/* Which object has its id now? */
	if (nr == KRDMA_IOC_BUFFER || nr == KRDMA_IOC_EXPORT || nr == KRDMA_IOC_OPEN)
		live_lost = true;
}

/* ---- file 0 ---- */

static unsigned char *own_memory, *buffer_memory;

static void live_keep(enum kind kind, __u32 id, int rc, const char *what)
{
	if (rc)
		kst_bail("file 0: %s: %s", what, kst_last_error(files[0].fd, NULL));
	keep(&files[0], kind, id);
	kept[kind]++;
}

struct live_session {
	const char *address;
	__u32 id;
	int rc;
};

/* A machine that is kept from its processor may take longer than a connection may. */
static bool live_connect(void *arg)
{
	struct live_session *to = arg;
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_MESSAGES,
		.dst = kst_ipv4(to->address, 0),
	};

	to->rc = kst_call(files[0].fd, KRDMA_IOC_CONNECT, &cmd);
	to->id = cmd.id;
	return !to->rc;
}

/* The name of the file before is free when that has been closed behind its back. */
static bool live_export(void *id)
{
	return kst_export(files[0].fd, "fuzz-own", own_memory, FIXED_BYTES,
			  KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC |
				  KRDMA_RIGHT_MESSAGE,
			  id) != -EEXIST;
}

static void live_region(__u32 session, const char *name)
{
	__u32 id = 0;
	int rc = kst_open_region(files[0].fd, session, name, 0, &id, NULL);

	live_keep(KIND_REGION, id, rc, name);
}

static void live_open(void)
{
	struct live_session peer = { .address = peer_address }, self = { .address = self_address };
	struct file *f = &files[0];
	__u32 id = 0;
	int rc;

	if (live_queue >= 0)
		close(live_queue);
	close_file(f);
	open_file(f);
	f->live = true;
	memset(kept, 0, sizeof(kept));
	kst_wait(live_connect, &peer);
	live_keep(KIND_SESSION, peer.id, peer.rc, "the peer");
	live_region(peer.id, "fuzz");
	live_region(peer.id, "fuzz-messages");
	if (!kst_wait(live_export, &id) || !id)
		kst_bail("file 0: its export: %s", kst_last_error(f->fd, NULL));
	live_keep(KIND_EXPORT, id, 0, "its export");
	live_queue = kst_message_queue(f->fd, id, KRDMA_MESSAGE_QUEUE_NONBLOCK);
	have_self = live_connect(&self);
	if (have_self) {
		live_keep(KIND_SESSION, self.id, 0, "this host");
		live_region(self.id, "fuzz-own");
	}
	rc = kst_buffer(f->fd, buffer_memory, FIXED_BYTES, KRDMA_BUFFER_WRITABLE, &id);
	live_keep(KIND_BUFFER, id, rc, "its buffer");
	live_accepted = live_reaped = 0;
	live_counted = true;
	live_lost = live_poor = false;
}

static bool live_works(void)
{
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .timeout_ms = 10000 * slow };
	unsigned int i;

	for (i = 0; i < kept[KIND_SESSION]; i++) {
		ping.session = files[0].ids[KIND_SESSION][i];
		if (kst_call(files[0].fd, KRDMA_IOC_PING, &ping))
			return false;
	}
	for (i = 0; i < kept[KIND_REGION]; i++)
		if (kst_move(files[0].fd, KRDMA_OP_READ, files[0].ids[KIND_REGION][i], 0,
			     buffer_memory, 8, NULL) == -ESTALE)
			return false;
	return true;
}

static void live_reset(void)
{
	static struct krdma_completion comps[32];
	static unsigned char message[4 * KST_PAGE];
	static unsigned int inputs;
	struct file *f = &files[0];
	unsigned int kind;
	int n = 0;

	if (f->fd < 0) {
		live_open();
		return;
	}
	if (nonblock_set)
		fcntl(f->fd, F_SETFL, 0);
	if (live_accepted != live_reaped || !live_counted) {
		kst_cancel(f->fd, 0, KRDMA_CANCEL_ALL);
		/* EINTR: libFuzzer's own timer. */
		while ((n = kst_reap(f->fd, comps, KST_ARRAY_SIZE(comps))) > 0 || n == -EINTR)
			live_reaped += n > 0 ? n : 0;
		if (n)
			finding("completions can't be read", n);
		if (live_counted && live_accepted != live_reaped)
			finding("operations without one completion", live_accepted - live_reaped);
		live_accepted = live_reaped = 0;
		live_counted = true;
	}
	while (message_sent && read(live_queue, message, sizeof(message)) > 0)
		;
	for (kind = 0; kind < KINDS; kind++)
		while (f->nids[kind] > kept[kind])
			kst_destroy(f->fd, f->ids[kind][--f->nids[kind]]);
	if (live_lost || ((live_poor || ++inputs % 256 == 0) && !live_works()))
		live_open();
	live_poor = false;
}

/* ---- an input ---- */

static const uint8_t menu[64] = {
	STEP_SUBMIT,     STEP_SUBMIT,      STEP_SUBMIT,      STEP_SUBMIT,      STEP_SUBMIT,
	STEP_SUBMIT,     STEP_SUBMIT,      STEP_SUBMIT,      STEP_SUBMIT,      STEP_SUBMIT,
	STEP_SUBMIT,     STEP_MONITOR,     STEP_URING_OP,    STEP_URING_OP,    STEP_URING_OP,
	STEP_URING_OP,   STEP_URING_OP,    STEP_URING_FLUSH, STEP_URING_FLUSH, STEP_URING_OTHER,
	STEP_URING_END,  STEP_READ,        STEP_READ,        STEP_READ,        STEP_CONNECT,
	STEP_CONNECT,    STEP_CONNECT,     STEP_OPEN,        STEP_OPEN,        STEP_OPEN,
	STEP_EXPORT,     STEP_EXPORT,      STEP_EXPORT,      STEP_BUFFER,      STEP_BUFFER,
	STEP_BUFFER,     STEP_DESTROY,     STEP_DESTROY,     STEP_DESTROY,     STEP_LIST,
	STEP_LIST,       STEP_LIST,        STEP_QUEUE,       STEP_QUEUE,       STEP_QUEUE_READ,
	STEP_QUEUE_READ, STEP_QUEUE_CLOSE, STEP_CANCEL,      STEP_CANCEL,      STEP_LISTEN,
	STEP_UNLISTEN,   STEP_PING,        STEP_EVENTFD,     STEP_POLL,        STEP_CLOSE,
	STEP_CLOSE,      STEP_DUP,         STEP_NONBLOCK,    STEP_MEMORY,      STEP_MEMORY,
	STEP_QUERY,      STEP_LAST_ERROR,  STEP_RAW,         STEP_RAW,
};

static void one_step(void)
{
	enum step step = menu[byte() % KST_ARRAY_SIZE(menu)];

	switch (step) {
	case STEP_LIST:
		step_list();
		break;
	case STEP_LISTEN:
	case STEP_UNLISTEN:
		step_listen(step);
		break;
	case STEP_CONNECT:
		step_connect();
		break;
	case STEP_EXPORT:
		step_export();
		break;
	case STEP_EVENTFD:
		step_eventfd();
		break;
	case STEP_SUBMIT:
		step_submit();
		break;
	case STEP_RAW:
		step_raw();
		break;
	case STEP_READ:
		step_read();
		break;
	case STEP_POLL:
		step_poll();
		break;
	case STEP_CLOSE:
		step_close();
		break;
	case STEP_DUP:
		step_dup();
		break;
	case STEP_NONBLOCK:
		step_nonblock();
		break;
	case STEP_QUEUE_READ:
	case STEP_QUEUE_CLOSE:
		step_queue(step == STEP_QUEUE_CLOSE);
		break;
	case STEP_URING_OP:
		step_uring_op();
		break;
	case STEP_URING_OTHER:
		step_uring_other();
		break;
	case STEP_URING_FLUSH:
		ring_flush(byte() & 1);
		break;
	case STEP_URING_END:
		step_uring_end();
		break;
	case STEP_MEMORY:
		step_memory();
		break;
	default:
		step_simple(step);
		break;
	}
}

/* All that the input has made ends, and what it has touched is as it was. */
static void reset(void)
{
	unsigned int i;

	worker_wait();
	ring_reset();
	for (i = 1; i < FILES; i++)
		close_file(&files[i]);
	for (i = 0; i < QUEUES; i++)
		if (queues[i] >= 0) {
			close(queues[i]);
			queues[i] = -1;
		}
	live_reset();
	while (nlisteners) {
		struct krdma_ioc_unlisten gone = { .size = sizeof(gone),
						   .addr = listeners[--nlisteners] };

		kst_call(files[0].fd, KRDMA_IOC_UNLISTEN, &gone);
	}
	memory_reset();
	message_sent = nonblock_set = false;
	costly = 0;
}

/* ---- libFuzzer ---- */

#define STEPS_MAX 24

static int current_fd = -1, tainted_fd = -1;

/* Written before it is run: the kernel may take it with it. */
static void current_input(const uint8_t *data, size_t size)
{
	if (current_fd >= 0 &&
	    (pwrite(current_fd, data, size, 0) < 0 || ftruncate(current_fd, size)))
		kst_bail("FUZZ_CURRENT: %s", strerror(errno));
}

static long tainted(void)
{
	char text[32] = "";

	if (tainted_fd < 0 || pread(tainted_fd, text, sizeof(text) - 1, 0) < 0)
		return 0;
	return strtol(text, NULL, 10);
}

static void write_blocks(const char *path)
{
	FILE *file = fopen(path, "w");
	unsigned long at;

	if (!file)
		return;
	for (at = 0; at < TEXT_MAX; at++)
		if (block_of[at])
			fprintf(file, "%lx\n", at);
	fclose(file);
}

static void report(void)
{
	__u64 ioctls = 0, all = 0;
	unsigned int i;

	for (i = 0; i < STEPS; i++) {
		all += calls[i];
		if (i < STEP_READ)
			ioctls += calls[i];
		if (calls[i])
			fprintf(stderr, "fuzz: %-11s %10llu calls %10llu worked\n", step_names[i],
				(unsigned long long)calls[i], (unsigned long long)done[i]);
	}
	fprintf(stderr, "fuzz: %llu calls, %llu of them ioctls; %u blocks of the module covered\n",
		(unsigned long long)all, (unsigned long long)ioctls, nblocks);
	if (getenv("FUZZ_BLOCKS"))
		write_blocks(getenv("FUZZ_BLOCKS"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static long taint = -1;
	unsigned int i;
	long now;

	if (taint < 0) {
		/* Not before: one that only merges has another do the runs. */
		taint = tainted();
		live_open();
		if (!have_self)
			fprintf(stderr, "fuzz: no session with this host: %s\n",
				kst_last_error(files[0].fd, NULL));
		kcov_open();
		atexit(report);
	}
	current_input(data, size);
	in = data;
	in_left = size;
	kcov_begin();
	for (i = 0; in_left && i < STEPS_MAX; i++)
		one_step();
	reset();
	kcov_end();
	now = tainted();
	if (now != taint)
		finding("the kernel is tainted, see its log", now);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *current = getenv("FUZZ_CURRENT");
	pthread_t thread;

	(void)argc;
	(void)argv;
	peer_address = getenv("FUZZ_PEER") ? getenv("FUZZ_PEER") : "10.77.0.2";
	self_address = getenv("FUZZ_SELF") ? getenv("FUZZ_SELF") : "10.77.0.1";
	slow = kst_number("TIME_FACTOR", 1);
	verbose = kst_number("FUZZ_VERBOSE", 0);
	if (current) {
		current_fd = open(current, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (current_fd < 0)
			kst_bail("%s: %s", current, strerror(errno));
	}
	tainted_fd = open("/proc/sys/kernel/tainted", O_RDONLY | O_CLOEXEC);
	memory_open();
	own_memory = guarded(FIXED_BYTES);
	buffer_memory = guarded(FIXED_BYTES);
	have_short_ring = !io_uring_queue_init(4, &short_ring, 0);
	if (!ring_open())
		fprintf(stderr, "fuzz: no io_uring with SQEs of 128 bytes: without it\n");
	if (pthread_create(&thread, NULL, worker, NULL))
		kst_bail("no thread");
	return 0;
}
