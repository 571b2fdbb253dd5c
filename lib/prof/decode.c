/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof message → columns. A first pass counts every row, so that columns are allocated once at their exact size and
 * a hostile message is refused before it costs memory; then mappings, functions and strings, locations, and samples are
 * filled, each by walking only the bytes between the first and the last message of its kind. No allocation per
 * message, no tree. Refused is what google/pprof refuses (profile.CheckValid) and a little more
 * (docs/formats/profile.md).
 */
#include "lib/prof/profile.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/ids.h"
#include "lib/prof/wire.h"
#include <stdarg.h>
#include <stdio.h>

/* An id or a function reference takes a tag and a number: shorter messages have none. */
enum { MIN_MESSAGE = 2 };

/* Field numbers of Profile. */
enum {
	SAMPLE_TYPE = 1,
	SAMPLE,
	MAPPING,
	LOCATION,
	FUNCTION,
	STRING_TABLE,
	DROP_FRAMES,
	KEEP_FRAMES,
	TIME_NANOS,
	DURATION_NANOS,
	PERIOD_TYPE,
	PERIOD,
	COMMENT,
	DEFAULT_SAMPLE_TYPE,
	DOC_URL,
	N_KINDS,
};

/* Of the repeated messages. */
static const char *const kind_names[N_KINDS] = {
	[SAMPLE_TYPE] = "sample type",
	[SAMPLE] = "sample",
	[MAPPING] = "mapping",
	[LOCATION] = "location",
	[FUNCTION] = "function",
	[STRING_TABLE] = "string",
};

struct decoder {
	struct profile *p;
	struct errbuf *eb;
	const uint8_t *data;
	size_t len;
	int error;
	/* the message in hand, for error texts; kind 0: the profile itself */
	unsigned kind;
	size_t row, row_off;
	/* counted by the first pass */
	size_t n[N_KINDS], n_stack_words, n_values, n_labels, n_lines;
	struct span {
		const uint8_t *first, *end;
	} span[N_KINDS];
	uint64_t single[N_KINDS]; /* raw values of the fields that are one number */
	struct cursor period_type;
	struct prof_ids mappings, functions, locations;
};

static int fail(struct decoder *d, const char *fmt, ...) _printf_(2, 3);
static int fail(struct decoder *d, const char *fmt, ...)
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

static size_t offset_of(const struct decoder *d, const uint8_t *p)
{
	return (size_t)(p - d->data);
}

/* Ends a walk over a message. */
static int check_wire(struct decoder *d, const struct cursor *c)
{
	if (!c->error)
		return d->error;
	return fail(d, "malformed field before byte %zu", offset_of(d, c->start) + c->error_off);
}

static uint32_t check_string(struct decoder *d, uint64_t i)
{
	if (i < d->n[STRING_TABLE])
		return (uint32_t)i;
	fail(d, "string index %lld is not in the table of %zu", (long long)i, d->n[STRING_TABLE]);
	return 0;
}

static uint32_t string_of(struct decoder *d, struct cursor *c, const struct wire_field *f)
{
	uint64_t i = wire_number(c, f);

	return c->error ? 0 : check_string(d, i);
}

/* First pass: how many of everything, and where. */

static void count_sample(struct decoder *d, struct cursor c)
{
	for (struct wire_field f; wire_next(&c, &f);) {
		if (f.number == 1)
			d->n_stack_words += wire_count_numbers(&c, &f);
		else if (f.number == 2)
			d->n_values += wire_count_numbers(&c, &f);
		else if (f.number == 3)
			d->n_labels += wire_bytes_len(&c, &f) >= MIN_MESSAGE;
	}
	check_wire(d, &c);
}

static void count_location(struct decoder *d, struct cursor c)
{
	for (struct wire_field f; wire_next(&c, &f);) {
		if (f.number != 4)
			continue;
		if (wire_bytes_len(&c, &f) < MIN_MESSAGE && !c.error)
			fail(d, "a line has no function");
		d->n_lines++;
	}
	check_wire(d, &c);
}

