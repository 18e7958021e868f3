// SPDX-License-Identifier: GPL-2.0
/*
 * The first channel of a session that is new: connected by this host, over one of its paths, or
 * accepted. What the two say of themselves, and what they agree on (Documentation/wire.rst,
 * "Hello"), counts for all of the session's life. Other channels, and the first once more, are
 * channels.c's.
 */
#include <linux/delay.h>
#include <linux/random.h>

#include "session/session.h"

/* A connect that met a connection of before is tried again after this. */
#define KRDMA_STALE_MS 100

/* Of an initiator what it wants, of a target what is used; PLACES is for krdma_conn_accept(). */
static u64 krdma_session_features(const struct krdma_session *sess)
{
	return (sess->messages ? KRDMA_WIRE_MESSAGES : 0) |
	       (sess->usage.wanted ? KRDMA_WIRE_USAGES : 0) | (sess->grows ? KRDMA_WIRE_GROWS : 0) |
	       (sess->inbound ? 0 : KRDMA_WIRE_PLACES);
}

static struct krdma_wire_hello krdma_session_hello(const struct krdma_session *sess)
{
	bool in = sess->inbound;

	return (struct krdma_wire_hello){
		.magic = cpu_to_le32(KRDMA_WIRE_MAGIC),
		.version = KRDMA_WIRE_VERSION,
		.features = cpu_to_le64(krdma_session_features(sess)),
		.incarnation = cpu_to_le64(krdma_incarnation),
		.session = in ? sess->ch->peer.session : cpu_to_le64(sess->serial),
		.uid = cpu_to_le32(in ? 0 : from_kuid(&init_user_ns, sess->uid)),
		.credits = cpu_to_le16(KRDMA_CREDITS),
		.message_credits = cpu_to_le16(sess->messages && in ? KRDMA_MESSAGE_CREDITS : 0),
		.secret = cpu_to_le64(in ? sess->secret : 0),
		.channels = cpu_to_le16(sess->nchannels),
		.resume = cpu_to_le16(sess->resume_s),
	};
}

/* Of the peer's greeting, and where the connection is: what counts from here on. */
static void krdma_session_adopt(struct krdma_session *sess, const struct rdma_cm_id *id)
{
	const struct krdma_wire_hello *peer = &sess->ch->peer;

	spin_lock_bh(&sess->lock);
	sess->peer_incarnation = le64_to_cpu(peer->incarnation);
	sess->credits.size = min_t(u32, le16_to_cpu(peer->credits), KRDMA_CREDITS);
	memcpy(&sess->ch->path->local, &id->route.addr.src_addr, sizeof(sess->ch->path->local));
	spin_unlock_bh(&sess->lock);
}

/* The greeting of the peer that this host has connected to. Return: 0 or -EPROTO */
static int krdma_session_greeted(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	u64 features = le64_to_cpu(ch->peer.features);
	u32 channels = le16_to_cpu(ch->peer.channels), resume = le16_to_cpu(ch->peer.resume);
	bool one = channels <= 1 && !resume;

	if (ch->peer.channel || le64_to_cpu(ch->peer.session) != sess->serial || ch->peer.uid ||
	    features & ~krdma_session_features(sess) ||
	    !(features & KRDMA_WIRE_MESSAGES) != !ch->peer.message_credits ||
	    channels > sess->nchannels || !ch->peer.secret != one || (ch->iwarp && channels > 1) ||
	    resume > sess->resume_s || ch->peer.received || ch->peer.messages || !ch->peer.path) {
		ch->cause = "the peer's greeting does not fit";
		return -EPROTO;
	}
	ch->cause = NULL;
	ch->messages = features & KRDMA_WIRE_MESSAGES;
	ch->places = features & KRDMA_WIRE_PLACES;
	sess->usage.wanted = features & KRDMA_WIRE_USAGES;
	sess->grows = features & KRDMA_WIRE_GROWS;
	/* As many for each path; or the first alone, which goes over any. */
	channels = max_t(u32, channels, 1) - 1;
	sess->nchannels = 1 + channels - channels % sess->npaths;
	ch->path->epoch = ch->peer.path;
	sess->secret = le64_to_cpu(ch->peer.secret);
	sess->resume_s = resume;
	sess->role->established(sess);
	krdma_session_adopt(sess, ch->id);
	return 0;
}

