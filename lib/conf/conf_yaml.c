/* SPDX-License-Identifier: Apache-2.0
 *
 * From libyaml's events to a tree. The text is checked for UTF-8 first, since libyaml reports that
 * without a line.
 */
#include <yaml.h>
#include "lib/conf/conf_yaml.h"
#include "lib/base/bytes.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include <string.h>

struct anchor {
	const char *name;
	struct conf_node *node;
	struct anchor *next;
};

struct loader {
	yaml_parser_t parser;
	const char *file;
	struct arena *arena;
	struct anchor *anchors;
	unsigned depth;
	uint64_t n_nodes;
	struct errbuf *eb;
};

static int fail_at(struct loader *l, size_t line, size_t column, const char *fmt, ...)
	_printf_(4, 5);
static int fail_at(struct loader *l, size_t line, size_t column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(l->eb, -EINVAL, fmt, ap);
	va_end(ap);
	return err_prefix(l->eb, -EINVAL, "%s:%zu:%zu", l->file, line, column);
}

#define fail_mark(l, mark, ...) fail_at(l, (mark).line + 1, (mark).column + 1, __VA_ARGS__)
#define fail_node(l, node, ...) fail_at(l, (node)->line, (node)->column, __VA_ARGS__)

static int out_of_memory(struct loader *l)
{
	return err_set(l->eb, -ENOMEM, "%s: out of memory", l->file);
}

static int check_utf8(struct loader *l, const char *s, size_t n)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < n;) {
		size_t len = str_utf8_len(s + i, n - i);

		if (!len)
			return fail_at(
				l, line, column, "byte 0x%02x is not valid UTF-8", (uint8_t)s[i]);
		column = s[i] == '\n' ? 1 : column + 1;
		line += s[i] == '\n';
		i += len;
	}
	return 0;
}

static int next_event(struct loader *l, yaml_event_t *ret)
{
	yaml_parser_t *p = &l->parser;

	if (yaml_parser_parse(p, ret))
		return 0;
	switch (p->error) {
	case YAML_MEMORY_ERROR: return out_of_memory(l);
	case YAML_READER_ERROR: return fail_mark(l, p->mark, "%s", p->problem);
	default:
		return fail_mark(l, p->problem_mark, "%s%s%s", p->problem ? p->problem : "not YAML",
			p->context ? " " : "", p->context ? p->context : "");
	}
}

static struct conf_node *new_node(struct loader *l, enum conf_node_kind kind, yaml_mark_t at)
{
	struct conf_node *n = arena_zalloc(l->arena, sizeof(*n));

	if (n) {
		n->kind = kind;
		n->line = (uint32_t)at.line + 1;
		n->column = (uint32_t)at.column + 1;
		n->expanded = n->height = 1;
	}
	return n;
}

static int add_item(struct loader *l, struct conf_node *to, struct conf_node *item)
{
	if (to->n == to->cap) {
		size_t cap = to->cap ? to->cap * 2 : 8;
		struct conf_node **items =
			arena_alloc_array(l->arena, cap, sizeof(struct conf_node *));

		if (!items)
			return out_of_memory(l);
		if (to->n)
			memcpy(items, to->items, to->n * sizeof(struct conf_node *));
		to->items = items;
		to->cap = cap;
	}
	to->items[to->n++] = item;
	to->expanded += item->expanded;
	to->height = MAX(to->height, item->height + 1);
	if (to->height > CONF_YAML_MAX_DEPTH)
		return fail_node(l, to, "nested deeper than %d after aliases are followed",
			CONF_YAML_MAX_DEPTH);
	if (to->expanded > CONF_YAML_MAX_NODES)
		return fail_node(l, item, "more than %d values after aliases are followed",
			CONF_YAML_MAX_NODES);
	return 0;
}

static int add_anchor(struct loader *l, const yaml_char_t *name, struct conf_node *node)
{
	struct anchor *a;

	if (!name)
		return 0;
	a = arena_alloc(l->arena, sizeof(*a));
	if (!a)
		return out_of_memory(l);
	*a = (struct anchor) {arena_strdup(l->arena, (const char *)name), node, l->anchors};
	l->anchors = a;
	return a->name ? 0 : out_of_memory(l);
}

