// SPDX-License-Identifier: GPL-2.0
/* What this host is, for 'krdma apply' and 'krdma show': the module's parameters, listeners, exports, disks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"

static FILE *parameter_open(const char *name, const char *mode)
{
	char path[256];

	snprintf(path, sizeof(path), PARAMETERS "/%s", name);
	return fopen(path, mode);
}

int parameter_read(const char *name, char *value, size_t size)
{
	FILE *file = parameter_open(name, "re");
	int rc = 0;

	*value = '\0';
	if (!file)
		return errno;
	if (!fgets(value, (int)size, file))
		rc = EIO;
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return rc;
}

int parameter_write(const char *name, const char *value)
{
	FILE *file = parameter_open(name, "we");
	int rc = 0;

	if (!file)
		return errno;
	/* What the module has against the value is known when it is written. */
	if (fputs(value, file) < 0 || fflush(file))
		rc = errno;
	fclose(file);
	return rc;
}

bool same_addr(const struct krdma_sockaddr *a, const struct krdma_sockaddr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

int listeners_read(struct krdma *krdma, struct listener **listeners)
{
	const struct krdma_listener_info *info;
	const struct krdma_prefix_info *prefix;
	struct listener *l = NULL, *more;
	struct krdma_iter *iter;
	int n = 0, i;

	*listeners = NULL;
	if (krdma_iter_new(krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return -1;
	while ((info = krdma_iter_next(iter))) {
		more = realloc(l, (size_t)(n + 1) * sizeof(*l));
		if (!more)
			abort();
		l = more;
		memset(&l[n], 0, sizeof(*l));
		l[n].addr = info->addr;
		l[n].sessions = info->sessions;
		l[n++].closed = info->flags & KRDMA_LISTENER_CLOSED;
	}
	*listeners = l;
	if (krdma_iter_free(iter) || krdma_iter_new(krdma, KRDMA_LIST_PREFIXES, 0, &iter))
		return -1;
	while ((prefix = krdma_iter_next(iter)))
		for (i = 0; i < n; i++)
			if (same_addr(&prefix->listener, &l[i].addr) &&
			    l[i].allow_count < KRDMA_LISTEN_ALLOW_MAX)
				l[i].allow[l[i].allow_count++] = prefix->prefix;
	return krdma_iter_free(iter) ? -1 : n;
}

uint64_t export_length(struct krdma *krdma, const char *name)
{
	const struct krdma_export_info *info;
	struct krdma_iter *iter;
	uint64_t length = 0;

	if (krdma_iter_new(krdma, KRDMA_LIST_EXPORTS, 0, &iter))
		return 0;
	while ((info = krdma_iter_next(iter)))
		if (!strcmp(info->name, name))
			length = info->length;
	krdma_iter_free(iter);
	return length;
}

const char *disk_text(struct json_object *disk, const char *key)
{
	return json_object_get_string(json_object_object_get(disk, key));
}

bool disk_is(struct json_object *disk, const char *state)
{
	return !strcmp(disk_text(disk, "state"), state);
}
