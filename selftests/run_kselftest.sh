#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run the tests on this machine, and on a second one that REMOTE names (lib/env.sh; net.config).
# The module has to be loaded, and there has to be an RDMA device. Needs root.
# Prints KTAP.
#
# usage: run_kselftest.sh [-l] [-c FOLDER]... [-t FOLDER:TEST]...
# -l lists the tests; -c: those of a folder, -t: this one; default: all.
# KRDMA_MODULE is the module's file. Without it the tests that load or unload the module skip.
set -u

here=$(dirname "$(readlink -f "$0")")
folders=() chosen=() list=
while getopts c:t:lh option; do
	case $option in
	c) folders+=("$OPTARG") ;;
	t) chosen+=("${OPTARG/:/\/}") ;;
	l) list=1 ;;
	*)
		sed -n '3,9s/^# \{0,1\}//p' "$0"
		[ "$option" = h ] && exit 0 || exit 2
		;;
	esac
done

# Installed tests come with their list; a tree has Makefiles.
all_tests() {
	if [ -e "$here/kselftest-list.txt" ]; then
		tr : / <"$here/kselftest-list.txt"
	else
		make -s -C "$here" list
	fi
}

if [ ${#folders[@]} != 0 ] || [ ${#chosen[@]} = 0 ]; then
	while read -r test; do
		[ ${#folders[@]} != 0 ] && [[ " ${folders[*]} " != *" ${test%/*} "* ]] || chosen+=("$test")
	done < <(all_tests)
fi
if [ -n "$list" ]; then
	printf '%s\n' "${chosen[@]}" | tr / :
	exit
fi

echo "TAP version 13"
[ "$(id -u)" = 0 ] || {
	echo "1..0 # SKIP needs root"
	exit 4
}
# shellcheck source=selftests/lib/env.sh
. "$here/lib/env.sh"
if [ -n "${KRDMA_HOSTS-}" ] && [ -z "${KRDMA_NAMESPACE-}" ]; then
	# The names of the two, for these tests alone.
	hosts=$(mktemp)
	echo "$KRDMA_HOSTS" >"$hosts"
	# shellcheck disable=SC2016 # for that shell
	KRDMA_NAMESPACE=1 unshare -m --propagation private sh -c \
		'mount --bind "$0" /etc/hosts && exec "$@"' "$hosts" "$0" "$@" | sed -u 1d
	status=${PIPESTATUS[0]}
	rm -f "$hosts"
	exit "$status"
fi
case ${KRDMA_DEPLOYED-}${REMOTE-} in
ssh:*)
	"$here/lib/remote/ssh" "${REMOTE#*:}" --deploy || {
		echo "Bail out! the tests can't be copied to ${REMOTE#*:}"
		exit 1
	}
	;;
esac
# shellcheck source=selftests/lib/lib.sh
. "$here/lib/lib.sh"
trap - EXIT
# shellcheck source=selftests/lib/runner.sh
. "$here/lib/runner.sh"

echo "1..${#chosen[@]}"
number=0 failed=0
for test in "${chosen[@]}"; do
	number=$((number + 1))
	name="selftests: ${test%/*}: ${test##*/}"
	echo "# $name"
	run_test "$test" | sed -u 's/^/# /'
	status=${PIPESTATUS[0]}
	case $status in
	0) echo "ok $number $name" ;;
	4) echo "ok $number $name # SKIP" ;;
	124 | 137) echo "not ok $number $name # TIMEOUT $(test_limit "$test") seconds" ;;
	*) echo "not ok $number $name # exit=$status" ;;
	esac
	[ "$status" = 0 ] || [ "$status" = 4 ] || failed=$((failed + 1))
done
[ "$failed" = 0 ]
