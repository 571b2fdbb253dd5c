/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks: FRAME;FRAME;FRAME NUMBER a line, root first. A first pass looks at all lines: which are none, and by what their numbers
 * have to be multiplied. The second builds.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/text_internal.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
	MAX_NUMBER = 40,
	MAX_INLINED = 1024, /* frames in one caller; further ones are frames of their own */
	N_SCALES = 4,
};

static const struct {
	unsigned factor;
	const char *unit;
} scales[N_SCALES] = {
	{1, "count"}, {1000, "thousandths"}, {1000000, "millionths"}, {1000000000, "billionths"}};

/* How much of the sum rounding may change, and up to where sums are sure to fit 64 bits. */
#define MAX_ROUNDED_SHARE 0.01
#define MAX_SUM 9e18

/* ---- lines ---- */

struct number {
	bool is_whole; /* and `whole` has it exactly */
	int64_t whole;
	double real;
};

/* The number behind the last blank: where the blank is. False when there is none. */
static bool cut_number(const char *p, size_t n, size_t *ret_blank, struct number *ret)
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
	ret->is_whole = str_parse_i64(text, &ret->whole, NULL) == 0;
	if (ret->is_whole) {
		ret->real = (double)ret->whole;
		return true;
	}
	return text[strspn(text, "0123456789.eE+-")] == '\0' &&
	       str_parse_double(text, &ret->real, NULL) == 0 && isfinite(ret->real) &&
	       fabs(ret->real) <= MAX_SUM;
}

/* Neither a stack nor meant to be one. Names may begin with # (Ruby's #<Class:…>). */
static bool is_comment(const struct prof_text_line *line)
{
	size_t i = 0;

	while (i < line->n && isblank((unsigned char)line->p[i]))
		i++;
	return i == line->n ||
	       (line->p[0] == '#' && (line->n == 1 || isblank((unsigned char)line->p[1])));
}

/* ---- the first pass ---- */

struct survey {
	size_t n_stacks, n_two; /* of which so many end in two numbers */
	bool says_empty;
	double sum, changed[N_SCALES];
	size_t n_vanished[N_SCALES];
};

static void survey_number(struct survey *s, const struct number *v)
{
	s->sum += fabs(v->real);
	if (v->is_whole)
		return;
	for (size_t i = 0; i < N_SCALES; i++) {
		double scaled = v->real * scales[i].factor;

		s->changed[i] += fabs(round(scaled) - scaled) / scales[i].factor;
		s->n_vanished[i] += v->real != 0 && round(scaled) == 0;
	}
}

static int survey_lines(
	const char *p, size_t n, struct survey *s, struct prof_text_notes *notes, struct errbuf *eb)
{
	struct prof_text_line line = {.number = 0};

	for (size_t at = 0; prof_text_next(p, n, &at, &line);) {
		struct number value, before;
		size_t blank, second;
		int r = prof_text_check(&line, 0, eb);

		if (r < 0)
			return r;
		if (is_comment(&line)) {
			s->says_empty |= line.n == strlen(PROF_TEXT_EMPTY) &&
					 !memcmp(line.p, PROF_TEXT_EMPTY, line.n);
			continue;
		}
		if (!cut_number(line.p, line.n, &blank, &value)) {
			prof_text_note_skipped(notes, line.number);
			continue;
		}
		s->n_stacks++;
		s->n_two += cut_number(line.p, blank, &second, &before);
		survey_number(s, &value);
		prof_text_note_controls(notes, &line);
	}
	return 0;
}

static int check_survey(
	const struct survey *s, const struct prof_text_notes *notes, struct errbuf *eb)
{
	size_t n_all = s->n_stacks + notes->n_skipped;

	if (!n_all && !s->says_empty)
		return err_set(eb, -EBADMSG, "neither a pprof profile nor stacks as text");
	if (notes->n_skipped > s->n_stacks)
		return err_set(eb, -EBADMSG,
			"%sline %zu: expected folded stacks: FRAME;FRAME;FRAME NUMBER (%zu of %zu "
			"lines are none)",
			s->n_stacks ? "" : "neither a pprof profile nor stacks as text: ",
			notes->first_skipped, notes->n_skipped, n_all);
	if (s->n_stacks && s->n_two == s->n_stacks)
		return err_set(eb, -EBADMSG,
			"every line has two numbers: a difference, expected stacks with one");
	return 0;
}

/* The least scale at which no value vanishes and rounding changes next to nothing; else, the least at which the latter holds. */
static size_t choose_scale(const struct survey *s)
{
	size_t second = 0;
	bool has_second = false;

	for (size_t i = 0; i < N_SCALES; i++) {
		if (i && s->sum * scales[i].factor > MAX_SUM)
			break;
		if (s->changed[i] > MAX_ROUNDED_SHARE * s->sum)
			continue;
		if (!s->n_vanished[i])
			return i;
		if (!has_second)
			second = i;
		has_second = true;
	}
	return second;
}

