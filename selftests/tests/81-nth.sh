#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 3600
# Each ioctl, and operations by io_uring, with each of the faults that the kernel can inject
# into the calling task (fail-nth), wherever in the kernel it hits: helpers/nth.c. What runs
# in workers, and on the other node, is for 80-faults.sh. Needs a kernel with fault injection,
# such as that of 'selftests/kernels debug'.
#
# CALLS: only those with this in their name. VERBOSE (0): 2 for the way to each fault in the
# kernel's log, which fails the test.
# shellcheck source=selftests/tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_nodes 2
MODULE_TIMEOUT_SCALE=1
helper nth

[ -e /proc/self/fail-nth ] || skip_all "this kernel injects no faults into a task"
for each in failslab fail_page_alloc fail_usercopy; do
	[ -d /sys/kernel/debug/$each ] || skip_all "this kernel has no $each"
done

# set_attr FILE VALUE: of the three, those that have it; as they were in the end.
set_attr() {
	local file
	for file in /sys/kernel/debug/{failslab,fail_page_alloc,fail_usercopy}/$1; do
		[ ! -e "$file" ] || {
			at_end sh -c "echo $(<"$file") >$file"
			echo "$2" >"$file"
		}
	done
}
# A log of what was made to fail would be taken for a report.
set_attr verbose "${VERBOSE:-0}"
set_attr verbose_ratelimit_interval_ms 0
# All allocations, also those that may wait, and of single pages.
set_attr ignore-gfp-wait N
set_attr ignore-gfp-highmem N
set_attr min-order 0

receiver_is_there() {
	[ "$(on -n B krdma status | grep -c '^export')" = 2 ]
}

fresh_module
listen_on B
background B krdma export nth --size 1M --atomic
background B krdma recv mail --size 64K --discard
check "an owner is there" wait_for 60 receiver_is_there
remember_leftovers

merge nth nth nodeB nth mail ${CALLS:+"$CALLS"}
check_nothing_left "nothing is left on either node"
check "the owner goes on" receiver_is_there
on -n B pkill -x krdma
check "the module can be unloaded on both nodes" wait_for 60 unload_module
done_testing
