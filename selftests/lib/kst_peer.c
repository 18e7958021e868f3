// SPDX-License-Identifier: GPL-2.0
/*
 * The helper in node B: the same program, which `on B` starts there. It listens, exports memory and
 * reads commands from its standard input, one for each line. It replies each with a line that
 * begins with "ok" or "no".
 *
 *	export NAME mem|memfd LENGTH RIGHTS SEED [MAX_SEGMENTS]
 *	unexport NAME
 *	fill NAME OFFSET LENGTH SEED
 *	check NAME OFFSET LENGTH SEED	replies the offset of the first wrong byte in the range,
 *					or -1
 *	value NAME OFFSET		replies the 8 bytes there, as a number
 *	set NAME OFFSET VALUE
 *	adders NAME OFFSET TIMES N	N processes add 1, TIMES times each
 *	fault NAME TIMES		kst_fault()
 *	seal NAME SEALS			of a memfd
 *	queue NAME			opens the file of the message queue
 *	receive NAME N PAUSE		reads N messages, with PAUSE ms before each;
 *					replies how many are wrong (struct kst_message)
 *	ready NAME			replies poll(2) of the message queue
 *	rest NAME			reads to the end of the message queue; replies how many
 *	slow NAME MS PAUSE		as receive, for MS ms; replies how many there were
 *	pins				replies nr_foll_pin_acquired - nr_foll_pin_released
 *	relisten			ends all inbound sessions
 *	sessions UID			replies the number of inbound sessions of a user
 *	segments UID			replies the number of segments registered for a user
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kst.h"

/* ---- in node B ---- */

struct peer_export {
	char name[KRDMA_NAME_MAX];
	__u32 id;
	void *mem;
	int fd; /* memfd, else -1 */
	__u64 length;
	int queue;                    /* or -1 */
	__u32 next[KST_MESSAGE_FROM]; /* number of the next message of each sender */
};

static struct peer_export peer_exports[16];
static int peer_fd;

static struct peer_export *peer_find(const char *name)
{
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(peer_exports); i++)
		if (!strcmp(peer_exports[i].name, name))
			return &peer_exports[i];
	return NULL;
}

static int peer_export(const char *name, const char *kind, __u64 length, __u32 rights,
		       unsigned int seed, __u32 max_segments)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.rights = rights,
		.length = length,
		.max_segments = max_segments,
	};
	struct peer_export *e = peer_find("");
	int rc;

	if (!e || strlen(name) >= sizeof(e->name))
		return -ENOSPC;
	e->fd = -1;
	e->queue = -1;
	memset(e->next, 0, sizeof(e->next));
	e->mem = NULL;
	e->length = length;
	strcpy(cmd.name, name);
	if (!strcmp(kind, "memfd")) {
		e->fd = memfd_create(name, MFD_ALLOW_SEALING);
		if (e->fd < 0 || ftruncate(e->fd, length) ||
		    fcntl(e->fd, F_ADD_SEALS, F_SEAL_SHRINK))
			return -errno;
		cmd.flags = KRDMA_EXPORT_FD;
		cmd.fd = e->fd;
	} else {
		e->mem = kst_map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		kst_fill(e->mem, 0, length, seed);
		cmd.addr = (uintptr_t)e->mem;
	}
	rc = kst_call(peer_fd, KRDMA_IOC_EXPORT, &cmd);
	if (rc)
		return rc;
	e->id = cmd.id;
	strcpy(e->name, name);
	return 0;
}

static int peer_unexport(struct peer_export *e)
{
	int rc = kst_destroy(peer_fd, e->id);

	if (e->mem)
		munmap(e->mem, e->length);
	if (e->fd >= 0)
		close(e->fd);
	/* To be read to its end. */
	if (e->queue >= 0)
		return rc;
	e->name[0] = 0;
	return rc;
}

static int peer_look(struct peer_export *e, bool fill, __u64 offset, size_t length,
		     unsigned int seed, long *wrong)
{
	void *mem = e->mem ? (char *)e->mem + offset : NULL;

	if (offset > e->length || length > e->length - offset)
		return -ERANGE;
	if (fill && !mem)
		return -EOPNOTSUPP;
	if (fill) {
		kst_fill(mem, offset, length, seed);
		return 0;
	}
	if (mem) {
		*wrong = kst_check(mem, offset, length, seed);
		return 0;
	}
	mem = malloc(length + 1);
	if (!mem || pread(e->fd, mem, length, offset) != (ssize_t)length) {
		free(mem);
		return -EIO;
	}
	*wrong = kst_check(mem, offset, length, seed);
	free(mem);
	return 0;
}

