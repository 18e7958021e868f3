// SPDX-License-Identifier: GPL-2.0
/*
 * The rules that hold for all ioctls of /dev/krdma_mover: sizes, pointers,
 * flags and reserved members, and what they leave behind when they fail:
 * nothing, but a sentence. Then garbage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

#define REGION_BYTES (64 * KST_PAGE)
#define LISTEN_PORT  7481

union args {
	__u32 size;
	struct krdma_ioc_query query;
	struct krdma_ioc_last_error last_error;
	struct krdma_ioc_destroy destroy;
	struct krdma_ioc_list list;
	struct krdma_ioc_listen listen;
	struct krdma_ioc_unlisten unlisten;
	struct krdma_ioc_connect connect;
	struct krdma_ioc_connected connected;
	struct krdma_ioc_disconnect disconnect;
	struct krdma_ioc_ping ping;
	struct krdma_ioc_buffer buffer;
	struct krdma_ioc_export export;
	struct krdma_ioc_export_grow grow;
	struct krdma_ioc_open open;
	struct krdma_ioc_submit submit;
	struct krdma_ioc_cancel cancel;
	struct krdma_ioc_eventfd eventfd;
	struct krdma_ioc_message_queue queue;
	struct krdma_ioc_monitor monitor;
	__u32 words[72]; /* as many as the longest has, or more */
};

static int fd;
static __u32 session, region;
static __u32 receiver;        /* an export for messages */
static __u32 grown;           /* an export of a memfd */
static unsigned char *memory; /* 16 pages, fine for anything */
static struct krdma_op op;
static struct krdma_completion comp;
static __u64 entries[1024];

/* ---- valid calls ---- */

static void good_none(union args *a)
{
	(void)a;
}

static void undo_none(union args *a, int rc)
{
	(void)a;
	(void)rc;
}

/* What a success made. */
static void undo_made(int rc, __u32 id)
{
	if (!rc && kst_destroy(fd, id))
		kst_diag("%u was made and can't be destroyed", id);
}

static void good_destroy(union args *a)
{
	int rc = kst_buffer(fd, memory, KST_PAGE, 0, &a->destroy.id);

	if (rc)
		kst_bail("BUFFER: %s", kst_last_error(fd, NULL));
}

static void undo_destroy(union args *a, int rc)
{
	if (rc && kst_destroy(fd, a->destroy.id))
		kst_diag("a failed DESTROY has destroyed %u", a->destroy.id);
}

static void good_list(union args *a)
{
	a->list.kind = KRDMA_LIST_EXPORTS;
	a->list.entries = (uintptr_t)entries;
	a->list.stride = 64;
	a->list.count = 4;
}

/* A session of its own, which lingers. */
static void good_disconnect(union args *a)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.dst = kst_ipv4("10.77.0.2", KST_PORT),
		.keepalive_s = KRDMA_KEEPALIVE_MAX,
	};

	if (kst_call(fd, KRDMA_IOC_CONNECT, &cmd) || kst_destroy(fd, cmd.id))
		kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
	a->disconnect.serial = cmd.serial;
}

static void undo_disconnect(union args *a, int rc)
{
	struct krdma_ioc_disconnect cmd = { .size = sizeof(cmd), .serial = a->disconnect.serial };

	if (rc && kst_call(fd, KRDMA_IOC_DISCONNECT, &cmd))
		kst_diag("a failed DISCONNECT has ended the session");
}

static void good_listen(union args *a)
{
	a->listen.addr = kst_ipv4("0.0.0.0", LISTEN_PORT);
}

static int unlisten(void)
{
	struct krdma_ioc_unlisten cmd = {
		.size = sizeof(cmd),
		.addr = kst_ipv4("0.0.0.0", LISTEN_PORT),
	};

	return kst_call(fd, KRDMA_IOC_UNLISTEN, &cmd);
}

static void undo_listen(union args *a, int rc)
{
	(void)a;
	if (!rc && unlisten())
		kst_diag("the listener can't be removed");
}

