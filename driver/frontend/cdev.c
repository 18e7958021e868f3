// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/krdma_mover: open files and the ioctls.
 *
 * What comes from the user is copied once and checked here; from here on it is
 * trusted. An id is reserved first and published last, when nothing can fail
 * any more.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "frontend/ctx.h"

struct krdma_call;

/* A command. */
struct krdma_ioc {
	unsigned int cmd;
	u32 size;     /* of its struct */
	u32 min_size; /* of the struct's first version */
	u32 flags;    /* that it knows */
	int (*handler)(struct krdma_call *call);
};

/* One ioctl under way. */
struct krdma_call {
	const struct krdma_ioc *ioc;
	struct krdma_ctx *ctx;
	struct krdma_error error;
	void __user *user;
	u32 user_size;
	union {
		u32 word[2]; /* the size, and flags */
		struct krdma_ioc_query query;
		struct krdma_ioc_last_error last_error;
		struct krdma_ioc_destroy destroy;
		struct krdma_ioc_list list;
		struct krdma_ioc_listen listen;
		struct krdma_ioc_unlisten unlisten;
		struct krdma_ioc_connect connect;
		struct krdma_ioc_connected connected;
		struct krdma_ioc_disconnect disconnect;
		struct krdma_ioc_ping ping;
		struct krdma_ioc_buffer buffer;
		struct krdma_ioc_export export;
		struct krdma_ioc_export_grow export_grow;
		struct krdma_ioc_open open;
		struct krdma_ioc_submit submit;
		struct krdma_ioc_cancel cancel;
		struct krdma_ioc_eventfd eventfd;
		struct krdma_ioc_message_queue message_queue;
		struct krdma_ioc_monitor monitor;
	} cmd;
	bool nonblock;
};

/* ---- addresses ---- */

/* Is an address whole, and zero behind that? */
static int krdma_addr_check(const struct sockaddr_storage *addr, bool any_ok,
			    struct krdma_error *error)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	size_t used = 0;

	switch (addr->ss_family) {
	case AF_UNSPEC:
		used = any_ok ? sizeof(addr->ss_family) : 0;
		break;
	case AF_INET:
		used = offsetofend(struct sockaddr_in, sin_addr);
		break;
	case AF_INET6:
		used = v6->sin6_flowinfo ? 0 : sizeof(*v6);
		break;
	}
	if (used && !memchr_inv((const u8 *)addr + used, 0, sizeof(*addr) - used))
		return 0;
	return krdma_explain(error, -EINVAL, "an address of family %u is malformed",
			     addr->ss_family);
}

/**
 * krdma_addr_from_user - check and convert an address
 * @in: as the user gave it
 * @out: for rdma_cm; port 0 stays 0
 * @error: explanation
 *
 * Context: any.
 * Return: 0 or -EINVAL
 */
int krdma_addr_from_user(const struct krdma_sockaddr *in, struct sockaddr_storage *out,
			 struct krdma_error *error)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	switch (in->family) {
	case AF_INET:
		if (in->scope_id || memchr_inv(in->addr + 4, 0, sizeof(in->addr) - 4))
			break;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(in->port);
		memcpy(&v4->sin_addr, in->addr, 4);
		return 0;
	case AF_INET6:
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(in->port);
		v6->sin6_scope_id = in->scope_id;
		memcpy(&v6->sin6_addr, in->addr, 16);
		return 0;
	}
	return krdma_explain(error, -EINVAL, "an address of family %u is malformed", in->family);
}

/**
 * krdma_addr_default_port - the port of those who name none
 * @addr: address for rdma_cm
 *
 * Context: any.
 */
void krdma_addr_default_port(struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;

	/* Both families have the port in the same place. */
	BUILD_BUG_ON(offsetof(struct sockaddr_in, sin_port) !=
		     offsetof(struct sockaddr_in6, sin6_port));
	if (!v4->sin_port)
		v4->sin_port = htons(KRDMA_DEFAULT_PORT);
}

/* ---- replies ---- */

static int krdma_call_unread(struct krdma_call *call)
{
	/* That is why it fails, whatever an operation came to. */
	call->error.err = 0;
	return krdma_explain(&call->error, -EFAULT, "the result can't be written");
}

