/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * krdma_mover - move bytes between the memories of hosts over RDMA
 *
 * The ioctl interface of /dev/krdma_mover.
 *
 * General rules
 * -------------
 * Every ioctl takes a pointer to a struct whose first member is its size as
 * the caller knows it. A kernel that knows a longer struct takes the missing
 * tail as zero; a kernel that knows a shorter struct accepts the call if the
 * unknown tail is zero. Reserved members must be zero.
 *
 * Objects have ids, which are valid only in the file that made them. An id is
 * never 0. KRDMA_IOC_DESTROY ends an object; closing the file ends all of its
 * objects.
 *
 * Errors have the same meaning for all commands:
 *  - ENOTTY: no such command
 *  - E2BIG: the unknown tail of the struct is not zero, or the struct exceeds a page
 *  - EOPNOTSUPP: unknown flag, or not available on this transport
 *  - EINVAL: an invalid value (short struct, reserved member not zero)
 *  - EFAULT: local memory can't be read or written
 *  - ENOENT: no such id, or no object of that name
 *  - EEXIST: the name or address is in use
 *  - EBUSY: the export is open, and one of the two must be the only one that writes
 *  - ERANGE: outside of the region, buffer or export
 *  - EACCES: the right was not granted
 *  - EPERM: the caller lacks the capability
 *  - ESTALE: the export was revoked, or the peer was restarted
 *  - ETIMEDOUT: the deadline passed, or the peer did not reply
 *  - ECANCELED: the object was destroyed during the call
 *  - ECONNREFUSED: no listener at the address, or the peer refuses this host
 *  - ENOTCONN: the session has no path to the peer; no data was sent
 *  - ECONNRESET: the path was lost during the operation; the outcome is unknown
 *  - ENOMEM: memory, or RLIMIT_MEMLOCK
 *  - EDQUOT: a limit of this module
 *  - EPROTO: the peer's module has another version of the protocol, or violates it
 *  - EIO: local memory or the peer's can't be accessed; the RDMA device refused the operation
 *  - EILSEQ: the moved bytes differ at the two ends
 *  - EBADF: no such file descriptor
 *  - EMFILE, ENFILE: too many open files
 *  - EMSGSIZE: the buffer of a read(2) is too short for the next message
 *  - EAGAIN: the call would block, and the file has O_NONBLOCK; the session is being connected
 *  - EADDRNOTAVAIL, EADDRINUSE, ENODEV: rdma_cm refuses a listener's address
 *  - EINTR: a fatal signal; any signal during a wait for room or for a completion
 *
 * After a failed call KRDMA_IOC_LAST_ERROR returns the error text: one sentence
 * that names the object and the cause.
 */
#ifndef _UAPI_KRDMA_MOVER_H
#define _UAPI_KRDMA_MOVER_H

#include <linux/socket.h>
#include <linux/types.h>
#include <linux/ioctl.h>

#define KRDMA_IOC_TYPE 0xBD

/* Longest name of an export, with its terminating NUL. */
#define KRDMA_NAME_MAX 64
/* Default port of a listener. */
#define KRDMA_DEFAULT_PORT 7471
/* Most operations in one KRDMA_IOC_SUBMIT. */
#define KRDMA_SUBMIT_MAX 1024
/* Most entries in a vector of an operation. */
#define KRDMA_VECTOR_MAX 1024
/* Deadline of an operation whose timeout_ns is 0, in nanoseconds: 30 s. */
#define KRDMA_DEFAULT_TIMEOUT_NS 30000000000ULL

/* Most bytes of a message. */
#define KRDMA_MESSAGE_MAX 4096

/* Rights of an export and of a region. */
#define KRDMA_RIGHT_READ    (1U << 0)
#define KRDMA_RIGHT_WRITE   (1U << 1)
#define KRDMA_RIGHT_ATOMIC  (1U << 2)
#define KRDMA_RIGHT_MESSAGE (1U << 4) /* send messages to the export's holder */
/*
 * Only set in the granted rights of a region: its atomic operations are atomic against
 * the target's CPUs as well, not only against operations of the target's RDMA device.
 */
#define KRDMA_RIGHT_ATOMIC_CPU (1U << 3)
/*
 * Only set in the granted rights of a region that may be changed: its memory is persistent, and
 * KRDMA_OP_FLUSH makes changes durable.
 */
#define KRDMA_RIGHT_DURABLE (1U << 5)

/**
 * struct krdma_sockaddr - an address of a host, in lists, messages and prefixes
 * @family: AF_INET, AF_INET6, or AF_UNSPEC for "any"
 * @port: port, host byte order; 0 for the default where one is needed
 * @scope_id: interface index for IPv6 link-local addresses, else 0
 * @addr: the address, network byte order; IPv4 in the first four bytes, the
 *	rest zero
 *
 * A struct __kernel_sockaddr_storage, which calls have, would be most of an entry.
 */
struct krdma_sockaddr {
	__u16 family;
	__u16 port;
	__u32 scope_id;
	__u8 addr[16];
};

/* Features, see struct krdma_ioc_query. */
#define KRDMA_FEATURE_RDMA     (1ULL << 0)  /* READ and WRITE */
#define KRDMA_FEATURE_ASYNC    (1ULL << 1)  /* KRDMA_SUBMIT_ASYNC, read, poll, KRDMA_IOC_EVENTFD */
#define KRDMA_FEATURE_URING    (1ULL << 2)  /* KRDMA_URING_OP; the kernel has io_uring */
#define KRDMA_FEATURE_VECTORS  (1ULL << 3)  /* KRDMA_OPF_VECTOR, KRDMA_OPF_RANGES */
#define KRDMA_FEATURE_AFTER    (1ULL << 4)  /* KRDMA_OPF_AFTER */
#define KRDMA_FEATURE_CANCEL   (1ULL << 5)  /* closing a ring cancels its operations, see below */
#define KRDMA_FEATURE_ATOMIC   (1ULL << 6)  /* KRDMA_OP_FETCH_ADD, KRDMA_OP_CMP_SWAP */
#define KRDMA_FEATURE_DIGEST   (1ULL << 7)  /* KRDMA_OP_DIGEST, KRDMA_OPF_VERIFY */
#define KRDMA_FEATURE_UNPLACED (1ULL << 8)  /* KRDMA_OPF_UNPLACED */
#define KRDMA_FEATURE_MESSAGES (1ULL << 9)  /* KRDMA_OP_SEND, KRDMA_IOC_MESSAGE_QUEUE */
#define KRDMA_FEATURE_PLACED   (1ULL << 10) /* KRDMA_OPF_PLACED */
#define KRDMA_FEATURE_CONNECT  (1ULL << 11) /* KRDMA_CONNECT_ASYNC */
#define KRDMA_FEATURE_MONITOR  (1ULL << 12) /* KRDMA_IOC_MONITOR, lists of latencies and grants */
#define KRDMA_FEATURE_FLUSH    (1ULL << 13) /* KRDMA_OP_FLUSH, KRDMA_EXPORT_DURABLE */
#define KRDMA_FEATURE_GROW     (1ULL << 14) /* KRDMA_IOC_EXPORT_GROW */

/*
 * Longest deadline of an operation by io_uring without KRDMA_FEATURE_CANCEL (Linux up to
 * 6.6), nanoseconds: 60 s. A longer one is EINVAL.
 */
#define KRDMA_URING_TIMEOUT_NS 60000000000ULL

/**
 * struct krdma_ioc_query - KRDMA_IOC_QUERY, features and limits of the module
 * @size: sizeof(struct krdma_ioc_query)
 * @flags: must be 0
 * @features: out: KRDMA_FEATURE_*
 * @incarnation: out: random identity of this load of the module
 * @pinned_bytes: out: bytes that this file keeps pinned
 * @pinned_limit: out: most bytes that this file may keep pinned
 * @op_pin_max: out: most bytes of one operation whose local memory is not a
 *	registered buffer
 * @max_ids: out: most objects that this file may have
 * @submit_max: out: most operations in one KRDMA_IOC_SUBMIT
 * @version: out: version of the module, NUL-terminated
 * @ops_max: out: most asynchronous operations of this file that are under way, or
 *	whose completions have not been read
 * @vector_max: out: most entries in a vector of an operation
 */
