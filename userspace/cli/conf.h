/* SPDX-License-Identifier: GPL-2.0 */
/* The configuration file: what 'krdma apply' makes of it, and 'krdma show --config' writes. */
#ifndef CONF_H
#define CONF_H

#include "cli.h"

#define CONF_FILE "/etc/krdma/krdma.conf"
/* Words of a command: two for each prefix of an allow-list, and the rest. */
#define CONF_ARGS (2 * KRDMA_LISTEN_ALLOW_MAX + 32)

/**
 * struct conf_kind - a kind of sections
 * @name: its name
 * @command: of krdma
 * @operand: what follows the name; NULL for nothing
 * @path: the key with the command's operand, a path; the section's name is --name then. NULL: the
 *	section's name is the operand
 * @keys: names of keys, which are long options of the command; one with '=' has a value. NULL: any
 * @check: is the command in order? Return: -1, or the exit status after a sentence
 * @same: do two commands that are in order ask for the same?
 */
struct conf_kind {
	const char *name;
	const char *command;
	const char *operand;
	const char *path;
	const char *keys;
	int (*check)(int argc, char **argv);
	bool (*same)(int argc, char **argv, int other_argc, char **other_argv);
};

extern const struct conf_kind conf_module, conf_listen, conf_export, conf_share, conf_connect,
	conf_disk;

/**
 * struct conf_section - "[export scratch]" and its keys, as a command
 * @next: the one behind it in the file
 * @kind: of what
 * @name: of it; NULL for the module
 * @path: value of the kind's path, or of an export's file; NULL: none
 * @line: where it begins
 * @argc: words
 * @argv: the command: its name, options, "--", the operand
 * @lines: where each of them is
 * @keys: what was said so far, and where
 */
struct conf_section {
	struct conf_section *next;
	const struct conf_kind *kind;
	char *name;
	char *path;
	unsigned int line;
	int argc;
	char *argv[CONF_ARGS + 1];
	unsigned int lines[CONF_ARGS];
	struct {
		char *name;
		unsigned int line;
	} keys[24];
};

/* A command is checked, and not to be run: names of hosts are not looked up. */
extern bool conf_checks;

/* Read and check a file. Return: DONE, or the exit status after a sentence with the line. */
int conf_read(const char *path, struct conf_section **sections);
void conf_free(struct conf_section *sections);
/*
 * Read and check one section alone. Return: DONE, and the list that begins with it, which the caller
 * frees; or the exit status after a sentence
 */
int conf_read_one(const char *path, const struct conf_kind *kind, const char *name,
		  struct conf_section **section);
/* Set by conf_exec(): the file that the options come from. */
#define CONF_FROM "KRDMA_EXEC_CONFIG"
/* Become the command of that section, so that ps(1) and 'krdma apply' see its options. */
int conf_exec(const char *path, const struct conf_kind *kind, const char *name);
/* Print the options of a command, behind its name, as keys. */
void conf_print_keys(const struct conf_kind *kind, int argc, char **argv);

/* cmd_*.c */
int listen_check(int argc, char **argv);
/* What was published is out of reach: a notice. */
void warn_of_nobody(struct krdma *krdma);
/* As in a network namespace other than the first one: with the file that made it. */
bool listener_ends_with_file(struct krdma *krdma, const struct krdma_sockaddr *addr);
int export_check(int argc, char **argv);
int serve_check(int argc, char **argv);
int connect_check(int argc, char **argv);
int blk_check(int argc, char **argv);
/* Do two commands that are in order ask for the same anonymous memory, of any size? */
bool export_grows(int argc, char **argv, int other_argc, char **other_argv, uint64_t *other_size);
bool export_same(int argc, char **argv, int other_argc, char **other_argv);
bool serve_same(int argc, char **argv, int other_argc, char **other_argv);
bool connect_same(int argc, char **argv, int other_argc, char **other_argv);

/* cmd_blk.c */

/* Return: DONE or FAILED */
int blk_attach(int argc, char **argv, uint32_t *disk);
/* "/dev/krdmab0". Return: DONE or FAILED */
int blk_detach(const char *device);
/* Append what 'krdma blk list' shows; nothing without the module. Return: DONE or FAILED */
int blk_disks(struct json_object *array);

/* state.c: what this host is */

