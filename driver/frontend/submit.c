// SPDX-License-Identifier: GPL-2.0
/*
 * Operations by ioctl: done while the caller waits (struct krdma_batch), or
 * asynchronous, with completions to be read from the file.
 *
 * A batch belongs to two: the waiter and the transfers under way. The waiter
 * gives memory and references back before it returns to the user. When it was
 * killed, it cancels the transfers and leaves, and the last of them hands the
 * batch to a work, since unpinning may sleep.
 *
 * An asynchronous operation is on ctx->reqs until it ends, then on ctx->ended
 * until who reads its completion gives its memory back. When the file is closed
 * a work does that.
 */
#include <linux/eventfd.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "frontend/ctx.h"

/* ---- while the caller waits ---- */

struct krdma_batch {
	refcount_t refs;  /* the waiter, the transfers */
	atomic_t pending; /* transfers, and the submission */
	struct completion done;
	struct work_struct work;
	u32 n;
	struct krdma_req *r[];
};

static void krdma_batch_drop(struct krdma_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++)
		krdma_req_drop(b->r[i]);
}

static void krdma_batch_work(struct work_struct *work)
{
	struct krdma_batch *b = container_of(work, struct krdma_batch, work);

	krdma_reqs_give(b->r, b->n);
	kvfree(b);
}

static void krdma_batch_ended(struct krdma_batch *b)
{
	if (!atomic_dec_and_test(&b->pending))
		return;
	complete(&b->done);
	if (refcount_dec_and_test(&b->refs))
		queue_work(krdma_wq, &b->work);
}

static void krdma_batch_req_end(struct krdma_req *r)
{
	struct krdma_batch *b = r->frontend;

	/* ORDER: last: only the waiter touches it from here on. */
	smp_store_release(&r->over, true);
	krdma_batch_ended(b);
}

/* Those that have ended are not kept pinned by those that have not. */
static void krdma_batch_unpin(struct krdma_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++)
		/* ORDER: what its end has written is seen. */
		if (smp_load_acquire(&b->r[i]->over))
			krdma_req_unpin(b->r[i]);
}

static int krdma_batch_wait(struct krdma_batch *b)
{
	/* One alone has nobody to wait for. */
	long limit = b->n > 1 ? msecs_to_jiffies(KRDMA_REAP_MS) : MAX_SCHEDULE_TIMEOUT, left;
	u32 i;

	while (!(left = wait_for_completion_killable_timeout(&b->done, limit)))
		krdma_batch_unpin(b);
	if (left > 0)
		return 0;
	for (i = 0; i < b->n; i++)
		if (b->r[i]->started)
			krdma_transfer_cancel(&b->r[i]->x, -ECANCELED);
	return -EINTR;
}

static int krdma_batch_report(struct krdma_batch *b, struct krdma_ioc_submit *cmd,
			      struct krdma_error *error)
{
	void __user *to = u64_to_user_ptr(cmd->completions);
	u32 i;

	for (i = 0; i < b->n; i++, to += cmd->completion_stride) {
		struct krdma_transfer *x = &b->r[i]->x;
		struct krdma_completion comp = {
			.user_data = x->user_data,
			.result = x->moved,
			.status = x->status,
		};
		size_t more = cmd->completion_stride - sizeof(comp);

		if (comp.status) {
			cmd->failed++;
			krdma_transfer_explain(x, error);
		}
		if (copy_to_user(to, &comp, sizeof(comp)) ||
		    (more && clear_user(to + sizeof(comp), more))) {
			/* That is why the call fails, whatever an operation came to. */
			error->err = 0;
			return krdma_explain(error, -EFAULT, "completion %u can't be written", i);
		}
	}
	return 0;
}

/* Mostly it has the struct that is known here. */
static int krdma_op_copy(struct krdma_op *op, const void __user *from, size_t size)
{
	if (likely(size == sizeof(*op)))
		return copy_from_user(op, from, sizeof(*op)) ? -EFAULT : 0;
	return copy_struct_from_user(op, sizeof(*op), from, size);
}

/* A request for each operation of a command, which are all looked at; or none. */
static int krdma_ops_read(struct krdma_ctx *ctx, const struct krdma_ioc_submit *cmd,
			  struct krdma_req **reqs, struct krdma_error *error)
{
	const void __user *from = u64_to_user_ptr(cmd->ops);
	struct krdma_op op;
	int rc;
	u32 i;