struct krdma_ioc_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 features;
	__aligned_u64 incarnation;
	__aligned_u64 pinned_bytes;
	__aligned_u64 pinned_limit;
	__aligned_u64 op_pin_max;
	__u32 max_ids;
	__u32 submit_max;
	char version[32];
	__u32 ops_max;
	__u32 vector_max;
};

/**
 * struct krdma_ioc_last_error - KRDMA_IOC_LAST_ERROR, text of the last error
 * @size: sizeof(struct krdma_ioc_last_error)
 * @error: out: the positive errno that @text belongs to, 0 if no call has failed
 * @text: out: one sentence, NUL-terminated
 *
 * Returns the calling thread's last failure on this file. The file keeps the
 * failures of the eight threads that failed last; any other thread gets the last
 * failure of the file.
 */
struct krdma_ioc_last_error {
	__u32 size;
	__s32 error;
	char text[240];
};

/**
 * struct krdma_ioc_destroy - KRDMA_IOC_DESTROY, end an object
 * @size: sizeof(struct krdma_ioc_destroy)
 * @id: a session, region, buffer or export of this file
 *
 * When this returns, the id is free and no new operation can use the object.
 * Operations under way keep what they use until they end.
 */
struct krdma_ioc_destroy {
	__u32 size;
	__u32 id;
};

/**
 * struct krdma_prefix - an address prefix of hosts that may connect
 * @addr: address; the port is ignored
 * @prefix_len: number of leading bits that must match
 * @reserved: must be 0
 */
struct krdma_prefix {
	struct krdma_sockaddr addr;
	__u32 prefix_len;
	__u32 reserved;
};

/* Most prefixes of one listener. */
#define KRDMA_LISTEN_ALLOW_MAX 64

/*
 * A listener that is at the address already gets this allow-list, and is open again if it was
 * closed; its sessions go on, also those of peers that it would refuse now. It still ends with
 * the file that made it. Without such a listener, as without the flag.
 */
#define KRDMA_LISTEN_REPLACE (1U << 0)

/**
 * struct krdma_ioc_listen - KRDMA_IOC_LISTEN, accept peers at an address
 * @size: sizeof(struct krdma_ioc_listen)
 * @flags: KRDMA_LISTEN_REPLACE
 * @addr: local address, a struct sockaddr_in or sockaddr_in6 with zeros behind
 *	it; the any-address listens on all. Port 0 means KRDMA_DEFAULT_PORT. An
 *	IPv6 listener does not take IPv4 peers.
 * @allow: pointer to an array of struct krdma_prefix; peers that match no prefix
 *	are refused. EINVAL if no prefix has @addr's family
 * @allow_count: entries in @allow; 0 admits every peer
 * @reserved: must be 0
 *
 * Needs CAP_NET_ADMIN in the caller's network namespace. In the initial
 * namespace the listener stays until KRDMA_IOC_UNLISTEN or rmmod; in another
 * namespace it ends with this file. EEXIST: the address has a listener already, and
 * KRDMA_LISTEN_REPLACE is not set.
 */
struct krdma_ioc_listen {
	__u32 size;
	__u32 flags;
	struct __kernel_sockaddr_storage addr;
	__aligned_u64 allow;
	__u32 allow_count;
	__u32 reserved;
};

/* Refuse new sessions; existing ones go on, and the listener stays for them. */
#define KRDMA_UNLISTEN_CLOSE (1U << 0)

/**
 * struct krdma_ioc_unlisten - KRDMA_IOC_UNLISTEN, stop accepting peers
 * @size: sizeof(struct krdma_ioc_unlisten)
 * @flags: KRDMA_UNLISTEN_CLOSE
 * @addr: as given to KRDMA_IOC_LISTEN
 *
 * The sessions that came through the listener end. With KRDMA_UNLISTEN_CLOSE they go on, also
 * when their connection is lost, and a later call removes the listener. Needs CAP_NET_ADMIN
 * in the caller's network namespace.
 */
struct krdma_ioc_unlisten {
	__u32 size;
	__u32 flags;
	struct __kernel_sockaddr_storage addr;
};

/* The buffer may be the sink of a READ: it is pinned writable. */
#define KRDMA_BUFFER_WRITABLE (1U << 0)

/**
 * struct krdma_ioc_buffer - KRDMA_IOC_BUFFER, register local memory
 * @size: sizeof(struct krdma_ioc_buffer)
 * @flags: KRDMA_BUFFER_WRITABLE
 * @addr: start of the memory in the caller
 * @length: its length in bytes
 * @id: out: the buffer
 * @reserved: must be 0
 *
 * The memory is pinned at once and counted against RLIMIT_MEMLOCK. It stays pinned
 * until the buffer and all operations that use it have ended.
 */
struct krdma_ioc_buffer {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 id;
	__u32 reserved;
};

/* Export @fd, a memfd without huge pages or, for reading, a file on disk; @addr is an offset. */
#define KRDMA_EXPORT_FD (1U << 0)
/*
 * The memory is persistent: KRDMA_OP_FLUSH of a peer makes durable what it has written. Only of an
 * address range that consists of mappings of devdax (EOPNOTSUPP). Whether the device keeps its
 * content without power is for the caller to know.
 */
#define KRDMA_EXPORT_DURABLE (1U << 1)

/**
 * struct krdma_ioc_export - KRDMA_IOC_EXPORT, publish memory under a name
 * @size: sizeof(struct krdma_ioc_export)
 * @flags: KRDMA_EXPORT_FD, or KRDMA_EXPORT_DURABLE
 * @rights: KRDMA_RIGHT_* that peers may have
 * @fd: with KRDMA_EXPORT_FD: a memfd sealed with F_SEAL_SHRINK (and not sealed
 *	against writing if @rights has WRITE); or a regular file on disk if @rights
 *	has neither WRITE nor ATOMIC. Else must be 0
 * @addr: start of the memory, or the offset in @fd; a multiple of the page size
 * @length: length in bytes, at least 1
 * @max_segments: most segments registered for peers at a time, over all
 *	peers; 0 for the default
 * @id: out: the export
 * @name: name, NUL-terminated: 1 to 63 of the characters
 *	A-Z a-z 0-9 . _ - : + =
 *
 * An address range is pinned at once. A file's pages are pinned when a peer first
 * requests the key of their segment, and unpinned when the segment is recalled;
 * both count against the caller's RLIMIT_MEMLOCK. The export ends with its id:
 * its grants are revoked, and peers have a bounded time to stop.
 */
struct krdma_ioc_export {
	__u32 size;
	__u32 flags;
	__u32 rights;
	__s32 fd;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 max_segments;
	__u32 id;
	char name[KRDMA_NAME_MAX];
};

/**
 * struct krdma_ioc_export_grow - KRDMA_IOC_EXPORT_GROW, publish more of a file
 * @size: sizeof(struct krdma_ioc_export_grow)
 * @flags: must be 0
 * @id: an export with KRDMA_EXPORT_FD
 * @reserved: must be 0
 * @length: its length from now on, in bytes; the file must have them, counted from @addr of
 *	struct krdma_ioc_export
 *
 * Peers that open the export from now on have all of it. Peers that have it open keep its former
 * length, until they ask for more (krdma_grow(), KRDMA_BLK_RESIZE). Before this call ftruncate(2)
 * makes a memfd longer; an export never gets shorter.
 *
 * Errors: ENOENT; EOPNOTSUPP: it is not of a file; ERANGE: the file is shorter; EINVAL: @length is
 * less than it had; ENOMEM and EDQUOT as of KRDMA_IOC_EXPORT.
 */
struct krdma_ioc_export_grow {
	__u32 size;
	__u32 flags;
	__u32 id;
	__u32 reserved;
	__aligned_u64 length;
};

/* Do not share the session with other files. */
#define KRDMA_CONNECT_PRIVATE (1U << 0)
/* The session can carry messages, for which the peer sets aside memory. */
#define KRDMA_CONNECT_MESSAGES (1U << 1)
/*
 * The session ends when its first channel, the one for control, is lost, and no other path of it
 * is up: for programs that do their own recovery.
 */
#define KRDMA_CONNECT_FAIL_FAST (1U << 2)
/*
 * Do not wait: the call returns an id while the session is being connected. Until that is decided,
 * the id is good for KRDMA_IOC_CONNECTED, KRDMA_LIST_SESSIONS and KRDMA_IOC_DESTROY; other calls
 * with this id fail with EAGAIN.
 */
