// SPDX-License-Identifier: GPL-2.0
/*
 * Operations by io_uring: IORING_OP_URING_CMD with struct krdma_op in an SQE128.
 *
 * The command is in memory that the process can change, so it is copied once.
 * A transfer ends in any context; task work of the submitter gives its memory
 * back and completes the command. Where that is late, reap_work of the file has
 * unpinned it before. With a buffer that was registered with
 * io_uring nothing is pinned here: io_uring keeps its pages as long as the
 * command is under way.
 */
#include <linux/bits.h>
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/uio.h>

#include "compat.h"
#include "frontend/ctx.h"

struct krdma_uring_pdu {
	struct krdma_req *req; /* NULL: it has ended; the lock of its lane */
	u32 lane;
	bool cqe32;
};

static struct krdma_uring_pdu *krdma_uring_pdu(struct io_uring_cmd *cmd)
{
	BUILD_BUG_ON(sizeof(struct krdma_uring_pdu) > sizeof(cmd->pdu));
	return (struct krdma_uring_pdu *)cmd->pdu;
}

/**
 * krdma_uring_features - what this kernel's io_uring gives
 *
 * Context: any.
 * Return: KRDMA_FEATURE_*
 */
u64 krdma_uring_features(void)
{
	if (!IS_ENABLED(CONFIG_IO_URING))
		return 0;
	return KRDMA_FEATURE_URING | (IO_URING_F_CANCEL ? KRDMA_FEATURE_CANCEL : 0);
}

/* A key to pages of io_uring may be alive: they are never to be used again. */
static void krdma_uring_lose(struct krdma_req *r)
{
	u32 i, n;

	if (!r->x.lost || r->pins.bvec || !r->x.local.bvec)
		return;
	for (i = 0; i < r->x.local.n; i++) {
		const struct bio_vec *bv = &r->x.local.bvec[i];

		for (n = 0; n < krdma_pages(bv->bv_offset, bv->bv_len); n++)
			get_page(pfn_to_page(page_to_pfn(bv->bv_page) + n));
	}
}

KRDMA_URING_TASK(krdma_uring_task)
{
	struct io_uring_cmd *cmd = KRDMA_URING_TASK_CMD;
	struct krdma_uring_pdu *pdu = krdma_uring_pdu(cmd);
	struct krdma_req *r = pdu->req;
	u64 moved = r->x.moved;
	s32 res = r->x.status;

	if (res) {
		krdma_transfer_explain(&r->x, &r->error);
		krdma_error_keep(r->ctx, &r->error, 0);
	} else {
		res = min_t(u64, moved, INT_MAX);
	}
	krdma_uring_lose(r);
	krdma_req_leave(r, &pdu->req);
	/* ORDER: nothing is pinned any more when the user gets its status. */
	krdma_uring_done(cmd, res, moved, pdu->cqe32, KRDMA_URING_TASK_FLAGS);
}

static void krdma_uring_end(struct krdma_req *r)
{
	io_uring_cmd_complete_in_task(r->frontend, krdma_uring_task);
}

/* The pages of a buffer that io_uring has. */
static int krdma_uring_fixed(struct io_uring_cmd *cmd, const struct krdma_op *op,
			     struct krdma_req *r, unsigned int issue_flags,
			     struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	u64 length = x->local.vec->length;
	struct iov_iter iter __uninitialized;
	int rc;

	rc = krdma_uring_import(cmd, op->addr, length,
				krdma_opcode_fills(op->opcode) ? ITER_DEST : ITER_SOURCE, &iter,
				issue_flags);
	if (rc)
		return krdma_explain(error, rc,
				     "%llu bytes at %#llx are not in the buffer of io_uring (%pe)",
				     length, op->addr, ERR_PTR(rc));
	if (!iov_iter_is_bvec(&iter) || iov_iter_count(&iter) != length)
		return krdma_explain(error, -EOPNOTSUPP, "the buffer of io_uring has no pages");
	if (krdma_opcode_number(x->opcode) &&
	    !krdma_bvec_has(iter.bvec, iter.iov_offset, KRDMA_NUMBER_BYTES))
		return krdma_explain(error, -EINVAL,
				     "a number goes to 8 bytes at a multiple of 8, not to pieces");
	x->local.bvec = iter.bvec;
	x->local.n = iter.nr_segs;
	x->local.at.in = iter.iov_offset;
	return 0;
}

/* ---- submission ---- */

#ifdef CONFIG_BLOCK
/* As many as fill the wire wait for each other, no more. */
#define KRDMA_URING_BATCH (KRDMA_SLOTS_MIN / 2)

/*
 * io_uring hands over one SQE at a time, under a plug where it has many: those of one
 * call are posted with one doorbell when it unplugs, or would sleep.
 */
struct krdma_uring_plug {
	struct blk_plug_cb cb; /* first: it is what is allocated */
	struct krdma_queue batch;
	u32 n;
};

static void krdma_uring_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct krdma_uring_plug *plug = container_of(cb, struct krdma_uring_plug, cb);

	krdma_reqs_submit(&plug->batch);
	kfree(plug);
}
#endif

