// SPDX-License-Identifier: GPL-2.0
/* The receiver of files: unpacks chunks into a directory. Each byte of a chunk may be a lie. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "files.h"

#define PAGE       4096
#define LENGTH_MAX INT64_MAX
#define NOT_YET    UINT64_MAX
/* They leave room in the reply for errors. */
#define DIGESTS_MAX (FILES_BLOCK / sizeof(uint64_t))

/* A long file that is open, under its temporary name. */
struct open_file {
	uint32_t id;
	bool taken;  /* this place of the table is */
	bool usable; /* by the records of other chunks */
	int fd, dir;
	int basis; /* what is there under the name; -1: the temporary file has its bytes itself */
	bool failed;
	unsigned int users;
	uint64_t size, counted, expected;
	size_t blocks; /* that the sender has digests of */
	struct timespec mtime;
	mode_t mode;
	char name[FILES_NAME_MAX + 1];
};

struct files_receiver {
	pthread_mutex_t lock;
	int base;
	unsigned int flags;
	char *expected;               /* the first name of each path; NULL: any */
	char top[FILES_NAME_MAX + 1]; /* takes the place of the first name of each path */
	struct open_file files[FILES_OPEN_MAX];
	struct files_counts counts;
};

/* One chunk that is being unpacked. */
struct unpack {
	struct files_receiver *receiver;
	struct files_reader reader;
	char path[FILES_PATH_MAX + FILES_NAME_MAX + 2]; /* with the other first name */
	const char *name;
	struct files_writer reply;
	unsigned int errors;
	void (*report)(void *arg, int error, const char *text);
	void *arg;
	/* The directory of the last file. */
	int parent;
	char parent_path[FILES_PATH_MAX + FILES_NAME_MAX + 2];
};

