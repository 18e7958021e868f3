// SPDX-License-Identifier: GPL-2.0
/*
 * Random structs for all ioctls, most of them nearly right: each call gets an
 * errno that the uapi header knows, and nothing is left behind. For more than
 * the usual: SEED and GARBAGE, the number of calls.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst_harness.h"

static __u64 state;

static int fd, event, memfd;
static bool have_peer;
static __u32 session, region;

#define ARENA_BYTES (16 * KST_PAGE)
/* More than a LIST can write behind the place where it begins. */
#define GUARD_BYTES (8UL << 20)
#define MEMFD_BYTES (64 * KST_PAGE)

static unsigned char *arena, *read_only;

static __u32 any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

static bool chance(unsigned int percent)
{
	return any() % 100 < percent;
}

static __u32 any_word(void)
{
	static const __u32 likely[] = {
		0,   1,    2,    3,    4,    7,     8,          16,         64,  96,      112,
		512, 4095, 4096, 4097, 8192, 65536, 0x7fffffff, 0x80000000, ~0U, ~0U - 1,
	};

	return chance(70) ? likely[any() % KST_ARRAY_SIZE(likely)] : any();
}

/* Never to memory that is in use, except the arena. */
static __u64 any_pointer(void)
{
	switch (any() % 10) {
	case 0:
		return 0;
	case 1:
		return any() % KST_PAGE;
	case 2:
		return (uintptr_t)read_only + any() % KST_PAGE;
	case 3:
		return (uintptr_t)arena - any() % KST_PAGE;
	case 4:
		return (uintptr_t)arena + ARENA_BYTES - any() % 256;
	case 5:
		return ~0ULL - any() % 8192;
	case 6:
		return 0xffff888000000000ULL + any();
	case 7:
		return (uintptr_t)arena + any() % ARENA_BYTES;
	default:
		return (uintptr_t)arena + any() % 15 * KST_PAGE;
	}
}

static __u64 any_length(void)
{
	static const __u64 likely[] = {
		0,
		1,
		2,
		64,
		4095,
		4096,
		4097,
		8192,
		65536,
		1ULL << 30,
		(1ULL << 32) - 1,
		1ULL << 32,
		1ULL << 40,
		1ULL << 63,
		~0ULL,
		~0ULL - 4095,
	};

	return likely[any() % KST_ARRAY_SIZE(likely)];
}

/* What the garbage has made: to be destroyed again, or found by it. */
static __u32 live[32];
static unsigned int nlive;

static void forget(__u32 id)
{
	unsigned int i;

	for (i = 0; i < nlive; i++)
		if (live[i] == id)
			live[i--] = live[--nlive];
}

static void keep(__u32 id)
{
	if (nlive == KST_ARRAY_SIZE(live)) {
		if (kst_destroy(fd, live[0]))
			kst_diag("%u can't be destroyed", live[0]);
		forget(live[0]);
	}
	live[nlive++] = id;
}

static __u32 any_id(void)
{
	if (nlive && chance(50))
		return live[any() % nlive];
	return chance(30) ? session : chance(50) ? region : any_word();
}

static struct __kernel_sockaddr_storage any_address(void)
{
	struct __kernel_sockaddr_storage addr = kst_ipv4("0.0.0.0", 43000 + any() % 4);

	if (chance(20))
		addr.ss_family = chance(50) ? AF_INET6 : any();
	if (chance(20))
		((unsigned char *)&addr)[any() % 32] = any();
	return addr;
}

union garbage {
	__u32 size;
	__u32 words[72]; /* as many as the longest has, or more */
	struct krdma_ioc_query query;
	struct krdma_ioc_last_error last_error;
	struct krdma_ioc_destroy destroy;
	struct krdma_ioc_list list;
	struct krdma_ioc_listen listen;
	struct krdma_ioc_unlisten unlisten;
	struct krdma_ioc_connect connect;
	struct krdma_ioc_connected connected;
	struct krdma_ioc_ping ping;
	struct krdma_ioc_buffer buffer;
	struct krdma_ioc_export export;
	struct krdma_ioc_export_grow grow;
	struct krdma_ioc_open open;
	struct krdma_ioc_submit submit;
	struct krdma_ioc_message_queue queue;
	struct krdma_ioc_monitor monitor;
};

