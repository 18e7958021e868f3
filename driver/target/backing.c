// SPDX-License-Identifier: GPL-2.0
/*
 * Files that exports are of: memfds, and files on disk that peers may read. Their pages
 * are taken a segment at a time, when a peer first requests it, and given back with it.
 *
 * What a peer touches of a memfd is allocated for it, by a worker that nobody can kill. So
 * that is done with masks that fail before somebody is killed for it, never when the host
 * has hardly any memory left, and up to a limit for all peers together. Pages of files on
 * disk can be had again, and count in that limit while they are held.
 *
 * Pages of a memfd that stay are pinned with FOLL_LONGTERM where the kernel has that for
 * memfds: they leave CMA and ZONE_MOVABLE first. Elsewhere, and for files on disk, there are
 * references alone: what is allocated here is not movable, what is there already stays
 * where it is, as nothing that a module may call would move it, until a RECALL gives it back.
 */
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/sizes.h>
#include <linux/swap.h>
#include <linux/user_namespace.h>
#include <uapi/linux/fcntl.h>

#include "compat.h"
#include "target/grant.h"

/* How often memory is asked for that reclaim may find, and how long it has between. */
#define KRDMA_RECLAIM_TRIES 8
#define KRDMA_RECLAIM_WAIT  (HZ / 50)
/* Pages pinned in one call. */
#define KRDMA_BACKING_BATCH 32

static unsigned long krdma_peer_memory_max;
module_param_named(peer_memory_max, krdma_peer_memory_max, ulong, 0644);
MODULE_PARM_DESC(
	peer_memory_max,
	"MiB that may be allocated at a time because peers use exported files, 0 for half of the memory (0)");

/* Pages allocated in memfds because of peers, and of files on disk that are held. */
static atomic64_t krdma_peer_pages;
/* The latter alone: the kernel takes them for memory that can be had. */
static atomic64_t krdma_disk_pages;

/* ---- how much ---- */

static u64 krdma_mib(u64 pages)
{
	return pages >> (20 - PAGE_SHIFT);
}

static void krdma_peer_count(struct krdma_export *export, s64 npages)
{
	atomic64_add(npages, &export->peer_pages);
	atomic64_add(npages, &krdma_peer_pages);
	if (export->on_disk)
		atomic64_add(npages, &krdma_disk_pages);
	krdma_stat_add(KRDMA_STAT_PEER_BYTES, npages << PAGE_SHIFT);
}

static int krdma_peer_charge(struct krdma_export *export, u64 npages, struct krdma_error *error)
{
	u64 mib = READ_ONCE(krdma_peer_memory_max);
	u64 limit = mib ? min_t(u64, mib, U32_MAX) << (20 - PAGE_SHIFT) : totalram_pages() / 2;

	krdma_peer_count(export, npages);
	if (atomic64_read(&krdma_peer_pages) <= limit)
		return 0;
	krdma_peer_count(export, -npages);
	return krdma_explain(
		error, -ENOMEM,
		"peers may have %llu MiB of exported files at a time (peer_memory_max), and have %llu MiB",
		krdma_mib(limit), krdma_mib(atomic64_read(&krdma_peer_pages)));
}

/* What is left is for the host itself: out of memory it kills, and not only who is to blame. */
static int krdma_memory_left(struct krdma_error *error)
{
	u64 keep = clamp_t(u64, totalram_pages() / 32, SZ_16M >> PAGE_SHIFT, SZ_1G >> PAGE_SHIFT);
	s64 left = si_mem_available() - atomic64_read(&krdma_disk_pages);

	if (left >= (s64)keep)
		return 0;
	return krdma_explain(error, -ENOMEM,
			     "%llu MiB of memory are left on the host, of which it keeps %llu",
			     krdma_mib(max_t(s64, left, 0)), krdma_mib(keep));
}

