// SPDX-License-Identifier: GPL-2.0
/*
 * For selftests/lifetime/loss.sh: sets a queue pair to error, whoever has it. Write its number to
 * /sys/module/krdma_kill_test/parameters/qp.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/restrack.h>

static char *device = "rxe0";
module_param(device, charp, 0444);

static int kill(const char *text, const struct kernel_param *param)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct rdma_restrack_entry *entry;
	struct ib_device *ib;
	u32 number;
	int rc = kstrtou32(text, 0, &number);

	if (rc)
		return rc;
	ib = ib_device_get_by_name(device, RDMA_DRIVER_UNKNOWN);
	if (!ib)
		return -ENODEV;
	entry = rdma_restrack_get_byid(ib, RDMA_RESTRACK_QP, number);
	if (IS_ERR(entry)) {
		rc = PTR_ERR(entry);
	} else {
		rc = ib_modify_qp(container_of(entry, struct ib_qp, res), &attr, IB_QP_STATE);
		rdma_restrack_put(entry);
	}
	ib_device_put(ib);
	return rc;
}

static const struct kernel_param_ops kill_ops = { .set = kill };
module_param_cb(qp, &kill_ops, NULL, 0200);

static int __init kill_init(void)
{
	return 0;
}
module_init(kill_init);

static void __exit kill_exit(void)
{
}
module_exit(kill_exit);

MODULE_DESCRIPTION("Sets queue pairs to error");
MODULE_LICENSE("GPL");
