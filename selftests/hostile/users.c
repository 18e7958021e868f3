// SPDX-License-Identifier: GPL-2.0
/*
 * Two users of one host, who have the group of the device node and no capabilities. Neither user
 * can use or see the objects of the other, or exhaust the resources of the other. The test also
 * checks whose file is a file that is passed on, inherited, or used with another user id
 * (Documentation/uapi.rst, "Users of one host").
 *
 * Each part is a process with a user's id, which reports the result of each step. This process,
 * which is root, checks the results. users.sh runs this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "users.h"

int self;
__u64 few_segment;

static void prepare(void)
{
	__u32 session, region;
	int fd = kst_open();

	if (!kst_peer("export users mem %lu 3 %d", 4 * BYTES, KST_BASE) ||
	    !kst_peer("export stuck mem 4096 16 0") || !kst_peer("export queue mem 4096 16 0") ||
	    kst_connect(fd, 0, &session) ||
	    kst_open_region(fd, session, "users", 0, &region, &few_segment) ||
	    !kst_peer("export few memfd %llu 3 0 %d", FEW * few_segment, FEW_SEGMENTS) ||
	    !kst_peer("export one memfd %llu 3 0 1", 8 * few_segment))
		kst_bail("no exports in node B: %s", kst_last_error(fd, NULL));
	close(fd);
}

int main(int argc, char **argv)
{
	struct kst_state begin;
	struct stat st;

	if (argc == 6 && !strcmp(argv[1], "exec"))
		return after_exec(argv);
	kst_main(argc, argv, 2);
	begin = kst_now();
	kst_peer_start();
	self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (self < 0 || stat("/dev/krdma_mover", &st) || chown("/dev/krdma_mover", 0, GROUP) ||
	    chmod("/dev/krdma_mover", 0660))
		kst_bail("/dev/krdma_mover: %s", strerror(errno));
	prepare();
	test_ids();
	test_sessions();
	test_exhaustion();
	test_pins();
	test_passing();
	test_fork();
	test_exec();
	test_setuid();
	if (chmod("/dev/krdma_mover", st.st_mode & 07777) ||
	    chown("/dev/krdma_mover", st.st_uid, st.st_gid))
		kst_diag("/dev/krdma_mover: %s", strerror(errno));
	kst_ok(kst_same(&begin), "at the end everything is as it was");
	return kst_done();
}