static void count_message(struct decoder *d, struct cursor *c, const struct wire_field *f)
{
	struct cursor sub = wire_bytes(c, f);

	if (c->error)
		return;
	d->kind = (unsigned)f->number;
	d->row = d->n[f->number]++;
	d->row_off = offset_of(d, f->bytes);
	if (f->number == SAMPLE)
		count_sample(d, sub);
	else if (f->number == LOCATION)
		count_location(d, sub);
	if (f->number >= MAPPING && f->number <= FUNCTION && f->value < MIN_MESSAGE)
		fail(d, "has no id");
	d->kind = 0;
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
			fail(d, "time_nanos occurs twice: concatenated profiles");
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

static int count(struct decoder *d)
{
	struct cursor c = cursor_of(d->data, d->len);
	const uint8_t *at = c.pos;

	for (struct wire_field f; !d->error && wire_next(&c, &f); at = c.pos) {
		if (f.number < N_KINDS) {
			struct span *s = &d->span[f.number];

			count_field(d, &c, &f);
			if (!s->first)
				s->first = at;
			s->end = c.pos;
		}
	}
	return check_wire(d, &c);
}

/* The walks of the second pass. */

struct walk {
	struct cursor c;
	unsigned kind;
	size_t row;
};

static struct walk walk_of(const struct decoder *d, unsigned kind)
{
	const struct span *s = &d->span[kind];

	return (struct walk) {.c = cursor_of(s->first, (size_t)(s->end - s->first)), .kind = kind};
}

/* The content of the next message of the walk's kind; false at the end and after an error. */
static inline bool walk_next(struct decoder *d, struct walk *w, struct cursor *ret)
{
	struct wire_field f;

	d->kind = 0;
	do {
		if (d->error || !wire_next(&w->c, &f))
			return false;
	} while (f.number != w->kind);
	d->kind = w->kind;
	d->row = w->row++;
	d->row_off = offset_of(d, f.bytes);
	*ret = cursor_of(f.bytes, f.value);
	return true;
}

static void fill_value_type(struct decoder *d, struct cursor c, struct prof_value_type *t)
{
	*t = (struct prof_value_type) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		if (f.number == 1)
			t->type = string_of(d, &c, &f);
		else if (f.number == 2)
			t->unit = string_of(d, &c, &f);
	}
	check_wire(d, &c);
}

static void fill_strings(struct decoder *d)
{
	struct walk w = walk_of(d, STRING_TABLE);
	struct prof_str *to = d->p->strings;

	for (struct cursor c; walk_next(d, &w, &c); to++) {
		size_t n = cursor_left(&c);

		*to = (struct prof_str) {.p = (const char *)cursor_take(&c, n), .len = (uint32_t)n};
	}
	if (d->p->strings[0].len)
		fail(d, "string_table[0] is not empty");
}

static void add_id(struct decoder *d, struct prof_ids *ids, uint64_t id)
{
	if (!id)
		fail(d, "id 0 is reserved");
	else if (!d->error)
		d->error = prof_ids_add(ids, id, d->eb);
}

static void finish_ids(struct decoder *d, struct prof_ids *ids, const char *what)
{
	size_t twice[2] = {0, 0};
	int r = d->error ? d->error : prof_ids_finish(ids, twice, d->eb);

	if (r == -EEXIST)
		fail(d, "%ss %zu and %zu have the same id %llu", what, twice[0], twice[1],
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
		case 5: m->filename = string_of(d, &c, &f); break;
		case 6: m->build_id = string_of(d, &c, &f); break;
		case 7: m->has_functions = !!wire_number(&c, &f); break;
		case 8: m->has_filenames = !!wire_number(&c, &f); break;
		case 9: m->has_line_numbers = !!wire_number(&c, &f); break;
		case 10: m->has_inline_frames = !!wire_number(&c, &f); break;
		}
	}
	check_wire(d, &c);
	return id;
}

static uint64_t fill_function(struct decoder *d, struct cursor c, struct prof_function *fn)
{
	uint64_t id = 0;

	*fn = (struct prof_function) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: fn->name = string_of(d, &c, &f); break;
		case 3: fn->system_name = string_of(d, &c, &f); break;
		case 4: fn->filename = string_of(d, &c, &f); break;
		case 5: fn->start_line = (int64_t)wire_number(&c, &f); break;
		}
	}
	check_wire(d, &c);
	return id;
}

static void fill_line(struct decoder *d, struct cursor c, struct prof_line *l)
{
	uint64_t id = 0;

	*l = (struct prof_line) {0};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: l->line = (int64_t)wire_number(&c, &f); break;
		case 3: l->column = (int64_t)wire_number(&c, &f); break;
		}
	}
	check_wire(d, &c);
	l->function = prof_ids_row(&d->functions, id);
	if (l->function == PROF_NONE)
		fail(d, "function id %llu of a line is not in the profile", (unsigned long long)id);
}

