// SPDX-License-Identifier: GPL-2.0
/*
 * Runs each call of the device with each fault that the kernel can inject into the calling task
 * (/proc/thread-self/fail-nth: slab, pages, copies from and to user memory, the module's fault
 * points), anywhere in the kernel: the first fault, the second, until the call ends without one.
 * After each call the host's counters are as before. A call without a fault succeeds.
 *
 * usage: nth HOST EXPORT RECEIVER [TEXT]
 * HOST, EXPORT and RECEIVER are as for `every`; only calls with TEXT in their name run. Those of
 * krdma_blk run if it is loaded. The script sets the files of failslab, fail_page_alloc and
 * fail_usercopy. TAP on standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <krdma/krdma.h>
#include <krdma/krdma_blk.h>
#include <krdma/uring.h>

/* Some pages, and not whole ones. */
#define BYTES      20001
#define TIMEOUT_MS 60000
/* No call has so many. */
#define ENDLESS 2000

static const char *export_name, *receiver_name;
static struct krdma_sockaddr host;
static unsigned char *out, *back;
static int memfd = -1, event = -1, nth = -1, blk = -1, results, failures, seconds;

/* What is there while a call is tried. */
static struct krdma *krdma;
static uint32_t session;
static struct krdma_region region, atomic, receiver;
static uint32_t made;
static int made_fd = -1;
static struct io_uring uring;

/* ---- results ---- */

static void result(const char *why, const char *what)
{
	failures += !!why;
	printf("%sok %d - %s\n", why ? "not " : "", ++results, what);
	if (why)
		printf("# %s\n", why);
}

static void give_up(const char *what)
{
	printf("Bail out! %s: %s\n", what, krdma_error());
	exit(1);
}

/* ---- what must be as before ---- */

struct counts {
	uint64_t pinned_bytes, references;
	unsigned int listed[8], disks;
};

static uint64_t number_in(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
		perror(path);
		exit(1);
	}
	close(fd);
	return strtoull(text, NULL, 10);
}

/* Return: how many disks there are; @first: the number of the first */
static unsigned int disks(uint32_t *first)
{
	struct krdma_blk_info info[8] = { 0 };
	struct krdma_blk_list list = {
		.size = sizeof(list),
		.infos = (uintptr_t)info,
		.count = 8,
		.stride = sizeof(info[0]),
	};

	if (blk < 0)
		return 0;
	if (ioctl(blk, KRDMA_BLK_LIST, &list)) {
		perror("KRDMA_BLK_LIST");
		exit(1);
	}
	*first = info[0].disk;
	return list.count;
}

static void count(struct counts *counts)
{
	static const enum krdma_list_kind kinds[] = { KRDMA_LIST_SESSIONS, KRDMA_LIST_REGIONS,
						      KRDMA_LIST_EXPORTS, KRDMA_LIST_LISTENERS,
						      KRDMA_LIST_TRANSFERS };
	struct krdma_iter *iter;
	unsigned int i;
	uint32_t first;

	memset(counts, 0, sizeof(*counts));
	counts->disks = disks(&first);
	counts->pinned_bytes = number_in("/sys/class/misc/krdma_mover/counters/pinned_bytes");
	counts->references = number_in("/sys/module/krdma_mover/refcnt");
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (krdma_iter_new(krdma, kinds[i], 0, &iter))
			give_up("list");
		while (krdma_iter_next(iter))
			counts->listed[i]++;
		krdma_iter_free(iter);
	}
}

/* What goes by itself has its time: until both are the same. */
static const char *differ(const struct counts *base)
{
	static char text[300];
	time_t until = time(NULL) + seconds;
	struct counts now;

	do {
		count(&now);
		if (!memcmp(base, &now, sizeof(now)))
			return NULL;
		poll(NULL, 0, 20);
	} while (time(NULL) < until);
	snprintf(text, sizeof(text),
		 "pinned %llu, was %llu; references %llu, was %llu; sessions %u/%u regions %u/%u "
		 "exports %u/%u listeners %u/%u transfers %u/%u disks %u/%u",
		 (unsigned long long)now.pinned_bytes, (unsigned long long)base->pinned_bytes,
		 (unsigned long long)now.references, (unsigned long long)base->references,
		 now.listed[0], base->listed[0], now.listed[1], base->listed[1], now.listed[2],
		 base->listed[2], now.listed[3], base->listed[3], now.listed[4], base->listed[4],
		 now.disks, base->disks);
	return text;
}

