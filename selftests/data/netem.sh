#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A bad network: netem loses, duplicates, reorders, delays and corrupts packets while several
# initiators write, read and ping in both directions. Bytes that were reported as moved are right,
# failures are reported in time, and the next connect works.
#
# NETEM_CASES="loss5 all" runs only these cases, NETEM_MB (1) is about how many MiB each
# initiator writes in a case, NETEM_ROUNDS (1) repeats all of them:
#
#	selftests/tools/vm/lab run -e NETEM_MB=64 -e NETEM_ROUNDS=10 selftests/data/netem.sh
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_lab "makes the wire lose packets"
need_nodes 2
MODULE_TIMEOUT_SCALE=1
need_command tc

LIMIT=${LIMIT:-120}
NETEM_MB=${NETEM_MB:-1}
NETEM_ROUNDS=${NETEM_ROUNDS:-1}
NETEM_CASES=${NETEM_CASES:-}
dir=$(mktemp -d)
at_end rm -rf "$dir"

# --------------------------------------------------------------------- faults

# What is done to packets on their way out of a node. One side alone: A's are what
# A writes and asks for, and what acknowledges B's; and the other way round.
#
# What has to succeed at once ("must"), and what may cost a session ("may"): RDMA
# over rxe repeats what is missing, at once when a later packet shows the gap, else
# after 0.54 s, and gives up after seven tries of which none brought an
# acknowledgment. Showing a gap counts as a try: 5 % lost, or many packets that
# overtake others, may be too much for a long message, 1 % is not. A connect is
# some messages of the connection manager, each repeated after about 4 s, and has
# 10 s in all. TCP, below siw, minds much less.
#
# corrupt changes a bit somewhere in a packet. The network device has no part in
# it: netem first fills in a checksum that was left to it, and virtio-net passes on
# what it gets, to be verified. rxe sends no UDP checksum, so its ICRC has to find
# the change. siw has the checksum of TCP, and a CRC of its own only if asked to;
# netem changes only what is in a packet's head, of siw's perhaps only the headers.
# Either way the packet is dropped, and is a lost one. ARP has no checksum, and
# would believe a changed address: the test enters the neighbours by hand.
#
# Delays that vary let packets overtake each other too; slot delays them in bursts,
# in order.
#
# name   side must what
cases='
clean    AB   must -
loss01   AB   must loss 0.1%
loss1    AB   must loss 1%
loss1a   A    must loss 1%
loss1b   B    must loss 1%
loss5    AB   may  loss 5%
twice    AB   must duplicate 10%
reorder  AB   may  delay 2ms reorder 1%
delay    AB   must delay 5ms
burst    AB   must slot 1ms 5ms
jitter   AB   may  delay 5ms 2ms
corrupt  AB   must corrupt 1%
all      AB   may  delay 1ms loss 0.5% duplicate 2% corrupt 0.5% reorder 5% 50%
'

set_wire() {
	local node sides=$1
	shift
	for node in A B; do
		on -n $node sh -c 'tc qdisc del dev data0 root 2>/dev/null; true'
		[[ $sides = *$node* && $1 != - ]] || continue
		on -n $node tc qdisc add dev data0 root netem "$@" || return
	done
}

# Packets that netem has lost; 0 without it.
dropped() {
	on -n "$1" tc -s qdisc show dev data0 | awk '/^qdisc/ { netem = $2 == "netem" }
		netem && match($0, /dropped [0-9]+/) { n += substr($0, RSTART + 8, RLENGTH - 8) }
		END { print n + 0 }'
}

# The other node's addresses, not to be asked for.
# shellcheck disable=SC2016 # for the node's shell
neighbours() {
	local node peer mac
	for node in A B; do
		[ $node = A ] && peer=B || peer=A
		mac=$(on -n $peer cat /sys/class/net/data0/address)
		on -n $node sh -c '
			[ "$LAB_NODE" = A ] && n=2 || n=1
			for address in 10.77.0.$n fd77::$n; do
				case $1 in
				set) ip neigh replace $address lladdr "$2" nud permanent dev data0 ;;
				*) ip neigh del $address dev data0 ;;
				esac
			done' neighbours "$1" "$mac"
	done
}

# ------------------------------------------------------------------ initiators

# Each has an export of its own in the other node, a tmpfs file, which can be read
# there without the module: scribble -c.
MEMORY=/dev/shm/netem

export_file() {
	on -n "$1" truncate -s "$3" "$MEMORY.$2" && export_on "$1" "$2" --file "$MEMORY.$2"
	at_end on -n "$1" rm -f "$MEMORY.$2"
}

declare -A pid=() target_of=() options=()

# scribbler NAME NODE TARGET ADDRESS OPTIONS...: writes into the export NAME of TARGET.
scribbler() {
	local name=$1
	target_of[$name]=$3
	options[$name]="${*:5} -s $seed"
	# shellcheck disable=SC2086 # words are wanted
	on -n "$2" scribble ${options[$name]} "$4" "$name" >"$dir/$name.state" 2>"$dir/$name.err" &
	pid[$name]=$!
	background_pids+=("$!")
}

# What a person does: files, there and back, in both directions.
copier() {
	local node=$1 target=$2 file=$dir/file.$1
	on "$node" krdma put -q - "node$target/files@12345" <"$file" 2>"$dir/copy.$node.err" &&
		touch "$file.put" &&
		on -n "$node" krdma get -q "node$target/files@12345+$(stat -c %s "$file")" - \
			>"$file.back" 2>"$dir/copy.$node.err" &&
		touch "$file.got" &&
		on -n "$node" krdma ping -c 5 -s 512 "node$target" >/dev/null 2>"$dir/copy.$node.err"
}

