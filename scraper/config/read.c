/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader that the tables of keys drive: defaults, types, unknown keys, and where in the file
 * everything stands.
 */
#include "scraper/config/read.h"
#include "lib/base/alloc.h"
#include "scraper/config/keys.h"
#include "scraper/config/value.h"
#include <string.h>

struct config_mem {
	struct arena arena;
	struct regex **regexes;
	struct labels *labels;
	size_t n_regexes, cap_regexes, n_labels, cap_labels;
};

struct config_mem *config_mem_new(void)
{
	struct config_mem *m = xcalloc(1, sizeof(*m));

	arena_init(&m->arena, NULL);
	return m;
}

void config_mem_free(struct config_mem *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_regexes; i++)
		regex_free(m->regexes[i]);
	for (size_t i = 0; i < m->n_labels; i++)
		labels_done(&m->labels[i]);
	free(m->regexes);
	free(m->labels);
	arena_done(&m->arena);
	free(m);
}

struct arena *config_mem_arena(struct config_mem *m)
{
	return &m->arena;
}

int config_mem_keep_labels(struct config_mem *m, struct labels_builder *b, struct labels *ret)
{
	int r = alloc_grow(&m->labels, &m->cap_labels, m->n_labels + 1, sizeof(*m->labels));

	if (r == 0)
		r = labels_builder_finish(b, ret);
	if (r == 0)
		m->labels[m->n_labels++] = *ret;
	return r;
}

int config_mem_keep_regex(struct config_mem *m, struct regex **re)
{
	int r = alloc_grow(&m->regexes, &m->cap_regexes, m->n_regexes + 1, sizeof(*m->regexes));

	if (r == 0)
		m->regexes[m->n_regexes++] = TAKE(*re);
	return r;
}

size_t config_path_push(struct config_reader *r, const char *fmt, ...)
{
	size_t mark = r->path_len, room = sizeof(r->path) - mark;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(r->path + mark, room, fmt, ap);
	va_end(ap);
	r->path_len += n > 0 ? MIN((size_t)n, room - 1) : 0;
	return mark;
}

void config_path_pop(struct config_reader *r, size_t mark)
{
	r->path_len = mark;
	r->path[mark] = 0;
}

static void put_place(struct config_reader *r, const struct conf_node *at, const char *key,
	const char *text, char *ret, size_t size)
{
	size_t mark = r->path_len;
	char place[32] = "";

	if (key)
		config_path_push(r, mark && *key != '[' ? ".%s" : "%s", key);
	if (at && at->line)
		snprintf(place, sizeof(place), ":%u:%u", at->line, at->column);
	snprintf(ret, size, "%s%s: %s%s%s", r->file, place, r->path, r->path_len ? ": " : "", text);
	config_path_pop(r, mark);
}

int config_fail(
	struct config_reader *r, const struct conf_node *at, const char *key, const char *fmt, ...)
{
	struct errbuf text = {0};
	va_list ap;

	va_start(ap, fmt);
	err_vset(&text, -EINVAL, fmt, ap);
	va_end(ap);
	if (r->eb)
		put_place(r, at, key, text.text, r->eb->text, sizeof(r->eb->text));
	return -EINVAL;
}

int config_warn(
	struct config_reader *r, const struct conf_node *at, const char *key, const char *fmt, ...)
{
	struct errbuf text = {0};
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	err_vset(&text, -EINVAL, fmt, ap);
	va_end(ap);
	put_place(r, at, key, text.text, line, sizeof(line));
	if (alloc_grow(&r->warnings, &r->cap_warnings, r->n_warnings + 1, sizeof(*r->warnings)) < 0)
		return config_out_of_memory(r);
	r->warnings[r->n_warnings] = arena_strdup(config_mem_arena(r->mem), line);
	return r->warnings[r->n_warnings++] ? 0 : config_out_of_memory(r);
}

int config_out_of_memory(struct config_reader *r)
{
	return err_set(r->eb, -ENOMEM, "%s: out of memory", r->file);
}

/* Edit distance, for keys of ordinary length. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64], n = strlen(b);

	if (n >= ARRAY_SIZE(row))
		return SIZE_MAX;
	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			size_t above = row[k], best = diagonal + (a[i - 1] != b[k - 1]);

			row[k] = MIN(best, MIN(above, row[k - 1]) + 1);
			diagonal = above;
		}
	}
	return row[n];
}

static int fail_unknown_key(
	struct config_reader *r, const struct config_section *s, const struct conf_node *key)
{
	size_t best = MAX((size_t)2, strlen(key->text) / 3) + 1;
	const char *nearest = NULL;

	if (config_keys_is_foreign_sd(key->text))
		return config_fail(r, key, key->text,
			"this kind of service discovery is not built in; use %sfile_sd_configs",
			!strcmp(key->text, "aws_sd_configs")
				? "ec2_sd_configs for its role ec2, else "
				: "");
	for (size_t i = 0; i < s->n_keys; i++) {
		size_t d = s->keys[i].support == CONFIG_IGNORED
				   ? SIZE_MAX
				   : distance(key->text, s->keys[i].name);

		if (d < best) {
			best = d;
			nearest = s->keys[i].name;
		}
	}
	if (nearest)
		return config_fail(r, key, key->text, "unknown key; did you mean %s?", nearest);
	return config_fail(
		r, key, key->text, "unknown key; see docs/configuration.md, %s", s->title);
}

static void *field(void *object, size_t offset)
{
	return (char *)object + offset;
}

/* A mapping of names to sections. */
static int read_map(struct config_reader *r, const struct config_key *key,
	const struct conf_node *node, void *object)
{
	size_t n = node->n / 2, size = key->section->size;
	char *items;

	if (node->kind != CONF_MAPPING)
		return config_fail(r, node, NULL, "expected a mapping of names, got %s",
			conf_node_kind_name(node));
	items = arena_alloc_array(config_mem_arena(r->mem), MAX(n, 1U), size);
	if (!items)
		return config_out_of_memory(r);
	for (size_t i = 0; i < n; i++) {
		const struct conf_node *value = node->items[2 * i + 1];
		size_t mark = config_path_push(r, ".%s", node->items[2 * i]->text);
		int e;

		r->map_name = node->items[2 * i]->text;
		e = config_read_section(
			r, key->section, conf_node_is_null(value) ? NULL : value, items + i * size);

		config_path_pop(r, mark);
		if (e < 0)
			return e;
		*(const char **)(void *)(items + i * size) =
			arena_strdup(config_mem_arena(r->mem), node->items[2 * i]->text);
	}
	*(void **)field(object, key->offset) = items;
	*(size_t *)field(object, key->n_offset) = n;
	return 0;
}

