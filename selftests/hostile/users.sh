#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two users of one host, with the device node's group and no capabilities. Neither user can see,
# use, exhaust or delay the objects of the other. A file that is passed on, inherited or used with
# another user id belongs to the user that Documentation/uapi.rst names. users*.c is the test.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2

fresh_module
remember_leftovers
failed=0
users || failed=1
check_nothing_left "nothing is left of it on either host"
[ "$failed" = 0 ] || test_failures=$((test_failures + 1))
done_testing