static int krdma_call_reply(struct krdma_call *call)
{
	if (copy_to_user(call->user, &call->cmd, min(call->ioc->size, call->user_size)))
		return krdma_call_unread(call);
	return 0;
}

/* Last step: tell the user, then let the id be found. Or, with @rc, give it up. */
static int krdma_object_end(struct krdma_call *call, struct krdma_handle *h, int rc)
{
	if (!rc)
		rc = krdma_call_reply(call);
	if (rc)
		krdma_handle_remove(call->ctx, h->id, h);
	else
		/* The slot is reserved, so that this does not allocate. */
		xa_store(&call->ctx->handles, h->id, h, 0);
	return rc;
}

/* Last step: a descriptor of a file, or of none where that is an ERR_PTR. */
static int krdma_call_file(struct krdma_call *call, struct file *file, s32 *to)
{
	int rc, fd;

	if (IS_ERR(file))
		return PTR_ERR(file);
	fd = krdma_inject(get_unused_fd_flags(O_CLOEXEC), -EMFILE);
	*to = fd;
	rc = fd < 0 ? krdma_explain(&call->error, fd, "no file descriptor is free: RLIMIT_NOFILE") :
		      krdma_call_reply(call);
	if (!rc) {
		fd_install(fd, file);
		return 0;
	}
	if (fd >= 0)
		put_unused_fd(fd);
	fput(file);
	return rc;
}

/* ---- simple commands ---- */

static int krdma_ioc_query(struct krdma_call *call)
{
	struct krdma_payer *payer = call->ctx->payer;

	call->cmd.query = (struct krdma_ioc_query){
		.size = call->user_size,
		.features = KRDMA_FEATURE_RDMA | KRDMA_FEATURE_ASYNC | KRDMA_FEATURE_VECTORS |
			    KRDMA_FEATURE_AFTER | KRDMA_FEATURE_ATOMIC | KRDMA_FEATURE_DIGEST |
			    KRDMA_FEATURE_UNPLACED | KRDMA_FEATURE_MESSAGES | KRDMA_FEATURE_PLACED |
			    KRDMA_FEATURE_CONNECT | KRDMA_FEATURE_MONITOR | KRDMA_FEATURE_FLUSH |
			    KRDMA_FEATURE_GROW | krdma_uring_features(),
		.incarnation = krdma_incarnation,
		.pinned_bytes = (u64)atomic64_read(&payer->pinned) << PAGE_SHIFT,
		.pinned_limit = payer->limit << PAGE_SHIFT,
		.op_pin_max = KRDMA_OP_PIN_MAX,
		.max_ids = KRDMA_IDS_MAX,
		.submit_max = KRDMA_SUBMIT_MAX,
		.version = KRDMA_VERSION,
		.ops_max = KRDMA_CTX_OPS_MAX,
		.vector_max = KRDMA_VECTOR_MAX,
	};
	return krdma_call_reply(call);
}

static int krdma_ioc_last_error(struct krdma_call *call)
{
	krdma_error_last(call->ctx, &call->cmd.last_error);
	return krdma_call_reply(call);
}

static int krdma_ioc_destroy(struct krdma_call *call)
{
	u32 id = call->cmd.destroy.id;

	if (!krdma_handle_remove(call->ctx, id, NULL))
		return 0;
	return krdma_explain(&call->error, -ENOENT, "%u is no object of this file", id);
}

static int krdma_ioc_list(struct krdma_call *call)
{
	return krdma_list_fill(call->ctx, &call->cmd.list, &call->error) ?: krdma_call_reply(call);
}

static int krdma_ioc_monitor(struct krdma_call *call)
{
	struct krdma_ioc_monitor *cmd = &call->cmd.monitor;

	if (cmd->reserved)
		return -EINVAL;
	return krdma_call_file(call,
			       krdma_monitor_open(call->ctx, cmd->flags & KRDMA_MONITOR_NONBLOCK,
						  &call->error),
			       &cmd->fd);
}

/* ---- listeners ---- */

