// SPDX-License-Identifier: GPL-2.0
/*
 * Digests: CRC32C of memory, by the kernel's own code.
 *
 * Owner: of a range of an export, for a peer. The service of a session computes one
 * piece after the other, and few services do so at a time.
 *
 * Initiator: KRDMA_OP_DIGEST, and operations with KRDMA_OP_VERIFY when their bytes have
 * arrived. They are on region->digests, and one question of a region is under way at
 * a time, piece after piece, each with the value that the one before came to. What an
 * operation moved is compared: if it differs it is moved again, once.
 */
#include <linux/crc32c.h>
#include <linux/cpumask.h>
#include <linux/highmem.h>
#include <linux/page-flags.h>
#include <linux/semaphore.h>
#include <linux/slab.h>

#include "fault.h"
#include "krdma.h"

/* The register before the first byte; the digest is its complement. */
#define KRDMA_DIGEST_SEED U32_MAX
/* Pages that are gone through at a time; of a file, that are held. */
#define KRDMA_DIGEST_PAGES 16

static struct semaphore krdma_digests_sem;

/**
 * krdma_digest_init - how many services may compute at a time
 *
 * Context: process.
 */
void krdma_digest_init(void)
{
	sema_init(&krdma_digests_sem, max(1U, num_online_cpus() / 4));
}

/* @arrived: what is there has come from the other side, or may have. */
static u32 krdma_digest_page(u32 value, struct page *page, u32 offset, u32 len, bool arrived)
{
	u8 *at = kmap_local_page(page);

	if (arrived)
		krdma_fault_flip(at + offset, len);
	value = crc32c(value, at + offset, len);
	kunmap_local(at);
	return value;
}

/* ---- owner ---- */

/* What a peer wants read, before it is. */
struct krdma_digest_job {
	struct krdma_grant *grant;
	u32 offset; /* in the first page */
	u32 left;
	u32 value;
};

/* For few at a time, and never while memory is waited for. */
static int krdma_digest_pages(struct krdma_digest_job *job, struct page **pages, u32 n)
{
	bool written = job->grant->rights & KRDMA_RIGHT_WRITE;
	int rc = 0;
	u32 i, len;

	down(&krdma_digests_sem);
	for (i = 0; i < n && !rc; i++) {
		len = krdma_page_rest(job->offset, job->left);
		/* A processor that reads it may not survive that. */
		if (PageHWPoison(pages[i]))
			rc = -EIO;
		else
			job->value =
				krdma_digest_page(job->value, pages[i], job->offset, len, written);
		job->offset = 0;
		job->left -= len;
	}
	up(&krdma_digests_sem);
	cond_resched();
	return rc;
}

/**
 * krdma_digest_grant - digest of a range of an export
 * @grant: grant of it, with the right to read
 * @offset: first byte
 * @length: bytes, inside the export, KRDMA_WIRE_DIGEST_MAX at most
 * @value: in: the register before the first byte; out: behind the last
 *
 * Context: process; the service of the session.
 * Return: 0; -ENOTCONN or -ESTALE when it is of no use any more; or another negative
 *	errno if the memory can't be had
 */
int krdma_digest_grant(struct krdma_grant *grant, u64 offset, u32 length, u32 *value)
{
	struct krdma_digest_job job = {
		.grant = grant,
		.offset = offset_in_page(offset),
		.left = length,
		.value = *value,
	};
	struct krdma_export *export = grant->export;
	struct page **pages = export->mem ? export->mem->pages : export->pages;
	struct page *held[KRDMA_DIGEST_PAGES];
	u64 at = offset >> PAGE_SHIFT;
	int rc = 0;
	u32 n;

	for (; job.left && !rc; at += n) {
		if (!krdma_session_is_up(grant->sess))
			return -ENOTCONN;
		if (READ_ONCE(grant->revoke))
			return -ESTALE;
		n = min_t(u64, krdma_pages(job.offset, job.left), KRDMA_DIGEST_PAGES);
		if (pages) {
			rc = krdma_digest_pages(&job, pages + at, n);
			continue;
		}
		rc = krdma_backing_get(export, at, n, held, &grant->error);
		if (!rc) {
			rc = krdma_digest_pages(&job, held, n);
			krdma_backing_put(held, n);
		}
	}
	*value = job.value;
	return rc;
}