static int base_open(int dir, const char *path, uint64_t resolve, bool into, char *top)
{
	char parent[FILES_PATH_MAX + 1];
	const char *name, *slash;
	size_t length = strlen(path);
	int fd;

	fd = files_open_at(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY, resolve);
	if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
		return fd;
	if (into && errno == ENOTDIR)
		return -1;
	if (length > FILES_PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* "new/" as well. */
	snprintf(parent, sizeof(parent), "%s", path);
	while (length > 1 && parent[length - 1] == '/')
		parent[--length] = '\0';
	slash = strrchr(parent, '/');
	name = slash ? slash + 1 : parent;
	if (!files_path_ok(name, strlen(name))) {
		errno = EINVAL;
		return -1;
	}
	strcpy(top, name);
	length = slash ? (size_t)(slash - parent) + (slash == parent) : 0;
	parent[length] = '\0';
	fd = files_open_at(dir, length ? parent : ".", O_RDONLY | O_DIRECTORY, resolve);
	if (fd < 0 || !into)
		return fd;
	if (!mkdirat(fd, top, 0777)) {
		dir = fd;
		fd = files_open_inside(dir, top, O_RDONLY | O_DIRECTORY);
		close(dir);
		*top = '\0';
		return fd;
	}
	close(fd);
	return -1;
}

struct files_receiver *files_receiver_new(int dir, const char *path, uint64_t resolve,
					  unsigned int flags, const char *expected)
{
	struct files_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->flags = flags;
	r->expected = expected ? strdup(expected) : NULL;
	r->base = expected && !r->expected ?
			  -1 :
			  base_open(dir, path, resolve, flags & FILES_INTO, r->top);
	if (r->base < 0) {
		free(r->expected);
		free(r);
		return NULL;
	}
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

static void close_file(struct open_file *f)
{
	close(f->fd);
	close(f->dir);
	if (f->basis >= 0)
		close(f->basis);
	f->taken = false;
}

void files_receiver_free(struct files_receiver *r)
{
	size_t i;

	if (!r)
		return;
	/* What is not whole stays under its temporary name, to be gone on with. */
	for (i = 0; i < FILES_OPEN_MAX; i++)
		if (r->files[i].taken)
			close_file(&r->files[i]);
	close(r->base);
	free(r->expected);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

struct files_counts files_receiver_counts(struct files_receiver *r)
{
	struct files_counts counts;

	pthread_mutex_lock(&r->lock);
	counts = r->counts;
	pthread_mutex_unlock(&r->lock);
	return counts;
}

static void count(struct files_receiver *r, uint64_t files, uint64_t bytes, uint64_t sent)
{
	pthread_mutex_lock(&r->lock);
	r->counts.files += files;
	r->counts.bytes += bytes;
	r->counts.sent += sent;
	pthread_mutex_unlock(&r->lock);
}

static void complain(struct unpack *u, uint32_t id, int error, const char *what, const char *path)
{
	char text[FILES_TEXT_MAX];

	snprintf(text, sizeof(text), "%s %s: %s", path, what,
		 error == EBUSY ? "another client is copying it" : strerror(error));
	if (u->report)
		u->report(u->arg, error, text);
	/* The sender of a file that is not open has to know it. */
	if (id || (!u->report && ++u->errors <= FILES_ERRORS_MAX))
		files_chunk_error(&u->reply, id, error, u->report ? "" : text);
}

/* ---- Where a record's path leads ---- */

/* Is a path what was asked for? The sender may know of files here that it was not asked for. */
static bool asked_for(const struct files_receiver *r, uint16_t type, const char *path)
{
	const size_t first = strcspn(path, "/");

	if (!(r->flags & FILES_RECURSIVE) && (type == FILES_DIR || type == FILES_DIR_END ||
					      path[first] || (r->expected && !*r->expected)))
		return false;
	return !r->expected || !*r->expected ||
	       (strlen(r->expected) == first && !memcmp(r->expected, path, first));
}

/* Return: 0, EPROTO, or ENAMETOOLONG. */
static int take_path(struct unpack *u)
{
	const struct files_receiver *r = u->receiver;
	const uint16_t type = u->reader.record.type;
	const char *path = u->reader.path, *rest;

	/* The directory itself, for what is in it. */
	if (type == FILES_DIR && !u->reader.record.path_length) {
		*u->path = '\0';
		return !*r->top && asked_for(r, type, "") ? 0 : EPROTO;
	}
	if (!files_names_ok(path, u->reader.record.path_length) || !asked_for(r, type, path))
		return EPROTO;
	if (*r->top) {
		rest = strchr(path, '/');
		snprintf(u->path, sizeof(u->path), "%s%s", r->top, rest ? rest : "");
	} else {
		strcpy(u->path, path);
	}
	u->name = strrchr(u->path, '/');
	u->name = u->name ? u->name + 1 : u->path;
	return files_path_ok(u->path, strlen(u->path)) ? 0 : ENAMETOOLONG;
}

/* Only this one is not copied. */
static int too_long(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const bool asks = record->type == FILES_OPEN ||
			  (record->type == FILES_DIR && record->flags & FILES_ASK);

	complain(u, asks ? record->id : 0, ENAMETOOLONG, "can't be made", u->path);
	return 0;
}

/* The directory of the path. Return: a descriptor that stays this unpack's, or -1. */
static int parent_of(struct unpack *u)
{
	const size_t length = (size_t)(u->name - u->path);

	if (u->parent >= 0 && strlen(u->parent_path) == length &&
	    !memcmp(u->parent_path, u->path, length))
		return u->parent;
	if (u->parent >= 0)
		close(u->parent);
	u->parent = files_open_parent(u->receiver->base, u->path);
	memcpy(u->parent_path, u->path, length);
	u->parent_path[length] = '\0';
	return u->parent;
}

/*
 * Open a file under its temporary name, alone: another client that copies this name is an error. Return:
 * a descriptor, or -1.
 */
static int temp_open(int dir, const char *temp)
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

/* Give a whole file its mode, its time and its name. Return: 0 or an errno. */
static int file_name(const struct files_receiver *r, int fd, int dir, const char *name, mode_t mode,
		     struct timespec mtime)
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

static struct timespec time_of(const struct files_record *record)
{
	return (struct timespec){ .tv_sec = (time_t)record->mtime, .tv_nsec = record->mtime_ns };
}

/* ---- Short files, links, directories ---- */

/* Pages of zeroes are left out. Return: 0 or an errno. */
static int write_sparse(int fd, const char *data, uint32_t length)
{
	static const char zeroes[PAGE];
	uint32_t at, n;
	int error = 0;

	for (at = 0; !error && at < length; at += n) {
		n = length - at < PAGE ? length - at : PAGE;
		if (memcmp(data + at, zeroes, n) != 0)
			error = files_write(fd, data + at, n, at);
	}
	return error;
}

static int unpack_short(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const int dir = parent_of(u);
	char temp[FILES_TEMP];
	int fd, error;

	if (record->data_length != record->size)
		return EPROTO;
	files_temp_name(u->name, temp);
	fd = dir < 0 ? -1 : temp_open(dir, temp);
	if (fd < 0) {
		complain(u, 0, errno, "can't be made", u->path);
		return 0;
	}
	/* It may be left of an attempt before. */
	error = ftruncate(fd, 0) ? errno : 0;
	if (!error && record->flags & FILES_SPARSE)
		error = write_sparse(fd, u->reader.data, record->data_length);
	else if (!error)
		error = files_write(fd, u->reader.data, record->data_length, 0);
	if (!error && record->flags & FILES_SPARSE && ftruncate(fd, (off_t)record->size))
		error = errno;
	if (!error)
		error = file_name(u->receiver, fd, dir, u->name, record->mode, time_of(record));
	if (error) {
		unlinkat(dir, temp, 0);
		complain(u, 0, error, "can't be written", u->path);
	} else {
		count(u->receiver, 1, record->size, record->data_length);
	}
	close(fd);
	return 0;
}

static int unpack_link(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, time_of(record) };
	char target[FILES_PATH_MAX + 1], temp[FILES_TEMP];
	const int dir = parent_of(u);

	if (!record->data_length || record->data_length > FILES_PATH_MAX)
		return EPROTO;
	memcpy(target, u->reader.data, record->data_length);
	target[record->data_length] = '\0';
	if (strlen(target) != record->data_length)
		return EPROTO;
	files_temp_name(u->name, temp);
	if (dir >= 0)
		unlinkat(dir, temp, 0);
	if (dir < 0 || symlinkat(target, dir, temp) ||
	    utimensat(dir, temp, times, AT_SYMLINK_NOFOLLOW) || renameat(dir, temp, dir, u->name))
		complain(u, 0, errno, "can't be made", u->path);
	else
		count(u->receiver, 1, 0, 0);
	return 0;
}

/* The reply to FILES_ASK. Return: 0 or an errno. */
static int tell_entries(struct unpack *u, bool fresh)
{
	struct files_record list = { .type = FILES_LIST, .id = u->reader.record.id };
	char *entries = fresh ? NULL : malloc(FILES_BLOCK), *to;
	int fd;

	if (fresh) {
		list.flags = FILES_FRESH;
	} else if (entries) {
		fd = *u->path ?
			     files_open_inside(u->receiver->base, u->path, O_PATH | O_DIRECTORY) :
			     fcntl(u->receiver->base, F_DUPFD_CLOEXEC, 0);
		if (fd < 0) {
			free(entries);
			return errno;
		}
		list.data_length = files_list_fill(fd, entries, FILES_BLOCK);
		close(fd);
	}
	to = files_chunk_add(&u->reply, &list, "");
	if (to && list.data_length)
		memcpy(to, entries, list.data_length);
	free(entries);
	return 0;
}

static int unpack_directory(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const int dir = *u->path ? parent_of(u) : u->receiver->base;
	const bool fresh = *u->path && dir >= 0 && !mkdirat(dir, u->name, 0700);
	int error = fresh || !*u->path ? 0 : errno;
	struct stat st;

	/* A symbolic link is none: it could lead out of here. */
	if (error == EEXIST)
		error = fstatat(dir, u->name, &st, AT_SYMLINK_NOFOLLOW) ? errno :
			S_ISDIR(st.st_mode)                             ? 0 :
									  ENOTDIR;
	if (!error && record->flags & FILES_ASK)
		error = tell_entries(u, fresh);
	if (error)
		complain(u, record->flags & FILES_ASK ? record->id : 0, error, "can't be made",
			 *u->path ? u->path : ".");
	else
		count(u->receiver, *u->path != 0, 0, 0);
	return 0;
}

static int unpack_directory_end(struct unpack *u)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, time_of(&u->reader.record) };
	const int fd = files_open_inside(u->receiver->base, u->path, O_RDONLY | O_DIRECTORY);

	if (fd < 0 || fchmod(fd, u->reader.record.mode) || futimens(fd, times))
		complain(u, 0, errno, "can't get its mode and time", u->path);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* ---- Long files ---- */

/* A place in the table. Return: NULL if there is none, or the id is in use. */
static struct open_file *file_place(struct files_receiver *r, uint32_t id)
{
	struct open_file *place = NULL;
	size_t i;

	pthread_mutex_lock(&r->lock);
	for (i = 0; i < FILES_OPEN_MAX; i++)
		if (r->files[i].taken && r->files[i].id == id)
			break;
	if (i == FILES_OPEN_MAX)
		for (i = 0; !place && i < FILES_OPEN_MAX; i++)
			if (!r->files[i].taken)
				place = &r->files[i];
	if (place) {
		*place = (struct open_file){ .id = id, .taken = true, .expected = NOT_YET };
		place->fd = place->dir = place->basis = -1;
	}
	pthread_mutex_unlock(&r->lock);
	return place;
}

static struct open_file *file_get(struct files_receiver *r, uint32_t id)
{
	struct open_file *f = NULL;
	size_t i;

	pthread_mutex_lock(&r->lock);
	for (i = 0; !f && i < FILES_OPEN_MAX; i++)
		if (r->files[i].usable && r->files[i].id == id)
			f = &r->files[i];
	if (f)
		f->users++;
	pthread_mutex_unlock(&r->lock);
	return f;
}

/* Count a range in advance. Return: false if there is none, or more of them than the file has bytes. */
static bool range_take(struct files_receiver *r, struct open_file *f,
		       const struct files_record *record, uint64_t size)
{
	bool good = record->offset <= f->size && size <= f->size - record->offset;

	/* What takes no bytes of a chunk takes time here: it is within one block that is compared. */
	if (record->type != FILES_DATA)
		good = good && record->offset / FILES_BLOCK < f->blocks &&
		       size <= FILES_BLOCK - record->offset % FILES_BLOCK;
	pthread_mutex_lock(&r->lock);
	good = good && size <= f->size - f->counted;
	if (good)
		f->counted += size;
	pthread_mutex_unlock(&r->lock);
	return good;
}

/* The last thread that uses a file that is complete, or was given up, finishes it. */
static void file_put(struct unpack *u, struct open_file *f, bool failed)
{
	struct files_receiver *r = u->receiver;
	bool last;
	int error;

	pthread_mutex_lock(&r->lock);
	f->failed |= failed;
	last = !--f->users && f->expected != NOT_YET && (f->counted >= f->expected || f->failed);
	if (last)
		f->usable = false;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	if (!f->failed) {
		error = f->counted == f->expected ?
				file_name(r, f->fd, f->dir, f->name, f->mode, f->mtime) :
				EPROTO;
		if (error)
			complain(u, 0, error, "can't be written", f->name);
		else
			count(r, 1, 0, 0);
	}
	pthread_mutex_lock(&r->lock);
	close_file(f);
	pthread_mutex_unlock(&r->lock);
}

/*
 * What the file has of bytes: the temporary file that an attempt before has left, or else the file
 * that is there. Return: 0 or an errno.
 */
static int file_have(struct open_file *f, uint64_t *digests, size_t *blocks)
{
	struct stat st;
	uint64_t have;
	int from = f->fd;

	if (fstat(f->fd, &st))
		return errno;
	if (!st.st_size) {
		f->basis = openat(f->dir, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (f->basis >= 0 && (fstat(f->basis, &st) || !S_ISREG(st.st_mode))) {
			close(f->basis);
			f->basis = -1;
			st.st_size = 0;
		}
		from = f->basis;
	}
	have = (uint64_t)st.st_size < f->size ? (uint64_t)st.st_size : f->size;
	/* What is not compared must be zero where nothing is sent. */
	if (have > (uint64_t)DIGESTS_MAX * FILES_BLOCK)
		have = (uint64_t)DIGESTS_MAX * FILES_BLOCK;
	*blocks = from < 0 ? 0 : (size_t)((have + FILES_BLOCK - 1) / FILES_BLOCK);
	f->blocks = *blocks;
	if (f->basis < 0 && have && have < (uint64_t)st.st_size && ftruncate(f->fd, (off_t)have))
		return errno;
	if (ftruncate(f->fd, (off_t)f->size))
		return errno;
	return *blocks ? files_digests(from, f->size, digests, *blocks) : 0;
}

static int unpack_open(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	struct files_record have = { .type = FILES_HAVE, .id = record->id };
	const int dir = parent_of(u);
	uint64_t *digests;
	struct open_file *f;
	char temp[FILES_TEMP], *to;
	size_t blocks = 0;
	int error;

	if (!record->id || record->size > LENGTH_MAX)
		return EPROTO;
	f = file_place(u->receiver, record->id);
	if (!f)
		return EPROTO;
	f->size = record->size;
	f->mode = record->mode;
	f->mtime = time_of(record);
	strcpy(f->name, u->name);
	files_temp_name(u->name, temp);
	digests = malloc(DIGESTS_MAX * sizeof(*digests));
	f->dir = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 0);
	f->fd = f->dir < 0 || !digests ? -1 : temp_open(f->dir, temp);
	error = !digests ? ENOMEM : f->fd < 0 ? errno : file_have(f, digests, &blocks);
	if (error) {
		complain(u, record->id, error, "can't be made", u->path);
		pthread_mutex_lock(&u->receiver->lock);
		close_file(f);
		pthread_mutex_unlock(&u->receiver->lock);
	} else {
		have.data_length = (uint32_t)(blocks * sizeof(*digests));
		to = files_chunk_add(&u->reply, &have, "");
		if (to && blocks)
			memcpy(to, digests, have.data_length);
		pthread_mutex_lock(&u->receiver->lock);
		f->usable = true;
		pthread_mutex_unlock(&u->receiver->lock);
	}
	free(digests);
	return 0;
}

/* Bytes that are under the file's name already. Return: 0 or an errno. */
static int copy_same(const struct open_file *f, uint64_t offset, uint64_t size)
{
	loff_t from = (loff_t)offset, to = (loff_t)offset;
	char *block;
	ssize_t n;
	int error;

	while (size && (n = copy_file_range(f->basis, &from, f->fd, &to, size, 0)) > 0)
		size -= (uint64_t)n;
	if (!size)
		return 0;
	block = malloc(FILES_BLOCK);
	error = block ? 0 : ENOMEM;
	while (!error && size) {
		const size_t step = size < FILES_BLOCK ? size : FILES_BLOCK;

		error = files_read(f->basis, block, step, (uint64_t)from);
		if (!error)
			error = files_write(f->fd, block, step, (uint64_t)from);
		from += (loff_t)step;
		size -= step;
	}
	free(block);
	return error;
}

static int make_hole(const struct open_file *f, uint64_t offset, uint64_t size)
{
	static const char zeroes[FILES_BLOCK];
	int error = 0;

	if (f->basis >= 0 || !fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)offset, (off_t)size))
		return 0;
	if (errno != EOPNOTSUPP)
		return errno;
	while (!error && size) {
		const size_t step = size < FILES_BLOCK ? size : FILES_BLOCK;

		error = files_write(f->fd, zeroes, step, offset);
		offset += step;
		size -= step;
	}
	return error;
}

