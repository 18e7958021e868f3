/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages of the wire protocol and what is to be thought of them: tables for all
 * who test driver/proto.c, in userspace (test_proto.c) and in the kernel
 * (../kunit/proto_test.c).
 *
 * The golden messages are the layout of the protocol: bytes written by hand,
 * which are also the examples of Documentation/wire.rst and the files of corpus/.
 */
#ifndef KRDMA_PROTO_VECTORS_H
#define KRDMA_PROTO_VECTORS_H

#include "wire.h"

#define HDR 16
/* The longest of all. */
#define ROOM KRDMA_WIRE_LETTER_MAX

/* ---------------------------------------------------------------- bytes */

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

/* ------------------------------------------------------- golden messages */

static void fill_ping(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_PING;
	msg->tag = 1;
	msg->ping.length = 5;
	msg->ping.data = "hello";
}

static void fill_ping_answer(struct krdma_msg *msg)
{
	fill_ping(msg);
	msg->answer = true;
}

static void fill_list(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_LIST;
	msg->tag = 2;
	msg->list.cursor = 0x0807060504030201;
}

static void fill_list_answer(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_LIST;
	msg->answer = true;
	msg->tag = 2;
	msg->list_answer.cursor = 0x1817161514131211;
	msg->list_answer.count = 1;
	msg->list_answer.entry[0].length = 0x123456789;
	msg->list_answer.entry[0].rights = 3;
	memcpy(msg->list_answer.entry[0].name, "scratch", 8);
}

static void fill_open(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_OPEN;
	msg->tag = 0x03040506;
	msg->open.rights = 1;
	memcpy(msg->open.name, "scratch", 8);
}

static void fill_open_answer(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_OPEN;
	msg->answer = true;
	msg->tag = 0x03040506;
	msg->open_answer.length = 0x123456789;
	msg->open_answer.rights = 1;
	msg->open_answer.grant = 0x21222324;
	msg->open_answer.generation = 0x31323334;
	msg->open_answer.segment_shift = 20;
}

static void fill_open_failed(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_OPEN;
	msg->answer = true;
	msg->tag = 0x03040506;
	msg->status = KRDMA_WIRE_ACCES;
}

static void fill_segs(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_SEGS;
	msg->tag = 4;
	msg->segs.grant = 0x21222324;
	msg->segs.generation = 0x31323334;
	msg->segs.first = 0x1233;
	msg->segs.count = 2;
	msg->segs.extra = 6;
}

static void fill_segs_answer(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_SEGS;
	msg->answer = true;
	msg->tag = 4;
	msg->segs_answer.grant = 0x21222324;
	msg->segs_answer.generation = 0x31323334;
	msg->segs_answer.count = 2;
	msg->segs_answer.seg[0].index = 0x1233;
	msg->segs_answer.seg[0].address = 0x4142434445464000;
	msg->segs_answer.seg[0].length = 0x100000;
	msg->segs_answer.seg[0].rkey = 0x51525354;
	msg->segs_answer.seg[1].index = 0x1234;
	msg->segs_answer.seg[1].address = 0x6162636465666000;
	msg->segs_answer.seg[1].length = 0x56789;
	msg->segs_answer.seg[1].rkey = 0x71727374;
}

static void fill_digest(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_DIGEST;
	msg->tag = 9;
	msg->digest.grant = 0x21222324;
	msg->digest.generation = 0x31323334;
	msg->digest.offset = 0x123456;
	msg->digest.length = 0x10000;
	msg->digest.value = 0xffffffff;
}

static void fill_digest_answer(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_DIGEST;
	msg->answer = true;
	msg->tag = 9;
	msg->digest_answer.grant = 0x21222324;
	msg->digest_answer.generation = 0x31323334;
	msg->digest_answer.value = 0x81828384;
}

static void fill_close(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_CLOSE;
	msg->tag = 5;
	msg->grant.grant = 0x21222324;
	msg->grant.generation = 0x31323334;
}

static void fill_close_answer(struct krdma_msg *msg)
{
	fill_close(msg);
	msg->answer = true;
}

static void fill_recall(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_RECALL;
	msg->tag = 6;
	msg->recall.grant = 0x21222324;
	msg->recall.generation = 0x31323334;
	msg->recall.count = 2;
	msg->recall.index[0] = 0x1234;
	msg->recall.index[1] = 0x7;
}

static void fill_recall_answer(struct krdma_msg *msg)
{
	fill_close(msg);
	msg->type = KRDMA_WIRE_RECALL;
	msg->answer = true;
	msg->tag = 6;
}

static void fill_revoke(struct krdma_msg *msg)
{
	fill_close(msg);
	msg->type = KRDMA_WIRE_REVOKE;
	msg->tag = 7;
}

