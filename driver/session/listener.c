// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners, and who is let in.
 *
 * A listener on a certain address goes down with the device of that address
 * and comes back when the address is on a device again.
 */
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>

#include "session/session.h"

#define KRDMA_BACKLOG  128
#define KRDMA_RETRY_MS 1000

DEFINE_MUTEX(krdma_listeners_lock); /* list of listeners; their ids and removed */
LIST_HEAD(krdma_listeners);
static DEFINE_MUTEX(krdma_listeners_start); /* who starts and ends listeners */
static u64 krdma_listener_serial;

static void krdma_listeners_retry_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(krdma_retry, krdma_listeners_retry_work);

static bool krdma_prefix_match(const struct krdma_prefix *prefix, const u8 *addr)
{
	u32 bytes = prefix->prefix_len / 8, bits = prefix->prefix_len % 8;

	if (memcmp(prefix->addr.addr, addr, bytes))
		return false;
	return !bits || !((prefix->addr.addr[bytes] ^ addr[bytes]) >> (8 - bits));
}

static bool krdma_listener_admits(const struct krdma_listener *l,
				  const struct sockaddr_storage *peer)
{
	const struct krdma_allow *allow;
	struct krdma_sockaddr addr;
	bool admits;
	u32 i;

	krdma_addr_to_user(peer, &addr);
	rcu_read_lock();
	allow = rcu_dereference(l->allow);
	admits = !allow;
	for (i = 0; !admits && i < allow->n; i++)
		admits = allow->prefixes[i].addr.family == addr.family &&
			 krdma_prefix_match(&allow->prefixes[i], addr.addr);
	rcu_read_unlock();
	return admits;
}

/*
 * Where a peer is, for the limits. On RoCE its address is what it says in its request
 * (cma_save_ip4_info), and has to be that of its GID, to which the reply goes: without
 * that the connection is never completed. TCP has proved it on iWARP. On InfiniBand a
 * GID proves no address.
 */
static bool krdma_host_of(const struct rdma_cm_id *id, union ib_gid *host)
{
	const struct sa_path_rec *path = id->route.path_rec;
	bool iwarp = rdma_protocol_iwarp(id->device, id->port_num);

	/* The address as a GID: an IPv4 one is mapped. */
	if (rdma_ip2gid((struct sockaddr *)&id->route.addr.dst_addr, host))
		return false;
	if (iwarp)
		return true;
	if (rdma_protocol_roce(id->device, id->port_num))
		return path && !memcmp(host, &path->dgid, sizeof(*host));
	if (path)
		*host = path->dgid;
	return path;
}

static int krdma_reject_id(struct rdma_cm_id *id, u8 reason)
{
	struct krdma_wire_reject wire;

	krdma_wire_build_reject(&wire, reason);
	rdma_reject(id, &wire, sizeof(wire), IB_CM_REJ_CONSUMER_DEFINED);
	return -ECONNREFUSED;
}

static int krdma_reject(struct krdma_listener *l, struct rdma_cm_id *id, u8 reason,
			const char *cause)
{
	pr_info_ratelimited("krdma_mover: %pISpc refused: %s\n", &id->route.addr.dst_addr, cause);
	atomic64_inc(&l->refused);
	krdma_stat_inc(KRDMA_STAT_SESSIONS_REFUSED);
	return krdma_reject_id(id, reason);
}

/* A channel of a session that there is. */
static int krdma_join_request(struct krdma_listener *l, struct rdma_cm_id *id,
			      const union ib_gid *host, const struct krdma_wire_hello *hello,
			      const struct rdma_conn_param *param)
{
	const struct krdma_path from = { .listener = l->serial, .host = *host };
	struct krdma_session *sess = krdma_session_joined(l->net, hello);
	const char *cause;

	if (!sess)
		return krdma_reject(l, id, KRDMA_WIRE_REASON_NOT_ADMITTED,
				    "a channel of no session");
	cause = krdma_channels_accept(sess, id, &from, hello, param);
	krdma_session_put(sess);
	if (!cause)
		return 0;
	/* No session is refused. */
	pr_info_ratelimited("krdma_mover: channel of %pISpc refused: %s\n",
			    &id->route.addr.dst_addr, cause);
	return krdma_reject_id(id, KRDMA_WIRE_REASON_LIMIT);
}

