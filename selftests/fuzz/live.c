// SPDX-License-Identifier: GPL-2.0
/*
 * File 0 keeps a session with the peer and one with this host, with regions, an export and a buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

struct live live;

static unsigned char *own_memory, *buffer_memory;
static int queue = -1; /* of its export */

/* Is it one of those that file 0 keeps? */
bool kept_id(__u32 id)
{
	unsigned int kind, i;

	for (kind = 0; kind < KINDS; kind++)
		for (i = 0; i < live.kept[kind]; i++)
			if (files[0].ids[kind][i] == id)
				return true;
	return false;
}

static void live_keep(enum kind kind, __u32 id, int rc, const char *what)
{
	if (rc)
		kst_bail("file 0: %s: %s", what, kst_last_error(files[0].fd, NULL));
	keep(&files[0], kind, id);
	live.kept[kind]++;
}

struct live_session {
	const char *address;
	__u32 id;
	int rc;
};

/* A machine that is kept from its processor may take longer than a connection may. */
static bool live_connect(void *arg)
{
	struct live_session *to = arg;
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_MESSAGES,
		.dst = kst_ipv4(to->address, 0),
	};

	to->rc = kst_call(files[0].fd, KRDMA_IOC_CONNECT, &cmd);
	to->id = cmd.id;
	return !to->rc;
}

/* The name of the file before is free when that has been closed behind its back. */
static bool live_export(void *id)
{
	return kst_export(files[0].fd, "fuzz-own", own_memory, FIXED_BYTES,
			  KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_ATOMIC |
				  KRDMA_RIGHT_MESSAGE,
			  id) != -EEXIST;
}

static void live_region(__u32 session, const char *name)
{
	__u32 id = 0;
	int rc = kst_open_region(files[0].fd, session, name, 0, &id, NULL);

	live_keep(KIND_REGION, id, rc, name);
}

void live_memory(void)
{
	own_memory = guarded(FIXED_BYTES);
	buffer_memory = guarded(FIXED_BYTES);
}

void live_open(void)
{
	struct live_session peer = { .address = peer_address }, self = { .address = self_address };
	struct file *f = &files[0];
	__u32 id = 0;
	int rc;

	if (queue >= 0)
		close(queue);
	close_file(f);
	open_file(f);
	f->live = true;
	memset(live.kept, 0, sizeof(live.kept));
	kst_wait(live_connect, &peer);
	live_keep(KIND_SESSION, peer.id, peer.rc, "the peer");
	live_region(peer.id, "fuzz");
	live_region(peer.id, "fuzz-messages");
	if (!kst_wait(live_export, &id) || !id)
		kst_bail("file 0: its export: %s", kst_last_error(f->fd, NULL));
	live_keep(KIND_EXPORT, id, 0, "its export");
	queue = kst_message_queue(f->fd, id, KRDMA_MESSAGE_QUEUE_NONBLOCK);
	live.has_self = live_connect(&self);
	if (live.has_self) {
		live_keep(KIND_SESSION, self.id, 0, "this host");
		live_region(self.id, "fuzz-own");
	}
	rc = kst_buffer(f->fd, buffer_memory, FIXED_BYTES, KRDMA_BUFFER_WRITABLE, &id);
	live_keep(KIND_BUFFER, id, rc, "its buffer");
	live.accepted = live.reaped = 0;
	live.counted = true;
	live.lost = live.poor = live.message_sent = live.nonblock_set = false;
}

static bool live_works(void)
{
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .timeout_ms = 10000 * slow };
	unsigned int i;

	for (i = 0; i < live.kept[KIND_SESSION]; i++) {
		ping.session = files[0].ids[KIND_SESSION][i];
		if (kst_call(files[0].fd, KRDMA_IOC_PING, &ping))
			return false;
	}
	for (i = 0; i < live.kept[KIND_REGION]; i++)
		if (kst_move(files[0].fd, KRDMA_OP_READ, files[0].ids[KIND_REGION][i], 0,
			     buffer_memory, 8, NULL) == -ESTALE)
			return false;
	return true;
}

void live_reset(void)
{
	static struct krdma_completion comps[32];
	static unsigned char message[4 * KST_PAGE];
	static unsigned int inputs;
	struct file *f = &files[0];
	unsigned int kind;
	int n = 0;

	if (f->fd < 0) {
		live_open();
		return;
	}
	if (live.nonblock_set)
		fcntl(f->fd, F_SETFL, 0);
	if (live.accepted != live.reaped || !live.counted) {
		kst_cancel(f->fd, 0, KRDMA_CANCEL_ALL);
		/* EINTR: libFuzzer's own timer. */
		while ((n = kst_reap(f->fd, comps, KST_ARRAY_SIZE(comps))) > 0 || n == -EINTR)
			live.reaped += n > 0 ? n : 0;
		if (n)
			finding("completions can't be read", n);
		if (live.counted && live.accepted != live.reaped)
			finding("operations without one completion", live.accepted - live.reaped);
		live.accepted = live.reaped = 0;
		live.counted = true;
	}
	while (live.message_sent && read(queue, message, sizeof(message)) > 0)
		;
	for (kind = 0; kind < KINDS; kind++)
		while (f->nids[kind] > live.kept[kind])
			kst_destroy(f->fd, f->ids[kind][--f->nids[kind]]);
	if (live.lost || ((live.poor || ++inputs % 256 == 0) && !live_works()))
		live_open();
	live.poor = live.message_sent = live.nonblock_set = false;
}
