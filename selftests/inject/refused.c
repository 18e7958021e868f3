// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests that the RDMA device refuses, for refused.sh: faults (driver/inject.c) at the
 * posts of data and of messages. Only the refused work request fails. The rest of its chain
 * and all other operations of the session continue. TAP on standard output.
 *
 * usage: refused HOST EXPORT RECEIVER rxe|siw
 * The target does not say of the first connection that its device needs no READ behind WRITEs.
 * EXPORT and RECEIVER grant reading and writing, and have 8 MiB at least; RECEIVER also grants
 * messages.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <krdma/krdma.h>

#define FAULTS "/sys/kernel/debug/krdma_mover_fail/"
/*
 * Operations of a chain, of which not each is signalled, and the bytes of each; and messages. Those
 * are refused one after the other, which REFUSALS has to allow.
 */
#define OPS   12
#define PIECE 5000
#define SENDS 6
/* An operation of many work requests. */
#define LONG (6UL << 20)
/* As KRDMA_REFUSALS_MAX of the driver. */
#define REFUSALS   8
#define TIMEOUT_MS 20000

static const char *host, *export_name, *receiver_name;
static bool siw;
static struct krdma *krdma;
static uint32_t session, region, receiver;
static unsigned char *out, *back;
static char data_point[64], message_point[64];
static int results, failures;

/* ---- results ---- */

static bool ok(bool good, const char *fmt, ...)
{
	va_list args;

	failures += !good;
	printf("%sok %d - ", good ? "" : "not ", ++results);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	return good;
}

static void bail(const char *what)
{
	printf("Bail out! %s: %s\n", what, krdma_error());
	exit(1);
}

/* ---- faults ---- */

static void put(const char *name, const char *text)
{
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), FAULTS "%s", name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file)) {
		perror(path);
		exit(1);
	}
}

/* Where @function makes @call: the module has come to it before. */
static bool point(const char *call, const char *function, char *at, size_t room)
{
	char line[300], file[64], name[64], in[64];
	FILE *points = fopen(FAULTS "points", "r");
	bool found = false;

	if (!points) {
		perror(FAULTS "points");
		exit(1);
	}
	while (!found && fgets(line, sizeof(line), points))
		found = sscanf(line, "%63s %63s reached %*u failed %*u in %63s", file, name, in) ==
				3 &&
			!strcmp(name, call) && !strcmp(in, function);
	fclose(points);
	if (found)
		snprintf(at, room, "%s", file);
	return found;
}

static void arm(const char *at, unsigned int taken, unsigned int times)
{
	char text[100];

	snprintf(text, sizeof(text), "%u", taken);
	put("taken", text);
	snprintf(text, sizeof(text), "%s 1 %u", at, times);
	put("arm", text);
}

/* Has it failed? */
static bool failed(void)
{
	char text[100] = "";
	FILE *file = fopen(FAULTS "arm", "r");

	if (!file || !fgets(text, sizeof(text), file)) {
		perror(FAULTS "arm");
		exit(1);
	}
	fclose(file);
	put("arm", "none:0 0");
	put("taken", "0");
	return strstr(text, " 0\n");
}

/* ---- sessions ---- */

static void begin(void)
{
	struct krdma_sockaddr addr;
	struct krdma_region opened;

	if (krdma_resolve(host, &addr, 1) != 1)
		bail(host);
	if (krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES,
				TIMEOUT_MS, &session))
		bail("connect");
	if (krdma_open_region(krdma, session, export_name, KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
			      TIMEOUT_MS, &opened))
		bail("open");
	region = opened.id;
	if (krdma_open_region(krdma, session, receiver_name,
			      KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE | KRDMA_RIGHT_MESSAGE,
			      TIMEOUT_MS, &opened))
		bail("open for messages");
	receiver = opened.id;
}

static void end(void)
{
	krdma_destroy(krdma, region);
	krdma_destroy(krdma, receiver);
	krdma_destroy(krdma, session);
}

