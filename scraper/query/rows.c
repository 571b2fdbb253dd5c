/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are decoded with all value columns that any range of the part needs, so that a page shared by streams of several
 * shapes is still decoded once.
 */
#include "scraper/query/rows.h"
#include "lib/base/alloc.h"
#include <stdlib.h>

int rows_add(struct rows_ranges *r, const struct part_profiles *profiles, size_t i, uint32_t hit)
{
	int e = alloc_grow(&r->items, &r->cap, r->n + 1, sizeof(*r->items));

	if (e)
		return e;
	r->items[r->n++] = (struct rows_range) {.first_row = profiles->first_row[i],
		.n_rows = profiles->n_rows[i],
		.hit = hit,
		.time_ns = profiles->time_ns[i],
		.duration_ns = profiles->duration_ns[i]};
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct rows_range *x = a, *y = b;

	if (x->first_row != y->first_row)
		return x->first_row < y->first_row ? -1 : 1;
	return (x->hit > y->hit) - (x->hit < y->hit);
}

struct walk {
	struct scan *scan;
	struct scan_part *part;
	const struct part_page *pages;
	uint32_t columns, page; /* page: the one that `rows` holds, or STORE_NONE */
	struct part_rows rows;
	struct errbuf *eb;
};

static int bad(const struct walk *w, const char *what)
{
	return err_set(w->eb, -EBADMSG, "part %s: %s", w->part->info->ulid, what);
}

/* Ids of the decoded page, checked once for all its rows. */
static int check_page(const struct walk *w)
{
	const struct part_info *in = w->part->info;
	uint32_t node = 0, set = w->rows.label_sets ? 0 : w->rows.const_label_set;

	for (uint32_t i = 0; i < w->rows.n_rows; i++)
		node = MAX(node, w->rows.nodes[i]);
	for (uint32_t i = 0; w->rows.label_sets && i < w->rows.n_rows; i++)
		set = MAX(set, w->rows.label_sets[i]);
	if (w->rows.n_rows && (node >= in->n_nodes || set >= in->n_label_sets))
		return bad(w, "a row refers to no node or label set");
	return 0;
}

static int load_page(struct walk *w, uint64_t row)
{
	const struct part_info *in = w->part->info;
	uint32_t page = part_page_of(w->pages, in->n_pages, row);
	int r;

	if (page == w->page)
		return 0;
	if (page >= in->n_pages)
		return bad(w, "a profile's rows lie outside its pages");
	r = scan_cancelled(w->scan, w->eb);
	if (r)
		return r;
	w->page = STORE_NONE;
	r = part_rows(w->part->reader, page, w->columns, &w->rows);
	if (r)
		return scan_failed(w->part, r, w->eb);
	r = check_page(w);
	if (!r)
		w->page = page;
	w->scan->env->stats.pages++;
	return r;
}

static int walk_range(struct walk *w, const struct rows_range *range, rows_fn *fn, void *ctx)
{
	const struct scan_hit *hit = &w->part->hits[range->hit];
	uint64_t row = range->first_row;
	uint32_t left = range->n_rows;
	int r = 0;

	while (left && !r) {
		const struct part_page *page;
		struct rows_piece piece = {.range = range, .hit = hit};
		uint64_t off;

		r = load_page(w, row);
		if (r)
			return r;
		page = &w->pages[w->page];
		off = row - page->first_row;
		if (row < page->first_row || off >= w->rows.n_rows || !w->rows.values[hit->column])
			return bad(w, "a profile's rows lie outside its pages");
		piece.n = MIN(left, w->rows.n_rows - (uint32_t)off);
		piece.nodes = w->rows.nodes + off;
		piece.label_sets = w->rows.label_sets ? w->rows.label_sets + off : NULL;
		piece.const_label_set = w->rows.const_label_set;
		piece.values = w->rows.values[hit->column] + off;
		r = fn(&piece, ctx, w->eb);
		w->scan->env->stats.rows += piece.n;
		row += piece.n;
		left -= (uint32_t)piece.n;
	}
	return r;
}

int rows_walk(struct scan *s, struct scan_part *p, struct rows_ranges *ranges, rows_fn *fn,
	void *ctx, struct errbuf *eb)
{
	struct walk w = {.scan = s, .part = p, .page = STORE_NONE, .eb = eb};
	int r;

	if (!ranges->n)
		return 0;
	r = part_pages(p->reader, &w.pages);
	if (r)
		return scan_failed(p, r, eb);
	for (size_t i = 0; i < ranges->n; i++)
		w.columns |= 1U << p->hits[ranges->items[i].hit].column;
	qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare_ranges);
	for (size_t i = 0; !r && i < ranges->n; i++)
		r = walk_range(&w, &ranges->items[i], fn, ctx);
	return r;
}
