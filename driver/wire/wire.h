/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wire/: the messages that two hosts exchange, version 2 of the protocol.
 * Documentation/wire.rst is the specification; this is its C form.
 *
 * What lives here: the messages as little-endian structs, and the checks of
 * everything in a message that can be judged without knowing the session.
 * What it may use: range.h and the kernel's byte order helpers. It has no verbs,
 * no locks, no allocation and no state.
 * Who calls it: rdma/ and session/ check what was received, in the receive
 * buffer; session/, initiator/ and target/ build messages in the send buffer.
 *
 * A message is checked once, where it enters. After that its fields are read
 * where they are: le32_to_cpu(msg->segs.count).
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
#define KRDMA_WIRE_VERSION 2
/* The longest message, except for MESSAGE. */
#define KRDMA_WIRE_MSG_MAX     1024U
#define KRDMA_WIRE_NAME_MAX    64
#define KRDMA_WIRE_CREDITS_MIN 2
#define KRDMA_WIRE_CREDITS_MAX 256
#define KRDMA_WIRE_LIST_MAX    12
#define KRDMA_WIRE_SEGS_MAX    32
#define KRDMA_WIRE_RECALL_MAX  64
#define KRDMA_WIRE_ADDRESS_MAX 16
#define KRDMA_WIRE_PING_MAX    512
#define KRDMA_WIRE_USAGE_MAX   24
#define KRDMA_WIRE_DIGEST_MAX  (4U << 20)
/* The ranges of a FLUSH, and their bytes. */
#define KRDMA_WIRE_FLUSH_MAX   32
#define KRDMA_WIRE_FLUSH_BYTES (64U << 20)
/* Channels and paths that a session may have. */
#define KRDMA_WIRE_CHANNELS_MAX 9
#define KRDMA_WIRE_PATHS_MAX    4
/* The bytes of a MESSAGE, and the credits that there may be for them. */
#define KRDMA_WIRE_DATA_MAX            4096U
#define KRDMA_WIRE_MESSAGE_CREDITS_MAX 64
/* The longest MESSAGE. */
#define KRDMA_WIRE_MESSAGE_MAX (sizeof(struct krdma_wire_message) + KRDMA_WIRE_DATA_MAX)
#define KRDMA_WIRE_SHIFT_MIN   12
#define KRDMA_WIRE_SHIFT_MAX   40

/* Rights, the same bits as in the uapi. */
#define KRDMA_WIRE_RIGHTS 0x17U
#define KRDMA_WIRE_WRITE  0x2U
#define KRDMA_WIRE_ATOMIC 0x4U
/* Only in the reply to OPEN, with ATOMIC: atomic against the target's CPUs, too. */
#define KRDMA_WIRE_ATOMIC_CPU 0x8U
/* Only in the reply to OPEN, with a right to change the memory: FLUSH makes changes durable. */
#define KRDMA_WIRE_DURABLE 0x20U

/* Feature: the initiator may send MESSAGE. */
#define KRDMA_WIRE_MESSAGES 0x1ULL
/* Feature: the initiator may send USAGE, and a CLOSE with what its grant was used for. */
#define KRDMA_WIRE_USAGES 0x2ULL
/* Feature: the initiator may send GROW. */
#define KRDMA_WIRE_GROWS 0x8ULL
/* Feature, of each channel: the target's device has WRITEs in memory when it acknowledges them. */
#define KRDMA_WIRE_PLACES 0x4ULL

#include "wire/codes.h"
#include "wire/hello.h"

/* ---- messages ---- */

