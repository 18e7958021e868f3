#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Exports with more segments than may be registered at a time: RECALL moves the registrations, the
# bytes stay right, and the limit holds. The test writes PIECES pieces at random places. A segment
# that was written stays allocated in the memfd, 2 MiB of the node's memory on rxe:
#
#	selftests/tools/vm/lab run -m 3072 -e PIECES=300 selftests/data/recall.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-120}
PIECES=${PIECES:-160}
ADDRESS=$REMOTE_V4
dir=$(mktemp -d)
at_end rm -rf "$dir"

# Bytes of a segment: 2 MiB on rxe, 1 MiB on siw.
segment_bytes() {
	echo $(($(on -n B krdma devices -j | json_at /devices/0/segment_pages) * $(getconf PAGESIZE)))
}

# The export under test is the only one.
exported() {
	status B "/exports/0/$1"
}

mrs() {
	on -n B rdma resource | sed -n 's/.* mr \([0-9]*\).*/\1/p'
}

# Look at node B until told to stop: the most MRs, segments and pinned bytes seen.
# shellcheck disable=SC2016 # for the node's shell
watch_export() {
	background B sh -c '
		trap "echo \$mrs \$segments \$bytes; exit" TERM
		mrs=0 segments=0 bytes=0
		while sleep 0.2; do
			m=$(rdma resource | sed "s/.* mr \([0-9]*\).*/\1/")
			s=$(krdma status -j)
			b=$(echo "$s" | json_at /exports/0/pinned_bytes)
			s=$(echo "$s" | json_at /exports/0/segments)
			[ "$m" -le $mrs ] || mrs=$m
			[ "$s" -le $segments ] || segments=$s
			[ "$b" -le $bytes ] || bytes=$b
		done'
	watcher=$BACKGROUND_PID
	watcher_log=$BACKGROUND_LOG
}

watched() {
	kill "$watcher"
	wait "$watcher"
	# A command of it may have been told to stop as well, and the shell says so.
	read -r most_mrs most_segments most_bytes < <(grep -Ex '[0-9]+ [0-9]+ [0-9]+' "$watcher_log")
	diag "at most $most_mrs MRs, $most_segments segments, $most_bytes bytes pinned"
}

end_export() {
	on -n B kill "$EXPORT_PID"
	wait "$BACKGROUND_PID"
}

finished() {
	grep -q 'are right' "$1"
}

fresh_module
listen_on B
remember_leftovers
SEGMENT=$(segment_bytes)

# ------------------------------------------------- 64 GiB, a cap of 64 segments

began=${EPOCHREALTIME/[.,]/}
check_here "export 64 GiB" export_on B big --size 64G --max-segments 64
exporter=$EXPORT_PID
exporter_client=$BACKGROUND_PID
check "get a byte of its end" krdma get -q nodeB/big@0xfffffffff+1 "$dir/byte"
diag "exported and read in $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms," \
	"segments $(exported segments), pinned $(exported pinned_bytes)"
end_sessions B
is "nothing is pinned before it is used" "$(exported pinned_bytes)" 0

watch_export
mkfifo "$dir/fifo"
began=${EPOCHREALTIME/[.,]/}
mover scatter -w -n "$PIECES" -b 4096 -s 7 "$ADDRESS" big <"$dir/fifo" >"$dir/out" 2>"$dir/err" &
pid=$!
exec 7>"$dir/fifo"
check "$PIECES places are written and read back right" wait_for "$LIMIT" finished "$dir/out"
diag "$(cat "$dir/out" "$dir/err") in $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms"
watched
# They are recalled some at a time, an eighth of the cap.
segments=$(exported segments)
check "about as many as the cap stay" [ "$segments" -gt 56 ]
is "as many are registered" "$(mrs)" "$segments"
is "as many bytes are pinned" "$(exported pinned_bytes)" $((segments * SEGMENT))
check "never more segments" [ "$most_segments" -le 64 ]
check "never more MRs" [ "$most_mrs" -le 64 ]
check "never more bytes" [ "$most_bytes" -le $((64 * SEGMENT)) ]
check "segments were recalled" [ "$(exported recalls)" -ge $((PIECES - 64)) ]
diag "$(exported recalls) recalls"
exec 7>&-
wait $pid
none_registered() {
	[ "$(exported segments) $(mrs) $(exported pinned_bytes)" = "0 0 0" ]
}
check "with the last user all are given back" wait_for 60 none_registered

