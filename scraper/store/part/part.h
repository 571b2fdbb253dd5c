/* SPDX-License-Identifier: Apache-2.0
 *
 * What a query sees of the store: parts. Each block is one part and each head generation is one;
 * both offer the same arrays. A part is counted (store_parts_get); a reader is one thread's view of
 * one part, with a fixed snapshot of its lengths, so that a head that grows meanwhile looks
 * immutable.
 *
 * Ids are dense and local to the part. Node 0 is the root; parent ids are below their children's.
 * Label set 0 is the empty one, string 0 is "". In a block, nodes are in preorder with children in
 * location order, locations in order of their key, label sets in order of theirs; in a head all are
 * in order of arrival.
 *
 * All arrays returned stay valid until the reader is closed, unless said otherwise. All functions return 0 or -ENOMEM (the budget's
 * text), -EBADMSG (damaged: the block is queued for quarantine), -EIO, -ENOTSUP, and -EINVAL for a stream or page that the part does not
 * have. A reader is used by one thread at a time; a part by any number.
 */
#pragma once
#include "scraper/store/model/append.h"

/* At most: inlined lines of a location, labels of a set, schemas of a part. */
enum { PART_MAX_LINES = 1024, PART_MAX_PAIRS = 256, PART_MAX_SCHEMAS = 4096 };

struct part;
struct part_reader;

enum part_resolution { PART_RAW = 0, PART_10M = 1, PART_1H = 2 };

struct part_info {
	uint32_t id; /* unique in the process; a block with a new deletion is another part */
	char ulid[27];
	bool is_head;
	enum part_resolution resolution;   /* of this reader */
	uint32_t rollups;		   /* what else there is: 1 << PART_10M, 1 << PART_1H */
	const char *const *rollup_without; /* names that label sets of their rows do not have */
	size_t n_rollup_without;
	bool has_deletions; /* pages hold rows of profiles that are not there any more */
	int64_t min_time_ns, max_time_ns; /* of profile times (window ends); min > max when empty */
	int64_t max_duration_ns;  /* longest window: profiles with time in (t0, t1 + max_duration]
				    may touch (t0, t1] */
	uint32_t n_label_strings; /* those of labels and schemas have ids below */
	bool labels_sorted; /* these strings are sorted bytewise, and all ids of them were checked */
	uint32_t n_strings, n_functions, n_mappings, n_locations, n_nodes, n_label_sets, n_schemas,
		n_streams, n_pages;
	uint64_t n_profiles, n_rows;
};

/* Column layout shared by streams. Strings are ids. */
struct part_column {
	uint32_t type, unit;
	uint8_t kind; /* enum store_column_kind */
};
struct part_schema {
	uint8_t kind; /* enum store_stream_kind */
	uint8_t n_columns;
	uint32_t period_type, period_unit;
	struct part_column columns[STORE_MAX_COLUMNS];
};

struct part_stream {
	uint32_t schema, label_set;
	uint32_t n_profiles;
	int64_t min_time_ns, max_time_ns, max_duration_ns;
};

/* Label set i is pairs[first[i] .. first[i + 1]), sorted by name. */
struct part_label {
	uint32_t name, value; /* strings */
};
struct part_label_sets {
	const uint32_t *first; /* n_label_sets + 1 */
	const struct part_label *pairs;
};

/* Profiles of one stream, by time. Totals of a gauge column are float64 bits: part_f64(). */
struct part_profiles {
	size_t n;
	const int64_t *time_ns, *duration_ns, *period;
	const uint8_t *resolution;  /* enum part_resolution */
	const uint32_t *n_profiles; /* merged into this one; 1 when raw */
	const uint32_t *n_rows;
	const uint64_t
		*first_row; /* rows of one profile are consecutive; they may cross a page's end */
	/* Of rollups, else NULL: where the first window begins, and the time of the last profile. */
	const int64_t *begin_ns, *last_ns;
	const int64_t *total[STORE_MAX_COLUMNS];
};

struct part_page {
	uint64_t first_row;
	uint32_t n_rows;
	uint32_t first_stream, last_stream;
	int64_t min_time_ns, max_time_ns;
};

/* Columns of one page, n_rows long each. Within a profile rows are ordered by (label set, node),
 * each pair once. */
struct part_rows {
	uint32_t n_rows;
	const uint32_t *nodes;
	const uint32_t *label_sets; /* NULL when all rows carry const_label_set */
	uint32_t const_label_set;
	const int64_t *values[STORE_MAX_COLUMNS]; /* NULL where not asked */
};

struct part_function {
	uint32_t name, system_name, filename; /* strings */
	int64_t start_line;
};

enum part_mapping_kind {
	PART_MAPPING_NATIVE = 0,
	PART_MAPPING_KERNEL = 1,
	PART_MAPPING_JIT = 2,
	PART_MAPPING_INTERPRETER = 3
};
struct part_mapping {
	uint32_t filename, build_id; /* strings */
	uint8_t kind;		     /* enum part_mapping_kind */
};

enum part_location_flags {
	PART_LOCATION_FOLDED = 1,      /* pprof's is_folded */
	PART_LOCATION_HAS_ADDRESS = 2, /* address is part of the identity */
	PART_LOCATION_TRUNCATED = 4,   /* stands for frames above that were cut */
};
struct part_line {
	uint32_t function;
	int64_t line, column;
};
struct part_location {
	uint32_t mapping; /* or STORE_NONE */
	uint8_t flags;
	uint64_t address; /* within the file, when HAS_ADDRESS */
	uint32_t n_lines; /* innermost inlined first */
	const struct part_line *lines;
};

