// SPDX-License-Identifier: GPL-2.0
/* The sender of files: walks directories, and packs what it finds into chunks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

/* Less data of a long file is left to the next chunk. */
#define DATA_MIN 4096
/* Ranges of a long file in a chunk: blocks that are compared take time, too. */
#define RANGES_PER_CHUNK 64
/* Bytes of lists of what the receiver has, in the directories that are being read. */
#define LISTS_MAX (4 * FILES_BLOCK)

/* A directory that is being read. */
struct level {
	DIR *dir;
	size_t path_length; /* of its own path */
	bool fresh;         /* the receiver has just made it */
	bool visited;       /* it is the first of those that were sent */
	uint32_t asked;     /* what the receiver has in it; 0: nothing was asked, or is answered */
	struct files_list *list;
	uint32_t list_bytes;
};

/* A directory that was sent, whose mode and time are sent in the end. */
struct visited {
	struct visited *next; /* the one that was left before */
	struct stat st;
	char path[];
};

/* The long file that is being sent. */
struct long_file {
	int fd; /* -1: none */
	bool asked, known, closed;
	uint32_t id;
	struct stat st;
	uint64_t size, at, counted;
	uint64_t *digests; /* of the blocks from @first to @blocks */
	uint64_t first, blocks;
	bool more; /* the receiver may have digests of further blocks */
	char path[FILES_PATH_MAX + 1];
};

struct files_sender {
	pthread_mutex_t lock;
	pthread_cond_t replied;
	const struct files_operand *operands;
	size_t count, next;
	unsigned int flags;
	_Atomic bool stopped; /* also without the lock, which is held while a disk is read */
	bool broken;
	void (*report)(void *arg, int error, const char *text);
	void *arg;

	/* The walk: an entry that did not fit into the last chunk stays for the next one. */
	struct level levels[FILES_DEPTH_MAX + 1]; /* one for "", and for each name of a path */
	size_t depth;
	uint32_t list_bytes; /* of all levels */
	char path[FILES_PATH_MAX + 1];
	bool again; /* the same name once more */
	int entry;  /* an open file that is next, or -1 */
	struct stat entry_st;
	struct visited *visited;

	struct long_file file;
	uint32_t ids;
	uint64_t under_way;         /* chunks without a reply */
	struct files_writer writer; /* of the chunk that is being packed */
	int pending;                /* an error that did not fit into it, or 0 */
	char pending_text[FILES_TEXT_MAX];
	struct files_counts counts;
};

struct files_sender *files_sender_new(const struct files_operand *operands, size_t count,
				      unsigned int flags,
				      void (*report)(void *arg, int error, const char *text),
				      void *arg)
{
	struct files_sender *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->operands = operands;
	s->count = count;
	s->flags = flags;
	s->report = report;
	s->arg = arg;
	s->entry = -1;
	s->file.fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->replied, NULL);
	return s;
}

static void level_end(struct files_sender *s)
{
	struct level *level = &s->levels[--s->depth];

	closedir(level->dir);
	files_list_free(level->list);
	level->list = NULL;
	s->list_bytes -= level->list_bytes;
	level->list_bytes = 0;
}

