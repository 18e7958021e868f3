// SPDX-License-Identifier: GPL-2.0
/* Processes with the user ids: how they begin and end, and what they report. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

struct note {
	int rc;
	long value;
	char text[240]; /* the sentence, if it failed */
};

static int job_in, job_out;
/* Of the jobs that run: one that inherits it would keep another from its end. */
static int ends[4] = { -1, -1, -1, -1 };

/* In the job: what came of a step. @fd: of the sentence, or -1. */
void tell(int fd, int rc, long value)
{
	struct note note = { .rc = rc, .value = value };

	if (rc && fd >= 0)
		snprintf(note.text, sizeof(note.text), "%s", kst_last_error(fd, NULL));
	if (write(job_out, &note, sizeof(note)) != sizeof(note))
		_exit(1);
}

/* In the job: until this is wanted; at the test's end it is, too. */
void await(void)
{
	char c;

	if (read(job_in, &c, 1) < 0)
		_exit(1);
}

bool wanted(void)
{
	struct pollfd p = { .fd = job_in, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Operations that may last long count in RLIMIT_MEMLOCK, too: not here, beside what is registered. */
#define BESIDE (64UL << 20)

void limit_locked(bool operations)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		if (!operations && limit.rlim_max != RLIM_INFINITY && limit.rlim_max > BESIDE)
			limit.rlim_cur -= BESIDE;
		if (!setrlimit(RLIMIT_MEMLOCK, &limit))
			return;
	}
	kst_bail("RLIMIT_MEMLOCK: %s", strerror(errno));
}

bool become(uid_t uid, rlim_t locked)
{
	struct rlimit limit = { locked, locked == RLIM_INFINITY ? locked : locked + BESIDE };
	gid_t group = GROUP;

	return !setrlimit(RLIMIT_MEMLOCK, &limit) && !setgroups(1, &group) &&
	       !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

struct job start(uid_t uid, rlim_t locked, void (*work)(void))
{
	int to[2], from[2];
	struct job job;
	size_t i;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		kst_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	job.pid = fork();
	if (!job.pid) {
		job_in = to[0];
		job_out = from[1];
		close(to[1]);
		close(from[0]);
		for (i = 0; i < KST_ARRAY_SIZE(ends); i++)
			close(ends[i]);
		/* A job that hangs ends with the test. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (uid && !become(uid, locked))
			kst_bail("can't be user %u: %s", uid, strerror(errno));
		work();
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	job.in = to[1];
	job.out = from[0];
	for (i = 0; i < KST_ARRAY_SIZE(ends) - 1 && ends[i] >= 0;)
		i++;
	ends[i] = job.in;
	return job;
}

static const struct note *hear(struct job *job)
{
	static struct note note;

	if (read(job->out, &note, sizeof(note)) != sizeof(note))
		note = (struct note){ .rc = -ESRCH, .text = "the process has ended" };
	return &note;
}

/* A step that has to succeed, and to come to something (-1: whatever it is). */
void hear_good(struct job *job, long value, const char *what)
{
	const struct note *note = hear(job);

	if (!kst_ok(!note->rc && (value < 0 || note->value == value), "%s", what))
		kst_diag("%s, value %ld, expected %ld: %s", strerror(-note->rc), note->value, value,
			 note->text);
}

/* One that has to fail, with @word in its sentence. Its value. */
long hear_bad(struct job *job, int rc, const char *word, const char *what)
{
	const struct note *note = hear(job);

	if (!kst_ok(note->rc == rc && strstr(note->text, word), "%s", what))
		kst_diag("%s instead of %s, value %ld: %s", strerror(-note->rc), strerror(-rc),
			 note->value, note->text);
	return note->value;
}

void go_on(struct job *job)
{
	if (write(job->in, "", 1) != 1)
		kst_diag("a process has ended too early");
}

void finish(struct job *job, const char *what)
{
	int status;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(ends); i++)
		if (ends[i] == job->in)
			ends[i] = -1;
	close(job->in);
	waitpid(job->pid, &status, 0);
	close(job->out);
	kst_ok(WIFEXITED(status) && !WEXITSTATUS(status), "%s", what);
}

long peer_number(const char *verb, uid_t uid)
{
	const char *reply = kst_peer("%s %u", verb, uid);

	return reply ? atol(reply) : -1;
}

static bool no_sessions(void *arg)
{
	static const uid_t users[] = { 0, ANN, BOB };
	size_t i;

	(void)arg;
	for (i = 0; i < KST_ARRAY_SIZE(users); i++)
		if (peer_number("sessions", users[i]))
			return false;
	return !kst_count(KRDMA_LIST_SESSIONS, NULL, NULL);
}

/* Where sessions are counted none may linger. Return: what the tests begin with. */
struct kst_state alone(void)
{
	if (!kst_peer("relisten") || !kst_wait(no_sessions, NULL))
		kst_bail("sessions do not end");
	return kst_now();
}
