# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Runs one test within its time limit, for run_kselftest.sh and for the lab. Needs lib.sh for
# load_module.

# test_limit FOLDER/TEST: in seconds: "timeout" of the folder's settings, or "timeout_TEST",
# times TEST_FACTOR or TIME_FACTOR.
test_limit() {
	local name=${1##*/} timeout=${TEST_TIMEOUT:-300}
	name=timeout_${name%.sh}
	local settings=$SELFTESTS/${1%/*}/settings field value
	if [ -e "$settings" ]; then
		while IFS='=' read -r field value; do
			case $field in
			timeout) timeout=${TEST_TIMEOUT:-$value} ;;
			"${name//-/_}") timeout=$value && break ;;
			esac
		done <"$settings"
	fi
	echo $((timeout * ${TEST_FACTOR:-${TIME_FACTOR:-1}}))
}

# run_test FOLDER/TEST: its output is ours, its status is returned; 124 if it did not end.
# Programs expect the module; scripts load it as they like.
run_test() {
	local limit status pid began=$SECONDS
	limit=$(test_limit "$1")
	case $1 in
	*.sh) ;;
	*) (trap - EXIT && load_module) || return ;;
	esac
	# setsid: what a test leaves behind can be found, and ended, by its session.
	(cd "$SELFTESTS/${1%/*}" && exec setsid timeout -k 10 "$limit" "./${1##*/}") </dev/null 2>&1 &
	pid=$!
	wait "$pid"
	status=$?
	pkill -TERM -s "$pid" 2>/dev/null && sleep 0.2 && pkill -KILL -s "$pid" 2>/dev/null
	[ $((SECONDS - began)) -lt "$limit" ] || echo "# no end after $limit s: killed"
	return $status
}