#define PARAMETERS "/sys/module/krdma_mover/parameters"

/**
 * parameter_read() - the value of a parameter of the module
 * @name: of the parameter
 * @value: out: the value, without the newline
 * @size: of @value
 *
 * Return: 0 or an errno.
 */
int parameter_read(const char *name, char *value, size_t size);
/**
 * parameter_write() - change a parameter of the module
 * @name: of the parameter
 * @value: the new value, which the module checks
 *
 * Return: 0 or an errno.
 */
int parameter_write(const char *name, const char *value);

/**
 * struct listener - a listener, and its allow-list
 * @addr: where it listens
 * @closed: it accepts no more sessions
 * @sessions: live sessions that came through it
 * @allow_count: prefixes in @allow; 0: every host is admitted
 * @allow: who is admitted
 */
struct listener {
	struct krdma_sockaddr addr;
	bool closed;
	unsigned int sessions;
	unsigned int allow_count;
	struct krdma_prefix allow[KRDMA_LISTEN_ALLOW_MAX];
};

/**
 * same_addr() - are two addresses the same, with their ports?
 * @a: one
 * @b: the other
 *
 * Return: true if they are.
 */
bool same_addr(const struct krdma_sockaddr *a, const struct krdma_sockaddr *b);
/**
 * listeners_read() - the listeners of this network namespace
 * @krdma: handle
 * @listeners: out: an array, which the caller frees, also after a failure
 *
 * Return: their number, or -1 with the error of libkrdma.
 */
int listeners_read(struct krdma *krdma, struct listener **listeners);

/**
 * export_length() - the bytes of an export of this host
 * @krdma: handle
 * @name: its name
 *
 * Return: its length; 0 if there is none.
 */
uint64_t export_length(struct krdma *krdma, const char *name);

/**
 * disk_text() - a member of a disk that blk_disks() has appended
 * @disk: the disk
 * @key: of the member
 *
 * Return: its value as text; NULL if the disk has none.
 */
const char *disk_text(struct json_object *disk, const char *key);
/**
 * disk_is() - is a disk in that state?
 * @disk: of blk_disks()
 * @state: "live", "lost", ...
 *
 * Return: true if it is.
 */
bool disk_is(struct json_object *disk, const char *state);

/* units.c */

/**
 * struct unit_kind - units that hold what sections of a kind say
 * @kind: of the sections
 * @prefix: of "PREFIX@NAME.service"
 */
struct unit_kind {
	const struct conf_kind *kind;
	const char *prefix;
};

/* The first ones are what peers find here. */
enum {
	UNITS_EXPORT,
	UNITS_SHARE,
	UNITS_FOUND,
	UNITS_CONNECT = UNITS_FOUND,
	UNIT_KINDS
};

extern const struct unit_kind unit_kinds[UNIT_KINDS];

/* Return: its exit status, or -1 */
int systemctl(const char *option, const char *verb, const char *unit);
int unit_name(const struct unit_kind *kind, const char *name, char *unit, size_t size);
/*
 * What a unit has beside its template, until the next boot; NULL: nothing. systemd reads it with
 * "daemon-reload". Return: 1 if that was something else before, 0 if not, -1 with errno
 */
int unit_drop_in(const char *unit, const char *text);
/*
 * The drop-in of a section with a directory or a file. Return: allocated; NULL if there is none, or
 * a unit can't have its path
 */
char *section_drop_in(const struct conf_section *section);
/* Does a unit run that does what the section says? @runs: does it run at all? */
bool unit_is_current(const char *unit, const struct conf_section *section, bool *runs);
bool unit_runs(const struct unit_kind *kind, const char *name);
/* Does a unit run that exports such memory, of any size? @size: of the section */
bool unit_grows(const char *unit, const struct conf_section *section, uint64_t *size);
/* Is its process of conf_exec(), and waits for SIGHUP? One of an older version, or of another command, would end by it. */
bool unit_reloads(const char *unit);
/* Can a unit hold what this file says? Return: DONE or FAILED, with a sentence */
int unit_possible(const struct conf_section *section, const char *path);
int unit_command(const char *unit, char *argv[CONF_ARGS], char **memory);
char *units_running(const struct unit_kind *kind);
char *unit_next(char **text, char *name, size_t size);

#endif /* CONF_H */
