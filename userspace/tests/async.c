// SPDX-License-Identifier: GPL-2.0
/* libkrdma's asynchronous half and its messages, over tests/fake: no kernel module. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <krdma/krdma.h>
#include <krdma/uring.h>

#define LENGTH 65536
#define PIECE  1000ULL

static unsigned int tests, failures;
static char directory[] = "/tmp/krdma-async-XXXXXX";
static char path[64];

static struct krdma *krdma;
static struct krdma_region region;
static uint32_t session, buffer;
static char memory[LENGTH];

static void check(bool good, const char *what)
{
	tests++;
	failures += !good;
	printf("%s %u - %s\n", good ? "ok" : "not ok", tests, what);
	if (!good)
		printf("# %s\n", krdma_error());
}

static void give_up(const char *what)
{
	printf("Bail out! %s: %s\n", what, krdma_error());
	exit(EXIT_FAILURE);
}

/* The nth piece of the memory, to the nth place of the region. */
static struct krdma_op piece(unsigned int n)
{
	struct krdma_op op;

	krdma_op_write(&op, region.id, n * PIECE, NULL, PIECE);
	krdma_op_buffer(&op, buffer, n * PIECE);
	op.user_data = n;
	return op;
}

static void blocking(bool yes)
{
	const int flags = fcntl(krdma_fd(krdma), F_GETFL);

	if (fcntl(krdma_fd(krdma), F_SETFL, yes ? flags & ~O_NONBLOCK : flags | O_NONBLOCK))
		give_up("O_NONBLOCK");
}

static bool readable(int timeout_ms)
{
	struct pollfd set = { .fd = krdma_fd(krdma), .events = POLLIN };

	return poll(&set, 1, timeout_ms) == 1 && set.revents & POLLIN;
}

/* All that is under way. Return: how many ended with that status, -1 if another did. */
static int reap_all(int status)
{
	struct krdma_completion completions[4];
	int total = 0, count, i;

	while ((count = krdma_reap(krdma, completions, 4)) > 0) {
		for (i = 0; i < count; i++)
			if (completions[i].status != status)
				return -1;
		total += count;
	}
	return count ? -1 : total;
}

static bool arrived(unsigned int from, unsigned int count)
{
	char there[LENGTH];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0 && read(fd, there, sizeof(there)) == LENGTH;

	if (fd >= 0)
		close(fd);
	return good && !memcmp(there + from * PIECE, memory + from * PIECE, count * PIECE);
}

/* ---- Filling in ---- */

static void test_helpers(void)
{
	static const struct krdma_vec pieces[] = { { 100, 5 }, { 300, 6 } };
	static const struct krdma_op none = { 0 };
	struct krdma_op op, want;

	memset(&op, 0xff, sizeof(op));
	krdma_op_read(&op, 7, 4096, memory, 100);
	want = (struct krdma_op){ .opcode = KRDMA_OP_READ,
				  .region = 7,
				  .offset = 4096,
				  .addr = (uintptr_t)memory,
				  .length = 100 };
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_read");
	memset(&op, 0xff, sizeof(op));
	krdma_op_write(&op, 7, 4096, memory, 100);
	want.opcode = KRDMA_OP_WRITE;
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_write");
	krdma_op_buffer(&op, 9, 77);
	want.flags = KRDMA_OPF_BUFFER;
	want.buffer = 9;
	want.addr = 77;
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_buffer");

	op = none;
	krdma_op_vector(&op, pieces, 2);
	want = (struct krdma_op){
		.flags = KRDMA_OPF_VECTOR, .addr = (uintptr_t)pieces, .naddr = 2, .length = 11
	};
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_vector");
	op = none;
	krdma_op_ranges(&op, pieces, 2);
	want = (struct krdma_op){ .flags = KRDMA_OPF_RANGES,
				  .offset = (uintptr_t)pieces,
				  .nranges = 2 };
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_ranges");

	memset(&op, 0xff, sizeof(op));
	krdma_op_send(&op, 7, memory, 100, UINT64_MAX);
	want = (struct krdma_op){ .opcode = KRDMA_OP_SEND,
				  .region = 7,
				  .addr = (uintptr_t)memory,
				  .length = 100,
				  .operand = UINT64_MAX };
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_send");
	op = none;
	krdma_op_verify(&op);
	krdma_op_message(&op, 42);
	want = (struct krdma_op){ .flags = KRDMA_OPF_VERIFY | KRDMA_OPF_MESSAGE, .operand = 42 };
	check(!memcmp(&op, &want, sizeof(op)), "krdma_op_message");
}

