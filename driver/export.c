// SPDX-License-Identifier: GPL-2.0
/*
 * Exports: memory of this host under a name; grants: an export opened by one
 * session; and the service that answers the questions about them.
 *
 * Grants and segments of a session are touched by its service alone
 * (svc_work, and down_work when that can't run any more), so they need no
 * lock. Others only leave a note: grant->revoke, grant->shed.
 *
 * Limits: export->max_segments over all peers, KRDMA_SESSION_SEGMENTS of one.
 * At a limit another user who has clearly more of that export's segments is asked
 * to shed some, and the coldest of the session itself are recalled; if it has none, it
 * waits until the session with most of them has shed some.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "ctx.h"
#include "trace.h"

DEFINE_MUTEX(krdma_exports_lock); /* list of exports and the grants of each */
LIST_HEAD(krdma_exports);
static u64 krdma_export_serial;
static DECLARE_WAIT_QUEUE_HEAD(krdma_segments_wait);

/* A service that waits for another session to shed segments. */
struct krdma_shedding {
	struct list_head node; /* krdma_sheddings */
	struct krdma_grant *grant;
};

static LIST_HEAD(krdma_sheddings); /* krdma_exports_lock */

/**
 * krdma_segments_wake - a segment was released, or a session goes down
 *
 * Context: any.
 */
void krdma_segments_wake(void)
{
	wake_up_all(&krdma_segments_wait);
}

/* ---- exports ---- */

static void krdma_export_release(struct kref *ref)
{
	struct krdma_exp *exp = container_of(ref, struct krdma_exp, ref);

	if (exp->mem)
		krdma_mem_put(exp->mem);
	if (exp->write_held)
		mapping_unmap_writable(exp->file->f_mapping);
	if (exp->file)
		fput(exp->file);
	mem_cgroup_put(exp->memcg);
	krdma_account_free(exp->acct);
	krdma_box_put(exp->box);
	atomic_dec(&exp->user->exports);
	krdma_user_put(exp->user);
	put_net(exp->net);
	kvfree(exp->pages);
	if (exp->end) {
		exp->end->lost = exp->lost;
		/* Its owner may free the pages now. */
		complete(&exp->end->done);
	}
	kfree(exp);
}

/**
 * krdma_export_put - let go of an export
 * @exp: export; the last reference unpins
 *
 * Context: process.
 */
void krdma_export_put(struct krdma_exp *exp)
{
	kref_put(&exp->ref, krdma_export_release);
}

static int krdma_export_pages(struct krdma_exp *exp, struct page *const *pages)
{
	u64 n = krdma_pages(0, exp->length);

	/* The table is no longer than that of the pages that the host has. */
	if (n > totalram_pages())
		return -EINVAL;
	exp->pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!exp->pages)
		return -ENOMEM;
	memcpy(exp->pages, pages, n * sizeof(*pages));
	return 0;
}

static int krdma_export_memory(struct krdma_ctx *ctx, struct krdma_exp *exp,
			       const struct krdma_export *cmd, struct page *const *pages,
			       struct krdma_why *why)
{
	bool writable = krdma_rights_change(cmd->rights);
	int rc;

	if (pages)
		return krdma_export_pages(exp, pages);

	if (!(cmd->flags & KRDMA_EXPORT_FD)) {
		exp->mem = krdma_mem_pin(ctx, cmd->addr, cmd->length, writable, why);
		if (IS_ERR(exp->mem)) {
			rc = PTR_ERR(exp->mem);
			exp->mem = NULL;
			return rc;
		}
		return 0;
	}

	exp->file = fget(cmd->fd);
	if (!exp->file)
		return krdma_explain(why, -EBADF, "%d is not an open file", cmd->fd);
	exp->pgoff = cmd->addr >> PAGE_SHIFT;
	exp->acct = krdma_account_new(ctx);
	if (IS_ERR(exp->acct)) {
		rc = PTR_ERR(exp->acct);
		exp->acct = NULL;
		return rc;
	}
	exp->memcg = get_mem_cgroup_from_mm(current->mm);
	if (writable) {
		rc = mapping_map_writable(exp->file->f_mapping);
		if (rc)
			return krdma_explain(why, -EACCES, "the file is sealed against writing");
		exp->write_held = true;
	}
	return krdma_memfd_check(exp->file, cmd->addr, cmd->length, writable, why);
}

