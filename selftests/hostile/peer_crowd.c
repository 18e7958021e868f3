// SPDX-License-Identifier: GPL-2.0
/* An initiator with many connections at once, which are never completed or never used. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "peer.h"

#define CROWD 25

const char *crowd(struct conn *unused, const void *arg)
{
	enum crowd kind = *(const enum crowd *)arg;
	/* On iWARP who connected has to be the first to send. */
	bool dies = kind == HALF_OPEN || (kind == SILENT && iwarp);
	static struct conn all[QUIET + 1][CROWD];
	struct conn *c = all[kind];
	const char *why = NULL;
	s64 first = now_ms(), last;
	struct msg m;
	u32 n;

	for (n = 0; n < CROWD && !why; n++) {
		conn_init(&c[n]);
		c[n].no_rtu = kind == HALF_OPEN;
		why = conn_connect(&c[n]);
		if (!why && kind == QUIET)
			why = ping(&c[n], n);
		/* A connect takes long on a slow kernel: those before it are asked meanwhile. */
		for (u32 i = 0; i < n && !dies; i++)
			receive(&c[i], &m, 0);
	}
	last = now_ms();
	if (why)
		why = bad("connection %u: %s", n, why);
	/* Longer than any timeout. Only heartbeats get a reply. */
	while (!dies && !why && !c->down && now_ms() < last + slower(13000))
		for (u32 i = 0; i < n; i++)
			receive(&c[i], &m, i ? 0 : 500);
	for (u32 i = 0; i < n && !why; i++) {
		why = dies ? ends(&c[i], -1, slower(20000)) : ping(&c[i], i);
		if (why)
			why = bad("connection %u: %s", i, why);
	}
	if (!why && dies)
		why = within(first, 7000, slower(60000)) ?: within(last, 0, slower(15000));
	for (u32 i = 0; i < n; i++)
		conn_end(&c[i]);
	return why;
}

/* Of a session beside the first, on path 1, which are joined anew when they have timed out. */
#define HALVES 3

static void join_halves(const struct conn *first, struct conn *half)
{
	for (u32 i = 0; i < HALVES; i++) {
		if (half[i].no_rtu)
			pump(&half[i], now_ms());
		if (half[i].no_rtu && !half[i].down)
			continue;
		conn_end(&half[i]);
		conn_init(&half[i]);
		half[i].no_rtu = true;
		join_hello(first, &half[i]);
		put_bytes(half[i].hello + 5, 1, 1);
		put_bytes(half[i].hello + 6, 2, 1 + i);
		/* The target may take some time until the one before is gone. */
		if (conn_connect(&half[i]))
			half[i].no_rtu = false;
		/* One at a time, so that they do not time out together. */
		return;
	}
}

/*
 * The service is to register memory for a path whose channels are never up: it recalls grants all
 * the same.
 */
const char *joins_for_ever(struct conn *c, const void *arg)
{
	struct conn half[HALVES];
	bool recalled = false;
	const char *why;
	struct msg q;
	s64 since;

	c->polite = false;
	put_bytes(c->hello + 48, 2, 1 + HALVES);
	why = begin(c, "gone8");
	for (u32 i = 0; i < HALVES; i++)
		conn_init(&half[i]);
	if (!why)
		join_halves(c, half);
	segs_request(c, &q, 0, 1, 0);
	put(&q, 38, 2, 1);
	why = why ?: send_msg(c, &q) ?: kill_exporter("gone8");
	since = now_ms();
	while (!why && !recalled && now_ms() < since + 25000) {
		join_halves(c, half);
		recalled = receive(c, &q, 1000) && whole_grant(&q);
	}
	if (recalled)
		reply_politely(c, &q);
	for (u32 i = 0; i < HALVES; i++)
		conn_end(&half[i]);
	return why ?: recalled ? ping(c, 9) ?: say_bye(c) : "no RECALL of the grant";
}

/* ---- half-open connects by the thousand ---- */

/* A request and nothing behind it: no queue pair has the number that it names. */
struct half_open {
	struct rdma_cm_id *id;
	u32 qp_num; /* of its own: ib_cm takes the same once more for a stale connection */
	bool accepted, ended;
};

/* Channels of a session beside the first. */
#define JOINS 3

/* So often refused, there is room for none: one that failed by itself would have left some. */
#define ENOUGH 16

struct tally {
	bool joins; /* to further channels of one session */
	u32 accepted, refused, ended;
	u32 no_room;       /* of the refused */
	bool tried;        /* from another address then, */
	const char *other; /* and what came of it */
};

/* A slow kernel has fewer. */
static u32 half_open_count(void)
{
	const char *count = getenv("HALF_OPEN");

	return count && *count ? (u32)atoi(count) : 1000;
}

static void half_open_event(struct conn *c, struct rdma_cm_event *event, struct tally *tally)
{
	struct half_open *half = event->id->context;
	struct rdma_conn_param param = {
		.private_data = c->hello,
		.private_data_len = HELLO,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.qp_num = half->qp_num,
	};

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!rdma_resolve_route(half->id, 5000))
			return;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		/* A session and a user of its own: one user of a host has fewer. */
		if (!tally->joins) {
			put_bytes(c->hello + 24, 8, (uintptr_t)half);
			put_bytes(c->hello + 32, 4, half->qp_num);
		} else {
			put_bytes(c->hello + 6, 2, 1 + half->qp_num % JOINS);
		}
		if (!rdma_connect(half->id, &param))
			return;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		half->accepted = true;
		tally->accepted++;
		return;
	default:
		break;
	}
	if (half->ended)
		return;
	half->ended = true;
	tally->ended++;
	tally->refused += !half->accepted;
	if (!half->accepted && event->event == RDMA_CM_EVENT_REJECTED &&
	    event->param.conn.private_data_len > 5 &&
	    ((const u8 *)event->param.conn.private_data)[5] == NO_ROOM)
		tally->no_room++;
}

