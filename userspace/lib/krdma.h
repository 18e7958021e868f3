/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * libkrdma - move bytes between the memories of hosts with krdma_mover.ko
 *
 * A handle (struct krdma) is one open file of /dev/krdma_mover. Sessions,
 * regions, buffers and exports have ids, which are valid in their handle only.
 * An object ends with krdma_destroy() or with its handle.
 *
 * Errors: a function that returns int returns a negative errno on failure;
 * krdma_mover.h lists the errnos of the kernel. krdma_error() then returns the
 * error text, one sentence that names the object and the cause.
 *
 * Threads: any thread may call any function, several at a time on one handle,
 * unless the function's comment says otherwise. The text of krdma_error()
 * belongs to the calling thread. No function is async-signal-safe. The kernel
 * keeps the error texts of the eight threads of a file that failed last: with
 * more threads, a thread may get the text of another failure with the same errno.
 *
 * Inline functions are in the library as well, for languages that can't include this header.
 */
#ifndef KRDMA_H
#define KRDMA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <krdma/krdma_mover.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In GNU's C before C99 (gnu89), inline alone makes a function for all files of a program. */
#if defined(__GNUC_GNU_INLINE__) && !defined(__cplusplus)
#define KRDMA_INLINE static inline
#else
#define KRDMA_INLINE inline
#endif

/* Room for the text of krdma_format_addr(), with its NUL. */
#define KRDMA_ADDR_TEXT 80

struct krdma;

/**
 * struct krdma_region - a peer's export, opened
 * @id: the region
 * @rights: KRDMA_RIGHT_* that were granted
 * @length: length in bytes
 * @segment_size: bytes that one key of the peer covers
 */
struct krdma_region {
	uint32_t id;
	uint32_t rights;
	uint64_t length;
	uint64_t segment_size;
};

/**
 * struct krdma_counter - one counter of the module
 * @name: its name, NUL-terminated
 * @value: its value
 */
struct krdma_counter {
	char name[256];
	uint64_t value;
};

/**
 * krdma_new() - open the device
 * @krdma: where the handle goes
 *
 * The file is closed on exec.
 *
 * Return: 0 and a handle that krdma_free() ends, or the errno of open(2):
 * -ENOENT when the module is not loaded, -EACCES when the mode of the device
 * keeps the caller out, -ENOMEM.
 */
int krdma_new(struct krdma **krdma);

/**
 * krdma_free() - close the device and end every object of the handle
 * @krdma: the handle, or NULL; no other call may be using it
 *
 * Returns at once; the kernel ends operations under way. The memory of an
 * operation stays pinned until the operation has ended.
 */
void krdma_free(struct krdma *krdma);

/**
 * krdma_error() - the error text of this thread's last failed call
 *
 * Return: one sentence without a full stop, never NULL. It stays valid until
 * the next failed call of this thread.
 */
const char *krdma_error(void);

/**
 * krdma_errno() - the errno of that failure
 *
 * For calls that don't return it, such as krdma_submit(), whose operations have failed.
 *
 * Return: a positive errno; 0 if no call of this thread has failed.
 */
int krdma_errno(void);

/**
 * krdma_explain() - get the error text of a failure outside of this library
 * @krdma: the handle
 * @error: a positive errno: of an ioctl on krdma_fd(), or of an operation of io_uring
 *
 * krdma_error() returns the text afterwards.
 *
 * Return: -@error.
 */
int krdma_explain(struct krdma *krdma, int error);

/**
 * krdma_fd() - the file of a handle, for poll(2) and io_uring
 * @krdma: the handle, which keeps owning the file
 *
 * poll(2) reports POLLIN when krdma_reap() has a completion, POLLOUT when
 * krdma_submit_async() has room. O_NONBLOCK, set by fcntl(2), applies to these two.
 *
 * Return: the file descriptor.
 */
int krdma_fd(const struct krdma *krdma);

/**
 * krdma_query() - features and limits of the module
 * @krdma: the handle
 * @query: out: features and limits; the caller sets query->size to sizeof(*query)
 *
 * Return: 0, or a negative errno.
 */
int krdma_query(struct krdma *krdma, struct krdma_ioc_query *query);

/**
 * krdma_destroy() - end a session, region, buffer or export
 * @krdma: the handle
 * @id: the object
 *
 * Operations under way keep what they use until they end. When this returns,
 * peers can't open an export any more; its memory stays pinned for a bounded
 * time, until the peers have stopped using it.
 *
 * Return: 0, or -ENOENT.
 */
int krdma_destroy(struct krdma *krdma, uint32_t id);

/* ---- Addresses: these functions need neither a handle nor the module ---- */

