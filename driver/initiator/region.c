// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: exports of a peer, opened here. A region is shared by all files that use the session.
 * The keys of its segments are key.c's.
 */
#include <linux/slab.h>

#include "event.h"
#include "initiator/wr.h"

/* All front ends explain these in the same words. */
static const char krdma_no_atomics[] =
	"no atomic operations: the RDMA device has none, nor has iWARP";
static const char krdma_no_messages[] =
	"no messages: the session was not made for them (KRDMA_CONNECT_MESSAGES)";

#define KRDMA_RIGHTS_TEXT 64
/* Rights that nobody requests: the target says that it has them. */
#define KRDMA_RIGHTS_SAID (KRDMA_RIGHT_ATOMIC_CPU | KRDMA_RIGHT_DURABLE)

/* Rights by the names that krdma ls has for them, or by what they are for. */
static const char *krdma_rights_text(u32 rights, bool uses, char text[KRDMA_RIGHTS_TEXT])
{
	static const struct {
		u32 right;
		const char *name;
		const char *use;
	} names[] = {
		{ KRDMA_RIGHT_READ, "read", "reading" },
		{ KRDMA_RIGHT_WRITE, "write", "writing" },
		{ KRDMA_RIGHT_ATOMIC, "atomic", "atomic operations" },
		{ KRDMA_RIGHT_MESSAGE, "message", "messages" },
	};
	const char *next = uses ? ", nor for " : ", ";
	u32 i, len = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (rights & names[i].right)
			len += scnprintf(text + len, KRDMA_RIGHTS_TEXT - len, "%s%s",
					 len ? next : "", uses ? names[i].use : names[i].name);
	return text;
}

static void krdma_region_release(struct kref *ref)
{
	struct krdma_region *region = container_of(ref, struct krdma_region, ref);

	krdma_region_keys_free(region);
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

/**
 * krdma_region_find - the region of a grant
 * @sess: session
 * @grant: id of the grant
 * @generation: of the grant; 0, which no grant has, stands for any
 *
 * Context: session->lock held.
 * Return: the region, or NULL
 */
struct krdma_region *krdma_region_find(struct krdma_session *sess, u32 grant, u32 generation)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(region, &sess->regions, node)
		if (region->grant == grant && (!generation || region->generation == generation))
			return region;
	return NULL;
}

/* The target has taken its grant back. */
static void krdma_region_event(const struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	const struct krdma_event_scope scope = { .net = sess->net, .uid = sess->uid };
	struct krdma_monitor_event event = {
		.type = KRDMA_EVENT_REGION_REVOKED,
		.session = sess->serial,
		.uid = __kuid_val(sess->uid),
	};

	krdma_addr_to_user(&sess->dst, &event.peer);
	strscpy(event.name, region->name, sizeof(event.name));
	krdma_event_post(&event, &scope);
}

/* The one place where a region becomes stale; the first reason stays. */
static void krdma_region_stale(struct krdma_region *region, int err)
{
	struct krdma_channel *ch = region->sess->ch;
	struct krdma_watch *watch, *next;

	lockdep_assert_held(&region->sess->lock);
	if (region->err)
		return;
	WRITE_ONCE(region->err, err);
	if (err == -ESTALE && region->sess->state == KRDMA_SESSION_UP)
		krdma_region_event(region);
	/* Nothing is sent from here on: those that wait have ended, or will. */
	spin_lock(&ch->lock);
	list_del_init(&region->sending);
	spin_unlock(&ch->lock);
	list_for_each_entry_safe(watch, next, &region->watches, node) {
		list_del_init(&watch->node);
		watch->changed(watch, err);
	}
}

/**
 * krdma_region_watch - be notified of a region's end, and of its session's connection
 * @region: the region, of which the caller is a user
 * @watch: with ->changed, which may be called from here
 *
 * Context: any; no lock of the session or the channel held.
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
	if (!err)
		list_add_tail(&watch->node, &region->watches);
	if (err || sess->resuming)
		watch->changed(watch, err);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_region_unwatch - undo krdma_region_watch
 * @region: the region
 * @watch: of it; ->changed is not called any more when this returns
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_region_unwatch(struct krdma_region *region, struct krdma_watch *watch)
{
	spin_lock_bh(&region->sess->lock);
	list_del_init(&watch->node);
	spin_unlock_bh(&region->sess->lock);
}

/* The session is without its connection, or has it again; or goes down, and its regions with it. */
static void krdma_regions_changed(struct krdma_session *sess)
{
	bool over = sess->state >= KRDMA_SESSION_CLOSING;
	struct krdma_region *region;
	struct krdma_watch *watch;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(region, &sess->regions, node) {
		if (over)
			krdma_region_stale(region, sess->err == -ESTALE ? -ESTALE : -ENOTCONN);
		else
			list_for_each_entry(watch, &region->watches, node)
				watch->changed(watch, 0);
	}
}

