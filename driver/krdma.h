/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private structs of krdma_mover, the lock order, and the prototypes of each
 * file. Documentation/lifetime.rst tells who owns what and how it ends.
 *
 * Lock order, outer to inner:
 *
 *	krdma_listeners_start	who starts and ends listeners (listen.c)
 *	  an rdma_cm id's handler lock
 *	    krdma_sessions_lock	list of sessions, their users
 *	      krdma_listeners_lock	list of listeners, and their ids
 *	  krdma_devices_lock	list of devices, their mappings
 *	  krdma_exports_lock	list of exports, their grants
 *	  box->lock		(BH) messages to an export
 *	  ctx->reqs_lock	(BH) requests of a file
 *	    session->lock	(BH) everything of a session that moves
 *	    ctx->wait, its eventfd
 */
#ifndef KRDMA_H
#define KRDMA_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/in6.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/ratelimit.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "fault_points.h"
#include <uapi/linux/krdma_mover.h>
#include "quirks.h"
#include "range.h"
#include "window.h"
#include "wire.h"
#include "transfer.h"

#define KRDMA_VERSION "0.1"

/* Data work requests of a channel. */
#define KRDMA_DATA_SLOTS 128
/* Bytes posted at a time on a channel: enough for the wire, short for a deadline. */
#define KRDMA_POSTED_MAX SZ_8M
/* Messages of a session without an answer. */
#define KRDMA_PLACES KRDMA_WIRE_PLACES_MAX
/* READs under way where the memory that they fill has to be registered. */
#define KRDMA_SINKS 16
/* Registrations or invalidations in one chain. */
#define KRDMA_REG_SLOTS KRDMA_WIRE_SEGS_MAX
/* Not less than a send queue can have, post.c. */
#define KRDMA_OUTSTANDING_MAX 512
/* Registered segments: default of an export, and most of a session. */
#define KRDMA_EXPORT_SEGMENTS  4096
#define KRDMA_SESSION_SEGMENTS 8192
#define KRDMA_SESSION_GRANTS   1024
/* Of one export: its grants are walked when segments are short. */
#define KRDMA_EXPORT_GRANTS 128
#define KRDMA_SESSIONS_MAX  4096
#define KRDMA_IDS_MAX       4096
#define KRDMA_REGION_KEYS   262144
/*
 * Inbound sessions: of all, of one peer address, and not established yet. Those of an
 * address are shared by its users: krdma_share_ok().
 */
#define KRDMA_INBOUND_MAX      3072
#define KRDMA_INBOUND_PEER_MAX 256
#define KRDMA_INBOUND_NEW_MAX  128
/* Of those, such as may send messages, with some 1 MiB each: of all, and of one peer. */
#define KRDMA_INBOUND_MESSAGES_MAX      256
#define KRDMA_INBOUND_MESSAGES_PEER_MAX 32
/* Outbound sessions of one user that is not root. */
#define KRDMA_OUTBOUND_USER_MAX 256
/* An operation on memory that is not a registered buffer may not last longer. */
#define KRDMA_OP_PIN_NS (300 * NSEC_PER_SEC)
/* If it may last longer than this its pages are pinned and accounted as a buffer's are. */
#define KRDMA_PIN_SHORT_S  5U
#define KRDMA_PIN_SHORT_NS (KRDMA_PIN_SHORT_S * NSEC_PER_SEC)
#define KRDMA_OP_PIN_MAX   ((u64)SZ_1G)
/* Exports of one user that is not root. */
#define KRDMA_USER_EXPORTS 4096
/* Asynchronous operations of a file, until their completions are read. */
#define KRDMA_CTX_OPS_MAX 4096

/*
 * So many work requests that the device refuses, with no chain between them that it takes as a
 * whole, end the session: then it is not they that are wrong. A queue pair in error may refuse
 * all; and siw's does once it has refused one, as siw_post_send() leaves that place of its queue
 * in use.
 */
#define KRDMA_REFUSALS_MAX 8

/* For krdma_session_fail: the peer ended the session, and nothing is wrong. */
#define KRDMA_BYE_QUIET (-2)

/*
 * Times, milliseconds. DEAD, QUESTION, SERVICE, CONNECT, ALONE and SHED are for peers, and
 * longer by the timeout_scale of the session or channel.
 */
#define KRDMA_HEARTBEAT_MS 2000
#define KRDMA_DEAD_MS      8000
/* A work request may be outstanding so many times longer, as long as others complete. */
#define KRDMA_OLD_FACTOR  4
#define KRDMA_QUESTION_MS 10000
#define KRDMA_SERVICE_MS  30000
#define KRDMA_LINGER_MS   10000
#define KRDMA_CONNECT_MS  10000
#define KRDMA_BYE_MS      1000
/* The peer disconnected: so long what came before may take to be handled. */
#define KRDMA_LOST_MS 1000
/* More than the adapter's time, after which it sends again. */
#define KRDMA_ALONE_MS   1000
#define KRDMA_FOREVER_MS 0x7fffffffU
/* Memory that could not be mapped is tried again after this, or when a mapping has gone. */
#define KRDMA_MAP_AGAIN_MS 5
/* Transfers that are ended, or looked at, without a pause. */
#define KRDMA_TRANSFER_BATCH 128
/* Memory of an operation that nobody reads the completion of stays pinned so long. */
#define KRDMA_REAP_MS 1000
/*
 * On iWARP all is one stream, so a sign of life comes behind all that was
 * posted before it, and behind TCP's retransmissions: these times are longer.
 */
#define KRDMA_IWARP_TIMEOUT_SCALE 3
/* Workers wait for peers: not so long that the kernel takes them for hung, 120 s. */
#define KRDMA_TIMEOUT_SCALE_MAX 4
#define KRDMA_SHED_MS           15000
#define KRDMA_SHED_AGAIN_MS     100
/* A service answers others first for no longer than this. */
#define KRDMA_SERVICE_MAX_MS 90000
/* Services that wait for others at a time. */
#define KRDMA_SHED_WAITERS 64

/* Why a call failed: the sentence of KRDMA_IOC_LAST_ERROR. */
struct krdma_error {
	int err;
	char text[240];
};

/* No sentence so far, and nobody looks at the text. */
static inline void krdma_error_init(struct krdma_error *error)
{
	error->err = 0;
}

struct io_uring_cmd;
struct krdma_box;
struct krdma_ctx;
struct krdma_req;
struct krdma_session;
struct krdma_export;
struct krdma_sender;

/* A module's, for messages to what it publishes; may sleep. */
typedef void (*krdma_receive_fn)(void *priv, const struct krdma_message *message);

