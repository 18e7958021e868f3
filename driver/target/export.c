// SPDX-License-Identifier: GPL-2.0
/*
 * Exports: memory of this host under a name. What peers do with them is in service.c
 * and grant.c.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "event.h"
#include "target/grant.h"

DEFINE_MUTEX(krdma_exports_lock); /* list of exports and the grants of each */
LIST_HEAD(krdma_exports);
static u64 krdma_export_serial;

static void krdma_export_release(struct kref *ref)
{
	struct krdma_export *export = container_of(ref, struct krdma_export, ref);

	if (export->mem)
		krdma_mem_put(export->mem);
	if (export->write_held)
		mapping_unmap_writable(export->file->f_mapping);
	if (export->file) {
		krdma_backing_end(export);
		fput(export->file);
	}
	mem_cgroup_put(export->memcg);
	krdma_account_free(export->acct);
	krdma_message_queue_put(export->message_queue);
	atomic_dec(&export->user->exports);
	krdma_user_put(export->user);
	put_net(export->net);
	kvfree(export->pages);
	if (export->end) {
		export->end->lost = export->lost;
		/* The exporter may free the pages now. */
		complete(&export->end->done);
	}
	kfree(export);
}

/**
 * krdma_export_event - tell of an export
 * @export: export
 * @type: enum krdma_event_type
 * @sess: session that it is about, or NULL
 * @cause: a phrase, or NULL
 *
 * Context: process, krdma_exports_lock held.
 */
void krdma_export_event(const struct krdma_export *export, u32 type,
			const struct krdma_session *sess, const char *cause)
{
	const struct krdma_event_scope scope = { .net = export->net, .uid = export->user->uid };
	struct krdma_monitor_event event = { .type = type, .uid = __kuid_val(export->user->uid) };

	if (sess) {
		event.session = sess->serial;
		krdma_addr_to_user(&sess->dst, &event.peer);
	}
	strscpy(event.name, export->name, sizeof(event.name));
	strscpy(event.cause, cause ?: "", sizeof(event.cause));
	krdma_event_post(&event, &scope);
}

/**
 * krdma_export_put - let go of an export
 * @export: export; the last reference unpins
 *
 * Context: process.
 */
void krdma_export_put(struct krdma_export *export)
{
	kref_put(&export->ref, krdma_export_release);
}

/* Can a peer ever have a segment of it, with @length? */
static int krdma_export_fits(struct krdma_payer *payer, const struct krdma_export *export,
			     u64 length, struct krdma_error *error)
{
	u64 segment = krdma_pages(0, min(length, krdma_devices_segment()));

	/* Of messages alone. */
	if (!(export->rights & ~KRDMA_RIGHT_MESSAGE))
		return 0;
	if (segment > export->acct->limit)
		return krdma_explain(
			error, -ENOMEM,
			"RLIMIT_MEMLOCK is %llu KiB, each segment of '%s' that a peer uses takes %llu KiB",
			export->acct->limit << (PAGE_SHIFT - 10), export->name,
			segment << (PAGE_SHIFT - 10));
	if (segment > payer->limit)
		return krdma_explain(
			error, -EDQUOT,
			"an open file may keep %llu KiB pinned, each segment of '%s' that a peer uses takes %llu KiB",
			payer->limit << (PAGE_SHIFT - 10), export->name,
			segment << (PAGE_SHIFT - 10));
	return 0;
}

/* Can what peers write be made durable? */
static int krdma_export_durable(const struct krdma_export *export, struct krdma_error *error)
{
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PMEM_API))
		return krdma_explain(error, -EOPNOTSUPP,
				     "this architecture can't write caches back to memory");
	if (!export->mem || !export->mem->devdax)
		return krdma_explain(error, -EOPNOTSUPP,
				     "the memory of '%s' is not persistent: only devdax is",
				     export->name);
	return 0;
}

static int krdma_export_memory(struct krdma_payer *payer, struct krdma_export *export,
			       const struct krdma_ioc_export *cmd, struct page *const *pages,
			       struct krdma_error *error)
{
	bool writable = krdma_rights_change(cmd->rights);
	u64 n = krdma_pages(0, cmd->length);
	struct krdma_account *acct;
	struct krdma_mem *mem;
	int rc;

