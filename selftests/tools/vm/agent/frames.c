// SPDX-License-Identifier: GPL-2.0
/* Buffers, and the frames of the protocol. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"

const char *progname = "agent";

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", progname);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_LOST);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (b->len + len > b->cap) {
		b->cap = (b->len + len) * 2 + 256;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			die("out of memory");
	}
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

void buf_drop(struct buf *b, size_t len)
{
	b->len -= len;
	memmove(b->data, b->data + len, b->len);
}

void put_u32(char *p, uint32_t v)
{
	p[0] = v;
	p[1] = v >> 8;
	p[2] = v >> 16;
	p[3] = v >> 24;
}

uint32_t get_u32(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

void frame_add(struct buf *out, char type, const void *data, uint32_t len)
{
	char header[HEADER] = { type };

	put_u32(header + 1, len);
	buf_add(out, header, HEADER);
	buf_add(out, data, len);
}

/* Is there a whole frame at the start of @in? */
bool frame_ready(const struct buf *in, char *type, char **data, uint32_t *len)
{
	if (in->len < HEADER)
		return false;
	*type = in->data[0];
	*len = get_u32(in->data + 1);
	*data = in->data + HEADER;
	if (*len > FRAME_MAX)
		die("a frame of %u bytes: the stream is out of step", *len);
	return in->len >= HEADER + *len;
}

bool write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			poll(&p, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= n;
	}
	return true;
}

void set_nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
