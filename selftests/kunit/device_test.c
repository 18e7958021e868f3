// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of driver/rdma/quirks.c: the limits that follow from a device's attributes and from
 * the table of its driver. The attributes are those that the drivers of Linux 6.1 to 7.2 report.
 */
#include <linux/limits.h>
#include <linux/sizes.h>

#include <kunit/test.h>

#include "rdma/quirks.c"

#define NO_DRIVER RDMA_DRIVER_UNKNOWN
#define RW        (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
#define RWA       (RW | KRDMA_RIGHT_ATOMIC)
#define RWAC      (RWA | KRDMA_RIGHT_ATOMIC_CPU)

/* A device that can do all, on a kernel with pages of 4 KiB. */
static struct ib_device_attr any_attrs(void)
{
	return (struct ib_device_attr){
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.page_size_cap = ~(u64)(SZ_4K - 1),
		.max_fast_reg_page_list_len = 1024,
		.max_send_sge = 16,
		.max_sge_rd = 8,
		.atomic_cap = IB_ATOMIC_HCA,
	};
}

/* ---- drivers, as they are ---- */

static const struct device_case {
	const char *name;
	enum rdma_driver_id driver;
	u64 page_sizes;
	u32 pages;
	enum ib_atomic_cap atomics;
	unsigned long page_size;
	/* what is to come of it */
	const char *unusable;
	u32 segment_pages, reg_page, rights;
	bool dereg_valid, error_first, repeats, unproven_reads;
} device_cases[] = {
	{ "mlx5", RDMA_DRIVER_MLX5, ~(u64)(SZ_4K - 1), 65528, IB_ATOMIC_HCA, SZ_4K, NULL, 4096,
	  SZ_4K, RWA },
	{ "mlx4", RDMA_DRIVER_MLX4, 0xfffff000, 511, IB_ATOMIC_HCA, SZ_4K, NULL, 256, SZ_4K, RWA },
	{ "irdma, which says 262,144 pages", RDMA_DRIVER_IRDMA, SZ_4K | SZ_2M | SZ_1G, 262144,
	  IB_ATOMIC_NONE, SZ_4K, NULL, 512, SZ_4K, RW },
	{ "irdma with atomics", RDMA_DRIVER_IRDMA, SZ_4K | SZ_2M | SZ_1G, 262144, IB_ATOMIC_HCA,
	  SZ_4K, NULL, 512, SZ_4K, RW },
	{ "irdma, pages of 64 KiB", RDMA_DRIVER_IRDMA, SZ_4K | SZ_2M | SZ_1G, 262144,
	  IB_ATOMIC_NONE, SZ_64K, NULL, 32, SZ_4K, RW },
	{ "hns", RDMA_DRIVER_HNS, 0xffff000, 512, IB_ATOMIC_HCA, SZ_4K, NULL, 512, SZ_4K, RWA,
	  true },
	{ "hns, pages of 64 KiB", RDMA_DRIVER_HNS, 0xffff000, 512, IB_ATOMIC_HCA, SZ_64K, NULL, 512,
	  SZ_64K, RWA, true },
	{ "bnxt_re", RDMA_DRIVER_BNXT_RE, 0x7ffff000, 512, IB_ATOMIC_GLOB, SZ_4K, NULL, 512, SZ_4K,
	  RWAC },
	{ "qedr", RDMA_DRIVER_QEDR, ~(u64)(SZ_4K - 1), 16384, IB_ATOMIC_GLOB, SZ_4K, NULL, 4096,
	  SZ_4K, RWAC },
	{ "erdma", RDMA_DRIVER_ERDMA, 0x7ffff000, 512, IB_ATOMIC_NONE, SZ_4K, NULL, 512, SZ_4K,
	  RW },
	{ "vmw_pvrdma, which says more than it takes", RDMA_DRIVER_VMW_PVRDMA, 0xfffff000, 1024,
	  IB_ATOMIC_HCA, SZ_4K, NULL, 128, SZ_4K, RWA },
	{ "ocrdma", RDMA_DRIVER_OCRDMA, 0xffff000, 512, IB_ATOMIC_NONE, SZ_4K,
	  "its driver registers memory at the address for DMA only", 512, SZ_4K, RW },
	{ "cxgb4", RDMA_DRIVER_CXGB4, 0xffff000, 128, IB_ATOMIC_NONE, SZ_4K, NULL, 128, SZ_4K, RW },
	{ "hfi1", RDMA_DRIVER_HFI1, SZ_4K, U32_MAX, IB_ATOMIC_GLOB, SZ_4K, NULL, 4096, SZ_4K,
	  RWAC },
	{ "rxe", RDMA_DRIVER_RXE, 0xfffff000, 512, IB_ATOMIC_HCA, SZ_4K, NULL, 512, SZ_4K, RWA,
	  .repeats = true, .unproven_reads = true },
	{ "siw", RDMA_DRIVER_SIW, SZ_4K, 256, IB_ATOMIC_NONE, SZ_4K, NULL, 256, SZ_4K, RW,
	  .error_first = true },
	{ "an unknown one", NO_DRIVER, SZ_4K, 100, IB_ATOMIC_NONE, SZ_4K, NULL, 64, SZ_4K, RW },
	{ "an unknown one without pages of 64 KiB", NO_DRIVER, SZ_4K | SZ_2M, 512, IB_ATOMIC_NONE,
	  SZ_64K, "it registers no pages of the size that this kernel has", 512, SZ_64K, RW },
	{ "an unknown one that says no page size", NO_DRIVER, 0, 512, IB_ATOMIC_NONE, SZ_4K,
	  "it registers no pages of the size that this kernel has", 512, SZ_4K, RW },
	{ "irdma, pages that it can't have", RDMA_DRIVER_IRDMA, SZ_2M, 262144, IB_ATOMIC_NONE,
	  SZ_64K, "it registers no pages of the size that this kernel has", 512, SZ_64K, RW },
	{ "15 pages", NO_DRIVER, SZ_4K, 15, IB_ATOMIC_NONE, SZ_4K, "registrations are too small", 8,
	  SZ_4K, RW },
	{ "16 pages", NO_DRIVER, SZ_4K, 16, IB_ATOMIC_NONE, SZ_4K, NULL, 16, SZ_4K, RW },
	{ "no pages", NO_DRIVER, SZ_4K, 0, IB_ATOMIC_NONE, SZ_4K, "registrations are too small", 1,
	  SZ_4K, RW },
};

