/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's instruction sequences and methods: name, file, first line and table of lines. An object counts when its type is that of one; a
 * freed one's is another. Its fields are read a second time at the end, so that what was read between belongs to it.
 */
#include "exporter/interp/ruby.h"
#include "exporter/interp/ruby_lines.h"
#include "exporter/interp/ruby_names.h"
#include "exporter/interp/ruby_objects.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"

/* What an error of a part says of the whole: a part that is gone was another object's. */
static int part_error(int error)
{
	return error == -ENOENT ? -EAGAIN : error;
}

/* A path alone, or an Array of it and the real one. */
static int read_file(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t addr, char **ret)
{
	uint64_t path = addr;
	struct ruby_head h;
	int error = ruby_read_head(m, addr, RUBY_POINTER_BYTES, &h);

	if (error == 0 && ruby_type_of(&h) == RUBY_T_ARRAY)
		error = ruby_read_element(m, r, addr, 0, &path);
	return error < 0 ? error : ruby_read_text(m, r, path, ret);
}

static uint32_t first_line(const struct runtime_record *r, const struct ruby_head *body)
{
	uint64_t v = ruby_pointer(body, r->offsets[RUBY_BODY_FIRST_LINE]);
	bool is_int = r->version >= RUNTIME_VERSION(3, 3, 0), is_number = is_int || v & 1;
	uint64_t line = is_int ? (uint32_t)v : v >> 1;

	return is_number && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Where a frame's name is made, the text that the sequence has itself. */
static int read_raw(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_sequence *s, struct interp_code *c)
{
	int error = ruby_has_classes(r)
			    ? ruby_read_text(m, r,
				      ruby_pointer(&s->body, r->offsets[RUBY_BODY_NAME]), &c->raw)
			    : 0;

	if (c->raw && strcmp(c->raw, c->name) == 0) {
		free(c->raw);
		c->raw = NULL;
	}
	return error;
}

/* Of all of a body that says what it is. */
static uint64_t check_of(const struct runtime_record *r, const struct ruby_sequence *s)
{
	const uint64_t fields[] = {
		s->body_at,
		ruby_field(&s->body, r->offsets[RUBY_BODY_TYPE], 8),
		ruby_pointer(&s->body, r->offsets[RUBY_BODY_START]),
		ruby_pointer(&s->body, r->offsets[RUBY_BODY_FILE]),
		ruby_pointer(&s->body, r->offsets[RUBY_BODY_NAME]),
		ruby_pointer(&s->body, r->offsets[RUBY_BODY_FIRST_LINE]),
		ruby_pointer(&s->body, r->offsets[RUBY_BODY_LINES]),
	};

	return hash_xxh3(fields, sizeof(fields));
}

void ruby_check_of(const struct runtime_record *r, struct interp_layout *ret)
{
	ret->code_check = ret->code_name = r->offsets[RUBY_CODE_BODY];
	ret->code_check_bytes = RUBY_POINTER_BYTES;
	ret->name_check = RUBY_CHECK_FROM;
	ret->name_check_bytes = r->offsets[RUBY_BODY_LINES];
}

/* As the kernel half does it: allocators give the same addresses again, so that a body's alone says little. */
static uint64_t kernel_check_of(const struct runtime_record *r, const struct ruby_sequence *s)
{
	uint64_t check = interp_check_add(0, s->body_at);

	for (uint32_t at = 0; at + RUBY_POINTER_BYTES <= r->offsets[RUBY_BODY_LINES];
		at += RUBY_POINTER_BYTES)
		check = interp_check_add(check, ruby_pointer(&s->body, RUBY_CHECK_FROM + at));
	return check;
}

static int read_sequence(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t object, uint64_t context, struct interp_code *c)
{
	struct ruby_sequence before, after;
	int error = ruby_read_sequence(m, r, object, &before);

	if (error < 0)
		return error;
	error = ruby_read_name(m, r, &before, context, &c->name);
	if (error == 0)
		error = read_raw(m, r, &before, c);
	if (error == 0)
		error = read_file(
			m, r, ruby_pointer(&before.body, r->offsets[RUBY_BODY_FILE]), &c->file);
	if (error == 0)
		error = ruby_read_lines(m, r, &before.body, c);
	if (error == 0)
		error = ruby_read_sequence(m, r, object, &after);
	if (error < 0)
		return part_error(error);
	c->check = check_of(r, &before);
	if (c->check != check_of(r, &after))
		return -EAGAIN;
	c->kernel_check = kernel_check_of(r, &before);
	c->first_line = first_line(r, &before.body);
	c->is_part = ruby_is_part(r, &before);
	return 0;
}

/* Of a method in C: where it is written is not known to Ruby. */
static int read_method(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t object, struct interp_code *c)
{
	struct ruby_method before, after;
	int error = ruby_read_method(m, r, object, &before);

	if (error < 0)
		return error;
	error = ruby_read_method_name(m, r, &before, &c->name);
	if (error == 0)
		error = ruby_read_method(m, r, object, &after);
	if (error < 0)
		return part_error(error);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		return -EAGAIN;
	c->file = xstrdup("");
	c->kernel_check = before.check;
	c->check = hash_xxh3(&before, sizeof(before));
	return 0;
}

int ruby_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	uint64_t context, struct interp_code *ret)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct ruby_head h;
	int error = ruby_read_head(m, object, RUBY_POINTER_BYTES, &h);

	if (error < 0)
		return error;
	error = ruby_type_of(&h) == RUBY_T_METHOD ? read_method(m, r, object, &c)
						  : read_sequence(m, r, object, context, &c);
	if (error < 0)
		return error;
	*ret = c;
	c = (struct interp_code) {0};
	return 0;
}

uint32_t ruby_line(const struct interp_code *c, uint32_t position)
{
	return position < RUBY_POSITIONS ? ruby_lines_find(c->lines, c->lines_bytes, position) : 0;
}
