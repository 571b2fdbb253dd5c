/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a pprof message: nearly all of its numbers.
 */
#include "lib/prof/decode.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/packed.h"

/* How many samples say what the others are like, of stacks and of labels; labels beyond what as many have; bytes for each of those expected. */
enum { GUESS_STACKS = 8, GUESS_SAMPLES = 32, GUESS_LABELS = 4, MIN_LABEL_SHARE = 8 };

/* Where the next row of each column goes. */
struct sample_fill {
	uint32_t *stack;
	int64_t *value;
};

/* The general way. */

static uint32_t location_row(struct decoder *d, uint64_t id)
{
	uint32_t row = prof_ids_row(&d->locations, id);

	if (row == PROF_NONE)
		decode_fail(d, "location id %llu is not in the profile", (unsigned long long)id);
	return row;
}

/* One number, or packed ones through `packed`; false at the end. */
static bool next_number(struct decoder *d, struct cursor *packed, uint64_t *ret)
{
	if (!cursor_left(packed))
		return false;
	*ret = cursor_varint(packed);
	return !packed->error || decode_check_wire(d, packed) == 0;
}

static void fill_stack(
	struct decoder *d, struct cursor *c, const struct wire_field *f, struct sample_fill *w)
{
	struct cursor packed;
	uint64_t id;

	if (f->wire == WIRE_VARINT) {
		*w->stack++ = location_row(d, f->value);
		return;
	}
	packed = wire_bytes(c, f);
	while (next_number(d, &packed, &id))
		*w->stack++ = location_row(d, id);
}

/* Values beyond the row's end are counted but not kept. */
static size_t fill_values(struct decoder *d, struct cursor *c, const struct wire_field *f,
	struct sample_fill *w, const int64_t *row_end)
{
	struct cursor packed;
	size_t n = 0;
	uint64_t v;

	if (f->wire == WIRE_VARINT) {
		if (w->value < row_end)
			*w->value++ = (int64_t)f->value;
		return 1;
	}
	packed = wire_bytes(c, f);
	for (; next_number(d, &packed, &v); n++)
		if (w->value < row_end)
			*w->value++ = (int64_t)v;
	return n;
}

/* Labels of a sample in the usual form: packed ids, packed values, labels. False when it has another. */
static inline bool fast_count_labels(
	const struct decoder *d, const struct decode_walk *w, size_t *ret)
{
	const uint8_t *p = w->from, *end = w->to, *from, *to;
	size_t n = 0;

	if (end > d->fast_end)
		return false;
	for (unsigned number = 1; number <= 3; number++)
		while (p < end && *p == WIRE_TAG(number, WIRE_BYTES)) {
			if (!wire_fast_bytes(p, end, &from, &to))
				return false;
			n += number == 3 && to - from >= DECODE_MIN_MESSAGE;
			p = to;
		}
	*ret += p == end ? n : 0;
	return p == end;
}

/* Of the first samples. */
static size_t count_labels(struct decoder *d, size_t n_samples)
{
	struct decode_walk w = decode_walk_of(d, SAMPLE);
	size_t n = 0;

	while (w.row < n_samples && decode_walk_next(d, &w)) {
		struct cursor c = cursor_of(w.from, (size_t)(w.to - w.from));

		if (fast_count_labels(d, &w, &n))
			continue;
		for (struct wire_field f; wire_next(&c, &f);)
			n += f.number == 3 && f.value >= DECODE_MIN_MESSAGE;
	}
	return n;
}

/* At the first label, room for as many as the first samples let expect; if that was not enough, for all, counted. */
static bool grow_labels(struct decoder *d)
{
	struct profile *p = d->p;
	size_t first = count_labels(d, GUESS_SAMPLES) + GUESS_LABELS;
	size_t cap = GUESS_LABELS + p->n_samples / GUESS_SAMPLES * first;
	struct prof_label *labels;

	/* a few samples must not make a small message large */
	cap = MIN(cap, d->content_bytes[SAMPLE] / MIN_LABEL_SHARE);
	if (d->cap_labels || cap < first)
		cap = count_labels(d, p->n_samples);
	labels = arena_alloc_array(&p->arena, cap, sizeof(*labels));
	if (!labels) {
		d->error = arena_error(&p->arena, d->eb);
		return false;
	}
	if (p->n_labels)
		memcpy(labels, p->labels, p->n_labels * sizeof(*labels));
	p->labels = labels;
	d->cap_labels = cap;
	return true;
}

