// SPDX-License-Identifier: GPL-2.0
/*
 * Values that can't be right, command by command: each gets an errno that the
 * uapi header knows, and nothing is left behind. Memory has a test of its own,
 * and so have ids, names and operations.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst.h"

#define LISTEN_PORT 7482

static int fd;
static bool have_peer;
static __u32 session;

/* ---- QUERY ---- */

static void test_query(void)
{
	struct krdma_ioc_query one = { .size = sizeof(one) }, two;

	memset(&two, 0xa5, sizeof(two));
	two.size = sizeof(two);
	two.flags = 0;
	kst_ok(!kst_call(fd, KRDMA_IOC_QUERY, &one) && !kst_call(fd, KRDMA_IOC_QUERY, &two) &&
		       !memcmp(&one, &two, sizeof(one)),
	       "QUERY fills in all of its struct, the same each time");
	kst_ok(one.size == sizeof(one) && one.features & KRDMA_FEATURE_RDMA && one.incarnation &&
		       !one.pinned_bytes && one.pinned_limit && one.op_pin_max && one.max_ids &&
		       one.submit_max == KRDMA_SUBMIT_MAX && one.version[0] &&
		       memchr(one.version, 0, sizeof(one.version)),
	       "and what it says makes sense");
}

/* ---- LIST ---- */

static int list(struct krdma_ioc_list *cmd)
{
	struct krdma_ioc_list copy = *cmd;
	int rc;

	copy.size = sizeof(copy);
	rc = kst_call(fd, KRDMA_IOC_LIST, &copy);
	if (!rc)
		*cmd = copy;
	return rc;
}

static void test_list_values(void)
{
	static const __u32 kinds[] = { 0, KRDMA_LIST_PEER_EXPORTS + 1, 0x7fffffff, ~0U };
	static __u64 room[8192];
	const struct krdma_ioc_list good = {
		.kind = KRDMA_LIST_EXPORTS,
		.entries = (uintptr_t)room,
		.stride = 112,
		.count = 8,
	};
	struct krdma_ioc_list cmd;
	char what[64];
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(kinds); i++) {
		cmd = good;
		cmd.kind = kinds[i];
		snprintf(what, sizeof(what), "%u", kinds[i]);
		kst_fails(fd, list(&cmd), -EINVAL, what, "LIST of kind %#x is EINVAL", kinds[i]);
	}
	cmd = good;
	cmd.session = 1;
	kst_fails(fd, list(&cmd), -EINVAL, "session", "LIST with a session is EINVAL");
	cmd = good;
	cmd.count = 0;
	kst_fails(fd, list(&cmd), -EINVAL, NULL, "LIST with no room is EINVAL");
	cmd = good;
	cmd.stride = 0;
	kst_fails(fd, list(&cmd), -EINVAL, NULL, "LIST with a stride of 0 is EINVAL");
	cmd.stride = ~0U;
	kst_fails(fd, list(&cmd), -EINVAL, NULL, "LIST with a stride of 4 GiB is EINVAL");
	cmd = good;
	cmd.cursor = ~0ULL;
	kst_ok(!list(&cmd) && !cmd.count && !cmd.cursor, "LIST behind the end is empty");
	cmd = good;
	cmd.kind = KRDMA_LIST_PEER_EXPORTS;
	cmd.count = 11;
	kst_fails(fd, list(&cmd), -EINVAL, "12", "a peer's list with room for 11 is EINVAL");
	cmd.count = 12;
	kst_fails(fd, list(&cmd), -ENOENT, "session", "a peer's list without session is ENOENT");
}

