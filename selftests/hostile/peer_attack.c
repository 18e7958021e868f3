// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator that violates the protocol, with one connection for each attempt. As required by
 * Documentation/wire.rst, each attempt ends with a reject, a failed reply, or the end of its
 * session. The listener at the next port admits no peer.
 */
#include "peer.h"

/* ---- hellos ---- */

static const struct hello {
	const char *name;
	u8 at, size;
	u64 value;
	u8 len;    /* so many bytes are sent; of InfiniBand's private data the rest is zero */
	u8 reason; /* of the reject, 0: accepted */
	u16 port;  /* 1: where nobody is admitted */
} hellos[] = {
	{ "another magic", 0, 4, 0x4d44524c, 56, MALFORMED },
	{ "version 0", 4, 1, 0, 56, VERSION },
	{ "version 1", 4, 1, 1, 56, VERSION },
	{ "version 3, and nothing else that is known", 4, 4, 0xffffff03, 56, VERSION },
	{ "path 3", 5, 1, 3, 56, 0 },
	{ "path 4", 5, 1, 4, 56, MALFORMED },
	{ "path 255", 5, 1, 255, 56, MALFORMED },
	{ "channel 1", 6, 2, 1, 56, MALFORMED },
	{ "channel 5", 6, 2, 5, 56, MALFORMED },
	{ "no credits", 36, 2, 0, 56, MALFORMED },
	{ "1 credit", 36, 2, 1, 56, MALFORMED },
	{ "2 credits", 36, 2, 2, 56, 0 },
	{ "256 credits", 36, 2, 256, 56, 0 },
	{ "257 credits", 36, 2, 257, 56, MALFORMED },
	{ "65535 credits", 36, 2, 65535, 56, MALFORMED },
	{ "a message credit", 38, 2, 1, 56, MALFORMED },
	{ "65 message credits", 38, 2, 65, 56, MALFORMED },
	{ "incarnation 0", 16, 8, 0, 56, 0 },
	{ "session 0", 24, 8, 0, 56, 0 },
	{ "a secret", 40, 1, 1, 56, NOT_ADMITTED },
	{ "65535 channels", 48, 2, 65535, 56, 0 },
	{ "65535 s to resume", 50, 2, 65535, 56, 0 },
	{ "a message received", 52, 2, 1, 56, MALFORMED },
	{ "a MESSAGE received", 54, 2, 1, 56, MALFORMED },
	{ "uid -1", 32, 4, 0xffffffff, 56, 0 },
	{ "no private data", 0, 0, 0, 0, MALFORMED },
	{ "4 bytes", 0, 0, 0, 4, VERSION },
	{ "36 bytes", 0, 0, 0, 36, MALFORMED },
	{ "nothing wrong, from a host that is not admitted", 0, 0, 0, 56, NOT_ADMITTED, 1 },
	{ "another magic, from a host that is not admitted", 0, 1, 0, 56, NOT_ADMITTED, 1 },
};

/* iWARP's private data is as long as it was sent. */
static u8 hello_reason(const struct hello *hello)
{
	return iwarp && hello->len < HELLO ? MALFORMED : hello->reason;
}

static const char *try_hello(struct conn *c, const void *arg)
{
	const struct hello *hello = arg;
	u8 reason = hello_reason(hello);
	const char *why;

	put_bytes(c->hello + hello->at, hello->size, hello->value);
	c->hello_len = hello->len;
	c->port = hello->port;
	why = conn_connect(c);
	if (!reason)
		return why ?: ping(c, 1);
	if (!why)
		return "it was accepted";
	return strcmp(why, bad("rejected: version 2 reason %u", reason)) ? why : NULL;
}

/* siw may see the end of the connection before the reject, which is lost then. */
static const char *say_hello(const struct hello *hello)
{
	const char *why;
	u32 tries = 0;

	do
		why = attempt(try_hello, hello);
	while (iwarp && why && !strcmp(why, REJECTED) && ++tries < 5);
	return why;
}

