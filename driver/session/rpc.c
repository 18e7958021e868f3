// SPDX-License-Identifier: GPL-2.0
/*
 * Our requests to the peer, and the credits for them (Documentation/wire.rst).
 *
 * A request needs a struct krdma_credit: a credit of the peer, and a buffer to send from.
 * Those that find none are in a row, session->creditless, and no worker sleeps for it: the
 * reply that frees a credit, or the completion that frees a buffer, hands it on.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "session/session.h"
#include "trace.h"

/**
 * krdma_rpc_gfp - how to allocate a request that transfers may wait for
 * @sess: session
 *
 * Not by I/O, which may be these transfers; with the reserves in a session that writeback may use.
 * It is freed when the request is over.
 *
 * Context: any.
 * Return: GFP_NOIO, and more flags
 */
gfp_t krdma_rpc_gfp(const struct krdma_session *sess)
{
	return READ_ONCE(sess->writeback) ? GFP_NOIO | __GFP_MEMALLOC : GFP_NOIO;
}

/**
 * krdma_rpc_new - a request to the peer
 * @sess: session
 * @fn: gets the reply
 * @arg: for @fn
 *
 * Context: process.
 * Return: the request with one reference, NULL without memory
 */
struct krdma_rpc *krdma_rpc_new(const struct krdma_session *sess, krdma_rpc_fn fn, void *arg)
{
	struct krdma_rpc *rpc = krdma_inject(kzalloc(sizeof(*rpc), krdma_rpc_gfp(sess)), NULL);

	if (!rpc)
		return NULL;
	refcount_set(&rpc->refs, 1);
	INIT_LIST_HEAD(&rpc->node);
	init_completion(&rpc->done);
	rpc->fn = fn;
	rpc->arg = arg;
	return rpc;
}

/**
 * krdma_rpc_put - let go of a request
 * @rpc: the request, or NULL
 *
 * Context: any.
 */
void krdma_rpc_put(struct krdma_rpc *rpc)
{
	if (rpc && refcount_dec_and_test(&rpc->refs))
		kfree(rpc);
}

/**
 * krdma_credit_init - nobody has or waits for it yet
 * @credit: credit
 * @work: queued when the wait is over; NULL: session->wait is woken up
 *
 * Context: any.
 */
void krdma_credit_init(struct krdma_credit *credit, struct work_struct *work)
{
	INIT_LIST_HEAD(&credit->node);
	credit->work = work;
	credit->tx = NULL;
}

static void krdma_credit_settle(struct krdma_session *sess, struct krdma_credit *credit,
				struct krdma_tx *tx)
{
	list_del_init(&credit->node);
	credit->tx = tx;
	if (credit->work)
		queue_work(krdma_rpc_wq, credit->work);
	else
		wake_up(&sess->wait);
}

/* A credit and a buffer. On iWARP a heartbeat finds one, whatever the others wait for. */
static struct krdma_tx *krdma_credit_new(struct krdma_session *sess, bool beats)
{
	struct krdma_tx *tx;

	if (!krdma_credit_pool_take(&sess->credits, sess->iwarp && !beats))
		return NULL;
	tx = krdma_post_tx_get(sess->ch, KRDMA_TX_REQUEST);
	if (!tx)
		krdma_credit_pool_put(&sess->credits);
	return tx;
}

/**
 * krdma_credits_settle - a credit or a buffer is free: the first that wait for one go on
 * @sess: session
 *
 * Context: session->lock held.
 */
void krdma_credits_settle(struct krdma_session *sess)
{
	struct krdma_credit *first;
	struct krdma_tx *tx;

	lockdep_assert_held(&sess->lock);
	while ((first = list_first_entry_or_null(&sess->creditless, struct krdma_credit, node)) &&
	       (tx = krdma_credit_new(sess, false)))
		krdma_credit_settle(sess, first, tx);
}

/* A credit is free. */
static void krdma_credit_free(struct krdma_session *sess)
{
	krdma_credit_pool_put(&sess->credits);
	krdma_credits_settle(sess);
}

/**
 * krdma_credit_take - have a credit of the peer and a buffer, or wait for them
 * @sess: session
 * @credit: credit; may be waiting already
 *
 * Context: any; no lock of the session or the channel held.
 * Return: true if the wait is over: it has them, or the session is down.
 *	Otherwise it waits, and has to stay until that or krdma_credit_put.
 */