/* May the caller have a listener, and at such an address? */
static int krdma_listener_check(struct krdma_call *call, struct sockaddr_storage *addr)
{
	int rc;

	if (!ns_capable(call->ctx->net->user_ns, CAP_NET_ADMIN))
		return krdma_explain(&call->error, -EPERM,
				     "listeners need CAP_NET_ADMIN in the network namespace");
	rc = krdma_addr_check(addr, false, &call->error);
	if (!rc)
		krdma_addr_default_port(addr);
	return rc;
}

/* @family: of the listener, which hears of peers with such an address only */
static int krdma_allow_check(struct krdma_call *call, const struct krdma_allow *allow,
			     sa_family_t family)
{
	struct sockaddr_storage addr;
	bool any = false;
	u32 i;
	int rc;

	for (i = 0; i < allow->n; i++) {
		const struct krdma_prefix *prefix = &allow->prefixes[i];

		rc = krdma_addr_from_user(&prefix->addr, &addr, &call->error);
		if (rc)
			return rc;
		if (prefix->reserved ||
		    prefix->prefix_len > (prefix->addr.family == AF_INET ? 32 : 128))
			return krdma_explain(&call->error, -EINVAL,
					     "prefix %u of the allow-list is malformed", i);
		any |= addr.ss_family == family;
	}
	if (!any)
		return krdma_explain(&call->error, -EINVAL,
				     "no peer has a prefix of the allow-list: all are %s's",
				     family == AF_INET ? "IPv6" : "IPv4");
	return 0;
}

static int krdma_ioc_listen(struct krdma_call *call)
{
	struct krdma_ioc_listen *cmd = &call->cmd.listen;
	struct krdma_allow *allow = NULL;
	int rc;

	if (cmd->reserved)
		return -EINVAL;
	rc = krdma_listener_check(call, &cmd->addr);
	if (rc)
		return rc;
	if (cmd->allow_count > KRDMA_LISTEN_ALLOW_MAX)
		return krdma_explain(&call->error, -EDQUOT, "an allow-list has at most %u prefixes",
				     KRDMA_LISTEN_ALLOW_MAX);
	if (cmd->allow_count) {
		allow = krdma_inject(kmalloc(struct_size(allow, prefixes, cmd->allow_count),
					     GFP_KERNEL_ACCOUNT),
				     NULL);
		if (!allow)
			return -ENOMEM;
		allow->n = cmd->allow_count;
		if (copy_from_user(allow->prefixes, u64_to_user_ptr(cmd->allow),
				   array_size(allow->n, sizeof(*allow->prefixes))))
			rc = -EFAULT;
		else
			rc = krdma_allow_check(call, allow, cmd->addr.ss_family);
	}
	if (!rc)
		rc = krdma_listen(call->ctx->net, call->ctx, &cmd->addr, allow,
				  cmd->flags & KRDMA_LISTEN_REPLACE, &call->error);
	if (rc)
		kfree(allow);
	return rc;
}

static int krdma_ioc_unlisten(struct krdma_call *call)
{
	struct sockaddr_storage *addr = &call->cmd.unlisten.addr;
	int rc = krdma_listener_check(call, addr);

	return rc    ?:
		       krdma_unlisten(call->ctx->net, addr,
				      call->cmd.unlisten.flags & KRDMA_UNLISTEN_CLOSE,
				      &call->error);
}

/* ---- sessions and regions ---- */

/* The paths of a session. Return: 0 or a negative errno */
static int krdma_connect_routes(struct krdma_call *call, struct krdma_route *routes)
{
	struct krdma_ioc_connect *cmd = &call->cmd.connect;
	struct krdma_path_addr paths[KRDMA_PATHS_MAX - 1];
	u32 i;
	int rc;

	if (cmd->npaths >= KRDMA_PATHS_MAX)
		return krdma_explain(&call->error, -EINVAL, "a session has at most %u paths",
				     KRDMA_PATHS_MAX);
	if (copy_from_user(paths, u64_to_user_ptr(cmd->paths), cmd->npaths * sizeof(*paths)))
		return krdma_explain(&call->error, -EFAULT, "the paths can't be read");
	rc = krdma_addr_check(&cmd->dst, false, &call->error) ?:
		     krdma_addr_check(&cmd->src, true, &call->error);
	routes[0] = (struct krdma_route){ cmd->dst, cmd->src };
	krdma_addr_default_port(&routes[0].dst);
	for (i = 0; i < cmd->npaths && !rc; i++) {
		struct krdma_route *route = &routes[i + 1];

		rc = krdma_addr_from_user(&paths[i].dst, &route->dst, &call->error);
		if (!rc && memchr_inv(&paths[i].src, 0, sizeof(paths[i].src)))
			rc = krdma_addr_from_user(&paths[i].src, &route->src, &call->error);
		krdma_addr_default_port(&route->dst);
	}
	return rc;
}

