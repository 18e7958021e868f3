/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * krdma_blk - disks in the memory of other hosts
 *
 * The ioctl interface of /dev/krdma_blk. The rules of <linux/krdma_mover.h> hold: the first
 * member of each struct is its size as the caller knows it, what is unknown or reserved must be
 * zero, and the errors are the same. Every call needs CAP_SYS_ADMIN.
 */
#ifndef _UAPI_KRDMA_BLK_H
#define _UAPI_KRDMA_BLK_H

#include <linux/krdma_mover.h>

/* Most requests of a queue under way at a time. */
#define KRDMA_BLK_DEPTH_MAX 1024
/* Most queues of a disk, and most queues for polled requests. */
#define KRDMA_BLK_QUEUES_MAX 64
/* Most seconds of krdma_blk_attach.timeout_s. */
#define KRDMA_BLK_TIMEOUT_MAX 86400

/* The disk can't be written, even if the export can. */
#define KRDMA_BLK_READ_ONLY (1U << 0)
/* The disk has a session of its own, and is lost with its connection. */
#define KRDMA_BLK_FAIL_FAST (1U << 1)
/*
 * Others may write to the export as well. Without this the target lets nobody else open it to
 * write, nor lets this one if somebody has; a disk with KRDMA_BLK_READ_ONLY is always shared.
 */
#define KRDMA_BLK_SHARED (1U << 2)
/* Other regions that can write, or are exclusive, are revoked. Not with KRDMA_BLK_SHARED. */
#define KRDMA_BLK_TAKEOVER (1U << 3)
/* The target may take keys back, and need not have the memory before it is used. */
#define KRDMA_BLK_NOT_HELD (1U << 4)

/**
 * struct krdma_blk_attach - KRDMA_BLK_ATTACH, make a disk of a peer's export
 * @size: sizeof(struct)
 * @flags: KRDMA_BLK_*
 * @dst: the peer; port 0 stands for 7471
 * @src: local address, or all zero for any
 * @name: of the export
 * @block_size: bytes of a logical block, a power of two from 512 to the size of a page;
 *	0 for 512
 * @queues: hardware queues, as far as there are processors; 0 for one for each, 8 at most
 * @depth: requests of a queue; 0 for 128
 * @timeout_s: deadline of a request, beside the time of @resume_s; 0 for 30
 * @resume_s: how long the disk waits for a connection that is lost, up to KRDMA_RESUME_MAX, or
 *	KRDMA_RESUME_ALWAYS; the peer may allow less. 0 for the parameter resume of
 *	krdma_mover
 * @keepalive_s: seconds after which a dead path is noticed; 0 for the parameter keepalive of
 *	krdma_mover
 * @poll_queues: further hardware queues, for requests that are polled for, as far as there are
 *	processors; 0: no request can be
 * @disk: out: number of the disk, as in /dev/krdmab0
 * @policy: enum krdma_path_policy; of no effect with one path
 * @npaths: paths beside the one from @src to @dst, up to KRDMA_PATHS_MAX - 1
 * @paths: these; the others all zero
 *
 * An export that can't be written is a disk that can't be written. The bytes behind the last
 * whole block of the export are not in the disk.
 *
 * Errors: those of KRDMA_IOC_CONNECT and KRDMA_IOC_OPEN, of which EBUSY and EDQUOT are about
 * KRDMA_BLK_SHARED and KRDMA_BLK_NOT_HELD; EINVAL; EACCES, if the export can't be read; ENOSPC, if
 * it has less than one block; EOPNOTSUPP, if the peer's segments are smaller than a block;
 * ECANCELED, if it was detached by force meanwhile.
 */
struct krdma_blk_attach {
	__u32 size;
	__u32 flags;
	struct krdma_sockaddr dst;
	struct krdma_sockaddr src;
	char name[KRDMA_NAME_MAX];
	__u32 block_size;
	__u32 queues;
	__u32 depth;
	__u32 timeout_s;
	__u32 resume_s;
	__u32 keepalive_s;
	__u32 poll_queues;
	__u32 disk;
	__u32 policy;
	__u32 npaths;
	struct krdma_path_addr paths[KRDMA_PATHS_MAX - 1];
};

/* Although it is in use: requests under way end with an error, and so do later ones. */
#define KRDMA_BLK_FORCE (1U << 0)

/**
 * struct krdma_blk_detach - KRDMA_BLK_DETACH, remove a disk
 * @size: sizeof(struct)
 * @flags: KRDMA_BLK_FORCE
 * @disk: number of the disk
 * @reserved: 0
 *
 * Errors: ENOENT; EBUSY, if the disk is open, mounted for example; or if it is being attached,
 * detached or resized by another call. KRDMA_BLK_FORCE ends its requests all the same, and the call
 * that attaches or resizes it removes it.
 */
