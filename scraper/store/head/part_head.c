/* SPDX-License-Identifier: Apache-2.0
 *
 * The head as a part: arrays in place, per-stream profiles gathered from their chains.
 */
#include "lib/base/alloc.h"
#include "lib/base/ulid.h"
#include "scraper/store/head/head.h"
#include <string.h>

static struct head *head_of(const struct part_reader *r)
{
	return (struct head *)r->part;
}

static int head_open(struct part_reader *r)
{
	struct head *h = head_of(r);
	struct head_published p;

	if (r->info.resolution != PART_RAW)
		return err_set(&r->errbuf, -ENOENT, "a head has no rollups");
	lock_take(&h->lock);
	p = h->published;
	lock_release(&h->lock);
	r->info = (struct part_info) {
		.is_head = true,
		.min_time_ns = p.min_time_ns,
		.max_time_ns = p.max_time_ns,
		.max_duration_ns = p.max_duration_ns,
		.n_label_strings = (uint32_t)p.n[DICT_STRINGS],
		.n_strings = (uint32_t)p.n[DICT_STRINGS],
		.n_functions = (uint32_t)p.n[DICT_FUNCTIONS],
		.n_mappings = (uint32_t)p.n[DICT_MAPPINGS],
		.n_locations = (uint32_t)p.n[DICT_LOCATIONS],
		.n_nodes = (uint32_t)p.n[DICT_NODES],
		.n_label_sets = (uint32_t)p.n[DICT_LABEL_SETS],
		.n_schemas = (uint32_t)p.n[DICT_SCHEMAS],
		.n_streams = (uint32_t)p.n[DICT_STREAMS],
		.n_pages = (uint32_t)p.n_pages,
		.n_profiles = p.n_profiles,
		.n_rows = p.n_rows,
	};
	ulid_format(h->generation, r->info.ulid);
	return 0;
}

static int head_schemas_of(struct part_reader *r, const struct part_schema **ret)
{
	*ret = dict_schemas(&head_of(r)->dict);
	return 0;
}

/* The chains move on; a copy taken once keeps the snapshot of lengths honest enough: counts may
 * include newer profiles, ids never do. */
static int head_streams_of(struct part_reader *r, const struct part_stream **ret)
{
	struct head *h = head_of(r);
	struct part_stream *copy;

	if (!r->streams) {
		copy = arena_alloc_array(&r->arena, r->info.n_streams, sizeof(*copy));
		if (!copy)
			return arena_error(&r->arena, &r->errbuf);
		lock_take(&h->lock);
		for (uint32_t i = 0; i < r->info.n_streams; i++) {
			const struct head_stream *s = &head_streams(h)[i];

			copy[i] = (struct part_stream) {
				.schema = dict_streams(&h->dict)[i].schema,
				.label_set = dict_streams(&h->dict)[i].label_set,
				.n_profiles = s->n_profiles,
				.min_time_ns = s->n_profiles ? s->min_time_ns : INT64_MAX,
				.max_time_ns = s->n_profiles ? s->max_time_ns : INT64_MIN,
				.max_duration_ns = s->max_duration_ns,
			};
		}
		lock_release(&h->lock);
		r->streams = copy;
	}
	*ret = r->streams;
	return 0;
}

static int head_label_sets_of(struct part_reader *r, struct part_label_sets *ret)
{
	*ret = (struct part_label_sets) {
		.first = dict_label_first(&head_of(r)->dict),
		.pairs = dict_label_pairs(&head_of(r)->dict),
	};
	return 0;
}

static int head_mappings_of(struct part_reader *r, const struct part_mapping **ret)
{
	*ret = dict_mappings(&head_of(r)->dict);
	return 0;
}

static int head_label_strings_of(struct part_reader *r, const struct prof_str **ret)
{
	*ret = dict_strings(&head_of(r)->dict);
	return 0;
}

static int head_nodes_of(
	struct part_reader *r, const uint32_t **ret_parents, const uint32_t **ret_locations)
{
	*ret_parents = dict_parents(&head_of(r)->dict);
	*ret_locations = dict_node_locations(&head_of(r)->dict);
	return 0;
}

static int head_keys_of(struct part_reader *r, const uint64_t **ret)
{
	*ret = dict_keys(&head_of(r)->dict);
	return 0;
}

static int bad_id(struct part_reader *r, const char *what, uint32_t id, uint32_t n)
{
	return err_set(&r->errbuf, -EBADMSG, "%s %u of %u", what, id, n);
}

static int head_strings_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= r->info.n_strings)
			return bad_id(r, "string", ids[i], r->info.n_strings);
		ret[i] = dict_strings(&head_of(r)->dict)[ids[i]];
	}
	return 0;
}

static int head_functions_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct part_function *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= r->info.n_functions)
			return bad_id(r, "function", ids[i], r->info.n_functions);
		ret[i] = dict_functions(&head_of(r)->dict)[ids[i]];
	}
	return 0;
}

static int head_locations_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct part_location *ret)
{
	const struct dict *d = &head_of(r)->dict;

	for (size_t i = 0; i < n; i++) {
		const struct dict_location *l = &dict_locations(d)[ids[i]];

		if (ids[i] >= r->info.n_locations)
			return bad_id(r, "location", ids[i], r->info.n_locations);
		ret[i] = (struct part_location) {
			.mapping = l->mapping,
			.flags = l->flags,
			.address = l->address,
			.n_lines = l->n_lines,
			.lines = dict_lines(d) + l->first_line,
		};
	}
	return 0;
}

