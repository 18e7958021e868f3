// SPDX-License-Identifier: GPL-2.0
/*
 * The list of sessions: how many there may be, and who shares one.
 */
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "session/session.h"

DEFINE_MUTEX(krdma_sessions_lock); /* list of sessions and the users of each */
LIST_HEAD(krdma_sessions);
static DECLARE_WAIT_QUEUE_HEAD(krdma_sessions_wait);
static atomic_t krdma_sessions_beginning;
static u64 krdma_session_serial;

/**
 * krdma_session_same_host - are two sessions of the same host?
 * @a: a session
 * @b: the other one
 *
 * Outbound ones are of this one, inbound ones of the address that they come from:
 * session->host.
 *
 * Context: any.
 * Return: true if they are
 */
bool krdma_session_same_host(const struct krdma_session *a, const struct krdma_session *b)
{
	if (!a->inbound || !b->inbound)
		return a->inbound == b->inbound;
	return !memcmp(&a->host, &b->host, sizeof(a->host));
}

/**
 * krdma_session_same_user - are two sessions of the same user?
 * @a: a session
 * @b: the other one
 *
 * Of inbound ones it is the user that the peer tells of, on that peer.
 *
 * Context: any.
 * Return: true if they are
 */
bool krdma_session_same_user(const struct krdma_session *a, const struct krdma_session *b)
{
	return krdma_session_same_host(a, b) && uid_eq(a->uid, b->uid);
}

/* How many sessions there are, of the same host and of the same user. */
struct krdma_session_count {
	u32 all;
	u32 host;
	u32 user;
};

static void krdma_session_count(struct krdma_session_count *count, const struct krdma_session *sess,
				const struct krdma_session *other)
{
	count->all++;
	count->host += krdma_session_same_host(sess, other);
	count->user += krdma_session_same_user(sess, other);
}

/* One more inbound session? Users of a host share what the host may have. */
static bool krdma_session_room(const struct krdma_session_count *count, u32 max, u32 host_max)
{
	return count->all < max && krdma_share_ok(count->user + 1, count->host + 1, host_max);
}

/* Nobody takes all: not one peer, not all peers, not one user of a peer or of this host. */
static bool krdma_session_may(const struct krdma_session *sess)
{
	struct krdma_session_count in = {}, out = {}, messages = {}, new = {};
	struct krdma_session *other;

	list_for_each_entry(other, &krdma_sessions, node) {
		krdma_session_count(other->inbound ? &in : &out, sess, other);
		if (!other->inbound)
			continue;
		if (READ_ONCE(other->state) == KRDMA_SESSION_CONNECTING)
			krdma_session_count(&new, sess, other);
		if (other->messages)
			krdma_session_count(&messages, sess, other);
	}
	if (in.all + out.all >= KRDMA_SESSIONS_MAX)
		return false;
	if (!sess->inbound)
		return out.user < KRDMA_OUTBOUND_USER_MAX || uid_eq(sess->uid, GLOBAL_ROOT_UID);
	return krdma_share_ok(new.host + 1, new.all + 1, KRDMA_INBOUND_NEW_MAX) &&
	       krdma_session_room(&in, KRDMA_INBOUND_MAX, KRDMA_INBOUND_PEER_MAX) &&
	       (!sess->messages || krdma_session_room(&messages, KRDMA_INBOUND_MESSAGES_MAX,
						      KRDMA_INBOUND_MESSAGES_PEER_MAX));
}

static int krdma_session_list(struct krdma_session *sess)
{
	lockdep_assert_held(&krdma_sessions_lock);
	if (!krdma_session_may(sess))
		return -EDQUOT;
	sess->serial = ++krdma_session_serial;
	sess->ch->serial = sess->serial;
	list_add_tail(&sess->node, &krdma_sessions);
	atomic_inc(&krdma_sessions_beginning);
	/* Completion of the connection has a time limit. */
	spin_lock_bh(&sess->lock);
	krdma_session_tick_by(sess, ktime_add_ms(sess->made, krdma_session_connect_ms(sess)));
	spin_unlock_bh(&sess->lock);
	return 0;
}

