// SPDX-License-Identifier: GPL-2.0
/*
 * How a target violates the protocol: "peer cases" prints for peer.sh which command of krdma to run
 * for each case, and how the command has to end.
 */
#include "peer_target.h"

/* For say(): RECALL of the whole grant. */
#define WHOLE 0x100

/* ---- what is done at a request ---- */

/* Nor does a heartbeat get a reply: who replies to that is alive, and may be late. */
static void nothing(struct conn *c, const struct msg *q, struct msg *a)
{
	c->deaf = true;
	a->len = 0;
}

/* It does not say that it has the request. */
static void countless(struct conn *c, const struct msg *q, struct msg *a)
{
	put(a, 12, 2, c->received - 1);
	c->countless = true;
}

static void status(struct conn *c, const struct msg *q, struct msg *a)
{
	header(a, q->b[0] | REPLY, HEADER, get(q, 8, 4));
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
		memcpy(a->b + 24 + 80 * i, a->b + 24, 80);
	a->len = 24 + 80 * n;
	put(a, 4, 4, a->len);
}

static void endless(struct conn *c, const struct msg *q, struct msg *a)
{
	put(a, 16, 8, get(q, 16, 8) + 1);
	if (find_case(c)->arg) {
		entries(c, q, a);
		return;
	}
	a->len = 24;
	put(a, 4, 4, 24);
}

/* Another number of keys than was requested. */
static void segments(struct conn *c, const struct msg *q, struct msg *a)
{
	u32 n = get(q, 32, 4) + get(q, 36, 4) + 1;

	if (find_case(c)->arg == 0)
		n = 0;
	for (u32 i = 1; i < n; i++) {
		memcpy(a->b + 16 + 16 * i, a->b + 16, 16);
		put(a, 16 + 16 * i, 8, get(a, 16, 8) + (i << SHIFT));
	}
	a->len = 16 + 16 * n;
	put(a, 4, 4, a->len);
}

/* The target's own requests, and messages that are none; before the reply. */
static void say(struct conn *c, const struct msg *q, struct msg *a)
{
	u32 grant = c->grant, generation = c->generation;
	struct msg m;

	if (q->b[0] == OPEN) {
		/* Not known yet: one that there is not. */
		c->grant = 999;
		c->generation = 999;
	}
	if (find_case(c)->arg == WHOLE)
		recall_grant(c, &m);
	else
		request(c, &m, find_case(c)->arg);
	c->grant = grant;
	c->generation = generation;
	if (find_case(c)->patch.name)
		apply(&m, &find_case(c)->patch);
	send_msg(c, &m);
}

static void say_alone(struct conn *c, const struct msg *q, struct msg *a)
{
	say(c, q, a);
	nothing(c, q, a);
}

static void say_credits(struct conn *c, const struct msg *q, struct msg *a)
{
	for (u32 i = 0; i < c->credits; i++)
		say(c, q, a);
}

static void say_twice(struct conn *c, const struct msg *q, struct msg *a)
{
	say(c, q, a);
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
	request(c, &r, RECALL);
	put(&r, 24, 8, get(q, 24, 8));
	send_msg(c, &r);
	a->len = 0;
}

static void revoke_given(struct conn *c, const struct msg *q, struct msg *a)
{
	struct msg r;

	recall_grant(c, &r);
	send_msg(c, &r);
	header(a, q->b[0] | REPLY, HEADER, get(q, 8, 4));
	put(a, 2, 2, STALE);
}

/* The export ends as soon as it is open. */
static void revoke_behind(struct conn *c, const struct msg *q, struct msg *a)
{
	struct msg r;

	send_msg(c, a);
	recall_grant(c, &r);
	send_msg(c, &r);
	a->len = 0;
}

static void disconnect(struct conn *c, const struct msg *q, struct msg *a)
{
	if (find_case(c)->arg)
		send_msg(c, a);
	a->len = 0;
	rdma_disconnect(c->id);
	conn_break(c);
}

