// SPDX-License-Identifier: GPL-2.0
/*
 * The service of a session: replies to requests about exports, one after the other, and does
 * what others have left a note for (grant.c, reclaim.c).
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "target/grant.h"

/**
 * krdma_service_notes - do what others have left for a session's service
 * @sess: session
 * @except: a grant that the caller uses, which must not end; may be NULL
 *
 * Waits for no reply but the fence's.
 *
 * Context: the session's service.
 * Return: replies to RECALL handled, or -ENOTCONN
 */
int krdma_service_notes(struct krdma_session *sess, const struct krdma_grant *except)
{
	int rc = krdma_reclaims_finish(sess, except);
	struct krdma_grant *grant;
	unsigned long i;
	bool revoke;
	u32 shed, p;

	for (p = 0; p < KRDMA_PATHS_MAX; p++)
		if (&sess->paths[p] != sess->serves && krdma_path_left(sess, &sess->paths[p]))
			krdma_segs_path_gone(sess, &sess->paths[p]);

	if (READ_ONCE(sess->shed)) {
		mutex_lock(&krdma_exports_lock);
		WRITE_ONCE(sess->shed, false);
		mutex_unlock(&krdma_exports_lock);
	}
	xa_for_each(&sess->grants, i, grant) {
		/* A lock of all sessions is not for each request of one. */
		if (!krdma_grant_noted(grant))
			continue;
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
	return rc;
}

static int krdma_serve_list(struct krdma_session *sess, const struct krdma_wire_list *msg,
			    void *buf)
{
	u32 rights, shown = krdma_session_shown(sess);
	struct krdma_wire_list_reply *reply;
	u64 cursor = le64_to_cpu(msg->cursor);
	struct krdma_wire_list_entry *entry;
	struct krdma_export *export;

	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_LIST, sizeof(*reply), 0);
	entry = reply->entry;
	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(export, &krdma_exports, node) {
		rights = export->rights & shown;
		if (export->net != sess->net || export->serial <= cursor || !rights)
			continue;
		if (entry == reply->entry + KRDMA_WIRE_LIST_MAX) {
			reply->cursor = cpu_to_le64(cursor);
			break;
		}
		*entry = (struct krdma_wire_list_entry){
			.length = cpu_to_le64(export->length),
			.rights = cpu_to_le32(rights),
		};
		strscpy(entry->name, export->name, sizeof(entry->name));
		cursor = export->serial;
		entry++;
	}
	mutex_unlock(&krdma_exports_lock);
	krdma_wire_end((union krdma_wire_msg *)reply, entry);
	return 0;
}

/* At most one ADDRS at a time waits for krdma_listeners_lock. */
static DEFINE_MUTEX(krdma_addresses_lock);

static int krdma_serve_addresses(struct krdma_session *sess, void *buf)
{
	struct krdma_wire_addresses_reply *reply;
	u32 n;

	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_ADDRESSES, sizeof(*reply), 0);
	/* It asks devices, and holds a lock of all listeners meanwhile. */
	mutex_lock(&krdma_addresses_lock);
	n = krdma_addrs_local(sess, reply->address, KRDMA_WIRE_ADDRESS_MAX);
	mutex_unlock(&krdma_addresses_lock);
	krdma_wire_end((union krdma_wire_msg *)reply, reply->address + n);
	return 0;
}

/* The rest of a grant, under krdma_exports_lock: what depends on the export. */
static int krdma_grant_begin(struct krdma_grant *grant, const struct krdma_wire_open *msg)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_export *export = krdma_export_find(sess->net, msg->name);
	u32 wanted = le32_to_cpu(msg->rights), n = 0;
	struct krdma_grant *other;
	unsigned long i;
	int rc;

	if (!export)
		return -ENOENT;
	if (wanted & ~export->rights)
		return -EACCES;
	/* Requested by name a right is given or refused; of all there are, what can be had. */
	grant->rights = (wanted ?: export->rights) & krdma_session_rights(sess);
	if (wanted & ~grant->rights || !grant->rights)
		return -EOPNOTSUPP;
	xa_for_each(&sess->grants, i, other)
		n += other->export == export;
	if (n >= KRDMA_EXPORT_GRANTS)
		return -EDQUOT;
	grant->export = export;
	grant->length = export->length;
	rc = krdma_grant_admit(grant, le32_to_cpu(msg->flags));
	if (rc)
		return rc;
	do {
		grant->id = ++sess->next_grant;
	} while (!grant->id || xa_load(&sess->grants, grant->id));
	/* down_work takes krdma_exports_lock, and I/O of a disk may wait for down_work. */
	rc = xa_err(krdma_inject(xa_store(&sess->grants, grant->id, grant, GFP_NOIO),
				 XA_ERROR(-ENOMEM)));
	if (rc) {
		export->held -= grant->held;
		sess->nheld -= grant->held;
		return rc;
	}
	kref_get(&export->ref);
	/* ORDER: krdma_grant_exclude() looks at the first. */
	if (krdma_grant_matters(grant))
		list_add(&grant->export_node, &export->grants);
	else
		list_add_tail(&grant->export_node, &export->grants);
	WRITE_ONCE(sess->ngrants, sess->ngrants + 1);
	return 0;
}

