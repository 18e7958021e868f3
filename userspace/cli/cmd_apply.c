// SPDX-License-Identifier: GPL-2.0
/* krdma apply: make this host what the configuration file says. krdma show: write what it is. */
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "conf.h"

#define PARAMETERS "/sys/module/krdma_mover/parameters"

extern char **environ;

struct apply {
	struct krdma *krdma;
	struct conf_section *sections;
	bool dry_run;
	struct json_object *changes;
	bool failed;
};

/* Say what is done. Return: is it to be done? */
static bool change(struct apply *apply, const char *what, const char *kind, const char *name)
{
	struct json_object *object;

	if (json_asked) {
		object = json_object_new_object();
		json_add_text(object, "change", what);
		json_add_text(object, "kind", kind);
		json_add_text(object, "name", name);
		json_object_array_add(apply->changes, object);
	} else {
		printf("%s %s %s\n", what, kind, name);
		/* Before an error that comes of it. */
		fflush(stdout);
	}
	return !apply->dry_run;
}

static struct conf_section *section_find(struct apply *apply, const struct conf_kind *kind,
					 const char *name)
{
	struct conf_section *s;

	for (s = apply->sections; s; s = s->next)
		if (s->kind == kind && !strcmp(s->name, name))
			return s;
	return NULL;
}

/* ---- module parameters ---- */

/* Without the newline. Return: 0 or an errno */
static int parameter_read(const char *name, char *value, size_t size)
{
	char path[256];
	FILE *file;
	int rc = 0;

	snprintf(path, sizeof(path), PARAMETERS "/%s", name);
	file = fopen(path, "re");
	if (!file)
		return errno;
	if (!fgets(value, (int)size, file))
		rc = EIO;
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return rc;
}

static int parameter_write(const char *name, const char *value)
{
	char path[256];
	FILE *file;
	int rc = 0;

	snprintf(path, sizeof(path), PARAMETERS "/%s", name);
	file = fopen(path, "we");
	if (!file)
		return errno;
	/* What the module has against the value is known when it is written. */
	if (fputs(value, file) < 0 || fflush(file))
		rc = errno;
	fclose(file);
	return rc;
}

static int apply_parameters(struct apply *apply, const char *path)
{
	struct conf_section *s = section_find(apply, &conf_module, "");
	char now[256];
	int i, rc;

	for (i = 1; s && i + 1 < s->argc && strcmp(s->argv[i], "--") != 0; i += 2) {
		const char *name = s->argv[i] + 2, *value = s->argv[i + 1];

		subject_set("apply %s:%u", path, s->lines[i]);
		rc = parameter_read(name, now, sizeof(now));
		if (rc)
			return fail(rc, "the module has no parameter '%s'", name);
		if (!strcmp(now, value) || !change(apply, "set", "parameter", name))
			continue;
		rc = parameter_write(name, value);
		if (rc)
			return fail(rc, "the module does not take '%s' for '%s': %s", value, name,
				    strerror(rc));
	}
	return DONE;
}

/* ---- listeners ---- */

struct listener {
	struct krdma_sockaddr addr;
	bool closed;
	unsigned int allow_count;
	struct krdma_prefix allow[KRDMA_LISTEN_ALLOW_MAX];
};

