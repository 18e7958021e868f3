// SPDX-License-Identifier: GPL-2.0
/*
 * Operations by ioctl: done while the caller waits (struct krdma_batch), or
 * asynchronous, with completions to be read from the file.
 *
 * The requests of a call are a list by ->next, and the first one has what they share
 * (struct krdma_batch). It belongs to two: the waiter and the transfers under way. The waiter
 * gives memory and references back before it returns to the user. When it was
 * killed, it cancels the transfers and leaves, and the last of them hands the
 * batch to a work, since unpinning may sleep.
 *
 * An asynchronous operation is on lane->reqs until it ends, then on ctx->ended
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

static void krdma_batch_work(struct work_struct *work)
{
	krdma_reqs_give(container_of(work, struct krdma_req, batch.work));
}

static void krdma_batch_ended(struct krdma_batch *b)
{
	if (!atomic_dec_and_test(&b->pending))
		return;
	/* The waiter has left, or it has the batch from here on. */
	if (atomic_inc_return(&b->met) == 2)
		queue_work(krdma_local_wq, &b->work);
	else
		complete(&b->done);
}

static void krdma_batch_req_end(struct krdma_req *r)
{
	struct krdma_batch *b = r->frontend;

	/* ORDER: last: only the waiter touches it from here on. */
	smp_store_release(&r->over, true);
	krdma_batch_ended(b);
}

/* Those that have ended are not kept pinned by those that have not. */
static void krdma_batch_unpin(struct krdma_req *r)
{
	for (; r; r = r->next)
		/* ORDER: what its end has written is seen. */
		if (smp_load_acquire(&r->over))
			krdma_req_unpin(r);
}

/* Return: 0; or -EINTR: the batch is the caller's no more */
static int krdma_batch_wait(struct krdma_req *first)
{
	struct krdma_batch *b = &first->batch;
	/* One alone has nobody to wait for. */
	long limit = first->next ? msecs_to_jiffies(KRDMA_REAP_MS) : MAX_SCHEDULE_TIMEOUT, left;
	struct krdma_req *r;

	while (!(left = wait_for_completion_killable_timeout(&b->done, limit)))
		krdma_batch_unpin(first);
	if (left > 0)
		return 0;
	for (r = first; r; r = r->next)
		if (r->started)
			krdma_transfer_cancel(&r->x, -ECANCELED);
	if (atomic_inc_return(&b->met) == 2) {
		/* They have ended meanwhile, the last one just now. */
		wait_for_completion(&b->done);
		krdma_reqs_give(first);
	}
	return -EINTR;
}

static int krdma_batch_report(struct krdma_req *r, struct krdma_ioc_submit *cmd,
			      struct krdma_error *error)
{
	void __user *to = u64_to_user_ptr(cmd->completions);
	u32 i;

