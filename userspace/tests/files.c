// SPDX-License-Identifier: GPL-2.0
/* The two ends of a stream of files, without a module: trees, replies, and chunks that lie. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"

#define BATCH 8 /* chunks on their way */
#define LONG  (3 * FILES_BLOCK + 5000)

static unsigned int tests, failures;
static char reply[FILES_CHUNK], chunks[BATCH][FILES_CHUNK];
static unsigned int complaints;

static void check(bool good, const char *what)
{
	tests++;
	failures += !good;
	printf("%s %u - %s\n", good ? "ok" : "not ok", tests, what);
}

static void complain(void *arg, int error, const char *text)
{
	(void)arg;
	complaints++;
	printf("# %d %s\n", error, text);
}

/* Reads of bytes from here to there fail, and so do those of this length at 0. */
static off_t broken_from, broken_to;
static size_t broken_length;

ssize_t pread(int fd, void *to, size_t length, off_t offset)
{
	if ((offset < broken_to && offset + (off_t)length > broken_from) ||
	    (!offset && length == broken_length)) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, to, length, offset);
}

static bool shell(const char *command)
{
	return system(command) == 0;
}

/* ---- From one end to the other ---- */

/* The user is at the receiver. */
static bool pulls;

/* All chunks, the last of each batch first. Return: 0, or what the receiver or the sender says. */
static int move(struct files_sender *s, struct files_receiver *r)
{
	uint32_t length[BATCH], reply_length;
	enum files_next next = FILES_CHUNK_READY;
	unsigned int n, turns = 0;
	int rc = 0;

	while (!rc && next != FILES_END && next != FILES_BROKEN && turns++ < 100000) {
		for (n = 0; n < BATCH; n++) {
			next = files_sender_pack(s, chunks[n], &length[n], false);
			if (next != FILES_CHUNK_READY)
				break;
		}
		while (!rc && n--) {
			rc = files_receiver_chunk(r, chunks[n], length[n], reply, &reply_length,
						  pulls ? complain : NULL, NULL);
			if (!rc)
				rc = files_sender_reply(s, reply, reply_length, complain, NULL);
		}
	}
	return rc ? rc : next == FILES_END ? 0 : -1;
}

/* Return: as move(); @counts: the sender's. */
static int copy(const char *from, const char *top, const char *to, bool into,
		struct files_counts *counts)
{
	const struct files_operand operand = { .dir = AT_FDCWD, .path = from, .top = top };
	struct files_sender *s =
		files_sender_new(&operand, 1, FILES_RECURSIVE, pulls ? NULL : complain, NULL);
	struct files_receiver *r =
		files_receiver_new(AT_FDCWD, to, 0, FILES_RECURSIVE | (into ? FILES_INTO : 0), top);
	int rc = -1;

	if (s && r) {
		rc = move(s, r);
		*counts = files_sender_counts(s);
	}
	files_sender_free(s);
	files_receiver_free(r);
	return rc;
}

static void test_trees(void)
{
	struct files_counts counts = { 0 };

	shell("mkdir -p tree/a/b tree/void && cd tree && for i in $(seq 300); do "
	      "head -c $((i * 97)) /dev/urandom >a/$i; done; : >empty; ln -s ../x link; "
	      "head -c 1048576 /dev/urandom >block; head -c 1048577 /dev/urandom >longer; "
	      "head -c 9000000 /dev/urandom >long; truncate -s 3G sparse; truncate -s 100K hole; "
	      "echo end | dd of=sparse bs=1M seek=2000 conv=notrunc status=none; chmod 400 a/1; "
	      "chmod 4755 a/2; mkfifo pipe; chmod 711 a/b; touch -d 2001-02-03 a/b a");
	complaints = 0;
	check(!copy("tree", "tree", "to/", true, &counts), "a tree, in any order of its chunks");
	check(complaints == 1, "and a complaint of what is no file");
	check(shell("rm tree/pipe; chmod 755 tree/a/2; touch -d 2001-02-03 tree/a; diff -r --no-dereference tree to/tree"),
	      "arrives");
	check(shell("cd tree && find . -mindepth 1 -printf '%P %y %m %T@ %l\\n' | sort >../1; cd ../to/tree && "
		    "find . -mindepth 1 -printf '%P %y %m %T@ %l\\n' | sort >../../2; cmp ../../1 ../../2"),
	      "with modes, times and links, but no set-user-id");
	check(shell("[ $(du -k to/tree/sparse to/tree/hole | awk '{ n += $1 } END { print n }') -lt 100 ]"),
	      "and with its holes");
	check(!copy("tree/a", "a", "to/other", false, &counts) && shell("diff -r tree/a to/other"),
	      "a directory under another name");
	check(!copy("tree/.", "", "to/in", true, &counts) &&
		      shell("diff -r --no-dereference tree to/in"),
	      "the contents of a directory");
	shell("echo other >>tree/a/7; rm to/tree/a/8 to/tree/longer");
	check(!copy("tree", "tree", "to/", true, &counts) &&
		      counts.sent == 7 * 97 + 6 + 8 * 97 + 1048577 &&
		      shell("diff -r --no-dereference tree to/tree"),
	      "what has changed is sent once more");
	check(shell("[ -z \"$(find to -name '.krdma-*')\" ]"), "nothing temporary is left");
}

/* Two directories become one, and the last file of a name stays. */
static void test_merge(void)
{
	const struct files_operand operands[] = { { AT_FDCWD, "one/d", "d", 0 },
						  { AT_FDCWD, "two/d", "d", 0 } };
	struct files_receiver *r;
	struct files_sender *s;
	bool good;

	shell("mkdir -p one/d two/d; head -c 3000000 /dev/urandom >one/d/long; "
	      "head -c 3000000 /dev/urandom >two/d/long; echo 1 >one/d/1; echo 22 >two/d/1; echo >one/d/only");
	s = files_sender_new(operands, 2, FILES_RECURSIVE, complain, NULL);
	r = files_receiver_new(AT_FDCWD, "merged", 0, FILES_RECURSIVE | FILES_INTO, NULL);
	complaints = 0;
	good = !move(s, r) && !complaints;
	files_sender_free(s);
	files_receiver_free(r);
	check(good && shell("cp one/d/only two/d && diff -r two/d merged/d && rm -r one two merged"),
	      "two directories of one name become one");
}

