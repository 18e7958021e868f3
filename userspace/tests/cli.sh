#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The krdma command over tests/fake: no kernel module, no network. Prints TAP.

cd "$(dirname "$0")/.." || exit 1
krdma=$PWD/krdma
fake=$PWD/build/tests/fake.so
work=$(realpath "$(mktemp -d)") || exit 1
trap 'end_receiver; rm -rf "$work"' EXIT
mkdir "$work/exports"
cd "$work" || exit 1

export KRDMA_FAKE_DIR=$work/exports
export KRDMA_FAKE_LOG=$work/log
tests=0
failures=0
receiver=
server=

ok()
{
	tests=$((tests + 1))
	echo "ok $tests - $1"
}

not_ok()
{
	tests=$((tests + 1))
	failures=$((failures + 1))
	echo "not ok $tests - $1"
	sed 's/^/# /' out err log 2>/dev/null | head -20
}

# check NAME COMMAND...: the command succeeds
check()
{
	local name=$1

	shift
	if "$@"; then ok "$name"; else not_ok "$name"; fi
}

# run STATUS ARGUMENT...: krdma ends with the status; its output is in out and err
run()
{
	local want=$1 got

	shift
	: > log
	timeout 60 env LD_PRELOAD="$fake" "$krdma" "$@" > out 2> err
	got=$?
	[ "$got" = "$want" ] || { echo "# exit status $got: krdma $*"; return 1; }
}

# fails STATUS TEXT ARGUMENT...: run, and stderr is one line that holds the text
fails()
{
	local want=$1 text=$2

	shift 2
	run "$want" "$@" && [ "$(wc -l < err)" = 1 ] && grep -qF -- "$text" err
}

# JSON: one document with the schema, for which the Python expression on d is true
json()
{
	python3 -c '
import json, sys
d = json.load(open("out"))
assert d["schema"] == 1
assert eval(sys.argv[1]), d' "$1"
}

# A krdma recv or serve that a failed test has left behind.
end_receiver()
{
	[ -z "$receiver" ] || { kill -KILL "$receiver"; wait "$receiver"; } 2> /dev/null
	receiver=
	[ -z "$server" ] || kill -KILL "$server" 2> /dev/null
}

# ---- Data ----

head -c 20000001 /dev/urandom > data
truncate -s 24M exports/scratch
head -c 1000 /dev/zero > exports/small
head -c 5000000 /dev/urandom > exports/model
chmod 400 exports/model

put_get()
{
	run 0 put data h/scratch && grep -q '^put: 19.1 MiB in ' err &&
		run 0 get h/scratch@0+20000001 copy && grep -q '^get: 19.1 MiB in ' err &&
		cmp data copy
}
check "put and get a file" put_get

in_flight()
{
	run 0 put data h/scratch && grep -q 'under_way_max 8 ' log && grep -q '^buffer 16777216 ' log
}
export KRDMA_FAKE_DELAY_MS=200
check "put keeps eight operations under way" in_flight
unset KRDMA_FAKE_DELAY_MS

# there_and_back ARGUMENT...: put and get with these, and the bytes are the same
there_and_back()
{
	truncate -s 0 exports/scratch
	truncate -s 24M exports/scratch
	run 0 put "$@" data h/scratch && cmp -n 20000001 data exports/scratch &&
		run 0 get "$@" h/scratch@0+20000001 copy && cmp data copy
}
depth()
{
	KRDMA_FAKE_DELAY_MS=20 there_and_back -Q "$1" && grep -q "under_way_max $1 " log &&
		grep -q "^buffer $2 " log
}
check "put and get -Q 1" depth 1 8388608
check "put and get --depth 3" depth 3 16515072
check "put and get -Q 64" depth 64 16777216
backwards() { KRDMA_FAKE_REVERSE=1 KRDMA_FAKE_DELAY_MS=5 there_and_back; }
check "operations that end from the last to the first" backwards
full_file()
{
	KRDMA_FAKE_OPS_MAX=3 KRDMA_FAKE_ACCEPT=2 KRDMA_FAKE_DELAY_MS=5 there_and_back &&
		grep -q 'under_way_max 3 ' log
}
check "a module that takes a part of the operations, or none for now" full_file
ahead()
{
	local pid rc

	mkfifo ahead
	KRDMA_FAKE_HANG=1 LD_PRELOAD=$fake "$krdma" put - h/scratch < ahead 2> err &
	pid=$!
	timeout 10 head -c 16M /dev/zero > ahead
	rc=$?
	kill -KILL $pid
	wait $pid 2> /dev/null
	return $rc
}
check "put reads the file ahead while the wire stands" ahead
away()
{
	local pid rc=1

	mkfifo told
	touch lost
	KRDMA_FAKE_AWAY=$PWD/lost KRDMA_FAKE_HANG=1 LD_PRELOAD=$fake "$krdma" "$@" 2> told &
	pid=$!
	exec 9< told
	timeout 10 grep -qxm1 "krdma: $*: the connection is lost, and waited for, 60 s at most" <&9 &&
		rm lost && timeout 10 grep -qxm1 "krdma: $*: the connection is back" <&9 && rc=0
	kill -KILL $pid
	wait $pid 2> /dev/null
	exec 9<&-
	rm told
	return $rc
}
check "put says that the connection is lost, and that it is back" away put data h/scratch
few()
{
	run 0 put small_file h/scratch && grep -q '^buffer 65536 ' log &&
		run 0 get h/scratch@0+1M copy && grep -q '^buffer 1048576 ' log
}

offset()
{
	run 0 put small_file h/scratch@12345+100 &&
		tail -c +12346 exports/scratch | head -c 10 | cmp - small_file &&
		tail -c +12356 exports/scratch | head -c 100 | cmp - <(tail -c +12356 data | head -c 100)
}
printf '0123456789' > small_file
check "put at an offset writes these bytes only" offset
check "a small transfer pins no more than it needs" few

streams()
{
	run 0 put - h/scratch < <(cat data) && run 0 get h/scratch@0+20000001 - && cmp data out
}
check "standard input and output" streams

exact()
{
	head -c 1000 data | run 0 put - h/small && cmp -n 1000 data exports/small &&
		run 0 get h/small whole && cmp whole exports/small
}
check "standard input that fills the region, get of the whole" exact

longer()
{
	head -c 1001 data > long_file
	fails 1 'standard input is longer than the range, which has 1000 B' put - h/small < <(cat long_file)
}
check "standard input that is too long" longer

known()
{
	fails 1 'data has 19.1 MiB (20000001 bytes), the range has 1000 B (1000 bytes)' \
		put data h/small && ! grep -q submits log
}
check "a file that is too long is refused before anything is sent" known
known_stdin()
{
	fails 1 'the range has 1000 B' put - h/small < data && ! grep -q submits log
}
check "so is one on standard input" known_stdin

: > empty
check "an empty file" run 0 put empty h/small
check "an empty standard input" run 0 put - h/small < /dev/null

# A file of /proc says that it has no bytes.
proc()
{
	run 0 put /proc/cpuinfo h/scratch && run 0 get h/scratch@0+9 - && [ "$(cat out)" = processor ]
}
check "a file that does not tell its length" proc

# ---- Failures of put and get ----

op_fails()
{
	KRDMA_FAKE_FAIL_OP=3:110 fails 4 \
		"krdma: put data h/scratch: operation 3 on 'scratch' failed on purpose" \
		put data h/scratch
}
check "an operation of put fails: the kernel's error text" op_fails
op_fails_late()
{
	KRDMA_FAKE_FAIL_OP=15:104 KRDMA_FAKE_REVERSE=1 KRDMA_FAKE_DELAY_MS=5 fails 4 \
		"krdma: get h/scratch copy: operation 15 on 'scratch' failed on purpose" \
		get h/scratch copy
}
check "an operation of get fails in the middle" op_fails_late

keeps()
{
	cp small_file kept
	KRDMA_FAKE_FAIL_OP=1:110 fails 4 'failed on purpose' get h/small kept && cmp kept small_file &&
		fails 5 "the peer has no export 'none'" get h/none kept && cmp kept small_file &&
		fails 1 'the range is outside' get h/small@0+1001 kept && cmp kept small_file
}
check "a get that fails at once leaves the file as it was" keeps

blocked()
{
	local rc

	# The shell keeps the pipe open, so that its reader never sees an end.
	mkfifo pipe
	exec 9<> pipe
	head -c 9000000 data > pipe &
	KRDMA_FAKE_FAIL_OP=1:110 fails 4 'failed on purpose' put - h/scratch < pipe
	rc=$?
	exec 9>&-
	kill $! 2> kill_err
	return $rc
}
check "a failure ends a put that waits for its input" blocked

check "a full disk" fails 7 'cannot write /dev/full: No space left on device' get h/scratch /dev/full
check "a directory as destination" fails 1 'cannot write exports: Is a directory' get h/small exports
check "a directory as source" fails 1 'exports is a directory' put exports h/small
check "a file that is not there" fails 5 'cannot open none: No such file' put none h/small
check "put into a read-only export" fails 6 "'model' is read-only" put data h/model
check "put beyond the region" fails 1 'the range is outside' put data h/small@1000
check "both JSON and bytes on standard output" fails 2 'standard output' get -j h/small -
full() { LD_PRELOAD=$fake "$krdma" status > /dev/full 2> err; [ $? = 7 ] && grep -q 'No space' err; }
check "output that can't be written" full

# said_json EXPRESSION: stderr is one line of JSON, d.
said_json()
{
	[ "$(wc -l < err)" = 1 ] && python3 -c '
import json, sys
d = json.load(open("err"))
assert d["schema"] == 1
assert eval(sys.argv[1]), d' "$1"
}
errors_in_json()
{
	run 6 put -j data h/model && [ ! -s out ] && said_json 'd["error"] == {
		"status": 6, "errno": "EACCES", "object": "put data h/model",
		"message": "'\''model'\'' is read-only"}' &&
		run 2 put --frob -j && said_json 'd["error"]["status"] == 2 and "errno" not in d["error"]' &&
		run 2 -j frob && said_json '"is not a command" in d["error"]["message"]' &&
		run 1 get --json h/small@0+1001 copy && said_json 'd["error"]["errno"] == "ERANGE"'
}
check "errors in JSON" errors_in_json
no_streams()
{
	LD_PRELOAD=$fake "$krdma" get h/small closed >&- 2>&- <&- && cmp closed exports/small || return 1
	LD_PRELOAD=$fake "$krdma" get h/small - >&- 2> err && return 1
	grep -q 'cannot write standard output: Bad file descriptor' err &&
		! LD_PRELOAD=$fake "$krdma" put - h/scratch <&- 2> err &&
		grep -q 'cannot read standard input: Bad file descriptor' err
}
check "standard streams that are closed" no_streams

