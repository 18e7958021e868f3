/* SPDX-License-Identifier: GPL-2.0 */
/*
 * krdma_mover for other kernel modules: move bytes between pages of this host and the
 * memory of another host over RDMA. Documentation/kapi.rst has an example, and describes
 * contexts, ownership, errors, limits and the order of teardown.
 *
 * The uapi header has the rights, operations and flags. Build a module outside of the kernel's
 * tree with -I for this project's folder and for its include/.
 */
#ifndef _LINUX_KRDMA_MOVER_H
#define _LINUX_KRDMA_MOVER_H

#include <linux/bits.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/socket.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include <uapi/linux/krdma_mover.h>

struct bio_vec;
struct net;
struct page;

/* Opaque; the functions below return them. */
struct krdma_client;
struct krdma_session_handle;
struct krdma_region_handle;
struct krdma_export_handle;

/**
 * enum krdma_event - what has become of a region
 * @KRDMA_EVENT_REVOKED: the target has ended the export, or another region has taken it over
 * @KRDMA_EVENT_LOST: either host has ended the session, or its connection has not come back
 * @KRDMA_EVENT_RESUMING: the first connection of the session is lost: operations go on over its
 *	other paths, or wait for it
 * @KRDMA_EVENT_RESUMED: it is back
 *
 * The first two are final for this region: close it and open the export anew, or call
 * krdma_reopen().
 */
enum krdma_event {
	KRDMA_EVENT_REVOKED = 1,
	KRDMA_EVENT_LOST,
	KRDMA_EVENT_RESUMING,
	KRDMA_EVENT_RESUMED,
};

/* Process context, may sleep; see krdma_open. */
typedef void (*krdma_event_fn)(void *priv, enum krdma_event event);

/**
 * struct krdma_received - a message to an export
 * @value: as the sender gave it
 * @session: number of the sender's session on this host
 * @region: number of the sender's region in that session; messages keep their order
 *	within a region
 * @uid: of the sender, as its kernel asserts
 * @written: the message follows a WRITE, whose bytes are in memory
 * @length: bytes of @data
 * @data: valid until the function returns
 * @peer: address of the sender's host
 */
struct krdma_received {
	u64 value;
	u64 session;
	u32 region;
	kuid_t uid;
	bool written;
	u32 length;
	const void *data;
	struct sockaddr_storage peer;
};

/* Process context, may sleep; see krdma_export. */
typedef void (*krdma_message_fn)(void *priv, const struct krdma_received *message);

/**
 * struct krdma_io - one operation, embedded in the submitter's own request
 * @node: the submitter's, for krdma_io_submit_batch(), until then
 * @region: the peer's memory
 * @bvec: the local pages: runs of physically contiguous memory, of any offset and
 *	length. The array must stay until @done as well
 * @nr_bvecs: entries of @bvec, possibly more than @length needs
 * @skip: bytes to skip at the start of @bvec, as in a bio that has been advanced
 * @op: the operation. An atomic operation puts the old value of the region into the local
 *	pages: 8 bytes on either side, at multiples of 8, in the byte order of the
 *	target's host. A digest puts a u64 there in the same way. A flush has no local pages
 * @flags: KRDMA_OPF_VERIFY of a READ or WRITE; KRDMA_OPF_UNPLACED or KRDMA_OPF_PLACED, and
 *	KRDMA_OPF_MESSAGE with @operand, of a WRITE. The rights that they need are in the
 *	uapi header. Other flags of that header are refused with -EOPNOTSUPP
 * @operand: operand of an atomic operation, or value of a message
 * @compare: with KRDMA_OP_CMP_SWAP
 * @offset: first byte in the region; 0 for KRDMA_OP_SEND
 * @length: bytes, at least 1; 0 to KRDMA_MESSAGE_MAX for KRDMA_OP_SEND
 * @ranges: of KRDMA_OP_FLUSH: ranges of the region, instead of @offset, whose bytes @length is the
 *	sum of; or NULL. The array must stay until @done as well. Not looked at otherwise
 * @nr_ranges: entries of @ranges
 * @cpu: 1 + the processor whose channel moves the bytes, and which mostly has the completion's
 *	interrupt; 0 for the processor that submits. For a submitter that runs on another
 *	processor than the one that will use the result
 * @timeout: from the submission; 0 for 30 s, KTIME_MAX for no deadline. A WRITE whose connection
 *	is lost may end later (Documentation/kapi.rst, "Errors")
 * @done: called exactly once for each submission, when the operation has ended
 * @status: out: 0, or a negative errno (Documentation/kapi.rst)
 * @moved: out: bytes that have arrived without a gap from the start
 * @pages_lost: out: the device may still access the pages: never free nor use them
 *	again. Only after the RDMA driver has failed to release a registration, and with a
 *	@status other than 0
 * @own: private to krdma_mover
 *
 * The submitter sets the fields that are not marked with out; submission allocates
 * nothing. The struct belongs to krdma_mover from the submission until @done is called, and
 * must neither move nor change meanwhile.
 *
 * Context of @done: any but hard interrupts, mostly softirq. krdma_io_submit(), krdma_io_cancel(),
 * krdma_region_cancel(), krdma_region_abort() and krdma_region_poll() may call it as well, for
 * this operation or another one: their callers must hold no lock that @done takes. @done must not
 * sleep. It may submit any operation, this one included, and may free this one. Softirqs may be
 * on or off: @done takes its locks with spin_lock_bh(). After an error let a work submit again:
 * the next operation may fail within its submission, which would recurse.
 */
