/* SPDX-License-Identifier: GPL-2.0 */
/*
 * krdma_mover for other kernel modules: bytes between this host's pages and the
 * memory of another one, over RDMA. Documentation/kapi.rst has an example, and
 * describes contexts, ownership, errors, limits and the order of teardown.
 *
 * Rights, operations and their flags are those of the uapi header. A module outside of the
 * kernel's tree is built with -I for this project's folder and for include/ in it.
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

/* Opaque, from the functions below. */
struct krdma_client;
struct krdma_peer;
struct krdma_remote;
struct krdma_publication;

/**
 * enum krdma_event - why a remote is of no use any more
 * @KRDMA_EVENT_REVOKED: its owner has taken it back
 * @KRDMA_EVENT_LOST: there is no path to its owner any more, or this host, or the
 *	owner, has ended the session
 *
 * Either is for good: open it anew.
 */
enum krdma_event {
	KRDMA_EVENT_REVOKED = 1,
	KRDMA_EVENT_LOST,
};

/* Process context, may sleep; see krdma_remote_open. */
typedef void (*krdma_event_fn)(void *priv, enum krdma_event event);

/**
 * struct krdma_received - a message to published memory
 * @value: as the sender gave it
 * @session: number of the sender's session on this host
 * @region: tells the remotes of a session apart in which messages keep their order
 * @uid: of the sender, as its kernel asserts
 * @written: it came with a WRITE, of which the bytes are in memory
 * @length: bytes
 * @data: the bytes, until the function returns
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

/* Process context, may sleep; see krdma_publish. */
typedef void (*krdma_message_fn)(void *priv, const struct krdma_received *message);

/**
 * struct krdma_io - one operation, part of the submitter's own request
 * @node: the submitter's, for krdma_io_submit_batch(), until then
 * @remote: the other side
 * @bvec: the local pages: runs, contiguous in physical memory, of any offset and
 *	length. The array, too, stays until @done
 * @nr_bvecs: entries of @bvec; there may be more than @length needs
 * @skip: bytes at the start of @bvec that do not count, as in a bio that has been
 *	advanced
 * @op: what is done. The two atomic operations put the value that the remote had before
 *	into the local pages: 8 bytes on either side, at multiples of 8, in the byte
 *	order of the owner's host; a digest puts a number there in the same way
 * @flags: KRDMA_OP_VERIFY, KRDMA_OP_UNPLACED, KRDMA_OP_PLACED, KRDMA_OP_MESSAGE
 * @operand: of an atomic operation, or the value of a message
 * @compare: of KRDMA_OP_CMP_SWAP
 * @offset: where in the remote
 * @length: bytes, not 0 but for KRDMA_OP_SEND
 * @timeout: from the submission; 0 for 30 s, KTIME_MAX for as long as the path lives
 * @done: it has ended; called exactly once for each submission
 * @status: out: 0, or a negative errno (Documentation/kapi.rst)
 * @moved: out: bytes that have arrived, from the start
 * @pages_lost: out: a device may reach the pages in spite of all: never free them, nor
 *	use them again. Only after the RDMA driver failed to give up a registration,
 *	and with a @status other than 0
 * @own: krdma_mover's
 *
 * Needs no initialisation other than of the fields above that are not marked with
 * out; submission allocates nothing. It is krdma_mover's from the submission until
 * @done is called, and must neither move nor change meanwhile.
 *
 * Context of @done: any but hard interrupts. Mostly softirq; also inside of
 * krdma_io_submit(), krdma_io_cancel() and krdma_remote_cancel(), of this transfer or
 * another one: so hold no lock there that @done takes. It must not sleep. It may
 * submit, also what it was called for, and it may free it. Softirqs may be enabled in it,
 * or not: a lock that it takes is taken with spin_lock_bh() there, too. After an error it had
 * better leave that to a work, as the next one may fail in the submission.
 */
struct krdma_io {
	struct list_head node;
	struct krdma_remote *remote;
	const struct bio_vec *bvec;
	u32 nr_bvecs;
	u32 skip;
	enum krdma_opcode op;
	u32 flags;
	u64 operand;
	u64 compare;
	u64 offset;
	u64 length;
	ktime_t timeout;
	void (*done)(struct krdma_io *io);

