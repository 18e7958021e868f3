// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of driver/proto.c as the kernel compiles it. The messages, and what
 * is right or wrong about them, are those of the tests in userspace
 * (../unit/proto_vectors.h). What is decoded has exactly its length in memory, so
 * that KASAN sees a byte that is read behind it, and so has room to encode into.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include <kunit/test.h>

#include "proto.c"
#include "proto_vectors.h"

static struct krdma_msg msg_in, msg_out;

static u8 *exact(struct kunit *test, const void *bytes, u32 len)
{
	u8 *copy = kunit_kmalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, copy);
	if (bytes)
		memcpy(copy, bytes, len);
	else
		memset(copy, 0xee, len);
	return copy;
}

/* Decode into msg_out. Return: what is wrong, or NULL */
static const char *decode(struct kunit *test, const u8 *bytes, u32 len)
{
	u8 *copy = exact(test, bytes, len);
	const char *why = "unset";
	const void **data;
	u32 at, length;
	int rc;

	memset(&msg_out, 0xa5, sizeof(msg_out));
	rc = krdma_proto_decode(copy, len, &msg_out, &why);
	if (!why)
		KUNIT_ASSERT_EQ(test, rc, 0);
	else
		KUNIT_ASSERT_EQ_MSG(test, rc, -EPROTO, "%s", why);
	if (why)
		KUNIT_ASSERT_STRNEQ(test, why, "unset");
	/* Data is in the copy, which is about to go. */
	data = why ? NULL : data_of(&msg_out, &at, &length);
	if (data) {
		KUNIT_ASSERT_PTR_EQ(test, *data, copy + at);
		*data = bytes + at;
	}
	kunit_kfree(test, copy);
	return why;
}

/* Encode into room for len bytes. */
static void encode_is(struct kunit *test, const struct krdma_msg *msg, const u8 *bytes, u32 len)
{
	u8 *room = exact(test, NULL, len);

	KUNIT_ASSERT_EQ(test, krdma_proto_encode(msg, room, len), len);
	KUNIT_EXPECT_MEMEQ(test, room, bytes, len);
	kunit_kfree(test, room);
}

static void encode_refused(struct kunit *test, const struct krdma_msg *msg)
{
	static u8 room[ROOM];

	memset(room, 0xee, sizeof(room));
	KUNIT_EXPECT_EQ(test, krdma_proto_encode(msg, room, sizeof(room)), -EINVAL);
	KUNIT_EXPECT_NULL(test, memchr_inv(room, 0xee, sizeof(room)));
}

/* What was decoded, encoded again. */
static void again_is(struct kunit *test, const u8 *bytes, u32 len)
{
	static u8 known[ROOM];

	KUNIT_ASSERT_LE(test, len, sizeof(known));
	encode_is(test, &msg_out, known_of(bytes, len, known), len);
}

static void accept_same(struct kunit *test, const u8 *bytes, u32 len)
{
	const char *why = decode(test, bytes, len);

	KUNIT_ASSERT_NULL_MSG(test, why, "refused: %s", why);
	again_is(test, bytes, len);
}

static void refuse(struct kunit *test, const u8 *bytes, u32 len, const char *expected)
{
	const char *why = decode(test, bytes, len);

	KUNIT_ASSERT_NOT_NULL_MSG(test, why, "%u bytes are accepted", len);
	if (expected)
		KUNIT_EXPECT_STREQ(test, why, expected);
}

/* ---- the golden messages ---- */

