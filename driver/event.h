/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events: what happens to sessions, paths, exports, listeners and devices, for those who watch.
 * Any floor tells of them; who reads them is frontend/monitor.c's.
 */
#ifndef KRDMA_EVENT_H
#define KRDMA_EVENT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/wait.h>

#include <uapi/linux/krdma_mover.h>

struct ib_device;
struct net;

/* Events that wait for a reader: the latest. */
#define KRDMA_EVENTS_MAX 256

/* A reader sees an event of an object that it would see in a list. */
struct krdma_event_scope {
	const struct net *net;
	bool all; /* of the namespace; or an administrator, or */
	kuid_t uid;
	struct ib_device *ib; /* instead of both: who may see the device */
};

/* A reader. */
struct krdma_monitor {
	struct list_head node; /* krdma_monitors */
	struct net *net;       /* holds a reference */
	kuid_t uid;
	bool admin;
	wait_queue_head_t wait;
	struct mutex reading; /* one read(2) at a time */

	/* krdma_monitors_lock */
	u64 first; /* not read yet; both go on and on */
	u64 next;  /* behind the last */
	u64 lost;  /* that were in the way of later ones, before ->first */
	struct krdma_monitor_event events[KRDMA_EVENTS_MAX];
};

bool krdma_events_watched(void);
void krdma_event_post(struct krdma_monitor_event *event, const struct krdma_event_scope *scope);
int krdma_monitor_add(struct krdma_monitor *monitor);
void krdma_monitor_del(struct krdma_monitor *monitor);
bool krdma_monitor_any(const struct krdma_monitor *monitor);
bool krdma_monitor_peek(struct krdma_monitor *monitor, struct krdma_monitor_event *event, u64 *at);
void krdma_monitor_read(struct krdma_monitor *monitor, u64 at, u64 lost);

#endif /* KRDMA_EVENT_H */
