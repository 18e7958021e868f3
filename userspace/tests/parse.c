// SPDX-License-Identifier: GPL-2.0
/* What needs neither a kernel module nor a network: values, targets, addresses, messages. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli.h"

static unsigned int tests, failures;

static void check(bool good, const char *what, const char *text)
{
	tests++;
	failures += !good;
	printf("%s %u - %s '%s'\n", good ? "ok" : "not ok", tests, what, text);
}

/* ---- Values ---- */

static void test_sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes; /* 0: refused */
	} cases[] = {
		{ "1", 1 },
		{ "4096", 4096 },
		{ "0x1000", 4096 },
		{ "64K", 64 * KIB },
		{ "64k", 64 * KIB },
		{ "64KiB", 64 * KIB },
		{ "3M", 3 * MIB },
		{ "4G", 4096 * MIB },
		{ "2T", 2 * MIB * MIB },
		{ "010", 10 },
		{ "16777215T", 16777215ULL << 40 },
		{ "18446744073709551615", UINT64_MAX },
		{ "18446744073709551616", 0 },
		{ "16777216T", 0 },
		{ "0", 0 },
		{ "", 0 },
		{ "K", 0 },
		{ "-1", 0 },
		{ "+1", 0 },
		{ " 1", 0 },
		{ "1 ", 0 },
		{ "1KB", 0 },
		{ "1KiBx", 0 },
		{ "1.5G", 0 },
		{ "0x", 0 },
		{ "1P", 0 },
	};
	uint64_t bytes;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = parse_size(cases[i].text, &bytes);

		check(cases[i].bytes ? !rc && bytes == cases[i].bytes : rc, "size", cases[i].text);
	}
}

static void test_seconds(void)
{
	static const struct {
		const char *text;
		uint64_t ns; /* 0: refused */
	} cases[] = {
		{ "1", NSEC_PER_SEC },
		{ "0.5", NSEC_PER_SEC / 2 },
		{ "0.000000001", 1 },
		{ "2.", 2 * NSEC_PER_SEC },
		{ "1000000", 1000000 * NSEC_PER_SEC },
		{ "0.0000000001", 0 },
		{ "0", 0 },
		{ "1000001", 0 },
		{ "-1", 0 },
		{ ".5", 0 },
		{ "1s", 0 },
		{ "1.5.5", 0 },
		{ "", 0 },
	};
	uint64_t ns;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = parse_seconds(cases[i].text, &ns);

		check(cases[i].ns ? !rc && ns == cases[i].ns : rc, "seconds", cases[i].text);
	}
}

static void test_counts(void)
{
	uint64_t count;

	check(!parse_count("512", 512, &count) && count == 512, "count", "512");
	check(!parse_count("0", 512, &count) && !count, "count", "0");
	check(parse_count("513", 512, &count), "count", "513");
	check(parse_count("5K", 512, &count), "count", "5K");
}

