// SPDX-License-Identifier: GPL-2.0
/*
 * json_at [POINTER]: checks that the standard input is one JSON object, and prints the value at a
 * JSON pointer (RFC 6901), for example /sessions/0/users. POINTER/# is the number of members of an
 * array or object.
 *
 * Exit status: 0; 1 if there is no such value; 2 if the input is not JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>
#include <json-c/json_pointer.h>

static char *read_all(size_t *length)
{
	size_t room = 1 << 16;
	char *text = malloc(room);
	ssize_t n;

	*length = 0;
	while (text && (n = read(STDIN_FILENO, text + *length, room - *length)) > 0) {
		*length += n;
		if (*length == room) {
			room *= 2;
			text = realloc(text, room);
		}
	}
	return text;
}

static struct json_object *parse(const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	root = json_tokener_parse_ex(tokener, text, length);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    !json_object_is_type(root, json_type_object)) {
		fprintf(stderr, "json_at: not a JSON object: %s\n",
			json_tokener_error_desc(json_tokener_get_error(tokener)));
		exit(2);
	}
	return root;
}

int main(int argc, char **argv)
{
	struct json_object *root, *value;
	char *pointer = argc > 1 ? argv[1] : "";
	size_t length, n = strlen(pointer);
	int count = n >= 2 && !strcmp(pointer + n - 2, "/#");
	char *text = read_all(&length);

	if (!text) {
		perror("json_at");
		return 2;
	}
	root = parse(text, length);
	if (!*pointer)
		return 0;
	if (count)
		pointer[n - 2] = '\0';
	if (json_pointer_get(root, pointer, &value)) {
		fprintf(stderr, "json_at: nothing at %s: %s\n", pointer, strerror(errno));
		return 1;
	}
	if (!count)
		puts(json_object_get_string(value));
	else if (json_object_is_type(value, json_type_array))
		printf("%zu\n", json_object_array_length(value));
	else
		printf("%d\n", json_object_object_length(value));
	return 0;
}
