// SPDX-License-Identifier: GPL-2.0
/*
 * Keys of a region's segments; hold.c has all of them requested.
 *
 * When a transfer lacks a key, it is requested, and those of the rest of its range ahead of the
 * transfer: all of them, with a few SEGS under way at a time. Where transfers go on in order, a
 * window behind them as well, which grows. What is requested ahead costs the target no RECALL, and
 * a reply that lacks some ends it: then keys are requested when they are needed, until the reply
 * to such a request lacks none.
 *
 * A key is kept until the target recalls it. Rule of a RECALL: the key is not used from its
 * arrival, and the reply is sent when the last work request that uses it has ended. A RECALL
 * without segments is about all keys of the region at once, for good. Replies and RECALLs are
 * handled in the order in which they were sent, so that no reply brings back a key that was taken.
 */
#include <linux/slab.h>

#include "initiator/wr.h"
#include "trace.h"

/* SEGS of a region under way. */
#define KRDMA_SEGS_MAX 4
/* Segments guessed beyond a transfer that goes on where the last one ended: at first, at most. */
#define KRDMA_AHEAD_MIN 8
#define KRDMA_AHEAD_MAX KRDMA_WIRE_SEGS_MAX
/* Segments looked at without a pause. */
#define KRDMA_AHEAD_BATCH 256
/* No segment. */
#define KRDMA_NO_MARK U64_MAX

/* Context: RCU, or a lock that frees none. Return: the key, unless it is dead; or NULL */
static struct krdma_key *krdma_key_at(struct krdma_region *region, u32 path, u64 index)
{
	struct krdma_key *key = xa_load(&region->paths[path].keys, index);

	return key && key->era == READ_ONCE(region->sess->paths[path].era) ? key : NULL;
}

/**
 * krdma_region_key_there - is there a key of a segment?
 * @region: region
 * @path: index of the path
 * @index: of the segment
 *
 * Context: any.
 * Return: true if there is
 */
bool krdma_region_key_there(struct krdma_region *region, u32 path, u64 index)
{
	bool there;

	rcu_read_lock();
	there = krdma_key_at(region, path, index);
	rcu_read_unlock();
	return there;
}

/**
 * krdma_region_key_find - find the key of a segment, and remember it
 * @region: region
 * @ch: channel that will use it
 * @index: of the segment
 *
 * Context: channel->lock held.
 * Return: the key, or NULL
 */
struct krdma_key *krdma_region_key_find(struct krdma_region *region, struct krdma_channel *ch,
					u64 index)
{
	struct krdma_region_path *rp = &region->paths[ch->path->index];

	lockdep_assert_held(&ch->lock);
	if (unlikely(index == READ_ONCE(rp->mark))) {
		WRITE_ONCE(rp->mark, KRDMA_NO_MARK);
		krdma_region_want(region);
	}
	return region->on[ch->index].last_key = krdma_key_at(region, ch->path->index, index);
}

static void krdma_key_free(struct krdma_region *region, u32 path, struct krdma_key *key)
{
	struct krdma_region_path *rp = &region->paths[path];
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&region->sess->lock);
	xa_erase(&rp->keys, key->index);
	rp->nkeys--;
	rp->ndead -= key->era != region->sess->paths[path].era;
	/* ORDER: it is not found any more, so it is not remembered again. */
	krdma_for_each_channel(ch, region->sess, i) {
		spin_lock(&ch->lock);
		if (region->on[i].last_key == key)
			region->on[i].last_key = NULL;
		spin_unlock(&ch->lock);
	}
	kfree_rcu(key, rcu);
}

/**
 * krdma_region_keys_init - a region has no keys yet
 * @region: region, new
 *
 * Context: any.
 */
void krdma_region_keys_init(struct krdma_region *region)
{
	u32 i;

	INIT_LIST_HEAD(&region->segs);
	for (i = 0; i < KRDMA_PATHS_MAX; i++) {
		xa_init_flags(&region->paths[i].keys, XA_FLAGS_LOCK_BH);
		region->paths[i].mark = KRDMA_NO_MARK;
	}
}

/**
 * krdma_region_keys_free - free the keys of a region
 * @region: region that nobody uses
 *
 * Context: process.
 */
void krdma_region_keys_free(struct krdma_region *region)
{
	struct krdma_key *key;
	unsigned long i;
	u32 p;

	for (p = 0; p < KRDMA_PATHS_MAX; p++) {
		xa_for_each(&region->paths[p].keys, i, key)
			kfree(key);
		xa_destroy(&region->paths[p].keys);
	}
}

