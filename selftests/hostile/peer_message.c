// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator that sends messages, correct ones and violations. The target reads
 * "messages" as fast as messages come, and never reads "full".
 */
#include "peer.h"

/* What the module has room for in a message queue. */
#define ROOM 256
#define DATA 4096

static void message(struct conn *c, struct msg *m, u32 tag, u64 value, u32 len)
{
	request(c, m, MESSAGE);
	m->len = 40 + len;
	put(m, 4, 4, m->len);
	put(m, 8, 4, tag);
	put(m, 24, 8, value);
	for (u32 i = 0; i < len; i++)
		m->b[40 + i] = pattern(value + i);
}

static const char *begin_messages(struct conn *c, const char *name)
{
	c->messages = true;
	return conn_connect(c) ?: try_open(c, name, 0, OK);
}

/* In LIST: "messages" with the right, and "full" with no other. */
static const char *list_messages(struct conn *c, const void *arg)
{
	const char *why = begin_messages(c, "messages");
	u64 cursor = 0, fast = 0, full = 0;
	struct msg q, a;

	do {
		request(c, &q, LIST);
		put(&q, 16, 8, cursor);
		why = why ?: call(c, &q, &a, SOON);
		if (why)
			return why;
		cursor = get(&a, 16, 8);
		for (u32 i = 0; i < (a.len - 24) / 80; i++) {
			const char *name = (char *)a.b + 40 + 80 * i;

			if (!strcmp(name, "messages"))
				fast = get(&a, 32 + 80 * i, 4);
			else if (!strcmp(name, "full"))
				full = get(&a, 32 + 80 * i, 4);
		}
	} while (cursor);
	if (fast != (READ | WRITE | MSGS) || full != MSGS)
		return bad("the rights are %#lx and %#lx", fast, full);
	return say_bye(c);
}

/* Goes through replies, which free credits; an entry for each credit. Until none comes. */
static const char *replies(struct conn *c, u64 *taken, u32 *status, int ms)
{
	struct msg a;

	while (receive(c, &a, ms)) {
		if (a.b[0] != (REPLY | MESSAGE))
			return bad("type %#x", a.b[0]);
		if (get(&a, 8, 4) != get(&a, 16, 4))
			return "the tag is not that of the first entry";
		for (u32 i = 0; i < (a.len - 16) / 8; i++) {
			u32 tag = get(&a, 16 + 8 * i, 4);

			if (!tag || tag > c->message_credits || !(*taken & 1ULL << (tag - 1)))
				return bad("a reply for tag %u, where no message is", tag);
			if (get(&a, 22 + 8 * i, 2))
				return "reserved bytes are not zero";
			*taken &= ~(1ULL << (tag - 1));
			status[get(&a, 20 + 8 * i, 2) % 16]++;
		}
		if (!*taken)
			return NULL;
		ms = SOON;
	}
	return c->down ? "the session has ended" : NULL;
}

/* One message, and what its entry says. */
static const char *tells(struct conn *c, struct msg *m, u32 want)
{
	u64 taken = 1ULL << (get(m, 8, 4) - 1);
	u32 status[16] = { 0 };
	const char *why = send_msg(c, m) ?: replies(c, &taken, status, SOON);

	if (!why && (taken || !status[want]))
		return taken ? "it gets no reply" : bad("not status %u", want);
	return why;
}

static const char *good_messages(struct conn *c, const void *arg)
{
	static const u32 lengths[] = { 0, 1, 41, 984, 985, DATA };
	const char *why = begin_messages(c, "messages");
	u32 status[16] = { 0 }, i, n;
	struct msg m;
	u64 taken = 0;

	for (i = 0; !why && i < ARRAY_SIZE(lengths); i++) {
		message(c, &m, 1 + i % c->message_credits, i, lengths[i]);
		why = tells(c, &m, OK);
	}
	/* All credits, over and over. */
	for (n = 0; !why && n < 500;) {
		for (i = 0; !why && i < c->message_credits; i++) {
			if (taken & 1ULL << i)
				continue;
			taken |= 1ULL << i;
			message(c, &m, i + 1, n, n % DATA);
			n++;
			why = send_msg(c, &m);
			/* Few buffers to send from. */
			while (!why && c->tx_posted - c->tx_done >= TX_COUNT && !c->down)
				pump(c, now_ms() + SOON);
		}
		why = why ?: replies(c, &taken, status, SOON);
	}
	if (!why && status[OK] != n)
		why = bad("%u of %u are OK", status[OK], n);
	return why ?: ping(c, 5) ?: say_bye(c);
}

