#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# krdma doctor: each thing that is missing, here or at the peer, is named, and what to do; and other
# commands that would report what is not so: devices, listeners and exports that nobody can reach.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "deletes the RDMA device, and unloads the module"
need_nodes 2

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end restore_link B

# doctor STATUS NODE REGEX OPERAND...: it ends so, and one of its lines matches. One line for each: the
# finding, and what to do.
doctor() {
	local said status
	said=$(on -n "$2" krdma doctor "${@:4}" 2>&1)
	status=$?
	said=$(sed -z 's/\n *-> / -> /g; s/  */ /g' <<<"$said")
	[ "$status" = "$1" ] && grep -Eq "^$3" <<<"$said" && return
	echo "status $status: $said"
	return 1
}

wait_for "$LIMIT" unload_module
check "no module" doctor 3 B 'bad module krdma_mover is not loaded -> modprobe krdma_mover'
fresh_module
check "the kernel" doctor 0 B 'ok kernel Linux [67]\.'
signature='ok module krdma_mover 0.1 is loaded$'
! grep -q E /sys/module/krdma_mover/taint || signature='note module krdma_mover 0.1 is loaded, and not signed -> sign it'
check "the module, and its signature" doctor 0 B "$signature"
check "its device" doctor 0 B 'ok device /dev/krdma_mover can be opened'
check "the RDMA device" doctor 0 B "ok rdma $LAB_RDMA_DEV on data0: (roce-v2|iwarp)"
check "its address" doctor 0 B 'ok address a usable device has an IP address'
check "memory that may be locked" doctor 0 B 'ok memlock memory may be locked without limit'
check "no listener, and no need of it" doctor 0 B 'note listener there is no listener'
if [ "$LAB_RDMA" = rxe ]; then
	check "the MTU" doctor 0 B 'ok mtu data0 has MTU 4200'
	check "priority flow control" doctor 0 B 'note pfc data0: priority flow control can.t be read'
	on -n B ip link set data0 mtu 1500
	check "an MTU that is small" doctor 0 B 'note mtu data0 has MTU 1500: .* -> ip link set data0 mtu 4200'
	on -n B ip link set data0 mtu 4200
else
	skip "the MTU, priority flow control" "not on iWARP"
fi

export_on B scratch --size 1M
like "an export that nobody can reach says so" "$(cat "$BACKGROUND_LOG")" 'no peer can reach it yet: this host has no listener'
check "and so does doctor" doctor 3 B 'bad listener nobody can reach the 1 exports of this host'
# What says so is a MAD, which rxe may lose.
check "the peer has no listener" doctor 4 A \
	'bad connect .*(nobody listens there -> at the peer: krdma listen|in time -> at the peer: krdma doctor)' nodeB
listen_on B
check "a listener of all" doctor 0 B \
	'note listener 0.0.0.0:7471 admits every host -> krdma listen --replace ADDRESS --allow PREFIX'
for line in 'ok name nodeB has ' 'ok route to 10.77.0.2 from 10.77.0.1' 'ok connect the peer admits this host' \
	'ok hello its module replies in ' 'ok exports the peer publishes 1' "ok data a READ of 'scratch' came back"; do
	check "the peer: $line" doctor 0 A "$line" nodeB
done
check "a name that means nothing" doctor 4 A 'bad name .* -> /etc/hosts' nosuch.invalid
check "a route that is no RDMA device's" doctor 4 A \
	'note route the route to 10.78.0.2 begins at 10.78.0.1, which no RDMA device has' 10.78.0.2
check "what it says to do" on -n B krdma listen --replace 0.0.0.0 --allow 192.0.2.0/24
check "a listener of some" doctor 0 B 'ok listener 0.0.0.0:7471 admits 1 prefixes'
check "the peer does not admit this host" doctor 4 A \
	'bad connect .* -> at the peer: krdma listen shows .*prefixes' --timeout 60 nodeB