bool krdma_credit_take(struct krdma_session *sess, struct krdma_credit *credit)
{
	bool over;

	spin_lock_bh(&sess->lock);
	over = sess->state != KRDMA_SESSION_UP;
	if (!over && !credit->tx && list_empty(&credit->node)) {
		if (list_empty(&sess->creditless))
			credit->tx = krdma_credit_new(sess, false);
		if (!credit->tx)
			list_add_tail(&credit->node, &sess->creditless);
	}
	over |= !!credit->tx;
	spin_unlock_bh(&sess->lock);
	return over;
}

/**
 * krdma_credit_spare - have a credit of the peer and a buffer, if nobody else is likely to want it
 * @sess: session
 * @credit: credit, which has none
 *
 * Context: session->lock held.
 * Return: true if it has them
 */
bool krdma_credit_spare(struct krdma_session *sess, struct krdma_credit *credit)
{
	lockdep_assert_held(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP && list_empty(&sess->creditless) &&
	    sess->credits.used < sess->credits.size / 2)
		credit->tx = krdma_credit_new(sess, false);
	return credit->tx;
}

/**
 * krdma_credit_put - give up a credit, or the wait for one
 * @sess: session
 * @credit: credit; may have none
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_credit_put(struct krdma_session *sess, struct krdma_credit *credit)
{
	struct krdma_tx *tx;

	spin_lock_bh(&sess->lock);
	list_del_init(&credit->node);
	tx = credit->tx;
	credit->tx = NULL;
	spin_unlock_bh(&sess->lock);
	if (!tx)
		return;
	krdma_post_tx_put(sess->ch, tx);
	spin_lock_bh(&sess->lock);
	krdma_credit_free(sess);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_credit_wait - wait for a credit
 * @sess: session
 * @credit: out: the credit; nothing to be put unless this returns 0
 * @wait_ms: how long to wait; 0: not at all
 *
 * Context: process.
 * Return: 0, -ENOTCONN, -ETIMEDOUT or -EINTR
 */
int krdma_credit_wait(struct krdma_session *sess, struct krdma_credit *credit, u32 wait_ms)
{
	long left;

	krdma_credit_init(credit, NULL);
	left = wait_event_killable_timeout(sess->wait, krdma_credit_take(sess, credit),
					   msecs_to_jiffies(wait_ms));
	if (left > 0 && credit->tx)
		return 0;
	krdma_credit_put(sess, credit);
	return left > 0 ? -ENOTCONN : left ? -EINTR : -ETIMEDOUT;
}

/**
 * krdma_credit_build - begin the message of a credit
 * @credit: credit
 * @type: enum krdma_wire_type
 * @fixed: as for krdma_wire_build()
 * @more: likewise
 *
 * Context: any.
 * Return: the message, to be filled and posted; NULL if the session is down
 */
void *krdma_credit_build(const struct krdma_credit *credit, u8 type, u32 fixed, u32 more)
{
	return credit->tx ? krdma_wire_build(credit->tx->buf, type, fixed, more) : NULL;
}

/* What the target's service replies to may wait for other peers. */
static bool krdma_wire_service(u8 type)
{
	return type == KRDMA_WIRE_LIST || type == KRDMA_WIRE_OPEN || type == KRDMA_WIRE_SEGS ||
	       type == KRDMA_WIRE_CLOSE || type == KRDMA_WIRE_DIGEST ||
	       type == KRDMA_WIRE_ADDRESSES || type == KRDMA_WIRE_USAGE ||
	       type == KRDMA_WIRE_FLUSH || type == KRDMA_WIRE_GROW;
}

/**
 * krdma_rpc_post - send a request to the peer
 * @sess: session
 * @credit: with the message that was built; goes with the request, in any case, and is
 *	not used any more when ->fn is called; may be empty if the session is down
 * @rpc: the request; ->fn is called exactly once if this returns 0
 *
 * A reply that does not come within KRDMA_REQUEST_MS, KRDMA_FENCE_MS, or KRDMA_SERVICE_MS
 * where the target's service gives it, times the timeout_scale, ends the session.
 *
 * Context: process.
 * Return: 0 or -ENOTCONN
 */