/**
 * krdma_region_nkeys - how many keys a region has
 * @region: region
 *
 * Context: session->lock held.
 * Return: their number, of all paths
 */
u32 krdma_region_nkeys(const struct krdma_region *region)
{
	u32 p, n = 0;

	for (p = 0; p < KRDMA_PATHS_MAX; p++)
		n += region->paths[p].nkeys - region->paths[p].ndead;
	return n;
}

/**
 * krdma_region_keys_void - the keys of a path are dead
 * @region: region
 * @path: index of the path, which has a new era, and on which nothing is posted
 *
 * There may be so many that they can't be freed here: they stay until they are replaced.
 *
 * Context: session->lock held.
 */
void krdma_region_keys_void(struct krdma_region *region, u32 path)
{
	struct krdma_region_path *rp = &region->paths[path];
	struct krdma_channel *ch;
	u32 i;

	rp->ndead = rp->nkeys;
	/* ORDER: the era comes first: none of before is found, and remembered, any more. */
	krdma_for_each_channel(ch, region->sess, i) {
		spin_lock(&ch->lock);
		region->on[i].last_key = NULL;
		spin_unlock(&ch->lock);
	}
}

/**
 * krdma_region_path_changed - a channel is connected anew, perhaps over another path
 * @region: region
 * @ch: the first channel
 *
 * Context: channel->lock held.
 */
void krdma_region_path_changed(struct krdma_region *region, struct krdma_channel *ch)
{
	struct krdma_transfer *x, *next;

	lockdep_assert_held(&ch->lock);
	region->on[ch->index].last_key = NULL;
	list_for_each_entry_safe(x, next, &region->on[ch->index].waiters, node) {
		krdma_transfer_ready(x);
		krdma_transfer_wait(x, KRDMA_WAIT_SLOT, 0);
	}
}

/* ---- what is requested ---- */

/* Has it a key for a path, or will it have one? */
static bool krdma_segment_known(struct krdma_region *region, u32 path, u64 index)
{
	struct krdma_segs_rpc *segs;

	lockdep_assert_held(&region->sess->lock);
	if (krdma_key_at(region, path, index))
		return true;
	list_for_each_entry(segs, &region->segs, node)
		if (segs->path == path && segs->era == region->sess->paths[path].era &&
		    krdma_range_has(segs->first, segs->count, index))
			return true;
	return false;
}

/* Request nothing ahead of the transfers; those that go on in order lack a key next at @at. */
static void krdma_region_ahead_stop(struct krdma_region_path *rp, u64 at)
{
	rp->next = at;
	rp->end = at;
	rp->window = 0;
	WRITE_ONCE(rp->mark, KRDMA_NO_MARK);
}

/* Guess that transfers go on behind what is requested, and guess more when they have come near. */
static void krdma_region_guess(struct krdma_region *region, struct krdma_region_path *rp,
			       u32 window)
{
	rp->window = min_t(u32, window, KRDMA_AHEAD_MAX);
	rp->end = min(rp->end + rp->window, krdma_region_segments(region));
	/* There are no more. */
	if (rp->end == krdma_region_segments(region))
		rp->window = 0;
	WRITE_ONCE(rp->mark,
		   rp->window ? rp->end - min_t(u64, rp->end, rp->window / 2) : KRDMA_NO_MARK);
}

/* Have transfers come to the mark? */
static bool krdma_region_marked(const struct krdma_region_path *rp)
{
	return rp->window && READ_ONCE(rp->mark) == KRDMA_NO_MARK;
}

/* Is there something to be requested ahead? */
static bool krdma_region_ahead(const struct krdma_region_path *rp)
{
	return !rp->scarce && (rp->next < rp->end || krdma_region_marked(rp));
}

/* A transfer lacks a key: what it goes on with is requested with it. */
static void krdma_region_lacks(struct krdma_region *region, struct krdma_region_path *rp,
			       const struct krdma_transfer *x, u64 first)
{
	const struct krdma_vec *range = &x->range[x->far.i];
	bool goes_on = first == 0 || first == rp->end;

	if (first >= rp->next && first < rp->end)
		return;
	krdma_region_ahead_stop(rp, first);
	rp->end = krdma_segment_last(range->addr, range->length, region->segment_shift) + 1;
	if (goes_on)
		krdma_region_guess(region, rp, KRDMA_AHEAD_MIN);
}

