/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wire protocol: what two hosts say to each other beside the data.
 * Documentation/wire.rst is the specification; this is its C form.
 *
 * Every message is a question or an answer, but for BYE. A side may have as
 * many questions under way as the other side's window allows; an answer gives
 * the place in the window back. So there are no credit messages, an answer
 * never waits for a credit, and a question that is answered late (keys that
 * wait for a RECALL) holds up nothing but its own place.
 *
 * Receives that a side must have posted: its own window (questions), the
 * questions it may have under way itself (answers), and one for BYE.
 *
 * MESSAGE is a question with places of its own, told in the accept, so that a
 * receiver that is slow with messages holds up nothing else; one answer may be
 * for many of them.
 */
#ifndef KRDMA_WIRE_H
#define KRDMA_WIRE_H

#ifdef __KERNEL__
#include <asm/byteorder.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/nospec.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "wire_user.h" /* the same types and byte order helpers in userspace */
#endif

#define KRDMA_WIRE_MAGIC   0x4d44524bU /* "KRDM" */
#define KRDMA_WIRE_VERSION 1
/* Every message fits in this many bytes, on both sides. */
#define KRDMA_WIRE_MSG_MAX    1024U
#define KRDMA_WIRE_NAME_MAX   64
#define KRDMA_WIRE_WINDOW_MIN 2
#define KRDMA_WIRE_WINDOW_MAX 256
#define KRDMA_WIRE_LIST_MAX   12
#define KRDMA_WIRE_SEGS_MAX   32
#define KRDMA_WIRE_RECALL_MAX 64
#define KRDMA_WIRE_PING_MAX   512
#define KRDMA_WIRE_DIGEST_MAX (4U << 20)
/* Bytes that a MESSAGE carries, and places that there may be for them. */
#define KRDMA_WIRE_DATA_MAX   4096U
#define KRDMA_WIRE_PLACES_MAX 64
/* The longest MESSAGE; all others have KRDMA_WIRE_MSG_MAX at most. */
#define KRDMA_WIRE_LETTER_MAX (16 + 24 + KRDMA_WIRE_DATA_MAX)
#define KRDMA_WIRE_SHIFT_MIN  12
#define KRDMA_WIRE_SHIFT_MAX  40

/* Rights, the same bits as in the uapi. */
#define KRDMA_WIRE_RIGHTS 0x17U
#define KRDMA_WIRE_ATOMIC 0x4U
/* In the answer to an OPEN, with ATOMIC: atomic against the owner's CPUs, too. */
#define KRDMA_WIRE_ATOMIC_CPU 0x8U

/* Features. The initiator may send MESSAGE. */
#define KRDMA_WIRE_MESSAGES 0x1ULL

/* Private data of the connect request and of the accept: 56 bytes. */
struct krdma_wire_hello {
	__le32 magic;
	__u8 version;
	__u8 reserved0;
	__le16 channel;      /* index in the session, 0 for the first */
	__le64 features;     /* request: wanted; accept: of those, the ones that are used */
	__le64 incarnation;  /* of the sender's module */
	__le64 session;      /* initiator's number; the accept repeats it */
	__le32 uid;          /* user that the initiator's kernel asserts; accept: 0 */
	__le16 window;       /* questions that the sender of this takes at a time */
	__le16 msg_max;      /* KRDMA_WIRE_MSG_MAX */
	__le32 heartbeat_ms; /* the sender's interval */
	__le16 places;       /* accept with MESSAGES: how many may be unanswered; else 0 */
	__u8 reserved1[10];
};

static_assert(sizeof(struct krdma_wire_hello) == 56);

/* Private data of a reject. */
struct krdma_wire_reject {
	__le32 magic;
	__u8 version; /* highest that the sender knows */
	__u8 reason;  /* enum krdma_wire_reason */
	__le16 reserved;
};

static_assert(sizeof(struct krdma_wire_reject) == 8);

