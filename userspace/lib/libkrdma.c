// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The handle, the text of the last error, and a function for each ioctl. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

#define DEVICE "/dev/krdma_mover"
/* Enough for a host with several networks. */
#define HOST_ADDRESSES 16

struct krdma {
	int fd;
};

static _Thread_local char error_text[512] = "no error";
static _Thread_local int error_number;

int krdma__fail(int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, args);
	va_end(args);
	error_number = error;
	return -error;
}

/* The kernel's error text, unless another thread's failure has replaced it. */
int krdma_explain(struct krdma *krdma, int error)
{
	struct krdma_ioc_last_error last = { .size = sizeof(last) };

	if (error == ENOTTY)
		return krdma__fail(
			error,
			"the module does not know this call: is it older than this program?");
	if (ioctl(krdma->fd, KRDMA_IOC_LAST_ERROR, &last) || last.error != error || !last.text[0])
		return krdma__fail(error, "%s", strerror(error));
	return krdma__fail(error, "%.*s", (int)sizeof(last.text), last.text);
}

int krdma__ioctl(struct krdma *krdma, unsigned long request, void *arg)
{
	if (!ioctl(krdma->fd, request, arg))
		return 0;
	return krdma_explain(krdma, errno);
}

int krdma_new(struct krdma **krdma)
{
	struct krdma *new = malloc(sizeof(*new));
	int error, fd;

	if (!new)
		return krdma__fail(ENOMEM, "out of memory");
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	/* Not a standard stream, which the caller may have closed: what is printed would go there. */
	new->fd = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	if (new->fd != fd)
		close(fd);
	if (new->fd < 0) {
		free(new);
		return krdma__fail(
			error, "cannot open " DEVICE ": %s%s", strerror(error),
			error == ENOENT || error == ENXIO || error == ENODEV ?
				": is the module loaded? (modprobe krdma_mover; or, if it is not installed, modprobe what 'modinfo -F depends krdma_mover.ko' lists, rdma_cm and libcrc32c, then insmod krdma_mover.ko)" :
				"");
	}
	*krdma = new;
	return 0;
}

void krdma_free(struct krdma *krdma)
{
	if (!krdma)
		return;
	close(krdma->fd);
	free(krdma);
}

const char *krdma_error(void)
{
	return error_text;
}

int krdma_errno(void)
{
	return error_number;
}

int krdma_fd(const struct krdma *krdma)
{
	return krdma->fd;
}

int krdma_query(struct krdma *krdma, struct krdma_ioc_query *query)
{
	return krdma__ioctl(krdma, KRDMA_IOC_QUERY, query);
}

int krdma_destroy(struct krdma *krdma, uint32_t id)
{
	struct krdma_ioc_destroy arg = { .size = sizeof(arg), .id = id };

	return krdma__ioctl(krdma, KRDMA_IOC_DESTROY, &arg);
}

static int listen_at(struct krdma *krdma, const struct krdma_sockaddr *addr,
		     const struct krdma_prefix *allow, unsigned int allow_count, uint32_t flags)
{
	struct krdma_ioc_listen arg = {
		.size = sizeof(arg),
		.flags = flags,
		.allow = (uintptr_t)allow,
		.allow_count = allow_count,
	};

	krdma__storage(addr, &arg.addr);
	return krdma__ioctl(krdma, KRDMA_IOC_LISTEN, &arg);
}

int krdma_listen(struct krdma *krdma, const struct krdma_sockaddr *addr,
		 const struct krdma_prefix *allow, unsigned int allow_count)
{
	return listen_at(krdma, addr, allow, allow_count, 0);
}

int krdma_replace_listener(struct krdma *krdma, const struct krdma_sockaddr *addr,
			   const struct krdma_prefix *allow, unsigned int allow_count)
{
	return listen_at(krdma, addr, allow, allow_count, KRDMA_LISTEN_REPLACE);
}

static int unlisten(struct krdma *krdma, const struct krdma_sockaddr *addr, uint32_t flags)
{
	struct krdma_ioc_unlisten arg = { .size = sizeof(arg), .flags = flags };

	krdma__storage(addr, &arg.addr);
	return krdma__ioctl(krdma, KRDMA_IOC_UNLISTEN, &arg);
}

int krdma_unlisten(struct krdma *krdma, const struct krdma_sockaddr *addr)
{
	return unlisten(krdma, addr, 0);
}

int krdma_close_listener(struct krdma *krdma, const struct krdma_sockaddr *addr)
{
	return unlisten(krdma, addr, KRDMA_UNLISTEN_CLOSE);
}

