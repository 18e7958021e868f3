// SPDX-License-Identifier: GPL-2.0
/*
 * The service of a session: answers what the peer asks of exports, one question after
 * the other, and does what others have left a note for (grant.c).
 */
#include <linux/slab.h>

#include "krdma.h"

static void krdma_service_notes(struct krdma_session *sess)
{
	struct krdma_grant *grant;
	unsigned long i;
	bool revoke;
	u32 shed;

	xa_for_each(&sess->grants, i, grant) {
		if (!krdma_session_is_up(sess))
			return;
		mutex_lock(&krdma_exports_lock);
		revoke = grant->revoke;
		shed = grant->shed;
		grant->shed = 0;
		mutex_unlock(&krdma_exports_lock);
		if (revoke)
			krdma_grant_revoke(grant);
		else if (shed)
			krdma_grant_recall(grant, shed);
	}
}

static struct krdma_grant *krdma_grant_find(struct krdma_session *sess, u32 id, u32 generation)
{
	struct krdma_grant *grant = xa_load(&sess->grants, id);

	return grant && grant->generation == generation ? grant : NULL;
}

static int krdma_serve_list(struct krdma_session *sess, struct krdma_msg *msg)
{
	u32 rights, n = 0, shown = krdma_session_shown(sess);
	u64 cursor = msg->list.cursor;
	struct krdma_export *export;

	memset(&msg->list_answer, 0, sizeof(msg->list_answer));
	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(export, &krdma_exports, node) {
		rights = export->rights & shown;
		if (export->net != sess->net || export->serial <= cursor || !rights)
			continue;
		if (n == KRDMA_WIRE_LIST_MAX) {
			msg->list_answer.cursor = cursor;
			break;
		}
		msg->list_answer.entry[n].length = export->length;
		msg->list_answer.entry[n].rights = rights;
		strscpy(msg->list_answer.entry[n].name, export->name, KRDMA_WIRE_NAME_MAX);
		cursor = export->serial;
		n++;
	}
	mutex_unlock(&krdma_exports_lock);
	msg->list_answer.count = n;
	return 0;
}

/* Asked for by name a right is given or refused; of all there are, what can be had. */
static int krdma_grant_rights(const struct krdma_export *export, const struct krdma_session *sess,
			      u32 wanted, u32 *rights)
{
	if (wanted & ~export->rights)
		return -EACCES;
	*rights = (wanted ?: export->rights) & krdma_session_rights(sess);
	return wanted & ~*rights || !*rights ? -EOPNOTSUPP : 0;
}

static u32 krdma_session_grants_of(struct krdma_session *sess, const struct krdma_export *export)
{
	struct krdma_grant *grant;
	unsigned long i;
	u32 n = 0;

	xa_for_each(&sess->grants, i, grant)
		n += grant->export == export;
	return n;
}

static int krdma_serve_open(struct krdma_session *sess, struct krdma_msg *msg)
{
	struct krdma_grant *grant;
	struct krdma_export *export;
	int rc;

	if (sess->ngrants >= KRDMA_SESSION_GRANTS)
		return -EDQUOT;
	grant = kzalloc(sizeof(*grant), GFP_KERNEL);
	if (!grant)
		return -ENOMEM;
	grant->sess = sess;
	xa_init(&grant->segs);
	grant->generation = ++sess->generation ?: ++sess->generation;

	mutex_lock(&krdma_exports_lock);
	export = krdma_export_find(sess->net, msg->open.name);
	rc = export ? krdma_grant_rights(export, sess, msg->open.rights, &grant->rights) : -ENOENT;
	if (!rc && krdma_session_grants_of(sess, export) >= KRDMA_EXPORT_GRANTS)
		rc = -EDQUOT;
	if (!rc) {
		do {
			grant->id = ++sess->next_grant;
		} while (!grant->id || xa_load(&sess->grants, grant->id));
		rc = xa_err(xa_store(&sess->grants, grant->id, grant, GFP_KERNEL));
	}
	if (!rc) {
		kref_get(&export->ref);
		grant->export = export;
		list_add_tail(&grant->export_node, &export->grants);
		WRITE_ONCE(sess->ngrants, sess->ngrants + 1);
	}
	mutex_unlock(&krdma_exports_lock);
	if (rc) {
		kfree(grant);
		return rc;
	}
	if (grant->rights & KRDMA_RIGHT_MESSAGE) {
		rc = krdma_sender_open(grant);
		if (rc) {
			krdma_grant_free(grant);
			return rc;
		}
	}

	memset(&msg->open_answer, 0, sizeof(msg->open_answer));
	msg->open_answer.length = export->length;
	msg->open_answer.rights = grant->rights;
	if (grant->rights & KRDMA_RIGHT_ATOMIC)
		msg->open_answer.rights |= sess->dev->policy.rights & KRDMA_RIGHT_ATOMIC_CPU;
	msg->open_answer.grant = grant->id;
	msg->open_answer.generation = grant->generation;
	msg->open_answer.segment_shift = sess->dev->segment_shift;
	return 0;
}

