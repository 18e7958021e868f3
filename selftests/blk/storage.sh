#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What is put on disks: ext4 and XFS under load, a mirror of which one disk is lost and comes back, a volume
# that grows by another disk while it is mounted, stripes, two paths to one export, and swap, also while
# connections are lost. What the kernel or the machine lacks is skipped. FIO_SECONDS is the time of a load.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes block devices"
need_nodes 2
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
FIO_SECONDS=${FIO_SECONDS:-5}
dir=$(mktemp -d)
at_end rm -rf "$dir"
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
load_killer
load_blk
listen_on B
remember_leftovers
mkdir "$dir/mnt"

# attach NAME SIZE: exports it, and attaches it as $device. EXPORT_PID is the process there.
attach() {
	export_on B "$1" --size "$2"
	device=$(krdma blk attach "nodeB/$1") && wait_for "$LIMIT" test -b "$device"
}
has_filesystem() {
	grep -qw "$1" /proc/filesystems || modprobe "$1" 2>/dev/null
}

# 1. File systems, under load, while queue pairs go to error.
# stress: four jobs of fio write files of many lengths, read them again and compare checksums, while other
# files come, change their names and go.
stress() {
	local pid losses=0 i=0
	fio --directory="$dir/mnt" --name=files --numjobs=4 --nrfiles=16 --filesize=1k-1m --rw=randwrite --bsrange=512-64k \
		--ioengine=psync --fsync=8 --verify=crc32c --verify_fatal=1 --verify_backlog=16 --randrepeat=0 --loops=1000000 \
		--runtime=$((FIO_SECONDS * TIME_FACTOR)) --output="$dir/fio" &
	pid=$!
	background_pids+=("$pid")
	while ! is_over "$pid"; do
		i=$((i + 1))
		mkdir "$dir/mnt/$i" && cp "$dir/data" "$dir/mnt/$i/new" && mv "$dir/mnt/$i/new" "$dir/mnt/$i/data" || return
		[ $((i % 4)) != 0 ] || rm -r "${dir:?}/mnt/$((i - 1))"
		! break_channel A 5 || losses=$((losses + 1))
	done
	diag "$i folders, $losses queue pairs"
	wait "$pid" && has_read "$dir/fio" && [ "$losses" -gt 0 ]
}
head -c 300000 /dev/urandom >"$dir/data"
for type in ext4 xfs; do
	fsck=(e2fsck -fn)
	[ $type = ext4 ] || fsck=(xfs_repair -n)
	if ! command -v mkfs.$type >/dev/null || ! command -v fio >/dev/null || ! has_filesystem $type; then
		skip "$type" "there is no mkfs.$type or fio, or not the file system in this kernel"
		continue
	fi
	attach $type 320M
	check "mkfs.$type" mkfs.$type -q "$device"
	check "mount" mount "$device" "$dir/mnt"
	at_end sh -c "! mountpoint -q '$dir/mnt' || umount '$dir/mnt'"
	check_here "stress" stress
	(cd "$dir/mnt" && find . -type f -exec md5sum {} +) >"$dir/sums"
	check "umount" umount "$dir/mnt"
	check "${fsck[0]} finds nothing" "${fsck[@]}" "$device"
	check "mount again" mount "$device" "$dir/mnt"
	check "all files are there" sh -c "cd '$dir/mnt' && md5sum --quiet -c '$dir/sums'"
	check "umount" umount "$dir/mnt"
	check "detach" krdma blk detach "$device"
	on -n B kill "$EXPORT_PID"
done

# 2. A mirror.
if command -v mdadm >/dev/null && { grep -qs raid1 /proc/mdstat || modprobe raid1 2>/dev/null; }; then
	attach half1 48M
	one=$device
	attach half2 48M
	two=$device half2=$EXPORT_PID
	check "a mirror of two" mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 "$one" "$two"
	wait_for "$LIMIT" test -b /dev/md0
	at_end sh -c '[ ! -b /dev/md0 ] || mdadm --stop /dev/md0'
	check "mkfs.ext4" mkfs.ext4 -q /dev/md0
	check "mount" mount /dev/md0 "$dir/mnt"
	head -c 8000000 /dev/urandom >"$dir/data"
	cp "$dir/data" "$dir/mnt/before"
	sync
	on -n B kill "$half2"
	cp "$dir/data" "$dir/mnt/meanwhile"
	check "a disk is lost: the mirror takes writes" sync -f "$dir/mnt"
	degraded() {
		[ "$(cat /sys/block/md0/md/degraded)" = "$1" ]
	}
	check "it knows that it is degraded" wait_for "$LIMIT" degraded 1
	mdadm /dev/md0 --remove failed >/dev/null 2>&1
	check "the dead disk is detached" wait_for "$LIMIT" krdma blk detach --force "$two"
	attach half2 48M
	check "another one takes its place" mdadm /dev/md0 --add "$device"
	check "and is filled" wait_for "$LIMIT" degraded 0
	check "umount" umount "$dir/mnt"
	check "stop" mdadm --stop /dev/md0
	check "the new half alone" mdadm --assemble --run /dev/md0 "$device"
	check "has a file system" mount -o ro /dev/md0 "$dir/mnt"
	check "with both files" sh -c "cmp '$dir/data' '$dir/mnt/before' && cmp '$dir/data' '$dir/mnt/meanwhile'"
	check "umount" umount "$dir/mnt"
	check "stop" mdadm --stop /dev/md0
	check "detach" sh -c "krdma blk detach $one && krdma blk detach $device"