/* One RDMA device, as an ib_client sees it. */
struct krdma_device {
	struct ib_device *ib;
	struct list_head node;  /* krdma_devices */
	refcount_t refs;        /* 1 for the ib_client, 1 for each session or walk */
	struct completion gone; /* refs is 0 */
	atomic_t beginning;     /* sessions that are being connected on it */
	bool removing;          /* krdma_devices_lock */
	const char *unusable;   /* a phrase, or NULL */
	struct krdma_policy policy;
	struct list_head mappings; /* krdma_mapping.node, krdma_devices_lock */
	u32 segment_shift;
	u32 max_map; /* bytes of one DMA mapping */
};

/* A user of this host: what all files that were opened by one have together. */
struct krdma_user {
	struct list_head node; /* krdma_users */
	refcount_t refs;       /* each context, each export */
	kuid_t uid;
	u64 pinned; /* pages of buffers and exports; krdma_users_pinned_lock */
	atomic_t exports;
};

/* What is charged to a user for pinned memory; outlives the process. */
struct krdma_account {
	struct mm_struct *mm;  /* mmgrab: for pinned_vm only */
	u64 limit;             /* pages, RLIMIT_MEMLOCK when made */
	struct krdma_ctx *ctx; /* holds a reference */
};

/* Pages of a process that stay pinned. */
struct krdma_mem {
	struct kref ref;
	struct krdma_account *acct;
	struct page **pages;
	unsigned long npages;
	u32 offset; /* of the first byte in the first page */
	u64 length;
	bool writable;         /* the device may write */
	struct mutex lock;     /* maps */
	struct list_head maps; /* krdma_mapping.mem_node */
};

/* krdma_mem as one device sees it. */
struct krdma_mapping {
	struct list_head node;     /* device->mappings, krdma_devices_lock */
	struct list_head mem_node; /* mem->maps */
	struct krdma_mem *mem;
	struct krdma_device *dev; /* valid while on device->mappings */
	enum dma_data_direction dir;
	struct sg_table sgt;
	bool need_sync;   /* the device does not see what the CPU sees */
	dma_addr_t *page; /* DMA address of each page */
};

/* ---- a peer's export, opened here ---- */

/* A key of the peer for one segment. All under session->lock. */
struct krdma_key {
	u64 index;
	u64 address;
	u32 length;
	u32 rkey;
	u32 posted; /* chunks on the wire that use it */
	bool valid; /* false: asked for, or recalled */
	struct krdma_recall *recall;
};

/* A RECALL or REVOKE of the peer that waits for our posted work. */
struct krdma_recall {
	struct list_head node;       /* session->recalls */
	struct krdma_region *region; /* REVOKE: until region->posted is 0 */
	u8 type;
	u32 tag;
	u32 grant;
	u32 generation;
	u32 pending;         /* RECALL: keys still in use */
	struct krdma_tx *tx; /* for its answer */
};

/* Somebody to be told, once, when a region is of no use any more. */
struct krdma_watch {
	struct list_head node; /* region->watches, session->lock */
	/* Any context, session->lock held; err is that of the region. */
	void (*stale)(struct krdma_watch *watch, int err);
};

/*
 * What a question needs: a place in the peer's window, and a buffer to send it from; or
 * the wait for both.
 */
struct krdma_credit {
	struct list_head node;    /* session->creditless, while it waits */
	struct work_struct *work; /* to be queued then; NULL: somebody sleeps on session->wait */
	struct krdma_tx *tx;      /* NULL: it has neither */
};

struct krdma_region {
	struct kref ref;
	struct list_head node;      /* session->regions, session->lock */
	struct krdma_session *sess; /* holds a reference */
	u32 users;                  /* handles; 0: closing, found by nobody */
	char name[KRDMA_NAME_MAX];
	u32 wanted; /* rights asked for */
	u32 rights;
	u32 grant;
	u32 generation;
	u32 segment_shift;
	u64 length;
	int err;                    /* -ESTALE and the like: no more transfers */
	bool answered;              /* the OPEN has its answer */
	bool revoked;               /* the owner closed the grant itself */
	u32 posted;                 /* chunks on the wire */
	struct xarray keys;         /* krdma_key by segment index */
	struct krdma_key *last_key; /* the one that was used last, or NULL */
	u32 nkeys;
	unsigned long forget;     /* where to look for a key to forget */
	u64 next;                 /* segment behind the last one that was asked for */
	struct list_head waiters; /* transfers that wait for a key */
	struct list_head senders; /* transfers that wait for a place for their message */
	struct list_head mail;    /* session->mail: some do */
	u32 letters;              /* places that it has */
	struct list_head watches; /* krdma_watch.node */
	bool asking;              /* a SEGS is under way */
	struct list_head digests; /* transfers that wait for a digest of the peer */
	u32 lacks;                /* rights that were wanted and not granted */
	bool blind;               /* of no use: to be written only, on iWARP */
	bool atomics;             /* this host's end could do them */
	bool digesting;           /* digest_work is queued, or a DIGEST under way */
	u32 asked_bytes;
	struct krdma_transfer *asked; /* the one that the DIGEST is for; NULL: it has ended */
	struct work_struct digest_work;
	struct krdma_credit digest_credit; /* of digest_work */
	struct work_struct ask_work;
	struct krdma_credit ask_credit; /* of ask_work */
	bool closing;                   /* close_work waits until nothing is posted */
	struct work_struct close_work;
	struct krdma_credit close_credit; /* of close_work */
};

struct krdma_key *krdma_region_key_find(struct krdma_region *region, u64 index);
void krdma_region_drained(struct krdma_region *region, struct krdma_key *key);

/**
 * krdma_region_key - the key of a byte
 * @region: region
 * @at: offset of the byte
 *
 * Context: session->lock held.
 * Return: the key, which need not be valid, or NULL
 */
static inline struct krdma_key *krdma_region_key(struct krdma_region *region, u64 at)
{
	u64 index = krdma_segment_of(at, region->segment_shift);
	struct krdma_key *key = region->last_key;

	/* Mostly it is that of the transfer before. */
	return key && key->index == index ? key : krdma_region_key_find(region, index);
}

/**
 * krdma_key_unpost - a chunk that used a key has ended
 * @region: its region
 * @key: the key
 *
 * Context: session->lock held.
 */
static inline void krdma_key_unpost(struct krdma_region *region, struct krdma_key *key)
{
	region->posted--;
	key->posted--;
	if (unlikely(region->err || key->recall))
		krdma_region_drained(region, key->posted ? NULL : key);
}

/* ---- our exports, opened by peers ---- */

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
	u64 length;
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
	struct krdma_box *box; /* of messages, or NULL */
	u32 max_segments;
	atomic_t segments;
	atomic_t released; /* how often one was given back */
	atomic_t waiting;  /* services that wait for one */
	struct ratelimit_state told;
	atomic64_t recalls;
	atomic64_t pinned_pages; /* of ->file */
	atomic64_t peer_pages;   /* of ->file, in krdma_peer_pages; backing.c */
	struct list_head grants; /* krdma_grant.export_node, krdma_exports_lock */
};