/* Many errors in one chunk, each with its file. */
static void test_many_errors(void)
{
	struct files_counts counts;

	shell("mkdir many dest && cd many && for i in $(seq 60); do echo $i >$i; mkdir ../dest/$i; done");
	complaints = 0;
	check(!copy("many/.", "", "dest", true, &counts) && complaints == 60 && !counts.files,
	      "each file that can't be made is reported, and none is counted");
	shell("rm -r dest; mkdir dest; echo file >dest/many");
	complaints = 0;
	check(!copy("many", "many", "dest", true, &counts) && complaints == 1 && !counts.files,
	      "and a directory once");
	shell("rm -r many dest");
}

static bool sends(uint64_t bytes)
{
	struct files_counts counts = { 0 };

	if (copy("long", "long", "dest/", true, &counts) || counts.sent != bytes) {
		printf("# sent %llu\n", (unsigned long long)counts.sent);
		return false;
	}
	return shell("cmp long dest/long && [ $(ls -A dest | wc -l) = 1 ]");
}

/* In the place of libc's. */
static bool disk_fails;

int fdatasync(int fd)
{
	if (!disk_fails)
		return (int)syscall(SYS_fdatasync, fd);
	errno = EIO;
	return -1;
}

/* As if a copy had ended after some bytes. */
static void interrupt(unsigned int bytes)
{
	char command[256], temp[FILES_TEMP];

	files_temp_name("long", temp);
	snprintf(command, sizeof(command),
		 "rm -rf dest; mkdir dest; umask 077; head -c %u long >dest/%s", bytes, temp);
	shell(command);
}

static void test_resume(void)
{
	shell("head -c 3150728 /dev/urandom >long");
	check(sends(LONG), "a long file");
	check(sends(0), "which is there");
	shell("printf different | dd of=long bs=1 seek=1100000 conv=notrunc status=none");
	check(sends(FILES_BLOCK), "of which a block differs");
	shell("truncate -s 3G long; truncate -s 1200128 long; truncate -s 3150728 long");
	check(sends(1200128 - FILES_BLOCK), "of which a part is a hole now");
	shell("head -c 3150728 /dev/urandom >long");
	interrupt(2 * FILES_BLOCK);
	check(sends(LONG - 2 * FILES_BLOCK), "which was interrupted between blocks");
	interrupt(2 * FILES_BLOCK + 1);
	check(sends(LONG - 2 * FILES_BLOCK), "within a block");
	interrupt(0);
	check(sends(LONG), "and before the first");
	shell("head -c 9000000 /dev/urandom >dest/long");
	check(sends(LONG), "in the place of a longer one");
	shell("truncate -s 0 long; truncate -s 520M long; head -c 1048576 /dev/urandom | "
	      "dd of=long bs=1M seek=518 iflag=fullblock conv=notrunc status=none");
	check(sends(FILES_BLOCK), "a longer one");
	shell("echo far | dd of=long bs=1M seek=518 conv=notrunc status=none");
	check(sends(FILES_BLOCK), "of which a block differs that one reply has no digest of");
	check(sends(0), "or none");
	shell("head -c 3150728 /dev/urandom >long");
	shell("rm dest/long; mkdir dest/long");
	complaints = 0;
	check(!sends(0) && complaints, "not in the place of a directory");
	check(shell("[ $(stat -c %a dest/.krdma-*) = 600 ]"), "where nobody else may use it");
	shell("rmdir dest/long");
	check(sends(0), "and it is gone on with when the directory is gone");
	shell("rm -r dest; mkdir dest");
	disk_fails = true;
	complaints = 0;
	check(!sends(LONG) && complaints == 1, "what does not reach the disk is not copied");
	disk_fails = false;
	check(sends(LONG), "and none of it is taken for written");
}

/* What can't be read is reported, wherever the chunk ends, and has no name at the receiver. */
static void test_read_errors(void)
{
	/* The third one fits into the first chunk, but no error about it. */
	const struct files_operand operands[] = { { AT_FDCWD, "a", "a", 0 },
						  { AT_FDCWD, "b", "b", 0 },
						  { AT_FDCWD, "c", "c", 0 } };
	struct files_counts counts;
	struct files_receiver *r;
	struct files_sender *s;

	shell("rm -rf dest long; head -c 3150728 /dev/urandom >long");
	broken_from = FILES_BLOCK + 8192;
	broken_to = broken_from + 1;
	complaints = 0;
	check(!copy("long", "long", "dest/", true, &counts) && complaints == 1 && !counts.files &&
		      shell("[ ! -e dest/long ]"),
	      "a long file with a byte that can't be read");
	pulls = true;
	complaints = 0;
	check(!copy("long", "long", "dest/", true, &counts) && complaints == 2 &&
		      shell("[ ! -e dest/long ]"),
	      "which the receiver reports as well");
	broken_to = 0;
	shell("head -c 1048576 /dev/zero >a; head -c 65360 /dev/zero >b; echo -n x >c");
	broken_length = 1;
	complaints = 0;
	s = files_sender_new(operands, 3, 0, NULL, NULL);
	r = files_receiver_new(AT_FDCWD, "dest", 0, FILES_INTO, NULL);
	check(!move(s, r) && complaints == 1 && shell("[ -e dest/b ] && [ ! -e dest/c ]"),
	      "an error that does not fit into the chunk");
	files_sender_free(s);
	files_receiver_free(r);
	broken_length = 0;
	pulls = false;
	shell("rm -r dest a b c");
}

static void test_deep(void)
{
	struct files_counts counts;

	shell("n=deep; for i in $(seq 99); do n=$n/d; done; mkdir -p $n/last && echo x >$n/last/no; "
	      "echo x >$n/yes; echo y >deep/z");
	complaints = 0;
	check(!copy("deep", "deep", "dest/", true, &counts) && complaints == 2 &&
		      shell("[ -e dest/deep/z ] && [ $(find dest/deep -type d | wc -l) = 100 ]"),
	      "a tree that is too deep, of which the rest is copied");
	shell("rm -r deep dest");
}

