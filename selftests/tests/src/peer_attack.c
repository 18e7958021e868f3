// SPDX-License-Identifier: GPL-2.0
/*
 * The side that connects, as it must not be: one attempt on a connection of its
 * own. Each ends as Documentation/wire.rst says: a reject, a failed answer, or
 * the end of that session. At the port behind the usual one nobody is admitted.
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
	{ "version 2, and nothing else that is known", 4, 4, 0xffffff02, 56, VERSION },
	{ "a reserved byte", 5, 1, 1, 56, MALFORMED },
	{ "channel 1", 6, 2, 1, 56, MALFORMED },
	{ "channel 5", 6, 2, 5, 56, MALFORMED },
	{ "window 0", 36, 2, 0, 56, MALFORMED },
	{ "window 1", 36, 2, 1, 56, MALFORMED },
	{ "window 2", 36, 2, 2, 56, 0 },
	{ "window 256", 36, 2, 256, 56, 0 },
	{ "window 257", 36, 2, 257, 56, MALFORMED },
	{ "window 65535", 36, 2, 65535, 56, MALFORMED },
	{ "msg_max 1023", 38, 2, 1023, 56, MALFORMED },
	{ "msg_max 0", 38, 2, 0, 56, MALFORMED },
	{ "msg_max 65535", 38, 2, 65535, 56, 0 },
	{ "65 places", 44, 2, 65, 56, MALFORMED },
	{ "the first of the last reserved bytes", 46, 1, 1, 56, MALFORMED },
	{ "the last of the last reserved bytes", 55, 1, 1, 56, MALFORMED },
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
	return strcmp(why, bad("rejected: version 1 reason %u", reason)) ? why : NULL;
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
	{ "BYE of 32 bytes", BYE, .len = 32, .fix = true },
	{ "the reserved byte of the header", PING, 1, 1, 0x80 },
	{ "the reserved number of the header", LIST, 12, 4, 1 },
	{ "the reserved number of an OPEN", OPEN, 20, 4, 1 },
	{ "the reserved number of a BYE", BYE, 20, 4, 1 },
	{ "a status in a question", PING, 2, 2, 1 },
	{ "a status in a BYE", BYE, 2, 2, 1 },
	{ "type 0", PING, 0, 1, 0 },
	{ "type 11", PING, 0, 1, 11 },
	{ "type 0x7f", PING, 0, 1, 0x7f },
	{ "type 0x80", PING, 0, 1, 0x80 },
	{ "type 0x8b", PING, 0, 1, 0x8b },
	{ "type 0xff", PING, 0, 1, 0xff },
	{ "an answer to a PING never asked", ANSWER | PING },
	{ "an answer to a LIST", ANSWER | LIST },
	{ "an answer to an OPEN", ANSWER | OPEN },
	{ "an answer to a SEGS", ANSWER | SEGS },
	{ "an answer to a CLOSE", ANSWER | CLOSE },
	{ "an answer to a DIGEST", ANSWER | DIGEST },
	{ "DIGEST of 48 bytes", DIGEST, .len = 48, .fix = true },
	{ "DIGEST of grant 0", DIGEST, 16, 4, 0 },
	{ "DIGEST of generation 0", DIGEST, 20, 4, 0 },
	{ "DIGEST of no bytes", DIGEST, 32, 4, 0 },
	{ "DIGEST of 4 MiB and a byte", DIGEST, 32, 4, (4 << 20) + 1 },
	{ "DIGEST of 2^32 - 1 bytes", DIGEST, 32, 4, 0xffffffff },
	{ "DIGEST that wraps around", DIGEST, 24, 8, ~0ULL },
	{ "DIGEST with tag 0", DIGEST, 8, 4, 0 },
	{ "an answer to a RECALL never asked", ANSWER | RECALL },
	{ "an answer to a REVOKE never asked", ANSWER | REVOKE },
	{ "an answer to BYE", ANSWER | BYE },
	{ "a failed answer with a payload", ANSWER | RECALL, 2, 2, 1 },
	{ "an answer with status 9", ANSWER | RECALL, 2, 2, 9 },
	{ "PING with tag 0", PING, 8, 4, 0 },
	{ "LIST with tag 0", LIST, 8, 4, 0 },
	{ "OPEN with tag 0", OPEN, 8, 4, 0 },
	{ "SEGS with tag 0", SEGS, 8, 4, 0 },
	{ "CLOSE with tag 0", CLOSE, 8, 4, 0 },
	{ "BYE with tag 1", BYE, 8, 4, 1 },
	{ "BYE with reason 9", BYE, 16, 4, 9 },
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
	{ "RECALL, which is the owner's to ask", RECALL },
	{ "REVOKE, which is the owner's to ask", REVOKE },
	{ "a message of no bytes", PING, .len = 0xffff },
};

static const char *violate(struct conn *c, const void *arg)
{
	const struct patch *patch = arg;
	const char *why = begin(c, "data");
	struct msg m;

	question(c, &m, patch->type);
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

	open_question(c, &m, "0123456789012345678901234567890123456789012345678901234567890123", 0);
	return why ?: send_msg(c, &m) ?: ends(c, PROTOCOL, SOON);
}

/* More than 1024 bytes: the owner's queue pair breaks, so BYE can't be told. */
static const char *too_long(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	struct msg m;

	question(c, &m, PING);
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
		question(c, &m, LIST);
	}
	return why ?: post_send(c, &m, &wr) ?: ends(c, PROTOCOL, SOON);
}

