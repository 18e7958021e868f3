// SPDX-License-Identifier: GPL-2.0
/*
 * Quirks: where a driver does not do what its attributes say, or what the module needs
 * and no attribute tells. Each line has where that is to be read, in Linux 6.1, 6.12 and
 * 7.2 unless it says otherwise; Documentation/adapters.rst has what was read of the others.
 *
 * Pure, for the KUnit tests.
 */
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "rdma/quirks.h"

struct krdma_quirk {
	const char *refuse; /* it can't be used, and why */
	u32 most;           /* pages that a registration can really have; 0: as it says */
	u32 without;        /* KRDMA_RIGHT_* that it says it can have, and can't */
	bool smaller_pages; /* of a registration, than the kernel's: they work */
	bool dereg_valid;   /* struct krdma_policy */
	bool error_first;
	bool repeats;
	bool lone_mads;
	bool inlines;
	bool unproven_reads;
	bool places;
};

/*
 * By driver; RDMA_DRIVER_UNKNOWN has none.
 *
 * .inlines, in 6.1: by IB_SEND_INLINE they copy from the address of a kernel's SGE as the CPU has
 * it, or refuse a queue pair that is to have more than they can: mlx5 set_data_inl_seg(), bnxt_re
 * bnxt_re_copy_inline_data(), irdma irdma_uk_inline_send(), hns fill_ext_sge_inl_data() and
 * set_rc_inl(), cxgb4 build_immd(), qedr qedr_prepare_sq_inline_data(), erdma fill_inline_data(),
 * rxe copy_inline_data_to_wqe(), siw siw_copy_inline_sgl(). Others have none for the kernel (mlx4,
 * vmw_pvrdma), or do not look at the flag (rdmavt).
 */
static const struct krdma_quirk krdma_quirks[] = {
	[RDMA_DRIVER_IRDMA] = {
		/*
		 * Says 262,144. Above 512 (PBLE_PER_PAGE) irdma_alloc_mr() may come to a list
		 * of two levels (get_lvl1_lvl2_pble()); irdma_post_send() hands level1.idx of
		 * the union to the adapter all the same, which then takes indices for
		 * addresses: memory of others.
		 *
		 * irdma_sc_mr_fast_register() registers pages of 4 KiB, whatever they are said
		 * to be unless 2 MiB or 1 GiB, and irdma_set_page() is given each of these.
		 *
		 * 7.2: irdma_query_device() tells of atomics, and irdma_post_send() leaves
		 * remote_atomics_en of a fast registration 0.
		 */
		.most = 512,
		.without = KRDMA_RIGHT_ATOMIC,
		.smaller_pages = true,
		.inlines = true,
	},
	[RDMA_DRIVER_MLX5] = { .inlines = true },
	[RDMA_DRIVER_BNXT_RE] = { .inlines = true },
	[RDMA_DRIVER_CXGB4] = { .inlines = true },
	[RDMA_DRIVER_ERDMA] = { .inlines = true },
	[RDMA_DRIVER_HNS] = {
		/*
		 * set_rc_opcode() knows no IB_WR_LOCAL_INV: -EINVAL, and a warning. That HIP09
		 * and later have fast registration is in hns_roce_query_device(). Their
		 * hns_roce_dereg_mr() destroys the entry of the key, valid or not.
		 */
		.dereg_valid = true,
		.inlines = true,
	},
	[RDMA_DRIVER_OCRDMA] = {
		/*
		 * ocrdma_build_reg() computes where the first byte is in the first page as
		 * iova - pages[0]. That is right only where the key's address is the address
		 * for DMA, and ours tells peers no address of this host. It also fills no
		 * third list of 512 pages: num_pbes is never reset.
		 */
		.refuse = "its driver registers memory at the address for DMA only",
	},
	[RDMA_DRIVER_VMW_PVRDMA] = {
		/*
		 * pvrdma_query_device() says what the hypervisor does, pvrdma_alloc_mr()
		 * refuses more than PVRDMA_MAX_FAST_REG_PAGES.
		 */
		.most = 128,
	},
	[RDMA_DRIVER_QEDR] = {
		/*
		 * Says max_mr / 8. Above 8192 (MAX_PBES_ON_PAGE) qedr_prepare_pbl_tbl() makes a
		 * list of two layers, and qedr_set_page() overwrites the first, which points to
		 * the others (qedr_populate_pbls() does not).
		 */
		.most = 8192,
		.inlines = true,
	},
	[RDMA_DRIVER_SIW] = {
		/* siw_qp_modify() by a disconnect flushes nothing that it is not just sending. */
		.error_first = true,
		.inlines = true,
	},
	[RDMA_DRIVER_RXE] = {
		/* req_retry() in rxe_req.c begins again with local work requests, too. */
		.repeats = true,
		/*
		 * 6.1: when a send of QP1 fails (no route, as its netdev is down), the completer
		 * flushes those behind it and leaves req.wqe_index where it is; ib_mad sets the
		 * queue pair to RTS and sends them again. The requester then takes the old ones
		 * once more, fails, and stops: some of the new ones never complete.
		 */
		.lone_mads = true,
		.inlines = true,
		/*
		 * READs: when a response can't be sent, read_reply() in rxe_resp.c leaves
		 * qp->resp.res as if it had been, and the next request is answered with what
		 * follows. check_ack() in rxe_comp.c takes that for an error, without a status:
		 * do_complete() says success, and rxe_qp_error() follows. From 6.12 an old
		 * acknowledgment within a long READ leads there, too.
		 * Atomics: duplicate_request() acknowledges a WRITE that comes again with the
		 * PSN of the atomic behind it; check_ack() takes that for the atomic's own.
		 */
		.unproven_reads = true,
		/* rxe_resp.c: write_data_in() in execute() copies, acknowledge() comes after it. */
		.places = true,
	},
};

