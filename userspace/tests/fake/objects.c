// SPDX-License-Identifier: GPL-2.0
/* Sessions, regions, buffers and exports, which are files, and listeners. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

struct object objects[OBJECTS];
static bool refused;
static int stale;

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

struct object *object_get(uint32_t id, enum kind kind)
{
	return id && id < OBJECTS && objects[id].kind == kind ? &objects[id] : NULL;
}

const char *directory(void)
{
	const char *path = getenv("KRDMA_FAKE_DIR");

	return path ? path : ".";
}

static void export_path(char *path, size_t size, const char *name)
{
	snprintf(path, size, "%s/%s", directory(), name);
}

uint32_t file_rights(mode_t mode)
{
	return ((mode & 0400) ? KRDMA_RIGHT_READ : 0) |
	       ((mode & 0200) ? KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC : 0) |
	       ((mode & 0100) ? KRDMA_RIGHT_MESSAGE : 0);
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

int do_connect(struct krdma_ioc_connect *arg)
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

int do_connected(struct krdma_ioc_connected *arg)
{
	const struct object *session = object_get(arg->session, SESSION);

	if (!session)
		return give(ENOENT, "no session %u", arg->session);
	if (getenv("KRDMA_FAKE_HANG"))
		return give(EAGAIN, "that is not decided yet");
	return session->length ? give((int)session->length, "nobody listens there") : 0;
}

const char *lacks(uint32_t rights)
{
	if (rights & KRDMA_RIGHT_MESSAGE)
		return "not for messages";
	return rights & KRDMA_RIGHT_READ ? "for messages only" : "read-only";
}

int do_open(struct krdma_ioc_open *arg)
{
	const struct object *session = object_get(arg->session, SESSION);
	struct object *region;
	struct stat st;
	uint32_t id;

	if (!session)
		return give(ENOENT, "no session %u", arg->session);
	id = object_new(REGION);
	region = &objects[id];
	/* Of a program with several handles, each has a session. */
	region->serial = number("KRDMA_FAKE_SESSION",
				(session->rights & KRDMA_CONNECT_PRIVATE) ?
					((unsigned int)getpid() << 8) | (arg->session & 0xff) :
					3);
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
	if (getenv("KRDMA_FAKE_DURABLE"))
		region->rights |= KRDMA_RIGHT_DURABLE;
	arg->granted = region->rights;
	arg->id = id;
	say("open %s rights %u\n", arg->name, arg->rights);
	return 0;
}

int do_buffer(struct krdma_ioc_buffer *arg)
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
	unlink(export->path);
	if (export->rights & KRDMA_RIGHT_MESSAGE) {
		close_socket(export);
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

int do_export(struct krdma_ioc_export *arg)
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

int do_destroy(struct krdma_ioc_destroy *arg)
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

int do_listen(const struct krdma_ioc_listen *arg)
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

int do_unlisten(const struct krdma_ioc_unlisten *arg)
{
	char text[INET6_ADDRSTRLEN];
	unsigned int port, scope;

	take_apart(&arg->addr, text, &port, &scope);
	say("unlisten port %u%s\n", port, arg->flags & KRDMA_UNLISTEN_CLOSE ? " close" : "");
	return 0;
}

int do_disconnect(struct krdma_ioc_disconnect *arg)
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

void objects_end(void)
{
	uint32_t i;

	for (i = 1; i < OBJECTS; i++)
		if (objects[i].kind == EXPORT)
			export_end(&objects[i]);
}