static int krdma_serve_segs(struct krdma_session *sess, struct krdma_msg *msg)
{
	u32 shift = sess->dev->segment_shift, count = msg->segs.count, extra = msg->segs.extra;
	struct krdma_seg *segs[KRDMA_WIRE_SEGS_MAX], *fresh[KRDMA_WIRE_SEGS_MAX];
	u64 first = msg->segs.first, total;
	struct krdma_grant *grant;
	u32 i, n = 0, nfresh = 0;
	int rc = 0;

	grant = krdma_grant_find(sess, msg->segs.grant, msg->segs.generation);
	if (!grant)
		return -ENOENT;
	if (READ_ONCE(grant->revoke))
		return -ESTALE;
	/* Of messages alone. */
	if (!(grant->rights & ~KRDMA_RIGHT_MESSAGE))
		return -EACCES;
	total = krdma_segments(grant->export->length, shift);
	if (!krdma_range_ok(first, count, total))
		return -ERANGE;
	if (count > grant->export->max_segments)
		return -EDQUOT;
	extra = min_t(u64, extra, total - first - count);

	for (i = 0; i < count + extra; i++) {
		struct krdma_seg *seg = krdma_segment_get(grant, first + i, i < count);

		if (IS_ERR(seg) && i < count)
			rc = PTR_ERR(seg);
		if (IS_ERR_OR_NULL(seg))
			break;
		seg->busy = true;
		segs[n++] = seg;
		if (!seg->valid)
			fresh[nfresh++] = seg;
	}
	for (i = 0; i < n; i++)
		segs[i]->busy = false;
	if (!rc && nfresh)
		rc = krdma_segs_register(sess, fresh, nfresh);
	if (rc) {
		for (i = 0; i < nfresh; i++)
			if (!fresh[i]->valid)
				krdma_seg_free(fresh[i]);
		krdma_grant_lacks(grant);
		return rc;
	}

	memset(&msg->segs_answer, 0, sizeof(msg->segs_answer));
	msg->segs_answer.grant = grant->id;
	msg->segs_answer.generation = grant->generation;
	msg->segs_answer.count = n;
	for (i = 0; i < n; i++) {
		msg->segs_answer.seg[i].index = segs[i]->index;
		msg->segs_answer.seg[i].address = segs[i]->mr->iova;
		msg->segs_answer.seg[i].length = segs[i]->length;
		msg->segs_answer.seg[i].rkey = segs[i]->mr->rkey;
	}
	return 0;
}

static int krdma_serve_digest(struct krdma_session *sess, struct krdma_msg *msg)
{
	struct krdma_grant *grant;
	u32 value = msg->digest.value;
	int rc;

	grant = krdma_grant_find(sess, msg->digest.grant, msg->digest.generation);
	if (!grant)
		return -ENOENT;
	if (READ_ONCE(grant->revoke))
		return -ESTALE;
	/* It tells of the bytes as reading them does. */
	if (!(grant->rights & KRDMA_RIGHT_READ))
		return -EACCES;
	if (!krdma_range_ok(msg->digest.offset, msg->digest.length, grant->export->length))
		return -ERANGE;
	krdma_error_init(&grant->error);
	rc = krdma_digest_grant(grant, msg->digest.offset, msg->digest.length, &value);
	if (rc) {
		krdma_grant_lacks(grant);
		return rc == -ENOSPC ? -ENOMEM : rc;
	}
	memset(&msg->digest_answer, 0, sizeof(msg->digest_answer));
	msg->digest_answer.grant = grant->id;
	msg->digest_answer.generation = grant->generation;
	msg->digest_answer.value = value;
	return 0;
}

static int krdma_serve_close(struct krdma_session *sess, struct krdma_msg *msg)
{
	struct krdma_grant *grant;

	grant = krdma_grant_find(sess, msg->grant.grant, msg->grant.generation);
	if (!grant)
		return -ENOENT;
	return krdma_grant_end(grant);
}

static void krdma_serve(struct krdma_session *sess, struct krdma_tx *tx, struct krdma_msg *msg)
{
	int rc;

	switch (msg->type) {
	case KRDMA_WIRE_LIST:
		rc = krdma_serve_list(sess, msg);
		break;
	case KRDMA_WIRE_OPEN:
		rc = krdma_serve_open(sess, msg);
		break;
	case KRDMA_WIRE_SEGS:
		rc = krdma_serve_segs(sess, msg);
		break;
	case KRDMA_WIRE_CLOSE:
		rc = krdma_serve_close(sess, msg);
		break;
	case KRDMA_WIRE_DIGEST:
		rc = krdma_serve_digest(sess, msg);
		break;
	default:
		rc = -EOPNOTSUPP;
	}
	msg->status = rc ? krdma_proto_status(rc) : KRDMA_WIRE_OK;
	krdma_answer(sess, tx, msg);
}

static struct krdma_request *krdma_service_next(struct krdma_session *sess)
{
	struct krdma_request *req = NULL;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP) {
		req = list_first_entry_or_null(&sess->requests, struct krdma_request, node);
		if (req)
			list_del(&req->node);
	}
	spin_unlock_bh(&sess->lock);
	return req;
}

/**
 * krdma_service_work - the service of a session
 * @work: of a session
 *
 * Context: work of session->wq, so that it may wait for the peer.
 */
void krdma_service_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, svc_work);
	struct krdma_request *req;

	do {
		krdma_service_notes(sess);
		req = krdma_service_next(sess);
		if (req) {
			krdma_serve(sess, req->tx, req->msg);
			kfree(req->msg);
			kfree(req);
		}
	} while (req);
}
