// SPDX-License-Identifier: GPL-2.0
/*
 * Keys taken back from the peer: RECALLs, of some segments of a grant or of all of it.
 *
 * Many are under way at a time. The service begins one and goes on; the reply queues the
 * service, which invalidates the keys and gives back the memory. A RECALL waits for a credit
 * in a work of its own. So a revocation holds up neither LIST nor SEGS of other exports.
 *
 * A reclaim belongs to the service: what others see of it is ->replied, under session->lock.
 */
#include <linux/slab.h>

#include "target/grant.h"

/* A RECALL, until the service has handled the reply. */
struct krdma_reclaim {
	struct list_head node; /* session->reclaims, session->lock */
	struct krdma_session *sess;
	struct krdma_grant *grant; /* NULL: closed meanwhile, and its segments with it */
	__le32 id;
	__le32 generation;
	unsigned long begun; /* jiffies */
	bool replied;        /* session->lock */
	struct krdma_credit credit;
	struct work_struct work;
	struct krdma_rpc *rpc; /* NULL: sent */
	u32 n;                 /* 0: the whole grant */
	struct krdma_seg *segs[KRDMA_REG_SLOTS];
	__le64 index[KRDMA_REG_SLOTS];
};

static void krdma_reclaim_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_reclaim *rec = rpc->arg;
	struct krdma_session *sess = rec->sess;

	/* Without a reply that is OK the keys are in use: the session ends. */
	if (err) {
		if (err != -ENOTCONN)
			krdma_session_protocol(sess, "keys are not given back");
		return;
	}
	spin_lock_bh(&sess->lock);
	rec->replied = true;
	WRITE_ONCE(sess->nreplied, sess->nreplied + 1);
	spin_unlock_bh(&sess->lock);
	krdma_session_serve(sess);
	krdma_segments_wake();
}

static void krdma_reclaim_work(struct work_struct *work)
{
	struct krdma_reclaim *rec = container_of(work, struct krdma_reclaim, work);
	struct krdma_rpc *rpc = rec->rpc;
	struct krdma_wire_recall *msg;

	/* If it has to wait, it is queued again. */
	if (!krdma_credit_take(rec->sess, &rec->credit))
		return;
	msg = krdma_credit_build(&rec->credit, KRDMA_WIRE_RECALL, sizeof(*msg),
				 rec->n * sizeof(*msg->index));
	if (msg) {
		msg->grant = rec->id;
		msg->generation = rec->generation;
		memcpy(msg->index, rec->index, rec->n * sizeof(*msg->index));
	}
	rec->rpc = NULL;
	/* ORDER: it may be gone when this returns. */
	krdma_rpc_post(rec->sess, &rec->credit, rpc);
	krdma_rpc_put(rpc);
}

/* Return: 0 or -ENOMEM */
static int krdma_reclaim_begin(struct krdma_grant *grant, struct krdma_seg **segs, u32 n)
{
	struct krdma_reclaim *rec = krdma_inject(kzalloc(sizeof(*rec), GFP_KERNEL), NULL);
	struct krdma_session *sess = grant->sess;
	u32 i;

	if (!rec)
		return -ENOMEM;
	rec->rpc = krdma_rpc_new(sess, krdma_reclaim_replied, rec);
	if (!rec->rpc) {
		kfree(rec);
		return -ENOMEM;
	}
	rec->sess = sess;
	rec->grant = grant;
	rec->id = cpu_to_le32(grant->id);
	rec->generation = cpu_to_le32(grant->generation);
	rec->n = n;
	rec->begun = jiffies;
	for (i = 0; i < n; i++) {
		segs[i]->recalled = true;
		rec->segs[i] = segs[i];
		rec->index[i] = cpu_to_le64(segs[i]->index);
	}
	grant->nrecalled += n;
	INIT_WORK(&rec->work, krdma_reclaim_work);
	krdma_credit_init(&rec->credit, &rec->work);
	spin_lock_bh(&sess->lock);
	list_add_tail(&rec->node, &sess->reclaims);
	spin_unlock_bh(&sess->lock);
	queue_work(krdma_rpc_wq, &rec->work);
	return 0;
}

/**
 * krdma_grant_recall - take back the segments used longest ago
 * @grant: grant
 * @want: how many, with those whose RECALL is under way; at most KRDMA_REG_SLOTS are
 *	added to these
 *
 * Context: the session's service.
 * Return: how many segments of the grant have a RECALL under way, 0 if it is held; -ENOMEM if
 *	none has, and none could be begun
 */
int krdma_grant_recall(struct krdma_grant *grant, u32 want)
{
	struct krdma_seg *segs[KRDMA_REG_SLOTS];
	int rc = 0;
	u32 n = 0;

	if (want > grant->nrecalled && !grant->held)
		n = krdma_segments_coldest(grant, segs,
					   min_t(u32, want - grant->nrecalled, KRDMA_REG_SLOTS));
	if (n)
		rc = krdma_reclaim_begin(grant, segs, n);
	return grant->nrecalled ?: rc;
}

