// SPDX-License-Identifier: GPL-2.0
/*
 * Regions that are held: all keys are requested when the region is opened, and when a path comes
 * up, so that no transfer waits for one. The target recalls none.
 */
#include "initiator/wr.h"

/**
 * krdma_region_hold_path - request all keys for a path that comes up
 * @region: region that is held
 * @path: index of the path
 *
 * Context: session->lock held.
 */
void krdma_region_hold_path(struct krdma_region *region, u32 path)
{
	struct krdma_region_path *rp = &region->paths[path];

	lockdep_assert_held(&region->sess->lock);
	rp->scarce = false;
	rp->next = 0;
	rp->end = krdma_region_segments(region);
	rp->window = 0;
	krdma_region_want(region);
}

static void krdma_region_held(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_segs_rpc *segs = rpc->arg;

	if (msg)
		err = krdma_keys_store(segs->region, msg, segs);
	if (err == -EPROTO)
		krdma_session_protocol(segs->region->sess, "a reply with keys that do not fit");
	rpc->err = err;
	complete_all(&rpc->done);
}

/* Have keys of segments: the first, and of those behind it some. */
static int krdma_region_hold_segs(struct krdma_segs_rpc *segs, u32 timeout_ms)
{
	struct krdma_session *sess = segs->region->sess;
	struct krdma_wire_segs *msg;
	struct krdma_credit credit;
	int rc = krdma_credit_wait(sess, &credit, timeout_ms);

	if (rc)
		return rc;
	msg = krdma_credit_build(&credit, KRDMA_WIRE_SEGS, sizeof(*msg), 0);
	msg->grant = cpu_to_le32(segs->region->grant);
	msg->generation = cpu_to_le32(segs->region->generation);
	msg->first = cpu_to_le64(segs->first);
	msg->count = cpu_to_le32(segs->needed);
	msg->extra = cpu_to_le16(segs->count - segs->needed);
	msg->path = cpu_to_le16(segs->path);
	return krdma_rpc_wait(sess, &credit, krdma_region_held, segs, timeout_ms, NULL);
}

/* The next keys of a path that are not there. Return: false if all are */
static bool krdma_region_hold_next(struct krdma_region *region, struct krdma_segs_rpc *segs)
{
	struct krdma_path *path = &region->sess->paths[segs->path];
	u64 end = krdma_region_segments(region);

	spin_lock_bh(&region->sess->lock);
	/* Of those that were there none may be by now. */
	if (segs->era != path->era)
		segs->first = 0;
	segs->era = path->era;
	/* It comes up later, and has its keys then. */
	if (!path->epoch)
		segs->first = end;
	spin_unlock_bh(&region->sess->lock);
	for (; segs->first < end; segs->first++) {
		if (!krdma_region_key_there(region, segs->path, segs->first))
			break;
		cond_resched();
	}
	/* The target has each of them ready before it replies: of those that take long, fewer. */
	segs->count = min_t(u64, end - segs->first, KRDMA_WIRE_SEGS_MAX);
	segs->needed = min(segs->count, 1U);
	return segs->count;
}

/* All keys of a path. */
static int krdma_region_hold_keys(struct krdma_segs_rpc *segs, u32 timeout_ms)
{
	unsigned long until = jiffies + msecs_to_jiffies(timeout_ms);
	struct krdma_region *region = segs->region;
	struct krdma_session *sess = region->sess;
	int rc;

	segs->first = 0;
	while (krdma_region_hold_next(region, segs)) {
		rc = krdma_region_hold_segs(segs, timeout_ms);
		if (!rc) {
			until = jiffies + msecs_to_jiffies(timeout_ms);
			continue;
		}
		/* As for transfers, which go over the first channel's then. */
		if (READ_ONCE(sess->ch->path)->index != segs->path &&
		    (rc == -EAGAIN || rc == -EIO || rc == -EOPNOTSUPP || rc == -ENOMEM))
			return 0;
		/* An error of an earlier era says nothing of the device that is there now. */
		if (rc != -EAGAIN && segs->era == READ_ONCE(sess->paths[segs->path].era))
			return rc;
		/* The path comes back, or the session ends. */
		if (time_after(jiffies, until))
			return -ETIMEDOUT;
		if (schedule_timeout_killable(msecs_to_jiffies(KRDMA_AWAY_MS)))
			return -EINTR;
		segs->first = 0;
	}
	return 0;
}

/**
 * krdma_region_hold - have all keys of a region
 * @region: region that the target holds
 * @timeout_ms: how long to wait for each reply
 *
 * Those of a path that is not up are requested when it is, but not of the one that the first
 * channel has.
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_region_hold(struct krdma_region *region, u32 timeout_ms)
{
	struct krdma_segs_rpc segs = { .region = region };
	u32 npaths = region->sess->npaths;
	int rc = 0;

	/* More than any target holds; what is forgotten would be requested for ever. */
	if (krdma_region_segments(region) > KRDMA_REGION_KEYS)
		return -EDQUOT;
	for (; !rc && segs.path < npaths; segs.path++)
		rc = krdma_region_hold_keys(&segs, timeout_ms);
	return rc ?: READ_ONCE(region->err);
}