int config_read_list(struct config_reader *r, const struct config_section *section,
	const struct conf_node *node, void **ret, size_t *ret_n)
{
	char *items;

	if (node->kind != CONF_SEQUENCE)
		return config_fail(
			r, node, NULL, "expected a list, got %s", conf_node_kind_name(node));
	items = arena_alloc_array(config_mem_arena(r->mem), MAX(node->n, 1U), section->size);
	if (!items)
		return config_out_of_memory(r);
	for (size_t i = 0; i < node->n; i++) {
		size_t mark = config_path_push(r, "[%zu]", i);
		int e = conf_node_is_null(node->items[i])
				? config_fail(r, node->items[i], NULL,
					  "empty or null entry, expected a mapping")
				: config_read_section(
					  r, section, node->items[i], items + i * section->size);

		config_path_pop(r, mark);
		if (e < 0)
			return e;
	}
	*ret = items;
	*ret_n = node->n;
	return 0;
}

/* `node` is NULL when the key was not written. */
static int read_key(struct config_reader *r, const struct config_key *key,
	const struct conf_node *node, void *object)
{
	void *at = field(object, key->offset);
	int e;

	switch (key->type) {
	case CONFIG_TYPE_SECTION:
		if (key->is_optional && !node)
			return 0;
		e = config_read_section(r, key->section, node, at);
		if (key->is_optional)
			*(bool *)field(object, key->n_offset) = true;
		return e;
	case CONFIG_TYPE_LIST:
		if (!node)
			return 0;
		e = config_read_list(r, key->section, node, at, field(object, key->n_offset));
		return e;
	case CONFIG_TYPE_MAP: return node ? read_map(r, key, node, object) : 0;
	default: return config_value_read(r, key, node, object);
	}
}

static const struct config_key *find_key(const struct config_section *s, const char *name)
{
	for (size_t i = 0; i < s->n_keys; i++) {
		if (!strcmp(s->keys[i].name, name))
			return &s->keys[i];
	}
	return NULL;
}

/* Sorts the written values by key; keys without effect get their warning or error here. */
static int collect_keys(struct config_reader *r, const struct config_section *s,
	const struct conf_node *node, const struct conf_node **values)
{
	for (size_t i = 0; node && i < node->n; i += 2) {
		const struct conf_node *name = node->items[i];
		const struct config_key *key = find_key(s, name->text);
		int e = 0;

		if (!key)
			return fail_unknown_key(r, s, name);
		if (key->support == CONFIG_IGNORED)
			e = config_warn(r, name, key->name,
				"has no effect on profiles and is ignored%s%s",
				key->note ? "; " : "", key->note ? key->note : "");
		if (e < 0)
			return e;
		values[key - s->keys] = node->items[i + 1];
	}
	return 0;
}

int config_read_section(struct config_reader *r, const struct config_section *s,
	const struct conf_node *node, void *object)
{
	struct config_seen seen = {.section = s};
	int e;

	memset(object, 0, s->size);
	if (node && node->kind != CONF_MAPPING)
		return config_fail(
			r, node, NULL, "expected a mapping, got %s", conf_node_kind_name(node));
	seen.values =
		arena_zalloc(config_mem_arena(r->mem), s->n_keys * sizeof(struct conf_node *));
	if (!seen.values)
		return config_out_of_memory(r);
	e = collect_keys(r, s, node, seen.values);
	if (e < 0)
		return e;
	for (size_t i = 0; i < s->n_keys; i++) {
		const struct config_key *key = &s->keys[i];
		size_t mark;

		if (key->support != CONFIG_READ)
			continue;
		if (seen.values[i] && conf_node_is_null(seen.values[i]) &&
			!config_value_takes_null(key->type))
			seen.values[i] = NULL;
		mark = config_path_push(r, r->path_len ? ".%s" : "%s", key->name);
		e = read_key(r, key, seen.values[i], object);
		config_path_pop(r, mark);
		if (e < 0)
			return e;
	}
	return s->check ? s->check(r, object, node, &seen) : 0;
}

const struct conf_node *config_seen_key(const struct config_seen *seen, const char *name)
{
	const struct config_key *key = find_key(seen->section, name);

	return key ? seen->values[key - seen->section->keys] : NULL;
}