/* Three exports, listed in parts and by shorter and longer structs. */
static void test_list_entries(void)
{
	char *mem = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *room = kst_map(2 * KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE), name[16];
	struct krdma_ioc_list cmd;
	unsigned int i, n = 0;
	__u32 ids[3];
	bool good;

	munmap(room + KST_PAGE, KST_PAGE);
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "values-%u", i);
		if (kst_export(fd, name, mem, 100 + i, KRDMA_RIGHT_READ, &ids[i]))
			kst_bail("EXPORT: %s", kst_last_error(fd, NULL));
	}
	cmd = (struct krdma_ioc_list){
		.kind = KRDMA_LIST_EXPORTS,
		.entries = (uintptr_t)room,
		.stride = sizeof(struct krdma_export_info) + 8,
		.count = 2,
	};
	memset(room, 0xff, KST_PAGE);
	good = !list(&cmd) && cmd.count == 2 && cmd.cursor;
	kst_ok(good && kst_all(room + sizeof(struct krdma_export_info), 8, 0) &&
		       kst_all(room + 2 * cmd.stride, 64, 0xff),
	       "LIST zeroes the tail of a longer struct, and stops at the room there is");
	for (n = cmd.count; cmd.cursor && n < 100; n += cmd.count)
		if (list(&cmd))
			break;
	kst_ok(n == (unsigned int)kst_count(KRDMA_LIST_EXPORTS, NULL, NULL),
	       "its cursor leads to all entries");
	memset(room, 0xff, KST_PAGE);
	cmd.cursor = 0;
	cmd.stride = 4;
	cmd.count = 16;
	kst_ok(!list(&cmd) && cmd.count >= 3 && kst_all(room + 4 * cmd.count, 64, 0xff),
	       "a shorter struct gets its leading members");
	cmd.cursor = 0;
	cmd.stride = 112;
	cmd.count = 16;
	cmd.entries = (uintptr_t)room + KST_PAGE - 2 * 112;
	kst_fails(fd, list(&cmd), -EFAULT, NULL, "entries that can't be written are EFAULT");
	cmd.entries = 0;
	kst_fails(fd, list(&cmd), -EFAULT, NULL, "so are entries at NULL");
	cmd.entries = ~0ULL - 64;
	kst_fails(fd, list(&cmd), -EFAULT, NULL, "and entries that wrap around");
	for (i = 0; i < 3; i++)
		kst_destroy(fd, ids[i]);
	munmap(room, KST_PAGE);
	munmap(mem, KST_PAGE);
}

/* ---- LAST_ERROR ---- */

/* A thread that fails and then asks: is it told of its own failure? */
static void *fail_in_thread(void *arg)
{
	*(bool *)arg = kst_destroy(fd, 4001) == -ENOENT && kst_sentence(fd, -ENOENT, "4001");
	return NULL;
}

static void test_last_error(void)
{
	int file = kst_open(), err = -1;
	pthread_t thread;
	bool good = false;

	kst_last_error(file, &err);
	kst_is(err, 0, "a file without a failure has no error");
	close(file);
	kst_destroy(fd, 4002);
	pthread_create(&thread, NULL, fail_in_thread, &good);
	pthread_join(thread, NULL);
	kst_ok(good && kst_sentence(fd, -ENOENT, "4002"), "each thread is told of its own failure");
	good = !kst_call(fd, KRDMA_IOC_QUERY,
			 &(struct krdma_ioc_query){ .size = sizeof(struct krdma_ioc_query) });
	kst_ok(good && kst_sentence(fd, -ENOENT, "4002"), "a call that works does not clear it");
}

/* ---- LISTEN, UNLISTEN ---- */

static int listen_at(struct krdma_sockaddr addr, const void *allow, __u32 count)
{
	struct krdma_ioc_listen cmd = {
		.size = sizeof(cmd),
		.addr = addr,
		.allow = (uintptr_t)allow,
		.allow_count = count,
	};

	return kst_call(fd, KRDMA_IOC_LISTEN, &cmd);
}

static int unlisten_at(struct krdma_sockaddr addr)
{
	struct krdma_ioc_unlisten cmd = { .size = sizeof(cmd), .addr = addr };

	return kst_call(fd, KRDMA_IOC_UNLISTEN, &cmd);
}

static bool bad_addresses(int (*call)(struct krdma_sockaddr addr), bool unspec_ok)
{
	struct krdma_sockaddr addr;
	bool good = true;

#define BAD_ADDRESS(_what)                                               \
	do {                                                             \
		int rc = call(addr);                                     \
                                                                         \
		if (rc != -EINVAL || !kst_sentence(fd, -EINVAL, NULL)) { \
			kst_diag("%s: %s", _what, strerror(-rc));        \
			good = false;                                    \
		}                                                        \
	} while (0)

	addr = kst_ipv4("10.77.0.1", LISTEN_PORT);
	addr.family = AF_UNIX;
	BAD_ADDRESS("AF_UNIX");
	addr.family = 0xffff;
	BAD_ADDRESS("family 65535");
	addr.family = AF_UNSPEC;
	BAD_ADDRESS("AF_UNSPEC with an address");
	addr = kst_ipv4("10.77.0.1", LISTEN_PORT);
	addr.addr[4] = 1;
	BAD_ADDRESS("IPv4 with more than 4 bytes");
	addr = kst_ipv4("10.77.0.1", LISTEN_PORT);
	addr.addr[15] = 1;
	BAD_ADDRESS("IPv4 with a last byte");
	addr = kst_ipv4("10.77.0.1", LISTEN_PORT);
	addr.scope_id = 1;
	BAD_ADDRESS("IPv4 with a scope");
	if (!unspec_ok) {
		memset(&addr, 0, sizeof(addr));
		BAD_ADDRESS("AF_UNSPEC");
	}
	return good;
}