/* Without waiting for it. Return: the session; or an ERR_PTR */
static struct krdma_session *krdma_connect_async(struct krdma_call *call, struct krdma_handle *h,
						 const struct krdma_route *routes,
						 const struct krdma_connect_options *options)
{
	struct krdma_ioc_connect *cmd = &call->cmd.connect;
	struct krdma_connecting *c = NULL;
	struct krdma_session *sess;

	if (cmd->timeout_ms)
		return ERR_PTR(krdma_explain(&call->error, -EINVAL,
					     "a connect that is not waited for has no timeout"));
	if (cmd->eventfd != -1) {
		c = krdma_connecting_new(call->ctx, cmd->eventfd, &call->error);
		if (IS_ERR(c))
			return ERR_CAST(c);
		h->connecting = c;
	}
	sess = krdma_session_begin_connect(call->ctx->net, call->ctx->user->uid, routes,
					   cmd->npaths + 1, options, &call->error);
	if (c && !IS_ERR(sess))
		krdma_connecting_begin(c, sess);
	return sess;
}

static int krdma_ioc_connect(struct krdma_call *call)
{
	struct krdma_ioc_connect *cmd = &call->cmd.connect;
	bool async = cmd->flags & KRDMA_CONNECT_ASYNC;
	struct krdma_connect_options options = {
		.flags = cmd->flags & KRDMA_CONNECT_FLAGS,
		.resume_s = cmd->resume_s,
		.keepalive_s = cmd->keepalive_s,
		.policy = cmd->policy,
	};
	struct krdma_route *routes;
	struct krdma_handle *h;
	int rc;

	if (cmd->reserved || (cmd->eventfd && !async))
		return -EINVAL;
	rc = krdma_connect_options_check(&options, &call->error);
	if (rc)
		return rc;
	routes = krdma_inject(kcalloc(KRDMA_PATHS_MAX, sizeof(*routes), GFP_KERNEL), NULL);
	if (!routes)
		return -ENOMEM;
	rc = krdma_connect_routes(call, routes);
	if (rc)
		goto out;
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_SESSION, &cmd->id, &call->error);
	rc = PTR_ERR_OR_ZERO(h);
	if (rc)
		goto out;
	if (async)
		h->sess = krdma_connect_async(call, h, routes, &options);
	else
		h->sess = krdma_session_connect(call->ctx->net, call->ctx->user->uid, routes,
						cmd->npaths + 1, &options,
						krdma_default_ms(cmd->timeout_ms), &call->error);
	if (!IS_ERR(h->sess))
		cmd->serial = h->sess->serial;
	rc = krdma_object_end(call, h, PTR_ERR_OR_ZERO(h->sess));
out:
	kfree(routes);
	return rc;
}

static int krdma_ioc_connected(struct krdma_call *call)
{
	struct krdma_ioc_connected *cmd = &call->cmd.connected;

	if (cmd->reserved)
		return -EINVAL;
	return krdma_connected(call->ctx, cmd->session, &call->error);
}

