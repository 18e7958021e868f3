/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of bytes, segments of an export, and pages: all arithmetic with numbers
 * that come from a user or a peer; and shares of what there is. No sum or difference
 * here wraps around.
 *
 * A segment covers 1 << shift bytes of an export, the last one what is left.
 */
#ifndef KRDMA_RANGE_H
#define KRDMA_RANGE_H

#ifdef __KERNEL__
#include <linux/minmax.h>
#include <linux/types.h>
#include <asm/page.h>
#else
#include "wire_user.h" /* the same in userspace, where wire.c is tested alone */
#endif

/**
 * krdma_range_ok - is a range inside what it is of?
 * @offset: its first unit
 * @length: its units; an empty range may begin at the very end
 * @size: units that there are; U64_MAX to ask only whether the end has a number
 *
 * Return: true if it is.
 */
static inline bool krdma_range_ok(u64 offset, u64 length, u64 size)
{
	return length <= size && offset <= size - length;
}

/**
 * krdma_range_has - is a unit in a range?
 * @offset: first unit of the range
 * @length: its units
 * @at: the unit
 *
 * Return: true if it is.
 */
static inline bool krdma_range_has(u64 offset, u64 length, u64 at)
{
	return at >= offset && at - offset < length;
}

/**
 * krdma_share_ok - is that not more than one of many may have?
 * @mine: what one of them would have
 * @used: what all of them would have then, @mine among it
 * @max: what there is
 *
 * Nobody has more than is free besides, so that the next one finds some: who comes
 * first may have a half, the second a quarter, and so on. As long as there is one left,
 * everybody may have one.
 *
 * Return: true if it is not.
 */
static inline bool krdma_share_ok(u64 mine, u64 used, u64 max)
{
	return used <= max && mine <= max - used + 1;
}

/**
 * krdma_segment_of - the segment that a byte of an export is in
 * @at: offset of the byte
 * @shift: of the export's segments
 *
 * Return: its index.
 */
static inline u64 krdma_segment_of(u64 at, u32 shift)
{
	return at >> shift;
}

/**
 * krdma_segment_last - the segment of the last byte of a range
 * @offset: first byte
 * @length: bytes, not 0; the range is inside the export
 * @shift: of the export's segments
 *
 * Return: its index.
 */
static inline u64 krdma_segment_last(u64 offset, u64 length, u32 shift)
{
	return krdma_segment_of(offset + (length - 1), shift);
}

/**
 * krdma_segment_offset - where in its segment a byte of an export is
 * @at: offset of the byte in the export
 * @shift: of the export's segments
 *
 * Return: its offset from the first byte of the segment.
 */
static inline u64 krdma_segment_offset(u64 at, u32 shift)
{
	return at & ((1ULL << shift) - 1);
}

/**
 * krdma_segments - how many segments an export has
 * @size: its bytes, not 0
 * @shift: of its segments
 *
 * Return: their number.
 */
static inline u64 krdma_segments(u64 size, u32 shift)
{
	return krdma_segment_last(0, size, shift) + 1;
}

/**
 * krdma_segment_start - the first byte of a segment
 * @index: a segment of the export
 * @shift: of the export's segments
 *
 * Return: its offset in the export.
 */
static inline u64 krdma_segment_start(u64 index, u32 shift)
{
	return index << shift;
}

/**
 * krdma_segment_length - how many bytes a segment has
 * @index: a segment of the export
 * @size: bytes of the export
 * @shift: of its segments
 *
 * Return: the bytes.
 */
static inline u64 krdma_segment_length(u64 index, u64 size, u32 shift)
{
	return min_t(u64, 1ULL << shift, size - krdma_segment_start(index, shift));
}

/**
 * krdma_pages - how many pages a range touches
 * @offset: its first byte, counted from the beginning of any page
 * @length: bytes, not 0; the end has a number
 *
 * Return: the number of pages.
 */
static inline u64 krdma_pages(u64 offset, u64 length)
{
	return ((offset + (length - 1)) >> PAGE_SHIFT) - (offset >> PAGE_SHIFT) + 1;
}

/**
 * krdma_page_rest - how much of a range is in the page that it begins in
 * @offset: its first byte, counted from the beginning of any page
 * @length: bytes
 *
 * Return: the bytes.
 */
static inline u32 krdma_page_rest(u64 offset, u64 length)
{
	return min_t(u64, length, PAGE_SIZE - (offset & (PAGE_SIZE - 1)));
}

#endif /* KRDMA_RANGE_H */
