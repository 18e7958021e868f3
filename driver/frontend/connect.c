// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions that nobody waits for while they connect: an eventfd is signalled when it is clear what
 * has become of one. The entry in the wait queue of the session ends with the id, which holds the
 * session.
 */
#include <linux/eventfd.h>

#include "compat.h"
#include "frontend/ctx.h"

struct krdma_connecting {
	struct wait_queue_entry entry; /* of sess->wait; on no list when it has signalled */
	struct krdma_ctx *ctx;         /* outlives the id */
	struct krdma_session *sess;
	struct eventfd_ctx *eventfd;
};

/* The queue's lock is held. */
static void krdma_connecting_leave(struct krdma_connecting *c)
{
	if (list_empty(&c->entry.entry))
		return;
	list_del_init(&c->entry.entry);
	atomic_dec(&c->ctx->nconnecting);
}

/* Of wake_up(): the queue's lock is held. */
static int krdma_connecting_woken(struct wait_queue_entry *entry, unsigned int mode, int flags,
				  void *key)
{
	struct krdma_connecting *c = container_of(entry, struct krdma_connecting, entry);

	if (krdma_session_settled(c->sess)) {
		krdma_connecting_leave(c);
		krdma_eventfd_signal(c->eventfd);
	}
	return 0;
}

/**
 * krdma_connecting_new - prepare to tell an eventfd what becomes of a session
 * @ctx: open file
 * @fd: of the caller
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: to be given to krdma_connecting_end; or an ERR_PTR
 */
struct krdma_connecting *krdma_connecting_new(struct krdma_ctx *ctx, int fd,
					      struct krdma_error *error)
{
	struct krdma_connecting *c = krdma_inject(kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT), NULL);
	int rc;

	if (!c)
		return ERR_PTR(-ENOMEM);
	init_waitqueue_func_entry(&c->entry, krdma_connecting_woken);
	INIT_LIST_HEAD(&c->entry.entry);
	c->ctx = ctx;
	c->eventfd = krdma_eventfd_get(fd, error);
	rc = PTR_ERR_OR_ZERO(c->eventfd);
	if (rc)
		goto out;
	if (atomic_inc_return(&ctx->nconnecting) > KRDMA_CTX_CONNECTS_MAX) {
		atomic_dec(&ctx->nconnecting);
		eventfd_ctx_put(c->eventfd);
		rc = krdma_explain(
			error, -EDQUOT,
			"an open file may have %u connects whose eventfd is not signalled yet",
			KRDMA_CTX_CONNECTS_MAX);
		goto out;
	}
	return c;

out:
	kfree(c);
	return ERR_PTR(rc);
}

/**
 * krdma_connecting_begin - begin to wait for a session
 * @c: from krdma_connecting_new
 * @sess: session, which is held until krdma_connecting_end
 *
 * Context: process.
 */
void krdma_connecting_begin(struct krdma_connecting *c, struct krdma_session *sess)
{
	c->sess = sess;
	spin_lock_irq(&sess->wait.lock);
	__add_wait_queue(&sess->wait, &c->entry);
	/* ORDER: whoever has settled it before this wakes nobody any more. */
	krdma_connecting_woken(&c->entry, 0, 0, NULL);
	spin_unlock_irq(&sess->wait.lock);
}

/**
 * krdma_connecting_end - signal the eventfd no more
 * @c: from krdma_connecting_new
 *
 * Context: process.
 */
void krdma_connecting_end(struct krdma_connecting *c)
{
	if (c->sess) {
		spin_lock_irq(&c->sess->wait.lock);
		krdma_connecting_leave(c);
		spin_unlock_irq(&c->sess->wait.lock);
	} else {
		atomic_dec(&c->ctx->nconnecting);
	}
	eventfd_ctx_put(c->eventfd);
	kfree(c);
}

/**
 * krdma_session_handle_get - the handle of a session that is not about to be connected
 * @ctx: open file
 * @id: from the user
 * @error: explanation
 *
 * Context: process.
 * Return: the handle with a reference; ERR_PTR(-EAGAIN), or as krdma_handle_get()
 */
struct krdma_handle *krdma_session_handle_get(struct krdma_ctx *ctx, u32 id,
					      struct krdma_error *error)
{
	struct krdma_handle *h = krdma_handle_get(ctx, id, KRDMA_HANDLE_SESSION, error);
	bool connecting;

	if (IS_ERR(h))
		return h;
	/* ORDER: what a session agrees on with its peer is seen when it is seen to be up. */
	spin_lock_bh(&h->sess->lock);
	connecting = h->sess->state == KRDMA_SESSION_CONNECTING;
	spin_unlock_bh(&h->sess->lock);
	if (!connecting)
		return h;
	krdma_handle_put(h);
	return ERR_PTR(krdma_explain(error, -EAGAIN, "session %u is being connected", id));
}

/* Was the eventfd signalled? */
static bool krdma_connecting_over(struct krdma_connecting *c)
{
	bool over;

	if (!c)
		return false;
	spin_lock_irq(&c->sess->wait.lock);
	over = list_empty(&c->entry.entry);
	spin_unlock_irq(&c->sess->wait.lock);
	return over;
}

/**
 * krdma_connected - what has become of a session that was not waited for
 * @ctx: open file
 * @id: from the user
 * @error: explanation
 *
 * Context: process.
 * Return: 0 if it is up, or was when its eventfd was signalled; -EAGAIN if that is not clear yet;
 *	or a negative errno
 */
int krdma_connected(struct krdma_ctx *ctx, u32 id, struct krdma_error *error)
{
	struct krdma_handle *h = krdma_handle_get(ctx, id, KRDMA_HANDLE_SESSION, error);
	struct krdma_session *sess;
	const char *cause;
	bool over;
	int rc;

	if (IS_ERR(h))
		return PTR_ERR(h);
	sess = h->sess;
	/* No second signal comes if its connection was lost since: other calls wait for that. */
	over = krdma_connecting_over(h->connecting);
	spin_lock_bh(&sess->lock);
	rc = sess->err ?: over || krdma_session_is_up(sess) ? 0 : -EAGAIN;
	cause = sess->err ? sess->cause : "that is not decided yet";
	spin_unlock_bh(&sess->lock);
	if (rc)
		krdma_explain(error, rc, "can't connect to %pISpc: %s", &sess->dst,
			      cause ?: "it failed");
	krdma_handle_put(h);
	return rc;
}
