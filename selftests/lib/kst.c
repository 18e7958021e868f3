// SPDX-License-Identifier: GPL-2.0
/* Shared by the C tests, except the helper in node B (kst_peer.c). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kst.h"

static int kst_results, kst_failures;
/* With the harness a test that gives up is not the end of the others. */
bool kst_in_harness;

/* ---- results ---- */

bool kst_ok(bool good, const char *fmt, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++kst_results);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	kst_failures += !good;
	return good;
}

void kst_diag(const char *fmt, ...)
{
	va_list args;

	printf("# ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void kst_skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	exit(4);
}

void kst_bail(const char *fmt, ...)
{
	va_list args;

	printf(kst_in_harness ? "# " : "Bail out! ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	exit(1);
}

int kst_done(void)
{
	kst_peer_stop();
	printf("1..%d\n", kst_results);
	return kst_failures ? 1 : 0;
}

unsigned int kst_number(const char *name, unsigned int usual)
{
	const char *text = getenv(name);

	return text && *text ? (unsigned int)atoi(text) : usual;
}

/* ---- calls ---- */

int kst_open(void)
{
	int fd = open("/dev/krdma_mover", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		kst_bail("/dev/krdma_mover: %s", strerror(errno));
	return fd;
}

int kst_call(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

int kst_destroy(int fd, __u32 id)
{
	struct krdma_ioc_destroy cmd = { .size = sizeof(cmd), .id = id };

	return kst_call(fd, KRDMA_IOC_DESTROY, &cmd);
}

int kst_buffer(int fd, void *addr, __u64 length, __u32 flags, __u32 *id)
{
	struct krdma_ioc_buffer cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.addr = (uintptr_t)addr,
		.length = length,
	};
	int rc = kst_call(fd, KRDMA_IOC_BUFFER, &cmd);

	if (!rc && id)
		*id = cmd.id;
	return rc;
}

int kst_export(int fd, const char *name, void *addr, __u64 length, __u32 rights, __u32 *id)
{
	struct krdma_ioc_export cmd = {
		.size = sizeof(cmd),
		.rights = rights,
		.addr = (uintptr_t)addr,
		.length = length,
	};
	int rc;

	strncpy(cmd.name, name, sizeof(cmd.name) - 1);
	rc = kst_call(fd, KRDMA_IOC_EXPORT, &cmd);
	if (!rc && id)
		*id = cmd.id;
	return rc;
}

const char *kst_text_ipv4(const char *text)
{
	if (!strcmp(text, KST_A))
		return getenv("LOCAL_V4") ?: text;
	if (!strcmp(text, KST_B))
		return getenv("REMOTE_V4") ?: text;
	return text;
}

struct krdma_sockaddr kst_small_ipv4(const char *text, __u16 port)
{
	struct krdma_sockaddr addr = { .family = AF_INET, .port = port };

	if (inet_pton(AF_INET, kst_text_ipv4(text), addr.addr) != 1)
		kst_bail("'%s' is no IPv4 address", text);
	return addr;
}

struct __kernel_sockaddr_storage kst_ipv4(const char *text, __u16 port)
{
	struct __kernel_sockaddr_storage addr = { 0 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, kst_text_ipv4(text), &in.sin_addr) != 1)
		kst_bail("'%s' is no IPv4 address", text);
	memcpy(&addr, &in, sizeof(in));
	return addr;
}

int kst_connect(int fd, __u32 flags, __u32 *id)
{
	struct krdma_ioc_connect cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.dst = kst_ipv4(KST_B, KST_PORT),
	};
	int rc = kst_call(fd, KRDMA_IOC_CONNECT, &cmd);

	if (!rc)
		*id = cmd.id;
	return rc;
}

int kst_message_queue(int fd, __u32 id, __u32 flags)
{
	struct krdma_ioc_message_queue cmd = { .size = sizeof(cmd), .flags = flags, .id = id };
	int rc = kst_call(fd, KRDMA_IOC_MESSAGE_QUEUE, &cmd);

	return rc ? rc : cmd.fd;
}

int kst_open_region(int fd, __u32 session, const char *name, __u32 rights, __u32 *id,
		    __u64 *segment)
{
	struct krdma_ioc_open cmd = {
		.size = sizeof(cmd),
		.session = session,
		.rights = rights,
	};
	int rc;

	strncpy(cmd.name, name, sizeof(cmd.name) - 1);
	rc = kst_call(fd, KRDMA_IOC_OPEN, &cmd);
	if (rc)
		return rc;
	*id = cmd.id;
	if (segment)
		*segment = cmd.segment_size;
	return 0;
}

int kst_submit(int fd, struct krdma_op *ops, struct krdma_completion *comps, __u32 n, __u32 *failed)
{
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)ops,
		.completions = (uintptr_t)comps,
		.count = n,
		.op_stride = sizeof(*ops),
		.completion_stride = sizeof(*comps),
	};
	int rc = kst_call(fd, KRDMA_IOC_SUBMIT, &cmd);

	if (failed)
		*failed = cmd.failed;
	return rc;
}