/* Makes a plausible op in the arena. */
static void garbage_op(struct krdma_op *op)
{
	*op = (struct krdma_op){
		.opcode = chance(90) ? KRDMA_OP_READ + any() % 2 : any(),
		.flags = chance(80) ? 0 :
			 chance(80) ? KRDMA_OPF_BUFFER :
				      any(),
		.region = chance(80) ? region : any_id(),
		.offset = chance(80) ? any() % KST_PAGE : any_length(),
		.length = chance(60) ? any() % 512 : any_length(),
		.addr = any_pointer(),
		.timeout_ns = chance(50) ? 0 : any_length(),
	};
	if (op->flags & KRDMA_OPF_BUFFER || chance(5))
		op->buffer = any_id();
	if (chance(5))
		op->naddr = any_word();
	if (chance(10))
		op->flags |= KRDMA_OPF_VERIFY;
	/* A message, to somebody who never reads. */
	if (chance(10)) {
		op->opcode = KRDMA_OP_SEND;
		op->offset = chance(90) ? 0 : any_length();
		op->timeout_ns = 1 + any() % 5000000;
		op->operand = any();
	} else if (chance(5)) {
		op->flags |= KRDMA_OPF_MESSAGE;
		op->timeout_ns = 1 + any() % 5000000;
	}
	/* One that tells a number, mostly one that is possible. */
	if (chance(15)) {
		op->opcode = KRDMA_OP_FETCH_ADD + any() % 3;
		op->operand = any();
		op->compare = op->opcode == KRDMA_OP_CMP_SWAP || chance(5) ? any() : 0;
		if (op->opcode == KRDMA_OP_DIGEST)
			op->operand = chance(90) ? 0 : any();
		else if (chance(80)) {
			op->length = 8;
			op->offset &= ~7ULL;
			op->addr &= ~7ULL;
		}
	}
}

static void garbage_submit(struct krdma_ioc_submit *cmd)
{
	static const __u32 strides[] = { sizeof(struct krdma_op), 96, 128, 256 };
	__u32 i;

	cmd->op_stride = chance(90) ? strides[any() % 4] : any_word();
	cmd->completion_stride = chance(90) ? 32 + any() % 3 * 8 : any_word();
	cmd->count = chance(80) ? 1 + any() % 4 : any_word();
	cmd->ops = (uintptr_t)arena + 8 * KST_PAGE;
	cmd->completions = chance(80) ? (uintptr_t)arena + 12 * KST_PAGE : any_pointer();
	memset(arena + 8 * KST_PAGE, 0, KST_PAGE);
	for (i = 0; i < 4 && cmd->op_stride <= 256; i++)
		garbage_op((struct krdma_op *)(arena + 8 * KST_PAGE + i * cmd->op_stride));
	if (chance(10))
		cmd->ops = any_pointer();
}

