#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A peer that violates the protocol, as initiator and as target: peer*.c implements the wire
# protocol in userspace, from Documentation/wire.rst alone. A violation ends the peer's own
# session, or fails, and leaves nothing behind. On siw the test skips what iWARP does not have;
# times are longer there, and the peers have to reply to PING.
#
# KEYS (255): how many other variants of a key the peer tries. HALF_OPEN (1000): how many
# connections it begins and never completes.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "adds addresses"
need_nodes 2
MODULE_TIMEOUT_SCALE=1
# Longer than the deadlines; unused sessions wait so long to close what a target no longer closes.
MODULE_RESUME=30
need_command rdma

PORT=7471 # and 7472, where nobody is admitted
BASE=8000 # ports of the target in userspace, one for each way to misbehave
PATIENCE=3 # seconds
# siw may let a first message lie until a heartbeat follows it.
[ "$LAB_RDMA" != siw ] || PATIENCE=$((2 + 3 * TIME_FACTOR))

# What may be waited for beyond a case's limit: computers that others use too stand still.
PAUSE=20 # seconds

# A slow kernel tries fewer.
[ "$TIME_FACTOR" = 1 ] || KEYS=${KEYS:-16} HALF_OPEN=${HALF_OPEN:-100}
export KEYS=${KEYS:-255} HALF_OPEN=${HALF_OPEN:-1000}
export OTHER_ADDRESS=10.77.0.11 # of this node

ip addr add $OTHER_ADDRESS/24 dev data0
at_end ip addr del $OTHER_ADDRESS/24 dev data0
unload_module # what an earlier test may have left
load_module
insmod "${MODULE%/*}/krdma_blk.ko"
at_end sh -c '[ ! -d /sys/module/krdma_blk ] || rmmod krdma_blk'
# However many processors there are.
on -n B sh -c 'echo 4 >/sys/module/krdma_mover/parameters/channels'
dir=$(mktemp -d)
at_end rm -rf "$dir"

# ------------------------------------------------- a target that is in order

# In node B, the processes of the exports are in /run/peer/NAME.pid.
# shellcheck disable=SC2016 # for the node's shell
exports='
	publish() {
		krdma export "$@" >$1.log &
		echo $! >$1.pid
	}
	rm -rf /run/peer && mkdir /run/peer && cd /run/peer || exit
	publish data --size 5000001
	publish good --size 1M
	publish ro --size 1M --read-only
	for n in tight tight2 tight3 tight4; do publish $n --size 5M --max-segments 1; done
	for n in gone1 gone2 gone3 gone4 gone5 gone7 gone8; do publish $n --size 1M; done
	publish gone6 --size 5M --max-segments 1
	publish taken --size 1M
	for n in 0 1 2 3 4 5; do publish more$n --size 4K; done
	# One that reads its messages, and one that is not let write what it has read.
	krdma recv messages --size 64K --discard 2>messages.log &
	echo $! >messages.pid
	mkfifo pipe
	# Nobody reads it: this shell keeps it open.
	exec 3<>pipe
	krdma recv full --raw 2>full.log >pipe 3>&- &
	echo $! >full.pid
	wait'
exports_count=24
# shellcheck disable=SC2016 # the same
kill_exporter='on -n B sh -c '\''kill -9 $(cat /run/peer/$0.pid)'\'

exports_are_there() {
	[ "$(on -n B sh -c 'cat /run/peer/*.log | grep -c "^exported\|^receiving"')" = "$exports_count" ]
}

# No grant and no segment, of any export.
exports_are_idle() {
	local status
	status=$(on -n B krdma status -j) &&
		! grep -q '"grants":[1-9]' <<<"$status" && ! grep -q '"segments":[1-9]' <<<"$status"
}

# --------------------------------------------- krdma with a target that is not