interrupt()
{
	local pid

	mkfifo hang
	exec 9<> hang
	KRDMA_FAKE_LOG=hang KRDMA_FAKE_HANG=1 LD_PRELOAD=$fake "$krdma" "$@" 2> err &
	pid=$!
	timeout 10 grep -qm1 '^buffer' <&9
	kill -TERM $pid
	wait $pid
	[ $? = 143 ] || return 1
	exec 9>&-
	rm hang
}
check "a signal ends a put that hangs" interrupt put data h/scratch
check "a signal ends a bench that hangs" interrupt bench write h/scratch

# ---- Little room for locked memory ----

less()
{
	KRDMA_FAKE_BUFFER_MAX=1000000 run 0 put data h/scratch && cmp -n 20000001 data exports/scratch &&
		grep -q '^buffer 524288 ' log
}
check "put takes smaller buffers where locked memory is short" less
two_slots()
{
	KRDMA_FAKE_BUFFER_MAX=131072 there_and_back && grep -q '^buffer 131072 ' log &&
		grep -q 'under_way_max 2 ' log
}
check "and fewer than the depth has operations" two_slots
none()
{
	KRDMA_FAKE_BUFFER_MAX=65536 fails 7 'RLIMIT_MEMLOCK is 65536 bytes' get h/scratch copy
}
check "put says when there is none" none

# ---- Options of put and get ----

quiet() { run 0 put -q data h/scratch && [ ! -s err ] && [ ! -s out ]; }
check "put -q" quiet
# unblocked put|get FILE COMMAND...: with standard input that does not block, and is empty for a while,
# or standard output that is full.
unblocked()
{
	python3 - "$@" <<-'END'
		import fcntl, os, subprocess, sys
		kind, path = sys.argv[1:3]
		ends = os.pipe()
		mine, its = ends if kind == "get" else reversed(ends)
		os.set_blocking(its, False)
		# It is full, and empty, all the time.
		fcntl.fcntl(mine, fcntl.F_SETPIPE_SZ, 4096)
		child = subprocess.Popen(sys.argv[3:], **{"stdout" if kind == "get" else "stdin": its})
		os.close(its)
		data = open(mine if kind == "get" else path, "rb").read()
		open(path if kind == "get" else mine, "wb").write(data)
		sys.exit(child.wait())
	END
}
from_unblocked() { LD_PRELOAD=$fake unblocked put data "$krdma" put -q - h/scratch 2> err && run 0 get -q "h/scratch@0+$(stat -c %s data)" got && cmp data got; }
check "put from standard input that does not block" from_unblocked
to_unblocked() { LD_PRELOAD=$fake unblocked get got "$krdma" get -q "h/scratch@0+$(stat -c %s data)" - 2> err && cmp data got; }
check "get to standard output that does not block" to_unblocked
odd_name() { LD_PRELOAD=$fake "$krdma" put -j $'/nope\xff' h/scratch 2> err; python3 -c 'import json; json.load(open("err", encoding="utf-8"))' < /dev/null; }
check "an error about a path that is no UTF-8 is JSON" odd_name
bar()
{
	KRDMA_FAKE_DELAY_MS=300 run 0 put --progress data h/scratch && grep -q '% .*MiB/s  ETA' err
}
check "put --progress" bar
json_put()
{
	run 0 put -j data h/scratch && [ ! -s err ] &&
		json 'd["bytes"] == 20000001 and d["mib_per_second"] > 0 and d["seconds"] > 0'
}
check "put -j" json_put
resumes()
{
	run 0 put --resume "$1" data h/scratch && grep -q "^connect .* $2\$" log
}
check "put --resume" resumes 7 'resume 7'
check "put --resume always" resumes always 'resume 65535'
check "put --resume 0: the session ends with its connection" resumes 0 'resume 0 fail_fast'
paths()
{
	run 0 put "$@" data h/scratch &&
		grep -q "^connect 10.0.0.2 .* resume 0 paths 2 policy 1 keepalive 0\$" log
}
check "put --path, twice, and --policy" paths --path fd00::7 --path fd00::8 --policy round-robin
check "put --path auto: those that the peer tells" paths --path auto --policy round-robin
check "put --path auto, and another" fails 2 '--path auto stands for all' \
	put --path auto --path fd00::7 data h/scratch
check "put --path, and auto" fails 2 '--path auto stands for all' \
	put --path fd00::7 --path auto data h/scratch
keepalive()
{
	run 0 put --keepalive 2 data h/scratch && grep -q "^connect .* keepalive 2\$" log
}
check "put --keepalive" keepalive
check "put --keepalive of no time" fails 2 "'0' is not a number of seconds, 1 to 60" \
	put --keepalive 0 data h/scratch
check "put --policy of no such name" fails 2 "'best' is no policy" put --policy best data h/scratch
check "put --path, four times" fails 2 'at most 3 --path' \
	put --path fd00::5 --path fd00::6 --path fd00::7 --path fd00::8 data h/scratch
check "put --resume of too long a time" fails 2 "'3601' is not a number of seconds, 0 to 3600" \
	put --resume 3601 data h/scratch
check "put -Q 0" fails 2 "'0' is not a depth, 1 to 1024" put -Q 0 data h/scratch
check "get -Q of too many" fails 2 "'1025' is not a depth" get -Q 1025 h/scratch copy
timeouts() { run 0 ls --timeout 1.5 h && grep -q 'timeout 1500' log; }
check "--timeout" timeouts
second()
{
	KRDMA_FAKE_REFUSE=1 fails 4 'nobody listens at 10.0.0.2' ls h &&
		KRDMA_FAKE_REFUSE=1 run 0 ls h2 && [ "$(cat log)" = "$(printf \
		'connect fd00::2 port 0 scope 0 timeout 0 resume 0 messages\nconnect 10.0.0.2 port 0 scope 0 timeout 0 resume 0 messages')" ]
}
check "the next address of a host is tried" second

# ---- export ----

# exporting ARGUMENT...: until its line is out, then SIGTERM
exporting()
{
	local pid rc

	: > log
	mkfifo line
	LD_PRELOAD=$fake "$krdma" export "$@" > line 2> err &
	pid=$!
	head -n 1 line > out
	rm line
	[ -e exports/new ] && kill -TERM $pid
	wait $pid
	rc=$?
	[ $rc = 0 ] && [ ! -e exports/new ] && grep -q '^destroy kind 4' log
}
anonymous()
{
	exporting new --size 64K --max-segments 5 &&
		[ "$(cat out)" = 'exported new: 64.0 KiB, read,write' ] &&
		grep -q '^export new length 65536 rights 3 flags 1 seals 2 max_segments 5' log
}
check "export --size: a sealed memfd, until SIGTERM" anonymous
file()
{
	exporting new --file data --read-only && [ "$(cat out)" = 'exported new: 19.1 MiB, read' ] &&
		grep -q '^export new length 20000001 rights 1 flags 1 seals -1 ' log
}
check "export --file --read-only: not mapped" file
larger()
{
	exporting new --size 8T && grep -q '^krdma: export new: 8.0 TiB are more than the ' err
}
check "export --size: a warning of more than there is" larger
writable() { exporting new --file data && grep -q ' rights 3 flags 0 ' log; }
check "export --file" writable
atomic_export()
{
	exporting new -s 4K --atomic && [ "$(cat out)" = 'exported new: 4.0 KiB, read,write,atomic' ] &&
		grep -q ' rights 7 ' log
}
check "export --atomic" atomic_export
part() { exporting new --file data --size 4K && grep -q ' length 4096 ' log; }
check "export --file --size" part
json_export() { exporting -j new -s 4K && json 'd["length"] == 4096 and d["rights"] == ["read", "write"]'; }
check "export -j" json_export
check "export of an empty file" fails 1 "'empty' is empty" export new --file empty
check "export of more than the file" fails 1 'has only 10 bytes' export new -f small_file -s 11
check "export of a name that is taken" fails 7 "the name 'small' is taken" export small -s 4K
check "export of nothing" fails 2 '--size or --file' export new
long=$(printf 'n%.0s' {1..64})
check "export of a name that is too long" fails 1 'is longer than 63' export "$long" -s 4K

# ---- listen ----

listens()
{
	run 0 listen 0.0.0.0 --allow 10.0.0.0/8 --allow fd00::1 && [ ! -s out ] &&
		[ "$(cat log)" = "$(printf 'listen 0.0.0.0 port 7471\nallow 10.0.0.0/8\nallow fd00::1/128')" ]
}
check "listen --allow" listens
removes() { run 0 listen --remove 0.0.0.0:99 && grep -q '^unlisten port 99' log; }
check "listen --remove" removes
closes() { run 0 listen --close 0.0.0.0:99 && grep -qx 'unlisten port 99 close' log; }
check "listen --close" closes

# ---- disconnect and drain ----

one_session() { run 0 disconnect 3 && [ ! -s out ] && grep -qx 'disconnect 3 timeout 0 ' log; }
check "disconnect of a session" one_session
of_host()
{
	run 0 disconnect --timeout 1.5 fd00::2 && grep -qx 'disconnect 0 timeout 1500 fd00::2' log
}
check "disconnect of a host" of_host
check "disconnect of a host without a session" fails 5 'there is no session with 10.0.0.7' disconnect 10.0.0.7
check "disconnect of a session that is not there" fails 5 'there is no session 4' disconnect 4
cut() { KRDMA_FAKE_CUT=1 fails 4 '1 of 1 sessions were not idle in time' disconnect 3; }
check "disconnect that could not wait" cut
drains()
{
	run 0 drain && [ "$(grep -E 'unlisten|disconnect' log)" = "$(printf 'unlisten port 0 close\ndisconnect 0 timeout 0 \nunlisten port 0')" ]
}
check "drain: listeners first" drains
late() { KRDMA_FAKE_CUT=1 fails 4 'not idle in time' drain && grep -qx 'unlisten port 0' log; }
check "drain that could not wait: the listeners go all the same" late
too_long() { fails 2 'has 3600 seconds at most' drain --timeout 3601 && [ ! -s log ]; }
check "drain for too long: nothing is done" too_long
check "drain with an operand" fails 2 "'x' is one operand too many" drain x
waits()
{
	local pid

	: > log
	mkfifo line
	LD_PRELOAD=$fake "$krdma" listen --wait :: > line 2> err &
	pid=$!
	head -n 1 line > out
	rm line
	kill -INT $pid
	wait $pid && [ "$(cat out)" = 'listening on [::]:7471' ] && grep -q '^unlisten port 7471' log
}
check "listen --wait" waits
waits_json()
{
	local pid

	mkfifo line
	LD_PRELOAD=$fake "$krdma" listen -j --wait :: > line 2> err &
	pid=$!
	head -n 1 line > out
	rm line
	kill -INT $pid
	wait $pid && json 'd["address"] == "[::]:7471"'
}
check "listen --wait -j" waits_json
check "listen shows listeners" run 0 listen
check "listen with a bad prefix" fails 2 'not an address prefix' listen :: --allow x/8
check "listen with a bad address" fails 1 'not a port' listen 0.0.0.0:x
check "listen --wait without an address" fails 2 'need an address' listen --wait