static void test_printable(void)
{
	char text[] = "\033[2Jx\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x9b\xc2\x9b\xc3 \x7f\xe2\x82";

	files_printable(text);
	check(!strcmp(text, "?[2Jx\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80???? ???"),
	      "no text has control characters");
}

/* ---- Chunks that lie ---- */

static struct files_writer writer;

static void begin(void)
{
	files_chunk_begin(&writer, chunks[0]);
}

/* With data if there is room. */
static void add(struct files_record record, const char *path, const char *data)
{
	char *to;

	record.path_length = (uint16_t)strlen(path);
	record.data_length = data ? (uint32_t)strlen(data) : 0;
	to = files_chunk_add(&writer, &record, path);
	if (to && data)
		memcpy(to, data, record.data_length);
}

static struct files_record file(uint64_t size)
{
	return (struct files_record){ .type = FILES_FILE, .mode = 0644, .size = size };
}

static void seal(void)
{
	struct files_chunk *head = (void *)chunks[0];

	files_chunk_end(&writer);
	head->digest = files_digest(chunks[0] + sizeof(*head), writer.used - sizeof(*head));
}

static int unpack(struct files_receiver *r)
{
	uint32_t length;

	seal();
	return files_receiver_chunk(r, chunks[0], writer.used, reply, &length, complain, NULL);
}

static void test_names(struct files_receiver *r)
{
	static const char *const bad[] = { "",  "/",   "/x",  "..",   "../x", "a/..", "a/../x",
					   ".", "./x", "a/.", "a//x", "a/",   "a/./x" };
	char text[FILES_PATH_MAX + 10] = "";
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin();
		add(file(1), bad[i], "x");
		snprintf(text, sizeof(text), "'%s' is refused", bad[i]);
		check(unpack(r) == EPROTO, text);
	}
	begin();
	add(file(1), "a/bcd", "x");
	chunks[0][sizeof(struct files_chunk) + sizeof(struct files_record) + 1] = '\0';
	check(unpack(r) == EPROTO, "a name with a NUL is refused");
	memset(text, 'x', 256);
	text[256] = '\0';
	begin();
	add(file(1), text, "x");
	check(unpack(r) == EPROTO, "a name that is too long is refused");
	for (*text = '\0', i = 0; i < FILES_DEPTH_MAX + 1; i++)
		strcat(text, i ? "/a" : "a");
	begin();
	add(file(1), text, "x");
	complaints = 0;
	check(!unpack(r) && complaints == 1, "a path that is too deep is left out");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 8, .size = 1 }, text, NULL);
	add((struct files_record){ .type = FILES_CLOSE, .id = 8 }, "", NULL);
	check(!unpack(r) && complaints == 2, "and so is a long file there");
	begin();
	add(file(1), "a/.krdma-0123456789abcdef/b", "x");
	check(unpack(r) == EPROTO, "a name of temporary files is refused");
	check(shell("[ -z \"$(ls -A evil)\" ] && [ ! -e x ]"), "nothing is there");
}

/* Return: what the receiver of @expected says of a record of @path. */
static int asked(const char *to, const char *expected, unsigned int flags, enum files_type type,
		 const char *path)
{
	struct files_receiver *r = files_receiver_new(AT_FDCWD, to, 0, flags, expected);
	const bool data = type == FILES_FILE || type == FILES_SYMLINK;
	int rc;

	begin();
	add((struct files_record){ .type = (uint16_t)type, .mode = 0755, .id = 1, .size = data },
	    path, data ? "x" : NULL);
	rc = r ? unpack(r) : -1;
	files_receiver_free(r);
	return rc;
}

/* A sender that lies about names: a pull of one file writes no other one. */
static void test_asked(void)
{
	const unsigned int into = FILES_INTO, tree = FILES_INTO | FILES_RECURSIVE;

	check(asked("asked", "a", into, FILES_FILE, ".bashrc") == EPROTO &&
		      asked("asked", "a", into, FILES_FILE, "ab") == EPROTO &&
		      asked("asked", "ab", into, FILES_FILE, "a") == EPROTO &&
		      asked("asked", "a", into, FILES_SYMLINK, "b") == EPROTO &&
		      asked("asked", "a", into, FILES_OPEN, "b") == EPROTO,
	      "another file than was asked for");
	check(asked("asked", "a", into, FILES_FILE, "a/b") == EPROTO &&
		      asked("asked", "a", into, FILES_DIR, "a") == EPROTO &&
		      asked("asked", "a", into, FILES_DIR, "") == EPROTO &&
		      asked("asked", "", into, FILES_FILE, "a") == EPROTO &&
		      asked("asked", NULL, into, FILES_FILE, "a/b") == EPROTO,
	      "a directory in the place of a file");
	check(asked("asked", "a", into, FILES_SYMLINK, "a") == EPROTO &&
		      asked("asked/other", "c", 0, FILES_SYMLINK, "c") == EPROTO,
	      "a link in the place of a file");
	check(asked("asked", "a", tree, FILES_DIR, "b") == EPROTO &&
		      asked("asked", "a", tree, FILES_DIR, "") == EPROTO &&
		      asked("asked", "a", tree, FILES_DIR_END, ".ssh") == EPROTO &&
		      asked("asked", "a", tree, FILES_FILE, "b/a") == EPROTO &&
		      asked("asked/new", "", FILES_RECURSIVE, FILES_DIR, "") == EPROTO,
	      "another directory than was asked for");
	check(shell("[ -z \"$(ls -A asked)\" ]"), "leave nothing");
	check(!asked("asked", "a", into, FILES_FILE, "a") &&
		      !asked("asked", "d", tree, FILES_FILE, "d/x") &&
		      !asked("asked", "", tree, FILES_FILE, "y/z") &&
		      !asked("asked", "", tree, FILES_DIR, "") &&
		      !asked("asked", "l", tree, FILES_SYMLINK, "l") &&
		      !asked("asked/other", "c", 0, FILES_FILE, "c") &&
		      shell("cd asked && [ -e a ] && [ -e d/x ] && [ -e y/z ] && [ -e other ]"),
	      "what was asked for comes");
	shell("rm -r asked");
}

