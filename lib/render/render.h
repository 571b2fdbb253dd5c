/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees as text and pictures. Every function appends to `out`, whose sticky error (-ENOMEM, -EFBIG)
 * is theirs too, or gives -ENOMEM; `out` may have got a part then. None does I/O. All take a function tree (tree_project); names come from outside and are escaped
 * for the format.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/tree/tree.h"

/* Names of functions in pictures, tables and pages: tooltips have them whole. */
enum render_names {
	RENDER_NAMES_DEFAULT, /* whole; pages begin with short ones */
	RENDER_NAMES_SHORT,   /* lib/tree/short_name.h */
	RENDER_NAMES_FULL,
};

struct render_input {
	const struct tree *tree;
	const struct tree_symbols *symbols;
	const char *type;	      /* sample type, "cpu"; NULL: "" */
	const char *unit;	      /* sample unit, "nanoseconds"; NULL: "count" */
	const char *title;	      /* NULL: none */
	const char *subtitle;	      /* NULL: none; range and selector, say */
	int64_t time_ns, duration_ns; /* 0: unknown */
	enum render_names names;      /* of SVG, text and HTML */
	int64_t whole;		      /* total of the query; 0: the tree's own */
	int64_t magnitude; /* what shares refer to, see tree_magnitude; 0: the whole is */
};

/* root;frame;frame value — one line per node with a self value; ';' in names becomes ':', line ends
 * become ' '. */
int render_folded(const struct render_input *in, struct bytes *out) _must_check_;
/* The table of `pprof -top`. max_rows 0: all. */
int render_text(const struct render_input *in, size_t max_rows, struct bytes *out) _must_check_;
/* function,file,mapping,line,self,total with a header line, RFC 4180. max_rows 0: all. */
int render_csv(const struct render_input *in, size_t max_rows, struct bytes *out) _must_check_;
/* One field: quoted where it has to be, or where a spreadsheet would take it for a formula. */
void render_csv_field(struct bytes *out, const char *s);
/* speedscope's own format (https://www.speedscope.app/file-format-schema.json), one sampled
 * profile. */
int render_speedscope(const struct render_input *in, struct bytes *out) _must_check_;
/* Graphviz call graph of the max_nodes functions with the largest totals (0: 80), as pprof -dot
 * draws it. */
int render_dot(const struct render_input *in, size_t max_nodes, struct bytes *out) _must_check_;

struct render_svg_options {
	unsigned width_px;   /* 0: 1200 */
	bool root_on_top;    /* icicle; else flames */
	double min_width_px; /* narrower nodes are left out, what is left out is said in the footer;
				0: 0.3 */
	unsigned max_depth;  /* 0: 200 */
};
/* A static SVG: no script, no external reference; each bar has a <title> with name, value and
 * share; legend with the unit. */
int render_svg(const struct render_input *in, const struct render_svg_options *opt,
	struct bytes *out) _must_check_;
/* The Content-Security-Policy of the two kinds of pages: their own script, nothing from elsewhere. */
extern const char render_page_policy[];
/* A self-contained page that opens from disk: the web interface's flame graph and table; without script the SVG and the top functions. */
int render_html(const struct render_input *in, struct bytes *out) _must_check_;
/* Such a page without contents, for who fills them in (ui/src/export/page.ts): of what it shows there is `{}`, the tree and the part without script are empty. */
void render_page_frame(struct bytes *out);

/*
 * The flat arrays of the flame graph API as members of the JSON object that the caller has begun:
 * unit, total, functions {name[], file[], mapping[], build[], builds[]}, function[], line[], parent[], self[],
 * total_by_node[], kind[], kinds[] (names of the numbers in kind[]) and cut {node: number of
 * nodes}.
 */
struct json;
int render_json_members(const struct render_input *in, struct json *j) _must_check_;
/* The same as protobuf: proto/flamegraph.proto, title as profile_type. */
int render_protobuf(const struct render_input *in, struct bytes *out) _must_check_;
/* rows [{function, file, line, mapping, self, total}] as a member of the object. limit 0: all. */
int render_json_rows(const struct render_input *in, size_t limit, struct json *j) _must_check_;

/*
 * A difference: `in` has its shape as tree. JSON members as render_json_members has them, but self_a[], self_b[], total_a[], total_b[]
 * and mark[] per node, marks[] (the names), and rows; folded: `stack a b` a line, as difffolded.pl writes it; CSV and text: the table.
 */
struct tree_diff;
struct tree_diff_row;
struct stats_trees;
struct render_diff {
	struct render_input in;
	const struct tree_diff *diff;
	const struct tree_diff_row *rows;
	size_t n_rows;	  /* those to show */
	size_t max_lines; /* of render_diff_table and pages; 0: all */
	double scale_a, scale_b;
	const struct stats_trees
		*stats; /* what replicates say, over the same symbols; NULL: there are none */
	const char *label_a, *label_b; /* NULL: "A", "B" */
};
int render_diff_json(const struct render_diff *d, struct json *j) _must_check_;
/* Two columns, as difffolded.pl writes them; those of A are multiplied by `factor_a` and rounded. */
int render_diff_folded(
	const struct render_diff *d, double factor_a, struct bytes *out) _must_check_;