/* ---- what the calls need ---- */

static void begin(void)
{
	if (krdma_new(&krdma))
		give_up("the device");
	if (krdma_connect_flags(krdma, &host, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES,
				TIMEOUT_MS, &session))
		give_up("connect");
	if (krdma_open_region(krdma, session, export_name, KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
			      TIMEOUT_MS, &region))
		give_up("open");
	if (krdma_open_region(krdma, session, receiver_name,
			      KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE, TIMEOUT_MS, &receiver))
		give_up("open for messages");
	atomic.id = 0;
	if (krdma_open_region(krdma, session, export_name, KRDMA_RIGHT_ATOMIC, TIMEOUT_MS,
			      &atomic) &&
	    errno != EOPNOTSUPP)
		give_up("open for atomic operations");
}

static int submit(struct krdma_op *op)
{
	struct krdma_completion done = { 0 };
	int rc;

	op->timeout_ns = TIMEOUT_MS * 1000000ULL;
	rc = krdma_submit(krdma, op, &done, 1);
	return rc > 0 ? -done.status : rc;
}

static void destroy_made(void)
{
	if (made)
		krdma_destroy(krdma, made);
	if (made_fd >= 0)
		close(made_fd);
	made = 0;
	made_fd = -1;
}

/* ---- the calls ---- */

static struct krdma *other;

static int do_new(void)
{
	return krdma_new(&other);
}

static void undo_new(void)
{
	krdma_free(other);
	other = NULL;
}

static int do_query(void)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };

	return krdma_query(krdma, &query);
}

static int do_list(void)
{
	struct krdma_iter *iter;
	int rc = krdma_iter_new(krdma, KRDMA_LIST_SESSIONS, 0, &iter);

	if (rc)
		return rc;
	while (krdma_iter_next(iter))
		;
	return krdma_iter_free(iter);
}

static int do_list_peer(void)
{
	struct krdma_iter *iter;
	int rc = krdma_iter_new(krdma, KRDMA_LIST_PEER_EXPORTS, session, &iter);

	if (rc)
		return rc;
	while (krdma_iter_next(iter))
		;
	return krdma_iter_free(iter);
}

static int do_export_memory(void)
{
	return krdma_export_memory(krdma, "nth", back, BYTES, KRDMA_RIGHT_WRITE, 0, &made);
}

static int do_export_memfd(void)
{
	return krdma_export_memfd(krdma, "nth", memfd, 0, BYTES,
				  KRDMA_RIGHT_READ | KRDMA_RIGHT_MESSAGE, 0, &made);
}

static int do_message_queue(void)
{
	made_fd = krdma_message_queue(krdma, made, KRDMA_MESSAGE_QUEUE_NONBLOCK);
	return made_fd;
}

static int do_monitor(void)
{
	made_fd = krdma_monitor(krdma, KRDMA_MONITOR_NONBLOCK);
	return made_fd;
}

static int do_destroy(void)
{
	int rc = krdma_destroy(krdma, made);

	if (!rc)
		made = 0;
	return rc;
}

static struct krdma_sockaddr here;

static int do_listen(void)
{
	return krdma_listen(krdma, &here, NULL, 0);
}

static void undo_listen(void)
{
	krdma_unlisten(krdma, &here);
}

static int do_unlisten(void)
{
	return krdma_unlisten(krdma, &here);
}

static int do_connect(void)
{
	return krdma_connect_flags(krdma, &host, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES,
				   TIMEOUT_MS, &made);
}

static int do_connect_shared(void)
{
	return krdma_connect(krdma, &host, TIMEOUT_MS, &made);
}

static int do_ping(void)
{
	uint64_t ns;

	return krdma_ping(krdma, session, 500, TIMEOUT_MS, &ns);
}

static int do_open(void)
{
	struct krdma_region opened = { 0 };
	int rc = krdma_open_region(krdma, session, export_name, KRDMA_RIGHT_READ, TIMEOUT_MS,
				   &opened);

	made = opened.id;
	return rc;
}

