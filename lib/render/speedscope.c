/* SPDX-License-Identifier: Apache-2.0
 *
 * speedscope's file format (https://www.speedscope.app/file-format-schema.json): one tree is one sampled profile, the sides of a
 * difference are two over the same frames.
 */
#include "lib/base/alloc.h"
#include "lib/json/write.h"
#include "lib/render/render_internal.h"
#include "lib/tree/diff.h"
#include <string.h>

/* speedscope knows none, nanoseconds … seconds and bytes. */
static const char *speedscope_unit(const char *unit)
{
	static const char *const known[] = {
		"nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(unit, known[i]))
			return known[i];
	return "none";
}

static void put_speedscope_frames(
	const struct render_input *in, const struct render_used *u, struct json *j)
{
	const struct tree_symbols *s = in->symbols;

	json_key(j, "shared");
	json_object_begin(j);
	json_key(j, "frames");
	json_array_begin(j);
	for (size_t i = 0; i < u->n; i++) {
		const struct tree_frame *f = &s->frames[u->frames[i]];

		json_object_begin(j);
		json_key(j, "name");
		render_json_text(j, s, f->name);
		if (f->file || f->mapping != TREE_NONE) {
			json_key(j, "file");
			if (f->file)
				render_json_text(j, s, f->file);
			else
				json_string(j, render_mapping_name(in, u->frames[i]));
		}
		json_object_end(j);
	}
	/* What a limit cut has no function; one frame stands for all of it. */
	json_object_begin(j);
	json_kv_string(j, "name", "(cut)");
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
}

/* The stack of node i, root first, as frame numbers. */
static void put_stack(const struct tree *t, const struct render_used *u, size_t i,
	uint32_t *scratch, struct json *j)
{
	size_t n = 0;

	for (size_t k = i; k; k = t->parent[k])
		scratch[n++] =
			t->frame[k] == TREE_NONE ? (uint32_t)u->n : u->number[t->frame[k]] - 1;
	json_raw(j, "[", 1);
	for (size_t k = n; k-- > 0;)
		render_put_number(j->out, scratch[k], k == n - 1);
	bytes_put_u8(j->out, ']');
}

/* One profile: the stacks of the tree with a value in self[]. */
static void put_profile(const struct render_input *in, const struct render_used *u,
	const char *name, const int64_t *self, int64_t total, uint32_t *scratch, struct json *j)
{
	const struct tree *t = in->tree;

	json_object_begin(j);
	json_kv_string(j, "type", "sampled");
	json_kv_string(j, "name", name);
	json_kv_string(j, "unit", speedscope_unit(render_unit(in)));
	json_kv_int(j, "startValue", 0);
	json_kv_int(j, "endValue", total);
	json_key(j, "samples");
	json_array_begin(j);
	for (size_t i = 0; i < t->n; i++)
		if (self[i])
			put_stack(t, u, i, scratch, j);
	json_array_end(j);
	json_key(j, "weights");
	json_array_begin(j);
	for (size_t i = 0; i < t->n; i++)
		if (self[i])
			json_int(j, self[i]);
	json_array_end(j);
	json_object_end(j);
}

/* The sides of `diff`, or the tree itself when that is NULL. */
static int put_file(const struct render_input *in, const struct tree_diff *diff, struct bytes *out)
{
	_cleanup_(render_used_done)
	struct render_used u = {};
	const struct tree *t = in->tree;
	_cleanup_free_ uint32_t *scratch =
		try_realloc(NULL, tree_max_depth(t) + 1UL, sizeof(*scratch));
	struct json j = json_to(out);
	const char *name = in->title ? in->title : in->type ? in->type : "profile";
	int r = render_find_used(in, &u);

	if (r || !scratch)
		return -ENOMEM;
	json_object_begin(&j);
	json_kv_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_kv_string(&j, "name", name);
	json_kv_string(&j, "exporter", "sonde");
	json_kv_int(&j, "activeProfileIndex", 0);
	put_speedscope_frames(in, &u, &j);
	json_key(&j, "profiles");
	json_array_begin(&j);
	if (diff) {
		put_profile(in, &u, "A", diff->self_a, diff->total_a[0], scratch, &j);
		put_profile(in, &u, "B", diff->self_b, diff->total_b[0], scratch, &j);
	} else {
		put_profile(in, &u, name, t->self, t->total[0], scratch, &j);
	}
	json_array_end(&j);
	json_object_end(&j);
	bytes_put_u8(out, '\n');
	return bytes_error(out);
}

int render_speedscope(const struct render_input *in, struct bytes *out)
{
	return put_file(in, NULL, out);
}

int render_diff_speedscope(const struct render_diff *d, struct bytes *out)
{
	return put_file(&d->in, d->diff, out);
}
