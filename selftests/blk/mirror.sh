#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A mirror (md) of the memory of two hosts, one of which loses its power: the mirror goes on with the
# other half, and is whole again with the memory that the host has when it is back.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "takes the power off a machine"
need_nodes 3
[ -z "${LAB_ONE_KERNEL-}" ] || skip_all "needs a machine for each node"
need_command mdadm
# shellcheck source=selftests/blk/blk.sh
. "$(dirname "$0")/blk.sh"
modprobe raid1 2>/dev/null || skip_all "no raid1 in this kernel"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=5

LIMIT=${LIMIT:-120}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 8000000 /dev/urandom >"$dir/data"
mkdir "$dir/mnt"

# half NODE: of the mirror, as $device.
half() {
	export_on "$1" half --size 48M
	device=$(krdma blk attach --takeover "node$1/half") && wait_for "$LIMIT" test -b "$device"
}
degraded() {
	[ "$(cat /sys/block/md0/md/degraded)" = "$1" ]
}

load_blk
listen_on B
listen_on C
remember_leftovers
half B
one=$device
half C
two=$device
check "a mirror over two hosts" mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 --failfast "$one" "$two"
wait_for "$LIMIT" test -b /dev/md0
at_end sh -c '[ ! -b /dev/md0 ] || mdadm --stop /dev/md0'
check "mkfs.ext4" mkfs.ext4 -q /dev/md0
check "mount" mount /dev/md0 "$dir/mnt"
at_end sh -c "! mountpoint -q '$dir/mnt' || umount '$dir/mnt'"
cp "$dir/data" "$dir/mnt/before"
check "both have it" sync -f "$dir/mnt"

power_off C
cp "$dir/data" "$dir/mnt/meanwhile"
check "a host loses its power: the mirror takes writes" sync -f "$dir/mnt"
check "it knows that it is degraded" wait_for "$LIMIT" degraded 1
check "and has both files" sh -c "cmp '$dir/data' '$dir/mnt/before' && cmp '$dir/data' '$dir/mnt/meanwhile'"
check "the host comes back" wait_for "$LIMIT" is_back C
mdadm /dev/md0 --remove failed >/dev/null 2>&1
check "its disk is detached" wait_for "$LIMIT" krdma blk detach --force "$two"
load_module C
listen_on C
half C
check "another one takes its place" mdadm /dev/md0 --add "$device"
check "and is filled" wait_for "$LIMIT" degraded 0
cp "$dir/data" "$dir/mnt/after"
check "umount" umount "$dir/mnt"
check "stop" mdadm --stop /dev/md0
check "the new half alone" mdadm --assemble --run /dev/md0 "$device"
check "has a file system" mount -o ro /dev/md0 "$dir/mnt"
check "with all files" sh -c "for i in before meanwhile after; do cmp '$dir/data' '$dir/mnt/'\$i || exit; done"
check "umount" umount "$dir/mnt"
check "stop" mdadm --stop /dev/md0
check "detach" sh -c "krdma blk detach $one && krdma blk detach $device"
end_sessions B
end_sessions C
check_nothing_left "nothing is left"

done_testing