static int peer_value(struct peer_export *e, bool set, __u64 offset, __u64 to, long *value)
{
	__u64 *at = (__u64 *)((char *)e->mem + offset);

	if (!e->mem || offset > e->length - sizeof(*at))
		return -ERANGE;
	if (set)
		__atomic_store_n(at, to, __ATOMIC_SEQ_CST);
	*value = (long)__atomic_load_n(at, __ATOMIC_SEQ_CST);
	return 0;
}

/* ---- messages ---- */

/* What is wrong with one, or NULL. */
static const char *peer_message(struct peer_export *e, const struct krdma_message *m)
{
	struct krdma_sockaddr from = kst_small_ipv4(KST_A, 0);
	__u32 sender = m->value >> 32 & 0xff, number = m->value;

	if (m->size != (sizeof(*m) + m->length + 7) / 8 * 8 || m->reserved)
		return "its size";
	if (m->uid || !m->session || m->peer.family != from.family ||
	    memcmp(m->peer.addr, from.addr, sizeof(from.addr)))
		return "who it is from";
	if (m->flags & KRDMA_MESSAGE_WRITTEN) {
		/* Number @number was written there, just before. */
		if (m->length ||
		    kst_check((char *)e->mem + number % KST_MESSAGE_SLOTS * KST_MESSAGE_BYTES,
			      number, KST_MESSAGE_BYTES, sender) >= 0)
			return "what it tells of is not there";
	} else if (kst_check(m + 1, number, m->length, sender) >= 0) {
		return "its bytes";
	}
	if (sender >= KST_MESSAGE_FROM)
		return "its value";
	if (number != e->next[sender]++) {
		e->next[sender] = number + 1;
		return "its place in the order";
	}
	return NULL;
}

/* Reads some: how many, or a negative errno. One at a time if there is a pause. */
static int peer_read(struct peer_export *e, bool one, long *wrong)
{
	static __u64 buf[16384];
	ssize_t got = read(e->queue, buf,
			   one ? sizeof(struct krdma_message) + KRDMA_MESSAGE_MAX : sizeof(buf));
	const struct krdma_message *m = (void *)buf;
	const char *why;
	int n = 0;

	if (got < 0)
		return -errno;
	for (; got > 0; got -= m->size, m = (void *)((char *)m + m->size), n++) {
		why = peer_message(e, m);
		if (!why)
			continue;
		printf("# message %#llx of %u bytes: %s\n", (unsigned long long)m->value, m->length,
		       why);
		++*wrong;
	}
	return n;
}

static int peer_receive(struct peer_export *e, unsigned int n, unsigned int pause, long *wrong)
{
	int rc;

	for (*wrong = 0; n; n -= rc) {
		if (pause)
			usleep(pause * 1000);
		rc = peer_read(e, pause, wrong);
		if (rc <= 0)
			return rc ? rc : -ENODATA;
		if ((unsigned int)rc > n)
			return -EOVERFLOW;
	}
	return 0;
}

/* A slow receiver: how many it got, or an error if one of them was wrong. */
static int peer_slow(struct peer_export *e, unsigned int ms, unsigned int pause, long *n)
{
	struct pollfd p = { .fd = e->queue, .events = POLLIN };
	double end = kst_seconds() + ms / 1000.0, now;
	long wrong = 0;
	int rc;

	for (*n = 0; (now = kst_seconds()) < end; *n += rc) {
		usleep(pause * 1000);
		rc = poll(&p, 1, (end - now) * 1000);
		if (rc > 0)
			rc = peer_read(e, true, &wrong);
		if (rc < 0)
			return rc;
	}
	return wrong ? -EBADMSG : 0;
}

static int peer_rest(struct peer_export *e, long *n)
{
	long wrong = 0;
	int rc;

	for (*n = 0; (rc = peer_read(e, false, &wrong)) > 0; *n += rc)
		;
	close(e->queue);
	e->name[0] = 0;
	return rc ? rc : wrong ? -EBADMSG : 0;
}

/* ---- on either node: add to a number of node B ---- */

