#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A peer writes to an export that is larger than the target's memory, until the target has no
# memory to spare. The peer gets an error, and no process is killed.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2
need_lab "takes nearly all memory of a machine"

target=B
params=/sys/module/krdma_mover/parameters
counters=/sys/class/misc/krdma_mover/counters
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on "$target"
remember_leftovers

# mib WORD: of the target's memory.
mib() {
	on -n "$target" sed -n "s/^$1: *\([0-9]*\) kB/\1/p" /proc/meminfo | awk '{ print int($1 / 1024) }'
}

peer_mib() {
	on -n "$target" cat $counters/peer_bytes | awk '{ print $1 / 1048576 }'
}

# The target's log since the test began.
# shellcheck disable=SC2016 # for the node's shell
log_of_target() {
	on -n "$target" sh -c 'dmesg | awk "/$1/ { seen = 1 } seen"' log "$mark"
}
mark="memory $$ ${EPOCHREALTIME/[.,]/}"
on -n "$target" sh -c "echo 'selftest: $mark' >/dev/kmsg"

# put_mib N PLACE: zeroes; the sentence is in $dir/said.
put_mib() {
	head -c "$1M" /dev/zero | krdma put -q --timeout 120 - "$2" 2>"$dir/said"
}

lives() {
	on -n "$target" kill -0 "$1"
}

end_export() {
	on -n "$target" kill "$EXPORT_PID"
	wait "$BACKGROUND_PID"
}

# ------------------------------------------------------------ memory that is used up

# shellcheck disable=SC2016 # for the node's shell
background "$target" sh -c 'echo $$ && exec eat "$1"' eat 384
eater_log=$BACKGROUND_LOG
check "a bystander has most of the memory" wait_for 120 grep -q '^eaten' "$eater_log"
eater=$(head -n 1 "$eater_log")
diag "$(sed -n 's/^eaten //p' "$eater_log") of it, $(mib MemAvailable) MiB are available, $(mib MemFree) free"

# What is free goes to the cache of what is read.
# By more than what the host keeps for itself.
cache_has_some() {
	[ "$(mib MemAvailable)" -ge $(($(mib MemFree) + 90)) ]
}
# shellcheck disable=SC2016 # for the node's shell
background "$target" sh -c 'echo $$ && cd /usr/bin && exec cat $(ls -S | head -n 50) >/dev/null'
check "another one reads files, and the cache has them" wait_for 240 cache_has_some
on -n "$target" kill "$(head -n 1 "$BACKGROUND_LOG")"
wait "$BACKGROUND_PID" 2>/dev/null
free=$(mib MemFree)
diag "$(mib MemAvailable) MiB are available, $free free"

export_on "$target" big --size 8G
exporter=$EXPORT_PID
put=$((free + 8))
check "what the cache has is given to a peer" put_mib $put nodeB/big
check "it is counted" [ "$(peer_mib | cut -d . -f 1)" -ge $put ]
check_fails "more than there is, is not" put_mib 512 nodeB/big@${put}M
like "the peer reads whose memory it is" "$(<"$dir/said")" "lacks memory"
diag "$(<"$dir/said"), $(mib MemAvailable) MiB are available, $(mib MemFree) free," \
	"$(peer_mib) MiB are the peer's"
check "the bystander lives" lives "$eater"
check "the exporter lives" lives "$exporter"
like "the target's log names the export" "$(log_of_target)" "'big' is not available to .*MiB"
check "nobody was killed" [ "$(log_of_target | grep -ciE 'oom-kill|Out of memory')" = 0 ]
check "the host has some memory left" [ "$(mib MemAvailable)" -ge 8 ]
check "what was written can be read" krdma get -q nodeB/big@$((put - 1))M+1M "$dir/back"
check "a place that has memory can be written" put_mib 1 nodeB/big@64M
end_export
end_sessions "$target"
check_nothing_left "with the export nothing is left"
is "no memory is the peers'" "$(peer_mib)" 0
on -n "$target" kill "$eater"

# ------------------------------------------------------------ the administrator's limit

on -n "$target" sh -c "echo 24 >$params/peer_memory_max"
export_on "$target" limited --size 1G
check "up to peer_memory_max" put_mib 16 nodeB/limited
check_fails "no more" put_mib 16 nodeB/limited@16M
like "the peer reads that it is the target's memory" "$(<"$dir/said")" "lacks memory"
like "and the log, that it is the limit" "$(log_of_target)" "'limited' is not available to .*peer_memory_max"
check "it holds" [ "$(peer_mib | cut -d . -f 1)" -le 24 ]
check "what is there already does not count" put_mib 16 nodeB/limited
limited_client=$BACKGROUND_PID limited=$EXPORT_PID
export_on "$target" other --size 1G
check_fails "it is for all exports together" put_mib 16 nodeB/other
on -n "$target" kill "$limited"
wait "$limited_client"
check "the end of one makes room" put_mib 12 nodeB/other
on -n "$target" sh -c "echo 0 >$params/peer_memory_max"
check "without the limit there is half of the memory" put_mib 48 nodeB/other
end_export
end_sessions "$target"
check_nothing_left "nothing is left"
is "again no memory is the peers'" "$(peer_mib)" 0

# ------------------------------------------------------------ the exporter's own limit

group=/sys/fs/cgroup/krdma-memory
# shellcheck disable=SC2016 # for the node's shell
if on -n "$target" sh -c '
	mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || exit
	grep -qw memory /sys/fs/cgroup/cgroup.controllers || exit
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir -p "$1" &&
		echo 48M >"$1/memory.max"' group $group 2>/dev/null; then
	# shellcheck disable=SC2016 # for the node's shell
	background "$target" sh -c 'echo $$ >"$1/cgroup.procs" && exec krdma export grouped --size 1G' group $group
	check "a process in a control group exports" wait_for 60 grep -q '^exported ' "$BACKGROUND_LOG"
	check_fails "peers have no more of it than the group" put_mib 128 nodeB/grouped
	like "which their errors say" "$(<"$dir/said")" "lacks memory"
	is "nobody is killed in it" "$(on -n "$target" sed -n 's/^oom_kill //p' $group/memory.events)" 0
	on -n "$target" pkill -x krdma
	wait "$BACKGROUND_PID"
	end_sessions "$target"
	check_nothing_left "nothing is left of it"
	on -n "$target" rmdir $group
else
	skip "a control group's limit" "there is no memory controller"
fi
check "at the end nobody was killed" [ "$(log_of_target | grep -ciE 'oom-kill|Out of memory')" = 0 ]
done_testing
