// SPDX-License-Identifier: GPL-2.0
/* No id of another user can be used, and no list shows what another user has. */
#include <errno.h>
#include <fcntl.h>

#include "users.h"

static void own_things(void)
{
	static __u64 mem[KST_PAGE / 8] __attribute__((aligned(4096)));
	int fd = kst_open(), rc;
	__u32 session = 0, region = 0, id = 0;

	rc = kst_connect(fd, 0, &session);
	if (!rc)
		rc = kst_open_region(fd, session, "users", 0, &region, NULL);
	if (!rc)
		rc = kst_buffer(fd, mem, KST_PAGE, KRDMA_BUFFER_WRITABLE, &id);
	if (!rc)
		rc = kst_export(fd, "users-ann", mem, KST_PAGE, BOTH | KRDMA_RIGHT_MESSAGE, &id);
	tell(fd, rc, id);
	await();
	rc = move(fd, KRDMA_OP_READ, region, 0, mem, KST_PAGE);
	tell(fd, rc, has_base(mem, KST_PAGE));
	tell(fd, 0, kst_count(KRDMA_LIST_EXPORTS, NULL, NULL));
	await();
}

/* How many calls on an id of another file do not say ENOENT. */
static int uses_of(int fd, __u32 region, __u32 id)
{
	struct krdma_peer_export_info entries[12];
	struct krdma_ioc_list list = {
		.size = sizeof(list),
		.kind = KRDMA_LIST_PEER_EXPORTS,
		.session = id,
		.entries = (uintptr_t)entries,
		.stride = sizeof(entries[0]),
		.count = KST_ARRAY_SIZE(entries),
	};
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .session = id };
	struct krdma_ioc_export_grow grow = { .size = sizeof(grow), .id = id, .length = 1 << 20 };
	char byte[8];
	__u32 other;

	return (kst_call(fd, KRDMA_IOC_PING, &ping) != -ENOENT) +
	       (kst_call(fd, KRDMA_IOC_LIST, &list) != -ENOENT) +
	       (kst_call(fd, KRDMA_IOC_EXPORT_GROW, &grow) != -ENOENT) +
	       (kst_open_region(fd, id, "users", 0, &other, NULL) != -ENOENT) +
	       (kst_move(fd, KRDMA_OP_READ, id, 0, byte, 8, NULL) != -ENOENT) +
	       (by_buffer(fd, KRDMA_OP_READ, region, id) != -ENOENT) +
	       (kst_message_queue(fd, id, 0) != -ENOENT) + (kst_destroy(fd, id) != -ENOENT);
}

static void other_things(void)
{
	__u32 session, region, id, used = 0;
	int fd = kst_open(), rc, kind, seen = 0;
	static __u64 mem[KST_PAGE / 8] __attribute__((aligned(4096)));

	for (kind = KRDMA_LIST_SESSIONS; kind <= KRDMA_LIST_TRANSFERS; kind++)
		seen += kst_count(kind, NULL, NULL);
	tell(fd, 0, seen);
	tell(fd, open("/sys/kernel/debug/tracing", O_RDONLY) < 0 ? -errno : 0, 0);
	/* Behind them, so that ids of this file are not meant. */
	for (id = 0; id < 100; id++)
		if (kst_buffer(fd, mem, KST_PAGE, 0, &used))
			break;
	for (id = 1; id < used; id++)
		kst_destroy(fd, id);
	rc = kst_connect(fd, 0, &session);
	if (!rc)
		rc = kst_open_region(fd, session, "users", 0, &region, NULL);
	tell(fd, rc, 0);
	for (id = 1, used = 0; id <= 32; id++)
		if (id != session && id != region)
			used += uses_of(fd, region, id);
	tell(fd, 0, used);
	tell(fd, 0, kst_cancel(fd, 0, KRDMA_CANCEL_ALL));
	tell(fd, 0, kst_count(KRDMA_LIST_SESSIONS, NULL, NULL));
	tell(fd, 0, kst_count(KRDMA_LIST_EXPORTS, NULL, NULL));
	tell(fd, kst_export(fd, "users-ann", mem, KST_PAGE, BOTH, &id), 0);
	tell(fd, listen_here(fd), 0);
}

void test_ids(void)
{
	struct kst_state before = alone();
	struct job ann = start(ANN, LOCKED, own_things), bob;

	hear_good(&ann, -1, "a user has a session, a region, a buffer and an export");
	bob = start(BOB, LOCKED, other_things);
	hear_good(&bob, 0, "another user sees none of them, in no list");
	hear_bad(&bob, -EACCES, "", "nor debugfs");
	hear_good(&bob, 0, "has a session and a region of its own");
	hear_good(&bob, 0, "no id of the other's file can be used: ENOENT");
	hear_good(&bob, 0, "no operation of it is cancelled");
	hear_good(&bob, 1, "its own session is all that it sees");
	hear_good(&bob, 0, "and no export");
	hear_bad(&bob, -EEXIST, "'users-ann'",
		 "names are of the host: one that is taken is EEXIST");
	hear_bad(&bob, -EPERM, "CAP_NET_ADMIN", "it can't listen");
	kst_ok(peer_number("sessions", ANN) == 1 && peer_number("sessions", BOB) == 1,
	       "the peer has a session of each");
	go_on(&ann);
	hear_good(&ann, 1, "the first user's things are as they were");
	hear_good(&ann, 1, "and it sees its export");
	finish(&bob, "the one ends");
	finish(&ann, "and the other");
	kst_ok(kst_same(&before), "and nothing is left of either");
}
