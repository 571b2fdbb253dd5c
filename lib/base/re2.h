/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of lib/base/regex: the syntax tree between the parser of Go's grammar (re2_parse.c,
 * re2_class.c), the recognition of expressions that need no engine (re2_literal.c) and the
 * translation to PCRE2 (re2_emit.c). Everything lies in one arena.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/bytes.h"
#include "lib/base/table.h"
#include <stdbool.h>
#include <stdint.h>

enum re2_op {
	RE2_EMPTY,
	RE2_RUNE,
	RE2_CLASS,
	RE2_ANY, /* also newline */
	RE2_ANY_NOT_NL,
	RE2_BEGIN_TEXT,
	RE2_END_TEXT,
	RE2_BEGIN_LINE,
	RE2_END_LINE,
	RE2_WORD_BOUNDARY,
	RE2_NO_WORD_BOUNDARY,
	RE2_CAPTURE, /* one child */
	RE2_REPEAT,  /* one child */
	RE2_CONCAT,
	RE2_ALTERNATE,
};

struct re2_range {
	uint32_t lo, hi;
};

/* \p{…}: a category or script by PCRE2's spelling. Folded: with all characters that equal one of
 * them in another case. */
struct re2_property {
	const char *name;
	bool negated, folded;
	struct re2_property *next;
};

/* Union of the ranges (sorted, disjoint, without surrogates) and properties. */
struct re2_class {
	struct re2_range *ranges;
	size_t n, cap;
	struct re2_property *properties;
	bool negated;
};

struct re2_node {
	enum re2_op op;
	bool fold;   /* RE2_RUNE: ignore case */
	bool greedy; /* RE2_REPEAT */
	uint32_t rune;
	int32_t min, max; /* RE2_REPEAT; max -1: no limit */
	uint32_t group;	  /* RE2_CAPTURE: 1, 2 … */
	uint32_t height;
	uint32_t repeats; /* largest product of nested repeat counts */
	struct re2_class *class;
	struct re2_node *child, *last_child, *next;
};

struct re2_group_name {
	const char *name;
	size_t len;
	uint32_t group;
	struct re2_group_name *next;
};

/* A parsed expression. */
struct re2_tree {
	struct arena *arena;
	struct re2_node *root;
	unsigned n_groups;
	struct re2_group_name *names; /* in the order of the groups */
};

/* State of the parser, shared by re2_parse.c and re2_class.c. */
struct re2_parser {
	struct re2_tree *tree;
	const char *text, *pos, *end;
	bool fold, multi_line, dot_nl, non_greedy;
	unsigned depth;
	size_t n_ranges; /* of all classes: bounds memory */
	struct errbuf *eb;
};

enum { RE2_MAX_RANGES = 1 << 18, RE2_MAX_PATTERN = 4 << 20 };

/* -EINVAL with "position N: text" for the place `at`. */
int re2_fail(struct re2_parser *p, const char *at, const char *fmt, ...) _printf_(3, 4);
/* Parses the whole text; *ret lies in `arena`. `dot_nl`: start with (?s). -EINVAL with the position, -ENOMEM. */
int re2_parse(const char *text, bool dot_nl, struct arena *arena, struct re2_tree *ret,
	struct errbuf *eb) _must_check_;
/* The character at p->pos, which is advanced. The text is known to be valid UTF-8 and not at its
 * end. */
uint32_t re2_next_rune(struct re2_parser *p);
/* An escape that means one character; p->pos is at the backslash. */
int re2_parse_escape(struct re2_parser *p, uint32_t *ret) _must_check_;

/* "[…]" with p->pos at the bracket. */
int re2_parse_class(struct re2_parser *p, struct re2_class **ret) _must_check_;
/* \d \s \w \pN \p{Name} and their negations: 1 and *ret set, 0 when the escape is something else.
 */
int re2_parse_class_escape(struct re2_parser *p, struct re2_class **ret) _must_check_;
/* True when the class is ranges only. */
bool re2_class_is_plain(const struct re2_class *c);

/* Appends the PCRE2 pattern (for UTF, DOTALL, newline LF) of the tree. -EINVAL: above the limit of `out`; -ENOMEM. */
int re2_emit(const struct re2_tree *tree, struct bytes *out, struct errbuf *eb) _must_check_;

/* One way of matching without an engine: pieces in this order with anything between. */
struct re2_glob {
	struct re2_piece {
		const char *text;
		size_t len;
		bool gap, gap_is_plus; /* `.*` or `.+` follows */
	} * pieces;
	size_t n_pieces; /* at least one; the last has no gap */
};

/* What is known of an anchored expression without an engine. */
struct re2_literals {
	bool is_exact; /* `texts` are all that matches */
	bool is_globs; /* `globs` say what matches */
	struct interner texts;
	struct re2_glob *globs;
	size_t n_globs;
};
/* Analyses the tree; what it keeps lies in `arena`. -ENOMEM only. */
int re2_find_literals(
	const struct re2_tree *tree, struct arena *arena, struct re2_literals *ret) _must_check_;
void re2_literals_done(struct re2_literals *l);
bool re2_literals_match(const struct re2_literals *l, const char *s, size_t n);