else
	skip "a mirror" "there is no mdadm, or no raid1 in this kernel"
fi

# 3. A volume that grows.
if command -v dmsetup >/dev/null && { [ -e /sys/class/misc/device-mapper ] || modprobe dm-mod 2>/dev/null; }; then
	volume=krdma-volume
	# linear DEVICE...: the table of a volume of all of each, one behind the other.
	linear() {
		local start=0 sectors device
		for device; do
			sectors=$(blockdev --getsz "$device")
			echo "$start $sectors linear $device 0"
			start=$((start + sectors))
		done
	}
	attach part1 16M
	one=$device
	check "a volume of one disk" dmsetup create --noudevsync $volume --table "$(linear "$one")"
	at_end sh -c "! dmsetup info $volume >/dev/null 2>&1 || dmsetup remove --noudevsync $volume"
	dmsetup mknodes
	check "mkfs.ext4" mkfs.ext4 -q /dev/mapper/$volume
	check "mount" mount /dev/mapper/$volume "$dir/mnt"
	at_end sh -c "! mountpoint -q '$dir/mnt' || umount '$dir/mnt'"
	head -c 8000000 /dev/urandom >"$dir/data"
	cp "$dir/data" "$dir/mnt/before"
	check_fails "three of these do not fit" sh -c "cp '$dir/data' '$dir/mnt/second' && cp '$dir/data' '$dir/mnt/third'" 2>/dev/null
	rm -f "$dir/mnt/second" "$dir/mnt/third"
	attach part2 32M
	check "another disk behind it" dmsetup reload $volume --table "$(linear "$one" "$device")"
	check "the volume has both" dmsetup resume --noudevsync $volume
	check "the file system grows" resize2fs /dev/mapper/$volume
	check "four fit" sh -c "for i in 2 3 4; do cp '$dir/data' '$dir/mnt/'\$i || exit; done"
	check "umount" umount "$dir/mnt"
	check "fsck" e2fsck -fn /dev/mapper/$volume
	check "mount again" mount /dev/mapper/$volume "$dir/mnt"
	check "all four are there" sh -c "for i in before 2 3 4; do cmp '$dir/data' '$dir/mnt/'\$i || exit; done"
	check "umount" umount "$dir/mnt"
	check "the volume ends" dmsetup remove --noudevsync $volume

	# Stripes of 64 KiB: what is at 64 KiB is the second disk's first.
	two=$device sectors=$(blockdev --getsz "$one")
	check "stripes over both" dmsetup create --noudevsync $volume \
		--table "0 $((2 * sectors)) striped 2 128 $one 0 $two 0"
	dmsetup mknodes
	check "are written" dd if="$dir/data" of=/dev/mapper/$volume bs=1M oflag=direct conv=notrunc iflag=fullblock
	check_here "and read" cmp -n 7000000 "$dir/data" /dev/mapper/$volume
	check_here "the second disk has every other one" cmp -n 65536 <(tail -c +65537 "$dir/data") \
		<(dd if="$two" bs=64k count=1 iflag=direct status=none)
	check "the stripes end" dmsetup remove --noudevsync $volume
	check "detach" sh -c "krdma blk detach $one && krdma blk detach $two"
else
	skip "a volume that grows" "there is no dmsetup, or no device mapper in this kernel"
fi

