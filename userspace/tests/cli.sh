#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The krdma command over tests/fake.c: no kernel module, no network. Prints TAP.

cd "$(dirname "$0")/.." || exit 1
krdma=$PWD/krdma
fake=$PWD/build/tests/fake.so
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/exports"
cd "$work" || exit 1

export KRDMA_FAKE_DIR=$work/exports
export KRDMA_FAKE_LOG=$work/log
tests=0
failures=0

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
	KRDMA_FAKE_FAIL_OP=3:110 fails 1 \
		"krdma: put data h/scratch: operation 3 on 'scratch' failed on purpose" \
		put data h/scratch
}
check "an operation of put fails: the kernel's sentence" op_fails
op_fails_late()
{
	KRDMA_FAKE_FAIL_OP=15:104 KRDMA_FAKE_REVERSE=1 KRDMA_FAKE_DELAY_MS=5 fails 1 \
		"krdma: get h/scratch copy: operation 15 on 'scratch' failed on purpose" \
		get h/scratch copy
}
check "an operation of get fails in the middle" op_fails_late

keeps()
{
	cp small_file kept
	KRDMA_FAKE_FAIL_OP=1:110 fails 1 'failed on purpose' get h/small kept && cmp kept small_file &&
		fails 1 "the peer has no export 'none'" get h/none kept && cmp kept small_file &&
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
	KRDMA_FAKE_FAIL_OP=1:110 fails 1 'failed on purpose' put - h/scratch < pipe
	rc=$?
	exec 9>&-
	kill $! 2> kill_err
	return $rc
}
check "a failure ends a put that waits for its input" blocked

check "a full disk" fails 1 'cannot write /dev/full: No space left on device' get h/scratch /dev/full
check "a directory as destination" fails 1 'cannot write exports: Is a directory' get h/small exports
check "a directory as source" fails 1 'exports is a directory' put exports h/small
check "a file that is not there" fails 1 'cannot open none: No such file' put none h/small
check "put into a read-only export" fails 1 "'model' is read-only" put data h/model
check "put beyond the region" fails 1 'the range is outside' put data h/small@1000
check "both JSON and bytes on standard output" fails 2 'standard output' get -j h/small -
full() { LD_PRELOAD=$fake "$krdma" status > /dev/full 2> err; [ $? = 1 ] && grep -q 'No space' err; }
check "output that can't be written" full

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
	KRDMA_FAKE_BUFFER_MAX=65536 fails 1 'RLIMIT_MEMLOCK is 65536 bytes' get h/scratch copy
}
check "put says when there is none" none

# ---- Options of put and get ----

quiet() { run 0 put -q data h/scratch && [ ! -s err ] && [ ! -s out ]; }
check "put -q" quiet
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
check "put -Q 0" fails 2 "'0' is not a depth, 1 to 1024" put -Q 0 data h/scratch
check "get -Q of too many" fails 2 "'1025' is not a depth" get -Q 1025 h/scratch copy
timeouts() { run 0 ls --timeout 1.5 h && grep -q 'timeout 1500' log; }
check "--timeout" timeouts
second()
{
	KRDMA_FAKE_REFUSE=1 fails 1 'nobody listens at 10.0.0.2' ls h &&
		KRDMA_FAKE_REFUSE=1 run 0 ls h2 && [ "$(cat log)" = "$(printf \
		'connect fd00::2 port 0 scope 0 timeout 0\nconnect 10.0.0.2 port 0 scope 0 timeout 0')" ]
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
		grep -q '^export new length 65536 rights 3 flags 1 seals 6 max_segments 5' log
}
check "export --size: a sealed memfd, until SIGTERM" anonymous
file()
{
	exporting new --file data --read-only && [ "$(cat out)" = 'exported new: 19.1 MiB, read' ] &&
		grep -q '^export new length 20000001 rights 1 flags 0 ' log && ! grep -q 'not all' log
}
check "export --file --read-only" file
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
check "export of a name that is taken" fails 1 "the name 'small' is taken" export small -s 4K
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

# ---- digest, atomic and --verify ----

digests()
{
	printf 123456789 > exports/nine
	run 0 digest h/nine && [ "$(cat out)" = 'e3069283  h/nine' ] &&
		run 0 digest h/nine@2+3 -j && json 'd["crc32c"] == "107acb65" and d["bytes"] == 3'
}
check "digest" digests
check "digest outside of the region" fails 1 'outside' digest h/small@1001
check "digest of nothing" fails 2 'one target' digest
numbers()
{
	head -c 16 /dev/zero > exports/numbers
	run 0 atomic add 40 h/numbers@8 && [ "$(cat out)" = 0 ] &&
		run 0 atomic add 2 h/numbers@8+8 && [ "$(cat out)" = 40 ] &&
		run 0 atomic cas 42 0x100 h/numbers@8 && [ "$(cat out)" = 42 ] &&
		run 1 atomic cas 42 7 h/numbers@8 && [ "$(cat out)" = 256 ] && [ ! -s err ] &&
		run 0 atomic add 0 h/numbers@8 -j && json 'd["before"] == 256 and d["done"] == True' &&
		cmp -n 8 exports/numbers /dev/zero
}
check "atomic add and cas" numbers
check "atomic with a read-only export" fails 1 "'model' is read-only" atomic add 1 h/model
check "atomic of no such kind" fails 2 "'or' is neither" atomic or 1 h/numbers
check "atomic add of nothing" fails 2 'a value and a target' atomic add h/numbers
check "atomic cas of one value" fails 2 'an old value, a new one and a target' atomic cas 1 h/numbers
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
	KRDMA_FAKE_FAIL_OP=500:104 run 1 bench write h/scratch --engine uring &&
		grep -q 'operation 500 on' err
}
check "bench --engine uring with an operation that fails" uring_fails
no_uring()
{
	KRDMA_FAKE_NO_URING=1 fails 1 'Operation not permitted: see /proc/sys/kernel/io_uring_disabled' \
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
check "bench -b of a read-only export" fails 1 "'model' is read-only" bench read h/model -b
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
	KRDMA_FAKE_FAIL_OP=500:104 run 1 bench write h/scratch && grep -q 'operation 500 on' err
}
check "bench with an operation that fails" bench_fails
check "bench of more than there is" fails 1 'the range has 1000 B' bench read h/small
check "bench -n -D" fails 2 'exclude each other' bench read h/small -n 1 -D 1

# ---- Usage ----

check "no command" fails 2 'no command given'
check "no such command" fails 2 "'frob' is not a command" frob
check "an empty command" fails 2 "'' is not a command" ''
check "an ambiguous abbreviation" fails 2 "'l' is ambiguous: listen, ls" l
check "an abbreviation" run 0 dev
check "global options" eval 'run 0 -j dev && json "d[\"devices\"]"'
check "help" eval 'run 0 help && grep -q "^  bench " out'
check "-h" eval 'run 0 -h && grep -q "^  bench " out'
check "--version" eval 'run 0 --version && grep -q "^krdma [0-9]" out'
for command in listen export ls put get ping bench status devices help version; do
	check "help $command" eval "run 0 help $command && grep -q '^Usage: krdma $command' out"
	check "$command --help" eval "run 0 $command --help && grep -q '^Usage: krdma $command' out"
	check "$command with a bad option" fails 2 "bad option '--frob' (see 'krdma help $command')" \
		"$command" --frob
done
check "an option without its value" fails 2 "option '-c' needs a value" ping h -c

echo "1..$tests"
[ $failures = 0 ]
