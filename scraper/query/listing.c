/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the profiles of a selection. Totals come from the profile table; rows are read where a matcher, a grouping label or a stack has
 * to be asked of them, and then summed per group: rows of one profile lie together, neighbours mostly in one group.
 */
#include "scraper/query/listing.h"
#include "lib/base/alloc.h"
#include "scraper/query/stacks.h"
#include <string.h>

void listing_done(struct listing *l)
{
	struct budget *b = l->scan.env->budget;

	budget_free(b, l->pending, l->cap_pending, sizeof(*l->pending));
	table_done(&l->pending_of);
	rows_done(&l->ranges);
	bytes_done(&l->scratch);
	arena_done(&l->part_arena);
	group_view_done(&l->view);
	group_set_done(&l->groups);
	scan_done(&l->scan);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

/* The profiles of one hit: reported at once, or noted as rows to read. */
static int add_hit(struct listing *l, uint32_t h, struct errbuf *eb)
{
	struct scan_part *p = l->part;
	const struct scan_hit *hit = &p->hits[h];
	uint32_t set = p->streams[hit->stream].label_set;
	bool by_row = hit->row_mask || l->by_stack;
	struct part_profiles profiles;
	uint32_t group = 0;
	int r = 0;

	l->series[h] = scan_set_hash(p, set, &l->scratch);
	if (bytes_error(&l->scratch))
		return no_memory(eb);
	if (!scan_wants_series(l->spec, l->series[h]))
		return 0;
	if (l->spec->group) {
		r = group_view_start(&l->view, &l->groups, p, hit);
		group = l->view.constant;
		by_row |= group == TREE_NONE;
	}
	if (r)
		return no_memory(eb);
	r = part_profiles(p->reader, hit->stream, l->spec->start_ns, l->spec->end_ns, &profiles);
	if (r)
		return scan_failed(p, r, eb);
	for (size_t i = 0; !r && i < profiles.n; i++) {
		const int64_t *total = profiles.total[hit->column];
		struct listing_item item = {.time_ns = profiles.time_ns[i],
			.duration_ns = profiles.duration_ns[i],
			.value = total ? total[i] : 0,
			.series = l->series[h],
			.part = l->part_number,
			.label_set = set,
			.group = group};

		if (profiles.resolution[i] != PART_RAW ||
			!scan_wants_profile(l->spec, item.series, item.time_ns))
			continue;
		l->scan.env->stats.profiles++;
		if (!by_row)
			r = l->fn(l->ctx, &item, eb);
		else if (!hit->no_rows && rows_add(&l->ranges, &profiles, i, h) < 0)
			r = no_memory(eb);
	}
	return r;
}

static int end_profile(struct listing *l, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < l->n_pending; i++)
		r = l->fn(l->ctx, &l->pending[i], eb);
	if (l->n_pending)
		table_clear(&l->pending_of);
	l->n_pending = 0;
	return r;
}

/* Where the rows of this group add up, of the profile in hand. */
static int find_pending(struct listing *l, const struct rows_piece *p, uint32_t group)
{
	bool is_new;
	uint64_t *at;

	if (l->n_pending && l->pending[l->last].group == group)
		return 0;
	if (alloc_grow_in(l->scan.env->budget, &l->pending, &l->cap_pending, l->n_pending + 1,
		    sizeof(*l->pending), NULL) < 0)
		return -ENOMEM;
	at = table_insert(&l->pending_of, group, &is_new);
	if (!at)
		return -ENOMEM;
	if (is_new) {
		*at = l->n_pending;
		l->pending[l->n_pending++] = (struct listing_item) {.time_ns = p->range->time_ns,
			.duration_ns = p->range->duration_ns,
			.series = l->series[p->range->hit],
			.part = l->part_number,
			.label_set = l->part->streams[p->hit->stream].label_set,
			.group = group};
	}
	l->last = (size_t)*at;
	return 0;
}

static int add_piece(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct listing *l = ctx;
	int r = l->range != p->range ? end_profile(l, eb) : 0;

	l->range = p->range;
	if (!r && l->spec->group && l->view_hit != p->range->hit &&
		group_view_start(&l->view, &l->groups, l->part, p->hit) < 0)
		r = no_memory(eb);
	l->view_hit = p->range->hit;
	for (size_t i = 0; !r && i < p->n; i++) {
		uint32_t set = p->label_sets ? p->label_sets[i] : p->const_label_set;
		int64_t group = 0;

		if ((l->classes && !l->classes[p->nodes[i]]) ||
			!scan_row_passes(l->part, p->hit->row_mask, set))
			continue;
		if (l->spec->group)
			group = group_view_of(&l->view, set);
		if (group < 0 || find_pending(l, p, (uint32_t)group) < 0)
			return no_memory(eb);
		l->pending[l->last].value = tree_add(l->pending[l->last].value, p->values[i]);
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
	l->view_hit = TREE_NONE;
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

static int read_parts(struct listing *l, struct query_type *ret_type, struct errbuf *eb)
{
	uint32_t type;
	int r = scan_select(&l->scan, l->spec->selector, eb);

	if (!r)
		r = query_find_type(&l->scan, l->spec->selector, &type, ret_type, eb);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (ret_type->kind == STORE_GAUGE)
		return err_set(eb, -EINVAL,
			"%s is a number over time and has no profiles; ask /api/v1/query_series",
			ret_type->id);
	for (uint32_t i = 0; !r && i < l->scan.n_parts; i++)
		r = read_part(l, i, eb);
	return r;
}

int listing_run(struct listing *l, struct query_env *env, const struct query_spec *spec,
	struct query_type *ret_type, struct errbuf *eb)
{
	int r;

	l->spec = spec;
	l->scan.env = env;
	arena_init(&l->part_arena, env->budget);
	l->ranges.budget = env->budget;
	bytes_init(&l->scratch, env->budget, 0);
	table_init(&l->pending_of, env->budget);
	l->by_stack = spec->stacks && !tree_choice_is_empty(spec->stacks);
	r = scan_open(&l->scan, env, QUERY_PROFILE_TERMS, spec->start_ns, spec->end_ns,
		spec->group_by, spec->group ? spec->n_group_by : 0, eb);
	group_set_init(&l->groups, &l->scan, spec->max_groups);
	return r ? r : read_parts(l, ret_type, eb);
}

void listing_labels(
	const struct listing *l, uint32_t part, uint32_t label_set, struct labels_builder *b)
{
	labels_builder_init(b);
	scan_set_labels(&l->scan.parts[part], label_set, b);
}