/* ---- protocol violations ---- */

static const struct patch violations[] = {
	{ "PING of 513 bytes", PING, .len = 529, .fix = true },
	{ "PING of 1024 bytes", PING, .len = 1024, .fix = true },
	{ "PING of 1024 bytes that says it has 21", PING, .len = 1024 },
	{ "PING that says it has 22 bytes", PING, 4, 4, 22 },
	{ "PING that says it has 2^32 - 1 bytes", PING, 4, 4, 0xffffffff },
	{ "PING that says it has no bytes", PING, 4, 4, 0 },
	{ "LIST of 1024 bytes", LIST, .len = 1024, .fix = true },
	{ "OPEN of 89 bytes", OPEN, .len = 89, .fix = true },
	{ "OPEN of 1024 bytes that says it has 88", OPEN, .len = 1024 },
	{ "SEGS of 48 bytes", SEGS, .len = 48, .fix = true },
	{ "SEGS that says it has 1024 bytes", SEGS, 4, 4, 1024 },
	{ "CLOSE of 32 bytes", CLOSE, .len = 32, .fix = true },
	{ "ADDRS of 24 bytes", ADDRS, .len = 24, .fix = true },
	{ "a reply to ADDRS never sent", REPLY | ADDRS },
	{ "CLOSE with a report, without the feature", CLOSE, .len = 56, .fix = true },
	{ "USAGE without the feature", USAGE },
	{ "USAGE of no grants", USAGE, .len = 16, .fix = true },
	{ "USAGE of 25 grants", USAGE, .len = 1016, .fix = true },
	{ "USAGE of grant 0", USAGE, 16, 4, 0 },
	{ "a reply to a USAGE", REPLY | USAGE },
	{ "BYE of 32 bytes", BYE, .len = 32, .fix = true },
	{ "the reserved byte of the header", PING, 1, 1, 0x80 },
	{ "the reserved number of the header", LIST, 14, 2, 1 },
	{ "a count of messages that were never sent", PING, 12, 2, 0x7000 },
	{ "a count of messages that goes back", PING, 12, 2, 0xffff },
	{ "ACK that is not the first message", ACK, 8, 4, 0 },
	{ "OPEN with an unknown flag", OPEN, 20, 4, 8 },
	{ "OPEN with all flags of 32 bits", OPEN, 20, 4, 0xffffffff },
	{ "OPEN that takes over what is not to be exclusive", OPEN, 20, 4, 4 },
	{ "a notice, which is the target's to give", BYE, 20, 4, 1000 },
	{ "a status in a request", PING, 2, 2, 1 },
	{ "a status in a BYE", BYE, 2, 2, 1 },
	{ "type 0", PING, 0, 1, 0 },
	{ "type 10", PING, 0, 1, 10 },
	{ "type 0x7f", PING, 0, 1, 0x7f },
	{ "type 0x80", PING, 0, 1, 0x80 },
	{ "type 0x8a", PING, 0, 1, 0x8a },
	{ "type 0xff", PING, 0, 1, 0xff },
	{ "a reply to a PING never sent", REPLY | PING },
	{ "a reply to a LIST", REPLY | LIST },
	{ "a reply to an OPEN", REPLY | OPEN },
	{ "a reply to a SEGS", REPLY | SEGS },
	{ "a reply to a CLOSE", REPLY | CLOSE },
	{ "a reply to a DIGEST", REPLY | DIGEST },
	{ "DIGEST of 48 bytes", DIGEST, .len = 48, .fix = true },
	{ "DIGEST of grant 0", DIGEST, 16, 4, 0 },
	{ "DIGEST of generation 0", DIGEST, 20, 4, 0 },
	{ "DIGEST of no bytes", DIGEST, 32, 4, 0 },
	{ "DIGEST of 4 MiB and a byte", DIGEST, 32, 4, (4 << 20) + 1 },
	{ "DIGEST of 2^32 - 1 bytes", DIGEST, 32, 4, 0xffffffff },
	{ "DIGEST that wraps around", DIGEST, 24, 8, ~0ULL },
	{ "DIGEST with tag 0", DIGEST, 8, 4, 0 },
	{ "a reply to a FLUSH", REPLY | FLUSH },
	{ "FLUSH of no ranges", FLUSH, .len = 24, .fix = true },
	{ "FLUSH of a range and a half", FLUSH, .len = 48, .fix = true },
	{ "FLUSH of 33 ranges", FLUSH, .len = 552, .fix = true },
	{ "FLUSH that says it has 1024 bytes", FLUSH, 4, 4, 1024 },
	{ "FLUSH of grant 0", FLUSH, 16, 4, 0 },
	{ "FLUSH of generation 0", FLUSH, 20, 4, 0 },
	{ "FLUSH of no bytes", FLUSH, 32, 8, 0 },
	{ "FLUSH of 64 MiB and a byte", FLUSH, 32, 8, (64 << 20) + 1 },
	{ "FLUSH of 2^64 - 1 bytes", FLUSH, 32, 8, ~0ULL },
	{ "FLUSH that wraps around", FLUSH, 24, 8, ~0ULL },
	{ "FLUSH with tag 0", FLUSH, 8, 4, 0 },
	{ "a reply to a GROW", REPLY | GROW },
	{ "GROW without the feature", GROW },
	{ "GROW of 32 bytes", GROW, .len = 32, .fix = true },
	{ "GROW of grant 0", GROW, 16, 4, 0 },
	{ "a reply to a RECALL never sent", REPLY | RECALL },
	{ "a reply to BYE", REPLY | BYE },
	{ "a failed reply with a payload", REPLY | DIGEST, 2, 2, 1 },
	{ "a reply with status 9", REPLY | RECALL, 2, 2, 9 },
	{ "PING with tag 0", PING, 8, 4, 0 },
	{ "ACK with tag 1", ACK, 8, 4, 1 },
	{ "LIST with tag 0", LIST, 8, 4, 0 },
	{ "OPEN with tag 0", OPEN, 8, 4, 0 },
	{ "SEGS with tag 0", SEGS, 8, 4, 0 },
	{ "CLOSE with tag 0", CLOSE, 8, 4, 0 },
	{ "BYE with tag 1", BYE, 8, 4, 1 },
	{ "BYE with reason 10", BYE, 16, 4, 10 },
	{ "BYE with reason 2^32 - 1", BYE, 16, 4, 0xffffffff },
	{ "SEGS of grant 0", SEGS, 16, 4, 0 },
	{ "SEGS of generation 0", SEGS, 20, 4, 0 },
	{ "CLOSE of grant 0", CLOSE, 16, 4, 0 },
	{ "CLOSE of generation 0", CLOSE, 20, 4, 0 },
	{ "SEGS of 0 segments", SEGS, 32, 4, 0 },
	{ "SEGS of 33 segments", SEGS, 32, 4, 33 },
	{ "SEGS of 2^32 - 1 segments", SEGS, 32, 4, 0xffffffff },
	{ "SEGS with 32 extra", SEGS, 36, 4, 32 },
	{ "SEGS with 2^32 - 1 extra", SEGS, 36, 4, 0xffffffff },
	{ "SEGS that wrap around", SEGS, 24, 8, ~0ULL },
	{ "OPEN of no name", OPEN, 24, 4, 0 },
	{ "OPEN of a name with a slash", OPEN, 25, 1, '/' },
	{ "OPEN of a name with a blank", OPEN, 24, 1, ' ' },
	{ "OPEN of a name with a byte of 0x80", OPEN, 26, 1, 0x80 },
	{ "OPEN of a name with a newline", OPEN, 27, 1, '\n' },
	{ "OPEN with bytes behind the name", OPEN, 87, 1, 'x' },
	{ "OPEN with an unknown right", OPEN, 16, 4, 8 },
	{ "OPEN with another one", OPEN, 16, 4, 32 },
	{ "OPEN with all rights of 32 bits", OPEN, 16, 4, 0xffffffff },
	{ "RECALL, which is the target's to send", RECALL },
	{ "a message of no bytes", PING, .len = 0xffff },
};

