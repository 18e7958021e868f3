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

# break_channel NODE [SECONDS]: the queue pair there of a channel that writes goes to error; SECONDS
# for one to write.
break_channel() {
	local before index=''
	before=$(channels_up A)
	writes() {
		index=$(comm -13 <(echo "$before") <(channels_up A) | head -n 1 | cut -d ' ' -f 1)
		[ -n "$index" ]
	}
	wait_for "${2:-60}" writes && lose_channel "$1" "$index"
}

# Of what follows: $device is the disk, $dir a folder, FIO_SECONDS the time of each job.

# job NAME OPTION...: fio writes blocks with their checksums and numbers, and reads them again, 16 at a
# time. With --time_based it would take a number of before.
# shellcheck disable=SC2154 # the caller's
job() {
	fio --name="$1" --filename="$device" --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--verify_backlog=16 --loops=1000000 --runtime=$((FIO_SECONDS * TIME_FACTOR)) --randrepeat=0 --output="$dir/$1" \
		"${@:2}" && return
	cat "$dir/$1"
	return 1
}
# has_read FILE: it says of a job that only writes that something was read back
has_read() {
	grep -q 'issued rwts: total=[1-9]' "$1"
}
# verified NAME OPTION...: a job that nothing holds up
verified() {
	job "$@" && has_read "$dir/$1"
}

# keep_writing NAME [JOB]: jobs, one after the other, until all_right; JOB is another one than job.
keep_writing() {
	rm -f "$dir/stop"
	until [ -e "$dir/stop" ]; do
		"${2:-job}" "$1" --bs=4k --iodepth=16 --rw=randwrite && cat "$dir/$1" || exit
	done >"$dir/said" 2>&1 &
	fio=$!
	background_pids+=("$fio")
}
# In this shell (check_here): what is lost meanwhile, no job learns of.
all_right() {
	touch "$dir/stop"
	wait "$fio" && has_read "$dir/said" && return
	diag "$(<"$dir/said")"
	return 1
}

# completed: how many writes of the disk
completed() {
	awk '{ print $5 }' "/sys/block/${device##*/}/stat"
}
# goes_on: are there more than $before?
goes_on() {
	[ "$(completed)" -gt "$before" ]
}