enum krdma_wire_type {
	KRDMA_WIRE_PING = 0x01,      /* either side */
	KRDMA_WIRE_LIST = 0x02,      /* initiator */
	KRDMA_WIRE_OPEN = 0x03,      /* initiator */
	KRDMA_WIRE_SEGS = 0x04,      /* initiator */
	KRDMA_WIRE_CLOSE = 0x05,     /* initiator */
	KRDMA_WIRE_RECALL = 0x06,    /* target */
	KRDMA_WIRE_BYE = 0x07,       /* either side; has no reply */
	KRDMA_WIRE_DIGEST = 0x08,    /* initiator */
	KRDMA_WIRE_MESSAGE = 0x09,   /* initiator */
	KRDMA_WIRE_FENCE = 0x0a,     /* initiator */
	KRDMA_WIRE_ACK = 0x0b,       /* initiator, iWARP; has no reply */
	KRDMA_WIRE_ADDRESSES = 0x0c, /* initiator */
	KRDMA_WIRE_USAGE = 0x0d,     /* initiator */
	KRDMA_WIRE_FLUSH = 0x0e,     /* initiator */
	KRDMA_WIRE_GROW = 0x0f,      /* initiator */
};

#define KRDMA_WIRE_REPLY 0x80 /* set in the type of a reply */

struct krdma_wire_hdr {
	__u8 type; /* enum krdma_wire_type, in replies with KRDMA_WIRE_REPLY */
	__u8 reserved0;
	__le16 status;   /* of a reply; 0 in a request */
	__le32 length;   /* of the whole message, header included */
	__le32 tag;      /* chosen by the requester, repeated in the reply */
	__le16 received; /* iWARP: messages received so far, without MESSAGE and ACK; else 0 */
	__le16 reserved1;
};

static_assert(sizeof(struct krdma_wire_hdr) == 16);

/* PING and its reply, which has the same bytes. */
struct krdma_wire_ping {
	struct krdma_wire_hdr hdr;
	__u8 data[]; /* 0 to KRDMA_WIRE_PING_MAX */
};

struct krdma_wire_list {
	struct krdma_wire_hdr hdr;
	__le64 cursor; /* 0 to begin */
};

struct krdma_wire_list_entry {
	__le64 length;
	__le32 rights; /* bits that are not in KRDMA_WIRE_RIGHTS are ignored */
	__le32 reserved;
	char name[KRDMA_WIRE_NAME_MAX]; /* NUL-terminated, the rest zero */
};

struct krdma_wire_list_reply {
	struct krdma_wire_hdr hdr;
	__le64 cursor;                        /* where to go on, 0 at the end */
	struct krdma_wire_list_entry entry[]; /* 0 to KRDMA_WIRE_LIST_MAX */
};

static_assert(sizeof(struct krdma_wire_list) == 24);
static_assert(sizeof(struct krdma_wire_list_entry) == 80);
static_assert(sizeof(struct krdma_wire_list_reply) == 24);

/* ADDRESSES: over which the target accepts connections; the request is a header alone. */
struct krdma_wire_address {
	__u8 addr[16]; /* IPv6; an IPv4 address is mapped */
	__le16 port;
	__le16 reserved;
};

struct krdma_wire_addresses_reply {
	struct krdma_wire_hdr hdr;
	struct krdma_wire_address address[]; /* 0 to KRDMA_WIRE_ADDRESS_MAX */
};

static_assert(sizeof(struct krdma_wire_address) == 20);
static_assert(sizeof(struct krdma_wire_addresses_reply) == 16);

/* Flags of an OPEN, the same bits as in the uapi. */
#define KRDMA_WIRE_OPEN_HELD      0x1U
#define KRDMA_WIRE_OPEN_EXCLUSIVE 0x2U
#define KRDMA_WIRE_OPEN_TAKEOVER  0x4U /* with EXCLUSIVE */
#define KRDMA_WIRE_OPEN_FLAGS     0x7U

struct krdma_wire_open {
	struct krdma_wire_hdr hdr;
	__le32 rights; /* wanted, 0 for all that there are */
	__le32 flags;
	char name[KRDMA_WIRE_NAME_MAX];
};

struct krdma_wire_open_reply {
	struct krdma_wire_hdr hdr;
	__le64 length;
	__le32 rights;
	__le32 grant;
	__le32 generation;
	/*
	 * A segment has 1 << shift bytes. As the length of a key has 32 bits, that is
	 * 31 at most if the export is longer than 2^32 - 1.
	 */
	__le32 segment_shift;
};

