// SPDX-License-Identifier: GPL-2.0
/*
 * The configuration file. A section is a command that is not run yet: its keys are the command's long
 * options, so that both take the same values, with the same errors.
 *
 *	# comment
 *	[export scratch]
 *	size = 4G
 *	atomic
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

bool conf_checks;

static int module_check(int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		optind = i + 2;
		if (argv[i][2 + strspn(argv[i] + 2, "abcdefghijklmnopqrstuvwxyz_")])
			return usage_error("'%s' is not the name of a parameter", argv[i] + 2);
	}
	return -1;
}

const struct conf_kind conf_module = {
	.name = "module",
	.command = "module",
	.check = module_check,
};
const struct conf_kind conf_listen = {
	.name = "listen",
	.command = "listen",
	.operand = "ADDRESS",
	.keys = " allow= ",
	.check = listen_check,
};
const struct conf_kind conf_export = {
	.name = "export",
	.command = "export",
	.operand = "NAME",
	.keys = " size= file= read-only atomic huge max-segments= ",
	.check = export_check,
	.same = export_same,
};
const struct conf_kind conf_share = {
	.name = "share",
	.command = "serve",
	.operand = "NAME",
	.path = "directory",
	.keys = " directory= read-only max-clients= ",
	.check = serve_check,
	.same = serve_same,
};
const struct conf_kind conf_connect = {
	.name = "connect",
	.command = "connect",
	.operand = "HOST",
	.keys = " resume= keepalive= path= policy= messages ",
	.check = connect_check,
	.same = connect_same,
};
const struct conf_kind conf_disk = {
	.name = "disk",
	.command = "disk",
	.operand = "HOST/NAME",
	.keys = " read-only shared takeover no-hold block-size= queues= poll-queues= depth= timeout= resume= keepalive= path= policy= ",
	.check = blk_check,
};

static const struct conf_kind *const kinds[] = { &conf_module, &conf_listen,  &conf_export,
						 &conf_share,  &conf_connect, &conf_disk };
/* Those that may come more than once. */
static const char *const lists[] = { "allow", "path" };

enum key {
	KEY_NONE,
	KEY_FLAG,
	KEY_VALUE
};

static enum key key_of(const struct conf_kind *kind, const char *name)
{
	char word[64];

	if (!kind->keys)
		return KEY_VALUE;
	snprintf(word, sizeof(word), " %s= ", name);
	if (strstr(kind->keys, word))
		return KEY_VALUE;
	snprintf(word, sizeof(word), " %s ", name);
	return *name && strstr(kind->keys, word) ? KEY_FLAG : KEY_NONE;
}

static void *allocated(void *p)
{
	if (p)
		return p;
	fail(ENOMEM, "out of memory");
	exit(exit_status(FAILED));
}

static char *trimmed(char *text)
{
	char *end;

	text += strspn(text, " \t\r\n");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r\n", end[-1]))
		end--;
	*end = '\0';
	return text;
}

/* Cut off what follows a '#' or ';' that begins a word. */
static void cut_comment(char *text)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if (strchr("#;", text[i]) && (!i || strchr(" \t", text[i - 1])))
			text[i--] = '\0';
}

static void section_add(struct conf_section *section, char *word, unsigned int line)
{
	section->lines[section->argc] = line;
	section->argv[section->argc++] = word;
}

/* "export scratch", without the brackets. Return: the exit status */
static int section_begin(struct conf_section **end, const struct conf_section *first, char *text,
			 unsigned int line)
{
	const size_t length = strcspn(text, " \t");
	const char *name = trimmed(text + length);
	const struct conf_section *other;
	struct conf_section *section;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i]->name) == length && !strncmp(text, kinds[i]->name, length))
			break;
	if (i == ARRAY_SIZE(kinds))
		return usage_error("a section is [module], [listen ADDRESS], [export NAME], "
				   "[share NAME], [connect HOST] or [disk HOST/NAME]");
	if (kinds[i]->operand && !*name)
		return usage_error("[%s] needs a name: [%s %s]", kinds[i]->name, kinds[i]->name,
				   kinds[i]->operand);
	if (!kinds[i]->operand && *name)
		return usage_error("[%s] has no name", kinds[i]->name);
	if (strpbrk(name, " \t"))
		return usage_error("a name has no spaces");
	if ((kinds[i] == &conf_export || kinds[i] == &conf_share) && !name_ok(name))
		return usage_error("a name has the characters A-Z a-z 0-9 . _ - : + =");
	if (kinds[i] == &conf_export && strlen(name) >= KRDMA_NAME_MAX)
		return usage_error("the name of an export has at most %d characters",
				   KRDMA_NAME_MAX - 1);
	for (other = first; other; other = other->next)
		if (other->kind == kinds[i] && !strcmp(other->name, name))
			return usage_error("there is [%s%s%s] on line %u already", kinds[i]->name,
					   *name ? " " : "", name, other->line);
	section = allocated(calloc(1, sizeof(*section)));
	section->kind = kinds[i];
	section->name = allocated(strdup(name));
	section->line = line;
	section_add(section, allocated(strdup(kinds[i]->command)), line);
	*end = section;
	return DONE;
}