/* SEGS of what follows a segment, up to the next one that is known. */
static void krdma_segs_fill(struct krdma_region *region, u32 path, struct krdma_segs_rpc *segs,
			    u64 first)
{
	segs->path = path;
	segs->era = region->sess->paths[path].era;
	segs->first = first;
	do {
		segs->count++;
	} while (segs->count < KRDMA_WIRE_SEGS_MAX &&
		 first + segs->count < region->paths[path].end &&
		 !krdma_segment_known(region, path, first + segs->count));
}

/* The next SEGS that a transfer of a channel waits for. */
static bool krdma_segs_needed(struct krdma_region *region, struct krdma_channel *ch,
			      struct krdma_segs_rpc *segs)
{
	u32 path = ch->path->index, n = 0;
	struct krdma_region_path *rp = &region->paths[path];
	struct krdma_transfer *x, *next;
	bool came = false;

	lockdep_assert_held(&ch->lock);
	list_for_each_entry_safe(x, next, &region->on[ch->index].waiters, node) {
		u64 first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);

		/* The replies that so many wait for have the others looked at; if some do wait. */
		if (++n > KRDMA_TRANSFER_BATCH) {
			if (came)
				krdma_region_want(region);
			break;
		}
		if (krdma_key_at(region, path, first)) {
			came = true;
			krdma_transfer_advance(x, 0);
			krdma_channel_later(ch);
			continue;
		}
		if (krdma_segment_known(region, path, first)) {
			krdma_transfer_wait(x, KRDMA_WAIT_KEY, 0);
			continue;
		}
		krdma_region_lacks(region, rp, x, first);
		segs->needed = 1;
		krdma_segs_fill(region, path, segs, first);
		krdma_transfer_wait(x, KRDMA_WAIT_KEY, 0);
		return true;
	}
	return false;
}

/* The next SEGS ahead of the transfers. */
static bool krdma_segs_ahead(struct krdma_region *region, u32 path, struct krdma_segs_rpc *segs)
{
	struct krdma_region_path *rp = &region->paths[path];
	u32 n;

	if (krdma_region_marked(rp))
		krdma_region_guess(region, rp, rp->window * 2);
	for (n = 0; rp->next < rp->end; rp->next++, n++) {
		if (n == KRDMA_AHEAD_BATCH) {
			krdma_region_want(region);
			return false;
		}
		if (!krdma_segment_known(region, path, rp->next)) {
			krdma_segs_fill(region, path, segs, rp->next);
			return true;
		}
	}
	return false;
}

/* The next SEGS, if there is one, which is under way then. */
static bool krdma_segs_next(struct krdma_region *region, struct krdma_segs_rpc *segs)
{
	struct krdma_session *sess = region->sess;
	struct krdma_segs_rpc *other;
	bool found = false;
	u32 i, n = 0;

	spin_lock_bh(&sess->lock);
	list_for_each_entry(other, &region->segs, node)
		n++;
	/* Channels take turns. */
	for (i = 0; n < KRDMA_SEGS_MAX && i < KRDMA_CHANNELS_MAX && !found; i++) {
		struct krdma_channel *ch;

		region->turn = (region->turn + 1) % KRDMA_CHANNELS_MAX;
		ch = krdma_session_slot(sess, region->turn);
		if (!ch)
			continue;
		spin_lock(&ch->lock);
		found = krdma_segs_needed(region, ch, segs);
		krdma_channel_unlock_later(ch);
	}
	/* One is left to those that wait. */
	for (i = 0; !found && n < KRDMA_SEGS_MAX - 1 && !region->err && i < sess->npaths; i++)
		found = !region->paths[i].scarce && krdma_segs_ahead(region, i, segs);
	if (found)
		list_add_tail(&segs->node, &region->segs);
	spin_unlock_bh(&sess->lock);
	return found;
}

/* ---- replies ---- */

/* Too many keys: forget one. The target gives it again. */
static void krdma_key_forget(struct krdma_region *region, u32 path)
{
	struct krdma_region_path *rp = &region->paths[path];
	unsigned long i = rp->forget;
	struct krdma_key *key = xa_find(&rp->keys, &i, ULONG_MAX, XA_PRESENT);

	if (key)
		krdma_key_free(region, path, key);
	rp->forget = key ? i + 1 : 0;
}

