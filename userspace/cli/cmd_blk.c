// SPDX-License-Identifier: GPL-2.0
/* krdma blk: disks in the memory of other hosts, by /dev/krdma_blk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/krdma_blk.h>

#include "conf.h"

#define CONTROL "/dev/krdma_blk"
#define PREFIX  "krdmab"

enum {
	OPT_BLOCK_SIZE = OPT_LONG_ONLY,
	OPT_DEPTH,
	OPT_QUEUES,
	OPT_POLL_QUEUES,
	OPT_SHARED,
	OPT_TAKEOVER,
	OPT_NO_HOLD,
	OPT_TIMEOUT
};

static const struct field blk_fields[] = {
	{ "device", FIELD_TEXT, false }, { "state", FIELD_TEXT, false },
	{ "size", FIELD_SIZE, false },   { "block", FIELD_COUNT, false },
	{ "flags", FIELD_LIST, false },  { "openers", FIELD_COUNT, false },
	{ "peer", FIELD_TEXT, false },   { "export", FIELD_TEXT, false },
};

/* Return: the file, or -1 after a sentence */
static int control_open(void)
{
	const int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		fail(ENODEV, "there is no %s: load the module krdma_blk", CONTROL);
	else if (fd < 0)
		fail(errno, "%s: %s", CONTROL, strerror(errno));
	return fd;
}

/* ---- attach ---- */

static int blk_number(const char *text, const char *what, uint64_t max, uint32_t *number)
{
	uint64_t value;

	if (parse_count(text, max, &value) || !value)
		return usage_error("'%s' is not a %s, 1 to %llu", text, what,
				   (unsigned long long)max);
	*number = (uint32_t)value;
	return DONE;
}

/* Return: -1 to go on, else the exit status */
static int attach_options(int argc, char **argv, struct krdma_blk_attach *cmd,
			  struct krdma_connect_options *connect)
{
	static const struct option options[] = {
		{ "read-only", no_argument, NULL, 'r' },
		{ "shared", no_argument, NULL, OPT_SHARED },
		{ "takeover", no_argument, NULL, OPT_TAKEOVER },
		{ "no-hold", no_argument, NULL, OPT_NO_HOLD },
		{ "block-size", required_argument, NULL, OPT_BLOCK_SIZE },
		{ "queues", required_argument, NULL, OPT_QUEUES },
		{ "poll-queues", required_argument, NULL, OPT_POLL_QUEUES },
		{ "depth", required_argument, NULL, OPT_DEPTH },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "resume", required_argument, NULL, OPT_RESUME },
		CONNECT_LONG,
		COMMON_LONG,
	};
	uint64_t size;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":r" COMMON_SHORT, options, NULL)) != -1) {
		rc = DONE;
		switch (c) {
		case 'r':
			cmd->flags |= KRDMA_BLK_READ_ONLY;
			break;
		case OPT_SHARED:
			cmd->flags |= KRDMA_BLK_SHARED;
			break;
		case OPT_TAKEOVER:
			cmd->flags |= KRDMA_BLK_TAKEOVER;
			break;
		case OPT_NO_HOLD:
			cmd->flags |= KRDMA_BLK_NOT_HELD;
			break;
		case OPT_BLOCK_SIZE:
			if (parse_size(optarg, &size) || (size != 512 && size != 4096))
				return usage_error("'%s' is not a block size, 512 or 4096", optarg);
			cmd->block_size = (uint32_t)size;
			break;
		case OPT_QUEUES:
			rc = blk_number(optarg, "number of queues", KRDMA_BLK_QUEUES_MAX,
					&cmd->queues);
			break;
		case OPT_POLL_QUEUES:
			rc = blk_number(optarg, "number of queues", KRDMA_BLK_QUEUES_MAX,
					&cmd->poll_queues);
			break;
		case OPT_DEPTH:
			rc = blk_number(optarg, "depth", KRDMA_BLK_DEPTH_MAX, &cmd->depth);
			break;
		case OPT_TIMEOUT:
			rc = blk_number(optarg, "number of seconds", KRDMA_BLK_TIMEOUT_MAX,
					&cmd->timeout_s);
			break;
		case OPT_RESUME:
		case OPT_KEEPALIVE:
		case OPT_PATH:
		case OPT_POLICY:
			rc = connect_option(c, optarg, connect);
			break;
		default:
			rc = common_option(&cmd_blk, argv, c);
			if (rc >= 0)
				return rc;
			rc = DONE;
		}
		if (rc)
			return rc;
	}
	if ((cmd->flags & KRDMA_BLK_TAKEOVER) &&
	    (cmd->flags & (KRDMA_BLK_SHARED | KRDMA_BLK_READ_ONLY)))
		return usage_error("--takeover excludes --shared and --read-only");
	return argc - optind == 1 ? -1 : usage_error("one export is needed");
}

