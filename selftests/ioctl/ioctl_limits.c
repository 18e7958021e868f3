// SPDX-License-Identifier: GPL-2.0
/*
 * What limits pinned memory: RLIMIT_MEMLOCK and the limit of a file. And files,
 * which are pinned by and by: which may be exported, and how.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

#define RW       (PROT_READ | PROT_WRITE)
#define BOTH     (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
#define FD_BYTES (64 * KST_PAGE)

static int fd;

KST_FIXTURE(limits, fd)
FIXTURE_SETUP(limits)
{
	fd = kst_setup(false);
	self->before = kst_now();
}

static int export_file(const char *name, int file, __u32 rights, __u64 offset, __u64 length,
		       __u32 *id)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = rights,
		.fd = file,
		.addr = offset,
		.length = length,
	};

	int rc;

	strcpy(cmd.name, name);
	rc = kst_call(fd, KRDMA_IOC_EXPORT, &cmd);
	*id = cmd.id;
	return rc;
}

/* Exports and takes it back. */
static int export_fd(const char *name, int file, __u32 rights, __u64 offset, __u64 length)
{
	__u32 id;

	return export_file(name, file, rights, offset, length, &id) ?: kst_destroy(fd, id);
}

/* ---- memfds ---- */

static int sealed(int seals)
{
	int file = memfd_create("limits", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, FD_BYTES) || (seals && fcntl(file, F_ADD_SEALS, seals)))
		kst_bail("memfd: %s", strerror(errno));
	return file;
}

static void try_seals(struct __test_metadata *_metadata, int seals, __u32 rights, int want,
		      const char *word, const char *what)
{
	int file = sealed(seals), rc = export_fd("limits-fd", file, rights, 0, FD_BYTES);

	EXPECT_FAILS(fd, rc, want, word, "%s", what);
	close(file);
}

static int reopened(int file, int flags)
{
	char path[40];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	other = open(path, flags | O_CLOEXEC);
	if (other < 0)
		kst_bail("%s: %s", path, strerror(errno));
	return other;
}

TEST_F(limits, seals)
{
	int file = sealed(F_SEAL_SHRINK), other;

	try_seals(_metadata, F_SEAL_SHRINK, BOTH, 0, NULL,
		  "a memfd sealed against shrinking is exported");
	try_seals(_metadata, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, BOTH, 0, NULL,
		  "other seals don't matter");
	try_seals(_metadata, 0, BOTH, -EINVAL, "F_SEAL_SHRINK", "without that seal it is EINVAL");
	try_seals(_metadata, F_SEAL_GROW, KRDMA_RIGHT_READ, -EINVAL, "F_SEAL_SHRINK",
		  "read-only, too");
	try_seals(_metadata, F_SEAL_SHRINK | F_SEAL_WRITE, BOTH, -EACCES, "seal",
		  "one sealed against writing is EACCES for writing");
	try_seals(_metadata, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, KRDMA_RIGHT_WRITE, -EACCES,
		  "seal", "one sealed against future writing, too");
	try_seals(_metadata, F_SEAL_SHRINK | F_SEAL_WRITE, KRDMA_RIGHT_READ, 0, NULL,
		  "for reading it is fine");

	other = reopened(file, O_RDONLY);
	EXPECT_FAILS(fd, export_fd("limits-fd", other, BOTH, 0, FD_BYTES), -EACCES, "writing",
		     "one open for reading is EACCES for writing");
	EXPECT_IS(0, export_fd("limits-fd", other, KRDMA_RIGHT_READ, 0, FD_BYTES),
		  "not for reading");
	close(other);
	other = reopened(file, O_WRONLY);
	EXPECT_FAILS(fd, export_fd("limits-fd", other, KRDMA_RIGHT_READ, 0, FD_BYTES), -EACCES,
		     "reading", "one open for writing is EACCES for reading");
	close(other);
	close(file);
}

