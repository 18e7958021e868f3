// SPDX-License-Identifier: GPL-2.0
/*
 * The side that accepts, and misbehaves: one port for each way to. What krdma
 * is to be told to do there, and how it has to end, is what "peer cases" prints
 * for 60-peer.sh. For each connection that ends a line says how it did:
 *
 *	end NAME bye REASON|lost answered COUNT
 */
#include "peer.h"

#define LENGTH 100000
#define SHIFT  14

/* What a patch is of, beside messages. */
#define ACCEPT 0xf0
#define REJECT 0xf1

struct owner_case;
typedef void (*twist_fn)(struct conn *c, const struct msg *q, struct msg *a);

enum how { NORMAL, IGNORE, DROP, NO_RECEIVES };

static const struct owner_case {
	const char *name;
	/* ls, put, ping; verify: put and get; twice: put, and once more */
	const char *command;
	u8 status;
	u8 limit; /* seconds */
	const char *says; /* regular expression */
	const char *end; /* the same, of the line that tells how it ended */
	struct patch patch; /* of an answer */
	u8 on; /* the question at which this is done: */
	twist_fn twist;
	u64 arg;
	enum how how;
} *find_case(const struct conn *c);

/* ---- what is done ---- */

static void nothing(struct conn *c, const struct msg *q, struct msg *a)
{
	a->len = 0;
}

static void status(struct conn *c, const struct msg *q, struct msg *a)
{
	header(a, q->b[0] | ANSWER, HEADER, get(q, 8, 4));
	put(a, 2, 2, find_case(c)->arg);
}

static void twice(struct conn *c, const struct msg *q, struct msg *a)
{
	send_msg(c, a);
}

static void long_segments(struct conn *c, const struct msg *q, struct msg *a)
{
	put(a, 16, 8, 1ULL << 33);
	put(a, 36, 4, 32);
}

static void one_id(struct conn *c, const struct msg *q, struct msg *a)
{
	if (q->b[0] == CLOSE)
		a->len = 0;
	else
		put(a, 28, 4, 5);
}

static void entries(struct conn *c, const struct msg *q, struct msg *a)
{
	u32 n = find_case(c)->arg;

	for (u32 i = 1; i < n; i++)
		memcpy(a->b + 32 + 80 * i, a->b + 32, 80);
	a->len = 32 + 80 * n;
	put(a, 4, 4, a->len);
	put(a, 24, 4, n);
}

static void endless(struct conn *c, const struct msg *q, struct msg *a)
{
	put(a, 16, 8, get(q, 16, 8) + 1);
	if (find_case(c)->arg)
		return;
	a->len = 32;
	put(a, 4, 4, 32);
	put(a, 24, 4, 0);
}

/* Another number of keys than was asked for, or the last one in another place. */
static void segments(struct conn *c, const struct msg *q, struct msg *a)
{
	u32 n = get(q, 32, 4) + get(q, 36, 4) + 1;

	if (find_case(c)->arg == 0)
		n = 0;
	for (u32 i = 1; i < n; i++) {
		memcpy(a->b + 32 + 24 * i, a->b + 32, 24);
		put(a, 32 + 24 * i, 8, get(q, 24, 8) + i + (find_case(c)->arg == 2 ? 1 : 0));
		put(a, 40 + 24 * i, 8, get(a, 40, 8) + (i << SHIFT));
	}
	if (find_case(c)->arg == 2 && n > 2)
		n--;
	a->len = 32 + 24 * n;
	put(a, 4, 4, a->len);
	put(a, 24, 4, n);
}

/* The owner's own questions, and messages that are none; before the answer. */
static void say(struct conn *c, const struct msg *q, struct msg *a)
{
	u32 grant = c->grant, generation = c->generation;
	struct msg m;

	if (q->b[0] == OPEN) {
		/* Not known yet: one that there is not. */
		c->grant = 999;
		c->generation = 999;
	}
	question(c, &m, find_case(c)->arg);
	c->grant = grant;
	c->generation = generation;
	if (find_case(c)->patch.name)
		apply(&m, &find_case(c)->patch);
	send_msg(c, &m);
}

static void say_window(struct conn *c, const struct msg *q, struct msg *a)
{
	for (u32 i = 0; i < c->window; i++)
		say(c, q, a);
}

