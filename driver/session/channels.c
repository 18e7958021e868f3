// SPDX-License-Identifier: GPL-2.0
/*
 * The channels of a session that come and go: those beside the first, each for the data of a
 * processor; and the first, where the session outlives it.
 *
 * The initiator connects them one after the other when the session is up, and anew what was lost.
 * Each says the secret that the target gave with the session (Documentation/wire.rst, "Channels").
 * What is posted on one that is lost is done again (initiator/loss.c); what would have been posted
 * on another than the first goes over that meanwhile. One work takes them apart, unless the
 * session's down_work does, which waits for it; another connects them, as that may last.
 */
#include <linux/cpumask.h>
#include <linux/jhash.h>
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/netns/hash.h>
#include <rdma/ib_addr.h>

#include "session/session.h"

/*
 * After a loss; and after each failure to connect twice as long as before, up to a minute, or to
 * two seconds where the session waits for it. And by chance up to half as long again, as many
 * sessions may have lost one path.
 */
#define KRDMA_CHANNEL_AGAIN_MS 100
#define KRDMA_CHANNEL_PAUSE_MS 60000
#define KRDMA_RESUME_PAUSE_MS  2000

/*
 * How many sessions of a user connect a lost channel to a peer at a time, from one address, so that
 * those that have lost one switch do not all try at once when it is back; and a peer or a port
 * that is gone holds up no session over others: unless their addresses have the same hash, which
 * is another one each time.
 */
#define KRDMA_ATTEMPTS      8
#define KRDMA_ATTEMPTS_HASH 1024

static atomic_t krdma_attempts[KRDMA_ATTEMPTS_HASH];

/* For sessions made from now on. */
static unsigned int krdma_channels;

static int krdma_channels_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, 0, KRDMA_CHANNELS_MAX);
}

static const struct kernel_param_ops krdma_channels_ops = {
	.set = krdma_channels_set,
	.get = param_get_uint,
};
module_param_cb(channels, &krdma_channels_ops, &krdma_channels, 0644);
__MODULE_PARM_TYPE(channels, "uint");
MODULE_PARM_DESC(
	channels,
	"most queue pairs of a session, 1 to 9; 0: one, and one for each processor and path, up to 8 (0)");

/**
 * krdma_channels_wanted - how many channels a session of this host is to have
 * @npaths: over so many paths
 *
 * Context: any.
 * Return: 1 to KRDMA_CHANNELS_MAX: the first, and as many for each path
 */
u32 krdma_channels_wanted(u32 npaths)
{
	u32 cpus = num_online_cpus(), most = READ_ONCE(krdma_channels) ?: KRDMA_CHANNELS_MAX;

	if (cpus == 1 && npaths == 1 && !READ_ONCE(krdma_channels))
		return 1;
	if (!READ_ONCE(krdma_channels))
		most = min_t(u32, most, cpus * npaths + 1);
	/* Else a path would have none. */
	return 1 + max((most - 1) / npaths, npaths > 1) * npaths;
}

/**
 * krdma_channels_granted - how many channels a session of a peer may have
 * @wanted: by the peer
 *
 * Context: any.
 * Return: 1 to KRDMA_CHANNELS_MAX; one for each path in any case, unless the parameter says less
 */
u32 krdma_channels_granted(u32 wanted)
{
	u32 most = max_t(u32, num_online_cpus(), KRDMA_PATHS_MAX) + 1;

	return clamp_t(u32, wanted, 1,
		       min_t(u32, READ_ONCE(krdma_channels) ?: most, KRDMA_CHANNELS_MAX));
}

/* Let krdma_channels_work() come, on the initiator's side. */
static void krdma_channels_queue(struct krdma_session *sess, u32 delay_ms)
{
	lockdep_assert_held(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP && !sess->inbound &&
	    (sess->nchannels > 1 || sess->resuming))
		mod_delayed_work(sess->wq, &sess->channels_work, msecs_to_jiffies(delay_ms));
}

/**
 * krdma_channels_begun - a channel is not being set up any more
 * @ch: channel; with the first the others may follow
 *
 * Context: session->lock held.
 */
