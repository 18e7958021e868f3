#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Read-only exports of files on disk. A peer reads a file that is larger than RLIMIT_MEMLOCK of
# the exporter; the file is truncated while the peer reads. FILE_MB (40) is its size.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

MB=${FILE_MB:-40}
LOCKED_MB=8
target=$(target_node)
[ "$target" = "$LAB_NODE" ] || need_lab "the file is in a folder that both have"
# The only file system here that is not in memory, and can be written.
file=${LAB_OUT:-/var/tmp}/krdma-file.$$
dir=$(mktemp -d)
at_end rm -rf "$dir" "$file"

fresh_module
listen_on "$target"
remember_leftovers
head -c $((MB * 1048576 - 1000)) /dev/urandom >"$file"

# export_file NAME [LIMIT...]: as a user without CAP_IPC_LOCK. Sets EXPORT_PID.
export_file() {
	# shellcheck disable=SC2016 # for the node's shell
	background "$target" sh -c 'name=$1 file=$2 limit=$3 && echo $$ &&
		exec prlimit --memlock="$limit" setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
			krdma export "$name" --file "$file" --read-only' export "$1" "$file" "$2"
	wait_for 60 grep -Eq '^exported |^krdma: .*each segment' "$BACKGROUND_LOG"
	EXPORT_PID=$(head -n 1 "$BACKGROUND_LOG")
}

end_export() {
	on -n "$target" kill "$EXPORT_PID"
	wait "$BACKGROUND_PID"
}

digest_of() {
	cksum <"$1"
}

# ------------------------------------------------------------ larger than may be pinned

check_here "a file of $MB MiB is exported with RLIMIT_MEMLOCK of $LOCKED_MB MiB" \
	export_file model $((LOCKED_MB << 20))
like "the exporter reads what that allows" "$(<"$BACKGROUND_LOG")" "RLIMIT_MEMLOCK lets peers have 8.0 MiB"
is "nothing is pinned before it is used" "$(status "$target" /exports/0/pinned_bytes)" 0
check "a peer reads all of it" krdma get -q nodeB/model "$dir/got"
is "every byte" "$(digest_of "$dir/got")" "$(digest_of "$file")"
check "segments were recalled for it" [ "$(status "$target" /exports/0/recalls)" -gt 0 ]
check "no more is pinned than may be" \
	[ "$(status "$target" /exports/0/pinned_bytes)" -le $((LOCKED_MB << 20)) ]
check "its digest is computed there" krdma get -q --verify nodeB/model@1M+2M "$dir/part"
check_fails "it can't be written" krdma put -q "$dir/part" nodeB/model
rm "$dir/part"

# ------------------------------------------------------------ changed, and cut off

on -n "$target" sh -c "printf changed | dd of='$file' bs=1 seek=5000 conv=notrunc status=none"
end_sessions "$target"
# A file's pages are those of its file system: what is written is seen.
# shellcheck disable=SC2016 # for that shell
check "a later reader sees what the exporter changes" sh -c \
	'[ "$(krdma get -q nodeB/model@5000+7 -)" = changed ]'

# One reads, and stands still in the midst: its keys stay.
# (What is cut off begins with a segment: of half a segment nothing can be had.)
mkfifo "$dir/fifo"
krdma get -q --timeout 60 nodeB/model - >"$dir/fifo" 2>"$dir/said" &
reader=$!
exec 7<"$dir/fifo"
head -c 65536 <&7 >"$dir/first"
has_keys() {
	[ "$(status "$target" /exports/0/segments)" -gt 0 ]
}
check "a peer has keys of it" wait_for 30 has_keys
on -n "$target" truncate -s 4M "$file"
cat <&7 >"$dir/rest"
exec 7<&-
wait $reader
status=$?
diag "cut off: status $status, $(stat -c %s "$dir/rest") bytes, $(<"$dir/said")"
is "what it has read before is right" "$(cksum <"$dir/first")" "$(head -c 65536 "$file" | cksum)"
end_sessions "$target"
check "what is still there can be read" krdma get -q nodeB/model@0+4M "$dir/got"
is "and is right" "$(digest_of "$dir/got")" "$(digest_of "$file")"
check_fails "what is not there any more can't" sh -c "krdma get -q nodeB/model@8M+1M - 2>'$dir/said' >/dev/null"
like "which the peer reads" "$(<"$dir/said")" "can't reach its memory"
end_sessions "$target"
on -n "$target" truncate -s 0 "$file"
check_fails "nor anything of an empty file" sh -c "krdma get -q nodeB/model@0+64K - 2>'$dir/said' >/dev/null"
like "which the peer reads, too" "$(<"$dir/said")" "can't reach its memory"
on -n "$target" truncate -s 4M "$file"
end_export
end_sessions "$target"
check_nothing_left "nothing is left"
is "nor of peers' memory" "$(on -n "$target" cat /sys/class/misc/krdma_mover/counters/peer_bytes)" 0

# ------------------------------------------------------------ too little

export_file model 4096
check_fails "with less than a segment it is not exported" grep -q '^exported ' "$BACKGROUND_LOG"
like "which names the limit and what is needed" "$(<"$BACKGROUND_LOG")" \
	"RLIMIT_MEMLOCK is 4 KiB, each segment of 'model' that a peer uses takes [0-9]+ KiB"
done_testing
