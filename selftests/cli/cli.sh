#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The krdma command between two hosts: the commands that work, the error text of those that fail,
# and the exit status of each.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "mounts a file system, sets the number of huge pages, and has files of fixed names"
need_nodes 2

dir=$(mktemp -d)
at_end rm -rf "$dir"
cd "$dir" || exit

# run STATUS COMMAND...: krdma here, its output in out and err.
run() {
	local expected=$1 status
	shift
	krdma "$@" >out 2>err
	status=$?
	[ "$status" = "$expected" ] || {
		echo "krdma $*: status $status, not $expected: $(<err)"
		return 1
	}
}

run_on() {
	local node=$1 expected=$2 status
	shift 2
	on -n "$node" krdma "$@" >out 2>err
	status=$?
	[ "$status" = "$expected" ] || {
		echo "on $node: krdma $*: status $status, not $expected: $(<err)"
		return 1
	}
}

# works NAME COMMAND..., fails NAME STATUS REGEX COMMAND...: status 0; or that one, and one
# sentence that matches.
works() {
	check "$1" run 0 "${@:2}"
}

one_sentence() {
	[[ $(<err) = "krdma: "* && $(<err) != *$'\n'* && $(<err) =~ $1 ]] || {
		echo "said: $(<err)"
		return 1
	}
}

fails_so() {
	run "$1" "${@:3}" && one_sentence "$2"
}

fails() {
	check "$1" fails_so "${@:2}"
}

fails_on_so() {
	run_on "$1" "$2" "${@:4}" && one_sentence "$3"
}

usage() {
	run 2 "$@" && one_sentence .
}

# ------------------------------------------------------------------ no module

if [ -n "$MODULE" ]; then
	wait_for 60 unload_module
	fails "without the module: a sentence says so" 3 'is the module loaded.*rdma_cm and libcrc32c' ls nodeB
	works "without the module: version" version
else
	skip "without the module: a sentence says so" "KRDMA_MODULE is not set"
	skip "without the module: version" "KRDMA_MODULE is not set"
fi
# What it needs is gone, if nothing else has it; README.md says how to load all of it.
if [ -n "$MODULE" ] && [ -n "$(modinfo -F depends "$MODULE")" ] && [ -e "$TOP/README.md" ]; then
	modprobe -r libcrc32c 2>/dev/null
	eval "$(sed -n 's/^    \(load=.*\)/\1/p' "$TOP/README.md")"
	# shellcheck disable=SC2154 # just now
	check "the module is loaded as README.md says" sh -c "$load" "$MODULE"
else
	skip "the module is loaded as README.md says" "there is no file of it, or nothing that it needs"
fi
load_module

# ------------------------------------------------------------------ listeners

check "listen" run_on B 0 listen 0.0.0.0
check "listen shows the listener" grep -q '^0.0.0.0:7471 *up' <(on -n B krdma listen)
check "listen twice" fails_on_so B 7 'a listener on 0.0.0.0:7471 already' listen 0.0.0.0
check "listen for IPv6 too" run_on B 0 listen ::
check "listen on another port, on one address" run_on B 0 listen "$REMOTE_V4:7472"
check "listen --remove" run_on B 0 listen --remove "$REMOTE_V4:7472"
check "listen --remove of what is gone" fails_on_so B 5 "no listener on $REMOTE_V4:7472" \
	listen --remove "$REMOTE_V4:7472"
check "listen on an address of another host" fails_on_so B 3 \
	'can.t listen on 10.99.0.1:7471: no RDMA device has the address' listen 10.99.0.1
check "listen on a port that is taken" fails_on_so B 7 \
	"can.t listen on $REMOTE_V4:7471: the port is taken" listen "$REMOTE_V4"
check "listen --allow a prefix that admits" run_on B 0 listen "$REMOTE_V4:7473" \
	--allow 10.99.0.0/16 --allow "${LOCAL_V4%.*}.0/25"
works "a host of the prefix is admitted" ls nodeB:7473
check "listen --allow a prefix that refuses" run_on B 0 listen "$REMOTE_V4:7474" --allow 192.0.2.0/24
# What comes with a reject is lost now and then with siw.
fails "a host outside the prefix is refused" 4 'not admitted|it refuses' ls nodeB:7474
check "the listener counts both" grep -Eq "^$REMOTE_V4:7474 +up +0 +0 +1 " <(on -n B krdma listen)
on -n B sh -c "krdma listen --remove $REMOTE_V4:7473; krdma listen --remove $REMOTE_V4:7474"

