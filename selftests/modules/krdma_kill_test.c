// SPDX-License-Identifier: GPL-2.0
/*
 * For selftests/lifetime/loss.sh: sets a queue pair to error, whoever has it. Write its number to
 * /sys/module/krdma_kill_test/parameters/qp.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include <rdma/restrack.h>

static struct ib_device *device; /* the first */
static DEFINE_MUTEX(kill_lock);

static int kill_locked(u32 number)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct rdma_restrack_entry *entry;
	int rc;

	if (!device)
		return -ENODEV;
	entry = rdma_restrack_get_byid(device, RDMA_RESTRACK_QP, number);
	if (IS_ERR(entry))
		return PTR_ERR(entry);
	rc = ib_modify_qp(container_of(entry, struct ib_qp, res), &attr, IB_QP_STATE);
	rdma_restrack_put(entry);
	return rc;
}

static int kill(const char *text, const struct kernel_param *param)
{
	u32 number;
	int rc = kstrtou32(text, 0, &number);

	if (rc)
		return rc;
	mutex_lock(&kill_lock);
	rc = kill_locked(number);
	mutex_unlock(&kill_lock);
	return rc;
}

static const struct kernel_param_ops kill_ops = { .set = kill };
module_param_cb(qp, &kill_ops, NULL, 0200);

static int kill_add(struct ib_device *ib)
{
	mutex_lock(&kill_lock);
	device = device ?: ib;
	mutex_unlock(&kill_lock);
	return 0;
}

static void kill_remove(struct ib_device *ib, void *data)
{
	mutex_lock(&kill_lock);
	if (device == ib)
		device = NULL;
	mutex_unlock(&kill_lock);
}

static struct ib_client client = {
	.name = "krdma_kill_test",
	.add = kill_add,
	.remove = kill_remove,
};

static int __init kill_init(void)
{
	return ib_register_client(&client);
}
module_init(kill_init);

static void __exit kill_exit(void)
{
	ib_unregister_client(&client);
}
module_exit(kill_exit);

MODULE_DESCRIPTION("Sets queue pairs to error");
MODULE_LICENSE("GPL");
