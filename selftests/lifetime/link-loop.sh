#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deletes the RDMA device during transfers, on one node and then on the other. Where sessions do not
# resume, each transfer ends with an error. A new device and a new connect work without reloading the modules. LINKS is the
# number of rounds:
#
#	selftests/tools/vm/lab run -e LINKS=20 selftests/lifetime/link-loop.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"
need_nodes 2
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=0

LIMIT=${LIMIT:-60}
LINKS=${LINKS:-4}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 100000 /dev/urandom >"$dir/data"

fresh_module
listen_on B
export_on B scratch --size 64M
remember_leftovers
loaded=$(status A /module/0/incarnation)$(status B /module/0/incarnation)

moving() {
	[ "$(counter A "$1")" -gt $(($2 + (4 << 20))) ]
}

works() {
	krdma put -q "$dir/data" nodeB/scratch && krdma get -q nodeB/scratch@0+100000 "$dir/back" &&
		cmp "$dir/data" "$dir/back"
}

nodes=(A B)
kinds=(write write read read)
for ((i = 1; i <= LINKS; i++)); do
	node=${nodes[(i - 1) % 2]}
	kind=${kinds[(i - 1) % 4]}
	before=$(counter A "${kind}_bytes")
	krdma bench "$kind" nodeB/scratch -s 1M -D 1000 >/dev/null 2>"$dir/err" &
	pid=$!
	wait_for 60 moving "${kind}_bytes" "$before" || not_ok "$i: transfers are under way" "$(<"$dir/err")"
	on -n "$node" rdma link delete "$LAB_RDMA_DEV"
	check_failed "$i: $kind, link of node $node deleted: an error in time" "$LIMIT" $pid "$dir/err" \
		'the session with 10.77.0.2:7471 is lost: '
	restore_link "$node"
	check_nothing_left "$i: nothing is left" "$LIMIT"
	check "$i: a new connect works" wait_for "$LIMIT" works
done

# A listener of one address has no device for a while, and finds the new one.
listener_is() {
	on -n B krdma listen | grep -q "^10.77.0.2:7472 *$1 "
}
finds_listener() {
	krdma ls nodeB:7472
}
on -n B krdma listen 10.77.0.2:7472
check "a listener of one address is up" listener_is up
on -n B rdma link delete "$LAB_RDMA_DEV"
check "it waits without the device" wait_for "$LIMIT" listener_is waiting
restore_link B
check "it comes up with the new device" wait_for "$LIMIT" listener_is up
check "and is found" wait_for "$LIMIT" finds_listener

is "the modules are those of the beginning" \
	"$(status A /module/0/incarnation)$(status B /module/0/incarnation)" "$loaded"

done_testing
