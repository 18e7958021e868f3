// SPDX-License-Identifier: GPL-2.0
/*
 * An operation of a process, whatever front end it comes through: struct krdma_op
 * checked once, its memory, its turn, and its end.
 *
 *	krdma_req_new		a request, and the handles of what it refers to (lane.c)
 *	krdma_req_check		the struct; nothing to undo but give
 *	krdma_reqs_prepare	pins and maps memory: may sleep, fails with the status
 *	krdma_reqs_submit	under way; ->end is called once, in any context
 *	krdma_req_unpin		gives its memory back, if that is to be earlier: process context
 *	krdma_reqs_give		gives everything back: process context
 *
 * The front end reports the end to the user when nothing is pinned any more, never before.
 *
 * A request belongs to the lane of the processor that made it (struct krdma_lane, lane.c), and what
 * it writes and counts is there, so that processors do not wait for each other's lines of memory.
 */
#include <linux/overflow.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "frontend/ctx.h"

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
	if (op->flags & KRDMA_OPF_VERIFY)
		return krdma_explain(error, -EINVAL, "only READ and WRITE can be verified");
	return 0;
}

static int krdma_op_send(const struct krdma_op *op, struct krdma_error *error)
{
	if (op->offset || (op->flags & (KRDMA_OPF_RANGES | KRDMA_OPF_VERIFY | KRDMA_OPF_MESSAGE)))
		return krdma_explain(error, -EINVAL,
				     "a message has neither an offset in the region nor ranges");
	if (op->length > KRDMA_MESSAGE_MAX)
		return krdma_explain(error, -EINVAL, "a message has %u bytes at most",
				     KRDMA_MESSAGE_MAX);
	return 0;
}

/* What a flush has not. */
static int krdma_op_flush(const struct krdma_op *op, bool fixed, struct krdma_error *error)
{
	if (op->addr || fixed ||
	    (op->flags & (KRDMA_OPF_BUFFER | KRDMA_OPF_VECTOR | KRDMA_OPF_VERIFY)))
		return krdma_explain(error, -EINVAL, "a flush has no local memory");
	return 0;
}

/* Bytes of local memory. */
static u64 krdma_op_local(u8 opcode, u64 length)
{
	if (opcode == KRDMA_OP_FLUSH)
		return 0;
	return krdma_opcode_number(opcode) ? KRDMA_NUMBER_BYTES : length;
}

/* Is it a READ or WRITE of one range, by one piece of memory, that asks for nothing more? */
static bool krdma_op_plain(const struct krdma_op *op, bool fixed)
{
	u64 zero = op->reserved0 | op->reserved2 | op->operand | op->compare | op->naddr |
		   op->nranges | (op->flags & ~KRDMA_OPF_BUFFER);

	/* With the flag it may have any buffer, unless that is one of io_uring. */
	if (!op->flags)
		zero |= op->buffer;
	return (op->opcode == KRDMA_OP_READ || op->opcode == KRDMA_OP_WRITE) && !zero &&
	       op->length && !(fixed && op->flags);
}

/* Checks the fields of an operation that is not plain. */
static noinline int krdma_op_fields(const struct krdma_op *op, bool fixed,
				    struct krdma_error *error)
{
	const u32 known = KRDMA_OPF_BUFFER | KRDMA_OPF_VECTOR | KRDMA_OPF_RANGES | KRDMA_OPF_AFTER |
			  KRDMA_OPF_VERIFY | KRDMA_OPF_UNPLACED | KRDMA_OPF_MESSAGE |
			  KRDMA_OPF_PLACED;
	const u32 place = KRDMA_OPF_UNPLACED | KRDMA_OPF_PLACED;
	bool send = op->opcode == KRDMA_OP_SEND;
	bool operand = krdma_opcode_atomic(op->opcode) || send || (op->flags & KRDMA_OPF_MESSAGE);

