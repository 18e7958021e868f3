/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The queue of an export's messages, for those who fill it (target/message.c) and those who read it
 * (target/queue.c).
 */
#ifndef KRDMA_QUEUE_H
#define KRDMA_QUEUE_H

#include "target/grant.h"

/* Room in a queue, messages. */
#define KRDMA_MESSAGE_QUEUE_MAX 256

/* A message. */
struct krdma_message_entry {
	struct list_head node; /* queue->entries */
	struct krdma_message head;
	u8 data[]; /* right behind it, as it is read */
};

/* The queue of an export. */
struct krdma_message_queue {
	struct kref ref; /* the export, its files, those who send to it, deliver_work */
	spinlock_t lock; /* all below, but what does not change */
	struct list_head entries;
	u32 nentries;
	u32 out;                  /* taken out to be read, and not given up yet */
	u32 used;                 /* of the room: those, and such as are being stored */
	struct list_head waiting; /* krdma_sender.node: whose messages are held */
	bool over;                /* the export is gone */
	wait_queue_head_t wait;   /* readers */
	wait_queue_head_t idle;   /* a grant that ends: nothing of it is being delivered */
	struct work_struct deliver_work;
	struct mem_cgroup *memcg;
	krdma_receive_fn fn; /* of a module, instead of files */
	void *priv;
	struct work_struct work;
};

/* target/queue.c */
void krdma_message_queue_deliver(struct krdma_message_queue *queue);
void krdma_message_queue_wake(struct krdma_message_queue *queue);

/* target/message.c */
void krdma_deliver_work(struct work_struct *work);

#endif /* KRDMA_QUEUE_H */
