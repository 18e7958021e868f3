// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator that violates the protocol, with one connection for each attempt. As required by
 * Documentation/wire.rst, each attempt ends with a reject, a failed reply, or the end of its
 * session. The listener at the next port admits no peer.
 */
#include "peer.h"

/* By the reason of the reject. */
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

/* ---- requests that only fail ---- */

static void failing_requests(void)
{
	struct conn c;
	struct key key;
	struct msg q;
	u64 total;

	conn_init(&c);
	result(begin(&c, "data"), "a session for requests that fail");
	total = ((c.length - 1) >> c.shift) + 1;
	key = c.key[0];
	request(&c, &q, SEGS);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, STALE), "SEGS of an unknown grant: STALE");
	request(&c, &q, SEGS);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, STALE), "SEGS of the next generation: STALE");
	segs_request(&c, &q, total, 1, 0);
	result(fails(&c, &q, RANGE), "SEGS of the segment behind the last: RANGE");
	segs_request(&c, &q, total - 1, 2, 0);
	result(fails(&c, &q, RANGE), "SEGS over the end: RANGE");
	segs_request(&c, &q, ~0ULL - 1, 1, 0);
	result(fails(&c, &q, RANGE), "SEGS of segment 2^64 - 2: RANGE");
	segs_request(&c, &q, 1ULL << (64 - c.shift), 1, 0);
	result(fails(&c, &q, RANGE), "SEGS whose offset would wrap around: RANGE");
	segs_request(&c, &q, total + 1, 0, 1);
	result(fails(&c, &q, RANGE), "SEGS ahead, behind the end: RANGE");
	result(get_keys(&c, total, 0, 32), "SEGS ahead at the end: no keys");
	result(get_keys(&c, 0, 0, 32), "SEGS ahead of what has keys: as many as there are");
	open_request(&c, &q, "missing", 0);
	result(fails(&c, &q, NOENT), "OPEN of what is not there: NOENT");
	open_request(&c, &q, "ro", WRITE);
	result(fails(&c, &q, ACCES), "OPEN to write what is read only: ACCES");
	open_request(&c, &q, "data", 0);
	put(&q, 20, 4, 2);
	result(fails(&c, &q, BUSY), "OPEN to be exclusive, of what is open to write: BUSY");
	open_request(&c, &q, "ro", 0);
	put(&q, 20, 4, 2);
	result(fails(&c, &q, OK), "OPEN to be exclusive, of what is read only");
	put(&q, 8, 4, ++c.tag);
	result(fails(&c, &q, OK), "the same again, as neither can change it");
	open_request(&c, &q, "data", READ | ATOMIC);
	result(fails(&c, &q, ACCES), "OPEN for atomics: ACCES");
	request(&c, &q, DIGEST);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, STALE), "DIGEST of an unknown grant: STALE");
	request(&c, &q, DIGEST);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, STALE), "DIGEST of the next generation: STALE");
	request(&c, &q, DIGEST);
	put(&q, 24, 8, c.length);
	result(fails(&c, &q, RANGE), "DIGEST of the byte behind the last: RANGE");
	request(&c, &q, DIGEST);
	put(&q, 24, 8, c.length - 1);
	put(&q, 32, 4, 2);
	result(fails(&c, &q, RANGE), "DIGEST over the end: RANGE");
	request(&c, &q, DIGEST);
	put(&q, 24, 8, ~0ULL - 4096);
	put(&q, 32, 4, 4096);
	result(fails(&c, &q, RANGE), "DIGEST at 2^64 - 4097: RANGE");
	request(&c, &q, LIST);
	put(&q, 16, 8, ~0ULL);
	result(fails(&c, &q, OK), "LIST from a cursor that there is not: no harm");
	request(&c, &q, CLOSE);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, STALE), "CLOSE of an unknown grant: STALE");
	request(&c, &q, CLOSE);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, STALE), "CLOSE of the next generation: STALE");
	result(get_keys(&c, 0, 1, 0)                        ?:
		       memcmp(&key, &c.key[0], sizeof(key)) ? "another key" :
							      NULL,
	       "nothing is changed: the same key again");
	result(say_bye(&c), "BYE after them");
	conn_end(&c);
}