static void fill(unsigned char *at, size_t bytes)
{
	static unsigned int seed = 1;

	while (bytes--)
		*at++ = (unsigned char)((seed = seed * 1103515245 + 12345) >> 16);
}

/* The same region, another one of the session, and the control messages. */
static bool goes_on(void)
{
	struct krdma_completion done[3];
	struct krdma_op ops[3];
	uint64_t ns;

	fill(out, PIECE);
	krdma_op_write(&ops[0], region, 100, out, PIECE);
	krdma_op_write(&ops[1], receiver, 100, out, PIECE);
	krdma_op_send(&ops[2], receiver, out, 100, 7);
	if (krdma_submit(krdma, ops, done, 3))
		return false;
	krdma_op_read(&ops[0], region, 100, back, PIECE);
	return !krdma_submit(krdma, ops, done, 1) && !memcmp(back, out, PIECE) &&
	       !krdma_ping(krdma, session, 100, TIMEOUT_MS, &ns);
}

static bool says(int err, const char *what)
{
	bool good = krdma_explain(krdma, err) == -err && strstr(krdma_error(), what);

	if (!good)
		printf("# says: %s\n", krdma_error());
	return good;
}

/* ---- data ---- */

static void one(uint8_t opcode)
{
	struct krdma_completion done;
	struct krdma_op op;

	if (opcode == KRDMA_OP_READ)
		krdma_op_read(&op, region, 0, back, PIECE);
	else
		krdma_op_write(&op, region, 0, out, PIECE);
	arm(data_point, 0, 1);
	ok(krdma_submit(krdma, &op, &done, 1) == 1 && done.status == -EIO &&
		   says(EIO, "the RDMA device refused a work request after 0 of 5000 bytes"),
	   "a %s that is refused fails with EIO", opcode == KRDMA_OP_READ ? "READ" : "WRITE");
	ok(failed(), "it was");
	ok(goes_on(), "its session goes on");
}

/* READs behind WRITEs, so far. */
static unsigned long placements(void)
{
	FILE *file = fopen("/sys/class/misc/krdma_mover/counters/placements", "r");
	unsigned long count;

	if (!file || fscanf(file, "%lu", &count) != 1) {
		perror("placements");
		exit(1);
	}
	fclose(file);
	return count;
}

/* Each of a chain in turn: the others are done. With a READ behind them if @flags say so. */
static void chain(uint32_t flags)
{
	unsigned long before = placements();
	struct krdma_completion done[OPS];
	struct krdma_op ops[OPS];
	int refused, i;
	bool good;

	for (refused = 0; refused < OPS; refused++) {
		fill(out, OPS * PIECE);
		for (i = 0; i < OPS; i++) {
			krdma_op_write(&ops[i], region, (uint64_t)i * 2 * PIECE, out + i * PIECE,
				       PIECE);
			ops[i].flags |= flags;
			ops[i].timeout_ns = TIMEOUT_MS * 1000000ULL;
			ops[i].user_data = i;
		}
		arm(data_point, refused, 1);
		good = krdma_submit(krdma, ops, done, OPS) == 1 && failed();
		for (i = 0; i < OPS; i++) {
			bool is = i == refused;

			if (done[i].status != (is ? -EIO : 0) || (!is && done[i].result != PIECE)) {
				printf("# operation %d: %d\n", i, done[i].status);
				good = false;
			}
		}
		memset(back, 0, OPS * PIECE);
		for (i = 0; i < OPS; i++) {
			krdma_op_read(&ops[i], region, (uint64_t)i * 2 * PIECE, back + i * PIECE,
				      PIECE);
			ops[i].timeout_ns = TIMEOUT_MS * 1000000ULL;
		}
		if (krdma_submit(krdma, ops, done, OPS))
			good = false;
		for (i = 0; i < OPS; i++)
			if (i != refused && memcmp(back + i * PIECE, out + i * PIECE, PIECE)) {
				printf("# operation %d: other bytes\n", i);
				good = false;
			}
		ok(good, "of a chain of %d %sWRITEs number %d is refused, and fails alone", OPS,
		   flags ? "placed " : "", refused + 1);
	}
	ok((placements() > before) == (siw || flags), "%s behind them",
	   siw || flags ? "READs are" : "no READ is");
	ok(goes_on(), "their session goes on");
}

