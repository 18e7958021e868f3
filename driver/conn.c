// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: rdma_cm and the queue pair of a channel.
 *
 * The connect runs in a work of the session, step by step; the handler only
 * passes on what each step came to. Order of the end: disconnect, drain, id,
 * queue pair, (keys of the peer: grant.c), then CQ, buffers, PD, device. The
 * id goes before the queue pair so that no event can find it half gone.
 */
#include <linux/log2.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

/* Needs linux/list.h before. */
#include <linux/irq_poll.h>

#include "krdma.h"
#include "trace.h"

/* 4.096 us << 17 = 0.54 s; with 6 retries a dead path shows in about 4 s, with timeout_scale 1. */
#define KRDMA_ACK_TIMEOUT 17
#define KRDMA_RETRIES     6
#define KRDMA_ENDLESS     7
/* 0.64 ms: receives are posted ahead, so this hardly ever counts. */
#define KRDMA_RNR_TIMER 12
#define KRDMA_RD_ATOMIC 16

static void krdma_conn_event(struct krdma_channel *ch, int err, enum rdma_cm_event_type event)
{
	ch->cm_event = event;
	ch->cm_err = err;
	complete(&ch->cm_done);
}

/**
 * krdma_conn_endless - does the peer ask for retries without an end?
 * @param: of its request, or of its reply
 *
 * This host's queue pair takes the counts from there (cm_req_handler, cm_rep_handler), and
 * 7 means that what the peer does not take never fails. iWARP has no counts: both are 0.
 *
 * Context: any.
 * Return: true if it does
 */
bool krdma_conn_endless(const struct rdma_conn_param *param)
{
	return param->retry_count >= KRDMA_ENDLESS || param->rnr_retry_count >= KRDMA_ENDLESS;
}

static void krdma_conn_established(struct krdma_channel *ch, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	const char *cause = NULL;
	int rc = 0;

	if (ch->sess->inbound) {
		krdma_session_up(ch->sess);
		return;
	}
	/* Without READs either way nothing can be moved or confirmed (iWARP negotiates). */
	if (!param->private_data ||
	    (ch->iwarp && (!param->initiator_depth || !param->responder_resources))) {
		rc = -EPROTO;
	} else if (krdma_conn_endless(param)) {
		ch->cm_why = "the peer asks for retries without an end";
		rc = -EPROTO;
	} else {
		rc = krdma_proto_decode_hello(param->private_data, param->private_data_len,
					      &ch->peer, &cause);
	}
	krdma_conn_event(ch, rc, event->event);
}

/*
 * The peer disconnected. What it sent before was received before, but perhaps not seen yet:
 * its BYE, for one. With the queue pair in error the flushed receives come behind that, and
 * end the session; the tick does where there are none. Return: it is left to them.
 */
static bool krdma_conn_disconnected(struct krdma_channel *ch)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct krdma_session *sess = ch->sess;
	bool up, left;

	spin_lock_bh(&sess->lock);
	up = sess->state == KRDMA_SESSION_UP;
	/* The connect work tells, or krdma_session_up(). */
	left = up || (sess->state == KRDMA_SESSION_CONNECTING && !sess->inbound);
	if (left && !up)
		ch->broken = "the peer disconnected";
	if (up) {
		ch->lost = "the peer disconnected";
		ch->lost_at = jiffies;
		krdma_session_tick_by(sess, ktime_add_ms(ktime_get(), KRDMA_LOST_MS));
	}
	spin_unlock_bh(&sess->lock);
	/* It is there as long as its id is. */
	if (up)
		ib_modify_qp(ch->qp, &attr, IB_QP_STATE);
	return left;
}

/**
 * krdma_conn_handler - rdma_cm events of a channel
 * @id: its id
 * @event: event
 *
 * Context: process, the id's handler lock held.
 * Return: 0: the channel alone destroys its id
 */
