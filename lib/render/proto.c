/* SPDX-License-Identifier: Apache-2.0
 *
 * The flame graph as protobuf (proto/flamegraph.proto): the same arrays as in JSON, a fifth of the bytes, no library needed.
 */
#include "lib/base/alloc.h"
#include "lib/tree/diff.h"
#include "lib/render/render_internal.h"
#include "lib/stats/trees.h"
#include <errno.h>
#include <math.h>
#include <string.h>

void render_used_done(struct render_used *u)
{
	free(u->number);
	free(u->frames);
}

int render_find_used(const struct render_input *in, struct render_used *u)
{
	size_t n = MAX(in->symbols->n_frames, (size_t)1);

	u->number = try_realloc(NULL, n, sizeof(*u->number));
	u->frames = try_realloc(NULL, n, sizeof(*u->frames));
	if (!u->number || !u->frames)
		return -ENOMEM;
	memset(u->number, 0, n * sizeof(*u->number));
	for (size_t i = 1; i < in->tree->n; i++) {
		uint32_t f = in->tree->frame[i];

		if (f == TREE_NONE || u->number[f])
			continue;
		u->frames[u->n++] = f;
		u->number[f] = (uint32_t)u->n;
	}
	return 0;
}

static void put_tag(struct bytes *out, unsigned field, unsigned wire_type)
{
	bytes_put_varint(out, field << 3 | wire_type);
}

static void put_string(struct bytes *out, unsigned field, const char *s, size_t n)
{
	put_tag(out, field, 2);
	bytes_put_varint(out, n);
	bytes_put(out, s, n);
}

static void put_text(struct bytes *out, unsigned field, const char *s)
{
	put_string(out, field, s, strlen(s));
}

static void put_symbol(struct bytes *out, unsigned field, const struct tree_symbols *s, uint32_t id)
{
	size_t n;
	const char *text = tree_symbols_text(s, id, &n);

	put_string(out, field, text, n);
}

static void put_functions(
	const struct render_input *in, const struct render_used *u, struct bytes *out)
{
	const struct tree_symbols *s = in->symbols;

	put_text(out, 4, "all");
	put_text(out, 4, "(cut)");
	for (size_t i = 0; i < u->n; i++)
		put_symbol(out, 4, s, s->frames[u->frames[i]].name);
	for (int i = 0; i < 2; i++) {
		put_text(out, 5, "");
		put_text(out, 6, "");
	}
	for (size_t i = 0; i < u->n; i++) {
		put_symbol(out, 5, s, s->frames[u->frames[i]].file);
		put_text(out, 6, render_mapping_name(in, u->frames[i]));
	}
}

/* One packed field; `scratch` takes the items first, since their length comes before them. */
static void put_packed(struct bytes *out, unsigned field, struct bytes *scratch)
{
	if (scratch->len)
		put_string(out, field, (const char *)scratch->data, scratch->len);
	if (scratch->error && !out->error)
		out->error = scratch->error;
	bytes_reset(scratch);
}

static int put_builds(const struct render_input *in, const struct render_used *u, struct bytes *out,
	struct bytes *scratch)
{
	_cleanup_(render_builds_done)
	struct render_builds b = {};
	int r = render_find_builds(in, u, &b);

	if (r)
		return r;
	for (uint32_t i = 0; i < b.sets.n_strings; i++)
		put_symbol(out, 27, &b.sets, i);
	bytes_put_varint(scratch, 0);
	bytes_put_varint(scratch, 0);
	for (size_t i = 0; i < u->n; i++)
		bytes_put_varint(scratch, b.of[i]);
	put_packed(out, 28, scratch);
	return 0;
}

static void put_wide(
	struct bytes *out, unsigned field, const int64_t *v, size_t n, struct bytes *scratch)
{
	for (size_t i = 0; i < n; i++)
		bytes_put_varint(scratch, (uint64_t)v[i]);
	put_packed(out, field, scratch);
}

static void put_nodes(const struct render_input *in, const struct render_used *u, struct bytes *out,
	struct bytes *scratch)
{
	const struct tree *t = in->tree;

