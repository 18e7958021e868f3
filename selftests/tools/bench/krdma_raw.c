// SPDX-License-Identifier: GPL-2.0
/*
 * The baseline: WRITEs, READs and SENDs with ib_post_send and a completion queue, and nothing
 * else. Not a part of krdma_mover; selftests/tools/bench/insn and selftests/tools/vm/compare load
 * this module.
 *
 * It connects by rdma_cm, with one queue pair at each end, set up as krdma_mover does
 * (driver/rdma/cm.c): the same kind of completion queue, the same times and limits, local memory
 * by local_dma_lkey, and remote memory that was registered by work requests. Both ends are
 * in this module, with 32 pages each; or in two hosts, with 4 MiB each: side=target on one host,
 * then side=initiator on the other. The target sends its keys in a message. (Not on iWARP, where
 * the side that connects has to send first, and the memory of a READ has to be registered.)
 *
 *	echo "write refill 32 2048" >/sys/module/krdma_raw/parameters/run
 *	cat /sys/module/krdma_raw/parameters/run
 *
 * runs 2048 operations of a page, 32 under way, and prints the nanoseconds and the microseconds
 * for which the processor was idle. "send" is a message of up to a page, which the other end's
 * completion handler returns: a round trip of the software at both ends. A fifth word is another
 * size, a power of two: all operations under way have to fit into the memory, and one operation
 * into 1 MiB of it. The ways:
 *
 *	refill	the completion handler posts the next operation, one at a time
 *	chain	the handler posts all of the next operations with one call, when all have ended
 *	wait	like chain, by a thread that sleeps meanwhile
 *	time	like wait, and reads the clock before and after each chain: the median and the
 *		99th percentile, in nanoseconds, are in parameters/latency
 */
#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "krdma_run.h"

#define RAW_PORT 7479
#define RAW_MS   5000
/* Of a host that is one side only; a megabyte is registered, and contiguous, at once. */
#define RAW_REGIONS     4
#define RAW_REGION_SIZE SZ_1M
#define RAW_TIMES_MAX   SZ_1M
/* Of driver/rdma/cm.c and driver/rdma/rdma.h. */
#define RAW_ACK_TIMEOUT 17
#define RAW_RETRIES     6
#define RAW_RNR_TIMER   12
#define RAW_RD_ATOMIC   16
#define RAW_SGE_MAX     32
#define RAW_SEND_WR     192
#define RAW_RECV_WR     (RUN_SLOTS + 1)
#define RAW_REPLY       32

static char *raw_side_name = "both";
module_param_named(side, raw_side_name, charp, 0444);
MODULE_PARM_DESC(side, "both (the default), target or initiator");

static char *raw_src = "10.9.0.1";
module_param_named(src, raw_src, charp, 0444);
MODULE_PARM_DESC(src, "IPv4 address of the end that posts");

static char *raw_dst = "10.9.0.2";
module_param_named(dst, raw_dst, charp, 0444);
MODULE_PARM_DESC(dst, "IPv4 address of the other end");

enum raw_side {
	RAW_BOTH,
	RAW_TARGET,
	RAW_INITIATOR
};

static const char *const raw_sides[] = { "both", "target", "initiator", NULL };

/* One end of the connection. */
struct raw_end {
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

static struct {
	enum raw_side side;
	struct rdma_cm_id *listener;
	struct raw_end here, there;
	struct raw_slot slot[RUN_SLOTS];
	struct raw_message message[RUN_SLOTS]; /* at the target */
	struct raw_message reply[RUN_SLOTS];   /* at the initiator */
	struct ib_cqe reply_cqe;

	struct raw_block block[RUN_SLOTS];
	u32 nblocks;
	u32 block_size;

	struct raw_region region[RAW_REGIONS];
	struct raw_key key[RAW_REGIONS];
	u32 nregions;
	u32 region_size;
	struct ib_cqe reg_cqe;
	struct completion registered;

	/* the message with the keys */
	struct ib_cqe tell_cqe;
	struct completion told;
	int tell_err;