static void test_targets(void)
{
	static const struct {
		const char *text;
		const char *host; /* NULL: refused */
		const char *name;
		uint64_t offset;
		uint64_t length;
	} cases[] = {
		{ "nodeB/scratch", "nodeB", "scratch", 0, 0 },
		{ "nodeB:7472/scratch", "nodeB:7472", "scratch", 0, 0 },
		{ "[fe80::1%eth0]:7472/s", "[fe80::1%eth0]:7472", "s", 0, 0 },
		{ "nodeB/scratch@0", "nodeB", "scratch", 0, 0 },
		{ "nodeB/scratch@4K", "nodeB", "scratch", 4 * KIB, 0 },
		{ "nodeB/scratch@0+1G", "nodeB", "scratch", 0, 1024 * MIB },
		{ "nodeB/scratch@1MiB+0x10", "nodeB", "scratch", MIB, 16 },
		{ "nodeB/a+b:c=d.e_f-g@8+8", "nodeB", "a+b:c=d.e_f-g", 8, 8 },
		{ "h/s@18446744073709551615", "h", "s", UINT64_MAX, 0 },
		{ "h/s@18446744073709551615+1", NULL, NULL, 0, 0 },
		{ "h/s@1+18446744073709551615", NULL, NULL, 0, 0 },
		{ "nodeB", NULL, NULL, 0, 0 },
		{ "/scratch", NULL, NULL, 0, 0 },
		{ "nodeB/", NULL, NULL, 0, 0 },
		{ "nodeB/@0", NULL, NULL, 0, 0 },
		{ "nodeB/a/b", NULL, NULL, 0, 0 },
		{ "nodeB/s@", NULL, NULL, 0, 0 },
		{ "nodeB/s@0+", NULL, NULL, 0, 0 },
		{ "nodeB/s@0+0", NULL, NULL, 0, 0 },
		{ "nodeB/s@+5", NULL, NULL, 0, 0 },
		{ "nodeB/s@0-5", NULL, NULL, 0, 0 },
		{ "nodeB/s@0+5x", NULL, NULL, 0, 0 },
		{ "nodeB/s@-1", NULL, NULL, 0, 0 },
	};
	char longest[128] = "h/";
	struct region_spec spec;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = parse_region(cases[i].text, &spec);

		if (!cases[i].host)
			check(rc, "region", cases[i].text);
		else
			check(!rc && !strcmp(spec.host, cases[i].host) &&
				      !strcmp(spec.name, cases[i].name) &&
				      spec.offset == cases[i].offset &&
				      spec.length == cases[i].length,
			      "region", cases[i].text);
	}
	memset(longest + 2, 'n', KRDMA_NAME_MAX - 1);
	check(!parse_region(longest, &spec), "region", longest);
	longest[2 + KRDMA_NAME_MAX - 1] = 'n';
	check(parse_region(longest, &spec), "region", longest);
}

/* ---- Addresses ---- */

static void test_addresses(void)
{
	static const struct {
		const char *text;
		const char *result; /* NULL: refused */
	} cases[] = {
		{ "10.0.0.2", "10.0.0.2" },
		{ "10.0.0.2:7472", "10.0.0.2:7472" },
		{ "0.0.0.0:1", "0.0.0.0:1" },
		{ "0.0.0.0:65535", "0.0.0.0:65535" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "[::1]", "::1" },
		{ "[::1]:7472", "[::1]:7472" },
		{ "fd00::7471", "fd00::7471" },
		{ "fe80::1%lo", "fe80::1%lo" },
		{ "[fe80::1%lo]:9", "[fe80::1%lo]:9" },
		{ "10.0.0.2:", NULL },
		{ "10.0.0.2:0", NULL },
		{ "10.0.0.2:65536", NULL },
		{ "10.0.0.2:+1", NULL },
		{ "10.0.0.2:x", NULL },
		{ "", NULL },
		{ ":7471", NULL },
		{ "[]", NULL },
		{ "[::1", NULL },
		{ "[::1]7471", NULL },
		{ "[::1]:", NULL },
		{ "[10.0.0.2]:1", NULL },
		{ "[localhost]:1", NULL },
	};
	struct krdma_sockaddr addr;
	char text[KRDMA_ADDR_TEXT];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = krdma_resolve(cases[i].text, &addr, 1);

		check(cases[i].result ?
			      rc == 1 && !strcmp(krdma_format_addr(&addr, text), cases[i].result) :
			      rc < 0 && *krdma_error(),
		      "address", cases[i].text);
	}
	krdma_resolve("1.2.3.4:258", &addr, 1);
	check(addr.family == AF_INET && addr.port == 258 && !addr.scope_id &&
		      !memcmp(addr.addr, "\1\2\3\4\0\0\0\0\0\0\0\0\0\0\0\0", 16),
	      "bytes of", "1.2.3.4:258");
	krdma_resolve("fe80::102%lo", &addr, 1);
	check(addr.family == AF_INET6 && !addr.port && addr.scope_id == if_nametoindex("lo") &&
		      !memcmp(addr.addr, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\1\2", 16),
	      "bytes of", "fe80::102%lo");
	addr.scope_id = 999999;
	check(!strcmp(krdma_format_addr(&addr, text), "fe80::102%999999"), "scope without a name",
	      text);
	memset(&addr, 0, sizeof(addr));
	check(!strcmp(krdma_format_addr(&addr, text), "any"), "address of no family", text);
}

