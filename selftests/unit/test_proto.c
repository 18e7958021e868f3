// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of driver/wire/wire.c.
 *
 *   test_proto                  run the tests
 *   test_proto --corpus DIR     write the examples to DIR, one file each, as seeds for the
 *                               fuzzer
 *   test_proto --golden         print the examples as wire.rst shows them
 *
 * The examples are in Documentation/wire.rst, each with a comment that has its name. The tests
 * build the same messages by hand and compare all bytes, so that the document, the structs and the
 * code can't change separately.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/wire.h"

#include <cmocka.h>

#ifndef UNIT_DIR
#define UNIT_DIR "."
#endif

#define HDR   16
#define REPLY KRDMA_WIRE_REPLY
/* The longest message of all. */
#define ROOM ((u32)KRDMA_WIRE_MESSAGE_MAX)

/* Names of the case at hand, for the messages of failures. */
#define require(cond, ...)                                    \
	do {                                                  \
		if (!(cond)) {                                \
			print_error("not true: %s; ", #cond); \
			print_error(__VA_ARGS__);             \
			print_error("\n");                    \
			fail();                               \
		}                                             \
	} while (0)

static void put(u8 *at, u32 width, u64 value)
{
	while (width--) {
		*at++ = value;
		value >>= 8;
	}
}

static u64 get(const u8 *at, u32 width)
{
	u64 value = 0;

	while (width--)
		value = value << 8 | at[width];
	return value;
}

/* ------------------------------------------------- messages built by hand */

#define GRANT(msg)                                           \
	do {                                                 \
		(msg)->grant = cpu_to_le32(0x21222324);      \
		(msg)->generation = cpu_to_le32(0x31323334); \
	} while (0)

static void begin(void *buf, u8 type, u32 fixed, u32 more, u32 tag)
{
	union krdma_wire_msg *msg = krdma_wire_build(buf, type, fixed, more);

	msg->hdr.tag = cpu_to_le32(tag);
}

#define BEGIN(buf, type, struct_name, more, tag) \
	begin(buf, type, sizeof(struct struct_name), more, tag)

static void build_ping(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_PING, krdma_wire_ping, 5, 1);
	memcpy(msg->ping.data, "hello", 5);
}

static void build_ping_reply(union krdma_wire_msg *msg)
{
	build_ping(msg);
	msg->hdr.type |= REPLY;
}

static void build_list(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_LIST, krdma_wire_list, 0, 2);
	msg->list.cursor = cpu_to_le64(0x0807060504030201);
}

static void build_list_reply(union krdma_wire_msg *msg)
{
	struct krdma_wire_list_entry *entry = msg->list_reply.entry;

	BEGIN(msg, REPLY | KRDMA_WIRE_LIST, krdma_wire_list_reply, 0, 2);
	msg->list_reply.cursor = cpu_to_le64(0x1817161514131211);
	memset(entry, 0, sizeof(*entry));
	entry->length = cpu_to_le64(0x123456789);
	entry->rights = cpu_to_le32(3);
	memcpy(entry->name, "scratch", 8);
	krdma_wire_end(msg, entry + 1);
}

static void build_open(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_OPEN, krdma_wire_open, 0, 0x03040506);
	msg->open.rights = cpu_to_le32(1);
	memcpy(msg->open.name, "scratch", 8);
}

static void build_open_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_OPEN, krdma_wire_open_reply, 0, 0x03040506);
	msg->open_reply.length = cpu_to_le64(0x123456789);
	msg->open_reply.rights = cpu_to_le32(1);
	GRANT(&msg->open_reply);
	msg->open_reply.segment_shift = cpu_to_le32(20);
}

static void build_open_failed(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_OPEN, krdma_wire_hdr, 0, 0x03040506);
	msg->hdr.status = cpu_to_le16(KRDMA_WIRE_ACCES);
}

static void build_segs(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_SEGS, krdma_wire_segs, 0, 4);
	GRANT(&msg->segs);
	msg->segs.first = cpu_to_le64(0x1233);
	msg->segs.count = cpu_to_le32(2);
	msg->segs.extra = cpu_to_le16(6);
}

static void build_segs_reply(union krdma_wire_msg *msg)
{
	struct krdma_wire_seg *seg = msg->segs_reply.seg;

	BEGIN(msg, REPLY | KRDMA_WIRE_SEGS, krdma_wire_segs_reply, 2 * sizeof(*seg), 4);
	seg[0].address = cpu_to_le64(0x4142434445464000);
	seg[0].length = cpu_to_le32(0x100000);
	seg[0].rkey = cpu_to_le32(0x51525354);
	seg[1].address = cpu_to_le64(0x6162636465666000);
	seg[1].length = cpu_to_le32(0x56789);
	seg[1].rkey = cpu_to_le32(0x71727374);
}

static void build_close(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_CLOSE, krdma_wire_close, 0, 5);
	GRANT(&msg->close);
}

static void build_used(struct krdma_wire_used *used)
{
	used->read_bytes = cpu_to_le64(0x1122334455);
	used->written_bytes = cpu_to_le64(0x66778899aa);
	used->reads = cpu_to_le64(0x1234);
	used->writes = cpu_to_le64(0x5678);
}

static void build_close_used(union krdma_wire_msg *msg)
{
	build_close(msg);
	build_used(msg->close.used);
	krdma_wire_end(msg, msg->close.used + 1);
}

static void build_usage(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_USAGE, krdma_wire_usage, sizeof(*msg->usage.entry), 13);
	GRANT(msg->usage.entry);
	build_used(&msg->usage.entry->used);
}

static void build_usage_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_USAGE, krdma_wire_hdr, 0, 13);
}

static void build_close_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_CLOSE, krdma_wire_hdr, 0, 5);
}

static void build_recall(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_RECALL, krdma_wire_recall, 2 * sizeof(__le64), 6);
	GRANT(&msg->recall);
	msg->recall.index[0] = cpu_to_le64(0x1234);
	msg->recall.index[1] = cpu_to_le64(7);
}

static void build_recall_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_RECALL, krdma_wire_hdr, 0, 6);
}

static void build_recall_grant(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_RECALL, krdma_wire_recall, 0, 7);
	GRANT(&msg->recall);
}

static void build_bye(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_BYE, krdma_wire_bye, 0, 0);
	msg->bye.reason = cpu_to_le32(KRDMA_WIRE_REASON_SHUTDOWN);
}

static void build_fence(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_FENCE, krdma_wire_fence, 0, 11);
	msg->fence.channel = cpu_to_le32(3);
	msg->fence.qp_num = cpu_to_le32(0x1234);
}

static void build_fence_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_FENCE, krdma_wire_hdr, 0, 11);
}

static void build_ack(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_ACK, krdma_wire_hdr, 0, 0);
	msg->hdr.received = cpu_to_le16(3);
}

static void build_addresses_reply(union krdma_wire_msg *msg)
{
	static const u8 addr[16] = { [10] = 0xff, 0xff, 10, 77, 0, 2 };

	BEGIN(msg, REPLY | KRDMA_WIRE_ADDRESSES, krdma_wire_addresses_reply,
	      sizeof(struct krdma_wire_address), 12);
	memcpy(msg->addresses_reply.address[0].addr, addr, sizeof(addr));
	msg->addresses_reply.address[0].port = cpu_to_le16(7471);
	msg->addresses_reply.address[0].reserved = 0;
}

static void build_digest(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_DIGEST, krdma_wire_digest, 0, 9);
	GRANT(&msg->digest);
	msg->digest.offset = cpu_to_le64(0x123456);
	msg->digest.length = cpu_to_le32(0x10000);
	msg->digest.value = cpu_to_le32(0xffffffff);
}

static void build_digest_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_DIGEST, krdma_wire_digest_reply, 0, 9);
	msg->digest_reply.value = cpu_to_le32(0x81828384);
}

static void build_flush(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_FLUSH, krdma_wire_flush, 2 * sizeof(*msg->flush.range), 14);
	GRANT(&msg->flush);
	msg->flush.range[0].offset = cpu_to_le64(0x123456);
	msg->flush.range[0].length = cpu_to_le64(0x10000);
	msg->flush.range[1].offset = cpu_to_le64(0x200000000);
	msg->flush.range[1].length = cpu_to_le64(1);
}

static void build_flush_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_FLUSH, krdma_wire_hdr, 0, 14);
}

static void build_grow(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_GROW, krdma_wire_close, 0, 15);
	GRANT(&msg->close);
}

static void build_grow_reply(union krdma_wire_msg *msg)
{
	BEGIN(msg, REPLY | KRDMA_WIRE_GROW, krdma_wire_grow_reply, 0, 15);
	msg->grow_reply.length = cpu_to_le64(0x80000000);
}

