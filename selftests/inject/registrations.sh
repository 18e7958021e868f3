#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The number of pages that the registrations of an export cover; and a device that refuses work
# requests of registrations. A refused registration fails the operation, not the session. If an
# invalidation is refused, deregistration ends the key. The second part needs fault injection.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
fail=/sys/kernel/debug/krdma_mover_fail
target=$(target_node)
[ "$LAB_RDMA" = siw ] && most=256 || most=512

fresh_module
listen_on "$target"
export_on "$target" small --size 4K
export_on "$target" middle --size 100K
export_on "$target" large --size 4M
remember_leftovers
head -c 4K /dev/urandom >"$dir/data"

# ------------------------------------------------------ as large as its pages

room_is() {
	[ "$(counter "$target" segment_pages)" = "$1" ]
}

# room NAME PAGES: that the registrations of an export have, all of which a peer uses.
room() {
	local pid
	krdma bench write "node$target/$1" -s 4K -D 1000 >/dev/null 2>"$dir/err" &
	pid=$!
	check "'$1' has registrations for $2 pages" wait_for "$LIMIT" room_is "$2"
	kill $pid
	wait $pid 2>/dev/null
	check "and none when it is not used" wait_for "$LIMIT" room_is 0
}
room small 16
room middle 32
room large $((4096 / 4 / most * most))

# ------------------------------------------------------------------- refusals

on -n "$target" test -d $fail || {
	skip "a device that refuses" "this kernel has no fault injection"
	done_testing
}
line=$(awk '/^static bool krdma_post_wrs_try/ { found = 1 } found && /krdma_inject_post/ { print NR; exit }' \
	"$TOP/driver/rdma/channel.c")

# refuse N: the Nth post of registrations or invalidations from now.
refuse() {
	on -n "$target" sh -c "echo 'rdma/channel.c:$line $1' >$fail/arm"
	before=$(lost)
}

was_refused() {
	[ "$(on -n "$target" cat "$fail/arm" | cut -d ' ' -f 2)" = 0 ]
}

lost() {
	echo $(($(counter A sessions_lost) + $(counter "$target" sessions_lost)))
}

put() {
	krdma put "$dir/data" "node$target/large@$1"
}

same() {
	krdma get "node$target/large@$1+4K" - | cmp - "$dir/data"
}

check "bytes are written" put 0
check "and its registrations end" wait_for "$LIMIT" room_is 0

refuse 2
check "bytes are written, by a key that can't be invalidated" put 8K
check "it has been refused" wait_for "$LIMIT" was_refused
check "the registration ends all the same" wait_for "$LIMIT" room_is 0
is "no session is lost" "$(lost)" "$before"
check "the bytes are there" same 8K

refuse 1
krdma put "$dir/data" "node$target/large@16K" 2>"$dir/err"
check "memory that is not registered can't be written" is_failure $?
like "and it says so" "$(<"$dir/err")" "memory"
check "it was refused" was_refused
check "nothing stays registered" wait_for "$LIMIT" room_is 0
is "no session is lost by that" "$(lost)" "$before"
check "it can be written later" put 16K
check "and the bytes are there" same 16K
check_nothing_left "nothing is left" "$LIMIT"
done_testing
