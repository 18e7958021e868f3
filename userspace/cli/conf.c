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

const struct conf_kind conf_module = { "module", NULL, module_check };
const struct conf_kind conf_listen = { "listen", " allow= ", listen_check };
const struct conf_kind conf_export = {
	"export", " size= file= read-only atomic huge max-segments= ", export_check
};
const struct conf_kind conf_connect = { "connect", " resume= keepalive= path= policy= messages ",
					connect_check };
const struct conf_kind conf_disk = {
	"disk",
	" read-only shared takeover no-hold block-size= queues= depth= timeout= resume= keepalive= path= policy= ",
	blk_check
};

static const struct conf_kind *const kinds[] = { &conf_module, &conf_listen, &conf_export,
						 &conf_connect, &conf_disk };

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

static int section_add(struct conf_section *section, char *word, unsigned int line)
{
	if (section->argc == CONF_ARGS - 2) {
		free(word);
		return usage_error("a section has at most %d words", CONF_ARGS);
	}
	section->lines[section->argc] = line;
	section->argv[section->argc++] = word;
	return DONE;
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
				   "[connect HOST] or [disk HOST/NAME]");
	if (!*name != (kinds[i] == &conf_module))
		return usage_error("[%s] has %s name", kinds[i]->name, *name ? "no" : "a");
	/* Names of units, where systemd would escape others. */
	if ((kinds[i] == &conf_export || kinds[i] == &conf_connect) &&
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.")])
		return usage_error("a name has letters, digits and ':-_.' here");
	for (other = first; other; other = other->next)
		if (other->kind == kinds[i] && !strcmp(other->name, name))
			return usage_error("there is [%s%s%s] on line %u already", kinds[i]->name,
					   *name ? " " : "", name, other->line);
	section = allocated(calloc(1, sizeof(*section)));
	section->kind = kinds[i];
	section->name = allocated(strdup(name));
	section->line = line;
	*end = section;
	return section_add(section, allocated(strdup(kinds[i]->name)), line);
}

/* "size = 4G", or "atomic". Return: the exit status */
static int section_key(struct conf_section *section, char *text, unsigned int line)
{
	char *equals = strchr(text, '='), *value = NULL, *option;
	enum key key;
	int rc;

	if (equals) {
		*equals = '\0';
		value = trimmed(equals + 1);
		text = trimmed(text);
	}
	key = key_of(section->kind, text);
	if (key == KEY_NONE)
		return usage_error("[%s] has no key '%s', but%.*s", section->kind->name, text,
				   (int)strlen(section->kind->keys) - 1, section->kind->keys);
	if (key == KEY_VALUE && (!value || !*value))
		return usage_error("'%s' needs a value", text);
	if (key == KEY_FLAG && value && !strcmp(value, "no"))
		return DONE;
	if (key == KEY_FLAG && value && strcmp(value, "yes") != 0)
		return usage_error("'%s' is yes or no, not '%s'", text, value);
	option = allocated(malloc(strlen(text) + 3));
	sprintf(option, "--%s", text);
	rc = section_add(section, option, line);
	if (!rc && key == KEY_VALUE)
		rc = section_add(section, allocated(strdup(value)), line);
	return rc;
}

static int section_end(struct conf_section *section, const char *path)
{
	int rc;

	/* With "--", optind is at the name only when all options are read. */
	section_add(section, allocated(strdup("--")), section->line);
	section->lines[section->argc] = section->line;
	section->argv[section->argc++] = allocated(strdup(section->name));
	subject_follow(path, section->lines);
	optind = 0;
	rc = section->kind->check(section->argc, section->argv);
	subject_follow(NULL, NULL);
	return rc < 0 ? DONE : rc;
}

int conf_read(const char *path, struct conf_section **sections)
{
	struct conf_section *section = NULL, **end = sections;
	FILE *file = fopen(path, "re");
	unsigned int line = 0;
	char *buf = NULL;
	size_t size = 0;
	int rc = DONE;

	*sections = NULL;
	if (!file)
		return fail(errno, "cannot open %s: %s", path, strerror(errno));
	while (!rc && getline(&buf, &size, file) >= 0) {
		char *text = trimmed(buf);
		const size_t length = strlen(text);

		subject_set("apply %s:%u", path, ++line);
		if (!length || *text == '#' || *text == ';')
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
		text[length - 1] = '\0';
		rc = section_begin(end, *sections, trimmed(text + 1), line);
		section = *end;
		if (section)
			end = &section->next;
	}
	if (!rc && ferror(file))
		rc = fail(EIO, "cannot read %s", path);
	free(buf);
	fclose(file);
	for (section = *sections; !rc && section; section = section->next)
		rc = section_end(section, path);
	subject_set("apply %s", path);
	return rc;
}

void conf_free(struct conf_section *sections)
{
	struct conf_section *next;
	int i;

	for (; sections; sections = next) {
		next = sections->next;
		for (i = 0; i < sections->argc; i++)
			free(sections->argv[i]);
		free(sections->name);
		free(sections);
	}
}

int conf_exec(const char *path, const struct conf_kind *kind, const char *name)
{
	char *argv[CONF_ARGS + 2] = { "krdma" };
	struct conf_section *sections, *s;
	int rc = conf_read(path, &sections);

	for (s = sections; !rc && s; s = s->next)
		if (s->kind == kind && !strcmp(s->name, name))
			break;
	if (!rc && !s)
		rc = fail(ENOENT, "there is no [%s %s]", kind->name, name);
	if (!rc) {
		memcpy(argv + 1, s->argv, sizeof(s->argv));
		execv("/proc/self/exe", argv);
		rc = fail(errno, "cannot start: %s", strerror(errno));
	}
	conf_free(sections);
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
}
