// SPDX-License-Identifier: GPL-2.0
/* Addresses of hosts, as users see them; and those of this host that peers can connect to. */
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/sched/mm.h>
#include <net/addrconf.h>
#include <rdma/ib_cache.h>

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

/* ---- those that peers can connect to ---- */

/* What is found, and for whom. */
struct krdma_addrs {
	struct net *net;
	struct krdma_wire_address *to;
	u32 n;
	u32 most;
};

/* A listener is on this address, or on any of its family: it is one to be told, but once. */
static void krdma_addrs_add(struct krdma_addrs *addrs, const struct krdma_listener *l, u16 family,
			    const void *addr, u32 bytes, const u8 *mapped)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)&l->addr;
	struct krdma_sockaddr on, any = { .family = family };
	__le16 port = cpu_to_le16(ntohs(sin->sin_port));
	u32 i;

	krdma_addr_to_user(&l->addr, &on);
	if (on.family != family ||
	    (memcmp(on.addr, addr, bytes) && memcmp(on.addr, any.addr, bytes)))
		return;
	for (i = 0; i < addrs->n; i++)
		if (!memcmp(addrs->to[i].addr, mapped, 16) && addrs->to[i].port == port)
			return;
	if (addrs->n == addrs->most)
		return;
	memcpy(addrs->to[i].addr, mapped, 16);
	addrs->to[i].port = port;
	addrs->to[i].reserved = 0;
	addrs->n++;
}

static void krdma_addrs_of_listener(struct krdma_addrs *addrs, const struct net_device *netdev,
				    const struct krdma_listener *l)
{
	const struct in_device *v4 = __in_dev_get_rcu(netdev);
	const struct inet6_dev *v6 = __in6_dev_get(netdev);
	const struct inet6_ifaddr *ifp;
	const struct in_ifaddr *ifa;
	struct in6_addr mapped;

	if (v4) {
		in_dev_for_each_ifa_rcu(ifa, v4) {
			ipv6_addr_set_v4mapped(ifa->ifa_local, &mapped);
			krdma_addrs_add(addrs, l, AF_INET, &ifa->ifa_local, 4, mapped.s6_addr);
		}
	}
	if (!v6)
		return;
	list_for_each_entry_rcu(ifp, &v6->addr_list, if_list) {
		/* One is good on its own network alone, the other is not there yet. */
		if (!(ipv6_addr_type(&ifp->addr) & IPV6_ADDR_LINKLOCAL) &&
		    !(ifp->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
			krdma_addrs_add(addrs, l, AF_INET6, &ifp->addr, 16, ifp->addr.s6_addr);
	}
}

/* Is it the network device of a GID? As rdma_cm has it (cma_validate_port). */
static bool krdma_gid_on(const struct ib_gid_attr *gid, const struct net_device *netdev)
{
	if (rdma_protocol_iwarp(gid->device, gid->port_num))
		return !memcmp(gid->gid.raw, netdev->dev_addr, ETH_ALEN);
	if (rdma_protocol_roce(gid->device, gid->port_num))
		return rcu_access_pointer(gid->ndev) == netdev;
	return netdev->type == ARPHRD_INFINIBAND &&
	       !memcmp(gid->gid.raw, netdev->dev_addr + 4, sizeof(gid->gid));
}

static void krdma_addrs_of_gid(struct krdma_addrs *addrs, const struct ib_gid_attr *gid)
{
	const struct net_device *netdev;
	const struct krdma_listener *l;

	rcu_read_lock();
	for_each_netdev_rcu(addrs->net, netdev) {
		if ((netdev->flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP ||
		    !krdma_gid_on(gid, netdev))
			continue;
		list_for_each_entry(l, &krdma_listeners, node)
			if (l->net == addrs->net && l->id && !READ_ONCE(l->closed))
				krdma_addrs_of_listener(addrs, netdev, l);
	}
	rcu_read_unlock();
}

static void krdma_addrs_of_port(struct krdma_addrs *addrs, struct krdma_device *dev, u32 port)
{
	const struct ib_gid_attr *gid;
	struct ib_port_attr attr;
	int i;

	if (krdma_device_unusable(dev, port, &attr))
		return;
	for (i = 0; i < attr.gid_tbl_len; i++) {
		gid = rdma_get_gid_attr(dev->ib, port, i);
		if (IS_ERR(gid))
			continue;
		krdma_addrs_of_gid(addrs, gid);
		rdma_put_gid_attr(gid);
	}
}

/**
 * krdma_addrs_local - over which addresses of this host could a peer connect?
 * @sess: inbound session
 * @to: out: those on which somebody listens, and whose RDMA device could be a path of the session
 * @most: room there
 *
 * Whether the listener admits the peer there is not known before it connects. No id of rdma_cm is
 * needed, which could not end while its device goes (Documentation/lifetime.rst, "Removal").
 *
 * Context: process.
 * Return: their number
 */
u32 krdma_addrs_local(const struct krdma_session *sess, struct krdma_wire_address *to, u32 most)
{
	struct krdma_addrs addrs = { .to = to, .most = most };
	struct krdma_device *dev = NULL;
	struct krdma_listener *l;
	unsigned int noio;
	u32 port;

	/* Connects wait for the lock, and transfers for these. */
	noio = memalloc_noio_save();
	/* ORDER: the id of a listener holds the namespace. */
	mutex_lock(&krdma_listeners_lock);
	list_for_each_entry(l, &krdma_listeners, node)
		if (l->net == sess->net && l->id)
			addrs.net = l->net;
	while (addrs.net && (dev = krdma_device_next(dev))) {
		if (dev->segment_shift < sess->segment_shift ||
		    !rdma_dev_access_netns(dev->ib, addrs.net))
			continue;
		rdma_for_each_port(dev->ib, port)
			if (rdma_protocol_iwarp(dev->ib, port) == sess->iwarp)
				krdma_addrs_of_port(&addrs, dev, port);
	}
	mutex_unlock(&krdma_listeners_lock);
	memalloc_noio_restore(noio);
	return addrs.n;
}
