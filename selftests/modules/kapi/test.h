/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of krdma_kapi_test.ko know of each other: parameters and what setup has made
 * (main.c), transfers (slots.c), and one or two functions of each subject.
 */
#ifndef KRDMA_KAPI_TEST_H
#define KRDMA_KAPI_TEST_H

#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <linux/krdma_mover.h>

#define PAGES      8
#define PIECES     (2 * PAGES)
#define SLOT_BYTES (PAGES * PAGE_SIZE)
/* More than a device takes at once. */
#define BIG_PIECES 1024
#define PATIENCE   (180 * HZ)
#define RW         (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)

/* The log tells which one it was. */
#define want(condition)                                                                           \
	({                                                                                        \
		bool _ok = (condition);                                                           \
		if (!_ok)                                                                         \
			pr_err("krdma_kapi_test: %s: line %d: not so: %s\n", kbasename(__FILE__), \
			       __LINE__, #condition);                                             \
		_ok;                                                                              \
	})

/* ---- main.c ---- */

/* Parameters. */
extern char *test_address, *test_second, *test_name, *test_self;
extern unsigned int test_depth, test_rounds, test_cpu, test_timeout_ms, test_crowd;
extern bool test_polls;

/* Results. */
extern atomic_t test_events; /* lost or revoked; others don't count */
extern int test_status, test_ended, test_cancelled, test_timed_out, test_lost;

extern struct krdma_client *test_client;
extern struct krdma_session_handle *test_session;
extern struct krdma_region_handle *test_region;

void on_event(void *priv, enum krdma_event e);

/* ---- slots.c ---- */

struct slot {
	struct krdma_io io;
	struct bio_vec bvec[PIECES];
	struct page *page[PAGES];
	atomic_t calls;
	int again; /* times that ->done submits it */
	int expected;
	bool single;    /* not submitted again */
	bool submitted; /* may be cancelled; cancel_lock of stress.c */
};

extern struct slot *slots; /* test_depth of them */
extern struct slot big_slot;
extern struct bio_vec big_bvec[BIG_PIECES];
extern atomic_t slots_pending;

struct krdma_session_handle *connect_to(const struct sockaddr_storage *dst, unsigned int flags);
struct krdma_region_handle *open_region(struct krdma_session_handle *s, const char *export,
					unsigned int rights);
u32 below(u32 n);
u8 pattern(u32 seed, u32 slot, u32 i);

int slots_alloc(void);
void slots_free(void);
void slots_begin(unsigned int n);
bool slots_wait(void);
bool slots_verify(void);
void slot_fill(struct slot *s, enum krdma_opcode op);
void slot_shuffle(struct slot *s);
void slot_big(void);
int one(void);

/* ---- subjects ---- */

bool test_errors(void);
bool test_joined(void);
bool test_messages(void);
bool test_numbers(void);
bool test_stress(void);
bool crowd_begin(void);
void crowd_end(void);
int loop_begin(void);
void loop_end(void);

#endif