#define KRDMA_CONNECT_ASYNC (1U << 3)

/* Paths of a session, the first one included. */
#define KRDMA_PATHS_MAX 4

/**
 * struct krdma_path_addr - a path
 * @dst: address of the peer; port 0 means KRDMA_DEFAULT_PORT
 * @src: local address; all zero lets routing choose
 */
struct krdma_path_addr {
	struct krdma_sockaddr dst;
	struct krdma_sockaddr src;
};

/* Which of its paths a session uses for an operation, of those that are up. */
enum krdma_path_policy {
	KRDMA_POLICY_IN_FLIGHT = 0,   /* the one with the fewest operations under way */
	KRDMA_POLICY_ROUND_ROBIN = 1, /* each in turn */
	KRDMA_POLICY_LATENCY = 2,     /* the one whose operations end soonest */
};

/* Most seconds of resume_s; and in place of seconds: no limit on this host. */
#define KRDMA_RESUME_MAX    3600
#define KRDMA_RESUME_ALWAYS 65535
/* Most seconds of a keepalive. */
#define KRDMA_KEEPALIVE_MAX 60

/**
 * struct krdma_ioc_connect - KRDMA_IOC_CONNECT, get a session with a peer
 * @size: sizeof(struct krdma_ioc_connect)
 * @flags: KRDMA_CONNECT_PRIVATE, KRDMA_CONNECT_MESSAGES, KRDMA_CONNECT_FAIL_FAST,
 *	KRDMA_CONNECT_ASYNC
 * @dst: the peer, a struct sockaddr_in or sockaddr_in6 with zeros behind it;
 *	port 0 means KRDMA_DEFAULT_PORT
 * @src: local address, likewise; all zero (AF_UNSPEC) lets routing choose
 * @timeout_ms: give up after this many milliseconds; 0 means 10,000 times the parameter
 *	timeout_scale, which is also the most that a new connection takes. Must be 0 with
 *	KRDMA_CONNECT_ASYNC
 * @id: out: the session
 * @serial: out: its number on this host, as in struct krdma_session_info
 * @resume_s: seconds that the session goes on when its connection is lost: up to
 *	KRDMA_RESUME_MAX, or KRDMA_RESUME_ALWAYS; the peer may allow less. 0 means the
 *	module's parameter resume. Must be 0 with KRDMA_CONNECT_FAIL_FAST
 * @keepalive_s: up to KRDMA_KEEPALIVE_MAX: a dead path is noticed within so many seconds
 *	and one more; the parameter timeout_scale lengthens three fifths of them and the one
 *	more. 0 means the parameter keepalive
 * @policy: enum krdma_path_policy; of no effect with one path
 * @npaths: paths beside the one from @src to @dst, up to KRDMA_PATHS_MAX - 1
 * @paths: pointer to an array of @npaths struct krdma_path_addr
 * @eventfd: with KRDMA_CONNECT_ASYNC: an eventfd(2), whose counter is incremented by 1 when
 *	KRDMA_IOC_CONNECTED has the result; -1 for none. Else must be 0
 * @reserved: must be 0
 *
 * A session that the same user already has with the peer, with the same
 * addresses and in the same network namespace, is shared, if it was made with the same
 * KRDMA_CONNECT_FAIL_FAST, @resume_s, @keepalive_s, @policy and @paths. With
 * KRDMA_CONNECT_MESSAGES only a session that was made with the flag is shared.
 */
struct krdma_ioc_connect {
	__u32 size;
	__u32 flags;
	struct __kernel_sockaddr_storage dst;
	struct __kernel_sockaddr_storage src;
	__u32 timeout_ms;
	__u32 id;
	__aligned_u64 serial;
	__u32 resume_s;
	__u32 keepalive_s;
	__u32 policy;
	__u32 npaths;
	__aligned_u64 paths;
	__s32 eventfd;
	__u32 reserved;
};

/**
 * struct krdma_ioc_connected - KRDMA_IOC_CONNECTED, the result of a connect that was not waited for
 * @size: sizeof(struct krdma_ioc_connected)
 * @flags: must be 0
 * @session: id of a session
 * @reserved: must be 0
 *
 * Does not wait. 0: the session is up, or was when its eventfd was signalled. EAGAIN, before that
 * signal: it is being connected, or its connection is lost and may come back. ESTALE: the session
 * was shared, its connection was lost, and the peer was restarted: connect again, which a
 * KRDMA_IOC_CONNECT that waits does itself. Any other errno is the result that KRDMA_IOC_CONNECT
 * would have had. The id is to be destroyed in any case.
 */
struct krdma_ioc_connected {
	__u32 size;
	__u32 flags;
	__u32 session;
	__u32 reserved;
};

/* Most seconds that KRDMA_IOC_DISCONNECT waits for what is under way. */
#define KRDMA_DRAIN_MAX 3600

/**
 * struct krdma_ioc_disconnect - KRDMA_IOC_DISCONNECT, end sessions when they are idle
 * @size: sizeof(struct krdma_ioc_disconnect)
 * @flags: must be 0
 * @serial: the session, as in struct krdma_session_info; 0 for all of the caller's network
 *	namespace that the caller may end
 * @timeout_ms: how long what is under way may take, up to KRDMA_DRAIN_MAX seconds; then it
 *	ends with ECONNRESET, or with ENOTCONN if nothing of it was posted. 0 means 10,000 times
 *	the parameter timeout_scale
 * @reserved: must be 0
 * @peer: with @serial 0: only sessions with this address, and with this port unless that is
 *	0; AF_UNSPEC for all. ENOENT if there is none
 *
 * Operations and opens that begin from now on fail with ENOTCONN, for all files that share
 * the session; a new KRDMA_IOC_CONNECT makes another one. The peer is told: a target gives
 * the initiator notice, which then ends the session. Returns when the sessions are gone;
 * ETIMEDOUT: they are, and something was still under way.
 * A caller without CAP_NET_ADMIN in its network namespace may end outbound sessions of its
 * own user id.
 */
struct krdma_ioc_disconnect {
	__u32 size;
	__u32 flags;
	__aligned_u64 serial;
	__u32 timeout_ms;
	__u32 reserved;
	struct krdma_sockaddr peer;
};

/*
 * The target keeps all memory of the export in place until the region is closed, and recalls no
 * key. All are there when the call returns; of a path or a device that comes up later they are
 * requested then.
 */
#define KRDMA_OPEN_HELD (1U << 0)
/*
 * No other region can change the export's memory: this open, or the other one, fails with EBUSY.
 * Regions with KRDMA_RIGHT_READ and KRDMA_RIGHT_MESSAGE alone may be there beside it.
 */
#define KRDMA_OPEN_EXCLUSIVE (1U << 1)
/*
 * With KRDMA_OPEN_EXCLUSIVE: regions that are in the way are revoked. When the call succeeds,
 * no operation of theirs can change the memory any more.
 */
#define KRDMA_OPEN_TAKEOVER (1U << 2)

/**
 * struct krdma_ioc_open - KRDMA_IOC_OPEN, open a peer's export
 * @size: sizeof(struct krdma_ioc_open)
 * @flags: KRDMA_OPEN_*, for root alone (EPERM; EACCES if the peer thinks otherwise)
 * @session: id of a session
 * @rights: requested KRDMA_RIGHT_*, all of which must be available; 0 for every right of
 *	the export
 * @length: out: length of the export in bytes
 * @segment_size: out: bytes that one key covers
 * @granted: out: KRDMA_RIGHT_* of the region. Never has KRDMA_RIGHT_ATOMIC on a
 *	transport without atomic operations, nor KRDMA_RIGHT_MESSAGE in a session
 *	without KRDMA_CONNECT_MESSAGES; if @rights has one of these, the call fails
 *	with EOPNOTSUPP
 * @id: out: the region
 * @timeout_ms: give up after this many milliseconds; 0 means 10,000 times the parameter
 *	timeout_scale, or 40,000 times it with KRDMA_OPEN_HELD or KRDMA_OPEN_TAKEOVER. As long
 *	again for the keys of each 32 segments that are held
 * @reserved: must be 0
 * @name: name of the export
 *
 * EDQUOT: the target can't hold it: all but an eighth of the segments of the export, and of
 * those of a session, may be held. EBUSY: others are in the way.
 */