/* Another user may open it, but not hold up others. */
static const u32 hold = 1, exclude = 2;

static const char *no_root(struct conn *c, const void *arg)
{
	const char *why;
	struct msg q;

	put_bytes(c->hello + 32, 4, 5000);
	why = begin(c, "data");
	open_request(c, &q, "ro", 0);
	put(&q, 20, 4, *(const u32 *)arg);
	return why ?: fails(c, &q, ACCES) ?: say_bye(c);
}

/* Open until the target has enough: of each export, then of all. */
static const char *grants_limit(struct conn *c, const void *arg)
{
	static const char *const names[] = { "more0", "more1", "more2", "more3", "more4",
					     "more5", "good",  "data",  "ro" };
	const char *why = conn_connect(c);
	u32 n = 0, first = 0, i;
	struct msg q, a;

	for (i = 0; !why && i < ARRAY_SIZE(names); i++) {
		for (; !why && n < 100000; n++) {
			open_request(c, &q, names[i], 0);
			why = call(c, &q, &a, SOON);
			if (why || get(&a, 2, 2))
				break;
			c->grant = get(&a, 28, 4);
			c->generation = get(&a, 32, 4);
		}
		if (!why && get(&a, 2, 2) != LIMIT)
			why = bad("after %u: status %u", n, (u32)get(&a, 2, 2));
		first = first ?: n;
	}
	if (why || first != 128 || n != 1024)
		return why ?: bad("%u of one export, %u of all", first, n);
	return close_grant(c) ?: try_open(c, "data", 0, OK) ?: get_keys(c, 0, 1, 0);
}

/* ---- RECALL ---- */

/* Its type is 0 for a second reply that is right. */
static const struct patch recall_replies[] = {
	{ "with another tag", REPLY | RECALL, 8, 4, 0x12345678 },
	{ "of another type", REPLY | PING },
	{ "to CLOSE", REPLY | CLOSE },
	{ "of 24 bytes", REPLY | RECALL, .len = 24, .fix = true },
	{ "of 15 bytes", REPLY | RECALL, .len = 15, .fix = true },
	{ "that is not OK", REPLY | RECALL, 2, 2, NOENT, .len = HEADER, .fix = true },
	{ "given twice", 0 },
};

static const char *reply_wrongly(struct conn *c, const void *arg)
{
	const struct patch *patch = arg;
	const char *why;
	struct msg q, a;

	why = until_recall(c, "tight", &q);
	request(c, &a, patch->type ?: REPLY | RECALL);
	memcpy(a.b + 8, q.b + 8, 4);
	if (patch->type)
		apply(&a, patch);
	else
		why = why ?: send_msg(c, &a);
	return why ?: send_msg(c, &a) ?: ends(c, PROTOCOL, SOON);
}

static const char *over_credits(struct conn *c, const void *arg)
{
	struct msg q;
	const char *why = until_recall(c, "tight", &q);

	for (u32 i = 0; i < c->credits && !why; i++) {
		segs_request(c, &q, 1, 1, 0);
		why = send_msg(c, &q);
	}
	return why ?: ends(c, PROTOCOL, SOON);
}

static const char *tag_twice(struct conn *c, const void *arg)
{
	struct msg q;
	const char *why = until_recall(c, "tight", &q);

	segs_request(c, &q, 1, 1, 0);
	return why ?: send_msg(c, &q) ?: send_msg(c, &q) ?: ends(c, PROTOCOL, SOON);
}

/* PING gets its reply at once; LIST and OPEN may have to wait their turn. */
static const char *while_waiting(struct conn *c, const void *arg)
{
	u8 type = *(const u8 *)arg;
	struct msg r, q, a;
	const char *why = until_recall(c, "tight", &r);

	request(c, &q, type);
	why = why ?: send_msg(c, &q);
	if (!why && type != PING)
		reply_politely(c, &r);
	while (!why && receive(c, &a, SOON))
		if (a.b[0] == (type | REPLY))
			return !memcmp(a.b + 8, q.b + 8, 4) ? say_bye(c) : "another tag";
	return why ?: "it gets no reply";
}

