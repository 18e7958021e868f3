// SPDX-License-Identifier: GPL-2.0
/*
 * Values that can't be right, command by command: each gets an errno that the
 * uapi header knows, and nothing is left behind. Memory has a test of its own,
 * and so have ids, names and operations.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kst_harness.h"

#define LISTEN_PORT 7482

static int fd;
static __u32 session, region;

KST_FIXTURE(values, fd)
FIXTURE_SETUP(values)
{
	fd = kst_setup(false);
	self->before = kst_now();
}

KST_FIXTURE(connect, fd)
FIXTURE_SETUP(connect)
{
	fd = kst_setup(true);
	if (!kst_have_peer())
		SKIP(return, "needs node B");
	self->before = kst_now();
}

KST_FIXTURE(peer, fd)
FIXTURE_SETUP(peer)
{
	fd = kst_setup(true);
	if (!kst_have_peer())
		SKIP(return, "needs node B");
	ASSERT_NOT(kst_setup_region(fd, "values-peer", 65536, &session, &region, NULL), "%s",
		   kst_last_error(fd, NULL));
	self->before = kst_now();
}

/* ---- QUERY ---- */

TEST_F(values, query)
{
	struct krdma_ioc_query one = { .size = sizeof(one) }, two;

	memset(&two, 0xa5, sizeof(two));
	two.size = sizeof(two);
	two.flags = 0;
	EXPECT_THAT(!kst_call(fd, KRDMA_IOC_QUERY, &one) && !kst_call(fd, KRDMA_IOC_QUERY, &two) &&
			    !memcmp(&one, &two, sizeof(one)),
		    "QUERY fills in all of its struct, the same each time");
	EXPECT_THAT(one.size == sizeof(one) && one.features & KRDMA_FEATURE_RDMA &&
			    one.incarnation && !one.pinned_bytes && one.pinned_limit &&
			    one.op_pin_max && one.max_ids && one.submit_max == KRDMA_SUBMIT_MAX &&
			    one.version[0] && memchr(one.version, 0, sizeof(one.version)),
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

TEST_F(values, list_values)
{
	static const __u32 kinds[] = { 0, KRDMA_LIST_GRANTS + 1, 0x7fffffff, ~0U };
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
		EXPECT_FAILS(fd, list(&cmd), -EINVAL, what, "LIST of kind %#x is EINVAL", kinds[i]);
	}
	cmd = good;
	cmd.session = 1;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, "session", "LIST with a session is EINVAL");
	cmd = good;
	cmd.count = 0;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, NULL, "LIST with no room is EINVAL");
	cmd = good;
	cmd.stride = 0;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, NULL, "LIST with a stride of 0 is EINVAL");
	cmd.stride = ~0U;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, NULL, "LIST with a stride of 4 GiB is EINVAL");
	cmd = good;
	cmd.cursor = ~0ULL;
	EXPECT_THAT(!list(&cmd) && !cmd.count && !cmd.cursor, "LIST behind the end is empty");
	cmd = good;
	cmd.kind = KRDMA_LIST_PEER_EXPORTS;
	cmd.count = 11;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, "12", "a peer's list with room for 11 is EINVAL");
	cmd.count = 12;
	EXPECT_FAILS(fd, list(&cmd), -ENOENT, "session", "a peer's list without session is ENOENT");
	cmd.kind = KRDMA_LIST_ADDRESSES;
	cmd.count = 15;
	EXPECT_FAILS(fd, list(&cmd), -EINVAL, "16", "its addresses with room for 15 are EINVAL");
	cmd.count = 16;
	EXPECT_FAILS(fd, list(&cmd), -ENOENT, "session", "and without session ENOENT");
}