# placed_by COMMAND READS: so many were behind WRITEs. iWARP has them in any case.
placed_by() {
	if [ "$1" = granted ] && [ "$LAB_RDMA" != siw ]; then
		[ "$2" = 0 ]
	else
		[ "$2" -gt 0 ]
	fi || {
		echo "krdma: $2 READs behind WRITEs" >&2
		return 1
	}
}

# grow EXPORT KRDMA...: a disk of it, which is to be as large as it
grow() {
	local device status=0
	device=$("${@:2}" blk attach --no-hold --shared "$1") || return
	"${@:2}" blk resize "$device" || status=$?
	"${@:2}" blk detach --force "$device" && return $status
}

# run_case NUMBER NAME COMMAND LIMIT: leaves the status, the time and what was said.
run_case() {
	local at=nodeB:$((BASE + $1)) began=${EPOCHREALTIME/[.,]/} status=0
	local patience=$PATIENCE krdma
	# rxe may lose the MAD of a disconnect; then retries show it, after 6 s.
	[[ $2 != resume-* ]] || patience=$((PATIENCE + 5))
	krdma=(timeout -k 5 $((($4 + PAUSE) * TIME_FACTOR)) krdma)
	case $3 in
	ls) "${krdma[@]}" ls "$at" ;;
	ping) "${krdma[@]}" ping -c 1 --timeout $patience "$at" ;;
	put) "${krdma[@]}" put -q --timeout $patience "$dir/file" "$at/x" ;;
	patient) "${krdma[@]}" put -q --timeout 60 "$dir/file" "$at/x" ;;
	grow) grow "$at/x" "${krdma[@]}" ;;
	send) "${krdma[@]}" send --timeout $patience "$at/x" hello ;;
	digest) "${krdma[@]}" digest --timeout $patience "$at/x" ;;
	verified) "${krdma[@]}" put -q --verify --timeout $patience "$dir/file" "$at/x" ;;
	twice)
		"${krdma[@]}" put -q "$dir/file" "$at/x" && "${krdma[@]}" put -q "$dir/file" "$at/x"
		;;
	placed | granted)
		local reads=0
		reads=$(counter A placements)
		"${krdma[@]}" put -q --placed "$dir/file" "$at/x" &&
			reads=$(($(counter A placements) - reads)) && placed_by "$3" "$reads" &&
			"${krdma[@]}" get -q "$at/x" "$dir/$2.back" && cmp "$dir/file" "$dir/$2.back"
		;;
	verify)
		"${krdma[@]}" put -q "$dir/file" "$at/x" &&
			"${krdma[@]}" get -q "$at/x" "$dir/$2.back" && cmp "$dir/file" "$dir/$2.back"
		;;
	esac >/dev/null 2>"$dir/$2.err" || status=$?
	echo "$status $(((${EPOCHREALTIME/[.,]/} - began) / 1000))" >"$dir/$2.status"
}

# quick_cases: those that end soon, one after the other. A line for every fourth.
quick_cases() {
	local number name command status limit cases=0
	while IFS=$'\t' read -r number name command status limit _ <&3; do
		if [ "$number" = 0 ] || [ "$limit" -gt 10 ] || [ "$status" = skip ]; then
			continue
		fi
		run_case "$number" "$name" "$command" "$limit"
		cases=$((cases + 1))
		[ $((cases % 4)) != 0 ] || echo
	done 3<"$dir/cases"
}

# beside: a session beside, which moves bytes for each line that it reads.
beside() {
	local rounds=0 failures=0 status
	while read -r _; do
		run_case 0 good verify 10
		read -r status _ <"$dir/good.status"
		[ "$status" = 0 ] || failures=$((failures + 1))
		rounds=$((rounds + 1))
	done
	echo "$rounds $failures" >"$dir/rounds"
}

all_ended() {
	[ "$(grep '^end ' "$target_log" | cut -d ' ' -f 2 | sort -u | wc -l)" -ge "$count" ]
}

