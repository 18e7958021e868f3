/* SPDX-License-Identifier: GPL-2.0 */
/* Private header of the krdma command; prototypes are grouped by owning file. */
#ifndef CLI_H
#define CLI_H

#include <getopt.h>
#include <json-c/json.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <krdma/krdma.h>

#define KIB           1024ULL
#define MIB           (1024 * KIB)
#define NSEC_PER_SEC  1000000000ULL
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Exit status, by cause; krdma(8) has the list, and scripts rely on it. A command's run() returns
 * DONE, USAGE, UNSWAPPED or FAILED, of which fail() knows the cause.
 */
enum {
	DONE = 0,
	FAILED = 1,
	USAGE = 2,
	NOT_READY = 3,
	NO_ANSWER = 4,
	NOT_THERE = 5,
	NOT_ALLOWED = 6,
	IN_USE = 7,
	BYTES_DIFFER = 8,
	UNSWAPPED = 9
};

/**
 * struct command - one command
 * @name: its name
 * @alias: another name, or NULL
 * @usage: operands and options, one or more lines
 * @summary: what it does, one line
 * @help: the options, for 'krdma help NAME'
 * @run: argv[0] is the command's name; returns the exit status
 */
struct command {
	const char *name;
	const char *alias;
	const char *usage;
	const char *summary;
	const char *help;
	int (*run)(int argc, char **argv);
};

/* cmd_*.c */
extern const struct command cmd_apply, cmd_atomic, cmd_bench, cmd_blk, cmd_connect, cmd_cp,
	cmd_devices, cmd_digest, cmd_disconnect, cmd_doctor, cmd_drain, cmd_export, cmd_get,
	cmd_help, cmd_listen, cmd_ls, cmd_metrics, cmd_monitor, cmd_ping, cmd_put, cmd_recv,
	cmd_send, cmd_serve, cmd_show, cmd_status, cmd_top, cmd_version;

/* cmd_export.c */

/* Does RLIMIT_MEMLOCK bind this process? With CAP_IPC_LOCK there is no limit. */
bool memlock_counts(void);

/* main.c */
extern const struct command *const commands[]; /* NULL ends it */
const struct command *command_find(const char *name);
void command_help(const struct command *command);

/* Options that every command has; 'j' and 'p' are kept by output.c. */
#define COMMON_SHORT "hjp"
#define COMMON_LONG                                                             \
	{ "help", no_argument, NULL, 'h' }, { "json", no_argument, NULL, 'j' }, \
		{ "pretty", no_argument, NULL, 'p' },                           \
	{                                                                       \
		NULL, 0, NULL, 0                                                \
	}

/* Values of long options that have no letter. */
enum {
	OPT_LONG_ONLY = 256
};

/**
 * common_option() - what a command does with an option that is not its own
 * @command: the command
 * @argv: its arguments
 * @c: what getopt_long() returned
 *
 * Return: -1 to go on, else the exit status.
 */
int common_option(const struct command *command, char **argv, int c);
/*
 * The options of a command that has none of its own but --timeout; operands follow at
 * optind. Return: -1 to go on, else the exit status.
 */
int timeout_option(const struct command *command, int argc, char **argv, uint64_t *timeout_ns);

/* error.c */

/* What the command does, "put model.bin nodeB/scratch": fail() begins its sentences with it. */
void subject_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * The words of the command that is checked are in a file, on these lines: the subject is where
 * getopt_long() has read last. NULL ends it.
 */
void subject_follow(const char *file, const unsigned int *lines);
/*
 * One sentence on stderr, with the subject before it; with --json an object. Return FAILED. The
 * errno decides what exit_status() makes of that.
 */
int fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same of what is no failure. */
void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* With the last error of libkrdma. */
int fail_krdma(void);
/* krdma_new(). Return: DONE or FAILED */
int module_open(struct krdma **krdma);
/* Of the process, for what run() has returned. */
int exit_status(int rc);
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Block SIGINT and SIGTERM, to wait for them with sigwait(3). */
void stop_signals_block(sigset_t *signals);
/* Flush stdout; the status, or FAILED if what was printed did not get there. */
int finish_output(int status);

/* parse.c: each returns 0, or -1 for text that is not of the form. */

/**
 * struct region_spec - a region on the command line: HOST[:PORT]/NAME[@OFFSET[+LENGTH]]
 * @host: host and port, for krdma_resolve()
 * @name: name of the export
 * @offset: first byte, 0 if not given
 * @length: bytes, 0 if not given: all from @offset on
 * @copied: the command copies between it and a file: OF_A_SHARE is possible
 */
