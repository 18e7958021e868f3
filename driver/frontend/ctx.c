// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts: what an open file has, or a client in the kernel. Its ids, which stand
 * for sessions, regions, buffers and exports, and the last errors of its threads.
 *
 * Closing a file hands everything to a work, so that close and exit never wait for
 * a peer.
 */
#include <linux/cpumask.h>
#include <linux/overflow.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "frontend/ctx.h"

/* ---- handles ---- */

/* By operations, which find it in their lane. */
static bool krdma_handle_used(enum krdma_handle_type type)
{
	return type == KRDMA_HANDLE_REGION || type == KRDMA_HANDLE_BUFFER;
}

/**
 * krdma_handle_new - a handle without an object, and an id that nobody finds yet
 * @ctx: open file
 * @type: what it will be
 * @id: out
 * @error: explanation
 *
 * Context: process.
 * Return: the handle, to be stored under the id once it has its object, or to be given to
 *	krdma_handle_remove; or an ERR_PTR
 */
struct krdma_handle *krdma_handle_new(struct krdma_ctx *ctx, enum krdma_handle_type type, u32 *id,
				      struct krdma_error *error)
{
	struct krdma_handle *h =
		krdma_inject(kzalloc(struct_size(h, on, krdma_handle_used(type) ? ctx->nlanes : 0),
				     GFP_KERNEL_ACCOUNT),
			     NULL);
	int rc;

	if (!h)
		return ERR_PTR(-ENOMEM);
	h->type = type;
	refcount_set(&h->refs, 1);
	INIT_LIST_HEAD(&h->turns);
	krdma_submitter_init(&h->submitter);
	if (atomic_inc_return(&ctx->nhandles) > KRDMA_IDS_MAX) {
		rc = krdma_explain(error, -EDQUOT, "an open file may have %u objects",
				   KRDMA_IDS_MAX);
		goto out;
	}
	/* Reserved: nobody finds it. */
	rc = krdma_inject(xa_alloc(&ctx->handles, id, NULL, XA_LIMIT(1, INT_MAX),
				   GFP_KERNEL_ACCOUNT),
			  -ENOMEM);
	if (rc)
		goto out;
	h->id = *id;
	return h;

out:
	atomic_dec(&ctx->nhandles);
	kfree(h);
	return ERR_PTR(rc);
}

/**
 * krdma_handle_missing - an id is not what it must be
 * @id: from the user
 * @type: what it must be
 * @error: explanation
 *
 * Context: process.
 * Return: -ENOENT
 */
int krdma_handle_missing(u32 id, enum krdma_handle_type type, struct krdma_error *error)
{
	static const char *const names[] = {
		[KRDMA_HANDLE_SESSION] = "session",
		[KRDMA_HANDLE_REGION] = "region",
		[KRDMA_HANDLE_BUFFER] = "buffer",
		[KRDMA_HANDLE_EXPORT] = "export",
	};

	return krdma_explain(error, -ENOENT, "%u is not a %s of this file", id, names[type]);
}

/**
 * krdma_handle_get - the handle of an id, for a call; operations have krdma_use_begin()
 * @ctx: open file
 * @id: from the user
 * @type: what it must be
 * @error: explanation
 *
 * Context: process.
 * Return: the handle with a reference, or ERR_PTR(-ENOENT)
 */
struct krdma_handle *krdma_handle_get(struct krdma_ctx *ctx, u32 id, enum krdma_handle_type type,
				      struct krdma_error *error)
{
	struct krdma_handle *h;

	xa_lock(&ctx->handles);
	h = xa_load(&ctx->handles, id);
	if (h && h->type == type)
		refcount_inc(&h->refs);
	else
		h = NULL;
	xa_unlock(&ctx->handles);
	return h ?: ERR_PTR(krdma_handle_missing(id, type, error));
}

/**
 * krdma_handle_put - let go of a handle
 * @h: handle; with the last reference its object goes
 *
 * Context: process.
 */