static void immediate(struct conn *c, const struct msg *q, struct msg *a)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM };

	post_send(c, a, &wr);
	a->len = 0;
}

static void no_bytes(struct conn *c, const struct msg *q, struct msg *a)
{
	a->len = 0;
	send_msg(c, a);
}

static void send_length(struct conn *c, const struct msg *q, struct msg *a)
{
	a->len = find_case(c)->arg;
}

/* Give keys, and take them back at once; but only the first time. */
static void recall_given(struct conn *c, const struct msg *q, struct msg *a)
{
	struct msg r;

	if (c->recalls++)
		return;
	send_msg(c, a);
	question(c, &r, RECALL);
	put(&r, 32, 8, get(q, 24, 8));
	send_msg(c, &r);
	a->len = 0;
}

static void revoke_given(struct conn *c, const struct msg *q, struct msg *a)
{
	struct msg r;

	question(c, &r, REVOKE);
	send_msg(c, &r);
	header(a, q->b[0] | ANSWER, HEADER, get(q, 8, 4));
	put(a, 2, 2, STALE);
}

static void disconnect(struct conn *c, const struct msg *q, struct msg *a)
{
	if (find_case(c)->arg)
		send_msg(c, a);
	a->len = 0;
	rdma_disconnect(c->id);
	conn_break(c);
}

static void fall_silent(struct conn *c, const struct msg *q, struct msg *a)
{
	send_msg(c, a);
	while (c->tx_done < c->tx_posted && pump(c, now_ms() + 5000))
		;
	conn_break(c);
	a->len = 0;
}

/* A WRITE by the owner, which may not, with a key that is guessed. */
static void guess_key(struct conn *c, const struct msg *q, struct msg *a)
{
	send_msg(c, a);
	a->len = 0;
	move(c, true, 0, 64, 0, 0x101);
	rdma_disconnect(c->id);
}

#define VIOLATION "bye 6"
#define QUICK	  10
#define LINGERS	  "bye 0 answered 0"
#define A(type)	  (ANSWER | (type))

