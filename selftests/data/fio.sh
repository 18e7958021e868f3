#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The ioengine of fio, userspace/fio: jobs on an export of the other node, whose blocks have checksums
# that fio verifies; the bytes as the target has them; and the errors that fio gets.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
engine=${KRDMA_FIO_ENGINE:-$TOP/userspace/build/libkrdma-fio.so}
need_command fio
[ -e "$engine" ] || skip_all "there is no $engine: make fio-engine"

target=$(target_node)
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on "$target"
export_on "$target" scratch --size 16M
export_on "$target" fixed --size 1M --read-only
remember_leftovers

# engine NAME OPTION...: the output is in $dir/NAME; fio keeps the state of verify where it runs.
engine() (
	cd "$dir" && fio --name="$1" --ioengine="external:$engine" --hostname=nodeB --export=scratch \
		--output="$dir/$1" "${@:2}" 2>"$dir/said"
)

job() {
	engine "$1" --verify=crc32c --verify_fatal=1 --size=8M --io_size=1M --randrepeat=0 "${@:2}" &&
		return
	cat "$dir/$1" "$dir/said"
	return 1
}

# refused REGEX OPTION...
refused() {
	if engine refused --size=1M "${@:2}"; then
		echo "fio succeeded" && return 1
	fi
	grep -E "$1" "$dir/said" || { cat "$dir/said" && return 1; }
}

for what in "4k 1 randwrite" "4k 32 randwrite" "64k 8 write" "1M 2 write" "512 64 randrw" "12k 16 randrw"; do
	read -r bs depth rw <<<"$what"
	check "blocks of $bs, depth $depth, $rw" job "$bs-$depth-$rw" --bs="$bs" --iodepth="$depth" --rw="$rw"
done
check "in batches, which are reaped in batches" job batches --bs=4k --iodepth=32 --rw=randwrite \
	--iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16
like "16 operations are submitted in one call" "$(<"$dir/batches")" 'submit +: [^
]*16=[1-9]'
check "buffers of a file, as iomem= says" job mmap --bs=4k --iodepth=8 --rw=randwrite --iomem=mmapshared
check "memory that each operation pins" job pinned --bs=16k --iodepth=8 --rw=randwrite --registered=0
check "a WRITE that has a READ behind it" job placed --bs=4k --iodepth=8 --rw=randwrite --placed=1
check "two processes at once" job two --numjobs=2 --size=4M --offset_increment=4M --bs=4k --iodepth=8 --rw=randwrite
check "two threads at once" job threads --thread --numjobs=2 --size=4M --offset_increment=4M --bs=4k \
	--iodepth=8 --rw=randwrite
check_nothing_left "with the jobs what they used has ended"

# ------------------------------------------------------------ the bytes

check "a pattern is written" engine pattern --rw=write --bs=4k --iodepth=16 --offset=1M --size=1M --buffer_pattern=0x5a
krdma get -q nodeB/scratch@1M+1M "$dir/got"
is "and is what the target has" "$(tr -d Z <"$dir/got" | wc -c)" 0
check "blocks with checksums are written" engine sums --rw=write --bs=4k --iodepth=16 --size=1M --verify=crc32c --do_verify=0
check "and verified by a later job" engine sums --rw=read --bs=4k --iodepth=16 --size=1M --verify=crc32c
printf changed | krdma put -q - nodeB/scratch@500000
check_fails "which notices 7 other bytes" engine sums --rw=read --bs=4k --iodepth=16 --size=1M --verify=crc32c
like "and says where" "$(<"$dir/said")" "verify failed at file sums[^ ]* offset 499712"

# ------------------------------------------------------------ failures

check "an export is missing" refused "no such export|'nothing'" --export=nothing --rw=read
check "an export is read-only" refused "does not grant the rights requested on 'fixed': write" --export=fixed --rw=write
check "but can be read" engine read-only --export=fixed --rw=read --size=1M --bs=64k --iodepth=4
check "trim is refused" refused "no operation that trims" --rw=trim
check_fails "options are missing" fio --name=bare --ioengine="external:$engine" --rw=read --output="$dir/bare"

# A job that the export is taken from.
export_on "$target" brief --size 1M
engine brief --export=brief --rw=read --bs=4k --iodepth=8 --time_based --runtime=3600 &
fio=$!
check "a job reads" wait_for 60 sh -c "krdma status | grep -q '^region.*brief'"
on -n "$target" kill "$EXPORT_PID"
check "it ends when its export does" wait_for 60 is_over $fio
wait $fio
check "with the failure of fio" [ $? = 1 ]
like "and krdma's sentence" "$(<"$dir/said")" "fio: .*'brief'"
check_nothing_left "nothing is left"
done_testing