/**
 * krdma_grant_revoke - have the peer stop using a grant, and end it when it has
 * @grant: grant; of an export that is gone, or taken over
 *
 * Context: the session's service.
 */
void krdma_grant_revoke(struct krdma_grant *grant)
{
	if (grant->revoking)
		return;
	grant->revoking = true;
	/* A revocation has nobody else to report a failure to. */
	if (krdma_reclaim_begin(grant, NULL, 0))
		krdma_session_fail(grant->sess, -ENOMEM, "no memory for a revocation",
				   KRDMA_WIRE_REASON_LIMIT);
}

/**
 * krdma_reclaims_forget - a grant ends before the replies to its RECALLs
 * @grant: grant; its segments are freed by the caller
 *
 * Context: the session's service.
 */
void krdma_reclaims_forget(struct krdma_grant *grant)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_reclaim *rec;

	spin_lock_bh(&sess->lock);
	list_for_each_entry(rec, &sess->reclaims, node)
		if (rec->grant == grant)
			rec->grant = NULL;
	spin_unlock_bh(&sess->lock);
}

/* The next one that has its reply; not of the whole of @except. */
static struct krdma_reclaim *krdma_reclaim_next(struct krdma_session *sess,
						const struct krdma_grant *except)
{
	struct krdma_reclaim *rec, *next = NULL;

	spin_lock_bh(&sess->lock);
	list_for_each_entry(rec, &sess->reclaims, node) {
		if (!rec->replied || (!rec->n && except && rec->grant == except))
			continue;
		list_del(&rec->node);
		WRITE_ONCE(sess->nreplied, sess->nreplied - 1);
		next = rec;
		break;
	}
	spin_unlock_bh(&sess->lock);
	return next;
}

/* The peer does not use these any more: kill their keys, give back the memory. */
static int krdma_reclaim_release(struct krdma_reclaim *rec)
{
	struct krdma_grant *grant = rec->grant;
	u32 i;
	int rc;

	rc = krdma_segs_invalidate(rec->sess, rec->segs, rec->n) ?: krdma_segs_fence(rec->sess);
	if (rc)
		return rc;
	krdma_stat_add(KRDMA_STAT_RECALLS, rec->n);
	atomic64_add(rec->n, &grant->export->recalls);
	grant->nrecalled -= rec->n;
	for (i = 0; i < rec->n; i++)
		krdma_seg_free(rec->segs[i]);
	return 0;
}

/**
 * krdma_reclaims_finish - handle the replies to RECALLs
 * @sess: session
 * @except: a grant that the caller uses, which must not end; may be NULL
 *
 * Context: the session's service.
 * Return: replies handled, or -ENOTCONN
 */
int krdma_reclaims_finish(struct krdma_session *sess, const struct krdma_grant *except)
{
	struct krdma_reclaim *rec;
	int n = 0, rc = 0;

	while (!rc && (rec = krdma_reclaim_next(sess, except))) {
		if (rec->grant && rec->n) {
			rc = krdma_reclaim_release(rec);
		} else if (rec->grant) {
			krdma_stat_inc(KRDMA_STAT_REVOKES);
			rc = krdma_grant_end(rec->grant);
		}
		kfree(rec);
		n++;
	}
	return rc ?: n;
}

/**
 * krdma_reclaims_tick - does the peer give back keys in time?
 * @sess: session
 *
 * A RECALL that waits for a credit has its time as well: a peer with few credits could be slow with
 * one after the other.
 *
 * Context: tick of a session.
 */
void krdma_reclaims_tick(struct krdma_session *sess)
{
	unsigned long most = msecs_to_jiffies(KRDMA_RECLAIM_MS * sess->ch->timeout_scale);
	struct krdma_reclaim *rec;

	spin_lock_bh(&sess->lock);
	list_for_each_entry(rec, &sess->reclaims, node) {
		if (rec->replied)
			continue;
		/* The others were begun later. */
		if (time_after(jiffies, rec->begun + most))
			krdma_session_fail_locked(sess, -ETIMEDOUT, "keys are not given back",
						  KRDMA_WIRE_REASON_TIMEOUT);
		break;
	}
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_reclaims_drop - end what is left of a session's RECALLs
 * @sess: session without a queue pair, whose requests have failed
 *
 * Context: down_work.
 */
void krdma_reclaims_drop(struct krdma_session *sess)
{
	struct krdma_reclaim *rec, *next;

	list_for_each_entry_safe(rec, next, &sess->reclaims, node) {
		cancel_work_sync(&rec->work);
		krdma_credit_put(sess, &rec->credit);
		if (rec->rpc)
			krdma_rpc_put(rec->rpc);
		kfree(rec);
	}
	INIT_LIST_HEAD(&sess->reclaims);
}
