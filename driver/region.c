// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: exports of a peer, opened here, and the keys of their segments.
 *
 * A region is shared by all files that use the session. A key is asked for
 * when a transfer needs it, a little ahead where transfers go on in order, and
 * kept until the owner recalls it. Rule of a RECALL: the key is not used from
 * its arrival, and it is answered when the last chunk that uses it has ended.
 * REVOKE: the same for all keys of the region at once, for good.
 */
#include <linux/slab.h>

#include "krdma.h"
#include "trace.h"

/* Segments asked for beyond a transfer that goes on where the last one ended. */
#define KRDMA_PREFETCH 8

/* A SEGS question under way. */
struct krdma_segs_ask {
	struct krdma_region *region; /* holds a reference */
	u64 first;
	u32 count;
};

/* Who has no atomics says so in the same words, whatever door it is. */
static int krdma_region_no_atomics(struct krdma_error *error)
{
	return krdma_explain(error, -EOPNOTSUPP,
			     "no atomic operations: the RDMA device has none, nor has iWARP");
}

static int krdma_region_no_messages(struct krdma_error *error)
{
	return krdma_explain(
		error, -EOPNOTSUPP,
		"no messages: the session was not made for them (KRDMA_CONNECT_MESSAGES)");
}

#define KRDMA_RIGHTS_TEXT 40

/* Rights by the names that krdma ls has for them. */
static const char *krdma_rights_text(u32 rights, char text[KRDMA_RIGHTS_TEXT])
{
	static const struct {
		u32 right;
		const char *name;
	} names[] = {
		{ KRDMA_RIGHT_READ, "read" },
		{ KRDMA_RIGHT_WRITE, "write" },
		{ KRDMA_RIGHT_ATOMIC, "atomic" },
		{ KRDMA_RIGHT_MESSAGE, "message" },
	};
	u32 i, len = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (rights & names[i].right)
			len += scnprintf(text + len, KRDMA_RIGHTS_TEXT - len, "%s%s",
					 len ? ", " : "", names[i].name);
	return text;
}

static u64 krdma_region_segments(const struct krdma_region *region)
{
	return krdma_segments(region->length, region->segment_shift);
}

static void krdma_region_release(struct kref *ref)
{
	struct krdma_region *region = container_of(ref, struct krdma_region, ref);
	struct krdma_key *key;
	unsigned long i;

	xa_for_each(&region->keys, i, key)
		kfree(key);
	xa_destroy(&region->keys);
	krdma_session_put(region->sess);
	kfree(region);
}

/**
 * krdma_region_put - let go of a region
 * @region: the region
 *
 * Context: process.
 */
void krdma_region_put(struct krdma_region *region)
{
	kref_put(&region->ref, krdma_region_release);
}

static void krdma_region_free_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, close_work);

	krdma_region_release(&region->ref);
}

static void krdma_region_release_later(struct kref *ref)
{
	struct krdma_region *region = container_of(ref, struct krdma_region, ref);

	INIT_WORK(&region->close_work, krdma_region_free_work);
	queue_work(krdma_wq, &region->close_work);
}

/**
 * krdma_region_put_soft - let go of a region, which may have many keys
 * @region: the region
 *
 * Context: any.
 */
void krdma_region_put_soft(struct krdma_region *region)
{
	kref_put(&region->ref, krdma_region_release_later);
}

/* ---- keys ---- */

/**
 * krdma_region_key_find - find the key of a segment, and remember it
 * @region: region
 * @index: of the segment
 *
 * Context: session->lock held.
 * Return: the key, which need not be valid, or NULL
 */
struct krdma_key *krdma_region_key_find(struct krdma_region *region, u64 index)
{
	lockdep_assert_held(&region->sess->lock);
	region->last_key = xa_load(&region->keys, index);
	return region->last_key;
}

static void krdma_key_free(struct krdma_region *region, struct krdma_key *key)
{
	lockdep_assert_held(&region->sess->lock);
	if (region->last_key == key)
		region->last_key = NULL;
	xa_erase(&region->keys, key->index);
	kfree(key);
}

/* The next question: what the first waiter lacks, and what will be wanted next. */
static struct krdma_transfer *krdma_region_next(struct krdma_region *region, struct krdma_msg *msg)
{
	u64 first, last, end = krdma_region_segments(region) - 1;
	struct krdma_transfer *x, *next;

