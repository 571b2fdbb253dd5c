/* SPDX-License-Identifier: Apache-2.0
 *
 * Selectors: PromQL's vector selector with a profile type as the metric name,
 * `process_cpu:cpu:nanoseconds:cpu:nanoseconds{job="api", comm=~"a|b",}`. Matcher values are
 * single, double or back quoted with Go's escapes; a name may be quoted (UTF-8 names, and the type
 * itself inside the braces); regular expressions are anchored. An empty text is the same as `{}`.
 * Sources of the grammar: prometheus promql/parser; the selectors of Pyroscope and Parca.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct regex;

enum query_op { QUERY_EQ, QUERY_NE, QUERY_RE, QUERY_NRE };
enum { QUERY_MAX_MATCHERS = 32, QUERY_MAX_SELECTOR_BYTES = 64 * 1024 };

struct query_matcher {
	enum query_op op;
	char *name, *value;
	struct regex *re; /* of QUERY_RE and QUERY_NRE */
};

/* name:sample_type:sample_unit:period_type:period_unit, with an optional sixth part `delta` that
 * says nothing. */
struct query_type_id {
	char *name, *sample_type, *sample_unit, *period_type, *period_unit;
	char *block; /* owned */
};

struct query_selector {
	/* A name with at least four colons is a profile type and sets has_type; any other name is a
	 * matcher on __name__. */
	bool has_type;
	struct query_type_id type;
	struct query_matcher *matchers;
	size_t n_matchers;
};

/* *ret is the caller's, all of it on the heap. -EINVAL with "position N: …" (bytes from 1), also for a regular expression; -ENOMEM. */
int query_selector_parse(
	const char *text, struct query_selector *ret, struct errbuf *eb) _must_check_;
/* The same for a part of another text: *ret_wrong is the offset of what is wrong, which the text does not name. */
int query_selector_parse_at(const char *text, struct query_selector *ret, size_t *ret_wrong,
	struct errbuf *eb) _must_check_;
void query_selector_done(struct query_selector *s);
#define _cleanup_query_selector_ _cleanup_(query_selector_done)

/* Five or six parts separated by ':'; -EINVAL otherwise. */
int query_type_id_parse(
	const char *text, size_t n, struct query_type_id *ret, struct errbuf *eb) _must_check_;
void query_type_id_done(struct query_type_id *t);

/* 1 or 0; -ENOMEM when the expression needs more than REGEX_MATCH_STEPS. A label that is absent has the value "". */
int query_matcher_matches(
	const struct query_matcher *m, const char *value, size_t n, struct errbuf *eb) _must_check_;
