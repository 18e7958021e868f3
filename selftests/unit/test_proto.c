// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of driver/proto.c.
 *
 *   test_proto                  run the tests
 *   test_proto --corpus DIR     write the golden messages to DIR, one file each,
 *                               as seeds for the fuzzer
 *   test_proto --golden         print the golden messages as wire.rst shows them
 *
 * The golden messages of proto_vectors.h are also in Documentation/wire.rst and
 * in corpus/. The tests compare all of them, so that none can change alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto_vectors.h"

#include <cmocka.h>

#ifndef UNIT_DIR
#define UNIT_DIR "."
#endif

static struct krdma_msg msg_in, msg_out;

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

/* Decode from a block of exactly len bytes: the sanitizer sees the byte behind. */
static int decode_exact(const u8 *bytes, u32 len, struct krdma_msg *msg, const char **why)
{
	u8 *copy = malloc(len ? len : 1);
	const void **data;
	u32 at, length;
	int rc;

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	memset(msg, 0xa5, sizeof(*msg));
	*why = "unset";
	rc = krdma_proto_decode(copy, len, msg, why);
	if (rc)
		require(rc == -EPROTO && *why && strcmp(*why, "unset"), "rc %d", rc);
	else
		require(!*why, "why: %s", *why);
	/* Data lies in the copy, which is about to go. */
	data = rc ? NULL : data_of(msg, &at, &length);
	if (data) {
		require(*data == copy + at, "data elsewhere");
		*data = bytes + at;
	}
	free(copy);
	return rc;
}

static void refuse(const u8 *bytes, u32 len, const char *expected, const char *what)
{
	const char *why;

	require(decode_exact(bytes, len, &msg_out, &why) == -EPROTO, "%s: accepted", what);
	if (expected)
		require(!strcmp(why, expected), "%s: refused by \"%s\", not \"%s\"", what, why,
			expected);
}

static void accept_same(const u8 *bytes, u32 len, const char *what)
{
	u8 again[ROOM], known[ROOM];
	const char *why;
	int rc;

	rc = decode_exact(bytes, len, &msg_out, &why);
	require(!rc, "%s: refused by \"%s\"", what, why);
	rc = krdma_proto_encode(&msg_out, again, sizeof(again));
	require(rc == (int)len, "%s: encoded again, %d and not %u bytes", what, rc, len);
	require(!memcmp(again, known_of(bytes, len, known), len), "%s: encoded again, other bytes",
		what);
}

/* As in wire.rst: offset and 16 bytes a line, indented as a literal block. */
static void golden_dump(const struct golden *g, char *text, size_t room)
{
	u8 bytes[ROOM];
	u32 i, len = golden_bytes(g, bytes);
	size_t at = 0;

	for (i = 0; i < len; i++) {
		if (i % 16 == 0)
			at += snprintf(text + at, room - at, "%s   %04x ", i ? "\n" : "", i);
		at += snprintf(text + at, room - at, " %02x", bytes[i]);
	}
	snprintf(text + at, room - at, "\n");
}

static void test_golden(void **state)
{
	u8 expected[ROOM], bytes[ROOM];
	const struct golden *g;
	u32 len, at, length;
	const void **data;
	const char *why;
	int rc;

	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, expected);
		fill(g, &msg_in);
		rc = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
		require(rc == (int)len, "%s: %d bytes encoded", g->name, rc);
		require(!memcmp(bytes, expected, len), "%s: other bytes", g->name);

		rc = decode_exact(expected, len, &msg_out, &why);
		require(!rc, "%s: refused by \"%s\"", g->name, why);
		data = data_of(&msg_out, &at, &length);
		if (data) {
			require(!memcmp(*data, "hello", length), "%s: other data", g->name);
			*data_of(&msg_in, &at, &length) = *data;
		}
		require(!memcmp(&msg_in, &msg_out, sizeof(msg_in)), "%s: decoded otherwise",
			g->name);
	}
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text;
	size_t len;

	require(file, "can't open %s", path);
	text = malloc(1 << 20);
	assert_non_null(text);
	len = fread(text, 1, (1 << 20) - 1, file);
	text[len] = 0;
	fclose(file);
	return text;
}

static void test_golden_in_documentation(void **state)
{
	char *text = read_text(UNIT_DIR "/../../Documentation/wire.rst");
	char dump[8192];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(golden); i++) {
		golden_dump(&golden[i], dump, sizeof(dump));
		require(strstr(text, dump), "%s: not in wire.rst", golden[i].name);
	}
	free(text);
}

static void test_golden_in_corpus(void **state)
{
	u8 expected[ROOM];
	char path[512];
	char *text;
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(golden); i++) {
		len = golden_bytes(&golden[i], expected);
		snprintf(path, sizeof(path), UNIT_DIR "/corpus/%s", golden[i].name);
		text = read_text(path);
		require(!memcmp(text, expected, len), "%s differs", path);
		free(text);
	}
}

/* ------------------------------------------------------------ round trip */