static void fill_revoke_answer(struct krdma_msg *msg)
{
	fill_revoke(msg);
	msg->answer = true;
}

static void fill_bye(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_BYE;
	msg->bye.reason = KRDMA_WIRE_REASON_SHUTDOWN;
}

static void fill_message(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_MESSAGE;
	msg->tag = 3;
	msg->message.grant = 0x21222324;
	msg->message.generation = 0x31323334;
	msg->message.value = 0x9192939495969798;
	msg->message.length = 5;
	msg->message.data = "hello";
}

static void fill_message_written(struct krdma_msg *msg)
{
	fill_message(msg);
	msg->message.flags = KRDMA_WIRE_WRITTEN;
	msg->message.length = 0;
}

static void fill_message_answer(struct krdma_msg *msg)
{
	msg->type = KRDMA_WIRE_MESSAGE;
	msg->answer = true;
	msg->tag = 3;
	msg->message_answer.count = 2;
	msg->message_answer.taken[0].tag = 3;
	msg->message_answer.taken[1].tag = 0x40;
	msg->message_answer.taken[1].status = KRDMA_WIRE_STALE;
}

struct golden {
	const char *name; /* of the file in corpus/ */
	void (*fill)(struct krdma_msg *msg);
	const char *hex[8]; /* 16 bytes each */
};

/* The messages, then what is none and has no function to fill it. */
static const struct golden golden[] = {
	{ "ping",
	  fill_ping,
	  { "01 00 00 00 15 00 00 00 01 00 00 00 00 00 00 00", "68 65 6c 6c 6f" } },
	{ "ping-answer",
	  fill_ping_answer,
	  { "81 00 00 00 15 00 00 00 01 00 00 00 00 00 00 00", "68 65 6c 6c 6f" } },
	{ "list",
	  fill_list,
	  { "02 00 00 00 18 00 00 00 02 00 00 00 00 00 00 00", "01 02 03 04 05 06 07 08" } },
	{ "list-answer",
	  fill_list_answer,
	  { "82 00 00 00 70 00 00 00 02 00 00 00 00 00 00 00",
	    "11 12 13 14 15 16 17 18 01 00 00 00 00 00 00 00",
	    "89 67 45 23 01 00 00 00 03 00 00 00 00 00 00 00",
	    "73 63 72 61 74 63 68 00 00 00 00 00 00 00 00 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" } },
	{ "open",
	  fill_open,
	  { "03 00 00 00 58 00 00 00 06 05 04 03 00 00 00 00",
	    "01 00 00 00 00 00 00 00 73 63 72 61 74 63 68 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", "00 00 00 00 00 00 00 00" } },
	{ "open-answer",
	  fill_open_answer,
	  { "83 00 00 00 28 00 00 00 06 05 04 03 00 00 00 00",
	    "89 67 45 23 01 00 00 00 01 00 00 00 24 23 22 21", "34 33 32 31 14 00 00 00" } },
	{ "open-failed", fill_open_failed, { "83 00 02 00 10 00 00 00 06 05 04 03 00 00 00 00" } },
	{ "segs",
	  fill_segs,
	  { "04 00 00 00 28 00 00 00 04 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 33 12 00 00 00 00 00 00", "02 00 00 00 06 00 00 00" } },
	{ "segs-answer",
	  fill_segs_answer,
	  { "84 00 00 00 50 00 00 00 04 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 02 00 00 00 00 00 00 00",
	    "33 12 00 00 00 00 00 00 00 40 46 45 44 43 42 41",
	    "00 00 10 00 54 53 52 51 34 12 00 00 00 00 00 00",
	    "00 60 66 65 64 63 62 61 89 67 05 00 74 73 72 71" } },
	{ "close",
	  fill_close,
	  { "05 00 00 00 18 00 00 00 05 00 00 00 00 00 00 00", "24 23 22 21 34 33 32 31" } },
	{ "close-answer",
	  fill_close_answer,
	  { "85 00 00 00 18 00 00 00 05 00 00 00 00 00 00 00", "24 23 22 21 34 33 32 31" } },
	{ "recall",
	  fill_recall,
	  { "06 00 00 00 30 00 00 00 06 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 02 00 00 00 00 00 00 00",
	    "34 12 00 00 00 00 00 00 07 00 00 00 00 00 00 00" } },
	{ "recall-answer",
	  fill_recall_answer,
	  { "86 00 00 00 18 00 00 00 06 00 00 00 00 00 00 00", "24 23 22 21 34 33 32 31" } },
	{ "revoke",
	  fill_revoke,
	  { "07 00 00 00 18 00 00 00 07 00 00 00 00 00 00 00", "24 23 22 21 34 33 32 31" } },
	{ "revoke-answer",
	  fill_revoke_answer,
	  { "87 00 00 00 18 00 00 00 07 00 00 00 00 00 00 00", "24 23 22 21 34 33 32 31" } },
	{ "bye",
	  fill_bye,
	  { "08 00 00 00 18 00 00 00 00 00 00 00 00 00 00 00", "05 00 00 00 00 00 00 00" } },
	{ "digest",
	  fill_digest,
	  { "09 00 00 00 28 00 00 00 09 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 56 34 12 00 00 00 00 00", "00 00 01 00 ff ff ff ff" } },
	{ "digest-answer",
	  fill_digest_answer,
	  { "89 00 00 00 20 00 00 00 09 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 84 83 82 81 00 00 00 00" } },
	{ "message",
	  fill_message,
	  { "0a 00 00 00 2d 00 00 00 03 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 98 97 96 95 94 93 92 91",
	    "00 00 00 00 00 00 00 00 68 65 6c 6c 6f" } },
	{ "message-written",
	  fill_message_written,
	  { "0a 00 00 00 28 00 00 00 03 00 00 00 00 00 00 00",
	    "24 23 22 21 34 33 32 31 98 97 96 95 94 93 92 91", "01 00 00 00 00 00 00 00" } },
	{ "message-answer",
	  fill_message_answer,
	  { "8a 00 00 00 28 00 00 00 03 00 00 00 00 00 00 00",
	    "02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00", "40 00 00 00 03 00 00 00" } },
	{ "hello-request",
	  NULL,
	  { "4b 52 44 4d 01 00 00 00 05 00 00 00 00 00 00 00",
	    "88 77 66 55 44 33 22 11 18 17 16 15 14 13 12 11",
	    "e8 03 00 00 20 00 00 04 d0 07 00 00 00 00 00 00", "00 00 00 00 00 00 00 00" } },
	{ "hello-accept",
	  NULL,
	  { "4b 52 44 4d 01 00 00 00 01 00 00 00 00 00 00 00",
	    "a8 a7 a6 a5 a4 a3 a2 a1 18 17 16 15 14 13 12 11",
	    "00 00 00 00 40 00 00 04 b8 0b 00 00 20 00 00 00", "00 00 00 00 00 00 00 00" } },
	{ "reject", NULL, { "4b 52 44 4d 01 03 00 00" } },
};