	lockdep_assert_held(&region->sess->lock);
	list_for_each_entry_safe(x, next, &region->waiters, node) {
		const struct krdma_vec *range = &x->range[x->far.i];
		struct krdma_key *key;

		first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);
		key = xa_load(&region->keys, first);
		if (key && key->valid) {
			krdma_transfer_ready(x);
			continue;
		}
		last = krdma_segment_last(range->addr, range->length, region->segment_shift);
		if (first == region->next || first == 0)
			last = min(last + KRDMA_PREFETCH, end);
		memset(msg, 0, sizeof(*msg));
		msg->type = KRDMA_WIRE_SEGS;
		msg->segs.grant = region->grant;
		msg->segs.generation = region->generation;
		msg->segs.first = first;
		msg->segs.count = 1;
		msg->segs.extra = min_t(u64, last - first, KRDMA_WIRE_SEGS_MAX - 1);
		region->next = first + 1 + msg->segs.extra;
		return x;
	}
	return NULL;
}

/* Too many keys: forget one that is not in use. The owner gives it again. */
static void krdma_key_forget(struct krdma_region *region, unsigned long except)
{
	struct krdma_key *key;
	unsigned long i;

	xa_for_each_start(&region->keys, i, key, region->forget) {
		if (key->posted || !key->valid || i == except)
			continue;
		region->forget = i + 1;
		region->nkeys--;
		krdma_key_free(region, key);
		return;
	}
	region->forget = 0;
}

static int krdma_keys_store(struct krdma_region *region, const struct krdma_msg *msg,
			    const struct krdma_segs_ask *sa)
{
	struct krdma_session *sess = region->sess;
	u32 i;

	if (msg->segs_answer.grant != region->grant ||
	    msg->segs_answer.generation != region->generation ||
	    msg->segs_answer.seg[0].index != sa->first || msg->segs_answer.count > sa->count)
		return -EPROTO;

	for (i = 0; i < msg->segs_answer.count; i++) {
		const struct krdma_msg_seg *seg = &msg->segs_answer.seg[i];
		struct krdma_key *key, *new = NULL;
		bool ok = true;

		if (seg->index >= krdma_region_segments(region) ||
		    seg->length !=
			    krdma_segment_length(seg->index, region->length, region->segment_shift))
			return -EPROTO;
		if (!xa_load(&region->keys, seg->index)) {
			new = kzalloc(sizeof(*new), GFP_KERNEL);
			if (!new || xa_reserve_bh(&region->keys, seg->index, GFP_KERNEL)) {
				kfree(new);
				/* The first is needed, the others were a guess. */
				return i ? 0 : -ENOMEM;
			}
		}
		spin_lock_bh(&sess->lock);
		if (new && region->nkeys >= KRDMA_REGION_KEYS)
			krdma_key_forget(region, seg->index);
		if (new) {
			new->index = seg->index;
			/* It has a place. */
			xa_store(&region->keys, seg->index, new, 0);
		}
		key = xa_load(&region->keys, seg->index);
		if (key->posted || key->valid) {
			/* In use: it can only be the same. */
			ok = key->valid && key->rkey == seg->rkey && key->address == seg->address;
		} else {
			key->address = seg->address;
			key->length = seg->length;
			key->rkey = seg->rkey;
			key->valid = true;
			xa_clear_mark(&region->keys, key->index, XA_MARK_0);
			region->nkeys++;
		}
		spin_unlock_bh(&sess->lock);
		if (!ok)
			return -EPROTO;
	}
	return 0;
}

/* Answer to SEGS. */
static void krdma_region_keys(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	struct krdma_segs_ask *sa = ask->arg;
	struct krdma_region *region = sa->region;
	struct krdma_session *sess = region->sess;
	struct krdma_transfer *x, *next;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	bool refused = !msg;

	if (msg && !region->err) {
		err = krdma_keys_store(region, msg, sa);
		if (err == -EPROTO)
			krdma_session_protocol(sess, "an answer with keys that do not fit");
	}

	spin_lock_bh(&sess->lock);
	region->asking = false;
	list_for_each_entry_safe(x, next, &region->waiters, node) {
		u64 first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);

		if (!krdma_range_has(sa->first, sa->count, first))
			continue;
		/* The owner's error is about the first; the others ask again. */
		if (err && first == sa->first && refused)
			krdma_transfer_answered(x, err, &done);
		else if (err && first == sa->first)
			krdma_transfer_end(x, err, &done);
		else
			krdma_transfer_ready(x);
	}
	if (!list_empty(&region->waiters))
		krdma_region_want(region);
	krdma_transfer_pump(sess, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	kfree(sa);
	krdma_region_put(region);
}

