// SPDX-License-Identifier: GPL-2.0
/*
 * Other kernel modules: include/linux/krdma_mover.h, which documents each function.
 *
 * A client is a context like that of an open file, without ids: its objects are
 * pointers. Each of them holds what it stands on, so they may end in any order. A
 * client holds this module; that its user's code is not called any more when a region
 * is closed is what the count of its transfers is for.
 */
#include <linux/bvec.h>
#include <linux/krdma_mover.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/percpu-refcount.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "frontend/ctx.h"

struct krdma_client {
	refcount_t refs; /* its user, each object */
	struct krdma_ctx *ctx;
};

struct krdma_session_handle {
	struct krdma_client *client;
	struct krdma_session *sess; /* one of its users */
};

struct krdma_region_handle {
	struct krdma_client *client;
	struct krdma_region *region; /* one of its users, and of its session */
	struct percpu_ref ios;       /* transfers under way; and 1 until it is closed */
	bool closing;
	struct krdma_submitter submitter;
	struct completion idle; /* ios is 0 */
	struct krdma_watch watch;
	struct work_struct event_work;
	enum krdma_event happened; /* session->lock */
	enum krdma_event told;     /* event_work */
	krdma_event_fn event;
	void *priv;
};

struct krdma_export_handle {
	struct krdma_client *client;
	struct krdma_export *export;
	krdma_message_fn message;
	void *priv;
};

/* ->own of a krdma_io. */
struct krdma_io_own {
	struct krdma_transfer x;
	struct krdma_region_handle *handle;
};

static_assert(sizeof(struct krdma_io_own) <= sizeof_field(struct krdma_io, own));
static_assert(__alignof__(struct krdma_io_own) <= __alignof__(u64));

#define KRDMA_IO_FLAGS \
	(KRDMA_OPF_VERIFY | KRDMA_OPF_UNPLACED | KRDMA_OPF_PLACED | KRDMA_OPF_MESSAGE)

/* There is no such object. Who calls from the kernel reads its log. */
static void *krdma_api_fail(void *handle, int rc, const struct krdma_error *error)
{
	if (error->err)
		pr_info_ratelimited("krdma_mover: %s\n", error->text);
	kfree(handle);
	return ERR_PTR(rc);
}

/* ---- clients ---- */

static struct krdma_client *krdma_client_get(struct krdma_client *client)
{
	refcount_inc(&client->refs);
	return client;
}

static void krdma_client_put(struct krdma_client *client)
{
	if (!refcount_dec_and_test(&client->refs))
		return;
	krdma_ctx_put(client->ctx);
	kfree(client);
	/* Who calls this holds the module by its use of our symbols. */
	module_put(THIS_MODULE);
}

struct krdma_client *krdma_client_create(struct net *net)
{
	struct krdma_client *client;

	if (!try_module_get(THIS_MODULE))
		return ERR_PTR(-ENODEV);
	client = krdma_inject(kzalloc(sizeof(*client), GFP_KERNEL), NULL);
	if (!client)
		goto out_module;
	refcount_set(&client->refs, 1);
	client->ctx = krdma_ctx_new(net ?: &init_net, GLOBAL_ROOT_UID);
	if (!client->ctx)
		goto out_client;
	return client;

out_client:
	kfree(client);
out_module:
	module_put(THIS_MODULE);
	return ERR_PTR(-ENOMEM);
}
EXPORT_SYMBOL_GPL(krdma_client_create);

void krdma_client_destroy(struct krdma_client *client)
{
	if (!IS_ERR_OR_NULL(client))
		krdma_client_put(client);
}
EXPORT_SYMBOL_GPL(krdma_client_destroy);

/* ---- sessions ---- */

/* What rdma_cm takes, and nothing beside it. */
static int krdma_api_addr(const struct sockaddr_storage *in, struct sockaddr_storage *out,
			  struct krdma_error *error)
{
	bool v6 = in->ss_family == AF_INET6;

