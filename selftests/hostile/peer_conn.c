// SPDX-License-Identifier: GPL-2.0
/* A connection, and what is said on it. */
#include <fcntl.h>
#include <poll.h>

#include "peer.h"

static struct ibv_pd *pd;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of pd */

/* ---- a connection ---- */

void conn_init(struct conn *c)
{
	memset(c, 0, sizeof(*c));
	put_bytes(c->hello, 4, MAGIC);
	c->hello[4] = 2;
	put_bytes(c->hello + 16, 8, 0x1122334455667788);
	put_bytes(c->hello + 24, 8, (u64)now_ms() << 16 | ((uintptr_t)c >> 6 & 0xffff));
	put_bytes(c->hello + 36, 2, CREDITS);
	c->hello_len = HELLO;
	c->reads = 4;
	c->retries = 6;
	c->rnr = 6;
	c->rnr_timer = 12;
	c->polite = true;
	c->event = -1; /* 0 is one */
}

void post_receive(struct conn *c, u32 i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->mem + i * MSG_MAX,
		.length = MSG_MAX,
		.lkey = c->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *fail;

	ibv_post_recv(c->qp, &wr, &fail);
}

static const char *qp_state(struct conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	/* There the kernel does that, when it connects or accepts. */
	if (iwarp)
		return NULL;
	if (rdma_init_qp_attr(c->id, &attr, &mask))
		return bad("no attributes for state %d: %m", state);
	if (state == IBV_QPS_RTR)
		attr.min_rnr_timer = c->rnr_timer;
	if (state == IBV_QPS_RTS && c->stubborn)
		attr.rnr_retry = 7;
	if (ibv_modify_qp(c->qp, &attr, mask))
		return bad("queue pair to state %d: %m", state);
	return NULL;
}

static const char *make_qp(struct conn *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { SEND_MAX, RX_COUNT, 1, 1, INLINE_MAX },
	};
	size_t size = DATA_AT + DATA_SIZE;
	const char *why;

	pthread_mutex_lock(&lock);
	if (!pd) {
		pd = ibv_alloc_pd(c->id->verbs);
		/* libsiw 44 takes a mapping at 0x90000 for a failure, so have that place. */
		if (iwarp)
			ibv_create_cq(c->id->verbs, 32767, NULL, NULL, 0);
	}
	pthread_mutex_unlock(&lock);
	c->mem = aligned_alloc(4096, size);
	if (!c->mem || !pd)
		return "no memory";
	memset(c->mem, 0, DATA_AT);
	c->data = c->mem + DATA_AT;
	c->mr = ibv_reg_mr(pd, c->mem, size,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE);
	c->comp = ibv_create_comp_channel(c->id->verbs);
	if (!c->mr || !c->comp)
		return bad("no registration: %m");
	fcntl(c->comp->fd, F_SETFL, O_NONBLOCK);
	c->cq = ibv_create_cq(c->id->verbs, SEND_MAX + RX_COUNT + 1, NULL, c->comp, 0);
	attr.send_cq = c->cq;
	attr.recv_cq = c->cq;
	if (!c->cq)
		return bad("no completion queue: %m");
	c->qp = ibv_create_qp(pd, &attr);
	if (!c->qp)
		return bad("no queue pair: %m");
	why = qp_state(c, IBV_QPS_INIT);
	for (u32 i = 0; !why && !c->no_receives && i < RX_COUNT; i++)
		post_receive(c, i);
	return why;
}

static const char *qp_ready(struct conn *c)
{
	/* Once more: only now rdma_cm knows what the other side may do. */
	return qp_state(c, IBV_QPS_INIT) ?: qp_state(c, IBV_QPS_RTR) ?: qp_state(c, IBV_QPS_RTS);
}

static bool poll_cm(struct conn *c)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(c->events, &event))
		return false;
	c->event = event->event;
	c->priv_len = 0;
	if (event->param.conn.private_data) {
		c->priv_len = event->param.conn.private_data_len;
		memcpy(c->priv, event->param.conn.private_data, c->priv_len);
	}
	rdma_ack_cm_event(event);
	switch (c->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	default:
		c->down = true;
	}
	return true;
}

static bool poll_cq(struct conn *c)
{
	struct ibv_wc wc;
	bool any = false;
	u8 type;

	while (c->cq && ibv_poll_cq(c->cq, 1, &wc) > 0) {
		any = true;
		if (wc.status && wc.status != IBV_WC_WR_FLUSH_ERR && !c->broken)
			c->broken = wc.status;
		if (wc.wr_id >= SEND_MAX) {
			c->op_status = wc.status;
			c->ops_done++;
		} else if (wc.wr_id >= RX_COUNT) {
			c->tx_done++;
		} else if (!wc.status) {
			c->rx[c->rx_head++ % RX_COUNT] = wc.wr_id << 16 | wc.byte_len;
			type = c->mem[wc.wr_id * MSG_MAX];
			c->received += type != ACK && type != MESSAGE;
		}
	}
	return any;
}