/* A long one takes turns with a short one; what it has in the chain is left out with it. */
static void work_requests(void)
{
	struct krdma_completion done[2] = { 0 };
	struct krdma_op ops[2];
	unsigned int taken;
	bool good;

	for (taken = 0; taken < 4; taken++) {
		/* The short one is second. */
		int long_status = taken == 1 ? 0 : -EIO, short_status = taken == 1 ? -EIO : 0;

		fill(out, LONG + PIECE);
		krdma_op_write(&ops[0], region, 0, out, LONG);
		krdma_op_write(&ops[1], region, LONG, out + LONG, PIECE);
		ops[0].timeout_ns = ops[1].timeout_ns = TIMEOUT_MS * 1000000ULL;
		/* So that all keys are here, and both in one chain. */
		if (krdma_submit(krdma, ops, done, 2))
			bail("a long and a short one");
		arm(data_point, taken, 1);
		krdma_submit(krdma, ops, done, 2);
		good = failed();
		ok(good && done[0].status == long_status && done[1].status == short_status &&
			   (long_status || done[0].result == LONG) &&
			   (short_status || done[1].result == PIECE),
		   "behind %u work requests one is refused: status %d and %d, and %d and %d it has to be",
		   taken, done[0].status, done[1].status, long_status, short_status);
	}
	ok(goes_on(), "their session goes on");
}

/* siw: what was begun of it can't be left so. */
static void second_part(void)
{
	struct krdma_completion done[2] = { 0 };
	struct krdma_op op;
	bool good;

	krdma_op_read(&op, region, 0, back, PIECE);
	arm(data_point, 1, 1);
	good = krdma_submit(krdma, &op, done, 1) == 1 && failed() && done[0].status == -ECONNRESET;
	ok(good, "a READ that is refused behind its registration ends the session: %d",
	   done[0].status);
	ok(!goes_on(), "it does");
	end();
	begin();
	fill(out, PIECE);
	krdma_op_write(&op, region, 0, out, PIECE);
	arm(data_point, 2, 1);
	good = krdma_submit(krdma, &op, done, 1) == 1 && failed() && done[0].status == -ECONNRESET;
	ok(good, "so does the READ behind a WRITE: %d", done[0].status);
	ok(!goes_on(), "it does");
	end();
	begin();
}

/* One after the other, with none that is taken between them: then the session is of no use. */
static void in_a_row(void)
{
	struct krdma_completion done = { 0 };
	struct krdma_op op;
	bool good;
	int i;

	krdma_op_write(&op, region, 0, out, PIECE);
	for (i = 0; i < REFUSALS - 1; i++) {
		arm(data_point, 0, 1);
		if (krdma_submit(krdma, &op, &done, 1) != 1 || !failed() || done.status != -EIO)
			break;
	}
	ok(i == REFUSALS - 1, "%d in a row that are refused fail alone: %d", i, done.status);
	ok(goes_on(), "their session goes on");
	for (i = 0; i < REFUSALS; i++) {
		arm(data_point, 0, 1);
		if (krdma_submit(krdma, &op, &done, 1) != 1 || !failed() || done.status != -EIO)
			break;
	}
	ok(i == REFUSALS, "so do %d: %d", i, done.status);
	good = krdma_submit(krdma, &op, &done, 1) == 1 && done.status == -ENOTCONN &&
	       says(ENOTCONN, "work requests are not accepted");
	ok(good, "but then the session ends: %d", done.status);
	end();
	begin();
}

