/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame filters. What an expression says of a location is worked out once per location, and of a
 * string once per string; one pass over the tree in preorder then carries "focused", "ignored" and
 * "shown" from parents to children.
 */
#include "lib/tree/filter.h"
#include "lib/base/alloc.h"
#include "lib/base/regex.h"
#include "lib/tree/canon.h"
#include "lib/tree/tree_internal.h"
#include <string.h>

enum { UNASKED = 0, NO = 1, YES = 2 };

/* One expression with its answers per string. */
struct matcher {
	const struct regex *re;
	uint8_t *answers; /* per string */
	size_t n;
	int error;
	struct errbuf *eb;
};

static void matcher_done(struct matcher *m)
{
	free(m->answers);
}

static int matcher_init(
	struct matcher *m, const struct regex *re, const struct tree_symbols *s, struct errbuf *eb)
{
	*m = (struct matcher) {.re = re, .n = s->n_strings, .eb = eb};
	if (!re)
		return 0;
	m->answers = try_malloc(MAX(m->n, (size_t)1));
	if (!m->answers)
		return err_set(eb, -ENOMEM, "out of memory for %zu names", m->n);
	memset(m->answers, UNASKED, m->n);
	return 0;
}

/* A name matches as it is, or as it is shown where clones are joined. */
static int match_text(const struct matcher *m, const char *text, size_t len)
{
	char shown[TREE_CANON_MAX];
	int r = regex_match(m->re, text, len, m->eb);
	size_t n;

	if (r)
		return r;
	n = tree_canonical_name(text, len, TREE_CANON_CLONES, shown);
	return n && n < len ? regex_match(m->re, shown, n, m->eb) : 0;
}

static bool match_string(struct matcher *m, const struct tree_symbols *s, uint32_t id)
{
	const char *text;
	size_t len;
	int r;

	if (m->error)
		return false;
	if (m->answers[id] == UNASKED) {
		text = tree_symbols_text(s, id, &len);
		r = match_text(m, text, len);
		if (r < 0)
			m->error = r;
		m->answers[id] = r > 0 ? YES : NO;
	}
	return m->answers[id] == YES;
}

static bool match_mapping(struct matcher *m, const struct tree_symbols *s, uint32_t loc)
{
	uint32_t mapping = s->locations[loc].mapping;

	return mapping != TREE_NONE && match_string(m, s, s->mappings[mapping].file);
}

/* A line without function matches nothing. */
static bool match_line(struct matcher *m, const struct tree_symbols *s, uint32_t line)
{
	uint32_t f = s->lines[line].function;

	return f != TREE_NONE && (match_string(m, s, s->functions[f].name) ||
					 match_string(m, s, s->functions[f].file));
}

static bool match_location(struct matcher *m, const struct tree_symbols *s, uint32_t loc)
{
	const struct tree_location *l = &s->locations[loc];

	for (uint32_t i = 0; i < l->n_lines; i++)
		if (match_line(m, s, l->first_line + i))
			return true;
	return match_mapping(m, s, loc);
}

/* What the filters say of one location. */
struct verdict {
	bool known, focused, ignored, from; /* from: show_from matches here */
	uint32_t shown;			    /* what is left of it; TREE_NONE: hidden */
};

struct filtering {
	struct tree_symbols *symbols;
	struct matcher focus, ignore, hide, show, show_from;
	struct verdict *verdicts; /* per location known at start */
	struct tree_line *lines;  /* scratch */
	size_t cap_lines;
	bool by_name; /* any of focus, ignore, hide, show is set */
};

static void filtering_done(struct filtering *f)
{
	matcher_done(&f->focus);
	matcher_done(&f->ignore);
	matcher_done(&f->hide);
	matcher_done(&f->show);
	matcher_done(&f->show_from);
	free(f->verdicts);
	free(f->lines);
}

static int filtering_init(struct filtering *f, const struct tree_filter *filter,
	struct tree_symbols *symbols, struct errbuf *eb)
{
	size_t n = MAX(symbols->n_locations, (size_t)1);

	f->symbols = symbols;
	f->by_name = filter->focus || filter->ignore || filter->hide || filter->show;
	if (matcher_init(&f->focus, filter->focus, symbols, eb) < 0 ||
		matcher_init(&f->ignore, filter->ignore, symbols, eb) < 0 ||
		matcher_init(&f->hide, filter->hide, symbols, eb) < 0 ||
		matcher_init(&f->show, filter->show, symbols, eb) < 0 ||
		matcher_init(&f->show_from, filter->show_from, symbols, eb) < 0)
		return -ENOMEM;
	f->verdicts = try_realloc(NULL, n, sizeof(*f->verdicts));
	if (!f->verdicts)
		return err_set(eb, -ENOMEM, "out of memory for %zu locations", n);
	memset(f->verdicts, 0, n * sizeof(*f->verdicts));
	return 0;
}

static int filtering_error(const struct filtering *f)
{
	const struct matcher *all[] = {&f->focus, &f->ignore, &f->hide, &f->show, &f->show_from};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->error)
			return all[i]->error;
	return 0;
}

/* Keeps the lines for which `m` answers `keep`; a matching mapping answers for all of them. Returns
 * how many are left. */
static size_t keep_lines(struct filtering *f, struct matcher *m, uint32_t loc,
	const uint32_t *source, size_t n, bool keep, uint32_t *ret)
{
	const struct tree_symbols *s = f->symbols;
	size_t out = 0;

	if (!m->re)
		keep = true;
	if (!m->re || match_mapping(m, s, loc)) {
		memmove(ret, source, keep ? n * sizeof(*ret) : 0);
		return keep ? n : 0;
	}
	for (size_t i = 0; i < n; i++) {
		bool nameless = s->lines[source[i]].function == TREE_NONE;

		if (nameless || match_line(m, s, source[i]) == keep)
			ret[out++] = source[i];
	}
	return out;
}