struct krdma_ioc_open {
	__u32 size;
	__u32 flags;
	__u32 session;
	__u32 rights;
	__aligned_u64 length;
	__aligned_u64 segment_size;
	__u32 granted;
	__u32 id;
	__u32 timeout_ms;
	__u32 reserved;
	char name[KRDMA_NAME_MAX];
};

/* Most bytes that a ping carries. */
#define KRDMA_PING_MAX 512

/**
 * struct krdma_ioc_ping - KRDMA_IOC_PING, one round trip to the peer's module
 * @size: sizeof(struct krdma_ioc_ping)
 * @flags: must be 0
 * @session: id of a session
 * @length: bytes to carry each way, at most KRDMA_PING_MAX
 * @timeout_ms: give up after this many milliseconds; 0 means 10,000 times the parameter
 *	timeout_scale
 * @reserved: must be 0
 * @rtt_ns: out: nanoseconds from the post of the request to its reply
 *
 * The bytes are random, and compared with those of the reply (EILSEQ if they differ).
 */
struct krdma_ioc_ping {
	__u32 size;
	__u32 flags;
	__u32 session;
	__u32 length;
	__u32 timeout_ms;
	__u32 reserved;
	__aligned_u64 rtt_ns;
};

/* Operations. */
enum krdma_opcode {
	KRDMA_OP_READ = 1,  /* from the region to local memory */
	KRDMA_OP_WRITE = 2, /* from local memory to the region */
	KRDMA_OP_SEND = 3,  /* a message to the export's holder: local memory, @operand */
	/* On 8 bytes of the region; the old value goes to local memory. */
	KRDMA_OP_FETCH_ADD = 4, /* add @operand */
	KRDMA_OP_CMP_SWAP = 5,  /* store @operand if the old value equals @compare */
	/* Of @length bytes of the region; the result is a number of 8 bytes in local memory. */
	KRDMA_OP_DIGEST = 6, /* CRC32C, computed by the target */
	/* Of @length bytes of the region; without local memory. */
	KRDMA_OP_FLUSH = 7, /* what has been written is durable; needs KRDMA_RIGHT_DURABLE */
};

/* @addr is an offset in the buffer @buffer. */
#define KRDMA_OPF_BUFFER (1U << 0)
/* Local memory is in pieces: @addr points to an array of @naddr struct krdma_vec. */
#define KRDMA_OPF_VECTOR (1U << 1)
/* Several ranges of the region: @offset points to an array of @nranges struct krdma_vec. */
#define KRDMA_OPF_RANGES (1U << 2)
/*
 * Start when all earlier operations of this file on this region's id have ended.
 * io_uring may start commands in another order than the order of submission, if
 * one of them is drained, linked or punted to a thread.
 */
#define KRDMA_OPF_AFTER (1U << 3)
/*
 * For READ and WRITE: when the bytes have arrived, compare their CRC32C at both ends. If
 * the values differ, move the bytes once more; if they differ again, end with EILSEQ. Needs
 * KRDMA_RIGHT_READ. Concurrent changes of the memory show as differences.
 */
#define KRDMA_OPF_VERIFY (1U << 4)
/*
 * For WRITE: the operation may end while its bytes are still on their way to the peer's
 * memory. If the path is then lost, some bytes may not arrive, and no error is reported.
 * Has an effect on iWARP only, in a session that ends with its connection
 * (KRDMA_CONNECT_FAIL_FAST): no READ is posted behind the WRITE.
 */
#define KRDMA_OPF_UNPLACED (1U << 5)
/*
 * For WRITE: when the bytes are in the peer's memory (and verified, with KRDMA_OPF_VERIFY),
 * send a message of no bytes, with @operand as its value, to the export's holder. Needs
 * KRDMA_RIGHT_MESSAGE.
 */
#define KRDMA_OPF_MESSAGE (1U << 6)
/*
 * For WRITE: post a READ behind it, on any transport, and end when that READ has completed:
 * every reader of the peer's memory then sees all the bytes. No READ is posted if the peer says
 * that its device has the bytes in memory before it acknowledges them. On iWARP the READ is posted
 * without the flag. Needs KRDMA_RIGHT_READ; excludes KRDMA_OPF_UNPLACED.
 */
#define KRDMA_OPF_PLACED (1U << 7)

/**
 * struct krdma_vec - a piece of local memory, or a range of a region
 * @addr: like @addr or @offset of a struct krdma_op that has no vector
 * @length: bytes, at least 1
 */
struct krdma_vec {
	__aligned_u64 addr;
	__aligned_u64 length;
};

/**
 * struct krdma_op - one operation
 * @opcode: enum krdma_opcode
 * @reserved0: must be 0
 * @flags: KRDMA_OPF_*
 * @region: id of the region
 * @user_data: returned in the completion
 * @offset: first byte in the region; with KRDMA_OPF_RANGES a pointer; 0 for a message
 * @length: bytes to move, at least 1; the sum of each vector. For a digest or a flush: bytes of
 *	the region. For a message: 0 to KRDMA_MESSAGE_MAX
 * @addr: local memory of the caller, or the offset in @buffer; with
 *	KRDMA_OPF_VECTOR a pointer. @length bytes; 8 for a digest
 * @buffer: with KRDMA_OPF_BUFFER: id of a registered buffer, else must be 0
 * @naddr: with KRDMA_OPF_VECTOR: 1 to KRDMA_VECTOR_MAX, else must be 0
 * @nranges: with KRDMA_OPF_RANGES: 1 to KRDMA_VECTOR_MAX, else must be 0
 * @timeout_ns: deadline from the start of the operation, in nanoseconds; 0 means 30
 *	seconds. At most 300 seconds if there is local memory that is not a registered buffer; if
 *	more than 5 seconds, that memory counts against RLIMIT_MEMLOCK as a buffer's
 *	does, and 0 means 5 seconds if the limit does not allow it
 * @reserved2: must be 0
 * @operand: operand of an atomic operation, or value of a message; else must be 0
 * @compare: with KRDMA_OP_CMP_SWAP, else must be 0
 *
 * At the deadline no further work request is posted, and the operation ends with
 * ETIMEDOUT as soon as the posted ones have completed; the transport bounds that time
 * (Documentation/uapi.rst, "Deadlines"). When a WRITE is reported done, its bytes are
 * in the peer's memory, as far as the transport can know (Documentation/uapi.rst,
 * "Placement"; KRDMA_OPF_PLACED, KRDMA_OPF_UNPLACED). Operations have no order, except
 * with KRDMA_OPF_AFTER. Pieces and ranges may have any alignment; bytes go through both
 * in order, and the boundaries of pieces and ranges are independent. Vectors are read
 * when the operation is submitted.
 *
 * An atomic operation has 8 bytes on either side, without vectors; @offset and
 * @addr (with KRDMA_OPF_BUFFER: the address in the buffer) are multiples of 8. Values
 * are in the byte order of the target. After ECONNRESET the operation may or may not
 * have been done; it is never repeated.
 *
 * The local memory of a digest is 8 bytes as well; the region may have ranges, whose
 * bytes are taken one range after the other. The digest is in the low 32 bits.
 *
 * A flush has no local memory: @addr and @buffer are 0. When it is reported done, the bytes that
 * WRITEs and atomic operations have put into its ranges are durable, if these had ended, in the
 * same session, before it was submitted.
 *
 * A message that is reported done is in the export's message queue. Messages that are
 * submitted one after the other to the same region arrive in that order, each once. A
 * message that ends with ETIMEDOUT, ECANCELED or ECONNRESET may have arrived, or may
 * still arrive.
 *
 * The same struct serves io_uring: IORING_OP_URING_CMD on a ring with
 * IORING_SETUP_SQE128, cmd_op KRDMA_URING_OP, the struct in sqe->cmd. The result
 * is a negative errno, or the bytes moved, at most 2^31 - 1; in a CQE of 32
 * bytes big_cqe[0] has the full number, also if the operation failed.
 * @user_data is then used by KRDMA_IOC_CANCEL only. With IORING_URING_CMD_FIXED in
 * sqe->uring_cmd_flags and with sqe->buf_index, @addr is an address in a buffer that
 * is registered with io_uring.
 * Without KRDMA_FEATURE_CANCEL @timeout_ns is at most KRDMA_URING_TIMEOUT_NS.
 */
