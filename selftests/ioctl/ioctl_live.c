// SPDX-License-Identifier: GPL-2.0
/*
 * What happens while a transfer runs: memory goes, processes fork and die, ids
 * are destroyed, exports are taken back. What is promised for each is in
 * Documentation/uapi.rst, "Memory" and "KRDMA_IOC_DESTROY".
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

#define RW (PROT_READ | PROT_WRITE)
/* More than is posted at a time, so that a part waits while another moves. */
#define BYTES (16UL << 20)

static int fd;
static __u32 session, region;

static int pipes[2][2];

KST_FIXTURE(live, fd)
FIXTURE_SETUP(live)
{
	fd = kst_setup(true);
	ASSERT_NOT(kst_setup_region(fd, "live", BYTES, &session, &region, NULL) || pipe(pipes[0]) ||
			   pipe(pipes[1]),
		   "no region of node B: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

/* ---- a transfer that runs ---- */

struct job {
	pthread_t thread;
	int file;
	struct krdma_op op;
	struct krdma_completion comp;
	struct krdma_ioc_last_error why;
	int rc;
	volatile bool over;
};

static void *job_run(void *arg)
{
	struct job *job = arg;

	job->rc = kst_submit(job->file, &job->op, &job->comp, 1, NULL);
	/* Asked by the thread that failed. */
	job->why.size = sizeof(job->why);
	if ((job->rc || job->comp.status) && kst_call(job->file, KRDMA_IOC_LAST_ERROR, &job->why))
		job->why.error = 0;
	job->over = true;
	return NULL;
}

/* Its entry in the list, with some of it on the wire or there, and some to come. */
static bool job_entry(const void *entry, void *arg)
{
	const struct krdma_transfer_info *t = entry;
	const __u64 *user_data = arg;

	return t->user_data == *user_data && t->posted && t->posted < t->length;
}

static bool job_running(struct job *job)
{
	return kst_count(KRDMA_LIST_TRANSFERS, job_entry, &job->op.user_data) == 1;
}

static bool job_seen(void *arg)
{
	struct job *job = arg;

	return job->over || job_running(job);
}

static int job_end(struct job *job)
{
	pthread_join(job->thread, NULL);
	return job->rc ? job->rc : job->comp.status;
}

/*
 * Starts a transfer and returns when it is under way. On a machine that is busy
 * with others it may be done before that is seen: then once more.
 */
static bool job_start(struct job *job, int file, int opcode, __u32 reg, void *mem, __u32 buffer)
{
	static __u64 number = 1000;
	int tries;

	for (tries = 0; tries < 5; tries++) {
		memset(job, 0, sizeof(*job));
		job->file = file;
		job->op = (struct krdma_op){
			.opcode = opcode,
			.flags = buffer ? KRDMA_OPF_BUFFER : 0,
			.region = reg,
			.user_data = ++number,
			.length = BYTES,
			.addr = (uintptr_t)mem,
			.buffer = buffer,
		};
		job->comp.status = -ENODATA;
		pthread_create(&job->thread, NULL, job_run, job);
		if (kst_wait(job_seen, job) && !job->over)
			return true;
		job_end(job);
	}
	kst_diag("no transfer was seen under way: %s", strerror(-job->rc));
	return false;
}

/* All of it moved? */
static bool job_done(struct job *job)
{
	int rc = job_end(job);

	if (!rc && job->comp.result == BYTES)
		return true;
	kst_diag("%s after %llu bytes: %s", strerror(-rc), (unsigned long long)job->comp.result,
		 job->why.text);
	return false;
}

/* It ended with @want, not all of it moved, what is said to have moved is there. */
static bool job_failed(struct job *job, int want, const unsigned char *mem, const char *word)
{
	int rc = job_end(job);

	if (rc == want && job->comp.result < BYTES &&
	    kst_check(mem, 0, job->comp.result, KST_BASE) < 0 && job->why.error == -want &&
	    strstr(job->why.text, word))
		return true;
	kst_diag("%s after %llu bytes: '%s'", strerror(-rc), (unsigned long long)job->comp.result,
		 job->why.text);
	return false;
}

static unsigned char *fresh(int byte)
{
	unsigned char *mem = kst_map(BYTES, RW, MAP_PRIVATE);

	memset(mem, byte, BYTES);
	return mem;
}

/* ---- memory that goes ---- */

TEST_F(live, unmap)
{
	unsigned char *mem = fresh(0x11), *other;
	struct job job;
	bool good;

	good = job_start(&job, fd, KRDMA_OP_READ, region, mem, 0);
	munmap(mem, BYTES);
	EXPECT_THAT(good && job_done(&job), "memory unmapped under a READ: it ends well");
	EXPECT_SAME(&self->before, "and nothing stays pinned");

	mem = fresh(0);
	kst_fill(mem, 0, BYTES, 2);
	good = job_start(&job, fd, KRDMA_OP_WRITE, region, mem, 0);
	munmap(mem, BYTES / 2);
	madvise(mem + BYTES / 2, BYTES / 2, MADV_DONTNEED);
	good = good && job_done(&job);
	EXPECT_THAT(good && kst_peer_has("live", 0, BYTES, 2),
		    "memory dropped under a WRITE: what was there is written");
	EXPECT_THAT(kst_all(mem + BYTES / 2, BYTES / 2, 0), "and the process sees it dropped");
	munmap(mem + BYTES / 2, BYTES / 2);
	EXPECT_SAME(&self->before, "nothing stays pinned there either");

	mem = fresh(0x11);
	good = job_start(&job, fd, KRDMA_OP_READ, region, mem, 0);
	other = mremap(mem, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		       kst_map(BYTES, PROT_NONE, MAP_PRIVATE));
	good = good && job_done(&job);
	EXPECT_THAT(good && other != MAP_FAILED && kst_check(other, 0, BYTES, 2) < 0,
		    "memory moved under a READ: the bytes arrive where it is now");
	memset(other, 0x11, BYTES);
	good = job_start(&job, fd, KRDMA_OP_READ, region, other, 0);
	mprotect(other, BYTES, PROT_NONE);
	good = good && job_done(&job);
	mprotect(other, BYTES, RW);
	EXPECT_THAT(good && kst_check(other, 0, BYTES, 2) < 0,
		    "memory without access under a READ: the bytes arrive");
	munmap(other, BYTES);
	EXPECT_SAME(&self->before, "nothing stays pinned of these");
}

/* ---- fork ---- */

static void tell(int i)
{
	char c = 0;

	if (write(pipes[i][1], &c, 1) != 1)
		_exit(99);
}

static void hear(int i)
{
	char c;

	if (read(pipes[i][0], &c, 1) != 1)
		_exit(98);
}

static int reap(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/*
 * A fork copies each page that is pinned, and the transfer has to run still when
 * the child has looked: the child gets what is moved last, and a little of each page
 * is looked at.
 */
#define TAIL   (2UL << 20)
#define SAMPLE 64

/* Its memory is a copy of its own: it stays what it was at the fork. */
static int child_watches(const unsigned char *mem)
{
	static unsigned char was[TAIL / KST_PAGE][SAMPLE];
	size_t i;

	for (i = 0; i < TAIL / KST_PAGE; i++)
		memcpy(was[i], mem + i * KST_PAGE, SAMPLE);
	tell(1);
	hear(0);
	for (i = 0; i < TAIL / KST_PAGE; i++)
		if (memcmp(was[i], mem + i * KST_PAGE, SAMPLE))
			return 1;
	return 0;
}

static int child_scribbles(unsigned char *mem)
{
	size_t i;

	for (i = 0; i < TAIL; i += KST_PAGE)
		memset(mem + i, 0x77, SAMPLE);
	tell(1);
	hear(0);
	for (i = 0; i < TAIL; i += KST_PAGE)
		if (!kst_all(mem + i, SAMPLE, 0x77))
			return 1;
	return 0;
}

/* Forks while @opcode runs. Return: the child; 0 if it never ran at the fork. */
static pid_t fork_under(struct job *job, int opcode, unsigned char *mem, __u32 buffer)
{
	int tries;
	pid_t pid;

	for (tries = 0; tries < 5; tries++) {
		if (!job_start(job, fd, opcode, region, buffer ? NULL : mem, buffer))
			return 0;
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(opcode == KRDMA_OP_READ ? child_watches(mem + BYTES - TAIL) :
							child_scribbles(mem + BYTES - TAIL));
		hear(1);
		if (!job->over)
			return pid;
		/* Done meanwhile, so that it says nothing: let the child go. */
		tell(0);
		reap(pid);
		job_end(job);
	}
	kst_diag("each transfer was done before the fork");
	return 0;
}

static void fork_read(struct __test_metadata *_metadata, unsigned char *mem, __u32 id,
		      const char *how)
{
	struct job job;
	pid_t pid;
	bool good;
	int rc;

	pid = fork_under(&job, KRDMA_OP_READ, mem, id);
	good = pid && job_done(&job);
	EXPECT_THAT(good && kst_check(mem, 0, BYTES, KST_BASE) < 0,
		    "fork under a READ to %s: the parent gets the bytes", how);
	if (!pid)
		return;
	/* What the parent writes and reads next must not show in the child either. */
	memset(mem, 0x22, BYTES);
	good = !kst_move(fd, KRDMA_OP_READ, region, 0, mem, BYTES, NULL);
	tell(0);
	rc = reap(pid);
	EXPECT_THAT(good && !rc,
		    "and the child's memory stays what it was at the fork: the child ended with %d",
		    rc);
}

static void fork_write(struct __test_metadata *_metadata, unsigned char *mem, __u32 id,
		       const char *how)
{
	struct job job;
	pid_t pid;

	kst_fill(mem, 0, BYTES, 3);
	pid = fork_under(&job, KRDMA_OP_WRITE, mem, id);
	EXPECT_THAT(pid && job_done(&job) && kst_peer_has("live", 0, BYTES, 3),
		    "fork under a WRITE from %s: the parent's bytes are written", how);
	if (!pid)
		return;
	tell(0);
	EXPECT_THAT(!reap(pid), "whatever the child does to its copy");
}

static void fork_both(struct __test_metadata *_metadata, bool by_buffer)
{
	const char *how = by_buffer ? "a buffer" : "memory";
	unsigned char *mem = fresh(0x11);
	__u32 id = 0;

	ASSERT_NOT(madvise(mem, BYTES - TAIL, MADV_DONTFORK), "MADV_DONTFORK: %s", strerror(errno));
	ASSERT_NOT(by_buffer && kst_buffer(fd, mem, BYTES, KRDMA_BUFFER_WRITABLE, &id),
		   "BUFFER: %s", kst_last_error(fd, NULL));
	fork_read(_metadata, mem, id, how);
	fork_write(_metadata, mem, id, how);
	if (id)
		kst_destroy(fd, id);
	munmap(mem, BYTES);
}

TEST_F(live, fork)
{
	fork_both(_metadata, false);
}

TEST_F(live, fork_buffer)
{
	fork_both(_metadata, true);
}

/* After the fork: the buffer is the parent's memory, in both. */
static int child_uses(unsigned char *mem, __u32 id)
{
	struct krdma_op op = {
		.opcode = KRDMA_OP_READ,
		.flags = KRDMA_OPF_BUFFER,
		.region = region,
		.length = KST_PAGE,
		.addr = 2 * KST_PAGE,
		.buffer = id,
	};
	struct krdma_completion comp = { .status = -ENODATA };

	if (kst_submit(fd, &op, &comp, 1, NULL) || comp.status)
		return 1;
	if (!kst_all(mem, 4 * KST_PAGE, 0x11))
		return 2;
	/* Its own memory is used where that is given. */
	if (kst_move(fd, KRDMA_OP_READ, region, 0, mem, KST_PAGE, NULL))
		return 3;
	return kst_check(mem, 0, KST_PAGE, KST_BASE) < 0 ? 0 : 4;
}

TEST_F(live, fork_after)
{
	unsigned char *mem = kst_map(4 * KST_PAGE, RW, MAP_PRIVATE);
	struct krdma_op op = {
		.opcode = KRDMA_OP_WRITE,
		.flags = KRDMA_OPF_BUFFER,
		.region = region,
		.length = KST_PAGE,
	};
	struct krdma_completion comp = { .status = -ENODATA };
	pid_t pid;
	int rc;

	memset(mem, 0x11, 4 * KST_PAGE);
	ASSERT_NOT(kst_buffer(fd, mem, 4 * KST_PAGE, KRDMA_BUFFER_WRITABLE, &op.buffer),
		   "BUFFER: %s", kst_last_error(fd, NULL));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(child_uses(mem, op.buffer));
	rc = reap(pid);
	EXPECT_THAT(
		!rc,
		"a child's READ to a buffer does not show in the child's memory: step %d of child_uses() went wrong",
		rc);
	EXPECT_THAT(kst_check(mem + 2 * KST_PAGE, 0, KST_PAGE, KST_BASE) < 0 &&
			    kst_all(mem, 2 * KST_PAGE, 0x11),
		    "it shows in the parent's, which is what was registered");
	/* What the parent writes after a fork is what a peer gets. */
	kst_fill(mem, 0, KST_PAGE, 4);
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	EXPECT_THAT(!rc && !comp.status && kst_peer_has("live", 0, KST_PAGE, 4),
		    "after a fork a WRITE from the buffer has what the parent wrote since");
	kst_destroy(fd, op.buffer);
	munmap(mem, 4 * KST_PAGE);
}

/* Memory that nobody has written yet: the buffer is not the page of zeros. */
TEST_F(live, untouched)
{
	unsigned char *mem = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	struct krdma_op op = {
		.opcode = KRDMA_OP_WRITE,
		.flags = KRDMA_OPF_BUFFER,
		.region = region,
		.length = KST_PAGE + 1,
	};
	struct krdma_completion comp = { .status = -ENODATA };
	int rc;

	/* Reading maps the page of zeros; the rest is not even mapped. */
	ASSERT_NOT(mem[0], "fresh memory is not zero");
	ASSERT_NOT(kst_buffer(fd, mem, 2 * KST_PAGE, 0, &op.buffer), "BUFFER: %s",
		   kst_last_error(fd, NULL));
	kst_fill(mem, 0, 2 * KST_PAGE, 5);
	rc = kst_submit(fd, &op, &comp, 1, NULL);
	EXPECT_THAT(!rc && !comp.status && kst_peer_has("live", 0, KST_PAGE + 1, 5),
		    "a buffer of untouched memory has what is written to it later");
	kst_destroy(fd, op.buffer);
	munmap(mem, 2 * KST_PAGE);
}

/* ---- memory that somebody has to provide ---- */

/* The last page of its memory is there when a test says so. */
#define PROVIDED_PAGES 64

struct provided {
	pthread_t thread;
	int faults; /* userfaultfd */
	unsigned char *mem, *last;
	struct krdma_op ops[2];
	struct krdma_completion comps[2];
	__u32 n;
	int rc;
};

static void *provided_run(void *arg)
{
	struct provided *p = arg;

	p->rc = kst_submit(fd, p->ops, p->comps, p->n, NULL);
	return NULL;
}

/* False: this kernel has no userfaultfd. */
static bool provided_begin(struct provided *p)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	p->faults = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (p->faults < 0 || ioctl(p->faults, UFFDIO_API, &api))
		return false;
	p->mem = kst_map(PROVIDED_PAGES * KST_PAGE, RW, MAP_PRIVATE);
	p->last = p->mem + (PROVIDED_PAGES - 1) * KST_PAGE;
	memset(p->mem, 1, (PROVIDED_PAGES - 1) * KST_PAGE);
	range.range.start = (uintptr_t)p->last;
	range.range.len = KST_PAGE;
	return !ioctl(p->faults, UFFDIO_REGISTER, &range);
}

/* It is waited for. */
static bool provided_wanted(struct provided *p)
{
	struct pollfd poll_fd = { .fd = p->faults, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&poll_fd, 1, 60000) == 1 && read(p->faults, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT;
}

static void provided_end(struct provided *p)
{
	struct uffdio_zeropage zero = {
		.range.start = (uintptr_t)p->last,
		.range.len = KST_PAGE,
	};

	/* Otherwise the thread would wait for the page for ever. */
	if (ioctl(p->faults, UFFDIO_ZEROPAGE, &zero))
		close(p->faults);
	pthread_join(p->thread, NULL);
}

/* A READ of few seconds: of all; or of all but the last page, and one of that, for @timeout_ns. */
static void provided(struct __test_metadata *_metadata, struct provided *p, __u32 n,
		     __u64 timeout_ns)
{
	const __u64 rest = (PROVIDED_PAGES - 1) * KST_PAGE;
	struct kst_state before = kst_now(), meanwhile;
	bool wanted;

	p->n = n;
	p->ops[0] = kst_op(KRDMA_OP_READ, region, 0, p->mem, n == 1 ? rest + KST_PAGE : rest);
	p->ops[1] = kst_op(KRDMA_OP_READ, region, rest, p->last, KST_PAGE);
	p->ops[0].timeout_ns = 4000000000;
	p->ops[1].timeout_ns = timeout_ns;
	pthread_create(&p->thread, NULL, provided_run, p);
	wanted = provided_wanted(p);
	meanwhile = kst_now();
	provided_end(p);
	EXPECT_THAT(wanted && meanwhile.pins == before.pins &&
			    meanwhile.accounted == before.accounted,
		    "nothing of a call stays pinned while a page is waited for: %ld pins",
		    meanwhile.pins - before.pins);
	EXPECT_THAT(!p->rc && !p->comps[0].status && (n == 1 || !p->comps[1].status) &&
			    kst_check(p->mem, 0, rest + KST_PAGE, KST_BASE) < 0,
		    "when it is provided the bytes arrive: %s", kst_last_error(fd, NULL));
	/* It has to be provided again. */
	madvise(p->last, KST_PAGE, MADV_DONTNEED);
}

/* Many pages that are not there, of one that may pin nothing for long. */
static int child_reads_fresh(void)
{
	const size_t each = 16 * KST_PAGE;
	struct rlimit none = { 0, 0 };
	struct krdma_completion comps[8];
	struct krdma_op ops[8];
	unsigned char *mem = kst_map(sizeof(ops) / sizeof(ops[0]) * each, RW, MAP_PRIVATE);
	int i;

	if (setrlimit(RLIMIT_MEMLOCK, &none) || setresuid(65534, 65534, 65534))
		return 1;
	for (i = 0; i < 8; i++) {
		ops[i] = kst_op(KRDMA_OP_READ, region, 0, mem + i * each, each);
		ops[i].timeout_ns = 0;
	}
	if (kst_submit(fd, ops, comps, 8, NULL))
		return 2;
	for (i = 0; i < 8; i++)
		if (comps[i].status || kst_check(mem + i * each, 0, each, KST_BASE) >= 0) {
			kst_diag("READ %d: %s: %s", i, strerror(-comps[i].status),
				 kst_last_error(fd, NULL));
			return 3 + i;
		}
	return 0;
}

TEST_F(live, fresh)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(child_reads_fresh());
	EXPECT_IS(0, reap(pid),
		  "READs of the default timeout into fresh memory, with no RLIMIT_MEMLOCK: step");
}

TEST_F(live, provided)
{
	struct provided p;

	if (!provided_begin(&p))
		SKIP(return, "no userfaultfd");
	provided(_metadata, &p, 1, 0);
	provided(_metadata, &p, 2, 4000000000);
	provided(_metadata, &p, 2, 0);
	close(p.faults);
	munmap(p.mem, PROVIDED_PAGES * KST_PAGE);
}

/* ---- ids and files that go ---- */

TEST_F(live, destroy)
{
	unsigned char *mem = fresh(0x11);
	struct job job;
	__u32 id, own, reg;
	bool good;

	ASSERT_NOT(kst_open_region(fd, session, "live", KRDMA_RIGHT_READ, &reg, NULL), "OPEN: %s",
		   kst_last_error(fd, NULL));
	good = job_start(&job, fd, KRDMA_OP_READ, reg, mem, 0);
	kst_destroy(fd, reg);
	EXPECT_THAT(good && job_failed(&job, -ECANCELED, mem, "'live'"),
		    "the region destroyed under a READ: ECANCELED");
	EXPECT_SAME(&self->before, "and nothing is left of it");

	ASSERT_NOT(kst_buffer(fd, mem, BYTES, KRDMA_BUFFER_WRITABLE, &id), "BUFFER: %s",
		   kst_last_error(fd, NULL));
	good = job_start(&job, fd, KRDMA_OP_READ, region, NULL, id);
	kst_destroy(fd, id);
	good = good && kst_vmpin() == BYTES / 1024;
	good = job_done(&job) && good;
	EXPECT_THAT(good && kst_check(mem, 0, BYTES, KST_BASE) < 0,
		    "the buffer destroyed under a READ: it is pinned until that has ended");
	EXPECT_SAME(&self->before, "and not longer");

	ASSERT_NOT(kst_connect(fd, KRDMA_CONNECT_PRIVATE, &own) ||
			   kst_open_region(fd, own, "live", 0, &reg, NULL),
		   "CONNECT: %s", kst_last_error(fd, NULL));
	good = job_start(&job, fd, KRDMA_OP_READ, reg, mem, 0);
	kst_destroy(fd, own);
	good = job_done(&job) && good;
	EXPECT_THAT(good && !kst_move(fd, KRDMA_OP_READ, reg, 0, mem, 100, NULL),
		    "the session destroyed under a READ: its regions and operations go on");
	kst_destroy(fd, reg);
	EXPECT_SAME(&self->before, "until the last region is destroyed, too");
	munmap(mem, BYTES);
}

TEST_F(live, close)
{
	unsigned char *mem = fresh(0x11);
	int file = kst_open();
	__u32 own, reg;
	struct job job;
	bool good;

	ASSERT_NOT(kst_connect(file, 0, &own) || kst_open_region(file, own, "live", 0, &reg, NULL),
		   "CONNECT: %s", kst_last_error(file, NULL));
	good = job_start(&job, file, KRDMA_OP_READ, reg, mem, 0);
	close(file);
	good = job_done(&job) && good;
	EXPECT_THAT(good && kst_check(mem, 0, BYTES, KST_BASE) < 0,
		    "the file closed under a READ: it lives as long as the call");
	munmap(mem, BYTES);
}

/* A process that dies in its transfer. */
static void killed(struct __test_metadata *_metadata, int sig)
{
	unsigned char *mem;
	struct job job;
	pid_t pid;
	int rc;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		mem = fresh(0x11);
		if (!job_start(&job, fd, KRDMA_OP_READ, region, mem, 0))
			kst_diag("there is nothing to be killed in");
		tell(1);
		pause();
	}
	hear(1);
	kill(pid, sig);
	rc = reap(pid);
	EXPECT_THAT(rc == 1000 + sig, "a process is killed by signal %d in a transfer", sig);
}

TEST_F(live, kill)
{
	killed(_metadata, SIGKILL);
}

TEST_F(live, term)
{
	killed(_metadata, SIGTERM);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

TEST_F(live, signals)
{
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	unsigned char *mem = fresh(0x11);
	int rc;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	rc = kst_move(fd, KRDMA_OP_READ, region, 0, mem, BYTES, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	EXPECT_THAT(!rc && alarms && kst_check(mem, 0, BYTES, KST_BASE) < 0,
		    "signals that have a handler do not end an operation");
	munmap(mem, BYTES);
}

/* ---- the export taken back ---- */

static bool stale(const void *entry, void *arg)
{
	const struct krdma_region_info *r = entry;

	(void)arg;
	return !strcmp(r->name, "live-gone") && r->flags & KRDMA_REGION_STALE;
}

static bool peer_pins_are(void *arg)
{
	const char *pins = kst_peer("pins");

	return pins && atol(pins) == *(long *)arg;
}

TEST_F(live, revoke)
{
	unsigned char *mem = fresh(0x11);
	const char *reply = kst_peer("pins");
	long pins = reply ? atol(reply) : -1;
	struct job job;
	__u32 reg, id;
	bool good;
	int rc;

	ASSERT_NOT(!kst_peer("export live-gone mem %lu 3 %d", BYTES, KST_BASE) ||
			   kst_open_region(fd, session, "live-gone", 0, &reg, NULL),
		   "live-gone: %s", kst_last_error(fd, NULL));
	good = job_start(&job, fd, KRDMA_OP_READ, reg, mem, 0);
	kst_peer("unexport live-gone");
	EXPECT_THAT(good && job_failed(&job, -ESTALE, mem, "'live-gone'"),
		    "the export taken back under a READ: ESTALE");
	rc = kst_move(fd, KRDMA_OP_READ, reg, 0, mem, 100, NULL);
	EXPECT_THAT(rc == -ESTALE && kst_sentence(fd, -ESTALE, "'live-gone'"),
		    "so are operations after it");
	EXPECT_IS(1, kst_count(KRDMA_LIST_REGIONS, stale, NULL),
		  "LIST shows that the region is stale");
	EXPECT_FAILS(fd, kst_open_region(fd, session, "live-gone", 0, &id, NULL), -ENOENT,
		     "'live-gone'", "it can't be opened again");
	EXPECT_THAT(kst_wait(peer_pins_are, &pins), "node B has nothing pinned for it any more");
	EXPECT_IS(0, kst_destroy(fd, reg), "a stale region can be destroyed");
	EXPECT_IS(0, kst_move(fd, KRDMA_OP_READ, region, 0, mem, 100, NULL),
		  "other regions take no harm");
	munmap(mem, BYTES);
}

/* ---- many at a time ---- */

#define WORKERS 3
#define ROUNDS  60
#define PIECE   5001UL

struct worker {
	pthread_t thread;
	unsigned int number;
	unsigned int wrong;
};

/* Writes its part of the region and reads it back, each time with other bytes. */
static void *work(void *arg)
{
	struct worker *w = arg;
	__u64 at = w->number * PIECE;
	unsigned char *mem = kst_map(2 * KST_PAGE, RW, MAP_PRIVATE);
	unsigned int i, seed;

	for (i = 0; i < ROUNDS; i++) {
		seed = 1000 * (w->number + 1) + i;
		kst_fill(mem + 3, at, PIECE, seed);
		if (kst_move(fd, KRDMA_OP_WRITE, region, at, mem + 3, PIECE, NULL))
			w->wrong++;
		memset(mem, 0, 2 * KST_PAGE);
		if (kst_move(fd, KRDMA_OP_READ, region, at, mem + 77, PIECE, NULL) ||
		    kst_check(mem + 77, at, PIECE, seed) >= 0)
			w->wrong++;
	}
	munmap(mem, 2 * KST_PAGE);
	return NULL;
}

TEST_F(live, threads)
{
	struct worker w[WORKERS];
	unsigned int i, wrong = 0;
	bool good = true;

	for (i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ .number = i };
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (i = 0; i < WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		wrong += w[i].wrong;
		good &= kst_peer_has("live", i * PIECE, PIECE, 1000 * (i + 1) + ROUNDS - 1);
	}
	EXPECT_THAT(good && !wrong, "%d threads on one file, each with its own bytes", WORKERS);
	EXPECT_THAT(kst_peer_has("live", WORKERS * PIECE, KST_PAGE, KST_BASE), "and no others");
}

KST_HARNESS_MAIN(2)
