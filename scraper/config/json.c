/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON documents (file discovery, label sets on a command line) into configuration nodes.
 */
#include "scraper/config/json.h"
#include "lib/json/read.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_JSON = 16 << 20 };

static struct conf_node *new_scalar(struct arena *a, const char *text, bool is_plain)
{
	struct conf_node *n = arena_zalloc(a, sizeof(*n));

	if (!n)
		return NULL;
	n->kind = CONF_SCALAR;
	n->is_plain = is_plain;
	n->is_not_text = is_plain && strcmp(text, "null") != 0;
	n->text = arena_strdup(a, text);
	return n->text ? n : NULL;
}

static struct conf_node *convert(const struct json_value *v, struct arena *a);

static struct conf_node *convert_collection(const struct json_value *v, struct arena *a)
{
	bool is_map = json_value_kind(v) == JSON_KIND_OBJECT;
	struct conf_node *n = arena_zalloc(a, sizeof(*n));
	const struct json_value *value;
	const char *key;
	void *pos = NULL;

	if (!n)
		return NULL;
	n->kind = is_map ? CONF_MAPPING : CONF_SEQUENCE;
	n->cap = json_value_len(v) * (is_map ? 2 : 1);
	n->items = arena_alloc_array(a, n->cap + 1, sizeof(struct conf_node *));
	if (!n->items)
		return NULL;
	while (is_map && json_value_next(v, &pos, &key, &value)) {
		n->items[n->n++] = new_scalar(a, key, false);
		n->items[n->n++] = convert(value, a);
	}
	for (size_t i = 0; !is_map && i < n->cap; i++)
		n->items[n->n++] = convert(json_value_at(v, i), a);
	return arena_error(a, NULL) < 0 ? NULL : n;
}

/* The reader bounds the depth. */
static struct conf_node *convert(const struct json_value *v, struct arena *a)
{
	char text[40];

	switch (json_value_kind(v)) {
	case JSON_KIND_NULL: return new_scalar(a, "null", true);
	case JSON_KIND_BOOL: return new_scalar(a, json_value_bool(v) ? "true" : "false", true);
	case JSON_KIND_INT:
		snprintf(text, sizeof(text), "%" PRId64, json_value_int(v));
		return new_scalar(a, text, true);
	case JSON_KIND_DOUBLE:
		snprintf(text, sizeof(text), "%.17g", json_value_double(v));
		return new_scalar(a, text, true);
	case JSON_KIND_STRING: return new_scalar(a, json_value_str(v), false);
	case JSON_KIND_ARRAY:
	case JSON_KIND_OBJECT: break;
	}
	return convert_collection(v, a);
}

int config_json_parse(const char *file, const void *text, size_t len, struct arena *arena,
	struct conf_node **ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	int r = json_read(text, len, MAX_JSON, &doc, eb);

	if (r < 0)
		return err_prefix(eb, r == -EBADMSG ? -EINVAL : r, "%s", file);
	*ret = convert(json_doc_root(doc), arena);
	return *ret ? 0 : err_set(eb, -ENOMEM, "%s: out of memory", file);
}
