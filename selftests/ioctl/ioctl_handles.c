// SPDX-License-Identifier: GPL-2.0
/*
 * Ids: of another kind, of another file, of what is gone; how many there may
 * be; files that are passed on, duplicated and inherited; and names.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst_harness.h"

static int fd;
static bool have_peer;
static void *memory; /* a page */

static int buffer(int file, __u32 *id)
{
	return kst_buffer(file, memory, KST_PAGE, KRDMA_BUFFER_WRITABLE, id);
}

static int ping(int file, __u32 session)
{
	struct krdma_ioc_ping cmd = { .size = sizeof(cmd), .session = session };

	return kst_call(file, KRDMA_IOC_PING, &cmd);
}

static int peer_list(int file, __u32 session)
{
	static struct krdma_peer_export_info entries[12];
	struct krdma_ioc_list cmd = {
		.size = sizeof(cmd),
		.kind = KRDMA_LIST_PEER_EXPORTS,
		.session = session,
		.entries = (uintptr_t)entries,
		.stride = sizeof(entries[0]),
		.count = 12,
	};

	return kst_call(file, KRDMA_IOC_LIST, &cmd);
}

static int open_region(int file, __u32 session)
{
	__u32 id;
	int rc = kst_open_region(file, session, "handles-peer", 0, &id, NULL);

	return rc ? rc : kst_destroy(file, id);
}

static int move(int file, __u32 region, __u32 id)
{
	struct krdma_op op = {
		.opcode = KRDMA_OP_READ,
		.flags = id ? KRDMA_OPF_BUFFER : 0,
		.region = region,
		.length = 8,
		.addr = id ? 0 : (uintptr_t)memory,
		.buffer = id,
	};
	struct krdma_completion comp = { .status = -ENODATA };
	int rc = kst_submit(file, &op, &comp, 1, NULL);

	return rc ? rc : comp.status;
}

/* One object of each kind. */
struct objects {
	__u32 session, region, buffer, export;
};

static void make_objects(int file, struct objects *o, const char *name)
{
	memset(o, 0, sizeof(*o));
	if (buffer(file, &o->buffer) ||
	    kst_export(file, name, memory, KST_PAGE, KRDMA_RIGHT_READ, &o->export) ||
	    (have_peer && (kst_connect(file, 0, &o->session) ||
			   kst_open_region(file, o->session, "handles-peer", 0, &o->region, NULL))))
		kst_bail("objects: %s", kst_last_error(file, NULL));
}

static struct objects first;