static bool same_addr(const struct krdma_sockaddr *a, const struct krdma_sockaddr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Those of this network namespace. Return: their number, or -1 */
static int listeners_read(struct krdma *krdma, struct listener **listeners)
{
	const struct krdma_listener_info *info;
	const struct krdma_prefix_info *prefix;
	struct listener *l = NULL, *more;
	struct krdma_iter *iter;
	int n = 0, i;

	*listeners = NULL;
	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return -1;
	while ((info = krdma_iter_next(iter))) {
		more = realloc(l, (size_t)(n + 1) * sizeof(*l));
		if (!more)
			abort();
		l = more;
		memset(&l[n], 0, sizeof(*l));
		l[n].addr = info->addr;
		l[n++].closed = info->flags & KRDMA_LISTENER_CLOSED;
	}
	*listeners = l;
	if (krdma_iter_free(iter) || krdma_iter_new(krdma, KRDMA_LIST_PREFIXES, 0, &iter))
		return -1;
	while ((prefix = krdma_iter_next(iter)))
		for (i = 0; i < n; i++)
			if (same_addr(&prefix->listener, &l[i].addr) &&
			    l[i].allow_count < KRDMA_LISTEN_ALLOW_MAX)
				l[i].allow[l[i].allow_count++] = prefix->prefix;
	return krdma_iter_free(iter) ? -1 : n;
}

/* What a section wants. It was checked. */
static int listener_parse(const struct conf_section *s, struct listener *want)
{
	int i;

	memset(want, 0, sizeof(*want));
	if (krdma_resolve(s->name, &want->addr, 1) < 0)
		return fail_krdma();
	if (!want->addr.port)
		want->addr.port = KRDMA_DEFAULT_PORT;
	for (i = 1; i < s->argc; i++)
		if (!strcmp(s->argv[i], "--allow") &&
		    krdma_parse_prefix(s->argv[i + 1], &want->allow[want->allow_count++]))
			return fail_krdma();
	return DONE;
}

static int listener_apply(struct apply *apply, const struct conf_section *s, struct listener *have,
			  int count)
{
	struct listener want;
	int i;

	if (listener_parse(s, &want))
		return FAILED;
	for (i = 0; i < count && !same_addr(&want.addr, &have[i].addr); i++)
		;
	if (i < count) {
		const bool same = !have[i].closed && have[i].allow_count == want.allow_count &&
				  !memcmp(have[i].allow, want.allow, sizeof(want.allow));

		have[i].addr.family = 0; /* it is wanted */
		if (same)
			return DONE;
	}
	if (!change(apply, i < count ? "change" : "add", "listener", s->name))
		return DONE;
	return krdma_replace_listener(apply->krdma, &want.addr, want.allow, want.allow_count) ?
		       fail_krdma() :
		       DONE;
}

static int apply_listeners(struct apply *apply)
{
	char text[KRDMA_ADDR_TEXT];
	struct conf_section *s;
	struct listener *have;
	int i, rc = DONE, count = listeners_read(apply->krdma, &have);

	if (count < 0)
		rc = fail_krdma();
	for (s = apply->sections; !rc && s; s = s->next) {
		subject_set("apply listen %s", s->name);
		if (s->kind == &conf_listen)
			rc = listener_apply(apply, s, have, count);
	}
	for (i = 0; !rc && i < count; i++) {
		if (!have[i].addr.family)
			continue;
		krdma_format_addr(&have[i].addr, text);
		subject_set("apply listen %s", text);
		if (change(apply, "remove", "listener", text) &&
		    krdma_unlisten(apply->krdma, &have[i].addr))
			rc = fail_krdma();
	}
	free(have);
	return rc;
}

/* ---- disks ---- */

static bool disk_is_of(struct json_object *disk, const struct region_spec *spec)
{
	struct krdma_sockaddr addrs[16];
	char text[KRDMA_ADDR_TEXT];
	const int count = krdma_resolve(spec->host, addrs, ARRAY_SIZE(addrs));
	int i;

	if (strcmp(json_object_get_string(json_object_object_get(disk, "export")), spec->name) != 0)
		return false;
	for (i = 0; i < count; i++) {
		if (!addrs[i].port)
			addrs[i].port = KRDMA_DEFAULT_PORT;
		if (!strcmp(json_object_get_string(json_object_object_get(disk, "peer")),
			    krdma_format_addr(&addrs[i], text)))
			return true;
	}
	return false;
}

static int disk_apply(struct apply *apply, struct conf_section *s, struct json_object *disks)
{
	struct region_spec spec;
	uint32_t disk;
	size_t i;

	parse_region(s->name, &spec);
	for (i = 0; i < json_object_array_length(disks); i++)
		if (disk_is_of(json_object_array_get_idx(disks, i), &spec))
			return DONE;
	if (!change(apply, "attach", "disk", s->name))
		return DONE;
	optind = 0;
	return blk_attach(s->argc, s->argv, &disk);
}

/* Those that are not in the file stay: what is on a disk may be in use without it being open. */
static int apply_disks(struct apply *apply)
{
	struct json_object *disks = json_object_new_array();
	struct conf_section *s;
	int rc;

	subject_set("apply");
	rc = blk_disks(disks);
	for (s = apply->sections; !rc && s; s = s->next) {
		subject_set("apply disk %s", s->name);
		if (s->kind == &conf_disk && disk_apply(apply, s, disks))
			apply->failed = true;
	}
	json_object_put(disks);
	return rc;
}

/* ---- exports and connections: each is held by a unit of systemd ---- */

static const struct unit_kind {
	const struct conf_kind *kind;
	const char *prefix; /* of "PREFIX@NAME.service" */
} unit_kinds[] = {
	{ &conf_export, "krdma-export" },
	{ &conf_connect, "krdma-connect" },
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

static int systemctl(const char *verb, const char *unit, char **text)
{
	char *argv[] = { "systemctl", "--quiet", (char *)verb, (char *)unit, NULL };

	return run_program(argv, text);
}

/* The command of a running unit, as it began. Return: words in argv, 0 if it does not run */
static int unit_command(const char *unit, char *argv[CONF_ARGS], char **memory)
{
	char *show[] = { "systemctl", "show", "--property=MainPID", "--value", (char *)unit, NULL };
	char path[64], *text, *word;
	size_t size = 0;
	ssize_t length = -1;
	int argc = 0;
	FILE *file;

	*memory = NULL;
	if (run_program(show, &text) || !text || !strtoul(text, NULL, 10)) {
		free(text);
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%lu/cmdline", strtoul(text, NULL, 10));
	free(text);
	file = fopen(path, "re");
	if (file) {
		length = getdelim(memory, &size, EOF, file);
		fclose(file);
	}
	for (word = *memory; length > 0 && word < *memory + length && argc < CONF_ARGS;
	     word += strlen(word) + 1)
		argv[argc++] = word;
	return argc;
}

static bool unit_is_current(const char *unit, const struct conf_section *s, bool *runs)
{
	char *argv[CONF_ARGS], *memory;
	const int argc = unit_command(unit, argv, &memory);
	bool same = argc == s->argc + 1;
	int i;

	for (i = 0; same && i < s->argc; i++)
		same = !strcmp(argv[i + 1], s->argv[i]);
	free(memory);
	*runs = argc > 0;
	return same;
}

static int unit_apply(struct apply *apply, const struct unit_kind *kind, struct conf_section *s)
{
	char unit[512];
	bool runs;

	snprintf(unit, sizeof(unit), "%s@%s.service", kind->prefix, s->name);
	if (unit_is_current(unit, s, &runs) ||
	    !change(apply, runs ? "restart" : "start", kind->kind->name, s->name))
		return DONE;
	if (systemctl("restart", unit, NULL))
		return fail(EIO, "%s does not start: see 'journalctl -u %s'", unit, unit);
	return DONE;
}

/* The names of the units that run: "krdma-export@a.service loaded active ..." a line. */
static char *units_running(const struct unit_kind *kind)
{
	char pattern[64], *text;
	char *argv[] = {
		"systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating",
		pattern,     NULL
	};

	snprintf(pattern, sizeof(pattern), "%s@*.service", kind->prefix);
	return run_program(argv, &text) ? NULL : text;
}

/* Cut the next name out of what units_running() returned. */
static char *unit_next(char **text)
{
	char *name = strsep(text, "\n"), *end;

	if (!name || !(name = strchr(name, '@')) || !(end = strstr(name, ".service")))
		return NULL;
	*end = '\0';
	return name + 1;
}

static int apply_units(struct apply *apply, const struct unit_kind *kind)
{
	char unit[512], *text, *rest, *name;
	struct conf_section *s;

	for (s = apply->sections; s; s = s->next) {
		if (s->kind != kind->kind)
			continue;
		subject_set("apply %s %s", kind->kind->name, s->name);
		if (!sd_booted())
			fail(ENODEV,
			     "systemd does not run here, of which a unit would hold it: run 'krdma %s --config %s'",
			     kind->kind->name, s->name);
		if (!sd_booted() || unit_apply(apply, kind, s))
			apply->failed = true;
	}
	rest = text = sd_booted() ? units_running(kind) : NULL;
	while (rest && *rest) {
		name = unit_next(&rest);
		if (!name || section_find(apply, kind->kind, name))
			continue;
		subject_set("apply %s %s", kind->kind->name, name);
		snprintf(unit, sizeof(unit), "%s@%s.service", kind->prefix, name);
		if (change(apply, "stop", kind->kind->name, name) &&
		    systemctl("stop", unit, NULL)) {
			fail(EIO, "%s does not stop: see 'systemctl status %s'", unit, unit);
			apply->failed = true;
		}
	}
	free(text);
	return DONE;
}

/* ---- apply ---- */

/* What is there is changed in an order in which each finds what it needs. */
static int apply_all(struct apply *apply, const char *path)
{
	size_t i;
	int rc;

	rc = apply_parameters(apply, path);
	/* A peer that may connect finds the exports. */
	if (!rc)
		rc = apply_units(apply, &unit_kinds[0]);
	if (!rc)
		rc = apply_listeners(apply);
	for (i = 1; !rc && i < ARRAY_SIZE(unit_kinds); i++)
		rc = apply_units(apply, &unit_kinds[i]);
	if (!rc)
		rc = apply_disks(apply);
	return rc;
}

static int apply_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'n' },
		COMMON_LONG,
	};
	struct apply apply = { 0 };
	struct json_object *root;
	const char *path = CONF_FILE;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":n" COMMON_SHORT, options, NULL)) != -1) {
		if (c == 'n') {
			apply.dry_run = true;
			continue;
		}
		rc = common_option(&cmd_apply, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (argc - optind > 1)
		return usage_error("one file at most");
	if (optind < argc)
		path = argv[optind];
	subject_set("apply %s", path);
	rc = conf_read(path, &apply.sections);
	if (!rc)
		rc = module_open(&apply.krdma);
	if (!rc) {
		root = json_root();
		apply.changes = json_object_new_array();
		json_object_object_add(root, "changes", apply.changes);
		rc = apply_all(&apply, path);
		if (json_asked)
			json_finish(root);
		else
			json_object_put(root);
		krdma_free(apply.krdma);
	}
	conf_free(apply.sections);
	return !rc && apply.failed ? FAILED : rc;
}

const struct command cmd_apply = {
	.name = "apply",
	.usage = "krdma apply [-n] [FILE]",
	.summary = "make this host what the configuration file says",
	.help = "Reads /etc/krdma/krdma.conf, or FILE, and changes what differs: parameters of the module,\n"
		"listeners, exports and connections (units of systemd hold them), disks. If a line is wrong,\n"
		"nothing is changed. Disks that are not in the file stay.\n\n"
		"  -n, --dry-run     only say what would be changed\n",
	.run = apply_run,
};

/* ---- show ---- */

static void show_parameters(void)
{
	DIR *dir = opendir(PARAMETERS);
	struct dirent *entry;
	char value[256];

	puts("[module]");
	while (dir && (entry = readdir(dir)))
		if (*entry->d_name != '.' && !parameter_read(entry->d_name, value, sizeof(value)))
			printf("%s = %s\n", entry->d_name, value);
	if (dir)
		closedir(dir);
}

static int show_listeners(struct krdma *krdma)
{
	char text[KRDMA_ADDR_TEXT];
	struct listener *have;
	int i, count = listeners_read(krdma, &have);
	unsigned int p;

	for (i = 0; i < count; i++) {
		printf("\n[listen %s]\n", krdma_format_addr(&have[i].addr, text));
		for (p = 0; p < have[i].allow_count; p++) {
			have[i].allow[p].addr.port = 0;
			printf("allow = %s/%u\n", krdma_format_addr(&have[i].allow[p].addr, text),
			       have[i].allow[p].prefix_len);
		}
		if (have[i].closed)
			puts("# It is closed: 'krdma apply' opens it.");
	}
	free(have);
	return count < 0 ? fail_krdma() : DONE;
}

static void show_units(const struct unit_kind *kind)
{
	char *text = sd_booted() ? units_running(kind) : NULL, *rest = text, *name, *memory;
	char *argv[CONF_ARGS], unit[512];
	int argc;

	while (rest && *rest) {
		name = unit_next(&rest);
		if (!name)
			continue;
		snprintf(unit, sizeof(unit), "%s@%s.service", kind->prefix, name);
		argc = unit_command(unit, argv, &memory);
		printf("\n[%s %s]\n", kind->kind->name, name);
		if (argc > 1)
			conf_print_keys(kind->kind, argc - 1, argv + 1);
		free(memory);
	}
	free(text);
}

/* Exports that no unit holds: apply would leave them, and could not make them. */
static int show_other_exports(struct krdma *krdma)
{
	const struct krdma_export_info *info;
	char unit[512], size[SIZE_TEXT], rights[RIGHTS_TEXT], *argv[CONF_ARGS], *memory;
	struct krdma_iter *iter;
	int argc;

	if (krdma_iter_new(krdma, KRDMA_LIST_EXPORTS, 0, &iter))
		return fail_krdma();
	while ((info = krdma_iter_next(iter))) {
		snprintf(unit, sizeof(unit), "%s@%s.service", unit_kinds[0].prefix, info->name);
		argc = sd_booted() ? unit_command(unit, argv, &memory) : 0;
		if (argc)
			free(memory);
		else
			printf("\n# A program publishes '%s': %s, %s.\n", info->name,
			       size_text(info->length, size), rights_text(info->rights, rights));
	}
	return krdma_iter_free(iter) ? fail_krdma() : DONE;
}

static int show_disks(void)
{
	static const char *const keys[] = { "read-only", "shared" };
	struct json_object *disks = json_object_new_array();
	int rc = blk_disks(disks);
	size_t i, k, n;

	for (i = 0; !rc && i < json_object_array_length(disks); i++) {
		struct json_object *disk = json_object_array_get_idx(disks, i);
		struct json_object *flags = json_object_object_get(disk, "flags");

		printf("\n[disk %s/%s]\nblock-size = %s\n",
		       json_object_get_string(json_object_object_get(disk, "peer")),
		       json_object_get_string(json_object_object_get(disk, "export")),
		       json_object_get_string(json_object_object_get(disk, "block")));
		for (n = 0; n < json_object_array_length(flags); n++) {
			const char *flag =
				json_object_get_string(json_object_array_get_idx(flags, n));

			for (k = 0; k < ARRAY_SIZE(keys); k++)
				if (!strcmp(flag, keys[k]))
					printf("%s = yes\n", flag);
			if (!strcmp(flag, "not-held"))
				puts("no-hold = yes");
			if (!strcmp(flag, "fail-fast"))
				puts("resume = 0");
		}
	}
	json_object_put(disks);
	return rc;
}

static int show_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", no_argument, NULL, OPT_LONG_ONLY },
		COMMON_LONG,
	};
	struct krdma *krdma;
	bool config = false;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		if (c == OPT_LONG_ONLY) {
			config = true;
			continue;
		}
		rc = common_option(&cmd_show, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	if (!config)
		return usage_error("--config is needed; 'krdma status' shows what goes on");
	if (module_open(&krdma))
		return FAILED;
	show_parameters();
	rc = show_listeners(krdma);
	show_units(&unit_kinds[0]);
	if (!rc)
		rc = show_other_exports(krdma);
	show_units(&unit_kinds[1]);
	if (!rc)
		rc = show_disks();
	krdma_free(krdma);
	return rc;
}

const struct command cmd_show = {
	.name = "show",
	.usage = "krdma show --config",
	.summary = "write this host's state as a configuration file",
	.help = "  --config          for 'krdma apply'; what it can't make is a comment\n\n",
	.run = show_run,
};
