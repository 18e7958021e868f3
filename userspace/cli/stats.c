// SPDX-License-Identifier: GPL-2.0
/* Times: the clock, and a histogram whose buckets grow with the value. */
#include <math.h>
#include <time.h>

#include "cli.h"

#define SUB_COUNT (1U << STATS_SUB_BITS)

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Values below SUB_COUNT have a bucket each, then each power of two SUB_COUNT. */
static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < SUB_COUNT)
		return (unsigned int)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - STATS_SUB_BITS;
	return ((shift + 1) << STATS_SUB_BITS) + (unsigned int)((value >> shift) - SUB_COUNT);
}

static double bucket_middle(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < SUB_COUNT)
		return bucket;
	shift = (bucket >> STATS_SUB_BITS) - 1;
	return ldexp((bucket & (SUB_COUNT - 1)) + SUB_COUNT + 0.5, (int)shift);
}

void stats_add(struct stats *stats, uint64_t ns)
{
	if (!stats->count || ns < stats->min)
		stats->min = ns;
	if (ns > stats->max)
		stats->max = ns;
	stats->count++;
	stats->sum += (double)ns;
	stats->sum_squares += (double)ns * (double)ns;
	stats->buckets[bucket_of(ns)]++;
}

double stats_min(const struct stats *stats)
{
	return (double)stats->min / 1000;
}

double stats_max(const struct stats *stats)
{
	return (double)stats->max / 1000;
}

double stats_average(const struct stats *stats)
{
	return stats->count ? stats->sum / (double)stats->count / 1000 : 0;
}

double stats_stddev(const struct stats *stats)
{
	double mean, variance;

	if (!stats->count)
		return 0;
	mean = stats->sum / (double)stats->count;
	variance = stats->sum_squares / (double)stats->count - mean * mean;
	return variance > 0 ? sqrt(variance) / 1000 : 0;
}

double stats_percentile(const struct stats *stats, double percent)
{
	uint64_t rank = (uint64_t)ceil(percent / 100 * (double)stats->count);
	uint64_t seen = 0;
	unsigned int i;
	double ns;

	if (!stats->count)
		return 0;
	for (i = 0; i < STATS_BUCKETS - 1; i++) {
		seen += stats->buckets[i];
		if (seen >= rank && seen)
			break;
	}
	/* The middle of a bucket may lie outside of what was measured. */
	ns = bucket_middle(i);
	if (ns < (double)stats->min)
		ns = (double)stats->min;
	if (ns > (double)stats->max)
		ns = (double)stats->max;
	return ns / 1000;
}
