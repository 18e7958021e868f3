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

#include "frontend/ctx.h"

#define KRDMA_LIST_BYTES SZ_64K

struct krdma_emit;

/* A kind of objects. */
struct krdma_lister {
	size_t size; /* of an entry */
	int (*walk)(struct krdma_emit *e);
	/* For krdma_list_sessions(): what a session has of that kind; session->lock held. */
	void (*session)(struct krdma_emit *e, struct krdma_session *sess);
};

struct krdma_emit {
	const struct krdma_lister *kind;
	struct krdma_ctx *ctx;
	struct krdma_ioc_list *cmd;
	struct krdma_error *error;
	bool admin;
	u64 skip;
	u32 room;
	u32 n;
	bool more;
	void *buf;
};

/* @entry is not read if it is skipped, or if there is no room for it. */
static void krdma_emit(struct krdma_emit *e, const void *entry)
{
	if (e->skip)
		e->skip--;
	else if (e->n < e->room)
		memcpy(e->buf + e->n++ * e->kind->size, entry, e->kind->size);
	else
		e->more = true;
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
	struct ib_port_attr attr;
	const char *reason = krdma_device_unusable(dev, port, &attr);
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
	const u32 rights = krdma_device_rights(dev);
	bool any = false;
	int i;

	if (info.transport == KRDMA_TRANSPORT_IWARP)
		info.flags |= KRDMA_DEVICE_READ_TO_WRITE;
	else if (rights & KRDMA_RIGHT_ATOMIC)
		info.flags |= KRDMA_DEVICE_ATOMIC;
	if ((info.flags & KRDMA_DEVICE_ATOMIC) && (rights & KRDMA_RIGHT_ATOMIC_CPU))
		info.flags |= KRDMA_DEVICE_ATOMIC_CPU;
	strscpy(info.name, dev_name(&dev->ib->dev), sizeof(info.name));
	strscpy(info.reason, reason ?: "", sizeof(info.reason));
	if (krdma_inject(ib_query_port(dev->ib, port, &attr), -EIO))
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

static int krdma_list_latencies(struct krdma_emit *e)
{
	struct krdma_device *dev = NULL;
	struct krdma_latency_info info;
	u32 opcode, size;

	while ((dev = krdma_device_next(dev))) {
		if (!rdma_dev_access_netns(dev->ib, e->ctx->net))
			continue;
		for (opcode = 1; opcode <= KRDMA_LATENCY_OPCODES; opcode++)
			for (size = 0; size < KRDMA_LATENCY_SIZES && !e->more; size++) {
				if (krdma_device_latency(dev, opcode, size, &info))
					krdma_emit(e, &info);
				cond_resched();
			}
	}
	return 0;
}

/* ---- listeners ---- */

static bool krdma_any_device(struct net *net)
{
	struct krdma_device *dev = NULL;
	bool any = false;

	while ((dev = krdma_device_next(dev)))
		any |= rdma_dev_access_netns(dev->ib, net);
	return any;
}

static int krdma_list_listeners(struct krdma_emit *e)
{
	const bool any_device = krdma_any_device(e->ctx->net);
	struct krdma_session *sess;
	struct krdma_listener *l;

	mutex_lock(&krdma_sessions_lock);
	mutex_lock(&krdma_listeners_lock);
	list_for_each_entry(l, &krdma_listeners, node) {
		struct krdma_listener_info info = {
			.flags = (l->owner ? KRDMA_LISTENER_FILE : 0) |
				 (READ_ONCE(l->closed) ? KRDMA_LISTENER_CLOSED : 0),
			.accepted = atomic64_read(&l->accepted),
			.refused = atomic64_read(&l->refused),
		};
		const struct krdma_allow *allow;

		if (l->net != e->ctx->net)
			continue;
		rcu_read_lock();
		allow = rcu_dereference(l->allow);
		info.allow_count = allow ? allow->n : 0;
		rcu_read_unlock();
		list_for_each_entry(sess, &krdma_sessions, node)
			if (sess->inbound && sess->listener == l->serial)
				info.sessions++;
		krdma_addr_to_user(&l->addr, &info.addr);
		/* One of all addresses has an id in any case. */
		if (!READ_ONCE(l->id) ||
		    (!any_device && !memchr_inv(info.addr.addr, 0, sizeof(info.addr.addr))))
			info.flags |= KRDMA_LISTENER_DOWN;
		krdma_emit(e, &info);
	}
	mutex_unlock(&krdma_listeners_lock);
	mutex_unlock(&krdma_sessions_lock);
	return 0;
}

static int krdma_list_prefixes(struct krdma_emit *e)
{
	const struct krdma_allow *allow;
	struct krdma_listener *l;
	u32 i;

	mutex_lock(&krdma_listeners_lock);
	list_for_each_entry(l, &krdma_listeners, node) {
		struct krdma_prefix_info info = {};

		if (l->net != e->ctx->net)
			continue;
		krdma_addr_to_user(&l->addr, &info.listener);
		rcu_read_lock();
		allow = rcu_dereference(l->allow);
		for (i = 0; allow && i < allow->n; i++) {
			info.prefix = allow->prefixes[i];
			krdma_emit(e, &info);
		}
		rcu_read_unlock();
	}
	mutex_unlock(&krdma_listeners_lock);
	return 0;
}

/* ---- sessions and what hangs on them ---- */

static void krdma_emit_session(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_session_info info = {
		.serial = sess->serial,
		.peer_incarnation = sess->peer_incarnation,
		.uid = krdma_uid(sess->uid),
		.users = sess->users,
		.regions = sess->nregions,
		.grants = READ_ONCE(sess->ngrants),
		.segments = READ_ONCE(sess->nsegs),
		.requests = sess->credits.used,
		.age_ms = ktime_ms_delta(ktime_get(), sess->made),
		.resume_s = sess->resume_s,
		.keepalive_s = sess->keepalive_s,
		.served_read_bytes = sess->served.read_bytes,
		.served_written_bytes = sess->served.written_bytes,
		.served_reads = sess->served.reads,
		.served_writes = sess->served.writes,
	};
	struct krdma_transfer *x;
	unsigned long last = 0;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		if (!i || time_after(ch->last_wc, last))
			last = ch->last_wc;
		info.bytes_read += ch->bytes_read;
		info.bytes_written += ch->bytes_written;
		info.transfers += ch->ended_transfers;
		info.transfers_ns += ch->took_ns;
		info.failures += ch->failures;
		hlist_for_each_entry(x, &ch->transfers, all) {
			if (x->wait == KRDMA_WAIT_WIRE)
				info.in_flight++;
			else
				info.waiting++;
		}
		spin_unlock(&ch->lock);
	}
	info.idle_ms = jiffies_to_msecs(jiffies - last);
	if (sess->resuming)
		info.away_ms = max_t(u64, jiffies64_to_msecs(jiffies - sess->lost_at), 1);
	ch = sess->ch;
	spin_lock(&ch->lock);
	info.state = sess->state != KRDMA_SESSION_UP ? sess->state :
		     sess->drains                    ? KRDMA_SESSION_DRAINING :
		     sess->resuming                  ? KRDMA_SESSION_RESUMING :
						       max_t(u32, sess->state, ch->state);
	spin_unlock(&ch->lock);
	strscpy(info.device, ch->path->device, sizeof(info.device));
	if (sess->inbound)
		info.flags |= KRDMA_SESSION_INBOUND;
	else if (!sess->users)
		info.flags |= KRDMA_SESSION_LINGERING;
	if (sess->private)
		info.flags |= KRDMA_SESSION_PRIVATE;
	krdma_addr_to_user(&ch->path->local, &info.local);
	krdma_addr_to_user(&sess->dst, &info.peer);
	krdma_emit(e, &info);
}