	rc = krdma_reqs_take(ctx, reqs, cmd->count);
	if (rc)
		return rc;
	for (i = 0; i < cmd->count && !rc; i++, from += cmd->op_stride) {
		rc = krdma_op_copy(&op, from, cmd->op_stride);
		if (rc)
			krdma_explain(error, rc, "operation %u can't be read (%pe)", i,
				      ERR_PTR(rc));
		else
			rc = krdma_req_check(&op, false, reqs[i], error);
	}
	if (rc)
		krdma_reqs_give(reqs, cmd->count);
	return rc;
}

static void krdma_batch_start(struct krdma_batch *b, struct krdma_error *error)
{
	struct krdma_queue batch = KRDMA_QUEUE_INIT(batch);
	u32 i;

	for (i = 0; i < b->n; i++) {
		struct krdma_req *r = b->r[i];

		r->x.status = krdma_req_prepare(r, error);
		if (r->x.status)
			continue;
		r->frontend = b;
		r->end = krdma_batch_req_end;
		atomic_inc(&b->pending);
		krdma_queue_add(&batch, &r->x);
	}
	krdma_reqs_submit(&batch);
	krdma_batch_ended(b);
}

static int krdma_submit_sync(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd,
			     struct krdma_error *error)
{
	struct krdma_batch *b;
	int rc;

	b = krdma_inject(kvzalloc(struct_size(b, r, cmd->count), GFP_KERNEL_ACCOUNT), NULL);
	if (!b)
		return -ENOMEM;
	rc = krdma_ops_read(ctx, cmd, b->r, error);
	if (rc) {
		kvfree(b);
		return rc;
	}
	refcount_set(&b->refs, 2);
	atomic_set(&b->pending, 1);
	init_completion(&b->done);
	INIT_WORK(&b->work, krdma_batch_work);
	b->n = cmd->count;
	krdma_batch_start(b, error);
	rc = krdma_batch_wait(b);
	if (!rc)
		rc = krdma_batch_report(b, cmd, error);
	cmd->accepted = cmd->count;
	/* ORDER: nothing is pinned any more when the user gets its status. */
	if (rc != -EINTR)
		krdma_batch_drop(b);
	/* Mostly the transfers are through with it: no need for a work. */
	if (refcount_dec_and_test(&b->refs))
		krdma_batch_work(&b->work);
	return rc;
}

/* ---- asynchronous ---- */

/**
 * krdma_reap_later - see to it that what nobody reads is unpinned
 * @ctx: open file
 *
 * Context: ctx->reqs_lock held.
 */
void krdma_reap_later(struct krdma_ctx *ctx)
{
	/* ORDER: under the lock: the one that takes a request from a list may free the context. */
	lockdep_assert_held(&ctx->reqs_lock);
	if (queue_delayed_work(krdma_wq, &ctx->reap_work,
			       ctx->closed ? 0 : msecs_to_jiffies(KRDMA_REAP_MS)))
		kref_get(&ctx->ref);
}

static void krdma_async_end(struct krdma_req *r)
{
	struct krdma_ctx *ctx = r->ctx;

	spin_lock_bh(&ctx->reqs_lock);
	list_add_tail(&r->all, &ctx->ended);
	if (r->pins.charged || ctx->closed)
		krdma_reap_later(ctx);
	if (ctx->eventfd)
		krdma_eventfd_signal(ctx->eventfd);
	/* Who waits has looked under the lock, and was on the queue before. */
	if (waitqueue_active(&ctx->wait))
		wake_up(&ctx->wait);
	spin_unlock_bh(&ctx->reqs_lock);
}

static u32 krdma_room_take(struct krdma_ctx *ctx, u32 n)
{
	spin_lock_bh(&ctx->reqs_lock);
	n = min(n, KRDMA_CTX_OPS_MAX - ctx->nreqs);
	ctx->nreqs += n;
	spin_unlock_bh(&ctx->reqs_lock);
	return n;
}

/* Give room back; ctx->reqs_lock is held. */
static void krdma_room_add(struct krdma_ctx *ctx, u32 n)
{
	ctx->nreqs -= n;
	/* Who waits has looked under the lock, and was on the queue before. */
	if (waitqueue_active(&ctx->wait))
		wake_up(&ctx->wait);
}

static void krdma_room_put(struct krdma_ctx *ctx, u32 n)
{
	spin_lock_bh(&ctx->reqs_lock);
	krdma_room_add(ctx, n);
	spin_unlock_bh(&ctx->reqs_lock);
}

