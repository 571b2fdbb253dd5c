/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to 3.3 a sequence has its name as text. From 3.4 on it is made of that of the method around it and of the method's class, when that has
 * a name.
 */
#include "exporter/interp/ruby_names.h"
#include "bpf/interp/rows.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <stdio.h>

enum { MAX_DEPTH = 64 /* of blocks in one another */, SVAR_METHOD_AT = 8 };

/* Of rb_iseq_constant_body. */
enum ruby_sequence_type {
	SEQUENCE_TOP,
	SEQUENCE_METHOD,
	SEQUENCE_BLOCK,
	SEQUENCE_CLASS,
	SEQUENCE_RESCUE,
	SEQUENCE_ENSURE,
	SEQUENCE_EVAL,
	SEQUENCE_MAIN,
	SEQUENCE_PLAIN,
};

/* In an rb_method_definition_t: the type in the low bits of its first word, then by type what it does: for `def` its sequence and its place. */
enum { DEFINITION_TYPE_MASK = 15, DEFINITION_CODE_AT = 8, DEFINITION_PLACE_AT = 16 };

/* An rb_cref_t, the class that code stands in: its flags, the class, the place around it. */
enum {
	PLACE_IS_OF_BLOCK = 1 << 17, /* what class_eval and its like run (CREF_FL_PUSHED_BY_EVAL) */
	PLACE_IS_OF_OBJECT = 1 << 19, /* CREF_FL_SINGLETON */
	PLACE_CLASS_AT = 16,
	PLACE_NEXT_AT = 24,
};

enum { CLASS_IS_SINGLETON = 1 << 13 }; /* from 3.4 on */

int ruby_read_sequence(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct ruby_sequence *ret)
{
	static const enum ruby_offset fields[] = {
		RUBY_BODY_FIRST_LINE, RUBY_BODY_PARENT, RUBY_BODY_N_LINES, RUBY_BODY_LINE_INDEX};
	size_t n = 0;
	struct ruby_head h;
	int error = ruby_read_object(
		m, RUBY_T_CODE, at, r->offsets[RUBY_CODE_BODY] + (size_t)RUBY_POINTER_BYTES, &h);

	if (error < 0)
		return error;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (r->offsets[fields[i]] != RUNTIME_NO_FIELD)
			n = MAX(n, r->offsets[fields[i]] + (size_t)RUBY_POINTER_BYTES);
	ret->at = at;
	ret->body_at = ruby_pointer(&h, r->offsets[RUBY_CODE_BODY]);
	return ruby_read_head(m, ret->body_at, n, &ret->body);
}

bool ruby_is_part(const struct runtime_record *r, const struct ruby_sequence *s)
{
	uint32_t type = (uint32_t)ruby_field(&s->body, r->offsets[RUBY_BODY_TYPE], 4);

	return ruby_has_classes(r) && (type == SEQUENCE_RESCUE || type == SEQUENCE_ENSURE);
}

int ruby_read_method(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct ruby_method *ret)
{
	struct ruby_head h, definition;
	int error = ruby_read_object(m, RUBY_T_METHOD, at,
		r->offsets[RUBY_METHOD_OWNER] + (size_t)RUBY_POINTER_BYTES, &h);

	if (error < 0)
		return error;
	error = ruby_read_head(m, ruby_pointer(&h, r->offsets[RUBY_METHOD_DEFINITION]),
		r->offsets[RUBY_DEFINITION_ID] + (size_t)RUBY_POINTER_BYTES, &definition);
	if (error < 0)
		return error;
	*ret = (struct ruby_method) {
		.definition_at = ruby_pointer(&h, r->offsets[RUBY_METHOD_DEFINITION]),
		.owner = ruby_pointer(&h, r->offsets[RUBY_METHOD_OWNER]),
		.id = ruby_pointer(&definition, r->offsets[RUBY_DEFINITION_ID]),
		.type = ruby_field(&definition, 0, 4) & DEFINITION_TYPE_MASK,
		.code = ruby_pointer(&definition, DEFINITION_CODE_AT),
		.place = ruby_pointer(&definition, DEFINITION_PLACE_AT),
	};
	ret->check = interp_check_add(0, ret->definition_at);
	for (uint32_t off = 0; off < INTERP_RUBY_DEFINITION_BYTES; off += RUBY_POINTER_BYTES)
		ret->check = interp_check_add(
			ret->check, ruby_pointer(&definition, RUBY_CHECK_FROM + off));
	return 0;
}