/* Three exports, listed in parts and by shorter and longer structs. */
TEST_F(values, list_entries)
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
		ASSERT_NOT(kst_export(fd, name, mem, 100 + i, KRDMA_RIGHT_READ, &ids[i]),
			   "EXPORT: %s", kst_last_error(fd, NULL));
	}
	cmd = (struct krdma_ioc_list){
		.kind = KRDMA_LIST_EXPORTS,
		.entries = (uintptr_t)room,
		.stride = sizeof(struct krdma_export_info) + 8,
		.count = 2,
	};
	memset(room, 0xff, KST_PAGE);
	good = !list(&cmd) && cmd.count == 2 && cmd.cursor;
	EXPECT_THAT(good && kst_all(room + sizeof(struct krdma_export_info), 8, 0) &&
			    kst_all(room + 2 * cmd.stride, 64, 0xff),
		    "LIST zeroes the tail of a longer struct, and stops at the room there is");
	for (n = cmd.count; cmd.cursor && n < 100; n += cmd.count)
		if (list(&cmd))
			break;
	EXPECT_THAT(n == (unsigned int)kst_count(KRDMA_LIST_EXPORTS, NULL, NULL),
		    "its cursor leads to all entries");
	memset(room, 0xff, KST_PAGE);
	cmd.cursor = 0;
	cmd.stride = 4;
	cmd.count = 16;
	EXPECT_THAT(!list(&cmd) && cmd.count >= 3 && kst_all(room + 4 * cmd.count, 64, 0xff),
		    "a shorter struct gets its leading members");
	cmd.cursor = 0;
	cmd.stride = 112;
	cmd.count = 16;
	cmd.entries = (uintptr_t)room + KST_PAGE - 2 * 112;
	EXPECT_FAILS(fd, list(&cmd), -EFAULT, NULL, "entries that can't be written are EFAULT");
	cmd.entries = 0;
	EXPECT_FAILS(fd, list(&cmd), -EFAULT, NULL, "so are entries at NULL");
	cmd.entries = ~0ULL - 64;
	EXPECT_FAILS(fd, list(&cmd), -EFAULT, NULL, "and entries that wrap around");
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

TEST_F(values, last_error)
{
	int file = kst_open(), err = -1;
	pthread_t thread;
	bool good = false;

	kst_last_error(file, &err);
	EXPECT_IS(0, err, "a file without a failure has no error");
	close(file);
	kst_destroy(fd, 4002);
	pthread_create(&thread, NULL, fail_in_thread, &good);
	pthread_join(thread, NULL);
	EXPECT_THAT(good && kst_sentence(fd, -ENOENT, "4002"), "each thread reads its own failure");
	good = !kst_call(fd, KRDMA_IOC_QUERY,
			 &(struct krdma_ioc_query){ .size = sizeof(struct krdma_ioc_query) });
	EXPECT_THAT(good && kst_sentence(fd, -ENOENT, "4002"),
		    "a call that works does not clear it");
}

/* ---- LISTEN, UNLISTEN ---- */

static int listen_at(struct __kernel_sockaddr_storage addr, const void *allow, __u32 count)
{
	struct krdma_ioc_listen cmd = {
		.size = sizeof(cmd),
		.addr = addr,
		.allow = (uintptr_t)allow,
		.allow_count = count,
	};

	return kst_call(fd, KRDMA_IOC_LISTEN, &cmd);
}

static int replace_at(struct __kernel_sockaddr_storage addr, const void *allow, __u32 count)
{
	struct krdma_ioc_listen cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_LISTEN_REPLACE,
		.addr = addr,
		.allow = (uintptr_t)allow,
		.allow_count = count,
	};

	return kst_call(fd, KRDMA_IOC_LISTEN, &cmd);
}

/* Has the listener on LISTEN_PORT these prefixes? */
static bool allows(const struct krdma_prefix *allow, __u32 count)
{
	static struct krdma_prefix_info infos[KRDMA_LISTEN_ALLOW_MAX];
	struct krdma_ioc_list cmd = {
		.kind = KRDMA_LIST_PREFIXES,
		.entries = (uintptr_t)infos,
		.stride = sizeof(infos[0]),
		.count = KST_ARRAY_SIZE(infos),
	};
	__u32 i, n = 0;

	if (list(&cmd))
		return false;
	for (i = 0; i < cmd.count; i++) {
		if (infos[i].listener.port != LISTEN_PORT)
			continue;
		if (n == count || memcmp(&infos[i].prefix, &allow[n++], sizeof(*allow)))
			return false;
	}
	return n == count;
}

static int unlisten_at(struct __kernel_sockaddr_storage addr)
{
	struct krdma_ioc_unlisten cmd = { .size = sizeof(cmd), .addr = addr };

	return kst_call(fd, KRDMA_IOC_UNLISTEN, &cmd);
}