static void krdma_region_ask_failed(struct krdma_region *region, int err)
{
	struct krdma_session *sess = region->sess;
	struct krdma_transfer *x;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	spin_lock_bh(&sess->lock);
	region->asking = false;
	/* One of them; the others try for themselves. */
	x = list_first_entry_or_null(&region->waiters, struct krdma_transfer, node);
	if (x)
		krdma_transfer_end(x, err, &done);
	if (!list_empty(&region->waiters))
		krdma_region_want(region);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
}

static void krdma_region_waiting(struct krdma_region *region, enum krdma_wait wait)
{
	struct krdma_transfer *x;

	spin_lock_bh(&region->sess->lock);
	list_for_each_entry(x, &region->waiters, node)
		krdma_transfer_wait(x, wait);
	spin_unlock_bh(&region->sess->lock);
}

static void krdma_region_ask_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, ask_work);
	struct krdma_session *sess = region->sess;
	struct krdma_segs_ask *sa = NULL;
	struct krdma_msg *msg = NULL;
	struct krdma_ask *ask = NULL;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	bool wanted;
	int rc = -ENOMEM;

	/* If it has to wait, it is queued again, with the reference. */
	if (!krdma_credit_take(sess, &region->ask_credit))
		return;
	sa = kzalloc(sizeof(*sa), GFP_KERNEL);
	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	ask = krdma_ask_new(KRDMA_WIRE_SEGS, krdma_region_keys, sa);
	if (!sa || !msg || !ask)
		goto out;

	spin_lock_bh(&sess->lock);
	wanted = krdma_region_next(region, msg);
	if (!wanted)
		region->asking = false;
	/* Some that waited may have found their key. */
	krdma_transfer_pump(sess, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	rc = 0;
	if (!wanted)
		goto out;

	kref_get(&region->ref);
	sa->region = region;
	sa->first = msg->segs.first;
	sa->count = 1 + msg->segs.extra;
	rc = krdma_ask_post(sess, &region->ask_credit, ask, msg);
	if (rc) {
		krdma_region_put(region);
	} else {
		sa = NULL;
		krdma_region_waiting(region, KRDMA_WAIT_KEY);
	}
out:
	krdma_credit_put(sess, &region->ask_credit);
	if (rc)
		krdma_region_ask_failed(region, rc);
	if (ask)
		krdma_ask_put(ask);
	kfree(msg);
	kfree(sa);
	krdma_region_put(region);
}

/**
 * krdma_region_want - see to it that the keys of the waiters are asked for
 * @region: the region
 *
 * Context: session->lock held.
 */
void krdma_region_want(struct krdma_region *region)
{
	lockdep_assert_held(&region->sess->lock);
	if (region->asking)
		return;
	region->asking = true;
	kref_get(&region->ref);
	/* Put by the work; asking is false again before it is queued again. */
	if (!queue_work(krdma_ask_wq, &region->ask_work))
		kref_put(&region->ref, krdma_region_release);
}

static void krdma_region_close_on(struct krdma_region *region)
{
	if (!region->closing || (region->posted && region->sess->state == KRDMA_SESSION_UP))
		return;
	region->closing = false;
	queue_work(krdma_ask_wq, &region->close_work);
}

/**
 * krdma_region_drained - what waits for posted work can go on
 * @region: region that has failed, or whose key has a recall
 * @key: key that no chunk on the wire uses any more; NULL: there is one
 *
 * Context: session->lock held.
 */
void krdma_region_drained(struct krdma_region *region, struct krdma_key *key)
{
	bool wake = !region->posted && region->err;

	lockdep_assert_held(&region->sess->lock);
	if (key && key->recall) {
		wake |= !--key->recall->pending;
		key->recall = NULL;
	}
	if (wake) {
		/* Answers to RECALL and REVOKE. */
		if (region->sess->state == KRDMA_SESSION_UP)
			queue_work(krdma_wq, &region->sess->rx_work);
		krdma_region_close_on(region);
	}
}

/* ---- RECALL and REVOKE ---- */

/* A generation of 0, which no grant has, stands for any. */
static struct krdma_region *krdma_region_find(struct krdma_session *sess, u32 grant, u32 generation)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(region, &sess->regions, node)
		if (region->grant == grant && (!generation || region->generation == generation))
			return region;
	return NULL;
}

