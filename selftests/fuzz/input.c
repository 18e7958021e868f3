// SPDX-License-Identifier: GPL-2.0
/*
 * The bytes of the input. When there are no more, they are 0.
 */
#include "fuzz.h"

static const uint8_t *in;
static size_t in_left;

unsigned int costly;

void input_begin(const uint8_t *data, size_t size)
{
	in = data;
	in_left = size;
	costly = 0;
}

bool input_ended(void)
{
	return !in_left;
}

uint8_t byte(void)
{
	if (!in_left)
		return 0;
	in_left--;
	return *in++;
}

__u32 word(void)
{
	__u32 w = byte();

	w |= byte() << 8;
	w |= byte() << 16;
	return w | (__u32)byte() << 24;
}

/* One of 256 that is below @n. */
bool rarely(unsigned int n)
{
	return byte() > 255 - n;
}

__u32 any_word(void)
{
	static const __u32 likely[] = {
		0,   1,    2,    3,    4,    5,    6,          7,          8,   16,      64,
		96,  112,  512,  4095, 4096, 4097, 8192,       65536,      ~0U, ~0U - 1, 1U << 20,
		128, 1024, 1025, 256,  8,    7471, 0x7fffffff, 0x80000000, 24,  32,      40,
	};
	uint8_t which = byte();

	return which < 192 ? likely[which % KST_ARRAY_SIZE(likely)] : word();
}
