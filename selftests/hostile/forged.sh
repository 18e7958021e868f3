#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connect requests whose rdma_cm header contains another address than that of their sender
# (forged.c). The module admits and counts peers by the sender's address only.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "adds addresses"
[ "$LAB_RDMA" = rxe ] || skip_all "on iWARP the address is that of a TCP connection"
[ -z "${LAB_ONE_KERNEL-}" ] || skip_all "the packet has to come in by the device's wire"
need_nodes 2

PORT=7473
allowed=10.77.0.11 other=10.77.0.12 target=10.77.0.2
for address in $allowed $other; do
	ip addr add "$address/24" dev data0
	at_end ip addr del "$address/24" dev data0
done
fresh_module
on -n B krdma listen --allow $allowed/32 0.0.0.0:$PORT

accepted() {
	on -n B krdma status | sed -n "s/^listener .*:$PORT .* accepted \([0-9]*\) .*/\1/p"
}

# What the listener's module has said since this test began.
said() {
	on -n B dmesg -t | tac | sed '/selftest: forged begins/q' | grep -c "refused: .*$1"
}

# Serial numbers that no request before had.
serial=$((RANDOM * 8))

# request SENDER CLAIMED
request() {
	serial=$((serial + 1))
	forged "$1" "$2" $target $PORT $serial
}

more_refused() {
	[ "$(counter B sessions_refused)" -gt "$refused" ]
}

more_accepted() {
	[ "$(accepted)" -gt "$were_accepted" ]
}

# check_refused DESCRIPTION SENDER CLAIMED WORD: refused, with WORD in the log.
check_refused() {
	local lines
	lines=$(said "$4")
	refused=$(counter B sessions_refused) were_accepted=$(accepted)
	request "$2" "$3"
	check "$1: it is refused" wait_for 20 more_refused
	is "$1: it is not let in" "$(accepted)" "$were_accepted"
	check "$1: the log says why" test "$(said "$4")" -gt "$lines"
}

were_accepted=$(accepted)
request $allowed $allowed
check "the sender's own address, which is allowed: it is let in" wait_for 20 more_accepted
check_refused "the sender's own address, which is not allowed" $other $other 'allow-list'
check_refused "not allowed, and claims an address that is" $other $allowed GID
check_refused "allowed, and claims an address that is not" $allowed $other 'GID'
check_refused "claims an address that nobody has" $allowed 10.77.0.99 'GID'
no_sessions() {
	! on -n B krdma status | grep -q '^session '
}
check "what was let in, and never completed, ends" wait_for 60 no_sessions
done_testing