static int listen_plain(struct krdma_sockaddr addr)
{
	int rc = listen_at(addr, NULL, 0);

	if (!rc)
		unlisten_at(addr);
	return rc;
}

static void test_listen(void)
{
	struct krdma_sockaddr any = kst_ipv4("0.0.0.0", LISTEN_PORT);
	struct krdma_sockaddr own = kst_ipv4("10.77.0.1", LISTEN_PORT);
	static struct krdma_prefix allow[KRDMA_LISTEN_ALLOW_MAX + 1];
	struct krdma_prefix bad = { .addr = own, .prefix_len = 24 };
	struct kst_state before = kst_now();
	unsigned int i;
	int rc;

	kst_ok(bad_addresses(listen_plain, false), "LISTEN at a malformed address is EINVAL");
	kst_ok(bad_addresses(unlisten_at, false), "so is UNLISTEN");
	kst_fails(fd, unlisten_at(any), -ENOENT, "7482", "UNLISTEN where nothing is is ENOENT");
	rc = listen_at(kst_ipv4("192.0.2.1", LISTEN_PORT), NULL, 0);
	if (!kst_ok(rc && kst_documented(rc),
		    "LISTEN at another host's address is a documented errno"))
		kst_diag("it is %s: %s", strerror(-rc), kst_last_error(fd, NULL));

	for (i = 0; i < KST_ARRAY_SIZE(allow); i++)
		allow[i] = bad;
	kst_fails(fd, listen_at(any, allow, KST_ARRAY_SIZE(allow)), -EDQUOT, "64",
		  "an allow-list of 65 prefixes is EDQUOT");
	kst_fails(fd, listen_at(any, NULL, 1), -EFAULT, NULL, "one at NULL is EFAULT");
	bad.prefix_len = 33;
	kst_fails(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "33 bits of IPv4 are EINVAL");
	bad.prefix_len = 24;
	bad.reserved = 1;
	kst_fails(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "so is a reserved bit in it");
	bad.reserved = 0;
	bad.addr.family = AF_INET6;
	bad.prefix_len = 129;
	kst_fails(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "129 bits of IPv6 are EINVAL");
	bad.addr.family = AF_UNSPEC;
	kst_fails(fd, listen_at(any, &bad, 1), -EINVAL, NULL, "a prefix of no family is EINVAL");
	bad.addr.family = AF_INET6;
	bad.prefix_len = 64;
	kst_fails(fd, listen_at(any, &bad, 1), -EINVAL, "IPv6",
		  "only a prefix of IPv6 for a listener of IPv4 is EINVAL");
	kst_settled(&before, "none of them listens");

	allow[0] = bad;

	kst_is(listen_at(any, allow, KRDMA_LISTEN_ALLOW_MAX), 0, "64 prefixes are fine");
	kst_fails(fd, listen_at(any, NULL, 0), -EEXIST, "7482", "a second listener is EEXIST");
	rc = listen_at(own, NULL, 0);
	if (!rc)
		unlisten_at(own);
	kst_ok(!rc || rc == -EEXIST || rc == -EADDRINUSE || rc == -EADDRNOTAVAIL,
	       "one at an address of the first works or is told so");
	kst_is(unlisten_at(any), 0, "UNLISTEN removes it");
	kst_settled(&before, "no listener is left");
}

/* ---- CONNECT, PING, OPEN ---- */

static int connect_to(struct krdma_sockaddr dst, struct krdma_sockaddr src, __u32 timeout_ms)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.dst = dst,
		.src = src,
		.timeout_ms = timeout_ms,
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	if (!rc)
		kst_destroy(fd, cmd.id);
	return rc;
}

static int connect_dst(struct krdma_sockaddr dst)
{
	return connect_to(dst, (struct krdma_sockaddr){ 0 }, 1000);
}

static int connect_src(struct krdma_sockaddr src)
{
	return connect_to(kst_ipv4("10.77.0.2", KST_PORT), src, 1000);
}

/* Who waits is woken: with a minute to wait, half of it is enough on any machine. */
static void test_connect_woken(void)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_PRIVATE,
		.dst = kst_ipv4("10.77.0.2", KST_PORT),
		.timeout_ms = 60000,
	};
	double begin = kst_seconds();
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	kst_ok(!rc && kst_seconds() - begin < 30, "CONNECT returns when the session is up");
	if (!rc)
		kst_destroy(fd, cmd.id);
}