/* @what is EINVAL with each of them. */
static void bad_addresses(struct __test_metadata *_metadata, const char *what,
			  int (*call)(struct __kernel_sockaddr_storage addr), bool unspec_ok)
{
	struct __kernel_sockaddr_storage addr;
	unsigned char *bytes = (void *)&addr;

#define BAD_ADDRESS(_sort) EXPECT_FAILS(fd, call(addr), -EINVAL, NULL, "%s %s", what, _sort)

	addr = kst_ipv4(KST_A, LISTEN_PORT);
	addr.ss_family = AF_UNIX;
	BAD_ADDRESS("AF_UNIX");
	addr.ss_family = 0xffff;
	BAD_ADDRESS("family 65535");
	addr.ss_family = AF_UNSPEC;
	BAD_ADDRESS("AF_UNSPEC with an address");
	addr.ss_family = AF_INET6;
	BAD_ADDRESS("IPv6 with flow information");
	addr = kst_ipv4(KST_A, LISTEN_PORT);
	bytes[offsetof(struct sockaddr_in, sin_zero)] = 1;
	BAD_ADDRESS("IPv4 with a byte behind it");
	addr = kst_ipv4(KST_A, LISTEN_PORT);
	bytes[sizeof(addr) - 1] = 1;
	BAD_ADDRESS("IPv4 with a last byte");
	memset(&addr, 0, sizeof(addr));
	addr.ss_family = AF_INET6;
	bytes[sizeof(struct sockaddr_in6)] = 1;
	BAD_ADDRESS("IPv6 with a byte behind it");
	if (!unspec_ok) {
		memset(&addr, 0, sizeof(addr));
		BAD_ADDRESS("AF_UNSPEC");
	}
}

static int listen_plain(struct __kernel_sockaddr_storage addr)
{
	int rc = listen_at(addr, NULL, 0);

	if (!rc)
		unlisten_at(addr);
	return rc;
}

TEST_F(values, listen)
{
	struct __kernel_sockaddr_storage any = kst_ipv4("0.0.0.0", LISTEN_PORT);
	struct __kernel_sockaddr_storage own = kst_ipv4(KST_A, LISTEN_PORT);
	static struct krdma_prefix allow[KRDMA_LISTEN_ALLOW_MAX + 1];
	struct krdma_prefix bad = { .addr = kst_small_ipv4(KST_A, LISTEN_PORT), .prefix_len = 24 };
	unsigned int i;
	int rc;

	bad_addresses(_metadata, "LISTEN at", listen_plain, false);
	bad_addresses(_metadata, "UNLISTEN at", unlisten_at, false);
	EXPECT_FAILS(fd, unlisten_at(any), -ENOENT, "7482", "UNLISTEN where nothing is is ENOENT");
	rc = listen_at(kst_ipv4("192.0.2.1", LISTEN_PORT), NULL, 0);
	EXPECT_THAT(rc && kst_documented(rc),
		    "LISTEN at another host's address is a documented errno: it is %s: %s",
		    strerror(-rc), kst_last_error(fd, NULL));

	for (i = 0; i < KST_ARRAY_SIZE(allow); i++)
		allow[i] = bad;
	EXPECT_FAILS(fd, listen_at(any, allow, KST_ARRAY_SIZE(allow)), -EDQUOT, "64",
		     "an allow-list of 65 prefixes is EDQUOT");
	EXPECT_FAILS(fd, listen_at(any, NULL, 1), -EFAULT, NULL, "one at NULL is EFAULT");
	bad.prefix_len = 33;
	EXPECT_FAILS(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "33 bits of IPv4 are EINVAL");
	bad.prefix_len = 24;
	bad.reserved = 1;
	EXPECT_FAILS(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "so is a reserved bit in it");
	bad.reserved = 0;
	bad.addr.family = AF_INET6;
	bad.prefix_len = 129;
	EXPECT_FAILS(fd, listen_at(any, &bad, 1), -EINVAL, "prefix", "129 bits of IPv6 are EINVAL");
	bad.addr.family = AF_UNSPEC;
	EXPECT_FAILS(fd, listen_at(any, &bad, 1), -EINVAL, NULL, "a prefix of no family is EINVAL");
	bad.addr.family = AF_INET6;
	bad.prefix_len = 64;
	EXPECT_FAILS(fd, listen_at(any, &bad, 1), -EINVAL, "IPv6",
		     "only a prefix of IPv6 for a listener of IPv4 is EINVAL");
	EXPECT_SAME(&self->before, "none of them listens");

	allow[0] = bad;

	EXPECT_IS(0, listen_at(any, allow, KRDMA_LISTEN_ALLOW_MAX), "64 prefixes are fine");
	EXPECT_FAILS(fd, listen_at(any, NULL, 0), -EEXIST, "7482", "a second listener is EEXIST");
	rc = listen_at(own, NULL, 0);
	if (!rc)
		unlisten_at(own);
	EXPECT_THAT(!rc || rc == -EEXIST || rc == -EADDRINUSE || rc == -EADDRNOTAVAIL,
		    "one at an address of the first works or is refused");
	EXPECT_THAT(allows(allow, KRDMA_LISTEN_ALLOW_MAX), "they are listed");
	EXPECT_IS(0, replace_at(any, allow + 1, 2), "its prefixes can be replaced");
	EXPECT_THAT(allows(allow + 1, 2), "by others");
	EXPECT_FAILS(fd, replace_at(any, &bad, 1), -EINVAL, "IPv6", "a wrong one is EINVAL");
	EXPECT_THAT(allows(allow + 1, 2), "and leaves those");
	EXPECT_IS(0, replace_at(any, NULL, 0), "or by none");
	EXPECT_THAT(allows(NULL, 0), "then all peers are admitted");
	EXPECT_IS(0, unlisten_at(any), "UNLISTEN removes it");
	EXPECT_IS(0, replace_at(any, allow + 1, 1), "nothing that is replaced is a new listener");
	EXPECT_THAT(allows(allow + 1, 1), "with its prefix");
	EXPECT_IS(0, unlisten_at(any), "UNLISTEN removes it, too");
}

