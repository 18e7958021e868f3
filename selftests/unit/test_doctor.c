// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of krdma doctor: what it says of hosts that are made up here, by their files, network
 * devices, RDMA devices, limits and packet filters.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- a host ---- */

struct file {
	const char *path;
	const char *text; /* NULL: it can't be read */
};

struct row {
	const char *type; /* NULL ends them */
	const char *netdev, *gid, *usable;
	int pages;
};

static const struct file *files; /* a path of NULL ends them */
static const struct row *rdma_devices;
static const char *rules = ""; /* what another program prints: of the packet filter, of dcb(8) */
static const char *release;    /* of Linux */
static struct ifaddrs *netdevs;
static struct rlimit memlock;
static bool ipc_lock;

static const struct file *file_find(const char *path)
{
	const struct file *file = files;

	while (file && file->path && strcmp(file->path, path) != 0)
		file++;
	return file && file->path ? file : NULL;
}

static int fake_access(const char *path, int mode)
{
	(void)mode;
	return file_find(path) ? 0 : -1;
}

static int fake_getrlimit(int resource, struct rlimit *limit)
{
	(void)resource;
	*limit = memlock;
	return 0;
}

static int fake_getifaddrs(struct ifaddrs **all)
{
	*all = netdevs;
	return 0;
}

static void fake_freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

static FILE *fake_popen(const char *command, const char *mode)
{
	(void)command;
	(void)mode;
	return fmemopen((void *)rules, strlen(rules), "r");
}

static int fake_uname(struct utsname *name)
{
	snprintf(name->release, sizeof(name->release), "%s", release);
	return 0;
}

#define access(path, mode)   fake_access(path, mode)
#define getrlimit(what, to)  fake_getrlimit(what, to)
#define getifaddrs(all)      fake_getifaddrs(all)
#define freeifaddrs(all)     fake_freeifaddrs(all)
#define popen(command, mode) fake_popen(command, mode)
#define pclose(pipe)         fclose(pipe)
#define uname(name)          fake_uname(name)
/* A root that may have no capabilities. */
#define geteuid() 0

#include "../../userspace/cli/cmd_doctor.c"

/* Its fail() is a macro. */
#include <cmocka.h>

/* ---- of the krdma command ---- */

bool json_asked = true;
const struct list list_devices = { .key = "devices" };

bool first_line(const char *path, char *text, size_t size)
{
	const struct file *file = file_find(path);

	snprintf(text, size, "%s", file && file->text ? file->text : "");
	return file && file->text;
}

bool memlock_counts(void)
{
	return !ipc_lock;
}

void json_add_text(struct json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, json_object_new_string(text));
}

int list_fetch(struct krdma *krdma, const struct list *list, uint32_t session,
	       struct json_object *root)
{
	struct json_object *rows = json_object_new_array();
	const struct row *from;

	(void)krdma;
	(void)session;
	json_object_object_add(root, list->key, rows);
	for (from = rdma_devices; from->type; from++) {
		struct json_object *row = json_object_new_object();

		json_add_text(row, "device", from->gid);
		json_add_text(row, "port", "1");
		json_add_text(row, "netdev", from->netdev);
		json_add_text(row, "gid", from->gid);
		json_add_text(row, "type", from->type);
		json_add_text(row, "usable", from->usable);
		json_object_object_add(row, "segment_pages", json_object_new_int(from->pages));
		json_object_array_add(rows, row);
	}
	return 0;
}

const char *size_text(uint64_t bytes, char text[SIZE_TEXT])
{
	snprintf(text, SIZE_TEXT, "%ju", (uintmax_t)bytes);
	return text;
}

/* The tests call no more than the checks of a host. */

int timeout_option(const struct command *command, int argc, char **argv, uint64_t *timeout_ns)
{
	(void)command;
	(void)argc;
	(void)argv;
	(void)timeout_ns;
	abort();
}

int usage_error(const char *fmt, ...)
{
	(void)fmt;
	abort();
}

uint32_t timeout_to_ms(uint64_t ns)
{
	(void)ns;
	abort();
}