static void build_message(union krdma_wire_msg *msg)
{
	BEGIN(msg, KRDMA_WIRE_MESSAGE, krdma_wire_message, 5, 3);
	GRANT(&msg->message);
	msg->message.value = cpu_to_le64(0x9192939495969798);
	memcpy(msg->message.data, "hello", 5);
}

static void build_message_written(union krdma_wire_msg *msg)
{
	build_message(msg);
	msg->message.flags = cpu_to_le32(KRDMA_WIRE_WRITTEN);
	krdma_wire_end(msg, msg->message.data);
}

static void build_message_reply(union krdma_wire_msg *msg)
{
	struct krdma_wire_taken *taken = msg->message_reply.taken;

	BEGIN(msg, REPLY | KRDMA_WIRE_MESSAGE, krdma_wire_message_reply, 0, 3);
	memset(taken, 0, 2 * sizeof(*taken));
	taken[0].tag = cpu_to_le32(3);
	taken[1].tag = cpu_to_le32(64);
	taken[1].status = cpu_to_le16(KRDMA_WIRE_STALE);
	krdma_wire_end(msg, taken + 2);
}

static void build_request(union krdma_wire_msg *msg)
{
	*(struct krdma_wire_hello *)msg = (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.features = cpu_to_le64(KRDMA_WIRE_MESSAGES | KRDMA_WIRE_PLACES),
		.incarnation = cpu_to_le64(0x1122334455667788),
		.session = cpu_to_le64(0x1112131415161718),
		.uid = cpu_to_le32(1000),
		.credits = cpu_to_le16(32),
		.channels = cpu_to_le16(8),
	};
}

static void build_accept(union krdma_wire_msg *msg)
{
	*(struct krdma_wire_hello *)msg = (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.features = cpu_to_le64(KRDMA_WIRE_MESSAGES | KRDMA_WIRE_PLACES),
		.incarnation = cpu_to_le64(0xa1a2a3a4a5a6a7a8),
		.session = cpu_to_le64(0x1112131415161718),
		.credits = cpu_to_le16(64),
		.message_credits = cpu_to_le16(32),
		.secret = cpu_to_le64(0xb1b2b3b4b5b6b7b9),
		.channels = cpu_to_le16(4),
	};
}

static void build_join(union krdma_wire_msg *msg)
{
	*(struct krdma_wire_hello *)msg = (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.channel = cpu_to_le16(3),
		.features = cpu_to_le64(KRDMA_WIRE_PLACES),
		.incarnation = cpu_to_le64(0x1122334455667788),
		.session = cpu_to_le64(0x1112131415161718),
		.uid = cpu_to_le32(1000),
		.credits = cpu_to_le16(32),
		.secret = cpu_to_le64(0xb1b2b3b4b5b6b7b9),
	};
}

static void build_reject(union krdma_wire_msg *msg)
{
	krdma_wire_build_reject((void *)msg, KRDMA_WIRE_REASON_NOT_ADMITTED);
}

/* The messages, then what is none and has its length here. */
static struct example {
	const char *name; /* in wire.rst, and of the file in corpus/ */
	void (*build)(union krdma_wire_msg *msg);
	u32 len;
	u8 bytes[128]; /* of wire.rst */
	u32 got;
} examples[] = {
	{ "ping", build_ping },
	{ "ping-reply", build_ping_reply },
	{ "list", build_list },
	{ "list-reply", build_list_reply },
	{ "open", build_open },
	{ "open-reply", build_open_reply },
	{ "open-failed", build_open_failed },
	{ "segs", build_segs },
	{ "segs-reply", build_segs_reply },
	{ "close", build_close },
	{ "close-used", build_close_used },
	{ "close-reply", build_close_reply },
	{ "recall", build_recall },
	{ "recall-reply", build_recall_reply },
	{ "recall-grant", build_recall_grant },
	{ "bye", build_bye },
	{ "digest", build_digest },
	{ "digest-reply", build_digest_reply },
	{ "flush", build_flush },
	{ "flush-reply", build_flush_reply },
	{ "grow", build_grow },
	{ "grow-reply", build_grow_reply },
	{ "fence", build_fence },
	{ "fence-reply", build_fence_reply },
	{ "ack", build_ack },
	{ "addresses-reply", build_addresses_reply },
	{ "usage", build_usage },
	{ "usage-reply", build_usage_reply },
	{ "message", build_message },
	{ "message-written", build_message_written },
	{ "message-reply", build_message_reply },
	{ "hello-request", build_request, 56 },
	{ "hello-accept", build_accept, 56 },
	{ "hello-join", build_join, 56 },
	{ "reject", build_reject, 8 },
};

#define for_each_message(e) for (e = examples; !e->len; e++)

static struct example *example(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(examples); i++)
		if (!strcmp(examples[i].name, name))
			return &examples[i];
	return NULL;
}

/* The bytes that wire.rst has of one. */
static u32 bytes_of(const char *name, u8 *bytes)
{
	const struct example *e = example(name);

	memcpy(bytes, e->bytes, e->got);
	return e->got;
}

static u32 build(const struct example *e, u8 *bytes)
{
	static union krdma_wire_msg room[ROOM / sizeof(union krdma_wire_msg) + 1];

	memset(room, 0xee, sizeof(room));
	e->build(room);
	memcpy(bytes, room, e->len ?: get((u8 *)room + 4, 4));
	return e->len ?: get((u8 *)room + 4, 4);
}

/* ---------------------------------------------------- the document, corpus */

static char *read_text(const char *path, size_t *len)
{
	FILE *file = fopen(path, "rb");
	char *text = malloc(1 << 20);

	if (!file || !text) {
		perror(path);
		exit(1);
	}
	*len = fread(text, 1, (1 << 20) - 1, file);
	text[*len] = 0;
	fclose(file);
	return text;
}

/* Offset and 16 bytes a line. */
static u32 read_dump(const char *at, u8 *bytes, u32 room)
{
	u32 len = 0, offset, byte;
	int n;

	at = strstr(at, "\n\n   0000  ");
	for (; at && sscanf(at, " %4x%n", &offset, &n) == 1 && offset == len; at += n) {
		at += n;
		for (n = 0; len < room && sscanf(at, " %2x%n", &byte, &n) == 1; at += n, n = 0) {
			bytes[len++] = byte;
			if (at[n] == '\n') {
				at += n;
				n = 0;
				break;
			}
		}
		n = 0;
	}
	return len;
}

/* Return: how many there are in the document, known by name or not */
static u32 read_examples(void)
{
	static const char mark[] = "\n.. example: ";
	char name[64];
	size_t size;
	char *text = read_text(UNIT_DIR "/../../Documentation/wire.rst", &size), *at = text;
	struct example *e;
	u32 n = 0;

	while ((at = strstr(at, mark))) {
		at += sizeof(mark) - 1;
		n++;
		if (sscanf(at, "%63s", name) != 1)
			continue;
		e = example(name);
		if (e)
			e->got = read_dump(at, e->bytes, sizeof(e->bytes));
	}
	free(text);
	return n;
}

static void test_examples(void **state)
{
	u32 n = read_examples(), len;
	const struct example *e;
	u8 bytes[ROOM];

	assert_int_equal(n, ARRAY_SIZE(examples));
	for (e = examples; e < examples + ARRAY_SIZE(examples); e++) {
		len = build(e, bytes);
		require(len == e->got, "%s: %u bytes in wire.rst, %u built", e->name, e->got, len);
		require(!memcmp(bytes, e->bytes, len), "%s: other bytes in wire.rst", e->name);
	}
}

static void test_corpus(void **state)
{
	const struct example *e;
	char path[512];
	size_t len;
	char *text;

	for (e = examples; e < examples + ARRAY_SIZE(examples); e++) {
		snprintf(path, sizeof(path), UNIT_DIR "/corpus/%s", e->name);
		text = read_text(path, &len);
		require(len == e->got && !memcmp(text, e->bytes, len), "%s differs", path);
		free(text);
	}
}

/* ---------------------------------------------------------------- checking */

/* Check a block of exactly len bytes: the sanitizer sees a read behind it. */
static const char *check(const u8 *bytes, u32 len)
{
	const union krdma_wire_msg *msg;
	u8 *copy = malloc(len ? len : 1);
	const char *cause = "unset";

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	msg = krdma_wire_check(copy, len, &cause);
	if (msg)
		require(msg == (void *)copy && !cause, "cause: %s", cause);
	else
		require(cause && strcmp(cause, "unset"), "no cause");
	require(!len || !memcmp(copy, bytes, len), "the message was changed");
	free(copy);
	return cause;
}

static void refuse(const u8 *bytes, u32 len, const char *expected, const char *what)
{
	const char *cause = check(bytes, len);

	require(cause, "%s: accepted", what);
	if (cause && expected)
		require(!strcmp(cause, expected), "%s: refused by \"%s\", not \"%s\"", what, cause,
			expected);
}

