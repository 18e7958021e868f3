// SPDX-License-Identifier: GPL-2.0
/* From a target on the command line to an open region. */
#include "cli.h"

/* Enough for the names of a host with several networks. */
#define ADDRS_MAX 16

uint32_t timeout_to_ms(uint64_t ns)
{
	return (uint32_t)((ns + 999999) / 1000000);
}

int remote_connect(struct krdma *krdma, const char *host, bool alone, uint64_t timeout_ns,
		   uint32_t *session, struct krdma_sockaddr *peer)
{
	const uint32_t timeout_ms = timeout_to_ms(timeout_ns);
	struct krdma_sockaddr addrs[ADDRS_MAX];
	int count = krdma_resolve(host, addrs, ADDRS_MAX);
	int i, rc;

	for (i = 0; i < count; i++) {
		if (alone)
			rc = krdma_connect_private(krdma, &addrs[i], timeout_ms, session);
		else
			rc = krdma_connect(krdma, &addrs[i], timeout_ms, session);
		if (rc)
			continue;
		*peer = addrs[i];
		if (!peer->port)
			peer->port = KRDMA_DEFAULT_PORT;
		return 0;
	}
	return -1;
}

static int open_region(struct krdma *krdma, const struct target *target, uint32_t rights,
		       bool alone, uint64_t timeout_ns, struct krdma_region *region)
{
	struct krdma_sockaddr peer;
	uint32_t session;

	if (remote_connect(krdma, target->host, alone, timeout_ns, &session, &peer) ||
	    krdma_open_region(krdma, session, target->name, rights, timeout_to_ms(timeout_ns),
			      region)) {
		fail_krdma();
		return FAILED;
	}
	return DONE;
}

int remote_open(struct remote *remote, const struct target *target, uint32_t rights, bool alone,
		uint64_t timeout_ns)
{
	char text[SIZE_TEXT];

	if (krdma_new(&remote->krdma))
		return fail_krdma();
	if (open_region(remote->krdma, target, rights, alone, timeout_ns, &remote->region)) {
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

	if (open_region(remote->krdma, target, rights, true, timeout_ns, &again))
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