static int krdma_connect_request(struct krdma_listener *l, struct rdma_cm_id *id,
				 const struct rdma_conn_param *param)
{
	const char *cause = "no greeting";
	struct krdma_session *sess;
	struct krdma_wire_hello hello;
	union ib_gid host;
	char text[80];
	int rc = 0;

	/* Nothing is spent on a peer before it is admitted. */
	if (!krdma_host_of(id, &host))
		return krdma_reject(l, id, KRDMA_WIRE_REASON_NOT_ADMITTED,
				    "its address and its GID differ");
	if (!krdma_listener_admits(l, &id->route.addr.dst_addr))
		return krdma_reject(l, id, KRDMA_WIRE_REASON_NOT_ADMITTED,
				    "not in the listener's allow-list");
	if (param->private_data)
		rc = krdma_wire_check_hello(param->private_data, param->private_data_len, &hello,
					    &cause);
	if (rc == -EPROTONOSUPPORT) {
		krdma_wire_versions(hello.version, text, sizeof(text));
		return krdma_reject(l, id, KRDMA_WIRE_REASON_VERSION, text);
	}
	if (!cause && hello.path >= KRDMA_PATHS_MAX)
		cause = "a path that can't be";
	if (!cause && hello.message_credits)
		cause = "message credits in a request";
	if (!cause && (hello.channel || hello.received || hello.messages) && !hello.secret)
		cause = "a channel of no session";
	if (!cause && hello.secret &&
	    (hello.features & ~cpu_to_le64(KRDMA_WIRE_PLACES) || hello.channels || hello.resume))
		cause = "a channel of a session that there is, and of a new one";
	if (!cause && krdma_conn_endless(param))
		cause = "it asks for retries without an end";
	if (cause)
		return krdma_reject(l, id, KRDMA_WIRE_REASON_MALFORMED, cause);
	if (hello.secret)
		return krdma_join_request(l, id, &host, &hello, param);
	if (READ_ONCE(l->closed))
		return krdma_reject(l, id, KRDMA_WIRE_REASON_SHUTDOWN, "the listener is closed");

	sess = krdma_session_new(true);
	if (!sess)
		return krdma_reject(l, id, KRDMA_WIRE_REASON_LIMIT, "no memory");
	sess->ch->path = &sess->paths[array_index_nospec(hello.path, KRDMA_PATHS_MAX)];
	sess->net = l->net;
	sess->listener = l->serial;
	sess->host = host;
	memcpy(&sess->dst, &id->route.addr.dst_addr, sizeof(sess->dst));
	sess->uid = make_kuid(&init_user_ns, le32_to_cpu(hello.uid));
	sess->messages = hello.features & cpu_to_le64(KRDMA_WIRE_MESSAGES);
	sess->usage.wanted = hello.features & cpu_to_le64(KRDMA_WIRE_USAGES);
	sess->grows = hello.features & cpu_to_le64(KRDMA_WIRE_GROWS);
	/* Before they are counted. */
	krdma_sessions_replace(sess, hello.incarnation);
	rc = krdma_session_add(sess);
	if (rc) {
		krdma_session_put(sess);
		return krdma_reject(l, id, KRDMA_WIRE_REASON_LIMIT, "too many sessions");
	}
	rc = krdma_session_queue(sess) ?: krdma_session_accept(sess, id, &hello, param);
	cause = sess->ch->cause ?: "it could not be accepted";
	krdma_session_begun(sess->ch, rc, "it could not be accepted");
	if (rc)
		return krdma_reject(l, id, KRDMA_WIRE_REASON_LIMIT, cause);
	atomic64_inc(&l->accepted);
	return 0;
}

/*
 * Who takes the id out of the listener destroys it. The removal best does it itself:
 * rdma_cm lets go of the device before it does of the GID (cma_release_dev), so that an
 * id that another thread destroys can outlive the device's table of GIDs.
 */
static int krdma_listener_removed(struct krdma_listener *l, struct rdma_cm_id *id)
{
	bool mine;

	mutex_lock(&krdma_listeners_lock);
	mine = l->id == id;
	if (mine) {
		l->id = NULL;
		krdma_listener_event(l, KRDMA_EVENT_LISTENER_WAITING);
	} else {
		l->removed = true;
	}
	krdma_listeners_retry();
	/* ORDER: with the id out of it, the listener may be freed after this. */
	mutex_unlock(&krdma_listeners_lock);
	return mine;
}

static int krdma_listen_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct krdma_listener *l = id->context;
	unsigned int noio;
	int rc;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		/* Connections of this host, that transfers wait for, need the same worker. */
		noio = memalloc_noio_save();
		rc = krdma_connect_request(l, id, &event->param.conn);
		memalloc_noio_restore(noio);
		return rc;
	}
	/* Only of an id that is bound to the device, and stays so where its address has moved. */
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
	    event->event == RDMA_CM_EVENT_ADDR_CHANGE)
		return krdma_listener_removed(l, id);
	return 0;
}

