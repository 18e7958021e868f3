// SPDX-License-Identifier: GPL-2.0
/* What the kernel lists, as objects to print. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/socket.h>

#include "cli.h"

int list_fetch(struct krdma *krdma, const struct list *list, uint32_t session,
	       struct json_object *root)
{
	struct json_object *rows = json_object_new_array();
	struct krdma_iter *iter;
	const void *entry;

	json_object_object_add(root, list->key, rows);
	if (krdma_iter_new(krdma, list->kind, session, &iter))
		return -1;
	while ((entry = krdma_iter_next(iter))) {
		struct json_object *row = json_object_new_object();

		list->fill(row, entry);
		json_object_array_add(rows, row);
	}
	return krdma_iter_free(iter) ? -1 : 0;
}

void list_print_table(const struct list *list, struct json_object *root)
{
	table_print(list->fields, list->count, json_object_object_get(root, list->key));
}

void list_print_objects(const struct list *list, struct json_object *root)
{
	objects_print(list->title, list->fields, list->count,
		      json_object_object_get(root, list->key));
}

static const char *name_of(const char *const *names, size_t count, uint32_t value)
{
	return value < count && names[value] ? names[value] : "unknown";
}

#define NAME_OF(names, value) name_of(names, ARRAY_SIZE(names), value)

/* ---- Devices ---- */

static const struct field device_fields[] = {
	{ "device", FIELD_TEXT, false },  { "port", FIELD_COUNT, false },
	{ "netdev", FIELD_TEXT, false },  { "address", FIELD_TEXT, false },
	{ "gid", FIELD_TEXT, false },     { "gid_index", FIELD_COUNT, false },
	{ "type", FIELD_TEXT, false },    { "segment_pages", FIELD_COUNT, false },
	{ "sge", FIELD_COUNT, false },    { "sge_rd", FIELD_COUNT, false },
	{ "usable", FIELD_TEXT, false },  { "reason", FIELD_TEXT, false },
	{ "atomics", FIELD_TEXT, false }, { "notes", FIELD_TEXT, false },
};

static const char *gid_type(const struct krdma_device_info *info)
{
	switch (info->transport) {
	case KRDMA_TRANSPORT_INFINIBAND:
		return "infiniband";
	case KRDMA_TRANSPORT_IWARP:
		return "iwarp";
	case KRDMA_TRANSPORT_ROCE:
		return info->gid_type ? "roce-v2" : "roce-v1";
	default:
		return "unknown";
	}
}

/* The first address of a network device, of IPv4 if it has one. */
static void netdev_address(const char *netdev, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in6 *sin6;
	const struct sockaddr_in *sin;
	struct ifaddrs *all, *one;

	if (getifaddrs(&all))
		return;
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || strcmp(one->ifa_name, netdev) != 0)
			continue;
		if (one->ifa_addr->sa_family == AF_INET) {
			sin = (const void *)one->ifa_addr;
			inet_ntop(AF_INET, &sin->sin_addr, text, INET6_ADDRSTRLEN);
			break;
		}
		if (one->ifa_addr->sa_family == AF_INET6 && !*text) {
			sin6 = (const void *)one->ifa_addr;
			inet_ntop(AF_INET6, &sin6->sin6_addr, text, INET6_ADDRSTRLEN);
		}
	}
	freeifaddrs(all);
}

/*
 * The IP address that a RoCE v2 GID holds, "" if it holds none. On iWARP a GID is
 * an Ethernet address, and any address of its network device is used.
 */
static const char *gid_address(const struct krdma_device_info *info, char text[INET6_ADDRSTRLEN])
{
	static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

	*text = '\0';
	if (info->transport == KRDMA_TRANSPORT_IWARP)
		netdev_address(info->netdev, text);
	if (info->transport != KRDMA_TRANSPORT_ROCE || !info->gid_type)
		return text;
	if (!memcmp(info->gid, v4_mapped, sizeof(v4_mapped)))
		inet_ntop(AF_INET, info->gid + sizeof(v4_mapped), text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, info->gid, text, INET6_ADDRSTRLEN);
	return text;
}