# 4. Two paths to one export: the disk of a session that ends is a path that has failed.
if command -v dmsetup >/dev/null && modprobe -a dm-multipath dm-round-robin 2>/dev/null; then
	paths=krdma-paths
	head -c 2048000 /dev/urandom >"$dir/data"
	export_on B paths --size 16M
	one=$(krdma blk attach --shared --resume 0 nodeB/paths)
	first=$(krdma status | awk '/^region paths / { print $4 }')
	two=$(krdma blk attach --shared --resume 0 nodeB/paths)
	check "two disks of an export" wait_for "$LIMIT" test -b "$one" -a -b "$two"
	check "are the paths of a device" dmsetup create --noudevsync $paths \
		--table "0 $(blockdev --getsz "$one") multipath 0 0 1 1 round-robin 0 2 1 $one 1 $two 1"
	# A write that goes to the lost disk again and again ends when that is detached.
	at_end sh -c "! dmsetup info $paths >/dev/null 2>&1 || {
		krdma blk detach --force $one; krdma blk detach --force $two; dmsetup remove --retry --noudevsync $paths; }"
	dmsetup mknodes
	through() {
		dd if="$dir/data" of=/dev/mapper/$paths bs=4k count=500 oflag=direct conv=notrunc status=none
	}
	check_here "which is written to" through
	check "the session of one ends" krdma disconnect "$first"
	is_lost() {
		[ "$(krdma blk list -j | json_at /disks/0/state)" = lost ]
	}
	check "this disk is lost" wait_for "$LIMIT" is_lost
	through &
	pid=$!
	background_pids+=("$pid")
	check "all goes over the other" wait_for "$LIMIT" is_over "$pid"
	without_error() {
		is_over "$pid" && wait "$pid"
	}
	check_here "without an error" without_error
	like "one path has failed" "$(dmsetup status $paths)" ' F '
	check_here "all is there" cmp -n 2048000 "$dir/data" "$two"
	check "the device ends" dmsetup remove --noudevsync $paths
	check "detach" sh -c "krdma blk detach $one && krdma blk detach $two"
	on -n B kill "$EXPORT_PID"
else
	skip "paths of dm-multipath" "there is no dmsetup, or no dm-multipath in this kernel"
fi

# 5. Swap, when the memory of all of the machine is short, also for what serves the disk.
# leave_memory MIB: $locker has all the rest, which is not swapped out.
leave_memory() {
	"${0%/*}/hog" lock $(($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) / 1024 - $1)) >"$dir/locked" &
	locker=$!
	background_pids+=("$locker")
	wait_for "$LIMIT" grep -q locked "$dir/locked"
}
if [ "$LAB_RDMA" = siw ]; then
	skip "swap" "siw may wait for memory that has to be written by siw (kapi.rst)"
elif [ -e /proc/swaps ] && command -v mkswap >/dev/null; then
	# rxe allocates packets with GFP_ATOMIC: where that fails, the kernel reports it, and the queue pair is lost.
	# A kernel with checks of its own needs more for the same, and KASAN keeps what was freed, a 32nd of all memory.
	spare=48 least=16384
	[ "$TIME_FACTOR" = 1 ] || spare=256 least=98304
	attach swap $((spare + 144))M
	check "mkswap" mkswap "$device"
	check "swapon" swapon "$device"
	at_end sh -c '! grep -q krdmab /proc/swaps || swapoff -a'
	like "a disk that is swapped to is open" "$(krdma blk detach "$device" 2>&1)" 'it is in use'
	reserve=$(</proc/sys/vm/min_free_kbytes)
	at_end sh -c "echo $reserve >/proc/sys/vm/min_free_kbytes"
	echo $least >/proc/sys/vm/min_free_kbytes
	# What is available then is free: of caches the kernel may not get what it counts on.
	sync
	echo 3 >/proc/sys/vm/drop_caches
	check_here "memory is short" leave_memory $spare
	diag "available: $(awk '/^MemAvailable:/ { print $2, $3 }' /proc/meminfo)"
	# It keeps more until something allocates that may sleep (kasan_quarantine_reduce()), as this does for each name;
	# packets do not.
	[ "$TIME_FACTOR" = 1 ] || while [ ! -e "$dir/enough" ]; do :; done &
	background_pids+=("$!")
	kib=$("${0%/*}/hog" $((spare + 64)) 1)
	is "64 MiB more than are left" $? 0
	check "24 MiB and more were swapped out ($kib KiB)" test "${kib:-0}" -gt 24576
	"${0%/*}/hog" $((spare + 64)) 1 >"$dir/hog" 2>&1 &
	pid=$!
	losses=0
	while ! is_over "$pid"; do
		! break_channel A 5 || losses=$((losses + 1))
	done
	check_here "the same, while queue pairs go to error" wait "$pid" || diag "$(<"$dir/hog")"
	diag "$losses queue pairs, $(<"$dir/hog") KiB"
	check "some did" test $losses -gt 0
	touch "$dir/enough"
	kill "$locker"
	echo "$reserve" >/proc/sys/vm/min_free_kbytes
	check "swapoff" swapoff "$device"
	check "detach" krdma blk detach "$device"
else
	skip "swap" "no swap in this kernel, or no mkswap"
fi
end_sessions B
check_nothing_left "nothing is left"

done_testing