void krdma_channels_begun(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;

	ch->beginning = false;
	/* The channel failed while it was set up. */
	if (sess->state == KRDMA_SESSION_UP && READ_ONCE(ch->state) == KRDMA_CHANNEL_DOWN)
		queue_work(sess->down_wq, &sess->ends_work);
	else if (!ch->first)
		krdma_channels_queue(sess, 0);
}

/* An attempt to connect it ends; another one follows. */
static void krdma_channel_give_up(struct krdma_channel *ch)
{
	spin_lock(&ch->lock);
	if (!ch->inbound && ch->state == KRDMA_CHANNEL_CONNECTING) {
		krdma_channel_close(ch);
		complete(&ch->cm_done);
	}
	krdma_channel_unlock_later(ch);
}

/* The first is lost: for a while it may come back. */
static void krdma_session_away(struct krdma_session *sess)
{
	struct krdma_channel *ch;
	u32 i;

	lockdep_assert_held(&sess->lock);
	if (sess->resuming)
		return;
	sess->resuming = true;
	/* The first channel is connected before the others: an attempt of another one ends. */
	krdma_for_each_channel(ch, sess, i)
		if (ch->first)
			krdma_channel_give_up(ch);
	sess->lost_at = jiffies;
	krdma_session_event(sess, KRDMA_EVENT_SESSION_RESUMING, NULL, 0,
			    READ_ONCE(sess->ch->lost_cause));
	sess->role->changed(sess);
	krdma_session_tick_by(sess, ktime_add_ms(ktime_get(), KRDMA_SESSION_TICK_MS));
}

/* Is a channel up on another path? */
static bool krdma_path_others_up(struct krdma_session *sess, const struct krdma_path *path)
{
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i)
		if (READ_ONCE(ch->state) == KRDMA_CHANNEL_UP && READ_ONCE(ch->path) != path)
			return true;
	return false;
}

/**
 * krdma_channels_lost - a channel has failed that the session outlives
 * @ch: channel
 *
 * Context: any; no lock of the session or the channel held.
 */
void krdma_channels_lost(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	struct krdma_path *path;
	bool noted;

	spin_lock_bh(&sess->lock);
	/* Not what goes with the session, whose end may not be handled yet. */
	noted = sess->state == KRDMA_SESSION_UP &&
		(!ch->first || krdma_post_good(sess->ch) || READ_ONCE(sess->ch->resumes));
	/* WRITEs may wait for it, whatever the others wait for. */
	sess->pause_ms = 0;
	if (noted)
		ch->path->losses++;
	if (sess->state == KRDMA_SESSION_UP) {
		krdma_paths_event(sess, READ_ONCE(ch->lost_cause));
		/* It may be up again by now. */
		if (!ch->first && READ_ONCE(ch->state) != KRDMA_CHANNEL_UP)
			krdma_session_away(sess);
		queue_work(sess->down_wq, &sess->ends_work);
		path = READ_ONCE(sess->ch->path);
		/* The first is tried where another channel was up, which now is not. */
		if (ch->first && sess->resuming && path == ch->path && !krdma_path_up(sess, path) &&
		    krdma_path_others_up(sess, path))
			krdma_channel_give_up(sess->ch);
		/* It is to end with its last path. */
		if (sess->resuming && sess->options.flags & KRDMA_CONNECT_FAIL_FAST &&
		    !krdma_path_others_up(sess, sess->ch->last_path))
			krdma_session_fail_locked(sess, -ECONNRESET, sess->ch->lost_cause,
						  KRDMA_BYE_LOST);
	}
	spin_unlock_bh(&sess->lock);
	if (!noted)
		return;
	krdma_stat_inc(KRDMA_STAT_CHANNELS_LOST);
	pr_info_ratelimited("krdma_mover: session %llu: channel %u is lost: %s\n", ch->serial,
			    ch->index, READ_ONCE(ch->lost_cause));
}