static_assert(sizeof(struct krdma_wire_open) == 88);
static_assert(sizeof(struct krdma_wire_open_reply) == 40);

/*
 * SEGS: keys, for a path, of segments first to first + count - 1, and of up to extra more behind
 * them if they cost the target no RECALL. The reply has an entry for each, in order.
 */
struct krdma_wire_segs {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	__le64 first;
	__le32 count;
	__le16 extra; /* count + extra: 1 to KRDMA_WIRE_SEGS_MAX */
	__le16 path;
};

struct krdma_wire_seg {
	__le64 address; /* the key's address of the segment's first byte */
	__le32 length;  /* bytes that the key covers, from that byte */
	__le32 rkey;
};

struct krdma_wire_segs_reply {
	struct krdma_wire_hdr hdr;
	struct krdma_wire_seg seg[]; /* count to count + extra */
};

static_assert(sizeof(struct krdma_wire_segs) == 40);
static_assert(sizeof(struct krdma_wire_seg) == 16);

/* What the initiator has done with a grant since that began; it never goes back. */
struct krdma_wire_used {
	__le64 read_bytes;
	__le64 written_bytes;
	__le64 reads;
	__le64 writes;
};

/* CLOSE; its reply is a header alone. */
struct krdma_wire_close {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	struct krdma_wire_used used[]; /* 0 or 1 */
};

static_assert(sizeof(struct krdma_wire_used) == 32);
static_assert(sizeof(struct krdma_wire_close) == 24);

/* USAGE, of grants that were used since the one before; its reply is a header alone. */
struct krdma_wire_usage_entry {
	__le32 grant;
	__le32 generation;
	struct krdma_wire_used used;
};

struct krdma_wire_usage {
	struct krdma_wire_hdr hdr;
	struct krdma_wire_usage_entry entry[]; /* 1 to KRDMA_WIRE_USAGE_MAX */
};

static_assert(sizeof(struct krdma_wire_usage_entry) == 40);
static_assert(sizeof(struct krdma_wire_usage) == 16);

/* FENCE; its reply, a header alone, comes when the target has no such queue pair any more. */
struct krdma_wire_fence {
	struct krdma_wire_hdr hdr;
	__le32 channel; /* not the first */
	__le32 qp_num;  /* the initiator's queue pair, of the connection that is lost */
};

static_assert(sizeof(struct krdma_wire_fence) == 24);

/*
 * RECALL: stop using the keys of these segments; without any, those of the whole grant,
 * which is over. Its reply is a header alone.
 */
struct krdma_wire_recall {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	__le64 index[]; /* 0 to KRDMA_WIRE_RECALL_MAX */
};

static_assert(sizeof(struct krdma_wire_recall) == 24);

struct krdma_wire_bye {
	struct krdma_wire_hdr hdr;
	__le32 reason; /* enum krdma_wire_reason */
	__le32 notice; /* milliseconds until the target ends the session; 0: it has ended */
};

static_assert(sizeof(struct krdma_wire_bye) == 24);

#define KRDMA_NOTICES_MAX 64 /* those with a time in ->notice, in a session */

/*
 * DIGEST: CRC32C (Castagnoli, reflected) of a range. The value is the register of the
 * CRC, neither set nor inverted: a longer range takes several requests, each with the
 * value of the reply before, the first with all ones.
 */
struct krdma_wire_digest {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	__le64 offset;
	__le32 length; /* 1 to KRDMA_WIRE_DIGEST_MAX */
	__le32 value;  /* before the first byte */
};

struct krdma_wire_digest_reply {
	struct krdma_wire_hdr hdr;
	__le32 value; /* behind the last byte */
	__le32 reserved;
};

static_assert(sizeof(struct krdma_wire_digest) == 40);
static_assert(sizeof(struct krdma_wire_digest_reply) == 24);