TEST_F(limits, ranges)
{
	static const struct {
		__u64 offset, length;
		int want;
		const char *what;
	} ranges[] = {
		{ 0, 1, 0, "its first byte" },
		{ KST_PAGE, FD_BYTES - KST_PAGE, 0, "all but its first page" },
		{ FD_BYTES - KST_PAGE, KST_PAGE - 1, 0, "most of its last page" },
		{ 0, 0, -EINVAL, "nothing of it" },
		{ 1, 1, -EINVAL, "an offset that is not a page's" },
		{ FD_BYTES, 1, -ERANGE, "what is behind its end" },
		{ 0, FD_BYTES + 1, -ERANGE, "more than there is" },
		{ KST_PAGE, FD_BYTES, -ERANGE, "a range that goes over its end" },
		{ 0, 1ULL << 63, -ERANGE, "2^63 bytes" },
		{ 1ULL << 63, 1, -ERANGE, "an offset of 2^63" },
		{ -KST_PAGE, 2 * KST_PAGE, -EINVAL, "a range that wraps around" },
	};
	int file = sealed(F_SEAL_SHRINK);
	size_t i;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(ranges); i++) {
		rc = export_fd("limits-fd", file, BOTH, ranges[i].offset, ranges[i].length);
		EXPECT_FAILS(fd, rc, ranges[i].want, NULL, "of a memfd, %s", ranges[i].what);
	}
	close(file);
}

static int grow(__u32 id, __u64 length)
{
	struct krdma_ioc_export_grow cmd = { .size = sizeof(cmd), .id = id, .length = length };

	return kst_call(fd, KRDMA_IOC_EXPORT_GROW, &cmd);
}

TEST_F(limits, grow)
{
	static char memory[KST_PAGE] __attribute__((aligned(4096)));
	int file = sealed(F_SEAL_SHRINK);
	__u32 id, plain;

	ASSERT_NOT(export_file("limits-grow", file, BOTH, KST_PAGE, KST_PAGE, &id) ||
			   kst_export(fd, "limits-plain", memory, KST_PAGE, BOTH, &plain),
		   "export: %s", kst_last_error(fd, NULL));
	EXPECT_IS(0, grow(id, KST_PAGE), "an export gets the length that it has");
	EXPECT_FAILS(fd, grow(id, KST_PAGE - 1), -EINVAL, "shrink", "not less");
	EXPECT_FAILS(fd, grow(id, 0), -EINVAL, "shrink", "nor nothing");
	EXPECT_IS(0, grow(id, FD_BYTES - KST_PAGE), "more: all that the memfd has");
	EXPECT_FAILS(fd, grow(id, FD_BYTES - KST_PAGE + 1), -ERANGE, "memfd", "more than that");
	EXPECT_FAILS(fd, grow(id, ~0ULL), -ERANGE, "memfd", "2^64 - 1 bytes");
	ASSERT_NOT(ftruncate(file, FD_BYTES + 1), "ftruncate: %s", strerror(errno));
	EXPECT_IS(0, grow(id, FD_BYTES - KST_PAGE + 1), "when the memfd is longer");
	EXPECT_FAILS(fd, grow(id, FD_BYTES - KST_PAGE), -EINVAL, "shrink", "then not less again");
	EXPECT_FAILS(fd, grow(plain, KST_PAGE), -EOPNOTSUPP, "file",
		     "an address range does not grow");
	EXPECT_IS(-ENOENT, grow(id + 1000, KST_PAGE), "what is no export");
	kst_destroy(fd, id);
	kst_destroy(fd, plain);
	EXPECT_IS(-ENOENT, grow(id, KST_PAGE), "what was one");
	close(file);
}

