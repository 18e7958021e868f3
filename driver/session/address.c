// SPDX-License-Identifier: GPL-2.0
/* Addresses of hosts, as users see them. */
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