static void krdma_uring_submit(struct krdma_req *r)
{
	struct krdma_queue single;
#ifdef CONFIG_BLOCK
	/* The plug of the call, NULL if there is none. A task that sleeps loses its plug. */
	struct blk_plug_cb *cb =
		blk_check_plugged(krdma_uring_unplug, NULL, sizeof(struct krdma_uring_plug));
	struct krdma_uring_plug *plug = container_of(cb, struct krdma_uring_plug, cb);

	if (cb) {
		if (!plug->n)
			krdma_queue_init(&plug->batch);
		krdma_queue_add(&plug->batch, &r->x);
		if (++plug->n % KRDMA_URING_BATCH == 0)
			krdma_reqs_submit(&plug->batch);
		return;
	}
#endif
	krdma_queue_init(&single);
	krdma_queue_add(&single, &r->x);
	krdma_reqs_submit(&single);
}

static int krdma_uring_start(struct io_uring_cmd *cmd, const struct krdma_op *op,
			     struct krdma_req *r, unsigned int issue_flags)
{
	bool fixed = cmd->flags & IORING_URING_CMD_FIXED;
	int rc;

	rc = krdma_req_check(op, fixed, r, &r->error);
	if (!rc && r->x.timeout > KRDMA_URING_LONGEST)
		rc = krdma_explain(
			&r->error, -EINVAL,
			"this kernel's io_uring can't cancel: its operations may last %llu s at most",
			KRDMA_URING_LONGEST / NSEC_PER_SEC);
	if (!rc && fixed) {
		rc = krdma_uring_fixed(cmd, op, r, issue_flags, &r->error);
	} else if (!rc) {
		krdma_reqs_prepare(r, 1, NULL);
		rc = r->x.status;
	}
	if (rc)
		return rc;
	krdma_uring_pdu(cmd)->req = r;
	krdma_uring_pdu(cmd)->lane = r->lane->index;
	krdma_uring_pdu(cmd)->cqe32 = issue_flags & IO_URING_F_CQE32;
	r->frontend = cmd;
	r->tasked = true;
	r->end = krdma_uring_end;
	io_uring_cmd_mark_cancelable(cmd, issue_flags);
	/* ORDER: the command may be gone when this returns. */
	krdma_uring_submit(r);
	return 0;
}

/*
 * The result of a command that was not started. io_uring would try again from a thread
 * after -EAGAIN, and Linux 6.12 then reads the SQE in the ring, where another may be by
 * now.
 */
static int krdma_uring_refuse(struct krdma_ctx *ctx, struct krdma_error *error, int rc)
{
	if (rc == -EAGAIN)
		rc = -ENOMEM;
	krdma_error_keep(ctx, error, rc);
	return rc;
}

/* Before there is a request, or none is to be had. */
static noinline int krdma_uring_refuse_early(struct krdma_ctx *ctx, int rc)
{
	struct krdma_error error;

	krdma_error_init(&error);
	if (rc == -EDQUOT)
		krdma_explain(&error, rc, "a file has at most %u operations under way",
			      KRDMA_CTX_OPS_MAX);
	else if (rc == -EINVAL)
		krdma_explain(&error, rc, "an operation needs a ring with SQEs of 128 bytes");
	return krdma_uring_refuse(ctx, &error, rc);
}

/* The ring or its process goes. Before Linux 6.10 task work may end it meanwhile. */
static void krdma_uring_cancel(struct io_uring_cmd *cmd)
{
	struct krdma_ctx *ctx = cmd->file->private_data;
	struct krdma_lane *lane = &ctx->lanes[krdma_uring_pdu(cmd)->lane];
	struct krdma_req *r;
	bool pause = false;

	spin_lock_bh(&lane->lock);
	r = krdma_uring_pdu(cmd)->req;
	if (r) {
		/* io_uring asks for all, again and again: one break is enough for all. */
		pause = r->cancelled && !r->x.ended && time_after(jiffies, ctx->paused);
		r->cancelled = true;
		krdma_transfer_cancel(&r->x, -ECANCELED);
	}
	spin_unlock_bh(&lane->lock);
	if (pause) {
		schedule_timeout_uninterruptible(1);
		WRITE_ONCE(ctx->paused, jiffies);
	}
}

/**
 * krdma_uring_cmd - ->uring_cmd of the file
 * @cmd: the command
 * @issue_flags: IO_URING_F_*
 *
 * Context: process, of the user, or a thread of its ring.
 * Return: -EIOCBQUEUED, or a negative errno, which is the command's result
 */
int krdma_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct krdma_ctx *ctx = cmd->file->private_data;
	struct krdma_req *r, *link;
	struct krdma_op op __uninitialized; /* or all of it would be set twice */
	int rc;

	/* Is io_uring asking for its end? */
	if (issue_flags & IO_URING_F_CANCEL) {
		krdma_uring_cancel(cmd);
		return 0;
	}
	if (cmd->cmd_op != KRDMA_URING_OP)
		return -ENOTTY;
	/* The upper ones are io_uring's own. */
	if (cmd->flags & GENMASK(23, 0) & ~IORING_URING_CMD_FIXED)
		return -EOPNOTSUPP;
	if (!(issue_flags & IO_URING_F_SQE128))
		return krdma_uring_refuse_early(ctx, -EINVAL);
	memcpy(&op, krdma_uring_sqe(cmd), sizeof(op));
	r = krdma_req_new(krdma_lane_of(ctx), ctx, &op, true);
	if (IS_ERR(r))
		return krdma_uring_refuse_early(ctx, PTR_ERR(r));
	rc = krdma_uring_start(cmd, &op, r, issue_flags);
	if (!rc)
		return -EIOCBQUEUED;
	rc = krdma_uring_refuse(ctx, &r->error, rc);
	krdma_req_leave(r, &link);
	return rc;
}