/* Why there is no disk. Return: the exit status */
static int attach_fail(int err)
{
	switch (err) {
	case ENOSPC:
		return fail(EINVAL, "the export has less than one block");
	case EBUSY:
		return fail(
			err,
			"another one has it open: --read-only reads beside it, --takeover revokes it, "
			"--shared needs all of them to be shared");
	case EDQUOT:
		return fail(
			err,
			"too few segments are left to hold it: fewer disks of this peer, --no-hold, "
			"or krdma export --max-segments anew, which loses its bytes");
	case ENOMEM:
		return fail(
			err,
			"no memory, here or at the peer, whose log names its limit; or see --no-hold");
	case ETIMEDOUT:
		return fail(
			err,
			"the peer did not set the memory aside in time, or the disk that is taken over "
			"was not released: try again");
	case ECANCELED:
		return fail(err, "it was detached meanwhile");
	}
	return fail(err, "%s (the kernel's log has the reason)", strerror(err));
}

/* The paths of a session beside its first. Return: 0 or -1 */
static int attach_paths(struct krdma *krdma, uint32_t session, struct krdma_blk_attach *cmd)
{
	const struct krdma_path_info *path;
	struct krdma_session_info info;
	struct krdma_iter *iter;

	if (krdma_session(krdma, session, &info) ||
	    krdma_iter_new(krdma, KRDMA_LIST_PATHS, 0, &iter))
		return -1;
	while (cmd->npaths < ARRAY_SIZE(cmd->paths) && (path = krdma_iter_next(iter)))
		if (path->session == info.serial && path->index)
			cmd->paths[cmd->npaths++].dst = path->peer;
	return krdma_iter_free(iter);
}

/*
 * As the disk will do, which has no sentence for what fails. A session that resumes is the disk's as well.
 * Return: the exit status
 */
static int attach_probe(struct krdma *krdma, const struct region_spec *spec,
			struct krdma_connect_options connect, struct krdma_blk_attach *cmd)
{
	struct krdma_region region;
	uint32_t session;

	cmd->policy = connect.policy;
	if (krdma_connect_host(krdma, spec->host, &connect, &session, &cmd->dst) ||
	    krdma_open_region(krdma, session, spec->name, KRDMA_RIGHT_READ, 0, &region) ||
	    attach_paths(krdma, session, cmd))
		return fail_krdma();
	return DONE;
}

/* Return: -1 to go on, else the exit status */
static int attach_parse(int argc, char **argv, struct krdma_blk_attach *cmd,
			struct krdma_connect_options *connect, struct region_spec *spec)
{
	int rc = attach_options(argc, argv, cmd, connect);

	if (rc >= 0)
		return rc;
	if (parse_region(argv[optind], spec) || spec->offset || spec->length)
		return usage_error("'%s' is not HOST[:PORT]/NAME", argv[optind]);
	return -1;
}

int blk_check(int argc, char **argv)
{
	struct krdma_connect_options connect = { 0 };
	struct krdma_blk_attach cmd = { 0 };
	struct region_spec spec;

	return attach_parse(argc, argv, &cmd, &connect, &spec);
}