static const struct krdma_hello hello_request = {
	.features = 5,
	.incarnation = 0x1122334455667788,
	.session = 0x1112131415161718,
	.uid = 1000,
	.window = 32,
	.heartbeat_ms = 2000,
};

static const struct krdma_hello hello_accept = {
	.features = KRDMA_WIRE_MESSAGES,
	.incarnation = 0xa1a2a3a4a5a6a7a8,
	.session = 0x1112131415161718,
	.window = 64,
	.places = 32,
	.heartbeat_ms = 3000,
};

static u8 hex_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static u32 golden_bytes(const struct golden *g, u8 *bytes)
{
	u32 i, len = 0;
	const char *c;

	for (i = 0; i < ARRAY_SIZE(g->hex) && g->hex[i]; i++)
		for (c = g->hex[i]; *c; c += c[2] ? 3 : 2)
			bytes[len++] = hex_digit(c[0]) << 4 | hex_digit(c[1]);
	return len;
}

/* NULL if there is none. */
static const struct golden *golden_named(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(golden); i++)
		if (!strcmp(golden[i].name, name))
			return &golden[i];
	return NULL;
}

static void fill(const struct golden *g, struct krdma_msg *msg)
{
	memset(msg, 0, sizeof(*msg));
	g->fill(msg);
}

/* --------------------------------------------------- random messages */

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

