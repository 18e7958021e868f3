// SPDX-License-Identifier: GPL-2.0
/* A client of 'krdma serve': its export, and threads that serve its requests. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "serve.h"

/* A client that asks for nothing is one no more. */
#define IDLE_NS (600 * NSEC_PER_SEC)

struct serve_client {
	const struct serve_share *share;
	uint64_t session;
	uint32_t export;
	int queue;
	char *memory;
	_Atomic uint64_t heard_ns;
	_Atomic bool asked;
	atomic_uint busy; /* threads at a request */
	bool seen;        /* its session was in the list: sessions of other users need not be */
	_Atomic bool over;
	atomic_bool ended;
	atomic_uint running;
	unsigned int started;
	pthread_t threads[SERVE_WORKERS];

	/* What is copied: set once, by SHARE_PUSH or SHARE_PULL. */
	pthread_mutex_t lock;
	_Atomic(struct files_sender *) sender;
	_Atomic(struct files_receiver *) receiver;
	struct files_operand operand;
	char path[FILES_PATH_MAX + 1];
	uint64_t bytes;  /* of the file; 0: it is not known how many will be sent */
	uint32_t parked; /* slots that wait for a chunk */
	uint32_t given;  /* slots whose chunk has no reply yet */

	_Atomic uint32_t seq[SHARE_SLOTS];
};

static void respond(struct serve_client *c, uint32_t slot, enum share_code code, uint32_t length)
{
	const uint64_t word = share_status(++c->seq[slot], code, length);

	/* The client reads the slot when it has read this. */
	atomic_store((_Atomic uint64_t *)(void *)(c->memory + slot * SHARE_STATUS), word);
}

static void respond_error(struct serve_client *c, uint32_t slot, int error, const char *text)
{
	struct files_writer writer;

	files_chunk_begin(&writer, c->memory + share_slot(slot));
	files_chunk_error(&writer, 0, error, text);
	respond(c, slot, SHARE_FAILED, files_chunk_end(&writer));
}

/* ---- What is to be copied ---- */

/* Why a path can't be opened, and errno. */
static const char *path_error(void)
{
	if (errno != EXDEV)
		return strerror(errno);
	errno = EACCES;
	return "it leads out of the share";
}

/* Opens what the path leads to, inside of the share. Return: NULL, or why not. */
static const char *begin_pull(struct serve_client *c, unsigned int flags)
{
	const char *name = strrchr(c->path, '/');
	struct stat st;
	int fd;

	fd = files_open_at(c->share->dir, *c->path ? c->path : ".", O_PATH, RESOLVE_BENEATH);
	if (fd < 0)
		return path_error();
	if (fstat(fd, &st)) {
		close(fd);
		return "it can't be read";
	}
	close(fd);
	/* To open a device can do something. */
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		errno = EOPNOTSUPP;
		return "it is no file or directory";
	}
	/* For the client's progress. */
	if (S_ISREG(st.st_mode))
		c->bytes = files_allocated(&st);
	name = name ? name + 1 : c->path;
	c->operand = (struct files_operand){
		.dir = c->share->dir,
		.path = *c->path ? c->path : ".",
		.top = !strcmp(name, ".") || !strcmp(name, "..") ? "" : name,
		.resolve = RESOLVE_BENEATH,
	};
	c->sender = files_sender_new(&c->operand, 1, share_sender_flags(flags), NULL, NULL);
	errno = ENOMEM;
	return c->sender ? NULL : "no memory";
}

static const char *begin_push(struct serve_client *c, unsigned int flags)
{
	if (c->share->read_only) {
		errno = EACCES;
		return "the share is read-only";
	}
	c->receiver = files_receiver_new(c->share->dir, c->path, RESOLVE_BENEATH,
					 share_receiver_flags(flags) | FILES_RECURSIVE, NULL);
	return c->receiver ? NULL : path_error();
}