/* clang-format off */
static const struct owner_case cases[] = {
	{ "good", "verify", 0, QUICK, "", LINGERS },

	/* rejects and accepts */
	{ "reject-malformed", "ls", 1, QUICK, "malformed", "rejected", { "", REJECT, 5, 1, MALFORMED, 8 } },
	{ "reject-version", "ls", 1, QUICK, "version", "rejected", { "", REJECT, 5, 1, VERSION, 8 } },
	{ "reject-not-admitted", "ls", 1, QUICK, "not admitted", "rejected", { "", REJECT, 5, 1, NOT_ADMITTED, 8 } },
	{ "reject-limit", "ls", 1, QUICK, "limit", "rejected", { "", REJECT, 5, 1, NO_ROOM, 8 } },
	{ "reject-shutdown", "ls", 1, QUICK, "shut down", "rejected", { "", REJECT, 5, 1, SHUTDOWN, 8 } },
	{ "reject-reason-200", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 5, 1, 200, 8 } },
	{ "reject-later-version", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 4, 2, 0xc802, 8 } },
	{ "reject-version-0", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 4, 1, 0, 8 } },
	{ "reject-magic", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 0, 4, 0x12345678, 8 } },
	{ "reject-reserved", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 6, 2, 1, 8 } },
	{ "reject-short", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 0, 0, 0, 3 } },
	{ "reject-empty", "ls", 1, QUICK, ".", "rejected", { "", REJECT, 0, 0, 0, 0 } },
	{ "accept-magic", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 0, 4, 0x12345678 } },
	{ "accept-version-2", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 4, 1, 2 } },
	{ "accept-reserved", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 5, 1, 1 } },
	{ "accept-channel-1", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 6, 2, 1 } },
	{ "accept-feature", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 8, 8, 1 } },
	{ "accept-session", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 24, 8, 0x77777777 } },
	{ "accept-uid", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 32, 4, 1 } },
	{ "accept-window-1", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 36, 2, 1 } },
	{ "accept-window-257", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 36, 2, 257 } },
	{ "accept-msg-max-1023", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 38, 2, 1023 } },
	{ "accept-last-reserved", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 55, 1, 1 } },
	{ "accept-empty", "ls", 1, QUICK, ".", "lost|bye", { "", ACCEPT, 0, 0, 0, 1 } },
	{ "accept-window-2", "verify", 0, QUICK, "", LINGERS, { "", ACCEPT, 36, 2, 2 } },
	{ "accept-window-256", "verify", 0, QUICK, "", LINGERS, { "", ACCEPT, 36, 2, 256 } },
	{ "accept-never", "ls", 1, 15, ".", "ignored", .how = IGNORE },
	{ "accept-and-go", "ls", 1, QUICK, ".", "lost|bye", .how = DROP },
	{ "no-receives", "ls", 1, 15, ".", "lost|bye", .how = NO_RECEIVES },

	/* header of an answer, to LIST */
	{ "list-never", "ls", 1, 15, ".", "bye 7", .on = LIST, .twist = nothing },
	{ "list-tag", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 8, 4, 0x12345678 } },
	{ "list-tag-0", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 8, 4, 0 } },
	{ "list-type-question", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 1, LIST } },
	{ "list-type-ping", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 1, A(PING) } },
	{ "list-type-unknown", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 1, 0xc2 } },
	{ "list-reserved", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 1, 1, 1 } },
	{ "list-reserved-2", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 15, 1, 1 } },
	{ "list-status-9", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 2, 2, 9, HEADER, true } },
	{ "list-failed-payload", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 2, 2, NOMEM } },
	{ "list-length", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 4, 4, 111 } },
	{ "list-cut", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 0, 0, 40 } },
	{ "list-cut-15", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 0, 0, 15, true } },
	{ "list-cut-31", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 0, 0, 31, true } },
	{ "list-cut-111", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 0, 0, 111, true } },
	{ "list-1024", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 0, 0, 0, 1024 } },
	{ "list-1025", "ls", 1, QUICK, ".", "lost|bye", .on = LIST, .twist = send_length, .arg = 1025 },
	{ "list-0", "ls", 1, QUICK, ".", VIOLATION, .on = LIST, .twist = no_bytes },
	{ "list-twice", "ls", 0, QUICK, "", VIOLATION, .on = LIST, .twist = twice },
	{ "list-nomem", "ls", 1, QUICK, ".", LINGERS, .on = LIST, .twist = status, .arg = NOMEM },

	/* LIST */
	{ "list-count", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 24, 4, 2 } },
	{ "list-count-13", "ls", 1, QUICK, ".", "lost|bye", .on = LIST, .twist = entries, .arg = 13 },
	{ "list-count-12", "ls", 0, QUICK, "", LINGERS, .on = LIST, .twist = entries, .arg = 12 },
	{ "list-entry-0", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 32, 8, 0 } },
	{ "list-entry-rights", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 40, 4, 8 } },
	{ "list-entry-reserved", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 44, 4, 1 } },
	{ "list-entry-no-name", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 48, 1, 0 } },
	{ "list-entry-escape", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 49, 1, 27 } },
	{ "list-entry-behind", "ls", 1, QUICK, ".", VIOLATION, { "", A(LIST), 111, 1, 'x' } },
	{ "list-endless", "ls", 1, 20, ".", ".", .on = LIST, .twist = endless, .arg = 1 },
	{ "list-endless-empty", "ls", 1, 20, ".", ".", .on = LIST, .twist = endless },

	/* PING */
	{ "ping-never", "ping", 1, QUICK, ".", "bye 7", .on = PING, .twist = nothing },
	{ "ping-other", "ping", 1, QUICK, ".", LINGERS, { "", A(PING), 17, 2, 0x1234 } },
	{ "ping-shorter", "ping", 1, QUICK, ".", LINGERS, { "", A(PING), 0, 0, 0, 16, true } },
	{ "ping-longer", "ping", 1, QUICK, ".", VIOLATION, { "", A(PING), 0, 0, 0, 529, true } },

	/* OPEN */
	{ "open-never", "put", 1, 15, ".", "bye 7", .on = OPEN, .twist = nothing },
	{ "open-length-0", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 16, 8, 0 } },
	{ "open-shift-63", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 36, 4, 63 } },
	{ "open-shift-41", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 36, 4, 41 } },
	{ "open-shift-11", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 36, 4, 11 } },
	{ "open-shift-32", "put", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = long_segments },
	{ "open-grant-0", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 28, 4, 0 } },
	{ "open-generation-0", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 32, 4, 0 } },
	{ "open-rights-8", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 24, 4, 8 } },
	{ "open-rights-read", "put", 1, QUICK, ".", ".", { "", A(OPEN), 24, 4, READ } },
	{ "open-cut", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 0, 0, 0, 39, true } },
	{ "open-longer", "put", 1, QUICK, ".", VIOLATION, { "", A(OPEN), 0, 0, 0, 41, true } },
	{ "open-noent", "put", 1, QUICK, "nothing named", LINGERS, .on = OPEN, .twist = status, .arg = NOENT },
	{ "open-acces", "put", 1, QUICK, "rights", LINGERS, .on = OPEN, .twist = status, .arg = ACCES },
	{ "open-limit", "put", 1, QUICK, "limit", LINGERS, .on = OPEN, .twist = status, .arg = LIMIT },
	{ "open-unsupported", "put", 1, QUICK, ".", LINGERS, .on = OPEN, .twist = status, .arg = UNSUPPORTED },
	{ "open-id-twice", "twice", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = one_id },
	{ "open-disconnect", "put", 1, QUICK, ".", "lost|bye", .on = OPEN, .twist = disconnect },

	/* SEGS, and the keys */
	{ "segs-never", "put", 1, QUICK, ".", "bye 7", .on = SEGS, .twist = nothing },
	{ "segs-grant", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 16, 4, 0x777 } },
	{ "segs-generation", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 20, 4, 0x777 } },
	{ "segs-index", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 32, 8, 1, 56, true } },
	{ "segs-index-2^64", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 32, 8, ~0ULL, 56, true } },
	{ "segs-none", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = segments, .arg = 0 },
	{ "segs-too-many", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = segments, .arg = 1 },
	{ "segs-gap", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = segments, .arg = 2 },
	{ "segs-count", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 24, 4, 32 } },
	{ "segs-reserved", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 28, 4, 1 } },
	{ "segs-length-0", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 48, 4, 0 } },
	{ "segs-length-short", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 48, 4, (1 << SHIFT) - 1 } },
	{ "segs-length-long", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 48, 4, (1 << SHIFT) + 1 } },
	{ "segs-address", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 40, 8, ~0ULL - 100 } },
	{ "segs-cut", "put", 1, QUICK, ".", VIOLATION, { "", A(SEGS), 0, 0, 0, 50, true } },
	{ "segs-range", "put", 1, QUICK, ".", LINGERS, .on = SEGS, .twist = status, .arg = RANGE },
	{ "segs-stale", "put", 1, QUICK, ".", LINGERS, .on = SEGS, .twist = status, .arg = STALE },
	{ "segs-io", "put", 1, QUICK, ".", LINGERS, .on = SEGS, .twist = status, .arg = IO },
	{ "segs-wrong-key", "put", 1, QUICK, "remote access", "lost|bye", { "", A(SEGS), 52, 4, 0xdead00 } },
	{ "segs-wrong-address", "put", 1, QUICK, "remote access", "lost|bye", { "", A(SEGS), 40, 8, 64 } },
	{ "segs-disconnect", "put", 1, QUICK, ".", "lost|bye", .on = SEGS, .twist = disconnect, .arg = 1 },
	{ "segs-silent", "put", 1, 15, ".", "lost|bye", .on = SEGS, .twist = fall_silent },

	/* CLOSE: krdma does not wait for it */
	{ "close-never", "put", 0, QUICK, "", "bye 7", .on = CLOSE, .twist = nothing },
	{ "close-noent", "put", 0, QUICK, "", LINGERS, .on = CLOSE, .twist = status, .arg = NOENT },
	{ "close-grant", "put", 0, QUICK, "", VIOLATION, { "", A(CLOSE), 16, 4, 0x777 } },
	{ "close-cut", "put", 0, QUICK, "", VIOLATION, { "", A(CLOSE), 0, 0, 0, 23, true } },

	/* the owner's questions */
	{ "recall-unknown", "verify", 0, QUICK, "", "bye 0 answered 1", .on = OPEN, .twist = say, .arg = RECALL },
	{ "recall-not-given", "verify", 0, QUICK, "", "bye 0 answered 2", { "x", 0, 32, 8, 1ULL << 63 }, CLOSE, say, RECALL },
	{ "recall-given", "verify", 0, QUICK, "", "bye 0 answered 1", .on = SEGS, .twist = recall_given },
	{ "recall-window", "verify", 0, QUICK, "", "bye 0 answered 64", .on = CLOSE, .twist = say_window, .arg = RECALL },
	{ "recall-count-0", "put", 1, QUICK, ".", VIOLATION, { "x", 0, 24, 4, 0, 32, true }, SEGS, say, RECALL },
	{ "recall-count-65", "put", 1, QUICK, ".", VIOLATION, { "x", 0, 24, 4, 65, 32 + 8 * 65, true }, SEGS, say, RECALL },
	{ "recall-grant-0", "put", 1, QUICK, ".", VIOLATION, { "x", 0, 16, 4, 0 }, SEGS, say, RECALL },
	{ "revoke-unknown", "verify", 0, QUICK, "", "bye 0 answered 1", .on = OPEN, .twist = say, .arg = REVOKE },
	{ "revoke-given", "put", 1, QUICK, ".", "bye 0 answered 1", .on = SEGS, .twist = revoke_given },
	{ "revoke-cut", "put", 1, QUICK, ".", VIOLATION, { "x", 0, 0, 0, 0, 20, true }, SEGS, say, REVOKE },
	{ "asks-ping", "verify", 0, QUICK, "", "bye 0 answered 1", .on = OPEN, .twist = say, .arg = PING },
	{ "asks-list", "put", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = say, .arg = LIST },
	{ "asks-open", "put", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = say, .arg = OPEN },
	{ "asks-segs", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = say, .arg = SEGS },
	{ "asks-close", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = say, .arg = CLOSE },
	{ "answers-unasked", "put", 1, QUICK, ".", VIOLATION, .on = SEGS, .twist = say, .arg = A(CLOSE) },
	{ "immediate-data", "put", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = immediate },
	{ "bye-shutdown", "put", 1, QUICK, "shut down", "lost|bye", { "x", 0, 16, 4, SHUTDOWN }, SEGS, say, BYE },
	{ "bye-reason-9", "put", 1, QUICK, ".", VIOLATION, { "x", 0, 16, 4, 9 }, SEGS, say, BYE },
	{ "writes", "ls", 0, QUICK, "", ".", .on = LIST, .twist = guess_key },
};
/* clang-format on */