/* ---- Connect ---- */

static void test_connect(void)
{
	const struct krdma_sockaddr addr = { .family = AF_INET, .addr = { 10, 0, 0, 2 } };
	const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	uint64_t count = 0;
	uint32_t id = 0;

	check(!krdma_connect_start(krdma, &addr, NULL, event, &id) && id, "krdma_connect_start");
	check(read(event, &count, sizeof(count)) == sizeof(count) && count == 1 &&
		      !krdma_connected(krdma, id),
	      "the eventfd is signalled, and the session is up");
	krdma_destroy(krdma, id);
	check(krdma_connected(krdma, id) == -ENOENT, "and gone");
	setenv("KRDMA_FAKE_REFUSE", "1", 1);
	check(!krdma_connect_start(krdma, &addr, NULL, -1, &id) &&
		      krdma_connected(krdma, id) == -ECONNREFUSED,
	      "a refusal is the result of krdma_connected()");
	unsetenv("KRDMA_FAKE_REFUSE");
	krdma_destroy(krdma, id);
	check(krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_ASYNC, 0, &id) == -EINVAL &&
		      strstr(krdma_error(), "krdma_connect_start"),
	      "a call that waits refuses KRDMA_CONNECT_ASYNC");
	close(event);
}

/* ---- Submit and reap ---- */

static void test_order_of_things(void)
{
	struct krdma_op ops[3] = { piece(0), piece(1), piece(2) };
	struct krdma_completion completions[4];
	struct krdma_op bad = piece(3);
	int count, i, total = 0;
	unsigned int seen = 0;

	check(!krdma_reap(krdma, completions, 4), "nothing is under way");
	check(krdma_submit_async(krdma, ops, 3) == 3, "three operations are taken");
	while (total < 3 && (count = krdma_reap(krdma, completions, 4)) > 0) {
		for (i = 0; i < count; i++)
			if (!completions[i].status && completions[i].result == PIECE)
				seen |= 1U << completions[i].user_data;
		total += count;
	}
	check(total == 3 && seen == 7, "each has its completion");
	check(arrived(0, 3), "the bytes are there");

	bad.region = 63;
	check(krdma_submit_async(krdma, &bad, 1) == -ENOENT &&
		      !strcmp(krdma_error(), "no region 63"),
	      "a malformed one is not taken");
	check(!krdma_reap(krdma, completions, 4), "and has no completion");
}

static void test_failure(void)
{
	struct krdma_op ops[3] = { piece(0), piece(1), piece(2) };
	int count, total = 0, failed = 0, i;
	struct krdma_completion completions[4];
	char text[128] = "";

	/* Three have been done: of these three, the second. */
	setenv("KRDMA_FAKE_FAIL_OP", "5:104", 1);
	krdma_submit_async(krdma, ops, 3);
	while (total < 3 && (count = krdma_reap(krdma, completions, 4)) > 0) {
		for (i = 0; i < count; i++) {
			if (!completions[i].status)
				continue;
			failed++;
			snprintf(text, sizeof(text), "%s", krdma_error());
			if (completions[i].status != -ECONNRESET || completions[i].user_data != 1)
				failed = 100;
		}
		total += count;
	}
	unsetenv("KRDMA_FAKE_FAIL_OP");
	check(total == 3 && failed == 1, "one in the middle fails");
	check(!strcmp(text, "operation 5 on 'place' failed on purpose"), "the kernel's error text");
	check(krdma_explain(krdma, ECONNRESET) == -ECONNRESET && !strcmp(krdma_error(), text),
	      "krdma_explain");
	check(krdma_explain(krdma, ENOSPC) == -ENOSPC && !strcmp(krdma_error(), strerror(ENOSPC)),
	      "krdma_explain of what the kernel does not know");
}