static struct krdma_recall *krdma_recall_new(struct krdma_session *sess,
					     const struct krdma_msg *msg, struct krdma_tx *tx,
					     u32 grant, u32 generation)
{
	struct krdma_recall *recall = kzalloc(sizeof(*recall), GFP_KERNEL);

	if (!recall) {
		krdma_post_tx_put(sess->ch, tx);
		krdma_session_fail(sess, -ENOMEM, "no memory for a recall",
				   KRDMA_WIRE_REASON_LIMIT);
		return NULL;
	}
	recall->type = msg->type;
	recall->tag = msg->tag;
	recall->tx = tx;
	recall->grant = grant;
	recall->generation = generation;
	return recall;
}

/**
 * krdma_region_recall - the owner wants keys back
 * @sess: session
 * @msg: the question; of a region that is unknown it is just answered, its
 *	CLOSE has crossed it
 * @tx: buffer for the answer
 *
 * Context: rx_work, which answers at its end.
 */
void krdma_region_recall(struct krdma_session *sess, const struct krdma_msg *msg,
			 struct krdma_tx *tx)
{
	struct krdma_region *region;
	struct krdma_recall *recall;
	u32 i;

	recall = krdma_recall_new(sess, msg, tx, msg->recall.grant, msg->recall.generation);
	if (!recall)
		return;
	spin_lock_bh(&sess->lock);
	region = krdma_region_find(sess, recall->grant, recall->generation);
	for (i = 0; region && i < msg->recall.count; i++) {
		struct krdma_key *key = xa_load(&region->keys, msg->recall.index[i]);

		if (!key || !key->valid)
			continue;
		key->valid = false;
		region->nkeys--;
		if (key->posted) {
			key->recall = recall;
			recall->pending++;
			/* Freed when the recall is answered. */
			xa_set_mark(&region->keys, key->index, XA_MARK_0);
		} else {
			krdma_key_free(region, key);
		}
	}
	if (recall->pending) {
		kref_get(&region->ref);
		recall->region = region;
	}
	list_add_tail(&recall->node, &sess->recalls);
	spin_unlock_bh(&sess->lock);
	krdma_stat_inc(KRDMA_STAT_RECALLS);
}

/**
 * krdma_region_revoke - the owner ends the export
 * @sess: session
 * @msg: the question
 * @tx: buffer for the answer
 *
 * Context: rx_work, which answers at its end.
 */
void krdma_region_revoke(struct krdma_session *sess, const struct krdma_msg *msg,
			 struct krdma_tx *tx)
{
	struct krdma_region *region;
	struct krdma_recall *recall;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);

	recall = krdma_recall_new(sess, msg, tx, msg->grant.grant, msg->grant.generation);
	if (!recall)
		return;
	spin_lock_bh(&sess->lock);
	region = krdma_region_find(sess, recall->grant, recall->generation);
	if (region) {
		kref_get(&region->ref);
		recall->region = region;
		region->revoked = true;
		krdma_region_fail(region, -ESTALE, &done);
	}
	list_add_tail(&recall->node, &sess->recalls);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	krdma_stat_inc(KRDMA_STAT_REVOKES);
}

/* Frees recalled keys that were in use. Keys are never freed in softirq. */
static void krdma_keys_sweep(struct krdma_region *region)
{
	struct krdma_key *key;
	unsigned long i;

	spin_lock_bh(&region->sess->lock);
	xa_for_each_marked(&region->keys, i, key, XA_MARK_0) {
		if (key->posted || key->valid)
			continue;
		krdma_key_free(region, key);
	}
	spin_unlock_bh(&region->sess->lock);
}

static void krdma_recall_free(struct krdma_session *sess, struct krdma_recall *recall)
{
	if (recall->tx)
		krdma_post_tx_put(sess->ch, recall->tx);
	if (recall->region)
		krdma_region_put(recall->region);
	kfree(recall);
}

/**
 * krdma_region_recalls_answer - answer what is due
 * @sess: session
 *
 * Context: rx_work.
 */
