/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks, and which of the texts it is.
 */
#include "lib/prof/text.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <math.h>
#include <string.h>

enum { PEEK_BYTES = 4096, MAX_NUMBER = 40 };

bool prof_text_is(const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < MIN(len, (size_t)PEEK_BYTES); i++)
		if ((p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r') || p[i] == 0x7f)
			return false;
	return true;
}

bool prof_text_next(const char *p, size_t n, size_t *at, struct prof_text_line *line)
{
	const char *end;

	if (*at >= n)
		return false;
	line->p = p + *at;
	end = memchr(line->p, '\n', n - *at);
	line->n = end ? (size_t)(end - line->p) : n - *at;
	*at += line->n + 1;
	line->number++;
	line->n -= line->n && line->p[line->n - 1] == '\r';
	return true;
}

int prof_text_check(const struct prof_text_line *line, size_t n_frames, struct errbuf *eb)
{
	if (line->n > PROF_TEXT_MAX_LINE)
		return err_set(eb, -EBADMSG, "line %zu has %zu bytes: expected stacks, at most %d",
			line->number, line->n, PROF_TEXT_MAX_LINE);
	if (n_frames > PROF_TEXT_MAX_FRAMES)
		return err_set(eb, -EBADMSG,
			"line %zu: a stack of more than %d frames: expected fewer", line->number,
			PROF_TEXT_MAX_FRAMES);
	return 0;
}

/* The number behind the last blank: where the blank is. False when there is none. */
static bool cut_number(const char *p, size_t n, size_t *ret_blank, double *ret)
{
	char text[MAX_NUMBER];
	size_t blank = n, len;

	while (blank && p[blank - 1] != ' ' && p[blank - 1] != '\t')
		blank--;
	len = n - blank;
	if (blank < 2 || !len || len >= sizeof(text))
		return false;
	memcpy(text, p + blank, len);
	text[len] = '\0';
	*ret_blank = blank - 1;
	return text[strspn(text, "0123456789.eE+-")] == '\0' &&
	       str_parse_double(text, ret, NULL) == 0 && isfinite(*ret);
}

struct folded {
	struct prof_builder *b;
	uint32_t *locations;
	size_t cap;
};

static uint32_t add_frame(struct folded *f, const char *name, size_t n)
{
	uint32_t text = prof_builder_string(f->b, name, n);
	struct prof_function function = {.name = text, .system_name = text};
	struct prof_line line = {.function = prof_builder_function(f->b, &function)};

	return prof_builder_location(f->b, 0, PROF_NONE, &line, 1);
}

static size_t count_frames(const char *p, size_t n)
{
	size_t count = 1;

	for (const char *at = p; (at = memchr(at, ';', n - (size_t)(at - p))); at++)
		count++;
	return count;
}

static int add_stack(struct folded *f, const char *p, size_t n, int64_t value)
{
	size_t depth = 0;

	/* From the end: the leaf comes first. */
	for (size_t end = n; end;) {
		size_t from = end;

		while (from && p[from - 1] != ';')
			from--;
		if (alloc_grow(&f->locations, &f->cap, depth + 1, sizeof(*f->locations)) < 0)
			return -ENOMEM;
		if (from < end)
			f->locations[depth++] = add_frame(f, p + from, end - from);
		end = from ? from - 1 : 0;
	}
	prof_builder_sample(f->b, f->locations, depth, &value, NULL, 0, true);
	return 0;
}

static int add_line(
	struct folded *f, const struct prof_text_line *line, bool *ret_two, struct errbuf *eb)
{
	size_t blank, second;
	double value, before;
	int r = prof_text_check(line, 0, eb);

	if (r < 0)
		return r;
	if (!cut_number(line->p, line->n, &blank, &value) || fabs(value) > 9e18)
		return err_set(eb, -EBADMSG,
			"%sline %zu: expected folded stacks: FRAME;FRAME;FRAME NUMBER",
			line->number == 1 ? "neither a pprof profile nor stacks as text: " : "",
			line->number);
	*ret_two = cut_number(line->p, blank, &second, &before);
	r = prof_text_check(line, count_frames(line->p, blank), eb);
	return r < 0 ? r : add_stack(f, line->p, blank, llround(value));
}

static int read_folded(const char *p, size_t n, struct folded *f, struct errbuf *eb)
{
	struct prof_text_line line = {.number = 0};
	size_t n_lines = 0, n_two = 0;

	for (size_t at = 0; prof_text_next(p, n, &at, &line);) {
		bool has_two = false;
		int r;

		if (!line.n || line.p[0] == '#')
			continue;
		r = add_line(f, &line, &has_two, eb);
		if (r < 0)
			return r == -ENOMEM ? err_set(eb, r, "out of memory") : r;
		n_lines++;
		n_two += has_two;
	}
	if (!n_lines)
		return err_set(eb, -EBADMSG, "neither a pprof profile nor stacks as text");
	return n_two < n_lines ? 0
			       : err_set(eb, -EBADMSG,
					 "every line has two numbers: a difference, expected "
					 "stacks with one");
}

int prof_text_read(const void *data, size_t len, struct profile *ret, struct errbuf *eb)
{
	const char *p = data;
	struct folded f = {.locations = NULL};
	int r;

	if (prof_text_is_perf(p, len))
		return prof_text_read_perf(p, len, ret, eb);
	f.b = prof_builder_new(ret);
	prof_builder_type(f.b, "samples", "count");
	r = read_folded(p, len, &f, eb);
	if (r == 0)
		r = prof_builder_finish(f.b, eb);
	prof_builder_freep(&f.b);
	free(f.locations);
	return r;
}