/* These have what one address may have. */
static const char *from_other(struct conn *c, const void *arg)
{
	static union address other;

	resolve(&other, getenv("OTHER_ADDRESS"), NULL);
	c->from = &other;
	return begin(c, "data") ?: ping(c, 7) ?: say_bye(c);
}

/* All of them, until each has ended. */
static const char *half_open(struct conn *c, struct half_open *all, u32 count, struct tally *tally)
{
	s64 until = now_ms() + patience(120000);
	struct rdma_cm_event *event;
	u32 begun;

	c->events = rdma_create_event_channel();
	if (!c->events)
		return bad("no event channel: %m");
	fcntl(c->events->fd, F_SETFL, O_NONBLOCK);
	for (begun = 0; begun < count; begun++) {
		struct half_open *half = &all[begun];

		half->qp_num = 0x700000 + begun;
		if (rdma_create_id(c->events, &half->id, half, RDMA_PS_TCP) ||
		    rdma_resolve_addr(half->id, NULL, &peer_addr.sa, 5000))
			return bad("connect %u: %m", begun);
	}
	while (tally->ended < count) {
		struct pollfd fd = { c->events->fd, POLLIN, 0 };
		s64 left = until - now_ms();

		if (left <= 0)
			return bad("%u of %u have ended", tally->ended, count);
		poll(&fd, 1, (int)left);
		while (!rdma_get_cm_event(c->events, &event)) {
			half_open_event(c, event, tally);
			rdma_ack_cm_event(event);
			if (tally->no_room < ENOUGH || tally->tried || !getenv("OTHER_ADDRESS"))
				continue;
			tally->tried = true;
			printf("# refused after %u were accepted and %u had ended\n",
			       tally->accepted, tally->ended);
			tally->other = attempt(from_other, NULL);
		}
	}
	return tally->accepted ? NULL : "none was accepted";
}

static const char *many_half_open(struct conn *c, const void *arg)
{
	static const char what[] = "a connect from another address, when one has all it may have";
	u32 count = *(const u32 *)arg, i;
	struct half_open *all = calloc(count, sizeof(*all));
	struct tally tally = { 0 };
	const char *why;

	if (!all)
		return "no memory";
	why = half_open(c, all, count, &tally);
	for (i = 0; i < count && all[i].id; i++)
		rdma_destroy_id(all[i].id);
	free(all);
	printf("# of %u connects %u were accepted, %u refused\n", count, tally.accepted,
	       tally.refused);
	if (!getenv("OTHER_ADDRESS"))
		skip("there is no other address", "%s", what);
	else if (!tally.tried)
		skip("it was not refused", "%s", what);
	else
		result(tally.other, "%s", what);
	return why;
}

/* All know the secret. */
static const char *many_half_joins(struct conn *c, const void *arg)
{
	u32 count = *(const u32 *)arg, i;
	struct half_open *all = calloc(count, sizeof(*all));
	struct tally tally = { .joins = true, .tried = true };
	struct conn half, whole;
	const char *why;

	if (!all)
		return "no memory";
	put_bytes(c->hello + 48, 2, 1 + JOINS);
	why = begin(c, "data");
	conn_init(&half);
	join_hello(c, &half);
	why = why ?: half_open(&half, all, count, &tally);
	for (i = 0; i < count && all[i].id; i++)
		rdma_destroy_id(all[i].id);
	free(all);
	printf("# of %u joins %u were accepted, %u refused\n", count, tally.accepted,
	       tally.refused);
	conn_end(&half);
	conn_init(&whole);
	why = why ?: ping(c, 7) ?: join_again(c, &whole) ?: ping(c, 8);
	conn_end(&whole);
	return why ?: say_bye(c);
}

/* On iWARP a connection is one of TCP first: these never say what they want. */
static const char *many_silent(struct conn *c, const void *arg)
{
	u32 count = *(const u32 *)arg, n, connected = 0;
	s64 until = now_ms() + patience(5000);
	struct pollfd *fds = calloc(count, sizeof(*fds));
	const char *why = NULL;

	if (!fds)
		return "no memory";
	for (n = 0; n < count; n++) {
		fds[n].fd = socket(peer_addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		fds[n].events = POLLOUT;
		if (fds[n].fd < 0 || (connect(fds[n].fd, &peer_addr.sa, sizeof(peer_addr)) &&
				      errno != EINPROGRESS)) {
			why = bad("connection %u: %m", n);
			break;
		}
	}
	while (!why && connected < count && now_ms() < until) {
		connected = 0;
		poll(fds, n, 100);
		for (u32 i = 0; i < n; i++)
			connected += !!(fds[i].revents & POLLOUT);
	}
	printf("# of %u connections %u are there\n", count, connected);
	/* Beside them. */
	if (!why)
		why = connected ? begin(c, "data") ?: ping(c, 7) ?: say_bye(c) : "none is there";
	while (n)
		close(fds[--n].fd);
	free(fds);
	return why;
}

void half_open_by_the_thousand(void)
{
	u32 count = half_open_count();

	if (iwarp)
		result(attempt(many_silent, &count),
		       "%u connections of TCP that say nothing: a session beside them", count);
	else
		result(attempt(many_half_open, &count),
		       "%u connects that never complete: refused, or ended", count);
	if (iwarp)
		skip("iWARP has one channel", "%u joins that never complete", count);
	else
		result(attempt(many_half_joins, &count),
		       "%u joins that never complete: their session goes on, and can be joined",
		       count);
	result(attempt(verify_data, NULL), "then a session is as before");
}