struct krdma_io {
	struct list_head node;
	struct krdma_region_handle *region;
	const struct bio_vec *bvec;
	u32 nr_bvecs;
	u32 skip;
	enum krdma_opcode op;
	u32 flags;
	u64 operand;
	u64 compare;
	u64 offset;
	u64 length;
	const struct krdma_vec *ranges;
	u32 nr_ranges;
	u32 cpu;
	ktime_t timeout;
	void (*done)(struct krdma_io *io);

	int status;
	bool pages_lost;
	u64 moved;

	u64 own[48];
};

/**
 * struct krdma_limits - properties of a region that matter for speed
 * @length: bytes of the export
 * @rights: KRDMA_RIGHT_* of the region; KRDMA_RIGHT_DURABLE if KRDMA_OP_FLUSH makes changes durable
 * @segment_size: bytes that one key covers; a transfer is cut at its multiples
 * @wr_bytes: most bytes of one work request; longer transfers are cut
 * @read_bvecs: most entries of @bvec in one work request of a READ; more are cut. On
 *	iWARP a READ is cut instead where two entries do not meet at the ends of pages
 * @write_bvecs: the same for a WRITE
 * @inflight_wrs: most work requests posted at a time on a channel, of all users of the session
 * @inflight_bytes: the same of bytes; a session has a channel for each processor's data, up to 8
 * @resume_s: seconds that the session goes on when its connection is lost, as both hosts
 *	allow; KRDMA_RESUME_ALWAYS for no limit, 0 for not at all
 *
 * None of them limits what may be submitted.
 */
struct krdma_limits {
	u64 length;
	u32 rights;
	u64 segment_size;
	u32 wr_bytes;
	u32 read_bvecs;
	u32 write_bvecs;
	u32 inflight_wrs;
	u32 inflight_bytes;
	u32 resume_s;
};

/**
 * krdma_client_create - become a user of krdma_mover
 * @net: network namespace of the client's objects, held by the caller; NULL for
 *	init_net. The client and its sessions hold it as well, for as long as those stay
 *	without a user: krdma_disconnect()
 *
 * A client acts as root. krdma_mover can't be unloaded while a client exists.
 *
 * Context: process, may sleep.
 * Return: the client, for krdma_client_destroy(); or an ERR_PTR
 */
struct krdma_client *krdma_client_create(struct net *net);

/**
 * krdma_client_destroy - end a client
 * @client: the client; NULL or an ERR_PTR is ignored
 *
 * Its sessions, regions and exports stay, with all that they need, until each is ended by
 * its own function.
 *
 * Context: process, may sleep.
 */
void krdma_client_destroy(struct krdma_client *client);

/**
 * struct krdma_path_param - a path to another host
 * @dst: its address, AF_INET or AF_INET6; port 0 stands for 7471
 * @src: local address to connect from; NULL for any
 */
