// SPDX-License-Identifier: GPL-2.0
/*
 * Checking messages where they were received, and beginning messages where they are
 * sent from. wire.h has the layouts, Documentation/wire.rst the rules.
 *
 * One table has the size of each type of request and reply. krdma_wire_check() compares
 * the length that was received with it before it reads a byte behind the header, so a
 * check of a type finds all that it reads. What depends on the session (tags, grants,
 * segments of an export) is checked by those who know it.
 */
#include "range.h"
#include "wire/wire.h"

/* ---- the rules of each type ---- */

static const char *krdma_wire_check_grant(__le32 grant, __le32 generation)
{
	if (!grant)
		return "grant 0";
	return generation ? NULL : "generation 0";
}

static const char *krdma_wire_check_list_reply(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_list_entry *entry = msg->list_reply.entry;

	for (; n--; entry++) {
		if (entry->reserved)
			return "reserved bytes of a list entry are not zero";
		if (!entry->length)
			return "export of no length";
		if (!krdma_wire_name_ok(entry->name, sizeof(entry->name)))
			return "bad name in a list";
	}
	return NULL;
}

static const char *krdma_wire_check_addresses_reply(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_address *address = msg->addresses_reply.address;

	for (; n--; address++) {
		if (address->reserved)
			return "reserved bytes of an address are not zero";
		if (!address->port)
			return "port 0";
	}
	return NULL;
}

static const char *krdma_wire_check_open(const union krdma_wire_msg *msg, u32 n)
{
	u32 flags = le32_to_cpu(msg->open.flags);

	if (flags & ~KRDMA_WIRE_OPEN_FLAGS)
		return "unknown flags of an open";
	if ((flags & KRDMA_WIRE_OPEN_TAKEOVER) && !(flags & KRDMA_WIRE_OPEN_EXCLUSIVE))
		return "takeover without exclusive";
	if (le32_to_cpu(msg->open.rights) & ~KRDMA_WIRE_RIGHTS)
		return "unknown rights";
	return krdma_wire_name_ok(msg->open.name, sizeof(msg->open.name)) ? NULL : "bad name";
}

static const char *krdma_wire_check_open_reply(const union krdma_wire_msg *msg, u32 n)
{
	u32 shift = le32_to_cpu(msg->open_reply.segment_shift);
	u32 rights = le32_to_cpu(msg->open_reply.rights);
	u64 length = le64_to_cpu(msg->open_reply.length);

	if (!length)
		return "export of no length";
	if (rights & ~(KRDMA_WIRE_RIGHTS | KRDMA_WIRE_ATOMIC_CPU | KRDMA_WIRE_DURABLE))
		return "unknown rights";
	if ((rights & KRDMA_WIRE_ATOMIC_CPU) && !(rights & KRDMA_WIRE_ATOMIC))
		return "right ATOMIC_CPU without ATOMIC";
	if ((rights & KRDMA_WIRE_DURABLE) && !(rights & (KRDMA_WIRE_WRITE | KRDMA_WIRE_ATOMIC)))
		return "right DURABLE without WRITE and ATOMIC";
	if (shift < KRDMA_WIRE_SHIFT_MIN || shift > KRDMA_WIRE_SHIFT_MAX)
		return "segment shift outside its limits";
	/* A key's length has 32 bits, and must cover all of its segment. */
	if (shift >= 32 && length > U32_MAX)
		return "segment longer than a key";
	return krdma_wire_check_grant(msg->open_reply.grant, msg->open_reply.generation);
}

static const char *krdma_wire_check_segs(const union krdma_wire_msg *msg, u32 n)
{
	u32 count = le32_to_cpu(msg->segs.count);
	u32 extra = le16_to_cpu(msg->segs.extra);

	if (count > KRDMA_WIRE_SEGS_MAX)
		return "count outside its limits";
	if (extra > KRDMA_WIRE_SEGS_MAX - count)
		return "too many extra segments";
	if (!count && !extra)
		return "no segments";
	if (!krdma_range_ok(le64_to_cpu(msg->segs.first), count + extra, U64_MAX))
		return "segment indexes wrap around";
	if (le16_to_cpu(msg->segs.path) >= KRDMA_WIRE_PATHS_MAX)
		return "path outside its limits";
	return krdma_wire_check_grant(msg->segs.grant, msg->segs.generation);
}