/**
 * krdma_export_new - make an export, not published yet
 * @ctx: open file
 * @cmd: what to export; flags are checked
 * @pages: of another module, instead of memory of the user; they are not pinned, and
 *	->end tells when they are free. Or NULL
 * @fn: of another module, called with each message, if there is the right to send them
 * @priv: for @fn
 * @why: explanation
 *
 * Context: process, of the user if memory is the user's.
 * Return: the export with a reference, or an ERR_PTR
 */
struct krdma_exp *krdma_export_new(struct krdma_ctx *ctx, const struct krdma_export *cmd,
				   struct page *const *pages, krdma_receive_fn fn, void *priv,
				   struct krdma_why *why)
{
	struct krdma_exp *exp;
	int rc;

	if (!krdma_proto_name_ok(cmd->name, sizeof(cmd->name)))
		return ERR_PTR(krdma_explain(
			why, -EINVAL,
			"a name has 1 to 63 of the characters A-Z a-z 0-9 . _ - : + ="));
	if (!cmd->rights || cmd->rights & ~KRDMA_WIRE_RIGHTS)
		return ERR_PTR(krdma_explain(why, -EINVAL, "the rights %#x of '%s' make no sense",
					     cmd->rights, cmd->name));
	if (!cmd->length || offset_in_page(cmd->addr) ||
	    !krdma_range_ok(cmd->addr, cmd->length, U64_MAX))
		return ERR_PTR(krdma_explain(
			why, -EINVAL, "'%s' must begin at a page and have a length", cmd->name));

	exp = kzalloc(sizeof(*exp), GFP_KERNEL_ACCOUNT);
	if (!exp)
		return ERR_PTR(-ENOMEM);
	kref_init(&exp->ref);
	INIT_LIST_HEAD(&exp->node);
	INIT_LIST_HEAD(&exp->grants);
	exp->net = get_net(ctx->net);
	exp->user = krdma_user_get(ctx->user);
	exp->rights = cmd->rights;
	exp->flags = cmd->flags;
	exp->length = cmd->length;
	exp->max_segments = cmd->max_segments ?: KRDMA_EXPORT_SEGMENTS;
	strscpy(exp->name, cmd->name, sizeof(exp->name));
	/* Whoever looks for a name goes through all that there are. */
	if (atomic_inc_return(&exp->user->exports) > KRDMA_USER_EXPORTS &&
	    !krdma_user_is_root(exp->user))
		rc = krdma_explain(why, -EDQUOT, "a user may have %u exports", KRDMA_USER_EXPORTS);
	else
		rc = krdma_export_memory(ctx, exp, cmd, pages, why);
	if (!rc && (cmd->rights & KRDMA_RIGHT_MESSAGE)) {
		exp->box = krdma_box_new(fn, priv);
		rc = exp->box ? 0 : -ENOMEM;
	}
	if (rc) {
		krdma_export_put(exp);
		return ERR_PTR(rc);
	}
	return exp;
}

static struct krdma_exp *krdma_export_find(struct net *net, const char *name)
{
	struct krdma_exp *exp;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(exp, &krdma_exports, node)
		if (exp->net == net && !strcmp(exp->name, name))
			return exp;
	return NULL;
}

/**
 * krdma_export_publish - let peers find an export
 * @exp: export
 * @why: explanation
 *
 * Context: process.
 * Return: 0 or -EEXIST
 */
int krdma_export_publish(struct krdma_exp *exp, struct krdma_why *why)
{
	int rc = 0;

	mutex_lock(&krdma_exports_lock);
	if (krdma_export_find(exp->net, exp->name)) {
		rc = krdma_explain(why, -EEXIST, "'%s' is published already", exp->name);
	} else {
		exp->serial = ++krdma_export_serial;
		list_add_tail(&exp->node, &krdma_exports);
	}
	mutex_unlock(&krdma_exports_lock);
	return rc;
}

