/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions with the syntax and meaning of Go's regexp package (RE2), as Prometheus users
 * know them. A parser of that grammar refuses everything else by position; what it accepts is
 * matched by comparing text where the expression is literals and `.*`, and by PCRE2 otherwise.
 * Source: regexp/syntax of Go 1.26, flags syntax.Perl.
 *
 * Differences from Go: nesting and size are capped lower, and an expression whose matching needs
 * more steps than REGEX_MATCH_STEPS is an error (-ENOMEM), where Go would be slow; it is never
 * reported as a mismatch. Where a loop's body can match nothing, as in (a|)+, groups and the end of
 * a search may be Perl's; whether a text matches is the same.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>

enum {
	REGEX_MAX_BYTES = 1 << 18, /* length of an expression */
	REGEX_MAX_GROUPS = 1000,
	REGEX_MAX_DEPTH = 250,
	REGEX_MATCH_STEPS = 1000000,
};

enum regex_mode {
	REGEX_ANCHORED, /* ^(?s:RE)$: relabel rules, label matchers, label_replace */
	REGEX_SEARCH,	/* RE anywhere in the text: focus= and ignore= of pprof */
};

/* A byte range of the matched text; start is -1 for a group that took no part. */
struct regex_span {
	ptrdiff_t start, end;
};

struct regex; /* immutable: any number of threads may match at once */

/*
 * Compiles `text` (NUL-terminated). Errors: -EINVAL with "position N: reason" (N
 * counts bytes from 1), also for text that is not UTF-8; -ENOMEM. *ret is freed with regex_free.
 */
int regex_compile(
	const char *text, enum regex_mode mode, struct regex **ret, struct errbuf *eb) _must_check_;
void regex_free(struct regex *re);
static inline void regex_freep(struct regex **re)
{
	regex_free(*re);
}

/* The expression as written. */
const char *regex_text(const struct regex *re);
/* Number of capture groups, without group 0. */
unsigned regex_n_groups(const struct regex *re);

/*
 * 1 when the n bytes match, 0 when they do not; -ENOMEM with a text when the step limit is hit or
 * memory is out. Bytes that are not UTF-8 count as U+FFFD each, as in Go.
 */
int regex_match(const struct regex *re, const char *s, size_t n, struct errbuf *eb) _must_check_;
/*
 * The same, looking from byte `from` on (context before it stays visible to ^ and \b), and on a
 * match fills spans[0 .. n_spans): the whole match, then groups 1, 2 …; spans of groups that do not
 * exist get -1.
 */
int regex_match_groups(const struct regex *re, const char *s, size_t n, size_t from,
	struct regex_span *spans, size_t n_spans, struct errbuf *eb) _must_check_;

/*
 * Go's Regexp.Expand: appends `template` to `out` with $1 ${1} $name ${name} replaced by the groups
 * in `spans` (which has regex_n_groups() + 1 entries) of `s`, and $$ by $. Unknown groups are
 * empty; a malformed $ stays.
 */
void regex_expand(const struct regex *re, const char *template, const char *s,
	const struct regex_span *spans, struct bytes *out);