void krdma_region_recalls_answer(struct krdma_session *sess)
{
	struct krdma_recall *recall, *next;
	struct krdma_msg *msg;
	LIST_HEAD(due);

	spin_lock_bh(&sess->lock);
	list_for_each_entry_safe(recall, next, &sess->recalls, node)
		if (recall->type == KRDMA_WIRE_REVOKE ? !recall->region || !recall->region->posted :
							!recall->pending)
			list_move_tail(&recall->node, &due);
	spin_unlock_bh(&sess->lock);
	if (list_empty(&due))
		return;

	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	if (!msg)
		krdma_session_fail(sess, -ENOMEM, "no memory for an answer",
				   KRDMA_WIRE_REASON_LIMIT);
	list_for_each_entry_safe(recall, next, &due, node) {
		if (msg) {
			memset(msg, 0, sizeof(*msg));
			msg->type = recall->type;
			msg->tag = recall->tag;
			msg->grant.grant = recall->grant;
			msg->grant.generation = recall->generation;
			krdma_answer(sess, recall->tx, msg);
			recall->tx = NULL;
		}
		if (recall->type == KRDMA_WIRE_RECALL && recall->region)
			krdma_keys_sweep(recall->region);
		krdma_recall_free(sess, recall);
	}
	kfree(msg);
}

/* ---- open and close ---- */

/* The one place where a region becomes stale; the first reason stays. */
static void krdma_region_stale(struct krdma_region *region, int err)
{
	struct krdma_watch *watch, *next;

	lockdep_assert_held(&region->sess->lock);
	if (region->err)
		return;
	region->err = err;
	/* Nothing is sent from here on: those that wait have ended, or do now. */
	list_del_init(&region->mail);
	list_for_each_entry_safe(watch, next, &region->watches, node) {
		list_del_init(&watch->node);
		watch->stale(watch, err);
	}
}

/**
 * krdma_region_watch - be told when a region is of no use any more
 * @region: the region, of which the caller is a user
 * @watch: with ->stale, which is called once, perhaps from here
 *
 * Context: any; no session lock held.
 */
void krdma_region_watch(struct krdma_region *region, struct krdma_watch *watch)
{
	struct krdma_session *sess = region->sess;
	int err;

	INIT_LIST_HEAD(&watch->node);
	spin_lock_bh(&sess->lock);
	err = region->err;
	/* Opened while the session went down: nobody else will tell. */
	if (!err && sess->state != KRDMA_SESSION_UP)
		err = -ENOTCONN;
	if (err)
		watch->stale(watch, err);
	else
		list_add_tail(&watch->node, &region->watches);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_region_unwatch - undo krdma_region_watch
 * @region: the region
 * @watch: of it; ->stale is not called any more when this returns
 *
 * Context: any; no session lock held.
 */
void krdma_region_unwatch(struct krdma_region *region, struct krdma_watch *watch)
{
	spin_lock_bh(&region->sess->lock);
	list_del_init(&watch->node);
	spin_unlock_bh(&region->sess->lock);
}

/**
 * krdma_regions_lost - the session goes down, and its regions with it
 * @sess: session, closing; its transfers were told
 *
 * Context: session->lock held.
 */
void krdma_regions_lost(struct krdma_session *sess)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(region, &sess->regions, node) {
		krdma_region_stale(region, -ENOTCONN);
		krdma_region_close_on(region);
	}
}

/**
 * krdma_region_fail - no more transfers on a region
 * @region: the region
 * @err: status of those that are not on the wire yet, and of all to come
 * @done: transfers that ended
 *
 * Context: session->lock held.
 */
void krdma_region_fail(struct krdma_region *region, int err, struct krdma_queue *done)
{
	struct hlist_node *next;
	struct krdma_transfer *x;

	lockdep_assert_held(&region->sess->lock);
	krdma_region_stale(region, err);
	hlist_for_each_entry_safe(x, next, &region->sess->transfers, all)
		if (x->region == region)
			krdma_transfer_end(x, err, done);
}

static void krdma_region_unlist(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	bool listed;

	spin_lock_bh(&sess->lock);
	listed = !list_empty(&region->node);
	if (listed) {
		list_del_init(&region->node);
		sess->nregions--;
	}
	spin_unlock_bh(&sess->lock);
	if (listed)
		krdma_region_put(region);
}

/* Can it be closed? If not, close_work is queued again when it can. */
static bool krdma_region_idle(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	bool idle;

	spin_lock_bh(&sess->lock);
	/* Bounded: what is posted ends, or the heartbeat ends the session. */
	idle = !region->posted || sess->state != KRDMA_SESSION_UP;
	region->closing = !idle;
	spin_unlock_bh(&sess->lock);
	return idle;
}

/* Answer to CLOSE: the owner has forgotten the grant, or the session is down. */
static void krdma_region_closed(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	struct krdma_region *region = ask->arg;

	if (msg &&
	    (msg->grant.grant != region->grant || msg->grant.generation != region->generation))
		krdma_session_protocol(region->sess, "the close of another grant");
	krdma_region_unlist(region);
	krdma_region_put(region);
}