/**
 * krdma_region_fail - no more transfers on a region
 * @region: the region
 * @err: status of those that are not on the wire yet, and of all to come
 *
 * Context: session->lock held.
 */
void krdma_region_fail(struct krdma_region *region, int err)
{
	struct hlist_node *next;
	struct krdma_channel *ch;
	struct krdma_transfer *x;
	u32 i;

	lockdep_assert_held(&region->sess->lock);
	krdma_region_stale(region, err);
	krdma_for_each_channel(ch, region->sess, i) {
		spin_lock(&ch->lock);
		hlist_for_each_entry_safe(x, next, &ch->transfers, all)
			if (x->region == region)
				krdma_transfer_end(x, err);
		krdma_channel_unlock_later(ch);
	}
}

/* The session knows it no longer, and the caller's reference is put. */
static void krdma_region_unlist(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	bool listed;

	spin_lock_bh(&sess->lock);
	listed = !list_empty(&region->node);
	if (listed) {
		list_del_init(&region->node);
		sess->nregions--;
		if (sess->private && !READ_ONCE(sess->users))
			krdma_session_tick_by(sess, ktime_get());
	}
	spin_unlock_bh(&sess->lock);
	/* krdma_region_closed_wait() */
	wake_up_all(&sess->wait);
	if (listed)
		krdma_region_put(region);
	krdma_region_put(region);
}

static void krdma_region_close_over(struct krdma_grace *grace)
{
	queue_work(krdma_rpc_wq, &container_of(grace, struct krdma_region, grace)->close_work);
}

/* Is nothing of it on the wire? If something is, close_work is queued again. */
static bool krdma_region_idle(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	bool idle = true;

	spin_lock_bh(&sess->lock);
	/* Bounded: what is posted ends, or its channel does, as it is too old. */
	if (!region->closing)
		idle = krdma_grace_begin(sess, &region->grace, krdma_region_close_over);
	region->closing = true;
	spin_unlock_bh(&sess->lock);
	return idle;
}

/* Reply to CLOSE: the target has forgotten the grant, or the session is down. */
static void krdma_region_closed(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	krdma_region_unlist(rpc->arg);
}

/*
 * As long as the session is up the target must hear of it, or it keeps the grant.
 * Return: 0 if krdma_region_closed is called.
 */
static int krdma_region_tell(struct krdma_region *region)
{
	struct krdma_rpc *rpc = krdma_rpc_new(region->sess, krdma_region_closed, region);
	struct krdma_wire_close *msg;
	struct krdma_wire_used used;
	u32 n;
	int rc;

	if (!rpc) {
		krdma_session_fail(region->sess, -ENOMEM, "no memory to close a region",
				   KRDMA_WIRE_REASON_LIMIT);
		return -ENOMEM;
	}
	n = krdma_usage_last(region, &used) ? sizeof(used) : 0;
	msg = krdma_credit_build(&region->close_credit, KRDMA_WIRE_CLOSE, sizeof(*msg), n);
	if (msg) {
		memcpy(msg->used, &used, n);
		msg->grant = cpu_to_le32(region->grant);
		msg->generation = cpu_to_le32(region->generation);
	}
	rc = krdma_rpc_post(region->sess, &region->close_credit, rpc);
	krdma_rpc_put(rpc);
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
	/* A CLOSE that crosses the target's RECALL is as good as none. */
	if (!READ_ONCE(region->revoked)) {
		if (!krdma_credit_take(sess, &region->close_credit))
			return;
		rc = krdma_region_tell(region);
	}
	if (!rc)
		return;
	krdma_credit_put(sess, &region->close_credit);
	krdma_region_unlist(region);
}

