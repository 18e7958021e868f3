/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of this host: who pays for pinned pages (account.c), pages of processes and their
 * DMA addresses (mem.c), and the local memory of an operation, whatever it is made of
 * (local.c, split.c).
 *
 * Uses the module's common headers (error.h, inject.h, range.h, stats.h) and no other floor.
 * Sessions, channels and keys are not known here: a device is a struct krdma_dma_device, which
 * rdma/ has in its own struct.
 *
 * Callers: frontend/ pins and maps, target/ pays for exports, initiator/ and rdma/ move bytes
 * of local memory, target/ and rdma/ map segments.
 */
#ifndef KRDMA_MEM_H
#define KRDMA_MEM_H

#include <linux/bvec.h>
#include <linux/dma-direction.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <linux/uidgid.h>
#include <rdma/ib_verbs.h>

#include <uapi/linux/krdma_mover.h>
#include "error.h"
#include "inject.h"
#include "range.h"
#include "stats.h"

/* ---- who pays; account.c ---- */

/* A user of this host: what all files that were opened by one have together. */
struct krdma_user {
	struct list_head node; /* krdma_users */
	refcount_t refs;       /* each payer, context and export */
	kuid_t uid;
	u64 pinned; /* pages of buffers and exports; krdma_users_pinned_lock */
	atomic_t exports;
};

/* An open file, which pays for what is pinned through it, and so does its user. */
struct krdma_payer {
	refcount_t refs;         /* the file, each account */
	struct krdma_user *user; /* holds a reference */
	atomic64_t pinned;       /* pages */
	u64 limit;               /* pages */
};

/* What is charged for pinned memory; outlives the process, and the file. */
struct krdma_account {
	struct mm_struct *mm; /* mmgrab: for pinned_vm only */
	u64 limit;            /* pages, RLIMIT_MEMLOCK when made */
	struct krdma_payer *payer;
};

struct krdma_user *krdma_user_of(kuid_t uid);
void krdma_user_put(struct krdma_user *user);
static inline struct krdma_user *krdma_user_get(struct krdma_user *user)
{
	refcount_inc(&user->refs);
	return user;
}

/* Root, and clients in the kernel: limits of users are not for them. */
static inline bool krdma_user_is_root(const struct krdma_user *user)
{
	return uid_eq(user->uid, GLOBAL_ROOT_UID);
}

struct krdma_payer *krdma_payer_new(struct krdma_user *user);
void krdma_payer_put(struct krdma_payer *payer);
struct krdma_account *krdma_account_new(struct krdma_payer *payer);
void krdma_account_free(struct krdma_account *acct);
int krdma_account_charge(struct krdma_account *acct, unsigned long npages,
			 struct krdma_error *error);
void krdma_account_uncharge(struct krdma_account *acct, unsigned long npages);

/* ---- pages of processes; mem.c ---- */

/* Pages that need no table of their own. */
#define KRDMA_PINS_FEW 2

/* Pages of a process that are pinned for one operation. */
struct krdma_pins {
	struct bio_vec few[KRDMA_PINS_FEW];
	/* From here all zero at first. */
	struct bio_vec *bvec;
	u32 n;                 /* entries of ->bvec */
	unsigned long charged; /* pages */
	struct mm_struct *mm;  /* mmgrab: they are long-term pins, charged to it; or NULL */
};

/* Pages of a process that stay pinned. */
struct krdma_mem {
	struct kref ref;
	struct krdma_account *acct;
	struct page **pages;
	unsigned long npages;
	u32 offset; /* of the first byte in the first page */
	u64 length;
	bool writable;         /* the device may write */
	bool devdax;           /* all of it is mapped of devdax */
	struct mutex lock;     /* one at a time is added to maps */
	struct list_head maps; /* krdma_mapping.mem_node; none is taken off before the end */
};

struct krdma_mem *krdma_mem_pin(struct krdma_payer *payer, u64 addr, u64 length, bool writable,
				struct krdma_error *error);
void krdma_mem_put(struct krdma_mem *mem);
int krdma_pins_charge(struct krdma_pins *pins, struct krdma_payer *payer, unsigned long npages,
		      bool longterm, struct krdma_error *error);
void krdma_pins_uncharge(struct krdma_pins *pins, struct krdma_payer *payer);
int krdma_pages_pin(struct krdma_pins *pins, struct krdma_payer *payer, const struct krdma_vec *vec,
		    u32 n, bool writable, bool longterm, struct krdma_error *error);
int krdma_pages_fetch(const struct krdma_vec *vec, u32 n, bool writable, struct krdma_error *error);
void krdma_pages_unpin(struct krdma_pins *pins, struct krdma_payer *payer, bool dirty);

/* ---- DMA; mem.c ---- */

/* A device, as memory is mapped for it. */
struct krdma_dma_device {
	struct ib_device *ib;
	u32 max_map;               /* bytes of one DMA mapping */
	struct list_head mappings; /* krdma_mapping.node, krdma_mappings_lock */
};