struct krdma_op {
	__u8 opcode;
	__u8 reserved0;
	__u16 flags;
	__u32 region;
	__aligned_u64 user_data;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 addr;
	__u32 buffer;
	__u16 naddr;
	__u16 nranges;
	__aligned_u64 timeout_ns;
	__aligned_u64 reserved2;
	__aligned_u64 operand;
	__aligned_u64 compare;
};

/* cmd_op of IORING_OP_URING_CMD: the operation is in sqe->cmd. */
#define KRDMA_URING_OP _IO(KRDMA_IOC_TYPE, 0x31)

/**
 * struct krdma_completion - end of an operation
 * @user_data: of the operation
 * @result: bytes moved without a gap from the start of the range; the whole
 *	length if @status is 0
 * @status: 0 or a negative errno
 * @flags: 0 for now
 * @reserved: 0
 */
struct krdma_completion {
	__aligned_u64 user_data;
	__aligned_u64 result;
	__s32 status;
	__u32 flags;
	__aligned_u64 reserved;
};

/* Do not wait: read(2) on the file returns the completions. */
#define KRDMA_SUBMIT_ASYNC (1U << 0)

/**
 * struct krdma_ioc_submit - KRDMA_IOC_SUBMIT, do operations
 * @size: sizeof(struct krdma_ioc_submit)
 * @flags: KRDMA_SUBMIT_ASYNC
 * @ops: pointer to an array of struct krdma_op
 * @completions: pointer to an array of struct krdma_completion, one for each
 *	operation, in the same order; must be 0 with KRDMA_SUBMIT_ASYNC
 * @count: operations, 1 to KRDMA_SUBMIT_MAX
 * @op_stride: bytes from one struct krdma_op to the next: its sizeof
 * @completion_stride: the same for struct krdma_completion; must be 0 with
 *	KRDMA_SUBMIT_ASYNC
 * @failed: out: operations whose status is not 0; 0 with KRDMA_SUBMIT_ASYNC
 * @accepted: out: operations that were started, from the first one on: all of them,
 *	or with KRDMA_SUBMIT_ASYNC as many as the file's limit allows
 * @reserved: must be 0
 *
 * All operations are checked first: if one is malformed, the call fails and
 * none is started. Otherwise the call returns 0 when all have ended, each with
 * its own status; KRDMA_IOC_LAST_ERROR returns the text of the first that
 * failed. A fatal signal ends the wait; the kernel then stops the operations
 * under way and unpins their memory without the process.
 *
 * With KRDMA_SUBMIT_ASYNC the call returns when the operations are under way.
 * read(2) on the file returns completions, an array of struct krdma_completion,
 * in the order in which the operations ended. It waits for at least one, unless
 * the file has O_NONBLOCK (EAGAIN) or no operation is under way (0). Memory is
 * unpinned before read(2) returns its completion, or after a second if nobody
 * reads. poll(2) reports POLLIN when there is a completion to read, POLLOUT when
 * there is room for an operation. At the limit (ops_max of struct
 * krdma_ioc_query) the call waits for room for the first operation, or fails with
 * EAGAIN if the file has O_NONBLOCK; it does not wait for room for the others.
 */
struct krdma_ioc_submit {
	__u32 size;
	__u32 flags;
	__aligned_u64 ops;
	__aligned_u64 completions;
	__u32 count;
	__u32 op_stride;
	__u32 completion_stride;
	__u32 failed;
	__u32 accepted;
	__u32 reserved;
};

/* Cancel all asynchronous operations of the file, with any user_data. */
#define KRDMA_CANCEL_ALL (1U << 0)

/**
 * struct krdma_ioc_cancel - KRDMA_IOC_CANCEL, end asynchronous operations
 * @size: sizeof(struct krdma_ioc_cancel)
 * @flags: KRDMA_CANCEL_ALL
 * @user_data: user_data of the operations; must be 0 with KRDMA_CANCEL_ALL
 * @count: out: operations that are being cancelled
 * @reserved: must be 0
 *
 * No further work request of them is posted. Each has its one completion as
 * usual, with ECANCELED or with the status that it had reached. Posted work
 * requests complete by themselves, so a WRITE may change the peer's memory until
 * its completion. Operations of io_uring are found as well, by @user_data of their
 * struct krdma_op: IORING_OP_ASYNC_CANCEL does not reach a driver's commands. The
 * call succeeds even if it finds no operation.
 */
struct krdma_ioc_cancel {
	__u32 size;
	__u32 flags;
	__aligned_u64 user_data;
	__u32 count;
	__u32 reserved;
};

/**
 * struct krdma_ioc_eventfd - KRDMA_IOC_EVENTFD, signal an eventfd at completions
 * @size: sizeof(struct krdma_ioc_eventfd)
 * @flags: must be 0
 * @fd: an eventfd(2), whose counter each asynchronous operation that ends
 *	increments by 1; it replaces an earlier one. -1: none
 * @reserved: must be 0
 */
struct krdma_ioc_eventfd {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 reserved;
};

/* read(2) of the message queue does not wait, but fails with EAGAIN. */
#define KRDMA_MESSAGE_QUEUE_NONBLOCK (1U << 0)

/**
 * struct krdma_ioc_message_queue - KRDMA_IOC_MESSAGE_QUEUE, read messages to an export
 * @size: sizeof(struct krdma_ioc_message_queue)
 * @flags: KRDMA_MESSAGE_QUEUE_NONBLOCK
 * @id: an export that has KRDMA_RIGHT_MESSAGE
 * @fd: out: the file, close-on-exec
 *
 * Each read(2) returns as many whole messages as are queued and fit, each a struct
 * krdma_message. It waits for one message; EMSGSIZE means that the first does not fit.
 * poll(2) reports POLLIN when there is a message. When the export has ended, the messages
 * that are left can still be read; after them comes the end of the file (0, POLLHUP).
 * io_uring reads the file like any other.
 *
 * All files of an export read the same queue, which has room for 256 messages; while it
 * is full, senders wait. Messages that are unread when the last file is closed stay for
 * the next file, as long as the export lives.
 */
struct krdma_ioc_message_queue {
	__u32 size;
	__u32 flags;
	__u32 id;
	__s32 fd;
};

/* The message follows a WRITE, whose bytes are in memory. */
#define KRDMA_MESSAGE_WRITTEN (1U << 0)

/**
 * struct krdma_message - a message, as read from a message queue
 * @size: bytes from here to the next message in the buffer, a multiple of 8
 * @length: bytes of the message; they follow the struct, and zeroes up to @size
 * @value: as the sender gave it
 * @session: serial of the sender's session on this host
 * @uid: user id of the sender, as its kernel asserts
 * @flags: KRDMA_MESSAGE_*
 * @peer: address of the sender's host
 * @region: number of the sender's region in its session; messages of one region keep
 *	their order
 * @reserved: 0
 */
struct krdma_message {
	__u32 size;
	__u32 length;
	__aligned_u64 value;
	__aligned_u64 session;
	__u32 uid;
	__u32 flags;
	struct krdma_sockaddr peer;
	__u32 region;
	__u32 reserved;
};

/* read(2) of the events does not wait, but fails with EAGAIN. */
#define KRDMA_MONITOR_NONBLOCK (1U << 0)

/**
 * struct krdma_ioc_monitor - KRDMA_IOC_MONITOR, read events
 * @size: sizeof(struct krdma_ioc_monitor)
 * @flags: KRDMA_MONITOR_NONBLOCK
 * @reserved: must be 0
 * @fd: out: the file, close-on-exec
 *
 * Each read(2) returns as many whole events as there are and fit, each a struct
 * krdma_monitor_event, in order. It waits for one event; EMSGSIZE means that the first does not
 * fit. poll(2) reports POLLIN when there is an event, and io_uring reads the file like any
 * other. Events are those from this call on.
 *
 * The file keeps the latest 256 events that were not read; @lost of an event says how many were
 * lost before it.
 *
 * A file tells of what KRDMA_IOC_LIST shows to its opener at this call: with CAP_NET_ADMIN in the
 * network namespace of sessions and exports of all users.
 *
 * EDQUOT: all users but root together may have 64 such files, and none more than are free.
 */