static void accept(const u8 *bytes, u32 len, const char *what)
{
	const char *cause = check(bytes, len);

	require(!cause, "%s: refused by \"%s\"", what, cause);
}

/* The table of wire.rst, written once more: not wire.c's. */
struct shape {
	u8 type;
	u32 fixed, each, min, max;
};

static const struct shape shapes[] = {
	{ KRDMA_WIRE_PING, 16, 1, 0, 512 },
	{ REPLY | KRDMA_WIRE_PING, 16, 1, 0, 512 },
	{ KRDMA_WIRE_LIST, 24 },
	{ REPLY | KRDMA_WIRE_LIST, 24, 80, 0, 12 },
	{ KRDMA_WIRE_OPEN, 88 },
	{ REPLY | KRDMA_WIRE_OPEN, 40 },
	{ KRDMA_WIRE_SEGS, 40 },
	{ REPLY | KRDMA_WIRE_SEGS, 16, 16, 0, 32 },
	{ KRDMA_WIRE_CLOSE, 24, 32, 0, 1 },
	{ REPLY | KRDMA_WIRE_CLOSE, 16 },
	{ KRDMA_WIRE_RECALL, 24, 8, 0, 64 },
	{ REPLY | KRDMA_WIRE_RECALL, 16 },
	{ KRDMA_WIRE_BYE, 24 },
	{ KRDMA_WIRE_DIGEST, 40 },
	{ REPLY | KRDMA_WIRE_DIGEST, 24 },
	{ KRDMA_WIRE_MESSAGE, 40, 1, 0, 4096 },
	{ REPLY | KRDMA_WIRE_MESSAGE, 16, 8, 1, 64 },
	{ KRDMA_WIRE_FENCE, 24 },
	{ REPLY | KRDMA_WIRE_FENCE, 16 },
	{ KRDMA_WIRE_ACK, 16 },
	{ KRDMA_WIRE_ADDRESSES, 16 },
	{ REPLY | KRDMA_WIRE_ADDRESSES, 16, 20, 0, 16 },
	{ KRDMA_WIRE_USAGE, 16, 40, 1, 24 },
	{ REPLY | KRDMA_WIRE_USAGE, 16 },
	{ KRDMA_WIRE_FLUSH, 24, 16, 1, 32 },
	{ REPLY | KRDMA_WIRE_FLUSH, 16 },
	{ KRDMA_WIRE_GROW, 24 },
	{ REPLY | KRDMA_WIRE_GROW, 24 },
};

#define for_each_shape(s) for (s = shapes; s < shapes + ARRAY_SIZE(shapes); s++)

/* For messages about a failure: of a type in shapes[]. */
static const char *type_name(u8 type)
{
	static const char *const types[] = { "unknown", "PING",    "LIST",   "OPEN",
					     "SEGS",    "CLOSE",   "RECALL", "BYE",
					     "DIGEST",  "MESSAGE", "FENCE",  "ACK",
					     "ADDRS",   "USAGE",   "FLUSH",  "GROW" };

	return types[type & ~REPLY];
}

static const struct shape *shape_of(u8 type)
{
	const struct shape *s;

	for_each_shape(s) if (s->type == type) return s;
	return NULL;
}

/* ------------------------------------------------------- random messages */

/* xorshift64*: the same numbers at every run */
static u64 random_state = 0x9e3779b97f4a7c15;

static u64 random64(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1d;
}

static u32 random32(void)
{
	return random64() >> 32;
}

static u32 random_id(void)
{
	return random32() | 1;
}

