// SPDX-License-Identifier: GPL-2.0
/*
 * How long does work stand still when a connection is lost? Runs in node A of
 * selftests/tools/bench/outage.
 *
 * usage: outage_run krdma HOST NAME
 *        outage_run block DEVICE
 *
 * Writes 4 KiB after 4 KiB, one at a time. For each line of the standard input, a command of the
 * shell, prints the milliseconds from the end of the command until an operation has been begun and
 * ended well; and "failed" behind it, if one has failed meanwhile. Work that goes on has some
 * milliseconds, too: those of two operations at the most.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <krdma/krdma.h>

#define BYTES 4096

static struct krdma *krdma;
static struct krdma_region region;
static int device = -1;
static char *memory;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long begun, good, failed; /* operations; begun: the last that ended well */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int write_once(unsigned long n)
{
	const unsigned long at = n % 64 * BYTES;
	struct krdma_completion completion;
	struct krdma_op op;

	if (device >= 0)
		return pwrite(device, memory, BYTES, (off_t)at) != BYTES;
	krdma_op_write(&op, region.id, at, memory, BYTES);
	op.timeout_ns = 300000000000ULL;
	return krdma_submit(krdma, &op, &completion, 1);
}

static void *work(void *unused)
{
	unsigned long n;
	int rc;

	for (n = 1;; n++) {
		pthread_mutex_lock(&lock);
		begun = n;
		pthread_mutex_unlock(&lock);
		rc = write_once(n);
		pthread_mutex_lock(&lock);
		if (rc)
			failed++;
		else
			good = n;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct krdma_sockaddr addr;
	unsigned long first, errors;
	uint32_t session;
	char line[512];
	pthread_t thread;
	double end;

	memory = aligned_alloc(BYTES, BYTES);
	if (!memory || argc < 3)
		errx(2, "usage: outage_run krdma HOST NAME | block DEVICE");
	memset(memory, 1, BYTES);
	if (argc == 3) {
		device = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
		if (device < 0)
			err(1, "%s", argv[2]);
	} else if (krdma_new(&krdma) || krdma_resolve(argv[2], &addr, 1) != 1 ||
		   krdma_connect(krdma, &addr, 0, &session) ||
		   krdma_open_region(krdma, session, argv[3], KRDMA_RIGHT_WRITE, 0, &region)) {
		errx(1, "%s", krdma_error());
	}
	if (pthread_create(&thread, NULL, work, NULL))
		errx(1, "no thread");
	while (fgets(line, sizeof(line), stdin)) {
		pthread_mutex_lock(&lock);
		errors = failed;
		pthread_mutex_unlock(&lock);
		if (system(line))
			errx(1, "failed: %s", line);
		end = now();
		pthread_mutex_lock(&lock);
		/* One that is under way may be on its end before it was lost. */
		for (first = begun; good <= first;)
			pthread_cond_wait(&changed, &lock);
		printf("%.0f%s\n", now() - end, failed == errors ? "" : " failed");
		pthread_mutex_unlock(&lock);
		fflush(stdout);
	}
	return 0;
}
