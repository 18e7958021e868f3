// SPDX-License-Identifier: GPL-2.0
/*
 * A disk in the memory of another host: a read is a READ, a write is a WRITE, and no processor of
 * that host has a part in it.
 *
 * A request is done when its bytes are in the memory, which has no cache to flush; and memory is
 * volatile, as the peer's is. Durable memory has a cache: the caches of the peer's processors
 * (flush.c). While its session resumes, requests (queue.c) wait in krdma_mover, with their
 * deadlines. When the session has ended, or the export, all requests fail, as of a disk that was
 * pulled out: the memory of an export that comes back under the same name may be another one.
 */
#include <linux/async.h>
#include <linux/idr.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/krdma_mover.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "blk/blk.h"
#include "blk/compat.h"

#define KRDMA_DISK_DEPTH     128
#define KRDMA_DISK_QUEUES    8
#define KRDMA_DISK_TIMEOUT_S 30
#define KRDMA_DISK_BYTES_MAX SZ_1M

/* Of a path. */
struct krdma_disk_addrs {
	struct sockaddr_storage dst;
	struct sockaddr_storage src;
};

static DEFINE_MUTEX(krdma_disks_lock);
static LIST_HEAD(krdma_disks);
static DEFINE_IDA(krdma_disk_ids);

/* Context: disk->open_mutex held. Return: 0 or -ENXIO */
static int krdma_disk_opened(KRDMA_BLK_OPENED *opened, KRDMA_BLK_MODE mode)
{
	struct krdma_disk *kd = krdma_blk_opened_disk(opened)->private_data;

	return READ_ONCE(kd->going) ? -ENXIO : 0;
}

static const struct block_device_operations krdma_disk_fops = {
	.owner = THIS_MODULE,
	.open = krdma_disk_opened,
};

/* ---- attach ---- */

/* The region has ended, or its session is without a connection, or not any more. */
static void krdma_disk_event(void *priv, enum krdma_event event)
{
	struct krdma_disk *kd = priv;

	if (event == KRDMA_EVENT_RESUMING || event == KRDMA_EVENT_RESUMED) {
		WRITE_ONCE(kd->resuming, event == KRDMA_EVENT_RESUMING);
		return;
	}
	mutex_lock(&kd->lock);
	WRITE_ONCE(kd->happened, event);
	if (kd->added) {
		pr_info("krdma_blk: %s: %s of %pISpc is %s\n", kd->disk->disk_name, kd->param.name,
			&kd->dst, event == KRDMA_EVENT_REVOKED ? "revoked" : "lost");
		krdma_blk_mark_dead(kd->disk);
	}
	mutex_unlock(&kd->lock);
}

static void krdma_disk_keeps(struct work_struct *work)
{
	struct krdma_disk *kd = container_of(work, struct krdma_disk, keeps);

	if (!READ_ONCE(kd->happened))
		krdma_disk_event(kd, KRDMA_EVENT_LOST);
}

/* Return: 0 or -EINVAL */
static int krdma_disk_addr(const struct krdma_sockaddr *in, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;

	switch (in->family) {
	case AF_INET:
		if (in->scope_id || memchr_inv(in->addr + 4, 0, sizeof(in->addr) - 4))
			return -EINVAL;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(in->port);
		memcpy(&v4->sin_addr, in->addr, sizeof(v4->sin_addr));
		return 0;
	case AF_INET6:
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(in->port);
		v6->sin6_scope_id = in->scope_id;
		memcpy(&v6->sin6_addr, in->addr, sizeof(v6->sin6_addr));
		return 0;
	}
	return -EINVAL;
}

/* A path from @src, or from any address. Return: 0 or -EINVAL */
static int krdma_disk_path(struct krdma_disk_addrs *addrs, struct krdma_path_param *path,
			   const struct krdma_sockaddr *dst, const struct krdma_sockaddr *src)
{
	int rc = krdma_disk_addr(dst, &addrs->dst);

	path->dst = &addrs->dst;
	if (rc || !memchr_inv(src, 0, sizeof(*src)))
		return rc;
	path->src = &addrs->src;
	return krdma_disk_addr(src, &addrs->src);
}

