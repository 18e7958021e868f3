// SPDX-License-Identifier: GPL-2.0
/* A benchmark: sessions, memory and operations of a kind, and measuring with them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define ITERATIONS_BANDWIDTH 5000
#define ITERATIONS_LATENCY   1000
#define DEPTH_MIN            2ULL
#define DEPTH_MAX            64ULL
/*
 * Bytes under way by default. Local memory is not larger either, unless one operation is.
 */
#define IN_FLIGHT (8 * MIB)

const struct operation operations[OPERATIONS] = {
	{ "read", KRDMA_OP_READ, KRDMA_RIGHT_READ },
	{ "write", KRDMA_OP_WRITE, KRDMA_RIGHT_WRITE },
	{ "atomic", KRDMA_OP_FETCH_ADD, KRDMA_RIGHT_ATOMIC },
	{ "send", KRDMA_OP_SEND, KRDMA_RIGHT_MESSAGE },
};

const struct operation *operation_find(const char *name)
{
	size_t i;

	for (i = 0; *name && i < OPERATIONS; i++)
		if (!strncmp(operations[i].name, name, strlen(name)))
			return &operations[i];
	return NULL;
}

/* Operations under way in each session and direction. */
static unsigned int lane_depth(const struct bench_options *opts, uint64_t size)
{
	uint64_t depth = opts->depth;

	if (!depth && opts->latency)
		return 1;
	if (depth)
		return (unsigned int)depth;
	depth = IN_FLIGHT / size;
	if (depth < DEPTH_MIN)
		depth = DEPTH_MIN;
	return (unsigned int)(depth < DEPTH_MAX ? depth : DEPTH_MAX);
}

/*
 * Neighbouring operations belong to different lanes, so that all lanes are busy even if
 * a batch has few operations. Operations take offsets in the region and in local memory
 * in turn, and begin again at the start when the memory is used up.
 */
static void make_ops(const struct bench *bench, uint64_t size, unsigned int depth)
{
	const struct bench_options *opts = &bench->opts;
	/* A message has no offset in the region. */
	const uint64_t region_places = opts->opcode == KRDMA_OP_SEND ? 1 :
								       bench->range.length / size;
	const uint64_t local_places = bench->memory_size / size;
	const unsigned int sessions = opts->sessions ? (unsigned int)opts->sessions : 1;
	unsigned int i;

	for (i = 0; i < depth; i++) {
		const bool other = opts->both && i / sessions % 2;

		bench->ops[i] = (struct krdma_op){
			.opcode = (uint8_t)opts->opcode,
			.flags = opts->flags,
			.region = bench->regions[i % sessions],
			.user_data = i,
			.offset = bench->range.offset + i % region_places * size,
			.length = size,
			.timeout_ns = opts->timeout_ns,
		};
		if (other)
			bench->ops[i].opcode = opts->opcode == KRDMA_OP_READ ? KRDMA_OP_WRITE :
									       KRDMA_OP_READ;
		opts->engine->place(&bench->ops[i], bench->memory + i % local_places * size);
	}
}

int bench_measure(const struct bench *bench, uint64_t size, struct load *load)
{
	const struct bench_options *opts = &bench->opts;
	static struct stats stats;
	int rc;

	*load = (struct load){
		.engine = opts->engine,
		.ops = bench->ops,
		.depth = lane_depth(opts, size) * bench->lanes,
	};
	load->batch = (unsigned int)(opts->batch < load->depth ? opts->batch : load->depth);
	make_ops(bench, size, load->depth);

	/* Once at each offset without the clock, so that asking for keys is not measured. */
	load->iterations = load->depth;
	rc = load_run(load);
	if (rc)
		return rc;

	load->iterations = opts->iterations;
	load->duration_ns = opts->duration_ns;
	if (load->duration_ns)
		load->iterations = UINT64_MAX;
	else if (!load->iterations)
		load->iterations = opts->latency ? ITERATIONS_LATENCY : ITERATIONS_BANDWIDTH;
	memset(&stats, 0, sizeof(stats));
	load->stats = &stats;
	return load_run(load);
}

uint64_t bench_most(const struct bench *bench)
{
	return bench->opts.opcode == KRDMA_OP_SEND ? KRDMA_MESSAGE_MAX : bench->range.length;
}

/* A region in each session. */
static int bench_regions(struct bench *bench, const struct region_spec *spec)
{
	const struct bench_options *opts = &bench->opts;
	struct krdma_connect_options connect = opts->connect;
	uint32_t rights = opts->right;
	unsigned int i;
	int rc;

	if (opts->both)
		rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE;
	if (opts->flags & (KRDMA_OPF_VERIFY | KRDMA_OPF_PLACED))
		rights |= KRDMA_RIGHT_READ;
	connect.timeout_ms = timeout_to_ms(opts->timeout_ns);
	connect.flags = opts->sessions > 0 ? KRDMA_CONNECT_PRIVATE : 0;
	rc = range_open(&bench->range, spec, rights, connect);
	bench->regions[0] = bench->range.region.id;
	for (i = 1; !rc && i < opts->sessions; i++)
		rc = range_open_again(&bench->range, spec, rights, connect, &bench->regions[i]);
	return rc;
}

/* Page-aligned local memory, registered unless each operation is to pin it. */
static int bench_memory(struct bench *bench)
{
	const struct bench_options *opts = &bench->opts;
	struct krdma_ioc_query query = { .size = sizeof(query) };
	const uint64_t page = 4 * KIB;
	unsigned int depth;
	void *memory;

	bench->memory_size = opts->all || opts->size < IN_FLIGHT ? IN_FLIGHT : opts->size;
	bench->memory_size = (bench->memory_size + page - 1) / page * page;
	memory = mmap(NULL, bench->memory_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return fail(errno, "cannot allocate local memory: %s", strerror(errno));
	bench->memory = memory;

	/* The smallest operations have the greatest depth. */
	depth = lane_depth(opts, opts->all ? BENCH_SIZE_MIN : opts->size) * bench->lanes;
	if (krdma_query(bench->range.krdma, &query))
		return fail_krdma();
	if (depth > query.ops_max)
		return fail(ERANGE, "%u operations would be under way, the module takes %u", depth,
			    query.ops_max);
	bench->ops = calloc(depth, sizeof(*bench->ops));
	if (!bench->ops)
		return fail(ENOMEM, "out of memory");
	return opts->engine->open(bench->range.krdma, opts->pinned ? NULL : memory,
				  bench->memory_size, depth);
}

int bench_open(struct bench *bench, const struct region_spec *spec)
{
	const struct bench_options *opts = &bench->opts;
	char need[SIZE_TEXT], has[SIZE_TEXT];
	int rc;

	rc = bench_regions(bench, spec);
	if (rc)
		return rc;
	if ((opts->all ? BENCH_SIZE_MIN : opts->size) > bench_most(bench))
		return fail(ERANGE, "the range has %s, an operation needs %s",
			    size_text(bench->range.length, has), size_text(opts->size, need));
	bench->lanes = (opts->sessions ? (unsigned int)opts->sessions : 1) * (opts->both ? 2 : 1);
	return bench_memory(bench);
}

void bench_close(struct bench *bench)
{
	bench->opts.engine->close();
	range_close(&bench->range);
	free(bench->ops);
	munmap(bench->memory, bench->memory_size);
}
