#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An operation that can't complete in time ends at its deadline, and its error text has the reason.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "takes the link down"
need_nodes 2
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on B
export_on B scratch --size 64M
remember_leftovers

# A peer that works but can't be as fast as that.
mkfifo "$dir/fifo"
mover hold "$REMOTE_V4" scratch <"$dir/fifo" >/dev/null 2>&1 &
holder=$!
exec 7>"$dir/fifo"
has_region() {
	[ "$(status A /regions/#)" = 1 ]
}
wait_for 60 has_region
timed_out=$(counter A transfers_timed_out)
krdma bench write nodeB/scratch -s 64M -t 16 --timeout 0.5 -D 1000 >/dev/null 2>"$dir/err" &
check_failed "a deadline that is too short" "$LIMIT" $! "$dir/err" 'the deadline passed after [0-9]+ of 67108864 bytes'
check "it is counted" [ "$(counter A transfers_timed_out)" -gt "$timed_out" ]
is "no session is lost by it" "$(status A /sessions/#)" 1
check "the next transfer works" mover scatter -n 20 "$REMOTE_V4" scratch
exec 7>&-
wait $holder
end_sessions B

# A peer that can't be reached any more: put waits with the region open.
mkfifo "$dir/fifo2"
krdma put -q --timeout 2 - nodeB/scratch <"$dir/fifo2" >/dev/null 2>"$dir/err" &
pid=$!
exec 7>"$dir/fifo2"
wait_for 60 has_region
on -n B ip link set data0 down
head -c 1000 /dev/zero >&7
exec 7>&-
check_failed "a deadline with the wire down" "$LIMIT" $pid "$dir/err" \
	"the deadline passed after|the session with $REMOTE_V4:7471 is lost: "
gone() {
	[ "$(status A /sessions/#)" = 0 ]
}
wait_for "$LIMIT" gone
krdma ls --timeout 2 nodeB >/dev/null 2>"$dir/err" &
check_failed "the deadline of a connect" "$LIMIT" $! "$dir/err" "connect to $REMOTE_V4:7471: no reply in time"
restore_link A
restore_link B
works() {
	krdma put -q "$0" nodeB/scratch
}
check "a new connect works" wait_for "$LIMIT" works
end_sessions B
check_nothing_left "nothing is left of them" "$LIMIT"

done_testing
