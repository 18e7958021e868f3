/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by both ends of the lab's agent: buffers, and the frames of its protocol. */
#ifndef LAB_FRAMES_H
#define LAB_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_TCP_PORT 7778
#define HEADER         5
#define CHUNK          16384
#define FRAME_MAX      (1 << 20)

/* The status of a client that lost its agent. */
#define EXIT_LOST 255

/*
 * A request: flags (1 = terminal), rows, columns, number of arguments, each
 * 4 bytes; then as strings the directory, the arguments and the environment.
 */
#define REQUEST_TTY   1
#define REQUEST_FIXED 16

struct buf {
	char *data;
	size_t len, cap;
};

extern const char *progname;

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_drop(struct buf *b, size_t len);
void put_u32(char *p, uint32_t v);
uint32_t get_u32(const char *s);
void frame_add(struct buf *out, char type, const void *data, uint32_t len);
bool frame_ready(const struct buf *in, char *type, char **data, uint32_t *len);
bool write_all(int fd, const char *data, size_t len);
void set_nonblock(int fd);
long now_ms(void);

int cmd_serve(int argc, char **argv);
int cmd_call(int argc, char **argv);
int cmd_on(int argc, char **argv);
int cmd_tsc(void);

#endif
