// SPDX-License-Identifier: GPL-2.0
/*
 * An initiator with hundreds of sessions, for withheld.sh. Each session sends more requests than
 * the module has messages for replies, and takes no reply. Then it sends a few requests now and
 * then, so that it looks alive.
 *
 *	peer withhold HOST PORT KIND COUNT SOURCE...
 *
 * KIND "still" takes no reply. KIND "drip" takes one reply now and then, so that each SEND of the
 * module completes, much later than it was posted. On RoCE, taking a reply means posting a receive;
 * on iWARP, reading from a socket whose TCP window is closed. iWARP uses no RDMA device: this
 * program implements MPA and DDP.
 *
 * The COUNT sessions come from the SOURCEs in turn, each for another user. A session that ends is
 * begun again; if COUNT is 1, the program prints instead how long the session lasted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>

#include "peer.h"

/*
 * The module has 33 messages for its replies, and 66 receives: with these more than both, those
 * that come now and then wait, too. The receives must be there again for each BURST.
 */
#define FLOOD 112
/*
 * rxe sends all again that is behind what was not taken: what hundreds have asked so much is more
 * packets than an emulated processor can handle. There only so many do; the others ask a FEW.
 */
#define FLOODERS        32
#define FEW             4
#define BURST           16
#define BURST_MS        250
#define NOW_AND_THEN_MS 3000
#define AGAIN_MS        10000 /* after a connect that was refused */
#define REPLY           (20 + HELLO)

struct withheld {
	struct conn conn;
	const union address *from;
	int fd;
	u32 requested, flood;
	s64 began, next;
	bool begun;
	_Atomic bool up; /* the keeper's; else the connecter's */
};

static struct withheld *all;
static u32 count;
static bool drip;

/* ---- iWARP without a device ---- */

