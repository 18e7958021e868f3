// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls of /dev/krdma_mover over plain files, to be preloaded under krdma:
 * an export NAME is a file in $KRDMA_FAKE_DIR, its rights are those of the file; who
 * may execute it may send messages, to the socket .NAME beside it. A datagram is a
 * struct krdma_message, an empty one the end of the message queue. The host 'h' has the address
 * 10.0.0.2, 'h2' has fd00::2 and then 10.0.0.2.
 *
 *   KRDMA_FAKE_FAIL_OP=N:ERRNO      the Nth operation of the process fails
 *   KRDMA_FAKE_BUFFER_MAX=BYTES     larger buffers do not fit (ENOMEM)
 *   KRDMA_FAKE_DELAY_MS=N           each submit, or asynchronous operation, takes that long
 *   KRDMA_FAKE_HANG=1               they never end
 *   KRDMA_FAKE_REVERSE=1            asynchronous operations end from the last to the first
 *   KRDMA_FAKE_OPS_MAX=N            asynchronous operations of the file
 *   KRDMA_FAKE_ACCEPT=N             no more of them are taken by one call
 *   KRDMA_FAKE_NO_URING=1           the kernel refuses io_uring
 *   KRDMA_FAKE_REFUSE=1             the first address that is tried refuses
 *   KRDMA_FAKE_STALE=N              the first N connects that are not waited for end with ESTALE
 *   KRDMA_FAKE_SIGNAL=submit|reap   SIGUSR1 comes while an asynchronous submit, or a read of completions, is made
 *   KRDMA_FAKE_SESSION=N            messages are of this session; 3 is listed
 *   KRDMA_FAKE_CUT=1                a session ends with operations under way
 *   KRDMA_FAKE_AWAY=FILE            the connection is lost as long as the file is there
 *   KRDMA_FAKE_FLIP=LENGTH          of a READ or WRITE of more bytes, the last one is changed on the way
 *   KRDMA_FAKE_LOG=FILE             gets a line for each thing worth a test
 */
/* Else open() would be compiled as a second open64(). */
#undef _FILE_OFFSET_BITS

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <liburing.h>

#include <krdma/krdma_mover.h>

#define DEVICE        "/dev/krdma_mover"
#define OBJECTS       64
#define OPS           2048
#define TRANSFERS     150 /* more than one call of the library fetches */
#define MESSAGE_BYTES (sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX)

enum kind {
	NONE,
	SESSION,
	REGION,
	BUFFER,
	EXPORT
};

struct object {
	enum kind kind;
	uint32_t rights; /* of a session or buffer: its flags */
	uint64_t addr;
	uint64_t length;
	int fd;
	int memory; /* of an export for messages that has memory; else -1 */
	char path[512];
};

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);