static void random_name(u8 *name)
{
	static const char chars[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=";
	u32 len = 1 + random32() % 63;

	memset(name, 0, 64);
	while (len--)
		name[len] = chars[random32() % (sizeof(chars) - 1)];
}

/* A message that nothing is wrong with, by the offsets of wire.rst. */
static u32 random_message(const struct shape *s, u32 n, u8 *m)
{
	u32 i, len = s->fixed + n * s->each, count;
	u8 *at = m + s->fixed;

	for (i = 0; i < len; i++)
		m[i] = random32();
	put(m, 4, s->type);
	put(m + 4, 4, len);
	put(m + 8, 4, s->type == KRDMA_WIRE_BYE || s->type == KRDMA_WIRE_ACK ? 0 : random_id());
	put(m + 14, 2, 0);
	switch (s->type) {
	case KRDMA_WIRE_SEGS:
	case KRDMA_WIRE_CLOSE:
	case KRDMA_WIRE_RECALL:
	case KRDMA_WIRE_DIGEST:
	case KRDMA_WIRE_MESSAGE:
	case KRDMA_WIRE_FLUSH:
	case KRDMA_WIRE_GROW:
		put(m + 16, 4, random_id());
		put(m + 20, 4, random_id());
	}
	switch (s->type) {
	case REPLY | KRDMA_WIRE_LIST:
		for (i = 0; i < n; i++, at += 80) {
			put(at, 8, random64() | 1);
			put(at + 12, 4, 0);
			random_name(at + 16);
		}
		break;
	case KRDMA_WIRE_OPEN:
		put(m + 16, 4, random32() & 0x17);
		put(m + 20, 4, 0);
		random_name(m + 24);
		break;
	case REPLY | KRDMA_WIRE_OPEN:
		put(m + 16, 8, random64() | 1);
		put(m + 24, 4, random32() & 0x17);
		put(m + 28, 4, random_id());
		put(m + 32, 4, random_id());
		put(m + 36, 4, 12 + random32() % 20);
		break;
	case KRDMA_WIRE_SEGS:
		count = 1 + random32() % 32;
		put(m + 24, 8, random64() >> 1);
		put(m + 32, 4, count);
		put(m + 36, 2, random32() % (33 - count));
		put(m + 38, 2, random32() % 4);
		break;
	case REPLY | KRDMA_WIRE_SEGS:
		for (i = 0; i < n; i++, at += 16) {
			put(at, 8, random64() >> 1);
			put(at + 8, 4, random_id());
		}
		break;
	case KRDMA_WIRE_BYE:
		put(m + 16, 4, random32() % 10);
		put(m + 20, 4, random32() % 2 * random32());
		break;
	case KRDMA_WIRE_FENCE:
		put(m + 16, 4, 1 + random32() % 8);
		put(m + 20, 4, random_id());
		break;
	case KRDMA_WIRE_DIGEST:
		put(m + 24, 8, random64() >> 1);
		put(m + 32, 4, 1 + random32() % (4 << 20));
		break;
	case REPLY | KRDMA_WIRE_DIGEST:
		put(m + 20, 4, 0);
		break;
	case REPLY | KRDMA_WIRE_ADDRESSES:
		for (i = 0; i < n; i++, at += 20)
			put(at + 16, 4, 1 + random32() % 65535);
		break;
	case KRDMA_WIRE_USAGE:
		for (i = 0; i < n; i++, at += 40) {
			put(at, 4, random_id());
			put(at + 4, 4, random_id());
		}
		break;
	case KRDMA_WIRE_FLUSH:
		for (i = 0; i < n; i++, at += 16) {
			put(at, 8, random64() >> 1);
			put(at + 8, 8, 1 + random32() % ((64 << 20) / n));
		}
		break;
	case REPLY | KRDMA_WIRE_GROW:
		put(m + 16, 8, random64() | 1);
		break;
	case KRDMA_WIRE_MESSAGE:
		put(m + 32, 8, random32() & 1);
		break;
	case REPLY | KRDMA_WIRE_MESSAGE:
		for (i = 0; i < n; i++, at += 8) {
			put(at, 4, i ? random_id() : get(m + 8, 4));
			put(at + 4, 4, random32() % 9);
		}
		break;
	}
	return len;
}

static void test_random_messages(void **state)
{
	static u64 room[ROOM / 8 + 1];
	u8 *bytes = (u8 *)room;
	const struct shape *s;
	u32 n, i, len;

	for_each_shape(s) for (n = s->min; n <= s->max; n++) for (i = 0; i < (s->each ? 3 : 200);
								  i++)
	{
		len = random_message(s, n, bytes);
		accept(bytes, len, type_name(s->type));
		require(krdma_wire_entries((void *)bytes) == (s->each ? n : 0),
			"type %#x, %u entries", s->type, n);
	}
}

static void test_random_bytes(void **state)
{
	u8 bytes[ROOM + 8];
	u32 round, i, len;

	for (round = 0; round < 20000; round++) {
		len = random32() % sizeof(bytes);
		for (i = 0; i < len; i++)
			bytes[i] = random32();
		/* Mostly with a header that is nearly right, or nothing is reached. */
		if (len >= HDR && round % 4) {
			put(bytes, 4, (1 + random32() % 15) | (random32() & 0x80));
			put(bytes + 4, 4, len);
			put(bytes + 12, 4, 0);
		}
		check(bytes, len);
	}
}

/* ------------------------------------------------------- header and length */

static void test_failed_replies(void **state)
{
	const struct shape *s;
	u8 bytes[HDR + 8];
	const char *why;
	u32 status;

	for_each_shape(s)
	{
		if (!(s->type & REPLY))
			continue;
		for (status = 1; status <= KRDMA_WIRE_STATUS_LAST + 1; status++) {
			memset(bytes, 0, sizeof(bytes));
			put(bytes, 4, s->type | status << 16);
			put(bytes + 4, 4, HDR);
			put(bytes + 8, 4, 9);
			why = status > KRDMA_WIRE_STATUS_LAST ? "unknown status" :
			      s->type == (REPLY | KRDMA_WIRE_MESSAGE) ?
								"status in the reply to messages" :
			      s->type == (REPLY | KRDMA_WIRE_FENCE) ?
								"status in the reply to a fence" :
								NULL;
			if (why) {
				refuse(bytes, HDR, why, "failed reply");
				continue;
			}
			accept(bytes, HDR, "failed reply");
			put(bytes + 4, 4, HDR + 8);
			refuse(bytes, HDR + 8, "payload on a failed reply", "failed reply");
			put(bytes + 4, 4, HDR + 1);
			refuse(bytes, HDR + 1, "payload on a failed reply", "failed reply");
		}
	}
}

/* Every length but the right one, and headers that lie about it. */
static void lengths_of(const u8 *bytes, u32 len, const struct shape *s)
{
	const char *name = type_name(s->type);
	u8 patched[2 * ROOM] = {};
	u32 n, entries;
	bool right;

	for (n = 0; n < sizeof(patched); n++) {
		if (n == len)
			continue;
		memset(patched, 0, sizeof(patched));
		memcpy(patched, bytes, len);
		refuse(patched, n, n < HDR ? "shorter than a header" : "length is not what came",
		       name);
		if (n < HDR)
			continue;
		put(patched + 4, 4, n);
		entries = n < s->fixed || !s->each ? 0 : (n - s->fixed) / s->each;
		right = n == s->fixed + entries * s->each && entries >= s->min && entries <= s->max;
		/* Some entries of zeroes are right, too. */
		if (s->each > 1 && s->type != KRDMA_WIRE_RECALL && s->type != KRDMA_WIRE_CLOSE)
			right = right && n < len;
		if (right)
			accept(patched, n, name);
		else
			refuse(patched, n, n < s->fixed ? "shorter than its type" : NULL, name);
	}
}

static void test_lengths(void **state)
{
	const struct example *e;
	const struct shape *s;
	u8 bytes[ROOM];
	u32 len;

	for_each_message(e) if (!get(e->bytes + 2, 2))
		lengths_of(e->bytes, e->got, shape_of(e->bytes[0]));
	for_each_shape(s)
	{
		len = random_message(s, s->max, bytes);
		lengths_of(bytes, len, s);
	}
}

static void test_entries(void **state)
{
	u8 bytes[ROOM + 100];
	const struct shape *s;
	const char *name;
	u32 len;

	for_each_shape(s)
	{
		if (!s->each)
			continue;
		name = type_name(s->type);
		len = random_message(s, s->max, bytes);
		/* One more, which by itself is right. */
		memcpy(bytes + len, bytes + len - s->each, s->each);
		put(bytes + 4, 4, len + s->each);
		refuse(bytes, len + s->each, "count outside its limits", name);
		if (s->each > 1) {
			put(bytes + 4, 4, len - 1);
			refuse(bytes, len - 1, "length is not one of its type", name);
		}
		if (!s->min)
			continue;
		len = random_message(s, s->min, bytes) - s->each;
		put(bytes + 4, 4, len);
		refuse(bytes, len, "count outside its limits", name);
	}
}

/* Flips of one bit of the type that make another message that is right. */
static const struct {
	const char *name;
	u8 type;
} flips[] = {
	{ "ping", 0x81 },          { "ping-reply", 0x01 },
	{ "list", 0x82 },          { "list", 0x06 },
	{ "open", 0x01 },          { "open-reply", 0x81 },
	{ "open-failed", 0x81 },   { "open-failed", 0x82 },
	{ "close", 0x01 },         { "close-reply", 0x81 },
	{ "recall-grant", 0x02 },  { "message-written", 0x01 },
	{ "segs", 0x06 },          { "recall", 0x04 },
	{ "message", 0x01 },       { "message-written", 0x08 },
	{ "message-reply", 0x81 }, { "close-reply", 0x84 },
	{ "recall-reply", 0x84 },  { "fence", 0x02 },
	{ "close-used", 0x01 },    { "close-used", 0x0d },
	{ "usage", 0x05 },         { "close-reply", 0x8d },
	{ "usage-reply", 0x8c },   { "usage-reply", 0x85 },
	{ "recall", 0x0e },        { "recall-reply", 0x8e },
	{ "fence-reply", 0x8e },   { "flush", 0x06 },
	{ "flush-reply", 0x86 },   { "flush-reply", 0x8a },
	{ "flush-reply", 0x8c },   { "grow", 0x8f },
};

static bool type_flip_right(const struct example *e, u8 type)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(flips); i++)
		if (flips[i].type == type && !strcmp(flips[i].name, e->name))
			return true;
	return false;
}

static void test_header_bit_flips(void **state)
{
	const struct example *e;
	u8 bytes[ROOM];
	char what[64];
	u32 bit, at;
	bool right;

	for_each_message(e)
	{
		memcpy(bytes, e->bytes, e->got);
		for (bit = 0; bit < HDR * 8; bit++) {
			at = bit / 8;
			bytes[at] ^= 1 << bit % 8;
			if (at == 0)
				right = type_flip_right(e, bytes[0]);
			else if (at == 2 || at == 3) /* a failure is a header alone */
				right = bytes[0] & REPLY && e->got == HDR &&
					e->build != build_fence_reply &&
					get(bytes + 2, 2) <= KRDMA_WIRE_STATUS_LAST &&
					(get(bytes + 2, 2) || strcmp(e->name, "open-failed"));
			else if (at == 12 || at == 13) /* messages received: the session knows */
				right = true;
			else /* of the others the tag alone is free; of some it is there twice */
				right = at >= 8 && at < 12 && e->build != build_bye &&
					e->build != build_ack && e->build != build_message_reply &&
					get(bytes + 8, 4);
			snprintf(what, sizeof(what), "%s, bit %u of the header", e->name, bit);
			if (right)
				accept(bytes, e->got, what);
			else
				refuse(bytes, e->got, NULL, what);
			bytes[at] ^= 1 << bit % 8;
		}
	}
}

static void test_payload_bit_flips(void **state)
{
	const struct example *e;
	u8 bytes[ROOM];
	u32 bit;

	for_each_message(e)
	{
		memcpy(bytes, e->bytes, e->got);
		for (bit = HDR * 8; bit < e->got * 8; bit++) {
			bytes[bit / 8] ^= 1 << bit % 8;
			check(bytes, e->got);
			bytes[bit / 8] ^= 1 << bit % 8;
		}
	}
}

static void test_all_types(void **state)
{
	u8 bytes[HDR] = {};
	u32 type;

	put(bytes + 4, 4, HDR);
	put(bytes + 8, 4, 1);
	for (type = 0; type < 256; type++) {
		put(bytes, 4, type | (type & REPLY ? 1 << 16 : 0));
		if (!shape_of(type))
			refuse(bytes, HDR,
			       type & REPLY ? "unknown type of reply" : "unknown type of request",
			       "type");
	}
}

/* ACK has no reply, and BYE has none, with a tag or without, with its payload or without. */
static void test_no_reply_to_bye(void **state)
{
	u8 bytes[ROOM];
	u32 tag;

	for (tag = 0; tag < 2; tag++) {
		bytes_of("ack", bytes);
		bytes[0] |= REPLY;
		put(bytes + 8, 4, tag);
		refuse(bytes, HDR, "unknown type of reply", "ack");
		bytes_of("bye", bytes);
		bytes[0] |= REPLY;
		put(bytes + 8, 4, tag);
		refuse(bytes, HDR + 8, "unknown type of reply", "bye");
		put(bytes + 4, 4, HDR);
		put(bytes + 2, 2, KRDMA_WIRE_UNSUPPORTED);
		refuse(bytes, HDR, "unknown type of reply", "bye");
	}
}

