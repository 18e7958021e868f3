// SPDX-License-Identifier: GPL-2.0
/* krdma bench --matrix: sizes, depths and kinds of operations in one run, to a file of JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

static const uint64_t sizes_default[] = { 8, 512, 4 * KIB, 64 * KIB, MIB };
static const uint64_t depths_default[] = { 1, 8, 32 };

/* ---- Options ---- */

/* Words with commas between them. Return: their number, 0 if one is wrong, or if there are too many. */
static unsigned int parse_list(const char *text, int (*parse)(const char *, uint64_t *),
			       uint64_t list[MATRIX_LIST_MAX])
{
	unsigned int count = 0;
	char word[24];
	size_t length;

	do {
		length = strcspn(text, ",");
		if (length >= sizeof(word) || count == MATRIX_LIST_MAX)
			return 0;
		memcpy(word, text, length);
		word[length] = '\0';
		if (parse(word, &list[count++]))
			return 0;
		text += length;
	} while (*text++ == ',');
	return count;
}

static int parse_depth(const char *text, uint64_t *depth)
{
	return parse_count(text, KRDMA_SUBMIT_MAX, depth) || !*depth ? -1 : 0;
}

int matrix_sizes(struct matrix *matrix, const char *text)
{
	matrix->size_count = parse_list(text, parse_size, matrix->sizes);
	return matrix->size_count ? DONE :
				    usage_error("'%s' is no list of sizes, 1 to %d of them", text,
						MATRIX_LIST_MAX);
}

int matrix_depths(struct matrix *matrix, const char *text)
{
	matrix->depth_count = parse_list(text, parse_depth, matrix->depths);
	return matrix->depth_count ? DONE :
				     usage_error("'%s' is no list of depths, 1 to %d of them, each "
						 "1 to %d",
						 text, MATRIX_LIST_MAX, KRDMA_SUBMIT_MAX);
}

static void set_defaults(struct matrix *matrix)
{
	if (!matrix->size_count) {
		memcpy(matrix->sizes, sizes_default, sizeof(sizes_default));
		matrix->size_count = ARRAY_SIZE(sizes_default);
	}
	if (!matrix->depth_count) {
		memcpy(matrix->depths, depths_default, sizeof(depths_default));
		matrix->depth_count = ARRAY_SIZE(depths_default);
	}
}

/* ---- The environment ---- */

static void add_line(struct json_object *object, const char *key, const char *path)
{
	char text[128];

	if (first_line(path, text, sizeof(text)))
		json_add_text(object, key, text);
}

static void add_processor(struct json_object *object)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256], *name;

	json_add_count(object, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "model name", strlen("model name")) != 0)
			continue;
		name = strchr(line, ':');
		if (name) {
			name += strspn(name, ": ");
			name[strcspn(name, "\n")] = '\0';
			json_add_text(object, "cpu", name);
		}
		break;
	}
	if (file)
		fclose(file);
}

static void add_attributes(struct json_object *object, const struct krdma_device_info *info)
{
	static const char *const attributes[] = { "fw_ver", "board_id", "hca_type" };
	char path[200], link[256];
	ssize_t length;
	size_t i;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/driver", info->name);
	length = readlink(path, link, sizeof(link) - 1);
	if (length > 0) {
		link[length] = '\0';
		json_add_text(object, "driver", strrchr(link, '/') ? strrchr(link, '/') + 1 : link);
	}
	for (i = 0; i < ARRAY_SIZE(attributes); i++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", info->name,
			 attributes[i]);
		add_line(object, attributes[i], path);
	}
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/rate", info->name,
		 info->port);
	add_line(object, "rate", path);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/link_layer", info->name,
		 info->port);
	add_line(object, "link_layer", path);
	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", info->netdev);
	if (*info->netdev)
		add_line(object, "netdev_mtu", path);
}

/* The device that the session uses: its first port that can be used. */
static int add_device(struct json_object *object, const struct range *range)
{
	const struct krdma_device_info *info;
	struct krdma_session_info session;
	struct krdma_iter *iter;
	struct json_object *row;
	bool found = false;

	if (krdma_session(range->krdma, range->session, &session) ||
	    krdma_iter_new(range->krdma, KRDMA_LIST_DEVICES, 0, &iter))
		return fail_krdma();
	while (!found && (info = krdma_iter_next(iter))) {
		found = (info->flags & KRDMA_DEVICE_USABLE) && !strcmp(info->name, session.device);
		if (!found)
			continue;
		row = json_object_new_object();
		list_devices.fill(row, info);
		add_attributes(row, info);
		json_object_object_add(object, "device", row);
	}
	return krdma_iter_free(iter) ? fail_krdma() : DONE;
}

static int add_environment(struct json_object *root, const struct range *range)
{
	struct json_object *object = json_object_new_object();
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct utsname name;

	json_object_object_add(root, "environment", object);
	if (krdma_query(range->krdma, &query))
		return fail_krdma();
	query.version[sizeof(query.version) - 1] = '\0';
	uname(&name);
	json_add_text(object, "kernel", name.release);
	json_add_text(object, "machine", name.machine);
	add_processor(object);
	json_add_text(object, "command", KRDMA_VERSION);
	json_add_text(object, "module", query.version);
	add_line(object, "module_source", "/sys/module/krdma_mover/srcversion");
	return add_device(object, range);
}

/* ---- Cells ---- */

