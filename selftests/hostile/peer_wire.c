// SPDX-License-Identifier: GPL-2.0
/* Messages as bytes: what a right one has in it, and whether one that came is right. */
#include "peer.h"

u64 get_bytes(const u8 *from, u32 size)
{
	u64 value = 0;

	while (size--)
		value = value << 8 | from[size];
	return value;
}

void put_bytes(u8 *to, u32 size, u64 value)
{
	for (; size--; value >>= 8)
		*to++ = value;
}

u64 get(const struct msg *m, u32 at, u32 size)
{
	return get_bytes(m->b + at, size);
}

void put(struct msg *m, u32 at, u32 size, u64 value)
{
	put_bytes(m->b + at, size, value);
}

void header(struct msg *m, u8 type, u32 len, u32 tag)
{
	memset(m, 0, sizeof(*m));
	m->len = len;
	m->b[0] = type;
	put(m, 4, 4, len);
	put(m, 8, 4, tag);
}

/* A message of this type that nothing is wrong with; replies too. */
void request(struct conn *c, struct msg *m, u8 type)
{
	/* By type, requests and replies. */
	static const u8 sizes[2][16] = {
		{ 0, 21, 24, 88, 40, 24, 32, 24, 40, 40, 24, 16, 16, 56, 40, 24 },
		{ 0, 21, 24, 40, 32, 16, 16, 24, 24, 24, 16, 0, 16, 16, 16, 24 }
	};
	u8 plain = type & 0x7f;

	header(m, type, plain && plain <= GROW ? sizes[type >> 7][plain] : HEADER, ++c->tag);
	switch (type) {
	case PING:
	case REPLY | PING:
		memcpy(m->b + 16, "hello", 5);
		break;
	case OPEN:
		strcpy((char *)m->b + 24, "data");
		break;
	case REPLY | OPEN:
		put(m, 16, 8, 4096);
		put(m, 24, 4, READ | WRITE);
		put(m, 28, 4, 77);
		put(m, 32, 4, 1);
		put(m, 36, 4, 12);
		break;
	case BYE:
	case REPLY | BYE:
		put(m, 8, 4, 0);
		break;
	case SEGS:
	case CLOSE:
	case RECALL:
	case DIGEST:
	case MESSAGE:
	case USAGE:
	case FLUSH:
	case GROW:
		put(m, 16, 4, c->grant ?: 1);
		put(m, 20, 4, c->generation ?: 1);
		if (type == SEGS || type == DIGEST || type == FLUSH)
			put(m, 32, 4, 1);
		break;
	case REPLY | SEGS:
		put(m, 24, 4, 4096);
		break;
	case REPLY | MESSAGE:
		put(m, 8, 4, 1);
		put(m, 16, 4, 1);
		break;
	}
}

/* RECALL without a segment: the whole grant, for good. */
void recall_grant(struct conn *c, struct msg *m)
{
	request(c, m, RECALL);
	m->len = 24;
	put(m, 4, 4, m->len);
}

bool whole_grant(const struct msg *m)
{
	return m->b[0] == RECALL && m->len == 24;
}

void open_request(struct conn *c, struct msg *m, const char *name, u32 rights)
{
	request(c, m, OPEN);
	memset(m->b + 24, 0, 64);
	memcpy(m->b + 24, name, strnlen(name, 64));
	put(m, 16, 4, rights);
}

void apply(struct msg *m, const struct patch *patch)
{
	put(m, patch->at, patch->size, patch->value);
	if (patch->len)
		m->len = patch->len;
	if (patch->fix)
		put(m, 4, 4, m->len);
}

/* What any receiver has to check of any message. */
const char *sane(const struct msg *m)
{
	static const struct {
		u16 fixed, each, min, max;
	} sizes[2][16] = {
		{ [PING] = { 16, 1, 0, 512 },
		  [LIST] = { 24 },
		  [OPEN] = { 88 },
		  [SEGS] = { 40 },
		  [CLOSE] = { 24, 32, 0, 1 },
		  [RECALL] = { 24, 8, 0, 64 },
		  [BYE] = { 24 },
		  [DIGEST] = { 40 },
		  [MESSAGE] = { 40, 1, 0, 4096 },
		  [FENCE] = { 24 },
		  [ACK] = { 16 },
		  [ADDRS] = { 16 },
		  [USAGE] = { 16, 40, 1, 24 },
		  [FLUSH] = { 24, 16, 1, 32 },
		  [GROW] = { 24 } },
		{ [PING] = { 16, 1, 0, 512 },
		  [LIST] = { 24, 80, 0, 12 },
		  [OPEN] = { 40 },
		  [SEGS] = { 16, 16, 0, 32 },
		  [CLOSE] = { 16 },
		  [RECALL] = { 16 },
		  [DIGEST] = { 24 },
		  [MESSAGE] = { 16, 8, 1, 64 },
		  [FENCE] = { 16 },
		  [ADDRS] = { 16, 20, 0, 16 },
		  [USAGE] = { 16 },
		  [FLUSH] = { 16 },
		  [GROW] = { 24 } },
	};
	u32 type = m->b[0] & 0x7f, reply = m->b[0] >> 7, status = get(m, 2, 2), n = 0;

	if (m->len < HEADER || get(m, 4, 4) != m->len)
		return bad("a message of %u bytes says it has %u", m->len, (u32)get(m, 4, 4));
	if (m->b[1] || get(m, 14, 2) || (get(m, 12, 2) && !iwarp))
		return bad("type %#x: reserved bytes are not zero", m->b[0]);
	if (type > GROW || !sizes[reply][type].fixed)
		return bad("unknown type %#x", m->b[0]);
	if (!get(m, 8, 4) != (m->b[0] == BYE || m->b[0] == ACK))
		return bad("type %#x with tag %u", m->b[0], (u32)get(m, 8, 4));
	if ((status && !reply) || status > BUSY)
		return bad("type %#x with status %u", m->b[0], status);
	if (status)
		return m->len == HEADER ? NULL : bad("type %#x failed, with a payload", m->b[0]);
	if (sizes[reply][type].each)
		n = (m->len - sizes[reply][type].fixed) / sizes[reply][type].each;
	if (m->len != sizes[reply][type].fixed + n * sizes[reply][type].each ||
	    n < sizes[reply][type].min || n > sizes[reply][type].max)
		return bad("type %#x of %u bytes", m->b[0], m->len);
	if (m->b[0] == (REPLY | DIGEST) && get(m, 20, 4))
		return bad("type %#x: reserved bytes are not zero", m->b[0]);
	return NULL;
}
