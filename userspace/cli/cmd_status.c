// SPDX-License-Identifier: GPL-2.0
/* krdma ls, status, devices, version: these change nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

#ifndef KRDMA_VERSION
#error "the Makefile defines KRDMA_VERSION"
#endif

/* For a command without options of its own. Return: -1 to go on, else the status. */
static int no_options(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = { COMMON_LONG };
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		rc = common_option(command, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	return -1;
}

/* Print and free the fetched objects, or report the failure. */
static int show(struct json_object *root, int error, void (*print)(struct json_object *))
{
	int rc = DONE;

	if (error)
		rc = fail_krdma();
	else if (json_asked)
		json_finish(json_object_get(root));
	else
		print(root);
	json_object_put(root);
	return rc;
}

/* ---- ls ---- */

static void ls_print(struct json_object *root)
{
	list_print_table(&list_peer_exports, root);
}

static int ls_run(int argc, char **argv)
{
	struct krdma_connect_options connect;
	struct json_object *root;
	struct krdma_sockaddr peer;
	uint64_t timeout_ns = 0;
	struct krdma *krdma;
	uint32_t session;
	int rc;

	rc = timeout_option(&cmd_ls, argc, argv, &timeout_ns);
	if (rc >= 0)
		return rc;
	if (argc - optind != 1)
		return usage_error("one host is needed");
	subject_set("ls %s", argv[optind]);

	if (module_open(&krdma))
		return FAILED;
	/* A peer shows the right to send messages only in a session that can carry them. */
	connect = connect_options(KRDMA_CONNECT_MESSAGES, timeout_ns);
	if (krdma_connect_host(krdma, argv[optind], &connect, &session, &peer)) {
		rc = fail_krdma();
	} else {
		root = json_root();
		json_add_addr(root, "peer", &peer);
		rc = show(root, list_fetch(krdma, &list_peer_exports, session, root), ls_print);
	}
	krdma_free(krdma);
	return rc;
}

const struct command cmd_ls = {
	.name = "ls",
	/* Else 'list HOST' would be short for 'listen', which opens this host to peers. */
	.alias = "list",
	.usage = "krdma ls [OPTIONS] HOST[:PORT]",
	.summary = "show what a peer publishes",
	.help = "  --timeout SECONDS give up connecting after this time (default 10)\n",
	.run = ls_run,
};

/* ---- devices ---- */

static void devices_print(struct json_object *root)
{
	if (json_object_array_length(json_object_object_get(root, list_devices.key)))
		list_print_table(&list_devices, root);
}

static bool any_usable(struct json_object *rows)
{
	size_t i;

	for (i = 0; i < json_object_array_length(rows); i++)
		if (!strcmp(json_object_get_string(json_object_object_get(
				    json_object_array_get_idx(rows, i), "usable")),
			    "yes"))
			return true;
	return false;
}

static int devices_run(int argc, char **argv)
{
	int rc = no_options(&cmd_devices, argc, argv);
	struct json_object *root;
	struct krdma *krdma;
	bool usable;

	if (rc >= 0)
		return rc;
	if (module_open(&krdma))
		return FAILED;
	root = json_root();
	rc = list_fetch(krdma, &list_devices, 0, root);
	usable = rc || any_usable(json_object_object_get(root, list_devices.key));
	rc = show(root, rc, devices_print);
	krdma_free(krdma);
	if (!rc && !usable)
		rc = fail(
			ENODEV,
			"there is no usable RDMA device in this network namespace: load the adapter's driver, "
			"or make one in software (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0)");
	return rc;
}

const struct command cmd_devices = {
	.name = "devices",
	.usage = "krdma devices [OPTIONS]",
	.summary = "show RDMA devices and whether they can be used",
	.help = "The exit status is 3 if none can be used.\n\n",
	.run = devices_run,
};

/* ---- The module ---- */

static const char *const feature_names[] = { "rdma",   "async",   "uring",   "vectors",  "after",
					     "cancel", "atomic",  "digest",  "unplaced", "messages",
					     "placed", "connect", "monitor", "flush" };

static const struct field module_fields[] = {
	{ "version", FIELD_TEXT, false },     { "features", FIELD_LIST, false },
	{ "incarnation", FIELD_TEXT, false }, { "pinned_limit", FIELD_SIZE, true },
	{ "op_pin_max", FIELD_SIZE, false },  { "max_ids", FIELD_COUNT, false },
	{ "submit_max", FIELD_COUNT, false }, { "ops_max", FIELD_COUNT, false },
	{ "vector_max", FIELD_COUNT, false },
};

/* objects_print() takes an array, here one of a single object. */
static int module_fetch(struct krdma *krdma, struct json_object *root)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	struct json_object *rows = json_object_new_array();
	struct json_object *module = json_object_new_object();

	json_object_object_add(root, "module", rows);
	json_object_array_add(rows, module);
	if (krdma_query(krdma, &query))
		return -1;
	json_add_text(module, "version", query.version);
	json_add_flags(module, "features", (uint32_t)query.features, feature_names,
		       ARRAY_SIZE(feature_names));
	json_add_hex(module, "incarnation", query.incarnation);
	json_add_count(module, "pinned_limit", query.pinned_limit);
	json_add_count(module, "op_pin_max", query.op_pin_max);
	json_add_count(module, "max_ids", query.max_ids);
	json_add_count(module, "submit_max", query.submit_max);
	json_add_count(module, "ops_max", query.ops_max);
	json_add_count(module, "vector_max", query.vector_max);
	return 0;
}

