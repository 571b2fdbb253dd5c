/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns → pprof message, straight into a byte buffer. Sizes of nested messages are computed before they are written,
 * so nothing is moved afterwards. Fields are in the order of their numbers, zero values are left out and repeated numbers
 * are packed, as protobuf libraries write proto3: their output for the same content is the same bytes.
 */
#include "lib/prof/profile.h"
#include "lib/base/bytes.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, VARINT_MAX = 10, HEAD_MAX = 1 + VARINT_MAX };

static inline size_t varint_len(uint64_t v)
{
	/* 1 + (bits - 1) / 7 without a division */
	return (size_t)((64 - __builtin_clzll(v | 1)) * 9 + 64) / 64;
}

static inline uint8_t *put_varint(uint8_t *w, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*w++ = (uint8_t)(v | 0x80);
	*w++ = (uint8_t)v;
	return w;
}

/* Fields of all our messages have numbers below 16, so a tag is one byte. */
static inline uint8_t *put_head(uint8_t *w, unsigned number, size_t len)
{
	*w++ = (uint8_t)(number << 3 | WIRE_BYTES);
	return put_varint(w, len);
}

static inline size_t field_len(uint64_t v)
{
	return v ? 1 + varint_len(v) : 0;
}

static inline uint8_t *put_field(uint8_t *w, unsigned number, uint64_t v)
{
	if (!v)
		return w;
	*w++ = (uint8_t)(number << 3 | WIRE_VARINT);
	return put_varint(w, v);
}

static inline size_t message_len(size_t len)
{
	return 1 + varint_len(len) + len;
}

/* Ids are index + 1; PROF_NONE wraps to 0, which is left out. */
static inline uint32_t id_of(uint32_t index)
{
	return index + 1;
}

static void encode_value_type(struct bytes *out, unsigned number, const struct prof_value_type *t)
{
	size_t len = field_len(t->type) + field_len(t->unit);
	uint8_t *w = bytes_reserve(out, HEAD_MAX + len);

	if (!w)
		return;
	w = put_head(w, number, len);
	w = put_field(w, 1, t->type);
	w = put_field(w, 2, t->unit);
	out->len = (size_t)(w - out->data);
}

static size_t label_len(const struct prof_label *l)
{
	return field_len(l->key) + field_len(l->str) + field_len((uint64_t)l->num) +
	       field_len(l->num_unit);
}

static uint8_t *put_label(uint8_t *w, const struct prof_label *l)
{
	w = put_head(w, 3, label_len(l));
	w = put_field(w, 1, l->key);
	w = put_field(w, 2, l->str);
	w = put_field(w, 3, (uint64_t)l->num);
	return put_field(w, 4, l->num_unit);
}

/* Bytes of the packed ids of a stack; ids have at most 32 bits. */
static size_t stack_len(const uint32_t *stack, size_t n)
{
	size_t len = n;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = id_of(stack[i]);

		len += (size_t)(id >= 1U << 7) + (id >= 1U << 14) + (id >= 1U << 21) +
		       (id >= 1U << 28);
	}
	return len;
}

static uint8_t *put_stack(uint8_t *w, const uint32_t *stack, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t id = id_of(stack[i]);

		if (id < 1U << 7) {
			*w++ = (uint8_t)id;
		} else if (id < 1U << 14) {
			*w++ = (uint8_t)(id | 0x80);
			*w++ = (uint8_t)(id >> 7);
		} else {
			w = put_varint(w, id);
		}
	}
	return w;
}

static void encode_sample(const struct profile *p, size_t i, struct bytes *out)
{
	const uint32_t *stack = p->stacks + p->stack_first[i];
	const struct prof_label *labels = p->labels + p->label_first[i];
	const int64_t *values = p->values + i * p->n_types;
	size_t n_stack = (size_t)(p->stack_first[i + 1] - p->stack_first[i]);
	size_t n_labels = (size_t)(p->label_first[i + 1] - p->label_first[i]);
	size_t ids_len = stack_len(stack, n_stack), values_len = 0, len = 0;
	uint8_t *w;

	for (size_t k = 0; k < p->n_types; k++)
		values_len += varint_len((uint64_t)values[k]);
	len += n_stack ? message_len(ids_len) : 0;
	len += p->n_types ? message_len(values_len) : 0;
	for (size_t k = 0; k < n_labels; k++)
		len += message_len(label_len(&labels[k]));
	w = bytes_reserve(out, HEAD_MAX + len);
	if (!w)
		return;
	w = put_head(w, 2, len);
	if (n_stack)
		w = put_stack(put_head(w, 1, ids_len), stack, n_stack);
	if (p->n_types)
		w = put_head(w, 2, values_len);
	for (size_t k = 0; k < p->n_types; k++)
		w = put_varint(w, (uint64_t)values[k]);
	for (size_t k = 0; k < n_labels; k++)
		w = put_label(w, &labels[k]);
	out->len = (size_t)(w - out->data);
}

