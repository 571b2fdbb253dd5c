/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof message → columns. A first pass over the top level counts messages, so that columns are allocated once and a
 * hostile message is refused before it costs memory; then strings, mappings, functions, locations and samples are filled,
 * each by walking only the bytes between the first and the last message of its kind. No allocation per message, no
 * tree. Refused is what google/pprof refuses (profile.CheckValid) and a little more (docs/formats/profile.md).
 */
#include "lib/prof/decode.h"
#include "lib/prof/legacy.h"
#include "lib/prof/packed.h"
#include <stdarg.h>
#include <stdio.h>

/* Of the repeated messages. */
static const char *const kind_names[DECODE_N_KINDS] = {
	[SAMPLE_TYPE] = "sample type",
	[SAMPLE] = "sample",
	[MAPPING] = "mapping",
	[LOCATION] = "location",
	[FUNCTION] = "function",
	[STRING_TABLE] = "string",
};

/* A location with a line takes at least this many bytes of content. */
enum { MIN_LINED_LOCATION = 6 };

int decode_fail(struct decoder *d, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (d->error)
		return d->error;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (d->kind)
		d->error = err_set(d->eb, -EBADMSG, "%s %zu at byte %zu: %s", kind_names[d->kind],
			d->row, d->row_off, text);
	else
		d->error = err_set(d->eb, -EBADMSG, "%s", text);
	return d->error;
}

size_t decode_offset(const struct decoder *d, const uint8_t *p)
{
	return (size_t)(p - d->data);
}

int decode_check_wire(struct decoder *d, const struct cursor *c)
{
	if (!c->error)
		return d->error;
	return decode_fail(
		d, "malformed field near byte %zu", decode_offset(d, c->start) + c->error_off);
}

static uint32_t check_string(struct decoder *d, uint64_t i)
{
	if (i < d->n[STRING_TABLE])
		return (uint32_t)i;
	decode_fail(d, "string index %lld is not in the table of %zu", (long long)i,
		d->n[STRING_TABLE]);
	return 0;
}

uint32_t decode_string(struct decoder *d, struct cursor *c, const struct wire_field *f)
{
	uint64_t i = wire_number(c, f);

	return c->error ? 0 : check_string(d, i);
}

/* First pass: how many of everything, and where. */

static void count_message(struct decoder *d, struct cursor *c, const struct wire_field *f)
{
	if (f->wire != WIRE_BYTES)
		cursor_fail(c);
	d->n[f->number]++;
	d->content_bytes[f->number] += f->value;
}

static void count_field(struct decoder *d, struct cursor *c, const struct wire_field *f)
{
	switch (f->number) {
	case SAMPLE_TYPE:
	case SAMPLE:
	case MAPPING:
	case LOCATION:
	case FUNCTION:
	case STRING_TABLE: count_message(d, c, f); break;
	case TIME_NANOS:
		if (d->single[TIME_NANOS])
			decode_fail(d, "time_nanos occurs twice: concatenated profiles");
		d->single[TIME_NANOS] = wire_number(c, f);
		break;
	case PERIOD_TYPE: d->period_type = wire_bytes(c, f); break;
	case COMMENT: d->n[COMMENT] += wire_count_numbers(c, f); break;
	case DROP_FRAMES:
	case KEEP_FRAMES:
	case DURATION_NANOS:
	case PERIOD:
	case DEFAULT_SAMPLE_TYPE:
	case DOC_URL: d->single[f->number] = wire_number(c, f); break;
	}
}

/* Messages of one kind follow each other: takes those of the tag at c->pos, until anything is unusual. */
static void count_run(struct decoder *d, struct cursor *c)
{
	const uint8_t *p = c->pos, *from, *to;
	const uint8_t tag = *p;
	size_t n = 0, content_bytes = 0;

	while (c->end - p >= WIRE_SLACK && *p == tag && wire_fast_bytes(p, c->end, &from, &to)) {
		n++;
		content_bytes += (size_t)(to - from);
		p = to;
	}
	d->n[tag >> 3] += n;
	d->content_bytes[tag >> 3] += content_bytes;
	c->pos = p;
}

static void extend_span(struct decoder *d, uint64_t kind, const uint8_t *first, const uint8_t *end)
{
	if (!d->span[kind].first)
		d->span[kind].first = first;
	d->span[kind].end = end;
}

