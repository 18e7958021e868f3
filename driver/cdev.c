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
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>

#include "ctx.h"

/* One ioctl under way. */
struct krdma_call {
	struct krdma_ctx *ctx;
	struct krdma_error error;
	void __user *user;
	u32 user_size;
	union {
		u32 size;
		struct krdma_ioc_query query;
		struct krdma_ioc_last_error last_error;
		struct krdma_ioc_destroy destroy;
		struct krdma_ioc_list list;
		struct krdma_ioc_listen listen;
		struct krdma_ioc_unlisten unlisten;
		struct krdma_ioc_connect connect;
		struct krdma_ioc_ping ping;
		struct krdma_ioc_buffer buffer;
		struct krdma_ioc_export export;
		struct krdma_ioc_open open;
		struct krdma_ioc_submit submit;
		struct krdma_ioc_cancel cancel;
		struct krdma_ioc_eventfd eventfd;
		struct krdma_ioc_inbox inbox;
	} cmd;
	bool nonblock;
};

/* ---- addresses ---- */

static bool krdma_bytes_zero(const u8 *p, size_t n)
{
	return !memchr_inv(p, 0, n);
}

/**
 * krdma_addr_from_user - check and convert an address
 * @in: as the user gave it
 * @out: for rdma_cm; port 0 stays 0
 * @any_ok: AF_UNSPEC is allowed
 * @error: explanation
 *
 * Context: any.
 * Return: 0 or -EINVAL
 */
int krdma_addr_from_user(const struct krdma_sockaddr *in, struct sockaddr_storage *out, bool any_ok,
			 struct krdma_error *error)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	switch (in->family) {
	case AF_UNSPEC:
		if (any_ok && !in->port && !in->scope_id &&
		    krdma_bytes_zero(in->addr, sizeof(in->addr)))
			return 0;
		break;
	case AF_INET:
		if (in->scope_id || !krdma_bytes_zero(in->addr + 4, sizeof(in->addr) - 4))
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
 * krdma_addr_to_user - convert an address
 * @in: from rdma_cm
 * @out: for the user
 *
 * Context: any.
 */
void krdma_addr_to_user(const struct sockaddr_storage *in, struct krdma_sockaddr *out)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)in;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)in;

	memset(out, 0, sizeof(*out));
	out->family = in->ss_family;
	if (in->ss_family == AF_INET) {
		out->port = ntohs(v4->sin_port);
		memcpy(out->addr, &v4->sin_addr, 4);
	} else if (in->ss_family == AF_INET6) {
		out->port = ntohs(v6->sin6_port);
		out->scope_id = v6->sin6_scope_id;
		memcpy(out->addr, &v6->sin6_addr, 16);
	}
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

/* ---- answers ---- */

static int krdma_reply(struct krdma_call *call, size_t size)
{
	if (copy_to_user(call->user, &call->cmd, min_t(size_t, size, call->user_size))) {
		/* That is why it fails, whatever an operation came to. */
		call->error.err = 0;
		return krdma_explain(&call->error, -EFAULT, "the answer can't be written");
	}
	return 0;
}

/* Last step: tell the user, then let the id be found. Or, with @rc, give it up. */
static int krdma_object_end(struct krdma_call *call, u32 id, struct krdma_handle *h, int rc,
			    size_t size)
{
	if (rc) {
		krdma_handle_abort(call->ctx, h, id);
		return rc;
	}
	rc = krdma_reply(call, size);
	if (rc)
		krdma_handle_remove(call->ctx, id, h);
	else
		krdma_handle_publish(call->ctx, h, id);
	return rc;
}

/* ---- simple commands ---- */

static int krdma_ioc_query(struct krdma_call *call)
{
	struct krdma_ioc_query *cmd = &call->cmd.query;
	struct krdma_ctx *ctx = call->ctx;

	if (cmd->flags)
		return -EOPNOTSUPP;
	memset(cmd, 0, sizeof(*cmd));
	cmd->size = call->user_size;
	cmd->features = KRDMA_FEATURE_RDMA | KRDMA_FEATURE_ASYNC | KRDMA_FEATURE_VECTORS |
			KRDMA_FEATURE_AFTER | KRDMA_FEATURE_ATOMIC | KRDMA_FEATURE_DIGEST |
			KRDMA_FEATURE_UNPLACED | KRDMA_FEATURE_MESSAGES | KRDMA_FEATURE_PLACED |
			krdma_uring_features();
	cmd->incarnation = krdma_incarnation;
	cmd->pinned_bytes = (u64)atomic64_read(&ctx->pinned) << PAGE_SHIFT;
	cmd->pinned_limit = ctx->pinned_limit << PAGE_SHIFT;
	cmd->op_pin_max = KRDMA_OP_PIN_MAX;
	cmd->max_ids = KRDMA_IDS_MAX;
	cmd->submit_max = KRDMA_SUBMIT_MAX;
	cmd->ops_max = KRDMA_CTX_OPS_MAX;
	cmd->vector_max = KRDMA_VECTOR_MAX;
	strscpy(cmd->version, KRDMA_VERSION, sizeof(cmd->version));
	return krdma_reply(call, sizeof(*cmd));
}