/* For a page: nobody is killed for it, and pages that can be had are looked for again. */
static gfp_t krdma_backing_gfp(struct address_space *mapping)
{
	/* Reclaim once, then fail; RETRY_MAYFAIL would go on while others use what it finds. */
	return mapping_gfp_mask(mapping) | __GFP_NORETRY | __GFP_NOWARN;
}

static bool krdma_backing_again(const struct krdma_export *export, int err, unsigned int *tries)
{
	if (err != -ENOMEM || READ_ONCE(export->dead) || ++*tries >= KRDMA_RECLAIM_TRIES)
		return false;
	/* Dirty pages have to be written first, which kswapd does meanwhile. */
	schedule_timeout_uninterruptible(KRDMA_RECLAIM_WAIT);
	return true;
}

/* ---- a page of a memfd ---- */

/* ENOSPC: no segment that is given back would help, without swap where its pages go. */
static int krdma_memfd_lacks(void)
{
	return get_nr_swap_pages() > 0 ? -ENOMEM : -ENOSPC;
}

/* A page that is not there yet; a hole is one that has never been. */
static struct page *krdma_memfd_new_page(struct krdma_export *export, pgoff_t index, bool hole,
					 struct krdma_error *error)
{
	struct address_space *mapping = export->file->f_mapping;
	unsigned int tries = 0;
	struct page *page;

	/* An exporter that punches holes again and again is charged for the export once. */
	hole = hole &&
	       atomic64_read(&export->peer_pages) < krdma_pages(0, READ_ONCE(export->length));
	if (krdma_memory_left(error))
		return ERR_PTR(krdma_memfd_lacks());
	/* What is given back stays allocated. */
	if (hole && krdma_peer_charge(export, 1, error))
		return ERR_PTR(-ENOSPC);

	do {
		page = krdma_inject(shmem_read_mapping_page_gfp(mapping, index,
								krdma_backing_gfp(mapping)),
				    ERR_PTR(-ENOMEM));
	} while (IS_ERR(page) && krdma_backing_again(export, PTR_ERR(page), &tries));
	/* One page was counted before: a huge one has more, and what failed has none. */
	if (hole)
		krdma_peer_count(export,
				 IS_ERR(page) ? -1 : (s64)folio_nr_pages(page_folio(page)) - 1);
	if (page != ERR_PTR(-ENOMEM))
		return page;
	krdma_explain(error, -ENOMEM, "no memory is free, in its control group or at all");
	return ERR_PTR(krdma_memfd_lacks());
}

static struct page *krdma_memfd_page(struct krdma_export *export, pgoff_t index,
				     struct krdma_error *error)
{
	struct address_space *mapping = export->file->f_mapping;
	void *there = xa_load(&mapping->i_pages, index);

	if (!there || xa_is_value(there))
		return krdma_memfd_new_page(export, index, !there, error);
	return krdma_inject(shmem_read_mapping_page_gfp(mapping, index, krdma_backing_gfp(mapping)),
			    ERR_PTR(-ENOMEM));
}

/* ---- a page of a file on disk ---- */

static struct page *krdma_disk_page(struct krdma_export *export, pgoff_t index, unsigned int ahead,
				    struct krdma_error *error)
{
	struct address_space *mapping = export->file->f_mapping;
	void *there = xa_load(&mapping->i_pages, index);
	struct file_ra_state ra = {};
	unsigned int tries = 0;
	struct page *page, *room;

