# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # what is exported by set -a
# Where the tests run: on this machine, and on a second one if REMOTE names it. The lab sets all
# variables for its machines. Elsewhere they come from the environment or from
# selftests/net.config, as in tools/testing/selftests/drivers/net:
#
#   NETIF                    network device of the RDMA device (default: the first that has one)
#   REMOTE                   the second machine, such as ssh:root@HOST; TYPE:ARGS runs the script
#                            lib/remote/TYPE (or REMOTE_TYPE and REMOTE_ARGS). "self": this machine
#   LOCAL_V4, REMOTE_V4      addresses of the two machines (default: for LOCAL_V4, that of NETIF)
#   LOCAL_V6, REMOTE_V6      the same, optional
#
# Tests call the machines A and B; `on NODE COMMAND...` runs a command on one of them.

SELFTESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

env_fail() {
	echo "1..0 # SKIP $*"
	exit 4
}

# The kind of an RDMA device: rxe, siw or hw.
env_kind() {
	local class=/sys/class/infiniband/$1
	if [ -e "$class/parent" ]; then
		echo rxe
	elif [[ $(readlink -f "$class") = */virtual/* ]]; then
		echo siw
	else
		echo hw
	fi
}

if [ -z "${LAB_NODE-}" ]; then
	set -a
	# shellcheck source=/dev/null
	[ ! -e "$SELFTESTS/net.config" ] || . "$SELFTESTS/net.config"
	[ -n "${REMOTE-}" ] || [ -z "${REMOTE_TYPE-}" ] || REMOTE=$REMOTE_TYPE:${REMOTE_ARGS-}
	NETIF=${NETIF:-$(rdma link 2>/dev/null | sed -n 's/.* netdev \([^ ]*\).*/\1/p' | head -n 1)}
	[ -n "$NETIF" ] || env_fail "there is no RDMA device with a network device"
	LAB_RDMA_DEV=$(rdma link | sed -n "s|^link \([^/]*\)/.* netdev $NETIF\( .*\)*$|\1|p" | head -n 1)
	[ -n "$LAB_RDMA_DEV" ] || env_fail "there is no RDMA device on $NETIF"
	LAB_RDMA=$(env_kind "$LAB_RDMA_DEV")
	LOCAL_V4=${LOCAL_V4:-$(ip -4 -o addr show dev "$NETIF" | sed -n '1s|.* inet \([0-9.]*\)/.*|\1|p')}
	LAB_NODE=A
	case ${REMOTE-} in
	'') LAB_NODES=1 REMOTE_V4=${REMOTE_V4:-$LOCAL_V4} ;;
	self) LAB_NODES=2 LAB_ONE_KERNEL=1 REMOTE_V4=${REMOTE_V4:-$LOCAL_V4} ;;
	*)
		LAB_NODES=2
		[ -n "${REMOTE_V4-}" ] || env_fail "REMOTE_V4 has to say where $REMOTE is"
		[ -x "$SELFTESTS/lib/remote/${REMOTE%%:*}" ] || env_fail "there is no lib/remote/${REMOTE%%:*}"
		;;
	esac
	PATH=$SELFTESTS/lib/remote:$PATH
	KRDMA_HOSTS="127.0.0.1 localhost
$LOCAL_V4 nodeA
$REMOTE_V4 nodeB
${LOCAL_V6:+$LOCAL_V6 nodeA6}
${REMOTE_V6:+$REMOTE_V6 nodeB6}"
	set +a
fi