static void encode_mapping(const struct prof_mapping *m, uint32_t id, struct bytes *out)
{
	size_t len = field_len(id) + field_len(m->start) + field_len(m->limit) +
		     field_len(m->file_off) + field_len(m->filename) + field_len(m->build_id) +
		     2 * ((size_t) !!m->has_functions + !!m->has_filenames + !!m->has_line_numbers +
				 !!m->has_inline_frames);
	uint8_t *w = bytes_reserve(out, HEAD_MAX + len);

	if (!w)
		return;
	w = put_head(w, 3, len);
	w = put_field(w, 1, id);
	w = put_field(w, 2, m->start);
	w = put_field(w, 3, m->limit);
	w = put_field(w, 4, m->file_off);
	w = put_field(w, 5, m->filename);
	w = put_field(w, 6, m->build_id);
	w = put_field(w, 7, !!m->has_functions);
	w = put_field(w, 8, !!m->has_filenames);
	w = put_field(w, 9, !!m->has_line_numbers);
	w = put_field(w, 10, !!m->has_inline_frames);
	out->len = (size_t)(w - out->data);
}

static size_t line_len(const struct prof_line *l)
{
	return field_len(id_of(l->function)) + field_len((uint64_t)l->line) +
	       field_len((uint64_t)l->column);
}

static void encode_location(
	const struct profile *p, const struct prof_location *l, uint32_t id, struct bytes *out)
{
	const struct prof_line *lines = p->lines + l->first_line;
	size_t len = field_len(id) + field_len(id_of(l->mapping)) + field_len(l->address) +
		     field_len(!!l->is_folded);
	uint8_t *w;

	for (uint32_t i = 0; i < l->n_lines; i++)
		len += message_len(line_len(&lines[i]));
	w = bytes_reserve(out, HEAD_MAX + len);
	if (!w)
		return;
	w = put_head(w, 4, len);
	w = put_field(w, 1, id);
	w = put_field(w, 2, id_of(l->mapping));
	w = put_field(w, 3, l->address);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		w = put_head(w, 4, line_len(&lines[i]));
		w = put_field(w, 1, id_of(lines[i].function));
		w = put_field(w, 2, (uint64_t)lines[i].line);
		w = put_field(w, 3, (uint64_t)lines[i].column);
	}
	w = put_field(w, 5, !!l->is_folded);
	out->len = (size_t)(w - out->data);
}

static void encode_function(const struct prof_function *f, uint32_t id, struct bytes *out)
{
	size_t len = field_len(id) + field_len(f->name) + field_len(f->system_name) +
		     field_len(f->filename) + field_len((uint64_t)f->start_line);
	uint8_t *w = bytes_reserve(out, HEAD_MAX + len);

	if (!w)
		return;
	w = put_head(w, 5, len);
	w = put_field(w, 1, id);
	w = put_field(w, 2, f->name);
	w = put_field(w, 3, f->system_name);
	w = put_field(w, 4, f->filename);
	w = put_field(w, 5, (uint64_t)f->start_line);
	out->len = (size_t)(w - out->data);
}

static void encode_string(struct bytes *out, const struct prof_str *s)
{
	uint8_t *w = bytes_reserve(out, HEAD_MAX + (size_t)s->len);

	if (!w)
		return;
	w = put_head(w, 6, s->len);
	if (s->len)
		memcpy(w, s->p, s->len);
	out->len = (size_t)(w + s->len - out->data);
}

static void encode_scalar(struct bytes *out, unsigned number, uint64_t v)
{
	uint8_t *w = bytes_reserve(out, HEAD_MAX);

	if (w)
		out->len = (size_t)(put_field(w, number, v) - out->data);
}

static void encode_comments(const struct profile *p, struct bytes *out)
{
	size_t len = 0;
	uint8_t *w;

	if (!p->n_comments)
		return;
	for (size_t i = 0; i < p->n_comments; i++)
		len += varint_len(p->comments[i]);
	w = bytes_reserve(out, HEAD_MAX + len);
	if (!w)
		return;
	w = put_head(w, 13, len);
	for (size_t i = 0; i < p->n_comments; i++)
		w = put_varint(w, p->comments[i]);
	out->len = (size_t)(w - out->data);
}

int prof_encode(const struct profile *p, struct bytes *out)
{
	static const struct prof_str empty = {.p = ""};

	for (size_t i = 0; i < p->n_types; i++)
		encode_value_type(out, 1, &p->types[i]);
	for (size_t i = 0; i < p->n_samples; i++)
		encode_sample(p, i, out);
	for (size_t i = 0; i < p->n_mappings; i++)
		encode_mapping(&p->mappings[i], (uint32_t)i + 1, out);
	for (size_t i = 0; i < p->n_locations; i++)
		encode_location(p, &p->locations[i], (uint32_t)i + 1, out);
	for (size_t i = 0; i < p->n_functions; i++)
		encode_function(&p->functions[i], (uint32_t)i + 1, out);
	if (!p->n_strings)
		encode_string(out, &empty);
	for (size_t i = 0; i < p->n_strings; i++)
		encode_string(out, &p->strings[i]);
	encode_scalar(out, 7, p->drop_frames);
	encode_scalar(out, 8, p->keep_frames);
	encode_scalar(out, 9, (uint64_t)p->time_ns);
	encode_scalar(out, 10, (uint64_t)p->duration_ns);
	if (p->period_type.type || p->period_type.unit)
		encode_value_type(out, 11, &p->period_type);
	encode_scalar(out, 12, (uint64_t)p->period);
	encode_comments(p, out);
	encode_scalar(out, 14, p->default_sample_type);
	encode_scalar(out, 15, p->doc_url);
	return bytes_error(out);
}
