/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KST_CRC32C_H
#define KST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Bit by bit: none of the tables of others. */
static inline uint32_t crc32c(const unsigned char *at, size_t length)
{
	uint32_t value = ~0U;
	int bit;

	while (length--)
		for (value ^= *at++, bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
	return ~value;
}

#endif /* KST_CRC32C_H */
