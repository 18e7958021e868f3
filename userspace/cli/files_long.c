// SPDX-License-Identifier: GPL-2.0
/* The receiver of files: long ones, which come in ranges and stay open from chunk to chunk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_receive.h"

#define LENGTH_MAX INT64_MAX
#define NOT_YET    UINT64_MAX
/* Of all files that are open, a peer has so many digests kept, those of 2 TiB. */
#define KEPT_MAX (1U << 21)

void receive_close_file(struct files_receiver *r, struct open_file *f)
{
	char temp[FILES_TEMP];

	/* Nobody finds it to go on with. */
	files_temp_name(f->name, temp);
	if (f->fd >= 0 && strcmp(temp, f->temp) != 0)
		files_temp_remove(f->fd, f->dir, f->temp);
	close(f->fd);
	close(f->dir);
	if (f->basis >= 0)
		close(f->basis);
	free(f->digests);
	r->kept -= f->kept;
	f->taken = false;
}

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

	if (record->type != FILES_DATA)
		good = good && size <= FILES_BLOCK - record->offset % FILES_BLOCK;
	/* A digest is that of a block. */
	if (record->type == FILES_SAME)
		good = good && record->offset % FILES_BLOCK == 0 &&
		       (size == FILES_BLOCK || size == f->size - record->offset);
	pthread_mutex_lock(&r->lock);
	/* What takes no bytes of a chunk takes time here: it is within one block that is compared. */
	if (record->type != FILES_DATA)
		good = good && record->offset / FILES_BLOCK < f->blocks;
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
				files_temp_finish(r, f->fd, f->dir, f->temp, f->name, f->mode,
						  f->mtime, true) :
				EPROTO;
		if (error)
			receive_complain(u, 0, error, "can't be written", f->name);
		else
			receive_count(u, 1, 0, 0);
	}
	pthread_mutex_lock(&r->lock);
	receive_close_file(r, f);
	pthread_mutex_unlock(&r->lock);
}

/*
 * Room for digests of a file, which are kept if they are those of its basis: blocks that there is
 * no room for are sent. Return: blocks.
 */
static uint64_t file_room(struct files_receiver *r, struct open_file *f, uint64_t blocks)
{
	if (f->basis < 0)
		return blocks;
	pthread_mutex_lock(&r->lock);
	if (blocks > KEPT_MAX - r->kept)
		blocks = KEPT_MAX - r->kept;
	f->kept = (size_t)blocks;
	r->kept += f->kept;
	pthread_mutex_unlock(&r->lock);
	return blocks;
}

/*
 * What the file has of bytes: the temporary file that an attempt before has left, or else the file
 * that is there. Return: 0 or an errno.
 */
static int file_have(struct files_receiver *r, struct open_file *f)
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
	if (from >= 0)
		f->comparable = file_room(r, f, (have + FILES_BLOCK - 1) / FILES_BLOCK);
	/* What is not compared must be zero where nothing is sent. */
	if (have > f->comparable * FILES_BLOCK)
		have = f->comparable * FILES_BLOCK;
	if (f->basis < 0 && have && have < (uint64_t)st.st_size && ftruncate(f->fd, (off_t)have))
		return errno;
	if (ftruncate(f->fd, (off_t)f->size))
		return errno;
	if (f->basis < 0 || !f->comparable)
		return 0;
	f->digests = malloc(f->comparable * sizeof(*f->digests));
	return f->digests ? 0 : ENOMEM;
}

/* Reply with the digests of the next blocks, perhaps none. Return: 0 or an errno. */
static int tell_digests(struct unpack *u, struct open_file *f)
{
	struct files_record have = { .type = FILES_HAVE, .id = f->id };
	struct files_receiver *r = u->receiver;
	const int from = f->basis < 0 ? f->fd : f->basis;
	uint64_t *digests, left = f->comparable - f->blocks;
	const size_t n = left < FILES_HAVE_MAX ? (size_t)left : FILES_HAVE_MAX;
	char *to;
	int error;

	u->last |= n > 0;
	digests = f->digests ? f->digests + f->blocks : malloc(n * sizeof(*digests) + 1);
	error = digests ? files_digests(from, f->size, f->blocks, digests, n, &r->stopped) : ENOMEM;
	if (!error) {
		have.data_length = (uint32_t)(n * sizeof(*digests));
		to = files_chunk_add(&u->reply, &have, "");
		if (to && n)
			memcpy(to, digests, have.data_length);
		pthread_mutex_lock(&r->lock);
		f->blocks += n;
		pthread_mutex_unlock(&r->lock);
	}
	if (!f->digests)
		free(digests);
	return error;
}

