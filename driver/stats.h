/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of the module, in sysfs. */
#ifndef KRDMA_STATS_H
#define KRDMA_STATS_H

#include <linux/percpu.h>
#include <linux/types.h>

struct attribute_group;

enum krdma_stat {
	KRDMA_STAT_READS,
	KRDMA_STAT_WRITES,
	KRDMA_STAT_ATOMICS,
	KRDMA_STAT_DIGESTS,
	KRDMA_STAT_FLUSHES,
	KRDMA_STAT_SENDS,
	KRDMA_STAT_MESSAGES_DELIVERED,
	KRDMA_STAT_MISMATCHES,
	KRDMA_STAT_FLIPS,
	KRDMA_STAT_READ_BYTES,
	KRDMA_STAT_WRITE_BYTES,
	KRDMA_STAT_FLUSHED_BYTES,
	KRDMA_STAT_TRANSFERS_FAILED,
	KRDMA_STAT_TRANSFERS_TIMED_OUT,
	KRDMA_STAT_TRANSFERS_REPLAYED,
	KRDMA_STAT_WORK_REQUESTS,
	KRDMA_STAT_DOORBELLS,
	KRDMA_STAT_POLLED,
	KRDMA_STAT_PLACEMENTS,
	KRDMA_STAT_CONTROL_SENT,
	KRDMA_STAT_CONTROL_RECEIVED,
	KRDMA_STAT_PROTOCOL_ERRORS,
	KRDMA_STAT_SESSIONS_MADE,
	KRDMA_STAT_SESSIONS_LOST,
	KRDMA_STAT_SESSIONS_RESUMED,
	KRDMA_STAT_CHANNELS_LOST,
	KRDMA_STAT_CONNECTS_DEFERRED,
	KRDMA_STAT_SESSIONS_REFUSED,
	KRDMA_STAT_SEGMENTS_REGISTERED,
	KRDMA_STAT_SEGMENTS_RELEASED,
	KRDMA_STAT_RECALLS,
	KRDMA_STAT_REVOKES,
	KRDMA_STAT_HEARTBEATS,
	KRDMA_STAT_SEGMENT_PAGES,   /* now: room in the registrations of segments */
	KRDMA_STAT_PINNED_BYTES,    /* now */
	KRDMA_STAT_PEER_BYTES,      /* now: of files, because of peers */
	KRDMA_STAT_DMA_MAPPINGS,    /* now */
	KRDMA_STAT_MESSAGES_QUEUED, /* now: in message queues */
	KRDMA_STAT_MESSAGES_HELD,   /* now: without room there */
	KRDMA_STATS
};

struct krdma_stats {
	u64 v[KRDMA_STATS];
};

DECLARE_PER_CPU(struct krdma_stats, krdma_stats);
#define krdma_stat_add(stat, n) this_cpu_add(krdma_stats.v[stat], n)
#define krdma_stat_inc(stat)    krdma_stat_add(stat, 1)

void krdma_stats_init(void);
void krdma_stats_exit(void);
extern const struct attribute_group *krdma_stats_groups[];

#endif /* KRDMA_STATS_H */
