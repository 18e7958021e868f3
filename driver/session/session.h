/* SPDX-License-Identifier: GPL-2.0 */
/*
 * session/: the relation of this host with one peer.
 *
 * A session is made, shared, watched and taken apart here; its requests and the peer's, with
 * their credits, are carried; listeners admit peers. What a session is for is not known here:
 * whoever connected is the initiator, whoever was connected to is the target, and each of the
 * two floors above hands down a table of callbacks, krdma_role_ops. session.c has the life of a
 * session, connect.c its beginning, channels.c the channels that come and go, path.c its paths,
 * rpc.c the requests of this host, receive.c what comes from the peer, keepalive.c its times,
 * listener.c the admission. Below are rdma/, mem/ and wire/; initiator/, target/ and frontend/ call
 * this floor.
 */
#ifndef KRDMA_SESSION_H
#define KRDMA_SESSION_H

#include <linux/in6.h>
#include <linux/kref.h>
#include <linux/socket.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include "rdma/rdma.h"
#include "session/credit.h"
#include "session/observe.h"
#include "session/path.h"
#include "session/rpc.h"

#define KRDMA_SESSIONS_MAX 4096
/* Of a session: the first, and those for data. */
#define KRDMA_CHANNELS_MAX KRDMA_WIRE_CHANNELS_MAX
static_assert(KRDMA_PATHS_MAX == KRDMA_WIRE_PATHS_MAX);
/* Inbound: of all, of one address, whose users share them (krdma_share_ok()), and not up yet. */
#define KRDMA_INBOUND_MAX      3072
#define KRDMA_INBOUND_PEER_MAX 256
#define KRDMA_INBOUND_NEW_MAX  128
/* Of those, such as may send messages, with some 1 MiB each: of all, and of one peer. */
#define KRDMA_INBOUND_MESSAGES_MAX      256
#define KRDMA_INBOUND_MESSAGES_PEER_MAX 32
/* Outbound sessions of one user that is not root. */
#define KRDMA_OUTBOUND_USER_MAX 256

/*
 * Times, milliseconds. REQUEST, SERVICE, FENCE and CONNECT are for peers, and longer by the
 * timeout_scale of the session or channel.
 */
#define KRDMA_REQUEST_MS      10000
#define KRDMA_SERVICE_MS      30000
#define KRDMA_FENCE_MS        60000 /* the target's device may be slow */
#define KRDMA_LINGER_MS       10000
#define KRDMA_SESSION_TICK_MS 2000 /* it comes at least so often */
#define KRDMA_CONNECT_MS      10000
#define KRDMA_BYE_MS          1000
#define KRDMA_FOREVER_MS      0x7fffffffU
/* A session that fails fast finds a way for its first channel while another path is up. */
#define KRDMA_FAIL_FAST_S  10
#define KRDMA_DRAIN_MAX_MS (KRDMA_DRAIN_MAX * MSEC_PER_SEC)
/* Workers wait for peers: not so long that the kernel takes them for hung, 120 s. */
#define KRDMA_TIMEOUT_SCALE_MAX 4
/* A service replies to others first for no longer than this. */
#define KRDMA_SERVICE_MAX_MS 90000

/* What a session needs of the initiator, or of the target. */
struct krdma_role_ops {
	const struct krdma_data_ops *data; /* of its channels; or NULL */
	/* process context */
	void (*init)(struct krdma_session *sess);
	void (*established)(struct krdma_session *sess); /* outbound, before it is up */
	void (*drop)(struct krdma_session *sess);        /* its queue pairs are gone */
	void (*serve)(struct krdma_session *sess);       /* svc_work, which may wait for the peer */
	void (*tick)(struct krdma_session *sess);        /* now and then */
	/* session->lock held */
	void (*changed)(struct krdma_session *sess); /* it is ->resuming, or not, or goes down */
	void (*keys_void)(struct krdma_session *sess, u32 path); /* the target's, of a path */
	void (*path_up)(struct krdma_session *sess, u32 path);   /* it will be, in a moment */
	/* The device of a path goes, and no channel is left on it: krdma_path_release() follows. */
	void (*path_gone)(struct krdma_session *sess, struct krdma_path *path);
	/* rx_work. @tx: for the reply. Return: false if that is not used: the session ends */
	bool (*request)(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
			const union krdma_wire_msg *msg);
	/* Or a reply to some; the first channel locked, and up. Return: breach of the protocol */
	const char *(*message)(struct krdma_session *sess, struct krdma_rx *rx,
			       const union krdma_wire_msg *msg);
	/* rx_work, for the target softirq as well: replies that are due, if there are */
	void (*replies_due)(struct krdma_session *sess);
};