static void test_links(struct files_receiver *r)
{
	begin();
	add((struct files_record){ .type = FILES_SYMLINK }, "out", "..");
	add((struct files_record){ .type = FILES_SYMLINK }, "file", "../victim");
	add(file(4), "out/through", "evil");
	add((struct files_record){ .type = FILES_DIR }, "out", NULL);
	add((struct files_record){ .type = FILES_DIR_END }, "out", NULL);
	add((struct files_record){ .type = FILES_DIR }, "out/dir", NULL);
	add((struct files_record){ .type = FILES_OPEN, .id = 9, .size = 10 }, "out/long", NULL);
	add(file(4), "file", "evil");
	shell("echo good >victim; chmod 751 .");
	complaints = 0;
	check(!unpack(r) && complaints == 5, "no record goes by a symbolic link");
	check(shell("[ $(cat victim) = good ] && [ $(cat evil/file) = evil ] && [ ! -e through ] && "
		    "[ ! -e dir ] && [ ! -e long2 ] && [ $(stat -c %a .) = 751 ]"),
	      "nothing outside has changed");
}

/* Under the temporary name of a file is what a link may not take the place of. */
static void test_link_names(struct files_receiver *r)
{
	char temp[FILES_TEMP], path[FILES_TEMP + 8];

	files_temp_name("made", temp);
	snprintf(path, sizeof(path), "evil/%s", temp);
	check(!mkdir(path, 0755), "a directory with a temporary name");
	begin();
	add((struct files_record){ .type = FILES_SYMLINK }, "made", "here");
	complaints = 0;
	check(!unpack(r) && !complaints && shell("[ $(readlink evil/made) = here ]"),
	      "is not in the way of a link");
	check(!rmdir(path), "and stays");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 30, .size = 4 }, "made", NULL);
	add((struct files_record){ .type = FILES_SYMLINK }, "made", "there");
	add((struct files_record){ .type = FILES_DATA, .id = 30 }, "", "long");
	check(!unpack(r) && shell("[ $(readlink evil/made) = there ]"),
	      "a link and a file with one name");
	begin();
	add((struct files_record){ .type = FILES_CLOSE, .id = 30, .size = 4 }, "", NULL);
	complaints = 0;
	check(!unpack(r) && !complaints &&
		      shell("[ ! -h evil/made ] && [ $(cat evil/made) = long ]"),
	      "are both made");
	shell("rm evil/made; mkdir evil/made");
	begin();
	add((struct files_record){ .type = FILES_SYMLINK }, "made", "here");
	check(!unpack(r) && complaints == 1 && shell("[ -d evil/made ]"),
	      "but no link in the place of a directory");
	check(shell("rmdir evil/made; ! ls -d evil/.krdma-* 2>/dev/null"),
	      "nothing temporary is left");
}

/* What somebody has put under a temporary name, as a command does for $1, is not written to. */
static void test_planted(struct files_receiver *r, const char *plant, const char *what)
{
	char temp[FILES_TEMP], path[FILES_TEMP + 8], command[256];
	struct stat before, after;
	bool good;

	files_temp_name("file", temp);
	snprintf(path, sizeof(path), "evil/%s", temp);
	snprintf(command, sizeof(command), "echo good >victim; set -- %s; %s", path, plant);
	good = shell(command) && !lstat(path, &before);
	complaints = 0;
	begin();
	add(file(4), "file", "evil");
	good = good && !unpack(r) && shell("[ $(cat evil/file) = evil ] && rm evil/file");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 31, .size = 4 }, "file", NULL);
	add((struct files_record){ .type = FILES_DATA, .id = 31 }, "", "evil");
	add((struct files_record){ .type = FILES_CLOSE, .id = 31, .size = 4 }, "", NULL);
	good = good && !unpack(r) && shell("[ $(cat evil/file) = evil ]");
	/* And one that is given up leaves nothing. */
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 31, .size = 4 }, "file", NULL);
	good = good && !unpack(r);
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 31 }, "", NULL);
	good = good && !unpack(r) && complaints == 1;
	snprintf(command, sizeof(command),
		 "[ $(cat victim) = good ] && [ \"$(ls -d evil/.krdma-*)\" = %s ] && "
		 "[ $(stat -c %%u evil/file) = $(id -u) ]",
		 path);
	good = good && shell(command) && !lstat(path, &after) && before.st_ino == after.st_ino;
	check(good, what);
	shell("rm -f evil/.krdma-* evil/file");
}

/* Is a record about bytes that the receiver has refused? */
static bool lies_of_same(struct files_receiver *r, uint32_t id, uint64_t offset, uint64_t size)
{
	int rc;

	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = id, .size = 8ULL * FILES_BLOCK },
	    "basis", NULL);
	if (unpack(r))
		return false;
	begin();
	add((struct files_record){ .type = FILES_SAME, .id = id, .offset = offset, .size = size },
	    "", NULL);
	rc = unpack(r);
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = id }, "", NULL);
	return rc == EPROTO && !unpack(r);
}

/* Say that a file is what is there, which a command changes meanwhile. */
static void test_basis(struct files_receiver *r, uint32_t id, const char *change, const char *what)
{
	const uint64_t size = FILES_BLOCK + 5000;
	bool good;

	shell("head -c 1053576 /dev/urandom >evil/old");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = id, .size = size }, "old", NULL);
	good = !unpack(r) && shell(change) && shell("cp evil/old changed");
	complaints = 0;
	begin();
	add((struct files_record){ .type = FILES_SAME, .id = id, .size = FILES_BLOCK }, "", NULL);
	add(
		(struct files_record){
			.type = FILES_SAME, .id = id, .offset = FILES_BLOCK, .size = 5000 },
		"", NULL);
	add((struct files_record){ .type = FILES_CLOSE, .id = id, .size = size }, "", NULL);
	good = good && !unpack(r) && complaints == 1;
	check(good && shell("cmp changed evil/old; s=$?; rm -f changed evil/old evil/.krdma-*; exit $s"),
	      what);
}

