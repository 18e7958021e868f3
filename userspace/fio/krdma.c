// SPDX-License-Identifier: GPL-2.0
/*
 * An ioengine of fio: READs and WRITEs of a peer's export, with libkrdma.
 *
 *   fio --ioengine=external:libkrdma-fio.so --hostname=nodeB --export=scratch --rw=randwrite ...
 *
 * queue() collects operations, commit() starts them in one call, getevents() reads completions. With
 * iodepth=1 queue() starts and awaits an operation in one call. Each job has a handle of its own.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"
#include "verify.h"

#include <krdma/krdma.h>

struct options {
	void *pad; /* fio has no option at offset 0 */
	char *host;
	char *export;
	unsigned int port;
	unsigned int registered;
	unsigned int placed;
	unsigned int timeout_s;
};

#define OPTION(option, text, kind, member)                                      \
	.name = (option), .lname = (text), .help = (text), .type = (kind),      \
	.off1 = offsetof(struct options, member), .category = FIO_OPT_C_ENGINE, \
	.group = FIO_OPT_G_RDMA

static struct fio_option options[] = {
	{
		OPTION("hostname", "Name or address of the peer", FIO_OPT_STR_STORE, host),
		.alias = "host",
	},
	{
		OPTION("export", "Name of the peer's export", FIO_OPT_STR_STORE, export),
		.alias = "region",
	},
	{
		OPTION("port", "Port of the peer's listener", FIO_OPT_INT, port),
		.minval = 1,
		.maxval = 65535,
	},
	{
		OPTION("registered", "Register the buffers once, or pin them for each operation",
		       FIO_OPT_BOOL, registered),
		.def = "1",
	},
	{
		OPTION("placed", "End a WRITE only when every reader of the peer's memory sees it",
		       FIO_OPT_BOOL, placed),
		.def = "0",
	},
	{
		OPTION("op_timeout", "Deadline of an operation in seconds (0: the module's)",
		       FIO_OPT_INT, timeout_s),
		.maxval = 3600,
		.def = "0",
	},
	{ .name = NULL },
};

/**
 * struct job - what a job has
 * @krdma: its handle
 * @region: the export
 * @buffer: fio's buffers, registered; 0: none
 * @base: where they begin
 * @length: their length
 * @depth: entries of the arrays
 * @queued: operations that commit() will start
 * @ops: these
 * @io_us: the io_u of each
 * @completions: what getevents() has read
 */
struct job {
	struct krdma *krdma;
	struct krdma_region region;
	uint32_t buffer;
	char *base;
	uint64_t length;
	unsigned int depth;
	unsigned int queued;
	struct krdma_op *ops;
	struct io_u **io_us;
	struct krdma_completion *completions;
};

static int complain(const struct thread_data *td)
{
	log_err("fio: %s: %s\n", td->o.name, krdma_error());
	return 1;
}

/* ---- The peer ---- */

static uint32_t rights_needed(const struct thread_data *td)
{
	uint32_t rights = 0;

	/* fio reads back what it verifies. */
	if (td_read(td) || td->o.verify != VERIFY_NONE || ((const struct options *)td->eo)->placed)
		rights |= KRDMA_RIGHT_READ;
	if (td_write(td))
		rights |= KRDMA_RIGHT_WRITE;
	return rights;
}

static int open_export(struct thread_data *td, struct krdma **krdma, struct krdma_region *region)
{
	const struct options *o = td->eo;
	struct krdma_connect_options connect = { .timeout_ms = o->timeout_s * 1000 };
	char host[300];
	uint32_t session;
	int rc;

	if (o->port)
		snprintf(host, sizeof(host), strchr(o->host, ':') ? "[%s]:%u" : "%s:%u", o->host,
			 o->port);
	else
		snprintf(host, sizeof(host), "%s", o->host);
	rc = krdma_new(krdma);
	if (!rc)
		rc = krdma_connect_host(*krdma, host, &connect, &session, NULL);
	if (!rc)
		rc = krdma_open_region(*krdma, session, o->export, rights_needed(td),
				       connect.timeout_ms, region);
	return rc ? complain(td) : 0;
}