struct krdma_connect_options connect_options(uint32_t flags, uint64_t timeout_ns)
{
	(void)flags;
	(void)timeout_ns;
	abort();
}

struct json_object *json_root(void)
{
	abort();
}

void json_finish(struct json_object *root)
{
	(void)root;
	abort();
}

/* ---- tests ---- */

static struct doctor new_doctor(void)
{
	return (struct doctor){ .checks = json_object_new_array() };
}

/* The last of its lines begins so: "result check finding". @wanted: NULL for no line */
static void expect(struct doctor *doctor, size_t number, const char *wanted)
{
	const size_t lines = json_object_array_length(doctor->checks);
	char text[1024] = "";

	if (lines) {
		struct json_object *line = json_object_array_get_idx(doctor->checks, lines - 1);

		snprintf(text, sizeof(text), "%s %s %s", row_text(line, "result"),
			 row_text(line, "check"), row_text(line, "finding"));
	}
	json_object_put(doctor->checks);
	if (wanted ? strncmp(text, wanted, strlen(wanted)) != 0 : *text != '\0')
		fail_msg("case %zu: '%s', not '%s'", number, text, wanted ? wanted : "");
}

#define INPUT(policy, lines)                                                             \
	"table inet filter {\n\tchain input {\n"                                         \
	"\t\ttype filter hook input priority filter; policy " policy ";\n" lines "\t}\n" \
	"\tchain output {\n"                                                             \
	"\t\ttype filter hook output priority filter; policy accept;\n"                  \
	"\t\tudp dport 4791 accept\n\t\ttcp dport 7471 accept\n\t}\n}\n"

#define NO_ROCE \
	"note firewall what comes in is dropped, and no rule beside that accepts UDP port 4791"
#define NO_IWARP \
	"note firewall what comes in is dropped, and no rule beside that accepts TCP port 7471"
#define SOME  "note firewall some packets are dropped or rejected"
#define OPEN  "ok firewall no rule drops"
#define RULES "ok firewall rules accept"

