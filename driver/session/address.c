// SPDX-License-Identifier: GPL-2.0
/* Addresses of hosts, as users see them. */
#include <linux/inetdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>

#include "session/session.h"

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

/* An id that is not to listen. */
static int krdma_addr_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

/**
 * krdma_addr_bound - is there an RDMA device with an address? Then some port of it can be had
 * @net: network namespace
 * @addr: the address; of any, whether there is a device at all
 *
 * Context: process.
 * Return: true if there is
 */
bool krdma_addr_bound(struct net *net, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage any_port = *addr;
	struct rdma_cm_id *id;
	int rc;

	/* The port is at the same place for both families. */
	((struct sockaddr_in *)&any_port)->sin_port = 0;
	id = krdma_inject(rdma_create_id(net, krdma_addr_handler, NULL, RDMA_PS_TCP, IB_QPT_RC),
			  ERR_PTR(-ENOMEM));
	if (IS_ERR(id))
		return false;
	rc = krdma_inject(rdma_bind_addr(id, (struct sockaddr *)&any_port), -ENOMEM);
	rdma_destroy_id(id);
	return !rc;
}

static bool krdma_addr_any(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
	return ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/* ---- the addresses that peers can connect to ---- */

/* Of the host, and of listeners, that are looked at. */
#define KRDMA_ADDRS_MAX 64

struct krdma_addrs {
	u32 n;
	struct sockaddr_storage addr[KRDMA_ADDRS_MAX];
};

static void krdma_addrs_add(struct krdma_addrs *addrs, const void *addr, u32 bytes)
{
	if (addrs->n < KRDMA_ADDRS_MAX)
		memcpy(&addrs->addr[addrs->n++], addr, bytes);
}

static void krdma_addrs_of_netdev(struct krdma_addrs *addrs, const struct net_device *netdev,
				  const struct sockaddr_storage *any)
{
	__be16 port = ((const struct sockaddr_in *)any)->sin_port;
	const struct in_device *v4 = __in_dev_get_rcu(netdev);
	const struct inet6_dev *v6 = __in6_dev_get(netdev);
	const struct inet6_ifaddr *ifp;
	const struct in_ifaddr *ifa;

	if (any->ss_family == AF_INET && v4) {
		in_dev_for_each_ifa_rcu(ifa, v4) {
			struct sockaddr_in sin = { AF_INET, port, { ifa->ifa_local } };

			krdma_addrs_add(addrs, &sin, sizeof(sin));
		}
	}
	if (any->ss_family != AF_INET6 || !v6)
		return;
	list_for_each_entry_rcu(ifp, &v6->addr_list, if_list) {
		struct sockaddr_in6 sin6 = { AF_INET6, port, 0, ifp->addr };

		/* One is good on its own network alone, the other is not there yet. */
		if (!(ipv6_addr_type(&ifp->addr) & IPV6_ADDR_LINKLOCAL) &&
		    !(ifp->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
			krdma_addrs_add(addrs, &sin6, sizeof(sin6));
	}
}

/* Where peers may connect to. Return: the namespace, to be put; NULL if there is no listener */
static struct net *krdma_addrs_listened(const struct krdma_session *sess, struct krdma_addrs *addrs)
{
	struct net *net = NULL;
	struct krdma_listener *l;

	mutex_lock(&krdma_listeners_lock);
	list_for_each_entry(l, &krdma_listeners, node) {
		if (l->net != sess->net || !l->id || READ_ONCE(l->closed))
			continue;
		/* ORDER: while its id holds it. */
		net = net ?: get_net(l->net);
		krdma_addrs_add(addrs, &l->addr, sizeof(l->addr));
	}
	mutex_unlock(&krdma_listeners_lock);
	return net;
}

/* In place of "any" all addresses of the host. */
static void krdma_addrs_any(struct net *net, struct krdma_addrs *addrs,
			    const struct sockaddr_storage *any)
{
	const struct net_device *netdev;

	rcu_read_lock();
	for_each_netdev_rcu(net, netdev)
		if ((netdev->flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
			krdma_addrs_of_netdev(addrs, netdev, any);
	rcu_read_unlock();
}

/* Return: the addresses that were written */
static u32 krdma_addrs_write(struct net *net, const struct krdma_addrs *addrs,
			     struct krdma_wire_address *to, u32 most)
{
	union ib_gid gid;
	u32 i, j, n = 0;

	for (i = 0; i < addrs->n && n < most; i++) {
		const struct sockaddr_storage *addr = &addrs->addr[i];
		u16 port = ntohs(((const struct sockaddr_in *)addr)->sin_port);

		if (krdma_addr_any(addr) || rdma_ip2gid((struct sockaddr *)addr, &gid))
			continue;
		for (j = 0; j < n; j++)
			if (!memcmp(to[j].addr, gid.raw, 16) && le16_to_cpu(to[j].port) == port)
				break;
		if (j < n || !krdma_addr_bound(net, addr))
			continue;
		memcpy(to[n].addr, gid.raw, 16);
		to[n].port = cpu_to_le16(port);
		to[n++].reserved = 0;
	}
	return n;
}

/**
 * krdma_addrs_local - over which addresses of this host could a peer connect?
 * @sess: inbound session
 * @to: out: those with an RDMA device, on which somebody listens
 * @most: room there
 *
 * Whether the listener admits the peer there is not known before it connects.
 *
 * Context: process.
 * Return: their number; or -ENOMEM
 */
int krdma_addrs_local(const struct krdma_session *sess, struct krdma_wire_address *to, u32 most)
{
	struct krdma_addrs *addrs = krdma_inject(kzalloc(sizeof(*addrs), GFP_KERNEL), NULL);
	struct net *net;
	u32 i, n, listeners;

	if (!addrs)
		return -ENOMEM;
	net = krdma_addrs_listened(sess, addrs);
	listeners = addrs->n;
	for (i = 0; i < listeners; i++)
		if (krdma_addr_any(&addrs->addr[i]))
			krdma_addrs_any(net, addrs, &addrs->addr[i]);
	n = net ? krdma_addrs_write(net, addrs, to, most) : 0;
	if (net)
		put_net(net);
	kfree(addrs);
	return n;
}