int krdma_rpc_post(struct krdma_session *sess, struct krdma_credit *credit, struct krdma_rpc *rpc)
{
	struct krdma_tx *tx = credit->tx;
	struct krdma_wire_hdr *hdr;
	u32 reply_ms;
	int rc;

	if (!tx) {
		krdma_credit_put(sess, credit);
		return -ENOTCONN;
	}
	hdr = tx->buf;
	rpc->type = hdr->type;
	rpc->service = krdma_wire_service(hdr->type);
	if (rpc->service)
		reply_ms = KRDMA_SERVICE_MS * sess->ch->timeout_scale;
	else if (rpc->type == KRDMA_WIRE_FENCE)
		reply_ms = KRDMA_FENCE_MS * sess->timeout_scale;
	else
		reply_ms = KRDMA_REQUEST_MS * sess->ch->timeout_scale;
	/* ->fn may let go of what holds the session. */
	kref_get(&sess->ref);
	refcount_inc(&rpc->refs);
	spin_lock_bh(&sess->lock);
	rpc->tag = krdma_credit_pool_tag(&sess->credits);
	hdr->tag = cpu_to_le32(rpc->tag);
	rpc->posted = ktime_get();
	rpc->expires = jiffies + msecs_to_jiffies(reply_ms);
	list_add_tail(&rpc->node, &sess->rpcs);
	credit->tx = NULL;
	krdma_session_tick_by(sess, ktime_add_ms(rpc->posted, reply_ms));
	spin_unlock_bh(&sess->lock);

	trace_krdma_message(sess->serial, true, hdr);
	rc = krdma_post_tx(sess->ch, tx, false);
	if (rc) {
		spin_lock_bh(&sess->lock);
		if (list_empty(&rpc->node)) {
			/* krdma_rpcs_fail has notified the requester already. */
			rc = 0;
		} else {
			list_del_init(&rpc->node);
			krdma_credit_free(sess);
			krdma_rpc_put(rpc);
		}
		spin_unlock_bh(&sess->lock);
	}
	krdma_session_put(sess);
	return rc;
}

/**
 * krdma_rpc_wait - send a request to the peer and wait for the reply
 * @sess: session
 * @credit: as for krdma_rpc_post()
 * @fn: sets rpc->err and completes rpc->done, and uses @arg no longer then
 * @arg: for @fn
 * @wait_ms: how long to wait at most
 * @rtt_ns: round trip, may be NULL
 *
 * Context: process.
 * Return: 0 or a negative errno, also that of the reply's status
 */
int krdma_rpc_wait(struct krdma_session *sess, struct krdma_credit *credit, krdma_rpc_fn fn,
		   void *arg, u32 wait_ms, s64 *rtt_ns)
{
	struct krdma_rpc *rpc = krdma_rpc_new(sess, fn, arg);
	bool waiting;
	long left;
	int rc;

	if (!rpc) {
		krdma_credit_put(sess, credit);
		return -ENOMEM;
	}
	rc = krdma_rpc_post(sess, credit, rpc);
	if (rc)
		goto out;

	left = wait_for_completion_killable_timeout(&rpc->done, msecs_to_jiffies(wait_ms));
	if (left <= 0) {
		spin_lock_bh(&sess->lock);
		waiting = rpc->fn;
		rpc->fn = NULL;
		spin_unlock_bh(&sess->lock);
		if (waiting) {
			rc = left ? -EINTR : -ETIMEDOUT;
			goto out;
		}
		/* The reply is being handed over. */
		wait_for_completion(&rpc->done);
	}
	rc = rpc->err;
	if (rtt_ns)
		*rtt_ns = ktime_to_ns(ktime_sub(rpc->replied, rpc->posted));
out:
	krdma_rpc_put(rpc);
	return rc;
}

/* The end of a request under way, and of session->lock, as the requester takes other locks. */
static void krdma_rpc_end(struct krdma_session *sess, struct krdma_rpc *rpc,
			  const union krdma_wire_msg *msg, int err) __releases(&sess->lock)
{
	krdma_rpc_fn fn = rpc->fn;

	list_del_init(&rpc->node);
	rpc->fn = NULL;
	spin_unlock_bh(&sess->lock);
	rpc->replied = ktime_get();
	if (fn)
		fn(rpc, msg, err);
	krdma_rpc_put(rpc);
}

