// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Memory that can be exported. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

int krdma_memfd(const char *name, uint64_t length)
{
	int fd, error;

	if (length > INT64_MAX)
		return krdma__fail(EINVAL, "%llu bytes are more than a file can have",
				   (unsigned long long)length);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		error = errno;
		return krdma__fail(error, "cannot create a memfd: %s", strerror(error));
	}
	if (ftruncate(fd, (off_t)length) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		error = errno;
		close(fd);
		return krdma__fail(error, "cannot make a memfd of %llu bytes: %s",
				   (unsigned long long)length, strerror(error));
	}
	return fd;
}

int krdma_map_huge(uint64_t length, void **addr)
{
	void *map = mmap(NULL, length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	int error = errno;

	if (map == MAP_FAILED)
		return krdma__fail(error, "cannot map %llu bytes of huge pages: %s%s",
				   (unsigned long long)length, strerror(error),
				   error == ENOMEM ? ": see /proc/sys/vm/nr_hugepages" : "");
	*addr = map;
	return 0;
}

/* Bytes of a file; 0 if it has no length. */
static uint64_t file_length(const struct stat *st)
{
	char path[64], line[32] = "";
	FILE *file;

	if (!S_ISCHR(st->st_mode))
		return (uint64_t)st->st_size;
	/* Of devdax. */
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/size", major(st->st_rdev),
		 minor(st->st_rdev));
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	return strtoull(line, NULL, 10);
}

int krdma_map_file(const char *path, int writable, uint64_t *length, void **addr)
{
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	void *map = MAP_FAILED;
	int error = 0, rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		error = errno;
	} else {
		if (!*length)
			*length = file_length(&st);
		if (!*length)
			rc = krdma__fail(EINVAL, "'%s' is empty, or has no length of its own",
					 path);
		else if (S_ISREG(st.st_mode) && *length > (uint64_t)st.st_size)
			rc = krdma__fail(ERANGE, "'%s' has only %llu bytes", path,
					 (unsigned long long)st.st_size);
		else
			map = mmap(NULL, *length, PROT_READ | (writable ? PROT_WRITE : 0),
				   MAP_SHARED, fd, 0);
		if (!rc && map == MAP_FAILED)
			error = errno;
	}
	if (fd >= 0)
		close(fd);
	if (error)
		return krdma__fail(error, "cannot map '%s': %s", path, strerror(error));
	*addr = map;
	return rc;
}