TEST_F(limits, other_files)
{
	int pipes[2], file, rc;

	ASSERT_NOT(pipe(pipes), "pipe: %s", strerror(errno));
	EXPECT_FAILS(fd, export_fd("limits-fd", pipes[0], BOTH, 0, 1), -EOPNOTSUPP, "memfd",
		     "a pipe is EOPNOTSUPP");
	EXPECT_FAILS(fd, export_fd("limits-fd", fd, BOTH, 0, 1), -EOPNOTSUPP, "memfd",
		     "the device itself, too");
	close(pipes[0]);
	close(pipes[1]);
	file = open("/dev/shm", O_RDONLY | O_CLOEXEC);
	EXPECT_FAILS(fd, export_fd("limits-fd", file, KRDMA_RIGHT_READ, 0, 1), -EOPNOTSUPP, "memfd",
		     "a folder of tmpfs, too");
	close(file);
	file = memfd_create("limits", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (file >= 0) {
		EXPECT_FAILS(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EOPNOTSUPP, "memfd",
			     "a hugetlb memfd, too");
		close(file);
	}
	file = open("/dev/shm/krdma-limits", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_NOT(file < 0 || ftruncate(file, FD_BYTES), "/dev/shm: %s", strerror(errno));
	EXPECT_FAILS(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EINVAL, "F_SEAL_SHRINK",
		     "a file on tmpfs can't be sealed: EINVAL");
	close(file);
	unlink("/dev/shm/krdma-limits");
	for (file = -1; file < 2000; file += 1999)
		EXPECT_FAILS(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EBADF, "file",
			     "%d is not open: EBADF", file);
	file = sealed(F_SEAL_SHRINK);
	rc = reopened(file, O_PATH);
	EXPECT_FAILS(fd, export_fd("limits-fd", rc, BOTH, 0, 1), -EBADF, "file", "a path is EBADF");
	close(rc);
	close(file);
}

TEST_F(limits, disk)
{
	const char *folder = getenv("LAB_OUT") ?: "/var/tmp";
	char path[4096];
	int file, other;

	snprintf(path, sizeof(path), "%s/krdma-limits", folder);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_NOT(file < 0 || ftruncate(file, FD_BYTES), "%s: %s", path, strerror(errno));
	unlink(path);
	EXPECT_IS(0, export_fd("limits-disk", file, KRDMA_RIGHT_READ, 0, FD_BYTES),
		  "a file on disk is exported for reading");
	EXPECT_IS(0, export_fd("limits-disk", file, KRDMA_RIGHT_READ, KST_PAGE, 1), "a part of it");
	EXPECT_FAILS(fd, export_fd("limits-disk", file, BOTH, 0, 1), -EOPNOTSUPP, "reading",
		     "for writing it is EOPNOTSUPP");
	EXPECT_FAILS(fd,
		     export_fd("limits-disk", file, KRDMA_RIGHT_READ | KRDMA_RIGHT_ATOMIC, 0, 8),
		     -EOPNOTSUPP, "reading", "for atomic operations, too");
	EXPECT_FAILS(fd, export_fd("limits-disk", file, KRDMA_RIGHT_READ, 0, FD_BYTES + 1), -ERANGE,
		     "file", "more than it has is ERANGE");
	close(file);
	other = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	EXPECT_FAILS(fd, export_fd("limits-disk", other, KRDMA_RIGHT_READ, 0, 1), -EOPNOTSUPP,
		     "on disk", "one without pages is EOPNOTSUPP");
	close(other);
}

/* The export holds the file: it is neither closed nor cut off under it. */
TEST_F(limits, held)
{
	struct kst_state with;
	int file = sealed(F_SEAL_SHRINK);
	__u32 id;

	EXPECT_IS(0, export_file("limits-held", file, BOTH, 0, FD_BYTES, &id),
		  "a memfd is exported");
	with = kst_now();
	EXPECT_THAT(with.pins == self->before.pins && with.vmpin == self->before.vmpin &&
			    with.exports == self->before.exports + 1,
		    "nothing of it is pinned before a peer asks for it");
	EXPECT_THAT(ftruncate(file, KST_PAGE) && errno == EPERM, "it can't be cut off");
	EXPECT_THAT(!ftruncate(file, 2 * FD_BYTES), "it can grow");
	/* As with a shared mapping: what peers may write is not sealed against it. */
	EXPECT_THAT(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) && errno == EBUSY,
		    "while peers may write to it, it can't be sealed against writing");
	close(file);
	EXPECT_IS(0, kst_destroy(fd, id), "closed, it is exported until DESTROY");
	EXPECT_SAME(&self->before, "no export of a memfd is left");

	file = sealed(F_SEAL_SHRINK);
	EXPECT_THAT(!export_fd("limits-held", file, BOTH, 0, 1) &&
			    !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE),
		    "after DESTROY it can be sealed");
	close(file);
	/* An export that failed must not hold it either. */
	file = sealed(0);
	EXPECT_THAT(export_fd("limits-held", file, BOTH, 0, 1) == -EINVAL &&
			    !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE),
		    "and after an EXPORT that failed");
	close(file);
}

/* ---- limits ---- */

