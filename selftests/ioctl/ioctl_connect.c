// SPDX-License-Identifier: GPL-2.0
/* KRDMA_CONNECT_ASYNC: sessions that are not waited for while they connect. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kst_harness.h"

/* An address of the lab's network that nobody has: a connect takes all of its 10 s and more. */
#define NOBODY "10.77.0.98"
/* A port where nobody listens. */
#define REFUSED 7499

static int fd, event;

KST_FIXTURE(async, fd)
FIXTURE_SETUP(async)
{
	fd = kst_setup(true);
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_NOT(event < 0, "no eventfd");
	self->before = kst_now();
}

static int begin(const char *host, __u16 port, __u32 flags, __u32 *id)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_ASYNC | flags,
		.dst = kst_ipv4(host, port),
		.eventfd = event,
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	*id = rc ? 0 : cmd.id;
	return rc;
}

static int connected(__u32 id)
{
	struct krdma_ioc_connected cmd = { .size = sizeof(cmd), .session = id };

	return kst_call(fd, KRDMA_IOC_CONNECTED, &cmd);
}

static int ping(__u32 id)
{
	struct krdma_ioc_ping cmd = { .size = sizeof(cmd), .session = id };

	return kst_call(fd, KRDMA_IOC_PING, &cmd);
}

/* Return: the counter of the eventfd, which is 0 then; 0 if nothing comes in that time */
static __u64 told(int timeout_ms)
{
	struct pollfd set = { .fd = event, .events = POLLIN };
	__u64 count = 0;

	if (poll(&set, 1, timeout_ms) == 1 && read(event, &count, sizeof(count)) < 0)
		return 0;
	return count;
}

TEST_F(async, up)
{
	__u32 first, second, region;
	int rc;

	ASSERT_NOT(begin(KST_B, KST_PORT, KRDMA_CONNECT_PRIVATE, &first), "CONNECT: %s",
		   kst_last_error(fd, NULL));
	/* rxe may lose what belongs to a connect; nobody knows how long the rest takes. */
	EXPECT_IS(1, told(-1), "the eventfd is signalled once");
	EXPECT_IS(0, connected(first), "the session is up: %s", kst_last_error(fd, NULL));
	EXPECT_IS(0, ping(first), "and can be used");
	EXPECT_FAILS(fd, kst_open_region(fd, first, "nosuch", 0, &region, NULL), -ENOENT, "nosuch",
		     "as any other");
	EXPECT_IS(0, kst_destroy(fd, first), "it ends");

	ASSERT_NOT(kst_connect(fd, 0, &first), "CONNECT: %s", kst_last_error(fd, NULL));
	rc = begin(KST_B, KST_PORT, 0, &second);
	EXPECT_THAT(!rc && told(0) == 1 && !connected(second),
		    "a shared session that is up: the eventfd is signalled at once");
	EXPECT_THAT(!kst_destroy(fd, first) && !kst_destroy(fd, second), "both ids end");
	EXPECT_IS(0, told(0), "and the eventfd is not signalled");
}

TEST_F(async, undecided)
{
	struct krdma_session_info info;
	struct krdma_ioc_list list = {
		.size = sizeof(list),
		.kind = KRDMA_LIST_SESSIONS,
		.entries = (uintptr_t)&info,
		.stride = sizeof(info),
		.count = 1,
	};
	__u32 id, region;
	int rc;

	if (!getenv("LAB_OUT"))
		SKIP(return, "not the lab's network");
	ASSERT_NOT(begin(NOBODY, KST_PORT, KRDMA_CONNECT_PRIVATE, &id), "CONNECT: %s",
		   kst_last_error(fd, NULL));
	EXPECT_FAILS(fd, connected(id), -EAGAIN, NOBODY, "it is not decided yet");
	EXPECT_FAILS(fd, ping(id), -EAGAIN, "being connected", "and can't be used");
	EXPECT_FAILS(fd, kst_open_region(fd, id, "nosuch", 0, &region, NULL), -EAGAIN,
		     "being connected", "nor can an export be opened");
	list.session = id;
	EXPECT_THAT(!kst_call(fd, KRDMA_IOC_LIST, &list) && info.state == KRDMA_SESSION_CONNECTING,
		    "but seen: it is connecting");
	EXPECT_IS(0, kst_destroy(fd, id), "the id ends");

	ASSERT_NOT(begin(KST_B, REFUSED, KRDMA_CONNECT_PRIVATE, &id), "CONNECT: %s",
		   kst_last_error(fd, NULL));
	EXPECT_IS(1, told(-1), "without a listener the eventfd is signalled");
	rc = connected(id);
	EXPECT_THAT(rc < 0 && rc != -EAGAIN && kst_sentence(fd, rc, "can't connect"),
		    "and the result is that of a connect: %d, %s", rc, kst_last_error(fd, NULL));
	EXPECT_THAT(ping(id) < 0, "it can't be used");
	EXPECT_IS(0, kst_destroy(fd, id), "the id is there until it is destroyed");
}

