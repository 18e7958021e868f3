// SPDX-License-Identifier: GPL-2.0
/* Measures the frequency of the counter that an emulated guest will see. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"

#ifdef __x86_64__
static unsigned long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Both clocks at one moment: the try that was interrupted least. */
static void read_both(unsigned long long *ns, unsigned long long *tsc)
{
	unsigned long long best = ~0ULL, before, after, t;
	int i;

	for (i = 0; i < 100; i++) {
		before = now_ns();
		t = __builtin_ia32_rdtsc();
		after = now_ns();
		if (after - before < best) {
			best = after - before;
			*ns = before + best / 2;
			*tsc = t;
		}
	}
}

/* Prints the frequency of this host's time stamp counter in kHz. */
int cmd_tsc(void)
{
	unsigned long long ns[2], tsc[2];

	read_both(&ns[0], &tsc[0]);
	usleep(200000);
	read_both(&ns[1], &tsc[1]);
	printf("%llu\n", (tsc[1] - tsc[0]) * 1000000 / (ns[1] - ns[0]));
	return 0;
}
#else
int cmd_tsc(void)
{
	return 1;
}
#endif
