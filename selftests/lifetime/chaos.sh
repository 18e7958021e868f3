#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Many users at once, while links, listeners and exports come and go at random, for CHAOS seconds.
# At the end no object is left. SEED repeats the choices, but not the moments:
#
#	selftests/tools/vm/lab run -c 2 -e CHAOS=120 selftests/lifetime/chaos.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"
need_nodes 2
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-120}
CHAOS=${CHAOS:-8}
USERS=${USERS:-6}
SEED=${SEED:-$((10#$(date +%N) % 32768))}
RANDOM=$SEED
diag "SEED=$SEED CHAOS=$CHAOS USERS=$USERS"

dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 3000000 /dev/urandom >"$dir/data"

# One that uses node B in every way until told to stop, whatever comes of it.
# shellcheck disable=SC2030,SC2031 # the subshell's own
user() {
	RANDOM=$(($1 * 77 + SEED))
	local done=0 failed=0
	while [ ! -e "$dir/stop" ]; do
		case $((RANDOM % 8)) in
		0) krdma put -q "$dir/data" "nodeB/scratch@$((RANDOM * 100))" ;;
		1) krdma get -q "nodeB/scratch@$((RANDOM * 100))+2000000" - ;;
		2) krdma ping -c 20 nodeB ;;
		3) krdma ls nodeB ;;
		4) krdma bench write nodeB/scratch -s 64K -D 0.7 ;;
		5) krdma bench read nodeB/scratch -s 1M -D 0.7 --pinned ;;
		6) mover scatter -p -n 40 -b 8192 -s "$1" 10.77.0.2 few ;;
		7) timeout -s KILL "0.$RANDOM" krdma bench write nodeB/scratch -s 256K -D 100 ;;
		esac >/dev/null 2>&1 && done=$((done + 1)) || failed=$((failed + 1))
	done
	echo "$done $failed" >"$dir/user.$1"
}

exports() {
	export_on B scratch --size 16M && scratch=$EXPORT_PID scratch_client=$BACKGROUND_PID
	export_on B few --size 1G --max-segments 8 && few=$EXPORT_PID few_client=$BACKGROUND_PID
}

fresh_module
listen_on B
remember_leftovers
exports

users=()
for ((i = 0; i < USERS; i++)); do
	user $i &
	users+=($!)
done

end=$((SECONDS + CHAOS))
actions=0
while [ $SECONDS -lt $end ]; do
	sleep "0.$RANDOM"
	actions=$((actions + 1))
	case $((RANDOM % 7)) in
	0 | 1)
		node=A
		[ $((RANDOM % 2)) = 0 ] || node=B
		on -n $node rdma link delete "$LAB_RDMA_DEV"
		restore_link $node
		;;
	2) end_sessions B ;;
	3)
		on -n B kill "-$((RANDOM % 2 ? 9 : 15))" "$scratch"
		wait "$scratch_client" 2>/dev/null
		export_on B scratch --size 16M
		scratch=$EXPORT_PID scratch_client=$BACKGROUND_PID
		;;
	4)
		on -n B kill -9 "$few"
		wait "$few_client" 2>/dev/null
		export_on B few --size 1G --max-segments $((RANDOM % 16 + 1))
		few=$EXPORT_PID few_client=$BACKGROUND_PID
		;;
	*) krdma status >/dev/null && krdma status --transfers >/dev/null && on -n B krdma status >/dev/null ;;
	esac
done
touch "$dir/stop"

stuck=0
for pid in "${users[@]}"; do
	wait_for "$LIMIT" is_over "$pid" || stuck=$((stuck + 1))
done
diag "$actions actions; commands that were done, and failed: $(cat "$dir"/user.* | xargs)"
is "all users end" $stuck 0
works() {
	krdma put -q "$dir/data" nodeB/scratch && krdma get -q nodeB/scratch@0+3000000 "$dir/back" &&
		cmp "$dir/data" "$dir/back"
}
check "transfers work afterwards" wait_for "$LIMIT" works
on -n B kill "$scratch" "$few"
wait "$scratch_client" "$few_client"
end_sessions B
check_nothing_left "nothing is left" "$LIMIT"
check_unload "both modules can be unloaded" "$LIMIT"

done_testing
