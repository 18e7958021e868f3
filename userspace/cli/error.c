// SPDX-License-Identifier: GPL-2.0
/* How a command ends: with one sentence that names the object and the cause, or at a signal. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static char subject[1024];
/* The word of the subject that 'krdma help' knows. */
static char command_name[32];
/* Where the words of the command come from, for subject_follow(). */
static const char *followed_file;
static const unsigned int *followed_lines;
/* Exit status of what has failed. */
static int cause = FAILED;

void subject_set(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(subject, sizeof(subject), fmt, args);
	va_end(args);
	snprintf(command_name, sizeof(command_name), "%.*s", (int)strcspn(subject, " "), subject);
}

void subject_follow(const char *file, const unsigned int *lines)
{
	followed_file = file;
	followed_lines = lines;
}

static int status_of(int error)
{
	switch (error) {
	case ENODEV:
	case ENXIO:
	case ENOTTY:
	case EAFNOSUPPORT:
	case EADDRNOTAVAIL:
		return NOT_READY;
	case EAGAIN: /* of the name server */
	case ECONNABORTED:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENETUNREACH:
	case ENOTCONN:
	case EPROTO:
	case ESHUTDOWN:
	case ETIMEDOUT:
		return NO_ANSWER;
	case ENOENT:
	case ESTALE:
		return NOT_THERE;
	case EACCES:
	case EPERM:
		return NOT_ALLOWED;
	case EADDRINUSE:
	case EBUSY:
	case EDQUOT:
	case EEXIST:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOSPC:
		return IN_USE;
	case EILSEQ:
		return BYTES_DIFFER;
	}
	return FAILED;
}

/* One write, so that it stays one line beside those of other processes. */
static void message_json(const char *kind, int status, int error, const char *text)
{
	struct json_object *root = json_root(), *object = json_object_new_object();

	if (status)
		json_add_count(object, "status", (uint64_t)status);
	/* A driver's own errno has no name. */
	if (error && strerrorname_np(error))
		json_add_text(object, "errno", strerrorname_np(error));
	json_add_text(object, "object", subject);
	json_add_text(object, "message", text);
	json_object_object_add(root, kind, object);
	fprintf(stderr, "%s\n",
		json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN |
							     JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

static void message(const char *kind, int status, int error, const char *fmt, va_list args)
{
	char text[1024];

	if (followed_file)
		subject_set("apply %s:%u", followed_file, followed_lines[optind ? optind - 1 : 0]);
	vsnprintf(text, sizeof(text), fmt, args);
	if (json_asked)
		message_json(kind, status, error, text);
	else if (status == USAGE)
		fprintf(stderr, "krdma: %s%s%s (see 'krdma help%s%s')\n", subject,
			*subject ? ": " : "", text, *command_name ? " " : "", command_name);
	else
		fprintf(stderr, "krdma: %s%s%s\n", subject, *subject ? ": " : "", text);
}

int fail(int error, const char *fmt, ...)
{
	va_list args;

	cause = status_of(error);
	va_start(args, fmt);
	message("error", cause, error, fmt, args);
	va_end(args);
	return FAILED;
}

void tell(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	message("notice", DONE, 0, fmt, args);
	va_end(args);
}

int fail_krdma(void)
{
	return fail(krdma_errno(), "%s", krdma_error());
}

int module_open(struct krdma **krdma)
{
	int rc = krdma_new(krdma);

	if (!rc)
		return DONE;
	/* No such device, rather than no such name at the peer. */
	return fail(rc == -ENOENT ? ENODEV : -rc, "%s", krdma_error());
}

int usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	message("error", USAGE, 0, fmt, args);
	va_end(args);
	return USAGE;
}

int exit_status(int rc)
{
	return rc == FAILED ? cause : rc;
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
			return fail(errno, "cannot write to standard output: %s", strerror(errno));
		return status;
	}
	return status;
}