static bool options_are_wrong(const struct thread_data *td)
{
	const struct options *o = td->eo;

	if (!o->host || !o->export)
		log_err("fio: %s: hostname= and export= are needed\n", td->o.name);
	else if (td_trim(td))
		log_err("fio: %s: krdma has no operation that trims\n", td->o.name);
	else if (td->o.fsync_blocks || td->o.fdatasync_blocks || td->o.sync_file_range)
		log_err("fio: %s: a WRITE that has ended needs no fsync; see placed=\n",
			td->o.name);
	else if (td->o.nr_files > 1)
		log_err("fio: %s: a job has one export, not %u files\n", td->o.name,
			td->o.nr_files);
	else
		return false;
	return true;
}

/* In fio's first process: how long is the export? */
static int krdma_setup(struct thread_data *td)
{
	struct krdma_region region;
	struct krdma *krdma = NULL;

	if (options_are_wrong(td) || open_export(td, &krdma, &region)) {
		krdma_free(krdma);
		return 1;
	}
	krdma_free(krdma);
	if (!td->files_index) {
		add_file(td, "export", 0, 0);
		td->o.nr_files = 1;
		td->o.open_files++;
	}
	td->files[0]->real_file_size = region.length;
	return 0;
}

static void krdma_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	/* Ends what is under way, and the registration. */
	krdma_free(job->krdma);
	free(job->ops);
	free(job->io_us);
	free(job->completions);
	free(job);
	td->io_ops_data = NULL;
}

static int krdma_init(struct thread_data *td)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct job *job = calloc(1, sizeof(*job));

	td->io_ops_data = job;
	if (!job)
		return 1;
	job->depth = td->o.iodepth;
	job->ops = calloc(job->depth, sizeof(*job->ops));
	job->io_us = calloc(job->depth, sizeof(struct io_u *));
	job->completions = calloc(job->depth, sizeof(*job->completions));
	if (!job->ops || !job->io_us || !job->completions) {
		log_err("fio: %s: out of memory\n", td->o.name);
		return 1;
	}
	if (open_export(td, &job->krdma, &job->region))
		return 1;
	if (krdma_query(job->krdma, &query))
		return complain(td);
	if (job->depth > query.ops_max) {
		log_err("fio: %s: iodepth=%u, the module takes %u\n", td->o.name, job->depth,
			query.ops_max);
		return 1;
	}
	return 0;
}

/* fio has made its buffers, of whatever kind iomem= says. */
static int krdma_post_init(struct thread_data *td)
{
	const struct options *o = td->eo;
	struct job *job = td->io_ops_data;
	const uint64_t bytes = td_max_bs(td);
	char *first = NULL, *last = NULL;
	struct io_u *io_u;
	int i;

	if (!o->registered)
		return 0;
	io_u_qiter(&td->io_u_all, io_u, i)
	{
		if (!first || (char *)io_u->buf < first)
			first = io_u->buf;
		if (!last || (char *)io_u->buf > last)
			last = io_u->buf;
	}
	if (!first)
		return 0;
	job->base = first;
	job->length = (uint64_t)(last - first) + bytes;
	if (krdma_register_buffer(job->krdma, first, job->length, KRDMA_BUFFER_WRITABLE,
				  &job->buffer))
		return complain(td);
	return 0;
}

/* ---- Operations ---- */

static void make_op(const struct thread_data *td, const struct io_u *io_u, struct krdma_op *op)
{
	const struct options *o = td->eo;
	const struct job *job = td->io_ops_data;
	char *where = io_u->xfer_buf;

	if (io_u->ddir == DDIR_READ)
		krdma_op_read(op, job->region.id, io_u->offset, where, io_u->xfer_buflen);
	else
		krdma_op_write(op, job->region.id, io_u->offset, where, io_u->xfer_buflen);
	if (job->buffer && where >= job->base && io_u->xfer_buflen <= job->length &&
	    (uint64_t)(where - job->base) <= job->length - io_u->xfer_buflen)
		krdma_op_buffer(op, job->buffer, (uint64_t)(where - job->base));
	if (o->placed && io_u->ddir == DDIR_WRITE)
		krdma_op_placed(op);
	op->timeout_ns = (uint64_t)o->timeout_s * 1000000000;
	op->user_data = (uintptr_t)io_u;
}

/* One operation is started and awaited in one call, as a program would do. */
static enum fio_q_status do_one(struct thread_data *td, struct io_u *io_u)
{
	const struct job *job = td->io_ops_data;
	int rc;