/* Values that can work. */
static void garbage_valid(unsigned long nr, union garbage *g)
{
	switch (nr) {
	case KRDMA_IOC_LIST:
		g->list.kind = KRDMA_LIST_DEVICES + any() % KRDMA_LIST_GRANTS;
		g->list.stride = chance(50) ? 112 : 1 + any() % KST_PAGE;
		g->list.count = 12 + any() % 50;
		break;
	case KRDMA_IOC_LISTEN:
		g->listen.allow_count = chance(80) ? 0 : 1 + any() % 4;
		break;
	case KRDMA_IOC_CONNECT:
		g->connect.flags = chance(10) ? KRDMA_CONNECT_PRIVATE :
				   chance(30) ? KRDMA_CONNECT_MESSAGES :
						0;
		if (chance(20)) {
			g->connect.flags |= KRDMA_CONNECT_ASYNC;
			g->connect.eventfd = chance(50) ? event : -1;
		}
		g->connect.resume_s = chance(50) ? 0 : any() % (KRDMA_RESUME_MAX + 2);
		g->connect.keepalive_s = chance(50) ? 0 : any() % (KRDMA_KEEPALIVE_MAX + 2);
		break;
	case KRDMA_IOC_PING:
		g->ping.length = any() % (KRDMA_PING_MAX + 1);
		break;
	case KRDMA_IOC_BUFFER:
		g->buffer.flags = any() % 2;
		break;
	case KRDMA_IOC_EXPORT:
		g->export.rights = 1 + any() % 7;
		if (chance(50))
			g->export.rights |= KRDMA_RIGHT_MESSAGE;
		g->export.max_segments = any() % 2;
		if (chance(20)) {
			g->export.flags = KRDMA_EXPORT_FD;
			g->export.fd = memfd;
		}
		snprintf(g->export.name, sizeof(g->export.name), "garbage-%u", any() % 64);
		break;
	case KRDMA_IOC_OPEN:
		g->open.rights = chance(80) ? 0 : any() % 4;
		strcpy(g->open.name, chance(80) ? "garbage-peer" : "garbage-other");
		break;
	}
}

/* Never a pointer to what is in use, never an address that others use. */
static void garbage_fix(unsigned long nr, union garbage *g)
{
	switch (nr) {
	case KRDMA_IOC_DESTROY:
		g->destroy.id = any_id();
		break;
	case KRDMA_IOC_MESSAGE_QUEUE:
		g->queue.id = any_id();
		break;
	case KRDMA_IOC_EXPORT_GROW:
		g->grow.id = any_id();
		g->grow.length = chance(50) ? MEMFD_BYTES : any_length();
		break;
	case KRDMA_IOC_LIST:
		g->list.entries = any_pointer();
		if (g->list.kind == KRDMA_LIST_PEER_EXPORTS && chance(90))
			g->list.session = session;
		break;
	case KRDMA_IOC_LISTEN:
		g->listen.addr = any_address();
		g->listen.allow = any_pointer();
		break;
	case KRDMA_IOC_UNLISTEN:
		g->unlisten.addr = any_address();
		break;
	case KRDMA_IOC_CONNECT:
		/* Without node B there is no route, so that nobody waits. */
		g->connect.dst = kst_ipv4(have_peer ? "10.77.0.2" : "203.0.113.1",
					  KST_PORT + (chance(10) ? 9 : 0));
		if (chance(20))
			g->connect.dst.ss_family = any_word();
		if (chance(20))
			g->connect.src = any_address();
		g->connect.timeout_ms = g->connect.flags & KRDMA_CONNECT_ASYNC ? 0 : 1000;
		break;
	case KRDMA_IOC_CONNECTED:
		g->connected.session = chance(50) ? session : any_id();
		break;
	case KRDMA_IOC_PING:
		g->ping.session = chance(80) ? session : any_id();
		break;
	case KRDMA_IOC_BUFFER:
		g->buffer.addr = any_pointer();
		g->buffer.length = chance(50) ? any() % 8192 : any_length();
		break;
	case KRDMA_IOC_EXPORT:
		g->export.addr = g->export.flags & KRDMA_EXPORT_FD ? 0 : any_pointer();
		g->export.length = chance(50) ? any() % 8192 : any_length();
		break;
	case KRDMA_IOC_OPEN:
		g->open.session = chance(80) ? session : any_id();
		break;
	case KRDMA_IOC_SUBMIT:
		garbage_submit(&g->submit);
		break;
	}
}

static struct __kernel_sockaddr_storage listeners[64];
static unsigned int nlisteners;