/* The head of a class or a module; -ENOENT: it is another thing. */
static int read_class(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct ruby_head *ret)
{
	size_t n = MAX(r->offsets[RUBY_CLASS_PATH], r->offsets[RUBY_CLASS_ATTACHED]);
	enum ruby_type type;
	int error = ruby_read_head(m, at, n + RUBY_POINTER_BYTES, ret);

	if (error < 0)
		return error;
	type = ruby_type_of(ret);
	return type == RUBY_T_CLASS || type == RUBY_T_MODULE ? 0 : -ENOENT;
}

static bool is_singleton(const struct ruby_head *class)
{
	return ruby_type_of(class) == RUBY_T_CLASS && ruby_pointer(class, 0) & CLASS_IS_SINGLETON;
}

/* Both, within the bound of a name. */
static char *join(const char *prefix, const char *name)
{
	static const char ELLIPSIS[] = "\xe2\x80\xa6";
	_cleanup_free_ char *whole = xasprintf("%s%s", prefix, name);
	size_t max = INTERP_MAX_TEXT_BYTES - sizeof(ELLIPSIS), n = strlen(whole);

	if (n <= INTERP_MAX_TEXT_BYTES)
		return TAKE(whole);
	return xasprintf("%.*s%s", (int)str_utf8_fit(whole, n, max), whole, ELLIPSIS);
}

/* "Class#" or, of the methods of a class itself, "Class."; "" for a class without a name. */
static int read_class_prefix(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t at, char **ret)
{
	_cleanup_free_ char *path = NULL;
	const char *separator = "#";
	struct ruby_head h;
	int error = read_class(m, r, at, &h);

	if (error == 0 && is_singleton(&h)) {
		separator = ".";
		/* Of an object that is no class, it has no name. */
		error = read_class(m, r, ruby_pointer(&h, r->offsets[RUBY_CLASS_ATTACHED]), &h);
	}
	if (error == 0 && ruby_field(&h, r->offsets[RUBY_CLASS_IS_NAMED], 1) & 1)
		error = ruby_read_text(m, r, ruby_pointer(&h, r->offsets[RUBY_CLASS_PATH]), &path);
	if (error < 0 && error != -ENOENT)
		return error;
	*ret = join(path ? path : "", path ? separator : "");
	return 0;
}

/* The text at `name`, with its class before it in the versions that have that. */
static int read_qualified(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t owner, const char *name, char **ret)
{
	_cleanup_free_ char *prefix = NULL;
	int error = 0;

	if (owner && ruby_has_classes(r))
		error = read_class_prefix(m, r, owner, &prefix);
	if (error == 0)
		*ret = join(prefix ? prefix : "", name);
	return error;
}

int ruby_read_method_name(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_method *method, char **ret)
{
	_cleanup_free_ char *name = NULL;
	int error = ruby_read_id(m, r, method->id, &name);

	return error < 0 ? error : read_qualified(m, r, method->owner, name, ret);
}

/* The class of a place and the place around that; -ENOENT: it is none that belongs to one class. */
static int read_place(
	const struct interp_memory *m, uint64_t at, uint64_t *ret_class, uint64_t *ret_next)
{
	struct ruby_head h;
	int error = ruby_read_object(m, RUBY_T_CREF, at, PLACE_NEXT_AT + RUBY_POINTER_BYTES, &h);

	if (error == 0 && ruby_pointer(&h, 0) & (PLACE_IS_OF_BLOCK | PLACE_IS_OF_OBJECT))
		error = -ENOENT;
	*ret_class = error < 0 ? 0 : ruby_pointer(&h, PLACE_CLASS_AT);
	*ret_next = error < 0 ? 0 : ruby_pointer(&h, PLACE_NEXT_AT);
	return error;
}

/*
 * A sequence has one name, but may run for methods of many classes: `def` in a block of class_eval, Class.new or Struct.new, or for whichever
 * object. 0: the owner is the class that `def` stands in, or the class's own (`def self.x`, `class << self`). -ENOENT: it may have others.
 */
