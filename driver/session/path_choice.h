/* SPDX-License-Identifier: GPL-2.0 */
/* Of the paths of a session, the one over which its first channel is connected next. */
#ifndef KRDMA_PATH_CHOICE_H
#define KRDMA_PATH_CHOICE_H

#include <linux/bits.h>
#include <linux/types.h>

/**
 * krdma_path_next - choose a path
 * @npaths: paths of the session
 * @last: the path over which the channel was last
 * @up: bits of the paths that other channels use, whose queue pairs may go on where no new one can
 *	be connected
 * @except: bits of those that are not to be tried now
 * @fail_fast: try no other paths while there are such that channels use: an attempt there may last
 *	until the session ends
 * @tried: bits of those that have been tried; 0 when each was
 *
 * Return: the index of a path; @npaths if there is none but those
 */
static inline u32 krdma_path_next(u32 npaths, u32 last, u32 up, u32 except, bool fail_fast,
				  u32 *tried)
{
	u32 i, index, next = npaths, all = BIT(npaths) - 1;

	if (up && fail_fast)
		all = up;
	if (!(all & ~(*tried | except)))
		*tried = 0;
	except |= *tried | ~all;
	/* Where it was lost the others may not have noticed it yet: that comes last. */
	for (i = 1; i <= npaths; i++) {
		index = (last + i) % npaths;
		if (except & BIT(index))
			continue;
		if (up & BIT(index))
			return index;
		if (next == npaths)
			next = index;
	}
	return next;
}

#endif /* KRDMA_PATH_CHOICE_H */