/* Take in what has happened, or wait for it. Returns false if nothing has by then. */
bool pump(struct conn *c, s64 until)
{
	struct pollfd fds[] = {
		{ c->events->fd, POLLIN, 0 },
		{ c->comp ? c->comp->fd : -1, POLLIN, 0 },
	};
	struct ibv_cq *cq;
	void *context;
	s64 left;

	for (;;) {
		if (poll_cq(c) | poll_cm(c))
			return true;
		if (c->cq && !ibv_req_notify_cq(c->cq, 0) && poll_cq(c))
			return true;
		left = until - now_ms();
		if (left <= 0)
			return false;
		poll(fds, 2, left);
		if (fds[1].revents && !ibv_get_cq_event(c->comp, &cq, &context))
			ibv_ack_cq_events(cq, 1);
	}
}

bool wait_event(struct conn *c, int event, int ms)
{
	s64 until = now_ms() + ms;

	while (c->event != event && !c->down)
		if (!pump(c, until))
			break;
	return c->event == event;
}

static struct rdma_event_channel *event_channel(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();

	if (events)
		fcntl(events->fd, F_SETFL, O_NONBLOCK);
	return events;
}

static void conn_param(struct conn *c, struct rdma_conn_param *param)
{
	*param = (struct rdma_conn_param){
		.private_data = c->hello,
		.private_data_len = c->hello_len,
		.responder_resources = c->reads,
		.initiator_depth = c->reads,
		.retry_count = c->retries,
		.rnr_retry_count = c->rnr,
		.qp_num = c->qp->qp_num,
	};
}

static u64 features_wanted(const struct conn *c)
{
	return c->messages | c->usages << 1 | (c->places ? PLACES : 0) | c->grows << 3;
}

/* The accept, as the initiator has to check it. */
static const char *check_accept(struct conn *c)
{
	u32 channels = get_bytes(c->priv + 48, 2), wanted = get_bytes(c->hello + 48, 2);
	u32 resume = get_bytes(c->priv + 50, 2), received = get_bytes(c->priv + 52, 4); /* both */
	bool joins = get_bytes(c->hello + 40, 8);
	u32 credits = get_bytes(c->priv + 36, 2), message_credits = get_bytes(c->priv + 38, 2);
	/* The other device of a lab is rxe, which places before it acknowledges. */
	u64 features = features_wanted(c) & ~(iwarp ? PLACES : 0ULL);

	if (c->priv_len < HELLO || get_bytes(c->priv, 4) != MAGIC || c->priv[4] != 2)
		return "the accept is no hello";
	if (iwarp && c->priv_len != HELLO)
		return bad("the accept has %u bytes", c->priv_len);
	if (!c->priv[5] || get_bytes(c->priv + 32, 4) || memcmp(c->priv + 6, c->hello + 6, 2))
		return "the accept has another channel, an uid or no epoch";
	if (channels > (wanted ?: 1) ||
	    (channels > 1 || resume) != (get_bytes(c->priv + 40, 8) != 0))
		return "the accept has channels that were not wanted, or a secret without any";
	if (resume > get_bytes(c->hello + 50, 2) || (received && !joins))
		return "the accept resumes longer than was wanted, or what has just begun";
	if (get_bytes(c->priv + 8, 8) != features || !message_credits != !c->messages ||
	    message_credits > 64)
		return "the accept has features that were not wanted, or not those";
	if (memcmp(c->priv + 24, c->hello + 24, 8))
		return "the accept has another session";
	if (credits < 2 || credits > 256)
		return "the accept breaks a limit";
	return NULL;
}