	for (size_t i = 0; i < t->n; i++)
		bytes_put_varint(scratch, i == 0	      ? 0
					  : tree_is_cut(t, i) ? 1
							      : u->number[t->frame[i]] + 1UL);
	put_packed(out, 7, scratch);
	for (size_t i = 0; i < t->n; i++)
		bytes_put_varint(scratch, (uint64_t)tree_line_number(t->line[i]));
	put_packed(out, 8, scratch);
	for (size_t i = 0; i < t->n; i++)
		bytes_put_varint(scratch, t->parent[i]);
	put_packed(out, 9, scratch);
	put_wide(out, 10, t->self, t->n, scratch);
	put_wide(out, 11, t->total, t->n, scratch);
	for (size_t i = 0; i < t->n; i++)
		bytes_put_varint(scratch, render_node_kind(in, i));
	put_packed(out, 12, scratch);
	for (size_t i = 0; i < t->n; i++)
		if (tree_is_cut(t, i))
			bytes_put_varint(scratch, i);
	put_packed(out, 13, scratch);
	for (size_t i = 0; i < t->n; i++)
		if (tree_is_cut(t, i))
			bytes_put_varint(scratch, t->n_cut[i]);
	put_packed(out, 14, scratch);
}

int render_protobuf(const struct render_input *in, struct bytes *out)
{
	_cleanup_(render_used_done)
	struct render_used u = {};
	_cleanup_bytes_ struct bytes scratch = {};
	int r = render_find_used(in, &u);

	if (r)
		return r;
	bytes_init(&scratch, out->budget, 0);
	put_text(out, 1, in->title ? in->title : "");
	put_text(out, 2, render_unit(in));
	put_tag(out, 3, 0);
	bytes_put_varint(out, (uint64_t)render_magnitude(in));
	put_functions(in, &u, out);
	put_nodes(in, &u, out, &scratch);
	for (int k = 0; k < TREE_N_KINDS; k++)
		put_text(out, 15, tree_kind_name((enum tree_kind)k));
	r = put_builds(in, &u, out, &scratch);
	return r ? r : bytes_error(out);
}

/* Standard errors of one side. */
static void put_errors(const struct render_diff *d, unsigned field, const uint32_t *row, bool is_a,
	struct bytes *out, struct bytes *scratch)
{
	for (size_t i = 0; i < d->in.tree->n; i++) {
		const struct stats_row *s = row[i] == TREE_NONE ? NULL : &d->stats->nodes[row[i]];
		float v = s ? (float)(is_a ? s->se_a : s->se_b) : NAN;
		uint32_t bits;

		memcpy(&bits, &v, sizeof(bits));
		bytes_put_u32(scratch, bits);
	}
	put_packed(out, field, scratch);
}

/* q, verdict and errors of each node. */
static int put_significance(const struct render_diff *d, struct bytes *out, struct bytes *scratch)
{
	size_t n = d->in.tree->n;
	_cleanup_free_ uint32_t *row = try_realloc(NULL, n, sizeof(*row));

	if (!row)
		return -ENOMEM;
	stats_locate(d->stats, d->in.tree, row);
	for (size_t i = 0; i < n; i++) {
		double q = row[i] == TREE_NONE ? NAN : d->stats->nodes[row[i]].q;
		uint64_t bits;

		memcpy(&bits, &q, sizeof(bits));
		bytes_put_u64(scratch, bits);
	}
	put_packed(out, 22, scratch);
	for (size_t i = 0; i < n; i++)
		bytes_put_varint(
			scratch, row[i] == TREE_NONE ? STATS_FEW : d->stats->nodes[row[i]].verdict);
	put_packed(out, 23, scratch);
	for (int v = 0; v < STATS_N_VERDICTS; v++)
		put_text(out, 24, stats_verdict_name((enum stats_verdict)v));
	put_errors(d, 25, row, true, out, scratch);
	put_errors(d, 26, row, false, out, scratch);
	return 0;
}

/* The union's arrays, then those of the sides. */
int render_diff_protobuf(const struct render_diff *d, struct bytes *out)
{
	_cleanup_bytes_ struct bytes scratch = {};
	const struct tree_diff *t = d->diff;
	size_t n = t->shape.n;
	int r = render_protobuf(&d->in, out);

	if (r)
		return r;
	bytes_init(&scratch, out->budget, 0);
	put_wide(out, 16, t->self_a, n, &scratch);
	put_wide(out, 17, t->self_b, n, &scratch);
	put_wide(out, 18, t->total_a, n, &scratch);
	put_wide(out, 19, t->total_b, n, &scratch);
	for (size_t i = 0; i < n; i++)
		bytes_put_varint(&scratch,
			tree_mark_of(t->total_a[i], t->total_b[i], d->scale_a, d->scale_b));
	put_packed(out, 20, &scratch);
	for (int m = 0; m < TREE_N_MARKS; m++)
		put_text(out, 21, tree_mark_name((enum tree_mark)m));
	if (d->stats)
		r = put_significance(d, out, &scratch);
	return r ? r : bytes_error(out);
}
