// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator: first a correct one, then all violations of peer_attack.c, each on a connection
 * of its own. Attempts that take long, and a correct session, run beside these.
 *
 * Exports that the target has to have:
 *	data		DATA_LENGTH bytes, read and write
 *	good		1 MiB, for the correct session
 *	ro		1 MiB, read only
 *	tight, tight2 to tight4	1 segment registered at a time
 *	gone1 to gone8		any, killed on the way
 *	more0 to more5	any, so that LIST needs more than one reply
 */
#include "peer.h"

#define DATA_LENGTH 5000001

u8 pattern(u64 at)
{
	return at * 7 + (at >> 8) + (at >> 16);
}

/* ---- steps ---- */

const char *try_open(struct conn *c, const char *name, u32 rights, u32 status)
{
	struct msg q, a;
	const char *why;

	open_request(c, &q, name, rights);
	why = call(c, &q, &a, SOON);
	if (why)
		return why;
	if (get(&a, 2, 2) != status)
		return bad("OPEN of %s: status %u, not %u", name, (u32)get(&a, 2, 2), status);
	if (status)
		return NULL;
	c->length = get(&a, 16, 8);
	c->rights = get(&a, 24, 4);
	c->grant = get(&a, 28, 4);
	c->generation = get(&a, 32, 4);
	c->shift = get(&a, 36, 4);
	c->keys = 0;
	if (!c->length || !c->grant || !c->generation || c->shift < 12 || c->shift > 40 ||
	    (c->length >> 32 && c->shift > 31) || (rights ? c->rights != rights : !c->rights))
		return bad("OPEN of %s: a reply outside its limits", name);
	return NULL;
}

/* What a reply to SEGS has to be, and its keys. */
const char *take_keys(struct conn *c, const struct msg *q, const struct msg *a)
{
	u64 first = get(q, 24, 8), total = ((c->length - 1) >> c->shift) + 1;
	u32 n = (a->len - 16) / 16, k;

	if (get(a, 2, 2))
		return bad("SEGS from %lu: status %u", first, (u32)get(a, 2, 2));
	if (n < get(q, 32, 4) || n > get(q, 32, 4) + get(q, 36, 4) || first + n > total)
		return bad("SEGS from %lu: %u keys", first, n);
	for (u32 i = 0; i < n; i++) {
		struct key key = { first + i, get(a, 16 + 16 * i, 8), get(a, 24 + 16 * i, 4),
				   get(a, 28 + 16 * i, 4) };
		u64 size = 1ULL << c->shift, start = (first + i) << c->shift;

		if (key.length != (c->length - start < size ? c->length - start : size))
			return bad("SEGS: key %u is not of its segment", i);
		for (k = 0; k < c->keys && c->key[k].index != key.index; k++)
			;
		if (k < SEGS_MAX)
			c->key[k] = key;
		if (k == c->keys && k < SEGS_MAX)
			c->keys++;
	}
	return NULL;
}

void segs_request(struct conn *c, struct msg *q, u64 first, u32 count, u32 extra)
{
	request(c, q, SEGS);
	put(q, 24, 8, first);
	put(q, 32, 4, count);
	put(q, 36, 4, extra);
}

const char *get_keys(struct conn *c, u64 first, u32 count, u32 extra)
{
	struct msg q, a;

	segs_request(c, &q, first, count, extra);
	return call(c, &q, &a, slower(30000)) ?: take_keys(c, &q, &a);
}

/* Connected, an export open, and the key of its first segment. */
const char *begin(struct conn *c, const char *name)
{
	return conn_connect(c) ?: try_open(c, name, 0, OK) ?: get_keys(c, 0, 1, 0);
}

const char *ping(struct conn *c, u32 len)
{
	struct msg q, a;
	const char *why;

	header(&q, PING, HEADER + len, ++c->tag);
	for (u32 i = 0; i < len; i++)
		q.b[HEADER + i] = pattern(c->tag + i);
	why = call(c, &q, &a, SOON);
	if (!why && (a.len != q.len || memcmp(a.b + HEADER, q.b + HEADER, len)))
		why = bad("PING of %u bytes: other ones came back", len);
	return why;
}

/* A request that fails with that status, and changes nothing. */
const char *fails(struct conn *c, const struct msg *q, u32 status)
{
	struct msg a;
	const char *why = call(c, q, &a, SOON);
	u32 got;

	if (why)
		return why;
	got = get(&a, 2, 2);
	return got == status ? NULL : bad("status %u, not %u", got, status);
}