/* ---- local memory ---- */

/* Of all that an operation has moved: its submitter may not have it back meanwhile. */
static u32 krdma_digest_local(const struct krdma_transfer *x)
{
	struct krdma_cursor at = x->from;
	u32 value = KRDMA_DIGEST_SEED, offset;
	u64 left = x->length, rest;
	struct page *page;

	/* With a status nobody asks for it any more, but waits for its memory. */
	while (left && !READ_ONCE(x->status)) {
		page = krdma_local_page(x, &at, &offset, &rest);
		rest = min(rest, left);
		/* Nor may what is poisoned be read: then it differs. */
		if (!PageHWPoison(page))
			value = krdma_digest_page(value, page, offset, rest,
						  krdma_opcode_fills(x->opcode));
		at.in += rest;
		left -= rest;
		cond_resched();
	}
	return value;
}

/* KRDMA_OP_DIGEST: its 8 bytes are in one page. */
static void krdma_digest_store(const struct krdma_transfer *x)
{
	u64 digest = (u32)~x->value, rest;
	struct krdma_cursor at = x->at;
	struct page *page;
	u32 offset;

	page = krdma_local_page(x, &at, &offset, &rest);
	if (!WARN_ON_ONCE(rest < sizeof(digest)))
		memcpy_to_page(page, offset, (char *)&digest, sizeof(digest));
}

/* ---- initiator ---- */

static void krdma_digest_want(struct krdma_region *region)
{
	lockdep_assert_held(&region->sess->lock);
	if (region->digesting || list_empty(&region->digests))
		return;
	region->digesting = true;
	kref_get(&region->ref);
	queue_work(krdma_ask_wq, &region->digest_work);
}

/**
 * krdma_digest_queue - have the peer's digest of what an operation is about
 * @x: KRDMA_OP_DIGEST, or one whose bytes have arrived and are to be verified; on a
 *	list by ->node, or on none
 *
 * Context: session->lock held.
 */
void krdma_digest_queue(struct krdma_transfer *x)
{
	lockdep_assert_held(&x->sess->lock);
	x->far = (struct krdma_cursor){};
	x->digested = 0;
	x->value = KRDMA_DIGEST_SEED;
	x->counted = x->opcode == KRDMA_OP_DIGEST;
	list_move_tail(&x->node, &x->region->digests);
	krdma_transfer_wait(x, KRDMA_WAIT_DIGEST);
	krdma_digest_want(x->region);
}

/* All of the peer's is known. */
static void krdma_digest_end(struct krdma_transfer *x, struct krdma_queue *done)
{
	lockdep_assert_held(&x->sess->lock);
	if (x->opcode == KRDMA_OP_DIGEST) {
		krdma_digest_store(x);
		x->moved = x->length;
		krdma_transfer_finish(x, done);
		return;
	}
	if (x->value == x->local_value) {
		x->verify = KRDMA_VERIFY_NONE;
		if (x->mail)
			krdma_letter_queue(x, ktime_get(), done);
		else
			krdma_transfer_finish(x, done);
		return;
	}
	krdma_stat_inc(KRDMA_STAT_MISMATCHES);
	/* It has not arrived. */
	x->moved = 0;
	if (x->verify == KRDMA_VERIFY_AGAIN) {
		krdma_transfer_end(x, -EILSEQ, done);
		return;
	}
	x->verify = KRDMA_VERIFY_AGAIN;
	krdma_transfer_again(x);
}

/* Answer to DIGEST. */
static void krdma_digest_answered(struct krdma_ask *ask, const struct krdma_msg *msg, int err)
{
	struct krdma_region *region = ask->arg;
	struct krdma_session *sess = region->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	bool wrong = msg && (msg->digest_answer.grant != region->grant ||
			     msg->digest_answer.generation != region->generation);
	struct krdma_transfer *x;

	spin_lock_bh(&sess->lock);
	region->digesting = false;
	x = region->asked;
	region->asked = NULL;
	if (x && err) {
		krdma_transfer_answered(x, err, &done);
	} else if (x && wrong) {
		krdma_transfer_end(x, -EPROTO, &done);
	} else if (x) {
		x->value = msg->digest_answer.value;
		krdma_split_step(&x->far, x->range, x->nrange, region->asked_bytes);
		x->digested += region->asked_bytes;
		if (x->digested == x->length)
			krdma_digest_end(x, &done);
		else
			list_move_tail(&x->node, &region->digests); /* others have a turn */
	}
	krdma_digest_want(region);
	krdma_transfer_pump(sess, &done);
	spin_unlock_bh(&sess->lock);
	krdma_transfers_finish(&done);
	if (wrong)
		krdma_session_protocol(sess, "the digest of another grant");
	krdma_region_put(region);
}

