// SPDX-License-Identifier: GPL-2.0
/*
 * krdma_raw: the memory of queue pairs, the messages that have replies, and the connections. See
 * krdma_raw_run.c.
 */
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "krdma_raw.h"

#define RAW_PORT 7479
/* Of driver/rdma/cm.c and driver/rdma/rdma.h. */
#define RAW_ACK_TIMEOUT 17
#define RAW_RETRIES     6
#define RAW_RNR_TIMER   12
#define RAW_RD_ATOMIC   16
#define RAW_SGE_MAX     32
#define RAW_SEND_WR     192
#define RAW_RECV_WR     (RUN_SLOTS + 1)
#define RAW_REPLY       32

char *raw_src = "10.9.0.1";
module_param_named(src, raw_src, charp, 0444);
MODULE_PARM_DESC(src, "IPv4 address of the end that posts");

char *raw_dst = "10.9.0.2";
module_param_named(dst, raw_dst, charp, 0444);
MODULE_PARM_DESC(dst, "IPv4 address of the other end");

struct raw_pair *raw_pair_of(const struct ib_cq *cq)
{
	const struct raw_end *end = cq->cq_context;

	return end->pair;
}

/* ---- memory ---- */

static int raw_slots(struct raw_pair *pair)
{
	struct ib_device *ib = pair->here.id->device;
	u32 i;

	for (i = 0; i < raw.nblocks; i++) {
		struct raw_block *block = &pair->block[i];

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
		struct raw_slot *slot = &pair->slot[i];

		slot->sge.lkey = pair->here.pd->local_dma_lkey;
		slot->cqe.done = raw_op_done;
		slot->wr.wr.wr_cqe = &slot->cqe;
		slot->wr.wr.sg_list = &slot->sge;
		slot->wr.wr.num_sge = 1;
		slot->wr.wr.send_flags = IB_SEND_SIGNALED;
	}
	return 0;
}

static void raw_slots_free(struct raw_pair *pair)
{
	u32 i;

	for (i = 0; i < raw.nblocks && pair->block[i].page; i++) {
		ib_dma_unmap_page(pair->here.pd->device, pair->block[i].dma, raw.block_size,
				  DMA_BIDIRECTIONAL);
		__free_pages(pair->block[i].page, get_order(raw.block_size));
	}
}

static void raw_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_pair *pair = raw_pair_of(cq);

	if (wc->status != IB_WC_SUCCESS)
		raw.err = -EIO;
	complete(&pair->registered);
}