int krdma_conn_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct krdma_channel *ch = id->context;
	const void *data;
	u8 len;

	trace_krdma_cm_event(ch->sess->serial, event->event, event->status);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		krdma_conn_event(ch, 0, event->event);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		krdma_conn_established(ch, event);
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return 0;
	case RDMA_CM_EVENT_REJECTED:
		ch->cm_reason = KRDMA_WIRE_REASON_NONE;
		data = rdma_consumer_reject_data(id, event, &len);
		/* siw says so of any reject, and mostly hands on what came with it. */
		ch->cm_refused = event->status == -ECONNRESET;
		if (!data && ch->cm_refused) {
			data = event->param.conn.private_data;
			len = event->param.conn.private_data_len;
		}
		if (data)
			krdma_proto_decode_reject(data, len, &ch->cm_version, &ch->cm_reason);
		krdma_conn_event(ch, -ECONNREFUSED, event->event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		krdma_conn_event(ch, -ENOTCONN, event->event);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		krdma_conn_event(ch, -ETIMEDOUT, event->event);
		break;
	default:
		/* DISCONNECTED, DEVICE_REMOVAL, ADDR_CHANGE, and what may come. */
		krdma_conn_event(ch, -ECONNRESET, event->event);
		break;
	}
	if (event->event == RDMA_CM_EVENT_DISCONNECTED && krdma_conn_disconnected(ch))
		return 0;
	krdma_session_broken(ch->sess, event->event == RDMA_CM_EVENT_DISCONNECTED ?
					       "the peer disconnected" :
					       rdma_event_msg(event->event));
	return 0;
}

static void krdma_qp_event(struct ib_event *event, void *context)
{
	struct krdma_channel *ch = context;

	switch (event->event) {
	case IB_EVENT_SQ_DRAINED:
	case IB_EVENT_PATH_MIG:
	case IB_EVENT_QP_LAST_WQE_REACHED:
		break;
	default:
		/* Some drivers call this from their interrupt. */
		WRITE_ONCE(ch->qp_event, event->event);
		queue_work(krdma_wq, &ch->qp_event_work);
		break;
	}
}

/**
 * krdma_conn_qp_work - an event of the queue pair
 * @work: of a channel
 *
 * Context: work.
 */
void krdma_conn_qp_work(struct work_struct *work)
{
	struct krdma_channel *ch = container_of(work, struct krdma_channel, qp_event_work);
	enum ib_event_type event = READ_ONCE(ch->qp_event);
	struct rdma_cm_id *id = READ_ONCE(ch->id);

	/* ORDER: the id is there while the session is not taken apart. */
	if (!id || READ_ONCE(ch->sess->state) > KRDMA_SESSION_UP)
		return;
	/* The peer's first message overtook the end of the handshake. */
	if (event == IB_EVENT_COMM_EST)
		rdma_notify(id, IB_EVENT_COMM_EST);
	else
		krdma_session_broken(ch->sess, ib_event_msg(event));
}

