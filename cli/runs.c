/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile → a location tree → filters → a function tree → functions by name.
 */
#include "cli/runs.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/merge.h"
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAME = 4096 };

void cli_runs_init(struct cli_runs *r)
{
	*r = (struct cli_runs) {};
	tree_symbols_init(&r->symbols, NULL);
	table_init(&r->by_name, NULL);
}

void cli_runs_done(struct cli_runs *r)
{
	for (size_t i = 0; i < r->n; i++) {
		tree_done(&r->items[i].tree);
		free(r->items[i].name);
	}
	free(r->items);
	free(r->type);
	free(r->unit);
	table_done(&r->by_name);
	tree_symbols_done(&r->symbols);
}

/* ---- functions by name ---- */

/* The frame that stands for all of this one's name; frames of labels stay apart from functions. */
static uint32_t unify(struct cli_runs *r, uint32_t frame, bool canon)
{
	struct tree_frame f = r->symbols.frames[frame];
	uint64_t *slot;

	if (canon && f.kind != TREE_LABEL) {
		char name[MAX_NAME];
		size_t len;
		const char *text = tree_symbols_text(&r->symbols, f.name, &len);

		len = cli_canonical_name(text, len, name, sizeof(name));
		f.name = tree_symbols_string(&r->symbols, name, len);
		frame = tree_symbols_frame(&r->symbols, &f);
	}
	slot = table_insert(&r->by_name, (uint64_t)(f.kind == TREE_LABEL) << 32 | f.name, NULL);
	if (!slot)
		return frame;
	if (!*slot)
		*slot = frame + 1UL;
	return (uint32_t)(*slot - 1);
}

static int unify_tree(
	struct cli_runs *r, const struct tree *in, bool canon, struct tree *ret, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *frame = try_realloc(NULL, in->n + 1, sizeof(*frame));

	if (!frame)
		return err_set(eb, -ENOMEM, "out of memory for a tree of %zu nodes", in->n);
	frame[0] = in->frame[0];
	for (size_t i = 1; i < in->n; i++)
		frame[i] = unify(r, in->frame[i], canon);
	return tree_from_nodes(in->parent, frame, in->self, in->n, ret, eb);
}

/* ---- profiles ---- */

static bool is_same(const struct profile *p, uint32_t a, uint32_t b)
{
	struct prof_str x = profile_str(p, a), y = profile_str(p, b);

	return x.len == y.len && !memcmp(x.p, y.p, x.len);
}

static int64_t column_sum(const struct profile *p, size_t column)
{
	int64_t sum = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		sum = tree_add(sum, p->values[i * p->n_types + column]);
	return sum;
}

/*
 * What one sample amounts to: the period where the column is in its unit, else the mean over what the profile counts ("samples" or the like
 * in "count"), else one.
 */
static double sample_unit(const struct profile *p, size_t column)
{
	const struct prof_value_type *t = &p->types[column];

	if (profile_str_is(p, t->unit, "count"))
		return 1;
	if (p->period > 0 && is_same(p, t->unit, p->period_type.unit) &&
		is_same(p, t->type, p->period_type.type))
		return (double)p->period;
	for (size_t c = 0; c < p->n_types; c++) {
		int64_t count = column_sum(p, c), sum = column_sum(p, column);

		if (profile_str_is(p, p->types[c].unit, "count") && count > 0 && sum > 0)
			return (double)sum / (double)count;
	}
	return 1;
}

static char *copy_string(const struct profile *p, uint32_t id)
{
	struct prof_str s = profile_str(p, id);

	return xstrndup(s.p ? s.p : "", s.len);
}

static int check_type(struct cli_runs *r, const struct profile *p, size_t column, struct errbuf *eb)
{
	const struct prof_value_type *t = &p->types[column];

	if (!r->type) {
		r->type = copy_string(p, t->type);
		r->unit = copy_string(p, t->unit);
		return 0;
	}
	if (profile_str_is(p, t->type, r->type) && profile_str_is(p, t->unit, r->unit))
		return 0;
	return err_set(eb, -EINVAL, "its values are %.*s in %.*s, those of %s are %s in %s",
		(int)profile_str(p, t->type).len, profile_str(p, t->type).p,
		(int)profile_str(p, t->unit).len, profile_str(p, t->unit).p, r->items[0].name,
		r->type, r->unit);
}