static void test_limit(void)
{
	struct krdma_op ops[4] = { piece(0), piece(1), piece(2), piece(3) };
	struct krdma_completion completion;

	setenv("KRDMA_FAKE_OPS_MAX", "3", 1);
	setenv("KRDMA_FAKE_HANG", "1", 1);
	blocking(false);
	check(krdma_submit_async(krdma, ops, 4) == 3, "a part is taken at the limit");
	check(krdma_submit_async(krdma, ops + 3, 1) == -EAGAIN, "then none");
	check(krdma_reap(krdma, &completion, 1) == -EAGAIN, "none has ended, without waiting");
	check(!readable(0), "poll agrees");
	unsetenv("KRDMA_FAKE_HANG");
	/* The adapter looks again when something happens. */
	krdma_cancel(krdma, UINT64_MAX, 0);
	check(readable(5000), "poll sees the end of one");
	blocking(true);
	check(krdma_reap(krdma, &completion, 1) == 1 && !completion.status &&
		      krdma_submit_async(krdma, ops + 3, 1) == 1,
	      "when it has been read, there is room");
	unsetenv("KRDMA_FAKE_OPS_MAX");
	check(reap_all(0) == 3, "the others have ended");
}

static void test_cancel(void)
{
	struct krdma_op ops[3] = { piece(0), piece(1), piece(2) };
	struct krdma_completion completion;

	setenv("KRDMA_FAKE_HANG", "1", 1);
	krdma_submit_async(krdma, ops, 3);
	check(krdma_cancel(krdma, 1, 0) == 1, "one is cancelled by its user_data");
	check(krdma_reap(krdma, &completion, 1) == 1 && completion.user_data == 1 &&
		      completion.status == -ECANCELED,
	      "and ends so");
	check(!krdma_cancel(krdma, 1, 0), "only once");
	check(krdma_cancel(krdma, 0, KRDMA_CANCEL_ALL) == 2 && reap_all(-ECANCELED) == 2,
	      "all others");
	unsetenv("KRDMA_FAKE_HANG");
}

static void test_eventfd(void)
{
	struct krdma_op ops[3] = { piece(4), piece(5), piece(6) };
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint64_t count = 0;

	check(!krdma_eventfd(krdma, fd), "an eventfd is taken");
	krdma_submit_async(krdma, ops, 3);
	check(reap_all(0) == 3 && read(fd, &count, sizeof(count)) == sizeof(count) && count == 3,
	      "it counts completions");
	check(!krdma_eventfd(krdma, -1) && krdma_submit_async(krdma, ops, 1) == 1 &&
		      reap_all(0) == 1 && read(fd, &count, sizeof(count)) < 0,
	      "until it is let go");
	close(fd);
}

/* ---- Messages ---- */

/* The next of those that were read, NULL if it is not like this. */
static const struct krdma_message *is_next(const void *buf, ssize_t bytes,
					   const struct krdma_message *before, uint64_t value,
					   uint32_t length)
{
	const struct krdma_message *m = krdma_message_next(buf, (size_t)bytes, before);

	if (!m || m->value != value || m->length != length)
		return NULL;
	return memcmp(krdma_message_data(m), memory, length) ? NULL : m;
}

