// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that READs fill and that a peer has a key of, on iWARP; and what READs behind WRITEs
 * fill, everywhere. The order of target/segment.c is that of these keys, too: the READ's own
 * invalidation ends a key, or ib_dereg_mr() where the queue pair is gone.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "initiator/wr.h"

/* ---- memory that a READ behind WRITEs fills ---- */

/**
 * krdma_void_setup - allocate it
 * @ch: channel that moves data
 *
 * A page, as on iWARP the peer has a key of it.
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_void_setup(struct krdma_channel *ch)
{
	struct ib_device *ib = ch->dev->ib;

	ch->void_buf = (void *)krdma_inject(get_zeroed_page(GFP_KERNEL), 0);
	if (!ch->void_buf)
		return -ENOMEM;
	ch->void_dma = ib_dma_map_single(ib, ch->void_buf, PAGE_SIZE, DMA_FROM_DEVICE);
	if (krdma_inject(ib_dma_mapping_error(ib, ch->void_dma), -ENOMEM)) {
		free_page((unsigned long)ch->void_buf);
		ch->void_buf = NULL;
		return -ENOMEM;
	}
	return 0;
}

/**
 * krdma_void_free - undo krdma_void_setup
 * @ch: channel without a queue pair, and without a registration of it
 *
 * Context: process.
 */
void krdma_void_free(struct krdma_channel *ch)
{
	if (!ch->void_buf)
		return;
	ib_dma_unmap_single(ch->dev->ib, ch->void_dma, PAGE_SIZE, DMA_FROM_DEVICE);
	free_page((unsigned long)ch->void_buf);
}

/* ---- iWARP: memory that a READ fills ---- */

static void krdma_sink_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	/* Not signalled, so a failure: that of the READ behind it tells it all. */
}

/* What is registered, by a key that is new, and how. */
static int krdma_sink_describe(struct krdma_sink *sink, struct scatterlist *sg, u32 n, u32 reg_page)
{
	if (krdma_inject(ib_map_mr_sg(sink->mr, sg, n, NULL, reg_page), -ENOMEM) != n)
		return -EIO;
	/* As in its first page, as the device sees it. */
	sink->mr->iova &= ~PAGE_MASK;
	ib_update_fast_reg_key(sink->mr, get_random_u8());

	memset(&sink->reg, 0, sizeof(sink->reg));
	sink->reg.wr.opcode = IB_WR_REG_MR;
	sink->reg.wr.wr_cqe = &sink->cqe;
	sink->reg.mr = sink->mr;
	sink->reg.key = sink->mr->rkey;
	sink->reg.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	return 0;
}

/**
 * krdma_sinks_setup - allocate the registrations of a channel's READs
 * @ch: channel on iWARP with a PD, after krdma_void_setup()
 *
 * Context: process.
 * Return: 0 or a negative errno; krdma_sinks_free cleans up in either case
 */
int krdma_sinks_setup(struct krdma_channel *ch)
{
	const struct krdma_policy *policy = &ch->dev->policy;
	struct ib_device *ib = ch->dev->ib;
	struct scatterlist *sg;
	u32 i, own = 0;
	int rc;

	/* A work request, begun in the middle of a page. */
	ch->sink_pages = min_t(u32, policy->segment_pages, KRDMA_WR_MAX / PAGE_SIZE + 1);
	ch->sink = krdma_inject(kcalloc(KRDMA_SINKS + 1, sizeof(*ch->sink), GFP_KERNEL), NULL);
	/* What is mapped for a READ is unmapped from there; siw maps nothing. */
	if (!ib_uses_virt_dma(ib))
		own = ch->sink_pages;
	ch->sink_sg = krdma_inject(kvcalloc(max(own * KRDMA_SINKS, ch->sink_pages),
					    sizeof(*ch->sink_sg), GFP_KERNEL),
				   NULL);
	if (!ch->sink || !ch->sink_sg)
		return -ENOMEM;
	for (i = 0; i < KRDMA_SINKS; i++) {
		struct krdma_sink *sink = &ch->sink[i];
		struct ib_mr *mr =
			krdma_inject(ib_alloc_mr(ch->pd, IB_MR_TYPE_MEM_REG,
						 krdma_mr_entries(policy, ch->sink_pages)),
				     ERR_PTR(-ENOMEM));

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		sink->mr = mr;
		sink->sg = ch->sink_sg + i * own;
		sink->cqe.done = krdma_sink_reg_done;
		list_add_tail(&sink->node, &ch->sinks);
	}

	/* The peer may write into the void for as long as the channel lives. */
	ch->void_sink = &ch->sink[KRDMA_SINKS];
	ch->void_sink->mr =
		krdma_inject(ib_alloc_mr(ch->pd, IB_MR_TYPE_MEM_REG, krdma_mr_entries(policy, 1)),
			     ERR_PTR(-ENOMEM));
	if (IS_ERR(ch->void_sink->mr)) {
		rc = PTR_ERR(ch->void_sink->mr);
		ch->void_sink->mr = NULL;
		return rc;
	}
	sg = ch->sink_sg;
	sg_init_table(sg, 1);
	sg_dma_address(sg) = ch->void_dma;
	sg_dma_len(sg) = PAGE_SIZE;
	ch->void_sink->cqe.done = krdma_sink_reg_done;
	return krdma_sink_describe(ch->void_sink, sg, 1, policy->reg_page);
}