static void good_unlisten(union args *a)
{
	struct krdma_ioc_listen cmd = {
		.size = sizeof(cmd),
		.addr = kst_ipv4("0.0.0.0", LISTEN_PORT),
	};

	a->unlisten.addr = cmd.addr;
	if (kst_call(fd, KRDMA_IOC_LISTEN, &cmd))
		kst_bail("LISTEN: %s", kst_last_error(fd, NULL));
}

static void undo_unlisten(union args *a, int rc)
{
	(void)a;
	if (rc && unlisten())
		kst_diag("a failed UNLISTEN has removed the listener");
}

static void good_connect(union args *a)
{
	a->connect.dst = kst_ipv4("10.77.0.2", KST_PORT);
}

static void undo_connect(union args *a, int rc)
{
	undo_made(rc, a->connect.id);
}

static void good_connected(union args *a)
{
	a->connected.session = session;
}

static void good_ping(union args *a)
{
	a->ping.session = session;
	a->ping.length = 8;
}

static void good_buffer(union args *a)
{
	a->buffer.flags = KRDMA_BUFFER_WRITABLE;
	a->buffer.addr = (uintptr_t)memory;
	a->buffer.length = KST_PAGE + 1;
}

static void undo_buffer(union args *a, int rc)
{
	undo_made(rc, a->buffer.id);
}

static void good_export(union args *a)
{
	a->export.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE;
	a->export.addr = (uintptr_t)memory;
	a->export.length = 3 * KST_PAGE;
	strcpy(a->export.name, "abi-test");
}

static void undo_export(union args *a, int rc)
{
	undo_made(rc, a->export.id);
}

static void good_export_grow(union args *a)
{
	a->grow.id = grown;
	a->grow.length = KST_PAGE;
}

static void good_open(union args *a)
{
	a->open.session = session;
	strcpy(a->open.name, "abi-peer");
}

static void undo_open(union args *a, int rc)
{
	undo_made(rc, a->open.id);
}

static void good_submit(union args *a)
{
	op = (struct krdma_op){
		.opcode = KRDMA_OP_READ,
		.region = region,
		.length = 100,
		.addr = (uintptr_t)memory,
	};
	a->submit.ops = (uintptr_t)&op;
	a->submit.completions = (uintptr_t)&comp;
	a->submit.count = 1;
	a->submit.op_stride = sizeof(op);
	a->submit.completion_stride = sizeof(comp);
}

static void good_cancel(union args *a)
{
	a->cancel.user_data = 12345;
}

static void good_eventfd(union args *a)
{
	a->eventfd.fd = -1;
}

static void good_message_queue(union args *a)
{
	a->queue.id = receiver;
}

static void undo_message_queue(union args *a, int rc)
{
	if (!rc && close(a->queue.fd))
		kst_diag("%d is no file", a->queue.fd);
}

static void undo_monitor(union args *a, int rc)
{
	if (!rc && close(a->monitor.fd))
		kst_diag("%d is no file", a->monitor.fd);
}

FIXTURE_VARIANT(command)
{
	const char *name;
	unsigned long nr;
	__u32 size;
	__u32 flags, known; /* offset of the flags, 0 if there are none; known bits */
	__u32 reserved;     /* offset of what must be 0, 0 if there is nothing */
	bool answers;       /* writes to the struct */
	bool peer;          /* needs node B */
	void (*good)(union args * a);
	void (*undo)(union args * a, int rc);
	__u32 first; /* bytes of its first version; 0: the same */
};

/* Return: its id, or 0 */
static __u32 export_memfd(void)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_EXPORT_FD,
		.rights = KRDMA_RIGHT_READ,
		.fd = memfd_create("abi", MFD_ALLOW_SEALING | MFD_CLOEXEC),
		.length = KST_PAGE,
		.name = "abi-memfd",
	};

	if (cmd.fd < 0 || ftruncate(cmd.fd, KST_PAGE) ||
	    fcntl(cmd.fd, F_ADD_SEALS, F_SEAL_SHRINK) || kst_call(fd, KRDMA_IOC_EXPORT, &cmd))
		return 0;
	close(cmd.fd);
	return cmd.id;
}