static int count(struct decoder *d)
{
	struct cursor c = cursor_of(d->data, d->len);
	struct wire_field f;

	while (!d->error && cursor_left(&c)) {
		const uint8_t *at = c.pos;

		if (*at >= WIRE_TAG(SAMPLE_TYPE, WIRE_BYTES) &&
			*at <= WIRE_TAG(STRING_TABLE, WIRE_BYTES) && (*at & 7) == WIRE_BYTES) {
			count_run(d, &c);
			extend_span(d, *at >> 3, at, c.pos);
			at = c.pos;
		}
		if (!wire_next(&c, &f) || f.number >= DECODE_N_KINDS)
			continue;
		count_field(d, &c, &f);
		extend_span(d, f.number, at, c.pos);
	}
	return decode_check_wire(d, &c);
}

/* The walks of the second pass. */

struct decode_walk decode_walk_of(const struct decoder *d, unsigned kind)
{
	const struct decode_span *s = &d->span[kind];

	return (struct decode_walk) {
		.c = cursor_of(s->first, (size_t)(s->end - s->first)), .kind = kind};
}

bool decode_walk_slow(struct decoder *d, struct decode_walk *w)
{
	struct wire_field f;

	d->kind = 0;
	do {
		if (d->error || !wire_next(&w->c, &f))
			return false;
	} while (f.number != w->kind);
	w->from = f.bytes;
	w->to = f.bytes + f.value;
	w->row++;
	return true;
}

static void fill_value_type(struct decoder *d, struct cursor c, struct prof_value_type *t)
{
	*t = (struct prof_value_type) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		if (f.number == 1)
			t->type = decode_string(d, &c, &f);
		else if (f.number == 2)
			t->unit = decode_string(d, &c, &f);
	}
	decode_check_wire(d, &c);
}

static void fill_strings(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, STRING_TABLE);

	while (decode_walk_next(d, &w))
		d->p->strings[w.row - 1] =
			(struct prof_str) {(const char *)w.from, (uint32_t)(w.to - w.from)};
	if (d->p->strings[0].len)
		decode_fail(d, "string_table[0] is not empty");
}

static __attribute__((noinline)) void add_other_id(
	struct decoder *d, struct prof_ids *ids, uint64_t id)
{
	if (!id)
		decode_fail(d, "has no id (0 is none)");
	else if (!d->error)
		d->error = prof_ids_add(ids, id, d->eb);
}

static inline void add_id(struct decoder *d, struct prof_ids *ids, uint64_t id)
{
	if (!prof_ids_add_next(ids, id))
		add_other_id(d, ids, id);
}

static void finish_ids(struct decoder *d, struct prof_ids *ids, const char *what)
{
	size_t twice[2] = {0, 0};
	int r = d->error ? d->error : prof_ids_finish(ids, twice, d->eb);

	if (r == -EEXIST)
		decode_fail(d, "%ss %zu and %zu have the same id %llu", what, twice[0], twice[1],
			(unsigned long long)ids->ids[twice[1]]);
	else
		d->error = r;
}

static uint64_t fill_mapping(struct decoder *d, struct cursor c, struct prof_mapping *m)
{
	uint64_t id = 0;

	*m = (struct prof_mapping) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: m->start = wire_number(&c, &f); break;
		case 3: m->limit = wire_number(&c, &f); break;
		case 4: m->file_off = wire_number(&c, &f); break;
		case 5: m->filename = decode_string(d, &c, &f); break;
		case 6: m->build_id = decode_string(d, &c, &f); break;
		case 7: m->has_functions = !!wire_number(&c, &f); break;
		case 8: m->has_filenames = !!wire_number(&c, &f); break;
		case 9: m->has_line_numbers = !!wire_number(&c, &f); break;
		case 10: m->has_inline_frames = !!wire_number(&c, &f); break;
		}
	}
	decode_check_wire(d, &c);
	return id;
}

static void fill_mappings(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, MAPPING);

	while (decode_walk_next(d, &w))
		add_id(d, &d->mappings,
			fill_mapping(d, decode_walk_cursor(d, &w), &d->p->mappings[w.row - 1]));
	finish_ids(d, &d->mappings, "mapping");
}

static uint64_t fill_function(struct decoder *d, struct cursor c, struct prof_function *fn)
{
	uint64_t id = 0;

	*fn = (struct prof_function) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: fn->name = decode_string(d, &c, &f); break;
		case 3: fn->system_name = decode_string(d, &c, &f); break;
		case 4: fn->filename = decode_string(d, &c, &f); break;
		case 5: fn->start_line = (int64_t)wire_number(&c, &f); break;
		}
	}
	decode_check_wire(d, &c);
	return id;
}