	int status;
	bool pages_lost;
	u64 moved;

	u64 own[48];
};

/**
 * struct krdma_limits - what is good to know about a remote
 * @length: bytes that it has
 * @rights: KRDMA_RIGHT_*
 * @segment_size: bytes that one key of the owner covers: a transfer across segments is
 *	cut there
 * @request_bytes: bytes of one work request: longer transfers are cut
 * @read_bvecs: entries of @bvec in one work request of a READ; more are cut. On iWARP a
 *	READ is cut instead where two entries do not meet at the ends of pages
 * @write_bvecs: the same of a WRITE
 * @inflight_requests: work requests on the wire, of all who share the session
 * @inflight_bytes: bytes on the wire, of all who share the session
 *
 * None of them limits what may be submitted.
 */
struct krdma_limits {
	u64 length;
	u32 rights;
	u64 segment_size;
	u32 request_bytes;
	u32 read_bvecs;
	u32 write_bvecs;
	u32 inflight_requests;
	u32 inflight_bytes;
};

/**
 * krdma_client_create - become a user of krdma_mover
 * @net: network namespace for all that the client does, which the caller holds; held
 *	here until the client is gone and its sessions have ended, 10 s later at the
 *	latest. NULL for init_net
 *
 * A client acts as root. As long as it exists krdma_mover can't be unloaded.
 *
 * Context: process, may sleep.
 * Return: the client, for krdma_client_destroy(); or an ERR_PTR
 */
struct krdma_client *krdma_client_create(struct net *net);

/**
 * krdma_client_destroy - end a client
 * @client: the client; NULL or an ERR_PTR does no harm
 *
 * What it has connected, opened or published lives on, and keeps what it needs, until
 * it is ended by itself.
 *
 * Context: process, may sleep.
 */
void krdma_client_destroy(struct krdma_client *client);

/**
 * krdma_peer_connect - get a session with another host
 * @client: the client
 * @dst: its address, AF_INET or AF_INET6; port 0 stands for 7471
 * @src: local address to connect from; NULL for any
 * @flags: KRDMA_CONNECT_PRIVATE, not to share the session of another user who is root in
 *	this network namespace; KRDMA_CONNECT_MESSAGES to send messages in it
 * @timeout_ms: how long to wait, 0 for 10 s times the parameter timeout_scale
 *
 * Why it failed is in the kernel's log.
 *
 * Context: process, may sleep; a fatal signal ends the wait.
 * Return: the peer, for krdma_peer_disconnect(); or an ERR_PTR
 */
struct krdma_peer *krdma_peer_connect(struct krdma_client *client,
				      const struct sockaddr_storage *dst,
				      const struct sockaddr_storage *src, unsigned int flags,
				      unsigned int timeout_ms);

/**
 * krdma_peer_disconnect - end the use of a session
 * @peer: the peer; NULL or an ERR_PTR does no harm
 *
 * Remotes of it live on. With its last user a session lingers for 10 s, a private one
 * ends.
 *
 * Context: process, may sleep; waits for no peer.
 */
void krdma_peer_disconnect(struct krdma_peer *peer);

/**
 * krdma_remote_open - open memory that a peer publishes
 * @peer: the peer
 * @name: of the memory
 * @rights: wanted, KRDMA_RIGHT_*; 0 for all that it has. On iWARP who may write needs
 *	to read as well, and there are no atomics (-EOPNOTSUPP)
 * @timeout_ms: how long to wait, 0 for 10 s times the parameter timeout_scale
 * @event: called once when the memory is of no use any more; may be NULL
 * @priv: for @event
 *
 * @event is called at most once, perhaps before this returns, never after
 * krdma_remote_close(), and not because of that. It is called by a work and may
 * sleep, but must not close this remote: that would wait for itself. Transfers
 * under way end with an error, before @event or after it.
 *
 * Why opening failed is in the kernel's log.
 *
 * Context: process, may sleep; a fatal signal ends the wait.
 * Return: the remote, for krdma_remote_close(); or an ERR_PTR
 */
struct krdma_remote *krdma_remote_open(struct krdma_peer *peer, const char *name,
				       unsigned int rights, unsigned int timeout_ms,
				       krdma_event_fn event, void *priv);

