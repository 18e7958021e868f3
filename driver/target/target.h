/* SPDX-License-Identifier: GPL-2.0 */
/*
 * target/: whoever publishes memory of this host.
 *
 * An export has a name, rights and memory: an address range, a file, or pages of another module.
 * A grant is an export that one session has opened, and has segments, each with a key of its own
 * for that peer. The service of a session (service.c) replies to the peer's requests, registers
 * segments (grant.c, segment.c, backing.c) and takes them back (reclaim.c). Messages to an export
 * go into its queue (message.c, queue.c). Below are session/, rdma/, mem/ and wire/; it does not
 * see initiator/. frontend/ calls this floor.
 */
#ifndef KRDMA_TARGET_H
#define KRDMA_TARGET_H

#include <linux/ratelimit.h>

#include "session/session.h"

/* Registered segments: default of an export, and most of a session. */
#define KRDMA_EXPORT_SEGMENTS  4096
#define KRDMA_SESSION_SEGMENTS 8192
#define KRDMA_SESSION_GRANTS   1024
/* Of one export: its grants are walked when segments are short. */
#define KRDMA_EXPORT_GRANTS 128
/* Exports of one user that is not root. */
#define KRDMA_USER_EXPORTS 4096

struct krdma_message_queue;

/* A module's, for messages to what it publishes; may sleep. */
typedef void (*krdma_receive_fn)(void *priv, const struct krdma_message *message);

/* Of a module's pages: somebody waits until no peer can reach them. */
struct krdma_export_end {
	struct completion done;
	bool lost; /* but one may */
};

/* An export; the uapi's struct krdma_ioc_export is the command that makes one. */
struct krdma_export {
	struct kref ref;       /* 1 published, 1 for each grant */
	struct list_head node; /* krdma_exports */
	u64 serial;
	struct net *net;         /* holds a reference */
	struct krdma_user *user; /* holds a reference */
	char name[KRDMA_NAME_MAX];
	u32 rights;
	u32 flags;
	u64 length;               /* krdma_exports_lock; only grows, also read without it */
	struct krdma_mem *mem;    /* an address range */
	struct page **pages;      /* or pages of another module, which are not ours to put */
	struct file *file;        /* or a memfd, or a file on disk */
	bool on_disk;             /* the latter */
	struct mem_cgroup *memcg; /* pays for its pages; holds a reference */
	bool write_held;          /* sealing it against writing is denied */
	pgoff_t pgoff;
	struct krdma_account *acct;
	bool dead; /* krdma_exports_lock */
	bool lost; /* a key to ->pages may be alive */
	struct krdma_export_end *end;
	struct krdma_message_queue *message_queue; /* of messages, or NULL */
	u32 max_segments;
	atomic_t segments;
	atomic_t released; /* how often one was given back */
	atomic_t waiting;  /* services that wait for one */
	struct ratelimit_state told;
	atomic64_t recalls;
	atomic64_t pinned_pages;  /* of ->file */
	atomic64_t peer_pages;    /* of ->file, in krdma_peer_pages; backing.c */
	struct list_head grants;  /* krdma_grant.export_node, krdma_exports_lock */
	u32 held;                 /* segments of these that are never recalled; the same */
	u64 taken_until;          /* jiffies64: somebody takes it over; the same */
	struct krdma_used served; /* as peers report; the same */
};

struct krdma_grant {
	struct krdma_export *export;    /* holds a reference */
	struct krdma_session *sess;     /* is of that session */
	struct list_head export_node;   /* export->grants, krdma_exports_lock */
	struct list_head shedding_node; /* while the service waits for others to shed; the same */
	u32 id;
	u32 generation;
	u32 rights;
	u64 length;     /* of the export, when it was opened or grew; the service alone */
	u32 held;       /* segments that are never recalled: all, or 0 */
	bool exclusive; /* no other grant can change the memory */
	struct krdma_sender *sender; /* of messages, or NULL */
	bool revoke;                 /* krdma_exports_lock: the export is gone, or taken over */
	bool revoking;               /* the RECALL for it has begun; only the session's service */
	u32 nrecalled;               /* segments with a RECALL under way; the same */
	u32 shed;                    /* krdma_exports_lock: segments others need */
	struct krdma_used used;      /* as the peer reports; the same */
	struct xarray segs;          /* krdma_seg by index; only the session's service */
	u32 nsegs;
	struct krdma_error error; /* of memory that could not be had; only the session's service */
};

/* service.c */
extern const struct krdma_role_ops krdma_target_ops;

/* export.c: memory of this host under a name */
extern struct mutex krdma_exports_lock;
extern struct list_head krdma_exports;
struct krdma_export *krdma_export_new(struct net *net, struct krdma_payer *payer,
				      const struct krdma_ioc_export *cmd, struct page *const *pages,
				      krdma_receive_fn fn, void *priv, struct krdma_error *error);
int krdma_export_publish(struct krdma_export *export, struct krdma_error *error);
int krdma_export_grow(struct krdma_payer *payer, struct krdma_export *export, u64 length,
		      struct krdma_error *error);
void krdma_export_unpublish(struct krdma_export *export);
struct krdma_export *krdma_export_find(struct net *net, const char *name);
void krdma_export_put(struct krdma_export *export);
void krdma_export_event(const struct krdma_export *export, u32 type,
			const struct krdma_session *sess, const char *cause);

/* queue.c: messages, and whoever reads them */
u32 krdma_message_queue_count(struct krdma_message_queue *queue, u32 *waiting);
struct file *krdma_message_queue_open(struct krdma_export *export, bool nonblock,
				      struct krdma_error *error);

/* digest.c */
void krdma_digest_init(void);

#endif /* KRDMA_TARGET_H */