static int krdma_channel_setup(struct krdma_channel *ch, struct rdma_cm_id *id)
{
	struct krdma_session *sess = ch->sess;
	struct ib_qp_init_attr attr = {};
	struct ib_device *ib = id->device;
	const char *unusable;
	int rc;

	if (!krdma_device_attach(ib, sess)) {
		ch->cause = "the RDMA device is being removed";
		return -ENOTCONN;
	}
	unusable = krdma_device_unusable(sess->dev, id->port_num);
	if (unusable) {
		ch->cause = unusable;
		return -EOPNOTSUPP;
	}

	ch->messages = sess->messages;
	ch->nrx = KRDMA_WINDOW * 2 + 1 + (ch->messages ? KRDMA_PLACES : 0);
	/* Only the owner gets messages; the initiator gets answers to them. */
	ch->rx_size = ch->messages && sess->inbound ? KRDMA_WIRE_LETTER_MAX : KRDMA_WIRE_MSG_MAX;
	ch->ntx = KRDMA_WINDOW * 3 + 1;
	/* An owner posts no data, and a peer should cost little. */
	ch->slots = sess->inbound ? 0 : KRDMA_DATA_SLOTS;
	ch->max_sge = sess->dev->policy.max_sge;
	ch->max_sge_rd = sess->dev->policy.max_sge_rd;

	BUILD_BUG_ON(2 * KRDMA_DATA_SLOTS + KRDMA_SINKS + 1 + KRDMA_WINDOW * 3 + 1 + KRDMA_PLACES +
			     KRDMA_REG_SLOTS + 1 >
		     KRDMA_OUTSTANDING_MAX);
	BUILD_BUG_ON_NOT_POWER_OF_2(KRDMA_OUTSTANDING_MAX);
	attr.cap.max_send_wr = ch->slots * 2 + ch->ntx + KRDMA_REG_SLOTS + 1 + 1;
	ch->iwarp = rdma_protocol_iwarp(ib, id->port_num);
	ch->timeout_scale = sess->timeout_scale;
	if (ch->iwarp && ch->timeout_scale < KRDMA_IWARP_TIMEOUT_SCALE)
		ch->timeout_scale = KRDMA_IWARP_TIMEOUT_SCALE;
	if (ch->iwarp && ch->slots)
		attr.cap.max_send_wr += KRDMA_SINKS + 1;
	if (ch->messages && ch->slots)
		attr.cap.max_send_wr += KRDMA_PLACES;
	attr.cap.max_recv_wr = ch->nrx + 1;
	attr.cap.max_send_sge = ch->slots ? ch->max_sge : 1;
	attr.cap.max_recv_sge = 1;
	if (attr.cap.max_send_wr > ib->attrs.max_qp_wr ||
	    attr.cap.max_send_wr + attr.cap.max_recv_wr > ib->attrs.max_cqe) {
		ch->cause = "the RDMA device's queues are too short";
		return -EOPNOTSUPP;
	}

	sess->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(sess->pd)) {
		rc = PTR_ERR(sess->pd);
		sess->pd = NULL;
		goto out;
	}
	ch->cq = ib_alloc_cq(ib, ch, attr.cap.max_send_wr + attr.cap.max_recv_wr,
			     sess->serial % ib->num_comp_vectors, IB_POLL_SOFTIRQ);
	if (IS_ERR(ch->cq)) {
		rc = PTR_ERR(ch->cq);
		ch->cq = NULL;
		goto out;
	}
	rc = krdma_post_setup(ch);
	if (rc)
		goto out;

	attr.qp_type = IB_QPT_RC;
	attr.sq_sig_type = IB_SIGNAL_REQ_WR;
	attr.send_cq = ch->cq;
	attr.recv_cq = ch->cq;
	attr.event_handler = krdma_qp_event;
	attr.qp_context = ch;
	rc = rdma_create_qp(id, sess->pd, &attr);
	if (rc)
		goto out;
	ch->qp = id->qp;
	ch->qp_num = ch->qp->qp_num;
	ch->port = id->port_num;
	rc = krdma_post_receives(ch);
	if (!rc)
		return 0;
out:
	ch->cause = "a queue pair could not be made";
	return rc;
}

static void krdma_conn_param(struct krdma_session *sess, struct krdma_wire_hello *wire,
			     struct rdma_conn_param *param)
{
	struct krdma_hello hello = {
		.incarnation = krdma_incarnation,
		.session = sess->inbound ? sess->ch->peer.session : sess->serial,
		.uid = sess->inbound ? 0 : from_kuid(&init_user_ns, sess->uid),
		.window = KRDMA_WINDOW,
		.features = sess->messages ? KRDMA_WIRE_MESSAGES : 0,
		.places = sess->messages && sess->inbound ? KRDMA_PLACES : 0,
		.heartbeat_ms = KRDMA_HEARTBEAT_MS,
	};
	const struct ib_device_attr *attrs = &sess->dev->ib->attrs;

