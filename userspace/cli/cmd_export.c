// SPDX-License-Identifier: GPL-2.0
/* krdma export: publish memory until a signal. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "conf.h"

enum {
	OPT_READ_ONLY = OPT_LONG_ONLY,
	OPT_ATOMIC,
	OPT_HUGE,
	OPT_MAX_SEGMENTS,
	OPT_CONFIG
};

struct export_options {
	const char *name;
	const char *config;
	const char *file;
	uint64_t length; /* 0: not given */
	int fd;          /* of anonymous memory, or -1 */
	uint32_t rights;
	uint32_t max_segments;
	bool huge;
	bool durable; /* its memory is persistent */
};

/* Return: -1 to go on, else the exit status. */
static int export_options(int argc, char **argv, struct export_options *opts)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "file", required_argument, NULL, 'f' },
		{ "read-only", no_argument, NULL, OPT_READ_ONLY },
		{ "atomic", no_argument, NULL, OPT_ATOMIC },
		{ "huge", no_argument, NULL, OPT_HUGE },
		{ "max-segments", required_argument, NULL, OPT_MAX_SEGMENTS },
		{ "config", optional_argument, NULL, OPT_CONFIG },
		COMMON_LONG,
	};
	bool other = false;
	uint64_t value;
	int c, rc;

	*opts = (struct export_options){ .fd = -1, .rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE };
	while ((c = getopt_long(argc, argv, ":s:f:" COMMON_SHORT, options, NULL)) != -1) {
		other |= c != OPT_CONFIG && c != 'j' && c != 'p';
		switch (c) {
		case 's':
			if (parse_size(optarg, &opts->length))
				return usage_error("'%s' is not a size", optarg);
			break;
		case 'f':
			opts->file = optarg;
			break;
		case OPT_READ_ONLY:
			opts->rights &= ~(uint32_t)KRDMA_RIGHT_WRITE;
			break;
		case OPT_ATOMIC:
			opts->rights |= KRDMA_RIGHT_ATOMIC;
			break;
		case OPT_HUGE:
			opts->huge = true;
			break;
		case OPT_MAX_SEGMENTS:
			if (parse_count(optarg, UINT32_MAX, &value) || !value)
				return usage_error("'%s' is not a number of segments", optarg);
			opts->max_segments = (uint32_t)value;
			break;
		case OPT_CONFIG:
			opts->config = optarg ? optarg : CONF_FILE;
			break;
		default:
			rc = common_option(&cmd_export, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 1)
		return usage_error("one name is needed");
	opts->name = argv[optind];
	if (opts->config)
		return other ? usage_error("--config excludes other options") : -1;
	if (!opts->length && !opts->file)
		return usage_error("--size or --file is needed");
	if ((opts->rights & KRDMA_RIGHT_ATOMIC) && !(opts->rights & KRDMA_RIGHT_WRITE))
		return usage_error("--atomic lets peers write, --read-only does not");
	if (opts->huge && opts->file)
		return usage_error("--huge is for --size: a file has its own pages");
	return -1;
}

/* A number in a file of /proc; 0 if there is none. */
static uint64_t proc_number(const char *path, const char *word, int base)
{
	FILE *file = fopen(path, "re");
	uint64_t value = 0;
	char line[128];

	while (file && !value && fgets(line, sizeof(line), file))
		if (!strncmp(line, word, strlen(word)))
			value = strtoull(line + strlen(word), NULL, base);
	if (file)
		fclose(file);
	return value;
}

bool memlock_counts(void)
{
	/* CAP_IPC_LOCK in the first user namespace, which has all users. */
	return !(proc_number("/proc/self/status", "CapEff:", 16) & 1ULL << 14) ||
	       proc_number("/proc/self/uid_map", "         0          0 ", 10) != UINT32_MAX;
}

/* Pages are taken when peers use them: a lack of memory would show as failures at the peers. */
static void warn_of_limits(const struct export_options *opts)
{
	uint64_t available = proc_number("/proc/meminfo", "MemAvailable:", 10) << 10;
	char size[SIZE_TEXT], less[SIZE_TEXT];
	struct rlimit limit;

	size_text(opts->length, size);
	if (!opts->file && available && opts->length > available)
		tell("%s are more than the %s of memory that are available", size,
		     size_text(available, less));
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && opts->length > limit.rlim_cur && memlock_counts())
		tell("RLIMIT_MEMLOCK lets peers have %s of %s at a time",
		     size_text(limit.rlim_cur, less), size);
}

/*
 * Export a file on disk for reading. Its pages are taken when peers use them, like those of
 * anonymous memory. Return: 0; -EOPNOTSUPP or -EINVAL if the file has to be mapped and pinned;
 * else -1.
 */