KST_FIXTURE(handles, fd)
FIXTURE_SETUP(handles)
{
	memory = kst_map(KST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	fd = kst_setup(true);
	have_peer = kst_have_peer();
	ASSERT_NOT(have_peer && !kst_peer("export handles-peer mem 65536 3 1"),
		   "no export of node B");
	make_objects(fd, &first, "handles-first");
	self->before = kst_now();
}

/* @id is none that @file can use as a session, a region or a buffer. */
static bool nobody_takes(int file, __u32 id, __u32 region, int kinds)
{
	bool good = true;
	char word[16];

	snprintf(word, sizeof(word), "%u", id);
#define REFUSES(_call)                                                     \
	do {                                                               \
		int rc = _call;                                            \
                                                                           \
		if (rc != -ENOENT || !kst_sentence(file, -ENOENT, word)) { \
			kst_diag(#_call " of %u: %s", id, strerror(-rc));  \
			good = false;                                      \
		}                                                          \
	} while (0)
	if (kinds & 1) {
		REFUSES(ping(file, id));
		REFUSES(peer_list(file, id));
		REFUSES(open_region(file, id));
	}
	if (kinds & 2)
		REFUSES(move(file, id, 0));
	/* 0 says that there is no buffer: a reserved member then. */
	if (kinds & 4 && region && id)
		REFUSES(move(file, region, id));
	if (kinds & 8)
		REFUSES(kst_destroy(file, id));
	return good;
}

/* ---- ids ---- */

TEST_F(handles, kinds)
{
	const __u32 none[] = { 0, 4000, INT_MAX, 1U << 31, UINT_MAX };
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(none); i++)
		EXPECT_THAT(nobody_takes(fd, none[i], first.region, 1 | 2 | 4 | 8),
			    "an id that was never given is ENOENT, whatever for");
	EXPECT_THAT(nobody_takes(fd, first.buffer, first.region, 1 | 2),
		    "a buffer is only a buffer");
	EXPECT_THAT(nobody_takes(fd, first.export, first.region, 1 | 2 | 4),
		    "an export is only an export");
	if (!have_peer)
		return;
	EXPECT_THAT(nobody_takes(fd, first.session, first.region, 2 | 4),
		    "a session is only a session");
	EXPECT_THAT(nobody_takes(fd, first.region, first.region, 1 | 4),
		    "a region is only a region");
	EXPECT_THAT(!ping(fd, first.session) && !peer_list(fd, first.session) &&
			    !open_region(fd, first.session) && !move(fd, first.region, 0) &&
			    !move(fd, first.region, first.buffer),
		    "each still works as what it is");
}

TEST_F(handles, files)
{
	const __u32 ids[] = { first.buffer, first.export, first.session, first.region };
	struct objects mine;
	size_t i;
	int other;

	other = kst_open();
	for (i = 0; i < KST_ARRAY_SIZE(ids); i++)
		EXPECT_THAT(!ids[i] || nobody_takes(other, ids[i], 0, 1 | 2 | 8),
			    "ids of another file are ENOENT");
	make_objects(other, &mine, "handles-other");
	if (have_peer)
		EXPECT_THAT(!move(other, mine.region, mine.buffer) &&
				    !move(fd, first.region, first.buffer),
			    "two files that share a session have a region each");
	close(other);
	EXPECT_SAME(&self->before, "they end with their file, and the first file's stay");
	if (have_peer)
		EXPECT_IS(0, move(fd, first.region, first.buffer), "and still work");
}

TEST_F(handles, destroyed)
{
	struct objects o, again;
	bool good;

	make_objects(fd, &o, "handles-gone");
	good = !kst_destroy(fd, o.buffer) && !kst_destroy(fd, o.export);
	if (have_peer)
		good &= !kst_destroy(fd, o.region) && !kst_destroy(fd, o.session);
	EXPECT_THAT(good, "DESTROY ends each kind");
	good = nobody_takes(fd, o.buffer, 0, 1 | 2 | 8) && nobody_takes(fd, o.export, 0, 1 | 2 | 8);
	if (have_peer)
		good &= nobody_takes(fd, o.region, 0, 1 | 2 | 8) &&
			nobody_takes(fd, o.session, 0, 1 | 2 | 8);
	EXPECT_THAT(good, "what is destroyed is ENOENT, also to DESTROY");
	EXPECT_SAME(&self->before, "and nothing is left of it");

	make_objects(fd, &again, "handles-gone");
	EXPECT_THAT(again.export && again.buffer, "its name and its id are free at once");
	kst_destroy(fd, again.buffer);
	kst_destroy(fd, again.export);
	if (have_peer) {
		/* The other way round: the region outlives its session's id. */
		kst_destroy(fd, again.session);
		EXPECT_FAILS(fd, open_region(fd, again.session), -ENOENT, NULL,
			     "no region can be opened through a destroyed session");
		EXPECT_IS(0, kst_destroy(fd, again.region), "a region can be destroyed after it");
	}
}

TEST_F(handles, limit)
{
	struct krdma_ioc_query q = { .size = sizeof(q) };
	struct kst_state full;
	int file = kst_open(), rc;
	__u32 id = 0, last = 0, n = 0;
	char word[16];

	kst_call(file, KRDMA_IOC_QUERY, &q);
	snprintf(word, sizeof(word), "%u", q.max_ids);
	while (n <= q.max_ids && !(rc = buffer(file, &id))) {
		last = id;
		n++;
	}
	EXPECT_THAT(n == q.max_ids, "a file can have the %u objects that QUERY tells of",
		    q.max_ids);
	EXPECT_FAILS(file, rc, -EDQUOT, word, "one more is EDQUOT");
	rc = kst_export(file, "handles-limit", memory, KST_PAGE, KRDMA_RIGHT_READ, &id);
	EXPECT_FAILS(file, rc, -EDQUOT, word, "so is one of another kind");
	full = kst_now();
	EXPECT_THAT(full.pins == self->before.pins + (long)n &&
			    full.exports == self->before.exports,
		    "each has pinned its page, and those refused nothing: %ld pins for %u buffers",
		    full.pins - self->before.pins, n);
	kst_call(file, KRDMA_IOC_QUERY, &q);
	EXPECT_THAT(q.pinned_bytes == n * KST_PAGE, "QUERY tells of them");
	EXPECT_THAT(!kst_destroy(file, last) && !buffer(file, &id) && buffer(file, &id) == -EDQUOT,
		    "with one destroyed there is room for one");
	rc = buffer(fd, &id);
	EXPECT_THAT(!rc && !kst_destroy(fd, id), "another file is not limited by it");
	close(file);
}

/* ---- the file on its ways ---- */

static void send_fd(int sock, int file, struct objects *o)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = o, .iov_len = sizeof(*o) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &file, sizeof(file));
	if (sendmsg(sock, &msg, 0) != sizeof(*o))
		kst_bail("sendmsg: %s", strerror(errno));
}