	/* Cut off meanwhile: what is behind the end is nobody's. */
	if (index >= DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE))
		return ERR_PTR(krdma_explain(error, -EIO, "the file has been cut off"));
	if (!there || xa_is_value(there)) {
		if (krdma_memory_left(error))
			return ERR_PTR(-ENOMEM);
		/* Not the file's own: its owner reads elsewhere. */
		file_ra_state_init(&ra, mapping);
		ra.ra_pages = max(ra.ra_pages, ahead);
		/* Many at a time; a failure shows where one is read alone. */
		page_cache_sync_readahead(mapping, &ra, export->file, index, ahead);
	}
	do {
		/*
		 * Reading it finds this page: else it would be allocated at any price. Not
		 * locked, or the read would wait for it.
		 */
		room = krdma_inject(pagecache_get_page(mapping, index, FGP_CREAT | FGP_FOR_MMAP,
						       krdma_backing_gfp(mapping)),
				    NULL);
	} while (!room && krdma_backing_again(export, -ENOMEM, &tries));
	if (!room)
		return ERR_PTR(krdma_explain(error, -ENOMEM,
					     "no memory is free, in its control group or at all"));
	page = krdma_inject(read_mapping_page(mapping, index, export->file), ERR_PTR(-EIO));
	put_page(room);
	if (page == ERR_PTR(-ENOMEM))
		return page;
	if (IS_ERR(page))
		return ERR_PTR(krdma_explain(error, -EIO, "the file can't be read at %llu (%pe)",
					     (u64)index << PAGE_SHIFT, page));
	if (!PageHWPoison(page))
		return page;
	put_page(page);
	return ERR_PTR(-EIO);
}

/* ---- for a moment ---- */

/**
 * krdma_backing_get - take pages for a moment
 * @export: export of a file
 * @first: index of the first page, of the export
 * @n: their number
 * @pages: out
 * @error: explanation
 *
 * Context: process, mostly a work.
 * Return: 0; -ENOMEM, or -ENOSPC if nothing that is given back would help; -ESTALE if the
 *	export ends; -EIO. Nothing is taken then
 */
int krdma_backing_get(struct krdma_export *export, pgoff_t first, unsigned int n,
		      struct page **pages, struct krdma_error *error)
{
	struct mem_cgroup *old = set_active_memcg(export->memcg);
	unsigned int pin = memalloc_pin_save();
	unsigned int i;
	int rc = 0;

	first += export->pgoff;
	for (i = 0; i < n; i++) {
		struct page *page;

		/*
		 * The exporter is being killed: its files are closed, and peers allocate no
		 * more.
		 */
		if (READ_ONCE(export->dead))
			page = ERR_PTR(-ESTALE);
		else if (export->on_disk)
			page = krdma_disk_page(export, first + i, n - i, error);
		else
			page = krdma_memfd_page(export, first + i, error);
		if (IS_ERR(page)) {
			krdma_backing_put(pages, i);
			rc = PTR_ERR(page);
			break;
		}
		pages[i] = page;
		cond_resched();
	}
	memalloc_pin_restore(pin);
	set_active_memcg(old);
	return rc;
}

/**
 * krdma_backing_put - give back what krdma_backing_get took
 * @pages: the pages
 * @n: their number
 *
 * Context: process.
 */
void krdma_backing_put(struct page **pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		put_page(pages[i]);
}

/* ---- for as long as peers have keys ---- */

#ifdef HAVE_MEMFD_PIN_FOLIOS

/* Pages that others take away as often are not had. */
#define KRDMA_PIN_TRIES 8

/* Each batch pins a folio once. */
static void krdma_memfd_unpin(struct page **pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct folio *folio = page_folio(pages[i]);

		if (!(i % KRDMA_BACKING_BATCH) || folio != page_folio(pages[i - 1]))
			unpin_folio(folio);
	}
}

/* Pages that are there. Return: 0, or -EAGAIN if they were not, or not filled */
static int krdma_memfd_pin_there(struct krdma_export *export, pgoff_t index, unsigned int n,
				 struct page **pages)
{
	struct folio *folios[KRDMA_BACKING_BATCH];
	loff_t start = (loff_t)index << PAGE_SHIFT;
	/* Sealed against shrinking. */
	loff_t end = min(start + ((loff_t)n << PAGE_SHIFT), i_size_read(file_inode(export->file)));
	unsigned int i = 0;
	pgoff_t offset;
	bool ok = true;
	long got, k;