static int krdma_serve_open(struct krdma_session *sess, const struct krdma_wire_open *msg,
			    void *buf)
{
	struct krdma_wire_open_reply *reply;
	struct krdma_grant *grant;
	u32 rights;
	int rc;

	if (sess->ngrants >= KRDMA_SESSION_GRANTS)
		return -EDQUOT;
	grant = krdma_inject(kzalloc(sizeof(*grant), GFP_KERNEL), NULL);
	if (!grant)
		return -ENOMEM;
	grant->sess = sess;
	xa_init(&grant->segs);
	grant->generation = ++sess->generation ?: ++sess->generation;

	mutex_lock(&krdma_exports_lock);
	rc = krdma_grant_begin(grant, msg);
	mutex_unlock(&krdma_exports_lock);
	if (rc) {
		kfree(grant);
		return rc;
	}
	if (sess->ch->messages) {
		rc = krdma_sender_open(grant);
		if (rc) {
			krdma_grant_free(grant);
			return rc;
		}
	}

	rights = grant->rights;
	if (rights & KRDMA_RIGHT_ATOMIC)
		rights |= krdma_session_rights(sess) & KRDMA_RIGHT_ATOMIC_CPU;
	if ((grant->export->flags & KRDMA_EXPORT_DURABLE) && krdma_rights_change(rights))
		rights |= KRDMA_RIGHT_DURABLE;
	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_OPEN, sizeof(*reply), 0);
	reply->length = cpu_to_le64(grant->length);
	reply->rights = cpu_to_le32(rights);
	reply->grant = cpu_to_le32(grant->id);
	reply->generation = cpu_to_le32(grant->generation);
	reply->segment_shift = cpu_to_le32(sess->segment_shift);
	return 0;
}

/* Return: 0, -EAGAIN if the connection was lost meanwhile, or what is replied instead */
static int krdma_serve_segs_once(struct krdma_grant *grant, const struct krdma_wire_segs *msg,
				 void *buf)
{
	struct krdma_session *sess = grant->sess;
	u32 p = array_index_nospec(le16_to_cpu(msg->path), KRDMA_PATHS_MAX);
	struct krdma_seg_key *fresh[KRDMA_WIRE_SEGS_MAX];
	u32 shift = sess->segment_shift, count = le32_to_cpu(msg->count);
	struct krdma_seg *segs[KRDMA_WIRE_SEGS_MAX];
	struct krdma_path *path = &sess->paths[p];
	u64 first = le64_to_cpu(msg->first), total;
	u32 extra = le16_to_cpu(msg->extra);
	struct krdma_wire_segs_reply *reply;
	unsigned long until = jiffies + msecs_to_jiffies(KRDMA_SHED_MS * sess->ch->timeout_scale);
	unsigned long ahead = jiffies + msecs_to_jiffies(KRDMA_AHEAD_MS);
	u32 i, n = 0, nfresh = 0;
	int rc = 0;

	/* Of messages alone. */
	if (!(grant->rights & ~KRDMA_RIGHT_MESSAGE))
		return -EACCES;
	/* No channel was ever on it; or its device is gone. */
	if (!path->epoch)
		return -EOPNOTSUPP;
	if (READ_ONCE(path->gone) || !READ_ONCE(path->pd))
		return -EAGAIN;
	total = krdma_segments(grant->length, shift);
	if (!krdma_range_ok(first, count, total))
		return -ERANGE;
	if (count > grant->export->max_segments)
		return -EDQUOT;
	extra = min_t(u64, extra, total - first - count);

	for (i = 0; i < count + extra; i++) {
		struct krdma_seg *seg;

		/* Its end waits for this, which may be reading a file. */
		if (krdma_session_over(sess)) {
			rc = -ENOTCONN;
			break;
		}
		if (grant->held && i >= count && time_after(jiffies, ahead))
			break;
		seg = krdma_segment_get(grant, first + i, path, i < count, until);
		if (IS_ERR(seg) && i < count)
			rc = PTR_ERR(seg);
		if (IS_ERR_OR_NULL(seg))
			break;
		seg->busy = true;
		segs[n++] = seg;
		if (!seg->keys[p]->valid)
			fresh[nfresh++] = seg->keys[p];
	}
	for (i = 0; i < n; i++)
		segs[i]->busy = false;
	if (!rc && nfresh)
		rc = krdma_segs_register(sess, path, fresh, nfresh);
	if (rc) {
		for (i = 0; i < n; i++)
			if (!segs[i]->keys[p]->valid)
				krdma_seg_unregistered(segs[i], path);
		if (rc != -EAGAIN && rc != -ENOTCONN)
			krdma_grant_lacks(grant);
		return rc;
	}

	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_SEGS, sizeof(*reply),
				 n * sizeof(*reply->seg));
	for (i = 0; i < n; i++)
		reply->seg[i] = (struct krdma_wire_seg){
			.address = cpu_to_le64(segs[i]->keys[p]->mr->iova),
			.length = cpu_to_le32(segs[i]->length),
			.rkey = cpu_to_le32(segs[i]->keys[p]->mr->rkey),
		};
	return 0;
}