/* Return: the session, or an ERR_PTR */
static struct krdma_session_handle *krdma_disk_connect(struct krdma_disk *kd)
{
	const struct krdma_blk_attach *param = &kd->param;
	struct krdma_path_param path[KRDMA_PATHS_MAX] = {};
	struct krdma_connect_param connect = {
		/* An abort ends a session that does not resume: no other disk may share it. */
		.flags = param->flags & KRDMA_BLK_FAIL_FAST ?
				 KRDMA_CONNECT_FAIL_FAST | KRDMA_CONNECT_PRIVATE :
				 0,
		.resume_s = param->resume_s,
		.keepalive_s = param->keepalive_s,
		.policy = param->policy,
		.npaths = param->npaths,
		.paths = path + 1,
	};
	struct krdma_session_handle *session = ERR_PTR(-ENOMEM);
	struct krdma_disk_addrs *addrs = kcalloc(KRDMA_PATHS_MAX, sizeof(*addrs), GFP_KERNEL);
	u32 i;
	int rc;

	if (!addrs)
		return session;
	rc = krdma_disk_path(&addrs[0], &path[0], &param->dst, &param->src);
	for (i = 0; !rc && i < param->npaths; i++)
		rc = krdma_disk_path(&addrs[i + 1], &path[i + 1], &param->paths[i].dst,
				     &param->paths[i].src);
	kd->dst = addrs[0].dst;
	connect.dst = path[0].dst;
	connect.src = path[0].src;
	session = rc ? ERR_PTR(rc) : krdma_connect(kd->client, &connect);
	kfree(addrs);
	return session;
}

/* Values, and their defaults. Return: 0 or -EINVAL */
static int krdma_disk_check(struct krdma_blk_attach *cmd)
{
	cmd->block_size = cmd->block_size ?: SECTOR_SIZE;
	cmd->queues = cmd->queues ?: min_t(u32, num_online_cpus(), KRDMA_DISK_QUEUES);
	cmd->depth = cmd->depth ?: KRDMA_DISK_DEPTH;
	cmd->timeout_s = cmd->timeout_s ?: KRDMA_DISK_TIMEOUT_S;
	if (cmd->block_size < SECTOR_SIZE || cmd->block_size > PAGE_SIZE ||
	    !is_power_of_2(cmd->block_size) || cmd->queues > KRDMA_BLK_QUEUES_MAX ||
	    cmd->poll_queues > KRDMA_BLK_QUEUES_MAX || cmd->depth > KRDMA_BLK_DEPTH_MAX ||
	    cmd->timeout_s > KRDMA_BLK_TIMEOUT_MAX ||
	    strnlen(cmd->name, sizeof(cmd->name)) == sizeof(cmd->name) ||
	    cmd->npaths > ARRAY_SIZE(cmd->paths) ||
	    memchr_inv(cmd->paths + cmd->npaths, 0,
		       (ARRAY_SIZE(cmd->paths) - cmd->npaths) * sizeof(cmd->paths[0])))
		return -EINVAL;
	if (cmd->flags & KRDMA_BLK_READ_ONLY)
		cmd->flags |= KRDMA_BLK_SHARED;
	if ((cmd->flags & KRDMA_BLK_TAKEOVER) && (cmd->flags & KRDMA_BLK_SHARED))
		return -EINVAL;
	return 0;
}

/* How its export is opened. */
static u32 krdma_disk_open_flags(const struct krdma_blk_attach *param)
{
	return (param->flags & KRDMA_BLK_NOT_HELD ? 0 : KRDMA_OPEN_HELD) |
	       (param->flags & KRDMA_BLK_SHARED ? 0 : KRDMA_OPEN_EXCLUSIVE) |
	       (param->flags & KRDMA_BLK_TAKEOVER ? KRDMA_OPEN_TAKEOVER : 0);
}

