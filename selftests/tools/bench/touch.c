// SPDX-License-Identifier: GPL-2.0
/*
 * The first touch of an export by a session, and the next ones. Runs in node A of
 * selftests/tools/bench/touch.
 *
 * usage: touch_run HOST EXPORT read|write one|many TOUCHES
 *
 * In a session of its own, TOUCHES times: all of the export, with one operation, or with
 * operations of 1 MiB, DEPTH of them at a time. Prints a line for each:
 *
 *	SECONDS CONTROL-MESSAGES SEGMENTS-REGISTERED
 *
 * the messages that this host sent, and the segments that node B registered.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <krdma/krdma.h>

#define MIB   (1UL << 20)
#define DEPTH 16

static struct krdma *krdma;
static struct krdma_op op;
static struct krdma_vec pieces[KRDMA_VECTOR_MAX];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long counter(const char *command)
{
	FILE *pipe = popen(command, "r");
	long value;

	if (!pipe || fscanf(pipe, "%ld", &value) != 1)
		errx(1, "no counter: %s", command);
	pclose(pipe);
	return value;
}

#define COUNTERS "cat /sys/class/misc/krdma_mover/counters/"

static void touch_one(unsigned long length)
{
	struct krdma_completion done;

	op.offset = 0;
	op.length = length;
	if (length > MIB) {
		op.flags |= KRDMA_OPF_VECTOR;
		op.addr = (uintptr_t)pieces;
		op.naddr = (__u16)(length / MIB);
	}
	if (krdma_submit(krdma, &op, &done, 1))
		errx(1, "%s", krdma_error());
}

static void touch_many(unsigned long length)
{
	struct krdma_completion done[DEPTH];
	unsigned int under_way = 0;
	int i, n;

	op.length = MIB;
	for (op.offset = 0; op.offset < length || under_way;) {
		while (under_way < DEPTH && op.offset < length) {
			if (krdma_submit_async(krdma, &op, 1) != 1)
				errx(1, "%s", krdma_error());
			op.offset += MIB;
			under_way++;
		}
		n = krdma_reap(krdma, done, DEPTH);
		for (i = 0; i < n; i++, under_way--)
			if (done[i].status)
				errx(1, "%s", krdma_error());
		if (n < 0)
			errx(1, "%s", krdma_error());
	}
}

int main(int argc, char **argv)
{
	struct krdma_sockaddr addr;
	struct krdma_region region;
	uint32_t session, buffer;
	void *memory;
	int i, touches;

	if (argc != 6)
		errx(2, "usage: touch_run HOST EXPORT read|write one|many TOUCHES");
	touches = atoi(argv[5]);
	memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	memset(memory, 1, MIB);
	if (krdma_resolve(argv[1], &addr, 1) < 1 || krdma_new(&krdma) ||
	    krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE, 0, &session) ||
	    krdma_open_region(krdma, session, argv[2], 0, 0, &region) ||
	    krdma_register_buffer(krdma, memory, MIB, KRDMA_BUFFER_WRITABLE, &buffer))
		errx(1, "%s", krdma_error());
	if (!region.length || region.length % MIB || region.length / MIB > KRDMA_VECTOR_MAX)
		errx(1, "the export has not 1 MiB to 1 GiB");
	for (i = 0; i < KRDMA_VECTOR_MAX; i++)
		pieces[i].length = MIB;
	for (i = 0; i < touches; i++) {
		long sent = counter(COUNTERS "control_sent");
		long segments = counter("on B " COUNTERS "segments_registered");
		double began = now();

		op = (struct krdma_op){
			.opcode = argv[3][0] == 'r' ? KRDMA_OP_READ : KRDMA_OP_WRITE,
			.flags = KRDMA_OPF_BUFFER,
			.region = region.id,
			.buffer = buffer,
			.timeout_ns = 600000000000ULL,
		};
		if (argv[4][0] == 'o')
			touch_one(region.length);
		else
			touch_many(region.length);
		printf("%.4f", now() - began);
		printf(" %ld %ld\n", counter(COUNTERS "control_sent") - sent,
		       counter("on B " COUNTERS "segments_registered") - segments);
		fflush(stdout);
	}
	krdma_free(krdma);
	return 0;
}