/**
 * krdma_export_unpublish - take an export back
 * @exp: export; grants of it are revoked, in the services of their sessions
 *
 * Context: process. The publisher's reference is put.
 */
void krdma_export_unpublish(struct krdma_exp *exp)
{
	struct krdma_grant *grant;

	mutex_lock(&krdma_exports_lock);
	exp->dead = true;
	list_del_init(&exp->node);
	list_for_each_entry(grant, &exp->grants, export_node) {
		grant->revoke = true;
		krdma_session_serve(grant->sess);
	}
	mutex_unlock(&krdma_exports_lock);
	/* A service may be waiting for room in this very export. */
	krdma_segments_wake();
	if (exp->box)
		krdma_box_end(exp->box);
	krdma_export_put(exp);
}

/* ---- segments given back ---- */

/* The peer does not use these any more: kill their keys, give back the memory. */
static int krdma_segments_release(struct krdma_session *sess, struct krdma_seg **segs, u32 n)
{
	u32 i;
	int rc;

	rc = krdma_segs_invalidate(sess, segs, n) ?: krdma_segs_fence(sess);
	for (i = 0; !rc && i < n; i++)
		krdma_seg_free(segs[i]);
	return rc;
}

/* Coldest segments of a grant that have a key and are not asked for just now. */
static u32 krdma_segments_coldest(struct krdma_grant *grant, struct krdma_seg **segs, u32 most)
{
	struct krdma_seg *seg;
	u32 n = 0;

	list_for_each_entry(seg, &grant->sess->segs, node) {
		if (n == most)
			break;
		if (seg->grant == grant && seg->valid && !seg->busy)
			segs[n++] = seg;
	}
	return n;
}

/* RECALL or REVOKE. Without the right answer the keys are in use: the session ends. */
static int krdma_grant_ask(struct krdma_grant *grant, struct krdma_msg *msg)
{
	struct krdma_session *sess = grant->sess;
	int rc;

	rc = krdma_ask_wait(sess, msg, 2 * KRDMA_QUESTION_MS * sess->ch->patience, NULL, NULL);
	if (!rc && (msg->grant.grant != grant->id || msg->grant.generation != grant->generation))
		rc = -EPROTO;
	if (rc == -ENOMEM)
		krdma_session_fail(sess, rc, "no memory to take keys back",
				   KRDMA_WIRE_REASON_LIMIT);
	else if (rc && rc != -ENOTCONN)
		krdma_session_protocol(sess, "keys are not given back");
	return rc;
}

/* Take back up to @want segments of a grant. Return: how many, or an errno. */
static int krdma_grant_recall(struct krdma_grant *grant, u32 want)
{
	struct krdma_session *sess = grant->sess;
	struct krdma_seg *segs[KRDMA_REG_SLOTS];
	struct krdma_msg *msg;
	u32 i, n;
	int rc;

	n = krdma_segments_coldest(grant, segs, min_t(u32, want, KRDMA_REG_SLOTS));
	if (!n)
		return 0;
	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	msg->type = KRDMA_WIRE_RECALL;
	msg->recall.grant = grant->id;
	msg->recall.generation = grant->generation;
	msg->recall.count = n;
	for (i = 0; i < n; i++)
		msg->recall.index[i] = segs[i]->index;
	rc = krdma_grant_ask(grant, msg);
	kfree(msg);
	if (rc)
		return -ENOTCONN;
	krdma_stat_add(KRDMA_STAT_RECALLS, n);
	atomic64_add(n, &grant->exp->recalls);
	return krdma_segments_release(sess, segs, n) ?: n;
}

/* ---- grants ---- */

/* Its segments are gone. */
static void krdma_grant_free(struct krdma_grant *grant)
{
	struct krdma_session *sess = grant->sess;

	krdma_sender_close(grant);
	mutex_lock(&krdma_exports_lock);
	list_del(&grant->export_node);
	mutex_unlock(&krdma_exports_lock);
	xa_erase(&sess->grants, grant->id);
	WRITE_ONCE(sess->ngrants, sess->ngrants - 1);
	xa_destroy(&grant->segs);
	krdma_export_put(grant->exp);
	kfree(grant);
}

