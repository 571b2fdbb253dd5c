/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles counted by time and value. The rows of a heatmap depend on the smallest and the largest value of all, so what is found is
 * kept as small points first, then sorted into cells; labels are read for exemplars alone.
 */
#include "scraper/query/heatmap.h"
#include "lib/base/alloc.h"
#include "scraper/query/listing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 11000, MAX_SPANS = 1 << 20 };
static const char span_label[] = "span_id", other[] = "__other__";

struct point {
	int64_t time_ns, value;
	uint32_t part, label_set, group, line;
	uint32_t cell; /* slot × rows + row */
};

struct heat {
	const struct query_heat_spec *spec;
	struct query_spec profiles; /* what is listed */
	const char **group_by;
	struct query_heatmap *out;
	struct listing listing;
	size_t n_slots;
	int64_t start_ns;
	struct point *points;
	size_t n, cap;
	uint32_t *line_of; /* group → line, TREE_NONE: not counted */
	const char **span_of;
	struct bytes scratch;
};

static struct budget *budget_of(const struct heat *h)
{
	return h->listing.scan.env->budget;
}

static void heat_done(struct heat *h)
{
	budget_free(budget_of(h), h->points, h->cap, sizeof(*h->points));
	bytes_done(&h->scratch);
	listing_done(&h->listing);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

static int add_point(void *ctx, const struct listing_item *item, struct errbuf *eb)
{
	struct heat *h = ctx;
	int r = alloc_grow_in(budget_of(h), &h->points, &h->cap, h->n + 1, sizeof(*h->points), eb);

	if (r)
		return r;
	h->points[h->n++] = (struct point) {.time_ns = item->time_ns,
		.value = item->value,
		.part = item->part,
		.label_set = item->label_set,
		.group = item->group};
	return 0;
}

/* ---- lines ---- */

static bool is_grouping(const struct query_spec *q, const char *name)
{
	for (size_t i = 0; i < q->n_group_by; i++)
		if (!strcmp(q->group_by[i], name))
			return true;
	return false;
}

/* The labels of a group without the span, which only distinguishes its profiles. */
static int line_labels(struct heat *h, const struct query_spec *q, uint32_t group,
	struct labels *ret, const char **ret_span)
{
	_cleanup_labels_ struct labels all = {};
	_cleanup_labels_builder_ struct labels_builder b = {};
	int r = group_set_labels(&h->listing.groups, group, &all);

	if (r)
		return r;
	*ret_span = h->spec->by_span ? arena_strdup(&h->out->arena, labels_get(&all, span_label))
				     : NULL;
	labels_builder_init(&b);
	for (size_t i = 0; i < all.n; i++)
		if (is_grouping(q, all.items[i].name))
			labels_builder_set(&b, all.items[i].name, all.items[i].value);
	return labels_builder_finish(&b, ret);
}

static int line_of(struct heat *h, struct interner *keys, struct labels *labels, uint32_t *ret)
{
	struct query_heatmap *out = h->out;
	bool is_new;

	bytes_reset(&h->scratch);
	labels_encode(labels, &h->scratch);
	if (bytes_error(&h->scratch))
		return -ENOMEM;
	*ret = interner_add(keys, h->scratch.data, h->scratch.len, &is_new);
	if (*ret == INTERNER_NONE)
		return -ENOMEM;
	if (!is_new)
		return 0;
	out->lines[*ret].labels = *labels;
	*labels = (struct labels) {};
	out->n_lines++;
	return 0;
}

static int find_lines(struct heat *h, const struct query_spec *q, struct errbuf *eb)
{
	_cleanup_interner_ struct interner keys = {};
	size_t n = group_set_n(&h->listing.groups);
	struct arena *arena = &h->out->arena;
	int r = 0;

	interner_init(&keys, budget_of(h));
	h->line_of = arena_alloc_array(arena, n + 1, sizeof(*h->line_of));
	h->span_of = arena_alloc_array(arena, n + 1, sizeof(*h->span_of));
	h->out->lines = arena_zalloc(arena, (n + 1) * sizeof(*h->out->lines));
	if (arena_error(arena, eb))
		return -ENOMEM;
	for (uint32_t i = 0; !r && i < n; i++) {
		_cleanup_labels_ struct labels labels = {};

		r = line_labels(h, q, i, &labels, &h->span_of[i]);
		h->line_of[i] = TREE_NONE;
		if (!r && (!h->spec->by_span || (h->span_of[i] && *h->span_of[i])))
			r = line_of(h, &keys, &labels, &h->line_of[i]);
	}
	return r || arena_error(arena, NULL) ? no_memory(eb) : 0;
}

/* ---- cells ---- */

/* The first slot whose right edge is not before t. */
static uint32_t slot_of(const struct heat *h, int64_t t)
{
	int64_t step = h->profiles.step_ns, d = t - h->start_ns;
	int64_t slot = d <= 0 ? 0 : (d - 1) / step + 1;

	return (uint32_t)MIN(slot, (int64_t)h->n_slots - 1);
}

/* Drops points of no line, cuts the range of values into rows and gives the rest their cells. */
static void place_points(struct heat *h)
{
	size_t n = 0, n_rows = h->spec->n_rows;
	int64_t min = INT64_MAX, max = INT64_MIN;
	double height;

	for (size_t i = 0; i < h->n; i++) {
		struct point p = h->points[i];

		p.line = h->line_of[p.group];
		if (p.line == TREE_NONE)
			continue;
		min = MIN(min, p.value);
		max = MAX(max, p.value);
		h->points[n++] = p;
	}
	h->n = n;
	height = n && max > min ? ((double)max - (double)min) / (double)n_rows : 1 / (double)n_rows;
	for (size_t i = 0; i < n_rows; i++)
		h->out->row_min[i] = n ? (double)min + (double)i * height : 0;
	for (size_t i = 0; i < n; i++) {
		struct point *p = &h->points[i];
		double row = floor(((double)p->value - (double)min) / height);

		p->cell = slot_of(h, p->time_ns) * (uint32_t)n_rows +
			  (uint32_t)MIN(row, (double)(n_rows - 1));
	}
}

/* By line and cell; in a cell the largest first, of these the earliest. */
static int compare_points(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->cell != y->cell)
		return x->cell < y->cell ? -1 : 1;
	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return (x->label_set > y->label_set) - (x->label_set < y->label_set);
}