/*
 * The first that waits, its own digest known; NULL if nobody does any more. What takes so
 * long keeps no place of the peer's window.
 */
static struct krdma_transfer *krdma_digest_next(struct krdma_region *region)
{
	struct krdma_session *sess = region->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	struct krdma_transfer *x;
	u32 value;

	lockdep_assert_held(&sess->lock);
	while ((x = list_first_entry_or_null(&region->digests, struct krdma_transfer, node))) {
		if (x->counted)
			return x;
		/* Its memory is not given back while something of it is under way. */
		x->chunks++;
		spin_unlock_bh(&sess->lock);
		krdma_credit_put(sess, &region->digest_credit);
		value = krdma_digest_local(x);
		spin_lock_bh(&sess->lock);
		x->chunks--;
		x->local_value = value;
		x->counted = true;
		if (x->status) {
			krdma_transfer_finish(x, &done);
			spin_unlock_bh(&sess->lock);
			krdma_transfers_finish(&done);
			spin_lock_bh(&sess->lock);
		}
	}
	return NULL;
}

static void krdma_digest_question(struct krdma_region *region, const struct krdma_transfer *x,
				  struct krdma_msg *msg)
{
	const struct krdma_vec *range = &x->range[x->far.i];

	region->asked_bytes = min_t(u64, range->length - x->far.in, KRDMA_WIRE_DIGEST_MAX);
	msg->type = KRDMA_WIRE_DIGEST;
	msg->digest.grant = region->grant;
	msg->digest.generation = region->generation;
	msg->digest.offset = range->addr + x->far.in;
	msg->digest.length = region->asked_bytes;
	msg->digest.value = x->value;
}

/**
 * krdma_digest_work - ask for the next digest
 * @work: of a region; holds a reference on it
 *
 * Context: work.
 */
void krdma_digest_work(struct work_struct *work)
{
	struct krdma_region *region = container_of(work, struct krdma_region, digest_work);
	struct krdma_session *sess = region->sess;
	struct krdma_queue done = KRDMA_QUEUE_INIT(done);
	struct krdma_msg *msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	struct krdma_ask *ask = krdma_ask_new(KRDMA_WIRE_DIGEST, krdma_digest_answered, region);
	int rc = msg && ask ? 0 : -ENOMEM;
	struct krdma_transfer *x;
	bool waits;

	spin_lock_bh(&sess->lock);
	x = krdma_digest_next(region);
	waits = x && !krdma_credit_take_locked(sess, &region->digest_credit);
	region->asked = waits ? NULL : x;
	if (region->asked && !rc)
		krdma_digest_question(region, x, msg);
	if (!x)
		region->digesting = false;
	spin_unlock_bh(&sess->lock);
	/* It is queued again then, with the reference. */
	if (waits)
		goto out;
	if (x && !rc)
		rc = krdma_ask_post(sess, &region->digest_credit, ask, msg);
	if (!x || rc)
		krdma_credit_put(sess, &region->digest_credit);
	if (x && rc) {
		spin_lock_bh(&sess->lock);
		region->digesting = false;
		/* It may have ended meanwhile. */
		if (region->asked)
			krdma_transfer_end(region->asked, rc, &done);
		region->asked = NULL;
		krdma_digest_want(region);
		spin_unlock_bh(&sess->lock);
		krdma_transfers_finish(&done);
	}
	/* Asked: then it is krdma_digest_answered's. */
	if (!x || rc)
		krdma_region_put(region);
out:
	if (ask)
		krdma_ask_put(ask);
	kfree(msg);
}