struct krdma_path_param {
	const struct sockaddr_storage *dst;
	const struct sockaddr_storage *src;
};

/**
 * struct krdma_connect_param - another host, and how the session with it is to be
 * @dst: its address, AF_INET or AF_INET6; port 0 stands for 7471
 * @src: local address to connect from; NULL for any
 * @flags: KRDMA_CONNECT_PRIVATE for a session that is not shared with other clients and
 *	processes of root in this network namespace; KRDMA_CONNECT_MESSAGES for one that can
 *	carry messages; KRDMA_CONNECT_FAIL_FAST for one that ends with its first
 *	channel, unless another path is up
 * @timeout_ms: how long to wait, 0 for 10 s times the parameter timeout_scale
 * @resume_s: seconds that it goes on when its connection is lost, up to KRDMA_RESUME_MAX, or
 *	KRDMA_RESUME_ALWAYS; the peer may allow less. 0 for the parameter resume
 * @keepalive_s: seconds after which a dead path is noticed, up to KRDMA_KEEPALIVE_MAX; 0 for
 *	the parameter keepalive
 * @policy: enum krdma_path_policy: which of its paths it uses
 * @npaths: paths beside the one from @src to @dst, up to KRDMA_PATHS_MAX - 1
 * @paths: the array of these
 *
 * Only callers that want the same @resume_s, @keepalive_s, @policy, @paths and
 * KRDMA_CONNECT_FAIL_FAST share a session.
 */
struct krdma_connect_param {
	const struct sockaddr_storage *dst;
	const struct sockaddr_storage *src;
	unsigned int flags;
	unsigned int timeout_ms;
	unsigned int resume_s;
	unsigned int keepalive_s;
	unsigned int policy;
	unsigned int npaths;
	const struct krdma_path_param *paths;
};

/**
 * krdma_connect - get a session with another host
 * @client: the client
 * @param: the host, and how the session is to be
 *
 * The kernel's log has the error text of a failed call.
 *
 * Context: process, may sleep; a fatal signal ends the wait.
 * Return: the session, for krdma_disconnect(); or an ERR_PTR
 */
struct krdma_session_handle *krdma_connect(struct krdma_client *client,
					   const struct krdma_connect_param *param);

/**
 * krdma_disconnect - end the use of a session
 * @session: the session; NULL or an ERR_PTR is ignored
 *
 * Regions of the session stay. Without users a shared session lingers for 10 s; a private one
 * ends at once. Either stays until the peer has replied to the close of each region, for as long as
 * it resumes, and an hour at most.
 *
 * Context: process, may sleep; waits for no peer.
 */
void krdma_disconnect(struct krdma_session_handle *session);

/**
 * struct krdma_open_param - an export of the peer, and how it is to be opened
 * @name: of the export
 * @rights: KRDMA_RIGHT_*, all of which must be available; 0 for every right of the export. On
 *	iWARP KRDMA_RIGHT_WRITE needs KRDMA_RIGHT_READ, and there are no atomics
 *	(-EOPNOTSUPP)
 * @flags: KRDMA_OPEN_HELD: all keys are there, for the paths that are up, when krdma_open()
 *	returns, and the peer takes none back; KRDMA_OPEN_EXCLUSIVE: no other region can change
 *	the export's memory (-EBUSY); KRDMA_OPEN_TAKEOVER with it: those that can are revoked
 *	first
 * @timeout_ms: how long to wait, 0 for 10 s, or 40 s with KRDMA_OPEN_HELD or
 *	KRDMA_OPEN_TAKEOVER, times the parameter timeout_scale; as long again for the keys of
 *	each 32 segments that are held
 * @event: called when the region has ended, and when its connection is lost and back; may be NULL
 * @priv: for @event
 *
 * @event is called at most once with KRDMA_EVENT_REVOKED or KRDMA_EVENT_LOST, which is the last,
 * possibly before krdma_open() returns, never after krdma_close(), and never because of
 * krdma_close(). A work calls it; it may sleep, but must not close this region, which would wait
 * for itself. Operations under way end with an error, before the last @event or after it.
 */
