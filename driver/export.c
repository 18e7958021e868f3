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

#include "ctx.h"

DEFINE_MUTEX(krdma_exports_lock); /* list of exports and the grants of each */
LIST_HEAD(krdma_exports);
static u64 krdma_export_serial;

static void krdma_export_release(struct kref *ref)
{
	struct krdma_exp *exp = container_of(ref, struct krdma_exp, ref);

	if (exp->mem)
		krdma_mem_put(exp->mem);
	if (exp->write_held)
		mapping_unmap_writable(exp->file->f_mapping);
	if (exp->file) {
		krdma_backing_end(exp);
		fput(exp->file);
	}
	mem_cgroup_put(exp->memcg);
	krdma_account_free(exp->acct);
	krdma_box_put(exp->box);
	atomic_dec(&exp->user->exports);
	krdma_user_put(exp->user);
	put_net(exp->net);
	kvfree(exp->pages);
	if (exp->end) {
		exp->end->lost = exp->lost;
		/* Its owner may free the pages now. */
		complete(&exp->end->done);
	}
	kfree(exp);
}

/**
 * krdma_export_put - let go of an export
 * @exp: export; the last reference unpins
 *
 * Context: process.
 */
void krdma_export_put(struct krdma_exp *exp)
{
	kref_put(&exp->ref, krdma_export_release);
}

static int krdma_export_pages(struct krdma_exp *exp, struct page *const *pages)
{
	u64 n = krdma_pages(0, exp->length);

	/* The table is no longer than that of the pages that the host has. */
	if (n > totalram_pages())
		return -EINVAL;
	exp->pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!exp->pages)
		return -ENOMEM;
	memcpy(exp->pages, pages, n * sizeof(*pages));
	return 0;
}

/* Can a peer ever have a segment of it? */
static int krdma_export_fits(struct krdma_ctx *ctx, const struct krdma_exp *exp,
			     struct krdma_why *why)
{
	u64 segment = krdma_pages(0, min(exp->length, krdma_devices_segment()));

	/* Of messages alone. */
	if (!(exp->rights & ~KRDMA_RIGHT_MESSAGE))
		return 0;
	if (segment > exp->acct->limit)
		return krdma_explain(
			why, -ENOMEM,
			"RLIMIT_MEMLOCK is %llu KiB, each segment of '%s' that a peer uses takes %llu KiB",
			exp->acct->limit << (PAGE_SHIFT - 10), exp->name,
			segment << (PAGE_SHIFT - 10));
	if (segment > ctx->pinned_limit)
		return krdma_explain(
			why, -EDQUOT,
			"an open file may keep %llu KiB pinned, each segment of '%s' that a peer uses takes %llu KiB",
			ctx->pinned_limit << (PAGE_SHIFT - 10), exp->name,
			segment << (PAGE_SHIFT - 10));
	return 0;
}

static int krdma_export_memory(struct krdma_ctx *ctx, struct krdma_exp *exp,
			       const struct krdma_ioc_export *cmd, struct page *const *pages,
			       struct krdma_why *why)
{
	bool writable = krdma_rights_change(cmd->rights);
	int rc;

	if (pages)
		return krdma_export_pages(exp, pages);

	if (!(cmd->flags & KRDMA_EXPORT_FD)) {
		exp->mem = krdma_mem_pin(ctx, cmd->addr, cmd->length, writable, why);
		if (IS_ERR(exp->mem)) {
			rc = PTR_ERR(exp->mem);
			exp->mem = NULL;
			return rc;
		}
		return 0;
	}

	exp->file = fget(cmd->fd);
	if (!exp->file)
		return krdma_explain(why, -EBADF, "%d is not an open file", cmd->fd);
	exp->pgoff = cmd->addr >> PAGE_SHIFT;
	exp->acct = krdma_account_new(ctx);
	if (IS_ERR(exp->acct)) {
		rc = PTR_ERR(exp->acct);
		exp->acct = NULL;
		return rc;
	}
	exp->memcg = get_mem_cgroup_from_mm(current->mm);
	if (writable) {
		rc = mapping_map_writable(exp->file->f_mapping);
		if (rc)
			return krdma_explain(why, -EACCES, "the file is sealed against writing");
		exp->write_held = true;
	}
	rc = krdma_backing_check(exp, cmd->addr, cmd->length, writable, why);
	return rc ?: krdma_export_fits(ctx, exp, why);
}

/**
 * krdma_export_new - make an export, not published yet
 * @ctx: open file
 * @cmd: what to export; flags are checked
 * @pages: of another module, instead of memory of the user; they are not pinned, and
 *	->end tells when they are free. Or NULL
 * @fn: of another module, called with each message, if there is the right to send them
 * @priv: for @fn
 * @why: explanation
 *
 * Context: process, of the user if memory is the user's.
 * Return: the export with a reference, or an ERR_PTR
 */