void files_sender_free(struct files_sender *s)
{
	struct visited *v;

	if (!s)
		return;
	while (s->depth)
		level_end(s);
	while ((v = s->visited)) {
		s->visited = v->next;
		free(v);
	}
	if (s->entry >= 0)
		close(s->entry);
	if (s->file.fd >= 0)
		close(s->file.fd);
	free(s->file.digests);
	pthread_cond_destroy(&s->replied);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* For the next chunk, as this one is full: packing ends here. */
static void pend(struct files_sender *s, int error, const char *text)
{
	s->pending = error;
	snprintf(s->pending_text, sizeof(s->pending_text), "%s", text);
}

/* What can't be sent is reported, and left out. */
static __attribute__((format(printf, 3, 4))) void complain(struct files_sender *s, int error,
							   const char *fmt, ...)
{
	char text[FILES_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (s->report)
		s->report(s->arg, error, text);
	else if (!files_chunk_error(&s->writer, 0, error, text))
		pend(s, error, text);
}

static struct files_record record_of(enum files_type type, const char *path, const struct stat *st)
{
	return (struct files_record){
		.type = (uint16_t)type,
		.path_length = (uint16_t)strlen(path),
		.mode = st->st_mode & FILES_MODE,
		.mtime = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
	};
}

static bool sparse(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size;
}

static bool changed(const struct stat *a, const struct stat *b)
{
	return a->st_size != b->st_size || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
	       a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

/* ---- Long files ---- */

static void file_begin(struct files_sender *s, int fd, const struct stat *st)
{
	struct long_file *f = &s->file;

	*f = (struct long_file){
		.fd = fd,
		.id = ++s->ids,
		.st = *st,
		.size = (uint64_t)st->st_size,
	};
	strcpy(f->path, s->path);
}

static void file_end(struct files_sender *s)
{
	close(s->file.fd);
	free(s->file.digests);
	s->file.digests = NULL;
	s->file.fd = -1;
}

static struct files_record range_of(const struct long_file *f, enum files_type type, uint64_t size)
{
	return (struct files_record){
		.type = (uint16_t)type,
		.id = f->id,
		.offset = f->at,
		.size = size,
	};
}

/* A hole, or bytes that the receiver has. Return: false if the chunk is full. */
static bool file_skip(struct files_sender *s, enum files_type type, uint64_t size)
{
	struct long_file *f = &s->file;
	const struct files_record record = range_of(f, type, size);

	if (!files_chunk_add(&s->writer, &record, ""))
		return false;
	f->counted += size;
	f->at += size;
	return true;
}

/* Bytes from here to @end. Return: false if the chunk is full, or the file can't be read. */
static bool file_data(struct files_sender *s, uint64_t end, int *error)
{
	struct long_file *f = &s->file;
	const uint32_t room = files_chunk_room(&s->writer, 0) & ~7U;
	struct files_record record = range_of(f, FILES_DATA, 0);
	const uint32_t before = s->writer.used;
	size_t left;
	char *to;

	if (room < DATA_MIN && room < end - f->at)
		return false;
	record.data_length = end - f->at < room ? (uint32_t)(end - f->at) : room;
	to = files_chunk_add(&s->writer, &record, "");
	left = record.data_length;
	*error = files_read_all(f->fd, to, &left, f->at);
	if (*error) {
		/* The next call fails as well, and gives up when there is room for it. */
		s->writer.used = before;
		return false;
	}
	f->at += record.data_length;
	f->counted += record.data_length;
	return true;
}

/* Is this block of the file what the receiver has? */
static bool block_same(struct files_sender *s, uint64_t length, int *error)
{
	struct long_file *f = &s->file;
	uint64_t digest;
	size_t left;
	char *block;

	block = malloc(FILES_BLOCK);
	if (!block) {
		*error = ENOMEM;
		return false;
	}
	left = length;
	*error = files_read_all(f->fd, block, &left, f->at);
	digest = files_digest(block, length);
	free(block);
	return !*error && digest == f->digests[f->at / FILES_BLOCK - f->first];
}

/* The next range of the file, or the rest of a block. Return: false if the chunk is full. */
static bool file_range(struct files_sender *s, int *error)
{
	struct long_file *f = &s->file;
	const uint64_t block_end = (f->at / FILES_BLOCK + 1) * FILES_BLOCK;
	uint64_t end = block_end < f->size ? block_end : f->size;
	const bool compare = f->at / FILES_BLOCK < f->blocks;
	uint64_t data;

	/* Within a block that differs, what is a hole here need not be one there. */
	if (compare && f->at % FILES_BLOCK == 0 && block_same(s, end - f->at, error))
		return file_skip(s, FILES_SAME, end - f->at);
	if (*error)
		return false;
	data = files_next_data(f->fd, f->at, f->size);
	if (data > f->at) {
		if (compare)
			return file_skip(s, FILES_ZERO, (data < end ? data : end) - f->at);
		f->at = data;
		return true;
	}
	data = files_next_hole(f->fd, f->at, f->size);
	return file_data(s, data < end ? data : end, error);
}

static bool must_ask(const struct long_file *f)
{
	return f->more && f->at < f->size && f->at / FILES_BLOCK == f->blocks;
}

/* Return: false to end the chunk here. */
static bool file_pack(struct files_sender *s)
{
	struct long_file *f = &s->file;
	struct files_record record;
	struct stat st;
	unsigned int n;
	int error = 0;

	if (!f->asked) {
		record = record_of(FILES_OPEN, f->path, &f->st);
		record.id = f->id;
		f->asked = files_chunk_add(&s->writer, &record, f->path);
		return false;
	}
	if (must_ask(f)) {
		record = range_of(f, FILES_MORE, 0);
		if (files_chunk_add(&s->writer, &record, ""))
			f->known = f->more = false;
		return false;
	}
	for (n = 0; f->at < f->size && n < RANGES_PER_CHUNK; n++)
		if (must_ask(f) || !file_range(s, &error))
			break;
	if (!error && f->at < f->size)
		return false;
	if (!error && !fstat(f->fd, &st) && changed(&st, &f->st))
		error = EAGAIN;
	record = range_of(f, error ? FILES_GIVE_UP : FILES_CLOSE, f->counted);
	if (!files_chunk_add(&s->writer, &record, ""))
		return false;
	if (error == EAGAIN)
		complain(s, EBUSY, "%s has changed while it was read", f->path);
	else if (error)
		complain(s, error, "%s can't be read: %s", f->path, strerror(error));
	file_end(s);
	return true;
}

/* ---- Short files, links, directories ---- */

/* Return: false if it does not fit into the chunk. */
static bool pack_short(struct files_sender *s)
{
	struct files_record record = record_of(FILES_FILE, s->path, &s->entry_st);
	const uint32_t before = s->writer.used;
	size_t left = (size_t)s->entry_st.st_size;
	struct stat st;
	int error;
	char *to, more;

	record.flags = sparse(&s->entry_st) ? FILES_SPARSE : 0;
	record.data_length = (uint32_t)record.size;
	to = files_chunk_add(&s->writer, &record, s->path);
	if (!to)
		return false;
	error = files_read_all(s->entry, to, &left, 0);
	if (!error && !fstat(s->entry, &st) && changed(&st, &s->entry_st))
		error = EAGAIN;
	/* A length of 0 may be none that is known, as in /proc. */
	if (!error && !record.size && pread(s->entry, &more, 1, 0) > 0)
		error = EFBIG;
	if (error)
		s->writer.used = before;
	if (error == EFBIG) {
		complain(s, error, "%s has bytes, and a length of 0: it can't be copied", s->path);
	} else if (error == EAGAIN) {
		complain(s, EBUSY, "%s has changed while it was read", s->path);
	} else if (error) {
		complain(s, error, "%s can't be read: %s", s->path, strerror(error));
	}
	close(s->entry);
	s->entry = -1;
	return true;
}

/* Return: false if it does not fit into the chunk. */
static bool pack_link(struct files_sender *s, int dir, const char *name)
{
	struct files_record record = record_of(FILES_SYMLINK, s->path, &s->entry_st);
	char target[FILES_PATH_MAX + 1], *to;
	const ssize_t length = readlinkat(dir, name, target, sizeof(target));

	if (length <= 0 || length > FILES_PATH_MAX) {
		complain(s, length < 0 ? errno : ENAMETOOLONG, "%s can't be read: %s", s->path,
			 strerror(length < 0 ? errno : ENAMETOOLONG));
		return true;
	}
	record.data_length = (uint32_t)length;
	to = files_chunk_add(&s->writer, &record, s->path);
	if (!to)
		return false;
	memcpy(to, target, (size_t)length);
	return true;
}

/* Descend into a directory. The descriptor is this function's. Return: false if it does not fit. */
static bool pack_directory(struct files_sender *s, int fd)
{
	struct files_record record = record_of(FILES_DIR, s->path, &s->entry_st);
	struct level *level = &s->levels[s->depth];
	const bool fresh = s->depth && level[-1].fresh;
	struct visited *v;

	if (!fresh && !(s->flags & FILES_ALL)) {
		record.flags = FILES_ASK;
		record.id = s->ids + 1;
	}
	level->dir = fdopendir(fd);
	if (!level->dir) {
		complain(s, errno, "%s can't be read: %s", s->path, strerror(errno));
		close(fd);
		return true;
	}
	if ((*s->path || record.flags) && !files_chunk_add(&s->writer, &record, s->path)) {
		closedir(level->dir);
		return false;
	}
	level->path_length = strlen(s->path);
	level->fresh = fresh;
	level->asked = record.id;
	s->ids += record.flags != 0;
	s->depth++;
	v = *s->path ? malloc(sizeof(*v) + level->path_length + 1) : NULL;
	level->visited = v;
	if (v) {
		v->st = s->entry_st;
		strcpy(v->path, s->path);
		v->next = s->visited;
		s->visited = v;
	}
	return true;
}

/* A file that is open. Return: false if it does not fit into the chunk. */
static bool pack_file(struct files_sender *s)
{
	if (s->entry_st.st_size <= FILES_BLOCK)
		return pack_short(s);
	file_begin(s, s->entry, &s->entry_st);
	s->entry = -1;
	return file_pack(s);
}

/*
 * An entry of a directory, or an operand. Nothing of it stays open but @entry. Return: false if it
 * does not fit into the chunk: it comes again.
 */
static bool pack_entry(struct files_sender *s, int dir, const char *name, uint64_t resolve,
		       int nofollow)
{
	int fd;

	if (*s->path && !files_path_ok(s->path, strlen(s->path))) {
		complain(s, ENAMETOOLONG,
			 "%s can't be copied: its name is reserved or too long, or it is too deep",
			 s->path);
		return true;
	}
	if (nofollow && fstatat(dir, name, &s->entry_st, AT_SYMLINK_NOFOLLOW)) {
		complain(s, errno, "%s can't be read: %s", s->path, strerror(errno));
		return true;
	}
	if (nofollow && S_ISLNK(s->entry_st.st_mode))
		return pack_link(s, dir, name);
	if (nofollow && !S_ISREG(s->entry_st.st_mode) && !S_ISDIR(s->entry_st.st_mode)) {
		complain(s, EOPNOTSUPP, "%s is no file, directory or symbolic link", s->path);
		return true;
	}
	if (nofollow && S_ISREG(s->entry_st.st_mode) && s->levels[s->depth - 1].list &&
	    files_list_has(s->levels[s->depth - 1].list, name, &s->entry_st)) {
		s->counts.files++;
		s->counts.bytes += files_allocated(&s->entry_st);
		return true;
	}
	fd = files_open_at(dir, name, O_RDONLY | O_NONBLOCK | nofollow, resolve);
	if (fd < 0 || fstat(fd, &s->entry_st)) {
		complain(s, errno, "%s can't be read: %s", nofollow ? s->path : name,
			 strerror(errno));
		if (fd >= 0)
			close(fd);
		return true;
	}
	if (S_ISDIR(s->entry_st.st_mode) && !(s->flags & FILES_RECURSIVE)) {
		complain(s, EISDIR, "%s is a directory, which needs -r", nofollow ? s->path : name);
		close(fd);
		return true;
	}
	if (S_ISDIR(s->entry_st.st_mode))
		return pack_directory(s, fd);
	if (!S_ISREG(s->entry_st.st_mode)) {
		complain(s, EOPNOTSUPP, "%s is no file or directory", nofollow ? s->path : name);
		close(fd);
		return true;
	}
	s->entry = fd;
	return pack_file(s);
}

/* The next name of the directory that is being read, in @path. Return: it, NULL if there is none. */
static const char *next_name(struct files_sender *s)
{
	struct level *level = &s->levels[s->depth - 1];
	size_t length = level->path_length;
	const struct dirent *d;

	if (s->again)
		return s->path + length + (length > 0);
	do {
		errno = 0;
		d = readdir(level->dir);
	} while (d &&
		 (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") || files_is_temp(d->d_name)));
	s->path[length] = '\0';
	if (!d) {
		if (errno)
			complain(s, errno, "%s can't be read: %s", s->path, strerror(errno));
		level_end(s);
		return NULL;
	}
	if (length + 1 + strlen(d->d_name) > FILES_PATH_MAX) {
		complain(s, ENAMETOOLONG, "%s has a path that is too long", d->d_name);
		return NULL;
	}
	if (length)
		s->path[length++] = '/';
	return strcpy(s->path + length, d->d_name);
}

/* Return: false if the chunk is full. */
static bool walk_directory(struct files_sender *s)
{
	const int dir = dirfd(s->levels[s->depth - 1].dir);
	const char *name = next_name(s);

	s->again = false;
	if (!name || pack_entry(s, dir, name, 0, O_NOFOLLOW))
		return true;
	/* A file that is open is in @entry or in @file. */
	s->again = s->entry < 0 && s->file.fd < 0;
	return false;
}

/* Modes and times of directories, the deepest first. Return: false if the chunk is full. */
static bool pack_visited(struct files_sender *s)
{
	struct visited *v = s->visited;
	const struct files_record record = record_of(FILES_DIR_END, v->path, &v->st);

	if (!files_chunk_add(&s->writer, &record, v->path))
		return false;
	s->visited = v->next;
	free(v);
	return true;
}

/* The next thing to send. Return: false if the chunk is full, or ends here. */
static bool pack_next(struct files_sender *s)
{
	const struct files_operand *o;

	if (s->file.fd >= 0)
		return file_pack(s);
	if (s->entry >= 0)
		return pack_file(s);
	if (s->depth)
		return walk_directory(s);
	if (s->next == s->count)
		return pack_visited(s);
	o = &s->operands[s->next];
	snprintf(s->path, sizeof(s->path), "%s", o->top);
	if (!pack_entry(s, o->dir, o->path, o->resolve, 0) && s->entry < 0 && s->file.fd < 0)
		return false;
	s->next++;
	return s->entry < 0 && s->file.fd < 0;
}

static bool all_walked(const struct files_sender *s)
{
	return s->file.fd < 0 && s->entry < 0 && !s->depth && s->next == s->count && !s->pending;
}

/* Is the next operand of the same name as one before, or may it have the same names in it? */
static bool merges(const struct files_sender *s)
{
	size_t i;

	for (i = 0; i < s->next; i++)
		if (!*s->operands[i].top || !*s->operands[s->next].top ||
		    !strcmp(s->operands[i].top, s->operands[s->next].top))
			return true;
	return false;
}

/* With the lock held: has the receiver been asked for what the next records depend on? */
static bool is_asking(const struct files_sender *s)
{
	if (s->file.fd >= 0)
		return s->file.asked && !s->file.known;
	return s->depth && s->levels[s->depth - 1].asked;
}

/* With the lock held. */
static bool must_wait(const struct files_sender *s)
{
	if (is_asking(s))
		return true;
	if (!s->under_way || s->file.fd >= 0 || s->entry >= 0 || s->depth)
		return false;
	/* Files of one name must not be on their way at the same time. */
	return s->next < s->count ? merges(s) : all_walked(s) && s->visited;
}

/* With the lock held. */
static void pack_chunk(struct files_sender *s, char *chunk)
{
	unsigned int n;

	files_chunk_begin(&s->writer, chunk);
	if (s->pending)
		files_chunk_error(&s->writer, 0, s->pending, s->pending_text);
	s->pending = 0;
	for (n = 0; n < FILES_PER_CHUNK && !s->pending && !s->stopped; n++)
		if (must_wait(s) || (all_walked(s) && !s->visited) || !pack_next(s))
			break;
}

enum files_next files_sender_pack(struct files_sender *s, char *chunk, uint32_t *length, bool block)
{
	unsigned int n;

	pthread_mutex_lock(&s->lock);
	do {
		while (must_wait(s) && block && !s->stopped)
			pthread_cond_wait(&s->replied, &s->lock);
		*length = 0;
		if (must_wait(s) || s->stopped)
			break;
		pack_chunk(s, chunk);
		*length = files_chunk_end(&s->writer);
		s->under_way += *length != 0;
	} while (!*length && !s->stopped && (!all_walked(s) || s->visited));
	if (!*length && !s->stopped && !must_wait(s))
		pthread_cond_broadcast(&s->replied);
	n = *length      ? FILES_CHUNK_READY :
	    s->broken    ? FILES_BROKEN :
	    s->stopped   ? FILES_END :
	    must_wait(s) ? FILES_WAIT :
			   FILES_END;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* With the lock held: what the receiver has of the long file. Return: 0 or an errno. */
static int take_digests(struct files_sender *s, const struct files_reader *reader)
{
	const struct files_record *record = &reader->record;
	struct long_file *f = &s->file;
	const uint64_t blocks = (f->size + FILES_BLOCK - 1) / FILES_BLOCK;
	const size_t n = record->data_length / sizeof(uint64_t);

	if (f->fd < 0 || !f->asked || f->known || record->id != f->id ||
	    record->data_length % sizeof(uint64_t) || n > FILES_HAVE_MAX || n > blocks - f->blocks)
		return EPROTO;
	free(f->digests);
	/* Without them, what the receiver has would stay where there are holes here. */
	f->digests = malloc(record->data_length + 1);
	if (!f->digests)
		return ENOMEM;
	memcpy(f->digests, reader->data, record->data_length);
	f->first = f->blocks;
	f->blocks += n;
	f->more = n == FILES_HAVE_MAX;
	f->known = true;
	return 0;
}

/* With the lock held: what is in a directory there. Return: 0 or EPROTO. */
static int take_list(struct files_sender *s, const struct files_reader *reader)
{
	struct level *level = s->depth ? &s->levels[s->depth - 1] : NULL;
	const uint32_t length = reader->record.data_length;

	if (!level || !level->asked || reader->record.id != level->asked)
		return EPROTO;
	level->asked = 0;
	level->fresh = reader->record.flags & FILES_FRESH;
	/* Without the list, all is sent. */
	if (length && length <= LISTS_MAX - s->list_bytes)
		level->list = files_list_new(reader->data, length);
	level->list_bytes = level->list ? length : 0;
	s->list_bytes += level->list_bytes;
	return 0;
}

/* With the lock held: what the receiver can't make is left out. */
static void leave_out(struct files_sender *s, uint32_t id)
{
	struct visited *v = s->visited;

	if (!id)
		return;
	if (s->file.fd >= 0 && s->file.asked && !s->file.known && id == s->file.id)
		file_end(s);
	if (!s->depth || id != s->levels[s->depth - 1].asked)
		return;
	/* Entered last, unless it is the one without a name, or there was no memory. */
	if (v && s->levels[s->depth - 1].visited) {
		s->visited = v->next;
		free(v);
	}
	level_end(s);
}

static int take_reply(struct files_sender *s, struct files_reader *reader,
		      void (*report)(void *arg, int error, const char *text), void *arg)
{
	char text[FILES_TEXT_MAX];
	int more, error, useless = 0, rc = 0;

	while (!rc && (more = files_chunk_next(reader)) > 0) {
		if (reader->record.type == FILES_HAVE) {
			rc = take_digests(s, reader);
		} else if (reader->record.type == FILES_LIST) {
			rc = take_list(s, reader);
		} else if (reader->record.type == FILES_DONE) {
			s->counts.files += reader->record.id;
			s->counts.bytes += reader->record.size;
			s->counts.sent += reader->record.offset;
		} else if (reader->record.type == FILES_ERROR) {
			error = files_chunk_text(reader, text);
			leave_out(s, reader->record.id);
			if (report)
				report(arg, error, text);
			if (files_disk_is_full(error) || error == EROFS)
				useless = error;
		} else {
			rc = EPROTO;
		}
	}
	return rc ? rc : more < 0 ? EPROTO : useless;
}

int files_sender_reply(struct files_sender *s, const char *reply, uint32_t length,
		       void (*report)(void *arg, int error, const char *text), void *arg)
{
	struct files_reader reader;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->under_way)
		rc = EPROTO;
	else
		s->under_way--;
	if (!rc && length) {
		rc = files_chunk_open(&reader, reply, length);
		if (!rc)
			rc = take_reply(s, &reader, report, arg);
	}
	/* All is replied to but the question. */
	if (!rc && !s->under_way && is_asking(s))
		rc = EPROTO;
	if (rc) {
		s->stopped = true;
		s->broken = true;
	}
	pthread_cond_broadcast(&s->replied);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void files_sender_cancel(struct files_sender *s)
{
	s->stopped = true;
}

void files_sender_stop(struct files_sender *s)
{
	files_sender_cancel(s);
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->replied);
	pthread_mutex_unlock(&s->lock);
}

struct files_counts files_sender_counts(struct files_sender *s)
{
	struct files_counts counts;

	pthread_mutex_lock(&s->lock);
	counts = s->counts;
	pthread_mutex_unlock(&s->lock);
	return counts;
}