/* 0 when the message is not of the usual form. */
static inline uint64_t fast_function(
	const struct decoder *d, const struct decode_walk *w, struct prof_function *fn)
{
	const uint8_t *p = w->from, *end = w->to;
	uint64_t id = 0, name = 0, system_name = 0, filename = 0, start_line = 0,
		 n = d->n[STRING_TABLE];

	if (end > d->fast_end || !wire_fast_number(&p, end, 1, &id) ||
		!wire_fast_number(&p, end, 2, &name) ||
		!wire_fast_number(&p, end, 3, &system_name) ||
		!wire_fast_number(&p, end, 4, &filename) ||
		!wire_fast_number(&p, end, 5, &start_line) || p != end || name >= n ||
		system_name >= n || filename >= n)
		return 0;
	*fn = (struct prof_function) {.name = (uint32_t)name,
		.system_name = (uint32_t)system_name,
		.filename = (uint32_t)filename,
		.start_line = (int64_t)start_line};
	return id;
}

static void fill_functions(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, FUNCTION);

	while (decode_walk_next(d, &w)) {
		struct prof_function *fn = &d->p->functions[w.row - 1];
		uint64_t id = fast_function(d, &w, fn);

		if (!id)
			id = fill_function(d, decode_walk_cursor(d, &w), fn);
		add_id(d, &d->functions, id);
	}
	finish_ids(d, &d->functions, "function");
}

static size_t count_lines(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, LOCATION);
	size_t n = 0;

	while (decode_walk_next(d, &w)) {
		struct cursor c = cursor_of(w.from, (size_t)(w.to - w.from));

		for (struct wire_field f; wire_next(&c, &f);)
			n += f.number == 4;
	}
	return n;
}

/* More lines than one a location: counts all of them. Happens once. */
static bool grow_lines(struct decoder *d)
{
	struct profile *p = d->p;
	size_t n = count_lines(d);
	struct prof_line *lines = arena_alloc_array(&p->arena, n, sizeof(*lines));

	ASSERT(n > d->cap_lines);
	if (!lines) {
		d->error = arena_error(&p->arena, d->eb);
		return false;
	}
	if (p->n_lines)
		memcpy(lines, p->lines, p->n_lines * sizeof(*lines));
	p->lines = lines;
	d->cap_lines = n;
	return true;
}

static void fill_line(struct decoder *d, struct cursor c)
{
	struct prof_line l = {0};
	uint64_t id = 0;

	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: l.line = (int64_t)wire_number(&c, &f); break;
		case 3: l.column = (int64_t)wire_number(&c, &f); break;
		}
	}
	decode_check_wire(d, &c);
	l.function = prof_ids_row(&d->functions, id);
	if (l.function == PROF_NONE)
		decode_fail(d, "function id %llu of a line is not in the profile",
			(unsigned long long)id);
	if (!d->error && (d->p->n_lines < d->cap_lines || grow_lines(d)))
		d->p->lines[d->p->n_lines++] = l;
}

static uint64_t fill_location(struct decoder *d, struct cursor c, struct prof_location *l)
{
	uint64_t id = 0, mapping = 0;

	*l = (struct prof_location) {.mapping = PROF_NONE, .first_line = (uint32_t)d->p->n_lines};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: mapping = wire_number(&c, &f); break;
		case 3: l->address = wire_number(&c, &f); break;
		case 4: fill_line(d, wire_bytes(&c, &f)); break;
		case 5: l->is_folded = !!wire_number(&c, &f); break;
		}
	}
	l->n_lines = (uint32_t)d->p->n_lines - l->first_line;
	decode_check_wire(d, &c);
	if (mapping) {
		l->mapping = prof_ids_row(&d->mappings, mapping);
		if (l->mapping == PROF_NONE)
			decode_fail(d, "mapping id %llu is not in the profile",
				(unsigned long long)mapping);
	}
	return id;
}

/* The lines at p; what follows them, or NULL. n_lines moves only with the caller's consent. */
static inline const uint8_t *fast_lines(
	const struct decoder *d, const uint8_t *p, const uint8_t *end, size_t *n_lines)
{
	while (p < end && *p == WIRE_TAG(4, WIRE_BYTES)) {
		uint64_t id = 0, line = 0, column = 0;
		const uint8_t *to;
		uint32_t row;

		if (*n_lines == d->cap_lines || !wire_fast_bytes(p, end, &p, &to) ||
			!wire_fast_number(&p, to, 1, &id) || !wire_fast_number(&p, to, 2, &line) ||
			!wire_fast_number(&p, to, 3, &column) || p != to)
			return NULL;
		row = prof_ids_row(&d->functions, id);
		if (row == PROF_NONE)
			return NULL;
		d->p->lines[(*n_lines)++] = (struct prof_line) {
			.function = row, .line = (int64_t)line, .column = (int64_t)column};
	}
	return p;
}

