#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the block layer does with a disk, as blktests have it (testing.rst, "Disks", tells which cases have
# a counterpart here): another scheduler, depth or statistics, and processors that go and come, while blocks
# are written and read again; what is counted; discards and zeroes; partitions; many disks.
#
# FIO_SECONDS is the time of each job.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes block devices"
need_nodes 2
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
need_command fio

LIMIT=${LIMIT:-60}
FIO_SECONDS=${FIO_SECONDS:-5}
dir=$(mktemp -d)
at_end rm -rf "$dir"
load_blk
listen_on B
export_on B scratch --size 16M
export_on B glass --size 1M --read-only
remember_leftovers
device=$(krdma blk attach nodeB/scratch)
check "the device is there" wait_for "$LIMIT" test -b "$device"
sys=/sys/block/${device##*/}

# try ATTRIBUTE VALUE...: each, and blocks are written with it
try() {
	local value
	for value in "${@:2}"; do
		echo "$value" >"$sys/queue/$1" || return
		before=$(completed)
		wait_for "$LIMIT" goes_on || return
	done
}
settings() {
	local file
	for file in "$sys"/queue/*; do
		# Without throttled writeback that has no value.
		[ ! -f "$file" ] || [ "${file##*/}" = wbt_lat_usec ] || cat "$file" >/dev/null || return
	done
}
online() {
	local cpu
	for cpu in /sys/devices/system/cpu/cpu*/online; do
		[ ! -e "$cpu" ] || echo 1 >"$cpu"
	done
}
at_end online
processors() {
	local cpu
	for cpu in /sys/devices/system/cpu/cpu*/online; do
		echo 0 >"$cpu" || return
		before=$(completed)
		wait_for "$LIMIT" goes_on || return
		echo 1 >"$cpu" || return
	done
}

# ------------------------------------------------------------ while it moves

keep_writing kept
before=$(completed)
check "blocks are written" wait_for "$LIMIT" goes_on
modprobe -qa mq-deadline kyber-iosched bfq
for scheduler in mq-deadline kyber bfq; do
	if grep -qw "$scheduler" "$sys/queue/scheduler"; then
		check "the scheduler $scheduler" try scheduler "$scheduler" none
	else
		skip "the scheduler $scheduler" "this kernel has none"
	fi
done
check "other depths" try nr_requests 4 64
check "merges, and none" try nomerges 2 1 0
check "completions anywhere, and where they were asked for" try rq_affinity 0 2 1
check "no statistics" sh -c "echo 0 >$sys/queue/iostats"
check "statistics again" try iostats 1
[ ! -e "$sys/queue/wbt_lat_usec" ] || check "throttled writeback, and none" try wbt_lat_usec 2000 0
if [ "$(nproc)" -gt 1 ]; then
	check "processors go and come" processors
else
	skip "processors go and come" "there is one"
fi
check "all of its settings can be read" settings
check_here "no block is wrong, and no request has failed" all_right

# ------------------------------------------------------------ what is counted

sectors() {
	awk '{ print $7 }' "$sys/stat"
}
# dd is woken before a request is counted.
idle() {
	[ "$(xargs <"$sys/inflight")" = "0 0" ]
}
check "nothing is in flight" wait_for "$LIMIT" idle
before=$(completed) sectors=$(sectors)
counted() {
	[ "$(completed)" -ge $((before + 8)) ]
}
check "eight blocks are written" dd if=/dev/urandom of="$device" bs=4k count=8 oflag=direct
check "they are counted" wait_for "$LIMIT" counted
is "once" $(($(completed) - before)) 8
is "so are their sectors" $(($(sectors) - sectors)) 64

# ------------------------------------------------------------ discards, zeroes

head -c 64K "$device" >"$dir/before"
check_fails "a discard is refused" blkdiscard -l 64K "$device"
check_here "nothing is discarded" cmp "$dir/before" <(dd if="$device" bs=64K count=1 iflag=direct status=none)
check "zeroes are written" blkdiscard -z -l 32K "$device"
check_here "they are there" cmp <(head -c 32K /dev/zero) <(dd if="$device" bs=32K count=1 iflag=direct status=none)
check_here "and nowhere else" cmp <(tail -c 32K "$dir/before") \
	<(dd if="$device" bs=32K skip=1 count=1 iflag=direct status=none)

# ------------------------------------------------------------ partitions

# partition FIRST COUNT: an entry of the table, in sectors, as little endian numbers
partition() {
	printf '\0\0\0\0\203\0\0\0'
	printf '%b' "$(printf '\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) 0 0 $(($2 & 255)) $(($2 >> 8 & 255)) 0 0)"
}
{
	head -c 446 /dev/zero
	partition 2048 4096
	partition 8192 8192
	head -c 32 /dev/zero
	printf '\125\252'
} >"$dir/table"
check "a table of partitions" dd if="$dir/table" of="$device" oflag=direct conv=notrunc
check "is read" blockdev --rereadpt "$device"
check "there are two" wait_for "$LIMIT" test -b "${device}p2"
is "with their sizes" "$(blockdev --getsize64 "${device}p1" "${device}p2" | xargs)" \
	"$((4096 * 512)) $((8192 * 512))"
head -c 1M /dev/urandom >"$dir/data"
check "one is written" dd if="$dir/data" of="${device}p2" bs=1M oflag=direct
check_here "the peer has it where it should" cmp "$dir/data" <(krdma get -q nodeB/scratch@4M+1M -)
exec 7<"${device}p1"
check_fails "a disk is not detached while a partition is open" krdma blk detach "$device"
exec 7<&-
check "detach" krdma blk detach "$device"
check_fails "the partitions are gone" test -e "${device}p1"

# ------------------------------------------------------------ many

many() {
	local i
	for ((i = 0; i < 20; i++)); do
		krdma blk attach -r nodeB/glass || return
	done
}
check "twenty disks" many
is "are there" "$(krdma blk list -j | json_at /disks/#)" 20
none() {
	local i
	for i in $(krdma blk list -j | grep -o '/dev/krdmab[0-9]*'); do
		krdma blk detach "$i" || return
	done
}
check "detach all" none
end_sessions B
check_nothing_left "nothing is left"

done_testing
