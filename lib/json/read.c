/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader: jansson behind opaque values. A struct json_value * is a json_t *.
 */
#include "lib/json/read.h"
#include "lib/base/alloc.h"
#include <jansson.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

struct json_doc {
	json_t *root;
};

static const json_t *raw(const struct json_value *v)
{
	return (const json_t *)(const void *)v;
}

static const struct json_value *wrap(const json_t *j)
{
	return (const struct json_value *)(const void *)j;
}

static json_t *unconst(const json_t *j)
{
	return (json_t *)(uintptr_t)j;
}

static bool has_nul(const char *s, size_t n)
{
	return memchr(s, 0, n) != NULL;
}

/* -EFBIG when deeper than MAX_DEPTH, -EBADMSG when a string or key holds NUL; jansson bounds the
 * recursion itself (2048). */
static int check_tree(json_t *j, unsigned depth)
{
	const char *key;
	json_t *value;
	size_t i;
	int r = 0;

	if (depth > MAX_DEPTH)
		return -EFBIG;
	if (json_is_string(j))
		return has_nul(json_string_value(j), json_string_length(j)) ? -EBADMSG : 0;
	if (json_is_array(j)) {
		json_array_foreach(j, i, value)
		{
			r = check_tree(value, depth + 1);
			if (r < 0)
				return r;
		}
	} else if (json_is_object(j)) {
		json_object_foreach(j, key, value)
		{
			r = check_tree(value, depth + 1);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int json_read(const void *p, size_t n, size_t max_bytes, struct json_doc **ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *d = NULL;
	json_error_t error = {0};
	int r;

	if (n > max_bytes)
		return err_set(eb, -EFBIG, "JSON of %zu bytes, more than %zu", n, max_bytes);
	d = xcalloc(1, sizeof(*d));
	d->root =
		json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (!d->root)
		return err_set(eb, -EBADMSG, "line %d, column %d: %s", error.line, error.column,
			error.text);
	r = check_tree(d->root, 1);
	if (r == -EFBIG)
		return err_set(eb, -EBADMSG, "JSON nested deeper than %d", MAX_DEPTH);
	if (r < 0)
		return err_set(eb, r, "JSON string with a NUL character");
	*ret = TAKE(d);
	return 0;
}

void json_doc_freep(struct json_doc **d)
{
	if (!*d)
		return;
	json_decref((*d)->root);
	free(*d);
	*d = NULL;
}

const struct json_value *json_doc_root(const struct json_doc *d)
{
	return wrap(d->root);
}

enum json_kind json_value_kind(const struct json_value *v)
{
	switch (json_typeof(raw(v))) {
	case JSON_OBJECT: return JSON_KIND_OBJECT;
	case JSON_ARRAY: return JSON_KIND_ARRAY;
	case JSON_STRING: return JSON_KIND_STRING;
	case JSON_INTEGER: return JSON_KIND_INT;
	case JSON_REAL: return JSON_KIND_DOUBLE;
	case JSON_TRUE:
	case JSON_FALSE: return JSON_KIND_BOOL;
	case JSON_NULL: break;
	}
	return JSON_KIND_NULL;
}

const char *json_value_kind_name(const struct json_value *v)
{
	static const char *const names[] = {
		[JSON_KIND_NULL] = "null",
		[JSON_KIND_BOOL] = "a boolean",
		[JSON_KIND_INT] = "an integer",
		[JSON_KIND_DOUBLE] = "a number",
		[JSON_KIND_STRING] = "a string",
		[JSON_KIND_ARRAY] = "an array",
		[JSON_KIND_OBJECT] = "an object",
	};

	return names[json_value_kind(v)];
}

const char *json_value_str(const struct json_value *v)
{
	return v ? json_string_value(raw(v)) : NULL;
}

int64_t json_value_int(const struct json_value *v)
{
	return v ? json_integer_value(raw(v)) : 0;
}

double json_value_double(const struct json_value *v)
{
	return v ? json_number_value(raw(v)) : 0;
}

bool json_value_bool(const struct json_value *v)
{
	return v && json_is_true(raw(v));
}

size_t json_value_len(const struct json_value *v)
{
	if (!v)
		return 0;
	return json_is_array(raw(v)) ? json_array_size(raw(v)) : json_object_size(raw(v));
}

const struct json_value *json_value_at(const struct json_value *v, size_t i)
{
	return v ? wrap(json_array_get(raw(v), i)) : NULL;
}

const struct json_value *json_value_get(const struct json_value *v, const char *key)
{
	return v ? wrap(json_object_get(raw(v), key)) : NULL;
}

bool json_value_next(const struct json_value *object, void **pos, const char **ret_key,
	const struct json_value **ret_value)
{
	json_t *o = unconst(raw(object));

	*pos = *pos ? json_object_iter_next(o, *pos) : json_object_iter(o);
	if (!*pos)
		return false;
	*ret_key = json_object_iter_key(*pos);
	*ret_value = wrap(json_object_iter_value(*pos));
	return true;
}

struct json_doc *json_value_share(const struct json_value *part)
{
	struct json_doc *d = xcalloc(1, sizeof(*d));

	d->root = json_incref(unconst(raw(part)));
	return d;
}

bool json_value_equal(const struct json_value *a, const struct json_value *b)
{
	return json_equal(raw(a), raw(b));
}

static const struct json_keep *keep_of(const struct json_keep *keep, const char *name)
{
	while (keep->name && strcmp(keep->name, name))
		keep++;
	return keep->name ? keep : NULL;
}

/* Its depth is that of `keep`. */
static void keep_members(json_t *j, const struct json_keep *keep)
{
	const char *name;
	json_t *value;
	void *next;
	size_t i;

	json_array_foreach(j, i, value)
	{
		if (json_is_object(value))
			keep_members(value, keep);
	}
	json_object_foreach_safe(j, next, name, value)
	{
		const struct json_keep *k = keep_of(keep, name);

		if (!k)
			json_object_del(j, name);
		else if (k->members)
			keep_members(value, k->members);
	}
}

void json_doc_keep(struct json_doc *d, const struct json_keep *keep)
{
	keep_members(d->root, keep);
}
