// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: rdma_cm and the queue pair of a channel.
 *
 * The connect runs in a work of the session, step by step; the handler only
 * passes on what each step came to. Order of the end: disconnect, drain, id,
 * queue pair, (keys of the peer: grant.c), then CQ, buffers, PD, device. The
 * id goes before the queue pair so that no event can find it half gone.
 */
#include <linux/rcupdate.h>
#include <rdma/ib_cm.h>

/* Needs linux/list.h before. */
#include <linux/irq_poll.h>

#include "rdma/rdma.h"
#include "trace.h"

#define KRDMA_ENDLESS 7
/* 0.64 ms: receives are posted ahead, so this hardly ever counts. */
#define KRDMA_RNR_TIMER 12
#define KRDMA_RD_ATOMIC 16

static void krdma_conn_event(struct krdma_channel *ch, int err, enum rdma_cm_event_type event,
			     const char *why)
{
	ch->cm_event = event;
	ch->cm_err = err;
	/* What came first is nearest to the cause. */
	ch->cm_why = ch->cm_why ?: why;
	complete(&ch->cm_done);
}

/* What both speak, where that is not the same. */
static const char *krdma_conn_versions(struct krdma_channel *ch, u8 version)
{
	if (version == KRDMA_WIRE_VERSION)
		return krdma_wire_reason_text(KRDMA_WIRE_REASON_VERSION);
	krdma_wire_versions(version, ch->text, sizeof(ch->text));
	return ch->text;
}

/* Why the peer rejects. */
static const char *krdma_conn_rejected(struct krdma_channel *ch, struct rdma_cm_id *id,
				       struct rdma_cm_event *event)
{
	/* siw says so of any reject, and mostly hands on what came with it. */
	bool refused = event->status == -ECONNRESET;
	u8 len, version = 0, reason = KRDMA_WIRE_REASON_NONE;
	const void *data = rdma_consumer_reject_data(id, event, &len);

	if (!data && refused) {
		data = event->param.conn.private_data;
		len = event->param.conn.private_data_len;
	}
	/* Of a host that was switched off: ib_cm there ends it now. */
	if (!data && event->status == IB_CM_REJ_STALE_CONN) {
		ch->stale = true;
		return "the peer has not ended the connection of before";
	}
	if (data)
		krdma_wire_check_reject(data, len, &version, &reason);
	ch->rejected = reason;
	if (reason == KRDMA_WIRE_REASON_VERSION)
		return krdma_conn_versions(ch, version);
	if (reason)
		return krdma_wire_reason_text(reason);
	return refused ? "it refuses, and does not say why" : "nobody listens there";
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
	const char *cause, *why = "the peer's greeting can't be understood, or leaves no READs";
	int rc = -EPROTO;
	bool usable;

	if (ch->inbound) {
		ch->ops->established(ch);
		return;
	}
	/* Without READs nothing can be moved or confirmed, on iWARP either way. */
	usable = param->private_data && param->initiator_depth &&
		 (!ch->iwarp || param->responder_resources);
	if (usable && krdma_conn_endless(param))
		why = "the peer asks for retries without an end";
	else if (usable)
		rc = krdma_wire_check_hello(param->private_data, param->private_data_len, &ch->peer,
					    &cause);
	if (rc == -EPROTONOSUPPORT) {
		why = krdma_conn_versions(ch, ch->peer.version);
		rc = -EPROTO;
	}
	krdma_conn_event(ch, rc, event->event, rc ? why : NULL);
}

/*
 * The peer disconnected. What it sent before was received before, but perhaps not seen yet:
 * its BYE, for one. With the queue pair in error the flushed receives come behind that, and
 * end the session; the tick does where there are none.
 */
static void krdma_conn_disconnected(struct krdma_channel *ch)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	const char *cause = "the peer disconnected";
	bool up;

	krdma_channel_lock(ch);
	krdma_control_left(ch);
	/* Nothing is received on a further channel. */
	up = ch->state == KRDMA_CHANNEL_UP && !ch->first;
	if (up) {
		WRITE_ONCE(ch->lost, cause);
		ch->lost_at = jiffies;
		krdma_channel_tick_by(ch, ktime_add_ms(ktime_get(), KRDMA_LOST_MS));
	} else {
		krdma_channel_broken_locked(ch, cause);
	}
	krdma_channel_unlock(ch);
	/* It is there as long as its id is. */
	if (up)
		ib_modify_qp(ch->qp, &attr, IB_QP_STATE);
}

