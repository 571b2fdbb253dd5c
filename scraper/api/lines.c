/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/lines: what one function costs, line by line; /api/v1/source: the text beside it, of a file below --symbols.source-dir.
 */
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/table.h"
#include "lib/tree/canon.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <string.h>

/* One line of a file. */
struct line {
	uint32_t file; /* string */
	int64_t line, self, total;
	uint32_t active; /* how often it is on the path to the node at hand */
};

struct lines {
	const struct tree_symbols *s;
	bool *wanted; /* per function of the symbols */
	struct table places;
	struct line *items;
	size_t n, cap;
	int64_t self, total, start_line;
	uint32_t depth; /* frames of the function on the path */
	/* Path to the node at hand: the node, and how many of `pushed` its ancestors have. */
	struct entry {
		uint32_t node;
		size_t n_pushed;
	} * path;
	uint32_t *pushed; /* places of lines, as the path has them */
	size_t n_path, cap_path, n_pushed, cap_pushed;
};

static void lines_done(struct lines *l)
{
	table_done(&l->places);
	free(l->wanted);
	free(l->items);
	free(l->path);
	free(l->pushed);
}

static bool find_function(struct lines *l, const char *name)
{
	bool found = false;

	l->wanted = xcalloc(l->s->n_functions + 1, sizeof(*l->wanted));
	for (size_t i = 0; i < l->s->n_functions; i++) {
		const struct tree_function *f = &l->s->functions[i];
		size_t len;
		const char *own = tree_symbols_text(l->s, f->name ? f->name : f->system_name, &len);

		l->wanted[i] = tree_name_is(own, len, name);
		if (l->wanted[i] && f->start_line > 0 &&
			(!l->start_line || f->start_line < l->start_line))
			l->start_line = f->start_line;
		found |= l->wanted[i];
	}
	return found;
}

static int place_of(struct lines *l, const struct tree_line *line, uint32_t *ret)
{
	uint32_t file = l->s->functions[line->function].file;
	uint64_t *slot;
	bool is_new;

	slot = table_insert(&l->places, (uint64_t)file << 32 | (uint32_t)line->line, &is_new);
	if (!slot || alloc_grow(&l->items, &l->cap, l->n + 1, sizeof(*l->items)) < 0)
		return -ENOMEM;
	if (is_new) {
		*slot = l->n;
		l->items[l->n++] = (struct line) {.file = file, .line = line->line};
	}
	*ret = (uint32_t)*slot;
	return 0;
}

/* The path loses what does not lead to `parent`. */
static void back_to(struct lines *l, uint32_t parent)
{
	while (l->n_path && l->path[l->n_path - 1].node != parent) {
		size_t keep = l->path[--l->n_path].n_pushed;

		while (l->n_pushed > keep) {
			l->items[l->pushed[--l->n_pushed]].active--;
			l->depth--;
		}
	}
}

static int enter(struct lines *l, const struct tree *t, size_t i)
{
	const struct tree_location *loc = &l->s->locations[t->frame[i]];

	if (alloc_grow(&l->path, &l->cap_path, l->n_path + 1, sizeof(*l->path)) < 0)
		return -ENOMEM;
	l->path[l->n_path++] = (struct entry) {(uint32_t)i, l->n_pushed};
	for (uint32_t k = 0; k < loc->n_lines; k++) {
		const struct tree_line *line = &l->s->lines[loc->first_line + k];
		uint32_t at;

		if (line->function == TREE_NONE || !l->wanted[line->function])
			continue;
		if (place_of(l, line, &at) < 0 || alloc_grow(&l->pushed, &l->cap_pushed,
							  l->n_pushed + 1, sizeof(*l->pushed)) < 0)
			return -ENOMEM;
		l->pushed[l->n_pushed++] = at;
		/* Recursion counts once. */
		if (!l->items[at].active++)
			l->items[at].total = tree_add(l->items[at].total, t->total[i]);
		if (!l->depth++)
			l->total = tree_add(l->total, t->total[i]);
		if (k == 0) { /* the innermost: what the stack's own value was spent in */
			l->items[at].self = tree_add(l->items[at].self, t->self[i]);
			l->self = tree_add(l->self, t->self[i]);
		}
	}
	return 0;
}

