/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels. No other file knows about it. */
#ifndef KRDMA_COMPAT_H
#define KRDMA_COMPAT_H

#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/mm.h>

#include <compat_config.h>

#ifdef HAVE_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

#include "inject.h"
#include <uapi/linux/krdma_mover.h>

#ifndef __uninitialized
#define __uninitialized
#endif

static inline long krdma_pin_user_pages(unsigned long start, unsigned long n, unsigned int flags,
					struct page **pages)
{
#ifdef HAVE_PIN_USER_PAGES_WITHOUT_VMAS
	return krdma_inject(pin_user_pages(start, n, flags, pages), -ENOMEM);
#else
	return krdma_inject(pin_user_pages(start, n, flags, pages, NULL), -ENOMEM);
#endif
}

static inline void krdma_eventfd_signal(struct eventfd_ctx *eventfd)
{
#ifdef HAVE_EVENTFD_SIGNAL_ONE
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}

/* Are pages of the file what its file system has of it? Then they can be mapped, too. */
#ifndef HAVE_CAN_MMAP_FILE
static inline bool can_mmap_file(struct file *file)
{
	return file->f_op->mmap;
}
#endif

/* ---- io_uring ---- */

/* In memory that the process may change: to be copied once. */
static inline const void *krdma_uring_sqe(const struct io_uring_cmd *cmd)
{
#ifdef HAVE_URING_CMD_SQE
	return cmd->sqe->cmd;
#else
	return cmd->cmd;
#endif
}

static inline int krdma_uring_import(struct io_uring_cmd *cmd, u64 addr, unsigned long len, int rw,
				     struct iov_iter *iter, unsigned int issue_flags)
{
#ifdef HAVE_URING_IMPORT_ISSUE_FLAGS
	return krdma_inject(io_uring_cmd_import_fixed(addr, len, rw, iter, cmd, issue_flags),
			    -ENOMEM);
#else
	return krdma_inject(io_uring_cmd_import_fixed(addr, len, rw, iter, cmd), -ENOMEM);
#endif
}

/* @moved goes where a CQE of 32 bytes has room. */
static inline void krdma_uring_done(struct io_uring_cmd *cmd, s32 res, u64 moved, bool cqe32,
				    unsigned int issue_flags)
{
#ifdef HAVE_URING_DONE32
	if (cqe32)
		io_uring_cmd_done32(cmd, res, moved, issue_flags);
	else
		io_uring_cmd_done(cmd, res, issue_flags);
#else
	io_uring_cmd_done(cmd, res, moved, issue_flags);
#endif
}

/*
 * The longest that a command may last, nanoseconds: where io_uring can't ask for its end,
 * execve() and the end of a ring wait for it in vain, and the kernel warns after 120 s.
 */
#ifdef HAVE_URING_CANCEL
#define KRDMA_URING_LONGEST ((u64)KTIME_MAX)
#else
#define KRDMA_URING_LONGEST KRDMA_URING_TIMEOUT_NS
#define IO_URING_F_CANCEL   0
static inline void io_uring_cmd_mark_cancelable(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
}
#endif

/* KRDMA_URING_TASK(name, cmd, flags): head of a function for io_uring_cmd_complete_in_task. */
#ifdef HAVE_URING_TW_REQ
#define KRDMA_URING_TASK(name) static void name(struct io_tw_req tw_req, io_tw_token_t tw)
#define KRDMA_URING_TASK_CMD   io_uring_cmd_from_tw(tw_req)
#define KRDMA_URING_TASK_FLAGS IO_URING_CMD_TASK_WORK_ISSUE_FLAGS
#else
#define KRDMA_URING_TASK(name) static void name(struct io_uring_cmd *tw_cmd, unsigned int tw_flags)
#define KRDMA_URING_TASK_CMD   tw_cmd
#define KRDMA_URING_TASK_FLAGS tw_flags
#endif

#endif /* KRDMA_COMPAT_H */
