// SPDX-License-Identifier: GPL-2.0
/*
 * WRITEs that tell of themselves, for loss.sh: each fills a slot of the peer's memory with its
 * number, and then sends the number.
 *
 *   tell NAME
 *	the target: publish NAME, print a line, and check each message: it comes once, and its slot has
 *	that number, or a later one of the slot; no word of it ever goes back. A WRITE that waits for a
 *	key is posted behind later ones, and so is its message: by less than DEPTH numbers
 *   tell HOST NAME FILE
 *	the initiator: keep DEPTH of them under way until FILE is there, and print how many there were
 *
 * Exit status: 0, or 1 with a sentence. The target ends with the first thing that is wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <krdma/krdma.h>

#define DEPTH   16
#define SLOTS   64
#define WORDS   2048
#define BYTES   (WORDS * sizeof(uint64_t))
#define RIGHTS  (KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE)
#define PATIENT 300000000000ULL /* ns */

static struct krdma *krdma;

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "tell: %s: %s\n", what, why);
	return 1;
}

/* Where is a slot wrong? Its words may be of two WRITEs, as a later one need not wait. */
static int check_slot(const volatile uint64_t *slot, uint64_t *before, uint64_t number)
{
	unsigned int i;
	uint64_t word;

	for (i = 0; i < WORDS; i++) {
		word = slot[i];
		if (word < number || word % SLOTS != number % SLOTS || word < before[i]) {
			fprintf(stderr, "tell: message %llu, word %u: %llu, which was %llu\n",
				(unsigned long long)number, i, (unsigned long long)word,
				(unsigned long long)before[i]);
			return 1;
		}
		before[i] = word;
	}
	return 0;
}

static int target(const char *name)
{
	static uint64_t before[SLOTS][WORDS], room[1024];
	const struct krdma_message *m;
	uint64_t *memory, next = 1;
	bool came[DEPTH] = { false };
	uint32_t id;
	ssize_t n;
	int queue;

	memory = mmap(NULL, SLOTS * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED ||
	    krdma_export_memory(krdma, name, memory, SLOTS * BYTES, RIGHTS, 0, &id))
		return fail("export", krdma_error());
	queue = krdma_message_queue(krdma, id, 0);
	if (queue < 0)
		return fail("queue", krdma_error());
	puts("published");
	fflush(stdout);
	while ((n = read(queue, room, sizeof(room))) > 0) {
		for (m = NULL; (m = krdma_message_next(room, (size_t)n, m));) {
			uint64_t number = m->value;

			if (number < next || number >= next + DEPTH || came[number % DEPTH]) {
				fprintf(stderr, "tell: message %llu, where %llu has not come\n",
					(unsigned long long)number, (unsigned long long)next);
				return 1;
			}
			if (check_slot(memory + number % SLOTS * WORDS, before[number % SLOTS],
				       number))
				return 1;
			came[number % DEPTH] = true;
			for (; came[next % DEPTH]; next++)
				came[next % DEPTH] = false;
		}
		printf("%llu\n", (unsigned long long)(next - 1));
		fflush(stdout);
	}
	return fail("read", "the queue has ended");
}

static int start(uint32_t region, uint64_t *memory, uint64_t number)
{
	uint64_t *slot = memory + number % SLOTS * WORDS;
	struct krdma_op op;
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		slot[i] = number;
	krdma_op_write(&op, region, number % SLOTS * BYTES, slot, BYTES);
	krdma_op_message(&op, number);
	op.user_data = number;
	op.timeout_ns = PATIENT;
	return krdma_submit_async(krdma, &op, 1) != 1;
}

static int initiator(const char *host, const char *name, const char *stop)
{
	static uint64_t memory[SLOTS * WORDS];
	struct krdma_completion done[DEPTH];
	uint64_t number = 0, oldest = 1;
	bool ended[DEPTH] = { false };
	struct krdma_region region;
	struct krdma_sockaddr addr;
	uint32_t session;
	int n, i;

	if (krdma_resolve(host, &addr, 1) != 1 ||
	    krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_MESSAGES, 0, &session) ||
	    krdma_open_region(krdma, session, name, RIGHTS, 0, &region))
		return fail("open", krdma_error());
	for (;;) {
		/* Not before the oldest has ended, whatever others have: the target relies on it. */
		while (number + 1 < oldest + DEPTH && access(stop, F_OK))
			if (start(region.id, memory, ++number))
				return fail("submit", krdma_error());
		if (oldest > number)
			break;
		n = krdma_reap(krdma, done, DEPTH);
		for (i = 0; i < n; i++) {
			if (done[i].status)
				return fail("write", krdma_error());
			ended[done[i].user_data % DEPTH] = true;
		}
		if (n < 0)
			return fail("reap", krdma_error());
		for (; ended[oldest % DEPTH]; oldest++)
			ended[oldest % DEPTH] = false;
	}
	printf("%llu\n", (unsigned long long)number);
	return 0;
}

int main(int argc, char **argv)
{
	if ((argc != 2 && argc != 4) || krdma_new(&krdma))
		return fail("usage", "tell NAME, or tell HOST NAME FILE");
	return argc == 2 ? target(argv[1]) : initiator(argv[1], argv[2], argv[3]);
}