/* Events of a channel's id. Return: 0: the channel alone destroys its id */
static int krdma_conn_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct krdma_channel *ch = id->context;

	trace_krdma_cm_event(ch->serial, event->event, event->status);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		krdma_conn_event(ch, 0, event->event, NULL);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		krdma_conn_established(ch, event);
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return 0;
	case RDMA_CM_EVENT_REJECTED:
		krdma_conn_event(ch, -ECONNREFUSED, event->event,
				 krdma_conn_rejected(ch, id, event));
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		krdma_conn_event(ch, -ENOTCONN, event->event, NULL);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		krdma_conn_event(ch, -ETIMEDOUT, event->event, NULL);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		krdma_conn_event(ch, -ECONNRESET, event->event, NULL);
		krdma_conn_disconnected(ch);
		return 0;
	default:
		/* DEVICE_REMOVAL, ADDR_CHANGE, and what may come. */
		krdma_conn_event(ch, -ECONNRESET, event->event, NULL);
		break;
	}
	krdma_channel_lock(ch);
	krdma_control_left(ch);
	krdma_channel_broken_locked(ch, rdma_event_msg(event->event));
	krdma_channel_unlock(ch);
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

	/* ORDER: the id is there while the channel is not taken apart. */
	if (!id || READ_ONCE(ch->state) >= KRDMA_CHANNEL_DOWN)
		return;
	/* The peer's first message overtook the end of the handshake. */
	if (event == IB_EVENT_COMM_EST)
		rdma_notify(id, IB_EVENT_COMM_EST);
	else
		krdma_channel_broken(ch, ib_event_msg(event));
}

/* How long its queues are: with fewer work requests for data where the device's are short. */
static int krdma_channel_size(struct krdma_channel *ch, const struct ib_device_attr *attrs,
			      struct ib_qp_cap *cap)
{
	u32 rest = ch->ntx + KRDMA_REG_SLOTS + 1 + 1;

	if (ch->iwarp && ch->slots)
		rest += KRDMA_SINKS + 1;
	if (ch->messages && ch->slots)
		rest += KRDMA_MESSAGE_CREDITS;
	cap->max_recv_wr = ch->nrx + 1;
	cap->max_send_sge = ch->slots ? ch->max_sge : 1;
	cap->max_recv_sge = 1;
	for (;; ch->slots /= 2) {
		cap->max_send_wr = ch->slots * 2 + rest;
		if (cap->max_send_wr <= attrs->max_qp_wr &&
		    cap->max_send_wr + cap->max_recv_wr <= attrs->max_cqe)
			return 0;
		if (ch->slots <= KRDMA_SLOTS_MIN)
			return -EOPNOTSUPP;
	}
}

/* With room for short messages in the work requests, unless the device has none. */
static int krdma_conn_create_qp(struct krdma_channel *ch, struct rdma_cm_id *id,
				struct ib_qp_init_attr *attr)
{
	struct ib_qp_cap cap = attr->cap;
	u32 room;
	int rc;

	for (room = ch->dev->policy.inlines ? KRDMA_INLINE : 0;; room = 0) {
		attr->cap = cap;
		attr->cap.max_inline_data = room;
		rc = krdma_inject(rdma_create_qp(id, ch->pd, attr), -ENOMEM);
		if (!room || (rc != -EINVAL && rc != -EOPNOTSUPP))
			break;
	}
	ch->max_inline = min(attr->cap.max_inline_data, room);
	return rc;
}