struct region_spec {
	char host[256];
	char name[KRDMA_NAME_MAX];
	uint64_t offset;
	uint64_t length;
	bool copied;
};

/* Does it consist of what names of exports consist of? */
bool name_ok(const char *name);
int parse_region(const char *text, struct region_spec *spec);
int parse_size(const char *text, uint64_t *bytes);
int parse_count(const char *text, uint64_t max, uint64_t *count);
int parse_seconds(const char *text, uint64_t *ns);
/* The first line of a file, without its end. Return: false if there is none. */
bool first_line(const char *path, char *text, size_t size);

/* range.c */

/* A time of the command line in the unit of the uapi; 0 stays 0. */
uint32_t timeout_to_ms(uint64_t ns);
/* With KRDMA_CONNECT_*; all else is as the module has it. */
struct krdma_connect_options connect_options(uint32_t flags, uint64_t timeout_ns);

/* Options of commands that connect, beside their own. */
enum {
	OPT_RESUME = OPT_LONG_ONLY + 100,
	OPT_KEEPALIVE,
	OPT_PATH,
	OPT_POLICY
};

#define CONNECT_LONG                                             \
	{ "keepalive", required_argument, NULL, OPT_KEEPALIVE }, \
		{ "path", required_argument, NULL, OPT_PATH },   \
	{                                                        \
		"policy", required_argument, NULL, OPT_POLICY    \
	}

/* The value of one of these. Return: 0, or the exit status. */
int connect_option(int option, const char *text, struct krdma_connect_options *options);
const char *policy_name(uint32_t policy);

#define PATH_HELP                                                                                   \
	"  --keepalive SECONDS  notice a dead path within so many seconds and one more\n"           \
	"  --path HOST       one more path to the peer: another address of it; up to three;\n"      \
	"                    'auto': those that the peer tells\n"                                   \
	"  --policy NAME     which path an operation takes: 'in-flight', the one with the fewest\n" \
	"                    (default), 'round-robin' or 'latency'\n"

/**
 * struct range - a range of a peer's export, opened
 * @krdma: handle, closed by range_close()
 * @session: the session with the peer
 * @region: the export
 * @offset: first byte of the range
 * @length: its length
 */
struct range {
	struct krdma *krdma;
	uint32_t session;
	struct krdma_region region;
	uint64_t offset;
	uint64_t length;
};

/*
 * KRDMA_CONNECT_MESSAGES is added to the options if the rights need it. Return: the exit status; a
 * failure has been reported. Or OF_A_SHARE, unreported: there is no such export, and by its form
 * SHARE:PATH it may be a file of a share.
 */
#define OF_A_SHARE (-1)
int range_open(struct range *range, const struct region_spec *spec, uint32_t rights,
	       struct krdma_connect_options options);
/* The same export once more, over another private session. Return: the exit status. */
int range_open_again(const struct range *range, const struct region_spec *spec, uint32_t rights,
		     struct krdma_connect_options options, uint32_t *region);
void range_close(struct range *range);

/* output.c */
extern bool json_asked;
extern bool json_pretty;

enum field_kind {
	FIELD_TEXT,  /* string */
	FIELD_COUNT, /* number */
	FIELD_SIZE,  /* bytes, printed with a unit */
	FIELD_MS,    /* milliseconds; text prints seconds, and no _ms in the key */
	FIELD_REAL,  /* number, printed with one digit behind the point */
	FIELD_LIST,  /* array of strings, printed with commas */
};

/**
 * struct field - a member of an object, in JSON and in text
 * @key: its name
 * @kind: how text shows it
 * @wrap: objects_print() begins a new line before it
 */
struct field {
	const char *key;
	enum field_kind kind;
	bool wrap;
};

/* Print an array of objects as a table with a heading. */
void table_print(const struct field *fields, size_t count, struct json_object *rows);
/* Print each object as "TITLE value key value ...", as iproute2 does. */
void objects_print(const char *title, const struct field *fields, size_t count,
		   struct json_object *rows);