static struct json_object *cell(const struct operation *operation, uint64_t size, uint64_t depth,
				const struct load *load)
{
	struct json_object *row = json_object_new_object();
	const double rate = load->done ? (double)load->done * 1e9 / (double)load->elapsed_ns : 0;

	json_add_text(row, "operation", operation->name);
	json_add_count(row, "bytes", size);
	json_add_count(row, "depth", depth);
	json_add_count(row, "iterations", load->done);
	json_add_real(row, "bw_average", rate * (double)size / (double)MIB);
	json_add_real(row, "msg_rate_mpps", rate / 1e6);
	json_add_real(row, "t_min_us", stats_min(load->stats));
	json_add_real(row, "t_typical_us", stats_percentile(load->stats, 50));
	json_add_real(row, "t_p99_us", stats_percentile(load->stats, 99));
	if (!json_asked)
		printf(" %-9s %9llu %6llu %12.2f %13.6f %15.2f %12.2f\n", operation->name,
		       (unsigned long long)size, (unsigned long long)depth,
		       rate * (double)size / (double)MIB, rate / 1e6,
		       stats_percentile(load->stats, 50), stats_percentile(load->stats, 99));
	return row;
}

/*
 * All sizes that fit, at a depth: the engine is opened for that depth, and memory is for the
 * greatest size.
 */
static int measure_depth(const struct matrix *matrix, const struct operation *operation,
			 const struct bench_options *opts, const struct region_spec *spec,
			 uint64_t most, struct json_object *rows)
{
	static const uint64_t atomic_bytes = ATOMIC_BYTES;
	const bool atomic = operation->opcode == KRDMA_OP_FETCH_ADD;
	const unsigned int count = atomic ? 1 : matrix->size_count;
	const uint64_t *sizes = atomic ? &atomic_bytes : matrix->sizes;
	static struct bench bench;
	struct load load;
	unsigned int i;
	int rc;

	bench = (struct bench){ .opts = *opts };
	bench.opts.opcode = operation->opcode;
	bench.opts.right = operation->right;
	bench.opts.size = 0;
	for (i = 0; i < count; i++)
		if (sizes[i] <= most && sizes[i] > bench.opts.size)
			bench.opts.size = sizes[i];
	if (!bench.opts.size)
		return DONE;
	rc = bench_open(&bench, spec);
	for (i = 0; !rc && i < count; i++) {
		if (sizes[i] > most)
			continue;
		rc = bench_measure(&bench, sizes[i], &load);
		if (!rc) {
			json_object_array_add(rows, cell(operation, sizes[i], opts->depth, &load));
			rc = finish_output(DONE);
		}
	}
	if (!rc)
		bench_close(&bench);
	return rc;
}

static int measure(const struct matrix *matrix, const struct bench_options *opts,
		   const struct region_spec *spec, const struct range *range,
		   struct json_object *rows)
{
	struct bench_options at = *opts;
	struct region_spec queue = { 0 };
	unsigned int i, j;
	int rc = DONE;

	if (matrix->messages) {
		memcpy(queue.host, spec->host, sizeof(queue.host));
		memcpy(queue.name, matrix->messages, strlen(matrix->messages));
	}
	if (!json_asked)
		puts(" operation    #bytes  depth   BW[MiB/sec] MsgRate[Mpps] t_typical[usec]    99%[usec]");
	for (i = 0; !rc && i < OPERATIONS; i++) {
		const bool send = operations[i].opcode == KRDMA_OP_SEND;

		if (send ? !matrix->messages : !(range->region.rights & operations[i].right))
			continue;
		for (j = 0; !rc && j < matrix->depth_count; j++) {
			at.depth = matrix->depths[j];
			rc = measure_depth(matrix, &operations[i], &at, send ? &queue : spec,
					   send ? KRDMA_MESSAGE_MAX : range->length, rows);
		}
	}
	return rc;
}

/* ---- The file ---- */

static int write_file(struct json_object *root, const char *path)
{
	const char *text = json_object_to_json_string_ext(
		root,
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	FILE *file = fopen(path, "we");
	bool wrong = !file;

	if (file) {
		wrong = fprintf(file, "%s\n", text) < 0;
		wrong |= fclose(file) != 0;
	}
	return wrong ? fail(errno, "cannot write '%s': %s", path, strerror(errno)) : DONE;
}

int matrix_run(struct matrix *matrix, const struct bench_options *opts, const char *region)
{
	struct krdma_connect_options connect = opts->connect;
	struct json_object *root = json_root(), *rows = json_object_new_array();
	struct region_spec spec;
	struct range range;
	int rc;

	if (parse_region(region, &spec))
		return usage_error("'%s' is not of the form HOST[:PORT]/NAME[@OFFSET[+LENGTH]]",
				   region);
	if (matrix->messages && strlen(matrix->messages) >= KRDMA_NAME_MAX)
		return usage_error("'%s' is too long for a name", matrix->messages);
	subject_set("bench --matrix %s %s", matrix->file, region);
	set_defaults(matrix);
	json_add_text(root, "region", region);
	json_add_text(root, "engine", opts->engine->name);
	json_add_count(root, "sessions", opts->sessions ? opts->sessions : 1);
	json_add_text(root, "unit", "MiB/sec");
	/* With every right of the export: which operations are there? */
	connect.timeout_ms = timeout_to_ms(opts->timeout_ns);
	rc = range_open(&range, &spec, 0, connect);
	if (rc)
		return rc;
	rc = add_environment(root, &range);
	range_close(&range);
	json_object_object_add(root, "results", rows);
	if (!rc)
		rc = write_file(root, matrix->file);
	if (!rc) {
		rc = measure(matrix, opts, &spec, &range, rows);
		/* What was measured before a failure is kept. */
		if (write_file(root, matrix->file))
			rc = FAILED;
	}
	if (!rc)
		rc = matrix_draw(root, matrix);
	if (!rc && json_asked)
		json_finish(root);
	else
		json_object_put(root);
	return rc;
}
