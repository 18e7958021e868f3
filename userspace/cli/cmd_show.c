// SPDX-License-Identifier: GPL-2.0
/* krdma show: write what this host is as a configuration file. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "conf.h"
#include "share.h"

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

/* An export may have grown since its command began. */
static void show_length(struct krdma *krdma, int argc, char **argv, char text[32])
{
	const uint64_t length = export_length(krdma, argv[argc - 1]);
	uint64_t size;
	int i;

	snprintf(text, 32, "%llu", (unsigned long long)length);
	for (i = 1; length && i + 1 < argc; i++)
		if (!strcmp(argv[i], "--size") && !parse_size(argv[i + 1], &size) && size < length)
			argv[i + 1] = text;
}

static void show_units(struct krdma *krdma, const struct unit_kind *kind)
{
	char *text = sd_booted() ? units_running(kind) : NULL, *rest = text, *unit, *memory;
	char *argv[CONF_ARGS], name[512], length[32];
	int argc;

	while (rest && *rest) {
		unit = unit_next(&rest, name, sizeof(name));
		if (!unit)
			continue;
		argc = unit_command(unit, argv, &memory);
		/* Not one that still reads its section. */
		if (argc > 2 && strcmp(argv[2], "--config") != 0) {
			printf("\n[%s %s]\n", kind->kind->name, name);
			if (kind->kind == &conf_export)
				show_length(krdma, argc, argv, length);
			conf_print_keys(kind->kind, argc - 1, argv + 1);
		} else {
			printf("\n# %s waits to be started anew.\n", unit);
		}
		free(memory);
	}
	free(text);
}

/* Exports that no unit holds: apply would leave them, and could not make them. */
static int show_other_exports(struct krdma *krdma)
{
	const struct krdma_export_info *info;
	char share[KRDMA_NAME_MAX], size[SIZE_TEXT], rights[RIGHTS_TEXT];
	struct krdma_iter *iter;

	if (krdma_iter_new(krdma, KRDMA_LIST_EXPORTS, 0, &iter))
		return fail_krdma();
	while ((info = krdma_iter_next(iter))) {
		/* The share's own one, or a client's. */
		snprintf(share, sizeof(share), "%s", info->name);
		if (share_length(share))
			share[share_length(share)] = '\0';
		if (!unit_runs(&unit_kinds[UNITS_EXPORT], info->name) &&
		    !unit_runs(&unit_kinds[UNITS_SHARE], share))
			printf("\n# A program publishes '%s': %s, %s.\n", info->name,
			       size_text(info->length, size), rights_text(info->rights, rights));
	}
	return krdma_iter_free(iter) ? fail_krdma() : DONE;
}

static int show_disks(void)
{
	static const char *const keys[] = { "read-only", "shared" };
	static const char *const values[] = { "queues", "depth",     "timeout",
					      "resume", "keepalive", "policy" };
	struct json_object *disks = json_object_new_array(), *paths;
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
		}
		if (disk_text(disk, "poll_queues"))
			printf("poll-queues = %s\n", disk_text(disk, "poll_queues"));
		for (k = 0; k < ARRAY_SIZE(values); k++)
			if (disk_text(disk, values[k]))
				printf("%s = %s\n", values[k], disk_text(disk, values[k]));
		paths = json_object_object_get(disk, "paths");
		for (n = 0; paths && n < json_object_array_length(paths); n++)
			printf("path = %s\n",
			       json_object_get_string(json_object_array_get_idx(paths, n)));
		if (disk_is(disk, "lost") || disk_is(disk, "revoked"))
			printf("# It is %s.\n", disk_text(disk, "state"));
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
	if (json_asked)
		return usage_error("a configuration file is not JSON; see 'krdma status -j'");
	if (!config)
		return usage_error("--config is needed; 'krdma status' shows what goes on");
	if (module_open(&krdma))
		return FAILED;
	show_parameters();
	rc = show_listeners(krdma);
	show_units(krdma, &unit_kinds[UNITS_EXPORT]);
	show_units(krdma, &unit_kinds[UNITS_SHARE]);
	if (!rc)
		rc = show_other_exports(krdma);
	show_units(krdma, &unit_kinds[UNITS_CONNECT]);
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
