// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls of /dev/krdma_mover over plain files, to be preloaded under krdma:
 * an export is a file in $KRDMA_FAKE_DIR, its rights are those of the file. The
 * host 'h' has the address 10.0.0.2, 'h2' has fd00::2 and then 10.0.0.2.
 *
 *   KRDMA_FAKE_FAIL_OP=N:ERRNO      the Nth operation of the process fails
 *   KRDMA_FAKE_BUFFER_MAX=BYTES     larger buffers do not fit (ENOMEM)
 *   KRDMA_FAKE_DELAY_MS=N           each submit takes that long
 *   KRDMA_FAKE_HANG=1               submits never end
 *   KRDMA_FAKE_REFUSE=1             the first address that is tried refuses
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
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <krdma/krdma_mover.h>

#define DEVICE    "/dev/krdma_mover"
#define OBJECTS   64
#define TRANSFERS 150 /* more than one call of the library fetches */

enum kind {
	NONE,
	SESSION,
	REGION,
	BUFFER,
	EXPORT
};

struct object {
	enum kind kind;
	uint32_t rights;
	uint64_t addr;
	uint64_t length;
	int fd;
	char path[512];
};

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[OBJECTS];
static struct krdma_last_error last_error;
static int device_fd = -1;
static unsigned long operations;
static unsigned int submits, submits_max;
static bool refused;

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

static int do_query(struct krdma_query *arg)
{
	arg->features = KRDMA_FEATURE_RDMA;
	arg->incarnation = 0x1234;
	arg->pinned_limit = 1ULL << 40;
	arg->op_pin_max = 1ULL << 30;
	arg->max_ids = OBJECTS;
	arg->submit_max = KRDMA_SUBMIT_MAX;
	strcpy(arg->version, "fake");
	return 0;
}

static int do_connect(struct krdma_connect *arg)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(arg->dst.family, arg->dst.addr, text, sizeof(text));
	say("connect %s port %u scope %u timeout %u\n", text, arg->dst.port, arg->dst.scope_id,
	    arg->timeout_ms);
	if (getenv("KRDMA_FAKE_REFUSE") && !refused) {
		refused = true;
		return give(ECONNREFUSED, "nobody listens at %s", text);
	}
	arg->id = object_new(SESSION);
	return 0;
}

