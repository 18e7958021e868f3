#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs each ioctl, also those of krdma_blk, and operations by io_uring, with each fault that the
# kernel can inject into the calling task (fail-nth), anywhere in the kernel: nth.c. faults.sh
# covers workers and the other node. Needs a kernel with fault injection, such as that of 'selftests/tools/kernels debug'.
#
# CALLS: only the calls with this text in their name. VERBOSE (0): 2 writes the stack of each
# fault to the kernel's log, which fails the test.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2
MODULE_TIMEOUT_SCALE=1

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
# Its calls are tried, too, where it was built.
blk=${MODULE%/*}/krdma_blk.ko
[ ! -e "$blk" ] || insmod "$blk"
listen_on B
background B krdma export nth --size 1M --atomic
background B krdma recv messages --size 64K --discard
check "a target is there" wait_for 60 receiver_is_there
remember_leftovers

merge nth nth nodeB nth messages ${CALLS:+"$CALLS"}
check_nothing_left "nothing is left on either node"
check "the target goes on" receiver_is_there
on -n B pkill -x krdma
[ ! -e "$blk" ] || check "krdma_blk can be unloaded" rmmod krdma_blk
check_unload "the module can be unloaded on both nodes"
done_testing