/* Have the device and the PD of the path, or make them. Return: 0 or a negative errno */
static int krdma_path_attach(struct krdma_channel *ch, struct ib_device *ib)
{
	struct krdma_path *path = ch->path;
	struct ib_pd *pd;
	int rc = 0;

	mutex_lock(&path->lock);
	/* What is registered there ends now, and no queue pair may come that could reach it. */
	if (READ_ONCE(path->gone)) {
		ch->cause = "its path gives back an RDMA device";
		rc = -ENOTCONN;
		goto out;
	}
	if (!krdma_device_attach(ib, ch)) {
		bool moved = path->dev && path->dev->ib != ib;

		ch->cause = moved ? "its route is over another RDMA device" :
				    "the RDMA device is being removed";
		/* An attempt has that one when nothing is on this one any more. */
		if (moved)
			ch->ops->moved(ch);
		rc = -ENOTCONN;
		goto out;
	}
	path->users++;
	if (!path->pd) {
		pd = krdma_inject(ib_alloc_pd(ib, 0), ERR_PTR(-ENOMEM));
		rc = PTR_ERR_OR_ZERO(pd);
		if (!rc)
			path->pd = pd;
		if (!rc && ch->inbound)
			path->epoch = path->epoch % U8_MAX + 1;
	}
	ch->pd = path->pd;
	if (rc)
		ch->cause = "a queue pair could not be made";
out:
	mutex_unlock(&path->lock);
	return rc;
}

static int krdma_channel_setup(struct krdma_channel *ch, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {};
	struct krdma_window window;
	struct ib_port_attr port;
	struct ib_device *ib = id->device;
	int rc;

	rc = krdma_path_attach(ch, ib);
	if (rc)
		return rc;
	ch->iwarp = rdma_protocol_iwarp(ib, id->port_num);
	ch->cause = krdma_device_unusable(ch->dev, id->port_num, &port) ?: ch->ops->unfit(ch);
	if (ch->cause)
		return -EOPNOTSUPP;

	/* Only data goes over another channel than the first. */
	if (!ch->first && !ch->rx) {
		/* Requests, replies, a BYE and an ACK. */
		ch->nrx = KRDMA_CREDITS * 2 + 2 + (ch->messages ? KRDMA_MESSAGE_CREDITS : 0);
		/* Of three kinds; a reply too many, a BYE and an ACK. */
		ch->ntx = KRDMA_CREDITS * 3 + 3;
	}
	/* Only the target gets messages; the initiator gets replies to them. */
	ch->rx_size = ch->messages && ch->inbound ? KRDMA_WIRE_MESSAGE_MAX : KRDMA_WIRE_MSG_MAX;
	window = krdma_port_window(port.active_speed, port.active_width);
	/* A target posts no data, and a peer should cost little. */
	ch->slots = ch->data ? window.slots : 0;
	ch->posted_max = window.bytes;
	ch->max_sge = ch->dev->policy.max_sge;
	ch->max_sge_rd = ch->dev->policy.max_sge_rd;

	ch->timeout_scale = max_t(u32, ch->peer_scale, ch->iwarp ? KRDMA_IWARP_TIMEOUT_SCALE : 0);
	rc = krdma_channel_size(ch, &ib->attrs, &attr.cap);
	if (rc) {
		ch->cause = "the RDMA device's queues are too short";
		return rc;
	}
	ch->posted_mask = roundup_pow_of_two(attr.cap.max_send_wr) - 1;

	/* Drivers spread vectors over processors in order: one that submits has its completions. */
	ch->cq = krdma_inject(
		ib_alloc_cq(ib, ch, attr.cap.max_send_wr + attr.cap.max_recv_wr,
			    (ch->first ? ch->index - 1 : ch->serial) % ib->num_comp_vectors,
			    IB_POLL_SOFTIRQ),
		ERR_PTR(-ENOMEM));
	rc = PTR_ERR_OR_ZERO(ch->cq) ?: krdma_post_setup(ch);
	if (rc)
		goto out;

	attr.qp_type = IB_QPT_RC;
	attr.sq_sig_type = IB_SIGNAL_REQ_WR;
	attr.send_cq = ch->cq;
	attr.recv_cq = ch->cq;
	attr.event_handler = krdma_qp_event;
	attr.qp_context = ch;
	rc = krdma_conn_create_qp(ch, id, &attr);
	if (rc)
		goto out;
	ch->qp = id->qp;
	ch->qp_num = ch->qp->qp_num;
	ch->port = id->port_num;
	rc = krdma_control_receive(ch);
	if (!rc)
		return 0;
out:
	ch->cause = "a queue pair could not be made";
	return rc;
}