/* NULL if connected; else what came instead, with the reason of a reject. */
const char *conn_connect(struct conn *c)
{
	int reply = iwarp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE;
	union address addr = peer_addr;
	struct rdma_conn_param param;
	struct msg m;
	const char *why;

	addr.in.sin_port = htons(ntohs(addr.in.sin_port) + c->port);
	c->events = event_channel();
	if (!c->events || rdma_create_id(c->events, &c->id, NULL, RDMA_PS_TCP))
		return bad("no rdma_cm id: %m");
	if (rdma_resolve_addr(c->id, c->from ? (struct sockaddr *)&c->from->sa : NULL, &addr.sa,
			      5000) ||
	    !wait_event(c, RDMA_CM_EVENT_ADDR_RESOLVED, 6000))
		return "no address";
	if (rdma_resolve_route(c->id, 5000) || !wait_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 6000))
		return "no route";
	why = make_qp(c);
	if (why)
		return why;
	if (features_wanted(c))
		put_bytes(c->hello + 8, 8, features_wanted(c));
	conn_param(c, &param);
	if (rdma_connect(c->id, &param))
		return bad("no connect: %m");
	if (!wait_event(c, reply, 20000)) {
		c->down = true;
		if (c->event != RDMA_CM_EVENT_REJECTED)
			return bad("not connected: %s", rdma_event_str(c->event));
		if (c->priv_len < 8 || get_bytes(c->priv, 4) != MAGIC || c->priv[6] || c->priv[7])
			return REJECTED;
		return bad("rejected: version %u reason %u", c->priv[4], c->priv[5]);
	}
	why = check_accept(c) ?: qp_ready(c);
	c->credits = get_bytes(c->priv + 36, 2);
	c->message_credits = get_bytes(c->priv + 38, 2);
	if (why || iwarp)
		return why;
	if (c->early) {
		request(c, &m, PING);
		send_msg(c, &m);
		/* It has arrived there, and has no reply yet. */
		while (c->tx_done < c->tx_posted && !c->down && pump(c, now_ms() + 5000))
			;
	}
	if (!c->no_rtu && rdma_establish(c->id))
		return bad("not established: %m");
	return NULL;
}

const char *conn_accept(struct conn *c, struct rdma_cm_id *id)
{
	struct rdma_conn_param param;
	const char *why;

	c->events = event_channel();
	c->id = id;
	if (!c->events || rdma_migrate_id(id, c->events))
		return bad("no event channel: %m");
	why = make_qp(c) ?: qp_ready(c);
	if (why)
		return why;
	conn_param(c, &param);
	if (rdma_accept(id, &param))
		return bad("no accept: %m");
	return NULL;
}

/* The queue pair stops working, without a word to the other side. */
void conn_break(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (c->qp)
		ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
}

void conn_end(struct conn *c)
{
	if (c->qp)
		rdma_disconnect(c->id);
	conn_break(c);
	if (c->qp)
		ibv_destroy_qp(c->qp);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->comp)
		ibv_destroy_comp_channel(c->comp);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->id)
		rdma_destroy_id(c->id);
	if (c->events)
		rdma_destroy_event_channel(c->events);
	free(c->mem);
	memset(c, 0, sizeof(*c));
}

/* ---- what is said on it ---- */

/* @with: another opcode or flags, NULL for a SEND. */
const char *post_send(struct conn *c, const struct msg *m, struct ibv_send_wr *with)
{
	u32 slot = c->tx_next++ % TX_COUNT;
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->mem + TX_AT + slot * TX_SIZE,
		.length = m->len,
		.lkey = c->mr->lkey,
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *fail;

	if (with)
		wr = *with;
	wr.wr_id = RX_COUNT;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (!with && m->len && m->len <= INLINE_MAX)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.sg_list = &sge;
	wr.num_sge = !!m->len;
	memcpy(c->mem + TX_AT + slot * TX_SIZE, m->b, m->len);
	if (iwarp && m->len >= HEADER && !get(m, 12, 2) && !c->countless)
		put_bytes(c->mem + TX_AT + slot * TX_SIZE + 12, 2, c->received);
	if (ibv_post_send(c->qp, &wr, &fail))
		return bad("not posted: %m");
	c->tx_posted++;
	return NULL;
}

const char *send_msg(struct conn *c, const struct msg *m)
{
	return post_send(c, m, NULL);
}

void reply_politely(struct conn *c, const struct msg *q)
{
	struct msg a;

	header(&a, q->b[0] | REPLY, HEADER, get(q, 8, 4));
	for (u32 at = 24; at < q->len; at += 8)
		for (u32 k = 0; k < c->keys; k++)
			if (c->key[k].index == get(q, at, 8))
				c->key[k] = c->key[--c->keys];
	if (whole_grant(q)) {
		c->revokes++;
		c->keys = 0;
	} else {
		c->recalls++;
	}
	send_msg(c, &a);
}

static void reply_ping(struct conn *c, const struct msg *q)
{
	struct msg a = *q;

	a.b[0] |= REPLY;
	put(&a, 12, 2, 0); /* the other side's count */
	if (c->guesses && a.len > HEADER)
		a.b[HEADER] ^= 1;
	send_msg(c, &a);
}

/* The next message that came, in order. A PING is iWARP's heartbeat. */
bool receive(struct conn *c, struct msg *m, int ms)
{
	s64 until = now_ms() + ms;
	const char *why;
	u32 rx;

	for (;;) {
		poll_cq(c);
		if (c->rx_head == c->rx_tail) {
			if (c->down || !pump(c, until))
				return false;
			continue;
		}
		rx = c->rx[c->rx_tail++ % RX_COUNT];
		m->len = rx & 0xffff;
		memcpy(m->b, c->mem + (rx >> 16) * MSG_MAX, m->len);
		post_receive(c, rx >> 16);
		why = sane(m);
		if (why)
			not_sane(why);
		if (m->b[0] == ACK)
			continue;
		if (m->b[0] == PING && !c->target && !c->deaf) {
			reply_ping(c, m);
			continue;
		}
		if (!c->polite || m->b[0] != RECALL)
			return true;
		reply_politely(c, m);
	}
}