	struct run run;
	u32 left;  /* operations to post */
	u32 ended; /* operations, or of a chain those that have ended */
	u32 goal;  /* complete @done at so many */
	int err;
	struct completion done;
	u32 *times;
	u32 median;
	u32 p99;
} raw;

/* ---- a run ---- */

static void raw_post(u32 slot, u32 n)
{
	int rc;

	/*
	 * As under the lock that any user of a queue pair has: rxe goes on in a software
	 * interrupt, which is run at its end, or else by a thread that has to be woken.
	 */
	local_bh_disable();
	rc = ib_post_send(raw.here.id->qp, &raw.slot[slot].wr.wr, NULL);
	local_bh_enable();
	if (rc) {
		pr_err("krdma_raw: %u work requests were not accepted (%d)\n", n, rc);
		raw.err = rc;
		complete(&raw.done);
	}
}

static void raw_ended(u32 slot);

static void raw_op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_slot *slot = container_of(wc->wr_cqe, struct raw_slot, cqe);

	if (wc->status != IB_WC_SUCCESS) {
		pr_err("krdma_raw: %s\n", ib_wc_status_msg(wc->status));
		raw.err = -EIO;
		complete(&raw.done);
		return;
	}
	/* That of a message is its reply. */
	if (raw.run.op != RUN_SEND)
		raw_ended(slot - raw.slot);
}

static void raw_ended(u32 slot)
{
	raw.ended++;
	if (raw.run.way == RUN_REFILL && raw.left) {
		raw.left--;
		raw_post(slot, 1);
	} else if (raw.run.way == RUN_CHAIN && raw.left && !(raw.ended % raw.run.depth)) {
		raw.left -= raw.run.depth;
		raw_post(0, raw.run.depth);
	}
	if (raw.ended == raw.goal)
		complete(&raw.done);
}

static int raw_wait(u32 goal)
{
	raw.goal = goal;
	if (!wait_for_completion_timeout(&raw.done, 60 * HZ))
		return -ETIMEDOUT;
	return raw.err;
}

/* A slot has the same place in the memory of both ends. */
static void raw_aim(bool chained)
{
	u32 size = raw.run.size, i, at;

	for (i = 0, at = 0; i < raw.run.depth; i++, at += size) {
		const struct raw_key *key = &raw.key[at / raw.region_size];
		struct raw_slot *slot = &raw.slot[i];
		struct ib_rdma_wr *wr = &slot->wr;

		slot->sge.addr = raw.block[at / raw.block_size].dma + at % raw.block_size;
		slot->sge.length = size;
		wr->remote_addr = le64_to_cpu(key->address) + at % raw.region_size;
		wr->rkey = le32_to_cpu(key->rkey);
		wr->wr.opcode = raw.run.op == RUN_READ  ? IB_WR_RDMA_READ :
				raw.run.op == RUN_WRITE ? IB_WR_RDMA_WRITE :
							  IB_WR_SEND;
		wr->wr.next = chained && i + 1 < raw.run.depth ? &raw.slot[i + 1].wr.wr : NULL;
	}
}

/* Chains, one after the other, each with its time. */
static int raw_run_timed(u32 n)
{
	ktime_t t;
	int rc;
	u32 i;

	raw.goal = 0;
	for (i = 0; i < n; i++) {
		t = ktime_get();
		raw.goal += raw.run.depth;
		raw_post(0, raw.run.depth);
		rc = raw_wait(raw.goal);
		if (rc)
			return rc;
		raw.times[i] = min_t(u64, ktime_to_ns(ktime_sub(ktime_get(), t)), U32_MAX);
	}
	return 0;
}

/* Nothing but posts between the two looks at the clock. */
static int raw_run(void)
{
	bool chained = raw.run.way != RUN_REFILL;
	u32 depth = raw.run.depth, n = raw.run.n;
	int rc = 0;
	u32 i;

	raw_aim(chained);
	raw.err = 0;
	raw.ended = 0;
	raw.goal = n;
	raw.left = n - depth;
	reinit_completion(&raw.done);

	run_begin(&raw.run);
	if (raw.run.way == RUN_TIME) {
		rc = raw_run_timed(n / depth);
	} else if (raw.run.way == RUN_WAIT) {
		for (i = 0; i < n && !rc; i += depth) {
			raw.goal = i + depth;
			raw_post(0, depth);
			rc = raw_wait(raw.goal);
		}
	} else {
		/* One turn of the software interrupt for all, as a driver's would be. */
		local_bh_disable();
		for (i = 0; i < (chained ? 1 : depth); i++)
			raw_post(i, 1);
		local_bh_enable();
		rc = raw_wait(n);
	}
	run_end(&raw.run);
	return rc;
}

