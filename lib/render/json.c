/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees as JSON: the flat arrays of the flame graph API and table rows.
 */
#include "lib/json/write.h"
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/render/render_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void render_json_text(struct json *j, const struct tree_symbols *s, uint32_t id)
{
	size_t len;
	const char *text = tree_symbols_text(s, id, &len);

	json_string_n(j, text, len);
}

static void put_mappings(const struct render_input *in, const struct render_used *u, struct json *j)
{
	const char *name = "";
	uint32_t mapping = TREE_NONE;
	size_t len = 0;

	for (size_t i = 0; i < u->n; i++) { /* most of the time it is that of the last one */
		const struct tree_frame *f = &in->symbols->frames[u->frames[i]];

		if (f->mapping != mapping) {
			mapping = f->mapping;
			name = render_mapping_name(in, u->frames[i]);
			len = strlen(name);
		}
		json_string_n(j, name, len);
	}
}

static int put_builds(const struct render_input *in, const struct render_used *u, struct json *j)
{
	_cleanup_(render_builds_done)
	struct render_builds b = {};
	int r = render_find_builds(in, u, &b);

	if (r)
		return r;
	json_key(j, "build");
	json_raw(j, "[0,0", 4);
	for (size_t i = 0; i < u->n; i++)
		render_put_number(j->out, b.of[i], false);
	bytes_put_u8(j->out, ']');
	json_key(j, "builds");
	json_array_begin(j);
	for (uint32_t i = 0; i < b.sets.n_strings; i++)
		render_json_text(j, &b.sets, i);
	json_array_end(j);
	return 0;
}

/* Function 0 is the root's name and function 1 that of what was cut. */
int render_json_functions(
	const struct render_input *in, const struct render_used *u, struct json *j)
{
	const struct tree_symbols *s = in->symbols;
	int r;

	json_key(j, "functions");
	json_object_begin(j);
	json_key(j, "name");
	json_array_begin(j);
	json_string(j, "all");
	json_string(j, "(cut)");
	for (size_t i = 0; i < u->n; i++)
		render_json_text(j, s, s->frames[u->frames[i]].name);
	json_array_end(j);
	json_key(j, "file");
	json_array_begin(j);
	json_string(j, "");
	json_string(j, "");
	for (size_t i = 0; i < u->n; i++)
		render_json_text(j, s, s->frames[u->frames[i]].file);
	json_array_end(j);
	json_key(j, "mapping");
	json_array_begin(j);
	json_string(j, "");
	json_string(j, "");
	put_mappings(in, u, j);
	json_array_end(j);
	r = put_builds(in, u, j);
	json_object_end(j);
	return r;
}

/* Large arrays are written without the writer's book-keeping per item. */
void render_put_number(struct bytes *out, int64_t v, bool first)
{
	if (!first)
		bytes_put_u8(out, ',');
	if (v >= 0)
		bytes_print_uint(out, (uint64_t)v);
	else
		bytes_print_int(out, v);
}

void render_json_array(struct json *j, const char *key, const struct tree *t, const int64_t *wide,
	const uint32_t *narrow)
{
	json_key(j, key);
	json_raw(j, "[", 1);
	for (size_t i = 0; i < t->n; i++)
		render_put_number(j->out, wide ? wide[i] : narrow[i], i == 0);
	bytes_put_u8(j->out, ']');
}

static void put_lines(const struct tree *t, struct json *j)
{
	json_key(j, "line");
	json_raw(j, "[", 1);
	for (size_t i = 0; i < t->n; i++)
		render_put_number(j->out, tree_line_number(t->line[i]), i == 0);
	bytes_put_u8(j->out, ']');
}

void render_json_derived(const struct render_input *in, const struct render_used *u, struct json *j)
{
	const struct tree *t = in->tree;

	json_key(j, "function");
	json_raw(j, "[", 1);
	for (size_t i = 0; i < t->n; i++)
		render_put_number(j->out,
			i == 0		    ? 0
			: tree_is_cut(t, i) ? 1
					    : u->number[t->frame[i]] + 1,
			i == 0);
	bytes_put_u8(j->out, ']');
	json_key(j, "kind");
	json_raw(j, "[", 1);
	for (size_t i = 0; i < t->n; i++)
		render_put_number(j->out, render_node_kind(in, i), i == 0);
	bytes_put_u8(j->out, ']');
	json_key(j, "cut");
	json_object_begin(j);
	for (size_t i = 0; i < t->n; i++) {
		char node[24];

		if (!tree_is_cut(t, i))
			continue;
		snprintf(node, sizeof(node), "%zu", i);
		json_kv_uint(j, node, t->n_cut[i]);
	}
	json_object_end(j);
}

/* A difference has a magnitude other than its total: the sum of what its values are without their signs. */
static void put_total(const struct render_input *in, struct json *j)
{
	int64_t total = in->whole ? in->whole : in->tree->total[0];

	json_kv_int(j, "total", total);
	if (in->magnitude && in->magnitude != total)
		json_kv_int(j, "magnitude", in->magnitude);
}

int render_json_members(const struct render_input *in, struct json *j)
{
	_cleanup_(render_used_done)
	struct render_used u = {};
	const struct tree *t = in->tree;
	int r = render_find_used(in, &u);

	if (r)
		return r;
	json_kv_string(j, "type", in->type ? in->type : "");
	json_kv_string(j, "unit", render_unit(in));
	put_total(in, j);
	r = render_json_functions(in, &u, j);
	if (r)
		return r;
	render_json_array(j, "parent", t, NULL, t->parent);
	put_lines(t, j);
	render_json_array(j, "self", t, t->self, NULL);
	render_json_array(j, "total_by_node", t, t->total, NULL);
	render_json_derived(in, &u, j);
	json_key(j, "kinds");
	json_array_begin(j);
	for (int k = 0; k < TREE_N_KINDS; k++)
		json_string(j, tree_kind_name((enum tree_kind)k));
	json_array_end(j);
	return bytes_error(j->out);
}

int render_json_rows(const struct render_input *in, size_t limit, struct json *j)
{
	_cleanup_arena_ struct arena arena = {};
	const struct tree_symbols *s = in->symbols;
	struct tree_row *rows;
	size_t n;
	int r;

	arena_init(&arena, j->out->budget);
	r = tree_top(in->tree, s, &arena, &rows, &n, NULL);
	if (r)
		return r;
	json_kv_string(j, "type", in->type ? in->type : "");
	json_kv_string(j, "unit", render_unit(in));
	put_total(in, j);
	json_kv_uint(j, "n_rows", n);
	json_key(j, "rows");
	json_array_begin(j);
	for (size_t i = 0; i < n && (!limit || i < limit); i++) {
		json_object_begin(j);
		json_key(j, "function");
		render_json_text(j, s, s->frames[rows[i].frame].name);
		json_key(j, "file");
		render_json_text(j, s, s->frames[rows[i].frame].file);
		json_kv_int(j, "line", rows[i].line);
		json_kv_string(j, "mapping", render_mapping_name(in, rows[i].frame));
		if (*render_build_id(in, rows[i].frame))
			json_kv_string(j, "build", render_build_id(in, rows[i].frame));
		json_kv_string(j, "kind", tree_kind_name(s->frames[rows[i].frame].kind));
		json_kv_int(j, "self", rows[i].self);
		json_kv_int(j, "total", rows[i].total);
		json_object_end(j);
	}
	json_array_end(j);
	return bytes_error(j->out);
}