static int krdma_ioc_ping(struct krdma_call *call)
{
	struct krdma_ioc_ping *cmd = &call->cmd.ping;
	struct krdma_handle *h;
	int rc;

	if (cmd->reserved)
		return -EINVAL;
	if (cmd->length > KRDMA_PING_MAX)
		return krdma_explain(&call->error, -EINVAL, "a ping carries at most %u bytes",
				     KRDMA_PING_MAX);
	h = krdma_session_handle_get(call->ctx, cmd->session, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	rc = krdma_ping(h->sess, cmd->length, krdma_default_ms(cmd->timeout_ms), &cmd->rtt_ns,
			&call->error);
	krdma_handle_put(h);
	return rc ?: krdma_call_reply(call);
}

static int krdma_ioc_disconnect(struct krdma_call *call)
{
	struct krdma_ioc_disconnect *cmd = &call->cmd.disconnect;
	struct krdma_ctx *ctx = call->ctx;

	if (cmd->reserved)
		return -EINVAL;
	if (cmd->peer.family == AF_UNSPEC ?
		    !!memchr_inv(&cmd->peer, 0, sizeof(cmd->peer)) :
		    cmd->serial || (cmd->peer.family != AF_INET && cmd->peer.family != AF_INET6))
		return krdma_explain(&call->error, -EINVAL,
				     "one session is meant, or those with an IPv4 or IPv6 address");
	if (cmd->timeout_ms > KRDMA_DRAIN_MAX_MS)
		return krdma_explain(&call->error, -EINVAL, "what is under way has %u s at most",
				     KRDMA_DRAIN_MAX);
	return krdma_sessions_drain(ctx->net, ctx->user->uid,
				    ns_capable(ctx->net->user_ns, CAP_NET_ADMIN), cmd->serial,
				    &cmd->peer, krdma_default_ms(cmd->timeout_ms), &call->error);
}

static int krdma_ioc_open(struct krdma_call *call)
{
	struct krdma_ioc_open *cmd = &call->cmd.open;
	struct krdma_handle *h, *sh;
	int rc;

	if (cmd->reserved)
		return -EINVAL;
	if (cmd->rights & ~KRDMA_WIRE_RIGHTS)
		return krdma_explain(&call->error, -EINVAL, "there are no such rights as %#x",
				     cmd->rights);
	if (!krdma_wire_name_ok(cmd->name, sizeof(cmd->name)))
		return krdma_explain(&call->error, -EINVAL, "that is no name of an export");
	sh = krdma_session_handle_get(call->ctx, cmd->session, &call->error);
	if (IS_ERR(sh))
		return PTR_ERR(sh);
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_REGION, &cmd->id, &call->error);
	if (IS_ERR(h)) {
		rc = PTR_ERR(h);
		goto out;
	}
	h->region = krdma_region_open(sh->sess, cmd->name, cmd->rights, cmd->flags, cmd->timeout_ms,
				      &call->error);
	if (!IS_ERR(h->region)) {
		krdma_session_join(sh->sess);
		cmd->length = READ_ONCE(h->region->length);
		cmd->segment_size = 1ULL << h->region->segment_shift;
		cmd->granted = h->region->rights;
	}
	rc = krdma_object_end(call, h, PTR_ERR_OR_ZERO(h->region));
out:
	krdma_handle_put(sh);
	return rc;
}

/* ---- memory ---- */

static int krdma_ioc_buffer(struct krdma_call *call)
{
	struct krdma_ioc_buffer *cmd = &call->cmd.buffer;
	struct krdma_handle *h;

	if (cmd->reserved)
		return -EINVAL;
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_BUFFER, &cmd->id, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	h->mem = krdma_mem_pin(call->ctx->payer, cmd->addr, cmd->length,
			       cmd->flags & KRDMA_BUFFER_WRITABLE, &call->error);
	return krdma_object_end(call, h, PTR_ERR_OR_ZERO(h->mem));
}

static int krdma_ioc_export(struct krdma_call *call)
{
	struct krdma_ioc_export *cmd = &call->cmd.export;
	struct krdma_handle *h;
	int rc;

	if (!(cmd->flags & KRDMA_EXPORT_FD) && cmd->fd)
		return -EINVAL;
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_EXPORT, &cmd->id, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	h->export = krdma_export_new(call->ctx->net, call->ctx->payer, cmd, NULL, NULL, NULL,
				     &call->error);
	rc = PTR_ERR_OR_ZERO(h->export);
	if (!rc)
		rc = krdma_export_publish(h->export, &call->error);
	return krdma_object_end(call, h, rc);
}

