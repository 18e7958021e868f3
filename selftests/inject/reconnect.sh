#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A session with messages loses its connection, and each call that it takes to connect again fails
# once, on either node: another attempt succeeds, and each message comes once and in order. Needs a
# kernel with fault injection (driver/inject.c), such as those of 'selftests/tools/kernels'.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=selftests/lib/kill.sh
. "$(dirname "$0")/../lib/kill.sh"
need_lab "breaks queue pairs"
need_nodes 2
[ -z "${LAB_ONE_KERNEL-}" ] || skip_all "each node needs a kernel of its own"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
fail=/sys/kernel/debug/krdma_mover_fail
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
[ -d $fail ] || skip_all "this kernel has no fault injection"
load_killer
on_nodes sh -c 'echo 1 >/sys/module/krdma_mover/parameters/channels'
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
listen_on B
background B krdma recv messages
received=$BACKGROUND_LOG
wait_for "$LIMIT" grep -q "^receiving as messages$" "$received" || not_ok "recv publishes a name"
remember_leftovers

mkfifo "$dir/lines"
krdma send --lines --timeout 300 nodeB/messages <"$dir/lines" 2>"$dir/said" &
sender=$!
background_pids+=("$sender")
exec 8>"$dir/lines"
sent=0
# message: one more arrives.
arrived() {
	[ "$(grep -c ' value 0: ' "$received")" -ge "$sent" ]
}
message() {
	sent=$((sent + 1))
	echo "$sent" >&8
	wait_for "$LIMIT" arrived
}
check_here "a message arrives" message

is_up() {
	channels A | grep -q ' up ' && channels B | grep -q ' up '
}
connect_again() {
	lose_channel A 0 && wait_for "$LIMIT" is_up
}
# points NODE: each call, and how often it has been reached. What is posted belongs to requests, which
# a refusal ends (refused.sh); and commands of this test, not the connection, reach those of frontend/.
points() {
	on -n "$1" cat $fail/points | grep -v -e '^frontend/' -e ' ib_post_send ' | awk '{ print $1, $2, $4 }' | sort
}
for node in A B; do
	points $node >"$dir/before.$node"
done
check_here "without faults it is connected again" connect_again
for node in A B; do
	comm -13 "$dir/before.$node" <(points $node) >"$dir/points.$node"
done

# fails NODE POINT: once.
fails() {
	on -n "$1" sh -c "echo '$2 1' >$fail/arm"
	connect_again && [ "$(on -n "$1" cut -d ' ' -f 2 "$fail/arm")" = 0 ] && message
}
for node in A B; do
	while read -r point call _ <&3; do
		check_here "$node: $call of $point fails" fails $node "$point"
	done 3<"$dir/points.$node"
	check "there are faults of node $node" [ "$(wc -l <"$dir/points.$node")" -gt 5 ]
done
exec 8>&-
wait "$sender"
is "the sender ends well" "$?, $(<"$dir/said")" "0, "
check_here "each message came once, and in order" cmp <(seq "$sent") <(sed -n 's/.* value 0: //p' "$received")
end_sessions B
on -n B pkill -x krdma
check_nothing_left "nothing is left" "$LIMIT"
done_testing