static void round_trip(const struct shape *shape, u32 entries)
{
	u32 len = HDR + shape->fixed + shape->each * entries;
	const char *name = krdma_proto_type_name(shape->type);
	u8 bytes[ROOM + 1];
	const char *why;
	const void **data;
	u32 at, length;
	int rc;

	fill_random(shape, entries, &msg_in);
	memset(bytes, 0xee, sizeof(bytes));
	require(krdma_proto_encode(&msg_in, bytes, len - 1) == -EMSGSIZE, "%s", name);
	require(krdma_proto_encode(&msg_in, bytes, 0) == -EMSGSIZE, "%s", name);
	require(bytes[0] == 0xee, "%s: written in spite of -EMSGSIZE", name);
	rc = krdma_proto_encode(&msg_in, bytes, len);
	require(rc == (int)len, "%s, %u entries: %d, not %u bytes", name, entries, rc, len);
	require(bytes[len] == 0xee, "%s: written too far", name);
	require(get(bytes + 4, 4) == len, "%s: length in the header", name);

	rc = decode_exact(bytes, len, &msg_out, &why);
	require(!rc, "%s, %u entries: refused by \"%s\"", name, entries, why);
	data = data_of(&msg_out, &at, &length);
	if (data) {
		require(!entries || !memcmp(*data, random_data, entries), "%s data", name);
		*data = random_data;
	}
	require(!memcmp(&msg_in, &msg_out, sizeof(msg_in)), "%s, %u entries: not the same", name,
		entries);
}

static void test_round_trip(void **state)
{
	const struct shape *shape;
	u32 entries, i;

	for (shape = shapes; shape < shapes + ARRAY_SIZE(shapes); shape++)
		for (entries = shape->min; entries <= shape->max; entries++)
			for (i = 0; i < (shape->each ? 3 : 200); i++)
				round_trip(shape, entries);
}

static void test_ping_without_data(void **state)
{
	u8 bytes[HDR];

	memset(&msg_in, 0, sizeof(msg_in));
	msg_in.type = KRDMA_WIRE_PING;
	msg_in.tag = 1;
	assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), HDR);
	accept_same(bytes, HDR, "empty ping");
	msg_in.ping.length = 1;
	assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), -EINVAL);
}

static void test_failed_answers(void **state)
{
	const struct shape *shape;
	u8 bytes[HDR + 8];
	u16 status;

	for (shape = shapes; shape < shapes + ARRAY_SIZE(shapes); shape++) {
		if (!shape->answer)
			continue;
		for (status = 1; status <= KRDMA_WIRE_STATUS_LAST + 1; status++) {
			/* What is in the payload's fields must not matter. */
			memset(&msg_in, 0xff, sizeof(msg_in));
			msg_in.type = shape->type;
			msg_in.answer = true;
			msg_in.tag = 9;
			msg_in.status = status;
			if (status > KRDMA_WIRE_STATUS_LAST || shape->type == KRDMA_WIRE_MESSAGE) {
				assert_int_equal(krdma_proto_encode(&msg_in, bytes, 24), -EINVAL);
				put(bytes, 8, shape->type | 0x80);
				put(bytes + 2, 2, status);
				put(bytes + 4, 4, HDR);
				put(bytes + 8, 8, 9);
				refuse(bytes, HDR,
				       status > KRDMA_WIRE_STATUS_LAST ?
					       "unknown status" :
					       "status in the answer to messages",
				       "failed answer");
				continue;
			}
			assert_int_equal(krdma_proto_encode(&msg_in, bytes, HDR), HDR);
			accept_same(bytes, HDR, "failed answer");
			assert_int_equal(msg_out.status, status);
			memset(bytes + HDR, 0, 8);
			put(bytes + 4, 4, HDR + 8);
			refuse(bytes, HDR + 8, "payload on a failed answer", "failed answer");
			put(bytes + 4, 4, HDR + 1);
			refuse(bytes, HDR + 1, "payload on a failed answer", "failed answer");
			put(bytes + 4, 4, HDR);
		}
	}
}

/* --------------------------------------------------------------- lengths */

static void lengths_of(const u8 *bytes, u32 len, const struct shape *shape)
{
	const char *name = krdma_proto_type_name(shape->type);
	u8 patched[2 * ROOM] = {};
	u32 most = shape->each == 1 ? HDR + shape->fixed + shape->max : 0;
	u32 n;

	memcpy(patched, bytes, len);
	for (n = 0; n < sizeof(patched); n++) {
		if (n == len)
			continue;
		memcpy(patched, bytes, len);
		refuse(patched, n, n < HDR ? "shorter than a header" : "length is not what came",
		       name);
		if (n < HDR)
			continue;
		/* A header that lies fits the bytes, but not the type or the count. */
		put(patched + 4, 4, n);
		if (n <= most && n >= HDR + shape->fixed)
			accept_same(patched, n, name);
		else
			refuse(patched, n, n < HDR + shape->fixed ? "shorter than its type" : NULL,
			       name);
	}
}

static void test_lengths(void **state)
{
	u8 bytes[ROOM];
	const struct shape *shape;
	const struct golden *g;
	u32 len;

	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, bytes);
		if (get(bytes + 2, 2))
			continue; /* test_failed_answers() */
		lengths_of(bytes, len, shape_of(bytes[0] & 0x7f, bytes[0] & 0x80));
	}
	for (shape = shapes; shape < shapes + ARRAY_SIZE(shapes); shape++) {
		fill_random(shape, shape->max, &msg_in);
		len = HDR + shape->fixed + shape->each * shape->max;
		assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), len);
		lengths_of(bytes, len, shape);
	}
}

