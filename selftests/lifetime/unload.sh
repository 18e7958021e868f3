#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Unloading the module fails while a file is open. Sessions and listeners do not prevent it, and
# the peer receives the reason.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file
need_nodes 2
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 100000 /dev/urandom >"$dir/data"

refused() {
	! on -n "$1" rmmod krdma_mover 2>"$dir/rmmod" && grep -q 'in use' "$dir/rmmod"
}

# Without the module nothing of it can be left.
wait_for 60 unload_module
remember_leftovers
load_module
listen_on B

# ------------------------------------------------------------ a file is open

export_on B scratch --size 16M
check "an export keeps the module there" refused B
mkfifo "$dir/fifo"
krdma put -q - nodeB/scratch <"$dir/fifo" 2>"$dir/err" &
pid=$!
exec 7>"$dir/fifo"
opened() {
	krdma status | grep -q '^region '
}
wait_for 60 opened
check "an idle put keeps it here" refused A
krdma bench write nodeB/scratch -D 1000 >/dev/null 2>&1 &
bench=$!
moving() {
	[ "$(counter A write_bytes)" -gt 1000000 ]
}
wait_for 60 moving
check "a transfer under way keeps it here" refused A
check "and there" refused B
kill -KILL $bench
wait $bench 2>/dev/null
cat "$dir/data" >&7
exec 7>&-
check_here "what is refused is not disturbed" wait $pid

# ----------------------------------------------------- the initiator's module

up_at_peer() {
	on -n B krdma status | grep -q '^session .* state up'
}
check "the session lingers" up_at_peer
check "a lingering session does not keep the module" wait_for "$LIMIT" unload_module A
gone_at_peer() {
	! on -n B krdma status | grep -q '^session '
}
check "the peer was told" wait_for 5 gone_at_peer
load_module A
check "loaded again it connects again" krdma put -q "$dir/data" nodeB/scratch
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"

# --------------------------------------------------------- the target's module

ping_under_way() {
	[ "$(status A /sessions/0/users)" -gt 0 ]
}
krdma ping -c 100000000 nodeB >/dev/null 2>"$dir/err" &
pid=$!
wait_for 60 ping_under_way
check "a listener with live sessions does not keep the module" wait_for "$LIMIT" unload_module B
check_failed "the peer's user reads the error" "$LIMIT" $pid "$dir/err" 'the session with 10.77.0.2:7471 is lost: '
krdma ls nodeB >/dev/null 2>"$dir/err" &
check_failed "without the module nobody listens" "$LIMIT" $! "$dir/err" 'nobody listens'
load_module B
listen_on B
export_on B scratch --size 16M
check "loaded again there it can be connected to" krdma put -q "$dir/data" nodeB/scratch
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"

# ------------------------------------------------------------ while connecting

for host in 10.77.0.99 nodeB:7999; do
	krdma ls $host >/dev/null 2>&1 &
	pid=$!
	connecting() {
		krdma status | grep -q '^session .* state connecting' || is_over "$pid"
	}
	wait_for 60 connecting
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
	check "a connect to $host that was given up does not keep the module" \
		wait_for "$LIMIT" unload_module A
	load_module A
done

check_unload "both modules go in the end" "$LIMIT"
check_nothing_left "nothing is left of them" 30

done_testing
