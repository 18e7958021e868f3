// SPDX-License-Identifier: GPL-2.0
/* Asynchronous operations: a thread ends them one by one. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

/* An asynchronous operation that has not ended. */
struct pending {
	struct krdma_op op;
	struct timespec due;
	bool cancelled;
};

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct pending pending[OPS];
static struct krdma_completion ended[OPS];
static unsigned int pending_count, ended_count;
static bool adapter_runs;
int event_fd = -1;

/* The one that ends next, NULL if none can. */
static struct pending *pending_next(void)
{
	unsigned int i;

	for (i = 0; i < pending_count; i++)
		if (pending[i].cancelled)
			return &pending[i];
	if (!pending_count || getenv("KRDMA_FAKE_HANG"))
		return NULL;
	return &pending[getenv("KRDMA_FAKE_REVERSE") ? pending_count - 1 : 0];
}

static bool is_due(const struct pending *next)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return next->cancelled || now.tv_sec > next->due.tv_sec ||
	       (now.tv_sec == next->due.tv_sec && now.tv_nsec >= next->due.tv_nsec);
}

static void pending_end(struct pending *next)
{
	const uint64_t one = 1;

	/* The memory is touched now, when the program must have left it alone. */
	if (next->cancelled)
		ended[ended_count] = (struct krdma_completion){ .user_data = next->op.user_data,
								.status = -ECANCELED };
	else
		run_op(&next->op, &ended[ended_count]);
	ended_count++;
	pending_count--;
	memmove(next, next + 1, (size_t)(&pending[pending_count] - next) * sizeof(*next));
	if (ended_count == 1 && write(device_fd, &one, sizeof(one)) < 0)
		abort();
	if (event_fd >= 0 && write(event_fd, &one, sizeof(one)) < 0)
		abort();
	pthread_cond_broadcast(&changed);
}

static void *adapter(void *arg)
{
	struct pending *next;

	pthread_mutex_lock(&lock);
	for (;;) {
		next = pending_next();
		if (!next)
			pthread_cond_wait(&changed, &lock);
		else if (is_due(next))
			pending_end(next);
		else
			pthread_cond_timedwait(&changed, &lock, &next->due);
	}
	return arg;
}

static bool no_waiting(void)
{
	return fcntl(device_fd, F_GETFL) & O_NONBLOCK;
}

/* As if it came while the call is made. */
static void come_between(const char *call)
{
	const char *when = getenv("KRDMA_FAKE_SIGNAL");

	if (when && !strcmp(when, call))
		raise(SIGUSR1);
}

void count_under_way(unsigned int under_way, unsigned int batch)
{
	if (under_way > counts.under_way_max)
		counts.under_way_max = under_way;
	if (batch > counts.batch_max)
		counts.batch_max = batch;
}

int do_submit_async(struct krdma_ioc_submit *arg)
{
	const struct krdma_op *ops = (const void *)(uintptr_t)arg->ops;
	const unsigned int ops_max = number("KRDMA_FAKE_OPS_MAX", OPS);
	const unsigned int accept = number("KRDMA_FAKE_ACCEPT", UINT32_MAX);
	const struct timespec delay = op_delay();
	pthread_t thread;

	come_between("submit");
	if (arg->completions || arg->completion_stride)
		return give(EINVAL, "there are no completions here");
	if (!adapter_runs && pthread_create(&thread, NULL, adapter, NULL))
		abort();
	adapter_runs = true;
	while (pending_count + ended_count >= ops_max) {
		if (no_waiting())
			return give(EAGAIN, "%u operations are under way", ops_max);
		pthread_cond_wait(&changed, &lock);
	}
	while (arg->accepted < arg->count && arg->accepted < accept &&
	       pending_count + ended_count < ops_max) {
		struct pending *new = &pending[pending_count++];

		*new = (struct pending){ .op = ops[arg->accepted++] };
		clock_gettime(CLOCK_REALTIME, &new->due);
		new->due.tv_sec += delay.tv_sec;
		new->due.tv_nsec += delay.tv_nsec;
		if (new->due.tv_nsec >= 1000000000) {
			new->due.tv_nsec -= 1000000000;
			new->due.tv_sec++;
		}
	}
	count_under_way(pending_count + ended_count, arg->count);
	pthread_cond_broadcast(&changed);
	return 0;
}

int do_cancel(struct krdma_ioc_cancel *arg)
{
	unsigned int i;

	arg->count = 0;
	for (i = 0; i < pending_count; i++) {
		if (pending[i].op.user_data != arg->user_data && !(arg->flags & KRDMA_CANCEL_ALL))
			continue;
		pending[i].cancelled = true;
		arg->count++;
	}
	pthread_cond_broadcast(&changed);
	return 0;
}

ssize_t do_read(void *to, size_t size)
{
	unsigned int count = (unsigned int)(size / sizeof(ended[0]));
	uint64_t value;

	if (!count) {
		errno = EINVAL;
		return -1;
	}
	while (!ended_count) {
		if (no_waiting()) {
			errno = EAGAIN;
			return -1;
		}
		if (!pending_count)
			return 0;
		pthread_cond_wait(&changed, &lock);
	}
	if (count > ended_count)
		count = ended_count;
	memcpy(to, ended, count * sizeof(ended[0]));
	ended_count -= count;
	memmove(ended, ended + count, ended_count * sizeof(ended[0]));
	if (!ended_count && real_read(device_fd, &value, sizeof(value)) < 0)
		abort();
	pthread_cond_broadcast(&changed);
	come_between("reap");
	return (ssize_t)(count * sizeof(ended[0]));
}
