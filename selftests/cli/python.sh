#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The module krdma of Python between two hosts: bytes, numbers, messages, asyncio, errors; and what is left
# under way when a program ends.
# shellcheck source=selftests/lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
need_nodes 2

built=$TOP/userspace/build
python=(env "PYTHONPATH=$built/python" PYTHONDONTWRITEBYTECODE=1 "LD_LIBRARY_PATH=$built" /usr/bin/python3)
host=$(readlink -f "$(dirname "$0")")/python_host.py
"${python[@]}" -c 'import krdma' || skip_all "the module krdma is not built: make -C userspace python"

fresh_module
listen_on B
background B "${python[@]}" "$host" export
at_end is_over "$BACKGROUND_PID"
check "an export" wait_for 60 grep -q '^exported' "$BACKGROUND_LOG"
log=$BACKGROUND_LOG
for part in moves asyncio messages errors ends; do
	check "$part" "${python[@]}" "$host" "$part" nodeB
done
check "the end" "${python[@]}" "$host" over nodeB
check "of the export as well" wait_for 60 is_over "$BACKGROUND_PID"
like "its messages have arrived" "$(tr '\n' ' ' <"$log")" "7 b'bytes' False [0-9]+ 8 b'' True [0-9]+ 0 b'' False"
done_testing
