// SPDX-License-Identifier: GPL-2.0
/*
 * A target that violates the protocol: one port for each violation (peer_cases.c). At the end of
 * each connection this program prints
 *
 *	end NAME bye REASON|lost replied COUNT
 */
#include "peer_target.h"

struct served {
	struct conn conn; /* first: what a twist gets */
	const struct target_case *is;
	struct rdma_cm_id *id;
	u8 request[HELLO];
	u32 generation;
	bool again; /* not the session's first connection */
};

/* What a session has had on its first connection. */
struct past {
	bool over; /* all of it is here */
	u16 received, messages;
	u32 count;
	struct msg held[8]; /* without a reply */
};

static struct past *pasts; /* by the case */

static struct past *past_of(const struct served *s)
{
	return &pasts[s->is - cases];
}

/* Before its connection is over, the next one may be requested. */
static const struct past *past_wait(const struct served *s)
{
	const struct past *past = past_of(s);

	while (!__atomic_load_n(&past->over, __ATOMIC_ACQUIRE))
		usleep(1000);
	return past;
}

static void past_count(struct past *past, const struct msg *q)
{
	if (q->b[0] == MESSAGE)
		past->messages++;
	else
		past->received++;
}

static void past_hold(struct past *past, const struct msg *q)
{
	if (past->count < ARRAY_SIZE(past->held))
		past->held[past->count++] = *q;
}

const struct target_case *find_case(const struct conn *c)
{
	return ((const struct served *)c)->is;
}