KUNIT_ARRAY_PARAM_DESC(device, device_cases, name);

static void policy_of_device(struct kunit *test)
{
	const struct device_case *c = test->param_value;
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;
	const char *unusable;

	attrs.page_size_cap = c->page_sizes;
	attrs.max_fast_reg_page_list_len = c->pages;
	attrs.atomic_cap = c->atomics;
	/* What an earlier use has left behind. */
	memset(&policy, 0xff, sizeof(policy));
	unusable = krdma_device_policy(c->driver, &attrs, c->page_size, &policy);
	if (c->unusable)
		KUNIT_EXPECT_STREQ(test, unusable, c->unusable);
	else
		KUNIT_EXPECT_NULL(test, unusable);
	KUNIT_EXPECT_EQ(test, policy.segment_pages, c->segment_pages);
	KUNIT_EXPECT_EQ(test, policy.reg_page, c->reg_page);
	KUNIT_EXPECT_EQ(test, policy.rights, c->rights);
	KUNIT_EXPECT_EQ(test, policy.dereg_valid, c->dereg_valid);
	KUNIT_EXPECT_EQ(test, policy.error_first, c->error_first);
	KUNIT_EXPECT_EQ(test, policy.repeats, c->repeats);
	KUNIT_EXPECT_EQ(test, policy.unproven_reads, c->unproven_reads);
	KUNIT_EXPECT_EQ(test, policy.max_sge, 16);
	KUNIT_EXPECT_EQ(test, policy.max_sge_rd, c->unproven_reads ? 7 : 8);
}

