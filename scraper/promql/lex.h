/* SPDX-License-Identifier: Apache-2.0
 *
 * PromQL's tokens.
 */
#pragma once
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lex_kind {
	LEX_END,
	LEX_NAME, /* identifier, keyword or metric name */
	LEX_NUMBER,
	LEX_DURATION,
	LEX_STRING,
	LEX_OP, /* one of + - * / % ^ ( ) { } [ ] , : @ = or two characters of a comparison */
	LEX_BAD,
};

struct lex_token {
	enum lex_kind kind;
	size_t pos, len;
	double number;
	int64_t duration_ns;
	const char *why; /* of LEX_BAD */
};

/* The token at or after `pos`, past spaces and comments. Offsets are bytes; nothing is allocated. */
struct lex_token lex_next(const char *text, size_t n, size_t pos);
bool lex_is(const char *text, const struct lex_token *t, const char *op);
/* Equal to a keyword, whatever case. */
bool lex_is_word(const char *text, const struct lex_token *t, const char *word);
/* The end of "{…}" that begins at pos (after its brace), or `n` when it is not closed. */
size_t lex_braces_end(const char *text, size_t n, size_t pos);