int blk_attach(int argc, char **argv, uint32_t *disk)
{
	struct krdma_blk_attach cmd = { .size = sizeof(cmd) };
	struct krdma_connect_options connect = { 0 };
	struct region_spec spec;
	struct krdma *krdma;
	int fd, rc;

	rc = attach_parse(argc, argv, &cmd, &connect, &spec);
	if (rc >= 0)
		return rc;
	subject_set("blk attach %s", argv[optind]);
	fd = control_open();
	if (fd < 0)
		return FAILED;
	if (module_open(&krdma)) {
		close(fd);
		return FAILED;
	}
	memcpy(cmd.name, spec.name, sizeof(cmd.name));
	cmd.resume_s = connect.resume_s;
	cmd.keepalive_s = connect.keepalive_s;
	if (connect.flags & KRDMA_CONNECT_FAIL_FAST)
		cmd.flags |= KRDMA_BLK_FAIL_FAST;
	rc = attach_probe(krdma, &spec, connect, &cmd);
	if (!rc && ioctl(fd, KRDMA_BLK_ATTACH, &cmd))
		rc = attach_fail(errno);
	krdma_free(krdma);
	close(fd);
	*disk = cmd.disk;
	return rc;
}

static int attach_run(int argc, char **argv)
{
	struct json_object *root;
	char device[32];
	uint32_t disk = 0;
	int rc = blk_attach(argc, argv, &disk);

	if (rc)
		return rc;
	snprintf(device, sizeof(device), "/dev/" PREFIX "%u", disk);
	if (!json_asked) {
		puts(device);
		return DONE;
	}
	root = json_root();
	json_add_text(root, "device", device);
	json_finish(root);
	return DONE;
}

/* ---- detach ---- */

/* /dev/krdmab0, krdmab0 or 0. Return: 0 or -1 */
static int parse_disk(const char *text, uint32_t *disk)
{
	uint64_t number;

	if (!strncmp(text, "/dev/" PREFIX, strlen("/dev/" PREFIX)))
		text += strlen("/dev/");
	if (!strncmp(text, PREFIX, strlen(PREFIX)))
		text += strlen(PREFIX);
	if (parse_count(text, UINT32_MAX, &number))
		return -1;
	*disk = (uint32_t)number;
	return 0;
}

/* The only operand. Return: DONE or USAGE */
static int one_disk(int argc, char **argv, uint32_t *disk)
{
	if (argc - optind != 1)
		return usage_error("one device is needed");
	if (parse_disk(argv[optind], disk))
		return usage_error("'%s' is not a device, /dev/" PREFIX "0 for example",
				   argv[optind]);
	return DONE;
}

static int detach(struct krdma_blk_detach *cmd)
{
	const int fd = control_open();
	int rc = DONE;

	if (fd < 0)
		return FAILED;
	if (ioctl(fd, KRDMA_BLK_DETACH, cmd)) {
		if (errno == EBUSY && cmd->flags)
			rc = fail(
				EBUSY,
				"another command attaches, detaches or resizes it, and ends in bounded time");
		else if (errno == EBUSY)
			rc = fail(
				EBUSY,
				"it is in use: unmount it, swapoff, or stop md or LVM; or udev has it for a moment; --force loses what is not written");
		else if (errno == ENOENT)
			rc = fail(ENOENT, "there is no such disk");
		else
			rc = fail(errno, "%s", strerror(errno));
	}
	close(fd);
	return rc;
}

int blk_detach(const char *device)
{
	struct krdma_blk_detach cmd = { .size = sizeof(cmd) };

	return parse_disk(device, &cmd.disk) ? FAILED : detach(&cmd);
}

static int detach_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		COMMON_LONG,
	};
	struct krdma_blk_detach cmd = { .size = sizeof(cmd) };
	int c, rc;

	while ((c = getopt_long(argc, argv, ":f" COMMON_SHORT, options, NULL)) != -1) {
		if (c == 'f') {
			cmd.flags = KRDMA_BLK_FORCE;
			continue;
		}
		rc = common_option(&cmd_blk, argv, c);
		if (rc >= 0)
			return rc;
	}
	rc = one_disk(argc, argv, &cmd.disk);
	if (rc)
		return rc;
	subject_set("blk detach %s", argv[optind]);
	return detach(&cmd);
}

/* ---- resize ---- */

