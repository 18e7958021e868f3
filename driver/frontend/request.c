// SPDX-License-Identifier: GPL-2.0
/*
 * An operation of a process, whatever front end it comes through: struct krdma_op
 * checked once, its memory, its turn, and its end.
 *
 *	krdma_req_check		the struct, what it refers to; nothing to undo but drop
 *	krdma_req_prepare	pins and maps memory: may sleep, fails with the status
 *	krdma_reqs_submit	under way; ->end is called once, in any context
 *	krdma_req_drop		gives everything back: process context
 *
 * The front end reports the end to the user after the drop, never before.
 */
#include <linux/overflow.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "frontend/ctx.h"

static struct kmem_cache *krdma_req_cache;

/**
 * krdma_op_init - what requests are allocated from
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int krdma_op_init(void)
{
	krdma_req_cache = KMEM_CACHE(krdma_req, SLAB_ACCOUNT);
	return krdma_req_cache ? 0 : -ENOMEM;
}

/**
 * krdma_op_exit - undo krdma_op_init
 *
 * Context: process; no request is left.
 */
void krdma_op_exit(void)
{
	kmem_cache_destroy(krdma_req_cache);
}

/* ---- requests ---- */

/**
 * krdma_req_idle - a request that was used before
 * @ctx: context
 *
 * Context: ctx->reqs_lock held.
 * Return: the request, or NULL
 */
struct krdma_req *krdma_req_idle(struct krdma_ctx *ctx)
{
	struct llist_node *node = llist_del_first(&ctx->idle);

	lockdep_assert_held(&ctx->reqs_lock);
	if (!node)
		return NULL;
	ctx->nidle--;
	return llist_entry(node, struct krdma_req, idle);
}

/**
 * krdma_req_new - a request of a context
 * @ctx: context
 * @idle: from krdma_req_idle, or NULL
 *
 * Context: process.
 * Return: the request, for krdma_req_check; or NULL
 */
struct krdma_req *krdma_req_new(struct krdma_ctx *ctx, struct krdma_req *idle)
{
	struct krdma_req *r =
		idle ?: krdma_inject(kmem_cache_alloc(krdma_req_cache, GFP_KERNEL), NULL);

	if (!r)
		return NULL;
	/* What follows has no meaning before it is set. */
	memset_startat(r, 0, pins.bvec);
	r->ctx = ctx;
	kref_get(&ctx->ref);
	krdma_error_init(&r->error);
	/* It may be cancelled before it is started. */
	krdma_transfer_init(&r->x);
	return r;
}

/**
 * krdma_req_keep - have a request for the next operation, where there are few
 * @r: request, to be given to krdma_req_free soon
 *
 * Context: ctx->reqs_lock held.
 */
void krdma_req_keep(struct krdma_req *r)
{
	struct krdma_ctx *ctx = r->ctx;

	lockdep_assert_held(&ctx->reqs_lock);
	if (r->keep || ctx->nidle == KRDMA_CTX_IDLE)
		return;
	r->keep = true;
	ctx->nidle++;
}

/**
 * krdma_req_free - undo krdma_req_new
 * @r: request that has ended, or was not started; it is dropped, if it was not yet
 *
 * Context: process.
 */
void krdma_req_free(struct krdma_req *r)
{
	struct krdma_ctx *ctx = r->ctx;

	krdma_req_drop(r);
	if (r->keep)
		llist_add(&r->idle, &ctx->idle);
	else
		kmem_cache_free(krdma_req_cache, r);
	krdma_ctx_put(ctx);
}

/**
 * krdma_reqs_take - requests of a context
 * @ctx: context
 * @reqs: out
 * @n: how many
 *
 * Context: process.
 * Return: 0, or -ENOMEM and none
 */
