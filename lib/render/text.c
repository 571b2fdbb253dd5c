/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees as lines of text: folded stacks, the top table, CSV.
 */
#include "lib/base/arena.h"
#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "lib/render/render_internal.h"
#include "lib/tree/short_name.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

const char *render_node_name(
	const struct render_input *in, size_t i, char scratch[64], size_t *ret_len)
{
	if (i == 0 || tree_is_cut(in->tree, i)) {
		snprintf(scratch, 64, i ? "(%" PRIu32 " frames cut)" : "all",
			i ? in->tree->n_cut[i] : 0);
		*ret_len = strlen(scratch);
		return scratch;
	}
	return tree_symbols_text(
		in->symbols, in->symbols->frames[in->tree->frame[i]].name, ret_len);
}

const char *render_shown_name(
	const struct render_input *in, uint32_t frame, struct arena *arena, size_t *ret_len)
{
	const struct tree_frame *f = &in->symbols->frames[frame];
	const char *name = tree_symbols_text(in->symbols, f->name, ret_len);
	char *ret;

	if (in->names != RENDER_NAMES_SHORT || f->kind == TREE_LABEL || f->kind == TREE_UNKNOWN ||
		f->kind == TREE_TRUNCATED)
		return name;
	ret = arena_zalloc(arena, *ret_len + 1);
	if (!ret)
		return NULL;
	*ret_len = tree_short_name(name, *ret_len, ret);
	ret[*ret_len] = '\0';
	return ret;
}

const char *render_mapping_name(const struct render_input *in, uint32_t frame)
{
	uint32_t m = in->symbols->frames[frame].mapping;

	return m == TREE_NONE ? ""
			      : tree_symbols_base_name(in->symbols, in->symbols->mappings[m].file);
}

const char *render_build_id(const struct render_input *in, uint32_t frame)
{
	uint32_t m = in->symbols->frames[frame].mapping;

	return m == TREE_NONE
		       ? ""
		       : tree_symbols_text(in->symbols, in->symbols->mappings[m].build_id, NULL);
}

enum tree_kind render_node_kind(const struct render_input *in, size_t i)
{
	enum tree_kind kind;

	if (i == 0)
		return TREE_ROOT;
	if (tree_is_cut(in->tree, i))
		return TREE_CUT;
	kind = in->symbols->frames[in->tree->frame[i]].kind;
	if (in->tree->line && tree_line_is_inlined(in->tree->line[i]) &&
		(kind == TREE_NATIVE || kind == TREE_JIT))
		return TREE_INLINED;
	return kind;
}

int64_t render_magnitude(const struct render_input *in)
{
	return in->magnitude ? in->magnitude : in->whole ? in->whole : in->tree->total[0];
}

double render_whole(const struct render_input *in)
{
	int64_t whole = render_magnitude(in);

	return whole ? fabs((double)whole) : 1;
}

void render_put_folded(struct bytes *out, const char *s, size_t n)
{
	uint8_t *to = bytes_reserve(out, n);

	if (!to)
		return;
	for (size_t i = 0; i < n; i++)
		to[i] = s[i] == ';'				    ? ':'
			: (unsigned char)s[i] < ' ' || s[i] == 0x7f ? ' '
								    : (uint8_t)s[i];
	out->len += n;
}

/* Would readers take the last word of a path for its value? Of a difference there are two. */
static bool ends_in_number(const struct bytes *path)
{
	const char *p = (const char *)path->data;
	size_t i = path->len;

	while (i && memchr("0123456789.eE+-", p[i - 1], 15))
		i--;
	return i && i < path->len && p[i - 1] == ' ';
}

/*
 * A line of which no reader takes a part for anything else: what begins with # is no comment behind an empty frame, and a number
 * that ends a name no value before one. Readers leave empty frames out.
 */
static void put_folded_line(struct bytes *out, const struct bytes *path, int64_t value)
{
	if (path->data[0] == '#' || path->data[0] == ' ')
		bytes_put_u8(out, ';');
	bytes_put(out, path->data, path->len);
	if (ends_in_number(path))
		bytes_put_u8(out, ';');
	bytes_printf(out, " %" PRId64 "\n", value);
}

/* What samples without a frame and frames without a name are called: a line without a name cannot be read back. */
#define NO_STACK "[no stack]"
#define NO_NAME "[no name]"

