#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The packages of 'make deb' under systemd: installed, a configuration that is applied, reloaded and
# wrong, an export that is killed, a user of the group, stopped, purged. systemd is process 1 of a PID
# namespace in node A, and has the machine's kernel, network and devices.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "installs packages, and runs systemd"
need_nodes 2
need_command dpkg
need_command systemctl
debs=$TOP/build/deb
[ -e "$debs" ] || skip_all "there are no packages: run \"make deb\""
[ -x /lib/systemd/systemd ] || skip_all "there is no systemd"

LIMIT=${LIMIT:-120}
fresh_module
remember_leftovers
unload_module
# For modprobe. What they need is loaded.
modules=$(mktemp -d)
at_end rm -rf "$modules"
cp "$MODULE" "${MODULE%/*}/krdma_blk.ko" "$modules"
mount --bind "$modules" "/lib/modules/$(uname -r)"
at_end umount "/lib/modules/$(uname -r)"
depmod 2>/dev/null || not_ok "depmod"
on -n B insmod "$MODULE"
listen_on B

# Or each change of the packages reads all manual pages of the machine.
rm -f /var/lib/man-db/auto-update
check "the packages can be installed" dpkg -i "$debs"/libkrdma1_*.deb "$debs"/krdma-tools_*.deb
hash -r
check "krdma.service is enabled" systemctl -q is-enabled krdma.service
at_end dpkg --purge krdma-tools libkrdma1
at_end rm -rf /etc/krdma
mkdir -p /etc/krdma

# systemd empties /tmp, where these tests may be. A container's policy is not to start or stop services.
# shellcheck disable=SC2016 # for that shell
begin='mount -t proc proc /proc
	mount -t tmpfs -o mode=755 tmpfs /run
	mount --bind "$1" /opt
	mount -t tmpfs -o mode=1777 tmpfs /tmp
	[ ! -e /usr/sbin/policy-rc.d ] || mount --bind /dev/null /usr/sbin/policy-rc.d
	exec env -i container=lab /lib/systemd/systemd --system --unit=basic.target'
