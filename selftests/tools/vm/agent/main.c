// SPDX-License-Identifier: GPL-2.0
/*
 * The lab's agent: runs commands in a guest for a client elsewhere.
 *
 *   agent serve [PORT-DEVICE]         in a guest, as process 1
 *   agent call [options] SOCKET CMD   on the host, through a virtio-serial port
 *   on NODE CMD ARGS...               in a guest, over the control wire
 *   agent tsc                         the frequency of the host's counter
 *
 * One static program for all of this: guests are emulated and slow, and a command on the other node
 * needs no shell and no cryptography. The agent trusts its wire, which connects only the guests of
 * one run.
 *
 * A frame is a type, a length (little endian, 4 bytes) and a payload:
 *
 *   client to agent                     agent to client
 *   R request: see frames.h             O standard output
 *   I standard input, empty at its end  E standard error
 *   S a signal number                   K number of input bytes written
 *   W rows and columns of a terminal    X exit status, the last frame
 */
#include <stdio.h>
#include <string.h>

#include "frames.h"

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	name = name ? name + 1 : argv[0];
	if (!strcmp(name, "on"))
		return cmd_on(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return cmd_serve(argc - 2, argv + 2);
	if (argc > 1 && !strcmp(argv[1], "call"))
		return cmd_call(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "tsc"))
		return cmd_tsc();
	fputs("usage: agent serve [PORT] | agent call [options] SOCKET COMMAND... | agent tsc\n",
	      stderr);
	return 2;
}
