/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an open file has, or a client in the kernel: ids, requests, errors. And the ways
 * into the module that end there.
 */
#ifndef KRDMA_CTX_H
#define KRDMA_CTX_H

#include <linux/cache.h>
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

/* Connects of a file whose eventfd is to be signalled: a session's wake_up() looks at each. */
#define KRDMA_CTX_CONNECTS_MAX 64

/* Memory of an operation that nobody reads the completion of stays pinned so long. */
#define KRDMA_REAP_MS 1000

enum krdma_handle_type {
	KRDMA_HANDLE_SESSION = 1,
	KRDMA_HANDLE_REGION,
	KRDMA_HANDLE_BUFFER,
	KRDMA_HANDLE_EXPORT,
};

#define KRDMA_HANDLE_TYPES (KRDMA_HANDLE_EXPORT + 1)

/* What the operations of one lane do with an id; lane->lock. */
struct krdma_use {
	u32 n;        /* requests that hold it */
	bool gone;    /* the id is: these count in ->refs */
	bool ordered; /* what the handle's ->ordered was when it was looked at last */
	/*
	 * Operations on a region that are under way, without those that ->nfirst or ->turns
	 * have. One may begin here and end there: the sum of all lanes is what it says.
	 */
	s32 before;
} ____cacheline_aligned_in_smp;

/* An id of a context. */
struct krdma_handle {
	enum krdma_handle_type type;
	u32 id;
	refcount_t refs; /* the id table, each call that uses it; requests, when the id is gone */
	/*
	 * Operations on a region's id where some have to wait for their turn, ctx->lock: those
	 * since the first that had to, in order, and how many there are from before.
	 */
	bool ordered;           /* there are such, or the first is about to be */
	struct list_head turns; /* krdma_req.turn */
	s32 nfirst;
	struct krdma_submitter submitter;    /* of a region */
	struct krdma_connecting *connecting; /* of a session that was not waited for; or NULL */
	union {
		void *object; /* or an ERR_PTR */
		struct krdma_session *sess;
		struct krdma_region *region;
		struct krdma_mem *mem;
		struct krdma_export *export;
	};
	struct krdma_use on[]; /* of a region or buffer: by the index of the lane */
};

/* Of a file: as many as a session has channels for data. */
#define KRDMA_LANES_MAX (KRDMA_CHANNELS_MAX - 1)
/* Requests that a lane keeps. KASAN can't see who uses one that was freed: there few. */
#define KRDMA_LANE_IDLE (IS_ENABLED(CONFIG_KASAN) ? 2 : 64)
/* Room for operations that a lane has of its file's at a time. */
#define KRDMA_LANE_ROOM 64

/* Of a process that waits for some operations; in the first request of them. submit.c */
struct krdma_batch {
	atomic_t pending; /* those under way */
	atomic_t met;     /* the last one has ended; the process does not wait any more */
	struct completion done;
	struct work_struct work;
};

/* An operation of a process: request.c. */
struct krdma_req {
	struct krdma_transfer x;
	struct krdma_error error; /* why its memory could not be had */
	struct krdma_batch batch;
	struct krdma_pins pins; /* local memory that is pinned for this */

	/* From here all zero at first, and of ->pins. */
	struct krdma_ctx *ctx;
	struct krdma_lane *lane; /* of the processor that submits it */
	struct krdma_req *next;  /* of the same call; then to be given back; or lane->idle */
	struct list_head all;    /* lane->reqs, then lane->over or ctx->ended */
	struct krdma_handle *h;  /* of the region */
	struct krdma_handle
		*buffer; /* of a buffer, until it has ended; with its id gone until unpinned */
	struct list_head turn; /* h->turns */
	bool started;
	bool after;     /* starts when it is the first of its turns */
	bool tasked;    /* its end is up to task work, which may be late */
	bool over;      /* of a batch: ->end was called, and it may be unpinned */
	bool any_time;  /* the user has not said how long it may last */
	bool cancelled; /* by io_uring */
	bool unpinning; /* on ctx->ended or lane->over, but not to be taken; the list's lock */
	bool room;      /* it has room of its lane */
	struct krdma_mem *mem;  /* the buffer's; or NULL: pinned for this, or io_uring's */
	struct krdma_vec *vecs; /* the operation's vectors, copied */
	void (*end)(struct krdma_req *r);
	void *frontend; /* the front end's own */
};

