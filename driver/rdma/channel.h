/* SPDX-License-Identifier: GPL-2.0 */
/* A channel, and what it needs of the floors above; part of rdma.h. */
#ifndef KRDMA_CHANNEL_H
#define KRDMA_CHANNEL_H

struct krdma_channel;

/*
 * A way to the peer: an address and a device here, an address there. Memory is registered for
 * each path that uses it, in its protection domain.
 */
struct krdma_path {
	u32 index;                     /* in the session */
	struct sockaddr_storage src;   /* as requested: AF_UNSPEC for any */
	struct sockaddr_storage dst;   /* the peer */
	struct sockaddr_storage local; /* as connected; AF_UNSPEC: not yet */
	struct mutex lock;             /* to set up a channel, or to give back what they stand on */
	u32 users;                     /* channels that are set up */
	struct krdma_device *dev; /* holds a reference; NULL: no channel so far, or it is gone */
	bool gone;                /* the device goes: so does ->pd; session->lock */
	char device[64];          /* its name */
	u32 losses;               /* channels that were lost on it */
	bool told_up;             /* events have told so of it; session->lock */
	struct ib_pd *pd;
	u8 epoch; /* of the keys that are of ->pd; 0: there are none so far */
	u32 era;  /* initiator: how often ->epoch has changed; session->lock */
	/* initiator: ->connections of the first channel when its session was not known... */
	u32 unknown;
	u32 silent; /* ...or did not answer */

	/* target: where its channels come from */
	union ib_gid host;
	u64 listener; /* serial of the listener */
};

/* A buffer that a message is received into. */
struct krdma_rx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->rx_list, krdma_sender.held */
	void *buf;
	u64 dma;
	u32 len;
	bool busy;  /* something was received, and is not handled yet */
	__le32 tag; /* of a message with a credit */
	struct ib_sge sge;
	struct ib_recv_wr wr;
};

/*
 * What a buffer is used for: KRDMA_CREDITS of each kind at most, so a peer that takes no replies,
 * or on iWARP does not say that it has them, holds up no request.
 */
enum krdma_tx_kind {
	KRDMA_TX_REQUEST,
	KRDMA_TX_REPLY,
	KRDMA_TX_TAKEN, /* reply to messages */
	KRDMA_TX_LAST,  /* BYE, ACK */
	KRDMA_TX_KINDS
};

/* A buffer that a control message is sent from. */
struct krdma_tx {
	struct ib_cqe cqe;
	struct list_head node; /* channel->tx_free or ->tx_sent */
	void *buf;
	u64 dma;
	u16 seq;     /* which of all that were sent; control.c */
	u8 kind;     /* enum krdma_tx_kind */
	u8 repeats;  /* how often it was the first to be sent again */
	bool posted; /* its completion is to come */
	bool sent;   /* on this connection or one before */
	bool acked;  /* iWARP: the peer has it */
};

/*
 * Transfers in order, by ->next: not begun yet; begun, until the lock is dropped that they began
 * under; or ended, before they are completed.
 */
struct krdma_queue {
	struct krdma_transfer *first;
	struct krdma_transfer **last;
};

/* What a channel needs of its session. */
struct krdma_channel_ops {
	/* channel->lock held */
	void (*begin)(struct krdma_channel *ch);
	void (*hold)(struct krdma_channel *ch); /* until ->settle */
	void (*tx_free)(struct krdma_channel *ch);
	void (*received)(struct krdma_channel *ch, struct krdma_rx *rx); /* softirq */
	/* no lock of the session or the channel held */
	const char *(*unfit)(const struct krdma_channel *ch); /* why its device is, or NULL */
	void (*settle)(struct krdma_channel *ch, u32 events);
	void (*established)(struct krdma_channel *ch); /* inbound; rdma_cm's handler */
	void (*beat)(struct krdma_channel *ch);        /* iWARP: ask for a sign of life */
	void (*moved)(struct krdma_channel *ch);       /* its address is of another device */
};

/* What a channel needs of the initiator, whose data it moves. */
struct krdma_data_ops {
	/* process context; ->teardown undoes ->setup, whatever that returned */
	void (*fail_rest)(struct krdma_channel *ch); /* what ->fail has left */
	int (*setup)(struct krdma_channel *ch);
	void (*teardown)(struct krdma_channel *ch);
	void (*release)(struct krdma_channel *ch); /* what one that resumes keeps */
	void (*reap)(struct krdma_channel *ch);    /* queue pair and completion queue are gone */
	/* channel->lock held */
	void (*fail)(struct krdma_channel *ch); /* it is down now */
	void (*pump)(struct krdma_channel *ch);
	/* The first is up again. Return: false: what ->peer says can't be */
	bool (*resume)(struct krdma_channel *ch);
	/* deadlines, in process context; drops the lock for a while. Return: the next one */
	ktime_t (*expire)(struct krdma_channel *ch);
	/* any context but hard interrupts, no lock that a submitter's ->done takes */
	void (*complete)(struct krdma_transfer *first);
	void (*connected)(
		struct krdma_channel *ch); /* it is, and it is not the session's beginning */
	/* Nothing of that connection can arrive at the peer any more. */
	void (*fenced)(struct krdma_channel *ch, u32 connection);
};

