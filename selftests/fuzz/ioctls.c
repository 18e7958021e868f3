// SPDX-License-Identifier: GPL-2.0
/*
 * The structs of the ioctls, but SUBMIT.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#define LISTENERS 4
/* Of this host, for the input's own listeners; others are never touched. */
#define PORT 43000

static struct __kernel_sockaddr_storage listeners[LISTENERS];
static unsigned int nlisteners;

static void unlisten_last(void)
{
	struct krdma_ioc_unlisten gone = { .size = sizeof(gone), .addr = listeners[--nlisteners] };

	kst_call(files[0].fd, KRDMA_IOC_UNLISTEN, &gone);
}

void listener_made(const struct __kernel_sockaddr_storage *addr)
{
	if (nlisteners == LISTENERS)
		unlisten_last();
	listeners[nlisteners++] = *addr;
}

void listeners_reset(void)
{
	while (nlisteners)
		unlisten_last();
}

static struct __kernel_sockaddr_storage any_address(void)
{
	struct __kernel_sockaddr_storage addr =
		kst_ipv4(byte() & 1 ? self_address : "0.0.0.0", PORT + byte() % 4);

	if (rarely(16)) {
		addr.ss_family = AF_INET6;
		/* The port is where it is for IPv4. */
		memset((char *)&addr + offsetof(struct sockaddr_in, sin_addr), 0,
		       sizeof(struct in_addr));
	}
	return addr;
}

/* Of IPv4 or IPv6: it is in the same place. */
static __u16 port_of(const struct __kernel_sockaddr_storage *addr)
{
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	return ntohs(in.sin_port);
}

/* After words of it were overwritten: only ports that are the input's own. */
static void own_port(struct __kernel_sockaddr_storage *addr)
{
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	if (port_of(addr) < PORT || port_of(addr) > PORT + 7)
		in.sin_port = htons(PORT + port_of(addr) % 4);
	memcpy(addr, &in, sizeof(in));
}

void step_simple(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	unsigned int i;
	enum kind kind;

	switch (step) {
	case STEP_DESTROY:
		kind = byte() % KINDS;
		for (i = 0; i < KINDS && !head.file->nids[kind]; i++)
			kind = (kind + 1) % KINDS;
		c.destroy.id = any_id(head.file, kind);
		/* Of what file 0 keeps only seldom one: it has to be made again. */
		if (head.file == files && kept_id(c.destroy.id) && !rarely(8))
			c.destroy.id = head.file->nids[kind] > live.kept[kind] ?
					       head.file->ids[kind][live.kept[kind]] :
					       0;
		break;
	case STEP_PING:
		head.file = who_has(head.file, KIND_SESSION);
		c.ping.session = any_id(head.file, KIND_SESSION);
		c.ping.length = byte() * 2;
		c.ping.timeout_ms = rarely(32) ? 1 : 2000 * slow;
		break;
	case STEP_BUFFER:
		c.buffer.flags = byte() & 1;
		break;
	case STEP_OPEN:
		head.file = who_has(head.file, KIND_SESSION);
		c.open.session = any_id(head.file, KIND_SESSION);
		c.open.rights = rarely(96) ? byte() & 31 : 0;
		c.open.timeout_ms = rarely(16) ? 1 : 2000 * slow;
		snprintf(c.open.name, sizeof(c.open.name), "fuzz%s",
			 ((const char *[]){ "", "", "-messages", "-own", "-0", "-1", "-2",
					    "-none" })[byte() % 8]);
		break;
	case STEP_CANCEL:
		if (byte() & 1)
			c.cancel.flags = KRDMA_CANCEL_ALL;
		else
			c.cancel.user_data = byte() % 8;
		break;
	case STEP_QUEUE:
		head.file = who_has(head.file, KIND_EXPORT);
		c.queue.flags = byte() & 1;
		c.queue.id = any_id(head.file, KIND_EXPORT);
		break;
	case STEP_MONITOR:
		c.monitor.flags = byte() & 1;
		break;
	default:
		break;
	}
	change(&head, step, &c);
	if (step == STEP_BUFFER) {
		c.buffer.addr = any_pointer();
		c.buffer.length = any_length();
	}
	go(&head, step, &c);
}

void step_list(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };

	c.list.kind = 1 + byte() % KRDMA_LIST_GRANTS;
	c.list.stride = rarely(64) ? any_word() : 112 + byte() % 16 * 8;
	c.list.count = rarely(64) ? any_word() : 12 + byte() % 32;
	c.list.cursor = rarely(64) ? any_word() : 0;
	if (c.list.kind == KRDMA_LIST_PEER_EXPORTS || c.list.kind == KRDMA_LIST_ADDRESSES ||
	    rarely(16))
		c.list.session = any_id(head.file, KIND_SESSION);
	change(&head, step, &c);
	c.list.entries = any_pointer();
	go(&head, step, &c);
}

void step_listen(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	unsigned int i;

	if (step == STEP_LISTEN) {
		c.listen.addr = any_address();
		c.listen.allow_count = byte() % 5;
		if (c.listen.allow_count < 3)
			c.listen.allow_count = 0;
		for (i = 0; i < c.listen.allow_count; i++)
			head.area->allow[i % 4] = (struct krdma_prefix){
				.addr = kst_small_ipv4(self_address, 0),
				.prefix_len = byte() % 34,
			};
		change(&head, step, &c);
		own_port(&c.listen.addr);
		c.listen.allow = rarely(16) ? any_pointer() : (uintptr_t)head.area->allow;
	} else {
		c.unlisten.addr = nlisteners ? listeners[byte() % nlisteners] : any_address();
		change(&head, step, &c);
		own_port(&c.unlisten.addr);
	}
	go(&head, step, &c);
}