/* A name that does not fit its field must not be cut to one that does. */
static int copy_name(char to[KRDMA_NAME_MAX], const char *name)
{
	size_t length = strlen(name);

	if (length >= KRDMA_NAME_MAX)
		return krdma__fail(EINVAL, "the name '%s' is longer than %d characters", name,
				   KRDMA_NAME_MAX - 1);
	memcpy(to, name, length + 1);
	return 0;
}

static int do_export(struct krdma *krdma, const char *name, struct krdma_ioc_export *arg,
		     uint32_t *id)
{
	int rc = copy_name(arg->name, name);

	if (!rc)
		rc = krdma__ioctl(krdma, KRDMA_IOC_EXPORT, arg);
	if (!rc)
		*id = arg->id;
	return rc;
}

static int export_range(struct krdma *krdma, const char *name, void *addr, uint64_t length,
			uint32_t rights, uint32_t max_segments, uint32_t flags, uint32_t *id)
{
	struct krdma_ioc_export arg = {
		.size = sizeof(arg),
		.flags = flags,
		.rights = rights,
		.addr = (uintptr_t)addr,
		.length = length,
		.max_segments = max_segments,
	};

	return do_export(krdma, name, &arg, id);
}

int krdma_export_memory(struct krdma *krdma, const char *name, void *addr, uint64_t length,
			uint32_t rights, uint32_t max_segments, uint32_t *id)
{
	return export_range(krdma, name, addr, length, rights, max_segments, 0, id);
}

int krdma_export_durable(struct krdma *krdma, const char *name, void *addr, uint64_t length,
			 uint32_t rights, uint32_t max_segments, uint32_t *id)
{
	return export_range(krdma, name, addr, length, rights, max_segments, KRDMA_EXPORT_DURABLE,
			    id);
}

int krdma_export_memfd(struct krdma *krdma, const char *name, int fd, uint64_t offset,
		       uint64_t length, uint32_t rights, uint32_t max_segments, uint32_t *id)
{
	struct krdma_ioc_export arg = {
		.size = sizeof(arg),
		.flags = KRDMA_EXPORT_FD,
		.rights = rights,
		.fd = fd,
		.addr = offset,
		.length = length,
		.max_segments = max_segments,
	};

	return do_export(krdma, name, &arg, id);
}

int krdma_export_grow(struct krdma *krdma, uint32_t id, uint64_t length)
{
	struct krdma_ioc_export_grow arg = { .size = sizeof(arg), .id = id, .length = length };

	return krdma__ioctl(krdma, KRDMA_IOC_EXPORT_GROW, &arg);
}

int krdma_message_queue(struct krdma *krdma, uint32_t id, uint32_t flags)
{
	struct krdma_ioc_message_queue arg = { .size = sizeof(arg), .flags = flags, .id = id };
	int rc = krdma__ioctl(krdma, KRDMA_IOC_MESSAGE_QUEUE, &arg);

	return rc ? rc : arg.fd;
}

static bool same_address(const struct krdma_sockaddr *a, const struct krdma_sockaddr *b)
{
	return a->family == b->family && !memcmp(a->addr, b->addr, sizeof(a->addr)) &&
	       (a->port ? a->port : KRDMA_DEFAULT_PORT) == (b->port ? b->port : KRDMA_DEFAULT_PORT);
}

/* Addresses that a peer tells must not lead to another one. */
static int same_peer(struct krdma *krdma, uint32_t a, uint32_t b)
{
	struct krdma_session_info of[2];
	int rc = krdma_session(krdma, a, &of[0]);

	if (!rc)
		rc = krdma_session(krdma, b, &of[1]);
	if (!rc && of[0].peer_incarnation != of[1].peer_incarnation)
		rc = krdma__fail(EPROTO, "an address that the peer tells is another host's");
	return rc;
}

/* The peer tells its other addresses: a session over one path asks for them. */
static int connect_auto(struct krdma *krdma, const struct krdma_sockaddr *dst,
			struct krdma_connect_options options, uint32_t *session)
{
	struct krdma_path_addr paths[KRDMA_PATHS_MAX - 1] = { 0 };
	const struct krdma_sockaddr *addr;
	struct krdma_iter *iter = NULL;
	uint32_t first = 0, second = 0;
	int rc;

	options.npaths = 0;
	options.paths = paths;
	rc = krdma_connect_with(krdma, dst, &options, &first);
	if (rc)
		return rc;
	rc = krdma_iter_new(krdma, KRDMA_LIST_ADDRESSES, first, &iter);
	while (!rc && options.npaths < KRDMA_PATHS_MAX - 1 && (addr = krdma_iter_next(iter)))
		if (!same_address(addr, dst))
			paths[options.npaths++].dst = *addr;
	rc = rc ? rc : krdma_iter_free(iter);
	if (!rc && !options.npaths) {
		*session = first;
		return 0;
	}
	if (!rc)
		rc = krdma_connect_with(krdma, dst, &options, &second);
	if (!rc) {
		rc = same_peer(krdma, first, second);
		if (rc)
			krdma_destroy(krdma, second);
		else
			*session = second;
	}
	krdma_destroy(krdma, first);
	return rc;
}