int owner_cases(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		printf("%u\t%s\t%s\t%u\t%u\t%s\t%s\n", i, cases[i].name, cases[i].command,
		       cases[i].status, cases[i].limit, cases[i].end, cases[i].says);
	return 0;
}

/* ---- a connection ---- */

struct served {
	struct conn conn; /* first: what a twist gets */
	const struct owner_case *is;
	struct rdma_cm_id *id;
	u8 request[HELLO];
	u32 generation;
};

static const struct owner_case *find_case(const struct conn *c)
{
	return ((const struct served *)c)->is;
}

/* The answer that is right. */
static void good_answer(struct served *s, const struct msg *q, struct msg *a)
{
	struct conn *c = &s->conn;
	u64 first = get(q, 24, 8);
	u32 n = 0, want = get(q, 32, 4) + get(q, 36, 4);

	switch (q->b[0]) {
	case PING:
		*a = *q;
		a->b[0] |= ANSWER;
		break;
	case LIST:
		header(a, A(LIST), 32 + 80, get(q, 8, 4));
		put(a, 24, 4, 1);
		put(a, 32, 8, LENGTH);
		put(a, 40, 4, READ | WRITE);
		strcpy((char *)a->b + 48, "good");
		break;
	case OPEN:
		c->generation = ++s->generation;
		c->grant = 100 + c->generation;
		header(a, A(OPEN), 40, get(q, 8, 4));
		put(a, 16, 8, LENGTH);
		put(a, 24, 4, get(q, 16, 4) ?: READ | WRITE);
		put(a, 28, 4, c->grant);
		put(a, 32, 4, c->generation);
		put(a, 36, 4, SHIFT);
		break;
	case SEGS:
		for (u64 at = first << SHIFT; n < want && at < LENGTH; n++, at += 1 << SHIFT) {
			put(a, 32 + 24 * n, 8, first + n);
			put(a, 40 + 24 * n, 8, (uintptr_t)c->data + at);
			put(a, 48 + 24 * n, 4, LENGTH - at < 1 << SHIFT ? LENGTH - at : 1 << SHIFT);
			put(a, 52 + 24 * n, 4, c->mr->rkey);
		}
		a->len = 32 + 24 * n;
		put(a, 0, 8, A(SEGS) | (u64)a->len << 32);
		put(a, 8, 8, get(q, 8, 4));
		put(a, 16, 8, get(q, 16, 8));
		put(a, 24, 8, n);
		break;
	default:
		header(a, q->b[0] | ANSWER, 24, get(q, 8, 4));
		memcpy(a->b + 16, q->b + 16, 8);
	}
}

