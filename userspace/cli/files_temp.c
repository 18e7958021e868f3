// SPDX-License-Identifier: GPL-2.0
/* The receiver of files: a file has a temporary name until it is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "files_receive.h"

/* A name that nobody knows before. Return: 0 or an errno. */
static int random_name(char temp[FILES_TEMP])
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return EIO;
	files_temp_of(number, temp);
	return 0;
}

#define TEMP_MODE 0600

/* What has the name is replaced, unless it is a device, a FIFO or a socket. */
static bool may_replace(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || S_ISREG(st.st_mode) ||
	    S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
		return true;
	errno = EEXIST;
	return false;
}

int files_temp_sync(const struct files_receiver *r, int dir)
{
	int fd, error = 0;

	if (!(r->flags & FILES_SYNC))
		return 0;
	fd = files_open_inside(dir, ".", O_RDONLY | O_DIRECTORY);
	if (fd < 0 || fsync(fd))
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

/* Is a file one to go on with, and nothing that somebody has put there, such as a link to another file? */
static bool is_own(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_mode & 07777) == TEMP_MODE && st->st_nlink == 1 &&
	       st->st_uid == geteuid();
}

/* @st: out: of the file */
static bool has_name(int fd, int dir, const char *temp, struct stat *st)
{
	struct stat there;

	return !fstat(fd, st) && !fstatat(dir, temp, &there, AT_SYMLINK_NOFOLLOW) &&
	       st->st_ino == there.st_ino && st->st_dev == there.st_dev;
}

int files_temp_open(int dir, const char *name, char temp[FILES_TEMP])
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd, tries, error;
	struct stat st;
	bool made;

	if (!may_replace(dir, name))
		return -1;
	files_temp_name(name, temp);
	for (tries = 0; tries < 10; tries++) {
		made = fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) != 0;
		if (!made && !is_own(&st)) {
			error = random_name(temp);
			if (!error)
				continue;
			errno = error;
			return -1;
		}
		fd = openat(dir, temp, made ? flags | O_CREAT | O_EXCL : flags, TEMP_MODE);
		/* Another client was faster. */
		if (fd < 0 && errno == (made ? EEXIST : ENOENT))
			continue;
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			error = errno == EWOULDBLOCK ? EBUSY : errno;
			close(fd);
			errno = error;
			return -1;
		}
		/* It may have got its own name before it was locked here. */
		if (has_name(fd, dir, temp, &st) && (made || is_own(&st)))
			return fd;
		close(fd);
	}
	errno = EBUSY;
	return -1;
}

int files_temp_finish(const struct files_receiver *r, int fd, int dir, const char *temp,
		      const char *name, mode_t mode, struct timespec mtime, bool resized)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, mtime };
	struct stat st;
	int copy, error;

	if (futimens(fd, times))
		return errno;
	/*
	 * After a crash, a file that was resized before it was written has its length, and zeroes: the
	 * same command would not copy it again. Some file systems tell only when a file is closed that
	 * bytes could not be written; the lock stays.
	 */
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return errno;
	error = (resized || r->flags & FILES_SYNC) && fdatasync(fd) ? errno : 0;
	if (close(copy) && !error)
		error = errno;
	/* What did not reach the disk is not to be taken for written when the copy goes on. */
	if (error && ftruncate(fd, 0))
		files_temp_remove(fd, dir, temp);
	if (error)
		return error;
	if (!has_name(fd, dir, temp, &st))
		return EBUSY;
	if (!may_replace(dir, name))
		return errno;
	/* The peer's mode is for the file under its name: a temporary file stays private. */
	if (!fchmod(fd, mode) && !renameat(dir, temp, dir, name))
		return files_temp_sync(r, dir);
	error = errno;
	fchmod(fd, TEMP_MODE);
	return error;
}

void files_temp_remove(int fd, int dir, const char *temp)
{
	struct stat st;

	if (has_name(fd, dir, temp, &st))
		unlinkat(dir, temp, 0);
}

int files_temp_link(const struct files_receiver *r, int dir, const char *target, const char *name,
		    struct timespec mtime)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, mtime };
	char temp[FILES_TEMP];
	int error;

	if (!may_replace(dir, name))
		return errno;
	do {
		error = random_name(temp);
		if (!error && symlinkat(target, dir, temp))
			error = errno;
	} while (error == EEXIST);
	if (error)
		return error;
	if (!utimensat(dir, temp, times, AT_SYMLINK_NOFOLLOW) && !renameat(dir, temp, dir, name))
		return files_temp_sync(r, dir);
	error = errno;
	unlinkat(dir, temp, 0);
	return error;
}