# ---- What is shown ----

shows()
{
	run 0 ls h && grep -q '^model  *4.8 MiB  *read$' out && grep -q '^small  *1000 B  *read,write$' out
}
check "ls" shows
check "ls -j" eval 'run 0 ls -j h && json "len(d[\"exports\"]) == 3 and d[\"exports\"][0][\"rights\"]"'
check "status" eval 'run 0 status && grep -q "^session 3 local 10.0.0.1 peer \[fd00::2\]:7471 state up flags inbound" out'
check "status -j" eval 'run 0 status -j && json "d[\"sessions\"][0][\"bytes_read\"] == 2**63 and d[\"module\"][0][\"version\"] == \"fake\""'
check "status of what the module can do" eval 'run 0 status -j && json \
	"d[\"module\"][0][\"features\"] == [\"rdma\", \"async\", \"uring\", \"messages\"]"'
transfers()
{
	run 0 status --transfers -j &&
		json 'len(d["transfers"]) == 150 and d["transfers"][149]["user_data"] == "0x%016x" % 149' &&
		run 0 status --transfers && [ "$(grep -c '^transfer write .* waits_for key wait 0.0s' out)" = 150 ]
}
check "status --transfers follows the cursor" transfers
check "devices" eval 'run 0 devices && grep -q "^rxe0 .* eth0 .* 10.0.0.1 .* roce-v2 .* yes" out'
pretty()
{
	run 0 devices -p && [ "$(wc -l < out)" -gt 10 ] && json 'd["devices"][0]["netdev"] == "eth0"'
}
check "devices -p" pretty
check "version" eval 'run 0 version && grep -q "^krdma [0-9]" out && grep -q "^krdma_mover fake" out'
version()
{
	"$krdma" version > out && grep -q 'is the module loaded?' out
}
no_module()
{
	! "$krdma" ls h 2> err && [ "$(wc -l < err)" = 1 ] && grep -q \
		'^krdma: ls h: cannot open /dev/krdma_mover: No such file or directory: is the module' err
}
if [ -e /dev/krdma_mover ]; then
	ok "version without the module # SKIP it is loaded"
	ok "no module # SKIP it is loaded"
else
	check "version without the module" version
	check "no module" no_module
fi

# ---- apply ----

good='[module]
resume = 60

[listen 0.0.0.0]
allow = 10.0.0.0/8
allow=fe80::/10
[export scratch]
size = 4M
atomic = yes
read-only = no
[connect nodeB]
[disk nodeB/volume]
shared'
# wrong LINE TEXT ADDED...: with the lines added, that line is wrong
wrong()
{
	printf '%s\n' "$good" "${@:3}" > conf
	fails 2 "krdma: apply conf:$1: $2" apply -n conf
}
check "a key that is none" wrong 15 "[export] has no key 'sze', only size=" '[export x]' 'sze = 1'
check "a value that is wrong" wrong 15 "'12Q' is not a size" '[export x]' 'size = 12Q' atomic
check "a key without its value" wrong 16 "'size' needs a value" '[export x]' 'file = /f' size
check "a key that is yes or no" wrong 15 "'atomic' is yes or no, not 'maybe'" '[export x]' 'atomic = maybe'
check "keys that exclude each other" wrong 14 '--atomic lets peers write' '[export x]' 'size = 1M' read-only atomic
check "a section without what it needs" wrong 14 '--size or --file is needed' '[export x]'
check "a section that is there already" wrong 14 'there is [export scratch] on line 7' '[export scratch]'
check "a section of no kind" wrong 14 'a section is [module], [listen ADDRESS]' '[exports x]'
check "a section without a bracket" wrong 14 'a section is [KIND NAME]' '[export x'
check "a section without its name" wrong 14 '[listen] needs a name: [listen ADDRESS]' '[listen]'
check "a section with a name too many" wrong 14 '[module] has no name' '[module x]'
check "a name with spaces" wrong 14 'a name has no spaces' '[export a b]'
check "a name that no export can have" wrong 14 'a name has the characters' '[export a/b]'
check "a name that no share can have" wrong 14 'a name has the characters' '[share %i]'
check "a name that no disk can have" wrong 14 "'h/naïve' is not HOST[:PORT]/NAME" '[disk h/naïve]'
check "a name that is too long" wrong 14 'the name of an export has at most 63' "[export $(printf 'x%.0s' {1..64})]"
check "a key that is there already" wrong 16 "'size' is on line 15 already" '[export x]' 'size = 1M' 'size = 2M'
check "a flag that is there already" wrong 17 "'atomic' is on line 16 already" '[export x]' 'size = 1M' atomic 'atomic = no'
check "a key without a name" wrong 15 'a key has a name' '[export x]' '= 5'
check "a file that depends on the directory" wrong 15 "'f' is no path from '/'" '[export x]' 'file = f'
check "a listener in another spelling" wrong 14 '[listen 0.0.0.0] on line 4 is the same' '[listen 0.0.0.0:7471]'
check "a disk in another spelling" wrong 14 '[disk nodeB/volume] on line 12 is the same' '[disk nodeB:7471/volume]'
check "a prefix of two numbers" wrong 15 "'10.1/16' is not an address prefix" '[listen 10.0.0.1]' 'allow = 10.1/16'
check "prefixes of another family" wrong 14 'no prefix has the family' '[listen 10.0.0.1]' 'allow = fd00::/8'
check "the first error is named" wrong 15 "'1Q' is not a size" '[export x]' 'size = 1Q' '[export y]' 'size = 2Q'
check "a port that is none" wrong 14 "'x' is not a port" '[listen 10.0.0.1:x]'
check "a prefix that is none" wrong 15 "'10.0.0.0/40' is not an address prefix" '[listen 10.0.0.1]' 'allow = 10.0.0.0/40'
check "an option of connect" wrong 16 "'0' is not a number of seconds, 1 to 60" '[connect c]' 'policy = latency' \
	'keepalive = 0' 'resume = always'
check "a disk's export that is none" wrong 14 "'nodeB' is not HOST[:PORT]/NAME" '[disk nodeB]'
check "a disk's options" wrong 14 '--takeover excludes --shared' '[disk c/d]' takeover shared
check "a share's clients" wrong 16 "'300' is not a number of clients, 1 to 256" '[share s]' 'directory = /d' 'max-clients = 300'
check "a share without a directory" wrong 14 "[share s] needs a 'directory'" '[share s]' read-only
check "a directory that depends on the directory" wrong 15 "'d' is no path from '/'" '[share s]' 'directory = d'
check "a directory that is there already" wrong 16 "'directory' is on line 15 already" '[share s]' 'directory = /d' 'directory = /e'
check "a name with a colon, which no share can have" wrong 14 "'a:b' is no name of a share" '[share a:b]' 'directory = /d'
check "a share and an export of one name" wrong 14 '[export scratch] on line 7 has this name' '[share scratch]' 'directory = /d'
key_first()
{
	echo 'size = 1' > conf
	fails 2 'conf:1: a section has to come first' apply conf
}
check "a key before the sections" key_first
zero()
{
	printf '[export x]\nsize = 1M\0junk\n' > conf
	fails 2 'conf:2: there is a byte 0 in it' apply -c conf
}
check "a byte 0" zero
fine()
{
	printf '%s\n' "$good" '[export a+b] # with a comment' 'size = 4096 ; and another' '[connect nosuch]' \
		'path = nosuchhost' '[share a+b.c]' 'directory = /no/such' 'max-clients = 2' > conf
	run 0 apply --check conf && [ ! -s out ]
}
check "apply --check of what is right, without the module" fine
check "a file that is not there" fails 5 'cannot open none: No such file' apply none
: > conf2
check "export --config of what is not there" fails 5 'there is no [export x]' export --config=conf2 x
check "export --config beside options" fails 2 '--config excludes other options' export --config=conf2 --size 1M x
check "connect --config beside options" fails 2 '--config excludes other options' connect --config=conf2 --resume 0 x
check "show in JSON" fails 2 'is not JSON' show --config -j
check "show without what" fails 2 '--config is needed' show

# Programs of systemd, which write to 'systemd.log' what they do. The units of 'units' run.
mkdir -p root/etc/krdma root/run/systemd/system bin
cat > bin/systemctl <<'END'
#!/bin/sh
case $1 in
list-units)
	for u in $(cat units); do
		case $u in ${5%%@*}@*) echo "$u loaded active running x" ;; esac
	done
	;;