/* A new object for --json with its schema member. */
struct json_object *json_root(void);
/* Print and free it. */
void json_finish(struct json_object *root);
void json_add_text(struct json_object *object, const char *key, const char *text);
void json_add_count(struct json_object *object, const char *key, uint64_t value);
void json_add_real(struct json_object *object, const char *key, double value);
void json_add_hex(struct json_object *object, const char *key, uint64_t value);
void json_add_addr(struct json_object *object, const char *key, const struct krdma_sockaddr *addr);
/* An array of the names of the set bits; names[i] is the name of bit i. */
void json_add_flags(struct json_object *object, const char *key, uint32_t flags,
		    const char *const *names, size_t count);
void json_add_rights(struct json_object *object, const char *key, uint32_t rights);

#define SIZE_TEXT 24
const char *size_text(uint64_t bytes, char text[SIZE_TEXT]);
/* Rights as text: "read,write". */
#define RIGHTS_TEXT 48
const char *rights_text(uint32_t rights, char text[RIGHTS_TEXT]);

/* lists.c */

/**
 * struct list - a kind of object that the kernel lists
 * @kind: for krdma_iter_new()
 * @key: of the array in JSON
 * @title: what one is called in text
 * @fields: its members
 * @count: how many
 * @fill: put the members of an entry into an object
 */
struct list {
	enum krdma_list_kind kind;
	const char *key;
	const char *title;
	const struct field *fields;
	size_t count;
	void (*fill)(struct json_object *object, const void *entry);
};

extern const struct list list_devices, list_listeners, list_sessions, list_paths, list_channels,
	list_exports, list_grants, list_regions, list_transfers, list_peer_exports, list_latencies;

/* Of enum krdma_opcode. */
const char *operation_name(uint32_t opcode);

/* Add what the kernel lists to the object as an array. Return: 0 or -1. */
int list_fetch(struct krdma *krdma, const struct list *list, uint32_t session,
	       struct json_object *root);
/* Print what list_fetch() added to the object. */
void list_print_table(const struct list *list, struct json_object *root);
void list_print_objects(const struct list *list, struct json_object *root);

/* latency.c */

/* Nanoseconds that operations of a counter of struct krdma_latency_info took at most. */
uint64_t latency_bound(size_t bucket);

/* stats.c */
uint64_t now_ns(void);

#define STATS_SUB_BITS 11
#define STATS_BUCKETS  ((64 - STATS_SUB_BITS + 1) << STATS_SUB_BITS)

/**
 * struct stats - times of many operations, in constant memory
 * @count: how many
 * @min: least, ns
 * @max: greatest, ns
 * @sum: of all, ns
 * @sum_squares: of all, ns squared
 * @buckets: counts; a bucket is at most 1/2048 of its value wide
 */
struct stats {
	uint64_t count;
	uint64_t min;
	uint64_t max;
	double sum;
	double sum_squares;
	uint64_t buckets[STATS_BUCKETS];
};

void stats_add(struct stats *stats, uint64_t ns);
/* All in microseconds; 0 if nothing was added. */
double stats_min(const struct stats *stats);
double stats_max(const struct stats *stats);
double stats_average(const struct stats *stats);
double stats_stddev(const struct stats *stats);
double stats_percentile(const struct stats *stats, double percent);

/* progress.c */
struct progress {
	const char *name;
	uint64_t total; /* 0: unknown */
	uint64_t start_ns;
	bool shown;
};

void progress_update(struct progress *progress, uint64_t done);
/* Remove the bar, so that a message can follow. */
void progress_clear(struct progress *progress);

/* connection.c */

/*
 * How long operations wait without a --timeout: as long as the session does for a connection that
 * is lost, and the module's default. Return: ns; 0 for that default
 */
uint64_t patient_timeout(const struct range *range);

/**
 * struct watch - what the user was told of a connection
 * @moved: bytes, when it was looked at last
 * @lost: it was said to be lost
 */
struct watch {
	uint64_t moved;
	bool lost;
};

/*
 * If nothing has moved since the last time: say once that the connection is lost, and once that it
 * is back. The bar, if there is one, makes room.
 */
void connection_watch(struct watch *watch, const struct range *range, struct progress *progress,
		      uint64_t moved);

/* crew.c */

#define CREW_MAX 2

/**
 * struct crew - threads that work together until all end or one fails
 * @lock: protects the members below, and what the crew's user puts under it
 * @changed: broadcast at each change of them
 * @running: threads that have not ended
 * @failed: one has failed, the others shall stop
 * @error: its errno
 * @text: its error text
 * @started: entries in @threads; only the thread that made the crew uses it
 * @threads: threads to join
 */
struct crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int running;
	bool failed;
	int error;
	char text[512];
	unsigned int started;
	pthread_t threads[CREW_MAX];
};

