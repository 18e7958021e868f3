// SPDX-License-Identifier: GPL-2.0
/*
 * Accounts: what is pinned counts for its process, its open file and its user, before it
 * is pinned, and until it is unpinned.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "ctx.h"

/* Of the calling process, in pages. */
static u64 krdma_memlock(void)
{
	return capable(CAP_IPC_LOCK) ? U64_MAX : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

/**
 * krdma_account_new - an account for memory of the calling process
 * @ctx: the open file, whose quota is charged too
 *
 * Context: process, of the user.
 * Return: the account, or an ERR_PTR
 */
struct krdma_account *krdma_account_new(struct krdma_ctx *ctx)
{
	struct krdma_account *acct;

	acct = kzalloc(sizeof(*acct), GFP_KERNEL_ACCOUNT);
	if (!acct)
		return ERR_PTR(-ENOMEM);
	acct->limit = krdma_memlock();
	mmgrab(current->mm);
	acct->mm = current->mm;
	kref_get(&ctx->ref);
	acct->ctx = ctx;
	return acct;
}

/**
 * krdma_account_free - close an account
 * @acct: the account, with nothing charged to it any more; may be NULL
 *
 * Context: process.
 */
void krdma_account_free(struct krdma_account *acct)
{
	if (!acct)
		return;
	mmdrop(acct->mm);
	krdma_ctx_put(acct->ctx);
	kfree(acct);
}

static int krdma_file_charge(struct krdma_ctx *ctx, unsigned long npages, struct krdma_error *error)
{
	u64 sum = atomic64_add_return(npages, &ctx->pinned);

	if (sum <= ctx->pinned_limit) {
		krdma_stat_add(KRDMA_STAT_PINNED_BYTES, (u64)npages << PAGE_SHIFT);
		return 0;
	}
	atomic64_sub(npages, &ctx->pinned);
	return krdma_explain(error, -EDQUOT,
			     "an open file may keep %llu KiB pinned, %llu KiB would be",
			     ctx->pinned_limit << (PAGE_SHIFT - 10), sum << (PAGE_SHIFT - 10));
}

static void krdma_file_uncharge(struct krdma_ctx *ctx, unsigned long npages)
{
	atomic64_sub(npages, &ctx->pinned);
	krdma_stat_add(KRDMA_STAT_PINNED_BYTES, -((u64)npages << PAGE_SHIFT));
}

/* Of all users but root, whose share nobody limits. */
static DEFINE_SPINLOCK(krdma_users_pinned_lock);
static u64 krdma_users_pinned;

static void krdma_user_uncharge(struct krdma_user *user, unsigned long npages)
{
	unsigned long flags;

	if (krdma_user_is_root(user))
		return;
	spin_lock_irqsave(&krdma_users_pinned_lock, flags);
	krdma_users_pinned -= npages;
	user->pinned -= npages;
	spin_unlock_irqrestore(&krdma_users_pinned_lock, flags);
}

/*
 * Pages stay pinned when the process has gone whose RLIMIT_MEMLOCK they counted in, so
 * that alone does not limit a user. What is refused is not counted for a moment: others
 * would be refused for it.
 */
static int krdma_user_charge(struct krdma_user *user, unsigned long npages,
			     struct krdma_error *error)
{
	u64 max = totalram_pages(), mine;
	unsigned long flags;
	bool ok;

	if (krdma_user_is_root(user))
		return 0;
	spin_lock_irqsave(&krdma_users_pinned_lock, flags);
	mine = user->pinned + npages;
	ok = krdma_share_ok(mine, krdma_users_pinned + npages, max);
	if (ok) {
		krdma_users_pinned += npages;
		user->pinned = mine;
	}
	spin_unlock_irqrestore(&krdma_users_pinned_lock, flags);
	if (ok)
		return 0;
	return krdma_explain(
		error, -EDQUOT,
		"a user may keep no more pinned than the rest of memory, %llu KiB of %llu KiB would be",
		mine << (PAGE_SHIFT - 10), max << (PAGE_SHIFT - 10));
}

static int krdma_charge(struct krdma_ctx *ctx, struct mm_struct *mm, u64 limit,
			unsigned long npages, struct krdma_error *error)
{
	int rc = krdma_file_charge(ctx, npages, error);
	u64 sum;

	if (rc)
		return rc;
	sum = mm ? atomic64_add_return(npages, &mm->pinned_vm) : 0;
	if (sum > limit)
		rc = krdma_explain(error, -ENOMEM,
				   "RLIMIT_MEMLOCK is %llu KiB, %llu KiB would be pinned",
				   limit << (PAGE_SHIFT - 10), sum << (PAGE_SHIFT - 10));
	else
		rc = krdma_user_charge(ctx->user, npages, error);
	if (!rc)
		return 0;
	if (mm)
		atomic64_sub(npages, &mm->pinned_vm);
	krdma_file_uncharge(ctx, npages);
	return rc;
}

static void krdma_uncharge(struct krdma_ctx *ctx, struct mm_struct *mm, unsigned long npages)
{
	if (mm)
		atomic64_sub(npages, &mm->pinned_vm);
	krdma_user_uncharge(ctx->user, npages);
	krdma_file_uncharge(ctx, npages);
}

/**
 * krdma_account_charge - charge pages before they are pinned
 * @acct: the account
 * @npages: pages
 * @error: explanation
 *
 * Counts in mm->pinned_vm against RLIMIT_MEMLOCK, as ib_umem does.
 *
 * Context: process.
 * Return: 0, -ENOMEM (RLIMIT_MEMLOCK) or -EDQUOT (limit of the file, or of its user)
 */
int krdma_account_charge(struct krdma_account *acct, unsigned long npages,
			 struct krdma_error *error)
{
	return krdma_charge(acct->ctx, acct->mm, acct->limit, npages, error);
}

/**
 * krdma_account_uncharge - give back a charge
 * @acct: the account
 * @npages: pages, unpinned by now
 *
 * Context: any.
 */
void krdma_account_uncharge(struct krdma_account *acct, unsigned long npages)
{
	krdma_uncharge(acct->ctx, acct->mm, npages);
}

/**
 * krdma_op_charge - charge the pages of one operation before they are pinned
 * @r: the operation
 * @npages: pages, not 0
 * @longterm: they may stay pinned for more than seconds, so they count as a buffer's do
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: 0, -ENOMEM (RLIMIT_MEMLOCK) or -EDQUOT (limit of the file, or of its user)
 */
int krdma_op_charge(struct krdma_req *r, unsigned long npages, bool longterm,
		    struct krdma_error *error)
{
	struct mm_struct *mm = longterm ? current->mm : NULL;
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	int rc;

	if (mm && atomic64_read(&mm->pinned_vm) + npages > limit)
		limit = krdma_memlock();
	rc = krdma_charge(r->ctx, mm, limit, npages, error);
	if (rc)
		return rc;
	r->pinned = npages;
	r->mm = mm;
	if (mm)
		mmgrab(mm);
	return 0;
}

/**
 * krdma_op_uncharge - undo krdma_op_charge
 * @r: the operation, with its pages unpinned by now
 *
 * Context: process.
 */
void krdma_op_uncharge(struct krdma_req *r)
{
	krdma_uncharge(r->ctx, r->mm, r->pinned);
	if (r->mm)
		mmdrop(r->mm);
	r->mm = NULL;
	r->pinned = 0;
}
