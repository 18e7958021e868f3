// SPDX-License-Identifier: GPL-2.0
/*
 * Events and their readers. Each reader has a ring of the latest events, so that one that does not
 * read holds up nobody; what it has missed is counted.
 */
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <rdma/ib_verbs.h>

#include "event.h"
#include "range.h"

/* Readers: of all users, each of whom may have what krdma_share_ok() gives. */
#define KRDMA_MONITORS_MAX 64

static DEFINE_SPINLOCK(krdma_monitors_lock); /* (BH) below all others */
static LIST_HEAD(krdma_monitors);
static u32 krdma_nmonitors;

/**
 * krdma_events_watched - does anybody read events?
 *
 * Context: any; a hint.
 * Return: true if so
 */
bool krdma_events_watched(void)
{
	return READ_ONCE(krdma_nmonitors);
}

static bool krdma_monitor_sees(const struct krdma_monitor *monitor,
			       const struct krdma_event_scope *scope)
{
	if (scope->ib)
		return rdma_dev_access_netns(scope->ib, monitor->net);
	return scope->net == monitor->net &&
	       (scope->all || monitor->admin || uid_eq(scope->uid, monitor->uid));
}

/**
 * krdma_event_post - let those who watch know of an event
 * @event: type, and what it is about; the rest is set here
 * @scope: who may see it
 *
 * Context: any but hard interrupts, with any lock.
 */
void krdma_event_post(struct krdma_monitor_event *event, const struct krdma_event_scope *scope)
{
	struct krdma_monitor *monitor;

	event->size = sizeof(*event);
	event->time_ns = ktime_get_real_ns();
	spin_lock_bh(&krdma_monitors_lock);
	list_for_each_entry(monitor, &krdma_monitors, node) {
		if (!krdma_monitor_sees(monitor, scope))
			continue;
		if (monitor->next - monitor->first == KRDMA_EVENTS_MAX) {
			WRITE_ONCE(monitor->first, monitor->first + 1);
			monitor->lost++;
		}
		monitor->events[monitor->next % KRDMA_EVENTS_MAX] = *event;
		WRITE_ONCE(monitor->next, monitor->next + 1);
		wake_up_interruptible_poll(&monitor->wait, EPOLLIN | EPOLLRDNORM);
	}
	spin_unlock_bh(&krdma_monitors_lock);
}

/**
 * krdma_monitor_add - begin to tell a reader of events
 * @monitor: reader, filled in
 *
 * Context: process.
 * Return: 0; or -EDQUOT: there are too many
 */
int krdma_monitor_add(struct krdma_monitor *monitor)
{
	struct krdma_monitor *other;
	u32 mine = 1, all = 1;
	bool ok;

	spin_lock_bh(&krdma_monitors_lock);
	list_for_each_entry(other, &krdma_monitors, node) {
		mine += uid_eq(other->uid, monitor->uid);
		all += !uid_eq(other->uid, GLOBAL_ROOT_UID);
	}
	/* Root's do not count. */
	ok = uid_eq(monitor->uid, GLOBAL_ROOT_UID) || krdma_share_ok(mine, all, KRDMA_MONITORS_MAX);
	if (ok) {
		list_add_tail(&monitor->node, &krdma_monitors);
		WRITE_ONCE(krdma_nmonitors, krdma_nmonitors + 1);
	}
	spin_unlock_bh(&krdma_monitors_lock);
	return ok ? 0 : -EDQUOT;
}

/**
 * krdma_monitor_del - tell a reader of no more events
 * @monitor: reader
 *
 * Context: process.
 */
void krdma_monitor_del(struct krdma_monitor *monitor)
{
	spin_lock_bh(&krdma_monitors_lock);
	list_del(&monitor->node);
	WRITE_ONCE(krdma_nmonitors, krdma_nmonitors - 1);
	spin_unlock_bh(&krdma_monitors_lock);
}

/**
 * krdma_monitor_any - is there an event to read?
 * @monitor: reader
 *
 * Context: any; a hint.
 * Return: true if there is
 */
bool krdma_monitor_any(const struct krdma_monitor *monitor)
{
	return READ_ONCE(monitor->next) != READ_ONCE(monitor->first);
}

/**
 * krdma_monitor_peek - the first event that was not read
 * @monitor: reader
 * @event: out: the event
 * @at: out: for krdma_monitor_read()
 *
 * Context: process, monitor->reading held.
 * Return: false if there is none
 */
bool krdma_monitor_peek(struct krdma_monitor *monitor, struct krdma_monitor_event *event, u64 *at)
{
	bool any;

	spin_lock_bh(&krdma_monitors_lock);
	any = monitor->next != monitor->first;
	if (any) {
		*event = monitor->events[monitor->first % KRDMA_EVENTS_MAX];
		event->lost = monitor->lost;
		*at = monitor->first;
	}
	spin_unlock_bh(&krdma_monitors_lock);
	return any;
}

/**
 * krdma_monitor_read - an event was read
 * @monitor: reader
 * @at: of krdma_monitor_peek(); later ones may have taken its place since
 * @lost: what it said was lost before it
 *
 * Context: process, monitor->reading held.
 */
void krdma_monitor_read(struct krdma_monitor *monitor, u64 at, u64 lost)
{
	spin_lock_bh(&krdma_monitors_lock);
	/* One of the events that are lost by now was read. */
	monitor->lost -= lost + (monitor->first != at);
	if (monitor->first == at)
		WRITE_ONCE(monitor->first, at + 1);
	spin_unlock_bh(&krdma_monitors_lock);
}