static void device_fill(struct json_object *object, const void *entry)
{
	const struct krdma_device_info *info = entry;
	char text[INET6_ADDRSTRLEN];

	json_add_text(object, "device", info->name);
	json_add_count(object, "port", info->port);
	json_add_text(object, "netdev", info->netdev);
	json_add_text(object, "address", gid_address(info, text));
	inet_ntop(AF_INET6, info->gid, text, sizeof(text));
	json_add_text(object, "gid", text);
	json_add_count(object, "gid_index", info->gid_index);
	json_add_text(object, "type", gid_type(info));
	json_add_count(object, "segment_pages", info->max_segment_pages);
	json_add_count(object, "sge", info->max_sge);
	json_add_count(object, "sge_rd", info->max_sge_rd);
	json_add_text(object, "usable", info->flags & KRDMA_DEVICE_USABLE ? "yes" : "no");
	json_add_text(object, "reason", info->reason);
	json_add_text(object, "atomics",
		      info->flags & KRDMA_DEVICE_ATOMIC_CPU ? "cpu" :
		      info->flags & KRDMA_DEVICE_ATOMIC     ? "device" :
							      "no");
	json_add_text(object, "notes",
		      info->flags & KRDMA_DEVICE_READ_TO_WRITE ?
			      "a region to write must be readable as well" :
			      "");
}

const struct list list_devices = {
	KRDMA_LIST_DEVICES,        "devices",   "device", device_fields,
	ARRAY_SIZE(device_fields), device_fill,
};

/* ---- Listeners ---- */

static const struct field listener_fields[] = {
	{ "address", FIELD_TEXT, false },   { "state", FIELD_TEXT, false },
	{ "sessions", FIELD_COUNT, false }, { "accepted", FIELD_COUNT, false },
	{ "refused", FIELD_COUNT, false },  { "allow", FIELD_COUNT, false },
};

static void listener_fill(struct json_object *object, const void *entry)
{
	const struct krdma_listener_info *info = entry;

	json_add_addr(object, "address", &info->addr);
	json_add_text(object, "state",
		      info->flags & KRDMA_LISTENER_CLOSED ? "closed" :
		      info->flags & KRDMA_LISTENER_DOWN   ? "waiting" :
							    "up");
	json_add_count(object, "sessions", info->sessions);
	json_add_count(object, "accepted", info->accepted);
	json_add_count(object, "refused", info->refused);
	json_add_count(object, "allow", info->allow_count);
}

const struct list list_listeners = {
	KRDMA_LIST_LISTENERS,        "listeners",   "listener", listener_fields,
	ARRAY_SIZE(listener_fields), listener_fill,
};

/* ---- Sessions, paths and channels ---- */

static const char *const state_names[] = {
	[KRDMA_SESSION_CONNECTING] = "connecting", [KRDMA_SESSION_UP] = "up",
	[KRDMA_SESSION_CLOSING] = "closing",       [KRDMA_SESSION_DEAD] = "dead",
	[KRDMA_SESSION_RESUMING] = "resuming",     [KRDMA_SESSION_DRAINING] = "draining",
};

static const char *const session_flags[] = { "private", "inbound", "lingering" };

static const struct field session_fields[] = {
	{ "session", FIELD_COUNT, false },
	{ "local", FIELD_TEXT, false },
	{ "peer", FIELD_TEXT, false },
	{ "state", FIELD_TEXT, false },
	{ "flags", FIELD_LIST, false },
	{ "device", FIELD_TEXT, false },
	{ "uid", FIELD_COUNT, true },
	{ "users", FIELD_COUNT, false },
	{ "regions", FIELD_COUNT, false },
	{ "grants", FIELD_COUNT, false },
	{ "segments", FIELD_COUNT, false },
	{ "in_flight", FIELD_COUNT, false },
	{ "waiting", FIELD_COUNT, false },
	{ "requests", FIELD_COUNT, false },
	{ "bytes_read", FIELD_SIZE, true },
	{ "bytes_written", FIELD_SIZE, false },
	{ "transfers", FIELD_COUNT, false },
	{ "failures", FIELD_COUNT, false },
	{ "age_ms", FIELD_MS, false },
	{ "idle_ms", FIELD_MS, false },
	{ "resume_s", FIELD_COUNT, true },
	{ "keepalive_s", FIELD_COUNT, false },
	{ "away_ms", FIELD_MS, false },
	{ "peer_incarnation", FIELD_TEXT, false },
	{ "served_read_bytes", FIELD_SIZE, true },
	{ "served_written_bytes", FIELD_SIZE, false },
	{ "served_reads", FIELD_COUNT, false },
	{ "served_writes", FIELD_COUNT, false },
};

