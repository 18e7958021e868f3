// SPDX-License-Identifier: GPL-2.0
/*
 * The floor: WRITEs and READs of a page with ib_post_send and a completion queue,
 * and nothing else. Not a part of krdma_mover; selftests/bench/insn loads it.
 *
 * Connects to itself, by rdma_cm, with one queue pair at each end, set up as
 * krdma_mover does (driver/conn.c): the same kind of completion queue, the same
 * times and limits, local memory by local_dma_lkey, and at the other end memory
 * that was registered by a work request.
 *
 *	echo "write refill 32 2048" >/sys/module/krdma_raw/parameters/run
 *	cat /sys/module/krdma_raw/parameters/run
 *
 * does 2048 operations, 32 under way, and prints nanoseconds and how many
 * microseconds of them the processor was idle. The ways:
 *
 *	refill	the completion handler posts the next operation, one at a time
 *	chain	the handler posts as many as are to be under way with one call, when all have ended
 *	wait	a thread does that, and sleeps meanwhile
 */
#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "krdma_run.h"

#define RAW_PORT 7479
#define RAW_MS   5000
/* Of driver/conn.c and driver/krdma.h. */
#define RAW_ACK_TIMEOUT 17
#define RAW_RETRIES     6
#define RAW_RNR_TIMER   12
#define RAW_RD_ATOMIC   16
#define RAW_SGE_MAX     32
#define RAW_SEND_WR     192

static char *raw_src = "10.9.0.1";
module_param_named(src, raw_src, charp, 0444);
MODULE_PARM_DESC(src, "IPv4 address of the end that posts");

static char *raw_dst = "10.9.0.2";
module_param_named(dst, raw_dst, charp, 0444);
MODULE_PARM_DESC(dst, "IPv4 address of the other end");

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
	struct page *page;
};

static struct {
	struct rdma_cm_id *listener;
	struct raw_end here, there;
	struct raw_slot slot[RUN_SLOTS];

	/* memory of the other end */
	struct page *page[RUN_SLOTS];
	struct sg_table sgt;
	bool mapped;
	struct ib_mr *mr;
	struct ib_cqe reg_cqe;
	struct completion registered;

	struct run run;
	u32 left;  /* operations to post */
	u32 ended; /* operations, or of a chain those that have ended */
	u32 goal;  /* complete @done at so many */
	int err;
	struct completion done;
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

static void raw_op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_slot *slot = container_of(wc->wr_cqe, struct raw_slot, cqe);

