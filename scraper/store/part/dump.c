/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of a part.
 */
#include "scraper/store/part/dump.h"
#include "lib/base/alloc.h"
#include "scraper/store/part/part_impl.h"
#include <inttypes.h>
#include <string.h>

enum { FLUSH_BYTES = 64 << 10 };

static const char *const stream_kinds[] = {"profile", "gauges", "coverage"};
static const char *const column_kinds[] = {"delta", "instant", "gauge"};
static const char *const resolutions[] = {"raw", "10m", "1h"};
static const char *const mapping_kinds[] = {"native", "kernel", "jit", "interpreter"};

struct dumper {
	struct part_reader *r;
	const struct dump_options *o;
	struct bytes *out;
	const struct part_info *info;
	const struct part_schema *schemas;
	const struct part_stream *streams;
	struct part_label_sets label_sets;
	const struct part_mapping *mappings;
	const uint32_t *parents, *locations;
	const struct part_page *pages;
	/* Text of each location once asked for: offset + 1 into `texts`, length. */
	struct bytes texts;
	struct span {
		size_t at, len;
	} * location_text;
};

static void put_escaped(struct bytes *b, struct prof_str s)
{
	for (uint32_t i = 0; i < s.len; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (c == '\\' || c == ';' || c == '"')
			bytes_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			bytes_printf(b, "\\x%02x", c);
		else
			bytes_put_u8(b, c);
	}
}

static int put_string(struct dumper *d, struct bytes *b, uint32_t id)
{
	struct prof_str s = {.len = 0};
	int r = part_strings(d->r, &id, 1, &s);

	put_escaped(b, s);
	return r;
}

static int put_labels(struct dumper *d, struct bytes *b, uint32_t set)
{
	int r = 0;

	bytes_put_u8(b, '{');
	for (uint32_t i = d->label_sets.first[set]; !r && i < d->label_sets.first[set + 1]; i++) {
		if (i > d->label_sets.first[set])
			bytes_put_u8(b, ',');
		r = put_string(d, b, d->label_sets.pairs[i].name);
		bytes_put_str(b, "=\"");
		r = r ? r : put_string(d, b, d->label_sets.pairs[i].value);
		bytes_put_u8(b, '"');
	}
	bytes_put_u8(b, '}');
	return r;
}

static int put_function(struct dumper *d, struct bytes *b, const struct part_line *line)
{
	struct part_function f;
	int r = part_functions(d->r, &line->function, 1, &f);

	if (r < 0)
		return r;
	r = put_string(d, b, f.name);
	if (f.system_name != f.name) {
		bytes_put_u8(b, '|');
		r = r ? r : put_string(d, b, f.system_name);
	}
	if (f.filename) {
		bytes_put_u8(b, '@');
		r = r ? r : put_string(d, b, f.filename);
	}
	if (line->line || line->column || f.start_line)
		bytes_printf(b, ":%" PRId64 ":%" PRId64 "/%" PRId64, line->line, line->column,
			f.start_line);
	return r;
}

/* Lines innermost first, joined by "<"; then the mapping, flags and address where they say something. */
static int put_location(struct dumper *d, struct bytes *b, uint32_t id)
{
	struct part_location l;
	int r = part_locations(d->r, &id, 1, &l);

	for (uint32_t i = 0; !r && i < l.n_lines; i++) {
		if (i)
			bytes_put_u8(b, '<');
		r = put_function(d, b, &l.lines[i]);
	}
	if (r < 0)
		return r;
	if (l.mapping != STORE_NONE) {
		const struct part_mapping *m = &d->mappings[l.mapping];

		bytes_put_str(b, " [");
		r = put_string(d, b, m->filename);
		if (m->build_id) {
			bytes_put_u8(b, ' ');
			r = r ? r : put_string(d, b, m->build_id);
		}
		bytes_printf(b, " %s]",
			m->kind < ARRAY_SIZE(mapping_kinds) ? mapping_kinds[m->kind] : "?");
	}
	if (l.flags & PART_LOCATION_HAS_ADDRESS)
		bytes_printf(b, " +0x%" PRIx64, l.address);
	if (l.flags & ~PART_LOCATION_HAS_ADDRESS)
		bytes_printf(b, " flags=%u", l.flags & ~PART_LOCATION_HAS_ADDRESS);
	return r;
}

