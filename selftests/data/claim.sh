#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Exports that are held, exclusive or taken over. What is held has all its keys before the first
# operation, keeps them whatever others need, and gets them anew with a device. Nobody else writes to
# what is exclusive; after a takeover the one before does not, even if nobody hears it any more.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "cuts wires"
need_nodes 2
need_cuts
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
CLAIM=$(cd "$(dirname "$0")" && pwd)/claim
USER_ID=4711
dir=$(mktemp -d)
at_end rm -rf "$dir"

declare -A claimant=()
# claim N NODE FLAGS NAME [NUMBER]: until let_go N; it is open, or the node says in $dir/errN why not.
claim() {
	local n=$1 node=$2
	shift 2
	rm -f "$dir/fifo$n"
	mkfifo "$dir/fifo$n"
	# Without the fifos of others, or they would never come to an end.
	(exec 21>&- 22>&- && exec on "$node" "$CLAIM" "$1" "$REMOTE_V4" "${@:2}") \
		<"$dir/fifo$n" >"$dir/out$n" 2>"$dir/err$n" &
	claimant[$n]=$!
	eval "exec 2$n>\"\$dir/fifo\$n\""
	said_or_over() {
		grep -qx open "$dir/out$n" || is_over "${claimant[$n]}"
	}
	wait_for "$LIMIT" said_or_over && grep -qx open "$dir/out$n"
}
let_go() {
	eval "exec 2$1>&-"
	wait "${claimant[$1]}"
}
# refused DESCRIPTION REGEX N NODE FLAGS NAME
refused() {
	if claim "${@:3}"; then
		not_ok "$1" "it is open"
	else
		like "$1" "$(cat "$dir/err$3")" "$2"
	fi
	let_go "$3"
}
has_filled() {
	grep -qx filled "$dir/out$1"
}
# exported POINTER: of the first export of node B.
exported() {
	status B "/exports/0/$1"
}
exported_is() {
	[ "$(exported "$1")" = "$2" ]
}
# keys: of the first region, which is held.
keys() {
	status A /regions/0/keys
}
keys_are() {
	[ "$(keys)" = "$1" ]
}
# others NUMBER: how many bytes of the export are not NUMBER.
others() {
	krdma get -q nodeB/scratch "$dir/got" && tr -d "\\$(printf %03o "$1")" <"$dir/got" | wc -c
}

keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module
listen_on B
bytes=$(($(on -n B krdma devices -j | json_at /devices/0/segment_pages) * $(getconf PAGESIZE)))
export_on B scratch --size $((16 * bytes)) --max-segments 20
export_on B narrow --size $((16 * bytes)) --max-segments 17
remember_leftovers

# 1. Held.
check_here "an export is held" claim 1 A h scratch
is "all its segments are registered" "$(exported segments)" 16
is "and held" "$(exported held)" 16
is "its memory is there" "$(exported pinned_bytes)" $((16 * bytes))
is "the region says so" "$(status A /regions/0/flags/0)" held
is "all keys are here" "$(keys)" 16
is "others have the bytes" "$(krdma get -q nodeB/scratch - | wc -c)" $((16 * bytes))
check "by recalling from each other" [ "$(exported recalls)" -gt 0 ]
is "not what is held" "$(keys)" 16
check_here "users of a session share it" claim 2 A h scratch
is "and its segments" "$(exported held)" 16
let_go 2
refused "others can't hold it as well" "'scratch' can't be held by 10.77.0.2:7471: " 2 B h scratch
refused "nor what has too few segments" "'narrow' can't be held" 2 A h narrow
let_go 1
check "then it is held no more" wait_for "$LIMIT" exported_is held 0
check "and nothing is registered" wait_for "$LIMIT" exported_is segments 0

# 2. Not for everybody.
chmod 666 /dev/krdma_mover
said=$(setpriv --reuid $USER_ID --regid $USER_ID --clear-groups "$CLAIM" h "$REMOTE_V4" scratch 2>&1 </dev/null)
like "users can't hold" "$said" "^claim: only root can have 'scratch' held or exclusively"
said=$("$CLAIM" xt "$REMOTE_V4" nothing 2>&1 </dev/null)
like "what is not there" "$said" "publishes nothing named 'nothing'"
said=$("$CLAIM" t "$REMOTE_V4" scratch 2>&1 </dev/null)
like "a takeover is exclusive" "$said" "^claim: 'scratch' is taken over to be exclusive"