/* 0 when the message is not of the usual form; nothing is changed then. */
static inline uint64_t fast_location(
	const struct decoder *d, const struct decode_walk *w, struct prof_location *l)
{
	const uint8_t *p = w->from, *end = w->to;
	uint64_t id = 0, mapping = 0, address = 0, is_folded = 0;
	size_t n_lines = d->p->n_lines;
	uint32_t row = PROF_NONE;

	if (end > d->fast_end || !wire_fast_number(&p, end, 1, &id) ||
		!wire_fast_number(&p, end, 2, &mapping) || !wire_fast_number(&p, end, 3, &address))
		return 0;
	p = fast_lines(d, p, end, &n_lines);
	if (!p || !wire_fast_number(&p, end, 5, &is_folded) || p != end || !id)
		return 0;
	if (mapping) {
		row = prof_ids_row(&d->mappings, mapping);
		if (row == PROF_NONE)
			return 0;
	}
	*l = (struct prof_location) {.address = address,
		.mapping = row,
		.first_line = (uint32_t)d->p->n_lines,
		.n_lines = (uint32_t)(n_lines - d->p->n_lines),
		.is_folded = !!is_folded};
	d->p->n_lines = n_lines;
	return id;
}

static void fill_locations(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, LOCATION);

	while (decode_walk_next(d, &w)) {
		struct prof_location *l = &d->p->locations[w.row - 1];
		uint64_t id = fast_location(d, &w, l);

		if (!id)
			id = fill_location(d, decode_walk_cursor(d, &w), l);
		add_id(d, &d->locations, id);
	}
	finish_ids(d, &d->locations, "location");
}

static void fill_types(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, SAMPLE_TYPE);

	while (decode_walk_next(d, &w))
		fill_value_type(d, decode_walk_cursor(d, &w), &d->p->types[w.row - 1]);
	d->kind = 0;
}

/* What can be said before anything is allocated. */
static int check_counts(struct decoder *d)
{
	if (!d->n[STRING_TABLE])
		return decode_fail(d, "no string table");
	if (d->n[SAMPLE] && !d->n[SAMPLE_TYPE])
		return decode_fail(d, "samples without a sample type");
	/* Every value takes a byte, every id two: a message cannot ask for more than it is long. */
	if ((uint64_t)d->n[SAMPLE] * d->n[SAMPLE_TYPE] > d->content_bytes[SAMPLE])
		decode_find_wrong_values(d);
	for (unsigned kind = MAPPING; kind <= FUNCTION; kind++) {
		struct decode_walk w = decode_walk_of(d, kind);

		if (d->content_bytes[kind] >= d->n[kind] * DECODE_MIN_MESSAGE)
			continue;
		while (decode_walk_next(d, &w))
			if (cursor_left(&(struct cursor) {.pos = w.from, .end = w.to}) <
				DECODE_MIN_MESSAGE) {
				decode_walk_cursor(d, &w);
				decode_fail(d, "has no id (0 is none)");
			}
	}
	return d->error;
}

/* Columns that are carved out of one allocation, so that a reused profile finds it again whole (arena_reset). */
struct block {
	char *base; /* NULL while only sizes are added up */
	size_t bytes;
};

static void *carve(struct block *b, size_t n, size_t elem)
{
	size_t at = b->bytes;

	/* No overflow: a message below 4 GiB cannot hold so many of anything. */
	b->bytes += (n * elem + 15) & ~(size_t)15;
	return b->base ? b->base + at : NULL;
}

static void carve_columns(struct decoder *d, struct block *b)
{
	struct profile *p = d->p;

	p->stack_first = carve(b, p->n_samples + 1, sizeof(*p->stack_first));
	p->label_first = carve(b, p->n_samples + 1, sizeof(*p->label_first));
	p->values = carve(b, p->n_samples * p->n_types, sizeof(*p->values));
	p->strings = carve(b, p->n_strings, sizeof(*p->strings));
	p->types = carve(b, p->n_types, sizeof(*p->types));
	p->mappings = carve(b, p->n_mappings, sizeof(*p->mappings));
	p->functions = carve(b, p->n_functions, sizeof(*p->functions));
	p->locations = carve(b, p->n_locations, sizeof(*p->locations));
	p->lines = carve(b, d->cap_lines, sizeof(*p->lines));
	p->comments = carve(b, p->n_comments, sizeof(*p->comments));
	/* Last, because its end often stays untouched. */
	p->stacks = carve(b, d->cap_words + PACKED_WRITE_SLACK, sizeof(*p->stacks));
}