static int raw_compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static int raw_run_timing(void)
{
	u32 count = raw.run.n / raw.run.depth;
	int rc;

	if (count > RAW_TIMES_MAX)
		return -EINVAL;
	raw.times = kvmalloc_array(count, sizeof(*raw.times), GFP_KERNEL);
	if (!raw.times)
		return -ENOMEM;
	rc = raw_run();
	if (!rc) {
		sort(raw.times, count, sizeof(*raw.times), raw_compare, NULL);
		raw.median = raw.times[(count - 1) / 2];
		raw.p99 = raw.times[count - 1 - count / 100];
	}
	kvfree(raw.times);
	return rc;
}

static int raw_run_set(const char *val, const struct kernel_param *kp)
{
	int rc = run_parse(&raw.run, val);
	u32 size = raw.run.size;

	if (rc)
		return rc;
	if (!is_power_of_2(size) || size > raw.block_size ||
	    (u64)raw.run.depth * size > raw.nblocks * raw.block_size)
		return -EINVAL;
	if (raw.run.op == RUN_SEND && size > PAGE_SIZE)
		return -EINVAL;
	if (!raw.here.up)
		return -ENOTCONN;
	return raw.run.way == RUN_TIME ? raw_run_timing() : raw_run();
}

static int raw_run_get(char *buffer, const struct kernel_param *kp)
{
	return run_show(&raw.run, buffer);
}

static const struct kernel_param_ops raw_run_ops = {
	.set = raw_run_set,
	.get = raw_run_get,
};
module_param_cb(run, &raw_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, RUN_DESC);

static int raw_latency_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%u %u\n", raw.median, raw.p99);
}

static const struct kernel_param_ops raw_latency_ops = {
	.get = raw_latency_get,
};
module_param_cb(latency, &raw_latency_ops, NULL, 0400);
MODULE_PARM_DESC(latency, "of the last run by 'time': median and 99th percentile, nanoseconds");

static int raw_idle_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%llu\n", run_idle());
}

static const struct kernel_param_ops raw_idle_ops = {
	.get = raw_idle_get,
};
module_param_cb(idle, &raw_idle_ops, NULL, 0400);
MODULE_PARM_DESC(idle, "microseconds that this processor has been idle");

/* ---- memory ---- */

static int raw_slots(void)
{
	struct ib_device *ib = raw.here.id->device;
	u32 i;

	for (i = 0; i < raw.nblocks; i++) {
		struct raw_block *block = &raw.block[i];

		block->page = alloc_pages(GFP_KERNEL | __GFP_ZERO, get_order(raw.block_size));
		if (!block->page)
			return -ENOMEM;
		block->dma = ib_dma_map_page(ib, block->page, 0, raw.block_size, DMA_BIDIRECTIONAL);
		if (ib_dma_mapping_error(ib, block->dma)) {
			__free_pages(block->page, get_order(raw.block_size));
			block->page = NULL;
			return -ENOMEM;
		}
	}
	for (i = 0; i < RUN_SLOTS; i++) {
		struct raw_slot *slot = &raw.slot[i];

		slot->sge.lkey = raw.here.pd->local_dma_lkey;
		slot->cqe.done = raw_op_done;
		slot->wr.wr.wr_cqe = &slot->cqe;
		slot->wr.wr.sg_list = &slot->sge;
		slot->wr.wr.num_sge = 1;
		slot->wr.wr.send_flags = IB_SEND_SIGNALED;
	}
	return 0;
}

static void raw_slots_free(void)
{
	u32 i;

	for (i = 0; i < raw.nblocks && raw.block[i].page; i++) {
		ib_dma_unmap_page(raw.here.pd->device, raw.block[i].dma, raw.block_size,
				  DMA_BIDIRECTIONAL);
		__free_pages(raw.block[i].page, get_order(raw.block_size));
	}
}

static void raw_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		raw.err = -EIO;
	complete(&raw.registered);
}