static int count(struct lines *l, const struct tree *t)
{
	int r = 0;

	for (size_t i = 1; !r && i < t->n; i++) {
		back_to(l, t->parent[i]);
		r = enter(l, t, i);
	}
	back_to(l, TREE_NONE);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static void put(struct json *j, const struct lines *l, const struct api_view *v, const char *name)
{
	int64_t whole = 0;

	for (size_t i = 0; i < v->merged.n_groups; i++)
		whole = tree_add(whole, v->filtered[i].total[0]);
	json_object_begin(j);
	json_kv_string(j, "profile_type", v->merged.type.id);
	json_kv_string(j, "unit", v->merged.type.sample_unit);
	json_kv_string(j, "function", name);
	json_kv_int(j, "whole", whole);
	json_kv_int(j, "self", l->self);
	json_kv_int(j, "total", l->total);
	json_kv_int(j, "start_line", l->start_line);
	json_key(j, "lines");
	json_array_begin(j);
	for (size_t i = 0; i < l->n; i++) {
		json_object_begin(j);
		json_kv_string(j, "file", tree_symbols_text(l->s, l->items[i].file, NULL));
		json_kv_int(j, "line", l->items[i].line);
		json_kv_int(j, "self", l->items[i].self);
		json_kv_int(j, "total", l->items[i].total);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static int answer(struct api_job *q, const char *name, struct errbuf *eb)
{
	_cleanup_api_view_ struct api_view v = {};
	_cleanup_(lines_done)
	struct lines l = {};
	_cleanup_bytes_ struct bytes out = {};
	struct json j;
	int r;

	if (!name || !*name)
		return err_set(eb, -EINVAL, "function: missing; its name as /api/v1/top has it");
	if (q->params.n_at || q->params.n_group_by ||
		q->params.n_tag_roots + q->params.n_tag_leaves)
		return err_set(eb, -EINVAL, "at, group_by, tagroot, tagleaf: not of lines");
	r = api_view_merge(q, &q->params, NULL, &v, eb);
	if (r)
		return r;
	l.s = v.symbols;
	table_init(&l.places, q->env.budget);
	if (!find_function(&l, name))
		return err_set(eb, -ENOENT, "function: no stack of the range has one of that name");
	for (size_t i = 0; !r && i < v.merged.n_groups; i++)
		r = count(&l, &v.filtered[i]);
	if (r)
		return err_set(eb, r, "out of memory for the query");
	if (l.n)
		qsort(l.items, l.n, sizeof(*l.items), compare);
	api_job_json_begin(q, &out, &j);
	put(&j, &l, &v, name);
	if (bytes_error(&out))
		return api_job_too_large(eb);
	api_job_reply_json(q, &j, &out);
	return 0;
}

void api_lines(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "lines", API_JSON) != 0)
		return;
	e = answer(&q, http_request_param(r, "function"), &eb);
	if (e)
		api_job_fail(&q, e, &eb);
}

/* ---- the text ---- */

/*
 * Files are recorded with the paths of the machine that compiled them: the longest end of the path that is there counts. *ret_path points
 * into `file`.
 */
static int read_source(struct api *a, const char *file, struct bytes *ret, const char **ret_path,
	struct errbuf *eb)
{
	int r = -ENOENT;

	for (const char *at = file; at && r == -ENOENT; at = strchr(at, '/')) {
		at += strspn(at, "/");
		if (!*at)
			break;
		*ret_path = at;
		bytes_reset(ret);
		r = fs_read_beneath(a->o.source_dir, at, a->o.max_source_bytes, ret, eb);
	}
	if (r == -EFBIG) {
		if (a->sources_too_large)
			metric_inc(a->sources_too_large);
		return err_set(eb, r, "file: %s is larger than --symbols.source-max-bytes=%" PRIu64,
			*ret_path, a->o.max_source_bytes);
	}
	return r == -ENOENT
		       ? err_set(eb, r, "file: no end of this path is below --symbols.source-dir")
		       : r;
}

void api_source(struct http_request *r, void *arg)
{
	const char *file = http_request_param(r, "file"), *path = "";
	_cleanup_bytes_ struct bytes text = {};
	struct errbuf eb = {};
	struct bytes out = {};
	struct api *a = arg;
	struct json j;
	int e = 0;

	bytes_init(&text, a->o.budget, 0);
	if (!file || !*file)
		e = err_set(&eb, -EINVAL, "file: missing; a path as /api/v1/lines has it");
	else if (!a->o.source_dir || !*a->o.source_dir)
		e = err_set(&eb, -ENOENT, "the scraper was started without --symbols.source-dir");
	else
		e = read_source(a, file, &text, &path, &eb);
	if (e) {
		api_reply_error(r, API_JSON, e == -EACCES ? -EPERM : e, eb.text);
		return;
	}
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "path", path);
	json_key(&j, "text");
	json_string_n(&j, text.len ? (const char *)text.data : "", text.len);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}
