/* SPDX-License-Identifier: GPL-2.0 */
/* RDMA devices; part of rdma.h. */
#ifndef KRDMA_DEVICE_H
#define KRDMA_DEVICE_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

#include "mem/mem.h"
#include "rdma/quirks.h"

struct krdma_channel;

/* Operations are counted by powers of two of their bytes, and of their nanoseconds. */
#define KRDMA_LATENCY_SIZES    20
#define KRDMA_LATENCY_SIZE_LOW 6
#define KRDMA_LATENCY_OPCODES  KRDMA_OP_FLUSH

/* How long operations took, as one processor has counted them: by opcode, less 1, and size. */
struct krdma_latencies {
	struct krdma_latency {
		u64 sum_ns;
		u64 counts[KRDMA_LATENCY_BUCKETS];
	} of[KRDMA_LATENCY_OPCODES][KRDMA_LATENCY_SIZES];
};

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
	u32 refused; /* KRDMA_RIGHT_* of the policy that the device has refused to register for */
	u32 segment_shift;
	struct krdma_dma_device dma;
	struct krdma_latencies __percpu *latencies; /* NULL: not counted so far */
};

/* KRDMA_RIGHT_* that a new session has on a device. */
static inline u32 krdma_device_rights(const struct krdma_device *dev)
{
	return dev->policy.rights & ~READ_ONCE(dev->refused);
}

/* Devices come and go: what the floor above does then; process context. */
struct krdma_device_ops {
	void (*added)(void);
	/* Returns when nobody begins to use it any more; what uses it ends, or will. */
	void (*removed)(struct krdma_device *dev);
};

/**
 * krdma_latency_count - count an operation that has succeeded
 * @dev: device that it went over
 * @opcode: enum krdma_opcode
 * @length: its bytes
 * @took_ns: how long it took, at least 1
 *
 * Nothing that another processor writes.
 *
 * Context: any.
 */
static inline void krdma_latency_count(struct krdma_device *dev, u8 opcode, u64 length, u64 took_ns)
{
	/* A bit that is always set puts all that is less into the lowest size and time. */
	u32 size = fls64((length - !!length) | BIT(KRDMA_LATENCY_SIZE_LOW - 1));
	u32 time = fls64((took_ns - 1) | BIT(KRDMA_LATENCY_SHIFT - 1));
	struct krdma_latencies __percpu *latencies = READ_ONCE(dev->latencies);
	struct krdma_latency __percpu *l;

	if (unlikely(!latencies))
		return;
	size = min(size - KRDMA_LATENCY_SIZE_LOW, KRDMA_LATENCY_SIZES - 1U);
	time = min(time - KRDMA_LATENCY_SHIFT, KRDMA_LATENCY_BUCKETS - 1U);
	l = &latencies->of[opcode - 1][size];
	this_cpu_add(l->sum_ns, took_ns);
	this_cpu_inc(l->counts[time]);
}

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
void krdma_device_measure(struct krdma_device *dev);
bool krdma_device_latency(const struct krdma_device *dev, u32 opcode, u32 size,
			  struct krdma_latency_info *info);

#endif /* KRDMA_DEVICE_H */