static void test_connect(void)
{
	struct kst_state before = kst_now();
	double begin = kst_seconds();
	int rc;

	kst_ok(bad_addresses(connect_dst, false), "CONNECT to a malformed address is EINVAL");
	kst_ok(bad_addresses(connect_src, true), "so is CONNECT from one");
	rc = connect_dst(kst_ipv4("203.0.113.1", KST_PORT));
	if (!kst_ok(rc && kst_documented(rc), "CONNECT without a route is a documented errno"))
		kst_diag("it is %s: %s", strerror(-rc), kst_last_error(fd, NULL));
	/* siw gives it to TCP, which has other words for that. */
	rc = connect_dst(kst_ipv4("10.77.0.255", KST_PORT));
	if (!kst_ok(rc == -ENOTCONN || rc == -ETIMEDOUT,
		    "nor is there a way to a broadcast address"))
		kst_diag("it is %s: %s", strerror(-rc), kst_last_error(fd, NULL));
	rc = connect_src(kst_ipv4("192.0.2.1", 0));
	if (!kst_ok(rc && kst_documented(rc), "so is CONNECT from another host's address"))
		kst_diag("it is %s: %s", strerror(-rc), kst_last_error(fd, NULL));
	rc = connect_to(kst_ipv4("10.77.0.99", KST_PORT), (struct krdma_sockaddr){ 0 }, 20);
	kst_fails(fd, rc, -ETIMEDOUT, "10.77.0.99", "CONNECT to nobody ends at its time limit");
	kst_ok(kst_seconds() - begin < 5, "all that within a short time");
	if (have_peer) {
		rc = connect_to(kst_ipv4("10.77.0.2", KST_PORT + 9), (struct krdma_sockaddr){ 0 },
				30000);
		kst_fails(fd, rc, -ECONNREFUSED, "10.77.0.2",
			  "CONNECT where nobody listens is ECONNREFUSED");
		test_connect_woken();
	} else {
		kst_skip("needs node B", "CONNECT where nobody listens is ECONNREFUSED");
		kst_skip("needs node B", "CONNECT returns when the session is up");
	}
	kst_settled(&before, "no session is left");
}

static void test_ping(void)
{
	struct krdma_ioc_ping cmd = { .size = sizeof(cmd), .session = session };
	static const __u32 good[] = { 0, 1, 511, KRDMA_PING_MAX };
	static const __u32 bad[] = { KRDMA_PING_MAX + 1, 0x7fffffff, ~0U };
	size_t i;
	int rc;

	for (i = 0; i < KST_ARRAY_SIZE(good); i++) {
		cmd.length = good[i];
		cmd.rtt_ns = 0;
		rc = kst_call(fd, KRDMA_IOC_PING, &cmd);
		kst_ok(!rc && cmd.rtt_ns, "a ping of %u bytes comes back", good[i]);
	}
	for (i = 0; i < KST_ARRAY_SIZE(bad); i++) {
		cmd.length = bad[i];
		kst_fails(fd, kst_call(fd, KRDMA_IOC_PING, &cmd), -EINVAL, "512",
			  "one of %u bytes is EINVAL", bad[i]);
	}
}

static void test_open(void)
{
	struct kst_state before = kst_now();
	__u32 bit, id = 0;
	bool good = true;
	int rc;

	for (bit = KRDMA_RIGHT_ATOMIC << 1; bit; bit <<= 1) {
		rc = kst_open_region(fd, session, "values-peer", bit | 1, &id, NULL);
		good &= rc == -EINVAL || rc == -EOPNOTSUPP;
	}
	kst_ok(good, "OPEN with a right that does not exist is EINVAL or EOPNOTSUPP");
	kst_ok(kst_sentence(fd, rc, "right"), "and the sentence is about rights");
	kst_fails(fd, kst_open_region(fd, session, "nothing", 0, &id, NULL), -ENOENT, "nothing",
		  "OPEN of what is not there is ENOENT");
	kst_fails(fd, kst_open_region(fd, session, "values-peer", KRDMA_RIGHT_ATOMIC, &id, NULL),
		  -EACCES, "values-peer", "OPEN with a right that is not granted is EACCES");
	kst_settled(&before, "no region is left");
}

int main(int argc, char **argv)
{
	struct kst_state begin, before;

	kst_main(argc, argv, 1);
	begin = kst_now();
	have_peer = kst_peer_start();
	fd = kst_open();

	test_query();
	test_last_error();
	before = kst_now();
	test_list_values();
	test_list_entries();
	kst_settled(&before, "no export is left");
	test_listen();
	test_connect();
	if (have_peer) {
		if (!kst_peer("export values-peer mem 65536 3 1") || kst_connect(fd, 0, &session))
			kst_bail("CONNECT: %s", kst_last_error(fd, NULL));
		test_ping();
		test_open();
	} else {
		kst_skip("needs node B", "PING and OPEN");
	}
	close(fd);
	kst_settled(&begin, "with the file all is gone");
	return kst_done();
}
