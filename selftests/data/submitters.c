// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that share a session, each with a file, a region and a buffer of its own. The test
 * turns.sh runs it, and selftests/tools/bench/scale.
 *
 * usage: submitters HOST EXPORT read|write BYTES SECONDS|COUNTx CPU:DEPTH...
 *
 * A process for each CPU:DEPTH, on that processor, keeps so many operations of so many bytes under
 * way. All are under way before the time begins, and after it has ended; it ends after SECONDS, or
 * when the first process has ended COUNT operations. Prints for each process how many it has ended
 * meanwhile, and then the seconds.
 */
#include <err.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <krdma/krdma.h>

#define PROCESSES_MAX 256

/* Each on a cache line of its own. */
struct counter {
	_Alignas(64) atomic_ulong ended;
};

static struct {
	atomic_int ready;
	_Alignas(64) atomic_bool stop;
	struct counter counter[PROCESSES_MAX];
} * shared;

static const char *host, *export;
static bool reads;
static unsigned long bytes;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(double seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "processor %d", cpu);
}

/* What has ended begins again. */
static void move(struct krdma *krdma, struct krdma_op *ops, unsigned int depth, atomic_ulong *ended)
{
	struct krdma_completion done[KRDMA_SUBMIT_MAX];
	struct krdma_op again[KRDMA_SUBMIT_MAX];
	unsigned int n = depth, under_way = 0;
	int i, got;

	memcpy(again, ops, depth * sizeof(*ops));
	while (n || under_way) {
		if (n && krdma_submit_async(krdma, again, n) != (int)n)
			errx(1, "%s", krdma_error());
		under_way += n;
		got = krdma_reap(krdma, done, depth);
		if (got < 0)
			errx(1, "%s", krdma_error());
		under_way -= (unsigned int)got;
		for (i = 0, n = 0; i < got; i++) {
			if (done[i].status)
				errx(1, "operation %llu: %s", (unsigned long long)done[i].user_data,
				     strerror(-done[i].status));
			if (!atomic_load_explicit(&shared->stop, memory_order_relaxed))
				again[n++] = ops[done[i].user_data];
		}
		atomic_fetch_add_explicit(ended, (unsigned long)got, memory_order_relaxed);
	}
}

static void submitter(unsigned int index, unsigned int depth, int begin)
{
	static struct krdma_op ops[KRDMA_SUBMIT_MAX];
	const size_t size = (depth * bytes + 4095) / 4096 * 4096;
	struct krdma_sockaddr addr;
	struct krdma_region region;
	struct krdma *krdma;
	uint32_t session, buffer;
	unsigned int i;
	char byte;
	char *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	memset(memory, 1, size);
	if (krdma_resolve(host, &addr, 1) < 1 || krdma_new(&krdma) ||
	    krdma_connect_flags(krdma, &addr, 0, 0, &session) ||
	    krdma_open_region(krdma, session, export, 0, 0, &region) ||
	    krdma_register_buffer(krdma, memory, size, KRDMA_BUFFER_WRITABLE, &buffer))
		errx(1, "%s", krdma_error());
	for (i = 0; i < depth; i++)
		ops[i] = (struct krdma_op){
			.opcode = reads ? KRDMA_OP_READ : KRDMA_OP_WRITE,
			.flags = KRDMA_OPF_BUFFER,
			.region = region.id,
			.buffer = buffer,
			.user_data = i,
			.addr = i * bytes,
			.offset = (index * depth + i) % (region.length / bytes) * bytes,
			.length = bytes,
		};
	atomic_fetch_add(&shared->ready, 1);
	/* Ends when the others are ready, too. */
	if (read(begin, &byte, 1) < 0)
		err(1, "read");
	move(krdma, ops, depth, &shared->counter[index].ended);
	krdma_free(krdma);
	exit(0);
}

/* Until something may have happened. */
static void pass(void)
{
	if (waitpid(-1, NULL, WNOHANG) > 0)
		errx(1, "a process has failed");
	nap(0.01);
}

static void look(unsigned long *ended, int n)
{
	int i;

	for (i = 0; i < n; i++)
		ended[i] = atomic_load(&shared->counter[i].ended);
}

int main(int argc, char **argv)
{
	static unsigned long before[PROCESSES_MAX], after[PROCESSES_MAX];
	int begin[2], i, status, failed = 0, n = argc - 6;
	unsigned long count = 0;
	double seconds, began, ended;
	char *end;

	if (n < 1 || n > PROCESSES_MAX)
		errx(2,
		     "usage: submitters HOST EXPORT read|write BYTES SECONDS|COUNTx CPU:DEPTH...");
	host = argv[1];
	export = argv[2];
	reads = argv[3][0] == 'r';
	bytes = strtoul(argv[4], NULL, 0);
	seconds = strtod(argv[5], &end);
	if (*end == 'x')
		count = (unsigned long)seconds;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (!bytes || shared == MAP_FAILED || pipe(begin))
		err(1, "setting up");
	for (i = 0; i < n; i++) {
		unsigned int depth;
		int cpu;

		if (sscanf(argv[6 + i], "%d:%u", &cpu, &depth) != 2 || !depth ||
		    depth > KRDMA_SUBMIT_MAX)
			errx(2, "'%s' is no CPU:DEPTH", argv[6 + i]);
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			close(begin[1]);
			stay_on(cpu);
			submitter((unsigned int)i, depth, begin[0]);
		}
	}
	while (atomic_load(&shared->ready) < n)
		pass();
	close(begin[1]);
	for (i = 0; i < n; i++)
		while (!atomic_load(&shared->counter[i].ended))
			pass();
	began = now();
	look(before, n);
	if (count)
		while (atomic_load(&shared->counter[0].ended) < before[0] + count)
			pass();
	else
		nap(seconds);
	ended = now();
	look(after, n);
	atomic_store(&shared->stop, true);
	for (i = 0; i < n; i++) {
		if (wait(&status) < 0 || status)
			failed = 1;
	}
	for (i = 0; i < n; i++)
		printf("%lu\n", after[i] - before[i]);
	printf("%.4f\n", ended - began);
	return failed;
}
