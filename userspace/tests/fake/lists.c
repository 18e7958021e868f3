// SPDX-License-Identifier: GPL-2.0
/* What LIST and MONITOR show. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define TRANSFERS 150 /* more than one call of the library fetches */

static unsigned int looks;

static void fill_entry(const struct krdma_ioc_list *arg, uint64_t n, void *entry)
{
	static const struct krdma_sockaddr here = { .family = AF_INET, .addr = { 10, 0, 0, 1 } };
	static const struct krdma_sockaddr there = { .family = AF_INET6,
						     .port = 7471,
						     .addr = { 0xfd, [15] = 2 } };

	const char *away = getenv("KRDMA_FAKE_AWAY");
	struct krdma_latency_info *latency;

	memset(entry, 0, arg->stride);
	switch (arg->kind) {
	case KRDMA_LIST_DEVICES:
		*(struct krdma_device_info *)entry = (struct krdma_device_info){
			.name = "rxe0",
			.netdev = "eth0",
			.port = 1,
			.gid_index = 1,
			.gid = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
			.transport = KRDMA_TRANSPORT_ROCE,
			.gid_type = 1,
			.flags = KRDMA_DEVICE_USABLE,
			.max_segment_pages = 512,
			.max_sge = 32,
			.max_sge_rd = 32,
		};
		break;
	case KRDMA_LIST_LISTENERS:
		((struct krdma_listener_info *)entry)->addr = here;
		break;
	case KRDMA_LIST_SESSIONS:
		looks++;
		*(struct krdma_session_info *)entry = (struct krdma_session_info){
			.serial = 3,
			.local = here,
			.peer = there,
			.state = KRDMA_SESSION_UP,
			.flags = KRDMA_SESSION_INBOUND,
			.bytes_read = 1ULL << 63,
			/* 1 MiB and 16 transfers of 2 ms for each look. */
			.bytes_written = looks * 1048576ULL,
			.transfers = looks * 16ULL,
			.transfers_ns = looks * 16ULL * 2000000,
			.served_read_bytes = looks * 4096ULL,
			.device = "rxe0",
			.resume_s = 60,
			.away_ms = away && !access(away, F_OK),
		};
		break;
	case KRDMA_LIST_EXPORTS:
		strcpy(((struct krdma_export_info *)entry)->name, "scratch");
		((struct krdma_export_info *)entry)->served_written_bytes = looks * 8192ULL;
		((struct krdma_export_info *)entry)->served_writes = looks;
		break;
	case KRDMA_LIST_GRANTS:
		*(struct krdma_grant_info *)entry = (struct krdma_grant_info){
			.session = 3,
			.peer = there,
			.uid = 1000,
			.rights = KRDMA_RIGHT_READ,
			.grant = 7,
			.read_bytes = 5000000,
			.reads = 12,
			.name = "scratch",
		};
		break;
	case KRDMA_LIST_LATENCIES:
		latency = entry;
		strcpy(latency->device, "rxe0");
		latency->opcode = KRDMA_OP_WRITE;
		latency->length_max = 4096;
		latency->sum_ns = 1000000;
		/* Of 100, 50 take up to 4096 ns, 49 up to 8192 ns, one is beyond all. */
		latency->counts[2] = 50;
		latency->counts[3] = 49;
		latency->counts[KRDMA_LATENCY_BUCKETS - 1] = 1;
		break;
	case KRDMA_LIST_TRANSFERS:
		*(struct krdma_transfer_info *)entry = (struct krdma_transfer_info){
			.opcode = KRDMA_OP_WRITE,
			.wait = KRDMA_WAIT_KEY,
			.user_data = n,
			.name = "scratch",
		};
		break;
	}
}

static uint64_t list_length(uint32_t kind)
{
	return kind == KRDMA_LIST_TRANSFERS ? TRANSFERS : 1;
}

/* What the peer publishes is what lies in the directory. */
static int list_files(struct krdma_ioc_list *arg)
{
	struct krdma_peer_export_info *entries = (void *)(uintptr_t)arg->entries;
	DIR *dir = opendir(directory());
	const struct dirent *entry;
	struct stat st;
	uint32_t n = 0;

	while (dir && (entry = readdir(dir)) && n < arg->count) {
		if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0))
			continue;
		snprintf(entries[n].name, sizeof(entries[n].name), "%.63s", entry->d_name);
		entries[n].length = (uint64_t)st.st_size;
		entries[n++].rights = file_rights(st.st_mode) & ~KRDMA_RIGHT_ATOMIC;
	}
	if (dir)
		closedir(dir);
	arg->count = n;
	arg->cursor = 0;
	return 0;
}

/* Of the peer: the one that is connected to, and two others. */
static int list_addresses(struct krdma_ioc_list *arg)
{
	static const char *const addrs[] = { "10.0.0.3", "10.0.0.2", "fd00::9" };
	struct krdma_sockaddr *to = (void *)(uintptr_t)arg->entries;

	for (arg->count = 0; arg->count < 3; arg->count++, to++) {
		memset(to, 0, sizeof(*to));
		to->family = arg->count < 2 ? AF_INET : AF_INET6;
		to->port = KRDMA_DEFAULT_PORT;
		inet_pton(to->family, addrs[arg->count], to->addr);
	}
	arg->cursor = 0;
	return 0;
}

int do_list(struct krdma_ioc_list *arg)
{
	const uint64_t end = list_length(arg->kind);
	char *entries = (char *)(uintptr_t)arg->entries;
	uint32_t n;

	if (arg->kind == KRDMA_LIST_PEER_EXPORTS)
		return list_files(arg);
	if (arg->kind == KRDMA_LIST_ADDRESSES)
		return list_addresses(arg);
	for (n = 0; n < arg->count && arg->cursor < end; n++)
		fill_entry(arg, arg->cursor++, entries + (size_t)n * arg->stride);
	arg->count = n;
	if (arg->cursor == end)
		arg->cursor = 0;
	return 0;
}

/* Three, and then the end, which the module's file does not have. */
int do_monitor(struct krdma_ioc_monitor *arg)
{
	const struct krdma_sockaddr there = { .family = AF_INET, .addr = { 10, 0, 0, 2 } };
	const struct krdma_monitor_event events[] = {
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_SESSION_UP,
		  .time_ns = 1500000000,
		  .session = 3,
		  .uid = 1000,
		  .peer = there,
		  .name = "rxe0" },
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_SESSION_ENDED,
		  .time_ns = 2500000000,
		  .lost = 2,
		  .session = 3,
		  .uid = 1000,
		  .status = -ECONNRESET,
		  .peer = there,
		  .cause = "transport retry counter exceeded" },
		{ .size = sizeof(events[0]),
		  .type = KRDMA_EVENT_EXPORT_ADDED,
		  .time_ns = 3500000000,
		  .name = "scratch" },
	};
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || write(ends[1], events, sizeof(events)) != sizeof(events))
		abort();
	close(ends[1]);
	arg->fd = ends[0];
	return 0;
}