static void test_firewall(void **state)
{
	static const struct {
		const char *rules;
		const char *roce, *iwarp, *both; /* what is said to hosts with these */
	} cases[] = {
		{ INPUT("accept", ""), OPEN, OPEN, OPEN },
		{ INPUT("accept", "\t\ttcp dport 22 accept\n"), OPEN, OPEN, OPEN },
		/* Rules of an output chain accept both. */
		{ INPUT("drop", ""), NO_ROCE, NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport 4791 accept\n"), RULES, NO_IWARP, NO_IWARP },
		{ INPUT("drop", "\t\ttcp dport { 22, 7471 } accept comment \"RDMA\"\n"), NO_ROCE,
		  RULES, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport 4791 accept\n\t\ttcp dport 7471 accept\n"), RULES,
		  RULES, RULES },
		{ INPUT("drop", "\t\tudp dport 4791 counter packets 1 bytes 80 accept\n"
				"\t\tct state invalid drop\n"),
		  SOME, NO_IWARP, NO_IWARP },
		{ INPUT("drop", "\t\tudp dport 4791 drop\n\t\ttcp dport 7471 reject\n"), NO_ROCE,
		  NO_IWARP, NO_ROCE },
		{ INPUT("accept", "\t\tudp dport 4791 drop\n"), SOME, SOME, SOME },
		{ INPUT("accept", "\t\treject with icmpx admin-prohibited\n"), SOME, SOME, SOME },
		{ INPUT("drop", "\t\tudp dport { 53, 4790-4792 } accept\n"), RULES, NO_IWARP,
		  NO_IWARP },
		{ ":INPUT DROP [0:0]\n-A INPUT -p tcp -m multiport --dports 7000:8000 -j ACCEPT\n",
		  NO_ROCE, RULES, NO_ROCE },
		{ "# Table `firewalld' is incompatible, use 'nft' tool.\n", SOME, SOME, SOME },
		/* What is not the rule that is wanted. */
		{ INPUT("drop", "\t\ttcp dport 4791 accept\n\t\tudp dport 7471 accept\n"), NO_ROCE,
		  NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport 14791 accept\n\t\tudp dport 47910 accept\n"),
		  NO_ROCE, NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport != 4791 accept\n"), NO_ROCE, NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp sport 4791 accept\n"), NO_ROCE, NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport 53 counter packets 4791 bytes 4791 accept\n"),
		  NO_ROCE, NO_IWARP, NO_ROCE },
		{ INPUT("drop", "\t\tudp dport 4791 jump accept_some\n"), NO_ROCE, NO_IWARP,
		  NO_ROCE },
		/* Each chain has to. */
		{ INPUT("drop", "\t\tudp dport 4791 accept\n") INPUT("drop", ""), NO_ROCE, NO_IWARP,
		  NO_ROCE },
		/* iptables-save(8) */
		{ "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n",
		  OPEN, OPEN, OPEN },
		{ "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\nCOMMIT\n",
		  RULES, NO_IWARP, NO_IWARP },
		{ "*filter\n:INPUT DROP [0:0]\n"
		  "-A INPUT -p tcp -m multiport --dports 22,7471 -j ACCEPT\nCOMMIT\n",
		  NO_ROCE, RULES, NO_ROCE },
		{ "*filter\n:INPUT DROP [0:0]\n-A OUTPUT -p udp -m udp --dport 4791 -j ACCEPT\nCOMMIT\n",
		  NO_ROCE, NO_IWARP, NO_ROCE },
		{ "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp ! --dport 4791 -j ACCEPT\nCOMMIT\n",
		  NO_ROCE, NO_IWARP, NO_ROCE },
		{ "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 4791 -j DROP\nCOMMIT\n",
		  NO_ROCE, NO_IWARP, NO_ROCE },
		{ "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j REJECT\nCOMMIT\n", SOME, SOME, SOME },
		/* As of iptables-save and ip6tables-save. */
		{ "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\nCOMMIT\n"
		  "*filter\n:INPUT DROP [0:0]\nCOMMIT\n",
		  NO_ROCE, NO_IWARP, NO_ROCE },
	};
	size_t i;
	int n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (n = 0; n < 4; n++) {
			struct doctor doctor = new_doctor();

			doctor.roce = n & 1;
			doctor.iwarp = n & 2;
			rules = cases[i].rules;
			check_firewall(&doctor);
			/* Without them there is InfiniBand. */
			expect(&doctor, i,
			       n == 3 ? cases[i].both :
			       n == 2 ? cases[i].iwarp :
			       n == 1 ? cases[i].roce :
					NULL);
		}
	}
}

