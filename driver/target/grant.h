/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of target/ share: grants and their segments. */
#ifndef KRDMA_GRANT_H
#define KRDMA_GRANT_H

#include "target/target.h"

/* Times, milliseconds, longer by the channel's timeout_scale. */
/* From the begin of a RECALL to its reply, with the wait for a credit. */
#define KRDMA_RECLAIM_MS (2 * KRDMA_REQUEST_MS)
/* Longer than a RECALL that gets no reply, which ends its session; less than KRDMA_SERVICE_MS. */
#define KRDMA_SHED_MS       (KRDMA_RECLAIM_MS + 2000)
#define KRDMA_SHED_AGAIN_MS 100
/* Segments that are held are prepared for so long before a reply: others may wait for theirs. */
#define KRDMA_AHEAD_MS 1000
/* A takeover is tried again within this; until then no other OPEN may come between. */
#define KRDMA_TAKER_MS 2000
/* Connections that may be lost while the same segments are registered. */
#define KRDMA_REGISTER_TRIES 4
/* Services that wait for others at a time. */
#define KRDMA_SHED_WAITERS 64

/* A segment registered for one peer. Only the session's service touches it. */
struct krdma_seg {
	struct krdma_grant *grant;
	struct list_head node; /* session->segs, coldest first */
	u64 index;
	bool busy;           /* needed by the request in work */
	bool recalled;       /* a RECALL of it is under way */
	bool lost;           /* a registration of it could not be ended: nor can its pages be */
	struct page **pages; /* of a file: pages taken; else NULL */
	unsigned int npages;
	u32 length;
	struct krdma_seg_key *keys[KRDMA_PATHS_MAX]; /* by path; NULL: none */
};

/* A segment as it is registered for a path. */
struct krdma_seg_key {
	struct krdma_seg *seg;
	struct krdma_path *path;
	struct ib_mr *mr; /* NULL: has ended before */
	bool valid;       /* registered: the key may be alive */
	u32 room;         /* pages that ->mr can have */
	struct sg_table sgt;
	struct ib_cqe cqe;
	struct ib_reg_wr wr; /* the latest: a registration, or only ->wr.wr, an invalidation */
};

/**
 * krdma_seg_valid - may a key of a segment be alive?
 * @seg: segment
 *
 * Return: true if so
 */
static inline bool krdma_seg_valid(const struct krdma_seg *seg)
{
	u32 p;

	for (p = 0; p < KRDMA_PATHS_MAX; p++)
		if (seg->keys[p] && seg->keys[p]->valid)
			return true;
	return false;
}

/**
 * krdma_hold_max - how many segments may be held
 * @max: most segments that there may be
 *
 * Return: their number; an eighth, and at least one, is left to be recalled
 */
static inline u32 krdma_hold_max(u32 max)
{
	return max - max(max / 8, 1U);
}

/**
 * krdma_rights_change - do these rights allow a change of memory?
 * @rights: KRDMA_RIGHT_*
 *
 * Return: true if so
 */
static inline bool krdma_rights_change(u32 rights)
{
	return rights & (KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC);
}

/* backing.c: files that exports are of */
int krdma_backing_check(struct krdma_export *export, u64 offset, u64 length, bool writable,
			struct krdma_error *error);
int krdma_backing_has(const struct krdma_export *export, u64 offset, u64 length,
		      struct krdma_error *error);
int krdma_backing_get(struct krdma_export *export, pgoff_t first, unsigned int n,
		      struct page **pages, struct krdma_error *error);
void krdma_backing_put(struct page **pages, unsigned int n);
int krdma_backing_hold(struct krdma_export *export, pgoff_t first, unsigned int n,
		       struct page **pages, struct krdma_error *error);
void krdma_backing_release(struct krdma_export *export, struct page **pages, unsigned int n,
			   bool dirty);
void krdma_backing_end(struct krdma_export *export);

/* segment.c: keys for a peer */
struct krdma_seg *krdma_seg_prepare(struct krdma_grant *grant, u64 index, struct krdma_path *path);
int krdma_seg_key_prepare(struct krdma_seg *seg, struct krdma_path *path);
int krdma_segs_register(struct krdma_session *sess, struct krdma_path *path,
			struct krdma_seg_key **keys, u32 n);
void krdma_seg_unregistered(struct krdma_seg *seg, struct krdma_path *path);
int krdma_segs_invalidate(struct krdma_session *sess, struct krdma_seg **segs, u32 n);
int krdma_segs_fence(struct krdma_session *sess);
void krdma_segs_path_gone(struct krdma_session *sess, struct krdma_path *path);
void krdma_seg_free(struct krdma_seg *seg);

/* grant.c: exports opened by a session, and their segments */
void krdma_segments_wake(void);
struct krdma_seg *krdma_segment_get(struct krdma_grant *grant, u64 index, struct krdma_path *path,
				    bool needed, unsigned long until);
u32 krdma_segments_coldest(struct krdma_grant *grant, struct krdma_seg **segs, u32 most);
int krdma_grant_end(struct krdma_grant *grant);
void krdma_grant_free(struct krdma_grant *grant);
void krdma_grant_lacks(struct krdma_grant *grant);
void krdma_grant_over(struct krdma_grant *grant, const char *cause);
bool krdma_grant_matters(const struct krdma_grant *grant);
int krdma_grant_admit(struct krdma_grant *grant, u32 flags);
int krdma_grant_grow(struct krdma_grant *grant);
void krdma_grants_release(struct krdma_session *sess);

/* Have others left a note for the service? */
static inline bool krdma_grant_noted(const struct krdma_grant *grant)
{
	return READ_ONCE(grant->shed) || (READ_ONCE(grant->revoke) && !grant->revoking);
}

/* reclaim.c: keys taken back from the peer */
int krdma_grant_recall(struct krdma_grant *grant, u32 want);
void krdma_grant_revoke(struct krdma_grant *grant);
void krdma_reclaims_forget(struct krdma_grant *grant);
int krdma_reclaims_finish(struct krdma_session *sess, const struct krdma_grant *except);
void krdma_reclaims_tick(struct krdma_session *sess);
void krdma_reclaims_drop(struct krdma_session *sess);

/* service.c: replies to what the peer requests of exports */
bool krdma_service_left(const struct krdma_session *sess);
int krdma_service_notes(struct krdma_session *sess, const struct krdma_grant *except);

/* queue.c: the queue of an export */
struct krdma_message_queue *krdma_message_queue_new(krdma_receive_fn fn, void *priv);
void krdma_message_queue_end(struct krdma_message_queue *queue);
void krdma_message_queue_put(struct krdma_message_queue *queue);

/* message.c: messages that come */
void krdma_senders_init(struct krdma_session *sess);
int krdma_sender_open(struct krdma_grant *grant);
void krdma_sender_close(struct krdma_grant *grant);
const char *krdma_message_came(struct krdma_session *sess, struct krdma_rx *rx,
			       const union krdma_wire_msg *msg);
void krdma_messages_reply(struct krdma_session *sess);

/* usage.c: what peers report */
void krdma_grant_used(struct krdma_grant *grant, const struct krdma_wire_used *told);
int krdma_serve_usage(struct krdma_session *sess, const struct krdma_wire_usage *msg, void *buf);

/* digest.c */
extern struct semaphore krdma_service_sem;
int krdma_digest_grant(struct krdma_grant *grant, u64 offset, u32 length, u32 *value);

/* flush.c */
int krdma_flush_grant(const struct krdma_grant *grant, u64 offset, u64 length);

#endif /* KRDMA_GRANT_H */
