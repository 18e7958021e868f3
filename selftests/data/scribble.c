// SPDX-License-Identifier: GPL-2.0
/*
 * Is what was reported as moved where it belongs, whatever the program does to
 * its memory the moment after?
 *
 *   scribble [-p] [-t THREADS] [-b BYTES] [-n WRITES] [-s SEED] [-d SECONDS] ADDRESS NAME
 *	write WRITES times BYTES into the export NAME, from THREADS at a time,
 *	each out of a registered buffer that is overwritten as soon as the write
 *	is reported complete; read back in between, and compare. The export is
 *	taken as slots of BYTES, each of which is written again and again, so
 *	that bytes of an earlier round are wrong ones. -p: in a private session,
 *	-d: the deadline of each operation
 *   scribble -c [-b BYTES] [-s SEED] FILE
 *	compare the memory of the target, a file that it exports, with what the
 *	other has printed (standard input)
 *
 * For each slot a line "SLOT ROUND" is printed: the round whose bytes must be
 * in it. A slot that a write has failed on is not told: it may have either.
 * Exit status: 0 done, 1 an operation failed, with a sentence, 2 usage,
 * 3 wrong data.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/krdma_mover.h>

#define THREADS_MAX 16
#define PAGE        4096UL
/* What the buffer is overwritten with: never a word of a pattern. */
#define SCRIBBLE 0x5c7261776c65645cULL

static int fd;
static uint64_t seed = 1, bytes = 65536, writes = 64, slots, seconds;
static unsigned int threads = 4;
static struct krdma_ioc_open region;
static uint32_t buffer;
static char *memory;
/* The round that a slot has; 0: none, or one that failed. */
static uint32_t *rounds;
/* Set by the thread that fails first, which says why. */
static bool over;
static int result;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void usage(void)
{
	fputs("usage: scribble [-p] [-t THREADS] [-b BYTES] [-n WRITES] [-s SEED] [-d SECONDS]"
	      " ADDRESS NAME\n"
	      "       scribble -c [-b BYTES] [-s SEED] FILE\n",
	      stderr);
	exit(2);
}

/* One sentence, of the first that fails. */
static void stop(int status, const char *what, const char *why)
{
	pthread_mutex_lock(&lock);
	if (!over) {
		over = true;
		result = status;
		fprintf(stderr, "scribble: %s: %s\n", what, why);
	}
	pthread_mutex_unlock(&lock);
}

static void stop_call(const char *what)
{
	struct krdma_ioc_last_error last = { .size = sizeof(last) };
	int error = errno;

	if (ioctl(fd, KRDMA_IOC_LAST_ERROR, &last) || !last.error)
		snprintf(last.text, sizeof(last.text), "%s", strerror(error));
	stop(1, what, last.text);
}

static void fail(const char *what)
{
	stop_call(what);
	exit(1);
}

/* ---- the pattern: each word of each slot in each round is another ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static uint64_t word(uint64_t slot, uint32_t round, uint64_t i)
{
	return mix(mix(mix(seed) + round) + slot * bytes + i * 8);
}

static void fill(uint64_t *to, uint64_t slot, uint32_t round)
{
	uint64_t i;

	for (i = 0; i < bytes / 8; i++)
		to[i] = word(slot, round, i);
}

static void overwrite(uint64_t *to)
{
	uint64_t i;

	for (i = 0; i < bytes / 8; i++)
		to[i] = SCRIBBLE;
}

/* Whose is a wrong word? */
static void explain(char *text, size_t size, uint64_t got, uint64_t slot, uint32_t round,
		    uint64_t i)
{
	uint32_t r;
	uint64_t j;

	if (got == SCRIBBLE) {
		snprintf(text, size, "what the writer had there after completion");
		return;
	}
	for (r = round - 1; r; r--) {
		if (got == word(slot, r, i)) {
			snprintf(text, size, "round %u", r);
			return;
		}
	}
	for (j = 0; j < bytes / 8; j++) {
		if (got == word(slot, round, j)) {
			snprintf(text, size, "the word at %llu", (unsigned long long)j * 8);
			return;
		}
	}
	snprintf(text, size, "%#llx", (unsigned long long)got);
}

static bool right(const uint64_t *at, uint64_t slot, uint32_t round, const char *where)
{
	uint64_t i, n = 0, first = 0;
	char what[64], why[256];

	for (i = 0; i < bytes / 8; i++) {
		if (at[i] == word(slot, round, i))
			continue;
		if (!n++)
			first = i;
	}
	if (!n)
		return true;
	explain(what, sizeof(what), at[first], slot, round, first);
	snprintf(why, sizeof(why),
		 "slot %llu, round %u: %llu words of %llu are wrong, at %llu is %s",
		 (unsigned long long)slot, round, (unsigned long long)n,
		 (unsigned long long)bytes / 8, (unsigned long long)first * 8, what);
	stop(3, where, why);
	return false;
}

/* ---- writing, and reading back ---- */

