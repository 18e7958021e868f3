/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an open file has, or a client in the kernel: ids, requests, errors. And the ways
 * into the module that end there.
 */
#ifndef KRDMA_CTX_H
#define KRDMA_CTX_H

#include <linux/llist.h>
#include <linux/poll.h>

#include "initiator/initiator.h"
#include "target/target.h"

#define KRDMA_IDS_MAX 4096
/* An operation on memory that is not a registered buffer may not last longer. */
#define KRDMA_OP_PIN_NS (300 * NSEC_PER_SEC)
/* If it may last longer than this its pages are pinned and accounted as a buffer's are. */
#define KRDMA_PIN_SHORT_S  5U
#define KRDMA_PIN_SHORT_NS (KRDMA_PIN_SHORT_S * NSEC_PER_SEC)
#define KRDMA_OP_PIN_MAX   ((u64)SZ_1G)
/* Asynchronous operations of a file, until their completions are read. */
#define KRDMA_CTX_OPS_MAX 4096

/* Memory of an operation that nobody reads the completion of stays pinned so long. */
#define KRDMA_REAP_MS 1000

enum krdma_handle_type {
	KRDMA_HANDLE_SESSION = 1,
	KRDMA_HANDLE_REGION,
	KRDMA_HANDLE_BUFFER,
	KRDMA_HANDLE_EXPORT,
};

#define KRDMA_HANDLE_TYPES (KRDMA_HANDLE_EXPORT + 1)

/* An id of a context. */
struct krdma_handle {
	enum krdma_handle_type type;
	u32 id;
	refcount_t refs; /* the id table, each call that uses it, operations on a region */
	/*
	 * Operations on a region's id, under ctx->reqs_lock: those since the first that
	 * had to wait for its turn, in order, and how many there are from before.
	 */
	struct list_head turns; /* krdma_req.turn */
	u32 nfirst;
	struct krdma_submitter submitter; /* of a region's id */
	union {
		void *object; /* or an ERR_PTR */
		struct krdma_session *sess;
		struct krdma_region *region;
		struct krdma_mem *mem;
		struct krdma_export *export;
	};
};

/* Requests that a file keeps. KASAN can't see who uses one that was freed: there few. */
#define KRDMA_CTX_IDLE (IS_ENABLED(CONFIG_KASAN) ? 2 : 128)

/* An operation of a process: request.c. */
struct krdma_req {
	struct krdma_transfer x;
	struct krdma_error error; /* why its memory could not be had */
	struct krdma_pins pins;   /* local memory that is pinned for this */

	/* From here all zero at first, and of ->pins. */
	struct krdma_ctx *ctx;
	struct list_head all;   /* ctx->reqs, then ctx->ended or ctx->over */
	struct krdma_handle *h; /* of the region */
	struct list_head turn;  /* h->turns */
	bool started;
	bool after;             /* starts when it is the first of its turns */
	bool tasked;            /* its end is up to task work, which may be late */
	bool over;              /* of a batch: ->end was called, and it may be unpinned */
	bool any_time;          /* the user has not said how long it may last */
	bool cancelled;         /* by io_uring */
	bool unpinning;         /* on ctx->ended or ->over, but not to be taken; ctx->reqs_lock */
	bool keep;              /* for another operation of its context */
	struct krdma_mem *mem;  /* or a buffer of ours; or neither: io_uring's */
	struct krdma_vec *vecs; /* the operation's vectors, copied */
	void (*end)(struct krdma_req *r);
	void *frontend;         /* the front end's own */
	struct llist_node idle; /* ctx->idle */
};

/* Threads of a file whose last error is kept. */
#define KRDMA_ERRORS 8

struct krdma_thread_error {
	pid_t tid; /* 0: free */
	struct krdma_error error;
};

