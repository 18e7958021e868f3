// SPDX-License-Identifier: GPL-2.0
/* Messages, which are datagrams to a socket beside the export, and message queues. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake.h"

#define MESSAGE_BYTES (sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX)

/* By file: is it a message queue? */
static bool queues[FILES];

/* By the number of the directory: its path may be too long for a socket. */
static void socket_path(struct sockaddr_un *addr, const char *path)
{
	static int fd = -1;

	if (fd < 0)
		fd = openat(AT_FDCWD, directory(), O_PATH | O_CLOEXEC);
	addr->sun_family = AF_UNIX;
	snprintf(addr->sun_path, sizeof(addr->sun_path), "/proc/self/fd/%d/.%s", fd,
		 strrchr(path, '/') + 1);
}

/* Before peers see the export, whose messages it takes. Return: 0, or -1 if the name is taken. */
int open_socket(struct object *export)
{
	struct sockaddr_un addr;

	export->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socket_path(&addr, export->path);
	if (!bind(export->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return 0;
	close(export->fd);
	return -1;
}

void close_socket(struct object *export)
{
	struct sockaddr_un addr;

	socket_path(&addr, export->path);
	unlink(addr.sun_path);
	/* All who read get the messages that are there, and then the end. */
	shutdown(export->fd, SHUT_RD);
	close(export->fd);
}

/* Waits for room as long as the operation may last. Return: 0, or an errno. */
int run_message(const struct object *region, const struct krdma_op *op, const void *data)
{
	const uint32_t length = op->opcode == KRDMA_OP_SEND ? (uint32_t)op->length : 0;
	const struct timeval limit = { .tv_sec = (time_t)(op->timeout_ns / 1000000000),
				       .tv_usec = (long)(op->timeout_ns / 1000 % 1000000) };
	_Alignas(8) char entry[MESSAGE_BYTES] = { 0 };
	struct krdma_message *message = (void *)entry;
	struct sockaddr_un addr;
	static int fd = -1;

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	message->size = (uint32_t)(sizeof(*message) + length + 7) / 8 * 8;
	message->length = length;
	message->value = op->operand;
	message->session = region->serial;
	message->uid = getuid();
	message->flags = op->opcode == KRDMA_OP_WRITE ? KRDMA_MESSAGE_WRITTEN : 0;
	message->peer = (struct krdma_sockaddr){ .family = AF_INET, .addr = { 10, 0, 0, 1 } };
	message->region = op->region;
	memcpy(message + 1, data, length);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	socket_path(&addr, region->path);
	if (sendto(fd, entry, message->size, 0, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return errno == EAGAIN ? ETIMEDOUT : ESTALE;
	return 0;
}

int do_message_queue(struct krdma_ioc_message_queue *arg)
{
	const struct object *export = object_get(arg->id, EXPORT);

	if (!export)
		return give(ENOENT, "no export %u", arg->id);
	if (!(export->rights & KRDMA_RIGHT_MESSAGE))
		return give(EACCES, "the export is not for messages");
	arg->fd = fcntl(export->fd, F_DUPFD_CLOEXEC, 0);
	if (arg->fd >= FILES)
		abort();
	queues[arg->fd] = true;
	if (arg->flags & KRDMA_MESSAGE_QUEUE_NONBLOCK)
		fcntl(arg->fd, F_SETFL, O_NONBLOCK);
	say("message queue flags %u\n", arg->flags);
	return 0;
}

/* Its number may be another file's by now. */
bool is_queue(int fd)
{
	struct stat st;

	return fd >= 0 && fd < FILES && queues[fd] && !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

/* A socket of datagrams that does not block has EAGAIN at its end, too. */
static bool queue_over(int fd)
{
	struct pollfd set = { .fd = fd, .events = POLLRDHUP };

	return errno == EAGAIN && poll(&set, 1, 0) == 1 && set.revents & POLLRDHUP;
}

/* All messages that are there and fit. */
ssize_t read_queue(int fd, char *to, size_t size)
{
	size_t used = 0;
	ssize_t got;

	got = recv(fd, to, 0, MSG_PEEK | MSG_TRUNC);
	if (got > (ssize_t)size) {
		errno = EMSGSIZE;
		return -1;
	}
	while (!used || size - used >= MESSAGE_BYTES) {
		got = recv(fd, to + used, size - used, used ? MSG_DONTWAIT : 0);
		if (got <= 0)
			return used ? (ssize_t)used : queue_over(fd) ? 0 : got;
		used += (size_t)got;
	}
	return (ssize_t)used;
}