static int recv_fd(int sock, struct objects *o)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = o, .iov_len = sizeof(*o) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};
	int file = -1;

	if (recvmsg(sock, &msg, 0) == sizeof(*o) && CMSG_FIRSTHDR(&msg))
		memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(file));
	return file;
}

/* Exit status of a child that got the file: which step went wrong, 0 if none. */
static int use_passed(int file, const struct objects *o)
{
	__u32 id;

	if (file < 0)
		return 1;
	if (have_peer && (ping(file, o->session) || move(file, o->region, o->buffer)))
		return 2;
	if (buffer(file, &id) || kst_destroy(file, id))
		return 3;
	if (kst_destroy(file, o->buffer) || kst_destroy(file, o->buffer) != -ENOENT)
		return 4;
	/* A last one, to be cleaned up with the file. */
	return buffer(file, &id) ? 5 : 0;
}

TEST_F(handles, passing)
{
	int pair[2], file, status, go[2];
	struct objects o;
	char c = 0;
	pid_t pid;

	ASSERT_NOT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(go), "socketpair: %s",
		   strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(pair[0]);
		close(go[1]);
		file = recv_fd(pair[1], &o);
		/* The opener has closed it when this comes. */
		if (read(go[0], &c, 1) != 1)
			_exit(9);
		_exit(use_passed(file, &o));
	}
	close(pair[1]);
	close(go[0]);
	file = kst_open();
	make_objects(file, &o, "handles-passed");
	send_fd(pair[0], file, &o);
	close(file);
	ASSERT_NOT(write(go[1], &c, 1) != 1, "pipe: %s", strerror(errno));
	waitpid(pid, &status, 0);
	EXPECT_THAT(WIFEXITED(status) && !WEXITSTATUS(status),
		    "a file passed to another process works after the opener has closed it");
	close(pair[0]);
	close(go[1]);
}

TEST_F(handles, copies)
{
	int file = kst_open(), copy, status;
	struct objects o;
	pid_t pid;

	make_objects(file, &o, "handles-copy");
	copy = dup(file);
	close(file);
	EXPECT_THAT(!have_peer || (!ping(copy, o.session) && !move(copy, o.region, o.buffer)),
		    "a duplicate is the same file");
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(use_passed(copy, &o));
	waitpid(pid, &status, 0);
	EXPECT_THAT(WIFEXITED(status) && !WEXITSTATUS(status), "so is one inherited by a child");
	EXPECT_THAT(nobody_takes(copy, o.buffer, o.region, 1 | 2) &&
			    kst_destroy(copy, o.export) == 0,
		    "what the child destroyed is gone, the rest is there");
	close(copy);
}