static const char *krdma_wire_check_segs_reply(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_seg *seg = msg->segs_reply.seg;

	for (; n--; seg++) {
		if (!seg->length)
			return "segment of no length";
		if (!krdma_range_ok(le64_to_cpu(seg->address), le32_to_cpu(seg->length), U64_MAX))
			return "segment address wraps around";
	}
	return NULL;
}

static const char *krdma_wire_check_close(const union krdma_wire_msg *msg, u32 n)
{
	return krdma_wire_check_grant(msg->close.grant, msg->close.generation);
}

static const char *krdma_wire_check_usage(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_usage_entry *entry = msg->usage.entry;
	const char *cause = NULL;

	for (; n-- && !cause; entry++)
		cause = krdma_wire_check_grant(entry->grant, entry->generation);
	return cause;
}

static const char *krdma_wire_check_recall(const union krdma_wire_msg *msg, u32 n)
{
	return krdma_wire_check_grant(msg->recall.grant, msg->recall.generation);
}

static const char *krdma_wire_check_bye(const union krdma_wire_msg *msg, u32 n)
{
	return le32_to_cpu(msg->bye.reason) > KRDMA_WIRE_REASON_LAST ? "unknown reason" : NULL;
}

static const char *krdma_wire_check_digest(const union krdma_wire_msg *msg, u32 n)
{
	u32 length = le32_to_cpu(msg->digest.length);

	if (!length || length > KRDMA_WIRE_DIGEST_MAX)
		return "length of a digest outside its limits";
	if (!krdma_range_ok(le64_to_cpu(msg->digest.offset), length, U64_MAX))
		return "range of a digest wraps around";
	return krdma_wire_check_grant(msg->digest.grant, msg->digest.generation);
}

static const char *krdma_wire_check_digest_reply(const union krdma_wire_msg *msg, u32 n)
{
	return msg->digest_reply.reserved ? "reserved bytes of a digest are not zero" : NULL;
}

static const char *krdma_wire_check_flush(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_range *range = msg->flush.range;
	u64 length, left = KRDMA_WIRE_FLUSH_BYTES;

	for (; n--; range++) {
		length = le64_to_cpu(range->length);
		if (!length || length > left)
			return "length of a flush outside its limits";
		if (!krdma_range_ok(le64_to_cpu(range->offset), length, U64_MAX))
			return "range of a flush wraps around";
		left -= length;
	}
	return krdma_wire_check_grant(msg->flush.grant, msg->flush.generation);
}

static const char *krdma_wire_check_grow_reply(const union krdma_wire_msg *msg, u32 n)
{
	return msg->grow_reply.length ? NULL : "export of no length";
}

static const char *krdma_wire_check_message(const union krdma_wire_msg *msg, u32 n)
{
	if (msg->message.reserved)
		return "reserved bytes of a message are not zero";
	if (le32_to_cpu(msg->message.flags) & ~KRDMA_WIRE_WRITTEN)
		return "unknown flags of a message";
	return krdma_wire_check_grant(msg->message.grant, msg->message.generation);
}

static const char *krdma_wire_check_fence(const union krdma_wire_msg *msg, u32 n)
{
	u32 channel = le32_to_cpu(msg->fence.channel);

	if (!channel || channel >= KRDMA_WIRE_CHANNELS_MAX)
		return "channel outside its limits";
	return msg->fence.qp_num ? NULL : "queue pair 0";
}

static const char *krdma_wire_check_message_reply(const union krdma_wire_msg *msg, u32 n)
{
	const struct krdma_wire_taken *taken = msg->message_reply.taken;

	if (msg->hdr.tag != taken->tag)
		return "reply to messages with another tag";
	for (; n--; taken++) {
		if (taken->reserved)
			return "reserved bytes of the reply to a message are not zero";
		if (!taken->tag)
			return "tag 0";
		if (le16_to_cpu(taken->status) > KRDMA_WIRE_STATUS_LAST)
			return "unknown status";
	}
	return NULL;
}

