// SPDX-License-Identifier: GPL-2.0
/*
 * The paths of a session, and the fence of a channel that is lost.
 *
 * Each channel for data has its path, for good: if that is lost, so is the channel until the path
 * is back, and the others do the work. The first channel goes where there is a way: when its
 * connection is lost, it is connected again over another path on which a channel is up, or over
 * one after the other. So control needs no path of its own.
 *
 * The initiator tells the target which connection it has lost (FENCE). The reply comes when the
 * target has destroyed its queue pair, so that nothing of what was posted there can arrive any
 * more: then WRITEs are done again elsewhere, though the path may be away for long.
 */
#include <linux/nospec.h>
#include <linux/percpu.h>

#include "session/path_choice.h"
#include "session/session.h"

/* A latency that is older than so many operations is measured anew; a power of two. */
#define KRDMA_LATENCY_AGAIN 32

static DEFINE_PER_CPU(u32, krdma_path_turn);

/**
 * krdma_paths_init - begin with the paths of a session
 * @sess: session, new
 *
 * Context: process.
 */
void krdma_paths_init(struct krdma_session *sess)
{
	u32 i;

	for (i = 0; i < KRDMA_PATHS_MAX; i++) {
		mutex_init(&sess->paths[i].lock);
		sess->paths[i].index = i;
	}
	sess->npaths = 1;
	for (i = 0; i < KRDMA_CHANNELS_MAX; i++)
		krdma_fence_init(sess, i);
}

/**
 * krdma_paths_release - give back what the paths of a session stand on
 * @sess: session without a channel, and without a registration
 *
 * Context: process.
 */
void krdma_paths_release(struct krdma_session *sess)
{
	u32 i;

	for (i = 0; i < KRDMA_PATHS_MAX; i++)
		krdma_path_release(&sess->paths[i]);
}

/**
 * krdma_path_up - is there a channel on a path that is up?
 * @sess: session
 * @path: path of it
 *
 * Context: any; a hint.
 * Return: the first of these channels; NULL if there is none
 */
struct krdma_channel *krdma_path_up(const struct krdma_session *sess, const struct krdma_path *path)
{
	struct krdma_channel *ch;
	u32 i;

	krdma_for_each_channel(ch, sess, i)
		if (READ_ONCE(ch->path) == path && READ_ONCE(ch->state) == KRDMA_CHANNEL_UP)
			return ch;
	return NULL;
}

/* A channel's device goes. Return: false if the session can't do without */
static bool krdma_channel_leave(struct krdma_channel *ch, const struct krdma_device *dev)
{
	const char *cause = "the RDMA device was removed";
	bool outlives;

	spin_lock(&ch->lock);
	outlives = ch->first || ch->resumes || ch->dev != dev;
	if (outlives && ch->dev == dev) {
		/* A connect that waits for an event. */
		if (ch->state == KRDMA_CHANNEL_CONNECTING)
			krdma_channel_close(ch);
		else
			krdma_channel_broken_locked(ch, cause);
		complete(&ch->cm_done);
	}
	krdma_channel_unlock_later(ch);
	return outlives;
}

/**
 * krdma_paths_leave - a device goes: so do the channels on it
 * @sess: session
 * @dev: the device, which is not used anew
 *
 * Context: process.
 * Return: false if the session does not outlive that
 */
bool krdma_paths_leave(struct krdma_session *sess, const struct krdma_device *dev)
{
	bool outlives;
	struct krdma_channel *ch;
	u32 i;

	spin_lock_bh(&sess->lock);
	outlives = sess->state == KRDMA_SESSION_UP;
	for (i = 0; i < KRDMA_PATHS_MAX && outlives; i++)
		if (READ_ONCE(sess->paths[i].dev) == dev)
			WRITE_ONCE(sess->paths[i].gone, true);
	krdma_for_each_channel(ch, sess, i)
		outlives = outlives && krdma_channel_leave(ch, dev);
	/* Perhaps no channel is on it. */
	if (outlives)
		queue_work(sess->down_wq, &sess->ends_work);
	wake_up_all(&sess->wait);
	spin_unlock_bh(&sess->lock);
	return outlives;
}