/* Room for operations that nobody waits for: for 1 at least, or -EAGAIN, -ERESTARTSYS. */
static int krdma_room(struct krdma_ctx *ctx, u32 n, bool nonblock)
{
	u32 got = krdma_room_take(ctx, n);

	if (got)
		return got;
	if (nonblock)
		return -EAGAIN;
	return wait_event_interruptible(ctx->wait, (got = krdma_room_take(ctx, n))) ?: got;
}

/**
 * krdma_submit_enter - a request for an operation that nobody waits for, if there is room
 * @ctx: open file
 *
 * Context: process.
 * Return: the request, for krdma_submit_leave; -EDQUOT, -ENOMEM
 */
struct krdma_req *krdma_submit_enter(struct krdma_ctx *ctx)
{
	struct krdma_req *r = NULL;
	bool room;

	spin_lock_bh(&ctx->reqs_lock);
	room = ctx->nreqs < KRDMA_CTX_OPS_MAX;
	if (room) {
		ctx->nreqs++;
		r = krdma_req_idle(ctx);
	}
	spin_unlock_bh(&ctx->reqs_lock);
	if (!room)
		return ERR_PTR(-EDQUOT);
	r = krdma_req_new(ctx, r);
	if (r)
		return r;
	krdma_room_put(ctx, 1);
	return ERR_PTR(-ENOMEM);
}

/**
 * krdma_submit_leave - give the request and its room back
 * @r: request that has ended or was not started
 * @link: the pointer to it that others follow under ctx->reqs_lock; NULL from then on
 *
 * Context: process, may sleep.
 */
void krdma_submit_leave(struct krdma_req *r, struct krdma_req **link)
{
	struct krdma_ctx *ctx = r->ctx;

	spin_lock_bh(&ctx->reqs_lock);
	while (unlikely(r->unpinning)) {
		spin_unlock_bh(&ctx->reqs_lock);
		wait_event(ctx->wait, !READ_ONCE(r->unpinning));
		spin_lock_bh(&ctx->reqs_lock);
	}
	/* It is on ctx->over, or on none. */
	if (r->started)
		list_del_init(&r->all);
	*link = NULL;
	krdma_req_keep(r);
	krdma_room_add(ctx, 1);
	spin_unlock_bh(&ctx->reqs_lock);
	krdma_req_free(r);
}

static int krdma_submit_async(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd, bool nonblock,
			      struct krdma_error *error)
{
	struct krdma_queue batch = KRDMA_QUEUE_INIT(batch);
	struct krdma_req **reqs, *r;
	int room, rc;
	u32 i;

	room = krdma_room(ctx, cmd->count, nonblock);
	if (room == -EAGAIN)
		krdma_explain(error, room, "%u operations of the file are under way, or not read",
			      KRDMA_CTX_OPS_MAX);
	if (room < 0)
		return room;
	reqs = krdma_inject(kvmalloc_array(cmd->count, sizeof(*reqs), GFP_KERNEL_ACCOUNT), NULL);
	/* All are looked at, also those that there is no room for. */
	rc = reqs ? krdma_ops_read(ctx, cmd, reqs, error) : -ENOMEM;
	for (i = 0; i < cmd->count && !rc; i++) {
		r = reqs[i];
		if (i >= room) {
			krdma_req_free(r);
			continue;
		}
		r->end = krdma_async_end;
		/* What fails here has a completion like the others. */
		r->x.status = krdma_req_prepare(r, &r->error);
		krdma_queue_add(&batch, &r->x);
	}
	krdma_reqs_submit(&batch);
	kvfree(reqs);
	if (rc)
		krdma_room_put(ctx, room);
	else
		cmd->accepted = room;
	return rc;
}

/**
 * krdma_submit - KRDMA_IOC_SUBMIT
 * @ctx: open file
 * @cmd: the command; failed and accepted are set
 * @nonblock: the file has O_NONBLOCK
 * @error: explanation, also of the first operation that failed
 *
 * Context: process, of the user.
 * Return: 0 or a negative errno
 */
int krdma_submit(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd, bool nonblock,
		 struct krdma_error *error)
{
	bool async = cmd->flags & KRDMA_SUBMIT_ASYNC;

