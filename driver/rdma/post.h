/* SPDX-License-Identifier: GPL-2.0 */
/* What is posted on a channel, and its budget; part of rdma.h. */
#ifndef KRDMA_POST_H
#define KRDMA_POST_H

void *krdma_buf_alloc(u32 size);
int krdma_buf_map(struct ib_device *ib, void *buf, u64 *dma, u32 size, enum dma_data_direction dir);

/**
 * krdma_post_good - may what is posted now complete?
 * @ch: channel
 *
 * Context: any; a hint, as it may fail at any time.
 * Return: true unless it is down, or its end is known
 */
static inline bool krdma_post_good(const struct krdma_channel *ch)
{
	return READ_ONCE(ch->state) == KRDMA_CHANNEL_UP && !READ_ONCE(ch->lost) &&
	       READ_ONCE(ch->bye) < 0;
}

/**
 * krdma_connection_gone - has the queue pair of a connection been destroyed?
 * @ch: channel
 * @connection: of its ->connections
 *
 * Context: any; true stays true.
 * Return: true if it has: nothing arrives on it any more
 */
static inline bool krdma_connection_gone(const struct krdma_channel *ch, u32 connection)
{
	/* ORDER: nothing of it is seen any more; krdma_channel_end(). */
	return (s32)(smp_load_acquire(&ch->gone_connection) - connection) >= 0;
}

/**
 * krdma_post_count - something is about to be posted
 * @ch: channel
 * @n: work requests with a completion each
 *
 * Context: channel->lock held.
 */
static inline void krdma_post_count(struct krdma_channel *ch, u32 n)
{
	u32 at = ch->completed + ch->outstanding;
	unsigned long now = jiffies;

	if (!ch->outstanding) {
		ch->last_wc = now;
		ch->progress = now;
	}
	/* They complete in this order; one that is refused is the last. */
	for (ch->outstanding += n; n; n--)
		ch->posted_at[at++ & ch->posted_mask] = (u32)now;
}

/**
 * krdma_post_from - what a message is sent from
 * @ch: channel
 * @sge: out: address and length
 * @buf: its bytes
 * @dma: their address for the device
 * @len: their number
 *
 * The driver copies a short one into the work request, where it has room for that: the device
 * need not fetch it.
 *
 * Context: any.
 * Return: flags of the work request
 */
static inline int krdma_post_from(const struct krdma_channel *ch, struct ib_sge *sge, void *buf,
				  u64 dma, u32 len)
{
	sge->length = len;
	sge->addr = dma;
	if (len > ch->max_inline) {
		ib_dma_sync_single_for_device(ch->dev->ib, dma, len, DMA_TO_DEVICE);
		return 0;
	}
	sge->addr = (uintptr_t)buf;
	return IB_SEND_INLINE;
}

/**
 * krdma_post_message - what a message is sent from, and what it says of those received
 * @ch: the first channel
 * @sge: out: address and length
 * @hdr: the message
 * @dma: its address for the device
 *
 * Context: channel->lock held.
 * Return: flags of the work request
 */
static inline int krdma_post_message(struct krdma_channel *ch, struct ib_sge *sge,
				     struct krdma_wire_hdr *hdr, u64 dma)
{
	if (ch->iwarp) {
		hdr->received = cpu_to_le16(ch->received);
		ch->unacked = 0;
	}
	return IB_SEND_SIGNALED | krdma_post_from(ch, sge, hdr, dma, le32_to_cpu(hdr->length));
}

/**
 * krdma_post_alive - something has completed: the path works
 * @ch: channel
 *
 * Context: completion handler, channel->lock held.
 */
static inline void krdma_post_alive(struct krdma_channel *ch)
{
	ch->last_wc = jiffies;
	ch->progress = jiffies;
	if (ch->outstanding) {
		ch->outstanding--;
		ch->completed++;
	}
	/* A waiter has looked under the same lock, and was on the queue before. */
	if (!ch->outstanding && waitqueue_active(&ch->tx_wait))
		wake_up_all(&ch->tx_wait);
}

void krdma_post_broken(struct krdma_channel *ch, const struct ib_wc *wc);
bool krdma_post_lost(struct krdma_channel *ch, int err);
bool krdma_post_refused(struct krdma_channel *ch, int err);
int krdma_post_wrs(struct krdma_channel *ch, u32 connection, struct ib_send_wr *first, u32 n);
void krdma_post_completed(struct krdma_channel *ch, const struct ib_wc *wc);
void krdma_post_completed_locked(struct krdma_channel *ch, const struct ib_wc *wc);
int krdma_post_setup(struct krdma_channel *ch);
void krdma_post_rest(struct krdma_channel *ch);
void krdma_post_teardown(struct krdma_channel *ch);

/* control.c */
int krdma_control_setup(struct krdma_channel *ch);
int krdma_control_map(struct krdma_channel *ch);
void krdma_control_unmap(struct krdma_channel *ch);
void krdma_control_teardown(struct krdma_channel *ch);
int krdma_control_receive(struct krdma_channel *ch);
bool krdma_control_resume(struct krdma_channel *ch);
void krdma_control_left(struct krdma_channel *ch);
bool krdma_control_arrived(struct krdma_channel *ch, u8 type, __le32 tag);
void krdma_post_rx_later(struct krdma_channel *ch, struct krdma_rx *rx);
int krdma_post_rx_again(struct krdma_channel *ch);
int krdma_post_rx(struct krdma_channel *ch, struct krdma_rx *rx);
bool krdma_post_tx_any(const struct krdma_channel *ch, enum krdma_tx_kind kind);
struct krdma_tx *krdma_post_tx_take(struct krdma_channel *ch, enum krdma_tx_kind kind);
struct krdma_tx *krdma_post_tx_get(struct krdma_channel *ch, enum krdma_tx_kind kind);
struct krdma_tx *krdma_post_tx_last(struct krdma_channel *ch);
bool krdma_post_tx_out(struct krdma_channel *ch);
void krdma_post_tx_put(struct krdma_channel *ch, struct krdma_tx *tx);
int krdma_post_tx_locked(struct krdma_channel *ch, struct krdma_tx *tx, bool last);
int krdma_post_tx(struct krdma_channel *ch, struct krdma_tx *tx, bool last);

#endif /* KRDMA_POST_H */
