/* SPDX-License-Identifier: GPL-2.0 */
/* What a device is good for: its attributes, and what is known of its driver (quirks.c). */
#ifndef KRDMA_QUIRKS_H
#define KRDMA_QUIRKS_H

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <rdma/ib_verbs.h>

#include <uapi/linux/krdma_mover.h>

#define KRDMA_SGE_MAX 32
/* Pages of a segment. */
#define KRDMA_SEGMENT_PAGES_MAX 4096
/* Room for pages that the smallest registration of a segment has. */
#define KRDMA_MR_PAGES_MIN 16

/* Work requests for data of a channel, as the rate of its port is; powers of two. */
#define KRDMA_SLOTS_MIN 128
#define KRDMA_SLOTS_MAX 1024
/* The same of bytes: enough for the wire, short for a deadline. */
#define KRDMA_POSTED_MIN SZ_8M
#define KRDMA_POSTED_MAX SZ_64M

struct krdma_policy {
	u32 segment_pages; /* that a registration may have, a power of two */
	u32 reg_page;      /* bytes of a page of a registration; PAGE_SIZE or less */
	u32 max_sge;
	u32 max_sge_rd;
	u32 rights;          /* KRDMA_RIGHT_*; krdma_session_rights() has those of iWARP */
	bool dereg_valid;    /* no invalidation: ib_dereg_mr() ends a key that is alive */
	bool error_first;    /* posted work comes to an end by the error state only */
	bool repeats;        /* does local work requests twice when a packet is lost */
	bool lone_mads;      /* may lose a MAD behind one that fails */
	bool inlines;        /* takes short messages in the work request, from the kernel as well */
	bool unproven_reads; /* may say success of a READ or an atomic that brought nothing */
	bool places;         /* has the bytes of a WRITE in memory when it acknowledges it */
};

/**
 * krdma_mr_pages - the pages that the registration of a segment has room for
 * @policy: of its device
 * @pages: those of the segment, at most policy->segment_pages
 *
 * A registration costs what it has room for, in memory and for the adapter. Few sizes, so
 * that one can serve again for another segment.
 *
 * Return: pages, at most policy->segment_pages
 */
static inline u32 krdma_mr_pages(const struct krdma_policy *policy, u32 pages)
{
	u32 room = roundup_pow_of_two(max_t(u32, pages, KRDMA_MR_PAGES_MIN));

	return min(room, policy->segment_pages);
}

/**
 * krdma_mr_entries - what ib_alloc_mr() is asked for
 * @policy: of the device
 * @pages: that the registration is to have room for
 *
 * Return: pages of the size that the registration has
 */
static inline u32 krdma_mr_entries(const struct krdma_policy *policy, u32 pages)
{
	return pages * (PAGE_SIZE / policy->reg_page);
}

/* What may be posted on a channel at a time. */
struct krdma_window {
	u32 slots; /* work requests */
	u32 bytes;
};

struct krdma_window krdma_port_window(u16 speed, u8 width);
const char *krdma_device_policy(enum rdma_driver_id driver, const struct ib_device_attr *attrs,
				unsigned long page_size, struct krdma_policy *policy);

#endif /* KRDMA_QUIRKS_H */