static int put_exemplar(struct heat *h, const struct query_spec *q, const struct point *p,
	struct query_heat_slot *slot)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	struct query_exemplar *e = &slot->exemplars[slot->n_exemplars];
	const struct listing *l = &h->listing;

	if (h->span_of[p->group] && !strcmp(h->span_of[p->group], other))
		return 0; /* which one is not known */
	*e = (struct query_exemplar) {.value = p->value, .span = h->span_of[p->group]};
	e->id = (struct query_profile_id) {
		scan_set_hash(&l->scan.parts[p->part], p->label_set, &h->scratch), p->time_ns};
	listing_labels(l, p->part, p->label_set, &b);
	for (size_t i = b.n; i-- > 0;)
		if (!strncmp(b.items[i].name, "__", 2) || is_grouping(q, b.items[i].name))
			labels_builder_set(&b, b.items[i].name, "");
	if (bytes_error(&h->scratch) || labels_builder_finish(&b, &e->labels) < 0)
		return -ENOMEM;
	slot->n_exemplars++;
	return 0;
}

/* One slot from its points, which lie together. */
static int put_slot(struct heat *h, const struct query_spec *q, const struct point *p, size_t n,
	struct query_heat_slot *slot)
{
	uint32_t n_rows = (uint32_t)h->spec->n_rows;
	struct arena *arena = &h->out->arena;
	int r = 0;

	slot->time_ns = h->start_ns + p->cell / n_rows * h->profiles.step_ns;
	slot->counts = arena_zalloc(arena, n_rows * sizeof(*slot->counts));
	if (h->spec->exemplars)
		slot->exemplars = arena_zalloc(arena, n_rows * sizeof(*slot->exemplars));
	if (arena_error(arena, NULL))
		return -ENOMEM;
	for (size_t i = 0; !r && i < n; i++) {
		uint32_t *count = &slot->counts[p[i].cell % n_rows];

		if (!*count && h->spec->exemplars)
			r = put_exemplar(h, q, &p[i], slot);
		*count += *count < UINT32_MAX;
	}
	return r;
}

static size_t same_slot(const struct heat *h, size_t i)
{
	const struct point *p = &h->points[i];
	size_t n = 1;

	while (i + n < h->n && p[n].line == p->line &&
		p[n].cell / h->spec->n_rows == p->cell / h->spec->n_rows)
		n++;
	return n;
}

static int put_lines(struct heat *h, const struct query_spec *q, struct errbuf *eb)
{
	struct query_heat_line *line;
	int r = 0;

	for (size_t i = 0; i < h->n; i += same_slot(h, i))
		h->out->lines[h->points[i].line].n_slots++;
	for (size_t i = 0; i < h->out->n_lines; i++) {
		line = &h->out->lines[i];
		line->slots =
			arena_zalloc(&h->out->arena, (line->n_slots + 1) * sizeof(*line->slots));
		line->n_slots = 0;
	}
	if (arena_error(&h->out->arena, eb))
		return -ENOMEM;
	for (size_t i = 0, n; !r && i < h->n; i += n) {
		n = same_slot(h, i);
		line = &h->out->lines[h->points[i].line];
		line->n_profiles += n;
		r = put_slot(h, q, &h->points[i], n, &line->slots[line->n_slots++]);
	}
	return r ? no_memory(eb) : 0;
}