static int raw_register(struct raw_region *region, struct raw_key *key)
{
	struct ib_device *ib = raw.there.id->device;
	u32 npages = raw.region_size / PAGE_SIZE, i;
	struct ib_reg_wr wr = {};
	struct scatterlist *sg;
	int rc, n;

	rc = sg_alloc_table(&region->sgt, npages, GFP_KERNEL);
	if (rc)
		return rc;
	for_each_sg(region->sgt.sgl, sg, region->sgt.orig_nents, i) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

		if (!page)
			return -ENOMEM;
		sg_set_page(sg, page, PAGE_SIZE, 0);
	}
	rc = ib_dma_map_sgtable_attrs(ib, &region->sgt, DMA_BIDIRECTIONAL, 0);
	if (rc)
		return rc;
	region->mapped = true;

	region->mr = ib_alloc_mr(raw.there.pd, IB_MR_TYPE_MEM_REG, npages);
	if (IS_ERR(region->mr)) {
		rc = PTR_ERR(region->mr);
		region->mr = NULL;
		return rc;
	}
	n = ib_map_mr_sg(region->mr, region->sgt.sgl, region->sgt.nents, NULL, PAGE_SIZE);
	if (n != region->sgt.nents)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(region->mr, region->mr->rkey + 1);
	raw.reg_cqe.done = raw_reg_done;
	wr.wr.wr_cqe = &raw.reg_cqe;
	wr.wr.opcode = IB_WR_REG_MR;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.mr = region->mr;
	wr.key = region->mr->rkey;
	wr.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE;
	rc = ib_post_send(raw.there.id->qp, &wr.wr, NULL);
	if (rc)
		return rc;
	if (!wait_for_completion_timeout(&raw.registered, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	key->address = cpu_to_le64(region->mr->iova);
	key->rkey = cpu_to_le32(region->mr->rkey);
	return raw.err;
}

static int raw_register_all(void)
{
	int rc = 0;
	u32 i;

	for (i = 0; i < raw.nregions && !rc; i++)
		rc = raw_register(&raw.region[i], &raw.key[i]);
	return rc;
}

static void raw_region_free(struct raw_region *region)
{
	struct scatterlist *sg;
	u32 i;

	if (region->mr)
		ib_dereg_mr(region->mr);
	if (region->mapped)
		ib_dma_unmap_sgtable_attrs(raw.there.pd->device, &region->sgt, DMA_BIDIRECTIONAL,
					   0);
	for_each_sg(region->sgt.sgl, sg, region->sgt.orig_nents, i)
		if (sg_page(sg))
			__free_page(sg_page(sg));
	sg_free_table(&region->sgt);
}

/* ---- the message of a target to its initiator ---- */

static void raw_tell_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		raw.tell_err = -EIO;
	complete(&raw.told);
}

