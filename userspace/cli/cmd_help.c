// SPDX-License-Identifier: GPL-2.0
/* krdma help */
#include <stdio.h>

#include "cli.h"

static int help_run(int argc, char **argv)
{
	static const struct option options[] = { COMMON_LONG };
	const struct command *command;
	int c, i, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		rc = common_option(&cmd_help, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (argc - optind > 1)
		return usage_error("one command at most");
	if (optind < argc) {
		command = command_find(argv[optind]);
		if (!command)
			return USAGE;
		command_help(command);
		return DONE;
	}
	printf("krdma - move bytes between the memories of hosts over RDMA\n\n"
	       "Usage: krdma COMMAND [OPTIONS] ...\n\n");
	for (i = 0; commands[i]; i++)
		printf("  %-9s %s\n", commands[i]->name, commands[i]->summary);
	printf("\nCommands may be abbreviated. 'krdma help COMMAND' says more, and so does\n"
	       "krdma(8). Exit status: 0 done, 2 wrong usage, others by cause.\n");
	return DONE;
}

const struct command cmd_help = {
	.name = "help",
	.usage = "krdma help [COMMAND]",
	.summary = "show the commands, or the options of one",
	.help = "",
	.run = help_run,
};