static int publish_file(struct krdma *krdma, struct export_options *opts, uint32_t *id)
{
	int fd = open(opts->file, O_RDONLY | O_CLOEXEC), rc = -EINVAL;
	uint64_t length = opts->length;
	struct stat st;

	if (fd < 0)
		return -EINVAL;
	if (!length && !fstat(fd, &st) && S_ISREG(st.st_mode))
		length = (uint64_t)st.st_size;
	if (length)
		rc = krdma_export_memfd(krdma, opts->name, fd, 0, length, opts->rights,
					opts->max_segments, id);
	if (rc)
		close(fd);
	/* Else the file stays open, so that fuser(1) shows what keeps the file system busy. */
	if (!rc) {
		opts->length = length;
		warn_of_limits(opts);
		return 0;
	}
	return rc == -EOPNOTSUPP || rc == -EINVAL ? rc : -1;
}

/* The first line of a file of sysfs; empty if there is none. */
static void sysfs_line(const char *folder, const char *name, char *line, size_t room)
{
	char path[PATH_MAX + 32];
	FILE *file;

	*line = '\0';
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(line, (int)room, file))
		*line = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
}

/*
 * Is a character device devdax whose memory keeps its content without power, once the processors
 * have written their caches back? Its region is of NVDIMMs then. Memory of virtio-pmem is a file of
 * the machine's host, and to be flushed there, which nothing here can ask for.
 */
static bool is_persistent(const struct stat *st)
{
	char device[64], folder[PATH_MAX], line[64];
	char *slash;

	snprintf(device, sizeof(device), "/sys/dev/char/%u:%u", major(st->st_rdev),
		 minor(st->st_rdev));
	if (!realpath(device, folder))
		return false;
	while ((slash = strrchr(folder, '/'))) {
		sysfs_line(folder, "devtype", line, sizeof(line));
		*slash = '\0';
		if (strcmp(line, "nd_pmem") != 0)
			continue;
		sysfs_line(folder, "provider", line, sizeof(line));
		return *line && strncmp(line, "virtio", strlen("virtio")) != 0;
	}
	return false;
}

/* Return: 0 or -1. */
static int publish_mapping(struct krdma *krdma, struct export_options *opts, void *addr,
			   uint32_t *id)
{
	struct stat st;

	/* Of what peers can't change nothing has to be flushed. */
	opts->durable = (opts->rights & (KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC)) &&
			!stat(opts->file, &st) && S_ISCHR(st.st_mode) && is_persistent(&st);
	return (opts->durable ? krdma_export_durable :
				krdma_export_memory)(krdma, opts->name, addr, opts->length,
						     opts->rights, opts->max_segments, id) ?
		       -1 :
		       0;
}

/* The export lives until the process ends. Return: 0 or -1. */
static int publish(struct krdma *krdma, struct export_options *opts, uint32_t *id)
{
	void *addr;
	int rc;

	if (opts->file) {
		rc = opts->rights == KRDMA_RIGHT_READ ? publish_file(krdma, opts, id) : -EINVAL;
		if (rc != -EOPNOTSUPP && rc != -EINVAL)
			return rc;
		if (krdma_map_file(opts->file, opts->rights != KRDMA_RIGHT_READ, &opts->length,
				   &addr))
			return -1;
		return publish_mapping(krdma, opts, addr, id);
	} else if (opts->huge) {
		if (krdma_map_huge(opts->length, &addr))
			return -1;
	} else {
		/* It stays open: the export may grow. */
		opts->fd = krdma_memfd(opts->name, opts->length);
		if (opts->fd < 0 || krdma_export_memfd(krdma, opts->name, opts->fd, 0, opts->length,
						       opts->rights, opts->max_segments, id))
			return -1;
		warn_of_limits(opts);
		return 0;
	}
	return krdma_export_memory(krdma, opts->name, addr, opts->length, opts->rights,
				   opts->max_segments, id) ?
		       -1 :
		       0;
}

static void print_published(const struct export_options *opts)
{
	const uint32_t shown = opts->rights | (opts->durable ? KRDMA_RIGHT_DURABLE : 0);
	char size[SIZE_TEXT], rights[RIGHTS_TEXT];
	struct json_object *root;

	if (!json_asked) {
		printf("exported %s: %s, %s\n", opts->name, size_text(opts->length, size),
		       rights_text(shown, rights));
		return;
	}
	root = json_root();
	json_add_text(root, "name", opts->name);
	json_add_count(root, "length", opts->length);
	json_add_rights(root, "rights", shown);
	json_finish(root);
}

int export_check(int argc, char **argv)
{
	struct export_options opts;

	return export_options(argc, argv, &opts);
}

/* NULL stands for "". */
static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

/* Do two commands that are in order ask for the same, of any length? */
static bool options_alike(const struct export_options *a, const struct export_options *b)
{
	return !a->config && !b->config && same_text(a->name, b->name) &&
	       same_text(a->file, b->file) && a->rights == b->rights &&
	       a->max_segments == b->max_segments && a->huge == b->huge;
}