const char *say_bye(struct conn *c)
{
	struct msg q;

	request(c, &q, BYE);
	return send_msg(c, &q) ?: ends(c, -1, SOON);
}

const char *within(s64 since, int least, int most)
{
	s64 took = now_ms() - since;

	most = patience(most);
	return took >= least && took <= most ?
		       NULL :
		       bad("after %ld ms, not %d to %d", (long)took, least, most);
}

const char *kill_exporter(const char *name)
{
	const char *command = bad("%s %s", kill_command, name);

	return system(command) ? bad("'%s' failed", command) : NULL;
}

/* One attempt. */
const char *attempt(attempt_fn fn, const void *arg)
{
	struct conn c;
	const char *why;

	conn_init(&c);
	why = fn(&c, arg);
	conn_end(&c);
	return why;
}

/* Waits for a RECALL of the first segment, that is asked because of the second. */
const char *until_recall(struct conn *c, const char *name, struct msg *recall)
{
	const char *why;
	struct msg q;

	c->polite = false;
	why = begin(c, name);
	segs_request(c, &q, 1, 1, 0);
	why = why ?: send_msg(c, &q);
	if (why || !receive(c, recall, SOON))
		return why ?: "no RECALL";
	if (recall->b[0] != RECALL || memcmp(recall->b + 16, q.b + 16, 8) || recall->len != 32 ||
	    get(recall, 24, 8))
		return bad("type %#x instead of RECALL, or not of segment 0", recall->b[0]);
	return NULL;
}

/* ---- as it should be ---- */

static const char *list_all(struct conn *c)
{
	u32 seen[8] = { 0 }, entries = 0;
	struct msg q, a;
	u64 cursor = 0;
	const char *why;

	do {
		request(c, &q, LIST);
		put(&q, 16, 8, cursor);
		why = call(c, &q, &a, SOON);
		if (why || get(&a, 2, 2))
			return why ?: bad("LIST: status %u", (u32)get(&a, 2, 2));
		cursor = get(&a, 16, 8);
		for (u32 i = 0; i < (a.len - 24) / 80; i++) {
			const char *name = (char *)a.b + 40 + 80 * i;

			/* Those of messages go with the feature. */
			if (get(&a, 32 + 80 * i, 4) & ~(READ | WRITE | ATOMIC))
				return bad("'%s' has rights that were not negotiated", name);
			if (!strcmp(name, "full"))
				return "it shows what can't be opened";
			entries++;
			seen[0] += !strcmp(name, "data") &&
				   get(&a, 24 + 80 * i, 8) == DATA_LENGTH &&
				   get(&a, 32 + 80 * i, 4) == (READ | WRITE);
			seen[1] += !strcmp(name, "ro") && get(&a, 32 + 80 * i, 4) == READ;
			if (!strncmp(name, "more", 4))
				seen[2 + (name[4] - '0') % 6]++;
		}
	} while (cursor && entries < 100);
	for (u32 i = 0; i < ARRAY_SIZE(seen); i++)
		if (seen[i] != 1)
			return bad("of %u entries, number %u came %u times", entries, i, seen[i]);
	return entries > 12 ? NULL : bad("only %u entries", entries);
}

/*
 * Move the bytes of [at, at + len), as far as one segment has them. All of an export can
 * take longer than a heartbeat may wait for its reply.
 */
static const char *move_piece(struct conn *c, bool write, u64 at, u32 *len)
{
	u64 index = at >> c->shift, inside = at - (index << c->shift);
	enum ibv_wc_status status;
	struct msg beat;
	const char *why;
	u32 k;

	receive(c, &beat, 0);

	for (k = 0; k < c->keys && c->key[k].index != index; k++)
		;
	if (k == c->keys) {
		why = get_keys(c, index, 1, 3);
		if (why)
			return why;
		for (k = 0; k < c->keys && c->key[k].index != index; k++)
			;
		if (k == c->keys)
			return bad("no key for segment %lu", index);
	}
	if (*len > c->key[k].length - inside)
		*len = c->key[k].length - inside;
	status = move(c, write, 0, *len, c->key[k].address + inside, c->key[k].rkey);
	return status ? bad("%s of %u bytes at %lu: %s", write ? "WRITE" : "READ", *len, at,
			    ibv_wc_status_str(status)) :
			NULL;
}

