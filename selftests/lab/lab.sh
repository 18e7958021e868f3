#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# module: none
# The lab itself: `on`, the shared folder, the two networks and rping, which the other tests need.

# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "it is what is tested"

need_nodes 2
plan 16

is "on B runs in the other machine" "$(on B hostname)" nodeB
is "on A runs here" "$(on A hostname)" nodeA
on B sh -c 'exit 7'
is "on returns the exit status" $? 7
on B no-such-command 2>/dev/null
is "on returns 127 for what is not there" $? 127
is "on passes standard input" "$(echo there and back | on B cat)" "there and back"
is "on keeps output and errors apart" "$(on B sh -c 'echo out; echo err >&2' 2>/dev/null)" out
is "on passes much" "$(head -c 3000000 /dev/zero | on B cat | wc -c)" 3000000
is "on passes the directory" "$(cd /usr/bin && on B pwd)" /usr/bin

# A command to be ended, under a name that nothing else has.
sleeper() {
	on -n B pgrep -f 'sleep 98[7]6' >/dev/null
}
no_sleeper() {
	! sleeper
}
background B sleep 9876
wait_for 60 sleeper
kill "$BACKGROUND_PID"
wait "$BACKGROUND_PID" 2>/dev/null
is "a client that gets SIGTERM returns as its command does" $? 143
check "and the command has ended" wait_for 60 no_sleeper
background B sleep 9876
wait_for 60 sleeper
kill -KILL "$BACKGROUND_PID"
wait "$BACKGROUND_PID" 2>/dev/null
check "a command whose client is killed ends" wait_for 60 no_sleeper

check "files in /lab/out are shared" sh -c \
	'echo shared >/lab/out/probe && on B cat /lab/out/probe && rm /lab/out/probe'

if [ "$LAB_RDMA" = none ]; then
	skip "rping over IPv4" "no RDMA device was asked for"
	skip "rping over IPv6" "no RDMA device was asked for"
else
	for peer in nodeB:IPv4 nodeB6:IPv6; do
		case $peer in
		*IPv4) address=10.77.0.2 ;;
		*) address=fd77::2 ;;
		esac
		background B rping -s -P -a "$address"
		# siw loses sight of a message that follows its accept at once (siw_accept):
		# then rping waits for ever.
		check "rping over ${peer#*:}" wait_for 60 timeout 10 rping -c -a "$address" -C 5 -V
		kill "$BACKGROUND_PID"
	done
fi

at_end ip link set data0 up
ip link set data0 down
is "on works while the data wire is down" "$(on B hostname)" nodeB
ip link set data0 up
check "and the data wire comes back" wait_for 60 on -n B bash -c \
	'exec 3<>/dev/tcp/10.77.0.1/7778'
done_testing