	if (pages) {
		/* The table has no more entries than the host has pages. */
		if (n > totalram_pages())
			return -EINVAL;
		export->pages = krdma_inject(
			kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN), NULL);
		if (!export->pages)
			return -ENOMEM;
		memcpy(export->pages, pages, n * sizeof(*pages));
		return 0;
	}

	if (!(cmd->flags & KRDMA_EXPORT_FD)) {
		mem = krdma_mem_pin(payer, cmd->addr, cmd->length, writable, error);
		if (IS_ERR(mem))
			return PTR_ERR(mem);
		export->mem = mem;
		return 0;
	}

	export->file = fget(cmd->fd);
	if (!export->file)
		return krdma_explain(error, -EBADF, "%d is not an open file", cmd->fd);
	export->pgoff = cmd->addr >> PAGE_SHIFT;
	acct = krdma_account_new(payer);
	if (IS_ERR(acct))
		return PTR_ERR(acct);
	export->acct = acct;
	export->memcg = get_mem_cgroup_from_mm(current->mm);
	if (writable && mapping_map_writable(export->file->f_mapping))
		return krdma_explain(error, -EACCES, "the file is sealed against writing");
	export->write_held = writable;
	rc = krdma_backing_check(export, cmd->addr, cmd->length, writable, error);
	return rc ?: krdma_export_fits(payer, export, cmd->length, error);
}

/**
 * krdma_export_new - make an export, not published yet
 * @net: network namespace
 * @payer: of the user and the file that it is charged to
 * @cmd: what to export; flags are checked
 * @pages: of another module, instead of memory of the user; they are not pinned, and
 *	->end tells when they are free. Or NULL
 * @fn: of another module, called with each message, if there is the right to send them
 * @priv: for @fn
 * @error: explanation
 *
 * Context: process, of the user if memory is the user's.
 * Return: the export with a reference, or an ERR_PTR
 */
struct krdma_export *krdma_export_new(struct net *net, struct krdma_payer *payer,
				      const struct krdma_ioc_export *cmd, struct page *const *pages,
				      krdma_receive_fn fn, void *priv, struct krdma_error *error)
{
	struct krdma_export *export;
	int rc;

	if (!krdma_wire_name_ok(cmd->name, sizeof(cmd->name)))
		return ERR_PTR(krdma_explain(
			error, -EINVAL,
			"a name has 1 to 63 of the characters A-Z a-z 0-9 . _ - : + ="));
	if (!cmd->rights || cmd->rights & ~KRDMA_WIRE_RIGHTS)
		return ERR_PTR(krdma_explain(error, -EINVAL, "the rights %#x of '%s' make no sense",
					     cmd->rights, cmd->name));
	if (!cmd->length || offset_in_page(cmd->addr) ||
	    !krdma_range_ok(cmd->addr, cmd->length, U64_MAX))
		return ERR_PTR(krdma_explain(
			error, -EINVAL, "'%s' must begin at a page and have a length", cmd->name));

	export = krdma_inject(kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT), NULL);
	if (!export)
		return ERR_PTR(-ENOMEM);
	kref_init(&export->ref);
	INIT_LIST_HEAD(&export->node);
	INIT_LIST_HEAD(&export->grants);
	/* A line a minute, without a count of those that were left out. */
	ratelimit_state_init(&export->told, 60 * HZ, 1);
	ratelimit_set_flags(&export->told, RATELIMIT_MSG_ON_RELEASE);
	export->net = get_net(net);
	export->user = krdma_user_get(payer->user);
	export->rights = cmd->rights;
	export->flags = cmd->flags;
	export->length = cmd->length;
	export->max_segments = cmd->max_segments ?: KRDMA_EXPORT_SEGMENTS;
	strscpy(export->name, cmd->name, sizeof(export->name));
	/* A lookup by name walks all exports. */
	if (atomic_inc_return(&export->user->exports) > KRDMA_USER_EXPORTS &&
	    !krdma_user_is_root(export->user))
		rc = krdma_explain(error, -EDQUOT, "a user may have %u exports",
				   KRDMA_USER_EXPORTS);
	else
		rc = krdma_export_memory(payer, export, cmd, pages, error);
	if (!rc && (cmd->flags & KRDMA_EXPORT_DURABLE))
		rc = krdma_export_durable(export, error);
	if (!rc && (cmd->rights & KRDMA_RIGHT_MESSAGE)) {
		export->message_queue = krdma_message_queue_new(fn, priv);
		rc = export->message_queue ? 0 : -ENOMEM;
	}
	if (rc) {
		krdma_export_put(export);
		return ERR_PTR(rc);
	}
	return export;
}

