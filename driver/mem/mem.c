// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of this host: pages taken from processes, and their DMA addresses. No queue pair
 * and no key here. account.c counts the pages, backing.c has those of files.
 *
 * Who unpins: the last krdma_mem_put, for one operation krdma_pages_unpin; always in
 * process context, always after everything that could touch the pages has ended
 * (Documentation/lifetime.rst).
 */
#include <linux/backing-dev.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "mem/mem.h"

/* Pages taken under one hold of the mmap lock. */
#define KRDMA_PIN_BATCH 512

/* ---- pages of a process ---- */

/* Writing behind the back of a file system that tracks dirty pages. */
static bool krdma_vma_tracks_dirty(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_MAYSHARE) || !vma->vm_file)
		return false;
	if (vma->vm_ops && (vma->vm_ops->page_mkwrite || vma->vm_ops->pfn_mkwrite))
		return true;
	return mapping_can_writeback(vma->vm_file->f_mapping);
}

/*
 * May [addr, end) stay pinned? Sets *write where a reader must take the page
 * as a writer: a read-only pin of private memory may be of the zero page, or
 * of a page that a later write replaces.
 */
static int krdma_vmas_check(struct mm_struct *mm, unsigned long addr, unsigned long end,
			    bool writable, bool *write, struct krdma_error *error)
{
	bool force = false, shared_ro = false;
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);
	for (; addr < end; addr = vma->vm_end) {
		vma = find_vma(mm, addr);
		if (!vma || vma->vm_start > addr)
			return krdma_explain(error, -EFAULT, "no memory is mapped at %#lx", addr);
		if (vma->vm_flags & (VM_IO | VM_PFNMAP))
			return krdma_explain(error, -EFAULT, "the memory at %#lx is of a device",
					     addr);
		if (!(vma->vm_flags & VM_READ) || (writable && !(vma->vm_flags & VM_WRITE)))
			return krdma_explain(error, -EFAULT, "the memory at %#lx is not %s", addr,
					     writable ? "writable" : "readable");
		if (vma_is_fsdax(vma))
			return krdma_explain(
				error, -EOPNOTSUPP,
				"the file mapped at %#lx is on a DAX file system, its memory can't stay pinned",
				addr);
		if (writable && krdma_vma_tracks_dirty(vma))
			return krdma_explain(
				error, -EOPNOTSUPP,
				"the file system of the file mapped at %#lx does not let its pages stay pinned for writing; tmpfs, hugetlbfs and devdax do",
				addr);
		if (writable)
			continue;
		/* Not VM_SHARED: that is clear where the file is open for reading only. */
		if (vma->vm_flags & VM_MAYSHARE)
			shared_ro = true;
		else if (vma->vm_flags & VM_WRITE)
			force = true;
		else
			return krdma_explain(
				error, -EOPNOTSUPP,
				"the memory at %#lx is private and read-only: map it shared, or writable",
				addr);
	}
	if (force && shared_ro)
		return krdma_explain(error, -EOPNOTSUPP,
				     "the range mixes private memory with a shared mapping");
	*write = writable || force;
	return 0;
}

/* Is all of it mapped of devdax? A DAX file system was refused before. */
static bool krdma_vmas_devdax(struct mm_struct *mm, unsigned long addr, unsigned long end)
{
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);
	for (; addr < end; addr = vma->vm_end) {
		vma = find_vma(mm, addr);
		if (!vma || vma->vm_start > addr || !vma_is_dax(vma))
			return false;
	}
	return true;
}

static int krdma_pin_failed(unsigned long addr, bool writable, long rc, struct krdma_error *error)
{
	rc = rc ?: -EFAULT;
	return krdma_explain(error, rc, "the memory at %#lx can't be %s (%pe)", addr,
			     writable ? "written" : "read", ERR_PTR(rc));
}

static long krdma_pin_long(unsigned long addr, unsigned long n, bool writable, struct page **pages,
			   bool *devdax, struct krdma_error *error)
{
	struct mm_struct *mm = current->mm;
	bool write;
	long rc;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	/* ORDER: check and pin under one hold of the lock. */
	rc = krdma_vmas_check(mm, addr, addr + (n << PAGE_SHIFT), writable, &write, error);
	if (!rc && devdax)
		*devdax = *devdax && krdma_vmas_devdax(mm, addr, addr + (n << PAGE_SHIFT));
	if (!rc)
		rc = krdma_pin_user_pages(addr, n, FOLL_LONGTERM | (write ? FOLL_WRITE : 0), pages);
	mmap_read_unlock(mm);
	return rc;
}