/* The budget is charged for what the reader itself allocates (copies, decode buffers). Close before
 * putting the part. */
int part_reader_open(
	struct part *p, struct budget *b, struct part_reader **ret, struct errbuf *eb) _must_check_;
/*
 * The same with streams, profiles, pages and rows of a rollup; everything else is shared with the raw reader, same ids. A profile there
 * sums the raw ones of its stream with time in (T - width, T], T its time and a multiple of the width; totals, values and durations are
 * sums, the period is 0 where they differ. Streams have the labels of the raw ones, rows lack `rollup_without`. -ENOENT: there is none.
 */
int part_reader_open_at(struct part *p, enum part_resolution resolution, struct budget *b,
	struct part_reader **ret, struct errbuf *eb) _must_check_;
void part_reader_close(struct part_reader *r);
void part_reader_closep(struct part_reader **r);
const struct part_info *part_reader_info(const struct part_reader *r);
/* The text of the last failure of this reader. */
const char *part_reader_error(const struct part_reader *r);
/* Whether an error shows damage: bytes that contradict themselves, a feature that is not known, a file that is not there whole or that the
 * disk does not give back. */
bool part_is_damage(int error);
/* A check of the caller's own showed damage: queued for quarantine with this text, or NULL: the last failure's. */
void part_report_damage(struct part_reader *r, const char *what);
/* Queued for quarantine: queries leave it out. */
bool part_is_damaged(const struct part *p);

/* Whole small tables; lengths are in part_info. */
int part_schemas(struct part_reader *r, const struct part_schema **ret) _must_check_;
int part_streams(struct part_reader *r, const struct part_stream **ret) _must_check_;
int part_label_sets(struct part_reader *r, struct part_label_sets *ret) _must_check_;
int part_mappings(struct part_reader *r, const struct part_mapping **ret) _must_check_;
/* The first n_label_strings strings. */
int part_label_strings(struct part_reader *r, const struct prof_str **ret) _must_check_;

/* The tree. parents[0] is 0. */
int part_nodes(struct part_reader *r, const uint32_t **ret_parents,
	const uint32_t **ret_locations) _must_check_;
/* XXH3-64 of each location's canonical bytes: the same in every part, store and machine. */
int part_location_keys(struct part_reader *r, const uint64_t **ret) _must_check_;

/* By id, for what survives the node limit. `ret` has n entries. An id outside the table is
 * -EBADMSG. */
int part_strings(
	struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret) _must_check_;
int part_functions(struct part_reader *r, const uint32_t *ids, size_t n,
	struct part_function *ret) _must_check_;
int part_locations(struct part_reader *r, const uint32_t *ids, size_t n,
	struct part_location *ret) _must_check_;

/* Profiles of a stream with time in [from, to], by time; valid until the next part_profiles() on this reader. */
int part_profiles(struct part_reader *r, uint32_t stream, int64_t from_ns, int64_t to_ns,
	struct part_profiles *ret) _must_check_;

/* The same with times, durations, resolutions, numbers of profiles and the total of this column alone: the other arrays may be NULL. */
int part_totals(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from_ns,
	int64_t to_ns, struct part_profiles *ret) _must_check_;

/*
 * All profiles of n neighbouring streams of one schema together, without decoding each: their rows are consecutive. 1, with *ret
 * undefined, when this part does not keep them so or some are not raw: the caller then reads part_profiles().
 */
struct part_span {
	uint64_t first_row, n_rows, n_profiles;
	int64_t min_begin_ns, max_time_ns; /* first window's begin, last one's end */
	int64_t duration_ns;		   /* sum of the windows */
	int64_t period;			   /* 0 when they differ */
};
int part_span(struct part_reader *r, uint32_t stream, uint32_t n_streams,
	struct part_span *ret) _must_check_;

/* The page table, ordered by first_row, and the page that holds a row. */
int part_pages(struct part_reader *r, const struct part_page **ret) _must_check_;
uint32_t part_page_of(const struct part_page *pages, uint32_t n_pages, uint64_t row);
/*
 * Decodes nodes (but for PART_SETS_ONLY: ret->nodes is NULL), label sets and the value columns of
 * `columns` (bit i: column i) of one page. The arrays are valid until the next part_rows() on this
 * reader.
 */
enum { PART_SETS_ONLY = 1 << STORE_MAX_COLUMNS };
int part_rows(
	struct part_reader *r, uint32_t page, uint32_t columns, struct part_rows *ret) _must_check_;

/*
 * What a query worked out of a part that never changes, kept under the page cache's cap while there is room, and no longer than the part.
 * `key` says what it is. part_recall: 1 and the bytes, valid until the reader is closed, or 0. Heads keep nothing.
 */
int part_recall(struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret,
	size_t *ret_n) _must_check_;
void part_remember(
	struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n);

static inline double part_f64(int64_t bits)
{
	union {
		int64_t i;
		double d;
	} u = {.i = bits};

	return u.d;
}

#define _cleanup_part_reader_ _cleanup_(part_reader_closep)