static int connect_one(struct krdma *krdma, const struct krdma_sockaddr *dst,
		       const struct krdma_connect_options *options, uint32_t flags, int eventfd,
		       uint32_t *session)
{
	struct krdma_ioc_connect arg = {
		.size = sizeof(arg),
		.flags = options->flags | flags,
		.timeout_ms = options->timeout_ms,
		.resume_s = options->resume_s,
		.keepalive_s = options->keepalive_s,
		.policy = options->policy,
		.npaths = options->npaths,
		.paths = (uintptr_t)options->paths,
		.eventfd = eventfd,
	};
	int rc;

	krdma__storage(dst, &arg.dst);
	rc = krdma__ioctl(krdma, KRDMA_IOC_CONNECT, &arg);
	if (!rc)
		*session = arg.id;
	return rc;
}

int krdma_connect_with(struct krdma *krdma, const struct krdma_sockaddr *dst,
		       const struct krdma_connect_options *options, uint32_t *session)
{
	if (options->flags & KRDMA_CONNECT_ASYNC)
		return krdma__fail(
			EINVAL,
			"this call waits, which KRDMA_CONNECT_ASYNC does not: call krdma_connect_start()");
	if (options->npaths == KRDMA_PATHS_AUTO)
		return connect_auto(krdma, dst, *options, session);
	return connect_one(krdma, dst, options, 0, 0, session);
}

int krdma_connect_start(struct krdma *krdma, const struct krdma_sockaddr *dst,
			const struct krdma_connect_options *options, int eventfd, uint32_t *session)
{
	static const struct krdma_connect_options defaults;

	return connect_one(krdma, dst, options ? options : &defaults, KRDMA_CONNECT_ASYNC, eventfd,
			   session);
}

int krdma_connected(struct krdma *krdma, uint32_t session)
{
	struct krdma_ioc_connected arg = { .size = sizeof(arg), .session = session };

	return krdma__ioctl(krdma, KRDMA_IOC_CONNECTED, &arg);
}

int krdma_connect(struct krdma *krdma, const struct krdma_sockaddr *dst, uint32_t timeout_ms,
		  uint32_t *session)
{
	const struct krdma_connect_options options = { .timeout_ms = timeout_ms };

	return krdma_connect_with(krdma, dst, &options, session);
}

int krdma_connect_host(struct krdma *krdma, const char *host,
		       const struct krdma_connect_options *options, uint32_t *session,
		       struct krdma_sockaddr *peer)
{
	static const struct krdma_connect_options defaults;
	struct krdma_sockaddr addrs[HOST_ADDRESSES];
	int i, rc, count = krdma_resolve(host, addrs, HOST_ADDRESSES);

	rc = count < 0 ? count : -EHOSTUNREACH;
	for (i = 0; i < count; i++) {
		rc = krdma_connect_with(krdma, &addrs[i], options ? options : &defaults, session);
		if (rc)
			continue;
		if (!addrs[i].port)
			addrs[i].port = KRDMA_DEFAULT_PORT;
		if (peer)
			*peer = addrs[i];
		break;
	}
	return rc;
}

int krdma_session(struct krdma *krdma, uint32_t session, struct krdma_session_info *info)
{
	struct krdma_ioc_list arg = {
		.size = sizeof(arg),
		.kind = KRDMA_LIST_SESSIONS,
		.session = session,
		.entries = (uintptr_t)info,
		.stride = sizeof(*info),
		.count = 1,
	};
	int rc = krdma__ioctl(krdma, KRDMA_IOC_LIST, &arg);

	/* The kernel takes 0 for all sessions. */
	if (!rc && (!session || !arg.count))
		rc = krdma__fail(ENOENT, "there is no session %u", session);
	return rc;
}

int krdma_disconnect(struct krdma *krdma, uint64_t serial, const struct krdma_sockaddr *peer,
		     uint32_t timeout_ms)
{
	struct krdma_ioc_disconnect arg = {
		.size = sizeof(arg),
		.serial = serial,
		.timeout_ms = timeout_ms,
	};

	if (peer)
		arg.peer = *peer;
	return krdma__ioctl(krdma, KRDMA_IOC_DISCONNECT, &arg);
}