struct krdma_exp *krdma_export_new(struct krdma_ctx *ctx, const struct krdma_ioc_export *cmd,
				   struct page *const *pages, krdma_receive_fn fn, void *priv,
				   struct krdma_why *why)
{
	struct krdma_exp *exp;
	int rc;

	if (!krdma_proto_name_ok(cmd->name, sizeof(cmd->name)))
		return ERR_PTR(krdma_explain(
			why, -EINVAL,
			"a name has 1 to 63 of the characters A-Z a-z 0-9 . _ - : + ="));
	if (!cmd->rights || cmd->rights & ~KRDMA_WIRE_RIGHTS)
		return ERR_PTR(krdma_explain(why, -EINVAL, "the rights %#x of '%s' make no sense",
					     cmd->rights, cmd->name));
	if (!cmd->length || offset_in_page(cmd->addr) ||
	    !krdma_range_ok(cmd->addr, cmd->length, U64_MAX))
		return ERR_PTR(krdma_explain(
			why, -EINVAL, "'%s' must begin at a page and have a length", cmd->name));

	exp = kzalloc(sizeof(*exp), GFP_KERNEL_ACCOUNT);
	if (!exp)
		return ERR_PTR(-ENOMEM);
	kref_init(&exp->ref);
	INIT_LIST_HEAD(&exp->node);
	INIT_LIST_HEAD(&exp->grants);
	/* A line a minute, without a count of those that were left out. */
	ratelimit_state_init(&exp->told, 60 * HZ, 1);
	ratelimit_set_flags(&exp->told, RATELIMIT_MSG_ON_RELEASE);
	exp->net = get_net(ctx->net);
	exp->user = krdma_user_get(ctx->user);
	exp->rights = cmd->rights;
	exp->flags = cmd->flags;
	exp->length = cmd->length;
	exp->max_segments = cmd->max_segments ?: KRDMA_EXPORT_SEGMENTS;
	strscpy(exp->name, cmd->name, sizeof(exp->name));
	/* A lookup by name walks all exports. */
	if (atomic_inc_return(&exp->user->exports) > KRDMA_USER_EXPORTS &&
	    !krdma_user_is_root(exp->user))
		rc = krdma_explain(why, -EDQUOT, "a user may have %u exports", KRDMA_USER_EXPORTS);
	else
		rc = krdma_export_memory(ctx, exp, cmd, pages, why);
	if (!rc && (cmd->rights & KRDMA_RIGHT_MESSAGE)) {
		exp->box = krdma_box_new(fn, priv);
		rc = exp->box ? 0 : -ENOMEM;
	}
	if (rc) {
		krdma_export_put(exp);
		return ERR_PTR(rc);
	}
	return exp;
}

/**
 * krdma_export_find - an export that has been published
 * @net: network namespace
 * @name: its name
 *
 * Context: process, krdma_exports_lock held.
 * Return: the export, without a reference; NULL if there is none
 */
struct krdma_exp *krdma_export_find(struct net *net, const char *name)
{
	struct krdma_exp *exp;

	lockdep_assert_held(&krdma_exports_lock);
	list_for_each_entry(exp, &krdma_exports, node)
		if (exp->net == net && !strcmp(exp->name, name))
			return exp;
	return NULL;
}

/**
 * krdma_export_publish - let peers find an export
 * @exp: export
 * @why: explanation
 *
 * Context: process.
 * Return: 0 or -EEXIST
 */
int krdma_export_publish(struct krdma_exp *exp, struct krdma_why *why)
{
	int rc = 0;

	mutex_lock(&krdma_exports_lock);
	if (krdma_export_find(exp->net, exp->name)) {
		rc = krdma_explain(why, -EEXIST, "'%s' is published already", exp->name);
	} else {
		exp->serial = ++krdma_export_serial;
		list_add_tail(&exp->node, &krdma_exports);
	}
	mutex_unlock(&krdma_exports_lock);
	return rc;
}

/**
 * krdma_export_unpublish - take an export back
 * @exp: export; grants of it are revoked, in the services of their sessions
 *
 * Context: process. The publisher's reference is put.
 */
void krdma_export_unpublish(struct krdma_exp *exp)
{
	struct krdma_grant *grant;

	mutex_lock(&krdma_exports_lock);
	WRITE_ONCE(exp->dead, true);
	list_del_init(&exp->node);
	list_for_each_entry(grant, &exp->grants, export_node) {
		grant->revoke = true;
		krdma_session_serve(grant->sess);
	}
	mutex_unlock(&krdma_exports_lock);
	/* A service may be waiting for room in this very export. */
	krdma_segments_wake();
	if (exp->box)
		krdma_box_end(exp->box);
	krdma_export_put(exp);
}