/* The connection is lost, and what was requested on it gets its reply on the next. */
static void hold(struct conn *c, const struct msg *q, struct msg *a)
{
	a->len = 0;
	c->deaf = true;
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

/* A WRITE by the target, which may not, with a key that is guessed. */
static void guess_key(struct conn *c, const struct msg *q, struct msg *a)
{
	a->len = 0;
	move(c, true, 0, 64, 0, 0x101);
	rdma_disconnect(c->id);
}

/* The reply to another message than the one that was sent. */
static void other_credit(struct conn *c, const struct msg *q, struct msg *a)
{
	put(a, 8, 4, find_case(c)->arg);
	put(a, 16, 4, find_case(c)->arg);
}

/* ---- the cases ---- */

#define QUICK     10
#define VIOLATION "bye 6"
#define LINGERS   "bye 0 replied 0"
#define ENDED     "lost|bye"

/* A hello that is not accepted, and one to accept with that breaks a rule. */
#define REJECTS(name_, says_, ...)                        \
	{                                                 \
		name_, "ls", 1, QUICK, says_, "rejected", \
		{                                         \
			"", REJECT, __VA_ARGS__           \
		}                                         \
	}
#define ACCEPTS(name_, ...)                                    \
	{                                                      \
		"accept-" name_, "ping", 1, QUICK, ".", ENDED, \
		{                                              \
			"", ACCEPT, __VA_ARGS__                \
		}                                              \
	}
/* A reply with something wrong, at the place given. */
#define PATCHED(name_, command_, type_, ...)               \
	{                                                  \
		name_, command_, 1, QUICK, ".", VIOLATION, \
		{                                          \
			"", A(type_), __VA_ARGS__          \
		}                                          \
	}
#define BAD_LIST(name_, ...)    PATCHED("list-" name_, "ls", LIST, __VA_ARGS__)
#define BAD_GROW(name_, ...)    PATCHED("grow-" name_, "grow", GROW, __VA_ARGS__)
#define BAD_CRC(name_, ...)     PATCHED("digest-" name_, "digest", DIGEST, __VA_ARGS__)
#define BAD_MESSAGE(name_, ...) PATCHED("message-" name_, "send", MESSAGE, __VA_ARGS__)
#define BAD_OPEN(name_, ...)    PATCHED("open-" name_, "put", OPEN, __VA_ARGS__)
#define BAD_SEGS(name_, ...)    PATCHED("segs-" name_, "put", SEGS, __VA_ARGS__)
/* A request that fails: no reason to end the session. */
#define FAILS(name_, command_, says_, type_, status_)                                    \
	{                                                                                \
		name_, command_, 1, QUICK, says_, LINGERS, .on = type_, .twist = status, \
							   .arg = status_                \
	}
/* Something else is done at that request. */
#define TWIST(name_, command_, status_, end_, type_, twist_, arg_)                        \
	{                                                                                 \
		name_, command_, status_, QUICK, ".", end_, .on = type_, .twist = twist_, \
							    .arg = arg_                   \
	}
#define SLOW(name_, command_, seconds_, says_, end_, type_, twist_, arg_)                \
	{                                                                                \
		name_, command_, 1, seconds_, says_, end_, .on = type_, .twist = twist_, \
							   .arg = arg_                   \
	}
/* The target says something else before the reply; wrong at the place given. */
#define SAYS(name_, type_, what_, ...)                                                             \
	{                                                                                          \
		name_, "put", 1, QUICK, ".", VIOLATION, { "x", 0, __VA_ARGS__ }, type_, say, what_ \
	}

/* It gives notice of the end; reason ADMIN. */
#define NOTICE(name_, command_, status_, says_, on_, twist_, ms_)                                \
	{                                                                                        \
		name_, command_, status_, QUICK, says_, "bye 9",                                 \
			{ "x", 0, 16, 8, ADMIN | (u64)(ms_) << 32 }, .on = on_, .twist = twist_, \
								     .arg = BYE                  \
	}
/*
 * The connection is lost at that request. With the next, the target says that it has received so
 * many requests and messages more than it has; and then replies to them, if it is accepted.
 */
#define RESUMES(name_, command_, status_, says_, how_, received_, messages_, ...)                \
	{                                                                                        \
		name_, command_, status_, QUICK, says_, "lost", { "", 0, __VA_ARGS__ },          \
			.twist = hold, .how = how_, .received = received_, .messages = messages_ \
	}

/* The same at one type of request, which is done when it has its reply. */
#define HELD(name_, command_, on_)                                                              \
	{                                                                                       \
		name_, command_, 0, QUICK, ".", "lost", .on = on_, .twist = hold, .how = RESUME \
	}

const struct target_case cases[] = {
	{ "good", "verify", 0, QUICK, ".", LINGERS },
	{ "countless", "ls", 1, QUICK, "broke the protocol", "bye 6", .on = LIST,
	  .twist = countless, .how = RESUME, .no_roce = "a message does not count others" },

	/* rejects and accepts */
	REJECTS("reject-malformed", "malformed", 5, 1, MALFORMED, 8),
	REJECTS("reject-version", "version", 5, 1, VERSION, 8),
	REJECTS("reject-not-admitted", "not admitted", 5, 1, NOT_ADMITTED, 8),
	REJECTS("reject-limit", "limit", 5, 1, NO_ROOM, 8),
	REJECTS("reject-shutdown", "shut down", 5, 1, SHUTDOWN, 8),
	REJECTS("reject-version-1", "it speaks version 1 of the protocol, this host version 2", 4,
		2, 0x0201, 8),
	REJECTS("reject-version-3", "it speaks version 3 of the protocol, this host version 2", 4,
		2, 0x0203, 8),
	REJECTS("reject-reason-200", ".", 5, 1, 200, 8),
	REJECTS("reject-later-version", ".", 4, 2, 0xc803, 8),
	REJECTS("reject-version-0", ".", 4, 1, 0, 8),
	REJECTS("reject-magic", ".", 0, 4, 0x12345678, 8),
	REJECTS("reject-reserved", ".", 6, 2, 1, 8),
	REJECTS("reject-short", ".", 0, 0, 0, 3),
	REJECTS("reject-empty", ".", 0, 0, 0, 0),
	ACCEPTS("magic", 0, 4, 0x12345678),
	{ "accept-version-1",
	  "ls",
	  1,
	  QUICK,
	  "it speaks version 1 of the protocol, this host version 2",
	  ENDED,
	  { "", ACCEPT, 4, 1, 1 } },
	ACCEPTS("no-epoch", 5, 1, 0),
	ACCEPTS("channel-1", 6, 2, 1),
	ACCEPTS("feature", 8, 8, 1),
	ACCEPTS("other-feature", 8, 8, 16),
	ACCEPTS("message-credit", 38, 2, 1),
	ACCEPTS("session", 24, 8, 0x77777777),
	ACCEPTS("uid", 32, 4, 1),
	ACCEPTS("credits-1", 36, 2, 1),
	ACCEPTS("credits-257", 36, 2, 257),
	ACCEPTS("message-credits-65", 38, 2, 65),
	ACCEPTS("secret", 40, 1, 1),
	ACCEPTS("channels-without-secret", 48, 2, 2),
	ACCEPTS("too-many-channels", 48, 2, 0xffff),
	ACCEPTS("first-reserved", 50, 1, 1),
	ACCEPTS("last-reserved", 55, 1, 1),
	ACCEPTS("empty", 0, 0, 0, 1),
	{ "accept-places", "granted", 0, QUICK, ".", LINGERS, { "", ACCEPT, 8, 8, PLACES } },
	{ "accept-no-places", "placed", 0, QUICK, ".", LINGERS },
	{ "accept-credits-2", "verify", 0, QUICK, ".", LINGERS, { "", ACCEPT, 36, 2, 2 } },
	{ "accept-credits-256", "verify", 0, QUICK, ".", LINGERS, { "", ACCEPT, 36, 2, 256 } },
	{ "accept-never", "ls", 1, 20, ".", "ignored", .how = IGNORE },
	{ "accept-and-go", "ls", 1, QUICK, ".", ENDED, .how = DROP },
	{ "no-receives", "ls", 1, 20, ".", ENDED, .how = NO_RECEIVES },
	{ "endless", "ls", 1, QUICK, "retries without an end", ".", .how = ENDLESS,
	  .no_iwarp = "iWARP's retries are TCP's" },

	/* header of a reply, to LIST */
	SLOW("list-never", "ls", 40, ".", "bye [07]", LIST, nothing, 0),
	BAD_LIST("tag", 8, 4, 0x12345678),
	BAD_LIST("tag-0", 8, 4, 0),
	BAD_LIST("type-request", 0, 1, LIST),
	BAD_LIST("type-ping", 0, 1, A(PING)),
	BAD_LIST("type-unknown", 0, 1, 0xc2),
	BAD_LIST("reserved", 1, 1, 1),
	BAD_LIST("reserved-last", 15, 1, 1),
	BAD_LIST("status-11", 2, 2, 11, HEADER, true),
	BAD_LIST("failed-payload", 2, 2, NOMEM),
	BAD_LIST("length", 4, 4, 103),
	BAD_LIST("cut", 0, 0, 0, 40),
	BAD_LIST("cut-15", 0, 0, 0, 15, true),
	BAD_LIST("cut-23", 0, 0, 0, 23, true),
	BAD_LIST("cut-103", 0, 0, 0, 103, true),
	BAD_LIST("1024", 0, 0, 0, 1024),
	TWIST("list-1025", "ls", 1, ENDED, LIST, send_length, 1025),
	TWIST("list-no-bytes", "ls", 1, VIOLATION, LIST, no_bytes, 0),
	TWIST("list-twice", "ls", 0, VIOLATION, LIST, twice, 0),
	FAILS("list-nomem", "ls", ".", LIST, NOMEM),

	/* LIST */
	TWIST("list-count-13", "ls", 1, ENDED, LIST, entries, 13),
	TWIST("list-count-12", "ls", 0, LINGERS, LIST, entries, 12),
	BAD_LIST("entry-0", 24, 8, 0),
	/* Of a later version: they are left out. */
	{ "list-entry-rights", "ls", 0, QUICK, ".", LINGERS, { "", A(LIST), 32, 4, 0x80000009 } },
	BAD_LIST("entry-reserved", 36, 4, 1),
	BAD_LIST("entry-no-name", 40, 1, 0),
	BAD_LIST("entry-escape", 41, 1, 27),
	BAD_LIST("entry-behind", 103, 1, 'x'),
	BAD_LIST("cursor-stays", 16, 8, 1, 24, true),
	/* The library ends it after 4096 entries; full replies, as each takes its time. */
	SLOW("list-endless", "ls", 20, ".", ".", LIST, endless, 12),
	SLOW("list-endless-empty", "ls", 20, ".", ".", LIST, endless, 0),

	/* PING */
	TWIST("ping-never", "ping", 1, "bye [07]", PING, nothing, 0),
	{ "ping-other", "ping", 1, QUICK, ".", LINGERS, { "", A(PING), 17, 2, 0x1234 } },
	{ "ping-shorter", "ping", 1, QUICK, ".", LINGERS, { "", A(PING), 0, 0, 0, 16, true } },
	PATCHED("ping-longer", "ping", PING, 0, 0, 0, 529, true),

	/* GROW */
	{ "grow", "grow", 0, QUICK, ".", "." },
	BAD_GROW("nothing", 16, 8, 0),
	BAD_GROW("shorter", 16, 8, LENGTH - 1),
	BAD_GROW("part", 16, 8, LENGTH + 1),
	BAD_GROW("endless", 16, 8, ~0ULL),

	/* OPEN */
	SLOW("open-never", "patient", 40, "not reply|sign of life", "bye 7", OPEN, nothing, 0),
	SLOW("open-late", "put", QUICK, "reply|time|deadline|sign of life", "bye [07]", OPEN,
	     nothing, 0),
	BAD_OPEN("length-0", 16, 8, 0),
	BAD_OPEN("shift-63", 36, 4, 63),
	BAD_OPEN("shift-41", 36, 4, 41),
	BAD_OPEN("shift-11", 36, 4, 11),
	TWIST("open-shift-32", "put", 1, VIOLATION, OPEN, long_segments, 0),
	BAD_OPEN("grant-0", 28, 4, 0),
	BAD_OPEN("generation-0", 32, 4, 0),
	BAD_OPEN("rights-8", 24, 4, 8),
	{ "open-rights-read",
	  "verified",
	  1,
	  QUICK,
	  "does not grant the rights requested on 'x': write$",
	  LINGERS,
	  { "", A(OPEN), 24, 4, READ } },
	{ "open-rights-none",
	  "put",
	  1,
	  QUICK,
	  "does not grant the rights requested on 'x': write$",
	  LINGERS,
	  { "", A(OPEN), 24, 4, 0 } },
	BAD_OPEN("rights-more", 24, 4, READ | WRITE | ATOMIC),
	BAD_OPEN("cut", 0, 0, 0, 39, true),
	BAD_OPEN("longer", 0, 0, 0, 41, true),
	FAILS("open-noent", "put", "nothing named", OPEN, NOENT),
	FAILS("open-acces", "put", "does not grant the rights requested on 'x': .*write", OPEN,
	      ACCES),
	FAILS("open-limit", "put", "limit", OPEN, LIMIT),
	FAILS("open-unsupported", "put", "does not support rights requested on 'x': write", OPEN,
	      UNSUPPORTED),
	{ "open-id-twice", "twice", 1, QUICK, "is lost: the peer broke the protocol", VIOLATION,
	  .on = OPEN, .twist = one_id },
	TWIST("open-disconnect", "put", 1, ENDED, OPEN, disconnect, 0),
	TWIST("open-revoked", "put", 1, "bye 0 replied 1", OPEN, revoke_behind, 0),

	/* SEGS, and the keys */
	SLOW("segs-never", "patient", 40, "not reply|sign of life", "bye 7", SEGS, nothing, 0),
	SLOW("segs-late", "put", QUICK, "reply|time|deadline|sign of life", "bye [07]", SEGS,
	     nothing, 0),
	TWIST("segs-none", "put", 1, VIOLATION, SEGS, segments, 0),
	TWIST("segs-too-many", "put", 1, VIOLATION, SEGS, segments, 1),
	BAD_SEGS("length-0", 24, 4, 0),
	BAD_SEGS("length-short", 24, 4, (1 << SHIFT) - 1),
	BAD_SEGS("length-long", 24, 4, (1 << SHIFT) + 1),
	BAD_SEGS("address-wraps", 16, 8, ~0ULL - 100),
	BAD_SEGS("cut", 0, 0, 0, 24, true),
	FAILS("segs-range", "put", ".", SEGS, RANGE),
	FAILS("segs-stale", "put", ".", SEGS, STALE),
	FAILS("segs-io", "put", ".", SEGS, IO),
	{ "segs-key", "put", 1, QUICK, "remote access", ENDED, { "", A(SEGS), 28, 4, 0xdead00 } },
	{ "segs-address", "put", 1, QUICK, "remote access", ENDED, { "", A(SEGS), 16, 8, 64 } },
	TWIST("segs-disconnect", "put", 1, ENDED, SEGS, disconnect, 1),
	/* The WRITE may have arrived before: then the next one finds the silence. */
	{ "segs-silent", "twice", 1, 20, ".", ENDED, .on = SEGS, .twist = fall_silent,
	  .no_iwarp = "on iWARP the error state ends the stream, which is no silence" },

	/* MESSAGE */
	{ "message", "send", 0, QUICK, ".", LINGERS },
	{ "accept-no-message-credits", "send", 1, QUICK, ".", ENDED, { "", ACCEPT, 38, 2, 0 } },
	{ "accept-no-messages", "send", 1, QUICK, ".", ENDED, { "", ACCEPT, 8, 8, 0 } },
	BAD_MESSAGE("tag", 8, 4, 2),
	BAD_MESSAGE("entry-tag-0", 16, 4, 0),
	BAD_MESSAGE("entry-status-11", 20, 2, 11),
	BAD_MESSAGE("entry-reserved", 22, 2, 1),
	BAD_MESSAGE("no-entry", 0, 0, 0, 16, true),
	BAD_MESSAGE("failed", 2, 2, NOMEM, HEADER, true),
	BAD_MESSAGE("cut", 0, 0, 0, 23, true),
	TWIST("message-other-credit", "send", 1, VIOLATION, MESSAGE, other_credit, 2),
	TWIST("message-credit-5", "send", 1, VIOLATION, MESSAGE, other_credit, 5),
	TWIST("message-credit-max", "send", 1, VIOLATION, MESSAGE, other_credit, 0xffffffff),
	TWIST("message-twice", "send", 0, VIOLATION, MESSAGE, twice, 0),
	{ "message-stale", "send", 1, QUICK, "revoked", LINGERS, { "", A(MESSAGE), 20, 2, STALE } },
	{ "message-nomem", "send", 1, QUICK, "memory", LINGERS, { "", A(MESSAGE), 20, 2, NOMEM } },
	SLOW("message-never", "send", QUICK, "deadline|sign of life", "bye [07]", MESSAGE, nothing,
	     0),

	/* DIGEST */
	{ "digest", "digest", 0, QUICK, ".", LINGERS },
	{ "digest-right", "verified", 0, QUICK, ".", LINGERS },
	{ "digest-wrong",
	  "verified",
	  1,
	  QUICK,
	  "differ at both ends",
	  LINGERS,
	  { "", A(DIGEST), 16, 4, 1 } },
	BAD_CRC("tag", 8, 4, 0x12345678),
	BAD_CRC("reserved", 20, 4, 1),
	BAD_CRC("cut", 0, 0, 0, 23, true),
	BAD_CRC("longer", 0, 0, 0, 25, true),
	TWIST("digest-twice", "digest", 0, VIOLATION, DIGEST, twice, 0),
	FAILS("digest-range", "digest", ".", DIGEST, RANGE),
	FAILS("digest-stale", "digest", ".", DIGEST, STALE),
	FAILS("digest-nomem", "digest", "memory", DIGEST, NOMEM),
	SLOW("verified-late", "verified", QUICK,
	     "all bytes were moved, but not verified|reply|sign of life", "bye [07]", DIGEST,
	     nothing, 0),
	SLOW("digest-late", "digest", QUICK, "deadline|reply|sign of life", "bye [07]", DIGEST,
	     nothing, 0),

	/* CLOSE: krdma does not wait for it */
	TWIST("close-never", "put", 0, "bye [07]", CLOSE, nothing, 0),
	TWIST("close-stale", "put", 0, LINGERS, CLOSE, status, STALE),
	{ "close-cut", "put", 0, QUICK, ".", VIOLATION, { "", A(CLOSE), 0, 0, 0, 15, true } },
	{ "close-longer", "put", 0, QUICK, ".", VIOLATION, { "", A(CLOSE), 0, 0, 0, 24, true } },

	/* the target's requests: of a grant that there is not when it comes with an OPEN */
	TWIST("recall-unknown", "verify", 0, "bye 0 replied 2", OPEN, say, RECALL),
	TWIST("recall-given", "verify", 0, "bye 0 replied 1", SEGS, recall_given, 0),
	TWIST("recall-credits", "verify", 0, "bye 0 replied 64", CLOSE, say_credits, RECALL),
	{ "recall-not-given",
	  "verify",
	  0,
	  QUICK,
	  ".",
	  "bye 0 replied 2",
	  { "x", 0, 24, 8, 1ULL << 63 },
	  CLOSE,
	  say,
	  RECALL },
	SAYS("recall-count-65", SEGS, RECALL, 0, 0, 0, 24 + 8 * 65, true),
	SAYS("recall-cut", SEGS, RECALL, 0, 0, 0, 28, true),
	SAYS("recall-grant-0", SEGS, RECALL, 16, 4, 0),
	TWIST("revoke-unknown", "verify", 0, "bye 0 replied 2", OPEN, say, WHOLE),
	TWIST("revoke-given", "put", 1, "bye 0 replied 1", SEGS, revoke_given, 0),
	TWIST("revoke-then-keys", "put", 1, "bye 0 replied 1", SEGS, say, WHOLE),
	TWIST("revoke-close", "put", 0, "bye 0 replied 1", CLOSE, say, WHOLE),
	TWIST("revoke-twice", "put", 1, "bye 0 replied 2", SEGS, say_twice, WHOLE),
	SAYS("revoke-cut", SEGS, WHOLE, 0, 0, 0, 20, true),
	TWIST("asks-ping", "verify", 0, "bye 0 replied 2", OPEN, say, PING),
	SAYS("asks-list", OPEN, LIST),
	SAYS("asks-open", OPEN, OPEN),
	SAYS("asks-segs", SEGS, SEGS),
	SAYS("asks-close", SEGS, CLOSE),
	SAYS("replies-unrequested", SEGS, A(CLOSE)),
	SAYS("bye-reason-10", SEGS, BYE, 16, 4, 10),
	/* Nothing is under way at first, then the digest, and then what does not end in time. */
	NOTICE("notice", "put", 1, "disconnected by an administrator", OPEN, say, 60000),
	NOTICE("notice-digest", "digest", 0, ".", DIGEST, say, 0xffffffff),
	NOTICE("notice-often", "digest", 0, ".", DIGEST, say_credits, 60000),
	NOTICE("notice-short", "patient", 1, "disconnected by an administrator", SEGS, say_alone,
	       1),
	{ "bye-shutdown",
	  "put",
	  1,
	  QUICK,
	  "shut down",
	  ENDED,
	  { "x", 0, 16, 4, SHUTDOWN },
	  SEGS,
	  say,
	  BYE },
	{ "immediate-data", "put", 1, QUICK, ".", VIOLATION, .on = OPEN, .twist = immediate,
	  .no_iwarp = "iWARP has no immediate data" },
	TWIST("guesses-key", "ls", 1, ENDED, LIST, guess_key, 0),

	RESUMES("resume", "put", 0, ".", RESUME, 0, 0),
	RESUMES("resume-message", "send", 0, ".", RESUME, 0, 0),
	HELD("resume-list", "ls", LIST),
	HELD("resume-open", "put", OPEN),
	HELD("resume-digest", "digest", DIGEST),
	HELD("resume-close", "put", CLOSE),
	HELD("resume-ping", "ping", PING),
	RESUMES("resume-more", "put", 1, "broke the protocol", RESUME, 1, 0),
	RESUMES("resume-less", "put", 1, "broke the protocol", RESUME, -2, 0),
	RESUMES("resume-far-more", "put", 1, "broke the protocol", RESUME, 0x7000, 0),
	RESUMES("resume-more-messages", "send", 1, "broke the protocol", RESUME, 0, 1),
	RESUMES("resume-fewer-messages", "send", 1, "broke the protocol", RESUME, 0, -1),
	RESUMES("resume-no-messages", "put", 1, "broke the protocol", RESUME, 0, 1),
	RESUMES("resume-restarted", "put", 1, "deadline", RESUME, 0, 0, 16, 8, 1),
	RESUMES("resume-session", "put", 1, "deadline", RESUME, 0, 0, 24, 8, 0x77777777),
	RESUMES("resume-secret", "put", 1, "deadline", RESUME, 0, 0, 40, 8, 1),
	RESUMES("resume-feature", "put", 1, "deadline", RESUME, 0, 0, 8, 8, 1),
	RESUMES("resume-places", "granted", 0, ".", RESUME, 0, 0, 8, 8, PLACES),
	RESUMES("resume-no-places", "placed", 0, ".", RESUME, 0, 0),
	RESUMES("resume-channel", "put", 1, "deadline", RESUME, 0, 0, 6, 2, 1),
	RESUMES("resume-epoch", "put", 0, ".", RESUME, 0, 0, 5, 1, 2),
	RESUMES("resume-no-epoch", "put", 1, "deadline", RESUME, 0, 0, 5, 1, 0),
	RESUMES("resume-never", "put", 1, "deadline", RESUME_IGNORED, 0, 0),
	RESUMES("resume-refused", "put", 1, "does not know it any more", RESUME_REJECTED, 0, 0, 5,
		1, NOT_ADMITTED),
};

const u32 cases_count = ARRAY_SIZE(cases);

bool twisted(const struct target_case *is, u8 type)
{
	if (is->twist == hold && !is->on)
		return type == SEGS || type == MESSAGE;
	return is->twist && (is->on == type || (is->twist == one_id && type == CLOSE));
}

/*
 * siw's consumers may miss what came with a reject, and why the peer ended it: what was
 * to be sent meanwhile may be the first that fails.
 */
static const char *says(const struct target_case *is)
{
	if (!iwarp)
		return is->says;
	if (is->patch.type == REJECT)
		return bad("refuses|%s", strcmp(is->says, ".") ? is->says : "unknown reason");
	return strcmp(is->says, "remote access") ? is->says :
						   "disconnected|WR flushed|local QP operation";
}

int target_cases(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct target_case *is = &cases[i];

		printf("%u\t%s\t%s\t", i, is->name, is->command);
		if (iwarp ? is->no_iwarp : is->no_roce)
			printf("skip\t0\t.\t%s\n", iwarp ? is->no_iwarp : is->no_roce);
		else
			printf("%u\t%u\t%s\t%s\n", is->status, is->limit, is->end, says(is));
	}
	return 0;
}
