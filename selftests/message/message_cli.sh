#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Messages by the krdma command between two hosts; message.c tests the rest.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2
dir=$(mktemp -d)
at_end rm -rf "$dir"

# recv_on NODE NAME [OPTION]...: until peers can send; what it prints is in $BACKGROUND_LOG.
recv_on() {
	background "$1" krdma recv "${@:2}"
	wait_for 60 grep -Eq "^receiving as $2\$|\"receiving as $2\"" "$BACKGROUND_LOG"
}

fresh_module
listen_on B
remember_leftovers

recv_on B messages -n 4 -j -s 64K || not_ok "recv publishes a name"
log=$BACKGROUND_LOG pid=$BACKGROUND_PID
is "for messages, and memory" "$(krdma ls nodeB -j | json_at /exports/0/rights)" \
	'[ "read", "write", "message" ]'
check "send" krdma send nodeB/messages hello --value 7
printf 'a line\n\n' >"$dir/lines"
check_here "send --lines" krdma send --lines nodeB/messages <"$dir/lines"
head -c 4096 /dev/urandom >"$dir/bytes"
check_here "send of 4096 bytes" krdma send nodeB/messages <"$dir/bytes"
check_here "recv ends with the last" wait "$pid"
message() {
	grep '^{' "$log" | grep -v '"notice"' | sed -n "$1p" | json_at "$2"
}
is "the first has its text" "$(message 1 /text)" hello
is "and its value" "$(message 1 /value)" 7
is "and its user" "$(message 1 /uid)" 0
check "and its host" grep -q "\"peer\" *: *\"$LOCAL_V4:" "$log"
is "the second came second" "$(message 2 /text)" "a line"
is "the third is empty" "$(message 3 /bytes)" 0
check "the last is what was sent" [ "$(message 4 /hex)" = "$(od -An -v -tx1 "$dir/bytes" | tr -d ' \n')" ]
check_fails "a reader that has left gets none" krdma send nodeB/messages hello
recv_on B drain --discard || not_ok "recv --discard"
check "bench send" krdma bench send nodeB/drain -n 500 -t 32 -s 1000
is "all were sent" "$(counter A sends)" $((4 + 500 + 32))
is "all were delivered" "$(counter B messages_delivered)" $((4 + 500 + 32))
on -n B pkill -x krdma
wait "$BACKGROUND_PID"

# Nobody reads what it prints, in short lines that a write() has many of.
# shellcheck disable=SC2016 # for the node's shell
background B sh -c 'cd $(mktemp -d) && mkfifo pipe && exec 3<>pipe && krdma recv full >pipe 3>&-'
wait_for 60 grep -q "^receiving as full$" "$BACKGROUND_LOG" || not_ok "recv into a pipe"
check "bench send, to what nobody reads" krdma bench send nodeB/full -n 200 -t 32 -s 4096
# shellcheck disable=SC2016 # the same
check "recv waits for the reader of its output" wait_for 60 on -n B \
	sh -c 'grep -q pipe_write "/proc/$(pgrep -x krdma)/wchan"'
on -n B pkill -x krdma
check "and can be ended" wait_for 60 on -n B sh -c '! pgrep -x krdma'
wait "$BACKGROUND_PID"
check "it says why not all was printed" grep -q 'nobody reads its output' "$BACKGROUND_LOG"
check_nothing_left "nothing is left of them"

done_testing