static int raw_register(struct raw_pair *pair, struct raw_region *region, struct raw_key *key)
{
	struct ib_device *ib = pair->there.id->device;
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

	region->mr = ib_alloc_mr(pair->there.pd, IB_MR_TYPE_MEM_REG, npages);
	if (IS_ERR(region->mr)) {
		rc = PTR_ERR(region->mr);
		region->mr = NULL;
		return rc;
	}
	n = ib_map_mr_sg(region->mr, region->sgt.sgl, region->sgt.nents, NULL, PAGE_SIZE);
	if (n != region->sgt.nents)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(region->mr, region->mr->rkey + 1);
	pair->reg_cqe.done = raw_reg_done;
	wr.wr.wr_cqe = &pair->reg_cqe;
	wr.wr.opcode = IB_WR_REG_MR;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.mr = region->mr;
	wr.key = region->mr->rkey;
	wr.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE;
	rc = ib_post_send(pair->there.id->qp, &wr.wr, NULL);
	if (rc)
		return rc;
	if (!wait_for_completion_timeout(&pair->registered, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	key->address = cpu_to_le64(region->mr->iova);
	key->rkey = cpu_to_le32(region->mr->rkey);
	return raw.err;
}

static int raw_register_all(struct raw_pair *pair)
{
	int rc = 0;
	u32 i;

	for (i = 0; i < raw.nregions && !rc; i++)
		rc = raw_register(pair, &pair->region[i], &pair->key[i]);
	return rc;
}

static void raw_region_free(struct raw_pair *pair, struct raw_region *region)
{
	struct scatterlist *sg;
	u32 i;

	if (region->mr)
		ib_dereg_mr(region->mr);
	if (region->mapped)
		ib_dma_unmap_sgtable_attrs(pair->there.pd->device, &region->sgt, DMA_BIDIRECTIONAL,
					   0);
	for_each_sg(region->sgt.sgl, sg, region->sgt.orig_nents, i)
		if (sg_page(sg))
			__free_page(sg_page(sg));
	sg_free_table(&region->sgt);
}

/* ---- the message of a target to its initiator ---- */

static void raw_tell_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_pair *pair = raw_pair_of(cq);

	if (wc->status != IB_WC_SUCCESS)
		pair->tell_err = -EIO;
	complete(&pair->told);
}

/* Sends the key of the memory for READs and WRITEs. It lies in that memory at first. */
static int raw_tell(struct raw_pair *pair)
{
	struct scatterlist *sg = pair->region[0].sgt.sgl;
	struct ib_sge sge = {
		.addr = sg_dma_address(sg),
		.length = sizeof(pair->key),
		.lkey = pair->there.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &pair->tell_cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	memcpy(sg_virt(sg), pair->key, sizeof(pair->key));
	ib_dma_sync_single_for_device(pair->there.id->device, sge.addr, sge.length,
				      DMA_BIDIRECTIONAL);
	pair->tell_cqe.done = raw_tell_done;
	return ib_post_send(pair->there.id->qp, &wr, NULL);
}

static int raw_listen_to_keys(struct raw_pair *pair)
{
	struct ib_sge sge = {
		.addr = pair->block[0].dma,
		.length = sizeof(pair->key),
		.lkey = pair->here.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &pair->tell_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	pair->tell_cqe.done = raw_tell_done;
	return ib_post_recv(pair->here.id->qp, &wr, NULL);
}

static int raw_hear_keys(struct raw_pair *pair)
{
	if (!wait_for_completion_timeout(&pair->told, msecs_to_jiffies(RAW_MS)))
		return -ETIMEDOUT;
	ib_dma_sync_single_for_cpu(pair->here.id->device, pair->block[0].dma, sizeof(pair->key),
				   DMA_BIDIRECTIONAL);
	memcpy(pair->key, page_address(pair->block[0].page), sizeof(pair->key));
	return pair->tell_err;
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
	struct raw_pair *pair = raw_pair_of(cq);
	struct raw_message *message = container_of(wc->wr_cqe, struct raw_message, cqe);
	struct ib_send_wr wr = {
		.wr_cqe = &pair->reply_cqe,
		.sg_list = &message->reply,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	if (wc->status == IB_WC_SUCCESS && !raw_message_post(&pair->there, message))
		ib_post_send(pair->there.id->qp, &wr, NULL);
}

/* At the initiator: the reply. Which slot it was for does not matter: they are alike. */
static void raw_message_replied(struct ib_cq *cq, struct ib_wc *wc)
{
	struct raw_pair *pair = raw_pair_of(cq);
	struct raw_message *message = container_of(wc->wr_cqe, struct raw_message, cqe);

	if (wc->status == IB_WC_SUCCESS && !raw_message_post(&pair->here, message))
		raw_ended(pair, pair->ended % raw.run.depth);
}

/* In the first region, before it is used for anything else. */
static int raw_messages_there(struct raw_pair *pair)
{
	struct scatterlist *sg = pair->region[0].sgt.sgl;
	int rc = 0;
	u32 i;

	pair->reply_cqe.done = raw_reply_done;
	for (i = 0; i < RUN_SLOTS && !rc; i++) {
		struct raw_message *message = &pair->message[i];

		/* Not the page with the keys. */
		if (raw.side == RAW_TARGET || i)
			sg = sg_next(sg);
		message->cqe.done = raw_message_back;
		message->sge.addr = sg_dma_address(sg);
		message->sge.length = PAGE_SIZE;
		message->sge.lkey = pair->there.pd->local_dma_lkey;
		message->reply = message->sge;
		message->reply.length = RAW_REPLY;
		rc = raw_message_post(&pair->there, message);
	}
	return rc;
}

/* At the end of the last block, where no small message is taken from. */
static int raw_messages_here(struct raw_pair *pair)
{
	int rc = 0;
	u32 i;

	for (i = 0; i < RUN_SLOTS && !rc; i++) {
		struct raw_message *message = &pair->reply[i];

		message->cqe.done = raw_message_replied;
		message->sge.addr =
			pair->block[raw.nblocks - 1].dma + raw.block_size - (i + 1) * RAW_REPLY;
		message->sge.length = RAW_REPLY;
		message->sge.lkey = pair->here.pd->local_dma_lkey;
		rc = raw_message_post(&pair->here, message);
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
	struct raw_pair *pair = end->pair;
	int rc = raw_register_all(pair);

	if (!rc)
		rc = raw_messages_there(pair);
	if (!rc)
		rc = raw_tell(pair);
	if (rc) {
		pr_err("krdma_raw: no memory for who connected (%d)\n", rc);
		rdma_disconnect(end->id);
	}
}

/* They are connected one after the other. */
static struct raw_end *raw_next(void)
{
	u32 i;

	for (i = 0; i < raw.npairs; i++)
		if (!raw.pair[i]->there.id)
			return &raw.pair[i]->there;
	return NULL;
}

static int raw_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct raw_end *end = id->context;
	struct rdma_conn_param param;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		/* The id is new; its context is the listener's, which has none. */
		end = raw_next();
		if (!end)
			return -EBUSY;
		end->id = id;
		id->context = end;
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
		if (!end)
			return 0;
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

int raw_listen(void)
{
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(RAW_PORT),
		.sin_addr.s_addr = in_aton(raw_dst),
	};
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(&init_net, raw_handler, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	raw.listener = id;
	rc = rdma_bind_addr(id, (struct sockaddr *)&dst);
	return rc ?: rdma_listen(id, RAW_PAIRS_MAX);
}

static int raw_connect(struct raw_pair *pair)
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

	id = rdma_create_id(&init_net, raw_handler, &pair->here, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	pair->here.id = id;
	rc = raw_step(&pair->here, rdma_resolve_addr(id, (struct sockaddr *)&src,
						     (struct sockaddr *)&dst, RAW_MS));
	if (!rc)
		rc = raw_step(&pair->here, rdma_resolve_route(id, RAW_MS));
	if (!rc)
		rc = raw_end_setup(&pair->here);
	if (!rc && raw.side == RAW_INITIATOR)
		rc = raw_slots(pair) ?: raw_listen_to_keys(pair) ?: raw_messages_here(pair);
	if (rc)
		return rc;
	rdma_set_ack_timeout(id, RAW_ACK_TIMEOUT);
	rdma_set_min_rnr_timer(id, RAW_RNR_TIMER);
	raw_conn_param(id, &param);
	return raw_step(&pair->here, rdma_connect(id, &param));
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

void raw_pair_end(struct raw_pair *pair)
{
	u32 i;

	raw_end_stop(&pair->here);
	raw_end_stop(&pair->there);
	raw_slots_free(pair);
	for (i = 0; i < raw.nregions; i++)
		raw_region_free(pair, &pair->region[i]);
	if (pair->here.pd)
		ib_dealloc_pd(pair->here.pd);
	if (pair->there.pd)
		ib_dealloc_pd(pair->there.pd);
}

int raw_pair_begin(struct raw_pair *pair)
{
	int rc = 0;

	if (raw.side != RAW_TARGET)
		rc = raw_connect(pair);
	if (!rc && raw.side == RAW_INITIATOR)
		rc = raw_hear_keys(pair);
	if (!rc && raw.side == RAW_BOTH)
		rc = raw_step(&pair->there, 0) ?: raw_register_all(pair) ?: raw_slots(pair);
	if (!rc && raw.side == RAW_BOTH)
		rc = raw_messages_there(pair) ?: raw_messages_here(pair);
	return rc;
}
