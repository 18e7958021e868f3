/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A share: how chunks of files.h travel between 'krdma cp' and 'krdma serve'.
 *
 * The share is an export with a page to read and a message queue. A client sends a hello with a
 * random token; the server makes an export SHARE:TOKEN for that client, with a page of status words
 * and with slots. The client writes a request into a slot, and a message tells the server. The
 * server's response takes the place of the request, and the slot's status word tells the client,
 * which reads it. A client that is gone is known by its session.
 */
#ifndef SHARE_H
#define SHARE_H

#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "cli.h"
#include "files.h"

#define SHARE_MAGIC   0x31656c69666d646bULL
#define SHARE_VERSION 2

#define SHARE_TOKEN 16
/* With ':' and the token in hexadecimal, an export's name. */
#define SHARE_NAME_MAX (KRDMA_NAME_MAX - 2 - 2 * SHARE_TOKEN)

#define SHARE_PAGE     4096
#define SHARE_SLOTS    16U
#define SHARE_STATUS   64UL /* bytes from one status word to the next */
#define SHARE_BYTES    (SHARE_PAGE + (uint64_t)SHARE_SLOTS * FILES_CHUNK)
#define SHARE_REFUSALS 64

/**
 * struct share_hello - the message to a share; one of each session
 * @magic: SHARE_MAGIC
 * @version: SHARE_VERSION
 * @reserved: 0
 * @token: random
 */
struct share_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
	uint8_t token[SHARE_TOKEN];
};

/**
 * struct share_refusal - a client that gets no export
 * @token: its token
 * @error: errno; EALREADY: its session has a client
 * @reserved: 0
 */
struct share_refusal {
	uint8_t token[SHARE_TOKEN];
	uint32_t error;
	uint32_t reserved;
};

/**
 * struct share_info - the page of a share
 * @magic: SHARE_MAGIC
 * @version: SHARE_VERSION
 * @reserved: 0
 * @refusals: the last ones
 */
struct share_info {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
	struct share_refusal refusals[SHARE_REFUSALS];
};

/* What a message to the client's export says of a slot. */
enum share_op {
	SHARE_PUSH = 1,  /* FILES_BEGIN: the client sends to this path */
	SHARE_PULL = 2,  /* FILES_BEGIN: the client wants this path */
	SHARE_CHUNK = 3, /* a chunk */
	SHARE_GIVE = 4,  /* the reply to the chunk that was in the slot; the next one shall come */
	SHARE_BYE = 5
};

/* Flags of FILES_BEGIN. */
#define SHARE_INTO      1 /* the path is a directory, which is made if need be */
#define SHARE_RECURSIVE 2
#define SHARE_SYNC      4 /* a file gets its name when its bytes are on disk */
#define SHARE_ALL       8

static inline unsigned int share_sender_flags(unsigned int flags)
{
	return (flags & SHARE_RECURSIVE ? FILES_RECURSIVE : 0) |
	       (flags & SHARE_ALL ? FILES_ALL : 0);
}

static inline unsigned int share_receiver_flags(unsigned int flags)
{
	return (flags & SHARE_RECURSIVE ? FILES_RECURSIVE : 0) |
	       (flags & SHARE_INTO ? FILES_INTO : 0) | (flags & SHARE_SYNC ? FILES_SYNC : 0);
}

enum share_code {
	SHARE_OK = 0,    /* a chunk, or a reply */
	SHARE_END = 1,   /* there are no more chunks */
	SHARE_FAILED = 2 /* FILES_ERROR: why nothing goes on */
};

static inline uint64_t share_value(enum share_op op, uint32_t slot, uint32_t length)
{
	return (uint64_t)op << 56 | (uint64_t)slot << 48 | length;
}

/* @seq: counts the responses of the slot, from 1 */
static inline uint64_t share_status(uint32_t seq, enum share_code code, uint32_t length)
{
	return (uint64_t)(seq & 0xffffff) << 40 | (uint64_t)code << 32 | length;
}

static inline uint64_t share_slot(uint32_t slot)
{
	return SHARE_PAGE + (uint64_t)slot * FILES_CHUNK;
}

static inline void share_export_name(char name[KRDMA_NAME_MAX], const char *share,
				     const uint8_t token[SHARE_TOKEN])
{
	int used = snprintf(name, KRDMA_NAME_MAX, "%.*s:", (int)SHARE_NAME_MAX, share), i;

	for (i = 0; i < SHARE_TOKEN; i++)
		used += snprintf(name + used, KRDMA_NAME_MAX - (size_t)used, "%02x", token[i]);
}

/**
 * share_length() - the share whose client an export belongs to
 * @export: name of the export, as share_export_name() makes it
 *
 * Return: the length of the share's name, with which @export begins; 0: it is no client's.
 */
static inline size_t share_length(const char *export)
{
	const char *colon = strchr(export, ':');

	return colon && strlen(colon + 1) == 2UL * SHARE_TOKEN ? (size_t)(colon - export) : 0;
}

/* What files need of a process: all descriptors it may have, and EFBIG in the place of a signal. */
static inline void files_process(void)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* share_link.c: the client's side */

/**
 * struct share_link - a client's slots at a share
 * @range: its handle and session, and the client's export
 * @text: HOST/SHARE, for sentences
 * @timeout_ns: deadline of an operation
 * @buffer: registered memory, 0 if there is none
 * @memory: as long as the export: the status words, and the slots
 * @lock: protects @status, @seq, @looking and @pause_ns
 * @looked: a thread has read the status words
 * @looking: a thread reads them, or pauses before
 * @pause_ns: before they are read again
 * @status: the status words, as they were read last
 * @seq: requests that were made with each slot
 * @stopped: a thread has failed: the others stop
 */
struct share_link {
	struct range range;
	const char *text;
	uint64_t timeout_ns;
	uint32_t buffer;
	char *memory;
	pthread_mutex_t lock;
	pthread_cond_t looked;
	bool looking;
	uint64_t pause_ns;
	uint64_t status[SHARE_SLOTS];
	uint32_t seq[SHARE_SLOTS];
	_Atomic bool stopped;
};

/* What is said of a failure. */
typedef void share_say(void *arg, int error, const char *text);

/* Return: 0, or -1 when @say has been told. */
int share_open(struct share_link *link, const char *host, const char *share,
	       struct krdma_connect_options options, share_say *say, void *arg);
void share_close(struct share_link *link);
static inline char *share_memory(const struct share_link *link, uint32_t slot)
{
	return link->memory + share_slot(slot);
}
/* The @length bytes in the memory of the slot, and what they are. Return: 0, or -1 and krdma_error(). */
int share_call(struct share_link *link, enum share_op op, uint32_t slot, uint32_t length);
/*
 * Wait for a response in one of the slots of the mask; its bytes are in the slot's memory then.
 * Return: the slot, or -1: krdma_error(), or @stopped.
 */
int share_wait(struct share_link *link, uint32_t slots, enum share_code *code, uint32_t *length);
/* What SHARE_FAILED says, in the memory of the slot. Return: an errno, and a sentence for it. */
int share_failure(const struct share_link *link, uint32_t slot, uint32_t length,
		  char text[FILES_TEXT_MAX]);
/*
 * SHARE_PUSH or SHARE_PULL, and its response. @bytes: out: that will come; 0 if it is not known. Return:
 * 0, or -1 when @say has been told.
 */
int share_begin(struct share_link *link, enum share_op op, const char *path, unsigned int flags,
		uint64_t *bytes, share_say *say, void *arg);

#endif /* SHARE_H */
