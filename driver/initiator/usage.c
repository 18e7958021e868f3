// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of what the target's exports are used for: its processors see no READ and no WRITE. The
 * session's tick sends a report of what has changed, if credits are to spare; the CLOSE of a
 * region has the last report of it.
 */
#include <linux/slab.h>

#include "initiator/wr.h"

/* Not more often, jiffies. */
#define KRDMA_USAGE_PAUSE HZ

/* Of a region, so far. */
static struct krdma_used krdma_region_used(struct krdma_region *region)
{
	struct krdma_used used = {};
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&region->sess->lock);
	krdma_for_each_channel(ch, region->sess, i) {
		const struct krdma_used *on = &region->on[i].used;

		spin_lock(&ch->lock);
		used.read_bytes += on->read_bytes;
		used.written_bytes += on->written_bytes;
		used.reads += on->reads;
		used.writes += on->writes;
		spin_unlock(&ch->lock);
	}
	return used;
}

static bool krdma_used_same(const struct krdma_used *a, const struct krdma_used *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void krdma_used_tell(const struct krdma_used *used, struct krdma_wire_used *to)
{
	*to = (struct krdma_wire_used){
		.read_bytes = cpu_to_le64(used->read_bytes),
		.written_bytes = cpu_to_le64(used->written_bytes),
		.reads = cpu_to_le64(used->reads),
		.writes = cpu_to_le64(used->writes),
	};
}

/**
 * krdma_usage_last - has the target not been told the last of a region?
 * @region: the region, nothing of which is on the wire
 * @used: out: for the CLOSE
 *
 * Context: process; no lock of the session or the channel held.
 * Return: true if there is something to tell
 */
bool krdma_usage_last(struct krdma_region *region, struct krdma_wire_used *used)
{
	struct krdma_session *sess = region->sess;
	struct krdma_used now;
	bool new;

	spin_lock_bh(&sess->lock);
	now = krdma_region_used(region);
	new = sess->usage.wanted && !krdma_used_same(&now, &region->told);
	spin_unlock_bh(&sess->lock);
	krdma_used_tell(&now, used);
	return new;
}

static u64 krdma_usage_transfers(struct krdma_session *sess)
{
	struct krdma_channel *ch;
	u64 n = 0;
	u32 i;

	krdma_for_each_channel(ch, sess, i) {
		spin_lock(&ch->lock);
		n += ch->ended_transfers + ch->failures;
		spin_unlock(&ch->lock);
	}
	return n;
}

/* Is a report due? */
static bool krdma_usage_due(struct krdma_session *sess)
{
	struct krdma_usage *usage = &sess->usage;
	u64 transfers;

	lockdep_assert_held(&sess->lock);
	if (!usage->wanted || usage->busy || sess->resuming || sess->state != KRDMA_SESSION_UP ||
	    time_before(jiffies, usage->at + KRDMA_USAGE_PAUSE))
		return false;
	transfers = krdma_usage_transfers(sess);
	if (transfers == usage->transfers && !usage->again)
		return false;
	usage->transfers = transfers;
	usage->at = jiffies;
	usage->again = false;
	return true;
}

/* Entries for the regions that have changed: each has one in a round, before any has the next. */
static u32 krdma_usage_fill(struct krdma_session *sess, struct krdma_wire_usage *msg)
{
	struct krdma_region *region;
	u32 n = 0;

	lockdep_assert_held(&sess->lock);
	if (!sess->usage.more)
		sess->usage.round++;
	sess->usage.more = false;
	list_for_each_entry(region, &sess->regions, node) {
		struct krdma_used now;

		if (region->closing || region->usage_round == sess->usage.round)
			continue;
		now = krdma_region_used(region);
		if (krdma_used_same(&now, &region->told))
			continue;
		if (n == KRDMA_WIRE_USAGE_MAX) {
			sess->usage.more = true;
			sess->usage.again = true;
			break;
		}
		region->usage_round = sess->usage.round;
		msg->entry[n].grant = cpu_to_le32(region->grant);
		msg->entry[n].generation = cpu_to_le32(region->generation);
		krdma_used_tell(&now, &msg->entry[n++].used);
		region->told = now;
	}
	return n;
}

/* Not told: all is new again. */
static void krdma_usage_failed(struct krdma_session *sess)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	sess->usage.again = true;
	list_for_each_entry(region, &sess->regions, node)
		region->told = (struct krdma_used){};
}

static void krdma_usage_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_session *sess = rpc->arg;

	spin_lock_bh(&sess->lock);
	sess->usage.busy = false;
	if (err)
		krdma_usage_failed(sess);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_usage_tick - tell the target what its exports were used for, if that has changed
 * @sess: outbound session
 *
 * Context: the session's tick.
 */
void krdma_usage_tick(struct krdma_session *sess)
{
	struct krdma_credit credit;
	struct krdma_wire_usage *msg;
	struct krdma_rpc *rpc;
	u32 n = 0;
	bool due;

	spin_lock_bh(&sess->lock);
	due = krdma_usage_due(sess);
	spin_unlock_bh(&sess->lock);
	if (!due)
		return;
	rpc = krdma_rpc_new(sess, krdma_usage_replied, sess);
	krdma_credit_init(&credit, NULL);
	spin_lock_bh(&sess->lock);
	if (rpc && krdma_credit_spare(sess, &credit)) {
		msg = krdma_credit_build(&credit, KRDMA_WIRE_USAGE, sizeof(*msg), 0);
		n = krdma_usage_fill(sess, msg);
		krdma_wire_end((union krdma_wire_msg *)msg, msg->entry + n);
		sess->usage.busy = n;
	} else {
		sess->usage.again = true;
	}
	spin_unlock_bh(&sess->lock);
	if (n && krdma_rpc_post(sess, &credit, rpc))
		krdma_usage_replied(rpc, NULL, -ENOTCONN);
	krdma_credit_put(sess, &credit);
	krdma_rpc_put(rpc);
}
