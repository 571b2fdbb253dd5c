/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame filters on a profile itself, where its labels, lines and other values are to stay: what an expression says of a string is asked
 * once per string, what the filters leave of a location is worked out once per location.
 */
#include "cli/filter.h"
#include "lib/base/alloc.h"
#include "lib/base/regex.h"
#include <string.h>

enum { UNASKED = 0, NO = 1, YES = 2 };

struct matcher {
	const struct regex *re;
	uint8_t *answers; /* per string */
	int error;
};

struct verdict {
	bool focused, ignored, shown, from;
};

struct filtering {
	struct profile *p;
	struct matcher focus, ignore, hide, show, show_from;
	struct errbuf *eb;
};

static void filtering_done(struct filtering *f)
{
	free(f->focus.answers);
	free(f->ignore.answers);
	free(f->hide.answers);
	free(f->show.answers);
	free(f->show_from.answers);
}

static struct matcher matcher_of(const struct regex *re, size_t n_strings)
{
	return (struct matcher) {
		.re = re, .answers = re ? xcalloc(n_strings + 1, sizeof(uint8_t)) : NULL};
}

static bool match_string(struct filtering *f, struct matcher *m, uint32_t id)
{
	struct prof_str s = profile_str(f->p, id);
	int r;

	if (m->error)
		return false;
	if (m->answers[id] == UNASKED) {
		r = regex_match(m->re, s.len ? s.p : "", s.len, f->eb);
		m->error = MIN(r, 0);
		m->answers[id] = r > 0 ? YES : NO;
	}
	return m->answers[id] == YES;
}

static bool match_mapping(struct filtering *f, struct matcher *m, const struct prof_location *l)
{
	return l->mapping != PROF_NONE && match_string(f, m, f->p->mappings[l->mapping].filename);
}

/* A line without function matches nothing. */
static bool match_line(struct filtering *f, struct matcher *m, const struct prof_line *line)
{
	const struct prof_function *fn;

	if (line->function == PROF_NONE)
		return false;
	fn = &f->p->functions[line->function];
	return match_string(f, m, fn->name) || match_string(f, m, fn->filename);
}

static bool match_location(struct filtering *f, struct matcher *m, const struct prof_location *l)
{
	for (uint32_t i = 0; i < l->n_lines; i++)
		if (match_line(f, m, &f->p->lines[l->first_line + i]))
			return true;
	return match_mapping(f, m, l);
}

/* Of the lines those for which `m` answers `keep`; a mapping that matches answers for all of them. */
static void keep_lines(struct filtering *f, struct matcher *m, struct prof_location *l, bool keep)
{
	struct prof_line *lines = f->p->lines + l->first_line;
	uint32_t n = 0;

	if (!m->re)
		return;
	if (match_mapping(f, m, l)) {
		l->n_lines = keep ? l->n_lines : 0;
		return;
	}
	for (uint32_t i = 0; i < l->n_lines; i++)
		if (lines[i].function == PROF_NONE || match_line(f, m, &lines[i]) == keep)
			lines[n++] = lines[i];
	l->n_lines = n;
}

/* Lines further out than the outermost match go. */
static bool trim_from(struct filtering *f, struct prof_location *l)
{
	if (match_mapping(f, &f->show_from, l))
		return true;
	for (uint32_t i = l->n_lines; i-- > 0;)
		if (match_line(f, &f->show_from, &f->p->lines[l->first_line + i])) {
			l->n_lines = i + 1;
			return true;
		}
	return false;
}

/* Takes lines from the location too. */
static struct verdict judge(struct filtering *f, struct prof_location *l)
{
	bool is_named = l->n_lines > 0;
	struct verdict v = {.shown = true};

	v.ignored = f->ignore.re && match_location(f, &f->ignore, l);
	v.focused = !v.ignored && (!f->focus.re || match_location(f, &f->focus, l));
	if (is_named) {
		keep_lines(f, &f->hide, l, false);
		keep_lines(f, &f->show, l, true);
		v.shown = l->n_lines > 0;
	} else /* its mapping decides */
		v.shown = !(f->hide.re && match_mapping(f, &f->hide, l)) &&
			  (!f->show.re || match_mapping(f, &f->show, l));
	v.from = v.shown && f->show_from.re && trim_from(f, l);
	return v;
}

/* What is left of a sample's stack is written to `to`, in the same order; false: the sample is dropped. */
static bool filter_stack(const struct filtering *f, const struct verdict *verdicts, size_t sample,
	uint32_t *to, size_t *ret_n)
{
	const struct profile *p = f->p;
	uint64_t first = p->stack_first[sample], last = p->stack_first[sample + 1], out = last;
	bool by_name = f->focus.re || f->ignore.re || f->hide.re || f->show.re;
	struct verdict seen = {};

	/* From the root, which is last, into the room behind what is still to be read. */
	for (uint64_t i = last; i-- > first;) {
		const struct verdict *v = &verdicts[p->stacks[i]];

		seen.focused |= v->focused;
		seen.ignored |= v->ignored;
		seen.from |= v->from;
		if (!v->shown || (f->show_from.re && !seen.from))
			continue;
		seen.shown = true;
		p->stacks[--out] = p->stacks[i];
	}
	if ((by_name && (!seen.focused || seen.ignored || !seen.shown)) ||
		(f->show_from.re && !seen.from))
		return false;
	*ret_n = last - out;
	memmove(to, p->stacks + out, *ret_n * sizeof(*to));
	return true;
}

static void filter_samples(const struct filtering *f, const struct verdict *verdicts)
{
	struct profile *p = f->p;
	size_t n = 0, words = 0, labels = 0, length;

	for (size_t i = 0; i < p->n_samples; i++) {
		uint64_t first = p->label_first[i], n_labels = p->label_first[i + 1] - first;

		if (!filter_stack(f, verdicts, i, p->stacks + words, &length))
			continue;
		memmove(p->labels + labels, p->labels + first, n_labels * sizeof(*p->labels));
		memmove(p->values + n * p->n_types, p->values + i * p->n_types,
			p->n_types * sizeof(*p->values));
		p->stack_first[n] = words;
		p->label_first[n] = labels;
		words += length;
		labels += n_labels;
		n++;
	}
	p->stack_first[n] = words;
	p->label_first[n] = labels;
	p->n_samples = n;
	p->n_stack_words = words;
	p->n_labels = labels;
}

int cli_profile_filter(struct profile *p, const struct tree_filter *filter, struct errbuf *eb)
{
	size_t n = p->n_strings;
	_cleanup_(filtering_done)
	struct filtering f = {.p = p,
		.eb = eb,
		.focus = matcher_of(filter->focus, n),
		.ignore = matcher_of(filter->ignore, n),
		.hide = matcher_of(filter->hide, n),
		.show = matcher_of(filter->show, n),
		.show_from = matcher_of(filter->show_from, n)};
	const struct matcher *const all[] = {&f.focus, &f.ignore, &f.hide, &f.show, &f.show_from};
	_cleanup_free_ struct verdict *verdicts = xcalloc(p->n_locations + 1, sizeof(*verdicts));

	if (tree_filter_is_empty(filter))
		return 0;
	for (size_t i = 0; i < p->n_locations; i++)
		verdicts[i] = judge(&f, &p->locations[i]);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->error)
			return all[i]->error;
	filter_samples(&f, verdicts);
	return 0;
}