static void test_prefixes(void)
{
	static const struct {
		const char *text;
		int family; /* 0: refused */
		uint32_t length;
	} cases[] = {
		{ "10.0.0.0/8", AF_INET, 8 },
		{ "10.0.0.1", AF_INET, 32 },
		{ "0.0.0.0/0", AF_INET, 0 },
		{ "fd00::/8", AF_INET6, 8 },
		{ "::1", AF_INET6, 128 },
		{ "::/0", AF_INET6, 0 },
		{ "fd00::/128", AF_INET6, 128 },
		{ "10.128.0.0/9", AF_INET, 9 },
		{ "10.128.0.0/8", 0, 0 },
		{ "10.0.0.1/31", 0, 0 },
		{ "fd00::1/64", 0, 0 },
		{ "10.0.0.0/33", 0, 0 },
		{ "fd00::/129", 0, 0 },
		{ "10.0.0.0/", 0, 0 },
		{ "10.0.0.0/-1", 0, 0 },
		{ "10.0.0.0/8/8", 0, 0 },
		{ "/8", 0, 0 },
		{ "", 0, 0 },
		{ "localhost/8", 0, 0 },
	};
	struct krdma_prefix prefix;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = krdma_parse_prefix(cases[i].text, &prefix);

		check(cases[i].family ? !rc && prefix.addr.family == cases[i].family &&
						prefix.prefix_len == cases[i].length :
					rc == -EINVAL,
		      "prefix", cases[i].text);
	}
}

/* ---- Messages ---- */

static void test_messages(void)
{
	static const uint32_t sizes[] = { 64, 72, 4160, 64 };
	static _Alignas(8) char buf[8192];
	const struct krdma_message *m;
	size_t i, bytes;

	for (i = bytes = 0; i < ARRAY_SIZE(sizes); bytes += sizes[i++]) {
		((struct krdma_message *)(void *)(buf + bytes))->size = sizes[i];
		((struct krdma_message *)(void *)(buf + bytes))->value = i;
	}
	for (i = 0, m = NULL; (m = krdma_message_next(buf, bytes, m)) && m->value == i; i++)
		;
	check(!m && i == ARRAY_SIZE(sizes), "messages of", "a full buffer");
	m = krdma_message_next(buf, 64, NULL);
	check(m && !krdma_message_next(buf, 64, m), "messages of", "64 bytes");
	check(!krdma_message_next(buf, 0, NULL), "messages of", "nothing");
}

/* ---- Statistics ---- */

static bool near(double value, double expected)
{
	return value > expected * 0.995 && value < expected * 1.005;
}

static void test_stats(void)
{
	static struct stats stats;
	uint64_t i;

	check(stats_percentile(&stats, 50) <= 0 && stats_average(&stats) <= 0 &&
		      stats_stddev(&stats) <= 0,
	      "statistics of", "nothing");
	stats_add(&stats, UINT64_MAX);
	check(near(stats_percentile(&stats, 50), 18446744073709551.615), "median of",
	      "the largest time");
	memset(&stats, 0, sizeof(stats));
	for (i = 1000; i; i--)
		stats_add(&stats, i * 1000);
	check(near(stats_min(&stats), 1) && near(stats_max(&stats), 1000), "ends of", "1 to 1000");
	check(near(stats_percentile(&stats, 50), 500), "median of", "1 to 1000");
	check(near(stats_percentile(&stats, 99), 990), "99 percent of", "1 to 1000");
	check(near(stats_percentile(&stats, 99.9), 999), "99.9 percent of", "1 to 1000");
	check(near(stats_average(&stats), 500.5), "average of", "1 to 1000");
	check(near(stats_stddev(&stats), 288.675), "deviation of", "1 to 1000");
}

int main(void)
{
	test_sizes();
	test_seconds();
	test_counts();
	test_targets();
	test_addresses();
	test_prefixes();
	test_messages();
	test_stats();
	printf("1..%u\n", tests);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
