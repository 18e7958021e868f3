// SPDX-License-Identifier: GPL-2.0
/*
 * Digests of the peer: KRDMA_OP_DIGEST, and operations with KRDMA_OPF_VERIFY when their bytes have
 * arrived. They are on region->digests, and one request of a region is under way at a time, piece
 * after piece, each with the value that the one before came to. What an operation moved is
 * compared: if it differs it is moved again, once.
 *
 * KRDMA_OP_FLUSH takes the same way. It goes on the queue pair of the WRITEs that it is about, and
 * so comes behind all that have ended. To do it again does no harm.
 */
#include <linux/page-flags.h>
#include <linux/slab.h>

#include "initiator/wr.h"

/* Of all that an operation has moved: its submitter may not have it back meanwhile. */
static u32 krdma_digest_local(const struct krdma_transfer *x)
{
	struct krdma_cursor at = x->from;
	u32 value = KRDMA_DIGEST_SEED, offset;
	u64 left = x->length, rest;
	struct page *page;

	/* With a status nobody requests it any more, but waits for its memory. */
	while (left && !READ_ONCE(x->status)) {
		page = krdma_local_page(&x->local, &at, &offset, &rest);
		rest = min(rest, left);
		/* Nor may what is poisoned be read: then it differs. */
		if (!PageHWPoison(page))
			value = krdma_digest_page(value, page, offset, rest, x->local.fills);
		at.in += rest;
		left -= rest;
		cond_resched();
	}
	return value;
}

static void krdma_digest_want(struct krdma_region *region)
{
	lockdep_assert_held(&region->sess->ch->lock);
	if (region->digesting || list_empty(&region->digests))
		return;
	region->digesting = true;
	kref_get(&region->ref);
	queue_work(krdma_rpc_wq, &region->digest_work);
}

/**
 * krdma_digest_queue - have the peer's digest of what an operation is about, or a flush
 * @x: KRDMA_OP_DIGEST, KRDMA_OP_FLUSH, or one whose bytes have arrived and are to be verified; on a
 *	list by ->node, or on none
 * @now: the time, or 0
 *
 * Context: channel->lock held.
 */
void krdma_digest_queue(struct krdma_transfer *x, ktime_t now)
{
	lockdep_assert_held(&x->ch->lock);
	x->far = (struct krdma_cursor){};
	x->digested = 0;
	x->value = KRDMA_DIGEST_SEED;
	x->counted = krdma_opcode_asks(x->opcode);
	list_move_tail(&x->node, &x->region->digests);
	krdma_transfer_wait(x, KRDMA_WAIT_DIGEST, now);
	krdma_digest_want(x->region);
}

/* All of the peer's is known, or all is flushed. */
static void krdma_digest_end(struct krdma_transfer *x)
{
	u64 digest;

	lockdep_assert_held(&x->ch->lock);
	if (x->opcode == KRDMA_OP_DIGEST) {
		digest = (u32)~x->value;
		krdma_local_store(&x->local, &digest, sizeof(digest));
		x->moved = x->length;
	} else if (x->opcode == KRDMA_OP_FLUSH) {
		x->moved = x->length;
	} else if (x->value == x->local_value) {
		x->verify = KRDMA_VERIFY_NONE;
	} else {
		krdma_stat_inc(KRDMA_STAT_MISMATCHES);
		/* It has not arrived, and is moved once more. */
		if (x->verify == KRDMA_VERIFY_AGAIN && !x->status)
			x->status = -EILSEQ;
		x->verify = KRDMA_VERIFY_AGAIN;
		x->local.at = x->from;
		x->far = (struct krdma_cursor){};
		x->posted = 0;
		x->moved = 0;
	}
	krdma_transfer_advance(x, 0);
}

/* Reply to DIGEST or FLUSH. */
static void krdma_digest_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_region *region = rpc->arg;
	struct krdma_channel *ch = region->sess->ch;
	struct krdma_transfer *x;

	krdma_channel_lock(ch);
	region->digesting = false;
	x = region->digest_for;
	region->digest_for = NULL;
	if (x && err) {
		krdma_transfer_replied(x, err);
	} else if (x) {
		if (x->opcode != KRDMA_OP_FLUSH)
			x->value = le32_to_cpu(msg->digest_reply.value);
		krdma_split_step(&x->far, x->range, x->nrange, region->digest_bytes);
		x->digested += region->digest_bytes;
		if (x->digested == x->length)
			krdma_digest_end(x);
		else
			list_move_tail(&x->node, &region->digests); /* others have a turn */
	}
	krdma_digest_want(region);
	krdma_transfer_pump(ch);
	krdma_channel_unlock(ch);
	krdma_region_put(region);
}

