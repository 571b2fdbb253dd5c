/* SPDX-License-Identifier: Apache-2.0
 *
 * Names as people say them: a table that the web interface reads too, and what holds for any name.
 */
#include "lib/base/cleanup.h"
#include "lib/base/str.h"
#include "lib/tree/short_name.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX = 4096 };

static void test_table(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("tests/data/short_names.txt", "re");
	char line[MAX], text[MAX];
	size_t n = 0;

	(void)state;
	if (!f)
		fail_msg("tests/data/short_names.txt is missing; run from the top of the tree");
	while (fgets(line, sizeof(line), f)) {
		char *tab = strchr(line, '\t');

		if (*line == '#')
			continue;
		assert_non_null(tab);
		tab[strcspn(tab, "\n")] = '\0';
		*tab = '\0';
		text[tree_short_name(line, strlen(line), text)] = '\0';
		assert_string_equal(text, tab + 1);
		n++;
	}
	assert_true(n > 50);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 33;
}

/* Pieces of names in any order. */
static size_t random_name(uint64_t *seed, char *ret)
{
	static const char *const pieces[] = {"a", "std::", "__1::", "basic_", "string", "<", ">",
		"<char", "(", ")", "[", "]", "{", "}", " ", "::", "operator", "->", "<<", ",", "*",
		" const", " &", "::h0123456789abcdef", ".cold", ".constprop.0", " [clone .x]",
		"\xc3\xb6", "\xe2\x80\xa6", "impl ", "lambda", "#1", " to ", "0", ".", "\xff"};
	size_t n = 0;

	for (size_t i = next(seed) % 40; i > 0; i--) {
		const char *piece = pieces[next(seed) % ARRAY_SIZE(pieces)];

		memcpy(ret + n, piece, strlen(piece));
		n += strlen(piece);
	}
	return n;
}

/* Stays within its room (of exactly the name's size), is not empty, and no longer in characters. */
static void test_any_name(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		char name[MAX];
		size_t len = random_name(&seed, name), n, chars = 0;
		_cleanup_free_ char *exact = malloc(len ? len : 1);
		_cleanup_free_ char *room = malloc(len ? len : 1);

		assert_non_null(exact);
		assert_non_null(room);
		memcpy(exact, name, len);
		n = tree_short_name(exact, len, room);
		assert_true(n <= len);
		assert_true(n > 0 || !len);
		for (size_t k = 0; k < n; k++)
			chars += ((unsigned char)room[k] & 0xc0) != 0x80;
		assert_true(chars <= TREE_SHORT_CHARS);
	}
}

/* Names as compilers write them: what is short stays. */
static size_t type(uint64_t *seed, char *ret, int depth)
{
	static const char *const types[] = {"int", "char const*", "ns::T", "std::string", "F&&"};
	const char *text = types[next(seed) % ARRAY_SIZE(types)];
	size_t n = strlen(text);

	memcpy(ret, text, n);
	if (depth < 3 && next(seed) % 3 == 0) {
		ret[n++] = '<';
		n += type(seed, ret + n, depth + 1);
		ret[n++] = '>';
	}
	return n;
}

static size_t written_name(uint64_t *seed, char *ret)
{
	static const char *const parts[] = {
		"ns", "(anonymous namespace)", "T", "{lambda(int)#1}", "std::vector", "value"};
	static const char *const ends[] = {
		"run", "operator()", "operator<<", "~T", "operator bool"};
	static const char *const behind[] = {"", "", " const", ".cold", " [clone .part.0]"};
	size_t n = 0;
	const char *text;

#define PUT(list)                                   \
	text = list[next(seed) % ARRAY_SIZE(list)]; \
	memcpy(ret + n, text, strlen(text));        \
	n += strlen(text)
	if (next(seed) % 2) {
		n += type(seed, ret, 0);
		ret[n++] = ' ';
	}
	for (size_t i = next(seed) % 4; i > 0; i--) {
		PUT(parts);
		if (next(seed) % 3 == 0 && ret[n - 1] != ')' && ret[n - 1] != '}') {
			ret[n++] = '<';
			n += type(seed, ret + n, 0);
			ret[n++] = '>';
		}
		ret[n++] = ':';
		ret[n++] = ':';
	}
	PUT(ends);
	ret[n++] = '(';
	n += type(seed, ret + n, 0);
	ret[n++] = ')';
	PUT(behind);
#undef PUT
	return n;
}

static void test_short_stays(void **state)
{
	uint64_t seed = 11;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		char name[MAX], once[MAX], twice[MAX];
		size_t len = written_name(&seed, name), n = tree_short_name(name, len, once);

		once[n] = name[len] = '\0';
		twice[tree_short_name(once, n, twice)] = '\0';
		if (strcmp(once, twice) != 0)
			fail_msg("%s: %s, then %s", name, once, twice);
		if (strstr(once, "int") || strstr(once, "ns::T const") || strstr(once, "clone"))
			fail_msg("%s: %s", name, once);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_any_name),
		cmocka_unit_test(test_short_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
