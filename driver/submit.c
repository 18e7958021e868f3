// SPDX-License-Identifier: GPL-2.0
/*
 * KRDMA_IOC_SUBMIT: operations of a process, done while it waits.
 *
 * A batch belongs to two: the waiter and the transfers under way. The waiter
 * gives memory and references back before it returns to the user. When it was
 * killed, it cancels the transfers and leaves, and the last of them hands the
 * batch to a work, since unpinning may sleep.
 */
#include <linux/cred.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "krdma.h"

struct krdma_batch {
	refcount_t refs;  /* the waiter, the transfers */
	atomic_t pending; /* transfers, and the submission */
	struct completion done;
	struct work_struct work;
	u32 n;
	struct krdma_xfer x[];
};

/* Gives back what the operations hold. Twice does no harm. */
static void krdma_batch_drop(struct krdma_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		struct krdma_xfer *x = &b->x[i];

		if (x->mem)
			krdma_mem_put(x->mem);
		if (x->region)
			krdma_region_put(x->region);
		x->mem = NULL;
		x->region = NULL;
	}
}

static void krdma_batch_work(struct work_struct *work)
{
	struct krdma_batch *b = container_of(work, struct krdma_batch, work);

	krdma_batch_drop(b);
	kvfree(b);
}

static void krdma_batch_put(struct krdma_batch *b)
{
	if (refcount_dec_and_test(&b->refs))
		queue_work(krdma_wq, &b->work);
}

static void krdma_batch_ended(struct krdma_batch *b)
{
	if (!atomic_dec_and_test(&b->pending))
		return;
	complete(&b->done);
	krdma_batch_put(b);
}

static void krdma_batch_xfer_done(struct krdma_xfer *x)
{
	krdma_batch_ended(x->owner);
}

/* What can be said about an operation without touching its memory. */
static int krdma_op_check(struct krdma_ctx *ctx, const struct krdma_op *op, struct krdma_xfer *x,
			  struct krdma_why *why)
{
	u32 right = op->opcode == KRDMA_OP_READ ? KRDMA_RIGHT_READ : KRDMA_RIGHT_WRITE;
	struct krdma_handle *h;

	if (op->opcode != KRDMA_OP_READ && op->opcode != KRDMA_OP_WRITE)
		return krdma_explain(why, -EOPNOTSUPP, "there is no operation %u", op->opcode);
	if (op->flags & ~KRDMA_OP_BUFFER)
		return krdma_explain(why, -EOPNOTSUPP, "the flags %#x of an operation are unknown",
				     op->flags);
	if (op->reserved0 || op->reserved1 || op->reserved2 || op->reserved3[0] ||
	    op->reserved3[1] || (!(op->flags & KRDMA_OP_BUFFER) && op->buffer))
		return krdma_explain(why, -EINVAL, "a reserved field of an operation is not zero");
	if (!op->length)
		return krdma_explain(why, -EINVAL, "the length of an operation is 0");

	h = krdma_handle_get(ctx, op->region, KRDMA_HANDLE_REGION, why);
	if (IS_ERR(h))
		return PTR_ERR(h);
	x->region = h->region;
	kref_get(&x->region->ref);
	krdma_handle_put(h);
	x->sess = x->region->sess;
	if (!krdma_range_ok(op->offset, op->length, x->region->length))
		return krdma_explain(why, -ERANGE,
				     "%llu bytes at %llu are outside '%s', which has %llu",
				     op->length, op->offset, x->region->name, x->region->length);
	if (!(x->region->rights & right))
		return krdma_explain(why, -EACCES, "'%s' is not open for %s", x->region->name,
				     right == KRDMA_RIGHT_READ ? "reading" : "writing");

	if (op->flags & KRDMA_OP_BUFFER) {
		h = krdma_handle_get(ctx, op->buffer, KRDMA_HANDLE_BUFFER, why);
		if (IS_ERR(h))
			return PTR_ERR(h);
		x->mem = h->mem;
		kref_get(&x->mem->ref);
		krdma_handle_put(h);
		if (!krdma_range_ok(op->addr, op->length, x->mem->length))
			return krdma_explain(
				why, -ERANGE,
				"%llu bytes at %llu are outside buffer %u, which has %llu",
				op->length, op->addr, op->buffer, x->mem->length);
		if (op->opcode == KRDMA_OP_READ && !x->mem->writable)
			return krdma_explain(why, -EACCES, "buffer %u was not registered writable",
					     op->buffer);
		x->mem_offset = op->addr;
	} else if (op->timeout_ns > KRDMA_OP_PIN_NS) {
		return krdma_explain(
			why, -EINVAL,
			"an operation on memory that is not a buffer may last 300 s at most");
	} else if (op->length > KRDMA_OP_PIN_MAX) {
		return krdma_explain(
			why, -EDQUOT,
			"an operation on memory that is not a buffer has at most %llu bytes",
			KRDMA_OP_PIN_MAX);
	}

	x->opcode = op->opcode;
	x->user_data = op->user_data;
	x->offset = op->offset;
	x->length = op->length;
	return 0;
}

/* Pin and map; on failure that is the operation's status. */
static int krdma_op_prepare(struct krdma_ctx *ctx, const struct krdma_op *op, struct krdma_xfer *x,
			    struct krdma_why *why)
{
	struct krdma_device *dev;
	int rc = 0;