static void session_fill(struct json_object *object, const void *entry)
{
	const struct krdma_session_info *info = entry;

	json_add_count(object, "session", info->serial);
	json_add_addr(object, "local", &info->local);
	json_add_addr(object, "peer", &info->peer);
	json_add_text(object, "state", NAME_OF(state_names, info->state));
	json_add_flags(object, "flags", info->flags, session_flags, ARRAY_SIZE(session_flags));
	json_add_text(object, "device", info->device);
	json_add_count(object, "uid", info->uid);
	json_add_count(object, "users", info->users);
	json_add_count(object, "regions", info->regions);
	json_add_count(object, "grants", info->grants);
	json_add_count(object, "segments", info->segments);
	json_add_count(object, "in_flight", info->in_flight);
	json_add_count(object, "waiting", info->waiting);
	json_add_count(object, "requests", info->requests);
	json_add_count(object, "bytes_read", info->bytes_read);
	json_add_count(object, "bytes_written", info->bytes_written);
	json_add_count(object, "transfers", info->transfers);
	json_add_count(object, "failures", info->failures);
	json_add_count(object, "age_ms", info->age_ms);
	json_add_count(object, "idle_ms", info->idle_ms);
	json_add_count(object, "resume_s", info->resume_s);
	json_add_count(object, "keepalive_s", info->keepalive_s);
	json_add_count(object, "away_ms", info->away_ms);
	json_add_hex(object, "peer_incarnation", info->peer_incarnation);
	json_add_count(object, "transfers_ns", info->transfers_ns);
	json_add_count(object, "served_read_bytes", info->served_read_bytes);
	json_add_count(object, "served_written_bytes", info->served_written_bytes);
	json_add_count(object, "served_reads", info->served_reads);
	json_add_count(object, "served_writes", info->served_writes);
}

const struct list list_sessions = {
	KRDMA_LIST_SESSIONS,        "sessions",   "session", session_fields,
	ARRAY_SIZE(session_fields), session_fill,
};

static const struct field path_fields[] = {
	{ "path", FIELD_COUNT, false },          { "session", FIELD_COUNT, false },
	{ "state", FIELD_TEXT, false },          { "device", FIELD_TEXT, false },
	{ "local", FIELD_TEXT, false },          { "peer", FIELD_TEXT, false },
	{ "channels", FIELD_COUNT, false },      { "under_way", FIELD_COUNT, false },
	{ "losses", FIELD_COUNT, false },        { "transfers", FIELD_COUNT, false },
	{ "failures", FIELD_COUNT, false },      { "bytes_read", FIELD_COUNT, false },
	{ "bytes_written", FIELD_COUNT, false },
};

static void path_fill(struct json_object *object, const void *entry)
{
	static const char *const states[] = { "", "up", "down" };
	const struct krdma_path_info *info = entry;

	json_add_count(object, "path", info->index);
	json_add_count(object, "session", info->session);
	json_add_text(object, "state", NAME_OF(states, info->state));
	json_add_text(object, "device", info->device);
	json_add_addr(object, "local", &info->local);
	json_add_addr(object, "peer", &info->peer);
	json_add_count(object, "channels", info->channels);
	json_add_count(object, "under_way", info->under_way);
	json_add_count(object, "losses", info->losses);
	json_add_count(object, "transfers", info->transfers);
	json_add_count(object, "transfers_ns", info->transfers_ns);
	json_add_count(object, "failures", info->failures);
	json_add_count(object, "bytes_read", info->bytes_read);
	json_add_count(object, "bytes_written", info->bytes_written);
}

const struct list list_paths = {
	KRDMA_LIST_PATHS, "paths", "path", path_fields, ARRAY_SIZE(path_fields), path_fill,
};

static const struct field channel_fields[] = {
	{ "channel", FIELD_COUNT, false },      { "session", FIELD_COUNT, false },
	{ "state", FIELD_TEXT, false },         { "device", FIELD_TEXT, false },
	{ "port", FIELD_COUNT, false },         { "qp", FIELD_COUNT, false },
	{ "slots", FIELD_COUNT, false },        { "slots_used", FIELD_COUNT, false },
	{ "requests_max", FIELD_COUNT, false }, { "requests", FIELD_COUNT, false },
	{ "bytes_read", FIELD_COUNT, false },   { "bytes_written", FIELD_COUNT, false },
	{ "path", FIELD_COUNT, false },
};

static void channel_fill(struct json_object *object, const void *entry)
{
	const struct krdma_channel_info *info = entry;

	json_add_count(object, "channel", info->index);
	json_add_count(object, "session", info->session);
	json_add_text(object, "state", NAME_OF(state_names, info->state));
	json_add_text(object, "device", info->device);
	json_add_count(object, "port", info->port);
	json_add_count(object, "qp", info->qp_num);
	json_add_count(object, "slots", info->slots);
	json_add_count(object, "slots_used", info->slots_used);
	json_add_count(object, "requests_max", info->requests_max);
	json_add_count(object, "requests", info->requests);
	json_add_count(object, "bytes_read", info->bytes_read);
	json_add_count(object, "bytes_written", info->bytes_written);
	json_add_count(object, "path", info->path);
}

