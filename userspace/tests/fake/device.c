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
 *   KRDMA_FAKE_SESSION=N            messages are of this session, else of 3 or a private one; 3 is listed
 *   KRDMA_FAKE_CUT=1                a session ends with operations under way
 *   KRDMA_FAKE_AWAY=FILE            the connection is lost as long as the file is there
 *   KRDMA_FAKE_FLIP=LENGTH          of a READ or WRITE of more bytes, the last one is changed on the way
 *   KRDMA_FAKE_ROOT=DIR             systemd runs, and /etc/krdma and /run/systemd/system are in DIR
 *   KRDMA_FAKE_LOG=FILE             gets a line for each thing worth a test
 */
/* Else open() would be compiled as a second open64(). */
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake.h"

#define DEVICE "/dev/krdma_mover"

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);
int sd_booted(void);

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int device_fd = -1;
struct counts counts;
static struct krdma_ioc_last_error last_error;
/* By file: is it the device? */
static bool devices[FILES];

void say(const char *fmt, ...)
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

int give(int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(last_error.text, sizeof(last_error.text), fmt, args);
	va_end(args);
	last_error.error = error;
	errno = error;
	return -1;
}

unsigned int number(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

ssize_t real_read(int fd, void *to, size_t size)
{
	static ssize_t (*real)(int, void *, size_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "read");
	return real(fd, to, size);
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
		((struct krdma_ioc_ping *)arg)->rtt_ns = 150000 + counts.operations++ * 1000;
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
	if (fd < 0 || fd >= FILES || !devices[fd]) {
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
	if (device_fd >= FILES)
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

/* ---- A host that systemd runs on ---- */

static const char *in_root(const char *path, char copy[PATH_MAX])
{
	const char *root = getenv("KRDMA_FAKE_ROOT");

	if (!root ||
	    (strncmp(path, "/etc/krdma/", 11) != 0 && strncmp(path, "/run/systemd/", 13) != 0))
		return path;
	snprintf(copy, PATH_MAX, "%s%s", root, path);
	return copy;
}

FILE *fopen64(const char *path, const char *mode)
{
	static FILE *(*real)(const char *, const char *);
	char copy[PATH_MAX];

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fopen64");
	return real(in_root(path, copy), mode);
}

int stat64(const char *path, struct stat64 *st)
{
	char copy[PATH_MAX];

	return fstatat64(AT_FDCWD, in_root(path, copy), st, 0);
}

int mkdir(const char *path, mode_t mode)
{
	char copy[PATH_MAX];

	return mkdirat(AT_FDCWD, in_root(path, copy), mode);
}

int unlink(const char *path)
{
	char copy[PATH_MAX];

	return unlinkat(AT_FDCWD, in_root(path, copy), 0);
}

int rmdir(const char *path)
{
	char copy[PATH_MAX];

	return unlinkat(AT_FDCWD, in_root(path, copy), AT_REMOVEDIR);
}

int sd_booted(void)
{
	return getenv("KRDMA_FAKE_ROOT") ? 1 : access("/run/systemd/system", F_OK) == 0;
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
	objects_end();
	if (counts.submits_max || counts.under_way_max)
		say("submits_max %u operations %lu under_way_max %u batch_max %u\n",
		    counts.submits_max, counts.operations, counts.under_way_max, counts.batch_max);
}
