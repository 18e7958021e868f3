// SPDX-License-Identifier: GPL-2.0
/* A client's slots at a share: requests, and responses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "share.h"

/* Between two looks at the status words. */
#define PAUSE_MIN_NS 50000
#define PAUSE_MAX_NS 4000000
/* For the server to make the client's export. */
#define HELLO_NS (30 * NSEC_PER_SEC)

static void pause_ns(uint64_t *ns)
{
	const struct timespec time = { .tv_nsec = (long)*ns };

	nanosleep(&time, NULL);
	*ns = *ns < PAUSE_MAX_NS / 2 ? *ns * 2 : PAUSE_MAX_NS;
}

static int submit(struct share_link *link, struct krdma_op *op)
{
	struct krdma_completion completion;

	op->timeout_ns = link->timeout_ns;
	return krdma_submit(link->range.krdma, op, &completion, 1) ? -1 : 0;
}

/* The memory of an operation, in the buffer if there is one. */
static void in_buffer(const struct share_link *link, struct krdma_op *op, uint64_t offset)
{
	if (link->buffer)
		krdma_op_buffer(op, link->buffer, offset);
}

/* The same offset here and there. */
static int fetch(struct share_link *link, uint64_t offset, uint64_t length)
{
	struct krdma_op op;

	krdma_op_read(&op, link->range.region.id, offset, link->memory + offset, length);
	in_buffer(link, &op, offset);
	return submit(link, &op);
}

int share_call(struct share_link *link, enum share_op opcode, uint32_t slot, uint32_t length)
{
	const uint64_t value = share_value(opcode, slot, length);
	struct krdma_op op;

	if (length) {
		krdma_op_write(&op, link->range.region.id, share_slot(slot),
			       share_memory(link, slot), length);
		in_buffer(link, &op, share_slot(slot));
		krdma_op_message(&op, value);
	} else {
		krdma_op_send(&op, link->range.region.id, link->memory, 0, value);
	}
	pthread_mutex_lock(&link->lock);
	link->seq[slot]++;
	pthread_mutex_unlock(&link->lock);
	return submit(link, &op);
}

/* With the lock held. Return: the slot, or -1. */
static int responded(const struct share_link *link, uint32_t slots, enum share_code *code,
		     uint32_t *length)
{
	uint64_t word;
	uint32_t slot;

	for (slot = 0; slot < SHARE_SLOTS; slot++) {
		if (!(slots & 1U << slot))
			continue;
		word = link->status[slot];
		if (word >> 40 != (link->seq[slot] & 0xffffff))
			continue;
		*code = word >> 32 & 0xff;
		*length = (uint32_t)word;
		return (int)slot;
	}
	return -1;
}

/* With the lock held: take the words that were read. Return: whether one has changed. */
static bool take_status(struct share_link *link)
{
	bool changed = false;
	uint64_t word;
	uint32_t slot;

	for (slot = 0; slot < SHARE_SLOTS; slot++) {
		memcpy(&word, link->memory + slot * SHARE_STATUS, sizeof(word));
		changed |= word != link->status[slot];
		link->status[slot] = word;
	}
	return changed;
}

/* With the lock held, which is given up meanwhile: read the status words, for all threads. */
static int look(struct share_link *link)
{
	uint64_t pause = link->pause_ns;
	int rc;

	link->looking = true;
	pthread_mutex_unlock(&link->lock);
	if (pause)
		pause_ns(&pause);
	else
		pause = PAUSE_MIN_NS;
	rc = fetch(link, 0, SHARE_SLOTS * SHARE_STATUS);
	pthread_mutex_lock(&link->lock);
	link->pause_ns = !rc && take_status(link) ? 0 : pause;
	link->looking = false;
	pthread_cond_broadcast(&link->looked);
	return rc;
}

int share_wait(struct share_link *link, uint32_t slots, enum share_code *code, uint32_t *length)
{
	int slot = -1, rc = 0;

	pthread_mutex_lock(&link->lock);
	while (!rc && !link->stopped) {
		slot = responded(link, slots, code, length);
		if (slot >= 0)
			break;
		if (link->looking)
			pthread_cond_wait(&link->looked, &link->lock);
		else
			rc = look(link);
	}
	pthread_mutex_unlock(&link->lock);
	if (slot < 0)
		return -1;
	/* The server's words are checked as all else is. */
	if (*length > FILES_CHUNK)
		*length = FILES_CHUNK;
	return *length && fetch(link, share_slot((uint32_t)slot), *length) ? -1 : slot;
}

/* Is this a share, and what does it say of the client? Return: 0, or -1 when @say has been told. */
static int look_at(struct share_link *link, const struct krdma_region *share,
		   const struct share_hello *hello, share_say *say, void *arg)
{
	struct share_info info;
	struct krdma_op op;
	uint32_t error;
	size_t i;

	if (share->length < sizeof(info)) {
		say(arg, EPROTO, "it is no share (krdma serve)");
		return -1;
	}
	krdma_op_read(&op, share->id, 0, &info, sizeof(info));
	if (submit(link, &op)) {
		say(arg, krdma_errno(), krdma_error());
		return -1;
	}
	if (info.magic != SHARE_MAGIC || info.version != SHARE_VERSION) {
		say(arg, EPROTO,
		    info.magic == SHARE_MAGIC ? "it is a share of another version" :
						"it is no share (krdma serve)");
		return -1;
	}
	for (i = 0; i < SHARE_REFUSALS; i++) {
		if (memcmp(info.refusals[i].token, hello->token, SHARE_TOKEN) != 0)
			continue;
		error = info.refusals[i].error;
		say(arg, error == EBUSY || error == EALREADY ? EBUSY : EIO,
		    error == EBUSY    ? "it has as many clients as it takes" :
		    error == EALREADY ? "this session is a client's already" :
					"the server can't export memory for this client");
		return -1;
	}
	return 0;
}

