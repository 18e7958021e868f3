// SPDX-License-Identifier: GPL-2.0
/* From a region on the command line to an open one. */
#include <errno.h>
#include <string.h>

#include "conf.h"

uint32_t timeout_to_ms(uint64_t ns)
{
	return (uint32_t)((ns + 999999) / 1000000);
}

struct krdma_connect_options connect_options(uint32_t flags, uint64_t timeout_ns)
{
	return (struct krdma_connect_options){
		.flags = flags,
		.timeout_ms = timeout_to_ms(timeout_ns),
	};
}

static int resume_option(const char *text, struct krdma_connect_options *options)
{
	uint64_t seconds = KRDMA_RESUME_ALWAYS;

	if (strcmp(text, "always") != 0 && parse_count(text, KRDMA_RESUME_MAX, &seconds))
		return usage_error("'%s' is not a number of seconds, 0 to %d, or 'always'", text,
				   KRDMA_RESUME_MAX);
	options->resume_s = (uint32_t)seconds;
	options->flags = seconds ? 0 : KRDMA_CONNECT_FAIL_FAST;
	return DONE;
}

static int path_option(const char *text, struct krdma_connect_options *options)
{
	static struct krdma_path_addr paths[KRDMA_PATHS_MAX - 1];
	const unsigned int most = KRDMA_PATHS_MAX - 1;

	if (options->npaths == KRDMA_PATHS_AUTO || (options->npaths && !strcmp(text, "auto")))
		return usage_error("--path auto stands for all paths");
	if (!strcmp(text, "auto")) {
		options->npaths = KRDMA_PATHS_AUTO;
		return DONE;
	}
	if (options->npaths == most)
		return usage_error("there are at most %u --path", most);
	if (!conf_checks && krdma_resolve(text, &paths[options->npaths].dst, 1) != 1)
		return fail_krdma();
	options->npaths++;
	options->paths = paths;
	return DONE;
}

static int keepalive_option(const char *text, struct krdma_connect_options *options)
{
	uint64_t seconds;

	if (parse_count(text, KRDMA_KEEPALIVE_MAX, &seconds) || !seconds)
		return usage_error("'%s' is not a number of seconds, 1 to %d", text,
				   KRDMA_KEEPALIVE_MAX);
	options->keepalive_s = (uint32_t)seconds;
	return DONE;
}

static const char *const policy_names[] = {
	[KRDMA_POLICY_IN_FLIGHT] = "in-flight",
	[KRDMA_POLICY_ROUND_ROBIN] = "round-robin",
	[KRDMA_POLICY_LATENCY] = "latency",
};

const char *policy_name(uint32_t policy)
{
	return policy < ARRAY_SIZE(policy_names) ? policy_names[policy] : "?";
}

static int policy_option(const char *text, struct krdma_connect_options *options)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(policy_names); i++) {
		if (strcmp(text, policy_names[i]) != 0)
			continue;
		options->policy = i;
		return DONE;
	}
	return usage_error("'%s' is no policy: in-flight, round-robin or latency", text);
}

int connect_option(int option, const char *text, struct krdma_connect_options *options)
{
	if (option == OPT_RESUME)
		return resume_option(text, options);
	if (option == OPT_KEEPALIVE)
		return keepalive_option(text, options);
	return option == OPT_PATH ? path_option(text, options) : policy_option(text, options);
}

static int open_region(struct krdma *krdma, const struct region_spec *spec, uint32_t rights,
		       struct krdma_connect_options options, uint32_t *session,
		       struct krdma_region *region)
{
	int rc;

	if (rights & KRDMA_RIGHT_MESSAGE)
		options.flags |= KRDMA_CONNECT_MESSAGES;
	if (krdma_connect_host(krdma, spec->host, &options, session, NULL))
		return fail_krdma();
	rc = krdma_open_region(krdma, *session, spec->name, rights, options.timeout_ms, region);
	if (rc == -ENOENT && spec->copied && strchr(spec->name, ':'))
		return OF_A_SHARE;
	return rc ? fail_krdma() : DONE;
}

int range_open(struct range *range, const struct region_spec *spec, uint32_t rights,
	       struct krdma_connect_options options)
{
	char text[SIZE_TEXT];
	int rc;

	if (module_open(&range->krdma))
		return FAILED;
	rc = open_region(range->krdma, spec, rights, options, &range->session, &range->region);
	if (rc) {
		krdma_free(range->krdma);
		return rc;
	}
	range->offset = spec->offset;
	range->length = spec->length;
	if (range->offset < range->region.length) {
		if (!range->length)
			range->length = range->region.length - range->offset;
		if (range->length <= range->region.length - range->offset)
			return DONE;
	}
	krdma_free(range->krdma);
	return fail(ERANGE, "the range is outside '%s', which has %s (%llu bytes)", spec->name,
		    size_text(range->region.length, text),
		    (unsigned long long)range->region.length);
}

int range_open_again(const struct range *range, const struct region_spec *spec, uint32_t rights,
		     struct krdma_connect_options options, uint32_t *region)
{
	struct krdma_region again = { 0 };
	uint32_t session;

	options.flags |= KRDMA_CONNECT_PRIVATE;
	if (open_region(range->krdma, spec, rights, options, &session, &again))
		return FAILED;
	if (again.length != range->region.length)
		return fail(ESTALE, "'%s' has changed its length meanwhile", spec->name);
	*region = again.id;
	return DONE;
}

void range_close(struct range *range)
{
	krdma_free(range->krdma);
}
