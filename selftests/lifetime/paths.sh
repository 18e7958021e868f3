#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A session over two paths, each by an RDMA device of its own at both ends: both are used, as the
# policy says; each of them is cut under load, and its RDMA device deleted, that of the first channel
# as well, and no operation fails, no byte is wrong, and each message comes once; what was cut comes
# back. A session is made
# over the path that there is.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=selftests/lib/kill.sh
. "$(dirname "$0")/../lib/kill.sh"
need_lab "cuts the wire"
need_nodes 2
need_cuts
[ "$LAB_RDMA" = rxe ] || skip_all "a session has one path on iWARP"
[ -e /sys/class/net/data1 ] || skip_all "there is one wire"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
CUTS=${CUTS:-1}
CUT_SECONDS=${CUT_SECONDS:-3}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 3000000 /dev/urandom >"$dir/data"

fresh_module
load_killer
second_wire
listen_on B
export_on B scratch --size 16M
background B krdma recv messages
RECV_LOG=$BACKGROUND_LOG
wait_for "$LIMIT" grep -q "^receiving as messages$" "$RECV_LOG" || not_ok "recv publishes a name"
remember_leftovers

further=(--path 10.79.0.2)
krdma2() {
	local command=$1
	shift
	krdma "$command" "${further[@]}" "$@"
}
# path NODE INDEX MEMBER: of the only session. channel NODE INDEX MEMBER: likewise.
path() {
	status "$1" "/paths/$2/$3"
}
channel() {
	status "$1" "/channels/$2/$3"
}
# paths_are STATE STATE: of the initiator
paths_are() {
	[ "$(path A 0 state) $(path A 1 state)" = "$1 $2" ]
}
# all_up: each channel that there may be.
all_up() {
	paths_are up up && ! krdma status | grep -E '^channel .* state (closing|dead|connecting) '
}
moved() {
	echo $(($(path A "$1" bytes_written) + $(path A "$1" bytes_read)))
}
# wrote_since INDEX BYTES: more has moved over that path.
wrote_since() {
	[ "$(moved "$1")" -gt "$2" ]
}
ended() {
	krdma drain --timeout 5 >/dev/null 2>&1
	! krdma status | grep -q ^session
}

# hold [OPTION...]: a session that does not linger, until release.
hold() {
	rm -f "$dir/held"
	mkfifo "$dir/held"
	krdma2 put -q "$@" - nodeB/scratch@8M <"$dir/held" >"$dir/holder" 2>&1 &
	background_pids+=($!)
	exec 7>"$dir/held"
}
release() {
	exec 7>&-
	wait_for "$LIMIT" ended || not_ok "the session ends" "$(krdma status)"
}

# 1. Both are there, and used.
hold
check "a session over two paths" krdma2 put -q "$dir/data" nodeB/scratch
check "both are up" wait_for "$LIMIT" all_up
is "the first" "$(path A 0 peer) $(path A 0 device)" "10.77.0.2:7471 rxe0"
is "the second" "$(path A 1 peer) $(path A 1 device)" "10.79.0.2:7471 rxe_data1"
is "the target has them, too" "$(path B 0 state) $(path B 1 state) $(path B 1 device)" "up up rxe_data1"
before=$(moved 0) other=$(moved 1)
get_back() {
	krdma2 get -q nodeB/scratch@0+3000000 - | cmp "$dir/data" -
}
check "bytes are read back" get_back
check "over the first path" [ "$(moved 0)" -gt "$before" ]
check "and the second" [ "$(moved 1)" -gt "$other" ]
check "the same paths, the same session" krdma2 put -q "$dir/data" nodeB/scratch
check "also if the peer tells them" krdma put --path auto -q "$dir/data" nodeB/scratch
# One without paths has asked for them.
asked() {
	[ "$(krdma status | grep -c ^session)" = 1 ]
}
wait_for "$LIMIT" asked
is "which there is one of" "$(krdma status | grep -c ^session)" 1
release

hold --policy round-robin
check "in turn" krdma2 put -q --policy round-robin "$dir/data" nodeB/scratch
wait_for "$LIMIT" all_up || not_ok "both are up" "$(krdma status)"
before=$(path A 0 transfers) other=$(path A 1 transfers)
check "in turn, when both are up" taskset -c 0 krdma put --path 10.79.0.2 -q --policy round-robin "$dir/data" nodeB/scratch
before=$(($(path A 0 transfers) - before)) other=$(($(path A 1 transfers) - other))
check "as many operations over each ($before, $other)" [ $((before - other)) -le 1 -a $((other - before)) -le 1 ]
release
check "by latency" krdma2 put -q --policy latency "$dir/data" nodeB/scratch
wait_for "$LIMIT" ended || not_ok "it ends" "$(krdma status)"
check_fails "no such policy" krdma2 put -q --policy best "$dir/data" nodeB/scratch
check_fails "four more paths" krdma put -q --path 10.79.0.2 --path 10.79.0.3 --path 10.79.0.4 \
	--path 10.79.0.5 "$dir/data" nodeB/scratch

