// SPDX-License-Identifier: GPL-2.0
/* The receiver of files: a file has a temporary name until it is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "files_receive.h"

int files_temp_open(int dir, const char *temp)
{
	struct stat ours, theirs;
	int fd, tries;

	for (tries = 0; tries < 10; tries++) {
		fd = openat(dir, temp, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
			    0600);
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			const int error = errno == EWOULDBLOCK ? EBUSY : errno;

			close(fd);
			errno = error;
			return -1;
		}
		/* It may have got its own name before it was locked here. */
		if (!fstat(fd, &ours) && S_ISREG(ours.st_mode) &&
		    !fstatat(dir, temp, &theirs, AT_SYMLINK_NOFOLLOW) &&
		    ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)
			return fd;
		close(fd);
	}
	errno = EBUSY;
	return -1;
}

int files_temp_finish(const struct files_receiver *r, int fd, int dir, const char *name,
		      mode_t mode, struct timespec mtime)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, mtime };
	struct stat ours, theirs;
	char temp[FILES_TEMP];
	int copy;

	files_temp_name(name, temp);
	if (fchmod(fd, mode) || futimens(fd, times) || (r->flags & FILES_SYNC && fdatasync(fd)))
		return errno;
	/* Some file systems tell only here that bytes could not be written. The lock stays. */
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0 || close(copy) || fstat(fd, &ours) ||
	    fstatat(dir, temp, &theirs, AT_SYMLINK_NOFOLLOW))
		return errno;
	if (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev)
		return EBUSY;
	return renameat(dir, temp, dir, name) ? errno : 0;
}

/* A name that nobody knows before. Return: 0 or an errno. */
static int random_name(char temp[FILES_TEMP])
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return EIO;
	files_temp_of(number, temp);
	return 0;
}

int files_temp_link(int dir, const char *target, const char *name, struct timespec mtime)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, mtime };
	char temp[FILES_TEMP];
	int error;

	do {
		error = random_name(temp);
		if (!error && symlinkat(target, dir, temp))
			error = errno;
	} while (error == EEXIST);
	if (error)
		return error;
	if (!utimensat(dir, temp, times, AT_SYMLINK_NOFOLLOW) && !renameat(dir, temp, dir, name))
		return 0;
	error = errno;
	unlinkat(dir, temp, 0);
	return error;
}