#define KRDMA_OPEN_FLAGS (KRDMA_OPEN_HELD | KRDMA_OPEN_EXCLUSIVE | KRDMA_OPEN_TAKEOVER)
#define KRDMA_CONNECT_FLAGS \
	(KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES | KRDMA_CONNECT_FAIL_FAST)

/* How a session is to be, as who connects wants it; the same as in struct krdma_ioc_connect. */
struct krdma_connect_options {
	u32 flags;
	u32 resume_s;
	u32 keepalive_s;
	u32 policy; /* KRDMA_POLICY_* */
};

/* The relation with one peer. */
struct krdma_session {
	struct kref ref;       /* 1 while listed, for each handle and region, and for some calls */
	struct list_head node; /* krdma_sessions, by serial */
	u64 serial;
	bool inbound;
	const struct krdma_role_ops *role;
	struct krdma_connect_options options; /* outbound */
	bool private;
	bool messages;            /* made for them, too */
	bool grows;               /* GROW may be sent */
	u32 users;                /* handles of sessions and regions */
	unsigned long idle_since; /* jiffies, when users became 0 */
	struct net *net;          /* compared only; the cm id holds it */
	kuid_t uid;
	struct sockaddr_storage dst; /* the peer, by the first path */
	union ib_gid host;           /* inbound: the peer's address that limits count by */
	u64 listener;                /* serial of the listener it came through, or 0 */
	u32 timeout_scale;           /* factor of the times that the peer has */
	u32 keepalive_s;

	struct krdma_channel *ch;                           /* the first */
	struct krdma_channel *channels[KRDMA_CHANNELS_MAX]; /* by index; NULL: not needed so far */
	u32 nchannels; /* that there may be; does not change when the session is up */
	u64 secret;    /* that each of them has to say */
	struct krdma_path paths[KRDMA_PATHS_MAX];
	u32 npaths;        /* outbound: that it was made with */
	u32 segment_shift; /* of the device it began on; others have to do as well */
	u32 rights;        /* likewise */
	bool iwarp;        /* likewise */
	struct krdma_fence fences[KRDMA_CHANNELS_MAX];
	/* So long it outlives its first channel; 0: not at all, KRDMA_RESUME_ALWAYS; likewise. */
	u32 resume_s;

	/* Transfers that have moved from one channel to another: off the one, onto the other. */
	atomic_t moves_begun, moves_ended;

	spinlock_t lock; /* all below, and regions */
	enum krdma_session_state state;
	bool writeback;         /* what frees memory may wait for it: a region was held; no lock */
	bool resuming;          /* the first channel is lost, and may come back */
	unsigned long lost_at;  /* jiffies: since when */
	u32 revoked;            /* grants that are to end; krdma_exports_lock */
	bool shed;              /* others wait for segments of it; likewise */
	bool replaced;          /* inbound: its host was there with another incarnation since */
	u32 beginning;          /* channels with ->beginning */
	bool leaving;           /* a BYE is on its way, or a second is not over */
	const char *drains;     /* it ends when what is under way has ended: why; or NULL */
	int drain_bye;          /* the same as a reason for the peer */
	ktime_t drain_until;    /* it ends by then in any case */
	bool noticed;           /* inbound: the peer was told of that */
	u8 notices;             /* how often the target has told */
	bool cut;               /* something was under way when it ended by that */
	int err;                /* what ended it */
	const char *cause;      /* the same as a phrase */
	int bye;                /* reason to tell the peer, -1 for none */
	wait_queue_head_t wait; /* state changes, credits */
	ktime_t made;
	u64 peer_incarnation;

	/* our requests */
	struct list_head rpcs;
	unsigned long last_reply; /* jiffies */
	struct krdma_credit_pool credits;
	struct list_head creditless; /* krdma_credit: wait for one, first come */

	/* the peer's requests */
	struct krdma_tags tags;
	struct list_head requests;

	/* initiator */
	struct list_head regions;
	u32 nregions;
	struct list_head recalls;
	struct krdma_usage usage; /* what it reports; at a target, ->wanted alone */

	/* target: the service alone, except for the counts */
	struct xarray grants;
	u32 next_grant;
	u32 generation;
	u32 ngrants;
	struct krdma_used served; /* as the peer reports */
	struct list_head segs;
	u32 nsegs;
	u32 nheld;                 /* most that grants hold; krdma_exports_lock */
	struct list_head reclaims; /* RECALLs under way; session->lock */
	struct krdma_path *serves; /* path that keys are being registered for; or NULL */
	u32 nreplied;              /* of them, the service has not handled the reply yet */
	atomic_t svc_pending;      /* registrations or invalidations posted */
	struct completion svc_done;
	struct xarray senders; /* krdma_sender by grant; the first channel's lock, as to ->told */
	DECLARE_BITMAP(message_tags, KRDMA_MESSAGE_CREDITS + 1); /* messages without a reply */
	struct krdma_wire_taken taken[KRDMA_MESSAGE_CREDITS];    /* to be replied to */
	u32 ntaken;
	struct krdma_message_queue *told; /* its readers are to be woken then; a reference */