KST_FIXTURE(command, fd)
FIXTURE_SETUP(command)
{
	memory = kst_map(16 * KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	fd = kst_setup(variant->peer);
	if (variant->peer && !kst_have_peer())
		SKIP(return, "needs node B");
	ASSERT_NOT((variant->peer &&
		    kst_setup_region(fd, "abi-peer", REGION_BYTES, &session, &region, NULL)) ||
			   kst_export(fd, "abi-messages", memory + 8 * KST_PAGE, KST_PAGE,
				      KRDMA_RIGHT_MESSAGE, &receiver),
		   "no region, or no export: %s", kst_last_error(fd, NULL));
	grown = export_memfd();
	ASSERT_NOT(!grown, "no export of a memfd: %s", kst_last_error(fd, NULL));
	self->before = kst_now();
}

#define COMMAND(_name, _type, ...)                                                               \
	FIXTURE_VARIANT_ADD(command, _name)                                                      \
	{                                                                                        \
		.name = #_name, KRDMA_IOC_##_name, sizeof(struct krdma_ioc_##_type), __VA_ARGS__ \
	}
#define MUST_BE_0(_type, _member) offsetof(struct krdma_ioc_##_type, _member)

COMMAND(QUERY, query, 4, 0, 0, true, false, good_none, undo_none);
COMMAND(LAST_ERROR, last_error, 0, 0, 0, true, false, good_none, undo_none);
COMMAND(DESTROY, destroy, 0, 0, 0, false, false, good_destroy, undo_destroy);
COMMAND(LIST, list, 4, 0, 0, true, false, good_list, undo_none);
COMMAND(LISTEN, listen, 4, KRDMA_LISTEN_REPLACE, MUST_BE_0(listen, reserved), false, false,
	good_listen, undo_listen);
COMMAND(DISCONNECT, disconnect, 4, 0, MUST_BE_0(disconnect, reserved), false, true, good_disconnect,
	undo_disconnect);
COMMAND(UNLISTEN, unlisten, 4, KRDMA_UNLISTEN_CLOSE, 0, false, false, good_unlisten, undo_unlisten);
COMMAND(CONNECT, connect, 4,
	KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES | KRDMA_CONNECT_FAIL_FAST |
		KRDMA_CONNECT_ASYNC,
	MUST_BE_0(connect, reserved), true, true, good_connect, undo_connect,
	offsetof(struct krdma_ioc_connect, eventfd));
COMMAND(CONNECTED, connected, 4, 0, MUST_BE_0(connected, reserved), false, true, good_connected,
	undo_none);
COMMAND(PING, ping, 4, 0, MUST_BE_0(ping, reserved), true, true, good_ping, undo_none);
COMMAND(BUFFER, buffer, 4, KRDMA_BUFFER_WRITABLE, MUST_BE_0(buffer, reserved), true, false,
	good_buffer, undo_buffer);
COMMAND(EXPORT, export, 4, KRDMA_EXPORT_FD | KRDMA_EXPORT_DURABLE, MUST_BE_0(export, fd), true,
	false, good_export, undo_export);
COMMAND(EXPORT_GROW, export_grow, 4, 0, MUST_BE_0(export_grow, reserved), false, false,
	good_export_grow, undo_none);
COMMAND(OPEN, open, 4, KRDMA_OPEN_HELD | KRDMA_OPEN_EXCLUSIVE | KRDMA_OPEN_TAKEOVER,
	MUST_BE_0(open, reserved), true, true, good_open, undo_open);
COMMAND(SUBMIT, submit, 4, KRDMA_SUBMIT_ASYNC, MUST_BE_0(submit, reserved), true, true, good_submit,
	undo_none);
COMMAND(CANCEL, cancel, 4, KRDMA_CANCEL_ALL, MUST_BE_0(cancel, reserved), true, false, good_cancel,
	undo_none);
COMMAND(EVENTFD, eventfd, 4, 0, MUST_BE_0(eventfd, reserved), false, false, good_eventfd,
	undo_none);
COMMAND(MESSAGE_QUEUE, message_queue, 4, KRDMA_MESSAGE_QUEUE_NONBLOCK, 0, true, false,
	good_message_queue, undo_message_queue);
COMMAND(MONITOR, monitor, 4, KRDMA_MONITOR_NONBLOCK, MUST_BE_0(monitor, reserved), true, false,
	good_none, undo_monitor);

/* ---- one call, at one place, and what it leaves ---- */

/* The lowest free id, where it is known that the lowest is given. */
static __u32 next_id(void)
{
	__u32 id = 0;

	if (kst_buffer(fd, memory, KST_PAGE, 0, &id) || kst_destroy(fd, id))
		kst_bail("BUFFER: %s", kst_last_error(fd, NULL));
	return id;
}

struct trial {
	const FIXTURE_VARIANT(command) * c;
	union args a; /* valid, with its size */
	struct kst_state before;
	__u32 next;
	bool said;
};

static void trial_begin(struct trial *t, const FIXTURE_VARIANT(command) * c)
{
	memset(t, 0, sizeof(*t));
	t->c = c;
	t->a.size = c->size;
	c->good(&t->a);
	t->next = next_id();
	t->before = kst_now();
	t->said = true;
}

/* Is everything as it was? */
static bool trial_end(struct trial *t)
{
	bool same = kst_same(&t->before) && next_id() == t->next;

	t->c->undo(&t->a, -1);
	return same;
}

/* A call that must fail. Is its errno right? */
static bool trial_fails(struct trial *t, void *at, int want, const char *what)
{
	int rc = kst_call(fd, t->c->nr, at);

	if (rc != want) {
		kst_diag("%s, %s: %s, expected %s", t->c->name, what, strerror(-rc),
			 strerror(-want));
		if (!rc) {
			t->c->undo(at, 0);
			t->c->good(&t->a);
		}
		return false;
	}
	/* An error without a sentence is reported once; the others of its kind are like it. */
	if (t->said && !kst_sentence(fd, want, NULL)) {
		kst_diag("%s, %s: that is no sentence", t->c->name, what);
		t->said = false;
	}
	return true;
}

/* A call that must succeed. */
static bool trial_works(const FIXTURE_VARIANT(command) * c, char *at, __u32 size, const char *what)
{
	union args a = { .size = size };
	int rc;

	c->good(&a);
	if (size > c->size)
		size = c->size;
	memcpy(at, &a, size);
	rc = kst_call(fd, c->nr, at);
	memcpy(&a, at, size);
	c->undo(&a, rc);
	if (rc)
		kst_diag("%s, %s: %s: %s", c->name, what, strerror(-rc), kst_last_error(fd, NULL));
	return !rc;
}

/* ---- sizes ---- */

static bool test_short(struct trial *t)
{
	const __u32 least = t->c->first ? t->c->first : t->c->size;
	const __u32 sizes[] = { 0, 1, 3, 4, least / 2, least - 1 };
	union args a = t->a;
	bool good = true;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		a.size = sizes[i];
		good &= trial_fails(t, &a, -EINVAL, "a short struct");
	}
	return good;
}