/* Return: digests that the receiver replies with to OPEN or MORE. */
static size_t digests_of(struct files_receiver *r, struct files_record record, const char *name)
{
	struct files_reader reader;
	uint32_t length;

	begin();
	add(record, name, NULL);
	seal();
	if (files_receiver_chunk(r, chunks[0], writer.used, reply, &length, complain, NULL) ||
	    files_chunk_open(&reader, reply, length) || files_chunk_next(&reader) != 1)
		return 1;
	return reader.record.data_length / sizeof(uint64_t);
}

/* What makes the receiver read much is the last of its chunk, and of all when it is stopped. */
static void test_effort(void)
{
	struct files_receiver *r =
		files_receiver_new(AT_FDCWD, "evil", 0, FILES_RECURSIVE | FILES_INTO, NULL);
	const struct files_record there = { .type = FILES_OPEN,
					    .id = 60,
					    .size = 3ULL * FILES_BLOCK };

	shell("head -c 3145728 /dev/urandom >evil/there");
	begin();
	add(there, "there", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 60 }, "", NULL);
	check(unpack(r) == EPROTO, "nothing is behind a file whose digests are wanted");
	begin();
	add((struct files_record){ .type = FILES_DIR, .flags = FILES_ASK, .id = 61, .mode = 0755 },
	    "dir", NULL);
	add(file(1), "dir/x", "x");
	check(unpack(r) == EPROTO, "nor behind a directory whose list is");
	files_receiver_stop(r);
	begin();
	add(file(1), "late", "x");
	check(unpack(r) == ECANCELED && shell("[ ! -e evil/late ]"),
	      "a receiver that was stopped unpacks nothing");
	files_receiver_free(r);
	shell("rm -rf evil/there evil/dir evil/.krdma-*");
}

/* A peer that opens files that are there, and never goes on. */
static void test_memory(struct files_receiver *r)
{
	struct files_record first = { .type = FILES_OPEN, .id = 40, .size = 1ULL << 40 };
	struct files_record second = first, third = first, fourth = first;

	second.id = 41;
	third.id = 42;
	fourth.id = 43;
	shell("for i in 1 2 3 4; do truncate -s 1T evil/big$i; done");
	check(digests_of(r, first, "big1") == FILES_HAVE_MAX &&
		      digests_of(r, second, "big2") == FILES_HAVE_MAX,
	      "a file is compared to one that is there");
	check(!digests_of(r, third, "big3"), "which is not when digests of too many are kept");
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 40 }, "", NULL);
	check(!unpack(r) && digests_of(r, fourth, "big4") == FILES_HAVE_MAX,
	      "and is again after one has ended");
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 41 }, "", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 42 }, "", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 43 }, "", NULL);
	unpack(r);
	shell("rm evil/big* evil/.krdma-*");
}

/* Of a file with more blocks than a reply has digests. */
static void test_more(struct files_receiver *r)
{
	struct files_record again = { .type = FILES_OPEN,
				      .id = 51,
				      .size = (FILES_HAVE_MAX + 3ULL) * FILES_BLOCK };
	const struct files_record open_record = { .type = FILES_OPEN,
						  .id = 50,
						  .size = again.size };
	const struct files_record more = { .type = FILES_MORE, .id = 50 };
	struct files_record close_record = { .type = FILES_CLOSE, .id = 51 };
	struct files_record same = { .type = FILES_SAME,
				     .id = 50,
				     .offset = (uint64_t)FILES_HAVE_MAX * FILES_BLOCK,
				     .size = FILES_BLOCK };

	shell("truncate -s 515M evil/more");
	check(digests_of(r, again, "more") == FILES_HAVE_MAX, "a reply has some digests of a file");
	begin();
	add(close_record, "", NULL);
	check(unpack(r) == EPROTO, "which can't be closed before the rest was asked for");
	shell("rm evil/.krdma-*; echo there | dd of=evil/more bs=1M seek=512 conv=notrunc status=none");
	check(digests_of(r, open_record, "more") == FILES_HAVE_MAX &&
		      digests_of(r, more, "") == 3 && !digests_of(r, more, ""),
	      "the next one has the rest");
	shell("cp --sparse=always evil/more saved");
	begin();
	add(same, "", NULL);
	close_record.id = 50;
	close_record.size = FILES_BLOCK;
	add(close_record, "", NULL);
	check(!unpack(r) &&
		      shell("cmp -i 536870912 -n 6 evil/more saved && [ ! -e evil/.krdma-* ]"),
	      "whose blocks can be said to be the same");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 52, .size = 5 }, "more2", NULL);
	add((struct files_record){ .type = FILES_MORE, .id = 52 }, "", NULL);
	add((struct files_record){ .type = FILES_MORE, .id = 52 }, "", NULL);
	check(unpack(r) == EPROTO, "nothing is behind a question");
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 52 }, "", NULL);
	unpack(r);
	begin();
	add(more, "", NULL);
	check(unpack(r) == EPROTO, "no file has more that is not open");
	shell("rm -f saved evil/more* evil/.krdma-*");
}

