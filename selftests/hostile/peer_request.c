// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator whose requests fail, or come when they may not: requests of what is not there, more
 * than the limits and the credits allow, and a RECALL that gets a wrong reply or comes meanwhile.
 */
#include "peer.h"

/* ---- requests that only fail ---- */

static void failing_requests(void)
{
	struct conn c;
	struct key key;
	struct msg q, a;
	u64 total;

	conn_init(&c);
	c.grows = true;
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
	request(&c, &q, FLUSH);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, STALE), "FLUSH of an unknown grant: STALE");
	request(&c, &q, FLUSH);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, STALE), "FLUSH of the next generation: STALE");
	request(&c, &q, FLUSH);
	put(&q, 24, 8, c.length);
	result(fails(&c, &q, RANGE), "FLUSH of the byte behind the last: RANGE");
	request(&c, &q, FLUSH);
	put(&q, 24, 8, c.length - 1);
	put(&q, 32, 8, 2);
	result(fails(&c, &q, RANGE), "FLUSH over the end: RANGE");
	request(&c, &q, FLUSH);
	put(&q, 24, 8, ~0ULL - 4096);
	put(&q, 32, 8, 4096);
	result(fails(&c, &q, RANGE), "FLUSH at 2^64 - 4097: RANGE");
	request(&c, &q, FLUSH);
	q.len = 56;
	put(&q, 4, 4, q.len);
	put(&q, 40, 8, c.length);
	put(&q, 48, 8, 1);
	result(fails(&c, &q, RANGE), "FLUSH of a range inside and one behind the end: RANGE");
	request(&c, &q, FLUSH);
	result(fails(&c, &q, UNSUPPORTED), "FLUSH of volatile memory: UNSUPPORTED");
	request(&c, &q, GROW);
	put(&q, 16, 4, c.grant + 1000);
	result(fails(&c, &q, STALE), "GROW of an unknown grant: STALE");
	request(&c, &q, GROW);
	put(&q, 20, 4, c.generation + 1);
	result(fails(&c, &q, STALE), "GROW of the next generation: STALE");
	request(&c, &q, GROW);
	result(call(&c, &q, &a, SOON) ?: (get(&a, 16, 8) != c.length ? "another length" : NULL),
	       "GROW of what has not grown: the same length");
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

void try_requests(void)
{
	static const u8 types[] = { PING, LIST, OPEN };
	static const u32 yes = 1, no;
	u32 i;

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
}
