// SPDX-License-Identifier: GPL-2.0
/* The results of a matrix as SVG, drawn by gnuplot: a column for each operation, a line for each depth. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PANEL_WIDTH  420U
#define PANEL_HEIGHT 320U

extern char **environ;

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value;
}

static const char *text_at(struct json_object *object, const char *key)
{
	struct json_object *value = member(object, key);

	return value ? json_object_get_string(value) : "-";
}

/* In gnuplot's single quotes, where only a quote has a meaning, and is doubled. */
static void put_quoted(FILE *script, const char *text)
{
	putc('\'', script);
	for (; *text; text++) {
		if (*text == '\'')
			putc('\'', script);
		putc(*text >= ' ' && *text <= '~' ? *text : '?', script);
	}
	putc('\'', script);
}

/* What of the rows belongs to an operation, and with @depth to that: is there any? */
static bool has_rows(struct json_object *rows, const char *operation, uint64_t depth, FILE *script)
{
	bool found = false;
	size_t i;

	for (i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (strcmp(text_at(row, "operation"), operation) != 0 ||
		    (depth && json_object_get_uint64(member(row, "depth")) != depth))
			continue;
		found = true;
		if (script)
			fprintf(script, "%s %s %s\n", text_at(row, "bytes"),
				text_at(row, "bw_average"), text_at(row, "t_typical_us"));
	}
	return found;
}

static void put_panel(FILE *script, struct json_object *rows, const struct matrix *matrix,
		      unsigned int operation, bool rate)
{
	const char *name = operations[operation].name;
	const char *separator = "plot";
	unsigned int i;

	fprintf(script, "set title '%s'\nset ylabel '%s'\n%s\n", name,
		rate ? "MiB/s" : "median, microseconds",
		rate ? "unset logscale y; set yrange [0:*]; set format y '%g'" :
		       "set logscale y 10; set yrange [*:*]");
	for (i = 0; i < matrix->depth_count; i++) {
		if (!has_rows(rows, name, matrix->depths[i], NULL))
			continue;
		fprintf(script, "%s $at_%u_%u using 1:%d with linespoints title 'depth %llu'",
			separator, operation, i, rate ? 2 : 3,
			(unsigned long long)matrix->depths[i]);
		separator = ",";
	}
	putc('\n', script);
}

static void put_script(FILE *script, struct json_object *root, const struct matrix *matrix)
{
	struct json_object *environment = member(root, "environment");
	struct json_object *device = member(environment, "device");
	struct json_object *rows = member(root, "results");
	uint64_t least = ATOMIC_BYTES, most = ATOMIC_BYTES;
	unsigned int i, j, columns = 0;
	char title[512];

	for (i = 0; i < matrix->size_count; i++) {
		least = matrix->sizes[i] < least ? matrix->sizes[i] : least;
		most = matrix->sizes[i] > most ? matrix->sizes[i] : most;
	}
	for (i = 0; i < OPERATIONS; i++) {
		columns += has_rows(rows, operations[i].name, 0, NULL);
		for (j = 0; j < matrix->depth_count; j++) {
			fprintf(script, "$at_%u_%u << EOD\n", i, j);
			has_rows(rows, operations[i].name, matrix->depths[j], script);
			fputs("EOD\n", script);
		}
	}
	snprintf(title, sizeof(title), "%s, %s, %s, MTU %s; Linux %s, krdma_mover %s; %s x %s",
		 text_at(device, "device"), text_at(device, "type"), text_at(device, "rate"),
		 text_at(device, "netdev_mtu"), text_at(environment, "kernel"),
		 text_at(environment, "module"), text_at(environment, "cpus"),
		 text_at(environment, "cpu"));
	fprintf(script,
		"set terminal svg noenhanced background 'white' size %u,%u\n"
		"set logscale x 2\nset xrange [%g:%g]\nset format x '%%.0b%%B'\nset xtics 8,8\nset xlabel 'bytes'\nset grid\n"
		"set key top left\nset pointsize 0.5\nset multiplot layout 2,%u title ",
		columns * PANEL_WIDTH, 2 * PANEL_HEIGHT, (double)least / 2, (double)most * 2,
		columns);
	put_quoted(script, title);
	putc('\n', script);
	for (j = 0; j < 2; j++)
		for (i = 0; i < OPERATIONS; i++)
			if (has_rows(rows, operations[i].name, 0, NULL))
				put_panel(script, rows, matrix, i, j == 0);
	fputs("unset multiplot\n", script);
}

/* gnuplot with the script as its input. Return: its exit status, -1 with errno if it did not run. */
static int run_gnuplot(FILE *script, const char *path)
{
	char *const argv[] = { "gnuplot", NULL };
	posix_spawn_file_actions_t actions;
	int status, rc;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path,
					 O_WRONLY | O_CREAT | O_TRUNC, 0666);
	/* Warnings, of axes with one value. */
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc) {
		errno = rc;
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

int matrix_draw(struct json_object *root, const struct matrix *matrix)
{
	const size_t length = strlen(matrix->file);
	const bool json = length > 5 && !strcmp(matrix->file + length - 5, ".json");
	char path[PATH_MAX];
	FILE *script;
	int rc;

	if (snprintf(path, sizeof(path), "%.*s.svg", (int)(json ? length - 5 : length),
		     matrix->file) >= (int)sizeof(path))
		return fail(ENAMETOOLONG, "'%s' is too long for a name", matrix->file);
	script = tmpfile();
	if (!script)
		return fail(errno, "cannot make a temporary file: %s", strerror(errno));
	put_script(script, root, matrix);
	rewind(script);
	rc = run_gnuplot(script, path);
	if (rc < 0 && errno == ENOENT) {
		/* It was made for gnuplot. */
		unlink(path);
		tell("'%s' has the results; nothing is drawn, as there is no gnuplot (Debian "
		     "package gnuplot-nox)",
		     matrix->file);
		rc = 0;
	} else if (rc < 0) {
		rc = fail(errno, "cannot start gnuplot: %s", strerror(errno));
	} else if (rc) {
		unlink(path);
		rc = fail(EIO, "gnuplot has failed to draw '%s'; '%s' has the results", path,
			  matrix->file);
	}
	fclose(script);
	return rc;
}
