/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer in userspace, written from Documentation/wire.rst alone: it shares no code with the
 * module, and takes no number from driver/wire/wire.h.
 *
 * peer.c		the program, results
 * peer_wire.c		messages as bytes
 * peer_conn.c		connections, and what is said on them
 * peer_initiator.c	an initiator
 * peer_attack.c	an initiator that violates the protocol
 * peer_request.c	an initiator whose requests fail, or come when they may not
 * peer_access.c	an initiator that reads and writes what it may not
 * peer_join.c		an initiator with several channels, and one that resumes
 * peer_message.c		an initiator that sends messages
 * peer_crowd.c		an initiator with many connections
 * peer_withhold.c	an initiator that takes no replies
 * peer_target.c		a target
 * peer_cases.c		what a target does that it may not
 */
#ifndef PEER_H
#define PEER_H

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MAGIC    0x4d44524bU
#define HELLO    56
#define HEADER   16
#define MSG_MAX  1024
#define CREDITS  32 /* requests that this side takes, and sends, at a time */
#define SEGS_MAX 32
#define PLACES   4 /* feature */

enum {
	PING = 1,
	LIST,
	OPEN,
	SEGS,
	CLOSE,
	RECALL,
	BYE,
	DIGEST,
	MESSAGE,
	FENCE,
	ACK,
	ADDRS,
	USAGE,
	FLUSH,
	GROW,
	REPLY = 0x80
};
enum {
	OK,
	NOENT,
	ACCES,
	STALE,
	LIMIT,
	RANGE,
	NOMEM,
	UNSUPPORTED,
	IO,
	AWAY,
	BUSY
};
enum {
	NONE,
	MALFORMED,
	VERSION,
	NOT_ADMITTED,
	NO_ROOM,
	SHUTDOWN,
	PROTOCOL,
	TIMEOUT,
	TRANSPORT,
	ADMIN
};
enum {
	READ = 1,
	WRITE = 2,
	ATOMIC = 4,
	MSGS = 16
};

/* Room for more than may be sent. */
struct msg {
	u32 len;
	u8 b[4200];
};

struct key {
	u64 index;
	u64 address;
	u32 length;
	u32 rkey;
};

/* One number in a message or a hello that is otherwise right. */
struct patch {
	const char *name;
	u8 type; /* of the message */
	u8 at;
	u8 size; /* of the number; 0: none is changed */
	u64 value;
	u16 len;  /* so many bytes are sent, 0 for as many as it has */
	bool fix; /* and the length field says so too */
};

#define RX_COUNT   (2 * CREDITS + 1)
#define TX_COUNT   16
#define TX_SIZE    4224
#define SEND_MAX   400
#define TX_AT      (RX_COUNT * MSG_MAX)
#define INLINE_MAX 80 /* siw takes no more */
#define DATA_AT    (TX_AT + TX_COUNT * TX_SIZE)
#define DATA_SIZE  (128 << 10)

struct conn {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	u8 *mem; /* receives, sends, data */
	u8 *data;

	/* How to connect; conn_init sets what is usual. */
	u16 port;                  /* behind the one that was given */
	const union address *from; /* NULL for any */
	u8 hello[256];
	u32 hello_len;
	u8 reads;   /* responder resources, and initiator depth */
	u8 retries; /* retry count, and */
	u8 rnr;     /* RNR retry count that the other side is to use; 7 is without end */
	u8 rnr_timer;
	bool stubborn; /* its own RNR retries are without end */
	bool no_receives;
	bool messages; /* the feature is wanted */
	bool usages;   /* it wants the feature USAGES */
	bool grows;    /* the same of GROWS */
	bool places;   /* and PLACES */
	bool no_rtu;   /* never say that the connection is established; not on iWARP */
	bool early;    /* a PING before that is said; the same */

	/* What the other side said. */
	int event; /* the last of rdma_cm */
	u8 priv[256];
	u32 priv_len;
	bool down;                 /* disconnected, or never connected */
	enum ibv_wc_status broken; /* the first error that was not a flush */

	u32 rx[RX_COUNT]; /* received: buffer << 16 | length */
	u32 rx_head, rx_tail;
	u16 received;   /* messages in the session, but MESSAGE and ACK; iWARP tells of them */
	bool countless; /* unless this */
	u32 tx_next;
	u32 tx_posted, tx_done;
	u32 ops_done;
	enum ibv_wc_status op_status; /* of the last of them */
	u32 tag;
	u32 credits;         /* credits of the other side */
	u32 message_credits; /* message credits of the other side */