const struct list list_channels = {
	KRDMA_LIST_CHANNELS,        "channels",   "channel", channel_fields,
	ARRAY_SIZE(channel_fields), channel_fill,
};

/* ---- Exports and regions ---- */

static const char *const export_flags[] = { "file" };

static const struct field export_fields[] = {
	{ "name", FIELD_TEXT, false },
	{ "length", FIELD_SIZE, false },
	{ "rights", FIELD_LIST, false },
	{ "flags", FIELD_LIST, false },
	{ "pinned_bytes", FIELD_SIZE, false },
	{ "uid", FIELD_COUNT, true },
	{ "grants", FIELD_COUNT, false },
	{ "segments", FIELD_COUNT, false },
	{ "max_segments", FIELD_COUNT, false },
	{ "recalls", FIELD_COUNT, false },
	{ "held", FIELD_COUNT, false },
	{ "exclusive", FIELD_COUNT, true },
	{ "messages", FIELD_COUNT, true },
	{ "senders_waiting", FIELD_COUNT, false },
	{ "served_read_bytes", FIELD_SIZE, true },
	{ "served_written_bytes", FIELD_SIZE, false },
	{ "served_reads", FIELD_COUNT, false },
	{ "served_writes", FIELD_COUNT, false },
};

static void export_fill(struct json_object *object, const void *entry)
{
	const struct krdma_export_info *info = entry;

	json_add_text(object, "name", info->name);
	json_add_count(object, "length", info->length);
	json_add_rights(object, "rights", info->rights);
	json_add_flags(object, "flags", info->flags, export_flags, ARRAY_SIZE(export_flags));
	json_add_count(object, "pinned_bytes", info->pinned_bytes);
	json_add_count(object, "uid", info->uid);
	json_add_count(object, "grants", info->grants);
	json_add_count(object, "segments", info->segments);
	json_add_count(object, "max_segments", info->max_segments);
	json_add_count(object, "recalls", info->recalls);
	json_add_count(object, "held", info->held);
	json_add_count(object, "exclusive", info->exclusive);
	json_add_count(object, "messages", info->messages);
	json_add_count(object, "senders_waiting", info->senders_waiting);
	json_add_count(object, "served_read_bytes", info->served_read_bytes);
	json_add_count(object, "served_written_bytes", info->served_written_bytes);
	json_add_count(object, "served_reads", info->served_reads);
	json_add_count(object, "served_writes", info->served_writes);
}

const struct list list_exports = {
	KRDMA_LIST_EXPORTS,        "exports",   "export", export_fields,
	ARRAY_SIZE(export_fields), export_fill,
};

static const char *const grant_flags[] = { "revoked", "held", "exclusive" };

static const struct field grant_fields[] = {
	{ "name", FIELD_TEXT, false },      { "session", FIELD_COUNT, false },
	{ "peer", FIELD_TEXT, false },      { "uid", FIELD_COUNT, false },
	{ "rights", FIELD_LIST, false },    { "flags", FIELD_LIST, false },
	{ "segments", FIELD_COUNT, false }, { "grant", FIELD_COUNT, false },
	{ "read_bytes", FIELD_SIZE, true }, { "written_bytes", FIELD_SIZE, false },
	{ "reads", FIELD_COUNT, false },    { "writes", FIELD_COUNT, false },
};

static void grant_fill(struct json_object *object, const void *entry)
{
	const struct krdma_grant_info *info = entry;

	json_add_text(object, "name", info->name);
	json_add_count(object, "session", info->session);
	json_add_addr(object, "peer", &info->peer);
	json_add_count(object, "uid", info->uid);
	json_add_rights(object, "rights", info->rights);
	json_add_flags(object, "flags", info->flags, grant_flags, ARRAY_SIZE(grant_flags));
	json_add_count(object, "segments", info->segments);
	json_add_count(object, "grant", info->grant);
	json_add_count(object, "generation", info->generation);
	json_add_count(object, "read_bytes", info->read_bytes);
	json_add_count(object, "written_bytes", info->written_bytes);
	json_add_count(object, "reads", info->reads);
	json_add_count(object, "writes", info->writes);
}

const struct list list_grants = {
	KRDMA_LIST_GRANTS, "grants", "grant", grant_fields, ARRAY_SIZE(grant_fields), grant_fill,
};

static const char *const region_flags[] = { "stale", "held", "exclusive" };