static int prepare_open(void)
{
	struct krdma_op op;
	int rc = do_open();

	if (rc)
		return rc;
	/* With keys. */
	krdma_op_read(&op, made, 0, back, 8);
	return submit(&op);
}

static int do_buffer(void)
{
	return krdma_register_buffer(krdma, back, BYTES, KRDMA_BUFFER_WRITABLE, &made);
}

static int do_write(void)
{
	struct krdma_op op;

	krdma_op_write(&op, region.id, 4000, out, BYTES);
	return submit(&op);
}

static int do_read(void)
{
	struct krdma_op op;
	int rc;

	memset(back, 0, BYTES);
	krdma_op_read(&op, region.id, 4000, back, BYTES);
	rc = submit(&op);
	if (!rc && memcmp(out, back, BYTES))
		result("other bytes", "what was read");
	return rc;
}

static int do_vectors(void)
{
	struct krdma_vec pieces[] = { { (uintptr_t)out, 5000 }, { (uintptr_t)out + 9000, 1 } };
	struct krdma_vec ranges[] = { { 100, 1 }, { 20000, 5000 } };
	struct krdma_op op;

	krdma_op_write(&op, region.id, 0, NULL, 0);
	krdma_op_vector(&op, pieces, 2);
	krdma_op_ranges(&op, ranges, 2);
	krdma_op_verify(&op);
	return submit(&op);
}

static int do_read_buffer(void)
{
	struct krdma_op op;

	krdma_op_read(&op, region.id, 0, NULL, 5000);
	krdma_op_buffer(&op, made, 100);
	return submit(&op);
}

static int do_digest(void)
{
	struct krdma_op op;
	uint64_t digest;

	krdma_op_digest(&op, region.id, 0, BYTES, &digest);
	return submit(&op);
}

static int do_atomic(void)
{
	struct krdma_op op;
	uint64_t before;

	if (!atomic.id)
		return 0;
	krdma_op_fetch_add(&op, atomic.id, 8, &before, 1);
	return submit(&op);
}

static int do_send(void)
{
	struct krdma_op op;

	krdma_op_send(&op, receiver.id, out, KRDMA_MESSAGE_MAX, 1);
	return submit(&op);
}

static int do_write_message(void)
{
	struct krdma_op op;

	krdma_op_write(&op, receiver.id, 0, out, 5000);
	krdma_op_message(&op, 2);
	return submit(&op);
}

/* What was taken has its completions, whatever else fails. */
static int do_async(void)
{
	struct krdma_completion done[2];
	struct krdma_op ops[2] = { 0 };
	int i, n, rc = 0, status = 0;

	for (i = 0; i < 2; i++) {
		krdma_op_read(&ops[i], region.id, 0, back + 8192 * i, 5000);
		ops[i].timeout_ns = TIMEOUT_MS * 1000000ULL;
		ops[i].user_data = 1;
	}
	n = krdma_submit_async(krdma, ops, 2);
	if (n < 0)
		return n;
	while (n > 0) {
		rc = krdma_reap(krdma, done, 2);
		/* One that could not be given is still there. */
		if (rc < 0) {
			status = rc;
			continue;
		}
		if (!rc)
			break;
		for (i = 0; i < rc; i++)
			if (done[i].status)
				status = -done[i].status;
		n -= rc;
	}
	if (n)
		result("completions are missing", "asynchronous operations");
	return status;
}

static int do_cancel(void)
{
	int rc = krdma_cancel(krdma, 0, KRDMA_CANCEL_ALL);

	return rc < 0 ? rc : 0;
}

static int do_eventfd(void)
{
	return krdma_eventfd(krdma, event);
}

static void undo_eventfd(void)
{
	krdma_eventfd(krdma, -1);
}

