// SPDX-License-Identifier: GPL-2.0
/*
 * Every sort of memory, and what is no memory, as a buffer, as an export, and
 * as the local side of an operation: it works or gets its errno, and after
 * each nothing stays pinned and nothing stays charged.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/if_packet.h>
#include <linux/loop.h>
#include <unistd.h>

#include "kst_harness.h"

#define RW           (PROT_READ | PROT_WRITE)
#define HUGE         (2UL << 20)
#define REGION_BYTES (8UL << 20)

static int fd;
static bool have_peer;
static __u32 session, region;

KST_FIXTURE(memory, fd)
FIXTURE_SETUP(memory)
{
	fd = kst_setup(true);
	have_peer = kst_have_peer();
	if (!have_peer)
		kst_diag("one node: operations are not tried");
	else
		ASSERT_NOT(kst_setup_region(fd, "memory-peer", REGION_BYTES, &session, &region,
					    NULL),
			   "no region of node B: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

/* ---- the six ways to use memory ---- */

enum way {
	BUFFER_READ, /* a buffer that is only read */
	BUFFER_WRITE,
	EXPORT_READ,
	EXPORT_WRITE,
	OP_WRITE, /* an operation that reads the memory */
	OP_READ,  /* one that writes it */
	WAYS
};

static const char *const way_names[WAYS] = {
	"as a buffer",          "as a writable buffer",     "as a read-only export",
	"as a writable export", "as the source of a WRITE", "as the sink of a READ",
};

/* Does it and undoes it. */
static int use(enum way way, __u64 addr, __u64 length)
{
	struct krdma_ioc_buffer b = {
		.size = sizeof(b),
		.flags = way == BUFFER_WRITE ? KRDMA_BUFFER_WRITABLE : 0,
		.addr = addr,
		.length = length,
	};
	struct krdma_ioc_export e = {
		.size = sizeof(e),
		.rights = way == EXPORT_WRITE ? KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE :
						KRDMA_RIGHT_READ,
		.addr = addr,
		.length = length,
		.name = "memory-test",
	};
	struct krdma_completion comp = { .status = -ENODATA };
	struct krdma_op op;
	int rc;

	switch (way) {
	case BUFFER_READ:
	case BUFFER_WRITE:
		rc = kst_call(fd, KRDMA_IOC_BUFFER, &b);
		return rc ? rc : kst_destroy(fd, b.id);
	case EXPORT_READ:
	case EXPORT_WRITE:
		rc = kst_call(fd, KRDMA_IOC_EXPORT, &e);
		return rc ? rc : kst_destroy(fd, e.id);
	default:
		op = kst_op(way == OP_READ ? KRDMA_OP_READ : KRDMA_OP_WRITE, region, 0,
			    (void *)(uintptr_t)addr, length);
		/* As long as the memory can be had. */
		op.timeout_ns = 0;
		rc = kst_submit(fd, &op, &comp, 1, NULL);
		rc = rc ? rc : comp.status;
		if (!rc != (comp.result == length && length && !comp.status))
			kst_diag("%s: %s, but %llu bytes moved", way_names[way], strerror(-rc),
				 (unsigned long long)comp.result);
		return rc;
	}
}

#define ANY 1 /* what happens is not laid down, but nothing may be left */

static bool try_way(const char *what, enum way way, __u64 addr, __u64 length, int want)
{
	int rc = use(way, addr, length);

	if (rc && !kst_documented(rc)) {
		kst_diag("%s %s: %s is not in the header", what, way_names[way], strerror(-rc));
		return false;
	}
	if (want != ANY && rc != want) {
		kst_diag("%s %s: %s, expected %s: %s", what, way_names[way], strerror(-rc),
			 strerror(-want), rc ? kst_last_error(fd, NULL) : "");
		return false;
	}
	if (rc && !kst_sentence(fd, rc, NULL)) {
		kst_diag("%s %s: that is no sentence", what, way_names[way]);
		return false;
	}
	return true;
}

/* What is expected of each way; ops last, they need node B. */
struct want {
	int rc[WAYS];
};

static void try_all(struct __test_metadata *_metadata, const char *what, const void *mem,
		    __u64 length, struct want want)
{
	struct kst_state before = kst_now();
	bool good = true, same = true;
	enum way way;

	for (way = 0; way < (have_peer ? WAYS : OP_WRITE); way++) {
		good &= try_way(what, way, (uintptr_t)mem, length, want.rc[way]);
		if (same && !kst_same(&before)) {
			kst_diag("%s %s has left something", what, way_names[way]);
			same = false;
		}
	}
	EXPECT_THAT(good && same, "%s", what);
}