/**
 * krdma_remote_close - end a remote
 * @remote: the remote, which nobody submits to any more; NULL or an ERR_PTR does no harm
 *
 * Waits until all transfers on it have ended and their ->done has returned, and @event,
 * too: after this none of the caller's code is run. To be quick, call
 * krdma_remote_cancel() before.
 *
 * Context: process, may sleep; neither in a ->done nor in the @event of this remote.
 */
void krdma_remote_close(struct krdma_remote *remote);

/**
 * krdma_remote_limits - what is good to know about a remote
 * @remote: the remote
 * @limits: out
 *
 * Context: any but hard interrupts.
 * Return: 0, or -ENOTCONN if the path to it is lost
 */
int krdma_remote_limits(struct krdma_remote *remote, struct krdma_limits *limits);

/**
 * krdma_remote_cancel - cancel all transfers on a remote
 * @remote: the remote
 *
 * Those that are submitted at the same time may be missed. See krdma_io_cancel().
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that a ->done takes.
 */
void krdma_remote_cancel(struct krdma_remote *remote);

/**
 * krdma_io_submit - start a transfer
 * @io: the transfer
 *
 * What is wrong with it is told by ->done, too, which may have been called when this
 * returns. Transfers have no order among each other.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that ->done takes.
 */
void krdma_io_submit(struct krdma_io *io);

/**
 * krdma_io_submit_batch - start many transfers
 * @batch: transfers by ->node; empty on return
 *
 * Those that follow each other and are for the same peer have one doorbell.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that a ->done takes.
 */
void krdma_io_submit_batch(struct list_head *batch);

/**
 * krdma_io_cancel - let a transfer end soon
 * @io: a transfer that was submitted. It may have ended, but must still be there, must
 *	not be submitted again at the same time, and its remote must not be closed
 *	before this returns
 *
 * Nothing more of it is put on the wire. It ends with -ECANCELED, or with what it came
 * to meanwhile, when what is there has completed: ->done is called as always, perhaps
 * before this returns.
 *
 * Context: any but hard interrupts, interrupts enabled; no lock that ->done takes.
 */
void krdma_io_cancel(struct krdma_io *io);

/**
 * krdma_publish - let peers use memory of this host
 * @client: the client
 * @name: for peers: 1 to 63 of A-Z a-z 0-9 . _ - : + =, not in use in the client's
 *	network namespace
 * @pages: the memory, in the kernel's map; the array is copied. A page is not to be in
 *	it twice
 * @length: bytes; the last page may be used in part
 * @rights: KRDMA_RIGHT_*
 * @message: called with each message, one at a time, if @rights has
 *	KRDMA_RIGHT_MESSAGE; else NULL
 * @priv: for @message
 *
 * @message is called by a work and may sleep; while it does, up to 256 messages wait,
 * and then their senders. It must not unpublish anything, and may be called before this
 * returns.
 *
 * Takes no reference on the pages: they are the caller's, and stay until
 * krdma_unpublish() has returned. A peer that may write may do so at any time; nobody
 * is told.
 *
 * Peers reach it where an administrator has made this host listen: krdma listen.
 *
 * Why it failed is in the kernel's log.
 *
 * Context: process, may sleep.
 * Return: the publication, for krdma_unpublish(); or an ERR_PTR
 */
struct krdma_publication *krdma_publish(struct krdma_client *client, const char *name,
					struct page *const *pages, u64 length, unsigned int rights,
					krdma_message_fn message, void *priv);

/**
 * krdma_unpublish - take memory back
 * @pub: the publication; NULL or an ERR_PTR does no harm
 *
 * Messages that were not delivered are dropped, and none is after this.
 *
 * Waits until no peer can reach the pages: a round trip where peers answer; where
 * one does not, until its session is taken down, after 20 s (iWARP: 60 s);
 * longer with the parameter timeout_scale.
 *
 * Context: process, may sleep.
 * Return: 0; or -EIO: a device may reach the pages in spite of all, never free them nor
 *	use them again
 */
int krdma_unpublish(struct krdma_publication *pub);

#endif /* _LINUX_KRDMA_MOVER_H */
