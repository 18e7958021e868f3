#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The state that the module shows: transfers and what they wait for, counters, tracepoints, and
# its objects in 'rdma resource'.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "takes the link down"
need_nodes 2
MODULE_TIMEOUT_SCALE=1

dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 6000000 /dev/urandom >"$dir/data"
events=/sys/kernel/tracing/events/krdma

fresh_module
listen_on B
export_on B scratch --size 64M

# ------------------------------------------------------------------- counters

names="reads writes read_bytes write_bytes work_requests doorbells control_sent control_received"
declare -A before=()
for name in $names; do
	before[$name]=$(counter A "$name")
done
registered=$(counter B segments_registered)
for node in A B; do
	on -n "$node" sh -c "echo >/sys/kernel/tracing/trace; echo 1 >$events/enable"
done
krdma put -q "$dir/data" nodeB/scratch && krdma get -q nodeB/scratch@0+6000000 "$dir/back"
check "put and get" cmp "$dir/data" "$dir/back"
for node in A B; do
	on -n "$node" sh -c "echo 0 >$events/enable"
done
for name in $names; do
	check "the counter $name moves" [ "$(counter A "$name")" -gt "${before[$name]}" ]
done
is "written bytes are counted exactly" $(($(counter A write_bytes) - before[write_bytes])) 6000000
is "read bytes are counted exactly" $(($(counter A read_bytes) - before[read_bytes])) 6000000
check "the target counts registered segments" [ "$(counter B segments_registered)" -gt "$registered" ]
# Of the greetings.
for pair in "A B" "B A"; do
	read -r here there <<<"$pair"
	is "node $here's session shows the incarnation of node $there" \
		"$(status "$here" /sessions/0/peer_incarnation)" "$(status "$there" /module/0/incarnation)"
done
is "status shows the counters" "$(status A /counters/write_bytes)" "$(counter A write_bytes)"

# ---------------------------------------------------------------- tracepoints

fired() {
	on -n "$1" grep -q " $2: " /sys/kernel/tracing/trace
}
for event in session_state cm_event message transfer_submit transfer_wait post complete transfer_end; do
	check "the tracepoint krdma_$event fires" fired A "krdma_$event"
done
check "the tracepoint krdma_segment fires at the target" fired B krdma_segment

# ------------------------------------------------------------------ transfers

waits_for_wire() {
	local i
	krdma status --transfers -j >"$dir/transfers"
	for i in 0 1; do
		[ "$(json_at "/transfers/$i/waits_for" <"$dir/transfers")" = wire ] &&
			[ "$(json_at "/transfers/$i/wait_ms" <"$dir/transfers")" -gt 500 ] && return
	done
	return 1
}

written=$(counter A write_bytes)
krdma bench write nodeB/scratch -s 1M -D 1000 >/dev/null 2>"$dir/err" &
pid=$!
moving() {
	[ "$(counter A write_bytes)" -gt $((written + (4 << 20))) ]
}
check "transfers are under way" wait_for 60 moving
for kind in pd cm_id; do
	check "rdma resource names the module: $kind" grep -q krdma_mover <(rdma resource show "$kind")
done
# rdma_cm makes the queue pair, and gives it its own name.
qp=$(status A /channels/0/qp)
check "rdma resource shows the queue pair of the channel" \
	grep -Eq "lqpn $qp .*type RC .*comm \[(krdma_mover|rdma_cm)\]" <(rdma resource show qp)
on -n B ip link set data0 down
check "with the wire down they wait for the wire, and for how long" wait_for 60 waits_for_wire
is "they name the export" "$(json_at /transfers/0/name <"$dir/transfers")" scratch
is "they name the process" "$(json_at /transfers/0/pid <"$dir/transfers")" $pid
is "they name the operation" "$(json_at /transfers/0/operation <"$dir/transfers")" write
kill -KILL $pid
wait $pid 2>/dev/null
restore_link A
restore_link B
none() {
	[ "$(krdma status --transfers -j | json_at /transfers/#)" = 0 ]
}
check "no transfer stays" wait_for 60 none
works() {
	krdma put -q "$dir/data" nodeB/scratch
}
check "a new transfer works" wait_for 60 works

done_testing