static const char *revoked(struct conn *c, const void *arg)
{
	u32 good = *(const u32 *)arg;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };
	struct msg r, a, s, q;
	const char *why;

	c->polite = false;
	why = begin(c, good ? "gone1" : "gone3") ?: kill_exporter(good ? "gone1" : "gone3");
	if (why || !receive(c, &r, SOON) || !whole_grant(&r))
		return why ?: "no RECALL of the grant";
	if (get(&r, 16, 4) != c->grant || get(&r, 20, 4) != c->generation)
		return "RECALL of another grant";
	/* One that might have crossed it. */
	segs_request(c, &s, 0, 1, 0);
	request(c, &a, REPLY | RECALL);
	memcpy(a.b + 8, r.b + 8, 4);
	if (!good) {
		put(&a, 2, 2, STALE);
		return send_msg(c, &a) ?: ends(c, PROTOCOL, SOON);
	}
	why = send_msg(c, &s) ?: send_msg(c, &a);
	if (why || !receive(c, &q, SOON))
		return why ?: "SEGS has no reply";
	if (q.b[0] != (REPLY | SEGS) || get(&q, 2, 2) != STALE)
		return bad("SEGS: type %#x status %u", q.b[0], (u32)get(&q, 2, 2));
	request(c, &q, CLOSE);
	/* The module replies to it behind the end of the grant. */
	why = fails(c, &q, STALE) ?: ping(c, 3);
	if (why)
		return why;
	wr.wr.rdma.remote_addr = c->key[0].address;
	wr.wr.rdma.rkey = c->key[0].rkey;
	why = refused(c, &wr, 100);
	return why ? bad("READ after it: %s", why) : NULL;
}

/* Two at once, and nobody replies: all else goes on. Then in the other order. */
static const char *revoked_together(struct conn *c, const void *arg)
{
	const char *why;
	struct msg r[2], q;
	u32 i;

	c->polite = false;
	why = conn_connect(c) ?: try_open(c, "gone4", 0, OK) ?: get_keys(c, 0, 1, 0);
	why = why ?: try_open(c, "gone5", 0, OK) ?: get_keys(c, 0, 1, 0);
	why = why ?: kill_exporter("gone4") ?: kill_exporter("gone5");
	for (i = 0; i < 2 && !why; i++)
		if (!receive(c, &r[i], SOON) || !whole_grant(&r[i]))
			why = bad("no RECALL of grant %u", i);
	request(c, &q, LIST);
	why = why ?: fails(c, &q, OK) ?: try_open(c, "data", 0, OK) ?: get_keys(c, 0, 1, 0);
	if (why)
		return why;
	reply_politely(c, &r[1]);
	reply_politely(c, &r[0]);
	return get_keys(c, 1, 1, 0) ?: ping(c, 4) ?: say_bye(c);
}

/* While a SEGS waits for a RECALL of the same grant: it waits no longer. */
static const char *revoked_waiting(struct conn *c, const void *arg)
{
	bool stale = false, whole = false;
	struct msg r, all, m;
	const char *why = until_recall(c, "gone6", &r) ?: kill_exporter("gone6");

	while (!why && !(stale && whole)) {
		if (!receive(c, &m, SOON))
			return stale ? "no RECALL of the grant" : "SEGS waits";
		if (m.b[0] == (REPLY | SEGS) && get(&m, 2, 2) == STALE) {
			stale = true;
		} else if (whole_grant(&m)) {
			whole = true;
			all = m;
		} else {
			return bad("type %#x status %u", m.b[0], (u32)get(&m, 2, 2));
		}
	}
	request(c, &m, CLOSE);
	why = why ?: fails(c, &m, STALE);
	if (why)
		return why;
	reply_politely(c, &all);
	reply_politely(c, &r);
	return ping(c, 5) ?: say_bye(c);
}

/* ---- READs and WRITEs that must not be ---- */