int krdma_reqs_take(struct krdma_ctx *ctx, struct krdma_req **reqs, u32 n)
{
	u32 i, idle = 0;

	spin_lock_bh(&ctx->reqs_lock);
	while (idle < n && (reqs[idle] = krdma_req_idle(ctx)))
		idle++;
	spin_unlock_bh(&ctx->reqs_lock);
	for (i = 0; i < n; i++) {
		/* Never NULL for one that is there. */
		reqs[i] = krdma_req_new(ctx, i < idle ? reqs[i] : NULL);
		if (!reqs[i]) {
			krdma_reqs_give(reqs, i);
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * krdma_reqs_give - undo krdma_reqs_take
 * @reqs: requests that have ended, or were not started
 * @n: how many
 *
 * Context: process.
 */
void krdma_reqs_give(struct krdma_req **reqs, u32 n)
{
	struct krdma_ctx *ctx;
	u32 i;

	if (!n)
		return;
	ctx = reqs[0]->ctx;
	spin_lock_bh(&ctx->reqs_lock);
	for (i = 0; i < n; i++)
		krdma_req_keep(reqs[i]);
	spin_unlock_bh(&ctx->reqs_lock);
	for (i = 0; i < n; i++)
		krdma_req_free(reqs[i]);
}

/**
 * krdma_reqs_free - free what a context has kept
 * @idle: the requests
 *
 * Context: any.
 */
void krdma_reqs_free(struct llist_head *idle)
{
	struct krdma_req *r, *next;

	llist_for_each_entry_safe(r, next, llist_del_all(idle), idle)
		kmem_cache_free(krdma_req_cache, r);
}

/* ---- what the user asks for ---- */

/* What an operation that tells a number has beside that; of a buffer: krdma_op_buffer. */
static int krdma_op_number(const struct krdma_op *op, struct krdma_error *error)
{
	if (op->naddr || (!op->buffer && !IS_ALIGNED(op->addr, KRDMA_NUMBER_BYTES)))
		return krdma_explain(error, -EINVAL,
				     "a number goes to 8 bytes at a multiple of 8, not to pieces");
	if (krdma_opcode_atomic(op->opcode) && (op->length != KRDMA_NUMBER_BYTES || op->nranges ||
						!IS_ALIGNED(op->offset, KRDMA_NUMBER_BYTES)))
		return krdma_explain(
			error, -EINVAL,
			"an atomic operation is on 8 bytes of a region, at a multiple of 8");
	if (op->flags & KRDMA_OP_VERIFY)
		return krdma_explain(error, -EINVAL, "only READ and WRITE can be verified");
	return 0;
}

static int krdma_op_send(const struct krdma_op *op, struct krdma_error *error)
{
	if (op->offset || (op->flags & (KRDMA_OP_RANGES | KRDMA_OP_VERIFY | KRDMA_OP_MESSAGE)))
		return krdma_explain(error, -EINVAL,
				     "a message has neither an offset in the region nor ranges");
	if (op->length > KRDMA_MESSAGE_MAX)
		return krdma_explain(error, -EINVAL, "a message has %u bytes at most",
				     KRDMA_MESSAGE_MAX);
	return 0;
}

/* Bytes of local memory. */
static u64 krdma_op_local(const struct krdma_op *op)
{
	return krdma_opcode_number(op->opcode) ? KRDMA_NUMBER_BYTES : op->length;
}

static int krdma_op_fields(const struct krdma_op *op, bool fixed, struct krdma_error *error)
{
	const u32 known = KRDMA_OP_BUFFER | KRDMA_OP_VECTOR | KRDMA_OP_RANGES | KRDMA_OP_AFTER |
			  KRDMA_OP_VERIFY | KRDMA_OP_UNPLACED | KRDMA_OP_MESSAGE | KRDMA_OP_PLACED;
	const u32 place = KRDMA_OP_UNPLACED | KRDMA_OP_PLACED;
	bool send = op->opcode == KRDMA_OP_SEND;
	bool operand = krdma_opcode_atomic(op->opcode) || send || (op->flags & KRDMA_OP_MESSAGE);

	if (!krdma_opcode_right(op->opcode))
		return krdma_explain(error, -EOPNOTSUPP, "there is no operation %u", op->opcode);
	if (op->flags & ~known)
		return krdma_explain(error, -EOPNOTSUPP,
				     "the flags %#x of an operation are unknown", op->flags);
	if (op->reserved0 || op->reserved2 || (!operand && op->operand) ||
	    (op->opcode != KRDMA_OP_CMP_SWAP && op->compare) ||
	    (!(op->flags & KRDMA_OP_BUFFER) && op->buffer) ||
	    (!(op->flags & KRDMA_OP_VECTOR) && op->naddr) ||
	    (!(op->flags & KRDMA_OP_RANGES) && op->nranges))
		return krdma_explain(error, -EINVAL,
				     "a reserved field of an operation is not zero");
	if (fixed && (op->flags & (KRDMA_OP_BUFFER | KRDMA_OP_VECTOR)))
		return krdma_explain(
			error, -EOPNOTSUPP,
			"a buffer of io_uring can't be a buffer of this file, or a vector");
	if (((op->flags & KRDMA_OP_VECTOR) && (!op->naddr || op->naddr > KRDMA_VECTOR_MAX)) ||
	    ((op->flags & KRDMA_OP_RANGES) && (!op->nranges || op->nranges > KRDMA_VECTOR_MAX)))
		return krdma_explain(error, -EINVAL, "a vector has 1 to %u entries",
				     KRDMA_VECTOR_MAX);
	if (!op->length && !send)
		return krdma_explain(error, -EINVAL, "the length of an operation is 0");
	if ((op->flags & (place | KRDMA_OP_MESSAGE)) && op->opcode != KRDMA_OP_WRITE)
		return krdma_explain(error, -EINVAL, "only a WRITE can %s",
				     op->flags & KRDMA_OP_UNPLACED ? "be unplaced" :
				     op->flags & KRDMA_OP_PLACED   ? "be placed" :
								     "carry a message");
	if ((op->flags & place) == place)
		return krdma_explain(error, -EINVAL, "a WRITE is placed or unplaced, not both");
	if (send)
		return krdma_op_send(op, error);
	return krdma_opcode_number(op->opcode) ? krdma_op_number(op, error) : 0;
}

static int krdma_vector_copy(struct krdma_vec *to, u64 from, u32 n, u64 length, const char *what,
			     struct krdma_error *error)
{
	u64 sum = 0;
	u32 i;

	if (copy_from_user(to, u64_to_user_ptr(from), n * sizeof(*to)))
		return krdma_explain(error, -EFAULT, "the vector of %s can't be read", what);
	for (i = 0; i < n; i++)
		if (!to[i].length || check_add_overflow(sum, to[i].length, &sum))
			return krdma_explain(error, -EINVAL,
					     "entry %u of the vector of %s is malformed", i, what);
	if (sum != length)
		return krdma_explain(error, -EINVAL,
				     "the vector of %s has %llu bytes, the operation %llu", what,
				     sum, length);
	return 0;
}

/* Pieces and ranges, whether there is one or many. */
static int krdma_op_vectors(const struct krdma_op *op, struct krdma_req *r,
			    struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	u32 n = op->naddr + op->nranges;
	int rc = 0;

	x->one[0] = (struct krdma_vec){ .addr = op->addr, .length = krdma_op_local(op) };
	x->local.vec = &x->one[0];
	x->local.n = 1;
	/* A message is of no range. */
	x->one[1] = (struct krdma_vec){ .addr = op->offset,
					.length = op->opcode == KRDMA_OP_SEND ? 0 : op->length };
	x->range = &x->one[1];
	x->nrange = 1;
	if (!n)
		return 0;
	r->vecs = krdma_inject(kvmalloc_array(n, sizeof(*r->vecs), GFP_KERNEL_ACCOUNT), NULL);
	if (!r->vecs)
		return -ENOMEM;
	if (op->naddr) {
		rc = krdma_vector_copy(r->vecs, op->addr, op->naddr, op->length, "local memory",
				       error);
		x->local.vec = r->vecs;
		x->local.n = op->naddr;
	}
	if (!rc && op->nranges) {
		rc = krdma_vector_copy(r->vecs + op->naddr, op->offset, op->nranges, op->length,
				       "ranges", error);
		x->range = r->vecs + op->naddr;
		x->nrange = op->nranges;
	}
	return rc;
}

static int krdma_op_region(const struct krdma_op *op, struct krdma_req *r,
			   struct krdma_error *error)
{
	u32 right = krdma_opcode_right(op->opcode), lacks;
	struct krdma_transfer *x = &r->x;
	struct krdma_region *region;
	struct krdma_handle *h;
	u32 i;

	h = krdma_handle_get(r->ctx, op->region, KRDMA_HANDLE_REGION, error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	/* It holds the region. */
	r->h = h;
	region = h->region;
	x->region = region;
	x->submitter = &h->submitter;
	for (i = 0; i < x->nrange; i++)
		if (!krdma_range_ok(x->range[i].addr, x->range[i].length, region->length))
			return krdma_explain(error, -ERANGE,
					     "%llu bytes at %llu are outside '%s', which has %llu",
					     x->range[i].length, x->range[i].addr, region->name,
					     region->length);
	right |= krdma_flags_right(op->flags);
	lacks = right & ~region->rights;
	return lacks ? krdma_region_refuse(region, lacks, error) : 0;
}

static int krdma_op_buffer(const struct krdma_op *op, struct krdma_req *r,
			   struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	struct krdma_handle *h;
	u32 i;

	h = krdma_handle_get(r->ctx, op->buffer, KRDMA_HANDLE_BUFFER, error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	r->mem = h->mem;
	kref_get(&r->mem->ref);
	krdma_handle_put(h);
	for (i = 0; i < x->local.n; i++)
		if (!krdma_range_ok(x->local.vec[i].addr, x->local.vec[i].length, r->mem->length))
			return krdma_explain(
				error, -ERANGE,
				"%llu bytes at %llu are outside buffer %u, which has %llu",
				x->local.vec[i].length, x->local.vec[i].addr, op->buffer,
				r->mem->length);
	if (krdma_opcode_fills(op->opcode) && !r->mem->writable)
		return krdma_explain(error, -EACCES, "buffer %u was not registered writable",
				     op->buffer);
	if (krdma_opcode_number(op->opcode) &&
	    !IS_ALIGNED(r->mem->offset + op->addr, KRDMA_NUMBER_BYTES))
		return krdma_explain(error, -EINVAL,
				     "%llu in buffer %u is not at a multiple of 8 in memory",
				     op->addr, op->buffer);
	return 0;
}

/**
 * krdma_req_check - what can be said about an operation without its memory
 * @op: the operation, copied from the user
 * @fixed: its memory is a buffer that io_uring has pinned
 * @r: request, new
 * @error: explanation
 *
 * krdma_req_drop undoes it, also when it fails.
 *
 * Context: process, of the user.
 * Return: 0 or a negative errno
 */
int krdma_req_check(const struct krdma_op *op, bool fixed, struct krdma_req *r,
		    struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	int rc;

	rc = krdma_op_fields(op, fixed, error);
	if (!rc)
		rc = krdma_op_vectors(op, r, error);
	if (!rc)
		rc = krdma_op_region(op, r, error);
	if (!rc && (op->flags & KRDMA_OP_BUFFER))
		rc = krdma_op_buffer(op, r, error);
	if (rc)
		return rc;
	if (!fixed && !r->mem) {
		if (op->timeout_ns > KRDMA_OP_PIN_NS)
			return krdma_explain(
				error, -EINVAL,
				"an operation on memory that is not a buffer may last 300 s at most");
		if (krdma_op_local(op) > KRDMA_OP_PIN_MAX)
			return krdma_explain(
				error, -EDQUOT,
				"an operation on memory that is not a buffer has at most %llu bytes",
				KRDMA_OP_PIN_MAX);
	}
	r->any_time = !op->timeout_ns;
	r->after = op->flags & KRDMA_OP_AFTER;
	x->opcode = op->opcode;
	x->local.fills = krdma_opcode_fills(op->opcode);
	krdma_transfer_flags(x, op->flags);
	krdma_transfer_route(x);
	x->operand = op->operand;
	x->compare = op->compare;
	x->user_data = op->user_data;
	x->length = op->length;
	x->uid = r->ctx->user->uid;
	x->pid = task_tgid_nr(current);
	x->timeout = min_t(u64, op->timeout_ns ?: KRDMA_DEFAULT_TIMEOUT_NS, KTIME_MAX);
	return 0;
}

/* ---- memory ---- */

/*
 * A peer may keep an operation until its deadline: pages that may be needed longer than
 * for seconds are pinned so that file systems and the kernel can live with it, and counted.
 */
static int krdma_req_pin(struct krdma_req *r, bool longterm, struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	int rc = krdma_pages_pin(&r->pins, r->ctx->payer, x->local.vec, x->local.n, x->local.fills,
				 longterm, error);

	/* The front end drops it; but it may be tried in the other way. */
	if (rc && r->pins.charged)
		krdma_pages_unpin(&r->pins, r->ctx->payer, x->local.fills);
	return rc;
}

static int krdma_req_pin_long(struct krdma_req *r, struct krdma_error *error)
{
	struct krdma_error own;
	int rc;

	krdma_error_init(&own);
	rc = krdma_req_pin(r, true, &own);
	if (!rc || rc == -EINTR)
		return rc;
	/* An operation with the default timeout is not refused for its pins. */
	if (r->any_time) {
		r->x.timeout = ns_to_ktime(KRDMA_PIN_SHORT_NS);
		return krdma_req_pin(r, false, error);
	}
	if (own.err && (rc == -ENOMEM || rc == -EOPNOTSUPP))
		return krdma_explain(
			error, rc, "%s; an operation that may last %u s at most does not need that",
			own.text, KRDMA_PIN_SHORT_S);
	return own.err ? krdma_explain(error, rc, "%s", own.text) : rc;
}

/**
 * krdma_req_prepare - pin or map the memory of an operation
 * @r: request that was checked; ->x.local.bvec is set if its pages are there already
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: 0, or the status of the operation
 */
int krdma_req_prepare(struct krdma_req *r, struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	struct krdma_device *dev;
	int rc;

	if (x->local.bvec || !x->length)
		return 0;
	if (!r->mem) {
		rc = x->timeout > ns_to_ktime(KRDMA_PIN_SHORT_NS) ? krdma_req_pin_long(r, error) :
								    krdma_req_pin(r, false, error);
		x->local.bvec = r->pins.bvec;
		x->local.n = r->pins.n;
		return rc;
	}
	dev = READ_ONCE(x->region->sess->ch->dev);
	x->local.map = dev ? krdma_mem_mapped(r->mem, &dev->dma) : NULL;
	if (likely(x->local.map))
		return 0;
	/* The device must not go while its mapping is made. */
	dev = krdma_session_device(x->region->sess);
	if (!dev)
		return krdma_session_explain(x->region->sess, x->ch, -ENOTCONN, error);
	x->local.map = krdma_mem_map(r->mem, &dev->dma, error);
	krdma_device_put(dev);
	rc = PTR_ERR_OR_ZERO(x->local.map);
	if (rc)
		x->local.map = NULL;
	return rc;
}

/* ---- its turn, and its end ---- */

/* Return: it has to wait. */
static bool krdma_turn_take(struct krdma_req *r)
{
	struct krdma_handle *h = r->h;
	bool first = list_empty(&h->turns);

	INIT_LIST_HEAD(&r->turn);
	if (first && !(r->after && h->nfirst)) {
		h->nfirst++;
		return false;
	}
	list_add_tail(&r->turn, &h->turns);
	return r->after;
}

static void krdma_turn_end(struct krdma_req *r)
{
	struct krdma_handle *h = r->h;
	struct krdma_req *next;

	if (list_empty(&r->turn))
		h->nfirst--;
	else
		list_del_init(&r->turn);
	if (list_empty(&h->turns) || h->nfirst)
		return;
	next = list_first_entry(&h->turns, struct krdma_req, turn);
	if (next->after)
		krdma_transfer_release(&next->x);
}

static struct krdma_req *krdma_transfer_req(struct krdma_transfer *x)
{
	return container_of(x, struct krdma_req, x);
}

static struct krdma_transfer *krdma_req_done(struct krdma_transfer *x)
{
	struct krdma_transfer *next = x->next;
	struct krdma_req *r = krdma_transfer_req(x);
	struct krdma_ctx *ctx = r->ctx;

	spin_lock_bh(&ctx->reqs_lock);
	/* Its memory waits for task work: the process decides when it calls io_uring again. */
	if (r->tasked && r->pins.charged) {
		list_move_tail(&r->all, &ctx->over);
		krdma_reap_later(ctx);
	} else {
		list_del_init(&r->all);
	}
	/* ORDER: under the lock, so that the next one is still there. */
	krdma_turn_end(r);
	spin_unlock_bh(&ctx->reqs_lock);
	r->end(r);
	return next;
}

/**
 * krdma_reqs_submit - let operations begin
 * @batch: their transfers: prepared, with ->end; empty on return
 *
 * ->end is called once for each, perhaps before this returns.
 *
 * Context: process, or its thread goes to sleep.
 */
void krdma_reqs_submit(struct krdma_queue *batch)
{
	struct krdma_transfer *x = batch->first;
	struct krdma_ctx *ctx;

	while (x) {
		ctx = krdma_transfer_req(x)->ctx;
		spin_lock_bh(&ctx->reqs_lock);
		for (; x && krdma_transfer_req(x)->ctx == ctx; x = x->next) {
			struct krdma_req *r = krdma_transfer_req(x);

			x->done = krdma_req_done;
			x->held = krdma_turn_take(r);
			r->started = true;
			list_add_tail(&r->all, &ctx->reqs);
		}
		spin_unlock_bh(&ctx->reqs_lock);
	}
	krdma_transfers_submit(batch);
}

/**
 * krdma_req_unpin - give back the memory of an operation
 * @r: request that has ended, or was not started; twice does no harm
 *
 * Context: process, may sleep.
 */
void krdma_req_unpin(struct krdma_req *r)
{
	/* Lost on purpose: a device may still reach it. */
	if (r->x.lost)
		return;
	if (r->pins.charged)
		krdma_pages_unpin(&r->pins, r->ctx->payer, r->x.local.fills);
	if (r->mem)
		krdma_mem_put(r->mem);
	r->mem = NULL;
}

/**
 * krdma_req_drop - give back what an operation holds
 * @r: request that has ended, or was not started; twice does no harm
 *
 * Context: process, may sleep.
 */
void krdma_req_drop(struct krdma_req *r)
{
	krdma_req_unpin(r);
	if (r->vecs)
		kvfree(r->vecs);
	r->vecs = NULL;
	if (r->h)
		krdma_handle_put(r->h);
	r->h = NULL;
}
