/* SPDX-License-Identifier: Apache-2.0
 *
 * PCRE2 behind the seam: compile, match with limits. Match data (20 KB once used) lives for one
 * match: keeping it costs more in memory, with thousands of relabel rules, than it saves in time.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include "lib/base/re2_pcre.h"
#include "lib/base/alloc.h"

enum { HEAP_LIMIT_KIB = 64 << 10, NEST_LIMIT = 4000 };

struct re2_pcre {
	pcre2_code *code;
	pcre2_match_context *limits;
	pcre2_general_context *memory;
};

static void *seam_malloc(size_t n, void *ctx)
{
	(void)ctx;
	return try_malloc(n);
}

static void seam_free(void *p, void *ctx)
{
	(void)ctx;
	free(p);
}

static int set_compile_error(struct errbuf *eb, int error)
{
	char text[256] = "";

	if (error == PCRE2_ERROR_HEAP_FAILED)
		return err_set(eb, -ENOMEM, "out of memory");
	pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
	return err_set(eb, -EINVAL, "position 1: %s", text);
}

int re2_pcre_new(const void *pattern, size_t n, struct re2_pcre **ret, struct errbuf *eb)
{
	_cleanup_(re2_pcre_freep)
	struct re2_pcre *p = try_malloc(sizeof(*p));
	pcre2_compile_context *options;
	PCRE2_SIZE off;
	int error;

	if (!p)
		return err_set(eb, -ENOMEM, "out of memory");
	*p = (struct re2_pcre) {
		.memory = pcre2_general_context_create(seam_malloc, seam_free, NULL)};
	if (!p->memory)
		return err_set(eb, -ENOMEM, "out of memory");
	p->limits = pcre2_match_context_create(p->memory);
	options = pcre2_compile_context_create(p->memory);
	if (!p->limits || !options) {
		pcre2_compile_context_free(options);
		return err_set(eb, -ENOMEM, "out of memory");
	}
	pcre2_set_newline(options, PCRE2_NEWLINE_LF);
	pcre2_set_parens_nest_limit(options, NEST_LIMIT);
	pcre2_set_match_limit(p->limits, REGEX_MATCH_STEPS);
	pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KIB);
	p->code = pcre2_compile(pattern, n,
		PCRE2_UTF | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_UTF_CHECK, &error, &off,
		options);
	pcre2_compile_context_free(options);
	if (!p->code)
		return set_compile_error(eb, error);
	*ret = TAKE(p);
	return 0;
}

void re2_pcre_free(struct re2_pcre *p)
{
	if (!p)
		return;
	pcre2_code_free(p->code);
	pcre2_match_context_free(p->limits);
	pcre2_general_context_free(p->memory);
	free(p);
}

static void copy_spans(pcre2_match_data *data, struct regex_span *spans, size_t n_spans)
{
	const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(data);
	size_t n = pcre2_get_ovector_count(data);

	for (size_t i = 0; i < n_spans; i++) {
		bool set = i < n && ovector[2 * i] != PCRE2_UNSET;

		spans[i] = set ? (struct regex_span) {(ptrdiff_t)ovector[2 * i],
					 (ptrdiff_t)ovector[2 * i + 1]}
			       : (struct regex_span) {-1, -1};
	}
}

int re2_pcre_match(const struct re2_pcre *p, const char *s, size_t n, size_t from,
	struct regex_span *spans, size_t n_spans, struct errbuf *eb)
{
	pcre2_match_data *data = pcre2_match_data_create_from_pattern(p->code, p->memory);
	int r;

	if (!data)
		return err_set(eb, -ENOMEM, "out of memory");
	r = pcre2_match(p->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, data, p->limits);
	if (r >= 0)
		copy_spans(data, spans, n_spans);
	pcre2_match_data_free(data);
	if (r >= 0)
		return 1;
	if (r == PCRE2_ERROR_NOMATCH)
		return 0;
	if (r == PCRE2_ERROR_NOMEMORY)
		return err_set(eb, -ENOMEM, "out of memory");
	return err_set(
		eb, -ENOMEM, "matching %zu bytes needs more than %d steps", n, REGEX_MATCH_STEPS);
}
