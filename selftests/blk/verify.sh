#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# fio writes blocks with their checksums to a disk in the memory of node B, and reads them again: of
# several sizes and depths; while queue pairs go to error, links flap, the wire is cut and RDMA devices are
# deleted; and several jobs at once.
#
# FIO_SECONDS is the time of each job.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes block devices"
need_nodes 2
need_cuts
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
need_command fio
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
FIO_SECONDS=${FIO_SECONDS:-5}
dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end restore_link A
at_end restore_link B
# iWARP has one path.
wires=1
[ "$LAB_RDMA" != rxe ] || [ ! -e /sys/class/net/data1 ] || wires=2
if [ "$wires" = 2 ]; then
	second_wire
else
	keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fi
load_killer
load_blk
# How long the peer's sessions may be without a connection is for this host to say.
on -n B sh -c "echo 65535 >/sys/module/krdma_mover/parameters/resume"
listen_on B
export_on B scratch --size 64M
remember_leftovers
device=$(krdma blk attach --poll-queues 64 --timeout 3 nodeB/scratch)
wait_for "$LIMIT" test -b "$device"

for what in "4k 1 randwrite 16" "4k 64 randwrite 16" "64k 16 write 16" "1M 2 randwrite 2" "1M 16 write 8" \
	"4k 32 write 16" "512 64 randwrite 16" "12k 16 randwrite 16"; do
	read -r bs depth rw backlog <<<"$what"
	check "blocks of $bs, depth $depth, $rw" verified "$bs-$depth-$rw" --bs="$bs" --iodepth="$depth" --rw="$rw" \
		--verify_backlog="$backlog"
done
requests() {
	awk '{ print $1 + $5 }' "/sys/block/${device##*/}/stat"
}
before=$(requests) bells=$(counter A doorbells)
check "read and written" job both --bs=4k --iodepth=16 --iodepth_batch_submit=16 --iodepth_batch_complete_min=16 --rw=randrw
check "several requests have one doorbell" \
	[ $(($(counter A doorbells) - bells)) -lt $((($(requests) - before) / 2)) ]