/**
 * krdma_path_moved - a path's address belongs to another device now
 * @ch: channel that is being connected over the path: it fails
 *
 * Its other channels have queue pairs on the device of before: they are lost, unless the session
 * ends without one of them. If there is none, what is registered for that device ends when @ch is
 * taken apart. Then the path has no device, until a channel is connected over it again.
 *
 * Context: process, path->lock held.
 */
void krdma_path_moved(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	struct krdma_channel *other, *first = sess->ch;
	u32 i;

	spin_lock_bh(&sess->lock);
	if (sess->state == KRDMA_SESSION_UP && !ch->path->users)
		WRITE_ONCE(ch->path->gone, true);
	/* The first one has to stay, and works: so may the others. */
	if (first != ch && READ_ONCE(first->path) == ch->path && !READ_ONCE(first->resumes))
		goto out;
	krdma_for_each_channel(other, sess, i) {
		if (other == ch)
			continue;
		spin_lock(&other->lock);
		if (other->path == ch->path && other->state == KRDMA_CHANNEL_UP)
			krdma_channel_broken_locked(other, "its address has another RDMA device");
		krdma_channel_unlock_later(other);
	}
out:
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_path_left - is nothing left on a path whose device goes but what is registered for it?
 * @sess: session
 * @path: path of it
 *
 * Context: any.
 * Return: true if so
 */
bool krdma_path_left(const struct krdma_session *sess, const struct krdma_path *path)
{
	struct krdma_channel *ch;
	u32 i;

	if (!READ_ONCE(path->gone))
		return false;
	krdma_for_each_channel(ch, sess, i)
		if (READ_ONCE(ch->path) == path && READ_ONCE(ch->state) != KRDMA_CHANNEL_DEAD)
			return false;
	return true;
}

/**
 * krdma_paths_left - give back devices that go
 * @sess: session
 *
 * Context: work, one at a time for a session.
 */
void krdma_paths_left(struct krdma_session *sess)
{
	u32 i;

	for (i = 0; i < KRDMA_PATHS_MAX; i++)
		if (krdma_path_left(sess, &sess->paths[i]))
			sess->role->path_gone(sess, &sess->paths[i]);
}

/**
 * krdma_path_choose - the path over which a channel is connected next
 * @sess: outbound session
 * @index: of the channel
 * @except: bits of paths that are not to be tried now
 *
 * The first channel tries each in turn (krdma_path_next()), each further one has its own.
 *
 * Context: a work of the session that connects.
 * Return: the path; NULL if there is none but those
 */
struct krdma_path *krdma_path_choose(struct krdma_session *sess, u32 index, u32 except)
{
	struct krdma_path *path;
	u32 i, up = 0;

	if (index) {
		path = &sess->paths[(index - 1) % sess->npaths];
		return except & BIT(path->index) ? NULL : path;
	}
	for (i = 0; i < sess->npaths; i++)
		if (krdma_path_up(sess, &sess->paths[i]))
			up |= BIT(i);
	i = krdma_path_next(sess->npaths, sess->ch->path->index, up, except,
			    sess->options.flags & KRDMA_CONNECT_FAIL_FAST, &sess->tried);
	return i < sess->npaths ? &sess->paths[i] : NULL;
}

/* By the policy, of the channels of a processor, one for each path, the one to be used. */
static bool krdma_path_better(const struct krdma_session *sess, const struct krdma_channel *ch,
			      const struct krdma_channel *best)
{
	if (sess->options.policy == KRDMA_POLICY_LATENCY)
		return READ_ONCE(ch->latency) < READ_ONCE(best->latency);
	if (sess->options.policy != KRDMA_POLICY_IN_FLIGHT)
		return false;
	/* A hint, without the channels' locks. */
	return data_race(ch->ntransfers) < data_race(best->ntransfers);
}

/*
 * The channels for data of a processor, one for each path, follow each other.
 * Return: the index of the first, and their number; 0 and 1 if the first channel has all
 */
static u32 krdma_path_group(const struct krdma_session *sess, u32 cpu, u32 *paths)
{
	u32 n = READ_ONCE(sess->nchannels) - 1;

	*paths = min(sess->npaths, n);
	if (*paths)
		return 1 + cpu % (n / *paths) * *paths;
	*paths = 1;
	return 0;
}

/**
 * krdma_path_channel - the channel for data of a processor, where there are several paths
 * @sess: session
 * @cpu: any number
 *
 * Context: any; another processor's does no harm.
 * Return: a channel; the first if none for data is up
 */
struct krdma_channel *krdma_path_channel(const struct krdma_session *sess, u32 cpu)
{
	u32 paths, i, turn, first = krdma_path_group(sess, cpu, &paths);
	struct krdma_channel *ch, *best = NULL;

	if (!first)
		return sess->ch;
	turn = this_cpu_inc_return(krdma_path_turn);
	for (i = 0; i < paths; i++) {
		ch = krdma_session_slot(sess, first + (turn + i) % paths);
		if (!ch || READ_ONCE(ch->state) != KRDMA_CHANNEL_UP)
			continue;
		if (!best || krdma_path_better(sess, ch, best))
			best = ch;
		/* It is its turn, to be measured. */
		if (ch->measures && !(turn / paths % KRDMA_LATENCY_AGAIN))
			break;
	}
	return best ?: sess->ch;
}

/**
 * krdma_paths_poll - handle completions of the channels for data of this processor
 * @sess: session
 *
 * Context: as for krdma_conn_poll().
 * Return: the completions
 */
u32 krdma_paths_poll(const struct krdma_session *sess)
{
	u32 paths, i, found = 0, first = krdma_path_group(sess, raw_smp_processor_id(), &paths);
	struct krdma_channel *ch;

	for (i = 0; i < paths; i++) {
		ch = krdma_session_slot(sess, first + i);
		if (ch)
			found += krdma_conn_poll(ch);
	}
	return found;
}

/* ---- the fence ---- */

/* Jiffies until it is asked for again, where memory was short. */
#define KRDMA_FENCE_AGAIN (HZ / 10)

static void krdma_fence_replied(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err)
{
	struct krdma_fence *fence = rpc->arg;
	struct krdma_session *sess = fence->sess;
	u32 connection;

	spin_lock_bh(&sess->lock);
	connection = fence->asked;
	fence->busy = false;
	/* It may be lost again since. */
	fence->wanted = fence->connection != connection && sess->state == KRDMA_SESSION_UP;
	if (fence->wanted)
		queue_delayed_work(krdma_rpc_wq, &fence->work, 0);
	spin_unlock_bh(&sess->lock);
	if (!err)
		fence->ch->data->fenced(fence->ch, connection);
}

/* Ask for the end of the target's queue pair. */
static void krdma_fence_work(struct work_struct *work)
{
	struct krdma_fence *fence = container_of(work, struct krdma_fence, work.work);
	struct krdma_session *sess = fence->sess;
	struct krdma_wire_fence *msg;
	struct krdma_rpc *rpc = NULL;
	u32 qp_num;
	bool ask;

	/* If it has to wait, it is queued again. */
	if (!krdma_credit_take(sess, &fence->credit))
		return;
	spin_lock_bh(&sess->lock);
	/* A later connection is a fence, too. */
	ask = fence->wanted && !fence->busy &&
	      READ_ONCE(fence->ch->connections) == fence->connection;
	qp_num = fence->qp_num;
	if (ask) {
		fence->wanted = false;
		fence->busy = true;
		fence->asked = fence->connection;
	}
	spin_unlock_bh(&sess->lock);
	if (ask)
		rpc = krdma_rpc_new(sess, krdma_fence_replied, fence);
	msg = rpc ? krdma_credit_build(&fence->credit, KRDMA_WIRE_FENCE, sizeof(*msg), 0) : NULL;
	if (msg) {
		msg->channel = cpu_to_le32(fence->ch->index);
		msg->qp_num = cpu_to_le32(qp_num);
	}
	if (ask && (!rpc || krdma_rpc_post(sess, &fence->credit, rpc))) {
		spin_lock_bh(&sess->lock);
		fence->busy = false;
		fence->wanted = sess->state == KRDMA_SESSION_UP;
		if (fence->wanted)
			queue_delayed_work(krdma_rpc_wq, &fence->work, KRDMA_FENCE_AGAIN);
		spin_unlock_bh(&sess->lock);
	}
	krdma_credit_put(sess, &fence->credit);
	krdma_rpc_put(rpc);
}

/**
 * krdma_fence_init - no connection of a channel is lost yet
 * @sess: session
 * @index: of the channel
 *
 * Context: process.
 */
void krdma_fence_init(struct krdma_session *sess, u32 index)
{
	struct krdma_fence *fence = &sess->fences[index];

	fence->sess = sess;
	INIT_DELAYED_WORK(&fence->work, krdma_fence_work);
	krdma_credit_init(&fence->credit, &fence->work.work);
}

/**
 * krdma_fence_ask - a connection of this host is taken apart: let the target do the same
 * @ch: channel for data, of an outbound session
 *
 * Context: process.
 */
void krdma_fence_ask(struct krdma_channel *ch)
{
	struct krdma_session *sess = ch->sess;
	struct krdma_fence *fence = &sess->fences[ch->index];

	spin_lock_bh(&sess->lock);
	/* Not of an attempt to connect again, which was never up. */
	if (fence->connection != ch->connections) {
		fence->ch = ch;
		fence->connection = ch->connections;
		fence->qp_num = ch->qp_num;
	}
	fence->wanted = sess->state == KRDMA_SESSION_UP && !fence->busy &&
			ch->fenced_connection != ch->connections;
	if (fence->wanted)
		queue_delayed_work(krdma_rpc_wq, &fence->work, 0);
	spin_unlock_bh(&sess->lock);
}

/**
 * krdma_fence_serve - the initiator has lost a connection, and asks for its end here
 * @sess: inbound session
 * @rx: receive of the request, posted again here
 * @tx: buffer for the reply
 * @msg: the request
 *
 * Context: rx_work.
 * Return: false if @tx is not used: the session ends
 */
bool krdma_fence_serve(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
		       const struct krdma_wire_fence *msg)
{
	u32 index = array_index_nospec(le32_to_cpu(msg->channel), KRDMA_CHANNELS_MAX);
	struct krdma_channel *ch = krdma_session_slot(sess, index);
	struct krdma_fence *fence = &sess->fences[index];
	u32 qp_num = le32_to_cpu(msg->qp_num);
	__le32 tag = msg->hdr.tag;
	bool lives = false, twice = false;

	if (krdma_post_rx(sess->ch, rx))
		return false;
	if (ch) {
		krdma_channel_lock(ch);
		/* Another connection is made only when that one is gone. */
		lives = ch->state != KRDMA_CHANNEL_DEAD && ch->peer_qp_num == qp_num;
		twice = lives && fence->tx;
		if (lives && !twice) {
			fence->tx = tx;
			fence->tag = tag;
			krdma_channel_broken_locked(ch, "the peer has lost it");
		}
		krdma_channel_unlock(ch);
	}
	if (twice)
		krdma_session_protocol(sess, "two fences of a channel");
	else if (!lives)
		krdma_reply_status(sess, tx, KRDMA_WIRE_FENCE, tag, KRDMA_WIRE_OK);
	return !twice;
}

/**
 * krdma_fence_reply - a connection is taken apart: reply, if the peer has asked for it
 * @ch: channel of an inbound session, dead
 *
 * Context: process.
 */
void krdma_fence_reply(struct krdma_channel *ch)
{
	struct krdma_fence *fence = &ch->sess->fences[ch->index];
	struct krdma_tx *tx;
	__le32 tag;

	krdma_channel_lock(ch);
	tx = fence->tx;
	tag = fence->tag;
	fence->tx = NULL;
	krdma_channel_unlock(ch);
	if (tx)
		krdma_reply_status(ch->sess, tx, KRDMA_WIRE_FENCE, tag, KRDMA_WIRE_OK);
}

/**
 * krdma_fences_drop - forget the fences of a session
 * @sess: session that goes down, whose requests have failed
 *
 * Context: down_work.
 */
void krdma_fences_drop(struct krdma_session *sess)
{
	u32 i;

	for (i = 0; i < KRDMA_CHANNELS_MAX; i++) {
		struct krdma_fence *fence = &sess->fences[i];

		cancel_delayed_work_sync(&fence->work);
		krdma_credit_put(sess, &fence->credit);
		if (fence->tx)
			krdma_post_tx_put(sess->ch, fence->tx);
		fence->tx = NULL;
	}
}