struct krdma_op kst_op(int opcode, __u32 region, __u64 offset, const void *addr, __u64 length)
{
	return (struct krdma_op){
		.opcode = opcode,
		.region = region,
		.offset = offset,
		.length = length,
		.addr = (uintptr_t)addr,
		.timeout_ns = KST_TIMEOUT_NS,
	};
}

int kst_start(int fd, struct krdma_op *ops, __u32 n, __u32 *accepted)
{
	struct krdma_ioc_submit cmd = {
		.size = sizeof(cmd),
		.flags = KRDMA_SUBMIT_ASYNC,
		.ops = (uintptr_t)ops,
		.count = n,
		.op_stride = sizeof(*ops),
	};
	int rc = kst_call(fd, KRDMA_IOC_SUBMIT, &cmd);

	if (accepted)
		*accepted = rc ? 0 : cmd.accepted;
	return rc;
}

int kst_reap(int fd, struct krdma_completion *comps, unsigned int n)
{
	ssize_t got = read(fd, comps, n * sizeof(*comps));

	return got < 0 ? -errno : (int)(got / sizeof(*comps));
}

int kst_cancel(int fd, __u64 user_data, __u32 flags)
{
	struct krdma_ioc_cancel cmd = { .size = sizeof(cmd),
					.flags = flags,
					.user_data = user_data };
	int rc = kst_call(fd, KRDMA_IOC_CANCEL, &cmd);

	return rc ? rc : (int)cmd.count;
}

int kst_move(int fd, int opcode, __u32 region, __u64 offset, void *addr, __u64 length, __u64 *moved)
{
	struct krdma_op op = kst_op(opcode, region, offset, addr, length);
	struct krdma_completion comp = { .status = -ENODATA };
	int rc = kst_submit(fd, &op, &comp, 1, NULL);

	if (moved)
		*moved = comp.result;
	return rc ? rc : comp.status;
}

const char *kst_last_error(int fd, int *err)
{
	static struct krdma_ioc_last_error cmd;
	int rc;

	memset(&cmd, 0xff, sizeof(cmd));
	cmd.size = sizeof(cmd);
	rc = kst_call(fd, KRDMA_IOC_LAST_ERROR, &cmd);
	if (rc)
		kst_bail("LAST_ERROR: %s", strerror(-rc));
	if (!memchr(cmd.text, 0, sizeof(cmd.text)))
		kst_bail("the text of LAST_ERROR has no end");
	if (err)
		*err = cmd.error;
	return cmd.text;
}

static const char *kst_errno_name(int rc)
{
	static char text[2][64];
	static int i;

	i = !i;
	snprintf(text[i], sizeof(text[i]), "%s%s", rc ? "E" : "",
		 rc ? strerrorname_np(rc < 0 ? -rc : rc) + 1 : "success");
	return text[i];
}

static bool kst_rc(bool good, int rc, int want)
{
	if (!good)
		kst_diag("got %s, expected %s", kst_errno_name(rc), kst_errno_name(want));
	return good;
}

bool kst_sentence(int fd, int want, const char *word)
{
	const char *text;
	int err;

	text = kst_last_error(fd, &err);
	if (err == -want && (!word || strstr(text, word)) && strchr(text, ' '))
		return true;
	kst_diag("the sentence for %s%s%s%s is '%s', for %s", kst_errno_name(want),
		 word ? " (with '" : "", word ? word : "", word ? "' in it)" : "", text,
		 kst_errno_name(err));
	return false;
}

