// SPDX-License-Identifier: GPL-2.0
/*
 * KRDMA_IOC_LIST: what there is, for `krdma status` and its like.
 *
 * A walk goes through all objects under their locks and hands each to
 * krdma_emit, which keeps those of the page asked for. The cursor is a count
 * of entries (for PEER_EXPORTS: the peer's own).
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_cache.h>

#include "ctx.h"

#define KRDMA_LIST_BYTES SZ_64K

struct krdma_emit {
	struct krdma_ctx *ctx;
	struct krdma_ioc_list *cmd;
	struct krdma_error *error;
	bool admin;
	u64 skip;
	u32 room;
	u32 n;
	bool more;
	size_t size;
	void *buf;
};

static void krdma_emit(struct krdma_emit *e, const void *entry)
{
	if (e->skip) {
		e->skip--;
	} else if (e->n < e->room) {
		memcpy(e->buf + e->n * e->size, entry, e->size);
		e->n++;
	} else {
		e->more = true;
	}
}

static bool krdma_visible(const struct krdma_emit *e, struct net *net, kuid_t uid)
{
	return net == e->ctx->net && (e->admin || uid_eq(uid, e->ctx->user->uid));
}

static u32 krdma_uid(kuid_t uid)
{
	return from_kuid_munged(current_user_ns(), uid);
}

/* ---- devices ---- */

static void krdma_emit_gid(struct krdma_emit *e, struct krdma_device_info *info,
			   const struct ib_gid_attr *attr)
{
	struct net_device *ndev;

	memcpy(info->gid, attr->gid.raw, sizeof(info->gid));
	info->gid_index = attr->index;
	info->gid_type = rdma_protocol_iwarp(attr->device, attr->port_num) ? 2 :
			 attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP      ? 1 :
									     0;
	memset(info->netdev, 0, sizeof(info->netdev));
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev))
		strscpy(info->netdev, ndev->name, sizeof(info->netdev));
	rcu_read_unlock();
	krdma_emit(e, info);
}

static void krdma_emit_port(struct krdma_emit *e, struct krdma_device *dev, u32 port)
{
	const char *reason = krdma_device_unusable(dev, port);
	struct krdma_device_info info = {
		.port = port,
		.transport = rdma_protocol_iwarp(dev->ib, port) ? KRDMA_TRANSPORT_IWARP :
			     rdma_protocol_roce(dev->ib, port)  ? KRDMA_TRANSPORT_ROCE :
								  KRDMA_TRANSPORT_INFINIBAND,
		.flags = reason ? 0 : KRDMA_DEVICE_USABLE,
		.max_segment_pages = dev->policy.segment_pages,
		.max_sge = dev->policy.max_sge,
		.max_sge_rd = dev->policy.max_sge_rd,
	};
	struct ib_port_attr attr;
	bool any = false;
	int i;

	if (info.transport == KRDMA_TRANSPORT_IWARP)
		info.flags |= KRDMA_DEVICE_READ_TO_WRITE;
	else if (dev->policy.rights & KRDMA_RIGHT_ATOMIC)
		info.flags |= KRDMA_DEVICE_ATOMIC;
	if ((info.flags & KRDMA_DEVICE_ATOMIC) && (dev->policy.rights & KRDMA_RIGHT_ATOMIC_CPU))
		info.flags |= KRDMA_DEVICE_ATOMIC_CPU;
	strscpy(info.name, dev_name(&dev->ib->dev), sizeof(info.name));
	strscpy(info.reason, reason ?: "", sizeof(info.reason));
	if (ib_query_port(dev->ib, port, &attr))
		attr.gid_tbl_len = 0;
	for (i = 0; i < attr.gid_tbl_len; i++) {
		const struct ib_gid_attr *gid = rdma_get_gid_attr(dev->ib, port, i);

		if (IS_ERR(gid))
			continue;
		krdma_emit_gid(e, &info, gid);
		rdma_put_gid_attr(gid);
		any = true;
	}
	if (!any)
		krdma_emit(e, &info);
}