/*
 * Writeback may wait for what is between these two, so the reserves are for it (as in xprtrdma,
 * xprt_rdma_connect_worker()). Connecting other channels than the first is not between them, as
 * their transfers can go over the first. Nor is users' ->done, unless the last work request of its
 * transfer had no completion.
 */
struct krdma_reserves {
	bool used;
	unsigned int flags;
};

static struct krdma_reserves krdma_reserves_save(const struct krdma_session *sess)
{
	struct krdma_reserves reserves = { .used = READ_ONCE(sess->writeback) };

	if (reserves.used)
		reserves.flags = memalloc_noreclaim_save();
	return reserves;
}

static void krdma_reserves_restore(struct krdma_reserves reserves)
{
	if (reserves.used)
		memalloc_noreclaim_restore(reserves.flags);
}

/**
 * krdma_channel_stop - end what may still use a channel, and what is posted on it
 * @ch: channel, down
 *
 * Context: work, one at a time for a session.
 */
void krdma_channel_stop(struct krdma_channel *ch)
{
	struct krdma_reserves reserves;

	cancel_delayed_work_sync(&ch->tick);
	if (ch->data)
		ch->data->fail_rest(ch);
	/* Transfers of one that resumes have deadlines. */
	krdma_channel_lock(ch);
	ch->tick_at = KTIME_MAX;
	krdma_channel_tick_by(ch, ktime_get());
	krdma_channel_unlock(ch);
	reserves = krdma_reserves_save(ch->sess);
	krdma_conn_stop(ch);
	krdma_reserves_restore(reserves);
	tasklet_kill(&ch->reply_tasklet);
}

/**
 * krdma_channel_end - take a channel apart, which may begin anew
 * @ch: channel, down; of a session that goes on
 *
 * Context: work, one at a time for a session.
 */
void krdma_channel_end(struct krdma_channel *ch)
{
	struct krdma_reserves reserves;

	krdma_channel_stop(ch);
	reserves = krdma_reserves_save(ch->sess);
	krdma_conn_drain(ch);
	krdma_conn_destroy(ch);
	krdma_reserves_restore(reserves);
	/* The session goes on with what the first stands on. */
	if (ch->first)
		krdma_conn_release(ch);
	else
		krdma_conn_rest(ch);
	if (ch->first && !ch->inbound && ch->connections)
		krdma_fence_ask(ch);
	/* The route may have led over another device. */
	if (!ch->inbound && !ch->path->epoch)
		krdma_path_release(ch->path);
	krdma_channel_lock(ch);
	/* ORDER: what it was up for is over; krdma_connection_gone(). */
	smp_store_release(&ch->gone_connection, ch->connections);
	krdma_channel_set_state(ch, KRDMA_CHANNEL_DEAD);
	krdma_channel_unlock(ch);
	/* ORDER: a FENCE that comes from here on finds the channel dead. */
	krdma_fence_reply(ch);
	wake_up_all(&ch->sess->wait);
}

/* Is there something to take apart? Not what another still sets up. */
static bool krdma_channel_gone(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	bool gone;

	spin_lock_bh(&sess->lock);
	gone = (ch->first || READ_ONCE(ch->resumes)) &&
	       READ_ONCE(ch->state) == KRDMA_CHANNEL_DOWN && !ch->beginning;
	spin_unlock_bh(&sess->lock);
	return gone;
}

/* Begin to connect or to accept. Return: the channel; NULL if it is in use, or the session ends */
static struct krdma_channel *krdma_channels_begin(struct krdma_session *sess, u32 index,
						  struct krdma_path *path)
{
	struct krdma_channel *ch, *new = NULL;
	bool begun;

	if (!krdma_session_slot(sess, index)) {
		new = krdma_channel_new(sess, index);
		if (!new)
			return NULL;
	}
	spin_lock_bh(&sess->lock);
	ch = sess->channels[index] ?: new;
	begun = sess->state == KRDMA_SESSION_UP && READ_ONCE(ch->state) == KRDMA_CHANNEL_DEAD;
	if (begun)
		krdma_session_begin(sess, ch, path);
	if (begun && ch == new) {
		/* ORDER: under the lock, so that whoever kills a key sees all that may use it. */
		smp_store_release(&sess->channels[index], new);
		new = NULL;
	}
	spin_unlock_bh(&sess->lock);
	kfree(new);
	return begun ? ch : NULL;
}

