// SPDX-License-Identifier: GPL-2.0
/* An initiator that reads and writes what it may not. */
#include "peer.h"

static const struct access {
	const char *name;
	const char *export;
	u32 rights;
	enum ibv_wr_opcode opcode;
	s64 at; /* from the segment's first byte, or from its end if end is set */
	u32 len;
	bool last; /* of the last segment, not the first */
	bool end;
	u32 key; /* xor */
	enum {
		PLAIN,
		CLOSED,
		FOREIGN
	} how;
	const char *no_iwarp; /* why not there */
} accesses[] = {
	{ "WRITE one byte before", "data", 0, IBV_WR_RDMA_WRITE, -1, 1 },
	{ "READ one byte before", "data", 0, IBV_WR_RDMA_READ, -1, 1 },
	{ "WRITE from one byte before", "data", 0, IBV_WR_RDMA_WRITE, -1, 4096 },
	{ "WRITE one byte behind", "data", 0, IBV_WR_RDMA_WRITE, 0, 1, .end = true },
	{ "READ one byte behind", "data", 0, IBV_WR_RDMA_READ, 0, 1, .end = true },
	{ "WRITE over the end", "data", 0, IBV_WR_RDMA_WRITE, -8, 9, .end = true },
	{ "READ over the end", "data", 0, IBV_WR_RDMA_READ, -8191, 8192, .end = true },
	{ "WRITE one byte behind the export", "data", 0, IBV_WR_RDMA_WRITE, 0, 1, true, true },
	{ "READ over the end of the export", "data", 0, IBV_WR_RDMA_READ, -1, 2, true, true },
	{ "WRITE one byte before the last segment", "data", 0, IBV_WR_RDMA_WRITE, -1, 1, true },
	{ "WRITE far away", "data", 0, IBV_WR_RDMA_WRITE, 1LL << 62, 8 },
	{ "WRITE whose end wraps around", "data", 0, IBV_WR_RDMA_WRITE, -4, 8 },
	{ "WRITE with another variant of the key", "data", 0, IBV_WR_RDMA_WRITE, 0, 8, .key = 1 },
	{ "READ with another key", "data", 0, IBV_WR_RDMA_READ, 0, 8, .key = 0xff00 },
	{ "WRITE with a key of another session", "data", 0, IBV_WR_RDMA_WRITE, 0, 8,
	  .how = FOREIGN },
	{ "READ with a key of another session", "data", 0, IBV_WR_RDMA_READ, 0, 8, .how = FOREIGN },
	{ "WRITE to what is read only", "ro", 0, IBV_WR_RDMA_WRITE, 0, 8 },
	{ "WRITE when opened to read", "data", READ, IBV_WR_RDMA_WRITE, 0, 8 },
	{ "READ when opened to write", "data", WRITE, IBV_WR_RDMA_READ, 0, 8,
	  .no_iwarp = "siw looks at no right when it responds to a READ" },
	{ "an atomic operation", "data", 0, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8,
	  .no_iwarp = "iWARP has no atomic operations" },
	{ "WRITE with a key after CLOSE", "data", 0, IBV_WR_RDMA_WRITE, 0, 8, .how = CLOSED },
	{ "READ with a key after CLOSE", "data", 0, IBV_WR_RDMA_READ, 0, 8, .how = CLOSED },
};

static const char *try_access(struct conn *c, const void *arg)
{
	const struct access *a = arg;
	struct ibv_send_wr wr = { .opcode = a->opcode };
	const char *why;
	struct conn other;
	u64 address;

	conn_init(&other);
	why = conn_connect(c) ?: try_open(c, a->export, a->rights, OK);
	if (!why)
		why = get_keys(c, a->last ? (c->length - 1) >> c->shift : 0, 1, 0);
	if (!why && a->how == CLOSED)
		why = close_grant(c);
	if (!why && a->how == FOREIGN)
		why = begin(&other, a->export);
	if (why)
		goto out;
	if (a->how == FOREIGN)
		c->key[0] = other.key[0];
	address = c->key[0].address + a->at + (a->end ? c->key[0].length : 0);
	if (a->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = c->key[0].rkey;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = c->key[0].rkey ^ a->key;
	}
	why = refused(c, &wr, a->len);
	if (!why && a->how == FOREIGN)
		why = ping(&other, 4);
out:
	conn_end(&other);
	return why;
}

/*
 * A registration keeps its place, the upper 24 bits of its key, and is given another lower
 * byte each time: a peer that has had a key could try them all.
 */
static void try_all_variants(void)
{
	const char *count = getenv("KEYS");
	u32 step = count && *count ? 256 / atoi(count) : 1, tried = 0, x;
	const char *why = NULL;

	for (x = 1; x < 256 && !why; x += step) {
		struct access a = { "",       "data",
				    0,        x & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				    .len = 8, .key = x };

		why = attempt(try_access, &a);
		tried++;
	}
	result(why ? bad("variant %u: %s", x - step, why) : NULL,
	       "READ or WRITE with each of %u other variants of the key: refused", tried);
}

/*
 * One session invalidates the key of another. What a device lets through of it is
 * said: the target ends the peer that has done it, and the device refuses the other one.
 */
static const char *foreign_invalidation(struct conn *c, const void *arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV };
	const char *why;
	struct conn other;
	struct msg m;

	conn_init(&other);
	why = begin(&other, "data") ?: begin(c, "data");
	if (why)
		goto out;
	wr.invalidate_rkey = other.key[0].rkey;
	wr.wr.rdma.rkey = other.key[0].rkey; /* where libsiw looks for it */
	request(c, &m, LIST);
	/* A device that refuses it breaks the connection, without BYE. */
	why = post_send(c, &m, &wr) ?: ends(c, -1, SOON);
	if (why)
		goto out;
	memset(other.data, 0xee, 8);
	if (!move(&other, false, 0, 8, other.key[0].address, other.key[0].rkey)) {
		printf("# the device refuses to invalidate another session's key\n");
		why = ping(&other, 6);
		goto out;
	}
	printf("# the device lets a session invalidate another's key: that one ends, too\n");
	for (u32 i = 0; i < 8 && !why; i++)
		if (other.data[i] != 0xee)
			why = "bytes were read";
	why = why ?: ends(&other, -1, SOON);
out:
	conn_end(&other);
	return why;
}

/* Where the WRITE to what is read only would have been. */
static const char *ro_untouched(struct conn *c, const void *arg)
{
	const char *why = begin(c, "ro");
	enum ibv_wc_status status;

	if (why)
		return why;
	memset(c->data, 0xee, 4096);
	status = move(c, false, 0, 4096, c->key[0].address, c->key[0].rkey);
	if (status)
		return bad("READ: %s", ibv_wc_status_str(status));
	for (u32 i = 0; i < 4096; i++)
		if (c->data[i])
			return bad("byte %u is %#x", i, c->data[i]);
	return say_bye(c);
}

void try_accesses(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(accesses); i++)
		if (iwarp && accesses[i].no_iwarp)
			skip(accesses[i].no_iwarp, "%s: refused", accesses[i].name);
		else
			result(attempt(try_access, &accesses[i]), "%s: refused", accesses[i].name);
	try_all_variants();
	result(attempt(foreign_invalidation, NULL),
	       "SEND that invalidates a key of another session: no byte is reached by it");
	/* Here already: what comes next writes some of the bytes again. */
	result(attempt(verify_data, NULL),
	       "none of them has changed a byte of what can be written");
	result(attempt(ro_untouched, NULL), "nor of what can't");
}