/**
 * krdma_sinks_free - undo krdma_sinks_setup
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_sinks_free(struct krdma_channel *ch)
{
	u32 i;

	/* The last one is the void's. */
	for (i = 0; ch->sink && i <= KRDMA_SINKS; i++)
		if (ch->sink[i].mr)
			WARN_ON_ONCE(ib_dereg_mr(ch->sink[i].mr));
	kfree(ch->sink);
	kvfree(ch->sink_sg);
}

static void krdma_sink_unmap(struct krdma_channel *ch, struct krdma_sink *sink, struct krdma_wr *w)
{
	u32 i;

	if (!w->mapped)
		return;
	for (i = 0; i < w->mapped; i++)
		krdma_local_unmap(&w->transfer->local, &ch->dev->dma, sg_dma_address(&sink->sg[i]),
				  sg_dma_len(&sink->sg[i]));
	w->mapped = 0;
	krdma_transfers_map_again(ch);
}

/**
 * krdma_sink_map - describe what a READ fills, as one registration
 * @ch: channel on iWARP
 * @w: work request; ->transfer is set, and ->bytes to what it may have at most; ->sink, ->bytes and
 *	one SGE on success. The transfer stands behind them then
 *
 * The peer gets the key, with the right to write, for this READ alone: the
 * READ's own invalidation ends it where it completes.
 *
 * Context: channel->lock held.
 * Return: 0; -EBUSY while all are in use; -EAGAIN if nothing can be mapped now; -EIO
 */
int krdma_sink_map(struct krdma_channel *ch, struct krdma_wr *w)
{
	struct krdma_sink *sink = list_first_entry_or_null(&ch->sinks, struct krdma_sink, node);
	struct krdma_device *dev = ch->dev;
	u32 n;

	lockdep_assert_held(&ch->lock);
	if (!sink)
		return -EBUSY;
	n = krdma_local_sg(&w->transfer->local, &dev->dma, sink->sg, ch->sink_pages, &w->bytes,
			   &w->mapped);
	/* What others have mapped may be in the way, and comes back. */
	if (!n)
		return -EAGAIN;
	if (krdma_sink_describe(sink, sink->sg, n, dev->policy.reg_page)) {
		krdma_sink_unmap(ch, sink, w);
		return -EIO;
	}
	w->sge[0].addr = sink->mr->iova;
	w->sge[0].length = w->bytes;
	w->sge[0].lkey = sink->mr->lkey;
	list_del(&sink->node);
	w->sink = sink;
	return 0;
}

/**
 * krdma_sink_put - the key of a READ is dead
 * @ch: channel
 * @w: work request
 *
 * Context: channel->lock held.
 */
void krdma_sink_put(struct krdma_channel *ch, struct krdma_wr *w)
{
	lockdep_assert_held(&ch->lock);
	krdma_sink_unmap(ch, w->sink, w);
	/* Without a registration it is of no use any more. */
	if (w->sink->mr)
		list_add(&w->sink->node, &ch->sinks);
	w->sink = NULL;
}

/**
 * krdma_sink_dereg - end the key of a READ that failed
 * @w: work request of a channel without a queue pair
 *
 * Context: process.
 */
void krdma_sink_dereg(struct krdma_wr *w)
{
	struct ib_mr *mr = w->sink->mr;

	w->sink->mr = NULL;
	/* The key may live: better lose the memory than give it away. */
	if (WARN_ON_ONCE(ib_dereg_mr(mr))) {
		w->transfer->lost = true;
		w->mapped = 0;
	}
}