/* Until the target knows that it is closed; but not for long. */
static void krdma_region_closed_wait(struct krdma_region *region)
{
	u32 ms = KRDMA_CLOSED_MS * region->sess->timeout_scale;

	wait_event_killable_timeout(region->sess->wait,
				    list_empty_careful(&region->node) ||
					    krdma_session_over(region->sess),
				    msecs_to_jiffies(ms));
}

/**
 * krdma_region_close - a handle of the region ends
 * @region: the region; with the last handle the target is notified, in a work
 * @waits: the caller can wait for some seconds
 *
 * Waits for that, if the caller can and the region is exclusive, as the next one may open it then;
 * or if operations were aborted.
 *
 * Context: process. The handle's reference is put.
 */
void krdma_region_close(struct krdma_region *region, bool waits)
{
	struct krdma_session *sess = region->sess;
	bool last;

	waits = waits && ((region->flags & KRDMA_OPEN_EXCLUSIVE) || READ_ONCE(region->aborted));
	if (waits)
		kref_get(&region->ref);
	spin_lock_bh(&sess->lock);
	last = !--region->users;
	if (last)
		krdma_region_fail(region, -ECANCELED);
	spin_unlock_bh(&sess->lock);
	/* The handle's reference goes to the work. */
	if (last)
		queue_work(krdma_rpc_wq, &region->close_work);
	else
		krdma_region_put(region);
	if (waits && last)
		krdma_region_closed_wait(region);
	if (waits)
		krdma_region_put(region);
}

static struct krdma_region *krdma_region_share(struct krdma_session *sess, const char *name,
					       u32 rights, u32 flags)
{
	struct krdma_region *region;

	lockdep_assert_held(&sess->lock);
	if (flags & KRDMA_OPEN_EXCLUSIVE)
		return NULL;
	list_for_each_entry(region, &sess->regions, node) {
		if (region->users && !region->err && region->wanted == rights &&
		    region->flags == flags && !strcmp(region->name, name)) {
			region->users++;
			kref_get(&region->ref);
			return region;
		}
	}
	return NULL;
}