static const char *fill(struct conn *c)
{
	const char *why = NULL;
	u32 len;

	for (u64 at = 0; at < c->length && !why; at += len) {
		len = c->length - at < DATA_SIZE ? c->length - at : DATA_SIZE;
		for (u32 i = 0; i < len; i++)
			c->data[i] = pattern(at + i);
		why = move_piece(c, true, at, &len);
	}
	return why;
}

static const char *verify(struct conn *c)
{
	const char *why = NULL;
	u32 len;

	for (u64 at = 0; at < c->length && !why; at += len) {
		len = c->length - at < DATA_SIZE ? c->length - at : DATA_SIZE;
		memset(c->data, 0, len);
		why = move_piece(c, false, at, &len);
		for (u32 i = 0; i < len && !why; i++)
			if (c->data[i] != pattern(at + i))
				why = bad("byte %lu is %#x, not %#x", at + i, c->data[i],
					  pattern(at + i));
	}
	return why;
}

const char *verify_data(struct conn *c, const void *arg)
{
	return conn_connect(c) ?: try_open(c, "data", READ, OK) ?: verify(c) ?: say_bye(c);
}

const char *close_grant(struct conn *c)
{
	struct msg q, a;
	const char *why;

	request(c, &q, CLOSE);
	why = call(c, &q, &a, SOON);
	if (!why && get(&a, 2, 2))
		why = bad("CLOSE: status %u", (u32)get(&a, 2, 2));
	if (why)
		return why;
	return fails(c, &q, STALE);
}

/* A CLOSE while a SEGS is under way: both get a reply. */
static const char *close_behind_segs(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	struct msg segs, q, a;
	u32 replies = 0;

	segs_request(c, &segs, 0, 1, 31);
	request(c, &q, CLOSE);
	why = why ?: send_msg(c, &segs) ?: send_msg(c, &q);
	while (!why && replies < 2 && receive(c, &a, SOON))
		replies += a.b[0] == (REPLY | SEGS) ||
			   (a.b[0] == (REPLY | CLOSE) && !get(&a, 2, 2));
	return why ?: replies < 2 ? bad("%u replies", replies) : say_bye(c);
}

/* Reports that no target can check; what it shows of them is status.sh's. */
static const char *reports(struct conn *c, const void *arg)
{
	static const u64 numbers[] = { 1000, 0, ~0ULL, 5, ~0ULL };
	struct msg q, a;
	const char *why;

	c->usages = true;
	why = begin(c, "data");
	for (u32 i = 0; i < ARRAY_SIZE(numbers) && !why; i++) {
		request(c, &q, USAGE);
		for (u32 at = 24; at < 56; at += 8)
			put(&q, at, 8, numbers[i]);
		/* One that there is not. */
		if (i == 3)
			put(&q, 20, 4, c->generation + 1);
		why = call(c, &q, &a, SOON);
		if (!why && get(&a, 2, 2))
			why = bad("status %u", (u32)get(&a, 2, 2));
	}
	request(c, &q, CLOSE);
	q.len = 56;
	put(&q, 4, 4, q.len);
	why = why ?: call(c, &q, &a, SOON);
	if (!why && get(&a, 2, 2))
		why = bad("CLOSE: status %u", (u32)get(&a, 2, 2));
	return why ?: say_bye(c);
}

/* Requests until the credits are used up, while a SEGS waits for a RECALL. */
static const char *all_credits(struct conn *c, const void *arg)
{
	const char *why;
	struct msg q, a;

	c->polite = false;
	why = begin(c, "tight");
	for (u32 i = 0; !why && i < c->credits; i++) {
		segs_request(c, &q, 1, 1, 0);
		why = send_msg(c, &q);
	}
	if (why || !receive(c, &a, SOON) || a.b[0] != RECALL)
		return why ?: "no RECALL";
	c->polite = true;
	reply_politely(c, &a);
	for (u32 i = 0; !why && i < c->credits; i++)
		why = receive(c, &a, SOON) ? take_keys(c, &q, &a) : bad("%u replies", i);
	return why ?: say_bye(c);
}