static int do_open(struct krdma_open *arg)
{
	struct object *region;
	struct stat st;
	uint32_t id;

	if (!object_get(arg->session, SESSION))
		return give(ENOENT, "no session %u", arg->session);
	id = object_new(REGION);
	region = &objects[id];
	export_path(region->path, sizeof(region->path), arg->name);
	if (stat(region->path, &st)) {
		region->kind = NONE;
		return give(ENOENT, "the peer has no export '%s'", arg->name);
	}
	region->rights = KRDMA_RIGHT_READ | (st.st_mode & 0200 ? KRDMA_RIGHT_WRITE : 0);
	if (arg->rights & ~region->rights) {
		region->kind = NONE;
		return give(EACCES, "'%s' is read-only", arg->name);
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

static int do_buffer(struct krdma_buffer *arg)
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

static int do_export(struct krdma_export *arg)
{
	struct object *export;
	int seals = 0, fd;

	if (arg->flags & KRDMA_EXPORT_FD) {
		seals = fcntl(arg->fd, F_GET_SEALS);
		if (!(seals & F_SEAL_SHRINK))
			return give(EINVAL, "the memfd is not sealed");
	} else if (arg->addr % 4096) {
		return give(EINVAL, "the address is not aligned");
	}
	arg->id = object_new(EXPORT);
	export = &objects[arg->id];
	export_path(export->path, sizeof(export->path), arg->name);
	fd = openat(AT_FDCWD, export->path, O_RDWR | O_CREAT | O_EXCL,
		    (arg->rights & KRDMA_RIGHT_WRITE) ? 0600 : 0400);
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
	say("export %s length %llu rights %u flags %u seals %d max_segments %u\n", arg->name,
	    (unsigned long long)arg->length, arg->rights, arg->flags, seals, arg->max_segments);
	return 0;
}

static int do_destroy(struct krdma_destroy *arg)
{
	struct object *object = arg->id && arg->id < OBJECTS ? &objects[arg->id] : NULL;

	if (!object || object->kind == NONE)
		return give(ENOENT, "no object %u", arg->id);
	if (object->kind == EXPORT)
		unlink(object->path);
	say("destroy kind %d\n", object->kind);
	object->kind = NONE;
	return 0;
}

static int do_listen(const struct krdma_listen *arg)
{
	const struct krdma_prefix *allow = (const void *)(uintptr_t)arg->allow;
	char text[INET6_ADDRSTRLEN] = "?";
	uint32_t i;

	inet_ntop(arg->addr.family, arg->addr.addr, text, sizeof(text));
	say("listen %s port %u\n", text, arg->addr.port);
	for (i = 0; i < arg->allow_count; i++) {
		inet_ntop(allow[i].addr.family, allow[i].addr.addr, text, sizeof(text));
		say("allow %s/%u\n", text, allow[i].prefix_len);
	}
	return 0;
}

static int do_unlisten(const struct krdma_unlisten *arg)
{
	say("unlisten port %u\n", arg->addr.port);
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

static int do_op(const struct krdma_op *op, struct krdma_completion *completion)
{
	const struct object *region = object_get(op->region, REGION);
	const struct object *buffer = object_get(op->buffer, BUFFER);
	uint64_t addr = op->addr;
	ssize_t moved;
	int error;

	*completion = (struct krdma_completion){ .user_data = op->user_data };
	if (!region)
		return give(ENOENT, "no region %u", op->region);
	if (op->flags & KRDMA_OP_BUFFER) {
		if (!buffer || addr + op->length > buffer->length)
			return give(ERANGE, "outside of the buffer");
		if (op->opcode == KRDMA_OP_READ && !(buffer->rights & KRDMA_BUFFER_WRITABLE))
			return give(EACCES, "the buffer is not writable");
		addr += buffer->addr;
	}
	if (op->offset + op->length > region->length || !op->length)
		return give(ERANGE, "outside of the region");
	if (op_shall_fail(&error)) {
		completion->status = -error;
		give(error, "operation %lu on '%s' failed on purpose", operations,
		     strrchr(region->path, '/') + 1);
		return 0;
	}
	if (op->opcode == KRDMA_OP_READ)
		moved = pread(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	else
		moved = pwrite(region->fd, (void *)(uintptr_t)addr, op->length, (off_t)op->offset);
	if (moved != (ssize_t)op->length)
		return give(EIO, "the fake lost its file");
	completion->result = op->length;
	return 0;
}

static int do_submit(struct krdma_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	struct krdma_completion *completions = (void *)(uintptr_t)arg->completions;
	const char *delay = getenv("KRDMA_FAKE_DELAY_MS");
	struct timespec time = { .tv_nsec = delay ? strtol(delay, NULL, 10) * 1000000 : 0 };
	uint32_t i;
	int rc = 0;

	submits++;
	if (submits > submits_max)
		submits_max = submits;
	/* As in the kernel, others go on while this one waits for the wire. */
	pthread_mutex_unlock(&lock);
	if (delay)
		nanosleep(&time, NULL);
	while (getenv("KRDMA_FAKE_HANG"))
		pause();
	pthread_mutex_lock(&lock);
	arg->failed = 0;
	for (i = 0; i < arg->count && !rc; i++) {
		rc = do_op(&ops[i], &completions[i]);
		if (!rc && completions[i].status)
			arg->failed++;
	}
	submits--;
	return rc;
}

/* ---- Lists ---- */

static void fill_entry(const struct krdma_list *arg, uint64_t n, void *entry)
{
	static const struct krdma_sockaddr here = { .family = AF_INET, .addr = { 10, 0, 0, 1 } };
	static const struct krdma_sockaddr there = { .family = AF_INET6,
						     .port = 7471,
						     .addr = { 0xfd, [15] = 2 } };

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
		*(struct krdma_session_info *)entry = (struct krdma_session_info){
			.serial = 3,
			.local = here,
			.peer = there,
			.state = KRDMA_SESSION_UP,
			.flags = KRDMA_SESSION_INBOUND,
			.bytes_read = 1ULL << 63,
			.device = "rxe0",
		};
		break;
	case KRDMA_LIST_EXPORTS:
		strcpy(((struct krdma_export_info *)entry)->name, "scratch");
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
static int list_files(struct krdma_list *arg)
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
		entries[n].rights = KRDMA_RIGHT_READ;
		entries[n++].rights |= st.st_mode & 0200 ? KRDMA_RIGHT_WRITE : 0;
	}
	if (dir)
		closedir(dir);
	arg->count = n;
	arg->cursor = 0;
	return 0;
}

static int do_list(struct krdma_list *arg)
{
	const uint64_t end = list_length(arg->kind);
	char *entries = (char *)(uintptr_t)arg->entries;
	uint32_t n;

	if (arg->kind == KRDMA_LIST_PEER_EXPORTS)
		return list_files(arg);
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
		*(struct krdma_last_error *)arg = last_error;
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
	case KRDMA_IOC_PING:
		((struct krdma_ping *)arg)->rtt_ns = 150000 + operations++ * 1000;
		return 0;
	case KRDMA_IOC_BUFFER:
		return do_buffer(arg);
	case KRDMA_IOC_EXPORT:
		return do_export(arg);
	case KRDMA_IOC_OPEN:
		return do_open(arg);
	case KRDMA_IOC_SUBMIT:
		return do_submit(arg);
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
	if (fd != device_fd || fd < 0) {
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

static int fake_open(const char *path, int flags, mode_t mode)
{
	if (strcmp(path, DEVICE) != 0)
		return openat(AT_FDCWD, path, flags, mode);
	device_fd = openat(AT_FDCWD, "/dev/null", flags);
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
	if (submits_max)
		say("submits_max %u operations %lu\n", submits_max, operations);
}
