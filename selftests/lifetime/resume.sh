#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What becomes of sessions when the wire is cut, as was chosen at connect: to end at once, to wait
# for a time, how soon a dead path is noticed. Many that come back at once take turns; and a peer
# that was restarted is not taken for the one that was there.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "cuts the wire"
need_nodes 2
need_cuts
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
MANY=${MANY:-$((TIME_FACTOR > 1 ? 12 : 24))}
dir=$(mktemp -d)
at_end rm -rf "$dir"
head -c 3000000 /dev/urandom >"$dir/data"

# siw connects for as long as TCP does, and does not end before.
if [ "$LAB_RDMA" = siw ]; then
	retries=$(sysctl -n net.ipv4.tcp_syn_retries)
	at_end sysctl -qw "net.ipv4.tcp_syn_retries=$retries"
	sysctl -qw net.ipv4.tcp_syn_retries=1
fi
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module
listen_on B
export_on B scratch --size 8M
remember_leftovers

# holder NAME EXPORT OPTION...: has a session and a region open, until its input ends. The session
# is private, unless PRIVATE says otherwise.
declare -A inputs=() asked=()
holder() {
	local name=$1 fd
	mkfifo "$dir/$name.in"
	# shellcheck disable=SC2086 # an option, or none
	mover hold ${PRIVATE--p} "${@:3}" 10.77.0.2 "$2" <"$dir/$name.in" >"$dir/$name" 2>&1 &
	background_pids+=($!)
	exec {fd}>"$dir/$name.in"
	inputs[$name]=$fd
	asked[$name]=0
	wait_for "$LIMIT" grep -q ^open "$dir/$name" && return
	not_ok "$name has a region" "$(<"$dir/$name")"
	done_testing
}
# ask NAME: for an operation. answered NAME: there is the status. answer NAME: what it is.
ask() {
	echo >&"${inputs[$1]}"
	asked[$1]=$((asked[$1] + 1))
}
answered() {
	[ "$(wc -l <"$dir/$1")" -gt "${asked[$1]}" ]
}
answer() {
	wait_for "$LIMIT" answered "$1"
	tail -n 1 "$dir/$1"
}
# reads NAME: it does, though perhaps not at once.
reads() {
	ask "$1"
	is "$1: reads" "$(answer "$1")" "done: "
}
leave() {
	local name fd
	for name; do
		fd=${inputs[$name]}
		exec {fd}>&-
	done
}

# states: of the sessions of this host, by what was chosen: RESUME KEEPALIVE STATE
states() {
	krdma status -j | tr '{}' '\n' |
		sed -En 's/.*"state": ?"(\w+)".*"resume_s": ?([0-9]+).*"keepalive_s": ?([0-9]+).*/\2 \3 \1/p'
}
# state_is RESUME KEEPALIVE STATE
state_is() {
	states | grep -qx "$1 $2 $3"
}
is_gone() {
	! states | grep -q "^$1 "
}

# 1. How long, and how soon.
holder brief scratch -r 2
holder patient scratch -r 50
holder sleepy scratch -r 51 -k 60
holder hasty scratch -r 0
holder alert scratch -r 52 -k 1
check "a keepalive is that of the module, if none is chosen" state_is 50 5 up
cut_wire data0
check "with a keepalive of 1 s it is noticed" wait_for "$LIMIT" state_is 52 1 resuming
check "with one of 60 s it is not, so far" state_is 51 60 up
check "the session that fails fast ends" wait_for "$LIMIT" is_gone 0
check "another one waits" wait_for "$LIMIT" state_is 50 5 resuming
check "and one that waits for 2 s ends" wait_for "$LIMIT" is_gone 2
ask patient
mend_wire data0
is "an operation has waited for the connection" "$(answer patient)" "done: "
reads alert
reads sleepy
ask hasty
like "the one that fails fast" "$(answer hasty)" '^ENOTCONN: .*the session with 10.77.0.2:7471 is lost: '
ask brief
like "the one that has waited for 2 s" "$(answer brief)" '^ENOTCONN: .*its connection did not come back'
check "the others are up" wait_for "$LIMIT" state_is 50 5 up
leave brief patient sleepy hasty alert
check_nothing_left "nothing is left of them"

