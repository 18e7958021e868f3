#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two network namespaces, each with an RDMA device: bytes go from the one to the other, each sees
# its own sessions, exports and listeners alone, and nothing is left when they end, with what is
# used there.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes network namespaces"
need_command ip
[ "$LAB_RDMA" = rxe ] || skip_all "siw connects in the initial namespace (siw_connect in a work)"
IFS=.- read -r major minor _ <<<"$(uname -r)"
[ $((major * 100 + minor)) -ge 701 ] || skip_all "rxe is in the initial namespace before Linux 7.1"
LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"

fresh_module
listen_on A
export_on A here --size 4M
remember_leftovers
# ns NAME COMMAND...: there.
ns() {
	ip netns exec "krdma-$1" "${@:2}"
}
delete() {
	[ -e "/run/netns/krdma-$1" ] || return 0
	ip netns pids "krdma-$1" | xargs -r kill
	ip netns del "krdma-$1"
}
if ! ip netns add krdma-a || ! ip netns add krdma-b; then
	skip_all "no network namespaces"
fi
at_end delete a
at_end delete b
ip link add veth-a netns krdma-a mtu 4200 type veth peer name veth-b netns krdma-b mtu 4200 ||
	skip_all "no veth in this kernel"
ns a sh -c 'ip addr add 10.80.0.1/24 dev veth-a; ip link set veth-a up'
ns b sh -c 'ip addr add 10.80.0.2/24 dev veth-b; ip link set veth-b up'
check "an RDMA device there" ns a rdma link add rxe_a type rxe netdev veth-a
check "and there" ns b rdma link add rxe_b type rxe netdev veth-b
head -c 3000000 /dev/urandom >"$dir/data"
like "a listener that would end with its command is refused" "$(ns b krdma listen 10.80.0.2 2>&1)" 'use --wait$'
ns b krdma listen --wait 10.80.0.2 2>"$dir/listens" &
background_pids+=($!)
ns b krdma export scratch --size 4M >"$dir/exports" 2>&1 &
background_pids+=($!)
# listens NAME: somebody does there.
listens() {
	ns "$1" krdma status | grep -q '^listener '
}
exported() {
	ns b krdma status | grep -q '^export .*scratch'
}
check "a listener of a namespace" wait_for "$LIMIT" listens b
check "and an export" wait_for "$LIMIT" exported
put() {
	ns a krdma put -q "$@" "$dir/data" 10.80.0.2/scratch
}
get_back() {
	ns a krdma get -q 10.80.0.2/scratch@0+3000000 - | cmp "$dir/data" -
}
check "bytes go to it from another namespace" put
check "and back" get_back
check "over the addresses that it tells" put --path auto

# sees NAME PATTERN: a line of its status. ip netns exec has no name for the initial one.
sees() {
	if [ "$1" = init ]; then krdma status; else ns "$1" krdma status; fi | grep -q "$2"
}
sees_not() {
	! sees "$@"
}
for name in init a; do
	check "$name does not see its export" sees_not "$name" scratch
	check "nor its listener" sees_not "$name" 10.80.0.2:7471.*accepted
done
check "the initial namespace has no session of theirs" sees_not init '^session'
check "nor do they see its export" sees_not b here
shown=$(ns a krdma ls 10.80.0.2)
check "a peer is shown what is there" grep -q scratch <<<"$shown"
check_fails "and nothing else" grep -q here <<<"$shown"
check_fails "nor can it open it" ns a krdma get -q 10.80.0.2/here -
check_fails "there is no way into the initial namespace" ns a krdma ls --timeout 5 "$LOCAL_V4"

# A disk is of the namespace that attaches it.
if [ -e "${MODULE%/*}/krdma_blk.ko" ]; then
	check "krdma_blk" insmod "${MODULE%/*}/krdma_blk.ko"
	at_end rmmod krdma_blk
	check_fails "a disk has no way out of the initial namespace" krdma blk attach 10.80.0.2/scratch
	device=$(ns a krdma blk attach 10.80.0.2/scratch)
	is "one that is attached there" "$device" /dev/krdmab0
	check_here "has the bytes" cmp -n 3000000 "$dir/data" "$device"
	check "detach" krdma blk detach "$device"
else
	skip "a disk of a namespace" "there is no krdma_blk.ko"
fi

# What runs there ends, and the namespaces with it.
mkfifo "$dir/in"
exec 7<>"$dir/in"
ns a krdma put -q - 10.80.0.2/scratch <&7 2>"$dir/put" &
background_pids+=($!)
check "a session is in use" wait_for "$LIMIT" sees a '^session '
delete b
delete a
gone() {
	! ip netns list | grep -q '^krdma-' && ! rdma link | grep -q 'rxe_[ab]'
}
check "both namespaces end, and their devices" wait_for "$LIMIT" gone
check_nothing_left "nothing is left" "$LIMIT"
check "the initial namespace has its export" sees init here
done_testing