static int krdma_list_devices(struct krdma_emit *e)
{
	struct krdma_device *dev = NULL;
	u32 port;

	while ((dev = krdma_device_next(dev))) {
		/* As `rdma dev` and rdma_cm have it: all, unless they are exclusive. */
		if (!rdma_dev_access_netns(dev->ib, e->ctx->net))
			continue;
		rdma_for_each_port(dev->ib, port)
			krdma_emit_port(e, dev, port);
	}
	return 0;
}

/* ---- listeners ---- */

static u32 krdma_listener_sessions(u64 serial)
{
	struct krdma_session *sess;
	u32 n = 0;

	list_for_each_entry(sess, &krdma_sessions, node)
		if (sess->inbound && sess->listener == serial)
			n++;
	return n;
}

static int krdma_list_listeners(struct krdma_emit *e)
{
	struct krdma_listener *l;

	mutex_lock(&krdma_sessions_lock);
	mutex_lock(&krdma_listeners_lock);
	list_for_each_entry(l, &krdma_listeners, node) {
		struct krdma_listener_info info = {
			.flags = (READ_ONCE(l->id) ? 0 : KRDMA_LISTENER_DOWN) |
				 (l->ctx ? KRDMA_LISTENER_FILE : 0),
			.sessions = krdma_listener_sessions(l->serial),
			.accepted = atomic64_read(&l->accepted),
			.refused = atomic64_read(&l->refused),
			.allow_count = l->nallow,
		};

		if (l->net != e->ctx->net)
			continue;
		krdma_addr_to_user(&l->addr, &info.addr);
		krdma_emit(e, &info);
	}
	mutex_unlock(&krdma_listeners_lock);
	mutex_unlock(&krdma_sessions_lock);
	return 0;
}

/* ---- sessions and what hangs on them ---- */

static void krdma_emit_session(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_session_info info = {
		.serial = sess->serial,
		.peer_incarnation = sess->peer_incarnation,
		.state = sess->state,
		.uid = krdma_uid(sess->uid),
		.users = sess->users,
		.regions = sess->nregions,
		.grants = READ_ONCE(sess->ngrants),
		.segments = READ_ONCE(sess->nsegs),
		.questions = sess->window.used,
		.age_ms = ktime_ms_delta(ktime_get(), sess->made),
		.idle_ms = jiffies_to_msecs(jiffies - sess->ch->last_wc),
		.bytes_read = sess->bytes_read,
		.bytes_written = sess->bytes_written,
		.transfers = sess->ended_transfers,
		.failures = sess->failures,
	};
	struct krdma_transfer *x;

	hlist_for_each_entry(x, &sess->transfers, all) {
		if (x->wait == KRDMA_WAIT_WIRE)
			info.in_flight++;
		else
			info.waiting++;
	}
	if (sess->inbound)
		info.flags |= KRDMA_SESSION_INBOUND;
	else if (!sess->users)
		info.flags |= KRDMA_SESSION_LINGERING;
	if (sess->private)
		info.flags |= KRDMA_SESSION_PRIVATE;
	krdma_addr_to_user(&sess->local, &info.local);
	krdma_addr_to_user(&sess->dst, &info.peer);
	if (sess->dev)
		strscpy(info.device, dev_name(&sess->dev->ib->dev), sizeof(info.device));
	krdma_emit(e, &info);
}

static void krdma_emit_channel(struct krdma_emit *e, struct krdma_session *sess)
{
	const struct krdma_channel *ch = sess->ch;
	struct krdma_channel_info info = {
		.session = sess->serial,
		.index = ch->index,
		.state = sess->state,
		.qp_num = ch->qp_num,
		.port = ch->port,
		.slots = ch->slots,
		.slots_used = ch->slots_used,
		.questions_max = sess->window.size,
		.questions = sess->window.used,
	};

	if (sess->dev)
		strscpy(info.device, dev_name(&sess->dev->ib->dev), sizeof(info.device));
	krdma_emit(e, &info);
}

