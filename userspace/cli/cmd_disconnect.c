// SPDX-License-Identifier: GPL-2.0
/* krdma disconnect and krdma drain: sessions end when what is under way has ended. */
#include <errno.h>
#include <stdlib.h>

#include "conf.h"

/* Enough for the addresses of a host with several networks. */
#define ADDRS_MAX 16

/* The sessions with each address of a host; some may have none. */
static int end_host(struct krdma *krdma, const char *host, uint32_t timeout_ms)
{
	struct krdma_sockaddr addrs[ADDRS_MAX];
	const int count = krdma_resolve(host, addrs, ADDRS_MAX);
	int i, ended = 0, rc = DONE;

	if (count < 0)
		return fail_krdma();
	for (i = 0; i < count; i++) {
		const int error = krdma_disconnect(krdma, 0, &addrs[i], timeout_ms);

		if (error == -ENOENT)
			continue;
		ended++;
		if (error)
			rc = fail_krdma();
	}
	return ended ? rc : fail(ENOENT, "there is no session with %s", host);
}

/* --timeout alone. Return: -1 to go on, else the exit status */
static int end_options(const struct command *command, int argc, char **argv, uint32_t *timeout_ms)
{
	uint64_t timeout_ns = 0;
	int rc = timeout_option(command, argc, argv, &timeout_ns);

	if (rc >= 0)
		return rc;
	if (timeout_ns > KRDMA_DRAIN_MAX * NSEC_PER_SEC)
		return usage_error("--timeout has %d seconds at most", KRDMA_DRAIN_MAX);
	*timeout_ms = timeout_to_ms(timeout_ns);
	return -1;
}

static int disconnect_run(int argc, char **argv)
{
	struct krdma *krdma;
	uint32_t timeout_ms = 0;
	uint64_t serial;
	int rc;

	rc = end_options(&cmd_disconnect, argc, argv, &timeout_ms);
	if (rc >= 0)
		return rc;
	if (argc - optind != 1)
		return usage_error("a session or a host is needed");
	subject_set("disconnect %s", argv[optind]);
	if (module_open(&krdma))
		return FAILED;
	if (!parse_count(argv[optind], UINT64_MAX, &serial) && serial)
		rc = krdma_disconnect(krdma, serial, NULL, timeout_ms) ? fail_krdma() : DONE;
	else
		rc = end_host(krdma, argv[optind], timeout_ms);
	krdma_free(krdma);
	return rc;
}

const struct command cmd_disconnect = {
	.name = "disconnect",
	.usage = "krdma disconnect [OPTIONS] SESSION|HOST[:PORT]",
	.summary = "end a session, or those with a host, when they are idle",
	.help = "SESSION is the number that 'krdma status' shows. Operations under way end; programs that\n"
		"begin another one get an error, and may connect again.\n\n"
		"  --timeout SECONDS wait this long for operations under way (default 10, at most 3600);\n"
		"                    then they fail, and the exit status is 4\n",
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
			rc = fail(ENOMEM, "out of memory");
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

/* A disk of this host does not survive its session. Return: DONE or FAILED */
static int no_disk_in_use(void)
{
	struct json_object *disks = json_object_new_array(), *disk;
	int rc = blk_disks(disks);
	size_t i;

	for (i = 0; !rc && i < json_object_array_length(disks); i++) {
		disk = json_object_array_get_idx(disks, i);
		if (json_object_get_uint64(json_object_object_get(disk, "openers")))
			rc = fail(
				EBUSY,
				"%s of this host is in use, and would be lost: unmount it, or --force",
				json_object_get_string(json_object_object_get(disk, "device")));
	}
	json_object_put(disks);
	return rc;
}

static int drain_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "timeout", required_argument, NULL, OPT_LONG_ONLY },
		{ "force", no_argument, NULL, 'f' },
		COMMON_LONG,
	};
	uint64_t timeout_ns = 0;
	uint32_t timeout_ms;
	struct krdma *krdma;
	bool force = false;
	int c, rc, error;

	while ((c = getopt_long(argc, argv, ":f" COMMON_SHORT, options, NULL)) != -1) {
		switch (c) {
		case 'f':
			force = true;
			break;
		case OPT_LONG_ONLY:
			if (parse_seconds(optarg, &timeout_ns))
				return usage_error("'%s' is not a time in seconds", optarg);
			break;
		default:
			rc = common_option(&cmd_drain, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	if (timeout_ns > KRDMA_DRAIN_MAX * NSEC_PER_SEC)
		return usage_error("--timeout has %d seconds at most", KRDMA_DRAIN_MAX);
	timeout_ms = timeout_to_ms(timeout_ns);
	subject_set("drain");
	if (!force && no_disk_in_use())
		return FAILED;
	if (module_open(&krdma))
		return FAILED;
	rc = all_listeners(krdma, krdma_close_listener);
	if (!rc) {
		error = krdma_disconnect(krdma, 0, NULL, timeout_ms);
		if (error)
			rc = fail_krdma();
		/* Not while sessions go on. */
		if ((!error || error == -ETIMEDOUT) && all_listeners(krdma, krdma_unlisten))
			rc = FAILED;
	}
	krdma_free(krdma);
	return rc;
}

const struct command cmd_drain = {
	.name = "drain",
	.usage = "krdma drain [OPTIONS]",
	.summary = "remove all listeners, and end all sessions when they are idle",
	.help = "Before a host is shut down. Listeners refuse new sessions, peers are told, and operations\n"
		"under way end, here and there; then the listeners are removed. Programs that begin another\n"
		"operation get an error. Exports stay, for listeners that are made later. While a disk of this\n"
		"host is in use, nothing is done.\n\n"
		"  -f, --force       even then: such a disk is lost\n"
		"  --timeout SECONDS wait this long for operations under way (default 10, at most 3600);\n"
		"                    then they fail, and the exit status is 4\n",
	.run = drain_run,
};
