# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests of krdma_blk, after ../lib/lib.sh.

# shellcheck source=selftests/lib/kill.sh
. "${BASH_SOURCE%/*}/../lib/kill.sh"

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

# channels_up NODE: of those that are.
channels_up() {
	channels "$1" | grep ' up ' | sort
}
losses() {
	counter A channels_lost
}

# break_channel NODE: the queue pair there of a channel that writes goes to error, and is missed.
break_channel() {
	local before index='' qp lost
	lost=$(losses)
	before=$(channels_up A)
	writes() {
		index=$(comm -13 <(echo "$before") <(channels_up A) | head -n 1 | cut -d ' ' -f 1)
		[ -n "$index" ]
	}
	wait_for 5 writes || return
	qp=$(channels_up "$1" | sed -n "s/^$index up \([0-9]*\) .*/\1/p")
	# It may have been lost by itself.
	[ -z "$qp" ] || kill_qp "$1" "$qp"
	missed() {
		[ "$(losses)" -gt "$lost" ]
	}
	wait_for 60 missed
}
