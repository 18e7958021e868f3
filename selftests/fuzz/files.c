// SPDX-License-Identifier: GPL-2.0
/*
 * Open files, and the ids that each has; message queues; and the steps on them that are no ioctls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

struct file files[FILES] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
int queues[QUEUES] = { -1, -1, -1, -1 };

void keep(struct file *f, enum kind kind, __u32 id)
{
	/* The id of the file that it was: it has died with that. */
	if (f->fd < 0)
		return;
	if (f->nids[kind] == IDS)
		kst_destroy(f->fd, f->ids[kind][--f->nids[kind]]);
	f->ids[kind][f->nids[kind]++] = id;
}

void forget(struct file *f, __u32 id)
{
	unsigned int kind, i;

	for (kind = 0; kind < KINDS; kind++)
		for (i = 0; i < f->nids[kind]; i++)
			if (f->ids[kind][i] == id) {
				live.lost = live.lost || (f == files && i < live.kept[kind]);
				memmove(&f->ids[kind][i], &f->ids[kind][i + 1],
					(--f->nids[kind] - i) * sizeof(id));
				return;
			}
}

__u32 any_id(struct file *f, enum kind kind)
{
	uint8_t which = byte();

	if (which >= 240)
		return any_word();
	if (which >= 224)
		kind = which % KINDS;
	return f->nids[kind] ? f->ids[kind][which % f->nids[kind]] : 0;
}

void open_file(struct file *f)
{
	if (f->fd >= 0)
		return;
	f->fd = kst_open();
	f->generation++;
	memset(f->nids, 0, sizeof(f->nids));
	f->live = false;
}

void close_file(struct file *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
	f->generation++;
	if (f == files) {
		live.lost = true;
		live.counted = false;
	}
}

int *any_queue(void)
{
	unsigned int first = byte(), i;

	for (i = 0; i < QUEUES; i++)
		if (queues[(first + i) % QUEUES] >= 0)
			break;
	return &queues[(first + i) % QUEUES];
}

/* All but file 0. */
void files_reset(void)
{
	unsigned int i;

	for (i = 1; i < FILES; i++)
		close_file(&files[i]);
	for (i = 0; i < QUEUES; i++)
		if (queues[i] >= 0) {
			close(queues[i]);
			queues[i] = -1;
		}
}

/* The file itself if it has what a call wants, else mostly file 0, which has. */
struct file *who_has(struct file *f, enum kind kind)
{
	if (!f->nids[kind] && !rarely(32))
		f = &files[0];
	open_file(f);
	return f;
}

void step_read(enum step step)
{
	static struct krdma_completion comps[8];
	struct file *f = &files[byte() % FILES];
	uint8_t shape = byte();
	ssize_t n;

	open_file(f);
	n = read(f->fd, shape < 192 ? comps : (void *)(uintptr_t)any_pointer(),
		 shape & 1 ? sizeof(comps) : (shape % 9) * 32);
	result(step, n < 0 ? -errno : n);
	if (!f->live)
		return;
	if (n > 0)
		live.reaped += n / sizeof(comps[0]);
	else if (n < 0 && errno != EAGAIN)
		live.counted = false;
}

void step_poll(enum step step)
{
	struct pollfd fds[FILES + QUEUES + 1];
	unsigned int i;

	for (i = 0; i < FILES; i++)
		fds[i] = (struct pollfd){ files[i].fd, POLLIN | POLLOUT, 0 };
	for (i = 0; i < QUEUES; i++)
		fds[FILES + i] = (struct pollfd){ queues[i], POLLIN, 0 };
	fds[FILES + QUEUES] = (struct pollfd){ event_fd, POLLIN, 0 };
	result(step, poll(fds, KST_ARRAY_SIZE(fds), 0));
}

/* File 0 seldom: what it keeps has to be made again. */
void step_close(enum step step)
{
	uint8_t which = byte();

	close_file(&files[which < 248 ? 1 + which % (FILES - 1) : 0]);
	result(step, 0);
}

void step_dup(enum step step)
{
	uint8_t which = byte();
	struct file *from = &files[which % FILES], *to = &files[1 + which / FILES % (FILES - 1)];
	unsigned int generation = to->generation;

	if (from == to)
		return;
	open_file(from);
	close_file(to);
	*to = *from;
	to->generation = generation + 1;
	to->fd = dup(from->fd);
	/* A read in the ring that was for what had this number before. */
	if (to->live && ring_waits())
		live.counted = false;
	result(step, to->fd < 0 ? -errno : 0);
}

void step_nonblock(enum step step)
{
	struct file *f = &files[byte() % FILES];

	open_file(f);
	live.nonblock_set = true;
	fcntl(f->fd, F_SETFL, byte() & 1 ? O_NONBLOCK : 0);
	result(step, 0);
}

void step_queue(enum step step)
{
	static unsigned char buf[KST_PAGE + sizeof(struct krdma_message)];
	int *at = any_queue();
	size_t size = byte() * 32;
	ssize_t n;

	if (*at < 0)
		return;
	if (step == STEP_QUEUE_CLOSE) {
		result(step, close(*at));
		*at = -1;
		return;
	}
	n = read(*at, buf, size < sizeof(buf) ? size : sizeof(buf));
	result(step, n < 0 ? -errno : n);
}
