# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests of krdma_blk, after ../lib/lib.sh.

BLK=${MODULE%/*}/krdma_blk.ko
[ -e "$BLK" ] || skip_all "no krdma_blk.ko beside ${MODULE:-the module}"

# load_blk: krdma_mover anew, and krdma_blk; both are gone in the end.
load_blk() {
	fresh_module
	insmod "$BLK" || {
		echo "Bail out! $BLK can't be loaded"
		exit 1
	}
	at_end unload_blk
}

unload_blk() {
	local device
	for device in $(krdma blk list -j | grep -o '/dev/krdmab[0-9]*'); do
		umount "$device" 2>/dev/null
		krdma blk detach --force "$device"
	done
	wait_for 60 rmmod krdma_blk
}

# disk POINTER: of the first disk, as 'krdma blk list -j' has it.
disk() {
	krdma blk list -j | json_at "/disks/0/$1"
}
disk_is() {
	[ "$(disk "$1")" = "$2" ]
}

# load_killer: the module that sets queue pairs to error, on all nodes. Or all of the test is skipped.
load_killer() {
	local killer=${MODULE%/driver/*}/selftests/modules/krdma_kill_test.ko
	[ -e "$killer" ] || skip_all "no $killer: run \"make samples\""
	on_nodes insmod "$killer"
	at_end on_nodes rmmod krdma_kill_test
}

# channels NODE: index, queue pair and bytes of each that is up.
channels() {
	on -n "$1" krdma status | sed -En \
		's/^channel ([0-9]) .* state up .* qp ([0-9]+) .* bytes_written ([0-9]+).*/\1 \2 \3/p' | sort
}
losses() {
	counter A channels_lost
}

# break_channel NODE: the queue pair there of a channel that writes goes to error, and is missed.
break_channel() {
	local before index='' qp lost
	lost=$(losses)
	before=$(channels A)
	writes() {
		index=$(comm -13 <(echo "$before") <(channels A) | head -n 1 | cut -d ' ' -f 1)
		[ -n "$index" ]
	}
	wait_for 5 writes || return
	qp=$(channels "$1" | sed -n "s/^$index \([0-9]*\) .*/\1/p")
	# It may have been lost by itself.
	[ -z "$qp" ] || on -n "$1" sh -c "echo $qp >/sys/module/krdma_kill_test/parameters/qp"
	missed() {
		[ "$(losses)" -gt "$lost" ]
	}
	wait_for 60 missed
}
