# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests in selftests/tests/*.sh share: results as TAP, the module on
# both nodes, and waiting for things to happen. Source it first:
#
#   . "$(dirname "$0")/lib.sh"
#   need_nodes 2
#   load_module
#   plan 3                                or done_testing at the end
#   check "what must work" COMMAND ...    ok if the command succeeds
#   check_fails "what must not" COMMAND ...
#   is "what it says" "$got" "$expected"
#   skip "what is not tried" "because of this"
#   background B krdma export ...         ended when the test ends
#   wait_for 10 COMMAND ...               poll until it succeeds, no fixed sleeps
#
# Run one alone with: selftests/vm/lab run selftests/tests/NAME.sh

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MODULE=${KRDMA_MODULE:-$TOP/driver/krdma_mover.ko}
case :$PATH: in
*":$TOP/userspace:"*) ;;
*) export PATH="$TOP/userspace:$PATH" ;;
esac

test_count=0 test_failures=0 test_plan=''
background_pids=()
cleanups=()

# ------------------------------------------------------------------- results

# Text for the reader, not a result.
diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

plan() {
	test_plan=$1
	echo "1..$1"
}

ok() {
	test_count=$((test_count + 1))
	echo "ok $test_count - $1"
}

# not_ok DESCRIPTION [WHY...]
not_ok() {
	test_count=$((test_count + 1))
	test_failures=$((test_failures + 1))
	echo "not ok $test_count - $1"
	shift
	[ $# = 0 ] || diag "$*"
	return 1
}

# skip DESCRIPTION REASON
skip() {
	test_count=$((test_count + 1))
	echo "ok $test_count - $1 # SKIP $2"
}

skip_all() {
	echo "1..0 # SKIP $*"
	test_plan=0
	exit 4 # what kselftest takes for skipped
}

# check DESCRIPTION COMMAND...: it has to succeed. Its output is told if not.
check() {
	local description=$1 output status
	shift
	output=$("$@" 2>&1)
	status=$?
	if [ $status = 0 ]; then
		ok "$description"
	else
		not_ok "$description" "$* exited with $status: $output"
	fi
}

check_fails() {
	local description=$1 output
	shift
	if output=$("$@" 2>&1); then
		not_ok "$description" "$* succeeded: $output"
	else
		ok "$description"
	fi
}

# is DESCRIPTION GOT EXPECTED
is() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "got '$2', expected '$3'"
	fi
}

# like DESCRIPTION TEXT REGEX
like() {
	if [[ $2 =~ $3 ]]; then
		ok "$1"
	else
		not_ok "$1" "'$2' does not match '$3'"
	fi
}

done_testing() {
	[ -n "$test_plan" ] || plan "$test_count"
	[ "$test_failures" = 0 ]
	exit
}

# ------------------------------------------------------------- what is needed

need_nodes() {
	[ "${LAB_NODES:-1}" -ge "$1" ] || skip_all "needs $1 nodes"
}

need_command() {
	command -v "$1" >/dev/null || skip_all "there is no $1 here"
}

# The nodes of this run, this one first.
nodes() {
	if [ "${LAB_NODES:-1}" = 2 ]; then
		echo A B
	else
		echo A
	fi
}

# on_nodes COMMAND...: on each node, one after the other, until one fails.
on_nodes() {
	local node
	for node in $(nodes); do
		on -n "$node" "$@" || return
	done
}

module_is_loaded() {
	on -n "${1:-$LAB_NODE}" test -d /sys/module/krdma_mover
}

# load_module [NODE...]: with what it depends on; fine if it is there already.
load_module() {
	local node
	# shellcheck disable=SC2046 # words are wanted
	[ $# -gt 0 ] || set -- $(nodes)
	for node; do
		# shellcheck disable=SC2016 # for the node's shell
		on -n "$node" sh -c '
			[ ! -d /sys/module/krdma_mover ] || exit 0
			needs=$(modinfo -F depends "$1" | tr , " ")
			[ -z "$needs" ] || modprobe -a $needs || exit
			exec insmod "$1"' load "$MODULE" ||
			{
				echo "Bail out! $MODULE cannot be loaded on node $node"
				exit 1
			}
	done
}

# unload_module [NODE...]: fails where it is busy.
unload_module() {
	local node
	# shellcheck disable=SC2046 # words are wanted
	[ $# -gt 0 ] || set -- $(nodes)
	for node; do
		on -n "$node" sh -c '[ ! -d /sys/module/krdma_mover ] || exec rmmod krdma_mover' || return
	done
}

# ----------------------------------------------------------- time and cleanup

# wait_for SECONDS COMMAND...: poll until the command succeeds; fails in the end.
wait_for() {
	local until=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "${EPOCHREALTIME/[.,]/}" -lt "$until" ] || return 1
		sleep 0.05
	done
}

# background NODE COMMAND...: start it there; BACKGROUND_PID is its client here.
# Its output goes to the file BACKGROUND_LOG.
background() {
	BACKGROUND_LOG=$(mktemp)
	on -n "$@" >"$BACKGROUND_LOG" 2>&1 &
	BACKGROUND_PID=$!
	background_pids+=("$BACKGROUND_PID")
}

# at_end COMMAND...: run when the test ends, the last one first.
at_end() {
	cleanups=("$(printf '%q ' "$@")" "${cleanups[@]}")
}

# shellcheck disable=SC2317 # called by the trap
test_cleanup() {
	local status=$? pid command
	trap - EXIT
	for pid in "${background_pids[@]}"; do
		kill "$pid" 2>/dev/null
	done
	for pid in "${background_pids[@]}"; do
		wait "$pid" 2>/dev/null
	done
	for command in "${cleanups[@]}"; do
		eval "$command"
	done
	exit "$status"
}
trap test_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