	krdma_proto_encode_hello(&hello, wire);
	memset(param, 0, sizeof(*param));
	param->private_data = wire;
	param->private_data_len = sizeof(*wire);
	param->responder_resources = min(attrs->max_qp_rd_atom, KRDMA_RD_ATOMIC);
	param->initiator_depth = min(attrs->max_qp_init_rd_atom, KRDMA_RD_ATOMIC);
	param->retry_count = KRDMA_RETRIES;
	param->rnr_retry_count = KRDMA_RETRIES;
}

static void krdma_conn_timers(const struct krdma_session *sess, struct rdma_cm_id *id)
{
	rdma_set_ack_timeout(id, KRDMA_ACK_TIMEOUT + ilog2(sess->timeout_scale));
	rdma_set_min_rnr_timer(id, KRDMA_RNR_TIMER);
}

static void krdma_conn_adopt(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;

	sess->peer_incarnation = ch->peer.incarnation;
	sess->window.size = min_t(u32, ch->peer.window, KRDMA_WINDOW);
	memcpy(&sess->local, &ch->id->route.addr.src_addr, sizeof(sess->local));
	if (sess->inbound)
		memcpy(&sess->dst, &ch->id->route.addr.dst_addr, sizeof(sess->dst));
}

/* ORDER: the state changes before cm_done is completed for it. */
static bool krdma_conn_wanted(struct krdma_session *sess)
{
	return READ_ONCE(sess->state) == KRDMA_SESSION_CONNECTING;
}

/* What both speak, where that is not the same. */
static const char *krdma_conn_versions(struct krdma_channel *ch, u8 version)
{
	if (version == KRDMA_WIRE_VERSION)
		return krdma_proto_reason_text(KRDMA_WIRE_REASON_VERSION);
	krdma_proto_versions(version, ch->text, sizeof(ch->text));
	return ch->text;
}

/* Wait for the event of a step; the session's state is in wait too. */
static int krdma_conn_step(struct krdma_session *sess, enum rdma_cm_event_type want,
			   const char *what, unsigned long until)
{
	struct krdma_channel *ch = sess->ch;
	long left = until - jiffies;

	if (!krdma_conn_wanted(sess))
		return -ECANCELED;
	if (left <= 0 || !wait_for_completion_timeout(&ch->cm_done, left)) {
		ch->cause = what;
		return -ETIMEDOUT;
	}
	reinit_completion(&ch->cm_done);
	if (ch->cm_err) {
		if (ch->cm_event == RDMA_CM_EVENT_REJECTED &&
		    ch->cm_reason == KRDMA_WIRE_REASON_VERSION)
			ch->cause = krdma_conn_versions(ch, ch->cm_version);
		else if (ch->cm_event == RDMA_CM_EVENT_REJECTED)
			ch->cause = ch->cm_reason  ? krdma_proto_reason_text(ch->cm_reason) :
				    ch->cm_refused ? "it refuses, and does not say why" :
						     "nobody listens there";
		else if (ch->cm_why)
			ch->cause = ch->cm_why;
		else if (ch->cm_err == -EPROTONOSUPPORT)
			ch->cause = krdma_conn_versions(ch, ch->peer.version);
		else if (ch->cm_err == -EPROTO)
			ch->cause = "the peer's greeting can't be understood";
		else
			ch->cause = what;
		return ch->cm_err == -EPROTONOSUPPORT ? -EPROTO : ch->cm_err;
	}
	return ch->cm_event == want ? 0 : -EPROTO;
}

/* Of rdma_cm or a driver; siw connects at once, and has those of TCP. */
static int krdma_conn_error(struct krdma_channel *ch, int rc)
{
	switch (rc) {
	case -ENOMEM:
	case -EOPNOTSUPP:
	case -ETIMEDOUT:
		return rc;
	case -ECONNREFUSED:
		ch->cause = "nobody listens there";
		return rc;
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		ch->cause = "no route to the address";
		return -ENOTCONN;
	default:
		return -ENOTCONN;
	}
}

