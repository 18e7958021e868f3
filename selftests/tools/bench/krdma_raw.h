/* SPDX-License-Identifier: GPL-2.0 */
/* krdma_raw: a queue pair, and what a run of them is. See krdma_raw_run.c. */
#ifndef KRDMA_RAW_H
#define KRDMA_RAW_H

#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "krdma_run.h"

#define RAW_MS 5000
/* Of a host that is one side only; a megabyte is registered, and contiguous, at once. */
#define RAW_REGIONS     4
#define RAW_REGION_SIZE SZ_1M
#define RAW_PAIRS_MAX   8

enum raw_side {
	RAW_BOTH,
	RAW_TARGET,
	RAW_INITIATOR
};

/* One end of the connection. */
struct raw_end {
	struct raw_pair *pair;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct completion event; /* something happened on @id */
	int err;
	bool up;
};

struct raw_slot {
	struct ib_cqe cqe;
	struct ib_rdma_wr wr;
	struct ib_sge sge;
};

/* A message that comes, and at the target the one that goes back. */
struct raw_message {
	struct ib_cqe cqe;
	struct ib_sge sge;
	struct ib_sge reply;
};

/* Memory of the end that posts: pages in one piece. */
struct raw_block {
	struct page *page;
	u64 dma;
};

/* Memory of the other end: single pages, with one key. */
struct raw_region {
	struct sg_table sgt;
	bool mapped;
	struct ib_mr *mr;
};

/* What the end that posts knows of a region. */
struct raw_key {
	__le64 address;
	__le32 rkey;
	__le32 pad;
};

/* A queue pair at each end, with memory of its own. */
struct raw_pair {
	struct raw_end here, there;
	struct raw_slot slot[RUN_SLOTS];
	struct raw_message message[RUN_SLOTS]; /* at the target */
	struct raw_message reply[RUN_SLOTS];   /* at the initiator */
	struct ib_cqe reply_cqe;

	struct raw_block block[RUN_SLOTS];
	struct raw_region region[RAW_REGIONS];
	struct raw_key key[RAW_REGIONS];
	struct ib_cqe reg_cqe;
	struct completion registered;

	/* the message with the keys */
	struct ib_cqe tell_cqe;
	struct completion told;
	int tell_err;

	/* of a run */
	struct work_struct begin;
	u32 left;  /* operations to post */
	u32 ended; /* operations, or of a chain those that have ended */
	u32 goal;  /* complete raw.done at so many */
};

/* Written before and after a run only, except @err and @done. */
struct raw_state {
	enum raw_side side;
	struct rdma_cm_id *listener;
	struct raw_pair *pair[RAW_PAIRS_MAX];
	u32 npairs;

	u32 nblocks;
	u32 block_size;
	u32 nregions;
	u32 region_size;

	struct run run;
	u32 ended; /* operations at its end */
	int err;
	struct completion done;
	u32 *times;
	u32 median;
	u32 p99;
};

extern struct raw_state raw;

/* krdma_raw_run.c */
void raw_op_done(struct ib_cq *cq, struct ib_wc *wc);
void raw_ended(struct raw_pair *pair, u32 slot);

/* krdma_raw_conn.c */
extern char *raw_src, *raw_dst;
struct raw_pair *raw_pair_of(const struct ib_cq *cq);
int raw_listen(void);
int raw_pair_begin(struct raw_pair *pair);
void raw_pair_end(struct raw_pair *pair);

#endif /* KRDMA_RAW_H */