static bool test_long(struct trial *t, char *page)
{
	const __u32 sizes[] = { t->c->size + 1, t->c->size + 8, KST_PAGE };
	bool good = true;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(sizes); i++) {
		memset(page, 0, KST_PAGE);
		memcpy(page, &t->a, t->c->size);
		*(__u32 *)page = sizes[i];
		page[t->c->size] = 1;
		good &= trial_fails(t, page, -E2BIG, "a tail that is not zero");
		page[t->c->size] = 0;
		page[sizes[i] - 1] = (char)0x80;
		good &= trial_fails(t, page, -E2BIG, "a tail whose last byte is not zero");
	}
	*(__u32 *)page = ~0U;
	return good & trial_fails(t, page, -E2BIG, "a tail of 4 GiB");
}

static bool test_works(const FIXTURE_VARIANT(command) * c, char *page)
{
	const __u32 more[] = { 0, 1, 8, KST_PAGE - c->size };
	bool good = true;
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(more); i++) {
		memset(page, 0, KST_PAGE);
		good &= trial_works(c, page, c->size + more[i],
				    more[i] ? "a zero tail" : "as it is");
	}
	/* Nothing is mapped behind it. */
	if (c->first)
		good &= trial_works(c, page + KST_PAGE - c->first, c->first, "its first version");
	return good;
}

/* ---- pointers ---- */

