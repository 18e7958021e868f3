/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: each change of state, each post and each completion. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM krdma

#if !defined(KRDMA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KRDMA_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/rdma_cm.h>

#include "wire/wire.h"

struct krdma_transfer;

/* The macros below have a layout of their own. */
/* clang-format off */

#define krdma_show_state(s)                                                     \
	__print_symbolic(s, { KRDMA_SESSION_CONNECTING, "CONNECTING" },         \
			 { KRDMA_SESSION_UP, "UP" },                            \
			 { KRDMA_SESSION_CLOSING, "CLOSING" },                  \
			 { KRDMA_SESSION_DEAD, "DEAD" })

#define krdma_show_wait(w)                                                      \
	__print_symbolic(w, { KRDMA_WAIT_SLOT, "slot" }, { KRDMA_WAIT_KEY, "key" }, \
			 { KRDMA_WAIT_CREDIT, "credit" }, { KRDMA_WAIT_WIRE, "wire" }, \
			 { KRDMA_WAIT_TURN, "turn" }, { KRDMA_WAIT_DIGEST, "digest" }, \
			 { KRDMA_WAIT_RECEIVER, "receiver" }, { KRDMA_WAIT_FENCE, "fence" })

#define krdma_show_opcode(o) \
	__print_symbolic(o, { KRDMA_OP_READ, "READ" }, { KRDMA_OP_WRITE, "WRITE" }, \
			 { KRDMA_OP_FETCH_ADD, "FETCH_ADD" }, { KRDMA_OP_CMP_SWAP, "CMP_SWAP" }, \
			 { KRDMA_OP_DIGEST, "DIGEST" }, { KRDMA_OP_SEND, "SEND" }, \
			 { KRDMA_OP_FLUSH, "FLUSH" })

TRACE_EVENT(krdma_session_state,
	TP_PROTO(u64 session, int old, int state, int err),
	TP_ARGS(session, old, state, err),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(int, old)
		__field(int, state)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->old = old;
		__entry->state = state;
		__entry->err = err;
	),
	TP_printk("session=%llu %s -> %s err=%d", __entry->session,
		  krdma_show_state(__entry->old), krdma_show_state(__entry->state), __entry->err)
);

TRACE_EVENT(krdma_channel_state,
	TP_PROTO(u64 session, u32 channel, int old, int state),
	TP_ARGS(session, channel, old, state),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u32, channel)
		__field(int, old)
		__field(int, state)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->channel = channel;
		__entry->old = old;
		__entry->state = state;
	),
	TP_printk("session=%llu channel=%u %s -> %s", __entry->session, __entry->channel,
		  krdma_show_state(__entry->old), krdma_show_state(__entry->state))
);

TRACE_EVENT(krdma_cm_event,
	TP_PROTO(u64 session, int event, int status),
	TP_ARGS(session, event, status),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(int, event)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->event = event;
		__entry->status = status;
	),
	TP_printk("session=%llu event=%d status=%d", __entry->session, __entry->event,
		  __entry->status)
);

TRACE_EVENT(krdma_message,
	TP_PROTO(u64 session, bool out, const struct krdma_wire_hdr *hdr),
	TP_ARGS(session, out, hdr),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u32, tag)
		__field(u8, type)
		__field(bool, out)
		__field(bool, reply)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->tag = le32_to_cpu(hdr->tag);
		__entry->type = hdr->type & ~KRDMA_WIRE_REPLY;
		__entry->out = out;
		__entry->reply = hdr->type & KRDMA_WIRE_REPLY;
	),
	TP_printk("session=%llu %s %s type=%#x tag=%u", __entry->session,
		  __entry->out ? "sent" : "received", __entry->reply ? "reply" : "request",
		  __entry->type, __entry->tag)
);

TRACE_EVENT(krdma_segment,
	TP_PROTO(u64 session, u32 grant, u64 index, bool registered),
	TP_ARGS(session, grant, index, registered),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u64, index)
		__field(u32, grant)
		__field(bool, registered)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->index = index;
		__entry->grant = grant;
		__entry->registered = registered;
	),
	TP_printk("session=%llu grant=%u segment=%llu %s", __entry->session, __entry->grant,
		  __entry->index, __entry->registered ? "registered" : "released")
);

DECLARE_EVENT_CLASS(krdma_wr_class,
	TP_PROTO(u64 session, const struct krdma_transfer *x, u32 bytes, int arg),
	TP_ARGS(session, x, bytes, arg),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(const void *, transfer)
		__field(u32, bytes)
		__field(int, arg)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->transfer = x;
		__entry->bytes = bytes;
		__entry->arg = arg;
	),
	TP_printk("session=%llu transfer=%p bytes=%u %d", __entry->session, __entry->transfer,
		  __entry->bytes, __entry->arg)
);

/* The last number: entries of the scatter/gather list. */
DEFINE_EVENT(krdma_wr_class, krdma_post,
	TP_PROTO(u64 session, const struct krdma_transfer *x, u32 bytes, int arg),
	TP_ARGS(session, x, bytes, arg)
);

/* The last number: status of the work completion. */
DEFINE_EVENT(krdma_wr_class, krdma_complete,
	TP_PROTO(u64 session, const struct krdma_transfer *x, u32 bytes, int arg),
	TP_ARGS(session, x, bytes, arg)
);

TRACE_EVENT(krdma_transfer_submit,
	TP_PROTO(u64 session, const struct krdma_transfer *x),
	TP_ARGS(session, x),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(const void *, transfer)
		__field(u64, offset)
		__field(u64, length)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->transfer = x;
		__entry->offset = x->range->addr;
		__entry->length = x->length;
		__entry->opcode = x->opcode;
	),
	TP_printk("session=%llu transfer=%p %s offset=%llu length=%llu", __entry->session,
		  __entry->transfer, krdma_show_opcode(__entry->opcode), __entry->offset,
		  __entry->length)
);

TRACE_EVENT(krdma_transfer_wait,
	TP_PROTO(u64 session, const struct krdma_transfer *x, int wait),
	TP_ARGS(session, x, wait),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(const void *, transfer)
		__field(int, wait)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->transfer = x;
		__entry->wait = wait;
	),
	TP_printk("session=%llu transfer=%p waits for %s", __entry->session, __entry->transfer,
		  krdma_show_wait(__entry->wait))
);

TRACE_EVENT(krdma_transfer_end,
	TP_PROTO(u64 session, const struct krdma_transfer *x, int status),
	TP_ARGS(session, x, status),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(const void *, transfer)
		__field(u64, moved)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->transfer = x;
		__entry->moved = x->moved;
		__entry->status = status;
	),
	TP_printk("session=%llu transfer=%p moved=%llu status=%d", __entry->session,
		  __entry->transfer, __entry->moved, __entry->status)
);

/* All of a session are looked at: so many without a pause, and how many it has then. */
TRACE_EVENT(krdma_transfer_batch,
	TP_PROTO(u64 session, u32 looked, u32 left),
	TP_ARGS(session, looked, left),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u32, looked)
		__field(u32, left)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->looked = looked;
		__entry->left = left;
	),
	TP_printk("session=%llu looked=%u left=%u", __entry->session, __entry->looked,
		  __entry->left)
);

/* clang-format on */

#endif /* KRDMA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