static void test_bye_reason(void **state)
{
	const struct example *e;
	u64 room[ROOM / 8];
	u8 *bytes = (u8 *)room;
	u32 i, len, reason;

	for_each_message(e)
	{
		memcpy(bytes, e->bytes, e->got);
		assert_int_equal(krdma_wire_bye_reason(bytes, e->got),
				 e->build == build_bye ? KRDMA_WIRE_REASON_SHUTDOWN : -1);
	}
	len = bytes_of("bye", bytes);
	for (reason = 0; reason <= 11; reason++) {
		put(bytes + HDR, 4, reason);
		assert_int_equal(krdma_wire_bye_reason(bytes, len), reason <= 9 ? (int)reason : -1);
		/* A notice is no end. */
		put(bytes + HDR + 4, 4, 1);
		assert_int_equal(krdma_wire_bye_reason(bytes, len), -1);
		put(bytes + HDR + 4, 4, 0);
	}
	put(bytes + HDR, 4, 0);
	for (i = 0; i < len; i++)
		assert_int_equal(krdma_wire_bye_reason(bytes, i), -1);
}

/* ------------------------------------------------------------------ fields */

/* Bytes that must be zero, besides those of the header. */
static const struct {
	const char *name;
	u32 at, width;
	const char *cause;
} reserved[] = {
	{ "list-reply", 36, 4, "reserved bytes of a list entry are not zero" },
	{ "digest-reply", 20, 4, "reserved bytes of a digest are not zero" },
	{ "message", 36, 4, "reserved bytes of a message are not zero" },
	{ "message-reply", 22, 2, "reserved bytes of the reply to a message are not zero" },
	{ "message-reply", 30, 2, "reserved bytes of the reply to a message are not zero" },
};

static void test_reserved_bytes(void **state)
{
	const struct example *e;
	u8 bytes[ROOM];
	u32 i, bit, len;

	for (i = 0; i < ARRAY_SIZE(reserved); i++) {
		len = bytes_of(reserved[i].name, bytes);
		for (bit = 0; bit < reserved[i].width * 8; bit++) {
			bytes[reserved[i].at + bit / 8] ^= 1 << bit % 8;
			refuse(bytes, len, reserved[i].cause, reserved[i].name);
			bytes[reserved[i].at + bit / 8] ^= 1 << bit % 8;
		}
	}
	for_each_message(e)
	{
		len = bytes_of(e->name, bytes);
		bytes[1] = 1;
		refuse(bytes, len, "reserved bytes of the header are not zero", e->name);
		bytes[1] = 0;
		bytes[14] = 1;
		refuse(bytes, len, "reserved bytes of the header are not zero", e->name);
	}
}

/* A value of a field of an example; cause is NULL if the value is right. */
static const struct field {
	const char *name;
	u32 at, width;
	u64 value;
	const char *cause;
} fields[] = {
	/* the header */
	{ "ping", 2, 2, 1, "status in a request" },
	{ "segs", 2, 2, 9, "status in a request" },
	{ "bye", 2, 2, 1, "status in a request" },
	{ "open-failed", 2, 2, 8, NULL },
	{ "open-failed", 2, 2, 9, NULL },
	{ "open-failed", 2, 2, 10, NULL },
	{ "open-failed", 2, 2, 11, "unknown status" },
	{ "open-failed", 2, 2, 0x100, "unknown status" },
	{ "open-failed", 2, 2, 0xffff, "unknown status" },
	{ "open-failed", 2, 2, 0, "shorter than its type" },
	{ "recall-reply", 2, 2, 3, NULL },
	{ "close-reply", 2, 2, 3, NULL },
	{ "ping", 4, 4, 20, "length is not what came" },
	{ "ping", 4, 4, U32_MAX, "length is not what came" },
	{ "ping", 8, 4, 0, "tag 0" },
	{ "ping-reply", 8, 4, 0, "tag 0" },
	{ "open-failed", 8, 4, 0, "tag 0" },
	{ "recall", 8, 4, 0, "tag 0" },
	{ "recall", 8, 4, U32_MAX, NULL },
	{ "bye", 8, 4, 1, "a tag without a reply" },
	{ "bye", 8, 4, 0x80000000, "a tag without a reply" },
	{ "ack", 8, 4, 1, "a tag without a reply" },
	{ "ack", 12, 2, 0xffff, NULL },
	{ "ack", 14, 2, 1, "reserved bytes of the header are not zero" },
	{ "addresses-reply", 32, 2, 0, "port 0" },
	{ "addresses-reply", 34, 2, 0x8000, "reserved bytes of an address are not zero" },

	/* LIST: rights that are not known are ignored */
	{ "list", 16, 8, 0, NULL },
	{ "list", 16, 8, U64_MAX, NULL },
	{ "list-reply", 16, 8, 0, NULL },
	{ "list-reply", 24, 8, 0, "export of no length" },
	{ "list-reply", 24, 8, 1ULL << 32, NULL },
	{ "list-reply", 24, 8, U64_MAX, NULL },
	{ "list-reply", 32, 4, 0, NULL },
	{ "list-reply", 32, 4, 0x17, NULL },
	{ "list-reply", 32, 4, 8, NULL },
	{ "list-reply", 32, 4, U32_MAX, NULL },

	/* OPEN */
	{ "open", 16, 4, 0, NULL },
	{ "open", 16, 4, 7, NULL },
	{ "open", 16, 4, 8, "unknown rights" },
	{ "open", 16, 4, 0x17, NULL },
	{ "open", 16, 4, 0x20, "unknown rights" },
	{ "open", 16, 4, 0x80000000, "unknown rights" },
	{ "open", 20, 4, 1, NULL },
	{ "open", 20, 4, 2, NULL },
	{ "open", 20, 4, 7, NULL },
	{ "open", 20, 4, 4, "takeover without exclusive" },
	{ "open", 20, 4, 5, "takeover without exclusive" },
	{ "open", 20, 4, 8, "unknown flags of an open" },
	{ "open", 20, 4, 0x80000000, "unknown flags of an open" },
	{ "open-reply", 16, 8, 0, "export of no length" },
	{ "open-reply", 16, 8, U64_MAX, NULL },
	{ "open-reply", 24, 4, 0, NULL },
	{ "open-reply", 24, 4, 16, NULL },
	{ "open-reply", 24, 4, 0x20, "right DURABLE without WRITE and ATOMIC" },
	{ "open-reply", 24, 4, 0x31, "right DURABLE without WRITE and ATOMIC" },
	{ "open-reply", 24, 4, 0x22, NULL },
	{ "open-reply", 24, 4, 0x24, NULL },
	{ "open-reply", 24, 4, 0x40, "unknown rights" },
	{ "open-reply", 24, 4, 0xc, NULL },
	{ "open-reply", 24, 4, 9, "right ATOMIC_CPU without ATOMIC" },
	{ "open-reply", 28, 4, 0, "grant 0" },
	{ "open-reply", 32, 4, 0, "generation 0" },
	{ "open-reply", 36, 4, 0, "segment shift outside its limits" },
	{ "open-reply", 36, 4, 11, "segment shift outside its limits" },
	{ "open-reply", 36, 4, 12, NULL },
	{ "open-reply", 36, 4, 31, NULL },
	{ "open-reply", 36, 4, 32, "segment longer than a key" },
	{ "open-reply", 36, 4, 40, "segment longer than a key" },
	{ "open-reply", 36, 4, 41, "segment shift outside its limits" },
	{ "open-reply", 36, 4, U32_MAX, "segment shift outside its limits" },

	/* SEGS: 6 extra ones behind 2 */
	{ "segs", 16, 4, 0, "grant 0" },
	{ "segs", 20, 4, 0, "generation 0" },
	{ "segs", 24, 8, 0, NULL },
	{ "segs", 24, 8, U64_MAX - 8, NULL },
	{ "segs", 24, 8, U64_MAX - 7, "segment indexes wrap around" },
	{ "segs", 24, 8, U64_MAX, "segment indexes wrap around" },
	{ "segs", 32, 4, 0, NULL },
	{ "segs", 32, 4, 1, NULL },
	{ "segs", 32, 4, 26, NULL },
	{ "segs", 32, 4, 27, "too many extra segments" },
	{ "segs", 32, 4, 32, "too many extra segments" },
	{ "segs", 32, 4, 33, "count outside its limits" },
	{ "segs", 32, 4, U32_MAX, "count outside its limits" },
	{ "segs", 36, 4, 0, NULL },
	{ "segs", 36, 4, 30, NULL },
	{ "segs", 36, 4, 31, "too many extra segments" },
	{ "segs", 32, 8, 0, "no segments" },
	{ "segs", 36, 2, 0xffff, "too many extra segments" },
	{ "segs", 36, 2, 0xfffe, "too many extra segments" },
	{ "segs", 38, 2, 3, NULL },
	{ "segs", 38, 2, 4, "path outside its limits" },
	{ "segs", 38, 2, 0xffff, "path outside its limits" },
	{ "segs-reply", 16, 8, 0, NULL },
	{ "segs-reply", 16, 8, U64_MAX - 0x100000, NULL },
	{ "segs-reply", 16, 8, U64_MAX - 0xfffff, "segment address wraps around" },
	{ "segs-reply", 32, 8, U64_MAX, "segment address wraps around" },
	{ "segs-reply", 24, 4, 0, "segment of no length" },
	{ "segs-reply", 24, 4, U32_MAX, NULL },
	{ "segs-reply", 40, 4, 0, "segment of no length" },
	{ "segs-reply", 44, 4, 0, NULL },

	/* CLOSE and RECALL */
	{ "close", 16, 4, 0, "grant 0" },
	{ "close", 20, 4, 0, "generation 0" },
	{ "close-used", 16, 4, 0, "grant 0" },
	{ "close-used", 24, 8, U64_MAX, NULL },
	{ "usage", 16, 4, 0, "grant 0" },
	{ "usage", 20, 4, 0, "generation 0" },
	{ "usage", 24, 8, U64_MAX, NULL },
	{ "usage", 48, 8, 0, NULL },
	{ "recall", 16, 4, 0, "grant 0" },
	{ "recall", 20, 4, 0, "generation 0" },
	{ "recall", 24, 8, U64_MAX, NULL },
	{ "recall", 32, 8, 0, NULL },
	{ "recall-grant", 16, 4, 0, "grant 0" },
	{ "recall-grant", 20, 4, 0, "generation 0" },

	/* FENCE */
	{ "fence", 16, 4, 0, "channel outside its limits" },
	{ "fence", 16, 4, 8, NULL },
	{ "fence", 16, 4, 9, "channel outside its limits" },
	{ "fence", 16, 4, U32_MAX, "channel outside its limits" },
	{ "fence", 20, 4, 0, "queue pair 0" },
	{ "fence", 20, 4, 1, NULL },
	{ "fence", 20, 4, U32_MAX, NULL },

	/* BYE */
	{ "bye", 16, 4, 0, NULL },
	{ "bye", 16, 4, 9, NULL },
	{ "bye", 16, 4, 10, "unknown reason" },
	{ "bye", 20, 4, 0, NULL },
	{ "bye", 20, 4, 0xffffffff, NULL },
	{ "bye", 16, 4, 0x100, "unknown reason" },

	/* DIGEST */
	{ "digest", 16, 4, 0, "grant 0" },
	{ "digest", 20, 4, 0, "generation 0" },
	{ "digest", 24, 8, 0, NULL },
	{ "digest", 24, 8, U64_MAX - 0x10000, NULL },
	{ "digest", 24, 8, U64_MAX - 0xffff, "range of a digest wraps around" },
	{ "digest", 24, 8, U64_MAX, "range of a digest wraps around" },
	{ "digest", 32, 4, 0, "length of a digest outside its limits" },
	{ "digest", 32, 4, 1, NULL },
	{ "digest", 32, 4, 4 << 20, NULL },
	{ "digest", 32, 4, (4 << 20) + 1, "length of a digest outside its limits" },
	{ "digest", 32, 4, U32_MAX, "length of a digest outside its limits" },
	{ "digest", 36, 4, 0, NULL },
	{ "grow", 16, 4, 0, "grant 0" },
	{ "grow", 20, 4, 0, "generation 0" },
	{ "grow-reply", 16, 8, 0, "export of no length" },
	{ "grow-reply", 16, 8, U64_MAX, NULL },
	{ "digest-reply", 16, 4, U32_MAX, NULL },

	/* FLUSH */
	{ "flush", 16, 4, 0, "grant 0" },
	{ "flush", 20, 4, 0, "generation 0" },
	{ "flush", 24, 8, 0, NULL },
	{ "flush", 24, 8, U64_MAX - 0x10000, NULL },
	{ "flush", 24, 8, U64_MAX - 0xffff, "range of a flush wraps around" },
	{ "flush", 32, 8, 0, "length of a flush outside its limits" },
	{ "flush", 32, 8, (64 << 20) - 1, NULL },
	{ "flush", 32, 8, 64 << 20, "length of a flush outside its limits" },
	{ "flush", 32, 8, U64_MAX, "length of a flush outside its limits" },
	{ "flush", 40, 8, U64_MAX - 1, NULL },
	{ "flush", 40, 8, U64_MAX, "range of a flush wraps around" },
	{ "flush", 48, 8, 0, "length of a flush outside its limits" },
	{ "flush", 48, 8, (64 << 20) - 0x10000, NULL },
	{ "flush", 48, 8, (64 << 20) - 0xffff, "length of a flush outside its limits" },

	/* MESSAGE */
	{ "message", 8, 4, 0, "tag 0" },
	{ "message", 16, 4, 0, "grant 0" },
	{ "message", 20, 4, 0, "generation 0" },
	{ "message", 24, 8, 0, NULL },
	{ "message", 24, 8, U64_MAX, NULL },
	{ "message", 32, 4, 1, NULL },
	{ "message", 32, 4, 2, "unknown flags of a message" },
	{ "message", 32, 4, 0x80000000, "unknown flags of a message" },
	{ "message-reply", 2, 2, 3, "status in the reply to messages" },
	{ "message-reply", 8, 4, 4, "reply to messages with another tag" },
	{ "message-reply", 16, 4, 4, "reply to messages with another tag" },
	{ "message-reply", 24, 4, 0, "tag 0" },
	{ "message-reply", 24, 4, U32_MAX, NULL },
	{ "message-reply", 20, 2, 8, NULL },
	{ "message-reply", 20, 2, 9, NULL },
	{ "message-reply", 20, 2, 11, "unknown status" },
	{ "message-reply", 28, 2, 0xffff, "unknown status" },
};

