/* SPDX-License-Identifier: GPL-2.0 */
/* krdma bench: cmd_bench.c prints rows of one kind of operation, bench_matrix.c measures several. */
#ifndef BENCH_H
#define BENCH_H

#include "cli.h"

#define BENCH_SIZE_MIN     2ULL
#define BENCH_SIZE_MAX_ALL (8 * MIB)
#define ATOMIC_BYTES       8ULL
#define SESSIONS_MAX       64

/* bench.c */

/**
 * struct operation - a kind of operations
 * @name: its name on the command line
 * @opcode: KRDMA_OP_*
 * @right: what the region needs for it
 */
struct operation {
	const char *name;
	enum krdma_opcode opcode;
	uint32_t right;
};

#define OPERATIONS 4
extern const struct operation operations[OPERATIONS];

/* By its name, or a unique prefix of it; NULL if there is none. */
const struct operation *operation_find(const char *name);

struct bench_options {
	enum krdma_opcode opcode;
	uint32_t right;
	bool both;
	uint64_t size;
	bool size_given;
	bool all;
	uint64_t iterations;  /* 0: not given */
	uint64_t duration_ns; /* 0: not given */
	uint64_t depth;       /* 0: not given */
	uint64_t batch;       /* 0: not given */
	uint64_t sessions;    /* 0: one that may be shared */
	const struct engine *engine;
	bool gbits;
	bool latency;
	bool pinned;
	uint16_t flags; /* of the operations */
	uint64_t timeout_ns;
	struct krdma_connect_options connect;
};

struct bench {
	struct bench_options opts;
	struct range range;
	uint32_t regions[SESSIONS_MAX];
	unsigned int lanes; /* one for each session and direction */
	char *memory;
	uint64_t memory_size;
	struct krdma_op *ops;
};

/* Connect, and make memory and room for the operations. Return: the exit status. */
int bench_open(struct bench *bench, const struct region_spec *spec);
/* The longest operation that can be done. */
uint64_t bench_most(const struct bench *bench);
/*
 * Operations of a size, once at each offset without the clock, then measured; the statistics are
 * those of the last call. Return: the exit status.
 */
int bench_measure(const struct bench *bench, uint64_t size, struct load *load);
/* After a failure, operations may still be under way: they end with the process instead. */
void bench_close(struct bench *bench);

/* bench_matrix.c */

#define MATRIX_LIST_MAX 16

/**
 * struct matrix - several kinds of operations, sizes and depths, in one run
 * @file: where the results go, as JSON; the drawing goes beside it
 * @messages: an export of the same host that takes messages; NULL for none
 * @sizes: bytes of an operation
 * @size_count: how many
 * @depths: operations under way
 * @depth_count: how many
 */
struct matrix {
	const char *file;
	const char *messages;
	uint64_t sizes[MATRIX_LIST_MAX];
	unsigned int size_count;
	uint64_t depths[MATRIX_LIST_MAX];
	unsigned int depth_count;
};

/* The value of --sizes, --depths. Return: the exit status. */
int matrix_sizes(struct matrix *matrix, const char *text);
int matrix_depths(struct matrix *matrix, const char *text);
/* Each benchmark has these options, except the operation, its size and its depth. */
int matrix_run(struct matrix *matrix, const struct bench_options *opts, const char *region);

/* bench_draw.c */

/* Draw the results of a matrix, the object of its JSON file, beside that. Return: the exit status. */
int matrix_draw(struct json_object *root, const struct matrix *matrix);

#endif /* BENCH_H */