static int compare_lines(const void *a, const void *b)
{
	const struct query_heat_line *x = a, *y = b;

	if (x->n_profiles != y->n_profiles)
		return x->n_profiles < y->n_profiles ? 1 : -1;
	return labels_compare(&x->labels, &y->labels);
}

/* ---- the query ---- */

static int prepare(struct heat *h, const struct query_spec *q, struct errbuf *eb)
{
	struct arena *arena = &h->out->arena;
	int64_t last;

	ASSERT(h->spec->n_rows >= 1 && h->spec->n_rows <= QUERY_HEAT_ROWS);
	if (q->step_ns < 1000000)
		return err_set(eb, -EINVAL, "step: must be at least 1 ms");
	if (q->end_ns < q->start_ns)
		return err_set(eb, -EINVAL, "end is before start");
	if ((q->end_ns - q->start_ns) / q->step_ns >= MAX_SLOTS)
		return err_set(eb, -EINVAL,
			"exceeded maximum resolution of 11,000 points per timeseries; use a larger "
			"step");
	h->n_slots = (size_t)((q->end_ns - q->start_ns) / q->step_ns) + 1;
	h->start_ns = q->start_ns;
	last = q->start_ns + (int64_t)(h->n_slots - 1) * q->step_ns;
	h->profiles = *q;
	h->profiles.group = true;
	h->profiles.start_ns = q->start_ns - (h->spec->look_back ? q->step_ns - 1 : 0);
	h->profiles.end_ns = h->spec->look_back ? last : q->end_ns;
	h->out->n_rows = h->spec->n_rows;
	h->out->row_min = arena_zalloc(arena, h->spec->n_rows * sizeof(*h->out->row_min));
	h->group_by = arena_alloc_array(arena, q->n_group_by + 1, sizeof(*h->group_by));
	if (arena_error(arena, eb))
		return -ENOMEM;
	for (size_t i = 0; i < q->n_group_by; i++)
		h->group_by[i] = q->group_by[i];
	if (h->spec->by_span && !is_grouping(q, span_label)) {
		h->group_by[h->profiles.n_group_by++] = span_label;
		h->profiles.max_groups = MAX_SPANS;
	}
	h->profiles.group_by = h->group_by;
	return 0;
}

/* Groups without a profile in range have no line. */
static void sort_lines(struct query_heatmap *out)
{
	qsort(out->lines, out->n_lines, sizeof(*out->lines), compare_lines);
	while (out->n_lines && !out->lines[out->n_lines - 1].n_profiles)
		labels_done(&out->lines[--out->n_lines].labels);
}

static int run(struct heat *h, struct query_env *env, const struct query_spec *q, struct errbuf *eb)
{
	int r = listing_run(&h->listing, env, &h->profiles, &h->out->type, eb);

	if (!r)
		r = find_lines(h, q, eb);
	if (r)
		return r;
	place_points(h);
	if (h->n)
		qsort(h->points, h->n, sizeof(*h->points), compare_points);
	r = put_lines(h, q, eb);
	if (!r)
		sort_lines(h->out);
	return r;
}

static int heatmap_once(struct query_env *env, const struct query_spec *spec,
	const struct query_heat_spec *heat, struct query_heatmap *ret, struct errbuf *eb)
{
	struct heat h = {.spec = heat, .out = ret, .listing.fn = add_point};
	int r;

	*ret = (struct query_heatmap) {};
	arena_init(&ret->arena, env->budget);
	h.listing.ctx = &h;
	r = prepare(&h, spec, eb);
	if (!r) {
		bytes_init(&h.scratch, env->budget, 0);
		r = run(&h, env, spec, eb);
		heat_done(&h);
	}
	if (r)
		query_heatmap_done(ret);
	return r;
}

int query_heatmap(struct query_env *env, const struct query_spec *spec,
	const struct query_heat_spec *heat, struct query_heatmap *ret, struct errbuf *eb)
{
	size_t n_damaged;
	int r;

	do {
		n_damaged = scan_n_damaged(env);
		r = heatmap_once(env, spec, heat, ret, eb);
	} while (scan_met_damage(env, r, n_damaged));
	return r;
}

void query_heatmap_done(struct query_heatmap *h)
{
	for (size_t i = 0; i < h->n_lines; i++) {
		struct query_heat_line *l = &h->lines[i];

		labels_done(&l->labels);
		for (size_t k = 0; k < l->n_slots; k++)
			for (size_t e = 0; e < l->slots[k].n_exemplars; e++)
				labels_done(&l->slots[k].exemplars[e].labels);
	}
	arena_done(&h->arena);
	query_type_done(&h->type);
	*h = (struct query_heatmap) {};
}