/* One entry more than allowed, whole in every other way. */
static void test_entries_over_the_limit(void **state)
{
	u8 bytes[ROOM + 100];
	const struct shape *shape;
	u32 len;

	for (shape = shapes; shape < shapes + ARRAY_SIZE(shapes); shape++) {
		const char *name = krdma_proto_type_name(shape->type);

		if (!shape->each)
			continue;
		fill_random(shape, shape->max, &msg_in);
		len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
		memcpy(bytes + len, bytes + len - shape->each, shape->each);
		if (shape->type == KRDMA_WIRE_SEGS)
			put(bytes + len, 8, get(bytes + len, 8) + 1);
		len += shape->each;
		put(bytes + 4, 4, len);
		if (count_at(shape))
			put(bytes + count_at(shape), 4, shape->max + 1);
		refuse(bytes, len, "count outside its limits", name);

		/* The same from the other end. */
		set_entries(&msg_in, shape->max + 1);
		require(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)) == -EINVAL, "%s", name);

		/* One less than the least. */
		if (!shape->min)
			continue;
		fill_random(shape, shape->min, &msg_in);
		len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes)) - shape->each;
		put(bytes + 4, 4, len);
		put(bytes + count_at(shape), 4, 0);
		refuse(bytes, len, "count outside its limits", name);
		set_entries(&msg_in, 0);
		require(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)) == -EINVAL, "%s", name);
	}
}

/* ------------------------------------------------------------- bit flips */

/*
 * The flips of one bit of the type that make another valid message, because
 * both have the same layout, or because a PING may carry anything.
 */
static const struct {
	const char *name;
	u8 type;
} flip_accepted[] = {
	{ "ping", 0x81 }, /* a question became an answer */
	{ "ping-answer", 0x01 },   { "open", 0x01 },          { "open-answer", 0x81 },
	{ "open-failed", 0x81 }, /* a failed answer is a header alone */
	{ "open-failed", 0x82 },   { "open-failed", 0x87 },   { "close", 0x01 },
	{ "close", 0x07 },         { "close", 0x85 },         { "close-answer", 0x05 },
	{ "close-answer", 0x81 },  { "close-answer", 0x87 },  { "recall-answer", 0x87 },
	{ "revoke", 0x05 },        { "revoke", 0x87 },        { "revoke-answer", 0x07 },
	{ "revoke-answer", 0x85 }, { "revoke-answer", 0x86 }, { "digest", 0x01 },
	{ "digest-answer", 0x81 },
};

static bool type_flip_accepted(const char *name, u8 type)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(flip_accepted); i++)
		if (flip_accepted[i].type == type && !strcmp(flip_accepted[i].name, name))
			return true;
	return false;
}

static bool flip_should_pass(const char *name, const u8 *bytes, u32 bit)
{
	u32 status = get(bytes + 2, 2);
	u32 at = bit / 8;

	if (at == 0)
		return type_flip_accepted(name, bytes[0]);
	if (at == 2 || at == 3)
		/* Only between the failures: OK needs a payload, and a failure has none. */
		return !strcmp(name, "open-failed") && status && status <= 8;
	if (at >= 8 && at < 12)
		return bytes[0] != KRDMA_WIRE_BYE && get(bytes + 8, 4);
	return false; /* reserved, length */
}

static void test_header_bit_flips(void **state)
{
	u8 bytes[ROOM];
	const struct golden *g;
	char what[64];
	u32 len, bit;

	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, bytes);
		for (bit = 0; bit < HDR * 8; bit++) {
			snprintf(what, sizeof(what), "%s, bit %u of the header", g->name, bit);
			bytes[bit / 8] ^= 1 << bit % 8;
			/* Its tag is there twice. */
			if (flip_should_pass(g->name, bytes, bit) &&
			    (strcmp(g->name, "message-answer") || bit < 64))
				accept_same(bytes, len, what);
			else
				refuse(bytes, len, NULL, what);
			bytes[bit / 8] ^= 1 << bit % 8;
		}
	}
}

/* Whatever is accepted is what the encoder would have said. */
static void test_payload_bit_flips(void **state)
{
	u8 bytes[ROOM];
	const struct golden *g;
	const char *why;
	u32 len, bit;

	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, bytes);
		for (bit = HDR * 8; bit < len * 8; bit++) {
			bytes[bit / 8] ^= 1 << bit % 8;
			if (!decode_exact(bytes, len, &msg_out, &why))
				accept_same(bytes, len, g->name);
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
		bool answer = type & 0x80;

		memset(&msg_in, 0, sizeof(msg_in));
		msg_in.type = type & 0x7f;
		msg_in.answer = answer;
		msg_in.status = answer ? 1 : 0;
		msg_in.tag = 1;
		bytes[0] = type;
		put(bytes + 2, 2, answer ? 1 : 0);
		if (shape_of(type & 0x7f, answer)) {
			if (answer && msg_in.type != KRDMA_WIRE_MESSAGE)
				accept_same(bytes, HDR, "failed answer");
			continue;
		}
		refuse(bytes, HDR, answer ? "unknown type of answer" : "unknown type of question",
		       "type");
		require(krdma_proto_encode(&msg_in, bytes, HDR) == -EINVAL, "type %u", type);
		/* In host byte order, the bit has a place of its own. */
		msg_in.type = type | 0x80;
		require(krdma_proto_encode(&msg_in, bytes, HDR) == -EINVAL, "type %u", type);
	}
}

/* BYE has no answer, with a tag or without, with its payload or without. */
static void test_no_answer_to_bye(void **state)
{
	u8 bytes[HDR + 8];
	u32 tag;

	for (tag = 0; tag < 2; tag++) {
		golden_bytes(golden_named("bye"), bytes);
		bytes[0] |= 0x80;
		put(bytes + 8, 4, tag);
		refuse(bytes, HDR + 8, "unknown type of answer", "bye");
		put(bytes + 4, 4, HDR);
		put(bytes + 2, 2, KRDMA_WIRE_UNSUPPORTED);
		refuse(bytes, HDR, "unknown type of answer", "bye");
		fill(golden_named("bye"), &msg_in);
		msg_in.answer = true;
		msg_in.tag = tag;
		assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), -EINVAL);
		msg_in.status = KRDMA_WIRE_UNSUPPORTED;
		assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), -EINVAL);
	}
}