/**
 * krdma_resolve() - the addresses of a host
 * @host: name or address with an optional port: "nodeB", "nodeB:7472",
 *	"10.0.0.2:7472", "fe80::1%eth0", "[fe80::1%eth0]:7472"
 * @addrs: out: the addresses, in the order to try them; the port is 0 if
 *	@host has none
 * @count: room in @addrs, at least 1
 *
 * May ask the network's name service and block until it responds.
 *
 * Return: the number of addresses, at least 1; -EINVAL if @host can't be
 * parsed, -ENOENT if there is no such name, -EHOSTUNREACH if it does not resolve, -EAGAIN if the name
 * service did not respond.
 */
int krdma_resolve(const char *host, struct krdma_sockaddr *addrs, unsigned int count);

/**
 * krdma_parse_prefix() - parse an address prefix
 * @text: "10.1.0.0/16", "fd00::/8", or an address without a length for one host
 * @prefix: out: the prefix
 *
 * Return: 0; or -EINVAL, also if bits behind the length are not 0.
 */
int krdma_parse_prefix(const char *text, struct krdma_prefix *prefix);

/**
 * krdma_format_addr() - format an address as text
 * @addr: the address; port 0 is left out
 * @text: out: the text: "10.0.0.2:7471", "[fe80::1%eth0]:7471", "any"
 *
 * Return: @text, NUL-terminated.
 */
const char *krdma_format_addr(const struct krdma_sockaddr *addr, char text[KRDMA_ADDR_TEXT]);

/* ---- Listeners ---- */

/**
 * krdma_listen() - accept peers at a local address
 * @krdma: the handle
 * @addr: the address; port 0 means KRDMA_DEFAULT_PORT
 * @allow: prefixes of peers that may connect, one at least of @addr's family; may be
 *	NULL if @allow_count is 0
 * @allow_count: their number, at most KRDMA_LISTEN_ALLOW_MAX; 0 admits all
 *
 * Needs CAP_NET_ADMIN. In the initial network namespace the listener outlives
 * the handle; in another namespace it ends with the handle.
 *
 * Return: 0; -EPERM, -EEXIST if the address has a listener, or another errno.
 */
int krdma_listen(struct krdma *krdma, const struct krdma_sockaddr *addr,
		 const struct krdma_prefix *allow, unsigned int allow_count);

/**
 * krdma_replace_listener() - give a listener another allow-list
 * @krdma: the handle
 * @addr: as for krdma_listen(), and so are the others
 * @allow: prefixes
 * @allow_count: their number
 *
 * The sessions of a listener that is there go on, and it is open again if it was closed. If there
 * is none, it is made.
 *
 * Return: 0; -EPERM or another errno.
 */
int krdma_replace_listener(struct krdma *krdma, const struct krdma_sockaddr *addr,
			   const struct krdma_prefix *allow, unsigned int allow_count);

/**
 * krdma_unlisten() - remove a listener and end the sessions that came through it
 * @krdma: any handle, not only the one that made the listener
 * @addr: the address as given to krdma_listen()
 *
 * Return: 0; -EPERM, -ENOENT, or another errno.
 */
int krdma_unlisten(struct krdma *krdma, const struct krdma_sockaddr *addr);

/**
 * krdma_close_listener() - let a listener refuse new sessions; existing sessions go on
 * @krdma: the handle
 * @addr: as for krdma_listen()
 *
 * krdma_unlisten() removes it.
 *
 * Return: 0; -EPERM, -ENOENT, or another errno.
 */
int krdma_close_listener(struct krdma *krdma, const struct krdma_sockaddr *addr);

/**
 * krdma_disconnect() - end sessions when what is under way has ended
 * @krdma: the handle
 * @serial: number of the session on this host; 0 for all that the caller may end
 * @peer: with @serial 0: only those with this address, and with this port unless it is 0; may be
 *	NULL
 * @timeout_ms: how long that may take, an hour at most; 0 for the default
 *
 * Return: 0; -ETIMEDOUT if something was still under way when they ended; -ENOENT, -EPERM, or
 * another errno.
 */
int krdma_disconnect(struct krdma *krdma, uint64_t serial, const struct krdma_sockaddr *peer,
		     uint32_t timeout_ms);

/* ---- Publishing memory ---- */

/**
 * krdma_memfd() - make anonymous memory that can be exported without being pinned
 * @name: any text; /proc shows it
 * @length: bytes
 *
 * The memory is a memfd, sealed against shrinking. Its pages are allocated when they are first
 * touched.
 *
 * Return: a file descriptor that the caller closes (an export holds the file
 * on its own), or the errno of memfd_create(2), ftruncate(2) or fcntl(2).
 */