/* Only where it is known: others could take the CPU's address for one of the device. */
static void inline_messages(struct kunit *test)
{
	static const enum rdma_driver_id without[] = { NO_DRIVER, RDMA_DRIVER_MLX4,
						       RDMA_DRIVER_HFI1, RDMA_DRIVER_OCRDMA,
						       RDMA_DRIVER_VMW_PVRDMA };
	static const enum rdma_driver_id with[] = { RDMA_DRIVER_MLX5, RDMA_DRIVER_BNXT_RE,
						    RDMA_DRIVER_RXE, RDMA_DRIVER_SIW };
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;
	int i;

	for (i = 0; i < ARRAY_SIZE(without); i++) {
		krdma_device_policy(without[i], &attrs, SZ_4K, &policy);
		KUNIT_EXPECT_FALSE(test, policy.inlines);
	}
	for (i = 0; i < ARRAY_SIZE(with); i++) {
		krdma_device_policy(with[i], &attrs, SZ_4K, &policy);
		KUNIT_EXPECT_TRUE(test, policy.inlines);
	}
}

/* Only where it is known: a disk would have stale blocks. */
static void placement(struct kunit *test)
{
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;
	u32 driver;

	for (driver = 0; driver < 32; driver++) {
		krdma_device_policy(driver, &attrs, SZ_4K, &policy);
		KUNIT_EXPECT_EQ(test, policy.places, driver == RDMA_DRIVER_RXE);
	}
}

static void without_fast_registration(struct kunit *test)
{
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;

	attrs.device_cap_flags = 0;
	KUNIT_EXPECT_STREQ(test, krdma_device_policy(NO_DRIVER, &attrs, SZ_4K, &policy),
			   "no fast registration of memory");
	/* mana, efa: nothing is filled in. */
	memset(&attrs, 0, sizeof(attrs));
	KUNIT_EXPECT_STREQ(test, krdma_device_policy(NO_DRIVER, &attrs, SZ_4K, &policy),
			   "no fast registration of memory");
	KUNIT_EXPECT_EQ(test, policy.segment_pages, 1);
	KUNIT_EXPECT_EQ(test, policy.max_sge, 1);
}

/* Whatever a device says: sizes that the rest can count with. */
static void sizes_are_sound(struct kunit *test)
{
	static const unsigned long page_sizes[] = { SZ_4K, SZ_16K, SZ_64K };
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;
	u32 driver, i, bit;

	for (driver = 0; driver < 32; driver++)
		for (i = 0; i < ARRAY_SIZE(page_sizes); i++)
			for (bit = 0; bit < 33; bit++) {
				u32 ratio, pages = bit ? U32_MAX >> (32 - bit) : 0;

				attrs.max_fast_reg_page_list_len = pages;
				attrs.page_size_cap = bit & 1 ? SZ_4K : ~0ULL;
				if (krdma_device_policy(driver, &attrs, page_sizes[i], &policy))
					continue;
				ratio = page_sizes[i] / policy.reg_page;
				KUNIT_ASSERT_TRUE(test, is_power_of_2(policy.segment_pages));
				KUNIT_ASSERT_LE(test, policy.segment_pages,
						KRDMA_SEGMENT_PAGES_MAX);
				KUNIT_ASSERT_LE(test, policy.segment_pages * ratio, pages);
				KUNIT_ASSERT_TRUE(test, attrs.page_size_cap & policy.reg_page);
				KUNIT_ASSERT_LE(test, policy.reg_page, page_sizes[i]);
			}
}

static const struct sge_case {
	const char *name;
	int send, rd;
	u32 max_sge, max_sge_rd;
} sge_cases[] = {
	{ "as many as it says", 30, 30, 30, 30 },
	{ "fewer for READs", 16, 1, 16, 1 },
	{ "no limit for READs", 16, 0, 16, 16 },
	{ "more for READs than for all", 4, 32, 4, 4 },
	{ "more than there is room for", 64, 64, 32, 32 },
	{ "none", 0, 0, 1, 1 },
	{ "less than none", -1, -1, 1, 1 },
};

KUNIT_ARRAY_PARAM_DESC(sge, sge_cases, name);

static void entries_of_work_requests(struct kunit *test)
{
	const struct sge_case *c = test->param_value;
	struct ib_device_attr attrs = any_attrs();
	struct krdma_policy policy;

	attrs.max_send_sge = c->send;
	attrs.max_sge_rd = c->rd;
	KUNIT_EXPECT_NULL(test, krdma_device_policy(NO_DRIVER, &attrs, SZ_4K, &policy));
	KUNIT_EXPECT_EQ(test, policy.max_sge, c->max_sge);
	KUNIT_EXPECT_EQ(test, policy.max_sge_rd, c->max_sge_rd);
}