/* ---- CONNECT, PING, OPEN ---- */

static int connect_to(struct __kernel_sockaddr_storage dst, struct __kernel_sockaddr_storage src,
		      __u32 timeout_ms)
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

static int connect_dst(struct __kernel_sockaddr_storage dst)
{
	return connect_to(dst, (struct __kernel_sockaddr_storage){ 0 }, 1000);
}

static int connect_src(struct __kernel_sockaddr_storage src)
{
	return connect_to(kst_ipv4(KST_B, KST_PORT), src, 1000);
}

/* The waiting thread is woken: with a minute to wait, half of it is enough on any machine. */
TEST_F(connect, woken)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_CONNECT_PRIVATE,
		.dst = kst_ipv4(KST_B, KST_PORT),
		.timeout_ms = 60000,
	};
	double begin = kst_seconds();
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	EXPECT_THAT(!rc && kst_seconds() - begin < 30, "CONNECT returns when the session is up");
	if (!rc)
		kst_destroy(fd, cmd.id);
}

/* An address of node A's network: all its bits for the host are those of @host. */
static const char *neighbour(__u32 host)
{
	__u32 own = inet_addr(kst_text_ipv4(KST_A)), mask = 0;
	struct ifaddrs *list, *each;
	struct in_addr addr;

	if (getifaddrs(&list))
		kst_bail("getifaddrs: %s", strerror(errno));
	for (each = list; each; each = each->ifa_next)
		if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET &&
		    ((struct sockaddr_in *)each->ifa_addr)->sin_addr.s_addr == own)
			mask = ((struct sockaddr_in *)each->ifa_netmask)->sin_addr.s_addr;
	freeifaddrs(list);
	addr.s_addr = (own & mask) | (htonl(host) & ~mask);
	return inet_ntoa(addr);
}

TEST_F(values, connect)
{
	double begin = kst_seconds();
	const char *nobody;
	int rc;

	bad_addresses(_metadata, "CONNECT to", connect_dst, false);
	bad_addresses(_metadata, "CONNECT from", connect_src, true);
	rc = connect_dst(kst_ipv4("203.0.113.1", KST_PORT));
	EXPECT_THAT(rc && kst_documented(rc),
		    "CONNECT without a route is a documented errno: it is %s: %s", strerror(-rc),
		    kst_last_error(fd, NULL));
	/* siw gives it to TCP, which has other words for that. */
	rc = connect_dst(kst_ipv4(neighbour(~0U), KST_PORT));
	EXPECT_THAT(rc == -ENOTCONN || rc == -ETIMEDOUT,
		    "nor is there a way to a broadcast address: it is %s: %s", strerror(-rc),
		    kst_last_error(fd, NULL));
	rc = connect_src(kst_ipv4("192.0.2.1", 0));
	EXPECT_THAT(rc && kst_documented(rc),
		    "so is CONNECT from another host's address: it is %s: %s", strerror(-rc),
		    kst_last_error(fd, NULL));
	nobody = neighbour(99);
	rc = connect_to(kst_ipv4(nobody, KST_PORT), (struct __kernel_sockaddr_storage){ 0 }, 20);
	EXPECT_FAILS(fd, rc, -ETIMEDOUT, nobody, "CONNECT to nobody ends at its time limit");
	EXPECT_THAT(kst_seconds() - begin < 5, "all that within a short time");
}