	if (!v6 && in->ss_family != AF_INET)
		return krdma_explain(error, -EAFNOSUPPORT, "an address of family %u can't be used",
				     in->ss_family);
	memset(out, 0, sizeof(*out));
	memcpy(out, in, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	return 0;
}

static int krdma_api_route(const struct sockaddr_storage *dst, const struct sockaddr_storage *src,
			   struct krdma_route *route, struct krdma_error *error)
{
	int rc = krdma_api_addr(dst, &route->dst, error);

	if (!rc && src)
		rc = krdma_api_addr(src, &route->src, error);
	krdma_addr_default_port(&route->dst);
	return rc;
}

/* Return: 0 or a negative errno */
static int krdma_api_connect(struct krdma_session_handle *handle, struct krdma_client *client,
			     const struct krdma_connect_param *param, struct krdma_route *routes,
			     struct krdma_error *error)
{
	struct krdma_connect_options options = {
		.flags = param->flags,
		.resume_s = param->resume_s,
		.keepalive_s = param->keepalive_s,
		.policy = param->policy,
	};
	u32 i;
	int rc;

	if (param->npaths >= KRDMA_PATHS_MAX)
		return krdma_explain(error, -EINVAL, "a session has at most %u paths",
				     KRDMA_PATHS_MAX);
	rc = krdma_api_route(param->dst, param->src, &routes[0], error);
	for (i = 0; i < param->npaths && !rc; i++)
		rc = krdma_api_route(param->paths[i].dst, param->paths[i].src, &routes[i + 1],
				     error);
	rc = rc ?: krdma_connect_options_check(&options, error);
	if (rc)
		return rc;
	handle->sess = krdma_session_connect(client->ctx->net, client->ctx->user->uid, routes,
					     param->npaths + 1, &options,
					     krdma_default_ms(param->timeout_ms), error);
	return PTR_ERR_OR_ZERO(handle->sess);
}

struct krdma_session_handle *krdma_connect(struct krdma_client *client,
					   const struct krdma_connect_param *param)
{
	struct krdma_session_handle *handle;
	struct krdma_error error = {};
	struct krdma_route *routes;
	int rc;

	if (param->flags & ~KRDMA_CONNECT_FLAGS)
		return ERR_PTR(-EOPNOTSUPP);
	handle = krdma_inject(kzalloc(sizeof(*handle), GFP_KERNEL), NULL);
	if (!handle)
		return ERR_PTR(-ENOMEM);
	routes = krdma_inject(kcalloc(KRDMA_PATHS_MAX, sizeof(*routes), GFP_KERNEL), NULL);
	rc = routes ? krdma_api_connect(handle, client, param, routes, &error) : -ENOMEM;
	kfree(routes);
	if (rc)
		return krdma_api_fail(handle, rc, &error);
	handle->client = krdma_client_get(client);
	return handle;
}
EXPORT_SYMBOL_GPL(krdma_connect);

void krdma_disconnect(struct krdma_session_handle *handle)
{
	if (IS_ERR_OR_NULL(handle))
		return;
	krdma_session_leave(handle->sess);
	krdma_client_put(handle->client);
	kfree(handle);
}
EXPORT_SYMBOL_GPL(krdma_disconnect);

/* ---- regions ---- */

static void krdma_region_handle_event_work(struct work_struct *work)
{
	struct krdma_region_handle *handle =
		container_of(work, struct krdma_region_handle, event_work);
	enum krdma_event happened = READ_ONCE(handle->happened);

	/* It may be away and back, or back and away, by now: that is no event. */
	if (happened == handle->told ||
	    (happened == KRDMA_EVENT_RESUMED && handle->told != KRDMA_EVENT_RESUMING))
		return;
	handle->told = happened;
	handle->event(handle->priv, happened);
}

/* session->lock is held. */
static void krdma_region_handle_changed(struct krdma_watch *watch, int err)
{
	struct krdma_region_handle *handle = container_of(watch, struct krdma_region_handle, watch);
	struct krdma_session *sess = handle->region->sess;
	enum krdma_event happened;

	if (!handle->event)
		return;
	if (!err)
		happened = sess->resuming ? KRDMA_EVENT_RESUMING : KRDMA_EVENT_RESUMED;
	else
		happened = err == -ESTALE && !krdma_session_over(sess) ? KRDMA_EVENT_REVOKED :
									 KRDMA_EVENT_LOST;
	WRITE_ONCE(handle->happened, happened);
	queue_work(krdma_event_wq, &handle->event_work);
}

static void krdma_region_handle_idle(struct percpu_ref *ios)
{
	complete(&container_of(ios, struct krdma_region_handle, ios)->idle);
}

struct krdma_region_handle *krdma_open(struct krdma_session_handle *session,
				       const struct krdma_open_param *param)
{
	char padded[KRDMA_NAME_MAX] = {};
	struct krdma_region_handle *handle;
	struct krdma_error error = {};

	if (strscpy(padded, param->name, sizeof(padded)) < 0 ||
	    !krdma_wire_name_ok(padded, sizeof(padded)) || (param->rights & ~KRDMA_WIRE_RIGHTS))
		return ERR_PTR(-EINVAL);
	if (param->flags & ~KRDMA_OPEN_FLAGS)
		return ERR_PTR(-EOPNOTSUPP);
	handle = krdma_inject(kzalloc(sizeof(*handle), GFP_KERNEL), NULL);
	if (!handle)
		return ERR_PTR(-ENOMEM);
	/* krdma_reopen() begins with it anew. */
	if (krdma_inject(percpu_ref_init(&handle->ios, krdma_region_handle_idle,
					 PERCPU_REF_ALLOW_REINIT, GFP_KERNEL),
			 -ENOMEM)) {
		kfree(handle);
		return ERR_PTR(-ENOMEM);
	}
	krdma_submitter_init(&handle->submitter);
	init_completion(&handle->idle);
	INIT_WORK(&handle->event_work, krdma_region_handle_event_work);
	handle->event = param->event;
	handle->priv = param->priv;
	handle->region = krdma_region_open(session->sess, padded, param->rights, param->flags,
					   param->timeout_ms, &error);
	if (IS_ERR(handle->region)) {
		percpu_ref_exit(&handle->ios);
		return krdma_api_fail(handle, PTR_ERR(handle->region), &error);
	}
	krdma_session_join(session->sess);
	handle->client = krdma_client_get(session->client);
	handle->watch.changed = krdma_region_handle_changed;
	krdma_region_watch(handle->region, &handle->watch);
	return handle;
}
EXPORT_SYMBOL_GPL(krdma_open);

void krdma_close(struct krdma_region_handle *handle)
{
	struct krdma_session *sess;

	if (IS_ERR_OR_NULL(handle))
		return;
	might_sleep();
	WRITE_ONCE(handle->closing, true);
	percpu_ref_kill(&handle->ios);
	/* Bounded by their deadlines; what is on the wire or fenced ends, or the session does. */
	wait_for_completion(&handle->idle);
	percpu_ref_exit(&handle->ios);
	krdma_region_unwatch(handle->region, &handle->watch);
	cancel_work_sync(&handle->event_work);
	sess = handle->region->sess;
	krdma_region_close(handle->region, true);
	krdma_session_leave(sess);
	krdma_client_put(handle->client);
	kfree(handle);
}
EXPORT_SYMBOL_GPL(krdma_close);

int krdma_reopen(struct krdma_region_handle *handle, struct krdma_session_handle *session,
		 unsigned int timeout_ms)
{
	struct krdma_region *old = handle->region, *region;
	struct krdma_session *left = old->sess;
	struct krdma_error error = {};

	might_sleep();
	if (!READ_ONCE(old->err) && !krdma_session_over(left))
		return -EBUSY;
	region = krdma_region_open(session->sess, old->name, old->wanted, old->flags, timeout_ms,
				   &error);
	if (IS_ERR(region))
		return PTR_ERR(krdma_api_fail(NULL, PTR_ERR(region), &error));
	krdma_session_join(session->sess);
	/* Those that were on the wire when it ended. */
	percpu_ref_kill(&handle->ios);
	wait_for_completion(&handle->idle);
	reinit_completion(&handle->idle);
	percpu_ref_reinit(&handle->ios);
	krdma_region_unwatch(old, &handle->watch);
	/* Each end has its event. */
	flush_work(&handle->event_work);
	handle->happened = 0;
	handle->told = 0;
	handle->region = region;
	krdma_region_watch(region, &handle->watch);
	krdma_region_close(old, true);
	krdma_session_leave(left);
	return 0;
}
EXPORT_SYMBOL_GPL(krdma_reopen);

int krdma_grow(struct krdma_region_handle *handle, unsigned int timeout_ms)
{
	struct krdma_error error = {};
	int rc;

	might_sleep();
	rc = krdma_region_grow(handle->region, timeout_ms, &error);
	return rc ? PTR_ERR(krdma_api_fail(NULL, rc, &error)) : 0;
}
EXPORT_SYMBOL_GPL(krdma_grow);

int krdma_region_limits(struct krdma_region_handle *handle, struct krdma_limits *limits)
{
	struct krdma_region *region = handle->region;
	const struct krdma_channel *ch = region->sess->ch;
	struct krdma_device *dev = krdma_session_device(region->sess, ch);

	if (!dev)
		return -ENOTCONN;
	*limits = (struct krdma_limits){
		.length = READ_ONCE(region->length),
		.rights = region->rights,
		.segment_size = 1ULL << region->segment_shift,
		.wr_bytes = KRDMA_WR_MAX,
		.read_bvecs = dev->policy.max_sge_rd,
		.write_bvecs = dev->policy.max_sge,
		/* Not known while it connects again: the least there is. */
		.inflight_wrs = READ_ONCE(ch->slots) ?: KRDMA_SLOTS_MIN,
		.inflight_bytes = READ_ONCE(ch->posted_max) ?: KRDMA_POSTED_MIN,
		.resume_s = region->sess->resume_s,
	};
	krdma_device_put(dev);
	return 0;
}
EXPORT_SYMBOL_GPL(krdma_region_limits);

/* ---- transfers ---- */

static struct krdma_io_own *krdma_io_own(struct krdma_io *io)
{
	return (struct krdma_io_own *)io->own;
}

static struct krdma_region_handle *krdma_io_handle(struct krdma_transfer *x)
{
	return container_of(x, struct krdma_io_own, x)->handle;
}

static void krdma_io_end(struct krdma_transfer *x)
{
	struct krdma_io_own *own = container_of(x, struct krdma_io_own, x);
	struct krdma_io *io = container_of((void *)own, struct krdma_io, own);

	io->status = x->status;
	io->moved = x->moved;
	io->pages_lost = x->lost;
	io->done(io);
}

static struct krdma_transfer *krdma_io_done(struct krdma_transfer *first)
{
	struct krdma_region_handle *handle = krdma_io_handle(first);
	struct krdma_transfer *x = first, *next;
	bool more;
	u32 n = 0;