	if (!krdma_opcode_right(op->opcode))
		return krdma_explain(error, -EOPNOTSUPP, "there is no operation %u", op->opcode);
	if (op->flags & ~known)
		return krdma_explain(error, -EOPNOTSUPP,
				     "the flags %#x of an operation are unknown", op->flags);
	if (op->reserved0 || op->reserved2 || (!operand && op->operand) ||
	    (op->opcode != KRDMA_OP_CMP_SWAP && op->compare) ||
	    (!(op->flags & KRDMA_OPF_BUFFER) && op->buffer) ||
	    (!(op->flags & KRDMA_OPF_VECTOR) && op->naddr) ||
	    (!(op->flags & KRDMA_OPF_RANGES) && op->nranges))
		return krdma_explain(error, -EINVAL,
				     "a reserved field of an operation is not zero");
	if (fixed && (op->flags & (KRDMA_OPF_BUFFER | KRDMA_OPF_VECTOR)))
		return krdma_explain(
			error, -EOPNOTSUPP,
			"a buffer of io_uring can't be a buffer of this file, or a vector");
	if (((op->flags & KRDMA_OPF_VECTOR) && (!op->naddr || op->naddr > KRDMA_VECTOR_MAX)) ||
	    ((op->flags & KRDMA_OPF_RANGES) && (!op->nranges || op->nranges > KRDMA_VECTOR_MAX)))
		return krdma_explain(error, -EINVAL, "a vector has 1 to %u entries",
				     KRDMA_VECTOR_MAX);
	if (!op->length && !send)
		return krdma_explain(error, -EINVAL, "the length of an operation is 0");
	if ((op->flags & (place | KRDMA_OPF_MESSAGE)) && op->opcode != KRDMA_OP_WRITE)
		return krdma_explain(error, -EINVAL, "only a WRITE can %s",
				     op->flags & KRDMA_OPF_UNPLACED ? "be unplaced" :
				     op->flags & KRDMA_OPF_PLACED   ? "be placed" :
								      "carry a message");
	if ((op->flags & place) == place)
		return krdma_explain(error, -EINVAL, "a WRITE is placed or unplaced, not both");
	if (send)
		return krdma_op_send(op, error);
	if (op->opcode == KRDMA_OP_FLUSH)
		return krdma_op_flush(op, fixed, error);
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

/* Pieces and ranges of an operation that has vectors. */
static noinline int krdma_op_vectors(const struct krdma_op *op, struct krdma_req *r,
				     struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	int rc = 0;

	r->vecs = krdma_inject(kvmalloc_array(op->naddr + op->nranges, sizeof(*r->vecs),
					      GFP_KERNEL_ACCOUNT),
			       NULL);
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

static __always_inline int krdma_op_region(const struct krdma_op *op, u32 right,
					   struct krdma_req *r, struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	struct krdma_region *region;
	u64 length;
	u32 i, lacks;

	if (unlikely(!r->h))
		return krdma_handle_missing(op->region, KRDMA_HANDLE_REGION, error);
	/* The handle holds it. */
	region = r->h->region;
	x->region = region;
	x->submitter = &r->h->submitter;
	length = READ_ONCE(region->length);
	for (i = 0; i < x->nrange; i++)
		if (!krdma_range_ok(x->range[i].addr, x->range[i].length, length))
			return krdma_explain(error, -ERANGE,
					     "%llu bytes at %llu are outside '%s', which has %llu",
					     x->range[i].length, x->range[i].addr, region->name,
					     length);
	lacks = right & ~region->rights;
	return lacks ? krdma_region_refuse(region, lacks, error) : 0;
}

static __always_inline int krdma_op_buffer(const struct krdma_op *op, u8 opcode,
					   struct krdma_req *r, struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	u32 i;

	if (unlikely(!r->buffer))
		return krdma_handle_missing(op->buffer, KRDMA_HANDLE_BUFFER, error);
	r->mem = r->buffer->mem;
	for (i = 0; i < x->local.n; i++)
		if (!krdma_range_ok(x->local.vec[i].addr, x->local.vec[i].length, r->mem->length))
			return krdma_explain(
				error, -ERANGE,
				"%llu bytes at %llu are outside buffer %u, which has %llu",
				x->local.vec[i].length, x->local.vec[i].addr, op->buffer,
				r->mem->length);
	if (krdma_opcode_fills(opcode) && !r->mem->writable)
		return krdma_explain(error, -EACCES, "buffer %u was not registered writable",
				     op->buffer);
	if (krdma_opcode_number(opcode) &&
	    !IS_ALIGNED(r->mem->offset + op->addr, KRDMA_NUMBER_BYTES))
		return krdma_explain(error, -EINVAL,
				     "%llu in buffer %u is not at a multiple of 8 in memory",
				     op->addr, op->buffer);
	return 0;
}

/* @opcode, @flags and @nvecs are those of @op: a plain one has values that the compiler knows. */
static __always_inline int krdma_req_fill(const struct krdma_op *op, u8 opcode, u32 flags,
					  u32 nvecs, bool fixed, struct krdma_req *r,
					  struct krdma_error *error)
{
	u64 local = krdma_op_local(opcode, op->length);
	struct krdma_transfer *x = &r->x;
	int rc;

	x->one[0] = (struct krdma_vec){ .addr = op->addr, .length = local };
	x->local.vec = &x->one[0];
	x->local.n = 1;
	/* A message is of no range. */
	x->one[1] = (struct krdma_vec){ .addr = op->offset,
					.length = opcode == KRDMA_OP_SEND ? 0 : op->length };
	x->range = &x->one[1];
	x->nrange = 1;
	rc = nvecs ? krdma_op_vectors(op, r, error) : 0;
	if (!rc)
		rc = krdma_op_region(op, krdma_opcode_right(opcode) | krdma_flags_right(flags), r,
				     error);
	if (!rc && (flags & KRDMA_OPF_BUFFER))
		rc = krdma_op_buffer(op, opcode, r, error);
	if (rc)
		return rc;
	if (!fixed && !r->mem && opcode != KRDMA_OP_FLUSH) {
		if (op->timeout_ns > KRDMA_OP_PIN_NS)
			return krdma_explain(
				error, -EINVAL,
				"an operation on memory that is not a buffer may last 300 s at most");
		if (local > KRDMA_OP_PIN_MAX)
			return krdma_explain(
				error, -EDQUOT,
				"an operation on memory that is not a buffer has at most %llu bytes",
				KRDMA_OP_PIN_MAX);
	}
	r->any_time = !op->timeout_ns;
	r->after = flags & KRDMA_OPF_AFTER;
	x->opcode = opcode;
	x->local.fills = krdma_opcode_fills(opcode);
	krdma_transfer_flags(x, flags);
	krdma_transfer_route(x, raw_smp_processor_id());
	x->operand = op->operand;
	x->compare = op->compare;
	x->user_data = op->user_data;
	x->length = op->length;
	x->uid = r->ctx->user->uid;
	x->pid = task_tgid_nr(current);
	x->timeout = min_t(u64, op->timeout_ns ?: KRDMA_DEFAULT_TIMEOUT_NS, KTIME_MAX);
	return 0;
}

/**
 * krdma_req_check - what can be said about an operation without its memory
 * @op: the operation, copied from the user
 * @fixed: its memory is a buffer that io_uring has pinned
 * @r: request, new
 * @error: explanation
 *
 * krdma_reqs_give undoes it, also when it fails.
 *
 * Context: process, of the user.
 * Return: 0 or a negative errno
 */
int krdma_req_check(const struct krdma_op *op, bool fixed, struct krdma_req *r,
		    struct krdma_error *error)
{
	int rc;

	if (likely(krdma_op_plain(op, fixed)))
		return krdma_req_fill(op,
				      op->opcode == KRDMA_OP_READ ? KRDMA_OP_READ : KRDMA_OP_WRITE,
				      op->flags & KRDMA_OPF_BUFFER, 0, fixed, r, error);
	rc = krdma_op_fields(op, fixed, error);
	if (rc)
		return rc;
	return krdma_req_fill(op, op->opcode, op->flags, op->naddr + op->nranges, fixed, r, error);
}

/* ---- memory ---- */

/* Memory may be gone again when it is pinned: it is fetched so often. */
#define KRDMA_FETCHES 3

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
		krdma_pages_unpin(&r->pins, r->ctx->payer, false);
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
	/* With the default timeout it is not refused for its pins: it is a short one then. */
	if (r->any_time) {
		r->x.timeout = ns_to_ktime(KRDMA_PIN_SHORT_NS);
		return 0;
	}
	if (own.err && (rc == -ENOMEM || rc == -EOPNOTSUPP))
		return krdma_explain(
			error, rc, "%s; an operation that may last %u s at most does not need that",
			own.text, KRDMA_PIN_SHORT_S);
	return own.err ? krdma_explain(error, rc, "%s", own.text) : rc;
}

/* Has it memory that is still to be pinned or mapped? */
static bool krdma_req_unprepared(const struct krdma_req *r)
{
	const struct krdma_transfer *x = &r->x;

	return !x->status && !r->pins.charged && !x->local.bvec && x->length &&
	       x->opcode != KRDMA_OP_FLUSH;
}

/* To be pinned for seconds. */
static bool krdma_req_short(const struct krdma_req *r)
{
	return krdma_req_unprepared(r) && !r->mem &&
	       r->x.timeout <= ns_to_ktime(KRDMA_PIN_SHORT_NS);
}

/* Unless it is a short one. Return: 0, or the status of the operation */
static int krdma_req_prepare(struct krdma_req *r, struct krdma_error *error)
{
	struct krdma_transfer *x = &r->x;
	struct krdma_device *dev;
	int rc;

	if (!krdma_req_unprepared(r) || krdma_req_short(r))
		return x->status;
	if (!r->mem)
		return krdma_req_pin_long(r, error);
	dev = READ_ONCE(x->ch->path->dev);
	x->local.map = dev ? krdma_mem_mapped(r->mem, &dev->dma) : NULL;
	if (likely(x->local.map))
		return 0;
	/* The device must not go while its mapping is made. */
	dev = krdma_session_device(x->region->sess, x->ch);
	/* It waits for its channel, and is mapped then; or the session has ended. */
	x->local.map = dev ? krdma_mem_map(r->mem, &dev->dma, error) : krdma_mem_map_later(r->mem);
	if (dev)
		krdma_device_put(dev);
	rc = PTR_ERR_OR_ZERO(x->local.map);
	if (rc)
		x->local.map = NULL;
	return rc;
}

/**
 * krdma_reqs_prepare - pin or map the memory of operations
 * @first: requests of a call by ->next, which were checked; ->x.local.bvec of those is set whose
 *	pages are there already
 * @n: how many of them
 * @error: explanation; NULL: that of each request
 *
 * Memory that is pinned for seconds comes last, and waits for no page: what is not there is fetched
 * when none of the call is pinned so. ->x.status is that of the operation if it can't be started.
 *
 * Context: process, of the user.
 */
void krdma_reqs_prepare(struct krdma_req *first, u32 n, struct krdma_error *error)
{
	struct krdma_req *r, *other;
	u32 i, fetches = 0;
	bool pins = false;

	for (r = first, i = 0; i < n; r = r->next, i++) {
		r->x.status = krdma_req_prepare(r, error ?: &r->error);
		pins |= !r->mem && !r->x.local.bvec;
	}
	/* All have buffers, which are pinned. */
	if (!pins)
		return;
again:
	for (r = first, i = 0; i < n; r = r->next, i++) {
		if (!krdma_req_short(r))
			continue;
		r->x.status = krdma_req_pin(r, false, error ?: &r->error);
		if (unlikely(r->x.status == -EAGAIN))
			goto fetch;
	}
	for (r = first, i = 0; i < n; r = r->next, i++) {
		if (!r->pins.charged)
			continue;
		r->x.local.bvec = r->pins.bvec;
		r->x.local.n = r->pins.n;
	}
	return;

fetch:
	for (other = first; other != r; other = other->next)
		if (other->pins.charged && !other->pins.mm)
			krdma_pages_unpin(&other->pins, other->ctx->payer, false);
	if (fetches++ >= KRDMA_FETCHES) {
		/* Memory is short, or taken away: page by page, pinned as for longer. */
		r->x.status = krdma_req_pin(r, true, error ?: &r->error);
		goto again;
	}
	/* The memory of the requests behind it is perhaps not there either. */
	for (r->x.status = 0; i < n; r = r->next, i++)
		if (krdma_req_short(r))
			r->x.status = krdma_pages_fetch(r->x.local.vec, r->x.local.n,
							r->x.local.fills, error ?: &r->error);
	goto again;
}

/* ---- its turn, and its end ---- */

/* More than there may be operations: as long as not all lanes were asked. */
#define KRDMA_TURNS_BIAS SZ_1G

/* Let the next one begin, if it was its predecessors that it waited for. */
static void krdma_turns_next(struct krdma_handle *h)
{
	struct krdma_req *next = list_first_entry(&h->turns, struct krdma_req, turn);

	if (!h->nfirst && next->after)
		/* ORDER: under the lock, so that it is still there. */
		krdma_transfer_release(&next->x);
}

/*
 * An operation that waits for those that were started before it. With the first, all lanes
 * have to say what they have under way; and while some wait, all operations of that id have
 * their turns.
 */
static noinline void krdma_turn_after(struct krdma_req *r)
{
	struct krdma_ctx *ctx = r->ctx;
	struct krdma_handle *h = r->h;
	struct krdma_lane *lane;
	bool first, asked;

	r->x.held = true;
	spin_lock_bh(&ctx->lock);
	first = !h->ordered;
	if (first) {
		h->ordered = true;
		h->nfirst = KRDMA_TURNS_BIAS;
	}
	asked = h->nfirst < KRDMA_TURNS_BIAS / 2;
	list_add_tail(&r->turn, &h->turns);
	spin_unlock_bh(&ctx->lock);
	/* Another may be about to ask, and what is started behind this one has to know. */
	if (asked)
		return;
	krdma_for_each_lane(lane, ctx) {
		struct krdma_use *use = &h->on[lane->index];

		spin_lock_bh(&lane->lock);
		spin_lock(&ctx->lock);
		h->nfirst += use->before;
		use->before = 0;
		use->ordered = true;
		spin_unlock(&ctx->lock);
		spin_unlock_bh(&lane->lock);
	}
	if (!first)
		return;
	spin_lock_bh(&ctx->lock);
	h->nfirst -= KRDMA_TURNS_BIAS;
	krdma_turns_next(h);
	spin_unlock_bh(&ctx->lock);
}

/* Others may wait for it, though it does not wait. Return: it has its turn */
static noinline bool krdma_turn_ordered(struct krdma_req *r, struct krdma_use *use)
{
	struct krdma_handle *h = r->h;
	bool ordered;

	spin_lock(&r->ctx->lock);
	ordered = h->ordered;
	if (ordered)
		list_add_tail(&r->turn, &h->turns);
	else
		use->ordered = false;
	spin_unlock(&r->ctx->lock);
	return ordered;
}

/* Return: false if nobody waits any more, and its lane has counted it */
static noinline bool krdma_turn_ordered_end(struct krdma_req *r, struct krdma_use *use)
{
	struct krdma_handle *h = r->h;
	bool ordered;

	spin_lock(&r->ctx->lock);
	ordered = h->ordered;
	if (!ordered) {
		use->ordered = false;
	} else {
		if (list_empty(&r->turn))
			h->nfirst--;
		else
			list_del_init(&r->turn);
		if (list_empty(&h->turns)) {
			h->ordered = false;
			use->before += h->nfirst;
		} else {
			krdma_turns_next(h);
		}
	}
	spin_unlock(&r->ctx->lock);
	return ordered;
}

static void krdma_turn_take(struct krdma_req *r)
{
	struct krdma_use *use = &r->h->on[r->lane->index];

	lockdep_assert_held(&r->lane->lock);
	INIT_LIST_HEAD(&r->turn);
	if (unlikely(use->ordered) && krdma_turn_ordered(r, use))
		return;
	use->before++;
}

static void krdma_turn_end(struct krdma_req *r)
{
	struct krdma_use *use = &r->h->on[r->lane->index];

	lockdep_assert_held(&r->lane->lock);
	/* With the first that waits not all lanes may have been asked yet. */
	if (unlikely(use->ordered || !list_empty(&r->turn)) && krdma_turn_ordered_end(r, use))
		return;
	use->before--;
}

static struct krdma_req *krdma_transfer_req(struct krdma_transfer *x)
{
	return container_of(x, struct krdma_req, x);
}

/* Those of a lane that have ended together. */
static struct krdma_transfer *krdma_req_done(struct krdma_transfer *first)
{
	struct krdma_lane *lane = krdma_transfer_req(first)->lane;
	struct krdma_transfer *x = first, *rest, *next;