struct krdma_grant {
	struct krdma_export *export;  /* holds a reference */
	struct krdma_session *sess;   /* is of that session */
	struct list_head export_node; /* export->grants, krdma_exports_lock */
	u32 id;
	u32 generation;
	u32 rights;
	struct krdma_sender *sender; /* of messages, or NULL */
	bool revoke;                 /* krdma_exports_lock: the export is gone */
	u32 shed;                    /* krdma_exports_lock: segments others need */
	struct xarray segs;          /* krdma_seg by index; only the session's service */
	u32 nsegs;
	struct krdma_error error; /* of memory that could not be had; only the session's service */
};

/* A segment registered for one peer. Only the session's service touches it. */
struct krdma_seg {
	struct krdma_grant *grant;
	struct list_head node; /* session->segs, coldest first */
	u64 index;
	struct ib_mr *mr;    /* NULL: has ended before the segment */
	bool valid;          /* registered: the key may be alive */
	bool busy;           /* asked for by the question in work */
	struct page **pages; /* of a file: pages taken; else NULL */
	unsigned int npages;
	u32 room; /* pages that ->mr can have */
	struct sg_table sgt;
	u32 length;
	struct ib_cqe cqe;
	union {
		struct ib_reg_wr reg;
		struct ib_send_wr inv;
	};
};

/* ---- channel ---- */

struct krdma_rx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->rx_list, krdma_sender.held */
	void *buf;
	u64 dma;
	u32 len;
	u32 tag; /* of a message that is held */
};

struct krdma_tx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->tx_free */
	void *buf;
	u64 dma;
	bool posted; /* its completion is to come */
};

/* A place for a message of ours. */
struct krdma_letter {
	struct ib_cqe cqe;
	struct list_head node; /* channel->letters_free */
	void *buf;
	u64 dma;
	bool posted;                     /* its completion is to come */
	struct krdma_region *region;     /* no answer yet; holds a reference */
	struct krdma_transfer *transfer; /* NULL: it has ended */
	struct ib_sge sge;
	struct ib_send_wr wr;
};

/* iWARP: memory that a READ fills is known to the peer by a key, for that READ. */
struct krdma_sink {
	struct list_head node; /* channel->sinks */
	struct ib_mr *mr;
	struct scatterlist *sg; /* what it covers; to be unmapped if the chunk says so */
	struct ib_cqe cqe;
	struct ib_reg_wr reg;
};

struct krdma_chunk {
	struct ib_cqe cqe;
	struct krdma_chunk *next; /* of channel->free, or of the chain being built */
	u32 place;                /* in channel->ring */
	bool posted;              /* its end is to come */
	struct krdma_transfer *transfer;
	struct krdma_key *key;
	struct krdma_cursor at; /* its first byte */
	u32 bytes;
	u32 mapped; /* SGEs to unmap when it ends */
	union {
		struct ib_rdma_wr wr;
		struct ib_atomic_wr atomic; /* begins with the same struct ib_send_wr */
	};
	struct ib_sge sge[KRDMA_SGE_MAX];
	struct krdma_sink *sink; /* iWARP, of a READ */
	struct ib_cqe placed_cqe;
	struct ib_rdma_wr placed; /* the READ behind WRITEs */
	struct ib_sge placed_sge;
};

/* One queue pair of a session. Everything that moves is under session->lock. */
struct krdma_channel {
	struct krdma_session *sess;
	u32 index;
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	struct ib_cq *cq;
	u32 qp_num;
	u32 port;

	/* connection set-up, conn.c */
	struct completion cm_done;
	const char *broken;    /* lost while connecting; session->lock */
	const char *lost;      /* the peer disconnected: what it sent before may still come */
	unsigned long lost_at; /* jiffies */
	int bye;               /* reason of the peer's BYE, which may not be handled yet; or -1 */
	const char *cause;     /* the step that failed; the connect work's */
	char text[80];         /* a phrase that is not static; the same */
	int cm_err;
	enum rdma_cm_event_type cm_event;
	const char *cm_why; /* what is wrong with the event, or NULL */
	u8 cm_reason;       /* of a reject, enum krdma_wire_reason */
	u8 cm_version;      /* the highest that its sender knows */
	bool cm_refused;
	struct krdma_hello peer;

	/* data */
	struct krdma_chunk *chunks;
	struct krdma_chunk *free;
	struct krdma_chunk **ring; /* in the order of their posting; NULL: has ended */
	u32 head;                  /* first that may not have ended; head and tail go on and on */
	u32 tail;                  /* behind the last */
	u32 slots;
	u32 slots_used;
	u64 posted_bytes;
	u32 max_sge;
	u32 max_sge_rd;

	/* data on iWARP */
	bool iwarp;
	u32 timeout_scale;           /* the session's, not less than iWARP's */
	struct krdma_sink *sink;     /* all, KRDMA_SINKS */
	struct list_head sinks;      /* free */
	struct scatterlist *sink_sg; /* for each of them, or scratch */
	u32 sink_pages;
	struct krdma_sink void_sink; /* of READs behind WRITEs, registered by the first */
	bool void_ready;

	/* what READs behind WRITEs fill */
	void *void_buf;
	u64 void_dma;

	/* control */
	struct krdma_tx *tx;
	u32 ntx;
	struct list_head tx_free;
	u32 tx_busy;               /* not in tx_free */
	u32 tx_taken;              /* of those, not posted yet */
	wait_queue_head_t tx_wait; /* a buffer came back */
	struct krdma_rx *rx;
	u32 nrx;
	u32 rx_size;
	struct list_head rx_list; /* received, not handled yet */
	bool rx_busy;             /* one handles what was received */
	struct tasklet_struct rx_tasklet;
	bool rx_answer;           /* answers to messages wait for a buffer */
	struct krdma_msg *rx_msg; /* scratch of whom rx_busy is for, but for rx_work */
	bool heard;               /* something was received */

	/* messages */
	bool messages;                /* the initiator may send them */
	struct krdma_letter *letters; /* KRDMA_PLACES; of which there are answers for: */
	u32 places;
	u32 places_used;
	struct list_head letters_free;
	struct krdma_msg *letter_msg; /* scratch, under the lock */

	/* liveness */
	u32 outstanding;        /* send-queue work requests without a completion */
	u32 refusals;           /* work requests, since a whole chain was taken */
	u32 completed;          /* those that have one; goes on and on */
	unsigned long last_wc;  /* jiffies: something completed, a receive as well */
	unsigned long progress; /* jiffies: a send did; or of the post that ended idleness */
	u32 posted_at[KRDMA_OUTSTANDING_MAX]; /* jiffies of each outstanding one's post */
	struct ib_cqe heartbeat_cqe;
	bool heartbeat; /* one is under way */

