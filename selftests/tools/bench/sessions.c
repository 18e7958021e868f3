// SPDX-License-Identifier: GPL-2.0
/*
 * Many private sessions, from several addresses. Runs in node A of selftests/tools/bench/sessions.
 *
 * usage: sessions_run COUNT SOURCE...
 *
 * Connects COUNT sessions with 10.77.0.2, one after the other, from the sources in turn. Prints the
 * seconds that took; keeps them until its standard input ends.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/krdma_mover.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void address(struct __kernel_sockaddr_storage *to, const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &in.sin_addr) != 1)
		errx(2, "%s is no address", text);
	memcpy(to, &in, sizeof(in));
}

int main(int argc, char **argv)
{
	int fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC), count, i;
	double begin;
	char byte;

	if (argc < 3 || fd < 0)
		err(2, "usage: sessions_run COUNT SOURCE...");
	count = atoi(argv[1]);
	begin = now();
	for (i = 0; i < count; i++) {
		struct krdma_ioc_connect cmd = {
			.size = sizeof(cmd),
			.flags = KRDMA_CONNECT_PRIVATE,
		};

		address(&cmd.dst, "10.77.0.2");
		address(&cmd.src, argv[2 + i % (argc - 2)]);
		if (ioctl(fd, KRDMA_IOC_CONNECT, &cmd))
			err(1, "session %d", i + 1);
	}
	printf("%.3f\n", now() - begin);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
