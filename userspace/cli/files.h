/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files as a stream of records: what 'krdma cp' and 'krdma serve' say to each other, and the two
 * ends of the stream. Nothing here knows how chunks travel.
 *
 * A sender packs records into chunks, a receiver unpacks each chunk and replies to it. Chunks may be
 * unpacked in any order, several at a time: records depend on each other only where the sender has
 * seen the reply first. All numbers are little-endian.
 */
#ifndef FILES_H
#define FILES_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

/* Files that are longer than a block are compared and sent by blocks, others whole. */
#define FILES_BLOCK (1U << 20)
/* Most bytes of a chunk, or of a reply: a block, and room for names. */
#define FILES_CHUNK (FILES_BLOCK + (64U << 10))
/* Digests in one reply: a disk takes a while for the blocks, in which no reply comes. */
#define FILES_HAVE_MAX 512
/* More files are left to the next chunk, so that several threads have something to do. */
#define FILES_PER_CHUNK 64
/* Bytes of a path, of one of its names, and names in it. */
#define FILES_PATH_MAX  4095
#define FILES_NAME_MAX  255
#define FILES_DEPTH_MAX 100
/* Long files that are open at the receiver at a time, and errors in one reply. */
#define FILES_OPEN_MAX   64
#define FILES_ERRORS_MAX FILES_PER_CHUNK
#define FILES_TEXT_MAX   512
/* What is carried of a mode: a peer gives no file another user's rights. */
#define FILES_MODE 0777

#define FILES_MAGIC 0x32736c66U

/**
 * struct files_chunk - the head of a chunk, and of a reply
 * @magic: FILES_MAGIC
 * @length: bytes, with this head
 * @digest: files_digest() of all that follows
 */
struct files_chunk {
	uint32_t magic;
	uint32_t length;
	uint64_t digest;
};

enum files_type {
	FILES_FILE = 1,     /* a whole file; data: its bytes */
	FILES_SYMLINK = 2,  /* data: its target */
	FILES_DIR = 3,      /* a directory that shall be there */
	FILES_DIR_END = 4,  /* mode and time of a directory in which nothing changes any more */
	FILES_OPEN = 5,     /* a long file begins; is replied to with FILES_HAVE */
	FILES_DATA = 6,     /* data: bytes of an open file at @offset */
	FILES_ZERO = 7,     /* @size bytes at @offset are a hole */
	FILES_SAME = 8,     /* @size bytes at @offset are what the receiver has */
	FILES_CLOSE = 9,    /* @size: sum of the bytes of all DATA, ZERO and SAME */
	FILES_GIVE_UP = 10, /* of an open file, which can't be read any more */
	FILES_ERROR = 11,   /* data: text; @mode: errno */
	FILES_HAVE = 12,  /* reply to OPEN and MORE; data: digests of the receiver's next blocks */
	FILES_BEGIN = 13, /* what to copy, or where to; share.h */
	FILES_LIST = 14,  /* reply to DIR with FILES_ASK; data: what is there */
	FILES_MORE = 15,  /* of an open file: HAVE was full, what is behind it? */
	FILES_DONE = 16   /* in a reply: files (@id), bytes (@size), bytes that came (@offset) */
};

/* FILES_FILE: zeroes become holes. */
#define FILES_SPARSE 1
/* FILES_DIR: what is in it? FILES_LIST: nothing, it is new. */
#define FILES_ASK   2
#define FILES_FRESH 4

/**
 * struct files_record - a record; its path and its data follow, each padded to 8 bytes
 * @type: enum files_type
 * @flags: FILES_SPARSE, FILES_ASK, FILES_FRESH
 * @path_length: bytes of the path, without a NUL
 * @mode: permissions; of FILES_ERROR, the errno
 * @id: of an open file, or of a question, chosen by the sender
 * @mtime_ns: nanoseconds of the time of the last change
 * @mtime: its seconds
 * @size: length of the file, or of a range of it
 * @offset: first byte of the range
 * @data_length: bytes of data
 * @reserved: 0
 */
struct files_record {
	uint16_t type;
	uint16_t flags;
	uint16_t path_length;
	uint16_t mode;
	uint32_t id;
	uint32_t mtime_ns;
	int64_t mtime;
	uint64_t size;
	uint64_t offset;
	uint32_t data_length;
	uint32_t reserved;
};

/* files_chunk.c */

/**
 * struct files_writer - a chunk that is being filled
 * @at: its memory, FILES_CHUNK bytes
 * @used: bytes, with the head
 */
struct files_writer {
	char *at;
	uint32_t used;
};