static uint64_t fill_location(
	struct decoder *d, struct cursor c, struct prof_location *l, struct prof_line *lines)
{
	uint64_t id = 0, mapping = 0;

	*l = (struct prof_location) {.mapping = PROF_NONE};
	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: id = wire_number(&c, &f); break;
		case 2: mapping = wire_number(&c, &f); break;
		case 3: l->address = wire_number(&c, &f); break;
		case 4: fill_line(d, wire_bytes(&c, &f), &lines[l->n_lines++]); break;
		case 5: l->is_folded = !!wire_number(&c, &f); break;
		}
	}
	check_wire(d, &c);
	if (mapping) {
		l->mapping = prof_ids_row(&d->mappings, mapping);
		if (l->mapping == PROF_NONE)
			fail(d, "mapping id %llu is not in the profile",
				(unsigned long long)mapping);
	}
	return id;
}

static void fill_tables(struct decoder *d)
{
	struct profile *p = d->p;
	uint32_t n_lines = 0;
	struct cursor c;
	struct walk w;

	w = walk_of(d, SAMPLE_TYPE);
	while (walk_next(d, &w, &c))
		fill_value_type(d, c, &p->types[d->row]);
	w = walk_of(d, MAPPING);
	while (walk_next(d, &w, &c))
		add_id(d, &d->mappings, fill_mapping(d, c, &p->mappings[d->row]));
	finish_ids(d, &d->mappings, "mapping");
	w = walk_of(d, FUNCTION);
	while (walk_next(d, &w, &c))
		add_id(d, &d->functions, fill_function(d, c, &p->functions[d->row]));
	finish_ids(d, &d->functions, "function");
	w = walk_of(d, LOCATION);
	while (walk_next(d, &w, &c)) {
		struct prof_location *l = &p->locations[d->row];

		add_id(d, &d->locations, fill_location(d, c, l, p->lines + n_lines));
		l->first_line = n_lines;
		n_lines += l->n_lines;
	}
	finish_ids(d, &d->locations, "location");
}

/* Samples: nearly all of the work. */

struct sample_fill {
	uint32_t *stack;
	int64_t *value;
	struct prof_label *label;
};

/* A varint inside [*p, end), one to three bytes inline. Malformed: false. */
static inline bool packed_varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
	const uint8_t *p = *pos;
	struct cursor c;

	if (p[0] < 0x80) {
		*ret = p[0];
		*pos = p + 1;
		return true;
	}
	if (end - p > 1 && p[1] < 0x80) {
		*ret = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
		*pos = p + 2;
		return true;
	}
	if (end - p > 2 && p[2] < 0x80) {
		*ret = (uint64_t)(p[0] & 0x7f) | (uint64_t)(p[1] & 0x7f) << 7 |
		       (uint64_t)p[2] << 14;
		*pos = p + 3;
		return true;
	}
	c = cursor_of(p, (size_t)(end - p));
	*ret = cursor_varint(&c);
	*pos = c.pos;
	return !c.error;
}

static void fail_location(struct decoder *d, uint64_t id)
{
	fail(d, "location id %llu is not in the profile", (unsigned long long)id);
}

/* `sequential` is a constant at each call: ids are row + 1. */
static inline uint32_t *fill_packed_stack(
	struct decoder *d, const struct wire_field *f, uint32_t *to, bool sequential)
{
	const uint8_t *p = f->bytes, *end = p + f->value;
	const size_t n = d->locations.n;

	while (p < end) {
		uint64_t id, row;

		if (!packed_varint(&p, end, &id)) {
			fail(d, "malformed location id before byte %zu", offset_of(d, p));
			return to;
		}
		row = sequential ? id - 1 : prof_ids_row(&d->locations, id);
		if (row >= n) {
			fail_location(d, id);
			return to;
		}
		*to++ = (uint32_t)row;
	}
	return to;
}

static inline void fill_stack(
	struct decoder *d, struct cursor *c, const struct wire_field *f, struct sample_fill *w)
{
	uint32_t row;

	if (f->wire != WIRE_BYTES) {
		row = prof_ids_row(&d->locations, wire_number(c, f));
		if (row == PROF_NONE)
			fail_location(d, f->value);
		else
			*w->stack++ = row;
	} else if (prof_ids_are_sequential(&d->locations)) {
		w->stack = fill_packed_stack(d, f, w->stack, true);
	} else {
		w->stack = fill_packed_stack(d, f, w->stack, false);
	}
}