void step_connect(enum step step)
{
	struct head head = any_head();
	struct krdma_ioc_connect *cmd;
	union call c = { 0 };
	uint8_t to = byte(), flags = byte();

	cmd = &c.connect;
	cmd->flags = flags & KRDMA_CONNECT_MESSAGES;
	if (to >= 248 && nlisteners)
		cmd->dst = kst_ipv4(self_address, port_of(&listeners[to % nlisteners]));
	else if (to >= 240)
		cmd->dst = kst_ipv4("203.0.113.1", to % 4);
	else if (to >= 236)
		cmd->dst = kst_ipv4(peer_address, PORT + 4);
	else
		cmd->dst = kst_ipv4(to % 4 == 3 && live.has_self ? self_address : peer_address, 0);
	if (rarely(8))
		cmd->flags |= KRDMA_CONNECT_PRIVATE;
	if (rarely(16))
		cmd->src = kst_ipv4(self_address, byte() & 1 ? PORT + 6 : 0);
	cmd->timeout_ms = 2000 * slow;
	/* What is not shared, or leads to nobody, takes its time: one of an input. */
	if (head.changes || to >= 236 || cmd->src.ss_family || cmd->flags & KRDMA_CONNECT_PRIVATE) {
		if (costly++) {
			head.changes = 0;
			cmd->flags &= ~KRDMA_CONNECT_PRIVATE;
			cmd->dst = kst_ipv4(peer_address, 0);
			memset(&cmd->src, 0, sizeof(cmd->src));
		}
	}
	if (head.changes) {
		change(&head, step, &c);
		cmd->timeout_ms = 1 + cmd->timeout_ms % (20 * slow);
	} else {
		cmd->size = sizeof(*cmd);
	}
	if (flags >= 224) {
		cmd->flags |= KRDMA_CONNECT_ASYNC;
		cmd->timeout_ms = 0;
		cmd->eventfd = flags & 1 ? event_fd : -1;
	}
	go(&head, step, &c);
}

void step_export(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	__u32 fd = 0;

	c.export.rights = byte() & 23;
	c.export.max_segments = byte() & 1;
	c.export.length = any_length();
	snprintf(c.export.name, sizeof(c.export.name), "fuzz-%u", byte() % 4);
	if (byte() & 1) {
		c.export.flags = KRDMA_EXPORT_FD;
		c.export.addr = rarely(64) ? any_length() : byte() % 16 * KST_PAGE;
		fd = byte() % 16;
		c.export.fd = fd == 0 ? plain_memfd :
			      fd == 1 ? write_sealed_memfd :
			      fd == 2 ? zero_fd :
			      fd == 3 ? -1 :
					sealed_memfd;
	}
	change(&head, step, &c);
	if (!(c.export.flags & KRDMA_EXPORT_FD))
		c.export.addr = any_pointer();
	go(&head, step, &c);
}

void step_eventfd(enum step step)
{
	struct head head = any_head();
	union call c = { 0 };
	uint8_t which = byte();

	c.eventfd.fd = which < 128 ? event_fd : which < 192 ? -1 : which < 224 ? zero_fd : which;
	change(&head, step, &c);
	go(&head, step, &c);
}

/* Any number of an ioctl, any bytes. */
void step_raw(enum step step)
{
	struct file *f = &files[byte() % FILES];
	__u32 nr = byte() < 192 ? _IO(KRDMA_IOC_TYPE, byte() % 64) : word();
	union call c = { 0 };
	unsigned int i, n = byte() % 32;
	int rc;

	open_file(f);
	c.size = byte();
	for (i = 1; i <= n; i++)
		c.words[i] = any_word();
	/* Listeners outlive the file, message queues are files themselves: not for this. */
	if (nr == KRDMA_IOC_LISTEN || nr == KRDMA_IOC_UNLISTEN || nr == KRDMA_IOC_MESSAGE_QUEUE ||
	    nr == KRDMA_IOC_MONITOR)
		return;
	/* Not to who knows where, for as long as it likes. */
	if (nr == KRDMA_IOC_CONNECT)
		return;
	/* Mostly it ends all sessions, or none. */
	if (nr == KRDMA_IOC_DISCONNECT)
		c.disconnect.timeout_ms %= 256;
	rc = kst_call(f->fd, nr, &c);
	result(step, rc);
	if (nr == KRDMA_IOC_DISCONNECT && (!rc || rc == -ETIMEDOUT))
		live.lost = true;
	if (rc)
		return;
	if (nr == KRDMA_IOC_DESTROY)
		forget(f, c.destroy.id);
	if (!f->live)
		return;
	if (nr == KRDMA_IOC_SUBMIT)
		live.counted = false;
	/* Which object has its id now? */
	if (nr == KRDMA_IOC_BUFFER || nr == KRDMA_IOC_EXPORT || nr == KRDMA_IOC_OPEN)
		live.lost = true;
}