static void well_behaved(void)
{
	struct ibv_send_wr beats[] = { { .opcode = IBV_WR_RDMA_WRITE },
				       { .opcode = IBV_WR_RDMA_READ } };
	const char *why;
	struct conn c;
	u64 segments;
	u32 grant;

	conn_init(&c);
	put_bytes(c.hello + 8, 8, ~15ULL); /* MESSAGES, USAGES, PLACES and GROWS are known */
	why = conn_connect(&c);
	result(why, "connect, with features that nobody knows");
	if (why)
		goto out;
	result(ping(&c, 0) ?: ping(&c, 5) ?: ping(&c, 512), "PING of 0, 5 and 512 bytes");
	result(list_all(&c), "LIST shows all exports that can be opened, once each");
	result(try_open(&c, "data", 0, OK), "OPEN");
	result(c.length == DATA_LENGTH && c.rights == (READ | WRITE) ? NULL : "it is not",
	       "the export is what it should be");
	segments = ((c.length - 1) >> c.shift) + 1;
	result(get_keys(&c, 0, 1, 31)     ?:
		       c.keys == segments ? NULL :
					    bad("%u keys for %lu segments", c.keys, segments),
	       "SEGS gives the key of one segment, and of all behind it");
	result(get_keys(&c, segments - 1, 1, 5), "SEGS of the last segment");
	result(fill(&c), "WRITE of all bytes");
	result(verify(&c), "READ gives the same bytes");
	result(rdma_op(&c, &beats[0], 0, 0) ? "it failed" : NULL, "WRITE of no bytes, with no key");
	if (iwarp)
		skip("siw responds to it with bytes of something else",
		     "READ of no bytes, with no key");
	else
		result(rdma_op(&c, &beats[1], 0, 0) ? "it failed" : NULL,
		       "READ of no bytes, with no key");
	grant = c.grant;
	result(try_open(&c, "data", READ, OK) ?:
		       c.grant == grant       ? "the same grant" :
						NULL,
	       "the same export once more, to read");
	result(close_grant(&c), "CLOSE, and once more");
	result(try_open(&c, "tight", 0, OK) ?:
		       fill(&c)             ?:
		       verify(&c)           ?:
		       c.recalls < 2        ? bad("%u RECALLs", c.recalls) :
					      NULL,
	       "an export with one key at a time: RECALLs get replies, bytes arrive");
	result(close_grant(&c), "CLOSE of it");
	result(say_bye(&c), "BYE: the target disconnects");
out:
	conn_end(&c);
	result(attempt(close_behind_segs, NULL), "CLOSE while a SEGS is under way");
	result(attempt(reports, NULL), "reports that go back, or are of no grant, end nothing");
	result(attempt(all_credits, NULL),
	       "as many requests as there are credits, each with a reply");
}

/* The session beside. */
static _Atomic bool beside_stop;
static u32 beside_rounds;

static const char *beside(struct conn *c, const void *arg)
{
	const char *why = begin(c, "good");
	u32 len = 8192, got;

	while (!why && !beside_stop) {
		u64 at = (beside_rounds * 77777ULL) % (c->length - len);

		for (u32 i = 0; i < len; i++)
			c->data[i] = pattern(beside_rounds + i);
		got = len;
		why = move_piece(c, true, at, &got);
		memset(c->data, 0, len);
		why = why ?: move_piece(c, false, at, &got);
		for (u32 i = 0; i < got && !why; i++)
			if (c->data[i] != pattern(beside_rounds + i))
				why = bad("round %u: wrong bytes", beside_rounds);
		why = why ?: ping(c, beside_rounds % 500);
		beside_rounds++;
		/* Leave the processor to the others. */
		pump(c, now_ms() + 20);
	}
	return why ?: say_bye(c);
}

/* ---- what takes its time, all at once ---- */

static const char *never_recall(struct conn *c, const void *arg)
{
	struct msg q;
	const char *why = until_recall(c, "tight2", &q);
	s64 since = now_ms();

	return why ?: ends(c, TIMEOUT, slower(20000)) ?: within(since, slower(7000), slower(15000));
}

static const char *never_revoke(struct conn *c, const void *arg)
{
	const char *why;
	struct msg q;
	s64 since;

	c->polite = false;
	why = begin(c, "gone2") ?: kill_exporter("gone2");
	if (why || !receive(c, &q, SOON) || !whole_grant(&q))
		return why ?: "no RECALL of the grant";
	since = now_ms();
	return ends(c, TIMEOUT, slower(20000)) ?: within(since, slower(7000), slower(15000));
}

