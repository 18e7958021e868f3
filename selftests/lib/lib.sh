# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the shell tests: TAP output, the module on both nodes, and waiting for events. Source
# it first:
#
#   . "$(dirname "$0")/../lib/lib.sh"
#   need_nodes 2
#   load_module
#   plan 3                                or done_testing at the end
#   check "what must work" COMMAND ...    ok if the command succeeds
#   check_fails "what must not" COMMAND ...
#   is "what it says" "$got" "$expected"
#   skip "what is not tried" "because of this"
#   background B krdma export ...         ended when the test ends
#   wait_for 60 COMMAND ...               poll until it succeeds, no fixed sleeps
#
# Run one test alone with: selftests/tools/vm/lab run selftests/FOLDER/NAME.sh

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=selftests/lib/env.sh
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# The module's file. In the lab it is at hand; elsewhere the module that is loaded stays,
# unless KRDMA_MODULE says which file it is from.
MODULE=${KRDMA_MODULE-}
if [ -n "${LAB_OUT-}" ]; then
	MODULE=${MODULE:-$TOP/driver/krdma_mover.ko}
	export LOCAL_V4=10.77.0.1 REMOTE_V4=10.77.0.2 LOCAL_V6=fd77::1 REMOTE_V6=fd77::2
fi
# What the tests run: programs of their folders, of this one, and krdma.
PATH=$(cd "$(dirname "$0")" && pwd):$SELFTESTS/lib:$TOP/userspace:$PATH
export PATH

# How much longer things may take than on an ordinary kernel.
TIME_FACTOR=${TIME_FACTOR:-1}

# The module's parameter. A virtual machine stands still for seconds if its computer has
# other things to do, and that is not what is tested, but where peers or wires are dead:
# such a test says MODULE_TIMEOUT_SCALE=1 before it loads the module; and MODULE_RESUME=0, where
# sessions are to end with their connections.
MODULE_TIMEOUT_SCALE=4
MODULE_RESUME=

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

# check DESCRIPTION COMMAND...: it has to succeed; if not, its output is printed.
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