struct krdma_ioc_monitor {
	__u32 size;
	__u32 flags;
	__u32 reserved;
	__s32 fd;
};

/**
 * enum krdma_event_type - what has happened
 * @KRDMA_EVENT_SESSION_UP: a session has begun
 * @KRDMA_EVENT_SESSION_RESUMING: its connection is lost, and may come back
 * @KRDMA_EVENT_SESSION_RESUMED: it is back
 * @KRDMA_EVENT_SESSION_DRAINING: it ends when what is under way has ended
 * @KRDMA_EVENT_SESSION_ENDED: it has ended
 * @KRDMA_EVENT_PATH_UP: a path of a session has a channel that is up
 * @KRDMA_EVENT_PATH_LOST: it has none any more, and the session goes on
 * @KRDMA_EVENT_EXPORT_ADDED: an export of this host is published
 * @KRDMA_EVENT_EXPORT_ENDED: it is not any more
 * @KRDMA_EVENT_EXPORT_REVOKED: a session that has it open loses it
 * @KRDMA_EVENT_EXPORT_TAKEN_OVER: a session takes it over from others
 * @KRDMA_EVENT_REGION_REVOKED: the peer has taken an export back that is open here
 * @KRDMA_EVENT_LISTENER_UP: a listener accepts peers
 * @KRDMA_EVENT_LISTENER_WAITING: it has lost its device, and waits for one
 * @KRDMA_EVENT_LISTENER_CLOSED: it accepts no more sessions
 * @KRDMA_EVENT_LISTENER_ENDED: it is gone
 * @KRDMA_EVENT_DEVICE_ADDED: the module has found an RDMA device
 * @KRDMA_EVENT_DEVICE_REMOVED: an RDMA device is being removed
 */
enum krdma_event_type {
	KRDMA_EVENT_SESSION_UP = 1,
	KRDMA_EVENT_SESSION_RESUMING = 2,
	KRDMA_EVENT_SESSION_RESUMED = 3,
	KRDMA_EVENT_SESSION_DRAINING = 4,
	KRDMA_EVENT_SESSION_ENDED = 5,
	KRDMA_EVENT_PATH_UP = 6,
	KRDMA_EVENT_PATH_LOST = 7,
	KRDMA_EVENT_EXPORT_ADDED = 8,
	KRDMA_EVENT_EXPORT_ENDED = 9,
	KRDMA_EVENT_EXPORT_REVOKED = 10,
	KRDMA_EVENT_EXPORT_TAKEN_OVER = 11,
	KRDMA_EVENT_REGION_REVOKED = 12,
	KRDMA_EVENT_LISTENER_UP = 13,
	KRDMA_EVENT_LISTENER_WAITING = 14,
	KRDMA_EVENT_LISTENER_CLOSED = 15,
	KRDMA_EVENT_LISTENER_ENDED = 16,
	KRDMA_EVENT_DEVICE_ADDED = 17,
	KRDMA_EVENT_DEVICE_REMOVED = 18,
};

/**
 * struct krdma_monitor_event - an event, as read from the file of KRDMA_IOC_MONITOR
 * @size: bytes from here to the next event in the buffer, a multiple of 8
 * @type: enum krdma_event_type; a later kernel may have others
 * @time_ns: when, nanoseconds of CLOCK_REALTIME
 * @lost: events before this one that the file has lost
 * @session: serial of the session, 0 if it is about none
 * @uid: user of the session, or of the export
 * @status: of a session that has ended, a negative errno; else 0
 * @path: index of the path
 * @flags: KRDMA_SESSION_* of the session
 * @local: local address of the path, or address of the listener
 * @peer: address of the peer
 * @name: of the export; else of the RDMA device
 * @cause: why, a phrase; empty where there is nothing to say
 */
struct krdma_monitor_event {
	__u32 size;
	__u32 type;
	__aligned_u64 time_ns;
	__aligned_u64 lost;
	__aligned_u64 session;
	__u32 uid;
	__s32 status;
	__u32 path;
	__u32 flags;
	struct krdma_sockaddr local;
	struct krdma_sockaddr peer;
	char name[KRDMA_NAME_MAX];
	char cause[96];
};

/* Kinds of KRDMA_IOC_LIST. */
enum krdma_list_kind {
	KRDMA_LIST_DEVICES = 1,      /* struct krdma_device_info */
	KRDMA_LIST_LISTENERS = 2,    /* struct krdma_listener_info */
	KRDMA_LIST_SESSIONS = 3,     /* struct krdma_session_info */
	KRDMA_LIST_CHANNELS = 4,     /* struct krdma_channel_info */
	KRDMA_LIST_EXPORTS = 5,      /* struct krdma_export_info */
	KRDMA_LIST_REGIONS = 6,      /* struct krdma_region_info */
	KRDMA_LIST_TRANSFERS = 7,    /* struct krdma_transfer_info */
	KRDMA_LIST_PEER_EXPORTS = 8, /* struct krdma_peer_export_info */
	KRDMA_LIST_PATHS = 9,        /* struct krdma_path_info */
	KRDMA_LIST_ADDRESSES = 10,   /* struct krdma_sockaddr: where a peer can be reached */
	KRDMA_LIST_PREFIXES = 11,    /* struct krdma_prefix_info */
	KRDMA_LIST_LATENCIES = 12,   /* struct krdma_latency_info */
	KRDMA_LIST_GRANTS = 13,      /* struct krdma_grant_info */
};

/**
 * struct krdma_ioc_list - KRDMA_IOC_LIST, list objects
 * @size: sizeof(struct krdma_ioc_list)
 * @flags: must be 0
 * @kind: enum krdma_list_kind
 * @session: for KRDMA_LIST_PEER_EXPORTS and KRDMA_LIST_ADDRESSES the id of a session; for
 *	KRDMA_LIST_SESSIONS the id of the only session to list, or 0 for all sessions; 0 for
 *	other kinds
 * @entries: pointer to an array of the kind's struct
 * @stride: bytes from one entry to the next; a shorter struct than the
 *	kernel's gets its leading members, the tail of a longer one is zeroed
 * @count: in: room in @entries, for KRDMA_LIST_PEER_EXPORTS at least 12, for
 *	KRDMA_LIST_ADDRESSES 16; out: entries written
 * @cursor: in: 0 to begin, else the value of the last call; out: where to
 *	continue, 0 at the end
 *
 * If objects appear or end between two calls, some may be missing or listed twice.
 * A caller without CAP_NET_ADMIN in its network namespace sees only sessions,
 * channels, exports, regions and transfers of its own user id.
 */
struct krdma_ioc_list {
	__u32 size;
	__u32 flags;
	__u32 kind;
	__u32 session;
	__aligned_u64 entries;
	__u32 stride;
	__u32 count;
	__aligned_u64 cursor;
};

enum krdma_transport {
	KRDMA_TRANSPORT_INFINIBAND = 1,
	KRDMA_TRANSPORT_ROCE = 2,
	KRDMA_TRANSPORT_IWARP = 3,
};

/* The device and port can be used. Otherwise @reason names what is missing. */
#define KRDMA_DEVICE_USABLE (1U << 0)
/* A region that is opened to write must be readable as well (iWARP). */
#define KRDMA_DEVICE_READ_TO_WRITE (1U << 1)
/* The device has atomic operations. */
#define KRDMA_DEVICE_ATOMIC (1U << 2)
/* Atomic operations on memory of this host are atomic against its CPUs as well. */
#define KRDMA_DEVICE_ATOMIC_CPU (1U << 3)

/**
 * struct krdma_device_info - one GID of one port of one RDMA device
 * @name: name of the RDMA device
 * @netdev: its network device, empty if none
 * @gid: the GID, network byte order; holds the IP address on RoCE v2
 * @port: port number, from 1
 * @gid_index: index of the GID
 * @transport: enum krdma_transport
 * @flags: KRDMA_DEVICE_*
 * @gid_type: 0 InfiniBand or RoCE v1, 1 RoCE v2, as in sysfs gid_attrs/types;
 *	2 for iWARP
 * @max_segment_pages: pages that one key covers at most
 * @max_sge: scatter/gather entries of a WRITE
 * @max_sge_rd: the same for a READ
 * @reason: why the device can't be used, empty if it can
 */