/* Every second one: the device takes no chain as a whole. */
static void every_second(void)
{
	struct krdma_completion done[4 * REFUSALS];
	struct krdma_op ops[4 * REFUSALS];
	int refused = 0, lost = 0, i;

	for (i = 0; i < 4 * REFUSALS; i++)
		krdma_op_write(&ops[i], region, (uint64_t)i * PIECE, out + i * PIECE, PIECE);
	/* So that all keys are here, and all in one chain. */
	if (krdma_submit(krdma, ops, done, 4 * REFUSALS))
		bail("a chain");
	arm(data_point, 1, 4 * REFUSALS);
	krdma_submit(krdma, ops, done, 4 * REFUSALS);
	failed();
	for (i = 0; i < 4 * REFUSALS; i++) {
		refused += done[i].status == -EIO;
		lost += done[i].status == -ENOTCONN || done[i].status == -ECONNRESET;
	}
	ok(refused == REFUSALS && lost >= 2 * REFUSALS,
	   "of %d every second one is refused: %d are, then the session ends, and %d fail by that",
	   4 * REFUSALS, refused, lost);
	end();
	begin();
}

/* ---- messages ---- */

static void messages(void)
{
	struct krdma_completion done[SENDS];
	struct krdma_op ops[SENDS];
	int refused, i;
	bool good;

	for (refused = 0; refused < SENDS; refused++) {
		for (i = 0; i < SENDS; i++) {
			krdma_op_send(&ops[i], receiver, out, 100, i);
			ops[i].timeout_ns = TIMEOUT_MS * 1000000ULL;
		}
		arm(message_point, refused, 1);
		good = krdma_submit(krdma, ops, done, SENDS) == 1 && failed();
		for (i = 0; i < SENDS; i++) {
			if (done[i].status == (i == refused ? -EIO : 0))
				continue;
			printf("# message %d: %d\n", i, done[i].status);
			good = false;
		}
		ok(good, "of %d messages number %d is refused, and fails alone", SENDS,
		   refused + 1);
	}
	ok(says(EIO, "refused a work request"), "it says so");
	krdma_op_write(&ops[0], receiver, 0, out, PIECE);
	krdma_op_message(&ops[0], 3);
	arm(message_point, 0, 1);
	good = krdma_submit(krdma, ops, done, 1) == 1 && failed() && done[0].status == -EIO;
	ok(good, "a WRITE whose message is refused fails: %d", done[0].status);
	arm(data_point, 0, 1);
	good = krdma_submit(krdma, ops, done, 1) == 1 && failed() && done[0].status == -EIO;
	ok(good, "a WRITE with a message that is refused fails: %d", done[0].status);
	ok(goes_on(), "their session goes on");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5) {
		fprintf(stderr, "usage: refused HOST EXPORT RECEIVER rxe|siw\n");
		return 2;
	}
	host = argv[1];
	export_name = argv[2];
	receiver_name = argv[3];
	siw = !strcmp(argv[4], "siw");
	out = malloc(LONG + PIECE);
	back = malloc(LONG + PIECE);
	if (!out || !back || krdma_new(&krdma))
		bail("the device");
	begin();
	ok(goes_on(), "without faults all is done");
	if (!point("ib_post_send", "krdma_chain_post", data_point, sizeof(data_point)) ||
	    !point("ib_post_send", "krdma_sends_chain", message_point, sizeof(message_point))) {
		printf("Bail out! the posts are not among the fault points\n");
		return 1;
	}
	one(KRDMA_OP_WRITE);
	one(KRDMA_OP_READ);
	chain(0);
	chain(KRDMA_OPF_PLACED);
	work_requests();
	messages();
	if (siw)
		second_part();
	in_a_row();
	every_second();
	end();
	krdma_free(krdma);
	printf("1..%d\n", results);
	return failures ? 1 : 0;
}
