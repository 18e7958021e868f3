// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that the krdma command does not have, by the ioctls:
 *
 *   mover hold [-pm] [-k KEEPALIVE] [-r RESUME] ADDRESS NAME
 *	open NAME, print a line; for each line of the standard input read a byte of it, or send
 *	one with -m, and print the status; RESUME 0 is KRDMA_CONNECT_FAIL_FAST
 *   mover scatter [-pcw] [-n COUNT] [-b BYTES] [-s SEED] ADDRESS NAME
 *	write COUNT pieces of BYTES to random places, each piece with its own
 *	pattern, then read all of them in another order and compare;
 *	-c: only read and compare the pieces of an earlier run with this SEED;
 *	-w: then wait for the end of the standard input
 *
 * -p asks for a private session. ADDRESS is IPv4 or IPv6, the port the default.
 * Exit status: 0 done, 1 failed with an error text, 2 usage, 3 wrong data.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/krdma_mover.h>

#define BATCH 16
/* A connection may be lost, or a peer restarted, meanwhile. */
#define PATIENCE_MS 120000U

static int fd;

static void fail(const char *what)
{
	struct krdma_ioc_last_error last = { .size = sizeof(last) };
	int error = errno;

	if (ioctl(fd, KRDMA_IOC_LAST_ERROR, &last) || !last.error)
		snprintf(last.text, sizeof(last.text), "%s", strerror(error));
	fprintf(stderr, "mover: %s: %s\n", what, last.text);
	exit(1);
}

static void usage(void)
{
	fputs("usage: mover hold [-pm] [-k KEEPALIVE] [-r RESUME] ADDRESS NAME\n"
	      "       mover scatter [-pcw] [-n COUNT] [-b BYTES] [-s SEED] ADDRESS NAME\n",
	      stderr);
	exit(2);
}

/* splitmix64: any number of streams, the same everywhere. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* @to: of IPv4 or IPv6, port 0 */
static bool parse(const char *text, struct __kernel_sockaddr_storage *to)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		memcpy(to, &in, sizeof(in));
	else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		memcpy(to, &in6, sizeof(in6));
	return to->ss_family;
}

static uint32_t connect_to(const char *address, struct krdma_ioc_connect *cmd)
{
	cmd->timeout_ms = PATIENCE_MS;
	if (!parse(address, &cmd->dst))
		usage();
	if (ioctl(fd, KRDMA_IOC_CONNECT, cmd))
		fail("connect");
	return cmd->id;
}

static struct krdma_ioc_open open_region(uint32_t session, const char *name)
{
	struct krdma_ioc_open cmd = {
		.size = sizeof(cmd),
		.session = session,
		.timeout_ms = PATIENCE_MS,
	};

	snprintf(cmd.name, sizeof(cmd.name), "%s", name);
	if (ioctl(fd, KRDMA_IOC_OPEN, &cmd))
		fail("open");
	return cmd;
}

struct scatter {
	struct krdma_ioc_open region;
	uint64_t count;
	uint64_t bytes;
	uint64_t seed;
	char *memory; /* of BATCH pieces */
};

/* Piece n has a stretch of the export of its own, and lies somewhere in it. */
static uint64_t place(const struct scatter *s, uint64_t n)
{
	const uint64_t stretch = s->region.length / s->count;

	return n * stretch + mix(s->seed ^ mix(n)) % (stretch - s->bytes + 1);
}

static void pattern(const struct scatter *s, uint64_t n, char *to)
{
	uint64_t i, x = 0;

	for (i = 0; i < s->bytes; i++) {
		if (i % 8 == 0)
			x = mix(s->seed + n * 0x100000001ULL + i);
		to[i] = (char)(x >> (i % 8 * 8));
	}
}

/* The order of a pass: every piece once, by steps that share no factor. */
static uint64_t nth(const struct scatter *s, uint64_t i, uint64_t step)
{
	uint64_t a, b, t;

	for (;; step++) {
		for (a = step, b = s->count; b; t = a % b, a = b, b = t)
			;
		if (a == 1)
			return i % s->count * (step % s->count) % s->count;
	}
}

static void submit(const struct scatter *s, struct krdma_op *ops, uint32_t count)
{
	struct krdma_completion completions[BATCH];
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)ops,
		.completions = (uintptr_t)completions,
		.count = count,
		.op_stride = sizeof(*ops),
		.completion_stride = sizeof(*completions),
	};
	uint32_t i;

	if (ioctl(fd, KRDMA_IOC_SUBMIT, &cmd) || cmd.failed)
		fail("submit");
	for (i = 0; i < count; i++) {
		if (completions[i].status || completions[i].result != s->bytes ||
		    completions[i].user_data != ops[i].user_data) {
			fprintf(stderr, "mover: a completion does not fit its operation\n");
			exit(3);
		}
	}
}

