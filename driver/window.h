/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The places for questions, counted on both sides: a question takes one in the
 * window of the side that is asked, its answer gives it back (wire.h). The caller
 * holds session->lock.
 */
#ifndef KRDMA_WINDOW_H
#define KRDMA_WINDOW_H

#include <linux/types.h>

/* Questions that a peer may have under way here. */
#define KRDMA_WINDOW 32

/**
 * struct krdma_window - the peer's window, in which our questions take places
 * @size: places
 * @used: places taken
 * @last_tag: of the latest question
 */
struct krdma_window {
	u32 size;
	u32 used;
	u32 last_tag;
};

/**
 * struct krdma_tags - our window, in which the peer's questions take places
 * @tag: of each question that is not answered yet; 0 is a free place
 */
struct krdma_tags {
	u32 tag[KRDMA_WINDOW];
};

/**
 * krdma_window_take - take a place for a question of ours
 * @window: the peer's window
 *
 * Return: true, or false if all are taken.
 */
static inline bool krdma_window_take(struct krdma_window *window)
{
	if (window->used >= window->size)
		return false;
	window->used++;
	return true;
}

/**
 * krdma_window_put - give a place back
 * @window: the peer's window, with a place taken
 */
static inline void krdma_window_put(struct krdma_window *window)
{
	window->used--;
}

/**
 * krdma_window_tag - the tag of the next question
 * @window: the peer's window
 *
 * Return: the tag, never 0.
 */
static inline u32 krdma_window_tag(struct krdma_window *window)
{
	if (!++window->last_tag)
		window->last_tag = 1;
	return window->last_tag;
}

/**
 * krdma_tags_begin - the peer asks: a place of our window
 * @tags: our window
 * @tag: of the question
 *
 * Return: NULL, or how the peer broke the protocol.
 */
static inline const char *krdma_tags_begin(struct krdma_tags *tags, u32 tag)
{
	u32 i, *place = NULL;

	for (i = 0; i < KRDMA_WINDOW; i++) {
		if (tags->tag[i] == tag)
			return "two questions with the same tag";
		if (!tags->tag[i])
			place = &tags->tag[i];
	}
	if (!place)
		return "more questions than the window";
	*place = tag;
	return NULL;
}

/**
 * krdma_tags_end - the peer gets its answer, and may ask again
 * @tags: our window
 * @tag: of the question
 */
static inline void krdma_tags_end(struct krdma_tags *tags, u32 tag)
{
	u32 i;

	for (i = 0; i < KRDMA_WINDOW; i++)
		if (tags->tag[i] == tag)
			tags->tag[i] = 0;
}

#endif /* KRDMA_WINDOW_H */
