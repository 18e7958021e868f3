#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# Two users of one host, with the device node's group and no capabilities: neither can
# see, use, exhaust or delay what the other has, and a file that is passed on, inherited
# or used with another user id is whose Documentation/uapi.rst says. src/users.c does it.
# shellcheck source=selftests/tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_nodes 2

make -s -C "$TOP/selftests/tests/src" ../bin/helpers/users || {
	echo "Bail out! src/users.c does not build"
	exit 1
}
fresh_module
remember_leftovers
failed=0
"$TOP/selftests/tests/bin/helpers/users" || failed=1
check_nothing_left "nothing is left of it on either host"
[ "$failed" = 0 ] || test_failures=$((test_failures + 1))
done_testing
