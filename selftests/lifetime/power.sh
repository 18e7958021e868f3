#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The peer loses its power, POWER_OFFS times, while users write patterns, read them and compare, and
# one sends messages. What was under way ends with a sentence; the memory is gone, and bytes of the
# peer before are never taken for those of the peer that comes back. Then work goes on, and nothing is left of
# what was.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "takes the power off a machine"
need_nodes 2
[ -z "${LAB_ONE_KERNEL-}" ] || skip_all "needs a machine for each node"
# The wire of the lab holds packets back until the machine that boots takes them.
[ "$LAB_RDMA" != rxe ] || [ "$TIME_FACTOR" = 1 ] ||
	skip_all "rxe waits 50 s at most for its own packets, and this kernel boots slowly"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-120}
POWER_OFFS=${POWER_OFFS:-2}
USERS=3
dir=$(mktemp -d)
at_end rm -rf "$dir"

# siw connects for as long as TCP does, and does not end before.
if [ "$LAB_RDMA" = siw ]; then
	retries=$(sysctl -n net.ipv4.tcp_syn_retries)
	at_end sysctl -qw "net.ipv4.tcp_syn_retries=$retries"
	sysctl -qw net.ipv4.tcp_syn_retries=1
fi

# ready: node B has exports, and listens.
ready() {
	local i
	load_module B
	for ((i = 0; i < USERS; i++)); do
		export_on B "scratch$i" --size 16M
	done
	background B krdma recv letters
	wait_for "$LIMIT" grep -q "^receiving as letters$" "$BACKGROUND_LOG"
	listen_on B
}

# user NUMBER: until told to stop. Each command that ends adds its status and its sentence.
user() {
	local seed=0 said status
	while [ ! -e "$dir/stop" ]; do
		seed=$((seed + 1))
		if [ "$1" = "$USERS" ]; then
			said=$(seq 100 | krdma send --lines nodeB/letters 2>&1)
		else
			said=$(mover scatter -n 200 -b $((9000 * ($1 + 1))) -s $seed 10.77.0.2 "scratch$1" 2>&1)
		fi
		status=$?
		echo "$status $said" >>"$dir/user$1"
	done
}
# successes NUMBER: how often the user has succeeded. note: of all. go_on: each once more since.
successes() {
	grep -c '^0 ' "$dir/user$1"
}
go_on() {
	local i
	for ((i = 0; i <= USERS; i++)); do
		[ "$(successes "$i")" -gt "${before[i]}" ] || return
	done
}
note() {
	local i
	for ((i = 0; i <= USERS; i++)); do
		before[i]=$(successes "$i")
	done
}

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module
ready
remember_leftovers
before=() pids=()
for ((i = 0; i <= USERS; i++)); do
	: >"$dir/user$i"
	user "$i" &
	pids+=($!)
	background_pids+=($!)
done
note
check_here "users work" wait_for "$LIMIT" go_on
for ((n = 1; n <= POWER_OFFS; n++)); do
	incarnation=$(on -n B krdma status | sed -n 's/.*incarnation //p')
	power_off B
	check "power-off $n: the machine comes back" wait_for "$LIMIT" is_back B
	on -n B ip neigh replace "$LOCAL_V4" lladdr "$(cat /sys/class/net/data0/address)" \
		dev data0 nud permanent || not_ok "the nodes know each other"
	ready
	check_fails "power-off $n: as another peer" test "$incarnation" = \
		"$(on -n B krdma status | sed -n 's/.*incarnation //p')"
	note
	check_here "power-off $n: all users go on" wait_for "$LIMIT" go_on
done
touch "$dir/stop"
for pid in "${pids[@]}"; do
	wait_for "$LIMIT" is_over "$pid" || not_ok "each user ends" "$(krdma status --transfers)"
done
is "no byte was wrong" "$(cat "$dir"/user* | grep '^3 ' | grep -vc '^3 krdma: ')" 0
sentence='^(1 mover|[1345678] krdma): .*(the peer does not know it any more|its connection did not come back|can.t connect to|is lost: |in time$|the deadline passed)'
is "what failed says why" "$(cat "$dir"/user* | grep -v '^0 ' | grep -Ev "$sentence")" ""
diag "$(cat "$dir"/user* | cut -c1-100 | sort | uniq -c | sort -rn | head -n 20)"
end_sessions B
check_nothing_left "nothing is left of what was"

done_testing
