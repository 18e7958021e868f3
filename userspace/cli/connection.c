// SPDX-License-Identifier: GPL-2.0
/* What a command says and does when the connection of its session is lost. */
#include "cli.h"

uint64_t patient_timeout(const struct range *range)
{
	struct krdma_session_info info;

	if (krdma_session(range->krdma, range->session, &info) || !info.resume_s)
		return 0;
	if (info.resume_s == KRDMA_RESUME_ALWAYS)
		return UINT64_MAX;
	return KRDMA_DEFAULT_TIMEOUT_NS + info.resume_s * NSEC_PER_SEC;
}

void connection_watch(struct watch *watch, const struct range *range, struct progress *progress,
		      uint64_t moved)
{
	const bool moves = moved != watch->moved;
	struct krdma_session_info info;

	watch->moved = moved;
	if ((moves && !watch->lost) || krdma_session(range->krdma, range->session, &info) ||
	    !info.away_ms == !watch->lost)
		return;
	watch->lost = info.away_ms;
	if (progress)
		progress_clear(progress);
	if (!watch->lost)
		tell("the connection is back");
	else if (info.resume_s == KRDMA_RESUME_ALWAYS)
		tell("the connection is lost, and waited for");
	else
		tell("the connection is lost, and waited for, %u s at most", info.resume_s);
}