	got = krdma_inject(memfd_pin_folios(export->file, start, end - 1, folios, n, &offset),
			   -ENOMEM);
	if (got <= 0)
		return got ?: -EIO;
	offset >>= PAGE_SHIFT;
	for (k = 0; k < got; k++, offset = 0) {
		/* A hole made and filled again meanwhile: it would have what others left. */
		ok &= folio_test_uptodate(folios[k]);
		for (; offset < folio_nr_pages(folios[k]) && i < n; offset++) {
			pages[i] = folio_page(folios[k], offset);
			ok &= !PageHWPoison(pages[i++]);
		}
	}
	if (ok && i == n)
		return 0;
	unpin_folios(folios, got);
	return -EAGAIN;
}

/*
 * Taken first, with our mask and limits: then there is nothing left to allocate, but where
 * it is taken away in between, by swapping or by a hole.
 */
static int krdma_memfd_pin(struct krdma_export *export, pgoff_t first, unsigned int n,
			   struct page **pages, struct krdma_error *error)
{
	unsigned int tries = 0;
	int rc;

	do {
		rc = krdma_backing_get(export, first, n, pages, error);
		if (rc)
			return rc;
		/* Pages with other references would not be moved. */
		krdma_backing_put(pages, n);
		rc = krdma_memfd_pin_there(export, export->pgoff + first, n, pages);
	} while (rc == -EAGAIN && ++tries < KRDMA_PIN_TRIES);
	return rc == -EAGAIN ? -EIO : rc;
}

#else

static void krdma_memfd_unpin(struct page **pages, unsigned int n)
{
	krdma_backing_put(pages, n);
}

static int krdma_memfd_pin(struct krdma_export *export, pgoff_t first, unsigned int n,
			   struct page **pages, struct krdma_error *error)
{
	return krdma_backing_get(export, first, n, pages, error);
}

#endif

/**
 * krdma_backing_hold - take pages until krdma_backing_release
 * @export: export of a file
 * @first: index of the first page, of the export
 * @n: their number
 * @pages: out
 * @error: explanation
 *
 * Context: process, mostly a work.
 * Return: as krdma_backing_get
 */
int krdma_backing_hold(struct krdma_export *export, pgoff_t first, unsigned int n,
		       struct page **pages, struct krdma_error *error)
{
	unsigned int done, some;
	int rc = 0;

	if (export->on_disk) {
		rc = krdma_peer_charge(export, n, error);
		if (rc)
			return rc;
		rc = krdma_backing_get(export, first, n, pages, error);
		if (rc)
			krdma_peer_count(export, -(s64)n);
		return rc;
	}
	for (done = 0; done < n; done += some) {
		some = min_t(unsigned int, n - done, KRDMA_BACKING_BATCH);
		rc = krdma_memfd_pin(export, first + done, some, pages + done, error);
		if (rc) {
			krdma_memfd_unpin(pages, done);
			return rc;
		}
	}
	return 0;
}

/**
 * krdma_backing_release - give back what krdma_backing_hold took
 * @export: export of a file
 * @pages: the pages, all of one call
 * @n: their number
 * @dirty: a peer may have written them
 *
 * Context: process.
 */
void krdma_backing_release(struct krdma_export *export, struct page **pages, unsigned int n,
			   bool dirty)
{
	unsigned int i;

	for (i = 0; dirty && i < n; i++)
		set_page_dirty_lock(pages[i]);
	if (export->on_disk) {
		krdma_backing_put(pages, n);
		krdma_peer_count(export, -(s64)n);
		return;
	}
	krdma_memfd_unpin(pages, n);
}

/**
 * krdma_backing_end - the end of an export of a file
 * @export: export that nobody uses any more
 *
 * Context: process.
 */
void krdma_backing_end(struct krdma_export *export)
{
	/* Of a memfd, which may live on: it is its owner's from now on. */
	krdma_peer_count(export, -atomic64_read(&export->peer_pages));
}

/* ---- what may be exported ---- */