/* Why a connection was refused or ended. */
enum krdma_wire_reason {
	KRDMA_WIRE_REASON_NONE = 0, /* the session is not needed any more */
	KRDMA_WIRE_REASON_MALFORMED = 1,
	KRDMA_WIRE_REASON_VERSION = 2,
	KRDMA_WIRE_REASON_NOT_ADMITTED = 3,
	KRDMA_WIRE_REASON_LIMIT = 4,     /* too many sessions, or no memory */
	KRDMA_WIRE_REASON_SHUTDOWN = 5,  /* module unload, device or listener removed */
	KRDMA_WIRE_REASON_PROTOCOL = 6,  /* the other side broke the protocol */
	KRDMA_WIRE_REASON_TIMEOUT = 7,   /* a question was not answered in time */
	KRDMA_WIRE_REASON_TRANSPORT = 8, /* lost the queue pair */
};

#define KRDMA_WIRE_REASON_LAST KRDMA_WIRE_REASON_TRANSPORT

enum krdma_wire_type {
	KRDMA_WIRE_PING = 0x01,    /* either side */
	KRDMA_WIRE_LIST = 0x02,    /* initiator */
	KRDMA_WIRE_OPEN = 0x03,    /* initiator */
	KRDMA_WIRE_SEGS = 0x04,    /* initiator */
	KRDMA_WIRE_CLOSE = 0x05,   /* initiator */
	KRDMA_WIRE_RECALL = 0x06,  /* owner */
	KRDMA_WIRE_REVOKE = 0x07,  /* owner */
	KRDMA_WIRE_BYE = 0x08,     /* either side, has no answer */
	KRDMA_WIRE_DIGEST = 0x09,  /* initiator */
	KRDMA_WIRE_MESSAGE = 0x0a, /* initiator */
};

#define KRDMA_WIRE_ANSWER 0x80 /* set in the type of an answer */

/* Status of an answer; an answer that is not OK has no payload. */
enum krdma_wire_status {
	KRDMA_WIRE_OK = 0,
	KRDMA_WIRE_NOENT = 1,       /* no such export or grant */
	KRDMA_WIRE_ACCES = 2,       /* right not granted */
	KRDMA_WIRE_STALE = 3,       /* the grant's generation is over */
	KRDMA_WIRE_LIMIT = 4,       /* a limit of the owner */
	KRDMA_WIRE_RANGE = 5,       /* outside the export */
	KRDMA_WIRE_NOMEM = 6,       /* the owner lacks memory */
	KRDMA_WIRE_UNSUPPORTED = 7, /* not a question that this side answers */
	KRDMA_WIRE_IO = 8,          /* the owner's memory can't be reached */
};

#define KRDMA_WIRE_STATUS_LAST KRDMA_WIRE_IO

struct krdma_wire_hdr {
	__u8 type; /* enum krdma_wire_type, answers with KRDMA_WIRE_ANSWER */
	__u8 reserved0;
	__le16 status; /* of an answer; 0 in a question */
	__le32 length; /* of the whole message, header included */
	__le32 tag;    /* chosen by the asker, repeated in the answer */
	__le32 reserved1;
};

static_assert(sizeof(struct krdma_wire_hdr) == 16);

/* PING and its answer: up to KRDMA_WIRE_PING_MAX bytes, returned as they came. */

/* LIST */
struct krdma_wire_list {
	__le64 cursor; /* 0 to begin */
};

struct krdma_wire_list_entry {
	__le64 length;
	__le32 rights;
	__le32 reserved;
	__u8 name[KRDMA_WIRE_NAME_MAX]; /* NUL-terminated, the rest zero */
};

struct krdma_wire_list_answer {
	__le64 cursor; /* where to go on, 0 at the end */
	__le32 count;
	__le32 reserved;
	struct krdma_wire_list_entry entry[];
};

static_assert(sizeof(struct krdma_wire_list_entry) == 80);
static_assert(sizeof(struct krdma_wire_list_answer) == 16);

/* OPEN */
struct krdma_wire_open {
	__le32 rights; /* wanted, 0 for all that there are */
	__le32 reserved;
	__u8 name[KRDMA_WIRE_NAME_MAX];
};