struct krdma_open_param {
	const char *name;
	unsigned int rights;
	unsigned int flags;
	unsigned int timeout_ms;
	krdma_event_fn event;
	void *priv;
};

/**
 * krdma_open - open an export of the peer
 * @session: the session
 * @param: the export, and how it is to be opened
 *
 * The kernel's log has the error text of a failed call.
 *
 * Context: process, may sleep; a fatal signal ends the wait.
 * Return: the region, for krdma_close(); or an ERR_PTR
 */
struct krdma_region_handle *krdma_open(struct krdma_session_handle *session,
				       const struct krdma_open_param *param);

/**
 * krdma_close - close a region
 * @region: the region, to which no operation is submitted any more; NULL or an ERR_PTR is
 *	ignored
 *
 * Waits until all operations on the region have ended, and until their ->done and @event
 * have returned: none of the caller's code runs after this. krdma_region_cancel() before
 * this call makes it quick, and krdma_region_abort() quicker. If the region is
 * KRDMA_OPEN_EXCLUSIVE, or operations were aborted, this waits up to 3 s, times the parameter
 * timeout_scale, until the peer knows. If it does, others can open it then, and nothing arrives
 * any more; unless the region had ended before.
 *
 * Context: process, may sleep; neither in a ->done nor in the @event of this region.
 */
void krdma_close(struct krdma_region_handle *region);

/**
 * krdma_reopen - have a region again that has ended, when its export is back
 * @region: region that has ended, to which no operation is submitted until this returns
 * @session: session with the host that has the export: the same as before, if it goes on
 * @timeout_ms: as of struct krdma_open_param
 *
 * The export has the name, and the region the rights, flags and @event that krdma_open() was
 * called with: the region may end again. What has the name may be other memory, with other
 * bytes and another length: krdma_region_limits(). Waits for operations that were on the wire
 * when the region ended, and for @event.
 *
 * The kernel's log has the error text of a failed call.
 *
 * Context: process, may sleep; a fatal signal ends the wait; neither in a ->done nor in the
 * @event of this region; not beside krdma_close(), krdma_region_limits(),
 * krdma_region_cancel() or krdma_region_abort() of it.
 * Return: 0; -EBUSY if the region has not ended; or as krdma_open(), and it stays as it was
 */
int krdma_reopen(struct krdma_region_handle *region, struct krdma_session_handle *session,
		 unsigned int timeout_ms);

/**
 * krdma_grow - have all of an export that has grown
 * @region: the region
 * @timeout_ms: as of struct krdma_open_param
 *
 * Operations on the region go on meanwhile. The new length is in krdma_region_limits(), also for
 * those who share the region. If the region is KRDMA_OPEN_HELD, all keys of it are there when this
 * returns 0. If this fails, the region may have grown all the same; call it again.
 *
 * The kernel's log has the error text of a failed call.
 *
 * Context: process, may sleep; a fatal signal ends the wait; not beside krdma_close() or
 * krdma_reopen() of it.
 * Return: 0, also if the export has not grown; -EOPNOTSUPP: the length so far is not a multiple of
 * @segment_size of struct krdma_limits, or the peer's module is an older one; -EDQUOT: the new
 * memory can't be held; or as krdma_open()
 */
int krdma_grow(struct krdma_region_handle *region, unsigned int timeout_ms);

/**
 * krdma_region_limits - properties of a region that matter for speed
 * @region: the region
 * @limits: out
 *
 * Context: any but hard interrupts.
 * Return: 0, or -ENOTCONN if the path is lost
 */
int krdma_region_limits(struct krdma_region_handle *region, struct krdma_limits *limits);

/**
 * krdma_region_cancel - cancel all operations on a region
 * @region: the region
 *
 * Operations that are submitted at the same time may be missed. See krdma_io_cancel().
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that a ->done takes.
 */
void krdma_region_cancel(struct krdma_region_handle *region);