static void test_ranges(struct files_receiver *r)
{
	const struct files_record open_record = { .type = FILES_OPEN, .id = 1, .size = 100 };
	struct files_record data = { .type = FILES_DATA, .id = 1, .offset = 97 };
	uint32_t i;

	begin();
	add(open_record, "range", NULL);
	check(!unpack(r), "a file is open");
	begin();
	add(open_record, "range2", NULL);
	check(unpack(r) == EPROTO, "no two have one number");
	begin();
	add(data, "", "xxxx");
	check(unpack(r) == EPROTO, "no byte is behind the end");
	data.offset = UINT64_MAX;
	begin();
	add(data, "", "xxxx");
	check(unpack(r) == EPROTO, "or before the beginning");
	begin();
	add((struct files_record){ .type = FILES_ZERO, .id = 1, .offset = 1, .size = UINT64_MAX },
	    "", NULL);
	check(unpack(r) == EPROTO, "no hole is outside");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 3, .size = 100 }, "count", NULL);
	add((struct files_record){ .type = FILES_ZERO, .id = 3, .size = 100 }, "", NULL);
	check(unpack(r) == EPROTO, "or where nothing was compared");
	shell("head -c 3000000 /dev/zero >evil/basis");
	check(lies_of_same(r, 4, 3ULL * FILES_BLOCK, 1) && lies_of_same(r, 5, FILES_BLOCK - 1, 2) &&
		      lies_of_same(r, 6, 0, FILES_BLOCK + 1) &&
		      lies_of_same(r, 7, 0, FILES_BLOCK - 8),
	      "nothing is the same but a block that was compared");
	test_basis(r, 20,
		   "printf different | dd of=evil/old bs=1 seek=1050000 conv=notrunc status=none",
		   "an older file that changes during the copy is an error");
	test_basis(r, 21, ": >evil/old", "and so is one that is cut off");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 10, .size = 6 }, "twice", NULL);
	add((struct files_record){ .type = FILES_DATA, .id = 10 }, "", "four");
	add((struct files_record){ .type = FILES_DATA, .id = 10 }, "", "four");
	check(unpack(r) == EPROTO, "no more bytes come than the file has");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 11, .size = 6 }, "closed", NULL);
	add((struct files_record){ .type = FILES_CLOSE, .id = 11, .size = 7 }, "", NULL);
	check(unpack(r) == EPROTO, "not even at the end");
	begin();
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 1 }, "", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 3 }, "", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 10 }, "", NULL);
	add((struct files_record){ .type = FILES_GIVE_UP, .id = 11 }, "", NULL);
	check(!unpack(r), "what has failed can be given up");
	complaints = 0;
	begin();
	add(open_record, "range", NULL);
	check(!unpack(r) && !complaints, "and be opened again");
	files_receiver_end(r, complain, NULL);
	check(complaints == 1, "a file that was not finished is reported in the end");
	begin();
	add((struct files_record){ .type = FILES_DATA, .id = 77 }, "", "xxxx");
	check(!unpack(r), "bytes of a file that is not open are dropped");
	begin();
	add((struct files_record){ .type = FILES_OPEN, .id = 2, .size = UINT64_MAX }, "huge", NULL);
	check(unpack(r) == EPROTO, "no file is that long");
	for (i = 0; i < FILES_OPEN_MAX; i++) {
		char name[16];

		begin();
		snprintf(name, sizeof(name), "n%u", i);
		add((struct files_record){ .type = FILES_OPEN, .id = 100 + i, .size = 5 }, name,
		    NULL);
		if (unpack(r))
			break;
	}
	check(i == FILES_OPEN_MAX - 1, "only so many are open");
	begin();
	add((struct files_record){ .type = FILES_CLOSE, .id = 100, .size = 3 }, "", NULL);
	add((struct files_record){ .type = FILES_CLOSE, .id = 101, .size = 0 }, "", NULL);
	check(!unpack(r) && shell("[ ! -e evil/n0 ] && [ -e evil/n1 ]"),
	      "a file has its name when it is whole");
}

/* What is complained of in all when the sender has ended, of the chunk that was begun. */
static unsigned int ended(struct files_receiver *r)
{
	complaints = 0;
	if (writer.used > sizeof(struct files_chunk) && unpack(r))
		complaints = 100;
	files_receiver_end(r, complain, NULL);
	files_receiver_free(r);
	return complaints;
}

/* A sender that ends without a file, or in the midst of one, has to be noticed. */
static void test_nothing(void)
{
	const struct files_record open_record = { .type = FILES_OPEN, .id = 1, .size = 10 };
	const struct files_record gives_up = { .type = FILES_GIVE_UP, .id = 1 };
	const struct files_record error = { .type = FILES_ERROR, .mode = EACCES };
	const int null = open("/dev/null", O_WRONLY);

	begin();
	check(ended(files_receiver_new_stream(null, "one")) == 1, "a stream of nothing");
	begin();
	add(open_record, "one", NULL);
	add(gives_up, "", NULL);
	check(ended(files_receiver_new_stream(null, "one")) == 1, "one that is given up");
	begin();
	add(open_record, "one", NULL);
	add(gives_up, "", NULL);
	add(error, "", "it can't be read");
	check(ended(files_receiver_new_stream(null, "one")) == 1, "and says why, once");
	begin();
	add(file(4), "one", "four");
	check(!ended(files_receiver_new_stream(null, "one")), "but not one that is whole");
	close(null);
	begin();
	check(ended(files_receiver_new(AT_FDCWD, "evil", 0, 0, "one")) == 1,
	      "a file that does not come");
	begin();
	add(error, "", "it can't be read");
	check(ended(files_receiver_new(AT_FDCWD, "evil", 0, 0, "one")) == 1, "and says why, once");
	begin();
	check(!ended(files_receiver_new(AT_FDCWD, "evil", 0, FILES_RECURSIVE | FILES_INTO, "")),
	      "but not a directory with nothing in it");
}

/* Standard output that does not block: a pipe with less room than a chunk has bytes. */
static void test_full_pipe(void)
{
	static char bytes[FILES_BLOCK], got[FILES_BLOCK];
	struct files_receiver *r;
	size_t have = 0;
	ssize_t n = 0;
	int fds[2], status;
	pid_t child;
	char *to;

	memset(bytes, 'x', sizeof(bytes));
	if (pipe2(fds, O_NONBLOCK) || fcntl(fds[1], F_SETPIPE_SZ, 4096) < 0)
		abort();
	fflush(stdout);
	child = fork();
	if (!child) {
		close(fds[0]);
		r = files_receiver_new_stream(fds[1], "one");
		begin();
		to = files_chunk_add(&writer,
				     &(struct files_record){ .type = FILES_FILE,
							     .path_length = 3,
							     .size = FILES_BLOCK,
							     .data_length = FILES_BLOCK },
				     "one");
		memcpy(to, bytes, sizeof(bytes));
		_exit(unpack(r) != 0);
	}
	close(fds[1]);
	fcntl(fds[0], F_SETFL, 0);
	while (have < sizeof(got) && (n = read(fds[0], got + have, sizeof(got) - have)) > 0)
		have += (size_t)n;
	close(fds[0]);
	check(waitpid(child, &status, 0) == child && !status && have == sizeof(got) &&
		      !memcmp(bytes, got, sizeof(got)),
	      "a stream waits for room in a pipe that does not block");
}