int krdma_memfd(const char *name, uint64_t length);

/**
 * krdma_map_huge() - map anonymous memory in huge pages of the default size
 * @length: bytes, rounded up to whole huge pages
 * @addr: out: the address
 *
 * The caller owns the mapping. If it is unmapped before the export ends, the
 * caller does not see the bytes that peers write.
 *
 * Return: 0, or the errno of mmap(2): -ENOMEM when too few huge pages are free.
 */
int krdma_map_huge(uint64_t length, void **addr);

/**
 * krdma_map_file() - map a file, shared, to export it
 * @path: the file
 * @writable: nonzero to map the file for writing as well
 * @length: in: bytes from its start, 0 for the whole file; out: bytes mapped.
 *	The length of a character device (devdax) is in sysfs.
 * @addr: out: the address
 *
 * The caller owns the mapping, as with krdma_map_huge().
 *
 * Return: 0; -EINVAL if the length is 0, -ERANGE if the file is shorter than
 * requested, or the errno of open(2), fstat(2) or mmap(2).
 */
int krdma_map_file(const char *path, int writable, uint64_t *length, void **addr);

/**
 * krdma_export_memory() - publish memory of the caller under a name
 * @krdma: the handle
 * @name: the name, see struct krdma_ioc_export
 * @addr: start of the memory, a multiple of the page size. The memory is pinned
 *	at once and counted against RLIMIT_MEMLOCK
 * @length: bytes
 * @rights: KRDMA_RIGHT_* that peers may ask for
 * @max_segments: most segments registered for peers at a time, 0 for the
 *	default
 * @id: out: the export's id
 *
 * Return: 0; -EEXIST if the name is taken, -ENOMEM or -EDQUOT at a limit,
 * -EFAULT or -EACCES for memory that can't be exported with @rights, or another errno.
 */
int krdma_export_memory(struct krdma *krdma, const char *name, void *addr, uint64_t length,
			uint32_t rights, uint32_t max_segments, uint32_t *id);

/**
 * krdma_export_durable() - publish persistent memory under a name
 * @krdma: the handle
 * @name: the name, see struct krdma_ioc_export
 * @addr: start of the memory: a mapping of devdax, whose memory keeps its content without
 *	power
 * @length: bytes
 * @rights: KRDMA_RIGHT_* that peers may ask for
 * @max_segments: most segments registered for peers at a time, 0 for the
 *	default
 * @id: out: the export's id
 *
 * What peers have written is durable after KRDMA_OP_FLUSH.
 *
 * Return: as krdma_export_memory(); -EOPNOTSUPP if the memory is not of devdax.
 */
int krdma_export_durable(struct krdma *krdma, const char *name, void *addr, uint64_t length,
			 uint32_t rights, uint32_t max_segments, uint32_t *id);

/**
 * krdma_export_memfd() - publish a memfd, or a file on disk, under a name
 * @krdma: the handle
 * @name: the name, see struct krdma_ioc_export
 * @fd: a memfd sealed against shrinking, such as krdma_memfd() makes; or a file on
 *	disk, for which only KRDMA_RIGHT_READ is possible. The caller may close it
 *	afterwards.
 * @offset: first byte in the file, a multiple of the page size
 * @length: bytes
 * @rights: KRDMA_RIGHT_* that peers may ask for
 * @max_segments: most segments registered for peers at a time, 0 for the
 *	default
 * @id: out: the export's id
 *
 * A segment's pages are pinned when a peer first requests its key.
 *
 * Return: as krdma_export_memory(); -ERANGE if the file is shorter, -EOPNOTSUPP if
 * pages of this file can't be pinned on demand: map the file and export the mapping.
 */
int krdma_export_memfd(struct krdma *krdma, const char *name, int fd, uint64_t offset,
		       uint64_t length, uint32_t rights, uint32_t max_segments, uint32_t *id);

/**
 * krdma_export_grow() - publish more of a memfd or a file
 * @krdma: the handle
 * @id: of an export of krdma_export_memfd()
 * @length: its bytes from now on; ftruncate(2) makes a memfd longer before
 *
 * Peers that have it open keep its former length, unless they ask for more (krdma blk resize).
 *
 * Return: 0; -EOPNOTSUPP if it is no file's, -ERANGE if the file is shorter, -EINVAL if @length is
 * less than it had, or another errno.
 */
int krdma_export_grow(struct krdma *krdma, uint32_t id, uint64_t length);