/* ---- names ---- */

static int export_raw(const char *name, size_t n, __u32 *id)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.rights = KRDMA_RIGHT_READ,
		.addr = (uintptr_t)memory,
		.length = KST_PAGE,
	};
	int rc;

	memcpy(cmd.name, name, n);
	rc = kst_call(fd, KRDMA_IOC_EXPORT, &cmd);
	*id = cmd.id;
	return rc;
}

static int open_raw(__u32 session, const char *name, size_t n)
{
	struct krdma_ioc_open cmd = { .size = sizeof(cmd), .session = session };

	memcpy(cmd.name, name, n);
	return kst_call(fd, KRDMA_IOC_OPEN, &cmd);
}

TEST_F(handles, names)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	static const char signs[] = "0.9_a-z:A+Z=";
	char name[KRDMA_NAME_MAX];
	__u32 session = first.session;
	__u32 id, other;
	int c;

	EXPECT_THAT(!export_raw("x", 1, &id) && !kst_destroy(fd, id) &&
			    !export_raw(ok, strlen(ok), &id) && !kst_destroy(fd, id) &&
			    !export_raw(signs, strlen(signs), &id) && !kst_destroy(fd, id),
		    "a name has letters, digits and . _ - : + =");
	memset(name, 'n', sizeof(name));
	EXPECT_IS(0, export_raw(name, 63, &id), "63 of them");
	kst_destroy(fd, id);
	EXPECT_FAILS(fd, export_raw(name, 64, &id), -EINVAL, "name", "64 without a NUL are EINVAL");
	EXPECT_FAILS(fd, export_raw("", 0, &id), -EINVAL, "name", "none are EINVAL");
	for (c = 1; c < 256; c++) {
		char one[2] = { 'a', c };

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    strchr("0123456789._-:+=", c))
			continue;
		EXPECT_IS(-EINVAL, export_raw(one, 2, &id), "byte %d is EINVAL", c);
		EXPECT_THAT(!session || open_raw(session, one, 2) == -EINVAL,
			    "byte %d is EINVAL to OPEN, too", c);
	}
	if (session) {
		EXPECT_FAILS(fd, open_raw(session, name, 64), -EINVAL, "name",
			     "OPEN of 64 bytes without a NUL is EINVAL");
		EXPECT_FAILS(fd, open_raw(session, "", 0), -EINVAL, "name",
			     "OPEN of no name as well");
		EXPECT_FAILS(fd, open_raw(session, name, 63), -ENOENT, NULL, "of 63 it is ENOENT");
	}
	EXPECT_SAME(&self->before, "none of them is there now");

	EXPECT_IS(0, export_raw("twice", 5, &id), "a name");
	EXPECT_FAILS(fd, export_raw("twice", 5, &other), -EEXIST, "'twice'",
		     "is EEXIST a second time");
	EXPECT_IS(0, export_raw("Twice", 5, &other), "case matters");
	kst_destroy(fd, other);
	kst_destroy(fd, id);
}

/* ---- other users ---- */

static bool session_of(const void *entry, void *arg)
{
	const struct krdma_session_info *s = entry;
	const __u32 *uid = arg;

	return s->uid == *uid && s->users == 1 && !(s->flags & KRDMA_SESSION_INBOUND);
}