unshare --pid --mount --cgroup --fork --kill-child sh -ec "$begin" sh "$debs" >/dev/null 2>&1 &
outer=$!
background_pids+=("$outer")
inside() {
	nsenter -t "$(pgrep -P $outer)" -m -p -C -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
check "systemd starts" wait_for "$LIMIT" inside systemctl -q is-active basic.target
# shellcheck disable=SC2016 # for that shell
inside sh -c 'mkdir -p "$0" && printf "[Service]\nRestartSec=1\n" >"$0/soon.conf"' \
	/run/systemd/system/krdma-disks.service.d

mine() {
	cat >/etc/krdma/krdma.conf
}
three_mib() {
	mine <<-END
		[listen 0.0.0.0]
		[export scratch]
		size = 3M
		[connect nodeB]
	END
}
# tried TIMES: krdma-disks was started so often.
tried() {
	[ "$(inside systemctl show --property=NRestarts --value krdma-disks)" -ge "$1" ]
}
is_active() {
	inside systemctl -q is-active "$1"
}
# size_is NAME SIZE: as the peer sees it.
size_is() {
	on -n B krdma ls nodeA | grep -q "^$1 *$2 "
}
main_pid() {
	inside systemctl show --property=MainPID --value "krdma-export@$1"
}

mine <<END
[module]
resume = 45
[listen 0.0.0.0]
[export scratch]
size = 1M
[connect nodeB]
END
check "krdma.service starts" inside systemctl start krdma
check "it has loaded the modules" test -e /sys/module/krdma_blk
is "the parameter is set" "$(cat /sys/module/krdma_mover/parameters/resume)" 45
check "the export is held" is_active krdma-export@scratch
check "and the session" is_active krdma-connect@nodeB
check "the peer has the export" size_is scratch '1.0 MiB'
check "and writes to it" on -n B krdma put -q /etc/hostname nodeA/scratch
like "show has them all" "$(inside krdma show --config)" '\[listen 0.0.0.0:7471\]
.*\[export scratch\]
size = 1M
.*\[connect nodeB\]'

# A share, which another process of the machine has beside systemd's /tmp and /run.
mkdir -p /var/krdma-share
at_end rm -rf /var/krdma-share
echo here >/var/krdma-share/file
# share [OPTION] [DIRECTORY]
share() {
	mine <<-END
		[listen 0.0.0.0]
		[export scratch]
		size = 1M
		[share files]
		directory = ${2:-/var/krdma-share}
		${1-}
		[connect nodeB]
	END
}
copied() {
	on -n B sh -c 'krdma cp -q nodeA/files:file /run/copy && grep -qx here /run/copy'
}
refused() {
	on -n B krdma cp -q /run/copy nodeA/files:new 2>&1 | grep -q 'the share is read-only'
}
share
check "a share" inside systemctl reload krdma
check "is held by its unit" wait_for "$LIMIT" copied
check "which is active" is_active krdma-share@files
check "a peer copies to it" on -n B krdma cp -q /run/copy nodeA/files:more
is "and the file is there" "$(cat /var/krdma-share/more)" here
shown=$(inside krdma show --config)
like "show has it" "$shown" '\[share files\]
directory = /var/krdma-share'
is "and not as a program's export" "$(grep -c "publishes 'files" <<<"$shown")" 0
# invocation UNIT: when no job of it is under way, which run of it this is.
no_job() {
	[ -z "$(inside systemctl show --property=Job --value "$1")" ]
}
invocation() {
	wait_for "$LIMIT" no_job "$1"
	inside systemctl show --property=InvocationID --value "$1"
}
run=$(invocation krdma-share@files)
session_run=$(invocation krdma-connect@nodeB)
inside systemctl reload krdma
# What a reload does not wait for is a job when it has ended.
is "a reload leaves it" "$(invocation krdma-share@files)" "${run:-none}"
is "and the session" "$(invocation krdma-connect@nodeB)" "${session_run:-none}"
like "it may write to the directory alone" \
	"$(inside systemctl show --property=ProtectSystem,ReadWritePaths krdma-share@files)" \
	'ReadWritePaths=-/var/krdma-share
.*ProtectSystem=strict|ProtectSystem=strict
.*ReadWritePaths=-/var/krdma-share'
share 'read-only = yes'
check "one with another option" inside systemctl reload krdma
check "changes it" wait_for "$LIMIT" refused

# A directory on a file system that nothing has mounted yet.
mkdir -p /var/krdma-late
at_end rm -rf /var/krdma-late
unit='/run/systemd/system/var-krdma\x2dlate.mount'
# shellcheck disable=SC2016 # for that shell
inside sh -c 'printf "%s\n" "$@" >"$0" && systemctl daemon-reload' "$unit" \
	'[Mount]' 'What=tmpfs' 'Where=/var/krdma-late' 'Type=tmpfs'
share '' /var/krdma-late
check "a share of a file system that is not mounted" inside systemctl reload krdma
written() {
	on -n B krdma cp -q /run/copy nodeA/files:file && inside test -e /var/krdma-late/file
}
check "is written to" wait_for "$LIMIT" written
check "when that is mounted" inside mountpoint -q /var/krdma-late
is "and not the directory beneath" "$(ls -A /var/krdma-late)" ""

mine <<END
[listen 0.0.0.0]
[export scratch]
size = 1M
[export files]
size = 2M
[connect nodeB]
END
check "a share becomes an export" inside systemctl reload krdma
check "which has its name" size_is files '2.0 MiB'
check_fails "and its unit ends" is_active krdma-share@files
share
check "and back" inside systemctl reload krdma
check "it is a share again" wait_for "$LIMIT" copied

pid=$(main_pid scratch)
session=$(status B /sessions/0/session)
mine <<END
[listen 0.0.0.0]
[export scratch]
size = 1M
[export a+b]
size = 2M
atomic
[connect nodeB]
END
check "a reload" inside systemctl reload krdma
check "makes what is new" size_is a+b '2.0 MiB'
is "and leaves the rest" "$(main_pid scratch)" "$pid"
three_mib
check "another one" inside systemctl reload krdma
check "changes what is not the same" size_is scratch '3.0 MiB'
is "an export that is to be larger has grown" "$(main_pid scratch)" "$pid"
# shellcheck disable=SC2016 # for that shell
check "with what is in it" on -n B sh -c 'krdma get -q nodeA/scratch - | cmp -n "$(stat -c %s /etc/hostname)" - /etc/hostname'
like "show has its size" "$(inside krdma show --config)" '\[export scratch\]
size = 3145728'
check_fails "and ends what is not there" is_active 'krdma-export@a\x2bb'
check_fails "shares, too" is_active krdma-share@files
check "the session is the same" test "${session:-none}" = "$(status B /sessions/0/session)"
pid=$(main_pid scratch)
mine <<END
[listen 0.0.0.0]
[connect nodeB]
[export scratch]
size = 3072K
END
check "the same in other words" inside systemctl reload krdma
is "changes nothing" "$(main_pid scratch)" "$pid"
mine <<END
[listen 0.0.0.0]
[connect nodeB]
[export scratch]
size = 1M
END
check "a smaller one" inside systemctl reload krdma
check "is made anew" test "$(main_pid scratch)" != "$pid"
pid=$(main_pid scratch)
# A disk of a host that is away is tried again, and nothing else is begun anew for it.
mine <<END
[listen 0.0.0.0]
[connect nodeB]
[export scratch]
size = 3M
[disk 10.77.0.99/volume]
END
inside systemctl reload krdma
check "a disk of a host that is away is tried" wait_for "$LIMIT" tried 1
check "and again" wait_for "$LIMIT" tried 3
is "the export is the same" "$(main_pid scratch)" "$pid"
check "krdma.service goes on" is_active krdma
inside systemctl stop krdma-disks
check "an update of the packages" inside sh -c "dpkg -i /opt/libkrdma1_*.deb /opt/krdma-tools_*.deb"
is "ends nothing" "$(main_pid scratch)" "$pid"
mine <<END
[export scratch]
size = 3Q
END
check_fails "one with a wrong line fails" inside systemctl reload krdma
check "and changes nothing" size_is scratch '3.0 MiB'
three_mib

pid=$(main_pid scratch)
inside kill -KILL "$pid"
is_another() {
	[ "$(main_pid scratch)" != "$pid" ] && size_is scratch '3.0 MiB'
}
check "an export that was killed is made anew" wait_for "$LIMIT" is_another

# An update of the module, which is in use: here any other module has its name.
cp "$modules/krdma_blk.ko" "$modules/krdma_mover.ko"
said=$(sed '/^#DEBHELPER#/d' "$TOP/debian/krdma-mover-dkms.postinst" | sh -s configure 2>&1)
like "an update says what is in use" "$said" "version 0.1 stays loaded until"
like "by whom" "$said" "used by process [0-9]+, krdma export --size 3M -- scratch"
like "and by the other module" "$said" "used by the module krdma_blk"
like "and with which objects" "$said" "exports: [1-9]"
cp "$MODULE" "$modules"
is "an update that changes nothing says nothing" \
	"$(sed '/^#DEBHELPER#/d' "$TOP/debian/krdma-mover-dkms.postinst" | sh -s configure 2>&1)" ""

inside udevadm trigger --name-match=krdma_mover
belongs() {
	[ "$(stat -c '%G %a' /dev/krdma_mover)" = 'krdma 660' ]
}
check "the device belongs to the group" wait_for "$LIMIT" belongs
check "whose members may use it" setpriv --reuid 4711 --regid 4711 --groups "$(getent group krdma | cut -d : -f 3)" \
	/usr/bin/krdma ls nodeB
check_fails "others may not" setpriv --reuid 4711 --regid 4711 --clear-groups /usr/bin/krdma ls nodeB

useradd --no-create-home --groups krdma krdma-tester
at_end userdel krdma-tester
is "a login of one may lock memory" "$(su -s /bin/sh -c 'ulimit -l' krdma-tester)" 4194304

inside systemctl start krdma-metrics.socket
scraped() {
	exec 9<>/dev/tcp/127.0.0.1/9471 && printf 'GET /metrics HTTP/1.1\r\n\r\n' >&9 &&
		timeout $((20 * TIME_FACTOR)) cat <&9 && exec 9>&-
}
said=$(scraped)
like "Prometheus gets a page" "$said" '^HTTP/1.1 200 OK'
like "with the exports" "$said" 'krdma_export_length_bytes.name="scratch". 3145728'
like "as a whole" "$said" '# EOF$'
inside systemctl stop krdma-metrics.socket
# A disk, by its unit; in use, it keeps the packages.
export_on B volume --size 8M
volume=$EXPORT_PID
mine <<END
[listen 0.0.0.0]
[export scratch]
size = 3M
[connect nodeB]
[disk nodeB/volume]
block-size = 4096
END
inside systemctl reload krdma
check "a disk is attached" wait_for "$LIMIT" test -b /dev/krdmab0
is "as its section says" "$(blockdev --getss /dev/krdmab0)" 4096
# By the UUID of what is on it, as fstab has it.
uuid=a3f8a3a0-6a3e-4b5e-9a51-2f5f4f0c7a11
linked() {
	[ -b /dev/disk/by-uuid/"$uuid" ] && [ "$(readlink -f /dev/disk/by-uuid/"$uuid")" = /dev/krdmab0 ]
}
unlinked() {
	[ ! -L /dev/disk/by-uuid/"$uuid" ]
}
check "a file system" mkfs.ext4 -q -U $uuid /dev/krdmab0
check "udev sees it" wait_for "$LIMIT" linked
inside systemctl stop krdma-disks
inside udevadm settle
check "detach" krdma blk detach krdmab0
check "the disk's link goes" wait_for "$LIMIT" unlinked
inside systemctl reload krdma
check "it is there with the disk" wait_for "$LIMIT" linked
inside udevadm settle
exec 8</dev/krdmab0
said=$(inside dpkg --remove krdma-tools 2>&1)
check_fails "while it is in use the packages are not removed" test $? = 0
like "dpkg shows which disk" "$said" '/dev/krdmab0 of this host is in use'
check "krdma.service goes on" is_active krdma
check "and so does the disk" dd if=/dev/krdmab0 of=/dev/null bs=4k count=1 iflag=direct
exec 8<&-
inside udevadm settle
check "it is detached" krdma blk detach krdmab0
on -n B kill "$volume"
three_mib
check "krdma.service stops" inside systemctl stop krdma
no_listener() {
	[ "$(krdma listen -j | json_at /listeners/#)" = 0 ]
}
check "no listener is left" no_listener
check_fails "no export" is_active krdma-export@scratch
check_fails "and no session" is_active krdma-connect@nodeB

check "it starts again" inside systemctl start krdma
check "and has a listener" test "$(krdma listen -j | json_at /listeners/#)" = 1
check "the packages can be purged" inside dpkg --purge krdma-tools libkrdma1
check "which stops it" no_listener
rm -rf /etc/krdma
is "their files are gone" "$(find /etc /lib/systemd /lib/udev /usr/bin /usr/lib/sysusers.d -name '*krdma*')" ""
inside kill -s RTMIN+4 1
check "systemd ends" wait_for "$LIMIT" is_over $outer
rmmod krdma_blk
end_sessions B
on -n B krdma listen --remove 0.0.0.0
check_nothing_left "nothing is left"
done_testing