/**
 * krdma_device_policy - what can be done with a device
 * @driver: its driver
 * @attrs: what it says of itself
 * @page_size: of this kernel
 * @policy: out; sizes are good for arithmetic also where it can't be used
 *
 * Return: NULL, or a phrase: why it can't be used
 */
const char *krdma_device_policy(enum rdma_driver_id driver, const struct ib_device_attr *attrs,
				unsigned long page_size, struct krdma_policy *policy)
{
	const struct krdma_quirk *quirk =
		&krdma_quirks[driver < ARRAY_SIZE(krdma_quirks) ? driver : RDMA_DRIVER_UNKNOWN];
	u32 pages, entries = attrs->max_fast_reg_page_list_len;

	*policy = (struct krdma_policy){
		.reg_page = page_size,
		.dereg_valid = quirk->dereg_valid,
		.error_first = quirk->error_first,
		.repeats = quirk->repeats,
		.lone_mads = quirk->lone_mads,
		.inlines = quirk->inlines,
		.unproven_reads = quirk->unproven_reads,
		.places = quirk->places,
		.max_sge = clamp_t(int, attrs->max_send_sge, 1, KRDMA_SGE_MAX),
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
	};
	/* 0 means no limit of its own. */
	policy->max_sge_rd = policy->max_sge;
	if (attrs->max_sge_rd > 0)
		policy->max_sge_rd = min_t(u32, attrs->max_sge_rd, policy->max_sge);
	/* One is for the tail: initiator/wr.c. */
	if (quirk->unproven_reads && policy->max_sge_rd > 1)
		policy->max_sge_rd--;
	if (attrs->atomic_cap != IB_ATOMIC_NONE)
		policy->rights |= KRDMA_RIGHT_ATOMIC;
	if (attrs->atomic_cap == IB_ATOMIC_GLOB)
		policy->rights |= KRDMA_RIGHT_ATOMIC_CPU;
	if (quirk->without & KRDMA_RIGHT_ATOMIC)
		policy->rights &= ~(KRDMA_RIGHT_ATOMIC | KRDMA_RIGHT_ATOMIC_CPU);

	if (!(attrs->page_size_cap & page_size) && quirk->smaller_pages &&
	    (attrs->page_size_cap & SZ_4K))
		policy->reg_page = SZ_4K;
	if (quirk->most)
		entries = min(entries, quirk->most);
	pages = clamp_t(u32, entries / (page_size / policy->reg_page), 1, KRDMA_SEGMENT_PAGES_MAX);
	policy->segment_pages = rounddown_pow_of_two(pages);

	if (quirk->refuse)
		return quirk->refuse;
	if (!(attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return "no fast registration of memory";
	if (!(attrs->page_size_cap & policy->reg_page))
		return "it registers no pages of the size that this kernel has";
	if (entries < KRDMA_MR_PAGES_MIN)
		return "registrations are too small";
	return NULL;
}

/* InfiniBand Architecture Specification, Volume 1, PortInfo: LinkSpeed*Active of a lane. */
static u32 krdma_lane_mbps(u16 speed)
{
	if (speed <= IB_SPEED_QDR)
		return 2500 * speed;
	if (speed == IB_SPEED_FDR10)
		return 10000;
	/* From EDR, 25 Gb/s, on each is twice the one before. */
	return speed < IB_SPEED_EDR ? 14000 : 25000 * (speed / IB_SPEED_EDR);
}

/**
 * krdma_port_window - what may be posted on a channel at a time
 * @speed: of a lane of its port, enum ib_port_speed
 * @width: of the port, enum ib_port_width
 *
 * The bytes alone fill a path with a round trip of 500 us; the work requests fill it with 4 KiB
 * each, on eight channels.
 *
 * Return: at least the least, so that an unknown rate does no harm
 */
struct krdma_window krdma_port_window(u16 speed, u8 width)
{
	int lanes = ib_width_enum_to_int(width);
	u64 bytes = mul_u32_u32(krdma_lane_mbps(speed), max(lanes, 1)) * 500 / 8;
	u64 slots = clamp_t(u64, bytes / 8 / SZ_4K, KRDMA_SLOTS_MIN, KRDMA_SLOTS_MAX);

	return (struct krdma_window){
		.bytes = clamp_t(u64, bytes, KRDMA_POSTED_MIN, KRDMA_POSTED_MAX),
		.slots = roundup_pow_of_two(slots),
	};
}
