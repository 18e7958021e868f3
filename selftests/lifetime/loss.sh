#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queue pairs of a session go to error, LOSSES times, on either node, while several users write
# patterns, read them and compare. No operation fails and no byte is wrong, as what was posted is
# done again. SEED repeats the choices, but not the moments.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "breaks queue pairs"
need_nodes 2
[ "$LAB_RDMA" = rxe ] || skip_all "iWARP has one channel"
KILLER=${MODULE%/driver/*}/selftests/modules/krdma_kill_test.ko
[ -e "$KILLER" ] || skip_all "no $KILLER: run \"make samples\""
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-60}
LOSSES=${LOSSES:-$((TIME_FACTOR > 1 ? 4 : 10))}
USERS=${USERS:-3}
SEED=${SEED:-$((10#$(date +%N) % 32768))}
RANDOM=$SEED
diag "SEED=$SEED LOSSES=$LOSSES USERS=$USERS"
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 5000000 /dev/urandom >"$dir/data"

on_nodes insmod "$KILLER"
at_end on_nodes rmmod krdma_kill_test
fresh_module
on_nodes sh -c 'echo 3 >/sys/module/krdma_mover/parameters/channels'
listen_on B
exporters=()
for ((i = 0; i <= USERS; i++)); do
	export_on B "scratch$i" --size 16M
	exporters+=("$EXPORT_PID")
done
remember_leftovers

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

# channels NODE: index, state, queue pair and bytes written of those beside the first
channels() {
	on -n "$1" krdma status | sed -En \
		's/^channel ([1-9]) .* state (\w+) .* qp ([0-9]+) .* bytes_written ([0-9]+).*/\1 \2 \3 \4/p'
}
# channel NODE INDEX: queue pair and bytes of one
channel() {
	read -r _ _ qp bytes < <(channels "$1" | grep "^$2 ")
}
all_up() {
	[ "$({ channels A && channels B; } | grep -c ' up ')" = 4 ]
}
# Has it written since?
busy() {
	channel A "$1" && [ "$bytes" -gt "$2" ]
}

# noticed NUMBER: so many losses.
noticed() {
	[ "$(counter A channels_lost)" = "$1" ]
}

for ((i = 0; i <= USERS; i++)); do
	user "$i" &
	background_pids+=($!)
	users[i]=$!
done
lost=0
for ((kill = 0; kill < LOSSES; kill++)); do
	index=$((1 + RANDOM % 2))
	node=A
	[ $((RANDOM % 2)) = 0 ] || node=B
	wait_for "$LIMIT" all_up || break
	# With one processor all is on the first of them.
	[ "$(nproc)" -gt 1 ] || index=1
	channel A "$index"
	wait_for "$LIMIT" busy "$index" "$bytes" || break
	channel "$node" "$index"
	on -n "$node" sh -c "echo $qp >/sys/module/krdma_kill_test/parameters/qp" || break
	# Its end has to be noticed before the next.
	wait_for "$LIMIT" noticed $((kill + 1)) || break
	lost=$((lost + 1))
done
is "all queue pairs could be broken, and each loss was noticed" "$lost" "$LOSSES"
check "the channels are made anew" wait_for "$LIMIT" all_up
touch "$dir/stop"
for pid in "${users[@]}"; do
	wait_for "$LIMIT" is_over "$pid" || not_ok "each user ends" "$(krdma status --transfers)"
done
diag "commands: $(cat "$dir"/user.* | xargs); done again: $(counter A transfers_replayed)"
is "no command has failed, and no byte is wrong" "$(cat "$dir/failed")" ""
check "some of it was done again" [ "$(counter A transfers_replayed)" -gt 0 ]
is "no transfer has failed" "$(counter A transfers_failed)" 0
is "the session was not lost" "$(counter A sessions_lost)" 0
end_sessions B
check_nothing_left "nothing is left" "$LIMIT"
on -n B kill "${exporters[@]}"

done_testing