static const char *refused_messages(struct conn *c, const void *arg)
{
	const char *why = begin_messages(c, "messages");
	struct msg m;

	message(c, &m, 1, 0, 8);
	put(&m, 16, 4, c->grant + 1000);
	why = why ?: tells(c, &m, STALE);
	message(c, &m, 1, 0, 8);
	put(&m, 20, 4, c->generation + 1);
	why = why ?: tells(c, &m, STALE);
	/* One behind a WRITE, without the right to write: the next is as before. */
	why = why ?: try_open(c, "messages", READ | MSGS, OK);
	message(c, &m, 3, 0, 0);
	put(&m, 32, 4, 1);
	why = why ?: tells(c, &m, ACCES);
	message(c, &m, 3, 0, 8);
	why = why ?: tells(c, &m, OK);
	/* Without the right to send messages, and with neither. */
	why = why ?: try_open(c, "data", 0, OK);
	message(c, &m, 2, 0, 8);
	why = why ?: tells(c, &m, ACCES);
	put(&m, 20, 4, c->generation + 1);
	why = why ?: tells(c, &m, STALE);
	why = why ?: try_open(c, "data", READ, OK);
	message(c, &m, 2, 0, 0);
	put(&m, 32, 4, 1);
	why = why ?: tells(c, &m, ACCES);
	why = why ?: close_grant(c) ?: tells(c, &m, STALE);
	return why ?: ping(c, 5) ?: say_bye(c);
}

static const char *no_keys(struct conn *c, const void *arg)
{
	const char *why;
	struct msg q;

	c->messages = true;
	why = conn_connect(c) ?: try_open(c, "full", MSGS, OK);
	segs_request(c, &q, 0, 1, 0);
	if (why)
		return why;
	why = fails(c, &q, ACCES);
	request(c, &q, DIGEST);
	why = why ?: fails(c, &q, ACCES);
	request(c, &q, FLUSH);
	return why ?: fails(c, &q, ACCES);
}

/* All credits, until no more get a reply: @taken. */
static const char *fill(struct conn *c, u64 *taken, u32 *accepted)
{
	const char *why = begin_messages(c, "full");
	u64 all = c->message_credits < 64 ? (1ULL << c->message_credits) - 1 : ~0ULL;
	u32 status[16] = { 0 }, i;
	struct msg m;

	for (*taken = 0; !why && *taken != all;) {
		for (i = 0; !why && i < c->message_credits; i++) {
			if (*taken & 1ULL << i)
				continue;
			*taken |= 1ULL << i;
			message(c, &m, i + 1, i, DATA);
			why = send_msg(c, &m);
			while (!why && c->tx_posted - c->tx_done >= TX_COUNT && !c->down)
				pump(c, now_ms() + SOON);
		}
		why = why ?: replies(c, taken, status, slower(2000));
		if (status[OK] > 20 * ROOM)
			return "there is room without end";
	}
	*accepted = status[OK];
	return why;
}

static const char *filled(struct conn *c, const void *arg)
{
	const char how = *(const char *)arg;
	u32 accepted;
	struct msg m;
	u64 taken;
	const char *why = fill(c, &taken, &accepted);

	if (why)
		return why;
	switch (how) {
	case 'g': /* all else goes on */
		return ping(c, 100) ?: try_open(c, "data", 0, OK) ?: get_keys(c, 0, 1, 0);
	case 't': /* one with a credit that is taken */
		message(c, &m, 1, 0, 1);
		return send_msg(c, &m) ?: ends(c, PROTOCOL, SOON);
	case 'c': { /* the grant is closed: those that are held have their reply */
		u32 status[16] = { 0 };

		request(c, &m, CLOSE);
		why = send_msg(c, &m);
		while (!why && taken) {
			struct msg a;

			if (!receive(c, &a, SOON))
				return "held messages get no reply";
			if (a.b[0] != (REPLY | MESSAGE))
				continue;
			for (u32 i = 0; i < (a.len - 16) / 8; i++) {
				taken &= ~(1ULL << (get(&a, 16 + 8 * i, 4) - 1));
				status[get(&a, 20 + 8 * i, 2) % 16]++;
			}
		}
		if (!why && status[STALE] != c->message_credits)
			why = bad("%u are STALE", status[STALE]);
		return why ?: ping(c, 5);
	}
	default: /* the end of the session, without a word */
		return NULL;
	}
}