/**
 * krdma_session_accept - accept the first channel of an inbound session
 * @sess: session, connecting
 * @id: its new id; stays rdma_cm's on failure
 * @hello: the initiator's greeting
 * @peer: its connection parameters
 *
 * Context: rdma_cm handler of @id.
 * Return: 0 or a negative errno
 */
int krdma_session_accept(struct krdma_session *sess, struct rdma_cm_id *id,
			 const struct krdma_wire_hello *hello, const struct rdma_conn_param *peer)
{
	struct krdma_channel *ch = sess->ch;
	struct krdma_path *path = ch->path;
	struct krdma_wire_hello mine;

	path->listener = sess->listener;
	path->host = sess->host;
	path->dst = sess->dst;
	ch->peer = *hello;
	ch->messages = sess->messages;
	/* On iWARP the fence of a dead key is that of one stream, krdma_rpc_fence(). */
	if (!rdma_protocol_iwarp(id->device, id->port_num))
		sess->nchannels = krdma_channels_granted(le16_to_cpu(hello->channels));
	sess->resume_s = min_t(u32, le16_to_cpu(hello->resume), krdma_session_resume_wanted(sess));
	sess->secret = sess->nchannels > 1 || sess->resume_s ? get_random_u64() | 1 : 0;
	/* ORDER: it may be up before rdma_accept() returns. */
	krdma_session_adopt(sess, id);
	mine = krdma_session_hello(sess);
	return krdma_conn_accept(ch, id, &mine, peer);
}

/*
 * The first channel is not connected: begin anew over the next path; or over the last one again,
 * where only a connection of before is in the way. Return: false: no more
 */
static bool krdma_session_next_path(struct krdma_session *sess)
{
	struct krdma_channel *ch = sess->ch;
	u32 next = ch->path->index + 1;
	bool begun, stale = ch->stale && next == sess->npaths;

	if (stale)
		next = ch->path->index;
	if (next == sess->npaths || ch->rejected)
		return false;
	spin_lock_bh(&sess->lock);
	if (ch->attached)
		atomic_dec(&ch->dev->beginning);
	ch->attached = false;
	spin_unlock_bh(&sess->lock);
	krdma_channel_lock(ch);
	krdma_channel_close(ch);
	krdma_channel_unlock(ch);
	krdma_channel_end(ch);
	/* Until the tick ends the session. */
	if (stale)
		msleep(KRDMA_STALE_MS);
	spin_lock_bh(&sess->lock);
	begun = sess->state == KRDMA_SESSION_CONNECTING;
	if (begun)
		krdma_channel_begin(ch, &sess->paths[next]);
	spin_unlock_bh(&sess->lock);
	return begun;
}

/**
 * krdma_session_connect_work - connect the first channel, over the first path that works
 * @work: of an outbound session
 *
 * Context: work of session->wq, as it waits for the peer.
 */
void krdma_session_connect_work(struct work_struct *work)
{
	struct krdma_session *sess = container_of(work, struct krdma_session, connect_work);
	u32 limit_ms = krdma_session_connect_ms(sess) / sess->npaths;
	struct krdma_wire_hello hello;
	int rc;

	sess->nchannels = krdma_channels_wanted(sess->npaths);
	sess->usage.wanted = true;
	sess->grows = true;
	sess->resume_s = krdma_session_resume_wanted(sess);
	hello = krdma_session_hello(sess);
	do {
		hello.path = sess->ch->path->index;
		rc = krdma_conn_connect(sess->ch, sess->net, &hello, limit_ms);
	} while (rc && krdma_session_next_path(sess));
	if (!rc)
		rc = krdma_session_greeted(sess);
	if (!rc)
		krdma_session_up(sess->ch);
	krdma_session_begun(sess->ch, rc, sess->ch->cause);
}