void krdma_handle_put(struct krdma_handle *h)
{
	if (!refcount_dec_and_test(&h->refs))
		return;
	/* ORDER: before the session may go. */
	if (h->connecting)
		krdma_connecting_end(h->connecting);
	/* There was none to be had. */
	if (IS_ERR(h->object))
		goto out;
	switch (h->type) {
	case KRDMA_HANDLE_SESSION:
		krdma_session_leave(h->sess);
		break;
	case KRDMA_HANDLE_REGION:
		krdma_region_put(h->region);
		break;
	case KRDMA_HANDLE_BUFFER:
		krdma_mem_put(h->mem);
		break;
	case KRDMA_HANDLE_EXPORT:
		krdma_export_unpublish(h->export);
		break;
	}
out:
	kfree(h);
}

/*
 * When this returns no lane looks at it any more that has found it by its id, and requests that
 * use it count in its references.
 */
static void krdma_handle_leave(struct krdma_ctx *ctx, struct krdma_handle *h)
{
	struct krdma_lane *lane;

	krdma_for_each_lane(lane, ctx) {
		spin_lock_bh(&lane->lock);
		if (krdma_handle_used(h->type)) {
			h->on[lane->index].gone = true;
			refcount_add(h->on[lane->index].n, &h->refs);
		}
		if (lane->region == h)
			lane->region = NULL;
		if (lane->buffer == h)
			lane->buffer = NULL;
		spin_unlock_bh(&lane->lock);
	}
}

/* Nobody finds it by its id. A region ends now, though its operations hold the handle. */
static void krdma_handle_end(struct krdma_ctx *ctx, struct krdma_handle *h, bool waits)
{
	krdma_handle_leave(ctx, h);
	/* ORDER: no lane takes the next object of this id for it. */
	xa_erase(&ctx->handles, h->id);
	atomic_dec(&ctx->nhandles);
	if (h->type == KRDMA_HANDLE_REGION && !IS_ERR(h->region)) {
		kref_get(&h->region->ref);
		krdma_region_close(h->region, waits);
		krdma_session_leave(h->region->sess);
	}
	krdma_handle_put(h);
}

/**
 * krdma_handle_remove - end an id and what it stands for
 * @ctx: open file
 * @id: from the user, or of krdma_handle_new
 * @h: the handle, perhaps with an ERR_PTR for its object; NULL for the one that is stored
 *	under @id
 *
 * Context: process.
 * Return: 0, or -ENOENT
 */
int krdma_handle_remove(struct krdma_ctx *ctx, u32 id, struct krdma_handle *h)
{
	struct krdma_handle *found;

	xa_lock(&ctx->handles);
	found = xa_load(&ctx->handles, id);
	h = h ?: found;
	/* Reserved, as before it was stored. */
	if (h)
		__xa_store(&ctx->handles, id, NULL, 0);
	xa_unlock(&ctx->handles);
	if (!h)
		return -ENOENT;
	krdma_handle_end(ctx, h, true);
	return 0;
}

/* ---- errors ---- */

static struct krdma_thread_error *krdma_error_of(struct krdma_ctx *ctx, pid_t tid)
{
	u32 i;

	for (i = 0; i < KRDMA_ERRORS; i++)
		if (ctx->errors[i].tid == tid)
			return &ctx->errors[i];
	return NULL;
}

/* Where nobody has said more. */
static const char *const krdma_sentences[] = {
	[EFAULT] = "memory of the command can't be read",
	[E2BIG] = "the command has fields that this module does not know",
	[EOPNOTSUPP] = "the command has flags that this module does not know",
	[EINVAL] = "a reserved field of the command is not zero",
	[ENOMEM] = "this host is out of memory",
	[EINTR] = "a fatal signal ended the call",
};

/**
 * krdma_error_keep - keep the error text of a failed call for KRDMA_IOC_LAST_ERROR
 * @ctx: open file
 * @error: the text, or none so far
 * @rc: negative errno, 0 if only an operation has failed
 *
 * Context: process, of the thread that called.
 */
