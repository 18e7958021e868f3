/* SPDX-License-Identifier: GPL-2.0 */
/* The receiver of files: what its parts share. */
#ifndef FILES_RECEIVE_H
#define FILES_RECEIVE_H

#include "files.h"

/* A long file that is open, under its temporary name. */
struct open_file {
	uint32_t id;
	bool taken;  /* this place of the table is */
	bool usable; /* by the records of other chunks */
	int fd, dir;
	int basis; /* what is there under the name; -1: the temporary file has its bytes itself */
	bool failed;
	bool asked; /* for digests, which are being made */
	unsigned int users;
	uint64_t size, counted, expected;
	uint64_t blocks;     /* that the sender has digests of; the lock protects it */
	uint64_t comparable; /* blocks that it gets digests of, if it asks */
	uint64_t *digests;   /* of the basis, which others may change; NULL: there is none */
	size_t kept;         /* room for them, of the receiver's */
	struct timespec mtime;
	mode_t mode;
	char name[FILES_NAME_MAX + 1];
	char temp[FILES_TEMP];
};

/* The file of a receiver that has no directory. */
struct files_stream {
	int fd;
	bool begun, open;
	uint32_t id;
	uint64_t size, at, counted;
};

struct files_receiver {
	pthread_mutex_t lock;
	int base; /* -1: one file is written to @stream */
	struct files_stream stream;
	unsigned int flags;
	char *expected;               /* the first name of each path; NULL: any */
	char top[FILES_NAME_MAX + 1]; /* takes the place of the first name of each path */
	struct open_file files[FILES_OPEN_MAX];
	size_t kept; /* digests of all files; the lock protects it */
	struct files_counts counts;
	bool told; /* an error was reported */
	atomic_bool stopped;
	atomic_int full; /* the rest can't be received either: an errno */
};

/* One chunk that is being unpacked. */
struct unpack {
	struct files_receiver *receiver;
	struct files_reader reader;
	char path[FILES_PATH_MAX + FILES_NAME_MAX + 2]; /* with the other first name */
	const char *name;
	struct files_writer reply;
	/* What costs much: a sender waits for the reply, so nothing is behind it in its chunk. */
	bool last;
	unsigned int errors;
	struct files_counts counts;
	void (*report)(void *arg, int error, const char *text);
	void *arg;
	/* The directory of the last file. */
	int parent;
	char parent_path[FILES_PATH_MAX + FILES_NAME_MAX + 2];
};

/* files_receive.c */

void receive_count(struct unpack *u, uint64_t files, uint64_t bytes, uint64_t sent);
/* Report an error of a file; @id: of one that is not open for it, or 0. */
void receive_complain(struct unpack *u, uint32_t id, int error, const char *what, const char *path);
/* The directory of the path. Return: a descriptor that stays this unpack's, or -1. */
int receive_parent(struct unpack *u);

static inline struct timespec receive_time(const struct files_record *record)
{
	return (struct timespec){ .tv_sec = (time_t)record->mtime, .tv_nsec = record->mtime_ns };
}

/* files_long.c */

/* Return: 0 or EPROTO. */
int receive_open(struct unpack *u);
int receive_more(struct unpack *u);
int receive_range(struct unpack *u);
int receive_close(struct unpack *u);
/* With the lock held, if others may use the receiver. */
void receive_close_file(struct files_receiver *r, struct open_file *f);

/* files_stream.c */

/* Return: 0; EPROTO, or another errno, which was reported. */
int receive_stream(struct unpack *u);

/* files_temp.c */

/*
 * Open a file under its temporary name, alone: another client that copies this name is an error. What has
 * that name and is not an unfinished file of this user stays, and is not used. @temp: out: the temporary
 * name. Return: a descriptor, or -1.
 */
int files_temp_open(int dir, const char *name, char temp[FILES_TEMP]);
/*
 * Give a whole file its mode, its time and its name. @resized: it had its length before its bytes. Return:
 * 0 or an errno.
 */
int files_temp_finish(const struct files_receiver *r, int fd, int dir, const char *temp,
		      const char *name, mode_t mode, struct timespec mtime, bool resized);
/* With FILES_SYNC, the names in a directory are on the disk. Return: 0 or an errno. */
int files_temp_sync(const struct files_receiver *r, int dir);
/* Remove a file that is not whole, unless the name is another file's by now. */
void files_temp_remove(int fd, int dir, const char *temp);
/* Make a symbolic link, by a temporary name of its own. Return: 0 or an errno. */
int files_temp_link(const struct files_receiver *r, int dir, const char *target, const char *name,
		    struct timespec mtime);

#endif /* FILES_RECEIVE_H */
