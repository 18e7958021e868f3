// SPDX-License-Identifier: GPL-2.0
/*
 * Placement: with a wire that is slow, and loses some, a WRITE that has ended is in the
 * peer's memory, looked at past that wire. With KRDMA_OPF_UNPLACED it is not, where a
 * completion tells less (iWARP); it comes later. KRDMA_OPF_PLACED has a READ behind it, unless the
 * target says that its device needs none (rxe).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kst_harness.h"

#define BYTES  65536UL
#define ROUNDS 10
/* Less than rxe waits for an acknowledge. */
#define SLOW "tc qdisc replace dev data0 root netem delay 300ms loss 2%"
#define FAST "tc qdisc del dev data0 root"

static int fd;
static __u32 session, region;
static unsigned char *memory;
static unsigned int seed = 10;

static bool differs; /* iWARP's completion tells less */
static bool places;  /* rxe's tells all */

static bool iwarp(const void *entry, void *arg)
{
	const struct krdma_device_info *info = entry;

	(void)arg;
	return info->flags & KRDMA_DEVICE_USABLE && info->transport == KRDMA_TRANSPORT_IWARP;
}

KST_FIXTURE(placement, fd)
FIXTURE_SETUP(placement)
{
	const char *rdma = getenv("LAB_RDMA");

	fd = kst_setup(true);
	memory = kst_map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	differs = kst_count(KRDMA_LIST_DEVICES, iwarp, NULL);
	places = rdma && !strcmp(rdma, "rxe");
	/* The key is there then. */
	kst_fill(memory, 0, BYTES, seed);
	if (!kst_peer("export placement mem %lu 3 %d", (unsigned long)BYTES, KST_BASE))
		kst_bail("node B exports nothing");
	/* Where a session resumes none is unplaced. */
	ASSERT_NOT(kst_connect(fd, KRDMA_CONNECT_FAIL_FAST, &session) ||
			   kst_open_region(fd, session, "placement", 0, &region, NULL) ||
			   kst_move(fd, KRDMA_OP_WRITE, region, 0, memory, BYTES, NULL),
		   "no WRITE: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

static bool there(void *arg)
{
	const char *reply = kst_peer("check placement 0 %lu %u", BYTES, seed);

	(void)arg;
	return reply && !strcmp(reply, "-1");
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

TEST_F(placement, reads)
{
	EXPECT_THAT(reads(0) == differs, "a WRITE has %s READ behind it", differs ? "a" : "no");
	EXPECT_THAT(reads(KRDMA_OPF_PLACED) == !places, "one that is to be placed has %s",
		    places ? "none" : "one");
	EXPECT_THAT(!reads(KRDMA_OPF_UNPLACED), "one that is unplaced has not");
}

TEST_F(placement, rights)
{
	struct krdma_op op = kst_op(KRDMA_OP_WRITE, 0, 0, memory, 64);
	struct krdma_completion comp;

	if (differs)
		SKIP(return, "on iWARP there is no region to be written only");
	ASSERT_NOT(kst_open_region(fd, session, "placement", KRDMA_RIGHT_WRITE, &op.region, NULL),
		   "a region to be written only: %s", kst_last_error(fd, NULL));
	op.flags = KRDMA_OPF_PLACED;
	EXPECT_FAILS(fd, kst_submit(fd, &op, &comp, 1, NULL), -EACCES, NULL,
		     "none can be had without the right to read");
	kst_destroy(fd, op.region);
}

TEST_F(placement, slow)
{
	unsigned int early;

	/* What one host sends to itself does not go over the wire. */
	if (getenv("LAB_ONE_KERNEL") || system(SLOW " 2>/dev/null"))
		SKIP(return, "this kernel has no netem, or both ends");
	early = rounds(0);
	EXPECT_THAT(early == ROUNDS, "of %d WRITEs that have ended %u are in the peer's memory",
		    ROUNDS, early);
	early = rounds(KRDMA_OPF_UNPLACED);
	EXPECT_THAT(differs ? early < ROUNDS : early == ROUNDS,
		    "of %d that are unplaced %u are, on %s", ROUNDS, early,
		    differs ? "iWARP" : "a transport that acknowledges");
	early = rounds(KRDMA_OPF_PLACED);
	EXPECT_THAT(early == ROUNDS, "of %d that are to be placed %u are", ROUNDS, early);
	EXPECT_IS(0, system(FAST), "the wire stays slow");
}

KST_HARNESS_MAIN(2)
