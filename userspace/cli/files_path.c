// SPDX-License-Identifier: GPL-2.0
/* Paths that stay inside of a directory, and bytes of files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xxhash.h>

#include "files.h"

#define TEMP_PREFIX ".krdma-"

static bool is_temp(const char *name, size_t length)
{
	const size_t prefix = strlen(TEMP_PREFIX);

	return length == prefix + 16 && !memcmp(name, TEMP_PREFIX, prefix) &&
	       strspn(name + prefix, "0123456789abcdef") >= 16;
}

static bool name_ok(const char *name, size_t length)
{
	return length && length <= FILES_NAME_MAX && !(length == 1 && name[0] == '.') &&
	       !(length == 2 && name[0] == '.' && name[1] == '.') && !is_temp(name, length);
}

bool files_path_ok(const char *path, size_t length)
{
	size_t depth = 1, i;

	if (length > FILES_PATH_MAX || !files_names_ok(path, length))
		return false;
	for (i = 0; i < length; i++)
		depth += path[i] == '/';
	return depth <= FILES_DEPTH_MAX;
}

bool files_names_ok(const char *path, size_t length)
{
	const char *slash;

	if (memchr(path, '\0', length))
		return false;
	for (;;) {
		slash = memchr(path, '/', length);
		if (!name_ok(path, slash ? (size_t)(slash - path) : length))
			return false;
		if (!slash)
			return true;
		length -= (size_t)(slash + 1 - path);
		path = slash + 1;
	}
}

uint64_t files_digest(const void *bytes, size_t length)
{
	return XXH3_64bits(bytes, length);
}

void files_temp_of(uint64_t number, char temp[FILES_TEMP])
{
	snprintf(temp, FILES_TEMP, TEMP_PREFIX "%016llx", (unsigned long long)number);
}

void files_temp_name(const char *name, char temp[FILES_TEMP])
{
	files_temp_of(files_digest(name, strlen(name)), temp);
}

bool files_is_temp(const char *name)
{
	return is_temp(name, strlen(name));
}

int files_open_at(int dir, const char *path, int flags, uint64_t resolve)
{
	const struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = resolve,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int files_open_inside(int dir, const char *path, int flags)
{
	return files_open_at(dir, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Make each directory of the path that is not there, for its owner alone: FILES_DIR_END has the mode. */
static int make_directories(int dir, const char *path, bool sync)
{
	char copy[FILES_PATH_MAX + 1], *slash;

	snprintf(copy, sizeof(copy), "%s", path);
	for (slash = copy; (slash = strchr(slash, '/')); slash++) {
		char *name;
		int parent, rc;

		*slash = '\0';
		name = strrchr(copy, '/');
		if (name)
			*name = '\0';
		parent = name ? files_open_inside(dir, copy,
						  (sync ? O_RDONLY : O_PATH) | O_DIRECTORY) :
				dir;
		rc = parent < 0 ? -1 : mkdirat(parent, name ? name + 1 : copy, 0700);
		if (rc && errno == EEXIST)
			rc = 0;
		else if (!rc && sync)
			rc = fsync(parent);
		if (name) {
			*name = '/';
			if (parent >= 0)
				close(parent);
		}
		if (rc)
			return -1;
		*slash = '/';
	}
	return 0;
}

int files_open_parent(int dir, const char *path, bool sync)
{
	char parent[FILES_PATH_MAX + 1];
	const char *slash = strrchr(path, '/');
	int fd;

	if (!slash)
		return files_open_inside(dir, ".", O_PATH | O_DIRECTORY);
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	fd = files_open_inside(dir, parent, O_PATH | O_DIRECTORY);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (make_directories(dir, path, sync))
		return -1;
	return files_open_inside(dir, parent, O_PATH | O_DIRECTORY);
}

uint64_t files_next_data(int fd, uint64_t offset, uint64_t size)
{
	off_t at;

	if (offset >= size)
		return size;
	at = lseek(fd, (off_t)offset, SEEK_DATA);
	/* ENXIO: there is none. Where holes are not known, all is data. */
	if (at < 0)
		return errno == ENXIO ? size : offset;
	return (uint64_t)at < size ? (uint64_t)at : size;
}

uint64_t files_next_hole(int fd, uint64_t offset, uint64_t size)
{
	const off_t at = offset < size ? lseek(fd, (off_t)offset, SEEK_HOLE) : -1;

	return at < 0 || (uint64_t)at > size ? size : (uint64_t)at;
}

int files_read_all(int fd, char *to, size_t *length, uint64_t offset)
{
	ssize_t got;

	while (*length) {
		got = pread(fd, to, *length, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? errno : EAGAIN;
		to += got;
		*length -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

int files_read(int fd, char *to, size_t length, uint64_t offset)
{
	size_t left = length;
	const int error = files_read_all(fd, to, &left, offset);

	if (error != EAGAIN)
		return error;
	memset(to + length - left, 0, left);
	return 0;
}

int files_write(int fd, const char *from, size_t length, uint64_t offset)
{
	ssize_t put;

	while (length) {
		put = pwrite(fd, from, length, (off_t)offset);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put ? errno : EIO;
		from += put;
		length -= (size_t)put;
		offset += (uint64_t)put;
	}
	return 0;
}

int files_digests(int fd, uint64_t size, uint64_t first, uint64_t *digests, size_t blocks,
		  const atomic_bool *stopped)
{
	char *block;
	uint64_t data = 0, zero, from, length;
	int error = 0;
	size_t i;

	if (!blocks)
		return 0;
	block = calloc(1, FILES_BLOCK);
	if (!block)
		return ENOMEM;
	zero = files_digest(block, FILES_BLOCK);
	for (i = 0; !error && i < blocks; i++) {
		if (*stopped) {
			error = ECANCELED;
			break;
		}
		from = (first + i) * FILES_BLOCK;
		length = size - from < FILES_BLOCK ? size - from : FILES_BLOCK;
		if (data <= from)
			data = files_next_data(fd, from, size);
		if (data >= from + length && length == FILES_BLOCK) {
			digests[i] = zero;
			continue;
		}
		error = files_read(fd, block, length, from);
		digests[i] = files_digest(block, length);
	}
	free(block);
	return error;
}