# Larger pieces: many segments for each operation.
on -n B kill "$exporter"
wait "$exporter_client"
export_on B small --size 64M --max-segments 4
head -c 40000000 /dev/urandom >"$dir/data"
check "put through a cap of 4 segments" krdma put -q --timeout "$LIMIT" "$dir/data" nodeB/small@1000001
check "get through a cap of 4 segments" krdma get -q --timeout "$LIMIT" nodeB/small@1000001+40000000 "$dir/back"
check "the same bytes" cmp "$dir/data" "$dir/back"
rm "$dir/data" "$dir/back"
end_export
end_sessions B
check_nothing_left "nothing is left" 30

# --------------------------------------------- two initiators, a cap of 8

export_on B few --size 64G --max-segments 8
mover scatter -p -n 40 -b 4096 -s 1 "$ADDRESS" few >"$dir/out1" 2>"$dir/err1" &
one=$!
mover scatter -p -n 40 -b 4096 -s 2 "$ADDRESS" few >"$dir/out2" 2>"$dir/err2" &
two=$!
two_sessions() {
	[ "$(status B /sessions/#)" = 2 ]
}
check "two sessions compete for 8 segments" wait_for 60 two_sessions
wait_for "$LIMIT" is_over $one
wait_for "$LIMIT" is_over $two
check "the first gets through" finished "$dir/out1"
check "the second gets through" finished "$dir/out2"
diag "$(cat "$dir"/out[12] "$dir"/err[12]); $(exported recalls) recalls"
check "segments were recalled" [ "$(exported recalls)" -gt 0 ]
check "the first one's bytes are right afterwards" mover scatter -c -n 40 -b 4096 -s 1 "$ADDRESS" few
check "the second one's bytes are right afterwards" mover scatter -c -n 40 -b 4096 -s 2 "$ADDRESS" few
kill $one $two 2>/dev/null
end_export

# ------------------------------------------------------ 1 GiB, the default cap

export_on B default --size 1G
mover scatter -w -n 40 -b 65536 -s 3 "$ADDRESS" default <"$dir/fifo" >"$dir/out" 2>&1 &
pid=$!
exec 7>"$dir/fifo"
check "40 places of 1 GiB are written and read back right" wait_for "$LIMIT" finished "$dir/out"
is "with the default cap nothing is recalled" "$(exported recalls)" 0
check "each place has its segments" [ "$(exported segments)" -ge 40 ]
is "each segment is an MR" "$(mrs)" "$(exported segments)"
is "each segment is pinned" "$(exported pinned_bytes)" $(($(exported segments) * SEGMENT))
exec 7>&-
wait $pid
end_export

# ------------------------------------------------ keys ahead of a long operation

# A work request has 1 MiB at most.
mib=192
export_on B ahead --size ${mib}M
posted=$(counter A work_requests)
krdma bench write -s ${mib}M -t 1 -n 1 --timeout "$LIMIT" nodeB/ahead >"$dir/out" 2>&1 &
pid=$!
all_registered() {
	[ "$(exported segments)" = $(((mib << 20) / SEGMENT)) ]
}
check "all segments of an operation are registered" wait_for "$LIMIT" all_registered
posted=$(($(counter A work_requests) - posted))
diag "$posted work requests were posted by then"
kill $pid
wait $pid
if [ $posted -lt $((mib * (TIME_FACTOR > 1 ? 2 : 3) / 3)) ]; then
	check "before it comes to the last of them" [ $posted -lt $((mib * 2 / 3)) ]
else
	skip "before it comes to the last of them" "it was too fast to look"
fi
end_export
end_sessions B
check_nothing_left "nothing is left" 30

done_testing
