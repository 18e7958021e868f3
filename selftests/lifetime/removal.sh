#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Removes the RDMA device, the listener, the exporter or the initiator, or takes a link down, on
# either node, idle and during transfers. The user gets an error in bounded time, nothing stays
# pinned or registered, and the next connect works without reloading the module.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"
need_nodes 2
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=0

LIMIT=${LIMIT:-60}
NAME=scratch
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 100000 /dev/urandom >"$dir/data"

# ------------------------------------------------------------ whom a removal disturbs

# start_user idle|busy: USER_PID is a krdma process on this node that has the
# export open; its sentence goes to $dir/err.
start_user() {
	local before
	wait_for 60 no_region
	case $1 in
	idle)
		rm -f "$dir/fifo"
		mkfifo "$dir/fifo"
		krdma put -q - "nodeB/$NAME" <"$dir/fifo" 2>"$dir/err" &
		USER_PID=$!
		exec 7>"$dir/fifo"
		wait_for 60 has_region
		;;
	busy)
		before=$(counter A write_bytes)
		krdma bench write "nodeB/$NAME" -s 1M -D 1000 >/dev/null 2>"$dir/err" &
		USER_PID=$!
		wait_for 60 has_written "$before"
		;;
	esac || {
		diag "the user does not start: $(<"$dir/err")"
		return 1
	}
}

has_region() {
	krdma status | grep -q '^region '
}

no_region() {
	! has_region
}

has_written() {
	[ "$(counter A write_bytes)" -gt $(($1 + (4 << 20))) ]
}

# An idle user notices when it goes on.
wake_user() {
	{ : >&7; } 2>/dev/null || return 0
	head -c 1000 "$dir/data" >&7
	exec 7>&-
}

kill_user() {
	kill -KILL "$USER_PID"
	wait "$USER_PID" 2>/dev/null
	return 0
}

works_again() {
	krdma put -q "$dir/data" "nodeB/$NAME@12345" && krdma get -q "nodeB/$NAME@12345+100000" "$dir/back" &&
		cmp "$dir/data" "$dir/back"
}

exporter=''

have_export() {
	is_over "$exporter" || return 0
	export_on B "$NAME" --size 64M
	exporter=$BACKGROUND_PID
}

# ------------------------------------------------------------------- the steps

# removal NODE NAME REGEX ACTION...: what happens on that node. REGEX is what the
# user is told, or "-" if the user is the one who goes. MODE says what the user
# does, AFTER whether the session is lost with it or has to be ended.
removal() {
	local node=$1 what="$2, $MODE" regex=$3
	shift 3
	have_export
	start_user "$MODE"
	"$@" || not_ok "$what: $*" "failed"
	wake_user 2>/dev/null
	if [ "$regex" != - ]; then
		check_failed "$what: the user reads the error" "$LIMIT" "$USER_PID" "$dir/err" "$regex"
		kill -KILL "$USER_PID" 2>/dev/null
		wait "$USER_PID" 2>/dev/null
	fi
	if [ "$AFTER" = end ]; then
		end_sessions B
	else
		wait_for "$LIMIT" sessions_are_lost ||
			not_ok "$what: both sides notice" "$(on_nodes krdma status)"
		restore_link "$node"
	fi
	check_nothing_left "$what: nothing is left" "$LIMIT"
	have_export
	if wait_for "$LIMIT" works_again; then
		ok "$what: a new connect works"
	else
		not_ok "$what: a new connect works" "$(works_again 2>&1)"
	fi
}

# What is lost has to be noticed on both sides without the link coming back. The
# rest of a session may wait for it: with the peer's wire down, packets stay in
# this node's network device, and rxe keeps a queue pair until they are gone.
sessions_are_lost() {
	local node
	for node in A B; do
		! on -n "$node" krdma status | grep -q '^session .* state up ' || return
	done
}

end_export() {
	on -n B kill "-$1" "$EXPORT_PID"
	wait "$exporter" 2>/dev/null
	return 0
}

delete_link() {
	on -n "$1" rdma link delete "$LAB_RDMA_DEV"
}

data_down() {
	on -n "$1" ip link set data0 down
}

remove_listener() {
	on -n B krdma listen --remove 0.0.0.0 && on -n B krdma listen 0.0.0.0
}

fresh_module
# Several queue pairs end at the same time.
on_nodes sh -c 'echo 4 >/sys/module/krdma_mover/parameters/channels'
listen_on B
remember_leftovers
diag "$(leftovers A)"
diag "$(leftovers B)"

for MODE in ${MODES:-idle busy}; do
	AFTER=end
	removal B "SIGTERM of the exporter" "revoked" end_export TERM
	removal B "SIGKILL of the exporter" "revoked" end_export KILL
	removal A "SIGKILL of the initiator" - kill_user
	AFTER=lost
	# Or the channel that the operation is on.
	lost='(the session with|channel [0-9]+ to) 10.77.0.2:7471 is lost: '
	removal A "the initiator's link deleted" "$lost" delete_link A
	removal B "the exporter's link deleted" "$lost" delete_link B
	# TCP repeats for longer than rxe, and than an operation may take.
	[ "$LAB_RDMA" != siw ] || cut="$lost|the deadline passed"
	removal A "the initiator's wire down" "${cut:-$lost}" data_down A
	removal B "the exporter's wire down" "${cut:-$lost}" data_down B
	removal B "the listener removed" "$lost" remove_listener
done
end_sessions B
check_nothing_left "nothing is left in the end" "$LIMIT"
end_export TERM
check_unload "both modules can be unloaded" "$LIMIT"

done_testing
