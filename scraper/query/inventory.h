/* SPDX-License-Identifier: Apache-2.0
 *
 * The names and values in parts, as a set of texts. Answers of parts can be joined. Answers of parts that never change are kept beside their
 * pages (part_remember), so that the same query reads nothing of them again. catalog.c makes lists of the texts.
 */
#pragma once
#include "scraper/query/scan.h"
#include "scraper/query/series_seen.h"

/* INVENTORY_SERIES: so many texts that those of a part are not kept by themselves, but only what parts have together. */
enum inventory_what {
	INVENTORY_TYPES = 1,
	INVENTORY_METRICS,
	INVENTORY_NAMES,
	INVENTORY_VALUES,
	INVENTORY_SERIES
};

struct inventory;
/* Adds texts (inventory_add) of a label set of rows that passes, and of a value column of a stream with profiles in the range. -ENOMEM. */
typedef int inventory_set_fn(struct inventory *v, const struct scan_part *p, uint32_t set);
typedef int inventory_hit_fn(
	struct inventory *v, const struct scan_part *p, const struct scan_hit *hit);

struct inventory {
	/* the question */
	struct query_catalog c;
	enum inventory_what what;
	bool by_window; /* profiles that end later count too, when their windows begin in the range */
	const char *name;      /* INVENTORY_VALUES: of the label */
	inventory_set_fn *set; /* or NULL */
	inventory_hit_fn *hit;
	/* the answer */
	struct interner texts;
	struct interner_item *sorted; /* the first of them in order, when they were sorted before */
	size_t n_sorted;
	struct arena order; /* holds `sorted` */
	/* of the part in hand, for `set` and `hit` */
	struct scan scan;
	struct interner *into;
	uint8_t *seen_strings, *seen_types; /* NULL at first: inventory_is_new */
	struct series_seen seen;	    /* INVENTORY_SERIES */
	uint32_t last_stream;		    /* whose own values were added */
	struct scan_label label;	    /* `name` */
	struct bytes text;		    /* scratch */
};

/* Answers the question into v->texts. inventory_done afterwards in any case. -ENOMEM, -ECANCELED, the errors of
 * part.h. */
int inventory_ask(struct inventory *v, struct errbuf *eb) _must_check_;
void inventory_done(struct inventory *v);
#define _cleanup_inventory_ _cleanup_(inventory_done)

int inventory_add(struct inventory *v, const void *text, size_t n) _must_check_;
/* 1 when this string, this type, was not asked about before in this part, else 0. -ENOMEM. */
int inventory_is_new_string(struct inventory *v, uint32_t string) _must_check_;
int inventory_is_new_type(struct inventory *v, uint32_t type) _must_check_;

/* The texts of the answer, sorted bytewise, in memory of the arena. */
int inventory_sort(struct inventory *v, struct arena *a, struct interner_item **ret,
	struct errbuf *eb) _must_check_;
