// SPDX-License-Identifier: GPL-2.0
/*
 * How an ioctl is made: its file, what is overwritten, which thread makes it, and what its reply means.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "fuzz.h"

/* One ioctl; the other thread does it beside what comes next if there is one at a time. */
struct job {
	enum step step;
	struct file *file;
	unsigned int generation;
	bool live;
	int fd;
	union call call;
	union call *arg;
	int rc;
};

static void reply(struct job *job)
{
	struct file *f = job->file;
	union call *c = &job->call;
	int rc = job->rc;
	bool same = f->generation == job->generation && job->arg == c;

	result(job->step, rc);
	if (rc && !kst_documented(rc) && rc != -EAGAIN && rc != -EMFILE && rc != -ENFILE)
		finding("an errno that the header does not name", rc);
	if (rc)
		return;
	switch (job->step) {
	case STEP_DESTROY:
		forget(f, c->destroy.id);
		break;
	case STEP_LISTEN:
		listener_made(&c->listen.addr);
		break;
	case STEP_CONNECT:
	case STEP_BUFFER:
	case STEP_EXPORT:
	case STEP_OPEN:
		if (!same)
			break;
		if (job->step == STEP_CONNECT)
			keep(f, KIND_SESSION, c->connect.id);
		else if (job->step == STEP_BUFFER)
			keep(f, KIND_BUFFER, c->buffer.id);
		else if (job->step == STEP_EXPORT)
			keep(f, KIND_EXPORT, c->export.id);
		else
			keep(f, KIND_REGION, c->open.id);
		break;
	case STEP_SUBMIT:
		if (job->live && c->submit.flags & KRDMA_SUBMIT_ASYNC)
			live.accepted += c->submit.accepted;
		break;
	case STEP_QUEUE:
	case STEP_MONITOR: {
		int *at = &queues[c->queue.fd % QUEUES];

		/* Read like a queue; both structs end with the file. */
		_Static_assert(offsetof(struct krdma_ioc_monitor, fd) ==
				       offsetof(struct krdma_ioc_message_queue, fd),
			       "the same place");

		close(*at);
		*at = c->queue.fd;
		/* This program waits for nothing that need not come. */
		fcntl(*at, F_SETFL, O_NONBLOCK);
		break;
	}
	default:
		break;
	}
}

static void run(struct job *job)
{
	job->rc = kst_call(job->fd, step_kinds[job->step].ioctl, job->arg);
}

static pthread_mutex_t worker_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t worker_cond = PTHREAD_COND_INITIALIZER;
static enum {
	WORKER_IDLE,
	WORKER_BUSY,
	WORKER_DONE
} worker_state;
static struct job worker_job;

static void *worker(void *unused)
{
	pthread_mutex_lock(&worker_lock);
	for (;;) {
		while (worker_state != WORKER_BUSY)
			pthread_cond_wait(&worker_cond, &worker_lock);
		pthread_mutex_unlock(&worker_lock);
		run(&worker_job);
		pthread_mutex_lock(&worker_lock);
		worker_state = WORKER_DONE;
		pthread_cond_broadcast(&worker_cond);
	}
	return unused;
}

void worker_start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, worker, NULL))
		kst_bail("no thread");
}

/* The other thread is idle afterwards. */
void worker_wait(void)
{
	bool ended;

	pthread_mutex_lock(&worker_lock);
	while (worker_state == WORKER_BUSY)
		pthread_cond_wait(&worker_cond, &worker_lock);
	ended = worker_state == WORKER_DONE;
	worker_state = WORKER_IDLE;
	pthread_mutex_unlock(&worker_lock);
	if (ended)
		reply(&worker_job);
}

struct head any_head(void)
{
	uint8_t b = byte();
	struct head head = {
		.file = &files[b % FILES],
		.aside = (b >> 2) % 8 == 7,
		.changes = b >> 5 < 6 ? 0 : (b >> 5) - 5,
	};

	open_file(head.file);
	if (head.aside)
		worker_wait();
	head.area = areas[head.aside];
	return head;
}

void change(struct head *head, enum step step, union call *call)
{
	call->size = step_kinds[step].size;
	for (; head->changes; head->changes--) {
		__u32 *at = &call->words[byte() % (step_kinds[step].size / 4)];

		*at = byte() & 1 ? *at ^ 1U << byte() % 32 : any_word();
	}
}

void go(struct head *head, enum step step, union call *call)
{
	struct job here = {
		.step = step,
		.file = head->file,
		.generation = head->file->generation,
		.live = head->file->live,
		.fd = head->file->fd,
		.call = *call,
	};
	struct job *job = head->aside ? &worker_job : &here;

	*job = here;
	job->arg = &job->call;
	/* A pointer to nothing, where nothing can be made that would have to be ended. */
	if (step != STEP_LISTEN && step != STEP_QUEUE && step != STEP_MONITOR &&
	    step != STEP_SUBMIT && rarely(3))
		job->arg = (void *)(uintptr_t)any_pointer();
	if (!head->aside) {
		run(job);
		reply(job);
		return;
	}
	pthread_mutex_lock(&worker_lock);
	worker_state = WORKER_BUSY;
	pthread_cond_broadcast(&worker_cond);
	pthread_mutex_unlock(&worker_lock);
}
