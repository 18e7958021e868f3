/* SPDX-License-Identifier: GPL-2.0 */
/* What two hosts say of themselves when they connect; part of wire.h. */
#ifndef KRDMA_HELLO_H
#define KRDMA_HELLO_H

/* Private data of the connect request and of the accept. */
struct krdma_wire_hello {
	__le32 magic;
	__u8 version;
	__u8 path;              /* request: index of the path; accept: epoch of its keys, from 1 */
	__le16 channel;         /* index in the session, 0 for the first */
	__le64 features;        /* request: wanted; accept: those of them that are used */
	__le64 incarnation;     /* of the sender's module */
	__le64 session;         /* the initiator's number; the accept repeats it */
	__le32 uid;             /* the user that the initiator's kernel asserts; accept: 0 */
	__le16 credits;         /* requests that the sender of this takes at a time */
	__le16 message_credits; /* accept with MESSAGES: those of MESSAGE; else 0 */
	__le64 secret;          /* accept of the session; request of a channel of it: the same */
	__le16 channels;        /* of the session: request: wanted; accept: the most there may be */
	__le16 resume;          /* the same of seconds that it outlives its first channel */
	__le16 received;        /* first channel, again: messages received, without MESSAGE */
	__le16 messages;        /* likewise: MESSAGEs received; else both are 0 */
};

static_assert(sizeof(struct krdma_wire_hello) == 56);

/* Private data of a reject. */
struct krdma_wire_reject {
	__le32 magic;
	__u8 version; /* the highest that the sender knows */
	__u8 reason;  /* enum krdma_wire_reason */
	__le16 reserved;
};

static_assert(sizeof(struct krdma_wire_reject) == 8);

#endif /* KRDMA_HELLO_H */