/* The reason of a BYE is seen before it is decoded: the same one, and of nothing else. */
static void test_bye_ahead(void **state)
{
	u8 bytes[ROOM];
	const char *why;
	u32 i, len, reason;

	for (i = 0; i < ARRAY_SIZE(golden); i++) {
		len = golden_bytes(&golden[i], bytes);
		if (strcmp(golden[i].name, "bye"))
			assert_int_equal(krdma_proto_bye(bytes, len), -1);
	}
	len = golden_bytes(golden_named("bye"), bytes);
	for (reason = 0; reason <= KRDMA_WIRE_REASON_LAST + 1; reason++) {
		put(bytes + HDR, 4, reason);
		if (krdma_proto_decode(bytes, len, &msg_in, &why))
			assert_int_equal(krdma_proto_bye(bytes, len), -1);
		else
			assert_int_equal(krdma_proto_bye(bytes, len), msg_in.bye.reason);
	}
	for (i = 0; i < len; i++)
		assert_int_equal(krdma_proto_bye(bytes, i), -1);
}

static void test_reserved_bytes(void **state)
{
	u8 bytes[ROOM];
	const struct golden *g;
	u32 i, bit, len;

	for (i = 0; i < ARRAY_SIZE(reserved); i++) {
		len = golden_bytes(golden_named(reserved[i].name), bytes);
		for (bit = 0; bit < reserved[i].width * 8; bit++) {
			bytes[reserved[i].at + bit / 8] ^= 1 << bit % 8;
			refuse(bytes, len, reserved[i].why, reserved[i].name);
			bytes[reserved[i].at + bit / 8] ^= 1 << bit % 8;
		}
	}
	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, bytes);
		bytes[1] = 1;
		refuse(bytes, len, "reserved bytes of the header are not zero", g->name);
		bytes[1] = 0;
		bytes[12] = 1;
		refuse(bytes, len, "reserved bytes of the header are not zero", g->name);
	}
}

/* ---------------------------------------------------------------- fields */

static void test_fields(void **state)
{
	u8 bytes[ROOM], encoded[ROOM];
	const struct field *field;
	char what[96];
	u32 i, len;
	int rc;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		field = &fields[i];
		snprintf(what, sizeof(what), "%s, %llx at %u", field->name,
			 (unsigned long long)field->value, field->at);
		len = golden_bytes(golden_named(field->name), bytes);
		put(bytes + field->at, field->width, field->value);
		fill(golden_named(field->name), &msg_in);
		/* The members of krdma_msg are in the byte order of this host. */
		if (field->width == 8)
			memcpy((u8 *)&msg_in + field->host_at, &(u64){ field->value }, 8);
		else if (field->width == 4)
			memcpy((u8 *)&msg_in + field->host_at, &(u32){ field->value }, 4);
		else
			memcpy((u8 *)&msg_in + field->host_at, &(u16){ field->value }, 2);
		memset(encoded, 0xee, sizeof(encoded));
		rc = krdma_proto_encode(&msg_in, encoded, sizeof(encoded));
		if (field->why) {
			refuse(bytes, len, field->why, what);
			require(rc == -EINVAL, "%s: encode gave %d", what, rc);
			require(encoded[0] == 0xee, "%s: written in spite of -EINVAL", what);
		} else {
			accept_same(bytes, len, what);
			require(rc == (int)len && !memcmp(bytes, encoded, len),
				"%s: encode gave %d", what, rc);
		}
	}
}

/* The count in the payload, against the one that the length gives. */
static void test_count_mismatch(void **state)
{
	static const char *const names[] = { "list-answer", "segs-answer", "recall" };
	static const u32 counts[] = { 0, 1, 2, 3, 0x101, 0x10001, 0x10000002, U32_MAX };
	u8 bytes[ROOM];
	u32 i, k, len, right;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		len = golden_bytes(golden_named(names[i]), bytes);
		right = get(bytes + 24, 4);
		for (k = 0; k < ARRAY_SIZE(counts); k++) {
			if (counts[k] == right)
				continue;
			put(bytes + 24, 4, counts[k]);
			refuse(bytes, len, "count does not match the length", names[i]);
		}
	}
}

/* Every entry is looked at, and each of the rules holds in the last one too. */
static void test_last_entry(void **state)
{
	const struct shape *segs = shape_of(KRDMA_WIRE_SEGS, true);
	const struct shape *list = shape_of(KRDMA_WIRE_LIST, true);
	u8 bytes[ROOM];
	u32 i, len, at;

	fill_random(segs, segs->max, &msg_in);
	len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
	for (i = 0; i < segs->max; i++) {
		at = HDR + segs->fixed + i * segs->each;
		put(bytes + at + 16, 4, 0);
		refuse(bytes, len, "segment of no length", "segs");
		put(bytes + at + 16, 4, msg_in.segs_answer.seg[i].length);
		put(bytes + at + 8, 8, U64_MAX);
		refuse(bytes, len, "segment address wraps around", "segs");
		put(bytes + at + 8, 8, msg_in.segs_answer.seg[i].address);
		put(bytes + at, 8, msg_in.segs_answer.seg[i].index + 0x100000000);
		refuse(bytes, len, "segments not consecutive", "segs");
		put(bytes + at, 8, msg_in.segs_answer.seg[i].index);
		accept_same(bytes, len, "segs");
	}

	fill_random(list, list->max, &msg_in);
	len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
	for (i = 0; i < list->max; i++) {
		at = HDR + list->fixed + i * list->each;
		put(bytes + at, 8, 0);
		refuse(bytes, len, "export of no length", "list");
		put(bytes + at, 8, msg_in.list_answer.entry[i].length);
		put(bytes + at + 12, 4, 1);
		refuse(bytes, len, "reserved bytes of a list entry are not zero", "list");
		put(bytes + at + 12, 4, 0);
		put(bytes + at + 16, 1, '/');
		refuse(bytes, len, "bad name in a list", "list");
		put(bytes + at + 16, 1, msg_in.list_answer.entry[i].name[0]);
		put(bytes + at + 79, 1, 'x');
		refuse(bytes, len, "bad name in a list", "list");
		put(bytes + at + 79, 1, 0);
		accept_same(bytes, len, "list");
	}
}