	enum ib_event_type qp_event;
	struct work_struct qp_event_work;
};

/* ---- control ---- */

struct krdma_ask;
/* Answer, or error with msg NULL. Process context, no locks; once. */
typedef void (*krdma_ask_fn)(struct krdma_ask *ask, const struct krdma_msg *msg, int err);

/* A question of ours under way. */
struct krdma_ask {
	struct list_head node; /* session->asks */
	refcount_t refs;       /* asker, and session->asks */
	u8 type;
	u32 tag;
	bool service; /* the owner's service answers it */
	ktime_t posted;
	ktime_t answered;
	unsigned long expires; /* jiffies; then the session ends */
	krdma_ask_fn fn;       /* NULL: the asker went away; session->lock */
	void *arg;
	struct completion done;
	struct krdma_msg *msg; /* of a synchronous asker: question, then answer */
	int err;
};

/* A question of the peer that the service answers. */
struct krdma_request {
	struct list_head node; /* session->requests */
	struct krdma_msg *msg;
	struct krdma_tx *tx; /* for the answer */
};

/* ---- session ---- */

/* The relation with one peer. */
struct krdma_session {
	struct kref ref;       /* 1 while listed, 1 for each handle and region */
	struct list_head node; /* krdma_sessions, by serial */
	u64 serial;
	bool inbound;
	bool private;
	bool messages;            /* made for them, too */
	u32 users;                /* handles of sessions and regions */
	unsigned long idle_since; /* jiffies, when users became 0 */
	struct net *net;          /* compared only; the cm id holds it */
	kuid_t uid;
	struct sockaddr_storage src; /* as asked for: AF_UNSPEC for any */
	struct sockaddr_storage dst;
	struct sockaddr_storage local; /* as connected */
	union ib_gid host;             /* inbound: the peer's address that limits count by */
	u64 listener;                  /* serial of the listener it came through */
	u32 timeout_scale;             /* factor of the times that the peer has */

	struct krdma_device *dev; /* holds a reference */
	struct ib_pd *pd;
	struct krdma_channel *ch;

	spinlock_t lock; /* all below, and channel, regions, keys, transfers */
	enum krdma_session_state state;
	bool beginning;         /* connect work or handler of the request is not through */
	bool leaving;           /* a BYE is on its way, or a second is not over */
	int err;                /* what ended it */
	const char *cause;      /* the same as a phrase */
	int bye;                /* reason to tell the peer, -1 for none */
	wait_queue_head_t wait; /* state changes, credits */
	ktime_t made;
	u64 peer_incarnation;

	/* our questions */
	struct list_head asks;
	unsigned long last_answer; /* jiffies */
	struct krdma_window window;
	struct list_head creditless; /* krdma_credit: wait for a place in it, first come */

	/* the peer's questions */
	struct krdma_tags tags;
	struct list_head requests;
	u32 nrequests;

	/* initiator */
	struct list_head regions;
	u32 nregions;
	struct hlist_head transfers; /* all under way, the last first */
	struct list_head ready;      /* can be posted */
	struct list_head unmapped;   /* could not be mapped for DMA; to be tried again */
	struct hlist_node *scan;     /* where the walk of ->transfers goes on */
	u32 ntransfers;
	struct list_head recalls;
	struct list_head mail; /* regions with messages to send */

	/* owner: only the service, but for the counts */
	struct xarray grants;
	u32 next_grant;
	u32 generation;
	u32 ngrants;
	struct list_head segs;
	u32 nsegs;
	struct xarray senders;                      /* krdma_sender by grant */
	DECLARE_BITMAP(places, KRDMA_PLACES + 1);   /* messages without an answer, by tag */
	struct krdma_msg_taken taken[KRDMA_PLACES]; /* to be answered */
	u32 ntaken;
	atomic_t svc_pending; /* registrations or invalidations posted */
	struct completion svc_done;

	/* counters */
	u64 bytes_read;
	u64 bytes_written;
	u64 ended_transfers;
	u64 failures;

	struct krdma_msg *rx_msg;    /* scratch of rx_work */
	struct workqueue_struct *wq; /* of works that may wait for this peer */
	struct work_struct connect_work;
	struct work_struct rx_work;
	struct work_struct svc_work;
	struct delayed_work down_work;
	struct delayed_work tick;
	ktime_t tick_at;
};

struct krdma_listener {
	struct list_head node; /* krdma_listeners */
	u64 serial;
	struct net *net;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id; /* NULL: waits for a device */
	bool removed;          /* the device went before the id was here */
	struct krdma_ctx *ctx; /* owner outside init_net, else NULL */
	atomic64_t accepted;
	atomic64_t refused;
	u32 nallow;
	struct krdma_prefix *allow;
};

/**
 * krdma_session_rights - the rights that the transport can have
 * @sess: session with a device and a channel
 *
 * Some adapters tell of atomics, and do iWARP, which has none.
 *
 * Return: KRDMA_RIGHT_*
 */
static inline u32 krdma_session_rights(const struct krdma_session *sess)
{
	u32 rights = READ_ONCE(sess->dev->policy.rights);

	if (sess->ch->iwarp)
		rights &= KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE;
	return sess->ch->messages ? rights | KRDMA_RIGHT_MESSAGE : rights;
}

/**
 * krdma_session_shown - the rights that the peer knows
 * @sess: inbound session with a channel
 *
 * Those of the protocol's version, and of the features that are used: others are not for it to
 * see. Whether the transport has them is another question, krdma_session_rights().
 *
 * Return: KRDMA_RIGHT_*
 */
static inline u32 krdma_session_shown(const struct krdma_session *sess)
{
	u32 rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC;

	return sess->ch->messages ? rights | KRDMA_RIGHT_MESSAGE : rights;
}

/**
 * krdma_rights_change - may who has these rights change memory?
 * @rights: KRDMA_RIGHT_*
 *
 * Return: true if so
 */
static inline bool krdma_rights_change(u32 rights)
{
	return rights & (KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC);
}

/* ---- counters, stats.c ---- */

