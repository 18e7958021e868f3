// SPDX-License-Identifier: GPL-2.0
/* Operations that tell a number (atomics and digests), flags of transfers, and flushes. */
#include <linux/crc32c.h>
#include <linux/err.h>
#include <linux/highmem.h>
#include <linux/limits.h>
#include <linux/random.h>

#include "test.h"

/* An operation that tells one, in the second 8 bytes of the slot's first page. */
static int number(enum krdma_opcode op, u64 offset, u64 length, u64 operand, u64 compare, u64 *told)
{
	struct krdma_io *io = &slots[0].io;
	u64 all[3] = { 1, 2, 3 };
	int rc;

	memcpy_to_page(slots[0].page[0], 0, (char *)all, sizeof(all));
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->nr_bvecs = 1;
	io->skip = 8;
	io->op = op;
	io->offset = offset;
	io->length = length;
	io->operand = operand;
	io->compare = compare;
	rc = one();
	memcpy_from_page((char *)all, slots[0].page[0], 0, sizeof(all));
	*told = all[1];
	return want(all[0] == 1 && all[2] == 3) ? rc : 1;
}

static bool numbers_atomic(struct krdma_region_handle *r)
{
	struct krdma_region_handle *keep = test_region;
	struct krdma_limits limits;
	u64 first, told;
	bool ok;

	test_region = r;
	ok = want(!krdma_region_limits(r, &limits) && (limits.rights & KRDMA_RIGHT_ATOMIC));
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 5, 0, &first));
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) && told == first + 5);
	ok &= want(!number(KRDMA_OP_CMP_SWAP, 4096, 8, 77, told, &told) && told == first + 5);
	ok &= want(!number(KRDMA_OP_CMP_SWAP, 4096, 8, 1, told, &told) && told == 77);
	ok &= want(!number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) && told == 77);
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4100, 8, 0, 0, &told) == -EINVAL);
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4096, 4, 0, 0, &told) == -EINVAL);
	test_region = keep;
	ok &= want(number(KRDMA_OP_FETCH_ADD, 4096, 8, 0, 0, &told) == -EACCES);
	krdma_close(r);
	return ok;
}

/* Of ranges. */
static int flush(const struct krdma_vec *ranges, u32 n)
{
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	slots[0].io.ranges = ranges;
	slots[0].io.nr_ranges = n;
	return one();
}

/* Of volatile memory: that of durable memory is tested by krdma_blk. */
static bool flushes(void)
{
	struct krdma_vec ranges[2] = { { 0, SLOT_BYTES - 1 }, { SLOT_BYTES, 1 } };
	struct krdma_io *io = &slots[0].io;
	bool ok = true;

	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->length = 0;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_FLUSH);
	io->offset = U64_MAX;
	ok &= want(one() == -ERANGE);
	ok &= want(flush(ranges, 2) == -EOPNOTSUPP);
	ok &= want(flush(ranges, 1) == -EINVAL);
	ok &= want(flush(ranges, 0) == -EINVAL);
	ranges[1].addr = U64_MAX;
	ok &= want(flush(ranges, 2) == -ERANGE);
	ranges[1] = (struct krdma_vec){ 0, 0 };
	ok &= want(flush(ranges, 2) == -EINVAL);
	ranges[1].length = U64_MAX;
	ok &= want(flush(ranges, 2) == -EINVAL);
	return ok;
}

bool test_numbers(void)
{
	struct krdma_io *io = &slots[0].io;
	struct krdma_region_handle *r;
	u64 told;
	bool ok = true;
	u32 crc;
	u8 *at;

	r = open_region(test_session, test_name, KRDMA_RIGHT_ATOMIC);
	if (r == ERR_PTR(-EOPNOTSUPP))
		pr_info("krdma_kapi_test: no atomics\n");
	else
		ok = want(!IS_ERR(r)) && numbers_atomic(r);

	slot_fill(&slots[0], KRDMA_OP_WRITE);
	at = kmap_local_page(slots[0].page[0]);
	get_random_bytes(at, PAGE_SIZE);
	crc = ~crc32c(~0, at + 100, 1000);
	kunmap_local(at);
	io->nr_bvecs = 1;
	io->length = PAGE_SIZE;
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(!one());
	ok &= want(!number(KRDMA_OP_DIGEST, io->offset + 100, 1000, 0, 0, &told) && told == crc);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_UNPLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_UNPLACED;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_READ);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_PLACED;
	ok &= want(!one() && io->moved == SLOT_BYTES);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_PLACED | KRDMA_OPF_UNPLACED;
	ok &= want(one() == -EINVAL);
	slot_fill(&slots[0], KRDMA_OP_WRITE);
	io->flags |= KRDMA_OPF_BUFFER;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_SEND);
	io->flags |= KRDMA_OPF_AFTER;
	ok &= want(one() == -EOPNOTSUPP);
	slot_fill(&slots[0], KRDMA_OP_DIGEST);
	io->flags |= KRDMA_OPF_VERIFY;
	ok &= want(one() == -EINVAL);
	return ok & flushes();
}