/*
 * As long as the session is up the owner must hear of it, or it keeps the grant.
 * Return: 0 if krdma_region_closed is called.
 */
static int krdma_region_tell(struct krdma_region *region)
{
	struct krdma_ask *ask = krdma_ask_new(KRDMA_WIRE_CLOSE, krdma_region_closed, region);
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	struct krdma_session *sess = region->sess;
	int rc = -ENOMEM;

	if (ask && msg) {
		msg->type = KRDMA_WIRE_CLOSE;
		msg->grant.grant = region->grant;
		msg->grant.generation = region->generation;
		rc = krdma_ask_post(sess, &region->close_credit, ask, msg);
	} else {
		krdma_session_fail(sess, rc, "no memory to close a region",
				   KRDMA_WIRE_REASON_LIMIT);
	}
	if (ask)
		krdma_ask_put(ask);
	kfree(msg);
	return rc;
}

static void krdma_region_close_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, close_work);
	struct krdma_session *sess = region->sess;
	int rc = -ESTALE;

	/* While it has to wait, the reference is with what queues it again. */
	if (!krdma_region_idle(region))
		return;
	if (!region->revoked) {
		if (!krdma_credit_take(sess, &region->close_credit))
			return;
		rc = krdma_region_tell(region);
	}
	if (!rc)
		return;
	krdma_credit_put(sess, &region->close_credit);
	krdma_region_unlist(region);
	krdma_region_put(region);
}

/**
 * krdma_region_close - a handle of the region ends
 * @region: the region; with the last handle the owner is told, in a work
 *
 * Context: process. The handle's reference is put.
 */
void krdma_region_close(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	bool last;

	spin_lock_bh(&sess->lock);
	last = !--region->users;
	if (last)
		krdma_region_fail(region, -ECANCELED, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	/* The handle's reference goes to the work. */
	if (last)
		queue_work(krdma_ask_wq, &region->close_work);
	else
		krdma_region_put(region);
}

static struct krdma_region *krdma_region_share(struct krdma_session *sess, const char *name,
					       u32 rights)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(region, &sess->regions, node) {
		if (region->users && !region->err && region->wanted == rights &&
		    !strcmp(region->name, name)) {
			region->users++;
			kref_get(&region->ref);
			return region;
		}
	}
	return NULL;
}

static struct krdma_region *krdma_region_new(struct krdma_session *sess, const char *name,
					     u32 rights)
{
	struct krdma_region *region = kzalloc(sizeof(*region), GFP_KERNEL);

	if (!region)
		return NULL;
	kref_init(&region->ref);
	kref_get(&sess->ref);
	region->sess = sess;
	region->users = 1;
	region->wanted = rights;
	strscpy(region->name, name, sizeof(region->name));
	/* Below session->lock, which completions take. */
	xa_init_flags(&region->keys, XA_FLAGS_LOCK_BH);
	INIT_LIST_HEAD(&region->node);
	INIT_LIST_HEAD(&region->waiters);
	INIT_LIST_HEAD(&region->watches);
	INIT_LIST_HEAD(&region->digests);
	INIT_LIST_HEAD(&region->senders);
	INIT_LIST_HEAD(&region->mail);
	INIT_WORK(&region->ask_work, krdma_region_ask_work);
	krdma_credit_init(&region->ask_credit, &region->ask_work);
	INIT_WORK(&region->digest_work, krdma_digest_work);
	krdma_credit_init(&region->digest_credit, &region->digest_work);
	INIT_WORK(&region->close_work, krdma_region_close_work);
	krdma_credit_init(&region->close_credit, &region->close_work);
	return region;
}

/**
 * krdma_region_refuse - an operation needs a right that the region has not
 * @region: the region
 * @right: KRDMA_RIGHT_*, those that it lacks
 * @error: explanation
 *
 * Context: process.
 * Return: -EACCES, or -EOPNOTSUPP if the transport has no such operation
 */
int krdma_region_refuse(struct krdma_region *region, u32 right, struct krdma_error *error)
{
	static const struct {
		u32 right;
		const char *what;
	} uses[] = {
		{ KRDMA_RIGHT_READ, "reading" },
		{ KRDMA_RIGHT_WRITE, "writing" },
		{ KRDMA_RIGHT_ATOMIC, "atomic operations" },
		{ KRDMA_RIGHT_MESSAGE, "messages" },
	};
	char text[64];
	u32 i, len = 0;

	if ((right & KRDMA_RIGHT_MESSAGE) && !region->sess->ch->messages)
		return krdma_region_no_messages(error);
	if ((right & KRDMA_RIGHT_ATOMIC) && !region->atomics)
		return krdma_region_no_atomics(error);
	for (i = 0; i < ARRAY_SIZE(uses); i++)
		if (right & uses[i].right)
			len += scnprintf(text + len, sizeof(text) - len, "%s%s",
					 len ? ", nor for " : "", uses[i].what);
	return krdma_explain(error, -EACCES, "'%s' is not open for %s", region->name, text);
}

