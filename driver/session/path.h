/* SPDX-License-Identifier: GPL-2.0 */
/* Paths of a session, and the fence of a lost channel; part of session.h. */
#ifndef KRDMA_PATH_H
#define KRDMA_PATH_H

#include "rdma/rdma.h"
#include "session/rpc.h"

/* Where a path leads. */
struct krdma_route {
	struct sockaddr_storage dst; /* the peer */
	struct sockaddr_storage src; /* AF_UNSPEC for any */
};

/*
 * The fence of a channel for data, whose connection is lost: at the initiator the request for
 * it, at the target the reply.
 */
struct krdma_fence {
	struct krdma_session *sess;

	/* initiator; session->lock */
	struct krdma_channel *ch;
	struct delayed_work work;
	struct krdma_credit credit;
	u32 connection; /* that is lost: channel->connections */
	u32 qp_num;     /* that it had */
	u32 asked;      /* the connection of the request under way */
	bool wanted;    /* a request is to be sent */
	bool busy;      /* one is under way */

	/* target; channel->lock */
	struct krdma_tx *tx; /* for the reply; NULL: nobody has asked */
	__le32 tag;
};

/* path.c: paths, and the fence of a lost channel */
void krdma_paths_init(struct krdma_session *sess);
void krdma_paths_release(struct krdma_session *sess);
struct krdma_channel *krdma_path_up(const struct krdma_session *sess,
				    const struct krdma_path *path);
bool krdma_paths_leave(struct krdma_session *sess, const struct krdma_device *dev);
void krdma_paths_left(struct krdma_session *sess);
void krdma_path_moved(struct krdma_channel *ch);
bool krdma_path_left(const struct krdma_session *sess, const struct krdma_path *path);
struct krdma_path *krdma_path_choose(struct krdma_session *sess, u32 index, u32 except);
struct krdma_channel *krdma_path_channel(const struct krdma_session *sess, u32 cpu);
u32 krdma_paths_poll(const struct krdma_session *sess);
void krdma_fence_init(struct krdma_session *sess, u32 index);
void krdma_fence_ask(struct krdma_channel *ch);
bool krdma_fence_serve(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
		       const struct krdma_wire_fence *msg);
void krdma_fence_reply(struct krdma_channel *ch);
void krdma_fences_drop(struct krdma_session *sess);

#endif /* KRDMA_PATH_H */
