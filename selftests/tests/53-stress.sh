#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 1800
# Every pair of operations of the device against each other (selftests/stress), with delays
# at the module's fault points where the kernel has them: both ends in this machine, and
# with two nodes then against the other one. Afterwards nothing is left.
#
# SEED, ROUNDS or SECONDS, PAIRS, EFFORT, DELAY: see selftests/stress/stress.c. With SECONDS half
# of them is for each.
# shellcheck source=selftests/tests/lib.sh
. "$(dirname "$0")/lib.sh"
MODULE_PATIENCE=1

LIMIT=${LIMIT:-120}
export SEED=${SEED:-$((10#$(date +%N) % 1000000))}
export DELAY=${DELAY-200} KRDMA_MODULE=$MODULE
dir=$TOP/selftests/stress
make -s -C "$dir" || {
	echo "Bail out! $dir does not build"
	exit 1
}
# Emulated machines are slow: all pairs, but not often.
if [ -z "${LAB_ONE_KERNEL-}" ]; then
	export EFFORT=${EFFORT:-25}
fi
if [ "${LAB_NODES:-1}" = 2 ] && [ -n "${SECONDS_EACH:=${STRESS_SECONDS-}}" ]; then
	SECONDS_EACH=$((SECONDS_EACH / 2))
fi

# siw has no reference to the device for a connection that is being made, and uses it when it is
# freed (seen with Linux 6.12: siw_cep_put() in siw_cm_work_handler(), by KASAN).
if [ "${LAB_RDMA-}" = siw ]; then
	PAIRS+=" !device*close !device*end-session !device*unlisten !device*connect !device*unload"
	export PAIRS
fi

# stress [PEER [EXPORT]]
stress() {
	env SECONDS="${SECONDS_EACH-}" "$dir/build/stress" "$@"
}

fresh_module
[ -d /sys/kernel/debug/krdma_mover_delay ] ||
	diag "this kernel has no fault injection: without delays"
remember_leftovers
merge alone stress
check_nothing_left "nothing is left" "$LIMIT"

if [ "${LAB_NODES:-1}" = 2 ] && [ -z "${LAB_ONE_KERNEL-}" ]; then
	fresh_module
	listen_on B 0.0.0.0:7490
	remember_leftovers
	background B krdma recv stress --size 1M --discard
	receives() {
		on -n B krdma status | grep -q '^export stress '
	}
	check "node B has what is to be opened" wait_for 60 receives
	merge "with node B" stress 10.77.0.2 stress
	on -n B pkill -x krdma
	on -n B krdma listen --remove 0.0.0.0:7490
	check_nothing_left "nothing is left on either node" "$LIMIT"
fi
check "the module can be unloaded" wait_for 60 unload_module
done_testing
