/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault points: on a kernel with fault injection each allocation, registration, post and
 * call of rdma_cm of the module can be made to fail, one at a time (fault.c). That is done
 * to the functions, not where they are called: no call of theirs is forgotten, and the code
 * reads as if there was nothing. Another function that may fail is added here with its first
 * caller.
 *
 * After all headers of the kernel, which use them, too.
 */
#ifndef KRDMA_FAULT_POINTS_H
#define KRDMA_FAULT_POINTS_H

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS

#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/scatterlist.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "fault.h"

/* Shall this call fail? */
#define krdma_fault(_call)                                                    \
	({                                                                    \
		static struct krdma_fault_point __point = { .file = __FILE__, \
							    .line = __LINE__, \
							    .call = #_call,   \
							    .in = __func__ }; \
		krdma_fault_fails(&__point);                                  \
	})

/* Some are macros: a function has what they were. */
#define KRDMA_FAULT_REAL(_type, _name, _params, _args) \
	static inline _type krdma_real_##_name _params \
	{                                              \
		return _name _args;                    \
	}

KRDMA_FAULT_REAL(struct workqueue_struct *, alloc_workqueue,
		 (const char *name, unsigned int flags, int max), ("%s", flags, max, name))
KRDMA_FAULT_REAL(void *, kmem_cache_alloc, (struct kmem_cache *cache, gfp_t gfp), (cache, gfp))
KRDMA_FAULT_REAL(void *, kmalloc, (size_t size, gfp_t gfp), (size, gfp))
KRDMA_FAULT_REAL(void *, kzalloc, (size_t size, gfp_t gfp), (size, gfp))
KRDMA_FAULT_REAL(void *, kcalloc, (size_t n, size_t size, gfp_t gfp), (n, size, gfp))
KRDMA_FAULT_REAL(void *, kmemdup, (const void *from, size_t size, gfp_t gfp), (from, size, gfp))
KRDMA_FAULT_REAL(void *, kvzalloc, (size_t size, gfp_t gfp), (size, gfp))
KRDMA_FAULT_REAL(void *, kvcalloc, (size_t n, size_t size, gfp_t gfp), (n, size, gfp))
KRDMA_FAULT_REAL(void *, kvmalloc_array, (size_t n, size_t size, gfp_t gfp), (n, size, gfp))
KRDMA_FAULT_REAL(void *, memdup_user, (const void __user *from, size_t size), (from, size))
KRDMA_FAULT_REAL(unsigned long, get_zeroed_page, (gfp_t gfp), (gfp))
KRDMA_FAULT_REAL(struct ib_pd *, ib_alloc_pd, (struct ib_device *ib, unsigned int flags),
		 (ib, flags))
KRDMA_FAULT_REAL(struct rdma_cm_id *, rdma_create_id,
		 (struct net *net, rdma_cm_event_handler fn, void *context,
		  enum rdma_ucm_port_space ps, enum ib_qp_type type),
		 (net, fn, context, ps, type))

#undef alloc_workqueue
#undef kmem_cache_alloc
#undef kmalloc
#undef kzalloc
#undef kcalloc
#undef kmemdup
#undef kvzalloc
#undef kvcalloc
#undef kvmalloc_array
#undef memdup_user
#undef get_zeroed_page
#undef ib_alloc_pd
#undef rdma_create_id

