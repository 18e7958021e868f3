#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# module: none
# Bounce buffers: loads selftests/modules/krdma_bounce_test.ko, on a kernel that was booted with
# swiotlb=force (run-vm --append) and on one that was not.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file

TEST=${MODULE%/driver/*}/selftests/modules/krdma_bounce_test.ko
[ -e "$TEST" ] || {
	echo "Bail out! There is no $TEST: make samples"
	exit 1
}
grep -qw swiotlb=force /proc/cmdline && bounced=1 what="by bounce buffers" ||
	bounced=0 what="without them"
# What it stands on is not there without RDMA.
modprobe -q ib_core 2>/dev/null
tried() {
	local rc
	dmesg -C
	insmod "$TEST" bounced="$bounced"
	rc=$?
	dmesg -t
	return "$rc"
}
check "buffers, pages and segments of a device, $what" tried
[ ! -d /sys/module/krdma_bounce_test ] || rmmod krdma_bounce_test
done_testing
