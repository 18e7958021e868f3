// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: parses any bytes as a message, as a hello and as a reject.
 *
 * Each input is in a block of exactly its size, so that AddressSanitizer reports a read beyond it.
 * For an accepted message, its fields and entries have to cover all bytes, and some rules are
 * checked once more.
 */
#include <stdio.h>
#include <stdlib.h>

#include "wire/wire.h"

#define REQUIRE(cond)                                                              \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

/* Where the last entry ends. */
static const void *end_of(const union krdma_wire_msg *msg)
{
	u32 n = krdma_wire_entries(msg);

	switch (msg->hdr.type) {
	case KRDMA_WIRE_PING:
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_PING:
		return &msg->ping.data[n];
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_LIST:
		return &msg->list_reply.entry[n];
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_SEGS:
		return &msg->segs_reply.seg[n];
	case KRDMA_WIRE_RECALL:
		return &msg->recall.index[n];
	case KRDMA_WIRE_MESSAGE:
		return &msg->message.data[n];
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_MESSAGE:
		return &msg->message_reply.taken[n];
	case KRDMA_WIRE_LIST:
		return &msg->list + 1;
	case KRDMA_WIRE_OPEN:
		return &msg->open + 1;
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_OPEN:
		return &msg->open_reply + 1;
	case KRDMA_WIRE_SEGS:
		return &msg->segs + 1;
	case KRDMA_WIRE_CLOSE:
		return &msg->close.used[n];
	case KRDMA_WIRE_USAGE:
		return &msg->usage.entry[n];
	case KRDMA_WIRE_FENCE:
		return &msg->fence + 1;
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_ADDRESSES:
		return &msg->addresses_reply.address[n];
	case KRDMA_WIRE_BYE:
		return &msg->bye + 1;
	case KRDMA_WIRE_DIGEST:
		return &msg->digest + 1;
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_DIGEST:
		return &msg->digest_reply + 1;
	case KRDMA_WIRE_FLUSH:
		return &msg->flush.range[n];
	case KRDMA_WIRE_GROW:
		return &msg->close + 1;
	case KRDMA_WIRE_REPLY | KRDMA_WIRE_GROW:
		return &msg->grow_reply + 1;
	default:
		return &msg->hdr + 1;
	}
}

static void fuzz_message(const u8 *copy, u32 len)
{
	const union krdma_wire_msg *msg;
	const char *cause = "unset";

	msg = krdma_wire_check(copy, len, &cause);
	if (!msg) {
		REQUIRE(cause && *cause && strcmp(cause, "unset"));
		REQUIRE(krdma_wire_bye_reason(copy, len) == -1);
		return;
	}
	REQUIRE(!cause && msg == (const void *)copy);
	REQUIRE(len <= KRDMA_WIRE_MSG_MAX || msg->hdr.type == KRDMA_WIRE_MESSAGE);
	REQUIRE(len <= KRDMA_WIRE_MESSAGE_MAX);
	REQUIRE((msg->hdr.type & ~KRDMA_WIRE_REPLY) >= KRDMA_WIRE_PING);
	REQUIRE((msg->hdr.type & ~KRDMA_WIRE_REPLY) <= KRDMA_WIRE_GROW);
	REQUIRE(krdma_wire_errno(le16_to_cpu(msg->hdr.status)) != -EPROTO);
	if (!msg->hdr.status)
		REQUIRE(end_of(msg) == copy + len);
	if (msg->hdr.type == KRDMA_WIRE_BYE)
		REQUIRE(krdma_wire_bye_reason(copy, len) ==
			(msg->bye.notice ? -1 : (int)le32_to_cpu(msg->bye.reason)));
	if (msg->hdr.type == KRDMA_WIRE_OPEN)
		REQUIRE(!msg->open.name[sizeof(msg->open.name) - 1]);
}

static void fuzz_hello(const u8 *copy, u32 len)
{
	struct krdma_wire_hello hello;
	const char *cause = "unset";
	int rc;

	rc = krdma_wire_check_hello(copy, len, &hello, &cause);
	if (rc) {
		REQUIRE((rc == -EPROTO || rc == -EPROTONOSUPPORT) && cause && *cause);
		return;
	}
	REQUIRE(!cause && len >= sizeof(hello));
	REQUIRE(!memcmp(copy, &hello, sizeof(hello)));
}

static void fuzz_reject(const u8 *copy, u32 len)
{
	struct krdma_wire_reject again;
	u8 version, reason;

	if (krdma_wire_check_reject(copy, len, &version, &reason)) {
		REQUIRE(!version && !reason);
		return;
	}
	REQUIRE(len >= sizeof(again) && version);
	REQUIRE(*krdma_wire_reason_text(reason));
	krdma_wire_build_reject(&again, reason);
	again.version = version;
	REQUIRE(!memcmp(copy, &again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u8 *copy = malloc(size ? size : 1);

	REQUIRE(copy);
	if (size)
		memcpy(copy, data, size);
	fuzz_message(copy, size);
	fuzz_hello(copy, size);
	fuzz_reject(copy, size);
	free(copy);
	return 0;
}