/**
 * krdma_region_abort - cancel all operations on a region, those on the wire as well
 * @region: the region
 *
 * As krdma_region_cancel(); the channels on which some of these operations are posted are taken
 * down, so that none waits for the peer or the network. To other users of the session that is a
 * lost channel: what they had posted there is done again, but atomic operations end with
 * -ECONNRESET. A session that can't resume ends, if the first channel is among them. What an
 * operation that failed has sent may arrive at the peer until it has heard that the region is
 * closed, by all of its users; krdma_close() waits for that, but not for long.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that a ->done takes.
 */
void krdma_region_abort(struct krdma_region_handle *region);

/**
 * krdma_region_poll - handle completions that have come, without an interrupt
 * @region: the region
 *
 * For a submitter that waits for its operations in a loop: mostly a completion is found here
 * before its interrupt has been handled. Nothing depends on it: interrupts stay on, and handle
 * what nobody polls for. Looks at the channels for data of this processor, which all users of
 * the session have in common, so that ->done of other regions may be called as well. A channel
 * whose completions are being handled elsewhere is left out.
 *
 * Context: process or softirq, interrupts enabled; no lock that a ->done takes; not beside
 * krdma_reopen() of the region.
 * Return: the completions that were handled; 0 is no error
 */
unsigned int krdma_region_poll(struct krdma_region_handle *region);

/**
 * krdma_io_submit - start an operation
 * @io: the operation
 *
 * ->done reports every error, and may have been called when this returns. Operations have no
 * order among each other.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that ->done takes.
 */
void krdma_io_submit(struct krdma_io *io);

/**
 * krdma_io_submit_batch - start many operations
 * @batch: operations by ->node; empty on return
 *
 * Consecutive operations of the same session share a doorbell, if they go over one channel.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that a ->done takes.
 */
void krdma_io_submit_batch(struct list_head *batch);

/**
 * krdma_io_cancel - cancel an operation
 * @io: an operation that was submitted. It may have ended, but the struct must still
 *	exist, must not be submitted again at the same time, and its region must not be
 *	closed before this returns
 *
 * No further work request of the operation is posted. When the posted ones have completed, it
 * ends with -ECANCELED, or with the status that it had reached; a WRITE that waits until nothing of
 * it can arrive any more ends at once, with -ECONNRESET. ->done is called as usual, possibly before
 * this returns.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that ->done takes.
 */
void krdma_io_cancel(struct krdma_io *io);

/**
 * krdma_export - publish memory of this host under a name
 * @client: the client
 * @name: 1 to 63 of A-Z a-z 0-9 . _ - : + =, not in use in the client's network namespace
 * @pages: pages in the kernel's direct map, each at most once; the array is copied
 * @length: bytes; the last page may be used in part
 * @rights: KRDMA_RIGHT_* of peers
 * @message: called with each message, one at a time; required with KRDMA_RIGHT_MESSAGE in
 *	@rights, else NULL
 * @priv: for @message
 *
 * A work calls @message, which may sleep. Meanwhile up to 256 messages wait in the message
 * queue; if it is full, senders wait. @message must not end an export, and may be called before
 * this function returns.
 *
 * The pages belong to the caller; krdma_mover takes no reference. They must stay until
 * krdma_unexport() has returned. A peer with KRDMA_RIGHT_WRITE may change them at any time.
 *
 * Peers connect to a listener, which an administrator makes: krdma listen.
 *
 * The kernel's log has the error text of a failed call.
 *
 * Context: process, may sleep.
 * Return: the export, for krdma_unexport(); or an ERR_PTR
 */
struct krdma_export_handle *krdma_export(struct krdma_client *client, const char *name,
					 struct page *const *pages, u64 length, unsigned int rights,
					 krdma_message_fn message, void *priv);

/**
 * krdma_unexport - end an export
 * @export: the export; NULL or an ERR_PTR is ignored
 *
 * Messages that were not delivered are dropped; none is delivered after this.
 *
 * Waits until no peer can access the pages: a round trip if the peer replies, else until its
 * session is taken down, after 20 s, or a minute if the peer begins connections and does not
 * complete them (iWARP: 60 s; all longer with the parameter timeout_scale).
 *
 * Context: process, may sleep.
 * Return: 0; or -EIO: a device may still access the pages, never free nor use them again
 */
int krdma_unexport(struct krdma_export_handle *export);

#endif /* _LINUX_KRDMA_MOVER_H */
