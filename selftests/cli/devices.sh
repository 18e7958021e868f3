#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The list of devices, in the caller's network namespace and in others, with shared and with
# exclusive RDMA devices; and while a device is deleted and added.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device"

ROUNDS=${ROUNDS:-5}
dir=$(mktemp -d)
at_end rm -rf "$dir"
fresh_module

# devices COMMAND...: the names that it lists.
devices() {
	local i name json
	json=$("$@" krdma devices -j) || return
	for ((i = 0; ; i++)); do
		name=$(echo "$json" | json_at "/devices/$i/device" 2>/dev/null) || break
		[ -n "$name" ] || break
		echo "${name//\"/}"
	done | sort -u
}

is "the device is listed" "$(devices env)" "$LAB_RDMA_DEV"
is "in another network namespace, too, as devices are shared" "$(devices unshare -n)" \
	"$LAB_RDMA_DEV"

# Not while there is a namespace that has not quite ended.
shared() {
	rdma system set netns shared
}
exclusive() {
	rdma system set netns exclusive
}
if wait_for 20 exclusive; then
	at_end wait_for 20 shared
	is "a device of this namespace is listed in it" "$(devices env)" "$LAB_RDMA_DEV"
	is "and not in another one" "$(devices unshare -n)" ""
	check "devices can be shared again" wait_for 20 shared
	is "and are listed everywhere then" "$(devices unshare -n)" "$LAB_RDMA_DEV"
else
	skip "devices of a namespace" "RDMA devices can't be made exclusive"
fi

# Nobody who looks holds up a device that goes, or finds one that is gone.
at_end restore_link A
while krdma devices >/dev/null 2>"$dir/err" || [ $? = 3 ]; do
	:
done &
looks=$!
background_pids+=("$looks")
for ((i = 1; i <= ROUNDS; i++)); do
	rdma link delete "$LAB_RDMA_DEV" || not_ok "the device goes, round $i"
	is "it is not listed any more" "$(devices env)" ""
	said=$(krdma devices 2>&1)
	is "and that is not ready" $? 3
	like "for a reason" "$said" '^krdma: devices: there is no usable RDMA device .*rdma link add'
	restore_link A
	is "it is back" "$(devices env)" "$LAB_RDMA_DEV"
done
check "and who looks all the time goes on" kill -0 $looks
done_testing