static void test_fields(void **state)
{
	const struct field *f;
	u8 bytes[ROOM];
	char what[96];
	u32 len;

	for (f = fields; f < fields + ARRAY_SIZE(fields); f++) {
		snprintf(what, sizeof(what), "%s, %llx at %u", f->name,
			 (unsigned long long)f->value, f->at);
		len = bytes_of(f->name, bytes);
		put(bytes + f->at, f->width, f->value);
		if (f->cause)
			refuse(bytes, len, f->cause, what);
		else
			accept(bytes, len, what);
	}
}

/* Every entry is looked at, the last one too. */
static void test_last_entry(void **state)
{
	const struct shape *segs = shape_of(REPLY | KRDMA_WIRE_SEGS);
	const struct shape *list = shape_of(REPLY | KRDMA_WIRE_LIST);
	u8 bytes[ROOM], saved[80];
	u32 i, len;
	u8 *at;

	len = random_message(segs, segs->max, bytes);
	for (i = 0; i < segs->max; i++) {
		at = bytes + segs->fixed + i * segs->each;
		memcpy(saved, at, segs->each);
		put(at + 8, 4, 0);
		refuse(bytes, len, "segment of no length", "segs");
		memcpy(at, saved, segs->each);
		put(at, 8, U64_MAX);
		refuse(bytes, len, "segment address wraps around", "segs");
		memcpy(at, saved, segs->each);
		accept(bytes, len, "segs");
	}
	len = random_message(list, list->max, bytes);
	for (i = 0; i < list->max; i++) {
		at = bytes + list->fixed + i * list->each;
		memcpy(saved, at, list->each);
		put(at, 8, 0);
		refuse(bytes, len, "export of no length", "list");
		memcpy(at, saved, list->each);
		put(at + 12, 4, 1);
		refuse(bytes, len, "reserved bytes of a list entry are not zero", "list");
		memcpy(at, saved, list->each);
		at[16] = '/';
		refuse(bytes, len, "bad name in a list", "list");
		memcpy(at, saved, list->each);
		at[79] = 'x';
		refuse(bytes, len, "bad name in a list", "list");
		memcpy(at, saved, list->each);
		accept(bytes, len, "list");
	}
}

/* A segment of 2^32 bytes and more is only for exports that one key covers. */
static void test_open_reply_long_segment(void **state)
{
	u8 bytes[ROOM];
	u32 shift, len;

	for (shift = 12; shift <= 40; shift++) {
		len = bytes_of("open-reply", bytes);
		put(bytes + 36, 4, shift);
		put(bytes + 16, 8, U32_MAX);
		accept(bytes, len, "export of 2^32 - 1 bytes");
		put(bytes + 16, 8, 1ULL << 32);
		if (shift <= 31)
			accept(bytes, len, "export of 2^32 bytes");
		else
			refuse(bytes, len, "segment longer than a key", "export of 2^32 bytes");
	}
}

/* ------------------------------------------------------------------- names */

static bool char_allowed(int c)
{
	return c &&
	       strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=", c);
}