struct krdma_device_info {
	char name[64];
	char netdev[16];
	__u8 gid[16];
	__u32 port;
	__u32 gid_index;
	__u32 transport;
	__u32 flags;
	__u32 gid_type;
	__u32 max_segment_pages;
	__u32 max_sge;
	__u32 max_sge_rd;
	char reason[96];
};

/* The listener has no RDMA device now, and waits for one; at the any-address, there is none. */
#define KRDMA_LISTENER_DOWN (1U << 0)
/* The listener ends with the file that made it. */
#define KRDMA_LISTENER_FILE (1U << 1)
/* The listener accepts no more sessions: KRDMA_UNLISTEN_CLOSE. */
#define KRDMA_LISTENER_CLOSED (1U << 2)

/**
 * struct krdma_listener_info - a listener of the caller's network namespace
 * @addr: local address
 * @flags: KRDMA_LISTENER_*
 * @sessions: live sessions that came through it
 * @accepted: sessions accepted so far
 * @refused: connects refused so far
 * @allow_count: prefixes in its allow-list, 0 if every peer is admitted
 * @reserved: 0
 */
struct krdma_listener_info {
	struct krdma_sockaddr addr;
	__u32 flags;
	__u32 sessions;
	__aligned_u64 accepted;
	__aligned_u64 refused;
	__u32 allow_count;
	__u32 reserved;
};

/**
 * struct krdma_prefix_info - a prefix of the allow-list of a listener
 * @listener: local address of the listener
 * @prefix: peers that it admits
 */
struct krdma_prefix_info {
	struct krdma_sockaddr listener;
	struct krdma_prefix prefix;
};

enum krdma_session_state {
	KRDMA_SESSION_CONNECTING = 1,
	KRDMA_SESSION_UP = 2,
	KRDMA_SESSION_CLOSING = 3,
	KRDMA_SESSION_DEAD = 4,
	KRDMA_SESSION_RESUMING = 5, /* its connection is lost, and may come back */
	KRDMA_SESSION_DRAINING = 6, /* it ends when what is under way has ended */
};

#define KRDMA_SESSION_PRIVATE   (1U << 0)
#define KRDMA_SESSION_INBOUND   (1U << 1) /* the peer connected */
#define KRDMA_SESSION_LINGERING (1U << 2) /* up, without a user */

/**
 * struct krdma_session_info - a session
 * @serial: number of the session on this host, never reused
 * @peer_incarnation: identity of the peer's load of the module
 * @local: local address
 * @peer: the peer's address
 * @state: enum krdma_session_state
 * @flags: KRDMA_SESSION_*
 * @uid: user on this host, or as the peer's kernel asserts (inbound)
 * @users: ids that hold it: ids of the session, and of regions in it
 * @in_flight: transfers under way
 * @waiting: transfers that wait to be posted
 * @regions: regions open on the peer
 * @grants: exports of this host that the peer has open
 * @segments: segments registered for the peer
 * @requests: control requests of this host that have no reply yet
 * @age_ms: milliseconds since it was made
 * @idle_ms: milliseconds since the last completion
 * @bytes_read: bytes read from the peer
 * @bytes_written: bytes written to the peer
 * @transfers: transfers that succeeded
 * @failures: transfers that failed
 * @device: RDMA device
 * @resume_s: seconds that it goes on when its connection is lost, or KRDMA_RESUME_ALWAYS
 * @keepalive_s: seconds after which a dead path is noticed
 * @away_ms: milliseconds since its connection was lost; 0 if it is not
 * @transfers_ns: nanoseconds that the transfers that succeeded took, from submission to end,
 *	added up
 * @served_read_bytes: bytes that READs of the peer have moved from exports of this host, as the
 *	peer reports
 * @served_written_bytes: the same of WRITEs to them
 * @served_reads: these READs
 * @served_writes: these WRITEs
 */
struct krdma_session_info {
	__aligned_u64 serial;
	__aligned_u64 peer_incarnation;
	struct krdma_sockaddr local;
	struct krdma_sockaddr peer;
	__u32 state;
	__u32 flags;
	__u32 uid;
	__u32 users;
	__u32 in_flight;
	__u32 waiting;
	__u32 regions;
	__u32 grants;
	__u32 segments;
	__u32 requests;
	__aligned_u64 age_ms;
	__aligned_u64 idle_ms;
	__aligned_u64 bytes_read;
	__aligned_u64 bytes_written;
	__aligned_u64 transfers;
	__aligned_u64 failures;
	char device[64];
	__u32 resume_s;
	__u32 keepalive_s;
	__aligned_u64 away_ms;
	__aligned_u64 transfers_ns;
	__aligned_u64 served_read_bytes;
	__aligned_u64 served_written_bytes;
	__aligned_u64 served_reads;
	__aligned_u64 served_writes;
};

/**
 * struct krdma_channel_info - a channel of a session
 * @session: serial of the session
 * @index: number of the channel in its session
 * @state: enum krdma_session_state
 * @qp_num: queue pair number
 * @port: port of the device
 * @slots: data work requests that fit the send queue
 * @slots_used: data work requests that are posted
 * @requests_max: control requests that may be under way (credits); 0: not on this channel
 * @requests: control requests under way
 * @bytes_read: bytes that READs have moved on it
 * @bytes_written: the same of WRITEs
 * @device: RDMA device
 * @path: its path, an index
 * @reserved: 0
 */
struct krdma_channel_info {
	__aligned_u64 session;
	__u32 index;
	__u32 state;
	__u32 qp_num;
	__u32 port;
	__u32 slots;
	__u32 slots_used;
	__u32 requests_max;
	__u32 requests;
	__aligned_u64 bytes_read;
	__aligned_u64 bytes_written;
	char device[64];
	__u32 path;
	__u32 reserved;
};

enum krdma_path_state {
	KRDMA_PATH_UP = 1,   /* at least one channel of the path is up */
	KRDMA_PATH_DOWN = 2, /* no channel of the path is up */
};

/**
 * struct krdma_path_info - a path of a session
 * @session: serial of the session
 * @index: number of the path in its session
 * @state: enum krdma_path_state
 * @channels: channels on it that are up
 * @under_way: operations under way on it
 * @losses: how often a channel on it was lost
 * @reserved: 0
 * @bytes_read: bytes that READs have moved on its channels
 * @bytes_written: the same of WRITEs
 * @transfers: operations that succeeded
 * @failures: operations that failed
 * @local: local address; all zero: it was not connected so far
 * @peer: address of the peer
 * @device: RDMA device
 * @transfers_ns: nanoseconds that the operations that succeeded took, added up
 *
 * The first channel, which has no path of its own, counts where it is now.
 */
struct krdma_path_info {
	__aligned_u64 session;
	__u32 index;
	__u32 state;
	__u32 channels;
	__u32 under_way;
	__u32 losses;
	__u32 reserved;
	__aligned_u64 bytes_read;
	__aligned_u64 bytes_written;
	__aligned_u64 transfers;
	__aligned_u64 failures;
	struct krdma_sockaddr local;
	struct krdma_sockaddr peer;
	char device[64];
	__aligned_u64 transfers_ns;
};

/**
 * struct krdma_export_info - an export of this host
 * @length: bytes
 * @pinned_bytes: bytes pinned for it now
 * @rights: KRDMA_RIGHT_*
 * @flags: KRDMA_EXPORT_*
 * @uid: user that made it
 * @grants: sessions that have it open
 * @segments: segments registered
 * @max_segments: most segments registered at a time
 * @recalls: segments recalled so far because of that limit
 * @name: name
 * @messages: messages in the message queue
 * @senders_waiting: sessions and regions that wait for room in the message queue
 * @held: segments that peers hold: they are not recalled
 * @exclusive: grants that are exclusive: 1 at most if they can change the memory
 * @served_read_bytes: bytes that READs of peers have moved from it, as they report
 * @served_written_bytes: the same of WRITEs to it
 * @served_reads: these READs
 * @served_writes: these WRITEs
 */
struct krdma_export_info {
	__aligned_u64 length;
	__aligned_u64 pinned_bytes;
	__u32 rights;
	__u32 flags;
	__u32 uid;
	__u32 grants;
	__u32 segments;
	__u32 max_segments;
	__aligned_u64 recalls;
	char name[KRDMA_NAME_MAX];
	__u32 messages;
	__u32 senders_waiting;
	__u32 held;
	__u32 exclusive;
	__aligned_u64 served_read_bytes;
	__aligned_u64 served_written_bytes;
	__aligned_u64 served_reads;
	__aligned_u64 served_writes;
};

