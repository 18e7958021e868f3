// SPDX-License-Identifier: GPL-2.0
/*
 * Faults that tests can have, on a kernel with fault injection: files in
 * /sys/kernel/debug, Documentation/debugging.rst.
 *
 *	krdma_mover_flip	a bit of the memory that a digest is computed of: between
 *				the wire and the check
 *	krdma_mover_fail	any of the fault points (inject.h)
 *	krdma_mover_fail/points	those that have been reached since the module was loaded
 *	krdma_mover_fail/arm	"FILE:LINE N [TIMES]": the Nth call from now there fails, and
 *				those behind it up to TIMES (1)
 *	krdma_mover_fail/taken	of a chain of work requests, how many are posted before the
 *				one that is refused; all but the last of a shorter one
 *	krdma_mover_delay	any of the fault points takes longer, so that races have room
 *	krdma_mover_delay/us	by up to so many microseconds, at random: at most 1000, as
 *				some points are under spinlocks
 *	krdma_mover_delay/delays	how often one did
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fault-inject.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

#include "inject.h"
#include "stats.h"

static DECLARE_FAULT_ATTR(krdma_flip);
static DECLARE_FAULT_ATTR(krdma_fail);
static DECLARE_FAULT_ATTR(krdma_delay);
static struct dentry *krdma_flip_dir, *krdma_fail_dir, *krdma_delay_dir;

/* Longest delay: softirqs may be off. */
#define KRDMA_DELAY_MAX_US 1000

static u32 krdma_delay_us = 100;
static atomic_t krdma_delays;

static DEFINE_SPINLOCK(krdma_fault_lock);
static LIST_HEAD(krdma_fault_points);
/* The one that is armed: by its name, as it may not have been reached yet. */
static char krdma_fault_file[48];
static u32 krdma_fault_line;
static u32 krdma_fault_left;  /* calls; 0: none is armed, or it has failed */
static u32 krdma_fault_times; /* how often it fails then */
static u32 krdma_fault_taken;

/* What a module does before it has files of its own. */
static u32 krdma_fault_load;
module_param_named(fail_nth, krdma_fault_load, uint, 0400);
MODULE_PARM_DESC(fail_nth,
		 "the Nth fault point that is reached fails (kernels with fault injection)");

/* Two folders may have a file of the same name. */
static const char *krdma_fault_name(const char *file)
{
	const char *base = kbasename(file), *at = base;

	/* One component more. */
	if (at > file)
		for (at--; at > file && at[-1] != '/'; at--)
			;
	return at;
}

/**
 * krdma_fault_fails - shall this call fail?
 * @point: where it is
 *
 * It is delayed before, if that is asked for.
 *
 * Context: any.
 * Return: true if it shall.
 */
bool krdma_fault_fails(struct krdma_fault_point *point)
{
	u32 us = min_t(u32, READ_ONCE(krdma_delay_us), KRDMA_DELAY_MAX_US);
	unsigned long flags;
	bool fails = false;

	/* Not under the lock, for which all others would wait. */
	if (should_fail(&krdma_delay, 1) && us) {
		atomic_inc(&krdma_delays);
		udelay(1 + get_random_u32() % us);
	}
	spin_lock_irqsave(&krdma_fault_lock, flags);
	if (!point->listed)
		list_add_tail(&point->node, &krdma_fault_points);
	point->listed = true;
	point->reached++;
	if (krdma_fault_left && point->line == krdma_fault_line &&
	    !strcmp(krdma_fault_name(point->file), krdma_fault_file)) {
		fails = krdma_fault_left == 1;
		if (!fails || !--krdma_fault_times)
			krdma_fault_left--;
	}
	if (krdma_fault_load)
		fails |= !--krdma_fault_load;
	fails |= should_fail(&krdma_fail, 1);
	if (fails)
		point->failed++;
	spin_unlock_irqrestore(&krdma_fault_lock, flags);
	return fails;
}

/**
 * krdma_fault_post - ib_post_send() where one of the work requests is refused
 * @qp: queue pair
 * @wr: chain of work requests
 * @bad: out: the one; or NULL
 *
 * Context: any.
 * Return: -ENOMEM, for an invalidation -EINVAL; or what is wrong with those before it
 */
