#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs each pair of operations of the device concurrently (stress.c), with delays at the module's
# fault points if the kernel has fault injection. First both ends are in this machine; with two
# nodes, the other node is the target next. Then the operations of the in-kernel API
# (selftests/modules/krdma_race_test.c). At the end no object is left.
#
# SEED, ROUNDS, PAIRS, EFFORT, DELAY: see stress.c. STRESS_SECONDS: how long to run; a fifth of
# it is for the in-kernel API.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"
MODULE_TIMEOUT_SCALE=1

LIMIT=${LIMIT:-120}
export SEED=${SEED:-$((10#$(date +%N) % 1000000))}
export DELAY=${DELAY-200} KRDMA_MODULE=$MODULE
RACE=${MODULE%/driver/*}/selftests/modules/krdma_race_test.ko
# Emulated machines are slow: all pairs, but not often.
if [ -z "${LAB_ONE_KERNEL-}" ]; then
	export EFFORT=${EFFORT:-25}
fi
parts=1
[ "${LAB_NODES:-1}" = 1 ] || [ -n "${LAB_ONE_KERNEL-}" ] || parts=2
api_seconds=$((${STRESS_SECONDS:-0} / 10))

# siw has no reference to the device for a connection that is being made, and uses it when it is
# freed (seen with Linux 6.12: siw_cep_put() in siw_cm_work_handler(), by KASAN).
if [ "${LAB_RDMA-}" = siw ]; then
	PAIRS+=" !device*close !device*end-session !device*unlisten !device*connect"
	PAIRS+=" !device*unload !device*device"
	# It takes sk_callback_lock with softirqs on, which TCP takes with them off where a listener
	# ends before a connection is accepted: lockdep reports that.
	[ ! -e /proc/lockdep ] || PAIRS+=" !unlisten*connect !unlisten*close !unlisten*end-session \
		!unlisten*unlisten !unlisten*unload !connect*unload !close*unload !end-session*unload"
	export PAIRS
fi

# stress [PEER [EXPORT]]
stress() {
	env SECONDS="$((${STRESS_SECONDS:-0} * 4 / 5 / parts))" stress "$@"
}

# ----------------------------------------------------------------- the device

fresh_module
[ -d /sys/kernel/debug/krdma_mover_delay ] ||
	diag "this kernel has no fault injection: without delays"
remember_leftovers
merge alone stress
check_nothing_left "nothing is left" "$LIMIT"

if [ $parts = 2 ]; then
	fresh_module
	remember_leftovers
	listen_on B 0.0.0.0:7490
	background B krdma recv stress --size 1M --discard
	receives() {
		on -n B krdma status | grep -q '^export stress '
	}
	check "node B has what is to be opened" wait_for 60 receives
	merge "with node B" stress "$REMOTE_V4" stress
	on -n B pkill -x krdma
	on -n B krdma listen --remove 0.0.0.0:7490
	check_nothing_left "nothing is left on either node" "$LIMIT"
fi

# --------------------------------------------------------- the in-kernel API

# shellcheck disable=SC2016 # for the node's shell
slow_down() {
	[ ! -d /sys/kernel/debug/krdma_mover_delay ] || sh -c 'cd "$1" && echo "$2" >us &&
		echo -1 >times && echo 10 >probability' slow /sys/kernel/debug/krdma_mover_delay "$DELAY"
}

race() {
	insmod "$RACE" seed="$SEED" seconds=$api_seconds rounds="${ROUNDS:-1}" \
		effort="${EFFORT:-100}" ${FIRST:+first="$FIRST"} ${SECOND:+second="$SECOND"}
}

races_ended() {
	is_over "$racing"
}

goes_on() {
	races_ended || krdma status | grep -q '^session .* state up'
}

[ -e "$RACE" ] || {
	skip "operations of the in-kernel API beside each other" "there is no $RACE: make samples"
	done_testing
}
fresh_module
listen_on A
remember_leftovers
slow_down
check "operations of the in-kernel API beside each other, SEED=$SEED" race
diag "$(dmesg -t | grep krdma_race_test: | tail -n 5)"
check "the module goes" rmmod krdma_race_test
if [ "${LAB_RDMA-}" = siw ]; then
	skip "the same while device and listener come and go" "see above"
else
	race 2>/dev/null &
	racing=$!
	while ! races_ended; do
		rdma link delete "$LAB_RDMA_DEV"
		restore_link A
		wait_for 5 goes_on
		races_ended || end_sessions A
		wait_for 5 goes_on
	done
	check_here "the same while device and listener come and go" wait $racing
	diag "$(dmesg -t | grep krdma_race_test: | tail -n 5)"
	check "the module goes again" rmmod krdma_race_test
fi
end_sessions A
check_nothing_left "nothing is left of it" "$LIMIT"
check_unload "the module can be unloaded"
done_testing