static struct krdma_wire_hello krdma_channel_hello(const struct krdma_channel *ch)
{
	const struct krdma_session *sess = ch->sess;
	bool in = ch->inbound;

	return (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.path = ch->path->index,
		.channel = cpu_to_le16(ch->index),
		.features = cpu_to_le64(in ? 0 : KRDMA_WIRE_PLACES),
		.incarnation = cpu_to_le64(krdma_incarnation),
		.session = in ? ch->peer.session : cpu_to_le64(sess->serial),
		.uid = cpu_to_le32(in ? 0 : from_kuid(&init_user_ns, sess->uid)),
		.credits = cpu_to_le16(KRDMA_CREDITS),
		.secret = in ? 0 : cpu_to_le64(sess->secret),
		.received = cpu_to_le16(ch->received),
		.messages = cpu_to_le16(ch->messages_received),
	};
}

/* The target's greeting on a channel of a session that it knows. Return: 0 or -EPROTO */
static int krdma_channel_greeted(struct krdma_channel *ch)
{
	const struct krdma_wire_hello *peer = &ch->peer;
	u64 features = le64_to_cpu(peer->features);

	if (le16_to_cpu(peer->channel) == ch->index && peer->path && !peer->uid && !peer->secret &&
	    !(features & ~KRDMA_WIRE_PLACES) && !peer->channels && !peer->resume &&
	    le64_to_cpu(peer->session) == ch->sess->serial &&
	    le64_to_cpu(peer->incarnation) == ch->sess->peer_incarnation) {
		ch->places = features & KRDMA_WIRE_PLACES;
		return 0;
	}
	ch->cause = "the peer's greeting does not fit";
	return -EPROTO;
}

/* A channel is connected: so is its path. */
static void krdma_path_adopt(struct krdma_channel *ch, u8 epoch)
{
	struct krdma_path *path = ch->path;

	spin_lock_bh(&ch->sess->lock);
	/* Its device is another one since: nothing registered there is known any more. */
	if (path->epoch != epoch) {
		path->epoch = epoch;
		WRITE_ONCE(path->era, path->era + 1);
		ch->sess->role->keys_void(ch->sess, path->index);
	}
	ch->sess->role->path_up(ch->sess, path->index);
	memcpy(&path->local, &ch->id->route.addr.src_addr, sizeof(path->local));
	spin_unlock_bh(&ch->sess->lock);
}

/*
 * Does the peer know the session no more? Its module was loaded anew, or the time is over there: so
 * are its grants. Each path that is answered has to say so: an allow-list may refuse one. A path
 * that was never up may lead elsewhere.
 */
static bool krdma_session_unknown(struct krdma_session *sess)
{
	struct krdma_channel *first = sess->ch;
	u32 i, now = first->connections;
	bool unknown = false;

	if (first->rejected == KRDMA_WIRE_REASON_NOT_ADMITTED)
		first->path->unknown = now;
	else if (first->rejected == KRDMA_WIRE_REASON_NONE)
		first->path->silent = now;
	for (i = 0; i < sess->npaths; i++) {
		const struct krdma_path *path = &sess->paths[i];

		if (path->epoch && path->unknown != now && path->silent != now)
			return false;
		unknown |= path->epoch && path->unknown == now;
	}
	return unknown;
}

