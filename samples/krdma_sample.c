// SPDX-License-Identifier: GPL-2.0
/*
 * A module that uses krdma_mover. It exports a page; if it has an address, it also writes
 * another page into an export of that host, reads it back, and compares.
 */
#include <linux/bvec.h>
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <net/net_namespace.h>

#include <linux/krdma_mover.h>

#define PIECES 8
#define PIECE  (PAGE_SIZE / PIECES)

static char *address;
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "Host that publishes memory; none: only publish");
static char *name = "scratch";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "Name of that memory");

/* A request with its transfer inside: submission allocates nothing. */
struct sample_request {
	struct krdma_io io;
	struct bio_vec bvec;
};

static struct sample_request requests[PIECES];
static DECLARE_COMPLETION(all_done);
static atomic_t pending;
static int failed; /* status */
static bool lost;  /* a device may still access the page */
static void *page;
static struct page *published;
static struct krdma_client *client;
static struct krdma_export_handle *export;
static struct krdma_session_handle *session;
static struct krdma_region_handle *region;

/* Mostly in softirq: must not sleep. */
static void sample_done(struct krdma_io *io)
{
	if (io->status)
		WRITE_ONCE(failed, io->status);
	lost |= io->pages_lost;
	if (atomic_dec_and_test(&pending))
		complete(&all_done);
}

static void sample_event(void *priv, enum krdma_event event)
{
	static const char *const events[] = {
		[KRDMA_EVENT_REVOKED] = "is revoked",
		[KRDMA_EVENT_LOST] = "is lost",
		[KRDMA_EVENT_RESUMING] = "waits for its connection",
		[KRDMA_EVENT_RESUMED] = "has its connection again",
	};

	pr_info("krdma_sample: '%s' %s\n", name, events[event]);
}

/* Move all pieces of the page with one doorbell. */
static int sample_transfer(enum krdma_opcode op)
{
	LIST_HEAD(batch);
	int i;

	failed = 0;
	atomic_set(&pending, PIECES);
	reinit_completion(&all_done);
	for (i = 0; i < PIECES; i++) {
		struct sample_request *r = &requests[i];

		r->bvec = (struct bio_vec){ virt_to_page(page), PIECE, i * PIECE };
		r->io = (struct krdma_io){
			.region = region,
			.op = op,
			.bvec = &r->bvec,
			.nr_bvecs = 1,
			.offset = i * PIECE,
			.length = PIECE,
			.done = sample_done,
		};
		list_add_tail(&r->io.node, &batch);
	}
	krdma_io_submit_batch(&batch);
	wait_for_completion(&all_done);
	return failed;
}

static int sample_move(void)
{
	struct sockaddr_storage dst;
	struct krdma_connect_param param = { .dst = &dst };
	struct krdma_open_param open = {
		.name = name,
		.rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE,
		.event = sample_event,
	};
	int rc = inet_pton_with_scope(&init_net, AF_UNSPEC, address, NULL, &dst);

	session = rc ? ERR_PTR(rc) : krdma_connect(client, &param);
	if (IS_ERR(session))
		return PTR_ERR(session);
	region = krdma_open(session, &open);
	if (IS_ERR(region))
		return PTR_ERR(region);
	memset(page, 'k', PAGE_SIZE);
	rc = sample_transfer(KRDMA_OP_WRITE);
	memset(page, 0, PAGE_SIZE);
	rc = rc ?: sample_transfer(KRDMA_OP_READ);
	return rc ?: memchr_inv(page, 'k', PAGE_SIZE) ? -EIO : 0;
}

static void sample_exit(void)
{
	krdma_close(region); /* any order is possible */
	krdma_disconnect(session);
	if (!krdma_unexport(export) && published) {
		pr_info("krdma_sample: left with '%*pE'\n", 25, page_address(published));
		__free_page(published);
	}
	krdma_client_destroy(client);
	if (!lost)
		free_page((unsigned long)page);
}

static int __init sample_init(void)
{
	int rc = -ENOMEM;

	page = (void *)__get_free_page(GFP_KERNEL);
	published = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page || !published)
		goto out;
	strscpy(page_address(published), "published by krdma_sample", PAGE_SIZE);
	client = krdma_client_create(NULL);
	rc = PTR_ERR_OR_ZERO(client);
	if (!rc)
		export = krdma_export(client, "krdma_sample", &published, PAGE_SIZE,
				      KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE, NULL, NULL);
	rc = rc ?: PTR_ERR_OR_ZERO(export);
	if (!rc && address)
		rc = sample_move();
out:
	if (rc) {
		pr_err("krdma_sample: failed (%pe)\n", ERR_PTR(rc));
		sample_exit();
	} else {
		pr_info("krdma_sample: published a page%s\n", address ? ", moved another" : "");
	}
	return rc;
}

module_init(sample_init);
module_exit(sample_exit);

MODULE_DESCRIPTION("Sample consumer of krdma_mover");
MODULE_LICENSE("GPL");