/**
 * krdma_message_queue() - open an export's message queue for reading
 * @krdma: the handle
 * @id: of an export with KRDMA_RIGHT_MESSAGE
 * @flags: 0, or KRDMA_MESSAGE_QUEUE_NONBLOCK
 *
 * read(2) returns as many whole messages as are queued and fit the buffer, each a struct
 * krdma_message; krdma_message_next() iterates over them. poll(2), epoll(7) and io_uring work
 * as on a pipe. When the export has ended and all messages are read, read(2) returns 0.
 *
 * Return: a file descriptor, close-on-exec, which the caller closes; -EACCES if the export
 * does not have KRDMA_RIGHT_MESSAGE, or another negative errno.
 */
int krdma_message_queue(struct krdma *krdma, uint32_t id, uint32_t flags);

/**
 * krdma_message_next() - the next message in a buffer that was read from a message queue
 * @buf: the buffer, at a multiple of 8
 * @bytes: result of read(2)
 * @message: NULL for the first message, else the previous one
 *
 * Return: the message, or NULL after the last one.
 */
KRDMA_INLINE const struct krdma_message *krdma_message_next(const void *buf, size_t bytes,
							    const struct krdma_message *message)
{
	const char *at = message ? (const char *)message + message->size : (const char *)buf;

	return at < (const char *)buf + bytes ? (const struct krdma_message *)(const void *)at :
						NULL;
}

/**
 * krdma_message_data() - the bytes of a message
 * @message: as read from a message queue
 *
 * Return: pointer to message->length bytes.
 */
KRDMA_INLINE const unsigned char *krdma_message_data(const struct krdma_message *message)
{
	return (const unsigned char *)(message + 1);
}

/* ---- Using a peer's exports ---- */

/**
 * krdma_connect() - get a session with a peer
 * @krdma: the handle
 * @dst: the peer; port 0 means KRDMA_DEFAULT_PORT
 * @timeout_ms: give up after this many milliseconds; 0 for the default
 * @session: out: the session's id
 *
 * Return: 0; -ECONNREFUSED, -ETIMEDOUT, or another errno.
 */
int krdma_connect(struct krdma *krdma, const struct krdma_sockaddr *dst, uint32_t timeout_ms,
		  uint32_t *session);

/* For @npaths of struct krdma_connect_options. */
#define KRDMA_PATHS_AUTO UINT32_MAX

/**
 * struct krdma_connect_options - how a session is to be; 0 is the default of each
 * @flags: KRDMA_CONNECT_PRIVATE: the session is not shared with other handles;
 *	KRDMA_CONNECT_MESSAGES: it can carry messages; KRDMA_CONNECT_FAIL_FAST: it ends with
 *	its connection, or the last of its paths
 * @timeout_ms: give up after this many milliseconds
 * @resume_s: seconds that it goes on when its connection is lost, or KRDMA_RESUME_ALWAYS
 * @keepalive_s: seconds after which a dead path is noticed
 * @policy: enum krdma_path_policy: which of its paths an operation takes
 * @npaths: paths beside the one to the address that is connected to, up to
 *	KRDMA_PATHS_MAX - 1; or KRDMA_PATHS_AUTO: to the other addresses that the peer tells
 * @paths: these
 */
struct krdma_connect_options {
	uint32_t flags;
	uint32_t timeout_ms;
	uint32_t resume_s;
	uint32_t keepalive_s;
	uint32_t policy;
	uint32_t npaths;
	const struct krdma_path_addr *paths;
};

/**
 * krdma_connect_with() - get a session with a peer, with options
 * @krdma: the handle
 * @dst: the peer; port 0 means KRDMA_DEFAULT_PORT
 * @options: how the session is to be
 * @session: out: the session's id
 *
 * Return: as krdma_connect().
 */
int krdma_connect_with(struct krdma *krdma, const struct krdma_sockaddr *dst,
		       const struct krdma_connect_options *options, uint32_t *session);

/**
 * krdma_connect_flags() - get a session with a peer, with flags
 * @krdma: the handle
 * @dst: the peer; port 0 means KRDMA_DEFAULT_PORT
 * @flags: KRDMA_CONNECT_*
 * @timeout_ms: give up after this many milliseconds; 0 for the default
 * @session: out: the session's id
 *
 * Return: as krdma_connect().
 */
KRDMA_INLINE int krdma_connect_flags(struct krdma *krdma, const struct krdma_sockaddr *dst,
				     uint32_t flags, uint32_t timeout_ms, uint32_t *session)
{
	const struct krdma_connect_options options = { flags, timeout_ms, 0, 0, 0, 0, 0 };

	return krdma_connect_with(krdma, dst, &options, session);
}