static int stream_unpack(struct files_receiver **r)
{
	const int rc = unpack(*r);

	files_receiver_free(*r);
	*r = files_receiver_new_stream(STDIN_FILENO, "one");
	return rc;
}

/* One file, in order, and nothing behind it. Standard input can't be written to. */
static void test_stream(void)
{
	const struct files_record open_record = { .type = FILES_OPEN, .id = 1, .size = 10 };
	struct files_receiver *r =
		files_receiver_new_stream(open("stream", O_CREAT | O_RDWR, 0600), "one");

	begin();
	add(open_record, "one", NULL);
	add((struct files_record){ .type = FILES_DATA, .id = 1, .offset = 2 }, "", "four");
	add((struct files_record){ .type = FILES_CLOSE, .id = 1, .size = 4 }, "", NULL);
	check(!unpack(r) && files_receiver_counts(r).files == 1 &&
		      shell("printf '\\0\\0four\\0\\0\\0\\0' | cmp - stream"),
	      "a stream has zeroes for holes");
	begin();
	add(file(4), "one", "four");
	check(stream_unpack(&r) == EPROTO, "of one file");
	begin();
	add(file(4), "two", "four");
	check(stream_unpack(&r) == EPROTO, "that was asked for");
	begin();
	add((struct files_record){ .type = FILES_SYMLINK }, "one", "four");
	check(stream_unpack(&r) == EPROTO, "and is no link");
	begin();
	add(open_record, "one", NULL);
	add((struct files_record){ .type = FILES_DATA, .id = 1, .offset = 7 }, "", "four");
	check(stream_unpack(&r) == EPROTO, "no byte is behind its end");
	begin();
	add(open_record, "one", NULL);
	add((struct files_record){ .type = FILES_DATA, .id = 2 }, "", "four");
	check(stream_unpack(&r) == EPROTO, "or another file's");
	begin();
	add(open_record, "one", NULL);
	add((struct files_record){ .type = FILES_SAME, .id = 1, .size = 10 }, "", NULL);
	check(stream_unpack(&r) == EPROTO, "or there already");
	begin();
	add(open_record, "one", NULL);
	add((struct files_record){ .type = FILES_CLOSE, .id = 1, .size = 10 }, "", NULL);
	check(stream_unpack(&r) == EPROTO, "or missing");
	begin();
	add(open_record, "one", NULL);
	complaints = 0;
	check(!unpack(r) && (files_receiver_end(r, complain, NULL), complaints == 1),
	      "one that was not finished is reported");
	begin();
	add((struct files_record){ .type = FILES_DATA, .id = 1, .offset = 4 }, "", "four");
	add((struct files_record){ .type = FILES_DATA, .id = 1, .offset = 3 }, "", "four");
	close(STDIN_FILENO);
	complaints = 0;
	check(unpack(r) == EBADF && complaints == 1, "and what can't be written");
	files_receiver_free(r);
	shell("rm stream");
}

static void test_malformed(struct files_receiver *r)
{
	struct files_record record = file(4);
	uint32_t length;

	begin();
	add(record, "short", "four");
	seal();
	check(files_receiver_chunk(r, chunks[0], writer.used - 8, reply, &length, NULL, NULL) ==
		      EILSEQ,
	      "a chunk that is cut off");
	chunks[0][writer.used - 1] ^= 1;
	check(files_receiver_chunk(r, chunks[0], writer.used, reply, &length, NULL, NULL) == EILSEQ,
	      "a bit that has changed");
	check(files_receiver_chunk(r, chunks[0], 7, reply, &length, NULL, NULL) == EPROTO,
	      "less than a head");
	check(files_receiver_chunk(r, chunks[0], UINT32_MAX, reply, &length, NULL, NULL) == EPROTO,
	      "more than a chunk");
	begin();
	add(file(5), "short", "four");
	check(unpack(r) == EPROTO, "a file that is shorter than it says");
	begin();
	record.mtime_ns = 1000000000;
	add(record, "short", "four");
	check(unpack(r) == EPROTO, "a time that is none");
	begin();
	add((struct files_record){ .type = 99 }, "short", NULL);
	check(unpack(r) == EPROTO, "a record of no type");
	begin();
	add((struct files_record){ .type = FILES_SYMLINK }, "short", NULL);
	check(unpack(r) == EPROTO, "a link without a target");
	begin();
	record = file(4);
	record.mode = 07777;
	add(record, "mode", "four");
	check(!unpack(r) && shell("[ $(stat -c %a evil/mode) = 777 ]"), "a file with all rights");
	check(shell("[ ! -e evil/short ]"), "nothing else is there");
}

/* Random changes, with the right digest: nothing is outside, nothing crashes. */
static void test_random(struct files_receiver *r)
{
	static char good[2048];
	unsigned int turn, n;
	uint32_t length;

	for (turn = 0; turn < 20000; turn++) {
		begin();
		add((struct files_record){ .type = FILES_DIR, .mode = 0755 }, "d", NULL);
		add(file(4), "d/file", "four");
		add((struct files_record){ .type = FILES_SYMLINK }, "d/up", "../..");
		add((struct files_record){ .type = FILES_OPEN, .id = turn + 1000, .size = 4 },
		    "d/o", NULL);
		add((struct files_record){ .type = FILES_DATA, .id = turn + 1000 }, "", "four");
		add((struct files_record){ .type = FILES_CLOSE, .id = turn + 1000, .size = 4 }, "",
		    NULL);
		memcpy(good, chunks[0], writer.used);
		for (n = (unsigned int)random() % 6; n; n--)
			chunks[0][sizeof(struct files_chunk) +
				  (unsigned long)random() %
					  (writer.used - sizeof(struct files_chunk))] =
				(char)(random() % 3 ? "./\0\1\xff"[random() % 5] : random());
		seal();
		files_receiver_chunk(r, chunks[0], writer.used, reply, &length, NULL, NULL);
	}
	check(shell("[ \"$(ls -A | sort | tr '\\n' ' ')\" = 'evil victim ' ]"),
	      "20000 chunks at random leave nothing outside");
}

