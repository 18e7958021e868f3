#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The RDMA device refuses single work requests: of data and messages (refused.c), and of
# registrations at the target. Only the operation of that work request fails. Needs a kernel with
# fault injection (driver/inject.c), such as those of 'selftests/tools/kernels'.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

# A session whose device refuses too much ends; it would go on over its next connection.
MODULE_RESUME=0

fail=/sys/kernel/debug/krdma_mover_fail
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
[ -d $fail ] || skip_all "this kernel has no fault injection"
# A channel for data would be lost alone, and its transfers would go on over the first.
on_nodes sh -c 'echo 1 >/sys/module/krdma_mover/parameters/channels'
target=$(target_node)
listen_on "$target"
export_on "$target" refused --size 16M
background "$target" krdma recv messages --size 16M --discard
exports_are_there() {
	[ "$(on -n "$target" krdma status | grep -c '^export')" = 2 ]
}
check "a target is there" wait_for 60 exports_are_there
remember_leftovers

# Else rxe has no READ behind WRITEs.
line=$(awk '/krdma_inject\(ch->dev->policy.places/ { print NR }' "$TOP/driver/rdma/cm.c")
on -n "$target" sh -c "echo 'rdma/cm.c:$line 1' >$fail/arm"
merge data refused nodeB refused messages "${LAB_RDMA:-rxe}"

# ------------------------------------------------- registrations, at the target

# The outbound session, which is of this host.
session() {
	krdma status | awk '/^session .* peer 10.77.0.2:7471 / { print $2 }'
}

# refuse TAKEN: the next registration there, behind so many of its chain.
refuse() {
	# shellcheck disable=SC2016 # for the node's shell
	on -n "$target" sh -c '
		point=$(sed -n "s/ ib_post_send .* in krdma_post_wrs_try$//p" $1/points)
		echo "$2" >$1/taken && echo "$point 1" >$1/arm' refuse $fail "$1"
}

armed() {
	on -n "$target" cut -d ' ' -f 2 $fail/arm
}

head -c 8M /dev/urandom >"$dir/file"
end_sessions "$target"
for taken in 0 1 2; do
	# Without keys: the export is a new one.
	export_on "$target" fresh$taken --size 16M
	krdma put -q "$dir/file" nodeB/refused
	before=$(session)
	refuse $taken
	krdma put -q "$dir/file" nodeB/fresh$taken 2>"$dir/err"
	is "behind $taken registrations one is refused" "$(armed)" 0
	like "behind $taken registrations one is refused: put fails" "$(<"$dir/err")" \
		"can't reach its memory"
	check "and then it does not" krdma put -q "$dir/file" nodeB/fresh$taken
	krdma get -q nodeB/fresh$taken@0+8M "$dir/back"
	check "the bytes are right" cmp "$dir/file" "$dir/back"
	is "in the same session" "$(session)" "${before:-none}"
done
on -n "$target" sh -c "echo 0 >$fail/taken"
on -n "$target" pkill -x krdma
check_unload "the module can be unloaded on both nodes"
done_testing
