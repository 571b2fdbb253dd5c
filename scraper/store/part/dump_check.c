/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything in a part decoded and compared with itself.
 */
#include "lib/base/alloc.h"
#include "lib/prof/profile.h"
#include "scraper/store/part/dump.h"
#include "scraper/store/part/part_impl.h"
#include <inttypes.h>
#include <math.h>

struct checker {
	struct part_reader *r;
	const struct part_info *info;
	const struct part_schema *schemas;
	const struct part_stream *streams;
	const struct part_page *pages;
	uint64_t next_row; /* of a block: rows follow each other */
	struct dump_counts *counts;
};

static int bad(struct checker *c, const char *what, uint64_t number)
{
	return err_set(&c->r->errbuf, -EBADMSG, "%s %" PRIu64 " contradicts itself", what, number);
}

static int check_strings(struct checker *c)
{
	struct prof_str s;
	int r = 0;

	for (uint32_t i = 0; !r && i < c->info->n_strings; i++)
		r = part_strings(c->r, &i, 1, &s);
	c->counts->strings = c->info->n_strings;
	return r;
}

static int check_symbols(struct checker *c)
{
	const struct part_mapping *mappings;
	struct part_function f;
	struct part_location l;
	int r = part_mappings(c->r, &mappings);

	for (uint32_t i = 0; !r && i < c->info->n_mappings; i++)
		if (mappings[i].filename >= c->info->n_strings ||
			mappings[i].build_id >= c->info->n_strings)
			r = bad(c, "mapping", i);
	for (uint32_t i = 0; !r && i < c->info->n_functions; i++) {
		r = part_functions(c->r, &i, 1, &f);
		if (!r && (f.name >= c->info->n_strings || f.system_name >= c->info->n_strings ||
				  f.filename >= c->info->n_strings))
			r = bad(c, "function", i);
	}
	for (uint32_t i = 0; !r && i < c->info->n_locations; i++) {
		r = part_locations(c->r, &i, 1, &l);
		if (!r && l.mapping != STORE_NONE && l.mapping >= c->info->n_mappings)
			r = bad(c, "location", i);
	}
	return r;
}

static int check_nodes(struct checker *c)
{
	const uint32_t *parents, *locations;
	int r = part_nodes(c->r, &parents, &locations);

	for (uint32_t i = 1; !r && i < c->info->n_nodes; i++)
		if (parents[i] >= i || locations[i] >= c->info->n_locations)
			r = bad(c, "node", i);
	c->counts->nodes = c->info->n_nodes;
	return r;
}

static int check_keys(struct checker *c)
{
	const uint64_t *keys;
	int r = part_location_keys(c->r, &keys);

	if (c->info->is_head)
		return r;
	for (uint32_t i = 1; !r && i < c->info->n_locations; i++)
		if (keys[i - 1] > keys[i])
			r = bad(c, "location key", i);
	return r;
}

/* Sums of at most this do not saturate, in whichever order they were added (prof_add). */
static const double MAX_CHECKED = 9.2e18;

/* Rows of one profile: in order. Their sums, also of magnitudes. */
static int check_rows(struct checker *c, uint64_t first, uint32_t n, unsigned n_columns,
	int64_t *sums, double *magnitudes)
{
	uint64_t row = first, end = first + n, last_key = 0;
	int r = 0;

	while (!r && row < end) {
		uint32_t number = part_page_of(c->pages, c->info->n_pages, row);
		struct part_rows rows;

		if (!c->info->n_pages)
			return bad(c, "row", row);
		r = part_rows(c->r, number, (1u << n_columns) - 1, &rows);
		if (!r && row - c->pages[number].first_row >= rows.n_rows)
			return bad(c, "row", row);
		for (; !r && row < end && row - c->pages[number].first_row < rows.n_rows; row++) {
			size_t i = (size_t)(row - c->pages[number].first_row);
			uint64_t set = rows.label_sets ? rows.label_sets[i] : rows.const_label_set;
			uint64_t key = set << 32 | rows.nodes[i];

			if (row > first && key <= last_key)
				return bad(c, "order of row", row);
			last_key = key;
			for (unsigned k = 0; k < n_columns; k++) {
				if (!rows.values[k])
					return bad(c, "columns of row", row);
				sums[k] = prof_add(sums[k], rows.values[k][i]);
				magnitudes[k] += fabs((double)rows.values[k][i]);
			}
		}
	}
	return r;
}

static int check_profiles(struct checker *c, uint32_t stream)
{
	const struct part_schema *s = &c->schemas[c->streams[stream].schema];
	struct part_profiles p;
	int r = part_profiles(c->r, stream, INT64_MIN, INT64_MAX, &p);

	if (!r && !c->info->is_head && p.n != c->streams[stream].n_profiles)
		return bad(c, "stream", stream);
	for (size_t i = 0; !r && i < p.n; i++) {
		int64_t sums[STORE_MAX_COLUMNS] = {0};
		double magnitudes[STORE_MAX_COLUMNS] = {0};

		if (i && p.time_ns[i] < p.time_ns[i - 1])
			return bad(c, "time order of stream", stream);
		if (!c->info->is_head && !c->info->has_deletions && p.first_row[i] != c->next_row)
			return bad(c, "first row of a profile of stream", stream);
		r = check_rows(c, p.first_row[i], p.n_rows[i], s->n_columns, sums, magnitudes);
		for (unsigned k = 0; !r && p.n_rows[i] && k < s->n_columns; k++)
			if (magnitudes[k] <= MAX_CHECKED && sums[k] != p.total[k][i])
				r = bad(c, "total of stream", stream);
		c->next_row = p.first_row[i] + p.n_rows[i];
		c->counts->rows += p.n_rows[i];
		c->counts->profiles++;
	}
	c->counts->streams++;
	return r;
}

int dump_check(struct part_reader *reader, struct dump_counts *ret)
{
	struct checker c = {.r = reader, .info = part_reader_info(reader), .counts = ret};
	struct part_label_sets sets;
	int r = part_schemas(reader, &c.schemas);

	*ret = (struct dump_counts) {.rows = 0};
	r = r ? r : part_streams(reader, &c.streams);
	r = r ? r : part_label_sets(reader, &sets);
	r = r ? r : part_pages(reader, &c.pages);
	r = r ? r : check_strings(&c);
	r = r ? r : check_symbols(&c);
	r = r ? r : check_nodes(&c);
	r = r ? r : check_keys(&c);
	for (uint32_t i = 0; !r && i < c.info->n_streams; i++)
		r = check_profiles(&c, i);
	return r;
}

static int check_at(struct part *p, enum part_resolution resolution, struct dump_counts *counts,
	uint32_t *ret_rollups, struct errbuf *eb)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	int e = part_reader_open_at(p, resolution, NULL, &r, eb);

	if (e < 0)
		return e;
	*ret_rollups = part_reader_info(r)->rollups;
	e = dump_check(r, counts);
	if (part_is_damage(e))
		part_report_damage(r, NULL);
	return e < 0 ? err_set(eb, e, "%s: %s", part_reader_info(r)->ulid, part_reader_error(r))
		     : 0;
}

int dump_check_part(struct part *p, struct dump_counts *ret, struct errbuf *eb)
{
	uint32_t rollups = 0, same;
	int r = check_at(p, PART_RAW, ret, &rollups, eb);

	for (enum part_resolution i = PART_10M; !r && i <= PART_1H; i++) {
		struct dump_counts counts;

		if (rollups >> i & 1)
			r = check_at(p, i, &counts, &same, eb);
	}
	return r;
}
