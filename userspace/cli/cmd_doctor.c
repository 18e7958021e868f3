// SPDX-License-Identifier: GPL-2.0
/* krdma doctor: what this host, and a peer, need for RDMA, step by step, and how to get it. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli.h"

/* A path MTU of 4096 bytes, and the headers of RoCE. */
#define GOOD_MTU 4200U

enum verdict {
	FINE,
	NOTE, /* works, and could be better; or could not be looked at */
	BAD
};

struct doctor {
	struct krdma *krdma;
	struct json_object *checks;
	unsigned int bad;
	uint64_t timeout_ns;
	/* What the checks of a peer need to know. */
	unsigned int usable;
	bool roce;
	bool iwarp;
	uint64_t segment_bytes;
};

static void found(struct doctor *doctor, const char *check, enum verdict verdict, const char *fix,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* @fix: what to do, NULL if there is nothing to be done */
static void found(struct doctor *doctor, const char *check, enum verdict verdict, const char *fix,
		  const char *fmt, ...)
{
	static const char *const results[] = { "ok", "note", "bad" };
	struct json_object *object = json_object_new_object();
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_add_text(object, "check", check);
	json_add_text(object, "result", results[verdict]);
	json_add_text(object, "finding", text);
	if (fix)
		json_add_text(object, "fix", fix);
	json_object_array_add(doctor->checks, object);
	doctor->bad += verdict == BAD;
	if (json_asked)
		return;
	/* At once: a peer may take its time. */
	printf("%-4s  %-9s  %s\n", results[verdict], check, text);
	if (fix)
		printf("                 -> %s\n", fix);
	fflush(stdout);
}

/* ---- this host ---- */

static void check_kernel(struct doctor *doctor)
{
	struct utsname name;
	unsigned long major, minor = 0;
	char *rest;

	uname(&name);
	major = strtoul(name.release, &rest, 10);
	if (*rest == '.')
		minor = strtoul(rest + 1, NULL, 10);
	if (major > 6 || (major == 6 && minor >= 1))
		found(doctor, "kernel", FINE, NULL, "Linux %s", name.release);
	else
		found(doctor, "kernel", BAD, "boot Linux 6.1 or later", "Linux %s is too old",
		      name.release);
}

static bool check_module(struct doctor *doctor)
{
	struct krdma_ioc_query query = { .size = sizeof(query) };
	char taint[64], text[64];
	int rc;

	if (!first_line("/sys/module/krdma_mover/version", text, sizeof(text))) {
		found(doctor, "module", BAD,
		      "modprobe krdma_mover; if there is no such module: README.md, \"On a real node\"",
		      "krdma_mover is not loaded");
		if (first_line("/sys/module/module/parameters/sig_enforce", text, sizeof(text)) &&
		    *text == 'Y')
			found(doctor, "signature", NOTE,
			      "sign it: DKMS does, and 'mokutil --import' of its key has this host take it",
			      "this kernel loads signed modules only");
		return false;
	}
	first_line("/sys/module/krdma_mover/taint", taint, sizeof(taint));
	if (strchr(taint, 'E'))
		found(doctor, "module", NOTE,
		      "sign it (DKMS does with a key of MOK) where Secure Boot or module.sig_enforce is on",
		      "krdma_mover %s is loaded, and not signed", text);
	else
		found(doctor, "module", FINE, NULL, "krdma_mover %s is loaded", text);
	rc = krdma_new(&doctor->krdma);
	if (!rc)
		rc = krdma_query(doctor->krdma, &query);
	if (rc) {
		found(doctor, "device", BAD,
		      rc == -EACCES ? "become a member of the group krdma, or root" :
				      "use a krdma command of the module's version",
		      "%s", krdma_error());
		return false;
	}
	found(doctor, "device", FINE, NULL, "/dev/krdma_mover can be opened");
	return true;
}

static const char *row_text(struct json_object *row, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(row, key));

	return text ? text : "";
}

