#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# krdma serve and krdma cp: trees arrive as they are, in both directions; what was interrupted goes on;
# nothing leads out of the share; and each failure has the exit status of its cause.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

# manifest DIR: all that shall be kept of the tree, but not what the directory itself is called.
manifest() {
	(cd "$1" && find . -mindepth 1 -printf '%P %y %m %T@ %l\n' | sort &&
		find . -type f -print0 | sort -z | xargs -0 sha256sum)
}
[ "${1-}" != manifest ] || {
	manifest "$2"
	trap - EXIT
	exit
}

need_nodes 2
LIMIT=${LIMIT:-60}
dir=/dev/shm/files
on_nodes mkdir -p $dir
at_end on_nodes rm -rf $dir
fresh_module
listen_on B
cd $dir || exit
self=$(readlink -f "$SELFTESTS/cli/shares.sh")

# serve_on B NAME OPTION...: $dir/NAME; SERVE_PID is its process there.
serve_on() {
	# shellcheck disable=SC2016 # for the node's shell
	background "$1" sh -c 'mkdir -p "$0" && echo $$ && exec krdma serve "$0" "$@"' "$dir/$2" "${@:3}"
	wait_for "$LIMIT" grep -q '^serving ' "$BACKGROUND_LOG" || diag "$(cat "$BACKGROUND_LOG")"
	SERVE_PID=$(head -n 1 "$BACKGROUND_LOG")
}

# same HERE THERE: both trees have the same manifest.
same() {
	diff <(manifest "$1") <(on -n B bash "$self" manifest "$2")
}

# fails STATUS REGEX ARGUMENT...: krdma cp does, with one sentence.
fails() {
	local said status
	said=$(krdma cp -q "${@:3}" 2>&1)
	status=$?
	[ "$status" = "$1" ] && [[ $said = "krdma: "* && $said != *$'\n'* && $said =~ $2 ]] && return
	echo "status $status: $said"
	return 1
}

# sent FILE: bytes that a copy sent, of what -j printed.
sent() {
	json_at /bytes_sent <"$1"
}

# partial KIB: at B, a file is on its way, and so much of it is there.
# shellcheck disable=SC2016 # for the node's shell
partial() {
	on -n B sh -c 'set -- "$0" "$1"/.krdma-*; [ -e "$2" ] && [ "$(du -k "$2" | cut -f 1)" -ge "$1" ]' \
		"$1" "$dir/share"
}

# ----------------------------------------------------------------------- trees

mkdir -p tree/deep/er/est tree/void
for i in {1..150}; do
	head -c $((i * 61)) /dev/urandom >"tree/deep/file $i"
done
: >tree/empty
echo odd >$'tree/a\nb\\c\t* "\xff'
echo hidden >tree/.hidden
echo -n "$(printf '%255s' x | tr ' ' y)" >"tree/$(printf '%255s' x | tr ' ' y)"
ln -s ../nowhere tree/dangling
ln -s deep tree/link
head -c 3500000 /dev/urandom >tree/deep/er/long
chmod 640 tree/deep/er/long
chmod 500 tree/.hidden
truncate -s 64M tree/sparse
echo end | dd of=tree/sparse bs=1M seek=50 conv=notrunc status=none
truncate -s 600K tree/hole
touch -h -d '2001-02-03 04:05:06.123456789' tree/link tree/empty tree/deep/er/long tree/deep/er/est
chmod 750 tree/deep
touch -d 1999-12-31 tree/deep tree/void

serve_on B share
check "a tree is copied to a share" krdma cp -q -r tree nodeB/share:
check "with names, modes, times, links and bytes" same tree $dir/share/tree
is "holes are holes there" "$(on -n B sh -c "du -k $dir/share/tree/sparse $dir/share/tree/hole | awk '{ n += \$1 } END { print n < 200 }'")" 1
check "and back" krdma cp -q -r nodeB/share:tree back
check "with names, modes, times, links and bytes" diff <(manifest tree) <(manifest back)
is "holes are holes here" "$(du -k back/sparse back/hole | awk '{ n += $1 } END { print n < 200 }')" 1
check "no temporary file is left" test -z "$(find back -name '.krdma-*')"
check "the contents of a directory" krdma cp -q -r tree/deep/. nodeB/share:new/
check "are the same" same tree/deep $dir/share/new
check "a file gets another name" krdma cp -q tree/empty nodeB/share:new/name
check "and is there" on -n B test -f $dir/share/new/name

check "a long file to standard output" sh -c 'krdma cp -q nodeB/share:tree/deep/er/long - | cmp - tree/deep/er/long'
check "with its holes as zeroes" sh -c 'krdma cp -q nodeB/share:tree/sparse - | cmp - tree/sparse'
got() {
	krdma get -q nodeB/share:tree/deep/er/long got && cmp got tree/deep/er/long && rm got
}
check "get of a share's file has its length" got
check "put of one" krdma put -q --durable tree/deep/er/long nodeB/share:put
is "is there" "$(on -n B sha256sum $dir/share/put | cut -c 1-64)" "$(sha256sum <tree/deep/er/long | cut -c 1-64)"
is "get says that a share is one" "$(krdma get nodeB/share x 2>&1)" \
	"krdma: get nodeB/share x: it is a share: 'nodeB/share:PATH' is a file of it"