/* To the region of an export of this process. */
static void test_send(uint32_t talk, int queue)
{
	static _Alignas(8) char buf[4 * (sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX)];
	const uint32_t lengths[] = { 5, 0, KRDMA_MESSAGE_MAX };
	struct pollfd set = { .fd = queue, .events = POLLIN };
	struct krdma_completion completions[3];
	const struct krdma_message *m = NULL;
	struct krdma_op ops[3];
	ssize_t bytes;
	uint32_t i;

	check(read(queue, buf, sizeof(buf)) < 0 && errno == EAGAIN && !poll(&set, 1, 0),
	      "the message queue is empty");
	for (i = 0; i < 3; i++)
		krdma_op_send(&ops[i], talk, memory, lengths[i], 100 + i);
	check(!krdma_submit(krdma, ops, completions, 3) && completions[2].result == lengths[2],
	      "three messages are sent");
	check(poll(&set, 1, 5000) == 1 && set.revents == POLLIN, "poll sees them");
	bytes = read(queue, buf, sizeof(buf));
	for (i = 0; i < 3 && bytes > 0; i++) {
		m = is_next(buf, bytes, m, 100 + i, lengths[i]);
		if (!m || m->flags)
			break;
	}
	check(i == 3 && !krdma_message_next(buf, (size_t)bytes, m), "one read gives them in order");

	krdma_op_write(&ops[0], talk, 7, memory, 10);
	krdma_op_message(&ops[0], 42);
	check(krdma_submit_async(krdma, ops, 1) == 1 && reap_all(0) == 1,
	      "a WRITE that tells of itself");
	bytes = read(queue, buf, sizeof(buf));
	m = bytes > 0 ? is_next(buf, bytes, NULL, 42, 0) : NULL;
	check(m && m->flags == KRDMA_MESSAGE_WRITTEN, "does so");

	krdma_op_send(&ops[0], talk, memory, KRDMA_MESSAGE_MAX + 1, 0);
	check(krdma_submit(krdma, ops, completions, 1) == -EINVAL, "a message that is too long");
	krdma_op_send(&ops[0], region.id, memory, 1, 0);
	check(krdma_submit(krdma, ops, completions, 1) == -EACCES, "one to memory alone");
}

static void test_messages(void)
{
	const uint32_t rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE;
	struct krdma_region talk = { 0 }, deaf = { 0 };
	struct krdma_completion completion;
	struct krdma_sockaddr addr;
	uint32_t id = 0, plain = 0, other = 0;
	struct krdma_op op;
	int fd, queue;
	char buf[128];

	fd = krdma_memfd("messages", LENGTH);
	if (fd < 0 || krdma_export_memfd(krdma, "messages", fd, 0, LENGTH, rights, 0, &id) ||
	    krdma_export_memfd(krdma, "plain", fd, 0, LENGTH, KRDMA_RIGHT_READ, 0, &plain) ||
	    krdma_resolve("h", &addr, 1) != 1 ||
	    krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_MESSAGES, 0, &other))
		give_up("exports for messages");
	close(fd);
	check(krdma_message_queue(krdma, plain, 0) == -EACCES,
	      "no message queue without the right");
	queue = krdma_message_queue(krdma, id, KRDMA_MESSAGE_QUEUE_NONBLOCK);
	check(queue >= 0 && fcntl(queue, F_GETFD) == FD_CLOEXEC, "a message queue");
	check(!krdma_open_region(krdma, session, "messages", 0, 0, &deaf) &&
		      !(deaf.rights & KRDMA_RIGHT_MESSAGE),
	      "a session that is not for messages");
	check(!krdma_open_region(krdma, other, "messages", rights, 0, &talk) &&
		      (talk.rights & rights) == rights,
	      "one that is");
	test_send(talk.id, queue);

	krdma_op_send(&op, talk.id, memory, 8, 7);
	check(!krdma_submit(krdma, &op, &completion, 1) && !krdma_destroy(krdma, id) &&
		      read(queue, buf, sizeof(buf)) == 72,
	      "the last message outlives its export");
	check(!read(queue, buf, sizeof(buf)), "then comes the end of the file");
	check(krdma_submit(krdma, &op, &completion, 1) == 1 && completion.status == -ESTALE,
	      "nobody is there any more");
	krdma_destroy(krdma, plain);
	close(queue);
}

/* ---- io_uring ---- */

