/* SPDX-License-Identifier: Apache-2.0
 *
 * Which streams and value columns of which parts a selector means. What the other files of scraper/query build on.
 *
 * A matcher on a label that a stream has is decided here, once per label set, and so is one that holds for all label sets of rows or for
 * none. What is left (row_mask) is asked of each row's label set: it passes when (bits[set] & row_mask) == row_mask.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/bytes.h"
#include "lib/base/table.h"
#include "scraper/query/query.h"

struct scan_hit {
	uint32_t stream, type; /* type: index in scan.types */
	uint32_t column;
	uint32_t row_mask;
	uint32_t series; /* index in scan.series: label set and type, equal in all parts */
	bool no_rows; /* none in this part can pass; the stream's profiles still count as scrapes */
};

/* A label, looked for in one label set after the other. */
struct scan_label {
	uint32_t name;	/* the string, STORE_NONE: no set has it */
	uint32_t place; /* in the last set that had it: mostly in the next one too */
};

struct scan_part {
	struct part *part;
	struct part_reader *reader;
	const struct part_info *info;
	const struct part_schema *schemas;
	const struct part_stream *streams;
	struct part_label_sets sets;
	const struct prof_str *strings; /* of label sets and schemas, per id */
	uint32_t *bits, *has; /* per label set: matchers that hold, matchers whose label is there */
	uint32_t any_bits,
		all_bits;	   /* matchers that hold for some set of rows, for all; {} is one */
	struct scan_label name;	   /* "__name__" */
	uint8_t *is_stream_set;	   /* per label set; the others are of rows */
	uint32_t *group_values;	   /* per label set × grouping label: string id or STORE_NONE */
	uint32_t group_labels_any; /* bits of the grouping labels that some label set of rows has */
	struct scan_hit *hits;
	size_t n_hits, cap_hits;
};

struct scan {
	struct query_env *env;
	struct arena arena; /* of the plan */
	enum query_terms terms;
	const char *const *group_by;
	size_t n_group_by;
	struct scan_part *parts;
	size_t n_parts;
	struct query_type *types;
	size_t n_types, cap_types;
	struct interner type_keys, series_keys;
	struct bytes key; /* scratch of series_keys */
	bool without_series; /* set after scan_open: scan_hit.series is 0, which saves most of scan_select */
};

/* `group_by` has at most 32 names (-EINVAL). Opens every part whose profiles or windows may touch [start, end]. scan_done is due in any
 * case. -ENOMEM, -ECANCELED, the errors of part.h. */
int scan_open(struct scan *s, struct query_env *env, enum query_terms terms, int64_t start_ns,
	int64_t end_ns, const char *const *group_by, size_t n_group_by,
	struct errbuf *eb) _must_check_;
void scan_done(struct scan *s);
#define _cleanup_scan_ _cleanup_(scan_done)
/* Adds the hits of a selector to every part; NULL selects everything. Coverage streams and ends are never hit. */
int scan_select(
	struct scan *s, const struct query_selector *selector, struct errbuf *eb) _must_check_;

/* The index in scan.series of a series that was hit, by its label set and type; TREE_NONE when there is none. -ENOMEM. */
int scan_find_series(const struct scan *s, const struct scan_part *p, uint32_t set, uint32_t type,
	uint32_t *ret) _must_check_;
/* Whether streams of this schema say when others ended (STORE_END_COLUMN). */
bool scan_is_end(const struct scan_part *p, const struct part_schema *sc);

/* Closes a part's reader when it is no longer needed. */
void scan_close_part(struct scan_part *p);

static inline struct prof_str scan_string(const struct scan_part *p, uint32_t id)
{
	return p->strings[id];
}
/* -ECANCELED once the query's flag is set. */
int scan_cancelled(const struct scan *s, struct errbuf *eb) _must_check_;
/* Returns `r`, a failure of the part's reader, with its text in `eb`. */
int scan_failed(const struct scan_part *p, int r, struct errbuf *eb);
/* The same of another reader of this part. */
int scan_reader_failed(
	const struct scan_part *p, const struct part_reader *reader, int r, struct errbuf *eb);
/* -EBADMSG: what a part holds contradicts itself, although its checksums are right. The part is damaged from now on. */
int scan_contradicts(
	const struct scan_part *p, struct part_reader *reader, const char *what, struct errbuf *eb);

/*
 * Damaged parts are left out. A query that meets damage, of which its part knows from then on, runs again without that part:
 *
 *	do {
 *		n = scan_n_damaged(env);
 *		r = …;
 *	} while (scan_met_damage(env, r, n));
 */
size_t scan_n_damaged(const struct query_env *env);
bool scan_met_damage(const struct query_env *env, int r, size_t n_before);

bool scan_row_passes(const struct scan_part *p, uint32_t row_mask, uint32_t label_set);
struct scan_label scan_find_label(const struct scan_part *p, const char *name);
/* The value (a string) of a set's label, or STORE_NONE. */
static inline uint32_t scan_label(const struct scan_part *p, uint32_t set, struct scan_label *label)
{
	const struct part_label *pairs = p->sets.pairs + p->sets.first[set];
	const uint32_t n = p->sets.first[set + 1] - p->sets.first[set];

	if (label->place < n && pairs[label->place].name == label->name)
		return pairs[label->place].value;
	for (uint32_t i = 0; i < n; i++)
		if (pairs[i].name == label->name) {
			label->place = i;
			return pairs[i].value;
		}
	return STORE_NONE;
}
/* Labels of a set into a builder. */
void scan_set_labels(const struct scan_part *p, uint32_t set, struct labels_builder *b);

/* labels_hash of the labels of a set; 0 with the scratch's error when memory is out. */
uint64_t scan_set_hash(const struct scan_part *p, uint32_t set, struct bytes *scratch);
/* Whether a profile is among those that the query is for. `series`: the scan_set_hash of its labels. */
bool scan_wants_profile(const struct query_spec *q, uint64_t series, int64_t time_ns);
/* Any profile of this series. */
bool scan_wants_series(const struct query_spec *q, uint64_t series);

/*
 * The only type among the hits, as an index and a copy. -ENOENT when nothing was hit (the copy then says what was asked
 * for); -EINVAL with a list when there are several.
 */
int query_find_type(const struct scan *s, const struct query_selector *q, uint32_t *ret_index,
	struct query_type *ret, struct errbuf *eb) _must_check_;
/* The type of a column of streams with this name (string id or STORE_NONE). */
void query_type_name(const struct scan_part *p, const struct part_schema *sc, uint32_t column,
	uint32_t name, struct query_type *ret);
/* The labels that a value column gives its series, sorted, and their values; NULL for other names and for gauges. */
enum { QUERY_N_TYPE_LABELS = 5 };
extern const char *const query_type_labels[QUERY_N_TYPE_LABELS];
const char *query_type_label(const struct query_type *t, const char *name);
void query_type_copy(const struct query_type *from, struct query_type *ret);
void query_type_done(struct query_type *t);