void crew_init(struct crew *crew);
/* Start a thread; its last act is crew_leave(). */
void crew_start(struct crew *crew, void *(*work)(void *), void *arg);
void crew_leave(struct crew *crew);
/* Keep the errno and the text of the first failure. */
void crew_fail(struct crew *crew, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * With the lock held: wait until all have ended or one has failed, @limit_ns at most (0: no
 * limit). Return: false if the time has passed first.
 */
bool crew_wait_locked(struct crew *crew, uint64_t limit_ns);
/* After all have ended well. After a failure a thread may be stuck: exit instead. */
void crew_join(struct crew *crew);

/* pump.c */

/**
 * struct pump_job - bytes to move between a file and a peer's range
 * @range: the range
 * @opcode: KRDMA_OP_READ to the file, KRDMA_OP_WRITE from it
 * @length: bytes; for a WRITE, 0 if the length of the file is not known
 * @timeout_ns: deadline of each operation; 0 for the kernel's default, and as long again as the
 *	session waits for a connection that is lost
 * @depth: most operations under way
 * @flags: KRDMA_OPF_VERIFY, KRDMA_OPF_PLACED
 * @path: the file, NULL for standard input or output
 * @fd: for a WRITE, the file. A READ opens @path when the first bytes have
 *	come, so that a failure before them leaves the file as it was.
 * @progress: the bar, NULL for none
 * @quiet: do not say that the connection is lost
 * @moved: out: bytes moved
 * @elapsed_ns: out: how long that took
 */
struct pump_job {
	const struct range *range;
	enum krdma_opcode opcode;
	uint64_t length;
	uint64_t timeout_ns;
	unsigned int depth;
	uint32_t flags;
	const char *path;
	int fd;
	struct progress *progress;
	bool quiet;
	uint64_t moved;
	uint64_t elapsed_ns;
};

/*
 * Return: the exit status; a failure has been reported. After a failure, threads may
 * still wait for a slow file or the wire: leave the handle open and exit.
 */
int pump_run(struct pump_job *job);
/*
 * May read(2) or write(2) be done again, which has failed? Whoever shares a pipe or a terminal may
 * have made it not block: then this waits for @events of poll(2).
 */
bool io_again(int fd, short events);

/* engine_ioctl.c, engine_uring.c */

/**
 * struct engine - a way to keep operations under way, for 'krdma bench'
 * @name: its name on the command line
 * @open: make ready for @depth operations at a time on this memory, which is
 *	registered; without memory each operation pins its own
 * @place: let an operation use the memory at @where
 * @submit: start operations, in one call for all
 * @reap: wait until at least one operation has ended; put the user_data of those that
 *	have, @max at most, into @ended
 * @close: undo @open
 *
 * A process has one engine open at a time. @open and @submit return the exit status,
 * @reap the number of operations or -1. A failure, also of an operation, has been
 * reported then.
 */
struct engine {
	const char *name;
	int (*open)(struct krdma *krdma, void *memory, size_t length, unsigned int depth);
	void (*place)(struct krdma_op *op, char *where);
	int (*submit)(const struct krdma_op *ops, unsigned int count);
	int (*reap)(uint64_t *ended, unsigned int max);
	void (*close)(void);
};

extern const struct engine engine_ioctl, engine_uring;

/* load.c */

/* Rates over which the peak is taken. */
#define PEAK_MARKS 16

/**
 * struct load - operations to repeat, all of @ops at a time
 * @engine: does the operations
 * @ops: the operations; user_data of each is its number here
 * @depth: how many
 * @batch: operations of one call; 0: those that ended together are started together
 * @iterations: operations to do in all, UINT64_MAX for no limit but the time
 * @duration_ns: time to do them in; 0 for no limit
 * @done: out: operations done
 * @elapsed_ns: out: how long that took
 * @peak: out: most operations per second, of PEAK_MARKS halves of the depth
 * @stats: out: how long each took, from its submission until it was known to
 *	have ended; NULL for none
 */
struct load {
	const struct engine *engine;
	const struct krdma_op *ops;
	unsigned int depth;
	unsigned int batch;
	uint64_t iterations;
	uint64_t duration_ns;
	uint64_t done;
	uint64_t elapsed_ns;
	double peak;
	struct stats *stats;
};

/* Return: the exit status; a failure has been reported. */
int load_run(struct load *load);

#endif /* CLI_H */
