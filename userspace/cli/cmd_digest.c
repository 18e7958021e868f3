// SPDX-License-Identifier: GPL-2.0
/* krdma digest: the CRC32C of a peer's memory, computed there, or of a file, to compare it with. */
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define FILE_STEP ((int)MIB)

struct digest_options {
	const char *text; /* of the region or the file */
	bool file;
	struct region_spec spec;
	uint64_t timeout_ns;
};

/* Return: -1 to go on, else the exit status. */
static int digest_options(int argc, char **argv, struct digest_options *opts)
{
	int rc;

	rc = timeout_option(&cmd_digest, argc, argv, &opts->timeout_ns);
	if (rc >= 0)
		return rc;
	if (argc - optind != 1)
		return usage_error("one region or file is needed");
	opts->text = argv[optind];
	opts->file = *opts->text == '/' || *opts->text == '.' || !strchr(opts->text, '/');
	if (!opts->file && !access(opts->text, F_OK))
		return usage_error(
			"'%s' is a file as well: './%s' is the file, and with the port it is a region",
			opts->text, opts->text);
	if (!opts->file && parse_region(opts->text, &opts->spec))
		return usage_error(
			"'%s' is not of the form HOST[:PORT]/NAME[@OFFSET[+LENGTH]], "
			"and a file that is not in this directory begins with '/' or '.'",
			opts->text);
	return -1;
}

static void digest_print(const struct digest_options *opts, uint64_t length, uint32_t digest)
{
	struct json_object *root;
	char text[16];

	snprintf(text, sizeof(text), "%08x", digest);
	if (!json_asked) {
		printf("%s  %s\n", text, opts->text);
		return;
	}
	root = json_root();
	json_add_text(root, opts->file ? "file" : "region", opts->text);
	json_add_count(root, "bytes", length);
	json_add_text(root, "crc32c", text);
	json_finish(root);
}

static int file_digest(const struct digest_options *opts)
{
	static unsigned char buf[FILE_STEP];
	const bool standard = !strcmp(opts->text, "-");
	const int fd = standard ? STDIN_FILENO : open(opts->text, O_RDONLY | O_CLOEXEC);
	uint32_t crc = UINT32_MAX;
	uint64_t length = 0;
	ssize_t got;

	if (fd < 0)
		return fail(errno, "cannot open it: %s", strerror(errno));
	while ((got = read(fd, buf, sizeof(buf))) > 0 || (got && io_again(fd, POLLIN))) {
		if (got < 0)
			continue;
		crc = crc32_iscsi(buf, (int)got, crc);
		length += (uint64_t)got;
	}
	if (got)
		return fail(errno, "cannot read it: %s", strerror(errno));
	close(fd);
	digest_print(opts, length, ~crc);
	return DONE;
}

static int region_digest(const struct digest_options *opts)
{
	struct krdma_completion completion;
	struct range range;
	_Alignas(8) uint64_t number = 0;
	struct krdma_op op;
	int rc;

	rc = range_open(&range, &opts->spec, KRDMA_RIGHT_READ,
			connect_options(0, opts->timeout_ns));
	if (rc)
		return rc;
	krdma_op_digest(&op, range.region.id, range.offset, range.length, &number);
	op.timeout_ns = opts->timeout_ns;
	if (krdma_submit(range.krdma, &op, &completion, 1))
		rc = fail_krdma();
	else
		digest_print(opts, range.length, (uint32_t)number);
	range_close(&range);
	return rc;
}

static int digest_run(int argc, char **argv)
{
	struct digest_options opts = { 0 };
	int rc;

	rc = digest_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("digest %s", opts.text);
	return opts.file ? file_digest(&opts) : region_digest(&opts);
}

const struct command cmd_digest = {
	.name = "digest",
	.usage = "krdma digest [OPTIONS] HOST[:PORT]/NAME[@OFFSET[+LENGTH]]\n"
		 "       krdma digest [OPTIONS] FILE",
	.summary = "the CRC32C of a peer's memory, computed by the peer, or of a file",
	.help = "A FILE has no '/', or begins with '/' or '.'; '-' is standard input.\n\n"
		"  --timeout SECONDS give up after this time (default 30)\n",
	.run = digest_run,
};