/* The same verdict of the function, in OPEN and in LIST. */
static void name_everywhere(const char *name, bool good, const char *what)
{
	u8 bytes[ROOM];
	u32 len;

	require(krdma_wire_name_ok(name, 64) == good, "%s", what);
	len = bytes_of("open", bytes);
	memcpy(bytes + 24, name, 64);
	if (good)
		accept(bytes, len, what);
	else
		refuse(bytes, len, "bad name", what);
	len = bytes_of("list-reply", bytes);
	memcpy(bytes + 40, name, 64);
	if (good)
		accept(bytes, len, what);
	else
		refuse(bytes, len, "bad name in a list", what);
}

static void test_names(void **state)
{
	char name[64], what[64];
	u32 len, at;
	int c;

	for (len = 0; len <= 64; len++) {
		memset(name, 0, sizeof(name));
		memset(name, 'n', len);
		snprintf(what, sizeof(what), "name of %u characters", len);
		name_everywhere(name, len >= 1 && len <= 63, what);
	}
	for (c = 0; c < 256; c++) {
		for (at = 0; at < 63; at += 31) {
			memset(name, 0, sizeof(name));
			memset(name, 'n', 63);
			name[at] = c;
			snprintf(what, sizeof(what), "character %d at %u", c, at);
			/* A NUL at the end is a name of 62; elsewhere letters follow it. */
			name_everywhere(name, char_allowed(c) || (!c && at == 62), what);
		}
	}
	for (at = 4; at < 64; at++) {
		memset(name, 0, sizeof(name));
		memcpy(name, "abc", 3);
		name[at] = 'x';
		snprintf(what, sizeof(what), "byte %u behind the NUL", at);
		name_everywhere(name, false, what);
	}
}

static void test_name_room(void **state)
{
	char *block = malloc(4);
	char name[80] = {};

	/* Nothing behind the room is read. */
	assert_non_null(block);
	memcpy(block, "abcd", 4);
	assert_false(krdma_wire_name_ok(block, 4));
	assert_false(krdma_wire_name_ok(block, 0));
	block[3] = 0;
	assert_true(krdma_wire_name_ok(block, 4));
	assert_false(krdma_wire_name_ok(block, 3));
	free(block);

	/* A larger array makes no longer name. */
	memset(name, 'n', 63);
	assert_true(krdma_wire_name_ok(name, sizeof(name)));
	name[63] = 'n';
	assert_false(krdma_wire_name_ok(name, sizeof(name)));
	name[63] = 0;
	name[79] = 'n';
	assert_false(krdma_wire_name_ok(name, sizeof(name)));
}

/* -------------------------------------------------------- hello and reject */

static int check_hello(const u8 *bytes, u32 len, struct krdma_wire_hello *hello, const char **cause)
{
	u8 *copy = malloc(len + 1);
	int rc;

	assert_non_null(copy);
	/* At any alignment. */
	memcpy(copy + 1, bytes, len);
	memset(hello, 0xa5, sizeof(*hello));
	*cause = "unset";
	rc = krdma_wire_check_hello(copy + 1, len, hello, cause);
	if (rc) {
		static const struct krdma_wire_hello zero;

		require(*cause && strcmp(*cause, "unset"), "no cause given");
		require(rc == -EPROTONOSUPPORT ? hello->version == bytes[4] : hello->version <= 2,
			"version %u", hello->version);
		hello->version = 0;
		require(!memcmp(hello, &zero, sizeof(zero)), "hello not zero");
	} else {
		require(!*cause, "cause: %s", *cause);
		require(!memcmp(hello, bytes, sizeof(*hello)), "another hello");
	}
	free(copy);
	return rc;
}

static void test_hello(void **state)
{
	struct krdma_wire_hello hello;
	const char *cause;
	u8 bytes[ROOM];
	u32 len;

	assert_int_equal(bytes_of("hello-request", bytes), 56);
	assert_int_equal(check_hello(bytes, 56, &hello, &cause), 0);
	assert_int_equal(bytes_of("hello-join", bytes), 56);
	assert_int_equal(check_hello(bytes, 56, &hello, &cause), 0);
	assert_int_equal(bytes_of("hello-accept", bytes), 56);
	/* Shorter is none; behind it is padding, whatever it says. */
	for (len = 0; len <= 256; len++) {
		if (len > 56)
			memset(bytes + 56, 0xff, len - 56);
		assert_int_equal(check_hello(bytes, len, &hello, &cause), len < 56 ? -EPROTO : 0);
		if (len < 56)
			assert_string_equal(cause, "hello too short");
	}
}

#define BAD_CREDITS  -EPROTO, "credits outside their limits"
#define NOT_RESERVED -EPROTO, "reserved bytes of the hello are not zero"
#define OTHER        -EPROTONOSUPPORT, "another version of the protocol"

#define MORE -EPROTO, "a greeting of a further channel that is more than that"

/* A value of a field of the hello-request, or of hello-join. */
struct hello_field {
	u32 at, width;
	u64 value;
	int rc;
	const char *cause;
};

static const struct hello_field join_fields[] = {
	{ 6, 2, 1, 0 },     { 6, 2, 0xffff, 0 },  { 8, 8, 0, 0 },     { 8, 8, 1, MORE },
	{ 8, 8, 5, MORE },  { 8, 8, 8, MORE },    { 38, 2, 1, MORE }, { 40, 8, 0, 0 },
	{ 48, 2, 1, MORE }, { 48, 2, 256, MORE }, { 50, 2, 1, MORE }, { 52, 2, 1, MORE },
	{ 54, 2, 1, MORE },
};

static const struct hello_field hello_fields[] = {
	{ 0, 4, 0, -EPROTO, "not this protocol" },
	{ 0, 4, 0x4b52444d, -EPROTO, "not this protocol" },
	{ 4, 1, 0, OTHER },
	{ 4, 1, 1, OTHER },
	{ 4, 1, 3, OTHER },
	{ 4, 1, 255, OTHER },
	{ 5, 1, 255, 0 },
	{ 6, 2, 0xffff, MORE },
	{ 8, 8, U64_MAX, 0 },
	{ 16, 8, 0, 0 },
	{ 16, 8, U64_MAX, 0 },
	{ 24, 8, 0, 0 },
	{ 24, 8, U64_MAX, 0 },
	{ 32, 4, U32_MAX, 0 },
	{ 36, 2, 0, BAD_CREDITS },
	{ 36, 2, 1, BAD_CREDITS },
	{ 36, 2, 2, 0 },
	{ 36, 2, 256, 0 },
	{ 36, 2, 257, BAD_CREDITS },
	{ 36, 2, 0xffff, BAD_CREDITS },
	{ 38, 2, 1, 0 },
	{ 38, 2, 64, 0 },
	{ 38, 2, 65, BAD_CREDITS },
	{ 38, 2, 0xffff, BAD_CREDITS },
	{ 40, 8, U64_MAX, 0 },
	{ 48, 2, 0, 0 },
	{ 48, 2, 0xffff, 0 },
	{ 50, 2, 0xffff, 0 },
	{ 52, 2, 0xffff, 0 },
	{ 54, 2, 0xffff, 0 },
};

static void check_hello_field(const char *example, const struct hello_field *field)
{
	struct krdma_wire_hello hello;
	const char *cause;
	u8 bytes[ROOM];
	int rc;

	bytes_of(example, bytes);
	put(bytes + field->at, field->width, field->value);
	rc = check_hello(bytes, 56, &hello, &cause);
	require(rc == field->rc, "%s: %u at %u: %d", example, (u32)field->value, field->at, rc);
	if (rc)
		assert_string_equal(cause, field->cause);
}

static void test_hello_fields(void **state)
{
	struct krdma_wire_hello hello;
	const char *cause;
	u8 bytes[ROOM];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hello_fields); i++)
		check_hello_field("hello-request", &hello_fields[i]);
	for (i = 0; i < ARRAY_SIZE(join_fields); i++)
		check_hello_field("hello-join", &join_fields[i]);
	/* Of another version, nothing more is known: no complaint about its fields. */
	bytes_of("hello-request", bytes);
	memset(bytes + 4, 0xff, 52);
	assert_int_equal(check_hello(bytes, 56, &hello, &cause), -EPROTONOSUPPORT);
}

static void test_hello_bit_flips(void **state)
{
	struct krdma_wire_hello hello;
	const char *cause;
	u32 bit, at, value;
	u8 bytes[ROOM];
	int expected;

	bytes_of("hello-request", bytes);
	for (bit = 0; bit < 56 * 8; bit++) {
		at = bit / 8;
		bytes[at] ^= 1 << bit % 8;
		expected = at < 4 || (at >= 6 && at < 8) ? -EPROTO : 0;
		value = get(bytes + (at & ~1), 2);
		if (at == 4)
			expected = -EPROTONOSUPPORT;
		else if (at / 2 == 18)
			expected = value < 2 || value > 256 ? -EPROTO : 0;
		else if (at / 2 == 19)
			expected = value > 64 ? -EPROTO : 0;
		require(check_hello(bytes, 56, &hello, &cause) == expected, "bit %u", bit);
		bytes[at] ^= 1 << bit % 8;
	}
}

