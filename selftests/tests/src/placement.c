// SPDX-License-Identifier: GPL-2.0
/*
 * Placement: with a wire that is slow, and loses some, a WRITE that has ended is in the
 * peer's memory, looked at past that wire. With KRDMA_OP_UNPLACED it is not, where a
 * completion tells less (iWARP); it comes later. KRDMA_OP_PLACED has a READ behind it anywhere.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kst.h"

#define BYTES  65536UL
#define ROUNDS 10
/* Less than rxe waits for an acknowledge. */
#define SLOW "tc qdisc replace dev data0 root netem delay 300ms loss 2%"
#define FAST "tc qdisc del dev data0 root"

static int fd;
static __u32 session, region;
static unsigned char *memory;
static unsigned int seed = 10;

static bool iwarp(const void *entry, void *arg)
{
	const struct krdma_device_info *info = entry;

	(void)arg;
	return info->flags & KRDMA_DEVICE_USABLE && info->transport == KRDMA_TRANSPORT_IWARP;
}

static bool there(void *arg)
{
	const char *answer = kst_peer("check placement 0 %lu %u", BYTES, seed);

	(void)arg;
	return answer && !strcmp(answer, "-1");
}

/* How many READs have been behind a WRITE of these flags. */
static long reads(unsigned int flags)
{
	const char *counter = "/sys/class/misc/krdma_mover/counters/placements";
	long before = kst_line(counter, "");
	struct krdma_completion comp;
	struct krdma_op op;

	op = kst_op(KRDMA_OP_WRITE, region, 0, memory, 64);
	op.flags = flags;
	if (kst_submit(fd, &op, &comp, 1, NULL) || comp.status)
		kst_bail("WRITE: %s", kst_last_error(fd, NULL));
	return kst_line(counter, "") - before;
}

/* How many of the rounds were there when the WRITE had ended; all are in the end. */
static unsigned int rounds(unsigned int flags)
{
	struct krdma_completion comp;
	unsigned int i, early = 0;
	struct krdma_op op;

	for (i = 0; i < ROUNDS; i++) {
		kst_fill(memory, 0, BYTES, ++seed);
		op = kst_op(KRDMA_OP_WRITE, region, 0, memory, BYTES);
		op.flags = flags;
		if (kst_submit(fd, &op, &comp, 1, NULL) || comp.status)
			kst_bail("WRITE: %s", kst_last_error(fd, NULL));
		/* What was taken is taken. */
		memset(memory, 0xee, BYTES);
		early += there(NULL);
		if (!kst_wait(there, NULL))
			kst_bail("a WRITE does not arrive");
	}
	return early;
}

int main(int argc, char **argv)
{
	struct krdma_completion comp;
	unsigned int early;
	struct krdma_op op;
	__u32 blind = 0;
	bool differs;

	fd = kst_begin(argc, argv, "placement", BYTES, &session, &region, NULL);
	memory = kst_map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	differs = kst_count(KRDMA_LIST_DEVICES, iwarp, NULL);
	/* The key is there then. */
	kst_fill(memory, 0, BYTES, seed);
	kst_is(kst_move(fd, KRDMA_OP_WRITE, region, 0, memory, BYTES, NULL), 0, "a WRITE");
	kst_ok(reads(0) == differs, "a WRITE has %s READ behind it", differs ? "a" : "no");
	kst_ok(reads(KRDMA_OP_PLACED) == 1, "one that is to be placed has");
	kst_ok(!reads(KRDMA_OP_UNPLACED), "one that is unplaced has not");
	if (!differs && kst_open_region(fd, session, "placement", KRDMA_RIGHT_WRITE, &blind, NULL))
		kst_bail("a region to be written only: %s", kst_last_error(fd, NULL));
	op = kst_op(KRDMA_OP_WRITE, blind, 0, memory, 64);
	op.flags = KRDMA_OP_PLACED;
	if (differs)
		kst_skip("on iWARP there is no such region", "without the right to read");
	else
		kst_ok(kst_submit(fd, &op, &comp, 1, NULL) == -EACCES &&
			       kst_sentence(fd, -EACCES, NULL),
		       "none can be had without the right to read");
	/* What one host sends to itself does not go over the wire. */
	if (getenv("LAB_ONE_KERNEL") || system(SLOW " 2>/dev/null")) {
		kst_skip("this kernel has no netem, or both ends", "on a slow wire");
		return kst_end(fd);
	}
	early = rounds(0);
	kst_ok(early == ROUNDS, "of %d WRITEs that have ended %u are in the peer's memory", ROUNDS,
	       early);
	early = rounds(KRDMA_OP_UNPLACED);
	kst_ok(differs ? early < ROUNDS : early == ROUNDS, "of %d that are unplaced %u are, on %s",
	       ROUNDS, early, differs ? "iWARP" : "a transport that acknowledges");
	early = rounds(KRDMA_OP_PLACED);
	kst_ok(early == ROUNDS, "of %d that are to be placed %u are", ROUNDS, early);
	if (system(FAST))
		kst_bail("the wire stays slow");
	return kst_end(fd);
}