	struct workqueue_struct *wq;      /* of works that may wait for this peer */
	struct workqueue_struct *down_wq; /* of ends_work and down_work */
	struct work_struct connect_work;
	struct delayed_work channels_work;
	u32 pause_ms; /* before it comes again; session->lock */
	u32 tried;    /* paths, for the first channel since it was up */
	struct work_struct ends_work;
	struct work_struct rx_work;
	struct work_struct svc_work;
	struct delayed_work down_work;
	struct work_struct gone_work;
	struct delayed_work tick;
	ktime_t tick_at;
};

/* Prefixes of peers. */
struct krdma_allow {
	struct rcu_head rcu;
	u32 n;
	struct krdma_prefix prefixes[];
};

struct krdma_listener {
	struct list_head node; /* krdma_listeners */
	u64 serial;
	struct net *net;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id; /* NULL: waits for a device */
	bool removed;          /* the device went before the id was here */
	bool closed;           /* no session is new here */
	const void *owner;     /* what it ends with; NULL in init_net */
	atomic64_t accepted;
	atomic64_t refused;
	struct krdma_allow __rcu *allow; /* NULL: every peer */
};

/* It has ended, or is about to; not where its connection is lost, and may come back. */
static inline bool krdma_session_over(const struct krdma_session *sess)
{
	return READ_ONCE(sess->state) > KRDMA_SESSION_UP;
}

/* A channel that there is, or NULL. */
static inline struct krdma_channel *krdma_session_slot(const struct krdma_session *sess, u32 index)
{
	/* ORDER: what krdma_channels_begin() has written before. */
	return smp_load_acquire(&sess->channels[index]);
}

/* The channel that there is at an index or behind it; NULL behind the last. */
static inline struct krdma_channel *krdma_session_next(const struct krdma_session *sess, u32 *index)
{
	struct krdma_channel *ch = NULL;

	while (*index < KRDMA_CHANNELS_MAX) {
		ch = krdma_session_slot(sess, *index);
		if (ch)
			break;
		++*index;
	}
	return ch;
}

/* Each channel that there is, whatever its state; the index is the channel's. */
#define krdma_for_each_channel(ch, sess, index) \
	for (index = 0; (ch = krdma_session_next(sess, &index)); index++)

/**
 * krdma_session_channel - the channel for data of a processor
 * @sess: session
 * @cpu: any number
 *
 * Not the first where there are others, so that no control message waits behind data.
 *
 * Context: any; another processor's does no harm.
 * Return: a channel; the first if that of the processor is not up
 */
static inline struct krdma_channel *krdma_session_channel(const struct krdma_session *sess, u32 cpu)
{
	u32 n = READ_ONCE(sess->nchannels) - 1;
	struct krdma_channel *ch;

	if (unlikely(sess->npaths > 1))
		return krdma_path_channel(sess, cpu);
	ch = krdma_session_slot(sess, n ? 1 + cpu % n : 0);
	return likely(ch && READ_ONCE(ch->state) == KRDMA_CHANNEL_UP) ? ch : sess->ch;
}

/* channels.c: channels that come and go */
u32 krdma_channels_wanted(u32 npaths);
u32 krdma_channels_granted(u32 wanted);
void krdma_channels_begun(struct krdma_channel *ch);
void krdma_channels_lost(struct krdma_channel *ch);
void krdma_channel_stop(struct krdma_channel *ch);
void krdma_channel_end(struct krdma_channel *ch);
void krdma_channels_work(struct work_struct *work);
void krdma_channels_ends_work(struct work_struct *work);
const char *krdma_channels_accept(struct krdma_session *sess, struct rdma_cm_id *id,
				  const struct krdma_path *from,
				  const struct krdma_wire_hello *hello,
				  const struct rdma_conn_param *peer);

/* connect.c: the first channel of a new session */
int krdma_session_accept(struct krdma_session *sess, struct rdma_cm_id *id,
			 const struct krdma_wire_hello *hello, const struct rdma_conn_param *peer);
void krdma_session_connect_work(struct work_struct *work);

/* address.c */
void krdma_addr_to_user(const struct sockaddr_storage *in, struct krdma_sockaddr *out);
u32 krdma_addrs_local(const struct krdma_session *sess, struct krdma_wire_address *to, u32 most);

static inline bool krdma_addr_equal(const struct sockaddr_storage *a,
				    const struct sockaddr_storage *b)
{
	struct krdma_sockaddr x, y;

	krdma_addr_to_user(a, &x);
	krdma_addr_to_user(b, &y);
	return !memcmp(&x, &y, sizeof(x));
}