/* `end`: where the row of values ends. Values beyond it are counted but not kept. */
static inline size_t fill_values(struct decoder *d, struct cursor *c, const struct wire_field *f,
	struct sample_fill *w, const int64_t *row_end)
{
	const uint8_t *p = f->bytes, *end;
	size_t n = 0;
	uint64_t v;

	if (f->wire != WIRE_BYTES) {
		v = wire_number(c, f);
		if (w->value < row_end)
			*w->value++ = (int64_t)v;
		return 1;
	}
	for (end = p + f->value; p < end; n++) {
		if (!packed_varint(&p, end, &v)) {
			fail(d, "malformed value before byte %zu", offset_of(d, p));
			return n;
		}
		if (w->value < row_end)
			*w->value++ = (int64_t)v;
	}
	return n;
}

/* Without string, number and unit a label says nothing and is left out; with a string the number does not count. */
static void fill_label(struct decoder *d, struct cursor c, struct sample_fill *w)
{
	struct prof_label l = {0};

	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: l.key = string_of(d, &c, &f); break;
		case 2: l.str = string_of(d, &c, &f); break;
		case 3: l.num = (int64_t)wire_number(&c, &f); break;
		case 4: l.num_unit = string_of(d, &c, &f); break;
		}
	}
	check_wire(d, &c);
	if (l.str)
		l.num = l.num_unit = 0;
	if (l.str || l.num || l.num_unit)
		*w->label++ = l;
}

static void fill_sample(struct decoder *d, struct cursor c, struct sample_fill *w)
{
	const int64_t *row_end = w->value + d->p->n_types;
	size_t n_values = 0;

	for (struct wire_field f; wire_next(&c, &f);) {
		if (f.number == 1)
			fill_stack(d, &c, &f, w);
		else if (f.number == 2)
			n_values += fill_values(d, &c, &f, w, row_end);
		else if (f.number == 3 && wire_bytes_len(&c, &f) >= MIN_MESSAGE)
			fill_label(d, wire_bytes(&c, &f), w);
	}
	check_wire(d, &c);
	if (n_values != d->p->n_types)
		fail(d, "has %zu values for %zu sample types", n_values, d->p->n_types);
}

static void fill_samples(struct decoder *d)
{
	struct profile *p = d->p;
	struct sample_fill fill = {.stack = p->stacks, .value = p->values, .label = p->labels};
	struct walk w = walk_of(d, SAMPLE);

	p->stack_first[0] = p->label_first[0] = 0;
	for (struct cursor c; walk_next(d, &w, &c);) {
		fill_sample(d, c, &fill);
		p->stack_first[w.row] = (uint64_t)(fill.stack - p->stacks);
		p->label_first[w.row] = (uint64_t)(fill.label - p->labels);
	}
	if (!d->error)
		p->n_labels = (size_t)(fill.label - p->labels);
}

/* Called when the totals say that some sample has a wrong number of values: names the first. */
static void find_wrong_values(struct decoder *d)
{
	struct walk w = walk_of(d, SAMPLE);

	for (struct cursor c; walk_next(d, &w, &c);) {
		size_t n = 0;

		for (struct wire_field f; wire_next(&c, &f);)
			n += f.number == 2 ? wire_count_numbers(&c, &f) : 0;
		if (n != d->n[SAMPLE_TYPE])
			fail(d, "has %zu values for %zu sample types", n, d->n[SAMPLE_TYPE]);
	}
}

/* What can be said before anything is allocated. */
static int check_counts(struct decoder *d)
{
	if (!d->n[STRING_TABLE])
		return fail(d, "no string table");
	if (d->n[SAMPLE] && !d->n[SAMPLE_TYPE])
		return fail(d, "samples without a sample type");
	if (d->n_values != (uint64_t)d->n[SAMPLE] * d->n[SAMPLE_TYPE])
		find_wrong_values(d);
	return d->error;
}