	if (fio_fill_issue_time(td))
		fio_gettime(&io_u->issue_time, NULL);
	io_u_mark_submit(td, 1);
	rc = krdma_submit(job->krdma, job->ops, job->completions, 1);
	io_u_mark_complete(td, 1);
	if (rc)
		io_u->error = (unsigned int)-(rc < 0 ? rc : job->completions[0].status);
	return FIO_Q_COMPLETED;
}

static enum fio_q_status krdma_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;

	fio_ro_check(td, io_u);
	if (io_u->ddir != DDIR_READ && io_u->ddir != DDIR_WRITE) {
		io_u->error = EOPNOTSUPP;
		return FIO_Q_COMPLETED;
	}
	if (job->queued == job->depth)
		return FIO_Q_BUSY;
	make_op(td, io_u, &job->ops[job->queued]);
	if (job->depth == 1)
		return do_one(td, io_u);
	job->io_us[job->queued++] = io_u;
	return FIO_Q_QUEUED;
}

static void tell_issued(struct thread_data *td, struct io_u **io_us, unsigned int count)
{
	struct timespec now;
	unsigned int i;

	io_u_mark_submit(td, count);
	if (!fio_fill_issue_time(td))
		return;
	fio_gettime(&now, NULL);
	for (i = 0; i < count; i++) {
		io_us[i]->issue_time = now;
		io_u_queued(td, io_us[i]);
	}
	if (td->o.read_iolog_file)
		td->last_issue = now;
}

static int krdma_commit(struct thread_data *td)
{
	struct job *job = td->io_ops_data;
	unsigned int done = 0;
	int rc = 0;

	while (done < job->queued) {
		unsigned int count = job->queued - done;

		if (count > KRDMA_SUBMIT_MAX)
			count = KRDMA_SUBMIT_MAX;
		rc = krdma_submit_async(job->krdma, &job->ops[done], count);
		if (rc == -EINTR)
			continue;
		if (rc < 0) {
			complain(td);
			break;
		}
		tell_issued(td, &job->io_us[done], (unsigned int)rc);
		done += (unsigned int)rc;
	}
	memmove(job->ops, &job->ops[done], (job->queued - done) * sizeof(*job->ops));
	memmove(job->io_us, &job->io_us[done], (job->queued - done) * sizeof(struct io_u *));
	job->queued -= done;
	return rc < 0 ? rc : 0;
}

/* Return: 1 if a completion is there, 0 if the time is over, or a negative errno. */
static int wait_some(const struct job *job, const struct timespec *t)
{
	struct pollfd pollfd = { .fd = krdma_fd(job->krdma), .events = POLLIN };
	const int rc = ppoll(&pollfd, 1, t, NULL);

	return rc < 0 ? -errno : rc;
}

static int krdma_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			   const struct timespec *t)
{
	static const struct timespec none = { 0 };
	struct job *job = td->io_ops_data;
	unsigned int count = 0;
	int rc;

	while (count < max) {
		/* The file blocks: ask first where fio does not want to wait, or not for ever. */
		if (count >= min || t) {
			rc = wait_some(job, count >= min ? &none : t);
			if (!rc)
				break;
		} else {
			rc = 1;
		}
		if (rc > 0)
			rc = krdma_reap(job->krdma, &job->completions[count], max - count);
		if (rc == -EINTR)
			continue;
		if (rc < 0) {
			complain(td);
			return rc;
		}
		if (!rc)
			break;
		count += (unsigned int)rc;
	}
	return (int)count;
}

static struct io_u *krdma_event(struct thread_data *td, int event)
{
	const struct job *job = td->io_ops_data;
	const struct krdma_completion *completion = &job->completions[event];
	struct io_u *io_u = (struct io_u *)(uintptr_t)completion->user_data;

	io_u->error = (unsigned int)-completion->status;
	return io_u;
}

/* Of this thread, which has just been told of the failure. */
static char *krdma_errdetails(struct io_u *io_u)
{
	return strdup(krdma_error());
}

/* There are no files. */
static int krdma_open_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "krdma",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_ASYNCIO_SETS_ISSUE_TIME,
	.setup = krdma_setup,
	.init = krdma_init,
	.post_init = krdma_post_init,
	.queue = krdma_queue,
	.commit = krdma_commit,
	.getevents = krdma_getevents,
	.event = krdma_event,
	.errdetails = krdma_errdetails,
	.cleanup = krdma_cleanup,
	.open_file = krdma_open_file,
	.close_file = krdma_open_file,
	.invalidate = krdma_open_file,
	.options = options,
	.option_struct_size = sizeof(struct options),
};