bool kst_failed(int fd, int rc, int want, const char *word)
{
	return kst_rc(rc == want, rc, want) && (!want || kst_sentence(fd, want, word));
}

/* The list at the top of the uapi header, and EILSEQ of PING. */
bool kst_documented(int rc)
{
	static const int errnos[] = {
		0,          ENOTTY,     E2BIG,     EOPNOTSUPP, EINVAL,
		EFAULT,     ENOENT,     EEXIST,    ERANGE,     EACCES,
		EPERM,      ESTALE,     ETIMEDOUT, ECANCELED,  ECONNREFUSED,
		ENOTCONN,   ECONNRESET, ENOMEM,    EDQUOT,     EPROTO,
		EIO,        EBADF,      EINTR,     EILSEQ,     EADDRNOTAVAIL,
		EADDRINUSE, ENODEV,     EBUSY,
	};
	size_t i;

	for (i = 0; i < KST_ARRAY_SIZE(errnos); i++)
		if (rc == -errnos[i])
			return true;
	return false;
}

/* ---- state ---- */

static int kst_lister(void)
{
	static int fd = -1;
	static pid_t of;

	if (fd < 0 || of != getpid()) {
		fd = kst_open();
		of = getpid();
	}
	return fd;
}

int kst_count(enum krdma_list_kind kind, bool (*match)(const void *entry, void *arg), void *arg)
{
	static __u64 room[64 * 64];
	struct krdma_ioc_list cmd = {
		.size = sizeof(cmd),
		.kind = kind,
		.entries = (uintptr_t)room,
		.stride = 512,
	};
	int n = 0, rc;
	__u32 i;

	do {
		cmd.count = sizeof(room) / cmd.stride;
		rc = kst_call(kst_lister(), KRDMA_IOC_LIST, &cmd);
		if (rc)
			kst_bail("LIST of kind %d: %s", kind, strerror(-rc));
		for (i = 0; i < cmd.count; i++)
			n += !match || match((char *)room + i * cmd.stride, arg);
	} while (cmd.cursor);
	return n;
}

/* Lingering sessions and those of the peer come and go by themselves. */
static bool kst_session_ours(const void *entry, void *arg)
{
	const struct krdma_session_info *s = entry;
	unsigned int *users = arg;

	if (s->flags & (KRDMA_SESSION_INBOUND | KRDMA_SESSION_LINGERING) || !s->users)
		return false;
	*users += s->users;
	return true;
}

static bool kst_region_fresh(const void *entry, void *arg)
{
	const struct krdma_region_info *r = entry;

	(void)arg;
	return !(r->flags & KRDMA_REGION_STALE);
}

long kst_line(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[256];
	long value = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			value = strtol(line + strlen(key), NULL, 10);
	if (file)
		fclose(file);
	return value;
}

long kst_vmpin(void)
{
	return kst_line("/proc/self/status", "VmPin:");
}

struct kst_state kst_now(void)
{
	struct kst_state now = { 0 };
	long acquired;
	char c;
	int fd;

	/* Counters of each CPU are summed up when this is read. */
	fd = open("/proc/sys/vm/stat_refresh", O_RDONLY);
	if (fd >= 0) {
		if (read(fd, &c, 1) < 0)
			kst_diag("stat_refresh: %s", strerror(errno));
		close(fd);
	}
	acquired = kst_line("/proc/vmstat", "nr_foll_pin_acquired ");
	if (acquired < 0)
		kst_bail("/proc/vmstat has no nr_foll_pin_acquired");
	now.pins = acquired - kst_line("/proc/vmstat", "nr_foll_pin_released ");
	now.vmpin = kst_vmpin();
	now.accounted = kst_line("/sys/class/misc/krdma_mover/counters/pinned_bytes", "");
	now.listeners = kst_count(KRDMA_LIST_LISTENERS, NULL, NULL);
	now.sessions = kst_count(KRDMA_LIST_SESSIONS, kst_session_ours, &now.users);
	now.exports = kst_count(KRDMA_LIST_EXPORTS, NULL, NULL);
	now.regions = kst_count(KRDMA_LIST_REGIONS, kst_region_fresh, NULL);
	now.transfers = kst_count(KRDMA_LIST_TRANSFERS, NULL, NULL);
	return now;
}