static int krdma_ioc_last_error(struct krdma_call *call)
{
	struct krdma_ioc_last_error *cmd = &call->cmd.last_error;
	struct krdma_error error;

	krdma_error_last(call->ctx, &error);
	cmd->error = error.err;
	memcpy(cmd->text, error.text, sizeof(cmd->text));
	return krdma_reply(call, sizeof(*cmd));
}

static int krdma_ioc_destroy(struct krdma_call *call)
{
	struct krdma_ctx *ctx = call->ctx;

	if (krdma_handle_remove(ctx, call->cmd.destroy.id, NULL))
		return krdma_explain(&call->error, -ENOENT, "%u is no object of this file",
				     call->cmd.destroy.id);
	return 0;
}

static int krdma_ioc_list(struct krdma_call *call)
{
	int rc;

	if (call->cmd.list.flags)
		return -EOPNOTSUPP;
	rc = krdma_list_fill(call->ctx, &call->cmd.list, &call->error);
	return rc ?: krdma_reply(call, sizeof(call->cmd.list));
}

/* ---- listeners ---- */

static int krdma_may_listen(struct krdma_call *call)
{
	if (ns_capable(call->ctx->net->user_ns, CAP_NET_ADMIN))
		return 0;
	return krdma_explain(&call->error, -EPERM,
			     "listeners need CAP_NET_ADMIN in the network namespace");
}