void files_chunk_begin(struct files_writer *writer, char *at);
/*
 * Append a record with its path and room for @record->data_length bytes. Return: where the data
 * goes, or NULL if all that does not fit.
 */
char *files_chunk_add(struct files_writer *writer, const struct files_record *record,
		      const char *path);
/* Room for data beside a record with such a path. */
uint32_t files_chunk_room(const struct files_writer *writer, size_t path_length);
/* An error as a record; @id: of the file that is not open for it, or 0. Return: whether it fits. */
bool files_chunk_error(struct files_writer *writer, uint32_t id, int error, const char *text);
/* Return: length of the finished chunk; 0 if nothing is in it. */
uint32_t files_chunk_end(struct files_writer *writer);

/**
 * struct files_reader - a chunk that is being read, in memory that a peer may change meanwhile
 * @at: the chunk
 * @used: bytes that were read
 * @length: bytes of the chunk
 * @record: the record, a copy
 * @path: its path, a copy with a NUL
 * @data: its data, in the chunk
 */
struct files_reader {
	const char *at;
	uint32_t used;
	uint32_t length;
	struct files_record record;
	char path[FILES_PATH_MAX + 1];
	const char *data;
};

/* Return: 0; EILSEQ if the bytes are not those that were sent, EPROTO if this is no chunk. */
int files_chunk_open(struct files_reader *reader, const char *at, uint32_t length);
/* Return: 1 with a record, 0 at the end, -EPROTO. */
int files_chunk_next(struct files_reader *reader);
/* The errno and the text of FILES_ERROR, which is safe to print. */
int files_chunk_text(const struct files_reader *reader, char text[FILES_TEXT_MAX]);
/* Put '?' for what is no printable character of UTF-8: a terminal would obey it. */
void files_printable(char *text);
/* And for what is no character of UTF-8. */
void files_valid(char *text);

/* files_path.c */

/*
 * Names of a path that stays inside of a directory, whatever is there: "a/b", not "", "../a", "/a";
 * and not those of temporary files.
 */
bool files_names_ok(const char *path, size_t length);
/* And not too many or too long. */
bool files_path_ok(const char *path, size_t length);
/* A name that files_temp_name() makes. */
bool files_is_temp(const char *name);
#define FILES_TEMP 32
void files_temp_name(const char *name, char temp[FILES_TEMP]);
/* The one with this number. */
void files_temp_of(uint64_t number, char temp[FILES_TEMP]);
/* openat2(2); @resolve: RESOLVE_*. Return: a file descriptor, or -1 with errno. */
int files_open_at(int dir, const char *path, int flags, uint64_t resolve);
/* The same of a path without symbolic links, and not out of @dir. */
int files_open_inside(int dir, const char *path, int flags);
/*
 * The directory of the last name, made if it is not there; @sync: on the disk, too. Return: a descriptor,
 * or -1.
 */
int files_open_parent(int dir, const char *path, bool sync);
/*
 * Digests of blocks of a file from the block @first, one number each. Return: 0 or an errno; ECANCELED if
 * @stopped.
 */
int files_digests(int fd, uint64_t size, uint64_t first, uint64_t *digests, size_t blocks,
		  const atomic_bool *stopped);
uint64_t files_digest(const void *bytes, size_t length);
/* The first byte at or behind @offset that is no hole; @size if there is none. */
uint64_t files_next_data(int fd, uint64_t offset, uint64_t size);
uint64_t files_next_hole(int fd, uint64_t offset, uint64_t size);
/* pread(2) of all. @length: out: what is left. Return: 0 or an errno, EAGAIN at the end of the file. */
int files_read_all(int fd, char *to, size_t *length, uint64_t offset);
/* The same, with zeroes behind the end. */
int files_read(int fd, char *to, size_t length, uint64_t offset);
int files_write(int fd, const char *from, size_t length, uint64_t offset);

/* Bytes of a file without its holes. */
static inline uint64_t files_allocated(const struct stat *st)
{
	const uint64_t blocks = (uint64_t)st->st_blocks * 512;

	return blocks < (uint64_t)st->st_size ? blocks : (uint64_t)st->st_size;
}

/* files_list.c */

struct files_list;

/* Lengths, times and modes of the files of a directory, as far as there is room. Return: bytes. */
uint32_t files_list_fill(int dir, char *to, uint32_t room);
/* From the bytes of FILES_LIST. Return: NULL if they are malformed, or there is no memory. */
struct files_list *files_list_new(const char *data, uint32_t length);
void files_list_free(struct files_list *list);
/* Is there a file of that name, length, time and mode? */
bool files_list_has(const struct files_list *list, const char *name, const struct stat *st);