#define ALL(_rc)                                     \
	(struct want)                                \
	{                                            \
		{                                    \
			_rc, _rc, _rc, _rc, _rc, _rc \
		}                                    \
	}
/* May be read but not be written. */
#define READ_ONLY                                          \
	(struct want)                                      \
	{                                                  \
		{                                          \
			0, -EFAULT, 0, -EFAULT, 0, -EFAULT \
		}                                          \
	}
/* The same of private memory: a long-term pin would be of another page one day. */
#define PRIVATE_READ_ONLY                                                      \
	(struct want)                                                          \
	{                                                                      \
		{                                                              \
			-EOPNOTSUPP, -EFAULT, -EOPNOTSUPP, -EFAULT, 0, -EFAULT \
		}                                                              \
	}
/* Files whose file system must know who writes. */
#define TRACKED                                              \
	(struct want)                                        \
	{                                                    \
		{                                            \
			0, -EOPNOTSUPP, 0, -EOPNOTSUPP, 0, 0 \
		}                                            \
	}

static char *map_fd(int file, size_t length, int prot, int flags)
{
	char *mem = mmap(NULL, length, prot, flags, file, 0);

	if (mem == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
	return mem;
}

/* ---- memory without a file ---- */

TEST_F(memory, anonymous)
{
	char *mem = kst_map(16 * KST_PAGE, RW, MAP_PRIVATE);

	try_all(_metadata, "anonymous memory", mem, 16 * KST_PAGE, ALL(0));
	try_all(_metadata, "1 byte of it", mem, 1, ALL(0));
	try_all(_metadata, "a page and a byte of it", mem, KST_PAGE + 1, ALL(0));
	/* Only an export begins at a page. */
	try_all(_metadata, "1 byte at the end of a page", mem + KST_PAGE - 1, 1,
		(struct want){ { 0, 0, -EINVAL, -EINVAL, 0, 0 } });
	try_all(_metadata, "a page's length that is not on a page", mem + 1, KST_PAGE,
		(struct want){ { 0, 0, -EINVAL, -EINVAL, 0, 0 } });
	try_all(_metadata, "no bytes", mem, 0, ALL(-EINVAL));

	mprotect(mem + 8 * KST_PAGE, KST_PAGE, PROT_READ);
	try_all(_metadata, "memory with a read-only page in it", mem, 16 * KST_PAGE,
		PRIVATE_READ_ONLY);
	mprotect(mem + 8 * KST_PAGE, KST_PAGE, PROT_NONE);
	try_all(_metadata, "memory with a page without access in it", mem, 16 * KST_PAGE,
		ALL(-EFAULT));
	munmap(mem + 8 * KST_PAGE, KST_PAGE);
	try_all(_metadata, "memory with a hole in it", mem, 16 * KST_PAGE, ALL(-EFAULT));
	try_all(_metadata, "memory before the hole", mem, 8 * KST_PAGE, ALL(0));
	munmap(mem + 15 * KST_PAGE, KST_PAGE);
	try_all(_metadata, "memory whose last byte is not mapped", mem + 9 * KST_PAGE,
		6 * KST_PAGE + 1, ALL(-EFAULT));
	munmap(mem, 15 * KST_PAGE);
	try_all(_metadata, "memory that was unmapped", mem, 16 * KST_PAGE, ALL(-EFAULT));

	mem = kst_map(4 * KST_PAGE, PROT_READ, MAP_PRIVATE);
	try_all(_metadata, "private read-only memory", mem, 4 * KST_PAGE, PRIVATE_READ_ONLY);
	munmap(mem, 4 * KST_PAGE);
	mem = kst_map(4 * KST_PAGE, PROT_NONE, MAP_PRIVATE);
	try_all(_metadata, "memory without access", mem, 4 * KST_PAGE, ALL(-EFAULT));
	munmap(mem, 4 * KST_PAGE);
	/* Processors can't forbid reading alone; a long-term pin has to be readable. */
	mem = kst_map(4 * KST_PAGE, PROT_WRITE, MAP_PRIVATE);
	try_all(_metadata, "write-only memory", mem, 4 * KST_PAGE,
		(struct want){ { -EFAULT, -EFAULT, -EFAULT, -EFAULT, ANY, 0 } });
	munmap(mem, 4 * KST_PAGE);

	mem = kst_map(4 * KST_PAGE, RW, MAP_SHARED);
	try_all(_metadata, "shared memory", mem, 4 * KST_PAGE, ALL(0));
	mprotect(mem, 4 * KST_PAGE, PROT_READ);
	try_all(_metadata, "read-only shared memory", mem, 4 * KST_PAGE, READ_ONLY);
	/* Neighbours: one would have to be taken as a writer, the other may not. */
	ASSERT_NOT(mmap(mem, KST_PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
			   MAP_FAILED,
		   "mmap: %s", strerror(errno));
	try_all(_metadata, "private and read-only shared memory", mem, 4 * KST_PAGE,
		(struct want){ { -EOPNOTSUPP, -EFAULT, -EOPNOTSUPP, -EFAULT, 0, -EFAULT } });
	munmap(mem, 4 * KST_PAGE);
}

TEST_F(memory, addresses)
{
	static char room[4 * KST_PAGE] __attribute__((aligned(4096)));
	char stack[4 * KST_PAGE] __attribute__((aligned(4096)));
	struct krdma_ioc_query q = { .size = sizeof(q) };
	int too_much;

	memset(stack, 1, sizeof(stack));
	try_all(_metadata, "the stack", stack, sizeof(stack), ALL(0));
	try_all(_metadata, "a variable", room, sizeof(room), ALL(0));
	try_all(_metadata, "the program itself", (void *)((uintptr_t)memory_addresses & -KST_PAGE),
		100, PRIVATE_READ_ONLY);
	try_all(_metadata, "NULL", NULL, KST_PAGE, ALL(-EFAULT));
	try_all(_metadata, "the kernel's memory", (void *)0xffff888000000000UL, KST_PAGE,
		ALL(-EFAULT));
	try_all(_metadata, "the last page below the kernel", (void *)0x7ffffffff000UL, KST_PAGE,
		ALL(-EFAULT));
	try_all(_metadata, "an address that can't be", (void *)(1UL << 62), KST_PAGE, ALL(-EFAULT));
	/* An export's range is malformed then; both errnos say the same. */
	try_all(_metadata, "a range that wraps around", (void *)-KST_PAGE, 2 * KST_PAGE,
		(struct want){ { -EFAULT, -EFAULT, -EINVAL, -EINVAL, -EFAULT, -EFAULT } });
	try_all(_metadata, "one that wraps to its begin", room, -1ULL,
		(struct want){ { -EFAULT, -EFAULT, -EINVAL, -EINVAL, -ERANGE, -ERANGE } });
	try_all(_metadata, "2^63 bytes", room, 1ULL << 63,
		(struct want){ { -EFAULT, -EFAULT, -EFAULT, -EFAULT, -ERANGE, -ERANGE } });

	/* What is refused first: more than there is, than a file may, than is mapped. */
	kst_call(fd, KRDMA_IOC_QUERY, &q);
	too_much = q.pinned_limit < 1ULL << 31 ? -ENOMEM :
		   q.pinned_limit < 1ULL << 32 ? -EDQUOT :
						 -EFAULT;
	try_all(_metadata, "2^32 - 1 bytes", room, (1ULL << 32) - 1,
		(struct want){ { too_much, too_much, too_much, too_much, -ERANGE, -ERANGE } });
}

TEST_F(memory, vdso)
{
	unsigned long vdso = getauxval(AT_SYSINFO_EHDR);
	unsigned char resident;

	/* User-mode Linux has the one of its host, above all memory of its own. */
	if (!vdso || mincore((void *)vdso, KST_PAGE, &resident))
		SKIP(return, "the kernel has no vdso");
	try_all(_metadata, "the vdso", (void *)vdso, KST_PAGE, PRIVATE_READ_ONLY);
	try_all(_metadata, "the vvar page", (void *)(vdso - KST_PAGE), KST_PAGE, ALL(-EFAULT));
}

static bool write_number(const char *path, unsigned long value)
{
	FILE *file = fopen(path, "w");
	bool good = file && fprintf(file, "%lu\n", value) > 0;

	return file && !fclose(file) && good;
}

TEST_F(memory, hugetlb)
{
	const char *const pool = "/proc/sys/vm/nr_hugepages";
	long was = kst_line(pool, "");
	char *mem = MAP_FAILED;
	int huge;

	if (was >= 0 && write_number(pool, was + 4))
		mem = mmap(NULL, 2 * HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (mem == MAP_FAILED) {
		write_number(pool, was);
		SKIP(return, "no huge pages can be reserved");
	}
	try_all(_metadata, "hugetlb memory", mem, 2 * HUGE, ALL(0));
	try_all(_metadata, "a page in the middle of it", mem + HUGE - KST_PAGE, 2 * KST_PAGE,
		ALL(0));
	mprotect(mem, 2 * HUGE, PROT_READ);
	try_all(_metadata, "private read-only hugetlb memory", mem, KST_PAGE, PRIVATE_READ_ONLY);
	munmap(mem, 2 * HUGE);
	huge = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING);
	ASSERT_NOT(huge < 0 || ftruncate(huge, 2 * HUGE), "hugetlb memfd: %s", strerror(errno));
	mem = map_fd(huge, 2 * HUGE, RW, MAP_SHARED);
	try_all(_metadata, "a hugetlb file", mem, 5 * KST_PAGE, ALL(0));
	munmap(mem, 2 * HUGE);
	mem = map_fd(huge, 2 * HUGE, PROT_READ, MAP_SHARED);
	try_all(_metadata, "a read-only hugetlb file", mem, 5 * KST_PAGE, READ_ONLY);
	munmap(mem, 2 * HUGE);
	close(huge);
	write_number(pool, was);
}

TEST_F(memory, transparent)
{
	char *mem;

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		SKIP(return, "this kernel has no transparent huge pages");
	mem = kst_map(3 * HUGE, RW, MAP_PRIVATE);
	mem = (char *)(((uintptr_t)mem + HUGE - 1) & -HUGE);
	madvise(mem, 2 * HUGE, MADV_HUGEPAGE);
	memset(mem, 1, 2 * HUGE);
	try_all(_metadata, "transparent huge pages", mem + KST_PAGE, HUGE, ALL(0));
	mprotect(mem + HUGE / 2, KST_PAGE, PROT_READ);
	try_all(_metadata, "transparent huge pages, one part read-only", mem + HUGE / 2 - KST_PAGE,
		3 * KST_PAGE, PRIVATE_READ_ONLY);
	munmap(mem, 2 * HUGE);
}

/* ---- files ---- */

static void try_mappings(struct __test_metadata *_metadata, const char *fs, int file,
			 const char *path, struct want shared)
{
	int reader = open(path, O_RDONLY | O_CLOEXEC);
	char *mem = map_fd(file, 8 * KST_PAGE, RW, MAP_SHARED), what[96];

#define TRY(_sort, _want)                                           \
	do {                                                        \
		snprintf(what, sizeof(what), "%s, " _sort, fs);     \
		try_all(_metadata, what, mem, 4 * KST_PAGE, _want); \
		munmap(mem, 8 * KST_PAGE);                          \
	} while (0)
	TRY("shared", shared);
	mem = map_fd(file, 8 * KST_PAGE, PROT_READ, MAP_SHARED);
	TRY("shared read-only", READ_ONLY);
	mem = map_fd(reader, 8 * KST_PAGE, PROT_READ, MAP_SHARED);
	TRY("shared, open for reading only", READ_ONLY);
	mem = map_fd(file, 8 * KST_PAGE, RW, MAP_PRIVATE);
	TRY("private", ALL(0));
	mem = map_fd(reader, 8 * KST_PAGE, PROT_READ, MAP_PRIVATE);
	TRY("private read-only", PRIVATE_READ_ONLY);
	/* The file ends after 4 pages. */
	mem = map_fd(file, 8 * KST_PAGE, PROT_READ, MAP_SHARED);
	mem += KST_PAGE;
	snprintf(what, sizeof(what), "%s, beyond its end", fs);
	try_all(_metadata, what, mem, 4 * KST_PAGE, ALL(-EFAULT));
	munmap(mem - KST_PAGE, 8 * KST_PAGE);
	close(reader);
}

TEST_F(memory, tmpfs)
{
	const char *const path = "/dev/shm/krdma-memory-test";
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_NOT(file < 0 || ftruncate(file, 4 * KST_PAGE), "%s: %s", path, strerror(errno));
	try_mappings(_metadata, "a file on tmpfs", file, path, ALL(0));
	close(file);
	unlink(path);
}

/* ext4 on a loop device on a file on tmpfs. Returns why not. */
static const char *mount_ext4(const char *image, const char *dir, char *loop, size_t room)
{
	int control, file, dev, nr;
	char command[256];

	snprintf(command, sizeof(command), "modprobe -q -a loop ext4; mkfs.ext4 -q -F %s 2>&1",
		 image);
	file = open(image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, 8 << 20) || system(command))
		return "mkfs.ext4 failed";
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	nr = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	if (nr < 0)
		return "there is no loop device";
	close(control);
	snprintf(loop, room, "/dev/loop%d", nr);
	dev = open(loop, O_RDWR | O_CLOEXEC);
	if (dev < 0 || ioctl(dev, LOOP_SET_FD, file))
		return "the loop device can't be set up";
	close(file);
	close(dev);
	mkdir(dir, 0700);
	return mount(loop, dir, "ext4", 0, NULL) ? "ext4 can't be mounted" : NULL;
}

TEST_F(memory, ext4)
{
	char loop[32] = "", zero[KST_PAGE] = { 0 };
	const char *const image = "/dev/shm/krdma-ext4", *const dir = "/mnt/krdma-ext4";
	const char *why = mount_ext4(image, dir, loop, sizeof(loop));
	int file, dev, i;

	if (!why) {
		file = open("/mnt/krdma-ext4/file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		for (i = 0; i < 4; i++)
			EXPECT_EQ((ssize_t)sizeof(zero), write(file, zero, sizeof(zero)));
		try_mappings(_metadata, "a file on ext4", file, "/mnt/krdma-ext4/file", TRACKED);
		close(file);
		EXPECT_EQ(0, umount(dir));
	}
	dev = loop[0] ? open(loop, O_RDWR | O_CLOEXEC) : -1;
	if (dev >= 0) {
		ioctl(dev, LOOP_CLR_FD, 0);
		close(dev);
	}
	rmdir(dir);
	unlink(image);
	if (why)
		SKIP(return, "%s", why);
}

/* ---- devices ---- */

TEST_F(memory, packet_ring)
{
	struct tpacket_req req = {
		.tp_block_size = KST_PAGE,
		.tp_block_nr = 4,
		.tp_frame_size = 2048,
		.tp_frame_nr = 8,
	};
	int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	char *mem;

	if (sock < 0 || setsockopt(sock, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		SKIP(return, "no packet socket");
	/* Pages of the kernel, but pages: they may be pinned. */
	mem = map_fd(sock, 4 * KST_PAGE, RW, MAP_SHARED);
	try_all(_metadata, "the ring of a packet socket", mem, 4 * KST_PAGE, ALL(0));
	munmap(mem, 4 * KST_PAGE);
	close(sock);
}

TEST_F(memory, device)
{
	char path[80];
	int slot, bar, file;
	struct stat st;
	char *mem;

	for (slot = 0; slot < 32; slot++) {
		for (bar = 0; bar < 6; bar++) {
			snprintf(path, sizeof(path),
				 "/sys/bus/pci/devices/0000:00:%02x.0/resource%d", slot, bar);
			file = open(path, O_RDWR | O_CLOEXEC);
			if (file < 0)
				continue;
			mem = MAP_FAILED;
			if (!fstat(file, &st) && (size_t)st.st_size >= KST_PAGE)
				mem = mmap(NULL, KST_PAGE, RW, MAP_SHARED, file, 0);
			close(file);
			if (mem == MAP_FAILED)
				continue;
			try_all(_metadata, "a device's registers", mem, KST_PAGE, ALL(-EFAULT));
			munmap(mem, KST_PAGE);
			return;
		}
	}
	SKIP(return, "no PCI device has registers that can be mapped");
}

TEST_F(memory, secret)
{
	int file = syscall(SYS_memfd_secret, 0);
	char *mem;

	if (file < 0 || ftruncate(file, 4 * KST_PAGE))
		SKIP(return, "the kernel is not booted with secretmem.enable=1");
	mem = map_fd(file, 4 * KST_PAGE, RW, MAP_SHARED);
	memset(mem, 1, 4 * KST_PAGE);
	try_all(_metadata, "secret memory", mem, 4 * KST_PAGE, ALL(-EFAULT));
	munmap(mem, 4 * KST_PAGE);
	close(file);
}

KST_HARNESS_MAIN(1)
