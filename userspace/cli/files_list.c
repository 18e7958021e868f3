// SPDX-License-Identifier: GPL-2.0
/* What a receiver has in a directory already, so that the sender leaves out what is the same. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

/* In FILES_LIST; the name follows, padded to 8 bytes. */
struct entry {
	uint64_t size;
	int64_t mtime;
	uint32_t mtime_ns;
	uint16_t mode;
	uint16_t name_length;
};

struct files_list {
	size_t count;
	const struct entry **sorted;
	char data[];
};

static uint32_t entry_bytes(uint32_t name_length)
{
	return (uint32_t)sizeof(struct entry) + ((name_length + 7U) & ~7U);
}

uint32_t files_list_fill(int dir, char *to, uint32_t room)
{
	DIR *stream = NULL;
	const struct dirent *d;
	uint32_t used = 0, bytes;
	struct entry entry;
	struct stat st;
	int fd;

	fd = files_open_inside(dir, ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		stream = fdopendir(fd);
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((d = readdir(stream))) {
		entry.name_length = (uint16_t)strlen(d->d_name);
		bytes = entry_bytes(entry.name_length);
		/* What is not listed is sent. */
		if (bytes > room - used)
			break;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		entry.size = (uint64_t)st.st_size;
		entry.mtime = st.st_mtim.tv_sec;
		entry.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
		entry.mode = st.st_mode & 07777;
		memset(to + used + bytes - 8, 0, 8);
		memcpy(to + used, &entry, sizeof(entry));
		memcpy(to + used + sizeof(entry), d->d_name, entry.name_length);
		used += bytes;
	}
	closedir(stream);
	return used;
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
	const int rc = memcmp(a, b, a_length < b_length ? a_length : b_length);

	return rc ? rc : (a_length > b_length) - (a_length < b_length);
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = *(const struct entry *const *)a;
	const struct entry *y = *(const struct entry *const *)b;

	return compare_names((const char *)(x + 1), x->name_length, (const char *)(y + 1),
			     y->name_length);
}

struct files_list *files_list_new(const char *data, uint32_t length)
{
	struct files_list *list = malloc(sizeof(*list) + length);
	const struct entry *entry;
	uint32_t at;

	if (!list)
		return NULL;
	memcpy(list->data, data, length);
	list->count = 0;
	/* As many as there can be. */
	list->sorted = calloc(length / sizeof(*entry) + 1, sizeof(void *));
	for (at = 0; list->sorted && at < length; at += entry_bytes(entry->name_length)) {
		entry = (const void *)(list->data + at);
		if (length - at < sizeof(*entry) || length - at < entry_bytes(entry->name_length))
			break;
		list->sorted[list->count++] = entry;
	}
	if (!list->sorted || at < length) {
		files_list_free(list);
		return NULL;
	}
	qsort(list->sorted, list->count, sizeof(void *), compare);
	return list;
}

void files_list_free(struct files_list *list)
{
	if (list)
		free(list->sorted);
	free(list);
}

bool files_list_has(const struct files_list *list, const char *name, const struct stat *st)
{
	size_t from = 0, to = list->count, middle;
	const size_t length = strlen(name);
	const struct entry *entry;
	int rc;

	while (from < to) {
		middle = (from + to) / 2;
		entry = list->sorted[middle];
		rc = compare_names(name, length, (const char *)(entry + 1), entry->name_length);
		if (!rc)
			return entry->size == (uint64_t)st->st_size &&
			       entry->mtime == st->st_mtim.tv_sec &&
			       entry->mtime_ns == (uint32_t)st->st_mtim.tv_nsec &&
			       entry->mode == (st->st_mode & FILES_MODE);
		if (rc < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return false;
}
