#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The interface of a READ's target refuses the response, and every acknowledgment, for a while. rxe then reports the
# READ as done, without the bytes (driver/rdma/quirks.c, unproven_reads).
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes an interface refuse packets"
need_nodes 2
need_cuts
[ "$LAB_RDMA" = rxe ] || skip_all "the kernel's TCP repeats what is refused"

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end on -n B tc filter del dev data0 egress

MODULE_RESUME=60
fresh_module
listen_on B
head -c 12000 /dev/urandom >"$dir/bytes"
export_on B scratch --size 1M
remember_leftovers
check "the bytes are there" krdma put -q "$dir/bytes" nodeB/scratch

# refuse: UDP with the opcode of a response to a READ, 13 to 16, or of an acknowledgment, 17 (InfiniBand Architecture
# Specification, Volume 1, 9.2.1).
refuse() {
	# shellcheck disable=SC2016
	on -n B sh -c 'for opcode in 13 14 15 16 17; do
			tc filter add dev data0 egress pref $opcode protocol ip u32 match ip protocol 17 0xff \
				match u8 $opcode 0xff at 28 action drop || exit
		done'
}
accept() {
	on -n B tc filter del dev data0 egress
}
has_refused() {
	# shellcheck disable=SC2016
	on -n B sh -c 'for opcode in 13 16; do tc -s filter show dev data0 egress pref $opcode; done' |
		grep -q 'dropped [1-9]'
}
has_lost() {
	[ "$(counter A channels_lost)" -gt "$lost" ]
}
# Of one packet and of three, with 8 bytes in the last one and with less.
for bytes in 4096 4 12000 8195; do
	lost=$(counter A channels_lost)
	check "$bytes bytes: responses are refused" refuse
	krdma get -q --timeout $((60 * TIME_FACTOR)) "nodeB/scratch@0+$bytes" "$dir/got" &
	reader=$!
	background_pids+=("$reader")
	check "one was" wait_for "$LIMIT" has_refused
	check "no more" accept
	check_here "the READ succeeds" wait "$reader"
	check "it has brought the bytes" cmp <(head -c "$bytes" "$dir/bytes") "$dir/got"
	check "in place of the queue pair that has failed there is another one" has_lost
done

end_sessions B
check_nothing_left "nothing is left"
done_testing