/* Return: 0 or a negative errno; krdma_disk_free() cleans up in either case */
static int krdma_disk_open(struct krdma_disk *kd, struct net *net)
{
	struct krdma_blk_attach *param = &kd->param;
	struct krdma_open_param open = {
		.name = param->name,
		.rights = KRDMA_RIGHT_READ |
			  (param->flags & KRDMA_BLK_READ_ONLY ? 0 : KRDMA_RIGHT_WRITE),
		.flags = krdma_disk_open_flags(param),
		.event = krdma_disk_event,
		.priv = kd,
	};
	int rc;

	param->dst.port = param->dst.port ?: KRDMA_DEFAULT_PORT;
	kd->client = krdma_client_create(net);
	if (IS_ERR(kd->client))
		return PTR_ERR(kd->client);
	kd->session = krdma_disk_connect(kd);
	if (IS_ERR(kd->session))
		return PTR_ERR(kd->session);
	kd->region = krdma_open(kd->session, &open);
	if (kd->region == ERR_PTR(-EACCES)) {
		/* Of an export that can't be written. */
		open.rights = KRDMA_RIGHT_READ;
		kd->region = krdma_open(kd->session, &open);
	}
	if (IS_ERR(kd->region))
		return PTR_ERR(kd->region);
	rc = krdma_region_limits(kd->region, &kd->limits);
	if (rc)
		return rc;
	if (!(kd->limits.rights & KRDMA_RIGHT_READ))
		return -EACCES;
	/* The session may be without a connection for so long, and then the peer has its time. */
	kd->timeout = kd->limits.resume_s == KRDMA_RESUME_ALWAYS ?
			      KTIME_MAX :
			      ktime_set(param->timeout_s + kd->limits.resume_s, 0);
	kd->fast_timeout = ktime_set(param->timeout_s, 0);
	kd->param.flags &= ~KRDMA_BLK_TAKEOVER;
	if (!(kd->limits.rights & KRDMA_RIGHT_WRITE))
		kd->param.flags |= KRDMA_BLK_READ_ONLY;
	if (kd->limits.length < param->block_size)
		return -ENOSPC;
	/* A request of one block is not cut. */
	if (kd->limits.length > LLONG_MAX || kd->limits.segment_size < param->block_size)
		return -EOPNOTSUPP;
	return 0;
}

static void krdma_disk_insert(struct krdma_disk *kd)
{
	struct krdma_disk *other;

	mutex_lock(&krdma_disks_lock);
	list_for_each_entry(other, &krdma_disks, node)
		if (other->index > kd->index)
			break;
	list_add_tail(&kd->node, &other->node);
	mutex_unlock(&krdma_disks_lock);
}

static void krdma_disk_delete(struct krdma_disk *kd)
{
	mutex_lock(&krdma_disks_lock);
	list_del(&kd->node);
	mutex_unlock(&krdma_disks_lock);
}

static int krdma_disk_add(struct krdma_disk *kd)
{
	const struct krdma_blk_attach *param = &kd->param;
	struct queue_limits limits = {
		.logical_block_size = param->block_size,
		.max_hw_sectors = KRDMA_DISK_BYTES_MAX >> SECTOR_SHIFT,
		.max_segments = KRDMA_DISK_BVECS,
		.max_segment_size = UINT_MAX,
		/* A request has one key of the peer's. */
		.chunk_sectors = kd->limits.segment_size >> SECTOR_SHIFT,
		/* Registrations have no other alignment. */
		.dma_alignment = 3,
	};
	u64 bytes = round_down(kd->limits.length, param->block_size);
	struct gendisk *disk;
	int rc;

	if ((kd->limits.rights & KRDMA_RIGHT_DURABLE) && !(param->flags & KRDMA_BLK_READ_ONLY)) {
		kd->flusher = krdma_flusher_new(kd->region, bytes, kd->timeout,
						param->flags & KRDMA_BLK_SHARED);
		if (!kd->flusher)
			return -ENOMEM;
	}
	rc = krdma_disk_queues_alloc(kd);
	if (rc)
		return rc;
	disk = krdma_blk_alloc(&kd->tags, &limits, kd->flusher, kd);
	if (IS_ERR(disk)) {
		blk_mq_free_tag_set(&kd->tags);
		return PTR_ERR(disk);
	}
	kd->disk = disk;
	disk->fops = &krdma_disk_fops;
	disk->private_data = kd;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "krdmab%u", kd->index);
	set_capacity(disk, bytes >> SECTOR_SHIFT);
	set_disk_ro(disk, param->flags & KRDMA_BLK_READ_ONLY);
	/* From here on somebody can end its requests: it reads a partition table. */
	krdma_disk_insert(kd);
	rc = add_disk(disk);
	if (rc)
		krdma_disk_delete(kd);
	return rc;
}