/* @family: of the listener, which hears of peers with such an address only */
static int krdma_allow_check(struct krdma_call *call, const struct krdma_prefix *allow, u32 n,
			     sa_family_t family)
{
	struct sockaddr_storage addr;
	bool any = false;
	u32 i;
	int rc;

	for (i = 0; i < n; i++) {
		rc = krdma_addr_from_user(&allow[i].addr, &addr, false, &call->error);
		if (rc)
			return rc;
		if (allow[i].reserved ||
		    allow[i].prefix_len > (allow[i].addr.family == AF_INET ? 32 : 128))
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
	struct krdma_prefix *allow = NULL;
	struct sockaddr_storage addr;
	int rc;

	if (cmd->flags)
		return -EOPNOTSUPP;
	if (cmd->reserved)
		return -EINVAL;
	rc = krdma_may_listen(call);
	if (rc)
		return rc;
	rc = krdma_addr_from_user(&cmd->addr, &addr, false, &call->error);
	if (rc)
		return rc;
	krdma_addr_default_port(&addr);
	if (cmd->allow_count > KRDMA_LISTEN_ALLOW_MAX)
		return krdma_explain(&call->error, -EDQUOT, "an allow-list has at most %u prefixes",
				     KRDMA_LISTEN_ALLOW_MAX);
	if (cmd->allow_count) {
		allow = memdup_user(u64_to_user_ptr(cmd->allow),
				    array_size(cmd->allow_count, sizeof(*allow)));
		if (IS_ERR(allow))
			return PTR_ERR(allow);
		rc = krdma_allow_check(call, allow, cmd->allow_count, addr.ss_family);
	}
	if (!rc)
		rc = krdma_listen(call->ctx, &addr, allow, cmd->allow_count, &call->error);
	if (rc)
		kfree(allow);
	return rc;
}

static int krdma_ioc_unlisten(struct krdma_call *call)
{
	struct sockaddr_storage addr;
	int rc;

	if (call->cmd.unlisten.flags)
		return -EOPNOTSUPP;
	rc = krdma_may_listen(call);
	if (rc)
		return rc;
	rc = krdma_addr_from_user(&call->cmd.unlisten.addr, &addr, false, &call->error);
	if (rc)
		return rc;
	krdma_addr_default_port(&addr);
	return krdma_unlisten(call->ctx, &addr, &call->error);
}

/* ---- sessions and regions ---- */

static int krdma_ioc_connect(struct krdma_call *call)
{
	struct krdma_ioc_connect *cmd = &call->cmd.connect;
	struct sockaddr_storage dst, src;
	struct krdma_handle *h;
	int rc;

	if (cmd->flags & ~(KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES))
		return -EOPNOTSUPP;
	rc = krdma_addr_from_user(&cmd->dst, &dst, false, &call->error);
	if (!rc)
		rc = krdma_addr_from_user(&cmd->src, &src, true, &call->error);
	if (rc)
		return rc;
	krdma_addr_default_port(&dst);

	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_SESSION, &cmd->id, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	h->sess = krdma_session_connect(call->ctx, &dst, &src, cmd->flags,
					krdma_default_ms(cmd->timeout_ms), &call->error);
	if (!IS_ERR(h->sess))
		cmd->serial = h->sess->serial;
	return krdma_object_end(call, cmd->id, h, PTR_ERR_OR_ZERO(h->sess), sizeof(*cmd));
}

static int krdma_ioc_ping(struct krdma_call *call)
{
	struct krdma_ioc_ping *cmd = &call->cmd.ping;
	struct krdma_handle *h;
	int rc;

	if (cmd->flags)
		return -EOPNOTSUPP;
	if (cmd->reserved)
		return -EINVAL;
	if (cmd->length > KRDMA_PING_MAX)
		return krdma_explain(&call->error, -EINVAL, "a ping carries at most %u bytes",
				     KRDMA_PING_MAX);
	h = krdma_handle_get(call->ctx, cmd->session, KRDMA_HANDLE_SESSION, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	rc = krdma_ping(h->sess, cmd->length, krdma_default_ms(cmd->timeout_ms), &cmd->rtt_ns,
			&call->error);
	krdma_handle_put(h);
	return rc ?: krdma_reply(call, sizeof(*cmd));
}

static int krdma_ioc_open(struct krdma_call *call)
{
	struct krdma_ioc_open *cmd = &call->cmd.open;
	struct krdma_handle *h, *sh;
	int rc;

	if (cmd->flags)
		return -EOPNOTSUPP;
	if (cmd->reserved)
		return -EINVAL;
	if (cmd->rights & ~KRDMA_WIRE_RIGHTS)
		return krdma_explain(&call->error, -EINVAL, "there are no such rights as %#x",
				     cmd->rights);
	if (!krdma_proto_name_ok(cmd->name, sizeof(cmd->name)))
		return krdma_explain(&call->error, -EINVAL, "that is no name of an export");
	sh = krdma_handle_get(call->ctx, cmd->session, KRDMA_HANDLE_SESSION, &call->error);
	if (IS_ERR(sh))
		return PTR_ERR(sh);
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_REGION, &cmd->id, &call->error);
	if (IS_ERR(h)) {
		rc = PTR_ERR(h);
		goto out;
	}
	h->region = krdma_region_open(sh->sess, cmd->name, cmd->rights,
				      krdma_default_ms(cmd->timeout_ms), &call->error);
	if (!IS_ERR(h->region)) {
		krdma_session_join(sh->sess);
		cmd->length = h->region->length;
		cmd->segment_size = 1ULL << h->region->segment_shift;
		cmd->granted = h->region->rights;
	}
	rc = krdma_object_end(call, cmd->id, h, PTR_ERR_OR_ZERO(h->region), sizeof(*cmd));
out:
	krdma_handle_put(sh);
	return rc;
}

/* ---- memory ---- */

static int krdma_ioc_buffer(struct krdma_call *call)
{
	struct krdma_ioc_buffer *cmd = &call->cmd.buffer;
	struct krdma_handle *h;

	if (cmd->flags & ~KRDMA_BUFFER_WRITABLE)
		return -EOPNOTSUPP;
	if (cmd->reserved)
		return -EINVAL;
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_BUFFER, &cmd->id, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	h->mem = krdma_mem_pin(call->ctx, cmd->addr, cmd->length,
			       cmd->flags & KRDMA_BUFFER_WRITABLE, &call->error);
	return krdma_object_end(call, cmd->id, h, PTR_ERR_OR_ZERO(h->mem), sizeof(*cmd));
}

static int krdma_ioc_export(struct krdma_call *call)
{
	struct krdma_ioc_export *cmd = &call->cmd.export;
	struct krdma_handle *h;
	int rc;

	if (cmd->flags & ~KRDMA_EXPORT_FD)
		return -EOPNOTSUPP;
	if (!(cmd->flags & KRDMA_EXPORT_FD) && cmd->fd)
		return -EINVAL;
	h = krdma_handle_new(call->ctx, KRDMA_HANDLE_EXPORT, &cmd->id, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	h->export = krdma_export_new(call->ctx, cmd, NULL, NULL, NULL, &call->error);
	rc = PTR_ERR_OR_ZERO(h->export);
	if (!rc) {
		rc = krdma_export_publish(h->export, &call->error);
		if (rc)
			krdma_export_put(h->export);
	}
	return krdma_object_end(call, cmd->id, h, rc, sizeof(*cmd));
}

static int krdma_ioc_inbox(struct krdma_call *call)
{
	struct krdma_ioc_inbox *cmd = &call->cmd.inbox;
	struct krdma_handle *h;
	struct file *file;
	int rc, fd;

	if (cmd->flags & ~KRDMA_INBOX_NONBLOCK)
		return -EOPNOTSUPP;
	h = krdma_handle_get(call->ctx, cmd->id, KRDMA_HANDLE_EXPORT, &call->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	file = krdma_inbox_open(h->export, cmd->flags & KRDMA_INBOX_NONBLOCK, &call->error);
	krdma_handle_put(h);
	if (IS_ERR(file))
		return PTR_ERR(file);
	fd = get_unused_fd_flags(O_CLOEXEC);
	cmd->fd = fd;
	rc = fd < 0 ? krdma_explain(&call->error, fd, "no file descriptor is free: RLIMIT_NOFILE") :
		      krdma_reply(call, sizeof(*cmd));
	if (!rc) {
		fd_install(fd, file);
		return 0;
	}
	if (fd >= 0)
		put_unused_fd(fd);
	fput(file);
	return rc;
}

/* ---- operations ---- */

static int krdma_ioc_submit(struct krdma_call *call)
{
	int rc;

	if (call->cmd.submit.flags & ~KRDMA_SUBMIT_ASYNC)
		return -EOPNOTSUPP;
	rc = krdma_submit(call->ctx, &call->cmd.submit, call->nonblock, &call->error);
	return rc ?: krdma_reply(call, sizeof(call->cmd.submit));
}

static int krdma_ioc_cancel(struct krdma_call *call)
{
	struct krdma_ioc_cancel *cmd = &call->cmd.cancel;

	if (cmd->flags & ~KRDMA_CANCEL_ALL)
		return -EOPNOTSUPP;
	if (cmd->reserved || ((cmd->flags & KRDMA_CANCEL_ALL) && cmd->user_data))
		return -EINVAL;
	krdma_cancel(call->ctx, cmd);
	return krdma_reply(call, sizeof(*cmd));
}

static int krdma_ioc_eventfd(struct krdma_call *call)
{
	struct krdma_ioc_eventfd *cmd = &call->cmd.eventfd;

	if (cmd->flags)
		return -EOPNOTSUPP;
	if (cmd->reserved)
		return -EINVAL;
	return krdma_eventfd_set(call->ctx, cmd->fd, &call->error);
}

/* ---- dispatch ---- */

/* The command, the size of its struct now and in its first version, who handles it. */
#define KRDMA_IOC(_cmd, _size, _min_size, _handler)                                     \
	{                                                                               \
		.cmd = _cmd, .size = _size, .min_size = _min_size, .handler = _handler, \
	}

static const struct krdma_ioc {
	unsigned int cmd;
	u32 size;
	u32 min_size;
	int (*handler)(struct krdma_call *call);
} krdma_iocs[] = {
	KRDMA_IOC(KRDMA_IOC_QUERY, sizeof(struct krdma_ioc_query),
		  offsetofend(struct krdma_ioc_query, vector_max), krdma_ioc_query),
	KRDMA_IOC(KRDMA_IOC_LAST_ERROR, sizeof(struct krdma_ioc_last_error),
		  offsetofend(struct krdma_ioc_last_error, text), krdma_ioc_last_error),
	KRDMA_IOC(KRDMA_IOC_DESTROY, sizeof(struct krdma_ioc_destroy),
		  offsetofend(struct krdma_ioc_destroy, id), krdma_ioc_destroy),
	KRDMA_IOC(KRDMA_IOC_LIST, sizeof(struct krdma_ioc_list),
		  offsetofend(struct krdma_ioc_list, cursor), krdma_ioc_list),
	KRDMA_IOC(KRDMA_IOC_LISTEN, sizeof(struct krdma_ioc_listen),
		  offsetofend(struct krdma_ioc_listen, reserved), krdma_ioc_listen),
	KRDMA_IOC(KRDMA_IOC_UNLISTEN, sizeof(struct krdma_ioc_unlisten),
		  offsetofend(struct krdma_ioc_unlisten, addr), krdma_ioc_unlisten),
	KRDMA_IOC(KRDMA_IOC_CONNECT, sizeof(struct krdma_ioc_connect),
		  offsetofend(struct krdma_ioc_connect, serial), krdma_ioc_connect),
	KRDMA_IOC(KRDMA_IOC_PING, sizeof(struct krdma_ioc_ping),
		  offsetofend(struct krdma_ioc_ping, rtt_ns), krdma_ioc_ping),
	KRDMA_IOC(KRDMA_IOC_BUFFER, sizeof(struct krdma_ioc_buffer),
		  offsetofend(struct krdma_ioc_buffer, reserved), krdma_ioc_buffer),
	KRDMA_IOC(KRDMA_IOC_EXPORT, sizeof(struct krdma_ioc_export),
		  offsetofend(struct krdma_ioc_export, name), krdma_ioc_export),
	KRDMA_IOC(KRDMA_IOC_OPEN, sizeof(struct krdma_ioc_open),
		  offsetofend(struct krdma_ioc_open, name), krdma_ioc_open),
	KRDMA_IOC(KRDMA_IOC_SUBMIT, sizeof(struct krdma_ioc_submit),
		  offsetofend(struct krdma_ioc_submit, reserved), krdma_ioc_submit),
	KRDMA_IOC(KRDMA_IOC_CANCEL, sizeof(struct krdma_ioc_cancel),
		  offsetofend(struct krdma_ioc_cancel, reserved), krdma_ioc_cancel),
	KRDMA_IOC(KRDMA_IOC_INBOX, sizeof(struct krdma_ioc_inbox),
		  offsetofend(struct krdma_ioc_inbox, fd), krdma_ioc_inbox),
	KRDMA_IOC(KRDMA_IOC_EVENTFD, sizeof(struct krdma_ioc_eventfd),
		  offsetofend(struct krdma_ioc_eventfd, reserved), krdma_ioc_eventfd),
};

static int krdma_ioctl_call(struct krdma_call *call, const struct krdma_ioc *ioc)
{
	int rc;

	if (get_user(call->user_size, (u32 __user *)call->user))
		return krdma_explain(&call->error, -EFAULT, "the command can't be read");
	if (call->user_size > PAGE_SIZE)
		return krdma_explain(&call->error, -E2BIG, "the command has %u bytes",
				     call->user_size);
	if (call->user_size < ioc->min_size)
		return krdma_explain(&call->error, -EINVAL, "the command has %u bytes, it needs %u",
				     call->user_size, ioc->min_size);
	rc = copy_struct_from_user(&call->cmd, ioc->size, call->user, call->user_size);
	if (rc)
		return rc;
	return ioc->handler(call);
}

static long krdma_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct krdma_ctx *ctx = file->private_data;
	struct krdma_call *call;
	long rc = -ENOTTY;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(krdma_iocs); i++)
		if (krdma_iocs[i].cmd == cmd)
			break;
	if (i == ARRAY_SIZE(krdma_iocs))
		return -ENOTTY;

	/* That of the call before: all that is read of it is written first. */
	call = xchg(&ctx->call, NULL) ?: kzalloc(sizeof(*call), GFP_KERNEL_ACCOUNT);
	if (!call)
		return -ENOMEM;
	krdma_error_init(&call->error);
	call->ctx = ctx;
	call->nonblock = file->f_flags & O_NONBLOCK;
	call->user = (void __user *)arg;
	rc = krdma_ioctl_call(call, &krdma_iocs[i]);
	/* A batch may be done and still have a sentence about one operation. */
	if ((rc || call->error.err) && rc != -ERESTARTSYS)
		krdma_error_keep(ctx, &call->error, rc);
	kfree(xchg(&ctx->call, call));
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

	krdma_ctx_close(ctx);
	return 0;
}

static ssize_t krdma_file_read(struct file *file, char __user *buf, size_t size, loff_t *pos)
{
	return krdma_reap(file->private_data, buf, size, file->f_flags & O_NONBLOCK);
}

static __poll_t krdma_file_poll(struct file *file, poll_table *wait)
{
	struct krdma_ctx *ctx = file->private_data;

	poll_wait(file, &ctx->wait, wait);
	return krdma_ready(ctx);
}

static const struct file_operations krdma_fops = {
	.owner = THIS_MODULE,
	.open = krdma_file_open,
	.release = krdma_file_release,
	.read = krdma_file_read,
	.poll = krdma_file_poll,
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
	return misc_register(&krdma_misc);
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