	/* An export that is open. */
	u64 length;
	u32 rights, grant, generation, shift;
	struct key key[SEGS_MAX];
	u32 keys;
	bool polite;          /* replies to RECALL at once */
	bool target;          /* and replies to PING by itself */
	bool deaf;            /* replies to nothing, not even PING */
	bool guesses;         /* replies to PING with other bytes */
	u32 recalls, revokes; /* of segments; of the grant */
};

/* Returns a sentence about what went wrong, NULL if nothing did. */
typedef const char *(*attempt_fn)(struct conn *c, const void *arg);

/* ---- results ---- */
__attribute__((format(printf, 1, 2))) const char *bad(const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void result(const char *why, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void skip(const char *reason, const char *fmt, ...);
void not_sane(const char *why);
int results_end(void);
s64 now_ms(void);

/* ---- messages ---- */
u64 get(const struct msg *m, u32 at, u32 size);
void put(struct msg *m, u32 at, u32 size, u64 value);
void put_bytes(u8 *to, u32 size, u64 value);
u64 get_bytes(const u8 *from, u32 size);
void header(struct msg *m, u8 type, u32 len, u32 tag);
void request(struct conn *c, struct msg *m, u8 type);
void recall_grant(struct conn *c, struct msg *m);
bool whole_grant(const struct msg *m);
void open_request(struct conn *c, struct msg *m, const char *name, u32 rights);
void apply(struct msg *m, const struct patch *patch);
const char *sane(const struct msg *m);

/* ---- connections ---- */
#define REJECTED "rejected by the transport"
union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6; /* has the port where the other one has it */
};
extern union address peer_addr;
extern bool iwarp;
extern const char *kill_command;
void conn_init(struct conn *c);
const char *conn_connect(struct conn *c);
const char *conn_accept(struct conn *c, struct rdma_cm_id *id);
void conn_end(struct conn *c);
void conn_break(struct conn *c);
void post_receive(struct conn *c, u32 i);
void resolve(union address *addr, const char *host, const char *port);
bool pump(struct conn *c, s64 until);
bool wait_event(struct conn *c, int event, int ms);
bool receive(struct conn *c, struct msg *m, int ms);
const char *post_send(struct conn *c, const struct msg *m, struct ibv_send_wr *with);
const char *send_msg(struct conn *c, const struct msg *m);
void reply_politely(struct conn *c, const struct msg *q);
const char *call(struct conn *c, const struct msg *q, struct msg *a, int ms);
enum ibv_wc_status rdma_op(struct conn *c, struct ibv_send_wr *wr, u32 at, u32 len);
enum ibv_wc_status move(struct conn *c, bool write, u32 at, u32 len, u64 address, u32 rkey);
const char *refused(struct conn *c, struct ibv_send_wr *wr, u32 len);
int slower(int ms);
int patience(int ms);
const char *ends(struct conn *c, int reason, int ms);

/* ---- the initiator ---- */
/* An attempt that is not about a timeout ends within this, in ms. */
#define SOON 8000
u8 pattern(u64 at);
const char *attempt(attempt_fn fn, const void *arg);
const char *begin(struct conn *c, const char *name);
const char *try_open(struct conn *c, const char *name, u32 rights, u32 status);
const char *close_grant(struct conn *c);
void segs_request(struct conn *c, struct msg *q, u64 first, u32 count, u32 extra);
const char *get_keys(struct conn *c, u64 first, u32 count, u32 extra);
const char *take_keys(struct conn *c, const struct msg *q, const struct msg *a);
const char *until_recall(struct conn *c, const char *name, struct msg *recall);
const char *ping(struct conn *c, u32 len);
const char *fails(struct conn *c, const struct msg *q, u32 status);
const char *say_bye(struct conn *c);
const char *within(s64 since, int least, int most);
const char *kill_exporter(const char *name);
const char *verify_data(struct conn *c, const void *arg);
void misbehave(void);
void try_requests(void);
void try_accesses(void);
void messages(void);

/* What each connection of a crowd does. */
enum crowd {
	HALF_OPEN, /* never established */
	SILENT,    /* established, and no message */
	QUIET      /* one PING, and no other request */
};
const char *crowd(struct conn *unused, const void *arg);
const char *joins_for_ever(struct conn *c, const void *arg);
void half_open_by_the_thousand(void);

/* ---- channels of a session that there is ---- */
extern const char *const reasons[5];
void try_joins(void);
void try_resumes(void);
void join_hello(const struct conn *first, struct conn *c);
const char *join_again(const struct conn *first, struct conn *c);

int withhold_main(int argc, char **argv);
int initiator_main(void);
int target_main(void);
int target_cases(void);

#endif /* PEER_H */
