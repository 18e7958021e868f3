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

#include "kst.h"

#define RW       (PROT_READ | PROT_WRITE)
#define BOTH     (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
#define FD_BYTES (64 * KST_PAGE)

static int fd;

/* Exports and takes it back. */
static int export_fd(const char *name, int file, __u32 rights, __u64 offset, __u64 length)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = rights,
		.fd = file,
		.addr = offset,
		.length = length,
	};

	strcpy(cmd.name, name);
	return kst_call(fd, KRDMA_IOC_EXPORT, &cmd) ? -errno : kst_destroy(fd, cmd.id);
}

/* ---- memfds ---- */

static int sealed(int seals)
{
	int file = memfd_create("limits", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, FD_BYTES) || (seals && fcntl(file, F_ADD_SEALS, seals)))
		kst_bail("memfd: %s", strerror(errno));
	return file;
}

static void try_seals(int seals, __u32 rights, int want, const char *word, const char *what)
{
	int file = sealed(seals), rc = export_fd("limits-fd", file, rights, 0, FD_BYTES);

	if (want)
		kst_fails(fd, rc, want, word, "%s", what);
	else
		kst_is(rc, 0, "%s", what);
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

static void test_seals(void)
{
	int file = sealed(F_SEAL_SHRINK), other;

	try_seals(F_SEAL_SHRINK, BOTH, 0, NULL, "a memfd sealed against shrinking is exported");
	try_seals(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, BOTH, 0, NULL,
		  "other seals don't matter");
	try_seals(0, BOTH, -EINVAL, "F_SEAL_SHRINK", "without that seal it is EINVAL");
	try_seals(F_SEAL_GROW, KRDMA_RIGHT_READ, -EINVAL, "F_SEAL_SHRINK", "read-only, too");
	try_seals(F_SEAL_SHRINK | F_SEAL_WRITE, BOTH, -EACCES, "seal",
		  "one sealed against writing is EACCES for writing");
	try_seals(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, KRDMA_RIGHT_WRITE, -EACCES, "seal",
		  "one sealed against future writing, too");
	try_seals(F_SEAL_SHRINK | F_SEAL_WRITE, KRDMA_RIGHT_READ, 0, NULL,
		  "for reading it is fine");

	other = reopened(file, O_RDONLY);
	kst_fails(fd, export_fd("limits-fd", other, BOTH, 0, FD_BYTES), -EACCES, "writing",
		  "one open for reading is EACCES for writing");
	kst_is(export_fd("limits-fd", other, KRDMA_RIGHT_READ, 0, FD_BYTES), 0, "not for reading");
	close(other);
	other = reopened(file, O_WRONLY);
	kst_fails(fd, export_fd("limits-fd", other, KRDMA_RIGHT_READ, 0, FD_BYTES), -EACCES,
		  "reading", "one open for writing is EACCES for reading");
	close(other);
	close(file);
}

static void test_ranges(void)
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
		if (ranges[i].want)
			kst_fails(fd, rc, ranges[i].want, NULL, "of a memfd, %s", ranges[i].what);
		else
			kst_is(rc, 0, "of a memfd, %s", ranges[i].what);
	}
	close(file);
}

static void test_other_files(void)
{
	int pipes[2], file, rc;

	if (pipe(pipes))
		kst_bail("pipe: %s", strerror(errno));
	kst_fails(fd, export_fd("limits-fd", pipes[0], BOTH, 0, 1), -EOPNOTSUPP, "memfd",
		  "a pipe is EOPNOTSUPP");
	kst_fails(fd, export_fd("limits-fd", fd, BOTH, 0, 1), -EOPNOTSUPP, "memfd",
		  "the device itself, too");
	close(pipes[0]);
	close(pipes[1]);
	file = open("/dev/shm", O_RDONLY | O_CLOEXEC);
	kst_fails(fd, export_fd("limits-fd", file, KRDMA_RIGHT_READ, 0, 1), -EOPNOTSUPP, "memfd",
		  "a folder of tmpfs, too");
	close(file);
	file = memfd_create("limits", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (file < 0) {
		kst_skip("no hugetlb memfd", "a hugetlb memfd is EOPNOTSUPP");
	} else {
		kst_fails(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EOPNOTSUPP, "memfd",
			  "a hugetlb memfd, too");
		close(file);
	}
	file = open("/dev/shm/krdma-limits", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, FD_BYTES))
		kst_bail("/dev/shm: %s", strerror(errno));
	kst_fails(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EINVAL, "F_SEAL_SHRINK",
		  "a file on tmpfs can't be sealed: EINVAL");
	close(file);
	unlink("/dev/shm/krdma-limits");
	for (file = -1; file < 2000; file += 1999)
		kst_fails(fd, export_fd("limits-fd", file, BOTH, 0, 1), -EBADF, "file",
			  "%d is not open: EBADF", file);
	file = sealed(F_SEAL_SHRINK);
	rc = reopened(file, O_PATH);
	kst_fails(fd, export_fd("limits-fd", rc, BOTH, 0, 1), -EBADF, "file", "a path is EBADF");
	close(rc);
	close(file);
}