/* listener.c: listeners and admission */
extern struct mutex krdma_listeners_lock;
extern struct list_head krdma_listeners;
int krdma_listen(struct net *net, const void *owner, const struct sockaddr_storage *addr,
		 struct krdma_allow *allow, bool replace, struct krdma_error *error);
int krdma_unlisten(struct net *net, const struct sockaddr_storage *addr, bool close,
		   struct krdma_error *error);
void krdma_listeners_drop(const void *owner);
void krdma_listeners_retry(void);
void krdma_listeners_exit(void);

/* keepalive.c */
u32 krdma_default_ms(u32 timeout_ms);
u32 krdma_session_connect_ms(const struct krdma_session *sess);
void krdma_session_tick_init(struct krdma_session *sess);
u32 krdma_session_resume_wanted(const struct krdma_session *sess);
int krdma_connect_options_check(const struct krdma_connect_options *options,
				struct krdma_error *error);
void krdma_session_tick_by(struct krdma_session *sess, ktime_t when);
void krdma_session_retire(struct krdma_session *sess);

/* drain.c: the end of those that are to finish what is under way */
void krdma_session_drain(struct krdma_session *sess, u32 timeout_ms, const char *cause, int bye);
void krdma_session_drained(struct krdma_session *sess);
bool krdma_session_drain_tick(struct krdma_session *sess);
void krdma_session_notice(struct krdma_session *sess);
int krdma_sessions_drain(struct net *net, kuid_t uid, bool admin, u64 serial,
			 const struct krdma_sockaddr *peer, u32 timeout_ms,
			 struct krdma_error *error);

/* list.c: who shares sessions, and how many there may be */
extern struct mutex krdma_sessions_lock;
extern struct list_head krdma_sessions;
extern const struct krdma_device_ops krdma_session_device_ops;
void krdma_sessions_begin(void);
void krdma_sessions_begun(void);
struct krdma_session *krdma_session_joined(struct net *net, const struct krdma_wire_hello *hello);
void krdma_sessions_del(struct krdma_session *sess);
int krdma_session_wait_gone(struct krdma_session *sess);
bool krdma_session_settled(struct krdma_session *sess);
struct krdma_session *krdma_session_begin_connect(struct net *net, kuid_t uid,
						  const struct krdma_route *routes, u32 n,
						  const struct krdma_connect_options *options,
						  struct krdma_error *error);
struct krdma_session *krdma_session_connect(struct net *net, kuid_t uid,
					    const struct krdma_route *routes, u32 n,
					    const struct krdma_connect_options *options,
					    u32 timeout_ms, struct krdma_error *error);
bool krdma_session_same_host(const struct krdma_session *a, const struct krdma_session *b);
bool krdma_session_same_user(const struct krdma_session *a, const struct krdma_session *b);
int krdma_session_add(struct krdma_session *sess);
void krdma_sessions_replace(const struct krdma_session *sess, __le64 incarnation);
void krdma_session_join(struct krdma_session *sess);
void krdma_session_leave(struct krdma_session *sess);
void krdma_sessions_fail(u64 listener, const char *cause);
void krdma_sessions_exit(void);

/* session.c: the life of one */
u32 krdma_session_rights(const struct krdma_session *sess);
u32 krdma_session_shown(const struct krdma_session *sess);
void krdma_session_roles(const struct krdma_role_ops *initiator,
			 const struct krdma_role_ops *target);
struct krdma_channel *krdma_channel_new(struct krdma_session *sess, u32 index);
struct krdma_session *krdma_session_new(bool inbound);
int krdma_session_queue(struct krdma_session *sess);
void krdma_session_svc_done(struct krdma_session *sess);
void krdma_session_begin(struct krdma_session *sess, struct krdma_channel *ch,
			 struct krdma_path *path);
void krdma_session_up(struct krdma_channel *ch);
void krdma_session_begun(struct krdma_channel *ch, int rc, const char *cause);
void krdma_session_put(struct krdma_session *sess);
void krdma_session_fail(struct krdma_session *sess, int err, const char *cause, int bye);
void krdma_session_fail_locked(struct krdma_session *sess, int err, const char *cause, int bye);
bool krdma_session_is_up(struct krdma_session *sess);
void krdma_session_serve(struct krdma_session *sess);
struct krdma_device *krdma_session_device(struct krdma_session *sess,
					  const struct krdma_channel *ch);
void krdma_session_protocol_locked(struct krdma_session *sess, const char *cause);
void krdma_session_protocol(struct krdma_session *sess, const char *cause);
int krdma_session_explain(struct krdma_session *sess, const struct krdma_channel *ch, int err,
			  struct krdma_error *error);

#endif /* KRDMA_SESSION_H */
