/* SPDX-License-Identifier: GPL-2.0 */
/* What operators see of sessions; part of session.h. */
#ifndef KRDMA_OBSERVE_H
#define KRDMA_OBSERVE_H

#include <linux/types.h>

struct krdma_listener;
struct krdma_path;
struct krdma_session;

/* What READs and WRITEs have moved, all told: of a region, or as a peer reports of a grant. */
struct krdma_used {
	u64 read_bytes;
	u64 written_bytes;
	u64 reads;
	u64 writes;
};

/* What an initiator reports of its regions (USAGE); session->lock. */
struct krdma_usage {
	bool wanted; /* the peer knows the feature; does not change when the session is up */
	bool busy;   /* a report is under way */
	bool again;  /* there was no room for all, or one has failed */
	bool more;   /* there was no room for all: the round goes on */
	u32 round;
	u64 transfers;    /* of the session, when it was looked at last */
	unsigned long at; /* jiffies: the same */
};

/* event.c */
void krdma_session_event(struct krdma_session *sess, u32 type, const struct krdma_path *path,
			 int err, const char *cause);
void krdma_paths_event(struct krdma_session *sess, const char *cause);
void krdma_listener_event(const struct krdma_listener *l, u32 type);

#endif /* KRDMA_OBSERVE_H */