/* The peer has stopped using the grant. */
static int krdma_grant_end(struct krdma_grant *grant)
{
	struct krdma_seg *segs[KRDMA_REG_SLOTS], *seg;
	struct krdma_session *sess = grant->sess;
	unsigned long i;
	u32 n;
	int rc = 0;

	while (!rc && (n = krdma_segments_coldest(grant, segs, KRDMA_REG_SLOTS)))
		rc = krdma_segs_invalidate(sess, segs, n);
	/* One round trip for all of them. */
	if (!rc && grant->nsegs)
		rc = krdma_segs_fence(sess);
	if (rc)
		return rc;
	xa_for_each(&grant->segs, i, seg)
		krdma_seg_free(seg);
	krdma_grant_free(grant);
	return 0;
}

static void krdma_grant_revoke(struct krdma_grant *grant)
{
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	int rc;

	/* A revocation has nobody else to report a failure to. */
	if (!msg) {
		krdma_session_fail(grant->sess, -ENOMEM, "no memory for a revocation",
				   KRDMA_WIRE_REASON_LIMIT);
		return;
	}
	msg->type = KRDMA_WIRE_REVOKE;
	msg->grant.grant = grant->id;
	msg->grant.generation = grant->generation;
	rc = krdma_grant_ask(grant, msg);
	kfree(msg);
	krdma_stat_inc(KRDMA_STAT_REVOKES);
	if (!rc)
		krdma_grant_end(grant);
}

/**
 * krdma_grants_release - end all grants of a session
 * @sess: session without a queue pair, so that no key can be used
 *
 * Context: down_work.
 */
void krdma_grants_release(struct krdma_session *sess)
{
	struct krdma_request *req, *tmp;
	struct krdma_seg *seg, *next;
	struct krdma_grant *grant;
	unsigned long i;

	list_for_each_entry_safe(seg, next, &sess->segs, node)
		krdma_seg_free(seg);
	xa_for_each(&sess->grants, i, grant)
		krdma_grant_free(grant);
	list_for_each_entry_safe(req, tmp, &sess->requests, node) {
		kfree(req->msg);
		kfree(req);
	}
	INIT_LIST_HEAD(&sess->requests);
}

/* Others wait for segments of this session. */
static bool krdma_service_noted(struct krdma_session *sess)
{
	struct krdma_grant *grant;
	unsigned long i;

	xa_for_each(&sess->grants, i, grant)
		if (READ_ONCE(grant->shed))
			return true;
	return false;
}

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

/* ---- room for one more segment ---- */

static bool krdma_segment_try(struct krdma_grant *grant)
{
	return grant->sess->nsegs < KRDMA_SESSION_SEGMENTS &&
	       atomic_add_unless(&grant->exp->segments, 1, grant->exp->max_segments);
}

static u32 krdma_segments_released(const struct krdma_exp *exp)
{
	return atomic_read_acquire(&exp->released);
}

/* Of the other grants of the export, or those of other users only, the one with most segments. */
static struct krdma_grant *krdma_segments_most(struct krdma_grant *grant, bool others)
{
	struct krdma_grant *other, *most = NULL;
	u32 n = 0;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(other, &grant->exp->grants, export_node) {
		if (other == grant || READ_ONCE(other->nsegs) <= n ||
		    (others && krdma_session_same_user(other->sess, grant->sess)))
			continue;
		most = other;
		n = READ_ONCE(other->nsegs);
	}
	return most;
}

/*
 * How many segments of the export another user should give to this one, to have as many:
 * 0 unless it has an eighth more, else the two would take them from each other all the time.
 */