/* ---- the table ---- */

/**
 * struct krdma_wire_kind - one type of request, or of reply
 * @fixed: bytes of the message before its entries; 0 if there is no such type
 * @each: bytes of one entry, 0 if there are none
 * @min: fewest entries
 * @max: most entries
 * @check: what is wrong with a message of the right length with @n entries, or NULL;
 *	may be NULL
 */
struct krdma_wire_kind {
	u16 fixed;
	u16 each;
	u16 min;
	u16 max;
	const char *(*check)(const union krdma_wire_msg *msg, u32 n);
};

/* By type; requests, then replies. */
static const struct krdma_wire_kind krdma_wire_kinds[2][KRDMA_WIRE_GROW + 1] = {
	{
		[KRDMA_WIRE_PING] = { sizeof(struct krdma_wire_ping), 1, 0, KRDMA_WIRE_PING_MAX },
		[KRDMA_WIRE_LIST] = { sizeof(struct krdma_wire_list) },
		[KRDMA_WIRE_OPEN] = { sizeof(struct krdma_wire_open),
				      .check = krdma_wire_check_open },
		[KRDMA_WIRE_SEGS] = { sizeof(struct krdma_wire_segs),
				      .check = krdma_wire_check_segs },
		[KRDMA_WIRE_CLOSE] = { sizeof(struct krdma_wire_close),
				       sizeof(struct krdma_wire_used), 0, 1,
				       krdma_wire_check_close },
		[KRDMA_WIRE_RECALL] = { sizeof(struct krdma_wire_recall), sizeof(__le64), 0,
					KRDMA_WIRE_RECALL_MAX, krdma_wire_check_recall },
		[KRDMA_WIRE_BYE] = { sizeof(struct krdma_wire_bye), .check = krdma_wire_check_bye },
		[KRDMA_WIRE_DIGEST] = { sizeof(struct krdma_wire_digest),
					.check = krdma_wire_check_digest },
		[KRDMA_WIRE_MESSAGE] = { sizeof(struct krdma_wire_message), 1, 0,
					 KRDMA_WIRE_DATA_MAX, krdma_wire_check_message },
		[KRDMA_WIRE_FENCE] = { sizeof(struct krdma_wire_fence),
				       .check = krdma_wire_check_fence },
		[KRDMA_WIRE_ACK] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_ADDRESSES] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_USAGE] = { sizeof(struct krdma_wire_usage),
				       sizeof(struct krdma_wire_usage_entry), 1,
				       KRDMA_WIRE_USAGE_MAX, krdma_wire_check_usage },
		[KRDMA_WIRE_FLUSH] = { sizeof(struct krdma_wire_flush),
				       sizeof(struct krdma_wire_range), 1, KRDMA_WIRE_FLUSH_MAX,
				       krdma_wire_check_flush },
		[KRDMA_WIRE_GROW] = { sizeof(struct krdma_wire_close),
				      .check = krdma_wire_check_close },
	},
	{
		[KRDMA_WIRE_PING] = { sizeof(struct krdma_wire_ping), 1, 0, KRDMA_WIRE_PING_MAX },
		[KRDMA_WIRE_LIST] = { sizeof(struct krdma_wire_list_reply),
				      sizeof(struct krdma_wire_list_entry), 0, KRDMA_WIRE_LIST_MAX,
				      krdma_wire_check_list_reply },
		[KRDMA_WIRE_OPEN] = { sizeof(struct krdma_wire_open_reply),
				      .check = krdma_wire_check_open_reply },
		[KRDMA_WIRE_SEGS] = { sizeof(struct krdma_wire_segs_reply),
				      sizeof(struct krdma_wire_seg), 0, KRDMA_WIRE_SEGS_MAX,
				      krdma_wire_check_segs_reply },
		[KRDMA_WIRE_CLOSE] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_RECALL] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_DIGEST] = { sizeof(struct krdma_wire_digest_reply),
					.check = krdma_wire_check_digest_reply },
		[KRDMA_WIRE_MESSAGE] = { sizeof(struct krdma_wire_message_reply),
					 sizeof(struct krdma_wire_taken), 1,
					 KRDMA_WIRE_MESSAGE_CREDITS_MAX,
					 krdma_wire_check_message_reply },
		[KRDMA_WIRE_FENCE] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_ADDRESSES] = { sizeof(struct krdma_wire_addresses_reply),
					   sizeof(struct krdma_wire_address), 0,
					   KRDMA_WIRE_ADDRESS_MAX,
					   krdma_wire_check_addresses_reply },
		[KRDMA_WIRE_USAGE] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_FLUSH] = { sizeof(struct krdma_wire_hdr) },
		[KRDMA_WIRE_GROW] = { sizeof(struct krdma_wire_grow_reply),
				      .check = krdma_wire_check_grow_reply },
	},
};