/* A later owner may list rights that are not known here: the others stay. */
static void test_list_rights(void **state)
{
	u8 bytes[ROOM];
	const char *why;
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(list_rights); i++) {
		len = golden_bytes(golden_named("list-answer"), bytes);
		put(bytes + 40, 4, list_rights[i].told);
		assert_int_equal(krdma_proto_decode(bytes, len, &msg_out, &why), 0);
		assert_int_equal(msg_out.list_answer.entry[0].rights, list_rights[i].known);
		accept_same(bytes, len, "list");
		msg_out.list_answer.entry[0].rights = list_rights[i].told;
		assert_int_equal(krdma_proto_encode(&msg_out, bytes, sizeof(bytes)), -EINVAL);
	}
}

/* Segments that end at the last index that there is. */
static void test_segs_answer_wrap(void **state)
{
	const struct shape *segs = shape_of(KRDMA_WIRE_SEGS, true);
	u8 bytes[ROOM];
	u32 i, len;

	fill_random(segs, 4, &msg_in);
	for (i = 0; i < 4; i++)
		msg_in.segs_answer.seg[i].index = U64_MAX - 4 + i;
	len = krdma_proto_encode(&msg_in, bytes, sizeof(bytes));
	assert_int_equal(len, HDR + 16 + 4 * 24);
	accept_same(bytes, len, "segs up to the last index");
	for (i = 0; i < 4; i++) {
		msg_in.segs_answer.seg[i].index = U64_MAX - 3 + i;
		put(bytes + HDR + 16 + 24 * i, 8, U64_MAX - 3 + i);
	}
	assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), -EINVAL);
	refuse(bytes, len, "segment indexes wrap around", "segs");
	for (i = 0; i < 4; i++) {
		msg_in.segs_answer.seg[i].index = U64_MAX - 1 + i;
		put(bytes + HDR + 16 + 24 * i, 8, U64_MAX - 1 + i);
	}
	assert_int_equal(krdma_proto_encode(&msg_in, bytes, sizeof(bytes)), -EINVAL);
	refuse(bytes, len, "segment indexes wrap around", "segs");
}

/* A segment of 2^32 bytes and more is only for exports that one key covers. */
static void test_open_answer_long_segment(void **state)
{
	u8 bytes[ROOM];
	u32 shift, len;

	for (shift = 12; shift <= 40; shift++) {
		len = golden_bytes(golden_named("open-answer"), bytes);
		put(bytes + 36, 4, shift);
		put(bytes + 16, 8, U32_MAX);
		accept_same(bytes, len, "export of 2^32 - 1 bytes");
		put(bytes + 16, 8, 1ULL << 32);
		if (shift <= 31)
			accept_same(bytes, len, "export of 2^32 bytes");
		else
			refuse(bytes, len, "segment longer than a key", "export of 2^32 bytes");
	}
}

/* ----------------------------------------------------------------- names */

static bool char_allowed(int c)
{
	return c &&
	       strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=", c);
}

/* The same answer from the function, from both directions of OPEN and of LIST. */
static void name_everywhere(const char *name, bool good, const char *what)
{
	u8 bytes[ROOM], encoded[ROOM];
	u32 len;
	int rc;

	require(krdma_proto_name_ok(name, 64) == good, "%s", what);

	len = golden_bytes(golden_named("open"), bytes);
	memcpy(bytes + 24, name, 64);
	fill(golden_named("open"), &msg_in);
	memcpy(msg_in.open.name, name, 64);
	rc = krdma_proto_encode(&msg_in, encoded, sizeof(encoded));
	require(rc == (good ? (int)len : -EINVAL), "%s: encoding gave %d", what, rc);
	if (good)
		accept_same(bytes, len, what);
	else
		refuse(bytes, len, "bad name", what);

	len = golden_bytes(golden_named("list-answer"), bytes);
	memcpy(bytes + 48, name, 64);
	fill(golden_named("list-answer"), &msg_in);
	memcpy(msg_in.list_answer.entry[0].name, name, 64);
	rc = krdma_proto_encode(&msg_in, encoded, sizeof(encoded));
	require(rc == (good ? (int)len : -EINVAL), "%s: encoding gave %d", what, rc);
	if (good)
		accept_same(bytes, len, what);
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
	assert_false(krdma_proto_name_ok(block, 4));
	assert_false(krdma_proto_name_ok(block, 0));
	block[3] = 0;
	assert_true(krdma_proto_name_ok(block, 4));
	assert_false(krdma_proto_name_ok(block, 3));
	free(block);

	/* A larger array makes no longer name. */
	memset(name, 'n', 63);
	assert_true(krdma_proto_name_ok(name, sizeof(name)));
	name[63] = 'n';
	assert_false(krdma_proto_name_ok(name, sizeof(name)));
	name[63] = 0;
	name[79] = 'n';
	assert_false(krdma_proto_name_ok(name, sizeof(name)));
}