static u32 krdma_segments_surplus(struct krdma_grant *grant)
{
	struct krdma_grant *other, *most;
	u32 mine = 0, theirs = 0;

	mutex_lock(&krdma_exports_lock);
	most = krdma_segments_most(grant, true);
	if (most) {
		list_for_each_entry(other, &grant->exp->grants, export_node) {
			if (!READ_ONCE(other->nsegs))
				continue;
			if (krdma_session_same_user(other->sess, grant->sess))
				mine += READ_ONCE(other->nsegs);
			else if (krdma_session_same_user(other->sess, most->sess))
				theirs += READ_ONCE(other->nsegs);
		}
	}
	mutex_unlock(&krdma_exports_lock);
	return theirs > mine + mine / 8 + 1 ? (theirs - mine) / 2 : 0;
}

/* Ask the session that has most segments of the export to shed some. */
static bool krdma_segment_shed(struct krdma_grant *grant, u32 n, bool others)
{
	struct krdma_grant *most;
	bool more = false;

	mutex_lock(&krdma_exports_lock);
	most = krdma_segments_most(grant, others);
	if (most) {
		more = most->shed < n;
		most->shed = max(most->shed, n);
		krdma_session_serve(most->sess);
	}
	mutex_unlock(&krdma_exports_lock);
	/* Its service may itself be waiting for room; who asks again has woken it before. */
	if (more)
		krdma_segments_wake();
	return most;
}

/* Those who can shed need a worker too; and no user and no host takes all places for waiting. */
static bool krdma_shedding_begin(struct krdma_shedding *wait, struct krdma_grant *grant)
{
	u32 user = 1, host = 1, all = 1;
	struct krdma_shedding *other;
	bool ok;

	wait->grant = grant;
	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(other, &krdma_sheddings, node) {
		all++;
		host += krdma_session_same_host(other->grant->sess, grant->sess);
		user += krdma_session_same_user(other->grant->sess, grant->sess);
	}
	ok = krdma_share_ok(host, all, KRDMA_SHED_WAITERS) &&
	     krdma_share_ok(user, all, KRDMA_SHED_WAITERS);
	if (ok) {
		list_add_tail(&wait->node, &krdma_sheddings);
		atomic_inc(&grant->exp->waiting);
	}
	mutex_unlock(&krdma_exports_lock);
	return ok;
}

static void krdma_shedding_end(struct krdma_shedding *wait)
{
	mutex_lock(&krdma_exports_lock);
	list_del(&wait->node);
	atomic_dec(&wait->grant->exp->waiting);
	mutex_unlock(&krdma_exports_lock);
}

/*
 * Wait until another session has given a segment of the export back, since
 * exp->released was @released. Notes for this session are served meanwhile, so that
 * two services can't wait for each other. Return: 1, or -EDQUOT if nobody has one, or
 * gives one until @until, or why it is over
 */
static int krdma_segment_shed_wait(struct krdma_grant *grant, u32 n, u32 released,
				   unsigned long until)
{
	struct krdma_session *sess = grant->sess;
	unsigned long again = jiffies;
	struct krdma_shedding wait;
	struct krdma_grant *other;
	unsigned long i;
	u32 none = 0;
	int rc = 1;

	if (!krdma_shedding_begin(&wait, grant))
		return -EDQUOT;
	while (rc > 0 && krdma_segments_released(grant->exp) == released) {
		if (time_after_eq(jiffies, again)) {
			again = jiffies + msecs_to_jiffies(KRDMA_SHED_AGAIN_MS);
			/* Who is just taking one, or giving one back, has none to be asked for. */
			if (krdma_segment_shed(grant, n, false) ||
			    atomic_read(&grant->exp->segments) > grant->nsegs)
				none = 0;
			else
				none++;
			if (none > 1 || time_after_eq(jiffies, until)) {
				rc = -EDQUOT;
				break;
			}
		}
		wait_event_timeout(krdma_segments_wait,
				   krdma_segments_released(grant->exp) != released ||
					   krdma_service_noted(sess) || READ_ONCE(grant->revoke) ||
					   !krdma_session_is_up(sess),
				   max_t(long, again - jiffies, 1));
		if (!krdma_session_is_up(sess))
			rc = -ENOTCONN;
		else if (READ_ONCE(grant->revoke))
			rc = -ESTALE;
		xa_for_each(&sess->grants, i, other) {
			u32 shed = rc > 0 ? xchg(&other->shed, 0) : 0;
			int n = shed ? krdma_grant_recall(other, shed) : 0;

			if (n >= 0)
				continue;
			/* Nobody was asked: the next one who looks does it. */
			if (n == -ENOMEM)
				cmpxchg(&other->shed, 0, shed);
			rc = n;
		}
	}
	krdma_shedding_end(&wait);
	return rc;
}

