#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What `make install` puts into a folder is all that another module is built with, and `make uninstall` removes
# it. DKMS leaves the headers and Module.symvers of a clone. It needs the module of this tree.
set -u

top=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
module=$top/driver/krdma_mover.ko
release=$(PATH=$PATH:/sbin modinfo -F vermagic "$module" 2>/dev/null | cut -d ' ' -f 1)
build=/lib/modules/$release/build
if [ -z "$release" ] || [ ! -e "$build" ]; then
	echo "1..0 # SKIP there is no module, or no headers of its kernel"
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
shared=$root/usr/share/krdma_mover

# Without the variables of the make that has called this.
at_top() {
	env -u MAKEFLAGS -u MFLAGS make -s -C "$top" "$1" DESTDIR="$root" PREFIX=/usr KVER="$release" KDIR="$build"
}
consumer() {
	mkdir "$work/consumer" && cp "$top/samples/krdma_sample.c" "$work/consumer" &&
		printf 'obj-m := krdma_sample.o\nccflags-y := -I%s/include -I%s\n' "$shared" "$shared" >"$work/consumer/Kbuild" &&
		make -s -C "$build" M="$work/consumer" KBUILD_EXTRA_SYMBOLS="$shared/$release/Module.symvers" modules
}
modules() {
	[ "$(find "$root/lib/modules/$release" -name 'krdma_*.ko*' | wc -l)" = 2 ]
}
# An administrator's files stay, and what depmod makes where there is a System.map.
nothing_left() {
	! find "$root" -path "$root/etc" -prune -o ! -type d ! -name 'modules.*' -print | grep .
}

# DKMS runs the script in a copy of the tree, beside a link to the tree.
linked=$work/usr/src/krdma_mover
at_dkms() {
	sh "$work/dkms/build/dkms-symvers" "$@"
}
dkms_keeps() {
	mkdir -p "$work/dkms/build" && ln -s "$top" "$work/dkms/source" && cp "$top/Module.symvers" "$work/dkms/build" &&
		sed "s|/usr/src|$work/usr/src|" "$top/dkms-symvers" >"$work/dkms/build/dkms-symvers" &&
		at_dkms keep "$release" && at_dkms keep another
}
has_shared() {
	[ -s "$linked/$release/Module.symvers" ] && [ -e "$linked/include/linux/krdma_mover.h" ] &&
		[ -e "$linked/uapi/linux/krdma_mover.h" ]
}
dkms_drops() {
	at_dkms drop another && has_shared && at_dkms drop "$release" && [ ! -e "$linked" ] && [ -e "$top/include" ]
}

number=0 failed=0
# check DESCRIPTION COMMAND...
check() {
	local said
	number=$((number + 1))
	if said=$("${@:2}" 2>&1); then
		echo "ok $number - $1"
	else
		failed=1
		echo "not ok $number - $1"
		tail -n 20 <<<"$said" | sed 's/^/# /'
	fi
}
check "make install" at_top install
check "has both modules" modules
check "another module builds with it" consumer
check "make uninstall" at_top uninstall
check "leaves nothing" nothing_left
check "DKMS keeps Module.symvers of two kernels" dkms_keeps
check "beside the headers" has_shared
check "both go with the last kernel" dkms_drops
echo "1..$number"
exit $failed