show) echo 0 ;;
*) echo "$@" >> systemd.log ;;
esac
END
cat > bin/systemd-escape <<'END'
#!/bin/sh
case $1 in
--unescape) u=${4#*@} && echo "${u%.service}" ;;
*) u=${1#--template=} && echo "${u%.service}$3.service" ;;
esac
END
chmod +x bin/*
# applied UNITS LINE...: with these units, and with the lines in krdma.conf
applied()
{
	echo "$1" > units
	printf '%s\n' "${@:2}" > root/etc/krdma/krdma.conf
	: > systemd.log
	PATH=$PWD/bin:$PATH KRDMA_FAKE_ROOT=$PWD/root run 0 apply --no-disks
}
# Each takes a name that the other has.
names_change()
{
	applied 'krdma-share@a.service krdma-export@b.service' \
		'[export a]' 'size = 1M' '[share b]' 'directory = /b' &&
		[ "$(grep -E 'stop|start' systemd.log)" = '--quiet stop krdma-export@b.service
--quiet stop krdma-share@a.service
--quiet restart krdma-export@a.service
--no-block restart krdma-share@b.service' ]
}
check "apply stops what is not in the file before it starts anything" names_change
# drop_in NAME: of the share's unit
drop_in() { echo "root/run/systemd/system/krdma-share@$1.service.d/50-krdma.conf"; }
drop_ins()
{
	applied '' '[share c]' 'directory = /srv/a "b" 50%' '[share d]' 'directory = /d' \
		'read-only' '[share e]' 'directory = /e/..' &&
		[ "$(grep -v '^#' "$(drop_in c)")" = '[Unit]
RequiresMountsFor="/srv/a \"b\" 50%%"
[Service]
ProtectSystem=strict
ReadWritePaths="-/srv/a \"b\" 50%%"' ] &&
		grep -q '^RequiresMountsFor="/d"' "$(drop_in d)" &&
		! grep -q Write "$(drop_in d)" &&
		[ ! -e "$(drop_in e)" ] && [ "$(head -n 2 systemd.log)" = '--quiet daemon-reload
--no-block restart krdma-share@c.service' ]
}
check "apply tells systemd the directories of shares before it starts them" drop_ins
file_drop_in()
{
	local drop_in=root/run/systemd/system/krdma-export@g.service.d/50-krdma.conf
	applied '' '[export g]' 'file = /g' 'read-only' &&
		[ "$(grep -v '^#' $drop_in)" = '[Unit]
RequiresMountsFor="/g"' ] && [ "$(head -n 1 systemd.log)" = '--quiet daemon-reload' ] &&
		applied 'krdma-export@g.service' '[export g]' 'size = 1M' && [ ! -e $drop_in ]
}
check "and the file of an export, as long as it has one" file_drop_in
linked()
{
	ln -s "$work/none/of/them" link
	applied '' '[share j]' "directory = $work/link" 'read-only' &&
		[ "$(grep ^Requires "$(drop_in j)")" = "RequiresMountsFor=\"$work/link\"
RequiresMountsFor=\"$work/none/of/them\"" ]
}
check "and where links lead, before it is there" linked
other_name()
{
	applied '' && : > systemd.log && echo '[share k]
directory = /k' > root/etc/krdma/krdma.conf && PATH=$PWD/bin:$PATH KRDMA_FAKE_ROOT=$PWD/root \
		run 0 apply --no-disks root/etc/krdma/krdma.conf && [ -e "$(drop_in k)" ] &&
		grep -qx -- '--no-block restart krdma-share@k.service' systemd.log
}
check "the file of the units by another name" other_name
no_parameter()
{
	printf '[module]\nspeed = 1\n[share l]\ndirectory = /l\n' > root/etc/krdma/krdma.conf
	: > systemd.log
	PATH=$PWD/bin:$PATH KRDMA_FAKE_ROOT=$PWD/root fails 5 "no parameter 'speed'" apply --no-disks &&
		grep -qx -- '--no-block restart krdma-share@l.service' systemd.log
}
check "a parameter that there is not: the rest is done" no_parameter
# At boot its file system may be mounted after what waits for this.
no_wait()
{
	printf '[export h]\nfile = /h\nread-only\n' > root/etc/krdma/krdma.conf && : > systemd.log
	PATH=$PWD/bin:$PATH KRDMA_FAKE_ROOT=$PWD/root run 0 apply --no-disks --no-wait &&
		grep -qx -- '--no-block restart krdma-export@h.service' systemd.log
}
check "apply --no-wait does not wait for the export of a file" no_wait
same_again()
{
	applied '' '[share c]' 'directory = /srv/a "b" 50%' '[share d]' 'directory = /d' \
		'read-only' && ! grep reload systemd.log
}
check "once" same_again
dry()
{
	printf '[share f]\ndirectory = /f\n' > root/etc/krdma/krdma.conf && : > systemd.log
	PATH=$PWD/bin:$PATH KRDMA_FAKE_ROOT=$PWD/root run 0 apply -n && [ ! -s systemd.log ] &&
		[ ! -e "$(drop_in f)" ]
}
check "apply -n tells systemd nothing" dry
no_share()
{
	applied 'krdma-share@c.service' '[share d]' 'directory = /d' 'read-only' &&
		[ ! -d "$(dirname "$(drop_in c)")" ] && [ -e "$(drop_in d)" ] &&
		grep -q reload systemd.log
}
check "and forgets them with the share" no_share

# ---- metrics, doctor ----

# parsed MODULE: by the Prometheus project's own parser of OpenMetrics, or of the older format. Families come once,
# and each has a type and a sentence.
parsed()
{
	/usr/bin/python3 -c '
import sys
from importlib import import_module
families = list(import_module(sys.argv[1]).text_string_to_metric_families(sys.stdin.read()))
assert len({f.name for f in families}) == len(families) > 20
for f in families:
    assert f.name.startswith("krdma_") and f.documentation and f.type != "unknown", f
kinds = {f.name: f.type for f in families}
assert kinds["krdma_grant_read_bytes"] == "counter" and kinds["krdma_export_length_bytes"] == "gauge"
assert kinds["krdma_operation_seconds"] == "histogram"' "$1"
}
metrics()
{
	run 0 metrics && parsed prometheus_client.openmetrics.parser < out &&
		grep -qx 'krdma_export_length_bytes{name="scratch"} [0-9]*' out
}
check "metrics" metrics
# Counts grow up to that of all, which is beyond all bounds.
histogram()
{
	grep '^krdma_operation_seconds_' out > rows && [ "$(grep -c _bucket rows)" = 26 ] &&
		grep -q 'device="rxe0",operation="write",length_max="4096",le="0.000002048"} 0$' rows &&
		grep -q 'le="0.000004096"} 50$' rows && grep -q 'le="0.000008192"} 99$' rows &&
		grep -q 'le="17.179869184"} 99$' rows && grep -q 'le="+Inf"} 100$' rows &&
		grep -q '_count{.*} 100$' rows && grep -q '_sum{.*} 0.001000000$' rows
}
check "metrics has the histogram" histogram
check "metrics has what peers report" grep -qx 'krdma_grant_read_bytes_total{name="scratch",session="3",grant="7",peer=".*"} 5000000' out
textfile()
{
	run 0 metrics --textfile metrics.prom && [ ! -s out ] && parsed prometheus_client.parser < metrics.prom &&
		[ "$(ls -d metrics.prom*)" = metrics.prom ]
}
check "metrics --textfile" textfile
check "metrics --textfile where there is no directory" fails 5 "cannot write 'none/metrics" metrics --textfile none/metrics
check "metrics in JSON" fails 2 'is not JSON' metrics -j
check "metrics --textfile and --http" fails 2 'exclude each other' metrics --http --textfile f

# ---- status --histogram, monitor, top ----

latencies()
{
	run 0 status --histogram && [ "$(wc -l < out)" = 2 ] &&
		grep -Eqx 'rxe0 +write +4.0 KiB +100 +10.0 +4.1 +8.2 *' out &&
		run 0 status --histogram -j &&
		json '[(l["operations"], sum(l["counts"]), l["length_max"], l["sum_ns"], l["p50_us"], l["p99_us"])
			for l in d["latencies"]] == [(100, 100, 4096, 1000000, 4.096, 8.192)]'
}
check "status --histogram" latencies
grants()
{
	run 0 status && grep -q '^grant scratch session 3 peer .*uid 1000 rights read .*grant 7' out
}
check "status shows who has an export" grants
check "status --histogram and --transfers" fails 2 'exclude each other' status --histogram --transfers
monitor()
{
	run 0 monitor -n 3 && [ "$(wc -l < out)" = 3 ] && grep -q watching err &&
		grep -Eq '^[0-9T:.+-]+ session-up session 3 device rxe0 peer 10.0.0.2 uid 1000$' out &&
		grep -q ' session-ended session 3 peer 10.0.0.2 uid 1000 error ECONNRESET: transport retry.*exceeded (2 events before it are lost)$' out &&
		grep -q ' export-added export scratch uid 0$' out
}
check "monitor" monitor
monitor_json()
{
	run 0 monitor -n 3 -j && sed -n 2p out > line && python3 -c '
import json
d = json.load(open("line"))
assert d["schema"] == 1 and d["event"] == "session-ended" and d["error"] == "ECONNRESET" and d["lost"] == 2 and d["session"] == 3'
}
check "monitor -j" monitor_json
until_one()
{
	run 0 monitor --until session-ended && [ "$(wc -l < out)" = 2 ]
}
check "monitor --until" until_one
check "monitor --until what is no event" fails 2 "no event 'nothing'" monitor --until nothing
check "monitor -n 0" fails 2 'not a number of events' monitor -n 0
check "monitor says when the events end" run 5 monitor
top_text()
{
	run 0 top -n 2 -d 0.05 && [ "$(grep -c '^krdma top ' out)" = 2 ] && grep -q '^SESSION *PEER' out &&
		grep -q '^NAME *GRANTS' out && ! grep -q '^UID' out
}
check "top" top_text
top_json()
{
	run 0 top -n 2 -d 0.05 -j && [ "$(wc -l < out)" = 2 ] && python3 -c '
import json
for line in open("out"):
    d = json.loads(line)
    s = d["sessions"][0]
    assert d["schema"] == 1 and s["session"] == 3 and s["waits_for"] in ("-", "key")
    # 1 MiB, 16 operations of 2 ms and 4 KiB served between two looks.
    assert abs(s["written_s"] * d["seconds"] - 1048576) < 100, s
    assert abs(s["operations_s"] * d["seconds"] - 16) < .1 and s["read_s"] == 0
    assert abs(s["mean_us"] - 2000) < 1 and abs(s["served_read_s"] * d["seconds"] - 4096) < 100
    e = d["exports"][0]
    assert e["name"] == "scratch" and abs(e["written_s"] * d["seconds"] - 8192) < 100, e
    assert d["users"] == []'
}
check "top -j" top_json
check "top by what is nothing" fails 2 'none of b, o, l, w and s' top -s x
check "top -d 0" fails 2 'not a time' top -d 0
http()
{
	printf 'GET / HTTP/1.1\r\nHost: h\r\n\r\n' > conf
	run 0 metrics --http < conf && head -n 1 out | grep -q '^HTTP/1.1 200 OK' &&
		[ "$(tail -n 1 out)" = '# EOF' ]
}
check "metrics --http" http
check "doctor without the module" run 3 doctor
check "doctor says what to do" grep -q -- '-> modprobe krdma_mover' out
check "doctor -j" run 3 doctor -j
check "doctor's checks are an array" json 'd["checks"][-1]["result"] == "bad" and d["checks"][-1]["fix"]'

# ---- digest, atomic and --verify ----

digests()
{
	printf 123456789 > exports/nine
	run 0 digest h/nine && [ "$(cat out)" = 'e3069283  h/nine' ] &&
		run 0 digest h/nine@2+3 -j && json 'd["crc32c"] == "107acb65" and d["bytes"] == 3' &&
		cp exports/nine nine && run 0 digest nine && [ "$(cat out)" = 'e3069283  nine' ] &&
		run 0 digest ./exports/nine -j && json 'd["file"] == "./exports/nine" and d["bytes"] == 9' &&
		run 0 digest - < data && crc=$(cut -c 1-8 out) && run 0 digest "$PWD/data" &&
		[ "$(cut -c 1-8 out)" = "$crc" ] && run 0 put data h/scratch && run 0 digest "h/scratch@0+$(stat -c %s data)" &&
		[ "$(cut -c 1-8 out)" = "$crc" ]
}
check "digest" digests
check "digest outside of the region" fails 1 'outside' digest h/small@1001
check "digest of nothing" fails 2 'one region or file' digest
check "digest of no file" fails 5 'cannot open it: No such file' digest none
check "digest of a directory" fails 1 'cannot read it: Is a directory' digest exports
check "digest of a file in another directory" fails 2 "'./exports/nine' is the file" digest exports/nine
check "digest of neither" fails 2 "begins with '/' or '.'" digest nowhere/
numbers()
{
	head -c 16 /dev/zero > exports/numbers
	run 0 atomic add 40 h/numbers@8 && [ "$(cat out)" = 0 ] &&
		run 0 atomic add 2 h/numbers@8+8 && [ "$(cat out)" = 40 ] &&
		run 0 atomic cas 42 0x100 h/numbers@8 && [ "$(cat out)" = 42 ] &&
		run 9 atomic cas 42 7 h/numbers@8 && [ "$(cat out)" = 256 ] && [ ! -s err ] &&
		run 0 atomic add 0 h/numbers@8 -j && json 'd["before"] == 256 and d["done"] == True' &&
		cmp -n 8 exports/numbers /dev/zero
}
check "atomic add and cas" numbers
check "atomic with a read-only export" fails 6 "'model' is read-only" atomic add 1 h/model
check "atomic of no such kind" fails 2 "'or' is neither" atomic or 1 h/numbers
check "atomic add of nothing" fails 2 'a value and a region' atomic add h/numbers
check "atomic cas of one value" fails 2 'an old value, a new one and a region' atomic cas 1 h/numbers
check "atomic add of a word" fails 2 "'x' is not a number" atomic add x h/numbers
check "atomic on 4 bytes" fails 2 'not of the form' atomic add 1 h/numbers@0+4
verifies()
{
	head -c 3000000 /dev/zero > exports/verified
	run 0 put --verify data h/scratch@0+20000001 -q && grep -q '^verify 1048576' log &&
		run 0 get --verify h/verified copy -q && grep -q '^verify ' log &&
		run 0 get h/verified copy -q && ! grep -q '^verify ' log
}
check "put --verify and get --verify" verifies
durable()
{
	KRDMA_FAKE_DURABLE=1 run 0 put --durable data h/scratch@4096 -q &&
		grep -q "^flush $(stat -c %s data) at 4096" log &&
		KRDMA_FAKE_DURABLE=1 run 0 put --durable /dev/null h/scratch -q && ! grep -q '^flush ' log &&
		KRDMA_FAKE_DURABLE=1 run 0 put data h/scratch -q && ! grep -q '^flush ' log
}
check "put --durable" durable
# The WRITE takes 0.3 s, and so does the flush.
flush_time()
{
	KRDMA_FAKE_DELAY_MS=300 KRDMA_FAKE_DURABLE=1 run 0 put -j --durable small2 h/scratch &&
		json 'd["seconds"] >= 0.6'
}
head -c 1000 data > small2
check "the time that put --durable tells includes the flush" flush_time
check "put --durable to volatile memory" fails 1 "'scratch' is not durable" put --durable data h/scratch
check "get --durable" fails 2 "--durable is for 'put'" get --durable h/scratch copy

# ---- send and recv ----

# receiving ARGUMENT...: krdma recv in the background, from when it says that peers can send.
# What it prints goes to the file heard.
receiving()
{
	local ready

	end_receiver
	rm -f line exports/new exports/.new
	: > log
	mkfifo line
	LD_PRELOAD=$fake "$krdma" recv "$@" > "${heard:-heard}" 2> line &
	receiver=$!
	exec 9< line
	rm line
	read -r -t 60 -u 9 ready
	[[ $ready = 'receiving as new' || $ready = *'"notice":'*'"receiving as new"'* ]]
}
# received STATUS: it ends with the status; its output is in out, what it said later in err
received()
{
	local got

	timeout 60 cat <&9 > err || kill -KILL "$receiver"
	exec 9<&-
	wait "$receiver"
	got=$?
	receiver=
	cp heard out
	[ "$got" = "$1" ] || { echo "# exit status $got: krdma recv"; return 1; }
	[ ! -e exports/new ]
}
# between COMMAND...: recv stands meanwhile, and finds all that was sent when it goes on
between()
{
	local rc

	kill -STOP "$receiver"
	"$@"
	rc=$?
	kill -CONT "$receiver"
	return $rc
}
# says LINE...: these lines are in out, and no others; each is of a message from this user
says()
{
	printf "10.0.0.1 uid $(id -u) value %s\n" "$@" | cmp - out
}
# lines TEXT...: one on each line
lines() { printf '%s\n' "$@"; }
# jsons: as json, with a document on each line; d is the list of them
jsons()
{
	python3 -c '
import json, sys
d = [json.loads(line) for line in open("out")]
assert all(m["schema"] == 1 for m in d)
assert eval(sys.argv[1]), d' "$1"
}
# message TEXT FLAGS ADDRESS: a message as the kernel gives it, from anybody
message()
{
	(cd exports && python3 -c '
import socket, struct, sys
data, flags = sys.argv[1].encode(), int(sys.argv[2])
addr = socket.inet_pton(socket.AF_INET6, sys.argv[3])
size = (64 + len(data) + 7) // 8 * 8
head = struct.pack("=IIQQIIHHI16sII", size, len(data), 2**63, 9, 1234, flags,
		   socket.AF_INET6, 7471, 0, addr, 5, 0)
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.sendto((head + data).ljust(size, b"\0"), ".new")' "$@")
}
# The end of the message queue, as if the export were gone
no_more()
{
	(cd exports && python3 -c '
import socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"", ".new")')
}

argument()
{
	receiving new -n 2 && grep -q '^export new length 1 rights 16 flags 1 seals 2 ' log &&
		grep -q '^message queue flags 1$' log &&
		run 0 send h/new 'hello there' && [ ! -s out ] && [ ! -s err ] &&
		grep -q '^connect 10.0.0.2 .* messages$' log && grep -q '^open new rights 16$' log &&
		run 0 send h/new '' && received 0 && [ ! -s err ] && says '0: hello there' 0
}
check "send of an argument, recv -n" argument
value()
{
	receiving new -n 2 && run 0 send h/new --value 18446744073709551615 x &&
		run 0 send --value 0x2a h/new '' && received 0 && says '18446744073709551615: x' 42
}
check "send --value" value
stdin()
{
	printf 'a\\b\n\0\177~ \303\251' > odd
	receiving new -n 2 && run 0 send h/new < odd && run 0 send h/new < /dev/null && received 0 &&
		says '0: a\x5cb\x0a\x00\x7f~ \xc3\xa9' 0
}
check "send of standard input, with bytes that recv does not print" stdin
raw()
{
	head -c 4096 data > longest
	receiving new -n 4 --raw && run 0 send h/new < longest && run 0 send h/new '' &&
		run 0 send h/new < odd && run 0 send h/new "$(printf 'x%.0s' {1..4096})" && received 0 &&
		cat longest odd <(printf 'x%.0s' {1..4096}) | cmp - out
}
check "messages of 4096 bytes, recv --raw" raw
too_long()
{
	receiving new -n 1 &&
		fails 1 'a message has 4096 bytes at most' send h/new "$(printf 'x%.0s' {1..4097})" &&
		fails 1 'a message has 4096 bytes at most' send h/new < <(head -c 4097 data) &&
		fails 1 'a message has 4096 bytes at most' send h/new < <(cat data) &&
		run 0 send h/new short && received 0 && says '0: short'
}
check "messages of 4097 bytes" too_long
by_line()
{
	receiving new -n 5 &&
		run 0 send h/new --lines --value 7 < <(printf 'one\n\ntwo\0\n three\nfour') &&
		[ ! -s out ] && received 0 && says '7: one' 7 '7: two\x00' '7:  three' '7: four'
}
check "send --lines" by_line
no_lines()
{
	receiving new -j && run 0 send h/new --lines < /dev/null && kill "$receiver" &&
		received 0 && [ ! -s out ]
}
check "send --lines of nothing" no_lines
long_line()
{
	receiving new -n 1 &&
		fails 1 'a message has 4096 bytes at most' send h/new --lines \
			< <(echo good && printf 'x%.0s' {1..4097} && printf '\nlater\n') &&
		received 0 && says '0: good'
}
check "send --lines up to a line that is too long" long_line
many()
{
	receiving new -n 2000 --raw && run 0 send h/new --lines < <(seq -w 2000) && received 0 &&
		seq -w 2000 | tr -d '\n' | cmp - out
}
check "more messages than there is room for come once, in their order" many
json_send()
{
	receiving new -n 4 --discard && run 0 send h/new hello -j &&
		json 'd == {"schema": 1, "region": "h/new", "messages": 1, "bytes": 5}' &&
		run 0 send h/new -j --lines < <(lines a bc '') &&
		json 'd["messages"] == 3 and d["bytes"] == 3' && received 0
}
check "send -j" json_send
op_of_send_fails()
{
	receiving new -n 1 && KRDMA_FAKE_FAIL_OP=2:104 fails 4 \
		"krdma: send h/new: operation 2 on 'new' failed on purpose" \
		send h/new --lines < <(lines 1 2 3) && [ ! -s out ] && received 0 && says '0: 1'
}
check "a message of send fails: the kernel's error text" op_of_send_fails
nobody_reads()
{
	receiving new && between fails 4 "'new' takes no message: Connection timed out" \
		send h/new --lines --timeout 0.1 < <(yes) && kill "$receiver" && received 0
}
check "send --timeout while the queue is full" nobody_reads
check "send to memory alone" fails 6 "'small' is not for messages" send h/small x
check "send to nobody" fails 5 "the peer has no export 'none'" send h/none x
check "send to an offset" fails 2 "'h/small@8' is not of the form HOST[:PORT]/NAME (" \
	send h/small@8 x
check "send to a range" fails 2 "'h/small@0+8' is not of the form" send h/small@0+8 x
check "send to a host" fails 2 "'h' is not of the form" send h x
check "send to nothing" fails 2 'a region is needed, and one message at most' send
check "send of two messages" fails 2 'one message at most' send h/small x y
check "send --lines of an argument" fails 2 '--lines is for standard input' send --lines h/small x
check "send --value of a word" fails 2 "'x' is not a number" send --value x h/small
check "send --timeout of a word" fails 2 "'x' is not a time" send --timeout x h/small

recv_json()
{
	receiving new -j -n 4 && run 0 send h/new --value 9007199254740993 'a"\b' &&
		run 0 send h/new '' && run 0 send h/new $'\xc3\xa9' && run 0 send h/new $'tab\t' &&
		received 0 && jsons 'd[0] == {"schema": 1, "peer": "10.0.0.1", "uid": '"$(id -u)"',
			"session": 3, "value": 2**53 + 1, "written": False, "bytes": 4, "text": "a\"\\b"}' &&
		jsons '[m["bytes"] for m in d] == [4, 0, 2, 4] and d[1]["text"] == ""' &&
		jsons '[m.get("hex") for m in d] == [None, None, "c3a9", "74616209"]' &&
		jsons '["text" in m for m in d] == [True, True, False, False]'
}
check "recv --json" recv_json
recv_pretty()
{
	receiving new -p -n 1 && run 0 send h/new < longest && received 0 && [ "$(wc -l < out)" -gt 5 ] &&
		json 'bytes.fromhex(d["hex"]) == open("longest", "rb").read()'
}
check "recv --pretty of 4096 bytes" recv_pretty
anybody()
{
	receiving new -n 2 && message there 0 fd00::7 && message '' 1 fd00::8 && received 0 &&
		[ "$(cat out)" = "$(lines '[fd00::7]:7471 uid 1234 value 9223372036854775808: there' \
			'[fd00::8]:7471 uid 1234 value 9223372036854775808 written')" ] &&
		receiving new -n 1 -j && message '' 1 fd00::8 && received 0 &&
		json 'd["written"] and (d["peer"], d["session"]) == ("[fd00::8]:7471", 9)'
}
check "recv says which peer has sent, and that bytes were written" anybody
enough()
{
	receiving new -n 2 && between run 0 send h/new --lines < <(lines 1 2 3 4) && received 0 &&
		says '0: 1' '0: 2'
}
check "recv -n of more that are there" enough
in_time()
{
	run 4 recv new --timeout 0.05 && [ ! -s out ] && [ ! -e exports/new ] &&
		[ "$(cat err)" = "$(lines 'receiving as new' 'krdma: recv new: no message has come in time')" ]
}
check "recv --timeout" in_time
last_words()
{
	receiving new && between eval "run 0 send h/new --lines < <(lines a b) && kill -$1 \$receiver" &&
		received 0 && [ ! -s err ] && says '0: a' '0: b'
}
check "SIGTERM ends recv, after what is there" last_words TERM
check "so does SIGINT" last_words INT
at_once()
{
	receiving new && run 0 send h/new first && timeout 60 tail -n +1 -f heard | grep -qm1 first &&
		kill "$receiver" && received 0
}
check "recv prints a message when it comes" at_once
memory()
{
	receiving new -n 1 -s 64K && grep -q '^export new length 65536 rights 19 ' log && run 0 ls h &&
		grep -q '^new  *64.0 KiB  *read,write,message$' out && run 0 put -q small_file h/new@8 &&
		run 0 get -q h/new@8+10 - && cmp out small_file && run 0 send h/new x && received 0 &&
		says '0: x'
}
check "recv -s" memory
no_memory()
{
	receiving new -n 1 && run 0 ls h -j && json '[e["rights"] for e in d["exports"]
			if e["name"] == "new"] == [["message"]]' &&
		fails 6 "'new' is for messages only" get h/new copy &&
		fails 6 "'new' is read-only" put small_file h/new@0+1 && run 0 send h/new x && received 0
}
check "recv without memory" no_memory
discards()
{
	receiving new -n 3 --discard && run 0 send h/new --lines < <(lines 1 2 3) && received 0 &&
		[ ! -s out ] && [ ! -s err ]
}
check "recv --discard" discards
recv_full()
{
	: > heard
	heard=/dev/full receiving new && run 0 send h/new x && received 7 &&
		[ "$(cat err)" = \
			'krdma: recv new: cannot write to standard output: No space left on device' ]
}
check "recv with output that can't be written" recv_full
gone()
{
	receiving new && run 0 send h/new last && no_more && received 5 && says '0: last' &&
		[ "$(cat err)" = "krdma: recv new: the message queue can't be read: the export has ended" ]
}
check "recv when its export ends" gone
check "recv as a name that is taken" fails 7 "recv small: the name 'small' is taken" recv small
check "recv --raw --json" fails 2 '--raw, --discard and --json exclude each other' recv --raw -j new
check "recv --raw --discard" fails 2 'exclude each other' recv --raw --discard new
check "recv --discard --pretty" fails 2 'exclude each other' recv --discard -p new
check "recv as nobody" fails 2 'one name is needed' recv
check "recv as two" fails 2 'one name is needed' recv new newer
check "recv -n 0" fails 2 "'0' is not a number of messages" recv -n 0 new
check "recv -s 0" fails 2 "'0' is not a size" recv -s 0 new
check "recv --timeout of a word" fails 2 "'x' is not a time" recv --timeout x new

# ---- ping and bench ----

pings()
{
	run 0 ping -c 3 -v h && [ "$(grep -c '^64 bytes: seq=' out)" = 3 ] &&
		grep -q '^min/avg/max/p50/p99/p99.9/stddev = 150.0/151.0/152.0/151.0/152.0/152.0/0.8 us$' out
}
check "ping" pings
check "ping -j" eval 'run 0 ping -j h && json "d[\"count\"] == 10 and d[\"min_us\"] == 150"'
check "ping of too much" fails 2 'not a size' ping -s 513 h
benches()
{
	KRDMA_FAKE_DELAY_MS=20 run 0 bench write h/scratch -s 4K -n 1001 &&
		grep -qxF ' #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]' out &&
		awk 'NR == 2 { good = NF == 5 && $1 == 4096 && $2 == 1001 && $3 >= $4 && $4 > 0 } END { exit !good }' out &&
		grep -q 'submits_max 0 operations 1065 under_way_max 64 ' log
}
check "bench write" benches
all()
{
	run 0 bench r h/small -a -n 10 --report_gbits && grep -qF 'BW peak[Gb/sec]' out &&
		[ "$(awk 'NR > 1 { printf "%s ", $1 }' out)" = '2 4 8 16 32 64 128 256 512 ' ]
}
check "bench read -a stops at the region's length" all
latency()
{
	run 0 bench read h/scratch -s 8 -n 50 --latency && grep -qF 't_typical[usec]' out &&
		awk 'NR == 2 { good = NF == 9 && $3 <= $5 && $5 <= $4 } END { exit !good }' out &&
		grep -q 'submits_max 1 operations 51' log
}
check "bench --latency" latency
deep_latency()
{
	KRDMA_FAKE_DELAY_MS=20 run 0 bench write h/scratch -s 8 -n 64 --latency -t 16 &&
		awk 'NR == 2 { good = NF == 9 && $2 == 64 && $3 >= 20000 && $5 >= $3 && $8 >= $5 }
			END { exit !good }' out &&
		grep -q 'operations 80 under_way_max 16 ' log
}
check "bench --latency -t 16" deep_latency
sessions()
{
	KRDMA_FAKE_DELAY_MS=20 run 0 bench read h/scratch -s 4K -n 100 -t 8 -q 3 -b -j &&
		[ "$(grep -c '^connect .* private' log)" = 3 ] &&
		[ "$(grep -c '^open scratch rights 3' log)" = 3 ] &&
		grep -q 'operations 148 under_way_max 48 ' log &&
		json 'd["sessions"] == 3 and d["bidirectional"] and d["engine"] == "ioctl"' &&
		json '(d["results"][0]["depth"], d["results"][0]["iterations"]) == (8, 100)' &&
		json 'd["results"][0]["bw_average"] > 0 and d["results"][0]["t_p99_us"] >= 20000'
}
check "bench -t 8 -q 3 -b -j" sessions
# One operation of each: the WRITE, of memory that holds nothing, changes its half only.
both()
{
	local rc

	head -c 65536 data > exports/two && tail -c 32768 exports/two > half &&
		run 0 bench write h/two -s 32K -n 2 -t 1 -b && cmp -n 32768 exports/two /dev/zero &&
		tail -c 32768 exports/two | cmp - half
	rc=$?
	rm exports/two
	return $rc
}
check "bench -b writes as much as it reads" both
batches()
{
	KRDMA_FAKE_DELAY_MS=5 run 0 bench write h/scratch -s 4K -n 102 -t 16 -l 4 "$@" &&
		grep -q 'operations 118 under_way_max 16 batch_max 4$' log
}
check "bench -l 4" batches
check "bench -l 4 --engine uring" batches --engine uring
taken_in_part()
{
	KRDMA_FAKE_ACCEPT=3 run 0 bench write h/scratch -s 4K -n 100 -t 16 &&
		grep -q 'operations 116 ' log
}
check "bench with a module that takes a part of a batch" taken_in_part
too_deep()
{
	KRDMA_FAKE_OPS_MAX=16 fails 1 '34 operations would be under way, the module takes 16' \
		bench write h/scratch -t 17 -q 2
}
check "bench deeper than the module" too_deep
uring()
{
	run 0 bench read h/scratch -s 4K -n 100 -t 16 -q 2 --engine uring -j && ! grep -q '^buffer' log &&
		grep -q '^uring buffer 8388608' log && grep -q 'operations 132 under_way_max 32 ' log &&
		json 'd["engine"] == "uring" and d["results"][0]["iterations"] == 100'
}
check "bench --engine uring" uring
uring_pinned()
{
	run 0 bench write h/scratch -n 10 --engine uring --pinned && ! grep -q 'buffer' log
}
check "bench --engine uring --pinned" uring_pinned
uring_fails()
{
	KRDMA_FAKE_FAIL_OP=500:104 run 4 bench write h/scratch --engine uring &&
		grep -q 'operation 500 on' err
}
check "bench --engine uring with an operation that fails" uring_fails
no_uring()
{
	KRDMA_FAKE_NO_URING=1 fails 6 'Operation not permitted: see /proc/sys/kernel/io_uring_disabled' \
		bench write h/scratch --engine uring
}
check "bench --engine uring where io_uring is disabled" no_uring
check "bench --engine of no such name" fails 2 "'aio' is no engine: ioctl or uring" \
	bench read h/small --engine aio
check "bench -q 0" fails 2 "'0' is not a number of sessions, 1 to 64" bench read h/small -q 0
check "bench -q of too many" fails 2 "'65' is not a number of sessions" bench read h/small -q 65
check "bench -l 0" fails 2 "'0' is not a batch, 1 to 1024" bench read h/small -l 0
check "bench --depth of too many" fails 2 "'1025' is not a depth" bench read h/small --depth 1025
check "bench atomic" eval 'run 0 bench atomic h/scratch -n 20 -t 4 && grep -q "^ 8 " out'
check "bench atomic of a size" fails 2 '8 bytes' bench atomic h/scratch -s 16
check "bench -b of a read-only export" fails 6 "'model' is read-only" bench read h/model -b
# bench_sends COUNT SIZE ARGUMENT...: bench with these sends so many messages, of so many bytes
# in all, and nothing is lost
bench_sends()
{
	local count=$1 size=$2

	shift 2
	receiving new -n $((count + 1)) --raw && run 0 bench "$@" && cp out table && cp log sent &&
		run 0 send h/new last && received 0 && [ "$(tail -c 4 out)" = last ] &&
		[ "$(wc -c < out)" = $((size + 4)) ]
}
bench_send()
{
	bench_sends 208 851968 send h/new -n 200 -t 8 && grep -q '^ 4096  *200 ' table &&
		grep -q '^connect .* timeout 0 resume 0 messages$' sent && grep -q '^open new rights 16$' sent &&
		grep -q 'operations 208 under_way_max 8 ' sent
}
check "bench send" bench_send
send_sizes()
{
	bench_sends 132 90090 s h/new -a -n 10 -t 1 &&
		[ "$(awk 'NR > 1 { printf "%s ", $1 }' table)" = '2 4 8 16 32 64 128 256 512 1024 2048 4096 ' ]
}
check "bench send -a" send_sizes
send_sessions()
{
	bench_sends 116 1160 send h/new -s 10 -n 100 -t 8 -q 2 &&
		[ "$(grep -c '^connect .* private messages$' sent)" = 2 ]
}
check "bench send -s 10 -q 2" send_sessions
check "bench send --engine uring" bench_sends 116 7424 send h/new -s 64 -n 100 -t 16 --engine uring
check "bench send --pinned --latency" bench_sends 21 1344 send h/new -s 64 -n 20 --pinned --latency
# matrix ARGUMENT...: bench --matrix, which prints JSON that is what it has written
matrix()
{
	run 0 bench --matrix m.json -j "$@" && python3 -c 'import json
assert json.load(open("out")) == json.load(open("m.json"))' &&
		json '[k for k in ("kernel", "cpus", "module", "device") if k not in d["environment"]] == []' &&
		json 'all(r["bw_average"] > 0 and r["t_min_us"] <= r["t_typical_us"] <= r["t_p99_us"] for r in d["results"])'
}
cells='[(r["operation"], r["bytes"], r["depth"]) for r in d["results"]]'
matrix_cells()
{
	matrix --sizes 512,4K --depths 1,8 -n 20 h/scratch && json "$cells == [(o, b, n)
		for o in ('read', 'write', 'atomic') for n in (1, 8) for b in ((8,) if o == 'atomic' else (512, 4096))]" &&
		json 'all(r["iterations"] == 20 for r in d["results"])' && grep -q 'under_way_max 8 ' log
}
check "bench --matrix has each operation, size and depth" matrix_cells
matrix_fits()
{
	matrix --sizes 512,4K --depths 1 -n 4 h/small &&
		json "$cells == [('read', 512, 1), ('write', 512, 1), ('atomic', 8, 1)]" &&
		matrix --sizes 4K --depths 1 -n 4 h/model && json "$cells == [('read', 4096, 1)]"
}
check "bench --matrix does what fits, and what the region allows" matrix_fits
matrix_sends()
{
	receiving new --discard && matrix --sizes 8,4K,64K --depths 2 -n 10 --messages new h/scratch && end_receiver &&
		json "[c for c in $cells if c[0] == 'send'] == [('send', 8, 2), ('send', 4096, 2)]"
}
check "bench --matrix --messages" matrix_sends
drawn()
{
	printf '#!/bin/sh\ncat >script\necho drawing\n' > gnuplot && chmod +x gnuplot &&
		PATH=$PWD:$PATH run 0 bench --matrix m.json --sizes 4K --depths 1,4 -n 4 h/scratch &&
		[ "$(cat m.svg)" = drawing ] && [ "$(grep -c '^plot ' script)" = 6 ] &&
		[ "$(grep -o "title 'depth 4'" script | wc -l)" = 6 ] && rm gnuplot m.svg
}
check "bench --matrix is drawn beside its file" drawn
draws_badly()
{
	printf '#!/bin/sh\nexit 1\n' > gnuplot && chmod +x gnuplot &&
		PATH=$PWD:$PATH fails 1 "gnuplot has failed to draw 'm.svg'; 'm.json' has the results" \
			bench --matrix m.json --depths 1 -n 4 -j h/scratch || return
	rm gnuplot
}
check "bench --matrix with a gnuplot that fails" draws_badly
no_gnuplot()
{
	mkdir bare && ln -s "$(command -v env)" "$(command -v timeout)" bare &&
		PATH=$PWD/bare run 0 bench --matrix m.json --depths 1 -n 4 h/scratch && [ ! -e m.svg ] &&
		grep -qF "'m.json' has the results; nothing is drawn, as there is no gnuplot (Debian package gnuplot-nox)" err
}
rm -f m.svg
check "bench --matrix without gnuplot" no_gnuplot
kept()
{
	KRDMA_FAKE_FAIL_OP=40:104 run 4 bench --matrix m.json --sizes 4K --depths 1,2 -n 20 h/scratch
	cp m.json out && json "$cells == [('read', 4096, 1)]"
}
check "bench --matrix keeps what was measured before a failure" kept
check "bench --matrix of a list that is none" fails 2 "'4K,,8K' is no list of sizes" \
	bench --matrix m.json --sizes 4K,,8K h/scratch
check "bench --matrix of a depth that is none" fails 2 "'1,1025' is no list of depths" \
	bench --matrix m.json --depths 1,1025 h/scratch
check "bench --matrix with a size" fails 2 'of its own' bench --matrix m.json -s 4K h/scratch
check "bench --matrix with an operation" fails 2 'no operation' bench --matrix m.json read h/scratch
check "bench --sizes alone" fails 2 'are for --matrix' bench --sizes 4K read h/scratch
check "bench --matrix to a file that can't be" fails 5 "cannot write '/nonexistent/m.json'" \
	bench --matrix /nonexistent/m.json h/scratch
check "bench send to memory alone" fails 6 "'small' is not for messages" bench send h/small
check "bench send of a size" fails 2 'a message has 4096 bytes at most' bench send h/small -s 4097
check "bench send -b" fails 2 'there is no -b' bench send h/small -b
check "bench send to a range" fails 2 'no offset and no length' bench send h/small@0+8
check "bench send --verify" fails 2 "--verify is for 'read' and 'write'" bench send h/small --verify
check "bench send --unplaced" fails 2 "--unplaced is for 'write'" bench send h/small --unplaced
duration()
{
	KRDMA_FAKE_DELAY_MS=10 run 0 bench write h/scratch -D 0.3 -j &&
		json 'd["results"][0]["bytes"] == 65536 and d["results"][0]["iterations"] > 64'
}
check "bench -D -j" duration
pinned() { run 0 bench write h/scratch -n 10 --pinned && ! grep -q '^buffer' log; }
check "bench --pinned" pinned
one() { run 0 bench write h/scratch -n 10 -t 1 && grep -q 'submits_max 1 ' log; }
check "bench -t 1" one
bench_fails()
{
	KRDMA_FAKE_FAIL_OP=500:104 run 4 bench write h/scratch && grep -q 'operation 500 on' err
}
check "bench with an operation that fails" bench_fails
check "bench of more than there is" fails 1 'the range has 1000 B' bench read h/small
check "bench -n -D" fails 2 'exclude each other' bench read h/small -n 1 -D 1

# ---- serve and cp ----

# serving ARGUMENT...: krdma serve of the directory 'served', from when peers can use it
serving()
{
	# That of the one before.
	rm -f serve.out && mkfifo serve.out
	LD_PRELOAD=$fake "$krdma" serve served "$@" > serve.out 2> serve.err &
	server=$!
	read -r published < serve.out
}
# while_served COMMAND...: until it succeeds; or the server has ended
while_served()
{
	until "$@" > /dev/null; do kill -0 "$server" && sleep 0.01 || return; done
}
serve_ends()
{
	kill "$server" && wait "$server" && [ ! -e "exports/${1:-served}" ]
}
tree()
{
	mkdir -p served tree/void && echo one > tree/one && ln -s one tree/link && : > tree/empty &&
		head -c 3000000 /dev/urandom > model3 && cp model3 tree/model && truncate -s 1G tree/sparse && chmod 640 tree/one &&
		serving && [ "$published" = 'serving served as served' ]
}
check "serve" tree
to_share()
{
	run 0 cp -r tree h/served: && diff -r --no-dereference tree served/tree && [ ! -s out ] &&
		grep -Eq '^cp: 7 files, 2.9 MiB in ' err && [ "$(stat -c %a served/tree/one)" = 640 ] &&
		du -k served/tree/sparse | grep -q '^0[^0-9]'
}
check "cp -r to a share" to_share
from_share() { run 0 cp -r h/served:tree back && diff -r --no-dereference tree back; }
check "cp -r from a share" from_share
once_more() { run 0 cp -r -j tree h/served: && json 'd["bytes_sent"] == 0 and d["files"] == 7 and d["bytes"] < 4000000'; }
check "cp of what is there sends nothing" once_more
all() { run 0 cp -a -I -j tree h/served: && json 'd["bytes_sent"] == 4'; }
check "cp -a -I sends short files once more, and of long ones what differs" all
with_bar() { run 0 cp -I --progress tree/model h/served: && grep -q ' 100%  2.9 MiB .* ETA 0:00.*cp: 1 file, ' err; }
check "cp --progress" with_bar
several() { run 0 cp -q tree/one tree/model h/served:a/ h/served:b/ && cmp model3 served/b/model &&
	cmp tree/one served/a/one && [ ! -s err ]; }
check "cp of two files to two destinations" several
check "cp of two files of one name" fails 2 "'tree/one' and 'served/tree/one' have one name" cp tree/one served/tree/one h/served:
check "cp of two files of one name from a share" fails 2 "a/one and h/served:tree/one have one name" cp h/served:a/one h/served:tree/one copy
merged() { run 0 cp -r -q tree served/tree h/served:both/ && diff -r --no-dereference tree served/both/tree && rm -r served/both; }
check "cp of two directories of one name" merged
named() { run 0 cp -q --sync h/served:a/one copy && cmp copy tree/one; }
check "cp under another name, --sync" named
to_pipe() { "$@" | cat > piped; [ "${PIPESTATUS[0]}" = 0 ]; }
to_stdout()
{
	run 0 cp -q h/served:a/one - && cmp out tree/one && run 0 cp h/served:a/model - && cmp out model3 &&
		grep -q '^cp: 1 file, 2.9 MiB in ' err && run 0 cp -q h/served:tree/sparse - && [ "$(stat -c %s out)" = 1073741824 ] &&
		truncate -s 5M piped && truncate -s 3M served/holes && cat model3 >> served/holes && truncate -s 6M served/holes &&
		LD_PRELOAD=$fake to_pipe "$krdma" cp -q h/served:holes - && cmp piped served/holes
}
check "cp to standard output" to_stdout
check "cp of a directory to it" fails 1 'tree is a directory, which needs -r' cp h/served:tree -
check "cp of two files to it" fails 2 'one file is copied' cp h/served:a/one h/served:a/model -
check "cp of JSON and bytes to it" fails 2 "can't both go" cp -j h/served:a/one -
full() { ! LD_PRELOAD=$fake "$krdma" cp -q h/served:a/model - > /dev/full 2> err && grep -q "standard output can't be written: No space" err; }
check "cp to a full standard output" full
check "get of a share" fails 1 "it is a share: 'h/served:PATH' is a file of it" get h/served out2
got() { run 0 get -q "h/served:$1" out2 && cmp "served/$1" out2 && rm out2; }
got_one() { cp tree/one served/one && got one && rm served/one; }
check "get of a share's file" got_one
check "get of a file in a directory of a share" got a/one
got_bytes() { run 0 get -q h/served:a/one - && cmp served/a/one out; }
check "get of a share's file to standard output" got_bytes
put_file() { run 0 put --verify --durable -j tree/model "h/served:$1" && cmp tree/model "served/$1" && json 'd["command"] == "cp"' && rm "served/$1"; }
check "put to a share's file" put_file put
check "put to a file in a directory of a share" put_file a/put
check "put of standard input to it" fails 2 "standard input can't be copied" put - h/served:one
check "get of it with --depth" fails 2 "are for exports" get -Q 4 h/served:one out2
check "get of what the share has not" fails 5 "nothing: No such file" get h/served:nothing out2
check "get from a share that there is not" fails 5 "h/nothing" get h/nothing:one out2
check "get of what is neither" fails 2 "of none of the forms" get h/a/b out2
other_commands()
{
	run 5 digest h/served:one && run 5 bench read h/served:one && run 5 send h/served:one x &&
		run 5 atomic add 1 h/served:one
}
check "other commands with a share's file" other_commands
flipped()
{
	KRDMA_FAKE_FLIP=100000 fails 8 'bytes have come that are not those that were sent' \
		cp -q -I "$@"
}
check "cp to a share of bytes that change on the way" flipped tree/model h/served:c
check "is no file there" [ ! -e served/c ]
check "cp from a share of bytes that change on the way" flipped h/served:a/model c
check "is no file here" [ ! -e c ]
check "cp of a directory without -r" fails 1 'tree is a directory, which needs -r' cp tree h/served:
check "cp of what is not there" fails 5 'nothing/here' cp nothing/here h/served:
# What is no file does not become one.
devices()
{
	mkfifo served/fifo there && ln -s /dev/null null && fails 7 "fifo can't be made: File exists" cp -q tree/one h/served:fifo &&
		fails 7 "fifo can't be made: File exists" cp -q tree/model h/served:fifo && [ -p served/fifo ] &&
		fails 7 "there is no regular file; '-' is" cp h/served:a/one there && [ -p there ] &&
		fails 7 'null is no regular file' get h/served:a/one null && [ -L null ] && rm served/fifo there null
}
check "cp over what is no file" devices
check "cp of a file that has bytes and no length" fails 1 'cpuinfo has bytes, and a length of 0' cp /proc/cpuinfo h/served:
check "is no file there" [ ! -e served/cpuinfo ]
check "cp of a file that is shorter than its length" fails 7 'mtu has changed while it was read' cp /sys/class/net/lo/mtu h/served:
check "is no file there" [ ! -e served/mtu ]
check "cp from what is not there" fails 5 'nothing/here: No such file' cp h/served:nothing/here .
check "cp to a directory that is not there" fails 5 'a/none/x: No such file' cp tree/one h/served:a/none/x
check "cp out of the share" fails 6 'h/served: ../x: it leads out of the share' cp tree/one h/served:../x
check "cp from out of the share" fails 6 'it leads out' cp h/served:../model .
check "cp to memory" fails 6 'is not for messages' cp tree/one h/scratch:
check "cp to no share" fails 5 "no export 'none'" cp tree/one h/none:
check "cp within this host" fails 2 'HOST[:PORT]/SHARE:PATH' cp tree/one ./a/b:c
check "cp from share to share" fails 2 'HOST[:PORT]/SHARE:PATH' cp h/served:a h/served:b
check "cp with a source behind a destination" fails 2 "'x' is no destination" cp a h/served: x h/served:
check "cp of one operand" fails 2 'two operands' cp tree
pipe() { mkfifo served/pipe && fails 1 'pipe: it is no file or directory' cp h/served:pipe . && rm served/pipe; }
check "cp of a pipe from a share" pipe
shared_directory()
{
	mkdir -p served/pub pub && chmod 1777 served/pub && chmod 2755 pub && echo x > pub/x &&
		run 0 cp -q -r pub h/served: && [ "$(stat -c %a served/pub)" = 1755 ]
}
check "cp into a directory that is there leaves its sticky bit" shared_directory
full_disk()
{
	mkdir -p served/large small && head -c 6000000 /dev/urandom > served/large/big && echo x > served/large/z
	# shellcheck disable=SC2016 # for that shell
	unshare -m sh -c 'mount -t tmpfs -o size=1M none small && exec env LD_PRELOAD="$0" "$@"' \
		"$fake" "$krdma" cp -r -q h/served:large small/ 2> err
	[ $? = 7 ] && [ "$(grep -c 'No space left' err)" = 1 ] && grep -q 'the rest is not copied' err
}
[ "$(id -u)" != 0 ] || check "cp to a full disk ends" full_disk
listed() { KRDMA_FAKE_SESSION=3 run 0 cp -q tree/model h/served:listed && cmp model3 served/listed; }
check "cp in a session that serve can see" listed
hellos()
{
	local a=AAAAAAAAAAAAAAAA b=BBBBBBBBBBBBBBBB

	printf 'kdmfile1\2\0\0\0\0\0\0\0%s\n' $a $b | KRDMA_FAKE_SESSION=5 run 0 send --lines h/served || return
	while_served grep -q $b exports/served || return
	! grep -q $a exports/served && [ "$(compgen -G 'exports/served:*')" = "exports/served:${a//A/41}" ] || return
	# It says bye.
	KRDMA_FAKE_SESSION=5 run 0 send "h/served:${a//A/41}" bye --value $((5 << 56)) || return
	while_served test ! -e "exports/served:${a//A/41}"
}
check "a second client in one session is refused" hellos
others_say()
{
	local first place

	rm -f served/d && KRDMA_FAKE_DELAY_MS=100 LD_PRELOAD=$fake "$krdma" cp -q tree/model h/served:d &
	first=$!
	until place=$(cd exports && compgen -G 'served:*') || ! kill -0 $first; do sleep 0.01; done
	KRDMA_FAKE_SESSION=4 run 0 send h/"$place" 'longer than a message without bytes' &&
		wait $first && cmp model3 served/d
}
check "cp while another one sends messages to its export" others_say
check "SIGTERM ends serve" serve_ends
read_only() { serving --name fixed --read-only && fails 6 'the share is read-only' cp tree/one h/fixed: &&
	run 0 cp -q h/fixed:a/one copy2 && serve_ends fixed; }
check "serve --read-only" read_only
few_clients()
{
	local first

	serving --name few --max-clients 1 || return
	KRDMA_FAKE_DELAY_MS=300 LD_PRELOAD=$fake "$krdma" cp -q tree/one h/few:x &
	first=$!
	until compgen -G 'exports/few:*' > few || ! kill -0 $first; do sleep 0.01; done
	fails 7 'h/few: it has as many clients as it takes' cp -q tree/one h/few:y && wait $first &&
		cmp tree/one served/x && serve_ends few
}
check "serve --max-clients 1" few_clients
# It says hello, and no more: its place is another one's after some seconds.
silent_client()
{
	serving --name few --max-clients 1 || return
	printf 'kdmfile1\2\0\0\0\0\0\0\0%s\n' AAAAAAAAAAAAAAAA |
		KRDMA_FAKE_SESSION=5 run 0 send --lines h/few || return
	while_served compgen -G 'exports/few:41*' || return
	fails 7 'as many clients as it takes' cp -q tree/one h/few:y || return
	SECONDS=0
	until LD_PRELOAD=$fake "$krdma" cp -q tree/one h/few:y 2> err; do
		[ $SECONDS -lt 60 ] && grep -q 'as many clients' err || return
	done
	cmp tree/one served/y && ! compgen -G 'exports/few:41*' && serve_ends few
}
check "a client that asks for nothing makes room" silent_client
of_section()
{
	printf '%s\n' '[share of]' "directory = $PWD/served" read-only 'max-clients = 3' > conf
	rm -f serve.out && mkfifo serve.out
	LD_PRELOAD=$fake "$krdma" serve --config=conf -- of > serve.out 2> serve.err &
	server=$!
	read -r published < serve.out
	[ "$published" = "serving $PWD/served as of, read-only" ] &&
		[ "$(tr '\0' ' ' < "/proc/$server/cmdline")" = "krdma serve --read-only --max-clients 3 --name=of -- $PWD/served " ] &&
		serve_ends of
}
check "serve --config" of_section
check "serve --config of what is not there" fails 5 'there is no [share none]' serve --config=conf none
check "serve --config with options" fails 2 '--config excludes other options' serve --config=conf --read-only of
check "serve of no directory" fails 5 'nothing: No such file' serve nothing --name x
check "serve of two" fails 2 'one directory' serve a b
check "serve --name a:b" fails 2 "'a:b' is no name of a share" serve served --name a:b
check "serve --max-clients 0" fails 2 "'0' is not a number of clients" serve served --max-clients 0

# ---- Usage ----

check "no command" fails 2 'no command given'
check "no such command" fails 2 "'frob' is not a command" frob
check "an empty command" fails 2 "'' is not a command" ''
check "an ambiguous abbreviation" fails 2 "'l' is ambiguous: listen, ls" l
check "'list' is no short 'listen'" fails 2 "'lis' is ambiguous: listen, ls" lis
check "but 'ls'" fails 2 "ls: one host is needed" list
check "an abbreviation" run 0 dev
check "global options" eval 'run 0 -j dev && json "d[\"devices\"]"'
check "help" eval 'run 0 help && grep -q "^  bench " out'
check "-h" eval 'run 0 -h && grep -q "^  bench " out'
check "--version" eval 'run 0 --version && grep -q "^krdma [0-9]" out'
for command in listen export ls put get digest serve cp atomic send recv ping bench status devices help \
	version; do
	check "help $command" eval "run 0 help $command && grep -q '^Usage: krdma $command' out"
	check "$command --help" eval "run 0 $command --help && grep -q '^Usage: krdma $command' out"
	check "$command with a bad option" fails 2 "bad option '--frob' (see 'krdma help $command')" \
		"$command" --frob
done
check "an option without its value" fails 2 "option '-c' needs a value" ping h -c

echo "1..$tests"
[ $failures = 0 ]
