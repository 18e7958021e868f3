/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A target that violates the protocol: its cases (peer_cases.c), and the connections on which they
 * are done (peer_target.c).
 */
#ifndef PEER_TARGET_H
#define PEER_TARGET_H

#include "peer.h"

#define LENGTH 100000
#define SHIFT  14

#define A(type) (REPLY | (type))
/* What a patch is of, beside messages. */
#define ACCEPT 0xf0
#define REJECT 0xf1

/* Changes the reply @a to @q, or does something else; without length it is not sent. */
typedef void (*twist_fn)(struct conn *c, const struct msg *q, struct msg *a);

enum how {
	NORMAL,
	IGNORE,
	DROP,
	NO_RECEIVES,
	ENDLESS,
	/* The session outlives its connection; what is special about the next one: */
	RESUME = 16, /* and above */
	RESUME_IGNORED,
	RESUME_REJECTED
};

struct target_case {
	const char *name;
	/*
	 * ls, ping, put; patient: put with a long deadline; verify: put and get;
	 * placed, granted: put --placed and get, with a READ behind the WRITE, and without;
	 * twice: put, and once more; send: a message; digest; verified: put --verify;
	 * grow: a disk, which is to grow
	 */
	const char *command;
	u8 status;
	u8 limit;           /* seconds */
	const char *says;   /* regular expression */
	const char *end;    /* the same, of the line that tells how it ended */
	struct patch patch; /* of a reply */
	u8 on;              /* the request at which this is done: */
	twist_fn twist;
	u64 arg;
	enum how how;
	int received, messages; /* so many more than it has, says one that resumes */
	const char *no_iwarp;   /* why not there */
	const char *no_roce;
};

extern const struct target_case cases[];
extern const u32 cases_count;

const struct target_case *find_case(const struct conn *c);
/* Does the case do its twist at this type of request? */
bool twisted(const struct target_case *is, u8 type);

#endif /* PEER_TARGET_H */