int krdma_fault_post(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct ib_send_wr *last = NULL, *refused = (struct ib_send_wr *)wr;
	u32 left = READ_ONCE(krdma_fault_taken);
	int rc = 0;

	for (; left && refused->next; left--) {
		last = refused;
		refused = refused->next;
	}
	if (last) {
		last->next = NULL;
		rc = ib_post_send(qp, wr, bad);
		last->next = refused;
	}
	if (rc)
		return rc;
	if (bad)
		*bad = refused;
	/* As of a device that has none, which is what the module expects. */
	return refused->opcode == IB_WR_LOCAL_INV ? -EINVAL : -ENOMEM;
}

static int krdma_points_show(struct seq_file *seq, void *unused)
{
	struct krdma_fault_point *point;

	/* They live as long as the module: only the counts change. */
	spin_lock_irq(&krdma_fault_lock);
	list_for_each_entry(point, &krdma_fault_points, node)
		seq_printf(seq, "%s:%u %.*s reached %llu failed %llu in %s\n",
			   krdma_fault_name(point->file), point->line,
			   (int)strcspn(point->call, "("), point->call, point->reached,
			   point->failed, point->in);
	spin_unlock_irq(&krdma_fault_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(krdma_points);

static int krdma_arm_show(struct seq_file *seq, void *unused)
{
	spin_lock_irq(&krdma_fault_lock);
	seq_printf(seq, "%s:%u %u\n", krdma_fault_file, krdma_fault_line, krdma_fault_left);
	spin_unlock_irq(&krdma_fault_lock);
	return 0;
}

static int krdma_arm_open(struct inode *inode, struct file *file)
{
	return single_open(file, krdma_arm_show, NULL);
}

static ssize_t krdma_arm_write(struct file *file, const char __user *from, size_t size, loff_t *pos)
{
	char text[64], name[sizeof(krdma_fault_file)];
	u32 line, n, times = 1;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	text[size] = '\0';
	if (sscanf(text, "%47[^:]:%u %u %u", name, &line, &n, &times) < 3 || !times)
		return -EINVAL;
	spin_lock_irq(&krdma_fault_lock);
	strscpy(krdma_fault_file, name, sizeof(krdma_fault_file));
	krdma_fault_line = line;
	krdma_fault_left = n;
	krdma_fault_times = times;
	spin_unlock_irq(&krdma_fault_lock);
	return size;
}

static const struct file_operations krdma_arm_fops = {
	.owner = THIS_MODULE,
	.open = krdma_arm_open,
	.read = seq_read,
	.write = krdma_arm_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/**
 * krdma_fault_init - make the files
 *
 * Without debugfs there are none.
 *
 * Context: process.
 */
void krdma_fault_init(void)
{
	/* Tests look at the log: what is to fail says nothing in there. */
	krdma_fail.verbose = 0;
	krdma_delay.verbose = 0;
	krdma_flip_dir = fault_create_debugfs_attr("krdma_mover_flip", NULL, &krdma_flip);
	krdma_fail_dir = fault_create_debugfs_attr("krdma_mover_fail", NULL, &krdma_fail);
	krdma_delay_dir = fault_create_debugfs_attr("krdma_mover_delay", NULL, &krdma_delay);
	debugfs_create_u32("us", 0600, krdma_delay_dir, &krdma_delay_us);
	debugfs_create_atomic_t("delays", 0400, krdma_delay_dir, &krdma_delays);
	debugfs_create_file("points", 0400, krdma_fail_dir, NULL, &krdma_points_fops);
	debugfs_create_file("arm", 0600, krdma_fail_dir, NULL, &krdma_arm_fops);
	debugfs_create_u32("taken", 0600, krdma_fail_dir, &krdma_fault_taken);
}

/**
 * krdma_fault_exit - remove them
 *
 * Context: process.
 */
void krdma_fault_exit(void)
{
	debugfs_remove_recursive(krdma_flip_dir);
	debugfs_remove_recursive(krdma_fail_dir);
	debugfs_remove_recursive(krdma_delay_dir);
}

/**
 * krdma_fault_flip - turn a bit over, if asked for
 * @at: memory
 * @len: its bytes, not 0
 *
 * Context: any.
 */
void krdma_fault_flip(u8 *at, u32 len)
{
	u32 bit;

	if (!should_fail(&krdma_flip, 1))
		return;
	bit = get_random_u32() % (len * 8);
	at[bit / 8] ^= 1 << bit % 8;
	krdma_stat_inc(KRDMA_STAT_FLIPS);
}
