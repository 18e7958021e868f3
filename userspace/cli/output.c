// SPDX-License-Identifier: GPL-2.0
/*
 * What commands print. Each command builds its objects as JSON; the text is made
 * from the same objects, so that both have the same fields.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "files.h"

bool json_asked;
bool json_pretty;

const char *size_text(uint64_t bytes, char text[SIZE_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	/* 1023.95 would be shown as 1024.0. */
	while (value >= (unit ? 1023.95 : 1024) && unit < ARRAY_SIZE(units) - 1) {
		value /= 1024;
		unit++;
	}
	snprintf(text, SIZE_TEXT, "%.*f %s", unit ? 1 : 0, value, units[unit]);
	return text;
}

static const char *const right_names[] = { "read",       "write",   "atomic",
					   "atomic_cpu", "message", "durable" };

const char *rights_text(uint32_t rights, char text[RIGHTS_TEXT])
{
	size_t i;

	*text = '\0';
	for (i = 0; i < ARRAY_SIZE(right_names); i++) {
		if (!(rights & 1U << i))
			continue;
		if (*text)
			strcat(text, ",");
		strcat(text, right_names[i]);
	}
	return text;
}

void json_add_flags(struct json_object *object, const char *key, uint32_t flags,
		    const char *const *names, size_t count)
{
	struct json_object *array = json_object_new_array();
	size_t i;

	for (i = 0; i < count; i++)
		if (flags & 1U << i)
			json_object_array_add(array, json_object_new_string(names[i]));
	json_object_object_add(object, key, array);
}

void json_add_rights(struct json_object *object, const char *key, uint32_t rights)
{
	json_add_flags(object, key, rights, right_names, ARRAY_SIZE(right_names));
}

void json_add_text(struct json_object *object, const char *key, const char *text)
{
	char *copy = strdup(text);

	/* A path may have any bytes. */
	if (copy)
		files_valid(copy);
	json_object_object_add(object, key, json_object_new_string(copy ? copy : ""));
	free(copy);
}

void json_add_count(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

void json_add_real(struct json_object *object, const char *key, double value)
{
	char digits[40];

	/* Without a text of its own, json-c prints 17 digits. */
	snprintf(digits, sizeof(digits), "%.6f", value);
	json_object_object_add(object, key, json_object_new_double_s(value, digits));
}

/* An identity is a string, since many JSON readers keep only 53 bits of a number. */
void json_add_hex(struct json_object *object, const char *key, uint64_t value)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%016llx", (unsigned long long)value);
	json_add_text(object, key, text);
}

void json_add_addr(struct json_object *object, const char *key, const struct krdma_sockaddr *addr)
{
	char text[KRDMA_ADDR_TEXT];

	json_add_text(object, key, krdma_format_addr(addr, text));
}

struct json_object *json_root(void)
{
	struct json_object *root = json_object_new_object();

	json_object_object_add(root, "schema", json_object_new_int(1));
	return root;
}

void json_finish(struct json_object *root)
{
	const int flags = json_pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED :
					JSON_C_TO_STRING_PLAIN;

	puts(json_object_to_json_string_ext(root, flags | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

#define FIELD_ROOM 160

static const char *field_text(const struct field *field, struct json_object *object,
			      char text[FIELD_ROOM])
{
	struct json_object *value = NULL;
	size_t i, used = 0;

	*text = '\0';
	if (!json_object_object_get_ex(object, field->key, &value))
		return strcpy(text, "-");
	switch (field->kind) {
	case FIELD_TEXT:
		snprintf(text, FIELD_ROOM, "%s", json_object_get_string(value));
		break;
	case FIELD_COUNT:
		snprintf(text, FIELD_ROOM, "%llu",
			 (unsigned long long)json_object_get_uint64(value));
		break;
	case FIELD_SIZE:
		size_text(json_object_get_uint64(value), text);
		break;
	case FIELD_MS:
		snprintf(text, FIELD_ROOM, "%.1fs", (double)json_object_get_uint64(value) / 1000);
		break;
	case FIELD_REAL:
		snprintf(text, FIELD_ROOM, "%.1f", json_object_get_double(value));
		break;
	case FIELD_LIST:
		for (i = 0; i < json_object_array_length(value) && used < FIELD_ROOM; i++)
			used += (size_t)snprintf(
				text + used, FIELD_ROOM - used, "%s%s", i ? "," : "",
				json_object_get_string(json_object_array_get_idx(value, i)));
		break;
	}
	return *text ? text : strcpy(text, "-");
}

/* Headings are the keys in capitals. */
static void heading_text(const char *key, char text[FIELD_ROOM])
{
	size_t i;

	for (i = 0; i < FIELD_ROOM - 1 && key[i]; i++)
		text[i] = (char)toupper((unsigned char)key[i]);
	text[i] = '\0';
}

static void print_cell(const char *text, size_t width, bool last)
{
	if (last)
		printf("%s\n", text);
	else
		printf("%-*s  ", (int)width, text);
}

void table_print(const struct field *fields, size_t count, struct json_object *rows)
{
	const size_t row_count = json_object_array_length(rows);
	size_t widths[32] = { 0 };
	char text[FIELD_ROOM];
	size_t row, i;

	for (i = 0; i < count; i++)
		widths[i] = strlen(fields[i].key);
	for (row = 0; row < row_count; row++) {
		for (i = 0; i < count; i++) {
			size_t length = strlen(
				field_text(&fields[i], json_object_array_get_idx(rows, row), text));

			if (length > widths[i])
				widths[i] = length;
		}
	}
	for (i = 0; i < count; i++) {
		heading_text(fields[i].key, text);
		print_cell(text, widths[i], i == count - 1);
	}
	for (row = 0; row < row_count; row++)
		for (i = 0; i < count; i++)
			print_cell(field_text(&fields[i], json_object_array_get_idx(rows, row),
					      text),
				   widths[i], i == count - 1);
}

static void print_key(const struct field *field)
{
	const int cut = field->kind == FIELD_MS ? (int)strlen("_ms") : 0;

	printf("%s%.*s ", field->wrap ? "\n    " : " ", (int)strlen(field->key) - cut, field->key);
}

void objects_print(const char *title, const struct field *fields, size_t count,
		   struct json_object *rows)
{
	const size_t row_count = json_object_array_length(rows);
	char text[FIELD_ROOM];
	size_t row, i;

	for (row = 0; row < row_count; row++) {
		printf("%s ", title);
		for (i = 0; i < count; i++) {
			if (i)
				print_key(&fields[i]);
			fputs(field_text(&fields[i], json_object_array_get_idx(rows, row), text),
			      stdout);
		}
		putchar('\n');
	}
}
