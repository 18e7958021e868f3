// SPDX-License-Identifier: GPL-2.0
/* From a target on the command line to an open region. */
#include "cli.h"

/* Enough for the names of a host with several networks. */
#define ADDRS_MAX 16

uint32_t timeout_to_ms(uint64_t ns)
{
	return (uint32_t)((ns + 999999) / 1000000);
}

int remote_connect(struct krdma *krdma, const char *host, uint32_t flags, uint64_t timeout_ns,
		   uint32_t *session, struct krdma_sockaddr *peer)
{
	const uint32_t timeout_ms = timeout_to_ms(timeout_ns);
	struct krdma_sockaddr addrs[ADDRS_MAX];
	int count = krdma_resolve(host, addrs, ADDRS_MAX);
	int i;

	for (i = 0; i < count; i++) {
		if (krdma_connect_flags(krdma, &addrs[i], flags, timeout_ms, session))
			continue;
		*peer = addrs[i];
		if (!peer->port)
			peer->port = KRDMA_DEFAULT_PORT;
		return 0;
	}
	return -1;
}

static int open_region(struct krdma *krdma, const struct target *target, uint32_t rights,
		       uint32_t flags, uint64_t timeout_ns, struct krdma_region *region)
{
	struct krdma_sockaddr peer;
	uint32_t session;

	if (rights & KRDMA_RIGHT_MESSAGE)
		flags |= KRDMA_CONNECT_MESSAGES;
	if (remote_connect(krdma, target->host, flags, timeout_ns, &session, &peer) ||
	    krdma_open_region(krdma, session, target->name, rights, timeout_to_ms(timeout_ns),
			      region)) {
		fail_krdma();
		return FAILED;
	}
	return DONE;
}

int remote_open(struct remote *remote, const struct target *target, uint32_t rights, uint32_t flags,
		uint64_t timeout_ns)
{
	char text[SIZE_TEXT];

	if (krdma_new(&remote->krdma))
		return fail_krdma();
	if (open_region(remote->krdma, target, rights, flags, timeout_ns, &remote->region)) {
		krdma_free(remote->krdma);
		return FAILED;
	}
	remote->offset = target->offset;
	remote->length = target->length;
	if (remote->offset < remote->region.length) {
		if (!remote->length)
			remote->length = remote->region.length - remote->offset;
		if (remote->length <= remote->region.length - remote->offset)
			return DONE;
	}
	krdma_free(remote->krdma);
	return fail("the range is outside '%s', which has %s (%llu bytes)", target->name,
		    size_text(remote->region.length, text),
		    (unsigned long long)remote->region.length);
}

int remote_open_again(const struct remote *remote, const struct target *target, uint32_t rights,
		      uint64_t timeout_ns, uint32_t *region)
{
	struct krdma_region again;

	if (open_region(remote->krdma, target, rights, KRDMA_CONNECT_PRIVATE, timeout_ns, &again))
		return FAILED;
	if (again.length != remote->region.length)
		return fail("'%s' has changed its length meanwhile", target->name);
	*region = again.id;
	return DONE;
}

void remote_close(struct remote *remote)
{
	krdma_free(remote->krdma);
}
