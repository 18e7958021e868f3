// SPDX-License-Identifier: GPL-2.0
/* Counters since the module was loaded, and what is in use now: one file each in sysfs. */
#include <linux/device.h>
#include <linux/percpu.h>
#include <linux/sysfs.h>

#include "krdma.h"

DEFINE_PER_CPU(struct krdma_stats, krdma_stats);

struct krdma_stat_attr {
	struct device_attribute attr;
	enum krdma_stat stat;
};

static u64 krdma_stat_sum(enum krdma_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) sum += READ_ONCE(per_cpu(krdma_stats, cpu).v[stat]);
	return sum;
}

static ssize_t krdma_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	enum krdma_stat stat = container_of(attr, struct krdma_stat_attr, attr)->stat;

	return sysfs_emit(buf, "%llu\n", krdma_stat_sum(stat));
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

#define KRDMA_STAT_ATTR(_name, _stat)                               \
	static struct krdma_stat_attr krdma_stat_##_name = {        \
		.attr = __ATTR(_name, 0444, krdma_stat_show, NULL), \
		.stat = _stat,                                      \
	}

KRDMA_STAT_ATTR(reads, KRDMA_STAT_READS);
KRDMA_STAT_ATTR(writes, KRDMA_STAT_WRITES);
KRDMA_STAT_ATTR(atomics, KRDMA_STAT_ATOMICS);
KRDMA_STAT_ATTR(digests, KRDMA_STAT_DIGESTS);
KRDMA_STAT_ATTR(sends, KRDMA_STAT_SENDS);
KRDMA_STAT_ATTR(deliveries, KRDMA_STAT_DELIVERIES);
KRDMA_STAT_ATTR(mismatches, KRDMA_STAT_MISMATCHES);
KRDMA_STAT_ATTR(flips, KRDMA_STAT_FLIPS);
KRDMA_STAT_ATTR(read_bytes, KRDMA_STAT_READ_BYTES);
KRDMA_STAT_ATTR(write_bytes, KRDMA_STAT_WRITE_BYTES);
KRDMA_STAT_ATTR(transfers_failed, KRDMA_STAT_TRANSFERS_FAILED);
KRDMA_STAT_ATTR(transfers_timed_out, KRDMA_STAT_TRANSFERS_TIMED_OUT);
KRDMA_STAT_ATTR(chunks, KRDMA_STAT_CHUNKS);
KRDMA_STAT_ATTR(doorbells, KRDMA_STAT_DOORBELLS);
KRDMA_STAT_ATTR(placements, KRDMA_STAT_PLACEMENTS);
KRDMA_STAT_ATTR(messages_sent, KRDMA_STAT_MESSAGES_SENT);
KRDMA_STAT_ATTR(messages_received, KRDMA_STAT_MESSAGES_RECEIVED);
KRDMA_STAT_ATTR(protocol_errors, KRDMA_STAT_PROTOCOL_ERRORS);
KRDMA_STAT_ATTR(sessions_made, KRDMA_STAT_SESSIONS_MADE);
KRDMA_STAT_ATTR(sessions_lost, KRDMA_STAT_SESSIONS_LOST);
KRDMA_STAT_ATTR(sessions_refused, KRDMA_STAT_SESSIONS_REFUSED);
KRDMA_STAT_ATTR(segments_registered, KRDMA_STAT_SEGMENTS_REGISTERED);
KRDMA_STAT_ATTR(segments_released, KRDMA_STAT_SEGMENTS_RELEASED);
KRDMA_STAT_ATTR(recalls, KRDMA_STAT_RECALLS);
KRDMA_STAT_ATTR(revokes, KRDMA_STAT_REVOKES);
KRDMA_STAT_ATTR(heartbeats, KRDMA_STAT_HEARTBEATS);
KRDMA_STAT_ATTR(segment_pages, KRDMA_STAT_SEGMENT_PAGES);
KRDMA_STAT_ATTR(pinned_bytes, KRDMA_STAT_PINNED_BYTES);
KRDMA_STAT_ATTR(peer_bytes, KRDMA_STAT_PEER_BYTES);
KRDMA_STAT_ATTR(dma_mappings, KRDMA_STAT_DMA_MAPPINGS);
KRDMA_STAT_ATTR(messages_queued, KRDMA_STAT_MESSAGES_QUEUED);
KRDMA_STAT_ATTR(messages_held, KRDMA_STAT_MESSAGES_HELD);

static struct attribute *krdma_stats_attrs[] = {
	&krdma_stat_reads.attr.attr,
	&krdma_stat_writes.attr.attr,
	&krdma_stat_atomics.attr.attr,
	&krdma_stat_digests.attr.attr,
	&krdma_stat_sends.attr.attr,
	&krdma_stat_deliveries.attr.attr,
	&krdma_stat_mismatches.attr.attr,
	&krdma_stat_flips.attr.attr,
	&krdma_stat_read_bytes.attr.attr,
	&krdma_stat_write_bytes.attr.attr,
	&krdma_stat_transfers_failed.attr.attr,
	&krdma_stat_transfers_timed_out.attr.attr,
	&krdma_stat_chunks.attr.attr,
	&krdma_stat_doorbells.attr.attr,
	&krdma_stat_placements.attr.attr,
	&krdma_stat_messages_sent.attr.attr,
	&krdma_stat_messages_received.attr.attr,
	&krdma_stat_protocol_errors.attr.attr,
	&krdma_stat_sessions_made.attr.attr,
	&krdma_stat_sessions_lost.attr.attr,
	&krdma_stat_sessions_refused.attr.attr,
	&krdma_stat_segments_registered.attr.attr,
	&krdma_stat_segments_released.attr.attr,
	&krdma_stat_recalls.attr.attr,
	&krdma_stat_revokes.attr.attr,
	&krdma_stat_heartbeats.attr.attr,
	&krdma_stat_segment_pages.attr.attr,
	&krdma_stat_pinned_bytes.attr.attr,
	&krdma_stat_peer_bytes.attr.attr,
	&krdma_stat_dma_mappings.attr.attr,
	&krdma_stat_messages_queued.attr.attr,
	&krdma_stat_messages_held.attr.attr,
	NULL,
};

static const struct attribute_group krdma_stats_group = {
	.name = "counters",
	.attrs = krdma_stats_attrs,
};

const struct attribute_group *krdma_stats_groups[] = { &krdma_stats_group, NULL };
