/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers that messages carry: why a connection ends, and the status of a reply. */
#ifndef KRDMA_CODES_H
#define KRDMA_CODES_H

/* Why a connection was refused or ended. */
enum krdma_wire_reason {
	KRDMA_WIRE_REASON_NONE = 0, /* the session is not needed any more */
	KRDMA_WIRE_REASON_MALFORMED = 1,
	KRDMA_WIRE_REASON_VERSION = 2,
	KRDMA_WIRE_REASON_NOT_ADMITTED = 3,
	KRDMA_WIRE_REASON_LIMIT = 4,     /* too many sessions, or no memory */
	KRDMA_WIRE_REASON_SHUTDOWN = 5,  /* module unload, device or listener removed */
	KRDMA_WIRE_REASON_PROTOCOL = 6,  /* the peer broke the protocol */
	KRDMA_WIRE_REASON_TIMEOUT = 7,   /* a reply did not come in time */
	KRDMA_WIRE_REASON_TRANSPORT = 8, /* the queue pair was lost */
	KRDMA_WIRE_REASON_ADMIN = 9,     /* an administrator ends it */
};

#define KRDMA_WIRE_REASON_LAST KRDMA_WIRE_REASON_ADMIN

/* Status of a reply; a reply whose status is not OK is a header alone. */
enum krdma_wire_status {
	KRDMA_WIRE_OK = 0,
	KRDMA_WIRE_NOENT = 1,       /* no export of that name */
	KRDMA_WIRE_ACCES = 2,       /* right not granted */
	KRDMA_WIRE_STALE = 3,       /* no such grant, or it is over */
	KRDMA_WIRE_LIMIT = 4,       /* a limit of the target */
	KRDMA_WIRE_RANGE = 5,       /* outside the export */
	KRDMA_WIRE_NOMEM = 6,       /* the target lacks memory */
	KRDMA_WIRE_UNSUPPORTED = 7, /* a right that the session or the device lacks */
	KRDMA_WIRE_IO = 8,          /* the target's memory can't be reached */
	KRDMA_WIRE_AWAY = 9,        /* the path is lost there */
	KRDMA_WIRE_BUSY = 10,       /* a grant of another excludes it */
};

#define KRDMA_WIRE_STATUS_LAST KRDMA_WIRE_BUSY

#endif /* KRDMA_CODES_H */