/* The longest of those with entries fit the receives of both sides. */
static_assert(sizeof(struct krdma_wire_list_reply) +
		      KRDMA_WIRE_LIST_MAX * sizeof(struct krdma_wire_list_entry) <=
	      KRDMA_WIRE_MSG_MAX);
static_assert(sizeof(struct krdma_wire_segs_reply) +
		      KRDMA_WIRE_SEGS_MAX * sizeof(struct krdma_wire_seg) <=
	      KRDMA_WIRE_MSG_MAX);
static_assert(sizeof(struct krdma_wire_recall) + KRDMA_WIRE_RECALL_MAX * sizeof(__le64) <=
	      KRDMA_WIRE_MSG_MAX);
static_assert(sizeof(struct krdma_wire_usage) +
		      KRDMA_WIRE_USAGE_MAX * sizeof(struct krdma_wire_usage_entry) <=
	      KRDMA_WIRE_MSG_MAX);
static_assert(sizeof(struct krdma_wire_flush) +
		      KRDMA_WIRE_FLUSH_MAX * sizeof(struct krdma_wire_range) <=
	      KRDMA_WIRE_MSG_MAX);
static_assert(sizeof(struct krdma_wire_message_reply) +
		      KRDMA_WIRE_MESSAGE_CREDITS_MAX * sizeof(struct krdma_wire_taken) <=
	      KRDMA_WIRE_MSG_MAX);

/* NULL if there is no such type. */
static const struct krdma_wire_kind *krdma_wire_kind_of(const struct krdma_wire_hdr *hdr)
{
	const struct krdma_wire_kind *kind = krdma_wire_kinds[!!(hdr->type & KRDMA_WIRE_REPLY)];
	u8 type = hdr->type & ~KRDMA_WIRE_REPLY;

	if (type >= ARRAY_SIZE(krdma_wire_kinds[0]))
		return NULL;
	kind += array_index_nospec(type, ARRAY_SIZE(krdma_wire_kinds[0]));
	return kind->fixed ? kind : NULL;
}

/**
 * krdma_wire_entries - how many entries a message has behind its fixed part
 * @msg: message that krdma_wire_check() has accepted, its status OK
 *
 * Context: any.
 * Return: their number; of a PING or a MESSAGE the number of its bytes
 */
u32 krdma_wire_entries(const union krdma_wire_msg *msg)
{
	const struct krdma_wire_kind *kind = krdma_wire_kind_of(&msg->hdr);

	return (le32_to_cpu(msg->hdr.length) - kind->fixed) / (kind->each ?: 1);
}

static const char *krdma_wire_check_header(const struct krdma_wire_hdr *hdr, u32 len)
{
	u16 status = le16_to_cpu(hdr->status);

	if (hdr->reserved0 || hdr->reserved1)
		return "reserved bytes of the header are not zero";
	if (le32_to_cpu(hdr->length) != len)
		return "length is not what came";
	if (!krdma_wire_kind_of(hdr))
		return hdr->type & KRDMA_WIRE_REPLY ? "unknown type of reply" :
						      "unknown type of request";
	if (status && !(hdr->type & KRDMA_WIRE_REPLY))
		return "status in a request";
	if (status > KRDMA_WIRE_STATUS_LAST)
		return "unknown status";
	/* Each of them has its own. */
	if (status && hdr->type == (KRDMA_WIRE_REPLY | KRDMA_WIRE_MESSAGE))
		return "status in the reply to messages";
	if (status && hdr->type == (KRDMA_WIRE_REPLY | KRDMA_WIRE_FENCE))
		return "status in the reply to a fence";
	/* There is no reply that could repeat it. */
	if (hdr->type == KRDMA_WIRE_BYE || hdr->type == KRDMA_WIRE_ACK)
		return hdr->tag ? "a tag without a reply" : NULL;
	return hdr->tag ? NULL : "tag 0";
}

