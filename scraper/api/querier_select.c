/* SPDX-License-Identifier: Apache-2.0
 *
 * What the methods of the Pyroscope querier share: selectors, ranges, limits, and the merge behind flame graphs and profiles.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/instant.h"
#include "lib/tree/canon.h"
#include "proto/types.pb-c.h"
#include "scraper/api/connect.h"
#include <inttypes.h>
#include <string.h>

static const int64_t MAX_TIME_MS = INSTANT_MAX_NS / NS_PER_MS;

static bool same_type(const struct query_type_id *a, const struct query_type_id *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->sample_type, b->sample_type) &&
	       !strcmp(a->sample_unit, b->sample_unit) && !strcmp(a->period_type, b->period_type) &&
	       !strcmp(a->period_unit, b->period_unit);
}

int querier_and(struct query_selector *into, struct query_selector *from, struct errbuf *eb)
{
	if (into->has_type && from->has_type && !same_type(&into->type, &from->type))
		return err_set(eb, -EINVAL, "the selectors name different profile types");
	if (into->n_matchers + from->n_matchers > QUERY_MAX_MATCHERS - 1)
		return err_set(eb, -EINVAL, "more matchers than %d", QUERY_MAX_MATCHERS - 1);
	if (!into->has_type && from->has_type) {
		into->has_type = true;
		into->type = from->type;
		from->type = (struct query_type_id) {};
		from->has_type = false;
	}
	if (from->n_matchers)
		memcpy(into->matchers + into->n_matchers, from->matchers,
			from->n_matchers * sizeof(*from->matchers));
	into->n_matchers += from->n_matchers;
	from->n_matchers = 0;
	return 0;
}

int querier_selector(
	const char *type_id, const char *text, struct query_selector *ret, struct errbuf *eb)
{
	_cleanup_query_selector_ struct query_selector type = {}, s = {};
	int r;

	if (!*type_id)
		return err_set(eb, -EINVAL, "profile_typeID: missing");
	r = query_type_id_parse(type_id, strlen(type_id), &type.type, eb);
	if (r)
		return err_prefix(eb, r, "profile_typeID \"%.100s\"", type_id);
	type.has_type = true;
	if (!*text)
		return err_set(eb, -EINVAL, "label_selector: empty; {} selects everything");
	r = query_selector_parse(text, &s, eb);
	if (!r)
		r = querier_and(&s, &type, eb);
	if (r)
		return err_prefix(eb, r, "label_selector");
	*ret = s;
	s = (struct query_selector) {};
	return 0;
}

int querier_matchers(char *const *matchers, size_t n, struct query_selector *ret, struct errbuf *eb)
{
	_cleanup_query_selector_ struct query_selector all = {};
	/* The scraper's own series (up …) are no profiles. */
	int r = query_selector_parse("{__profile_type__!=\"\"}", &all, eb);

	for (size_t i = 0; !r && i < n; i++) {
		_cleanup_query_selector_ struct query_selector s = {};

		r = query_selector_parse(matchers[i], &s, eb);
		if (!r)
			r = querier_and(&all, &s, eb);
		if (r)
			r = err_prefix(eb, r, "matchers");
	}
	if (r)
		return r;
	*ret = all;
	all = (struct query_selector) {};
	return 0;
}

int querier_range(const struct api *a, int64_t start_ms, int64_t end_ms, int64_t *ret_start_ns,
	int64_t *ret_end_ns, struct errbuf *eb)
{
	if (!start_ms && !end_ms) {
		*ret_end_ns = clock_realtime_ns(a->o.clock);
		*ret_start_ns = *ret_end_ns - 3600 * NS_PER_S;
		return 0;
	}
	if (!start_ms || !end_ms)
		return err_set(eb, -EINVAL, "missing time range in the query");
	if (start_ms > end_ms)
		return err_set(eb, -EINVAL, "start (%" PRId64 ") is after end (%" PRId64 ")",
			start_ms, end_ms);
	start_ms = MAX(MIN(start_ms, MAX_TIME_MS), -MAX_TIME_MS);
	end_ms = MAX(MIN(end_ms, MAX_TIME_MS), -MAX_TIME_MS);
	*ret_start_ns = start_ms * NS_PER_MS;
	*ret_end_ns = end_ms * NS_PER_MS + NS_PER_MS - 1;
	return 0;
}

int querier_max_nodes(
	const struct api *a, int64_t given, size_t fallback, size_t *ret, struct errbuf *eb)
{
	if (given < 0 || given > a->o.max_nodes)
		return err_set(eb, -EINVAL,
			"max_nodes: %" PRId64 " is not between 0 and %u (--query.max-nodes)", given,
			a->o.max_nodes);
	*ret = given ? (size_t)given : fallback;
	return 0;
}