/* What this host wants of the connection: timers, set here, and parameters. */
static struct rdma_conn_param krdma_conn_param(const struct krdma_channel *ch,
					       const struct krdma_wire_hello *hello)
{
	const struct ib_device_attr *attrs = &ch->dev->ib->attrs;

	rdma_set_ack_timeout(ch->id, krdma_channel_ack_timeout(ch));
	rdma_set_min_rnr_timer(ch->id, KRDMA_RNR_TIMER);
	return (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = sizeof(*hello),
		.responder_resources = min(attrs->max_qp_rd_atom, KRDMA_RD_ATOMIC),
		.initiator_depth = min(attrs->max_qp_init_rd_atom, KRDMA_RD_ATOMIC),
		.retry_count = KRDMA_RETRIES,
		.rnr_retry_count = KRDMA_RETRIES,
	};
}

/* ORDER: the state changes before cm_done is completed for it. */
static bool krdma_conn_wanted(struct krdma_channel *ch)
{
	return READ_ONCE(ch->state) == KRDMA_CHANNEL_CONNECTING;
}

/* Wait for the event of a step, or for the end of the session. */
static int krdma_conn_step(struct krdma_channel *ch, enum rdma_cm_event_type want, const char *what,
			   unsigned long until)
{
	long left = until - jiffies;

	if (!krdma_conn_wanted(ch))
		return -ECANCELED;
	if (left <= 0 || !wait_for_completion_timeout(&ch->cm_done, left)) {
		ch->cause = what;
		return -ETIMEDOUT;
	}
	reinit_completion(&ch->cm_done);
	if (ch->cm_err) {
		ch->cause = ch->cm_why ?: what;
		return ch->cm_err;
	}
	return ch->cm_event == want ? 0 : -EPROTO;
}

/* Of rdma_cm or a driver; siw connects at once, and has those of TCP. */
static int krdma_conn_error(struct krdma_channel *ch, int rc)
{
	bool known = rc == -ENOMEM || rc == -EOPNOTSUPP || rc == -ETIMEDOUT || rc == -ECONNREFUSED;

	if (rc == -ECONNREFUSED)
		ch->cause = "nobody listens there";
	if (rc == -ENETUNREACH || rc == -EHOSTUNREACH)
		ch->cause = "no route to the address";
	return known ? rc : -ENOTCONN;
}

/**
 * krdma_conn_connect - connect a channel
 * @ch: channel, connecting; ->peer is the peer's greeting on success
 * @net: network namespace
 * @hello: the greeting of this host
 * @limit_ms: how long it may take; siw's rdma_connect() has no limit
 *
 * On failure ch->cause says what went wrong, unless the channel has failed or was closed, and
 * krdma_conn_destroy cleans up.
 *
 * Context: a work of the session that connects.
 * Return: 0 or a negative errno
 */
int krdma_conn_connect(struct krdma_channel *ch, struct net *net,
		       const struct krdma_wire_hello *hello, u32 limit_ms)
{
	unsigned long until = jiffies + msecs_to_jiffies(limit_ms);
	struct sockaddr_storage src = ch->path->src, dst = ch->path->dst;
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	int rc;

	if (!krdma_conn_wanted(ch))
		return -ECANCELED;
	ch->cause = "rdma_cm has no id for it";
	id = krdma_inject(rdma_create_id(net, krdma_conn_handler, ch, RDMA_PS_TCP, IB_QPT_RC),
			  ERR_PTR(-ENOMEM));
	if (IS_ERR(id))
		return PTR_ERR(id);
	ch->id = id;

	/* From the same address as before, whatever the route; port 0 is any. */
	if (ch->path->local.ss_family) {
		src = ch->path->local;
		((struct sockaddr_in *)&src)->sin_port = 0;
	}
	ch->cause = "no route over an RDMA device";
	rc = krdma_inject(rdma_resolve_addr(id, src.ss_family ? (struct sockaddr *)&src : NULL,
					    (struct sockaddr *)&dst, limit_ms / 2),
			  -ENOMEM);
	if (rc)
		return krdma_conn_error(ch, rc);
	rc = krdma_conn_step(ch, RDMA_CM_EVENT_ADDR_RESOLVED,
			     "the address does not resolve on an RDMA device", until);
	if (rc)
		return rc;

	rc = krdma_inject(rdma_resolve_route(id, limit_ms / 2), -ENOMEM);
	if (rc)
		return krdma_conn_error(ch, rc);
	rc = krdma_conn_step(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, "no route to the address", until);
	if (rc)
		return rc;

	rc = krdma_channel_setup(ch, id);
	if (rc)
		return krdma_conn_error(ch, rc);
	param = krdma_conn_param(ch, hello);
	/* siw stays in it. */
	if (!krdma_conn_wanted(ch))
		return -ECANCELED;
	ch->cause = "the connect was not accepted by rdma_cm";
	rc = krdma_inject(rdma_connect(id, &param), -ENOMEM);
	if (rc)
		return krdma_conn_error(ch, rc);
	return krdma_conn_step(ch, RDMA_CM_EVENT_ESTABLISHED, "the peer does not respond", until);
}