/* An asynchronous operation that has not ended. */
struct pending {
	struct krdma_op op;
	struct timespec due;
	bool cancelled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[OBJECTS];
static struct krdma_ioc_last_error last_error;
static int device_fd = -1;
static unsigned long operations;
static unsigned int submits, submits_max;
static bool refused;
static int stale;

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct pending pending[OPS];
static struct krdma_completion ended[OPS];
static unsigned int pending_count, ended_count;
static unsigned int under_way_max, batch_max;
static int event_fd = -1;
static bool adapter_runs;
/* By file: is it the device, or a message queue? */
static bool devices[1024], queues[1024];

static void say(const char *fmt, ...)
{
	const char *path = getenv("KRDMA_FAKE_LOG");
	FILE *log = path ? fopen(path, "a") : NULL;
	va_list args;

	if (!log)
		return;
	va_start(args, fmt);
	vfprintf(log, fmt, args);
	va_end(args);
	fclose(log);
}

static __attribute__((format(printf, 2, 3))) int give(int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(last_error.text, sizeof(last_error.text), fmt, args);
	va_end(args);
	last_error.error = error;
	errno = error;
	return -1;
}

static uint32_t object_new(enum kind kind)
{
	uint32_t i;

	for (i = 1; i < OBJECTS; i++) {
		if (objects[i].kind == NONE) {
			memset(&objects[i], 0, sizeof(objects[i]));
			objects[i].kind = kind;
			return i;
		}
	}
	abort();
}

static struct object *object_get(uint32_t id, enum kind kind)
{
	return id && id < OBJECTS && objects[id].kind == kind ? &objects[id] : NULL;
}

static const char *directory(void)
{
	const char *path = getenv("KRDMA_FAKE_DIR");

	return path ? path : ".";
}

static void export_path(char *path, size_t size, const char *name)
{
	snprintf(path, size, "%s/%s", directory(), name);
}

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

static uint32_t file_rights(mode_t mode)
{
	return ((mode & 0400) ? KRDMA_RIGHT_READ : 0) |
	       ((mode & 0200) ? KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC : 0) |
	       ((mode & 0100) ? KRDMA_RIGHT_MESSAGE : 0);
}

static unsigned int number(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

static int do_query(struct krdma_ioc_query *arg)
{
	arg->features = KRDMA_FEATURE_RDMA | KRDMA_FEATURE_ASYNC | KRDMA_FEATURE_URING |
			KRDMA_FEATURE_MESSAGES;
	arg->ops_max = number("KRDMA_FAKE_OPS_MAX", OPS);
	arg->vector_max = KRDMA_VECTOR_MAX;
	arg->incarnation = 0x1234;
	arg->pinned_limit = 1ULL << 40;
	arg->op_pin_max = 1ULL << 30;
	arg->max_ids = OBJECTS;
	arg->submit_max = KRDMA_SUBMIT_MAX;
	strcpy(arg->version, "fake");
	return 0;
}

/* Of IPv4 or IPv6, as text, which has room for INET6_ADDRSTRLEN; and its port and scope. */
static void take_apart(const struct __kernel_sockaddr_storage *addr, char *text, unsigned int *port,
		       unsigned int *scope)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;
	bool v6 = addr->ss_family == AF_INET6;

	strcpy(text, "?");
	inet_ntop(addr->ss_family, v6 ? (const void *)&in6->sin6_addr : &in->sin_addr, text,
		  INET6_ADDRSTRLEN);
	*port = ntohs(in->sin_port);
	*scope = v6 ? in6->sin6_scope_id : 0;
}

/* Of a connect that is not waited for: how it ends. */
static int async_end(void)
{
	const char *n = getenv("KRDMA_FAKE_STALE");

	return n && stale++ < (int)strtol(n, NULL, 10) ? ESTALE : 0;
}

static int do_connect(struct krdma_ioc_connect *arg)
{
	const uint64_t one = 1;
	char text[INET6_ADDRSTRLEN];
	unsigned int port, scope;
	char paths[64] = "";

	take_apart(&arg->dst, text, &port, &scope);
	if (arg->npaths || arg->policy || arg->keepalive_s)
		snprintf(paths, sizeof(paths), " paths %u policy %u keepalive %u", arg->npaths,
			 arg->policy, arg->keepalive_s);
	say("connect %s port %u scope %u timeout %u resume %u%s%s%s%s\n", text, port, scope,
	    arg->timeout_ms, arg->resume_s, arg->flags & KRDMA_CONNECT_PRIVATE ? " private" : "",
	    arg->flags & KRDMA_CONNECT_MESSAGES ? " messages" : "",
	    arg->flags & KRDMA_CONNECT_FAIL_FAST ? " fail_fast" : "", paths);
	if (getenv("KRDMA_FAKE_REFUSE") && !refused) {
		refused = true;
		if (!(arg->flags & KRDMA_CONNECT_ASYNC))
			return give(ECONNREFUSED, "nobody listens at %s", text);
		arg->id = object_new(SESSION);
		objects[arg->id].length = ECONNREFUSED;
	} else {
		arg->id = object_new(SESSION);
		if (arg->flags & KRDMA_CONNECT_ASYNC)
			objects[arg->id].length = (uint64_t)async_end();
	}
	objects[arg->id].rights = arg->flags;
	if (arg->flags & KRDMA_CONNECT_ASYNC && arg->eventfd >= 0 && !getenv("KRDMA_FAKE_HANG") &&
	    write(arg->eventfd, &one, sizeof(one)) < 0)
		return give(EBADF, "file descriptor %d is not an eventfd", arg->eventfd);
	return 0;
}

static int do_connected(struct krdma_ioc_connected *arg)
{
	const struct object *session = object_get(arg->session, SESSION);

	if (!session)
		return give(ENOENT, "no session %u", arg->session);
	if (getenv("KRDMA_FAKE_HANG"))
		return give(EAGAIN, "that is not decided yet");
	return session->length ? give((int)session->length, "nobody listens there") : 0;
}

/* What is said of an export that has not these rights. */
static const char *lacks(uint32_t rights)
{
	if (rights & KRDMA_RIGHT_MESSAGE)
		return "not for messages";
	return rights & KRDMA_RIGHT_READ ? "for messages only" : "read-only";
}

static int do_open(struct krdma_ioc_open *arg)
{
	const struct object *session = object_get(arg->session, SESSION);
	struct object *region;
	struct stat st;
	uint32_t id;

	if (!session)
		return give(ENOENT, "no session %u", arg->session);
	id = object_new(REGION);
	region = &objects[id];
	export_path(region->path, sizeof(region->path), arg->name);
	if (stat(region->path, &st)) {
		region->kind = NONE;
		return give(ENOENT, "the peer has no export '%s'", arg->name);
	}
	region->rights = file_rights(st.st_mode);
	if (!(session->rights & KRDMA_CONNECT_MESSAGES))
		region->rights &= ~KRDMA_RIGHT_MESSAGE;
	if (arg->rights & ~region->rights) {
		region->kind = NONE;
		return give(EACCES, "'%s' is %s", arg->name, lacks(arg->rights & ~region->rights));
	}
	region->fd = openat(AT_FDCWD, region->path,
			    (region->rights & KRDMA_RIGHT_WRITE) ? O_RDWR : O_RDONLY);
	region->length = (uint64_t)st.st_size;
	arg->length = region->length;
	arg->segment_size = 1 << 20;
	arg->granted = region->rights;
	arg->id = id;
	say("open %s rights %u\n", arg->name, arg->rights);
	return 0;
}

static int do_buffer(struct krdma_ioc_buffer *arg)
{
	const char *max = getenv("KRDMA_FAKE_BUFFER_MAX");

	say("buffer %llu flags %u\n", (unsigned long long)arg->length, arg->flags);
	if (max && arg->length > strtoull(max, NULL, 10))
		return give(ENOMEM, "RLIMIT_MEMLOCK is %s bytes, %llu asked", max,
			    (unsigned long long)arg->length);
	arg->id = object_new(BUFFER);
	objects[arg->id].addr = arg->addr;
	objects[arg->id].length = arg->length;
	objects[arg->id].rights = arg->flags;
	return 0;
}

static void export_end(struct object *export)
{
	struct sockaddr_un addr;

	unlink(export->path);
	if (export->rights & KRDMA_RIGHT_MESSAGE) {
		socket_path(&addr, export->path);
		unlink(addr.sun_path);
		/* All who read get the messages that are there, and then the end. */
		shutdown(export->fd, SHUT_RD);
		close(export->fd);
		close(export->memory);
	}
}

/* Peers and the exporter use the same memory. Return: a descriptor, or -1 if the name is taken. */
static int share_memory(struct object *export, int fd, mode_t mode)
{
	char text[64];

	export->memory = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	fchmod(export->memory, mode);
	snprintf(text, sizeof(text), "/proc/%d/fd/%d", getpid(), export->memory);
	return symlink(text, export->path) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Before peers see the export, whose messages it takes. Return: 0, or -1 if the name is taken. */
static int open_socket(struct object *export)
{
	struct sockaddr_un addr;

	export->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socket_path(&addr, export->path);
	if (!bind(export->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return 0;
	close(export->fd);
	return -1;
}

static int do_export(struct krdma_ioc_export *arg)
{
	mode_t mode;
	struct object *export;
	int seals = 0, fd;

	if (arg->flags & KRDMA_EXPORT_FD) {
		seals = fcntl(arg->fd, F_GET_SEALS);
		/* One on disk has none, and may be read. */
		if (!(seals & F_SEAL_SHRINK) && !(seals < 0 && arg->rights == KRDMA_RIGHT_READ))
			return give(EINVAL, "the memfd is not sealed");
	} else if (arg->addr % 4096) {
		return give(EINVAL, "the address is not aligned");
	}
	arg->id = object_new(EXPORT);
	export = &objects[arg->id];
	export_path(export->path, sizeof(export->path), arg->name);
	export->memory = -1;
	mode = ((arg->rights & KRDMA_RIGHT_READ) ? 0400 : 0) |
	       ((arg->rights & KRDMA_RIGHT_WRITE) ? 0200 : 0) |
	       ((arg->rights & KRDMA_RIGHT_MESSAGE) ? 0100 : 0);
	if (!access(export->path, F_OK) ||
	    (arg->rights & KRDMA_RIGHT_MESSAGE && open_socket(export)))
		fd = -1;
	else if (seals & F_SEAL_SHRINK && arg->rights & KRDMA_RIGHT_READ &&
		 arg->rights & KRDMA_RIGHT_MESSAGE)
		fd = share_memory(export, arg->fd, mode);
	else
		fd = openat(AT_FDCWD, export->path, O_RDWR | O_CREAT | O_EXCL, mode);
	if (fd < 0) {
		export->kind = NONE;
		return give(EEXIST, "the name '%s' is taken", arg->name);
	}
	/* What is mapped can be read; what is not would show here. */
	if (!(arg->flags & KRDMA_EXPORT_FD) &&
	    write(fd, (void *)(uintptr_t)arg->addr, arg->length) != (ssize_t)arg->length)
		say("export %s is not all mapped\n", arg->name);
	if (ftruncate(fd, (off_t)arg->length))
		abort();
	close(fd);
	export->rights = arg->rights;
	say("export %s length %llu rights %u flags %u seals %d max_segments %u\n", arg->name,
	    (unsigned long long)arg->length, arg->rights, arg->flags, seals, arg->max_segments);
	return 0;
}

static int do_destroy(struct krdma_ioc_destroy *arg)
{
	struct object *object = arg->id && arg->id < OBJECTS ? &objects[arg->id] : NULL;

	if (!object || object->kind == NONE)
		return give(ENOENT, "no object %u", arg->id);
	if (object->kind == EXPORT)
		export_end(object);
	say("destroy kind %d\n", object->kind);
	object->kind = NONE;
	return 0;
}

static int do_listen(const struct krdma_ioc_listen *arg)
{
	const struct krdma_prefix *allow = (const void *)(uintptr_t)arg->allow;
	char text[INET6_ADDRSTRLEN];
	unsigned int port, scope;
	uint32_t i;

	take_apart(&arg->addr, text, &port, &scope);
	say("listen %s port %u\n", text, port);
	for (i = 0; i < arg->allow_count; i++) {
		inet_ntop(allow[i].addr.family, allow[i].addr.addr, text, sizeof(text));
		say("allow %s/%u\n", text, allow[i].prefix_len);
	}
	return 0;
}

static int do_unlisten(const struct krdma_ioc_unlisten *arg)
{
	char text[INET6_ADDRSTRLEN];
	unsigned int port, scope;

	take_apart(&arg->addr, text, &port, &scope);
	say("unlisten port %u%s\n", port, arg->flags & KRDMA_UNLISTEN_CLOSE ? " close" : "");
	return 0;
}

static int do_disconnect(struct krdma_ioc_disconnect *arg)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (arg->peer.family)
		inet_ntop(arg->peer.family, arg->peer.addr, text, sizeof(text));
	say("disconnect %llu timeout %u %s\n", (unsigned long long)arg->serial, arg->timeout_ms,
	    text);
	if ((arg->serial && arg->serial != 3) || arg->peer.family == AF_INET)
		return give(ENOENT, "there is no session %llu", (unsigned long long)arg->serial);
	if (getenv("KRDMA_FAKE_CUT"))
		return give(ETIMEDOUT, "1 of 1 sessions were not idle in time");
	return 0;
}

/* ---- Operations ---- */

static bool op_shall_fail(int *error)
{
	const char *text = getenv("KRDMA_FAKE_FAIL_OP");
	unsigned long n;

	operations++;
	if (!text)
		return false;
	n = strtoul(text, (char **)&text, 10);
	*error = (int)strtol(text + 1, NULL, 10);
	return operations == n;
}

static uint32_t op_right(const struct krdma_op *op)
{
	if (op->opcode == KRDMA_OP_SEND)
		return KRDMA_RIGHT_MESSAGE;
	if (op->opcode == KRDMA_OP_READ || op->opcode == KRDMA_OP_DIGEST)
		return KRDMA_RIGHT_READ;
	return KRDMA_RIGHT_WRITE | ((op->flags & KRDMA_OPF_MESSAGE) ? KRDMA_RIGHT_MESSAGE : 0);
}

/* What the kernel finds before it starts any operation. */
static int check_op(const struct krdma_op *op)
{
	const struct object *region = object_get(op->region, REGION);
	const struct object *buffer = object_get(op->buffer, BUFFER);

	if (op->flags & ~(KRDMA_OPF_BUFFER | KRDMA_OPF_VERIFY | KRDMA_OPF_MESSAGE))
		return give(EOPNOTSUPP, "the fake has no such operation");
	if (!region)
		return give(ENOENT, "no region %u", op->region);
	if (op->flags & KRDMA_OPF_BUFFER) {
		if (!buffer || op->addr + op->length > buffer->length)
			return give(ERANGE, "outside of the buffer");
		if (op->opcode == KRDMA_OP_READ && !(buffer->rights & KRDMA_BUFFER_WRITABLE))
			return give(EACCES, "the buffer is not writable");
	}
	if (op_right(op) & ~region->rights)
		return give(EACCES, "the region is %s", lacks(op_right(op) & ~region->rights));
	if (op->opcode == KRDMA_OP_SEND) {
		if (op->length > KRDMA_MESSAGE_MAX || op->offset)
			return give(EINVAL, "the message is too long, or has an offset");
		return 0;
	}
	if (op->offset + op->length > region->length || !op->length)
		return give(ERANGE, "outside of the region");
	return 0;
}

/* What an operation tells as a number. */
static void run_number(const struct object *region, const struct krdma_op *op, uint64_t *to)
{
	const off_t end = (off_t)(op->offset + op->length);
	uint32_t crc = ~0U;
	uint64_t value;
	off_t at;
	uint8_t byte;
	int bit;

	if (op->opcode == KRDMA_OP_DIGEST) {
		for (at = (off_t)op->offset; at < end; at++) {
			if (pread(region->fd, &byte, 1, at) != 1)
				abort();
			for (crc ^= byte, bit = 0; bit < 8; bit++)
				crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
		}
		*to = (uint32_t)~crc;
		return;
	}
	if (pread(region->fd, to, sizeof(*to), (off_t)op->offset) != sizeof(*to))
		abort();
	value = op->opcode == KRDMA_OP_FETCH_ADD ? *to + op->operand : op->operand;
	if ((op->opcode == KRDMA_OP_FETCH_ADD || *to == op->compare) &&
	    pwrite(region->fd, &value, sizeof(value), (off_t)op->offset) != sizeof(value))
		abort();
}

/* Waits for room as long as the operation may last. Return: 0, or an errno. */
static int run_message(const struct object *region, const struct krdma_op *op, const void *data)
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
	message->session = number("KRDMA_FAKE_SESSION", 3);
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

/* The wire, or an adapter, changes a byte. */
static void flip(const struct object *region, const struct krdma_op *op, char *addr)
{
	const unsigned int most = number("KRDMA_FAKE_FLIP", 0);
	const off_t last = (off_t)(op->offset + op->length - 1);
	char byte;

	if (!most || op->length <= most)
		return;
	if (op->opcode == KRDMA_OP_READ)
		addr[op->length - 1] ^= 1;
	else if (pread(region->fd, &byte, 1, last) != 1 ||
		 pwrite(region->fd, &(char){ (char)(byte ^ 1) }, 1, last) != 1)
		abort();
}

static void run_op(const struct krdma_op *op, struct krdma_completion *completion)
{
	const struct object *region = &objects[op->region];
	uint64_t addr = op->addr;
	ssize_t moved;
	int error;

	*completion = (struct krdma_completion){ .user_data = op->user_data };
	if (op->flags & KRDMA_OPF_BUFFER)
		addr += objects[op->buffer].addr;
	if (op_shall_fail(&error)) {
		completion->status = -error;
		give(error, "operation %lu on '%s' failed on purpose", operations,
		     strrchr(region->path, '/') + 1);
		return;
	}
	if (op->flags & KRDMA_OPF_VERIFY)
		say("verify %llu\n", (unsigned long long)op->length);
	if (op->opcode >= KRDMA_OP_FETCH_ADD) {
		run_number(region, op, (uint64_t *)(uintptr_t)addr);
		completion->result = op->length;
		return;
	}
	if (op->opcode == KRDMA_OP_SEND)
		moved = (ssize_t)op->length;
	else if (op->opcode == KRDMA_OP_READ)
		moved = pread(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	else
		moved = pwrite(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	if (moved != (ssize_t)op->length)
		abort();
	if (op->opcode != KRDMA_OP_SEND)
		flip(region, op, (char *)(uintptr_t)addr);
	if (op->opcode == KRDMA_OP_SEND || op->flags & KRDMA_OPF_MESSAGE) {
		error = run_message(region, op, (const void *)(uintptr_t)addr);
		if (error) {
			completion->status = -error;
			give(error, "'%s' takes no message: %s", strrchr(region->path, '/') + 1,
			     strerror(error));
			return;
		}
	}
	completion->result = op->length;
}

static struct timespec op_delay(void)
{
	const unsigned int ms = number("KRDMA_FAKE_DELAY_MS", 0);

	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
}

static int do_submit_sync(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	struct krdma_completion *completions = (void *)(uintptr_t)arg->completions;
	struct timespec delay = op_delay();
	uint32_t i;

	submits++;
	if (submits > submits_max)
		submits_max = submits;
	/* As in the kernel, others go on while this one waits for the wire. */
	pthread_mutex_unlock(&lock);
	nanosleep(&delay, NULL);
	while (getenv("KRDMA_FAKE_HANG"))
		pause();
	pthread_mutex_lock(&lock);
	for (i = 0; i < arg->count; i++) {
		run_op(&ops[i], &completions[i]);
		if (completions[i].status)
			arg->failed++;
	}
	arg->accepted = arg->count;
	submits--;
	return 0;
}

/* ---- Asynchronous operations ---- */

static ssize_t real_read(int fd, void *to, size_t size)
{
	static ssize_t (*real)(int, void *, size_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "read");
	return real(fd, to, size);
}

/* The one that ends next, NULL if none can. */
static struct pending *pending_next(void)
{
	unsigned int i;

	for (i = 0; i < pending_count; i++)
		if (pending[i].cancelled)
			return &pending[i];
	if (!pending_count || getenv("KRDMA_FAKE_HANG"))
		return NULL;
	return &pending[getenv("KRDMA_FAKE_REVERSE") ? pending_count - 1 : 0];
}

static bool is_due(const struct pending *next)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return next->cancelled || now.tv_sec > next->due.tv_sec ||
	       (now.tv_sec == next->due.tv_sec && now.tv_nsec >= next->due.tv_nsec);
}

static void pending_end(struct pending *next)
{
	const uint64_t one = 1;

	/* The memory is touched now, when the program must have left it alone. */
	if (next->cancelled)
		ended[ended_count] = (struct krdma_completion){ .user_data = next->op.user_data,
								.status = -ECANCELED };
	else
		run_op(&next->op, &ended[ended_count]);
	ended_count++;
	pending_count--;
	memmove(next, next + 1, (size_t)(&pending[pending_count] - next) * sizeof(*next));
	if (ended_count == 1 && write(device_fd, &one, sizeof(one)) < 0)
		abort();
	if (event_fd >= 0 && write(event_fd, &one, sizeof(one)) < 0)
		abort();
	pthread_cond_broadcast(&changed);
}

static void *adapter(void *arg)
{
	struct pending *next;

	pthread_mutex_lock(&lock);
	for (;;) {
		next = pending_next();
		if (!next)
			pthread_cond_wait(&changed, &lock);
		else if (is_due(next))
			pending_end(next);
		else
			pthread_cond_timedwait(&changed, &lock, &next->due);
	}
	return arg;
}

static bool no_waiting(void)
{
	return fcntl(device_fd, F_GETFL) & O_NONBLOCK;
}

static int do_submit_async(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	const unsigned int ops_max = number("KRDMA_FAKE_OPS_MAX", OPS);
	const unsigned int accept = number("KRDMA_FAKE_ACCEPT", UINT32_MAX);
	const struct timespec delay = op_delay();
	pthread_t thread;

	if (arg->completions || arg->completion_stride)
		return give(EINVAL, "there are no completions here");
	if (!adapter_runs && pthread_create(&thread, NULL, adapter, NULL))
		abort();
	adapter_runs = true;
	while (pending_count + ended_count >= ops_max) {
		if (no_waiting())
			return give(EAGAIN, "%u operations are under way", ops_max);
		pthread_cond_wait(&changed, &lock);
	}
	while (arg->accepted < arg->count && arg->accepted < accept &&
	       pending_count + ended_count < ops_max) {
		struct pending *new = &pending[pending_count++];

		*new = (struct pending){ .op = ops[arg->accepted++] };
		clock_gettime(CLOCK_REALTIME, &new->due);
		new->due.tv_sec += delay.tv_sec;
		new->due.tv_nsec += delay.tv_nsec;
		if (new->due.tv_nsec >= 1000000000) {
			new->due.tv_nsec -= 1000000000;
			new->due.tv_sec++;
		}
	}
	if (pending_count + ended_count > under_way_max)
		under_way_max = pending_count + ended_count;
	if (arg->count > batch_max)
		batch_max = arg->count;
	pthread_cond_broadcast(&changed);
	return 0;
}

/* As if it came while the call is made. */
static void come_between(const char *call)
{
	const char *when = getenv("KRDMA_FAKE_SIGNAL");

	if (when && !strcmp(when, call))
		raise(SIGUSR1);
}

static int do_submit(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	uint32_t i;

	arg->failed = 0;
	arg->accepted = 0;
	if (!arg->count || arg->count > KRDMA_SUBMIT_MAX)
		return give(EINVAL, "%u operations", arg->count);
	for (i = 0; i < arg->count; i++)
		if (check_op(&ops[i]))
			return -1;
	if (!(arg->flags & KRDMA_SUBMIT_ASYNC))
		return do_submit_sync(arg);
	come_between("submit");
	return do_submit_async(arg);
}

static int do_cancel(struct krdma_ioc_cancel *arg)
{
	unsigned int i;

	arg->count = 0;
	for (i = 0; i < pending_count; i++) {
		if (pending[i].op.user_data != arg->user_data && !(arg->flags & KRDMA_CANCEL_ALL))
			continue;
		pending[i].cancelled = true;
		arg->count++;
	}
	pthread_cond_broadcast(&changed);
	return 0;
}

static ssize_t do_read(void *to, size_t size)
{
	unsigned int count = (unsigned int)(size / sizeof(ended[0]));
	uint64_t value;

	if (!count) {
		errno = EINVAL;
		return -1;
	}
	while (!ended_count) {
		if (no_waiting()) {
			errno = EAGAIN;
			return -1;
		}
		if (!pending_count)
			return 0;
		pthread_cond_wait(&changed, &lock);
	}
	if (count > ended_count)
		count = ended_count;
	memcpy(to, ended, count * sizeof(ended[0]));
	ended_count -= count;
	memmove(ended, ended + count, ended_count * sizeof(ended[0]));
	if (!ended_count && real_read(device_fd, &value, sizeof(value)) < 0)
		abort();
	pthread_cond_broadcast(&changed);
	come_between("reap");
	return (ssize_t)(count * sizeof(ended[0]));
}

/* ---- Messages ---- */

static int do_message_queue(struct krdma_ioc_message_queue *arg)
{
	const struct object *export = object_get(arg->id, EXPORT);

	if (!export)
		return give(ENOENT, "no export %u", arg->id);
	if (!(export->rights & KRDMA_RIGHT_MESSAGE))
		return give(EACCES, "the export is not for messages");
	arg->fd = fcntl(export->fd, F_DUPFD_CLOEXEC, 0);
	if (arg->fd >= (int)(sizeof(queues) / sizeof(queues[0])))
		abort();
	queues[arg->fd] = true;
	if (arg->flags & KRDMA_MESSAGE_QUEUE_NONBLOCK)
		fcntl(arg->fd, F_SETFL, O_NONBLOCK);
	say("message queue flags %u\n", arg->flags);
	return 0;
}

/* Its number may be another file's by now. */
static bool is_queue(int fd)
{
	struct stat st;

	return fd >= 0 && fd < (int)(sizeof(queues) / sizeof(queues[0])) && queues[fd] &&
	       !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

/* A socket of datagrams that does not block has EAGAIN at its end, too. */
static bool queue_over(int fd)
{
	struct pollfd set = { .fd = fd, .events = POLLRDHUP };

	return errno == EAGAIN && poll(&set, 1, 0) == 1 && set.revents & POLLRDHUP;
}

/* All messages that are there and fit. */
static ssize_t read_queue(int fd, char *to, size_t size)
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

/* ---- io_uring: a ring in plain memory, of which entries end when they are submitted ---- */

static struct {
	unsigned int khead, ktail, cq_head, cq_tail;
	struct iovec fixed;
} uring;

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	unsigned size = 1;

	if (getenv("KRDMA_FAKE_NO_URING"))
		return -EPERM;
	while (size < entries)
		size *= 2;
	memset(ring, 0, sizeof(*ring));
	memset(&uring, 0, sizeof(uring));
	ring->flags = flags;
	ring->sq.khead = &uring.khead;
	ring->sq.ktail = &uring.ktail;
	ring->sq.ring_entries = size;
	ring->sq.ring_mask = size - 1;
	ring->sq.sqes = calloc(size, (flags & IORING_SETUP_SQE128) ? 128 : 64);
	ring->cq.khead = &uring.cq_head;
	ring->cq.ktail = &uring.cq_tail;
	ring->cq.ring_entries = 2 * size;
	ring->cq.ring_mask = 2 * size - 1;
	ring->cq.cqes = calloc(2 * (size_t)size, sizeof(ring->cq.cqes[0]));
	return ring->sq.sqes && ring->cq.cqes ? 0 : -ENOMEM;
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs, unsigned count)
{
	(void)ring;
	if (count != 1)
		return -EINVAL;
	uring.fixed = *iovecs;
	say("uring buffer %zu\n", iovecs->iov_len);
	return 0;
}

static int uring_op(const struct io_uring_sqe *sqe)
{
	struct krdma_completion completion;
	struct krdma_op op;

	if (sqe->opcode != IORING_OP_URING_CMD || sqe->fd != device_fd ||
	    sqe->cmd_op != KRDMA_URING_OP)
		return -EINVAL;
	memcpy(&op, (const char *)sqe + 48, sizeof(op));
	if (sqe->uring_cmd_flags & IORING_URING_CMD_FIXED &&
	    (sqe->buf_index || op.addr < (uintptr_t)uring.fixed.iov_base ||
	     op.addr + op.length > (uintptr_t)uring.fixed.iov_base + uring.fixed.iov_len))
		return -EFAULT;
	if (check_op(&op))
		return -errno;
	run_op(&op, &completion);
	return completion.status ? completion.status : (int)completion.result;
}

int io_uring_submit(struct io_uring *ring)
{
	const unsigned int shift = (ring->flags & IORING_SETUP_SQE128) ? 1 : 0;
	const unsigned int count = ring->sq.sqe_tail - ring->sq.sqe_head;

	pthread_mutex_lock(&lock);
	for (; ring->sq.sqe_head != ring->sq.sqe_tail; ring->sq.sqe_head++) {
		const struct io_uring_sqe *sqe =
			&ring->sq.sqes[(ring->sq.sqe_head & ring->sq.ring_mask) << shift];
		struct io_uring_cqe *cqe = &ring->cq.cqes[uring.cq_tail & ring->cq.ring_mask];

		*cqe = (struct io_uring_cqe){ .user_data = sqe->user_data, .res = uring_op(sqe) };
		uring.cq_tail++;
	}
	uring.khead = ring->sq.sqe_head;
	if (count > batch_max)
		batch_max = count;
	if (uring.cq_tail - uring.cq_head > under_way_max)
		under_way_max = uring.cq_tail - uring.cq_head;
	pthread_mutex_unlock(&lock);
	return (int)count;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr)
{
	struct timespec delay = op_delay();

	(void)wait_nr;
	nanosleep(&delay, NULL);
	return io_uring_submit(ring);
}

void io_uring_queue_exit(struct io_uring *ring)
{
	free(ring->sq.sqes);
	free(ring->cq.cqes);
}

/* ---- Events ---- */

/* Three, and then the end, which the module's file does not have. */
static int do_monitor(struct krdma_ioc_monitor *arg)
{
	const struct krdma_sockaddr there = { .family = AF_INET, .addr = { 10, 0, 0, 2 } };
	const struct krdma_monitor_event events[] = {
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_SESSION_UP,
		  .time_ns = 1500000000,
		  .session = 3,
		  .uid = 1000,
		  .peer = there,
		  .name = "rxe0" },
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_SESSION_ENDED,
		  .time_ns = 2500000000,
		  .lost = 2,
		  .session = 3,
		  .uid = 1000,
		  .status = -ECONNRESET,
		  .peer = there,
		  .cause = "transport retry counter exceeded" },
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_EXPORT_ADDED,
		  .time_ns = 3500000000,
		  .name = "scratch" },
	};
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || write(ends[1], events, sizeof(events)) != sizeof(events))
		abort();
	close(ends[1]);
	arg->fd = ends[0];
	return 0;
}