/* io_uring has faults of its own: what was submitted completes. */
static int do_uring(bool fixed)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring);
	struct krdma_op op;
	int rc;

	krdma_op_read(&op, region.id, 0, back, 3000);
	op.timeout_ns = TIMEOUT_MS * 1000000ULL;
	if (fixed)
		krdma_prep_op_fixed(sqe, krdma, &op, 0);
	else
		krdma_prep_op(sqe, krdma, &op);
	rc = io_uring_submit(&uring);
	/* What it has not taken, it takes now. */
	if (rc < 1 && io_uring_submit(&uring) < 1)
		give_up("io_uring");
	while (io_uring_wait_cqe(&uring, &cqe))
		;
	rc = rc < 1 ? -ENOMEM : cqe->res;
	io_uring_cqe_seen(&uring, cqe);
	return rc < 0 ? rc : 0;
}

static int do_uring_plain(void)
{
	return do_uring(false);
}

static int do_uring_fixed(void)
{
	return do_uring(true);
}

static int prepare_uring(void)
{
	struct iovec iov = { .iov_base = back, .iov_len = BYTES };

	if (io_uring_queue_init(4, &uring, IORING_SETUP_SQE128) ||
	    io_uring_register_buffers(&uring, &iov, 1))
		give_up("io_uring");
	return 0;
}

static void undo_uring(void)
{
	io_uring_queue_exit(&uring);
}

static int call_blk(unsigned long cmd, void *arg)
{
	return ioctl(blk, cmd, arg) ? -errno : 0;
}

static int do_attach(void)
{
	/* The export is open already. */
	struct krdma_blk_attach disk = {
		.size = sizeof(disk),
		.flags = KRDMA_BLK_SHARED,
		.dst = host,
	};

	snprintf(disk.name, sizeof(disk.name), "%s", export_name);
	return call_blk(KRDMA_BLK_ATTACH, &disk);
}

static int do_disks(void)
{
	struct krdma_blk_info info;
	struct krdma_blk_list list = {
		.size = sizeof(list),
		.infos = (uintptr_t)&info,
		.count = 1,
		.stride = sizeof(info),
	};

	return call_blk(KRDMA_BLK_LIST, &list);
}

static int do_detach(void)
{
	struct krdma_blk_detach detach = { .size = sizeof(detach), .flags = KRDMA_BLK_FORCE };

	return disks(&detach.disk) ? call_blk(KRDMA_BLK_DETACH, &detach) : -ENODEV;
}

static void undo_attach(void)
{
	uint32_t first;

	if (disks(&first))
		do_detach();
}

static const struct call {
	const char *name;
	int (*fn)(void);
	int (*prepare)(void);
	void (*undo)(void);
} calls[] = {
	{ "open of the device", do_new, NULL, undo_new },
	{ "QUERY", do_query, NULL, NULL },
	{ "LIST", do_list, NULL, NULL },
	{ "LIST of the peer's exports", do_list_peer, NULL, NULL },
	{ "EXPORT of memory", do_export_memory, NULL, destroy_made },
	{ "EXPORT of a memfd", do_export_memfd, NULL, destroy_made },
	{ "MONITOR", do_monitor, NULL, destroy_made },
	{ "MESSAGE_QUEUE", do_message_queue, do_export_memfd, destroy_made },
	{ "DESTROY of an export", do_destroy, do_export_memfd, destroy_made },
	{ "LISTEN", do_listen, NULL, undo_listen },
	{ "UNLISTEN", do_unlisten, do_listen, undo_listen },
	{ "CONNECT, a session of its own", do_connect, NULL, destroy_made },
	{ "CONNECT", do_connect_shared, NULL, destroy_made },
	{ "DESTROY of a session", do_destroy, do_connect, destroy_made },
	{ "PING", do_ping, NULL, NULL },
	{ "OPEN", do_open, NULL, destroy_made },
	{ "DESTROY of a region", do_destroy, prepare_open, destroy_made },
	{ "BUFFER", do_buffer, NULL, destroy_made },
	{ "DESTROY of a buffer", do_destroy, do_buffer, destroy_made },
	{ "SUBMIT of a WRITE", do_write, NULL, NULL },
	{ "SUBMIT of a READ", do_read, do_write, NULL },
	{ "SUBMIT of pieces and ranges, verified", do_vectors, NULL, NULL },
	{ "SUBMIT with a buffer", do_read_buffer, do_buffer, destroy_made },
	{ "SUBMIT of a digest", do_digest, NULL, NULL },
	{ "SUBMIT of an atomic operation", do_atomic, NULL, NULL },
	{ "SUBMIT of a message", do_send, NULL, NULL },
	{ "SUBMIT of a WRITE with a message", do_write_message, NULL, NULL },
	{ "SUBMIT and reading completions", do_async, NULL, NULL },
	{ "CANCEL", do_cancel, NULL, NULL },
	{ "EVENTFD", do_eventfd, NULL, undo_eventfd },
	{ "io_uring", do_uring_plain, prepare_uring, undo_uring },
	{ "io_uring with a fixed buffer", do_uring_fixed, prepare_uring, undo_uring },
	{ "BLK_ATTACH", do_attach, NULL, undo_attach },
	{ "BLK_LIST", do_disks, do_attach, undo_attach },
	{ "BLK_DETACH", do_detach, do_attach, undo_attach },
};