/* ---- questions that only fail ---- */

static void failing_questions(void)
{
	struct conn c;
	struct key key;
	struct msg q;
	u64 total;

	conn_init(&c);
	result(begin(&c, "data"), "a session for questions that fail");
	total = ((c.length - 1) >> c.shift) + 1;
	key = c.key[0];
	question(&c, &q, SEGS);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, NOENT, NOENT), "SEGS of an unknown grant: NOENT");
	question(&c, &q, SEGS);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, NOENT, STALE), "SEGS of the next generation: NOENT or STALE");
	segs_question(&c, &q, total, 1, 0);
	result(fails(&c, &q, RANGE, RANGE), "SEGS of the segment behind the last: RANGE");
	segs_question(&c, &q, total - 1, 2, 0);
	result(fails(&c, &q, RANGE, RANGE), "SEGS over the end: RANGE");
	segs_question(&c, &q, ~0ULL - 1, 1, 0);
	result(fails(&c, &q, RANGE, RANGE), "SEGS of segment 2^64 - 2: RANGE");
	segs_question(&c, &q, 1ULL << (64 - c.shift), 1, 0);
	result(fails(&c, &q, RANGE, RANGE), "SEGS whose offset would wrap around: RANGE");
	open_question(&c, &q, "missing", 0);
	result(fails(&c, &q, NOENT, NOENT), "OPEN of what is not there: NOENT");
	open_question(&c, &q, "ro", WRITE);
	result(fails(&c, &q, ACCES, ACCES), "OPEN to write what is read only: ACCES");
	open_question(&c, &q, "data", READ | ATOMIC);
	result(fails(&c, &q, ACCES, ACCES), "OPEN for atomics: ACCES");
	question(&c, &q, DIGEST);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, NOENT, NOENT), "DIGEST of an unknown grant: NOENT");
	question(&c, &q, DIGEST);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, NOENT, STALE), "DIGEST of the next generation: NOENT or STALE");
	question(&c, &q, DIGEST);
	put(&q, 24, 8, c.length);
	result(fails(&c, &q, RANGE, RANGE), "DIGEST of the byte behind the last: RANGE");
	question(&c, &q, DIGEST);
	put(&q, 24, 8, c.length - 1);
	put(&q, 32, 4, 2);
	result(fails(&c, &q, RANGE, RANGE), "DIGEST over the end: RANGE");
	question(&c, &q, DIGEST);
	put(&q, 24, 8, ~0ULL - 4096);
	put(&q, 32, 4, 4096);
	result(fails(&c, &q, RANGE, RANGE), "DIGEST at 2^64 - 4097: RANGE");
	question(&c, &q, LIST);
	put(&q, 16, 8, ~0ULL);
	result(fails(&c, &q, OK, OK), "LIST from a cursor that there is not: no harm");
	question(&c, &q, CLOSE);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, NOENT, STALE), "CLOSE of an unknown grant: NOENT");
	question(&c, &q, CLOSE);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, NOENT, STALE), "CLOSE of the next generation: NOENT or STALE");
	result(get_keys(&c, 0, 1, 0)                        ?:
		       memcmp(&key, &c.key[0], sizeof(key)) ? "another key" :
							      NULL,
	       "nothing is changed: the same key again");
	result(say_bye(&c), "BYE after them");
	conn_end(&c);
}