static const char *violate(struct conn *c, const void *arg)
{
	const struct patch *patch = arg;
	const char *why = begin(c, "data");
	struct msg m;

	request(c, &m, patch->type);
	apply(&m, patch);
	if (patch->len == 0xffff)
		m.len = 0;
	return why ?: send_msg(c, &m) ?: ends(c, PROTOCOL, SOON);
}

/* A message cut short everywhere that is worth it. */
static const char *truncate_all(u8 type, u32 whole, bool fix)
{
	const u16 lengths[] = { 1, 4, 8, 15, 16, 17, whole - 4, whole - 1 };
	const char *why = NULL;

	for (u32 i = 0; i < ARRAY_SIZE(lengths) && !why; i++) {
		struct patch patch = { "", type, .len = lengths[i], .fix = fix };

		/* A PING may have any length from its header on. */
		if (lengths[i] >= whole || (i && lengths[i] <= lengths[i - 1]) ||
		    (type == PING && fix && lengths[i] >= HEADER))
			continue;
		why = attempt(violate, &patch);
		if (why)
			why = bad("%u bytes: %s", lengths[i], why);
	}
	return why;
}

static const char *long_name(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	struct msg m;

	open_request(c, &m, "0123456789012345678901234567890123456789012345678901234567890123", 0);
	return why ?: send_msg(c, &m) ?: ends(c, PROTOCOL, SOON);
}