int kst_add(const char *name, __u64 offset, unsigned int times, bool async)
{
	struct krdma_completion comps[32];
	__u64 before[KST_ARRAY_SIZE(comps)] = { 0 }, last = 0;
	struct krdma_op ops[KST_ARRAY_SIZE(comps)];
	__u32 session, region, n, i, accepted;
	int fd = kst_open(), rc;

	if (kst_connect(fd, 0, &session) ||
	    kst_open_region(fd, session, name, KRDMA_RIGHT_ATOMIC, &region, NULL))
		goto bad;
	for (; times; times -= n) {
		n = times < KST_ARRAY_SIZE(ops) ? times : KST_ARRAY_SIZE(ops);
		for (i = 0; i < n; i++) {
			ops[i] = kst_op(KRDMA_OP_FETCH_ADD, region, offset, &before[i], 8);
			ops[i].operand = 1;
		}
		if (!async) {
			rc = kst_submit(fd, ops, comps, n, NULL);
		} else {
			rc = kst_start(fd, ops, n, &accepted);
			for (i = 0; !rc && i < accepted; i += rc, rc = 0) {
				rc = kst_reap(fd, comps + i, n - i);
				if (rc <= 0)
					goto bad;
			}
			n = accepted;
		}
		for (i = 0; !rc && i < n; i++) {
			rc = comps[i].status;
			/* All that were done before this call have been counted. */
			if (!rc && before[i] < last)
				rc = -EILSEQ;
		}
		if (rc)
			goto bad;
		last = before[0];
	}
	close(fd);
	return 0;
bad:
	kst_diag("%s", kst_last_error(fd, NULL));
	fflush(stdout);
	close(fd);
	return 1;
}

static int peer_adders(const char *name, __u64 offset, unsigned int times, unsigned int n)
{
	int rc = 0, status;
	unsigned int i;

	fflush(stdout);
	for (i = 0; i < n; i++)
		if (!fork())
			_exit(kst_add(name, offset, times, i % 2));
	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			rc = -EIO;
	return rc;
}

static int peer_listen(void)
{
	struct krdma_ioc_listen listen = {
		.size = sizeof(listen),
		.addr = kst_ipv4("0.0.0.0", KST_PORT),
	};

	return kst_call(peer_fd, KRDMA_IOC_LISTEN, &listen);
}

static int peer_unlisten(void)
{
	struct krdma_ioc_unlisten unlisten = {
		.size = sizeof(unlisten),
		.addr = kst_ipv4("0.0.0.0", KST_PORT),
	};

	return kst_call(peer_fd, KRDMA_IOC_UNLISTEN, &unlisten);
}

struct peer_user {
	__u32 uid;
	long segments;
};

static bool peer_session_of(const void *entry, void *arg)
{
	const struct krdma_session_info *s = entry;
	struct peer_user *user = arg;

	if (!(s->flags & KRDMA_SESSION_INBOUND) || s->uid != user->uid)
		return false;
	user->segments += s->segments;
	return true;
}

static int peer_do(const char *line, long *value)
{
	char verb[16] = "", name[KRDMA_NAME_MAX] = "", kind[16] = "";
	unsigned long long a = 0, b = 0, c = 0, d = 0;
	struct peer_user user = { 0 };
	struct peer_export *e;

	if (sscanf(line, "%15s %63s", verb, name) < 1)
		return -EINVAL;
	if (!strcmp(verb, "sessions") || !strcmp(verb, "segments")) {
		user.uid = strtoul(name, NULL, 10);
		*value = kst_count(KRDMA_LIST_SESSIONS, peer_session_of, &user);
		if (!strcmp(verb, "segments"))
			*value = user.segments;
		return 0;
	}
	if (!strcmp(verb, "pins")) {
		*value = kst_now().pins;
		return 0;
	}
	if (!strcmp(verb, "relisten")) {
		int rc = peer_unlisten();

		return rc ? rc : peer_listen();
	}
	if (!strcmp(verb, "fault"))
		return sscanf(line, "%*s %*s %llu", &a) == 1 ? kst_fault(name, a) : -EINVAL;
	if (!strcmp(verb, "export")) {
		if (sscanf(line, "%*s %*s %15s %llu %llu %llu %llu", kind, &a, &b, &c, &d) < 4)
			return -EINVAL;
		return peer_export(name, kind, a, b, c, d);
	}
	e = name[0] ? peer_find(name) : NULL;
	if (!e)
		return -ENOENT;
	sscanf(line, "%*s %*s %llu %llu %llu", &a, &b, &c);
	if (!strcmp(verb, "unexport"))
		return peer_unexport(e);
	if (!strcmp(verb, "value") || !strcmp(verb, "set"))
		return peer_value(e, verb[0] == 's', a, b, value);
	if (!strcmp(verb, "adders"))
		return peer_adders(name, a, b, c);
	if (!strcmp(verb, "seal"))
		return fcntl(e->fd, F_ADD_SEALS, (int)a) ? -errno : 0;
	if (!strcmp(verb, "queue")) {
		e->queue = kst_message_queue(peer_fd, e->id, 0);
		return e->queue < 0 ? e->queue : 0;
	}
	if (!strcmp(verb, "receive"))
		return peer_receive(e, a, b, value);
	if (!strcmp(verb, "slow"))
		return peer_slow(e, a, b, value);
	if (!strcmp(verb, "rest"))
		return peer_rest(e, value);
	if (!strcmp(verb, "ready")) {
		struct pollfd p = { .fd = e->queue, .events = POLLIN };

		*value = poll(&p, 1, 0) < 0 ? -errno : p.revents;
		return 0;
	}
	if (!strcmp(verb, "fill") || !strcmp(verb, "check"))
		return peer_look(e, verb[0] == 'f', a, b, c, value);
	return -EINVAL;
}