/**
 * krdma_session_add - put an inbound session on the list
 * @sess: session; its reference goes to the list on success
 *
 * Context: process.
 * Return: 0 or -EDQUOT
 */
int krdma_session_add(struct krdma_session *sess)
{
	int rc;

	mutex_lock(&krdma_sessions_lock);
	rc = krdma_session_list(sess);
	mutex_unlock(&krdma_sessions_lock);
	return rc;
}

/**
 * krdma_sessions_begin - a channel of a session that is up is being set up
 *
 * Context: any, session->lock held.
 */
void krdma_sessions_begin(void)
{
	atomic_inc(&krdma_sessions_beginning);
}

/**
 * krdma_sessions_begun - nothing sets up the channel of a session any more
 *
 * Context: any, session->lock held.
 */
void krdma_sessions_begun(void)
{
	atomic_dec(&krdma_sessions_beginning);
	wake_up_all(&krdma_sessions_wait);
}

/**
 * krdma_sessions_del - take a session off the list
 * @sess: session, dead
 *
 * Context: process.
 */
void krdma_sessions_del(struct krdma_session *sess)
{
	mutex_lock(&krdma_sessions_lock);
	list_del_init(&sess->node);
	mutex_unlock(&krdma_sessions_lock);
	wake_up_all(&krdma_sessions_wait);
}

/**
 * krdma_session_wait_gone - wait until a session is taken apart, and on no list
 * @sess: session that has failed, or will; the caller has a reference
 *
 * Context: process.
 * Return: 0, or -ERESTARTSYS after a fatal signal
 */
int krdma_session_wait_gone(struct krdma_session *sess)
{
	return wait_event_killable(krdma_sessions_wait, list_empty_careful(&sess->node));
}

/**
 * krdma_sessions_replace - the host of a new session may have been started anew
 * @sess: inbound session
 * @incarnation: of its peer
 *
 * Then nobody will connect its sessions of before again: they end when their connections have been
 * lost for a while, however long they could wait. Others of that address have connections.
 *
 * Context: process.
 */
void krdma_sessions_replace(const struct krdma_session *sess, __le64 incarnation)
{
	struct krdma_session *other;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(other, &krdma_sessions, node)
		if (other->inbound && READ_ONCE(other->state) == KRDMA_SESSION_UP &&
		    other->listener == sess->listener && krdma_session_same_host(sess, other) &&
		    other->peer_incarnation != le64_to_cpu(incarnation))
			WRITE_ONCE(other->replaced, true);
	mutex_unlock(&krdma_sessions_lock);
}

/**
 * krdma_session_joined - the session that a channel is for, which is not its beginning
 * @net: network namespace of the listener
 * @hello: the peer's greeting
 *
 * Context: process.
 * Return: the session, with a reference; NULL if there is none with that secret
 */
struct krdma_session *krdma_session_joined(struct net *net, const struct krdma_wire_hello *hello)
{
	struct krdma_session *sess, *found = NULL;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node) {
		if (!sess->inbound || READ_ONCE(sess->state) != KRDMA_SESSION_UP ||
		    le16_to_cpu(hello->channel) >= sess->nchannels ||
		    (!hello->channel && !sess->resume_s) ||
		    sess->secret != le64_to_cpu(hello->secret) || sess->net != net ||
		    sess->ch->peer.session != hello->session || sess->ch->peer.uid != hello->uid ||
		    sess->ch->peer.incarnation != hello->incarnation)
			continue;
		kref_get(&sess->ref);
		found = sess;
		break;
	}
	mutex_unlock(&krdma_sessions_lock);
	return found;
}

/* Does it behave alike when its connection is lost? */
static bool krdma_connect_alike(const struct krdma_connect_options *a,
				const struct krdma_connect_options *b)
{
	return !((a->flags ^ b->flags) & KRDMA_CONNECT_FAIL_FAST) && a->resume_s == b->resume_s &&
	       a->keepalive_s == b->keepalive_s && a->policy == b->policy;
}