/* Of an absolute path, and of one that ends with slashes. */
static void trim(char *path)
{
	size_t length = strlen(path), from = strspn(path, "/");

	memmove(path, path + from, length + 1 - from);
	for (length -= from; length && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
}

static void begin(struct serve_client *c, enum share_op op, uint32_t slot, uint32_t length)
{
	char text[FILES_TEXT_MAX];
	struct files_reader *reader = malloc(sizeof(*reader));
	const char *why = "what was asked for makes no sense";
	struct files_record begun = { .type = FILES_BEGIN };
	struct files_writer writer;
	unsigned int flags;

	errno = EPROTO;
	pthread_mutex_lock(&c->lock);
	if (reader && !c->sender && !c->receiver &&
	    !files_chunk_open(reader, c->memory + share_slot(slot), length) &&
	    files_chunk_next(reader) == 1 && reader->record.type == FILES_BEGIN &&
	    strlen(reader->path) == reader->record.path_length) {
		strcpy(c->path, reader->path);
		trim(c->path);
		flags = reader->record.flags;
		why = op == SHARE_PUSH ? begin_push(c, flags) : begin_pull(c, flags);
		begun.size = c->bytes;
		snprintf(text, sizeof(text), "%s: %s", *c->path ? c->path : ".", why ? why : "");
	} else {
		snprintf(text, sizeof(text), "%s", why);
	}
	pthread_mutex_unlock(&c->lock);
	if (why) {
		respond_error(c, slot, errno, text);
	} else {
		files_chunk_begin(&writer, c->memory + share_slot(slot));
		files_chunk_add(&writer, &begun, "");
		respond(c, slot, SHARE_OK, files_chunk_end(&writer));
	}
	free(reader);
}

/* ---- Chunks ---- */

static void take_chunk(struct serve_client *c, uint32_t slot, uint32_t length, char *reply)
{
	uint32_t reply_length;
	int error;

	if (!c->receiver) {
		respond_error(c, slot, EPROTO, "a chunk without a path");
		return;
	}
	error = files_receiver_chunk(c->receiver, c->memory + share_slot(slot), length, reply,
				     &reply_length, NULL, NULL);
	if (error) {
		respond_error(c, slot, error,
			      error == EILSEQ ?
				      "bytes have come that are not those that were sent" :
			      error == EPROTO ? "a chunk of files makes no sense" :
						strerror(error));
		return;
	}
	memcpy(c->memory + share_slot(slot), reply, reply_length);
	respond(c, slot, SHARE_OK, reply_length);
}

/* With the lock held: fill the slots that wait, as far as there is something. */
static void fill_parked(struct serve_client *c)
{
	enum files_next next;
	uint32_t slot, length;

	while (c->parked) {
		slot = (uint32_t)__builtin_ctz(c->parked);
		next = files_sender_pack(c->sender, c->memory + share_slot(slot), &length, false);
		if (next == FILES_WAIT)
			return;
		c->parked &= ~(1U << slot);
		if (next == FILES_CHUNK_READY) {
			c->given |= 1U << slot;
			respond(c, slot, SHARE_OK, length);
		} else if (next == FILES_END && c->ended) {
			respond_error(c, slot, ECANCELED, "the copy was given up");
		} else if (next == FILES_END) {
			respond(c, slot, SHARE_END, 0);
		} else {
			respond_error(c, slot, EPROTO,
				      "the client's reply makes no sense, or its disk is full");
		}
	}
}

static void give_chunk(struct serve_client *c, uint32_t slot, uint32_t length)
{
	pthread_mutex_lock(&c->lock);
	if (!c->sender || c->parked & 1U << slot) {
		pthread_mutex_unlock(&c->lock);
		respond_error(c, slot, EPROTO, "a chunk is wanted without a path");
		return;
	}
	if (c->given & 1U << slot)
		files_sender_reply(c->sender, c->memory + share_slot(slot), length, NULL, NULL);
	c->given &= ~(1U << slot);
	c->parked |= 1U << slot;
	fill_parked(c);
	pthread_mutex_unlock(&c->lock);
}

/* A request of the client. Return: false if it is over. */
static bool handle(struct serve_client *c, const struct krdma_message *message, char *reply)
{
	const enum share_op op = (enum share_op)(message->value >> 56);
	const uint32_t slot = message->value >> 48 & 0xff;
	const uint32_t length = (uint32_t)message->value;

	if (op == SHARE_BYE || message->length || slot >= SHARE_SLOTS || length > FILES_CHUNK)
		return false;
	switch (op) {
	case SHARE_PUSH:
	case SHARE_PULL:
		begin(c, op, slot, length);
		return true;
	case SHARE_CHUNK:
		take_chunk(c, slot, length, reply);
		return true;
	case SHARE_GIVE:
		give_chunk(c, slot, length);
		return true;
	default:
		return false;
	}
}

/* Return: false if this client is over. */
static bool handle_all(struct serve_client *c, const char *buf, size_t bytes, char *reply)
{
	const struct krdma_message *m = NULL;
	bool good = true;

	while (good && !c->ended && (m = krdma_message_next(buf, bytes, m))) {
		/* Others can open the export as well: they are not the client. */
		if (m->session != c->session)
			continue;
		c->busy++;
		c->asked = true;
		c->heard_ns = now_ns();
		good = handle(c, m, reply);
		c->heard_ns = now_ns();
		c->busy--;
	}
	return good;
}

static void *work(void *arg)
{
	_Alignas(8) char buf[sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX];
	/* One message at a time: the others are for the other threads. */
	const size_t one = sizeof(struct krdma_message);
	struct serve_client *c = arg;
	char *reply = malloc(FILES_CHUNK);
	ssize_t bytes;

	while (reply) {
		bytes = read(c->queue, buf, one);
		/* With bytes, as those of the client have none. */
		if (bytes < 0 && errno == EMSGSIZE)
			bytes = read(c->queue, buf, sizeof(buf));
		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0 || !handle_all(c, buf, (size_t)bytes, reply))
			break;
	}
	free(reply);
	c->over = true;
	c->running--;
	eventfd_write(c->share->wake, 1);
	return NULL;
}

