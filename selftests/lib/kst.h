/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the C tests: TAP output, the ioctls of /dev/krdma_mover, the state that a failed call
 * must not change, and a helper process in node B (kst_peer.c).
 */
#ifndef KST_H
#define KST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <linux/krdma_mover.h>

#define KST_PAGE 4096UL
/* What an operation may take where time is not the subject: machines may be very slow. */
#define KST_TIMEOUT_NS 300000000000ULL
/* Less than the 10 s for which a session stays that nobody uses. */
#define KST_STILL_MS 9000
/* Of the listener in node B; not the default, which other tests use. */
#define KST_PORT 7480
/* Seed of what an export of kst_setup_region() has in it. */
#define KST_BASE           1
#define KST_ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define __kst_printf(f, a) __attribute__((format(printf, f, a)))
/* The lab's addresses of nodes A and B, which stand for those that they have elsewhere. */
#define KST_A "10.77.0.1"
#define KST_B "10.77.0.2"

/* ---- results: with the harness (kst_harness.h), or for programs that scripts run ---- */

bool kst_ok(bool good, const char *fmt, ...) __kst_printf(2, 3);
void kst_diag(const char *fmt, ...) __kst_printf(1, 2);
extern bool kst_in_harness;
_Noreturn void kst_skip_all(const char *reason);
_Noreturn void kst_bail(const char *fmt, ...) __kst_printf(1, 2);
/* Prints the plan; the exit status of main. */
int kst_done(void);
/* A setting in the environment. */
unsigned int kst_number(const char *name, unsigned int usual);

/* ---- calls; all return 0 or a negative errno ---- */

/* The number behind key in a file, -1 if there is none. */
long kst_line(const char *path, const char *key);
int kst_open(void);
int kst_call(int fd, unsigned long cmd, void *arg);
int kst_destroy(int fd, __u32 id);
int kst_buffer(int fd, void *addr, __u64 length, __u32 flags, __u32 *id);
int kst_export(int fd, const char *name, void *addr, __u64 length, __u32 rights, __u32 *id);
int kst_connect(int fd, __u32 flags, __u32 *id);
/* KRDMA_IOC_MESSAGE_QUEUE: the file, or a negative errno. */
int kst_message_queue(int fd, __u32 id, __u32 flags);
int kst_open_region(int fd, __u32 session, const char *name, __u32 rights, __u32 *id,
		    __u64 *segment);
int kst_submit(int fd, struct krdma_op *ops, struct krdma_completion *comps, __u32 n,
	       __u32 *failed);
struct krdma_op kst_op(int opcode, __u32 region, __u64 offset, const void *addr, __u64 length);
/* KRDMA_SUBMIT_ASYNC; *accepted is 0 if it fails. */
int kst_start(int fd, struct krdma_op *ops, __u32 n, __u32 *accepted);
/* Completions read, at most @n. */
int kst_reap(int fd, struct krdma_completion *comps, unsigned int n);
/* How many operations were told to end. */
int kst_cancel(int fd, __u64 user_data, __u32 flags);
/* One operation on memory of ours: its status, or why the call failed. */
int kst_move(int fd, int opcode, __u32 region, __u64 offset, void *addr, __u64 length,
	     __u64 *moved);
/* KST_A and KST_B as they are here. */
const char *kst_text_ipv4(const char *text);
struct __kernel_sockaddr_storage kst_ipv4(const char *text, __u16 port);
/* As in lists, messages and prefixes. */
struct krdma_sockaddr kst_small_ipv4(const char *text, __u16 port);
/* The sentence of the last error of a file; *err is its errno. Static memory. */
const char *kst_last_error(int fd, int *err);

/* Did it fail like that, with @word in its sentence, or not at all (0)? Says so if not. */
bool kst_failed(int fd, int rc, int want, const char *word);
/* Is it a sentence, and not the name of an errno? */
bool kst_sentence(int fd, int want, const char *word);

/* Is it one of the list in the uapi header? */
bool kst_documented(int rc);

/* ---- what a failed call must leave as it was ---- */

struct kst_state {
	long pins;      /* nr_foll_pin_acquired - nr_foll_pin_released */
	long vmpin;     /* VmPin of this process, KiB */
	long accounted; /* pinned_bytes in sysfs, all files */
	unsigned int listeners;
	unsigned int sessions; /* ours, in use */
	unsigned int users;    /* of those */
	unsigned int exports;
	unsigned int regions;
	unsigned int transfers;
};

struct kst_state kst_now(void);
/* VmPin of this process, KiB. */
long kst_vmpin(void);
/* Waits until it is as before, or does not change for KST_STILL_MS; says what is not. */
bool kst_same(const struct kst_state *before);
/* Number of objects of a kind that @match accepts (NULL: all). */
int kst_count(enum krdma_list_kind kind, bool (*match)(const void *entry, void *arg), void *arg);
/*
 * Polls until @cond is true; false after a minute, which a computer that is busy with
 * other things may need, or after @ms.
 */
bool kst_wait(bool (*cond)(void *arg), void *arg);
bool kst_wait_ms(int ms, bool (*cond)(void *arg), void *arg);
double kst_seconds(void);

/*
 * Fault injection: the next @times that the module asks for this fault it has it; 0: never
 * again. 0 or a negative errno.
 */
int kst_fault(const char *name, unsigned int times);

/* ---- memory and patterns ---- */

void *kst_map(size_t length, int prot, int flags);
/* A byte pattern that no shift by a power of two maps onto itself. */
void kst_fill(void *mem, __u64 offset, size_t length, unsigned int seed);
/* Offset of the first wrong byte, -1 if all are right. */
long kst_check(const void *mem, __u64 offset, size_t length, unsigned int seed);
/* Are all bytes the same? */
bool kst_all(const void *mem, size_t length, unsigned char byte);

/* ---- messages ---- */

/*
 * The value of a message is its sender, below KST_MESSAGE_FROM, and its number, from 0 on,
 * which follow each other. Its bytes are kst_fill(.., number, .., sender). If it comes with
 * a WRITE that is what it has put into KST_MESSAGE_BYTES of the export, one of its places.
 */
#define KST_MESSAGE_FROM                  16
#define KST_MESSAGE_BYTES                 20000UL
#define KST_MESSAGE_SLOTS                 8
#define KST_MESSAGE_VALUE(sender, number) ((__u64)(sender) << 32 | (__u32)(number))

/* ---- node B ---- */

/* Called first in main: this may be the helper in node B. Does not return then. */
void kst_main(int argc, char **argv, int nodes);
/* The begin of a test: its file, and with @peer the helper, if there are two nodes. */
int kst_setup(bool peer);
bool kst_have_peer(void);
/* A session and a region, the export @name of node B, which has the pattern KST_BASE. */
int kst_setup_region(int fd, const char *name, __u64 length, __u32 *session, __u32 *region,
		     __u64 *segment);
/* The end: is all as it was before? */
bool kst_teardown(int fd);
bool kst_peer_start(void);
void kst_peer_stop(void);
/* A command to the helper: what it replies behind "ok", NULL if it says no. */
const char *kst_peer(const char *fmt, ...) __kst_printf(1, 2);
/*
 * A process of either node adds 1 to 8 bytes of node B's export, so many @times. Its
 * exit status.
 */
int kst_add(const char *name, __u64 offset, unsigned int times, bool async);
/* Has its export this pattern there? Says where not. */
bool kst_peer_has(const char *name, __u64 offset, __u64 length, unsigned int seed);

#endif /* KST_H */