static int check_only_owner(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_method *method)
{
	uint64_t place, around, next, attached;
	struct ruby_head h;
	int error = read_place(m, method->place, &place, &next);

	if (error == 0)
		error = read_class(m, r, method->owner, &h);
	if (error < 0)
		return error;
	if (!is_singleton(&h))
		return place == method->owner ? 0 : -ENOENT;
	attached = ruby_pointer(&h, r->offsets[RUBY_CLASS_ATTACHED]);
	if (place == method->owner) {
		error = read_place(m, next, &around, &next);
		return error < 0 ? error : around == attached ? 0 : -ENOENT;
	}
	return place == attached ? 0 : -ENOENT;
}

/* The class that `context` leads to: a method, or what holds one beside variables of a frame (svar). 0: none. */
static int read_owner(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_sequence *s, uint64_t context, uint64_t *ret)
{
	struct ruby_method found = {0};
	struct ruby_head h;
	int error = context ? ruby_read_object(m, RUBY_T_SVAR, context,
				      SVAR_METHOD_AT + RUBY_POINTER_BYTES, &h)
			    : -ENOENT;

	if (error == 0)
		context = ruby_pointer(&h, SVAR_METHOD_AT);
	if (context && (error == 0 || error == -ENOENT))
		error = ruby_read_method(m, r, context, &found);
	/* The frame that it was found in is over, and another one may lie there now. */
	if (error == 0 && (found.type != RUBY_METHOD_OF_CODE || found.code != s->at))
		error = -ENOENT;
	if (error == 0)
		error = check_only_owner(m, r, &found);
	*ret = error == 0 ? found.owner : 0;
	return error == -ENOENT ? 0 : error; /* the place of a class, outside of methods */
}

/* The name of the method or file that `s` lies in, and between how many blocks. */
static int find_outermost(const struct interp_memory *m, const struct runtime_record *r,
	struct ruby_sequence *s, bool *ret_is_block, uint32_t *ret_level)
{
	*ret_is_block = false;
	*ret_level = 0;
	for (uint32_t depth = 0; depth < MAX_DEPTH; depth++) {
		uint64_t parent = ruby_pointer(&s->body, r->offsets[RUBY_BODY_PARENT]);
		uint32_t type = (uint32_t)ruby_field(&s->body, r->offsets[RUBY_BODY_TYPE], 4);
		int error;

		if (!parent || type == SEQUENCE_TOP || type == SEQUENCE_METHOD ||
			type == SEQUENCE_CLASS || type == SEQUENCE_MAIN)
			return 0;
		*ret_is_block |= type == SEQUENCE_BLOCK || type == SEQUENCE_PLAIN;
		*ret_level += type == SEQUENCE_BLOCK;
		error = ruby_read_sequence(m, r, parent, s);
		if (error < 0)
			return error;
	}
	return -EBADMSG;
}

static int read_made_name(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_sequence *s, uint64_t context, char **ret)
{
	_cleanup_free_ char *text = NULL, *name = NULL;
	struct ruby_sequence outer = *s;
	char prefix[40] = "";
	uint64_t owner = 0;
	uint32_t level;
	bool is_block;
	int error = find_outermost(m, r, &outer, &is_block, &level);

	if (error == 0)
		error = ruby_read_text(
			m, r, ruby_pointer(&outer.body, r->offsets[RUBY_BODY_NAME]), &text);
	if (error == 0 && ruby_field(&outer.body, r->offsets[RUBY_BODY_TYPE], 4) == SEQUENCE_METHOD)
		error = read_owner(m, r, &outer, context, &owner);
	if (error == 0)
		error = read_qualified(m, r, owner, text, &name);
	if (error < 0)
		return error;
	if (is_block && level > 1)
		snprintf(prefix, sizeof(prefix), "block (%u levels) in ", level);
	*ret = join(is_block && level <= 1 ? "block in " : prefix, name);
	return 0;
}

int ruby_read_name(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_sequence *s, uint64_t context, char **ret)
{
	if (ruby_has_classes(r))
		return read_made_name(m, r, s, context, ret);
	return ruby_read_text(m, r, ruby_pointer(&s->body, r->offsets[RUBY_BODY_NAME]), ret);
}
