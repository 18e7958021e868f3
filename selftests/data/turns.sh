#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Processes that share a session take turns: none of many is left out, and one that has a single
# operation under way does not wait for all those of another one.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2
MODULE_TIMEOUT_SCALE=4

MANY=${MANY:-64}
COUNT=${COUNT:-20}
# What a channel has posted at a time, and twice as much again for processes that do not run.
MOST=$((3 * 256))
SUBMITTERS=$(cd "$(dirname "$0")" && pwd)/submitters
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on B
export_on B scratch --size 8M
remember_leftovers
ulimit -l unlimited

# submitters COUNT OPERATION CPU:DEPTH...: the operations of each, and the seconds, in $dir/each
submitters() {
	local count=$1 operation=$2
	shift 2
	"$SUBMITTERS" "$REMOTE_V4" scratch "$operation" 4096 "${count}x" "$@" >"$dir/each"
}

crowd=()
for ((i = 0; i < MANY; i++)); do
	crowd+=(0:8)
done
check "$MANY processes share a session" submitters "$COUNT" write "${crowd[@]}"
is "no operation of a process fails" "$(wc -l <"$dir/each")" $((MANY + 1))
is "there was one session" "$(counter A sessions_made)" 1
diag "from the least to the most: $(head -n "$MANY" "$dir/each" | sort -n | sed -n '1p;$p' | paste -s -d ' ')"

for operation in write read; do
	check "one operation at a time beside a thousand: $operation" submitters "$COUNT" $operation 0:1 0:1000
	{ read -r few && read -r others; } <"$dir/each"
	others=$((others / (few > 0 ? few : 1)))
	check "does not wait for all of them: $others for each" [ "$others" -lt "$MOST" ]
done

end_sessions B
check_nothing_left "nothing is left" 60

done_testing