/**
 * krdma_connect_host() - get a session with the first address of a host that accepts
 * @krdma: the handle
 * @host: as for krdma_resolve()
 * @options: how the session is to be; NULL for the defaults
 * @session: out: the session's id
 * @peer: out: the address, with its port; NULL if the caller does not want it
 *
 * Each address has the whole time of @options.
 *
 * Return: 0; as krdma_resolve(), or as krdma_connect() for the last address.
 */
int krdma_connect_host(struct krdma *krdma, const char *host,
		       const struct krdma_connect_options *options, uint32_t *session,
		       struct krdma_sockaddr *peer);

/**
 * krdma_connect_start() - begin to connect to a peer, without waiting for it
 * @krdma: the handle
 * @dst: the peer; port 0 means KRDMA_DEFAULT_PORT
 * @options: how the session is to be; timeout_ms and KRDMA_PATHS_AUTO are not possible. NULL for
 *	the defaults
 * @eventfd: an eventfd(2), which is signalled when krdma_connected() has the result; -1 for none
 * @session: out: the session's id; until that is decided, other calls with this id than
 *	krdma_connected(), krdma_session() and krdma_destroy() fail with -EAGAIN
 *
 * To give up, call krdma_destroy().
 *
 * Return: 0; -EINVAL or -EBADF if @eventfd is none; -EDQUOT for more than 64 at a time, or another
 * errno.
 */
int krdma_connect_start(struct krdma *krdma, const struct krdma_sockaddr *dst,
			const struct krdma_connect_options *options, int eventfd,
			uint32_t *session);

/**
 * krdma_connected() - the result of krdma_connect_start()
 * @krdma: the handle
 * @session: the session's id, which krdma_destroy() ends in any case
 *
 * Return: 0 if the session is up; -EAGAIN if that is not decided yet; -ESTALE if the session was
 * shared, and the peer was restarted: begin anew; else as krdma_connect().
 */
int krdma_connected(struct krdma *krdma, uint32_t session);

/**
 * krdma_session() - what the kernel says of a session
 * @krdma: the handle
 * @session: id of a session, from krdma_connect()
 * @info: out: its state, and what it has done so far
 *
 * Return: 0 or a negative errno.
 */
int krdma_session(struct krdma *krdma, uint32_t session, struct krdma_session_info *info);

/**
 * krdma_ping() - one round trip to the peer's module
 * @krdma: the handle
 * @session: id of the session
 * @length: bytes to carry each way, at most KRDMA_PING_MAX
 * @timeout_ms: give up after this many milliseconds; 0 for the default
 * @rtt_ns: out: nanoseconds of the round trip, measured by the kernel
 *
 * Return: 0; -ETIMEDOUT, -ENOTCONN, -ECONNRESET, -EILSEQ if the bytes came
 * back changed, or another errno.
 */
int krdma_ping(struct krdma *krdma, uint32_t session, uint32_t length, uint32_t timeout_ms,
	       uint64_t *rtt_ns);

/**
 * krdma_open_region() - open a peer's export
 * @krdma: the handle
 * @session: id of a session with the peer
 * @name: name of the export
 * @rights: requested KRDMA_RIGHT_*, all of which must be available; 0 for every right of
 *	the export
 * @timeout_ms: give up after this many milliseconds; 0 for the default
 * @region: out: the region
 *
 * Return: 0; -ENOENT if the peer has no such export, -EACCES if it does not
 * grant @rights, or another errno.
 */
int krdma_open_region(struct krdma *krdma, uint32_t session, const char *name, uint32_t rights,
		      uint32_t timeout_ms, struct krdma_region *region);

/**
 * krdma_open_region_flags() - open a peer's export, held or exclusively
 * @krdma: the handle
 * @session: id of a session with the peer
 * @name: name of the export
 * @rights: as for krdma_open_region()
 * @flags: KRDMA_OPEN_*
 * @timeout_ms: give up after this many milliseconds; 0 for the default
 * @region: out: the region
 *
 * Return: 0; -EBUSY if others are in the way, -EDQUOT if the peer can't hold it, -EPERM
 * without root, or as krdma_open_region().
 */
int krdma_open_region_flags(struct krdma *krdma, uint32_t session, const char *name,
			    uint32_t rights, uint32_t flags, uint32_t timeout_ms,
			    struct krdma_region *region);

/**
 * krdma_register_buffer() - pin memory once, to use it in many operations
 * @krdma: the handle
 * @addr: start of the memory; no alignment needed
 * @length: bytes; counted against RLIMIT_MEMLOCK
 * @flags: KRDMA_BUFFER_WRITABLE if the buffer may be the sink of a READ
 * @buffer: out: the buffer's id
 *
 * Do not unmap the memory while operations use the buffer: they continue on the
 * pages that were pinned.
 *
 * Return: 0; -ENOMEM or -EDQUOT at a limit, -EFAULT, or another errno.
 */
