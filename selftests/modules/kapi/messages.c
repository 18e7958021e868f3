// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to this module itself: all come in order, until they are not wanted any more. And a
 * crowd of them, under way until somebody ends the session.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/highmem.h>
#include <linux/inet.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/net_namespace.h>

#include "test.h"

/* More than the queue has room for. */
#define MESSAGES 700

static atomic_t messages_got, messages_bad;
static DECLARE_WAIT_QUEUE_HEAD(messages_wait);
static bool messages_slow;

static void message_received(void *priv, const struct krdma_received *m)
{
	u32 n = atomic_read(&messages_got), i;
	const u8 *data = m->data;
	bool bad = priv != &messages_got || m->value != n || m->peer.ss_family != AF_INET ||
		   !uid_eq(m->uid, GLOBAL_ROOT_UID) || !m->session;

	might_sleep();
	if (m->written)
		bad |= m->length;
	else
		bad |= m->length != n * 37 % 4097;
	for (i = 0; i < m->length; i++)
		bad |= data[i] != pattern(n, 0, i);
	if (bad && atomic_inc_return(&messages_bad) == 1)
		pr_err("krdma_kapi_test: message %u has value %llu, length %u\n", n, m->value,
		       m->length);
	if (messages_slow)
		msleep(20);
	atomic_inc(&messages_got);
	wake_up(&messages_wait);
}

static void message_fill(struct krdma_region_handle *r, u32 n)
{
	struct slot *s = &slots[n % test_depth];
	u32 i, length = n * 37 % 4097;
	u8 *at = kmap_local_page(s->page[0]);

	for (i = 0; i < min_t(u32, length, PAGE_SIZE); i++)
		at[i] = pattern(n, 0, i);
	kunmap_local(at);
	slot_fill(s, KRDMA_OP_SEND);
	s->io.region = r;
	s->io.offset = 0;
	s->io.length = length;
	s->io.operand = n;
	s->io.timeout = KTIME_MAX;
	/* Some tell of a WRITE instead. */
	if (n % 5 == 4) {
		s->io.op = KRDMA_OP_WRITE;
		s->io.flags |= KRDMA_OPF_MESSAGE;
		s->io.length = 64 + n;
	}
}

static bool messages_arrive(u32 n)
{
	return want(wait_event_timeout(messages_wait, atomic_read(&messages_got) == n, PATIENCE));
}

static bool messages_send(struct krdma_region_handle *r, u32 total)
{
	u32 i, k, n = 0;
	bool ok = true;

	while (ok && n < total) {
		k = min(test_depth, total - n);
		slots_begin(k);
		for (i = 0; i < k; i++)
			message_fill(r, n + i);
		for (i = 0; i < k; i++)
			krdma_io_submit(&slots[(n + i) % test_depth].io);
		ok = slots_wait();
		for (i = 0; i < k; i++) {
			struct krdma_io *io = &slots[(n + i) % test_depth].io;

			ok &= want(!io->status && io->moved == io->length);
		}
		n += k;
	}
	return ok && messages_arrive(total) && want(!atomic_read(&messages_bad));
}

static int message_one(struct krdma_region_handle *r, enum krdma_opcode op, u64 length,
		       bool message)
{
	slot_fill(&slots[0], op);
	slots[0].io.region = r;
	slots[0].io.offset = 0;
	slots[0].io.length = length;
	slots[0].io.flags = message ? KRDMA_OPF_MESSAGE : 0;
	return one();
}