/**
 * krdma_count_work - compute the digest of what is here
 * @work: of a region; its reference goes on to digest_work
 *
 * It takes as long as the user's memory is, so no credit is held meanwhile, and no queue that a
 * transfer needs.
 *
 * Context: work.
 */
void krdma_count_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, count_work);
	struct krdma_channel *ch = region->sess->ch;
	struct krdma_transfer *x;
	u32 value;

	krdma_channel_lock(ch);
	x = list_first_entry_or_null(&region->digests, struct krdma_transfer, node);
	if (x && !x->counted) {
		/* Its memory is not given back while something of it is under way. */
		x->nwrs++;
		krdma_channel_unlock(ch);
		value = krdma_digest_local(x);
		krdma_channel_lock(ch);
		x->nwrs--;
		x->local_value = value;
		x->counted = true;
		if (x->status)
			krdma_transfer_advance(x, 0);
	}
	queue_work(krdma_rpc_wq, &region->digest_work);
	krdma_channel_unlock(ch);
}

/* As many ranges as a request has. */
static void krdma_flush_request(struct krdma_region *region, const struct krdma_transfer *x)
{
	u32 left = min_t(u64, x->length - x->digested, KRDMA_WIRE_FLUSH_BYTES), len;
	struct krdma_cursor at = x->far;
	struct krdma_wire_flush *msg;
	struct krdma_wire_range *to;

	msg = krdma_credit_build(&region->digest_credit, KRDMA_WIRE_FLUSH, sizeof(*msg), 0);
	if (!msg)
		return;
	msg->grant = cpu_to_le32(region->grant);
	msg->generation = cpu_to_le32(region->generation);
	region->digest_bytes = 0;
	for (to = msg->range; left && to < msg->range + KRDMA_WIRE_FLUSH_MAX; to++, left -= len) {
		const struct krdma_vec *range = &x->range[at.i];

		len = min_t(u64, range->length - at.in, left);
		to->offset = cpu_to_le64(range->addr + at.in);
		to->length = cpu_to_le64(len);
		krdma_split_step(&at, x->range, x->nrange, len);
		region->digest_bytes += len;
	}
	krdma_wire_end((union krdma_wire_msg *)msg, to);
}

static void krdma_digest_request(struct krdma_region *region, const struct krdma_transfer *x)
{
	const struct krdma_vec *range = &x->range[x->far.i];
	struct krdma_wire_digest *msg;

	msg = krdma_credit_build(&region->digest_credit, KRDMA_WIRE_DIGEST, sizeof(*msg), 0);
	if (!msg)
		return;
	region->digest_bytes = min_t(u64, range->length - x->far.in, KRDMA_WIRE_DIGEST_MAX);
	msg->grant = cpu_to_le32(region->grant);
	msg->generation = cpu_to_le32(region->generation);
	msg->offset = cpu_to_le64(range->addr + x->far.in);
	msg->length = cpu_to_le32(region->digest_bytes);
	msg->value = cpu_to_le32(x->value);
}

/**
 * krdma_digest_work - request the next digest or flush
 * @work: of a region; holds a reference on it
 *
 * Context: work.
 */
void krdma_digest_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, digest_work);
	struct krdma_session *sess = region->sess;
	struct krdma_channel *ch = sess->ch;
	struct krdma_rpc *rpc = krdma_rpc_new(sess, krdma_digest_replied, region);
	int rc = rpc ? 0 : -ENOMEM;
	struct krdma_transfer *x;

	/* If it has to wait, it is queued again, with the reference. */
	if (!krdma_credit_take(sess, &region->digest_credit))
		goto out;
	krdma_channel_lock(ch);
	x = list_first_entry_or_null(&region->digests, struct krdma_transfer, node);
	if (x && !x->counted) {
		queue_work(krdma_count_wq, &region->count_work);
		krdma_channel_unlock(ch);
		krdma_credit_put(sess, &region->digest_credit);
		goto out;
	}
	region->digest_for = x;
	if (x && !rc && x->opcode == KRDMA_OP_FLUSH)
		krdma_flush_request(region, x);
	else if (x && !rc)
		krdma_digest_request(region, x);
	krdma_channel_unlock(ch);
	if (x && !rc)
		rc = krdma_rpc_post(sess, &region->digest_credit, rpc);
	/* Sent: then the reference is krdma_digest_replied's. */
	if (x && !rc)
		goto out;
	krdma_credit_put(sess, &region->digest_credit);
	krdma_channel_lock(ch);
	region->digesting = false;
	/* It may have ended meanwhile. */
	if (region->digest_for)
		krdma_transfer_end(region->digest_for, rc);
	region->digest_for = NULL;
	krdma_digest_want(region);
	krdma_channel_unlock(ch);
	krdma_region_put(region);
out:
	krdma_rpc_put(rpc);
}