static int location_text(struct dumper *d, uint32_t id, struct span *ret)
{
	struct span *s = &d->location_text[id];

	if (!s->at) {
		size_t start = d->texts.len;
		int r = put_location(d, &d->texts, id);

		r = r ? r : bytes_error(&d->texts);
		if (r < 0)
			return r;
		*s = (struct span) {.at = start + 1, .len = d->texts.len - start};
	}
	*ret = *s;
	return 0;
}

static int put_stack(struct dumper *d, struct bytes *b, uint32_t node)
{
	uint32_t path[STORE_MAX_DEPTH + 4], n = 0;
	struct span s = {.at = 0};
	int r = 0;

	for (; node && n < ARRAY_SIZE(path); node = d->parents[node])
		path[n++] = d->locations[node];
	while (n && !r) {
		r = location_text(d, path[--n], &s);
		if (r < 0)
			return r;
		bytes_put(b, d->texts.data + s.at - 1, s.len);
		if (n)
			bytes_put_u8(b, ';');
	}
	return r;
}

/* A line of text that is to be sorted with others. */
struct line {
	size_t at, len;
};
struct lines {
	struct bytes text;
	struct line *items;
	size_t n, cap;
};

static void lines_done(struct lines *l)
{
	bytes_done(&l->text);
	free(l->items);
}

static int lines_add(struct lines *l, size_t start)
{
	int r = alloc_grow(&l->items, &l->cap, l->n + 1, sizeof(*l->items));

	if (!r)
		l->items[l->n++] = (struct line) {.at = start, .len = l->text.len - start};
	return r ? r : bytes_error(&l->text);
}

static int by_text(const void *a, const void *b, void *arg)
{
	const struct line *x = a, *y = b;
	const uint8_t *text = arg;
	int r = memcmp(text + x->at, text + y->at, MIN(x->len, y->len));

	return r ? r : x->len < y->len ? -1 : x->len > y->len;
}

static void lines_sort(struct lines *l)
{
	if (l->n)
		qsort_r(l->items, l->n, sizeof(*l->items), by_text, l->text.data);
}

static int put_rows(struct dumper *d, struct lines *l, uint64_t row, uint32_t n, unsigned n_columns)
{
	uint64_t end = row + n;
	int r = 0;

	while (!r && row < end) {
		uint32_t number = part_page_of(d->pages, d->info->n_pages, row);
		struct part_rows rows;

		r = part_rows(d->r, number, (1u << n_columns) - 1, &rows);
		if (!r && row - d->pages[number].first_row >= rows.n_rows)
			return err_set(
				&d->r->errbuf, -EBADMSG, "row %" PRIu64 " is in no page", row);
		for (; !r && row < end && row - d->pages[number].first_row < rows.n_rows; row++) {
			size_t i = (size_t)(row - d->pages[number].first_row), start = l->text.len;

			r = put_labels(d, &l->text,
				rows.label_sets ? rows.label_sets[i] : rows.const_label_set);
			bytes_put_u8(&l->text, ' ');
			r = r ? r : put_stack(d, &l->text, rows.nodes[i]);
			for (unsigned k = 0; k < n_columns; k++)
				bytes_printf(&l->text, " %" PRId64, rows.values[k][i]);
			r = r ? r : lines_add(l, start);
		}
	}
	return r;
}

static void put_total(struct bytes *b, uint8_t kind, int64_t v)
{
	if (kind == STORE_GAUGE)
		bytes_printf(b, " %.17g", part_f64(v));
	else
		bytes_printf(b, " %" PRId64, v);
}

static int maybe_flush(struct dumper *d, size_t above)
{
	if (d->o->flush && d->out->len > above)
		return d->o->flush(d->o->arg, d->out);
	return bytes_error(d->out);
}

static int dump_profile(
	struct dumper *d, const struct part_schema *s, const struct part_profiles *p, size_t i)
{
	_cleanup_(lines_done)
	struct lines l = {.n = 0};
	struct bytes *b = d->out;
	int r = 0;