int krdma_ping(struct krdma *krdma, uint32_t session, uint32_t length, uint32_t timeout_ms,
	       uint64_t *rtt_ns)
{
	struct krdma_ioc_ping arg = {
		.size = sizeof(arg),
		.session = session,
		.length = length,
		.timeout_ms = timeout_ms,
	};
	int rc = krdma__ioctl(krdma, KRDMA_IOC_PING, &arg);

	if (!rc)
		*rtt_ns = arg.rtt_ns;
	return rc;
}

int krdma_open_region(struct krdma *krdma, uint32_t session, const char *name, uint32_t rights,
		      uint32_t timeout_ms, struct krdma_region *region)
{
	return krdma_open_region_flags(krdma, session, name, rights, 0, timeout_ms, region);
}

int krdma_open_region_flags(struct krdma *krdma, uint32_t session, const char *name,
			    uint32_t rights, uint32_t flags, uint32_t timeout_ms,
			    struct krdma_region *region)
{
	struct krdma_ioc_open arg = {
		.size = sizeof(arg),
		.flags = flags,
		.session = session,
		.rights = rights,
		.timeout_ms = timeout_ms,
	};
	int rc = copy_name(arg.name, name);

	if (!rc)
		rc = krdma__ioctl(krdma, KRDMA_IOC_OPEN, &arg);
	if (rc)
		return rc;
	*region = (struct krdma_region){
		.id = arg.id,
		.rights = arg.granted,
		.length = arg.length,
		.segment_size = arg.segment_size,
	};
	return 0;
}

int krdma_register_buffer(struct krdma *krdma, void *addr, uint64_t length, uint32_t flags,
			  uint32_t *buffer)
{
	struct krdma_ioc_buffer arg = {
		.size = sizeof(arg),
		.flags = flags,
		.addr = (uintptr_t)addr,
		.length = length,
	};
	int rc = krdma__ioctl(krdma, KRDMA_IOC_BUFFER, &arg);

	if (!rc)
		*buffer = arg.id;
	return rc;
}

/* Set the error text of the first operation that failed. */
static void explain_first(struct krdma *krdma, const struct krdma_completion *completions,
			  unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count && !completions[i].status; i++)
		;
	if (i < count)
		krdma_explain(krdma, -completions[i].status);
}

int krdma_submit(struct krdma *krdma, const struct krdma_op *ops,
		 struct krdma_completion *completions, unsigned int count)
{
	struct krdma_ioc_submit arg = {
		.size = sizeof(arg),
		.ops = (uintptr_t)ops,
		.completions = (uintptr_t)completions,
		.count = count,
		.op_stride = sizeof(*ops),
		.completion_stride = sizeof(*completions),
	};
	int rc;

	/* The payload of an SQE128: the library's ABI relies on the size. */
	static_assert(sizeof(*ops) == 80, "struct krdma_op");

	rc = krdma__ioctl(krdma, KRDMA_IOC_SUBMIT, &arg);
	if (rc || !arg.failed)
		return rc;
	explain_first(krdma, completions, count);
	return (int)arg.failed;
}

int krdma_submit_async(struct krdma *krdma, const struct krdma_op *ops, unsigned int count)
{
	struct krdma_ioc_submit arg = {
		.size = sizeof(arg),
		.flags = KRDMA_SUBMIT_ASYNC,
		.ops = (uintptr_t)ops,
		.count = count,
		.op_stride = sizeof(*ops),
	};
	int rc = krdma__ioctl(krdma, KRDMA_IOC_SUBMIT, &arg);

	return rc ? rc : (int)arg.accepted;
}

int krdma_reap(struct krdma *krdma, struct krdma_completion *completions, unsigned int count)
{
	ssize_t bytes = read(krdma->fd, completions, count * sizeof(*completions));

	/* The module has no error text for read(2): strerror() has. */
	if (bytes < 0)
		return krdma__fail(errno, "cannot read completions: %s", strerror(errno));
	count = (unsigned int)((size_t)bytes / sizeof(*completions));
	explain_first(krdma, completions, count);
	return (int)count;
}

int krdma_cancel(struct krdma *krdma, uint64_t user_data, uint32_t flags)
{
	struct krdma_ioc_cancel arg = { .size = sizeof(arg),
					.flags = flags,
					.user_data = user_data };
	int rc = krdma__ioctl(krdma, KRDMA_IOC_CANCEL, &arg);

	return rc ? rc : (int)arg.count;
}

int krdma_eventfd(struct krdma *krdma, int fd)
{
	struct krdma_ioc_eventfd arg = { .size = sizeof(arg), .fd = fd };

	return krdma__ioctl(krdma, KRDMA_IOC_EVENTFD, &arg);
}
