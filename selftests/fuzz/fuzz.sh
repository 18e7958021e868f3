#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Fuzzes the ioctl interface (selftests/fuzz/fuzz_ioctl.c). libFuzzer makes the sequences of
# calls, guided by the code of the module that they run. Needs clang, and a kernel with KCOV, such
# as that of 'selftests/tools/kernels debug'. As in all tests, a report of either kernel fails it.
# Meanwhile queue pairs of either node go to error, one each FUZZ_KILL_SECONDS (2; 0: none), so that
# sessions resume under the calls.
#
# FUZZ_SECONDS (30) is the time, starting from inputs of selftests/fuzz/corpus.tar. The folder of
# the results (run-vm --out) gets new inputs in found.tar, a failing input in crash-* or timeout-*,
# and in fuzz.current the input that ran when a machine died.
# FUZZ_INPUTS="FILE ...": run only these inputs, once each. FUZZ_MERGE=FOLDER: write to merged.tar
# the fewest inputs of that folder and of the corpus that run the same code.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=selftests/lib/kill.sh
. "$(dirname "$0")/../lib/kill.sh"
need_lab "what it finds goes to the results of the lab"
need_nodes 2

fuzz=$TOP/selftests/fuzz
corpus=$fuzz/build/corpus
program=$fuzz/fuzz_ioctl
# Blocks of the module that the corpus reaches, at least: far less than it has, far more
# than a program does that gets no further than to open the device.
BLOCKS_MIN=1000

[ -x "$program" ] || skip_all "fuzz_ioctl has not been built: it takes clang"
[ -e /sys/kernel/debug/kcov ] || skip_all "this kernel has no KCOV"

dir=$(mktemp -d)
at_end rm -rf "$dir"
mkdir "$dir/found" "$dir/merged"

load_killer
fresh_module
for node in A B; do
	listen_on $node
done
export_on B fuzz --size 1M --atomic
background B krdma recv fuzz-messages --size 64K --discard
target_is_there() {
	[ "$(on -n B krdma status | grep -c '^export')" = 2 ]
}
check "node B has what is to be opened" wait_for 60 target_is_there
remember_leftovers

# kills: until it is ended.
kills() {
	local qps node
	# The time is how often: it is no wait for something.
	while sleep "${FUZZ_KILL_SECONDS:-2}"; do
		node=A
		[ $((RANDOM % 2)) = 0 ] || node=B
		mapfile -t qps < <(channels "$node" | cut -d ' ' -f 3)
		[ ${#qps[@]} = 0 ] || kill_qp "$node" "${qps[RANDOM % ${#qps[@]}]}" 2>/dev/null || :
	done
}
before=$(counter A channels_lost)
if [ "${FUZZ_KILL_SECONDS:-2}" != 0 ]; then
	kills &
	killer=$!
	background_pids+=("$killer")
fi

options=(-max_len=256 -timeout=$((30 * TIME_FACTOR)) -rss_limit_mb=0 -detect_leaks=0
	-artifact_prefix=/lab/out/ -print_final_stats=1)
status=0
export FUZZ_CURRENT=/lab/out/fuzz.current FUZZ_BLOCKS=/lab/out/fuzz.blocks
if [ -n "${FUZZ_INPUTS-}" ]; then
	# shellcheck disable=SC2086 # names of files
	"$program" "${options[@]}" $FUZZ_INPUTS >"$dir/log" 2>&1 || status=$?
elif [ -n "${FUZZ_MERGE-}" ]; then
	"$program" "${options[@]}" -merge=1 -use_counters=0 "$dir/merged" "$corpus" "$FUZZ_MERGE" \
		>"$dir/log" 2>&1 || status=$?
	tar -C "$dir/merged" -cf /lab/out/merged.tar .
else
	# What is kept is run whatever that takes, and new inputs as long as there is time: of
	# those kept, one for a second that there is. A name is a hash: they are any.
	inputs=("$corpus"/*)
	inputs=("${inputs[@]:0:${FUZZ_SECONDS:-30}}")
	(IFS=, && echo "${inputs[*]}") >"$dir/inputs"
	"$program" "${options[@]}" -len_control=0 -reload=0 -max_total_time="${FUZZ_SECONDS:-30}" \
		-seed_inputs="@$dir/inputs" "$dir/found" >"$dir/log" 2>&1 || status=$?
	tar -C "$dir/found" -cf /lab/out/found.tar .
fi
diag "$(grep -vE 'NEW|REDUCE|pulse|RELOAD' "$dir/log" | tail -n 60)"
is "fuzz_ioctl finds nothing" $status 0
if [ -n "${killer-}" ]; then
	kill "$killer"
	wait "$killer"
	check "queue pairs went to error meanwhile" [ "$(counter A channels_lost)" -gt "$before" ]
fi

# value NAME: of its statistics.
value() {
	sed -n "s/^stat::$1: *//p" "$dir/log"
}

if [ -z "${FUZZ_INPUTS-}${FUZZ_MERGE-}" ]; then
	executed=$(value number_of_executed_units)
	check "${executed:-0} inputs were run, the ${#inputs[@]} that were given among them" \
		[ "${executed:-0}" -ge ${#inputs[@]} ]
	blocks=$(sed -n 's/^fuzz: .*; \([0-9]*\) blocks of the module covered$/\1/p' "$dir/log")
	check "${blocks:-0} blocks of the module were covered, at least $BLOCKS_MIN" \
		[ "${blocks:-0}" -ge $BLOCKS_MIN ]
fi
check_nothing_left "nothing is left when it has ended" 120
on -n B pkill -x krdma
check_unload "the module can be unloaded on both nodes"
done_testing