static int krdma_pin_pages(struct krdma_mem *mem, unsigned long start, bool *devdax,
			   struct krdma_error *error)
{
	unsigned long done = 0;
	long rc;

	while (done < mem->npages) {
		unsigned long n = min_t(unsigned long, mem->npages - done, KRDMA_PIN_BATCH);
		unsigned long addr = start + (done << PAGE_SHIFT);

		if (fatal_signal_pending(current)) {
			rc = -EINTR;
			goto out;
		}
		rc = krdma_pin_long(addr, n, mem->writable, mem->pages + done, devdax, error);
		if (rc <= 0) {
			rc = krdma_pin_failed(addr, mem->writable, rc, error);
			goto out;
		}
		done += rc;
		cond_resched();
	}
	return 0;

out:
	unpin_user_pages(mem->pages, done);
	return rc;
}

/* How many pages a range of user memory has, or -EFAULT. */
static long krdma_user_pages(u64 addr, u64 length, struct krdma_error *error)
{
	addr = untagged_addr(addr);
	if (!krdma_range_ok(addr, length, TASK_SIZE_MAX) || !access_ok((void __user *)addr, length))
		return krdma_explain(error, -EFAULT,
				     "%#llx bytes at %#llx are outside the address space", length,
				     addr);
	return krdma_pages(addr, length);
}

/* Pages of devdax are none of the host's memory: nobody lacks them while they are pinned. */
static bool krdma_user_devdax(unsigned long start, unsigned long npages)
{
	struct mm_struct *mm = current->mm;
	bool devdax;

	if (mmap_read_lock_killable(mm))
		return false;
	devdax = krdma_vmas_devdax(mm, start, start + (npages << PAGE_SHIFT));
	mmap_read_unlock(mm);
	return devdax;
}

/* Of devdax the table of its pages: it is what the host gives. */
static unsigned long krdma_mem_charged(const struct krdma_mem *mem)
{
	return mem->devdax ? DIV_ROUND_UP(mem->npages, PAGE_SIZE / sizeof(*mem->pages)) :
			     mem->npages;
}

/* Return: 0 or a negative errno, and nothing is pinned */
static int krdma_mem_fill(struct krdma_mem *mem, unsigned long start, struct krdma_error *error)
{
	bool devdax = mem->devdax;
	int rc = krdma_pin_pages(mem, start, &devdax, error);

	if (rc || mem->devdax == devdax)
		return rc;
	/* It is charged for as what it is not any more. */
	unpin_user_pages(mem->pages, mem->npages);
	return krdma_explain(error, -EFAULT, "the mapping at %#lx has changed meanwhile", start);
}

/**
 * krdma_mem_pin - pin memory of the calling process until its handle ends
 * @payer: the open file
 * @addr: first byte
 * @length: bytes, not 0
 * @writable: a device will write it
 * @error: explanation
 *
 * RLIMIT_MEMLOCK and the limits of the file and of the user apply; of devdax, to its page table.
 *
 * Context: process, of the user.
 * Return: the memory with a reference, or an ERR_PTR
 */
struct krdma_mem *krdma_mem_pin(struct krdma_payer *payer, u64 addr, u64 length, bool writable,
				struct krdma_error *error)
{
	unsigned long start;
	struct krdma_mem *mem;
	long npages;
	bool devdax;
	int rc;

	if (!length)
		return ERR_PTR(krdma_explain(error, -EINVAL, "the length is 0"));
	npages = krdma_user_pages(addr, length, error);
	if (npages < 0)
		return ERR_PTR(npages);
	start = untagged_addr(addr) & PAGE_MASK;
	devdax = krdma_user_devdax(start, npages);
	/* More than that can't be there; and the table of pages is not for free. */
	if (npages > totalram_pages() && !devdax)
		return ERR_PTR(krdma_explain(error, -ENOMEM,
					     "%llu KiB are more than the memory of this host",
					     length >> 10));
	/* What kvmalloc() refuses. */
	if (npages > INT_MAX / sizeof(*mem->pages))
		return ERR_PTR(krdma_explain(error, -ENOMEM,
					     "%llu KiB are more than one buffer or export can have",
					     length >> 10));

	mem = krdma_inject(kzalloc(sizeof(*mem), GFP_KERNEL_ACCOUNT), NULL);
	if (!mem)
		return ERR_PTR(-ENOMEM);
	kref_init(&mem->ref);
	mutex_init(&mem->lock);
	INIT_LIST_HEAD(&mem->maps);
	mem->npages = npages;
	mem->offset = offset_in_page(addr);
	mem->length = length;
	mem->writable = writable;
	mem->devdax = devdax;

