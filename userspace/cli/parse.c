// SPDX-License-Identifier: GPL-2.0
/* Values from the command line, and from files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A number at the start of the text; *end is what follows it. */
static int parse_u64(const char *text, uint64_t *value, const char **end)
{
	const int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	char *stop;

	/* strtoull() alone would take spaces and a sign. */
	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*value = strtoull(text, &stop, base);
	*end = stop;
	return errno ? -1 : 0;
}

static unsigned int unit_shift(char unit)
{
	switch (unit) {
	case 'k':
	case 'K':
		return 10;
	case 'm':
	case 'M':
		return 20;
	case 'g':
	case 'G':
		return 30;
	case 't':
	case 'T':
		return 40;
	default:
		return 0;
	}
}

/* NUMBER[K|M|G|T[iB]] at the start of the text; *end is what follows it. */
static int parse_bytes(const char *text, uint64_t *bytes, const char **end)
{
	unsigned int shift;

	if (parse_u64(text, bytes, end))
		return -1;
	shift = unit_shift(**end);
	if (!shift)
		return 0;
	++*end;
	if (!strncmp(*end, "iB", 2))
		*end += 2;
	if (*bytes > UINT64_MAX >> shift)
		return -1;
	*bytes <<= shift;
	return 0;
}

int parse_size(const char *text, uint64_t *bytes)
{
	const char *end;

	return parse_bytes(text, bytes, &end) || *end || !*bytes ? -1 : 0;
}

int parse_count(const char *text, uint64_t max, uint64_t *count)
{
	const char *end;

	return parse_u64(text, count, &end) || *end || *count > max ? -1 : 0;
}

int parse_seconds(const char *text, uint64_t *ns)
{
	uint64_t unit = NSEC_PER_SEC, fraction = 0;
	const char *end;

	/* Milliseconds must fit 32 bits; more than eleven days is a slip. */
	if (parse_u64(text, ns, &end) || *ns > 1000000)
		return -1;
	*ns *= NSEC_PER_SEC;
	if (*end == '.') {
		for (end++; *end >= '0' && *end <= '9'; end++) {
			unit /= 10;
			fraction += unit * (uint64_t)(*end - '0');
		}
	}
	*ns += fraction;
	return *end || !*ns ? -1 : 0;
}

bool name_ok(const char *name)
{
	/* krdma_wire_name_ok() */
	return !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-:+=")];
}

int parse_region(const char *text, struct region_spec *spec)
{
	const char *slash = strchr(text, '/');
	const char *name, *end;
	size_t length;

	memset(spec, 0, sizeof(*spec));
	if (!slash || slash == text || (size_t)(slash - text) >= sizeof(spec->host))
		return -1;
	memcpy(spec->host, text, (size_t)(slash - text));

	/* '+' may be in a name, '@' may not. */
	name = slash + 1;
	length = strcspn(name, "@");
	if (!length || length >= sizeof(spec->name) || memchr(name, '/', length))
		return -1;
	memcpy(spec->name, name, length);
	if (!name_ok(spec->name))
		return -1;
	if (!name[length])
		return 0;

	if (parse_bytes(name + length + 1, &spec->offset, &end))
		return -1;
	if (!*end)
		return 0;
	if (*end != '+' || parse_size(end + 1, &spec->length))
		return -1;
	return spec->length > UINT64_MAX - spec->offset ? -1 : 0;
}

bool first_line(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool got = false;

	if (file) {
		got = fgets(text, (int)size, file);
		fclose(file);
	}
	text[got ? strcspn(text, "\n") : 0] = '\0';
	return got;
}
