/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels for block drivers. No other file of krdma_blk knows about it. */
#ifndef KRDMA_BLK_COMPAT_H
#define KRDMA_BLK_COMPAT_H

#include <linux/blk-mq.h>

#include <compat_config.h>

#ifdef HAVE_BLK_MQ_F_SHOULD_MERGE
#define KRDMA_BLK_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define KRDMA_BLK_MERGE 0 /* of each queue */
#endif

/* What ->open of block_device_operations has, and how. */
#ifdef HAVE_BLK_OPEN_DISK
#define KRDMA_BLK_OPENED struct gendisk
#define KRDMA_BLK_MODE   blk_mode_t

static inline struct gendisk *krdma_blk_opened_disk(struct gendisk *disk)
{
	return disk;
}
#else
#define KRDMA_BLK_OPENED struct block_device
#define KRDMA_BLK_MODE   fmode_t

static inline struct gendisk *krdma_blk_opened_disk(struct block_device *bdev)
{
	return bdev->bd_disk;
}
#endif

/*
 * What a disk can take; of struct queue_limits, which 6.1 has, but does not take. With @cache it
 * has a write cache, and the block layer flushes behind a write that is to be durable.
 */
static inline struct gendisk *krdma_blk_alloc(struct blk_mq_tag_set *tags,
					      struct queue_limits *limits, bool cache, void *data)
{
#ifdef HAVE_BLK_MQ_ALLOC_DISK_LIMITS
	if (cache)
		limits->features |= BLK_FEAT_WRITE_CACHE;
	return blk_mq_alloc_disk(tags, limits, data);
#else
	struct gendisk *disk = blk_mq_alloc_disk(tags, data);
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	blk_queue_logical_block_size(q, limits->logical_block_size);
	blk_queue_max_hw_sectors(q, limits->max_hw_sectors);
	blk_queue_max_segments(q, limits->max_segments);
	blk_queue_max_segment_size(q, limits->max_segment_size);
	blk_queue_chunk_sectors(q, limits->chunk_sectors);
	blk_queue_dma_alignment(q, limits->dma_alignment);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	blk_queue_write_cache(q, cache, false);
	return disk;
#endif
}

/* All requests of @disk fail; dm-multipath and others see it at the state of the queue. */
static inline void krdma_blk_mark_dead(struct gendisk *disk)
{
#ifndef HAVE_BLK_MQ_ALLOC_DISK_LIMITS
	/* ORDER: the waiters that blk_mark_disk_dead() wakes check it. 6.1 sets it too late. */
	blk_queue_flag_set(QUEUE_FLAG_DYING, disk->queue);
#endif
	blk_mark_disk_dead(disk);
}

#endif /* KRDMA_BLK_COMPAT_H */
