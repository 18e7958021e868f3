// SPDX-License-Identifier: GPL-2.0
/* krdma: from the command line to the command. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const struct command *const commands[] = {
	&cmd_listen, &cmd_export,  &cmd_ls,         &cmd_put,   &cmd_get,     &cmd_digest,
	&cmd_serve,  &cmd_cp,      &cmd_atomic,     &cmd_send,  &cmd_recv,    &cmd_blk,
	&cmd_ping,   &cmd_bench,   &cmd_status,     &cmd_top,   &cmd_monitor, &cmd_devices,
	&cmd_doctor, &cmd_metrics, &cmd_disconnect, &cmd_drain, &cmd_connect, &cmd_apply,
	&cmd_show,   &cmd_help,    &cmd_version,    NULL,
};

static bool begins(const char *word, const char *name)
{
	return word && !strncmp(word, name, strlen(name));
}

/* The command of that name, or the only one that begins so. */
const struct command *command_find(const char *name)
{
	const struct command *found = NULL;
	char candidates[256] = "";
	size_t used = 0;
	int i, hits = 0;

	for (i = 0; commands[i]; i++) {
		if (!begins(commands[i]->name, name) && !begins(commands[i]->alias, name))
			continue;
		if (!strcmp(commands[i]->name, name) ||
		    (commands[i]->alias && !strcmp(commands[i]->alias, name)))
			return commands[i];
		found = commands[i];
		hits++;
		if (used >= sizeof(candidates))
			continue;
		used += (size_t)snprintf(candidates + used, sizeof(candidates) - used, "%s%s",
					 used ? ", " : "", commands[i]->name);
	}
	if (hits == 1 && *name)
		return found;
	if (hits > 1 && *name)
		usage_error("'%s' is ambiguous: %s", name, candidates);
	else
		usage_error("'%s' is not a command", name);
	return NULL;
}

void command_help(const struct command *command)
{
	printf("%s - %s\n\nUsage: %s\n\n%s"
	       "  -j, --json        print JSON\n"
	       "  -p, --pretty      print JSON, indented\n"
	       "  -h, --help        show this text\n",
	       command->name, command->summary, command->usage, command->help);
}

int common_option(const struct command *command, char **argv, int c)
{
	switch (c) {
	case 'p':
		json_pretty = true;
		json_asked = true;
		return -1;
	case 'j':
		json_asked = true;
		return -1;
	case 'h':
		command_help(command);
		return DONE;
	case ':':
		return usage_error("option '%s' needs a value", argv[optind - 1]);
	default:
		if (optopt > 0 && optopt < OPT_LONG_ONLY)
			return usage_error("bad option '-%c'", optopt);
		return usage_error("bad option '%s'", argv[optind - 1]);
	}
}

int timeout_option(const struct command *command, int argc, char **argv, uint64_t *timeout_ns)
{
	static const struct option options[] = {
		{ "timeout", required_argument, NULL, OPT_LONG_ONLY },
		COMMON_LONG,
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		if (c != OPT_LONG_ONLY) {
			rc = common_option(command, argv, c);
			if (rc >= 0)
				return rc;
		} else if (parse_seconds(optarg, timeout_ns)) {
			return usage_error("'%s' is not a time in seconds", optarg);
		}
	}
	return -1;
}

static int run(const struct command *command, int argc, char **argv)
{
	subject_set("%s", command->name);
	optind = 0; /* glibc: begin anew */
	return exit_status(finish_output(command->run(argc, argv)));
}

/* What is opened later must not become a standard stream: a closed one gives errors instead. */
static void open_streams(void)
{
	int fd;

	for (fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
			_exit(FAILED);
}

/* Also a wrong option before it is an error in JSON. */
static bool asks_for_json(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "-j") || !strcmp(argv[i], "-p") ||
		    !strcmp(argv[i], "--json") || !strcmp(argv[i], "--pretty"))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "version", no_argument, NULL, 'V' },
		COMMON_LONG,
	};
	const struct command *command;
	int c, rc;

	open_streams();
	json_asked = asks_for_json(argc, argv);
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:V" COMMON_SHORT, options, NULL)) != -1) {
		if (c == 'V')
			return run(&cmd_version, 1, argv);
		if (c == 'h')
			return run(&cmd_help, 1, argv);
		rc = common_option(&cmd_help, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind == argc)
		return usage_error("no command given");
	command = command_find(argv[optind]);
	return command ? run(command, argc - optind, argv + optind) : USAGE;
}