/* files_send.c */

/**
 * struct files_counts - what a transfer has done, at the receiver
 * @files: files, symbolic links and directories
 * @bytes: bytes of files that are there now
 * @sent: of these, bytes that travelled
 */
struct files_counts {
	uint64_t files;
	uint64_t bytes;
	uint64_t sent;
};

/**
 * struct files_operand - a file or directory to send
 * @dir: directory to which @path is relative; AT_FDCWD
 * @path: where it is
 * @top: the name that it has at the receiver; "": the contents of a directory go there
 * @resolve: RESOLVE_* for @path
 */
struct files_operand {
	int dir;
	const char *path;
	const char *top;
	uint64_t resolve;
};

struct files_sender;

/* Directories with what is in them. */
#define FILES_RECURSIVE 1
/* Of a directory that the receiver has, also files with the same length, time and mode. */
#define FILES_ALL 2

/* @report: called with what can't be read; NULL: the receiver gets the error. */
struct files_sender *files_sender_new(const struct files_operand *operands, size_t count,
				      unsigned int flags,
				      void (*report)(void *arg, int error, const char *text),
				      void *arg);
void files_sender_free(struct files_sender *sender);

enum files_next {
	FILES_CHUNK_READY,
	FILES_WAIT, /* for replies to chunks that were packed */
	FILES_END,
	FILES_BROKEN /* the receiver has replied what makes no sense */
};

/* Any thread. @chunk: FILES_CHUNK bytes. With FILES_WAIT, @block sleeps until a reply has come. */
enum files_next files_sender_pack(struct files_sender *sender, char *chunk, uint32_t *length,
				  bool block);
/*
 * The reply to a chunk, @length 0 if it is empty. @report is called with the receiver's errors.
 * Return: 0, EPROTO or EILSEQ; or an error of the receiver that makes going on useless.
 */
int files_sender_reply(struct files_sender *sender, const char *reply, uint32_t length,
		       void (*report)(void *arg, int error, const char *text), void *arg);
/* Pack no more. Does not sleep, and does not wake threads that wait for replies. */
void files_sender_cancel(struct files_sender *sender);
/* The same; wake those who wait, for good. */
void files_sender_stop(struct files_sender *sender);
struct files_counts files_sender_counts(struct files_sender *sender);

/* files_receive.c, files_long.c, files_stream.c */

struct files_receiver;

/* The path is a directory, made if it is not there. */
#define FILES_INTO 4
/* A file gets its name when its bytes are on the disk. */
#define FILES_SYNC 8

/*
 * @dir: where @path is relative to; @resolve: RESOLVE_* for it. @flags: FILES_INTO, FILES_SYNC, and
 * FILES_RECURSIVE, without which one file is taken and no directory or link. @expected: the first
 * name of each path, "" for the contents of a directory; NULL: the sender chooses the names.
 * Return: the receiver, or NULL with errno.
 */
struct files_receiver *files_receiver_new(int dir, const char *path, uint64_t resolve,
					  unsigned int flags, const char *expected);
/*
 * One file of that name is written to @fd, which can't be gone back in: its chunks are unpacked in the order
 * in which they were packed. Return: the receiver, or NULL with errno.
 */
struct files_receiver *files_receiver_new_stream(int fd, const char *expected);
void files_receiver_free(struct files_receiver *receiver);
/* Unpack nothing more, not even the rest of a chunk. Any thread. */
void files_receiver_stop(struct files_receiver *receiver);
/*
 * Unpack a chunk. Any thread. @reply: FILES_CHUNK bytes, which may be those of the chunk;
 * @reply_length: 0 if the reply is empty. @report is called with errors; NULL: the sender gets them.
 * Return: 0; EPROTO if the chunk is malformed, EILSEQ if its bytes are not those that were sent,
 * ECANCELED if the receiver was stopped; with @report, also ENOSPC or EDQUOT, which was reported once.
 */
int files_receiver_chunk(struct files_receiver *receiver, const char *chunk, uint32_t length,
			 char *reply, uint32_t *reply_length,
			 void (*report)(void *arg, int error, const char *text), void *arg);
/* When the sender has ended: report the files that have not come, of which nothing was said. */
void files_receiver_end(struct files_receiver *receiver,
			void (*report)(void *arg, int error, const char *text), void *arg);
struct files_counts files_receiver_counts(struct files_receiver *receiver);
/* Then the rest of the files can't be written either. */
static inline bool files_disk_is_full(int error)
{
	return error == ENOSPC || error == EDQUOT;
}

#endif /* FILES_H */