/*
 * Have some of the export given back, or be content with what has been since exp->released
 * was @released. Who is slow to give back makes nobody slow who has some to give itself.
 * Return: >0, or a negative errno
 */
static int krdma_segment_give(struct krdma_grant *grant, u32 n, u32 released, unsigned long until)
{
	u32 more = krdma_segments_surplus(grant);
	int rc;

	if (more)
		krdma_segment_shed(grant, min(n, more), true);
	rc = krdma_grant_recall(grant, n);
	return rc ?: krdma_segment_shed_wait(grant, n, released, until);
}

static int krdma_segment_room(struct krdma_grant *grant, unsigned long until)
{
	u32 batch = clamp_t(u32, grant->exp->max_segments / 8, 1, KRDMA_REG_SLOTS);
	struct krdma_session *sess = grant->sess;
	struct krdma_grant *other;
	unsigned long i;
	u32 released;
	int rc;

	/* ORDER: what is given back behind a look at it ends the wait. */
	while (released = krdma_segments_released(grant->exp), !krdma_segment_try(grant)) {
		if (sess->nsegs < KRDMA_SESSION_SEGMENTS) {
			rc = krdma_segment_give(grant, batch, released, until);
		} else {
			/* Of other exports only where the session itself is full. */
			rc = krdma_grant_recall(grant, batch);
			if (!rc)
				xa_for_each(&sess->grants, i, other) {
					rc = krdma_grant_recall(other, batch);
					if (rc)
						break;
				}
		}
		/* That of a failed registration comes free, and nobody is told. */
		if ((!rc || rc == -EDQUOT) && krdma_segment_try(grant))
			return 0;
		if (rc <= 0)
			return rc ?: -EDQUOT;
	}
	return 0;
}

/* A segment of the question, registered or prepared. */
static struct krdma_seg *krdma_segment_get(struct krdma_grant *grant, u64 index, bool needed)
{
	struct krdma_seg *seg = xa_load(&grant->segs, index);
	/* Longer than a RECALL that is not answered, which ends the other session. */
	unsigned long until = jiffies + msecs_to_jiffies(KRDMA_SHED_MS * grant->sess->ch->patience);
	u32 released;
	int rc;

	if (seg) {
		list_move_tail(&seg->node, &grant->sess->segs);
		return seg;
	}
	for (;;) {
		if (needed) {
			rc = krdma_segment_room(grant, until);
			if (rc)
				return ERR_PTR(rc);
		} else if (atomic_read(&grant->exp->waiting) || !krdma_segment_try(grant)) {
			/* Whoever waits for one needs it more. */
			return NULL;
		}
		released = krdma_segments_released(grant->exp);
		seg = krdma_seg_prepare(grant, index);
		if (!IS_ERR(seg))
			return seg;
		/* Told to nobody: what was refused here is refused there, and back again. */
		atomic_dec(&grant->exp->segments);
		/* RLIMIT_MEMLOCK of the exporter is a limit like the others. */
		if (PTR_ERR(seg) != -ENOMEM && PTR_ERR(seg) != -EDQUOT)
			return seg;
		if (!needed)
			return NULL;
		rc = krdma_segment_give(grant, KRDMA_REG_SLOTS / 4, released, until);
		if (rc < 0)
			return rc == -EDQUOT ? seg : ERR_PTR(rc);
	}
}

/* ---- questions ---- */

static struct krdma_grant *krdma_grant_find(struct krdma_session *sess, u32 id, u32 generation)
{
	struct krdma_grant *grant = xa_load(&sess->grants, id);

	return grant && grant->generation == generation ? grant : NULL;
}

