// SPDX-License-Identifier: GPL-2.0
/*
 * For selftests/data/bounce.sh: memory of this host for a device with bounce buffers, as with
 * swiotlb=force. This module contains driver/mem/mem.c, and emulates the device: it performs the
 * accesses at the addresses that a device would get.
 *
 * The module loads if all checks pass; otherwise the kernel's log names the failure.
 */
#include <linux/module.h>
#include <linux/platform_device.h>

#include "../../driver/inject.h"
/* Nothing is made to fail here. */
#undef krdma_inject
#define krdma_inject(_call, _value) (_call)
#include "../../driver/mem/mem.c"
#include "../../driver/mem/local.c"
#include "../../driver/mem/split.c"

#define PAGES  256
#define BYTES  (PAGES * PAGE_SIZE)
#define OFFSET 100
#define LENGTH (BYTES - 2 * OFFSET)

static bool bounced = true;
module_param(bounced, bool, 0444);

/* The log tells which one it was. */
#define want(condition)                                                                           \
	({                                                                                        \
		bool _ok = (condition);                                                           \
		if (!_ok)                                                                         \
			pr_err("krdma_bounce_test: line %d: not so: %s\n", __LINE__, #condition); \
		_ok;                                                                              \
	})

/* ---- what mem.c has of other files ---- */

DEFINE_PER_CPU(struct krdma_stats, krdma_stats);

int krdma_explain(struct krdma_error *error, int err, const char *fmt, ...)
{
	return err;
}

struct krdma_account *krdma_account_new(struct krdma_payer *payer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void krdma_account_free(struct krdma_account *acct)
{
}

int krdma_account_charge(struct krdma_account *acct, unsigned long npages,
			 struct krdma_error *error)
{
	return -EOPNOTSUPP;
}

void krdma_account_uncharge(struct krdma_account *acct, unsigned long npages)
{
}

int krdma_pins_charge(struct krdma_pins *pins, struct krdma_payer *payer, unsigned long npages,
		      bool longterm, struct krdma_error *error)
{
	return -EOPNOTSUPP;
}

void krdma_pins_uncharge(struct krdma_pins *pins, struct krdma_payer *payer)
{
}

/* ---- a device ---- */

static struct platform_device *pdev;
static struct ib_device *ib;
static struct krdma_dma_device dev;
static struct page *block, *page[PAGES];
static u8 *memory;

/* Where the device is: without an IOMMU DMA addresses are physical ones. */
static u8 *device_at(u64 addr)
{
	return phys_to_virt(addr);
}

static bool all(const u8 *at, size_t n, u8 byte)
{
	return !memchr_inv(at, byte, n);
}

/* ---- a registered buffer ---- */

static struct krdma_mem mem;
static struct krdma_vec range;
static struct krdma_local local;

/* An operation on so many bytes of it, in the middle. */
static void begin(bool fills, u64 at, u64 length)
{
	range = (struct krdma_vec){ .addr = at, .length = length };
	local = (struct krdma_local){
		.vec = &range,
		.n = 1,
		.fills = fills,
		.map = list_first_entry(&mem.maps, struct krdma_mapping, mem_node),
	};
}

/* Bytes of the device's side: read or filled. */
static bool device_moves(bool fill, u8 byte)
{
	struct krdma_local part = local;
	u64 left = range.length, addr;
	bool ok = true;
	u32 len;

	for (; left; left -= len) {
		len = krdma_local_next(&part, &dev, left, &addr);
		if (fill)
			memset(device_at(addr), byte, len);
		else
			ok &= all(device_at(addr), len, byte);
	}
	return ok;
}

static void sync_all(bool to_device)
{
	struct krdma_cursor at = {};

	krdma_local_sync(&local, at, range.length, to_device);
}

static bool buffer(void)
{
	u8 *first = memory + OFFSET;
	struct krdma_mapping *map;
	bool ok;

	mutex_init(&mem.lock);
	INIT_LIST_HEAD(&mem.maps);
	mem.pages = page;
	mem.npages = PAGES;
	mem.offset = OFFSET;
	mem.length = LENGTH;
	mem.writable = true;
	memset(memory, 'a', BYTES);
	/* In one piece it is longer than a bounce buffer. */
	map = krdma_mem_map(&mem, &dev, NULL);
	if (!want(!IS_ERR(map)))
		return false;
	ok = want(map->need_sync == bounced);

	/* What is written to the peer is what was there when it was posted. */
	begin(false, 5000, 20000);
	memset(first + 5000, 'b', 20000);
	sync_all(true);
	ok &= want(device_moves(false, 'b'));
	/* And what the process writes meanwhile is not taken back from it. */
	if (bounced) {
		memset(first + 5000, 'c', 20000);
		sync_all(false);
		ok &= want(all(first + 5000, 20000, 'c'));
	}

	/* What is read comes, and nothing beside it; and if nothing comes nothing changes. */
	memset(first, 'd', LENGTH);
	begin(true, 70001, 9999);
	sync_all(true);
	sync_all(false);
	ok &= want(all(first, LENGTH, 'd'));
	sync_all(true);
	device_moves(true, 'e');
	sync_all(false);
	ok &= want(all(first + 70001, 9999, 'e')) && want(all(first, 70001, 'd')) &&
	      want(all(first + 80000, LENGTH - 80000, 'd'));

	/* Its end brings nothing back. */
	memset(memory, 'f', BYTES);
	krdma_mem_unmap_device(&dev);
	ok &= want(all(memory, BYTES, 'f'));
	sg_free_table(&map->sgt);
	kvfree(map->page);
	kfree(map);
	return ok;
}

/* ---- pages that are mapped with each work request ---- */

static bool chunk(void)
{
	struct bio_vec bvec = { page[3], 100, 50 };
	u8 *at = memory + 3 * PAGE_SIZE;
	u64 addr;
	bool ok;

	local = (struct krdma_local){ .bvec = &bvec, .n = 1, .fills = true };
	memset(at, 'g', PAGE_SIZE);
	if (!want(krdma_local_next(&local, &dev, 100, &addr) == 100))
		return false;
	memset(device_at(addr), 'h', 100);
	memset(at, 'i', 50);
	memset(at + 150, 'i', PAGE_SIZE - 150);
	krdma_local_unmap(&local, &dev, addr, 100);
	ok = want(all(at + 50, 100, 'h'));
	return want(all(at, 50, 'i')) && want(all(at + 150, PAGE_SIZE - 150, 'i')) && ok;
}

/* ---- what peers would reach ---- */

static bool segment(void)
{
	struct sg_table sgt;
	bool ok;

	if (!want(!sg_alloc_table_from_pages_segment(&sgt, page, PAGES, 0, BYTES,
						     krdma_dma_run(&dev), GFP_KERNEL)))
		return false;
	ok = want(!krdma_dma_map(ib, &sgt, DMA_BIDIRECTIONAL));
	if (ok) {
		ok = want(krdma_dma_shared(ib, &sgt) == !bounced);
		krdma_dma_unmap(ib, &sgt, DMA_BIDIRECTIONAL);
	}
	sg_free_table(&sgt);
	return ok;
}

static void __exit test_exit(void)
{
}

static int __init test_init(void)
{
	int rc = -ENOMEM;
	u32 i;

	ib = kzalloc(sizeof(*ib), GFP_KERNEL);
	block = alloc_pages(GFP_KERNEL, get_order(BYTES));
	pdev = platform_device_register_simple("krdma_bounce_test", -1, NULL, 0);
	if (!ib || !block || IS_ERR(pdev))
		goto out;
	memory = page_address(block);
	for (i = 0; i < PAGES; i++)
		page[i] = block + i;
	rc = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (rc)
		goto out;
	dma_set_max_seg_size(&pdev->dev, SZ_1G);
	ib->dma_device = &pdev->dev;
	krdma_dma_device_init(&dev, ib);
	pr_info("krdma_bounce_test: %u bytes can be mapped at a time\n", dev.max_map);
	rc = 0;
	if (!buffer())
		rc = -EIO;
	if (!chunk())
		rc = -EIO;
	if (!segment())
		rc = -EIO;
out:
	if (!IS_ERR_OR_NULL(pdev))
		platform_device_unregister(pdev);
	if (block)
		__free_pages(block, get_order(BYTES));
	kfree(ib);
	return rc;
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Test of krdma_mover's memory where DMA is bounced");
MODULE_LICENSE("GPL");