/**
 * krdma_rpcs_fail - notify all requesters that no reply will come
 * @sess: session, down
 *
 * Context: process.
 */
void krdma_rpcs_fail(struct krdma_session *sess)
{
	struct krdma_credit *credit, *next;
	struct krdma_rpc *rpc;

	spin_lock_bh(&sess->lock);
	list_for_each_entry_safe(credit, next, &sess->creditless, node)
		krdma_credit_settle(sess, credit, NULL);
	while ((rpc = list_first_entry_or_null(&sess->rpcs, struct krdma_rpc, node))) {
		krdma_credit_pool_put(&sess->credits);
		krdma_rpc_end(sess, rpc, NULL, -ENOTCONN);
		spin_lock_bh(&sess->lock);
	}
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_rpcs_expired - is the peer late with a reply?
 * @sess: session
 * @next: lowered to the jiffies when the next reply is due
 *
 * Context: session->lock held.
 * Return: true if it is
 */
bool krdma_rpcs_expired(struct krdma_session *sess, unsigned long *next)
{
	unsigned long reply = msecs_to_jiffies(KRDMA_SERVICE_MS * sess->ch->timeout_scale);
	unsigned long most = msecs_to_jiffies(KRDMA_SERVICE_MAX_MS * sess->ch->timeout_scale);
	struct krdma_rpc *rpc;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(rpc, &sess->rpcs, node) {
		unsigned long due = rpc->expires;

		if (rpc->beats || (sess->resuming && rpc->type != KRDMA_WIRE_RECALL))
			continue;
		/*
		 * The target's service replies to one after the other: as long as it
		 * replies, none is late.
		 */
		if (rpc->service && time_before(due, sess->last_reply + reply))
			due = sess->last_reply + reply;
		/* Nor can it reply to others for ever instead. */
		if (rpc->service && time_after(due, rpc->expires + most))
			due = rpc->expires + most;
		if (time_after_eq(jiffies, due))
			return true;
		if (time_before(due, *next))
			*next = due;
	}
	return false;
}

/**
 * krdma_rpcs_resume - the first channel is up again: the peer could not reply while it was lost
 * @sess: session
 *
 * A RECALL has its time whatever happens: others wait for the memory. A heartbeat stays the only
 * one under way.
 *
 * Context: session->lock held.
 */
void krdma_rpcs_resume(struct krdma_session *sess)
{
	unsigned long away = jiffies - sess->lost_at;
	struct krdma_channel *ch = sess->ch;
	struct krdma_rpc *rpc;

	lockdep_assert_held(&sess->lock);
	sess->last_reply += away;
	list_for_each_entry(rpc, &sess->rpcs, node) {
		if (rpc->type != KRDMA_WIRE_RECALL)
			rpc->expires += away;
		if (!rpc->beats)
			continue;
		spin_lock(&ch->lock);
		ch->heartbeat = true;
		ch->heartbeat_at = jiffies;
		spin_unlock(&ch->lock);
	}
}

/**
 * krdma_rpc_replied - a reply has come, not that of a message
 * @sess: session
 * @rx: its receive, posted again here unless the peer broke the protocol
 * @msg: the reply
 *
 * Context: rx_work.
 */
void krdma_rpc_replied(struct krdma_session *sess, struct krdma_rx *rx,
		       const union krdma_wire_msg *msg)
{
	int err = krdma_wire_errno(le16_to_cpu(msg->hdr.status));
	u8 type = msg->hdr.type & ~KRDMA_WIRE_REPLY;
	struct krdma_rpc *rpc;

	if (!krdma_control_arrived(sess->ch, type, msg->hdr.tag)) {
		krdma_session_protocol(sess, "a reply to what it has not received");
		return;
	}
	spin_lock_bh(&sess->lock);
	sess->last_reply = jiffies;
	list_for_each_entry(rpc, &sess->rpcs, node)
		if (rpc->tag == le32_to_cpu(msg->hdr.tag) && rpc->type == type)
			break;
	if (list_entry_is_head(rpc, &sess->rpcs, node)) {
		spin_unlock_bh(&sess->lock);
		krdma_session_protocol(sess, "a reply to no request");
		return;
	}
	krdma_rpc_end(sess, rpc, err ? NULL : msg, err);

	/* ORDER: the receive first, then the credit for the next request. */
	krdma_post_rx(sess->ch, rx);
	spin_lock_bh(&sess->lock);
	krdma_credit_free(sess);
	spin_unlock_bh(&sess->lock);
}

/* ---- is the peer there? ---- */

struct krdma_pinging {
	u32 length;
	u8 data[KRDMA_WIRE_PING_MAX];
};

static void krdma_ping_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	const struct krdma_pinging *sent = rpc->arg;

	if (!err && (krdma_wire_entries(msg) != sent->length ||
		     memcmp(msg->ping.data, sent->data, sent->length)))
		err = -EILSEQ;
	rpc->err = err;
	complete(&rpc->done);
}

