// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Lists of objects, and the module's counters. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define COUNTERS "/sys/class/misc/krdma_mover/counters"

/* Objects that one call fetches, and the most that a list may have: a peer chooses its length. */
#define ITER_ROOM 64
#define ITER_MAX  4096

struct krdma_iter {
	struct krdma *krdma;
	uint32_t kind;
	uint32_t session;
	uint32_t stride;
	uint32_t count; /* in entries now */
	uint32_t next;  /* the first of them not handed out */
	uint32_t total; /* fetched so far */
	uint64_t cursor;
	bool end; /* the kernel has no more */
	int error;
	uint64_t entries[]; /* bytes, of ITER_ROOM times stride */
};

static const uint32_t strides[] = {
	[KRDMA_LIST_DEVICES] = sizeof(struct krdma_device_info),
	[KRDMA_LIST_LISTENERS] = sizeof(struct krdma_listener_info),
	[KRDMA_LIST_SESSIONS] = sizeof(struct krdma_session_info),
	[KRDMA_LIST_CHANNELS] = sizeof(struct krdma_channel_info),
	[KRDMA_LIST_PATHS] = sizeof(struct krdma_path_info),
	[KRDMA_LIST_EXPORTS] = sizeof(struct krdma_export_info),
	[KRDMA_LIST_REGIONS] = sizeof(struct krdma_region_info),
	[KRDMA_LIST_TRANSFERS] = sizeof(struct krdma_transfer_info),
	[KRDMA_LIST_PEER_EXPORTS] = sizeof(struct krdma_peer_export_info),
	[KRDMA_LIST_ADDRESSES] = sizeof(struct krdma_sockaddr),
	[KRDMA_LIST_PREFIXES] = sizeof(struct krdma_prefix_info),
	[KRDMA_LIST_LATENCIES] = sizeof(struct krdma_latency_info),
	[KRDMA_LIST_GRANTS] = sizeof(struct krdma_grant_info),
};

int krdma_monitor(struct krdma *krdma, uint32_t flags)
{
	struct krdma_ioc_monitor arg = { .size = sizeof(arg), .flags = flags };
	int rc = krdma__ioctl(krdma, KRDMA_IOC_MONITOR, &arg);

	return rc ? rc : arg.fd;
}

int krdma_iter_new(struct krdma *krdma, enum krdma_list_kind kind, uint32_t session,
		   struct krdma_iter **iter)
{
	struct krdma_iter *new;

	if ((size_t)kind >= sizeof(strides) / sizeof(strides[0]) || !strides[kind])
		return krdma__fail(EINVAL, "no list of kind %d", (int)kind);
	new = calloc(1, sizeof(*new) + (size_t)ITER_ROOM * strides[kind]);
	if (!new)
		return krdma__fail(ENOMEM, "out of memory");
	new->krdma = krdma;
	new->kind = kind;
	new->session = session;
	new->stride = strides[kind];
	*iter = new;
	return 0;
}

static void iter_fill(struct krdma_iter *iter)
{
	struct krdma_ioc_list arg = {
		.size = sizeof(arg),
		.kind = iter->kind,
		.session = iter->session,
		.entries = (uintptr_t)iter->entries,
		.stride = iter->stride,
		.count = ITER_ROOM,
		.cursor = iter->cursor,
	};

	iter->next = 0;
	iter->count = 0;
	iter->error = krdma__ioctl(iter->krdma, KRDMA_IOC_LIST, &arg);
	if (!iter->error) {
		iter->count = arg.count;
		iter->total += arg.count;
	}
	if (iter->kind == KRDMA_LIST_PEER_EXPORTS && iter->total > ITER_MAX && arg.cursor)
		iter->error = krdma__fail(EOVERFLOW, "the list has more than %d entries", ITER_MAX);
	iter->end = iter->error || !arg.cursor;
	iter->cursor = arg.cursor;
}

const void *krdma_iter_next(struct krdma_iter *iter)
{
	while (iter->next == iter->count) {
		if (iter->end)
			return NULL;
		iter_fill(iter);
	}
	return (const char *)iter->entries + (size_t)iter->stride * iter->next++;
}

int krdma_iter_free(struct krdma_iter *iter)
{
	int error = iter ? iter->error : 0;

	free(iter);
	return error;
}

static int read_counter(const char *name, struct krdma_counter *counter)
{
	char path[sizeof(COUNTERS) + sizeof(counter->name) + 1];
	char text[32] = "", *end = text;
	FILE *file;

	snprintf(counter->name, sizeof(counter->name), "%s", name);
	snprintf(path, sizeof(path), COUNTERS "/%s", counter->name);
	file = fopen(path, "re");
	if (!file)
		return krdma__fail(errno, "cannot read %s: %s", path, strerror(errno));
	if (fgets(text, sizeof(text), file))
		counter->value = strtoull(text, &end, 10);
	fclose(file);
	if (end == text)
		return krdma__fail(EIO, "%s has no number", path);
	return 0;
}

static int is_counter(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int krdma_counters(struct krdma_counter **counters)
{
	struct krdma_counter *array;
	struct dirent **entries;
	int count, i, rc = 0;

	*counters = NULL;
	count = scandir(COUNTERS, &entries, is_counter, alphasort);
	if (count < 0)
		return errno == ENOENT ?
			       0 :
			       krdma__fail(errno, "cannot read " COUNTERS ": %s", strerror(errno));
	array = calloc((size_t)count + 1, sizeof(*array));
	if (!array)
		rc = krdma__fail(ENOMEM, "out of memory");
	for (i = 0; i < count; i++) {
		if (array && !rc)
			rc = read_counter(entries[i]->d_name, &array[i]);
		free(entries[i]);
	}
	free(entries);
	if (rc) {
		free(array);
		return rc;
	}
	*counters = array;
	return count;
}