/* Does it go there, by these paths? */
static bool krdma_session_goes(const struct krdma_session *sess, const struct krdma_route *routes,
			       u32 n)
{
	u32 i;

	for (i = 0; i < n && n == sess->npaths; i++)
		if (!krdma_addr_equal(&sess->paths[i].dst, &routes[i].dst) ||
		    !krdma_addr_equal(&sess->paths[i].src, &routes[i].src))
			return false;
	return n == sess->npaths;
}

/* It may wait for a connection that it never gets. */
static bool krdma_session_forsaken(const struct krdma_session *sess)
{
	lockdep_assert_held(&krdma_sessions_lock);
	return !sess->users && READ_ONCE(sess->resuming) &&
	       jiffies - READ_ONCE(sess->lost_at) >= msecs_to_jiffies(KRDMA_CONNECT_MS);
}

/* A session to share, with a user and a reference. */
static struct krdma_session *krdma_session_share(struct net *net, kuid_t uid,
						 const struct krdma_route *routes, u32 n,
						 const struct krdma_connect_options *options)
{
	struct krdma_session *sess;

	lockdep_assert_held(&krdma_sessions_lock);
	if (options->flags & KRDMA_CONNECT_PRIVATE)
		return NULL;
	list_for_each_entry(sess, &krdma_sessions, node) {
		/* One for messages serves those as well who want none. */
		if (sess->inbound || sess->private || sess->net != net || !uid_eq(sess->uid, uid) ||
		    !krdma_connect_alike(&sess->options, options) ||
		    READ_ONCE(sess->state) > KRDMA_SESSION_UP || READ_ONCE(sess->drains) ||
		    (READ_ONCE(sess->ch->state) > KRDMA_CHANNEL_UP &&
		     !READ_ONCE(sess->ch->resumes)) ||
		    krdma_session_forsaken(sess) ||
		    ((options->flags & KRDMA_CONNECT_MESSAGES) && !sess->messages) ||
		    !krdma_session_goes(sess, routes, n))
			continue;
		sess->users++;
		kref_get(&sess->ref);
		return sess;
	}
	return NULL;
}

static struct krdma_session *krdma_session_outbound(struct net *net, kuid_t uid,
						    const struct krdma_route *routes, u32 n,
						    const struct krdma_connect_options *options)
{
	struct krdma_session *sess = krdma_session_new(false);
	u32 i;

	if (!sess)
		return NULL;
	if (krdma_session_queue(sess)) {
		krdma_session_put(sess);
		return NULL;
	}
	sess->options = *options;
	sess->keepalive_s = options->keepalive_s ?: sess->keepalive_s;
	sess->ch->keepalive_s = sess->keepalive_s;
	sess->private = options->flags & KRDMA_CONNECT_PRIVATE;
	sess->messages = options->flags & KRDMA_CONNECT_MESSAGES;
	sess->ch->messages = sess->messages;
	sess->uid = uid;
	sess->dst = routes->dst;
	for (i = 0; i < n; i++) {
		sess->paths[i].dst = routes[i].dst;
		sess->paths[i].src = routes[i].src;
	}
	sess->npaths = n;
	sess->users = 1;
	sess->net = get_net(net);
	return sess;
}

/* A session to share, or a new one that connects; with a user and a reference. */
static struct krdma_session *krdma_session_find(struct net *net, kuid_t uid,
						const struct krdma_route *routes, u32 n,
						const struct krdma_connect_options *options)
{
	struct krdma_session *sess, *new;

	mutex_lock(&krdma_sessions_lock);
	sess = krdma_session_share(net, uid, routes, n, options);
	mutex_unlock(&krdma_sessions_lock);
	if (sess)
		return sess;
	/* ORDER: not under the lock, which connect requests need: memory may be had by I/O only. */
	new = krdma_session_outbound(net, uid, routes, n, options);
	if (!new)
		return ERR_PTR(-ENOMEM);

	mutex_lock(&krdma_sessions_lock);
	/* Another may have been made meanwhile. */
	sess = krdma_session_share(net, uid, routes, n, options) ?:
								   ERR_PTR(krdma_session_list(new));
	if (!sess) {
		sess = new;
		kref_get(&new->ref);
		/* ORDER: under the lock, or it may be lost to the tick, which calls it off. */
		spin_lock_bh(&new->lock);
		queue_work(new->wq, &new->connect_work);
		spin_unlock_bh(&new->lock);
	}
	mutex_unlock(&krdma_sessions_lock);
	if (sess != new) {
		put_net(new->net);
		krdma_session_put(new);
	}
	return sess;
}