bool test_messages(void)
{
	struct krdma_region_handle *r = NULL, *w = NULL;
	struct krdma_export_handle *export;
	struct krdma_session_handle *p = NULL;
	struct sockaddr_storage dst;
	bool ok = true;
	u32 i, got;

	ok &= want(krdma_export(test_client, "kapi-messages", slots[0].page, SLOT_BYTES,
				KRDMA_RIGHT_MESSAGE, NULL, NULL) == ERR_PTR(-EINVAL));
	ok &= want(krdma_export(test_client, "kapi-messages", slots[0].page, SLOT_BYTES, RW,
				message_received, NULL) == ERR_PTR(-EINVAL));
	export = krdma_export(test_client, "kapi-messages", big_slot.page, PAGE_SIZE,
			      RW | KRDMA_RIGHT_MESSAGE, message_received, &messages_got);
	ok &= want(!IS_ERR(export)) &&
	      want(!inet_pton_with_scope(&init_net, AF_UNSPEC, test_self, NULL, &dst));
	if (ok)
		p = connect_to(&dst, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES);
	ok = ok && want(!IS_ERR_OR_NULL(p));
	if (ok) {
		r = open_region(p, "kapi-messages", 0);
		w = open_region(p, "kapi-messages", RW);
		ok = want(!IS_ERR(r)) && want(!IS_ERR(w));
	}
	if (!ok)
		goto out;
	ok &= want(message_one(r, KRDMA_OP_SEND, 4097, false) == -EINVAL);
	ok &= want(message_one(r, KRDMA_OP_SEND, 8, true) == -EINVAL);
	ok &= want(message_one(r, KRDMA_OP_READ, 8, true) == -EINVAL);
	ok &= want(message_one(w, KRDMA_OP_SEND, 8, false) == -EACCES);
	ok &= want(message_one(w, KRDMA_OP_WRITE, 8, true) == -EACCES);
	ok &= want(open_region(test_session, test_name, KRDMA_RIGHT_MESSAGE) ==
		   ERR_PTR(-EOPNOTSUPP));
	ok &= want(open_region(p, "krdma-none", KRDMA_RIGHT_MESSAGE) == ERR_PTR(-ENOENT));
	/* A WRITE that had to ask for its key would come late. */
	ok &= want(!message_one(r, KRDMA_OP_WRITE, 8, false));
	ok = ok && messages_send(r, MESSAGES);

	/* Taken back while they wait: no callback runs any more. */
	messages_slow = true;
	atomic_set(&messages_got, 0);
	slots_begin(test_depth);
	for (i = 0; i < test_depth; i++)
		message_fill(r, i);
	for (i = 0; i < test_depth; i++)
		krdma_io_submit(&slots[i].io);
	ok &= want(!krdma_unexport(export));
	export = NULL;
	got = atomic_read(&messages_got);
	ok &= slots_wait();
	for (i = 0; i < test_depth; i++)
		ok &= want(!slots[i].io.status || slots[i].io.status == -ESTALE);
	ok &= want(atomic_read(&messages_got) == got && got < test_depth);
	ok &= want(!atomic_read(&messages_bad));
out:
	krdma_close(w);
	krdma_close(r);
	krdma_disconnect(p);
	krdma_unexport(export);
	return ok;
}

/* ---- crowd ---- */

static struct krdma_io *crowd_ios;
static struct krdma_export_handle *crowd_export;
static struct krdma_session_handle *crowd_session;
static struct krdma_region_handle *crowd_region;
static atomic_t crowd_ended;

static void crowd_received(void *priv, const struct krdma_received *message)
{
	msleep(20);
}

static void crowd_done(struct krdma_io *io)
{
	WRITE_ONCE(test_ended, atomic_inc_return(&crowd_ended));
	if (io->status)
		WRITE_ONCE(test_status, io->status);
}

void crowd_end(void)
{
	krdma_close(crowd_region);
	krdma_disconnect(crowd_session);
	krdma_unexport(crowd_export);
	kvfree(crowd_ios);
}

bool crowd_begin(void)
{
	struct sockaddr_storage dst;
	LIST_HEAD(batch);
	u32 i;

	crowd_export = krdma_export(test_client, "kapi-crowd", big_slot.page, PAGE_SIZE,
				    RW | KRDMA_RIGHT_MESSAGE, crowd_received, NULL);
	if (!want(!IS_ERR(crowd_export)) ||
	    !want(!inet_pton_with_scope(&init_net, AF_UNSPEC, test_self, NULL, &dst)))
		return false;
	crowd_session = connect_to(&dst, KRDMA_CONNECT_PRIVATE | KRDMA_CONNECT_MESSAGES);
	if (!want(!IS_ERR(crowd_session)))
		return false;
	crowd_region = open_region(crowd_session, "kapi-crowd", 0);
	crowd_ios = kvcalloc(test_crowd, sizeof(*crowd_ios), GFP_KERNEL);
	if (!want(!IS_ERR(crowd_region)) || !want(crowd_ios))
		return false;
	for (i = 0; i < test_crowd; i++) {
		crowd_ios[i] = (struct krdma_io){
			.region = crowd_region,
			.op = KRDMA_OP_SEND,
			.timeout = KTIME_MAX,
			.done = crowd_done,
		};
		list_add_tail(&crowd_ios[i].node, &batch);
		if (i % 64 == 63 || i + 1 == test_crowd) {
			krdma_io_submit_batch(&batch);
			cond_resched();
		}
	}
	return true;
}