static void krdma_emit_channels(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		struct krdma_channel_info info = {
			.session = sess->serial,
			.index = i,
			.requests_max = ch->first ? 0 : sess->credits.size,
			.requests = ch->first ? 0 : sess->credits.used,
		};

		spin_lock(&ch->lock);
		info.state = ch->state;
		if (sess->state > KRDMA_SESSION_UP)
			info.state = max_t(u32, sess->state, ch->state);
		info.qp_num = ch->qp_num;
		info.port = ch->port;
		info.slots = ch->slots;
		info.slots_used = ch->slots_used;
		info.bytes_read = ch->bytes_read;
		info.bytes_written = ch->bytes_written;
		info.path = ch->path->index;
		spin_unlock(&ch->lock);
		strscpy(info.device, ch->path->device, sizeof(info.device));
		krdma_emit(e, &info);
	}
}

/* Its channels for data, and the first while it is there. */
static void krdma_emit_path(struct krdma_emit *e, struct krdma_session *sess,
			    const struct krdma_path *path)
{
	struct krdma_path_info info = {
		.session = sess->serial,
		.index = path->index,
		.losses = READ_ONCE(path->losses),
	};
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		if (ch->path == path) {
			info.channels += ch->state == KRDMA_CHANNEL_UP;
			info.bytes_read += ch->bytes_read;
			info.bytes_written += ch->bytes_written;
			info.transfers += ch->ended_transfers;
			info.transfers_ns += ch->took_ns;
			info.failures += ch->failures;
			info.under_way += ch->ntransfers;
		}
		spin_unlock(&ch->lock);
	}
	info.state = info.channels ? KRDMA_PATH_UP : KRDMA_PATH_DOWN;
	strscpy(info.device, path->device, sizeof(info.device));
	krdma_addr_to_user(&path->local, &info.local);
	krdma_addr_to_user(&path->dst, &info.peer);
	krdma_emit(e, &info);
}

