#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The deadline of a kernel module's WRITE passes while its connection is lost. It ends when nothing of it
# can arrive at the peer any more, as its memory there may be written again then; unless it is
# cancelled, or the session ends.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "cuts the wire"
need_nodes 2
need_cuts
# shellcheck source=selftests/lib/kapi.sh
. "$(dirname "$0")/../lib/kapi.sh"
MODULE_TIMEOUT_SCALE=1
MODULE_RESUME=600

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
moves() {
	[ "$(result ended)" -gt 20 ]
}
# late: its only WRITE waits for the fence, behind its deadline.
late() {
	krdma status --transfers -j >"$dir/transfers"
	[ "$(json_at /transfers/0/waits_for <"$dir/transfers")" = fence ] &&
		[ "$(json_at /transfers/0/age_ms <"$dir/transfers")" -gt $((2 * DEADLINE)) ]
}
ended() {
	[ "$(result status)" != 0 ]
}
# begin: one WRITE after another, until the wire is cut.
begin() {
	insmod "$TEST" what=loop depth=1 timeout_ms="$DEADLINE" && wait_for "$LIMIT" moves &&
		cut_wire data0 && wait_for "$LIMIT" late && [ "$(result status)" = 0 ]
}
end() {
	mend_wire data0 && rmmod krdma_kapi_test
}

DEADLINE=2000
keep_neighbours data0 "$LOCAL_V4" "$REMOTE_V4" || not_ok "the nodes know each other"
fresh_module
listen_on B
export_on B scratch --size 1M
remember_leftovers

check_here "a WRITE that has missed its deadline waits for its fence" begin
mend_wire data0
check "it ends when the peer is back" wait_for "$LIMIT" ended
is "with its deadline: nothing of it arrives any more" "$(result status)" -110
check "the module goes" rmmod krdma_kapi_test

check_here "another one waits" begin
check "it is cancelled" sh -c 'echo 1 >/sys/module/krdma_kapi_test/parameters/cancel'
check "it ends at once" wait_for "$LIMIT" ended
is "the peer may have it, or not" "$(result status)" -104
check_here "the module goes" end

check_here "a third one waits" begin
check_fails "the session ends" krdma disconnect --timeout 0.5 nodeB
check "so does the WRITE" wait_for "$LIMIT" ended
is "the peer may have that as well" "$(result status)" -104
check_here "the module goes" end

end_sessions B
check_nothing_left "nothing is left" "$LIMIT"
done_testing