/* Without string, number and unit a label says nothing and is left out; with a string the number does not count. */
static inline void put_label(struct decoder *d, struct prof_label l)
{
	if (l.str)
		l.num = l.num_unit = 0;
	if (!(l.str || l.num || l.num_unit))
		return;
	if (d->p->n_labels == d->cap_labels && !grow_labels(d))
		return;
	ASSERT(d->p->n_labels < d->cap_labels);
	d->p->labels[d->p->n_labels++] = l;
}

static void fill_label(struct decoder *d, struct cursor c)
{
	struct prof_label l = {0};

	for (struct wire_field f; wire_next(&c, &f);) {
		switch (f.number) {
		case 1: l.key = decode_string(d, &c, &f); break;
		case 2: l.str = decode_string(d, &c, &f); break;
		case 3: l.num = (int64_t)wire_number(&c, &f); break;
		case 4: l.num_unit = decode_string(d, &c, &f); break;
		}
	}
	if (!decode_check_wire(d, &c))
		put_label(d, l);
}

static void fill_sample(struct decoder *d, struct cursor c, struct sample_fill *w)
{
	const int64_t *row_end = w->value + d->p->n_types;
	size_t n_values = 0;

	for (struct wire_field f; !d->error && wire_next(&c, &f);) {
		if (f.number == 1)
			fill_stack(d, &c, &f, w);
		else if (f.number == 2)
			n_values += fill_values(d, &c, &f, w, row_end);
		else if (f.number == 3)
			fill_label(d, wire_bytes(&c, &f));
	}
	decode_check_wire(d, &c);
	if (n_values != d->p->n_types)
		decode_fail(d, "has %zu values for %zu sample types", n_values, d->p->n_types);
}

/* The usual way: ids, values and labels in this order, the first two packed or not. */

/* One packed id, nearly always of one or two bytes, as a row. NULL when it is malformed or too large for a row. */
static inline const uint8_t *sequential_id(const uint8_t *p, uint32_t *ret_row)
{
	const uint32_t first = p[0], second = p[1];
	uint64_t id;

	if (first < 0x80) {
		*ret_row = first - 1;
		return p + 1;
	}
	if (second < 0x80) {
		*ret_row = ((first & 0x7f) | second << 7) - 1;
		return p + 2;
	}
	p = wire_fast_varint(p, &id);
	*ret_row = (uint32_t)id - 1;
	return id <= UINT32_MAX ? p : NULL;
}

/* Packed ids → *to; what follows them, NULL when anything is unusual. Here ids are row + 1. Rows are unchecked yet: check_rows looks at all
 * of them at the end, four at a time. */
static inline const uint8_t *sequential_ids(
	const struct decoder *d, const uint8_t *p, const uint8_t *end, uint32_t **to)
{
	while (p && p < end) {
		if (d->has_packed)
			p = packed_rows(p, end, to);
		if (p < end)
			p = sequential_id(p, (*to)++);
	}
	return p;
}

static const uint8_t *other_ids(
	const struct decoder *d, const uint8_t *p, const uint8_t *end, uint32_t **to)
{
	uint32_t *w = *to;

	while (p < end) {
		uint64_t id;

		p = wire_fast_varint(p, &id);
		*w = p ? prof_ids_row(&d->locations, id) : PROF_NONE;
		if (*w++ == PROF_NONE)
			return NULL;
	}
	*to = w;
	return p;
}

/* Are all these words rows? */
static bool check_rows(const uint32_t *rows, size_t n, uint32_t n_locations)
{
	typedef uint32_t four __attribute__((vector_size(16), aligned(4)));
	four bad = {0, 0, 0, 0};
	size_t i = 0;

	for (; i + 4 <= n; i += 4)
		bad |= (four)(*(const four *)(const void *)(rows + i) >= n_locations);
	for (; i < n; i++)
		bad[0] |= rows[i] >= n_locations;
	return !(bad[0] | bad[1] | bad[2] | bad[3]);
}