TEST_F(async, ends)
{
	__u32 id[8];
	unsigned int i;

	if (!getenv("LAB_OUT"))
		SKIP(return, "not the lab's network");
	for (i = 0; i < 8; i++)
		ASSERT_NOT(begin(NOBODY, KST_PORT, KRDMA_CONNECT_PRIVATE, &id[i]), "CONNECT: %s",
			   kst_last_error(fd, NULL));
	for (i = 0; i < 8; i++)
		EXPECT_IS(0, kst_destroy(fd, id[i]), "an id ends while it connects");
	EXPECT_IS(0, told(0), "the eventfd is not signalled");
	/* The fixture closes the file. */
	for (i = 0; i < 8; i++)
		ASSERT_NOT(begin(i & 1 ? NOBODY : KST_B, KST_PORT, KRDMA_CONNECT_PRIVATE, &id[i]),
			   "CONNECT: %s", kst_last_error(fd, NULL));
	close(fd);
	fd = kst_open();
	close(event);
}

TEST_F(async, limit)
{
	__u32 id[65];
	unsigned int i;

	if (!getenv("LAB_OUT"))
		SKIP(return, "not the lab's network");
	/* One session, with an id for each. */
	for (i = 0; i < 64; i++)
		ASSERT_NOT(begin(NOBODY, KST_PORT, 0, &id[i]), "CONNECT: %s",
			   kst_last_error(fd, NULL));
	EXPECT_FAILS(fd, begin(NOBODY, KST_PORT, 0, &id[64]), -EDQUOT, "64 connects",
		     "one more than a file may have");
	EXPECT_IS(0, kst_destroy(fd, id[0]), "one is called off");
	EXPECT_IS(0, begin(NOBODY, KST_PORT, 0, &id[0]), "then there is room for it");
	for (i = 0; i < 64; i++)
		ASSERT_NOT(kst_destroy(fd, id[i]), "DESTROY: %s", kst_last_error(fd, NULL));
	EXPECT_IS(0, begin(KST_B, REFUSED, KRDMA_CONNECT_PRIVATE, &id[0]), "and all of it again");
	EXPECT_THAT(told(-1) == 1 && !kst_destroy(fd, id[0]),
		    "what has been told of does not count any more");
}

TEST_F(async, refused)
{
	struct krdma_ioc_connect good = {
		.size = sizeof(good),
		.flags = KRDMA_CONNECT_ASYNC,
		.dst = kst_ipv4(KST_B, KST_PORT),
		.eventfd = event,
	};
	struct krdma_ioc_connect cmd = good;

	cmd.eventfd = fd;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_CONNECT, &cmd), -EINVAL, "not an eventfd",
		     "another file than an eventfd");
	cmd.eventfd = 12345;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_CONNECT, &cmd), -EBADF, "12345", "no file");
	cmd = good;
	cmd.timeout_ms = 1;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_CONNECT, &cmd), -EINVAL, "no timeout",
		     "a timeout of what is not waited for");
	cmd = good;
	cmd.flags = 0;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_CONNECT, &cmd), -EINVAL, NULL,
		     "an eventfd of what is waited for");
	cmd = good;
	cmd.dst.ss_family = AF_UNSPEC;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_CONNECT, &cmd), -EINVAL, "address", "no address");
	EXPECT_FAILS(fd, connected(4711), -ENOENT, "4711", "no session");
}

KST_HARNESS_MAIN(2)