KAPI=${MODULE%/driver/*}/selftests/modules/krdma_kapi_test.ko
if [ -e "$KAPI" ]; then
	check "a kernel module that names two paths" insmod "$KAPI" what=loop depth=8 second=10.79.0.2
	check "has both" wait_for "$LIMIT" all_up
	before=$(moved 0) other=$(moved 1)
	check "its transfers go over the first" wait_for "$LIMIT" wrote_since 0 "$before"
	check "and the second" wait_for "$LIMIT" wrote_since 1 "$other"
	check "it goes" rmmod krdma_kapi_test
	wait_for "$LIMIT" ended || not_ok "its session ends" "$(krdma status)"
else
	skip "a kernel module that names two paths" "no $KAPI: run \"make samples\""
fi

# 2. Under load each is cut.
user() {
	local done=0 at
	while [ ! -e "$dir/stop" ]; do
		at=$((4000000 * $1 + done % 100))
		krdma2 put -q --timeout 120 "$dir/data" "nodeB/scratch@$at" 2>>"$dir/failed" &&
			krdma2 get -q --timeout 120 "nodeB/scratch@$at+3000000" - 2>>"$dir/failed" |
			cmp "$dir/data" - 2>>"$dir/failed" || echo "user $1" >>"$dir/failed"
		done=$((done + 1))
	done
	echo "$done" >"$dir/user.$1"
}
sender() {
	local done=0
	while [ ! -e "$dir/stop" ]; do
		seq $((done + 1)) $((done + 50)) | krdma2 send --lines --timeout 120 nodeB/messages \
			2>>"$dir/failed" || echo "sender" >>"$dir/failed"
		done=$((done + 50))
	done
	echo "$done" >"$dir/sent"
}
# cut_path INDEX DEVICE: for longer than it takes to notice.
cut_path() {
	local n before other
	for ((n = 0; n < CUTS; n++)); do
		wait_for "$LIMIT" all_up || break
		other=$(moved $((1 - $1)))
		cut_wire "$2"
		wait_for "$LIMIT" path_down "$1" || break
		wait_for "$LIMIT" wrote_since $((1 - $1)) "$other" || break
		# Long enough for attempts to fail: it is no wait for something.
		sleep "$CUT_SECONDS"
		other=$(moved $((1 - $1)))
		wait_for "$LIMIT" wrote_since $((1 - $1)) "$other" || break
		mend_wire "$2"
		wait_for "$LIMIT" all_up || break
		before=$(moved "$1")
		wait_for "$LIMIT" wrote_since "$1" "$before" || break
	done
	is "path $1 could be cut $CUTS times: the other one went on, and it came back" "$n" "$CUTS"
	[ "$n" = "$CUTS" ] || diag "$(krdma status; krdma status --transfers | head; dmesg | grep krdma_mover | tail)"
	mend_wire "$2"
}
# unplug INDEX NODE DEVICE NETDEV: the RDMA device goes, and comes again.
unplug() {
	local other before steps=0
	wait_for "$LIMIT" all_up && steps=1
	on -n "$2" rdma link del "$3" && steps=2
	wait_for "$LIMIT" path_down "$1" && steps=3
	other=$(moved $((1 - $1)))
	wait_for "$LIMIT" wrote_since $((1 - $1)) "$other" && steps=4
	on -n "$2" rdma link add "$3" type rxe netdev "$4" && steps=5
	wait_for "$LIMIT" all_up && steps=6
	before=$(moved "$1")
	wait_for "$LIMIT" wrote_since "$1" "$before" && steps=7
	is "$2's device of path $1 goes: the other one goes on, and it comes back" "$steps" 7
	[ "$steps" = 7 ] || diag "$(krdma status; krdma status --transfers | head; dmesg | grep krdma_mover | tail)"
}
path_down() {
	[ "$(path A "$1" state)" = down ]
}
: >"$dir/failed"
lost=$(counter A sessions_lost)
users=()
sender &
users+=($!)
wait_for "$LIMIT" all_up || not_ok "a session for messages" "$(krdma status)"
for ((i = 0; i < 3; i++)); do
	user $i &
	users+=($!)
done
background_pids+=("${users[@]}")
is "control is on the first path" "$(channel A 0 path)" 0
cut_path 1 data1
is "control was not lost" "$(counter A sessions_resumed)" 0
unplug 1 A rxe_data1 data1
unplug 1 B rxe_data1 data1
cut_path 0 data0
unplug 0 A rxe0 data0
unplug 0 B rxe0 data0
check "control was, and has found a way" [ "$(counter A sessions_resumed)" -gt 0 ]
touch "$dir/stop"
for pid in "${users[@]}"; do
	wait_for "$LIMIT" is_over "$pid" || not_ok "each user ends" "$(krdma status --transfers)"
done
diag "commands: $(cat "$dir"/user.* | xargs), messages: $(<"$dir/sent"), done again: $(counter A transfers_replayed)"
is "no command has failed, and no byte is wrong" "$(<"$dir/failed")" ""
delivered() {
	[ "$(grep -c ' value 0: ' "$RECV_LOG")" -ge "$(<"$dir/sent")" ]
}
wait_for "$LIMIT" delivered
check_here "each message came once, and in order" \
	cmp <(seq "$(<"$dir/sent")") <(sed -n 's/.* value 0: //p' "$RECV_LOG")
is "no transfer has failed" "$(counter A transfers_failed)" 0
is "no session was lost" "$(counter A sessions_lost)" "$lost"
wait_for "$LIMIT" ended || not_ok "it ends" "$(krdma status)"

# 3. A session is made over the path that there is.
cut_wire data0
check "without the first path" krdma2 put -q --timeout 60 "$dir/data" nodeB/scratch
is "it is down" "$(path A 0 state) $(path A 1 state)" "down up"
mend_wire data0
check "when it is back, it is used" wait_for "$LIMIT" all_up
wait_for "$LIMIT" ended || not_ok "it ends" "$(krdma status)"

# 4. Queue pairs of the second path go on, but none can be connected there: its connects are dropped.
hold
wait_for "$LIMIT" all_up || not_ok "a session over both" "$(krdma status)"
on -n B tc filter add dev data1 ingress pref 1 protocol ip u32 match ip protocol 17 0xff \
	match u32 1 0x00ffffff at 32 action drop
resumed=$(counter A sessions_resumed)
has_resumed() {
	[ "$(counter A sessions_resumed)" -gt "$resumed" ]
}
check_here "the first channel is lost" lose_channel A 0
check "it is connected again" wait_for "$LIMIT" has_resumed
is "over the path that accepts it" "$(channel A 0 path)" 0
mend_wire data1
release

# 5. One that fails fast ends with its last path.
lost=$(counter A sessions_lost)
is_lost() {
	[ "$(counter A sessions_lost)" -gt "$lost" ]
}
hold --resume 0
wait_for "$LIMIT" all_up || not_ok "a session that fails fast" "$(krdma status)"
cut_wire data0
check "a session that fails fast loses the path of its first channel" wait_for "$LIMIT" path_down 0
check "and goes on over the other one" krdma2 put -q --resume 0 --timeout 60 "$dir/data" nodeB/scratch
is "it is the same session" "$(counter A sessions_lost) $(krdma status | grep -c ^session)" "$lost 1"
cut_wire data1
check "without any path it ends" wait_for "$LIMIT" is_lost
mend_wire data0
mend_wire data1
release

# 6. Two of three are lost at once: the first channel does not stay with an attempt on the second.
on -n B ip addr add 10.77.0.12/24 dev data0
at_end on -n B ip addr del 10.77.0.12/24 dev data0
keep_neighbours data0 "$LOCAL_V4" 10.77.0.12 || not_ok "the nodes know the other address"
further=(--path 10.77.0.12 --path 10.79.0.2)
lost=$(counter A sessions_lost)
hold --resume 0
three_up() {
	all_up && [ "$(path A 2 state)" = up ]
}
third_has_control() {
	[ "$(channel A 0 path) $(channel A 0 state)" = "2 up" ]
}
check "a session over three paths" wait_for "$LIMIT" three_up
cut_wire data0
check_here "the first channel is lost, and the second path" lose_channel A 0
check "control finds the third" wait_for "$LIMIT" third_has_control
check "and the session goes on" krdma2 put -q --resume 0 --timeout 60 "$dir/data" nodeB/scratch
is "it is the same session" "$(counter A sessions_lost) $(krdma status | grep -c ^session)" "$lost 1"
mend_wire data0
release

end_sessions B
check_nothing_left "nothing is left" "$LIMIT"
on -n B pkill -x krdma

done_testing