static void test_uring(void)
{
	struct iovec vec = { .iov_base = memory, .iov_len = sizeof(memory) };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe[2];
	struct io_uring ring;
	struct krdma_op op;
	unsigned int head, good = 0, count = 0;

	if (io_uring_queue_init(4, &ring, IORING_SETUP_SQE128) ||
	    io_uring_register_buffers(&ring, &vec, 1))
		give_up("io_uring");
	sqe[0] = io_uring_get_sqe(&ring);
	memset(sqe[0], 0xff, 128);
	op = piece(10);
	krdma_prep_op(sqe[0], krdma, &op);
	check(sqe[0]->opcode == IORING_OP_URING_CMD && sqe[0]->fd == krdma_fd(krdma) &&
		      sqe[0]->cmd_op == KRDMA_URING_OP && !sqe[0]->uring_cmd_flags &&
		      !sqe[0]->flags && !sqe[0]->user_data && !sqe[0]->buf_index,
	      "the first half of the entry");
	check(!memcmp((char *)sqe[0] + 48, &op, 80), "the operation is at its end");

	sqe[1] = io_uring_get_sqe(&ring);
	check((char *)sqe[1] - (char *)sqe[0] == 128, "the next entry is behind it");
	krdma_op_write(&op, region.id, 11 * PIECE, memory + 11 * PIECE, PIECE);
	krdma_prep_op_fixed(sqe[1], krdma, &op, 0);
	check(sqe[1]->uring_cmd_flags == IORING_URING_CMD_FIXED && !sqe[1]->buf_index,
	      "memory that io_uring has registered");
	sqe[0]->user_data = 20;
	sqe[1]->user_data = 21;
	check(io_uring_submit_and_wait(&ring, 2) == 2, "two entries are submitted");
	io_uring_for_each_cqe(&ring, head, cqe)
	{
		good += cqe->res == PIECE && cqe->user_data == 20 + count;
		count++;
	}
	io_uring_cq_advance(&ring, count);
	check(good == 2 && arrived(10, 2), "both have moved their bytes");
	io_uring_queue_exit(&ring);
}

static void test_session(void)
{
	struct krdma_session_info info;

	check(!krdma_session(krdma, session, &info) && info.serial == 3, "a session is looked at");
	check(krdma_session(krdma, 0, &info) == -ENOENT, "0 is no session");
}

/* The device does not become standard input. */
static void test_streams(void)
{
	const int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	struct krdma *other;

	close(STDIN_FILENO);
	check(!krdma_new(&other) && krdma_fd(other) > STDERR_FILENO &&
		      (fcntl(krdma_fd(other), F_GETFD) & FD_CLOEXEC) &&
		      fcntl(STDIN_FILENO, F_GETFD) < 0,
	      "the device is not a standard stream that is closed");
	krdma_free(other);
	if (saved >= 0)
		dup2(saved, STDIN_FILENO);
	close(saved);
}

int main(void)
{
	struct krdma_sockaddr addr;
	size_t i;
	int fd;

	alarm(60); /* what waits for ever has failed */
	if (!mkdtemp(directory))
		give_up("mkdtemp");
	setenv("KRDMA_FAKE_DIR", directory, 1);
	snprintf(path, sizeof(path), "%s/place", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, LENGTH))
		give_up("a file for the export");
	close(fd);
	for (i = 0; i < sizeof(memory); i++)
		memory[i] = (char)(i * 7 + i / 256);

	test_streams();
	if (krdma_new(&krdma) || krdma_resolve("h", &addr, 1) != 1 ||
	    krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE, 0, &session) ||
	    krdma_open_region(krdma, session, "place", 0, 0, &region) ||
	    krdma_register_buffer(krdma, memory, sizeof(memory), KRDMA_BUFFER_WRITABLE, &buffer))
		give_up("set up");
	test_helpers();
	test_session();
	test_connect();
	test_order_of_things();
	test_failure();
	test_limit();
	test_cancel();
	test_eventfd();
	test_uring();
	/* The last: the fake keeps the number of its file. */
	test_messages();
	krdma_free(krdma);
	unlink(path);
	rmdir(directory);
	printf("1..%u\n", tests);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