static int connect_options(__u32 flags, __u32 resume_s, __u32 keepalive_s, __u64 *serial)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.dst = kst_ipv4(KST_B, KST_PORT),
		.resume_s = resume_s,
		.keepalive_s = keepalive_s,
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	*serial = cmd.serial;
	return rc ? rc : (int)cmd.id;
}

TEST_F(connect, chosen)
{
	struct krdma_session_info info = { 0 };
	struct krdma_ioc_list list = {
		.size = sizeof(list),
		.kind = KRDMA_LIST_SESSIONS,
		.entries = (uintptr_t)&info,
		.stride = sizeof(info),
		.count = 1,
	};
	int first, same, longer, keeps, fast;
	__u64 serial, other;

	EXPECT_FAILS(fd, connect_options(0, KRDMA_RESUME_MAX + 1, 0, &serial), -EINVAL, "3600",
		     "CONNECT that resumes for too long");
	EXPECT_FAILS(fd, connect_options(0, 0, KRDMA_KEEPALIVE_MAX + 1, &serial), -EINVAL, "60",
		     "CONNECT with too long a keepalive");
	EXPECT_FAILS(fd, connect_options(KRDMA_CONNECT_FAIL_FAST, 1, 0, &serial), -EINVAL,
		     "does not resume", "CONNECT that fails fast, and resumes");
	first = connect_options(0, 7, 3, &serial);
	EXPECT_THAT(first > 0, "CONNECT with a time to resume and a keepalive");
	same = connect_options(0, 7, 3, &other);
	EXPECT_IS(serial, other, "a session is shared by those who choose the same");
	longer = connect_options(0, 8, 3, &other);
	EXPECT_THAT(longer > 0 && other != serial, "not with another time to resume");
	keeps = connect_options(0, 7, 4, &other);
	EXPECT_THAT(keeps > 0 && other != serial, "nor with another keepalive");
	fast = connect_options(KRDMA_CONNECT_FAIL_FAST, 0, 3, &other);
	EXPECT_THAT(fast > 0 && other != serial, "nor by those who want it to fail fast");
	list.session = first;
	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_LIST, &list), "LIST of one session");
	EXPECT_THAT(list.count == 1 && !list.cursor && info.serial == serial,
		    "it is that session alone");
	/* iWARP does not resume. */
	EXPECT_THAT((info.resume_s == 7 || !info.resume_s) && info.keepalive_s == 3 &&
			    !info.away_ms,
		    "it is as it was chosen: it resumes for %u s, keepalive %u s", info.resume_s,
		    info.keepalive_s);
	list.kind = KRDMA_LIST_CHANNELS;
	EXPECT_IS(-EINVAL, kst_call(fd, KRDMA_IOC_LIST, &list), "LIST of one session's channels");
	kst_destroy(fd, first);
	kst_destroy(fd, same);
	kst_destroy(fd, longer);
	kst_destroy(fd, keeps);
	kst_destroy(fd, fast);
	list.kind = KRDMA_LIST_SESSIONS;
	EXPECT_IS(-ENOENT, kst_call(fd, KRDMA_IOC_LIST, &list), "LIST of a session without its id");
}

static int connect_over(const struct krdma_path_addr *paths, __u32 npaths, __u32 policy,
			__u64 *serial)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.dst = kst_ipv4(KST_B, KST_PORT),
		.policy = policy,
		.npaths = npaths,
		.paths = (uintptr_t)paths,
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	*serial = cmd.serial;
	return rc ? rc : (int)cmd.id;
}

