// SPDX-License-Identifier: GPL-2.0
/* Invalid calls and their errors, and objects that end in any order. */
#include <linux/err.h>
#include <linux/inet.h>
#include <linux/limits.h>
#include <net/net_namespace.h>

#include "test.h"

static bool errors_of_io(void)
{
	struct krdma_io *io = &slots[0].io;
	struct krdma_limits limits;
	bool ok = true;

	/* It has not grown. */
	ok &= want(!krdma_grow(test_region, 0));
	ok &= want(!krdma_region_limits(test_region, &limits));
	ok &= want(limits.length >= test_depth * SLOT_BYTES && limits.rights == RW &&
		   limits.segment_size >= PAGE_SIZE && limits.read_bvecs && limits.write_bvecs);

	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0 && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->length = 0;
	ok &= want(one() == -EINVAL && !io->moved);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->skip = 1;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->length = U64_MAX;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->nr_bvecs = 0;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = -1;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->op = 77;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->offset = limits.length - SLOT_BYTES + 1;
	ok &= want(one() == -ERANGE);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->offset = U64_MAX;
	ok &= want(one() == -ERANGE);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->offset = limits.length - SLOT_BYTES;
	ok &= want(one() == 0);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = 1;
	ok &= want(one() == -ETIMEDOUT);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->timeout = KTIME_MAX;
	ok &= want(one() == 0);
	return ok;
}

static bool errors_of_open(void)
{
	struct krdma_region_handle *r, *keep = test_region;
	struct sockaddr_storage nowhere = {};
	struct krdma_connect_param param = { .dst = &nowhere };
	bool ok = true;

	r = open_region(test_session, "there-is-no-such", 0);
	ok &= want(r == ERR_PTR(-ENOENT));
	krdma_close(r);
	ok &= want(open_region(test_session, "no name", 0) == ERR_PTR(-EINVAL));
	ok &= want(open_region(test_session, "", 0) == ERR_PTR(-EINVAL));
	ok &= want(open_region(test_session, test_name, 64) == ERR_PTR(-EINVAL));
	ok &= want(krdma_connect(test_client, &param) == ERR_PTR(-EAFNOSUPPORT));
	param.flags = 64;
	ok &= want(krdma_connect(test_client, &param) == ERR_PTR(-EOPNOTSUPP));
	param.flags = KRDMA_CONNECT_FAIL_FAST;
	inet_pton_with_scope(&init_net, AF_UNSPEC, test_address, "7999", &nowhere);
	ok &= want(IS_ERR(krdma_connect(test_client, &param)));
	param.resume_s = 1;
	ok &= want(krdma_connect(test_client, &param) == ERR_PTR(-EINVAL));
	param = (struct krdma_connect_param){ .dst = &nowhere, .npaths = KRDMA_PATHS_MAX };
	ok &= want(krdma_connect(test_client, &param) == ERR_PTR(-EINVAL));
	param = (struct krdma_connect_param){ .dst = &nowhere, .policy = 3 };
	ok &= want(krdma_connect(test_client, &param) == ERR_PTR(-EINVAL));

	r = open_region(test_session, test_name, KRDMA_RIGHT_READ);
	if (!want(!IS_ERR(r)))
		return false;
	test_region = r;
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	ok &= want(one() == -EACCES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0);
	test_region = keep;
	krdma_close(r);
	return ok;
}

static bool errors_of_export(void)
{
	struct krdma_export_handle *p, *q;
	bool ok = true;

	p = krdma_export(test_client, "kapi-test", slots[0].page, SLOT_BYTES - 5, RW, NULL, NULL);
	if (!want(!IS_ERR(p)))
		return false;
	q = krdma_export(test_client, "kapi-test", slots[1].page, SLOT_BYTES, RW, NULL, NULL);
	ok &= want(q == ERR_PTR(-EEXIST));
	ok &= want(!krdma_unexport(q));
	ok &= want(krdma_export(test_client, "", slots[1].page, 1, RW, NULL, NULL) ==
		   ERR_PTR(-EINVAL));
	ok &= want(krdma_export(test_client, "x", slots[1].page, 0, RW, NULL, NULL) ==
		   ERR_PTR(-EINVAL));
	ok &= want(krdma_export(test_client, "x", slots[1].page, 1, 0, NULL, NULL) ==
		   ERR_PTR(-EINVAL));
	ok &= want(krdma_export(test_client, "x", slots[1].page, U64_MAX, RW, NULL, NULL) ==
		   ERR_PTR(-EINVAL));
	ok &= want(!krdma_unexport(p));
	p = krdma_export(test_client, "kapi-test", slots[0].page, SLOT_BYTES, KRDMA_RIGHT_READ,
			 NULL, NULL);
	ok &= want(!IS_ERR(p) && !krdma_unexport(p));
	return ok;
}

bool test_errors(void)
{
	const struct krdma_open_param open = { .name = test_name, .rights = RW, .event = on_event };
	struct krdma_region_handle *other;
	bool ok;

	ok = errors_of_io() && errors_of_open() && errors_of_export();
	/* Objects end in any order. */
	other = krdma_open(test_session, &open);
	ok &= want(!IS_ERR(other));
	krdma_client_destroy(test_client);
	test_client = NULL;
	krdma_disconnect(test_session);
	test_session = NULL;
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	ok &= want(one() == 0);
	krdma_close(other);
	slot_fill(&slots[0], KRDMA_OP_READ);
	ok &= want(one() == 0);
	return ok && want(!atomic_read(&test_events));
}