/* What is to be as before, and since when it has been as it is. */
struct kst_back {
	const struct kst_state *before;
	struct kst_state now;
	double since;
};

/* It is, or it does not change any more: what goes on may take its time. */
static bool kst_back_or_still(void *arg)
{
	struct kst_back *back = arg;
	struct kst_state was = back->now;

	back->now = kst_now();
	if (memcmp(&back->now, &was, sizeof(was)))
		back->since = kst_seconds();
	return !memcmp(&back->now, back->before, sizeof(was)) ||
	       kst_seconds() > back->since + KST_STILL_MS / 1e3;
}

#define KST_TELL(field)                                                                            \
	do {                                                                                       \
		if (now.field != before->field)                                                    \
			kst_diag(#field " was %ld, is %ld", (long)before->field, (long)now.field); \
	} while (0)

bool kst_same(const struct kst_state *before)
{
	struct kst_back back = { .before = before, .since = kst_seconds() };
	struct kst_state now;

	kst_wait(kst_back_or_still, &back);
	now = back.now;
	if (!memcmp(&now, before, sizeof(now)))
		return true;
	KST_TELL(pins);
	KST_TELL(vmpin);
	KST_TELL(accounted);
	KST_TELL(listeners);
	KST_TELL(sessions);
	KST_TELL(users);
	KST_TELL(exports);
	KST_TELL(regions);
	KST_TELL(transfers);
	return false;
}

double kst_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static int kst_fault_set(const char *name, const char *file, unsigned int value)
{
	char path[100], text[20];
	int out, n, rc = 0;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", name, file);
	n = snprintf(text, sizeof(text), "%u", value);
	out = open(path, O_WRONLY);
	if (out < 0)
		return -errno;
	if (write(out, text, n) != n)
		rc = -errno;
	close(out);
	return rc;
}

int kst_fault(const char *name, unsigned int times)
{
	int rc = kst_fault_set(name, "verbose", 0);

	if (!rc)
		rc = kst_fault_set(name, "times", times);
	return rc ? rc : kst_fault_set(name, "probability", times ? 100 : 0);
}

static void kst_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

bool kst_wait_ms(int ms, bool (*cond)(void *arg), void *arg)
{
	double until = kst_seconds() + ms / 1e3;

	while (!cond(arg)) {
		if (kst_seconds() > until)
			return false;
		kst_nap();
	}
	return true;
}

bool kst_wait(bool (*cond)(void *arg), void *arg)
{
	return kst_wait_ms(60000 * kst_number("TIME_FACTOR", 1), cond, arg);
}

/* ---- memory ---- */

void *kst_map(size_t length, int prot, int flags)
{
	void *mem = mmap(NULL, length, prot, flags | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		kst_bail("mmap of %zu bytes: %s", length, strerror(errno));
	return mem;
}

static uint32_t kst_word(__u64 offset, unsigned int seed)
{
	uint32_t h = ((uint32_t)(offset >> 2) + seed * 0x10001u + 1) * 2654435761u;

	return h ^ h >> 15;
}

static unsigned char kst_byte(__u64 offset, unsigned int seed)
{
	return kst_word(offset, seed) >> (offset & 3) * 8;
}

void kst_fill(void *mem, __u64 offset, size_t length, unsigned int seed)
{
	unsigned char *p = mem;
	uint32_t word;

	for (; length && offset & 3; length--)
		*p++ = kst_byte(offset++, seed);
	for (; length >= 4; length -= 4, p += 4, offset += 4) {
		word = kst_word(offset, seed);
		memcpy(p, &word, 4);
	}
	for (; length; length--)
		*p++ = kst_byte(offset++, seed);
}

long kst_check(const void *mem, __u64 offset, size_t length, unsigned int seed)
{
	const unsigned char *p = mem;
	uint32_t word;
	size_t i = 0;

	while (i < length) {
		if (!((offset + i) & 3) && length - i >= 4) {
			word = kst_word(offset + i, seed);
			if (!memcmp(p + i, &word, 4)) {
				i += 4;
				continue;
			}
		}
		if (p[i] != kst_byte(offset + i, seed))
			return i;
		i++;
	}
	return -1;
}

bool kst_all(const void *mem, size_t length, unsigned char byte)
{
	const unsigned char *p = mem;

	return !length || (p[0] == byte && !memcmp(p, p + 1, length - 1));
}