/* On iWARP a READ tells when WRITEs have arrived (chunk.c), so that right is needed, too. */
static u32 krdma_region_ask_rights(struct krdma_session *sess, u32 rights)
{
	return sess->ch->iwarp && (rights & KRDMA_RIGHT_WRITE) ? rights | KRDMA_RIGHT_READ : rights;
}

/* In rx_work, so that a REVOKE right behind the answer finds the region. */
static void krdma_region_opened(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	struct krdma_region *region = ask->arg;
	struct krdma_session *sess = region->sess;
	const char *wrong = NULL;
	bool abandoned;
	u32 able, asked;
	int unable = 0;

	spin_lock_bh(&sess->lock);
	region->answered = true;
	if (msg) {
		region->grant = msg->open_answer.grant;
		region->generation = msg->open_answer.generation;
		region->rights = msg->open_answer.rights;
		region->length = msg->open_answer.length;
		region->segment_shift = msg->open_answer.segment_shift;
		asked = krdma_region_ask_rights(sess, region->wanted);
		if (krdma_region_find(sess, region->grant, 0))
			wrong = "the same grant twice";
		else if (asked && region->rights & ~(asked | KRDMA_RIGHT_ATOMIC_CPU))
			wrong = "rights that were not asked for";
		if (wrong)
			err = -ENOTCONN;
		region->blind = sess->ch->iwarp && (region->rights & KRDMA_RIGHT_WRITE) &&
				!(region->rights & KRDMA_RIGHT_READ);
		/* Atomics: the device at either end must have them. */
		able = krdma_session_rights(sess) | KRDMA_RIGHT_ATOMIC_CPU;
		if (region->wanted)
			able &= region->wanted | KRDMA_RIGHT_ATOMIC_CPU;
		region->atomics = krdma_session_rights(sess) & KRDMA_RIGHT_ATOMIC;
		region->lacks = region->wanted & ~region->rights;
		region->rights &= able;
		if (!(region->rights & KRDMA_RIGHT_ATOMIC))
			region->rights &= ~KRDMA_RIGHT_ATOMIC_CPU;
		if (region->lacks)
			unable = -EACCES;
		else if (region->blind || !region->rights || region->wanted & ~region->rights)
			unable = -EOPNOTSUPP;
		if (unable)
			region->users = 0;
	}
	abandoned = !region->users;
	if (!err) {
		kref_get(&region->ref);
		list_add_tail(&region->node, &sess->regions);
		sess->nregions++;
		if (abandoned)
			region->err = -ECANCELED;
	}
	spin_unlock_bh(&sess->lock);
	if (wrong)
		krdma_session_protocol(sess, wrong);
	if (!err && abandoned) {
		/* The opener went away, or can't use it: give the grant back. */
		kref_get(&region->ref);
		queue_work(krdma_ask_wq, &region->close_work);
	}
	ask->err = err ?: unable;
	complete_all(&ask->done);
	krdma_region_put(region);
}

/**
 * krdma_region_open - open an export of the peer
 * @sess: session
 * @name: name of the export
 * @rights: wanted, 0 for all it has
 * @timeout_ms: how long to wait
 * @error: explanation
 *
 * Context: process.
 * Return: the region with a reference and a user, to be given to
 *	krdma_region_close; or an ERR_PTR
 */