int krdma_register_buffer(struct krdma *krdma, void *addr, uint64_t length, uint32_t flags,
			  uint32_t *buffer);

/* ---- Operations: these functions set the usual fields; set others afterwards ---- */

/**
 * krdma_op_read() - an operation from a region to local memory
 * @op: the operation; all of it is written
 * @region: id of the region
 * @offset: first byte in the region
 * @addr: local memory
 * @length: bytes
 */
KRDMA_INLINE void krdma_op_read(struct krdma_op *op, uint32_t region, uint64_t offset, void *addr,
				uint64_t length)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_READ;
	op->region = region;
	op->offset = offset;
	op->addr = (uintptr_t)addr;
	op->length = length;
}

/**
 * krdma_op_write() - an operation from local memory to a region
 * @op: the operation; all of it is written
 * @region: id of the region
 * @offset: first byte in the region
 * @addr: local memory
 * @length: bytes
 */
KRDMA_INLINE void krdma_op_write(struct krdma_op *op, uint32_t region, uint64_t offset,
				 const void *addr, uint64_t length)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_WRITE;
	op->region = region;
	op->offset = offset;
	op->addr = (uintptr_t)addr;
	op->length = length;
}

/**
 * krdma_op_fetch_add() - add to 8 bytes of a region
 * @op: the operation; all of it is written
 * @region: id of the region, open with KRDMA_RIGHT_ATOMIC
 * @offset: where in the region, a multiple of 8
 * @before: out: the old value; at a multiple of 8
 * @value: the number to add, modulo 2^64
 */
KRDMA_INLINE void krdma_op_fetch_add(struct krdma_op *op, uint32_t region, uint64_t offset,
				     uint64_t *before, uint64_t value)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_FETCH_ADD;
	op->region = region;
	op->offset = offset;
	op->addr = (uintptr_t)before;
	op->length = sizeof(*before);
	op->operand = value;
}

/**
 * krdma_op_cmp_swap() - compare and swap 8 bytes of a region
 * @op: the operation; all of it is written
 * @region: id of the region, open with KRDMA_RIGHT_ATOMIC
 * @offset: where in the region, a multiple of 8
 * @before: out: the old value; at a multiple of 8. The swap was done if it equals
 *	@compare
 * @compare: the value that has to be there
 * @value: the value to store in that case
 */
KRDMA_INLINE void krdma_op_cmp_swap(struct krdma_op *op, uint32_t region, uint64_t offset,
				    uint64_t *before, uint64_t compare, uint64_t value)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_CMP_SWAP;
	op->region = region;
	op->offset = offset;
	op->addr = (uintptr_t)before;
	op->length = sizeof(*before);
	op->compare = compare;
	op->operand = value;
}

/**
 * krdma_op_digest() - have the target compute the CRC32C of a range of a region
 * @op: the operation; all of it is written
 * @region: id of the region, open with KRDMA_RIGHT_READ
 * @offset: first byte in the region
 * @length: bytes
 * @digest: out: the CRC32C in the low 32 bits; at a multiple of 8
 */
KRDMA_INLINE void krdma_op_digest(struct krdma_op *op, uint32_t region, uint64_t offset,
				  uint64_t length, uint64_t *digest)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_DIGEST;
	op->region = region;
	op->offset = offset;
	op->addr = (uintptr_t)digest;
	op->length = length;
}

/**
 * krdma_op_flush() - make durable what has been written to a range of a region
 * @op: the operation; all of it is written
 * @region: id of the region, whose rights have KRDMA_RIGHT_DURABLE
 * @offset: first byte in the region
 * @length: bytes
 */
KRDMA_INLINE void krdma_op_flush(struct krdma_op *op, uint32_t region, uint64_t offset,
				 uint64_t length)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_FLUSH;
	op->region = region;
	op->offset = offset;
	op->length = length;
}

/**
 * krdma_op_send() - send a message to the export's holder
 * @op: the operation; all of it is written
 * @region: id of the region, open with KRDMA_RIGHT_MESSAGE in a session with
 *	KRDMA_CONNECT_MESSAGES
 * @addr: bytes of the message
 * @length: their number, 0 to KRDMA_MESSAGE_MAX
 * @value: number that goes with the message
 */
KRDMA_INLINE void krdma_op_send(struct krdma_op *op, uint32_t region, const void *addr,
				uint64_t length, uint64_t value)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KRDMA_OP_SEND;
	op->region = region;
	op->addr = (uintptr_t)addr;
	op->length = length;
	op->operand = value;
}

/**
 * krdma_op_message() - send a message when the bytes of a WRITE are in the peer's memory
 * @op: a WRITE to a region that is open with KRDMA_RIGHT_MESSAGE as well
 * @value: number in the message, which has no bytes
 */
