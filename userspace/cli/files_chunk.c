// SPDX-License-Identifier: GPL-2.0
/* Chunks of records, written and read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "files.h"

static uint32_t padded(uint32_t length)
{
	return (length + 7) & ~7U;
}

static uint64_t chunk_digest(const char *at, uint32_t length)
{
	return files_digest(at + sizeof(struct files_chunk), length - sizeof(struct files_chunk));
}

void files_chunk_begin(struct files_writer *writer, char *at)
{
	writer->at = at;
	writer->used = sizeof(struct files_chunk);
}

uint32_t files_chunk_room(const struct files_writer *writer, size_t path_length)
{
	const uint32_t head = (uint32_t)sizeof(struct files_record) + padded((uint32_t)path_length);

	return writer->used + head < FILES_CHUNK ? FILES_CHUNK - writer->used - head : 0;
}

char *files_chunk_add(struct files_writer *writer, const struct files_record *record,
		      const char *path)
{
	char *at = writer->at + writer->used;
	const uint32_t path_room = padded(record->path_length);
	const uint32_t head = (uint32_t)sizeof(*record) + path_room;

	if (writer->used + head > FILES_CHUNK ||
	    padded(record->data_length) > FILES_CHUNK - writer->used - head)
		return NULL;
	memcpy(at, record, sizeof(*record));
	if (path_room)
		memset(at + head - 8, 0, 8);
	memcpy(at + sizeof(*record), path, record->path_length);
	writer->used += head + padded(record->data_length);
	if (record->data_length)
		memset(writer->at + writer->used - 8, 0, 8);
	return at + head;
}

bool files_chunk_error(struct files_writer *writer, uint32_t id, int error, const char *text)
{
	const struct files_record record = {
		.type = FILES_ERROR,
		.id = id,
		.mode = (uint16_t)error,
		.data_length = (uint32_t)strnlen(text, FILES_TEXT_MAX - 1),
	};
	char *to = files_chunk_add(writer, &record, "");

	if (to)
		memcpy(to, text, record.data_length);
	return to;
}

uint32_t files_chunk_end(struct files_writer *writer)
{
	struct files_chunk head = { .magic = FILES_MAGIC, .length = writer->used };

	if (writer->used == sizeof(head))
		return 0;
	head.digest = chunk_digest(writer->at, writer->used);
	memcpy(writer->at, &head, sizeof(head));
	return writer->used;
}

int files_chunk_open(struct files_reader *reader, const char *at, uint32_t length)
{
	struct files_chunk head;

	if (length < sizeof(head) || length > FILES_CHUNK)
		return EPROTO;
	memcpy(&head, at, sizeof(head));
	if (chunk_digest(at, length) != head.digest)
		return EILSEQ;
	if (head.magic != FILES_MAGIC || head.length != length)
		return EPROTO;
	reader->at = at;
	reader->used = sizeof(head);
	reader->length = length;
	return 0;
}

int files_chunk_next(struct files_reader *reader)
{
	struct files_record *record = &reader->record;
	uint32_t left = reader->length - reader->used;

	if (!left)
		return 0;
	if (left < sizeof(*record))
		return -EPROTO;
	memcpy(record, reader->at + reader->used, sizeof(*record));
	reader->used += sizeof(*record);
	left -= sizeof(*record);
	if (record->path_length > FILES_PATH_MAX || padded(record->path_length) > left ||
	    record->reserved)
		return -EPROTO;
	memcpy(reader->path, reader->at + reader->used, record->path_length);
	reader->path[record->path_length] = '\0';
	reader->used += padded(record->path_length);
	left -= padded(record->path_length);
	if (record->data_length > left || padded(record->data_length) > left)
		return -EPROTO;
	reader->data = reader->at + reader->used;
	reader->used += padded(record->data_length);
	return 1;
}

/* Bytes of the UTF-8 character at the beginning of a text; 0: there is none. */
static size_t utf8(const unsigned char *at)
{
	const size_t length = *at < 0x80 ? 1 :
			      *at < 0xc2 ? 0 :
			      *at < 0xe0 ? 2 :
			      *at < 0xf0 ? 3 :
			      *at < 0xf5 ? 4 :
					   0;
	size_t i;

	/* Longer than it need be; a half of a pair of UTF-16; behind U+10ffff. */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90) ||
	    (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf4 && at[1] >= 0x90))
		return 0;
	for (i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* U+0080 to U+009f are control characters, too. */
static bool control(const unsigned char *at)
{
	return *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
}

static void replace(char *text, bool controls)
{
	size_t n;

	for (; *text; text += n) {
		n = utf8((const unsigned char *)text);
		if (!n || (controls && control((const unsigned char *)text))) {
			*text = '?';
			n = 1;
		}
	}
}

void files_printable(char *text)
{
	replace(text, true);
}

void files_valid(char *text)
{
	replace(text, false);
}

int files_chunk_text(const struct files_reader *reader, char text[FILES_TEXT_MAX])
{
	uint32_t length = reader->record.data_length;
	const int error = reader->record.mode;

	if (length > FILES_TEXT_MAX - 1)
		length = FILES_TEXT_MAX - 1;
	memcpy(text, reader->data, length);
	text[length] = '\0';
	files_printable(text);
	return strerrorname_np(error) && error ? error : EIO;
}
