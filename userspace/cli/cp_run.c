// SPDX-License-Identifier: GPL-2.0
/* Files to or from a share: threads that keep its slots busy. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cp.h"

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
/* For the counts of jobs that end. */
static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;
struct progress cp_progress;

void cp_report_lock(void)
{
	pthread_mutex_lock(&report_lock);
}

void cp_report_unlock(void)
{
	pthread_mutex_unlock(&report_lock);
}

/* A failure at this host. */
static void here(void *arg, int error, const char *text)
{
	char printable[FILES_TEXT_MAX + 512];
	struct cp_job *job = arg;

	/* Names are the peer's, or those of whoever has made the files. */
	snprintf(printable, sizeof(printable), "%s", text);
	files_printable(printable);
	cp_report_lock();
	progress_clear(&cp_progress);
	fail(error, "%s", printable);
	cp_report_unlock();
	job->failed = true;
}

/* A failure at the share, or of the connection with it. */
static void there(void *arg, int error, const char *text)
{
	struct cp_job *job = arg;
	char whole[FILES_TEXT_MAX + 512];

	snprintf(whole, sizeof(whole), "%s: %s", job->text, text);
	here(job, error, whole);
}

/* The first failure ends the job: those that follow from it are not told. */
static void stop(struct cp_job *job, int error, const char *text)
{
	if (!atomic_exchange(&job->link.stopped, true))
		there(job, error, text);
	if (job->sender)
		files_sender_stop(job->sender);
}

/* The slots of one thread. */
struct worker {
	struct cp_job *job;
	uint32_t slots;
	pthread_t thread;
};

/* Wait for a response in one of these slots. Return: the slot, or -1 when all shall stop. */
static int await(struct cp_job *job, uint32_t slots, enum share_code *code, uint32_t *length)
{
	const int slot = share_wait(&job->link, slots, code, length);
	char text[FILES_TEXT_MAX];
	int error;

	if (slot < 0) {
		if (!job->link.stopped)
			stop(job, krdma_errno(), krdma_error());
		return -1;
	}
	if (*code != SHARE_FAILED)
		return slot;
	error = share_failure(&job->link, (uint32_t)slot, *length, text);
	stop(job, error, text);
	return -1;
}

static bool call(struct cp_job *job, enum share_op op, uint32_t slot, uint32_t length)
{
	if (job->link.stopped)
		return false;
	if (!share_call(&job->link, op, slot, length))
		return true;
	stop(job, krdma_errno(), krdma_error());
	return false;
}

static const char *reply_error(int error)
{
	if (error == EPROTO)
		return "the server's reply makes no sense";
	return error == EILSEQ ? "bytes have come that are not those that were sent" :
				 "the rest is not copied";
}

/* Send chunks as long as slots are free, then look at responses. */
static void push(struct worker *w)
{
	struct cp_job *job = w->job;
	uint32_t idle = w->slots, length;
	bool ended = false;
	enum files_next next;
	enum share_code code;
	int slot, error;

	for (;;) {
		while (idle && !ended) {
			slot = __builtin_ctz(idle);
			next = files_sender_pack(job->sender,
						 share_memory(&job->link, (uint32_t)slot), &length,
						 idle == w->slots);
			if (next == FILES_WAIT)
				break;
			ended = next != FILES_CHUNK_READY;
			if (ended)
				break;
			if (!call(job, SHARE_CHUNK, (uint32_t)slot, length))
				return;
			idle &= ~(1U << slot);
		}
		if (idle == w->slots) {
			if (ended)
				return;
			continue;
		}
		slot = await(job, w->slots & ~idle, &code, &length);
		if (slot < 0)
			return;
		idle |= 1U << slot;
		error = files_sender_reply(job->sender, share_memory(&job->link, (uint32_t)slot),
					   length, there, job);
		if (error) {
			stop(job, error, reply_error(error));
			return;
		}
	}
}

/* Ask for chunks with all slots, unpack each, and ask again. */
static void pull(struct worker *w)
{
	struct cp_job *job = w->job;
	uint32_t left = w->slots, slots, length;
	char *reply = malloc(FILES_CHUNK), *memory;
	enum share_code code;
	int slot, error;

	if (!reply)
		stop(job, ENOMEM, "no memory");
	for (slots = left; reply && slots; slots &= slots - 1)
		if (!call(job, SHARE_GIVE, (uint32_t)__builtin_ctz(slots), 0))
			left = 0;
	while (reply && left) {
		slot = await(job, left, &code, &length);
		if (slot < 0)
			break;
		if (code == SHARE_END) {
			left &= ~(1U << slot);
			continue;
		}
		memory = share_memory(&job->link, (uint32_t)slot);
		error = files_receiver_chunk(job->receiver, memory, length, reply, &length, here,
					     job);
		if (error) {
			stop(job, error, reply_error(error));
			break;
		}
		memcpy(memory, reply, length);
		if (!call(job, SHARE_GIVE, (uint32_t)slot, length))
			break;
	}
	free(reply);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	if (w->job->push)
		push(w);
	else
		pull(w);
	return NULL;
}

static void run_workers(struct cp_job *job)
{
	struct worker workers[CP_WORKERS] = { 0 };
	unsigned int i, n = job->in_order ? 1 : job->workers;

	for (i = 0; i < (job->in_order ? 1 : SHARE_SLOTS); i++)
		workers[i % n].slots |= 1U << i;
	for (i = 0; i < n; i++)
		workers[i].job = job;
	for (i = 1; i < n; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			break;
	/* Slots without a thread are not used. */
	n = i;
	work(&workers[0]);
	for (i = 1; i < n; i++)
		pthread_join(workers[i].thread, NULL);
}

struct files_counts cp_counts(struct cp_job *job)
{
	struct files_counts counts;

	pthread_mutex_lock(&counts_lock);
	if (!job->over && job->sender)
		job->counts = files_sender_counts(job->sender);
	else if (!job->over && job->receiver)
		job->counts = files_receiver_counts(job->receiver);
	counts = job->counts;
	pthread_mutex_unlock(&counts_lock);
	return counts;
}

static void copy(struct cp_job *job)
{
	const enum share_op op = job->push ? SHARE_PUSH : SHARE_PULL;
	struct files_sender *sender = NULL;
	static bool unknown; /* how much one of the sources has; under the lock */
	uint64_t bytes;

	if (job->push) {
		sender = files_sender_new(job->operands, job->count, share_sender_flags(job->flags),
					  here, job);
		if (!sender) {
			here(job, ENOMEM, "no memory");
			return;
		}
	}
	if (!share_begin(&job->link, op, job->path, job->flags, &bytes, there, job)) {
		cp_report_lock();
		if (!job->push && !bytes)
			unknown = true;
		cp_progress.total = unknown ? 0 : cp_progress.total + (job->push ? 0 : bytes);
		cp_report_unlock();
		pthread_mutex_lock(&counts_lock);
		job->sender = sender;
		pthread_mutex_unlock(&counts_lock);
		run_workers(job);
		if (job->receiver && !job->link.stopped)
			files_receiver_end(job->receiver, here, job);
		cp_counts(job);
	}
	pthread_mutex_lock(&counts_lock);
	job->sender = NULL;
	job->over = true;
	pthread_mutex_unlock(&counts_lock);
	files_sender_free(sender);
}

void *cp_run(void *arg)
{
	struct cp_job *job = arg;

	if (!share_open(&job->link, job->host, job->share, job->options, there, job))
		copy(job);
	job->over = true;
	share_close(&job->link);
	return NULL;
}
