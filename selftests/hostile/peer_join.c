// SPDX-License-Identifier: GPL-2.0
/* Channels of a session that there is: further ones, and the first once more. */
#include "peer.h"

const char *const reasons[] = { "accepted", "MALFORMED", "VERSION", "NOT_ADMITTED", "LIMIT" };

/* What a request for channel 1 of a session that has four has wrong; in this order. */
static const struct join {
	const char *name;
	u8 at, size;
	u64 flip;
	u8 reason;   /* of the reject, 0: accepted */
	bool places; /* the feature PLACES is wanted */
} joins[] = {
	{ "another secret", 40, 8, 1, NOT_ADMITTED },
	{ "no secret", 40, 8, 0, MALFORMED },
	{ "another incarnation", 16, 8, 1ULL << 63, NOT_ADMITTED },
	{ "another session", 24, 8, 1, NOT_ADMITTED },
	{ "channel 5", 6, 2, 1 ^ 5, NOT_ADMITTED },
	{ "channel 65535", 6, 2, 1 ^ 65535, NOT_ADMITTED },
	{ "a feature", 8, 8, 1, MALFORMED },
	{ "PLACES and a feature", 8, 8, PLACES | 1, MALFORMED },
	{ "a feature that nobody knows", 8, 8, 8, MALFORMED },
	{ "a path that can't be", 5, 1, 4, MALFORMED },
	{ "channels", 48, 2, 2, MALFORMED },
	{ "seconds to resume", 50, 2, 2, MALFORMED },
	{ "messages received", 52, 2, 1, MALFORMED },
	{ "channel 0, of a session that does not resume", 6, 2, 1, NOT_ADMITTED },
	{ "nothing wrong, and PLACES", 0, 0, 0, 0, true },
};

/* For channel 1 of a session. */
void join_hello(const struct conn *first, struct conn *c)
{
	memcpy(c->hello + 16, first->hello + 16, 16);
	put_bytes(c->hello + 6, 2, 1);
	put_bytes(c->hello + 40, 8, get_bytes(first->priv + 40, 8));
}

static const char *try_join(const struct conn *first, struct conn *c, const struct join *join)
{
	const char *why;

	join_hello(first, c);
	if (join->size)
		put_bytes(c->hello + join->at, join->size,
			  join->flip ? get_bytes(c->hello + join->at, join->size) ^ join->flip : 0);
	c->places = join->places;
	why = conn_connect(c);
	if (!join->reason)
		return why;
	if (!why)
		return "it was accepted";
	return strcmp(why, bad("rejected: version 2 reason %u", join->reason)) ? why : NULL;
}

/* The target may take some time until its queue pair is gone. */
const char *join_again(const struct conn *first, struct conn *c)
{
	static const struct join again = { "nothing wrong" };
	s64 until = now_ms() + 10000;
	const char *why;

	do {
		conn_end(c);
		conn_init(c);
		why = try_join(first, c, &again);
	} while (why && now_ms() < until);
	return why;
}

/* What the target's adapter refuses ends the channel alone. */
static const char *break_join(const struct conn *first, struct conn *c)
{
	if (move(c, true, 0, 8, 0, 0x12345678) == IBV_WC_SUCCESS)
		return "a WRITE with a wrong key had no error";
	return join_again(first, c);
}

/* A second one takes the place of the first, whose end may have got lost. */
static const char *replace_join(const struct conn *first, struct conn *old, struct conn *c)
{
	static const struct join again = { "nothing wrong, again", .reason = NO_ROOM };
	const char *why = try_join(first, c, &again);
	s64 until = now_ms() + 10000;

	while (!why && !old->down && pump(old, until))
		;
	if (!why && !old->down)
		why = "the old one has not ended";
	return why ?: join_again(first, c);
}

/* A FENCE on the first channel. Return: NULL after a reply that is OK */
static const char *fence(struct conn *first, u32 channel, u32 qp_num)
{
	struct msg q, a;

	request(first, &q, FENCE);
	put(&q, 16, 4, channel);
	put(&q, 20, 4, qp_num);
	if (send_msg(first, &q) || !receive(first, &a, SOON))
		return "there is no reply";
	if (a.b[0] != (REPLY | FENCE) || get(&a, 8, 4) != first->tag || get(&a, 2, 2))
		return "another reply";
	return NULL;
}

/* Of another connection it ends nothing; of that which there is, the reply says that it is gone. */
static const char *fence_join(struct conn *first, struct conn *c)
{
	static const struct join again = { "nothing wrong" };
	const char *why = fence(first, 1, c->qp->qp_num ^ 1) ?: fence(first, 3, 5);

	pump(c, now_ms() + 200);
	if (!why && c->down)
		why = "the FENCE of another connection has ended it";
	why = why ?: fence(first, 1, c->qp->qp_num) ?: fence(first, 1, c->qp->qp_num);
	if (why)
		return why;
	conn_end(c);
	conn_init(c);
	/* At once: there is none in its place. */
	return try_join(first, c, &again);
}

/* Of a channel that can't be. */
static const char *fence_wrong(struct conn *c, const void *channel)
{
	struct msg q;

	put_bytes(c->hello + 48, 2, 4);
	return conn_connect(c) ?:
		       (request(c, &q, FENCE), put(&q, 16, 4, *(const u32 *)channel), send_msg(c, &q)) ?:
		       ends(c, PROTOCOL, SOON);
}