/* ---- Lists ---- */

static unsigned int looks;

static void fill_entry(const struct krdma_ioc_list *arg, uint64_t n, void *entry)
{
	static const struct krdma_sockaddr here = { .family = AF_INET, .addr = { 10, 0, 0, 1 } };
	static const struct krdma_sockaddr there = { .family = AF_INET6,
						     .port = 7471,
						     .addr = { 0xfd, [15] = 2 } };

	const char *away = getenv("KRDMA_FAKE_AWAY");
	struct krdma_latency_info *latency;

	memset(entry, 0, arg->stride);
	switch (arg->kind) {
	case KRDMA_LIST_DEVICES:
		*(struct krdma_device_info *)entry = (struct krdma_device_info){
			.name = "rxe0",
			.netdev = "eth0",
			.port = 1,
			.gid_index = 1,
			.gid = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
			.transport = KRDMA_TRANSPORT_ROCE,
			.gid_type = 1,
			.flags = KRDMA_DEVICE_USABLE,
			.max_segment_pages = 512,
			.max_sge = 32,
			.max_sge_rd = 32,
		};
		break;
	case KRDMA_LIST_LISTENERS:
		((struct krdma_listener_info *)entry)->addr = here;
		break;
	case KRDMA_LIST_SESSIONS:
		looks++;
		*(struct krdma_session_info *)entry = (struct krdma_session_info){
			.serial = 3,
			.local = here,
			.peer = there,
			.state = KRDMA_SESSION_UP,
			.flags = KRDMA_SESSION_INBOUND,
			.bytes_read = 1ULL << 63,
			/* 1 MiB and 16 transfers of 2 ms for each look. */
			.bytes_written = looks * 1048576ULL,
			.transfers = looks * 16ULL,
			.transfers_ns = looks * 16ULL * 2000000,
			.served_read_bytes = looks * 4096ULL,
			.device = "rxe0",
			.resume_s = 60,
			.away_ms = away && !access(away, F_OK),
		};
		break;
	case KRDMA_LIST_EXPORTS:
		strcpy(((struct krdma_export_info *)entry)->name, "scratch");
		((struct krdma_export_info *)entry)->served_written_bytes = looks * 8192ULL;
		((struct krdma_export_info *)entry)->served_writes = looks;
		break;
	case KRDMA_LIST_GRANTS:
		*(struct krdma_grant_info *)entry = (struct krdma_grant_info){
			.session = 3,
			.peer = there,
			.uid = 1000,
			.rights = KRDMA_RIGHT_READ,
			.grant = 7,
			.read_bytes = 5000000,
			.reads = 12,
			.name = "scratch",
		};
		break;
	case KRDMA_LIST_LATENCIES:
		latency = entry;
		strcpy(latency->device, "rxe0");
		latency->opcode = KRDMA_OP_WRITE;
		latency->length_max = 4096;
		latency->sum_ns = 1000000;
		/* Of 100, 50 take up to 4096 ns, 49 up to 8192 ns, one is beyond all. */
		latency->counts[2] = 50;
		latency->counts[3] = 49;
		latency->counts[KRDMA_LATENCY_BUCKETS - 1] = 1;
		break;
	case KRDMA_LIST_TRANSFERS:
		*(struct krdma_transfer_info *)entry = (struct krdma_transfer_info){
			.opcode = KRDMA_OP_WRITE,
			.wait = KRDMA_WAIT_KEY,
			.user_data = n,
			.name = "scratch",
		};
		break;
	}
}