/* ---- the registration of a segment ---- */

static const struct room_case {
	const char *name;
	u32 most, pages, room;
} room_cases[] = {
	{ "one page", 512, 1, 16 },
	{ "the smallest", 512, 16, 16 },
	{ "one more", 512, 17, 32 },
	{ "a power of two", 512, 256, 256 },
	{ "more than half", 512, 257, 512 },
	{ "all but one", 512, 511, 512 },
	{ "a whole segment", 4096, 4096, 4096 },
	{ "the smallest device", 16, 3, 16 },
};

KUNIT_ARRAY_PARAM_DESC(room, room_cases, name);

static void room_for_pages(struct kunit *test)
{
	const struct room_case *c = test->param_value;
	struct krdma_policy policy = { .segment_pages = c->most, .reg_page = PAGE_SIZE };

	KUNIT_EXPECT_EQ(test, krdma_mr_pages(&policy, c->pages), c->room);
	KUNIT_EXPECT_EQ(test, krdma_mr_entries(&policy, c->room), c->room);
}

static void smaller_pages_are_more(struct kunit *test)
{
	struct krdma_policy policy = { .segment_pages = 32, .reg_page = PAGE_SIZE / 4 };

	KUNIT_EXPECT_EQ(test, krdma_mr_pages(&policy, 20), 32);
	KUNIT_EXPECT_EQ(test, krdma_mr_entries(&policy, 32), 128);
}

/* ---- what is posted at a time ---- */

static const struct window_case {
	const char *name;
	u16 speed;
	u8 width;
	u32 bytes, slots;
} window_cases[] = {
	{ "no rate", 0, 0, SZ_8M, 128 },
	{ "SDR, 1x", IB_SPEED_SDR, IB_WIDTH_1X, SZ_8M, 128 },
	{ "QDR, 4x: 40 Gb/s", IB_SPEED_QDR, IB_WIDTH_4X, SZ_8M, 128 },
	{ "FDR10, 4x: 40 Gb/s", IB_SPEED_FDR10, IB_WIDTH_4X, SZ_8M, 128 },
	{ "FDR, 12x: 168 Gb/s", IB_SPEED_FDR, IB_WIDTH_12X, 10500000, 512 },
	{ "EDR, 4x: 100 Gb/s", IB_SPEED_EDR, IB_WIDTH_4X, SZ_8M, 256 },
	{ "HDR, 4x: 200 Gb/s", IB_SPEED_HDR, IB_WIDTH_4X, 12500000, 512 },
	{ "NDR, 4x: 400 Gb/s", IB_SPEED_NDR, IB_WIDTH_4X, 25000000, 1024 },
	{ "twice NDR, 4x: 800 Gb/s", 2 * IB_SPEED_NDR, IB_WIDTH_4X, 50000000, 1024 },
	{ "the largest numbers", U16_MAX, IB_WIDTH_12X, SZ_64M, 1024 },
};

static void window_desc(const struct window_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(window, window_cases, window_desc);

static void window_of_port(struct kunit *test)
{
	const struct window_case *c = test->param_value;
	struct krdma_window window = krdma_port_window(c->speed, c->width);

	KUNIT_EXPECT_EQ(test, window.bytes, c->bytes);
	KUNIT_EXPECT_EQ(test, window.slots, c->slots);
}

static struct kunit_case device_test_cases[] = {
	KUNIT_CASE_PARAM(policy_of_device, device_gen_params),
	KUNIT_CASE(inline_messages),
	KUNIT_CASE(placement),
	KUNIT_CASE(without_fast_registration),
	KUNIT_CASE(sizes_are_sound),
	KUNIT_CASE_PARAM(entries_of_work_requests, sge_gen_params),
	KUNIT_CASE_PARAM(room_for_pages, room_gen_params),
	KUNIT_CASE(smaller_pages_are_more),
	KUNIT_CASE_PARAM(window_of_port, window_gen_params),
	{}
};

static struct kunit_suite device_suite = {
	.name = "krdma_device",
	.test_cases = device_test_cases,
};

kunit_test_suite(device_suite);