static const struct access {
	const char *name;
	const char *export;
	u32 rights;
	enum ibv_wr_opcode opcode;
	s64 at; /* from the segment's first byte, or from its end if end is set */
	u32 len;
	bool last; /* of the last segment, not the first */
	bool end;
	u32 key; /* xor */
	enum {
		PLAIN,
		CLOSED,
		FOREIGN
	} how;
	const char *no_iwarp; /* why not there */
} accesses[] = {
	{ "WRITE one byte before", "data", 0, IBV_WR_RDMA_WRITE, -1, 1 },
	{ "READ one byte before", "data", 0, IBV_WR_RDMA_READ, -1, 1 },
	{ "WRITE from one byte before", "data", 0, IBV_WR_RDMA_WRITE, -1, 4096 },
	{ "WRITE one byte behind", "data", 0, IBV_WR_RDMA_WRITE, 0, 1, .end = true },
	{ "READ one byte behind", "data", 0, IBV_WR_RDMA_READ, 0, 1, .end = true },
	{ "WRITE over the end", "data", 0, IBV_WR_RDMA_WRITE, -8, 9, .end = true },
	{ "READ over the end", "data", 0, IBV_WR_RDMA_READ, -8191, 8192, .end = true },
	{ "WRITE one byte behind the export", "data", 0, IBV_WR_RDMA_WRITE, 0, 1, true, true },
	{ "READ over the end of the export", "data", 0, IBV_WR_RDMA_READ, -1, 2, true, true },
	{ "WRITE one byte before the last segment", "data", 0, IBV_WR_RDMA_WRITE, -1, 1, true },
	{ "WRITE far away", "data", 0, IBV_WR_RDMA_WRITE, 1LL << 62, 8 },
	{ "WRITE whose end wraps around", "data", 0, IBV_WR_RDMA_WRITE, -4, 8 },
	{ "WRITE with another variant of the key", "data", 0, IBV_WR_RDMA_WRITE, 0, 8, .key = 1 },
	{ "READ with another key", "data", 0, IBV_WR_RDMA_READ, 0, 8, .key = 0xff00 },
	{ "WRITE with a key of another session", "data", 0, IBV_WR_RDMA_WRITE, 0, 8,
	  .how = FOREIGN },
	{ "READ with a key of another session", "data", 0, IBV_WR_RDMA_READ, 0, 8, .how = FOREIGN },
	{ "WRITE to what is read only", "ro", 0, IBV_WR_RDMA_WRITE, 0, 8 },
	{ "WRITE when opened to read", "data", READ, IBV_WR_RDMA_WRITE, 0, 8 },
	{ "READ when opened to write", "data", WRITE, IBV_WR_RDMA_READ, 0, 8,
	  .no_iwarp = "siw looks at no right when it responds to a READ" },
	{ "an atomic operation", "data", 0, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8,
	  .no_iwarp = "iWARP has no atomic operations" },
	{ "WRITE with a key after CLOSE", "data", 0, IBV_WR_RDMA_WRITE, 0, 8, .how = CLOSED },
	{ "READ with a key after CLOSE", "data", 0, IBV_WR_RDMA_READ, 0, 8, .how = CLOSED },
};

static const char *try_access(struct conn *c, const void *arg)
{
	const struct access *a = arg;
	struct ibv_send_wr wr = { .opcode = a->opcode };
	const char *why;
	struct conn other;
	u64 address;

	conn_init(&other);
	why = conn_connect(c) ?: try_open(c, a->export, a->rights, OK);
	if (!why)
		why = get_keys(c, a->last ? (c->length - 1) >> c->shift : 0, 1, 0);
	if (!why && a->how == CLOSED)
		why = close_grant(c);
	if (!why && a->how == FOREIGN)
		why = begin(&other, a->export);
	if (why)
		goto out;
	if (a->how == FOREIGN)
		c->key[0] = other.key[0];
	address = c->key[0].address + a->at + (a->end ? c->key[0].length : 0);
	if (a->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = c->key[0].rkey;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = c->key[0].rkey ^ a->key;
	}
	why = refused(c, &wr, a->len);
	if (!why && a->how == FOREIGN)
		why = ping(&other, 4);
out:
	conn_end(&other);
	return why;
}

/*
 * A registration keeps its place, the upper 24 bits of its key, and is given another lower
 * byte each time: a peer that has had a key could try them all.
 */
static void try_all_variants(void)
{
	const char *count = getenv("KEYS");
	u32 step = count && *count ? 256 / atoi(count) : 1, tried = 0, x;
	const char *why = NULL;

	for (x = 1; x < 256 && !why; x += step) {
		struct access a = { "",       "data",
				    0,        x & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				    .len = 8, .key = x };

		why = attempt(try_access, &a);
		tried++;
	}
	result(why ? bad("variant %u: %s", x - step, why) : NULL,
	       "READ or WRITE with each of %u other variants of the key: refused", tried);
}