static uint64_t list_length(uint32_t kind)
{
	return kind == KRDMA_LIST_TRANSFERS ? TRANSFERS : 1;
}

/* What the peer publishes is what lies in the directory. */
static int list_files(struct krdma_ioc_list *arg)
{
	struct krdma_peer_export_info *entries = (void *)(uintptr_t)arg->entries;
	DIR *dir = opendir(directory());
	const struct dirent *entry;
	struct stat st;
	uint32_t n = 0;

	while (dir && (entry = readdir(dir)) && n < arg->count) {
		if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0))
			continue;
		snprintf(entries[n].name, sizeof(entries[n].name), "%.63s", entry->d_name);
		entries[n].length = (uint64_t)st.st_size;
		entries[n++].rights = file_rights(st.st_mode) & ~KRDMA_RIGHT_ATOMIC;
	}
	if (dir)
		closedir(dir);
	arg->count = n;
	arg->cursor = 0;
	return 0;
}

/* Of the peer: the one that is connected to, and two others. */
static int list_addresses(struct krdma_ioc_list *arg)
{
	static const char *const addrs[] = { "10.0.0.3", "10.0.0.2", "fd00::9" };
	struct krdma_sockaddr *to = (void *)(uintptr_t)arg->entries;

	for (arg->count = 0; arg->count < 3; arg->count++, to++) {
		memset(to, 0, sizeof(*to));
		to->family = arg->count < 2 ? AF_INET : AF_INET6;
		to->port = KRDMA_DEFAULT_PORT;
		inet_pton(to->family, addrs[arg->count], to->addr);
	}
	arg->cursor = 0;
	return 0;
}

