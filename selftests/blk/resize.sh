#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An export grows, and a disk of it, while blocks are written and read again, and while the connection is lost;
# what can't grow stays as it was.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes block devices"
need_nodes 2
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
need_command fio
need_command resize2fs

LIMIT=${LIMIT:-60}
FIO_SECONDS=${FIO_SECONDS:-5}
MODULE_RESUME=60
dir=$(mktemp -d)
at_end rm -rf "$dir"
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
load_killer
load_blk
listen_on B
remember_leftovers
mkdir "$dir/mnt"

# section NAME SIZE [KEY...]: of node B's configuration, one export alone
section() {
	printf '%s\n' "[export $1]" "size = $2" "${@:3}" | on B sh -c 'cat >/run/grow.conf'
}
# export_section NAME SIZE [KEY...]: it is exported
export_section() {
	section "$@" && export_on B --config=/run/grow.conf "$1"
}
# size_is NAME SIZE: of the export, as this host sees it
size_is() {
	krdma ls nodeB -j | grep -q "\"name\":\"$1\",\"length\":$2[,}]"
}
mib() {
	echo $(($1 << 20))
}
# grow NAME MIB [KEY...]: the export
grow() {
	section "$1" "$2M" "${@:3}" && on -n B kill -HUP "$EXPORT_PID" && wait_for "$LIMIT" size_is "$1" "$(mib "$2")"
}
attach() {
	device=$(krdma blk attach "$@") && wait_for "$LIMIT" test -b "$device"
}
bytes() {
	blockdev --getsize64 "$device"
}
# Its first bytes, and its last.
writes() {
	local blocks=$(($(bytes) / 4096)) at
	for at in 0 $((blocks - 64)); do
		dd if="$dir/data" of="$device" bs=4k count=64 seek="$at" oflag=direct status=none &&
			cmp -n 262144 <(dd if="$device" bs=4k count=64 skip="$at" iflag=direct status=none) "$dir/data" || return
	done
}
# resizes MIB: the disk, to that
resizes() {
	[ "$(krdma blk resize -j "$device" | json_at /size)" = "$(mib "$1")" ] && [ "$(bytes)" = "$(mib "$1")" ]
}

# ------------------------------------------------------------ a file system

export_section grows 16M
check_here "a disk of 16 MiB" attach nodeB/grows
check "mkfs.ext4" mkfs.ext4 -q "$device"
check "mount" mount "$device" "$dir/mnt"
at_end sh -c "! mountpoint -q '$dir/mnt' || umount '$dir/mnt'"
head -c 3000000 /dev/urandom >"$dir/data"
cp "$dir/data" "$dir/mnt/before"
check "the export grows" grow grows 64
is "the disk does not, by itself" "$(bytes)" "$(mib 16)"
check "it does when it is asked to" resizes 64
is "the list has it" "$(disk size)" "$(mib 64)"
check "again it is as it was" resizes 64
check "the file system grows" resize2fs "$device"
check "and takes more than there was room for" sh -c "for i in 1 2 3 4 5 6 7 8; do cp '$dir/data' '$dir/mnt/'\$i || exit; done"
check "umount" umount "$dir/mnt"
check "e2fsck finds nothing" e2fsck -fn "$device"
check "detach" krdma blk detach "$device"
check_here "attached again it is as large" attach nodeB/grows
is "all of it" "$(bytes)" "$(mib 64)"
check "mount" mount "$device" "$dir/mnt"
check "what was there before is the same" cmp "$dir/data" "$dir/mnt/before"
check "and what came then" cmp "$dir/data" "$dir/mnt/8"
check "umount" umount "$dir/mnt"
check "detach" krdma blk detach "$device"

# ------------------------------------------------------- while it is written

# held, or not; another disk of the same export beside it.
for how in --shared --no-hold; do
	check_here "a disk, attached with $how" attach $how nodeB/grows
	keep_writing kept
	before=$(completed)
	check "blocks are written" wait_for "$LIMIT" goes_on
	size=$(($(bytes) >> 20))
	check "the export grows meanwhile" grow grows $((size + 32))
	lose_channel A 0
	check "and the disk, while its session resumes" resizes $((size + 32))
	before=$(completed)
	check "blocks are written after it" wait_for "$LIMIT" goes_on
	check_here "all of them were right" all_right
	check "the new ones can be used" verified new --bs=64k --iodepth=4 --rw=randwrite --offset="$(mib "$size")"
	check "detach" krdma blk detach "$device"
done

# -------------------------------------------------------------- what does not

check_here "a disk" attach nodeB/grows
was=$(bytes)
section grows 1M
on -n B kill -HUP "$EXPORT_PID"
says_shrink() {
	grep -q "can't shrink to 1.0 MiB" "$BACKGROUND_LOG"
}
check "an export does not shrink" wait_for "$LIMIT" says_shrink
section grows 1G read-only
on -n B kill -HUP "$EXPORT_PID"
says_size() {
	grep -q 'only the size of anonymous memory can change' "$BACKGROUND_LOG"
}
check "nothing else of it changes" wait_for "$LIMIT" says_size
check "the disk is as large as before" resizes $((was >> 20))
on -n B kill "$EXPORT_PID"
dead() {
	[ "$(disk state)" = revoked ]
}
check "the export ends" wait_for "$LIMIT" dead
like "a disk that is revoked does not grow" "$(krdma blk resize "$device" 2>&1)" 'krdma: blk resize .*: Stale file handle'
check "detach" krdma blk detach --force "$device"
like "nor one that is not there" "$(krdma blk resize "$device" 2>&1)" 'there is no such disk'

export_section whole 16M
check_here "a disk" attach nodeB/whole
segment=$(($(cat "/sys/block/${device##*/}/queue/chunk_sectors") * 512))
diag "segments of $segment bytes"
check "detach" krdma blk detach "$device"
on -n B kill "$EXPORT_PID"

export_section part $((segment + 4096))
check_here "a disk whose last segment is not a whole one" attach nodeB/part
was=$(bytes)
section part $((4 * segment))
on -n B kill -HUP "$EXPORT_PID"
check "its export grows" wait_for "$LIMIT" size_is part $((4 * segment))
like "it does not" "$(krdma blk resize "$device" 2>&1)" "its size is no multiple of the peer's segments"
is "and is as it was" "$(bytes)" "$was"
check "it is written" writes
check "detach" krdma blk detach "$device"
on -n B kill "$EXPORT_PID"

export_section few $((4 * segment)) "max-segments = 8"
check_here "a disk that has four segments of eight" attach nodeB/few
was=$(bytes)
section few $((12 * segment)) "max-segments = 8"
on -n B kill -HUP "$EXPORT_PID"
check "its export has twelve" wait_for "$LIMIT" size_is few $((12 * segment))
like "which can't be held" "$(krdma blk resize "$device" 2>&1)" 'too few segments are left'
is "it is as it was" "$(bytes)" "$was"
check "and is written" writes
check "detach" krdma blk detach "$device"
check_here "without being held it has all of them" attach --no-hold nodeB/few
is "twelve" "$(bytes)" $((12 * segment))
check "and is written" writes
check "detach" krdma blk detach "$device"
on -n B kill "$EXPORT_PID"

end_sessions A
check_nothing_left "nothing is left" "$LIMIT"
done_testing