/* At a target those that were used. */
static void krdma_emit_paths(struct krdma_emit *e, struct krdma_session *sess)
{
	u32 i;

	for (i = 0; i < KRDMA_PATHS_MAX; i++)
		if (sess->inbound ? sess->paths[i].device[0] : i < sess->npaths)
			krdma_emit_path(e, sess, &sess->paths[i]);
}

static void krdma_emit_regions(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_region *region;

	list_for_each_entry(region, &sess->regions, node) {
		struct krdma_region_info info = {
			.session = sess->serial,
			.length = READ_ONCE(region->length),
			.segment_size = 1ULL << region->segment_shift,
			.rights = region->rights,
			.flags =
				(region->err ? KRDMA_REGION_STALE : 0) |
				(region->flags & KRDMA_OPEN_HELD ? KRDMA_REGION_HELD : 0) |
				(region->flags & KRDMA_OPEN_EXCLUSIVE ? KRDMA_REGION_EXCLUSIVE : 0),
			.uid = krdma_uid(sess->uid),
			.keys = krdma_region_nkeys(region),
			.generation = region->generation,
		};

		strscpy(info.name, region->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
}

static void krdma_emit_transfers_of(struct krdma_emit *e, const struct krdma_channel *ch)
{
	ktime_t now = ktime_get();
	struct krdma_transfer *x;

	hlist_for_each_entry(x, &ch->transfers, all) {
		struct krdma_transfer_info info;

		/* There may be many, and the channel is locked: none is described in vain. */
		if (e->skip || e->n == e->room) {
			krdma_emit(e, NULL);
			if (e->more)
				break;
			continue;
		}
		info = (struct krdma_transfer_info){
			.session = ch->serial,
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

static void krdma_emit_transfers(struct krdma_emit *e, struct krdma_session *sess)
{
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		if (e->skip >= ch->ntransfers)
			e->skip -= ch->ntransfers;
		else
			krdma_emit_transfers_of(e, ch);
		spin_unlock(&ch->lock);
	}
}

static void krdma_emit_of(struct krdma_emit *e, struct krdma_session *sess)
{
	spin_lock_bh(&sess->lock);
	e->kind->session(e, sess);
	spin_unlock_bh(&sess->lock);
}

static int krdma_list_sessions(struct krdma_emit *e)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node) {
		if (!krdma_visible(e, sess->net, sess->uid))
			continue;
		krdma_emit_of(e, sess);
	}
	mutex_unlock(&krdma_sessions_lock);
	return 0;
}

/* One session, of which this file has an id; it may have ended. */
static int krdma_list_session(struct krdma_emit *e)
{
	struct krdma_handle *h;

	h = krdma_handle_get(e->ctx, e->cmd->session, KRDMA_HANDLE_SESSION, e->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	mutex_lock(&krdma_sessions_lock);
	krdma_emit_of(e, h->sess);
	mutex_unlock(&krdma_sessions_lock);
	krdma_handle_put(h);
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
			.held = export->held,
			.served_read_bytes = export->served.read_bytes,
			.served_written_bytes = export->served.written_bytes,
			.served_reads = export->served.reads,
			.served_writes = export->served.writes,
		};
		u64 pages = export->mem ? export->mem->npages :
					  atomic64_read(&export->pinned_pages);

		if (!krdma_visible(e, export->net, export->user->uid))
			continue;
		if (export->message_queue)
			info.messages = krdma_message_queue_count(export->message_queue,
								  &info.senders_waiting);
		info.pinned_bytes = pages << PAGE_SHIFT;
		list_for_each_entry(grant, &export->grants, export_node) {
			info.grants++;
			info.exclusive += grant->exclusive;
		}
		strscpy(info.name, export->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
	mutex_unlock(&krdma_exports_lock);
	return 0;
}

static void krdma_emit_grants(struct krdma_emit *e, const struct krdma_export *export)
{
	struct krdma_grant *grant;

	list_for_each_entry(grant, &export->grants, export_node) {
		struct krdma_grant_info info = {
			.session = grant->sess->serial,
			.uid = krdma_uid(grant->sess->uid),
			.rights = grant->rights,
			.flags = (grant->revoke ? KRDMA_GRANT_REVOKED : 0) |
				 (grant->held ? KRDMA_GRANT_HELD : 0) |
				 (grant->exclusive ? KRDMA_GRANT_EXCLUSIVE : 0),
			.segments = READ_ONCE(grant->nsegs),
			.grant = grant->id,
			.generation = grant->generation,
			.read_bytes = grant->used.read_bytes,
			.written_bytes = grant->used.written_bytes,
			.reads = grant->used.reads,
			.writes = grant->used.writes,
		};

		krdma_addr_to_user(&grant->sess->dst, &info.peer);
		strscpy(info.name, export->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
}

static int krdma_list_grants(struct krdma_emit *e)
{
	struct krdma_export *export;

	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(export, &krdma_exports, node)
		if (krdma_visible(e, export->net, export->user->uid))
			krdma_emit_grants(e, export);
	mutex_unlock(&krdma_exports_lock);
	return 0;
}

static void krdma_list_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	if (!err)
		memcpy(rpc->arg, msg, le32_to_cpu(msg->hdr.length));
	rpc->err = err;
	complete(&rpc->done);
}

/* Have a list of a peer. @type: KRDMA_WIRE_LIST, or another one without a cursor */
static int krdma_list_ask(struct krdma_emit *e, struct krdma_session *sess, u8 type, u32 fixed,
			  void *reply)
{
	struct krdma_credit credit;
	union krdma_wire_msg *msg;
	int rc;

	rc = krdma_credit_wait(sess, &credit, krdma_default_ms(0));
	if (!rc) {
		msg = krdma_credit_build(&credit, type, fixed, 0);
		if (type == KRDMA_WIRE_LIST)
			msg->list.cursor = cpu_to_le64(e->cmd->cursor);
		rc = krdma_rpc_wait(sess, &credit, krdma_list_replied, reply, krdma_default_ms(0),
				    NULL);
	}
	if (rc == -ENOTCONN)
		krdma_session_explain(sess, sess->ch, -ENOTCONN, e->error);
	if (rc)
		krdma_explain(e->error, rc, "%pISpc does not list its %s (%pe)", &sess->dst,
			      type == KRDMA_WIRE_LIST ? "exports" : "addresses", ERR_PTR(rc));
	return rc;
}

static int krdma_emit_exports(struct krdma_emit *e, struct krdma_session *sess, void *buf)
{
	struct krdma_wire_list_reply *reply = buf;
	u64 cursor;
	u32 i, n;
	int rc;

	rc = krdma_list_ask(e, sess, KRDMA_WIRE_LIST, sizeof(struct krdma_wire_list), buf);
	if (rc)
		return rc;
	/* Else a peer could keep us going. */
	cursor = le64_to_cpu(reply->cursor);
	n = krdma_wire_entries(buf);
	if (cursor && (cursor <= e->cmd->cursor || !n)) {
		krdma_session_protocol(sess, "a list that does not go on");
		return krdma_explain(e->error, -EPROTO,
				     "%pISpc sends a list that does not continue", &sess->dst);
	}
	for (i = 0; i < n; i++) {
		const struct krdma_wire_list_entry *entry = &reply->entry[i];
		struct krdma_peer_export_info info = {
			.length = le64_to_cpu(entry->length),
			/* A later target may have others, which nobody here can ask for. */
			.rights = le32_to_cpu(entry->rights) & KRDMA_WIRE_RIGHTS,
		};

		strscpy(info.name, entry->name, sizeof(info.name));
		krdma_emit(e, &info);
	}
	e->cmd->cursor = cursor;
	return 0;
}

/* May lead to another host. */
static bool krdma_addr_unicast(const struct krdma_sockaddr *addr)
{
	__be32 v4;

	if (addr->family == AF_INET6)
		return (ipv6_addr_type((const struct in6_addr *)addr->addr) &
			(IPV6_ADDR_UNICAST | IPV6_ADDR_LOOPBACK | IPV6_ADDR_LINKLOCAL)) ==
		       IPV6_ADDR_UNICAST;
	memcpy(&v4, addr->addr, sizeof(v4));
	return !ipv4_is_zeronet(v4) && !ipv4_is_loopback(v4) && !ipv4_is_multicast(v4) &&
	       !ipv4_is_lbcast(v4) && !ipv4_is_linklocal_169(v4);
}

static int krdma_emit_addresses(struct krdma_emit *e, struct krdma_session *sess, void *buf)
{
	struct krdma_wire_addresses_reply *reply = buf;
	u32 i, n;
	int rc;

	rc = krdma_list_ask(e, sess, KRDMA_WIRE_ADDRESSES, sizeof(reply->hdr), buf);
	if (rc)
		return rc;
	n = krdma_wire_entries(buf);
	for (i = 0; i < n; i++) {
		const struct krdma_wire_address *from = &reply->address[i];
		bool v4 = ipv6_addr_v4mapped((const struct in6_addr *)from->addr);
		struct krdma_sockaddr addr = {
			.family = v4 ? AF_INET : AF_INET6,
			.port = le16_to_cpu(from->port),
		};

		memcpy(addr.addr, from->addr + (v4 ? 12 : 0), v4 ? 4 : 16);
		if (krdma_addr_unicast(&addr))
			krdma_emit(e, &addr);
	}
	e->cmd->cursor = 0;
	return 0;
}

static int krdma_list_peer(struct krdma_emit *e)
{
	bool exports = e->cmd->kind == KRDMA_LIST_PEER_EXPORTS;
	u32 least = exports ? KRDMA_WIRE_LIST_MAX : KRDMA_WIRE_ADDRESS_MAX;
	struct krdma_handle *h;
	int rc = -ENOMEM;
	void *buf;

	if (e->room < least)
		return krdma_explain(e->error, -EINVAL, "a peer's list needs room for %u entries",
				     least);
	h = krdma_session_handle_get(e->ctx, e->cmd->session, e->error);
	if (IS_ERR(h))
		return PTR_ERR(h);
	e->skip = 0;
	buf = krdma_inject(kmalloc(KRDMA_WIRE_MSG_MAX, GFP_KERNEL), NULL);
	if (buf)
		rc = exports ? krdma_emit_exports(e, h->sess, buf) :
			       krdma_emit_addresses(e, h->sess, buf);
	kfree(buf);
	krdma_handle_put(h);
	return rc;
}

static const struct krdma_lister krdma_lists[] = {
	[KRDMA_LIST_DEVICES] = { sizeof(struct krdma_device_info), krdma_list_devices },
	[KRDMA_LIST_LISTENERS] = { sizeof(struct krdma_listener_info), krdma_list_listeners },
	[KRDMA_LIST_SESSIONS] = { sizeof(struct krdma_session_info), krdma_list_sessions,
				  krdma_emit_session },
	[KRDMA_LIST_CHANNELS] = { sizeof(struct krdma_channel_info), krdma_list_sessions,
				  krdma_emit_channels },
	[KRDMA_LIST_EXPORTS] = { sizeof(struct krdma_export_info), krdma_list_exports },
	[KRDMA_LIST_REGIONS] = { sizeof(struct krdma_region_info), krdma_list_sessions,
				 krdma_emit_regions },
	[KRDMA_LIST_TRANSFERS] = { sizeof(struct krdma_transfer_info), krdma_list_sessions,
				   krdma_emit_transfers },
	[KRDMA_LIST_PEER_EXPORTS] = { sizeof(struct krdma_peer_export_info), krdma_list_peer },
	[KRDMA_LIST_PATHS] = { sizeof(struct krdma_path_info), krdma_list_sessions,
			       krdma_emit_paths },
	[KRDMA_LIST_ADDRESSES] = { sizeof(struct krdma_sockaddr), krdma_list_peer },
	[KRDMA_LIST_PREFIXES] = { sizeof(struct krdma_prefix_info), krdma_list_prefixes },
	[KRDMA_LIST_GRANTS] = { sizeof(struct krdma_grant_info), krdma_list_grants },
	[KRDMA_LIST_LATENCIES] = { sizeof(struct krdma_latency_info), krdma_list_latencies },
};

static int krdma_list_copy(const struct krdma_emit *e)
{
	void __user *to = u64_to_user_ptr(e->cmd->entries);
	size_t head = min_t(size_t, e->kind->size, e->cmd->stride);
	u32 i;

	for (i = 0; i < e->n; i++, to += e->cmd->stride)
		if (copy_to_user(to, e->buf + i * e->kind->size, head) ||
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
	bool peer = cmd->kind == KRDMA_LIST_PEER_EXPORTS || cmd->kind == KRDMA_LIST_ADDRESSES;
	bool one = cmd->kind == KRDMA_LIST_SESSIONS && cmd->session;
	int rc;

	if (!cmd->kind || cmd->kind >= ARRAY_SIZE(krdma_lists))
		return krdma_explain(error, -EINVAL, "there is no list of kind %u", cmd->kind);
	e.kind = &krdma_lists[array_index_nospec(cmd->kind, ARRAY_SIZE(krdma_lists))];
	if (!peer && !one && cmd->session)
		return krdma_explain(error, -EINVAL, "this list is not of a session");
	if (!cmd->count || !cmd->stride || cmd->stride > PAGE_SIZE)
		return krdma_explain(error, -EINVAL, "there is no room for an entry");

	e.room = min_t(u32, cmd->count, KRDMA_LIST_BYTES / e.kind->size);
	e.buf = krdma_inject(kvcalloc(e.room, e.kind->size, GFP_KERNEL_ACCOUNT), NULL);
	if (!e.buf)
		return -ENOMEM;
	rc = one ? krdma_list_session(&e) : e.kind->walk(&e);
	if (!rc)
		rc = krdma_list_copy(&e);
	if (!rc) {
		cmd->count = e.n;
		if (!peer)
			cmd->cursor = e.more ? cmd->cursor + e.n : 0;
	}
	kvfree(e.buf);
	return rc;
}
