/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens to WRITEs when a channel is lost (driver/initiator/loss.c): a program
 * writes 1, then 2 to the same byte, each when the one before has ended, while channel 1 is lost and
 * connected again, at any point. The network loses, delays, reorders and repeats packets, requests
 * to connect and accepts; a FENCE and its reply go over channel 0, which loses nothing. Channel 0
 * is the first: the session would end with it, or resume (resume.pml).
 *
 * For spin, by selftests/tools/check. When a WRITE has ended, nothing of it and of those before
 * arrives any more: the assertion. Without one of the rules that make the fence, spin has to
 * find a run that breaks it:
 *
 *	NO_FENCE	a WRITE is repeated at once, not when its channel has been up again, or
 *			the target has replied to the FENCE of its connection
 *	NO_REPLACE	the target accepts a channel although it has the last queue pair of it
 *	NO_END		the target replies to a FENCE and keeps its queue pair
 *	NO_LINGER	a WRITE whose deadline has passed ends at once
 *	NO_NAME		a FENCE names the last connection that was asked for, not the one that is lost
 */
#define WRITES 2
/* Connection 0 is the first channel's, 1 to LAST are channel 1's, one after the other. */
#define LAST    3
#define PACKETS ((LAST + 1) * WRITES)

/* The initiator. */
byte up = 1;     /* connection of channel 1; 0: it is down */
byte began = 1;  /* the last that it asked for */
byte was_up = 1; /* the last that was up */
byte ended;      /* WRITEs */

/*
 * The target: queue pairs by connection, and what they have done. Each request is done once. A
 * connection has one queue pair and never another: ib_cm knows a request that comes again.
 */
bool qp[LAST + 1];
bool made[LAST + 1];
bool done[PACKETS];

/* FENCE by the connection that is lost: which one it names, 0: not sent; and the reply to it. */
byte fence[LAST + 1];
bool fenced[LAST + 1];

/* The network: what is on its way. */
bool sent[PACKETS];
bool acked[PACKETS];
bool asked[LAST + 1];
bool accepted[LAST + 1];

/* A WRITE of _pid % WRITES + 1 on connection _pid / WRITES arrives, perhaps not for the last time. */
active [PACKETS] proctype packet()
{
end:
	do
	:: atomic { sent[_pid] ->
		if
		:: sent[_pid] = false
		:: skip
		fi;
		if
		:: qp[_pid / WRITES] && !done[_pid] ->
			assert(_pid % WRITES + 1 > ended);
			done[_pid] = true;
			acked[_pid] = true
		:: qp[_pid / WRITES] && done[_pid] -> acked[_pid] = true
		:: skip /* lost, or nobody is there */
		fi }
	od
}

/* A request for a connection arrives, perhaps not for the last time. */
active proctype target()
{
	byte n;

	qp[0] = true;
	qp[1] = true;
end:
	do
	:: atomic { asked[2] || asked[3] ->
		if
		:: asked[2] -> n = 2
		:: asked[3] -> n = 3
		fi;
		if
		:: asked[n] = false
		:: skip
		fi;
		if
#ifndef NO_REPLACE
		/* The last queue pair ends first; the initiator has to ask again. */
		:: qp[1] || qp[2] || qp[3] -> qp[1] = false; qp[2] = false; qp[3] = false
		:: !made[n] && !(qp[1] || qp[2] || qp[3]) ->
#else
		:: !made[n] ->
#endif
			qp[n] = true;
			made[n] = true;
			accepted[n] = true
		:: skip /* lost */
		fi;
		n = 0 }
	/* A FENCE: the queue pair that it names ends, if there is one. */
	:: atomic { (fence[1] && !fenced[1]) || (fence[2] && !fenced[2]) ->
		if
		:: fence[1] && !fenced[1] -> n = 1
		:: fence[2] && !fenced[2] -> n = 2
		fi;
#ifndef NO_END
		qp[fence[n]] = false;
#endif
		fenced[n] = true;
		n = 0 }
	/* It loses a queue pair, or notices that the initiator has. */
	:: atomic { qp[1] -> qp[1] = false }
	:: atomic { qp[2] -> qp[2] = false }
	:: atomic { qp[3] -> qp[3] = false }
	od
}

/* The initiator's channel 1. */
active proctype channel()
{
end:
	do
	:: atomic { up && up < LAST -> up = 0 }
	:: atomic { !up && began < LAST -> began++; asked[began] = true }
	:: atomic { !up && began > 1 && !asked[began] -> asked[began] = true }
	:: atomic { !up && began > 1 && accepted[began] -> up = began; was_up = began }
#ifndef NO_NAME
	:: atomic { !up && !fence[was_up] -> fence[was_up] = was_up }
#else
	:: atomic { !up && !fence[was_up] -> fence[was_up] = began }
#endif
	od
}

/* The program, and the module that does its WRITEs. */
active proctype writer()
{
	byte n;

	do
	:: ended == WRITES -> break
	:: ended < WRITES ->
		/* The channel of its processor, or the first if that is not up. */
		if
		:: n = up
		:: n = 0
		fi;
		do
		:: atomic { (!n || up == n) && !sent[n * WRITES + ended] -> sent[n * WRITES + ended] = true }
		:: atomic { (!n || up == n) && acked[n * WRITES + ended] -> ended++; n = 0; break }
		:: atomic { n && up != n ->
#ifndef NO_FENCE
			(was_up > n || fenced[n]);
#endif
			/* It goes on, or its deadline has passed. */
			if
			:: skip
			:: ended++
			fi;
			break }
#ifdef NO_LINGER
		:: atomic { n && up != n -> ended++; break }
#endif
		od
	od
}