struct krdma_region *krdma_region_open(struct krdma_session *sess, const char *name, u32 rights,
				       u32 timeout_ms, struct krdma_error *error)
{
	struct krdma_region *region;
	struct krdma_ask *ask;
	struct krdma_msg *msg;
	int rc = -ENOMEM;
	char text[KRDMA_RIGHTS_TEXT];
	bool late, blind, answered;
	u32 lacks, asked;
	long left;

	/* The peer may not know the right. */
	if ((rights & KRDMA_RIGHT_MESSAGE) && !sess->ch->messages)
		return ERR_PTR(krdma_region_no_messages(error));
	spin_lock_bh(&sess->lock);
	region = krdma_region_share(sess, name, rights);
	spin_unlock_bh(&sess->lock);
	if (region)
		return region;

	region = krdma_region_new(sess, name, rights);
	if (!region)
		return ERR_PTR(-ENOMEM);
	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	ask = krdma_ask_new(KRDMA_WIRE_OPEN, krdma_region_opened, region);
	if (!msg || !ask)
		goto out;
	msg->type = KRDMA_WIRE_OPEN;
	msg->open.rights = krdma_region_ask_rights(sess, rights);
	strscpy(msg->open.name, name, sizeof(msg->open.name));

	kref_get(&region->ref); /* of krdma_region_opened */
	rc = krdma_ask_send(sess, ask, msg, timeout_ms);
	if (rc) {
		krdma_region_put(region);
		goto out;
	}
	left = wait_for_completion_killable_timeout(&ask->done, msecs_to_jiffies(timeout_ms));
	spin_lock_bh(&sess->lock);
	late = left <= 0 && !region->answered;
	if (late)
		region->users = 0;
	spin_unlock_bh(&sess->lock);
	if (late) {
		rc = left ? -EINTR : -ETIMEDOUT;
	} else {
		wait_for_completion(&ask->done);
		rc = ask->err;
	}
out:
	if (ask)
		krdma_ask_put(ask);
	kfree(msg);
	if (!rc)
		return region;
	blind = region->blind;
	answered = region->answered;
	lacks = region->lacks;
	krdma_region_put(region);
	switch (rc) {
	case -ENOENT:
		krdma_explain(error, rc, "%pISpc publishes nothing named '%s'", &sess->dst, name);
		break;
	case -EACCES:
		asked = krdma_region_ask_rights(sess, rights);
		/* Which of several it is, the answer does not tell. */
		krdma_explain(error, rc, "%pISpc does not grant the rights wanted on '%s': %s%s%s",
			      &sess->dst, name, !lacks && hweight32(asked) > 1 ? "not all of " : "",
			      krdma_rights_text(lacks ?: asked, text),
			      lacks || asked == rights ?
				      "" :
				      "; iWARP needs to read to confirm what is written");
		break;
	case -EOPNOTSUPP:
		if (blind)
			krdma_explain(
				error, rc,
				"'%s' of %pISpc may be written only: iWARP needs to read to confirm it",
				name, &sess->dst);
		else if (rights & KRDMA_RIGHT_ATOMIC)
			krdma_region_no_atomics(error);
		else if (rights)
			krdma_explain(error, rc,
				      "%pISpc does not support what '%s' is to be opened for: %s",
				      &sess->dst, name, krdma_rights_text(rights, text));
		else
			krdma_explain(
				error, rc,
				"'%s' of %pISpc is for what can't be done here: atomic operations, or messages in a session without KRDMA_CONNECT_MESSAGES",
				name, &sess->dst);
		break;
	case -ENOTCONN:
		rc = krdma_session_explain(sess, -ENOTCONN, error);
		break;
	case -ETIMEDOUT:
	case -EINTR:
		krdma_explain(error, rc, "%pISpc did not open '%s' in time", &sess->dst, name);
		break;
	case -ENOMEM:
		krdma_explain(error, rc, "'%s' of %pISpc can't be opened: no memory on %s host",
			      name, &sess->dst, answered ? "that" : "this");
		break;
	default:
		krdma_explain(error, rc, "'%s' of %pISpc can't be opened: %s", name, &sess->dst,
			      krdma_proto_status_text(krdma_proto_status(rc)));
	}
	return ERR_PTR(rc);
}

/**
 * krdma_regions_drop - take all regions of a session off it
 * @sess: session without a queue pair
 *
 * Context: process.
 */
void krdma_regions_drop(struct krdma_session *sess)
{
	struct krdma_recall *recall, *next;
	struct krdma_region *region;
	LIST_HEAD(recalls);

	for (;;) {
		spin_lock_bh(&sess->lock);
		region = list_first_entry_or_null(&sess->regions, struct krdma_region, node);
		if (region) {
			/* close_work may unlist it at the same time. */
			kref_get(&region->ref);
			/* Opened while the session went down. */
			krdma_region_stale(region, -ENOTCONN);
		}
		spin_unlock_bh(&sess->lock);
		if (!region)
			break;
		krdma_region_unlist(region);
		krdma_region_put(region);
	}
	list_splice_init(&sess->recalls, &recalls);
	list_for_each_entry_safe(recall, next, &recalls, node)
		krdma_recall_free(sess, recall);
}