/* Say hello, until the client's export is there. Return: 0, or -1 when @say has been told. */
static int say_hello(struct share_link *link, const char *share, uint32_t timeout_ms,
		     share_say *say, void *arg)
{
	struct share_hello hello = { .magic = SHARE_MAGIC, .version = SHARE_VERSION };
	const uint64_t until = now_ns() + HELLO_NS;
	uint64_t pause = PAUSE_MIN_NS;
	struct krdma *krdma = link->range.krdma;
	struct krdma_region region;
	char name[KRDMA_NAME_MAX];
	struct krdma_op op;
	int rc;

	if (getrandom(hello.token, sizeof(hello.token), 0) != sizeof(hello.token) ||
	    krdma_open_region(krdma, link->range.session, share,
			      KRDMA_RIGHT_READ | KRDMA_RIGHT_MESSAGE, timeout_ms, &region))
		goto fail;
	if (look_at(link, &region, &hello, say, arg))
		return -1;
	krdma_op_send(&op, region.id, &hello, sizeof(hello), 0);
	if (submit(link, &op))
		goto fail;
	share_export_name(name, share, hello.token);
	for (;;) {
		rc = krdma_open_region(krdma, link->range.session, name,
				       KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE,
				       timeout_ms, &link->range.region);
		if (rc != -ENOENT)
			break;
		if (now_ns() > until) {
			say(arg, ETIMEDOUT, "the server does not answer");
			return -1;
		}
		pause_ns(&pause);
		if (look_at(link, &region, &hello, say, arg))
			return -1;
	}
	if (!rc && link->range.region.length == SHARE_BYTES)
		return 0;
	if (!rc) {
		say(arg, EPROTO, "the server's export has another length");
		return -1;
	}
fail:
	say(arg, krdma_errno(), krdma_error());
	return -1;
}

int share_open(struct share_link *link, const char *host, const char *share,
	       struct krdma_connect_options options, share_say *say, void *arg)
{
	int rc;

	options.flags |= KRDMA_CONNECT_MESSAGES | KRDMA_CONNECT_PRIVATE;
	pthread_mutex_init(&link->lock, NULL);
	pthread_cond_init(&link->looked, NULL);
	rc = krdma_new(&link->range.krdma);
	if (rc) {
		link->range.krdma = NULL;
		say(arg, rc == -ENOENT ? ENODEV : -rc, krdma_error());
		return -1;
	}
	link->memory =
		mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED) {
		link->memory = NULL;
		say(arg, errno, "there is no memory for its slots");
		return -1;
	}
	if (krdma_connect_host(link->range.krdma, host, &options, &link->range.session, NULL)) {
		say(arg, krdma_errno(), krdma_error());
		return -1;
	}
	link->timeout_ns = patient_timeout(&link->range);
	if (say_hello(link, share, options.timeout_ms, say, arg))
		return -1;
	/* Without, each operation pins its own. */
	if (krdma_register_buffer(link->range.krdma, link->memory, SHARE_BYTES,
				  KRDMA_BUFFER_WRITABLE, &link->buffer))
		link->buffer = 0;
	return 0;
}

void share_close(struct share_link *link)
{
	struct krdma_op op;

	if (link->range.region.id) {
		/* The server notices the end of the session, too. */
		krdma_op_send(&op, link->range.region.id, link->memory, 0,
			      share_value(SHARE_BYE, 0, 0));
		submit(link, &op);
	}
	krdma_free(link->range.krdma);
	if (link->memory)
		munmap(link->memory, SHARE_BYTES);
	pthread_cond_destroy(&link->looked);
	pthread_mutex_destroy(&link->lock);
}

int share_failure(const struct share_link *link, uint32_t slot, uint32_t length,
		  char text[FILES_TEXT_MAX])
{
	struct files_reader reader;

	strcpy(text, "the server's response makes no sense");
	if (files_chunk_open(&reader, share_memory(link, slot), length) ||
	    files_chunk_next(&reader) != 1 || reader.record.type != FILES_ERROR)
		return EPROTO;
	return files_chunk_text(&reader, text);
}

int share_begin(struct share_link *link, enum share_op op, const char *path, unsigned int flags,
		uint64_t *bytes, share_say *say, void *arg)
{
	const struct files_record record = {
		.type = FILES_BEGIN,
		.flags = (uint16_t)flags,
		.path_length = (uint16_t)strlen(path),
	};
	char text[FILES_TEXT_MAX];
	struct files_reader reader;
	struct files_writer writer;
	enum share_code code;
	uint32_t length;
	int error;

	files_chunk_begin(&writer, share_memory(link, 0));
	files_chunk_add(&writer, &record, path);
	if (share_call(link, op, 0, files_chunk_end(&writer)) ||
	    share_wait(link, 1, &code, &length) < 0) {
		say(arg, krdma_errno(), krdma_error());
		return -1;
	}
	if (code == SHARE_OK && !files_chunk_open(&reader, share_memory(link, 0), length) &&
	    files_chunk_next(&reader) == 1 && reader.record.type == FILES_BEGIN) {
		*bytes = reader.record.size;
		return 0;
	}
	error = share_failure(link, 0, length, text);
	say(arg, error, text);
	return -1;
}
