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
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const char *peer_address, *self_address;
unsigned int slow;
bool verbose;

/* ---- steps ---- */

#define IOCTL(NAME, struct_, run_)                                     \
	{                                                              \
		.name = #NAME, .run = run_, .ioctl = KRDMA_IOC_##NAME, \
		.size = sizeof(struct krdma_ioc_##struct_)             \
	}

const struct step_kind step_kinds[STEPS] = {
	[STEP_QUERY] = IOCTL(QUERY, query, step_simple),
	[STEP_LAST_ERROR] = IOCTL(LAST_ERROR, last_error, step_simple),
	[STEP_DESTROY] = IOCTL(DESTROY, destroy, step_simple),
	[STEP_LIST] = IOCTL(LIST, list, step_list),
	[STEP_LISTEN] = IOCTL(LISTEN, listen, step_listen),
	[STEP_UNLISTEN] = IOCTL(UNLISTEN, unlisten, step_listen),
	[STEP_CONNECT] = IOCTL(CONNECT, connect, step_connect),
	[STEP_PING] = IOCTL(PING, ping, step_simple),
	[STEP_BUFFER] = IOCTL(BUFFER, buffer, step_simple),
	[STEP_EXPORT] = IOCTL(EXPORT, export, step_export),
	[STEP_OPEN] = IOCTL(OPEN, open, step_simple),
	[STEP_SUBMIT] = IOCTL(SUBMIT, submit, step_submit),
	[STEP_CANCEL] = IOCTL(CANCEL, cancel, step_simple),
	[STEP_EVENTFD] = IOCTL(EVENTFD, eventfd, step_eventfd),
	[STEP_QUEUE] = IOCTL(MESSAGE_QUEUE, message_queue, step_simple),
	[STEP_MONITOR] = IOCTL(MONITOR, monitor, step_simple),
	[STEP_RAW] = { .name = "raw ioctl", .run = step_raw },
	[STEP_READ] = { .name = "read", .run = step_read },
	[STEP_POLL] = { .name = "poll", .run = step_poll },
	[STEP_CLOSE] = { .name = "close", .run = step_close },
	[STEP_DUP] = { .name = "dup", .run = step_dup },
	[STEP_NONBLOCK] = { .name = "O_NONBLOCK", .run = step_nonblock },
	[STEP_QUEUE_READ] = { .name = "queue", .run = step_queue },
	[STEP_QUEUE_CLOSE] = { .name = "queue close", .run = step_queue },
	[STEP_URING_OP] = { .name = "uring op", .run = step_uring_op },
	[STEP_URING_OTHER] = { .name = "uring other", .run = step_uring_other },
	[STEP_URING_FLUSH] = { .name = "uring flush", .run = step_uring_flush },
	[STEP_URING_END] = { .name = "uring end", .run = step_uring_end },
	[STEP_MEMORY] = { .name = "memory", .run = step_memory },
};

/* A byte of the input selects one: the corpus depends on the order. */
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

	step_kinds[step].run(step);
}

/* All that the input has made ends, and what it has touched is as it was. */
static void reset(void)
{
	worker_wait();
	ring_reset();
	files_reset();
	live_reset();
	listeners_reset();
	memory_reset();
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static long taint = -1;
	unsigned int i;
	long now;

	if (taint < 0) {
		/* Not before: one that only merges has another do the runs. */
		taint = tainted();
		live_open();
		if (!live.has_self)
			fprintf(stderr, "fuzz: no session with this host: %s\n",
				kst_last_error(files[0].fd, NULL));
		kcov_open();
		atexit(report);
	}
	current_input(data, size);
	input_begin(data, size);
	kcov_begin();
	for (i = 0; !input_ended() && i < STEPS_MAX; i++)
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
	live_memory();
	if (!ring_begin())
		fprintf(stderr, "fuzz: no io_uring with SQEs of 128 bytes: without it\n");
	worker_start();
	return 0;
}