static int allocate(struct decoder *d)
{
	struct profile *p = d->p;
	struct arena *a = &p->arena;
	int r;

	p->stack_first = arena_alloc_array(a, d->n[SAMPLE] + 1, sizeof(*p->stack_first));
	p->label_first = arena_alloc_array(a, d->n[SAMPLE] + 1, sizeof(*p->label_first));
	p->stacks = arena_alloc_array(a, d->n_stack_words, sizeof(*p->stacks));
	p->values = arena_alloc_array(a, d->n_values, sizeof(*p->values));
	p->labels = arena_alloc_array(a, d->n_labels, sizeof(*p->labels));
	p->strings = arena_alloc_array(a, d->n[STRING_TABLE], sizeof(*p->strings));
	p->types = arena_alloc_array(a, d->n[SAMPLE_TYPE], sizeof(*p->types));
	p->mappings = arena_alloc_array(a, d->n[MAPPING], sizeof(*p->mappings));
	p->functions = arena_alloc_array(a, d->n[FUNCTION], sizeof(*p->functions));
	p->locations = arena_alloc_array(a, d->n[LOCATION], sizeof(*p->locations));
	p->lines = arena_alloc_array(a, d->n_lines, sizeof(*p->lines));
	p->comments = arena_alloc_array(a, d->n[COMMENT], sizeof(*p->comments));
	r = arena_error(a, d->eb);
	if (r < 0)
		return d->error = err_prefix(d->eb, r, "decoding a profile of %zu bytes", d->len);
	p->n_samples = d->n[SAMPLE];
	p->n_stack_words = d->n_stack_words;
	p->n_strings = d->n[STRING_TABLE];
	p->n_types = d->n[SAMPLE_TYPE];
	p->n_mappings = d->n[MAPPING];
	p->n_functions = d->n[FUNCTION];
	p->n_locations = d->n[LOCATION];
	p->n_lines = d->n_lines;
	p->n_comments = d->n[COMMENT];
	return 0;
}

static void fill_comments(struct decoder *d)
{
	const struct span *s = &d->span[COMMENT];
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
		check_wire(d, &packed);
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

/* Which sample owns label i. */
static size_t sample_of_label(const struct profile *p, size_t i)
{
	size_t lo = 0, hi = p->n_samples;

	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;

		if (p->label_first[mid] <= i)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* Labels become series names: they must be UTF-8. Each string is looked at once. */
static void check_label_texts(struct decoder *d)
{
	struct profile *p = d->p;
	_cleanup_free_ uint8_t *seen = NULL;

	if (!p->n_labels || d->error)
		return;
	seen = try_malloc(p->n_strings);
	if (!seen) {
		d->error =
			err_set(d->eb, -ENOMEM, "out of memory checking %zu strings", p->n_strings);
		return;
	}
	memset(seen, 0, p->n_strings);
	for (size_t i = 0; i < p->n_labels; i++) {
		const uint32_t texts[] = {
			p->labels[i].key, p->labels[i].str, p->labels[i].num_unit};

		for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
			struct prof_str s = p->strings[texts[k]];

			if (!seen[texts[k]] && !str_is_utf8(s.p, s.len)) {
				fail(d, "sample %zu: %s of a label (string %u) is not UTF-8",
					sample_of_label(p, i),
					k == 0	 ? "the key"
					: k == 1 ? "the value"
						 : "the unit",
					texts[k]);
				return;
			}
			seen[texts[k]] = 1;
		}
	}
}

static int decode(struct decoder *d)
{
	struct profile *p = d->p;

	if (count(d) < 0 || check_counts(d) < 0 || allocate(d) < 0)
		return d->error;
	prof_ids_init(&d->mappings, d->n[MAPPING], p->arena.budget);
	prof_ids_init(&d->functions, d->n[FUNCTION], p->arena.budget);
	prof_ids_init(&d->locations, d->n[LOCATION], p->arena.budget);
	fill_strings(d);
	fill_singles(d);
	fill_comments(d);
	fill_tables(d);
	fill_samples(d);
	check_label_texts(d);
	prof_ids_done(&d->mappings);
	prof_ids_done(&d->functions);
	prof_ids_done(&d->locations);
	return d->error;
}

int prof_decode(const void *data, size_t len, struct profile *ret, struct errbuf *eb)
{
	struct decoder d = {.p = ret, .eb = eb, .data = data, .len = len};
	const uint8_t *b = data;
	struct arena arena;

	if (!len)
		return err_set(eb, -EBADMSG, "empty profile");
	if (len > UINT32_MAX)
		return err_set(
			eb, -EFBIG, "a profile of %zu bytes: at most 4 GiB are decoded", len);
	if (len > 2 && b[0] == 0x1f && b[1] == 0x8b)
		return err_set(
			eb, -EBADMSG, "gzip where an uncompressed pprof message was expected");
	if (!decode(&d))
		return 0;
	/* No half-filled columns. */
	arena = ret->arena;
	*ret = (struct profile) {.arena = arena};
	return d.error;
}