/* The export was revoked or the session lost: operations fail. */
#define KRDMA_REGION_STALE (1U << 0)
/* It was opened with KRDMA_OPEN_HELD, with KRDMA_OPEN_EXCLUSIVE. */
#define KRDMA_REGION_HELD      (1U << 1)
#define KRDMA_REGION_EXCLUSIVE (1U << 2)

/**
 * struct krdma_region_info - a region: a peer's export opened here
 * @session: serial of the session
 * @length: bytes
 * @segment_size: bytes that one key covers
 * @rights: KRDMA_RIGHT_*
 * @flags: KRDMA_REGION_*
 * @uid: user that opened it
 * @keys: segments whose key is cached
 * @generation: generation of the grant
 * @reserved: 0
 * @name: name of the export
 */
struct krdma_region_info {
	__aligned_u64 session;
	__aligned_u64 length;
	__aligned_u64 segment_size;
	__u32 rights;
	__u32 flags;
	__u32 uid;
	__u32 keys;
	__u32 generation;
	__u32 reserved;
	char name[KRDMA_NAME_MAX];
};

/* What an unfinished transfer waits for. */
enum krdma_wait {
	KRDMA_WAIT_SLOT = 1,     /* a free slot of the send queue */
	KRDMA_WAIT_KEY = 2,      /* the peer's reply with a key */
	KRDMA_WAIT_CREDIT = 3,   /* a credit to request a key */
	KRDMA_WAIT_WIRE = 4,     /* completions of posted work requests */
	KRDMA_WAIT_TURN = 6,     /* earlier operations: KRDMA_OPF_AFTER */
	KRDMA_WAIT_DIGEST = 7,   /* the peer's reply with a digest, or to a flush */
	KRDMA_WAIT_RECEIVER = 8, /* a credit for its message, or the reply to the message */
	KRDMA_WAIT_FENCE = 9,    /* a lost channel: until it is made anew, bytes may still arrive */
};

/**
 * struct krdma_transfer_info - an unfinished transfer
 * @session: serial of the session
 * @user_data: of the operation
 * @offset: first byte in the region
 * @length: bytes to move
 * @posted: bytes posted so far
 * @done: bytes completed so far
 * @age_ms: milliseconds since submission
 * @wait_ms: milliseconds since it began to wait for @wait
 * @opcode: enum krdma_opcode
 * @wait: enum krdma_wait
 * @uid: user
 * @pid: process, in the initial pid namespace
 * @name: name of the export
 */
struct krdma_transfer_info {
	__aligned_u64 session;
	__aligned_u64 user_data;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 posted;
	__aligned_u64 done;
	__aligned_u64 age_ms;
	__aligned_u64 wait_ms;
	__u32 opcode;
	__u32 wait;
	__u32 uid;
	__u32 pid;
	char name[KRDMA_NAME_MAX];
};

/**
 * struct krdma_peer_export_info - an export that a peer publishes
 * @length: bytes
 * @rights: KRDMA_RIGHT_*
 * @reserved: 0
 * @name: name
 */
struct krdma_peer_export_info {
	__aligned_u64 length;
	__u32 rights;
	__u32 reserved;
	char name[KRDMA_NAME_MAX];
};

/* The export has ended, or is taken over, and the peer has not given it back yet. */
#define KRDMA_GRANT_REVOKED (1U << 0)
/* The peer opened it with KRDMA_OPEN_HELD, with KRDMA_OPEN_EXCLUSIVE. */
#define KRDMA_GRANT_HELD      (1U << 1)
#define KRDMA_GRANT_EXCLUSIVE (1U << 2)

/**
 * struct krdma_grant_info - an export of this host that a session has open
 * @session: serial of the session
 * @peer: address of the peer
 * @uid: user of the session, as the peer's kernel asserts
 * @rights: KRDMA_RIGHT_*
 * @flags: KRDMA_GRANT_*
 * @segments: segments registered
 * @grant: number of the grant in its session
 * @generation: of the grant: no two grants of a session have the same number and generation
 * @read_bytes: bytes that READs of the peer have moved from it, as the peer reports
 * @written_bytes: the same of WRITEs to it
 * @reads: these READs
 * @writes: these WRITEs
 * @name: of the export
 *
 * Shown to those who see the export. The processors of this host see no READ and no WRITE: the
 * peer reports them every 2 s at best, and when it closes the export.
 */
struct krdma_grant_info {
	__aligned_u64 session;
	struct krdma_sockaddr peer;
	__u32 uid;
	__u32 rights;
	__u32 flags;
	__u32 segments;
	__u32 grant;
	__u32 generation;
	__aligned_u64 read_bytes;
	__aligned_u64 written_bytes;
	__aligned_u64 reads;
	__aligned_u64 writes;
	char name[KRDMA_NAME_MAX];
};

/* Counters of a struct krdma_latency_info. */
#define KRDMA_LATENCY_BUCKETS 26
/* The first counter has operations that took up to 2^KRDMA_LATENCY_SHIFT ns. */
#define KRDMA_LATENCY_SHIFT 10

/**
 * struct krdma_latency_info - how long operations of one size took on one device
 * @device: RDMA device
 * @opcode: enum krdma_opcode
 * @reserved: 0
 * @length_max: the operations had up to so many bytes, and more than the next shorter size; 0:
 *	more than the longest size
 * @sum_ns: nanoseconds that they took, added up
 * @counts: operations by time: counts[i] has those that took up to
 *	2^(KRDMA_LATENCY_SHIFT + i) ns and are in no earlier counter; the last counter has the
 *	rest
 *
 * Operations of this host that succeeded, from submission to end, since the device appeared,
 * whoever made them. Sizes are powers of two from 64 bytes to 16 MiB. A size without an operation
 * is not listed.
 */
struct krdma_latency_info {
	char device[64];
	__u32 opcode;
	__u32 reserved;
	__aligned_u64 length_max;
	__aligned_u64 sum_ns;
	__aligned_u64 counts[KRDMA_LATENCY_BUCKETS];
};

#define KRDMA_IOC_QUERY      _IO(KRDMA_IOC_TYPE, 0x00)
#define KRDMA_IOC_LAST_ERROR _IO(KRDMA_IOC_TYPE, 0x01)
#define KRDMA_IOC_DESTROY    _IO(KRDMA_IOC_TYPE, 0x02)
#define KRDMA_IOC_LIST       _IO(KRDMA_IOC_TYPE, 0x03)
#define KRDMA_IOC_MONITOR    _IO(KRDMA_IOC_TYPE, 0x04)
#define KRDMA_IOC_LISTEN     _IO(KRDMA_IOC_TYPE, 0x10)
#define KRDMA_IOC_UNLISTEN   _IO(KRDMA_IOC_TYPE, 0x11)
#define KRDMA_IOC_CONNECT    _IO(KRDMA_IOC_TYPE, 0x12)
#define KRDMA_IOC_PING       _IO(KRDMA_IOC_TYPE, 0x13)
#define KRDMA_IOC_DISCONNECT _IO(KRDMA_IOC_TYPE, 0x14)
#define KRDMA_IOC_CONNECTED  _IO(KRDMA_IOC_TYPE, 0x15)
#define KRDMA_IOC_BUFFER     _IO(KRDMA_IOC_TYPE, 0x20)
#define KRDMA_IOC_EXPORT     _IO(KRDMA_IOC_TYPE, 0x21)
#define KRDMA_IOC_OPEN       _IO(KRDMA_IOC_TYPE, 0x22)
#define KRDMA_IOC_SUBMIT     _IO(KRDMA_IOC_TYPE, 0x30)
/* 0x31 is KRDMA_URING_OP */
#define KRDMA_IOC_CANCEL        _IO(KRDMA_IOC_TYPE, 0x32)
#define KRDMA_IOC_EVENTFD       _IO(KRDMA_IOC_TYPE, 0x33)
#define KRDMA_IOC_MESSAGE_QUEUE _IO(KRDMA_IOC_TYPE, 0x34)
#define KRDMA_IOC_EXPORT_GROW   _IO(KRDMA_IOC_TYPE, 0x23)

#endif /* _UAPI_KRDMA_MOVER_H */
