/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written as folded stacks is read back, whatever functions are called: the same stacks with the same values.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/prof/text.h"
#include "lib/render/render.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_STACKS = 6, MAX_DEPTH = 4, MAX_PARTS = 5, MAX_NAME = 128, MAX_LINES = 64 };

static uint64_t random_state = 1;

/* xorshift64 */
static size_t random_below(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (size_t)(random_state % n);
}

/* What texts of stacks give a meaning to. */
static size_t random_name(char ret[MAX_NAME])
{
	static const char *const parts[] = {"a", "work", "operator ", " ", ";", "#", "# ", "1",
		" 12", "-3", ".5", "e9", "\t", "\n", "\r", "\x7f", "\x1b", "\xff", "é", "(", ") ",
		"0x12", "12/13 ", "[001] ", "4.5: ", " c: ", "PERF_RECORD_", "_[z]",
		" 7f0012345678abcd "};
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = random_below(MAX_PARTS + 1); i-- > 0;)
		n += (size_t)snprintf(
			ret + n, MAX_NAME - n, "%s", parts[random_below(ARRAY_SIZE(parts))]);
	return n;
}

static void build(struct profile *p)
{
	static const int64_t values[] = {1, 7, -5, INT64_MAX, INT64_MIN + 1, (1LL << 53) + 1};
	_cleanup_prof_builder_ struct prof_builder *b = prof_builder_new(p);

	prof_builder_type(b, "samples", "count");
	for (size_t i = 1 + random_below(MAX_STACKS); i-- > 0;) {
		uint32_t stack[MAX_DEPTH];
		size_t depth = random_below(MAX_DEPTH + 1);
		int64_t value = values[random_below(ARRAY_SIZE(values))];

		for (size_t k = 0; k < depth; k++) {
			char name[MAX_NAME];
			uint32_t text = prof_builder_string(b, name, random_name(name));
			struct prof_line line = {.function = prof_builder_function(
							 b, &(struct prof_function) {.name = text,
								    .system_name = text})};

			stack[k] = prof_builder_location(b, 0, PROF_NONE, &line, 1);
		}
		prof_builder_sample(b, stack, depth, &value, NULL, 0, true);
	}
	assert_int_equal(prof_builder_finish(b, NULL), 0);
}

struct stack_line {
	const char *p;
	size_t n;
	uint64_t value; /* sums wrap */
};

static int compare_lines(const void *a, const void *b)
{
	const struct stack_line *x = a, *y = b;
	int r = memcmp(x->p, y->p, MIN(x->n, y->n));

	return r ? r : (x->n > y->n) - (x->n < y->n);
}

/* Lines in order, those of one text added up: names that differ in control characters alone are printed alike. */
static size_t sum_lines(const struct bytes *text, struct stack_line ret[MAX_LINES])
{
	const char *p = (const char *)text->data, *end = p + text->len;
	size_t n = 0, to = 0;

	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p)), *blank;

		assert_non_null(eol);
		blank = memrchr(p, ' ', (size_t)(eol - p));
		assert_non_null(blank);
		assert_true(n < MAX_LINES);
		ret[n++] = (struct stack_line) {
			p, (size_t)(blank - p), (uint64_t)strtoll(blank + 1, NULL, 10)};
		p = eol + 1;
	}
	qsort(ret, n, sizeof(*ret), compare_lines);
	for (size_t i = 0; i < n; i++) {
		if (to && !compare_lines(&ret[to - 1], &ret[i]))
			ret[to - 1].value += ret[i].value;
		else
			ret[to++] = ret[i];
	}
	n = to;
	to = 0;
	for (size_t i = 0; i < n; i++)
		if (ret[i].value)
			ret[to++] = ret[i];
	return to;
}

static void check_same(const struct bytes *first, const struct bytes *again)
{
	struct stack_line a[MAX_LINES], b[MAX_LINES];
	size_t n = sum_lines(first, a), m = sum_lines(again, b);

	for (size_t i = 0; i < MAX(n, m); i++)
		if (n != m || compare_lines(&a[i], &b[i]) || a[i].value != b[i].value)
			fail_msg("became other stacks:\n%.*s---\n%.*s", (int)first->len,
				(const char *)first->data, (int)again->len,
				again->len ? (const char *)again->data : "");
}

static void test_folded_again(void **state)
{
	struct bytes first = {0}, again = {0};

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		struct prof_text_notes notes;
		struct errbuf eb = {.text = ""};
		struct profile p, q;

		profile_init(&p, NULL);
		profile_init(&q, NULL);
		bytes_reset(&first);
		bytes_reset(&again);
		build(&p);
		assert_int_equal(render_profile_folded(&p, 0, &first, NULL), 0);
		if (first.len) {
			if (prof_text_read(first.data, first.len, &q, &notes, &eb) < 0)
				fail_msg("%s:\n%.*s", eb.text, (int)first.len,
					(const char *)first.data);
			if (notes.n_skipped + notes.n_vanished + notes.n_controls)
				fail_msg("not read as it stands:\n%.*s", (int)first.len,
					(const char *)first.data);
			assert_int_equal(render_profile_folded(&q, 0, &again, NULL), 0);
			check_same(&first, &again);
		}
		profile_done(&p);
		profile_done(&q);
	}
	bytes_done(&first);
	bytes_done(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_folded_again)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
