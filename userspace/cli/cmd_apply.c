// SPDX-License-Identifier: GPL-2.0
/* krdma apply: make this host what the configuration file says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "share.h"

/* How often an export that is to grow is looked at, 50 ms apart. */
#define GROW_TRIES 200

struct apply {
	struct krdma *krdma;
	struct conf_section *sections;
	bool dry_run;
	bool disks;
	bool others;
	bool no_wait; /* for exports of files */
	struct json_object *changes;
	bool failed;
	bool reload; /* systemd has to read its units anew */
};

/* Say what is done, and what comes of it, "" for nothing. Return: is it to be done? */
static bool change(struct apply *apply, const char *what, const char *kind, const char *name,
		   const char *effect)
{
	struct json_object *object;

	if (json_asked) {
		object = json_object_new_object();
		json_add_text(object, "change", what);
		json_add_text(object, "kind", kind);
		json_add_text(object, "name", name);
		if (*effect)
			json_add_text(object, "effect", effect);
		json_object_array_add(apply->changes, object);
	} else {
		printf("%s %s %s%s%s\n", what, kind, name, *effect ? ": " : "", effect);
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

/* The module checks values when they are written: all are, or none. */
static int apply_parameters(struct apply *apply, const char *path)
{
	struct conf_section *s = section_find(apply, &conf_module, "");
	const int end = s ? s->argc - 2 : 0; /* "--" and no name */
	char before[CONF_ARGS / 2][64], effect[160];
	int i, rc = 0;

	for (i = 1; i < end; i += 2) {
		subject_set("apply %s:%u", path, s->lines[i]);
		rc = parameter_read(s->argv[i] + 2, before[i / 2], sizeof(before[0]));
		if (rc)
			return fail(rc, "the module has no parameter '%s'", s->argv[i] + 2);
	}
	for (i = 1; i < end && !apply->dry_run; i += 2) {
		rc = strcmp(before[i / 2], s->argv[i + 1]) != 0 ?
			     parameter_write(s->argv[i] + 2, s->argv[i + 1]) :
			     0;
		if (rc) {
			subject_set("apply %s:%u", path, s->lines[i]);
			fail(rc, "the module does not take '%s' for '%s': %s", s->argv[i + 1],
			     s->argv[i] + 2, strerror(rc));
			break;
		}
	}
	if (rc) {
		while (i > 1) {
			i -= 2;
			parameter_write(s->argv[i] + 2, before[i / 2]);
		}
		return FAILED;
	}
	for (i = 1; i < end; i += 2) {
		snprintf(effect, sizeof(effect), "%s, it was %s", s->argv[i + 1], before[i / 2]);
		if (strcmp(before[i / 2], s->argv[i + 1]) != 0)
			change(apply, "set", "parameter", s->argv[i] + 2, effect);
	}
	return DONE;
}

/* ---- listeners ---- */

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

/* Return: DONE or FAILED */
static int listener_apply(struct apply *apply, const char *name, const struct listener *want,
			  const struct listener *have)
{
	subject_set("apply listen %s", name);
	if (have && !have->closed && have->allow_count == want->allow_count &&
	    !memcmp(have->allow, want->allow, sizeof(want->allow)))
		return DONE;
	if (!change(apply, have ? "change" : "add", "listener", name, ""))
		return DONE;
	if (krdma_replace_listener(apply->krdma, &want->addr, want->allow, want->allow_count))
		return fail_krdma();
	if (!have && listener_ends_with_file(apply->krdma, &want->addr))
		return fail(EINVAL, "in this network namespace a listener ends with its command: "
				    "use krdma listen --wait");
	return DONE;
}

static int listener_remove(struct apply *apply, const struct listener *have)
{
	char text[KRDMA_ADDR_TEXT], effect[64] = "";

	krdma_format_addr(&have->addr, text);
	subject_set("apply listen %s", text);
	if (have->sessions)
		snprintf(effect, sizeof(effect), "sessions that end: %u", have->sessions);
	if (!change(apply, "remove", "listener", text, effect))
		return DONE;
	return krdma_unlisten(apply->krdma, &have->addr) ? fail_krdma() : DONE;
}

/* What is wanted at the address, NULL for nothing */
static const struct listener *listener_find(const struct listener *listeners, int count,
					    const struct krdma_sockaddr *addr)
{
	int i;

	for (i = 0; i < count; i++)
		if (same_addr(&listeners[i].addr, addr))
			return &listeners[i];
	return NULL;
}

/* Those that go are gone first: one of all addresses excludes others on its port. */
static int apply_listeners(struct apply *apply)
{
	struct listener *have = NULL, *want = NULL;
	struct conf_section *s;
	int i, wanted = 0, count, rc = DONE;

	for (s = apply->sections; s; s = s->next)
		wanted += s->kind == &conf_listen;
	want = calloc((size_t)wanted + 1, sizeof(*want));
	count = listeners_read(apply->krdma, &have);
	if (!want || count < 0) {
		free(want);
		free(have);
		return want ? fail_krdma() : fail(ENOMEM, "out of memory");
	}
	for (s = apply->sections, i = 0; s && !rc; s = s->next)
		if (s->kind == &conf_listen)
			rc = listener_parse(s, &want[i++]);
	for (i = 0; i < count && !rc; i++)
		if (!listener_find(want, wanted, &have[i].addr))
			apply->failed |= listener_remove(apply, &have[i]) != DONE;
	for (s = apply->sections, i = 0; s && !rc; s = s->next) {
		if (s->kind != &conf_listen)
			continue;
		apply->failed |= listener_apply(apply, s->name, &want[i],
						listener_find(have, count, &want[i].addr)) != DONE;
		i++;
	}
	free(want);
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

/* The disk of an export: one that works, if there is one. */
static struct json_object *disk_find(struct json_object *disks, const struct region_spec *spec)
{
	struct json_object *found = NULL, *disk;
	size_t i;

	for (i = 0; i < json_object_array_length(disks); i++) {
		disk = json_object_array_get_idx(disks, i);
		if (disk_is_of(disk, spec) &&
		    (!found || disk_is(found, "lost") || disk_is(found, "revoked")))
			found = disk;
	}
	return found;
}

/* One that has lost its session does not come back. Return: DONE or FAILED */
static int disk_apply(struct apply *apply, struct conf_section *s, struct json_object *disks)
{
	struct json_object *disk;
	struct region_spec spec;
	uint32_t number;

	parse_region(s->name, &spec);
	disk = disk_find(disks, &spec);
	if (disk && disk_is(disk, "revoked"))
		return fail(
			ESTALE,
			"%s was revoked: the export has ended, or another host has it; krdma blk detach, "
			"and apply again",
			disk_text(disk, "device"));
	if (disk && !disk_is(disk, "lost"))
		return DONE;
	if (disk && json_object_get_uint64(json_object_object_get(disk, "openers")))
		return fail(EBUSY, "%s is lost, and in use: unmount it, and apply again",
			    disk_text(disk, "device"));
	if (!change(apply, "attach", "disk", s->name, disk ? "the one that is there is lost" : ""))
		return DONE;
	if (disk && blk_detach(disk_text(disk, "device")))
		return FAILED;
	optind = 0;
	return blk_attach(s->argc, s->argv, &number);
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

/* ---- exports, shares and connections: each is held by a unit of systemd ---- */

/* What becomes of an export or a share that is restarted: "" if nobody notices. */
static void restart_effect(struct apply *apply, const struct conf_section *s, char *text,
			   size_t size)
{
	const struct krdma_export_info *info;
	const size_t length = strlen(s->name);
	struct krdma_iter *iter;
	unsigned int clients = 0;

	*text = '\0';
	if (s->kind == &conf_connect || krdma_iter_new(apply->krdma, KRDMA_LIST_EXPORTS, 0, &iter))
		return;
	while ((info = krdma_iter_next(iter))) {
		clients += share_length(info->name) == length &&
			   !strncmp(info->name, s->name, length);
		if (s->kind == &conf_export && !strcmp(info->name, s->name))
			snprintf(text, size,
				 "what is in its memory is lost, sessions that have it open: %u",
				 info->grants);
	}
	krdma_iter_free(iter);
	if (s->kind == &conf_share && clients)
		snprintf(text, size, "copies that end: %u", clients);
}

/* A larger size of an export that is there. Return: DONE or FAILED */
static int export_grow(struct apply *apply, const struct conf_section *s, const char *unit,
		       uint64_t size)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	int tries;

	if (!change(apply, "grow", "export", s->name, ""))
		return DONE;
	if (!systemctl("--quiet", "reload", unit))
		for (tries = 0; tries < GROW_TRIES; tries++) {
			if (export_length(apply->krdma, s->name) == size)
				return DONE;
			nanosleep(&pause, NULL);
		}
	return fail(EIO, "%s does not grow: see 'journalctl -u %s'", unit, unit);
}

static int unit_apply(struct apply *apply, const struct unit_kind *kind, struct conf_section *s)
{
	char unit[512], effect[128] = "";
	uint64_t size, have;
	bool current, runs;

	if (unit_name(kind, s->name, unit, sizeof(unit)))
		return FAILED;
	current = unit_is_current(unit, s, &runs);
	/* It may have grown since it began. */
	if (runs && unit_grows(unit, s, &size)) {
		have = export_length(apply->krdma, s->name);
		if (have && have < size && unit_reloads(unit))
			return export_grow(apply, s, unit, size);
		if (have)
			current = have == size;
	}
	if (current)
		return DONE;
	if (runs)
		restart_effect(apply, s, effect, sizeof(effect));
	if (!change(apply, runs ? "restart" : "start", kind->kind->name, s->name, effect))
		return DONE;
	/*
	 * A peer may be away for long: the unit tries again by itself. At boot, a directory or a file
	 * may be on a file system that is mounted after krdma.service.
	 */
	if (systemctl(kind->kind == &conf_export && !(apply->no_wait && s->path) ? "--quiet" :
										   "--no-block",
		      "restart", unit))
		return fail(EIO, "%s does not start: see 'journalctl -u %s'", unit, unit);
	return DONE;
}

static void start_units(struct apply *apply, const struct unit_kind *kind, const char *path)
{
	struct conf_section *s;

	for (s = apply->sections; s; s = s->next) {
		if (s->kind != kind->kind)
			continue;
		subject_set("apply %s %s", kind->kind->name, s->name);
		if (unit_possible(s, path) || unit_apply(apply, kind, s))
			apply->failed = true;
	}
}

/* Stop what is not in the file any more. Return: DONE or FAILED */
static int stop_units(struct apply *apply, const struct unit_kind *kind)
{
	char name[512], *text, *rest, *unit;

	subject_set("apply");
	rest = text = units_running(kind);
	if (!text)
		return fail(EIO, "systemctl does not list its units");
	while (rest && *rest) {
		unit = unit_next(&rest, name, sizeof(name));
		if (!unit || section_find(apply, kind->kind, name))
			continue;
		subject_set("apply %s %s", kind->kind->name, name);
		if (!change(apply, "stop", kind->kind->name, name, ""))
			continue;
		if (systemctl("--quiet", "stop", unit)) {
			fail(EIO, "%s does not stop: see 'systemctl status %s'", unit, unit);
			apply->failed = true;
		} else {
			apply->reload |= unit_drop_in(unit, NULL) > 0;
		}
	}
	free(text);
	return DONE;
}

/* A unit's template does not know the directory or the file. Return: DONE or FAILED */
static int unit_prepare(struct apply *apply, const struct unit_kind *kind,
			const struct conf_section *s)
{
	char unit[512], *text;
	int rc;

	subject_set("apply %s %s", kind->kind->name, s->name);
	if (unit_name(kind, s->name, unit, sizeof(unit)))
		return FAILED;
	text = section_drop_in(s);
	rc = unit_drop_in(unit, text);
	free(text);
	if (rc < 0)
		return fail(errno, "the drop-in of %s can't be written: %s", unit, strerror(errno));
	apply->reload |= rc > 0;
	return DONE;
}

/* systemd also reads anew what stop_units() has removed. */
static void prepare_units(struct apply *apply)
{
	const struct conf_section *s;
	size_t i;

	for (i = 0; i < UNITS_FOUND; i++)
		for (s = apply->sections; s; s = s->next)
			if (s->kind == unit_kinds[i].kind && unit_prepare(apply, &unit_kinds[i], s))
				apply->failed = true;
	subject_set("apply");
	if (apply->reload && systemctl("--quiet", "daemon-reload", NULL)) {
		fail(EIO, "systemd does not read its units anew: see 'systemctl daemon-reload'");
		apply->failed = true;
	}
}

/* ---- apply ---- */

/* What is there is changed in an order in which each finds what it needs. */
static int apply_all(struct apply *apply, const char *path)
{
	/* Units follow their own file: another one ends none. */
	const bool stops = sd_booted() && !strcmp(path, CONF_FILE);
	int rc = DONE;
	size_t i;

	if (!apply->others)
		return apply_disks(apply);
	if (apply_parameters(apply, path))
		apply->failed = true;
	/* An export that ends may have the name of a share that begins, or the other way round. */
	for (i = 0; !rc && stops && i < UNIT_KINDS; i++)
		rc = stop_units(apply, &unit_kinds[i]);
	if (rc)
		return rc;
	if (stops && !apply->dry_run)
		prepare_units(apply);
	/* A peer that may connect finds the exports and shares. */
	for (i = 0; i < UNITS_FOUND; i++)
		start_units(apply, &unit_kinds[i], path);
	rc = apply_listeners(apply);
	for (i = UNITS_FOUND; !rc && i < UNIT_KINDS; i++)
		start_units(apply, &unit_kinds[i], path);
	if (!rc && apply->disks)
		rc = apply_disks(apply);
	return rc;
}

/* Is it the file that units read, under whatever name? */
static bool is_conf_file(const char *path)
{
	struct stat file, conf;

	return !stat(path, &file) && !stat(CONF_FILE, &conf) && file.st_dev == conf.st_dev &&
	       file.st_ino == conf.st_ino;
}

enum {
	OPT_DISKS = OPT_LONG_ONLY,
	OPT_NO_DISKS,
	OPT_NO_WAIT
};

static int apply_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'n' },
		{ "check", no_argument, NULL, 'c' },
		{ "disks", no_argument, NULL, OPT_DISKS },
		{ "no-disks", no_argument, NULL, OPT_NO_DISKS },
		{ "no-wait", no_argument, NULL, OPT_NO_WAIT },
		COMMON_LONG,
	};
	struct apply apply = { .disks = true, .others = true };
	struct json_object *root;
	const char *path = CONF_FILE;
	bool check = false;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":nc" COMMON_SHORT, options, NULL)) != -1) {
		if (c == 'n') {
			apply.dry_run = true;
			continue;
		}
		if (c == 'c') {
			check = true;
			continue;
		}
		if (c == OPT_DISKS || c == OPT_NO_DISKS) {
			apply.disks = c == OPT_DISKS;
			apply.others = !apply.disks;
			continue;
		}
		if (c == OPT_NO_WAIT) {
			apply.no_wait = true;
			continue;
		}
		rc = common_option(&cmd_apply, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (argc - optind > 1)
		return usage_error("one file at most");
	if (optind < argc && !is_conf_file(argv[optind]))
		path = argv[optind];
	subject_set("apply %s", path);
	rc = conf_read(path, &apply.sections);
	if (rc || check) {
		conf_free(apply.sections);
		return rc;
	}
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
	.usage = "krdma apply [-c|-n] [FILE]",
	.summary = "make this host what the configuration file says",
	.help = "Reads /etc/krdma/krdma.conf, or FILE, and changes what differs: parameters of the module,\n"
		"listeners, exports, shares and connections (units of systemd hold them), disks. If a line\n"
		"is wrong, nothing is changed. Disks that are not in the file stay.\n\n"
		"  -c, --check       only look for wrong lines; needs no module\n"
		"  --disks           only disks; --no-disks: all but disks\n"
		"  --no-wait         do not wait for exports of files, whose file systems may be mounted later\n"
		"  -n, --dry-run     only say what would be changed\n",
	.run = apply_run,
};