	bytes_printf(b, "  time=%" PRId64 " duration=%" PRId64 " period=%" PRId64, p->time_ns[i],
		p->duration_ns[i], p->period[i]);
	if (p->resolution[i] || p->n_profiles[i] != 1)
		bytes_printf(b, " resolution=%s merged=%u", resolutions[p->resolution[i]],
			p->n_profiles[i]);
	bytes_printf(b, " rows=%u totals", p->n_rows[i]);
	for (unsigned k = 0; k < s->n_columns; k++)
		put_total(b, s->columns[k].kind, p->total[k][i]);
	bytes_put_u8(b, '\n');
	if (d->o->rows)
		r = put_rows(d, &l, p->first_row[i], p->n_rows[i], s->n_columns);
	lines_sort(&l);
	for (size_t k = 0; !r && k < l.n; k++) {
		bytes_put_str(b, "    ");
		bytes_put(b, l.text.data + l.items[k].at, l.items[k].len);
		bytes_put_u8(b, '\n');
	}
	return r ? r : maybe_flush(d, FLUSH_BYTES);
}

static int put_stream(struct dumper *d, struct bytes *b, uint32_t stream)
{
	const struct part_schema *s = &d->schemas[d->streams[stream].schema];
	int r = put_labels(d, b, d->streams[stream].label_set);

	bytes_printf(b, " %s", stream_kinds[s->kind]);
	if (s->period_type) {
		bytes_put_str(b, " period=");
		r = r ? r : put_string(d, b, s->period_type);
		bytes_put_u8(b, '/');
		r = r ? r : put_string(d, b, s->period_unit);
	}
	for (unsigned k = 0; !r && k < s->n_columns; k++) {
		bytes_put_u8(b, ' ');
		r = put_string(d, b, s->columns[k].type);
		bytes_put_u8(b, '/');
		r = r ? r : put_string(d, b, s->columns[k].unit);
		bytes_printf(b, "/%s", column_kinds[s->columns[k].kind]);
	}
	return r;
}

static int dump_stream(struct dumper *d, uint32_t stream)
{
	const struct part_schema *s = &d->schemas[d->streams[stream].schema];
	struct part_profiles p;
	int r = put_stream(d, d->out, stream);

	bytes_put_u8(d->out, '\n');
	r = r ? r : part_profiles(d->r, stream, INT64_MIN, INT64_MAX, &p);
	for (size_t i = 0; !r && i < p.n; i++)
		r = dump_profile(d, s, &p, i);
	return r;
}

static int dumper_init(struct dumper *d)
{
	int r = part_schemas(d->r, &d->schemas);

	r = r ? r : part_streams(d->r, &d->streams);
	r = r ? r : part_label_sets(d->r, &d->label_sets);
	r = r ? r : part_mappings(d->r, &d->mappings);
	r = r ? r : part_nodes(d->r, &d->parents, &d->locations);
	r = r ? r : part_pages(d->r, &d->pages);
	if (r < 0)
		return r;
	d->location_text = try_realloc(NULL, d->info->n_locations, sizeof(*d->location_text));
	if (!d->location_text)
		return -ENOMEM;
	memset(d->location_text, 0, d->info->n_locations * sizeof(*d->location_text));
	return 0;
}

int dump_part(struct part_reader *r, const struct dump_options *o, struct bytes *out)
{
	struct dumper d = {.r = r, .o = o, .out = out, .info = part_reader_info(r)};
	_cleanup_(lines_done)
	struct lines streams = {.n = 0};
	int e = dumper_init(&d);

	for (uint32_t i = 0; !e && i < d.info->n_streams; i++) {
		size_t start = streams.text.len;

		if (!d.streams[i].n_profiles)
			continue;
		e = put_stream(&d, &streams.text, i);
		/* The id rides behind the text. */
		bytes_put_u8(&streams.text, 0);
		bytes_put_u32(&streams.text, i);
		e = e ? e : lines_add(&streams, start);
	}
	if (!e)
		lines_sort(&streams);
	for (size_t i = 0; !e && i < streams.n; i++) {
		const struct line *l = &streams.items[i];
		uint32_t id;

		memcpy(&id, streams.text.data + l->at + l->len - 4, sizeof(id));
		e = dump_stream(&d, id);
	}
	bytes_done(&d.texts);
	free(d.location_text);
	return e ? e : maybe_flush(&d, 0);
}