static void random_name(char *name, u32 len)
{
	static const char chars[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=";

	while (len--)
		*name++ = chars[random32() % (sizeof(chars) - 1)];
}

struct shape {
	u8 type;
	bool answer;
	u32 fixed, each, min, max; /* of the payload, told anew: not proto.c's table */
};

static const struct shape shapes[] = {
	{ KRDMA_WIRE_PING, false, 0, 1, 0, 512 },   { KRDMA_WIRE_PING, true, 0, 1, 0, 512 },
	{ KRDMA_WIRE_LIST, false, 8, 0, 0, 0 },     { KRDMA_WIRE_LIST, true, 16, 80, 0, 12 },
	{ KRDMA_WIRE_OPEN, false, 72, 0, 0, 0 },    { KRDMA_WIRE_OPEN, true, 24, 0, 0, 0 },
	{ KRDMA_WIRE_SEGS, false, 24, 0, 0, 0 },    { KRDMA_WIRE_SEGS, true, 16, 24, 1, 32 },
	{ KRDMA_WIRE_CLOSE, false, 8, 0, 0, 0 },    { KRDMA_WIRE_CLOSE, true, 8, 0, 0, 0 },
	{ KRDMA_WIRE_RECALL, false, 16, 8, 1, 64 }, { KRDMA_WIRE_RECALL, true, 8, 0, 0, 0 },
	{ KRDMA_WIRE_REVOKE, false, 8, 0, 0, 0 },   { KRDMA_WIRE_REVOKE, true, 8, 0, 0, 0 },
	{ KRDMA_WIRE_BYE, false, 8, 0, 0, 0 },      { KRDMA_WIRE_DIGEST, false, 24, 0, 0, 0 },
	{ KRDMA_WIRE_DIGEST, true, 16, 0, 0, 0 },   { KRDMA_WIRE_MESSAGE, false, 24, 1, 0, 4096 },
	{ KRDMA_WIRE_MESSAGE, true, 8, 8, 1, 64 },
};

static const struct shape *shape_of(u8 type, bool answer)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++)
		if (shapes[i].type == type && shapes[i].answer == answer)
			return &shapes[i];
	return NULL;
}

/* Of a PING, or of a MESSAGE. */
static u8 random_data[KRDMA_WIRE_DATA_MAX];

static void fill_data(u32 length)
{
	while (length--)
		random_data[length] = random32();
}

static void fill_question(struct krdma_msg *msg, u32 entries)
{
	u32 i;

	switch (msg->type) {
	case KRDMA_WIRE_LIST:
		msg->list.cursor = random64();
		break;
	case KRDMA_WIRE_OPEN:
		msg->open.rights = random32() & 7;
		random_name(msg->open.name, 1 + random32() % 63);
		break;
	case KRDMA_WIRE_SEGS:
		msg->segs.grant = random_id();
		msg->segs.generation = random_id();
		msg->segs.first = random64() >> 1;
		msg->segs.count = 1 + random32() % 32;
		msg->segs.extra = random32() % (33 - msg->segs.count);
		break;
	case KRDMA_WIRE_RECALL:
		msg->recall.grant = random_id();
		msg->recall.generation = random_id();
		msg->recall.count = entries;
		for (i = 0; i < entries; i++)
			msg->recall.index[i] = random64();
		break;
	case KRDMA_WIRE_DIGEST:
		msg->digest.grant = random_id();
		msg->digest.generation = random_id();
		msg->digest.offset = random64() >> 1;
		msg->digest.length = 1 + random32() % (4U << 20);
		msg->digest.value = random32();
		break;
	case KRDMA_WIRE_MESSAGE:
		msg->message.grant = random_id();
		msg->message.generation = random_id();
		msg->message.value = random64();
		msg->message.flags = random32() & 1;
		msg->message.length = entries;
		msg->message.data = random_data;
		fill_data(entries);
		break;
	case KRDMA_WIRE_BYE:
		msg->tag = 0;
		msg->bye.reason = random32() % (KRDMA_WIRE_REASON_LAST + 1);
		break;
	default:
		msg->grant.grant = random_id();
		msg->grant.generation = random_id();
	}
}

static void fill_answer(struct krdma_msg *msg, u32 entries)
{
	u64 first = random64() >> 1;
	u32 i;

	switch (msg->type) {
	case KRDMA_WIRE_LIST:
		msg->list_answer.cursor = random64();
		msg->list_answer.count = entries;
		for (i = 0; i < entries; i++) {
			msg->list_answer.entry[i].length = random64() | 1;
			msg->list_answer.entry[i].rights = random32() & 7;
			random_name(msg->list_answer.entry[i].name, 1 + random32() % 63);
		}
		break;
	case KRDMA_WIRE_OPEN:
		msg->open_answer.length = random64() | 1;
		msg->open_answer.rights = random32() & 7;
		msg->open_answer.grant = random_id();
		msg->open_answer.generation = random_id();
		msg->open_answer.segment_shift = 12 + random32() % 20;
		break;
	case KRDMA_WIRE_SEGS:
		msg->segs_answer.grant = random_id();
		msg->segs_answer.generation = random_id();
		msg->segs_answer.count = entries;
		for (i = 0; i < entries; i++) {
			msg->segs_answer.seg[i].index = first + i;
			msg->segs_answer.seg[i].address = random64() >> 1;
			msg->segs_answer.seg[i].length = random_id();
			msg->segs_answer.seg[i].rkey = random32();
		}
		break;
	case KRDMA_WIRE_DIGEST:
		msg->digest_answer.grant = random_id();
		msg->digest_answer.generation = random_id();
		msg->digest_answer.value = random32();
		break;
	case KRDMA_WIRE_MESSAGE:
		msg->message_answer.count = entries;
		for (i = 0; i < entries; i++) {
			msg->message_answer.taken[i].tag = i ? random_id() : msg->tag;
			msg->message_answer.taken[i].status =
				random32() % (KRDMA_WIRE_STATUS_LAST + 1);
		}
		break;
	default:
		msg->grant.grant = random_id();
		msg->grant.generation = random_id();
	}
}