static struct krdma_region *krdma_region_new(struct krdma_session *sess, const char *name,
					     u32 rights, u32 flags)
{
	struct krdma_region *region = krdma_inject(kzalloc(sizeof(*region), GFP_KERNEL), NULL);
	u32 i;

	if (!region)
		return NULL;
	kref_init(&region->ref);
	kref_get(&sess->ref);
	region->sess = sess;
	region->users = 1;
	region->wanted = rights;
	region->flags = flags;
	strscpy(region->name, name, sizeof(region->name));
	krdma_region_keys_init(region);
	INIT_LIST_HEAD(&region->node);
	for (i = 0; i < KRDMA_CHANNELS_MAX; i++)
		INIT_LIST_HEAD(&region->on[i].waiters);
	INIT_LIST_HEAD(&region->watches);
	INIT_LIST_HEAD(&region->digests);
	INIT_LIST_HEAD(&region->unsent);
	INIT_LIST_HEAD(&region->sending);
	INIT_WORK(&region->keys_work, krdma_region_keys_work);
	krdma_credit_init(&region->keys_credit, &region->keys_work);
	INIT_WORK(&region->digest_work, krdma_digest_work);
	INIT_WORK(&region->count_work, krdma_count_work);
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
 * Return: -EACCES, or -EOPNOTSUPP if the transport has no such operation, or the memory
 */
int krdma_region_refuse(struct krdma_region *region, u32 right, struct krdma_error *error)
{
	char text[KRDMA_RIGHTS_TEXT];

	if ((right & KRDMA_RIGHT_MESSAGE) && !region->sess->ch->messages)
		return krdma_explain(error, -EOPNOTSUPP, krdma_no_messages);
	if ((right & KRDMA_RIGHT_ATOMIC) && !region->atomics)
		return krdma_explain(error, -EOPNOTSUPP, krdma_no_atomics);
	if (right & KRDMA_RIGHT_DURABLE)
		return krdma_explain(error, -EOPNOTSUPP,
				     "'%s' is not durable, or not open for writing", region->name);
	return krdma_explain(error, -EACCES, "'%s' is not open for %s", region->name,
			     krdma_rights_text(right, true, text));
}

/* On iWARP a READ tells when WRITEs have arrived (wr.c), so that right is needed, too. */
static u32 krdma_region_request_rights(struct krdma_session *sess, u32 rights)
{
	return sess->iwarp && (rights & KRDMA_RIGHT_WRITE) ? rights | KRDMA_RIGHT_READ : rights;
}

/*
 * Opcodes, a bit each, that go over the first channel. It has messages, whose order is the order of
 * its queue pair; so WRITEs of a region that may send messages, as those have to come behind them;
 * digests; and what changes durable memory, as flushes have to come behind that.
 */
static u32 krdma_region_on_first(u32 rights)
{
	u32 opcodes = BIT(KRDMA_OP_DIGEST) | BIT(KRDMA_OP_FLUSH);

	if (rights & KRDMA_RIGHT_MESSAGE)
		opcodes |= BIT(KRDMA_OP_WRITE);
	if (rights & KRDMA_RIGHT_DURABLE)
		opcodes |= ~BIT(KRDMA_OP_READ);
	return opcodes;
}

/* In rx_work, so that a RECALL right behind the reply finds the region. */
static void krdma_region_opened(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_region *region = rpc->arg;
	struct krdma_session *sess = region->sess;
	const char *wrong = NULL;
	bool abandoned;
	u32 requested;
	int unable = 0;

	spin_lock_bh(&sess->lock);
	region->replied = true;
	if (msg) {
		region->grant = le32_to_cpu(msg->open_reply.grant);
		region->generation = le32_to_cpu(msg->open_reply.generation);
		region->rights = le32_to_cpu(msg->open_reply.rights);
		region->length = le64_to_cpu(msg->open_reply.length);
		region->segment_shift = le32_to_cpu(msg->open_reply.segment_shift);
		requested = krdma_region_request_rights(sess, region->wanted);
		if (krdma_region_find(sess, region->grant, 0))
			wrong = "the same grant twice";
		else if (requested && region->rights & ~(requested | KRDMA_RIGHTS_SAID))
			wrong = "rights that were not requested";
		if (wrong)
			err = -ENOTCONN;
		region->blind = sess->iwarp && (region->rights & KRDMA_RIGHT_WRITE) &&
				!(region->rights & KRDMA_RIGHT_READ);
		region->lacks = region->wanted & ~region->rights;
		/* Atomics: the device at either end must have them. */
		region->rights &= krdma_session_rights(sess) | KRDMA_RIGHTS_SAID;
		if (region->wanted)
			region->rights &= region->wanted | KRDMA_RIGHTS_SAID;
		region->atomics = krdma_session_rights(sess) & KRDMA_RIGHT_ATOMIC;
		if (!(region->rights & KRDMA_RIGHT_ATOMIC))
			region->rights &= ~KRDMA_RIGHT_ATOMIC_CPU;
		if (!(region->rights & (KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC)))
			region->rights &= ~KRDMA_RIGHT_DURABLE;
		region->on_first = krdma_region_on_first(region->rights);
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
			WRITE_ONCE(region->err, -ECANCELED);
	}
	spin_unlock_bh(&sess->lock);
	if (wrong)
		krdma_session_protocol(sess, wrong);
	if (!err && abandoned) {
		/* The opener went away, or can't use it: give the grant back. */
		kref_get(&region->ref);
		queue_work(krdma_rpc_wq, &region->close_work);
	}
	rpc->err = err ?: unable;
	complete_all(&rpc->done);
	krdma_region_put(region);
}

/* Why a region was not opened. */
static int krdma_region_explain(struct krdma_region *region, int rc, struct krdma_error *error)
{
	struct krdma_session *sess = region->sess;
	u32 requested = krdma_region_request_rights(sess, region->wanted);
	char text[KRDMA_RIGHTS_TEXT];
	const char *why;

	switch (rc) {
	case -ENOENT:
		return krdma_explain(error, rc, "%pISpc publishes nothing named '%s'", &sess->dst,
				     region->name);
	case -EACCES:
		/* Which of several it is, the reply does not tell. */
		return krdma_explain(
			error, rc, "%pISpc does not grant the rights requested on '%s': %s%s%s",
			&sess->dst, region->name,
			!region->lacks && hweight32(requested) > 1 ? "not all of " : "",
			krdma_rights_text(region->lacks ?: requested, false, text),
			region->lacks || requested == region->wanted ?
				"" :
				"; iWARP needs to read to confirm what is written");
	case -EOPNOTSUPP:
		if (region->blind)
			return krdma_explain(
				error, rc,
				"'%s' of %pISpc may be written only: iWARP needs to read to confirm it",
				region->name, &sess->dst);
		if (region->wanted & KRDMA_RIGHT_ATOMIC)
			return krdma_explain(error, rc, krdma_no_atomics);
		if (region->wanted)
			return krdma_explain(error, rc,
					     "%pISpc does not support rights requested on '%s': %s",
					     &sess->dst, region->name,
					     krdma_rights_text(region->wanted, false, text));
		return krdma_explain(
			error, rc,
			"'%s' of %pISpc has only rights that can't be used here: atomic operations, or messages in a session without KRDMA_CONNECT_MESSAGES",
			region->name, &sess->dst);
	case -EBUSY:
		return krdma_explain(
			error, rc,
			"'%s' of %pISpc is open elsewhere, and one of the two must be the only one that writes",
			region->name, &sess->dst);
	case -EDQUOT:
		if (!(region->flags & KRDMA_OPEN_HELD))
			break;
		return krdma_explain(
			error, rc,
			"'%s' can't be held by %pISpc: too few segments, or too little memory that peers may take",
			region->name, &sess->dst);
	case -ENOTCONN:
		return krdma_session_explain(sess, sess->ch, rc, error);
	case -ETIMEDOUT:
	case -EINTR:
		return krdma_explain(error, rc, "%pISpc did not open '%s' in time", &sess->dst,
				     region->name);
	}
	if (rc == -ENOMEM)
		why = region->replied ? "no memory on that host" : "no memory on this host";
	else
		why = krdma_wire_status_text(krdma_wire_status(rc));
	return krdma_explain(error, rc, "'%s' of %pISpc can't be opened: %s", region->name,
			     &sess->dst, why);
}

/* Return: the region, of the same kind as krdma_region_open(); or an ERR_PTR */
static struct krdma_region *krdma_region_open_once(struct krdma_session *sess, const char *name,
						   u32 rights, u32 flags, unsigned long until,
						   struct krdma_error *error)
{
	u32 timeout_ms = jiffies_to_msecs(max_t(long, until - jiffies, 0));
	struct krdma_region *region;
	struct krdma_wire_open *msg;
	struct krdma_credit credit;
	struct krdma_rpc *rpc;
	int rc = -ENOMEM;
	bool late;
	long left;

	spin_lock_bh(&sess->lock);
	region = krdma_region_share(sess, name, rights, flags);
	spin_unlock_bh(&sess->lock);
	if (region)
		return region;

	region = krdma_region_new(sess, name, rights, flags);
	if (!region)
		return ERR_PTR(-ENOMEM);
	rpc = krdma_rpc_new(sess, krdma_region_opened, region);
	if (!rpc)
		goto out;
	rc = krdma_credit_wait(sess, &credit, timeout_ms);
	if (rc)
		goto out;
	msg = krdma_credit_build(&credit, KRDMA_WIRE_OPEN, sizeof(*msg), 0);
	msg->rights = cpu_to_le32(krdma_region_request_rights(sess, rights));
	msg->flags = cpu_to_le32(flags);
	strscpy(msg->name, name, sizeof(msg->name));

	kref_get(&region->ref); /* of krdma_region_opened */
	rc = krdma_rpc_post(sess, &credit, rpc);
	if (rc) {
		krdma_region_put(region);
		goto out;
	}
	left = wait_for_completion_killable_timeout(&rpc->done, msecs_to_jiffies(timeout_ms));
	spin_lock_bh(&sess->lock);
	late = left <= 0 && !region->replied;
	if (late)
		region->users = 0;
	spin_unlock_bh(&sess->lock);
	if (late) {
		rc = left ? -EINTR : -ETIMEDOUT;
	} else {
		wait_for_completion(&rpc->done);
		rc = rpc->err;
	}
out:
	krdma_rpc_put(rpc);
	if (!rc)
		return region;
	rc = krdma_region_explain(region, rc, error);
	krdma_region_put(region);
	return ERR_PTR(rc);
}

/**
 * krdma_region_open - open an export of the peer
 * @sess: session
 * @name: name of the export
 * @rights: wanted, 0 for all it has
 * @flags: KRDMA_OPEN_*
 * @timeout_ms: how long to wait, 0 for the default; as long again for each request of keys that
 *	are held
 * @error: explanation
 *
 * Context: process.
 * Return: the region with a reference and a user, to be given to
 *	krdma_region_close; or an ERR_PTR
 */
struct krdma_region *krdma_region_open(struct krdma_session *sess, const char *name, u32 rights,
				       u32 flags, u32 timeout_ms, struct krdma_error *error)
{
	bool takes_long = flags & (KRDMA_OPEN_HELD | KRDMA_OPEN_TAKEOVER);
	unsigned long again = msecs_to_jiffies(KRDMA_TAKEOVER_MS);
	struct krdma_region *region;
	unsigned long until;
	int rc;

	/* The peer may not know the right. */
	if ((rights & KRDMA_RIGHT_MESSAGE) && !sess->ch->messages)
		return ERR_PTR(krdma_explain(error, -EOPNOTSUPP, krdma_no_messages));
	if ((flags & KRDMA_OPEN_TAKEOVER) && !(flags & KRDMA_OPEN_EXCLUSIVE))
		return ERR_PTR(
			krdma_explain(error, -EINVAL, "'%s' is taken over to be exclusive", name));
	if (flags && !uid_eq(sess->uid, GLOBAL_ROOT_UID))
		return ERR_PTR(krdma_explain(error, -EPERM,
					     "only root can have '%s' held or exclusively", name));
	timeout_ms = timeout_ms ?: krdma_default_ms(0) * (takes_long ? KRDMA_OPEN_LONG : 1);
	timeout_ms = min(timeout_ms, KRDMA_FOREVER_MS);
	until = jiffies + msecs_to_jiffies(timeout_ms);
	for (;;) {
		krdma_error_init(error);
		if (READ_ONCE(sess->drains))
			return ERR_PTR(krdma_session_explain(sess, sess->ch, -ENOTCONN, error));
		region = krdma_region_open_once(sess, name, rights, flags, until, error);
		if (region != ERR_PTR(-EBUSY) || !(flags & KRDMA_OPEN_TAKEOVER) ||
		    time_after(jiffies + again, until))
			break;
		/* The others give way, in their time. */
		if (schedule_timeout_killable(again))
			break;
	}
	if (IS_ERR(region) || !(flags & KRDMA_OPEN_HELD))
		return region;
	rc = krdma_region_hold(region, timeout_ms);
	if (!rc) {
		WRITE_ONCE(sess->writeback, true);
		return region;
	}
	rc = krdma_region_explain(region, rc, error);
	krdma_region_close(region, true);
	return ERR_PTR(rc);
}

/* Take all regions of a session off it; its queue pairs are gone. */
static void krdma_regions_drop(struct krdma_session *sess)
{
	struct krdma_recall *recall, *next;
	struct krdma_region *region;
	LIST_HEAD(recalls);

	krdma_sends_drop(sess->ch);
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
	}
	list_splice_init(&sess->recalls, &recalls);
	list_for_each_entry_safe(recall, next, &recalls, node) {
		krdma_post_tx_put(sess->ch, recall->tx);
		kfree(recall);
	}
}

