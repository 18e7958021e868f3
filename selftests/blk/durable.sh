#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Persistent memory of node B, as devdax: 'krdma put --durable' has it written back, and a disk has a
# write cache: fsync sends a FLUSH of what was written. Of other memory neither does. A flush waits
# for a connection that comes back, and ends with a disk that is detached by force.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes block devices"
need_nodes 2
need_cuts
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
need_command mkfs.ext4
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"

# The machine's persistent memory (tools/vm/lab) as devdax; it stays that until the machine ends.
# shellcheck disable=SC2016 # for the node's shell
said=$(on -n B sh -c '
	modprobe -a nd_e820 nd_pmem dax_pmem device_dax || exit
	cd /sys/bus/nd/devices && [ -e region0 ] || exit
	if [ ! -e /dev/dax0.0 ] && [ ! -e /dev/dax0.1 ]; then
		seed=$(cat region0/dax_seed) &&
			{ [ ! -e namespace0.0/driver ] || echo namespace0.0 >namespace0.0/driver/unbind; } &&
			echo ram >"$seed/mode" && echo 2097152 >"$seed/align" &&
			cat /proc/sys/kernel/random/uuid >"$seed/uuid" &&
			echo namespace0.0 >"$seed/namespace" &&
			echo "$seed" >/sys/bus/nd/drivers/dax_pmem/bind
	fi' devdax 2>&1) || skip_all "no devdax on node B: $said"
dax=$(on -n B sh -c 'echo /dev/dax*')
check "node B has a devdax device" wait_for 10 on -n B test -c "$dax"
size=$(on -n B sh -c "cat /sys/bus/dax/devices/${dax#/dev/}/size")

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
load_blk
listen_on B
export_on B vol --file "$dax"
like "the export is durable" "$(<"$BACKGROUND_LOG")" "exported vol: .*, read,write,durable"
# 8 bytes for each page.
is "and of it the table of its pages is pinned memory" "$(counter B pinned_bytes)" \
	$(((size + 2097151) / 2097152 << 12))
export_on B volatile --size 4M
remember_leftovers
head -c 3000000 /dev/urandom >"$dir/data"

# flushes COMMAND...: run it. FLUSHES: operations of this node meanwhile; FLUSHED: bytes written back on B.
flushes() {
	local ops bytes status
	ops=$(counter A flushes)
	bytes=$(counter B flushed_bytes)
	"$@"
	status=$?
	FLUSHES=$(($(counter A flushes) - ops))
	FLUSHED=$(($(counter B flushed_bytes) - bytes))
	return "$status"
}

# 1. Programs.
is "its length is that of the device" "$(krdma ls -j nodeB | json_at /exports/0/length)" "$size"
check_here "put" flushes krdma put -q "$dir/data" nodeB/vol@4K
is "which flushes nothing" "$FLUSHES $FLUSHED" "0 0"
check_here "put --durable" flushes krdma put -q --durable "$dir/data" nodeB/vol@4K
is "which flushes what it has written" "$FLUSHES $FLUSHED" "1 3000000"
check_here "a get has the bytes" cmp "$dir/data" <(krdma get -q nodeB/vol@4K+3000000 -)
check_here "put --durable of nothing" flushes krdma put -q --durable /dev/null nodeB/vol
is "flushes nothing" "$FLUSHES" 0
said=$(krdma put -q --durable "$dir/data" nodeB/volatile 2>&1)
is "put --durable to other memory is refused" "$said" \
	"krdma: put $dir/data nodeB/volatile: 'volatile' is not durable: its memory is volatile"
is "before it writes" "$(krdma get -q nodeB/volatile@0+4096 - | tr -d '\0' | wc -c)" 0

# 2. A disk.
device=$(krdma blk attach nodeB/vol)
check "the disk is there" wait_for "$LIMIT" test -b "$device"
cache=/sys/block/${device#/dev/}/queue/write_cache
is "it has a write cache" "$(<"$cache")" "write back"
write_at() {
	dd if="$dir/data" of="$device" bs=4k count="$2" seek="$1" conv=notrunc,fsync status=none
}
check_here "the first fsync" flushes write_at 0 1
is "flushes all of it, as others may have written" "$FLUSHED" "$(blockdev --getsize64 "$device")"
check_here "the next one" flushes write_at 100 1
is "flushes a chunk" "$FLUSHES $FLUSHED" "1 65536"
check_here "one of two chunks that are not neighbours" flushes sh -c \
	"dd if=$dir/data of=$device bs=4k count=1 seek=0 conv=notrunc oflag=direct status=none &&
	dd if=$dir/data of=$device bs=4k count=1 seek=1000 conv=notrunc,fsync status=none"
is "is one operation" "$FLUSHES $FLUSHED" "1 131072"
scattered() {
	local i
	for ((i = 0; i < 40; i++)); do
		dd if="$dir/data" of="$device" bs=4k count=1 seek=$((i * 32)) conv=notrunc oflag=direct status=none || return
	done
	sync "$device"
}
check_here "one of 40 chunks" flushes scattered
is "is two operations" "$FLUSHES $FLUSHED" "2 $((40 * 65536))"
check_here "one without a write" flushes sync "$device"
is "flushes nothing" "$FLUSHES $FLUSHED" "0 0"
check_here "a write with O_DSYNC" flushes dd if="$dir/data" of="$device" bs=4k count=1 \
	oflag=direct,dsync conv=notrunc status=none
is "flushes as well" "$FLUSHED" 65536
is "only the first channel has WRITEs, which a FLUSH comes behind" \
	"$(krdma status -j | python3 -c 'import json, sys
print({c["channel"] for c in json.load(sys.stdin)["channels"] if c["bytes_written"]})')" "{0}"
check "mkfs.ext4" mkfs.ext4 -q -b 4096 "$device"
mkdir "$dir/mnt"
check "mount" mount "$device" "$dir/mnt"
check_here "a file is written with fsync" flushes dd if="$dir/data" of="$dir/mnt/file" bs=1M conv=fsync \
	status=none
check "which flushes at least what it has" [ "$FLUSHED" -ge 3000000 ]
check "umount" umount "$dir/mnt"
check "fsck finds nothing" fsck.ext4 -fn "$device"
check "detach" krdma blk detach "$device"
one=$(krdma blk attach --shared nodeB/vol)
device=$(krdma blk attach --shared nodeB/vol)
check "two disks of it, shared" wait_for "$LIMIT" test -b "$one" -a -b "$device"
check "both have flushed" sh -c "for i in $one $device; do
	dd if=$dir/data of=\$i bs=4k count=1 conv=notrunc,fsync status=none || exit
done"
check "one is written to" dd if="$dir/data" of="$one" bs=4k count=1 oflag=direct conv=notrunc status=none
check_here "the other is flushed" flushes write_at 0 1
is "with what was written to the first" "$FLUSHED" "$(blockdev --getsize64 "$device")"
check "detach both" sh -c "krdma blk detach $one && krdma blk detach $device"
device=$(krdma blk attach nodeB/vol)
check "the disk is there again" wait_for "$LIMIT" test -b "$device"

# A program that polls: the block layer ends its write together with the flush, which must not end in a softirq,
# although rq_affinity asks for the processor of the program.
if command -v fio >/dev/null; then
	check "detach" krdma blk detach "$device"
	device=$(krdma blk attach --queues 1 --poll-queues 1 nodeB/vol)
	check "a disk that can be polled" wait_for "$LIMIT" test -b "$device"
	echo 2 >"/sys/block/${device#/dev/}/queue/rq_affinity"
	polls() {
		fio --name=polls --thread --filename="$device" --direct=1 --ioengine=io_uring --hipri=1 --sync=dsync \
			--rw=randwrite --bs=4k --size=1M --output="$dir/fio"
	}
	check_here "writes that are polled for, with O_DSYNC" flushes polls
	check "are flushed" [ "$FLUSHES" -ge 256 ]
	polls &
	pid=$!
	background_pids+=("$pid")
	while ! is_over "$pid"; do
		sync "$device"
	done
	check_here "also where a flush is for others as well" wait "$pid"
else
	skip "writes that are polled for, with O_DSYNC" "there is no fio"
fi

# 3. Without a connection.
is_flush() {
	krdma status --transfers | grep -q '^transfer flush '
}
cut_wire data0
write_at 200 1 2>"$dir/said" &
pid=$!
check "a write waits while the wire is cut" wait_for "$LIMIT" \
	sh -c "krdma status --transfers | grep -q '^transfer '"
mend_wire data0
check_here "and is durable when it is mended" wait "$pid"
check "a write without fsync" dd if="$dir/data" of="$device" bs=4k count=1 conv=notrunc oflag=direct status=none
cut_wire data0
sync "$device" 2>"$dir/said" &
pid=$!
check "a flush waits while the wire is cut" wait_for "$LIMIT" is_flush
mend_wire data0
check_here "and ends when it is mended" wait "$pid"
check "one more" dd if="$dir/data" of="$device" bs=4k count=1 conv=notrunc oflag=direct status=none
cut_wire data0
sync "$device" 2>"$dir/said" &
pid=$!
check "a flush waits again" wait_for "$LIMIT" is_flush
check "the disk is detached by force" krdma blk detach --force "$device"
wait "$pid"
is "and the flush fails" $? 1
mend_wire data0

# 4. A disk of other memory.
device=$(krdma blk attach nodeB/volatile)
check "a disk of other memory" wait_for "$LIMIT" test -b "$device"
is "has no write cache" "$(<"/sys/block/${device#/dev/}/queue/write_cache")" "write through"
check_here "its fsync" flushes write_at 0 10
is "flushes nothing" "$FLUSHES $FLUSHED" "0 0"
check "detach" krdma blk detach "$device"
check_nothing_left "nothing is left"
done_testing