	if (!x->mem) {
		x->mem = krdma_mem_pin(ctx, op->addr, op->length, op->opcode == KRDMA_OP_READ,
				       false, why);
		if (IS_ERR(x->mem)) {
			rc = PTR_ERR(x->mem);
			x->mem = NULL;
			return rc;
		}
	}
	/* The device must not go while its mapping is made. */
	dev = krdma_session_device(x->sess);
	if (!dev)
		return krdma_session_explain(x->sess, -ENOTCONN, why);
	x->map = krdma_mem_map(x->mem, dev, why);
	if (IS_ERR(x->map))
		rc = PTR_ERR(x->map);
	krdma_device_put(dev);
	return rc;
}

static void krdma_op_start(struct krdma_ctx *ctx, struct krdma_batch *b, const struct krdma_op *op,
			   struct krdma_xfer *x, struct krdma_why *why)
{
	u64 timeout = op->timeout_ns ?: KRDMA_DEFAULT_TIMEOUT_NS;

	x->owner = b;
	x->done = krdma_batch_xfer_done;
	x->uid = ctx->uid;
	x->pid = task_tgid_nr(current);
	x->deadline = ktime_add_safe(ktime_get(), min_t(u64, timeout, KTIME_MAX));
	x->status = krdma_op_prepare(ctx, op, x, why);
	if (x->status)
		return;
	atomic_inc(&b->pending);
	krdma_xfer_submit(x);
}

static int krdma_submit_wait(struct krdma_batch *b)
{
	u32 i;

	if (!wait_for_completion_killable(&b->done))
		return 0;
	for (i = 0; i < b->n; i++)
		if (b->x[i].owner)
			krdma_xfer_cancel(&b->x[i], -ECANCELED);
	return -EINTR;
}

static int krdma_submit_report(struct krdma_batch *b, struct krdma_submit *cmd,
			       struct krdma_why *why)
{
	void __user *to = u64_to_user_ptr(cmd->completions);
	size_t head = min_t(size_t, cmd->completion_stride, sizeof(struct krdma_completion));
	u32 i;

	cmd->failed = 0;
	for (i = 0; i < b->n; i++, to += cmd->completion_stride) {
		struct krdma_completion comp = {
			.user_data = b->x[i].user_data,
			.result = b->x[i].moved,
			.status = b->x[i].status,
		};

		if (comp.status) {
			cmd->failed++;
			krdma_xfer_explain(&b->x[i], why);
		}
		if (copy_to_user(to, &comp, head) ||
		    clear_user(to + head, cmd->completion_stride - head)) {
			/* That is why the call fails, whatever an operation came to. */
			why->err = 0;
			return krdma_explain(why, -EFAULT, "completion %u can't be written", i);
		}
	}
	return 0;
}

static int krdma_submit_ops(struct krdma_ctx *ctx, struct krdma_submit *cmd, struct krdma_batch *b,
			    struct krdma_op *ops, struct krdma_why *why)
{
	const void __user *from = u64_to_user_ptr(cmd->ops);
	u32 i;
	int rc;

	for (i = 0; i < cmd->count; i++, from += cmd->op_stride) {
		rc = copy_struct_from_user(&ops[i], sizeof(*ops), from, cmd->op_stride);
		if (rc)
			return krdma_explain(why, rc, "operation %u can't be read (%pe)", i,
					     ERR_PTR(rc));
		INIT_LIST_HEAD(&b->x[i].all);
		INIT_LIST_HEAD(&b->x[i].node);
		b->n = i + 1;
		rc = krdma_op_check(ctx, &ops[i], &b->x[i], why);
		if (rc)
			return rc;
	}
	for (i = 0; i < cmd->count; i++)
		krdma_op_start(ctx, b, &ops[i], &b->x[i], why);
	return 0;
}

/**
 * krdma_submit - KRDMA_IOC_SUBMIT
 * @ctx: open file
 * @cmd: the command; failed is set
 * @why: explanation, also of the first operation that failed
 *
 * Context: process, of the user.
 * Return: 0 or a negative errno
 */
int krdma_submit(struct krdma_ctx *ctx, struct krdma_submit *cmd, struct krdma_why *why)
{
	struct krdma_batch *b;
	struct krdma_op *ops;
	int rc;

	if (!cmd->count || cmd->count > KRDMA_SUBMIT_MAX)
		return krdma_explain(why, -EINVAL, "a submission has 1 to %u operations",
				     KRDMA_SUBMIT_MAX);
	if (cmd->op_stride < sizeof(struct krdma_op) || cmd->op_stride > PAGE_SIZE ||
	    cmd->completion_stride < sizeof(struct krdma_completion) ||
	    cmd->completion_stride > PAGE_SIZE)
		return krdma_explain(why, -EINVAL,
				     "a stride is shorter than its struct, or longer than a page");

	b = kvzalloc(struct_size(b, x, cmd->count), GFP_KERNEL_ACCOUNT);
	ops = kvcalloc(cmd->count, sizeof(*ops), GFP_KERNEL_ACCOUNT);
	if (!b || !ops) {
		kvfree(b);
		kvfree(ops);
		return -ENOMEM;
	}
	refcount_set(&b->refs, 2);
	atomic_set(&b->pending, 1);
	init_completion(&b->done);
	INIT_WORK(&b->work, krdma_batch_work);

	rc = krdma_submit_ops(ctx, cmd, b, ops, why);
	krdma_batch_ended(b);
	kvfree(ops);
	if (!rc)
		rc = krdma_submit_wait(b);
	else
		wait_for_completion(&b->done);
	if (!rc)
		rc = krdma_submit_report(b, cmd, why);
	/* ORDER: nothing is pinned any more when the user gets its status. */
	if (rc != -EINTR)
		krdma_batch_drop(b);
	krdma_batch_put(b);
	return rc;
}
