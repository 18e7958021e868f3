#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deadlines: an operation that can't be done in time ends, and says why.
# shellcheck source=selftests/tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_nodes 2
need_command tc
PATIENCE=1
helper json_at mover

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on B
export_on B scratch --size 64M
remember_leftovers

# A peer that works but can't be as fast as that.
mkfifo "$dir/fifo"
mover hold 10.77.0.2 scratch <"$dir/fifo" >/dev/null 2>&1 &
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
check "the next transfer works" mover scatter -n 20 10.77.0.2 scratch
exec 7>&-
wait $holder
end_sessions B

# Of two sessions over a wire that loses everything, the one made with patience on both
# sides outlives the other, and works again when the wire does.
patience=/sys/module/krdma_mover/parameters/patience
set_patience() {
	on_nodes sh -c "echo $1 >$patience"
}
for bad in 0 5 -1 x; do
	check_fails "a patience of $bad" set_patience "$bad"
done
sessions_are() {
	[ "$(status A /sessions/#)" = "$1" ]
}
mkfifo "$dir/hasty" "$dir/patient"
mover hold -p 10.77.0.2 scratch <"$dir/hasty" >/dev/null 2>&1 &
hasty=$!
exec 7>"$dir/hasty"
wait_for 60 sessions_are 1
set_patience 4
krdma put -q --timeout 300 - nodeB/scratch <"$dir/patient" >/dev/null 2>"$dir/err" 7>&- &
patient=$!
exec 8>"$dir/patient"
wait_for 60 sessions_are 2
last=$(status A /sessions/1/session)
set_patience 1
tc qdisc replace dev data0 root netem loss 100%
check "a session without patience ends when nothing is heard" wait_for "$LIMIT" sessions_are 1
is "one with patience does not" "$(status A /sessions/0/session)" "$last"
tc qdisc del dev data0 root
# A key that is made while packets are sent again is too much for rxe of Linux 6.1.
check "and works when the wire does" wait_for "$LIMIT" krdma ping -c 1 nodeB
head -c 1000 /dev/zero >&8
exec 7>&- 8>&-
wait $patient
is "its transfer succeeds" "$?, $(<"$dir/err")" "0, "
is "it is the same still" "$(status A /sessions/0/session)" "$last"
kill $hasty 2>/dev/null
wait $hasty
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
	'the deadline passed after|the session with 10.77.0.2:7471 is lost: '
gone() {
	[ "$(status A /sessions/#)" = 0 ]
}
wait_for "$LIMIT" gone
krdma ls --timeout 2 nodeB >/dev/null 2>"$dir/err" &
check_failed "the deadline of a connect" "$LIMIT" $! "$dir/err" 'connect to 10.77.0.2:7471: no answer in time'
restore_link A
restore_link B
works() {
	krdma put -q "$0" nodeB/scratch
}
check "a new connect works" wait_for "$LIMIT" works
end_sessions B
check_nothing_left "nothing is left of them" "$LIMIT"

done_testing
