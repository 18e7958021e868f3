#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The addresses of a session move to other RDMA devices, as those of a bond do, while the devices of before
# stay: the session goes on there, with its regions, at both ends; and back again.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "moves addresses"
need_nodes 2
[ "$LAB_RDMA" = rxe ] || skip_all "there is one device of siw"
[ -e /sys/class/net/data1 ] || skip_all "there is one wire"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 3000000 /dev/urandom >"$dir/data"

# move_addresses FROM TO: network devices
move_addresses() {
	on -n A sh -c "ip addr del $LOCAL_V4/24 dev $1; ip addr replace $LOCAL_V4/24 dev $2" &&
		on -n B sh -c "ip addr del $REMOTE_V4/24 dev $1; ip addr replace $REMOTE_V4/24 dev $2"
}
at_end on -n A ip addr replace "$LOCAL_V4/24" dev data0
at_end on -n B ip addr replace "$REMOTE_V4/24" dev data0

fresh_module
# Two for data, which are idle while the first one is lost.
on_nodes sh -c 'echo 3 >/sys/module/krdma_mover/parameters/channels'
second_wire
listen_on B
export_on B scratch --size 16M
remember_leftovers

# is_over DEVICE: both ends of the only session, which is the one of before.
is_over() {
	[ "$(status A /paths/0/state) $(status A /paths/0/device) $(status B /paths/0/device)" = "up $1 $1" ] &&
		[ "$(status A /paths/0/channels)" = 3 ] &&
		[ "$(krdma status | sed -n 's/^session \([0-9]*\) .*/\1/p')" = "$session" ]
}
get_back() {
	krdma get -q --timeout 60 nodeB/scratch@0+3000000 - | cmp "$dir/data" -
}
ended() {
	krdma drain --timeout 5 >/dev/null 2>&1
	! krdma status | grep -q ^session
}

mkfifo "$dir/held"
krdma put -q --timeout 60 - nodeB/scratch@8M <"$dir/held" >"$dir/holder" 2>&1 &
holder=$!
exec 7>"$dir/held"
head -c 1000000 "$dir/data" >&7
check "a session" krdma put -q "$dir/data" nodeB/scratch
session=$(krdma status | sed -n 's/^session \([0-9]*\) .*/\1/p')
check "over the first device" wait_for "$LIMIT" is_over rxe0

check "the addresses move" move_addresses data0 data1
keep_neighbours data1 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other there"
check "a command of the same session reads what was written" get_back
check "the session is over the second device" wait_for "$LIMIT" is_over rxe_data1
head -c 1000000 "$dir/data" >&7

check "and back" move_addresses data1 data0
check "the same" get_back
check "over the first again" wait_for "$LIMIT" is_over rxe0
head -c 1000000 "$dir/data" >&7
exec 7>&-
check_here "a region that was opened before has been written all the time" wait "$holder" || diag "$(<"$dir/holder")"
check_here "with the right bytes" cmp <(for _ in 1 2 3; do head -c 1000000 "$dir/data"; done) \
	<(krdma get -q nodeB/scratch@8M+3000000 -)
wait_for "$LIMIT" ended || not_ok "the session ends" "$(krdma status)"
check_nothing_left "nothing is left of it"
done_testing
