#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Hundreds of sessions from two addresses keep node B's module waiting for receives or TCP
# windows, and still send requests (peer_withhold.c). These sessions end by themselves. They delay
# neither transfers, deadlines, connects and exports of other users, nor the end of the module.
#
# SESSIONS (600): how many sessions are attempted; 256 from one address are admitted, and half of
# them have to be established during the test. KINDS: "still", "drip" or both.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "adds addresses"
need_nodes 2
need_command rdma

# A slow kernel has fewer.
[ "$TIME_FACTOR" = 1 ] || SESSIONS=${SESSIONS:-80}
SESSIONS=${SESSIONS:-600} KINDS=${KINDS:-still drip}
LIMIT=${LIMIT:-60}
PORT=8000 # of a target in userspace

dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 300000 /dev/urandom >"$dir/file"
head -c 1000 "$dir/file" >"$dir/small"

# ------------------------------------------------------------------ the crowd

crowd=(10.77.0.11 10.77.0.12)
for address in "${crowd[@]}"; do
	ip addr add "$address/24" dev data0
	at_end ip addr del "$address/24" dev data0
done
# What TCP would take before the module has to wait.
if [ "$LAB_RDMA" = siw ]; then
	buffer=$(on -n B sysctl -n net.ipv4.tcp_wmem)
	at_end on -n B sysctl -qw "net.ipv4.tcp_wmem=$buffer"
fi

# How many there are at node B.
withheld() {
	on -n B krdma status | grep -c '^session .* peer 10\.77\.0\.1[12]:.* state up'
}

enough() {
	[ "$(withheld)" -ge "$least" ] && [ "$(sed -n 's/^withholding \([0-9]*\),.*/\1/p' "$crowd_log" | tail -n 1)" -ge "$least" ]
}

# begin_crowd KIND COUNT
begin_crowd() {
	[ "$LAB_RDMA" != siw ] || on -n B sysctl -qw net.ipv4.tcp_wmem='4096 4096 4096'
	crowd_log=$dir/crowd.$1.$2
	peer withhold 10.77.0.2 7471 "$1" "$2" "${crowd[@]}" >"$crowd_log" 2>&1 &
	crowd_pid=$!
	background_pids+=("$crowd_pid")
}

end_crowd() {
	kill "$crowd_pid" 2>/dev/null
	wait "$crowd_pid" 2>/dev/null
	[ "$LAB_RDMA" != siw ] || on -n B sysctl -qw "net.ipv4.tcp_wmem=$buffer"
}

# ----------------------------------------------------------------- the others

# moves NODE NAME: a put and a get from there, of the other node's export NAME.
moves() {
	local other=B
	[ "$1" = A ] || other=A
	on "$1" timeout -k 5 $((LIMIT * TIME_FACTOR)) krdma put -q - "node$other/$2" <"$dir/file" &&
		on -n "$1" timeout -k 5 $((LIMIT * TIME_FACTOR)) krdma get -q "node$other/$2@0+300000" - |
		cmp - "$dir/file"
}

# Node B's own operation, which waits for a key that never comes.
deadline() {
	local text status=0
	text=$(on B timeout -k 5 $((LIMIT * TIME_FACTOR)) \
		krdma put -q --timeout 1 - "nodeA:$never/x" <"$dir/small" 2>&1) || status=$?
	echo "status $status: $text"
	is_failure "$status" && [[ $text = *"deadline passed"* ]]
}

has_grant() {
	on -n B krdma status -j | grep -q '"grants":[1-9]'
}

# Node B's export ends, while node A has it open: that takes A's word.
export_ends() {
	local put
	rm -f "$dir/fifo"
	mkfifo "$dir/fifo"
	export_on B held --size 1M || return
	krdma put -q - nodeB/held <"$dir/fifo" 2>/dev/null &
	put=$!
	exec 7>"$dir/fifo"
	wait_for "$LIMIT" has_grant
	on -n B kill "$EXPORT_PID"
	wait_for "$LIMIT" is_over "$BACKGROUND_PID"
	local status=$?
	exec 7>&-
	wait "$put"
	return "$status"
}

# --------------------------------------------------------------------- a round

# What the others use.
begin_others() {
	export_on B there --size 1M
	on_b=$EXPORT_PID
	export_on A here --size 1M
	on_a=$EXPORT_PID
	background A peer target 10.77.0.1 $PORT
	target=$BACKGROUND_PID
	wait_for 60 grep -q listening "$BACKGROUND_LOG" || not_ok "a target in userspace"
}

end_others() {
	on -n B kill "$on_b"
	on -n A kill "$on_a"
	kill "$target"
	wait_for "$LIMIT" on -n B grep -qx 0 /sys/module/krdma_mover/refcnt
}

# Unloads node B's module with the sessions there. If it hangs, it ends with the crowd.
unload_beside() {
	local rmmod status=0
	on -n B rmmod krdma_mover >"$dir/rmmod" 2>&1 &
	rmmod=$!
	wait_for "$LIMIT" is_over "$rmmod" || status=1
	[ "$status" = 0 ] || echo "rmmod still runs"
	[ "$status" != 0 ] || wait "$rmmod" || status=1
	return "$status"
}

peer cases >"$dir/cases"
never=$((PORT + $(grep -P '\tsegs-never\t' "$dir/cases" | cut -f 1)))

for kind in $KINDS; do
	# A reply every 3 s leaves one of 33 for 99 s: longer than it may last.
	MODULE_TIMEOUT_SCALE=1
	fresh_module
	listen_on B
	begin_crowd "$kind" 1
	check "$kind: one session ends by itself" wait_for 300 is_over "$crowd_pid"
	diag "$(tail -n 1 "$crowd_log")"
	end_crowd
	# RoCE's retries end such a session in 4.6 s: there are never so many.
	[ "$kind $LAB_RDMA" != "still rxe" ] || continue

	MODULE_TIMEOUT_SCALE=4
	fresh_module
	listen_on B
	[ -n "${LAB_ONE_KERNEL-}" ] || listen_on A
	begin_others
	least=$((SESSIONS < 512 ? SESSIONS / 2 : 300))
	begin_crowd "$kind" "$SESSIONS"
	check "$kind: at least $least of $SESSIONS sessions withhold" wait_for 300 enough
	diag "$(grep ^withholding "$crowd_log" | tail -n 1); node B has $(withheld)"
	check "$kind: another host connects, writes and reads" moves A there
	check "$kind: so does node B, elsewhere" moves B here
	check "$kind: and once more" moves A there
	check "$kind: an operation of node B ends by its deadline" deadline
	check "$kind: an export that another host has open ends" export_ends
	check "$kind: there are at least $least still, or again" wait_for 300 enough
	diag "$(grep ^withholding "$crowd_log" | tail -n 1); node B has $(withheld)"
	end_others
	check "$kind: node B's module is unloaded beside them" unload_beside
	end_crowd
	check_unload "$kind: the module goes" "$LIMIT"
done
done_testing