enum krdma_stat {
	KRDMA_STAT_READS,
	KRDMA_STAT_WRITES,
	KRDMA_STAT_ATOMICS,
	KRDMA_STAT_DIGESTS,
	KRDMA_STAT_SENDS,
	KRDMA_STAT_DELIVERIES,
	KRDMA_STAT_MISMATCHES,
	KRDMA_STAT_FLIPS,
	KRDMA_STAT_READ_BYTES,
	KRDMA_STAT_WRITE_BYTES,
	KRDMA_STAT_TRANSFERS_FAILED,
	KRDMA_STAT_TRANSFERS_TIMED_OUT,
	KRDMA_STAT_CHUNKS,
	KRDMA_STAT_DOORBELLS,
	KRDMA_STAT_PLACEMENTS,
	KRDMA_STAT_MESSAGES_SENT,
	KRDMA_STAT_MESSAGES_RECEIVED,
	KRDMA_STAT_PROTOCOL_ERRORS,
	KRDMA_STAT_SESSIONS_MADE,
	KRDMA_STAT_SESSIONS_LOST,
	KRDMA_STAT_SESSIONS_REFUSED,
	KRDMA_STAT_SEGMENTS_REGISTERED,
	KRDMA_STAT_SEGMENTS_RELEASED,
	KRDMA_STAT_RECALLS,
	KRDMA_STAT_REVOKES,
	KRDMA_STAT_HEARTBEATS,
	KRDMA_STAT_SEGMENT_PAGES,   /* now: room in the registrations of segments */
	KRDMA_STAT_PINNED_BYTES,    /* now */
	KRDMA_STAT_PEER_BYTES,      /* now: of files, because of peers */
	KRDMA_STAT_DMA_MAPPINGS,    /* now */
	KRDMA_STAT_MESSAGES_QUEUED, /* now: in inboxes */
	KRDMA_STAT_MESSAGES_HELD,   /* now: without room there */
	KRDMA_STATS
};

struct krdma_stats {
	u64 v[KRDMA_STATS];
};

DECLARE_PER_CPU(struct krdma_stats, krdma_stats);
#define krdma_stat_add(stat, n) this_cpu_add(krdma_stats.v[stat], n)
#define krdma_stat_inc(stat)    krdma_stat_add(stat, 1)

/* main.c */
extern u64 krdma_incarnation;
/* None of them waits for a peer: session->wq is for that. */
extern struct workqueue_struct *krdma_wq;
extern struct workqueue_struct *krdma_ask_wq;   /* questions */
extern struct workqueue_struct *krdma_tick_wq;  /* what time does */
extern struct workqueue_struct *krdma_down_wq;  /* the end of sessions */
extern struct workqueue_struct *krdma_close_wq; /* the end of files */
extern struct workqueue_struct *krdma_event_wq; /* code of other modules */
__printf(3, 4) int krdma_explain(struct krdma_error *error, int err, const char *fmt, ...);

/* list.c */
int krdma_list_fill(struct krdma_ctx *ctx, struct krdma_ioc_list *cmd, struct krdma_error *error);

/* stats.c */
void krdma_stats_exit(void);
extern const struct attribute_group *krdma_stats_groups[];

/* device.c */
extern struct mutex krdma_devices_lock;
extern struct list_head krdma_devices;
int krdma_device_init(void);
void krdma_device_exit(void);
bool krdma_device_attach(struct ib_device *ib, struct krdma_session *sess);
struct krdma_device *krdma_device_next(struct krdma_device *dev);
void krdma_device_put(struct krdma_device *dev);
u64 krdma_devices_segment(void);
const char *krdma_device_unusable(struct krdma_device *dev, u32 port);

/* ctx.c: users of this host */
void krdma_user_put(struct krdma_user *user);
static inline struct krdma_user *krdma_user_get(struct krdma_user *user)
{
	refcount_inc(&user->refs);
	return user;
}

/* Root, and clients in the kernel: limits of users are not for them. */
static inline bool krdma_user_is_root(const struct krdma_user *user)
{
	return uid_eq(user->uid, GLOBAL_ROOT_UID);
}

/* account.c */
struct krdma_account *krdma_account_new(struct krdma_ctx *ctx);
void krdma_account_free(struct krdma_account *acct);
int krdma_account_charge(struct krdma_account *acct, unsigned long npages,
			 struct krdma_error *error);
void krdma_account_uncharge(struct krdma_account *acct, unsigned long npages);
int krdma_op_charge(struct krdma_req *r, unsigned long npages, bool longterm,
		    struct krdma_error *error);
void krdma_op_uncharge(struct krdma_req *r);

/* mem.c */
int krdma_dma_map(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir);
void krdma_dma_unmap(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir);
unsigned int krdma_dma_run(const struct krdma_device *dev);
bool krdma_dma_shared(struct ib_device *ib, struct sg_table *sgt);
struct krdma_mem *krdma_mem_pin(struct krdma_ctx *ctx, u64 addr, u64 length, bool writable,
				struct krdma_error *error);
int krdma_pages_pin(struct krdma_req *r, const struct krdma_vec *vec, u32 n, bool writable,
		    bool longterm, struct krdma_error *error);
void krdma_pages_unpin(struct krdma_req *r);
/* Is there room for a number behind @skip bytes, which are not all that there is? */
static inline bool krdma_pages_number_ok(const struct bio_vec *bv, u64 skip)
{
	for (; skip >= bv->bv_len; bv++)
		skip -= bv->bv_len;
	return bv->bv_len - skip >= KRDMA_NUMBER_BYTES &&
	       IS_ALIGNED(bv->bv_offset + skip, KRDMA_NUMBER_BYTES);
}

/* ->bvec: go on. */
static inline void krdma_pages_step(struct krdma_transfer *x, u32 bytes)
{
	struct krdma_cursor *at = &x->at;

	at->in += bytes;
	/* To the beginning of an entry rather than the end of the one before. */
	while (at->i + 1 < x->nlocal && at->in >= x->bvec[at->i].bv_len) {
		at->in -= x->bvec[at->i].bv_len;
		at->i++;
	}
}

/* ->bvec: how long the run is whose first @len bytes end an entry, up to @most. */
static inline u32 krdma_pages_run(const struct krdma_transfer *x, u32 len, u32 most)
{
	const struct bio_vec *bv = &x->bvec[x->at.i];
	phys_addr_t end = page_to_phys(bv->bv_page) + bv->bv_offset + x->at.in + len;
	u32 i, more;

	for (i = x->at.i + 1; len < most && i < x->nlocal; i++, len += more, end += more) {
		bv = &x->bvec[i];
		more = min(bv->bv_len, most - len);
		if (page_to_phys(bv->bv_page) + bv->bv_offset != end)
			break;
	}
	return len;
}

/*
 * ->bvec: the next run, mapped; 0 if it can't be. Entries that follow each other in
 * memory are one: io_uring has one for each page up to Linux 6.11.
 */
static inline u32 krdma_pages_next(struct krdma_transfer *x, struct krdma_device *dev, u32 most,
				   u64 *addr)
{
	const struct bio_vec *bv = &x->bvec[x->at.i];
	struct ib_device *ib = dev->ib;
	u32 len;

	most = min_t(u64, most, dev->max_map);
	len = min_t(u64, most, bv->bv_len - x->at.in);
	if (len < most)
		len = krdma_pages_run(x, len, most);
	*addr = ib_dma_map_page(ib, bv->bv_page, bv->bv_offset + x->at.in, len,
				krdma_transfer_dir(x));
	if (ib_dma_mapping_error(ib, *addr))
		return 0;
	krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, 1);
	krdma_pages_step(x, len);
	return len;
}