	for (i = 0; r; r = r->next, i++, to += cmd->completion_stride) {
		struct krdma_transfer *x = &r->x;
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

/* A request for each operation of a command, by ->next, which are all looked at; or an ERR_PTR. */
static struct krdma_req *krdma_ops_read(struct krdma_ctx *ctx, const struct krdma_ioc_submit *cmd,
					struct krdma_error *error)
{
	const void __user *from = u64_to_user_ptr(cmd->ops);
	/* All of a call are of one, whatever processor it is on meanwhile. */
	struct krdma_lane *lane = krdma_lane_of(ctx);
	struct krdma_req *first = NULL, **link = &first, *r;
	struct krdma_op op;
	int rc = 0;
	u32 i;

	for (i = 0; i < cmd->count && !rc; i++, from += cmd->op_stride) {
		rc = krdma_op_copy(&op, from, cmd->op_stride);
		if (rc) {
			krdma_explain(error, rc, "operation %u can't be read (%pe)", i,
				      ERR_PTR(rc));
			break;
		}
		r = krdma_req_new(lane, ctx, &op, false);
		if (IS_ERR(r)) {
			rc = PTR_ERR(r);
			break;
		}
		*link = r;
		link = &r->next;
		rc = krdma_req_check(&op, false, r, error);
	}
	if (!rc)
		return first;
	krdma_reqs_give(first);
	return ERR_PTR(rc);
}

/* Return: how many are under way, or were; the others have a status */
static u32 krdma_batch_start(struct krdma_req *first, u32 count, struct krdma_error *error)
{
	struct krdma_queue batch = KRDMA_QUEUE_INIT(batch);
	struct krdma_batch *b = &first->batch;
	struct krdma_req *r;
	u32 n = 0;

	krdma_reqs_prepare(first, count, error);
	for (r = first; r; r = r->next) {
		if (r->x.status)
			continue;
		r->frontend = b;
		r->end = krdma_batch_req_end;
		krdma_queue_add(&batch, &r->x);
		n++;
	}
	atomic_set(&b->pending, n);
	atomic_set(&b->met, 0);
	init_completion(&b->done);
	INIT_WORK(&b->work, krdma_batch_work);
	krdma_reqs_submit(&batch);
	return n;
}

static int krdma_submit_sync(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd,
			     struct krdma_error *error)
{
	struct krdma_req *first;
	int rc;

	first = krdma_ops_read(ctx, cmd, error);
	if (IS_ERR(first))
		return PTR_ERR(first);
	cmd->accepted = cmd->count;
	if (krdma_batch_start(first, cmd->count, error)) {
		rc = krdma_batch_wait(first);
		if (rc)
			return rc;
	}
	rc = krdma_batch_report(first, cmd, error);
	/* ORDER: nothing is pinned any more when the user gets its status. */
	krdma_reqs_give(first);
	return rc;
}

/* ---- asynchronous ---- */

/**
 * krdma_reap_later - see to it that what nobody reads is unpinned
 * @ctx: open file
 *
 * Context: the lock held of the list that it is on.
 */
void krdma_reap_later(struct krdma_ctx *ctx)
{
	/*
	 * ORDER: under the lock: the one that takes a request from a list may free the context;
	 * and what is pending will look at the list.
	 */
	if (delayed_work_pending(&ctx->reap_work))
		return;
	if (queue_delayed_work(krdma_local_wq, &ctx->reap_work,
			       READ_ONCE(ctx->closed) ? 0 : msecs_to_jiffies(KRDMA_REAP_MS)))
		kref_get(&ctx->ref);
}

static void krdma_async_end(struct krdma_req *r)
{
	struct krdma_ctx *ctx = r->ctx;

	spin_lock_bh(&ctx->lock);
	list_add_tail(&r->all, &ctx->ended);
	if (r->pins.charged || r->buffer || ctx->closed)
		krdma_reap_later(ctx);
	if (ctx->eventfd)
		krdma_eventfd_signal(ctx->eventfd);
	/* Who waits has looked under the lock, and was on the queue before. */
	if (waitqueue_active(&ctx->wait))
		wake_up(&ctx->wait);
	spin_unlock_bh(&ctx->lock);
}

static u32 krdma_room_take(struct krdma_ctx *ctx, u32 n)
{
	u32 got;

	/* Mostly it is enough, and the lanes keep theirs. */
	if (READ_ONCE(ctx->room) < n)
		krdma_room_collect(ctx);
	do {
		spin_lock_bh(&ctx->lock);
		got = min(n, ctx->room);
		ctx->room -= got;
		ctx->nasync += got;
		spin_unlock_bh(&ctx->lock);
		/* A lane may be faster. */
	} while (!got && krdma_room_collect(ctx));
	return got;
}

static void krdma_room_put(struct krdma_ctx *ctx, u32 n)
{
	spin_lock_bh(&ctx->lock);
	ctx->room += n;
	ctx->nasync -= n;
	/* Who waits has looked under the lock, and was on the queue before. */
	if (waitqueue_active(&ctx->wait))
		wake_up(&ctx->wait);
	spin_unlock_bh(&ctx->lock);
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

static int krdma_submit_async(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd, bool nonblock,
			      struct krdma_error *error)
{
	struct krdma_queue batch = KRDMA_QUEUE_INIT(batch);
	struct krdma_req *first, *r, *next;
	int room, i = 0;

	room = krdma_room(ctx, cmd->count, nonblock);
	if (room == -EAGAIN)
		krdma_explain(error, room, "%u operations of the file are under way, or not read",
			      KRDMA_CTX_OPS_MAX);
	if (room < 0)
		return room;
	/* All are looked at, also those that there is no room for. */
	first = krdma_ops_read(ctx, cmd, error);
	if (IS_ERR(first)) {
		krdma_room_put(ctx, room);
		return PTR_ERR(first);
	}
	/* What fails here has a completion like the others. */
	krdma_reqs_prepare(first, room, NULL);
	for (r = first; r && i < room; r = next, i++) {
		next = r->next;
		r->end = krdma_async_end;
		krdma_queue_add(&batch, &r->x);
	}
	krdma_reqs_give(r);
	krdma_reqs_submit(&batch);
	cmd->accepted = room;
	return 0;
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
	struct krdma_lane *lane;
	struct krdma_req *r;

	cmd->count = 0;
	krdma_for_each_lane(lane, ctx) {
		spin_lock_bh(&lane->lock);
		list_for_each_entry(r, &lane->reqs, all) {
			/* Somebody waits for the batch. */
			if (r->end == krdma_batch_req_end ||
			    (!(cmd->flags & KRDMA_CANCEL_ALL) && r->x.user_data != cmd->user_data))
				continue;
			krdma_transfer_cancel(&r->x, -ECANCELED);
			cmd->count++;
		}
		spin_unlock_bh(&lane->lock);
	}
}

/* ---- completions ---- */

/**
 * krdma_eventfd_get - an eventfd of the caller
 * @fd: its number
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: the eventfd with a reference, ERR_PTR(-EBADF) or ERR_PTR(-EINVAL)
 */
struct eventfd_ctx *krdma_eventfd_get(int fd, struct krdma_error *error)
{
	struct eventfd_ctx *eventfd = krdma_inject(eventfd_ctx_fdget(fd), ERR_PTR(-ENOMEM));

	if (IS_ERR(eventfd))
		krdma_explain(error, PTR_ERR(eventfd), "file descriptor %d is not an eventfd", fd);
	return eventfd;
}

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
	struct eventfd_ctx *eventfd = fd == -1 ? NULL : krdma_eventfd_get(fd, error);

	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);
	spin_lock_bh(&ctx->lock);
	swap(ctx->eventfd, eventfd);
	spin_unlock_bh(&ctx->lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
	return 0;
}

/* Unless somebody is at it (@busy). Those behind it have ended later. */
static struct krdma_req *krdma_ended_first(struct krdma_ctx *ctx, bool *busy)
{
	struct krdma_req *r = list_first_entry_or_null(&ctx->ended, struct krdma_req, all);

	lockdep_assert_held(&ctx->lock);
	*busy = r && r->unpinning;
	return *busy ? NULL : r;
}

/* With pages that only wait for their process, its own or those of a buffer that was destroyed. */
static struct krdma_req *krdma_pinned_first(struct list_head *list)
{
	struct krdma_req *r;

	list_for_each_entry(r, list, all)
		if ((r->pins.charged || r->buffer) && !r->x.lost)
			return r;
	return NULL;
}

static struct krdma_req *krdma_ended_take(struct krdma_ctx *ctx, bool *busy)
{
	struct krdma_req *r;

	spin_lock_bh(&ctx->lock);
	r = krdma_ended_first(ctx, busy);
	if (r)
		list_del_init(&r->all);
	spin_unlock_bh(&ctx->lock);
	return r;
}

static bool krdma_ended_wait(struct krdma_ctx *ctx)
{
	bool over, busy;

	spin_lock_bh(&ctx->lock);
	over = krdma_ended_first(ctx, &busy) || !ctx->nasync;
	spin_unlock_bh(&ctx->lock);
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
	struct krdma_req *read = NULL, *r;
	struct krdma_error error;
	size_t done = 0;
	int rc = 0;

	krdma_error_init(&error);
	if (size < sizeof(struct krdma_completion))
		return -EINVAL;
	while (size - done >= sizeof(struct krdma_completion)) {
		struct krdma_completion comp = {};
		bool busy;

		r = krdma_ended_take(ctx, &busy);
		/* It has ended, and its reader was notified. */
		if (busy) {
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
			if (rc || !READ_ONCE(ctx->nasync))
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
			spin_lock_bh(&ctx->lock);
			list_add(&r->all, &ctx->ended);
			wake_up(&ctx->wait);
			spin_unlock_bh(&ctx->lock);
			rc = -EFAULT;
			break;
		}
		r->next = read;
		read = r;
		done += sizeof(comp);
	}
	krdma_reqs_give(read);
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
	if (!READ_ONCE(ctx->room))
		krdma_room_collect(ctx);
	spin_lock_bh(&ctx->lock);
	if (!list_empty(&ctx->ended))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (ctx->room)
		mask |= EPOLLOUT | EPOLLWRNORM;
	spin_unlock_bh(&ctx->lock);
	return mask;
}

/* Nobody has read these for a while: their memory must not stay pinned for it. */
static void krdma_reap_list(struct krdma_ctx *ctx, struct list_head *list, spinlock_t *lock)
{
	struct krdma_req *r;

	spin_lock_bh(lock);
	while (!READ_ONCE(ctx->closed) && (r = krdma_pinned_first(list))) {
		r->unpinning = true;
		WRITE_ONCE(ctx->unpinning, true);
		spin_unlock_bh(lock);
		krdma_req_unpin(r);
		spin_lock_bh(lock);
		WRITE_ONCE(r->unpinning, false);
		WRITE_ONCE(ctx->unpinning, false);
		wake_up(&ctx->wait);
	}
	spin_unlock_bh(lock);
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
	struct krdma_lane *lane;
	struct krdma_req *r;
	bool busy;

	krdma_reap_list(ctx, &ctx->ended, &ctx->lock);
	krdma_for_each_lane(lane, ctx)
		krdma_reap_list(ctx, &lane->over, &lane->lock);
	while (READ_ONCE(ctx->closed) && (r = krdma_ended_take(ctx, &busy))) {
		r->next = NULL;
		krdma_reqs_give(r);
	}
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
	struct krdma_lane *lane;
	struct krdma_req *r;

	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->closed, true);
	eventfd = ctx->eventfd;
	ctx->eventfd = NULL;
	spin_unlock_bh(&ctx->lock);
	krdma_for_each_lane(lane, ctx) {
		spin_lock_bh(&lane->lock);
		/* From here on each request has a reference of its own. */
		lane->gone = true;
		refcount_add(lane->nreqs, &ctx->ref.refcount);
		list_for_each_entry(r, &lane->reqs, all)
			krdma_transfer_cancel(&r->x, -ECANCELED);
		spin_unlock_bh(&lane->lock);
	}
	/* Of those, reap_work may be at one. */
	kref_get(&ctx->ref);
	if (mod_delayed_work(krdma_local_wq, &ctx->reap_work, 0))
		krdma_ctx_put(ctx);
	if (eventfd)
		eventfd_ctx_put(eventfd);
}