static const char *greet(struct served *s)
{
	const struct owner_case *is = s->is;
	struct conn *c = &s->conn;
	u8 reject[8] = { 0x4b, 0x52, 0x44, 0x4d, 1 };

	if (is->patch.type == REJECT) {
		put_bytes(reject + is->patch.at, is->patch.size, is->patch.value);
		rdma_reject(s->id, reject, is->patch.len);
		rdma_destroy_id(s->id);
		return "rejected";
	}
	if (is->how == IGNORE)
		return "ignored";
	conn_init(c);
	c->polite = false;
	c->no_receives = is->how == NO_RECEIVES;
	memcpy(c->hello + 24, s->request + 24, 8);
	c->window = get_bytes(s->request + 36, 2);
	if (is->patch.type == ACCEPT) {
		put_bytes(c->hello + is->patch.at, is->patch.size, is->patch.value);
		if (is->patch.len)
			c->hello_len = is->patch.len;
	}
	return conn_accept(c, s->id);
}

static void *serve(void *arg)
{
	struct served *s = arg;
	struct conn *c = &s->conn;
	const struct owner_case *is = s->is;
	u32 answered = 0;
	struct msg q, a;
	char how[40];
	int said = -1;
	const char *why;

	why = greet(s);
	if (why) {
		printf("end %s %s\n", is->name, why);
		return NULL;
	}
	if (is->how == DROP && wait_event(c, RDMA_CM_EVENT_ESTABLISHED, 5000))
		rdma_disconnect(c->id);
	while (is->how == NO_RECEIVES ? !c->down && pump(c, now_ms() + 60000) :
					receive(c, &q, 60000)) {
		if (is->how == NO_RECEIVES)
			continue;
		if (q.b[0] == BYE) {
			said = get(&q, 16, 4);
			rdma_disconnect(c->id);
			continue;
		}
		if (q.b[0] & ANSWER) {
			answered += !get(&q, 2, 2);
			continue;
		}
		memset(&a, 0, sizeof(a));
		good_answer(s, &q, &a);
		if (is->twist && (is->on == q.b[0] || (is->twist == one_id && q.b[0] == CLOSE)))
			is->twist(c, &q, &a);
		if (is->patch.type == a.b[0])
			apply(&a, &is->patch);
		if (a.len)
			send_msg(c, &a);
	}
	snprintf(how, sizeof(how), said < 0 ? "lost" : "bye %d", said);
	printf("end %s %s answered %u\n", is->name, how, answered);
	conn_end(c);
	return NULL;
}

int owner_main(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_event *event;
	u16 port = ntohs(peer_addr.in.sin_port);
	pthread_t thread;

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rdma_cm_id *id;

		peer_addr.in.sin_port = htons(port + i);
		if (!events || rdma_create_id(events, &id, (void *)&cases[i], RDMA_PS_TCP) ||
		    rdma_bind_addr(id, &peer_addr.sa) || rdma_listen(id, 16)) {
			perror("peer: listen");
			return 1;
		}
	}
	printf("listening\n");
	while (!rdma_get_cm_event(events, &event)) {
		struct served *s;

		if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_ack_cm_event(event);
			continue;
		}
		s = calloc(1, sizeof(*s));
		if (!s || event->param.conn.private_data_len < HELLO)
			return 1;
		s->is = event->listen_id->context;
		s->id = event->id;
		memcpy(s->request, event->param.conn.private_data, HELLO);
		rdma_ack_cm_event(event);
		if (!pthread_create(&thread, NULL, serve, s))
			pthread_detach(thread);
	}
	return 0;
}