static void peer_main(void)
{
	char line[512];
	int rc;

	peer_fd = kst_open();
	rc = peer_listen();
	if (rc && rc != -EEXIST)
		kst_bail("node B can't listen: %s", kst_last_error(peer_fd, NULL));
	printf("ok listening\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long value = 0;

		rc = peer_do(line, &value);
		if (rc)
			printf("no %s\n", strerror(-rc));
		else
			printf("ok %ld\n", value);
		fflush(stdout);
	}
	peer_unlisten();
	exit(0);
}

/* ---- in node A ---- */

static FILE *peer_in, *peer_out;
static char peer_self[512];
static pid_t peer_pid;

void kst_main(int argc, char **argv, int nodes)
{
	const char *have = getenv("LAB_NODES");
	ssize_t n;

	if (argc > 1 && !strcmp(argv[1], "peer"))
		peer_main();
	/* A helper that goes away is a failed command, not the end. */
	signal(SIGPIPE, SIG_IGN);
	if (access("/dev/krdma_mover", F_OK))
		kst_skip_all("there is no /dev/krdma_mover: load the module");
	if (nodes > 1 && (!have || atoi(have) < nodes))
		kst_skip_all("needs two nodes");
	n = readlink("/proc/self/exe", peer_self, sizeof(peer_self) - 1);
	if (n < 0)
		kst_bail("/proc/self/exe: %s", strerror(errno));
}

const char *kst_peer(const char *fmt, ...)
{
	static char line[512];
	va_list args;

	if (!peer_in)
		return NULL;
	if (fmt) {
		va_start(args, fmt);
		vfprintf(peer_in, fmt, args);
		va_end(args);
		fprintf(peer_in, "\n");
		fflush(peer_in);
	}
	do {
		if (!fgets(line, sizeof(line), peer_out)) {
			kst_diag("node B's helper is gone");
			return NULL;
		}
		line[strcspn(line, "\n")] = 0;
	} while (line[0] == '#');
	if (!strncmp(line, "ok ", 3))
		return line + 3;
	kst_diag("node B: %s", line);
	return NULL;
}

bool kst_have_peer(void)
{
	return peer_in;
}

bool kst_peer_has(const char *name, __u64 offset, __u64 length, unsigned int seed)
{
	const char *reply = kst_peer("check %s %llu %llu %u", name, (unsigned long long)offset,
				     (unsigned long long)length, seed);

	if (reply && !strcmp(reply, "-1"))
		return true;
	kst_diag("node B, %llu bytes at %llu of %s: wrong at %s", (unsigned long long)length,
		 (unsigned long long)offset, name, reply ? reply : "?");
	return false;
}

bool kst_peer_start(void)
{
	const char *have = getenv("LAB_NODES");
	int to[2], from[2];

	if (!have || atoi(have) < 2)
		return false;
	if (pipe(to) || pipe(from))
		kst_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	peer_pid = fork();
	if (peer_pid < 0)
		kst_bail("fork: %s", strerror(errno));
	if (!peer_pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[0]);
		close(to[1]);
		close(from[0]);
		close(from[1]);
		execlp("on", "on", "B", peer_self, "peer", NULL);
		fprintf(stderr, "on: %s\n", strerror(errno));
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	peer_in = fdopen(to[1], "w");
	peer_out = fdopen(from[0], "r");
	if (!kst_peer(NULL))
		kst_bail("node B's helper did not start");
	return true;
}

void kst_peer_stop(void)
{
	if (!peer_in)
		return;
	fclose(peer_in);
	fclose(peer_out);
	peer_in = NULL;
	waitpid(peer_pid, NULL, 0);
}

/* ---- a whole test ---- */

static struct kst_state kst_before;

int kst_setup(bool peer)
{
	kst_before = kst_now();
	if (peer)
		kst_peer_start();
	return kst_open();
}

int kst_setup_region(int fd, const char *name, __u64 length, __u32 *session, __u32 *region,
		     __u64 *segment)
{
	int rc;

	if (!kst_peer("export %s mem %llu 3 %d", name, (unsigned long long)length, KST_BASE))
		return -EREMOTEIO;
	rc = kst_connect(fd, 0, session);
	return rc ? rc : kst_open_region(fd, *session, name, 0, region, segment);
}

bool kst_teardown(int fd)
{
	close(fd);
	/* What node B still has is in the same counts where it is this one. */
	kst_peer_stop();
	return kst_same(&kst_before);
}