/* CRC32C: where it was, behind @len bytes more. */
static u32 crc32c(u32 crc, const u8 *at, u32 len)
{
	while (len--) {
		crc ^= *at++;
		for (u32 bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

/* The reply that is right. */
static void good_reply(struct served *s, const struct msg *q, struct msg *a)
{
	struct conn *c = &s->conn;
	u64 first = get(q, 24, 8);
	u32 n = 0, want = get(q, 32, 4) + get(q, 36, 4);

	switch (q->b[0]) {
	case PING:
		*a = *q;
		a->b[0] |= REPLY;
		put(a, 12, 2, 0);
		break;
	case LIST:
		header(a, A(LIST), 24 + 80, get(q, 8, 4));
		put(a, 24, 8, LENGTH);
		put(a, 32, 4, READ | WRITE);
		strcpy((char *)a->b + 40, "good");
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
			put(a, 16 + 16 * n, 8, (uintptr_t)c->data + at);
			put(a, 24 + 16 * n, 4, LENGTH - at < 1 << SHIFT ? LENGTH - at : 1 << SHIFT);
			put(a, 28 + 16 * n, 4, c->mr->rkey);
		}
		a->len = 16 + 16 * n;
		put(a, 0, 8, A(SEGS) | (u64)a->len << 32);
		put(a, 8, 8, get(q, 8, 4));
		break;
	case DIGEST:
		header(a, A(DIGEST), 24, get(q, 8, 4));
		if (first + get(q, 32, 4) <= LENGTH)
			put(a, 16, 4, crc32c(get(q, 36, 4), c->data + first, get(q, 32, 4)));
		break;
	case GROW:
		header(a, A(GROW), 24, get(q, 8, 4));
		put(a, 16, 8, LENGTH);
		break;
	case MESSAGE:
		header(a, A(MESSAGE), 24, get(q, 8, 4));
		put(a, 16, 4, get(q, 8, 4));
		break;
	default:
		header(a, q->b[0] | REPLY, HEADER, get(q, 8, 4));
	}
}

static const char *greet(struct served *s)
{
	const struct target_case *is = s->is;
	struct conn *c = &s->conn;
	u8 reject[8] = { 0x4b, 0x52, 0x44, 0x4d, 2 };

	if (s->again && is->how == RESUME_IGNORED)
		return "ignored";
	if (is->patch.type == REJECT || (s->again && is->how == RESUME_REJECTED)) {
		put_bytes(reject + is->patch.at, is->patch.size, is->patch.value);
		rdma_reject(s->id, reject, is->patch.type ? is->patch.len : sizeof(reject));
		rdma_destroy_id(s->id);
		return "rejected";
	}
	if (is->how == IGNORE)
		return "ignored";
	conn_init(c);
	c->polite = false;
	c->target = true;
	c->no_receives = is->how == NO_RECEIVES;
	if (is->how == ENDLESS)
		c->rnr = 7;
	c->hello[5] = 1;
	memcpy(c->hello + 24, s->request + 24, 8);
	c->credits = get_bytes(s->request + 36, 2);
	if (s->again) {
		c->received = past_wait(s)->received;
		put_bytes(c->hello + 52, 2, past_wait(s)->received + is->received);
		put_bytes(c->hello + 54, 2, past_of(s)->messages + is->messages);
		put_bytes(c->hello + is->patch.at, is->patch.size, is->patch.value);
		return conn_accept(c, s->id);
	}
	if (is->how >= RESUME) {
		put_bytes(c->hello + 40, 8, 0x5ec7e7);
		put_bytes(c->hello + 50, 2, 30);
	}
	/* Whoever wants to send messages may, and whoever wants to send GROW. */
	put_bytes(c->hello + 8, 8, s->request[8] & 9);
	if (s->request[8] & 1)
		put_bytes(c->hello + 38, 2, 4);
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
	const struct target_case *is = s->is;
	u32 replied = 0;
	struct msg q, a;
	char how[40];
	int said = -1;
	const char *why;

	why = greet(s);
	if (why) {
		printf("end %s %s\n", is->name, why);
		return NULL;
	}
	for (u32 i = 0; s->again && i < past_of(s)->count; i++) {
		good_reply(s, &past_of(s)->held[i], &a);
		send_msg(c, &a);
	}
	if (is->how == DROP) {
		/* The event can be late, where a packet of rdma_cm is lost. */
		c->deaf = true;
		wait_event(c, RDMA_CM_EVENT_ESTABLISHED, 5000);
		rdma_disconnect(c->id);
	}
	while (is->how == NO_RECEIVES ? !c->down && pump(c, now_ms() + 60000) :
					receive(c, &q, 60000)) {
		if (is->how == NO_RECEIVES)
			continue;
		if (q.b[0] == BYE) {
			said = get(&q, 16, 4);
			rdma_disconnect(c->id);
			continue;
		}
		if (q.b[0] & REPLY) {
			replied += !get(&q, 2, 2);
			continue;
		}
		memset(&a, 0, sizeof(a));
		if (!c->deaf) {
			good_reply(s, &q, &a);
			if (!s->again && twisted(is, q.b[0]))
				is->twist(c, &q, &a);
			if (is->patch.type == a.b[0])
				apply(&a, &is->patch);
		}
		if (is->how >= RESUME && !s->again) {
			past_count(past_of(s), &q);
			if (c->deaf)
				past_hold(past_of(s), &q);
		}
		if (a.len)
			send_msg(c, &a);
	}
	__atomic_store_n(&past_of(s)->over, true, __ATOMIC_RELEASE);
	snprintf(how, sizeof(how), said < 0 ? "lost" : "bye %d", said);
	printf("end %s %s replied %u\n", is->name, how, replied);
	conn_end(c);
	return NULL;
}

int target_main(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_event *event;
	u16 port = ntohs(peer_addr.in.sin_port);
	pthread_t thread;

	pasts = calloc(cases_count, sizeof(*pasts));
	if (!pasts)
		return 1;
	for (u32 i = 0; i < cases_count; i++) {
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
		if (event->param.conn.private_data_len < HELLO)
			return 1;
		s = calloc(1, sizeof(*s));
		if (!s)
			return 1;
		s->is = event->listen_id->context;
		s->id = event->id;
		memcpy(s->request, event->param.conn.private_data, HELLO);
		s->again = get_bytes(s->request + 40, 8);
		rdma_ack_cm_event(event);
		if (!pthread_create(&thread, NULL, serve, s))
			pthread_detach(thread);
	}
	return 0;
}
