// SPDX-License-Identifier: GPL-2.0
/* Units of systemd that hold exports, shares and connections, by systemctl(1). */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "conf.h"
#include "files.h"

/* Bytes of a command line that are read at a time. */
#define UNIT_COMMAND 4096

/* An administrator's drop-in with another name comes behind it. */
#define DROP_IN "50-krdma.conf"

extern char **environ;

const struct unit_kind unit_kinds[UNIT_KINDS] = {
	[UNITS_EXPORT] = { &conf_export, "krdma-export" },
	[UNITS_SHARE] = { &conf_share, "krdma-share" },
	[UNITS_CONNECT] = { &conf_connect, "krdma-connect" },
};

/* Run a program. Return: its exit status, or -1; @text gets its output if it is not NULL */
static int run_program(char *const argv[], char **text)
{
	posix_spawn_file_actions_t actions;
	int status, pipes[2] = { -1, -1 }, error;
	size_t size = 0;
	FILE *from;
	pid_t pid;

	if (text)
		*text = NULL;
	if (text && pipe(pipes))
		return -1;
	posix_spawn_file_actions_init(&actions);
	/* What fails is said once, by this command. */
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (text) {
		posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
		posix_spawn_file_actions_addclose(&actions, pipes[0]);
		posix_spawn_file_actions_addclose(&actions, pipes[1]);
	}
	error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (text) {
		close(pipes[1]);
		from = fdopen(pipes[0], "r");
		if (from && getdelim(text, &size, '\0', from) < 0) {
			free(*text);
			*text = NULL;
		}
		if (from)
			fclose(from);
	}
	if (error || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int systemctl(const char *option, const char *verb, const char *unit)
{
	char *argv[] = { "systemctl", (char *)option, (char *)verb, (char *)unit, NULL };

	return run_program(argv, NULL);
}

/* A file of /proc of a unit's process. Return: NULL if it does not run */
static FILE *unit_proc(const char *unit, const char *name)
{
	char *show[] = { "systemctl", "show", "--property=MainPID", "--value", (char *)unit, NULL };
	char path[64], *text;
	unsigned long pid = 0;

	if (!run_program(show, &text) && text)
		pid = strtoul(text, NULL, 10);
	free(text);
	snprintf(path, sizeof(path), "/proc/%lu/%s", pid, name);
	return pid ? fopen(path, "re") : NULL;
}

/* The command of a running unit, as it began. Return: words in argv, 0 if it does not run */
int unit_command(const char *unit, char *argv[CONF_ARGS], char **memory)
{
	FILE *file = unit_proc(unit, "cmdline");
	size_t room = 0, length = 0;
	char *text, *word;
	int argc = 0;

	*memory = NULL;
	while (file && length == room) {
		text = realloc(*memory, room + UNIT_COMMAND + 1);
		if (!text)
			break;
		*memory = text;
		room += UNIT_COMMAND;
		length += fread(text + length, 1, room - length, file);
		text[length] = '\0';
	}
	if (file)
		fclose(file);
	for (word = *memory; length && word < *memory + length && argc < CONF_ARGS;
	     word += strlen(word) + 1)
		argv[argc++] = word;
	return argc;
}

/* "krdma-export@scratch.service", with what systemd escapes. Return: DONE or FAILED */
int unit_name(const struct unit_kind *kind, const char *name, char *unit, size_t size)
{
	char template[64], *text;
	char *argv[] = { "systemd-escape", template, "--", (char *)name, NULL };

	snprintf(template, sizeof(template), "--template=%s@.service", kind->prefix);
	if (run_program(argv, &text) || !text) {
		free(text);
		return fail(EIO, "systemd-escape does not name its unit");
	}
	snprintf(unit, size, "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
	return DONE;
}

bool unit_is_current(const char *unit, const struct conf_section *s, bool *runs)
{
	char *argv[CONF_ARGS], *memory;
	const int argc = unit_command(unit, argv, &memory);
	bool same;

	*runs = argc > 0;
	same = argc > 1 && s->kind->same(argc - 1, argv + 1, s->argc, (char **)s->argv);
	free(memory);
	return same;
}

bool unit_reloads(const char *unit)
{
	FILE *file = unit_proc(unit, "environ");
	bool reloads = false;
	char *word = NULL;
	size_t size = 0;

	while (file && !reloads && getdelim(&word, &size, '\0', file) > 0)
		reloads = !strncmp(word, CONF_FROM "=", strlen(CONF_FROM "="));
	if (file)
		fclose(file);
	free(word);
	return reloads;
}

bool unit_grows(const char *unit, const struct conf_section *s, uint64_t *size)
{
	char *argv[CONF_ARGS], *memory;
	const int argc = unit_command(unit, argv, &memory);
	const bool grows = argc > 1 && s->kind == &conf_export &&
			   export_grows(argc - 1, argv + 1, s->argc, (char **)s->argv, size);

	free(memory);
	return grows;
}

bool unit_runs(const struct unit_kind *kind, const char *name)
{
	char unit[512], *argv[CONF_ARGS], *memory;
	bool runs;

	if (!sd_booted() || unit_name(kind, name, unit, sizeof(unit)))
		return false;
	runs = unit_command(unit, argv, &memory) > 0;
	free(memory);
	return runs;
}

int unit_possible(const struct conf_section *s, const char *path)
{
	if (!sd_booted())
		return fail(ENODEV,
			    "a unit of systemd holds it, and systemd does not run here: "
			    "run 'krdma %s --config %s'",
			    s->kind->command, s->name);
	if (strcmp(path, CONF_FILE) != 0)
		return fail(EINVAL, "a unit holds it, and reads " CONF_FILE ", not %s", path);
	return DONE;
}

/* The names of the units that run: "krdma-export@a.service loaded active ..." a line. */
char *units_running(const struct unit_kind *kind)
{
	char pattern[64], *text;
	char *argv[] = {
		"systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating",
		pattern,     NULL
	};

	snprintf(pattern, sizeof(pattern), "%s@*.service", kind->prefix);
	if (run_program(argv, &text))
		return NULL;
	return text ? text : strdup("");
}

/* Cut the next unit out of what units_running() returned, and tell its name. */
char *unit_next(char **text, char *name, size_t size)
{
	char *unit = strsep(text, "\n"), *escaped;
	char *argv[] = { "systemd-escape", "--unescape", "--instance", "--", unit, NULL };

	if (!unit || !strchr(unit, ' '))
		return NULL;
	*strchr(unit, ' ') = '\0';
	if (run_program(argv, &escaped) || !escaped) {
		free(escaped);
		return NULL;
	}
	snprintf(name, size, "%.*s", (int)strcspn(escaped, "\n"), escaped);
	free(escaped);
	return unit;
}

/* Does the file have this text? */
static bool file_has(const char *path, const char *text)
{
	FILE *file = fopen(path, "re");
	char *have = NULL;
	size_t size = 0;
	bool same;

	if (!file)
		return false;
	same = getdelim(&have, &size, '\0', file) >= 0 && !strcmp(have, text);
	fclose(file);
	free(have);
	return same;
}

int unit_drop_in(const char *unit, const char *text)
{
	char dir[600], path[640];
	int error = 0;
	FILE *file;

	snprintf(dir, sizeof(dir), "/run/systemd/system/%s.d", unit);
	snprintf(path, sizeof(path), "%s/" DROP_IN, dir);
	if (!text) {
		if (unlink(path))
			return errno == ENOENT ? 0 : -1;
		/* Others may have put something there. */
		rmdir(dir);
		return 1;
	}
	if (file_has(path, text))
		return 0;
	if (mkdir(dir, 0755) && errno != EEXIST)
		return -1;
	file = fopen(path, "we");
	if (!file)
		return -1;
	if (fputs(text, file) < 0)
		error = errno;
	if (fclose(file) && !error)
		error = errno;
	errno = error;
	return error ? -1 : 1;
}

/* As a word of a unit file, behind @prefix. */
static void put_word(FILE *to, const char *prefix, const char *path)
{
	fprintf(to, "\"%s", prefix);
	for (; *path; path++) {
		if (strchr("\"\\", *path))
			putc('\\', to);
		if (*path == '%')
			putc('%', to);
		putc(*path, to);
	}
	fputs("\"\n", to);
}

/* systemd takes no ".." and no odd bytes. */
static bool path_plain(const char *path)
{
	const size_t length = strlen(path);
	char *copy = strdup(path);
	bool plain = copy && !strstr(path, "/../") &&
		     (length < 3 || strcmp(path + length - 3, "/..") != 0);

	if (plain) {
		files_printable(copy);
		plain = !strcmp(copy, path);
	}
	free(copy);
	return plain;
}

/*
 * Where symbolic links lead, also on a file system that is not mounted yet. A path through an
 * automount may have to wait for what comes after this command at boot: it is given up.
 * Return: allocated, or NULL
 */
static char *path_resolved(const char *path)
{
	char *argv[] = { "timeout", "5", "realpath", "-mz", "--", (char *)path, NULL }, *text;
	static bool failed; /* a mount that hangs, hangs for other paths as well */

	if (failed)
		return NULL;
	if (!run_program(argv, &text))
		return text;
	failed = true;
	free(text);
	return NULL;
}

char *section_drop_in(const struct conf_section *section)
{
	char *text = NULL, *resolved;
	bool read_only = false;
	size_t size;
	FILE *to;
	int i;

	if (!section->path || !path_plain(section->path))
		return NULL;
	for (i = 1; i < section->argc - 2; i++)
		read_only |= !strcmp(section->argv[i], "--read-only");
	to = open_memstream(&text, &size);
	if (!to)
		return NULL;
	fputs("# By 'krdma apply', from " CONF_FILE ".\n[Unit]\nRequiresMountsFor=", to);
	put_word(to, "", section->path);
	/* systemd takes a path as it is written. */
	resolved = path_resolved(section->path);
	if (resolved && strcmp(resolved, section->path) != 0 && path_plain(resolved)) {
		fputs("RequiresMountsFor=", to);
		put_word(to, "", resolved);
	}
	free(resolved);
	if (section->kind == &conf_share)
		fputs("[Service]\nProtectSystem=strict\n", to);
	/* It need not be there yet. */
	if (section->kind == &conf_share && !read_only) {
		fputs("ReadWritePaths=", to);
		put_word(to, "-", section->path);
	}
	if (fclose(to)) {
		free(text);
		text = NULL;
	}
	return text;
}
