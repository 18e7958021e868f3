// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes: what the operations of a file count and hold, by processor. Each lane keeps requests to be
 * used again, has room for operations of io_uring, and knows how many of its requests use an id.
 * When an id or the file goes, these counts become references (Documentation/lifetime.rst, "Counts
 * by lane").
 */
#include <linux/slab.h>

#include "frontend/ctx.h"

static struct kmem_cache *krdma_req_cache;

/**
 * krdma_reqs_init - what requests are allocated from
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_reqs_init(void)
{
	krdma_req_cache = KMEM_CACHE(krdma_req, SLAB_ACCOUNT);
	return krdma_req_cache ? 0 : -ENOMEM;
}

/**
 * krdma_reqs_exit - undo krdma_reqs_init
 *
 * Context: process; no request is left.
 */
void krdma_reqs_exit(void)
{
	kmem_cache_destroy(krdma_req_cache);
}

/* ---- room ---- */

/**
 * krdma_room_collect - have all room that the lanes do not need
 * @ctx: context
 *
 * Context: any; no lock of the context held.
 * Return: there was some
 */
bool krdma_room_collect(struct krdma_ctx *ctx)
{
	struct krdma_lane *lane;
	u32 room = 0;

	krdma_for_each_lane(lane, ctx) {
		spin_lock_bh(&lane->lock);
		spin_lock(&ctx->lock);
		ctx->room += lane->room;
		lane->room = 0;
		room = ctx->room;
		spin_unlock(&ctx->lock);
		spin_unlock_bh(&lane->lock);
	}
	return room;
}

static bool krdma_room_more(struct krdma_lane *lane, struct krdma_ctx *ctx)
{
	u32 n;

	spin_lock_bh(&lane->lock);
	spin_lock(&ctx->lock);
	/* A process that waits was on the queue before it looked at this lane: it gets the rest. */
	n = min_t(u32, ctx->room, waitqueue_active(&ctx->wait) ? 1 : KRDMA_LANE_ROOM);
	ctx->room -= n;
	lane->room += n;
	n = lane->room;
	spin_unlock(&ctx->lock);
	spin_unlock_bh(&lane->lock);
	return n;
}

/* Return: there is room for one more */
static bool krdma_room_fill(struct krdma_lane *lane, struct krdma_ctx *ctx)
{
	while (!krdma_room_more(lane, ctx))
		/* Another lane may be faster. */
		if (!krdma_room_collect(ctx))
			return false;
	return true;
}

/* Room comes back. */
static void krdma_room_back(struct krdma_lane *lane, struct krdma_ctx *ctx, u32 n)
{
	/* A process that waits was on the queue before it looked under the lock. */
	bool wanted = waitqueue_active(&ctx->wait);

	lockdep_assert_held(&lane->lock);
	lane->room += n;
	if (likely(!wanted && lane->room <= 2 * KRDMA_LANE_ROOM))
		return;
	n = wanted ? lane->room : KRDMA_LANE_ROOM;
	lane->room -= n;
	spin_lock(&ctx->lock);
	ctx->room += n;
	spin_unlock(&ctx->lock);
	if (wanted)
		wake_up(&ctx->wait);
}

/* ---- requests ---- */

/**
 * krdma_req_new - a request for an operation
 * @lane: a lane of the context
 * @ctx: context
 * @op: the operation, copied from the user; the ids that it has are looked up, not checked
 * @room: it takes room of its lane; others that nobody waits for have theirs of the file
 *
 * Context: process.
 * Return: the request, for krdma_req_check; -ENOMEM; or -EDQUOT: there is no room
 */
struct krdma_req *krdma_req_new(struct krdma_lane *lane, struct krdma_ctx *ctx,
				const struct krdma_op *op, bool room)
{
	struct krdma_handle *h, *buffer = NULL;
	struct krdma_req *r = NULL;

again:
	spin_lock_bh(&lane->lock);
	if (room && unlikely(!lane->room)) {
		spin_unlock_bh(&lane->lock);
		if (krdma_room_fill(lane, ctx))
			goto again;
		if (r)
			kmem_cache_free(krdma_req_cache, r);
		return ERR_PTR(-EDQUOT);
	}
	if (likely(!r)) {
		r = lane->idle;
		if (unlikely(!r)) {
			spin_unlock_bh(&lane->lock);
			r = krdma_inject(kmem_cache_alloc(krdma_req_cache, GFP_KERNEL), NULL);
			if (r)
				goto again;
			return ERR_PTR(-ENOMEM);
		}
		lane->idle = r->next;
		lane->nidle--;
	}
	if (room)
		lane->room--;
	h = krdma_use_begin(ctx, lane, &lane->region, op->region, KRDMA_HANDLE_REGION);
	if (op->flags & KRDMA_OPF_BUFFER)
		buffer = krdma_use_begin(ctx, lane, &lane->buffer, op->buffer, KRDMA_HANDLE_BUFFER);
	lane->nreqs++;
	spin_unlock_bh(&lane->lock);
	/* What follows has no meaning before it is set. */
	memset_startat(r, 0, pins.bvec);
	r->ctx = ctx;
	r->lane = lane;
	r->h = h;
	r->buffer = buffer;
	r->room = room;
	krdma_error_init(&r->error);
	/* It may be cancelled before it is started. */
	krdma_transfer_init(&r->x);
	return r;
}

/* Its own pages; those of a buffer are the buffer's. */
static void krdma_req_unpin_pages(struct krdma_req *r)
{
	/* Lost on purpose: a device may still reach it. */
	if (r->pins.charged && !r->x.lost)
		krdma_pages_unpin(&r->pins, r->ctx->payer, r->x.local.fills);
}

/**
 * krdma_req_unpin - give back the memory of an operation
 * @r: request that has ended; twice does no harm
 *
 * Context: process, may sleep.
 */
void krdma_req_unpin(struct krdma_req *r)
{
	krdma_req_unpin_pages(r);
	/* Its id is gone, or krdma_req_done() would have been enough. */
	if (unlikely(r->buffer) && !r->x.lost) {
		krdma_handle_put(r->buffer);
		r->buffer = NULL;
	}
}

static void krdma_reqs_destroy(struct krdma_req *r)
{
	struct krdma_req *next;

	for (; r; r = next) {
		next = r->next;
		if (r->h)
			krdma_handle_put(r->h);
		if (r->buffer && !r->x.lost)
			krdma_handle_put(r->buffer);
		kmem_cache_free(krdma_req_cache, r);
	}
}

/* Those of a lane that follow each other. Return: the rest */
static struct krdma_req *krdma_lane_give(struct krdma_req *first, struct krdma_req **link)
{
	struct krdma_req *r, *next, *rest = NULL;
	struct krdma_lane *lane = first->lane;
	struct krdma_ctx *ctx = first->ctx;
	u32 room = 0, refs = 0;

	for (r = first; r && r->lane == lane; r = r->next) {
		krdma_req_unpin_pages(r);
		if (r->vecs)
			kvfree(r->vecs);
	}
	spin_lock_bh(&lane->lock);
	if (link)
		*link = NULL;
	for (r = first; r && r->lane == lane; r = next) {
		next = r->next;
		r->h = krdma_use_end(lane, r->h);
		if (!r->x.lost)
			r->buffer = krdma_use_end(lane, r->buffer);
		room += r->room;
		refs++;
		if (likely(!r->h && !r->buffer && lane->nidle < KRDMA_LANE_IDLE)) {
			r->next = lane->idle;
			lane->idle = r;
			lane->nidle++;
		} else {
			r->next = rest;
			rest = r;
		}
	}
	if (room)
		krdma_room_back(lane, ctx, room);
	if (likely(!lane->gone)) {
		lane->nreqs -= refs;
		refs = 0;
	}
	spin_unlock_bh(&lane->lock);
	/* ORDER: without a reference the context may be gone. */
	krdma_reqs_destroy(rest);
	while (refs--)
		krdma_ctx_put(ctx);
	return r;
}

/**
 * krdma_reqs_give - give back requests, and what they hold
 * @r: the first, or NULL, the others by ->next: they have ended, or were not started
 *
 * Context: process, may sleep.
 */
void krdma_reqs_give(struct krdma_req *r)
{
	while (r)
		r = krdma_lane_give(r, NULL);
}

/* On lane->over, where reap_work may be at it: off that list. */
static noinline void krdma_req_reaped(struct krdma_req *r)
{
	struct krdma_lane *lane = r->lane;

	spin_lock_bh(&lane->lock);
	while (unlikely(r->unpinning)) {
		spin_unlock_bh(&lane->lock);
		wait_event(r->ctx->wait, !READ_ONCE(r->unpinning));
		spin_lock_bh(&lane->lock);
	}
	list_del_init(&r->all);
	spin_unlock_bh(&lane->lock);
}

/**
 * krdma_req_leave - give back a request that others know
 * @r: request that has ended, or was not started
 * @link: the pointer to it that they follow under the lock of its lane; NULL from then on
 *
 * Context: process, may sleep.
 */
void krdma_req_leave(struct krdma_req *r, struct krdma_req **link)
{
	/* Mostly it is on no list. */
	if (r->started && unlikely(!list_empty(&r->all)))
		krdma_req_reaped(r);
	krdma_lane_give(r, link);
}

/**
 * krdma_reqs_free - free what a lane has kept
 * @idle: the requests, by ->next
 *
 * Context: any.
 */
void krdma_reqs_free(struct krdma_req *idle)
{
	struct krdma_req *next;

	for (; idle; idle = next) {
		next = idle->next;
		kmem_cache_free(krdma_req_cache, idle);
	}
}
