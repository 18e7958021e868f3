// SPDX-License-Identifier: GPL-2.0
/* /dev/krdma_blk: uapi/linux/krdma_blk.h, which documents each call. */
#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "blk/blk.h"

/* A struct of the caller's size. Return: 0 or a negative errno */
static int krdma_blk_copy(void *to, size_t size, const void __user *user, u32 *user_size)
{
	if (get_user(*user_size, (const u32 __user *)user))
		return -EFAULT;
	if (*user_size < 2 * sizeof(u32))
		return -EINVAL;
	if (*user_size > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(to, size, user, *user_size);
}

static int krdma_blk_ioctl_attach(struct krdma_blk_attach __user *user)
{
	struct krdma_blk_attach cmd;
	u32 size;
	int rc = krdma_blk_copy(&cmd, sizeof(cmd), user, &size);

	if (rc)
		return rc;
	if (cmd.flags & ~(KRDMA_BLK_READ_ONLY | KRDMA_BLK_FAIL_FAST | KRDMA_BLK_SHARED |
			  KRDMA_BLK_TAKEOVER | KRDMA_BLK_NOT_HELD))
		return -EOPNOTSUPP;
	if (size < offsetofend(struct krdma_blk_attach, disk))
		return -EINVAL;
	/* Before a session is made in vain. */
	if (put_user(0, &user->disk))
		return -EFAULT;
	return krdma_disk_attach(current->nsproxy->net_ns, &cmd, &user->disk);
}

static int krdma_blk_ioctl_detach(const void __user *user)
{
	struct krdma_blk_detach cmd;
	u32 size;
	int rc = krdma_blk_copy(&cmd, sizeof(cmd), user, &size);

	if (rc)
		return rc;
	if (cmd.flags & ~KRDMA_BLK_FORCE)
		return -EOPNOTSUPP;
	if (cmd.reserved || size < offsetofend(struct krdma_blk_detach, disk))
		return -EINVAL;
	return krdma_disk_detach(cmd.disk, cmd.flags & KRDMA_BLK_FORCE);
}

static int krdma_blk_ioctl_resize(struct krdma_blk_resize __user *user)
{
	struct krdma_blk_resize cmd;
	u32 size;
	int rc = krdma_blk_copy(&cmd, sizeof(cmd), user, &size);

	if (rc)
		return rc;
	if (cmd.flags)
		return -EOPNOTSUPP;
	if (cmd.reserved || size < sizeof(cmd))
		return -EINVAL;
	rc = krdma_disk_resize(cmd.disk, &cmd.bytes);
	return rc ?: put_user(cmd.bytes, &user->bytes);
}

static int krdma_blk_ioctl_list(struct krdma_blk_list __user *user)
{
	struct krdma_blk_info info;
	struct krdma_blk_list cmd;
	u32 size, next, n = 0;
	u64 at;
	int rc = krdma_blk_copy(&cmd, sizeof(cmd), user, &size);

	if (rc)
		return rc;
	if (cmd.flags)
		return -EOPNOTSUPP;
	if (size < sizeof(cmd) || !cmd.count || cmd.stride < sizeof(u64) || cmd.stride > PAGE_SIZE)
		return -EINVAL;
	for (at = cmd.infos; n < cmd.count; n++, at += cmd.stride) {
		next = krdma_disk_next(cmd.first, &info);
		if (!next)
			break;
		if (copy_to_user(u64_to_user_ptr(at), &info, min_t(u32, cmd.stride, sizeof(info))))
			return -EFAULT;
		if (cmd.stride > sizeof(info) &&
		    clear_user(u64_to_user_ptr(at + sizeof(info)), cmd.stride - sizeof(info)))
			return -EFAULT;
		cmd.first = next;
	}
	next = krdma_disk_next(cmd.first, &info) ? info.disk : 0;
	return put_user(n, &user->count) || put_user(next, &user->next) ? -EFAULT : 0;
}

static long krdma_blk_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	switch (cmd) {
	case KRDMA_BLK_ATTACH:
		return krdma_blk_ioctl_attach(user);
	case KRDMA_BLK_DETACH:
		return krdma_blk_ioctl_detach(user);
	case KRDMA_BLK_RESIZE:
		return krdma_blk_ioctl_resize(user);
	case KRDMA_BLK_LIST:
		return krdma_blk_ioctl_list(user);
	}
	return -ENOTTY;
}

static const struct file_operations krdma_blk_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = krdma_blk_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice krdma_blk_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "krdma_blk",
	.mode = 0600,
	.fops = &krdma_blk_fops,
};

/* What requests wait for: with a rescuer. */
struct workqueue_struct *krdma_blk_wq;

static int __init krdma_blk_init(void)
{
	int rc;

	krdma_blk_wq = alloc_workqueue("krdma_blk", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!krdma_blk_wq)
		return -ENOMEM;
	rc = misc_register(&krdma_blk_misc);
	if (rc)
		destroy_workqueue(krdma_blk_wq);
	return rc;
}

static void __exit krdma_blk_exit(void)
{
	misc_deregister(&krdma_blk_misc);
	krdma_disks_detach();
	destroy_workqueue(krdma_blk_wq);
}

module_init(krdma_blk_init);
module_exit(krdma_blk_exit);

MODULE_DESCRIPTION("Disks in the memory of other hosts over RDMA");
MODULE_LICENSE("GPL");