static int krdma_ioc_export_grow(struct krdma_call *call)
{
	struct krdma_ioc_export_grow *cmd = &call->cmd.export_grow;
	struct krdma_handle *h;
	int rc;

	if (cmd->reserved)
		return -EINVAL;
	h = krdma_handle_get(call->ctx, cmd->id, KRDMA_HANDLE_EXPORT, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	rc = krdma_export_grow(call->ctx->payer, h->export, cmd->length, &call->error);
	krdma_handle_put(h);
	return rc;
}

static int krdma_ioc_message_queue(struct krdma_call *call)
{
	struct krdma_ioc_message_queue *cmd = &call->cmd.message_queue;
	struct krdma_handle *h;
	struct file *file;

	h = krdma_handle_get(call->ctx, cmd->id, KRDMA_HANDLE_EXPORT, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	file = krdma_message_queue_open(h->export, cmd->flags & KRDMA_MESSAGE_QUEUE_NONBLOCK,
					&call->error);
	krdma_handle_put(h);
	return krdma_call_file(call, file, &cmd->fd);
}

/* ---- operations ---- */

static int krdma_ioc_submit(struct krdma_call *call)
{
	struct krdma_ioc_submit *cmd = &call->cmd.submit, __user *to = call->user;
	int rc = krdma_submit(call->ctx, cmd, call->nonblock, &call->error);

	if (!rc && (put_user(cmd->failed, &to->failed) || put_user(cmd->accepted, &to->accepted)))
		rc = krdma_call_unread(call);
	return rc;
}

static int krdma_ioc_cancel(struct krdma_call *call)
{
	struct krdma_ioc_cancel *cmd = &call->cmd.cancel;

	if (cmd->reserved || ((cmd->flags & KRDMA_CANCEL_ALL) && cmd->user_data))
		return -EINVAL;
	krdma_cancel(call->ctx, cmd);
	return krdma_call_reply(call);
}

static int krdma_ioc_eventfd(struct krdma_call *call)
{
	struct krdma_ioc_eventfd *cmd = &call->cmd.eventfd;

	if (cmd->reserved)
		return -EINVAL;
	return krdma_eventfd_set(call->ctx, cmd->fd, &call->error);
}

/* ---- dispatch ---- */

#define KRDMA_IOC(_cmd, _name, _last, _flags)                                              \
	{                                                                                  \
		.cmd = KRDMA_IOC_##_cmd, .size = sizeof(struct krdma_ioc_##_name),         \
		.min_size = offsetofend(struct krdma_ioc_##_name, _last), .flags = _flags, \
		.handler = krdma_ioc_##_name,                                              \
	}

/*
 * The command; its name in lower case; the last member of its struct's first version; the
 * flags that it knows, or U32_MAX if it has no flags.
 */
static const struct krdma_ioc krdma_iocs[] = {
	KRDMA_IOC(SUBMIT, submit, reserved, KRDMA_SUBMIT_ASYNC),
	KRDMA_IOC(QUERY, query, vector_max, 0),
	KRDMA_IOC(LAST_ERROR, last_error, text, U32_MAX),
	KRDMA_IOC(DESTROY, destroy, id, U32_MAX),
	KRDMA_IOC(LIST, list, cursor, 0),
	KRDMA_IOC(LISTEN, listen, reserved, KRDMA_LISTEN_REPLACE),
	KRDMA_IOC(UNLISTEN, unlisten, addr, KRDMA_UNLISTEN_CLOSE),
	KRDMA_IOC(CONNECT, connect, paths, KRDMA_CONNECT_FLAGS | KRDMA_CONNECT_ASYNC),
	KRDMA_IOC(CONNECTED, connected, reserved, 0),
	KRDMA_IOC(PING, ping, rtt_ns, 0),
	KRDMA_IOC(DISCONNECT, disconnect, peer, 0),
	KRDMA_IOC(BUFFER, buffer, reserved, KRDMA_BUFFER_WRITABLE),
	KRDMA_IOC(EXPORT, export, name, KRDMA_EXPORT_FD | KRDMA_EXPORT_DURABLE),
	KRDMA_IOC(EXPORT_GROW, export_grow, length, 0),
	KRDMA_IOC(OPEN, open, name, KRDMA_OPEN_FLAGS),
	KRDMA_IOC(CANCEL, cancel, reserved, KRDMA_CANCEL_ALL),
	KRDMA_IOC(MESSAGE_QUEUE, message_queue, fd, KRDMA_MESSAGE_QUEUE_NONBLOCK),
	KRDMA_IOC(MONITOR, monitor, fd, KRDMA_MONITOR_NONBLOCK),
	KRDMA_IOC(EVENTFD, eventfd, reserved, 0),
};

/* SUBMIT comes often, and mostly with the struct that is known here. Return: it is copied */
static bool krdma_call_submit(struct krdma_call *call)
{
	struct krdma_ioc_submit *cmd = &call->cmd.submit;

	if (call->ioc->handler != krdma_ioc_submit ||
	    copy_from_user(cmd, call->user, sizeof(*cmd)) || cmd->size != sizeof(*cmd))
		return false;
	call->user_size = sizeof(*cmd);
	return true;
}

static int krdma_call_copy(struct krdma_call *call)
{
	const struct krdma_ioc *ioc = call->ioc;

	if (get_user(call->user_size, (u32 __user *)call->user))
		return krdma_explain(&call->error, -EFAULT, "the command can't be read");
	if (call->user_size > PAGE_SIZE)
		return krdma_explain(&call->error, -E2BIG, "the command has %u bytes",
				     call->user_size);
	if (call->user_size < ioc->min_size)
		return krdma_explain(&call->error, -EINVAL, "the command has %u bytes, it needs %u",
				     call->user_size, ioc->min_size);
	return copy_struct_from_user(&call->cmd, ioc->size, call->user, call->user_size);
}

static int krdma_ioctl_call(struct krdma_call *call)
{
	int rc = krdma_call_submit(call) ? 0 : krdma_call_copy(call);

	if (rc)
		return rc;
	if (call->cmd.word[1] & ~call->ioc->flags)
		return -EOPNOTSUPP;
	return call->ioc->handler(call);
}

static long krdma_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	const struct krdma_ioc *ioc = krdma_iocs;
	struct krdma_ctx *ctx = file->private_data;
	struct krdma_lane *lane = krdma_lane_of(ctx);
	struct krdma_call *call;
	int rc;

	while (ioc->cmd != cmd)
		if (++ioc == krdma_iocs + ARRAY_SIZE(krdma_iocs))
			return -ENOTTY;

	/* That of the call before: all that is read of it is written first. */
	call = xchg(&lane->call, NULL) ?:
		       krdma_inject(kzalloc(sizeof(*call), GFP_KERNEL_ACCOUNT), NULL);
	if (!call)
		return -ENOMEM;
	krdma_error_init(&call->error);
	call->ioc = ioc;
	call->ctx = ctx;
	call->nonblock = file->f_flags & O_NONBLOCK;
	call->user = (void __user *)arg;
	rc = krdma_ioctl_call(call);
	/* A batch may be done and still have a sentence about one operation. */
	if ((rc || call->error.err) && rc != -ERESTARTSYS)
		krdma_error_keep(ctx, &call->error, rc);
	kfree(xchg(&lane->call, call));
	return rc;
}

/* ---- the file ---- */

static int krdma_file_open(struct inode *inode, struct file *file)
{
	struct krdma_ctx *ctx = krdma_ctx_new(current->nsproxy->net_ns, current_euid());

	if (!ctx)
		return -ENOMEM;
	file->private_data = ctx;
	return stream_open(inode, file);
}

static int krdma_file_release(struct inode *inode, struct file *file)
{
	struct krdma_ctx *ctx = file->private_data;

	queue_work(krdma_close_wq, &ctx->close_work);
	return 0;
}

static const struct file_operations krdma_fops = {
	.owner = THIS_MODULE,
	.open = krdma_file_open,
	.release = krdma_file_release,
	.read = krdma_reap,
	.poll = krdma_poll,
	.uring_cmd = krdma_uring_cmd,
	.unlocked_ioctl = krdma_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice krdma_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "krdma_mover",
	.fops = &krdma_fops,
	.mode = 0600,
	.groups = krdma_stats_groups,
};

/**
 * krdma_cdev_register - make the device node
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_cdev_register(void)
{
	return krdma_inject(misc_register(&krdma_misc), -ENOMEM);
}

/**
 * krdma_cdev_unregister - take the device node away
 *
 * Context: process; no file is open.
 */
void krdma_cdev_unregister(void)
{
	misc_deregister(&krdma_misc);
}