/**
 * krdma_conn_connect - connect the first channel of a session
 * @sess: session, connecting
 *
 * Bounded by krdma_session_connect_ms(), but for siw's rdma_connect(). On failure ch->cause
 * says what went wrong, and krdma_conn_destroy cleans up.
 *
 * Context: the session's connect work.
 * Return: 0 or a negative errno
 */
int krdma_conn_connect(struct krdma_session *sess)
{
	u32 limit_ms = krdma_session_connect_ms(sess);
	unsigned long until = jiffies + msecs_to_jiffies(limit_ms);
	struct krdma_channel *ch = sess->ch;
	struct krdma_wire_hello wire;
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	int rc;

	if (!krdma_conn_wanted(sess))
		return -ECANCELED;
	ch->cause = "rdma_cm has no id for it";
	id = rdma_create_id(sess->net, krdma_conn_handler, ch, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	ch->id = id;

	ch->cause = "no route over an RDMA device";
	rc = rdma_resolve_addr(id, sess->src.ss_family ? (struct sockaddr *)&sess->src : NULL,
			       (struct sockaddr *)&sess->dst, limit_ms / 2);
	if (rc)
		return krdma_conn_error(ch, rc);
	rc = krdma_conn_step(sess, RDMA_CM_EVENT_ADDR_RESOLVED,
			     "the address does not resolve on an RDMA device", until);
	if (rc)
		return rc;

	rc = rdma_resolve_route(id, limit_ms / 2);
	if (rc)
		return krdma_conn_error(ch, rc);
	rc = krdma_conn_step(sess, RDMA_CM_EVENT_ROUTE_RESOLVED, "no route to the address", until);
	if (rc)
		return rc;

	rc = krdma_channel_setup(ch, id);
	if (rc)
		return krdma_conn_error(ch, rc);
	krdma_conn_timers(sess, id);

	krdma_conn_param(sess, &wire, &param);
	/* siw stays in it. */
	if (!krdma_conn_wanted(sess))
		return -ECANCELED;
	ch->cause = "the connect was not accepted by rdma_cm";
	rc = rdma_connect(id, &param);
	if (rc)
		return krdma_conn_error(ch, rc);
	rc = krdma_conn_step(sess, RDMA_CM_EVENT_ESTABLISHED, "the peer does not answer", until);
	if (rc)
		return rc;
	if (ch->peer.channel || ch->peer.session != sess->serial || ch->peer.uid ||
	    ch->peer.features & ~(sess->messages ? KRDMA_WIRE_MESSAGES : 0) ||
	    !ch->peer.features != !ch->peer.places) {
		ch->cause = "the peer's greeting does not fit";
		return -EPROTO;
	}
	ch->cause = NULL;
	ch->messages = ch->peer.features & KRDMA_WIRE_MESSAGES;
	if (ch->messages)
		krdma_letters_begin(ch, ch->peer.places);
	krdma_conn_adopt(sess);
	return 0;
}

/**
 * krdma_conn_accept - accept the first channel of an inbound session
 * @sess: session, connecting
 * @id: its new id; stays rdma_cm's on failure
 * @hello: the initiator's greeting
 * @peer: its connection parameters
 *
 * Context: rdma_cm handler of @id.
 * Return: 0 or a negative errno
 */
int krdma_conn_accept(struct krdma_session *sess, struct rdma_cm_id *id,
		      const struct krdma_hello *hello, const struct rdma_conn_param *peer)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_wire_hello wire;
	struct rdma_conn_param param;
	int rc;

	ch->peer = *hello;
	rc = krdma_channel_setup(ch, id);
	if (rc)
		return rc;

	/* Events of the id are the channel's from here. */
	id->context = ch;
	id->event_handler = krdma_conn_handler;
	ch->id = id;
	krdma_conn_adopt(sess);
	krdma_conn_timers(sess, id);

	krdma_conn_param(sess, &wire, &param);
	/* 0 on iWARP: a peer that did not say. */
	if (!ch->iwarp || (peer->responder_resources && peer->initiator_depth)) {
		param.responder_resources =
			min(param.responder_resources, peer->responder_resources);
		param.initiator_depth = min(param.initiator_depth, peer->initiator_depth);
	}
	rc = rdma_accept(id, &param);
	if (rc) {
		/* ORDER: the id is freed when the handler returns. */
		WRITE_ONCE(ch->id, NULL);
		cancel_work_sync(&ch->qp_event_work);
	}
	return rc;
}