/* Where the count of a message with entries is; 0 if its length alone tells. */
static u32 count_at(const struct shape *shape)
{
	if (shape->each == 1)
		return 0;
	return shape->type == KRDMA_WIRE_MESSAGE ? HDR : HDR + 8;
}

static void set_entries(struct krdma_msg *msg, u32 entries)
{
	switch (msg->type) {
	case KRDMA_WIRE_PING:
		msg->ping.length = entries;
		break;
	case KRDMA_WIRE_LIST:
		msg->list_answer.count = entries;
		break;
	case KRDMA_WIRE_SEGS:
		msg->segs_answer.count = entries;
		break;
	case KRDMA_WIRE_MESSAGE:
		if (msg->answer)
			msg->message_answer.count = entries;
		else
			msg->message.length = entries;
		break;
	default:
		msg->recall.count = entries;
	}
}

/* Data that stays where it is, and where that is in the bytes; NULL if there is none. */
static const void **data_of(struct krdma_msg *msg, u32 *at, u32 *length)
{
	if (msg->type == KRDMA_WIRE_PING && !msg->status) {
		*at = HDR;
		*length = msg->ping.length;
		return &msg->ping.data;
	}
	if (msg->type == KRDMA_WIRE_MESSAGE && !msg->answer) {
		*at = HDR + 24;
		*length = msg->message.length;
		return &msg->message.data;
	}
	return NULL;
}

static void fill_random(const struct shape *shape, u32 entries, struct krdma_msg *msg)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = shape->type;
	msg->answer = shape->answer;
	msg->tag = random_id();
	if (shape->type == KRDMA_WIRE_PING) {
		fill_data(entries);
		msg->ping.length = entries;
		msg->ping.data = random_data;
	} else if (shape->answer) {
		fill_answer(msg, entries);
	} else {
		fill_question(msg, entries);
	}
}

/* ------------------------------------------- reserved bytes and fields */

/* Bytes that must be zero, besides those of the header. */
struct reserved {
	const char *name;
	u32 at, width;
	const char *why;
};

static const struct reserved reserved[] = {
	{ "list-answer", 28, 4, "reserved bytes of a list are not zero" },
	{ "list-answer", 44, 4, "reserved bytes of a list entry are not zero" },
	{ "open", 20, 4, "reserved bytes of an open are not zero" },
	{ "segs-answer", 28, 4, "reserved bytes of segments are not zero" },
	{ "recall", 28, 4, "reserved bytes of a recall are not zero" },
	{ "bye", 20, 4, "reserved bytes of a bye are not zero" },
	{ "digest-answer", 28, 4, "reserved bytes of a digest are not zero" },
	{ "message", 36, 4, "reserved bytes of a message are not zero" },
	{ "message-answer", 20, 4, "reserved bytes of the answer to messages are not zero" },
	{ "message-answer", 30, 2, "reserved bytes of the answer to a message are not zero" },
	{ "message-answer", 38, 2, "reserved bytes of the answer to a message are not zero" },
};

/*
 * A value that a field may or may not have, given to both directions: into the
 * golden bytes, and into the golden struct. why is NULL if the value is good.
 */
struct field {
	const char *name;
	u32 at, width; /* in the bytes */
	u32 host_at;   /* in the struct, of the same width */
	u64 value;
	const char *why;
};

#define FIELD(golden_name, wire_at, wire_width, member, number, reason)                       \
	{                                                                                     \
		golden_name, wire_at, wire_width, offsetof(struct krdma_msg, member), number, \
			reason                                                                \
	}