/* Sends the key of the memory for READs and WRITEs. It lies in that memory at first. */
static int raw_tell(void)
{
	struct scatterlist *sg = raw.region[0].sgt.sgl;
	struct ib_sge sge = {
		.addr = sg_dma_address(sg),
		.length = sizeof(raw.key),
		.lkey = raw.there.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &raw.tell_cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	memcpy(sg_virt(sg), raw.key, sizeof(raw.key));
	ib_dma_sync_single_for_device(raw.there.id->device, sge.addr, sge.length,
				      DMA_BIDIRECTIONAL);
	raw.tell_cqe.done = raw_tell_done;
	return ib_post_send(raw.there.id->qp, &wr, NULL);
}

static int raw_listen_to_keys(void)
{
	struct ib_sge sge = {
		.addr = raw.block[0].dma,
		.length = sizeof(raw.key),
		.lkey = raw.here.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &raw.tell_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	raw.tell_cqe.done = raw_tell_done;
	return ib_post_recv(raw.here.id->qp, &wr, NULL);
}

static int raw_hear_keys(void)
{
	if (!wait_for_completion_timeout(&raw.told, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	ib_dma_sync_single_for_cpu(raw.here.id->device, raw.block[0].dma, sizeof(raw.key),
				   DMA_BIDIRECTIONAL);
	memcpy(raw.key, page_address(raw.block[0].page), sizeof(raw.key));
	return raw.tell_err;
}

/* ---- messages that get a reply ---- */

static int raw_message_post(struct raw_end *end, struct raw_message *message)
{
	struct ib_recv_wr wr = { .wr_cqe = &message->cqe, .sg_list = &message->sge, .num_sge = 1 };

	return ib_post_recv(end->id->qp, &wr, NULL);
}

static void raw_reply_done(struct ib_cq *cq, struct ib_wc *wc)
{
}

/* At the target: a message goes back, the receive first. */
static void raw_message_back(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_message *message = container_of(wc->wr_cqe, struct raw_message, cqe);
	struct ib_send_wr wr = {
		.wr_cqe = &raw.reply_cqe,
		.sg_list = &message->reply,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	if (wc->status == IB_WC_SUCCESS && !raw_message_post(&raw.there, message))
		ib_post_send(raw.there.id->qp, &wr, NULL);
}

/* At the initiator: the reply. Which slot it was for does not matter: they are alike. */
static void raw_message_replied(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_message *message = container_of(wc->wr_cqe, struct raw_message, cqe);

	if (wc->status == IB_WC_SUCCESS && !raw_message_post(&raw.here, message))
		raw_ended(raw.ended % raw.run.depth);
}

/* In the first region, before it is used for anything else. */
static int raw_messages_there(void)
{
	struct scatterlist *sg = raw.region[0].sgt.sgl;
	int rc = 0;
	u32 i;

	raw.reply_cqe.done = raw_reply_done;
	for (i = 0; i < RUN_SLOTS && !rc; i++) {
		struct raw_message *message = &raw.message[i];

		/* Not the page with the keys. */
		if (raw.side == RAW_TARGET || i)
			sg = sg_next(sg);
		message->cqe.done = raw_message_back;
		message->sge.addr = sg_dma_address(sg);
		message->sge.length = PAGE_SIZE;
		message->sge.lkey = raw.there.pd->local_dma_lkey;
		message->reply = message->sge;
		message->reply.length = RAW_REPLY;
		rc = raw_message_post(&raw.there, message);
	}
	return rc;
}

/* At the end of the last block, where no small message is taken from. */
static int raw_messages_here(void)
{
	int rc = 0;
	u32 i;

	for (i = 0; i < RUN_SLOTS && !rc; i++) {
		struct raw_message *message = &raw.reply[i];

		message->cqe.done = raw_message_replied;
		message->sge.addr =
			raw.block[raw.nblocks - 1].dma + raw.block_size - (i + 1) * RAW_REPLY;
		message->sge.length = RAW_REPLY;
		message->sge.lkey = raw.here.pd->local_dma_lkey;
		rc = raw_message_post(&raw.here, message);
	}
	return rc;
}

/* ---- connection ---- */

static void raw_conn_param(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	const struct ib_device_attr *attrs = &id->device->attrs;

	memset(param, 0, sizeof(*param));
	param->responder_resources = min(attrs->max_qp_rd_atom, RAW_RD_ATOMIC);
	param->initiator_depth = min(attrs->max_qp_init_rd_atom, RAW_RD_ATOMIC);
	param->retry_count = RAW_RETRIES;
	param->rnr_retry_count = RAW_RETRIES;
}

static int raw_end_setup(struct raw_end *end)
{
	struct ib_device *ib = end->id->device;
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap.max_send_wr = RAW_SEND_WR,
		.cap.max_recv_wr = RAW_RECV_WR + 1,
		.cap.max_send_sge = min_t(u32, ib->attrs.max_send_sge, RAW_SGE_MAX),
		.cap.max_recv_sge = 1,
	};

	end->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(end->pd)) {
		int rc = PTR_ERR(end->pd);

		end->pd = NULL;
		return rc;
	}
	end->cq = ib_alloc_cq(ib, end, RAW_SEND_WR + RAW_RECV_WR + 1, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(end->cq)) {
		int rc = PTR_ERR(end->cq);

		end->cq = NULL;
		return rc;
	}
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	return rdma_create_qp(end->id, end->pd, &attr);
}

/* Completions are the work of softirqs, so the handler may wait for them. */
static void raw_serve(struct raw_end *end)
{
	int rc = raw_register_all();

	if (!rc)
		rc = raw_messages_there();
	if (!rc)
		rc = raw_tell();
	if (rc) {
		pr_err("krdma_raw: no memory for who connected (%d)\n", rc);
		rdma_disconnect(end->id);
	}
}

static int raw_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct raw_end *end = id->context;
	struct rdma_conn_param param;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		/* The id is new; its context is the listener's. */
		if (end->id)
			return -EBUSY;
		end->id = id;
		end->err = raw_end_setup(end);
		raw_conn_param(id, &param);
		rdma_set_min_rnr_timer(id, RAW_RNR_TIMER);
		if (!end->err)
			end->err = rdma_accept(id, &param);
		if (end->err) {
			pr_err("krdma_raw: who connects is not accepted (%d)\n", end->err);
			complete(&end->event);
		}
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		end->up = true;
		if (raw.side == RAW_TARGET)
			raw_serve(end);
		fallthrough;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		complete(&end->event);
		return 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	default:
		end->up = false;
		/* That of a refusal is a reason, and positive. */
		end->err = event->status < 0 ? event->status : -ECONNRESET;
		complete(&end->event);
		return 0;
	}
}

static int raw_step(struct raw_end *end, int rc)
{
	if (rc)
		return rc;
	if (!wait_for_completion_timeout(&end->event, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	return end->err;
}

static int raw_listen(void)
{
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(RAW_PORT),
		.sin_addr.s_addr = in_aton(raw_dst),
	};
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(&init_net, raw_handler, &raw.there, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	raw.listener = id;
	rc = rdma_bind_addr(id, (struct sockaddr *)&dst);
	return rc ?: rdma_listen(id, 1);
}

static int raw_connect(void)
{
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(RAW_PORT),
		.sin_addr.s_addr = in_aton(raw_dst),
	};
	struct sockaddr_in src = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(raw_src),
	};
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(&init_net, raw_handler, &raw.here, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	raw.here.id = id;
	rc = raw_step(&raw.here, rdma_resolve_addr(id, (struct sockaddr *)&src,
						   (struct sockaddr *)&dst, RAW_MS));
	if (!rc)
		rc = raw_step(&raw.here, rdma_resolve_route(id, RAW_MS));
	if (!rc)
		rc = raw_end_setup(&raw.here);
	if (!rc && raw.side == RAW_INITIATOR)
		rc = raw_slots() ?: raw_listen_to_keys() ?: raw_messages_here();
	if (rc)
		return rc;
	rdma_set_ack_timeout(id, RAW_ACK_TIMEOUT);
	rdma_set_min_rnr_timer(id, RAW_RNR_TIMER);
	raw_conn_param(id, &param);
	return raw_step(&raw.here, rdma_connect(id, &param));
}

/* ---- begin and end ---- */

/* ORDER: no event may find the queue pair gone, and no completion the id. */
static void raw_end_stop(struct raw_end *end)
{
	struct ib_qp *qp = end->id ? end->id->qp : NULL;

	if (qp) {
		rdma_disconnect(end->id);
		ib_drain_qp(qp);
	}
	if (end->id)
		rdma_destroy_id(end->id);
	if (qp)
		ib_destroy_qp(qp);
	if (end->cq)
		ib_free_cq(end->cq);
}

static void raw_exit(void)
{
	u32 i;

	if (raw.listener)
		rdma_destroy_id(raw.listener);
	raw_end_stop(&raw.here);
	raw_end_stop(&raw.there);
	raw_slots_free();
	for (i = 0; i < raw.nregions; i++)
		raw_region_free(&raw.region[i]);
	if (raw.here.pd)
		ib_dealloc_pd(raw.here.pd);
	if (raw.there.pd)
		ib_dealloc_pd(raw.there.pd);
}

static int raw_begin(void)
{
	int rc = 0;

	if (raw.side != RAW_INITIATOR)
		rc = raw_listen();
	if (!rc && raw.side != RAW_TARGET)
		rc = raw_connect();
	if (!rc && raw.side == RAW_INITIATOR)
		rc = raw_hear_keys();
	if (!rc && raw.side == RAW_BOTH)
		rc = raw_step(&raw.there, 0) ?: raw_register_all() ?: raw_slots();
	if (!rc && raw.side == RAW_BOTH)
		rc = raw_messages_there() ?: raw_messages_here();
	return rc;
}

static int __init raw_init(void)
{
	bool both;
	int rc;

	rc = match_string(raw_sides, -1, raw_side_name);
	if (rc < 0)
		return rc;
	raw.side = rc;
	both = raw.side == RAW_BOTH;
	raw.nblocks = both ? RUN_SLOTS : RAW_REGIONS;
	raw.block_size = both ? PAGE_SIZE : RAW_REGION_SIZE;
	raw.nregions = both ? 1 : RAW_REGIONS;
	raw.region_size = both ? RUN_SLOTS * PAGE_SIZE : RAW_REGION_SIZE;
	init_completion(&raw.here.event);
	init_completion(&raw.there.event);
	init_completion(&raw.registered);
	init_completion(&raw.told);
	init_completion(&raw.done);
	rc = raw_begin();
	if (rc) {
		pr_err("krdma_raw: no connection from %s to %s (%d)\n", raw_src, raw_dst, rc);
		raw_exit();
	}
	return rc;
}

module_init(raw_init);
module_exit(raw_exit);

MODULE_DESCRIPTION("READ and WRITE by the kernel's verbs alone, to be counted or timed");
MODULE_LICENSE("GPL");
