// SPDX-License-Identifier: GPL-2.0
/*
 * Coverage, which libFuzzer takes as its extra counters: the blocks of the module that the calling
 * thread has run (KCOV, if the kernel has it), and the errnos of each step.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcov.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

/* More than the module has blocks; libFuzzer looks at all of them after each input. */
#define BLOCKS_MAX 16384
/* Longest distance of code of the module from its beginning. */
#define TEXT_MAX (4UL << 20)
#define KCOV_PCS (1UL << 18)
#define ERRNOS   136

/* libFuzzer clears all of the section, and takes what is not zero for a feature. */
static struct {
	uint8_t blocks[BLOCKS_MAX];
	uint8_t results[STEPS][ERRNOS];
} features __attribute__((section("__libfuzzer_extra_counters")));

static unsigned long *kcov; /* how many, then the PCs of this thread */
static unsigned long text;  /* where the module's code begins */
/* The number of a block, by its place: from 1 on, in the order in which they were met. */
static uint16_t block_of[TEXT_MAX];
static unsigned int nblocks;

static __u64 calls[STEPS], done[STEPS];

static unsigned long read_number(const char *path, int base)
{
	char line[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, line, sizeof(line) - 1) < 0)
		line[0] = 0;
	close(fd);
	return strtoul(line, NULL, base);
}

void kcov_open(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	void *area;

	text = read_number("/sys/module/krdma_mover/sections/.text", 16);
	if (fd < 0 || !text || ioctl(fd, KCOV_INIT_TRACE, KCOV_PCS)) {
		fprintf(stderr, "fuzz: no KCOV: without coverage of the module\n");
		return;
	}
	area = mmap(NULL, KCOV_PCS * sizeof(*kcov), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED || ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		kst_bail("KCOV: %s", strerror(errno));
	kcov = area;
}

void kcov_begin(void)
{
	if (kcov)
		__atomic_store_n(&kcov[0], 0, __ATOMIC_RELAXED);
}

void kcov_end(void)
{
	unsigned long n = kcov ? __atomic_load_n(&kcov[0], __ATOMIC_RELAXED) : 0, i, at;
	uint8_t *count;

	for (i = 1; i <= n; i++) {
		at = kcov[i] - text;
		if (at >= TEXT_MAX)
			continue;
		if (!block_of[at] && nblocks < BLOCKS_MAX - 1)
			block_of[at] = ++nblocks;
		count = &features.blocks[block_of[at]];
		*count += *count != 0xff;
	}
}

/* What came of a step: 0 or more, or a negative errno. */
void result(enum step step, int rc)
{
	__u8 *feature;

	if (verbose)
		fprintf(stderr, "fuzz: %s: %d\n", step_kinds[step].name, rc);
	calls[step]++;
	done[step] += rc >= 0;
	if (rc == -ENOTCONN || rc == -ECONNRESET || rc == -ESTALE)
		live.poor = true;
	if (rc > 0 || -rc >= ERRNOS)
		return;
	feature = &features.results[step][-rc];
	*feature += *feature < 2;
}

_Noreturn void finding(const char *what, long value)
{
	fprintf(stderr, "fuzz: FOUND: %s: %ld\n", what, value);
	abort();
}

static void write_blocks(const char *path)
{
	FILE *file = fopen(path, "w");
	unsigned long at;

	if (!file)
		return;
	for (at = 0; at < TEXT_MAX; at++)
		if (block_of[at])
			fprintf(file, "%lx\n", at);
	fclose(file);
}

void report(void)
{
	__u64 ioctls = 0, all = 0;
	unsigned int i;

	for (i = 0; i < STEPS; i++) {
		all += calls[i];
		if (i < STEP_READ)
			ioctls += calls[i];
		if (calls[i])
			fprintf(stderr, "fuzz: %-11s %10llu calls %10llu worked\n",
				step_kinds[i].name, (unsigned long long)calls[i],
				(unsigned long long)done[i]);
	}
	fprintf(stderr, "fuzz: %llu calls, %llu of them ioctls; %u blocks of the module covered\n",
		(unsigned long long)all, (unsigned long long)ioctls, nblocks);
	if (getenv("FUZZ_BLOCKS"))
		write_blocks(getenv("FUZZ_BLOCKS"));
}