/* Return: are both in order? */
static bool options_both(int argc, char **argv, struct export_options *a, int other_argc,
			 char **other_argv, struct export_options *b)
{
	optind = 0;
	if (export_options(argc, argv, a) >= 0)
		return false;
	optind = 0;
	return export_options(other_argc, other_argv, b) < 0;
}

bool export_same(int argc, char **argv, int other_argc, char **other_argv)
{
	struct export_options a, b;

	return options_both(argc, argv, &a, other_argc, other_argv, &b) && options_alike(&a, &b) &&
	       a.length == b.length;
}

bool export_grows(int argc, char **argv, int other_argc, char **other_argv, uint64_t *other_size)
{
	struct export_options a, b;

	if (!options_both(argc, argv, &a, other_argc, other_argv, &b) || !options_alike(&a, &b) ||
	    a.file || a.huge)
		return false;
	*other_size = b.length;
	return true;
}

/* The section that the options come from has another size now: a larger one can be had. */
static void export_reload(struct krdma *krdma, const char *config, struct export_options *opts,
			  uint32_t id)
{
	char size[SIZE_TEXT], less[SIZE_TEXT];
	struct export_options again;
	struct conf_section *section;

	if (conf_read_one(config, &conf_export, opts->name, &section))
		return;
	subject_set("export %s", opts->name);
	optind = 0;
	if (export_options(section->argc, section->argv, &again) >= 0 ||
	    !options_alike(opts, &again) || opts->fd < 0)
		fail(EINVAL, "only the size of anonymous memory can change while it is exported");
	else if (again.length < opts->length)
		fail(EINVAL, "it has %s, and can't shrink to %s", size_text(opts->length, size),
		     size_text(again.length, less));
	else if (lseek(opts->fd, 0, SEEK_END) < (off_t)again.length &&
		 ftruncate(opts->fd, (off_t)again.length))
		fail(errno, "it can't grow: %s", strerror(errno));
	else if (krdma_export_grow(krdma, id, again.length))
		fail_krdma();
	else
		opts->length = again.length;
	conf_free(section);
}

static int export_run(int argc, char **argv)
{
	char *config = getenv(CONF_FROM);
	struct export_options opts;
	struct krdma *krdma;
	sigset_t signals;
	int rc, sig = 0;
	uint32_t id;

	rc = export_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("export %s", opts.name);
	if (opts.config)
		return conf_exec(opts.config, &conf_export, opts.name);
	/* Not for a command that is started from here. */
	unsetenv(CONF_FROM);

	/* Blocked before the export exists, so that no signal is lost. */
	stop_signals_block(&signals);
	if (config) {
		sigaddset(&signals, SIGHUP);
		pthread_sigmask(SIG_BLOCK, &signals, NULL);
	}
	if (module_open(&krdma))
		return FAILED;
	if (publish(krdma, &opts, &id)) {
		krdma_free(krdma);
		return fail_krdma();
	}
	print_published(&opts);
	warn_of_nobody(krdma);
	rc = finish_output(DONE);
	sd_notify(0, "READY=1");
	while (!rc && !sigwait(&signals, &sig) && sig == SIGHUP)
		export_reload(krdma, config, &opts, id);
	if (krdma_destroy(krdma, id))
		rc = fail_krdma();
	krdma_free(krdma);
	return rc;
}

const struct command cmd_export = {
	.name = "export",
	.usage = "krdma export [OPTIONS] NAME --size SIZE\n"
		 "       krdma export [OPTIONS] NAME --file FILE\n"
		 "       krdma export --config[=FILE] NAME",
	.summary = "publish memory under a name, until SIGINT or SIGTERM",
	.help = "Prints one line as soon as peers can open NAME, then waits.\n\n"
		"  -s, --size SIZE   anonymous memory; with --file, the first SIZE bytes of FILE\n"
		"  -f, --file FILE   the pages of FILE; peers' writes reach it only where the\n"
		"                    kernel lets pages of files stay pinned: tmpfs, hugetlbfs, devdax\n"
		"                    (/dev/dax0.0; what is written is durable after a flush then)\n"
		"  --read-only       peers may not write; FILE may be larger than the memory then,\n"
		"                    as its pages are taken when peers read them\n"
		"  --atomic          peers may do atomic operations as well\n"
		"  --huge            take anonymous memory from the pool of huge pages\n"
		"  --max-segments N  most segments registered for peers at a time\n"
		"  --config[=FILE]   as the section [export NAME] of FILE says (/etc/krdma/krdma.conf);\n"
		"                    on SIGHUP, anonymous memory grows to the size that FILE has then\n",
	.run = export_run,
};