struct krdma_blk_detach {
	__u32 size;
	__u32 flags;
	__u32 disk;
	__u32 reserved;
};

/**
 * struct krdma_blk_resize - KRDMA_BLK_RESIZE, have a disk as large as its export
 * @size: sizeof(struct)
 * @flags: 0
 * @disk: number of the disk
 * @reserved: 0
 * @bytes: out: its size
 *
 * For an export that has grown (KRDMA_IOC_EXPORT_GROW). Requests go on meanwhile. When this returns
 * 0, the new memory is set aside like the rest. After a failure the disk is as large as before, and
 * this may be called again; what could be set aside stays so until the disk is detached.
 *
 * Errors: ENOENT; EBUSY, if the disk is being attached, detached or resized by another call;
 * ESTALE or ENOTCONN, if it is lost; EOPNOTSUPP, if the length that it has of the export is not a
 * multiple of the peer's segments, if the memory is durable, or the peer's module is an older one;
 * EDQUOT and ENOMEM, if the memory can't be set aside; ETIMEDOUT; ECANCELED, if it was detached
 * by force meanwhile.
 */
struct krdma_blk_resize {
	__u32 size;
	__u32 flags;
	__u32 disk;
	__u32 reserved;
	__u64 bytes;
};

/**
 * enum krdma_blk_state - what has become of a disk
 * @KRDMA_BLK_LIVE: it is in use, or can be
 * @KRDMA_BLK_LOST: its session has ended; all requests fail until it is detached
 * @KRDMA_BLK_REVOKED: the peer has ended the export; likewise
 * @KRDMA_BLK_ATTACHING: KRDMA_BLK_ATTACH reads its partitions
 * @KRDMA_BLK_DETACHING: KRDMA_BLK_DETACH waits for its requests
 * @KRDMA_BLK_RESUMING: the first connection of its session is lost: its requests go over other
 *	paths, or wait
 */
enum krdma_blk_state {
	KRDMA_BLK_LIVE = 0,
	KRDMA_BLK_LOST = 1,
	KRDMA_BLK_REVOKED = 2,
	KRDMA_BLK_ATTACHING = 3,
	KRDMA_BLK_DETACHING = 4,
	KRDMA_BLK_RESUMING = 5,
};

/**
 * struct krdma_blk_info - a disk
 * @disk: its number
 * @state: enum krdma_blk_state
 * @flags: KRDMA_BLK_*; KRDMA_BLK_READ_ONLY also if the export can't be written
 * @openers: how often it is open
 * @bytes: its size
 * @block_size: bytes of a logical block
 * @queues: hardware queues
 * @depth: requests of a queue
 * @poll_queues: hardware queues for requests that are polled for
 * @dst: the peer
 * @name: of the export
 * @timeout_s: as of struct krdma_blk_attach, as are the others
 * @resume_s: the same; 0 is the parameter of krdma_mover
 * @keepalive_s: the same
 * @policy: enum krdma_path_policy
 * @npaths: paths in @paths
 * @reserved2: 0
 * @paths: those beside the first
 */
struct krdma_blk_info {
	__u32 disk;
	__u32 state;
	__u32 flags;
	__u32 openers;
	__u64 bytes;
	__u32 block_size;
	__u32 queues;
	__u32 depth;
	__u32 poll_queues;
	struct krdma_sockaddr dst;
	char name[KRDMA_NAME_MAX];
	__u32 timeout_s;
	__u32 resume_s;
	__u32 keepalive_s;
	__u32 policy;
	__u32 npaths;
	__u32 reserved2;
	struct krdma_path_addr paths[KRDMA_PATHS_MAX - 1];
};

/**
 * struct krdma_blk_list - KRDMA_BLK_LIST, list disks
 * @size: sizeof(struct)
 * @flags: 0
 * @first: smallest number to be listed
 * @count: in: room for so many; out: so many are there
 * @infos: the array of struct krdma_blk_info
 * @stride: sizeof(struct krdma_blk_info) as the caller knows it; more is zeroed, and less
 *	cut off
 * @next: out: @first of the next call; 0 if there are no more
 *
 * In the order of their numbers. Disks of all network namespaces.
 */
struct krdma_blk_list {
	__u32 size;
	__u32 flags;
	__u32 first;
	__u32 count;
	__u64 infos;
	__u32 stride;
	__u32 next;
};

#define KRDMA_BLK_ATTACH _IO(KRDMA_IOC_TYPE, 0x80)
#define KRDMA_BLK_DETACH _IO(KRDMA_IOC_TYPE, 0x81)
#define KRDMA_BLK_LIST   _IO(KRDMA_IOC_TYPE, 0x82)
#define KRDMA_BLK_RESIZE _IO(KRDMA_IOC_TYPE, 0x83)

#endif /* _UAPI_KRDMA_BLK_H */
