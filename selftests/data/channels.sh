#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Channels: a session has one for each processor's data, none of which goes over the first. One
# that the wire cuts off is lost alone: the others go on, and what was posted on it is done again by
# them, when the target has destroyed its queue pair (FENCE); it is made anew when it can be. The test runs on two processors or more.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes the wire lose the packets of one queue pair"
need_nodes 2
need_cuts
need_command taskset
[ "$LAB_RDMA" = rxe ] || skip_all "iWARP has one channel"
[ "$(nproc)" -gt 1 ] || skip_all "one processor has one channel"
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 4096 /dev/urandom >"$dir/bytes"

fresh_module
parameter=/sys/module/krdma_mover/parameters/channels
for bad in 10 -1 x; do
	check_fails "$bad channels" sh -c "echo $bad >$parameter"
done
on_nodes sh -c "echo 3 >$parameter"
listen_on B
export_on B scratch --size 1M
remember_leftovers

# channel NODE INDEX MEMBER: of the only session.
channel() {
	status "$1" "/channels/$2/$3"
}
channels_are() {
	local node
	for node in A B; do
		[ "$(status "$node" /channels/#)" = 3 ] && [ "$(channel "$node" 0 state)" = up ] &&
			[ "$(channel "$node" 1 state)" = up ] &&
			[ "$(channel "$node" 2 state)" = up ] || return 1
	done
}
# put CPU: 4096 bytes, from there.
put() {
	taskset -c "$1" krdma put -q --timeout $((60 * TIME_FACTOR)) "$dir/bytes" nodeB/scratch 7>&-
}
written() {
	echo "$(channel A 0 bytes_written) $(channel A 1 bytes_written)" \
		"$(channel A 2 bytes_written)"
}

# It does not end by itself meanwhile.
mkfifo "$dir/held"
mover hold 10.77.0.2 scratch <"$dir/held" >"$dir/hold" 2>&1 &
hold=$!
background_pids+=("$hold")
exec 7>"$dir/held"
check "a session has three channels, up at both ends" wait_for "$LIMIT" channels_are
check "one processor" put 0
is "a processor's bytes do not go over the first" "$(written)" "0 4096 0"
check "the other processor" put 1
is "its bytes go over the other" "$(written)" "0 4096 4096"
check "each again" eval "put 1 && put 0"
is "and again" "$(written)" "0 8192 8192"

# lose NUMBER QP: all that is for that queue pair of B: RoCE's UDP, and its destination at byte 32.
lose() {
	on -n B tc filter add dev data0 ingress pref "$1" protocol ip u32 \
		match ip protocol 17 0xff match u32 "$2" 0x00ffffff at 32 action drop
}
qp=$(printf '0x%x' "$(channel B 2 qp)")
lose 1 "$qp"
# Nor is it connected anew.
lose 2 1
put 1 2>"$dir/text" &
lost=$!
n=0
while ! is_over $lost && put 0; do
	n=$((n + 1))
done
wait $lost
is "what is posted on a channel without a wire does not fail" $? 0
is "nothing is said" "$(<"$dir/text")" ""
is "it was done again" "$(counter A transfers_replayed)" 1
check "the other one has gone on ($n times)" [ "$n" -gt 0 ]
gone() {
	[ "$(channel B 2 state)" != up ] && [ "$(channel A 2 state)" != up ]
}
check "though the channel is not connected anew" gone
check "a READ of that processor goes over another one" taskset -c 1 krdma get -q nodeB/scratch "$dir/back" 7>&-
check "and a WRITE" put 1
on -n B tc filter del dev data0 ingress pref 2
check "the channel is made anew" wait_for "$LIMIT" channels_are
check "with another queue pair" [ "$(printf '0x%x' "$(channel B 2 qp)")" != "$qp" ]
before=$(channel A 2 bytes_written)
check "and is used" put 1
is "for all" "$(($(channel A 2 bytes_written) - before))" 4096
is "one channel was lost" "$(counter A channels_lost)" 1
is "and no session" "$(counter A sessions_lost)" 0

exec 7>&-
wait "$hold"
end_sessions B
check_nothing_left "nothing is left" "$LIMIT"

done_testing