/*
 * One session invalidates the key of another. What a device lets through of it is
 * said: the target ends the peer that has done it, and the device refuses the other one.
 */
static const char *foreign_invalidation(struct conn *c, const void *arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV };
	const char *why;
	struct conn other;
	struct msg m;

	conn_init(&other);
	why = begin(&other, "data") ?: begin(c, "data");
	if (why)
		goto out;
	wr.invalidate_rkey = other.key[0].rkey;
	wr.wr.rdma.rkey = other.key[0].rkey; /* where libsiw looks for it */
	request(c, &m, LIST);
	/* A device that refuses it breaks the connection, without BYE. */
	why = post_send(c, &m, &wr) ?: ends(c, -1, SOON);
	if (why)
		goto out;
	memset(other.data, 0xee, 8);
	if (!move(&other, false, 0, 8, other.key[0].address, other.key[0].rkey)) {
		printf("# the device refuses to invalidate another session's key\n");
		why = ping(&other, 6);
		goto out;
	}
	printf("# the device lets a session invalidate another's key: that one ends, too\n");
	for (u32 i = 0; i < 8 && !why; i++)
		if (other.data[i] != 0xee)
			why = "bytes were read";
	why = why ?: ends(&other, -1, SOON);
out:
	conn_end(&other);
	return why;
}

/* Where the WRITE to what is read only would have been. */
static const char *ro_untouched(struct conn *c, const void *arg)
{
	const char *why = begin(c, "ro");
	enum ibv_wc_status status;

	if (why)
		return why;
	memset(c->data, 0xee, 4096);
	status = move(c, false, 0, 4096, c->key[0].address, c->key[0].rkey);
	if (status)
		return bad("READ: %s", ibv_wc_status_str(status));
	for (u32 i = 0; i < 4096; i++)
		if (c->data[i])
			return bad("byte %u is %#x", i, c->data[i]);
	return say_bye(c);
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
	static const u8 types[] = { PING, LIST, OPEN };
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
	failing_requests();
	result(attempt(no_root, &hold), "OPEN to hold it, of a user: ACCES");
	result(attempt(no_root, &exclude), "OPEN to be exclusive, of a user: ACCES");
	result(attempt(grants_limit, NULL),
	       "OPEN without end: LIMIT, for each export and for all; the session goes on");
	for (i = 0; i < ARRAY_SIZE(recall_replies); i++)
		result(attempt(reply_wrongly, &recall_replies[i]), "a reply to RECALL %s",
		       recall_replies[i].name);
	result(attempt(over_credits, NULL), "one request more than there are credits");
	result(attempt(tag_twice, NULL), "two requests under way with the same tag");
	for (i = 0; i < ARRAY_SIZE(types); i++)
		result(attempt(while_waiting, &types[i]),
		       "type %u gets a reply, though a SEGS waits%s", types[i],
		       types[i] == PING ? "" : ", when its turn comes");
	result(attempt(revoked, &yes), "RECALL of the grant, with its reply: then the key is dead");
	result(attempt(revoked, &no), "RECALL of the grant, with a reply that is not OK");
	result(attempt(revoked_together, NULL),
	       "two grants that are recalled at once: LIST, OPEN and SEGS get replies meanwhile");
	result(attempt(revoked_waiting, NULL),
	       "a grant that is recalled while a SEGS waits: STALE at once");
	for (i = 0; i < ARRAY_SIZE(accesses); i++)
		if (iwarp && accesses[i].no_iwarp)
			skip(accesses[i].no_iwarp, "%s: refused", accesses[i].name);
		else
			result(attempt(try_access, &accesses[i]), "%s: refused", accesses[i].name);
	try_all_variants();
	result(attempt(foreign_invalidation, NULL),
	       "SEND that invalidates a key of another session: no byte is reached by it");
	/* Here already: what comes next writes some of the bytes again. */
	result(attempt(verify_data, NULL),
	       "none of them has changed a byte of what can be written");
	result(attempt(ro_untouched, NULL), "nor of what can't");
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