/* All that krdma_disk_attach() made; nobody has a request under way. */
static void krdma_disk_free(struct krdma_disk *kd)
{
	/*
	 * ORDER: no event comes any more, and a submitter whose request another processor has
	 * ended is through with ->queues (percpu_ref_kill() waits for RCU); then the disk may go.
	 */
	krdma_close(kd->region);
	krdma_disconnect(kd->session);
	krdma_client_destroy(kd->client);
	/* ORDER: no request ends any more. */
	cancel_work_sync(&kd->keeps);
	cancel_work_sync(&kd->reaps);
	if (kd->disk) {
		put_disk(kd->disk);
		blk_mq_free_tag_set(&kd->tags);
	}
	krdma_flusher_free(kd->flusher);
	ida_free(&krdma_disk_ids, kd->index);
	kfree(kd);
}

/* All requests end, those under way and later ones. */
static void krdma_disk_kill(struct krdma_disk *kd)
{
	lockdep_assert_held(&krdma_disks_lock);
	WRITE_ONCE(kd->dead, true);
	if (kd->flusher)
		krdma_flusher_kill(kd->flusher);
	/* ORDER: what was let pass before it was dead is submitted, then cancelled. */
	krdma_disk_queues_flush(kd);
	krdma_region_abort(kd->region);
	/* Polled requests that had ended before wait for their submitters. */
	queue_work(krdma_blk_wq, &kd->reaps);
}

/* It is ->going by the caller. */
static void krdma_disk_remove(struct krdma_disk *kd)
{
	/* ORDER: its file system, if any, waits for nothing any more. */
	if (READ_ONCE(kd->dead))
		krdma_blk_mark_dead(kd->disk);
	del_gendisk(kd->disk);
	krdma_disk_delete(kd);
	krdma_disk_free(kd);
}

/**
 * krdma_disk_attach - make a disk of a peer's export
 * @net: network namespace of the session
 * @cmd: which, and how
 * @number: the disk's number is written there, or it is removed: nobody would learn it
 *
 * Context: process.
 * Return: 0 or a negative errno
 */
int krdma_disk_attach(struct net *net, struct krdma_blk_attach *cmd, __u32 __user *number)
{
	struct krdma_disk *kd;
	int rc;

	rc = krdma_disk_check(cmd);
	if (rc)
		return rc;
	kd = kzalloc(sizeof(*kd), GFP_KERNEL);
	if (!kd)
		return -ENOMEM;
	rc = ida_alloc(&krdma_disk_ids, GFP_KERNEL);
	if (rc < 0) {
		kfree(kd);
		return rc;
	}
	kd->index = rc;
	kd->param = *cmd;
	mutex_init(&kd->lock);
	INIT_WORK(&kd->keeps, krdma_disk_keeps);
	INIT_WORK(&kd->reaps, krdma_disk_reaps);
	rc = krdma_disk_open(kd, net);
	if (!rc)
		rc = krdma_disk_add(kd);
	if (rc) {
		krdma_disk_free(kd);
		return rc;
	}
	/* ORDER: the number is another disk's as soon as somebody can detach this one. */
	if (put_user(kd->index, number))
		rc = -EFAULT;
	mutex_lock(&kd->lock);
	kd->added = true;
	/* While its partitions were read. */
	if (kd->happened)
		rc = kd->happened == KRDMA_EVENT_REVOKED ? -ESTALE : -ENOTCONN;
	mutex_unlock(&kd->lock);
	mutex_lock(&krdma_disks_lock);
	if (rc)
		krdma_disk_kill(kd);
	else if (kd->dead)
		rc = -ECANCELED; /* detached by force meanwhile: krdma_disk_claim() */
	WRITE_ONCE(kd->going, rc);
	kd->attached = true;
	mutex_unlock(&krdma_disks_lock);
	if (rc)
		krdma_disk_remove(kd);
	return rc;
}

