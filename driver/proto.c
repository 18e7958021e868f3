// SPDX-License-Identifier: GPL-2.0
/*
 * The messages of the wire protocol, between their bytes and host byte order.
 * wire.h has the layouts, Documentation/wire.rst the rules.
 *
 * Two tables, one of questions and one of answers, say for each type how long
 * it may be and who packs, unpacks and checks it. A rule stands in one place:
 *
 * - what only the bytes can break (lengths, reserved bytes, a count that does
 *   not fit the length) is refused while unpacking;
 * - all else is refused by krdma_proto_check_head() and _check_body(), which
 *   see the message in host byte order. Encoding asks them before it packs,
 *   decoding after it has unpacked, so that this side never says what it would
 *   refuse to hear.
 *
 * The bytes come from a peer and may lie at any address: they are copied into
 * a struct before they are looked at, and no number in them is used before it
 * has been compared with the bytes that really came.
 */
#include "range.h"
#include "wire.h"

#define KRDMA_PROTO_HELLO_SIZE  ((u32)sizeof(struct krdma_wire_hello))
#define KRDMA_PROTO_REJECT_SIZE ((u32)sizeof(struct krdma_wire_reject))

/**
 * struct krdma_proto_kind - one type of question or answer
 * @fixed: bytes of the payload before its entries
 * @each: bytes of one entry, 0 if there are none
 * @min: fewest entries
 * @max: most entries
 * @pack: write the payload of a checked message; NULL if there is no such type
 * @unpack: read a payload with as many entries as its length says; returns
 *	what is wrong with the bytes, or NULL
 * @check: what is wrong with the message, or NULL; may be NULL
 */
struct krdma_proto_kind {
	u16 fixed;
	u16 each;
	u16 min;
	u16 max;
	void (*pack)(const struct krdma_msg *msg, u8 *at);
	const char *(*unpack)(const u8 *at, u32 entries, struct krdma_msg *msg);
	const char *(*check)(const struct krdma_msg *msg);
};

static const char *krdma_proto_check_grant_ids(u32 grant, u32 generation)
{
	if (!grant)
		return "grant 0";
	if (!generation)
		return "generation 0";
	return NULL;
}

static const char *krdma_proto_check_export(u64 length, u32 rights)
{
	if (!length)
		return "export of no length";
	if (rights & ~KRDMA_WIRE_RIGHTS)
		return "unknown rights";
	return NULL;
}

/* PING and its answer: the payload is the one array of entries of one byte. */

static void krdma_proto_pack_ping(const struct krdma_msg *msg, u8 *at)
{
	if (msg->ping.length)
		memcpy(at, msg->ping.data, msg->ping.length);
}

static const char *krdma_proto_unpack_ping(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	msg->ping.length = entries;
	msg->ping.data = at;
	return NULL;
}

static const char *krdma_proto_check_ping(const struct krdma_msg *msg)
{
	return msg->ping.length && !msg->ping.data ? "ping without its data" : NULL;
}

/* LIST */