static inline const uint8_t *fast_stack(
	const struct decoder *d, const uint8_t *p, const uint8_t *end, struct sample_fill *w)
{
	const uint8_t *to;

	if (p < end && *p == WIRE_TAG(1, WIRE_BYTES)) {
		if (!wire_fast_bytes(p, end, &p, &to))
			return NULL;
		if (prof_ids_are_sequential(&d->locations))
			p = sequential_ids(d, p, to, &w->stack);
		else
			p = other_ids(d, p, to, &w->stack);
		return p == to ? p : NULL;
	}
	while (p < end && *p == WIRE_TAG(1, WIRE_VARINT)) {
		uint64_t id;

		p = wire_fast_varint(p + 1, &id);
		*w->stack = p ? prof_ids_row(&d->locations, id) : PROF_NONE;
		if (*w->stack++ == PROF_NONE)
			return NULL;
	}
	return p;
}

static inline const uint8_t *fast_values(
	const struct decoder *d, const uint8_t *p, const uint8_t *end, struct sample_fill *w)
{
	const bool packed = p < end && *p == WIRE_TAG(2, WIRE_BYTES);
	const uint8_t *to = end;

	if (packed && !wire_fast_bytes(p, end, &p, &to))
		return NULL;
	for (size_t i = 0; i < d->p->n_types; i++) {
		uint64_t v;

		if (p >= to || (!packed && *p++ != WIRE_TAG(2, WIRE_VARINT)))
			return NULL;
		p = wire_fast_varint(p, &v);
		if (!p)
			return NULL;
		*w->value++ = (int64_t)v;
	}
	return packed && p != to ? NULL : p;
}

static inline bool fast_labels(struct decoder *d, const uint8_t *p, const uint8_t *end)
{
	const uint64_t n = d->n[STRING_TABLE];

	while (p < end && *p == WIRE_TAG(3, WIRE_BYTES)) {
		uint64_t key = 0, str = 0, num = 0, unit = 0;
		const uint8_t *to;

		if (!wire_fast_bytes(p, end, &p, &to) || !wire_fast_number(&p, to, 1, &key) ||
			!wire_fast_number(&p, to, 2, &str) || !wire_fast_number(&p, to, 3, &num) ||
			!wire_fast_number(&p, to, 4, &unit) || p != to || key >= n || str >= n ||
			unit >= n)
			return false;
		put_label(d, (struct prof_label) {.key = (uint32_t)key,
				     .str = (uint32_t)str,
				     .num = (int64_t)num,
				     .num_unit = (uint32_t)unit});
	}
	return p == end;
}

static inline bool fast_sample(
	struct decoder *d, const struct decode_walk *walk, struct sample_fill *w)
{
	const uint8_t *p = walk->from, *end = walk->to;
	const struct sample_fill before = *w;
	const size_t n_labels = d->p->n_labels;

	if (end > d->fast_end)
		return false;
	p = fast_stack(d, p, end, w);
	if (p)
		p = fast_values(d, p, end, w);
	if (p && (p == end || fast_labels(d, p, end)))
		return true;
	*w = before;
	d->p->n_labels = n_labels;
	return false;
}

/* Room for as many words as the samples left have bytes; what is filled moves. Happens once, where samples are unlike the first ones. */
static bool grow_stacks(struct decoder *d, const struct decode_walk *walk, struct sample_fill *w)
{
	struct profile *p = d->p;
	size_t n = (size_t)(w->stack - p->stacks);
	size_t cap = n + (size_t)(walk->c.end - walk->from);
	uint32_t *stacks = arena_alloc_array(&p->arena, cap + PACKED_WRITE_SLACK, sizeof(*stacks));

	if (!stacks) {
		d->error = arena_error(&p->arena, d->eb);
		return false;
	}
	if (n)
		memcpy(stacks, p->stacks, n * sizeof(*stacks));
	p->stacks = stacks;
	w->stack = stacks + n;
	d->cap_words = cap;
	return true;
}

/* A sample has no more ids than bytes. */
static inline bool has_room(
	struct decoder *d, const struct decode_walk *walk, struct sample_fill *w)
{
	size_t left = d->cap_words - (size_t)(w->stack - d->p->stacks);

	return left >= (size_t)(walk->to - walk->from) || grow_stacks(d, walk, w);
}