u32 krdma_local_next(struct krdma_transfer *x, struct krdma_device *dev, u32 most, u64 *addr);

/**
 * krdma_local_unmap - undo krdma_local_next
 * @x: transfer with ->bvec
 * @ib: the device
 * @addr: DMA address of a run
 * @len: its bytes
 *
 * Context: any.
 */
static inline void krdma_local_unmap(const struct krdma_transfer *x, struct ib_device *ib, u64 addr,
				     u32 len)
{
	ib_dma_unmap_page(ib, addr, len, krdma_transfer_dir(x));
	krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, -1);
}

void krdma_mem_put(struct krdma_mem *mem);
struct krdma_mapping *krdma_mem_map(struct krdma_mem *mem, struct krdma_device *dev,
				    struct krdma_error *error);
void krdma_mapping_sync(const struct krdma_transfer *x, struct krdma_cursor at, u32 bytes,
			struct krdma_device *dev, bool to_device);
void krdma_mem_unmap_device(struct krdma_device *dev);

/* backing.c: files that exports are of */
int krdma_backing_check(struct krdma_export *export, u64 offset, u64 length, bool writable,
			struct krdma_error *error);
int krdma_backing_get(struct krdma_export *export, pgoff_t first, unsigned int n,
		      struct page **pages, struct krdma_error *error);
void krdma_backing_put(struct page **pages, unsigned int n);
int krdma_backing_hold(struct krdma_export *export, pgoff_t first, unsigned int n,
		       struct page **pages, struct krdma_error *error);
void krdma_backing_release(struct krdma_export *export, struct page **pages, unsigned int n,
			   bool dirty);
void krdma_backing_end(struct krdma_export *export);

/* local.c */
struct page *krdma_local_page(const struct krdma_transfer *x, struct krdma_cursor *at, u32 *offset,
			      u64 *rest);
int krdma_local_copy(const struct krdma_transfer *x, void *to, u32 length);

/* mr.c: keys for a peer */
struct krdma_seg *krdma_seg_prepare(struct krdma_grant *grant, u64 index);
int krdma_segs_register(struct krdma_session *sess, struct krdma_seg **segs, u32 n);
int krdma_segs_invalidate(struct krdma_session *sess, struct krdma_seg **segs, u32 n);
int krdma_segs_fence(struct krdma_session *sess);
void krdma_seg_free(struct krdma_seg *seg);
int krdma_void_setup(struct krdma_channel *ch);
void krdma_void_free(struct krdma_channel *ch);
int krdma_sinks_setup(struct krdma_channel *ch);
void krdma_sinks_free(struct krdma_channel *ch);
int krdma_sink_map(struct krdma_channel *ch, struct krdma_chunk *c, u32 left);
void krdma_sink_put(struct krdma_channel *ch, struct krdma_chunk *c);
void krdma_sink_dereg(struct krdma_chunk *c);

/* letter.c: messages, at the sender */
void krdma_letter_queue(struct krdma_transfer *x, ktime_t now, struct krdma_queue *done);
void krdma_letters_post(struct krdma_session *sess, ktime_t now, struct krdma_queue *done);
void krdma_letters_answered(struct krdma_session *sess, struct krdma_rx *rx,
			    const struct krdma_msg *msg);
int krdma_letters_setup(struct krdma_channel *ch);
void krdma_letters_begin(struct krdma_channel *ch, u32 places);
void krdma_letters_drop(struct krdma_channel *ch);
void krdma_letters_free(struct krdma_channel *ch);

/* inbox.c: the queue of an export's messages, and who reads it */
struct krdma_box *krdma_box_new(krdma_receive_fn fn, void *priv);
void krdma_box_end(struct krdma_box *box);
void krdma_box_put(struct krdma_box *box);
u32 krdma_box_count(struct krdma_box *box, u32 *waiting);
struct file *krdma_inbox_open(struct krdma_export *export, bool nonblock,
			      struct krdma_error *error);

/* mail.c: messages that come, at the owner */
void krdma_senders_init(struct krdma_session *sess);
int krdma_sender_open(struct krdma_grant *grant);
void krdma_sender_close(struct krdma_grant *grant);
void krdma_mail_came(struct krdma_session *sess, struct krdma_rx *rx, const struct krdma_msg *msg);
void krdma_mail_answer(struct krdma_session *sess, struct krdma_msg *msg);

/* export.c: memory of this host under a name */
extern struct mutex krdma_exports_lock;
extern struct list_head krdma_exports;
struct krdma_export *krdma_export_new(struct krdma_ctx *ctx, const struct krdma_ioc_export *cmd,
				      struct page *const *pages, krdma_receive_fn fn, void *priv,
				      struct krdma_error *error);
int krdma_export_publish(struct krdma_export *export, struct krdma_error *error);
void krdma_export_unpublish(struct krdma_export *export);
struct krdma_export *krdma_export_find(struct net *net, const char *name);
void krdma_export_put(struct krdma_export *export);

/* grant.c: exports opened by a session, and their segments */
void krdma_segments_wake(void);
struct krdma_seg *krdma_segment_get(struct krdma_grant *grant, u64 index, bool needed);
int krdma_grant_recall(struct krdma_grant *grant, u32 want);
int krdma_grant_end(struct krdma_grant *grant);
void krdma_grant_revoke(struct krdma_grant *grant);
void krdma_grant_free(struct krdma_grant *grant);
void krdma_grant_lacks(struct krdma_grant *grant);
void krdma_grants_release(struct krdma_session *sess);

/* service.c: answers to what the peer asks of exports */
void krdma_service_work(struct work_struct *work);

/* region.c: regions and keys */
struct krdma_region *krdma_region_open(struct krdma_session *sess, const char *name, u32 rights,
				       u32 timeout_ms, struct krdma_error *error);
void krdma_region_close(struct krdma_region *region);
void krdma_region_put(struct krdma_region *region);
void krdma_region_put_soft(struct krdma_region *region);
void krdma_region_want(struct krdma_region *region);
int krdma_region_refuse(struct krdma_region *region, u32 right, struct krdma_error *error);
void krdma_region_fail(struct krdma_region *region, int err, struct krdma_queue *done);
void krdma_region_watch(struct krdma_region *region, struct krdma_watch *watch);
void krdma_region_unwatch(struct krdma_region *region, struct krdma_watch *watch);
void krdma_regions_lost(struct krdma_session *sess);
void krdma_region_recall(struct krdma_session *sess, const struct krdma_msg *msg,
			 struct krdma_tx *tx);
