/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are decoded with all value columns that any range of the part needs, so that a page shared by streams of several
 * shapes is still decoded once.
 */
#include "scraper/query/rows.h"
#include "lib/base/alloc.h"
#include <stdlib.h>

void rows_done(struct rows_ranges *r)
{
	budget_free(r->budget, r->items, r->cap, sizeof(*r->items));
	*r = (struct rows_ranges) {.budget = r->budget};
}

int rows_add(struct rows_ranges *r, const struct part_profiles *profiles, size_t i, uint32_t hit)
{
	int e = alloc_grow_in(r->budget, &r->items, &r->cap, r->n + 1, sizeof(*r->items), NULL);

	ASSERT(i < profiles->n);
	if (e)
		return e;
	r->items[r->n++] = (struct rows_range) {.first_row = profiles->first_row[i],
		.n_rows = profiles->n_rows[i],
		.hit = hit,
		.group = TREE_NONE,
		.time_ns = profiles->time_ns[i],
		.duration_ns = profiles->duration_ns[i]};
	return 0;
}

int rows_extend(
	struct rows_ranges *r, uint64_t first_row, uint64_t n_rows, uint32_t hit, uint32_t group)
{
	struct rows_range *last = r->n ? &r->items[r->n - 1] : NULL;
	int e;

	if (!n_rows)
		return 0;
	if (last && last->hit == hit && last->group == group &&
		last->first_row + last->n_rows == first_row) {
		last->n_rows += n_rows;
		return 0;
	}
	e = alloc_grow_in(r->budget, &r->items, &r->cap, r->n + 1, sizeof(*r->items), NULL);
	if (e)
		return e;
	r->items[r->n++] = (struct rows_range) {
		.first_row = first_row, .n_rows = n_rows, .hit = hit, .group = group};
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct rows_range *x = a, *y = b;

	if (x->first_row != y->first_row)
		return x->first_row < y->first_row ? -1 : 1;
	return (x->hit > y->hit) - (x->hit < y->hit);
}

void rows_sort(struct rows_ranges *r)
{
	bool sorted = true;

	for (size_t i = 1; i < r->n && sorted; i++)
		sorted = compare_ranges(&r->items[i - 1], &r->items[i]) <= 0;
	if (!sorted)
		qsort(r->items, r->n, sizeof(*r->items), compare_ranges);
}

struct walk {
	const struct rows_job *job;
	const struct part_page *pages;
	uint32_t columns, page; /* page: the one that `rows` holds, or STORE_NONE */
	struct part_rows rows;
	struct errbuf *eb;
};

static int bad(const struct walk *w, const char *what)
{
	return scan_contradicts(w->job->part, w->job->reader, what, w->eb);
}

static int load_page(struct walk *w, uint64_t row)
{
	const struct rows_job *j = w->job;
	uint32_t page = part_page_of(w->pages, j->part->info->n_pages, row);
	int r;

	if (page == w->page)
		return 0;
	if (page >= j->part->info->n_pages)
		return bad(w, "a profile's rows lie outside its pages");
	r = scan_cancelled(j->scan, w->eb);
	if (r)
		return r;
	w->page = STORE_NONE;
	r = part_rows(j->reader, page, w->columns, &w->rows);
	if (r)
		return scan_reader_failed(j->part, j->reader, r, w->eb);
	w->page = page;
	j->stats->pages++;
	return 0;
}

static int walk_range(struct walk *w, const struct rows_range *range, rows_fn *fn, void *ctx)
{
	const struct rows_job *j = w->job;
	const struct scan_hit *hit = &j->part->hits[range->hit];
	uint64_t row = MAX(range->first_row, j->from_row);
	uint64_t end = MIN(range->first_row + range->n_rows, j->to_row);
	const bool has_values = !j->nodes_only && !j->sets_only;
	int r = 0;

	while (row < end && !r && !(j->done && j->done[range->hit])) {
		const struct part_page *page;
		struct rows_piece piece = {.range = range, .hit = hit};
		uint64_t off;

		r = load_page(w, row);
		if (r)
			return r;
		page = &w->pages[w->page];
		off = row - page->first_row;
		if (row < page->first_row || off >= w->rows.n_rows ||
			(has_values && !w->rows.values[hit->column]))
			return bad(w, "a profile's rows lie outside its pages");
		piece.n = (size_t)MIN(end - row, w->rows.n_rows - off);
		piece.nodes = j->sets_only ? NULL : w->rows.nodes + off;
		piece.label_sets = w->rows.label_sets ? w->rows.label_sets + off : NULL;
		piece.const_label_set = w->rows.const_label_set;
		piece.values = has_values ? w->rows.values[hit->column] + off : NULL;
		r = fn(&piece, ctx, w->eb);
		j->stats->rows += piece.n;
		row += piece.n;
	}
	return r;
}

int rows_walk(const struct rows_job *job, rows_fn *fn, void *ctx, struct errbuf *eb)
{
	const struct rows_ranges *ranges = job->ranges;
	struct walk w = {.job = job, .page = STORE_NONE, .eb = eb};
	int r;

	if (!ranges->n)
		return 0;
	r = part_pages(job->reader, &w.pages);
	if (r)
		return scan_reader_failed(job->part, job->reader, r, eb);
	w.columns = job->sets_only ? PART_SETS_ONLY : 0;
	for (size_t i = 0; i < ranges->n && !job->nodes_only && !job->sets_only; i++)
		w.columns |= 1U << job->part->hits[ranges->items[i].hit].column;
	for (size_t i = 0; !r && i < ranges->n; i++) {
		ASSERT(!i || ranges->items[i - 1].first_row <= ranges->items[i].first_row);
		ASSERT(ranges->items[i].hit < job->part->n_hits);
		r = walk_range(&w, &ranges->items[i], fn, ctx);
	}
	return r;
}