/* In a child with 64 KiB of RLIMIT_MEMLOCK; the exit status tells what went wrong. */
static int limited(bool namespace)
{
	char *mem = kst_map(64 * KST_PAGE, RW, MAP_PRIVATE);
	struct rlimit limit = { 16 * KST_PAGE, 16 * KST_PAGE };
	int other = kst_open(), shared, rc;
	__u32 one, two, id;

	fd = kst_open();
	shared = memfd_create("limited", MFD_ALLOW_SEALING);
	if (ftruncate(shared, 64 * KST_PAGE) || fcntl(shared, F_ADD_SEALS, F_SEAL_SHRINK) ||
	    setrlimit(RLIMIT_MEMLOCK, &limit) ||
	    (namespace ? unshare(CLONE_NEWUSER) : setresuid(65534, 65534, 65534)))
		return 1;
	rc = kst_buffer(fd, mem, 17 * KST_PAGE, 0, &id);
	if (rc != -ENOMEM || !kst_sentence(fd, -ENOMEM, "RLIMIT_MEMLOCK"))
		return 2;
	rc = kst_export(fd, "limited", mem, 17 * KST_PAGE, KRDMA_RIGHT_READ, &id);
	if (rc != -ENOMEM || !kst_sentence(fd, -ENOMEM, "RLIMIT_MEMLOCK"))
		return 3;
	/* 64 KiB that touch 17 pages. */
	if (kst_buffer(fd, mem + 1, 16 * KST_PAGE, 0, &id) != -ENOMEM)
		return 4;
	if (kst_buffer(fd, mem, 16 * KST_PAGE, 0, &one) || kst_destroy(fd, one))
		return 5;
	/* The limit is the process's, whatever file it uses. */
	if (kst_buffer(fd, mem, 8 * KST_PAGE, 0, &one) ||
	    kst_buffer(other, mem, 9 * KST_PAGE, 0, &two) != -ENOMEM ||
	    kst_buffer(other, mem, 8 * KST_PAGE, 0, &two) ||
	    kst_buffer(fd, mem, 1, 0, &id) != -ENOMEM)
		return 6;
	if (kst_vmpin() != 64)
		return 7;
	if (kst_destroy(fd, one) || kst_buffer(fd, mem, 1, 0, &id))
		return 8;
	/* Nothing of a memfd is pinned before a peer asks for it; but it must fit then. */
	if (export_fd("limited-fd", shared, KRDMA_RIGHT_READ, 0, 16 * KST_PAGE))
		return 9;
	rc = export_fd("limited-fd", shared, KRDMA_RIGHT_READ, 0, 17 * KST_PAGE);
	if (rc != -ENOMEM || !kst_sentence(fd, -ENOMEM, "RLIMIT_MEMLOCK is 64 KiB"))
		return 10;
	if (export_fd("limited-fd", shared, KRDMA_RIGHT_MESSAGE, 0, 64 * KST_PAGE))
		return 11;
	return kst_vmpin() == 36 ? 0 : 12;
}

static int limited_child(bool namespace)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(limited(namespace));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(limits, memlock_user)
{
	int step = limited_child(false);

	EXPECT_IS(0, step, "RLIMIT_MEMLOCK of a user: that step of limited() went wrong");
}

TEST_F(limits, memlock_namespace)
{
	int step = limited_child(true);

	if (step == 1)
		SKIP(return, "no user namespaces");
	EXPECT_IS(0, step, "RLIMIT_MEMLOCK of root of a user namespace: that step of limited()");
}

TEST_F(limits, file_limit)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };
	__u64 most;
	__u32 id;
	char *mem;
	int rc;

	kst_call(fd, KRDMA_IOC_QUERY, &q);
	most = q.pinned_limit - q.pinned_bytes;
	/* Never touched: the limit comes first, then the first page. */
	mem = kst_map(most + 2 * KST_PAGE, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
	rc = kst_buffer(fd, mem, most + 1, 0, &id);
	EXPECT_FAILS(fd, rc, -EDQUOT, "KiB", "more than a file may keep pinned is EDQUOT");
	rc = kst_export(fd, "memory-limit", mem, most + 1, KRDMA_RIGHT_READ, &id);
	EXPECT_FAILS(fd, rc, -EDQUOT, "KiB", "as an export, too");
	EXPECT_FAILS(fd, kst_buffer(fd, mem, most, 0, &id), -EFAULT, NULL,
		     "exactly that is not: memory without access is EFAULT");
	munmap(mem, most + 2 * KST_PAGE);

	mem = kst_map(KST_PAGE, RW, MAP_PRIVATE);
	rc = kst_buffer(fd, mem, KST_PAGE, 0, &id);
	kst_call(fd, KRDMA_IOC_QUERY, &q);
	EXPECT_THAT(!rc && q.pinned_bytes == self->before.vmpin * 1024 + KST_PAGE &&
			    kst_vmpin() == 4,
		    "a page that is pinned is counted, in QUERY and in VmPin");
	kst_destroy(fd, id);
	munmap(mem, KST_PAGE);
}

KST_HARNESS_MAIN(1)
