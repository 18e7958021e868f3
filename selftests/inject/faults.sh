#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Fails each allocation, registration, post and call of rdma_cm of the module, one at a time, on
# either node, while a process uses each function of the device once (every.c). Operations
# without an error have to be right, no object may remain, and both nodes go on. Needs a kernel with
# fault injection (driver/inject.c), such as those of 'selftests/tools/kernels'. In user-mode
# Linux, which is fast enough for all faults, one node is both ends.
#
# FAULTS (1): fail a point up to this call of it. PART="K/N" (0/16): fail every Nth point, since an
# emulated round takes 10 s or more; 0/1 is all points. LIMIT (60): seconds until all objects of a
# round have to be gone.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file
MODULE_TIMEOUT_SCALE=1

FAULTS=${FAULTS:-1}
PART=${PART:-0/16}
LIMIT=${LIMIT:-60}
SAMPLE=${MODULE%/driver/*}/samples/krdma_sample.ko
fail=/sys/kernel/debug/krdma_mover_fail
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
[ -d $fail ] || skip_all "this kernel has no fault injection"

# ------------------------------------------------------------------ the module

# load_failing N: status 0 loaded, 1 not. What is in fail_nth then: 0 if a call has failed.
load_failing() {
	insmod "$MODULE" "fail_nth=$1" 2>"$dir/insmod"
}

load_faults() {
	local n
	for ((n = 1; n < 100; n++)); do
		unload_module A || break
		if load_failing "$n"; then
			[ "$(</sys/module/krdma_mover/parameters/fail_nth)" = 0 ] || break
		elif ! grep -q 'Cannot allocate memory' "$dir/insmod"; then
			not_ok "loading, fault $n" "$(<"$dir/insmod")"
		fi
	done
	check "loading fails $((n - 1)) times, and then it does not" module_is_loaded A
}
load_faults
# Without what was to fail next.
fresh_module
# One processor is enough for a session that is given another channel.
on_nodes sh -c 'echo 2 >/sys/module/krdma_mover/parameters/channels'

# ------------------------------------------------------------ the other node

target=$(target_node)

target_is_there() {
	[ "$(on -n "$target" krdma status | grep -c '^export')" = 2 ]
}

start_target() {
	target_is_there && return
	on -n "$target" pkill -x krdma
	listen_on "$target" 2>/dev/null
	background "$target" krdma export fault --size 1M --atomic
	background "$target" krdma recv messages --size 64K --discard
	wait_for "$LIMIT" target_is_there
}

# arm NODE "FILE:LINE CALL": that call from now there fails.
arm() {
	on -n "$1" sh -c "echo '$2' >$fail/arm"
}

armed() {
	on -n "$1" cat $fail/arm | cut -d ' ' -f 2
}

# look_at_points NODE: those reached since it was asked before, and by what, into $dir/points.
declare -A reached=()
look_at_points() {
	local point call count
	on -n "$1" cat $fail/points >"$dir/all"
	while read -r point call _ count _; do
		[ "${reached[$1 $point]-0}" = "$count" ] || echo "$point" "$call"
		reached[$1 $point]=$count
	done <"$dir/all" >"$dir/points"
}

# once: everything; what fails is in $dir/said. What takes seconds is only done with
# LONG: a heartbeat, and another module, whose session lingers.
long=
once() {
	local status=0
	timeout -k 5 $((LIMIT * 2 * TIME_FACTOR)) every nodeB fault messages nodeA $long \
		>"$dir/said" 2>&1 || status=$?
	if [ -n "$long" ]; then
		insmod "$SAMPLE" address="$REMOTE_V4" name=fault 2>>"$dir/said" &&
			rmmod krdma_sample 2>>"$dir/said" || status=$((status ? status : 1))
		[ ! -d /sys/module/krdma_sample ] || {
			echo "krdma_sample stays" >>"$dir/said"
			status=2
		}
	fi
	return $status
}

# fault NODE POINT N: status 0 it has failed, 1 it was not reached so often.
fault() {
	local node=$1 point=$2 n=$3 status=0 left
	arm "$node" "$point $n" || not_ok "$node $point: it can be armed"
	once || status=$?
	left=$(armed "$node")
	arm "$node" "none:0 0" || not_ok "$node $point: it can be disarmed"
	[ -n "$left" ] || not_ok "$node $point: it says what is armed"
	if [ $status -gt 1 ]; then
		not_ok "$node $point, call $n: no more than an error" "status $status, $(<"$dir/said")"
	elif [ "$left" != 0 ] && [ $status != 0 ]; then
		not_ok "$node $point, call $n: without the fault all is done" "$(<"$dir/said")"
	fi
	if ! wait_for "$LIMIT" nothing_is_left; then
		not_ok "$node $point, call $n: nothing is left" "$(
			for each in $(nodes); do
				echo "$each has:  $(leftovers "$each")"
				echo "$each had:  ${leftovers_base[$each]}"
			done
		)"
		# So that the next ones are not taken for it.
		remember_leftovers
	fi
	target_is_there || {
		diag "$node $point: the target has ended"
		start_target || not_ok "the target goes on"
		remember_leftovers
	}
	[ "$left" = 0 ]
}

# Points that have failed, or are of another part; and those that were reached when another
# one had failed, in this round alone.
declare -A swept=() met=()
count=0 number=0

# sweep NODE: what is reached by doing everything, and what faults have led to.
sweep() {
	local node=$1 point call n failures new=1
	look_at_points "$node"
	once || not_ok "$node: without faults all is done" "$(<"$dir/said")"
	wait_for "$LIMIT" nothing_is_left || not_ok "$node: without faults nothing is left"
	met=()
	while [ -n "$new" ]; do
		new=
		look_at_points "$node"
		while read -r point call <&3; do
			[ -z "${swept[$node $point]-}${met[$point]-}" ] || continue
			met[$point]=1 new=1
			number=$((number + 1))
			[ $((number % ${PART#*/})) = "${PART%/*}" ] || {
				swept[$node $point]=1
				continue
			}
			failures=$test_failures
			for ((n = 1; n <= FAULTS; n++)); do
				fault "$node" "$point" "$n" || break
				count=$((count + 1))
			done
			[ "$n" = 1 ] || swept[$node $point]=1
			[ "$failures" = "$test_failures" ] || continue
			if [ "$n" = 1 ]; then
				number=$((number - 1))
				diag "$node: $call of $point: only after another fault"
			else
				ok "$node: $call of $point fails $((n - 1)) times"
			fi
		done 3<"$dir/points"
	done
}

start_target || not_ok "a target starts"
remember_leftovers
once || not_ok "without faults all is done" "$(<"$dir/said")"
check_nothing_left "without faults nothing is left" "$LIMIT"
for long in '' idle; do
	for node in $(nodes); do
		sweep "$node"
	done
done
diag "$number fault points, $count faults"
check "there are faults" [ "$count" -gt $((90 / ${PART#*/} - 1)) ]
check "at the end all is done" once
check_nothing_left "and nothing is left" "$LIMIT"
on -n "$target" pkill -x krdma
check_unload "the module can be unloaded on both nodes"
done_testing
