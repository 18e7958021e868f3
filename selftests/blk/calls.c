// SPDX-License-Identifier: GPL-2.0
/*
 * What /dev/krdma_blk refuses (uapi/linux/krdma_blk.h), for disk.sh: each wrong size, flag, value and
 * pointer, and callers without CAP_SYS_ADMIN. There are no disks, and no peer is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kst_harness.h"
#include <linux/krdma_blk.h>

#define BAD_POINTER ((void *)8)

static int fd;
static const unsigned long calls[] = { KRDMA_BLK_ATTACH, KRDMA_BLK_DETACH, KRDMA_BLK_LIST,
				       KRDMA_BLK_RESIZE };

/* Nobody listens there. */
static const struct krdma_blk_attach nowhere = {
	.size = sizeof(nowhere),
	.dst = { .family = AF_INET, .port = 1, .addr = { 127, 0, 0, 1 } },
	.name = "nothing",
};

static int call(unsigned long nr, void *arg)
{
	return ioctl(fd, nr, arg) ? -errno : 0;
}

FIXTURE(calls){};

FIXTURE_SETUP(calls)
{
	fd = open("/dev/krdma_blk", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
}

FIXTURE_TEARDOWN(calls)
{
	struct krdma_blk_info info;
	struct krdma_blk_list list = {
		.size = sizeof(list),
		.count = 1,
		.infos = (uintptr_t)&info,
		.stride = sizeof(info),
	};

	EXPECT_EQ(0, call(KRDMA_BLK_LIST, &list));
	EXPECT_IS(0U, list.count, "no disk was made");
	close(fd);
}

TEST_F(calls, sizes)
{
	/* The longest struct, something unknown behind it, and the rest of a page. */
	unsigned char arg[8192] = { 0 };
	const struct krdma_blk_attach attach = nowhere;
	const struct krdma_blk_list list = { .count = 1, .infos = (uintptr_t)arg, .stride = 8 };
	__u32 *size = (__u32 *)arg;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(calls); i++) {
		for (*size = 0; *size < 8; ++*size)
			EXPECT_EQ(-EINVAL, call(calls[i], arg));
		*size = KST_PAGE + 1;
		EXPECT_EQ(-E2BIG, call(calls[i], arg));
		*size = KST_PAGE;
		arg[KST_PAGE - 1] = 1;
		EXPECT_EQ(-E2BIG, call(calls[i], arg));
		arg[KST_PAGE - 1] = 0;
		EXPECT_EQ(-EFAULT, call(calls[i], NULL));
		EXPECT_EQ(-EFAULT, call(calls[i], BAD_POINTER));
	}
	*size = offsetof(struct krdma_blk_detach, disk);
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_DETACH, arg));
	/* With all that they need. */
	memcpy(arg, &attach, sizeof(attach));
	*size = offsetof(struct krdma_blk_attach, disk);
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_ATTACH, arg));
	memcpy(arg, &list, sizeof(list));
	*size = sizeof(list) - 4;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_LIST, arg));
	EXPECT_EQ(-ENOTTY, call(_IO(KRDMA_IOC_TYPE, 0x84), arg));
}

