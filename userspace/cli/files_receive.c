// SPDX-License-Identifier: GPL-2.0
/* The receiver of files: unpacks chunks into a directory. Each byte of a chunk may be a lie. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_receive.h"

#define PAGE 4096

static int base_open(int dir, const char *path, uint64_t resolve, unsigned int flags, char *top)
{
	const bool into = flags & FILES_INTO, sync = flags & FILES_SYNC;
	char parent[FILES_PATH_MAX + 1];
	const char *name, *slash;
	size_t length = strlen(path);
	struct stat st;
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
	/* A device that a link of this host leads to is kept as well: /dev/stdout. */
	if (fd >= 0 && !resolve && !fstatat(fd, top, &st, 0) && !S_ISREG(st.st_mode)) {
		close(fd);
		errno = EEXIST;
		return -1;
	}
	if (fd < 0 || !into)
		return fd;
	dir = fd;
	fd = mkdirat(dir, top, 0777) || (sync && fsync(dir)) ?
		     -1 :
		     files_open_inside(dir, top, O_RDONLY | O_DIRECTORY);
	close(dir);
	*top = '\0';
	return fd;
}

struct files_receiver *files_receiver_new(int dir, const char *path, uint64_t resolve,
					  unsigned int flags, const char *expected)
{
	struct files_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->flags = flags;
	r->expected = expected ? strdup(expected) : NULL;
	r->base = expected && !r->expected ? -1 : base_open(dir, path, resolve, flags, r->top);
	if (r->base < 0) {
		free(r->expected);
		free(r);
		return NULL;
	}
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

void files_receiver_free(struct files_receiver *r)
{
	size_t i;

	if (!r)
		return;
	/* What is not whole stays under its temporary name, to be gone on with. */
	for (i = 0; i < FILES_OPEN_MAX; i++)
		if (r->files[i].taken)
			receive_close_file(r, &r->files[i]);
	if (r->base >= 0)
		close(r->base);
	free(r->expected);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void files_receiver_stop(struct files_receiver *r)
{
	r->stopped = true;
}

struct files_counts files_receiver_counts(struct files_receiver *r)
{
	struct files_counts counts;

	pthread_mutex_lock(&r->lock);
	counts = r->counts;
	pthread_mutex_unlock(&r->lock);
	return counts;
}

void receive_count(struct unpack *u, uint64_t files, uint64_t bytes, uint64_t sent)
{
	struct files_receiver *r = u->receiver;

	u->counts.files += files;
	u->counts.bytes += bytes;
	u->counts.sent += sent;
	pthread_mutex_lock(&r->lock);
	r->counts.files += files;
	r->counts.bytes += bytes;
	r->counts.sent += sent;
	pthread_mutex_unlock(&r->lock);
}

static void say(struct unpack *u, int error, const char *text)
{
	pthread_mutex_lock(&u->receiver->lock);
	u->receiver->told = true;
	pthread_mutex_unlock(&u->receiver->lock);
	u->report(u->arg, error, text);
}

void receive_complain(struct unpack *u, uint32_t id, int error, const char *what, const char *path)
{
	char text[FILES_TEXT_MAX];

	snprintf(text, sizeof(text), "%s %s: %s", path, what,
		 error == EBUSY  ? "another client is copying it" :
		 error == EAGAIN ? "the file that is there has changed meanwhile" :
				   strerror(error));
	if (error == EAGAIN)
		error = EBUSY;
	/* All threads may find that the disk is full: one tells. */
	if (u->report && files_disk_is_full(error) && atomic_exchange(&u->receiver->full, error))
		return;
	if (u->report)
		say(u, error, text);
	/* The sender of a file that is not open has to know it. */
	if (id || (!u->report && ++u->errors <= FILES_ERRORS_MAX))
		files_chunk_error(&u->reply, id, error, u->report ? "" : text);
}

/* ---- Where a record's path leads ---- */

/* Is a path what was asked for? The sender may know of files here that it was not asked for. */
static bool asked_for(const struct files_receiver *r, uint16_t type, const char *path)
{
	const size_t first = strcspn(path, "/");

	if (!(r->flags & FILES_RECURSIVE) &&
	    (type == FILES_DIR || type == FILES_DIR_END || type == FILES_SYMLINK || path[first] ||
	     (r->expected && !*r->expected)))
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

	receive_complain(u, asks ? record->id : 0, ENAMETOOLONG, "can't be made", u->path);
	return 0;
}

/* The directory of the path. Return: a descriptor that stays this unpack's, or -1. */
int receive_parent(struct unpack *u)
{
	const size_t length = (size_t)(u->name - u->path);

	if (u->parent >= 0 && strlen(u->parent_path) == length &&
	    !memcmp(u->parent_path, u->path, length))
		return u->parent;
	if (u->parent >= 0)
		close(u->parent);
	u->parent = files_open_parent(u->receiver->base, u->path, u->receiver->flags & FILES_SYNC);
	memcpy(u->parent_path, u->path, length);
	u->parent_path[length] = '\0';
	return u->parent;
}

/* ---- Short files, links, directories ---- */

/* Pages of zeroes are left out. @holes: out: are there any? Return: 0 or an errno. */
static int write_sparse(int fd, const char *data, uint32_t length, bool *holes)
{
	static const char zeroes[PAGE];
	uint32_t at, n;
	int error = 0;

	for (at = 0; !error && at < length; at += n) {
		n = length - at < PAGE ? length - at : PAGE;
		if (memcmp(data + at, zeroes, n) != 0)
			error = files_write(fd, data + at, n, at);
		else
			*holes = true;
	}
	return error;
}

static int unpack_short(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const int dir = receive_parent(u);
	char temp[FILES_TEMP];
	bool holes = false;
	int fd, error;

	if (record->data_length != record->size)
		return EPROTO;
	fd = dir < 0 ? -1 : files_temp_open(dir, u->name, temp);
	if (fd < 0) {
		receive_complain(u, 0, errno, "can't be made", u->path);
		return 0;
	}
	/* It may be left of an attempt before. */
	error = ftruncate(fd, 0) ? errno : 0;
	if (!error && record->flags & FILES_SPARSE)
		error = write_sparse(fd, u->reader.data, record->data_length, &holes);
	else if (!error)
		error = files_write(fd, u->reader.data, record->data_length, 0);
	if (!error && record->flags & FILES_SPARSE && ftruncate(fd, (off_t)record->size))
		error = errno;
	if (!error)
		error = files_temp_finish(u->receiver, fd, dir, temp, u->name, record->mode,
					  receive_time(record), holes);
	if (error) {
		files_temp_remove(fd, dir, temp);
		receive_complain(u, 0, error, "can't be written", u->path);
	} else {
		receive_count(u, 1, record->size, record->data_length);
	}
	close(fd);
	return 0;
}

static int unpack_link(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	char target[FILES_PATH_MAX + 1];
	const int dir = receive_parent(u);
	int error;

	if (!record->data_length || record->data_length > FILES_PATH_MAX)
		return EPROTO;
	memcpy(target, u->reader.data, record->data_length);
	target[record->data_length] = '\0';
	if (strlen(target) != record->data_length)
		return EPROTO;
	error = dir < 0 ? errno :
			  files_temp_link(u->receiver, dir, target, u->name, receive_time(record));
	if (error)
		receive_complain(u, 0, error, "can't be made", u->path);
	else
		receive_count(u, 1, 0, 0);
	return 0;
}

/* The reply to FILES_ASK. Return: 0 or an errno. */
static int tell_entries(struct unpack *u, bool fresh)
{
	struct files_record list = { .type = FILES_LIST, .id = u->reader.record.id };
	char *entries = fresh ? NULL : malloc(FILES_BLOCK), *to;
	int fd;

	u->last = true;
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
	const int dir = *u->path ? receive_parent(u) : u->receiver->base;
	const bool fresh = *u->path && dir >= 0 && !mkdirat(dir, u->name, 0700);
	int error = fresh || !*u->path ? 0 : errno;
	struct stat st;

	/* A symbolic link is none: it could lead out of here. */
	if (error == EEXIST)
		error = fstatat(dir, u->name, &st, AT_SYMLINK_NOFOLLOW) ? errno :
			S_ISDIR(st.st_mode)                             ? 0 :
									  ENOTDIR;
	if (!error && fresh)
		error = files_temp_sync(u->receiver, dir);
	if (!error && record->flags & FILES_ASK)
		error = tell_entries(u, fresh);
	if (error)
		receive_complain(u, record->flags & FILES_ASK ? record->id : 0, error,
				 "can't be made", *u->path ? u->path : ".");
	else
		receive_count(u, *u->path != 0, 0, 0);
	return 0;
}

static int unpack_directory_end(struct unpack *u)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  receive_time(&u->reader.record) };
	const int fd = files_open_inside(u->receiver->base, u->path, O_RDONLY | O_DIRECTORY);
	struct stat st;

	/* It may have been there, as a directory for all, or of a group. */
	if (fd < 0 || fstat(fd, &st) || fchmod(fd, u->reader.record.mode | (st.st_mode & 07000)) ||
	    futimens(fd, times))
		receive_complain(u, 0, errno, "can't get its mode and time", u->path);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int unpack_error(struct unpack *u)
{
	char text[FILES_TEXT_MAX];
	const int error = files_chunk_text(&u->reader, text);

	if (u->report)
		say(u, error, text);
	return 0;
}

/* Return: 0 or EPROTO; of a stream, another errno as well. */
static int unpack_record(struct unpack *u)
{
	const uint16_t type = u->reader.record.type;
	int error;
	int (*const named[])(struct unpack * u) = {
		[FILES_FILE] = unpack_short,    [FILES_SYMLINK] = unpack_link,
		[FILES_DIR] = unpack_directory, [FILES_DIR_END] = unpack_directory_end,
		[FILES_OPEN] = receive_open,
	};

	if (u->last)
		return EPROTO;
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
		if (!error && u->receiver->base < 0)
			return receive_stream(u);
		return error == ENAMETOOLONG ? too_long(u) : error ? error : named[type](u);
	case FILES_DATA:
	case FILES_ZERO:
	case FILES_SAME:
		if (u->receiver->base < 0)
			return receive_stream(u);
		return receive_range(u);
	case FILES_MORE:
		return u->receiver->base < 0 ? EPROTO : receive_more(u);
	case FILES_CLOSE:
	case FILES_GIVE_UP:
		if (u->receiver->base < 0)
			return receive_stream(u);
		return receive_close(u);
	case FILES_ERROR:
		return unpack_error(u);
	}
	return EPROTO;
}

/* There is room, as for errors. */
static void tell_done(struct unpack *u)
{
	const struct files_record done = {
		.type = FILES_DONE,
		.id = (uint32_t)u->counts.files,
		.size = u->counts.bytes,
		.offset = u->counts.sent,
	};

	if (done.id || done.size)
		files_chunk_add(&u->reply, &done, "");
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
	while (!rc && !r->full && !r->stopped && (more = files_chunk_next(&u->reader)) > 0)
		rc = unpack_record(u);
	if (!rc && more < 0)
		rc = EPROTO;
	if (!rc)
		rc = r->stopped ? ECANCELED : r->full;
	if (!rc && !report)
		tell_done(u);
	if (!rc)
		*reply_length = files_chunk_end(&u->reply);
	if (u->parent >= 0)
		close(u->parent);
	free(u);
	return rc;
}