static int resize(struct krdma_blk_resize *cmd)
{
	const int fd = control_open();
	int rc = DONE;

	if (fd < 0)
		return FAILED;
	if (ioctl(fd, KRDMA_BLK_RESIZE, cmd)) {
		if (errno == EBUSY)
			rc = fail(EBUSY, "another command attaches, detaches or resizes it");
		else if (errno == ENOENT)
			rc = fail(ENOENT, "there is no such disk");
		else if (errno == ECANCELED)
			rc = fail(ECANCELED, "it was detached meanwhile");
		else if (errno == EDQUOT)
			rc = fail(
				EDQUOT,
				"too few segments are left to hold more of it: fewer disks of this peer");
		else if (errno == EOPNOTSUPP)
			rc = fail(
				EOPNOTSUPP,
				"it can't grow: its size is no multiple of the peer's segments, it is durable, "
				"or the peer's module is an older one (the kernel's log says which)");
		else
			rc = fail(errno, "%s (the kernel's log has the reason)", strerror(errno));
	}
	close(fd);
	return rc;
}

static int resize_run(int argc, char **argv)
{
	static const struct option options[] = { COMMON_LONG };
	struct krdma_blk_resize cmd = { .size = sizeof(cmd) };
	struct json_object *root;
	char size[SIZE_TEXT];
	int c, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		rc = common_option(&cmd_blk, argv, c);
		if (rc >= 0)
			return rc;
	}
	rc = one_disk(argc, argv, &cmd.disk);
	if (rc)
		return rc;
	subject_set("blk resize %s", argv[optind]);
	rc = resize(&cmd);
	if (rc)
		return rc;
	if (!json_asked) {
		puts(size_text(cmd.bytes, size));
		return DONE;
	}
	root = json_root();
	json_add_count(root, "size", cmd.bytes);
	json_finish(root);
	return DONE;
}

/* ---- list ---- */

static void blk_fill(struct json_object *object, const struct krdma_blk_info *info)
{
	static const char *const states[] = { "live",      "lost",      "revoked",
					      "attaching", "detaching", "resuming" };
	static const char *const flags[] = { "read-only", "fail-fast", "shared", "takeover",
					     "not-held" };
	char device[32], text[KRDMA_ADDR_TEXT];
	struct json_object *paths;
	uint32_t i;

	snprintf(device, sizeof(device), "/dev/" PREFIX "%u", info->disk);
	json_add_text(object, "device", device);
	json_add_text(object, "state",
		      info->state < ARRAY_SIZE(states) ? states[info->state] : "?");
	json_add_count(object, "size", info->bytes);
	json_add_count(object, "block", info->block_size);
	json_add_flags(object, "flags", info->flags, flags, ARRAY_SIZE(flags));
	json_add_count(object, "openers", info->openers);
	json_add_addr(object, "peer", &info->dst);
	json_add_text(object, "export", info->name);
	json_add_count(object, "queues", info->queues);
	if (info->poll_queues)
		json_add_count(object, "poll_queues", info->poll_queues);
	json_add_count(object, "depth", info->depth);
	json_add_count(object, "timeout", info->timeout_s);
	/* As the configuration has them. */
	if (info->resume_s == KRDMA_RESUME_ALWAYS)
		json_add_text(object, "resume", "always");
	else if (info->resume_s || (info->flags & KRDMA_BLK_FAIL_FAST))
		json_add_count(object, "resume", info->resume_s);
	if (info->keepalive_s)
		json_add_count(object, "keepalive", info->keepalive_s);
	if (!info->npaths)
		return;
	json_add_text(object, "policy", policy_name(info->policy));
	paths = json_object_new_array();
	json_object_object_add(object, "paths", paths);
	for (i = 0; i < info->npaths && i < ARRAY_SIZE(info->paths); i++)
		json_object_array_add(paths, json_object_new_string(
						     krdma_format_addr(&info->paths[i].dst, text)));
}

static int list_all(int fd, struct json_object *array)
{
	struct krdma_blk_info infos[16];
	struct krdma_blk_list cmd = { .size = sizeof(cmd), .stride = sizeof(infos[0]) };
	uint32_t i;

	do {
		cmd.first = cmd.next;
		cmd.count = ARRAY_SIZE(infos);
		cmd.infos = (uintptr_t)infos;
		if (ioctl(fd, KRDMA_BLK_LIST, &cmd))
			return fail(errno, "%s", strerror(errno));
		for (i = 0; i < cmd.count; i++) {
			struct json_object *object = json_object_new_object();

			blk_fill(object, &infos[i]);
			json_object_array_add(array, object);
		}
	} while (cmd.next);
	return DONE;
}

