/* SPDX-License-Identifier: GPL-2.0 */
/* A client of 'krdma serve'. */
#ifndef SERVE_H
#define SERVE_H

#include "share.h"

/* Threads that a client's requests are served by. */
#define SERVE_WORKERS 4

/**
 * struct serve_share - what is served
 * @krdma: the handle
 * @dir: the directory
 * @name: of the share
 * @read_only: nothing is taken
 * @wake: eventfd, written to when a client may have ended
 */
struct serve_share {
	struct krdma *krdma;
	int dir;
	const char *name;
	bool read_only;
	int wake;
};

struct serve_client;

/*
 * Make the client's export, and serve it. @session: serial of its session. Return: the client, or
 * NULL with errno.
 */
struct serve_client *serve_client_new(const struct serve_share *share,
				      const uint8_t token[SHARE_TOKEN],
				      const struct krdma_message *hello);
uint64_t serve_client_session(const struct serve_client *client);
/*
 * Has its session ended, or has it asked for nothing for long? @listed: its session is in the list
 * of sessions, which need not have those of other users.
 */
bool serve_client_is_gone(struct serve_client *client, bool listed);
/* How long it has said nothing but hello; 0: it has asked for something. */
uint64_t serve_client_silent_ns(const struct serve_client *client);
/* It has said bye. */
bool serve_client_is_over(const struct serve_client *client);
/* End its export: its threads end when they have done what they are at. */
void serve_client_end(struct serve_client *client);
/* Have all threads ended? Then it is freed. */
bool serve_client_free(struct serve_client *client);

#endif /* SERVE_H */
