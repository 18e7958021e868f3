#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A model of 10 GiB into three machines by one command: a sparse file, as such a model is here, arrives as
# it is, holes included; and a machine that can't have it keeps it from no other.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

# extents FILE: its length, and where its data is, with a digest of each piece.
extents() {
	/usr/bin/python3 - "$1" <<'END'
import errno, hashlib, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
length, at = os.fstat(fd).st_size, 0
print(length)
while at < length:
    try:
        begin = os.lseek(fd, at, os.SEEK_DATA)
    except OSError as e:
        if e.errno != errno.ENXIO:
            raise
        break
    at = os.lseek(fd, begin, os.SEEK_HOLE)
    print(begin, at, hashlib.sha256(os.pread(fd, at - begin, begin)).hexdigest())
END
}
[ "${1-}" != extents ] || {
	extents "$2"
	trap - EXIT
	exit
}

need_nodes 4
LIMIT=${LIMIT:-60}
dir=/dev/shm/models
self=$(readlink -f "$0")
fresh_module
on_nodes mkdir -p $dir
at_end on_nodes rm -rf $dir
for node in B C D; do
	listen_on "$node"
	background "$node" krdma serve $dir
	wait_for "$LIMIT" grep -q '^serving ' "$BACKGROUND_LOG" || diag "$(cat "$BACKGROUND_LOG")"
done

# Data at the beginning, here and there, and in the last page.
truncate -s 10G $dir/model.bin
for ((piece = 0; piece <= 10; piece++)); do
	head -c 512K /dev/urandom |
		dd of=$dir/model.bin bs=512K seek=$((piece * 2048 - (piece == 10))) conv=notrunc status=none
done
extents $dir/model.bin >$dir/wanted
is "what is to be copied has eleven pieces" "$(wc -l <$dir/wanted)" 12

# there NODE FILE: it is the same as the model.
there() {
	diff "$dir/wanted" <(on -n "$1" bash "$self" extents "$dir/$2")
}

check "one command copies it into three machines" \
	krdma cp -q $dir/model.bin nodeB/models: nodeC/models: nodeD/models:
for node in B C D; do
	check "it is on node$node, with its holes" there $node model.bin
done

said=$(krdma cp -q $dir/model.bin nodeB/models:second nodeC/none: nodeD/models:second 2>&1)
is "a share that is not there is a failure" $? 5
like "that names it" "$said" "^krdma: .*none"
for node in B D; do
	check "the others have the file: node$node" there $node second
done
done_testing