int blk_disks(struct json_object *array)
{
	const int fd = access(CONTROL, F_OK) ? -1 : control_open();
	int rc;

	if (fd < 0)
		return access(CONTROL, F_OK) ? DONE : FAILED;
	rc = list_all(fd, array);
	close(fd);
	return rc;
}

static int list_run(int argc, char **argv)
{
	static const struct option options[] = { COMMON_LONG };
	struct json_object *root, *array;
	int c, fd, rc;

	while ((c = getopt_long(argc, argv, ":" COMMON_SHORT, options, NULL)) != -1) {
		rc = common_option(&cmd_blk, argv, c);
		if (rc >= 0)
			return rc;
	}
	if (optind < argc)
		return usage_error("'%s' is one operand too many", argv[optind]);
	subject_set("blk list");
	fd = control_open();
	if (fd < 0)
		return FAILED;
	root = json_root();
	array = json_object_new_array();
	json_object_object_add(root, "disks", array);
	rc = list_all(fd, array);
	close(fd);
	if (!rc && json_asked) {
		json_finish(root);
		return DONE;
	}
	if (!rc)
		table_print(blk_fields, ARRAY_SIZE(blk_fields), array);
	json_object_put(root);
	return rc;
}

static int blk_run(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} actions[] = {
		{ "attach", attach_run },
		{ "detach", detach_run },
		{ "list", list_run },
		{ "resize", resize_run },
	};
	size_t i;

	if (argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		command_help(&cmd_blk);
		return DONE;
	}
	/* The first letter tells them apart. */
	for (i = 0; argc > 1 && *argv[1] && i < ARRAY_SIZE(actions); i++)
		if (!strncmp(argv[1], actions[i].name, strlen(argv[1])))
			return actions[i].run(argc - 1, argv + 1);
	return argc > 1 ? usage_error("'%s' is not attach, detach, list or resize", argv[1]) :
			  usage_error("attach, detach, list or resize?");
}

const struct command cmd_blk = {
	.name = "blk",
	.usage = "krdma blk attach [OPTIONS] HOST[:PORT]/NAME\n"
		 "       krdma blk detach [--force] DEVICE\n"
		 "       krdma blk resize DEVICE\n"
		 "       krdma blk list",
	.summary = "use the memory of another host as a disk",
	.help = "attach makes a block device of an export, and prints its name. The peer's memory is\n"
		"volatile: the disk is lost with it. The peer sets the memory aside, and lets no other\n"
		"peer write to it. The module krdma_blk is needed, and root.\n\n"
		"attach:\n"
		"  -r, --read-only     no writing, even if the export could be written; others may write\n"
		"  --shared            others may write as well; only cluster file systems support that\n"
		"  --takeover          revoke other writers, for example a host that has crashed\n"
		"  --no-hold           the peer allocates memory on first use, and may take back keys\n"
		"  --block-size SIZE   of a logical block, 512 (default) or 4096\n"
		"  --queues N          hardware queues, 1 to 64 (default: one for each processor,\n"
		"                      8 at most)\n"
		"  --poll-queues N     further hardware queues, for programs that poll (default: none)\n"
		"  --depth N           requests of a queue under way, 1 to 1024 (default 128)\n"
		"  --timeout SECONDS   deadline of a request, from 1 to 86400 (default 30); the time of\n"
		"                      --resume is added\n"
		"  --resume SECONDS    wait so long for a lost connection; 0: the disk is lost with it;\n"
		"                      'always': no limit; the peer's parameter resume may shorten it\n"
		"  --keepalive SECONDS notice a dead path within so many seconds and one more\n"
		"  --path ADDRESS      another address of the peer; may be given again; 'auto': all it has\n"
		"  --policy POLICY     which path is used: in-flight (default), round-robin, latency\n\n"
		"detach:\n"
		"  -f, --force         even if it is open: requests fail, and what is not written is lost\n\n"
		"resize: the export has grown, and the disk grows to its size while it is used\n\n",
	.run = blk_run,
};