/* ------------------------------------------------ alignment, initialising */

static void test_unaligned(void **state)
{
	u8 expected[ROOM];
	u8 *block = malloc(ROOM + 17); /* itself aligned to 16 */
	const struct golden *g;
	const char *why;
	u32 len, shift, data_at, length;
	int rc;

	assert_non_null(block);
	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, expected);
		for (shift = 0; shift < 16; shift++) {
			fill(g, &msg_in);
			memset(block, 0xee, ROOM + 17);
			rc = krdma_proto_encode(&msg_in, block + shift, len);
			require(rc == (int)len, "%s at %u: %d", g->name, shift, rc);
			require(!memcmp(block + shift, expected, len), "%s at %u", g->name, shift);
			require(block[shift + len] == 0xee, "%s at %u", g->name, shift);
			require(!shift || block[shift - 1] == 0xee, "%s at %u", g->name, shift);
			rc = krdma_proto_decode(block + shift, len, &msg_out, &why);
			require(!rc, "%s at %u: %s", g->name, shift, why);
			if (data_of(&msg_out, &data_at, &length))
				*data_of(&msg_in, &data_at, &length) =
					*data_of(&msg_out, &data_at, &length);
			require(!memcmp(&msg_in, &msg_out, sizeof(msg_in)), "%s at %u", g->name,
				shift);
		}
	}
	free(block);
}

/* What was in the struct before does not show, not even after a refusal. */
static void test_initialised(void **state)
{
	static struct krdma_msg zeroes, ones;
	u8 bytes[ROOM];
	const struct golden *g;
	const char *why;
	u32 len, n;

	for (g = golden; g->fill; g++) {
		len = golden_bytes(g, bytes);
		for (n = 0; n <= len; n++) {
			memset(&zeroes, 0, sizeof(zeroes));
			memset(&ones, 0xff, sizeof(ones));
			krdma_proto_decode(bytes, n, &zeroes, &why);
			krdma_proto_decode(bytes, n, &ones, &why);
			require(!memcmp(&zeroes, &ones, sizeof(zeroes)), "%s, %u bytes", g->name,
				n);
		}
		/* A log line wants to say what it was. */
		bytes[12] = 1;
		refuse(bytes, len, NULL, g->name);
		require(msg_out.type == (bytes[0] & 0x7f) && msg_out.tag == get(bytes + 8, 4),
			"%s: type or tag not told", g->name);
	}
}

static void test_random_bytes(void **state)
{
	u8 bytes[ROOM + 8];
	const char *why;
	u32 round, i, len;

	for (round = 0; round < 20000; round++) {
		len = random32() % sizeof(bytes);
		for (i = 0; i < len; i++)
			bytes[i] = random32();
		/* Mostly with a header that is nearly right, or nothing is reached. */
		if (len >= HDR && round % 4) {
			put(bytes, 8, (1 + random32() % 10) | (random32() & 0x80));
			put(bytes + 4, 4, len);
			put(bytes + 12, 4, 0);
		}
		if (!decode_exact(bytes, len, &msg_out, &why))
			accept_same(bytes, len, "random bytes");
	}
}

/* -------------------------------------------------------- hello and reject */

static int decode_hello_exact(const u8 *bytes, u32 len, struct krdma_hello *hello, const char **why)
{
	u8 *copy = malloc(len ? len : 1);
	int rc;

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	memset(hello, 0xa5, sizeof(*hello));
	*why = "unset";
	rc = krdma_proto_decode_hello(copy, len, hello, why);
	if (rc) {
		static const struct krdma_hello zero;

		require(*why && strcmp(*why, "unset"), "no reason given");
		require(rc == -EPROTONOSUPPORT ? hello->version == bytes[4] : hello->version <= 1,
			"version %u", hello->version);
		hello->version = 0;
		require(!memcmp(hello, &zero, sizeof(zero)), "hello not zero");
	} else {
		require(!*why, "why: %s", *why);
		require(hello->version == 1, "version %u", hello->version);
	}
	free(copy);
	return rc;
}

static void hello_equal(const struct krdma_hello *a, const struct krdma_hello *b)
{
	assert_int_equal(a->channel, b->channel);
	assert_int_equal(a->features, b->features);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->session, b->session);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->window, b->window);
	assert_int_equal(a->heartbeat_ms, b->heartbeat_ms);
}