	mem->acct = krdma_account_new(payer);
	rc = PTR_ERR_OR_ZERO(mem->acct) ?:
		     krdma_account_charge(mem->acct, krdma_mem_charged(mem), error);
	if (rc)
		goto out_account;

	mem->pages = krdma_inject(kvmalloc_array(npages, sizeof(*mem->pages),
						 GFP_KERNEL_ACCOUNT | __GFP_NOWARN),
				  NULL);
	rc = mem->pages ? krdma_mem_fill(mem, start, error) : -ENOMEM;
	if (!rc)
		return mem;

	kvfree(mem->pages);
	krdma_account_uncharge(mem->acct, krdma_mem_charged(mem));
out_account:
	krdma_account_free(mem->acct);
	kfree(mem);
	return ERR_PTR(rc);
}

/* ---- pages of one operation ---- */

/* A page behind the others, in the same run if it follows. */
static void krdma_pages_add(struct krdma_pins *pins, struct page *page, u32 offset, u32 len)
{
	struct bio_vec *last = pins->n ? &pins->bvec[pins->n - 1] : NULL;

	/* Whole pages only: of a run, each page has been pinned once. */
	if (last && !offset && !offset_in_page(last->bv_offset + last->bv_len) &&
	    page_to_phys(last->bv_page) + last->bv_offset + last->bv_len == page_to_phys(page) &&
	    last->bv_len <= SZ_1G) {
		last->bv_len += len;
		return;
	}
	pins->bvec[pins->n++] = (struct bio_vec){
		.bv_page = page,
		.bv_offset = offset,
		.bv_len = len,
	};
}

/*
 * Anonymous pages may stay pinned whatever is mapped there, so nobody need look at the
 * mappings; a pin that only reads makes them the process's own first (gup_must_unshare()).
 * Return: pages, 0 if they are not of that kind, or a negative errno
 */
static long krdma_pin_anon(unsigned long addr, unsigned long n, bool writable, struct page **pages)
{
	long i, rc;

	rc = krdma_inject(pin_user_pages_fast(addr, n, FOLL_LONGTERM | (writable ? FOLL_WRITE : 0),
					      pages),
			  -ENOMEM);
	for (i = 0; i < rc; i++)
		if (unlikely(!PageAnon(pages[i]))) {
			unpin_user_pages(pages, rc);
			return 0;
		}
	return rc;
}

static int krdma_pages_pin_one(struct krdma_pins *pins, u64 addr, u64 length, bool writable,
			       struct krdma_error *error)
{
	unsigned int flags = FOLL_NOFAULT | (writable ? FOLL_WRITE : 0);
	struct page *pages[32];
	long i, n, want;