/* Return: false if it has to be tried again */
static bool krdma_channel_connect(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	struct krdma_wire_hello hello = krdma_channel_hello(ch);
	struct krdma_reserves reserves = {};
	int rc;

	if (!ch->first)
		reserves = krdma_reserves_save(sess);
	rc = krdma_conn_connect(ch, sess->net, &hello, krdma_session_connect_ms(sess));
	krdma_reserves_restore(reserves);
	if (!rc)
		rc = krdma_channel_greeted(ch);
	if (!rc)
		krdma_path_adopt(ch, ch->peer.path);
	if (!rc)
		krdma_session_up(ch);
	if (rc && READ_ONCE(sess->state) == KRDMA_SESSION_UP)
		pr_info_ratelimited("krdma_mover: session %llu has no channel %u: %s (%pe)\n",
				    ch->serial, ch->index, ch->cause ?: "it ended", ERR_PTR(rc));
	if (rc && !ch->first && krdma_session_unknown(sess))
		krdma_session_fail(sess, -ESTALE, "the peer does not know it any more",
				   KRDMA_BYE_ENDED);
	if (rc) {
		krdma_channel_lock(ch);
		krdma_channel_close(ch);
		krdma_channel_unlock(ch);
	}
	/* ORDER: what is down now is taken apart by krdma_channels_ends_work(). */
	krdma_session_begun(ch, 0, NULL);
	return !rc;
}

/* Return: where the attempts are counted, with this one; NULL if there are too many */
static atomic_t *krdma_attempt_begin(const struct krdma_session *sess,
				     const struct krdma_path *path)
{
	u32 hash = krdma_incarnation ^ net_hash_mix(sess->net) ^ __kuid_val(sess->uid);
	struct krdma_sockaddr to, from;
	atomic_t *attempts;

	krdma_addr_to_user(&path->dst, &to);
	krdma_addr_to_user(&path->local, &from);
	hash = jhash(from.addr, sizeof(from.addr), jhash(to.addr, sizeof(to.addr), hash));
	attempts = &krdma_attempts[hash % KRDMA_ATTEMPTS_HASH];
	if (atomic_inc_return(attempts) <= KRDMA_ATTEMPTS)
		return attempts;
	atomic_dec(attempts);
	krdma_stat_inc(KRDMA_STAT_CONNECTS_DEFERRED);
	return NULL;
}

/*
 * Connect a channel, unless it is up. On paths in @lost an attempt has failed, or there are too
 * many: other channels would fail there likewise.
 * Return: false if it has to be tried again
 */
static bool krdma_channel_missing(struct krdma_session *sess, u32 index, u32 *lost, bool *deferred)
{
	struct krdma_channel *ch = krdma_session_slot(sess, index);
	struct krdma_path *path;
	atomic_t *attempts;
	bool done;

	if (ch && READ_ONCE(ch->state) == KRDMA_CHANNEL_UP)
		return true;
	for (;;) {
		path = krdma_path_choose(sess, index, *lost);
		if (!path)
			return false;
		attempts = krdma_attempt_begin(sess, path);
		if (attempts)
			break;
		*deferred = true;
		*lost |= BIT(path->index);
	}
	ch = krdma_channels_begin(sess, index, path);
	if (ch && !index)
		sess->tried |= BIT(path->index);
	done = ch && krdma_channel_connect(ch);
	if (ch && !done)
		*lost |= BIT(path->index);
	atomic_dec(attempts);
	return done;
}

/**
 * krdma_channels_work - connect the channels that are missing
 * @work: of an initiator's session
 *
 * Context: work of session->wq, as it waits for the peer.
 */
void krdma_channels_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, channels_work.work);
	/* Transfers wait for it, so memory is not freed by I/O. */
	unsigned int noio = memalloc_noio_save();
	bool again = false, deferred = false;
	u32 i, pause, most, lost = 0;

	/* The others behind the first: without that there is no path. */
	for (i = 0; i < sess->nchannels && (!i || krdma_session_is_up(sess)); i++)
		again |= !krdma_channel_missing(sess, i, &lost, &deferred);
	spin_lock_bh(&sess->lock);
	most = sess->resuming || deferred || sess->npaths > 1 ? KRDMA_RESUME_PAUSE_MS :
								KRDMA_CHANNEL_PAUSE_MS;
	pause = clamp_t(u32, 2 * sess->pause_ms, KRDMA_CHANNEL_AGAIN_MS, most);
	sess->pause_ms = again ? pause : 0;
	if (again)
		krdma_channels_queue(sess, pause + get_random_u32() % (pause / 2));
	spin_unlock_bh(&sess->lock);
	memalloc_noio_restore(noio);
}