/* Has the key come before, and may it? Return: the exit status */
static int key_again(struct conf_section *section, const char *name, unsigned int line)
{
	const size_t room = ARRAY_SIZE(section->keys);
	size_t i, n;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		if (section->kind->keys && !strcmp(name, lists[i]))
			return DONE;
	for (n = 0; n < room && section->keys[n].name; n++)
		if (!strcmp(section->keys[n].name, name))
			return usage_error("'%s' is on line %u already", name,
					   section->keys[n].line);
	if (n == room)
		return usage_error("a section has at most %zu keys", room);
	section->keys[n].name = allocated(strdup(name));
	section->keys[n].line = line;
	return DONE;
}

/* "size = 4G", or "atomic". Return: the exit status */
static int section_key(struct conf_section *section, char *text, unsigned int line)
{
	char *equals = strchr(text, '='), *value = NULL, *option;
	enum key key;
	bool is_operand, is_path;
	int rc;

	if (equals) {
		*equals = '\0';
		value = trimmed(equals + 1);
		text = trimmed(text);
	}
	if (!*text)
		return usage_error("a key has a name");
	key = key_of(section->kind, text);
	if (key == KEY_NONE)
		return usage_error("[%s] has no key '%s', only%.*s", section->kind->name, text,
				   (int)strlen(section->kind->keys) - 1, section->kind->keys);
	rc = key_again(section, text, line);
	if (rc)
		return rc;
	if (key == KEY_VALUE && (!value || !*value))
		return usage_error("'%s' needs a value", text);
	if (key == KEY_FLAG && value && !strcmp(value, "no"))
		return DONE;
	if (key == KEY_FLAG && value && strcmp(value, "yes") != 0)
		return usage_error("'%s' is yes or no, not '%s'", text, value);
	is_operand = section->kind->path && !strcmp(text, section->kind->path);
	is_path = is_operand || (section->kind == &conf_export && !strcmp(text, "file"));
	/* The directory is another one when a unit runs the command. */
	if (is_path && value && *value != '/')
		return usage_error("'%s' is no path from '/'", value);
	if (is_path && value)
		section->path = allocated(strdup(value));
	if (is_operand && value)
		return DONE;
	/* Three more follow at the end. */
	if (section->argc + 5 > CONF_ARGS)
		return usage_error("there are too many keys in this section");
	option = allocated(malloc(strlen(text) + 3));
	sprintf(option, "--%s", text);
	section_add(section, option, line);
	if (key == KEY_VALUE)
		section_add(section, allocated(strdup(value)), line);
	return DONE;
}

/* Of a host without the default one. */
static void without_port(char *host)
{
	const size_t length = strlen(host), cut = strlen(":7471");

	if (length > cut && !strcmp(host + length - cut, ":7471"))
		host[length - cut] = '\0';
}

/* The same listener or disk in another spelling, or two exports of one name? */
static bool same_object(const struct conf_section *a, const struct conf_section *b)
{
	struct krdma_sockaddr addrs[2];
	struct region_spec specs[2];

	if ((a->kind == &conf_export && b->kind == &conf_share) ||
	    (a->kind == &conf_share && b->kind == &conf_export))
		return !strcmp(a->name, b->name);
	if (a->kind != b->kind)
		return false;
	if (a->kind == &conf_listen) {
		if (krdma_resolve(a->name, &addrs[0], 1) < 0 ||
		    krdma_resolve(b->name, &addrs[1], 1) < 0)
			return false;
		addrs[0].port = addrs[0].port ? addrs[0].port : KRDMA_DEFAULT_PORT;
		addrs[1].port = addrs[1].port ? addrs[1].port : KRDMA_DEFAULT_PORT;
		return !memcmp(&addrs[0], &addrs[1], sizeof(addrs[0]));
	}
	if (a->kind != &conf_disk || parse_region(a->name, &specs[0]) ||
	    parse_region(b->name, &specs[1]))
		return false;
	without_port(specs[0].host);
	without_port(specs[1].host);
	return !strcmp(specs[0].name, specs[1].name) && !strcmp(specs[0].host, specs[1].host);
}

/* Return: the exit status */
static int section_end(struct conf_section *section, const struct conf_section *first,
		       const char *path)
{
	const char *path_key = section->kind->path;
	char *option;
	int rc;

	if (path_key && !section->path) {
		subject_set("apply %s:%u", path, section->line);
		return usage_error("[%s %s] needs a '%s'", section->kind->name, section->name,
				   path_key);
	}
	if (path_key) {
		option = allocated(malloc(strlen("--name=") + strlen(section->name) + 1));
		sprintf(option, "--name=%s", section->name);
		section_add(section, option, section->line);
	}
	/* With "--", optind is at the operand only when all options are read. */
	section_add(section, allocated(strdup("--")), section->line);
	section_add(section, allocated(strdup(path_key ? section->path : section->name)),
		    section->line);
	subject_follow(path, section->lines);
	optind = 0;
	conf_checks = true;
	rc = section->kind->check(section->argc, section->argv);
	conf_checks = false;
	if (rc < 0)
		rc = DONE;
	optind = section->argc;
	for (; !rc && first != section; first = first->next)
		if (same_object(section, first))
			rc = usage_error("[%s %s] on line %u %s", first->kind->name, first->name,
					 first->line,
					 first->kind == section->kind ? "is the same" :
									"has this name");
	subject_follow(NULL, NULL);
	return rc;
}

