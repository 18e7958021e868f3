# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Queue pairs that go to error, after lib.sh.

# load_killer: the module that sets queue pairs to error, on all nodes. Or all of the test is skipped.
load_killer() {
	local killer=${MODULE%/driver/*}/selftests/modules/krdma_kill_test.ko
	[ -e "$killer" ] || skip_all "no $killer: run \"make samples\""
	on_nodes insmod "$killer"
	at_end on_nodes rmmod krdma_kill_test
}

# channels NODE: index, state, queue pair and bytes written of each.
channels() {
	on -n "$1" krdma status | sed -En \
		's/^channel ([0-9]) .* state (\w+) .* qp ([0-9]+) .* bytes_written ([0-9]+).*/\1 \2 \3 \4/p'
}

# kill_qp NODE NUMBER: it goes to error; it may be gone by now.
kill_qp() {
	on -n "$1" sh -c "echo $2 >/sys/module/krdma_kill_test/parameters/qp"
}

# losses: of channels, as node A counts them; has_lost BEFORE: one more at least.
losses() {
	counter A channels_lost
}
has_lost() {
	[ "$(losses)" -gt "$1" ]
}

# lose_channel NODE INDEX: its queue pair there goes to error, and node A counts a loss. The other node
# may have it up a moment later, and a busy machine loses channels by itself.
lose_channel() {
	local before
	before=$(losses)
	killed() {
		local qp
		qp=$(channels "$1" | sed -n "s/^$2 up \([0-9]*\) .*/\1/p")
		{ [ -n "$qp" ] && kill_qp "$1" "$qp"; } || has_lost "$before"
	}
	wait_for 60 killed "$1" "$2" && wait_for 60 has_lost "$before"
}