static void pass(const struct scatter *s, enum krdma_opcode opcode, uint64_t step)
{
	char *expected = malloc(s->bytes);
	struct krdma_op ops[BATCH];
	uint64_t done;
	uint32_t i, n;

	if (!expected)
		fail("malloc");
	for (done = 0; done < s->count; done += n) {
		n = s->count - done < BATCH ? s->count - done : BATCH;
		for (i = 0; i < n; i++) {
			const uint64_t piece = nth(s, done + i, step);

			ops[i] = (struct krdma_op){
				.opcode = opcode,
				.region = s->region.id,
				.user_data = piece,
				.offset = place(s, piece),
				.length = s->bytes,
				.addr = (uintptr_t)(s->memory + i * s->bytes),
			};
			if (opcode == KRDMA_OP_WRITE)
				pattern(s, piece, s->memory + i * s->bytes);
		}
		if (opcode == KRDMA_OP_READ)
			memset(s->memory, 0xee, BATCH * s->bytes);
		submit(s, ops, n);
		for (i = 0; opcode == KRDMA_OP_READ && i < n; i++) {
			pattern(s, ops[i].user_data, expected);
			if (!memcmp(expected, s->memory + i * s->bytes, s->bytes))
				continue;
			fprintf(stderr, "mover: piece %llu at %llu has other bytes\n",
				(unsigned long long)ops[i].user_data,
				(unsigned long long)ops[i].offset);
			exit(3);
		}
	}
	free(expected);
}

static void await_end(void)
{
	char byte;

	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

/* A READ, or a message, whenever it is asked for. */
static void hold_open(const struct krdma_ioc_open *region, bool message)
{
	struct krdma_ioc_last_error last = { .size = sizeof(last) };
	struct krdma_completion completion;
	char line[16], byte = 0;
	struct krdma_op op = {
		.opcode = message ? KRDMA_OP_SEND : KRDMA_OP_READ,
		.region = region->id,
		.length = 1,
		.addr = (uintptr_t)&byte,
		.timeout_ns = PATIENCE_MS * 1000000ULL,
	};
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)&op,
		.completions = (uintptr_t)&completion,
		.count = 1,
		.op_stride = sizeof(op),
		.completion_stride = sizeof(completion),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("open");
	while (fgets(line, sizeof(line), stdin)) {
		if (ioctl(fd, KRDMA_IOC_SUBMIT, &cmd))
			fail("submit");
		if (ioctl(fd, KRDMA_IOC_LAST_ERROR, &last))
			fail("last error");
		printf("%s: %s\n", completion.status ? strerrorname_np(-completion.status) : "done",
		       completion.status ? last.text : "");
	}
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end)
		usage();
	return value;
}

int main(int argc, char **argv)
{
	struct scatter s = { .count = 100, .bytes = 4096, .seed = 1 };
	struct krdma_ioc_connect peer = { .size = sizeof(peer) };
	bool check = false, wait = false, hold;
	int c;

	if (argc < 2)
		usage();
	hold = !strcmp(argv[1], "hold");
	if (!hold && strcmp(argv[1], "scatter"))
		usage();
	while ((c = getopt(argc - 1, argv + 1, "pmk:r:n:b:s:cw")) != -1) {
		switch (c) {
		case 'p':
			peer.flags |= KRDMA_CONNECT_PRIVATE;
			break;
		case 'm':
			peer.flags |= KRDMA_CONNECT_MESSAGES;
			break;
		case 'k':
			peer.keepalive_s = number(optarg);
			break;
		case 'r':
			peer.resume_s = number(optarg);
			if (!peer.resume_s)
				peer.flags |= KRDMA_CONNECT_FAIL_FAST;
			break;
		case 'n':
			s.count = number(optarg);
			break;
		case 'b':
			s.bytes = number(optarg);
			break;
		case 's':
			s.seed = number(optarg);
			break;
		case 'c':
			check = true;
			break;
		case 'w':
			wait = true;
			break;
		default:
			usage();
		}
	}
	argv += 1 + optind;
	if (argc - 1 - optind != 2 || !s.count || !s.bytes)
		usage();

	fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("/dev/krdma_mover");
	s.region = open_region(connect_to(argv[0], &peer), argv[1]);
	if (hold) {
		hold_open(&s.region, peer.flags & KRDMA_CONNECT_MESSAGES);
		return 0;
	}

	if (s.region.length / s.count < s.bytes)
		usage();
	s.memory = malloc(BATCH * s.bytes);
	if (!s.memory)
		fail("malloc");
	if (!check)
		pass(&s, KRDMA_OP_WRITE, s.count / 3 + 7);
	pass(&s, KRDMA_OP_READ, s.count / 5 + 3);
	printf("%llu pieces of %llu bytes are right\n", (unsigned long long)s.count,
	       (unsigned long long)s.bytes);
	if (wait)
		await_end();
	return 0;
}