struct krdma_wire_open_answer {
	__le64 length;
	__le32 rights;
	__le32 grant;
	__le32 generation;
	/*
	 * A segment covers 1 << shift bytes: 12 to 40, but as the length of a
	 * key has 32 bits, 31 at most if the export is longer than 2^32 - 1.
	 */
	__le32 segment_shift;
};

static_assert(sizeof(struct krdma_wire_open) == 72);
static_assert(sizeof(struct krdma_wire_open_answer) == 24);

/*
 * SEGS: keys for segments first .. first+count-1, and if it costs the owner no
 * RECALL, of up to extra more behind them. The answer has at least count
 * entries, in order of index without a gap.
 */
struct krdma_wire_segs {
	__le32 grant;
	__le32 generation;
	__le64 first;
	__le32 count; /* 1 to KRDMA_WIRE_SEGS_MAX */
	__le32 extra; /* count + extra <= KRDMA_WIRE_SEGS_MAX */
};

struct krdma_wire_seg {
	__le64 index;
	__le64 address; /* the key's address of the segment's first byte */
	__le32 length;  /* bytes that the key covers, from that byte */
	__le32 rkey;
};

struct krdma_wire_segs_answer {
	__le32 grant;
	__le32 generation;
	__le32 count;
	__le32 reserved;
	struct krdma_wire_seg seg[];
};

static_assert(sizeof(struct krdma_wire_segs) == 24);
static_assert(sizeof(struct krdma_wire_seg) == 24);
static_assert(sizeof(struct krdma_wire_segs_answer) == 16);

/*
 * DIGEST: CRC32C (Castagnoli, reflected) of a range. The value is the register of the
 * CRC, neither set nor inverted: so a longer range is asked for piece by piece, each
 * with the value of the one before, the first with all ones.
 */
struct krdma_wire_digest {
	__le32 grant;
	__le32 generation;
	__le64 offset;
	__le32 length; /* 1 to KRDMA_WIRE_DIGEST_MAX */
	__le32 value;  /* before the first byte */
};

struct krdma_wire_digest_answer {
	__le32 grant;
	__le32 generation;
	__le32 value; /* behind the last byte */
	__le32 reserved;
};

static_assert(sizeof(struct krdma_wire_digest) == 24);
static_assert(sizeof(struct krdma_wire_digest_answer) == 16);

/* A WRITE came before it, whose bytes it tells of. */
#define KRDMA_WIRE_WRITTEN 0x1U

/*
 * MESSAGE: for whoever reads those of the export. Its tag is its place, from 1 on,
 * which is free again with the answer. It comes after all that was sent or written
 * before on this queue pair.
 */
struct krdma_wire_message {
	__le32 grant;
	__le32 generation;
	__le64 value;
	__le32 flags; /* KRDMA_WIRE_WRITTEN */
	__le32 reserved;
	__u8 data[]; /* up to KRDMA_WIRE_DATA_MAX bytes */
};

struct krdma_wire_taken {
	__le32 tag;
	__le16 status; /* enum krdma_wire_status; OK: it is in the owner's queue */
	__le16 reserved;
};

/* Answer to one MESSAGE or more; the tag in the header is that of the first. */
struct krdma_wire_message_answer {
	__le32 count;
	__le32 reserved;
	struct krdma_wire_taken taken[];
};

static_assert(sizeof(struct krdma_wire_message) == 24);
static_assert(sizeof(struct krdma_wire_taken) == 8);
static_assert(sizeof(struct krdma_wire_message_answer) == 8);

/* RECALL: stop using these keys; answered with krdma_wire_grant when done. */
struct krdma_wire_recall {
	__le32 grant;
	__le32 generation;
	__le32 count; /* 1 to KRDMA_WIRE_RECALL_MAX */
	__le32 reserved;
	__le64 index[];
};

static_assert(sizeof(struct krdma_wire_recall) == 16);

/* CLOSE, REVOKE, and the answers to CLOSE, REVOKE and RECALL. */
struct krdma_wire_grant {
	__le32 grant;
	__le32 generation;
};

static_assert(sizeof(struct krdma_wire_grant) == 8);

/* BYE */
struct krdma_wire_bye {
	__le32 reason; /* enum krdma_wire_reason */
	__le32 reserved;
};