static int add_profile(struct cli_runs *r, const struct profile *p, const char *path,
	const struct cli_runs_options *o, struct errbuf *eb)
{
	_cleanup_tree_ struct tree locations, filtered, functions;
	struct cli_run *run;
	size_t column;
	int e = profile_find_type(p, o->sample_index, &column, eb);

	tree_init(&locations, NULL);
	tree_init(&filtered, NULL);
	tree_init(&functions, NULL);
	if (!e)
		e = check_type(r, p, column, eb);
	if (!e)
		e = tree_from_profile(p, column, &r->symbols, &locations, eb);
	if (!e && !tree_filter_is_empty(&o->filter))
		e = tree_filter_apply(&locations, &o->filter, &r->symbols, &filtered, eb);
	if (!e)
		e = tree_project(tree_filter_is_empty(&o->filter) ? &locations : &filtered,
			&r->symbols, &functions, eb);
	if (e)
		return e;
	if (alloc_grow(&r->items, &r->cap, r->n + 1, sizeof(*r->items)) < 0)
		return err_set(eb, -ENOMEM, "out of memory for %zu runs", r->n + 1);
	run = &r->items[r->n];
	*run = (struct cli_run) {.seconds = (double)p->duration_ns / 1e9,
		.unit = sample_unit(p, column),
		.time_ns = p->time_ns};
	tree_init(&run->tree, NULL);
	e = unify_tree(r, &functions, o->canon, &run->tree, eb);
	if (!e)
		e = tree_symbols_error(&r->symbols, eb);
	if (e) {
		tree_done(&run->tree);
		return e;
	}
	run->name = xstrdup(path);
	r->n++;
	return 0;
}

/* "thread" is what everybody says. */
static const char *label_of(const char *by)
{
	return !strcmp(by, "thread") ? "thread_name" : by;
}

int cli_runs_add(
	struct cli_runs *r, const char *path, const struct cli_runs_options *o, struct errbuf *eb)
{
	_cleanup_cli_profile_ struct cli_profile in;
	_cleanup_prof_merge_ struct prof_merge *m = NULL;
	_cleanup_profile_ struct profile labelled;
	const char *key = o->by ? label_of(o->by) : NULL;
	int e;

	profile_init(&labelled, NULL);
	cli_profile_init(&in);
	e = cli_profile_read(&in, path, eb);
	if (e < 0)
		return e;
	if (key) {
		m = prof_merge_new(NULL);
		prof_merge_root_labels(m, &key, 1);
		e = prof_merge_add(m, &in.p, path, eb);
		if (e >= 0)
			e = prof_merge_finish(m, &labelled, eb);
		if (e < 0)
			return e;
	}
	e = add_profile(r, key ? &labelled : &in.p, path, o, eb);
	return e < 0 ? err_prefix(eb, e, "%s", path) : 0;
}

/* ---- arguments ---- */

static void add_path(struct option_list *l, const char *path)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 8;
		l->items = xrealloc(l->items, l->cap * sizeof(*l->items));
	}
	l->items[l->n++] = xstrdup(path);
}

void cli_paths_done(struct option_list *paths)
{
	for (size_t i = 0; i < paths->n; i++) {
		char *owned;

		memcpy(&owned, &paths->items[i], sizeof(owned));
		free(owned);
	}
	option_list_done(paths);
}

static bool is_profile(const char *path)
{
	static const char *const endings[] = {".pb", ".pb.gz", ".pprof", ".folded"};

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (str_ends_with(path, endings[i]))
			return true;
	return false;
}

/* glob sorts. */
static int add_matches(struct option_list *ret, const char *pattern, bool any, struct errbuf *eb)
{
	glob_t found = {};
	size_t before = ret->n;
	int r = glob(pattern, 0, NULL, &found);

	for (size_t i = 0; !r && i < found.gl_pathc; i++)
		if (any || is_profile(found.gl_pathv[i]))
			add_path(ret, found.gl_pathv[i]);
	globfree(&found);
	if (r == GLOB_NOSPACE)
		return err_set(eb, -ENOMEM, "out of memory for the files of %s", pattern);
	if (ret->n == before)
		return err_set(eb, -ENOENT,
			"%s: no profile there (*.pb, *.pb.gz, *.pprof, *.folded)", pattern);
	return 0;
}

int cli_paths_add(struct option_list *ret, const char *argument, struct errbuf *eb)
{
	struct stat st;

	if (!strcmp(argument, "-") || (!stat(argument, &st) && !S_ISDIR(st.st_mode))) {
		add_path(ret, argument);
		return 0;
	}
	if (!stat(argument, &st)) {
		_cleanup_free_ char *pattern = xasprintf("%s/*", argument);

		return add_matches(ret, pattern, false, eb);
	}
	if (strpbrk(argument, "*?["))
		return add_matches(ret, argument, true, eb);
	add_path(ret, argument); /* reading it says what is wrong */
	return 0;
}