static int follow_alias(struct loader *l, const yaml_event_t *e, struct conf_node **ret)
{
	const char *name = (const char *)e->data.alias.anchor;

	for (struct anchor *a = l->anchors; a; a = a->next) {
		if (strcmp(a->name, name))
			continue;
		if (!a->node->is_complete)
			return fail_mark(l, e->start_mark,
				"alias *%s stands inside what it refers to", name);
		*ret = a->node;
		return 0;
	}
	return fail_mark(l, e->start_mark, "alias *%s refers to no anchor before it", name);
}

static int decode_binary(struct loader *l, const yaml_event_t *e, struct bytes *out)
{
	int r = str_decode_base64((const char *)e->data.scalar.value, e->data.scalar.length, out);

	if (r == -EINVAL)
		return fail_mark(l, e->start_mark, "!!binary is not base64");
	return r < 0 ? out_of_memory(l) : 0;
}

static int check_tag(
	struct loader *l, const yaml_event_t *e, const yaml_char_t *tag, bool *ret_binary)
{
	static const char *const known[] = {"str", "int", "float", "bool", "null", "seq", "map"};
	static const char prefix[] = YAML_DEFAULT_SCALAR_TAG; /* "tag:yaml.org,2002:str" */
	size_t n = sizeof(prefix) - 1 - 3;
	const char *t = (const char *)tag;

	*ret_binary = false;
	if (!t || !strcmp(t, "!"))
		return 0;
	if (!strncmp(t, prefix, n)) {
		*ret_binary = !strcmp(t + n, "binary");
		for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
			if (!strcmp(t + n, known[i]))
				return 0;
		}
	}
	return *ret_binary ? 0 : fail_mark(l, e->start_mark, "tag %s is not supported", t);
}

