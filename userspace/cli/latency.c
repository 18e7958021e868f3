// SPDX-License-Identifier: GPL-2.0
/* How long operations took, as the module counts them: powers of two of nanoseconds. */
#include <string.h>

#include "cli.h"

static const struct field latency_fields[] = {
	{ "device", FIELD_TEXT, false },     { "operation", FIELD_TEXT, false },
	{ "length_max", FIELD_SIZE, false }, { "operations", FIELD_COUNT, false },
	{ "mean_us", FIELD_REAL, false },    { "p50_us", FIELD_REAL, false },
	{ "p99_us", FIELD_REAL, false },
};

static uint64_t latency_count(const struct krdma_latency_info *info)
{
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < KRDMA_LATENCY_BUCKETS; i++)
		count += info->counts[i];
	return count;
}

uint64_t latency_bound(size_t bucket)
{
	return 1ULL << (KRDMA_LATENCY_SHIFT + bucket);
}

/* An estimate: operations lie evenly between the bounds of their counter. Microseconds. */
static double latency_quantile(const struct krdma_latency_info *info, uint64_t count, double part)
{
	double before = 0, rank = part * (double)count, low;
	size_t i;

	for (i = 0; i < KRDMA_LATENCY_BUCKETS - 1; i++) {
		if (before + (double)info->counts[i] >= rank && info->counts[i])
			break;
		before += (double)info->counts[i];
	}
	low = i ? (double)latency_bound(i - 1) : 0;
	/* The last one has no upper bound. */
	if (i == KRDMA_LATENCY_BUCKETS - 1)
		return low / 1000;
	return (low +
		((double)latency_bound(i) - low) * (rank - before) / (double)info->counts[i]) /
	       1000;
}

static void latency_fill(struct json_object *object, const void *entry)
{
	const struct krdma_latency_info *info = entry;
	struct json_object *counts = json_object_new_array();
	const uint64_t count = latency_count(info);
	size_t i;

	json_add_text(object, "device", info->device);
	json_add_text(object, "operation", operation_name(info->opcode));
	/* Without it there is no limit. */
	if (info->length_max)
		json_add_count(object, "length_max", info->length_max);
	json_add_count(object, "operations", count);
	json_add_real(object, "mean_us", count ? (double)info->sum_ns / (double)count / 1000 : 0);
	json_add_real(object, "p50_us", count ? latency_quantile(info, count, 0.5) : 0);
	json_add_real(object, "p99_us", count ? latency_quantile(info, count, 0.99) : 0);
	json_add_count(object, "sum_ns", info->sum_ns);
	for (i = 0; i < KRDMA_LATENCY_BUCKETS; i++)
		json_object_array_add(counts, json_object_new_uint64(info->counts[i]));
	json_object_object_add(object, "counts", counts);
}

const struct list list_latencies = {
	KRDMA_LIST_LATENCIES,       "latencies",  "latency", latency_fields,
	ARRAY_SIZE(latency_fields), latency_fill,
};