static int unlisten_at(struct __kernel_sockaddr_storage addr)
{
	struct krdma_ioc_unlisten cmd = { .size = sizeof(cmd), .addr = addr };

	return kst_call(fd, KRDMA_IOC_UNLISTEN, &cmd);
}

static void reopen(void)
{
	if (!have_peer)
		return;
	if (!session && kst_connect(fd, KRDMA_CONNECT_MESSAGES, &session))
		kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
	if (!region && kst_open_region(fd, session, "garbage-peer", 0, &region, NULL))
		kst_bail("OPEN: %s", kst_last_error(fd, NULL));
}

/* The reply of a call that worked. */
static void garbage_made(unsigned long nr, union garbage *g)
{
	switch (nr) {
	case KRDMA_IOC_DESTROY:
		forget(g->destroy.id);
		if (g->destroy.id == session)
			session = 0;
		if (g->destroy.id == region)
			region = 0;
		break;
	case KRDMA_IOC_LISTEN:
		/* UNLISTEN is to find some; those left are removed in the end. */
		if (chance(50) || nlisteners == KST_ARRAY_SIZE(listeners))
			unlisten_at(g->listen.addr);
		else
			listeners[nlisteners++] = g->listen.addr;
		break;
	case KRDMA_IOC_MESSAGE_QUEUE:
		close(g->queue.fd);
		break;
	case KRDMA_IOC_MONITOR:
		close(g->monitor.fd);
		break;
	case KRDMA_IOC_CONNECT:
		keep(g->connect.id);
		break;
	case KRDMA_IOC_BUFFER:
		keep(g->buffer.id);
		break;
	case KRDMA_IOC_EXPORT:
		keep(g->export.id);
		break;
	case KRDMA_IOC_OPEN:
		keep(g->open.id);
		break;
	}
	reopen();
}

KST_FIXTURE(garbage, fd)
FIXTURE_SETUP(garbage)
{
	fd = kst_setup(true);
	have_peer = kst_have_peer();
	ASSERT_NOT(have_peer && !kst_peer("export garbage-peer mem 65536 23 1"),
		   "node B can't export");
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memfd = memfd_create("garbage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_NOT(ftruncate(memfd, MEMFD_BYTES) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK),
		   "memfd: %s", strerror(errno));
	state = kst_number("SEED", 20240229) | 1;
	arena = kst_map(ARENA_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
	arena += GUARD_BYTES;
	mprotect(arena, ARENA_BYTES, PROT_READ | PROT_WRITE);
	read_only = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	reopen();
	self->before = kst_now();
}

/* Ids that a failed call has lost would be missing here. */
static void count_ids(struct __test_metadata *_metadata)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };
	unsigned int n = 0, want;
	__u32 id;
	int rc;

	kst_call(fd, KRDMA_IOC_QUERY, &q);
	want = q.max_ids - !!session - !!region;
	while (!(rc = kst_buffer(fd, arena, 1, 0, &id)))
		n++;
	EXPECT_THAT(n == want && rc == -EDQUOT, "garbage has lost no id: %u of %u are free: %s", n,
		    want, strerror(-rc));
	/* All of them end with their file. */
	close(fd);
	fd = kst_open();
	session = region = 0;
	reopen();
}