static int load_scalar(struct loader *l, const yaml_event_t *e, struct conf_node **ret)
{
	_cleanup_bytes_ struct bytes binary = {0};
	const char *text = (const char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;
	struct conf_node *n = new_node(l, CONF_SCALAR, e->start_mark);
	bool is_binary;
	int r = check_tag(l, e, e->data.scalar.tag, &is_binary);

	if (r < 0)
		return r;
	if (is_binary) {
		r = decode_binary(l, e, &binary);
		if (r < 0)
			return r;
		text = binary.data ? (const char *)binary.data : "";
		len = binary.len;
	}
	if (memchr(text, 0, len))
		return fail_mark(l, e->start_mark, "text with a NUL character");
	if (!str_is_utf8(text, len))
		return fail_mark(l, e->start_mark, "text that is not valid UTF-8");
	if (n)
		n->text = arena_strndup(l->arena, text, len);
	if (!n || !n->text)
		return out_of_memory(l);
	n->is_plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !e->data.scalar.tag;
	n->is_complete = true;
	*ret = n;
	return add_anchor(l, e->data.scalar.anchor, n);
}

static int compare_keys(const void *a, const void *b)
{
	const struct conf_node *const *x = a, *const *y = b;
	int c = strcmp((*x)->text, (*y)->text);

	if (c)
		return c;
	return (*x)->line != (*y)->line
		       ? ((*x)->line < (*y)->line ? -1 : 1)
		       : ((*x)->column > (*y)->column) - ((*x)->column < (*y)->column);
}

static bool is_merge_key(const struct conf_node *key)
{
	return key->is_plain && !strcmp(key->text, "<<");
}

static int check_keys(struct loader *l, const struct conf_node *map)
{
	const struct conf_node **keys =
		arena_alloc_array(l->arena, map->n / 2 + 1, sizeof(struct conf_node *));
	const struct conf_node *duplicate = NULL, *first = NULL;

	if (!keys)
		return out_of_memory(l);
	for (size_t i = 0; i < map->n; i += 2) {
		if (map->items[i]->kind != CONF_SCALAR)
			return fail_node(l, map->items[i], "a key must be text, not %s",
				conf_node_kind_name(map->items[i]));
		keys[i / 2] = map->items[i];
	}
	qsort(keys, map->n / 2, sizeof(struct conf_node *), compare_keys);
	for (size_t i = 1; i < map->n / 2; i++) {
		if (strcmp(keys[i]->text, keys[i - 1]->text))
			continue;
		if (!duplicate || keys[i]->line < duplicate->line) {
			duplicate = keys[i];
			first = keys[i - 1];
		}
	}
	if (duplicate)
		return fail_node(l, duplicate, "duplicate key \"%s\", already given in line %u",
			duplicate->text, first->line);
	return 0;
}

/* Adds the pairs of `from` whose keys `to` lacks. */
static int merge_from(struct loader *l, struct conf_node *to, const struct conf_node *from)
{
	int r = 0;

	if (from->kind != CONF_MAPPING)
		return fail_node(l, from, "<< needs a mapping or a list of mappings");
	for (size_t i = 0; i < from->n && r == 0; i += 2) {
		if (conf_node_get(to, from->items[i]->text))
			continue;
		r = add_item(l, to, from->items[i]);
		if (r == 0)
			r = add_item(l, to, from->items[i + 1]);
	}
	return r;
}

static int merge(struct loader *l, struct conf_node *map)
{
	struct conf_node *from = NULL;
	int r = 0;

	for (size_t i = 0; i < map->n; i += 2) {
		if (!is_merge_key(map->items[i]))
			continue;
		from = map->items[i + 1];
		memmove(&map->items[i], &map->items[i + 2],
			(map->n - i - 2) * sizeof(struct conf_node *));
		map->n -= 2;
		break;
	}
	if (!from)
		return 0;
	if (from->kind != CONF_SEQUENCE)
		return merge_from(l, map, from);
	for (size_t i = 0; i < from->n && r == 0; i++)
		r = merge_from(l, map, from->items[i]);
	return r;
}

static int load_node(struct loader *l, yaml_event_t *e, struct conf_node **ret);

/* Items up to the end event of a sequence or mapping. */
static int load_items(struct loader *l, struct conf_node *to, yaml_event_type_t end)
{
	for (;;) {
		struct conf_node *item = NULL;
		yaml_event_t e;
		int r = next_event(l, &e);

		if (r < 0)
			return r;
		if (e.type == end) {
			yaml_event_delete(&e);
			return 0;
		}
		r = load_node(l, &e, &item);
		yaml_event_delete(&e);
		if (r == 0)
			r = add_item(l, to, item);
		if (r < 0)
			return r;
	}
}

static int load_collection(struct loader *l, const yaml_event_t *e, struct conf_node **ret)
{
	bool is_map = e->type == YAML_MAPPING_START_EVENT, is_binary;
	struct conf_node *n = new_node(l, is_map ? CONF_MAPPING : CONF_SEQUENCE, e->start_mark);
	int r = check_tag(
		l, e, is_map ? e->data.mapping_start.tag : e->data.sequence_start.tag, &is_binary);

	if (!n)
		return out_of_memory(l);
	if (r == 0)
		r = add_anchor(l,
			is_map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor, n);
	if (r < 0)
		return r;
	if (++l->depth > CONF_YAML_MAX_DEPTH)
		return fail_node(l, n, "nested deeper than %d", CONF_YAML_MAX_DEPTH);
	r = load_items(l, n, is_map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT);
	l->depth--;
	if (r == 0 && is_map)
		r = check_keys(l, n);
	if (r == 0 && is_map)
		r = merge(l, n);
	n->is_complete = true;
	*ret = n;
	return r;
}

static int load_node(struct loader *l, yaml_event_t *e, struct conf_node **ret)
{
	if (++l->n_nodes > CONF_YAML_MAX_NODES)
		return fail_mark(l, e->start_mark, "more than %d values", CONF_YAML_MAX_NODES);
	switch (e->type) {
	case YAML_ALIAS_EVENT: return follow_alias(l, e, ret);
	case YAML_SCALAR_EVENT: return load_scalar(l, e, ret);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT: return load_collection(l, e, ret);
	default: return fail_mark(l, e->start_mark, "not a value");
	}
}

/* STREAM-START [DOCUMENT-START node DOCUMENT-END] STREAM-END */
static int load_stream(struct loader *l, struct conf_node **ret)
{
	unsigned n_documents = 0;
	int r = 0;

	for (bool end = false; r == 0 && !end;) {
		yaml_event_t e;

		r = next_event(l, &e);
		if (r < 0)
			return r;
		switch (e.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT: break;
		case YAML_STREAM_END_EVENT: end = true; break;
		case YAML_DOCUMENT_START_EVENT:
			if (++n_documents > 1)
				r = fail_mark(l, e.start_mark, "a second document; expected one");
			break;
		default: r = load_node(l, &e, ret); break;
		}
		yaml_event_delete(&e);
	}
	return r;
}

int conf_yaml_parse(const char *file, const void *text, size_t len, struct arena *arena,
	struct conf_node **ret, struct errbuf *eb)
{
	struct loader l = {.file = file, .arena = arena, .eb = eb};
	int r = check_utf8(&l, text, len);

	*ret = NULL;
	if (r < 0)
		return r;
	if (!yaml_parser_initialize(&l.parser))
		return out_of_memory(&l);
	/* the encoding is left to libyaml, which then skips a byte order mark; what is not UTF-8 was refused */
	yaml_parser_set_input_string(&l.parser, text ? text : (const unsigned char *)"", len);
	r = load_stream(&l, ret);
	yaml_parser_delete(&l.parser);
	return r;
}

bool conf_node_is_null(const struct conf_node *n)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	if (n->kind != CONF_SCALAR || !n->is_plain)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++) {
		if (!strcmp(n->text, nulls[i]))
			return true;
	}
	return false;
}