# -------------------------------------------------------------------- exports

head -c 3000000 /dev/urandom >data
on B sh -c 'cat >/dev/shm/model' <data
on B sh -c 'cat >/tmp/model' <data

check "export anonymous memory" export_on B scratch --size 16M
check "export a file to read" export_on B model --file /tmp/model --read-only
check "export a file of tmpfs to write" export_on B shm --file /dev/shm/model
check "export of a name that is taken" fails_on_so B 7 "'scratch' is published already" \
	export scratch --size 1M
if on -n B sh -c 'echo 4 >/proc/sys/vm/nr_hugepages; grep -q "HugePages_Free: *[4-9]" /proc/meminfo'; then
	check "export huge pages" export_on B huge --size 8M --huge
else
	skip "export huge pages" "no huge pages to be had"
fi
works "ls" ls nodeB
check "ls shows name, size and rights" grep -Eqx 'model +2.9 MiB +read *' out

# ext4 wants to know which pages are dirty.
if on -n B sh -c 'command -v mkfs.ext4 && modprobe -a loop ext4 && truncate -s 16M /tmp/img && mkfs.ext4 -q /tmp/img &&
	mkdir -p /tmp/ext4 && mount -o loop /tmp/img /tmp/ext4 && head -c 100000 /dev/zero >/tmp/ext4/file' \
	>/dev/null 2>&1; then
	check "export a file of ext4 to write: refused" fails_on_so B 1 'file system' \
		export ext4 --file /tmp/ext4/file
	check_here "export a file of ext4 to read" export_on B ext4 --file /tmp/ext4/file --read-only
	works "get from ext4" get -q nodeB/ext4 back
	check "the bytes are those of the file" cmp -n 100000 back /dev/zero
	on -n B kill "$EXPORT_PID"
	wait "$BACKGROUND_PID"
	wait_for 60 on -n B umount /tmp/ext4
else
	skip "export a file of ext4 to write: refused" "no ext4 here"
	skip "export a file of ext4 to read" "no ext4 here"
	skip "get from ext4" "no ext4 here"
	skip "the bytes are those of the file" "no ext4 here"
fi

# ---------------------------------------------------------------- put and get

works "put" put data nodeB/scratch
check "put says what it did" grep -Eq '^put: 2.9 MiB in ' err
works "get" get -q nodeB/scratch@0+3000000 back
check "the same bytes" cmp data back
works "put at an offset, not aligned" put -q data nodeB/scratch@4097
works "get a part of it" get -q nodeB/scratch@5000+12345 back
check "the same part" cmp <(tail -c +904 data | head -c 12345) back
works "put into the last bytes" put -q data nodeB/scratch@13777216+3000000
works "get the last bytes" get -q nodeB/scratch@13777216 back
check "the same last bytes" cmp data back
check "put from standard input, get to standard output" sh -c '
	krdma put -q - nodeB/scratch@1M <data && krdma get -q nodeB/scratch@1M+3000000 - | cmp - data'
works "get from a file" get -q nodeB/model back
check "the same bytes" cmp data back
head -c 4096 /dev/zero >zeros
works "put into a file of tmpfs" put -q zeros nodeB/shm@100+0x1000
fails "put into an export to read" 6 "does not grant the rights requested on 'model': .*write" \
	put data nodeB/model
check "put went into the file of tmpfs" on -n B cmp -i 100 -n 4096 /dev/shm/model /dev/zero
if on -n B krdma status | grep -q '^export huge '; then
	works "put into huge pages" put -q data nodeB/huge@2M
	works "get from huge pages" get -q nodeB/huge@2M+3000000 back
	check "the same bytes" cmp data back
else
	skip "put into huge pages" "no huge pages to be had"
	skip "get from huge pages" "no huge pages to be had"
	skip "the same bytes" "no huge pages to be had"
fi