/* An id that is not to listen. */
static int krdma_listen_nothing(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

/* Is there a device with the address? Then some port of it can be had. */
static bool krdma_listener_address_ok(const struct krdma_listener *l)
{
	struct sockaddr_storage addr = l->addr;
	struct rdma_cm_id *id;
	int rc;

	/* The port is at the same place for both families. */
	((struct sockaddr_in *)&addr)->sin_port = 0;
	id = krdma_inject(rdma_create_id(l->net, krdma_listen_nothing, NULL, RDMA_PS_TCP,
					 IB_QPT_RC),
			  ERR_PTR(-ENOMEM));
	if (IS_ERR(id))
		return false;
	rc = krdma_inject(rdma_bind_addr(id, (struct sockaddr *)&addr), -ENOMEM);
	rdma_destroy_id(id);
	return !rc;
}

/* What rdma_cm has against it, which has one errno for several things. */
static int krdma_listener_explain(const struct krdma_listener *l, int rc, const char *what,
				  struct krdma_error *error)
{
	/* Taken by a listener of all addresses, or this one is of all; or the address. */
	if (rc == -EADDRNOTAVAIL && krdma_listener_address_ok(l))
		rc = -EADDRINUSE;
	switch (rc) {
	case -EADDRINUSE:
		what = "the port is taken";
		break;
	case -EADDRNOTAVAIL:
	case -ENODEV:
		what = "no RDMA device has the address";
		break;
	case -EACCES:
		what = "a port below 1024 takes CAP_NET_BIND_SERVICE";
		break;
	case -EAFNOSUPPORT:
		/* siw: its socket's. */
		what = "this kernel has no such addresses";
		rc = -EADDRNOTAVAIL;
		break;
	}
	return krdma_explain(error, rc, "can't listen on %pISpc: %s (%pe)", &l->addr, what,
			     ERR_PTR(rc));
}

static int krdma_listener_start(struct krdma_listener *l, const char **what)
{
	struct rdma_cm_id *id;
	int rc;

	lockdep_assert_held(&krdma_listeners_start);
	*what = "no id";
	id = krdma_inject(rdma_create_id(l->net, krdma_listen_handler, l, RDMA_PS_TCP, IB_QPT_RC),
			  ERR_PTR(-ENOMEM));
	if (IS_ERR(id))
		return PTR_ERR(id);
	l->removed = false;
	if (l->addr.ss_family == AF_INET6) {
		rc = krdma_inject(rdma_set_afonly(id, 1), -ENOMEM);
		if (rc)
			goto out;
	}
	*what = "rdma_cm does not";
	rc = krdma_inject(rdma_bind_addr(id, (struct sockaddr *)&l->addr), -ENOMEM) ?:
		     krdma_inject(rdma_listen(id, KRDMA_BACKLOG), -ENOMEM);
	if (rc)
		goto out;
	mutex_lock(&krdma_listeners_lock);
	if (l->removed) {
		rc = -ENODEV;
	} else {
		l->id = id;
		if (!l->closed)
			krdma_listener_event(l, KRDMA_EVENT_LISTENER_UP);
	}
	mutex_unlock(&krdma_listeners_lock);
out:
	if (rc)
		rdma_destroy_id(id);
	return rc;
}

static void krdma_listeners_retry_work(struct work_struct *work)
{
	struct krdma_listener *l;
	bool down = false;
	const char *what;

	/* The list is changed under krdma_listeners_start alone. */
	mutex_lock(&krdma_listeners_start);
	list_for_each_entry(l, &krdma_listeners, node) {
		if (!READ_ONCE(l->id) && krdma_listener_start(l, &what))
			down = true;
	}
	mutex_unlock(&krdma_listeners_start);
	if (down)
		krdma_listeners_retry();
}

/**
 * krdma_listeners_retry - look whether a listener that is down can come back
 *
 * Context: any.
 */
void krdma_listeners_retry(void)
{
	queue_delayed_work(krdma_local_wq, &krdma_retry, msecs_to_jiffies(KRDMA_RETRY_MS));
}

static struct krdma_listener *krdma_listener_find(struct net *net,
						  const struct sockaddr_storage *addr)
{
	struct krdma_listener *l;

	list_for_each_entry(l, &krdma_listeners, node)
		if (l->net == net && krdma_addr_equal(&l->addr, addr))
			return l;
	return NULL;
}

/**
 * krdma_listen - accept peers at an address
 * @net: network namespace
 * @owner: what it ends with (krdma_listeners_drop()) outside of init_net
 * @addr: local address, with port
 * @allow: prefixes of peers, NULL for every peer; taken over on success
 * @replace: a listener that is there gets @allow, and is open again if it was closed; its
 *	sessions go on
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_listen(struct net *net, const void *owner, const struct sockaddr_storage *addr,
		 struct krdma_allow *allow, bool replace, struct krdma_error *error)
{
	struct krdma_listener *l, *old;
	const char *what;
	int rc;

	l = krdma_inject(kzalloc(sizeof(*l), GFP_KERNEL), NULL);
	if (!l)
		return -ENOMEM;
	l->net = net;
	l->addr = *addr;
	/* An rdma_cm id holds its namespace. */
	l->owner = net_eq(net, &init_net) ? NULL : owner;
	RCU_INIT_POINTER(l->allow, allow);

	mutex_lock(&krdma_listeners_start);
	old = krdma_listener_find(net, addr);
	if (old && replace) {
		allow = rcu_replace_pointer(old->allow, allow,
					    lockdep_is_held(&krdma_listeners_start));
		if (old->closed && READ_ONCE(old->id))
			krdma_listener_event(old, KRDMA_EVENT_LISTENER_UP);
		WRITE_ONCE(old->closed, false);
		kfree_rcu(allow, rcu);
		rc = 0;
		goto out;
	}
	if (old) {
		rc = krdma_explain(error, -EEXIST, "there is a listener on %pISpc already", addr);
		goto out;
	}
	l->serial = ++krdma_listener_serial;
	rc = krdma_listener_start(l, &what);
	if (rc) {
		rc = krdma_listener_explain(l, rc, what, error);
		goto out;
	}
	mutex_lock(&krdma_listeners_lock);
	list_add_tail(&l->node, &krdma_listeners);
	mutex_unlock(&krdma_listeners_lock);
	mutex_unlock(&krdma_listeners_start);
	/* The device may have gone before the listener could be found. */
	krdma_listeners_retry();
	return 0;
out:
	mutex_unlock(&krdma_listeners_start);
	kfree(l);
	return rc;
}