/* With credits for two RECALLs at a time of twelve, each in time. */
static const char *never_all(struct conn *c, const void *arg)
{
	struct msg q[2], a;
	const char *why;
	s64 since, then;
	u32 n;

	c->polite = false;
	put_bytes(c->hello + 36, 2, ARRAY_SIZE(q));
	why = conn_connect(c);
	for (u32 i = 0; i < 12 && !why; i++)
		why = try_open(c, "gone7", 0, OK);
	why = why ?: kill_exporter("gone7");
	since = now_ms();
	while (!why && now_ms() < since + slower(40000)) {
		then = now_ms() + slower(7000);
		for (n = 0; receive(c, &a, then - now_ms()); q[n++] = a) {
			if (a.b[0] == BYE && get(&a, 16, 4) == TIMEOUT)
				return within(since, slower(15000), slower(30000));
			if (!whole_grant(&a) || n == ARRAY_SIZE(q))
				return bad("type %#x", a.b[0]);
		}
		while (n && !why) {
			n--;
			request(c, &a, REPLY | RECALL);
			memcpy(a.b + 8, q[n].b + 8, 4);
			why = send_msg(c, &a);
		}
	}
	return why ?: "the session goes on";
}

/* An OPEN to be exclusive. The argument is the status that it has. */
static const char *open_exclusive(struct conn *c, const void *arg)
{
	const char *why = conn_connect(c);
	struct msg q;

	open_request(c, &q, "taken", 0);
	put(&q, 20, 4, 6);
	return why ?: fails(c, &q, *(const u32 *)arg) ?: say_bye(c);
}

/* Another one takes over what it has open: it is ended, and the other one has it then. */
static const char *never_give_way(struct conn *c, const void *arg)
{
	static const u32 ok = OK, busy = BUSY;
	const char *why;
	struct msg q;
	s64 since;

	c->polite = false;
	why = begin(c, "taken") ?: attempt(open_exclusive, &busy);
	if (why || !receive(c, &q, SOON) || !whole_grant(&q))
		return why ?: "no RECALL of the grant";
	since = now_ms();
	why = attempt(open_exclusive, &busy)          ?:
		      ends(c, TIMEOUT, slower(20000)) ?:
							within(since, slower(7000), slower(15000));
	if (why)
		return why;
	/* When it is taken down there. */
	since = now_ms();
	do {
		why = attempt(open_exclusive, &ok);
	} while (why && now_ms() < since + slower(10000));
	return why;
}

/* One keeps the only segment: it is ended, and the peer that waits for it gets a key. */
static const char *starved(struct conn *c, const void *arg)
{
	struct conn other;
	const char *why;

	conn_init(&other);
	other.polite = false;
	why = begin(&other, "tight4")              ?:
		      conn_connect(c)              ?:
		      try_open(c, "tight4", 0, OK) ?:
		      get_keys(c, 1, 1, 0)         ?:
						     ends(&other, TIMEOUT, SOON);
	conn_end(&other);
	return why;
}

static const char *too_many_at_once(struct conn *c, const void *arg)
{
	const char *why = begin(c, "tight3");
	struct msg q, a;

	segs_request(c, &q, 0, 2, 0);
	why = why ?: call(c, &q, &a, slower(30000));
	if (!why && get(&a, 2, 2) != LIMIT)
		why = bad("status %u", (u32)get(&a, 2, 2));
	/* What is only ahead costs no RECALL. */
	segs_request(c, &q, 1, 0, 1);
	why = why ?: call(c, &q, &a, slower(30000));
	if (!why && (get(&a, 2, 2) || a.len != HEADER))
		why = bad("ahead: status %u, %u bytes", (u32)get(&a, 2, 2), a.len);
	return why ?: get_keys(c, 1, 1, 0);
}

static const char *flood(struct conn *c, const void *arg)
{
	s64 since;
	struct msg q;
	const char *why;

	c->no_receives = true;
	c->rnr_timer = 0; /* 655 ms: as long as can be */
	why = conn_connect(c);
	since = now_ms();
	for (u32 i = 0; i < 300 && !why; i++) {
		request(c, &q, PING);
		why = send_msg(c, &q);
	}
	return why ?: ends(c, -1, 20000) ?: within(since, 0, 15000);
}