# 3. Exclusive.
check_here "an export is exclusive" claim 1 A x scratch
is "the target says so" "$(exported exclusive)" 1
like "nobody puts" "$(krdma put -q /etc/hostname nodeB/scratch 2>&1)" "'scratch' of 10.77.0.2:7471 is open elsewhere"
check_here "somebody gets" cmp -n 100 <(krdma get -q nodeB/scratch@0+100 -) /dev/zero
check_here "somebody opens it to read" claim 2 A r scratch
let_go 2
refused "nobody else is exclusive" "is open elsewhere" 2 A x scratch
refused "not even to read" "is open elsewhere" 2 A xr scratch
refused "nor on the target itself" "is open elsewhere" 2 B x scratch
let_go 1
check "then somebody puts" wait_for "$LIMIT" krdma put -q /etc/hostname nodeB/scratch
check_here "an export is open to write" claim 1 A h scratch
refused "nobody is exclusive" "is open elsewhere" 2 A x scratch
let_go 1

# 4. Taken over.
check_here "one fills it with 1" claim 1 A hx scratch 1
check "again and again" wait_for "$LIMIT" has_filled 1
check_here "another one takes it over" claim 2 B hxt scratch 2
check "the first one ends" wait_for "$LIMIT" is_over "${claimant[1]}"
like "as it is revoked" "$(cat "$dir/err1")" "'scratch' was revoked by 10.77.0.2:7471"
let_go 1
check "and the other one fills it" wait_for "$LIMIT" has_filled 2
check_here "until it ends" let_go 2
is "with 2 and nothing else" "$(others 2)" 0
check "then nobody has it exclusively" wait_for "$LIMIT" exported_is exclusive 0

# 5. Taken over from programs that open it again at once.
mkfifo "$dir/never"
exec 23<>"$dir/never"
pids=()
for ((i = 0; i < 3; i++)); do
	while [ ! -e "$dir/stop" ]; do
		"$CLAIM" "" "$REMOTE_V4" scratch 5 <"$dir/never" >"$dir/again$i" 2>&1
	done 23>&- &
	pids+=($!)
done
they_fill() {
	grep -qx filled "$dir"/again[0-2]
}
check "three fill it with 5" wait_for "$LIMIT" they_fill
check_here "another one takes it over from all of them" claim 2 B hxt scratch 6
check "and fills it" wait_for "$LIMIT" has_filled 2
touch "$dir/stop"
# The next try of each is refused.
wait "${pids[@]}"
exec 23>&-
check_here "until it ends" let_go 2
is "with 6 and nothing else" "$(others 6)" 0
check "then nobody has it exclusively" wait_for "$LIMIT" exported_is exclusive 0

# 6. A device that goes and comes back.
check_here "an export is held" claim 1 A h scratch
check "by nobody else" wait_for "$LIMIT" exported_is segments 16
registered=$(counter B segments_registered)
on -n B rdma link del "$LAB_RDMA_DEV"
is "its memory stays" "$(exported pinned_bytes)" $((16 * bytes))
on -n B rdma link add "$LAB_RDMA_DEV" type "$LAB_RDMA" netdev data0
again() {
	[ "$(counter B segments_registered)" -ge $((registered + 16)) ] && keys_are 16
}
check "all keys come back, though nobody uses them" wait_for "$LIMIT" again
let_go 1

# 7. Nobody hears the one before.
check_here "one fills it with 3" claim 1 A hx scratch 3
check "again and again" wait_for "$LIMIT" has_filled 1
cut_wire data0
check_here "another one takes it over" claim 2 B hxt scratch 4
check "and fills it" wait_for "$LIMIT" has_filled 2
mend_wire data0
check "the first one ends when it hears of it" wait_for "$LIMIT" is_over "${claimant[1]}"
let_go 1
check_here "the other one ends" let_go 2
is "with 4 and nothing else" "$(others 4)" 0

end_sessions B
check_nothing_left "nothing is left"

done_testing