static const struct field fields[] = {
	/* the header */
	FIELD("ping", 2, 2, status, 1, "status in a question"),
	FIELD("segs", 2, 2, status, 9, "status in a question"),
	FIELD("bye", 2, 2, status, 1, "status in a question"),
	FIELD("open-failed", 2, 2, status, 8, NULL),
	FIELD("open-failed", 2, 2, status, 9, "unknown status"),
	FIELD("open-failed", 2, 2, status, 0x100, "unknown status"),
	FIELD("open-failed", 2, 2, status, 0xffff, "unknown status"),
	FIELD("ping", 8, 4, tag, 0, "tag 0"),
	FIELD("ping-answer", 8, 4, tag, 0, "tag 0"),
	FIELD("open-failed", 8, 4, tag, 0, "tag 0"),
	FIELD("revoke", 8, 4, tag, 0, "tag 0"),
	FIELD("revoke", 8, 4, tag, U32_MAX, NULL),
	FIELD("bye", 8, 4, tag, 1, "bye with a tag"),
	FIELD("bye", 8, 4, tag, 0x80000000, "bye with a tag"),

	/* LIST */
	FIELD("list", 16, 8, list.cursor, 0, NULL),
	FIELD("list", 16, 8, list.cursor, U64_MAX, NULL),
	FIELD("list-answer", 16, 8, list_answer.cursor, 0, NULL),
	FIELD("list-answer", 32, 8, list_answer.entry[0].length, 0, "export of no length"),
	FIELD("list-answer", 32, 8, list_answer.entry[0].length, 1ULL << 32, NULL),
	FIELD("list-answer", 32, 8, list_answer.entry[0].length, U64_MAX, NULL),
	FIELD("list-answer", 40, 4, list_answer.entry[0].rights, 7, NULL),
	FIELD("list-answer", 40, 4, list_answer.entry[0].rights, 0x17, NULL),
	FIELD("list-answer", 40, 4, list_answer.entry[0].rights, 0, NULL),

	/* OPEN */
	FIELD("open", 16, 4, open.rights, 0, NULL),
	FIELD("open", 16, 4, open.rights, 7, NULL),
	FIELD("open", 16, 4, open.rights, 8, "unknown rights"),
	FIELD("open", 16, 4, open.rights, 0x17, NULL),
	FIELD("open", 16, 4, open.rights, 0x20, "unknown rights"),
	FIELD("open", 16, 4, open.rights, 0x80000000, "unknown rights"),
	FIELD("open-answer", 16, 8, open_answer.length, 0, "export of no length"),
	FIELD("open-answer", 16, 8, open_answer.length, U64_MAX, NULL),
	FIELD("open-answer", 24, 4, open_answer.rights, 16, NULL),
	FIELD("open-answer", 24, 4, open_answer.rights, 32, "unknown rights"),
	FIELD("open-answer", 24, 4, open_answer.rights, 0xc, NULL),
	FIELD("open-answer", 24, 4, open_answer.rights, 9,
	      "what atomics are atomic against, without them"),
	FIELD("open-answer", 28, 4, open_answer.grant, 0, "grant 0"),
	FIELD("open-answer", 32, 4, open_answer.generation, 0, "generation 0"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 0,
	      "segment shift outside its limits"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 11,
	      "segment shift outside its limits"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 12, NULL),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 31, NULL),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 32, "segment longer than a key"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 40, "segment longer than a key"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, 41,
	      "segment shift outside its limits"),
	FIELD("open-answer", 36, 4, open_answer.segment_shift, U32_MAX,
	      "segment shift outside its limits"),

	/* SEGS: 6 extra ones behind 2 */
	FIELD("segs", 16, 4, segs.grant, 0, "grant 0"),
	FIELD("segs", 20, 4, segs.generation, 0, "generation 0"),
	FIELD("segs", 24, 8, segs.first, 0, NULL),
	FIELD("segs", 24, 8, segs.first, U64_MAX - 8, NULL),
	FIELD("segs", 24, 8, segs.first, U64_MAX - 7, "segment indexes wrap around"),
	FIELD("segs", 24, 8, segs.first, U64_MAX, "segment indexes wrap around"),
	FIELD("segs", 32, 4, segs.count, 0, "count outside its limits"),
	FIELD("segs", 32, 4, segs.count, 1, NULL),
	FIELD("segs", 32, 4, segs.count, 26, NULL),
	FIELD("segs", 32, 4, segs.count, 27, "too many extra segments"),
	FIELD("segs", 32, 4, segs.count, 32, "too many extra segments"),
	FIELD("segs", 32, 4, segs.count, 33, "count outside its limits"),
	FIELD("segs", 32, 4, segs.count, U32_MAX, "count outside its limits"),
	FIELD("segs", 36, 4, segs.extra, 0, NULL),
	FIELD("segs", 36, 4, segs.extra, 30, NULL),
	FIELD("segs", 36, 4, segs.extra, 31, "too many extra segments"),
	FIELD("segs", 36, 4, segs.extra, U32_MAX, "too many extra segments"),
	FIELD("segs", 36, 4, segs.extra, U32_MAX - 1, "too many extra segments"),

	FIELD("segs-answer", 16, 4, segs_answer.grant, 0, "grant 0"),
	FIELD("segs-answer", 20, 4, segs_answer.generation, 0, "generation 0"),
	FIELD("segs-answer", 32, 8, segs_answer.seg[0].index, 0x1232, "segments not consecutive"),
	FIELD("segs-answer", 32, 8, segs_answer.seg[0].index, 0x1234, "segments not consecutive"),
	FIELD("segs-answer", 32, 8, segs_answer.seg[0].index, U64_MAX,
	      "segment indexes wrap around"),
	FIELD("segs-answer", 56, 8, segs_answer.seg[1].index, 0x1233, "segments not consecutive"),
	FIELD("segs-answer", 56, 8, segs_answer.seg[1].index, 0x1235, "segments not consecutive"),
	FIELD("segs-answer", 56, 8, segs_answer.seg[1].index, 0x100001234,
	      "segments not consecutive"),
	FIELD("segs-answer", 40, 8, segs_answer.seg[0].address, 0, NULL),
	FIELD("segs-answer", 40, 8, segs_answer.seg[0].address, U64_MAX - 0x100000, NULL),
	FIELD("segs-answer", 40, 8, segs_answer.seg[0].address, U64_MAX - 0xfffff,
	      "segment address wraps around"),
	FIELD("segs-answer", 64, 8, segs_answer.seg[1].address, U64_MAX,
	      "segment address wraps around"),
	FIELD("segs-answer", 48, 4, segs_answer.seg[0].length, 0, "segment of no length"),
	FIELD("segs-answer", 48, 4, segs_answer.seg[0].length, U32_MAX, NULL),
	FIELD("segs-answer", 72, 4, segs_answer.seg[1].length, 0, "segment of no length"),
	FIELD("segs-answer", 76, 4, segs_answer.seg[1].rkey, 0, NULL),

	/* RECALL */
	FIELD("recall", 16, 4, recall.grant, 0, "grant 0"),
	FIELD("recall", 20, 4, recall.generation, 0, "generation 0"),
	FIELD("recall", 32, 8, recall.index[0], U64_MAX, NULL),
	FIELD("recall", 40, 8, recall.index[1], 0, NULL),

	/* a grant alone */
	FIELD("close", 16, 4, grant.grant, 0, "grant 0"),
	FIELD("close", 20, 4, grant.generation, 0, "generation 0"),
	FIELD("close-answer", 16, 4, grant.grant, 0, "grant 0"),
	FIELD("close-answer", 20, 4, grant.generation, 0, "generation 0"),
	FIELD("recall-answer", 16, 4, grant.grant, 0, "grant 0"),
	FIELD("recall-answer", 20, 4, grant.generation, 0, "generation 0"),
	FIELD("revoke", 16, 4, grant.grant, 0, "grant 0"),
	FIELD("revoke", 20, 4, grant.generation, 0, "generation 0"),
	FIELD("revoke-answer", 16, 4, grant.grant, 0, "grant 0"),
	FIELD("revoke-answer", 20, 4, grant.generation, 0, "generation 0"),

	/* BYE */
	FIELD("bye", 16, 4, bye.reason, 0, NULL),
	FIELD("bye", 16, 4, bye.reason, 8, NULL),
	FIELD("bye", 16, 4, bye.reason, 9, "unknown reason"),
	FIELD("bye", 16, 4, bye.reason, 0x100, "unknown reason"),

	/* DIGEST */
	FIELD("digest", 16, 4, digest.grant, 0, "grant 0"),
	FIELD("digest", 20, 4, digest.generation, 0, "generation 0"),
	FIELD("digest", 24, 8, digest.offset, 0, NULL),
	FIELD("digest", 24, 8, digest.offset, U64_MAX - 0x10000, NULL),
	FIELD("digest", 24, 8, digest.offset, U64_MAX - 0xffff, "range of a digest wraps around"),
	FIELD("digest", 24, 8, digest.offset, U64_MAX, "range of a digest wraps around"),
	FIELD("digest", 32, 4, digest.length, 0, "length of a digest outside its limits"),
	FIELD("digest", 32, 4, digest.length, 1, NULL),
	FIELD("digest", 32, 4, digest.length, 4 << 20, NULL),
	FIELD("digest", 32, 4, digest.length, (4 << 20) + 1,
	      "length of a digest outside its limits"),
	FIELD("digest", 32, 4, digest.length, U32_MAX, "length of a digest outside its limits"),
	FIELD("digest", 36, 4, digest.value, 0, NULL),
	FIELD("digest-answer", 16, 4, digest_answer.grant, 0, "grant 0"),
	FIELD("digest-answer", 20, 4, digest_answer.generation, 0, "generation 0"),
	FIELD("digest-answer", 24, 4, digest_answer.value, U32_MAX, NULL),

	/* MESSAGE */
	FIELD("message", 8, 4, tag, 0, "tag 0"),
	FIELD("message", 16, 4, message.grant, 0, "grant 0"),
	FIELD("message", 20, 4, message.generation, 0, "generation 0"),
	FIELD("message", 24, 8, message.value, 0, NULL),
	FIELD("message", 24, 8, message.value, U64_MAX, NULL),
	FIELD("message", 32, 4, message.flags, 1, NULL),
	FIELD("message", 32, 4, message.flags, 2, "unknown flags of a message"),
	FIELD("message", 32, 4, message.flags, 0x80000000, "unknown flags of a message"),
	FIELD("message-answer", 2, 2, status, 3, "status in the answer to messages"),
	FIELD("message-answer", 8, 4, tag, 4, "answer to messages with another tag"),
	FIELD("message-answer", 24, 4, message_answer.taken[0].tag, 4,
	      "answer to messages with another tag"),
	FIELD("message-answer", 32, 4, message_answer.taken[1].tag, 0, "tag 0"),
	FIELD("message-answer", 32, 4, message_answer.taken[1].tag, U32_MAX, NULL),
	FIELD("message-answer", 28, 2, message_answer.taken[0].status, 8, NULL),
	FIELD("message-answer", 28, 2, message_answer.taken[0].status, 9, "unknown status"),
	FIELD("message-answer", 36, 2, message_answer.taken[1].status, 0xffff, "unknown status"),
};