static const char *silent_adapter(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	s64 since = now_ms();

	conn_break(c);
	return why ?: ends(c, -1, 20000) ?: within(since, 0, 15000);
}

/* iWARP's kind of silence. */
static const char *no_heartbeat(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	s64 since = now_ms();

	c->deaf = true;
	return why ?: ends(c, TIMEOUT, slower(20000)) ?: within(since, slower(4000), slower(15000));
}

/* Like a peer that has not received the PING, nor what was sent before it. */
static const char *guessed_fence(struct conn *c, const void *arg)
{
	const char *why = conn_connect(c) ?: try_open(c, "data", 0, OK) ?: get_keys(c, 0, 1, 0);
	struct msg q;

	c->guesses = true;
	if (why)
		return why;
	request(c, &q, CLOSE);
	return send_msg(c, &q) ?: ends(c, NO_ROOM, slower(20000));
}

static const char *no_reads(struct conn *c, const void *arg)
{
	const char *why;

	c->reads = 0;
	why = conn_connect(c);
	if (why || ends(c, -1, 12500) == NULL)
		return NULL;
	return ping(c, 2);
}

static const enum crowd half_open = HALF_OPEN, silent = SILENT, quiet = QUIET;

static struct slow {
	const char *name;
	attempt_fn fn;
	const void *arg;
	const char *no_iwarp; /* why not there */
	bool only_iwarp;
	bool runs;
	pthread_t thread;
} slow[] = {
	{ "RECALL that never gets a reply: BYE TIMEOUT in time", never_recall },
	{ "RECALL of a grant that never gets a reply: BYE TIMEOUT in time", never_revoke },
	{ "RECALLs of twelve grants, two at a time, each with a late reply: BYE TIMEOUT in time",
	  never_all },
	{ "joins that never complete, and SEGS of their path: a grant is recalled in time",
	  joins_for_ever, .no_iwarp = "on iWARP the accept establishes them" },
	{ "one that does not give way: BYE TIMEOUT in time, then another has it", never_give_way },
	{ "RECALL that never gets a reply: the peer that waits for the segment gets its key",
	  starved },
	{ "SEGS of more segments than can be registered at a time: LIMIT", too_many_at_once },
	{ "300 requests and no receives: ended within 15 s", flood },
	{ "an adapter that falls silent: ended within 15 s", silent_adapter,
	  .no_iwarp = "on iWARP the error state ends the stream, which is no silence" },
	{ "PING that never gets a reply: BYE TIMEOUT in time", no_heartbeat, .only_iwarp = true },
	{ "CLOSE, and a reply to the fence that only guesses: BYE LIMIT", guessed_fence,
	  .only_iwarp = true },
	{ "no responder resources: refused, ended or served", no_reads },
	{ "25 connects that never complete: ended after 10 s", crowd, &half_open,
	  .no_iwarp = "on iWARP the accept establishes them" },
	{ "25 connections without a message: they live", crowd, &silent,
	  .no_iwarp = "on iWARP who connected has to be the first to send" },
	{ "25 connections without a message: ended in time", crowd, &silent, .only_iwarp = true },
	{ "25 connections that only reply: they live", crowd, &quiet, .only_iwarp = true },
	{ "the session beside goes on, with the right bytes", beside },
};

static void *slow_thread(void *arg)
{
	struct slow *s = arg;

	result(attempt(s->fn, s->arg), "%s", s->name);
	return NULL;
}

int initiator_main(void)
{
	u32 i;

	well_behaved();
	for (i = 0; i < ARRAY_SIZE(slow); i++) {
		struct slow *s = &slow[i];

		if (iwarp && s->no_iwarp)
			skip(s->no_iwarp, "%s", s->name);
		s->runs = iwarp ? !s->no_iwarp : !s->only_iwarp;
		if (s->runs)
			pthread_create(&s->thread, NULL, slow_thread, s);
	}

	misbehave();
	for (i = 0; i < ARRAY_SIZE(slow) - 1; i++)
		if (slow[i].runs)
			pthread_join(slow[i].thread, NULL);
	beside_stop = true;
	pthread_join(slow[i].thread, NULL);
	result(beside_rounds > 20 ? NULL : bad("%u rounds", beside_rounds),
	       "it made more than 20 rounds");
	result(attempt(verify_data, NULL), "after all that, every byte is as it was written");
	return results_end();
}
