// SPDX-License-Identifier: GPL-2.0
/* Regions of exports that grow: the peer tells the length when it is asked, and only then. */
#include "initiator/wr.h"

/* Reply to GROW. Replies come in order, so no length is less than one of before. */
static void krdma_region_grown(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_region *region = rpc->arg;
	struct krdma_session *sess = region->sess;
	u64 length = 0;
	bool wrong;

	if (msg) {
		length = le64_to_cpu(msg->grow_reply.length);
		spin_lock_bh(&sess->lock);
		/* The key of a part of a segment would not do for more of it. */
		wrong = length < region->length ||
			(length > region->length &&
			 krdma_segment_offset(region->length, region->segment_shift));
		if (!wrong)
			WRITE_ONCE(region->length, length);
		spin_unlock_bh(&sess->lock);
		if (wrong) {
			err = -ENOTCONN;
			krdma_session_protocol(sess,
					       "a grant that does not grow by whole segments");
		}
	}
	rpc->err = err;
	complete_all(&rpc->done);
}

/* Return: 0 or a negative errno, which is explained */
static int krdma_region_grow_ask(struct krdma_region *region, u32 timeout_ms,
				 struct krdma_error *error)
{
	struct krdma_session *sess = region->sess;
	struct krdma_wire_close *msg;
	struct krdma_credit credit;
	int rc;

	if (!sess->grows)
		return krdma_explain(error, -EOPNOTSUPP,
				     "the module of %pISpc is an older one: no export of it grows",
				     &sess->dst);
	rc = krdma_credit_wait(sess, &credit, timeout_ms);
	if (!rc) {
		msg = krdma_credit_build(&credit, KRDMA_WIRE_GROW, sizeof(*msg), 0);
		msg->grant = cpu_to_le32(region->grant);
		msg->generation = cpu_to_le32(region->generation);
		rc = krdma_rpc_wait(sess, &credit, krdma_region_grown, region, timeout_ms, NULL);
	}
	switch (rc) {
	case 0:
		return 0;
	case -EOPNOTSUPP:
		return krdma_explain(
			error, rc,
			"'%s' of %pISpc can't grow: %llu bytes are not whole segments of %llu",
			region->name, &sess->dst, READ_ONCE(region->length),
			1ULL << region->segment_shift);
	case -EDQUOT:
		return krdma_explain(
			error, rc, "'%s' can't be held by %pISpc with more bytes: too few segments",
			region->name, &sess->dst);
	case -ENOTCONN:
		return krdma_session_explain(sess, sess->ch, rc, error);
	}
	return krdma_explain(error, rc, "%pISpc did not tell the length of '%s' (%pe)", &sess->dst,
			     region->name, ERR_PTR(rc));
}

/**
 * krdma_region_grow - have all of an export that has grown
 * @region: the region, of which the caller is a user
 * @timeout_ms: how long to wait, 0 for the default; as long again for each request of keys that
 *	are held
 * @error: explanation
 *
 * Context: process.
 * Return: 0, also if it has not grown; or a negative errno
 */
int krdma_region_grow(struct krdma_region *region, u32 timeout_ms, struct krdma_error *error)
{
	bool held = region->flags & KRDMA_OPEN_HELD;
	int rc;

	timeout_ms = timeout_ms ?: krdma_default_ms(0) * (held ? KRDMA_OPEN_LONG : 1);
	timeout_ms = min(timeout_ms, KRDMA_FOREVER_MS);
	rc = krdma_region_grow_ask(region, timeout_ms, error);
	if (rc || !held)
		return rc;
	rc = krdma_region_hold(region, timeout_ms);
	return rc ? krdma_explain(error, rc, "the new memory of '%s' of %pISpc can't be held (%pe)",
				  region->name, &region->sess->dst, ERR_PTR(rc)) :
		    0;
}