# ------------------------------------------------------------ a client in its session

hello() {
	printf 'kdmfile1\2\0\0\0\0\0\0\0%s\n' "$1"
}
# The page of a share that has refused these two, and nobody else, because their session has a
# client (EALREADY, 114).
refusals() {
	printf 'kdmfile1\2\0\0\0\0\0\0\0'
	printf '%s\162\0\0\0\0\0\0\0' "$@"
}
refused() {
	local share page
	share=$(krdma digest nodeB/share) && page=$(krdma digest page) &&
		[ "${share%% *}" = "${page%% *}" ]
}
# client TOKEN: its export is there. Sixteen letters A are 41 in hexadecimal.
client() {
	krdma ls nodeB | grep -q "^share:$1 "
}
mkfifo "$dir/hellos"
krdma send --lines nodeB/share <"$dir/hellos" &
pid=$!
background_pids+=("$pid")
exec 7>"$dir/hellos"
hello AAAAAAAAAAAAAAAA >&7
check "a client says hello" wait_for "$LIMIT" client "$(printf '41%.0s' {1..16})"
hello BBBBBBBBBBBBBBBB >&7
hello CCCCCCCCCCCCCCCC >&7
refusals BBBBBBBBBBBBBBBB CCCCCCCCCCCCCCCC >page
truncate -s 4096 page
check "a second and a third one in its session are refused" wait_for "$LIMIT" refused
check_fails "the second one has no export" client "$(printf '42%.0s' {1..16})"
check_fails "nor has the third" client "$(printf '43%.0s' {1..16})"
check "the first one has its own" client "$(printf '41%.0s' {1..16})"
check "a client in another session is taken meanwhile" krdma cp -q tree/empty nodeB/share:second
exec 7>&-
wait $pid
is "they have arrived" $? 0

# ---------------------------------------------------------- several destinations

serve_on B other
check "two destinations" krdma cp -q tree/deep/er/long nodeB/share:one nodeB/other:two
check "have the same" on -n B cmp $dir/share/one $dir/other/two
check "one of two that is not there" fails 5 "nodeB/none: .*'none'" \
	tree/.hidden nodeB/none: nodeB/other:three
check "the other one has the file" on -n B test -f $dir/other/three

# ------------------------------------------------------------------ interrupted

head -c 64M /dev/urandom >long
size=$((64 << 20))
krdma cp -q long nodeB/share: 2>/dev/null &
pid=$!
check "a long file is on its way" wait_for "$LIMIT" partial 4096
kill -KILL $pid
wait $pid 2>/dev/null
check_fails "it has no name yet" on -n B test -e $dir/share/long
# The server lets go of it when the session has ended.
check "after kill -9 of the client it is copied again" wait_for "$LIMIT" sh -c 'krdma cp -j long nodeB/share: >sent'
check "and what was there was not sent again" test "$(sent sent)" -le $((size - (4 << 20)))
check "it is the same" cmp <(sha256sum <long) <(on -n B sh -c "sha256sum <$dir/share/long")

on -n B rm $dir/share/long
serve_on B share --name again
krdma cp -q long nodeB/again: 2>err &
pid=$!
check "once more" wait_for "$LIMIT" partial 4096
on -n B kill -KILL "$SERVE_PID"
check_failed "kill -9 of the server ends the copy" "$LIMIT" $pid err 'nodeB/again: '
serve_on B share --name again
check "another server" sh -c 'krdma cp -j long nodeB/again: >sent'
krdma cp -j long nodeB/again: >sent2
check "it is the same" cmp <(sha256sum <long) <(on -n B sh -c "sha256sum <$dir/share/long")
is "of a file that is there, nothing is sent" "$(sent sent2)" 0
printf x | dd of=long bs=1 seek=5000000 conv=notrunc status=none
krdma cp -j long nodeB/again: >sent
is "of a file that differs in one byte, one block is sent" "$(sent sent)" $((1 << 20))
check "it is the same" cmp <(sha256sum <long) <(on -n B sh -c "sha256sum <$dir/share/long")

# ------------------------------------------------------------ what is not allowed

on -n B ln -s /etc $dir/share/out
check "a path that leads up" fails 6 'it leads out of the share' tree/empty nodeB/share:../x
check "a link that leads out" fails 6 'it leads out of the share' tree/empty nodeB/share:out/krdma-test
check "to read by it" fails 6 'it leads out of the share' nodeB/share:out/passwd .
mkdir -p evil/out
echo evil >evil/out/krdma-test
check "a directory in the place of such a link" \
	sh -c '! krdma cp -q -r evil/. nodeB/share:'
check_fails "nothing is there" on -n B test -e /etc/krdma-test
serve_on B share --name fixed --read-only
check "a share that is read-only" fails 6 'the share is read-only' tree/empty nodeB/fixed:
check "can be read" krdma cp -q nodeB/fixed:one fixed
check "no such file" fails 5 'none: No such file' nodeB/share:none .
check "a directory needs -r" fails 1 'tree is a directory' nodeB/share:tree there
check "no share" fails 5 "'none'" tree/empty nodeB/none:
check "no listener" fails 4 . tree/empty nodeB:7999/share:
export_on B memory --size 1M
check "memory is no share" fails 6 . tree/empty nodeB/memory:
done_testing