/* Keys stay; those of a region that is held are as many as it had when it was opened, or grew. */
static gfp_t krdma_keys_gfp(const struct krdma_region *region)
{
	return region->flags & KRDMA_OPEN_HELD ? krdma_rpc_gfp(region->sess) : GFP_NOIO;
}

/**
 * krdma_keys_store - keep the keys of a reply to SEGS
 * @region: region
 * @msg: the reply, checked as a message
 * @segs: the request
 *
 * Keys of an earlier era of the path are dropped.
 *
 * Context: process.
 * Return: 0, if there is the first of them; -ENOMEM; or -EPROTO: it does not fit the request
 */
int krdma_keys_store(struct krdma_region *region, const union krdma_wire_msg *msg,
		     const struct krdma_segs_rpc *segs)
{
	u64 index = segs->first, end = krdma_region_segments(region);
	const struct krdma_wire_seg *seg = msg->segs_reply.seg;
	struct krdma_region_path *rp = &region->paths[segs->path];
	struct krdma_session *sess = region->sess;
	u32 i, n = krdma_wire_entries(msg);
	gfp_t gfp = krdma_keys_gfp(region);

	if (n < segs->needed || n > segs->count)
		return -EPROTO;

	for (i = 0; i < n; i++, seg++, index++) {
		u32 length = le32_to_cpu(seg->length);
		struct krdma_key *key, *new, *drop;
		bool ok = true;

		if (index >= end || length != krdma_segment_length(index, READ_ONCE(region->length),
								   region->segment_shift))
			return -EPROTO;
		new = krdma_inject(kzalloc(sizeof(*new), gfp), NULL);
		if (!new || krdma_inject(xa_reserve_bh(&rp->keys, index, gfp), -ENOMEM)) {
			kfree(new);
			/* Those behind the first are requested again when they are needed. */
			return i ? 0 : -ENOMEM;
		}
		new->index = index;
		new->address = le64_to_cpu(seg->address);
		new->length = length;
		new->rkey = le32_to_cpu(seg->rkey);
		new->era = segs->era;
		drop = new;
		spin_lock_bh(&sess->lock);
		key = xa_load(&rp->keys, index);
		if (segs->era != sess->paths[segs->path].era) {
			/* It is of a time that is over. */
		} else if (key && key->era == segs->era) {
			/* In use: it can only be the same. */
			ok = key->rkey == new->rkey && key->address == new->address;
		} else {
			if (key)
				rp->ndead--;
			else if (rp->nkeys >= KRDMA_REGION_KEYS)
				krdma_key_forget(region, segs->path);
			rp->nkeys += !key;
			/* Its slot is reserved, or has the dead one. */
			xa_store(&rp->keys, index, new, 0);
			drop = key;
		}
		spin_unlock_bh(&sess->lock);
		if (drop)
			kfree_rcu(drop, rcu);
		if (!ok)
			return -EPROTO;
	}
	return 0;
}

/* What a channel's waiters do with it. */
static void krdma_region_keys_came(struct krdma_region *region, struct krdma_channel *ch,
				   const struct krdma_segs_rpc *segs,
				   const union krdma_wire_msg *msg, int err)
{
	struct list_head *waiters = &region->on[ch->index].waiters;
	/* The device there can't register it. */
	bool unfit = err == -EOPNOTSUPP || err == -EIO;
	struct krdma_transfer *x, *next;
	bool reroute;

	krdma_channel_lock(ch);
	/* The first may go over another path by now. */
	if (ch->path->index != segs->path) {
		if (!list_empty(waiters))
			krdma_region_want(region);
		goto out;
	}
	reroute = err == -EAGAIN ||
		  (ch->first && unfit && READ_ONCE(ch->first->path)->index != segs->path);
	list_for_each_entry_safe(x, next, waiters, node) {
		u64 first = krdma_segment_of(krdma_transfer_at(x), region->segment_shift);

		if (!krdma_range_has(segs->first, segs->count, first))
			continue;
		/* The target has lost that path, or can't use it: the others take its place. */
		if (reroute)
			krdma_transfer_reroute(x);
		/* The target's error is about the first; the others request again. */
		else if (!err || !segs->needed || first != segs->first)
			krdma_transfer_advance(x, 0);
		else if (msg)
			krdma_transfer_end(x, err);
		else
			krdma_transfer_replied(x, err);
	}
	if (!list_empty(waiters))
		krdma_region_want(region);
	krdma_transfer_pump(ch);
out:
	krdma_channel_unlock(ch);
}

