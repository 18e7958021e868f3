// SPDX-License-Identifier: GPL-2.0
/* krdma disconnect and krdma drain: sessions end when what is under way has ended. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Enough for the addresses of a host with several networks. */
#define ADDRS_MAX 16

static bool same_host(const struct krdma_sockaddr *a, const struct krdma_sockaddr *b)
{
	return a->family == b->family && !memcmp(a->addr, b->addr, sizeof(a->addr)) &&
	       (!b->port || a->port == b->port);
}

/* Of the sessions with a host that its address, or one of several, belongs to. */
static int end_host(struct krdma *krdma, const char *host, uint32_t timeout_ms)
{
	struct krdma_sockaddr addrs[ADDRS_MAX];
	const int count = krdma_resolve(host, addrs, ADDRS_MAX);
	const struct krdma_session_info *info;
	uint64_t *serials = NULL, *more;
	struct krdma_iter *iter;
	size_t n = 0, i;
	int k, rc = DONE;

	if (count < 0 || krdma_iter_new(krdma, KRDMA_LIST_SESSIONS, 0, &iter))
		return fail_krdma();
	while (!rc && (info = krdma_iter_next(iter))) {
		for (k = 0; k < count && !same_host(&info->peer, &addrs[k]); k++)
			;
		if (k == count)
			continue;
		more = realloc(serials, (n + 1) * sizeof(*serials));
		if (!more) {
			rc = fail("out of memory");
			break;
		}
		serials = more;
		serials[n++] = info->serial;
	}
	if (krdma_iter_free(iter) && !rc)
		rc = fail_krdma();
	if (!rc && !n)
		rc = fail("there is no session with %s", host);
	for (i = 0; i < n; i++)
		if (krdma_disconnect(krdma, serials[i], timeout_ms))
			rc = fail_krdma();
	free(serials);
	return rc;
}

static int disconnect_run(int argc, char **argv)
{
	uint64_t serial, timeout_ns = 0;
	struct krdma *krdma;
	int rc;

	rc = timeout_option(&cmd_disconnect, argc, argv, &timeout_ns);
	if (rc >= 0)
		return rc;
	if (argc - optind != 1)
		return usage_error("a session or a host is needed");
	subject_set("disconnect %s", argv[optind]);
	if (krdma_new(&krdma))
		return fail_krdma();
	if (!parse_count(argv[optind], UINT64_MAX, &serial) && serial)
		rc = krdma_disconnect(krdma, serial, timeout_to_ms(timeout_ns)) ? fail_krdma() :
										  DONE;
	else
		rc = end_host(krdma, argv[optind], timeout_to_ms(timeout_ns));
	krdma_free(krdma);
	return rc;
}

const struct command cmd_disconnect = {
	.name = "disconnect",
	.usage = "krdma disconnect [OPTIONS] SESSION|HOST[:PORT]",
	.summary = "end a session, or those with a host, when they are idle",
	.help = "SESSION is the number that 'krdma status' shows. Operations that begin from now on\n"
		"fail; those under way end first. Programs may connect again.\n\n"
		"  --timeout SECONDS give them this time (default 10); then they end with an error,\n"
		"                    and so does the command\n",
	.run = disconnect_run,
};

/* Each listener of the network namespace: close it, or remove it. */
static int all_listeners(struct krdma *krdma,
			 int (*act)(struct krdma *krdma, const struct krdma_sockaddr *addr))
{
	const struct krdma_listener_info *info;
	struct krdma_sockaddr *addrs = NULL, *more;
	struct krdma_iter *iter;
	size_t n = 0, i;
	int rc = DONE;

	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return fail_krdma();
	while (!rc && (info = krdma_iter_next(iter))) {
		more = realloc(addrs, (n + 1) * sizeof(*addrs));
		if (!more) {
			rc = fail("out of memory");
			break;
		}
		addrs = more;
		addrs[n++] = info->addr;
	}
	if (krdma_iter_free(iter) && !rc)
		rc = fail_krdma();
	for (i = 0; !rc && i < n; i++)
		if (act(krdma, &addrs[i]))
			rc = fail_krdma();
	free(addrs);
	return rc;
}

static int drain_run(int argc, char **argv)
{
	uint64_t timeout_ns = 0;
	struct krdma *krdma;
	int rc;

	rc = timeout_option(&cmd_drain, argc, argv, &timeout_ns);
	if (rc >= 0)
		return rc;
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	subject_set("drain");
	if (krdma_new(&krdma))
		return fail_krdma();
	rc = all_listeners(krdma, krdma_close_listener);
	if (!rc && krdma_disconnect(krdma, 0, timeout_to_ms(timeout_ns)))
		rc = fail_krdma();
	if (all_listeners(krdma, krdma_unlisten))
		rc = FAILED;
	krdma_free(krdma);
	return rc;
}

const struct command cmd_drain = {
	.name = "drain",
	.usage = "krdma drain [OPTIONS]",
	.summary = "remove all listeners, and end all sessions when they are idle",
	.help = "Before a host is shut down: no peer connects any more, each peer is told, and what is\n"
		"under way ends first, here and there. Exports stay, for listeners that are made later.\n\n"
		"  --timeout SECONDS give them this time (default 10); then they end with an error,\n"
		"                    and so does the command\n",
	.run = drain_run,
};