/* @page is followed by one that is not mapped. */
static bool test_pointers(struct trial *t, char *page)
{
	char *none = page + KST_PAGE, *part = none - t->c->size / 2 / 4 * 4;
	char *exact = none - t->c->size;
	bool good = true;

	good &= trial_fails(t, NULL, -EFAULT, "NULL");
	good &= trial_fails(t, none, -EFAULT, "unmapped memory");
	good &= trial_fails(t, (void *)-4096L, -EFAULT, "the kernel's memory");
	good &= trial_fails(t, (void *)(1UL << 62), -EFAULT, "an address that can't be");
	good &= trial_fails(t, none - 2, -EFAULT, "half a size");
	memcpy(part, &t->a, none - part);
	good &= trial_fails(t, part, -EFAULT, "half a struct");
	memcpy(exact, &t->a, t->c->size);
	*(__u32 *)exact = t->c->size + 8;
	good &= trial_fails(t, exact, -EFAULT, "an unmapped tail");
	mprotect(page, KST_PAGE, PROT_NONE);
	good &= trial_fails(t, exact, -EFAULT, "memory without access");
	mprotect(page, KST_PAGE, PROT_READ | PROT_WRITE);
	return good;
}

/* Reads its argument, can't write the reply: that has to undo what was made. */
static bool test_read_only(struct trial *t, char *page)
{
	union args a;
	bool good;
	int rc;

	memset(page, 0, KST_PAGE);
	memcpy(page, &t->a, t->c->size);
	mprotect(page, KST_PAGE, PROT_READ);
	if (t->c->answers) {
		good = trial_fails(t, page, -EFAULT, "a read-only reply");
	} else {
		rc = kst_call(fd, t->c->nr, page);
		good = !rc;
		memcpy(&a, page, sizeof(a));
		t->c->undo(&a, rc);
		if (rc)
			kst_diag("%s from read-only memory: %s", t->c->name, strerror(-rc));
		else
			t->c->good(&t->a);
	}
	mprotect(page, KST_PAGE, PROT_READ | PROT_WRITE);
	return good;
}

/* ---- flags and reserved members ---- */

static bool test_bits(struct trial *t, __u32 offset, __u32 known, int want, const char *what)
{
	bool good = true;
	__u32 bit;

	for (bit = 1; bit; bit <<= 1) {
		union args a = t->a;

		if (bit & known)
			continue;
		a.words[offset / 4] |= bit;
		good &= trial_fails(t, &a, want, what);
	}
	return good;
}