	spin_lock_bh(&lane->lock);
	do {
		struct krdma_req *r = krdma_transfer_req(x);

		if (!x->lost)
			r->buffer = krdma_use_end(lane, r->buffer);
		/* Its memory waits for task work: until its process calls io_uring again. */
		if (r->tasked && (r->pins.charged || r->buffer)) {
			list_move_tail(&r->all, &lane->over);
			krdma_reap_later(r->ctx);
		} else {
			list_del_init(&r->all);
		}
		krdma_turn_end(r);
		x = x->next;
	} while (krdma_transfer_alike(first, x) && krdma_transfer_req(x)->lane == lane);
	rest = x;
	spin_unlock_bh(&lane->lock);
	for (x = first; x != rest; x = next) {
		/* ORDER: the front end may free it. */
		next = x->next;
		krdma_transfer_req(x)->end(krdma_transfer_req(x));
	}
	return rest;
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
	struct krdma_req *r;

	while (x) {
		struct krdma_lane *lane;

		r = krdma_transfer_req(x);
		lane = r->lane;
		if (unlikely(r->after))
			krdma_turn_after(r);
		spin_lock_bh(&lane->lock);
		do {
			x->done = krdma_req_done;
			if (likely(!r->after))
				krdma_turn_take(r);
			r->started = true;
			list_add_tail(&r->all, &lane->reqs);
			x = x->next;
			r = x ? krdma_transfer_req(x) : NULL;
		} while (r && r->lane == lane && !r->after);
		spin_unlock_bh(&lane->lock);
	}
	krdma_transfers_submit(batch);
}
