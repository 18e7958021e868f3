#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A kernel module has 100,000 transfers under way, in a session of this host with itself. The tick
# that checks all transfers, and the end of the session, which ends all of them, handle a limited
# number at a time.
#
# CROWD is the number of transfers.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file
# shellcheck source=selftests/lib/kapi.sh
. "$(dirname "$0")/../lib/kapi.sh"

LIMIT=${LIMIT:-60}

fresh_module
listen_on A
export_on A scratch --size 16M

CROWD=${CROWD:-$((TIME_FACTOR > 1 ? 10000 : 100000))}
BATCH=128 # KRDMA_TRANSFER_BATCH
tracing=/sys/kernel/tracing
check "$CROWD messages are under way, whose receiver is slow" insmod "$TEST" what=crowd \
	address="$LOCAL_V4" crowd="$CROWD" depth=8
[ ! -d $tracing/events/krdma ] || echo 1 >$tracing/events/krdma/krdma_transfer_batch/enable

# counted DESCRIPTION COMMAND...: where the kernel has tracepoints.
counted() {
	if [ -d $tracing/events/krdma ]; then
		check_here "$@"
	else
		skip "$1" "this kernel has no tracepoints"
	fi
}

# batches: how many transfers were looked at, and the most at once.
batches() {
	awk '$0 ~ / krdma_transfer_batch: / {
		for (i = 1; i <= NF; i++)
			if (split($i, word, "=") == 2 && word[1] == "looked") {
				sum += word[2]
				if (word[2] > most) most = word[2]
			}
	} END { print sum + 0, most + 0 }' $tracing/trace 2>/dev/null
}
sum=0 most=0
ticked() {
	read -r sum most < <(batches)
	[ "$sum" -gt $((CROWD / 2)) ]
}
counted "the tick looks at all of them" wait_for "$LIMIT" ticked
counted "but not at more than $BATCH at once" test "$most" = $BATCH
waited=$(result ended)
counted "nothing is counted so far" eval "echo >$tracing/trace"
check "the session goes" krdma listen --remove 0.0.0.0
told_all() {
	[ "$(result ended)" = "$CROWD" ]
}
check "each of them learns of it" wait_for "$LIMIT" told_all
read -r sum most < <(batches)
diag "$waited of $CROWD had ended before; then $sum were looked at, $most at once"
counted "they were ended in turns" test "$sum" -ge $((CROWD - waited - 1000))
counted "none of which had more than $BATCH" test "$most" -le $BATCH
like "their status says so" "$(result status)" '^-10[47]$'
check "the module goes" rmmod krdma_kapi_test
kill "$EXPORT_PID"
wait "$BACKGROUND_PID"
check_unload "krdma_mover goes after its user" "$LIMIT"
done_testing