static void golden_desc(const struct golden *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

/* Without those that are private data of a connection. */
static const void *golden_gen_params(const void *prev, char *desc)
{
	const struct golden *g = prev ? (const struct golden *)prev + 1 : golden;

	if (!g->fill)
		return NULL;
	golden_desc(g, desc);
	return g;
}

static void golden_both_ways(struct kunit *test)
{
	const struct golden *g = test->param_value;
	u8 bytes[256], *odd;
	u32 len = golden_bytes(g, bytes), at, length;
	const void **data;
	const char *why;

	fill(g, &msg_in);
	encode_is(test, &msg_in, bytes, len);
	KUNIT_ASSERT_NULL(test, decode(test, bytes, len));
	data = data_of(&msg_out, &at, &length);
	if (data) {
		KUNIT_EXPECT_MEMEQ(test, *data, "hello", length);
		*data = *data_of(&msg_in, &at, &length);
	}
	/* Whatever was in the struct before does not show. */
	KUNIT_EXPECT_MEMEQ(test, &msg_in, &msg_out, sizeof(msg_in));

	/* Addresses need not be aligned. */
	odd = exact(test, NULL, len + 1);
	memcpy(odd + 1, bytes, len);
	KUNIT_EXPECT_EQ(test, krdma_proto_decode(odd + 1, len, &msg_out, &why), 0);
	KUNIT_EXPECT_EQ(test, krdma_proto_encode(&msg_in, odd + 1, len), len);
	KUNIT_EXPECT_MEMEQ(test, odd + 1, bytes, len);
	KUNIT_EXPECT_EQ(test, odd[0], 0xee);
}

/* Every length but the right one, with a header that tells it and one that does not. */
static void golden_lengths(struct kunit *test)
{
	const struct golden *g = test->param_value;
	u8 bytes[192] = {}, *room;
	u32 n, len = golden_bytes(g, bytes);
	const struct shape *shape = shape_of(bytes[0] & 0x7f, bytes[0] & 0x80);
	u32 least = get(bytes + 2, 2) ? 0 : shape->fixed;

	for (n = 0; n < sizeof(bytes); n++) {
		if (n == len)
			continue;
		put(bytes + 4, 4, len);
		refuse(test, bytes, n,
		       n < HDR ? "shorter than a header" : "length is not what came");
		if (n < HDR)
			continue;
		put(bytes + 4, 4, n);
		/* Entries of one byte: any number of them. */
		if (shape->each == 1 && n >= HDR + least)
			accept_same(test, bytes, n);
		else
			refuse(test, bytes, n, n < HDR + least ? "shorter than its type" : NULL);
	}
	fill(g, &msg_in);
	for (n = 0; n < len; n++) {
		room = exact(test, NULL, n);
		KUNIT_ASSERT_EQ(test, krdma_proto_encode(&msg_in, room, n), -EMSGSIZE);
		KUNIT_EXPECT_NULL(test, memchr_inv(room, 0xee, n));
		kunit_kfree(test, room);
	}
}

static void golden_reserved_bytes(struct kunit *test)
{
	const struct golden *g = test->param_value;
	u8 bytes[256];
	u32 bit, len = golden_bytes(g, bytes);

	for (bit = 0; bit < HDR * 8; bit++) {
		if (bit / 8 != 1 && bit / 8 < 12)
			continue;
		bytes[bit / 8] ^= 1 << bit % 8;
		refuse(test, bytes, len, "reserved bytes of the header are not zero");
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

/* Whatever is accepted is what the encoder would have said. */
static void golden_bit_flips(struct kunit *test)
{
	const struct golden *g = test->param_value;
	u8 bytes[256];
	u32 bit, len = golden_bytes(g, bytes);

	for (bit = 0; bit < len * 8; bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		if (!decode(test, bytes, len))
			again_is(test, bytes, len);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

/* ---- reserved bytes, fields ---- */

static void reserved_desc(const struct reserved *r, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, byte %u", r->name, r->at);
}

KUNIT_ARRAY_PARAM(reserved, reserved, reserved_desc);

static void reserved_bytes(struct kunit *test)
{
	const struct reserved *r = test->param_value;
	u8 bytes[256];
	u32 bit, len = golden_bytes(golden_named(r->name), bytes);

	for (bit = r->at * 8; bit < (r->at + r->width) * 8; bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		refuse(test, bytes, len, r->why);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

static void field_desc(const struct field *f, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, %#llx at %u", f->name, f->value, f->at);
}

KUNIT_ARRAY_PARAM(field, fields, field_desc);

static void values_of_fields(struct kunit *test)
{
	const struct field *f = test->param_value;
	const struct golden *g = golden_named(f->name);
	u32 len;
	u8 bytes[256];

	len = golden_bytes(g, bytes);
	put(bytes + f->at, f->width, f->value);
	fill(g, &msg_in);
	if (f->width == 8)
		memcpy((u8 *)&msg_in + f->host_at, &(u64){ f->value }, 8);
	else if (f->width == 4)
		memcpy((u8 *)&msg_in + f->host_at, &(u32){ f->value }, 4);
	else
		memcpy((u8 *)&msg_in + f->host_at, &(u16){ f->value }, 2);
	if (f->why) {
		refuse(test, bytes, len, f->why);
		encode_refused(test, &msg_in);
	} else {
		accept_same(test, bytes, len);
		encode_is(test, &msg_in, bytes, len);
	}
}

/* ---- messages with any number of entries ---- */

static void shape_desc(const struct shape *shape, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s%s", krdma_proto_type_name(shape->type),
		 shape->answer ? " answer" : "");
}

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

/* Only those with entries. */
static const void *entries_gen_params(const void *prev, char *desc)
{
	const struct shape *shape = prev;

	do {
		shape = shape_gen_params(shape, desc);
	} while (shape && !shape->each);
	return shape;
}

/* Only those whose entries have rules of their own. */
static const void *rules_gen_params(const void *prev, char *desc)
{
	const struct shape *shape = prev;

	do {
		shape = entries_gen_params(shape, desc);
	} while (shape && (shape->each == 1 ||
			   (shape->type != KRDMA_WIRE_LIST && shape->type != KRDMA_WIRE_SEGS)));
	return shape;
}

static void round_trips(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	u32 entries, i, len, at, length;

	for (entries = shape->min; entries <= shape->max; entries++) {
		for (i = 0; i < (shape->each ? 1 : 50); i++) {
			const void **data;
			u8 *room;

			fill_random(shape, entries, &msg_in);
			len = HDR + shape->fixed + shape->each * entries;
			room = exact(test, NULL, len);
			KUNIT_ASSERT_EQ(test, krdma_proto_encode(&msg_in, room, len - 1),
					-EMSGSIZE);
			KUNIT_ASSERT_EQ(test, krdma_proto_encode(&msg_in, room, len), len);
			KUNIT_ASSERT_EQ(test, get(room + 4, 4), len);
			KUNIT_ASSERT_NULL(test, decode(test, room, len));
			data = data_of(&msg_out, &at, &length);
			if (data) {
				KUNIT_ASSERT_MEMEQ(test, *data, random_data, entries);
				*data = random_data;
			}
			KUNIT_ASSERT_MEMEQ(test, &msg_in, &msg_out, sizeof(msg_in));
			kunit_kfree(test, room);
		}
	}
}

/* One entry too many, whole in every other way; one too few; and counts that lie. */
static void numbers_of_entries(struct kunit *test)
{
	static const u32 lies[] = { 0, 1, 0x101, 0x10001, 1U << 31, U32_MAX };
	const struct shape *shape = test->param_value;
	static u8 bytes[ROOM + 80];
	u32 i, len, bad;

	fill_random(shape, shape->max, &msg_in);
	len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
	for (i = 0; i < ARRAY_SIZE(lies) && count_at(shape); i++) {
		put(bytes + count_at(shape), 4, lies[i]);
		refuse(test, bytes, len, "count does not match the length");
	}
	bad = shape->max + 1;
	memcpy(bytes + len, bytes + len - shape->each, shape->each);
	len += shape->each;
	put(bytes + 4, 4, len);
	if (count_at(shape))
		put(bytes + count_at(shape), 4, bad);
	refuse(test, bytes, len, "count outside its limits");
	set_entries(&msg_in, bad);
	encode_refused(test, &msg_in);
	set_entries(&msg_in, U32_MAX);
	encode_refused(test, &msg_in);

	if (!shape->min)
		return;
	len = HDR + shape->fixed;
	put(bytes + 4, 4, len);
	put(bytes + count_at(shape), 4, 0);
	refuse(test, bytes, len, "count outside its limits");
	set_entries(&msg_in, 0);
	encode_refused(test, &msg_in);
}

static void break_entry(struct kunit *test, u8 *bytes, u32 len, u32 at, u32 width, u64 value,
			const char *why)
{
	u64 good = get(bytes + at, width);

	put(bytes + at, width, value);
	refuse(test, bytes, len, why);
	put(bytes + at, width, good);
}

/* Each of the rules holds for every entry. */
static void every_entry(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	static u8 bytes[ROOM];
	u32 i, at, len;

	fill_random(shape, shape->max, &msg_in);
	len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
	for (i = 0; i < shape->max; i++) {
		at = HDR + shape->fixed + i * shape->each;
		if (shape->type == KRDMA_WIRE_SEGS) {
			break_entry(test, bytes, len, at + 4, 4, 0xffffff00,
				    "segments not consecutive");
			break_entry(test, bytes, len, at + 8, 8, U64_MAX,
				    "segment address wraps around");
			break_entry(test, bytes, len, at + 16, 4, 0, "segment of no length");
		} else {
			break_entry(test, bytes, len, at, 8, 0, "export of no length");
			break_entry(test, bytes, len, at + 12, 4, 1 << 31,
				    "reserved bytes of a list entry are not zero");
			break_entry(test, bytes, len, at + 16, 1, '/', "bad name in a list");
			break_entry(test, bytes, len, at + 79, 1, 'x', "bad name in a list");
		}
	}
	accept_same(test, bytes, len);
}

/* A later owner may list rights that are not known here: the others stay. */
static void rights_of_lists(struct kunit *test)
{
	u8 bytes[256];
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(list_rights); i++) {
		len = golden_bytes(golden_named("list-answer"), bytes);
		put(bytes + 40, 4, list_rights[i].told);
		accept_same(test, bytes, len);
		KUNIT_EXPECT_EQ(test, msg_out.list_answer.entry[0].rights, list_rights[i].known);
		msg_out.list_answer.entry[0].rights = list_rights[i].told;
		encode_refused(test, &msg_out);
	}
}

static void failed_answers(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	u8 bytes[HDR + 8] = {};
	u16 status;

	bytes[0] = shape->type | (shape->answer ? 0x80 : 0);
	put(bytes + 8, 4, shape->type == KRDMA_WIRE_BYE ? 0 : 9);
	for (status = 1; status <= KRDMA_WIRE_STATUS_LAST + 2; status++) {
		put(bytes + 2, 2, status);
		put(bytes + 4, 4, HDR);
		if (!shape->answer)
			refuse(test, bytes, HDR, "status in a question");
		else if (status > KRDMA_WIRE_STATUS_LAST)
			refuse(test, bytes, HDR, "unknown status");
		else if (shape->type == KRDMA_WIRE_MESSAGE)
			refuse(test, bytes, HDR, "status in the answer to messages");
		else
			accept_same(test, bytes, HDR);
		if (!shape->answer || status > KRDMA_WIRE_STATUS_LAST ||
		    shape->type == KRDMA_WIRE_MESSAGE)
			continue;
		put(bytes + 4, 4, HDR + 1);
		refuse(test, bytes, HDR + 1, "payload on a failed answer");
		put(bytes + 4, 4, HDR + 8);
		refuse(test, bytes, HDR + 8, "payload on a failed answer");
	}
}

static void all_types(struct kunit *test)
{
	u8 bytes[HDR] = {};
	u32 type;

	put(bytes + 4, 4, HDR);
	put(bytes + 8, 4, 1);
	for (type = 0; type < 256; type++) {
		bytes[0] = type;
		memset(&msg_in, 0, sizeof(msg_in));
		msg_in.type = type & 0x7f;
		msg_in.answer = type & 0x80;
		msg_in.tag = 1;
		if (shape_of(msg_in.type, msg_in.answer))
			continue;
		refuse(test, bytes, HDR,
		       type & 0x80 ? "unknown type of answer" : "unknown type of question");
		encode_refused(test, &msg_in);
		/* In host byte order the bit has a place of its own. */
		msg_in.type |= 0x80;
		encode_refused(test, &msg_in);
	}
}

static void random_bytes(struct kunit *test)
{
	static u8 bytes[ROOM + 8];
	u32 round, i, len;

	for (round = 0; round < 2000; round++) {
		len = random32() % (round % 8 ? 128 : sizeof(bytes));
		for (i = 0; i < len; i++)
			bytes[i] = random32();
		/* Mostly with a header that is nearly right, or nothing is reached. */
		if (len >= HDR && round % 4) {
			put(bytes, 8, (1 + random32() % 10) | (random32() & 0x80));
			put(bytes + 4, 4, len);
			put(bytes + 12, 4, 0);
		}
		if (!decode(test, bytes, len))
			again_is(test, bytes, len);
	}
}

/* ---- names ---- */

static void names(struct kunit *test)
{
	static const char good[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=";
	u32 len, c;
	char *name;

	for (len = 0; len <= KRDMA_WIRE_NAME_MAX; len++) {
		name = exact(test, NULL, len);
		memset(name, 'n', len);
		/* Without a NUL in its room it is none, and nothing behind is read. */
		KUNIT_EXPECT_FALSE(test, krdma_proto_name_ok(name, len));
		kunit_kfree(test, name);
	}
	name = exact(test, NULL, KRDMA_WIRE_NAME_MAX);
	for (len = 0; len < KRDMA_WIRE_NAME_MAX; len++) {
		memset(name, 0, KRDMA_WIRE_NAME_MAX);
		memset(name, 'n', len);
		KUNIT_EXPECT_EQ(test, krdma_proto_name_ok(name, KRDMA_WIRE_NAME_MAX), len > 0);
		if (len > KRDMA_WIRE_NAME_MAX - 2)
			continue;
		name[KRDMA_WIRE_NAME_MAX - 1] = 1;
		KUNIT_EXPECT_FALSE(test, krdma_proto_name_ok(name, KRDMA_WIRE_NAME_MAX));
	}
	for (c = 1; c < 256; c++) {
		memset(name, 0, KRDMA_WIRE_NAME_MAX);
		memset(name, 'n', 3);
		name[c % 3] = c;
		KUNIT_EXPECT_EQ_MSG(test, krdma_proto_name_ok(name, KRDMA_WIRE_NAME_MAX),
				    !!strchr(good, c), "character %u", c);
	}
}

/* ---- hello and reject ---- */

static int decode_hello(struct kunit *test, const u8 *bytes, u32 len, struct krdma_hello *hello,
			const char **why)
{
	u8 *copy = exact(test, bytes, len);
	int rc;

	memset(hello, 0xa5, sizeof(*hello));
	*why = "unset";
	rc = krdma_proto_decode_hello(copy, len, hello, why);
	if (rc) {
		/* The version is said to the user. */
		hello->version = 0;
		KUNIT_EXPECT_NULL(test, memchr_inv(hello, 0, sizeof(*hello)));
	} else {
		KUNIT_EXPECT_NULL(test, *why);
	}
	kunit_kfree(test, copy);
	return rc;
}

static void hello_is(struct kunit *test, const struct krdma_hello *hello, const u8 *bytes)
{
	struct krdma_wire_hello *wire = kunit_kmalloc(test, sizeof(*wire), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, wire);
	krdma_proto_encode_hello(hello, wire);
	KUNIT_EXPECT_MEMEQ(test, (const u8 *)wire, bytes, 56);
	kunit_kfree(test, wire);
}

static void hellos(struct kunit *test)
{
	struct krdma_hello hello;
	const char *why;
	u8 bytes[256];
	u32 len;

	golden_bytes(golden_named("hello-request"), bytes);
	hello_is(test, &hello_request, bytes);
	KUNIT_ASSERT_EQ(test, decode_hello(test, bytes, 56, &hello, &why), 0);
	hello_is(test, &hello, bytes);
	golden_bytes(golden_named("hello-accept"), bytes);
	hello_is(test, &hello_accept, bytes);

	/* Shorter is none; behind it is padding, whatever it says. */
	memset(bytes + 56, 0xff, sizeof(bytes) - 56);
	for (len = 0; len < 56; len++) {
		KUNIT_EXPECT_EQ(test, decode_hello(test, bytes, len, &hello, &why), -EPROTO);
		KUNIT_EXPECT_STREQ(test, why, "hello too short");
	}
	for (; len <= sizeof(bytes); len++)
		KUNIT_EXPECT_EQ(test, decode_hello(test, bytes, len, &hello, &why), 0);
	hello_is(test, &hello, bytes);
}

static void hello_field_desc(const struct hello_field *f, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%#llx at %u", f->value, f->at);
}

KUNIT_ARRAY_PARAM(hello_field, hello_fields, hello_field_desc);

static void values_of_hello(struct kunit *test)
{
	const struct hello_field *f = test->param_value;
	struct krdma_hello hello;
	const char *why;
	u8 bytes[256];

	golden_bytes(golden_named("hello-request"), bytes);
	put(bytes + f->at, f->width, f->value);
	KUNIT_ASSERT_EQ(test, decode_hello(test, bytes, 56, &hello, &why), f->rc);
	if (f->rc) {
		KUNIT_EXPECT_STREQ(test, why, f->why);
		return;
	}
	put(bytes + 38, 2, KRDMA_WIRE_MSG_MAX); /* what this side says is its own */
	hello_is(test, &hello, bytes);
}

static void rejects(struct kunit *test)
{
	struct krdma_wire_reject wire;
	u8 bytes[16], *copy, version, reason;
	u32 bit, len, value;
	int rc;

	golden_bytes(golden_named("reject"), bytes);
	krdma_proto_encode_reject(bytes[5], &wire);
	KUNIT_EXPECT_MEMEQ(test, (const u8 *)&wire, bytes, 8);
	for (len = 0; len <= sizeof(bytes); len++) {
		copy = exact(test, bytes, len);
		rc = krdma_proto_decode_reject(copy, len, &version, &reason);
		KUNIT_EXPECT_EQ(test, rc, len < 8 ? -EPROTO : 0);
		KUNIT_EXPECT_EQ(test, version, rc ? 0 : 1);
		KUNIT_EXPECT_EQ(test, reason, rc ? 0 : bytes[5]);
		kunit_kfree(test, copy);
	}
	for (value = 0; value < 256; value++) {
		bytes[5] = value;
		rc = krdma_proto_decode_reject(bytes, 8, &version, &reason);
		KUNIT_EXPECT_EQ(test, rc, value > KRDMA_WIRE_REASON_LAST ? -EPROTO : 0);
		/* A later version has reasons of its own; version 0 never was. */
		bytes[4] = 2;
		KUNIT_EXPECT_EQ(test, krdma_proto_decode_reject(bytes, 8, &version, &reason), 0);
		KUNIT_EXPECT_EQ(test, version, 2);
		KUNIT_EXPECT_EQ(test, reason, value);
		bytes[4] = 0;
		KUNIT_EXPECT_EQ(test, krdma_proto_decode_reject(bytes, 8, &version, &reason),
				-EPROTO);
		bytes[4] = 1;
	}
	bytes[5] = 0;
	for (bit = 0; bit < 64; bit++) {
		if (bit / 8 == 4 || bit / 8 == 5)
			continue;
		bytes[bit / 8] ^= 1 << bit % 8;
		KUNIT_EXPECT_EQ(test, krdma_proto_decode_reject(bytes, 8, &version, &reason),
				-EPROTO);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
}

/* ---- numbers and texts ---- */

static void numbers_and_texts(struct kunit *test)
{
	u32 i;

	/* With the errnos of this kernel. */
	KUNIT_EXPECT_EQ(test, krdma_proto_errno(KRDMA_WIRE_ACCES), -EACCES);
	KUNIT_EXPECT_EQ(test, krdma_proto_errno(KRDMA_WIRE_UNSUPPORTED), -EOPNOTSUPP);
	for (i = 0; i <= KRDMA_WIRE_STATUS_LAST; i++)
		KUNIT_EXPECT_EQ(test, krdma_proto_status(krdma_proto_errno(i)), i);
	for (; i <= U16_MAX; i++)
		KUNIT_ASSERT_EQ(test, krdma_proto_errno(i), -EPROTO);
	KUNIT_EXPECT_EQ(test, krdma_proto_status(-EINVAL), KRDMA_WIRE_IO);
	for (i = 0; i < 256; i++) {
		KUNIT_EXPECT_EQ(test, !strcmp(krdma_proto_type_name(i), "unknown"),
				!(i & 0x7f) || (i & 0x7f) > KRDMA_WIRE_MESSAGE);
		KUNIT_EXPECT_EQ(test, !strcmp(krdma_proto_reason_text(i), "unknown reason"),
				i > KRDMA_WIRE_REASON_LAST);
		KUNIT_EXPECT_EQ(test, !strcmp(krdma_proto_status_text(i), "unknown status"),
				i > KRDMA_WIRE_STATUS_LAST);
	}
}

static int proto_init(struct kunit *test)
{
	/* The same messages, whichever tests have run before. */
	random_state = 0x9e3779b97f4a7c15;
	return 0;
}

static struct kunit_case proto_cases[] = {
	KUNIT_CASE_PARAM(golden_both_ways, golden_gen_params),
	KUNIT_CASE_PARAM(golden_lengths, golden_gen_params),
	KUNIT_CASE_PARAM(golden_reserved_bytes, golden_gen_params),
	KUNIT_CASE_PARAM(golden_bit_flips, golden_gen_params),
	KUNIT_CASE_PARAM(reserved_bytes, reserved_gen_params),
	KUNIT_CASE_PARAM(values_of_fields, field_gen_params),
	KUNIT_CASE_PARAM(round_trips, shape_gen_params),
	KUNIT_CASE_PARAM(numbers_of_entries, entries_gen_params),
	KUNIT_CASE_PARAM(every_entry, rules_gen_params),
	KUNIT_CASE(rights_of_lists),
	KUNIT_CASE_PARAM(failed_answers, shape_gen_params),
	KUNIT_CASE(all_types),
	KUNIT_CASE(random_bytes),
	KUNIT_CASE(names),
	KUNIT_CASE(hellos),
	KUNIT_CASE_PARAM(values_of_hello, hello_field_gen_params),
	KUNIT_CASE(rejects),
	KUNIT_CASE(numbers_and_texts),
	{}
};

static struct kunit_suite proto_suite = {
	.name = "krdma_proto",
	.init = proto_init,
	.test_cases = proto_cases,
};

kunit_test_suite(proto_suite);

MODULE_DESCRIPTION("KUnit tests of krdma_mover");
MODULE_LICENSE("GPL");