static const struct patch wrong[] = {
	{ "MESSAGE with tag 0", MESSAGE, 8, 4, 0 },
	{ "MESSAGE with tag 65", MESSAGE, 8, 4, 65 },
	{ "MESSAGE with tag 2^32 - 1", MESSAGE, 8, 4, 0xffffffff },
	{ "MESSAGE of grant 0", MESSAGE, 16, 4, 0 },
	{ "MESSAGE of generation 0", MESSAGE, 20, 4, 0 },
	{ "MESSAGE with an unknown flag", MESSAGE, 32, 4, 2 },
	{ "the reserved number of a MESSAGE", MESSAGE, 36, 4, 1 },
	{ "MESSAGE of 39 bytes", MESSAGE, .len = 39, .fix = true },
	{ "MESSAGE that says it has 4136 bytes", MESSAGE, 4, 4, 4136 },
	{ "MESSAGE of 4136 bytes that says it has 40", MESSAGE, .len = 4136 },
	{ "PING of 4136 bytes", PING, .len = 4136, .fix = true },
	{ "a reply to a MESSAGE never sent", REPLY | MESSAGE },
	{ "a reply to no MESSAGE", REPLY | MESSAGE, .len = 16, .fix = true },
};

static const char *wrong_message(struct conn *c, const void *arg)
{
	const struct patch *patch = arg;
	const char *why = begin_messages(c, "messages");
	struct msg m;

	request(c, &m, patch->type);
	if (patch->type == MESSAGE)
		put(&m, 8, 4, 1);
	apply(&m, patch);
	return why ?: send_msg(c, &m) ?: ends(c, PROTOCOL, SOON);
}

static const char *long_message(struct conn *c, const void *arg)
{
	const char *why = begin_messages(c, "messages");
	struct msg m;

	message(c, &m, 1, 0, DATA + 1);
	return why ?: send_msg(c, &m) ?: ends(c, -1, SOON);
}

static const char *no_feature(struct conn *c, const void *arg)
{
	const char *why = begin(c, "data");
	struct msg m;

	message(c, &m, 1, 0, 8);
	return why                                                ?:
		       try_open(c, "messages", MSGS, UNSUPPORTED) ?:
		       send_msg(c, &m)                            ?:
								    ends(c, PROTOCOL, SOON);
}

void messages(void)
{
	static const char how[] = { 'e', 'g', 't', 'c' };
	static const char *const names[] = {
		"a message queue that is full: the session ends",
		"a message queue that is full: all else goes on",
		"a message queue that is full: a message with a credit that is taken",
		"a message queue that is full: CLOSE, and held messages are STALE",
	};
	u32 i;

	result(attempt(list_messages, NULL), "LIST tells of messages");
	result(attempt(good_messages, NULL), "messages are taken, each with one reply");
	result(attempt(refused_messages, NULL),
	       "messages of other grants: STALE; without the right: ACCES");
	result(attempt(no_keys, NULL),
	       "SEGS, DIGEST and FLUSH of a grant for messages alone: ACCES");
	for (i = 0; i < ARRAY_SIZE(how); i++)
		result(attempt(filled, &how[i]), "%s", names[i]);
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		result(attempt(wrong_message, &wrong[i]), "%s", wrong[i].name);
	result(attempt(long_message, NULL), "MESSAGE of 4097 bytes of data");
	result(attempt(no_feature, NULL), "MESSAGE without the feature");
}