static bool move(enum krdma_opcode opcode, unsigned int thread, uint64_t slot)
{
	struct krdma_op op = {
		.opcode = opcode,
		.flags = KRDMA_OPF_BUFFER,
		.region = region.id,
		.buffer = buffer,
		.offset = slot * bytes,
		.addr = thread * bytes,
		.length = bytes,
		.user_data = slot,
		.timeout_ns = seconds * 1000000000ULL,
	};
	struct krdma_completion c;
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)&op,
		.completions = (uintptr_t)&c,
		.count = 1,
		.op_stride = sizeof(op),
		.completion_stride = sizeof(c),
	};
	int rc = ioctl(fd, KRDMA_IOC_SUBMIT, &cmd);

	/* Nothing comes before this. */
	if (opcode == KRDMA_OP_WRITE)
		overwrite((uint64_t *)(memory + thread * bytes));
	if (rc || cmd.failed) {
		stop_call(opcode == KRDMA_OP_WRITE ? "write" : "read");
		return false;
	}
	if (c.status || c.result != bytes || c.user_data != slot) {
		stop(3, "completion", "it does not fit its operation");
		return false;
	}
	return true;
}

/*
 * The slots of a thread are its own. Each write goes to the next of them, and a
 * slot that was written a few writes ago is read: a late copy of a packet has had
 * time to come.
 */
static void *work(void *arg)
{
	const unsigned int thread = (uintptr_t)arg;
	const uint64_t own = slots / threads,
		       quota = writes / threads + (thread < writes % threads);
	uint64_t *part = (uint64_t *)(memory + thread * bytes);
	uint64_t n, slot;

	for (n = 0; n < quota && !__atomic_load_n(&over, __ATOMIC_RELAXED); n++) {
		const uint32_t round = n / own + 1;

		slot = n % own * threads + thread;
		fill(part, slot, round);
		rounds[slot] = 0;
		if (!move(KRDMA_OP_WRITE, thread, slot))
			break;
		rounds[slot] = round;
		if (n % 2)
			continue;
		slot = (n < 3 ? 0 : n - 3) % own * threads + thread;
		/* The buffer is full of scribble: what a READ leaves out shows. */
		if (!move(KRDMA_OP_READ, thread, slot) ||
		    !right(part, slot, rounds[slot], "read back"))
			break;
	}
	return NULL;
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

static int run(const char *address, const char *name, bool own_session)
{
	struct krdma_ioc_connect connect = {
		.size = sizeof(connect),
		.flags = own_session ? KRDMA_CONNECT_PRIVATE : 0,
	};
	struct krdma_ioc_buffer reg = { .size = sizeof(reg), .flags = KRDMA_BUFFER_WRITABLE };
	pthread_t ids[THREADS_MAX];
	unsigned int i;
	uint64_t slot;

	if (!parse(address, &connect.dst))
		usage();
	fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("/dev/krdma_mover");
	if (ioctl(fd, KRDMA_IOC_CONNECT, &connect))
		fail("connect");
	region = (struct krdma_ioc_open){ .size = sizeof(region), .session = connect.id };
	snprintf(region.name, sizeof(region.name), "%s", name);
	if (ioctl(fd, KRDMA_IOC_OPEN, &region))
		fail("open");

	slots = region.length / bytes;
	if (slots < threads)
		usage();
	rounds = calloc(slots, sizeof(*rounds));
	memory = mmap(NULL, threads * bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!rounds || memory == MAP_FAILED)
		fail("memory");
	reg.addr = (uintptr_t)memory;
	reg.length = threads * bytes;
	if (ioctl(fd, KRDMA_IOC_BUFFER, &reg))
		fail("buffer");
	buffer = reg.id;

	for (i = 0; i < threads; i++) {
		if (pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)i))
			fail("thread");
	}
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	for (slot = 0; slot < slots; slot++) {
		if (rounds[slot])
			printf("%llu %u\n", (unsigned long long)slot, rounds[slot]);
	}
	return result;
}

/* ---- the target's side ---- */

static int check(const char *path)
{
	unsigned long long slot, n = 0;
	unsigned int round;
	struct stat st;
	int file = open(path, O_RDONLY);

	if (file < 0 || fstat(file, &st)) {
		fprintf(stderr, "scribble: %s: %s\n", path, strerror(errno));
		return 1;
	}
	memory = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "scribble: %s: %s\n", path, strerror(errno));
		return 1;
	}
	slots = st.st_size / bytes;
	while (scanf("%llu %u", &slot, &round) == 2) {
		if (slot >= slots)
			usage();
		if (!right((uint64_t *)(memory + slot * bytes), slot, round, path))
			return 3;
		n++;
	}
	printf("%llu slots are right\n", n);
	return 0;
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
	bool own_session = false, target = false;
	int c;

	while ((c = getopt(argc, argv, "pcb:n:s:t:d:")) != -1) {
		switch (c) {
		case 'p':
			own_session = true;
			break;
		case 'c':
			target = true;
			break;
		case 'b':
			bytes = number(optarg);
			break;
		case 'n':
			writes = number(optarg);
			break;
		case 's':
			seed = number(optarg);
			break;
		case 't':
			threads = number(optarg);
			break;
		case 'd':
			seconds = number(optarg);
			break;
		default:
			usage();
		}
	}
	if (argc - optind != (target ? 1 : 2) || !bytes || bytes % PAGE || !threads ||
	    threads > THREADS_MAX)
		usage();
	return target ? check(argv[optind]) : run(argv[optind], argv[optind + 1], own_session);
}