/* Reply to SEGS. */
static void krdma_region_keys_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg,
				      int err)
{
	struct krdma_segs_rpc *segs = rpc->arg;
	struct krdma_region *region = segs->region;
	struct krdma_region_path *rp = &region->paths[segs->path];
	struct krdma_session *sess = region->sess;
	struct krdma_channel *ch;
	bool more = false, lacks, old;
	u32 i, n;

	if (msg && !READ_ONCE(region->err)) {
		err = krdma_keys_store(region, msg, segs);
		if (err == -EPROTO)
			krdma_session_protocol(sess, "a reply with keys that do not fit");
	}

	spin_lock_bh(&sess->lock);
	/* ORDER: before those that wait look for it again. */
	list_del(&segs->node);
	n = err || !msg ? 0 : krdma_wire_entries(msg);
	/* What is held is given in the end, some at a time. */
	lacks = n < segs->count && !(n && (region->flags & KRDMA_OPEN_HELD));
	/* It says nothing of what is registered by now. */
	old = segs->era != sess->paths[segs->path].era;
	if (!old && (lacks || segs->needed))
		rp->scarce = lacks;
	if (!old && lacks)
		krdma_region_ahead_stop(rp, segs->first + n);
	else if (!old && n < segs->count)
		rp->next = min(rp->next, segs->first + n);
	for (i = 0; i < sess->npaths; i++)
		more |= krdma_region_ahead(&region->paths[i]);
	spin_unlock_bh(&sess->lock);
	krdma_for_each_channel(ch, sess, i)
		krdma_region_keys_came(region, ch, segs, msg, old ? 0 : err);
	if (more)
		krdma_region_want(region);
	kfree(segs);
	krdma_region_put(region);
}

/* No SEGS could be sent: one of each channel that lack it; the others try for themselves. */
static void krdma_region_keys_failed(struct krdma_region *region, int err)
{
	struct krdma_session *sess = region->sess;
	struct krdma_channel *ch;
	struct krdma_transfer *x;
	u32 i;

	spin_lock_bh(&sess->lock);
	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		list_for_each_entry(x, &region->on[i].waiters, node) {
			if (krdma_segment_known(region, ch->path->index,
						krdma_segment_of(krdma_transfer_at(x),
								 region->segment_shift)))
				continue;
			krdma_transfer_end(x, err);
			krdma_region_want(region);
			break;
		}
		krdma_channel_unlock_later(ch);
	}
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_region_keys_work - request the keys that transfers wait for, and will
 * @work: of a region; holds a reference on it
 *
 * One SEGS at a time, so that other requests have their turn for a credit.
 *
 * Context: work.
 */
void krdma_region_keys_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, keys_work);
	struct krdma_session *sess = region->sess;
	struct krdma_segs_rpc *segs;
	struct krdma_wire_segs *msg;
	struct krdma_rpc *rpc;
	int rc = -ENOMEM;

	/* If it has to wait, it is queued again, with the reference. */
	if (!krdma_credit_take(sess, &region->keys_credit))
		return;
	/* ORDER: who begins to wait from here on queues it again. */
	atomic_xchg(&region->wanted_keys, 0);
	segs = krdma_inject(kzalloc(sizeof(*segs), krdma_keys_gfp(region)), NULL);
	rpc = krdma_rpc_new(sess, krdma_region_keys_replied, segs);
	if (!segs || !rpc)
		goto out;

	rc = 0;
	if (!krdma_segs_next(region, segs))
		goto out;

	kref_get(&region->ref);
	segs->region = region;
	msg = krdma_credit_build(&region->keys_credit, KRDMA_WIRE_SEGS, sizeof(*msg), 0);
	if (msg) {
		msg->grant = cpu_to_le32(region->grant);
		msg->generation = cpu_to_le32(region->generation);
		msg->first = cpu_to_le64(segs->first);
		msg->count = cpu_to_le32(segs->needed);
		msg->extra = cpu_to_le16(segs->count - segs->needed);
		msg->path = cpu_to_le16(segs->path);
	}
	rc = krdma_rpc_post(sess, &region->keys_credit, rpc);
	if (rc) {
		spin_lock_bh(&sess->lock);
		list_del(&segs->node);
		krdma_region_ahead_stop(&region->paths[segs->path], segs->first);
		spin_unlock_bh(&sess->lock);
		krdma_region_put(region);
	} else {
		/* The reply may have freed it. */
		segs = NULL;
		krdma_region_want(region);
	}