	if (wc->status != IB_WC_SUCCESS) {
		pr_err("krdma_raw: %s\n", ib_wc_status_msg(wc->status));
		raw.err = -EIO;
		complete(&raw.done);
		return;
	}
	raw.ended++;
	if (raw.run.way == RUN_REFILL && raw.left) {
		raw.left--;
		raw_post(slot - raw.slot, 1);
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

/* Nothing but posts between the two looks at the clock. */
static int raw_run(void)
{
	bool chained = raw.run.way != RUN_REFILL;
	u32 depth = raw.run.depth, n = raw.run.n;
	int rc = 0;
	u32 i;

	for (i = 0; i < depth; i++) {
		struct ib_rdma_wr *wr = &raw.slot[i].wr;

		wr->wr.opcode = raw.run.read ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE;
		wr->wr.next = chained && i + 1 < depth ? &raw.slot[i + 1].wr.wr : NULL;
	}
	raw.err = 0;
	raw.ended = 0;
	raw.goal = n;
	raw.left = n - depth;
	reinit_completion(&raw.done);

	run_begin(&raw.run);
	if (raw.run.way == RUN_WAIT) {
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

static int raw_run_set(const char *val, const struct kernel_param *kp)
{
	if (!raw.here.up)
		return -ENOTCONN;
	return run_parse(&raw.run, val) ?: raw_run();
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

static int raw_idle_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%llu\n", run_idle());
}

static const struct kernel_param_ops raw_idle_ops = {
	.get = raw_idle_get,
};
module_param_cb(idle, &raw_idle_ops, NULL, 0400);
MODULE_PARM_DESC(idle, "microseconds that this processor has been idle");

/* ---- connection ---- */

static void raw_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		raw.err = -EIO;
	complete(&raw.registered);
}

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
		.cap.max_recv_wr = RUN_SLOTS,
		.cap.max_send_sge = min_t(u32, ib->attrs.max_send_sge, RAW_SGE_MAX),
		.cap.max_recv_sge = 1,
	};

	end->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(end->pd)) {
		int rc = PTR_ERR(end->pd);

		end->pd = NULL;
		return rc;
	}
	end->cq = ib_alloc_cq(ib, end, RAW_SEND_WR + RUN_SLOTS, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(end->cq)) {
		int rc = PTR_ERR(end->cq);

		end->cq = NULL;
		return rc;
	}
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	return rdma_create_qp(end->id, end->pd, &attr);
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
		if (end->err)
			complete(&end->event);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		end->up = true;
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
		end->err = event->status ?: -ECONNRESET;
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

static int raw_connect(void)
{
	struct sockaddr_in src = { .sin_family = AF_INET }, dst = { .sin_family = AF_INET };
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	int rc;

	src.sin_addr.s_addr = in_aton(raw_src);
	dst.sin_addr.s_addr = in_aton(raw_dst);
	dst.sin_port = htons(RAW_PORT);

	id = rdma_create_id(&init_net, raw_handler, &raw.there, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	raw.listener = id;
	rc = rdma_bind_addr(id, (struct sockaddr *)&dst);
	if (!rc)
		rc = rdma_listen(id, 1);
	if (rc)
		return rc;

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
	if (rc)
		return rc;
	rdma_set_ack_timeout(id, RAW_ACK_TIMEOUT);
	rdma_set_min_rnr_timer(id, RAW_RNR_TIMER);
	raw_conn_param(id, &param);
	rc = raw_step(&raw.here, rdma_connect(id, &param));
	return rc ?: raw_step(&raw.there, 0);
}

/* ---- memory ---- */

static int raw_register(void)
{
	struct ib_device *ib = raw.there.id->device;
	struct ib_reg_wr wr = {};
	int rc, n;
	u32 i;

	for (i = 0; i < RUN_SLOTS; i++) {
		raw.page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!raw.page[i])
			return -ENOMEM;
	}
	rc = sg_alloc_table_from_pages(&raw.sgt, raw.page, RUN_SLOTS, 0, RUN_SLOTS * PAGE_SIZE,
				       GFP_KERNEL);
	if (rc)
		return rc;
	rc = ib_dma_map_sgtable_attrs(ib, &raw.sgt, DMA_BIDIRECTIONAL, 0);
	if (rc)
		return rc;
	raw.mapped = true;

	raw.mr = ib_alloc_mr(raw.there.pd, IB_MR_TYPE_MEM_REG, RUN_SLOTS);
	if (IS_ERR(raw.mr)) {
		rc = PTR_ERR(raw.mr);
		raw.mr = NULL;
		return rc;
	}
	n = ib_map_mr_sg(raw.mr, raw.sgt.sgl, raw.sgt.nents, NULL, PAGE_SIZE);
	if (n != raw.sgt.nents)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(raw.mr, raw.mr->rkey + 1);
	raw.reg_cqe.done = raw_reg_done;
	wr.wr.wr_cqe = &raw.reg_cqe;
	wr.wr.opcode = IB_WR_REG_MR;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.mr = raw.mr;
	wr.key = raw.mr->rkey;
	wr.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE;
	rc = ib_post_send(raw.there.id->qp, &wr.wr, NULL);
	if (rc)
		return rc;
	if (!wait_for_completion_timeout(&raw.registered, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	return raw.err;
}

static int raw_slots(void)
{
	struct ib_device *ib = raw.here.id->device;
	u32 i;

	for (i = 0; i < RUN_SLOTS; i++) {
		struct raw_slot *slot = &raw.slot[i];

		slot->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!slot->page)
			return -ENOMEM;
		slot->sge.addr = ib_dma_map_page(ib, slot->page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
		if (ib_dma_mapping_error(ib, slot->sge.addr)) {
			__free_page(slot->page);
			slot->page = NULL;
			return -ENOMEM;
		}
		slot->sge.length = PAGE_SIZE;
		slot->sge.lkey = raw.here.pd->local_dma_lkey;
		slot->cqe.done = raw_op_done;
		slot->wr.wr.wr_cqe = &slot->cqe;
		slot->wr.wr.sg_list = &slot->sge;
		slot->wr.wr.num_sge = 1;
		slot->wr.wr.send_flags = IB_SEND_SIGNALED;
		slot->wr.remote_addr = raw.mr->iova + i * PAGE_SIZE;
		slot->wr.rkey = raw.mr->rkey;
	}
	return 0;
}

/* ---- begin and end ---- */

static void raw_end_free(struct raw_end *end)
{
	struct ib_qp *qp = end->id ? end->id->qp : NULL;

	if (qp) {
		rdma_disconnect(end->id);
		ib_drain_qp(qp);
		rdma_destroy_qp(end->id);
	}
	if (end->id)
		rdma_destroy_id(end->id);
}

static void raw_exit(void)
{
	u32 i;

	if (raw.listener)
		rdma_destroy_id(raw.listener);
	for (i = 0; i < RUN_SLOTS && raw.slot[i].page; i++)
		ib_dma_unmap_page(raw.here.id->device, raw.slot[i].sge.addr, PAGE_SIZE,
				  DMA_BIDIRECTIONAL);
	if (raw.mapped)
		ib_dma_unmap_sgtable_attrs(raw.there.id->device, &raw.sgt, DMA_BIDIRECTIONAL, 0);
	raw_end_free(&raw.here);
	raw_end_free(&raw.there);
	if (raw.mr)
		ib_dereg_mr(raw.mr);
	if (raw.here.cq)
		ib_free_cq(raw.here.cq);
	if (raw.there.cq)
		ib_free_cq(raw.there.cq);
	if (raw.here.pd)
		ib_dealloc_pd(raw.here.pd);
	if (raw.there.pd)
		ib_dealloc_pd(raw.there.pd);
	sg_free_table(&raw.sgt);
	for (i = 0; i < RUN_SLOTS; i++) {
		if (raw.slot[i].page)
			__free_page(raw.slot[i].page);
		if (raw.page[i])
			__free_page(raw.page[i]);
	}
}

static int __init raw_init(void)
{
	int rc;

	init_completion(&raw.here.event);
	init_completion(&raw.there.event);
	init_completion(&raw.registered);
	init_completion(&raw.done);
	rc = raw_connect();
	if (!rc)
		rc = raw_register();
	if (!rc)
		rc = raw_slots();
	if (rc) {
		pr_err("krdma_raw: no connection from %s to %s (%d)\n", raw_src, raw_dst, rc);
		raw_exit();
	}
	return rc;
}

module_init(raw_init);
module_exit(raw_exit);

MODULE_DESCRIPTION("READ and WRITE by the kernel's verbs alone, to be counted");
MODULE_LICENSE("GPL");
