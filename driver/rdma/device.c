// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA devices: an ib_client.
 *
 * Removal: the device is marked, its sessions are ended or go on without it, and .remove waits
 * until the last of them has let go; then no mapping of it is in use, and those
 * of registered buffers are undone. rdma_cm hears of the removal after us, so
 * that only listeners are left for it.
 */
#include <linux/slab.h>

#include "event.h"
#include "rdma/rdma.h"

DEFINE_MUTEX(krdma_devices_lock); /* list of devices, their mappings, and which of them go */
LIST_HEAD(krdma_devices);

static const struct krdma_device_ops *krdma_device_ops;
static struct ib_client krdma_client;

static void krdma_device_event(struct krdma_device *dev, u32 type)
{
	const struct krdma_event_scope scope = { .ib = dev->ib };
	struct krdma_monitor_event event = { .type = type };

	strscpy(event.name, dev_name(&dev->ib->dev), sizeof(event.name));
	strscpy(event.cause, dev->unusable ?: "", sizeof(event.cause));
	krdma_event_post(&event, &scope);
}

/**
 * krdma_device_unusable - why a port can't be used
 * @dev: the device
 * @port: its port, from 1
 * @attr: out: of the port, if it can be used
 *
 * Context: process.
 * Return: a phrase, NULL if it can be used
 */
const char *krdma_device_unusable(struct krdma_device *dev, u32 port, struct ib_port_attr *attr)
{
	struct ib_device *ib = dev->ib;

	if (dev->unusable)
		return dev->unusable;
	if (!rdma_cap_ib_cm(ib, port) && !rdma_cap_iw_cm(ib, port))
		return "no connection manager on this port";
	if (krdma_inject(ib_query_port(ib, port, attr), -EIO))
		return "the port can't be queried";
	if (attr->state != IB_PORT_ACTIVE)
		return "the port is not active";
	return NULL;
}

static int krdma_device_add(struct ib_device *ib)
{
	struct krdma_device *dev;

	dev = krdma_inject(kzalloc(sizeof(*dev), GFP_KERNEL), NULL);
	if (!dev) {
		/* ib_core says nothing. */
		pr_err("krdma_mover: no memory for %s: it is not used\n", dev_name(&ib->dev));
		return -ENOMEM;
	}

	dev->ib = ib;
	refcount_set(&dev->refs, 1);
	mutex_init(&dev->goodbye);
	init_completion(&dev->gone);
	krdma_dma_device_init(&dev->dma, ib);
	dev->unusable = krdma_device_policy(ib->ops.driver_id, &ib->attrs, PAGE_SIZE, &dev->policy);
	if (!ib->kverbs_provider)
		dev->unusable = "its driver has no verbs for the kernel";
	dev->segment_shift = PAGE_SHIFT + ilog2(dev->policy.segment_pages);

	mutex_lock(&krdma_devices_lock);
	list_add_tail(&dev->node, &krdma_devices);
	mutex_unlock(&krdma_devices_lock);

	ib_set_client_data(ib, &krdma_client, dev);
	krdma_device_event(dev, KRDMA_EVENT_DEVICE_ADDED);
	krdma_device_ops->added();
	return 0;
}

static void krdma_device_remove(struct ib_device *ib, void *data)
{
	struct krdma_device *dev = data;

	mutex_lock(&krdma_devices_lock);
	dev->removing = true;
	mutex_unlock(&krdma_devices_lock);

	krdma_device_event(dev, KRDMA_EVENT_DEVICE_REMOVED);
	krdma_device_ops->removed(dev);
	krdma_device_put(dev);
	wait_for_completion(&dev->gone);

	/* ORDER: no channel, so nothing is posted: nothing uses the mappings. */
	krdma_mem_unmap_device(&dev->dma);

	mutex_lock(&krdma_devices_lock);
	list_del(&dev->node);
	mutex_unlock(&krdma_devices_lock);
	free_percpu(dev->latencies);
	kfree(dev);
}

static struct ib_client krdma_client = {
	.name = "krdma_mover",
	.add = krdma_device_add,
	.remove = krdma_device_remove,
	/* To say of a device that it can't be used, and why. */
	.no_kverbs_req = true,
};

/**
 * krdma_device_attach - let a channel use a device
 * @ib: the device
 * @ch: the channel; ->dev is set, with a reference, and that of the path if it has none
 *
 * Set under the lock under which a removal begins, so that either the removal
 * finds the session or the session finds the device gone.
 *
 * Context: process.
 * Return: false if the device is unknown or going, or not that of the path
 */
bool krdma_device_attach(struct ib_device *ib, struct krdma_channel *ch)
{
	struct krdma_path *path = ch->path;
	struct krdma_device *dev;

	mutex_lock(&krdma_devices_lock);
	list_for_each_entry(dev, &krdma_devices, node) {
		if (dev->ib == ib && !dev->removing && (!path->dev || path->dev == dev)) {
			refcount_inc(&dev->refs);
			if (!path->dev) {
				refcount_inc(&dev->refs);
				WRITE_ONCE(path->dev, dev);
				strscpy(path->device, dev_name(&ib->dev), sizeof(path->device));
			}
			atomic_inc(&dev->beginning);
			ch->attached = true;
			krdma_channel_lock(ch);
			WRITE_ONCE(ch->dev, dev);
			krdma_channel_unlock(ch);
			break;
		}
	}
	mutex_unlock(&krdma_devices_lock);
	return ch->attached;
}