TEST_F(garbage, calls)
{
	static const struct {
		unsigned long nr;
		__u32 size;
	} cmds[] = {
		{ KRDMA_IOC_QUERY, sizeof(struct krdma_ioc_query) },
		{ KRDMA_IOC_LAST_ERROR, sizeof(struct krdma_ioc_last_error) },
		{ KRDMA_IOC_DESTROY, sizeof(struct krdma_ioc_destroy) },
		{ KRDMA_IOC_LIST, sizeof(struct krdma_ioc_list) },
		{ KRDMA_IOC_LISTEN, sizeof(struct krdma_ioc_listen) },
		{ KRDMA_IOC_UNLISTEN, sizeof(struct krdma_ioc_unlisten) },
		{ KRDMA_IOC_CONNECT, sizeof(struct krdma_ioc_connect) },
		{ KRDMA_IOC_CONNECTED, sizeof(struct krdma_ioc_connected) },
		{ KRDMA_IOC_PING, sizeof(struct krdma_ioc_ping) },
		{ KRDMA_IOC_BUFFER, sizeof(struct krdma_ioc_buffer) },
		{ KRDMA_IOC_EXPORT, sizeof(struct krdma_ioc_export) },
		{ KRDMA_IOC_EXPORT_GROW, sizeof(struct krdma_ioc_export_grow) },
		{ KRDMA_IOC_OPEN, sizeof(struct krdma_ioc_open) },
		{ KRDMA_IOC_SUBMIT, sizeof(struct krdma_ioc_submit) },
		{ KRDMA_IOC_CANCEL, sizeof(struct krdma_ioc_cancel) },
		{ KRDMA_IOC_EVENTFD, sizeof(struct krdma_ioc_eventfd) },
		{ KRDMA_IOC_MESSAGE_QUEUE, sizeof(struct krdma_ioc_message_queue) },
		{ KRDMA_IOC_MONITOR, sizeof(struct krdma_ioc_monitor) },
	};
	unsigned int works[KST_ARRAY_SIZE(cmds)] = { 0 }, fails[KST_ARRAY_SIZE(cmds)] = { 0 };
	unsigned int rounds = kst_number("GARBAGE", 20000), strange = 0, unsaid = 0, round, i, n;
	union garbage g;
	int rc, err;

	for (round = 0; round < rounds; round++) {
		i = any() % KST_ARRAY_SIZE(cmds);
		memset(&g, 0, sizeof(g));
		garbage_valid(cmds[i].nr, &g);
		for (n = chance(60) ? 0 : 1 + any() % 3; n; n--)
			g.words[any() % (cmds[i].size / 4)] = any_word();
		g.size = chance(90) ? cmds[i].size : any_word();
		garbage_fix(cmds[i].nr, &g);
		rc = kst_call(fd, cmds[i].nr, chance(95) ? &g : (void *)any_pointer());
		if (!rc) {
			works[i]++;
			garbage_made(cmds[i].nr, &g);
			continue;
		}
		fails[i]++;
		/* EAGAIN: the session of an id that the garbage has made is being connected. */
		if (!kst_documented(rc) && rc != -EAGAIN && !strange++)
			kst_diag("command %lx: %s is not in the header: %s", cmds[i].nr,
				 strerror(-rc), kst_last_error(fd, NULL));
		kst_last_error(fd, &err);
		if (err != -rc && !unsaid++)
			kst_diag("command %lx: got %s, the last error is %s", cmds[i].nr,
				 strerror(-rc), strerror(err));
	}
	for (i = 0; i < KST_ARRAY_SIZE(cmds); i++)
		kst_diag("command %lx: %u worked, %u failed", cmds[i].nr, works[i], fails[i]);
	EXPECT_THAT(!strange, "each errno of %u calls is in the header", rounds);
	EXPECT_THAT(!unsaid, "the last error is always that of the call that failed");
	for (i = 0; have_peer && i < KST_ARRAY_SIZE(cmds); i++)
		if (!works[i] || !fails[i])
			break;
	EXPECT_THAT(!have_peer || i == KST_ARRAY_SIZE(cmds), "each command worked and failed");
	while (nlisteners)
		unlisten_at(listeners[--nlisteners]);
	while (nlive) {
		if (kst_destroy(fd, live[0]))
			kst_diag("%u can't be destroyed", live[0]);
		forget(live[0]);
	}
	EXPECT_SAME(&self->before, "garbage leaves everything as it was");
	count_ids(_metadata);
}

KST_HARNESS_MAIN(1)