TEST_F(calls, attach)
{
	const struct krdma_blk_attach good = nowhere;
	struct krdma_blk_attach a, *page;

#define REFUSED(_want, _member, _value)                                         \
	do {                                                                    \
		a = good;                                                       \
		a._member = _value;                                             \
		EXPECT_IS(_want, call(KRDMA_BLK_ATTACH, &a), #_member " of %u", \
			  (unsigned int)(_value));                              \
	} while (0)
	REFUSED(-EOPNOTSUPP, flags, 1U << 5);
	REFUSED(-EOPNOTSUPP, flags, 1U << 31);
	REFUSED(-EINVAL, flags, KRDMA_BLK_TAKEOVER | KRDMA_BLK_SHARED);
	REFUSED(-EINVAL, flags, KRDMA_BLK_TAKEOVER | KRDMA_BLK_READ_ONLY);
	REFUSED(-EINVAL, block_size, 256);
	REFUSED(-EINVAL, block_size, 1000);
	REFUSED(-EINVAL, block_size, 2 * KST_PAGE);
	REFUSED(-EINVAL, queues, KRDMA_BLK_QUEUES_MAX + 1);
	REFUSED(-EINVAL, poll_queues, KRDMA_BLK_QUEUES_MAX + 1);
	REFUSED(-EINVAL, depth, KRDMA_BLK_DEPTH_MAX + 1);
	REFUSED(-EINVAL, timeout_s, KRDMA_BLK_TIMEOUT_MAX + 1);
	REFUSED(-EINVAL, npaths, KRDMA_PATHS_MAX);
	REFUSED(-EINVAL, dst.family, 1);
	/* Behind the paths that there are. */
	REFUSED(-EINVAL, paths[0].dst.family, 2);
#undef REFUSED
	a = good;
	memset(a.name, 'n', sizeof(a.name));
	EXPECT_IS(-EINVAL, call(KRDMA_BLK_ATTACH, &a), "a name without an end");
	/* The number of the disk can't be written. */
	page = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	*page = good;
	ASSERT_EQ(0, mprotect(page, KST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, call(KRDMA_BLK_ATTACH, page));
}

TEST_F(calls, detach)
{
	struct krdma_blk_detach d = { .size = sizeof(d), .disk = 99 };

	EXPECT_EQ(-ENOENT, call(KRDMA_BLK_DETACH, &d));
	d.flags = KRDMA_BLK_FORCE;
	EXPECT_EQ(-ENOENT, call(KRDMA_BLK_DETACH, &d));
	d.reserved = 1;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_DETACH, &d));
	d = (struct krdma_blk_detach){ .size = sizeof(d), .flags = KRDMA_BLK_FORCE << 1 };
	EXPECT_EQ(-EOPNOTSUPP, call(KRDMA_BLK_DETACH, &d));
}

TEST_F(calls, resize)
{
	struct krdma_blk_resize r = { .size = sizeof(r), .disk = 99 };

	EXPECT_EQ(-ENOENT, call(KRDMA_BLK_RESIZE, &r));
	r.reserved = 1;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_RESIZE, &r));
	r = (struct krdma_blk_resize){ .size = sizeof(r) - 8 };
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_RESIZE, &r));
	r = (struct krdma_blk_resize){ .size = sizeof(r), .flags = 1 };
	EXPECT_EQ(-EOPNOTSUPP, call(KRDMA_BLK_RESIZE, &r));
}

TEST_F(calls, list)
{
	struct krdma_blk_info info;
	const struct krdma_blk_list good = {
		.size = sizeof(good),
		.count = 1,
		.infos = (uintptr_t)&info,
		.stride = sizeof(info),
	};
	struct krdma_blk_list l = good;

	l.flags = 1;
	EXPECT_EQ(-EOPNOTSUPP, call(KRDMA_BLK_LIST, &l));
	l = good;
	l.count = 0;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_LIST, &l));
	l = good;
	l.stride = 7;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_LIST, &l));
	l.stride = KST_PAGE + 1;
	EXPECT_EQ(-EINVAL, call(KRDMA_BLK_LIST, &l));
}

TEST_F(calls, permission)
{
	unsigned char arg[KST_PAGE] = { 0 };
	size_t i;

	ASSERT_EQ(0, seteuid(65534));
	for (i = 0; i < KST_ARRAY_SIZE(calls); i++) {
		*(__u32 *)arg = 64;
		EXPECT_EQ(-EPERM, call(calls[i], arg));
	}
	EXPECT_EQ(-1, open("/dev/krdma_blk", O_RDWR | O_CLOEXEC));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, seteuid(0));
}

KST_HARNESS_MAIN(1)