/*
 * What the operations of one processor write: those that are submitted and those that end, on
 * the channel of that processor, mostly. So processors do not share it.
 */
struct krdma_lane {
	spinlock_t lock; /* (BH) all below, and ->on[] of the ids; outside ctx->lock */
	u32 index;
	bool gone; /* the file is closed: requests count in ctx->ref */
	u32 nreqs; /* requests, which hold the context */
	u32 room;  /* for operations of io_uring, taken from ctx->room */
	u32 nidle;
	struct krdma_req *idle;      /* to be used again */
	struct list_head reqs;       /* under way, krdma_req.all */
	struct list_head over;       /* of io_uring, pinned, until its task work; the same */
	struct krdma_handle *region; /* that was asked for last; or NULL */
	struct krdma_handle *buffer; /* the same */
	struct krdma_call *call;     /* of an ioctl, for the next one; no lock */
} ____cacheline_aligned_in_smp;

/* Threads of a file whose last error is kept. */
#define KRDMA_ERRORS 8

struct krdma_thread_error {
	pid_t tid; /* 0: free */
	struct krdma_error error;
};

/* One open file, or a client in the kernel. */
struct krdma_ctx {
	struct kref ref;           /* the file or client, reap_work; requests of a closed file */
	struct net *net;           /* holds a reference */
	struct krdma_user *user;   /* holds a reference; that it acts as */
	struct krdma_payer *payer; /* for what it pins; holds a reference */
	struct xarray handles;
	atomic_t nhandles;
	atomic_t nconnecting;   /* krdma_connecting that have not signalled */
	spinlock_t lock;        /* (BH) what follows, and turns; outside session->lock */
	struct list_head ended; /* asynchronous, not read yet, krdma_req.all, in order */
	u32 nasync;             /* asynchronous, until read */
	u32 room;               /* for those, and for io_uring's, which the lanes have not */
	bool closed;            /* nobody reads any more */
	struct eventfd_ctx *eventfd;
	wait_queue_head_t wait; /* one has ended; there is room */
	struct delayed_work reap_work;
	bool unpinning;       /* reap_work is at a request */
	unsigned long paused; /* jiffies: when a cancel by io_uring had its break */
	spinlock_t error_lock;
	struct krdma_thread_error errors[KRDMA_ERRORS];
	u32 next_error;
	u32 last_error;
	struct work_struct close_work;
	u32 nlanes;
	struct krdma_lane lanes[];
};

/**
 * krdma_lane_of - the lane of this processor
 * @ctx: context
 *
 * Context: any; another processor's does no harm.
 * Return: the lane
 */
static inline struct krdma_lane *krdma_lane_of(struct krdma_ctx *ctx)
{
	u32 n = ctx->nlanes, cpu = raw_smp_processor_id();

	return &ctx->lanes[cpu < n ? cpu : cpu % n];
}

#define krdma_for_each_lane(lane, ctx) \
	for ((lane) = (ctx)->lanes; (lane) < &(ctx)->lanes[(ctx)->nlanes]; (lane)++)

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
int krdma_handle_missing(u32 id, enum krdma_handle_type type, struct krdma_error *error);

/**
 * krdma_use_begin - the handle of an id, for a request
 * @ctx: open file
 * @lane: of the request
 * @last: the handle of that type that was asked for last there
 * @id: from the user
 * @type: what it must be
 *
 * Context: lane->lock held.
 * Return: the handle, for krdma_use_end; or NULL
 */