/* The tree of the texts that are printed, as strings of `texts`: functions of one name in two files are one. */
static int tree_of_texts(const struct render_input *in, struct tree_symbols *texts,
	struct budget *budget, struct tree *ret)
{
	const struct tree *t = in->tree;
	_cleanup_free_ uint32_t *text = try_realloc(NULL, t->n, sizeof(*text));
	_cleanup_bytes_ struct bytes buf = {};
	char scratch[64];
	size_t len;

	if (!text)
		return -ENOMEM;
	bytes_init(&buf, budget, 0);
	text[0] = 0;
	for (size_t i = 1; i < t->n; i++) {
		const char *name = render_node_name(in, i, scratch, &len);

		bytes_reset(&buf);
		render_put_folded(&buf, len ? name : NO_NAME, len ? len : strlen(NO_NAME));
		text[i] = tree_symbols_string(texts, (const char *)buf.data, buf.len);
	}
	if (buf.error || tree_symbols_error(texts, NULL))
		return -ENOMEM;
	return tree_from_nodes(t->parent, text, t->self, t->n, ret, NULL);
}

/* The path of each node is the path of its parent plus a name, kept in one buffer with its length per depth. */
static int put_folded_tree(
	const struct tree *t, const struct tree_symbols *texts, struct bytes *out)
{
	_cleanup_bytes_ struct bytes path = {};
	_cleanup_free_ size_t *path_len = try_realloc(NULL, t->n, sizeof(*path_len));

	if (!path_len)
		return -ENOMEM;
	bytes_init(&path, out->budget, 0);
	path_len[0] = 0;
	if (t->n && t->self[0])
		bytes_printf(out, "%s %" PRId64 "\n", NO_STACK, t->self[0]);
	for (size_t i = 1; i < t->n && !path.error && !out->error; i++) {
		size_t len;
		const char *text = tree_symbols_text(texts, t->frame[i], &len);

		path.len = path_len[t->parent[i]];
		if (path.len)
			bytes_put_u8(&path, ';');
		bytes_put(&path, text, len);
		path_len[i] = path.len;
		if (!t->self[i])
			continue;
		if (!path.error)
			put_folded_line(out, &path, t->self[i]);
	}
	return path.error ? path.error : bytes_error(out);
}

int render_folded(const struct render_input *in, struct bytes *out)
{
	_cleanup_tree_symbols_ struct tree_symbols texts;
	_cleanup_tree_ struct tree t;
	int r;

	tree_symbols_init(&texts, out->budget);
	tree_init(&t, out->budget);
	r = tree_of_texts(in, &texts, out->budget, &t);
	return r ? r : put_folded_tree(&t, &texts, out);
}

/* A name on one line. */
void render_put_line(struct bytes *out, const char *s)
{
	for (; *s; s++)
		bytes_put_u8(out, (unsigned char)*s < ' ' ? ' ' : (uint8_t)*s);
}

static void put_time(struct bytes *out, int64_t time_ns)
{
	time_t s = (time_t)(time_ns / 1000000000);
	struct tm tm;
	char text[64];

	gmtime_r(&s, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	bytes_printf(out, "Time: %s\n", text);
}

static void put_head(const struct render_input *in, int64_t whole, struct bytes *out)
{
	char value[64], of[64];

	bytes_printf(out, "Type: %s\n", in->type ? in->type : "");
	if (in->time_ns)
		put_time(out, in->time_ns);
	render_value(whole, render_unit(in), value);
	if (in->duration_ns) {
		render_value(in->duration_ns, "nanoseconds", of);
		bytes_printf(out, "Duration: %s, ", of);
	}
	bytes_printf(out, "Total = %s", value);
	if (in->duration_ns && !strcmp(render_unit(in), "nanoseconds"))
		bytes_printf(out, " (%.2f%%)", 100.0 * (double)whole / (double)in->duration_ns);
	bytes_put_u8(out, '\n');
}

static int top_rows(const struct render_input *in, size_t max_rows, struct arena *arena,
	struct tree_row **ret_rows, size_t *ret_n, size_t *ret_all)
{
	int r = tree_top(in->tree, in->symbols, arena, ret_rows, ret_all, NULL);

	if (r)
		return r;
	*ret_n = max_rows && max_rows < *ret_all ? max_rows : *ret_all;
	return 0;
}

int render_count_name(const struct render_input *in, uint32_t frame, struct table *names)
{
	uint64_t *count = table_insert(names, in->symbols->frames[frame].name, NULL);

	if (!count)
		return -ENOMEM;
	++*count;
	return 0;
}

/* How many of the rows have each name. */
static int count_names(
	const struct render_input *in, const struct tree_row *rows, size_t n, struct table *ret)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		r = render_count_name(in, rows[i].frame, ret);
	return r;
}