/* ---- the second pass ---- */

struct folded {
	struct prof_builder *b;
	uint32_t *locations;
	size_t n_locations, cap_locations;
	struct prof_line *lines; /* inlined frames whose caller comes next, innermost first */
	size_t n_lines, cap_lines;
	struct arena *arena; /* of the profile */
	double factor;
};

/* The mark of a frame's kind, as flamegraph.pl and async-profiler know them, cut off; 0: none. */
static char cut_mark(const char *p, size_t *n)
{
	const char *end = p + *n;

	if (*n < 5 || end[-4] != '_' || end[-3] != '[' || end[-1] != ']' || !end[-2] ||
		!strchr("kjiw01", end[-2]))
		return 0;
	*n -= 4;
	return end[-2];
}

/* Where frames of a mark are, as tree_kind_of_mapping knows the names. */
static uint32_t mapping_of(struct folded *f, char mark)
{
	const char *name = mark == 'k'			 ? "[kernel.kallsyms]"
			   : mark && strchr("j01", mark) ? "[jit]"
							 : NULL;

	return name ? prof_builder_mapping(f->b,
			      &(struct prof_mapping) {
				      .filename = prof_builder_string(f->b, name, strlen(name)),
				      .has_functions = true})
		    : PROF_NONE;
}

static int end_location(struct folded *f, char mark)
{
	if (!f->n_lines)
		return 0;
	if (alloc_grow(&f->locations, &f->cap_locations, f->n_locations + 1,
		    sizeof(*f->locations)) < 0)
		return -ENOMEM;
	f->locations[f->n_locations++] =
		prof_builder_location(f->b, 0, mapping_of(f, mark), f->lines, f->n_lines);
	f->n_lines = 0;
	return 0;
}

/* Frames come from the leaf on, so that an inlined one comes before the caller whose location has its line. */
static int add_frame(struct folded *f, const char *p, size_t n)
{
	char mark = cut_mark(p, &n);
	uint32_t text = prof_text_name(f->b, f->arena, p, n);
	struct prof_function function = {.name = text, .system_name = text};

	if (alloc_grow(&f->lines, &f->cap_lines, f->n_lines + 1, sizeof(*f->lines)) < 0)
		return -ENOMEM;
	f->lines[f->n_lines++] =
		(struct prof_line) {.function = prof_builder_function(f->b, &function)};
	return mark == 'i' && f->n_lines < MAX_INLINED ? 0 : end_location(f, mark);
}

static int add_stack(struct folded *f, const char *p, size_t n, int64_t value)
{
	int r = 0;

	f->n_locations = 0;
	for (size_t end = n; r == 0 && end;) {
		size_t from = end;

		while (from && p[from - 1] != ';')
			from--;
		if (from < end)
			r = add_frame(f, p + from, end - from);
		end = from ? from - 1 : 0;
	}
	if (r == 0)
		r = end_location(f, 0);
	if (r == 0)
		prof_builder_sample(f->b, f->locations, f->n_locations, &value, NULL, 0, true);
	return r;
}

static size_t count_frames(const char *p, size_t n)
{
	size_t count = 1;

	for (const char *at = p; (at = memchr(at, ';', n - (size_t)(at - p))); at++)
		count++;
	return count;
}

static int build(struct folded *f, const char *p, size_t n, struct errbuf *eb)
{
	struct prof_text_line line = {.number = 0};
	int r = 0;

	for (size_t at = 0; r == 0 && prof_text_next(p, n, &at, &line);) {
		struct number v;
		size_t blank;

		if (is_comment(&line) || !cut_number(line.p, line.n, &blank, &v))
			continue;
		r = prof_text_check(&line, count_frames(line.p, blank), eb);
		if (r == 0 && v.is_whole && f->factor == 1)
			r = add_stack(f, line.p, blank, v.whole);
		else if (r == 0)
			r = add_stack(f, line.p, blank, llround(v.real * f->factor));
	}
	return r == -ENOMEM ? err_set(eb, r, "out of memory") : r;
}

int prof_text_read_folded(const char *p, size_t n, struct profile *ret,
	struct prof_text_notes *notes, struct errbuf *eb)
{
	struct survey s = {.n_stacks = 0};
	struct folded f = {.arena = &ret->arena};
	size_t scale;
	int r = survey_lines(p, n, &s, notes, eb);

	if (r == 0)
		r = check_survey(&s, notes, eb);
	if (r < 0)
		return r;
	scale = choose_scale(&s);
	notes->scale = scales[scale].factor;
	notes->n_vanished = s.n_vanished[scale];
	f.factor = scales[scale].factor;
	f.b = prof_builder_new(ret);
	prof_builder_type(f.b, "samples", scales[scale].unit);
	r = build(&f, p, n, eb);
	if (r == 0)
		r = prof_builder_finish(f.b, eb);
	prof_builder_freep(&f.b);
	free(f.locations);
	free(f.lines);
	return r;
}