static int krdma_memfd_check(struct file *file, bool writable, struct krdma_error *error)
{
	unsigned int seals;

	/* ORDER: the caller denies new write seals before this looks at them. */
	seals = READ_ONCE(SHMEM_I(file_inode(file))->seals);
	if (!(seals & F_SEAL_SHRINK))
		return krdma_explain(error, -EINVAL, "the memfd is not sealed with F_SEAL_SHRINK");
	if (writable && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return krdma_explain(error, -EACCES, "the memfd is sealed against writing");
	if (!(file->f_mode & FMODE_READ) || (writable && !(file->f_mode & FMODE_WRITE)))
		return krdma_explain(error, -EACCES, "the memfd is not open for %s",
				     writable ? "writing" : "reading");
	return 0;
}

/* Where reading waits for another host, perhaps without an end. */
static bool krdma_disk_remote(const struct super_block *sb)
{
	switch (sb->s_magic) {
	case NFS_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case CEPH_SUPER_MAGIC:
	case AFS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/* Neither sealed nor written: peers read what is in the page cache when they ask. */
static int krdma_disk_check(struct file *file, bool writable, struct krdma_error *error)
{
	struct inode *inode = file_inode(file);

	if (!S_ISREG(inode->i_mode) || !file->f_mapping->a_ops->read_folio || !can_mmap_file(file))
		return krdma_explain(
			error, -EOPNOTSUPP,
			"the file descriptor is neither a memfd nor of a file on disk (export a mapping)");
	/* Whose file system would be given a file that is not its own. */
	if (file->f_mapping->host != inode)
		return krdma_explain(
			error, -EOPNOTSUPP,
			"the file's pages are those of another one (overlayfs): export a mapping");
	if (IS_DAX(inode))
		return krdma_explain(error, -EOPNOTSUPP,
				     "the file is on a DAX file system, its memory can't be held");
	/* The service of a session reads it, and has to come to an end. */
	if (inode->i_sb->s_magic == FUSE_SUPER_MAGIC || inode->i_sb->s_user_ns != &init_user_ns)
		return krdma_explain(
			error, -EOPNOTSUPP,
			"the file's pages come from a user's process (FUSE): export a mapping");
	if (krdma_disk_remote(inode->i_sb))
		return krdma_explain(error, -EOPNOTSUPP,
				     "the file is on another host, which may not respond: copy it");
	if (writable)
		return krdma_explain(
			error, -EOPNOTSUPP,
			"a file on disk can be exported for reading only: its pages can't stay pinned for writing");
	if (!(file->f_mode & FMODE_READ))
		return krdma_explain(error, -EACCES, "the file is not open for reading");
	return 0;
}

/**
 * krdma_backing_has - is a range inside the file of an export?
 * @export: export with ->file and ->on_disk
 * @offset: first byte
 * @length: bytes
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or -ERANGE
 */
int krdma_backing_has(const struct krdma_export *export, u64 offset, u64 length,
		      struct krdma_error *error)
{
	loff_t size = i_size_read(file_inode(export->file));

	if (krdma_range_ok(offset, length, size))
		return 0;
	return krdma_explain(error, -ERANGE, "%llu bytes at %llu are outside the %s of %lld bytes",
			     length, offset, export->on_disk ? "file" : "memfd", size);
}

/**
 * krdma_backing_check - may a range of the file of an export be exported?
 * @export: export with ->file, any that there is
 * @offset: first byte, a multiple of the page size
 * @length: bytes, not 0
 * @writable: peers will write
 * @error: explanation
 *
 * The seal against shrinking keeps every page of the range inside a memfd.
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_backing_check(struct krdma_export *export, u64 offset, u64 length, bool writable,
			struct krdma_error *error)
{
	struct inode *inode = file_inode(export->file);
	int rc;

	export->on_disk = inode->i_sb->s_magic != TMPFS_MAGIC || !S_ISREG(inode->i_mode);
	rc = export->on_disk ? krdma_disk_check(export->file, writable, error) :
			       krdma_memfd_check(export->file, writable, error);
	return rc ?: krdma_backing_has(export, offset, length, error);
}