enum krdma_channel_state {
	KRDMA_CHANNEL_CONNECTING = KRDMA_SESSION_CONNECTING,
	KRDMA_CHANNEL_UP = KRDMA_SESSION_UP,
	KRDMA_CHANNEL_DOWN = KRDMA_SESSION_CLOSING, /* nothing is posted any more */
	KRDMA_CHANNEL_DEAD = KRDMA_SESSION_DEAD,    /* taken apart: it may begin anew */
};

/* What is left to krdma_channel_unlock(), as it takes other locks. */
enum krdma_channel_event {
	KRDMA_CHANNEL_LOST = 1, /* it has failed; with the first the session, unless that resumes */
	KRDMA_CHANNEL_TX = 2,   /* ->tx_wanted, and a buffer came back */
	KRDMA_CHANNEL_IDLE = 4, /* ->drains, and its last transfer has ended */
};

/* One queue pair of a session. */
struct krdma_channel {
	const struct krdma_channel_ops *ops;
	const struct krdma_data_ops *data; /* NULL: it moves none */
	struct krdma_session *sess;        /* whose reference it is part of */
	u64 serial;                        /* of the session */
	u32 index;                         /* in the session */
	struct krdma_channel *first; /* NULL: it is the first, which has all that is no data */
	bool inbound;
	struct krdma_path *path;      /* of its connection, or of the last attempt */
	struct krdma_path *last_path; /* over which it was up last */

	spinlock_t lock; /* all below that moves */
	enum krdma_channel_state state;
	u32 events;                 /* enum krdma_channel_event */
	struct krdma_queue ended;   /* transfers; krdma_channel_unlock() completes them */
	struct tasklet_struct kick; /* posts, and completes, what others have left to it */
	const char *lost_cause;     /* what ended it, or its connection before this one */
	u32 connections;            /* that were up so far, this one included */
	u32 gone_connection;        /* the last of them whose queue pair is destroyed */
	u32 fenced_connection;      /* the last of them that is known to be gone at the peer */
	u32 latency;                /* of operations, 16 ns; KRDMA_POLICY_LATENCY */

	/* transfers */
	struct hlist_head transfers; /* all under way, the last first */
	struct list_head ready;      /* whose transfers can be posted, in turn */
	struct list_head unmapped; /* not mapped for DMA, or without a key; the tick tries again */
	struct list_head sending;  /* regions with messages to send */
	struct list_head fenced;   /* the first: WRITEs that wait for another to be made anew */
	struct hlist_node *scan;   /* where the walk of ->transfers goes on */
	u32 ntransfers;
	bool drains; /* no transfer begins any more */
	u64 bytes_read;
	u64 bytes_written;
	u64 ended_transfers;
	u64 took_ns; /* these, together */
	u64 failures;
	ktime_t ended_at; /* the first of ->ended */
	struct delayed_work tick;
	ktime_t tick_at;
	u32 keepalive_s;   /* the session's */
	u32 peer_scale;    /* its timeout_scale */
	u32 timeout_scale; /* the same, not less than iWARP's */

	/* What the first keeps when its connection is lost, where the session outlives that. */
	bool resumes; /* it does */
	struct krdma_wire_hello peer;

	/* control messages; likewise */
	struct krdma_tx *tx;
	u32 ntx;
	u32 ntx_mapped;
	struct list_head tx_free;
	struct list_head tx_sent;    /* the peer may not have them; in order */
	u32 tx_used[KRDMA_TX_KINDS]; /* not in tx_free */
	u32 tx_taken;                /* of those, not sent yet */
	bool tx_wanted;              /* somebody found none */
	wait_queue_head_t tx_wait;   /* a buffer came back */
	struct krdma_rx *rx;
	u32 nrx;
	u32 nrx_mapped;
	u32 rx_size;
	struct list_head rx_list; /* received, not handled yet */
	bool rx_busy;             /* one handles what was received */
	bool rx_reply;            /* replies to messages wait for a buffer */
	u16 sent;                 /* control messages; goes on and on */
	u16 received;             /* the same */
	u16 acked;                /* iWARP: of ->sent the peer has received */
	u32 unacked;              /* iWARP: received since the last was sent */