/* RFC 5044, without markers and CRC. */
static const char *stream_connect(struct withheld *w)
{
	struct timeval limit = { .tv_sec = 20 };
	u8 request[REPLY] = "MPA ID Req Frame", reply[REPLY];
	int least = 1, got;

	request[17] = 1; /* revision */
	request[19] = HELLO;
	memcpy(request + 20, w->conn.hello, HELLO);
	w->fd = socket(w->from->sa.sa_family, SOCK_STREAM, 0);
	if (w->fd < 0 || setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) ||
	    setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		return bad("no socket: %m");
	if (bind(w->fd, &w->from->sa, sizeof(*w->from)) ||
	    connect(w->fd, &peer_addr.sa, sizeof(peer_addr)) ||
	    send(w->fd, request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		return bad("no connection: %m");
	got = recv(w->fd, reply, 20, MSG_WAITALL);
	if (got != 20 || memcmp(reply, "MPA ID Rep Frame", 16))
		return bad("no reply: %m");
	if (reply[16] & 0x20)
		return "rejected";
	if (recv(w->fd, reply + 20, HELLO, MSG_WAITALL) != HELLO)
		return bad("no hello: %m");
	fcntl(w->fd, F_SETFL, O_NONBLOCK);
	return NULL;
}

/* One segment of an untagged buffer (RFC 5041), all of a SEND (RFC 5040). Returns its bytes. */
static u32 stream_put(u8 *f, u32 number, const struct msg *m)
{
	u32 size = 20 + m->len;

	f[0] = (size - 2) >> 8;
	f[1] = size - 2;
	f[2] = 0x41;
	f[3] = 0x43;
	/* Queue 0, its message with this number, from byte 0. */
	f[12] = number >> 24;
	f[13] = number >> 16;
	f[14] = number >> 8;
	f[15] = number;
	memcpy(f + 20, m->b, m->len);
	/* A multiple of 4, and no CRC. */
	return ((size + 3) & ~3) + 4;
}

/* Long ones, for TCP's buffer is to be full of the replies. */
static const char *stream_request(struct withheld *w, u32 n)
{
	u8 bytes[BURST * (20 + MSG_MAX)] = { 0 };
	struct msg m;
	u32 len = 0;

	while (n--) {
		header(&m, PING, HEADER + 512, ++w->requested);
		len += stream_put(bytes + len, w->requested, &m);
	}
	if (send(w->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		return bad("not sent: %m");
	return NULL;
}

static const char *stream_look(struct withheld *w, bool take)
{
	struct pollfd fd = { w->fd, POLLRDHUP, 0 };
	u8 bytes[1024];
	ssize_t got;

	if (take) {
		got = recv(w->fd, bytes, sizeof(bytes), 0);
		if (!got || (got < 0 && errno != EAGAIN))
			return bad("nothing more comes: %m");
	}
	return poll(&fd, 1, 0) > 0 ? "the connection has ended" : NULL;
}

/* ---- a session ---- */

static const char *begin_one(struct withheld *w, u32 i)
{
	conn_init(&w->conn);
	put_bytes(w->conn.hello + 24, 8, ((u64)now_ms() << 16) + i);
	put_bytes(w->conn.hello + 32, 4, 10000 + i);
	w->fd = -1;
	w->requested = 0;
	w->begun = true;
	if (iwarp)
		return stream_connect(w);
	w->conn.from = w->from;
	w->conn.no_receives = true;
	w->conn.rnr_timer = 0; /* 655 ms */
	w->conn.stubborn = true;
	return conn_connect(&w->conn);
}

static void end_one(struct withheld *w)
{
	if (w->begun && iwarp)
		close(w->fd);
	else if (w->begun)
		conn_end(&w->conn);
	w->begun = false;
}

static const char *look(struct withheld *w, bool take)
{
	struct conn *c = &w->conn;

	if (iwarp)
		return stream_look(w, take);
	while (pump(c, 0))
		;
	if (c->down || c->broken)
		return bad("%s", c->broken ? ibv_wc_status_str(c->broken) : "disconnected");
	if (take)
		post_receive(c, 0);
	return NULL;
}

static const char *request_some(struct withheld *w, u32 n)
{
	const char *why = NULL;
	struct msg m;

	if (iwarp)
		return stream_request(w, n);
	while (n-- && !why) {
		header(&m, PING, HEADER + 5, ++w->requested);
		why = send_msg(&w->conn, &m);
	}
	return why;
}

/* What is due. */
static const char *keep_one(struct withheld *w)
{
	bool full = w->requested >= w->flood;
	u32 n = full ? 1 : w->flood - w->requested;

	if (now_ms() < w->next)
		return NULL;
	w->next = now_ms() + (full ? NOW_AND_THEN_MS : patience(BURST_MS));
	return look(w, full && drip) ?: request_some(w, n < BURST ? n : BURST);
}

static void *keeper(void *arg)
{
	u32 told = 0;

	for (;;) {
		u32 full = 0, up = 0;

		for (u32 i = 0; i < count; i++) {
			struct withheld *w = &all[i];
			const char *why;

			if (!w->up)
				continue;
			why = keep_one(w);
			if (!why) {
				up++;
				full += w->requested >= w->flood;
				continue;
			}
			w->next = now_ms();
			printf("session %u ended after %ld ms: %s\n", i,
			       (long)(now_ms() - w->began), why);
			w->up = false;
		}
		if (full != told)
			printf("withholding %u, of %u sessions\n", full, up);
		told = full;
		usleep(50000);
	}
	return NULL;
}

int withhold_main(int argc, char **argv)
{
	union address *from;
	pthread_t thread;

	if (argc < 3 || atoi(argv[1]) < 1)
		return 2;
	drip = !strcmp(argv[0], "drip");
	count = atoi(argv[1]);
	from = calloc(argc, sizeof(*from));
	all = calloc(count, sizeof(*all));
	if (!from || !all)
		abort();
	for (int i = 2; i < argc; i++)
		resolve(&from[i - 2], argv[i], NULL);
	for (u32 i = 0; i < count; i++) {
		all[i].from = &from[i % (argc - 2)];
		all[i].flood = iwarp || i < FLOODERS ? FLOOD : FEW;
	}
	pthread_create(&thread, NULL, keeper, NULL);
	for (u32 i = 0;; i = i + 1 < count ? i + 1 : 0) {
		struct withheld *w = &all[i];
		const char *why;

		if (!i)
			usleep(50000);
		if (w->up || now_ms() < w->next)
			continue;
		/* It has ended. */
		if (w->begun && count == 1)
			return 0;
		end_one(w);
		why = begin_one(w, i);
		w->began = now_ms();
		w->next = w->began + (why ? AGAIN_MS : 0);
		w->up = !why;
		if (why)
			end_one(w);
		if (why)
			printf("session %u is not begun: %s\n", i, why);
		if (why && count == 1)
			return 1;
	}
}