static int krdma_ping_send(struct krdma_session *sess, const struct krdma_pinging *sent,
			   u32 wait_ms, s64 *rtt_ns)
{
	struct krdma_wire_ping *ping;
	struct krdma_credit credit;
	int rc;

	rc = krdma_credit_wait(sess, &credit, wait_ms);
	if (rc)
		return rc;
	ping = krdma_credit_build(&credit, KRDMA_WIRE_PING, sizeof(*ping), sent->length);
	memcpy(ping->data, sent->data, sent->length);
	return krdma_rpc_wait(sess, &credit, krdma_ping_replied, (void *)sent, wait_ms, rtt_ns);
}

/* Is one under way? */
static void krdma_heartbeat_set(struct krdma_channel *ch, bool is)
{
	krdma_channel_lock(ch);
	ch->heartbeat = is;
	ch->heartbeat_at = jiffies;
	krdma_channel_unlock(ch);
}

static void krdma_heartbeat_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	krdma_heartbeat_set(rpc->arg, false);
}

/**
 * krdma_rpc_heartbeat - ask the peer for a sign of life, on iWARP
 * @ch: channel of a session that is up
 *
 * There a WRITE completes without the peer, and siw responds to a READ of no bytes
 * with others (siw_activate_tx).
 *
 * Context: the channel's tick.
 */
void krdma_rpc_heartbeat(struct krdma_channel *ch)
{
	struct krdma_rpc *rpc = krdma_rpc_new(ch->sess, krdma_heartbeat_replied, ch);
	struct krdma_credit credit;

	if (!rpc)
		return;
	rpc->beats = true;
	krdma_credit_init(&credit, NULL);
	spin_lock_bh(&ch->sess->lock);
	if (ch->sess->state == KRDMA_SESSION_UP)
		credit.tx = krdma_credit_new(ch->sess, true);
	spin_unlock_bh(&ch->sess->lock);
	if (credit.tx) {
		krdma_heartbeat_set(ch, true);
		krdma_credit_build(&credit, KRDMA_WIRE_PING, sizeof(struct krdma_wire_ping), 0);
		if (krdma_rpc_post(ch->sess, &credit, rpc))
			krdma_heartbeat_set(ch, false);
		else
			krdma_stat_inc(KRDMA_STAT_HEARTBEATS);
	}
	krdma_rpc_put(rpc);
}

/* The PING of a fence. A peer that has not received it can't know the number. */
struct krdma_fencing {
	struct krdma_session *sess;
	u64 number;
};

static void krdma_fence_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	const struct krdma_fencing *sent = rpc->arg;
	struct krdma_session *sess = sent->sess;

	if (!err && (krdma_wire_entries(msg) != sizeof(sent->number) ||
		     memcmp(msg->ping.data, &sent->number, sizeof(sent->number))))
		err = -EILSEQ;
	rpc->err = err;
	/* ORDER: @sent is on the stack of the waiter, which may go on from here. */
	complete(&rpc->done);
	wake_up_all(&sess->wait);
}

static bool krdma_fence_ready(struct krdma_session *sess, struct krdma_credit *credit,
			      u32 connection)
{
	return krdma_credit_take(sess, credit) || krdma_connection_gone(sess->ch, connection);
}