TEST_F(connect, paths)
{
	struct krdma_path_addr paths[KRDMA_PATHS_MAX] = {
		/* The same address again: another path all the same. */
		{ .dst = { .family = AF_INET, .port = KST_PORT } },
	};
	struct krdma_path_info infos[8] = { 0 };
	struct krdma_ioc_list list = {
		.size = sizeof(list),
		.kind = KRDMA_LIST_PATHS,
		.entries = (uintptr_t)infos,
		.stride = sizeof(*infos),
		.count = KST_ARRAY_SIZE(infos),
	};
	int first, same, turns, one;
	__u64 serial, other;
	__u32 i, n = 0;

	inet_pton(AF_INET, KST_B, paths[0].dst.addr);
	EXPECT_FAILS(fd, connect_over(paths, KRDMA_PATHS_MAX, 0, &serial), -EINVAL, "4",
		     "CONNECT with too many paths");
	EXPECT_FAILS(fd, connect_over(NULL, 1, 0, &serial), -EFAULT, "paths",
		     "CONNECT with paths that can't be read");
	EXPECT_FAILS(fd, connect_over(paths + 1, 1, 0, &serial), -EINVAL, "family 0",
		     "CONNECT with a path to nowhere");
	EXPECT_FAILS(fd, connect_over(NULL, 0, KRDMA_POLICY_LATENCY + 1, &serial), -EINVAL,
		     "policy 3", "CONNECT with a policy that there is not");
	first = connect_over(paths, 1, 0, &serial);
	EXPECT_THAT(first > 0, "CONNECT with two paths");
	same = connect_over(paths, 1, 0, &other);
	EXPECT_IS(serial, other, "a session is shared by those who name the same paths");
	turns = connect_over(paths, 1, KRDMA_POLICY_ROUND_ROBIN, &other);
	EXPECT_THAT(turns > 0 && other != serial, "not with another policy");
	one = connect_over(NULL, 0, 0, &other);
	EXPECT_THAT(one > 0 && other != serial, "nor with one path");
	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_LIST, &list), "LIST of paths");
	for (i = 0; i < list.count; i++)
		n += infos[i].session == serial;
	EXPECT_IS(2, n, "it has both");
	kst_destroy(fd, first);
	kst_destroy(fd, same);
	kst_destroy(fd, turns);
	kst_destroy(fd, one);
}

/* ---- MONITOR ---- */

/* Exports that come and go, two events each. Return: how many have */
static unsigned int exports_come_and_go(unsigned int n)
{
	void *memory = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	unsigned int i;
	__u32 id;

	for (i = 0; i < n; i++)
		if (kst_export(fd, "values-event", memory, KST_PAGE, KRDMA_RIGHT_READ, &id) ||
		    kst_destroy(fd, id))
			break;
	munmap(memory, KST_PAGE);
	return i;
}

TEST_F(values, monitor)
{
	struct krdma_ioc_monitor cmd = { .size = sizeof(cmd), .flags = KRDMA_MONITOR_NONBLOCK };
	static struct krdma_monitor_event events[300];
	struct pollfd poll_fd = { .events = POLLIN };
	unsigned int i, odd = 0;
	ssize_t got;

	EXPECT_IS(0, kst_call(fd, KRDMA_IOC_MONITOR, &cmd), "MONITOR");
	poll_fd.fd = cmd.fd;
	got = read(cmd.fd, events, sizeof(events));
	EXPECT_THAT(got < 0 && errno == EAGAIN && !poll(&poll_fd, 1, 0), "there is no event yet");
	EXPECT_IS(1, exports_come_and_go(1), "an export comes and goes");
	EXPECT_THAT(poll(&poll_fd, 1, 0) == 1 && poll_fd.revents == POLLIN, "poll finds events");
	got = read(cmd.fd, events, sizeof(events[0]) - 1);
	EXPECT_THAT(got < 0 && errno == EMSGSIZE, "a short buffer is EMSGSIZE");
	got = read(cmd.fd, (void *)-4096L, sizeof(events));
	EXPECT_THAT(got < 0 && errno == EFAULT, "bad memory is EFAULT, and no event is lost by it");
	got = read(cmd.fd, events, sizeof(events[0]) + 1);
	EXPECT_IS((ssize_t)sizeof(events[0]), got, "one event fits");
	EXPECT_THAT(events[0].type == KRDMA_EVENT_EXPORT_ADDED &&
			    events[0].size == sizeof(events[0]) && !events[0].lost &&
			    !events[0].session && !strcmp(events[0].name, "values-event"),
		    "it is that of the export");
	got = read(cmd.fd, events, sizeof(events));
	EXPECT_THAT(got == sizeof(events[0]) && events[0].type == KRDMA_EVENT_EXPORT_ENDED,
		    "and so is the next one");

	EXPECT_IS(150, exports_come_and_go(150), "more events come than are kept");
	got = read(cmd.fd, events, sizeof(events));
	EXPECT_IS((ssize_t)(256 * sizeof(events[0])), got, "the latest 256 are there");
	for (i = 0; i < 256; i++)
		odd += events[i].lost != (i ? 0 : 300 - 256) ||
		       events[i].type != KRDMA_EVENT_EXPORT_ADDED + i % 2 ||
		       (i && events[i].time_ns < events[i - 1].time_ns);
	EXPECT_IS(0, odd, "in order, and the first says how many were lost before it");
	close(cmd.fd);
}