/**
 * krdma_session_settled - is it clear what has become of a session?
 * @sess: session
 *
 * Context: any.
 * Return: false while it is being connected, and while its connection is lost
 */
bool krdma_session_settled(struct krdma_session *sess)
{
	return READ_ONCE(sess->state) > KRDMA_SESSION_UP || krdma_session_is_up(sess);
}

/* Return: 0 if it is up; -ESTALE if it was, and the peer is another one by now; or an errno */
static int krdma_session_wait_up(struct krdma_session *sess, unsigned long until,
				 struct krdma_error *error)
{
	long left = max_t(long, until - jiffies, 0);
	const char *reason = NULL;
	int rc;

	left = wait_event_killable_timeout(sess->wait, krdma_session_settled(sess), left);
	spin_lock_bh(&sess->lock);
	rc = sess->err;
	if (rc)
		reason = sess->cause;
	else if (left < 0)
		reason = "interrupted";
	else if (!left)
		reason = sess->resuming ? "its connection is lost" : "no reply in time";
	spin_unlock_bh(&sess->lock);
	if (!rc && left <= 0)
		rc = left < 0 ? -EINTR : -ETIMEDOUT;
	/* The caller makes another session then. */
	if (rc && rc != -ESTALE)
		krdma_explain(error, rc, "can't connect to %pISpc: %s", &sess->dst,
			      reason ?: "it failed");
	return rc;
}

/**
 * krdma_session_begin_connect - get a session with a peer, which may be connecting
 * @net: network namespace
 * @uid: user that it is for
 * @routes: its paths
 * @n: their number, 1 to KRDMA_PATHS_MAX
 * @options: how it is to be, checked
 * @error: explanation
 *
 * Context: process.
 * Return: the session, with a user and a reference, to be given to krdma_session_leave; or an
 *	ERR_PTR
 */
struct krdma_session *krdma_session_begin_connect(struct net *net, kuid_t uid,
						  const struct krdma_route *routes, u32 n,
						  const struct krdma_connect_options *options,
						  struct krdma_error *error)
{
	struct krdma_session *sess = krdma_session_find(net, uid, routes, n, options);

	if (sess == ERR_PTR(-EDQUOT))
		krdma_explain(error, -EDQUOT,
			      "there are too many sessions: a user may have %u, a host %u",
			      KRDMA_OUTBOUND_USER_MAX, KRDMA_SESSIONS_MAX);
	return sess;
}

/**
 * krdma_session_connect - get a session with a peer
 * @net: network namespace
 * @uid: user that it is for
 * @routes: its paths
 * @n: their number, 1 to KRDMA_PATHS_MAX
 * @options: how it is to be, checked
 * @timeout_ms: how long to wait
 * @error: explanation
 *
 * One that is shared may have lost its connection. If the peer was restarted meanwhile, another
 * session is made.
 *
 * Context: process.
 * Return: the session, up, with a user and a reference, to be given to
 *	krdma_session_leave; or an ERR_PTR
 */