static const char *krdma_wire_check_body(const union krdma_wire_msg *msg, u32 len)
{
	const struct krdma_wire_kind *kind = krdma_wire_kind_of(&msg->hdr);
	u32 n = 0;

	if (msg->hdr.status)
		return len == sizeof(msg->hdr) ? NULL : "payload on a failed reply";
	if (len < kind->fixed)
		return "shorter than its type";
	if (kind->each)
		n = (len - kind->fixed) / kind->each;
	if (len != kind->fixed + n * kind->each)
		return "length is not one of its type";
	if (n < kind->min || n > kind->max)
		return "count outside its limits";
	return kind->check ? kind->check(msg, n) : NULL;
}

/**
 * krdma_wire_check - check a message where it was received
 * @buf: the bytes, at a multiple of 8, which nobody changes any more
 * @len: how many were received
 * @cause: out: what is wrong, a fixed string; NULL if nothing is
 *
 * Context: any.
 * Return: the message, which is @buf, or NULL if it breaks the protocol
 */
const union krdma_wire_msg *krdma_wire_check(const void *buf, u32 len, const char **cause)
{
	const union krdma_wire_msg *msg = buf;

	*cause = "shorter than a header";
	if (len < sizeof(msg->hdr))
		return NULL;
	*cause = krdma_wire_check_header(&msg->hdr, len) ?: krdma_wire_check_body(msg, len);
	return *cause ? NULL : msg;
}

/**
 * krdma_wire_bye_reason - the reason of a BYE
 * @buf: any message of a peer, as for krdma_wire_check()
 * @len: its bytes
 *
 * Context: any.
 * Return: enum krdma_wire_reason; or -1 if it is no BYE, or not a right one, or a notice
 */
int krdma_wire_bye_reason(const void *buf, u32 len)
{
	const union krdma_wire_msg *msg;
	const char *cause;

	if (!len || *(const u8 *)buf != KRDMA_WIRE_BYE)
		return -1;
	msg = krdma_wire_check(buf, len, &cause);
	return msg && !msg->bye.notice ? (int)le32_to_cpu(msg->bye.reason) : -1;
}

/* ---- what is sent ---- */

/**
 * krdma_wire_build - begin a message where it is sent from
 * @buf: where to, at a multiple of 8
 * @type: enum krdma_wire_type, of a reply with KRDMA_WIRE_REPLY
 * @fixed: its bytes that are zeroed, header included
 * @more: bytes behind those, which the caller fills
 *
 * The tag is still 0.
 *
 * Context: any.
 * Return: the message, which is @buf
 */
void *krdma_wire_build(void *buf, u8 type, u32 fixed, u32 more)
{
	struct krdma_wire_hdr *hdr = buf;

	memset(buf, 0, fixed);
	hdr->type = type;
	hdr->length = cpu_to_le32(fixed + more);
	return buf;
}

/**
 * krdma_wire_end - give a message its length
 * @msg: message of krdma_wire_build()
 * @end: what is behind its last byte
 *
 * Context: any.
 */
void krdma_wire_end(union krdma_wire_msg *msg, const void *end)
{
	msg->hdr.length = cpu_to_le32((const u8 *)end - (const u8 *)msg);
}

/* ---- connect, accept, reject ---- */