/**
 * krdma_conn_accept - accept a channel
 * @ch: channel, connecting; ->peer is the initiator's greeting
 * @id: its new id; stays rdma_cm's on failure
 * @hello: the greeting of this host; the epoch of the path's keys is set here, and PLACES
 * @peer: the initiator's connection parameters
 *
 * Context: rdma_cm handler of @id.
 * Return: 0 or a negative errno
 */
int krdma_conn_accept(struct krdma_channel *ch, struct rdma_cm_id *id,
		      struct krdma_wire_hello *hello, const struct rdma_conn_param *peer)
{
	struct rdma_conn_param param;
	int rc;

	rc = krdma_channel_setup(ch, id);
	if (rc)
		return rc;
	hello->path = ch->path->epoch;
	if (krdma_inject(ch->dev->policy.places, false))
		hello->features |= ch->peer.features & cpu_to_le64(KRDMA_WIRE_PLACES);
	ch->peer_qp_num = peer->qp_num;

	/* Events of the id are the channel's from here. */
	id->context = ch;
	id->event_handler = krdma_conn_handler;
	ch->id = id;
	param = krdma_conn_param(ch, hello);
	/* 0 on iWARP: a peer that did not say. */
	if (!ch->iwarp || (peer->responder_resources && peer->initiator_depth)) {
		param.responder_resources =
			min(param.responder_resources, peer->responder_resources);
		param.initiator_depth = min(param.initiator_depth, peer->initiator_depth);
	}
	rc = krdma_inject(rdma_accept(id, &param), -ENOMEM);
	if (rc) {
		/* ORDER: the id is freed when the handler returns. */
		WRITE_ONCE(ch->id, NULL);
		cancel_work_sync(&ch->qp_event_work);
	}
	return rc;
}

/**
 * krdma_conn_stop - break a channel: what is posted gets its completions
 * @ch: channel that is down, so that nobody posts
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
	if (ch->dev->policy.error_first)
		ib_modify_qp(ch->qp, &attr, IB_QP_STATE);
	if (ch->id && !ch->dev->policy.lone_mads)
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

/* Completions that one poll handles at most. */
#define KRDMA_POLL_MAX 16

/**
 * krdma_conn_poll - handle completions of a channel that have come
 * @ch: channel
 *
 * Its interrupt stays armed, and what comes when nobody polls is handled as ever. Whoever has
 * IRQ_POLL_F_SCHED handles completions; here it is taken as irq_poll_sched() takes it.
 *
 * Context: process or softirq, interrupts enabled, with no lock that a submitter's ->done takes;
 *	the caller holds the session.
 * Return: the completions; 0 if others handle them, or the channel is not up
 */
u32 krdma_conn_poll(struct krdma_channel *ch)
{
	u32 found = 0;
	struct ib_cq *cq;

	/* Also for RCU: krdma_cq_quiesce() waits until the CQ is not used here any more. */
	local_bh_disable();
	spin_lock(&ch->lock);
	cq = ch->state == KRDMA_CHANNEL_UP ? ch->cq : NULL;
	spin_unlock(&ch->lock);
	if (cq && !test_and_set_bit_lock(IRQ_POLL_F_SCHED, &cq->iop.state)) {
		found = ib_process_cq_direct(cq, KRDMA_POLL_MAX);
		/* ORDER: before the CQ is armed, as an event that comes while it is set is lost. */
		clear_bit_unlock(IRQ_POLL_F_SCHED, &cq->iop.state);
		if (found >= KRDMA_POLL_MAX ||
		    ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0)
			irq_poll_sched(&cq->iop);
	}
	local_bh_enable();
	if (found)
		krdma_stat_add(KRDMA_STAT_POLLED, found);
	return found;
}