static_assert(sizeof(struct krdma_wire_bye) == 8);

/*
 * Messages in host byte order. Decoding has checked all that can be checked
 * without knowing the session: type, lengths, counts, reserved bytes, names,
 * known rights, status and reason, wrapping ranges.
 */
struct krdma_msg_seg {
	u64 index;
	u64 address;
	u32 length;
	u32 rkey;
};

struct krdma_msg_taken {
	u32 tag;
	u16 status;
};

struct krdma_msg_entry {
	u64 length;
	u32 rights;
	char name[KRDMA_WIRE_NAME_MAX];
};

struct krdma_msg {
	u8 type; /* enum krdma_wire_type, without KRDMA_WIRE_ANSWER */
	bool answer;
	u16 status; /* enum krdma_wire_status */
	u32 tag;
	union {
		struct {
			u32 length;
			const void *data; /* into the encoded message when decoded */
		} ping;                   /* and its answer */
		struct {
			u64 cursor;
		} list;
		struct {
			u64 cursor;
			u32 count;
			struct krdma_msg_entry entry[KRDMA_WIRE_LIST_MAX];
		} list_answer;
		struct {
			u32 rights;
			char name[KRDMA_WIRE_NAME_MAX];
		} open;
		struct {
			u64 length;
			u32 rights;
			u32 grant;
			u32 generation;
			u32 segment_shift;
		} open_answer;
		struct {
			u32 grant;
			u32 generation;
			u64 first;
			u32 count;
			u32 extra;
		} segs;
		struct {
			u32 grant;
			u32 generation;
			u32 count;
			struct krdma_msg_seg seg[KRDMA_WIRE_SEGS_MAX];
		} segs_answer;
		struct {
			u32 grant;
			u32 generation;
			u32 count;
			u64 index[KRDMA_WIRE_RECALL_MAX];
		} recall;
		struct {
			u32 grant;
			u32 generation;
		} grant; /* CLOSE, REVOKE, answers of CLOSE, REVOKE, RECALL */
		struct {
			u32 grant;
			u32 generation;
			u64 offset;
			u32 length;
			u32 value;
		} digest;
		struct {
			u32 grant;
			u32 generation;
			u32 value;
		} digest_answer;
		struct {
			u32 grant;
			u32 generation;
			u64 value;
			u32 flags;
			u32 length;
			/*
			 * Into the encoded message when decoded; to be encoded, it may
			 * be where it goes already.
			 */
			const void *data;
		} message;
		struct {
			u32 count;
			struct krdma_msg_taken taken[KRDMA_WIRE_PLACES_MAX];
		} message_answer;
		struct {
			u32 reason;
		} bye;
	};
};

/* The hello in host byte order. */
struct krdma_hello {
	u8 version; /* of the sender; encoding has its own */
	u16 channel;
	u64 features;
	u64 incarnation;
	u64 session;
	u32 uid;
	u16 window;
	u16 places;
	u32 heartbeat_ms;
};

/* proto.c: no verbs, no locks, no allocation, no state */
int krdma_proto_encode(const struct krdma_msg *msg, void *buf, u32 room);
int krdma_proto_decode(const void *buf, u32 len, struct krdma_msg *msg, const char **cause);
void krdma_proto_encode_hello(const struct krdma_hello *hello, struct krdma_wire_hello *wire);
int krdma_proto_decode_hello(const void *buf, u32 len, struct krdma_hello *hello,
			     const char **cause);
void krdma_proto_versions(u8 version, char *text, u32 room);
void krdma_proto_encode_reject(u8 reason, struct krdma_wire_reject *wire);
int krdma_proto_decode_reject(const void *buf, u32 len, u8 *version, u8 *reason);
int krdma_proto_bye(const void *buf, u32 len);
bool krdma_proto_name_ok(const char *name, u32 room);
int krdma_proto_errno(u16 status);
u16 krdma_proto_status(int err);
const char *krdma_proto_type_name(u8 type);
const char *krdma_proto_status_text(u16 status);
const char *krdma_proto_reason_text(u8 reason);

#endif /* KRDMA_WIRE_H */
