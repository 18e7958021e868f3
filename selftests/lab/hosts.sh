#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# module: none
# The runner of the tests on two real machines, selftests/tools/run-hosts, with the two of the lab: node A
# reaches node B by ssh, as an owner of adapters would. Ten minutes and more, for ssh is slow on emulated
# processors, so that it is not among the tests of this folder:
#
#	selftests/tools/vm/lab run -k 6.1 --timeout 3600 selftests/lab/hosts.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "it makes keys and a server of ssh"
need_nodes 2
need_command dropbear
need_command ssh
need_module_file

dir=$(mktemp -d)
at_end rm -rf "$dir"
remote=/tmp/krdma-selftests

# The machines' files are in their memory.
mkdir -p /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
printf '%s\n' "Host host" "HostName $REMOTE_V4" "User root" "IdentityFile $dir/key" "StrictHostKeyChecking no" \
	"UserKnownHostsFile /dev/null" "LogLevel ERROR" >/root/.ssh/config
chmod 600 /root/.ssh/config
on B sh -c 'mkdir -p -m 700 /root/.ssh && chmod 700 /root /root/.ssh && cat >/root/.ssh/authorized_keys' <"$dir/key.pub"
on -n B dropbearkey -t ed25519 -f /run/host-key >/dev/null 2>&1
background B dropbear -F -E -r /run/host-key -p "$REMOTE_V4:22"
check "ssh works" wait_for 60 ssh -o BatchMode=yes host true

# hosts TEST...: without a terminal, and without what the lab tells of itself.
hosts() {
	env -u LOCAL_V4 -u REMOTE_V4 -u LOCAL_V6 -u REMOTE_V6 \
		"$SELFTESTS/tools/run-hosts" ssh:host "$@" >"$dir/out" 2>"$dir/err" </dev/null
}
shown() {
	hosts "$@" && return
	tail -n 60 "$dir/out" "$dir/err"
	return 1
}
neither_has_it() {
	! module_is_loaded A && ! module_is_loaded B
}

# ------------------------------------------------------------ without a krdma_mover

unload_module
check "tests run on the two" shown message_cli netem
like "their results are counted" "$(tail -n 1 "$dir/out")" '^1 passed, 0 failed, 1 skipped$'
check "what needs the lab says why it is skipped" grep -q '^# skipped: .*netem.*: needs the lab: ' "$dir/out"
check "the module is loaded on neither in the end" neither_has_it
check_fails "and the tests are not left there" on -n B test -e $remote
check_fails "a test that there is not" hosts no-such-test
like "is named" "$(<"$dir/err")" "there is no test 'no-such-test'"

# ------------------------------------------------------------ the report

echo "the results" >"$dir/tests.tap"
load_module
listen_on B
check "a report is collected" "$SELFTESTS/tools/report" --peer ssh:host --doctor nodeB --out "$dir/report.tar.gz" "$dir/tests.tap"
is "of both machines, with the results" "$(tar -tzf "$dir/report.tar.gz" | grep -v '/$' | sort)" "$(printf 'krdma-report/%s\n' \
	node-{A,B}/{adapters.txt,devices.json,doctor.txt,log.txt,rdma.txt,system.txt,version.json} \
	node-A/doctor-peer.txt results/tests.tap | sort)"
mkdir "$dir/report" && tar -C "$dir/report" -xzf "$dir/report.tar.gz"
check "with the adapter" grep -q "^device $LAB_RDMA_DEV" "$dir/report/krdma-report/node-B/adapters.txt"
check "with what doctor says of the way to the peer" grep -q '^ok *hello' "$dir/report/krdma-report/node-A/doctor-peer.txt"
mac=$(cat /sys/class/net/data0/address)
check_fails "without names and addresses" grep -rEi "node[AB]\b|10\.77\.|fd77:|$mac|$(cat "/sys/class/infiniband/$LAB_RDMA_DEV/node_guid")" \
	"$dir/report/krdma-report/node-A/" --include='*.json' --include='*.txt'
unload_module

# ------------------------------------------------------------ with one

load_module A
check_fails "with the module on one of the two nothing is run" hosts message_cli
like "which says so" "$(<"$dir/err")" "krdma_mover is loaded on node A only"
load_module B
on -n B krdma listen 10.77.0.2 --allow 10.77.0.0/24 --allow 192.0.2.0/24
before=$(on -n B krdma show --config)
mode=$(stat -c %a /dev/krdma_mover)
export_on B mine --size 1M
check_fails "what is in use is not ended unasked" hosts message_cli
like "and is named" "$(<"$dir/err")" "node B: export mine"
check "it is still there" kill -0 "$BACKGROUND_PID"
# shellcheck disable=SC2016 # for that shell
check "with KRDMA_TESTS_MAY_END tests run" env KRDMA_TESTS_MAY_END=1 bash -c '
	env -u LOCAL_V4 -u REMOTE_V4 -u LOCAL_V6 -u REMOTE_V6 "$0" ssh:host bye' \
	"$SELFTESTS/tools/run-hosts"
kill "$BACKGROUND_PID"
wait "$BACKGROUND_PID"
is "listeners are as they were, with their allow-lists" "$(on -n B krdma show --config)" "$before"
is "so is the mode of the device" "$(stat -c %a /dev/krdma_mover)" "$mode"
check "the module stays loaded" on_nodes test -d /sys/module/krdma_mover
unload_module
done_testing
