// SPDX-License-Identifier: GPL-2.0
/* krdma export: publish memory until a signal. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"

enum {
	OPT_READ_ONLY = OPT_LONG_ONLY,
	OPT_ATOMIC,
	OPT_HUGE,
	OPT_MAX_SEGMENTS
};

struct export_options {
	const char *name;
	const char *file;
	uint64_t length; /* 0: not given */
	uint32_t rights;
	uint32_t max_segments;
	bool huge;
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
		COMMON_LONG,
	};
	uint64_t value;
	int c, rc;

	*opts = (struct export_options){ .rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE };
	while ((c = getopt_long(argc, argv, ":s:f:" COMMON_SHORT, options, NULL)) != -1) {
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
		default:
			rc = common_option(&cmd_export, argv, c);
			if (rc >= 0)
				return rc;
		}
	}
	if (argc - optind != 1)
		return usage_error("one name is needed");
	opts->name = argv[optind];
	if (!opts->length && !opts->file)
		return usage_error("--size or --file is needed");
	if (opts->huge && opts->file)
		return usage_error("--huge is for --size, a file has the pages that it has");
	return -1;
}

/* What is published lives until the process ends. Return: 0 or -1. */
static int publish(struct krdma *krdma, struct export_options *opts, uint32_t *id)
{
	void *addr;
	int fd, rc;

	if (opts->file) {
		if (krdma_map_file(opts->file, opts->rights != KRDMA_RIGHT_READ, &opts->length,
				   &addr))
			return -1;
	} else if (opts->huge) {
		if (krdma_map_huge(opts->length, &addr))
			return -1;
	} else {
		fd = krdma_memfd(opts->name, opts->length);
		if (fd < 0)
			return -1;
		rc = krdma_export_memfd(krdma, opts->name, fd, 0, opts->length, opts->rights,
					opts->max_segments, id);
		close(fd);
		return rc ? -1 : 0;
	}
	return krdma_export_memory(krdma, opts->name, addr, opts->length, opts->rights,
				   opts->max_segments, id) ?
		       -1 :
		       0;
}

static void print_published(const struct export_options *opts)
{
	char size[SIZE_TEXT], rights[RIGHTS_TEXT];
	struct json_object *root;

	if (!json_asked) {
		printf("exported %s: %s, %s\n", opts->name, size_text(opts->length, size),
		       rights_text(opts->rights, rights));
		return;
	}
	root = json_root();
	json_add_text(root, "name", opts->name);
	json_add_count(root, "length", opts->length);
	json_add_rights(root, "rights", opts->rights);
	json_finish(root);
}

static int export_run(int argc, char **argv)
{
	struct export_options opts;
	struct krdma *krdma;
	sigset_t signals;
	uint32_t id;
	int rc, sig;

	rc = export_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("export %s", opts.name);

	/* Blocked from before there is something to end, so that none is lost. */
	stop_signals_block(&signals);
	if (krdma_new(&krdma))
		return fail_krdma();
	if (publish(krdma, &opts, &id)) {
		krdma_free(krdma);
		return fail_krdma();
	}
	print_published(&opts);
	rc = finish_output(DONE);
	if (!rc)
		sigwait(&signals, &sig);
	if (krdma_destroy(krdma, id))
		rc = fail_krdma();
	krdma_free(krdma);
	return rc;
}

const struct command cmd_export = {
	.name = "export",
	.usage = "krdma export [OPTIONS] NAME --size SIZE\n"
		 "       krdma export [OPTIONS] NAME --file FILE",
	.summary = "publish memory under a name, until SIGINT or SIGTERM",
	.help = "Prints one line as soon as peers can open NAME, then waits.\n\n"
		"  -s, --size SIZE   anonymous memory; with --file, the first SIZE bytes of FILE\n"
		"  -f, --file FILE   the pages of FILE; peers' writes reach it only where the\n"
		"                    kernel lets pages of files stay pinned: tmpfs, hugetlbfs, devdax\n"
		"  --read-only       peers may not write\n"
		"  --atomic          peers may do atomic operations as well\n"
		"  --huge            take anonymous memory from the pool of huge pages\n"
		"  --max-segments N  most segments registered for peers at a time\n",
	.run = export_run,
};
