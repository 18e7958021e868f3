// SPDX-License-Identifier: GPL-2.0
/*
 * Take memory until little is left, and keep it.
 *
 *   eat MIB
 *	until /proc/meminfo says that no more than MIB are available. Then a line with
 *	how much that was, and nothing more until a signal
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP (1UL << 20)

static unsigned long available_mib(void)
{
	unsigned long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
			break;
	if (!kib) {
		fprintf(stderr, "eat: no MemAvailable\n");
		exit(1);
	}
	fclose(file);
	return kib >> 10;
}

int main(int argc, char **argv)
{
	unsigned long left = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, mib = 0;

	if (!left) {
		fprintf(stderr, "usage: eat MIB\n");
		return 2;
	}
	while (available_mib() > left) {
		void *at = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0);

		if (at == MAP_FAILED) {
			perror("eat");
			return 1;
		}
		/* No page of zeroes, and none that another one is merged with. */
		memset(at, 1 + (int)(mib % 255), STEP);
		mib++;
	}
	printf("eaten %lu MiB\n", mib);
	fflush(stdout);
	for (;;)
		pause();
}
