// SPDX-License-Identifier: GPL-2.0
/* Calls that a user makes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "users.h"

/* In time, or it fails: what is promised to a user while another takes what it can. */
int move(int fd, int opcode, __u32 region, __u64 offset, void *mem, __u64 length)
{
	struct krdma_op op = kst_op(opcode, region, offset, mem, length);
	struct krdma_completion comp = { .status = -ENODATA };
	int rc;

	op.timeout_ns = 30000000000ULL * kst_number("TIME_FACTOR", 1);
	limit_locked(true);
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	limit_locked(false);
	return rc ? rc : comp.status;
}

int by_buffer(int fd, int opcode, __u32 region, __u32 buffer)
{
	struct krdma_op op = kst_op(opcode, region, 0, NULL, KST_PAGE);
	struct krdma_completion comp = { .status = -ENODATA };
	int rc;

	op.flags = KRDMA_OPF_BUFFER;
	op.buffer = buffer;
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	return rc ? rc : comp.status;
}

bool has_base(const void *mem, size_t length)
{
	return kst_check(mem, 0, length, KST_BASE) < 0;
}

int export_fd(int fd, int file, const char *name)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = KRDMA_RIGHT_READ,
		.fd = file,
		.length = KST_PAGE,
	};

	snprintf(cmd.name, sizeof(cmd.name), "%s", name);
	return kst_call(fd, KRDMA_IOC_EXPORT, &cmd);
}

int page_file(void)
{
	int file = memfd_create("users", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, KST_PAGE) || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		kst_bail("memfd: %s", strerror(errno));
	return file;
}

int listen_here(int fd)
{
	struct krdma_ioc_listen cmd = { .size = sizeof(cmd), .addr = kst_ipv4("0.0.0.0", 7499) };

	return kst_call(fd, KRDMA_IOC_LISTEN, &cmd);
}

struct krdma_ioc_query query(int fd)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };

	kst_call(fd, KRDMA_IOC_QUERY, &q);
	return q;
}

/* The user of the first session that this file shows, or a negative errno. */
long first_session_user(int fd)
{
	struct krdma_session_info info = { 0 };
	struct krdma_ioc_list cmd = {
		.size = sizeof(cmd),
		.kind = KRDMA_LIST_SESSIONS,
		.entries = (uintptr_t)&info,
		.stride = sizeof(info),
		.count = 1,
	};
	int rc = kst_call(fd, KRDMA_IOC_LIST, &cmd);

	return rc ? rc : cmd.count ? (long)info.uid : -ENOENT;
}

__u64 connect_serial(int fd, __u32 *id)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.dst = kst_ipv4("10.77.0.2", KST_PORT),
	};

	if (kst_call(fd, KRDMA_IOC_CONNECT, &cmd))
		return 0;
	*id = cmd.id;
	return cmd.serial;
}

/* A file with a session, a region and a page as a buffer. */
int make_file(int flags, struct passed *p, char *page)
{
	int fd = open("/dev/krdma_mover", O_RDWR | flags);

	if (fd < 0)
		kst_bail("/dev/krdma_mover: %s", strerror(errno));
	p->serial = connect_serial(fd, &p->session);
	if (!p->serial || kst_open_region(fd, p->session, "users", 0, &p->region, NULL) ||
	    kst_buffer(fd, page, KST_PAGE, KRDMA_BUFFER_WRITABLE, &p->buffer))
		kst_bail("a file to pass on: %s", kst_last_error(fd, NULL));
	return fd;
}