void krdma_region_revoke(struct krdma_session *sess, const struct krdma_msg *msg,
			 struct krdma_tx *tx);
void krdma_region_recalls_answer(struct krdma_session *sess);
void krdma_regions_drop(struct krdma_session *sess);

/* digest.c */
void krdma_digest_init(void);
int krdma_digest_grant(struct krdma_grant *grant, u64 offset, u32 length, u32 *value);
void krdma_digest_queue(struct krdma_transfer *x);
void krdma_digest_work(struct work_struct *work);

/* transfer.c */
void krdma_transfer_again(struct krdma_transfer *x);
void krdma_transfers_submit(struct krdma_queue *batch);
void krdma_transfer_release(struct krdma_transfer *x, struct krdma_queue *done);
void krdma_transfer_cancel(struct krdma_transfer *x, int err, struct krdma_queue *done);
void krdma_transfer_pump_ready(struct krdma_session *sess, struct krdma_transfer *fresh,
			       struct krdma_queue *done);

/**
 * krdma_transfer_pump - post what can be posted, with one doorbell
 * @sess: session
 * @done: transfers that ended
 *
 * Transfers take turns, a chunk each, so that a long one does not hold up
 * short ones.
 *
 * Context: session->lock held.
 */
static inline void krdma_transfer_pump(struct krdma_session *sess, struct krdma_queue *done)
{
	lockdep_assert_held(&sess->lock);
	if (!list_empty(&sess->ready) || !list_empty(&sess->mail))
		krdma_transfer_pump_ready(sess, NULL, done);
}

/**
 * krdma_transfers_map_again - a mapping has gone: those that lacked one may have it
 * @sess: session, to be pumped
 *
 * Context: session->lock held.
 */
static inline void krdma_transfers_map_again(struct krdma_session *sess)
{
	lockdep_assert_held(&sess->lock);
	list_splice_tail_init(&sess->unmapped, &sess->ready);
}

void krdma_transfer_finish(struct krdma_transfer *x, struct krdma_queue *done);
void krdma_transfer_ready(struct krdma_transfer *x);
void krdma_transfer_wait_since(struct krdma_transfer *x, enum krdma_wait wait, ktime_t now);
void krdma_transfer_wait(struct krdma_transfer *x, enum krdma_wait wait);
void krdma_transfer_end(struct krdma_transfer *x, int err, struct krdma_queue *done);
void krdma_transfer_refused(struct krdma_transfer *x, struct krdma_queue *done);
void krdma_transfer_answered(struct krdma_transfer *x, int err, struct krdma_queue *done);
void krdma_transfers_fail(struct krdma_session *sess, struct krdma_queue *done);
void krdma_transfers_fail_rest(struct krdma_session *sess);
ktime_t krdma_transfers_expire(struct krdma_session *sess, struct krdma_queue *done);
void krdma_transfers_finish(struct krdma_queue *done);
int krdma_transfer_explain(struct krdma_transfer *x, struct krdma_error *error);

/* chunk.c: work requests of transfers */
struct krdma_chunk *krdma_chunk_build(struct krdma_channel *ch, struct krdma_transfer *x,
				      struct krdma_key *key);
int krdma_chunks_post(struct krdma_channel *ch, struct krdma_chunk *chain,
		      struct krdma_queue *done);
void krdma_chunks_reap(struct krdma_channel *ch);
int krdma_chunks_setup(struct krdma_channel *ch);
void krdma_chunks_free(struct krdma_channel *ch);

/* post.c: the other ones, but for messages */
int krdma_buf_map(struct ib_device *ib, void **buf, u64 *dma, u32 size,
		  enum dma_data_direction dir);
void krdma_buf_unmap(struct ib_device *ib, void *buf, u64 dma, u32 size,
		     enum dma_data_direction dir);
/**
 * krdma_post_count - something is about to be posted
 * @ch: channel
 * @n: work requests with a completion each
 *
 * Context: session->lock held.
 */
static inline void krdma_post_count(struct krdma_channel *ch, u32 n)
{
	u32 at = ch->completed + ch->outstanding;

	if (!ch->outstanding) {
		ch->last_wc = jiffies;
		ch->progress = jiffies;
	}
	/* They complete in this order; one that is refused is the last. */
	for (ch->outstanding += n; n; n--)
		ch->posted_at[at++ & (KRDMA_OUTSTANDING_MAX - 1)] = (u32)jiffies;
}

/**
 * krdma_post_alive - something has completed: the path works
 * @ch: channel
 *
 * Context: completion handler, session->lock held.
 */
static inline void krdma_post_alive(struct krdma_channel *ch)
{
	ch->last_wc = jiffies;
	ch->progress = jiffies;
	if (ch->outstanding) {
		ch->outstanding--;
		ch->completed++;
	}
	/* Who waits has looked under the same lock, and was on the queue before. */
	if (!ch->outstanding && waitqueue_active(&ch->tx_wait))
		wake_up_all(&ch->tx_wait);
}

/**
 * krdma_post_late - when does a channel count as dead?
 * @ch: channel with something outstanding
 *
 * When nothing completes; or, however little else does, when the oldest work request
 * is too old. What is received says nothing: a peer may send and take nothing.
 *
 * Context: session->lock held.
 * Return: jiffies
 */
static inline unsigned long krdma_post_late(const struct krdma_channel *ch)
{
	u32 first = ch->posted_at[ch->completed & (KRDMA_OUTSTANDING_MAX - 1)];
	unsigned long dead = msecs_to_jiffies(KRDMA_DEAD_MS * ch->timeout_scale);
	unsigned long old = jiffies - ((u32)jiffies - first) + KRDMA_OLD_FACTOR * dead;

	dead += ch->progress;
	return time_before(dead, old) ? dead : old;
}

void krdma_post_broken(struct krdma_channel *ch, const struct ib_wc *wc, struct krdma_queue *done);
bool krdma_post_lost(struct krdma_channel *ch, int err, struct krdma_queue *done);
bool krdma_post_refused(struct krdma_channel *ch, int err, struct krdma_queue *done);
int krdma_post_setup(struct krdma_channel *ch);
void krdma_post_teardown(struct krdma_channel *ch);
int krdma_post_receives(struct krdma_channel *ch);
int krdma_post_rx_locked(struct krdma_channel *ch, struct krdma_rx *rx, struct krdma_queue *done);
int krdma_post_rx(struct krdma_channel *ch, struct krdma_rx *rx);
bool krdma_post_tx_any(const struct krdma_channel *ch, u32 reserve);
struct krdma_tx *krdma_post_tx_take(struct krdma_channel *ch, u32 reserve);
struct krdma_tx *krdma_post_tx_last(struct krdma_channel *ch);
void krdma_post_tx_free(struct krdma_channel *ch, struct krdma_tx *tx);
void krdma_post_tx_put(struct krdma_channel *ch, struct krdma_tx *tx);
int krdma_post_tx(struct krdma_channel *ch, struct krdma_tx *tx, u32 len, bool last);
int krdma_post_wrs(struct krdma_channel *ch, struct ib_send_wr *first, u32 n);
void krdma_post_heartbeat(struct krdma_channel *ch, struct krdma_queue *done);
void krdma_post_completed(struct krdma_channel *ch, const struct ib_wc *wc);
void krdma_post_completed_locked(struct krdma_channel *ch, const struct ib_wc *wc,
				 struct krdma_queue *done);

