/* SPDX-License-Identifier: GPL-2.0 */
/* RDMA devices; part of rdma.h. */
#ifndef KRDMA_DEVICE_H
#define KRDMA_DEVICE_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

#include "mem/mem.h"
#include "rdma/quirks.h"

struct krdma_channel;

/* One RDMA device, as an ib_client sees it. */
struct krdma_device {
	struct ib_device *ib;
	struct list_head node;  /* krdma_devices */
	refcount_t refs;        /* 1 for the ib_client, 1 for each path, channel or walk */
	struct completion gone; /* refs is 0 */
	atomic_t beginning;     /* channels that are being connected on it */
	struct mutex goodbye;   /* policy.lone_mads: one DREQ or DREP at a time */
	bool removing;          /* krdma_devices_lock */
	const char *unusable;   /* a phrase, or NULL */
	struct krdma_policy policy;
	u32 segment_shift;
	struct krdma_dma_device dma;
};

/* Devices come and go: what the floor above does then; process context. */
struct krdma_device_ops {
	void (*added)(void);
	/* Returns when nobody begins to use it any more; what uses it ends, or will. */
	void (*removed)(struct krdma_device *dev);
};

/* device.c */
extern struct mutex krdma_devices_lock;
extern struct list_head krdma_devices;
int krdma_device_init(const struct krdma_device_ops *ops);
void krdma_device_exit(void);
bool krdma_device_attach(struct ib_device *ib, struct krdma_channel *ch);
struct krdma_device *krdma_device_next(struct krdma_device *dev);
void krdma_device_put(struct krdma_device *dev);
u64 krdma_devices_segment(void);
const char *krdma_device_unusable(struct krdma_device *dev, u32 port, struct ib_port_attr *attr);

#endif /* KRDMA_DEVICE_H */