static void krdma_proto_pack_list(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_list wire = {
		.cursor = cpu_to_le64(msg->list.cursor),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_list(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_list wire;

	memcpy(&wire, at, sizeof(wire));
	msg->list.cursor = le64_to_cpu(wire.cursor);
	return NULL;
}

static void krdma_proto_pack_list_answer(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_list_answer wire = {
		.cursor = cpu_to_le64(msg->list_answer.cursor),
		.count = cpu_to_le32(msg->list_answer.count),
	};
	u32 i;

	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	for (i = 0; i < msg->list_answer.count; i++) {
		const struct krdma_msg_entry *entry = &msg->list_answer.entry[i];
		struct krdma_wire_list_entry out = {
			.length = cpu_to_le64(entry->length),
			.rights = cpu_to_le32(entry->rights),
		};

		memcpy(out.name, entry->name, sizeof(out.name));
		memcpy(at, &out, sizeof(out));
		at += sizeof(out);
	}
}

static const char *krdma_proto_unpack_list_answer(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_list_answer wire;
	u32 i;

	memcpy(&wire, at, sizeof(wire));
	at += sizeof(wire);
	if (wire.reserved)
		return "reserved bytes of a list are not zero";
	if (le32_to_cpu(wire.count) != entries)
		return "count does not match the length";
	msg->list_answer.cursor = le64_to_cpu(wire.cursor);
	msg->list_answer.count = entries;
	for (i = 0; i < entries; i++) {
		struct krdma_msg_entry *entry = &msg->list_answer.entry[i];
		struct krdma_wire_list_entry in;

		memcpy(&in, at, sizeof(in));
		at += sizeof(in);
		if (in.reserved)
			return "reserved bytes of a list entry are not zero";
		entry->length = le64_to_cpu(in.length);
		/* A later owner may have others, which nobody here can ask for. */
		entry->rights = le32_to_cpu(in.rights) & KRDMA_WIRE_RIGHTS;
		memcpy(entry->name, in.name, sizeof(entry->name));
	}
	return NULL;
}

static const char *krdma_proto_check_list_answer(const struct krdma_msg *msg)
{
	const struct krdma_msg_entry *entry = msg->list_answer.entry;
	const char *cause;
	u32 i;

	for (i = 0; i < msg->list_answer.count; i++, entry++) {
		cause = krdma_proto_check_export(entry->length, entry->rights);
		if (cause)
			return cause;
		if (!krdma_proto_name_ok(entry->name, sizeof(entry->name)))
			return "bad name in a list";
	}
	return NULL;
}

/* OPEN */

static void krdma_proto_pack_open(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_open wire = {
		.rights = cpu_to_le32(msg->open.rights),
	};

	memcpy(wire.name, msg->open.name, sizeof(wire.name));
	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_open(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_open wire;

	memcpy(&wire, at, sizeof(wire));
	if (wire.reserved)
		return "reserved bytes of an open are not zero";
	msg->open.rights = le32_to_cpu(wire.rights);
	memcpy(msg->open.name, wire.name, sizeof(msg->open.name));
	return NULL;
}

static const char *krdma_proto_check_open(const struct krdma_msg *msg)
{
	if (msg->open.rights & ~KRDMA_WIRE_RIGHTS)
		return "unknown rights";
	if (!krdma_proto_name_ok(msg->open.name, sizeof(msg->open.name)))
		return "bad name";
	return NULL;
}

static void krdma_proto_pack_open_answer(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_open_answer wire = {
		.length = cpu_to_le64(msg->open_answer.length),
		.rights = cpu_to_le32(msg->open_answer.rights),
		.grant = cpu_to_le32(msg->open_answer.grant),
		.generation = cpu_to_le32(msg->open_answer.generation),
		.segment_shift = cpu_to_le32(msg->open_answer.segment_shift),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_open_answer(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_open_answer wire;

	memcpy(&wire, at, sizeof(wire));
	msg->open_answer.length = le64_to_cpu(wire.length);
	msg->open_answer.rights = le32_to_cpu(wire.rights);
	msg->open_answer.grant = le32_to_cpu(wire.grant);
	msg->open_answer.generation = le32_to_cpu(wire.generation);
	msg->open_answer.segment_shift = le32_to_cpu(wire.segment_shift);
	return NULL;
}

static const char *krdma_proto_check_open_answer(const struct krdma_msg *msg)
{
	u32 shift = msg->open_answer.segment_shift;
	u32 rights = msg->open_answer.rights;
	u64 length = msg->open_answer.length;
	const char *cause;

	cause = krdma_proto_check_export(length, rights & ~KRDMA_WIRE_ATOMIC_CPU);
	if (cause)
		return cause;
	if ((rights & KRDMA_WIRE_ATOMIC_CPU) && !(rights & KRDMA_WIRE_ATOMIC))
		return "what atomics are atomic against, without them";
	if (shift < KRDMA_WIRE_SHIFT_MIN || shift > KRDMA_WIRE_SHIFT_MAX)
		return "segment shift outside its limits";
	/* A key's length has 32 bits, and must cover all of its segment. */
	if (shift >= 32 && length > U32_MAX)
		return "segment longer than a key";
	return krdma_proto_check_grant_ids(msg->open_answer.grant, msg->open_answer.generation);
}

/* SEGS */

static void krdma_proto_pack_segs(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_segs wire = {
		.grant = cpu_to_le32(msg->segs.grant),
		.generation = cpu_to_le32(msg->segs.generation),
		.first = cpu_to_le64(msg->segs.first),
		.count = cpu_to_le32(msg->segs.count),
		.extra = cpu_to_le32(msg->segs.extra),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_segs(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_segs wire;

	memcpy(&wire, at, sizeof(wire));
	msg->segs.grant = le32_to_cpu(wire.grant);
	msg->segs.generation = le32_to_cpu(wire.generation);
	msg->segs.first = le64_to_cpu(wire.first);
	msg->segs.count = le32_to_cpu(wire.count);
	msg->segs.extra = le32_to_cpu(wire.extra);
	return NULL;
}

static const char *krdma_proto_check_segs(const struct krdma_msg *msg)
{
	u32 count = msg->segs.count;
	u32 extra = msg->segs.extra;

	if (count < 1 || count > KRDMA_WIRE_SEGS_MAX)
		return "count outside its limits";
	if (extra > KRDMA_WIRE_SEGS_MAX - count)
		return "too many extra segments";
	if (!krdma_range_ok(msg->segs.first, count + extra, U64_MAX))
		return "segment indexes wrap around";
	return krdma_proto_check_grant_ids(msg->segs.grant, msg->segs.generation);
}

static void krdma_proto_pack_segs_answer(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_segs_answer wire = {
		.grant = cpu_to_le32(msg->segs_answer.grant),
		.generation = cpu_to_le32(msg->segs_answer.generation),
		.count = cpu_to_le32(msg->segs_answer.count),
	};
	u32 i;

	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	for (i = 0; i < msg->segs_answer.count; i++) {
		const struct krdma_msg_seg *seg = &msg->segs_answer.seg[i];
		struct krdma_wire_seg out = {
			.index = cpu_to_le64(seg->index),
			.address = cpu_to_le64(seg->address),
			.length = cpu_to_le32(seg->length),
			.rkey = cpu_to_le32(seg->rkey),
		};

		memcpy(at, &out, sizeof(out));
		at += sizeof(out);
	}
}

static const char *krdma_proto_unpack_segs_answer(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_segs_answer wire;
	u32 i;

	memcpy(&wire, at, sizeof(wire));
	at += sizeof(wire);
	if (wire.reserved)
		return "reserved bytes of segments are not zero";
	if (le32_to_cpu(wire.count) != entries)
		return "count does not match the length";
	msg->segs_answer.grant = le32_to_cpu(wire.grant);
	msg->segs_answer.generation = le32_to_cpu(wire.generation);
	msg->segs_answer.count = entries;
	for (i = 0; i < entries; i++) {
		struct krdma_msg_seg *seg = &msg->segs_answer.seg[i];
		struct krdma_wire_seg in;

		memcpy(&in, at, sizeof(in));
		at += sizeof(in);
		seg->index = le64_to_cpu(in.index);
		seg->address = le64_to_cpu(in.address);
		seg->length = le32_to_cpu(in.length);
		seg->rkey = le32_to_cpu(in.rkey);
	}
	return NULL;
}

static const char *krdma_proto_check_segs_answer(const struct krdma_msg *msg)
{
	const struct krdma_msg_seg *seg = msg->segs_answer.seg;
	u32 count = msg->segs_answer.count;
	u64 first = seg->index;
	u32 i;

	if (!krdma_range_ok(first, count, U64_MAX))
		return "segment indexes wrap around";
	for (i = 0; i < count; i++, seg++) {
		if (seg->index != first + i)
			return "segments not consecutive";
		if (!seg->length)
			return "segment of no length";
		if (!krdma_range_ok(seg->address, seg->length, U64_MAX))
			return "segment address wraps around";
	}
	return krdma_proto_check_grant_ids(msg->segs_answer.grant, msg->segs_answer.generation);
}

/* RECALL */

static void krdma_proto_pack_recall(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_recall wire = {
		.grant = cpu_to_le32(msg->recall.grant),
		.generation = cpu_to_le32(msg->recall.generation),
		.count = cpu_to_le32(msg->recall.count),
	};
	u32 i;

	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	for (i = 0; i < msg->recall.count; i++) {
		__le64 out = cpu_to_le64(msg->recall.index[i]);

		memcpy(at, &out, sizeof(out));
		at += sizeof(out);
	}
}

static const char *krdma_proto_unpack_recall(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_recall wire;
	u32 i;

	memcpy(&wire, at, sizeof(wire));
	at += sizeof(wire);
	if (wire.reserved)
		return "reserved bytes of a recall are not zero";
	if (le32_to_cpu(wire.count) != entries)
		return "count does not match the length";
	msg->recall.grant = le32_to_cpu(wire.grant);
	msg->recall.generation = le32_to_cpu(wire.generation);
	msg->recall.count = entries;
	for (i = 0; i < entries; i++) {
		__le64 in;

		memcpy(&in, at, sizeof(in));
		at += sizeof(in);
		msg->recall.index[i] = le64_to_cpu(in);
	}
	return NULL;
}

static const char *krdma_proto_check_recall(const struct krdma_msg *msg)
{
	return krdma_proto_check_grant_ids(msg->recall.grant, msg->recall.generation);
}

/* CLOSE, REVOKE, and the answers to CLOSE, REVOKE and RECALL */

static void krdma_proto_pack_grant(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_grant wire = {
		.grant = cpu_to_le32(msg->grant.grant),
		.generation = cpu_to_le32(msg->grant.generation),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_grant(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_grant wire;

	memcpy(&wire, at, sizeof(wire));
	msg->grant.grant = le32_to_cpu(wire.grant);
	msg->grant.generation = le32_to_cpu(wire.generation);
	return NULL;
}

static const char *krdma_proto_check_grant(const struct krdma_msg *msg)
{
	return krdma_proto_check_grant_ids(msg->grant.grant, msg->grant.generation);
}

/* DIGEST */

static void krdma_proto_pack_digest(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_digest wire = {
		.grant = cpu_to_le32(msg->digest.grant),
		.generation = cpu_to_le32(msg->digest.generation),
		.offset = cpu_to_le64(msg->digest.offset),
		.length = cpu_to_le32(msg->digest.length),
		.value = cpu_to_le32(msg->digest.value),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_digest(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_digest wire;

	memcpy(&wire, at, sizeof(wire));
	msg->digest.grant = le32_to_cpu(wire.grant);
	msg->digest.generation = le32_to_cpu(wire.generation);
	msg->digest.offset = le64_to_cpu(wire.offset);
	msg->digest.length = le32_to_cpu(wire.length);
	msg->digest.value = le32_to_cpu(wire.value);
	return NULL;
}

static const char *krdma_proto_check_digest(const struct krdma_msg *msg)
{
	if (!msg->digest.length || msg->digest.length > KRDMA_WIRE_DIGEST_MAX)
		return "length of a digest outside its limits";
	if (!krdma_range_ok(msg->digest.offset, msg->digest.length, U64_MAX))
		return "range of a digest wraps around";
	return krdma_proto_check_grant_ids(msg->digest.grant, msg->digest.generation);
}

static void krdma_proto_pack_digest_answer(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_digest_answer wire = {
		.grant = cpu_to_le32(msg->digest_answer.grant),
		.generation = cpu_to_le32(msg->digest_answer.generation),
		.value = cpu_to_le32(msg->digest_answer.value),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_digest_answer(const u8 *at, u32 entries,
						    struct krdma_msg *msg)
{
	struct krdma_wire_digest_answer wire;

	memcpy(&wire, at, sizeof(wire));
	if (wire.reserved)
		return "reserved bytes of a digest are not zero";
	msg->digest_answer.grant = le32_to_cpu(wire.grant);
	msg->digest_answer.generation = le32_to_cpu(wire.generation);
	msg->digest_answer.value = le32_to_cpu(wire.value);
	return NULL;
}

static const char *krdma_proto_check_digest_answer(const struct krdma_msg *msg)
{
	return krdma_proto_check_grant_ids(msg->digest_answer.grant, msg->digest_answer.generation);
}

/* MESSAGE: the data is the one array of entries of one byte. */

static void krdma_proto_pack_message(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_message wire = {
		.grant = cpu_to_le32(msg->message.grant),
		.generation = cpu_to_le32(msg->message.generation),
		.value = cpu_to_le64(msg->message.value),
		.flags = cpu_to_le32(msg->message.flags),
	};

	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	if (msg->message.length && msg->message.data != at)
		memcpy(at, msg->message.data, msg->message.length);
}

static const char *krdma_proto_unpack_message(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_message wire;

	memcpy(&wire, at, sizeof(wire));
	if (wire.reserved)
		return "reserved bytes of a message are not zero";
	msg->message.grant = le32_to_cpu(wire.grant);
	msg->message.generation = le32_to_cpu(wire.generation);
	msg->message.value = le64_to_cpu(wire.value);
	msg->message.flags = le32_to_cpu(wire.flags);
	msg->message.length = entries;
	msg->message.data = at + sizeof(wire);
	return NULL;
}

static const char *krdma_proto_check_message(const struct krdma_msg *msg)
{
	if (msg->message.flags & ~KRDMA_WIRE_WRITTEN)
		return "unknown flags of a message";
	if (msg->message.length && !msg->message.data)
		return "message without its data";
	return krdma_proto_check_grant_ids(msg->message.grant, msg->message.generation);
}

static void krdma_proto_pack_message_answer(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_message_answer wire = {
		.count = cpu_to_le32(msg->message_answer.count),
	};
	u32 i;

	memcpy(at, &wire, sizeof(wire));
	at += sizeof(wire);
	for (i = 0; i < msg->message_answer.count; i++) {
		struct krdma_wire_taken out = {
			.tag = cpu_to_le32(msg->message_answer.taken[i].tag),
			.status = cpu_to_le16(msg->message_answer.taken[i].status),
		};

		memcpy(at, &out, sizeof(out));
		at += sizeof(out);
	}
}

static const char *krdma_proto_unpack_message_answer(const u8 *at, u32 entries,
						     struct krdma_msg *msg)
{
	struct krdma_wire_message_answer wire;
	u32 i;

	memcpy(&wire, at, sizeof(wire));
	at += sizeof(wire);
	if (wire.reserved)
		return "reserved bytes of the answer to messages are not zero";
	if (le32_to_cpu(wire.count) != entries)
		return "count does not match the length";
	msg->message_answer.count = entries;
	for (i = 0; i < entries; i++) {
		struct krdma_wire_taken in;

		memcpy(&in, at, sizeof(in));
		at += sizeof(in);
		if (in.reserved)
			return "reserved bytes of the answer to a message are not zero";
		msg->message_answer.taken[i].tag = le32_to_cpu(in.tag);
		msg->message_answer.taken[i].status = le16_to_cpu(in.status);
	}
	return NULL;
}

static const char *krdma_proto_check_message_answer(const struct krdma_msg *msg)
{
	u32 i;

	if (msg->tag != msg->message_answer.taken[0].tag)
		return "answer to messages with another tag";
	for (i = 0; i < msg->message_answer.count; i++) {
		if (!msg->message_answer.taken[i].tag)
			return "tag 0";
		if (msg->message_answer.taken[i].status > KRDMA_WIRE_STATUS_LAST)
			return "unknown status";
	}
	return NULL;
}

/* BYE */

static void krdma_proto_pack_bye(const struct krdma_msg *msg, u8 *at)
{
	struct krdma_wire_bye wire = {
		.reason = cpu_to_le32(msg->bye.reason),
	};

	memcpy(at, &wire, sizeof(wire));
}

static const char *krdma_proto_unpack_bye(const u8 *at, u32 entries, struct krdma_msg *msg)
{
	struct krdma_wire_bye wire;

	memcpy(&wire, at, sizeof(wire));
	if (wire.reserved)
		return "reserved bytes of a bye are not zero";
	msg->bye.reason = le32_to_cpu(wire.reason);
	return NULL;
}

static const char *krdma_proto_check_bye(const struct krdma_msg *msg)
{
	return msg->bye.reason > KRDMA_WIRE_REASON_LAST ? "unknown reason" : NULL;
}

/* The two tables */

#define KRDMA_PROTO_GRANT_KIND                                                            \
	{                                                                                 \
		.fixed = sizeof(struct krdma_wire_grant), .pack = krdma_proto_pack_grant, \
		.unpack = krdma_proto_unpack_grant, .check = krdma_proto_check_grant,     \
	}

#define KRDMA_PROTO_PING_KIND                                                         \
	{                                                                             \
		.each = 1, .max = KRDMA_WIRE_PING_MAX, .pack = krdma_proto_pack_ping, \
		.unpack = krdma_proto_unpack_ping, .check = krdma_proto_check_ping,   \
	}

static const struct krdma_proto_kind krdma_proto_questions[] = {
	[KRDMA_WIRE_PING] = KRDMA_PROTO_PING_KIND,
	[KRDMA_WIRE_LIST] = {
		.fixed = sizeof(struct krdma_wire_list),
		.pack = krdma_proto_pack_list,
		.unpack = krdma_proto_unpack_list,
	},
	[KRDMA_WIRE_OPEN] = {
		.fixed = sizeof(struct krdma_wire_open),
		.pack = krdma_proto_pack_open,
		.unpack = krdma_proto_unpack_open,
		.check = krdma_proto_check_open,
	},
	[KRDMA_WIRE_SEGS] = {
		.fixed = sizeof(struct krdma_wire_segs),
		.pack = krdma_proto_pack_segs,
		.unpack = krdma_proto_unpack_segs,
		.check = krdma_proto_check_segs,
	},
	[KRDMA_WIRE_CLOSE] = KRDMA_PROTO_GRANT_KIND,
	[KRDMA_WIRE_RECALL] = {
		.fixed = sizeof(struct krdma_wire_recall),
		.each = sizeof(__le64),
		.min = 1,
		.max = KRDMA_WIRE_RECALL_MAX,
		.pack = krdma_proto_pack_recall,
		.unpack = krdma_proto_unpack_recall,
		.check = krdma_proto_check_recall,
	},
	[KRDMA_WIRE_REVOKE] = KRDMA_PROTO_GRANT_KIND,
	[KRDMA_WIRE_BYE] = {
		.fixed = sizeof(struct krdma_wire_bye),
		.pack = krdma_proto_pack_bye,
		.unpack = krdma_proto_unpack_bye,
		.check = krdma_proto_check_bye,
	},
	[KRDMA_WIRE_DIGEST] = {
		.fixed = sizeof(struct krdma_wire_digest),
		.pack = krdma_proto_pack_digest,
		.unpack = krdma_proto_unpack_digest,
		.check = krdma_proto_check_digest,
	},
	[KRDMA_WIRE_MESSAGE] = {
		.fixed = sizeof(struct krdma_wire_message),
		.each = 1,
		.max = KRDMA_WIRE_DATA_MAX,
		.pack = krdma_proto_pack_message,
		.unpack = krdma_proto_unpack_message,
		.check = krdma_proto_check_message,
	},
};

static const struct krdma_proto_kind krdma_proto_answers[] = {
	[KRDMA_WIRE_PING] = KRDMA_PROTO_PING_KIND,
	[KRDMA_WIRE_LIST] = {
		.fixed = sizeof(struct krdma_wire_list_answer),
		.each = sizeof(struct krdma_wire_list_entry),
		.max = KRDMA_WIRE_LIST_MAX,
		.pack = krdma_proto_pack_list_answer,
		.unpack = krdma_proto_unpack_list_answer,
		.check = krdma_proto_check_list_answer,
	},
	[KRDMA_WIRE_OPEN] = {
		.fixed = sizeof(struct krdma_wire_open_answer),
		.pack = krdma_proto_pack_open_answer,
		.unpack = krdma_proto_unpack_open_answer,
		.check = krdma_proto_check_open_answer,
	},
	[KRDMA_WIRE_SEGS] = {
		.fixed = sizeof(struct krdma_wire_segs_answer),
		.each = sizeof(struct krdma_wire_seg),
		.min = 1,
		.max = KRDMA_WIRE_SEGS_MAX,
		.pack = krdma_proto_pack_segs_answer,
		.unpack = krdma_proto_unpack_segs_answer,
		.check = krdma_proto_check_segs_answer,
	},
	[KRDMA_WIRE_CLOSE] = KRDMA_PROTO_GRANT_KIND,
	[KRDMA_WIRE_RECALL] = KRDMA_PROTO_GRANT_KIND,
	[KRDMA_WIRE_REVOKE] = KRDMA_PROTO_GRANT_KIND,
	[KRDMA_WIRE_DIGEST] = {
		.fixed = sizeof(struct krdma_wire_digest_answer),
		.pack = krdma_proto_pack_digest_answer,
		.unpack = krdma_proto_unpack_digest_answer,
		.check = krdma_proto_check_digest_answer,
	},
	[KRDMA_WIRE_MESSAGE] = {
		.fixed = sizeof(struct krdma_wire_message_answer),
		.each = sizeof(struct krdma_wire_taken),
		.min = 1,
		.max = KRDMA_WIRE_PLACES_MAX,
		.pack = krdma_proto_pack_message_answer,
		.unpack = krdma_proto_unpack_message_answer,
		.check = krdma_proto_check_message_answer,
	},
};

/* The longest of them fit what both sides have posted. */
#define KRDMA_PROTO_FITS(fixed, each, max)                                        \
	static_assert(sizeof(struct krdma_wire_hdr) + (fixed) + (each) * (max) <= \
		      KRDMA_WIRE_MSG_MAX)
KRDMA_PROTO_FITS(0, 1, KRDMA_WIRE_PING_MAX);
KRDMA_PROTO_FITS(sizeof(struct krdma_wire_list_answer), sizeof(struct krdma_wire_list_entry),
		 KRDMA_WIRE_LIST_MAX);
KRDMA_PROTO_FITS(sizeof(struct krdma_wire_segs_answer), sizeof(struct krdma_wire_seg),
		 KRDMA_WIRE_SEGS_MAX);
KRDMA_PROTO_FITS(sizeof(struct krdma_wire_recall), sizeof(__le64), KRDMA_WIRE_RECALL_MAX);
KRDMA_PROTO_FITS(sizeof(struct krdma_wire_message_answer), sizeof(struct krdma_wire_taken),
		 KRDMA_WIRE_PLACES_MAX);
static_assert(sizeof(struct krdma_wire_hdr) + sizeof(struct krdma_wire_message) +
		      KRDMA_WIRE_DATA_MAX ==
	      KRDMA_WIRE_LETTER_MAX);

static const struct krdma_proto_kind *krdma_proto_kind_of(const struct krdma_msg *msg)
{
	const struct krdma_proto_kind *kinds = krdma_proto_questions;
	u32 count = ARRAY_SIZE(krdma_proto_questions);

	if (msg->answer) {
		kinds = krdma_proto_answers;
		count = ARRAY_SIZE(krdma_proto_answers);
	}
	if (msg->type >= count)
		return NULL;
	kinds += array_index_nospec(msg->type, count);
	return kinds->pack ? kinds : NULL;
}

/* An answer that tells of a failure is a header alone. */
static bool krdma_proto_has_payload(const struct krdma_msg *msg)
{
	return !msg->status;
}

static u32 krdma_proto_entries(const struct krdma_msg *msg)
{
	switch (msg->type) {
	case KRDMA_WIRE_PING:
		return msg->ping.length;
	case KRDMA_WIRE_LIST:
		return msg->answer ? msg->list_answer.count : 0;
	case KRDMA_WIRE_SEGS:
		return msg->answer ? msg->segs_answer.count : 0;
	case KRDMA_WIRE_RECALL:
		return msg->answer ? 0 : msg->recall.count;
	case KRDMA_WIRE_MESSAGE:
		return msg->answer ? msg->message_answer.count : msg->message.length;
	default:
		return 0;
	}
}

static bool krdma_proto_entries_ok(const struct krdma_proto_kind *kind, u32 entries)
{
	return entries >= kind->min && entries <= kind->max;
}

static const char *krdma_proto_check_head(const struct krdma_msg *msg)
{
	if (!krdma_proto_kind_of(msg))
		return msg->answer ? "unknown type of answer" : "unknown type of question";
	if (msg->status && !msg->answer)
		return "status in a question";
	if (msg->status > KRDMA_WIRE_STATUS_LAST)
		return "unknown status";
	/* Each of them has its own. */
	if (msg->status && msg->type == KRDMA_WIRE_MESSAGE)
		return "status in the answer to messages";
	if (msg->type == KRDMA_WIRE_BYE && msg->tag)
		return "bye with a tag";
	if (msg->type != KRDMA_WIRE_BYE && !msg->tag)
		return "tag 0";
	return NULL;
}

static const char *krdma_proto_check_body(const struct krdma_msg *msg)
{
	const struct krdma_proto_kind *kind = krdma_proto_kind_of(msg);

	if (!krdma_proto_has_payload(msg))
		return NULL;
	if (!krdma_proto_entries_ok(kind, krdma_proto_entries(msg)))
		return "count outside its limits";
	return kind->check ? kind->check(msg) : NULL;
}

/* The length and the count that it gives are right before the kind reads a byte. */
static const char *krdma_proto_unpack_body(const u8 *at, u32 len, struct krdma_msg *msg)
{
	const struct krdma_proto_kind *kind = krdma_proto_kind_of(msg);
	u32 entries = 0;

	if (!krdma_proto_has_payload(msg))
		return len ? "payload on a failed answer" : NULL;
	if (len < kind->fixed)
		return "shorter than its type";
	if (kind->each)
		entries = (len - kind->fixed) / kind->each;
	if (len != kind->fixed + entries * kind->each)
		return "length is not one of its type";
	if (!krdma_proto_entries_ok(kind, entries))
		return "count outside its limits";
	return kind->unpack(at, entries, msg);
}

/**
 * krdma_proto_encode - encode a message
 * @msg: the message. Names are arrays: the bytes behind the NUL must be zero.
 *	What belongs to the payload is not looked at in an answer whose status
 *	is not KRDMA_WIRE_OK.
 * @buf: where to, at any alignment
 * @room: bytes at @buf
 *
 * Context: any.
 * Return: how many bytes the message has, -EINVAL if krdma_proto_decode() would
 * refuse it, -EMSGSIZE if it needs more than @room. Nothing is written then.
 */
int krdma_proto_encode(const struct krdma_msg *msg, void *buf, u32 room)
{
	const struct krdma_proto_kind *kind;
	struct krdma_wire_hdr hdr = {};
	u32 len = sizeof(hdr);

	if (krdma_proto_check_head(msg) || krdma_proto_check_body(msg))
		return -EINVAL;

	kind = krdma_proto_kind_of(msg);
	if (krdma_proto_has_payload(msg))
		len += kind->fixed + kind->each * krdma_proto_entries(msg);
	if (len > room)
		return -EMSGSIZE;

	hdr.type = msg->type | (msg->answer ? KRDMA_WIRE_ANSWER : 0);
	hdr.status = cpu_to_le16(msg->status);
	hdr.length = cpu_to_le32(len);
	hdr.tag = cpu_to_le32(msg->tag);
	memcpy(buf, &hdr, sizeof(hdr));
	if (krdma_proto_has_payload(msg))
		kind->pack(msg, (u8 *)buf + sizeof(hdr));
	return len;
}

/**
 * krdma_proto_decode - decode a message and check all that it says by itself
 * @buf: the bytes, at any alignment
 * @len: how many came
 * @msg: out: the message. After a refusal it says no more than which type and
 *	tag it seemed to have, for a log line.
 * @cause: out: what is wrong, a fixed string; NULL if nothing is
 *
 * The data of a PING or MESSAGE stays where it is: the pointer to it is into @buf.
 *
 * Context: any.
 * Return: 0, or -EPROTO if the message breaks the protocol.
 */
int krdma_proto_decode(const void *buf, u32 len, struct krdma_msg *msg, const char **cause)
{
	struct krdma_wire_hdr hdr;

	memset(msg, 0, sizeof(*msg));
	*cause = "shorter than a header";
	if (len < sizeof(hdr))
		return -EPROTO;
	memcpy(&hdr, buf, sizeof(hdr));
	msg->type = hdr.type & ~KRDMA_WIRE_ANSWER;
	msg->answer = hdr.type & KRDMA_WIRE_ANSWER;
	msg->status = le16_to_cpu(hdr.status);
	msg->tag = le32_to_cpu(hdr.tag);

	*cause = "reserved bytes of the header are not zero";
	if (hdr.reserved0 || hdr.reserved1)
		return -EPROTO;
	*cause = "length is not what came";
	if (le32_to_cpu(hdr.length) != len)
		return -EPROTO;

	*cause = krdma_proto_check_head(msg);
	if (!*cause)
		*cause = krdma_proto_unpack_body((const u8 *)buf + sizeof(hdr), len - sizeof(hdr),
						 msg);
	if (!*cause)
		*cause = krdma_proto_check_body(msg);
	return *cause ? -EPROTO : 0;
}

/**
 * krdma_proto_encode_hello - fill the private data of a connect or an accept
 * @hello: what to say; its window must be within the limits
 * @wire: out: the private data
 *
 * Context: any.
 */
void krdma_proto_encode_hello(const struct krdma_hello *hello, struct krdma_wire_hello *wire)
{
	*wire = (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.channel = cpu_to_le16(hello->channel),
		.features = cpu_to_le64(hello->features),
		.incarnation = cpu_to_le64(hello->incarnation),
		.session = cpu_to_le64(hello->session),
		.uid = cpu_to_le32(hello->uid),
		.window = cpu_to_le16(hello->window),
		.msg_max = cpu_to_le16(KRDMA_WIRE_MSG_MAX),
		.heartbeat_ms = cpu_to_le32(hello->heartbeat_ms),
		.places = cpu_to_le16(hello->places),
	};
}

/**
 * krdma_proto_decode_hello - read the private data of a connect or an accept
 * @buf: the private data, at any alignment
 * @len: its bytes; those behind the hello are the transport's padding
 * @hello: out: what it says; all zero after a refusal, but for the version
 * @cause: out: what is wrong, a fixed string; NULL if nothing is
 *
 * Context: any.
 * Return: 0, -EPROTONOSUPPORT if the peer speaks another version of this
 * protocol, -EPROTO if it is no hello of this protocol or breaks its rules.
 */
int krdma_proto_decode_hello(const void *buf, u32 len, struct krdma_hello *hello,
			     const char **cause)
{
	struct krdma_wire_hello wire;
	u32 i;

	memset(hello, 0, sizeof(*hello));
	*cause = "hello too short";
	if (len < KRDMA_PROTO_HELLO_SIZE)
		return -EPROTO;
	memcpy(&wire, buf, sizeof(wire));
	*cause = "not this protocol";
	if (le32_to_cpu(wire.magic) != KRDMA_WIRE_MAGIC)
		return -EPROTO;
	hello->version = wire.version;
	*cause = "another version of the protocol";
	if (wire.version != KRDMA_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	*cause = "reserved bytes of the hello are not zero";
	if (wire.reserved0)
		return -EPROTO;
	for (i = 0; i < sizeof(wire.reserved1); i++)
		if (wire.reserved1[i])
			return -EPROTO;
	*cause = "window outside its limits";
	if (le16_to_cpu(wire.window) < KRDMA_WIRE_WINDOW_MIN ||
	    le16_to_cpu(wire.window) > KRDMA_WIRE_WINDOW_MAX)
		return -EPROTO;
	*cause = "receives too small";
	if (le16_to_cpu(wire.msg_max) < KRDMA_WIRE_MSG_MAX)
		return -EPROTO;
	*cause = "places for messages outside their limits";
	if (le16_to_cpu(wire.places) > KRDMA_WIRE_PLACES_MAX)
		return -EPROTO;

	*cause = NULL;
	hello->channel = le16_to_cpu(wire.channel);
	hello->features = le64_to_cpu(wire.features);
	hello->incarnation = le64_to_cpu(wire.incarnation);
	hello->session = le64_to_cpu(wire.session);
	hello->uid = le32_to_cpu(wire.uid);
	hello->window = le16_to_cpu(wire.window);
	hello->places = le16_to_cpu(wire.places);
	hello->heartbeat_ms = le32_to_cpu(wire.heartbeat_ms);
	return 0;
}

/**
 * krdma_proto_versions - what to say of a peer of another version
 * @version: the highest that it knows
 * @text: out: a phrase
 * @room: bytes at @text
 *
 * Context: any.
 */
void krdma_proto_versions(u8 version, char *text, u32 room)
{
	snprintf(text, room, "it speaks version %u of the protocol, this host version %u", version,
		 KRDMA_WIRE_VERSION);
}

/**
 * krdma_proto_encode_reject - fill the private data of a reject
 * @reason: enum krdma_wire_reason
 * @wire: out: the private data
 *
 * Context: any.
 */
void krdma_proto_encode_reject(u8 reason, struct krdma_wire_reject *wire)
{
	*wire = (struct krdma_wire_reject){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.reason = reason,
	};
}

/**
 * krdma_proto_decode_reject - read the private data of a reject
 * @buf: the private data, at any alignment
 * @len: its bytes; those behind the reject are the transport's padding
 * @version: out: the highest version that the peer knows; 0 after a refusal
 * @reason: out: enum krdma_wire_reason, or a number behind the last one if the
 *	peer's version is a higher one; 0 after a refusal
 *
 * Context: any.
 * Return: 0, or -EPROTO if it is no reject of this protocol: the transport
 * rejects too, with private data of its own or without.
 */
int krdma_proto_decode_reject(const void *buf, u32 len, u8 *version, u8 *reason)
{
	struct krdma_wire_reject wire;

	*version = 0;
	*reason = 0;
	if (len < KRDMA_PROTO_REJECT_SIZE)
		return -EPROTO;
	memcpy(&wire, buf, sizeof(wire));
	if (le32_to_cpu(wire.magic) != KRDMA_WIRE_MAGIC || !wire.version || wire.reserved)
		return -EPROTO;
	/* A later version may have reasons that this one does not know. */
	if (wire.version <= KRDMA_WIRE_VERSION && wire.reason > KRDMA_WIRE_REASON_LAST)
		return -EPROTO;
	*version = wire.version;
	*reason = wire.reason;
	return 0;
}

static bool krdma_proto_name_char(char c)
{
	switch (c) {
	case 'A' ... 'Z':
	case 'a' ... 'z':
	case '0' ... '9':
	case '.':
	case '_':
	case '-':
	case ':':
	case '+':
	case '=':
		return true;
	default:
		return false;
	}
}

/**
 * krdma_proto_bye - the reason of a BYE, before it is its turn to be decoded
 * @buf: message of a peer
 * @len: its bytes
 *
 * Context: any.
 * Return: enum krdma_wire_reason, -1 if it is no BYE, or not a right one
 */
int krdma_proto_bye(const void *buf, u32 len)
{
	struct krdma_wire_bye bye;
	struct krdma_wire_hdr hdr;

	if (len != sizeof(hdr) + sizeof(bye))
		return -1;
	memcpy(&hdr, buf, sizeof(hdr));
	memcpy(&bye, (const u8 *)buf + sizeof(hdr), sizeof(bye));
	if (hdr.type != KRDMA_WIRE_BYE || le32_to_cpu(bye.reason) > KRDMA_WIRE_REASON_LAST)
		return -1;
	return le32_to_cpu(bye.reason);
}

/**
 * krdma_proto_name_ok - is this the name of an export?
 * @name: an array that holds the name
 * @room: size of the array
 *
 * A name has 1 to 63 of the characters A-Z a-z 0-9 . _ - : + = and ends with a
 * NUL within the array; all that follows in the array is zero.
 *
 * Context: any.
 * Return: true if it is.
 */
bool krdma_proto_name_ok(const char *name, u32 room)
{
	u32 i, end = 0;

	while (end < room && krdma_proto_name_char(name[end]))
		end++;
	if (!end || end == room || end >= KRDMA_WIRE_NAME_MAX)
		return false;
	for (i = end; i < room; i++)
		if (name[i])
			return false;
	return true;
}

static const struct {
	int err;
	const char *text;
} krdma_proto_statuses[] = {
	[KRDMA_WIRE_OK] = { 0, "no error" },
	[KRDMA_WIRE_NOENT] = { -ENOENT, "no such export or grant" },
	[KRDMA_WIRE_ACCES] = { -EACCES, "right not granted" },
	[KRDMA_WIRE_STALE] = { -ESTALE, "grant is over" },
	[KRDMA_WIRE_LIMIT] = { -EDQUOT, "limit of the owner reached" },
	[KRDMA_WIRE_RANGE] = { -ERANGE, "outside the export" },
	[KRDMA_WIRE_NOMEM] = { -ENOMEM, "owner is out of memory" },
	[KRDMA_WIRE_UNSUPPORTED] = { -EOPNOTSUPP, "not answered by the peer" },
	[KRDMA_WIRE_IO] = { -EIO, "owner can't reach its memory" },
};

static_assert(ARRAY_SIZE(krdma_proto_statuses) == KRDMA_WIRE_STATUS_LAST + 1);

/**
 * krdma_proto_errno - the errno of a status that the peer answered
 * @status: enum krdma_wire_status
 *
 * Context: any.
 * Return: 0 for KRDMA_WIRE_OK, else a negative errno; -EPROTO for a status that
 * does not exist.
 */
int krdma_proto_errno(u16 status)
{
	if (status > KRDMA_WIRE_STATUS_LAST)
		return -EPROTO;
	return krdma_proto_statuses[array_index_nospec(status, ARRAY_SIZE(krdma_proto_statuses))]
		.err;
}

/**
 * krdma_proto_status - the status to answer for an errno of the owner's side
 * @err: 0 or a negative errno
 *
 * Context: any.
 * Return: enum krdma_wire_status; KRDMA_WIRE_IO for what has no status of its
 * own.
 */
u16 krdma_proto_status(int err)
{
	u16 i;

	for (i = 0; i < ARRAY_SIZE(krdma_proto_statuses); i++)
		if (krdma_proto_statuses[i].err == err)
			return i;
	return KRDMA_WIRE_IO;
}

/**
 * krdma_proto_type_name - the name of a message type, for log lines
 * @type: enum krdma_wire_type, with or without KRDMA_WIRE_ANSWER
 *
 * Context: any.
 * Return: a fixed string, "unknown" for a type that does not exist.
 */
const char *krdma_proto_type_name(u8 type)
{
	static const char *const names[] = {
		[KRDMA_WIRE_PING] = "PING",     [KRDMA_WIRE_LIST] = "LIST",
		[KRDMA_WIRE_OPEN] = "OPEN",     [KRDMA_WIRE_SEGS] = "SEGS",
		[KRDMA_WIRE_CLOSE] = "CLOSE",   [KRDMA_WIRE_RECALL] = "RECALL",
		[KRDMA_WIRE_REVOKE] = "REVOKE", [KRDMA_WIRE_BYE] = "BYE",
		[KRDMA_WIRE_DIGEST] = "DIGEST", [KRDMA_WIRE_MESSAGE] = "MESSAGE",
	};

	type &= ~KRDMA_WIRE_ANSWER;
	if (!type || type >= ARRAY_SIZE(names))
		return "unknown";
	return names[array_index_nospec(type, ARRAY_SIZE(names))];
}

/**
 * krdma_proto_status_text - a status in words
 * @status: enum krdma_wire_status
 *
 * Context: any.
 * Return: a fixed string, such as "right not granted".
 */
const char *krdma_proto_status_text(u16 status)
{
	if (status > KRDMA_WIRE_STATUS_LAST)
		return "unknown status";
	return krdma_proto_statuses[array_index_nospec(status, ARRAY_SIZE(krdma_proto_statuses))]
		.text;
}

/**
 * krdma_proto_reason_text - why a connection was refused or ended, in words
 * @reason: enum krdma_wire_reason
 *
 * Context: any.
 * Return: a fixed string, such as "host not admitted".
 */
const char *krdma_proto_reason_text(u8 reason)
{
	static const char *const texts[] = {
		[KRDMA_WIRE_REASON_NONE] = "not needed any more",
		[KRDMA_WIRE_REASON_MALFORMED] = "malformed connect request",
		[KRDMA_WIRE_REASON_VERSION] = "no common protocol version",
		[KRDMA_WIRE_REASON_NOT_ADMITTED] = "host not admitted",
		[KRDMA_WIRE_REASON_LIMIT] = "limit or memory of the peer exhausted",
		[KRDMA_WIRE_REASON_SHUTDOWN] = "shut down",
		[KRDMA_WIRE_REASON_PROTOCOL] = "protocol violation",
		[KRDMA_WIRE_REASON_TIMEOUT] = "no answer in time",
		[KRDMA_WIRE_REASON_TRANSPORT] = "connection lost",
	};

	static_assert(ARRAY_SIZE(texts) == KRDMA_WIRE_REASON_LAST + 1);
	if (reason >= ARRAY_SIZE(texts))
		return "unknown reason";
	return texts[array_index_nospec(reason, ARRAY_SIZE(texts))];
}