/**
 * krdma_device_next - the next of all devices
 * @dev: the one before, with a reference, which is dropped; NULL for the first
 *
 * A removal waits until all references are dropped, and takes the device off the list after
 * that. So nothing is locked while a device is looked at: its driver may be slow, and a
 * connect request must not wait for it.
 *
 * Context: process.
 * Return: one that does not go, with a reference; NULL behind the last
 */
struct krdma_device *krdma_device_next(struct krdma_device *dev)
{
	struct krdma_device *next, *found = NULL;

	mutex_lock(&krdma_devices_lock);
	next = list_prepare_entry(dev, &krdma_devices, node);
	list_for_each_entry_continue(next, &krdma_devices, node) {
		if (next->removing)
			continue;
		refcount_inc(&next->refs);
		found = next;
		break;
	}
	mutex_unlock(&krdma_devices_lock);
	if (dev)
		krdma_device_put(dev);
	return found;
}

/**
 * krdma_device_put - let go of a device
 * @dev: the device; may be gone when this returns
 *
 * Context: any.
 */
void krdma_device_put(struct krdma_device *dev)
{
	if (refcount_dec_and_test(&dev->refs))
		complete(&dev->gone);
}

/**
 * krdma_devices_segment - the largest segment that a device of this host has now
 *
 * Context: process.
 * Return: bytes; a page if there is no device
 */
u64 krdma_devices_segment(void)
{
	struct krdma_device *dev;
	u32 shift = PAGE_SHIFT;

	mutex_lock(&krdma_devices_lock);
	list_for_each_entry(dev, &krdma_devices, node)
		shift = max(shift, dev->segment_shift);
	mutex_unlock(&krdma_devices_lock);
	return 1ULL << shift;
}

static void krdma_latency_add(struct krdma_latency_info *info, const struct krdma_latency *l)
{
	int i;

	info->sum_ns += READ_ONCE(l->sum_ns);
	for (i = 0; i < KRDMA_LATENCY_BUCKETS; i++)
		info->counts[i] += READ_ONCE(l->counts[i]);
}

/**
 * krdma_device_measure - begin to count how long operations on a device take
 * @dev: the device, with a reference
 *
 * Without memory they are not counted, until this is called again.
 *
 * Context: process; nothing that frees memory waits for it.
 */
void krdma_device_measure(struct krdma_device *dev)
{
	struct krdma_latencies __percpu *latencies;

	BUILD_BUG_ON(sizeof(struct krdma_latencies) > PCPU_MIN_UNIT_SIZE);
	if (READ_ONCE(dev->latencies))
		return;
	latencies = krdma_inject(alloc_percpu(struct krdma_latencies), NULL);
	mutex_lock(&krdma_devices_lock);
	if (!dev->latencies) {
		/* ORDER: whoever sees the pointer sees zeroes. */
		smp_store_release(&dev->latencies, latencies);
		latencies = NULL;
	}
	mutex_unlock(&krdma_devices_lock);
	free_percpu(latencies);
}

/**
 * krdma_device_latency - how long operations of one size took on a device
 * @dev: the device
 * @opcode: enum krdma_opcode
 * @size: which size, below KRDMA_LATENCY_SIZES
 * @info: out: all of it
 *
 * Context: process.
 * Return: false if there was none
 */
bool krdma_device_latency(const struct krdma_device *dev, u32 opcode, u32 size,
			  struct krdma_latency_info *info)
{
	struct krdma_latencies __percpu *latencies = READ_ONCE(dev->latencies);
	bool last = size == KRDMA_LATENCY_SIZES - 1;
	u64 all = 0;
	int cpu, i;

	if (!latencies)
		return false;
	*info = (struct krdma_latency_info){
		.opcode = opcode,
		.length_max = last ? 0 : 1ULL << (KRDMA_LATENCY_SIZE_LOW + size),
	};
	strscpy(info->device, dev_name(&dev->ib->dev), sizeof(info->device));
	for_each_possible_cpu(cpu)
		krdma_latency_add(info, &per_cpu_ptr(latencies, cpu)->of[opcode - 1][size]);
	for (i = 0; i < KRDMA_LATENCY_BUCKETS; i++)
		all += info->counts[i];
	return all;
}

/**
 * krdma_device_init - begin to follow RDMA devices
 * @ops: what is to be done when they come and go
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_device_init(const struct krdma_device_ops *ops)
{
	krdma_device_ops = ops;
	return krdma_inject(ib_register_client(&krdma_client), -ENOMEM);
}

/**
 * krdma_device_exit - stop following RDMA devices
 *
 * Context: process; no session exists.
 */
void krdma_device_exit(void)
{
	ib_unregister_client(&krdma_client);
}
