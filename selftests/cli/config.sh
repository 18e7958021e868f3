#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# krdma apply and krdma show --config: what differs from a file is changed, and nothing else; a file
# with a wrong line changes nothing; what show writes, apply takes.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "changes listeners and parameters"
need_nodes 2
MODULE_RESUME=60

LIMIT=${LIMIT:-60}
dir=$(mktemp -d)
at_end rm -rf "$dir"
at_end on -n B rm -f /run/krdma.conf
fresh_module
remember_leftovers

# write: standard input is the file of node B.
write() {
	on B sh -c 'cat >/run/krdma.conf'
}
# apply STATUS TEXT OPTION...: what it says is TEXT.
apply() {
	local said status
	said=$(on -n B krdma apply "${@:3}" /run/krdma.conf 2>&1)
	status=$?
	# How many sessions linger is not known.
	said=${said//: sessions that end: [0-9]/}
	# Changes and errors come by two streams, whose order is not known.
	[ "$status $(sort <<<"$said")" = "$1 $(sort <<<"$2")" ] || {
		echo "status $status: $said"
		return 1
	}
}
listeners() {
	on -n B krdma listen | awk 'NR > 1 { print $1 }' | sort | tr '\n' ' '
}
parameter() {
	on -n B cat "/sys/module/krdma_mover/parameters/$1"
}

write <<END
# A listener for the peer, and one for nobody.
[module]
resume = 45
keepalive = 5

[listen 0.0.0.0]
allow = $LOCAL_V4/32

[listen [::]:7472]
allow = 2001:db8::/32
allow = fd00::/8
END
all='set parameter resume: 45, it was 60
add listener 0.0.0.0
add listener [::]:7472'
check "apply --dry-run says what it would do" apply 0 "$all" -n
is "and does nothing" "$(listeners)$(parameter resume)" "60"
check "apply does it" apply 0 "$all"
is "the listeners are there" "$(listeners)" "0.0.0.0:7471 [::]:7472 "
is "and the parameter" "$(parameter resume)" 45
check "again, there is nothing to do" apply 0 ""
said=$(on -n B krdma apply -j /run/krdma.conf)
is "in JSON, too" "$said" '{"schema":1,"changes":[]}'

# A session outlives a list that would refuse it now.
export_on B scratch --size 1M
mkfifo "$dir/held"
mover hold -p 10.77.0.2 scratch <"$dir/held" >"$dir/hold" 2>&1 &
background_pids+=("$!")
exec 7>"$dir/held"
has_session() {
	[ "$(status B /sessions/#)" = 1 ]
}
check "a peer is admitted" wait_for "$LIMIT" has_session
serial=$(status B /sessions/0/session)
write <<END
[listen 0.0.0.0]
allow = 192.0.2.0/24
END
check "another list, and a listener less" apply 0 "remove listener [::]:7472
change listener 0.0.0.0"
is "the session goes on" "$(status B /sessions/0/session)" "$serial"
check_fails "no other one of that peer is admitted" krdma put -q /etc/hostname nodeB/scratch
is "the parameter stays" "$(parameter resume)" 45

# A line that is wrong.
write <<END
[module]
keepalive = 9
[listen 0.0.0.0]
allow = 10.0.0.0/33
END
check "a wrong line is named" apply 2 "krdma: apply /run/krdma.conf:4: '10.0.0.0/33' is not an address \
prefix such as 10.0.0.0/8 (see 'krdma help apply')"
is "nothing is changed" "$(parameter keepalive) $(status B /listeners/0/allow)" "5 1"
write <<END
[module]
resume = 50
keepalive = 99
[listen 0.0.0.0]
allow = 192.0.2.0/24
[listen [::]:7472]
END
check "a value that the module does not take is named, the rest is done" apply 1 \
	"krdma: apply /run/krdma.conf:3: the module does not take '99' for 'keepalive': Invalid argument
add listener [::]:7472"
is "and no parameter is changed" "$(parameter resume)" 45
write <<END
[module]
resume = 50
speed = 9
[listen 0.0.0.0]
allow = 192.0.2.0/24
END
check "so is a parameter that it does not have" apply 5 \
	"krdma: apply /run/krdma.conf:3: the module has no parameter 'speed'
remove listener [::]:7472"
is "and none is changed" "$(parameter resume)" 45

# From a listener of one address to one of all, which exclude each other.
write <<END
[listen $REMOTE_V4]
END
check "a listener of one address" apply 0 "remove listener 0.0.0.0:7471
add listener $REMOTE_V4"
write <<END
[listen 0.0.0.0]
END
check "and back" apply 0 "remove listener $REMOTE_V4:7471
add listener 0.0.0.0"

# What needs systemd, without it.
write <<END
[listen 0.0.0.0]
[export memory] # of this test
size = 1M ; and no more
END
check "without systemd nothing holds an export, the rest is done" apply 3 "krdma: apply export memory: \
a unit of systemd holds it, and systemd does not run here: run 'krdma export --config memory'"
check "a peer is admitted again" krdma put -q /etc/hostname nodeB/scratch
# shellcheck disable=SC2016 # for the node's shell
background B sh -c 'exec krdma export --config=/run/krdma.conf memory'
check "export --config holds it" wait_for "$LIMIT" grep -qx 'exported memory: 1.0 MiB, read,write' "$BACKGROUND_LOG"
check "peers have it" krdma put -q /etc/hostname nodeB/memory
kill "$BACKGROUND_PID"
check_fails "export --config of what is not there" on -n B krdma export --config=/run/krdma.conf nothing

write <<END
[listen 0.0.0.0]
[share files]
directory = /run
read-only = yes
END
check "and no share" apply 3 "krdma: apply share files: a unit of systemd holds it, and systemd does not run \
here: run 'krdma serve --config files'"
# shellcheck disable=SC2016 # for the node's shell
background B sh -c 'exec krdma serve --config=/run/krdma.conf files'
check "serve --config holds it" wait_for "$LIMIT" grep -qx 'serving /run as files, read-only' "$BACKGROUND_LOG"
check "peers have it" krdma cp -q nodeB/files:krdma.conf "$dir/copy"
like "its file" "$(<"$dir/copy")" '\[share files\]'
kill "$BACKGROUND_PID"

# A session that is held.
write <<<''
check "an empty file removes the listeners" apply 0 "remove listener 0.0.0.0:7471"
listen_on B
krdma connect nodeB >"$dir/connect" 2>"$dir/err" &
connect=$!
background_pids+=("$connect")
check "connect holds a session" wait_for "$LIMIT" grep -q '^connected with 10.77.0.2:7471: session ' "$dir/connect"
krdma put -q /etc/hostname nodeB/scratch
is "which programs share" "$(krdma status | grep -c '^session .* state up')" 1
end_sessions B
check "and ends with it" wait_for "$LIMIT" is_over "$connect"
wait "$connect"
is "which is a failure" $? 4
like "with a sentence" "$(<"$dir/err")" '^krdma: connect nodeB: '

# What show writes, apply takes.
exec 7>&-
on -n B krdma listen "$REMOTE_V4:7475" --allow 10.0.0.0/8 --allow 2001:db8::/32
on -n B krdma show --config >"$dir/shown"
like "show has the listener" "$(<"$dir/shown")" '\[listen 10.77.0.2:7475\]
allow = 10.0.0.0/8
allow = 2001:db8::/32'
like "and the export of a program" "$(<"$dir/shown")" "# A program publishes 'scratch': 1.0 MiB, read,write."
write <"$dir/shown"
check "apply has nothing to do" apply 0 ""
on -n B krdma listen --remove "$REMOTE_V4:7475"
on -n B sh -c 'echo 5 >/sys/module/krdma_mover/parameters/resume'
check "later it makes what there was" apply 0 "set parameter resume: 45, it was 5
add listener 10.77.0.2:7475"

write <<<''
check "no listener is left" apply 0 "remove listener 0.0.0.0:7471
remove listener 10.77.0.2:7475"

# The file of the units by another name, and a share by a link to what is not mounted. Scripts are in the
# place of systemd's programs.
at_end on -n B rm -rf /etc/krdma /run/systemd/system /run/programs /run/link
# shellcheck disable=SC2016 # for the node's shell
on -n B sh -ec 'mkdir -p /etc/krdma /run/systemd/system /run/programs
	echo "#!/bin/sh" >/run/programs/systemctl
	printf "#!/bin/sh\necho krdma-share@files.service\n" >/run/programs/systemd-escape
	chmod +x /run/programs/*
	ln -s /run/not-mounted/files /run/link
	printf "[share files]\ndirectory = /run/link\n" >/etc/krdma/krdma.conf'
# shellcheck disable=SC2016 # for the node's shell
said=$(on -n B sh -c 'cd /etc/krdma && PATH=/run/programs:$PATH krdma apply krdma.conf' 2>&1)
is "units read the file, whatever it is called" "$said" "start share files"
is "a share needs what its directory is a link to" \
	"$(on -n B grep ^Requires /run/systemd/system/krdma-share@files.service.d/50-krdma.conf)" \
	'RequiresMountsFor="/run/link"
RequiresMountsFor="/run/not-mounted/files"'
check_nothing_left "nothing is left"
done_testing
