// SPDX-License-Identifier: GPL-2.0
/*
 * A peer in userspace, for peer.sh and others: results, and the program.
 *
 *   peer initiator HOST PORT COMMAND   TAP on standard output; "COMMAND NAME" kills the
 *                                      process that exports NAME
 *   peer target ADDRESS PORT            a target: listens on PORT and the ports behind it, one
 *                                      for each violation of the protocol
 *   peer cases                         lists these violations, for the script
 *   peer withhold HOST PORT ...        peer_withhold.c, for withheld.sh
 */
#include <netdb.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <time.h>

#include "peer.h"

union address peer_addr;
const char *kill_command;
/* What the RDMA device of this host is; the lab has one. */
bool iwarp;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int results, failures;
/* What the module said that it may not say. */
static char *insane;

/* ---- results ---- */

s64 now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

const char *bad(const char *fmt, ...)
{
	static __thread char text[4][300];
	static __thread unsigned int next;
	char *at = text[next++ % 4];
	va_list args;

	va_start(args, fmt);
	vsnprintf(at, sizeof(text[0]), fmt, args);
	va_end(args);
	return at;
}

void result(const char *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&lock);
	failures += !!why;
	printf("%sok %d - ", why ? "not " : "", ++results);
	vprintf(fmt, args);
	printf("\n");
	if (why)
		printf("# %s\n", why);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	va_end(args);
}

/* What can't be tried here, and why. */
void skip(const char *reason, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&lock);
	printf("ok %d - ", ++results);
	vprintf(fmt, args);
	printf(" # SKIP %s\n", reason);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	va_end(args);
}

/* Of a message that the module sent, if anything is wrong with it. */
void not_sane(const char *why)
{
	pthread_mutex_lock(&lock);
	if (!insane)
		insane = strdup(why);
	pthread_mutex_unlock(&lock);
}

int results_end(void)
{
	result(insane, "all that the module sent is as the protocol says");
	printf("1..%d\n", results);
	return failures ? 1 : 0;
}

/* ---- the program ---- */

void resolve(union address *addr, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *info;

	if (getaddrinfo(host, port, &hints, &info)) {
		fprintf(stderr, "peer: no address: %s\n", host);
		exit(2);
	}
	memcpy(addr, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &all); /* siw counts root's too */
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 8192, 8192 });
	setvbuf(stdout, NULL, _IOLBF, 0);
	iwarp = devices && devices[0] && devices[0]->transport_type == IBV_TRANSPORT_IWARP;
	if (devices)
		ibv_free_device_list(devices);
	if (argc == 2 && !strcmp(argv[1], "cases"))
		return target_cases();
	if (argc < 4) {
		fprintf(stderr, "usage: peer initiator|target|withhold HOST PORT ...\n");
		return 2;
	}
	resolve(&peer_addr, argv[2], argv[3]);
	if (!strcmp(argv[1], "withhold"))
		return withhold_main(argc - 4, argv + 4);
	if (!strcmp(argv[1], "target"))
		return target_main();
	kill_command = argc > 4 ? argv[4] : NULL;
	return initiator_main();
}
