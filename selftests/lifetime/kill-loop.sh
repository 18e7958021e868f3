#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kill -9 at random moments of put, get, bench and export, on either node. KILLS is the number of
# kills, SEED repeats the choices:
#
#	selftests/tools/vm/lab run -e KILLS=200 selftests/lifetime/kill-loop.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2

LIMIT=${LIMIT:-60}
KILLS=${KILLS:-20}
SEED=${SEED:-$((10#$(date +%N) % 32768))}
RANDOM=$SEED
diag "SEED=$SEED KILLS=$KILLS"

declare -A exporter=() exporter_client=() peer=([A]=B [B]=A) killed=()
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 8000000 /dev/urandom >"$dir/data"
on B sh -c 'mkdir -p /tmp/kill && cat >/tmp/kill/data' <"$dir/data"
mkdir -p /tmp/kill && cp "$dir/data" /tmp/kill/data

start_export() {
	export_on "$1" scratch --size 16M || return
	exporter[$1]=$EXPORT_PID
	exporter_client[$1]=$BACKGROUND_PID
}

# start_user NODE KIND: USER_PID there, USER_CLIENT here.
start_user() {
	local target=node${peer[$1]}/scratch command log
	case $2 in
	put) command="put -q /tmp/kill/data $target" ;;
	get) command="get -q $target@0+8000000 /tmp/kill/back" ;;
	write) command="bench write $target -s 256K -D 1000" ;;
	read) command="bench read $target -s 256K -D 1000" ;;
	pinned) command="bench write $target -s 1M -D 1000 --pinned" ;;
	esac
	log=$dir/user.$i
	# shellcheck disable=SC2016 # for the node's shell
	on -n "$1" sh -c "echo \$\$ && exec krdma $command 2>&1" >"$log" &
	USER_CLIENT=$!
	wait_for 60 test -s "$log"
	USER_PID=$(head -n 1 "$log")
}

fresh_module
for node in A B; do
	listen_on $node
	start_export $node
done
remember_leftovers

kinds=(put get write read pinned)
lost=0
for ((i = 1; i <= KILLS; i++)); do
	node=A
	[ $((RANDOM % 2)) = 0 ] || node=B
	kind=${kinds[RANDOM % ${#kinds[@]}]}
	victim=user
	[ $((RANDOM % 4)) != 0 ] || victim=exporter
	[ $victim = user ] || kind="write"
	start_user $node "$kind"
	sleep "$(printf '0.%03d' $((RANDOM % 900)))"
	if [ $victim = user ]; then
		on -n $node kill -KILL "$USER_PID" 2>/dev/null
		killed[$kind]=$((${killed[$kind]:-0} + 1))
	else
		other=${peer[$node]}
		on -n "$other" kill -KILL "${exporter[$other]}"
		wait "${exporter_client[$other]}" 2>/dev/null
		killed[export]=$((${killed[export]:-0} + 1))
	fi
	# A bench whose export is gone ends by itself.
	if ! wait_for "$LIMIT" is_over $USER_CLIENT; then
		diag "kill $i: a $kind on node $node does not end after the $victim was killed"
		lost=$((lost + 1))
		on -n $node kill -KILL "$USER_PID"
	fi
	wait $USER_CLIENT 2>/dev/null
	rm -f "$dir/user.$i"
	[ $victim = user ] || start_export "$other" || lost=$((lost + 1))
done
diag "killed: $(for kind in "${!killed[@]}"; do echo "$kind ${killed[$kind]}"; done | xargs)"
is "$KILLS kills, and everything ended in time" $lost 0

works() {
	krdma put -q "$dir/data" nodeB/scratch && krdma get -q nodeB/scratch@0+8000000 "$dir/back" &&
		cmp "$dir/data" "$dir/back"
}
check "transfers work afterwards" wait_for "$LIMIT" works
end_sessions A
end_sessions B
check_nothing_left "nothing is left" "$LIMIT"
for node in A B; do
	on -n $node kill "${exporter[$node]}"
	wait "${exporter_client[$node]}"
done
check_unload "both modules can be unloaded" "$LIMIT"

done_testing