#define KRDMA_FAULT_OR_REAL(_call, _value, ...) \
	(krdma_fault(_call) ? (_value) : krdma_real_##_call(__VA_ARGS__))

#define alloc_workqueue(...)  KRDMA_FAULT_OR_REAL(alloc_workqueue, NULL, __VA_ARGS__)
#define kmem_cache_alloc(...) KRDMA_FAULT_OR_REAL(kmem_cache_alloc, NULL, __VA_ARGS__)
#define kmalloc(...)          KRDMA_FAULT_OR_REAL(kmalloc, NULL, __VA_ARGS__)
#define kzalloc(...)          KRDMA_FAULT_OR_REAL(kzalloc, NULL, __VA_ARGS__)
#define kcalloc(...)          KRDMA_FAULT_OR_REAL(kcalloc, NULL, __VA_ARGS__)
#define kmemdup(...)          KRDMA_FAULT_OR_REAL(kmemdup, NULL, __VA_ARGS__)
#define kvzalloc(...)         KRDMA_FAULT_OR_REAL(kvzalloc, NULL, __VA_ARGS__)
#define kvcalloc(...)         KRDMA_FAULT_OR_REAL(kvcalloc, NULL, __VA_ARGS__)
#define kvmalloc_array(...)   KRDMA_FAULT_OR_REAL(kvmalloc_array, NULL, __VA_ARGS__)
#define get_zeroed_page(...) KRDMA_FAULT_OR_REAL(get_zeroed_page, 0, __VA_ARGS__)
#define memdup_user(...)      KRDMA_FAULT_OR_REAL(memdup_user, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define ib_alloc_pd(...)      KRDMA_FAULT_OR_REAL(ib_alloc_pd, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define rdma_create_id(...)   KRDMA_FAULT_OR_REAL(rdma_create_id, ERR_PTR(-ENOMEM), __VA_ARGS__)

#define KRDMA_FAULT_OR(_call, _value, ...) (krdma_fault(_call) ? (_value) : _call(__VA_ARGS__))

/* Verbs. Software devices map nothing that would have to be unmapped. */
#define ib_register_client(...)       KRDMA_FAULT_OR(ib_register_client, -ENOMEM, __VA_ARGS__)
#define ib_query_port(...) KRDMA_FAULT_OR(ib_query_port, -EIO, __VA_ARGS__)
#define ib_alloc_cq(...)              KRDMA_FAULT_OR(ib_alloc_cq, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define ib_alloc_mr(...)              KRDMA_FAULT_OR(ib_alloc_mr, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define ib_map_mr_sg(...)             KRDMA_FAULT_OR(ib_map_mr_sg, -ENOMEM, __VA_ARGS__)
#define ib_dma_map_sgtable_attrs(...) KRDMA_FAULT_OR(ib_dma_map_sgtable_attrs, -ENOMEM, __VA_ARGS__)
#define ib_dma_mapping_error(...)     KRDMA_FAULT_OR(ib_dma_mapping_error, -ENOMEM, __VA_ARGS__)
#define ib_post_recv(...)             KRDMA_FAULT_OR(ib_post_recv, -ENOMEM, __VA_ARGS__)
#define ib_post_send(_qp, _wr, _bad)                                   \
	(krdma_fault(ib_post_send) ? krdma_fault_post(_qp, _wr, _bad) : \
				     ib_post_send(_qp, _wr, _bad))

/* rdma_cm. */
#define rdma_create_qp(...)     KRDMA_FAULT_OR(rdma_create_qp, -ENOMEM, __VA_ARGS__)
#define rdma_set_afonly(...) KRDMA_FAULT_OR(rdma_set_afonly, -ENOMEM, __VA_ARGS__)
#define rdma_bind_addr(...)     KRDMA_FAULT_OR(rdma_bind_addr, -ENOMEM, __VA_ARGS__)
#define rdma_listen(...)        KRDMA_FAULT_OR(rdma_listen, -ENOMEM, __VA_ARGS__)
#define rdma_resolve_addr(...)  KRDMA_FAULT_OR(rdma_resolve_addr, -ENOMEM, __VA_ARGS__)
#define rdma_resolve_route(...) KRDMA_FAULT_OR(rdma_resolve_route, -ENOMEM, __VA_ARGS__)
#define rdma_connect(...)       KRDMA_FAULT_OR(rdma_connect, -ENOMEM, __VA_ARGS__)
#define rdma_accept(...)        KRDMA_FAULT_OR(rdma_accept, -ENOMEM, __VA_ARGS__)

/* Memory, files, ids. What may allocate nothing, 0, has a place in its xarray already. */
#define pin_user_pages(...)      KRDMA_FAULT_OR(pin_user_pages, -ENOMEM, __VA_ARGS__)
#define pin_user_pages_fast(...) KRDMA_FAULT_OR(pin_user_pages_fast, -ENOMEM, __VA_ARGS__)
#define shmem_read_mapping_page_gfp(...) \
	KRDMA_FAULT_OR(shmem_read_mapping_page_gfp, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define memfd_pin_folios(...)   KRDMA_FAULT_OR(memfd_pin_folios, -ENOMEM, __VA_ARGS__)
#define pagecache_get_page(...) KRDMA_FAULT_OR(pagecache_get_page, NULL, __VA_ARGS__)
#define read_mapping_page(...)  KRDMA_FAULT_OR(read_mapping_page, ERR_PTR(-EIO), __VA_ARGS__)
#define sg_alloc_table_from_pages_segment(...) \
	KRDMA_FAULT_OR(sg_alloc_table_from_pages_segment, -ENOMEM, __VA_ARGS__)
#define anon_inode_getfile(...)  KRDMA_FAULT_OR(anon_inode_getfile, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define get_unused_fd_flags(...) KRDMA_FAULT_OR(get_unused_fd_flags, -EMFILE, __VA_ARGS__)
#define misc_register(...)       KRDMA_FAULT_OR(misc_register, -ENOMEM, __VA_ARGS__)
#define eventfd_ctx_fdget(...) KRDMA_FAULT_OR(eventfd_ctx_fdget, ERR_PTR(-ENOMEM), __VA_ARGS__)
#define io_uring_cmd_import_fixed(...) \
	KRDMA_FAULT_OR(io_uring_cmd_import_fixed, -ENOMEM, __VA_ARGS__)
#define xa_reserve_bh(...) KRDMA_FAULT_OR(xa_reserve_bh, -ENOMEM, __VA_ARGS__)
#define xa_alloc(...)            KRDMA_FAULT_OR(xa_alloc, -ENOMEM, __VA_ARGS__)
#define xa_store_bh(...)         KRDMA_FAULT_OR(xa_store_bh, XA_ERROR(-ENOMEM), __VA_ARGS__)
#define xa_store(_xa, _index, _entry, _gfp) \
	((_gfp) && krdma_fault(xa_store) ? XA_ERROR(-ENOMEM) : xa_store(_xa, _index, _entry, _gfp))

#endif /* CONFIG_FAULT_INJECTION_DEBUG_FS */

#endif /* KRDMA_FAULT_POINTS_H */