/* ---- status ---- */

static const struct list *const status_lists[] = {
	&list_listeners, &list_exports,  &list_grants,  &list_sessions,
	&list_paths,     &list_channels, &list_regions,
};

static int counters_fetch(struct json_object *root)
{
	struct json_object *object = json_object_new_object();
	struct krdma_counter *counters;
	int count, i;

	json_object_object_add(root, "counters", object);
	count = krdma_counters(&counters);
	if (count < 0)
		return -1;
	for (i = 0; i < count; i++)
		json_add_count(object, counters[i].name, counters[i].value);
	free(counters);
	return 0;
}

static int status_fetch(struct krdma *krdma, struct json_object *root)
{
	size_t i;

	if (module_fetch(krdma, root))
		return -1;
	for (i = 0; i < ARRAY_SIZE(status_lists); i++)
		if (list_fetch(krdma, status_lists[i], 0, root))
			return -1;
	return counters_fetch(root);
}

static void status_print(struct json_object *root)
{
	size_t i;

	objects_print("module", module_fields, ARRAY_SIZE(module_fields),
		      json_object_object_get(root, "module"));
	for (i = 0; i < ARRAY_SIZE(status_lists); i++)
		list_print_objects(status_lists[i], root);
	json_object_object_foreach(json_object_object_get(root, "counters"), name, value) {
		printf("counter %s %llu\n", name,
		       (unsigned long long)json_object_get_uint64(value));
	}
}

static void transfers_print(struct json_object *root)
{
	list_print_objects(&list_transfers, root);
}

static void latencies_print(struct json_object *root)
{
	list_print_table(&list_latencies, root);
}

enum {
	OPT_TRANSFERS = OPT_LONG_ONLY,
	OPT_HISTOGRAM
};

static int status_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "transfers", no_argument, NULL, OPT_TRANSFERS },
		{ "histogram", no_argument, NULL, OPT_HISTOGRAM },
		COMMON_LONG,
	};
	struct json_object *root;
	struct krdma *krdma;
	int c, rc, what = 0;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		if (c == OPT_TRANSFERS || c == OPT_HISTOGRAM) {
			if (what && what != c)
				return usage_error(
					"--transfers and --histogram exclude each other");
			what = c;
			continue;
		}
		rc = common_option(&cmd_status, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	if (module_open(&krdma))
		return FAILED;
	root = json_root();
	if (what == OPT_TRANSFERS)
		rc = show(root, list_fetch(krdma, &list_transfers, 0, root), transfers_print);
	else if (what == OPT_HISTOGRAM)
		rc = show(root, list_fetch(krdma, &list_latencies, 0, root), latencies_print);
	else
		rc = show(root, status_fetch(krdma, root), status_print);
	krdma_free(krdma);
	return rc;
}

const struct command cmd_status = {
	.name = "status",
	.usage = "krdma status [--transfers | --histogram] [OPTIONS]",
	.summary =
		"show listeners, exports, grants, sessions, paths, channels, regions and counters",
	.help = "  --transfers       show unfinished transfers, what each waits for, and how long\n"
		"  --histogram       show how long operations took, by device, operation and size\n",
	.run = status_run,
};

/* ---- version ---- */

static void version_print(struct json_object *root)
{
	struct json_object *module = json_object_object_get(root, "module");

	printf("krdma %s\n", json_object_get_string(json_object_object_get(root, "version")));
	if (module)
		objects_print("krdma_mover", module_fields, ARRAY_SIZE(module_fields), module);
	else
		printf("krdma_mover: %s\n",
		       json_object_get_string(json_object_object_get(root, "module_error")));
}

static int version_run(int argc, char **argv)
{
	int rc = no_options(&cmd_version, argc, argv);
	struct json_object *root;
	struct krdma *krdma;

	if (rc >= 0)
		return rc;
	root = json_root();
	json_add_text(root, "version", KRDMA_VERSION);
	/* The command has a version even without the module: no failure. */
	if (krdma_new(&krdma)) {
		json_add_text(root, "module_error", krdma_error());
		return show(root, 0, version_print);
	}
	rc = show(root, module_fetch(krdma, root), version_print);
	krdma_free(krdma);
	return rc;
}

const struct command cmd_version = {
	.name = "version",
	.usage = "krdma version [OPTIONS]",
	.summary = "show the versions of this program and of the module",
	.help = "",
	.run = version_run,
};
