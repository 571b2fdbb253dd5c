/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of Go's syntax: parse, try without an engine, else translate for PCRE2.
 * Expansion of templates.
 */
#include "lib/base/regex.h"
#include "lib/base/alloc.h"
#include "lib/base/re2.h"
#include "lib/base/re2_pcre.h"
#include "lib/base/str.h"
#include "lib/base/ucase.h"
#include <string.h>

struct regex {
	char *text;
	struct arena arena; /* names, pieces */
	struct re2_group_name *names;
	unsigned n_groups;
	enum regex_mode mode;
	struct re2_literals literals; /* anchored only */
	struct re2_pcre *pcre;	      /* NULL when the literals answer everything */
	bool is_whole_group;	      /* "(.*)": group 1 is the text */
};

/* The group names outlive the tree. */
static int keep_names(struct regex *re, const struct re2_tree *tree)
{
	struct re2_group_name **tail = &re->names;

	re->n_groups = tree->n_groups;
	for (const struct re2_group_name *g = tree->names; g; g = g->next) {
		struct re2_group_name *copy = arena_alloc(&re->arena, sizeof(*copy));

		if (!copy)
			return -ENOMEM;
		*copy = (struct re2_group_name) {
			arena_strndup(&re->arena, g->name, g->len), g->len, g->group, NULL};
		*tail = copy;
		tail = &copy->next;
	}
	return arena_error(&re->arena, NULL);
}

static int compile_pcre(struct regex *re, const struct re2_tree *tree, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes pattern;
	int r;

	bytes_init(&pattern, NULL, RE2_MAX_PATTERN);
	bytes_put_str(&pattern, re->mode == REGEX_ANCHORED ? "\\A(?:" : "(?:");
	r = re2_emit(tree, &pattern, eb);
	bytes_put_str(&pattern, re->mode == REGEX_ANCHORED ? ")\\z" : ")");
	if (r == 0 && bytes_error(&pattern) < 0)
		r = err_set(eb, -ENOMEM, "out of memory");
	return r < 0 ? r : re2_pcre_new(pattern.data, pattern.len, &re->pcre, eb);
}