static int allocate(struct decoder *d)
{
	struct profile *p = d->p;
	struct block b = {NULL, 0};

	p->n_samples = d->n[SAMPLE];
	p->n_strings = d->n[STRING_TABLE];
	p->n_types = d->n[SAMPLE_TYPE];
	p->n_mappings = d->n[MAPPING];
	p->n_functions = d->n[FUNCTION];
	p->n_locations = d->n[LOCATION];
	p->n_comments = d->n[COMMENT];
	d->cap_lines = MIN(p->n_locations, d->content_bytes[LOCATION] / MIN_LINED_LOCATION);
	d->cap_words = decode_guess_words(d);
	carve_columns(d, &b);
	b.base = arena_alloc(&p->arena, b.bytes);
	if (!b.base) {
		d->error = arena_error(&p->arena, d->eb);
		return err_prefix(d->eb, d->error, "decoding a profile of %zu bytes", d->len);
	}
	b.bytes = 0;
	carve_columns(d, &b);
	return 0;
}

static void fill_comments(struct decoder *d)
{
	const struct decode_span *s = &d->span[COMMENT];
	struct cursor c = cursor_of(s->first, (size_t)(s->end - s->first));
	uint32_t *to = d->p->comments;

	for (struct wire_field f; wire_next(&c, &f);) {
		struct cursor packed;

		if (f.number != COMMENT)
			continue;
		if (f.wire == WIRE_VARINT) {
			*to++ = check_string(d, f.value);
			continue;
		}
		packed = wire_bytes(&c, &f);
		while (cursor_left(&packed)) {
			uint64_t i = cursor_varint(&packed);

			if (!packed.error)
				*to++ = check_string(d, i);
		}
		decode_check_wire(d, &packed);
	}
}

static void fill_singles(struct decoder *d)
{
	struct profile *p = d->p;

	p->drop_frames = check_string(d, d->single[DROP_FRAMES]);
	p->keep_frames = check_string(d, d->single[KEEP_FRAMES]);
	p->default_sample_type = check_string(d, d->single[DEFAULT_SAMPLE_TYPE]);
	p->doc_url = check_string(d, d->single[DOC_URL]);
	p->time_ns = (int64_t)d->single[TIME_NANOS];
	p->duration_ns = (int64_t)d->single[DURATION_NANOS];
	p->period = (int64_t)d->single[PERIOD];
	fill_value_type(d, d->period_type, &p->period_type);
}

static int decode(struct decoder *d)
{
	struct profile *p = d->p;

	if (count(d) < 0 || check_counts(d) < 0 || allocate(d) < 0)
		return d->error;
	prof_ids_init(&d->mappings, p->n_mappings, p->arena.budget);
	prof_ids_init(&d->functions, p->n_functions, p->arena.budget);
	prof_ids_init(&d->locations, p->n_locations, p->arena.budget);
	fill_strings(d);
	fill_singles(d);
	fill_comments(d);
	fill_types(d);
	fill_mappings(d);
	fill_functions(d);
	fill_locations(d);
	decode_fill_samples(d);
	decode_mend_label_texts(d);
	prof_ids_done(&d->mappings);
	prof_ids_done(&d->functions);
	prof_ids_done(&d->locations);
	return d->error;
}

int prof_decode(const void *data, size_t len, struct profile *ret, struct errbuf *eb)
{
	struct decoder d = {.p = ret, .eb = eb, .data = data, .len = len};
	const uint8_t *b = data;
	const char *legacy = NULL;
	struct arena arena;

	if (!len)
		return err_set(eb, -EBADMSG, "empty profile");
	if (len > UINT32_MAX)
		return err_set(
			eb, -EFBIG, "a profile of %zu bytes: at most 4 GiB are decoded", len);
	if (len > 2 && b[0] == 0x1f && b[1] == 0x8b)
		return err_set(
			eb, -EBADMSG, "gzip where an uncompressed pprof message was expected");
	d.has_packed = packed_is_fast();
	d.fast_end = b + (len > WIRE_SLACK ? len - WIRE_SLACK : 0);
	if (!decode(&d))
		return 0;
	/* No half-filled columns. */
	arena = ret->arena;
	*ret = (struct profile) {.arena = arena};
	if (d.error == -EBADMSG)
		legacy = prof_legacy_what(data, len);
	return legacy ? err_set(eb, -EBADMSG, "%s", legacy) : d.error;
}