is "in JSON" "$(krdma doctor -j nosuch.invalid | json_at /schema)" 1
on -n B krdma listen --close 0.0.0.0
check "a listener that is closed" doctor 0 B \
	'note listener 0.0.0.0:7471 is closed.* -> krdma listen --replace ADDRESS --allow PREFIX'
check "which is opened as it says" on -n B krdma listen --replace 0.0.0.0
check "it is open" doctor 0 A 'ok connect the peer admits this host' nodeB

# A packet filter, as nft(8) would print it.
on B sh -c 'mkdir -p /run/doctor && cat >/run/doctor/nft && chmod +x /run/doctor/nft' <<'END'
#!/bin/sh
cat /run/doctor/rules
END
at_end on -n B rm -rf /run/doctor
filtered() {
	local rules=$1 said
	shift
	on B sh -c 'cat >/run/doctor/rules' <<<"$rules"
	# shellcheck disable=SC2016 # for the node's shell
	said=$(on -n B sh -c 'PATH=/run/doctor:$PATH krdma doctor' | sed -z 's/\n *-> / -> /g; s/  */ /g')
	grep -Eq "$1" <<<"$said"
}
chain='	chain input {
		type filter hook input priority filter; policy drop;'
check "a packet filter in the way" filtered "$chain" '^note firewall what comes in is dropped.* -> if peers'
rules='
		udp dport 4791 accept
		tcp dport 7471 accept'
check "one with a rule" filtered "$chain$rules" '^ok firewall rules accept the ports'
check "one with a rule that drops" filtered "$chain${rules//accept/drop}" '^note firewall what comes in is dropped'
check "one with a rule for what goes out" filtered "$chain
	}
	chain output {
		type filter hook output priority filter; policy accept;$rules" '^note firewall what comes in is dropped'
check "one that rejects some" filtered "${chain/policy drop/policy accept}
		reject with icmpx admin-prohibited" '^note firewall some packets are dropped or rejected'
check "one that drops nothing" filtered "${chain/policy drop/policy accept}" '^ok firewall no rule drops'

chmod 666 /dev/krdma_mover
said=$(setpriv --reuid 4711 --regid 4711 --clear-groups sh -c 'ulimit -l 64 && krdma doctor' | sed -z 's/\n *-> / -> /g; s/  */ /g')
like "too little memory may be locked" "$said" 'bad memlock RLIMIT_MEMLOCK is 64.0 KiB, a segment has '
said=$(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock sh -c 'ulimit -l 64 && krdma doctor' | sed -z 's/\n *-> / -> /g; s/  */ /g')
like "even by root" "$said" 'bad memlock RLIMIT_MEMLOCK is 64.0 KiB, a segment has '
chmod 600 /dev/krdma_mover
said=$(setpriv --reuid 4711 --regid 4711 --clear-groups krdma doctor | sed -z 's/\n *-> / -> /g; s/  */ /g')
like "a device that is not the user's" "$said" 'bad device .*Permission denied -> become a member of the group krdma'

slice=/sys/fs/cgroup/doctor
if grep -qs memory /sys/fs/cgroup/cgroup.controllers; then
	at_end rmdir $slice/inner $slice
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p $slice/inner
	echo 1G >$slice/memory.max
	said=$(echo "$BASHPID" >$slice/inner/cgroup.procs && krdma doctor | sed 's/  */ /g')
	like "memory that a slice above limits" "$said" 'note cgroup this cgroup has 1.0 GiB of memory'
else
	skip "memory that a slice above limits" "there is no cgroup with memory"
fi

on -n B rdma link del "$LAB_RDMA_DEV"
check "no RDMA device" doctor 3 B 'bad rdma there is no RDMA device .* -> '
check "a listener without one waits" doctor 3 B 'bad listener 0.0.0.0:7471 waits for an RDMA device'
is "and says so" "$(on -n B krdma listen | awk 'NR == 2 { print $2 }')" waiting
restore_link B
is "with one it is up" "$(on -n B krdma listen | awk 'NR == 2 { print $2 }')" up
done_testing
