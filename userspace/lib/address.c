// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Host names, addresses and prefixes: from text and to text. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"

static int parse_number(const char *text, unsigned long max, unsigned long *value)
{
	char *end;

	/* strtoul() alone would take spaces and a sign. */
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*value = strtoul(text, &end, 10);
	return errno || *end || *value > max ? -EINVAL : 0;
}

/* Split "host", "host:port", "[v6]", "[v6]:port" and "v6". */
static int split_port(const char *text, char *host, size_t size, uint16_t *port, int *numeric)
{
	const char *start = text, *end, *port_text = NULL;
	unsigned long value = 0;

	*port = 0;
	*numeric = 0;
	if (*text == '[') {
		start = text + 1;
		end = strchr(start, ']');
		if (!end || (end[1] && end[1] != ':'))
			return krdma__fail(EINVAL, "'%s' is not of the form [ADDRESS]:PORT", text);
		if (end[1])
			port_text = end + 2;
		*numeric = 1;
	} else {
		end = strchr(text, ':');
		if (end && !strchr(end + 1, ':'))
			port_text = end + 1;
		else
			end = text + strlen(text);
	}
	if (end == start)
		return krdma__fail(EINVAL, "'%s' names no host", text);
	if ((size_t)(end - start) >= size)
		return krdma__fail(EINVAL, "the host name in '%s' is too long", text);
	if (port_text && (parse_number(port_text, 65535, &value) || !value))
		return krdma__fail(EINVAL, "'%s' is not a port, 1 to 65535", port_text);
	memcpy(host, start, (size_t)(end - start));
	host[end - start] = '\0';
	*port = (uint16_t)value;
	return 0;
}

static int from_sockaddr(const struct sockaddr *sa, uint16_t port, struct krdma_sockaddr *addr)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	memset(addr, 0, sizeof(*addr));
	addr->family = sa->sa_family;
	addr->port = port;
	switch (sa->sa_family) {
	case AF_INET:
		memcpy(&in, sa, sizeof(in));
		memcpy(addr->addr, &in.sin_addr, sizeof(in.sin_addr));
		return 1;
	case AF_INET6:
		memcpy(&in6, sa, sizeof(in6));
		memcpy(addr->addr, &in6.sin6_addr, sizeof(in6.sin6_addr));
		addr->scope_id = in6.sin6_scope_id;
		return 1;
	default:
		return 0;
	}
}

void krdma__storage(const struct krdma_sockaddr *addr, struct __kernel_sockaddr_storage *to)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };

	memset(to, 0, sizeof(*to));
	/* The module refuses a family that it does not know, and says so. */
	to->ss_family = addr->family;
	if (addr->family == AF_INET) {
		in.sin_port = htons(addr->port);
		memcpy(&in.sin_addr, addr->addr, sizeof(in.sin_addr));
		memcpy(to, &in, sizeof(in));
	} else if (addr->family == AF_INET6) {
		in6.sin6_port = htons(addr->port);
		in6.sin6_scope_id = addr->scope_id;
		memcpy(&in6.sin6_addr, addr->addr, sizeof(in6.sin6_addr));
		memcpy(to, &in6, sizeof(in6));
	}
}

int krdma_resolve(const char *host, struct krdma_sockaddr *addrs, unsigned int count)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	char name[NI_MAXHOST];
	struct addrinfo *list, *ai;
	unsigned int found = 0;
	int numeric, rc;
	uint16_t port;

	rc = split_port(host, name, sizeof(name), &port, &numeric);
	if (rc)
		return rc;
	if (numeric) {
		hints.ai_flags = AI_NUMERICHOST;
		hints.ai_family = AF_INET6;
	}
	rc = getaddrinfo(name, NULL, &hints, &list);
	if (rc)
		return krdma__fail(rc == EAI_AGAIN  ? EAGAIN :
				   rc == EAI_NONAME ? ENOENT :
						      EHOSTUNREACH,
				   "cannot resolve host '%s': %s", name,
				   rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	for (ai = list; ai && found < count; ai = ai->ai_next)
		found += (unsigned int)from_sockaddr(ai->ai_addr, port, &addrs[found]);
	freeaddrinfo(list);
	if (!found)
		return krdma__fail(EHOSTUNREACH, "host '%s' has no IP address", name);
	return (int)found;
}

int krdma_parse_prefix(const char *text, struct krdma_prefix *prefix)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long bits, value;
	char name[NI_MAXHOST];
	struct addrinfo *list;
	struct in_addr in;

	if (length >= sizeof(name))
		goto bad;
	memcpy(name, text, length);
	name[length] = '\0';
	/* Not "10.1", which getaddrinfo() takes for 10.0.0.1. */
	if (!strchr(name, ':') && inet_pton(AF_INET, name, &in) != 1)
		goto bad;
	if (getaddrinfo(name, NULL, &hints, &list))
		goto bad;
	memset(prefix, 0, sizeof(*prefix));
	from_sockaddr(list->ai_addr, 0, &prefix->addr);
	freeaddrinfo(list);
	bits = prefix->addr.family == AF_INET ? 32 : 128;
	value = bits;
	if (slash && parse_number(slash + 1, bits, &value))
		goto bad;
	prefix->prefix_len = (uint32_t)value;
	/* Whoever writes 10.1.2.3/8 may mean 10.1.2.3, and would admit many more. */
	for (; value < bits; value++)
		if (prefix->addr.addr[value / 8] & (0x80 >> value % 8))
			return krdma__fail(EINVAL, "'%s' has bits behind the first %u", text,
					   prefix->prefix_len);
	return 0;
bad:
	return krdma__fail(EINVAL, "'%s' is not an address prefix such as 10.0.0.0/8", text);
}

const char *krdma_format_addr(const struct krdma_sockaddr *addr, char text[KRDMA_ADDR_TEXT])
{
	char host[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";

	if (!inet_ntop(addr->family, addr->addr, host, sizeof(host)))
		strcpy(host, "any");
	/* An interface of another namespace, or one that is gone, has no name. */
	if (addr->scope_id) {
		scope[0] = '%';
		if (!if_indextoname(addr->scope_id, scope + 1))
			snprintf(scope, sizeof(scope), "%%%u", addr->scope_id);
	}
	if (!addr->port)
		snprintf(text, KRDMA_ADDR_TEXT, "%s%s", host, scope);
	else if (addr->family == AF_INET6)
		snprintf(text, KRDMA_ADDR_TEXT, "[%s%s]:%u", host, scope, addr->port);
	else
		snprintf(text, KRDMA_ADDR_TEXT, "%s:%u", host, addr->port);
	return text;
}
