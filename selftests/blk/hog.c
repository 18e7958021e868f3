// SPDX-License-Identifier: GPL-2.0
/*
 * More memory than there is: it has to be swapped out, and in again.
 *
 *   hog MIB [ROUNDS]
 *	fill so many MiB with a pattern of each page, then check all, ROUNDS times (2); prints
 *	the peak of what was swapped out, in KiB
 *   hog lock MIB
 *	hold so many MiB that are not swapped out, until a signal; prints a line when they are there
 *
 * Exit status: 0; 1 if a page is wrong, 2 usage.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static unsigned long swapped_kib(void)
{
	unsigned long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmSwap: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* A word of the page at @at in a round; no two words of a round are alike. */
static uint64_t word(unsigned long at, unsigned int round)
{
	return (at + 1) * 0x9e3779b97f4a7c15ULL ^ round;
}

static int lock(unsigned long bytes)
{
	if (mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0) == MAP_FAILED) {
		perror("hog: mmap");
		return 2;
	}
	puts("locked");
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long bytes = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0, at, i, kib, peak = 0;
	unsigned int rounds = argc > 2 ? atoi(argv[2]) : 2, round;
	uint64_t *memory;

	if (argc == 3 && !strcmp(argv[1], "lock"))
		return lock(strtoul(argv[2], NULL, 10) << 20);
	if (!bytes || !rounds)
		return 2;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 2;
	for (round = 0; round < rounds; round++) {
		for (at = 0; at < bytes / sizeof(*memory); at += PAGE / sizeof(*memory))
			for (i = 0; i < PAGE / sizeof(*memory); i++)
				memory[at + i] = word(at + i, round);
		kib = swapped_kib();
		peak = kib > peak ? kib : peak;
		for (at = 0; at < bytes / sizeof(*memory); at++) {
			if (memory[at] == word(at, round))
				continue;
			fprintf(stderr, "hog: round %u: byte %lu is wrong\n", round,
				at * sizeof(*memory));
			return 1;
		}
	}
	printf("%lu\n", peak);
	return 0;
}
