/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replaces the kernel's headers for driver/wire/wire.h, range.h and wire.c, so that these can be
 * compiled, tested and fuzzed in userspace.
 */
#ifndef KRDMA_WIRE_USER_H
#define KRDMA_WIRE_USER_H

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX

#define PAGE_SHIFT 12
#define PAGE_SIZE  (1UL << PAGE_SHIFT)

#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))

#define cpu_to_le16(x) htole16(x)
#define cpu_to_le32(x) htole32(x)
#define cpu_to_le64(x) htole64(x)
#define le16_to_cpu(x) le16toh(x)
#define le32_to_cpu(x) le32toh(x)
#define le64_to_cpu(x) le64toh(x)

#define ARRAY_SIZE(array)               (sizeof(array) / sizeof((array)[0]))
#define array_index_nospec(index, size) (index) /* the caller has compared them */

static inline const void *memchr_inv(const void *from, int c, size_t len)
{
	const u8 *at = from;

	for (; len && *at == (u8)c; len--)
		at++;
	return len ? at : NULL;
}

/* The kernel's takes one argument; before C23 the language's takes two. */
#undef static_assert
#define static_assert(expr) _Static_assert(expr, #expr)

#endif /* KRDMA_WIRE_USER_H */