int receive_open(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const int dir = receive_parent(u);
	struct files_receiver *r = u->receiver;
	struct open_file *f;
	int error;

	if (!record->id || record->size > LENGTH_MAX)
		return EPROTO;
	f = file_place(r, record->id);
	if (!f)
		return EPROTO;
	f->size = record->size;
	f->mode = record->mode;
	f->mtime = receive_time(record);
	strcpy(f->name, u->name);
	f->dir = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 0);
	f->fd = f->dir < 0 ? -1 : files_temp_open(f->dir, f->name, f->temp);
	error = f->fd < 0 ? errno : file_have(r, f);
	if (!error)
		error = tell_digests(u, f);
	if (error) {
		receive_complain(u, record->id, error, "can't be made", u->path);
		pthread_mutex_lock(&r->lock);
		receive_close_file(r, f);
		pthread_mutex_unlock(&r->lock);
	} else {
		pthread_mutex_lock(&r->lock);
		f->usable = true;
		pthread_mutex_unlock(&r->lock);
	}
	return 0;
}

/* What is behind the digests that the sender has. */
int receive_more(struct unpack *u)
{
	const uint32_t id = u->reader.record.id;
	struct open_file *f = file_get(u->receiver, id);
	struct files_receiver *r = u->receiver;
	bool twice;
	int error;

	if (!f)
		return EPROTO;
	u->last = true;
	pthread_mutex_lock(&r->lock);
	twice = f->asked;
	f->asked = true;
	pthread_mutex_unlock(&r->lock);
	error = twice ? EPROTO : tell_digests(u, f);
	if (error && !twice)
		receive_complain(u, id, error, "can't be compared", f->name);
	pthread_mutex_lock(&r->lock);
	f->asked = twice;
	/* The sender ends it as well. */
	if (error)
		f->expected = 0;
	pthread_mutex_unlock(&r->lock);
	file_put(u, f, error != 0);
	return twice ? EPROTO : 0;
}

/*
 * A block that is under the file's name already. It may have changed since the sender was told its digest:
 * what was copied is compared. Return: 0 or an errno; EAGAIN: it has changed.
 */
static int copy_same(const struct open_file *f, uint64_t offset, uint64_t size)
{
	loff_t from = (loff_t)offset, to = (loff_t)offset;
	uint64_t left = size;
	char *block;
	ssize_t n;
	int error = 0;

	block = malloc(FILES_BLOCK);
	if (!block)
		return ENOMEM;
	while (left && (n = copy_file_range(f->basis, &from, f->fd, &to, left, 0)) > 0)
		left -= (uint64_t)n;
	if (left)
		error = files_read(f->basis, block, left, (uint64_t)from);
	if (left && !error)
		error = files_write(f->fd, block, left, (uint64_t)from);
	if (!error)
		error = files_read(f->fd, block, size, offset);
	if (!error && files_digest(block, size) != f->digests[offset / FILES_BLOCK])
		error = EAGAIN;
	free(block);
	return error;
}

/* To disk at once, so that there is little left to wait for in the end. Return: 0 or an errno. */
static int write_data(const struct open_file *f, const char *data, uint32_t length, uint64_t offset)
{
	const int error = files_write(f->fd, data, length, offset);

	if (!error)
		sync_file_range(f->fd, (off_t)offset, length, SYNC_FILE_RANGE_WRITE);
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

int receive_range(struct unpack *u)
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
		error = write_data(f, u->reader.data, record->data_length, record->offset);
	else if (record->type == FILES_ZERO)
		error = make_hole(f, record->offset, size);
	else if (f->basis >= 0)
		error = copy_same(f, record->offset, size);
	if (error)
		receive_complain(u, 0, error, "can't be written", f->name);
	if (!f->failed && !error)
		receive_count(u, 0, record->type == FILES_ZERO ? 0 : size,
			      record->type == FILES_DATA ? size : 0);
	file_put(u, f, error != 0);
	return 0;
}

int receive_close(struct unpack *u)
{
	struct open_file *f = file_get(u->receiver, u->reader.record.id);
	const bool give_up = u->reader.record.type == FILES_GIVE_UP;
	bool whole;

	if (!f)
		return 0;
	if (u->reader.record.size > f->size) {
		file_put(u, f, true);
		return EPROTO;
	}
	/* The sender of a push has reported it where the user is. */
	if (give_up && !f->failed && u->report)
		receive_complain(u, 0, EIO, "is not copied: the sender gives up", f->name);
	pthread_mutex_lock(&u->receiver->lock);
	/* What it did not ask for may be anything where it has a hole. */
	whole = give_up || f->blocks == f->comparable;
	f->expected = u->reader.record.size;
	pthread_mutex_unlock(&u->receiver->lock);
	file_put(u, f, give_up || !whole);
	return whole ? 0 : EPROTO;
}

void files_receiver_end(struct files_receiver *r,
			void (*report)(void *arg, int error, const char *text), void *arg)
{
	/* Of a tree, nothing may be what there is. */
	const bool one = r->expected && !(r->flags & FILES_RECURSIVE);
	char text[FILES_TEXT_MAX];
	size_t i;

	if (one && !r->counts.files && !r->told) {
		snprintf(text, sizeof(text), "%s is not whole", *r->expected ? r->expected : ".");
		report(arg, EPROTO, text);
		return;
	}
	for (i = 0; i < FILES_OPEN_MAX; i++) {
		if (!r->files[i].taken)
			continue;
		snprintf(text, sizeof(text), "%s is not whole", r->files[i].name);
		report(arg, EPROTO, text);
	}
}
