/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of parts and readers, for scraper/store only.
 */
#pragma once
#include "lib/base/arena.h"
#include "scraper/store/codec/codec.h"
#include "scraper/store/part/cache.h"
#include "scraper/store/part/part.h"
#include <stdatomic.h>

/* One implementation per kind of part; the comments are in part.h. */
struct part_ops {
	int (*open)(struct part_reader *r);
	int (*schemas)(struct part_reader *r, const struct part_schema **ret);
	int (*streams)(struct part_reader *r, const struct part_stream **ret);
	int (*label_sets)(struct part_reader *r, struct part_label_sets *ret);
	int (*mappings)(struct part_reader *r, const struct part_mapping **ret);
	int (*label_strings)(struct part_reader *r, const struct prof_str **ret);
	int (*nodes)(struct part_reader *r, const uint32_t **parents, const uint32_t **locations);
	int (*location_keys)(struct part_reader *r, const uint64_t **ret);
	int (*strings)(struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret);
	int (*functions)(
		struct part_reader *r, const uint32_t *ids, size_t n, struct part_function *ret);
	int (*locations)(
		struct part_reader *r, const uint32_t *ids, size_t n, struct part_location *ret);
	int (*profiles)(struct part_reader *r, uint32_t stream, int64_t from, int64_t to,
		struct part_profiles *ret);
	/* May be NULL: `profiles` is asked. */
	int (*totals)(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from,
		int64_t to, struct part_profiles *ret);
	/* May be NULL: 1 is answered. */
	int (*span)(
		struct part_reader *r, uint32_t stream, uint32_t n_streams, struct part_span *ret);
	int (*pages)(struct part_reader *r, const struct part_page **ret);
	/* The encoded page, or at least these columns of it (bits); valid until the next call on this reader. */
	int (*page)(
		struct part_reader *r, uint32_t number, uint32_t columns, const struct page **ret);
	/* May both be NULL. */
	int (*recall)(struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret,
		size_t *ret_n);
	void (*remember)(
		struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n);
	/* A page that this part handed out does not decode; may be NULL. */
	void (*damaged)(struct part_reader *r);
	/* Whether that or another damage was met; may be NULL: never. */
	bool (*is_damaged)(const struct part *p);
	/* Releases what the reader holds beyond its arena; may be NULL. */
	void (*close)(struct part_reader *r);
	void (*free)(struct part *p);
};

struct part {
	const struct part_ops *ops;
	_Atomic unsigned refs;
	uint32_t id; /* unique in the process; the cache's key */
};

/* One reference. */
void part_init(struct part *p, const struct part_ops *ops, uint32_t id);
void part_get(struct part *p);
/* Frees with the last reference. NULL is fine. Both: any thread. */
void part_put(struct part *p);

struct deletions;
struct frame_pages;

/* What a reader of a block has pinned of one table. */
struct part_table {
	const void *whole;
	const struct frame_pages *pages;
	const void **page_data; /* per page, once asked for */
};
enum { PART_TABLES = 16 };

struct part_reader {
	struct part *part;
	struct part_info info;
	struct arena arena;
	struct errbuf errbuf;
	struct cache_entry **pins;
	size_t n_pins, cap_pins;
	struct deletions *deletions; /* of a block with tombstones, once asked for */
	/* Whole tables, once asked for. */
	const struct part_stream *streams;
	const struct part_page *pages;
	const struct prof_str *label_strings;
	struct part_table tables[PART_TABLES];
	/* part_rows */
	struct page page_view;
	struct cache_entry *page_pin;
	struct page *page_part; /* some columns, which are not worth a place in the cache */
	/* part_profiles */
	struct cache_entry *profiles_pin;
	uint32_t profiles_number, profiles_column; /* which page it is, and of it */
	struct arena profiles;
	uint32_t *nodes, *label_sets;
	int64_t *values[STORE_MAX_COLUMNS];
};

/* Remembers `e` for ops->close. -ENOMEM. */
int part_reader_pin(struct part_reader *r, struct cache_entry *e) _must_check_;
