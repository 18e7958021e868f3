/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fake.so, the ioctls of the device over plain files (device.c says how to use it):
 *
 * device.c	the functions of libc that it replaces, and the device's file
 * objects.c	sessions, regions, buffers, exports, listeners
 * operations.c	operations, and SUBMIT that waits for them
 * async.c	asynchronous operations
 * messages.c	messages and message queues
 * uring.c	io_uring
 * lists.c	what LIST and MONITOR show
 */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <krdma/krdma_mover.h>

/* Nothing here may take the place of what the program under it has by that name. */
#pragma GCC visibility push(hidden)

#define FILES   1024
#define OBJECTS 64
#define OPS     2048

extern pthread_mutex_t lock; /* held in each ioctl */
extern int device_fd;
extern int event_fd;

/* What the log tells at the end. */
extern struct counts {
	unsigned long operations;
	unsigned int submits_max, under_way_max, batch_max;
} counts;

/* A line of KRDMA_FAKE_LOG. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An ioctl fails: the errno, and the sentence of LAST_ERROR. Returns -1. */
int give(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A number of the environment. */
unsigned int number(const char *name, unsigned int otherwise);
ssize_t real_read(int fd, void *to, size_t size);

/* ---- objects ---- */

enum kind {
	NONE,
	SESSION,
	REGION,
	BUFFER,
	EXPORT
};

struct object {
	enum kind kind;
	uint32_t rights; /* of a session or buffer: its flags */
	uint64_t addr;
	uint64_t length;
	int fd;
	int memory;          /* of an export for messages that has memory; else -1 */
	unsigned int serial; /* of a region: its session's, as the peer knows it */
	char path[512];
};

extern struct object objects[OBJECTS];

struct object *object_get(uint32_t id, enum kind kind);
void objects_end(void);
const char *directory(void);
uint32_t file_rights(mode_t mode);
/* What is said of an export that has not these rights. */
const char *lacks(uint32_t rights);
int do_connect(struct krdma_ioc_connect *arg);
int do_connected(struct krdma_ioc_connected *arg);
int do_disconnect(struct krdma_ioc_disconnect *arg);
int do_open(struct krdma_ioc_open *arg);
int do_buffer(struct krdma_ioc_buffer *arg);
int do_export(struct krdma_ioc_export *arg);
int do_destroy(struct krdma_ioc_destroy *arg);
int do_listen(const struct krdma_ioc_listen *arg);
int do_unlisten(const struct krdma_ioc_unlisten *arg);

/* ---- operations ---- */

/* What the kernel finds before it starts any operation. */
int check_op(const struct krdma_op *op);
void run_op(const struct krdma_op *op, struct krdma_completion *completion);
struct timespec op_delay(void);
/* So many operations are under way, of which one call has made so many. */
void count_under_way(unsigned int under_way, unsigned int batch);
int do_submit(struct krdma_ioc_submit *arg);
int do_submit_async(struct krdma_ioc_submit *arg);
int do_cancel(struct krdma_ioc_cancel *arg);
ssize_t do_read(void *to, size_t size);

/* ---- messages ---- */

int open_socket(struct object *export);
void close_socket(struct object *export);
int run_message(const struct object *region, const struct krdma_op *op, const void *data);
int do_message_queue(struct krdma_ioc_message_queue *arg);
bool is_queue(int fd);
ssize_t read_queue(int fd, char *to, size_t size);

/* ---- lists ---- */

int do_list(struct krdma_ioc_list *arg);
int do_monitor(struct krdma_ioc_monitor *arg);

#pragma GCC visibility pop

#endif /* FAKE_H */