void try_joins(void)
{
	static const u32 none = 0, many = 9;

	struct conn first, other, conns[ARRAY_SIZE(joins)];
	const char *why;
	u32 i;

	if (iwarp)
		return;
	conn_init(&first);
	put_bytes(first.hello + 48, 2, 4);
	first.places = true;
	why = conn_connect(&first);
	for (i = 0; i < ARRAY_SIZE(joins); i++) {
		conn_init(&conns[i]);
		why = why ?: try_join(&first, &conns[i], &joins[i]);
		result(why, "channel 1 with %s: %s", joins[i].name, reasons[joins[i].reason]);
	}
	/* That with nothing wrong is the last. */
	why = why ?: break_join(&first, &conns[i - 1]);
	result(why, "a broken channel can be joined again");
	conn_init(&other);
	why = why ?: replace_join(&first, &conns[i - 1], &other);
	result(why, "a channel that is joined again replaces the last one");
	why = why ?: fence_join(&first, &other);
	result(why, "a FENCE ends the connection that it names, and the reply says so");
	conn_end(&other);
	result(ping(&first, 1), "the session goes on");
	result(attempt(fence_wrong, &none), "a FENCE of the first channel: PROTOCOL");
	result(attempt(fence_wrong, &many), "a FENCE of channel 9: PROTOCOL");
	while (i--)
		conn_end(&conns[i]);
	conn_end(&first);
}

/* ---- the first channel, again ---- */

#define RESUME_S 20

/* On iWARP the target says nothing before this. */
static const char *send_ack(struct conn *c)
{
	struct msg m;

	header(&m, ACK, HEADER, 0);
	return send_msg(c, &m);
}

/* What the target says that it has received, or what else there is instead of an accept. */
static const char *say_resume(const struct conn *first, struct conn *c, u32 received, u32 *there)
{
	s64 until = now_ms() + 10000;
	const char *why;

	/* The target may take some time until its queue pair is gone. */
	do {
		conn_end(c);
		conn_init(c);
		join_hello(first, c);
		put_bytes(c->hello + 6, 2, 0);
		put_bytes(c->hello + 52, 2, received);
		c->places = received & 1;
		why = conn_connect(c);
	} while (why && !strcmp(why, bad("rejected: version 2 reason %u", NO_ROOM)) &&
		 now_ms() < until);
	if (why)
		return why;
	*there = get_bytes(c->priv + 52, 2);
	c->received = received;
	return iwarp ? send_ack(c) : NULL;
}

/* A session that has sent one PING, and has the reply, loses its connection. */
static const char *lose(struct conn *first)
{
	const char *why;

	conn_init(first);
	put_bytes(first->hello + 50, 2, RESUME_S);
	why = conn_connect(first) ?: ping(first, 1);
	if (!why && get_bytes(first->priv + 50, 2) != RESUME_S)
		why = "the session does not resume";
	conn_break(first);
	return why;
}

/* Other than 1: the reply to the PING, which has completed there. */
static const char *resume_wrong(struct conn *c, const void *received)
{
	struct conn first;
	const char *why;
	u32 there = 0;

	why = lose(&first) ?: say_resume(&first, c, *(const u32 *)received, &there);
	/* It says why, unless it has heard nothing so far. */
	why = why ?: ends(c, iwarp ? -1 : PROTOCOL, SOON);
	conn_end(&first);
	return why;
}

static const char *resume_right(struct conn *c, const void *arg)
{
	struct conn first, again;
	const char *why;
	u32 there = 0;

	why = lose(&first) ?: say_resume(&first, c, 1, &there);
	if (!why && there != 1)
		why = bad("of 1 message the target has received %u", there);
	why = why ?: ping(c, 2);
	/* While it is up: the target has not seen that it is lost. */
	conn_init(&again);
	why = why ?: say_resume(&first, &again, 2, &there);
	if (!why && there != 2)
		why = bad("of 2 messages the target has received %u", there);
	why = why ?: ping(&again, 3);
	conn_end(&again);
	conn_end(&first);
	return why;
}

/* A request whose reply is lost, as there is no receive for it: it comes on the next connection. */
static const char *resume_reply(struct conn *c, const void *arg)
{
	struct conn first;
	struct msg q, a;
	const char *why;
	u32 there = 0;

	conn_init(&first);
	put_bytes(first.hello + 50, 2, RESUME_S);
	first.no_receives = true;
	why = conn_connect(&first);
	header(&q, PING, HEADER, 77);
	why = why ?: send_msg(&first, &q);
	conn_break(&first);
	why = why ?: say_resume(&first, c, 0, &there);
	if (!why && there != 1)
		why = bad("of 1 message the target has received %u", there);
	if (!why && !receive(c, &a, SOON))
		why = "it did not come";
	if (!why && (get(&a, 0, 1) != (PING | REPLY) || get(&a, 8, 4) != 77))
		why = "another message came";
	why = why ?: ping(c, 2);
	conn_end(&first);
	return why;
}

static const char *ack_twice(struct conn *c, const void *arg)
{
	struct conn first;
	const char *why;
	u32 there;

	why = lose(&first) ?: say_resume(&first, c, 1, &there) ?: send_ack(c);
	why = why ?: ends(c, PROTOCOL, SOON);
	conn_end(&first);
	return why;
}

void try_resumes(void)
{
	static const u32 less = 0, more = 2, most = 0x8001;

	result(attempt(resume_right, NULL), "a lost first channel is connected again, twice");
	result(attempt(resume_reply, NULL), "a reply that was lost comes again");
	if (iwarp)
		result(attempt(ack_twice, NULL), "a second ACK: PROTOCOL");
	else
		result(attempt(resume_wrong, &less),
		       "again, without a message that has arrived: PROTOCOL");
	result(attempt(resume_wrong, &more), "again, with one that was not sent: PROTOCOL");
	result(attempt(resume_wrong, &most), "again, with 2^15 more: PROTOCOL");
}