const char *conf_node_kind_name(const struct conf_node *n)
{
	switch (n->kind) {
	case CONF_MAPPING: return "a mapping";
	case CONF_SEQUENCE: return "a list";
	case CONF_SCALAR: break;
	}
	if (n->is_not_text)
		return "a number or boolean";
	return conf_node_is_null(n) ? "null" : "text";
}

struct conf_node *conf_node_get(const struct conf_node *mapping, const char *key)
{
	for (size_t i = 0; i < mapping->n; i += 2) {
		if (!strcmp(mapping->items[i]->text, key))
			return mapping->items[i + 1];
	}
	return NULL;
}

/* Letters, digits and a few signs, not at risk of being read as something else. */
static bool reads_back_plain(const char *s)
{
	static const char *const words[] = {
		"true", "false", "yes", "no", "on", "off", "y", "n", "null", "<<"};
	bool has_letter = false;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcasecmp(s, words[i]))
			return false;
	}
	for (const char *c = s; *c; c++) {
		bool letter = ((*c | 32) >= 'a' && (*c | 32) <= 'z') || *c == '_';

		has_letter |= letter;
		if (!letter && !(*c >= '0' && *c <= '9') && !(c > s && strchr("./-$", *c)) &&
			!(c == s && strchr("/.$", *c)))
			return false;
	}
	return *s && has_letter;
}

void conf_print_scalar(const char *s, struct bytes *out)
{
	if (reads_back_plain(s)) {
		bytes_put_str(out, s);
		return;
	}
	bytes_put_u8(out, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			bytes_printf(out, "\\%c", *s);
		else if (*s == '\n')
			bytes_put_str(out, "\\n");
		else if ((uint8_t)*s < 0x20 || *s == 0x7f)
			bytes_printf(out, "\\x%02x", (uint8_t)*s);
		else
			bytes_put_u8(out, (uint8_t)*s);
	}
	bytes_put_u8(out, '"');
}

static void print_json_text(const char *s, struct bytes *out)
{
	struct json j = json_to(out);

	json_string(&j, s);
}

/* A whole number, true, false or null. */
static bool is_json_literal(const struct conf_node *n)
{
	size_t digits = strspn(n->text, "0123456789");

	if (!n->is_plain)
		return false;
	if (!strcmp(n->text, "true") || !strcmp(n->text, "false"))
		return true;
	return digits && !n->text[digits] && digits < 16 && (n->text[0] != '0' || digits == 1);
}

void conf_node_print(const struct conf_node *n, struct bytes *out)
{
	bool is_map = n->kind == CONF_MAPPING;

	if (n->kind == CONF_SCALAR) {
		if (conf_node_is_null(n))
			bytes_put_str(out, "null");
		else if (is_json_literal(n))
			bytes_put_str(out, n->text);
		else
			print_json_text(n->text, out);
		return;
	}
	bytes_put_str(out, is_map ? "{" : "[");
	for (size_t i = 0; i < n->n; i++) {
		if (is_map && i % 2 == 0)
			print_json_text(n->items[i]->text, out);
		else
			conf_node_print(n->items[i], out);
		if (is_map && i % 2 == 0)
			bytes_put_str(out, ":");
		else if (i + 1 < n->n)
			bytes_put_str(out, ",");
	}
	bytes_put_str(out, is_map ? "}" : "]");
}