static int disconnect(__u64 serial, __u32 timeout_ms)
{
	struct krdma_ioc_disconnect cmd = {
		.size = sizeof(cmd),
		.serial = serial,
		.timeout_ms = timeout_ms,
	};

	return kst_call(fd, KRDMA_IOC_DISCONNECT, &cmd);
}

TEST_F(connect, disconnect)
{
	struct krdma_ioc_ping ping = { .size = sizeof(ping), .timeout_ms = 1000 };
	int first, second;
	__u64 serial, other;

	first = connect_options(0, 0, 0, &serial);
	ASSERT_NOT(first <= 0, "CONNECT: %s", kst_last_error(fd, NULL));
	EXPECT_FAILS(fd, disconnect(1ULL << 60, 0), -ENOENT, "no session",
		     "DISCONNECT of a session that is not there");
	EXPECT_FAILS(fd, disconnect(serial, KRDMA_DRAIN_MAX * 1000 + 1), -EINVAL, "3600",
		     "DISCONNECT that waits for too long");
	EXPECT_IS(0, disconnect(serial, 0), "DISCONNECT of an idle session");
	ping.session = first;
	EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_PING, &ping), -ENOTCONN,
		     "disconnected on this host",
		     "it is of no use any more, and the sentence says why");
	EXPECT_FAILS(fd, disconnect(serial, 0), -ENOENT, "no session", "DISCONNECT once more");
	second = connect_options(0, 0, 0, &other);
	EXPECT_THAT(second > 0 && other != serial, "CONNECT makes another session");
	kst_destroy(fd, first);
	kst_destroy(fd, second);
}

TEST_F(connect, refused)
{
	int rc = connect_to(kst_ipv4(KST_B, KST_PORT + 9), (struct __kernel_sockaddr_storage){ 0 },
			    30000);

	EXPECT_FAILS(fd, rc, -ECONNREFUSED, kst_text_ipv4(KST_B),
		     "CONNECT where nobody listens is ECONNREFUSED");
}

TEST_F(peer, ping)
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
		EXPECT_THAT(!rc && cmd.rtt_ns, "a ping of %u bytes comes back", good[i]);
	}
	for (i = 0; i < KST_ARRAY_SIZE(bad); i++) {
		cmd.length = bad[i];
		EXPECT_FAILS(fd, kst_call(fd, KRDMA_IOC_PING, &cmd), -EINVAL, "512",
			     "one of %u bytes is EINVAL", bad[i]);
	}
}

TEST_F(peer, open)
{
	__u32 bit, id = 0;
	int rc;

	for (bit = KRDMA_RIGHT_ATOMIC << 1; bit; bit <<= 1) {
		rc = kst_open_region(fd, session, "values-peer", bit | 1, &id, NULL);
		EXPECT_THAT(rc == -EINVAL || rc == -EOPNOTSUPP,
			    "OPEN with a right that does not exist is EINVAL or EOPNOTSUPP");
	}
	EXPECT_THAT(kst_sentence(fd, rc, "right"), "and the sentence is about rights");
	EXPECT_FAILS(fd, kst_open_region(fd, session, "nothing", 0, &id, NULL), -ENOENT, "nothing",
		     "OPEN of what is not there is ENOENT");
	EXPECT_FAILS(fd, kst_open_region(fd, session, "values-peer", KRDMA_RIGHT_ATOMIC, &id, NULL),
		     -EACCES, "values-peer", "OPEN with a right that is not granted is EACCES");
}

KST_HARNESS_MAIN(1)