/* Open until the owner has enough: of each export, then of all. */
static const char *grants_limit(struct conn *c, const void *arg)
{
	static const char *const names[] = { "more0", "more1", "more2", "more3", "more4",
					     "more5", "good",  "data",  "ro" };
	const char *why = conn_connect(c);
	u32 n = 0, first = 0, i;
	struct msg q, a;

	for (i = 0; !why && i < ARRAY_SIZE(names); i++) {
		for (; !why && n < 100000; n++) {
			open_question(c, &q, names[i], 0);
			why = ask(c, &q, &a, SOON);
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

/* ---- RECALL and REVOKE ---- */

/* Its type is 0 for a second answer that is right. */
static const struct patch recall_answers[] = {
	{ "with another tag", ANSWER | RECALL, 8, 4, 0x12345678 },
	{ "of another type", ANSWER | PING },
	{ "to REVOKE", ANSWER | REVOKE },
	{ "of another grant", ANSWER | RECALL, 16, 4, 0x12345678 },
	{ "of another generation", ANSWER | RECALL, 20, 4, 0x12345678 },
	{ "of 23 bytes", ANSWER | RECALL, .len = 23, .fix = true },
	{ "that is not OK", ANSWER | RECALL, 2, 2, NOENT, .len = HEADER, .fix = true },
	{ "given twice", 0 },
};

static const char *answer_wrongly(struct conn *c, const void *arg)
{
	const struct patch *patch = arg;
	const char *why;
	struct msg q, a;

	why = until_recall(c, "tight", &q);
	question(c, &a, patch->type ?: ANSWER | RECALL);
	memcpy(a.b + 8, q.b + 8, 4);
	if (patch->type)
		apply(&a, patch);
	else
		why = why ?: send_msg(c, &a);
	return why ?: send_msg(c, &a) ?: ends(c, PROTOCOL, SOON);
}

static const char *over_window(struct conn *c, const void *arg)
{
	struct msg q;
	const char *why = until_recall(c, "tight", &q);

	for (u32 i = 0; i < c->window && !why; i++) {
		segs_question(c, &q, 1, 1, 0);
		why = send_msg(c, &q);
	}
	return why ?: ends(c, PROTOCOL, SOON);
}

static const char *tag_twice(struct conn *c, const void *arg)
{
	struct msg q;
	const char *why = until_recall(c, "tight", &q);

	segs_question(c, &q, 1, 1, 0);
	return why ?: send_msg(c, &q) ?: send_msg(c, &q) ?: ends(c, PROTOCOL, SOON);
}

/* PING is answered at once; LIST and OPEN may have to wait their turn. */
static const char *while_waiting(struct conn *c, const void *arg)
{
	u8 type = *(const u8 *)arg;
	struct msg r, q, a;
	const char *why = until_recall(c, "tight", &r);

	question(c, &q, type);
	why = why ?: send_msg(c, &q);
	if (!why && type != PING)
		answer_politely(c, &r);
	while (!why && receive(c, &a, SOON))
		if (a.b[0] == (type | ANSWER))
			return !memcmp(a.b + 8, q.b + 8, 4) ? say_bye(c) : "another tag";
	return why ?: "it is not answered";
}

static const char *revoked(struct conn *c, const void *arg)
{
	u32 good = *(const u32 *)arg;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };
	struct msg r, a, s, q;
	const char *why;

	c->polite = false;
	why = begin(c, good ? "gone1" : "gone3") ?: kill_exporter(good ? "gone1" : "gone3");
	if (why || !receive(c, &r, SOON) || r.b[0] != REVOKE)
		return why ?: "no REVOKE";
	if (get(&r, 16, 4) != c->grant || get(&r, 20, 4) != c->generation)
		return "REVOKE of another grant";
	/* One that might have crossed it. */
	segs_question(c, &s, 0, 1, 0);
	question(c, &a, ANSWER | REVOKE);
	memcpy(a.b + 8, r.b + 8, 4);
	if (!good) {
		put(&a, 2, 2, NOENT);
		put(&a, 4, 4, HEADER);
		a.len = HEADER;
		return send_msg(c, &a) ?: ends(c, PROTOCOL, SOON);
	}
	why = send_msg(c, &s) ?: send_msg(c, &a);
	if (why || !receive(c, &q, SOON))
		return why ?: "SEGS has no answer";
	if (q.b[0] != (ANSWER | SEGS) || (get(&q, 2, 2) != STALE && get(&q, 2, 2) != NOENT))
		return bad("SEGS: type %#x status %u", q.b[0], (u32)get(&q, 2, 2));
	/* When CLOSE is answered, the keys are dead. */
	question(c, &q, CLOSE);
	why = fails(c, &q, NOENT, STALE) ?: ping(c, 3);
	if (why)
		return why;
	wr.wr.rdma.remote_addr = c->key[0].address;
	wr.wr.rdma.rkey = c->key[0].rkey;
	why = refused(c, &wr, 100);
	return why ? bad("READ after it: %s", why) : NULL;
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
	  .no_iwarp = "siw looks at no right when it answers a READ" },
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
 * byte each time: who has had a key could try them all.
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
 * said: the owner ends who has done it, and the other one is refused by the device.
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
	question(c, &m, LIST);
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
	segs_question(c, &q, 1, 1, 0);
	send_msg(c, &q);
	question(c, &q, CLOSE);
	send_msg(c, &q);
	switch (*(const char *)arg) {
	case 'd':
		return rdma_disconnect(c->id) ? "no disconnect" : NULL;
	case 'q':
		return NULL;
	case 'm':
		question(c, &q, BYE);
		send_msg(c, &q);
		question(c, &q, PING);
		break;
	default:
		question(c, &q, BYE);
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
		return why ?: "no answer";
	return a.b[0] == (ANSWER | PING) ? ping(c, 9) : bad("type %#x", a.b[0]);
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
	return !why ? "it was accepted" : strncmp(why, "rejected: version 1 ", 20) ? why : NULL;
}

void misbehave(void)
{
	static const u32 lengths[] = { 1025, 2048, 4096 };
	static const enum ibv_wr_opcode extras[] = { IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
						     IBV_WR_RDMA_WRITE_WITH_IMM };
	static const char *const extra_names[] = { "SEND with immediate data",
						   "SEND that invalidates a key",
						   "WRITE with immediate data" };
	static const char *const reasons[] = { "accepted", "MALFORMED", "VERSION", "NOT_ADMITTED" };
	static const u8 cut[] = { PING, 21,    LIST, 24,  OPEN, 88,     SEGS,
				  40,   CLOSE, 24,   BYE, 24,   DIGEST, 40 };
	static const u8 types[] = { PING, LIST, OPEN };
	static const u32 yes = 1, no;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hellos); i++)
		result(say_hello(&hellos[i]), "hello with %s: %s", hellos[i].name,
		       reasons[hello_reason(&hellos[i])]);
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
	failing_questions();
	result(attempt(grants_limit, NULL),
	       "OPEN without end: LIMIT, for each export and for all; the session goes on");
	for (i = 0; i < ARRAY_SIZE(recall_answers); i++)
		result(attempt(answer_wrongly, &recall_answers[i]), "an answer to RECALL %s",
		       recall_answers[i].name);
	result(attempt(over_window, NULL), "one question more than the window");
	result(attempt(tag_twice, NULL), "two questions under way with the same tag");
	for (i = 0; i < ARRAY_SIZE(types); i++)
		result(attempt(while_waiting, &types[i]),
		       "type %u is answered, though a SEGS waits%s", types[i],
		       types[i] == PING ? "" : ", when its turn comes");
	result(attempt(revoked, &yes), "REVOKE, answered: then the key is dead");
	result(attempt(revoked, &no), "REVOKE, with an answer that is not OK");
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
		     "a question before the connection is established");
	else
		result(attempt(early, NULL), "a question before the connection is established");
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