/* ---- detach ---- */

/* Nobody else detaches it, and nobody opens it any more. Return: 0 or -EBUSY */
static int krdma_disk_claim(struct krdma_disk *kd, bool force)
{
	lockdep_assert_held(&krdma_disks_lock);
	if (force)
		krdma_disk_kill(kd);
	if (kd->going || !kd->attached || kd->resizing)
		return -EBUSY;
	/* The holder of the mutex uses the disk, and may wait for the peer. */
	if (!force && !mutex_trylock(&kd->disk->open_mutex))
		return -EBUSY;
	WRITE_ONCE(kd->going, force || !disk_openers(kd->disk));
	if (!force)
		mutex_unlock(&kd->disk->open_mutex);
	return kd->going ? 0 : -EBUSY;
}

/**
 * krdma_disk_detach - remove a disk
 * @disk: its number
 * @force: although it is open; its requests end in any case
 *
 * Context: process.
 * Return: 0, -ENOENT; or -EBUSY, also if it is being attached, detached or resized
 */
int krdma_disk_detach(u32 disk, bool force)
{
	struct krdma_disk *kd;
	int rc = -ENOENT;

	mutex_lock(&krdma_disks_lock);
	list_for_each_entry(kd, &krdma_disks, node) {
		if (kd->index != disk)
			continue;
		rc = krdma_disk_claim(kd, force);
		break;
	}
	mutex_unlock(&krdma_disks_lock);
	if (!rc)
		krdma_disk_remove(kd);
	return rc;
}

/* Return: a disk that is to be removed; NULL if none is left */
static struct krdma_disk *krdma_disk_claim_any(void)
{
	struct krdma_disk *kd, *found = NULL;

	mutex_lock(&krdma_disks_lock);
	list_for_each_entry(kd, &krdma_disks, node) {
		if (kd->going || krdma_disk_claim(kd, true))
			continue;
		found = kd;
		break;
	}
	mutex_unlock(&krdma_disks_lock);
	return found;
}

static void krdma_disk_remove_async(void *data, async_cookie_t cookie)
{
	krdma_disk_remove(data);
}

/**
 * krdma_disks_detach - remove all disks, at unload
 *
 * At the same time: each waits some seconds for a peer that does not reply.
 *
 * Context: process; none is open, and nobody attaches or detaches one any more.
 */
void krdma_disks_detach(void)
{
	ASYNC_DOMAIN_EXCLUSIVE(removals);
	struct krdma_disk *kd;

	while ((kd = krdma_disk_claim_any()))
		async_schedule_domain(krdma_disk_remove_async, kd, &removals);
	async_synchronize_full_domain(&removals);
	ida_destroy(&krdma_disk_ids);
}

/* ---- resize ---- */

/* Its export has grown, and may have now. Return: 0 or a negative errno */
static int krdma_disk_grow(struct krdma_disk *kd)
{
	struct krdma_limits limits;
	unsigned int noio;
	u64 bytes;
	int rc;

	rc = krdma_grow(kd->region, 0) ?: krdma_region_limits(kd->region, &limits);
	if (rc)
		return rc;
	if (limits.length > LLONG_MAX)
		return -EOPNOTSUPP;
	bytes = round_down(limits.length, kd->param.block_size);
	mutex_lock(&kd->lock);
	if (kd->happened) {
		rc = kd->happened == KRDMA_EVENT_REVOKED ? -ESTALE : -ENOTCONN;
	} else if (!READ_ONCE(kd->dead)) {
		/* An event waits for the mutex, and requests may wait for what the event does. */
		noio = memalloc_noio_save();
		set_capacity_and_notify(kd->disk, bytes >> SECTOR_SHIFT);
		memalloc_noio_restore(noio);
	}
	mutex_unlock(&kd->lock);
	if (rc)
		return rc;
	mutex_lock(&krdma_disks_lock);
	kd->limits.length = limits.length;
	mutex_unlock(&krdma_disks_lock);
	return 0;
}

