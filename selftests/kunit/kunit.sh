#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# module: none
# The KUnit suites of selftests/kunit, on this node: loading their module runs them. Needs a kernel
# with KUnit, such as that of 'selftests/tools/kernels debug', and 'make kunit' for it, but no RDMA.
# Each test case is a result, and so is each parameter of a parameterized case.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_module_file

KUNIT_MODULE=${KRDMA_KUNIT_MODULE:-$TOP/selftests/kunit/krdma_mover_kunit.ko}
name=krdma_mover_kunit
debugfs=/sys/kernel/debug/kunit

[ -d /sys/module/kunit ] || modprobe -q kunit 2>/dev/null || skip_all "this kernel has no KUnit"
[ -e "$KUNIT_MODULE" ] || skip_all "no ${KUNIT_MODULE#"$TOP/"}: make kunit"
is_for=$(modinfo -F vermagic "$KUNIT_MODULE" | cut -d ' ' -f 1)
[ "$is_for" = "$(uname -r)" ] || skip_all "the module is for Linux $is_for, this is $(uname -r)"

# What the suites have said, as KTAP.
results() {
	if [ -d $debugfs ]; then
		cat $debugfs/krdma_*/results
	else
		dmesg -t | sed "1,/^$mark\$/d"
	fi
}

# Nested KTAP as lines of a word and a text: ok, not, skip (with a tab and why),
# diag, and total (how many results the kernel has counted). A subtest is told by
# its parts, and its own result is one only where these do not account for it.
leaves() {
	awk '
	function path(depth, what,   d, text) {
		for (d = 1; d <= depth; d++)
			text = text at[d] ": "
		return text what
	}
	{
		match($0, /^ */)
		depth = int(RLENGTH / 4)
		line = substr($0, RLENGTH + 1)
	}
	line ~ /^# Subtest: / {
		open = depth
		at[depth] = substr(line, 12)
		planned[depth] = ""
		seen[depth] = failed[depth] = 0
		next
	}
	line ~ /^1\.\.[0-9]+$/ {
		planned[depth] = substr(line, 4)
		next
	}
	line ~ /^(not )?ok [0-9]+/ {
		bad = line ~ /^not/
		sub(/^(not )?ok [0-9]+ ?(- )?/, "", line)
		seen[depth]++
		failed[depth] += bad
		if (open > depth) {
			if (planned[open] != "" && planned[open] != seen[open])
				print "not " path(depth, line ": " seen[open] " results of " planned[open])
			else if (bad && !failed[open])
				print "not " path(depth, line)
			open = depth
		} else if (match(line, / *# SKIP */)) {
			print "skip " path(depth, substr(line, 1, RSTART - 1)) "\t" \
				substr(line, RSTART + RLENGTH)
		} else {
			print (bad ? "not " : "ok ") path(depth, line)
		}
		next
	}
	line ~ /^# Totals: / {
		sub(/.*total:/, "", line)
		print "total " line
		next
	}
	line !~ /^(KTAP version|# module:|# [^ ]+: pass:)/ && line !~ /marked slow/ && line != "" {
		sub(/^# /, "", line)
		print "diag " line
	}'
}

mark="kunit-test $$"
echo "$mark" >/dev/kmsg
check "the module loads, and runs its suites" insmod "$KUNIT_MODULE"
! dmesg -t | sed "1,/^$mark\$/d" | grep -q '^kunit: disabled' || {
	rmmod $name
	skip "all suites" "KUnit is switched off (kunit.enable=0)"
	done_testing
}
count=0 total=0
while read -r word rest; do
	case $word in
	ok) ok "$rest" ;;
	not) not_ok "$rest" ;;
	skip) skip "${rest%%$'\t'*}" "${rest#*$'\t'}" ;;
	diag) diag "$rest" ;;
	total) total=$((total + rest)) ;;
	esac
	[[ $word = diag || $word = total ]] || count=$((count + 1))
done < <(results | leaves)
is "these are all results that the kernel has counted" $count $total
check "and not none" test $count -gt 0
check "the module can be unloaded" rmmod $name
done_testing