int render_diff_csv(const struct render_diff *d, struct bytes *out) _must_check_;
/* As render_protobuf, self and total of the union, with the fields of the sides. */
int render_diff_protobuf(const struct render_diff *d, struct bytes *out) _must_check_;
int render_diff_text(const struct render_diff *d, struct bytes *out) _must_check_;
/*
 * With stats: the table of functions with means of both sides, change, interval, q, detectable effect and verdict, by the size of the
 * change; as text or as a Markdown table. `by_self`: of selfs, else of totals.
 */
int render_diff_table(
	const struct render_diff *d, bool by_self, bool markdown, struct bytes *out) _must_check_;

/* Whose values are the widths of a difference's bars. */
enum render_width { RENDER_WIDTH_AFTER, RENDER_WIDTH_BEFORE, RENDER_WIDTH_BOTH };
/*
 * A differential flame graph: red is more in B, blue is less, pale is little, grey is not significant (without replicates: no more than
 * sampling error). Each child of the root has its own scale when `panels`.
 */
int render_diff_svg(const struct render_diff *d, enum render_width width, bool panels,
	struct bytes *out) _must_check_;
/* One thing that was measured of each run, beside the profile. */
struct render_metric {
	const char *name, *unit; /* a unit of render_value */
	const double *a, *b;	 /* in it, as the runs came */
	size_t n_a, n_b;	 /* at least one each */
};
/* What was measured over the time of runs; seconds, progress and each metric's values have as many points as the run has. */
struct render_over_time {
	const char *const *names, *const *units; /* of the metrics */
	size_t n_metrics;
	const struct render_run_points {
		const double *seconds, *progress; /* NAN: not known */
		const double *const *values;	  /* per metric */
		size_t n;
	} * runs; /* those of A first */
	size_t n_a, n_b;
};
struct json;
/* {metrics [{name, unit}], a, b [{seconds[], progress[], values[][]}]}, null where a value is not known, as a member of the object. */
void render_over_time_json(const struct render_over_time *o, struct json *j);
/* How good a side's samples are; NAN: not known. */
struct render_quality {
	double hz;	  /* rate of sampling */
	double lost, cut; /* shares of the samples */
};
struct render_diff_page {
	const char *head; /* lines above the tables, or NULL */
	bool panels;	  /* as of render_diff_svg */
	const struct render_metric *metrics;
	size_t n_metrics;
	const struct render_over_time *over_time; /* or NULL */
	const char *const *
		files; /* of the runs, those of A first, seen from where the page lies; or NULL, each too */
	size_t n_files_a, n_files;
	const struct render_quality *quality; /* of A and of B, or NULL */
};
/* As render_html: both graphs, each side's own, the table of functions, a chart of each metric. */
int render_diff_html(const struct render_diff *d, const struct render_diff_page *page,
	struct bytes *out) _must_check_;
/* Two profiles, A and B, unscaled. */
int render_diff_speedscope(const struct render_diff *d, struct bytes *out) _must_check_;
/* As render_dot, of the functions with the largest |A| + |B|; red is more in B, blue less, grey equal. */
int render_diff_dot(const struct render_diff *d, size_t max_nodes, struct bytes *out) _must_check_;

/* For a person: units_text; NULL is "count". A sum that reached the limit of 63 bits (prof_add) is "at least" that. */
void render_value(int64_t value, const char *unit, char ret[64]);

/* HTML and XML text: & < > " ' escaped, control characters and invalid UTF-8 replaced. */
void render_escape(struct bytes *out, const char *s, size_t n);
void render_escape_str(struct bytes *out, const char *s);

/*
 * Straight from a profile: builds the tree of column `value_index` and renders it. Memory beyond
 * `out` is charged to p->arena.budget. Errors: -EINVAL (no such column), -ENOMEM, -EFBIG.
 */
struct profile;
int render_profile_folded(const struct profile *p, size_t value_index, struct bytes *out,
	struct errbuf *eb) _must_check_;
int render_profile_svg(const struct profile *p, size_t value_index, const char *title,
	enum render_names names, const struct render_svg_options *opt, struct bytes *out,
	struct errbuf *eb) _must_check_;
int render_profile_html(const struct profile *p, size_t value_index, const char *title,
	enum render_names names, struct bytes *out, struct errbuf *eb) _must_check_;
/* `id`: what makes functions one, as in tree_project. */
int render_profile_text(const struct profile *p, size_t value_index, const struct tree_identity *id,
	size_t max_rows, enum render_names names, struct bytes *out,
	struct errbuf *eb) _must_check_;
