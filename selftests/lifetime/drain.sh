#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Sessions that end when what is under way has ended: "krdma disconnect" at the initiator, "krdma
# drain" at the target; and what happens at the deadline.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes the wire slow"
need_nodes 2
need_command tc
need_cuts
MODULE_TIMEOUT_SCALE=4

LIMIT=${LIMIT:-60}
SEED=77
dir=$(mktemp -d)
at_end rm -rf "$dir"
no_netem=$(tc qdisc replace dev lo root netem delay 0 2>&1 && tc qdisc del dev lo root 2>&1) ||
	skip_all "no netem in this kernel: $no_netem"
at_end sh -c '! tc qdisc show dev data0 | grep -q netem || tc qdisc del dev data0 root'

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module
listen_on B
export_on B scratch --size 16M
remember_leftovers

# pieces NAME OPTION...: a program that writes sixteen pieces of 256 KiB by one call, and then
# would read them.
pieces() {
	mover scatter -p -s $SEED -n 16 -b 262144 "${@:2}" 10.77.0.2 scratch >"$dir/$1" 2>&1
}
# start NAME: it writes, over a wire that takes a while for it.
start() {
	before=$(counter A writes)
	tc qdisc replace dev data0 root netem rate 6mbit
	pieces "$1" &
	pid=$!
	background_pids+=("$pid")
	check "$1: WRITEs are under way" wait_for "$LIMIT" under_way
}
under_way() {
	[ "$(status A /sessions/0/in_flight)" -gt 4 ]
}
# ended NAME: the WRITEs are done, and the READs have not begun.
ended() {
	check "$1: the program ends" wait_for "$LIMIT" is_over "$pid"
	tc qdisc del dev data0 root
	is "$1: all WRITEs have ended well" $(($(counter A writes) - before)) 16
	like "$1: what comes behind them fails" "$(<"$dir/$1")" \
		'submit: the session with 10.77.0.2:7471 is lost: '
}
right() {
	check "$1: all bytes are there" pieces "$1-again" -c
}

# 1. The initiator.
start disconnect
check "disconnect: it waits for them" krdma disconnect --timeout 100 nodeB
ended disconnect
right disconnect
check "disconnect: a session that is idle ends at once" sh -c 'mover hold -p 10.77.0.2 scratch </dev/null &&
	krdma ls nodeB >/dev/null && krdma disconnect --timeout 1 nodeB'
check_nothing_left "disconnect: nothing is left"

# 2. The target, and the listener is gone.
start drain
check "drain: the target waits for them" on -n B krdma drain --timeout 100
ended drain
check_fails "drain: nobody connects any more" krdma ls nodeB
listen_on B
right drain
check_nothing_left "drain: nothing is left"

# 3. Not for longer than that. And before, with a listener that is closed.
mkfifo "$dir/in"
mover hold -p 10.77.0.2 scratch <"$dir/in" >"$dir/held" 2>&1 &
background_pids+=($!)
exec 8>"$dir/in"
check "deadline: a session" wait_for "$LIMIT" grep -q ^open "$dir/held"
on -n B krdma listen --close 0.0.0.0
like "closed: the listener says so" "$(on -n B krdma listen)" ' closed '
like "closed: no session is new" "$(mover hold -p 10.77.0.2 scratch 2>&1 </dev/null)" 'shut down'
echo >&8
check "closed: a session that there is goes on" wait_for "$LIMIT" grep -q ^done "$dir/held"
end_listener() {
	on -n B krdma listen --remove 0.0.0.0 && ! on -n B krdma listen | grep -q 0.0.0.0
}
cut_wire data0
echo >&8
reads() {
	[ "$(($(status A /sessions/0/in_flight) + $(status A /sessions/0/waiting)))" = 1 ]
}
check "deadline: a READ is under way" wait_for "$LIMIT" reads
chmod 666 /dev/krdma_mover
like "deadline: another user has no say" \
	"$(setpriv --reuid 65534 --regid 65534 --clear-groups "$(type -P krdma)" disconnect "$(status A /sessions/0/session)" 2>&1)" \
	'there is no session'
chmod 600 /dev/krdma_mover
check_fails "deadline: it is over" krdma disconnect --timeout 0.5 nodeB
check "deadline: the READ ends" wait_for "$LIMIT" grep -q ^E "$dir/held"
like "deadline: with an error" "$(tail -n 1 "$dir/held")" '^E[A-Z]+: .* it was disconnected on this host$'
mend_wire data0
exec 8>&-
# Its peer could not be told.
check "closed: the listener can be removed, and made anew" end_listener
listen_on B
check_nothing_left "deadline: nothing is left"

done_testing