void krdma_error_keep(struct krdma_ctx *ctx, struct krdma_error *error, int rc)
{
	const char *sentence = -rc < ARRAY_SIZE(krdma_sentences) ? krdma_sentences[-rc] : NULL;
	struct krdma_thread_error *kept;

	krdma_explain(error, rc, "%s", sentence ?: "the call failed");
	spin_lock(&ctx->error_lock);
	kept = krdma_error_of(ctx, task_pid_nr(current));
	if (!kept)
		kept = &ctx->errors[ctx->next_error++ % KRDMA_ERRORS];
	ctx->last_error = kept - ctx->errors;
	kept->tid = task_pid_nr(current);
	kept->error.err = error->err;
	strscpy_pad(kept->error.text, error->text, sizeof(kept->error.text));
	spin_unlock(&ctx->error_lock);
}

/**
 * krdma_error_last - the error text of the last failed call
 * @ctx: open file
 * @cmd: out: the text of the calling thread; if none of that thread is kept, the text of the
 *	last failed call of any thread
 *
 * Context: process, of the thread that calls.
 */
void krdma_error_last(struct krdma_ctx *ctx, struct krdma_ioc_last_error *cmd)
{
	struct krdma_thread_error *kept;

	spin_lock(&ctx->error_lock);
	kept = krdma_error_of(ctx, task_pid_nr(current)) ?: &ctx->errors[ctx->last_error];
	cmd->error = kept->error.err;
	memcpy(cmd->text, kept->error.text, sizeof(cmd->text));
	spin_unlock(&ctx->error_lock);
}

/* ---- contexts ---- */

static void krdma_ctx_release(struct kref *ref)
{
	struct krdma_ctx *ctx = container_of(ref, struct krdma_ctx, ref);
	struct krdma_lane *lane;

	krdma_for_each_lane(lane, ctx) {
		krdma_reqs_free(lane->idle);
		kfree(lane->call);
	}
	krdma_payer_put(ctx->payer);
	krdma_user_put(ctx->user);
	put_net(ctx->net);
	kfree(ctx);
}

/**
 * krdma_ctx_put - let go of a context
 * @ctx: context
 *
 * Context: process.
 */
void krdma_ctx_put(struct krdma_ctx *ctx)
{
	kref_put(&ctx->ref, krdma_ctx_release);
}

static void krdma_ctx_close_work(struct work_struct *work)
{
	struct krdma_ctx *ctx = container_of(work, struct krdma_ctx, close_work);
	struct krdma_handle *h;
	unsigned long id;

	krdma_listeners_drop(ctx);
	krdma_submit_close(ctx);
	xa_for_each(&ctx->handles, id, h)
		krdma_handle_end(ctx, h, false);
	xa_destroy(&ctx->handles);
	krdma_ctx_put(ctx);
}

/**
 * krdma_ctx_new - make a context
 * @net: network namespace for all that is done in it
 * @uid: the user that it acts as
 *
 * Context: process.
 * Return: the context with a reference, or NULL
 */
struct krdma_ctx *krdma_ctx_new(struct net *net, kuid_t uid)
{
	u32 n = min_t(u32, num_online_cpus(), KRDMA_LANES_MAX), i;
	struct krdma_ctx *ctx;

	ctx = krdma_inject(kzalloc(struct_size(ctx, lanes, n), GFP_KERNEL_ACCOUNT), NULL);
	if (!ctx)
		return NULL;
	ctx->user = krdma_user_of(uid);
	if (!ctx->user)
		goto out_ctx;
	ctx->payer = krdma_payer_new(ctx->user);
	if (!ctx->payer)
		goto out_user;
	kref_init(&ctx->ref);
	ctx->net = get_net(net);
	xa_init_flags(&ctx->handles, XA_FLAGS_ALLOC1);
	spin_lock_init(&ctx->error_lock);
	INIT_WORK(&ctx->close_work, krdma_ctx_close_work);
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->ended);
	ctx->room = KRDMA_CTX_OPS_MAX;
	init_waitqueue_head(&ctx->wait);
	ctx->nlanes = n;
	for (i = 0; i < n; i++) {
		struct krdma_lane *lane = &ctx->lanes[i];

		spin_lock_init(&lane->lock);
		lane->index = i;
		INIT_LIST_HEAD(&lane->reqs);
		INIT_LIST_HEAD(&lane->over);
	}
	INIT_DELAYED_WORK(&ctx->reap_work, krdma_submit_reap_work);
	return ctx;

out_user:
	krdma_user_put(ctx->user);
out_ctx:
	kfree(ctx);
	return NULL;
}
