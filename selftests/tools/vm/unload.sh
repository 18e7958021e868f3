#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs after all tests: unloads the module on both nodes. The module warns of objects that
# remain, and the kmemleak scan at the end also finds objects that only its lists referred to.
# The test saves the module's symbols for run-vm, because nothing names its functions later. No
# page may be pinned or lost.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../../lib/lib.sh"

plan 3
# shellcheck disable=SC2016 # for the nodes' shells
on_nodes sh -c 'grep -F "[krdma_mover]" /proc/kallsyms | sort >/lab/out/symbols.$LAB_NODE
	[ -s /lab/out/symbols.$LAB_NODE ] || rm /lab/out/symbols.$LAB_NODE'
check "the module goes" wait_for 30 unload_module

# pages NODE PATTERN PATTERN: counters of its /proc/vmstat, those that match the first
# less those that match the second.
# shellcheck disable=SC2016 # awk's
pages() {
	on -n "$1" sh -c 'cat /proc/sys/vm/stat_refresh >/dev/null 2>&1
		awk -v plus="$1" -v minus="$2" "
			\$1 ~ plus { pages += \$2 }
			\$1 ~ minus { pages -= \$2 }
			END { print pages }" /proc/vmstat' pages "$2" "$3"
}

pinned() {
	pages "$1" '^nr_foll_pin_acquired$' '^nr_foll_pin_released$'
}

# In memory, but neither of a process nor of a file any more.
lost() {
	pages "$1" '^nr_(active|inactive|isolated)_anon$' '^nr_(anon_pages|shmem)$'
}

nothing_is_pinned() {
	local node
	for node in $(nodes); do
		[ "$(pinned "$node")" = 0 ] || return
	done
}

# Some are on their way from one list to another.
nothing_is_lost() {
	local node
	for node in $(nodes); do
		[ "$(lost "$node")" -lt 256 ] || return
	done
}

# explained DESCRIPTION COMMAND: what the nodes have, if it fails in the end.
explained() {
	local node
	wait_for 10 "$2" && ok "$1" && return
	not_ok "$1" "$(for node in $(nodes); do
		echo "node $node: $(pinned "$node") pages pinned, $(lost "$node") of nobody"
	done)"
}

explained "no page stays pinned" nothing_is_pinned
explained "no page is lost" nothing_is_lost
done_testing
