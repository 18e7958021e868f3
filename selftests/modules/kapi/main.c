// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of krdma_mover's in-kernel API that uses its limits, for selftests/kapi/kapi.sh.
 * "what" selects the test:
 *
 *	errors	invalid calls and their errors; objects ended in any order
 *	numbers	atomic operations, if available, digests, verified and unplaced transfers
 *	messages those that this module sends to itself, at the address @self
 *	joined	memory in one piece, told of page by page
 *	stress	many transfers, cancelled and timed out at random, some submitted again
 *		from ->done; each has to end exactly once
 *	crowd	@crowd messages to this module itself, which reads them slowly; the test
 *		ends the session, and reads in "ended" that each message has ended
 *	loop	transfers in a thread, until one fails, on the channel of @cpu, and polled for
 *		(@polls), with a deadline of @timeout_ms; the result is in
 *		/sys/module/krdma_kapi_test/parameters. Writing to "reopen" there opens the region
 *		again, and they go on; writing to "cancel" cancels those under way
 *
 * The module loads if all checks pass; otherwise the kernel's log names the failure.
 */
#include <linux/err.h>
#include <linux/inet.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <net/net_namespace.h>

#include "test.h"

char *test_address = "10.77.0.2";
module_param_named(address, test_address, charp, 0444);
char *test_second; /* address of one more path */
module_param_named(second, test_second, charp, 0444);
char *test_name = "scratch";
module_param_named(name, test_name, charp, 0444);
char *test_self = "10.77.0.1";
module_param_named(self, test_self, charp, 0444);
static char *what = "errors";
module_param(what, charp, 0444);
unsigned int test_depth = 64;
module_param_named(depth, test_depth, uint, 0444);
unsigned int test_rounds = 20;
module_param_named(rounds, test_rounds, uint, 0444);
unsigned int test_cpu; /* of struct krdma_io */
module_param_named(cpu, test_cpu, uint, 0444);
bool test_polls;
module_param_named(polls, test_polls, bool, 0444);
unsigned int test_timeout_ms; /* of struct krdma_io */
module_param_named(timeout_ms, test_timeout_ms, uint, 0444);
unsigned int test_crowd = 100000;
module_param_named(crowd, test_crowd, uint, 0444);

/* For the test to read. */
atomic_t test_events;
int test_status, test_ended, test_cancelled, test_timed_out, test_lost;
static int revoked;
module_param(revoked, int, 0444);
module_param_named(lost, test_lost, int, 0444);
module_param_named(status, test_status, int, 0444);
module_param_named(ended, test_ended, int, 0444);
module_param_named(cancelled, test_cancelled, int, 0444);
module_param_named(timed_out, test_timed_out, int, 0444);

struct krdma_client *test_client;
struct krdma_session_handle *test_session;
struct krdma_region_handle *test_region;

void on_event(void *priv, enum krdma_event e)
{
	might_sleep();
	if (e == KRDMA_EVENT_RESUMING || e == KRDMA_EVENT_RESUMED)
		return;
	if (e == KRDMA_EVENT_REVOKED)
		revoked++;
	else
		test_lost++;
	atomic_inc(&test_events);
}

static void test_exit(void)
{
	loop_end();
	crowd_end();
	krdma_close(test_region);
	/* There is no event any more. */
	pr_info("krdma_kapi_test: in the end %d revoked, %d lost\n", revoked, test_lost);
	krdma_disconnect(test_session);
	krdma_client_destroy(test_client);
	slots_free();
}

static int test_setup(void)
{
	struct krdma_open_param open = { .rights = RW, .event = on_event };
	struct sockaddr_storage dst;
	int rc;

	rc = slots_alloc();
	if (rc)
		return rc;
	rc = inet_pton_with_scope(&init_net, AF_UNSPEC, test_address, NULL, &dst);
	if (rc)
		return rc;
	test_client = krdma_client_create(&init_net);
	if (IS_ERR(test_client))
		return PTR_ERR(test_client);
	test_session = connect_to(&dst, KRDMA_CONNECT_PRIVATE);
	if (IS_ERR(test_session))
		return PTR_ERR(test_session);
	open.name = test_name;
	test_region = krdma_open(test_session, &open);
	return PTR_ERR_OR_ZERO(test_region);
}

static int __init test_init(void)
{
	int rc = test_setup();

	if (!rc && !strcmp(what, "stress"))
		rc = test_stress() ? 0 : -EIO;
	else if (!rc && !strcmp(what, "errors"))
		rc = test_errors() ? 0 : -EIO;
	else if (!rc && !strcmp(what, "numbers"))
		rc = test_numbers() ? 0 : -EIO;
	else if (!rc && !strcmp(what, "messages"))
		rc = test_messages() ? 0 : -EIO;
	else if (!rc && !strcmp(what, "crowd"))
		rc = crowd_begin() ? 0 : -EIO;
	else if (!rc && !strcmp(what, "joined"))
		rc = test_joined() ? 0 : -EIO;
	else if (!rc)
		rc = loop_begin();
	if (rc) {
		pr_err("krdma_kapi_test: %s failed (%pe)\n", what, ERR_PTR(rc));
		test_exit();
	}
	return rc;
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Test of krdma_mover's in-kernel API");
MODULE_LICENSE("GPL");
