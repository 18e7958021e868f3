// SPDX-License-Identifier: GPL-2.0
/* krdma digest: the CRC32C of a peer's memory, computed there. */
#include <stdio.h>

#include "cli.h"

struct digest_options {
	const char *text; /* of the region */
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
		return usage_error("one region is needed");
	opts->text = argv[optind];
	if (parse_region(opts->text, &opts->spec))
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
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
	json_add_text(root, "region", opts->text);
	json_add_count(root, "bytes", length);
	json_add_text(root, "crc32c", text);
	json_finish(root);
}

static int digest_run(int argc, char **argv)
{
	struct krdma_completion completion;
	struct digest_options opts = { 0 };
	struct range range;
	_Alignas(8) uint64_t number = 0;
	struct krdma_op op;
	int rc;

	rc = digest_options(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("digest %s", opts.text);
	rc = range_open(&range, &opts.spec, KRDMA_RIGHT_READ, connect_options(0, opts.timeout_ns));
	if (rc)
		return rc;
	krdma_op_digest(&op, range.region.id, range.offset, range.length, &number);
	op.timeout_ns = opts.timeout_ns;
	if (krdma_submit(range.krdma, &op, &completion, 1)) {
		rc = fail_krdma();
	} else {
		digest_print(&opts, range.length, (uint32_t)number);
		rc = finish_output(DONE);
	}
	range_close(&range);
	return rc;
}

const struct command cmd_digest = {
	.name = "digest",
	.usage = "krdma digest [OPTIONS] HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
	.summary = "the CRC32C of a peer's memory, computed by the peer",
	.help = "  --timeout SECONDS give up after this time (default 30)\n",
	.run = digest_run,
};
