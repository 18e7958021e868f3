/* SPDX-License-Identifier: GPL-2.0 */
/* krdma_blk: disks in the memory of other hosts, on include/linux/krdma_mover.h alone. */
#ifndef KRDMA_BLK_H
#define KRDMA_BLK_H

#include <linux/list.h>
#include <linux/types.h>
#include <uapi/linux/krdma_blk.h>

struct net;

int krdma_disk_attach(struct net *net, struct krdma_blk_attach *cmd);
int krdma_disk_detach(u32 disk, bool force);
u32 krdma_disk_next(u32 first, struct krdma_blk_info *info);
void krdma_disks_detach(void);

#endif /* KRDMA_BLK_H */