static int do_list(struct krdma_ioc_list *arg)
{
	const uint64_t end = list_length(arg->kind);
	char *entries = (char *)(uintptr_t)arg->entries;
	uint32_t n;

	if (arg->kind == KRDMA_LIST_PEER_EXPORTS)
		return list_files(arg);
	if (arg->kind == KRDMA_LIST_ADDRESSES)
		return list_addresses(arg);
	for (n = 0; n < arg->count && arg->cursor < end; n++)
		fill_entry(arg, arg->cursor++, entries + (size_t)n * arg->stride);
	arg->count = n;
	if (arg->cursor == end)
		arg->cursor = 0;
	return 0;
}

/* ---- The device ---- */

static int dispatch(unsigned long request, void *arg)
{
	switch (request) {
	case KRDMA_IOC_QUERY:
		return do_query(arg);
	case KRDMA_IOC_LAST_ERROR:
		*(struct krdma_ioc_last_error *)arg = last_error;
		return 0;
	case KRDMA_IOC_DESTROY:
		return do_destroy(arg);
	case KRDMA_IOC_LIST:
		return do_list(arg);
	case KRDMA_IOC_LISTEN:
		return do_listen(arg);
	case KRDMA_IOC_UNLISTEN:
		return do_unlisten(arg);
	case KRDMA_IOC_CONNECT:
		return do_connect(arg);
	case KRDMA_IOC_CONNECTED:
		return do_connected(arg);
	case KRDMA_IOC_DISCONNECT:
		return do_disconnect(arg);
	case KRDMA_IOC_PING:
		((struct krdma_ioc_ping *)arg)->rtt_ns = 150000 + operations++ * 1000;
		return 0;
	case KRDMA_IOC_BUFFER:
		return do_buffer(arg);
	case KRDMA_IOC_EXPORT:
		return do_export(arg);
	case KRDMA_IOC_MESSAGE_QUEUE:
		return do_message_queue(arg);
	case KRDMA_IOC_MONITOR:
		return do_monitor(arg);
	case KRDMA_IOC_OPEN:
		return do_open(arg);
	case KRDMA_IOC_SUBMIT:
		return do_submit(arg);
	case KRDMA_IOC_CANCEL:
		return do_cancel(arg);
	case KRDMA_IOC_EVENTFD:
		event_fd = ((struct krdma_ioc_eventfd *)arg)->fd;
		return 0;
	default:
		errno = ENOTTY;
		return -1;
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list args;
	void *arg;
	int rc, error;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (fd < 0 || fd >= (int)(sizeof(devices) / sizeof(devices[0])) || !devices[fd]) {
		if (!real)
			*(void **)&real = dlsym(RTLD_NEXT, "ioctl");
		return real(fd, request, arg);
	}
	pthread_mutex_lock(&lock);
	rc = dispatch(request, arg);
	error = errno;
	pthread_mutex_unlock(&lock);
	errno = error;
	return rc;
}

ssize_t read(int fd, void *to, size_t size)
{
	ssize_t got;
	int error;

	if (is_queue(fd))
		return read_queue(fd, to, size);
	if (fd != device_fd || fd < 0)
		return real_read(fd, to, size);
	pthread_mutex_lock(&lock);
	got = do_read(to, size);
	error = errno;
	pthread_mutex_unlock(&lock);
	errno = error;
	return got;
}

/* How Python reads a message queue. */
ssize_t readv(int fd, const struct iovec *vecs, int count)
{
	if (is_queue(fd) && count == 1)
		return read_queue(fd, vecs->iov_base, vecs->iov_len);
	return syscall(SYS_readv, fd, vecs, count);
}

static int fake_open(const char *path, int flags, mode_t mode)
{
	if (strcmp(path, DEVICE) != 0)
		return openat(AT_FDCWD, path, flags, mode);
	/* Can be read while there is a completion, as poll(2) then says. */
	device_fd = eventfd(0, EFD_CLOEXEC);
	if (device_fd >= (int)(sizeof(devices) / sizeof(devices[0])))
		abort();
	devices[device_fd] = true;
	return device_fd;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fake_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fake_open(path, flags, mode);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **list)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	int rc;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!strcmp(name, "h"))
		return real("10.0.0.2", service, hints, list);
	if (strcmp(name, "h2") != 0)
		return real(name, service, hints, list);
	rc = real("fd00::2", service, hints, list);
	return rc ? rc : real("10.0.0.2", service, hints, &(*list)->ai_next);
}

static __attribute__((destructor)) void at_exit(void)
{
	uint32_t i;

	for (i = 1; i < OBJECTS; i++)
		if (objects[i].kind == EXPORT)
			export_end(&objects[i]);
	if (submits_max || under_way_max)
		say("submits_max %u operations %lu under_way_max %u batch_max %u\n", submits_max,
		    operations, under_way_max, batch_max);
}