/* From show_from: lines further out than the outermost match go. A matching mapping keeps them all.
 */
static size_t trim_from(
	struct filtering *f, uint32_t loc, const uint32_t *ids, size_t n, bool *ret_from)
{
	*ret_from = match_mapping(&f->show_from, f->symbols, loc);
	if (*ret_from)
		return n;
	for (size_t i = n; i-- > 0;) {
		if (!match_line(&f->show_from, f->symbols, ids[i]))
			continue;
		*ret_from = true;
		return i + 1;
	}
	return n;
}

static int judge_lines(struct filtering *f, uint32_t loc, struct verdict *v, uint32_t *ids)
{
	struct tree_symbols *s = f->symbols;
	const struct tree_location l = s->locations[loc];
	size_t n = l.n_lines;
	int r;

	for (size_t i = 0; i < n; i++)
		ids[i] = l.first_line + (uint32_t)i;
	n = keep_lines(f, &f->hide, loc, ids, n, false, ids);
	n = keep_lines(f, &f->show, loc, ids, n, true, ids);
	if (!n) {
		v->shown = TREE_NONE;
		return 0;
	}
	if (f->show_from.re)
		n = trim_from(f, loc, ids, n, &v->from);
	if (n == l.n_lines)
		return 0;
	r = alloc_grow(&f->lines, &f->cap_lines, n, sizeof(*f->lines));
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		f->lines[i] = s->lines[ids[i]];
	v->shown = tree_symbols_location(s, l.address, l.mapping, f->lines, n);
	return 0;
}

static int judge(struct filtering *f, uint32_t loc, struct verdict *v)
{
	struct tree_symbols *s = f->symbols;
	uint32_t n = s->locations[loc].n_lines;
	_cleanup_free_ uint32_t *ids = NULL;

	*v = (struct verdict) {.known = true, .shown = loc};
	v->ignored = f->ignore.re && match_location(&f->ignore, s, loc);
	v->focused = !v->ignored && (!f->focus.re || match_location(&f->focus, s, loc));
	if (!n) { /* no lines: the mapping alone decides */
		if ((f->hide.re && match_mapping(&f->hide, s, loc)) ||
			(f->show.re && !match_mapping(&f->show, s, loc)))
			v->shown = TREE_NONE;
		v->from = v->shown != TREE_NONE && f->show_from.re &&
			  match_mapping(&f->show_from, s, loc);
		return 0;
	}
	ids = try_realloc(NULL, n, sizeof(*ids));
	return ids ? judge_lines(f, loc, v, ids) : -ENOMEM;
}

/* Per node of the input: what its path from the root has met so far. */
struct state {
	uint32_t to; /* node of the output; 0 while nothing is shown */
	bool focused, ignored, shown, from;
};

static int step(struct filtering *f, const struct tree *in, size_t i, const struct state *up,
	struct state *ret, struct tree_builder *b)
{
	struct verdict *v = &f->verdicts[in->frame[i]];
	int r = 0;

	if (!v->known)
		r = judge(f, in->frame[i], v);
	if (r)
		return r;
	*ret = *up;
	ret->focused |= v->focused;
	ret->ignored |= v->ignored;
	ret->from |= v->from;
	if (ret->ignored || v->shown == TREE_NONE || (f->show_from.re && !ret->from))
		return 0;
	ret->shown = true;
	ret->to = tree_builder_child(b, up->to, v->shown, in->line[i]);
	return 0;
}

static bool kept(const struct filtering *f, const struct state *s)
{
	if (f->by_name && (!s->focused || s->ignored || !s->shown))
		return false;
	return !f->show_from.re || s->from;
}

int tree_filter_stacks(const struct tree *in, const struct tree_filter *filter,
	struct tree_symbols *symbols, struct tree_builder *b, uint32_t *ret_to, struct errbuf *eb)
{
	_cleanup_(filtering_done)
	struct filtering f = {};
	_cleanup_free_ struct state *states =
		try_realloc(NULL, MAX(in->n, (size_t)1), sizeof(*states));
	int r;

	if (!states)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	r = filtering_init(&f, filter, symbols, eb);
	if (r)
		return r;
	states[0] = (struct state) {};
	for (size_t i = 0; i < in->n; i++) {
		if (i)
			r = step(&f, in, i, &states[in->parent[i]], &states[i], b);
		if (r)
			return err_set(eb, r, "out of memory while filtering frames");
		ret_to[i] = kept(&f, &states[i]) ? states[i].to : TREE_NONE;
	}
	r = filtering_error(&f);
	return r ? r : tree_symbols_error(symbols, eb);
}

int tree_filter_apply(const struct tree *in, const struct tree_filter *filter,
	struct tree_symbols *symbols, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_builder_ struct tree_builder b = {};
	_cleanup_free_ uint32_t *to = try_realloc(NULL, MAX(in->n, (size_t)1), sizeof(*to));
	int r;

	if (!to)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	tree_builder_init(&b, ret->budget);
	r = tree_filter_stacks(in, filter, symbols, &b, to, eb);
	for (size_t i = 0; !r && i < in->n; i++)
		if (in->self[i] && to[i] != TREE_NONE)
			tree_builder_add(&b, to[i], in->self[i]);
	return r ? r : tree_builder_finish(&b, ret, eb);
}