/* ---- faults ---- */

/* Return: false if the fault that was armed before has hit this. */
static bool arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(nth, text, (size_t)len, 0) == len)
		return true;
	if (errno != EFAULT || pwrite(nth, text, (size_t)len, 0) != len) {
		perror("fail-nth");
		exit(1);
	}
	return false;
}

/* Return: whether the fault has hit the call; there is none after it. */
static bool disarm(void)
{
	char text[16] = "";
	bool hit;

	/* Asking is a call that it may hit, too. */
	if (pread(nth, text, sizeof(text) - 1, 0) < 0 && errno != EFAULT) {
		perror("fail-nth");
		exit(1);
	}
	hit = !strcmp(text, "0\n");
	return arm(0) && hit;
}

/* A message of the protocol that the device refuses costs the session: then there is another. */
static bool session_is_lost(void)
{
	uint64_t ns;

	if (!krdma_ping(krdma, session, 0, TIMEOUT_MS, &ns))
		return false;
	krdma_free(krdma);
	begin();
	return true;
}

static void sweep(const struct call *call, const struct counts *base)
{
	unsigned int n, errors = 0, lost = 0;
	char what[200], text[300];
	const char *why = NULL;
	bool hit = true;
	int rc;

	for (n = 0; hit && !why && n < ENDLESS;) {
		if (call->prepare && call->prepare())
			give_up(call->name);
		arm(n + 1);
		rc = call->fn();
		hit = disarm();
		n += hit;
		errors += rc < 0;
		if (!hit && rc < 0) {
			snprintf(text, sizeof(text), "without a fault: %s", strerror(-rc));
			why = text;
		}
		if (call->undo)
			call->undo();
		lost += session_is_lost();
		if (!why)
			why = differ(base);
	}
	if (n == ENDLESS)
		why = "it has no end";
	snprintf(what, sizeof(what), "%s: %u faults, %u failures, %u sessions lost", call->name, n,
		 errors, lost);
	result(why, what);
}

static void *memory(void)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(at, 0x5a, BYTES);
	return at;
}

int main(int argc, char **argv)
{
	const char *factor = getenv("TIME_FACTOR");
	struct counts base;
	unsigned int i;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: nth HOST EXPORT RECEIVER [TEXT]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	export_name = argv[2];
	receiver_name = argv[3];
	seconds = 20 * (factor && atoi(factor) > 0 ? atoi(factor) : 1);
	nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth < 0) {
		printf("1..0 # SKIP this kernel injects no faults into a task\n");
		return 4;
	}
	/* What the program itself needs is there: a fault is the kernel's call's. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		perror("mlockall");
	out = memory();
	back = memory();
	memfd = krdma_memfd("nth", BYTES);
	event = eventfd(0, EFD_CLOEXEC);
	if (memfd < 0 || event < 0 || krdma_resolve(argv[1], &host, 1) < 1 ||
	    krdma_resolve("0.0.0.0:7999", &here, 1) < 1)
		give_up("begin");
	blk = open("/dev/krdma_blk", O_RDWR | O_CLOEXEC);
	begin();
	count(&base);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if ((blk >= 0 || strncmp(calls[i].name, "BLK_", 4)) &&
		    (argc < 5 || strstr(calls[i].name, argv[4])))
			sweep(&calls[i], &base);
	krdma_free(krdma);
	printf("1..%d\n", results);
	return failures ? 1 : 0;
}