static int unpack_range(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const uint64_t size = record->type == FILES_DATA ? record->data_length : record->size;
	struct open_file *f = file_get(u->receiver, record->id);
	int error = 0;

	/* It was reported when it could not be written, and given up. */
	if (!f)
		return 0;
	if (!range_take(u->receiver, f, record, size)) {
		file_put(u, f, true);
		return EPROTO;
	}
	if (f->failed)
		error = 0;
	else if (record->type == FILES_DATA)
		error = files_write(f->fd, u->reader.data, record->data_length, record->offset);
	else if (record->type == FILES_ZERO)
		error = make_hole(f, record->offset, size);
	else if (f->basis >= 0)
		error = copy_same(f, record->offset, size);
	if (error)
		complain(u, 0, error, "can't be written", f->name);
	count(u->receiver, 0, record->type == FILES_ZERO ? 0 : size,
	      record->type == FILES_DATA ? size : 0);
	file_put(u, f, error != 0);
	return 0;
}

static int unpack_close(struct unpack *u)
{
	struct open_file *f = file_get(u->receiver, u->reader.record.id);
	const bool give_up = u->reader.record.type == FILES_GIVE_UP;

	if (!f)
		return 0;
	if (u->reader.record.size > f->size) {
		file_put(u, f, true);
		return EPROTO;
	}
	/* The sender of a push has reported it where the user is. */
	if (give_up && !f->failed && u->report)
		complain(u, 0, EIO, "is not copied: the sender gives up", f->name);
	pthread_mutex_lock(&u->receiver->lock);
	f->expected = u->reader.record.size;
	pthread_mutex_unlock(&u->receiver->lock);
	file_put(u, f, give_up);
	return 0;
}

