# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For tests with selftests/modules/krdma_kapi_test.ko, a user of the in-kernel API. TEST is its file; it is
# gone in the end.
TEST=${MODULE%/driver/*}/selftests/modules/krdma_kapi_test.ko
[ -e "$TEST" ] || {
	echo "Bail out! There is no $TEST: make samples"
	exit 1
}
unload_user() {
	[ ! -d /sys/module/krdma_kapi_test ] || rmmod krdma_kapi_test
}
at_end unload_user

# result NAME: of the test module.
result() {
	cat "/sys/module/krdma_kapi_test/parameters/$1"
}