static void krdma_emit_regions(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_region *region;

	list_for_each_entry(region, &sess->regions, node) {
		struct krdma_region_info info = {
			.session = sess->serial,
			.length = region->length,
			.segment_size = 1ULL << region->segment_shift,
			.rights = region->rights,
			.flags = region->err ? KRDMA_REGION_STALE : 0,
			.uid = krdma_uid(sess->uid),
			.keys = region->nkeys,
			.generation = region->generation,
		};

		strscpy(info.name, region->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
}

static void krdma_emit_transfers(struct krdma_emit *e, struct krdma_session *sess)
{
	ktime_t now = ktime_get();
	struct krdma_transfer *x;

	hlist_for_each_entry(x, &sess->transfers, all) {
		struct krdma_transfer_info info = {
			.session = sess->serial,
			.user_data = x->user_data,
			.offset = x->range->addr,
			.length = x->length,
			.posted = x->posted,
			.done = x->moved,
			.age_ms = ktime_ms_delta(now, x->submitted),
			.wait_ms = ktime_ms_delta(now, x->since),
			.opcode = x->opcode,
			.wait = x->wait,
			.uid = krdma_uid(x->uid),
			.pid = x->pid,
		};

		strscpy(info.name, x->region->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
}

static int krdma_list_sessions(struct krdma_emit *e)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node) {
		if (!krdma_visible(e, sess->net, sess->uid))
			continue;
		spin_lock_bh(&sess->lock);
		switch (e->cmd->kind) {
		case KRDMA_LIST_SESSIONS:
			krdma_emit_session(e, sess);
			break;
		case KRDMA_LIST_CHANNELS:
			krdma_emit_channel(e, sess);
			break;
		case KRDMA_LIST_REGIONS:
			krdma_emit_regions(e, sess);
			break;
		default:
			krdma_emit_transfers(e, sess);
		}
		spin_unlock_bh(&sess->lock);
	}
	mutex_unlock(&krdma_sessions_lock);
	return 0;
}

/* ---- exports, here and there ---- */

static int krdma_list_exports(struct krdma_emit *e)
{
	struct krdma_grant *grant;
	struct krdma_export *export;

	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(export, &krdma_exports, node) {
		struct krdma_export_info info = {
			.length = export->length,
			.rights = export->rights,
			.flags = export->flags,
			.uid = krdma_uid(export->user->uid),
			.segments = atomic_read(&export->segments),
			.max_segments = export->max_segments,
			.recalls = atomic64_read(&export->recalls),
		};
		u64 pages = export->mem ? export->mem->npages :
					  atomic64_read(&export->pinned_pages);

		if (!krdma_visible(e, export->net, export->user->uid))
			continue;
		if (export->box)
			info.messages = krdma_box_count(export->box, &info.senders_waiting);
		info.pinned_bytes = pages << PAGE_SHIFT;
		list_for_each_entry(grant, &export->grants, export_node)
			info.grants++;
		strscpy(info.name, export->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
	mutex_unlock(&krdma_exports_lock);
	return 0;
}

static int krdma_list_peer(struct krdma_emit *e)
{
	struct krdma_handle *h;
	struct krdma_msg *msg;
	int rc = -ENOMEM;
	u32 i;

	if (e->room < KRDMA_WIRE_LIST_MAX)
		return krdma_explain(e->error, -EINVAL, "a peer's list needs room for %u entries",
				     KRDMA_WIRE_LIST_MAX);
	h = krdma_handle_get(e->ctx, e->cmd->session, KRDMA_HANDLE_SESSION, e->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	if (!msg)
		goto out;
	msg->type = KRDMA_WIRE_LIST;
	msg->list.cursor = e->cmd->cursor;
	rc = krdma_ask_wait(h->sess, msg, krdma_default_ms(0), NULL, NULL);
	if (rc == -ENOTCONN)
		krdma_session_explain(h->sess, -ENOTCONN, e->error);
	if (rc) {
		krdma_explain(e->error, rc, "%pISpc does not list its exports (%pe)", &h->sess->dst,
			      ERR_PTR(rc));
		goto out;
	}
	/* Else a peer could keep us asking. */
	if (msg->list_answer.cursor &&
	    (msg->list_answer.cursor <= e->cmd->cursor || !msg->list_answer.count)) {
		krdma_session_protocol(h->sess, "a list that does not go on");
		rc = krdma_explain(e->error, -EPROTO, "%pISpc gives a list that does not go on",
				   &h->sess->dst);
		goto out;
	}
	e->skip = 0;
	for (i = 0; i < msg->list_answer.count; i++) {
		struct krdma_peer_export_info info = {
			.length = msg->list_answer.entry[i].length,
			.rights = msg->list_answer.entry[i].rights,
		};

		strscpy(info.name, msg->list_answer.entry[i].name, sizeof(info.name));
		krdma_emit(e, &info);
	}
	e->cmd->cursor = msg->list_answer.cursor;
out:
	kfree(msg);
	krdma_handle_put(h);
	return rc;
}

static const struct {
	size_t size;
	int (*walk)(struct krdma_emit *e);
} krdma_lists[] = {
	[KRDMA_LIST_DEVICES] = { sizeof(struct krdma_device_info), krdma_list_devices },
	[KRDMA_LIST_LISTENERS] = { sizeof(struct krdma_listener_info), krdma_list_listeners },
	[KRDMA_LIST_SESSIONS] = { sizeof(struct krdma_session_info), krdma_list_sessions },
	[KRDMA_LIST_CHANNELS] = { sizeof(struct krdma_channel_info), krdma_list_sessions },
	[KRDMA_LIST_EXPORTS] = { sizeof(struct krdma_export_info), krdma_list_exports },
	[KRDMA_LIST_REGIONS] = { sizeof(struct krdma_region_info), krdma_list_sessions },
	[KRDMA_LIST_TRANSFERS] = { sizeof(struct krdma_transfer_info), krdma_list_sessions },
	[KRDMA_LIST_PEER_EXPORTS] = { sizeof(struct krdma_peer_export_info), krdma_list_peer },
};

static int krdma_list_copy(const struct krdma_emit *e)
{
	void __user *to = u64_to_user_ptr(e->cmd->entries);
	size_t head = min_t(size_t, e->size, e->cmd->stride);
	u32 i;

	for (i = 0; i < e->n; i++, to += e->cmd->stride)
		if (copy_to_user(to, e->buf + i * e->size, head) ||
		    clear_user(to + head, e->cmd->stride - head))
			return krdma_explain(e->error, -EFAULT, "the entries can't be written");
	return 0;
}

/**
 * krdma_list_fill - KRDMA_IOC_LIST
 * @ctx: open file
 * @cmd: the command; count and cursor are set
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_list_fill(struct krdma_ctx *ctx, struct krdma_ioc_list *cmd, struct krdma_error *error)
{
	struct krdma_emit e = {
		.ctx = ctx,
		.cmd = cmd,
		.error = error,
		.admin = ns_capable(ctx->net->user_ns, CAP_NET_ADMIN),
		.skip = cmd->cursor,
	};
	u32 kind = cmd->kind;
	int rc;

	if (!kind || kind >= ARRAY_SIZE(krdma_lists))
		return krdma_explain(error, -EINVAL, "there is no list of kind %u", kind);
	kind = array_index_nospec(kind, ARRAY_SIZE(krdma_lists));
	if (kind != KRDMA_LIST_PEER_EXPORTS && cmd->session)
		return krdma_explain(error, -EINVAL, "this list is not of a session");
	if (!cmd->count || !cmd->stride || cmd->stride > PAGE_SIZE)
		return krdma_explain(error, -EINVAL, "there is no room for an entry");

	e.size = krdma_lists[kind].size;
	e.room = min_t(u32, cmd->count, KRDMA_LIST_BYTES / e.size);
	e.buf = kvcalloc(e.room, e.size, GFP_KERNEL_ACCOUNT);
	if (!e.buf)
		return -ENOMEM;
	rc = krdma_lists[kind].walk(&e);
	if (!rc)
		rc = krdma_list_copy(&e);
	if (!rc) {
		cmd->count = e.n;
		if (kind != KRDMA_LIST_PEER_EXPORTS)
			cmd->cursor = e.more ? cmd->cursor + e.n : 0;
	}
	kvfree(e.buf);
	return rc;
}