static void test_kernel(void **state)
{
	static const struct {
		const char *release, *wanted;
	} cases[] = {
		{ "6.1.0-56-amd64", "ok kernel Linux 6.1.0" },
		{ "6.0.19", "bad kernel Linux 6.0.19 is too old" },
		{ "5.19.0", "bad kernel Linux 5.19.0 is too old" },
		{ "7.0-rc1", "ok kernel Linux 7.0-rc1" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor doctor = new_doctor();

		release = cases[i].release;
		check_kernel(&doctor);
		expect(&doctor, i, cases[i].wanted);
	}
}

static void test_signature(void **state)
{
	static const struct {
		const char *enforced, *wanted;
	} cases[] = {
		{ "Y", "note signature this kernel loads signed modules only" },
		{ "N", "bad module krdma_mover is not loaded" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct file host[] = {
			{ "/sys/module/module/parameters/sig_enforce", cases[i].enforced },
			{ .path = NULL },
		};
		struct doctor doctor = new_doctor();

		files = host;
		assert_false(check_module(&doctor));
		assert_int_equal(doctor.bad, 1);
		expect(&doctor, i, cases[i].wanted);
		files = NULL;
	}
}

static void test_pfc(void **state)
{
	static const struct {
		const char *said, *wanted;
	} cases[] = {
		{ "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n", "ok pfc eth0 has" },
		{ "prio-pfc 0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off\n",
		  "note pfc eth0 has no priority flow control" },
		{ "", "note pfc eth0: priority flow control can't be read" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor doctor = new_doctor();

		rules = cases[i].said;
		check_pfc(&doctor, "eth0");
		expect(&doctor, i, cases[i].wanted);
	}
}

static void test_memlock(void **state)
{
	static const struct {
		rlim_t limit;
		bool ipc_lock;
		const char *wanted;
	} cases[] = {
		{ 65536, false, "bad memlock RLIMIT_MEMLOCK is 65536, a segment has 2097152" },
		{ 65536, true, "ok memlock memory may be locked without limit" },
		{ RLIM_INFINITY, false, "ok memlock memory may be locked without limit" },
		{ 2097152, false, "ok memlock RLIMIT_MEMLOCK is 2097152" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor doctor = new_doctor();

		doctor.segment_bytes = 2097152;
		memlock.rlim_cur = cases[i].limit;
		ipc_lock = cases[i].ipc_lock;
		check_memlock(&doctor);
		expect(&doctor, i, cases[i].wanted);
	}
}

static void test_segment(void **state)
{
	static const struct row rows[] = {
		{ "roce-v2", "eth0", "fe80::1", "yes", 4 },
		{ "roce-v2", "eth1", "fe80::2", "no", 16 },
		{ "iwarp", "eth2", "fe80::3", "yes", 1 },
		{ .type = NULL },
	};
	struct doctor doctor = new_doctor();

	(void)state;
	rdma_devices = rows;
	check_devices(&doctor);
	json_object_put(doctor.checks);
	assert_int_equal(doctor.segment_bytes, 16 * sysconf(_SC_PAGESIZE));
}

/* Of IPoIB: four bytes, and the GID fe80::2:c903:0:1. */
static struct {
	struct sockaddr_ll link;
	unsigned char more[12];
} hardware = {
	.link = { .sll_family = AF_PACKET,
		  .sll_hatype = ARPHRD_INFINIBAND,
		  .sll_halen = 20,
		  .sll_addr = { 0x80, 0, 0, 0x48, 0xfe, 0x80 } },
	.more = { [5] = 2, [6] = 0xc9, [7] = 3, [11] = 1 },
};

#define HAS_IP "ok address a usable device has an IP address"
#define NO_IP  "bad address no usable device has an IP address"

static void test_address(void **state)
{
	static const struct {
		struct row rows[3];
		bool has_ib0, has_eth0; /* their addresses */
	} cases[] = {
		{ { { "infiniband", "", "fe80::2:c903:0:1", "yes", 1 } }, true, false },
		{ { { "infiniband", "", "fe80::2:c903:0:2", "yes", 1 } }, false, false },
		{ { { "infiniband", "", "fe80::2:c903:0:2", "yes", 1 },
		    { "infiniband", "", "fe80::2:c903:0:1", "yes", 1 } },
		  true,
		  false },
		{ { { "roce-v2", "eth0", "fe80::1", "yes", 1 },
		    { "roce-v2", "eth0", "::ffff:10.0.1.1", "yes", 1 } },
		  false,
		  true },
		/* No GID has the address. */
		{ { { "roce-v2", "eth0", "fe80::1", "yes", 1 } }, false, false },
		{ { { "roce-v2", "eth1", "::ffff:10.0.1.1", "yes", 1 } }, false, false },
		{ { { "iwarp", "eth1", "200:0:1::", "yes", 1 } }, false, false },
		/* A VLAN, or a bond, with the hardware address of the device. */
		{ { { "iwarp", "eth1", "200:0:2::", "yes", 1 } }, false, true },
		{ { { "iwarp", "eth0", "fe80::1", "yes", 1 } }, false, true },
	};
	struct sockaddr_in ib0 = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a000001) } };
	struct sockaddr_in eth0 = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a000101) } };
	struct sockaddr_in6 local = { .sin6_family = AF_INET6,
				      .sin6_addr = { { { 0xfe, 0x80, [15] = 9 } } } };
	struct sockaddr_ll ethernet = { .sll_family = AF_PACKET,
					.sll_halen = 6,
					.sll_addr = { 2, 0, 0, 0, 0, 2 } };
	struct ifaddrs all[] = {
		{ .ifa_next = &all[1], .ifa_name = "tun0" }, /* has none */
		{ .ifa_next = &all[2], .ifa_name = "ib0", .ifa_addr = (void *)&hardware },
		{ .ifa_next = &all[3], .ifa_name = "ib0", .ifa_addr = (void *)&ib0 },
		{ .ifa_next = &all[4], .ifa_name = "eth0", .ifa_addr = (void *)&ethernet },
		{ .ifa_next = &all[5], .ifa_name = "eth0:1", .ifa_addr = (void *)&eth0 },
		{ .ifa_name = "eth0", .ifa_addr = (void *)&local },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const bool has = cases[i].has_ib0 || cases[i].has_eth0;
		struct doctor doctor = new_doctor();

		rdma_devices = cases[i].rows;
		netdevs = all;
		check_devices(&doctor);
		expect(&doctor, i, has ? HAS_IP : NO_IP);
		assert_int_equal(device_has(NULL, "10.0.0.1"), cases[i].has_ib0);
		assert_int_equal(device_has(NULL, "10.0.1.1"), cases[i].has_eth0);
		netdevs = NULL;
		doctor = new_doctor();
		check_devices(&doctor);
		expect(&doctor, i, NO_IP);
	}
}