size_t decode_guess_words(const struct decoder *d)
{
	struct decoder quiet = *d;
	struct decode_walk w = decode_walk_of(d, SAMPLE);
	size_t n_bytes = 0, n_ids = 0, all = d->content_bytes[SAMPLE];

	while (w.row < GUESS_STACKS && decode_walk_next(&quiet, &w)) {
		n_bytes += (size_t)(w.to - w.from);
		/* nearly all of its bytes are ids, and each number ends in one byte below 0x80 */
		for (const uint8_t *p = w.from; p < w.to; p++)
			n_ids += *p < 0x80;
	}
	if (!n_bytes)
		return all;
	return MIN((size_t)((double)all / (double)n_bytes * (double)n_ids * 1.125) + 1024, all);
}

static void fill_samples(struct decoder *d, bool fast)
{
	struct profile *p = d->p;
	struct sample_fill fill = {.stack = p->stacks, .value = p->values};
	struct decode_walk w = decode_walk_of(d, SAMPLE);

	p->n_labels = 0;
	p->stack_first[0] = p->label_first[0] = 0;
	while (decode_walk_next(d, &w) && has_room(d, &w, &fill)) {
		if (!fast || !fast_sample(d, &w, &fill))
			fill_sample(d, decode_walk_cursor(d, &w), &fill);
		p->stack_first[w.row] = (uint64_t)(fill.stack - p->stacks);
		p->label_first[w.row] = p->n_labels;
	}
	p->n_stack_words = (size_t)(fill.stack - p->stacks);
}

void decode_fill_samples(struct decoder *d)
{
	fill_samples(d, true);
	/* Once more by the way that names the culprit. */
	if (!d->error &&
		!check_rows(d->p->stacks, d->p->n_stack_words, (uint32_t)d->p->n_locations))
		fill_samples(d, false);
}

void decode_find_wrong_values(struct decoder *d)
{
	struct decode_walk w = decode_walk_of(d, SAMPLE);

	while (decode_walk_next(d, &w)) {
		struct cursor c = decode_walk_cursor(d, &w);
		size_t n = 0;

		for (struct wire_field f; wire_next(&c, &f);)
			n += f.number == 2 ? wire_count_numbers(&c, &f) : 0;
		decode_check_wire(d, &c);
		if (n != d->n[SAMPLE_TYPE])
			decode_fail(d, "has %zu values for %zu sample types", n, d->n[SAMPLE_TYPE]);
	}
}

/* \xNN for each byte that is not UTF-8 and for NUL, so that different values stay different. */
static struct prof_str escape_text(struct arena *arena, struct prof_str s)
{
	static const char digits[] = "0123456789abcdef";
	char *text = arena_alloc_array(arena, s.len, strlen("\\xNN"));
	size_t n = 0;

	for (size_t i = 0, len; text && i < s.len; i += MAX(len, (size_t)1)) {
		uint8_t byte = (uint8_t)s.p[i];

		len = byte ? str_utf8_len(s.p + i, s.len - i) : 0;
		memcpy(text + n, s.p + i, len);
		n += len;
		if (len)
			continue;
		text[n++] = '\\';
		text[n++] = 'x';
		text[n++] = digits[byte >> 4];
		text[n++] = digits[byte & 15];
	}
	return (struct prof_str) {text, text ? (uint32_t)n : 0};
}

void decode_mend_label_texts(struct decoder *d)
{
	struct profile *p = d->p;
	_cleanup_free_ uint8_t *seen = NULL; /* each string is looked at once */

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
		const struct prof_label *l = &p->labels[i];
		const uint32_t texts[] = {l->key, l->str, l->num_unit};

		if (seen[l->key] & seen[l->str] & seen[l->num_unit])
			continue;

		for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
			struct prof_str *s = &p->strings[texts[k]];

			if (seen[texts[k]])
				continue;
			seen[texts[k]] = 1;
			if (str_is_utf8(s->p, s->len) && !memchr(s->p, 0, s->len))
				continue;
			*s = escape_text(&p->arena, *s);
			if (!p->n_mended_texts++)
				p->mended_key = l->key;
		}
	}
	if (!d->error)
		d->error = arena_error(&p->arena, d->eb);
}