static bool krdma_fence_over(struct krdma_session *sess, struct krdma_rpc *rpc, u32 connection)
{
	return completion_done(&rpc->done) || krdma_connection_gone(sess->ch, connection);
}

/* The reply to @rpc has come, or the connection is gone. Return: 0 or a negative errno */
static int krdma_fence_wait(const struct krdma_fencing *sent, struct krdma_rpc *rpc, u32 connection)
{
	struct krdma_session *sess = sent->sess;
	struct krdma_wire_ping *ping;
	struct krdma_credit credit;
	bool gone, waiting;
	int rc;

	krdma_credit_init(&credit, NULL);
	wait_event_idle(sess->wait, krdma_fence_ready(sess, &credit, connection));
	if (krdma_connection_gone(sess->ch, connection)) {
		krdma_credit_put(sess, &credit);
		return 0;
	}
	ping = krdma_credit_build(&credit, KRDMA_WIRE_PING, sizeof(*ping), sizeof(sent->number));
	/* The session may be down. */
	if (ping)
		memcpy(ping->data, &sent->number, sizeof(sent->number));
	rc = krdma_rpc_post(sess, &credit, rpc);
	if (rc)
		return rc;
	/* Bounded: a reply is late some time, and ends the session. */
	wait_event_idle(sess->wait, krdma_fence_over(sess, rpc, connection));
	gone = krdma_connection_gone(sess->ch, connection);
	spin_lock_bh(&sess->lock);
	waiting = rpc->fn;
	rpc->fn = NULL;
	spin_unlock_bh(&sess->lock);
	/* The reply is being handed over. */
	if (!waiting)
		wait_for_completion(&rpc->done);
	return gone ? 0 : rpc->err;
}

/**
 * krdma_rpc_fence - see that nothing is at the memory of keys that are dead
 * @sess: session
 *
 * On iWARP an invalidation does not wait for a packet that is being placed, nor
 * for TCP to be through with the response to a READ of the peer. The
 * reply to a request sent after it comes behind both: a stream is received
 * in order by one after the other, and the peer has got all before the request.
 * Or the queue pair goes, and the stream with it.
 *
 * Context: process; only the session's service.
 * Return: 0, or -ENOTCONN: the session fails, the queue pair must go first
 */
int krdma_rpc_fence(struct krdma_session *sess)
{
	struct krdma_fencing sent = { .sess = sess, .number = get_random_u64() };
	u32 connection = READ_ONCE(sess->ch->connections);
	struct krdma_rpc *rpc = krdma_rpc_new(sess, krdma_fence_replied, &sent);
	int rc = rpc ? krdma_fence_wait(&sent, rpc, connection) : -ENOMEM;

	krdma_rpc_put(rpc);
	if (!rc)
		return 0;
	/* No fence without a reply, whatever the reason. */
	krdma_session_fail(sess, rc, "a revoked key could not be fenced", KRDMA_WIRE_REASON_LIMIT);
	return -ENOTCONN;
}

/**
 * krdma_ping - one round trip to the peer's module
 * @sess: session
 * @length: bytes to carry, at most KRDMA_PING_MAX
 * @timeout_ms: how long to wait
 * @rtt_ns: out: nanoseconds
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_ping(struct krdma_session *sess, u32 length, u32 timeout_ms, u64 *rtt_ns,
	       struct krdma_error *error)
{
	struct krdma_pinging *sent;
	s64 rtt;
	int rc;

	sent = krdma_inject(kmalloc(sizeof(*sent), GFP_KERNEL), NULL);
	if (!sent)
		return -ENOMEM;
	sent->length = length;
	get_random_bytes(sent->data, length);
	rc = krdma_ping_send(sess, sent, timeout_ms, &rtt);
	kfree(sent);
	if (!rc)
		*rtt_ns = rtt;
	else if (rc == -ENOTCONN)
		rc = krdma_session_explain(sess, sess->ch, -ENOTCONN, error);
	else if (rc == -EILSEQ)
		krdma_explain(error, rc, "%pISpc replies to the ping with other bytes", &sess->dst);
	else
		krdma_explain(error, rc, "%pISpc does not reply to the ping (%pe)", &sess->dst,
			      ERR_PTR(rc));
	return rc;
}