int regex_compile(const char *text, enum regex_mode mode, struct regex **ret, struct errbuf *eb)
{
	_cleanup_(regex_freep)
	struct regex *re = xcalloc(1, sizeof(*re));
	_cleanup_arena_ struct arena scratch;
	struct re2_tree tree;
	int r;

	arena_init(&scratch, NULL);
	arena_init(&re->arena, NULL);
	interner_init(&re->literals.texts, NULL);
	re->mode = mode;
	r = re2_parse(text, mode == REGEX_ANCHORED, &scratch, &tree, eb);
	if (r < 0)
		return r;
	re->text = try_malloc(strlen(text) + 1);
	if (!re->text || keep_names(re, &tree) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	memcpy(re->text, text, strlen(text) + 1);
	re->is_whole_group = mode == REGEX_ANCHORED && !strcmp(text, "(.*)");
	if (mode == REGEX_ANCHORED && re2_find_literals(&tree, &re->arena, &re->literals) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	if ((!re->literals.is_exact && !re->literals.is_globs) ||
		(re->n_groups && !re->is_whole_group)) {
		r = compile_pcre(re, &tree, eb);
		if (r < 0)
			return r;
	}
	*ret = TAKE(re);
	return 0;
}

void regex_free(struct regex *re)
{
	if (!re)
		return;
	re2_literals_done(&re->literals);
	re2_pcre_free(re->pcre);
	arena_done(&re->arena);
	free(re->text);
	free(re);
}

const char *regex_text(const struct regex *re)
{
	return re->text;
}

unsigned regex_n_groups(const struct regex *re)
{
	return re->n_groups;
}

/* Where offset `off` of the sanitized text (or, `back`, of the original) lies in the other. */
static size_t translate(const char *s, size_t n, size_t off, bool back)
{
	size_t original = 0, clean = 0;

	while (original < n && (back ? original : clean) < off) {
		size_t len = str_utf8_len(s + original, n - original);

		original += len ? len : 1;
		clean += len ? len : 3;
	}
	return back ? clean : original;
}

static int match_not_utf8(const struct regex *re, const char *s, size_t n, size_t from,
	struct regex_span *spans, size_t n_spans, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes clean = {0};
	int r;

	str_put_utf8(s, n, &clean);
	if (bytes_error(&clean) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	r = regex_match_groups(re, (const char *)clean.data, clean.len, translate(s, n, from, true),
		spans, n_spans, eb);
	for (size_t i = 0; r > 0 && i < n_spans; i++) {
		if (spans[i].start < 0)
			continue;
		spans[i].start = (ptrdiff_t)translate(s, n, (size_t)spans[i].start, false);
		spans[i].end = (ptrdiff_t)translate(s, n, (size_t)spans[i].end, false);
	}
	return r;
}

int regex_match(const struct regex *re, const char *s, size_t n, struct errbuf *eb)
{
	return regex_match_groups(re, s, n, 0, NULL, 0, eb);
}

int regex_match_groups(const struct regex *re, const char *s, size_t n, size_t from,
	struct regex_span *spans, size_t n_spans, struct errbuf *eb)
{
	bool has_literals = re->literals.is_exact || re->literals.is_globs;

	if (!str_is_utf8(s, n))
		return match_not_utf8(re, s, n, from, spans, n_spans, eb);
	if (has_literals) {
		if (from != 0 || !re2_literals_match(&re->literals, s, n))
			return 0;
		if (n_spans <= 1 || !re->pcre) {
			for (size_t i = 0; i < n_spans; i++) {
				bool is_whole = i == 0 || (i == 1 && re->is_whole_group);

				spans[i] = is_whole ? (struct regex_span) {0, (ptrdiff_t)n}
						    : (struct regex_span) {-1, -1};
			}
			return 1;
		}
	}
	return re2_pcre_match(re->pcre, s, n, from, spans, n_spans, eb);
}

/* Letters and digits of Unicode, as in the names of a template. ASCII needs no engine. */
static size_t name_char_len(const char *s, size_t n, struct re2_pcre **letters)
{
	size_t len = str_utf8_len(s, n);
	struct regex_span span;
	char c = *s;

	if (len == 1)
		return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
	if (len == 0)
		return 0;
	if (!*letters && re2_pcre_new("\\A[\\p{L}\\p{Nd}]", 15, letters, NULL) < 0)
		return 0;
	return re2_pcre_match(*letters, s, len, 0, &span, 1, NULL) > 0 ? len : 0;
}

struct template_ref {
	const char *name;
	size_t len;
};

/* A reference behind the '$' at s[-1]: its name and the number of bytes it takes, or 0 when
 * malformed. */
static size_t parse_ref(const char *s, struct template_ref *ret)
{
	_cleanup_(re2_pcre_freep)
	struct re2_pcre *letters = NULL;
	bool braced = *s == '{';
	const char *name = s + braced, *end = name;

	for (size_t left = strlen(name), len; left; left -= len, end += len) {
		len = name_char_len(end, left, &letters);
		if (!len)
			break;
	}
	if (end == name || (braced && *end != '}'))
		return 0;
	*ret = (struct template_ref) {name, (size_t)(end - name)};
	return (size_t)(end + braced - s);
}

/* The number a name means, or -1. Leading zeros and large numbers make it a name. */
static int group_number(const struct template_ref *ref)
{
	int v = 0;

	if (ref->name[0] == '0' && ref->len > 1)
		return -1;
	for (size_t i = 0; i < ref->len; i++) {
		if (ref->name[i] < '0' || ref->name[i] > '9' || v >= 100000000)
			return -1;
		v = v * 10 + (ref->name[i] - '0');
	}
	return v;
}

static struct regex_span find_span(
	const struct regex *re, const struct regex_span *spans, const struct template_ref *ref)
{
	int number = group_number(ref);

	if (number >= 0)
		return (unsigned)number <= re->n_groups ? spans[number]
							: (struct regex_span) {-1, -1};
	for (const struct re2_group_name *g = re->names; g; g = g->next) {
		if (g->len == ref->len && !memcmp(g->name, ref->name, ref->len) &&
			spans[g->group].start >= 0)
			return spans[g->group];
	}
	return (struct regex_span) {-1, -1};
}

void regex_expand(const struct regex *re, const char *template, const char *s,
	const struct regex_span *spans, struct bytes *out)
{
	while (*template) {
		const char *dollar = strchrnul(template, '$');
		struct template_ref ref;
		struct regex_span span;
		size_t len;

		bytes_put(out, template, (size_t)(dollar - template));
		if (!*dollar)
			return;
		template = dollar + 1;
		if (*template == '$') {
			bytes_put_u8(out, '$');
			template ++;
			continue;
		}
		len = *template ? parse_ref(template, &ref) : 0;
		if (!len) {
			bytes_put_u8(out, '$');
			continue;
		}
		template += len;
		span = find_span(re, spans, &ref);
		if (span.start >= 0)
			bytes_put(out, s + span.start, (size_t)(span.end - span.start));
	}
}