	/* messages of users; likewise */
	bool messages;            /* the initiator may send them */
	bool sends_held;          /* not before those of ->replays are through */
	struct krdma_send *sends; /* KRDMA_MESSAGE_CREDITS of them */
	u32 nsends_mapped;
	u32 message_credits;
	u32 message_credits_used;
	struct list_head sends_free;
	struct list_head sends_sent; /* the peer may not have them; in order */
	u32 replays;                 /* transfers with ->replay */
	u16 messages_sent;           /* those of ->sends_sent included */
	u16 messages_posted;         /* likewise, on this connection or those before */
	u16 messages_received;

	/* From here a connection's: krdma_channel_begin() makes it new. */
	bool beginning;           /* it is being connected or accepted; session->lock */
	bool attached;            /* ->dev counts it in ->beginning; session->lock */
	bool set_up;              /* krdma_post_setup() has begun */
	bool beats;               /* idle it shows that it is alive */
	bool measures;            /* ->latency */
	struct krdma_device *dev; /* the path's, with a reference of its own */
	struct ib_pd *pd;         /* the path's */
	int err;                  /* what ended it */
	int lost_bye;             /* the same as a reason for the peer */
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	struct ib_cq *cq;
	u32 qp_num;
	u32 peer_qp_num; /* inbound */
	u32 port;

	/* connection set-up, rdma/cm.c */
	struct completion cm_done;
	const char *broken;    /* lost while connecting */
	const char *lost;      /* the peer disconnected: what it sent before may still come */
	unsigned long lost_at; /* jiffies */
	int bye;               /* reason of the peer's BYE, which may not be handled yet; or -1 */
	bool said_bye;         /* this host */
	bool left;             /* the peer has disconnected, or the connection is gone */
	const char *cause;     /* the step that failed; the connect work's */
	char text[80];         /* a phrase that is not static */
	int cm_err;
	enum rdma_cm_event_type cm_event;
	const char *cm_why; /* what is wrong with the first event that says so, or NULL */
	u8 rejected;        /* enum krdma_wire_reason of the peer's reject */
	bool stale;         /* the peer's adapter has a connection of before with this queue pair */

	/* data */
	struct krdma_wr *wrs;
	struct krdma_wr *free;
	struct krdma_wr **ring;  /* in the order of their posting; NULL: has ended */
	u32 head;                /* first that may not have ended; head and tail go on and on */
	u32 tail;                /* behind the last */
	u64 *tails;              /* of wrs: where READs are not to be believed; or NULL */
	u64 mark;                /* in those of which nothing has come */
	struct list_head graces; /* krdma_mark.node, in order */
	u32 slots;               /* a power of two; 0 at a target */
	u32 slots_used;
	u32 posted_max; /* bytes */
	u64 posted_bytes;
	u32 max_sge;
	u32 max_sge_rd;
	u32 max_inline; /* of a message; 0: none */

	/* data on iWARP */
	bool iwarp;
	struct krdma_sink *sink;     /* all, KRDMA_SINKS */
	struct list_head sinks;      /* free */
	struct scatterlist *sink_sg; /* for each of them, or scratch */
	u32 sink_pages;
	struct krdma_sink *void_sink; /* of READs behind WRITEs, registered by the first */
	bool void_ready;

	bool places; /* the peer's device has WRITEs in memory when it acknowledges them */

	/* what READs behind WRITEs fill */
	void *void_buf;
	u64 void_dma;

	/* control */
	bool rx_ready;                       /* receives are posted */
	struct ib_recv_wr *rx_again;         /* handled: krdma_post_rx_again() */
	struct tasklet_struct reply_tasklet; /* replies to messages */
	bool heard;                          /* something was received */

	/* liveness */
	u32 outstanding;        /* send-queue work requests without a completion */
	u32 refusals;           /* work requests, since a whole chain was taken */
	u32 completed;          /* those that have one; goes on and on */
	unsigned long last_wc;  /* jiffies: something completed, a receive as well */
	unsigned long progress; /* jiffies: a send did; or of the post that ended idleness */
	u32 *posted_at;         /* jiffies of each outstanding one's post */
	u32 posted_mask;        /* of its indices */
	struct ib_cqe heartbeat_cqe;
	bool heartbeat;             /* one is under way */
	unsigned long heartbeat_at; /* jiffies, on iWARP: since when */

	enum ib_event_type qp_event;
	struct work_struct qp_event_work;
};

#endif /* KRDMA_CHANNEL_H */
