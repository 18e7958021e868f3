// SPDX-License-Identifier: GPL-2.0
/*
 * What peers report of the use of exports (USAGE, CLOSE). Nothing here depends on it: it is shown
 * to operators, as what it is. Numbers that go back are not taken.
 */
#include <linux/overflow.h>

#include "target/grant.h"

static void krdma_sum(u64 *sum, u64 more)
{
	if (check_add_overflow(*sum, more, sum))
		*sum = U64_MAX;
}

/* One of the numbers of a grant; the sums of its export and its session grow with it. */
static void krdma_used_raise(u64 *is, __le64 told, u64 *export, u64 *sess)
{
	u64 more = le64_to_cpu(told) - *is;

	if (le64_to_cpu(told) <= *is)
		return;
	*is += more;
	krdma_sum(export, more);
	krdma_sum(sess, more);
}

static void krdma_grant_used_locked(struct krdma_grant *grant, const struct krdma_wire_used *told)
{
	struct krdma_used *is = &grant->used, *export = &grant->export->served;
	struct krdma_session *sess = grant->sess;

	lockdep_assert_held(&krdma_exports_lock);
	lockdep_assert_held(&sess->lock);
	krdma_used_raise(&is->read_bytes, told->read_bytes, &export->read_bytes,
			 &sess->served.read_bytes);
	krdma_used_raise(&is->written_bytes, told->written_bytes, &export->written_bytes,
			 &sess->served.written_bytes);
	krdma_used_raise(&is->reads, told->reads, &export->reads, &sess->served.reads);
	krdma_used_raise(&is->writes, told->writes, &export->writes, &sess->served.writes);
}

/**
 * krdma_grant_used - take what a peer reports of a grant
 * @grant: grant
 * @told: what READs and WRITEs have moved since the grant began
 *
 * Context: the session's service.
 */
void krdma_grant_used(struct krdma_grant *grant, const struct krdma_wire_used *told)
{
	mutex_lock(&krdma_exports_lock);
	spin_lock_bh(&grant->sess->lock);
	krdma_grant_used_locked(grant, told);
	spin_unlock_bh(&grant->sess->lock);
	mutex_unlock(&krdma_exports_lock);
}

/**
 * krdma_serve_usage - take a report
 * @sess: session
 * @msg: the report; a grant that is over by now is left out
 * @buf: for the reply
 *
 * Context: the session's service.
 * Return: 0
 */
int krdma_serve_usage(struct krdma_session *sess, const struct krdma_wire_usage *msg, void *buf)
{
	u32 i, n = krdma_wire_entries((const union krdma_wire_msg *)msg);
	struct krdma_grant *grant;

	mutex_lock(&krdma_exports_lock);
	spin_lock_bh(&sess->lock);
	for (i = 0; i < n; i++) {
		grant = xa_load(&sess->grants, le32_to_cpu(msg->entry[i].grant));
		if (grant && grant->generation == le32_to_cpu(msg->entry[i].generation))
			krdma_grant_used_locked(grant, &msg->entry[i].used);
	}
	spin_unlock_bh(&sess->lock);
	mutex_unlock(&krdma_exports_lock);
	krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_USAGE, sizeof(msg->hdr), 0);
	return 0;
}