void files_receiver_end(struct files_receiver *r,
			void (*report)(void *arg, int error, const char *text), void *arg)
{
	char text[FILES_TEXT_MAX];
	size_t i;

	for (i = 0; i < FILES_OPEN_MAX; i++) {
		if (!r->files[i].taken)
			continue;
		snprintf(text, sizeof(text), "%s is not whole", r->files[i].name);
		report(arg, EPROTO, text);
	}
}

static int unpack_error(struct unpack *u)
{
	char text[FILES_TEXT_MAX];
	const int error = files_chunk_text(&u->reader, text);

	if (u->report)
		u->report(u->arg, error, text);
	return 0;
}

/* Return: 0 or EPROTO. */
static int unpack_record(struct unpack *u)
{
	const uint16_t type = u->reader.record.type;
	int error;
	int (*const named[])(struct unpack * u) = {
		[FILES_FILE] = unpack_short,    [FILES_SYMLINK] = unpack_link,
		[FILES_DIR] = unpack_directory, [FILES_DIR_END] = unpack_directory_end,
		[FILES_OPEN] = unpack_open,
	};

	u->reader.record.mode &= type == FILES_ERROR ? UINT16_MAX : FILES_MODE;
	if (u->reader.record.mtime_ns >= 1000000000)
		return EPROTO;
	switch (type) {
	case FILES_FILE:
	case FILES_SYMLINK:
	case FILES_DIR:
	case FILES_DIR_END:
	case FILES_OPEN:
		error = take_path(u);
		return error == ENAMETOOLONG ? too_long(u) : error ? error : named[type](u);
	case FILES_DATA:
	case FILES_ZERO:
	case FILES_SAME:
		return unpack_range(u);
	case FILES_CLOSE:
	case FILES_GIVE_UP:
		return unpack_close(u);
	case FILES_ERROR:
		return unpack_error(u);
	}
	return EPROTO;
}

int files_receiver_chunk(struct files_receiver *r, const char *chunk, uint32_t length, char *reply,
			 uint32_t *reply_length,
			 void (*report)(void *arg, int error, const char *text), void *arg)
{
	struct unpack *u = calloc(1, sizeof(*u));
	int rc, more = 0;

	*reply_length = 0;
	if (!u)
		return ENOMEM;
	u->receiver = r;
	u->report = report;
	u->arg = arg;
	u->parent = -1;
	files_chunk_begin(&u->reply, reply);
	rc = files_chunk_open(&u->reader, chunk, length);
	while (!rc && (more = files_chunk_next(&u->reader)) > 0)
		rc = unpack_record(u);
	if (!rc && more < 0)
		rc = EPROTO;
	if (!rc)
		*reply_length = files_chunk_end(&u->reply);
	if (u->parent >= 0)
		close(u->parent);
	free(u);
	return rc;
}
