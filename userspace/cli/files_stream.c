// SPDX-License-Identifier: GPL-2.0
/* The receiver of one file as a stream, such as standard output: its chunks come one after the other. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_receive.h"

struct files_receiver *files_receiver_new_stream(int fd, const char *expected)
{
	struct files_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->base = -1;
	r->stream.fd = fd;
	r->expected = strdup(expected);
	if (!r->expected) {
		free(r);
		return NULL;
	}
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

/* Return: 0 or an errno. */
static int put(struct files_stream *s, const char *from, size_t length)
{
	struct pollfd room = { .fd = s->fd, .events = POLLOUT };
	ssize_t n;

	while (length) {
		n = write(s->fd, from, length);
		if (n < 0 && errno == EINTR)
			continue;
		/* Whoever shares the pipe or the terminal may have made it not block. */
		if (n < 0 && errno == EAGAIN && (poll(&room, 1, -1) > 0 || errno == EINTR))
			continue;
		if (n < 0)
			return errno;
		from += n;
		length -= (size_t)n;
		s->at += (uint64_t)n;
	}
	return 0;
}

/* A hole ends here. */
static int put_zeroes(struct files_stream *s, uint64_t end)
{
	static const char zeroes[FILES_BLOCK];
	int error = 0;

	while (!error && s->at < end)
		error = put(s, zeroes, end - s->at < FILES_BLOCK ? end - s->at : FILES_BLOCK);
	return error;
}

/* Each of these returns 0, EPROTO, or what write(2) fails with. */
static int stream_open(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	const struct files_record have = { .type = FILES_HAVE, .id = record->id };
	struct files_stream *s = &u->receiver->stream;

	if (s->begun || !record->id || record->size > INT64_MAX)
		return EPROTO;
	s->begun = s->open = true;
	s->id = record->id;
	s->size = record->size;
	files_chunk_add(&u->reply, &have, "");
	return 0;
}

static int stream_short(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	struct files_stream *s = &u->receiver->stream;
	int error;

	if (s->begun || record->data_length != record->size)
		return EPROTO;
	s->begun = true;
	error = put(s, u->reader.data, record->data_length);
	if (!error)
		receive_count(u, 1, record->size, record->data_length);
	return error;
}

static int stream_data(struct unpack *u)
{
	const struct files_record *record = &u->reader.record;
	struct files_stream *s = &u->receiver->stream;
	int error;

	if (record->offset < s->at || record->offset > s->size ||
	    record->data_length > s->size - record->offset)
		return EPROTO;
	error = put_zeroes(s, record->offset);
	if (!error)
		error = put(s, u->reader.data, record->data_length);
	s->counted += record->data_length;
	receive_count(u, 0, record->data_length, record->data_length);
	return error;
}

static int stream_close(struct unpack *u)
{
	struct files_stream *s = &u->receiver->stream;
	int error;

	if (u->reader.record.size != s->counted)
		return EPROTO;
	error = put_zeroes(s, s->size);
	s->open = false;
	receive_count(u, 1, 0, 0);
	return error;
}

int receive_stream(struct unpack *u)
{
	struct files_stream *s = &u->receiver->stream;
	const uint16_t type = u->reader.record.type;
	int error = EPROTO;

	if (type == FILES_OPEN)
		error = stream_open(u);
	else if (type == FILES_FILE)
		error = stream_short(u);
	else if (s->open && u->reader.record.id == s->id && type == FILES_DATA)
		error = stream_data(u);
	else if (s->open && u->reader.record.id == s->id && type == FILES_CLOSE)
		error = stream_close(u);
	if (s->open && u->reader.record.id == s->id && type == FILES_GIVE_UP) {
		s->open = false;
		error = 0;
	}
	if (error && error != EPROTO)
		receive_complain(u, 0, error, "can't be written", "standard output");
	return error;
}