KRDMA_INLINE void krdma_op_message(struct krdma_op *op, uint64_t value)
{
	op->flags |= KRDMA_OPF_MESSAGE;
	op->operand = value;
}

/**
 * krdma_op_verify() - compare the moved bytes at both ends
 * @op: a READ or WRITE to a region that is open with KRDMA_RIGHT_READ; it ends with EILSEQ
 *	if the bytes differ even after a second attempt
 */
KRDMA_INLINE void krdma_op_verify(struct krdma_op *op)
{
	op->flags |= KRDMA_OPF_VERIFY;
}

/**
 * krdma_op_placed() - end a WRITE only when every reader of the peer's memory sees its bytes
 * @op: a WRITE to a region that is open with KRDMA_RIGHT_READ as well
 */
KRDMA_INLINE void krdma_op_placed(struct krdma_op *op)
{
	op->flags |= KRDMA_OPF_PLACED;
}

/**
 * krdma_op_buffer() - take local memory from a registered buffer
 * @op: the operation; its address is replaced
 * @buffer: id of the buffer
 * @offset: first byte in the buffer; krdma_op_vector(), called after this,
 *	replaces it
 */
KRDMA_INLINE void krdma_op_buffer(struct krdma_op *op, uint32_t buffer, uint64_t offset)
{
	op->flags |= KRDMA_OPF_BUFFER;
	op->buffer = buffer;
	op->addr = offset;
}

/**
 * krdma_op_vector() - gather or scatter local memory
 * @op: the operation; its address and its length are replaced
 * @pieces: addresses, or offsets in the buffer, and lengths; read when the
 *	operation is submitted
 * @count: 1 to KRDMA_VECTOR_MAX
 */
KRDMA_INLINE void krdma_op_vector(struct krdma_op *op, const struct krdma_vec *pieces,
				  unsigned int count)
{
	unsigned int i;

	op->flags |= KRDMA_OPF_VECTOR;
	op->addr = (uintptr_t)pieces;
	op->naddr = (uint16_t)count;
	op->length = 0;
	for (i = 0; i < count; i++)
		op->length += pieces[i].length;
}

/**
 * krdma_op_ranges() - use several ranges of the region
 * @op: the operation; its offset is replaced, its length must be the sum of the ranges
 * @ranges: offsets and lengths; read when the operation is submitted
 * @count: 1 to KRDMA_VECTOR_MAX
 */
KRDMA_INLINE void krdma_op_ranges(struct krdma_op *op, const struct krdma_vec *ranges,
				  unsigned int count)
{
	op->flags |= KRDMA_OPF_RANGES;
	op->offset = (uintptr_t)ranges;
	op->nranges = (uint16_t)count;
}

/**
 * krdma_submit() - do operations and wait until all of them have ended
 * @krdma: the handle
 * @ops: the operations
 * @completions: out: one completion for each operation, in the same order; not
 *	written if the call fails
 * @count: their number, 1 to KRDMA_SUBMIT_MAX
 *
 * The local memory of @ops belongs to the kernel until the call returns. A
 * signal that the process handles does not end the wait; deadlines do.
 *
 * Return: 0 if all operations are done; a positive number if that many of them
 * failed, each with its status in @completions, and krdma_error() returns the
 * text of one of them; a negative errno if the call failed. No operation was
 * started then, except with -EFAULT for @completions: the operations have been
 * done.
 */
int krdma_submit(struct krdma *krdma, const struct krdma_op *ops,
		 struct krdma_completion *completions, unsigned int count);

/**
 * krdma_submit_async() - start operations without waiting for them
 * @krdma: the handle
 * @ops: the operations; the array may be reused when the call returns
 * @count: their number, 1 to KRDMA_SUBMIT_MAX
 *
 * Each operation has one completion, which krdma_reap() returns; until then its
 * local memory belongs to the kernel. At the limit of the handle (ops_max of
 * struct krdma_ioc_query) the call waits for room for the first operation.
 *
 * Return: the number of operations that were taken from the start of @ops, 1 to
 * @count. A negative errno if none was started: -EAGAIN if there is no room and
 * the file has O_NONBLOCK, -EINTR if a signal came before there was room, another
 * one if an operation is malformed.
 */
int krdma_submit_async(struct krdma *krdma, const struct krdma_op *ops, unsigned int count);