/* An entry of a list, and others that fill it: as much as a receiver replies with. */
static void add_list(uint32_t id, const struct stat *st)
{
	struct {
		uint64_t size;
		int64_t mtime;
		uint32_t mtime_ns;
		uint16_t mode, name_length;
		char name[8];
	} entry = { .name = "f" };
	struct files_record list = { .type = FILES_LIST, .id = id };
	char *to;
	size_t i;

	entry.size = (uint64_t)st->st_size;
	entry.mtime = st->st_mtim.tv_sec;
	entry.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	entry.mode = st->st_mode & FILES_MODE;
	entry.name_length = 1;
	list.data_length = FILES_BLOCK / sizeof(entry) * sizeof(entry);
	to = files_chunk_add(&writer, &list, "");
	for (i = 0; i < list.data_length; i += sizeof(entry)) {
		memcpy(to + i, &entry, sizeof(entry));
		entry.name[0] = 'z';
	}
}

/* A receiver that has long lists of each directory: those that are kept have an end. */
static void test_lists(void)
{
	const struct files_operand operand = { .dir = AT_FDCWD, .path = "lists", .top = "lists" };
	struct files_sender *s = files_sender_new(&operand, 1, FILES_RECURSIVE, complain, NULL);
	unsigned int sent = 0, directories = 0;
	struct files_reader reader;
	uint32_t length;
	struct stat st;

	/* A list is kept until its directory, and what is in it, has been read. */
	shell("mkdir lists && cd lists && for i in 1 2 3 4 5 6; do echo x >f; "
	      "touch -d 2001-02-03 f; mkdir d; cd d; done");
	if (stat("lists/f", &st))
		abort();
	while (files_sender_pack(s, chunks[1], &length, false) == FILES_CHUNK_READY) {
		begin();
		if (files_chunk_open(&reader, chunks[1], length))
			abort();
		while (files_chunk_next(&reader) > 0) {
			sent += reader.record.type == FILES_FILE;
			directories += reader.record.type == FILES_DIR;
			if (reader.record.flags & FILES_ASK)
				add_list(reader.record.id, &st);
		}
		if (writer.used == sizeof(struct files_chunk)) {
			files_sender_reply(s, NULL, 0, NULL, NULL);
			continue;
		}
		seal();
		files_sender_reply(s, chunks[0], writer.used, NULL, NULL);
	}
	printf("# %u of %u sent\n", sent, directories);
	check(directories == 7 && sent == 2, "four lists of directories are kept at most");
	files_sender_free(s);
	shell("rm -r lists");
}

static void test_replies(void)
{
	const struct files_operand operand = { .dir = AT_FDCWD, .path = "long", .top = "long" };
	struct files_sender *s = files_sender_new(&operand, 1, 0, complain, NULL);
	static const uint64_t digests[5];
	uint32_t length;
	char *to;

	check(files_sender_reply(s, NULL, 0, NULL, NULL) == EPROTO, "a reply to nothing");
	files_sender_free(s);
	s = files_sender_new(&operand, 1, 0, complain, NULL);
	check(files_sender_pack(s, chunks[1], &length, false) == FILES_CHUNK_READY &&
		      files_sender_pack(s, chunks[2], &length, false) == FILES_WAIT,
	      "a long file waits for a reply");
	begin();
	to = files_chunk_add(&writer,
			     &(struct files_record){
				     .type = FILES_HAVE, .id = 1, .data_length = sizeof(digests) },
			     "");
	memcpy(to, digests, sizeof(digests));
	seal();
	check(files_sender_reply(s, chunks[0], writer.used, NULL, NULL) == EPROTO,
	      "more digests than blocks");
	check(files_sender_pack(s, chunks[1], &length, false) == FILES_BROKEN, "end it");
	files_sender_free(s);
	s = files_sender_new(&operand, 1, 0, complain, NULL);
	files_sender_pack(s, chunks[1], &length, false);
	check(files_sender_reply(s, NULL, 0, NULL, NULL) == EPROTO &&
		      files_sender_pack(s, chunks[2], &length, true) == FILES_BROKEN,
	      "a question without an answer");
	files_sender_free(s);
}

int main(void)
{
	struct files_receiver *r;
	char work[] = "/tmp/files-XXXXXX", command[64];

	if (!mkdtemp(work) || chdir(work))
		return 1;
	umask(022);
	check(shell("mkdir to"), "a directory to work in");
	test_trees();
	test_merge();
	test_many_errors();
	test_resume();
	test_read_errors();
	test_deep();
	test_printable();
	test_replies();
	test_lists();
	shell("rm -rf ./* && mkdir evil");
	test_asked();
	test_nothing();
	test_full_pipe();
	test_stream();
	r = files_receiver_new(AT_FDCWD, "evil", 0, FILES_RECURSIVE | FILES_INTO, NULL);
	test_names(r);
	test_links(r);
	test_link_names(r);
	test_planted(r, "chmod 600 victim; ln victim $1",
		     "a planted hard link is not written through");
	test_planted(r, "ln -s ../victim $1", "nor a symbolic link");
	test_planted(r, "mkfifo $1", "nor is a FIFO used");
	test_planted(r, "echo more >$1; chmod 644 $1", "nor a file that others may read");
	if (!geteuid())
		test_planted(r, "echo more >$1; chmod 600 $1; chown 4711 $1",
			     "nor another user's file");
	test_effort();
	test_memory(r);
	test_more(r);
	test_ranges(r);
	test_malformed(r);
	test_random(r);
	files_receiver_free(r);
	snprintf(command, sizeof(command), "rm -rf %s", work);
	shell(command);
	printf("1..%u\n", tests);
	return failures != 0;
}
