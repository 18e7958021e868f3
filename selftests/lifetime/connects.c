// SPDX-License-Identifier: GPL-2.0
/*
 * Many connects at once, for unanswered.sh: each from a thread of its own, for a private
 * session.
 *
 * usage: connects ADDRESS COUNT
 * Ends when all of them have, with 0 if none was made.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <krdma/krdma.h>

static struct krdma_sockaddr addr;
static struct krdma *krdma;
static atomic_uint made;

static void *connect_one(void *unused)
{
	uint32_t session;

	if (!krdma_connect_flags(krdma, &addr, KRDMA_CONNECT_PRIVATE, 0, &session))
		made++;
	return unused;
}

int main(int argc, char **argv)
{
	long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0, i;
	pthread_attr_t small;
	pthread_t *threads;

	if (count < 1 || krdma_resolve(argv[1], &addr, 1) != 1 || krdma_new(&krdma)) {
		fprintf(stderr, "usage: connects ADDRESS COUNT\n");
		return 2;
	}
	threads = calloc((size_t)count, sizeof(*threads));
	if (!threads)
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (i = 0; i < count; i++)
		if (pthread_create(&threads[i], &small, connect_one, NULL)) {
			perror("thread");
			return 2;
		}
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	krdma_free(krdma);
	return made ? 1 : 0;
}