/**
 * krdma_reap() - get completions of asynchronous operations, in the order they ended
 * @krdma: the handle
 * @completions: out: the completions
 * @count: room in @completions, at least 1
 *
 * Waits for one completion, unless the file has O_NONBLOCK, and returns all that are
 * available and fit. A signal that the process handles may end the wait.
 *
 * Return: the number of completions. If one of them has a status, krdma_error()
 * returns the text of the first such. 0 if no operation is under way; -EAGAIN with
 * O_NONBLOCK if none has ended yet, -EINTR, or another negative errno.
 */
int krdma_reap(struct krdma *krdma, struct krdma_completion *completions, unsigned int count);

/**
 * krdma_cancel() - cancel operations, asynchronous ones and io_uring's
 * @krdma: the handle
 * @user_data: of their struct krdma_op; 0 with KRDMA_CANCEL_ALL
 * @flags: 0, or KRDMA_CANCEL_ALL for all asynchronous operations of the handle
 *
 * Each operation has its completion as usual, with -ECANCELED or with the status
 * that it had reached; until then its memory belongs to the kernel.
 *
 * Return: the number of operations that are being cancelled, 0 if none was found;
 * or a negative errno.
 */
int krdma_cancel(struct krdma *krdma, uint64_t user_data, uint32_t flags);

/**
 * krdma_eventfd() - signal an eventfd(2) with each completion
 * @krdma: the handle
 * @fd: the eventfd, which stays the caller's; it replaces an earlier one. -1 for
 *	none
 *
 * Return: 0; -EBADF, -EINVAL if @fd is not an eventfd, or another errno.
 */
int krdma_eventfd(struct krdma *krdma, int fd);

/* ---- Lists and counters ---- */

struct krdma_iter;

/**
 * krdma_monitor() - open a file to read events from
 * @krdma: the handle
 * @flags: 0, or KRDMA_MONITOR_NONBLOCK
 *
 * read(2) returns as many whole events as there are and fit the buffer, each a struct
 * krdma_monitor_event; krdma_event_next() iterates over them. poll(2), epoll(7) and io_uring work
 * as on a pipe. The file tells of sessions, paths and exports of the user, or with CAP_NET_ADMIN
 * of all; of listeners and of devices.
 *
 * Return: a file descriptor, close-on-exec, which the caller closes; -ENOTTY if the module is
 * older, or another negative errno.
 */
int krdma_monitor(struct krdma *krdma, uint32_t flags);

/**
 * krdma_event_next() - the next event in a buffer that was read from krdma_monitor()'s file
 * @buf: the buffer, at a multiple of 8
 * @bytes: result of read(2)
 * @event: NULL for the first event, else the previous one
 *
 * Return: the event, or NULL after the last one.
 */
KRDMA_INLINE const struct krdma_monitor_event *
krdma_event_next(const void *buf, size_t bytes, const struct krdma_monitor_event *event)
{
	const char *at = event ? (const char *)event + event->size : (const char *)buf;

	return at < (const char *)buf + bytes ?
		       (const struct krdma_monitor_event *)(const void *)at :
		       NULL;
}

/**
 * krdma_iter_new() - begin to list objects of a kind
 * @krdma: the handle; must outlive the iterator
 * @kind: enum krdma_list_kind
 * @session: for KRDMA_LIST_PEER_EXPORTS and KRDMA_LIST_ADDRESSES the id of a session; for
 *	KRDMA_LIST_SESSIONS the id of the only session to list, or 0 for all sessions; 0 for
 *	other kinds
 * @iter: out: the iterator; one thread at a time may use it
 *
 * Return: 0 and an iterator that krdma_iter_free() ends; -EINVAL for an
 * unknown kind, -ENOMEM.
 */
int krdma_iter_new(struct krdma *krdma, enum krdma_list_kind kind, uint32_t session,
		   struct krdma_iter **iter);

/**
 * krdma_iter_next() - the next object
 * @iter: the iterator
 *
 * Objects that appear or end during the iteration may be missing.
 *
 * Return: the struct of the kind (struct krdma_session_info and so on), valid
 * until the next call; NULL at the end and on failure: krdma_iter_free() returns
 * which of the two.
 */
const void *krdma_iter_next(struct krdma_iter *iter);

/**
 * krdma_iter_free() - end an iteration
 * @iter: the iterator, or NULL
 *
 * Return: 0 if no call failed, else the negative errno.
 */
int krdma_iter_free(struct krdma_iter *iter);

/**
 * krdma_counters() - the module's counters, by name
 * @counters: out: an array, which the caller frees with free(3)
 *
 * Reads all counters from sysfs; needs no handle.
 *
 * Return: their number, 0 if the module has none or is not loaded; -ENOMEM, or
 * the errno of reading one.
 */
int krdma_counters(struct krdma_counter **counters);

#ifdef __cplusplus
}
#endif

#endif /* KRDMA_H */