# The same in this shell, for a command that sets variables or waits for a job.
check_here() {
	local description=$1
	shift
	if "$@"; then
		ok "$description"
	else
		not_ok "$description" "$* failed"
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

# What only the machines of the lab can do, or may.
need_lab() {
	[ -n "${LAB_OUT-}" ] || skip_all "needs the lab: $1"
}

need_module_file() {
	[ -n "$MODULE" ] || skip_all "loads and unloads modules: KRDMA_MODULE is not set"
}

need_command() {
	command -v "$1" >/dev/null || skip_all "there is no $1 here"
}

# The nodes of this run with a kernel of their own, this one first.
nodes() {
	local letters=(A B C D)
	[ -z "${LAB_ONE_KERNEL-}" ] || letters=(A)
	echo "${letters[@]:0:${LAB_NODES:-1}}"
}

# Where the target is of a test that one node is enough for.
target_node() {
	if [ "${LAB_NODES:-1}" -ge 2 ]; then
		echo B
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
	local node setting settings=("timeout_scale=$MODULE_TIMEOUT_SCALE")
	local parameters=/sys/module/krdma_mover/parameters
	[ -z "$MODULE_RESUME" ] || settings+=("resume=$MODULE_RESUME")
	# shellcheck disable=SC2046 # words are wanted
	[ $# -gt 0 ] || set -- $(nodes)
	for node; do
		# A module that was not loaded for the tests keeps its settings.
		[ -n "$MODULE" ] || ! module_is_loaded "$node" ||
			for setting in "${settings[@]%%=*}"; do
				setting=$parameters/$setting
				at_end on -n "$node" sh -c "echo $(on -n "$node" cat "$setting") >$setting"
			done
		# shellcheck disable=SC2016 # for the node's shell
		on -n "$node" sh -c '
			if [ ! -d /sys/module/krdma_mover ]; then
				[ -n "$1" ] || { echo "the module is not loaded" >&2 && exit 1; }
				needs=$(modinfo -F depends "$1" | tr , " ")
				[ -z "$needs" ] || modprobe -a $needs || exit
				insmod "$1" || exit
			fi
			cd "$2" && shift 2 || exit
			for setting; do
				echo "${setting#*=}" >"${setting%%=*}" || exit
			done' load "$MODULE" $parameters "${settings[@]}" ||
			{
				echo "Bail out! ${MODULE:-the module} can't be used on node $node"
				exit 1
			}
	done
}

# unload_module [NODE...]: fails where it is busy. check_unload DESCRIPTION [SECONDS]: it goes.
unload_module() {
	local node
	# shellcheck disable=SC2046 # words are wanted
	[ $# -gt 0 ] || set -- $(nodes)
	for node; do
		on -n "$node" sh -c '[ ! -d /sys/module/krdma_mover ] || exec rmmod krdma_mover' || return
	done
}

check_unload() {
	if [ -n "$MODULE" ]; then
		check "$1" wait_for "${2:-60}" unload_module
	else
		skip "$1" "KRDMA_MODULE is not set"
	fi
}

# Loaded just now on all nodes, so that nothing is left of the tests before, if it can be.
fresh_module() {
	[ -z "$MODULE" ] || wait_for 60 unload_module || {
		echo "Bail out! The module is busy"
		exit 1
	}
	load_module
}

# keep_neighbours DEVICE LOCAL REMOTE: the two nodes know each other's link address, however long the
# wire is cut. Without it rxe of 6.1 can't send a MAD, and then sends none any more
# (Documentation/debugging.rst).
keep_neighbours() {
	local mac device=$1 here=$2 there=$3
	mac=$(on -n B cat "/sys/class/net/$device/address") &&
		ip neigh replace "$there" lladdr "$mac" dev "$device" nud permanent &&
		at_end ip neigh del "$there" dev "$device" &&
		mac=$(cat "/sys/class/net/$device/address") &&
		on -n B ip neigh replace "$here" lladdr "$mac" dev "$device" nud permanent &&
		at_end on -n B ip neigh del "$here" dev "$device"
}

# power_off NODE: it starts anew, which is_back NODE says; to the others it is a machine that has lost its power.
power_off() {
	: >"/lab/out/power.$1"
	# It never returns.
	on -n "$1" sh -c 'echo b >/proc/sysrq-trigger' >/dev/null 2>&1 &
	background_pids+=("$!")
}
is_back() {
	[ ! -e "/lab/out/power.$1" ] && timeout 2 on -n "$1" true
}

# need_cuts: or all is skipped. Not while there are packets: a change of a device's queueing disciplines refuses
# some that it sends, which rxe does not bear (empty_read.sh; QP 1 stays in error, Documentation/debugging.rst).
# So they stay. The first one of a machine patches the kernel's code, as does the end of the last one, and an
# emulated processor that receives meanwhile may take the breakpoint for ever: so lo has one, too.
# cut_wire DEVICE [NODE]: nothing that is sent to that node (B) arrives by it, until mend_wire DEVICE [NODE], or
# the end of the test.
need_cuts() {
	local said node
	need_command tc
	# shellcheck disable=SC2016 # for the shells there
	said=$(on_nodes sh -c 'for dev in lo data0 data1; do
			[ ! -e /sys/class/net/$dev ] || tc qdisc show dev $dev | grep -q clsact ||
				tc qdisc add dev $dev clsact || exit
		done
		tc filter add dev lo ingress pref 9 protocol all u32 match u32 0 0 action pass &&
			tc filter del dev lo ingress pref 9' 2>&1) ||
		skip_all "no u32 filter in this kernel: $said"
	for node in $(nodes); do
		at_end mend_wire data0 "$node"
		at_end mend_wire data1 "$node"
	done
}
cut_wire() {
	on -n "${2:-B}" tc filter add dev "$1" ingress protocol all u32 match u32 0 0 action drop
}
mend_wire() {
	on -n "${2:-B}" sh -c "! tc qdisc show dev $1 2>/dev/null | grep -q clsact || tc filter del dev $1 ingress"
}

# ----------------------------------------------------------- time and cleanup

# second_wire: a second network, 10.79.0.1 and 10.79.0.2, with an RDMA device (RoCE) of its own on each
# node. It is gone in the end.
second_wire() {
	local node address
	for node in $(nodes); do
		at_end on -n "$node" sh -c 'ip addr flush dev data1; ip link set data1 down'
		address=10.79.0.1
		[ "$node" = A ] || address=10.79.0.2
		on -n "$node" sh -c "ip link set data1 mtu \$(cat /sys/class/net/data0/mtu) up &&
			ip addr add $address/24 dev data1" ||
			not_ok "$node has a second network"
	done
	keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
	keep_neighbours data1 10.79.0.1 10.79.0.2 || not_ok "and by the second network"
	for node in $(nodes); do
		on -n "$node" rdma link add rxe_data1 type rxe netdev data1 ||
			not_ok "$node has a second RDMA device"
		at_end on -n "$node" sh -c '! rdma link show rxe_data1/1 >/dev/null 2>&1 || rdma link del rxe_data1'
	done
}

# wait_for SECONDS COMMAND...: poll until the command succeeds; fails in the end.
wait_for() {
	local until=$((${EPOCHREALTIME/[.,]/} + $1 * TIME_FACTOR * 1000000))
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

# ---------------------------------------------- what must not be left behind

# What the module holds on a node, as one line: pages that stay pinned, RDMA
# objects, sessions and transfers. An export of a memfd alone holds none of it.
# shellcheck disable=SC2016 # for the node's shell
leftovers() {
	on -n "${1:-$LAB_NODE}" sh -c '
		cat /proc/sys/vm/stat_refresh >/dev/null 2>&1
		{
			cat /proc/vmstat
			rdma resource | sort -k 2
			[ ! -d /sys/module/krdma_mover ] || {
				krdma status
				krdma status --transfers
			}
		} | awk "
			/^nr_foll_pin_acquired / { pages += \$2 }
			/^nr_foll_pin_released / { pages -= \$2 }
			/^counter pinned_bytes / { bytes = \$3 }
			/^counter dma_mappings / { mappings = \$3 }
			/^[0-9]+: / { sub(/^[0-9]+: /, \"\"); sub(/ ctx.*/, \"\"); rdma = rdma \" \" \$0 }
			/^session / { sessions++ }
			/^transfer / { transfers++ }
			END {
				printf \"pages %d bytes %d mappings %d%s sessions %d transfers %d\n\",
					pages, bytes, mappings, rdma, sessions, transfers
			}"' leftovers
}

declare -A leftovers_base=()

# To be called when nothing is in use, but with the listeners that stay.
remember_leftovers() {
	local node
	for node in $(nodes); do
		leftovers_base[$node]=$(leftovers "$node")
	done
}

nothing_is_left() {
	local node now
	for node in $(nodes); do
		now=$(leftovers "$node")
		[ "$now" = "${leftovers_base[$node]}" ] || return
	done
}

# check_nothing_left DESCRIPTION [SECONDS]: all that was in use since
# remember_leftovers has been given back.
check_nothing_left() {
	local node
	if wait_for "${2:-60}" nothing_is_left; then
		ok "$1"
		return
	fi
	not_ok "$1" "$(for node in $(nodes); do
		echo "$node has:  $(leftovers "$node")"
		echo "$node had:  ${leftovers_base[$node]}"
	done)"
}

# --------------------------------------------------------- listeners, exports

listen_on() {
	on -n "$1" krdma listen "${2:-0.0.0.0}"
}

# Ends all sessions that came to the node, without waiting for them to linger.
end_sessions() {
	on -n "$1" sh -c 'krdma listen --remove 0.0.0.0 && krdma listen 0.0.0.0'
}

# export_on NODE NAME OPTIONS...: returns when peers can open it. EXPORT_PID is
# its process there, BACKGROUND_PID its client here.
export_on() {
	# shellcheck disable=SC2016 # for the node's shell
	background "$1" sh -c 'echo $$ && exec krdma export "$@"' export "${@:2}"
	if ! wait_for 60 grep -Eq '^exported |"schema"' "$BACKGROUND_LOG"; then
		diag "export $2: $(cat "$BACKGROUND_LOG")"
		return 1
	fi
	# shellcheck disable=SC2034 # for the tests
	EXPORT_PID=$(head -n 1 "$BACKGROUND_LOG")
}

# ---------------------------------------------------------- commands that end

is_over() {
	! kill -0 "$1" 2>/dev/null
}

# is_failure STATUS: of krdma, by some cause; not wrong usage, and no signal.
is_failure() {
	[[ $1 = [1345678] ]]
}

# check_failed DESCRIPTION SECONDS PID STDERR [REGEX]: a krdma command in the
# background ends within that time, with the status of a failure and one sentence.
check_failed() {
	local status text began=$SECONDS
	if ! wait_for "$2" is_over "$3"; then
		not_ok "$1" "it still runs after $(($2 * TIME_FACTOR)) s"
		return
	fi
	wait "$3"
	status=$?
	text=$(<"$4")
	if is_failure $status && [[ $text = "krdma: "* && $text != *$'\n'* && $text =~ ${5-.} ]]; then
		ok "$1"
		diag "after $((SECONDS - began)) s: $text"
	else
		not_ok "$1" "status $status: $text"
	fi
}

# status NODE POINTER: a value of what 'krdma status -j' prints there.
status() {
	on -n "$1" krdma status -j | json_at "$2"
}

# counter NODE NAME: one of the module's.
counter() {
	on -n "$1" cat "/sys/class/misc/krdma_mover/counters/$2"
}

# ------------------------------------------------------------- other programs

# merge WHO COMMAND...: its TAP as part of ours.
merge() {
	local who=$1 line count=0 plan=none
	shift
	while IFS= read -r line; do
		case $line in
		"ok "*" # SKIP "*)
			count=$((count + 1)) line=${line#* - }
			skip "$who: ${line%% \# SKIP *}" "${line#* \# SKIP }"
			;;
		"ok "*) count=$((count + 1)) && ok "$who: ${line#* - }" ;;
		"not ok "*) count=$((count + 1)) && not_ok "$who: ${line#* - }" ;;
		1..*) plan=${line#1..} ;;
		*) echo "$line" ;;
		esac
	done < <("$@" 2>&1)
	is "$who: ran to its end" "$plan" "$count"
}

# ------------------------------------------------------------------- the wire

# The RDMA device and addresses as they were at boot, whatever was taken away. A
# device whose wire was down is made anew: when rxe of Linux 6.1 can't send a
# message of the connection manager for want of a route, its queue pair 1 hears
# nothing any more (ib_mad gets it from error to RTS, which leaves the responder).
# shellcheck disable=SC2016 # for the node's shell
restore_link() {
	on -n "$1" sh -c '
		case $LAB_NODE in A) n=1 ;; *) n=2 ;; esac
		if ! ip link show up dev data0 | grep -q data0; then
			ip link set data0 up
			rdma link delete "$LAB_RDMA_DEV"
		fi
		ip -6 addr show dev data0 | grep -q "fd77::$n/" || ip -6 addr add "fd77::$n/64" dev data0
		rdma link show "$LAB_RDMA_DEV/1" >/dev/null 2>&1 ||
			rdma link add "$LAB_RDMA_DEV" type "$LAB_RDMA" netdev data0' restore
}
