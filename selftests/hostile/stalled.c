// SPDX-License-Identifier: GPL-2.0
/*
 * More regions than a workqueue of Linux 6.1 has workers wait for replies of a silent target.
 * Requests for keys and closes of another session must not wait for these. On a slow kernel the
 * number is a tenth, because the test has to end before the session of the silent target is given
 * up.
 *
 *	stalled ADDRESS PORT GOOD NAME
 *
 * PORT is that of the silent target, GOOD that of a correct target, which has the export NAME.
 * peer.sh runs this program.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst.h"

/* WQ_UNBOUND_MAX_ACTIVE is 512 on a host with up to 128 processors; there are 32 credits. */
#define MANY 600

static int fd, count;
static __u32 regions[MANY];
static char *memory;

static bool of_silent(const void *entry, void *arg)
{
	const struct krdma_region_info *info = entry;

	(void)arg;
	return !strncmp(info->name, "silent-", 7);
}

static bool of_good(const void *entry, void *arg)
{
	const struct krdma_region_info *info = entry;

	return !strcmp(info->name, arg);
}

static bool waits(const void *entry, void *arg)
{
	const struct krdma_transfer_info *info = entry;

	(void)arg;
	return info->wait == KRDMA_WAIT_KEY || info->wait == KRDMA_WAIT_CREDIT;
}

static bool all_wait(void *arg)
{
	(void)arg;
	return kst_count(KRDMA_LIST_TRANSFERS, waits, NULL) == count;
}

static bool good_is_closed(void *arg)
{
	return !kst_count(KRDMA_LIST_REGIONS, of_good, arg);
}

static __u32 session_with(const char *address, const char *port)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_PRIVATE,
		.dst = kst_ipv4(address, atoi(port)),
	};

	if (kst_call(fd, KRDMA_IOC_CONNECT, &cmd))
		kst_bail("no session: %s", kst_last_error(fd, NULL));
	return cmd.id;
}

/* A region of the good target, from its key to its CLOSE. */
static void use_good(__u32 session, char *name, const char *when)
{
	__u32 region;

	kst_ok(!kst_open_region(fd, session, name, KRDMA_RIGHT_READ, &region, NULL),
	       "%s: a region of another target opens", when);
	kst_ok(!kst_move(fd, KRDMA_OP_READ, region, 0, memory, 64, NULL), "%s: it is read", when);
	kst_destroy(fd, region);
	kst_ok(kst_wait(good_is_closed, name), "%s: it is closed", when);
}

int main(int argc, char **argv)
{
	struct krdma_op ops[MANY];
	struct krdma_completion comp;
	__u32 silent, good, accepted;
	char name[KRDMA_NAME_MAX];
	int i, listed;

	if (argc != 5)
		kst_bail("usage: stalled ADDRESS PORT GOOD NAME");
	count = kst_number("TIME_FACTOR", 1) > 1 ? MANY / 10 : MANY;
	fd = kst_open();
	memory = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	good = session_with(argv[1], argv[3]);
	silent = session_with(argv[1], argv[2]);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "silent-%d", i);
		if (kst_open_region(fd, silent, name, KRDMA_RIGHT_WRITE, &regions[i], NULL))
			kst_bail("region %d: %s", i, kst_last_error(fd, NULL));
		ops[i] = kst_op(KRDMA_OP_WRITE, regions[i], 0, memory, 64);
	}
	if (kst_start(fd, ops, count, &accepted) || (int)accepted != count)
		kst_bail("%u operations: %s", accepted, kst_last_error(fd, NULL));
	kst_ok(kst_wait(all_wait, NULL), "%d regions wait for keys of a silent target", count);

	use_good(good, argv[4], "while they wait for keys");
	kst_ok(all_wait(NULL), "they still do");

	for (i = 0; i < count; i++)
		kst_destroy(fd, regions[i]);
	use_good(good, argv[4], "while they wait to be closed");
	listed = kst_count(KRDMA_LIST_REGIONS, of_silent, NULL);
	kst_ok(listed == count, "%d of them still do", listed);

	for (i = 0; i < count && kst_reap(fd, &comp, 1) == 1; i++)
		if (comp.status != -ECANCELED && comp.status != -ENOTCONN)
			break;
	kst_ok(i == count, "all operations have ended");
	close(fd);
	return kst_done();
}