	do {
		/* ORDER: the caller may free it. */
		next = x->next;
		more = krdma_transfer_alike(x, next) && krdma_io_handle(next) == handle;
		krdma_io_end(x);
		x = next;
		n++;
	} while (more);
	/* ORDER: when the region is closed, the caller's code is not run any more. */
	percpu_ref_put_many(&handle->ios, n);
	return x;
}

static void krdma_region_end(struct krdma_region_handle *handle, bool abort)
{
	struct hlist_node *next;
	struct krdma_channel *ch;
	struct krdma_transfer *x;
	u32 i;

	if (abort)
		WRITE_ONCE(handle->region->aborted, true);
	/* ORDER: first, for those that move from one channel to another meanwhile. */
	atomic_inc(&handle->submitter.cancels);
	krdma_for_each_channel(ch, handle->region->sess, i) {
		bool posted = false;

		krdma_channel_lock(ch);
		hlist_for_each_entry_safe(x, next, &ch->transfers, all) {
			if (x->done != krdma_io_done || krdma_io_handle(x) != handle)
				continue;
			/* Or else it is its memory that is read, for a digest. */
			posted |= x->nwrs && x->posted != x->moved;
			krdma_transfer_end(x, -ECANCELED);
		}
		if (abort && posted)
			krdma_channel_fail(ch, -ECONNRESET, "operations were aborted",
					   KRDMA_BYE_LOST);
		krdma_channel_unlock(ch);
	}
}

void krdma_region_cancel(struct krdma_region_handle *handle)
{
	krdma_region_end(handle, false);
}
EXPORT_SYMBOL_GPL(krdma_region_cancel);

void krdma_region_abort(struct krdma_region_handle *handle)
{
	krdma_region_end(handle, true);
}
EXPORT_SYMBOL_GPL(krdma_region_abort);

unsigned int krdma_region_poll(struct krdma_region_handle *handle)
{
	return krdma_region_poll_channels(handle->region);
}
EXPORT_SYMBOL_GPL(krdma_region_poll);

/* Entries of ->bvec that are needed; 0 if they are too few. */
static u32 krdma_io_bvecs(const struct krdma_io *io)
{
	u64 bytes = unlikely(krdma_opcode_number(io->op)) ? KRDMA_NUMBER_BYTES : io->length;
	u64 need, have = 0;
	u32 i;

	if (check_add_overflow(bytes, (u64)io->skip, &need))
		return 0;
	for (i = 0; i < io->nr_bvecs; i++) {
		have += io->bvec[i].bv_len;
		if (have >= need)
			return i + 1;
	}
	return 0;
}

/* There is an entry with a byte left, or it would have been refused. */
static bool krdma_io_number_ok(const struct krdma_io *io)
{
	if (!krdma_bvec_has(io->bvec, io->skip, KRDMA_NUMBER_BYTES))
		return false;
	return !krdma_opcode_atomic(io->op) ||
	       (io->length == KRDMA_NUMBER_BYTES && IS_ALIGNED(io->offset, KRDMA_NUMBER_BYTES));
}

/* Of a flush, which has ranges, and no pages. */
static int krdma_io_check_flush(const struct krdma_io *io, struct krdma_transfer *x)
{
	const struct krdma_region *region = x->region;
	u64 sum = 0, length = READ_ONCE(region->length);
	u32 i;

	if (io->flags || io->timeout < 0)
		return -EINVAL;
	if (io->ranges) {
		x->range = io->ranges;
		x->nrange = io->nr_ranges;
	}
	for (i = 0; i < x->nrange; i++) {
		if (!x->range[i].length || check_add_overflow(sum, x->range[i].length, &sum))
			return -EINVAL;
		if (!krdma_range_ok(x->range[i].addr, x->range[i].length, length))
			return -ERANGE;
	}
	if (!sum || sum != io->length)
		return -EINVAL;
	return region->rights & KRDMA_RIGHT_DURABLE ? 0 : -EOPNOTSUPP;
}

/* More than a READ or WRITE is. Return: the rights that it needs beside its own, or an errno. */
static int krdma_io_check_more(const struct krdma_io *io, struct krdma_transfer *x)
{
	const u32 place = KRDMA_OPF_UNPLACED | KRDMA_OPF_PLACED;

	if ((io->flags & (KRDMA_OPF_MESSAGE | place)) && x->opcode != KRDMA_OP_WRITE)
		return -EINVAL;
	if ((io->flags & place) == place)
		return -EINVAL;
	if (krdma_opcode_number(x->opcode) &&
	    ((io->flags & KRDMA_OPF_VERIFY) || !krdma_io_number_ok(io)))
		return -EINVAL;
	krdma_transfer_flags(x, io->flags);
	x->operand = io->operand;
	x->compare = io->compare;
	return krdma_flags_right(io->flags);
}

/* krdma_io_check() of an operation that is neither READ nor WRITE, or that has flags. */
static noinline int krdma_io_check_any(const struct krdma_io *io, struct krdma_transfer *x)
{
	const struct krdma_region *region = x->region;
	u32 right = io->op <= U8_MAX ? krdma_opcode_right(io->op) : 0;
	int more;

	if (!right || (io->flags & ~KRDMA_IO_FLAGS))
		return -EOPNOTSUPP;
	x->local.fills = krdma_opcode_fills(io->op);
	if (io->op == KRDMA_OP_FLUSH)
		return krdma_io_check_flush(io, x);
	x->local.n = krdma_io_bvecs(io);
	if (io->timeout < 0)
		return -EINVAL;
	if (io->op == KRDMA_OP_SEND) {
		if (io->length > KRDMA_MESSAGE_MAX || (io->length && !x->local.n) || io->offset ||
		    io->flags)
			return -EINVAL;
	} else if (!io->length || !x->local.n) {
		return -EINVAL;
	}
	more = krdma_io_check_more(io, x);
	if (more < 0)
		return more;
	if (io->op != KRDMA_OP_SEND &&
	    !krdma_range_ok(io->offset, io->length, READ_ONCE(region->length)))
		return -ERANGE;
	return (right | more) & ~region->rights ? -EACCES : 0;
}

/* What does not fit is cut nowhere else. */
static int krdma_io_check(const struct krdma_io *io, struct krdma_transfer *x)
{
	bool read = io->op == KRDMA_OP_READ;

	x->opcode = io->op;
	krdma_transfer_flags(x, 0);
	if (unlikely(!(read || io->op == KRDMA_OP_WRITE) || io->flags))
		return krdma_io_check_any(io, x);
	x->local.fills = read;
	/* Mostly it is all in the first. */
	if (io->nr_bvecs && io->skip <= io->bvec->bv_len &&
	    io->length <= io->bvec->bv_len - io->skip)
		x->local.n = 1;
	else
		x->local.n = krdma_io_bvecs(io);
	if (io->timeout < 0 || !io->length || !x->local.n)
		return -EINVAL;
	if (!krdma_range_ok(io->offset, io->length, READ_ONCE(x->region->length)))
		return -ERANGE;
	return x->region->rights & (read ? KRDMA_RIGHT_READ : KRDMA_RIGHT_WRITE) ? 0 : -EACCES;
}

/* False: it has ended already. */
static bool krdma_io_prepare(struct krdma_io *io)
{
	struct krdma_io_own *own = krdma_io_own(io);
	struct krdma_region_handle *handle = io->region;
	struct krdma_transfer *x = &own->x;

	krdma_transfer_init(x);
	own->handle = handle;
	x->submitter = &handle->submitter;
	x->cancel = atomic_read(&handle->submitter.cancels);
	x->region = handle->region;
	x->done = krdma_io_done;
	x->local.bvec = io->bvec;
	x->length = io->length;
	/* A message is of no range. */
	x->one[1] = (struct krdma_vec){ .addr = io->offset,
					.length = io->op == KRDMA_OP_SEND ? 0 : io->length };
	x->range = &x->one[1];
	x->nrange = 1;
	x->uid = GLOBAL_ROOT_UID;
	x->timeout = io->timeout ?: ns_to_ktime(KRDMA_DEFAULT_TIMEOUT_NS);
	x->status = krdma_io_check(io, x);
	if (!x->status && READ_ONCE(handle->closing))
		x->status = -ECANCELED;
	if (x->status) {
		/* It may be cancelled. */
		x->ch = x->region->sess->ch;
		x->ended = true;
		return false;
	}
	krdma_transfer_route(x, io->cpu ? io->cpu - 1 : raw_smp_processor_id());
	/* Behind empty entries, too. */
	if (x->local.n && (io->skip || !io->bvec->bv_len))
		krdma_bvec_step(&x->local.at, io->bvec, x->local.n, io->skip);
	return true;
}

void krdma_io_submit_batch(struct list_head *batch)
{
	struct krdma_io *io, *next;
	struct krdma_queue transfers = KRDMA_QUEUE_INIT(transfers);
	struct krdma_queue refused = KRDMA_QUEUE_INIT(refused);
	struct krdma_region_handle *handle = NULL;
	u32 n = 0;

	list_for_each_entry_safe(io, next, batch, node) {
		INIT_LIST_HEAD(&io->node);
		if (io->region != handle) {
			if (handle)
				percpu_ref_get_many(&handle->ios, n);
			handle = io->region;
			n = 0;
		}
		n++;
		krdma_queue_add(krdma_io_prepare(io) ? &transfers : &refused, &krdma_io_own(io)->x);
	}
	/* ORDER: before they may end. It is open, or the caller is a ->done, which holds it. */
	if (handle)
		percpu_ref_get_many(&handle->ios, n);
	INIT_LIST_HEAD(batch);
	krdma_transfers_submit(&transfers);
	krdma_transfers_complete(refused.first);
}
EXPORT_SYMBOL_GPL(krdma_io_submit_batch);

void krdma_io_submit(struct krdma_io *io)
{
	LIST_HEAD(batch);

	list_add(&io->node, &batch);
	krdma_io_submit_batch(&batch);
}
EXPORT_SYMBOL_GPL(krdma_io_submit);

void krdma_io_cancel(struct krdma_io *io)
{
	krdma_transfer_cancel(&krdma_io_own(io)->x, -ECANCELED);
}
EXPORT_SYMBOL_GPL(krdma_io_cancel);

/* ---- exports ---- */

static void krdma_api_message(void *priv, const struct krdma_message *message)
{
	struct krdma_export_handle *handle = priv;
	struct krdma_received received = {
		.value = message->value,
		.session = message->session,
		.region = message->region,
		.uid = make_kuid(&init_user_ns, message->uid),
		.written = message->flags & KRDMA_MESSAGE_WRITTEN,
		.length = message->length,
		.data = message + 1,
	};

	krdma_addr_from_user(&message->peer, &received.peer, NULL);
	handle->message(handle->priv, &received);
}

struct krdma_export_handle *krdma_export(struct krdma_client *client, const char *name,
					 struct page *const *pages, u64 length, unsigned int rights,
					 krdma_message_fn message, void *priv)
{
	struct krdma_ioc_export cmd = { .length = length, .rights = rights };
	struct krdma_export_handle *handle;
	struct krdma_error error = {};
	int rc;

	if (!pages || strscpy(cmd.name, name, sizeof(cmd.name)) < 0 ||
	    (rights & ~KRDMA_WIRE_RIGHTS) || !message != !(rights & KRDMA_RIGHT_MESSAGE))
		return ERR_PTR(-EINVAL);
	handle = krdma_inject(kzalloc(sizeof(*handle), GFP_KERNEL), NULL);
	if (!handle)
		return ERR_PTR(-ENOMEM);
	handle->message = message;
	handle->priv = priv;
	handle->export = krdma_export_new(client->ctx->net, client->ctx->payer, &cmd, pages,
					  krdma_api_message, handle, &error);
	rc = PTR_ERR_OR_ZERO(handle->export);
	if (!rc) {
		rc = krdma_export_publish(handle->export, &error);
		if (rc)
			krdma_export_put(handle->export);
	}
	if (rc)
		return krdma_api_fail(handle, rc, &error);
	handle->client = krdma_client_get(client);
	return handle;
}
EXPORT_SYMBOL_GPL(krdma_export);

int krdma_unexport(struct krdma_export_handle *handle)
{
	struct krdma_export_end end = { .done = COMPLETION_INITIALIZER_ONSTACK(end.done) };

	if (IS_ERR_OR_NULL(handle))
		return 0;
	handle->export->end = &end;
	krdma_export_unpublish(handle->export);
	/* Bounded: who does not give its keys back loses its session. */
	wait_for_completion(&end.done);
	krdma_client_put(handle->client);
	kfree(handle);
	return end.lost ? -EIO : 0;
}
EXPORT_SYMBOL_GPL(krdma_unexport);