out:
	krdma_credit_put(sess, &region->keys_credit);
	if (rc)
		krdma_region_keys_failed(region, rc);
	krdma_rpc_put(rpc);
	kfree(segs);
	krdma_region_put(region);
}

/**
 * krdma_region_want - see to it that keys are requested
 * @region: the region, of which the caller has a reference or a transfer
 *
 * Context: any.
 */
void krdma_region_want(struct krdma_region *region)
{
	if (atomic_xchg(&region->wanted_keys, 1))
		return;
	kref_get(&region->ref);
	/* Put by the work, which has let go of the flag when it is queued again. */
	if (!queue_work(krdma_rpc_wq, &region->keys_work))
		krdma_region_put(region); /* not the last */
}

/* ---- RECALL ---- */

static void krdma_recall_over(struct krdma_grace *grace)
{
	struct krdma_recall *recall = container_of(grace, struct krdma_recall, grace);
	struct krdma_session *sess = recall->sess;

	/* ORDER: rx_work may free it then. */
	WRITE_ONCE(recall->due, true);
	/* ORDER: the other side has the state UP, then queues rx_work, which looks at due. */
	smp_mb();
	/* Else rx_work comes when it is up again, or the session ends it. */
	if (READ_ONCE(sess->ch->state) == KRDMA_CHANNEL_UP)
		queue_work(krdma_wq, &sess->rx_work);
}

/**
 * krdma_region_recall - the target wants keys back
 * @sess: session
 * @rx: receive of the RECALL, posted again here
 * @tx: buffer for the reply, which comes when rx_work ends, or later
 * @request: the RECALL
 *
 * Context: rx_work.
 * Return: false if @tx is not used: the session ends
 */
bool krdma_region_recall(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			 const union krdma_wire_msg *request)
{
	const struct krdma_wire_recall *msg = &request->recall;
	/* Segments that it names; 0: all of the grant, which is over. */
	u32 i, p, n = krdma_wire_entries(request);
	struct krdma_recall *recall =
		krdma_inject(kzalloc(sizeof(*recall), krdma_rpc_gfp(sess)), NULL);
	struct krdma_region *region;
	struct krdma_key *key;

	if (!recall) {
		krdma_session_fail(sess, -ENOMEM, "no memory for a recall",
				   KRDMA_WIRE_REASON_LIMIT);
		return false;
	}
	recall->sess = sess;
	recall->tag = msg->hdr.tag;
	recall->tx = tx;
	spin_lock_bh(&sess->lock);
	region = krdma_region_find(sess, le32_to_cpu(msg->grant), le32_to_cpu(msg->generation));
	for (i = n; region && i--;)
		for (p = 0; p < sess->npaths; p++) {
			key = xa_load(&region->paths[p].keys, le64_to_cpu(msg->index[i]));
			if (key)
				krdma_key_free(region, p, key);
		}
	/* Once: all transfers under way are looked at. */
	if (region && !n && !region->revoked) {
		WRITE_ONCE(region->revoked, true);
		krdma_region_fail(region, -ESTALE);
	}
	/*
	 * The keys are not used from here on: the reply is due when none is on the wire. If the
	 * region is unknown its CLOSE has crossed the RECALL.
	 */
	list_add_tail(&recall->node, &sess->recalls);
	if (krdma_grace_begin(sess, &recall->grace, krdma_recall_over))
		recall->due = true;
	spin_unlock_bh(&sess->lock);
	krdma_stat_inc(n ? KRDMA_STAT_RECALLS : KRDMA_STAT_REVOKES);
	krdma_post_rx(sess->ch, rx);
	return true;
}

/**
 * krdma_region_recalls_reply - send the replies that are due
 * @sess: session
 *
 * Context: rx_work.
 */
void krdma_region_recalls_reply(struct krdma_session *sess)
{
	struct krdma_recall *recall, *next;
	LIST_HEAD(due);

	spin_lock_bh(&sess->lock);
	list_for_each_entry_safe(recall, next, &sess->recalls, node)
		if (READ_ONCE(recall->due))
			list_move_tail(&recall->node, &due);
	spin_unlock_bh(&sess->lock);
	list_for_each_entry_safe(recall, next, &due, node) {
		krdma_reply_status(sess, recall->tx, KRDMA_WIRE_RECALL, recall->tag, KRDMA_WIRE_OK);
		kfree(recall);
	}
}
