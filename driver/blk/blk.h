/* SPDX-License-Identifier: GPL-2.0 */
/* krdma_blk: disks in the memory of other hosts, on include/linux/krdma_mover.h alone. */
#ifndef KRDMA_BLK_H
#define KRDMA_BLK_H

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/types.h>
#include <uapi/linux/krdma_blk.h>

struct krdma_flusher;
struct krdma_io;
struct krdma_region_handle;
struct net;

/* disk.c */
int krdma_disk_attach(struct net *net, struct krdma_blk_attach *cmd, __u32 __user *number);
int krdma_disk_detach(u32 disk, bool force);
u32 krdma_disk_next(u32 first, struct krdma_blk_info *info);
void krdma_disks_detach(void);

/* flush.c: the write cache of a disk in durable memory */
struct krdma_flusher *krdma_flusher_new(struct krdma_region_handle *region, u64 bytes,
					ktime_t timeout);
void krdma_flusher_free(struct krdma_flusher *flusher);
void krdma_flusher_kill(struct krdma_flusher *flusher);
void krdma_flusher_written(struct krdma_flusher *flusher, u64 offset, u64 length);
void krdma_flusher_flush(struct krdma_flusher *flusher, struct krdma_io *io);

#endif /* KRDMA_BLK_H */
