/* SPDX-License-Identifier: GPL-2.0 */
/* krdma_blk: disks in the memory of other hosts, on include/linux/krdma_mover.h alone. */
#ifndef KRDMA_BLK_H
#define KRDMA_BLK_H

#include <linux/blk-mq.h>
#include <linux/krdma_mover.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <uapi/linux/krdma_blk.h>

struct krdma_flusher;
struct net;

/* Of a request that consists of several bios. A request of one bio uses the array of the bio. */
#define KRDMA_DISK_BVECS 128

/* Requests that are to be submitted, or completed, at once. */
struct krdma_disk_queue {
	spinlock_t lock; /* ->batch, ->polled */
	struct list_head batch;
	struct list_head polled; /* have ended; completed by their submitter, which polls */
} ____cacheline_aligned_in_smp;

struct krdma_disk {
	struct list_head node; /* of krdma_disks, by index; krdma_disks_lock */
	u32 index;
	bool attached;     /* it may be detached; krdma_disks_lock */
	bool going;        /* somebody detaches it; krdma_disks_lock */
	bool resizing;     /* somebody resizes it: nobody detaches it; the same */
	bool dead;         /* no request is submitted any more */
	struct mutex lock; /* ->added, and what an event does */
	bool added;
	enum krdma_event happened; /* 0: it is live */
	bool resuming;             /* so is its session */
	struct work_struct keeps;  /* the device keeps pages: it is lost */
	struct work_struct reaps;  /* polled requests are completed: it is dead, or has flushed */
	struct gendisk *disk;
	struct blk_mq_tag_set tags;
	struct krdma_client *client;
	struct krdma_session_handle *session;
	struct krdma_region_handle *region;
	struct krdma_limits limits;
	struct krdma_flusher *flusher; /* NULL: the memory is volatile, or not written */
	ktime_t timeout;
	ktime_t fast_timeout; /* of a request that is to fail fast: without the time to resume */
	struct sockaddr_storage dst;
	struct krdma_blk_attach param;
	struct krdma_disk_queue queues[2 * KRDMA_BLK_QUEUES_MAX]; /* the last are polled */
};

/* disk.c */
int krdma_disk_attach(struct net *net, struct krdma_blk_attach *cmd, __u32 __user *number);
int krdma_disk_detach(u32 disk, bool force);
int krdma_disk_resize(u32 disk, u64 *bytes);
u32 krdma_disk_next(u32 first, struct krdma_blk_info *info);
void krdma_disks_detach(void);

extern struct workqueue_struct *krdma_blk_wq;

/* queue.c: its requests */
int krdma_disk_queues_alloc(struct krdma_disk *kd);
void krdma_disk_queues_flush(struct krdma_disk *kd);
void krdma_disk_reaps(struct work_struct *work);

/* flush.c: the write cache of a disk in durable memory */
struct krdma_flusher *krdma_flusher_new(struct krdma_region_handle *region, u64 bytes,
					ktime_t timeout, bool shared);
void krdma_flusher_free(struct krdma_flusher *flusher);
void krdma_flusher_kill(struct krdma_flusher *flusher);
void krdma_flusher_written(struct krdma_flusher *flusher, u64 offset, u64 length);
void krdma_flusher_flush(struct krdma_flusher *flusher, struct krdma_io *io);

#endif /* KRDMA_BLK_H */