/* Return: 0 or an errno. */
static int publish(struct serve_client *c, const uint8_t token[SHARE_TOKEN])
{
	char name[KRDMA_NAME_MAX];
	int fd;

	share_export_name(name, c->share->name, token);
	fd = krdma_memfd(name, SHARE_BYTES);
	if (fd < 0)
		return -fd;
	c->memory = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c->memory == MAP_FAILED) {
		c->memory = NULL;
		close(fd);
		return ENOMEM;
	}
	if (krdma_export_memfd(c->share->krdma, name, fd, 0, SHARE_BYTES,
			       KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE, 0,
			       &c->export)) {
		close(fd);
		return krdma_errno();
	}
	close(fd);
	c->queue = krdma_message_queue(c->share->krdma, c->export, 0);
	return c->queue < 0 ? krdma_errno() : 0;
}

static void release(struct serve_client *c)
{
	if (c->memory)
		munmap(c->memory, SHARE_BYTES);
	if (c->queue >= 0)
		close(c->queue);
	files_sender_free(c->sender);
	files_receiver_free(c->receiver);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

struct serve_client *serve_client_new(const struct serve_share *share,
				      const uint8_t token[SHARE_TOKEN],
				      const struct krdma_message *hello)
{
	struct serve_client *c = calloc(1, sizeof(*c));
	int error;

	if (!c)
		return NULL;
	c->share = share;
	c->session = hello->session;
	c->queue = -1;
	c->heard_ns = now_ns();
	pthread_mutex_init(&c->lock, NULL);
	error = publish(c, token);
	while (!error && c->started < SERVE_WORKERS) {
		c->running++;
		error = pthread_create(&c->threads[c->started], NULL, work, c);
		if (error)
			c->running--;
		else
			c->started++;
	}
	if (!error)
		return c;
	if (c->started) {
		c->over = true;
		return c;
	}
	if (c->export)
		krdma_destroy(share->krdma, c->export);
	release(c);
	errno = error;
	return NULL;
}

uint64_t serve_client_session(const struct serve_client *c)
{
	return c->session;
}

bool serve_client_is_gone(struct serve_client *c, bool listed)
{
	const uint64_t now = now_ns(), heard = c->heard_ns;
	const bool ended = c->seen && !listed;

	c->seen |= listed;
	/* What a thread is at may last as long as it takes a disk. */
	return ended || (!c->busy && now > heard && now - heard > IDLE_NS);
}

uint64_t serve_client_silent_ns(const struct serve_client *c)
{
	const uint64_t now = now_ns(), heard = c->heard_ns;

	return c->asked || now < heard ? 0 : now - heard;
}

bool serve_client_is_over(const struct serve_client *c)
{
	return c->over;
}

void serve_client_end(struct serve_client *c)
{
	if (c->ended)
		return;
	c->ended = true;
	krdma_destroy(c->share->krdma, c->export);
	/* The lock may be held by a thread that waits for a disk; none waits for replies. */
	if (c->sender)
		files_sender_cancel(c->sender);
	if (c->receiver)
		files_receiver_stop(c->receiver);
}

bool serve_client_free(struct serve_client *c)
{
	if (!c->ended || c->running)
		return false;
	while (c->started)
		pthread_join(c->threads[--c->started], NULL);
	release(c);
	return true;
}
