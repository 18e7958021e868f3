// SPDX-License-Identifier: GPL-2.0
/* Counters since the module was loaded, and what is in use now: one file each in sysfs. */
#include <linux/device.h>
#include <linux/percpu.h>
#include <linux/sysfs.h>

#include "stats.h"

DEFINE_PER_CPU(struct krdma_stats, krdma_stats);

static struct device_attribute krdma_stat_attrs[KRDMA_STATS];

static u64 krdma_stat_sum(enum krdma_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) sum += READ_ONCE(per_cpu(krdma_stats, cpu).v[stat]);
	return sum;
}

static ssize_t krdma_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", krdma_stat_sum(attr - krdma_stat_attrs));
}

/**
 * krdma_stats_exit - what was taken has to have been given back
 *
 * Software devices don't notice a mapping that is forgotten, nor anybody a pin.
 *
 * Context: process; nothing of the module is in use any more.
 */
void krdma_stats_exit(void)
{
	WARN(krdma_stat_sum(KRDMA_STAT_PINNED_BYTES), "krdma_mover: pages are still pinned\n");
	WARN(krdma_stat_sum(KRDMA_STAT_PEER_BYTES), "krdma_mover: peers still have memory\n");
	WARN(krdma_stat_sum(KRDMA_STAT_DMA_MAPPINGS), "krdma_mover: memory is still mapped\n");
	WARN(krdma_stat_sum(KRDMA_STAT_MESSAGES_QUEUED) || krdma_stat_sum(KRDMA_STAT_MESSAGES_HELD),
	     "krdma_mover: messages are still there\n");
}

static struct device_attribute krdma_stat_attrs[KRDMA_STATS] = {
	[KRDMA_STAT_READS] = __ATTR(reads, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_WRITES] = __ATTR(writes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_ATOMICS] = __ATTR(atomics, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_DIGESTS] = __ATTR(digests, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_FLUSHES] = __ATTR(flushes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SENDS] = __ATTR(sends, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_MESSAGES_DELIVERED] = __ATTR(messages_delivered, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_MISMATCHES] = __ATTR(mismatches, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_FLIPS] = __ATTR(flips, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_READ_BYTES] = __ATTR(read_bytes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_WRITE_BYTES] = __ATTR(write_bytes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_FLUSHED_BYTES] = __ATTR(flushed_bytes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_TRANSFERS_FAILED] = __ATTR(transfers_failed, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_TRANSFERS_TIMED_OUT] = __ATTR(transfers_timed_out, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_TRANSFERS_REPLAYED] = __ATTR(transfers_replayed, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_WORK_REQUESTS] = __ATTR(work_requests, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_DOORBELLS] = __ATTR(doorbells, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_POLLED] = __ATTR(polled, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_PLACEMENTS] = __ATTR(placements, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_CONTROL_SENT] = __ATTR(control_sent, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_CONTROL_RECEIVED] = __ATTR(control_received, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_PROTOCOL_ERRORS] = __ATTR(protocol_errors, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SESSIONS_MADE] = __ATTR(sessions_made, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SESSIONS_LOST] = __ATTR(sessions_lost, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SESSIONS_RESUMED] = __ATTR(sessions_resumed, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_CHANNELS_LOST] = __ATTR(channels_lost, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_CONNECTS_DEFERRED] = __ATTR(connects_deferred, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SESSIONS_REFUSED] = __ATTR(sessions_refused, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SEGMENTS_REGISTERED] = __ATTR(segments_registered, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SEGMENTS_RELEASED] = __ATTR(segments_released, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_RECALLS] = __ATTR(recalls, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_REVOKES] = __ATTR(revokes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_HEARTBEATS] = __ATTR(heartbeats, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_SEGMENT_PAGES] = __ATTR(segment_pages, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_PINNED_BYTES] = __ATTR(pinned_bytes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_PEER_BYTES] = __ATTR(peer_bytes, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_DMA_MAPPINGS] = __ATTR(dma_mappings, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_MESSAGES_QUEUED] = __ATTR(messages_queued, 0444, krdma_stat_show, NULL),
	[KRDMA_STAT_MESSAGES_HELD] = __ATTR(messages_held, 0444, krdma_stat_show, NULL),
};

static struct attribute *krdma_stats_attrs[KRDMA_STATS + 1];

static const struct attribute_group krdma_stats_group = {
	.name = "counters",
	.attrs = krdma_stats_attrs,
};

const struct attribute_group *krdma_stats_groups[] = { &krdma_stats_group, NULL };

/**
 * krdma_stats_init - list the files of the counters
 *
 * Context: process; before krdma_stats_groups is used.
 */
void __init krdma_stats_init(void)
{
	u32 i;

	for (i = 0; i < KRDMA_STATS; i++)
		krdma_stats_attrs[i] = &krdma_stat_attrs[i].attr;
}