/* @kind, @name: of the only section that is wanted; NULL for all */
static int read_lines(FILE *file, const char *path, const struct conf_kind *kind, const char *name,
		      struct conf_section **sections)
{
	struct conf_section *section = NULL, **end = sections;
	unsigned int line = 0;
	char *buf = NULL;
	size_t size = 0;
	ssize_t got;
	int rc = DONE;

#define WANTED(s) (!kind || ((s)->kind == kind && !strcmp((s)->name, name)))
	while (!rc && (got = getline(&buf, &size, file)) >= 0) {
		char *text = buf;
		size_t length = strlen(text);

		subject_set("%s %s:%u", kind ? kind->command : "apply", path, ++line);
		if (length != (size_t)got) {
			rc = usage_error("there is a byte 0 in it");
			continue;
		}
		cut_comment(text);
		text = trimmed(text);
		length = strlen(text);
		if (!length)
			continue;
		if (*text != '[') {
			rc = section ? section_key(section, text, line) :
				       usage_error("a section has to come first");
			continue;
		}
		if (text[length - 1] != ']') {
			rc = usage_error("a section is [KIND NAME]");
			continue;
		}
		/* In the order of their lines. */
		if (section && WANTED(section))
			rc = section_end(section, *sections, path);
		if (rc)
			break;
		subject_set("%s %s:%u", kind ? kind->command : "apply", path, line);
		text[length - 1] = '\0';
		rc = section_begin(end, *sections, trimmed(text + 1), line);
		section = *end;
		if (section)
			end = &section->next;
	}
	if (!rc && section && WANTED(section))
		rc = section_end(section, *sections, path);
#undef WANTED
	free(buf);
	return rc;
}

static int conf_open(const char *path, const struct conf_kind *kind, const char *name,
		     struct conf_section **sections)
{
	FILE *file = fopen(path, "re");
	int rc;

	*sections = NULL;
	if (!file)
		return fail(errno, "cannot open %s: %s", path, strerror(errno));
	errno = 0;
	rc = read_lines(file, path, kind, name, sections);
	if (!rc && !feof(file))
		rc = fail(errno, "cannot read %s: %s", path, strerror(errno));
	fclose(file);
	return rc;
}

int conf_read(const char *path, struct conf_section **sections)
{
	int rc = conf_open(path, NULL, NULL, sections);

	subject_set("apply %s", path);
	return rc;
}

void conf_free(struct conf_section *sections)
{
	struct conf_section *next;
	size_t k;
	int i;

	for (; sections; sections = next) {
		next = sections->next;
		for (i = 0; i < sections->argc; i++)
			free(sections->argv[i]);
		for (k = 0; k < ARRAY_SIZE(sections->keys); k++)
			free(sections->keys[k].name);
		free(sections->name);
		free(sections->path);
		free(sections);
	}
}

int conf_read_one(const char *path, const struct conf_kind *kind, const char *name,
		  struct conf_section **section)
{
	struct conf_section *sections, *s, **at;
	int rc = conf_open(path, kind, name, &sections);

	subject_set("%s %s", kind->command, path);
	for (at = &sections; !rc && (s = *at); at = &s->next)
		if (s->kind == kind && !strcmp(s->name, name))
			break;
	if (!rc && !*at) {
		fail(ENOENT, "there is no [%s %s]", kind->name, name);
		rc = FAILED;
	}
	*section = *at;
	if (rc) {
		conf_free(sections);
		return rc;
	}
	/* It goes first. */
	if (*section != sections) {
		*at = (*section)->next;
		(*section)->next = sections;
	}
	return DONE;
}

int conf_exec(const char *path, const struct conf_kind *kind, const char *name)
{
	char *argv[CONF_ARGS + 3] = { "krdma", "-j" };
	struct conf_section *s;
	int rc = conf_read_one(path, kind, name, &s);

	if (rc)
		return rc;
	memcpy(argv + (json_asked ? 2 : 1), s->argv, sizeof(s->argv));
	setenv(CONF_FROM, path, 1);
	execv("/proc/self/exe", argv);
	rc = fail(errno, "cannot start: %s", strerror(errno));
	conf_free(s);
	return rc;
}

void conf_print_keys(const struct conf_kind *kind, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *name = argv[i] + 2;

		if (strncmp(argv[i], "--", 2) != 0)
			continue;
		if (key_of(kind, name) == KEY_FLAG)
			printf("%s = yes\n", name);
		else if (key_of(kind, name) == KEY_VALUE && i + 1 < argc)
			printf("%s = %s\n", name, argv[++i]);
	}
	if (kind->path && i + 1 < argc)
		printf("%s = %s\n", kind->path, argv[i + 1]);
}