int querier_call_site(struct connect_call *c, const Types__V1__StackTraceSelector *s,
	const char *const **ret, size_t *ret_n, struct errbuf *eb)
{
	const char **names;

	if (!s || !s->n_call_site)
		return 0;
	if (s->n_call_site > API_MAX_AT)
		return err_set(eb, -EINVAL,
			"stack_trace_selector.call_site: more than %d functions", API_MAX_AT);
	names = CONNECT_ARRAY(c, s->n_call_site, const char *);
	for (size_t i = 0; names && i < s->n_call_site; i++)
		names[i] = s->call_site[i]->name;
	*ret = names;
	*ret_n = s->n_call_site;
	return arena_error(&c->arena, eb);
}

void querier_merge_done(struct querier_merge *m)
{
	query_selector_done(&m->selector);
	query_trees_done(&m->trees);
	tree_done(&m->functions);
}

/* How many functions of the call site a location answers when its path has answered `up` already; TREE_NONE once off it. */
static uint32_t follow(const struct querier_merge *m, uint32_t location, uint32_t up)
{
	const struct tree_symbols *s = &m->trees.symbols;
	const struct tree_location *l = &s->locations[location];

	/* Lines are innermost first. */
	for (uint32_t i = l->n_lines; i-- > 0 && up < m->n_call_site;) {
		uint32_t f = s->lines[l->first_line + i].function;
		const struct tree_function *function = f == TREE_NONE ? NULL : &s->functions[f];
		const char *name = "";
		size_t len = 0;

		if (function)
			name = tree_symbols_text(
				s, function->name ? function->name : function->system_name, &len);
		if (!tree_name_is(name, len, m->call_site[up]))
			return TREE_NONE;
		up++;
	}
	return l->n_lines || up == m->n_call_site ? up : TREE_NONE;
}

/* Keeps the stacks that begin with the call site. */
static int keep_call_site(struct querier_merge *m, struct budget *budget, struct errbuf *eb)
{
	struct tree *t = &m->trees.groups[0].tree;
	_cleanup_tree_ struct tree kept = {};
	_cleanup_free_ uint32_t *at = try_realloc(NULL, t->n, sizeof(*at));
	_cleanup_free_ int64_t *self = try_realloc(NULL, t->n, sizeof(*self));
	int r;

	if (!at || !self)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", t->n);
	tree_init(&kept, budget);
	at[0] = 0;
	self[0] = 0;
	for (size_t i = 1; i < t->n; i++) {
		uint32_t up = at[t->parent[i]];

		at[i] = up == TREE_NONE ? up : follow(m, t->frame[i], up);
		self[i] = at[i] == m->n_call_site ? t->self[i] : 0;
	}
	r = tree_from_nodes(t->parent, t->frame, self, t->n, &kept, eb);
	if (r)
		return r;
	tree_done(t);
	*t = kept;
	kept = (struct tree) {};
	return 0;
}

static int trim(struct querier_merge *m, struct budget *budget, struct errbuf *eb)
{
	struct tree *t = &m->trees.groups[0].tree, trimmed;
	int r;

	tree_init(&trimmed, budget);
	r = tree_trim(t, &m->trees.symbols, m->keep_locations, m->aggregate_callees, &trimmed, eb);
	if (r) {
		tree_done(&trimmed);
		return r;
	}
	tree_done(t);
	*t = trimmed;
	return 0;
}

int querier_merge_run(struct api_job *q, struct querier_merge *m, bool functions, struct errbuf *eb)
{
	const struct query_spec spec = {.selector = &m->selector,
		.start_ns = m->start_ns,
		.end_ns = m->end_ns,
		.profiles = m->profiles,
		.n_profiles = m->n_profiles};
	const struct tree_identity identity = {
		.canon = TREE_CANON_CLONES | (m->compares ? TREE_CANON_NUMBERS : 0U)};
	int r = q->locked ? 0 : api_job_take(q, m->start_ns, m->end_ns, eb);

	if (!r)
		r = query_merge(&q->env, &spec, &m->trees, eb);
	if (!r && m->n_call_site)
		r = keep_call_site(m, q->env.budget, eb);
	if (!r && m->pgo)
		r = trim(m, q->env.budget, eb);
	if (r || !functions)
		return r;
	tree_init(&m->functions, q->env.budget);
	r = tree_project(&m->trees.groups[0].tree, &identity, &m->trees.symbols, &m->functions, eb);
	return r ? r : tree_symbols_error(&m->trees.symbols, eb);
}