static inline struct krdma_handle *krdma_use_begin(struct krdma_ctx *ctx, struct krdma_lane *lane,
						   struct krdma_handle **last, u32 id,
						   enum krdma_handle_type type)
{
	struct krdma_handle *h = *last;

	if (unlikely(!h || h->id != id)) {
		/* ORDER: krdma_handle_leave() takes this lock before the handle is freed. */
		h = xa_load(&ctx->handles, id);
		if (!h || h->type != type)
			return NULL;
		*last = h;
	}
	h->on[lane->index].n++;
	return h;
}

/**
 * krdma_use_end - a request does not use a handle any more
 * @lane: of the request
 * @h: the handle, or NULL; twice does no harm if that has what this returns
 *
 * Context: lane->lock held.
 * Return: NULL; or the handle, which is a reference now, to be put without the lock
 */
static inline struct krdma_handle *krdma_use_end(struct krdma_lane *lane, struct krdma_handle *h)
{
	if (!h || unlikely(h->on[lane->index].gone))
		return h;
	h->on[lane->index].n--;
	return NULL;
}

void krdma_error_keep(struct krdma_ctx *ctx, struct krdma_error *error, int rc);
void krdma_error_last(struct krdma_ctx *ctx, struct krdma_ioc_last_error *cmd);

/* lane.c: requests, and what they count by processor */
int krdma_reqs_init(void);
void krdma_reqs_exit(void);
struct krdma_req *krdma_req_new(struct krdma_lane *lane, struct krdma_ctx *ctx,
				const struct krdma_op *op, bool room);
void krdma_reqs_give(struct krdma_req *r);
void krdma_req_leave(struct krdma_req *r, struct krdma_req **link);
void krdma_reqs_free(struct krdma_req *idle);
void krdma_req_unpin(struct krdma_req *r);
bool krdma_room_collect(struct krdma_ctx *ctx);

/* request.c: an operation of a process, whatever front end it comes through */
int krdma_req_check(const struct krdma_op *op, bool fixed, struct krdma_req *r,
		    struct krdma_error *error);
void krdma_reqs_prepare(struct krdma_req *first, u32 n, struct krdma_error *error);
void krdma_reqs_submit(struct krdma_queue *batch);

/* submit.c: the ioctls */
int krdma_submit(struct krdma_ctx *ctx, struct krdma_ioc_submit *cmd, bool nonblock,
		 struct krdma_error *error);
void krdma_cancel(struct krdma_ctx *ctx, struct krdma_ioc_cancel *cmd);
struct eventfd_ctx *krdma_eventfd_get(int fd, struct krdma_error *error);
int krdma_eventfd_set(struct krdma_ctx *ctx, int fd, struct krdma_error *error);
void krdma_reap_later(struct krdma_ctx *ctx);
ssize_t krdma_reap(struct file *file, char __user *buf, size_t size, loff_t *pos);
__poll_t krdma_poll(struct file *file, poll_table *wait);
void krdma_submit_close(struct krdma_ctx *ctx);
void krdma_submit_reap_work(struct work_struct *work);

/* dump.c */
int krdma_list_fill(struct krdma_ctx *ctx, struct krdma_ioc_list *cmd, struct krdma_error *error);

/* connect.c: sessions that are not waited for */
struct krdma_connecting *krdma_connecting_new(struct krdma_ctx *ctx, int fd,
					      struct krdma_error *error);
void krdma_connecting_begin(struct krdma_connecting *c, struct krdma_session *sess);
void krdma_connecting_end(struct krdma_connecting *c);
struct krdma_handle *krdma_session_handle_get(struct krdma_ctx *ctx, u32 id,
					      struct krdma_error *error);
int krdma_connected(struct krdma_ctx *ctx, u32 id, struct krdma_error *error);

/* monitor.c */
struct file *krdma_monitor_open(struct krdma_ctx *ctx, bool nonblock, struct krdma_error *error);

/* uring.c */
u64 krdma_uring_features(void);
int krdma_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif /* KRDMA_CTX_H */