static void check_mtu(struct doctor *doctor, const char *netdev)
{
	char path[128], text[32], fix[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", netdev);
	if (!first_line(path, text, sizeof(text)))
		return;
	snprintf(fix, sizeof(fix), "ip link set %s mtu %u, here, at the peer and on switches",
		 netdev, GOOD_MTU);
	if (strtoul(text, NULL, 10) < GOOD_MTU)
		found(doctor, "mtu", NOTE, fix, "%s has MTU %s: packets carry less than 4096 bytes",
		      netdev, text);
	else
		found(doctor, "mtu", FINE, NULL, "%s has MTU %s", netdev, text);
}

/* Priority flow control, where dcb(8) is and knows. */
static void check_pfc(struct doctor *doctor, const char *netdev)
{
	char command[128], text[256] = "";
	FILE *pipe;

	if (strspn(netdev, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@") !=
	    strlen(netdev))
		return;
	snprintf(command, sizeof(command), "dcb pfc show dev %s prio-pfc 2>/dev/null", netdev);
	pipe = popen(command, "re");
	if (pipe) {
		if (!fgets(text, sizeof(text), pipe))
			*text = '\0';
		pclose(pipe);
	}
	if (!*text)
		found(doctor, "pfc", NOTE,
		      "the tool of the adapter's vendor, and the switch, know it",
		      "%s: priority flow control can't be read", netdev);
	else if (strstr(text, ":on"))
		found(doctor, "pfc", FINE, NULL, "%s has priority flow control", netdev);
	else
		found(doctor, "pfc", NOTE,
		      "turn it on for the class of RoCE, here and on switches, if packets are lost",
		      "%s has no priority flow control", netdev);
}

/*
 * Does rdma_cm find the port by this address? On RoCE it is a GID of the same network device; on iWARP and
 * InfiniBand the GID is the hardware address of the network device, which may be a VLAN or a bond. The
 * 16 bytes of IPoIB's are behind 4 others; struct sockaddr_ll declares 8 of these 20.
 */
static bool port_of(struct json_object *row, const struct ifaddrs *all, const struct ifaddrs *one)
{
	const size_t at = offsetof(struct sockaddr_ll, sll_addr) + 4;
	const struct sockaddr_in6 *sin6 = (const void *)one->ifa_addr;
	const struct sockaddr_in *sin = (const void *)one->ifa_addr;
	struct in6_addr gid, mapped = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	const char *type = row_text(row, "type");
	const bool iwarp = !strcmp(type, "iwarp");
	char name[IF_NAMESIZE];
	bool same;

	/* An address may have a label: eth0:1. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(one->ifa_name, ":"), one->ifa_name);
	same = !strcmp(row_text(row, "netdev"), name);
	if (inet_pton(AF_INET6, row_text(row, "gid"), &gid) != 1)
		return false;
	if (!iwarp && strcmp(type, "infiniband") != 0) {
		memcpy(&mapped.s6_addr[12], &sin->sin_addr, sizeof(sin->sin_addr));
		return same &&
		       !memcmp(&gid, sin->sin_family == AF_INET ? &mapped : &sin6->sin6_addr,
			       sizeof(gid));
	}
	for (; all && !(iwarp && same); all = all->ifa_next) {
		const struct sockaddr_ll *link = (const void *)all->ifa_addr;

		if (!strcmp(all->ifa_name, name) && link && link->sll_family == AF_PACKET)
			return iwarp ? !memcmp(&gid, link->sll_addr, ETH_ALEN) :
				       link->sll_hatype == ARPHRD_INFINIBAND &&
					       !memcmp(&gid, (const char *)link + at, sizeof(gid));
	}
	return iwarp && same;
}

/* Has the port the address? @address: NULL for any of this host */
static bool port_has(struct json_object *row, const char *address)
{
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE];
	struct ifaddrs *all, *one;
	bool has = false;

	if (getifaddrs(&all))
		return false;
	for (one = all; one && !has; one = one->ifa_next) {
		const sa_family_t family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;

		has = (family == AF_INET || family == AF_INET6) &&
		      !getnameinfo(one->ifa_addr,
				   family == AF_INET ? sizeof(struct sockaddr_in) :
						       sizeof(struct sockaddr_in6),
				   text, sizeof(text), NULL, 0, NI_NUMERICHOST) &&
		      (!address || !strcmp(text, address)) && port_of(row, all, one);
	}
	freeifaddrs(all);
	return has;
}

/* What is on a usable port. */
static void check_port(struct doctor *doctor, struct json_object *row)
{
	const char *netdev = row_text(row, "netdev"), *type = row_text(row, "type");

	doctor->usable++;
	found(doctor, "rdma", FINE, NULL, "%s on %s: %s", row_text(row, "device"),
	      *netdev ? netdev : "-", type);
	doctor->iwarp |= !strcmp(type, "iwarp");
	doctor->roce |= !strncmp(type, "roce", 4);
	if (!strncmp(type, "roce", 4)) {
		check_mtu(doctor, netdev);
		check_pfc(doctor, netdev);
	}
}

static void check_devices(struct doctor *doctor)
{
	struct json_object *root = json_object_new_object(), *rows, *row, *last = NULL;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	bool addressed = false;
	uint64_t segment;
	size_t i;

	if (list_fetch(doctor->krdma, &list_devices, 0, root)) {
		found(doctor, "rdma", BAD, "use a krdma command of the module's version", "%s",
		      krdma_error());
		json_object_put(root);
		return;
	}
	rows = json_object_object_get(root, list_devices.key);
	for (i = 0; i < json_object_array_length(rows); i++) {
		const bool usable = !strcmp(
			row_text(row = json_object_array_get_idx(rows, i), "usable"), "yes");

		addressed |= usable && port_has(row, NULL);
		/* The module's, too, is the largest of all devices. */
		segment =
			page * json_object_get_uint64(json_object_object_get(row, "segment_pages"));
		if (segment > doctor->segment_bytes)
			doctor->segment_bytes = segment;
		/* A row for each GID. */
		if (last && !strcmp(row_text(last, "device"), row_text(row, "device")) &&
		    !strcmp(row_text(last, "port"), row_text(row, "port")))
			continue;
		last = row;
		if (usable)
			check_port(doctor, row);
		else
			found(doctor, "rdma", NOTE, "krdma devices; rdma link show; ip link show",
			      "%s port %s can't be used: %s", row_text(row, "device"),
			      row_text(row, "port"), row_text(row, "reason"));
	}
	if (!json_object_array_length(rows))
		found(doctor, "rdma", BAD,
		      "load the adapter's driver, or: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
		      "there is no RDMA device in this network namespace");
	else if (!doctor->usable)
		found(doctor, "rdma", BAD, "see the notes above", "no RDMA device can be used");
	else if (!addressed)
		found(doctor, "address", BAD,
		      "ip address add ADDRESS/PREFIX dev NETDEV (on InfiniBand, of ib_ipoib)",
		      "no usable device has an IP address (on RoCE, one that is a GID)");
	else
		found(doctor, "address", FINE, NULL, "a usable device has an IP address");
	json_object_put(root);
}

static void check_memlock(struct doctor *doctor)
{
	char size[SIZE_TEXT], segment[SIZE_TEXT];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || !memlock_counts())
		found(doctor, "memlock", FINE, NULL, "memory may be locked without limit");
	else if (limit.rlim_cur < doctor->segment_bytes)
		found(doctor, "memlock", BAD,
		      "/etc/security/limits.d/krdma.conf, or LimitMEMLOCK= of a unit; log in anew",
		      "RLIMIT_MEMLOCK is %s, a segment has %s", size_text(limit.rlim_cur, size),
		      size_text(doctor->segment_bytes, segment));
	else
		found(doctor, "memlock", FINE, NULL, "RLIMIT_MEMLOCK is %s",
		      size_text(limit.rlim_cur, size));
}

/*
 * The least memory.max of the cgroup and of those above: pinned memory counts, and can't be
 * reclaimed. The root has no such file, nor have cgroups without the controller.
 */
static void check_cgroup(struct doctor *doctor)
{
	char line[512], path[640], limit[64], size[SIZE_TEXT], *end;
	uint64_t least = UINT64_MAX, max;
	bool unread;

	if (!first_line("/proc/self/cgroup", line, sizeof(line)))
		return;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cgroup.procs", line + 3);
	/* Version 1; not mounted; a namespace: of those above its root nothing is seen. */
	unread = strncmp(line, "0::", 3) != 0 || access(path, F_OK) ||
		 !access("/sys/fs/cgroup/cgroup.type", F_OK);
	for (end = line + strlen(line); end; end = strrchr(line + 3, '/')) {
		*end = '\0';
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", line + 3);
		if (!first_line(path, limit, sizeof(limit))) {
			unread |= !access(path, F_OK);
		} else if (strcmp(limit, "max") != 0) {
			max = strtoull(limit, NULL, 10);
			if (max < least)
				least = max;
		}
	}
	if (least != UINT64_MAX)
		found(doctor, "cgroup", NOTE,
		      "MemoryMax= of the unit or slice, if it is too little",
		      "this cgroup has %s of memory, for what is exported as well",
		      size_text(least, size));
	else if (unread)
		found(doctor, "cgroup", NOTE,
		      "MemoryMax= of the unit and its slices, or what limits the container",
		      "a limit of memory may be there that can't be read");
	else
		found(doctor, "cgroup", FINE, NULL,
		      "no limit of memory in this cgroup, or above it");
}

/* Number of exports of this host that the caller sees. */
static size_t exports_count(struct krdma *krdma)
{
	struct krdma_iter *iter;
	size_t n = 0;

	if (krdma_iter_new(krdma, KRDMA_LIST_EXPORTS, 0, &iter))
		return 0;
	while (krdma_iter_next(iter))
		n++;
	krdma_iter_free(iter);
	return n;
}

static void check_listeners(struct doctor *doctor)
{
	const size_t exports = exports_count(doctor->krdma);
	const struct krdma_listener_info *info;
	char text[KRDMA_ADDR_TEXT];
	struct krdma_iter *iter;
	unsigned int n = 0;

	if (krdma_iter_new(doctor->krdma, KRDMA_LIST_LISTENERS, 0, &iter))
		return;
	while ((info = krdma_iter_next(iter))) {
		n++;
		krdma_format_addr(&info->addr, text);
		if (info->flags & KRDMA_LISTENER_CLOSED)
			found(doctor, "listener", NOTE,
			      "krdma listen --replace ADDRESS --allow PREFIX; or krdma apply",
			      "%s is closed: no session is new", text);
		else if (info->flags & KRDMA_LISTENER_DOWN)
			found(doctor, "listener", BAD,
			      "give a usable device that address (krdma devices)",
			      "%s waits for an RDMA device", text);
		else if (info->allow_count)
			found(doctor, "listener", FINE, NULL, "%s admits %u prefixes", text,
			      info->allow_count);
		else
			found(doctor, "listener", NOTE,
			      "krdma listen --replace ADDRESS --allow PREFIX",
			      "%s admits every host", text);
	}
	krdma_iter_free(iter);
	if (!n && exports)
		found(doctor, "listener", BAD, "krdma listen ADDRESS --allow PREFIX",
		      "nobody can reach the %zu exports of this host: there is no listener",
		      exports);
	else if (!n)
		found(doctor, "listener", NOTE, "krdma listen ADDRESS --allow PREFIX, on a target",
		      "there is no listener: this host can connect, and nobody to it");
}

/* A rule that accepts the port? "udp dport { 22, 4791 } accept", "-p udp --dport 4791 -j ACCEPT" */
static bool accepts(const char *line, const char *protocol, unsigned long port)
{
	const char *at = strstr(line, "dport"), *verdict = strcasestr(line, " accept");
	unsigned long from, to;
	char *rest;

	if (!at || !verdict || !strstr(line, protocol) || strchr(line, '!') ||
	    (verdict[7] != '\n' && strncmp(verdict + 7, " comment", 8) != 0))
		return false;
	at += strcspn(at, " ");
	at += strspn(at, "{ ");
	while (isdigit((unsigned char)*at)) {
		from = to = strtoul(at, &rest, 10);
		if (*rest == '-' || *rest == ':')
			to = strtoul(rest + 1, &rest, 10);
		if (from <= port && port <= to)
			return true;
		at = rest + strspn(rest, ", ");
	}
	return false;
}

/*
 * Does a packet filter drop what no rule lets in, and has no rule for this? A hint: an adapter's
 * packets may pass it by, and rules may say the same in other ways. Nor is it known which packets are
 * those that a rule drops.
 */
static void check_firewall(struct doctor *doctor)
{
	enum {
		ROCE = 1,
		IWARP = 2
	};
	static const char fix[] =
		"if peers do not get through: accept udp dport 4791 (RoCE), tcp dport 7471 (iWARP)";
	const unsigned int ports = (doctor->roce ? ROCE : 0) | (doctor->iwarp ? IWARP : 0);
	bool any = false, drops = false, unsure = false;
	unsigned int left = 0, shut = 0; /* ports that are not accepted: by this chain, by any */
	char *line = NULL;
	size_t size = 0;
	FILE *pipe;

	/* InfiniBand does not go through it. */
	if (!ports)
		return;
	/* An empty line for each that could be read. */
	pipe = popen(
		"(nft list ruleset && echo; iptables-save && echo; ip6tables-save && echo) 2>/dev/null",
		"re");
	while (pipe && getline(&line, &size, pipe) >= 0) {
		const bool drop = strcasestr(line, "drop") || strcasestr(line, "reject");

		any = true;
		/* iptables-save has seen rules that only nft can show. */
		unsure |= strstr(line, "incompatible, use 'nft'") != NULL;
		if (strstr(line, "hook input") || !strncmp(line, ":INPUT ", 7) ||
		    line[strspn(line, "\t ")] == '}') {
			/* A chain begins or ends. */
			shut |= left;
			left = drop ? ports : 0;
			drops |= drop;
			continue;
		}
		unsure |= drop;
		if (*line == '-' && strncmp(line, "-A INPUT ", 9) != 0)
			continue;
		if (accepts(line, "udp", 4791))
			left &= ~ROCE;
		if (accepts(line, "tcp", 7471))
			left &= ~IWARP;
	}
	free(line);
	shut |= left;
	if (pipe)
		pclose(pipe);
	if (!any)
		found(doctor, "firewall", NOTE,
		      "run krdma doctor as root, with nft or iptables-save",
		      "its rules can't be read");
	else if (shut)
		found(doctor, "firewall", NOTE, fix,
		      "what comes in is dropped, and no rule beside that accepts %s",
		      shut & ROCE ? "UDP port 4791 (RoCE)" : "TCP port 7471 (iWARP)");
	else if (unsure)
		found(doctor, "firewall", NOTE, fix,
		      "some packets are dropped or rejected: see nft list ruleset, iptables-save");
	else
		found(doctor, "firewall", FINE, NULL, "%s",
		      drops ? "rules accept the ports of RDMA" :
			      "no rule drops or rejects packets");
}

/* ---- a peer ---- */

/* The address that the host's own routes choose for it. */
static bool local_address(const struct krdma_sockaddr *peer, char *text, socklen_t size)
{
	const bool v4 = peer->family == AF_INET;
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6,
				     .sin6_port = htons(9),
				     .sin6_scope_id = peer->scope_id };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	/* Nothing is sent. */
	const int fd = socket(peer->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	memcpy(&sin.sin_addr, peer->addr, sizeof(sin.sin_addr));
	memcpy(&sin6.sin6_addr, peer->addr, sizeof(sin6.sin6_addr));
	ok = fd >= 0 &&
	     !connect(fd, v4 ? (void *)&sin : (void *)&sin6, v4 ? sizeof(sin) : sizeof(sin6)) &&
	     !getsockname(fd, (void *)&own, &length) &&
	     !getnameinfo((void *)&own, length, text, size, NULL, 0, NI_NUMERICHOST);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Has an RDMA device the address? */
static bool device_has(struct krdma *krdma, const char *address)
{
	struct json_object *root = json_object_new_object(), *rows;
	bool has = false;
	size_t i;

	if (!list_fetch(krdma, &list_devices, 0, root)) {
		rows = json_object_object_get(root, list_devices.key);
		for (i = 0; i < json_object_array_length(rows); i++)
			has |= port_has(json_object_array_get_idx(rows, i), address);
	}
	json_object_put(root);
	return has;
}

/* What is not as it should be is a note: the connect tells. */
static void check_route(struct doctor *doctor, const struct krdma_sockaddr *peer)
{
	char text[KRDMA_ADDR_TEXT], own[INET6_ADDRSTRLEN + IF_NAMESIZE];

	krdma_format_addr(peer, text);
	if (!local_address(peer, own, sizeof(own)))
		found(doctor, "route", NOTE, "ip route get ADDRESS", "there is no route to %s",
		      text);
	else if (!device_has(doctor->krdma, own))
		found(doctor, "route", NOTE,
		      "reach the peer by the network of an RDMA device: krdma devices, ip route get",
		      "the route to %s begins at %s, which no RDMA device has", text, own);
	else
		found(doctor, "route", FINE, NULL, "to %s from %s, an RDMA device's", text, own);
}

static const char *connect_fix(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return "at the peer: krdma listen shows listeners, their ports and prefixes; the kernel's log has the reason";
	case ENODEV:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
		return "reach the peer by the network of an RDMA device: krdma devices, ip route get";
	case EHOSTUNREACH:
	case ETIMEDOUT:
		return "at the peer: krdma doctor; between: UDP port 4791 (RoCE), TCP port 7471 (iWARP), ping";
	case EPROTO:
		return "the same version of krdma_mover at both ends";
	}
	return "the kernel's log, here and at the peer";
}

static void check_data(struct doctor *doctor, uint32_t session)
{
	const struct krdma_peer_export_info *info;
	char name[KRDMA_NAME_MAX] = "";
	_Alignas(8) char bytes[8];
	struct krdma_completion completion;
	struct krdma_region region;
	struct krdma_iter *iter;
	struct krdma_op op;
	unsigned int n = 0;

	if (krdma_iter_new(doctor->krdma, KRDMA_LIST_PEER_EXPORTS, session, &iter))
		return;
	while ((info = krdma_iter_next(iter))) {
		n++;
		if (!*name && (info->rights & KRDMA_RIGHT_READ) && info->length >= sizeof(bytes))
			snprintf(name, sizeof(name), "%s", info->name);
	}
	if (krdma_iter_free(iter)) {
		found(doctor, "exports", BAD, "krdma status, and the kernel's log, at both ends",
		      "%s", krdma_error());
		return;
	}
	found(doctor, "exports", n ? FINE : NOTE, n ? NULL : "at the peer: krdma export",
	      "the peer publishes %u", n);
	if (!*name)
		return;
	if (krdma_open_region(doctor->krdma, session, name, KRDMA_RIGHT_READ,
			      timeout_to_ms(doctor->timeout_ns), &region)) {
		found(doctor, "data", BAD,
		      "at the peer: krdma status shows who has the export open", "'%s': %s", name,
		      krdma_error());
		return;
	}
	krdma_op_read(&op, region.id, 0, bytes, sizeof(bytes));
	op.timeout_ns = doctor->timeout_ns;
	if (krdma_submit(doctor->krdma, &op, &completion, 1))
		found(doctor, "data", BAD, "krdma status, and the kernel's log, at both ends",
		      "a READ of '%s': %s", name, krdma_error());
	else
		found(doctor, "data", FINE, NULL, "a READ of '%s' came back", name);
}

static void check_peer(struct doctor *doctor, const char *host)
{
	struct krdma_connect_options connect;
	struct krdma_sockaddr addrs[16];
	int i, count = krdma_resolve(host, addrs, ARRAY_SIZE(addrs));
	uint64_t rtt_ns;
	uint32_t session;

	if (count < 0) {
		found(doctor, "name", BAD, "/etc/hosts, or the name server", "%s", krdma_error());
		return;
	}
	found(doctor, "name", FINE, NULL, "%s has %d address%s", host, count,
	      count > 1 ? "es" : "");
	for (i = 0; i < count; i++)
		check_route(doctor, &addrs[i]);
	connect = connect_options(KRDMA_CONNECT_PRIVATE, doctor->timeout_ns);
	if (krdma_connect_host(doctor->krdma, host, &connect, &session, NULL)) {
		found(doctor, "connect", BAD, connect_fix(krdma_errno()), "%s", krdma_error());
		return;
	}
	found(doctor, "connect", FINE, NULL, "the peer admits this host");
	if (krdma_ping(doctor->krdma, session, 64, timeout_to_ms(doctor->timeout_ns), &rtt_ns)) {
		found(doctor, "hello", BAD, "krdma status, and the kernel's log, at both ends",
		      "%s", krdma_error());
		return;
	}
	found(doctor, "hello", FINE, NULL, "its module replies in %.0f us", (double)rtt_ns / 1000);
	check_data(doctor, session);
}

/* ---- all ---- */

static int doctor_run(int argc, char **argv)
{
	struct doctor doctor = { .timeout_ns = 10 * NSEC_PER_SEC };
	unsigned int here;
	struct json_object *root;
	int rc;

	rc = timeout_option(&cmd_doctor, argc, argv, &doctor.timeout_ns);
	if (rc >= 0)
		return rc;
	if (argc - optind > 1)
		return usage_error("one host at most");
	root = json_root();
	doctor.checks = json_object_new_array();
	json_object_object_add(root, "checks", doctor.checks);
	check_kernel(&doctor);
	if (check_module(&doctor)) {
		check_devices(&doctor);
		check_memlock(&doctor);
		check_cgroup(&doctor);
		check_listeners(&doctor);
		check_firewall(&doctor);
	}
	here = doctor.bad;
	if (optind < argc && doctor.krdma && doctor.usable)
		check_peer(&doctor, argv[optind]);
	if (json_asked)
		json_finish(root);
	else
		json_object_put(root);
	krdma_free(doctor.krdma);
	/* What was found has been said. */
	return here ? NOT_READY : doctor.bad ? NO_ANSWER : DONE;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.usage = "krdma doctor [OPTIONS] [HOST[:PORT]]",
	.summary = "look for what is missing on this host, and on the way to a peer",
	.help = "A line for each check: ok, note or bad, what was found, and what to do.\n"
		"The exit status is 3 if something is bad here, 4 if it is with the peer.\n\n"
		"  --timeout SECONDS for each step with the peer (default 10)\n",
	.run = doctor_run,
};
