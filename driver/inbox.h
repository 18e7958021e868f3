/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The queue of an export's messages, for those who fill it (mail.c) and those who read it
 * (inbox.c).
 */
#ifndef KRDMA_INBOX_H
#define KRDMA_INBOX_H

#include "krdma.h"

/* Room in a queue, messages. */
#define KRDMA_BOX_MESSAGES 256

/* A message. */
struct krdma_mail {
	struct list_head node; /* box->mails */
	struct krdma_message head;
	u8 data[]; /* right behind it, as it is read */
};

/* The queue of an export. */
struct krdma_box {
	struct kref ref; /* the export, its files, those who send to it, deliver_work */
	spinlock_t lock; /* all below, but what does not change */
	struct list_head mails;
	u32 nmails;
	u32 out;                  /* taken out to be read, and not given up yet */
	u32 used;                 /* of the room: those, and such as are being stored */
	struct list_head waiting; /* krdma_sender.node: whose messages are held */
	bool over;                /* the export is gone */
	wait_queue_head_t wait;   /* readers */
	wait_queue_head_t idle;   /* a grant that ends: nothing of it is being delivered */
	struct work_struct deliver_work;
	struct krdma_msg *msg; /* its scratch */
	struct mem_cgroup *memcg;
	krdma_receive_fn fn; /* of a module, instead of files */
	void *priv;
	struct work_struct work;
};

/* inbox.c: under the lock of the queue */
void krdma_box_deliver(struct krdma_box *box);
void krdma_box_wake(struct krdma_box *box);

/* mail.c */
void krdma_deliver_work(struct work_struct *work);

#endif /* KRDMA_INBOX_H */
