// SPDX-License-Identifier: GPL-2.0
/*
 * A load of operations, measured.
 *
 * Each operation is idle or under way. An operation that has ended goes to the end
 * of the queue of idle operations, and is started anew from there.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"

struct mark {
	uint64_t ns;
	uint64_t done;
};

struct run {
	struct load *load;
	uint64_t *idle; /* a ring of depth entries */
	unsigned int idle_first;
	unsigned int idle_count;
	uint64_t *started_ns;
	struct krdma_op *batch;
	uint64_t *ended;
	uint64_t left; /* operations to start */
	uint64_t end_ns;
	uint64_t last_ns;
	struct mark marks[PEAK_MARKS];
	uint64_t marks_made;
	uint64_t marked; /* operations done at the last mark */
};

/* Operations for the next call, 0 for none now. */
static unsigned int batch_size(const struct run *run)
{
	const unsigned int batch = run->load->batch;
	unsigned int count = run->idle_count;

	if (batch && count > batch)
		count = batch;
	if (count >= run->left)
		return (unsigned int)run->left;
	return count < batch ? 0 : count;
}

static int start_idle(struct run *run)
{
	struct load *load = run->load;
	unsigned int count, i;
	uint64_t now;

	while ((count = batch_size(run)) != 0) {
		now = now_ns();
		if (now >= run->end_ns) {
			run->left = 0;
			break;
		}
		for (i = 0; i < count; i++) {
			const uint64_t n = run->idle[run->idle_first];

			run->idle_first = (run->idle_first + 1) % load->depth;
			run->batch[i] = load->ops[n];
			run->started_ns[n] = now;
		}
		run->idle_count -= count;
		run->left -= count;
		if (load->engine->submit(run->batch, count))
			return FAILED;
	}
	return DONE;
}

static void mark_peak(struct run *run)
{
	struct mark *mark = &run->marks[run->marks_made % PEAK_MARKS];
	struct load *load = run->load;

	if (load->done - run->marked < (load->depth + 1) / 2)
		return;
	run->marked = load->done;
	if (run->marks_made >= PEAK_MARKS && run->last_ns > mark->ns) {
		const double rate =
			(double)(load->done - mark->done) * 1e9 / (double)(run->last_ns - mark->ns);

		if (rate > load->peak)
			load->peak = rate;
	}
	*mark = (struct mark){ run->last_ns, load->done };
	run->marks_made++;
}

static int wait_for_some(struct run *run)
{
	struct load *load = run->load;
	int count = load->engine->reap(run->ended, load->depth - run->idle_count);
	int i;

	if (count < 0)
		return FAILED;
	run->last_ns = now_ns();
	for (i = 0; i < count; i++) {
		const uint64_t n = run->ended[i];

		if (load->stats)
			stats_add(load->stats, run->last_ns - run->started_ns[n]);
		run->idle[(run->idle_first + run->idle_count++) % load->depth] = n;
	}
	load->done += (uint64_t)count;
	mark_peak(run);
	return DONE;
}

static int run_all(struct run *run)
{
	struct load *load = run->load;
	const uint64_t start = now_ns();
	double average;
	unsigned int i;
	int rc;

	for (i = 0; i < load->depth; i++)
		run->idle[i] = i;
	run->idle_count = load->depth;
	run->left = load->iterations;
	run->end_ns = load->duration_ns ? start + load->duration_ns : UINT64_MAX;
	run->last_ns = start;
	load->done = 0;
	load->peak = 0;
	for (;;) {
		rc = start_idle(run);
		if (!rc && run->idle_count == load->depth)
			break;
		if (!rc)
			rc = wait_for_some(run);
		if (rc)
			return rc;
	}
	load->elapsed_ns = run->last_ns - start;
	average = load->done ? (double)load->done * 1e9 / (double)load->elapsed_ns : 0;
	if (load->peak < average)
		load->peak = average;
	return DONE;
}

int load_run(struct load *load)
{
	struct run run = { .load = load };
	int rc;

	run.idle = calloc(load->depth, sizeof(*run.idle));
	run.started_ns = calloc(load->depth, sizeof(*run.started_ns));
	run.batch = calloc(load->depth, sizeof(*run.batch));
	run.ended = calloc(load->depth, sizeof(*run.ended));
	if (run.idle && run.started_ns && run.batch && run.ended)
		rc = run_all(&run);
	else
		rc = fail(ENOMEM, "out of memory");
	free(run.idle);
	free(run.started_ns);
	free(run.batch);
	free(run.ended);
	return rc;
}
