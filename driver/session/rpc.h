/* SPDX-License-Identifier: GPL-2.0 */
/* Requests, both ways, and what was received; part of session.h. */
#ifndef KRDMA_RPC_H
#define KRDMA_RPC_H

struct krdma_session;

/*
 * What a request needs: one of the peer's credits, and a buffer to send it from; or
 * the wait for both.
 */
struct krdma_credit {
	struct list_head node;    /* session->creditless, while it waits */
	struct work_struct *work; /* to be queued then; NULL: somebody sleeps on session->wait */
	struct krdma_tx *tx;      /* NULL: it has neither */
};

struct krdma_rpc;
/* Reply, or error with msg NULL. Process context, no locks; once. */
typedef void (*krdma_rpc_fn)(struct krdma_rpc *rpc, const union krdma_wire_msg *msg, int err);

/* A request of ours under way. */
struct krdma_rpc {
	struct list_head node; /* session->rpcs */
	refcount_t refs;       /* requester, and session->rpcs */
	u8 type;
	u32 tag;
	bool service; /* the target's service replies to it */
	bool beats;   /* a heartbeat: the channel's tick has its time */
	ktime_t posted;
	ktime_t replied;
	unsigned long expires; /* jiffies; then the session ends */
	krdma_rpc_fn fn;       /* NULL: the requester went away; session->lock */
	void *arg;
	struct completion done;
	int err;
};

/* A request of the peer that the service replies to. */
struct krdma_request {
	struct list_head node; /* session->requests */
	struct krdma_tx *tx;   /* for the reply */
	u64 bytes[];           /* the message */
};

static inline const union krdma_wire_msg *krdma_request_msg(const struct krdma_request *req)
{
	return (const union krdma_wire_msg *)req->bytes;
}

/* rpc.c: requests of this host, and the credits for them */
gfp_t krdma_rpc_gfp(const struct krdma_session *sess);
struct krdma_rpc *krdma_rpc_new(const struct krdma_session *sess, krdma_rpc_fn fn, void *arg);
void krdma_rpc_put(struct krdma_rpc *rpc);
void krdma_credit_init(struct krdma_credit *credit, struct work_struct *work);
bool krdma_credit_take(struct krdma_session *sess, struct krdma_credit *credit);
bool krdma_credit_spare(struct krdma_session *sess, struct krdma_credit *credit);
void krdma_credit_put(struct krdma_session *sess, struct krdma_credit *credit);
void krdma_credits_settle(struct krdma_session *sess);
int krdma_credit_wait(struct krdma_session *sess, struct krdma_credit *credit, u32 wait_ms);
void *krdma_credit_build(const struct krdma_credit *credit, u8 type, u32 fixed, u32 more);
int krdma_rpc_post(struct krdma_session *sess, struct krdma_credit *credit, struct krdma_rpc *rpc);
int krdma_rpc_wait(struct krdma_session *sess, struct krdma_credit *credit, krdma_rpc_fn fn,
		   void *arg, u32 wait_ms, s64 *rtt_ns);
void krdma_rpc_replied(struct krdma_session *sess, struct krdma_rx *rx,
		       const union krdma_wire_msg *msg);
void krdma_rpcs_fail(struct krdma_session *sess);
bool krdma_rpcs_expired(struct krdma_session *sess, unsigned long *next);
void krdma_rpcs_resume(struct krdma_session *sess);
void krdma_rpc_heartbeat(struct krdma_channel *ch);
int krdma_rpc_fence(struct krdma_session *sess);
int krdma_ping(struct krdma_session *sess, u32 length, u32 timeout_ms, u64 *rtt_ns,
	       struct krdma_error *error);

/* receive.c: what was received, and replies to it */
void krdma_ctl_rx_came(struct krdma_channel *ch, struct krdma_rx *rx);
void krdma_ctl_rx_kick(struct krdma_channel *ch);
void krdma_ctl_rx_work(struct work_struct *work);
void krdma_ctl_replies(struct tasklet_struct *t);
int krdma_reply(struct krdma_session *sess, struct krdma_tx *tx, __le32 tag);
int krdma_reply_status(struct krdma_session *sess, struct krdma_tx *tx, u8 type, __le32 tag,
		       u16 status);
bool krdma_ctl_serve(struct krdma_session *sess, struct krdma_rx *rx, struct krdma_tx *tx,
		     const union krdma_wire_msg *msg);
bool krdma_ctl_bye(struct krdma_session *sess, u8 reason);
bool krdma_ctl_notice(struct krdma_session *sess, u8 reason, u32 notice_ms);

#endif /* KRDMA_RPC_H */