# judge NAME COMMAND STATUS LIMIT END SAYS: as it has to be?
judge() {
	local status ms text ended
	if [ "$3" = skip ]; then
		skip "target $1: krdma $2" "$6"
		return
	fi
	read -r status ms <"$dir/$1.status"
	! is_failure "$status" || status=1
	text=$(<"$dir/$1.err")
	ended=${ends[$1]-}
	if [ "$1" = segs-disconnect ] && [ "$status" = 0 ]; then
		# It breaks off when its reply has gone out: a race that it may lose.
		skip "target $1: krdma $2" "the bytes were there before the target broke off"
	elif [ "$status" != "$3" ]; then
		not_ok "target $1: krdma $2" "status $status, not $3: $text"
	elif [ "$3" != 0 ] && [[ $text != "krdma: "* || $text = *$'\n'* || ! $text =~ $6 ]]; then
		not_ok "target $1: krdma $2" "says: $text"
	elif ! [[ $ended =~ $5 ]]; then
		not_ok "target $1: krdma $2" "the target saw '$ended', not '$5'; krdma: $text"
	else
		ok "target $1: krdma $2"
		[ "$4" -le 10 ] || diag "after $ms ms"
	fi
}

# ----------------------------------------------------------------------- run

on -n B krdma listen "0.0.0.0:$PORT"
on -n B krdma listen --allow 192.0.2.0/24 "0.0.0.0:$((PORT + 1))"
background B sh -c "$exports"
wait_for 60 exports_are_there || {
	echo "Bail out! the exports do not come up"
	exit 1
}
head -c 100000 /dev/urandom >"$dir/file"
peer cases >"$dir/cases"
count=$(cut -f 4 "$dir/cases" | grep -vc skip)

remember_leftovers
background B peer target 0.0.0.0 $BASE
target_log=$BACKGROUND_LOG target_pid=$BACKGROUND_PID
wait_for 60 grep -q listening "$target_log" || {
	echo "Bail out! no target: $(<"$target_log")"
	exit 1
}

# What takes its time goes on beside.
began=$SECONDS
slow=()
while IFS=$'\t' read -r number name command _ limit _; do
	[ "$limit" -gt 10 ] || continue
	run_case "$number" "$name" "$command" "$limit" &
	slow+=($!)
done <"$dir/cases"

merge initiator peer initiator nodeB $PORT "$kill_exporter"
like "the target's log says which versions there are" "$(on -n B dmesg)" \
	"refused: it speaks version 3 of the protocol, this host version 2"
check "initiator: no grant and no segment is left" wait_for 60 exports_are_idle
diag "after $((SECONDS - began)) s"

quick_cases | beside
diag "after $((SECONDS - began)) s"
wait "${slow[@]}"
diag "after $((SECONDS - began)) s"
wait_for 60 all_ended
diag "after $((SECONDS - began)) s"
declare -A ends=()
while read -r word name end; do
	[ "$word" != end ] || ends[$name]=${ends[$name]:-$end}
done <"$target_log"
while IFS=$'\t' read -r _ name command status limit end says <&3; do
	judge "$name" "$command" "$status" "$limit" "$end" "$says"
done 3<"$dir/cases"
read -r rounds failures <"$dir/rounds"
is "target: a session beside went on, with the right bytes" "$failures" 0
check "target: more than a few times" test "$rounds" -ge 5
never=$(grep -P '\tsegs-never\t' "$dir/cases" | cut -f 1)
merge "a silent target" stalled 10.77.0.2 $((BASE + never)) $PORT good
diag "after $((SECONDS - began)) s"
kill "$target_pid"
check_nothing_left "no session, pin or registration is left"
# shellcheck disable=SC2016 # for the node's shell
on -n B sh -c 'kill $(cat /run/peer/*.pid)' 2>/dev/null # those of gone1 to gone8 are gone already
rmmod krdma_blk
check_unload "the module can be unloaded on both nodes"
diag "after $((SECONDS - began)) s"
done_testing