/* More than 1024 bytes: the target's queue pair breaks, so BYE can't be told. */
static const char *too_long(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	struct msg m;

	request(c, &m, PING);
	m.len = *(const u32 *)arg;
	put(&m, 4, 4, m.len);
	return why ?: send_msg(c, &m) ?: ends(c, -1, SOON);
}

/* Immediate data, and a key that the peer invalidates. */
static const char *with_extra(struct conn *c, const void *arg)
{
	struct ibv_send_wr wr = { .opcode = *(const enum ibv_wr_opcode *)arg };
	const char *why = begin(c, "data");
	struct msg m;

	if (wr.opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = c->key[0].rkey;
		/* Where libsiw looks for it. */
		wr.wr.rdma.rkey = c->key[0].rkey;
	}
	if (wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		wr.wr.rdma.remote_addr = c->key[0].address;
		wr.wr.rdma.rkey = c->key[0].rkey;
		for (u32 i = 0; i < sizeof(m.b); i++)
			m.b[i] = pattern(i);
		m.len = 24;
	} else {
		request(c, &m, LIST);
	}
	return why ?: post_send(c, &m, &wr) ?: ends(c, PROTOCOL, SOON);
}

/* ---- ends in the middle ---- */

static const char *in_the_middle(struct conn *c, const void *arg)
{
	struct ibv_sge sge = { .length = DATA_SIZE };
	struct ibv_send_wr wr = {
		.wr_id = SEND_MAX,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	}, *fail;
	const char *why = begin(c, "data");
	struct msg q;

	if (why)
		return why;
	for (u32 i = 0; i < DATA_SIZE; i++)
		c->data[i] = pattern(i);
	sge.addr = (uintptr_t)c->data;
	sge.lkey = c->mr->lkey;
	wr.wr.rdma.remote_addr = c->key[0].address;
	wr.wr.rdma.rkey = c->key[0].rkey;
	for (u32 i = 0; i < 8; i++)
		ibv_post_send(c->qp, &wr, &fail);
	segs_request(c, &q, 1, 1, 0);
	send_msg(c, &q);
	request(c, &q, CLOSE);
	send_msg(c, &q);
	switch (*(const char *)arg) {
	case 'd':
		return rdma_disconnect(c->id) ? "no disconnect" : NULL;
	case 'q':
		return NULL;
	case 'm':
		request(c, &q, BYE);
		send_msg(c, &q);
		request(c, &q, PING);
		break;
	default:
		request(c, &q, BYE);
	}
	return send_msg(c, &q) ?: ends(c, -1, SOON);
}