	while (length) {
		want = min_t(u64, krdma_pages(addr, length), ARRAY_SIZE(pages));
		if (pins->mm) {
			n = krdma_pin_anon(addr & PAGE_MASK, want, writable, pages);
			if (n <= 0)
				n = krdma_pin_long(addr & PAGE_MASK, want, writable, pages, NULL,
						   error);
		} else {
			n = krdma_inject(pin_user_pages_fast(addr & PAGE_MASK, want, flags, pages),
					 -ENOMEM);
			if (n == -EFAULT)
				return -EAGAIN;
		}
		if (n <= 0)
			return krdma_pin_failed(addr, writable, n, error);
		for (i = 0; i < n; i++) {
			u32 len = krdma_page_rest(addr, length);

			krdma_pages_add(pins, pages[i], offset_in_page(addr), len);
			addr += len;
			length -= len;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/**
 * krdma_pages_pin - pin user memory for one operation
 * @pins: of the operation; krdma_pages_unpin cleans up in either case, if they are ->charged
 * @payer: the open file
 * @vec: its pieces
 * @n: their number
 * @writable: a device will write
 * @longterm: for more than seconds: as a buffer is pinned, else as direct I/O does
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: 0; -EAGAIN: some are not there, and not for @longterm: krdma_pages_fetch(); or another
 *	negative errno
 */
int krdma_pages_pin(struct krdma_pins *pins, struct krdma_payer *payer, const struct krdma_vec *vec,
		    u32 n, bool writable, bool longterm, struct krdma_error *error)
{
	unsigned long sum = 0;
	long npages;
	int rc;
	u32 i;

	for (i = 0; i < n; i++) {
		npages = krdma_user_pages(vec[i].addr, vec[i].length, error);
		if (npages < 0)
			return npages;
		sum += npages;
	}
	rc = krdma_pins_charge(pins, payer, sum, longterm, error);
	if (rc)
		return rc;
	pins->bvec = pins->few;
	if (sum > ARRAY_SIZE(pins->few))
		pins->bvec = krdma_inject(kvmalloc_array(sum, sizeof(*pins->bvec),
							 GFP_KERNEL_ACCOUNT | __GFP_NOWARN),
					  NULL);
	if (!pins->bvec)
		return -ENOMEM;
	for (i = 0; i < n && !rc; i++)
		rc = krdma_pages_pin_one(pins, untagged_addr(vec[i].addr), vec[i].length, writable,
					 error);
	return rc;
}

/**
 * krdma_pages_fetch - have user memory there, pinning nothing of it
 * @vec: its pieces, which krdma_pages_pin() has looked at
 * @n: their number
 * @writable: a device will write
 * @error: explanation
 *
 * May wait for ever: a page may be a program's to provide (FUSE, userfaultfd).
 *
 * Context: process, of the user.
 * Return: 0, though it may be gone again; or a negative errno
 */
int krdma_pages_fetch(const struct krdma_vec *vec, u32 n, bool writable, struct krdma_error *error)
{
	unsigned int flags = writable ? FOLL_WRITE : 0;
	struct page *page;
	u64 addr, end;
	long got;
	u32 i;

	for (i = 0; i < n; i++) {
		addr = untagged_addr(vec[i].addr);
		for (end = addr + vec[i].length; addr < end;
		     addr += krdma_page_rest(addr, end - addr)) {
			/* As it will be pinned: a page that processes share becomes its own. */
			got = krdma_inject(pin_user_pages_fast(addr & PAGE_MASK, 1, flags, &page),
					   -ENOMEM);
			if (got != 1)
				return krdma_pin_failed(addr, writable, got, error);
			unpin_user_page(page);
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
		}
	}
	return 0;
}

/**
 * krdma_pages_unpin - undo krdma_pages_pin
 * @pins: of an operation that has ended, or has not begun; ->charged
 * @payer: the open file
 * @dirty: they may have been written
 *
 * Context: process, may sleep.
 */
void krdma_pages_unpin(struct krdma_pins *pins, struct krdma_payer *payer, bool dirty)
{
	u32 i;

	might_sleep();
	for (i = 0; i < pins->n; i++) {
		const struct bio_vec *bv = &pins->bvec[i];

		unpin_user_page_range_dirty_lock(bv->bv_page,
						 krdma_pages(bv->bv_offset, bv->bv_len), dirty);
	}
	if (pins->bvec != pins->few)
		kvfree(pins->bvec);
	krdma_pins_uncharge(pins, payer);
	pins->bvec = NULL;
	pins->n = 0;
}

/* ---- DMA ---- */

/* Lists of mappings. */
static DEFINE_MUTEX(krdma_mappings_lock);

/**
 * krdma_dma_device_init - a device that memory can be mapped for
 * @dev: part of the device's struct
 * @ib: the device
 *
 * Context: process.
 */
void krdma_dma_device_init(struct krdma_dma_device *dev, struct ib_device *ib)
{
	dev->ib = ib;
	INIT_LIST_HEAD(&dev->mappings);
	/* A bounce buffer, for one, has its limits. */
	dev->max_map = ib_uses_virt_dma(ib) ?
			       U32_MAX :
			       min_t(size_t, dma_max_mapping_size(ib->dma_device), U32_MAX);
}

/**
 * krdma_dma_run - how long a run of a scatter list may be
 * @dev: the device
 *
 * Context: any.
 * Return: bytes, a page at least
 */
unsigned int krdma_dma_run(const struct krdma_dma_device *dev)
{
	return max_t(u32, min(ib_dma_max_seg_size(dev->ib), dev->max_map), PAGE_SIZE);
}

/* Is it at the page itself that the device is? */
static bool krdma_dma_at(struct device *dev, dma_addr_t addr, struct page *page)
{
	struct iommu_domain *domain;

	if (!dma_need_sync(dev, addr))
		return true;
	/* It says so of each address of an IOMMU (Linux 6.1), or after the first bounce. */
	domain = iommu_get_domain_for_dev(dev);
	return domain && dev_is_dma_coherent(dev) &&
	       iommu_iova_to_phys(domain, addr) == page_to_phys(page);
}

/**
 * krdma_dma_shared - do the device and the processors see the same memory at any time?
 * @ib: the device
 * @sgt: pages that are mapped for it, from the beginning of the first
 *
 * Not where bounce buffers are between (swiotlb: forced, or in a confidential guest), or
 * caches are not coherent. What peers reach at times that nobody knows has to be so.
 *
 * Context: process.
 * Return: true if they do
 */
bool krdma_dma_shared(struct ib_device *ib, struct sg_table *sgt)
{
	struct sg_dma_page_iter dma;
	struct sg_page_iter cpu;

	if (ib_uses_virt_dma(ib))
		return true;
	__sg_page_iter_start(&cpu, sgt->sgl, sgt->orig_nents, 0);
	__sg_page_iter_start(&dma.base, sgt->sgl, sgt->nents, 0);
	while (__sg_page_iter_next(&cpu) && __sg_page_iter_dma_next(&dma))
		if (!krdma_dma_at(ib->dma_device, sg_page_iter_dma_address(&dma),
				  sg_page_iter_page(&cpu)))
			return false;
	return true;
}

/**
 * krdma_dma_map - let a device reach pages
 * @ib: the device
 * @sgt: the pages
 * @dir: what it does with them
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_dma_map(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir)
{
	int rc = krdma_inject(ib_dma_map_sgtable_attrs(ib, sgt, dir, 0), -ENOMEM);

	if (!rc)
		krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, 1);
	return rc;
}

/**
 * krdma_dma_unmap - undo krdma_dma_map
 * @ib: the device
 * @sgt: the pages
 * @dir: as when they were mapped
 *
 * The processors have what was moved by now: krdma_local_sync(), and what peers reach needs
 * none. All of a bounce buffer would come back, over what has been written since.
 *
 * Context: process.
 */
void krdma_dma_unmap(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir)
{
	ib_dma_unmap_sgtable_attrs(ib, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, -1);
}

static void krdma_mapping_undo(struct krdma_mapping *map)
{
	lockdep_assert_held(&krdma_mappings_lock);
	list_del_init(&map->node);
	krdma_dma_unmap(map->dev->ib, &map->sgt, map->dir);
	WRITE_ONCE(map->dev, NULL);
	/* Nobody looks into it any more; the memory may outlive many devices. */
	sg_free_table(&map->sgt);
	kvfree(map->page);
	map->page = NULL;
}

/* One that is not mapped; it may be half made. */
static void krdma_mapping_free(struct krdma_mapping *map)
{
	sg_free_table(&map->sgt);
	kvfree(map->page);
	kfree(map);
}

static void krdma_mem_release(struct kref *ref)
{
	struct krdma_mem *mem = container_of(ref, struct krdma_mem, ref);
	struct krdma_mapping *map, *next;

	might_sleep();
	/* ORDER: unmap before unpin. */
	list_for_each_entry_safe(map, next, &mem->maps, mem_node) {
		mutex_lock(&krdma_mappings_lock);
		if (map->dev)
			krdma_mapping_undo(map);
		mutex_unlock(&krdma_mappings_lock);
		krdma_mapping_free(map);
	}
	unpin_user_pages_dirty_lock(mem->pages, mem->npages, mem->writable);
	krdma_account_uncharge(mem->acct, krdma_mem_charged(mem));
	krdma_account_free(mem->acct);
	kvfree(mem->pages);
	kfree(mem);
}

/**
 * krdma_mem_put - let go of pinned memory
 * @mem: the memory; the last reference unmaps and unpins
 *
 * Context: process, may sleep.
 */
void krdma_mem_put(struct krdma_mem *mem)
{
	kref_put(&mem->ref, krdma_mem_release);
}

/*
 * The DMA address of each page, so that any range is found at once. Segments
 * may have been merged by an IOMMU, but end at page boundaries, except at the
 * two ends of the memory.
 */
static void krdma_mapping_index(struct krdma_mapping *map, struct krdma_mem *mem)
{
	u64 pos = mem->offset;
	struct scatterlist *sg;
	int i;

	for_each_sgtable_dma_sg(&map->sgt, sg, i) {
		u64 end = pos + sg_dma_len(sg), p;

		for (p = round_down(pos, PAGE_SIZE); p < end; p += PAGE_SIZE)
			map->page[p >> PAGE_SHIFT] = sg_dma_address(sg) + p - pos;
		pos = end;
	}
}

/* Some pages may be bounced, and others not. */
static bool krdma_mapping_need_sync(struct krdma_mapping *map, struct ib_device *ib)
{
	struct scatterlist *sg;
	int i;

	if (ib_uses_virt_dma(ib))
		return false;
	for_each_sgtable_dma_sg(&map->sgt, sg, i)
		if (dma_need_sync(ib->dma_device, sg_dma_address(sg)))
			return true;
	return false;
}

/**
 * krdma_mem_map - DMA addresses of pinned memory for a device
 * @mem: the memory
 * @dev: the device; the caller's session holds it
 * @error: explanation
 *
 * Mapped once for each device; the mapping lives as long as the memory, and is of use
 * until the device goes.
 *
 * Context: process.
 * Return: the mapping, or an ERR_PTR
 */
struct krdma_mapping *krdma_mem_map(struct krdma_mem *mem, struct krdma_dma_device *dev,
				    struct krdma_error *error)
{
	struct krdma_mapping *map;
	unsigned int noio;
	int rc;

	/* A channel's tick takes the lock, and no I/O goes over a channel whose tick waits. */
	noio = memalloc_noio_save();
	mutex_lock(&mem->lock);
	map = krdma_mem_mapped(mem, dev);
	if (map)
		goto out;

	rc = -ENOMEM;
	map = krdma_inject(kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT), NULL);
	if (!map)
		goto out_err;
	map->page = krdma_inject(kvmalloc_array(mem->npages, sizeof(*map->page),
						GFP_KERNEL_ACCOUNT | __GFP_NOWARN),
				 NULL);
	if (!map->page)
		goto out_free;
	map->mem = mem;
	map->dir = mem->writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;

	/* Exactly the bytes: a bounce buffer must not copy back its neighbours. */
	rc = krdma_inject(sg_alloc_table_from_pages_segment(&map->sgt, mem->pages, mem->npages,
							    mem->offset, mem->length,
							    krdma_dma_run(dev), GFP_KERNEL_ACCOUNT),
			  -ENOMEM);
	rc = rc ?: krdma_dma_map(dev->ib, &map->sgt, map->dir);
	if (rc)
		goto out_free;
	krdma_mapping_index(map, mem);
	map->need_sync = krdma_mapping_need_sync(map, dev->ib);

	map->dev = dev;
	mutex_lock(&krdma_mappings_lock);
	list_add_tail(&map->node, &dev->mappings);
	mutex_unlock(&krdma_mappings_lock);
	/* ORDER: it is whole when krdma_mem_mapped() finds it. */
	list_add_tail_rcu(&map->mem_node, &mem->maps);
out:
	mutex_unlock(&mem->lock);
	memalloc_noio_restore(noio);
	return map;

out_free:
	krdma_mapping_free(map);
out_err:
	mutex_unlock(&mem->lock);
	memalloc_noio_restore(noio);
	krdma_explain(error, rc, "%llu KiB can't be mapped for %s (%pe)", mem->length >> 10,
		      dev_name(&dev->ib->dev), ERR_PTR(rc));
	return ERR_PTR(rc);
}

/**
 * krdma_mem_map_later - a mapping that is of no device, for an operation that waits for one
 * @mem: the memory; the caller holds it
 *
 * Context: process.
 * Return: a mapping, for krdma_local_remap(); or an ERR_PTR
 */
struct krdma_mapping *krdma_mem_map_later(struct krdma_mem *mem)
{
	unsigned int noio = memalloc_noio_save();
	struct krdma_mapping *map;

	mutex_lock(&mem->lock);
	map = list_first_entry_or_null(&mem->maps, struct krdma_mapping, mem_node);
	if (!map)
		map = krdma_inject(kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT), NULL);
	if (map && !map->mem) {
		map->mem = mem;
		/* ORDER: as in krdma_mem_map(). */
		list_add_tail_rcu(&map->mem_node, &mem->maps);
	}
	mutex_unlock(&mem->lock);
	memalloc_noio_restore(noio);
	return map ?: ERR_PTR(-ENOMEM);
}

/**
 * krdma_mem_unmap_device - undo all mappings of a device that goes
 * @dev: the device, which no session uses any more
 *
 * Context: process.
 */
void krdma_mem_unmap_device(struct krdma_dma_device *dev)
{
	mutex_lock(&krdma_mappings_lock);
	while (!list_empty(&dev->mappings))
		krdma_mapping_undo(list_first_entry(&dev->mappings, struct krdma_mapping, node));
	mutex_unlock(&krdma_mappings_lock);
}
