#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The target sends a BYE with the reason for the end of a session, and then disconnects. All
# users of the session get the reason, however busy they are, not only the disconnect.
#
# USERS (24): number of users, each with a session of its own. ROUNDS (2).
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2

USERS=${USERS:-$((24 / (TIME_FACTOR > 1 ? 3 : 1)))}
ROUNDS=${ROUNDS:-2}
FIRST_USER=5000
dir=$(mktemp -d)
at_end rm -rf "$dir"
chmod 755 "$dir"

fresh_module
chmod 666 /dev/krdma_mover
listen_on B
export_on B scratch --size 16M
remember_leftovers

sessions_are_up() {
	[ "$(status A /sessions/#)" -ge "$USERS" ] && ! krdma status -j | grep -q '"state":"connecting"'
}

for ((round = 1; round <= ROUNDS; round++)); do
	pids=()
	for ((n = 0; n < USERS; n++)); do
		setpriv --reuid $((FIRST_USER + n)) --regid $FIRST_USER --clear-groups \
			krdma bench write nodeB/scratch -s 16K -t 8 -D 600 >/dev/null 2>"$dir/$n" &
		pids+=($!)
	done
	check "round $round: $USERS users have a session each" wait_for 120 sessions_are_up
	end_sessions B
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	is "round $round: all of them read why it has ended" \
		"$(cat "$dir"/* | grep -c 'is lost: shut down')" "$USERS"
	cat "$dir"/* | grep -v 'is lost: shut down' | sort | uniq -c | sed 's/^/# /'
done
check_nothing_left "nothing is left of them"
done_testing
