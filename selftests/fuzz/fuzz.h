/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fuzz_ioctl, the libFuzzer target of /dev/krdma_mover:
 *
 * fuzz_ioctl.c	libFuzzer's functions, the table of the steps, an input
 * coverage.c		what the module ran (KCOV), and what came of the steps
 * input.c		the bytes of the input
 * memory.c		memory that calls get
 * files.c		open files, their ids, message queues
 * live.c		file 0, which is kept from input to input
 * calls.c		how an ioctl is made, by this thread or the other one
 * ioctls.c		the ioctls
 * operations.c	operations, SUBMIT
 * uring.c		io_uring
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "kst.h"

enum step {
	STEP_QUERY,
	STEP_LAST_ERROR,
	STEP_DESTROY,
	STEP_LIST,
	STEP_LISTEN,
	STEP_UNLISTEN,
	STEP_CONNECT,
	STEP_PING,
	STEP_BUFFER,
	STEP_EXPORT,
	STEP_OPEN,
	STEP_SUBMIT,
	STEP_CANCEL,
	STEP_EVENTFD,
	STEP_QUEUE,
	STEP_MONITOR,
	STEP_RAW,
	STEP_READ, /* those before it are ioctls */
	STEP_POLL,
	STEP_CLOSE,
	STEP_DUP,
	STEP_NONBLOCK,
	STEP_QUEUE_READ,
	STEP_QUEUE_CLOSE,
	STEP_URING_OP,
	STEP_URING_OTHER,
	STEP_URING_FLUSH,
	STEP_URING_END,
	STEP_MEMORY,
	STEPS,
};

struct step_kind {
	const char *name;
	void (*run)(enum step step);
	/* Of an ioctl: its number, and the size of its struct. */
	unsigned long ioctl;
	__u32 size;
};

extern const struct step_kind step_kinds[STEPS];

/* ---- the environment ---- */

extern const char *peer_address, *self_address;
extern unsigned int slow; /* TIME_FACTOR */
extern bool verbose;

/* ---- coverage ---- */

void kcov_open(void);
void kcov_begin(void);
void kcov_end(void);
void result(enum step step, int rc);
_Noreturn void finding(const char *what, long value);
void report(void);

/* ---- the input ---- */

extern unsigned int costly; /* what takes long, of this input */

void input_begin(const uint8_t *data, size_t size);
bool input_ended(void);
uint8_t byte(void);
__u32 word(void);
bool rarely(unsigned int n);
__u32 any_word(void);

/* ---- memory ---- */

/* Operations of a SUBMIT, then their vectors. */
#define BATCH_MAX   8
#define STRIDE_MAX  256
#define VECTOR_MAX  8
#define FIXED_BYTES (16 * KST_PAGE)

/* Nothing behind it may be taken for an operation. */
struct area {
	unsigned char ops[BATCH_MAX * STRIDE_MAX];
	struct krdma_vec vecs[2 * BATCH_MAX][VECTOR_MAX];
	struct krdma_prefix allow[4];
};

extern struct area *areas[2]; /* of this thread, of the other one */
extern unsigned char *fixed;  /* buffer of the ring */
extern int zero_fd, event_fd, plain_memfd, sealed_memfd, write_sealed_memfd;

unsigned char *guarded(size_t bytes);
__u64 any_pointer(void);
__u64 any_length(void);
void memory_open(void);
void memory_reset(void);
void step_memory(enum step step);

/* ---- files ---- */

enum kind {
	KIND_SESSION,
	KIND_REGION,
	KIND_BUFFER,
	KIND_EXPORT,
	KINDS
};

#define IDS    16
#define FILES  4
#define QUEUES 4

/* An open file. A dup of one has the ids that it had then. */
struct file {
	int fd; /* or -1 */
	unsigned int generation;
	unsigned int nids[KINDS];
	__u32 ids[KINDS][IDS];
	bool live; /* file 0, or a dup of it */
};

extern struct file files[FILES];
extern int queues[QUEUES];

void keep(struct file *f, enum kind kind, __u32 id);
void forget(struct file *f, __u32 id);
__u32 any_id(struct file *f, enum kind kind);
void open_file(struct file *f);
void close_file(struct file *f);
struct file *who_has(struct file *f, enum kind kind);
int *any_queue(void);
void files_reset(void);
void step_read(enum step step);
void step_poll(enum step step);
void step_close(enum step step);
void step_dup(enum step step);
void step_nonblock(enum step step);
void step_queue(enum step step);

/* ---- file 0 ---- */

struct live {
	unsigned int kept[KINDS]; /* ids[][] of the file begins with them */
	bool lost, poor;          /* one of them is gone, or may be */
	bool has_self;            /* a session with this host */
	bool message_sent, nonblock_set;
	/* Asynchronous operations, and completions of them; if all of these were seen. */
	__u64 accepted, reaped;
	bool counted;
};

extern struct live live;

bool kept_id(__u32 id);
void live_memory(void);
void live_open(void);
void live_reset(void);

/* ---- ioctls ---- */

union call {
	__u32 size;
	__u32 words[72]; /* as many as the longest has, or more */
	struct krdma_ioc_query query;
	struct krdma_ioc_last_error last_error;
	struct krdma_ioc_destroy destroy;
	struct krdma_ioc_list list;
	struct krdma_ioc_listen listen;
	struct krdma_ioc_unlisten unlisten;
	struct krdma_ioc_connect connect;
	struct krdma_ioc_disconnect disconnect;
	struct krdma_ioc_ping ping;
	struct krdma_ioc_buffer buffer;
	struct krdma_ioc_export export;
	struct krdma_ioc_open open;
	struct krdma_ioc_submit submit;
	struct krdma_ioc_cancel cancel;
	struct krdma_ioc_eventfd eventfd;
	struct krdma_ioc_message_queue queue;
	struct krdma_ioc_monitor monitor;
};

/* The head of each call: the file, who calls it, how many words are overwritten. */
struct head {
	struct file *file;
	bool aside;
	unsigned int changes;
	struct area *area;
};

void worker_start(void);
void worker_wait(void);
struct head any_head(void);
void change(struct head *head, enum step step, union call *call);
void go(struct head *head, enum step step, union call *call);

void listener_made(const struct __kernel_sockaddr_storage *addr);
void listeners_reset(void);
void step_simple(enum step step);
void step_list(enum step step);
void step_listen(enum step step);
void step_connect(enum step step);
void step_export(enum step step);
void step_eventfd(enum step step);
void step_raw(enum step step);

/* ---- operations ---- */

void any_op(struct file *f, struct krdma_op *op, struct area *area, unsigned int i);
void step_submit(enum step step);

/* ---- io_uring ---- */

bool ring_begin(void);
void ring_reset(void);
/* Are there reads, or polls, for which io_uring waits? */
bool ring_waits(void);
void step_uring_op(enum step step);
void step_uring_other(enum step step);
void step_uring_flush(enum step step);
void step_uring_end(enum step step);

#endif /* FUZZ_H */