static const struct field region_fields[] = {
	{ "name", FIELD_TEXT, false },   { "session", FIELD_COUNT, false },
	{ "length", FIELD_SIZE, false }, { "rights", FIELD_LIST, false },
	{ "flags", FIELD_LIST, false },  { "segment_size", FIELD_SIZE, true },
	{ "keys", FIELD_COUNT, false },  { "generation", FIELD_COUNT, false },
	{ "uid", FIELD_COUNT, false },
};

static void region_fill(struct json_object *object, const void *entry)
{
	const struct krdma_region_info *info = entry;

	json_add_text(object, "name", info->name);
	json_add_count(object, "session", info->session);
	json_add_count(object, "length", info->length);
	json_add_rights(object, "rights", info->rights);
	json_add_flags(object, "flags", info->flags, region_flags, ARRAY_SIZE(region_flags));
	json_add_count(object, "segment_size", info->segment_size);
	json_add_count(object, "keys", info->keys);
	json_add_count(object, "generation", info->generation);
	json_add_count(object, "uid", info->uid);
}

const struct list list_regions = {
	KRDMA_LIST_REGIONS,        "regions",   "region", region_fields,
	ARRAY_SIZE(region_fields), region_fill,
};

static const struct field peer_export_fields[] = {
	{ "name", FIELD_TEXT, false },
	{ "length", FIELD_SIZE, false },
	{ "rights", FIELD_LIST, false },
};

static void peer_export_fill(struct json_object *object, const void *entry)
{
	const struct krdma_peer_export_info *info = entry;

	json_add_text(object, "name", info->name);
	json_add_count(object, "length", info->length);
	json_add_rights(object, "rights", info->rights);
}

const struct list list_peer_exports = {
	KRDMA_LIST_PEER_EXPORTS,        "exports",        "export", peer_export_fields,
	ARRAY_SIZE(peer_export_fields), peer_export_fill,
};

/* ---- Transfers ---- */

static const char *const opcode_names[] = {
	[KRDMA_OP_READ] = "read",    [KRDMA_OP_WRITE] = "write",   [KRDMA_OP_FETCH_ADD] = "add",
	[KRDMA_OP_CMP_SWAP] = "cas", [KRDMA_OP_DIGEST] = "digest", [KRDMA_OP_SEND] = "send",
	[KRDMA_OP_FLUSH] = "flush",
};

const char *operation_name(uint32_t opcode)
{
	return NAME_OF(opcode_names, opcode);
}

static const char *const wait_names[] = {
	[KRDMA_WAIT_SLOT] = "slot",         [KRDMA_WAIT_KEY] = "key",
	[KRDMA_WAIT_CREDIT] = "credit",     [KRDMA_WAIT_WIRE] = "wire",
	[KRDMA_WAIT_TURN] = "turn",         [KRDMA_WAIT_DIGEST] = "digest",
	[KRDMA_WAIT_RECEIVER] = "receiver", [KRDMA_WAIT_FENCE] = "fence",
};

static const struct field transfer_fields[] = {
	{ "operation", FIELD_TEXT, false }, { "name", FIELD_TEXT, false },
	{ "offset", FIELD_COUNT, false },   { "length", FIELD_SIZE, false },
	{ "posted", FIELD_SIZE, false },    { "done", FIELD_SIZE, false },
	{ "age_ms", FIELD_MS, false },      { "waits_for", FIELD_TEXT, false },
	{ "wait_ms", FIELD_MS, false },     { "session", FIELD_COUNT, false },
	{ "uid", FIELD_COUNT, false },      { "pid", FIELD_COUNT, false },
	{ "user_data", FIELD_TEXT, false },
};

static void transfer_fill(struct json_object *object, const void *entry)
{
	const struct krdma_transfer_info *info = entry;

	json_add_text(object, "operation", operation_name(info->opcode));
	json_add_text(object, "name", info->name);
	json_add_count(object, "offset", info->offset);
	json_add_count(object, "length", info->length);
	json_add_count(object, "posted", info->posted);
	json_add_count(object, "done", info->done);
	json_add_count(object, "age_ms", info->age_ms);
	json_add_text(object, "waits_for", NAME_OF(wait_names, info->wait));
	json_add_count(object, "wait_ms", info->wait_ms);
	json_add_count(object, "session", info->session);
	json_add_count(object, "uid", info->uid);
	json_add_count(object, "pid", info->pid);
	json_add_hex(object, "user_data", info->user_data);
}

const struct list list_transfers = {
	KRDMA_LIST_TRANSFERS,        "transfers",   "transfer", transfer_fields,
	ARRAY_SIZE(transfer_fields), transfer_fill,
};
