#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk in the memory of node B, from attach to detach: its bytes are those of the export; a file
# system is there again after the next attach; what can't be is refused with a sentence; a module that
# goes detaches its disks; and an export that ends takes the disk with it. Detached by force, it ends what
# is under way, FORCED times, and no request of another disk of its session.
# A disk whose session does not resume is lost when the RDMA device of either host is deleted, and
# one whose target loses its power when its time is over.
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
FORCED=${FORCED:-5}
dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end restore_link A
at_end restore_link B
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
load_blk
listen_on B
# Room for one disk of it that is held, not for two: that is not what a second one hears.
most=40
[ "$LAB_RDMA" = rxe ] || most=80
export_on B scratch --size 64M --max-segments $most
export_on B glass --size 1M --read-only
export_on B odd --size 10000
remember_leftovers
head -c 3000000 /dev/urandom >"$dir/data"

# 1. Attach.
merge calls "${0%/*}/calls"
is "no disk yet" "$(krdma blk list -j | json_at /disks/#)" 0
said=$(krdma blk attach nodeB/nothing 2>&1)
is "an export that is not there" "$said" \
	"krdma: blk attach nodeB/nothing: 10.77.0.2:7471 publishes nothing named 'nothing'"
said=$(krdma blk detach 7 2>&1)
is "a disk that is not there" "$said" "krdma: blk detach 7: there is no such disk"
check_fails "a block of 1000 bytes" krdma blk attach --block-size 1000 nodeB/scratch
device=$(krdma blk attach nodeB/scratch)
is "attach says which disk it is" "$device" /dev/krdmab0
check "the device is there" wait_for "$LIMIT" test -b "$device"
is "its size" "$(blockdev --getsize64 "$device")" $((64 << 20))
is "its state" "$(disk state)" live
is "its export" "$(disk export)" scratch
is "nobody has asked to poll for it" "$(<"/sys/block/${device##*/}/queue/io_poll")" 0
check_fails "krdma_mover can't be unloaded" rmmod krdma_mover
is "its memory is there" "$(status B /exports/0/pinned_bytes)" $((64 << 20))
check "and held" [ "$(status B /exports/0/held)" = "$(status B /exports/0/segments)" ]
is "for nobody else to write to" "$(status B /exports/0/exclusive)" 1

# 2. Its bytes are those of the export.
check "3 MB are written" dd if="$dir/data" of="$device" bs=1M oflag=direct conv=notrunc iflag=fullblock
check_here "a get has them" cmp "$dir/data" <(krdma get -q nodeB/scratch@0+3000000 -)
like "a put is refused" "$(krdma put -q "$dir/data" nodeB/scratch@8M 2>&1)" "'scratch' of .* is open elsewhere"
like "a second disk, too" "$(krdma blk attach nodeB/scratch 2>&1)" "another one has it open: --read-only reads beside it, --takeover"
is "but not one to be read" "$(krdma blk attach --no-hold -r nodeB/scratch)" /dev/krdmab1
check_here "with the same bytes" cmp -n 3000000 "$dir/data" /dev/krdmab1
check "detach it" krdma blk detach /dev/krdmab1
check "detach" krdma blk detach "$device"
is "a disk that others may write to" "$(krdma blk attach --shared nodeB/scratch)" /dev/krdmab0
check "is not theirs alone" [ "$(status B /exports/0/exclusive)" = 0 ]
check "a put is not refused" krdma put -q "$dir/data" nodeB/scratch@8M
check_here "what a put writes is read" cmp "$dir/data" \
	<(dd if="$device" bs=1M skip=8 count=3 iflag=direct status=none | head -c 3000000)
check_here "not all at whole pages" cmp <(tail -c +1537 "$dir/data" | head -c 512) \
	<(dd if="$device" bs=512 skip=$((8 * 2048 + 3)) count=1 iflag=direct status=none)

# 3. A file system.
mkdir "$dir/mnt"
check "mkfs.ext4" mkfs.ext4 -q -b 4096 "$device"
check "mount" mount "$device" "$dir/mnt"
cp "$dir/data" "$dir/mnt/one" && mkdir "$dir/mnt/many" && for ((i = 0; i < 100; i++)); do
	echo "$i" >"$dir/mnt/many/$i"
done
said=$(krdma blk detach "$device" 2>&1)
like "a disk that is mounted is not detached" "$said" '^krdma: blk detach /dev/krdmab0: it is in use: '
check "umount" umount "$dir/mnt"
check "fsck finds nothing" fsck.ext4 -fn "$device"
check "detach" krdma blk detach "$device"
check_fails "the device is gone" test -b "$device"
queues=$(($(nproc) > 1 ? 2 : 1))
is "attach again" "$(krdma blk attach --block-size 4096 --queues 2 --poll-queues 1 --depth 16 --timeout 45 \
	--resume always --keepalive 7 nodeB/scratch)" /dev/krdmab0
like "its options are shown" "$(krdma show --config)" "\[disk 10.77.0.2:7471/scratch\]
block-size = 4096
poll-queues = 1
queues = $queues
depth = 16
timeout = 45
resume = always
keepalive = 7"
is "with other blocks" "$(blockdev --getss "$device")" 4096
is "and queues, one of them for polled requests" \
	"$(find /sys/block/krdmab0/mq -mindepth 1 -maxdepth 1 -type d | wc -l)" $((queues + 1))
krdma show --config >"$dir/conf"
check "detach" krdma blk detach "$device"
check "krdma apply attaches it" krdma apply --disks "$dir/conf"
is "as it was" "$(krdma show --config)" "$(<"$dir/conf")"
said=$(krdma apply --disks "$dir/conf" 2>&1)
is "and does nothing the next time" "$?$said" 0
check "mount" mount -o ro "$device" "$dir/mnt"
check "the file is there" cmp "$dir/data" "$dir/mnt/one"
is "and the others" "$(cat "$dir"/mnt/many/* | sort -n | md5sum)" "$(seq 0 99 | md5sum)"
check "umount" umount "$dir/mnt"
# Whatever queue pair they took: the target has said so of each.
if [ "$LAB_RDMA" = siw ]; then
	check "writes have READs behind them" [ "$(counter A placements)" -gt 0 ]
else
	is "no write has a READ behind it, as rxe needs none" "$(counter A placements)" 0
fi

# 4. Others beside it.
is "one that can't be written" "$(krdma blk attach nodeB/glass)" /dev/krdmab1
is "says so" "$(blockdev --getro /dev/krdmab1)" 1
check_fails "and is not" dd if="$dir/data" of=/dev/krdmab1 bs=512 count=1 oflag=direct
is "whole blocks" "$(krdma blk attach -r nodeB/odd)" /dev/krdmab2
is "are what a disk has" "$(blockdev --getsize64 /dev/krdmab2)" 9728
is "three disks" "$(krdma blk list -j | json_at /disks/#)" 3
check "detach the one between" krdma blk detach krdmab1
is "two disks" "$(krdma blk list | awk 'NR > 1 { print $1 }' | xargs)" "/dev/krdmab0 /dev/krdmab2"
check "detach by number, abbreviated" krdma blk d 2
is "another one" "$(krdma blk attach --no-hold -r nodeB/odd)" /dev/krdmab1
exec 7<"$device"
check_fails "a module whose disk is open can't be unloaded" rmmod krdma_blk
exec 7<&-
check "one with disks that nobody uses can" wait_for "$LIMIT" rmmod krdma_blk
check_fails "they are gone" ls /dev/krdmab*
check "load it again" insmod "$BLK"

# 5. Another one takes it over.
device=$(krdma blk attach nodeB/scratch)
is "a disk takes the place of another one" "$(krdma blk attach --takeover nodeB/scratch)" /dev/krdmab1
check "which is revoked" wait_for "$LIMIT" disk_is state revoked
check_fails "and writes no more" dd if="$dir/data" of="$device" bs=4096 count=10 oflag=direct
check "detach it" krdma blk detach "$device"
device=/dev/krdmab1
check "the other one is in use" mount "$device" "$dir/mnt"
check "umount" umount "$dir/mnt"

# 6. The export ends, in use.
check "mount" mount "$device" "$dir/mnt"
on -n B pkill -x -f 'krdma export scratch .*'
check "the disk is revoked" wait_for "$LIMIT" disk_is state revoked
check_fails "no write gets there" dd if="$dir/data" of="$dir/mnt/two" bs=4096 count=10 conv=fsync
check_fails "it is open still" krdma blk detach "$device"
umount "$dir/mnt"
check "detach" krdma blk detach "$device"

# 7. With writes under way: the export ends; by force, beside another disk; and an RDMA device is deleted.
in_flight() {
	awk '{ exit !($1 + $2) }' "/sys/block/${device#/dev/}/inflight"
}
# attach OPTION... EXPORT: it is $device.
attach() {
	device=$(krdma blk attach "$@") && wait_for "$LIMIT" test -b "$device"
}
# What the peer has not heard of yet keeps others out.
let_go() {
	[ "$(status B /grants/#)" = 0 ]
}
# A writer that ends with the first write that fails.
begin_writes() {
	while dd if=/dev/zero of="$device" bs=64k count=1000 oflag=direct conv=notrunc,nocreat 2>/dev/null; do :; done &
	writer=$!
	background_pids+=("$writer")
	wait_for "$LIMIT" in_flight
}
export_on B scratch --size 64M
check_here "attach" attach nodeB/scratch
check_here "writes are under way" begin_writes
on -n B kill "$EXPORT_PID"
check "the export ends, and so do they" wait_for "$LIMIT" is_over "$writer"
check "the disk is revoked" wait_for "$LIMIT" disk_is state revoked
check "detach" krdma blk detach "$device"
export_on B scratch --size 64M
export_on B other --size 1M
check_here "two disks that do not resume" eval "attach --resume 0 nodeB/other && attach --resume 0 nodeB/scratch"
check_here "writes are under way" begin_writes
check "detach by force" krdma blk detach --force "$device"
check "the writer ends" wait_for "$LIMIT" is_over "$writer"
check_here "the other one is as it was" cmp -n 1048576 /dev/zero /dev/krdmab0
is "and live" "$(disk state)" live
check "detach it" krdma blk detach 0
check "the peer has let go of all" wait_for "$LIMIT" let_go
check_here "two disks of a session" eval "attach nodeB/other && attach nodeB/scratch"
serial=$(status A /regions/0/session)
like "a session has both" "$serial" '^[0-9]+$'
is "it is one" "$(status A /regions/1/session)" "$serial"
other=/dev/krdmab0
while [ ! -e "$dir/enough" ]; do
	dd if=/dev/zero of=$other bs=64k count=16 oflag=direct conv=notrunc,nocreat 2>"$dir/other" || exit
done &
neighbour=$!
background_pids+=("$neighbour")
check_here "writes are under way" begin_writes
check "detach by force" krdma blk detach --force "$device"
check "the writer ends" wait_for "$LIMIT" is_over "$writer"
device=$other before=$(completed)
check "the other one's writes go on" wait_for "$LIMIT" goes_on
touch "$dir/enough"
check_here "and none has failed" wait "$neighbour" || diag "$(<"$dir/other")"
is "in the same session" "$(status A /regions/0/session)" "$serial"
check "detach it" krdma blk detach 0
for node in B A; do
	check "the peer has let go of all" wait_for "$LIMIT" let_go
	check_here "attach" attach --resume 0 nodeB/scratch
	check_here "writes are under way" begin_writes
	on -n $node rdma link del "$LAB_RDMA_DEV"
	check "node $node's RDMA device goes: the writes end" wait_for "$LIMIT" is_over "$writer"
	check "the disk is lost" wait_for "$LIMIT" disk_is state lost
	check "detach" krdma blk detach "$device"
	restore_link $node
done
check "the peer has let go of all" wait_for "$LIMIT" let_go

# 8. By force, with batches under way, again and again.
if command -v fio >/dev/null; then
	moves() {
		[ "$(awk '{ print $5 }' "/sys/block/${device#/dev/}/stat")" -gt 100 ]
	}
	batches() {
		attach --depth 32 nodeB/scratch || return
		fio --name=batches --filename="$device" --direct=1 --ioengine=libaio --rw=randrw --bs=4k --iodepth=64 \
			--iodepth_batch=16 --numjobs=2 --time_based --runtime=600 >/dev/null 2>&1 &
		background_pids+=("$!")
		wait_for "$LIMIT" moves && krdma blk detach --force "$device" && wait_for "$LIMIT" is_over "$!"
	}
	for ((i = 0; i < FORCED; i++)); do
		batches || break
	done
	is "$FORCED times by force, with batches under way" "$i" "$FORCED"
	# A program that polls is stopped: the timer of the block layer is not waited for.
	attach --poll-queues 1 nodeB/scratch
	echo 600000 >"/sys/block/${device#/dev/}/queue/io_timeout"
	fio --name=polls --thread --filename="$device" --direct=1 --ioengine=io_uring --hipri=1 --rw=randwrite --bs=4k \
		--iodepth=16 --time_based --runtime=600 >/dev/null 2>&1 &
	polls=$!
	background_pids+=("$polls")
	is "the disk can be polled" "$(<"/sys/block/${device#/dev/}/queue/io_poll")" 1
	check "a program polls" wait_for "$LIMIT" moves
	stopped() {
		kill -STOP "$polls" && in_flight && return
		kill -CONT "$polls"
		return 1
	}
	check "it is stopped with requests under way" wait_for "$LIMIT" stopped
	check "detach by force" timeout $((20 * TIME_FACTOR)) krdma blk detach --force "$device"
	kill -CONT "$polls"
	check "the program ends" wait_for "$LIMIT" is_over "$polls"
else
	skip "by force, with batches under way" "there is no fio"
	skip "by force, while a program that polls is stopped" "there is no fio"
fi

# 9. By force, when the wire is cut: nothing waits any longer, though nobody has noticed, and requests have no deadline.
on -n B sh -c "echo 65535 >/sys/module/krdma_mover/parameters/resume"
attach --resume always --keepalive 60 nodeB/scratch
mkfs.ext4 -q "$device" && mount "$device" "$dir/mnt"
cp "$dir/data" "$dir/mnt/late"
cut_wire data0
umount "$dir/mnt" &
umount=$!
check "umount waits for the wire" wait_for "$LIMIT" in_flight
check "detach by force" timeout $((20 * TIME_FACTOR)) krdma blk detach --force "$device"
check "umount ends" wait_for "$LIMIT" is_over "$umount"
mend_wire data0
end_sessions B
check_nothing_left "nothing is left"

# 10. Of a target that does not say that its device needs no READ behind a write.
background B "$SELFTESTS/hostile/peer" target 0.0.0.0 8000
peer=$BACKGROUND_PID
check "a target" wait_for "$LIMIT" grep -q listening "$BACKGROUND_LOG"
attach --no-hold nodeB:8000/good
reads=$(counter A placements)
check "a block is written" dd if="$dir/data" of="$device" bs=4k count=1 oflag=direct conv=notrunc
is "with a READ behind it" $(($(counter A placements) - reads)) 1
check_here "and is there" cmp -n 4096 "$dir/data" <(dd if="$device" bs=4k count=1 iflag=direct status=none)
check "detach" krdma blk detach "$device"
kill "$peer"

# 11. The target loses its power, with writes under way.
if [ -n "${LAB_ONE_KERNEL-}" ]; then
	skip "the target loses its power" "needs a machine for each node"
elif [ "$LAB_RDMA" = rxe ] && [ "$TIME_FACTOR" != 1 ]; then
	# The wire of the lab holds packets back until the machine that boots takes them.
	skip "the target loses its power" "rxe waits 50 s at most for its own packets, and this kernel boots slowly"
else
	# siw connects for as long as TCP does, and does not end before.
	retries=$(sysctl -n net.ipv4.tcp_syn_retries)
	at_end sysctl -qw "net.ipv4.tcp_syn_retries=$retries"
	sysctl -qw net.ipv4.tcp_syn_retries=1
	check_here "attach" attach --resume 5 --timeout 5 nodeB/scratch
	check "a file system" mkfs.ext4 -q "$device"
	check_here "writes are under way" begin_writes
	power_off B
	check "the target loses its power: the writes end" wait_for "$LIMIT" is_over "$writer"
	check "the disk is lost" wait_for "$LIMIT" disk_is state lost
	# It ends at once, or fails: newer kernels make a disk that is dead an empty one.
	is "and no byte of it is read" "$(dd if="$device" bs=4k count=1 iflag=direct 2>/dev/null | wc -c)" 0
	check "detach" timeout $((20 * TIME_FACTOR)) krdma blk detach "$device"
	check "the target is back" wait_for $((2 * LIMIT)) is_back B
	on -n B ip neigh replace "$LOCAL_V4" lladdr "$(cat /sys/class/net/data0/address)" dev data0 nud permanent ||
		not_ok "the nodes know each other"
	load_module B
	listen_on B
	export_on B scratch --size 64M
	check_here "attach" attach nodeB/scratch
	check_here "its memory is another one" cmp -n 1048576 /dev/zero "$device"
	check "detach" krdma blk detach "$device"
	end_sessions B
	check_nothing_left "nothing is left"
fi

done_testing
