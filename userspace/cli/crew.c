// SPDX-License-Identifier: GPL-2.0
/* Threads that work together until all end or one fails. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"

void crew_init(struct crew *crew)
{
	pthread_condattr_t attr;

	memset(crew, 0, sizeof(*crew));
	pthread_mutex_init(&crew->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&crew->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void crew_start(struct crew *crew, void *(*work)(void *), void *arg)
{
	int error;

	pthread_mutex_lock(&crew->lock);
	crew->running++;
	pthread_mutex_unlock(&crew->lock);

	error = pthread_create(&crew->threads[crew->started], NULL, work, arg);
	if (error) {
		/* EAGAIN is a limit here, and the peer's doing elsewhere. */
		crew_fail(crew, error == EAGAIN ? ENOMEM : error, "cannot start a thread: %s",
			  strerror(error));
		crew_leave(crew);
	} else {
		crew->started++;
	}
}

void crew_leave(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->running--;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
}

void crew_fail(struct crew *crew, int error, const char *fmt, ...)
{
	va_list args;

	pthread_mutex_lock(&crew->lock);
	if (!crew->failed) {
		va_start(args, fmt);
		vsnprintf(crew->text, sizeof(crew->text), fmt, args);
		va_end(args);
		crew->error = error;
		crew->failed = true;
	}
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
}

bool crew_wait_locked(struct crew *crew, uint64_t limit_ns)
{
	const uint64_t until = now_ns() + limit_ns;
	const struct timespec deadline = {
		.tv_sec = (time_t)(until / NSEC_PER_SEC),
		.tv_nsec = (long)(until % NSEC_PER_SEC),
	};

	while (crew->running && !crew->failed) {
		if (!limit_ns)
			pthread_cond_wait(&crew->changed, &crew->lock);
		else if (pthread_cond_timedwait(&crew->changed, &crew->lock, &deadline))
			return false;
	}
	return true;
}

void crew_join(struct crew *crew)
{
	while (crew->started)
		pthread_join(crew->threads[--crew->started], NULL);
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->lock);
}