# 2. put says what it waits for.
mkfifo "$dir/in"
krdma put --resume 40 - nodeB/scratch <"$dir/in" 2>"$dir/err" &
put=$!
exec 8>"$dir/in"
head -c 1000000 "$dir/data" >&8
check "put has a session" wait_for "$LIMIT" state_is 40 5 up
cut_wire data0
check "put says that the connection is lost" wait_for "$LIMIT" \
	grep -qx 'krdma: put - nodeB/scratch: the connection is lost, and waited for, 40 s at most' "$dir/err"
mend_wire data0
check "put says that it is back" wait_for "$LIMIT" \
	grep -qx 'krdma: put - nodeB/scratch: the connection is back' "$dir/err"
tail -c +1000001 "$dir/data" >&8
exec 8>&-
check_here "put goes on" wait "$put"
check_here "all bytes are there" cmp "$dir/data" <(krdma get -q nodeB/scratch@0+3000000 -)
check_nothing_left "nothing is left of it"

# 3. Many at once.
up() {
	[ "$(states | grep -c ' up$')" = "$1" ]
}
resuming() {
	[ "$(states | grep -c ' resuming$')" = "$1" ]
}
names=()
for ((i = 0; i < MANY; i++)); do
	names+=("many$i")
	holder "many$i" scratch -r 55
done
resumed=$(counter A sessions_resumed)
deferred=$(counter A connects_deferred)
check "$MANY sessions" up "$MANY"
cut_wire data0
check "all of them lose their connection" wait_for "$LIMIT" resuming "$MANY"
mend_wire data0
check "all come back" wait_for "$LIMIT" up "$MANY"
is "each once" $(($(counter A sessions_resumed) - resumed)) "$MANY"
check "not all at once" [ "$(counter A connects_deferred)" -gt "$deferred" ]
leave "${names[@]}"
check_nothing_left "nothing is left of them"

# 4. The peer is restarted meanwhile.
in_connect() {
	grep -q ^krdma_session_ "/proc/$1/wchan"
}
background B krdma recv letters
wait_for "$LIMIT" grep -q "^receiving as letters$" "$BACKGROUND_LOG" || not_ok "recv publishes a name"
holder reader scratch -r 56
holder sender letters -r 57 -m
PRIVATE='' holder sharer scratch -r 58
ask sender
is "a message before" "$(answer sender)" "done: "
cut_wire data0
ask reader
ask sender
check "both wait" wait_for "$LIMIT" resuming 3
krdma get -q --resume 58 --timeout 60 nodeB/scratch@0+4096 "$dir/anew" 2>"$dir/err" &
get=$!
check "a command that shares a session waits" wait_for "$LIMIT" in_connect "$get"
on -n B pkill -x krdma
check "the peer's module is loaded anew" wait_for "$LIMIT" unload_module B
load_module B
listen_on B
export_on B scratch --size 8M
mend_wire data0
like "a READ that waits: the region is stale" "$(answer reader)" \
	'^ESTALE: .*the peer does not know it any more'
like "a message that waits: nobody knows" "$(answer sender)" \
	'^ECONNRESET: .*the peer does not know it any more'
ask reader
like "a later READ" "$(answer reader)" '^ESTALE: .*the peer does not know it any more'
check_here "the command gets another session" wait "$get" || diag "$(<"$dir/err")"
leave reader sender sharer
holder fresh scratch
reads fresh
leave fresh
check_nothing_left "nothing is left of it"

# 5. This host is restarted: its session of before ends at the peer, though it could wait for ever.
waits_there() {
	[ "$(on -n B krdma status | grep -c '^session .* state resuming')" = 1 ]
}
one_there() {
	[ "$(on -n B krdma status | grep -c ^session)" = 1 ]
}
on_nodes sh -c 'echo 65535 >/sys/module/krdma_mover/parameters/resume'
holder crashed scratch -r 65535
cut_wire data0
check "the peer waits for this host" wait_for "$LIMIT" waits_there
# Others may wait for the end of their input, which what was started meanwhile has open.
pkill -KILL -x mover
check "whose module is loaded anew" wait_for "$LIMIT" unload_module A
load_module A
mend_wire data0
holder anew scratch
check "the session of before ends" wait_for "$LIMIT" one_there
reads anew
leave anew

done_testing