/* One open file, or a client in the kernel. */
struct krdma_ctx {
	struct kref ref;           /* the file or client, requests, reap_work */
	struct net *net;           /* holds a reference */
	struct krdma_user *user;   /* holds a reference; that it acts as */
	struct krdma_payer *payer; /* for what it pins; holds a reference */
	struct xarray handles;
	struct krdma_handle *last[KRDMA_HANDLE_TYPES]; /* that was asked for; handles' lock */
	atomic_t nhandles;
	spinlock_t reqs_lock;    /* (BH) the lists of requests; outside session->lock */
	struct list_head reqs;   /* under way, krdma_req.all */
	struct list_head ended;  /* asynchronous, not read yet, krdma_req.all */
	struct list_head over;   /* of io_uring, pinned, until its task work; the same */
	u32 nreqs;               /* asynchronous, until read; and of io_uring */
	struct krdma_call *call; /* of an ioctl, for the next one */
	struct llist_head idle;  /* requests to be used again; taken under reqs_lock */
	u32 nidle;               /* those, and such as will be there soon */
	bool closed;             /* nobody reads any more */
	wait_queue_head_t wait;  /* one has ended; there is room */
	struct eventfd_ctx *eventfd;
	struct delayed_work reap_work;
	bool unpinning;       /* reap_work is at a request; ctx->reqs_lock */
	unsigned long paused; /* jiffies: when a cancel by io_uring had its break */
	spinlock_t error_lock;
	struct krdma_thread_error errors[KRDMA_ERRORS];
	u32 next_error;
	u32 last_error;
	struct work_struct close_work;
};

/* cdev.c */
int krdma_cdev_register(void);
void krdma_cdev_unregister(void);
int krdma_addr_from_user(const struct krdma_sockaddr *in, struct sockaddr_storage *out,
			 struct krdma_error *error);
void krdma_addr_default_port(struct sockaddr_storage *addr);

/* ctx.c: what an open file has */
struct krdma_ctx *krdma_ctx_new(struct net *net, kuid_t uid);
void krdma_ctx_put(struct krdma_ctx *ctx);
struct krdma_handle *krdma_handle_new(struct krdma_ctx *ctx, enum krdma_handle_type type, u32 *id,
				      struct krdma_error *error);
int krdma_handle_remove(struct krdma_ctx *ctx, u32 id, struct krdma_handle *h);
struct krdma_handle *krdma_handle_get(struct krdma_ctx *ctx, u32 id, enum krdma_handle_type type,
				      struct krdma_error *error);
void krdma_handle_put(struct krdma_handle *h);
void krdma_error_keep(struct krdma_ctx *ctx, struct krdma_error *error, int rc);
void krdma_error_last(struct krdma_ctx *ctx, struct krdma_ioc_last_error *cmd);

/* frontend/request.c: an operation of a process, whatever front end it comes through */
int krdma_op_init(void);
void krdma_op_exit(void);
struct krdma_req *krdma_req_new(struct krdma_ctx *ctx, struct krdma_req *idle);
struct krdma_req *krdma_req_idle(struct krdma_ctx *ctx);
void krdma_req_keep(struct krdma_req *r);
void krdma_req_free(struct krdma_req *r);
int krdma_reqs_take(struct krdma_ctx *ctx, struct krdma_req **reqs, u32 n);
void krdma_reqs_give(struct krdma_req **reqs, u32 n);
void krdma_reqs_free(struct llist_head *idle);
int krdma_req_check(const struct krdma_op *op, bool fixed, struct krdma_req *r,
		    struct krdma_error *error);
int krdma_req_prepare(struct krdma_req *r, struct krdma_error *error);
void krdma_reqs_submit(struct krdma_queue *batch);
void krdma_req_unpin(struct krdma_req *r);
void krdma_req_drop(struct krdma_req *r);

/* submit.c: the ioctls */
int krdma_submit(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd, bool nonblock,
		 struct krdma_error *error);
void krdma_cancel(struct krdma_ctx *ctx, struct krdma_ioc_cancel *cmd);
int krdma_eventfd_set(struct krdma_ctx *ctx, int fd, struct krdma_error *error);
void krdma_reap_later(struct krdma_ctx *ctx);
struct krdma_req *krdma_submit_enter(struct krdma_ctx *ctx);
void krdma_submit_leave(struct krdma_req *r, struct krdma_req **link);
ssize_t krdma_reap(struct file *file, char __user *buf, size_t size, loff_t *pos);
__poll_t krdma_poll(struct file *file, poll_table *wait);
void krdma_submit_close(struct krdma_ctx *ctx);
void krdma_submit_reap_work(struct work_struct *work);

/* dump.c */
int krdma_list_fill(struct krdma_ctx *ctx, struct krdma_ioc_list *cmd, struct krdma_error *error);

/* uring.c */
u64 krdma_uring_features(void);
int krdma_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif /* KRDMA_CTX_H */