/* As the user nobody: the exit status is the step that failed. */
static int as_nobody(void)
{
	struct krdma_ioc_listen listen = {
		.size = sizeof(listen),
		.addr = kst_ipv4("0.0.0.0", KST_PORT + 4),
	};
	struct krdma_ioc_unlisten unlisten = { .size = sizeof(unlisten), .addr = listen.addr };
	__u32 id, uid = 65534;

	if (setresuid(uid, uid, uid))
		return 1;
	fd = kst_open();
	if (kst_call(fd, KRDMA_IOC_LISTEN, &listen) != -EPERM ||
	    !kst_sentence(fd, -EPERM, "CAP_NET_ADMIN"))
		return 2;
	if (kst_call(fd, KRDMA_IOC_UNLISTEN, &unlisten) != -EPERM ||
	    !kst_sentence(fd, -EPERM, "CAP_NET_ADMIN"))
		return 3;
	if (kst_count(KRDMA_LIST_SESSIONS, NULL, NULL) ||
	    kst_count(KRDMA_LIST_CHANNELS, NULL, NULL) ||
	    kst_count(KRDMA_LIST_REGIONS, NULL, NULL) || kst_count(KRDMA_LIST_EXPORTS, NULL, NULL))
		return 4;
	if (!have_peer)
		return 0;
	if (kst_connect(fd, 0, &id))
		return 5;
	/* Where both ends are one kernel the other end of the session is listed as well. */
	if (kst_count(KRDMA_LIST_SESSIONS, NULL, NULL) != (getenv("LAB_ONE_KERNEL") ? 2 : 1) ||
	    kst_count(KRDMA_LIST_SESSIONS, session_of, &uid) != 1)
		return 6;
	return 0;
}

TEST_F(handles, users)
{
	struct stat st;
	int status;
	pid_t pid;

	ASSERT_NOT(stat("/dev/krdma_mover", &st) || chmod("/dev/krdma_mover", 0666),
		   "/dev/krdma_mover: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(as_nobody());
	waitpid(pid, &status, 0);
	chmod("/dev/krdma_mover", st.st_mode & 07777);
	EXPECT_THAT(
		WIFEXITED(status) && !WEXITSTATUS(status),
		"another user can't listen, sees nothing of root's, has a session of its own: step %d of as_nobody() went wrong",
		WEXITSTATUS(status));
}

/* ---- at the same time ---- */

#define RACERS       3
#define RACE_OBJECTS 50 /* of each thread */

static volatile bool race_over;

/* Makes and destroys, while others destroy and use the same ids. */
static void *racer(void *arg)
{
	struct krdma_op op = { .opcode = KRDMA_OP_READ, .flags = KRDMA_OPF_BUFFER, .length = 1 };
	struct krdma_completion comp;
	unsigned int i, *made = arg;
	__u32 id, session;

	for (i = 0; !race_over; i++) {
		*made += !buffer(fd, &id);
		/* Any of these may be what another thread destroys just now. */
		if (have_peer && !(i % 4))
			*made += !kst_connect(fd, 0, &session);
		if (have_peer)
			*made += !kst_open_region(fd, 1 + i % 8, "handles-peer", 0, &id, NULL);
		op.region = 1 + i % 8;
		op.buffer = 1 + i / 8 % 8;
		kst_submit(fd, &op, &comp, 1, NULL);
		kst_move(fd, KRDMA_OP_READ, 1 + i / 8 % 8, 0, memory, 8, NULL);
		ping(fd, 1 + i % 8);
		kst_destroy(fd, 1 + i % 8);
		kst_destroy(fd, 1 + i / 3 % 8);
	}
	return NULL;
}

/* Each thread has made enough. */
static bool raced(void *arg)
{
	const volatile unsigned int *made = arg;
	unsigned int i;

	for (i = 0; i < RACERS; i++)
		if (made[i] < RACE_OBJECTS)
			return false;
	return true;
}

TEST_F(handles, race)
{
	unsigned int made[RACERS] = { 0 }, i, sum = 0;
	bool enough;
	int keep = fd;
	pthread_t t[RACERS];

	fd = kst_open();
	race_over = false;
	for (i = 0; i < RACERS; i++)
		pthread_create(&t[i], NULL, racer, &made[i]);
	enough = kst_wait(raced, made);
	race_over = true;
	for (i = 0; i < RACERS; i++) {
		pthread_join(t[i], NULL);
		sum += made[i];
	}
	/* Some that one made another destroyed, some none did. */
	for (i = 1; i < 4096; i++)
		kst_destroy(fd, i);
	EXPECT_THAT(enough, "%u objects made, used and destroyed by %d threads", sum, RACERS);
	EXPECT_SAME(&self->before, "all of them are gone, before the file is");
	close(fd);
	fd = keep;
}

KST_HARNESS_MAIN(1)