/* ask.c: our questions, and their places in the peer's window */
struct krdma_ask *krdma_ask_new(u8 type, krdma_ask_fn fn, void *arg);
void krdma_ask_put(struct krdma_ask *ask);
void krdma_credit_init(struct krdma_credit *credit, struct work_struct *work);
bool krdma_credit_take_locked(struct krdma_session *sess, struct krdma_credit *credit);
bool krdma_credit_take(struct krdma_session *sess, struct krdma_credit *credit);
void krdma_credit_put(struct krdma_session *sess, struct krdma_credit *credit);
void krdma_credits_settle(struct krdma_session *sess);
int krdma_ask_post(struct krdma_session *sess, struct krdma_credit *credit, struct krdma_ask *ask,
		   struct krdma_msg *msg);
int krdma_ask_send(struct krdma_session *sess, struct krdma_ask *ask, struct krdma_msg *msg,
		   u32 wait_ms);
int krdma_ask_wait(struct krdma_session *sess, struct krdma_msg *msg, u32 wait_ms, krdma_ask_fn fn,
		   s64 *rtt_ns);
void krdma_ask_answered(struct krdma_session *sess, struct krdma_rx *rx,
			const struct krdma_msg *msg);
void krdma_asks_fail(struct krdma_session *sess);
bool krdma_asks_expired(struct krdma_session *sess, unsigned long *next);
void krdma_ask_heartbeat(struct krdma_session *sess);
int krdma_ask_fence(struct krdma_session *sess);
int krdma_ping(struct krdma_session *sess, u32 length, u32 timeout_ms, u64 *rtt_ns,
	       struct krdma_error *error);

/* ctl.c: what was received, and our answers */
bool krdma_ctl_rx_came(struct krdma_session *sess, struct krdma_rx *rx);
void krdma_ctl_rx_kick(struct krdma_session *sess);
void krdma_ctl_rx_work(struct work_struct *work);
void krdma_ctl_rx_soft(struct tasklet_struct *t);
void krdma_ctl_rx_answer(struct krdma_session *sess, struct krdma_rx *rx);
int krdma_answer(struct krdma_session *sess, struct krdma_tx *tx, struct krdma_msg *msg);
bool krdma_ctl_bye(struct krdma_session *sess, u8 reason);

/* conn.c: rdma_cm of channels */
int krdma_conn_connect(struct krdma_session *sess);
int krdma_conn_accept(struct krdma_session *sess, struct rdma_cm_id *id,
		      const struct krdma_hello *hello, const struct rdma_conn_param *param);
void krdma_conn_qp_work(struct work_struct *work);
void krdma_conn_stop(struct krdma_channel *ch);
void krdma_conn_drain(struct krdma_channel *ch);
void krdma_conn_destroy(struct krdma_session *sess);
void krdma_conn_release(struct krdma_session *sess);
int krdma_conn_handler(struct rdma_cm_id *id, struct rdma_cm_event *event);
bool krdma_conn_endless(const struct rdma_conn_param *param);

/* listen.c: listeners and admission */
extern struct mutex krdma_listeners_lock;
extern struct list_head krdma_listeners;
int krdma_listen(struct krdma_ctx *ctx, const struct sockaddr_storage *addr,
		 struct krdma_prefix *allow, u32 nallow, struct krdma_error *error);
int krdma_unlisten(struct krdma_ctx *ctx, const struct sockaddr_storage *addr,
		   struct krdma_error *error);
void krdma_listeners_drop(struct krdma_ctx *ctx);
void krdma_listeners_retry(void);
void krdma_listeners_exit(void);

/* tick.c */
u32 krdma_default_ms(u32 timeout_ms);
u32 krdma_session_connect_ms(const struct krdma_session *sess);
void krdma_session_tick_init(struct krdma_session *sess);
void krdma_session_tick_by(struct krdma_session *sess, ktime_t when);

/* session.c */
extern struct mutex krdma_sessions_lock;
extern struct list_head krdma_sessions;
struct krdma_session *krdma_session_connect(struct krdma_ctx *ctx,
					    const struct sockaddr_storage *dst,
					    const struct sockaddr_storage *src, u32 flags,
					    u32 timeout_ms, struct krdma_error *error);
struct krdma_session *krdma_session_new(void);
int krdma_session_queue(struct krdma_session *sess);
void krdma_session_left(struct krdma_session *sess);
bool krdma_session_same_host(const struct krdma_session *a, const struct krdma_session *b);
bool krdma_session_same_user(const struct krdma_session *a, const struct krdma_session *b);
int krdma_session_add(struct krdma_session *sess);
void krdma_session_accepted(struct krdma_session *sess, int rc);
void krdma_session_join(struct krdma_session *sess);
void krdma_session_leave(struct krdma_session *sess);
void krdma_session_put(struct krdma_session *sess);
void krdma_session_up(struct krdma_session *sess);
void krdma_session_fail(struct krdma_session *sess, int err, const char *cause, int bye);
void krdma_session_broken(struct krdma_session *sess, const char *cause);
void krdma_session_lost_locked(struct krdma_session *sess, const char *cause,
			       struct krdma_queue *done);
void krdma_session_fail_locked(struct krdma_session *sess, int err, const char *cause, int bye,
			       struct krdma_queue *done);
bool krdma_session_is_up(struct krdma_session *sess);
void krdma_sessions_fail_device(struct krdma_device *dev);
void krdma_sessions_wait_begun(struct krdma_device *dev);
void krdma_sessions_fail_listener(u64 serial);
void krdma_sessions_exit(void);
void krdma_session_serve(struct krdma_session *sess);
struct krdma_device *krdma_session_device(struct krdma_session *sess);
void krdma_session_protocol(struct krdma_session *sess, const char *cause);
int krdma_session_explain(struct krdma_session *sess, int err, struct krdma_error *error);

static inline bool krdma_addr_equal(const struct sockaddr_storage *a,
				    const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;

		return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
	}
	if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;

		return x->sin6_port == y->sin6_port && x->sin6_scope_id == y->sin6_scope_id &&
		       !memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr));
	}
	return true;
}

#endif /* KRDMA_H */