static int krdma_serve_segs(struct krdma_grant *grant, const struct krdma_wire_segs *msg, void *buf)
{
	struct krdma_path *path =
		&grant->sess->paths[array_index_nospec(le16_to_cpu(msg->path), KRDMA_PATHS_MAX)];
	u32 tries = 0;
	int rc;

	/* Perhaps it is the registration that the connection does not bear. */
	grant->sess->serves = path;
	do {
		rc = krdma_serve_segs_once(grant, msg, buf);
	} while (rc == -EAGAIN && krdma_path_up(grant->sess, path) &&
		 ++tries < KRDMA_REGISTER_TRIES);
	grant->sess->serves = NULL;
	return tries == KRDMA_REGISTER_TRIES ? -EIO : rc;
}

static int krdma_serve_digest(struct krdma_grant *grant, const struct krdma_wire_digest *msg,
			      void *buf)
{
	struct krdma_wire_digest_reply *reply;
	u32 length = le32_to_cpu(msg->length), value = le32_to_cpu(msg->value);
	u64 offset = le64_to_cpu(msg->offset);
	int rc;

	/* It tells of the bytes as reading them does. */
	if (!(grant->rights & KRDMA_RIGHT_READ))
		return -EACCES;
	if (!krdma_range_ok(offset, length, grant->length))
		return -ERANGE;
	krdma_error_init(&grant->error);
	rc = krdma_digest_grant(grant, offset, length, &value);
	if (rc) {
		krdma_grant_lacks(grant);
		return rc == -ENOSPC ? -ENOMEM : rc;
	}
	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_DIGEST, sizeof(*reply), 0);
	reply->value = cpu_to_le32(value);
	return 0;
}

static int krdma_serve_flush(struct krdma_grant *grant, const struct krdma_wire_flush *msg,
			     void *buf)
{
	u32 i, n = krdma_wire_entries((const union krdma_wire_msg *)msg);
	const struct krdma_wire_range *range = msg->range;
	int rc = 0;

	if (!krdma_rights_change(grant->rights))
		return -EACCES;
	/* All or nothing. */
	for (i = 0; i < n; i++)
		if (!krdma_range_ok(le64_to_cpu(range[i].offset), le64_to_cpu(range[i].length),
				    grant->length))
			return -ERANGE;
	if (!(grant->export->flags & KRDMA_EXPORT_DURABLE))
		return -EOPNOTSUPP;
	for (i = 0; i < n && !rc; i++)
		rc = krdma_flush_grant(grant, le64_to_cpu(range[i].offset),
				       le64_to_cpu(range[i].length));
	if (rc)
		return rc;
	krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_FLUSH, sizeof(msg->hdr), 0);
	return 0;
}