static int krdma_serve_list(struct krdma_session *sess, struct krdma_msg *msg)
{
	u64 cursor = msg->list.cursor;
	struct krdma_exp *exp;
	u32 n = 0;

	memset(&msg->list_answer, 0, sizeof(msg->list_answer));
	mutex_lock(&krdma_exports_lock);
	list_for_each_entry(exp, &krdma_exports, node) {
		if (exp->net != sess->net || exp->serial <= cursor)
			continue;
		if (n == KRDMA_WIRE_LIST_MAX) {
			msg->list_answer.cursor = cursor;
			break;
		}
		msg->list_answer.entry[n].length = exp->length;
		msg->list_answer.entry[n].rights = exp->rights;
		strscpy(msg->list_answer.entry[n].name, exp->name, KRDMA_WIRE_NAME_MAX);
		cursor = exp->serial;
		n++;
	}
	mutex_unlock(&krdma_exports_lock);
	msg->list_answer.count = n;
	return 0;
}

/* Asked for by name a right is given or refused; of all there are, what can be had. */
static int krdma_grant_rights(const struct krdma_exp *exp, const struct krdma_session *sess,
			      u32 wanted, u32 *rights)
{
	if (wanted & ~exp->rights)
		return -EACCES;
	*rights = (wanted ?: exp->rights) & krdma_session_rights(sess);
	return wanted & ~*rights || !*rights ? -EOPNOTSUPP : 0;
}

static u32 krdma_session_grants_of(struct krdma_session *sess, const struct krdma_exp *exp)
{
	struct krdma_grant *grant;
	unsigned long i;
	u32 n = 0;

	xa_for_each(&sess->grants, i, grant)
		n += grant->exp == exp;
	return n;
}

static int krdma_serve_open(struct krdma_session *sess, struct krdma_msg *msg)
{
	struct krdma_grant *grant;
	struct krdma_exp *exp;
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
	exp = krdma_export_find(sess->net, msg->open.name);
	rc = exp ? krdma_grant_rights(exp, sess, msg->open.rights, &grant->rights) : -ENOENT;
	if (!rc && krdma_session_grants_of(sess, exp) >= KRDMA_EXPORT_GRANTS)
		rc = -EDQUOT;
	if (!rc) {
		do {
			grant->id = ++sess->next_grant;
		} while (!grant->id || xa_load(&sess->grants, grant->id));
		rc = xa_err(xa_store(&sess->grants, grant->id, grant, GFP_KERNEL));
	}
	if (!rc) {
		kref_get(&exp->ref);
		grant->exp = exp;
		list_add_tail(&grant->export_node, &exp->grants);
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
	msg->open_answer.length = exp->length;
	msg->open_answer.rights = grant->rights;
	if (grant->rights & KRDMA_RIGHT_ATOMIC)
		msg->open_answer.rights |= sess->dev->rights & KRDMA_RIGHT_ATOMIC_CPU;
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
	total = krdma_segments(grant->exp->length, shift);
	if (!krdma_range_ok(first, count, total))
		return -ERANGE;
	if (count > grant->exp->max_segments)
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
	if (rc) {
		for (i = 0; i < nfresh; i++)
			krdma_seg_free(fresh[i]);
		return rc;
	}
	rc = nfresh ? krdma_segs_register(sess, fresh, nfresh) : 0;
	if (rc)
		return rc;

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
	if (!krdma_range_ok(msg->digest.offset, msg->digest.length, grant->exp->length))
		return -ERANGE;
	rc = krdma_digest_grant(grant, msg->digest.offset, msg->digest.length, &value);
	if (rc)
		return rc;
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

static void krdma_serve(struct krdma_session *sess, struct krdma_msg *msg)
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
	krdma_answer(sess, msg);
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
 * Context: work; one at a time for a session. May wait for the peer.
 */
void krdma_service_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, svc_work);
	struct krdma_request *req;

	do {
		krdma_service_notes(sess);
		req = krdma_service_next(sess);
		if (req) {
			krdma_serve(sess, req->msg);
			kfree(req->msg);
			kfree(req);
		}
	} while (req);
}
