#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Files of one user share sessions. A session ends some time after its last user.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2

dir=$(mktemp -d)
at_end rm -rf "$dir"
ADDRESS=$REMOTE_V4

# hold NUMBER COMMAND...: a process with the export open until let_go NUMBER.
declare -A holder=()

hold() {
	local n=$1
	shift
	mkfifo "$dir/fifo$n"
	# Without the other holders' fifos, or they would never come to an end.
	(exec 21>&- 22>&- 23>&- 24>&- && exec "$@") <"$dir/fifo$n" >"$dir/out$n" 2>&1 &
	holder[$n]=$!
	eval "exec 2$n>\"\$dir/fifo\$n\""
}

let_go() {
	eval "exec 2$1>&-"
	wait "${holder[$1]}"
}

# sessions_are NODE NUMBER, users_are SESSION NUMBER
sessions_are() {
	[ "$(status "$1" /sessions/#)" = "$2" ]
}

users_are() {
	[ "$(status A "/sessions/$1/users")" = "$2" ]
}

flags_are() {
	[ "$(status A "/sessions/$1/flags")" = "$2" ]
}

fresh_module
listen_on B
export_on B scratch --size 16M
remember_leftovers

hold 1 krdma put -q - nodeB/scratch
has_region() {
	[ "$(status A /regions/#)" = 1 ]
}
wait_for 60 has_region
one=$(status A /sessions/0/users)
hold 2 krdma put -q - nodeB/scratch@8M
check "two processes are users of one session" wait_for 60 users_are 0 $((2 * one))
check "there is one session here" sessions_are A 1
check "there is one session there" sessions_are B 1
is "it is inbound there" "$(status B /sessions/0/flags/0)" inbound
is "they share a region" "$(status A /regions/#)" 1
made=$(counter A sessions_made)

hold 3 mover hold -p "$ADDRESS" scratch
check "a private session is one more" wait_for 60 sessions_are A 2
check "it is marked as private" flags_are 1 '[ "private" ]'
is "the shared one has its users still" "$(status A /sessions/0/users)" $((2 * one))
let_go 3
check "a private session ends with its user" wait_for 60 sessions_are A 1

chmod 666 /dev/krdma_mover
hold 4 setpriv --reuid 65534 --regid 65534 --clear-groups "$(type -P mover)" hold "$ADDRESS" scratch
check "another user gets a session of its own" wait_for 60 sessions_are A 2
is "as that user" "$(status A /sessions/1/uid)" 65534
is "and so the peer knows" "$(status B /sessions/1/uid)" 65534
sees() {
	[ "$(setpriv --reuid 65534 --regid 65534 --clear-groups "$(type -P krdma)" status -j | json_at /sessions/#)" = 1 ]
}
check "a user sees only its own sessions" sees
chmod 600 /dev/krdma_mover
let_go 4

head -c 5000 /dev/urandom >"$dir/data"
cat "$dir/data" >&21
let_go 1
check "who stays is a user still" wait_for 60 users_are 0 "$one"
let_go 2
began=${EPOCHREALTIME/[.,]/}
check "without users it lingers" flags_are 0 '[ "lingering" ]'
krdma get -q nodeB/scratch@0+5000 "$dir/back"
took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000000))
check "bytes put by one user are there" cmp "$dir/data" "$dir/back"
if [ "$took" -ge 9 ]; then
	skip "a new user takes the session that lingers" "it lingers for 10 s, and this took $took s"
else
	is "a new user takes the session that lingers" "$(counter A sessions_made)" $((made + 2))
fi
check "sessions end some time after their last user" wait_for 60 sessions_are A 0
check_nothing_left "nothing is left of them"

done_testing
