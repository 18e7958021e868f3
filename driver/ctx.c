// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts: what an open file has, or a client in the kernel. Its ids, which stand
 * for sessions, regions, buffers and exports, and the last errors of its threads. And
 * users, who may have many.
 *
 * Closing a file hands everything to a work, so that close and exit never wait for
 * a peer.
 */
#include <linux/pid.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "ctx.h"

/* ---- handles ---- */

/**
 * krdma_handle_new - a handle without an object, and an id that nobody finds yet
 * @ctx: open file
 * @type: what it will be
 * @id: out
 * @error: explanation
 *
 * Context: process.
 * Return: the handle, for krdma_handle_publish, krdma_handle_remove once it has its
 *	object, or krdma_handle_abort; or an ERR_PTR
 */
struct krdma_handle *krdma_handle_new(struct krdma_ctx *ctx, enum krdma_handle_type type, u32 *id,
				      struct krdma_error *error)
{
	struct krdma_handle *h = kzalloc(sizeof(*h), GFP_KERNEL_ACCOUNT);
	int rc;

	if (!h)
		return ERR_PTR(-ENOMEM);
	h->type = type;
	refcount_set(&h->refs, 1);
	INIT_LIST_HEAD(&h->turns);
	if (atomic_inc_return(&ctx->nhandles) > KRDMA_IDS_MAX) {
		rc = krdma_explain(error, -EDQUOT, "an open file may have %u objects",
				   KRDMA_IDS_MAX);
		goto out;
	}
	/* Reserved: nobody finds it. */
	rc = xa_alloc(&ctx->handles, id, NULL, XA_LIMIT(1, INT_MAX), GFP_KERNEL_ACCOUNT);
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
 * krdma_handle_abort - undo krdma_handle_new
 * @ctx: open file
 * @h: handle without an object
 * @id: its id
 *
 * Context: process.
 */
void krdma_handle_abort(struct krdma_ctx *ctx, struct krdma_handle *h, u32 id)
{
	xa_erase(&ctx->handles, id);
	atomic_dec(&ctx->nhandles);
	kfree(h);
}

/**
 * krdma_handle_publish - let a handle be found
 * @ctx: open file
 * @h: handle with its object
 * @id: its id
 *
 * Context: process.
 */
void krdma_handle_publish(struct krdma_ctx *ctx, struct krdma_handle *h, u32 id)
{
	/* The slot is reserved, so that this does not allocate. */
	xa_store(&ctx->handles, id, h, 0);
}

/**
 * krdma_handle_get - the handle of an id
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
	static const char *const names[] = {
		[KRDMA_HANDLE_SESSION] = "session",
		[KRDMA_HANDLE_REGION] = "region",
		[KRDMA_HANDLE_BUFFER] = "buffer",
		[KRDMA_HANDLE_EXPORT] = "export",
	};
	struct krdma_handle *h;

	xa_lock(&ctx->handles);
	h = ctx->last[type];
	/* Mostly it is that of the call before. */
	if (!h || h->id != id)
		h = xa_load(&ctx->handles, id);
	if (h && h->type == type) {
		refcount_inc(&h->refs);
		ctx->last[type] = h;
	} else {
		h = NULL;
	}
	xa_unlock(&ctx->handles);
	if (!h)
		return ERR_PTR(krdma_explain(error, -ENOENT, "%u is not a %s of this file", id,
					     names[type]));
	return h;
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
	default:
		break;
	}
	kfree(h);
}

/* Its id is gone. A region ends now, though its operations hold the handle. */
static void krdma_handle_end(struct krdma_handle *h)
{
	struct krdma_session *sess;

	if (h->type == KRDMA_HANDLE_REGION) {
		sess = h->region->sess;
		kref_get(&h->region->ref);
		krdma_region_close(h->region);
		krdma_session_leave(sess);
	}
	krdma_handle_put(h);
}