static bool replies(const struct msg *a, const struct msg *q)
{
	return a->b[0] == (q->b[0] | REPLY) && !memcmp(a->b + 8, q->b + 8, 4);
}

/* Ask, and wait for the reply; others are dropped. */
const char *call(struct conn *c, const struct msg *q, struct msg *a, int ms)
{
	s64 until = now_ms() + ms;
	const char *why = send_msg(c, q);
	bool done = false, beat = false;
	struct msg m, ping;

	while (!why && (!done || beat)) {
		/*
		 * siw lets what comes too early lie until more comes (siw_accept sends
		 * the reply before it looks for data), hence a heartbeat.
		 */
		bool first = iwarp && !c->rx_head && !beat;

		if (receive(c, &m, first ? 2000 : until - now_ms())) {
			if (m.b[0] == BYE)
				return bad("BYE with reason %u", (u32)get(&m, 16, 4));
			if (replies(&m, q)) {
				*a = m;
				done = true;
			} else if (beat && replies(&m, &ping)) {
				beat = false;
			}
		} else if (first && !c->down) {
			request(c, &ping, PING);
			why = send_msg(c, &ping);
			beat = true;
		} else {
			return bad("type %#x gets no reply%s", q->b[0],
				   c->down ? ", but disconnected" : "");
		}
	}
	return why;
}

/* A READ, WRITE or atomic of the data at @at, and how it ended. */
enum ibv_wc_status rdma_op(struct conn *c, struct ibv_send_wr *wr, u32 at, u32 len)
{
	struct ibv_sge sge = { (uintptr_t)c->data + at, len, c->mr->lkey };
	s64 until = now_ms() + 20000;
	struct ibv_send_wr *fail;
	u32 before = c->ops_done;

	wr->wr_id = SEND_MAX;
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->sg_list = &sge;
	wr->num_sge = !!len;
	if (ibv_post_send(c->qp, wr, &fail))
		return IBV_WC_FATAL_ERR;
	while (c->ops_done == before)
		/* What siw is given when its stream has ended never completes. */
		if (iwarp && c->down ? !poll_cq(c) : !pump(c, until))
			return IBV_WC_RESP_TIMEOUT_ERR;
	return c->broken ?: c->op_status;
}

enum ibv_wc_status move(struct conn *c, bool write, u32 at, u32 len, u64 address, u32 rkey)
{
	struct ibv_send_wr wr = {
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.wr.rdma = { address, rkey },
	};

	return rdma_op(c, &wr, at, len);
}

/*
 * One that must not be. On iWARP a WRITE is done when TCP has it, and what came
 * of it is seen by the end of the connection alone. So it is where the target's rxe,
 * which responds in a work where Linux is newer than 6.1, is ended before it says why.
 */
const char *refused(struct conn *c, struct ibv_send_wr *wr, u32 len)
{
	enum ibv_wc_status status;
	const char *why = NULL;

	memset(c->data, 0xee, len);
	status = rdma_op(c, wr, 0, len);
	if (iwarp ? status || wr->opcode != IBV_WR_RDMA_READ : status == IBV_WC_RETRY_EXC_ERR)
		why = ends(c, -1, SOON);
	else if (status != IBV_WC_REM_ACCESS_ERR)
		why = bad("%s", ibv_wc_status_str(status));
	for (u32 i = 0; i < len && !why; i++)
		if (c->data[i] != 0xee)
			why = "bytes were read";
	return why;
}

/* On iWARP all times are longer, as what they wait for comes behind what was sent. */
int slower(int ms)
{
	return iwarp ? 3 * ms : ms;
}

/* A slow kernel has longer, as TIME_FACTOR says. */
int patience(int ms)
{
	const char *factor = getenv("TIME_FACTOR");

	return factor && *factor ? ms * atoi(factor) : ms;
}

/* The other side ends the session within that time, and says why if @reason is not -1. */
const char *ends(struct conn *c, int reason, int ms)
{
	s64 until = now_ms() + patience(ms);
	int said = -1;
	struct msg m;

	while (receive(c, &m, until - now_ms()))
		if (m.b[0] == BYE)
			said = get(&m, 16, 4);
	if (!c->down)
		return bad("not disconnected within %d ms (BYE %d, completion %s)", ms, said,
			   ibv_wc_status_str(c->broken));
	if (reason >= 0 && said != reason)
		return bad("BYE with reason %d, not %d (-1: none)", said, reason);
	return NULL;
}