/**
 * krdma_wire_check_hello - check the private data of a connect request or an accept
 * @buf: the private data, at any alignment
 * @len: its bytes; those behind the hello are the transport's padding
 * @hello: out: a copy of it; after a refusal only the version is set, if there is one
 * @cause: out: what is wrong, a fixed string; NULL if nothing is
 *
 * Context: any.
 * Return: 0, -EPROTONOSUPPORT if the peer speaks another version of this
 * protocol, -EPROTO if it is no hello of this protocol or breaks its rules.
 */
int krdma_wire_check_hello(const void *buf, u32 len, struct krdma_wire_hello *hello,
			   const char **cause)
{
	struct krdma_wire_hello in;

	memset(hello, 0, sizeof(*hello));
	*cause = "hello too short";
	if (len < sizeof(in))
		return -EPROTO;
	memcpy(&in, buf, sizeof(in));
	*cause = "not this protocol";
	if (le32_to_cpu(in.magic) != KRDMA_WIRE_MAGIC)
		return -EPROTO;
	hello->version = in.version;
	*cause = "another version of the protocol";
	if (in.version != KRDMA_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	*cause = "credits outside their limits";
	if (le16_to_cpu(in.credits) < KRDMA_WIRE_CREDITS_MIN ||
	    le16_to_cpu(in.credits) > KRDMA_WIRE_CREDITS_MAX ||
	    le16_to_cpu(in.message_credits) > KRDMA_WIRE_MESSAGE_CREDITS_MAX)
		return -EPROTO;
	*cause = "a greeting of a further channel that is more than that";
	if (in.channel && (in.features & ~cpu_to_le64(KRDMA_WIRE_PLACES) || in.message_credits ||
			   in.channels || in.resume || in.received || in.messages))
		return -EPROTO;
	*cause = NULL;
	*hello = in;
	return 0;
}

/**
 * krdma_wire_versions - what to say of a peer of another version
 * @version: the highest that it knows
 * @text: out: a phrase
 * @room: bytes at @text
 *
 * Context: any.
 */
void krdma_wire_versions(u8 version, char *text, u32 room)
{
	snprintf(text, room, "it speaks version %u of the protocol, this host version %u", version,
		 KRDMA_WIRE_VERSION);
}

/**
 * krdma_wire_build_reject - fill the private data of a reject
 * @reject: out: the private data
 * @reason: enum krdma_wire_reason
 *
 * Context: any.
 */
void krdma_wire_build_reject(struct krdma_wire_reject *reject, u8 reason)
{
	*reject = (struct krdma_wire_reject){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.reason = reason,
	};
}

/**
 * krdma_wire_check_reject - check the private data of a reject
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
int krdma_wire_check_reject(const void *buf, u32 len, u8 *version, u8 *reason)
{
	struct krdma_wire_reject reject;

	*version = 0;
	*reason = 0;
	if (len < sizeof(reject))
		return -EPROTO;
	memcpy(&reject, buf, sizeof(reject));
	if (le32_to_cpu(reject.magic) != KRDMA_WIRE_MAGIC || !reject.version || reject.reserved)
		return -EPROTO;
	/* A later version may have reasons that this one does not know. */
	if (reject.version <= KRDMA_WIRE_VERSION && reject.reason > KRDMA_WIRE_REASON_LAST)
		return -EPROTO;
	*version = reject.version;
	*reason = reject.reason;
	return 0;
}

/* ---- names, numbers and texts ---- */

/**
 * krdma_wire_name_ok - is this the name of an export?
 * @name: an array that holds the name
 * @room: size of the array
 *
 * A name has 1 to 63 of the characters A-Z a-z 0-9 . _ - : + = and ends with a
 * NUL within the array; all that follows in the array is zero.
 *
 * Context: any.
 * Return: true if it is.
 */
