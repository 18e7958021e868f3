// SPDX-License-Identifier: GPL-2.0
/* How a command ends: with one sentence that names the object and the cause, or at a signal. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static char subject[1024];
/* The word of the subject that 'krdma help' knows. */
static char command_name[32];

void subject_set(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(subject, sizeof(subject), fmt, args);
	va_end(args);
	snprintf(command_name, sizeof(command_name), "%.*s", (int)strcspn(subject, " "), subject);
}

static void message(const char *fmt, va_list args, const char *tail)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, args);
	/* One write, so that it stays one line beside those of other processes. */
	fprintf(stderr, "krdma: %s%s%s%s\n", subject, *subject ? ": " : "", text, tail);
}

int fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	message(fmt, args, "");
	va_end(args);
	return FAILED;
}

void tell(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	message(fmt, args, "");
	va_end(args);
}

int fail_krdma(void)
{
	return fail("%s", krdma_error());
}

int usage_error(const char *fmt, ...)
{
	char tail[64];
	va_list args;

	snprintf(tail, sizeof(tail), " (see 'krdma help%s%s')", *command_name ? " " : "",
		 command_name);
	va_start(args, fmt);
	message(fmt, args, tail);
	va_end(args);
	return USAGE;
}

void stop_signals_block(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, signals, NULL);
}

int finish_output(int status)
{
	if (fflush(stdout) || ferror(stdout)) {
		if (status == DONE)
			return fail("cannot write to standard output: %s", strerror(errno));
		return status;
	}
	return status;
}