/**
 * krdma_export_find - an export that has been published
 * @net: network namespace
 * @name: its name
 *
 * Context: process, krdma_exports_lock held.
 * Return: the export, without a reference; NULL if there is none
 */
struct krdma_export *krdma_export_find(struct net *net, const char *name)
{
	struct krdma_export *export;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(export, &krdma_exports, node)
		if (export->net == net && !strcmp(export->name, name))
			return export;
	return NULL;
}

/**
 * krdma_export_publish - let peers find an export
 * @export: export
 * @error: explanation
 *
 * Context: process.
 * Return: 0 or -EEXIST
 */
int krdma_export_publish(struct krdma_export *export, struct krdma_error *error)
{
	int rc = 0;

	mutex_lock(&krdma_exports_lock);
	if (krdma_export_find(export->net, export->name)) {
		rc = krdma_explain(error, -EEXIST, "'%s' is published already", export->name);
	} else {
		export->serial = ++krdma_export_serial;
		list_add_tail(&export->node, &krdma_exports);
		krdma_export_event(export, KRDMA_EVENT_EXPORT_ADDED, NULL, NULL);
	}
	mutex_unlock(&krdma_exports_lock);
	return rc;
}

/**
 * krdma_export_grow - let peers have more of the file of an export
 * @payer: of the user and the file that it is charged to
 * @export: export
 * @length: its bytes from now on, not less than so far
 * @error: explanation
 *
 * A peer that has it open learns of it when it asks (krdma_grant_grow()).
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP, -ERANGE, -EINVAL, or that a segment is more than the limits allow
 */
int krdma_export_grow(struct krdma_payer *payer, struct krdma_export *export, u64 length,
		      struct krdma_error *error)
{
	u64 first = export->pgoff;
	int rc;

	if (!export->file)
		return krdma_explain(error, -EOPNOTSUPP, "'%s' is not of a file: it can't grow",
				     export->name);
	if (length < READ_ONCE(export->length))
		return krdma_explain(error, -EINVAL, "'%s' has %llu bytes: it can't shrink",
				     export->name, READ_ONCE(export->length));
	rc = krdma_backing_has(export, first << PAGE_SHIFT, length, error) ?:
		     krdma_export_fits(payer, export, length, error);
	if (rc)
		return rc;
	mutex_lock(&krdma_exports_lock);
	/* Another call may have come first, with more. */
	if (length > export->length)
		WRITE_ONCE(export->length, length);
	mutex_unlock(&krdma_exports_lock);
	return 0;
}

/**
 * krdma_export_unpublish - take an export back
 * @export: export; grants of it are revoked, in the services of their sessions
 *
 * Context: process. The publisher's reference is put.
 */
void krdma_export_unpublish(struct krdma_export *export)
{
	struct krdma_grant *grant;

	mutex_lock(&krdma_exports_lock);
	WRITE_ONCE(export->dead, true);
	/* Its name may be another's, if it was never published. */
	if (!list_empty(&export->node))
		krdma_export_event(export, KRDMA_EVENT_EXPORT_ENDED, NULL, NULL);
	list_del_init(&export->node);
	list_for_each_entry(grant, &export->grants, export_node)
		krdma_grant_over(grant, "the export has ended");
	mutex_unlock(&krdma_exports_lock);
	/* A service may be waiting for room in this very export. */
	krdma_segments_wake();
	if (export->message_queue)
		krdma_message_queue_end(export->message_queue);
	krdma_export_put(export);
}
