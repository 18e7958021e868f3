// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: any bytes as a message, as a hello and as a reject.
 *
 * Each is decoded from a block of exactly as many bytes, so that
 * AddressSanitizer sees a read of one byte too many. What is accepted must give
 * the same bytes when it is encoded again, but for rights in a list that are not known.
 */
#include <stdio.h>
#include <stdlib.h>

#include "wire.h"

#define REQUIRE(cond)                                                              \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

static struct krdma_msg msg;

static void fuzz_message(const u8 *copy, u32 len)
{
	const char *why = "unset";
	u8 *again, *known;
	int rc;
	u32 at;

	memset(&msg, 0xa5, sizeof(msg));
	rc = krdma_proto_decode(copy, len, &msg, &why);
	if (rc) {
		REQUIRE(rc == -EPROTO && why && *why);
		return;
	}
	REQUIRE(!why);
	REQUIRE(len <= KRDMA_WIRE_LETTER_MAX);
	again = malloc(len);
	REQUIRE(again);
	REQUIRE(krdma_proto_encode(&msg, again, len - 1) == -EMSGSIZE);
	REQUIRE(krdma_proto_encode(&msg, again, len) == (int)len);
	known = malloc(len);
	REQUIRE(known && len);
	memcpy(known, copy, len);
	for (at = 40; known[0] == (KRDMA_WIRE_LIST | KRDMA_WIRE_ANSWER) && at < len; at += 80) {
		known[at] &= KRDMA_WIRE_RIGHTS;
		memset(known + at + 1, 0, 3);
	}
	REQUIRE(!memcmp(known, again, len));
	free(known);
	free(again);
}

static void fuzz_hello(const u8 *copy, u32 len)
{
	struct krdma_wire_hello again;
	struct krdma_hello hello;
	const char *why = "unset";
	int rc;

	rc = krdma_proto_decode_hello(copy, len, &hello, &why);
	if (rc) {
		REQUIRE((rc == -EPROTO || rc == -EPROTONOSUPPORT) && why && *why);
		return;
	}
	REQUIRE(!why);
	REQUIRE(len >= sizeof(again));
	krdma_proto_encode_hello(&hello, &again);
	/* A peer may take more than this side ever sends; the hello has no field for it. */
	memcpy(&again.msg_max, copy + offsetof(struct krdma_wire_hello, msg_max),
	       sizeof(again.msg_max));
	REQUIRE(le16_to_cpu(again.msg_max) >= KRDMA_WIRE_MSG_MAX);
	REQUIRE(!memcmp(copy, &again, sizeof(again)));
}

static void fuzz_reject(const u8 *copy, u32 len)
{
	struct krdma_wire_reject again;
	u8 version, reason;

	if (krdma_proto_decode_reject(copy, len, &version, &reason)) {
		REQUIRE(!version && !reason);
		return;
	}
	REQUIRE(len >= sizeof(again) && version);
	REQUIRE(*krdma_proto_reason_text(reason));
	krdma_proto_encode_reject(reason, &again);
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
