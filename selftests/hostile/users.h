/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two users of one host:
 *
 * users.c		what node B exports, the order of the tests
 * users_job.c		a process of a user, and what it reports
 * users_call.c		calls that a user makes
 * users_ids.c		ids and lists
 * users_limits.c	sessions, operations, exports, memory up to the limits
 * users_files.c	files that are passed on, inherited, used with another user id
 */
#ifndef USERS_H
#define USERS_H

#include <sys/mman.h>
#include <sys/resource.h>

#include "kst.h"

#define RW    (PROT_READ | PROT_WRITE)
#define BOTH  (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
#define ANN   2001
#define BOB   2002
#define GROUP 3000

/* Of the export "few". */
#define FEW          64
#define FEW_SEGMENTS 16
/* What a user may lock, unless a test says more. */
#define LOCKED (64 * KST_PAGE)
/* A quarter of the export "users". */
#define BYTES (256UL * 1024)

extern int self; /* this program, as a file */
extern __u64 few_segment;

/* ---- processes of users ---- */

struct job {
	pid_t pid;
	int in, out;
};

/* In the job. */
void tell(int fd, int rc, long value);
void await(void);
bool wanted(void);
void limit_locked(bool operations);
bool become(uid_t uid, rlim_t locked);

/* In the test. */
struct job start(uid_t uid, rlim_t locked, void (*work)(void));
void hear_good(struct job *job, long value, const char *what);
long hear_bad(struct job *job, int rc, const char *word, const char *what);
void go_on(struct job *job);
void finish(struct job *job, const char *what);
/* What node B says for this verb of a user; -1 if it says nothing. */
long peer_number(const char *verb, uid_t uid);
struct kst_state alone(void);

/* ---- what a user does ---- */

/* A file with a session, a region and a page as a buffer; and where the opener has memory. */
struct passed {
	__u32 session, region, buffer;
	__u64 serial, at;
};

int move(int fd, int opcode, __u32 region, __u64 offset, void *mem, __u64 length);
int by_buffer(int fd, int opcode, __u32 region, __u32 buffer);
bool has_base(const void *mem, size_t length);
int export_fd(int fd, int file, const char *name);
int page_file(void);
int listen_here(int fd);
struct krdma_ioc_query query(int fd);
long first_session_user(int fd);
__u64 connect_serial(int fd, __u32 *id);
int make_file(int flags, struct passed *p, char *page);

/* ---- tests ---- */

void test_ids(void);
void test_sessions(void);
void test_exhaustion(void);
void test_pins(void);
void test_passing(void);
void test_fork(void);
void test_exec(void);
void test_setuid(void);
/* The program that test_exec() begins. */
int after_exec(char **argv);

#endif /* USERS_H */