start_all() {
	local pieces=$((NETEM_MB * 16)) node
	# Large ones in a session that is shared; single pages, and between nodes over
	# IPv6, in one of its own; and what the other node does at the same time.
	scribbler one A B 10.77.0.2 -t 4 -b 65536 -n $pieces
	scribbler two A B fd77::2 -p -t 3 -b 4096 -n $((pieces * 4))
	scribbler back B A 10.77.0.1 -t 2 -b 262144 -n $((NETEM_MB * 4))
	for node in A B; do
		head -c $((NETEM_MB * 500000)) /dev/urandom >"$dir/file.$node"
	done
	copier A B &
	pid[copyA]=$!
	copier B A &
	pid[copyB]=$!
	background_pids+=("${pid[copyA]}" "${pid[copyB]}")
}

# said FILE: an operation that fails says one sentence.
said() {
	local text
	text=$(<"$1")
	[[ $text =~ ^(scribble|krdma):\ .+ && $text != *$'\n'* ]]
}

# Sets failures and complaints: what ended with a sentence, and what must not be.
wait_all() {
	local name status until=$((SECONDS + LIMIT)) err
	failures='' complaints=''
	for name in one two back copyA copyB; do
		err=$dir/$name.err
		[[ $name != copy* ]] || err=$dir/copy.${name#copy}.err
		if ! wait_for $((until > SECONDS ? until - SECONDS : 0)) is_over "${pid[$name]}"; then
			complaints+="$name still runs after $LIMIT s; "
			kill "${pid[$name]}"
			continue
		fi
		wait "${pid[$name]}"
		status=$?
		case $status in
		0) ;;
		1)
			failures+="$name: $(<"$err"); "
			said "$err" || complaints+="$name failed without a sentence: $(<"$err"); "
			;;
		*) complaints+="$name ended with $status: $(<"$err"); " ;;
		esac
	done
}

# What the targets have, by their own eyes.
targets_agree() {
	local name node target file
	for name in one two back; do
		# shellcheck disable=SC2086 # words are wanted
		on "${target_of[$name]}" scribble -c ${options[$name]} "$MEMORY.$name" \
			<"$dir/$name.state" || return
	done
	for node in A B; do
		[ "$node" = A ] && target=B || target=A
		file=$dir/file.$node
		[ ! -e "$file.got" ] || cmp "$file" "$file.back" || return
		[ ! -e "$file.put" ] || on -n "$target" tail -c +12346 "$MEMORY.files" |
			head -c "$(stat -c %s "$file")" | cmp - "$file" || return
	done
}

connects() {
	krdma put -q "$dir/file.A" nodeB/files@7 && krdma get -q nodeB/files@7+400000 "$dir/again" &&
		cmp -n 400000 "$dir/file.A" "$dir/again" && on -n B krdma ping -c 1 nodeA
}

run_case() {
	local name=$1 sides=$2 must=$3 began=${EPOCHREALTIME/[.,]/} lost
	shift 3
	seed=$((seed + 1))
	rm -f "$dir"/file.*
	set_wire "$sides" "$@" || {
		not_ok "$name: netem $*" "tc failed"
		return
	}
	start_all
	wait_all
	lost="$(dropped A) $(dropped B)"
	[[ $name != loss* ]] || lost_total=$((lost_total + ${lost/ / + }))
	set_wire "" -
	diag "$name ($*): $(((${EPOCHREALTIME/[.,]/} - began) / 100000)) tenths of a second," \
		"packets lost: $lost"
	[ -z "$failures" ] || diag "$name: $failures"
	[ "$must" = may ] || complaints+=$failures
	is "$name: what has to succeed does, and what fails says so" "$complaints" ""
	check "$name: the targets have it" targets_agree
	check "$name: the next connect works" wait_for "$LIMIT" connects
}

# ------------------------------------------------------------------------ run

no_netem=$(on_nodes sh -c 'tc qdisc replace dev lo root netem delay 0 && tc qdisc del dev lo root' 2>&1) ||
	skip_all "no netem in this kernel: $no_netem"
at_end set_wire "" -
at_end neighbours forget
neighbours set

fresh_module
listen_on A
listen_on B
listen_on B '[::]'
# Smaller than what is written: each place gets several rounds.
export_file B one 512K
export_file B two 64K
export_file A back 512K
for node in A B; do
	export_file $node files $((NETEM_MB * 500000 + 20000))
done
remember_leftovers

lost_total=0
for ((round = 0; round < NETEM_ROUNDS; round++)); do
	while read -r name sides must what; do
		[ -n "$name" ] || continue
		[ -z "$NETEM_CASES" ] || [[ " $NETEM_CASES " = *" $name "* ]] || continue
		# shellcheck disable=SC2086 # words are wanted
		run_case $name $sides $must $what
	done <<<"$cases"
done

[[ -n $NETEM_CASES && $NETEM_CASES != *loss* ]] || check "packets were lost" [ "$lost_total" -gt 0 ]
end_sessions A
end_sessions B
on -n B sh -c 'krdma listen --remove [::] && krdma listen [::]'
check_nothing_left "nothing is left"
on -n B krdma listen --remove '[::]'

done_testing
