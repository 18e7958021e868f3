#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The in-kernel API, with samples/krdma_sample.ko and selftests/modules/krdma_kapi_test.ko, which
# `make samples` builds.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file
need_nodes 2

LIMIT=${LIMIT:-60}
# Emulated, and with a kernel that looks for faults, all of it takes its time.
DEPTH=${DEPTH:-$((TIME_FACTOR > 1 ? 32 : 64))}
ROUNDS=${ROUNDS:-$((TIME_FACTOR > 1 ? 8 : 16))}
built=${MODULE%/driver/*}
SAMPLE=$built/samples/krdma_sample.ko
TEST=$built/selftests/modules/krdma_kapi_test.ko
dir=$(mktemp -d)
at_end rm -rf "$dir"

for module in "$SAMPLE" "$TEST"; do
	[ -e "$module" ] || {
		echo "Bail out! There is no $module: make samples"
		exit 1
	}
done

unload_users() {
	local node name
	for node in $(nodes); do
		for name in krdma_sample krdma_kapi_test; do
			on -n "$node" sh -c "[ ! -d /sys/module/$name ] || rmmod $name"
		done
	done
}
at_end unload_users

# said TEXT: how often this node's kernel has said so since the mark.
said() {
	dmesg -t | sed "1,/^$mark\$/d" | grep -cF -- "$1"
}

new_mark() {
	mark="kapi-test $RANDOM $RANDOM"
	echo "$mark" >/dev/kmsg
}

said_once() {
	[ "$(said "$1")" = 1 ]
}

# result NAME: of the test module.
result() {
	cat "/sys/module/krdma_kapi_test/parameters/$1"
}

refused() {
	! on -n "$1" rmmod krdma_mover 2>"$dir/rmmod" && grep -q 'in use' "$dir/rmmod"
}

# check_loads DESCRIPTION MODULE ARGUMENT...: on failure what the kernel has said.
check_loads() {
	local description=$1
	shift
	if insmod "$@" 2>"$dir/err"; then
		ok "$description"
	else
		not_ok "$description" "$(
			cat "$dir/err"
			dmesg -t | sed "1,/^$mark\$/d" | tail -n 20
			# Was it the wire?
			on_nodes sh -c "grep . /sys/class/infiniband/$LAB_RDMA_DEV/ports/1/hw_counters/*"
		)"
	fi
}

fresh_module
listen_on A
listen_on B
remember_leftovers
new_mark
export_on B scratch --size 16M

# ------------------------------------------------------------------- a sample

check_loads "a module publishes a page, and moves another" "$SAMPLE" address="$REMOTE_V4"
krdma get -q nodeB/scratch@0+4096 "$dir/page"
is "it has arrived" "$(tr -d k <"$dir/page" | wc -c) $(wc -c <"$dir/page")" "0 4096"
is "a peer reads what it has published" "$(on -n B krdma get -q nodeA/krdma_sample@0+25 -)" \
	"published by krdma_sample"
check "it keeps krdma_mover there" refused A
is "it is no file's" "$(status A /exports/0/name)" krdma_sample
echo "a peer writes" >"$dir/text"
check_here "a peer writes into it" on B krdma put -q - nodeA/krdma_sample <"$dir/text"
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"
check "it learns of a revocation" wait_for "$LIMIT" said_once "krdma_sample: 'scratch' is revoked"
check "it can be unloaded" rmmod krdma_sample
is "what the peer has written is there" \
	"$(said "krdma_sample: left with 'a peer writes\\nrdma_sample'")" 1
is "it was told once" "$(said "krdma_sample: 'scratch' is")" 1
check_fails "without what it opens it does not load" insmod "$SAMPLE" address="$REMOTE_V4"
is "and the kernel says why" "$(said "$REMOTE_V4:7471 publishes nothing named 'scratch'")" 1
check_fails "nor with nobody there" insmod "$SAMPLE" address="$LOCAL_V4" name=nothing
check_nothing_left "nothing is left of it" "$LIMIT"

# --------------------------------------------------------------- test module

new_mark
export_on B numbers --size 1M --atomic
check_loads "atomics, digests, transfers that are verified" "$TEST" what=numbers name=numbers
check "the module goes" rmmod krdma_kapi_test
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"
export_on B scratch --size 16M
new_mark
check_loads "messages come in order, until they are not wanted any more" "$TEST" what=messages \
	depth="$DEPTH"
check "the module goes" rmmod krdma_kapi_test
new_mark
check_loads "what must fail does, and objects end in any order" "$TEST" what=errors depth="$DEPTH"
check "the module goes" rmmod krdma_kapi_test
new_mark
requests=$(counter A work_requests)
check_loads "64 pages in one piece of memory are written and read" "$TEST" what=joined
is "and each with one work request" "$(($(counter A work_requests) - requests))" 2
check "the module goes" rmmod krdma_kapi_test
new_mark
check_loads "each of many transfers ends once, whatever is done to them" "$TEST" what=stress \
	depth="$DEPTH" rounds="$ROUNDS"
diag "$(result ended) transfers, $(result cancelled) cancelled, $(result timed_out) timed out"
check "some were cancelled" [ "$(result cancelled)" -gt 0 ]
check "the module goes" rmmod krdma_kapi_test

# ------------------------------------------------------- channels, and polling

moves() {
	[ "$(result ended)" -gt "${1:-100}" ]
}

# begin_loop NAME [ARGUMENT...]: transfers without end, with that export of B.
begin_loop() {
	new_mark
	check_loads "transfers with '$*' go on" "$TEST" what=loop depth=8 name="$1" "${@:2}"
	wait_for "$LIMIT" moves
}

# written CHANNEL: bytes, of the only session.
written() {
	status A "/channels/$1/bytes_written"
}
has_written() {
	[ "$(written "$1")" -gt 0 ] 2>/dev/null
}
has_polled() {
	[ "$(counter A polled)" -gt 0 ]
}
begin_loop scratch polls=1
is "none fails that is polled for" "$(result status)" 0
[ "$(nproc)" = 1 ] || [ "$LAB_RDMA" != rxe ] ||
	check "some completions come before their interrupt" wait_for "$LIMIT" has_polled
check "the module goes" rmmod krdma_kapi_test
if [ "$(nproc)" -gt 1 ] && [ "$LAB_RDMA" = rxe ]; then
	for cpu in 1 2; do
		begin_loop scratch "cpu=$cpu"
		check "the channel of processor $cpu is used" wait_for "$LIMIT" has_written "$cpu"
		is "that of the other is not" "$(written $((3 - cpu)))" 0
		check "the module goes" rmmod krdma_kapi_test
	done
else
	skip "the channel of a processor that is asked for" "one processor, or iWARP, has one channel"
fi

# ------------------------------------------------- the other side goes away

# told REVOKED LOST: which events there were; and its transfers have failed.
told() {
	[ "$(result revoked) $(result lost)" = "$1 $2" ] && [ "$(result status)" != 0 ]
}

told_one() {
	[ "$(($(result revoked) + $(result lost)))" = 1 ] && [ "$(result status)" != 0 ]
}

# end_loop: until the region is closed there is no second event.
end_loop() {
	local before
	before="$(result revoked) revoked, $(result lost) lost"
	check "the module goes" rmmod krdma_kapi_test
	is "its callback has not run again" "$(said "krdma_kapi_test: in the end $before")" 1
}

begin_loop scratch
check "a module that moves bytes keeps krdma_mover here" refused A
on -n B kill -KILL "$EXPORT_PID"
wait "$BACKGROUND_PID" 2>/dev/null
check "a killed exporter is a revocation" wait_for "$LIMIT" told 1 0
is "and the transfers' status says so" "$(result status)" -116
# reopen: the errno's text if it fails.
reopen() {
	{ /bin/echo 1 >/sys/module/krdma_kapi_test/parameters/reopen; } 2>&1
}
like "it can't be opened again while the export is away" "$(reopen)" 'No such file'
export_on B scratch --size 16M
is "it can when the export is back" "$(reopen)" ""
ended=$(result ended)
check "and transfers go on" wait_for "$LIMIT" moves "$ended"
like "but not again" "$(reopen)" 'busy'
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"
check "a second end is a second event" wait_for "$LIMIT" told 2 0
export_on B scratch --size 16M
is "it can be opened again as well" "$(reopen)" ""
on -n B kill "$EXPORT_PID"
wait "$BACKGROUND_PID"
check "with the third event" wait_for "$LIMIT" told 3 0
end_loop

check "the peer's module publishes a page" on -n B insmod "$SAMPLE"
check "it keeps krdma_mover there" refused B
begin_loop krdma_sample
check "it takes the page back while it is used" on -n B rmmod krdma_sample
check "that is a revocation" wait_for "$LIMIT" told 1 0
is "and the transfers' status says so" "$(result status)" -116
end_loop

export_on B scratch --size 16M
begin_loop scratch
on -n B krdma listen --remove 0.0.0.0
check "without the session the path is lost" wait_for "$LIMIT" told 0 1
like "and the transfers' status says so" "$(result status)" '^-10[47]$'
end_loop
listen_on B

begin_loop scratch
on -n B kill "$EXPORT_PID"
check "krdma_mover goes at the peer" wait_for "$LIMIT" unload_module B
wait "$BACKGROUND_PID" 2>/dev/null
check "that is one event" wait_for "$LIMIT" told_one
end_loop
load_module B
listen_on B

if [ "$LAB_RDMA" = rxe ]; then
	export_on B scratch --size 16M
	resume=/sys/module/krdma_mover/parameters/resume
	seconds=$(<"$resume")
	echo 0 >"$resume"
	begin_loop scratch
	rdma link delete "$LAB_RDMA_DEV"
	check "without the device the path is lost, where it does not resume" wait_for "$LIMIT" told 0 1
	end_loop
	restore_link A
	echo "$seconds" >"$resume"
	on -n B kill "$EXPORT_PID"
	wait "$BACKGROUND_PID"
else
	skip "without the device the path is lost, where it does not resume" "not with this device"
fi

# ------------------------------------------------------------------ in the end

end_sessions A
end_sessions B
check_nothing_left "nothing is left of them" "$LIMIT"
check_unload "krdma_mover goes after its users" "$LIMIT"
done_testing
