/* SPDX-License-Identifier: GPL-2.0 */
/* One side of 'krdma cp': files to or from one share. */
#ifndef CP_H
#define CP_H

#include "share.h"

#define CP_WORKERS 4

/**
 * struct cp_job - files that go to or come from a share
 * @text: HOST/SHARE, for sentences
 * @host: of the share
 * @share: its name
 * @path: in the share
 * @push: to the share
 * @flags: SHARE_*
 * @operands: what is sent
 * @count: how many
 * @receiver: what takes files; the caller's, when they come from the share
 * @options: how to connect
 * @workers: threads, CP_WORKERS at most
 * @in_order: one chunk is asked for at a time
 * @sender: what sends; while it runs
 * @counts: out: what has been done
 * @failed: something has not been copied, and was reported
 * @over: cp_run() has ended
 * @link: the slots
 */
struct cp_job {
	char text[320];
	char host[256];
	char share[SHARE_NAME_MAX + 1];
	const char *path;
	bool push;
	unsigned int flags;
	const struct files_operand *operands;
	size_t count;
	struct files_receiver *receiver;
	struct krdma_connect_options options;
	unsigned int workers;
	bool in_order;
	struct files_sender *sender;
	struct files_counts counts;
	_Atomic bool failed;
	_Atomic bool over;
	struct share_link link;
};

/* Copy. Failures are reported, with the lock that cp_report_lock() takes. A thread's function. */
void *cp_run(void *job);
struct files_counts cp_counts(struct cp_job *job);
/* Is it of the form HOST[:PORT]/SHARE:PATH? */
bool cp_is_remote(const char *text);
/* 'krdma cp SOURCE DESTINATION' for another command. @sync: as --sync. Return: the exit status. */
int cp_one(char **operands, const struct krdma_connect_options *connect, bool quiet, bool progress,
	   bool sync);
/* Around all that is printed. */
void cp_report_lock(void);
void cp_report_unlock(void);
/* With it: make room for a sentence. */
extern struct progress cp_progress;

#endif /* CP_H */