#define IN(path)                                          \
	{ "/proc/self/cgroup", "0::" path },              \
	{                                                 \
		"/sys/fs/cgroup" path "/cgroup.procs", "" \
	}
#define A_MAX "/sys/fs/cgroup/a/memory.max"
#define B_MAX "/sys/fs/cgroup/a/b/memory.max"

#define NO_LIMIT   "ok cgroup no limit of memory"
#define LIMIT(max) "note cgroup this cgroup has " max " of memory"
#define UNREAD     "note cgroup a limit of memory may be there"

static void test_cgroup(void **state)
{
	static const struct {
		const char *wanted;
		struct file files[5];
	} cases[] = {
		{ NULL, { { NULL, NULL } } },
		{ NO_LIMIT, { IN("/") } },
		{ NO_LIMIT, { IN("/a/b"), { B_MAX, "max" }, { A_MAX, "max" } } },
		/* Without the controller. */
		{ NO_LIMIT, { IN("/a/b"), { A_MAX, "max" } } },
		{ LIMIT("4096"), { IN("/a/b"), { B_MAX, "4096" }, { A_MAX, "max" } } },
		{ LIMIT("8192"), { IN("/a/b"), { B_MAX, "max" }, { A_MAX, "8192" } } },
		{ LIMIT("8192"), { IN("/a/b"), { B_MAX, "9000" }, { A_MAX, "8192" } } },
		{ UNREAD, { IN("/a/b"), { B_MAX, NULL }, { A_MAX, "max" } } },
		{ UNREAD, { IN("/a/b"), { B_MAX, "max" }, { A_MAX, NULL } } },
		/* In a namespace; not mounted; of version 1. */
		{ UNREAD, { IN("/"), { "/sys/fs/cgroup/cgroup.type", "domain" } } },
		{ UNREAD, { { "/proc/self/cgroup", "0::/a/b" } } },
		{ UNREAD, { { "/proc/self/cgroup", "4:memory:/a" } } },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor doctor = new_doctor();

		files = cases[i].files;
		check_cgroup(&doctor);
		expect(&doctor, i, cases[i].wanted);
	}
	files = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),  cmocka_unit_test(test_signature),
		cmocka_unit_test(test_pfc),     cmocka_unit_test(test_firewall),
		cmocka_unit_test(test_memlock), cmocka_unit_test(test_segment),
		cmocka_unit_test(test_address), cmocka_unit_test(test_cgroup),
	};

	return cmocka_run_group_tests_name("krdma doctor", tests, NULL, NULL);
}
