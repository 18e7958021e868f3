// SPDX-License-Identifier: GPL-2.0
/*
 * Sends a handmade connect request of the RDMA connection manager: one RoCE v2 packet to queue
 * pair 1. The private data contains the address that rdma_cm takes for the sender's; it need not
 * be the address of the sender.
 *
 *	forged SENDER CLAIMED TARGET PORT [SERIAL]
 *
 * SENDER is the source of the packet, and the GID in the request: replies go there, and a queue
 * pair would be connected to it. CLAIMED is the address in rdma_cm's header. IPv4 only.
 * forged.sh runs this program.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint32_t u32;

#define BTH   12
#define DETH  8
#define MAD   256
#define ICRC  4
#define IBA   (BTH + DETH + MAD + ICRC)
#define HELLO 56

static void put_be(u8 *to, int size, uint64_t value)
{
	for (; size--; value >>= 8)
		to[size] = value;
}

static void put_gid(u8 *gid, const u8 *ipv4)
{
	gid[10] = 0xff;
	gid[11] = 0xff;
	memcpy(gid + 12, ipv4, 4);
}

static u32 crc32(u32 crc, const u8 *at, size_t len)
{
	while (len--) {
		crc ^= *at++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/* Over all that does not change on the way: annex A17 of the InfiniBand specification. */
static void put_icrc(const u8 *packet, u8 *icrc)
{
	u8 masked[8 + 28 + BTH];
	struct ip *ip = (void *)(masked + 8);
	u32 crc;

	memset(masked, 0xff, 8);
	memcpy(masked + 8, packet, 28 + BTH);
	ip->ip_tos = 0xff;
	ip->ip_ttl = 0xff;
	ip->ip_sum = 0xffff;
	memset(masked + 8 + 26, 0xff, 2); /* of UDP */
	masked[8 + 28 + 4] = 0xff;        /* the byte before the queue pair's number */
	crc = crc32(~0U, masked, sizeof(masked));
	crc = ~crc32(crc, packet + 28 + BTH, IBA - BTH - ICRC);
	memcpy(icrc, &crc, 4); /* as it is, the lowest byte first */
}

/* As Documentation/wire.rst. */
static void put_hello(u8 *to, u32 serial)
{
	memcpy(to, "\x4b\x52\x44\x4d", 4);
	to[4] = 2;
	memset(to + 16, 0x77, 8);
	memcpy(to + 24, &serial, 4);
	to[36] = 32;
}

/* Chapter 12.6.5, and rdma_cm's header in front of the private data. */
static void put_request(u8 *mad, const u8 *sender, const u8 *claimed, const u8 *target, int port,
			u32 serial)
{
	u8 *req = mad + 24, *priv = req + 140;

	put_be(mad, 4, 0x01070203);           /* version, class: communication management, SEND */
	put_be(mad + 8, 8, serial);           /* transaction */
	put_be(mad + 16, 2, 0x0010);          /* ConnectRequest */
	put_be(req, 4, serial);               /* communication id */
	put_be(req + 8, 8, 0x1060000 | port); /* service: RDMA_PS_TCP */
	put_be(req + 16, 8, 0x0200770000000000 | serial); /* GUID */
	put_be(req + 32, 3, serial);                      /* queue pair */
	req[35] = 1;                                      /* responder resources */
	req[39] = 1;                                      /* initiator depth */
	req[43] = 20 << 3;                                /* their timeout; RC */
	put_be(req + 44, 3, serial);                      /* PSN */
	req[47] = 20 << 3 | 6;                            /* our timeout; retries */
	put_be(req + 48, 2, 0xffff);                      /* partition */
	req[50] = 3 << 4 | 6;                             /* MTU 1024; RNR retries */
	req[51] = 15 << 4;                                /* retries of this */
	put_be(req + 52, 4, 0xffffffff);                  /* LIDs: none */
	put_gid(req + 56, sender);
	put_gid(req + 72, target);
	req[91] = 2;                                 /* rate */
	req[93] = 64;                                /* hops */
	req[94] = 1 << 3;                            /* subnet */
	req[95] = 17 << 3;                           /* ACK timeout */
	priv[1] = 4 << 4;                            /* IPv4 */
	put_be(priv + 2, 2, 40000 + serial % 10000); /* port */
	memcpy(priv + 16, claimed, 4);
	memcpy(priv + 32, target, 4);
	put_hello(priv + 36, serial);
}

int main(int argc, char **argv)
{
	u8 packet[28 + IBA] = { 0 }, *iba = packet + 28;
	struct in_addr sender, claimed, target;
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct udphdr *udp = (void *)(packet + 20);
	struct ip *ip = (void *)packet;
	u32 serial = getpid() & 0xffff;
	int fd, one = 1;

	if (argc < 5 || !inet_aton(argv[1], &sender) || !inet_aton(argv[2], &claimed) ||
	    !inet_aton(argv[3], &target)) {
		fprintf(stderr, "usage: forged SENDER CLAIMED TARGET PORT [SERIAL]\n");
		return 2;
	}
	if (argc > 5)
		serial = atoi(argv[5]);
	ip->ip_v = 4;
	ip->ip_hl = 5;
	ip->ip_len = htons(sizeof(packet));
	ip->ip_id = htons(1); /* the ICRC covers it, and for 0 the kernel takes another */
	ip->ip_off = htons(IP_DF);
	ip->ip_ttl = 64;
	ip->ip_p = IPPROTO_UDP;
	ip->ip_src = sender;
	ip->ip_dst = target;
	udp->uh_sport = htons(49152);
	udp->uh_dport = htons(4791);
	udp->uh_ulen = htons(8 + IBA);
	iba[0] = 0x64;                    /* UD SEND only */
	put_be(iba + 2, 2, 0xffff);       /* partition */
	put_be(iba + 5, 3, 1);            /* queue pair */
	put_be(iba + BTH, 4, 0x80010000); /* its key */
	put_be(iba + BTH + 5, 3, 1);      /* from queue pair */
	put_request(iba + BTH + DETH, (u8 *)&sender, (u8 *)&claimed, (u8 *)&target, atoi(argv[4]),
		    serial);
	put_icrc(packet, iba + IBA - ICRC);

	to.sin_addr = target;
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_HDRINCL, &one, sizeof(one)) ||
	    sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) !=
		    sizeof(packet)) {
		perror("forged");
		return 1;
	}
	return 0;
}