static int krdma_serve_grow(struct krdma_grant *grant, void *buf)
{
	struct krdma_wire_grow_reply *reply;
	int rc = krdma_grant_grow(grant);

	if (rc)
		return rc;
	reply = krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_GROW, sizeof(*reply), 0);
	reply->length = cpu_to_le64(grant->length);
	return 0;
}

/* Build the reply in @buf. Return: 0, or a negative errno, which is replied instead */
static int krdma_serve(struct krdma_session *sess, const union krdma_wire_msg *msg, void *buf)
{
	struct krdma_grant *grant;

	if (msg->hdr.type == KRDMA_WIRE_LIST)
		return krdma_serve_list(sess, &msg->list, buf);
	if (msg->hdr.type == KRDMA_WIRE_OPEN)
		return krdma_serve_open(sess, &msg->open, buf);
	if (msg->hdr.type == KRDMA_WIRE_ADDRESSES)
		return krdma_serve_addresses(sess, buf);
	if (msg->hdr.type == KRDMA_WIRE_USAGE)
		return krdma_serve_usage(sess, &msg->usage, buf);
	/* SEGS, DIGEST and FLUSH begin as CLOSE does, and GROW is like it. */
	BUILD_BUG_ON(offsetof(struct krdma_wire_segs, first) != sizeof(msg->close));
	BUILD_BUG_ON(offsetof(struct krdma_wire_digest, offset) != sizeof(msg->close));
	BUILD_BUG_ON(offsetof(struct krdma_wire_flush, range) != sizeof(msg->close));
	grant = xa_load(&sess->grants, le32_to_cpu(msg->close.grant));
	if (!grant || grant->generation != le32_to_cpu(msg->close.generation) ||
	    READ_ONCE(grant->revoke))
		return -ESTALE;
	if (msg->hdr.type == KRDMA_WIRE_SEGS)
		return krdma_serve_segs(grant, &msg->segs, buf);
	if (msg->hdr.type == KRDMA_WIRE_FLUSH)
		return krdma_serve_flush(grant, &msg->flush, buf);
	if (msg->hdr.type == KRDMA_WIRE_GROW)
		return krdma_serve_grow(grant, buf);
	if (msg->hdr.type != KRDMA_WIRE_CLOSE)
		return krdma_serve_digest(grant, &msg->digest, buf);
	if (krdma_wire_entries(msg))
		krdma_grant_used(grant, msg->close.used);
	krdma_wire_build(buf, KRDMA_WIRE_REPLY | KRDMA_WIRE_CLOSE, sizeof(msg->hdr), 0);
	return krdma_grant_end(grant);
}

static void krdma_service(struct krdma_session *sess)
{
	const union krdma_wire_msg *msg;
	struct krdma_request *req;
	int rc;

	for (;;) {
		krdma_service_notes(sess, NULL);
		spin_lock_bh(&sess->lock);
		req = list_first_entry_or_null(&sess->requests, struct krdma_request, node);
		if (!req || sess->state != KRDMA_SESSION_UP)
			break;
		list_del(&req->node);
		spin_unlock_bh(&sess->lock);
		msg = krdma_request_msg(req);
		rc = krdma_serve(sess, msg, req->tx->buf);
		if (rc)
			krdma_reply_status(sess, req->tx, msg->hdr.type, msg->hdr.tag,
					   krdma_wire_status(rc));
		else
			krdma_reply(sess, req->tx, msg->hdr.tag);
		kfree(req);
		/* The peer may keep it busy. */
		cond_resched();
	}
	spin_unlock_bh(&sess->lock);
}

/* Those who wait for a segment look whether their session is up. */
static void krdma_service_changed(struct krdma_session *sess)
{
	krdma_segments_wake();
}

/* The service has what is registered for it. */
static void krdma_service_path_gone(struct krdma_session *sess, struct krdma_path *path)
{
	krdma_session_serve(sess);
	krdma_segments_wake();
}

const struct krdma_role_ops krdma_target_ops = {
	.init = krdma_senders_init,
	.drop = krdma_grants_release,
	.tick = krdma_reclaims_tick,
	.serve = krdma_service,
	.changed = krdma_service_changed,
	.path_gone = krdma_service_path_gone,
	.request = krdma_ctl_serve,
	.message = krdma_message_came,
	.replies_due = krdma_messages_reply,
};