/* Destroying the id of a connection that is up sends a DREQ, and waits for its completion. */
static void krdma_conn_destroy_id(struct krdma_channel *ch)
{
	bool lone = ch->dev && ch->dev->policy.lone_mads;

	if (lone)
		mutex_lock(&ch->dev->goodbye);
	rdma_destroy_id(ch->id);
	if (lone)
		mutex_unlock(&ch->dev->goodbye);
	ch->id = NULL;
}

/**
 * krdma_conn_destroy - destroy id, queue pair and completion queue of a channel
 * @ch: channel, stopped and drained
 *
 * No peer can reach this host's memory by the channel after it.
 *
 * Context: process; not the id's handler.
 */
void krdma_conn_destroy(struct krdma_channel *ch)
{
	cancel_work_sync(&ch->qp_event_work);
	/* ORDER: no event of the id may find the queue pair half gone. */
	if (ch->id)
		krdma_conn_destroy_id(ch);
	if (ch->qp)
		ib_destroy_qp(ch->qp);
	ch->qp = NULL;
	/* ORDER: no handler runs any more, so what is left now had no completion. */
	if (!IS_ERR_OR_NULL(ch->cq)) {
		krdma_cq_quiesce(ch->cq);
		ib_free_cq(ch->cq);
	}
	ch->cq = NULL;
	if (ch->data)
		ch->data->reap(ch);
	/* Since the first time it could only find the session closing. */
	cancel_work_sync(&ch->qp_event_work);
}

static bool krdma_conn_tx_idle(struct krdma_channel *ch)
{
	bool idle;

	/* ORDER: with the lock, so that who gave the last back is through with the channel. */
	krdma_channel_lock(ch);
	idle = !ch->tx_taken;
	krdma_channel_unlock(ch);
	return idle;
}

/**
 * krdma_conn_rest - give back what a channel had for a connection
 * @ch: channel without a queue pair; the messages of one that resumes stay
 *
 * Context: process.
 */
void krdma_conn_rest(struct krdma_channel *ch)
{
	struct krdma_device *dev = ch->dev;

	if (!dev)
		return;
	krdma_channel_lock(ch);
	/* ORDER: the device has no message from here on. */
	ch->rx_ready = false;
	krdma_channel_unlock(ch);
	krdma_post_rest(ch);
	krdma_channel_lock(ch);
	WRITE_ONCE(ch->dev, NULL);
	krdma_channel_unlock(ch);
	krdma_device_put(dev);
	mutex_lock(&ch->path->lock);
	ch->path->users--;
	mutex_unlock(&ch->path->lock);
}

/**
 * krdma_conn_release - give back all that a channel had
 * @ch: channel without a queue pair
 *
 * Context: process.
 */
void krdma_conn_release(struct krdma_channel *ch)
{
	/* Messages on their way to a post that will be refused. */
	wait_event(ch->tx_wait, krdma_conn_tx_idle(ch));
	krdma_conn_rest(ch);
	krdma_post_teardown(ch);
}

/**
 * krdma_path_release - give back the protection domain and the device of a path
 * @path: path without a registration; nothing is done if a channel on it is set up
 *
 * Context: process.
 */
void krdma_path_release(struct krdma_path *path)
{
	struct krdma_device *dev = NULL;

	mutex_lock(&path->lock);
	if (path->users)
		goto out;
	if (path->pd)
		ib_dealloc_pd(path->pd);
	WRITE_ONCE(path->pd, NULL);
	dev = path->dev;
	WRITE_ONCE(path->dev, NULL);
	/* ORDER: krdma_session_device() finds no device that may be gone. */
	smp_store_release(&path->gone, false);
out:
	mutex_unlock(&path->lock);
	if (dev)
		krdma_device_put(dev);
}