/* What is left of bytes that are accepted: a list without the rights that are not known. */
static const u8 *known_of(const u8 *bytes, u32 len, u8 *room)
{
	u32 at;

	memcpy(room, bytes, len);
	for (at = 40; len && bytes[0] == 0x82 && at + 4 <= len; at += 80)
		put(room + at, 4, get(room + at, 4) & 0x17);
	return room;
}

/*
 * Rights in the golden list-answer, and those of them that are left when it is decoded: the
 * others are of a later owner. Nobody says what is not known.
 */
struct list_rights {
	u32 told;
	u32 known;
};

static const struct list_rights list_rights[] = {
	{ 8, 0 }, { 0x20, 0 }, { 0x1f, 0x17 }, { 0x80000001, 1 }, { U32_MAX, 0x17 },
};

/* --------------------------------------------------------------- hello */

/* A value of a field in the golden hello-request, and what decoding has to return. */
struct hello_field {
	u32 at, width;
	u64 value;
	int rc;
	const char *why;
};

static const struct hello_field hello_fields[] = {
	{ 0, 4, 0, -EPROTO, "not this protocol" },
	{ 0, 4, 0x4b52444d, -EPROTO, "not this protocol" },
	{ 4, 1, 0, -EPROTONOSUPPORT, "another version of the protocol" },
	{ 4, 1, 2, -EPROTONOSUPPORT, "another version of the protocol" },
	{ 4, 1, 255, -EPROTONOSUPPORT, "another version of the protocol" },
	{ 5, 1, 1, -EPROTO, "reserved bytes of the hello are not zero" },
	{ 6, 2, 0, 0, NULL },
	{ 6, 2, 0xffff, 0, NULL },
	{ 8, 8, U64_MAX, 0, NULL },
	{ 16, 8, U64_MAX, 0, NULL },
	{ 24, 8, U64_MAX, 0, NULL },
	{ 32, 4, U32_MAX, 0, NULL },
	{ 36, 2, 0, -EPROTO, "window outside its limits" },
	{ 36, 2, 1, -EPROTO, "window outside its limits" },
	{ 36, 2, 2, 0, NULL },
	{ 36, 2, 256, 0, NULL },
	{ 36, 2, 257, -EPROTO, "window outside its limits" },
	{ 36, 2, 0xffff, -EPROTO, "window outside its limits" },
	{ 38, 2, 0, -EPROTO, "receives too small" },
	{ 38, 2, 1023, -EPROTO, "receives too small" },
	{ 38, 2, 1024, 0, NULL },
	{ 38, 2, 0xffff, 0, NULL },
	{ 40, 4, 0, 0, NULL },
	{ 40, 4, U32_MAX, 0, NULL },
	{ 44, 2, 1, 0, NULL },
	{ 44, 2, 64, 0, NULL },
	{ 44, 2, 65, -EPROTO, "places for messages outside their limits" },
	{ 44, 2, 0xffff, -EPROTO, "places for messages outside their limits" },
	{ 46, 1, 1, -EPROTO, "reserved bytes of the hello are not zero" },
	{ 55, 1, 0x80, -EPROTO, "reserved bytes of the hello are not zero" },
};

#endif /* KRDMA_PROTO_VECTORS_H */