struct gathered {
	int64_t time_ns;
	uint32_t profile;
};

static int by_time(const void *a, const void *b)
{
	const struct gathered *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->profile < y->profile ? -1 : x->profile > y->profile;
}

/* Profiles of a chain below the snapshot, in time order. */
static int gather(struct part_reader *r, uint32_t stream, int64_t from, int64_t to,
	struct gathered **ret, size_t *ret_n)
{
	struct head *h = head_of(r);
	struct gathered *g = NULL;
	size_t n = 0, cap = 0;
	bool sorted = true;
	uint32_t last;

	lock_take(&h->lock);
	last = head_streams(h)[stream].last_profile;
	lock_release(&h->lock);
	for (uint32_t i = last - 1; i != STORE_NONE; i = head_profiles(h)[i].previous) {
		int64_t t = head_windows(h)[head_profiles(h)[i].window].time_ns;

		if (i >= r->info.n_profiles || t < from || t > to)
			continue;
		if (alloc_grow(&g, &cap, n + 1, sizeof(*g)) < 0) {
			free(g);
			return err_set(&r->errbuf, -ENOMEM, "out of memory listing profiles");
		}
		sorted &= !n || g[n - 1].time_ns >= t;
		g[n++] = (struct gathered) {.time_ns = t, .profile = i};
	}
	if (sorted)
		for (size_t i = 0; i < n / 2; i++) {
			struct gathered t = g[i];

			g[i] = g[n - 1 - i];
			g[n - 1 - i] = t;
		}
	else
		qsort(g, n, sizeof(*g), by_time);
	*ret = g;
	*ret_n = n;
	return 0;
}

static int head_profiles_of(
	struct part_reader *r, uint32_t stream, int64_t from, int64_t to, struct part_profiles *ret)
{
	const struct head *h = head_of(r);
	const struct part_schema *schema =
		&dict_schemas(&h->dict)[dict_streams(&h->dict)[stream].schema];
	_cleanup_free_ struct gathered *g = NULL;
	int64_t *time, *duration, *period, *total[STORE_MAX_COLUMNS];
	uint32_t *n_profiles, *n_rows;
	uint64_t *first_row;
	uint8_t *resolution;
	size_t n = 0;
	int e = gather(r, stream, from, to, &g, &n);

	if (e < 0)
		return e;
	arena_reset(&r->profiles);
	time = arena_alloc_array(&r->profiles, n, sizeof(*time));
	duration = arena_alloc_array(&r->profiles, n, sizeof(*duration));
	period = arena_alloc_array(&r->profiles, n, sizeof(*period));
	n_profiles = arena_alloc_array(&r->profiles, n, sizeof(*n_profiles));
	n_rows = arena_alloc_array(&r->profiles, n, sizeof(*n_rows));
	first_row = arena_alloc_array(&r->profiles, n, sizeof(*first_row));
	resolution = arena_zalloc(&r->profiles, n);
	for (unsigned k = 0; k < schema->n_columns; k++)
		total[k] = arena_alloc_array(&r->profiles, n, sizeof(**total));
	e = arena_error(&r->profiles, &r->errbuf);
	if (e < 0)
		return e;
	for (size_t i = 0; i < n; i++) {
		const struct head_profile *p = &head_profiles(h)[g[i].profile];
		const struct head_window *w = &head_windows(h)[p->window];

		time[i] = w->time_ns;
		duration[i] = w->duration_ns;
		period[i] = w->period;
		n_profiles[i] = 1;
		n_rows[i] = p->n_rows;
		first_row[i] = p->first_row;
		for (unsigned k = 0; k < schema->n_columns; k++)
			total[k][i] = head_totals(h)[p->first_total + k];
	}
	*ret = (struct part_profiles) {
		.n = n,
		.time_ns = time,
		.duration_ns = duration,
		.period = period,
		.resolution = resolution,
		.n_profiles = n_profiles,
		.n_rows = n_rows,
		.first_row = first_row,
	};
	for (unsigned k = 0; k < schema->n_columns; k++)
		ret->total[k] = total[k];
	return 0;
}

static int head_pages_of(struct part_reader *r, const struct part_page **ret)
{
	*ret = (const void *)head_of(r)->pages.base;
	return 0;
}

static int head_page_of(
	struct part_reader *r, uint32_t number, uint32_t columns, const struct page **ret)
{
	const struct head_page *p = &head_page_data(head_of(r))[number];
	const struct part_page *pages = (const void *)head_of(r)->pages.base;

	(void)columns;
	*ret = &r->page_view;
	return page_view(
		p->data, p->len, p->n_columns, pages[number].n_rows, &r->page_view, &r->errbuf);
}

const struct part_ops head_part_ops = {
	.open = head_open,
	.schemas = head_schemas_of,
	.streams = head_streams_of,
	.label_sets = head_label_sets_of,
	.mappings = head_mappings_of,
	.label_strings = head_label_strings_of,
	.nodes = head_nodes_of,
	.location_keys = head_keys_of,
	.strings = head_strings_of,
	.functions = head_functions_of,
	.locations = head_locations_of,
	.profiles = head_profiles_of,
	.pages = head_pages_of,
	.page = head_page_of,
	.free = head_free,
};