/*
 * FLUSH: carry to the medium what went before it on the same queue pair into these ranges. Its
 * reply is a header alone.
 */
struct krdma_wire_range {
	__le64 offset;
	__le64 length; /* at least 1; KRDMA_WIRE_FLUSH_BYTES at most, all together */
};

struct krdma_wire_flush {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	struct krdma_wire_range range[]; /* 1 to KRDMA_WIRE_FLUSH_MAX */
};

/* GROW, as CLOSE without an entry: the grant is to be of all that the export has by now. */
struct krdma_wire_grow_reply {
	struct krdma_wire_hdr hdr;
	__le64 length;
};

static_assert(sizeof(struct krdma_wire_range) == 16);
static_assert(sizeof(struct krdma_wire_flush) == 24);
static_assert(sizeof(struct krdma_wire_grow_reply) == 24);

#define KRDMA_WIRE_WRITTEN 0x1U /* a WRITE went before it on the same queue pair */

/* MESSAGE: its tag is the number of the message credit that it uses, from 1. */
struct krdma_wire_message {
	struct krdma_wire_hdr hdr;
	__le32 grant;
	__le32 generation;
	__le64 value;
	__le32 flags; /* KRDMA_WIRE_WRITTEN */
	__le32 reserved;
	__u8 data[]; /* 0 to KRDMA_WIRE_DATA_MAX */
};

struct krdma_wire_taken {
	__le32 tag;
	__le16 status; /* enum krdma_wire_status; OK: it is in the export's queue */
	__le16 reserved;
};

/* The reply to one MESSAGE or more; the tag in the header is that of the first. */
struct krdma_wire_message_reply {
	struct krdma_wire_hdr hdr;
	struct krdma_wire_taken taken[]; /* 1 to KRDMA_WIRE_MESSAGE_CREDITS_MAX */
};

static_assert(sizeof(struct krdma_wire_message) == 40);
static_assert(sizeof(struct krdma_wire_taken) == 8);

/* Any message. Which member counts, the type in the header says. */
union krdma_wire_msg {
	struct krdma_wire_hdr hdr;
	struct krdma_wire_ping ping; /* and its reply */
	struct krdma_wire_list list;
	struct krdma_wire_list_reply list_reply;
	struct krdma_wire_addresses_reply addresses_reply;
	struct krdma_wire_open open;
	struct krdma_wire_open_reply open_reply;
	struct krdma_wire_segs segs;
	struct krdma_wire_segs_reply segs_reply;
	struct krdma_wire_close close;
	struct krdma_wire_usage usage;
	struct krdma_wire_fence fence;
	struct krdma_wire_recall recall;
	struct krdma_wire_bye bye;
	struct krdma_wire_digest digest;
	struct krdma_wire_digest_reply digest_reply;
	struct krdma_wire_flush flush;
	struct krdma_wire_grow_reply grow_reply;
	struct krdma_wire_message message;
	struct krdma_wire_message_reply message_reply;
};

const union krdma_wire_msg *krdma_wire_check(const void *buf, u32 len, const char **cause);
u32 krdma_wire_entries(const union krdma_wire_msg *msg);
int krdma_wire_bye_reason(const void *buf, u32 len);
void *krdma_wire_build(void *buf, u8 type, u32 fixed, u32 more);
void krdma_wire_end(union krdma_wire_msg *msg, const void *end);

int krdma_wire_check_hello(const void *buf, u32 len, struct krdma_wire_hello *hello,
			   const char **cause);
void krdma_wire_build_reject(struct krdma_wire_reject *reject, u8 reason);
int krdma_wire_check_reject(const void *buf, u32 len, u8 *version, u8 *reason);
void krdma_wire_versions(u8 version, char *text, u32 room);

bool krdma_wire_name_ok(const char *name, u32 room);
int krdma_wire_errno(u16 status);
u16 krdma_wire_status(int err);
const char *krdma_wire_status_text(u16 status);
const char *krdma_wire_reason_text(u8 reason);

#endif /* KRDMA_WIRE_H */