TEST_F(command, rules)
{
	const FIXTURE_VARIANT(command) *c = variant;
	char *page = kst_map(2 * KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct trial t;

	ASSERT_NOT(munmap(page + KST_PAGE, KST_PAGE), "munmap: %s", strerror(errno));
	EXPECT_THAT(test_works(c, page),
		    "%s works, also with a longer struct whose tail is zero, or its first version",
		    c->name);

#define TRY(_call, _what)                                                                   \
	do {                                                                                \
		trial_begin(&t, c);                                                         \
		EXPECT_THAT(_call, "%s: %s", c->name, _what);                               \
		EXPECT_THAT(trial_end(&t), "%s: these failures leave everything as it was", \
			    c->name);                                                       \
		EXPECT_THAT(t.said, "%s: each failure leaves a sentence", c->name);         \
	} while (0)

	TRY(test_short(&t), "a short struct is EINVAL");
	TRY(test_long(&t, page), "an unknown tail that is not zero is E2BIG");
	TRY(test_pointers(&t, page), "bad pointers are EFAULT");
	TRY(test_read_only(&t, page), c->answers ? "a reply to read-only memory is EFAULT" :
						   "an argument in read-only memory will do");
	if (c->flags)
		TRY(test_bits(&t, c->flags, c->known, -EOPNOTSUPP, "an unknown flag"),
		    "each unknown flag is EOPNOTSUPP");
	if (c->reserved)
		TRY(test_bits(&t, c->reserved, 0, -EINVAL, "a reserved bit"),
		    "each reserved bit is EINVAL");
	munmap(page, KST_PAGE);
}

/* ---- not a command at all ---- */

KST_FIXTURE(abi, fd)
FIXTURE_SETUP(abi)
{
	fd = kst_setup(false);
	self->before = kst_now();
}

TEST_F(abi, unknown)
{
	const unsigned long forms[] = {
		_IOR(KRDMA_IOC_TYPE, 0, __u32),
		_IOW(KRDMA_IOC_TYPE, 0, __u32),
		_IOWR(KRDMA_IOC_TYPE, 0x20, struct krdma_ioc_buffer),
		_IO(KRDMA_IOC_TYPE - 1, 0),
		_IO(KRDMA_IOC_TYPE + 1, 0x30),
		0x5401 /* TCGETS */,
		0,
		~0U,
	};
	char room[KST_PAGE] = { 0 };
	const struct __fixture_variant_metadata *v;
	bool known;
	unsigned int nr;
	size_t i;

	for (nr = 0; nr < 256; nr++) {
		for (known = false, v = _command_fixture_object.variant; v; v = v->next)
			known |= ((const FIXTURE_VARIANT(command) *)v->data)->nr ==
				 _IO(KRDMA_IOC_TYPE, nr);
		if (known)
			continue;
		EXPECT_THAT(kst_call(fd, _IO(KRDMA_IOC_TYPE, nr), room) == -ENOTTY &&
				    kst_call(fd, _IO(KRDMA_IOC_TYPE, nr), NULL) == -ENOTTY,
			    "%u, which no command has, is ENOTTY", nr);
	}
	for (i = 0; i < KST_ARRAY_SIZE(forms); i++)
		EXPECT_IS(-ENOTTY, kst_call(fd, forms[i], room),
			  "so is a known number with another type, direction or size");
	EXPECT_THAT(read(fd, room, 8) < 0 && write(fd, room, 8) < 0,
		    "the file can be neither read nor written");
	EXPECT_THAT(mmap(NULL, KST_PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
		    "and not be mapped");
}

/* ---- a 32-bit caller ---- */

/* The system call as a 32-bit program makes it: the kernel's compat_ioctl. */
static int call32(unsigned int nr, void *arg)
{
	int rc = 54; /* ioctl */

	asm volatile("int $0x80"
		     : "+a"(rc)
		     : "b"(fd), "c"(nr), "d"((unsigned int)(uintptr_t)arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return rc;
}

static bool has_call32(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		int rc = 20; /* getpid */

		asm volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
		_exit(rc != getpid());
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

TEST_F(abi, compat)
{
	struct krdma_ioc_query wide = { .size = sizeof(wide) };
	union args *a;
	bool good;
	int rc;

	if (!has_call32())
		SKIP(return, "this kernel runs no 32-bit programs");
	a = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_32BIT);
	memset(a, 0, sizeof(*a));
	a->size = sizeof(a->query);
	rc = call32(KRDMA_IOC_QUERY, a);
	good = !rc && !kst_call(fd, KRDMA_IOC_QUERY, &wide) &&
	       !memcmp(&a->query, &wide, sizeof(wide));
	EXPECT_THAT(good, "a 32-bit caller gets the same from QUERY");

	memset(a, 0, sizeof(*a));
	a->size = sizeof(a->buffer);
	a->buffer.addr = (uintptr_t)a;
	a->buffer.length = KST_PAGE;
	rc = call32(KRDMA_IOC_BUFFER, a);
	EXPECT_THAT(!rc && a->buffer.id && !kst_destroy(fd, a->buffer.id),
		    "and its BUFFER is made");

	a->size = sizeof(a->buffer) + 4;
	a->words[sizeof(a->buffer) / 4] = 1;
	EXPECT_FAILS(fd, call32(KRDMA_IOC_BUFFER, a), -E2BIG, NULL, "its unknown tail is E2BIG");
	a->words[sizeof(a->buffer) / 4] = 0;
	a->size = 4;
	EXPECT_FAILS(fd, call32(KRDMA_IOC_BUFFER, a), -EINVAL, NULL, "its short struct is EINVAL");
	EXPECT_FAILS(fd, call32(KRDMA_IOC_BUFFER, NULL), -EFAULT, NULL, "its NULL is EFAULT");
	EXPECT_IS(-ENOTTY, call32(_IO(KRDMA_IOC_TYPE, 0xff), a), "its unknown number is ENOTTY");
	munmap(a, KST_PAGE);
}

KST_HARNESS_MAIN(1)
