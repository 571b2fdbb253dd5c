/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of profiles. What is kept is a heap of the largest, so that a limit bounds the memory whatever the range holds.
 */
#include "lib/base/alloc.h"
#include "scraper/query/stacks.h"
#include <stdlib.h>
#include <string.h>

struct found {
	struct query_profile_id id;
	int64_t duration_ns, value;
	uint32_t part, label_set;
};

struct listing {
	struct scan scan;
	const struct query_spec *spec;
	struct query_profiles *out;
	uint32_t type;
	bool by_stack;
	size_t limit;
	struct found *heap; /* the smallest first */
	size_t n, cap;
	struct bytes scratch;

	/* of the part in hand */
	uint32_t part_number;
	struct scan_part *part;
	struct rows_ranges ranges;
	uint64_t *series; /* per hit */
	struct arena part_arena;
	const uint64_t *classes;
	struct found pending; /* the profile whose rows come */
	const struct rows_range *range;
	bool any;
};

static void listing_done(struct listing *l)
{
	budget_free(l->scan.env->budget, l->heap, l->cap, sizeof(*l->heap));
	rows_done(&l->ranges);
	bytes_done(&l->scratch);
	arena_done(&l->part_arena);
	scan_done(&l->scan);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

/* Whether x is to be left out rather than y: smaller, or as large and later. */
static bool is_less(const struct found *x, const struct found *y)
{
	if (x->value != y->value)
		return x->value < y->value;
	if (x->id.time_ns != y->id.time_ns)
		return x->id.time_ns > y->id.time_ns;
	return x->id.series > y->id.series;
}

static void sift_up(struct listing *l, size_t i)
{
	for (size_t up = (i - 1) / 2; i && is_less(&l->heap[i], &l->heap[up]); up = (i - 1) / 2) {
		struct found f = l->heap[i];

		l->heap[i] = l->heap[up];
		l->heap[up] = f;
		i = up;
	}
}

static void sift_down(struct listing *l)
{
	for (size_t i = 0, k = 1; k < l->n; k = 2 * i + 1) {
		struct found f = l->heap[i];

		k += k + 1 < l->n && is_less(&l->heap[k + 1], &l->heap[k]);
		if (!is_less(&l->heap[k], &f))
			return;
		l->heap[i] = l->heap[k];
		l->heap[k] = f;
		i = k;
	}
}

static int offer(struct listing *l, const struct found *f, struct errbuf *eb)
{
	int r;

	l->out->n_found++;
	l->out->total = tree_add(l->out->total, f->value);
	if (l->limit && l->n == l->limit) {
		if (is_less(f, &l->heap[0]))
			return 0;
		l->heap[0] = *f;
		sift_down(l);
		return 0;
	}
	r = budget_grow(l->scan.env->budget, &l->heap, &l->cap, l->n + 1, sizeof(*l->heap), eb);
	if (r)
		return r;
	l->heap[l->n++] = *f;
	if (l->limit)
		sift_up(l, l->n - 1);
	return 0;
}

static int add_hit(struct listing *l, uint32_t h, struct errbuf *eb)
{
	struct scan_part *p = l->part;
	const struct scan_hit *hit = &p->hits[h];
	uint32_t set = p->streams[hit->stream].label_set;
	struct part_profiles profiles;
	int r;

	l->series[h] = scan_set_hash(p, set, &l->scratch);
	if (bytes_error(&l->scratch))
		return no_memory(eb);
	if (!scan_wants_series(l->spec, l->series[h]))
		return 0;
	r = part_profiles(p->reader, hit->stream, l->spec->start_ns, l->spec->end_ns, &profiles);
	if (r)
		return scan_failed(p, r, eb);
	for (size_t i = 0; !r && i < profiles.n; i++) {
		const int64_t *total = profiles.total[hit->column];
		struct found f = {.id = {l->series[h], profiles.time_ns[i]},
			.duration_ns = profiles.duration_ns[i],
			.value = total ? total[i] : 0,
			.part = l->part_number,
			.label_set = set};

		if (profiles.resolution[i] != PART_RAW ||
			!scan_wants_profile(l->spec, f.id.series, f.id.time_ns))
			continue;
		l->scan.env->stats.profiles++;
		if (!hit->row_mask && !l->by_stack)
			r = offer(l, &f, eb);
		else if (rows_add(&l->ranges, &profiles, i, h) < 0)
			r = no_memory(eb);
	}
	return r;
}

static int end_profile(struct listing *l, struct errbuf *eb)
{
	return l->range && l->any ? offer(l, &l->pending, eb) : 0;
}

static int add_piece(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct listing *l = ctx;
	int r = 0;

	if (l->range != p->range) {
		r = end_profile(l, eb);
		l->range = p->range;
		l->any = false;
		l->pending = (struct found) {.id = {l->series[p->range->hit], p->range->time_ns},
			.duration_ns = p->range->duration_ns,
			.part = l->part_number,
			.label_set = l->part->streams[p->hit->stream].label_set};
	}
	for (size_t i = 0; i < p->n; i++) {
		uint32_t set = p->label_sets ? p->label_sets[i] : p->const_label_set;

		if ((l->classes && !l->classes[p->nodes[i]]) ||
			!scan_row_passes(l->part, p->hit->row_mask, set))
			continue;
		l->pending.value = tree_add(l->pending.value, p->values[i]);
		l->any = true;
	}
	return r;
}

static int read_rows(struct listing *l, struct errbuf *eb)
{
	const struct rows_job job = {.scan = &l->scan,
		.part = l->part,
		.reader = l->part->reader,
		.ranges = &l->ranges,
		.to_row = UINT64_MAX,
		.stats = &l->scan.env->stats};
	int r = 0;

	rows_sort(&l->ranges);
	l->classes = NULL;
	l->range = NULL;
	if (l->by_stack)
		r = stacks_of_part(&l->scan, l->part, &l->ranges, l->spec->stacks, l->spec->symbols,
			&l->part_arena, &l->classes, eb);
	if (!r)
		r = rows_walk(&job, add_piece, l, eb);
	return r ? r : end_profile(l, eb);
}

static int read_part(struct listing *l, uint32_t part, struct errbuf *eb)
{
	int r = scan_cancelled(&l->scan, eb);

	l->part_number = part;
	l->part = &l->scan.parts[part];
	l->ranges.n = 0;
	arena_reset(&l->part_arena);
	l->series = arena_alloc_array(&l->part_arena, l->part->n_hits + 1, sizeof(*l->series));
	if (!r)
		r = arena_error(&l->part_arena, eb);
	for (uint32_t h = 0; !r && h < l->part->n_hits; h++)
		r = add_hit(l, h, eb);
	return r || !l->ranges.n ? r : read_rows(l, eb);
}

static int compare_profiles(const void *a, const void *b)
{
	const struct query_profile *x = a, *y = b;

	if (x->id.time_ns != y->id.time_ns)
		return x->id.time_ns < y->id.time_ns ? -1 : 1;
	return labels_compare(&x->labels, &y->labels);
}

static int finish(struct listing *l, struct errbuf *eb)
{
	struct query_profiles *out = l->out;
	int r = budget_grow(
		out->budget, &out->items, &out->cap, MAX(l->n, (size_t)1), sizeof(*out->items), eb);

	for (size_t i = 0; !r && i < l->n; i++) {
		_cleanup_labels_builder_ struct labels_builder b = {};
		const struct found *f = &l->heap[i];
		struct query_profile *to = &out->items[i];

		labels_builder_init(&b);
		scan_set_labels(&l->scan.parts[f->part], f->label_set, &b);
		*to = (struct query_profile) {
			.id = f->id, .duration_ns = f->duration_ns, .value = f->value};
		r = labels_builder_finish(&b, &to->labels);
		if (r)
			return no_memory(eb);
		out->n++;
	}
	if (!r)
		qsort(out->items, out->n, sizeof(*out->items), compare_profiles);
	return r;
}

static int run(struct listing *l, struct errbuf *eb)
{
	struct query_profiles *out = l->out;
	int r = scan_select(&l->scan, l->spec->selector, eb);

	if (!r)
		r = query_find_type(&l->scan, l->spec->selector, &l->type, &out->type, eb);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (out->type.kind == STORE_GAUGE)
		return err_set(eb, -EINVAL,
			"%s is a number over time and has no profiles; ask /api/v1/query_series",
			out->type.id);
	for (uint32_t i = 0; !r && i < l->scan.n_parts; i++)
		r = read_part(l, i, eb);
	return r ? r : finish(l, eb);
}

int query_profiles(struct query_env *env, const struct query_spec *spec, size_t limit,
	struct query_profiles *ret, struct errbuf *eb)
{
	_cleanup_(listing_done)
	struct listing l = {.spec = spec, .out = ret, .limit = limit, .scan.env = env};
	int r;

	*ret = (struct query_profiles) {.budget = env->budget};
	arena_init(&l.part_arena, env->budget);
	l.ranges.budget = env->budget;
	bytes_init(&l.scratch, env->budget, 0);
	l.by_stack = spec->stacks && !tree_choice_is_empty(spec->stacks);
	r = scan_open(&l.scan, env, QUERY_PROFILE_TERMS, spec->start_ns, spec->end_ns, NULL, 0, eb);
	if (!r)
		r = run(&l, eb);
	if (r)
		query_profiles_done(ret);
	return r;
}

void query_profiles_done(struct query_profiles *p)
{
	for (size_t i = 0; i < p->n; i++)
		labels_done(&p->items[i].labels);
	budget_free(p->budget, p->items, p->cap, sizeof(*p->items));
	query_type_done(&p->type);
	*p = (struct query_profiles) {};
}