/**
 * krdma_channels_ends_work - take channels apart that were lost
 * @work: of a session
 *
 * Context: work of session->down_wq.
 */
void krdma_channels_ends_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, ends_work);
	unsigned int noio = memalloc_noio_save();
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i)
		if (krdma_channel_gone(ch))
			krdma_channel_end(ch);
	krdma_paths_left(sess);
	spin_lock_bh(&sess->lock);
	/* One was lost; after an attempt that failed krdma_channels_work() chooses the time. */
	if (!sess->pause_ms)
		krdma_channels_queue(sess, KRDMA_CHANNEL_AGAIN_MS);
	spin_unlock_bh(&sess->lock);
	memalloc_noio_restore(noio);
}

/* Compares the addresses, not the ports. */
static bool krdma_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	union ib_gid x, y;

	return !rdma_ip2gid((struct sockaddr *)a, &x) && !rdma_ip2gid((struct sockaddr *)b, &y) &&
	       !memcmp(&x, &y, sizeof(x));
}

/* A path leads from one address, by one listener, for as long as the session lasts. */
static bool krdma_path_admits(struct krdma_path *path, const struct rdma_cm_id *id,
			      const struct krdma_path *from)
{
	bool admits;

	mutex_lock(&path->lock);
	if (!path->listener) {
		path->listener = from->listener;
		path->host = from->host;
		memcpy(&path->dst, &id->route.addr.dst_addr, sizeof(path->dst));
		memcpy(&path->local, &id->route.addr.src_addr, sizeof(path->local));
	}
	/* On InfiniBand the host is a port, and the address may have moved to another one. */
	admits = path->listener == from->listener &&
		 (!memcmp(&path->host, &from->host, sizeof(path->host)) ||
		  krdma_addr_same_host(&path->dst, &id->route.addr.dst_addr));
	mutex_unlock(&path->lock);
	return admits;
}

/* The peer connects it anew: it knows that the last connection is lost. */
static void krdma_channels_replaced(struct krdma_session *sess, u32 index)
{
	struct krdma_channel *ch = krdma_session_slot(sess, index);

	if (ch)
		krdma_channel_broken(ch, "the peer connects it again");
}

/**
 * krdma_channels_accept - accept a channel of an inbound session that there is
 * @sess: session
 * @id: its new id; stays rdma_cm's on failure
 * @from: where it comes from: ->host, ->listener
 * @hello: the initiator's greeting; its secret is right
 * @peer: its connection parameters
 *
 * Context: rdma_cm handler of @id.
 * Return: NULL, or why it is not accepted
 */
const char *krdma_channels_accept(struct krdma_session *sess, struct rdma_cm_id *id,
				  const struct krdma_path *from,
				  const struct krdma_wire_hello *hello,
				  const struct rdma_conn_param *peer)
{
	struct krdma_path *path = &sess->paths[array_index_nospec(hello->path, KRDMA_PATHS_MAX)];
	u32 index = array_index_nospec(le16_to_cpu(hello->channel), KRDMA_CHANNELS_MAX);
	struct krdma_wire_hello mine;
	struct krdma_channel *ch;
	const char *cause;
	int rc;

	if (!krdma_path_admits(path, id, from))
		return "its path is another one";
	ch = krdma_channels_begin(sess, index, path);
	if (!ch) {
		krdma_channels_replaced(sess, index);
		return "the channel is not free yet";
	}
	ch->peer = *hello;
	mine = krdma_channel_hello(ch);
	rc = krdma_conn_accept(ch, id, &mine, peer);
	cause = rc ? ch->cause ?: "it could not be accepted" : NULL;
	if (rc) {
		krdma_channel_lock(ch);
		krdma_channel_close(ch);
		krdma_channel_unlock(ch);
	}
	krdma_channel_lock(ch);
	if (ch->state == KRDMA_CHANNEL_CONNECTING)
		krdma_channel_tick_by(ch, ktime_add_ms(ktime_get(), KRDMA_ESTABLISH_MS));
	krdma_channel_unlock(ch);
	krdma_session_begun(ch, 0, NULL);
	return cause;
}