static void test_hello(void **state)
{
	u8 bytes[ROOM];
	struct krdma_wire_hello wire;
	struct krdma_hello hello;
	const char *why;
	u32 len;

	memset(&wire, 0xee, sizeof(wire));
	krdma_proto_encode_hello(&hello_request, &wire);
	assert_int_equal(golden_bytes(golden_named("hello-request"), bytes), 56);
	assert_memory_equal(&wire, bytes, 56);
	assert_int_equal(decode_hello_exact(bytes, 56, &hello, &why), 0);
	hello_equal(&hello, &hello_request);

	memset(&wire, 0xee, sizeof(wire));
	krdma_proto_encode_hello(&hello_accept, &wire);
	assert_int_equal(golden_bytes(golden_named("hello-accept"), bytes), 56);
	assert_memory_equal(&wire, bytes, 56);
	assert_int_equal(decode_hello_exact(bytes, 56, &hello, &why), 0);
	hello_equal(&hello, &hello_accept);

	/* Of all fields, in a way that no two could be confused. */
	for (len = 0; len < 56; len++)
		bytes[len] = len;
	memcpy(bytes, "KRDM\1\0", 6);
	put(bytes + 36, 2, 256);
	put(bytes + 38, 2, 1024);
	memset(bytes + 44, 0, 12);
	assert_int_equal(decode_hello_exact(bytes, 56, &hello, &why), 0);
	assert_int_equal(hello.channel, 0x0706);
	assert_int_equal(hello.features, 0x0f0e0d0c0b0a0908);
	assert_int_equal(hello.incarnation, 0x1716151413121110);
	assert_int_equal(hello.session, 0x1f1e1d1c1b1a1918);
	assert_int_equal(hello.uid, 0x23222120);
	assert_int_equal(hello.window, 256);
	assert_int_equal(hello.heartbeat_ms, 0x2b2a2928);
	memset(&wire, 0xee, sizeof(wire));
	krdma_proto_encode_hello(&hello, &wire);
	assert_memory_equal(&wire, bytes, 56);
	golden_bytes(golden_named("hello-accept"), bytes);

	/* Shorter is none; behind it is padding, whatever it says. */
	for (len = 0; len <= 256; len++) {
		if (len >= 56)
			memset(bytes + 56, 0xff, len - 56);
		assert_int_equal(decode_hello_exact(bytes, len, &hello, &why),
				 len < 56 ? -EPROTO : 0);
		if (len >= 56)
			hello_equal(&hello, &hello_accept);
		else
			assert_string_equal(why, "hello too short");
	}
}

static void test_hello_fields(void **state)
{
	struct krdma_wire_hello wire;
	u8 bytes[ROOM];
	struct krdma_hello hello;
	const char *why;
	u32 i;
	int rc;

	for (i = 0; i < ARRAY_SIZE(hello_fields); i++) {
		golden_bytes(golden_named("hello-request"), bytes);
		put(bytes + hello_fields[i].at, hello_fields[i].width, hello_fields[i].value);
		rc = decode_hello_exact(bytes, 56, &hello, &why);
		require(rc == hello_fields[i].rc, "%u at %u: %d", (u32)hello_fields[i].value,
			hello_fields[i].at, rc);
		if (rc) {
			assert_string_equal(why, hello_fields[i].why);
			continue;
		}
		krdma_proto_encode_hello(&hello, &wire);
		put(bytes + 38, 2, 1024); /* what this side says is its own */
		assert_memory_equal(&wire, bytes, 56);
	}
	/* Of another version, nothing more is known: no complaint about its fields. */
	golden_bytes(golden_named("hello-request"), bytes);
	memset(bytes + 4, 0xff, 52);
	assert_int_equal(decode_hello_exact(bytes, 56, &hello, &why), -EPROTONOSUPPORT);
}

static void test_hello_bit_flips(void **state)
{
	u8 bytes[ROOM];
	struct krdma_hello hello;
	const char *why;
	int rc, expected;
	u32 bit, at;

	golden_bytes(golden_named("hello-request"), bytes);
	for (bit = 0; bit < 56 * 8; bit++) {
		at = bit / 8;
		bytes[at] ^= 1 << bit % 8;
		expected = 0;
		if (at < 4 || at == 5 || at >= 46)
			expected = -EPROTO;
		else if (at == 4)
			expected = -EPROTONOSUPPORT;
		else if (at == 36 || at == 37)
			expected = get(bytes + 36, 2) < 2 || get(bytes + 36, 2) > 256 ? -EPROTO : 0;
		else if (at == 38 || at == 39)
			expected = get(bytes + 38, 2) < 1024 ? -EPROTO : 0;
		else if (at == 44 || at == 45)
			expected = get(bytes + 44, 2) > 64 ? -EPROTO : 0;
		rc = decode_hello_exact(bytes, 56, &hello, &why);
		require(rc == expected, "bit %u: %d", bit, rc);
		bytes[at] ^= 1 << bit % 8;
	}
}

static int decode_reject_exact(const u8 *bytes, u32 len, u8 *version, u8 *reason)
{
	u8 *copy = malloc(len ? len : 1);
	int rc;

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	*version = 0xa5;
	*reason = 0xa5;
	rc = krdma_proto_decode_reject(copy, len, version, reason);
	if (rc)
		require(!*version && !*reason, "version or reason of a refused reject");
	free(copy);
	return rc;
}