/**
 * krdma_conn_stop - break a channel: what is posted gets its completions
 * @ch: channel of a session that is closing, so that nobody posts
 *
 * Context: process.
 */
void krdma_conn_stop(struct krdma_channel *ch)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (!ch->qp)
		return;
	/*
	 * Adapters say goodbye first, on iWARP the error state is an abort. siw on the
	 * way by the disconnect flushes nothing that it is not just sending.
	 */
	if (ch->sess->dev->policy.error_first)
		ib_modify_qp(ch->qp, &attr, IB_QP_STATE);
	if (ch->id)
		rdma_disconnect(ch->id);
	ib_modify_qp(ch->qp, &attr, IB_QP_STATE);
}

/**
 * krdma_conn_drain - wait for the completions of what was posted
 * @ch: channel that was stopped
 *
 * What has none after this gets none.
 *
 * Context: process.
 */
void krdma_conn_drain(struct krdma_channel *ch)
{
	if (ch->qp)
		ib_drain_qp(ch->qp);
}

/*
 * The handler of the RDMA core (ib_poll_handler) lets go of what ib_free_cq() waits for before
 * it arms the CQ, and so may do that when the CQ is freed. To RCU it is a reader. Nothing comes
 * to the CQ any more, but what it polled too early for makes it run once more.
 */
static void krdma_cq_quiesce(struct ib_cq *cq)
{
	do {
		synchronize_rcu();
	} while (test_bit(IRQ_POLL_F_SCHED, &cq->iop.state));
	/* Of one that was through with the polling. */
	synchronize_rcu();
}

/**
 * krdma_conn_destroy - destroy id, queue pair and completion queue of a channel
 * @sess: session, stopped and drained, with no work of it running
 *
 * No peer can reach this host's memory by the session after it.
 *
 * Context: process; not the id's handler.
 */
void krdma_conn_destroy(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;

	cancel_work_sync(&ch->qp_event_work);
	/* ORDER: no event of the id may find the queue pair half gone. */
	if (ch->id)
		rdma_destroy_id(ch->id);
	ch->id = NULL;
	if (ch->qp)
		ib_destroy_qp(ch->qp);
	ch->qp = NULL;
	/* ORDER: no handler runs any more, so what is left now had no completion. */
	if (ch->cq) {
		krdma_cq_quiesce(ch->cq);
		ib_free_cq(ch->cq);
	}
	ch->cq = NULL;
	krdma_chunks_reap(ch);
	/* Since the first time it could only find the session closing. */
	cancel_work_sync(&ch->qp_event_work);
}

static bool krdma_conn_tx_idle(struct krdma_channel *ch)
{
	bool idle;

	/* ORDER: with the lock, so that who gave the last back is through with the channel. */
	spin_lock_bh(&ch->sess->lock);
	idle = !ch->tx_taken;
	spin_unlock_bh(&ch->sess->lock);
	return idle;
}

/**
 * krdma_conn_release - give back what a channel stood on
 * @sess: session without a queue pair, and without a key of a peer
 *
 * Context: process.
 */
void krdma_conn_release(struct krdma_session *sess)
{
	struct krdma_device *dev = sess->dev;
	struct krdma_channel *ch = sess->ch;

	if (!dev)
		return;
	/* Messages on their way to a post that will be refused. */
	wait_event(ch->tx_wait, krdma_conn_tx_idle(ch));
	krdma_post_teardown(ch);
	if (sess->pd)
		ib_dealloc_pd(sess->pd);
	sess->pd = NULL;
	spin_lock_bh(&sess->lock);
	sess->dev = NULL;
	spin_unlock_bh(&sess->lock);
	krdma_device_put(dev);
}
