// SPDX-License-Identifier: GPL-2.0
/* krdma atomic: add to 8 bytes of a peer's memory, or compare and swap them. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

#define BYTES 8ULL

struct atomic_options {
	enum krdma_opcode opcode;
	uint64_t operand;
	uint64_t compare;
	const char *text; /* of the region */
	struct region_spec spec;
	uint64_t timeout_ns;
};

/* Return: -1 to go on, else the exit status. */
static int atomic_operands(int argc, char **argv, struct atomic_options *opts)
{
	const char *name = argv[optind];
	uint64_t *values[2] = { &opts->operand };
	int i, count = 1;

	if (argc == optind)
		return usage_error("'add' or 'cas' is needed");
	if (!strcmp(name, "add")) {
		opts->opcode = KRDMA_OP_FETCH_ADD;
	} else if (!strcmp(name, "cas")) {
		opts->opcode = KRDMA_OP_CMP_SWAP;
		values[0] = &opts->compare;
		values[1] = &opts->operand;
		count = 2;
	} else {
		return usage_error("'%s' is neither 'add' nor 'cas'", name);
	}
	if (argc - optind != count + 2)
		return usage_error("'%s' needs %s and a region", name,
				   count == 1 ? "a value" : "an old value, a new one");
	for (i = 0; i < count; i++)
		if (parse_count(argv[optind + 1 + i], UINT64_MAX, values[i]))
			return usage_error("'%s' is not a number", argv[optind + 1 + i]);
	opts->text = argv[optind + 1 + count];
	if (parse_region(opts->text, &opts->spec) ||
	    (opts->spec.length && opts->spec.length != BYTES))
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME[@OFFSET]", opts->text);
	return -1;
}

static void atomic_print(const struct atomic_options *opts, uint64_t before, bool done)
{
	struct json_object *root;

	if (!json_asked) {
		printf("%llu\n", (unsigned long long)before);
		return;
	}
	root = json_root();
	json_add_text(root, "operation", opts->opcode == KRDMA_OP_CMP_SWAP ? "cas" : "add");
	json_add_text(root, "region", opts->text);
	json_add_count(root, "before", before);
	json_object_object_add(root, "done", json_object_new_boolean(done));
	json_finish(root);
}

static int atomic_run(int argc, char **argv)
{
	struct atomic_options opts = { .opcode = KRDMA_OP_FETCH_ADD };
	struct krdma_completion completion;
	struct range range;
	_Alignas(8) uint64_t before = 0;
	struct krdma_op op;
	bool done;
	int rc;

	rc = timeout_option(&cmd_atomic, argc, argv, &opts.timeout_ns);
	if (rc < 0)
		rc = atomic_operands(argc, argv, &opts);
	if (rc >= 0)
		return rc;
	subject_set("atomic %s %s", opts.opcode == KRDMA_OP_CMP_SWAP ? "cas" : "add", opts.text);
	rc = range_open(&range, &opts.spec, KRDMA_RIGHT_ATOMIC,
			connect_options(0, opts.timeout_ns));
	if (rc)
		return rc;
	if (opts.opcode == KRDMA_OP_CMP_SWAP)
		krdma_op_cmp_swap(&op, range.region.id, range.offset, &before, opts.compare,
				  opts.operand);
	else
		krdma_op_fetch_add(&op, range.region.id, range.offset, &before, opts.operand);
	op.timeout_ns = opts.timeout_ns;
	if (krdma_submit(range.krdma, &op, &completion, 1)) {
		rc = fail_krdma();
	} else {
		done = opts.opcode == KRDMA_OP_FETCH_ADD || before == opts.compare;
		atomic_print(&opts, before, done);
		/* It is no failure, but a script that takes a lock needs to know. */
		rc = finish_output(done ? DONE : UNSWAPPED);
	}
	range_close(&range);
	return rc;
}

const struct command cmd_atomic = {
	.name = "atomic",
	.usage = "krdma atomic [OPTIONS] add VALUE HOST[:PORT]/NAME[@OFFSET]\n"
		 "       krdma atomic [OPTIONS] cas OLD NEW HOST[:PORT]/NAME[@OFFSET]",
	.summary = "add to a number in a peer's memory, or compare and swap it",
	.help = "  add               add VALUE to the 8 bytes at OFFSET, a multiple of 8\n"
		"  cas               store NEW there if they are OLD; the exit status is 9 if not\n"
		"                    Either prints what was there before.\n"
		"  --timeout SECONDS give up after this time (default 30)\n",
	.run = atomic_run,
};