/* The target has registered anew what was registered for a path. */
static void krdma_regions_keys_void(struct krdma_session *sess, u32 path)
{
	struct krdma_region *region;

	list_for_each_entry(region, &sess->regions, node)
		krdma_region_keys_void(region, path);
}

/* Regions that are held do not wait for the first transfer that lacks a key. */
static void krdma_regions_path_up(struct krdma_session *sess, u32 path)
{
	struct krdma_region *region;

	list_for_each_entry(region, &sess->regions, node)
		if ((region->flags & KRDMA_OPEN_HELD) && region->users)
			krdma_region_hold_path(region, path);
}

/* What is registered is the target's. */
static void krdma_regions_path_gone(struct krdma_session *sess, struct krdma_path *path)
{
	krdma_path_release(path);
}

/* ---- what a session needs of the initiator ---- */

const struct krdma_role_ops krdma_initiator_ops = {
	.data = &krdma_transfer_ops,
	.established = krdma_sends_begin,
	.drop = krdma_regions_drop,
	.changed = krdma_regions_changed,
	.keys_void = krdma_regions_keys_void,
	.path_up = krdma_regions_path_up,
	.path_gone = krdma_regions_path_gone,
	.tick = krdma_usage_tick,
	.request = krdma_region_recall,
	.message = krdma_sends_replied,
	.replies_due = krdma_region_recalls_reply,
};