static void krdma_listener_end(struct krdma_listener *l)
{
	struct rdma_cm_id *id;

	lockdep_assert_held(&krdma_listeners_start);
	mutex_lock(&krdma_listeners_lock);
	list_del(&l->node);
	id = l->id;
	l->id = NULL;
	krdma_listener_event(l, KRDMA_EVENT_LISTENER_ENDED);
	mutex_unlock(&krdma_listeners_lock);
	/* ORDER: not under krdma_listeners_lock: rdma_cm waits for handlers. */
	if (id)
		rdma_destroy_id(id);
	krdma_sessions_fail(l->serial, "the listener was removed");
	kfree(rcu_dereference_protected(l->allow, true));
	kfree(l);
}

/**
 * krdma_unlisten - stop accepting peers at an address
 * @net: network namespace
 * @addr: local address, with port
 * @close: only new ones; the sessions that there are go on
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or -ENOENT
 */
int krdma_unlisten(struct net *net, const struct sockaddr_storage *addr, bool close,
		   struct krdma_error *error)
{
	struct krdma_listener *l;
	int rc = 0;

	mutex_lock(&krdma_listeners_start);
	l = krdma_listener_find(net, addr);
	if (l && close && !l->closed) {
		WRITE_ONCE(l->closed, true);
		krdma_listener_event(l, KRDMA_EVENT_LISTENER_CLOSED);
	} else if (l && !close) {
		krdma_listener_end(l);
	} else if (!l) {
		rc = krdma_explain(error, -ENOENT, "there is no listener on %pISpc", addr);
	}
	mutex_unlock(&krdma_listeners_start);
	return rc;
}

/**
 * krdma_listeners_drop - end the listeners of an owner
 * @owner: as krdma_listen() got it, or NULL for all there are
 *
 * Context: process.
 */
void krdma_listeners_drop(const void *owner)
{
	struct krdma_listener *l, *next;

	mutex_lock(&krdma_listeners_start);
	list_for_each_entry_safe(l, next, &krdma_listeners, node)
		if (!owner || l->owner == owner)
			krdma_listener_end(l);
	mutex_unlock(&krdma_listeners_start);
}

/**
 * krdma_listeners_exit - no listener will be retried any more
 *
 * Context: process; no listener is left, and no device comes.
 */
void krdma_listeners_exit(void)
{
	cancel_delayed_work_sync(&krdma_retry);
	/* A handler that took the id of its listener: nothing else waits for its return. */
	synchronize_rcu_tasks();
}