fails "put of more than fits" 1 'the range has' put data nodeB/scratch@14M
fails "put of more than the range" 1 'the range has' put data nodeB/scratch@0+1M
fails_stdin() {
	fails_so 1 'standard input is longer than the range' put - nodeB/scratch@0+1M < <(cat data)
}
check "put of more than the range from standard input" fails_stdin
fails "get beyond the end" 1 "the range is outside 'scratch'" get nodeB/scratch@16M back
fails "get of more than there is" 1 "the range is outside 'scratch'" get nodeB/scratch@8M+9M back
fails "get into a folder that is not there" 5 'No such file' get nodeB/model no/such/file
fails "put of a file that is not there" 5 'No such file' put no_such_file nodeB/scratch

# --------------------------------------------------------------------- hosts

for host in nodeB nodeB:7471 "$REMOTE_V4" "$REMOTE_V4:7471" ${REMOTE_V6:+nodeB6 "$REMOTE_V6" "[$REMOTE_V6]:7471"}; do
	works "ls $host" ls "$host"
done
fails "a name that the peer does not publish" 5 "publishes nothing named 'nothing'" get nodeB/nothing back
fails "a port where nobody listens" 4 "$REMOTE_V4:7499: nobody listens" ls nodeB:7499
if [ -n "${LAB_OUT-}" ]; then
	fails "a host that is not there" 4 10.77.0.99 ls --timeout 5 10.77.0.99
else
	skip "a host that is not there" "which address is free is known in the lab"
fi
fails "a host without an RDMA device" 4 . ls --timeout 5 192.0.2.1
fails "a host name that means nothing" 4 nosuch ls nosuch.invalid

# ---------------------------------------------------------------------- usage

check "put without operands" usage put
check "a command that is none" usage frob
check "a region that is none" usage get nodeB back
check "an option that is none" usage ls --frob nodeB
check "a size that is none" usage export x --size 12Q
check "peers that may not write, and add" usage export x --size 1M --read-only --atomic

# ----------------------------------------------------------------- completion

# offered COMMAND: its options, as bash completes them.
offered() (
	_init_completion() {
		# shellcheck disable=SC2034 # for the function that calls it
		cur=-- prev=$asked words=(krdma "$asked" --) cword=2 split=false
	}
	asked=$1
	# shellcheck source=userspace/completion/krdma
	. "$TOP/userspace/completion/krdma" && _krdma && echo "${COMPREPLY[*]}"
)
all_offered() {
	local command option
	for command in $(krdma help | awk '/^  / { print $1 }'); do
		for option in $(krdma help "$command" | grep -oE '^ +(-., )?--[a-z_-]+' | grep -o -e '--.*'); do
			[[ " $(offered "$command") " = *" $option "* ]] || echo "$command $option"
		done
	done
}
if [ -e "$TOP/userspace/completion/krdma" ]; then
	is "completion has all options" "$(all_offered)" ""
else
	skip "completion has all options" "its file is not here"
fi

# ----------------------------------------------------------------------- JSON

schema() {
	run 0 "$@" && [ "$(json_at /schema <out)" = 1 ]
}
# usage_json ARGUMENT...: wrong usage, said in JSON
usage_json() {
	run 2 "$@" && [ "$(json_at /error/status <err)" = 2 ]
}
for command in 'ls nodeB' devices version status 'status --transfers' listen 'ping -c 2 nodeB' \
	'put data nodeB/scratch' 'get nodeB/scratch@0+64K back' \
	'bench write nodeB/scratch -s 4K -n 50' 'bench read nodeB/scratch -s 8 -n 20 --latency'; do
	# shellcheck disable=SC2086 # words are wanted
	check "$command -j" schema $command -j
done
check_here "export -j" export_on B json -j --size 1M
check "export -j is JSON" json_at /schema < <(tail -n +2 "$BACKGROUND_LOG")
background B krdma listen -j --wait "$REMOTE_V4:7475"
check "listen --wait -j is JSON" wait_for 60 \
	grep -qx "{\"schema\":1,\"address\":\"$REMOTE_V4:7475\"}" "$BACKGROUND_LOG"
kill "$BACKGROUND_PID"
check "metrics -j is refused" usage_json metrics -j
is "status -j: the peer's exports" "$(on -n B krdma status -j | json_at /exports/#)" \
	"$(krdma ls -j nodeB | json_at /exports/#)"
works "ping" ping -c 3 -s 512 nodeB
works "bench" bench write nodeB/scratch -s 64K -n 50
works "devices" devices
check "devices shows the address that is used" grep -Eq "^$LAB_RDMA_DEV .* $LOCAL_V4 .* yes" out

done_testing