static void test_reject(void **state)
{
	u8 bytes[ROOM], version, reason;
	struct krdma_wire_reject wire;
	u32 len, bit, value;
	int rc, expected;

	memset(&wire, 0xee, sizeof(wire));
	krdma_proto_encode_reject(KRDMA_WIRE_REASON_NOT_ADMITTED, &wire);
	assert_int_equal(golden_bytes(golden_named("reject"), bytes), 8);
	assert_memory_equal(&wire, bytes, 8);
	memset(bytes + 8, 0xff, 248);
	for (len = 0; len <= 256; len++) {
		rc = decode_reject_exact(bytes, len, &version, &reason);
		assert_int_equal(rc, len < 8 ? -EPROTO : 0);
		if (!rc) {
			assert_int_equal(version, 1);
			assert_int_equal(reason, KRDMA_WIRE_REASON_NOT_ADMITTED);
		}
	}
	for (value = 0; value < 256; value++) {
		bytes[5] = value;
		rc = decode_reject_exact(bytes, 8, &version, &reason);
		assert_int_equal(rc, value > KRDMA_WIRE_REASON_LAST ? -EPROTO : 0);
		if (!rc)
			assert_int_equal(reason, value);
		/* A later version has reasons of its own; version 0 never was. */
		bytes[4] = 2;
		assert_int_equal(decode_reject_exact(bytes, 8, &version, &reason), 0);
		assert_int_equal(version, 2);
		assert_int_equal(reason, value);
		bytes[4] = 0;
		assert_int_equal(decode_reject_exact(bytes, 8, &version, &reason), -EPROTO);
		bytes[4] = 1;
	}
	golden_bytes(golden_named("reject"), bytes);
	for (bit = 0; bit < 64; bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		expected = -EPROTO;
		if (bit / 8 == 4)
			expected = bytes[4] ? 0 : -EPROTO;
		else if (bit / 8 == 5)
			expected = bytes[5] <= KRDMA_WIRE_REASON_LAST ? 0 : -EPROTO;
		rc = decode_reject_exact(bytes, 8, &version, &reason);
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
		{ 0, 0 },       { 1, -ENOENT }, { 2, -EACCES },     { 3, -ESTALE }, { 4, -EDQUOT },
		{ 5, -ERANGE }, { 6, -ENOMEM }, { 7, -EOPNOTSUPP }, { 8, -EIO },
	};
	u32 i;

	assert_int_equal(ARRAY_SIZE(pairs), KRDMA_WIRE_STATUS_LAST + 1);
	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		assert_int_equal(krdma_proto_errno(pairs[i].status), pairs[i].err);
		assert_int_equal(krdma_proto_status(pairs[i].err), pairs[i].status);
	}
	for (i = KRDMA_WIRE_STATUS_LAST + 1; i <= 0xffff; i++)
		assert_int_equal(krdma_proto_errno(i), -EPROTO);
	assert_int_equal(krdma_proto_status(-EINVAL), KRDMA_WIRE_IO);
	assert_int_equal(krdma_proto_status(-EFAULT), KRDMA_WIRE_IO);
	assert_int_equal(krdma_proto_status(ENOENT), KRDMA_WIRE_IO);
	assert_int_equal(krdma_proto_status(1), KRDMA_WIRE_IO);
	assert_int_equal(krdma_proto_status(-4095), KRDMA_WIRE_IO);
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
	static const char *const types[] = { "unknown", "PING",   "LIST",   "OPEN",
					     "SEGS",    "CLOSE",  "RECALL", "REVOKE",
					     "BYE",     "DIGEST", "MESSAGE" };
	u32 i, k;

	for (i = 0; i < 256; i++) {
		u32 type = i & 0x7f;

		assert_string_equal(krdma_proto_type_name(i),
				    types[type < ARRAY_SIZE(types) ? type : 0]);
	}
	for (i = 0; i <= KRDMA_WIRE_STATUS_LAST; i++) {
		phrase_ok(krdma_proto_status_text(i));
		for (k = 0; k < i; k++)
			assert_string_not_equal(krdma_proto_status_text(i),
						krdma_proto_status_text(k));
	}
	for (; i <= 0xffff; i++)
		assert_string_equal(krdma_proto_status_text(i), "unknown status");
	for (i = 0; i <= KRDMA_WIRE_REASON_LAST; i++) {
		phrase_ok(krdma_proto_reason_text(i));
		for (k = 0; k < i; k++)
			assert_string_not_equal(krdma_proto_reason_text(i),
						krdma_proto_reason_text(k));
	}
	for (; i < 256; i++)
		assert_string_equal(krdma_proto_reason_text(i), "unknown reason");
	assert_string_equal(krdma_proto_status_text(KRDMA_WIRE_STALE), "grant is over");
	assert_string_equal(krdma_proto_reason_text(KRDMA_WIRE_REASON_PROTOCOL),
			    "protocol violation");
}

/* The limits are the protocol's: a change is another version. */
static void test_limits(void **state)
{
	assert_int_equal(KRDMA_WIRE_MAGIC, 0x4d44524b);
	assert_int_equal(KRDMA_WIRE_VERSION, 1);
	assert_int_equal(KRDMA_WIRE_MSG_MAX, 1024);
	assert_int_equal(KRDMA_WIRE_DATA_MAX, 4096);
	assert_int_equal(KRDMA_WIRE_LETTER_MAX, 4136);
	assert_int_equal(KRDMA_WIRE_PLACES_MAX, 64);
	assert_int_equal(KRDMA_WIRE_NAME_MAX, 64);
	assert_int_equal(KRDMA_WIRE_WINDOW_MIN, 2);
	assert_int_equal(KRDMA_WIRE_WINDOW_MAX, 256);
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
	u8 bytes[ROOM];
	char path[4096];
	FILE *file;
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(golden); i++) {
		len = golden_bytes(&golden[i], bytes);
		snprintf(path, sizeof(path), "%s/%s", dir, golden[i].name);
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
	char dump[8192];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(golden); i++) {
		golden_dump(&golden[i], dump, sizeof(dump));
		printf("%s::\n\n%s\n", golden[i].name, dump);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_golden_in_documentation),
		cmocka_unit_test(test_golden_in_corpus),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_ping_without_data),
		cmocka_unit_test(test_failed_answers),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_entries_over_the_limit),
		cmocka_unit_test(test_header_bit_flips),
		cmocka_unit_test(test_payload_bit_flips),
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_no_answer_to_bye),
		cmocka_unit_test(test_bye_ahead),
		cmocka_unit_test(test_reserved_bytes),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_count_mismatch),
		cmocka_unit_test(test_last_entry),
		cmocka_unit_test(test_list_rights),
		cmocka_unit_test(test_segs_answer_wrap),
		cmocka_unit_test(test_open_answer_long_segment),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_name_room),
		cmocka_unit_test(test_unaligned),
		cmocka_unit_test(test_initialised),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_hello_fields),
		cmocka_unit_test(test_hello_bit_flips),
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
	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
