/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens to WRITEs and messages when the first channel is lost (driver/initiator/loss.c,
 * message.c; driver/rdma/control.c): an initiator posts operations 1 to OPS in order, odd ones are
 * WRITEs, each even one is the message behind that, while the connection is lost, LAST times, at
 * any point. A connection delivers in order what was posted on it, and what it has delivered may be
 * acknowledged or not: by the adapter; on iWARP by the READ behind a WRITE, and by a later message
 * that counts those received. How it is connected again is in loss.pml.
 *
 * A message comes once, in order, and when its WRITE has arrived; the WRITE does not arrive behind
 * it, as the target may use that memory: the assertions. Without one of the rules, spin has to find
 * a run that breaks them:
 *
 *	NO_FENCE	the target keeps the last queue pair, and accepts
 *	NO_COUNT	messages are sent again without asking which were received
 *	NO_PROOF	a WRITE is repeated although a message behind it was received
 *	NO_ORDER	messages are sent again before the WRITEs are done again
 *	NO_ACK		what completes when TCP has it is not done again
 */
#define OPS  4
#define LAST 2
#ifdef NO_ORDER
#define HELD false
#else
#define HELD (replay[1] || replay[3])
#endif

chan wire[LAST + 1] = [OPS] of { byte };
chan acks[LAST + 1] = [OPS] of { byte };

/* The target. */
bool qp[LAST + 1];
bool written[OPS + 1];
byte received; /* messages */

/* A queue pair of the target. */
active [LAST + 1] proctype receiver()
{
	byte op;

end:
	do
	:: atomic { qp[_pid] && nempty(wire[_pid]) ->
		wire[_pid]?op;
		if
		:: op % 2 -> assert(received < (op + 1) / 2); written[op] = true
		:: else -> assert(received == op / 2 - 1 && written[op - 1]); received++
		fi;
		acks[_pid]!op;
		op = 0 }
	od
}

/* The initiator. */
bool done[OPS + 1];
bool again[OPS + 1]; /* to be posted again; messages wait for WRITEs */
bool replay[OPS + 1]; /* WRITEs that are done again */

active proctype initiator()
{
	byte up, next = 1, op;

	qp[0] = true;
end:
	do
	:: atomic { next <= OPS && (next % 2 || !(again[2] || again[4] || HELD)) ->
		wire[up]!next;
#ifdef NO_ACK
		done[next] = true;
#endif
		next++ }
	:: atomic { nempty(acks[up]) ->
		acks[up]?op;
		done[op] = true;
		replay[op] = false;
		op = 0 }
	:: atomic { again[1] -> again[1] = false; wire[up]!1 }
	:: atomic { again[3] -> again[3] = false; wire[up]!3 }
	:: atomic { again[2] && !HELD -> again[2] = false; wire[up]!2 }
	:: atomic { again[4] && !again[2] && !HELD -> again[4] = false; wire[up]!4 }
	/* It is lost; the next connection tells what was received on the last. */
	:: atomic { up < LAST ->
#ifndef NO_FENCE
		qp[up] = false;
#endif
		up++;
		qp[up] = true;
		for (op : 1 .. OPS) {
			if
			:: op >= next || done[op] -> skip
#ifndef NO_PROOF
			:: op < next && !done[op] && op % 2 && received >= (op + 1) / 2 ->
				done[op] = true;
				again[op] = false;
				replay[op] = false
			:: op < next && !done[op] && op % 2 && received < (op + 1) / 2 ->
#else
			:: op < next && !done[op] && op % 2 ->
#endif
				again[op] = true;
				replay[op] = true
#ifndef NO_COUNT
			:: op < next && !done[op] && !(op % 2) && received >= op / 2 ->
				done[op] = true;
				again[op] = false
			:: op < next && !done[op] && !(op % 2) && received < op / 2 ->
#else
			:: op < next && !done[op] && !(op % 2) ->
#endif
				again[op] = true
			fi
		}
		op = 0 }
	od
}
