#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The module parameter timeout_scale: of two sessions over a network that loses all packets, the
# one that was made with the parameter set on both hosts lives longer, and works again when the
# network does.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes the wire lose packets"
need_nodes 2
need_cuts
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=0

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
parameter=/sys/module/krdma_mover/parameters/timeout_scale
set_scale() {
	on_nodes sh -c "echo $1 >$parameter"
}
for bad in 0 5 -1 x; do
	check_fails "a timeout_scale of $bad" set_scale $bad
done
is "what was refused has changed nothing" "$(on_nodes cat $parameter | tr '\n' ' ')" "1 1 "

listen_on B
export_on B scratch --size 1M
remember_leftovers

# A region that is open: the session is up on both sides.
regions_are() {
	[ "$(status A /regions/#)" = "$1" ]
}
sessions_are() {
	[ "$(status A /sessions/#)" = "$1" ]
}
mkfifo "$dir/hasty" "$dir/patient"
mover hold -p 10.77.0.2 scratch <"$dir/hasty" >/dev/null 2>&1 &
hasty=$!
exec 7>"$dir/hasty"
check "a session with timeout_scale 1" wait_for "$LIMIT" regions_are 1
set_scale 4
krdma put -q --timeout 300 - nodeB/scratch <"$dir/patient" >/dev/null 2>"$dir/err" 7>&- &
patient=$!
exec 8>"$dir/patient"
check "and one with timeout_scale 4" wait_for "$LIMIT" regions_are 2
last=$(status A /sessions/1/session)
set_scale 1

cut_wire data0
check "the first one ends when nothing is heard" wait_for "$LIMIT" sessions_are 1
is "the second one does not" "$(status A /sessions/0/session)" "$last"
mend_wire data0
exec 7>&-
if [ "$LAB_RDMA" = siw ]; then
	# The pauses of TCP have doubled seven times, iWARP has only a third more time.
	skip "it works when the wire does" "TCP may send again too late for it"
	exec 8>&-
	wait $patient
else
	# The target makes a key for it, while packets may still have to be sent again.
	head -c 1000 /dev/zero >&8
	exec 8>&-
	check "it works when the wire does" wait_for 120 is_over $patient
	wait $patient
	is "its transfer succeeds" "$?, $(<"$dir/err")" "0, "
	is "in the same session" "$(status A /sessions/0/session)" "$last"
fi
wait $hasty
end_sessions B
check_nothing_left "nothing is left of them" "$LIMIT"

done_testing