	if (!cmd->count || cmd->count > KRDMA_SUBMIT_MAX)
		return krdma_explain(error, -EINVAL, "a submission has 1 to %u operations",
				     KRDMA_SUBMIT_MAX);
	if (cmd->reserved || (async && (cmd->completions || cmd->completion_stride)))
		return -EINVAL;
	if (cmd->op_stride < sizeof(struct krdma_op) || cmd->op_stride > PAGE_SIZE ||
	    (!async && (cmd->completion_stride < sizeof(struct krdma_completion) ||
			cmd->completion_stride > PAGE_SIZE)))
		return krdma_explain(error, -EINVAL,
				     "a stride is shorter than its struct, or longer than a page");
	cmd->failed = 0;
	return async ? krdma_submit_async(ctx, cmd, nonblock, error) :
		       krdma_submit_sync(ctx, cmd, error);
}

/**
 * krdma_cancel - KRDMA_IOC_CANCEL
 * @ctx: open file
 * @cmd: the command; count is set
 *
 * Context: process.
 */
void krdma_cancel(struct krdma_ctx *ctx, struct krdma_ioc_cancel *cmd)
{
	struct krdma_req *r;

	cmd->count = 0;
	spin_lock_bh(&ctx->reqs_lock);
	list_for_each_entry(r, &ctx->reqs, all) {
		/* Somebody waits for the batch. */
		if (r->end == krdma_batch_req_end ||
		    (!(cmd->flags & KRDMA_CANCEL_ALL) && r->x.user_data != cmd->user_data))
			continue;
		krdma_transfer_cancel(&r->x, -ECANCELED);
		cmd->count++;
	}
	spin_unlock_bh(&ctx->reqs_lock);
}

/* ---- completions ---- */

/**
 * krdma_eventfd_set - KRDMA_IOC_EVENTFD
 * @ctx: open file
 * @fd: an eventfd of the caller, -1 for none
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: 0, -EBADF or -EINVAL
 */