bool krdma_wire_name_ok(const char *name, u32 room)
{
	static const char chars[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:+=";
	u32 end = 0;

	/* Not the NUL of @chars. */
	while (end < room && name[end] && strchr(chars, name[end]))
		end++;
	return end && end < room && end < KRDMA_WIRE_NAME_MAX &&
	       !memchr_inv(name + end, 0, room - end);
}

static const struct {
	int err;
	const char *text;
} krdma_wire_statuses[] = {
	[KRDMA_WIRE_OK] = { 0, "no error" },
	[KRDMA_WIRE_NOENT] = { -ENOENT, "no such export" },
	[KRDMA_WIRE_ACCES] = { -EACCES, "right not granted" },
	[KRDMA_WIRE_STALE] = { -ESTALE, "grant is over" },
	[KRDMA_WIRE_LIMIT] = { -EDQUOT, "limit of the target reached" },
	[KRDMA_WIRE_RANGE] = { -ERANGE, "outside the export" },
	[KRDMA_WIRE_NOMEM] = { -ENOMEM, "target is out of memory" },
	[KRDMA_WIRE_UNSUPPORTED] = { -EOPNOTSUPP, "not supported by the target" },
	[KRDMA_WIRE_IO] = { -EIO, "target can't reach its memory" },
	[KRDMA_WIRE_AWAY] = { -EAGAIN, "the path is lost there" },
	[KRDMA_WIRE_BUSY] = { -EBUSY, "another one has it open" },
};

static_assert(ARRAY_SIZE(krdma_wire_statuses) == KRDMA_WIRE_STATUS_LAST + 1);

/**
 * krdma_wire_errno - the errno of a status of a reply
 * @status: enum krdma_wire_status
 *
 * Context: any.
 * Return: 0 for KRDMA_WIRE_OK, else a negative errno; -EPROTO for a status that
 * does not exist.
 */
int krdma_wire_errno(u16 status)
{
	if (status > KRDMA_WIRE_STATUS_LAST)
		return -EPROTO;
	return krdma_wire_statuses[array_index_nospec(status, ARRAY_SIZE(krdma_wire_statuses))].err;
}

/**
 * krdma_wire_status - the status of a reply for an errno of the target
 * @err: 0 or a negative errno
 *
 * Context: any.
 * Return: enum krdma_wire_status; KRDMA_WIRE_IO for what has no status of its
 * own.
 */
u16 krdma_wire_status(int err)
{
	u16 i;

	for (i = 0; i < ARRAY_SIZE(krdma_wire_statuses); i++)
		if (krdma_wire_statuses[i].err == err)
			return i;
	return KRDMA_WIRE_IO;
}

/**
 * krdma_wire_status_text - a status in words
 * @status: enum krdma_wire_status
 *
 * Context: any.
 * Return: a fixed string, such as "right not granted".
 */
const char *krdma_wire_status_text(u16 status)
{
	if (status > KRDMA_WIRE_STATUS_LAST)
		return "unknown status";
	status = array_index_nospec(status, ARRAY_SIZE(krdma_wire_statuses));
	return krdma_wire_statuses[status].text;
}

/**
 * krdma_wire_reason_text - why a connection was refused or ended, in words
 * @reason: enum krdma_wire_reason
 *
 * Context: any.
 * Return: a fixed string, such as "host not admitted".
 */
const char *krdma_wire_reason_text(u8 reason)
{
	static const char *const texts[] = {
		[KRDMA_WIRE_REASON_NONE] = "not needed any more",
		[KRDMA_WIRE_REASON_MALFORMED] = "malformed connect request",
		[KRDMA_WIRE_REASON_VERSION] = "no common protocol version",
		[KRDMA_WIRE_REASON_NOT_ADMITTED] = "host not admitted",
		[KRDMA_WIRE_REASON_LIMIT] = "limit or memory of the peer exhausted",
		[KRDMA_WIRE_REASON_SHUTDOWN] = "shut down",
		[KRDMA_WIRE_REASON_PROTOCOL] = "protocol violation",
		[KRDMA_WIRE_REASON_TIMEOUT] = "no reply in time",
		[KRDMA_WIRE_REASON_TRANSPORT] = "connection lost",
		[KRDMA_WIRE_REASON_ADMIN] = "disconnected by an administrator",
	};

	static_assert(ARRAY_SIZE(texts) == KRDMA_WIRE_REASON_LAST + 1);
	if (reason >= ARRAY_SIZE(texts))
		return "unknown reason";
	return texts[array_index_nospec(reason, ARRAY_SIZE(texts))];
}