/**
 * krdma_handle_remove - end an id and what it stands for
 * @ctx: open file
 * @id: from the user, or of krdma_handle_new
 * @h: the handle; NULL for the one that is published under @id
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
	if (h) {
		__xa_erase(&ctx->handles, id);
		if (ctx->last[h->type] == h)
			ctx->last[h->type] = NULL;
	}
	xa_unlock(&ctx->handles);
	if (!h)
		return -ENOENT;
	atomic_dec(&ctx->nhandles);
	krdma_handle_end(h);
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
static const char *krdma_sentence(int rc)
{
	switch (rc) {
	case -EFAULT:
		return "memory of the command can't be read";
	case -E2BIG:
		return "the command has fields that this module does not know";
	case -EOPNOTSUPP:
		return "the command has flags that this module does not know";
	case -EINVAL:
		return "a reserved field of the command is not zero";
	case -ENOMEM:
		return "this host is out of memory";
	case -EINTR:
		return "a fatal signal ended the call";
	default:
		return "the call failed";
	}
}

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
	struct krdma_thread_error *kept;

	krdma_explain(error, rc, "%s", krdma_sentence(rc));
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
 * @error: out: of the calling thread, or of the last call of any thread if that one has
 *	none that is kept
 *
 * Context: process, of the thread that calls.
 */
void krdma_error_last(struct krdma_ctx *ctx, struct krdma_error *error)
{
	struct krdma_thread_error *kept;

	spin_lock(&ctx->error_lock);
	kept = krdma_error_of(ctx, task_pid_nr(current)) ?: &ctx->errors[ctx->last_error];
	*error = kept->error;
	spin_unlock(&ctx->error_lock);
}

/* ---- users ---- */

static DEFINE_SPINLOCK(krdma_users_lock);
static LIST_HEAD(krdma_users);

static struct krdma_user *krdma_user_find(kuid_t uid)
{
	struct krdma_user *user;

	lockdep_assert_held(&krdma_users_lock);
	list_for_each_entry(user, &krdma_users, node)
		if (uid_eq(user->uid, uid))
			return krdma_user_get(user);
	return NULL;
}

/* A user, with a reference; NULL without memory. */
static struct krdma_user *krdma_user_of(kuid_t uid)
{
	struct krdma_user *user, *new;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;
	new->uid = uid;
	refcount_set(&new->refs, 1);
	spin_lock(&krdma_users_lock);
	user = krdma_user_find(uid);
	if (!user)
		list_add(&new->node, &krdma_users);
	spin_unlock(&krdma_users_lock);
	if (!user)
		return new;
	kfree(new);
	return user;
}

/**
 * krdma_user_put - let go of a user
 * @user: the user
 *
 * Context: process.
 */
void krdma_user_put(struct krdma_user *user)
{
	bool last;

	spin_lock(&krdma_users_lock);
	last = refcount_dec_and_test(&user->refs);
	if (last)
		list_del(&user->node);
	spin_unlock(&krdma_users_lock);
	if (last)
		kfree(user);
}

/* ---- contexts ---- */

static void krdma_ctx_release(struct kref *ref)
{
	struct krdma_ctx *ctx = container_of(ref, struct krdma_ctx, ref);

	krdma_reqs_free(&ctx->idle);
	kfree(ctx->call);
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
	xa_for_each(&ctx->handles, id, h) {
		xa_erase(&ctx->handles, id);
		krdma_handle_end(h);
	}
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
	struct krdma_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return NULL;
	ctx->user = krdma_user_of(uid);
	if (!ctx->user) {
		kfree(ctx);
		return NULL;
	}
	kref_init(&ctx->ref);
	ctx->net = get_net(net);
	ctx->pinned_limit = totalram_pages() / 2;
	xa_init_flags(&ctx->handles, XA_FLAGS_ALLOC1);
	spin_lock_init(&ctx->error_lock);
	INIT_WORK(&ctx->close_work, krdma_ctx_close_work);
	spin_lock_init(&ctx->reqs_lock);
	INIT_LIST_HEAD(&ctx->reqs);
	INIT_LIST_HEAD(&ctx->ended);
	INIT_LIST_HEAD(&ctx->over);
	init_waitqueue_head(&ctx->wait);
	init_llist_head(&ctx->idle);
	INIT_DELAYED_WORK(&ctx->reap_work, krdma_submit_reap_work);
	return ctx;
}

/**
 * krdma_ctx_close - end a context
 * @ctx: context that nobody calls any more; its reference goes with this
 *
 * Context: any.
 */
void krdma_ctx_close(struct krdma_ctx *ctx)
{
	queue_work(krdma_close_wq, &ctx->close_work);
}