int krdma_eventfd_set(struct krdma_ctx *ctx, int fd, struct krdma_error *error)
{
	struct eventfd_ctx *eventfd = NULL;

	if (fd != -1)
		eventfd = krdma_inject(eventfd_ctx_fdget(fd), ERR_PTR(-ENOMEM));
	if (IS_ERR(eventfd))
		return krdma_explain(error, PTR_ERR(eventfd),
				     "file descriptor %d is not an eventfd", fd);
	spin_lock_bh(&ctx->reqs_lock);
	swap(ctx->eventfd, eventfd);
	spin_unlock_bh(&ctx->reqs_lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
	return 0;
}

/* That nobody is at. */
static struct krdma_req *krdma_ended_first(struct krdma_ctx *ctx)
{
	struct krdma_req *r;

	lockdep_assert_held(&ctx->reqs_lock);
	list_for_each_entry(r, &ctx->ended, all)
		if (!r->unpinning)
			return r;
	return NULL;
}

/* With pages that only wait for their process. */
static struct krdma_req *krdma_pinned_first(struct list_head *list)
{
	struct krdma_req *r;

	list_for_each_entry(r, list, all)
		if (r->pins.charged && !r->x.lost)
			return r;
	return NULL;
}

static struct krdma_req *krdma_ended_take(struct krdma_ctx *ctx)
{
	struct krdma_req *r;

	spin_lock_bh(&ctx->reqs_lock);
	r = krdma_ended_first(ctx);
	if (r) {
		list_del_init(&r->all);
		krdma_req_keep(r);
	}
	spin_unlock_bh(&ctx->reqs_lock);
	return r;
}

static bool krdma_ended_wait(struct krdma_ctx *ctx)
{
	bool over;

	spin_lock_bh(&ctx->reqs_lock);
	over = krdma_ended_first(ctx) || !ctx->nreqs;
	spin_unlock_bh(&ctx->reqs_lock);
	return over;
}

/**
 * krdma_reap - read completions: ->read of the file
 * @file: open file; O_NONBLOCK: do not wait for the first
 * @buf: where they go
 * @size: its bytes
 * @pos: not used
 *
 * Context: process, of the user.
 * Return: bytes; 0 if nothing is under way; or a negative errno
 */
ssize_t krdma_reap(struct file *file, char __user *buf, size_t size, loff_t *pos)
{
	struct krdma_ctx *ctx = file->private_data;
	struct krdma_error error;
	struct krdma_req *r;
	size_t done = 0;
	int rc = 0;

	krdma_error_init(&error);
	if (size < sizeof(struct krdma_completion))
		return -EINVAL;
	while (size - done >= sizeof(struct krdma_completion)) {
		struct krdma_completion comp = {};

		r = krdma_ended_take(ctx);
		/* It has ended, and its reader was notified. */
		if (!r && READ_ONCE(ctx->unpinning)) {
			wait_event(ctx->wait, !READ_ONCE(ctx->unpinning));
			continue;
		}
		if (!r && (done || (file->f_flags & O_NONBLOCK))) {
			rc = -EAGAIN;
			break;
		}
		if (!r) {
			rc = wait_event_interruptible(ctx->wait, krdma_ended_wait(ctx));
			/* Another reader may be faster, or there is none to wait for. */
			if (rc || !READ_ONCE(ctx->nreqs))
				break;
			continue;
		}
		comp.user_data = r->x.user_data;
		comp.result = r->x.moved;
		comp.status = r->x.status;
		if (r->error.err)
			krdma_explain(&error, r->x.status, "%s", r->error.text);
		else
			krdma_transfer_explain(&r->x, &error);
		/* ORDER: nothing is pinned any more when the user gets its status. */
		krdma_req_unpin(r);
		if (copy_to_user(buf + done, &comp, sizeof(comp))) {
			spin_lock_bh(&ctx->reqs_lock);
			list_add(&r->all, &ctx->ended);
			wake_up(&ctx->wait);
			spin_unlock_bh(&ctx->reqs_lock);
			rc = -EFAULT;
			break;
		}
		krdma_req_free(r);
		done += sizeof(comp);
	}
	if (done)
		krdma_room_put(ctx, done / sizeof(struct krdma_completion));
	if (error.err)
		krdma_error_keep(ctx, &error, 0);
	return done ?: rc;
}

/**
 * krdma_poll - what can be done with a file now: ->poll of the file
 * @file: open file
 * @wait: of the caller
 *
 * Context: process.
 * Return: EPOLL*
 */
__poll_t krdma_poll(struct file *file, poll_table *wait)
{
	struct krdma_ctx *ctx = file->private_data;
	__poll_t mask = 0;

	poll_wait(file, &ctx->wait, wait);
	spin_lock_bh(&ctx->reqs_lock);
	if (!list_empty(&ctx->ended))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (ctx->nreqs < KRDMA_CTX_OPS_MAX)
		mask |= EPOLLOUT | EPOLLWRNORM;
	spin_unlock_bh(&ctx->reqs_lock);
	return mask;
}

/**
 * krdma_submit_reap_work - unpin what nobody reads; end what nobody will
 * @work: of a context
 *
 * Context: work, with a reference.
 */
void krdma_submit_reap_work(struct work_struct *work)
{
	struct krdma_ctx *ctx = container_of(work, struct krdma_ctx, reap_work.work);
	struct krdma_req *r;

	/* Nobody has read these for a while: their memory must not stay pinned for it. */
	spin_lock_bh(&ctx->reqs_lock);
	while (!ctx->closed &&
	       (r = krdma_pinned_first(&ctx->ended) ?: krdma_pinned_first(&ctx->over))) {
		r->unpinning = true;
		ctx->unpinning = true;
		spin_unlock_bh(&ctx->reqs_lock);
		krdma_req_unpin(r);
		spin_lock_bh(&ctx->reqs_lock);
		r->unpinning = false;
		ctx->unpinning = false;
		wake_up(&ctx->wait);
	}
	spin_unlock_bh(&ctx->reqs_lock);
	while (READ_ONCE(ctx->closed) && (r = krdma_ended_take(ctx)))
		krdma_req_free(r);
	krdma_ctx_put(ctx);
}

/**
 * krdma_submit_close - the file goes: stop its operations
 * @ctx: context of a file that was closed
 *
 * Returns at once; what is on the wire ends later, and holds the context.
 *
 * Context: work.
 */
void krdma_submit_close(struct krdma_ctx *ctx)
{
	struct eventfd_ctx *eventfd;
	struct krdma_req *r;

	spin_lock_bh(&ctx->reqs_lock);
	ctx->closed = true;
	eventfd = ctx->eventfd;
	ctx->eventfd = NULL;
	list_for_each_entry(r, &ctx->reqs, all)
		krdma_transfer_cancel(&r->x, -ECANCELED);
	spin_unlock_bh(&ctx->reqs_lock);
	/* Of those, reap_work may be at one. */
	kref_get(&ctx->ref);
	if (mod_delayed_work(krdma_wq, &ctx->reap_work, 0))
		krdma_ctx_put(ctx);
	if (eventfd)
		eventfd_ctx_put(eventfd);
}