/* The function and its binary; where others have its name, its source and its build too. */
static void put_function(const struct render_input *in, uint32_t frame, bool has_twins,
	struct arena *arena, struct bytes *out)
{
	size_t len;
	const char *name = render_shown_name(in, frame, arena, &len);
	const struct tree_symbols *s = in->symbols;
	const struct tree_frame *f = &s->frames[frame];
	const char *mapping = render_mapping_name(in, frame);

	render_put_line(out, name ? name : "");
	if (has_twins && f->file) {
		bytes_put_u8(out, ' ');
		render_put_line(out, tree_symbols_base_name(s, f->file));
	}
	if (*mapping && f->kind != TREE_UNKNOWN) {
		bytes_put_str(out, *mapping == '[' ? " " : " [");
		render_put_line(out, mapping);
		bytes_put_str(out, *mapping == '[' ? "" : "]");
	}
	if (has_twins && *render_build_id(in, frame))
		bytes_printf(out, " %.*s", RENDER_BUILD_DIGITS, render_build_id(in, frame));
}

int render_text(const struct render_input *in, size_t max_rows, struct bytes *out)
{
	_cleanup_arena_ struct arena arena = {};
	_cleanup_table_ struct table names = {};
	struct tree_row *rows;
	size_t n, all;
	double whole = render_whole(in), sum = 0;
	char self[64], total[64];
	int r;

	arena_init(&arena, out->budget);
	table_init(&names, out->budget);
	r = top_rows(in, max_rows, &arena, &rows, &n, &all);
	if (!r)
		r = count_names(in, rows, n, &names);
	if (r)
		return r;
	put_head(in, in->whole ? in->whole : in->tree->total[0], out);
	bytes_printf(out, "Showing %zu of %zu functions\n", n, all);
	bytes_printf(out, "%10s %6s %6s %10s %6s\n", "flat", "flat%", "sum%", "cum", "cum%");
	for (size_t i = 0; i < n; i++) {
		uint32_t name = in->symbols->frames[rows[i].frame].name;

		sum += (double)rows[i].self;
		render_value(rows[i].self, render_unit(in), self);
		render_value(rows[i].total, render_unit(in), total);
		bytes_printf(out, "%10s %5.2f%% %5.2f%% %10s %5.2f%%  ", self,
			100 * fabs((double)rows[i].self) / whole, 100 * fabs(sum) / whole, total,
			100 * fabs((double)rows[i].total) / whole);
		put_function(in, rows[i].frame, *table_find(&names, name) > 1, &arena, out);
		bytes_put_u8(out, '\n');
	}
	r = arena_error(&arena, NULL);
	return r ? r : bytes_error(out);
}

void render_csv_field(struct bytes *out, const char *s)
{
	if (!*s || (!strpbrk(s, "\",\r\n") && !strchr("=+-@\t", *s))) {
		bytes_put_str(out, s);
		return;
	}
	bytes_put_u8(out, '"');
	for (; *s; s++) {
		if (*s == '"')
			bytes_put_u8(out, '"');
		bytes_put_u8(out, (uint8_t)*s);
	}
	bytes_put_u8(out, '"');
}

int render_csv(const struct render_input *in, size_t max_rows, struct bytes *out)
{
	_cleanup_arena_ struct arena arena = {};
	struct tree_row *rows;
	size_t n, all;
	int r;

	arena_init(&arena, out->budget);
	r = top_rows(in, max_rows, &arena, &rows, &n, &all);
	if (r)
		return r;
	bytes_put_str(out, "function,file,mapping,build,line,self,total\r\n");
	for (size_t i = 0; i < n; i++) {
		const struct tree_frame *f = &in->symbols->frames[rows[i].frame];

		render_csv_field(out, tree_symbols_text(in->symbols, f->name, NULL));
		bytes_put_u8(out, ',');
		render_csv_field(out, tree_symbols_text(in->symbols, f->file, NULL));
		bytes_put_u8(out, ',');
		render_csv_field(out, render_mapping_name(in, rows[i].frame));
		bytes_put_u8(out, ',');
		render_csv_field(out, render_build_id(in, rows[i].frame));
		bytes_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 "\r\n", rows[i].line,
			rows[i].self, rows[i].total);
	}
	return bytes_error(out);
}
