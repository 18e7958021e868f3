#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queue pairs of a session go to error, LOSSES times, on either node, the first channel's as well,
# the wire is cut, FLAPS times for 1 to FLAP_SECONDS, and the RDMA device of either node is deleted
# and made again, DELETIONS times, while several users write patterns, read
# them and compare, one sends messages, and one has messages behind its WRITEs. No
# operation fails, no byte is wrong, and each message comes once and in order, as work requests
# are posted again, and control messages sent again. SEED repeats the choices, but not the moments.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=selftests/lib/kill.sh
. "$(dirname "$0")/../lib/kill.sh"
need_lab "breaks queue pairs"
need_nodes 2
need_cuts
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
LOSSES=${LOSSES:-$((TIME_FACTOR > 1 ? 4 : 10))}
FLAPS=${FLAPS:-2}
DELETIONS=${DELETIONS:-2}
FLAP_SECONDS=${FLAP_SECONDS:-3}
USERS=${USERS:-3}
SEED=${SEED:-$((10#$(date +%N) % 32768))}
RANDOM=$SEED
diag "SEED=$SEED LOSSES=$LOSSES FLAPS=$FLAPS DELETIONS=$DELETIONS USERS=$USERS"
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 5000000 /dev/urandom >"$dir/data"

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
load_killer
fresh_module
listen_on B
for ((i = 0; i <= USERS; i++)); do
	export_on B "scratch$i" --size 16M
done
background B krdma recv messages
RECV_LOG=$BACKGROUND_LOG
wait_for "$LIMIT" grep -q "^receiving as messages$" "$RECV_LOG" || not_ok "recv publishes a name"
TELL=$(cd "$(dirname "$0")" && pwd)/tell
remember_leftovers

# sender: numbers, until told to stop; the last one was sent before.
sender() {
	local done=$1
	while [ ! -e "$dir/stop" ]; do
		seq $((done + 1)) $((done + 100)) | krdma send --lines --timeout 300 nodeB/messages \
			2>>"$dir/failed" || echo "sender" >>"$dir/failed"
		done=$((done + 100))
	done
	echo "$done" >"$dir/sent"
}
# teller: WRITEs with messages behind them, until told to stop.
teller() {
	"$TELL" nodeB told "$dir/stop" >"$dir/told" 2>>"$dir/failed" || echo "teller" >>"$dir/failed"
}
# told: all of them have arrived, and were right.
told() {
	[ "$(tail -n 1 "$TOLD_LOG")" = "$(<"$dir/told")" ]
}
# delivered: all that were sent.
delivered() {
	[ "$(grep -c ' value 0: ' "$RECV_LOG")" -ge "$(<"$dir/sent")" ]
}

# user NUMBER: until told to stop. Each command that fails leaves its reason in $dir/failed.
user() {
	local done=0
	while [ ! -e "$dir/stop" ]; do
		if [ "$1" = 0 ]; then
			krdma put -q --timeout 300 "$dir/data" "nodeB/scratch0@$((done % 100))" &&
				krdma get -q --timeout 300 "nodeB/scratch0@$((done % 100))+5000000" - | cmp "$dir/data" -
		else
			mover scatter -n 300 -b $((7000 * $1)) -s $done 10.77.0.2 "scratch$1"
		fi 2>>"$dir/failed" || echo "user $1" >>"$dir/failed"
		done=$((done + 1))
	done
	echo $done >"$dir/user.$1"
}

# channel NODE INDEX: bytes of one
channel() {
	read -r _ _ _ bytes < <(channels "$1" | grep "^$2 ")
}
# all_up NUMBER: so many channels on each node.
all_up() {
	[ "$({ channels A && channels B; } | grep -c ' up ')" = $((2 * $1)) ]
}
# Has it written since?
busy() {
	channel A "$1" && [ "$bytes" -gt "$2" ]
}

# break_channels CHANNELS LOSSES: every other time the first.
break_channels() {
	local index used node lost
	for ((lost = 0; lost < $2; lost++)); do
		index=$((lost % 2 && $1 > 1 ? 1 + RANDOM % ($1 - 1) : 0))
		node=A
		[ $((RANDOM % 2)) = 0 ] || node=B
		wait_for "$LIMIT" all_up "$1" || break
		# With one processor all is on the first of them.
		[ "$(nproc)" -gt 1 ] || index=$((index > 0))
		# Data goes over the first only where there is no other.
		used=$(($1 > 1 && !index ? 1 : index))
		channel A "$used"
		wait_for "$LIMIT" busy "$used" "$bytes" || break
		lose_channel "$node" "$index" || break
	done
	is "$1 channels: $2 queue pairs could be broken, and each loss was noticed" "$lost" "$2"
}

# flap_wire TIMES: it loses all packets for a while, and then there is some work again.
flap_wire() {
	local n node
	for ((n = 0; n < $1; n++)); do
		node=A
		[ $((RANDOM % 2)) = 0 ] || node=B
		# The time is what is tested: it is no wait for something.
		{ cut_wire data0 "$node" && sleep $((1 + RANDOM % FLAP_SECONDS)) && mend_wire data0 "$node"; } || break
		channel A 0
		before=$(counter A writes)
		wait_for "$LIMIT" moves "$before" || break
	done
	is "the wire could be cut $1 times, and work went on each time" "$n" "$1"
}
# delete_devices TIMES: and there is none for a moment, and then some work again.
delete_devices() {
	local n node
	for ((n = 0; n < $1; n++)); do
		node=A
		[ $((RANDOM % 2)) = 0 ] || node=B
		on -n "$node" rdma link del "$LAB_RDMA_DEV" || break
		before=$(counter A writes)
		on -n "$node" rdma link add "$LAB_RDMA_DEV" type "$LAB_RDMA" netdev data0 || break
		wait_for "$LIMIT" moves "$before" || break
	done
	is "the RDMA device could be deleted $1 times, and work went on each time" "$n" "$1"
	[ "$n" = "$1" ] || diag "$(krdma status; on -n B krdma status)"
}
moves() {
	[ "$(counter A writes)" -gt $(($1 + 20)) ]
}

# campaign CHANNELS LOSSES FLAPS DELETIONS
campaign() {
	local sent=0 pid i users=() replayed resumed ended
	[ ! -e "$dir/sent" ] || sent=$(<"$dir/sent")
	rm -f "$dir/stop"
	: >"$dir/failed"
	replayed=$(counter A transfers_replayed)
	resumed=$(counter A sessions_resumed)
	ended=$(counter A sessions_lost)
	on_nodes sh -c "echo $1 >/sys/module/krdma_mover/parameters/channels"
	background B "$TELL" told
	TOLD_LOG=$BACKGROUND_LOG
	TOLD_PID=$BACKGROUND_PID
	wait_for "$LIMIT" grep -q ^published "$TOLD_LOG" || not_ok "tell publishes a name"
	# A session for messages serves the others as well: it is the first.
	sender "$sent" &
	background_pids+=($!)
	users+=($!)
	wait_for "$LIMIT" all_up "$1" || not_ok "a session for messages" "$(krdma status)"
	teller &
	background_pids+=($!)
	users+=($!)
	for ((i = 0; i <= USERS; i++)); do
		user "$i" &
		background_pids+=($!)
		users+=($!)
	done
	break_channels "$1" "$2"
	[ "$3" = 0 ] || flap_wire "$3"
	[ "$4" = 0 ] || delete_devices "$4"
	check "$1 channels: they are made anew" wait_for "$LIMIT" all_up "$1"
	touch "$dir/stop"
	for pid in "${users[@]}"; do
		wait_for "$LIMIT" is_over "$pid" || not_ok "each user ends" "$(krdma status --transfers)"
	done
	diag "commands: $(cat "$dir"/user.* | xargs), messages: $(<"$dir/sent")"
	diag "done again: $(($(counter A transfers_replayed) - replayed))"
	is "$1 channels: no command has failed, and no byte is wrong" "$(<"$dir/failed")" ""
	wait_for "$LIMIT" delivered
	check_here "$1 channels: each message came once, and in order" \
		cmp <(seq "$(<"$dir/sent")") <(sed -n 's/.* value 0: //p' "$RECV_LOG")
	wait_for "$LIMIT" told
	is "$1 channels: each WRITE was there before its message" \
		"$(tail -n 1 "$TOLD_LOG")" "$(<"$dir/told")"
	diag "WRITEs with a message: $(<"$dir/told")"
	on -n B pkill -x tell
	wait_for "$LIMIT" is_over "$TOLD_PID"
	check "$1 channels: some of it was done again" [ "$(counter A transfers_replayed)" -gt "$replayed" ]
	check "$1 channels: the first was lost, and came back" [ "$(counter A sessions_resumed)" -gt "$resumed" ]
	is "$1 channels: no transfer has failed" "$(counter A transfers_failed)" 0
	is "$1 channels: the session was not lost" "$(counter A sessions_lost)" "$ended"
	end_sessions B
}

# On iWARP a session has one channel in any case.
[ "$LAB_RDMA" = siw ] ||
	campaign 3 $((LOSSES - LOSSES / 2)) $((FLAPS - FLAPS / 2)) $((DELETIONS - DELETIONS / 2))
campaign 1 $((LOSSES / 2)) $((FLAPS / 2)) $((DELETIONS / 2))
check_nothing_left "nothing is left" "$LIMIT"
on -n B pkill -x krdma

done_testing