is "it can be polled" "$(<"/sys/block/${device##*/}/queue/io_poll")" 1
polled() {
	verified "$@" --ioengine=io_uring --hipri=1
}
check "polled, one at a time" polled polled --bs=4k --rw=randwrite
check "polled, depth 16" polled polled16 --bs=4k --iodepth=16 --rw=randwrite
# A slow kernel handles the interrupt before it comes to poll.
if [ "$(nproc)" = 1 ] || [ "$TIME_FACTOR" != 1 ]; then
	skip "completions are found before their interrupt" "there is one processor, or the kernel is slow"
else
	check "completions are found before their interrupt" [ "$(counter A polled)" -gt 0 ]
fi
# The cache of the device is gone when it is closed.
buffered() {
	job buffered --direct=0 --ioengine=psync --bs=4k --size=2M --loops=1 --runtime=0 --rw=write --do_verify=0 \
		--verify_backlog=0 --fsync=16 && job again --bs=4k --size=2M --loops=1 --runtime=0 --rw=read
}
check "buffered, synced" buffered
check "four jobs at once" verified four --numjobs=4 --size=16M --offset_increment=16M --bs=4k --iodepth=8 --rw=randwrite

job_on_last() {
	job "$@" --cpus_allowed=$(($(nproc) - 1))
}
keep_writing kept job_on_last
for node in A B A B; do
	check_here "a queue pair of node $node goes to error" break_channel $node
done
has_connection() {
	local said
	said=$(krdma status) && ! grep -qw resuming <<<"$said"
}
flap() {
	# What is to be undone in the end is known already.
	on -n "$1" sh -c 'ip link set data0 down && ip link set data0 up' &&
		(keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4")
}
for node in A B; do
	if [ "$LAB_RDMA" = rxe ]; then
		skip "node $node's link goes down and comes up" "its queue pair 1 stays in error when it has sent without a route"
		continue
	fi
	check_here "node $node's link goes down and comes up" flap $node
	before=$(completed)
	check "writes go on" wait_for "$LIMIT" goes_on
	check "the session has its connection" wait_for "$LIMIT" has_connection
done
lost=$(losses)
cut_wire data0
check_here "the cut wire is noticed" wait_for "$LIMIT" has_lost "$lost"
# That of the writer: its requests are parked.
cpu=/sys/devices/system/cpu/cpu$(($(nproc) - 1))/online
at_end sh -c "[ ! -e $cpu ] || echo 1 >$cpu"
if [ "$(nproc)" -gt 1 ]; then
	echo 0 >"$cpu" &
	background_pids+=("$!")
	check "a processor goes offline meanwhile" wait_for "$LIMIT" is_over "$!"
	is "it is" "$(<"$cpu")" 0
else
	skip "a processor goes offline meanwhile" "there is one"
fi
check "the disk is resuming" wait_for "$LIMIT" disk_is state resuming
# Readahead fails fast, and the page is read once more without.
failed=$(counter A transfers_failed)
fails_fast() {
	[ "$(counter A transfers_failed)" -gt "$failed" ]
}
dd if="$device" of=/dev/null bs=4k count=1 status=none &
reader=$!
background_pids+=("$reader")
check "readahead does not wait for the session" wait_for "$LIMIT" fails_fast
before=$(completed)
mend_wire data0
check "writes go on when the wire is mended" wait_for "$LIMIT" goes_on
check_here "and a reader has what it waits for" wait "$reader"
check "the disk is live" wait_for "$LIMIT" disk_is state live
check_here "no block is wrong, and no request has failed" all_right
[ ! -e "$cpu" ] || echo 1 >"$cpu"
# Or the peer does not hear of the detach before the next attach.
check "the session has its connection again" wait_for "$LIMIT" has_connection
check "detach" krdma blk detach "$device"

# The RDMA device of either host goes, and comes again.
device=$(krdma blk attach nodeB/scratch) && wait_for "$LIMIT" test -b "$device"
keep_writing unplugged
for node in A B; do
	before=$(completed)
	check_here "writes are under way" wait_for "$LIMIT" goes_on
	on -n $node rdma link del "$LAB_RDMA_DEV"
	check "node $node's RDMA device goes: the disk is resuming" wait_for "$LIMIT" disk_is state resuming
	restore_link $node
	before=$(completed)
	check "writes go on when there is another one" wait_for "$LIMIT" goes_on
done
check_here "no block is wrong, and no request has failed" all_right
check "the session has its connection again" wait_for "$LIMIT" has_connection
check "detach" krdma blk detach "$device"

# Packets of more than 1 KiB do not arrive: a request is not given up for it.
if [ "$LAB_RDMA" = rxe ]; then
	device=$(krdma blk attach --keepalive 1 nodeB/scratch) && wait_for "$LIMIT" test -b "$device"
	# lose NUMBER VALUE MASK: UDP of such a length.
	lose() {
		on -n B tc filter add dev data0 ingress pref "$1" protocol ip u32 \
			match ip protocol 17 0xff match u16 "$2" "$3" at 2 action drop
	}
	losses=$(counter A channels_lost)
	lost_often() {
		[ $(($(counter A channels_lost) - losses)) -gt 6 ]
	}
	check "long packets are lost" eval "lose 1 0x0400 0xfc00 && lose 2 0x1000 0xf000"
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none &
	writer=$!
	background_pids+=("$writer")
	check "a write loses one connection after the other" wait_for "$LIMIT" lost_often
	check "they are lost no more" mend_wire data0
	check_here "the write succeeds" wait "$writer"
	check "detach" krdma blk detach "$device"

	# No request to READ arrives (opcode 12 of the BTH): attach can't read partitions.
	check "READs are lost" on -n B tc filter add dev data0 ingress pref 1 protocol ip u32 \
		match ip protocol 17 0xff match u8 0x0c 0xff at 28 action drop
	krdma blk attach nodeB/scratch >"$dir/attach" 2>&1 &
	attach=$!
	background_pids+=("$attach")
	check "attach waits for partitions" wait_for "$LIMIT" disk_is state attaching
	like "detach by force" "$(krdma blk detach --force 0 2>&1)" 'another command attaches, detaches or resizes it, and ends in bounded time$'
	check "attach ends" wait_for "$LIMIT" is_over "$attach"
	is "and says why" "$(<"$dir/attach")" "krdma: blk attach nodeB/scratch: it was detached meanwhile"
	is "there is no disk" "$(krdma blk list -j | json_at /disks/#)" 0
	mend_wire data0
else
	skip "long packets are lost" "it is iWARP"
	skip "attach waits for partitions" "it is iWARP"
fi

# The peer lets go of a disk that was detached while there was no connection, however long it may resume.
device=$(krdma blk attach --resume always --keepalive 1 nodeB/scratch) && wait_for "$LIMIT" test -b "$device"
cut_wire data0
check "the disk is resuming" wait_for "$LIMIT" disk_is state resuming
one_session() {
	[ "$(status A /sessions/#)" = 1 ]
}
check "there is no other session" wait_for "$LIMIT" one_session
check "it is detached" krdma blk detach "$device"
check_fails "its session stays" krdma monitor --until session-ended --timeout 15
mend_wire data0
has_grants() {
	[ "$(status B /exports/0/grants)" = "$1" ]
}
check "the peer lets go of it" wait_for "$LIMIT" has_grants 0

# Two paths: requests go on over one while the wire of the other is cut.
if [ "$wires" = 2 ]; then
	device=$(krdma blk attach --path 10.79.0.2 nodeB/scratch) && wait_for "$LIMIT" test -b "$device"
	path_is() {
		krdma status | grep -q "^path $1 .*state $2"
	}
	check "a disk has a second path" wait_for "$LIMIT" path_is 1 up
	keep_writing paths job_on_last
	before=$(completed)
	check "it is in use" wait_for "$LIMIT" goes_on
	cut_wire data0
	check "the first path is lost" wait_for "$LIMIT" path_is 0 down
	before=$(completed)
	check "requests go on over the other" wait_for "$LIMIT" goes_on
	mend_wire data0
	check_here "no block is wrong, and no request has failed" all_right
	check "detach" krdma blk detach "$device"
else
	skip "two paths" "there is one wire, or iWARP, where a session has one path"
fi
end_sessions B
check_nothing_left "nothing is left"

done_testing