static void test_versions(void **state)
{
	char text[80];

	krdma_wire_versions(1, text, sizeof(text));
	assert_string_equal(text, "it speaks version 1 of the protocol, this host version 2");
}

static int check_reject(const u8 *bytes, u32 len, u8 *version, u8 *reason)
{
	u8 *copy = malloc(len + 1);
	int rc;

	assert_non_null(copy);
	memcpy(copy + 1, bytes, len);
	*version = 0xa5;
	*reason = 0xa5;
	rc = krdma_wire_check_reject(copy + 1, len, version, reason);
	if (rc)
		require(!*version && !*reason, "version or reason of a refused reject");
	free(copy);
	return rc;
}

static void test_reject(void **state)
{
	u8 bytes[ROOM], version, reason;
	u32 len, bit, value;
	int rc, expected;

	assert_int_equal(bytes_of("reject", bytes), 8);
	memset(bytes + 8, 0xff, 248);
	for (len = 0; len <= 256; len++) {
		rc = check_reject(bytes, len, &version, &reason);
		assert_int_equal(rc, len < 8 ? -EPROTO : 0);
		if (!rc) {
			assert_int_equal(version, 2);
			assert_int_equal(reason, KRDMA_WIRE_REASON_NOT_ADMITTED);
		}
	}
	for (value = 0; value < 256; value++) {
		bytes[5] = value;
		rc = check_reject(bytes, 8, &version, &reason);
		assert_int_equal(rc, value > KRDMA_WIRE_REASON_LAST ? -EPROTO : 0);
		if (!rc)
			assert_int_equal(reason, value);
		/* A later version has reasons of its own; version 0 never was. */
		bytes[4] = 3;
		assert_int_equal(check_reject(bytes, 8, &version, &reason), 0);
		assert_int_equal(version, 3);
		assert_int_equal(reason, value);
		bytes[4] = 0;
		assert_int_equal(check_reject(bytes, 8, &version, &reason), -EPROTO);
		bytes[4] = 2;
	}
	bytes_of("reject", bytes);
	for (bit = 0; bit < 64; bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		expected = -EPROTO;
		if (bit / 8 == 4)
			expected = bytes[4] ? 0 : -EPROTO;
		else if (bit / 8 == 5)
			expected = bytes[5] <= KRDMA_WIRE_REASON_LAST ? 0 : -EPROTO;
		rc = check_reject(bytes, 8, &version, &reason);
		require(rc == expected, "bit %u: %d", bit, rc);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

/* ------------------------------------------------------- numbers and texts */

static void test_status_and_errno(void **state)
{
	static const struct {
		u16 status;
		int err;
	} pairs[] = {
		{ 0, 0 },       { 1, -ENOENT }, { 2, -EACCES }, { 3, -ESTALE },
		{ 4, -EDQUOT }, { 5, -ERANGE }, { 6, -ENOMEM }, { 7, -EOPNOTSUPP },
		{ 8, -EIO },    { 9, -EAGAIN }, { 10, -EBUSY },
	};
	u32 i;

	assert_int_equal(ARRAY_SIZE(pairs), KRDMA_WIRE_STATUS_LAST + 1);
	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		assert_int_equal(krdma_wire_errno(pairs[i].status), pairs[i].err);
		assert_int_equal(krdma_wire_status(pairs[i].err), pairs[i].status);
	}
	for (i = KRDMA_WIRE_STATUS_LAST + 1; i <= 0xffff; i++)
		assert_int_equal(krdma_wire_errno(i), -EPROTO);
	assert_int_equal(krdma_wire_status(-EINVAL), KRDMA_WIRE_IO);
	assert_int_equal(krdma_wire_status(-EFAULT), KRDMA_WIRE_IO);
	assert_int_equal(krdma_wire_status(ENOENT), KRDMA_WIRE_IO);
	assert_int_equal(krdma_wire_status(1), KRDMA_WIRE_IO);
	assert_int_equal(krdma_wire_status(-4095), KRDMA_WIRE_IO);
}

static void phrase_ok(const char *text)
{
	size_t len = strlen(text);

	require(len > 3 && len < 60, "text \"%s\"", text);
	require(text[0] >= 'a' && text[0] <= 'z', "text \"%s\"", text);
	require(text[len - 1] >= 'a' && text[len - 1] <= 'z', "text \"%s\"", text);
}

static void test_texts(void **state)
{
	u32 i, k;

	for (i = 0; i <= KRDMA_WIRE_STATUS_LAST; i++) {
		phrase_ok(krdma_wire_status_text(i));
		for (k = 0; k < i; k++)
			assert_string_not_equal(krdma_wire_status_text(i),
						krdma_wire_status_text(k));
	}
	for (; i <= 0xffff; i++)
		assert_string_equal(krdma_wire_status_text(i), "unknown status");
	for (i = 0; i <= KRDMA_WIRE_REASON_LAST; i++) {
		phrase_ok(krdma_wire_reason_text(i));
		for (k = 0; k < i; k++)
			assert_string_not_equal(krdma_wire_reason_text(i),
						krdma_wire_reason_text(k));
	}
	for (; i < 256; i++)
		assert_string_equal(krdma_wire_reason_text(i), "unknown reason");
	assert_string_equal(krdma_wire_status_text(KRDMA_WIRE_STALE), "grant is over");
	assert_string_equal(krdma_wire_reason_text(KRDMA_WIRE_REASON_PROTOCOL),
			    "protocol violation");
}

/* The limits are the protocol's: a change is another version. */
static void test_limits(void **state)
{
	assert_int_equal(KRDMA_WIRE_MAGIC, 0x4d44524b);
	assert_int_equal(KRDMA_WIRE_VERSION, 2);
	assert_int_equal(KRDMA_WIRE_MSG_MAX, 1024);
	assert_int_equal(KRDMA_WIRE_DATA_MAX, 4096);
	assert_int_equal(KRDMA_WIRE_MESSAGE_MAX, 4136);
	assert_int_equal(KRDMA_WIRE_MESSAGE_CREDITS_MAX, 64);
	assert_int_equal(KRDMA_WIRE_NAME_MAX, 64);
	assert_int_equal(KRDMA_WIRE_CREDITS_MIN, 2);
	assert_int_equal(KRDMA_WIRE_CREDITS_MAX, 256);
	assert_int_equal(KRDMA_WIRE_LIST_MAX, 12);
	assert_int_equal(KRDMA_WIRE_SEGS_MAX, 32);
	assert_int_equal(KRDMA_WIRE_RECALL_MAX, 64);
	assert_int_equal(KRDMA_WIRE_PING_MAX, 512);
	assert_int_equal(KRDMA_WIRE_SHIFT_MIN, 12);
	assert_int_equal(KRDMA_WIRE_SHIFT_MAX, 40);
	assert_int_equal(KRDMA_WIRE_RIGHTS, 0x17);
}

static int write_corpus(const char *dir)
{
	const struct example *e;
	u8 bytes[ROOM];
	char path[4096];
	FILE *file;
	u32 len;

	for (e = examples; e < examples + ARRAY_SIZE(examples); e++) {
		len = build(e, bytes);
		snprintf(path, sizeof(path), "%s/%s", dir, e->name);
		file = fopen(path, "wb");
		if (!file || fwrite(bytes, 1, len, file) != len || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static int print_golden(void)
{
	const struct example *e;
	u8 bytes[ROOM];
	u32 i, len;

	for (e = examples; e < examples + ARRAY_SIZE(examples); e++) {
		len = build(e, bytes);
		printf(".. example: %s\n\n::\n", e->name);
		for (i = 0; i < len; i++) {
			if (i % 16 == 0)
				printf("\n   %04x ", i);
			printf(" %02x", bytes[i]);
		}
		printf("\n\n");
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_random_messages),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_failed_replies),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_header_bit_flips),
		cmocka_unit_test(test_payload_bit_flips),
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_no_reply_to_bye),
		cmocka_unit_test(test_bye_reason),
		cmocka_unit_test(test_reserved_bytes),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_last_entry),
		cmocka_unit_test(test_open_reply_long_segment),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_name_room),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_hello_fields),
		cmocka_unit_test(test_hello_bit_flips),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_reject),
		cmocka_unit_test(test_status_and_errno),
		cmocka_unit_test(test_texts),
	};

	if (argc == 3 && !strcmp(argv[1], "--corpus"))
		return write_corpus(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--golden"))
		return print_golden();
	if (argc != 1) {
		fprintf(stderr, "usage: %s [--corpus DIR | --golden]\n", argv[0]);
		return 2;
	}
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