struct krdma_session *krdma_session_connect(struct net *net, kuid_t uid,
					    const struct krdma_route *routes, u32 n,
					    const struct krdma_connect_options *options,
					    u32 timeout_ms, struct krdma_error *error)
{
	unsigned long until = jiffies + msecs_to_jiffies(timeout_ms);
	struct krdma_session *sess;
	int rc;

	do {
		sess = krdma_session_begin_connect(net, uid, routes, n, options, error);
		if (IS_ERR(sess))
			return sess;
		rc = krdma_session_wait_up(sess, until, error);
		if (rc)
			krdma_session_leave(sess);
	} while (rc == -ESTALE && time_before(jiffies, until));
	if (rc == -ESTALE)
		krdma_explain(error, rc, "can't connect to %pISpc: the peer was restarted",
			      &routes->dst);
	return rc ? ERR_PTR(rc) : sess;
}

/**
 * krdma_session_join - one more handle needs the session
 * @sess: session of a handle that the caller holds
 *
 * Context: process.
 */
void krdma_session_join(struct krdma_session *sess)
{
	mutex_lock(&krdma_sessions_lock);
	sess->users++;
	kref_get(&sess->ref);
	mutex_unlock(&krdma_sessions_lock);
}

/**
 * krdma_session_leave - a handle of the session ends
 * @sess: session; lingers with the last, a private one ends when the peer knows what was closed
 *
 * Context: process. The handle's reference is put.
 */
void krdma_session_leave(struct krdma_session *sess)
{
	mutex_lock(&krdma_sessions_lock);
	if (!--sess->users) {
		sess->idle_since = jiffies;
		krdma_session_retire(sess);
		spin_lock_bh(&sess->lock);
		krdma_session_tick_by(sess, ktime_add_ms(ktime_get(), KRDMA_LINGER_MS));
		spin_unlock_bh(&sess->lock);
	}
	mutex_unlock(&krdma_sessions_lock);
	krdma_session_put(sess);
}

/* Has it a path by a device, or by a listener? Or by any, where there is none given. */
static bool krdma_session_uses(const struct krdma_session *sess, const struct krdma_device *dev,
			       u64 listener)
{
	u32 i;

	for (i = 0; i < KRDMA_PATHS_MAX; i++)
		if ((!dev || READ_ONCE(sess->paths[i].dev) == dev) &&
		    (!listener || READ_ONCE(sess->paths[i].listener) == listener))
			return true;
	return false;
}

/**
 * krdma_sessions_fail - end all sessions, or those of a listener
 * @listener: serial of the listener that they came through, or 0 for any, and for none
 * @cause: a phrase, static
 *
 * Context: process.
 */
void krdma_sessions_fail(u64 listener, const char *cause)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node)
		if (krdma_session_uses(sess, NULL, listener))
			krdma_session_fail(sess, -ENOTCONN, cause, KRDMA_WIRE_REASON_SHUTDOWN);
	mutex_unlock(&krdma_sessions_lock);
}

/*
 * A device goes, and takes no new sessions: end those on it that can't do without, and wait until
 * none is being connected. Idle, not as a task that hangs: siw can't be called back from a connect.
 */
static void krdma_sessions_device_removed(struct krdma_device *dev)
{
	struct krdma_session *sess;

	mutex_lock(&krdma_sessions_lock);
	list_for_each_entry(sess, &krdma_sessions, node)
		if (krdma_session_uses(sess, dev, 0) && !krdma_paths_leave(sess, dev))
			krdma_session_fail(sess, -ENOTCONN, "the RDMA device was removed",
					   KRDMA_WIRE_REASON_SHUTDOWN);
	mutex_unlock(&krdma_sessions_lock);
	wait_event_idle(krdma_sessions_wait, !atomic_read(&dev->beginning));
}

const struct krdma_device_ops krdma_session_device_ops = {
	.added = krdma_listeners_retry,
	.removed = krdma_sessions_device_removed,
};

/**
 * krdma_sessions_exit - end all sessions and wait, at unload
 *
 * Context: process; no listener and no open file is left.
 */
void krdma_sessions_exit(void)
{
	krdma_sessions_fail(0, "the module is unloaded");
	/* As for a device; nobody connects any more. */
	wait_event_idle(krdma_sessions_wait, !atomic_read(&krdma_sessions_beginning));
	wait_event(krdma_sessions_wait, list_empty_careful(&krdma_sessions));
}
