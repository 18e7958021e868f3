// SPDX-License-Identifier: GPL-2.0
/*
 * An export that is opened held or exclusively, for claim.sh.
 *
 *   claim FLAGS HOST NAME [NUMBER]
 *	open NAME with FLAGS, of h (held), x (exclusive), t (takeover) and r (to read only), and say
 *	"open". With a NUMBER, below 256: fill all of it with such bytes again and again, and say
 *	"filled" the first time. Until standard input ends
 *
 * Exit status: 0, or 1 with a sentence: it could not be opened, or an operation failed.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <krdma/krdma.h>

static int fail(const char *why)
{
	fprintf(stderr, "claim: %s\n", why);
	return 1;
}

static int over(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) > 0;
}

static int fill(struct krdma *krdma, const struct krdma_region *region, int number)
{
	void *memory = malloc(region->length);
	struct krdma_completion done;
	struct krdma_op op;
	int said = 0;

	if (!memory)
		return fail("no memory");
	memset(memory, number, region->length);
	while (!over()) {
		memset(&op, 0, sizeof(op));
		krdma_op_write(&op, region->id, 0, memory, region->length);
		op.timeout_ns = 120000000000ULL;
		if (krdma_submit(krdma, &op, &done, 1))
			return fail(krdma_error());
		if (!said++)
			puts("filled");
	}
	free(memory);
	return 0;
}

int main(int argc, char **argv)
{
	const char *flags = argc > 3 ? argv[1] : "";
	struct krdma_sockaddr addr;
	struct krdma_region region;
	struct krdma *krdma;
	uint32_t session;
	char byte;

	setlinebuf(stdout);
	if (argc < 4)
		return fail("usage: claim FLAGS HOST NAME [NUMBER]");
	if (krdma_new(&krdma) || krdma_resolve(argv[2], &addr, 1) != 1 ||
	    krdma_connect(krdma, &addr, 0, &session) ||
	    krdma_open_region_flags(krdma, session, argv[3],
				    strchr(flags, 'r') ? KRDMA_RIGHT_READ : 0,
				    (strchr(flags, 'h') ? KRDMA_OPEN_HELD : 0) |
					    (strchr(flags, 'x') ? KRDMA_OPEN_EXCLUSIVE : 0) |
					    (strchr(flags, 't') ? KRDMA_OPEN_TAKEOVER : 0),
				    0, &region))
		return fail(krdma_error());
	puts("open");
	if (argc > 4)
		return fill(krdma, &region, atoi(argv[4]));
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
