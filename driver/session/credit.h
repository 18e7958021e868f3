/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credits for requests, counted at both ends: a request takes one of the receiver's credits, its
 * reply gives the credit back (wire.rst). Context of all: session->lock held.
 */
#ifndef KRDMA_CREDIT_H
#define KRDMA_CREDIT_H

#include "rdma/rdma.h"

/**
 * struct krdma_credit_pool - the peer's credits, which our requests take
 * @size: credits
 * @used: those taken
 * @last_tag: of the latest request
 */
struct krdma_credit_pool {
	u32 size;
	u32 used;
	u32 last_tag;
};

/**
 * struct krdma_tags - our credits, which the peer's requests take
 * @tag: of each request that has no reply yet; 0 is a free slot
 */
struct krdma_tags {
	u32 tag[KRDMA_CREDITS];
};

/**
 * krdma_credit_pool_take - take a credit for a request of ours
 * @pool: the peer's credits
 * @reserve: credits that are for others
 *
 * Return: true, or false if all are taken.
 */
static inline bool krdma_credit_pool_take(struct krdma_credit_pool *pool, u32 reserve)
{
	if (pool->used + reserve >= pool->size)
		return false;
	pool->used++;
	return true;
}

/**
 * krdma_credit_pool_put - give a credit back
 * @pool: the peer's credits, with one taken
 */
static inline void krdma_credit_pool_put(struct krdma_credit_pool *pool)
{
	pool->used--;
}

/**
 * krdma_credit_pool_tag - the tag of the next request
 * @pool: the peer's credits
 *
 * Return: the tag, never 0.
 */
static inline u32 krdma_credit_pool_tag(struct krdma_credit_pool *pool)
{
	if (!++pool->last_tag)
		pool->last_tag = 1;
	return pool->last_tag;
}

/**
 * krdma_tags_begin - a request of the peer: one of our credits
 * @tags: our credits
 * @tag: of the request
 *
 * Return: NULL, or how the peer broke the protocol.
 */
static inline const char *krdma_tags_begin(struct krdma_tags *tags, u32 tag)
{
	u32 i, *slot = NULL;

	for (i = 0; i < KRDMA_CREDITS; i++) {
		if (tags->tag[i] == tag)
			return "two requests with the same tag";
		if (!tags->tag[i])
			slot = &tags->tag[i];
	}
	if (!slot)
		return "more requests than credits";
	*slot = tag;
	return NULL;
}

/**
 * krdma_tags_end - the peer gets its reply, and may send the next request
 * @tags: our credits
 * @tag: of the request
 */
static inline void krdma_tags_end(struct krdma_tags *tags, u32 tag)
{
	u32 i;

	for (i = 0; i < KRDMA_CREDITS; i++)
		if (tags->tag[i] == tag)
			tags->tag[i] = 0;
}

#endif /* KRDMA_CREDIT_H */
