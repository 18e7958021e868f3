#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What an operator sees: how long operations took, what a peer has done with an export, and events,
# at both ends; and what a user without rights sees of them.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "cuts the wire"
need_nodes 2
need_cuts
MODULE_TIMEOUT_SCALE=1

dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end restore_link A
head -c 3000000 /dev/urandom >"$dir/data"

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module

# watch NODE COMMAND...: events of the node; WATCH_LOG has them.
watch() {
	background "$@"
	WATCH_LOG=$BACKGROUND_LOG
	check "node $1 is watched" wait_for 60 grep -q 'watching$' "$WATCH_LOG"
}
watch A krdma monitor
log_A=$WATCH_LOG
watch B krdma monitor --until export-ended
log_B=$WATCH_LOG until_B=$BACKGROUND_PID
on -n B chmod 666 /dev/krdma_mover
at_end on -n B chmod 600 /dev/krdma_mover
watch B setpriv --reuid 4242 --clear-groups krdma monitor
log_other=$WATCH_LOG

# told LOG REGEX [TIMES]: the event was told, so often.
told() {
	local times
	times=$(grep -Ec "$2" "$1")
	[ "$times" = "${3:-$times}" ] && [ "$times" != 0 ]
}
tells() {
	check "$1" wait_for 60 told "${@:2}"
}

listen_on B
export_on B scratch --size 16M
export_pid=$EXPORT_PID
tells "B: the listener is up" "$log_B" ' listener-up address 0.0.0.0:7471$' 1
tells "B: the export is there" "$log_B" ' export-added export scratch uid 0$' 1

# ------------------------------------------------------ histogram and reports

krdma put -q "$dir/data" nodeB/scratch && krdma get -q nodeB/scratch@0+3000000 "$dir/back"
check "put and get" cmp "$dir/data" "$dir/back"
tells "A: a session" "$log_A" ' session-up session 1 device .* peer .* uid 0$'
tells "B: the same, inbound" "$log_B" ' session-up session 1 device .* uid 0 inbound$'
tells "A: its path" "$log_A" ' path-up session 1 path 0 '
# served KEY: of the export, as its users report.
served() {
	status B "/exports/0/served_$1"
}
served_is() {
	[ "$(served "$1")" = "$2" ]
}
check "the CLOSE of each reports bytes written" wait_for 60 served_is written_bytes 3000000
check "and bytes read" wait_for 60 served_is read_bytes 3000000
is "READs are those of the initiator" "$(served reads)" "$(counter A reads)"
is "WRITEs are those of the initiator" "$(served writes)" "$(counter A writes)"
is "the session shows the same" "$(status B /sessions/0/served_read_bytes)" 3000000
# Each operation is in one counter.
counted() {
	krdma status --histogram -j >"$dir/latencies"
	local i n=0 rows
	rows=$(json_at '/latencies/#' <"$dir/latencies")
	for ((i = 0; i < rows; i++)); do
		[ "$(json_at "/latencies/$i/operation" <"$dir/latencies")" != "$1" ] ||
			n=$((n + $(json_at "/latencies/$i/operations" <"$dir/latencies")))
	done
	echo $n
}
is "each WRITE is in the histogram" "$(counted write)" "$(counter A writes)"
is "each READ is in the histogram" "$(counted read)" "$(counter A reads)"
check "an estimate is no nonsense" [ "$(json_at /latencies/0/sum_ns <"$dir/latencies")" -gt 1000 ]
check "the target has none" [ "$(on -n B krdma status --histogram -j | json_at '/latencies/#')" = 0 ]
check "metrics has the histogram" grep -q '^krdma_operation_seconds_count{device="[^"]*",operation="write"' \
	<(krdma metrics)
check "metrics has what is served" grep -q '^krdma_export_served_read_bytes_total{name="scratch"} 3000000$' \
	<(on -n B krdma metrics)

# ------------------------------------------- an open grant, and a lost connection

krdma bench write nodeB/scratch -s 64K -D 1000 >/dev/null 2>&1 &
pid=$!
background_pids+=("$pid")
# The grant of the bench, once its session has reported.
reported() {
	local now
	now=$(status B /grants/0/written_bytes)
	[ "${now:-0}" -gt "$1" ]
}
check "the target shows what moves, while it does" wait_for 60 reported 0
is "and who has the export" "$(status B /grants/0/name) $(status B /grants/0/uid)" "scratch 0"
krdma top -n 1 -d 1 -j >"$dir/top"
check "top shows a rate" [ "$(json_at /sessions/0/operations_s <"$dir/top" | cut -d . -f 1)" -gt 0 ]
check "and a latency" [ "$(json_at /sessions/0/mean_us <"$dir/top" | cut -d . -f 1)" -gt 0 ]
cut_wire data0
tells "A: the connection is lost" "$log_A" ' session-resuming .* uid 0: .'
tells "A: so is the path" "$log_A" ' path-lost .* path 0 '
krdma top -n 1 -d 1 -j >"$dir/top"
like "top says what its operations wait for" "$(json_at /sessions/0/waits_for <"$dir/top")" '^(slot|fence)$'
is "and shows the path that is lost" "$(json_at /paths/0/state <"$dir/top")" down
check "and how many operations of the user wait" [ "$(json_at /users/0/waiting <"$dir/top")" -gt 0 ]
before=$(status B /grants/0/written_bytes)
mend_wire data0
tells "A: it is back" "$log_A" ' session-resumed '
tells "B: it is back" "$log_B" ' session-resumed .* inbound$'
check "reports go on in the resumed session" wait_for 60 reported "$before"

# ------------------------------------------------------------------- the end

on -n B kill "$export_pid"
tells "A: the region is revoked" "$log_A" ' region-revoked session [0-9]* export scratch peer ' 1
tells "B: the export has ended" "$log_B" ' export-ended export scratch uid 0$' 1
check "monitor --until ends with it" wait_for 60 is_over "$until_B"
wait "$until_B"
is "without an error" $? 0
wait "$pid"
background A krdma connect nodeB
check "a session is held" wait_for 60 grep -q '^connected with ' "$BACKGROUND_LOG"
listen_on A
check "drain" krdma drain
tells "A: the listener is closed" "$log_A" ' listener-closed address 0.0.0.0:7471$' 1
tells "A: the session is draining" "$log_A" ' session-draining session '
tells "A: the session has ended, and why" "$log_A" ' session-ended session .* error [A-Z]*: .'
listen_on A "$LOCAL_V4"
rdma link del "$LAB_RDMA_DEV"
tells "A: the RDMA device is gone" "$log_A" " device-removed device $LAB_RDMA_DEV" 1
tells "A: the listener waits for one" "$log_A" " listener-waiting address $LOCAL_V4:7471\$" 1
restore_link A
tells "A: there is another one" "$log_A" " device-added device $LAB_RDMA_DEV" 1
tells "A: the listener is up again" "$log_A" " listener-up address $LOCAL_V4:7471\$" 2
krdma listen --remove "$LOCAL_V4"
on -n B krdma listen --remove 0.0.0.0
tells "another user sees the end of the listener" "$log_other" ' listener-ended address 0.0.0.0:7471$' 1
not_told() {
	! told "$@"
}
check "and no session, nor an export" not_told "$log_other" 'session|export|path'

done_testing
