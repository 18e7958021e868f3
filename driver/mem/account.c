// SPDX-License-Identifier: GPL-2.0
/*
 * Users, and accounts: what is pinned counts for its process, its open file and its user,
 * before it is pinned, and until it is unpinned.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mem/mem.h"

/* ---- users ---- */

static DEFINE_SPINLOCK(krdma_users_lock);
static LIST_HEAD(krdma_users);

/**
 * krdma_user_of - the user of an id
 * @uid: the id
 *
 * Context: process.
 * Return: the user with a reference, or NULL without memory
 */
struct krdma_user *krdma_user_of(kuid_t uid)
{
	struct krdma_user *user, *new;

	new = krdma_inject(kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), NULL);
	if (!new)
		return NULL;
	new->uid = uid;
	refcount_set(&new->refs, 1);
	spin_lock(&krdma_users_lock);
	list_for_each_entry(user, &krdma_users, node)
		if (uid_eq(user->uid, uid))
			goto found;
	list_add(&new->node, &krdma_users);
	spin_unlock(&krdma_users_lock);
	return new;

found:
	krdma_user_get(user);
	spin_unlock(&krdma_users_lock);
	kfree(new);
	return user;
}

/**
 * krdma_user_put - let go of a user
 * @user: the user
 *
 * Context: process.
 */
void krdma_user_put(struct krdma_user *user)
{
	bool last;

	spin_lock(&krdma_users_lock);
	last = refcount_dec_and_test(&user->refs);
	if (last)
		list_del(&user->node);
	spin_unlock(&krdma_users_lock);
	if (last)
		kfree(user);
}

/* ---- open files ---- */

/**
 * krdma_payer_new - an open file, as what pays for pins
 * @user: its user
 *
 * Context: process.
 * Return: the payer with a reference, or NULL
 */
struct krdma_payer *krdma_payer_new(struct krdma_user *user)
{
	struct krdma_payer *payer;

	payer = krdma_inject(kzalloc(sizeof(*payer), GFP_KERNEL_ACCOUNT), NULL);
	if (!payer)
		return NULL;
	refcount_set(&payer->refs, 1);
	payer->user = krdma_user_get(user);
	payer->limit = totalram_pages() / 2;
	return payer;
}

/**
 * krdma_payer_put - let go of a payer
 * @payer: the payer; with the last reference nothing is charged to it any more
 *
 * Context: process.
 */
void krdma_payer_put(struct krdma_payer *payer)
{
	if (!refcount_dec_and_test(&payer->refs))
		return;
	krdma_user_put(payer->user);
	kfree(payer);
}

/* ---- accounts ---- */

/* Of the calling process, in pages. */
static u64 krdma_memlock(void)
{
	return capable(CAP_IPC_LOCK) ? U64_MAX : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

/**
 * krdma_account_new - an account for memory of the calling process
 * @payer: the open file, whose quota is charged too
 *
 * Context: process, of the user.
 * Return: the account, or an ERR_PTR
 */
struct krdma_account *krdma_account_new(struct krdma_payer *payer)
{
	struct krdma_account *acct;

	acct = krdma_inject(kzalloc(sizeof(*acct), GFP_KERNEL_ACCOUNT), NULL);
	if (!acct)
		return ERR_PTR(-ENOMEM);
	acct->limit = krdma_memlock();
	mmgrab(current->mm);
	acct->mm = current->mm;
	refcount_inc(&payer->refs);
	acct->payer = payer;
	return acct;
}

/**
 * krdma_account_free - close an account
 * @acct: the account, with nothing charged to it any more; may be NULL or an ERR_PTR
 *
 * Context: process.
 */
void krdma_account_free(struct krdma_account *acct)
{
	if (IS_ERR_OR_NULL(acct))
		return;
	mmdrop(acct->mm);
	krdma_payer_put(acct->payer);
	kfree(acct);
}

static int krdma_file_charge(struct krdma_payer *payer, unsigned long npages,
			     struct krdma_error *error)
{
	u64 sum = atomic64_add_return(npages, &payer->pinned);

	if (sum <= payer->limit) {
		krdma_stat_add(KRDMA_STAT_PINNED_BYTES, (u64)npages << PAGE_SHIFT);
		return 0;
	}
	atomic64_sub(npages, &payer->pinned);
	return krdma_explain(error, -EDQUOT,
			     "an open file may keep %llu KiB pinned, %llu KiB would be",
			     payer->limit << (PAGE_SHIFT - 10), sum << (PAGE_SHIFT - 10));
}

static void krdma_file_uncharge(struct krdma_payer *payer, unsigned long npages)
{
	atomic64_sub(npages, &payer->pinned);
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

static int krdma_charge(struct krdma_payer *payer, struct mm_struct *mm, u64 limit,
			unsigned long npages, struct krdma_error *error)
{
	int rc = krdma_file_charge(payer, npages, error);
	u64 sum;

	if (rc)
		return rc;
	sum = mm ? atomic64_add_return(npages, &mm->pinned_vm) : 0;
	if (sum > limit)
		rc = krdma_explain(error, -ENOMEM,
				   "RLIMIT_MEMLOCK is %llu KiB, %llu KiB would be pinned",
				   limit << (PAGE_SHIFT - 10), sum << (PAGE_SHIFT - 10));
	else
		rc = krdma_user_charge(payer->user, npages, error);
	if (!rc)
		return 0;
	if (mm)
		atomic64_sub(npages, &mm->pinned_vm);
	krdma_file_uncharge(payer, npages);
	return rc;
}

static void krdma_uncharge(struct krdma_payer *payer, struct mm_struct *mm, unsigned long npages)
{
	if (mm)
		atomic64_sub(npages, &mm->pinned_vm);
	krdma_user_uncharge(payer->user, npages);
	krdma_file_uncharge(payer, npages);
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
	return krdma_charge(acct->payer, acct->mm, acct->limit, npages, error);
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
	krdma_uncharge(acct->payer, acct->mm, npages);
}

/**
 * krdma_pins_charge - charge the pages of one operation before they are pinned
 * @pins: of the operation
 * @payer: the open file
 * @npages: pages, not 0
 * @longterm: they may stay pinned for more than seconds, so they count as a buffer's do
 * @error: explanation
 *
 * Context: process, of the user.
 * Return: 0, -ENOMEM (RLIMIT_MEMLOCK) or -EDQUOT (limit of the file, or of its user)
 */
int krdma_pins_charge(struct krdma_pins *pins, struct krdma_payer *payer, unsigned long npages,
		      bool longterm, struct krdma_error *error)
{
	struct mm_struct *mm = longterm ? current->mm : NULL;
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	int rc;

	if (mm && atomic64_read(&mm->pinned_vm) + npages > limit)
		limit = krdma_memlock();
	rc = krdma_charge(payer, mm, limit, npages, error);
	if (rc)
		return rc;
	pins->charged = npages;
	pins->mm = mm;
	if (mm)
		mmgrab(mm);
	return 0;
}

/**
 * krdma_pins_uncharge - undo krdma_pins_charge
 * @pins: of the operation, with its pages unpinned by now
 * @payer: the open file
 *
 * Context: process.
 */
void krdma_pins_uncharge(struct krdma_pins *pins, struct krdma_payer *payer)
{
	krdma_uncharge(payer, pins->mm, pins->charged);
	if (pins->mm)
		mmdrop(pins->mm);
	pins->mm = NULL;
	pins->charged = 0;
}