static const char *early(struct conn *c, const void *arg)
{
	struct msg a;
	const char *why;

	c->early = true;
	why = conn_connect(c);
	if (why || !receive(c, &a, SOON))
		return why ?: "no reply";
	return a.b[0] == (REPLY | PING) ? ping(c, 9) : bad("type %#x", a.b[0]);
}

/* It would hold what is sent to it for ever. */
static const char *endless(struct conn *c, const void *arg)
{
	const char *why;

	if (*(const bool *)arg)
		c->rnr = 7;
	else
		c->retries = 7;
	why = conn_connect(c);
	return !why ? "it was accepted" : strncmp(why, "rejected: version 2 ", 20) ? why : NULL;
}

void misbehave(void)
{
	static const u32 lengths[] = { 1025, 2048, 4096 };
	static const enum ibv_wr_opcode extras[] = { IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
						     IBV_WR_RDMA_WRITE_WITH_IMM };
	static const char *const extra_names[] = { "SEND with immediate data",
						   "SEND that invalidates a key",
						   "WRITE with immediate data" };
	static const u8 cut[] = { PING, 21,    LIST, 24,  OPEN, 88,     SEGS,
				  40,   CLOSE, 24,   BYE, 24,   DIGEST, 40 };
	static const u32 yes = 1, no;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hellos); i++)
		result(say_hello(&hellos[i]), "hello with %s: %s", hellos[i].name,
		       reasons[hello_reason(&hellos[i])]);
	try_joins();
	try_resumes();
	for (i = 0; i < ARRAY_SIZE(cut); i += 2) {
		result(truncate_all(cut[i], cut[i + 1], false), "type %u cut short", cut[i]);
		result(truncate_all(cut[i], cut[i + 1], true), "type %u cut short, and says so",
		       cut[i]);
	}
	for (i = 0; i < ARRAY_SIZE(violations); i++)
		result(attempt(violate, &violations[i]), "%s", violations[i].name);
	result(attempt(long_name, NULL), "OPEN of a name without a NUL");
	for (i = 0; i < ARRAY_SIZE(lengths); i++)
		result(attempt(too_long, &lengths[i]), "SEND of %u bytes", lengths[i]);
	for (i = 0; i < ARRAY_SIZE(extras); i++)
		if (iwarp && extras[i] != IBV_WR_SEND_WITH_INV)
			skip("iWARP has no immediate data", "%s", extra_names[i]);
		else
			result(attempt(with_extra, &extras[i]), "%s", extra_names[i]);
	try_requests();
	try_accesses();
	result(attempt(in_the_middle, "b"), "BYE in the middle");
	result(attempt(in_the_middle, "m"), "a message behind BYE");
	result(attempt(in_the_middle, "d"), "disconnect in the middle");
	result(attempt(in_the_middle, "q"), "queue pair destroyed in the middle");
	if (iwarp)
		skip("on iWARP the accept establishes it",
		     "a request before the connection is established");
	else
		result(attempt(early, NULL), "a request before the connection is established");
	for (i = 0; i < 2; i++)
		if (iwarp)
			skip("iWARP's retries are TCP's", "%s retries without end: refused",
			     i ? "RNR" : "transport");
		else
			result(attempt(endless, i ? &yes : &no), "%s retries without end: refused",
			       i ? "RNR" : "transport");
	messages();
	half_open_by_the_thousand();
}
