#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connects to an address that does not reply. siw's connect blocks in TCP for longer than the
# caller of CONNECT waits, and can't be cancelled. Whatever waits for the end of that session,
# such as unloading the module, must not look like a hung task, and connects of other users
# proceed meanwhile.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"
[ "$LAB_RDMA" = siw ] || skip_all "rdma_cm's connect can be called back"
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-120}
dir=$(mktemp -d)
at_end rm -rf "$dir"

# setting NAME VALUE: for this test.
setting() {
	at_end sysctl -qw "$1=$(sysctl -n "$1")"
	sysctl -qw "$1=$2" || exit
}
[ -e /proc/sys/kernel/hung_task_timeout_secs ] || skip_all "this kernel looks for no tasks that hang"
# A task that hangs is looked for once in that time.
setting kernel.hung_task_timeout_secs $((8 * TIME_FACTOR))
# TCP gives up after 31 s, not after 127 s, or 4 s later since Linux 6.5.
setting net.ipv4.tcp_syn_retries $((TIME_FACTOR > 1 ? 6 : 4))

fresh_module
ip neighbour replace 10.77.0.98 lladdr 02:00:00:00:00:98 nud permanent dev data0
at_end ip neighbour del 10.77.0.98 dev data0

connecting() {
	[ "$(status A /sessions/0/state)" = connecting ]
}

# ends DESCRIPTION COMMAND...: what waits for the session is run when its user has gone.
ends() {
	local description=$1 began pid mark="unanswered $RANDOM $RANDOM"
	shift
	echo "$mark" >/dev/kmsg
	krdma ls 10.77.0.98 >/dev/null 2>"$dir/err" &
	pid=$!
	check "a connect that nobody replies" wait_for "$LIMIT" connecting
	check_failed "its user reads the error" "$LIMIT" $pid "$dir/err" "can't connect to 10.77.0.98:7471: "
	is "siw is at it still" "$(status A /sessions/0/state)" closing
	began=$SECONDS
	check "$description" "$@"
	diag "after $((SECONDS - began)) s"
	is "nothing hung meanwhile" "$(dmesg -t | sed "1,/^$mark\$/d" | grep 'blocked for more than')" ""
}

at_end restore_link A
ends "the RDMA device goes" rdma link delete "$LAB_RDMA_DEV"
restore_link A
ends "the module goes" wait_for "$LIMIT" unload_module

# As many as a workqueue has workers (WQ_MAX_ACTIVE), of users none of whom has too many.
sysctl -qw net.ipv4.tcp_syn_retries=6
# They last 127 s; so many threads may stand still for some seconds where the processor is busy.
sysctl -qw kernel.hung_task_timeout_secs=$((30 * TIME_FACTOR))
MODULE_TIMEOUT_SCALE=4
fresh_module
listen_on A
chmod 666 /dev/krdma_mover
users=()
for uid in 1001 1002 1003; do
	setpriv --reuid $uid --regid $uid --clear-groups "$(type -P connects)" 10.77.0.98 172 &
	users+=($!)
done
# Those whose user has gone are held by siw as well.
all_connect() {
	[ "$(krdma status | grep -cE '^session .* state (connecting|closing)')" -ge 512 ]
}
check "users have 512 connects that nobody replies" wait_for "$LIMIT" all_connect
check "root's connect is not behind them" krdma ls nodeA
check "and they are at it still" all_connect
kill "${users[@]}" 2>/dev/null
check "the module goes with them" wait_for $((2 * LIMIT)) unload_module

done_testing