/**
 * krdma_disk_resize - have a disk as large as its export
 * @disk: its number
 * @bytes: out: its size
 *
 * Context: process.
 * Return: 0, -ENOENT, -EBUSY, -ECANCELED if it was detached by force meanwhile, or as krdma_grow()
 */
int krdma_disk_resize(u32 disk, u64 *bytes)
{
	struct krdma_disk *kd, *found = NULL;
	int rc = -ENOENT;
	bool gone;

	mutex_lock(&krdma_disks_lock);
	list_for_each_entry(kd, &krdma_disks, node) {
		if (kd->index != disk)
			continue;
		rc = -EBUSY;
		if (kd->attached && !kd->going && !kd->resizing)
			found = kd;
		break;
	}
	if (found)
		found->resizing = true;
	mutex_unlock(&krdma_disks_lock);
	if (!found)
		return rc;
	/* The bits of a write cache are of the size that it has; devdax does not grow either. */
	rc = found->flusher ? -EOPNOTSUPP : krdma_disk_grow(found);
	mutex_lock(&krdma_disks_lock);
	found->resizing = false;
	*bytes = get_capacity(found->disk) << SECTOR_SHIFT;
	/* Detached by force meanwhile: krdma_disk_claim(). */
	gone = found->dead;
	if (gone)
		WRITE_ONCE(found->going, true);
	mutex_unlock(&krdma_disks_lock);
	if (!gone)
		return rc;
	krdma_disk_remove(found);
	return -ECANCELED;
}

/* ---- list ---- */

static enum krdma_blk_state krdma_disk_state(const struct krdma_disk *kd)
{
	enum krdma_event happened = READ_ONCE(kd->happened);

	if (kd->going)
		return KRDMA_BLK_DETACHING;
	if (!kd->attached)
		return KRDMA_BLK_ATTACHING;
	if (happened)
		return happened == KRDMA_EVENT_REVOKED ? KRDMA_BLK_REVOKED : KRDMA_BLK_LOST;
	return READ_ONCE(kd->resuming) ? KRDMA_BLK_RESUMING : KRDMA_BLK_LIVE;
}

/**
 * krdma_disk_next - what is to be said of a disk
 * @first: the disk with the smallest number that is not below
 * @info: out
 *
 * Context: process.
 * Return: the number behind it, or 0 if there is none
 */
u32 krdma_disk_next(u32 first, struct krdma_blk_info *info)
{
	struct krdma_disk *kd;
	u32 next = 0;

	mutex_lock(&krdma_disks_lock);
	list_for_each_entry(kd, &krdma_disks, node) {
		if (kd->index < first)
			continue;
		*info = (struct krdma_blk_info){
			.disk = kd->index,
			.state = krdma_disk_state(kd),
			.flags = kd->param.flags,
			.openers = disk_openers(kd->disk),
			.bytes = round_down(kd->limits.length, kd->param.block_size),
			.block_size = kd->param.block_size,
			.queues = kd->param.queues,
			.depth = kd->param.depth,
			.poll_queues = kd->param.poll_queues,
			.dst = kd->param.dst,
			.timeout_s = kd->param.timeout_s,
			.resume_s = kd->param.resume_s,
			.keepalive_s = kd->param.keepalive_s,
			.policy = kd->param.policy,
			.npaths = kd->param.npaths,
		};
		memcpy(info->name, kd->param.name, sizeof(info->name));
		memcpy(info->paths, kd->param.paths, sizeof(info->paths));
		next = kd->index + 1;
		break;
	}
	mutex_unlock(&krdma_disks_lock);
	return next;
}