/* krdma_mem as one device sees it. */
struct krdma_mapping {
	struct list_head node;     /* dev->mappings, krdma_mappings_lock */
	struct list_head mem_node; /* mem->maps */
	struct krdma_mem *mem;
	struct krdma_dma_device *dev; /* valid while on dev->mappings; NULL from then on */
	enum dma_data_direction dir;
	struct sg_table sgt;
	bool need_sync;   /* the device does not see what the CPU sees */
	dma_addr_t *page; /* DMA address of each page */
};

void krdma_dma_device_init(struct krdma_dma_device *dev, struct ib_device *ib);
int krdma_dma_map(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir);
void krdma_dma_unmap(struct ib_device *ib, struct sg_table *sgt, enum dma_data_direction dir);
unsigned int krdma_dma_run(const struct krdma_dma_device *dev);
bool krdma_dma_shared(struct ib_device *ib, struct sg_table *sgt);
struct krdma_mapping *krdma_mem_map(struct krdma_mem *mem, struct krdma_dma_device *dev,
				    struct krdma_error *error);
struct krdma_mapping *krdma_mem_map_later(struct krdma_mem *mem);

/**
 * krdma_mem_mapped - DMA addresses of pinned memory, if a device has used it before
 * @mem: the memory; the caller holds it
 * @dev: the device; only compared, it may be gone, and its mappings are of none then
 *
 * Context: any.
 * Return: the mapping, or NULL
 */
static inline struct krdma_mapping *krdma_mem_mapped(const struct krdma_mem *mem,
						     const struct krdma_dma_device *dev)
{
	struct krdma_mapping *map;

	/* No lock: mappings are added behind the others, whole, and end with the memory. */
	list_for_each_entry_lockless(map, &mem->maps, mem_node)
		if (READ_ONCE(map->dev) == dev)
			return map;
	return NULL;
}

void krdma_mem_unmap_device(struct krdma_dma_device *dev);

/* ---- local memory of an operation; local.c ---- */

/* A place in a list of ranges or pages. */
struct krdma_cursor {
	u32 i;  /* entry */
	u64 in; /* bytes of it that are behind */
};

/*
 * Local memory of an operation: pages that are mapped for DMA by each run (->bvec), or ranges
 * of a registered buffer, which stays mapped (->map, ->vec). Nobody else looks at which.
 *
 * The place is no struct bvec_iter: that counts 4 GiB at most, and passes no empty entries.
 */
struct krdma_local {
	const struct bio_vec *bvec;
	const struct krdma_vec *vec; /* of the buffer; or, before they are pinned, of the process */
	struct krdma_mapping *map;
	struct krdma_cursor at; /* the next byte */
	u32 n;                  /* entries of ->bvec or ->vec */
	bool fills;             /* the device writes it */
};

static inline enum dma_data_direction krdma_local_dir(const struct krdma_local *l)
{
	return l->fills ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
}

/**
 * krdma_split_step - go on in a list of ranges
 * @at: the place
 * @vec: the list
 * @n: its entries
 * @bytes: how far: not behind the end of the last one
 *
 * Stands at the beginning of an entry rather than at the end of the one before, except at the
 * end of the last.
 *
 * Context: any.
 */
static inline void krdma_split_step(struct krdma_cursor *at, const struct krdma_vec *vec, u32 n,
				    u64 bytes)
{
	while (at->i + 1 < n) {
		u64 rest = vec[at->i].length - at->in;

		if (bytes < rest)
			break;
		bytes -= rest;
		at->i++;
		at->in = 0;
	}
	at->in += bytes;
}

/**
 * krdma_bvec_step - go on in a list of pages
 * @at: the place
 * @bvec: the list; it may have empty entries
 * @n: its entries
 * @bytes: how far: not behind the end of the last one
 *
 * Context: any.
 */
static inline void krdma_bvec_step(struct krdma_cursor *at, const struct bio_vec *bvec, u32 n,
				   u32 bytes)
{
	at->in += bytes;
	/* To the beginning of an entry rather than the end of the one before. */
	while (at->i + 1 < n && at->in >= bvec[at->i].bv_len) {
		at->in -= bvec[at->i].bv_len;
		at->i++;
	}
}

/**
 * krdma_bvec_has - is there room for a number in one piece?
 * @bv: pages, with more bytes than @skip
 * @skip: bytes before it
 * @bytes: of the number; it has to be at a multiple of that
 *
 * Return: true if there is.
 */
static inline bool krdma_bvec_has(const struct bio_vec *bv, u64 skip, u32 bytes)
{
	for (; skip >= bv->bv_len; bv++)
		skip -= bv->bv_len;
	return bv->bv_len - skip >= bytes && IS_ALIGNED(bv->bv_offset + skip, bytes);
}