static void test_disk(void)
{
	struct kst_state before = kst_now();
	const char *folder = getenv("LAB_OUT") ?: "/var/tmp";
	char path[4096];
	int file, other;

	snprintf(path, sizeof(path), "%s/krdma-limits", folder);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, FD_BYTES))
		kst_bail("%s: %s", path, strerror(errno));
	unlink(path);
	kst_is(export_fd("limits-disk", file, KRDMA_RIGHT_READ, 0, FD_BYTES), 0,
	       "a file on disk is exported for reading");
	kst_is(export_fd("limits-disk", file, KRDMA_RIGHT_READ, KST_PAGE, 1), 0, "a part of it");
	kst_fails(fd, export_fd("limits-disk", file, BOTH, 0, 1), -EOPNOTSUPP, "reading",
		  "for writing it is EOPNOTSUPP");
	kst_fails(fd, export_fd("limits-disk", file, KRDMA_RIGHT_READ | KRDMA_RIGHT_ATOMIC, 0, 8),
		  -EOPNOTSUPP, "reading", "for atomic operations, too");
	kst_fails(fd, export_fd("limits-disk", file, KRDMA_RIGHT_READ, 0, FD_BYTES + 1), -ERANGE,
		  "file", "more than it has is ERANGE");
	close(file);
	other = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	kst_fails(fd, export_fd("limits-disk", other, KRDMA_RIGHT_READ, 0, 1), -EOPNOTSUPP,
		  "on disk", "one without pages is EOPNOTSUPP");
	close(other);
	kst_settled(&before, "no export of a file on disk is left");
}

/* The export holds the file: it is neither closed nor cut off under it. */
static void test_held(void)
{
	struct kst_state before = kst_now(), with;
	int file = sealed(F_SEAL_SHRINK);
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = BOTH,
		.fd = file,
		.length = FD_BYTES,
		.name = "limits-held",
	};
	int rc = kst_call(fd, KRDMA_IOC_EXPORT, &cmd);

	kst_is(rc, 0, "a memfd is exported");
	with = kst_now();
	kst_ok(with.pins == before.pins && with.vmpin == before.vmpin &&
		       with.exports == before.exports + 1,
	       "nothing of it is pinned before a peer asks for it");
	kst_ok(ftruncate(file, KST_PAGE) && errno == EPERM, "it can't be cut off");
	kst_ok(!ftruncate(file, 2 * FD_BYTES), "it can grow");
	/* As with a shared mapping: what peers may write is not sealed against it. */
	kst_ok(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) && errno == EBUSY,
	       "while peers may write to it, it can't be sealed against writing");
	close(file);
	kst_is(kst_destroy(fd, cmd.id), 0, "closed, it is exported until DESTROY");
	kst_settled(&before, "no export of a memfd is left");

	file = sealed(F_SEAL_SHRINK);
	kst_ok(!export_fd("limits-held", file, BOTH, 0, 1) &&
		       !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE),
	       "after DESTROY it can be sealed");
	close(file);
	/* An export that failed must not hold it either. */
	file = sealed(0);
	kst_ok(export_fd("limits-held", file, BOTH, 0, 1) == -EINVAL &&
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

static void test_memlock(void)
{
	struct kst_state before = kst_now();
	int status, i;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(limited(i));
		waitpid(pid, &status, 0);
		if (i && WIFEXITED(status) && WEXITSTATUS(status) == 1)
			kst_skip("no user namespaces", "root of a user namespace");
		else if (!kst_ok(WIFEXITED(status) && !WEXITSTATUS(status), "RLIMIT_MEMLOCK of %s",
				 i ? "root of a user namespace" : "a user"))
			kst_diag("step %d of limited() went wrong", WEXITSTATUS(status));
	}
	kst_settled(&before, "nothing stays pinned behind a user");
}

static void test_file_limit(void)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };
	struct kst_state before = kst_now();
	__u64 most;
	__u32 id;
	char *mem;
	int rc;

	kst_call(fd, KRDMA_IOC_QUERY, &q);
	most = q.pinned_limit - q.pinned_bytes;
	/* Never touched: the limit comes first, then the first page. */
	mem = kst_map(most + 2 * KST_PAGE, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
	rc = kst_buffer(fd, mem, most + 1, 0, &id);
	kst_fails(fd, rc, -EDQUOT, "KiB", "more than a file may keep pinned is EDQUOT");
	rc = kst_export(fd, "memory-limit", mem, most + 1, KRDMA_RIGHT_READ, &id);
	kst_fails(fd, rc, -EDQUOT, "KiB", "as an export, too");
	kst_fails(fd, kst_buffer(fd, mem, most, 0, &id), -EFAULT, NULL,
		  "exactly that is not: memory without access is EFAULT");
	munmap(mem, most + 2 * KST_PAGE);

	mem = kst_map(KST_PAGE, RW, MAP_PRIVATE);
	rc = kst_buffer(fd, mem, KST_PAGE, 0, &id);
	kst_call(fd, KRDMA_IOC_QUERY, &q);
	kst_ok(!rc && q.pinned_bytes == before.vmpin * 1024 + KST_PAGE && kst_vmpin() == 4,
	       "a page that is pinned is counted, in QUERY and in VmPin");
	kst_destroy(fd, id);
	munmap(mem, KST_PAGE);
	kst_settled(&before, "nothing stays charged behind these");
}

int main(int argc, char **argv)
{
	struct kst_state begin;

	kst_main(argc, argv, 1);
	begin = kst_now();
	fd = kst_open();
	test_seals();
	test_ranges();
	test_other_files();
	test_disk();
	test_held();
	test_memlock();
	test_file_limit();
	close(fd);
	kst_settled(&begin, "at the end everything is as it was");
	return kst_done();
}
