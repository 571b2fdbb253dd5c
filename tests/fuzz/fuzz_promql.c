/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: what is refused says where, what is taken can be evaluated.
 */
#include "lib/base/alloc.h"
#include "scraper/promql/promql.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_POINTS = 3, N_SERIES = 3 };

static int fake_select(
	void *ctx, const struct promql_select *s, struct promql_value *ret, struct errbuf *eb)
{
	(void)eb;
	for (int i = 0; i < N_SERIES; i++) {
		_cleanup_labels_builder_ struct labels_builder b = {};
		struct promql_series *out = promql_add_series(ret, ctx, s->n_points);

		ASSERT(out);
		labels_builder_init(&b);
		labels_builder_set(&b, "__name__", i ? "a" : "b");
		labels_builder_set(&b, "job", i == 2 ? "x" : "y");
		ASSERT(labels_builder_finish(&b, &out->labels) == 0);
		for (size_t k = 0; k < s->n_points; k++) {
			out->present[k] = (i + k) % 3 != 0;
			out->values[k] = (double)(i * 10 + (int)k);
		}
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = xstrndup((const char *)data, size);
	_cleanup_promql_ struct promql_query q = {};
	_cleanup_promql_value_ struct promql_value v = {};
	_cleanup_arena_ struct arena arena;
	struct promql_run run = {.start_ns = 1000000000000,
		.step_ns = 1000000000,
		.n_points = N_POINTS,
		.arena = &arena,
		.select = fake_select,
		.ctx = &arena};
	struct errbuf eb = {};

	arena_init(&arena, NULL);
	if (promql_parse(text, &q, &eb) < 0) {
		ASSERT(strstr(eb.text, ": parse error: ") || strstr(eb.text, ": not supported: "));
		ASSERT(eb.text[0] >= '1' && eb.text[0] <= '9');
		return 0;
	}
	if (promql_eval(&run, &q, &v, &eb) < 0) {
		ASSERT(eb.text[0]);
		return 0;
	}
	ASSERT(v.type == q.root->type);
	for (size_t i = 0; i < v.n_series; i++)
		ASSERT(memchr(v.series[i].present, 1, N_POINTS));
	return 0;
}