/* ->bvec: the next bytes, which follow each other in memory, mapped; 0 if they can't be. */
static inline u32 krdma_local_map(struct krdma_local *l, struct krdma_dma_device *dev, u32 len,
				  u64 *addr)
{
	const struct bio_vec *bv = &l->bvec[l->at.i];
	struct ib_device *ib = dev->ib;

	*addr = ib_dma_map_page(ib, bv->bv_page, bv->bv_offset + l->at.in, len, krdma_local_dir(l));
	if (krdma_inject(ib_dma_mapping_error(ib, *addr), -ENOMEM))
		return 0;
	krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, 1);
	krdma_bvec_step(&l->at, l->bvec, l->n, len);
	return len;
}

/**
 * krdma_local_unmap - undo the mapping of a run
 * @l: local memory, of which krdma_local_sges() or krdma_local_sg() has mapped the run
 * @dev: the device
 * @addr: DMA address of the run
 * @len: its bytes
 *
 * Context: any.
 */
static inline void krdma_local_unmap(const struct krdma_local *l, struct krdma_dma_device *dev,
				     u64 addr, u32 len)
{
	ib_dma_unmap_page(dev->ib, addr, len, krdma_local_dir(l));
	krdma_stat_add(KRDMA_STAT_DMA_MAPPINGS, -1);
}

u32 krdma_split_sges(const dma_addr_t *page, u64 mem, u32 bytes, u32 lkey, struct ib_sge *sge,
		     u32 max, u32 *used);
u32 krdma_local_sges_many(struct krdma_local *l, struct krdma_dma_device *dev, u32 lkey,
			  struct ib_sge *sge, u32 max, u32 *bytes);

/* A byte, counted from the beginning of the first page: of its entry, or of a registered buffer. */
static inline u64 krdma_local_pos(const struct krdma_local *l, const struct krdma_cursor *at)
{
	if (l->bvec)
		return l->bvec[at->i].bv_offset + at->in;
	return l->map->mem->offset + l->vec[at->i].addr + at->in;
}

/**
 * krdma_local_sges - the next bytes as SGEs; and go behind them
 * @l: local memory
 * @dev: the device
 * @lkey: for all SGEs
 * @sge: out: room for @max
 * @max: most SGEs, at least 1
 * @bytes: in: most bytes, not 0; out: those that the SGEs have
 *
 * krdma_local_unmap() has to undo those of pages (->bvec).
 *
 * Context: any.
 * Return: the SGEs; 0 if nothing can be mapped now
 */
static inline u32 krdma_local_sges(struct krdma_local *l, struct krdma_dma_device *dev, u32 lkey,
				   struct ib_sge *sge, u32 max, u32 *bytes)
{
	u32 len = *bytes;

	/* Mostly one entry, or one page of a registered buffer, has them all. */
	if (l->bvec) {
		if (len > l->bvec[l->at.i].bv_len - l->at.in || len > dev->max_map)
			goto many;
		sge->length = krdma_local_map(l, dev, len, &sge->addr);
		*bytes = sge->length;
	} else {
		u64 pos = krdma_local_pos(l, &l->at);

		if (len > l->vec[l->at.i].length - l->at.in || len > krdma_page_rest(pos, len))
			goto many;
		sge->addr = l->map->page[pos >> PAGE_SHIFT] + offset_in_page(pos);
		sge->length = len;
		krdma_split_step(&l->at, l->vec, l->n, len);
	}
	sge->lkey = lkey;
	return !!sge->length;
many:
	return krdma_local_sges_many(l, dev, lkey, sge, max, bytes);
}

u32 krdma_local_sg(struct krdma_local *l, struct krdma_dma_device *dev, struct scatterlist *sg,
		   u32 max, u32 *bytes, u32 *mapped);
u32 krdma_local_next(struct krdma_local *l, struct krdma_dma_device *dev, u32 most, u64 *addr);
void krdma_local_sync_mapped(const struct krdma_local *l, struct krdma_cursor at, u32 bytes,
			     bool to_device);

/**
 * krdma_local_sync - hand bytes over to a device that does not see them at once, or back
 * @l: local memory
 * @at: the first of the bytes
 * @bytes: their number
 * @to_device: to the device, before it moves them; or back
 *
 * Context: any.
 */
static inline void krdma_local_sync(const struct krdma_local *l, struct krdma_cursor at, u32 bytes,
				    bool to_device)
{
	if (l->map && l->map->need_sync)
		krdma_local_sync_mapped(l, at, bytes, to_device);
}

bool krdma_local_remap(struct krdma_local *l, const struct krdma_dma_device *dev);
void krdma_local_seek(struct krdma_local *l, struct krdma_cursor from, u64 bytes);
struct page *krdma_local_page(const struct krdma_local *l, struct krdma_cursor *at, u32 *offset,
			      u64 *rest);
int krdma_local_copy(const struct krdma_local *l, void *to, u32 length);
void krdma_local_store(const struct krdma_local *l, const void *from, u32 length);

/* The register before the first byte of a digest. */
#define KRDMA_DIGEST_SEED U32_MAX
u32 krdma_digest_page(u32 value, struct page *page, u32 offset, u32 len, bool arrived);

#endif /* KRDMA_MEM_H */
