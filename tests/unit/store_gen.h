/* SPDX-License-Identifier: Apache-2.0
 *
 * Random scrapes for tests of the store: profiles over a pool of functions, drawn from a seed, with series, row labels, two value
 * columns, gauges, coverage and a cursor. The same (seed, target, step) gives the same scrape.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/part/dump.h"
#include "scraper/store/store.h"
#include <stdio.h>
#include <string.h>

enum { GEN_MAX_STREAMS = 4, GEN_MAX_SETS = 4, GEN_GAUGES = 2 };

struct gen {
	uint64_t state;
	unsigned n_functions, max_depth, max_rows, n_streams;
};

static inline uint64_t gen_random(struct gen *g)
{
	return hash_mix(g->state += 0x9e3779b97f4a7c15ULL);
}

static inline uint64_t gen_below(struct gen *g, uint64_t n)
{
	return gen_random(g) % n;
}

struct gen_scrape {
	struct profile profile;
	struct labels streams[GEN_MAX_STREAMS], sets[GEN_MAX_SETS], target,
		gauge_labels[GEN_GAUGES];
	const struct labels *stream_ptrs[GEN_MAX_STREAMS];
	struct store_column columns[2];
	struct store_gauge gauges[GEN_GAUGES];
	struct store_coverage coverage;
	uint32_t *row_sample, *row_stream, *row_labels;
	int64_t *values;
	char key[32], before[32], after[32];
	struct store_scrape s;
};

static inline void gen_labels(
	struct labels *ret, const char *name, unsigned target, const char *k, unsigned v)
{
	_cleanup_labels_builder_ struct labels_builder b;
	char text[64];
	int r;

	labels_builder_init(&b);
	if (name)
		labels_builder_set(&b, "__name__", name);
	if (name) {
		snprintf(text, sizeof(text), "host-%u:7273", target);
		labels_builder_set(&b, "instance", text);
		labels_builder_set(&b, "job", "node");
	}
	if (k) {
		snprintf(text, sizeof(text), "%s-%u", k, v);
		labels_builder_set(&b, k, text);
	}
	r = labels_builder_finish(&b, ret);
	ASSERT(!r);
}

static inline uint32_t gen_location(struct gen *g, struct prof_builder *b, unsigned f)
{
	char name[64];
	int n = snprintf(name, sizeof(name), "function_%u", f);
	uint32_t string = prof_builder_string(b, name, (size_t)n), file, mapping;
	struct prof_mapping m = {.start = 0x400000, .limit = 0x800000, .file_off = 0x1000};
	struct prof_line lines[2];
	unsigned lib = f % 5;

	n = snprintf(name, sizeof(name), lib ? "/usr/lib/lib%u.so" : "[kernel.kallsyms]", lib);
	m.filename = prof_builder_string(b, name, (size_t)n);
	n = snprintf(name, sizeof(name), "build%u", lib);
	m.build_id = prof_builder_string(b, name, (size_t)n);
	mapping = prof_builder_mapping(b, &m);
	n = snprintf(name, sizeof(name), "src/file%u.c", f % 17);
	file = prof_builder_string(b, name, (size_t)n);
	lines[0] = (struct prof_line) {
		.function = prof_builder_function(b, &(struct prof_function) {.name = string,
							     .system_name = string,
							     .filename = file,
							     .start_line = f}),
		.line = f + 3,
	};
	lines[1] = lines[0];
	lines[1].line = f + 40;
	(void)g;
	/* Every eleventh has no name, every seventh is inlined into itself. */
	return prof_builder_location(b, 0x400000 + f * 16ULL, mapping, lines,
		f % 11 == 10 ? 0
		: f % 7 == 6 ? 2
			     : 1);
}

static inline void gen_profile(struct gen *g, struct profile *p, size_t n_samples)
{
	struct prof_builder *b;
	struct errbuf eb = {.text = ""};
	int r;

	profile_init(p, NULL);
	b = prof_builder_new(p);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	for (size_t i = 0; i < n_samples; i++) {
		uint32_t stack[256];
		size_t n = 1 + gen_below(g, g->max_depth);
		int64_t values[2] = {1 + (int64_t)gen_below(g, 5), 0};
		uint64_t f = gen_below(g, 3);

		values[1] = values[0] * 10101010;
		/* Stacks share their roots: the next frame follows from the one before and one of three choices. */
		for (size_t at = n; at; at--) {
			stack[at - 1] = gen_location(g, b, (unsigned)(f % g->n_functions));
			f = hash_mix(f) + gen_below(g, 3);
		}
		prof_builder_sample(b, stack, n, values, NULL, 0, 0);
	}
	r = prof_builder_finish(b, &eb);
	ASSERT(!r);
	prof_builder_freep(&b);
}

static inline struct gen_scrape *gen_scrape(
	struct gen *g, unsigned target, uint64_t step, int64_t time_ns)
{
	struct gen_scrape *x = xcalloc(1, sizeof(*x));
	size_t n = gen_below(g, g->max_rows + 1);

	gen_profile(g, &x->profile, n);
	x->row_sample = xcalloc(n, sizeof(uint32_t));
	x->row_stream = xcalloc(n, sizeof(uint32_t));
	x->row_labels = xcalloc(n, sizeof(uint32_t));
	x->values = xcalloc(n * 2, sizeof(int64_t));
	for (unsigned i = 0; i < g->n_streams; i++) {
		gen_labels(&x->streams[i], "process_cpu", target, "comm", i);
		x->stream_ptrs[i] = &x->streams[i];
	}
	for (unsigned i = 0; i < GEN_MAX_SETS; i++)
		gen_labels(&x->sets[i], NULL, 0, "thread_name", i);
	for (size_t i = 0; i < n; i++) {
		x->row_sample[i] = (uint32_t)i;
		x->row_stream[i] = (uint32_t)gen_below(g, g->n_streams);
		x->row_labels[i] =
			gen_below(g, 2) ? STORE_NONE : (uint32_t)gen_below(g, GEN_MAX_SETS);
		memcpy(x->values + 2 * i, x->profile.values + 2 * i, 2 * sizeof(int64_t));
	}
	gen_labels(&x->target, "process_cpu", target, NULL, 0);
	gen_labels(&x->gauge_labels[0], "up", target, NULL, 0);
	gen_labels(&x->gauge_labels[1], "scrape_duration_seconds", target, NULL, 0);
	x->gauges[0] = (struct store_gauge) {
		.labels = &x->gauge_labels[0], .time_ns = time_ns, .value = 1};
	x->gauges[1] = (struct store_gauge) {.labels = &x->gauge_labels[1],
		.time_ns = time_ns,
		.value = (double)gen_below(g, 1000) / 1000};
	x->coverage = (struct store_coverage) {.labels = &x->target,
		.time_ns = time_ns,
		.duration_ns = 15 * NS_PER_S,
		.lost_ns = (int64_t)gen_below(g, 2)};
	x->columns[0] =
		(struct store_column) {.type = "samples", .unit = "count", .kind = STORE_DELTA};
	x->columns[1] =
		(struct store_column) {.type = "cpu", .unit = "nanoseconds", .kind = STORE_DELTA};
	snprintf(x->key, sizeof(x->key), "node/%u", target);
	snprintf(x->before, sizeof(x->before), "%llu", (unsigned long long)step);
	snprintf(x->after, sizeof(x->after), "%llu", (unsigned long long)step + 1);
	x->s = (struct store_scrape) {
		.profile = &x->profile,
		.period_type = "cpu",
		.period_unit = "nanoseconds",
		.period = 10101010,
		.time_ns = time_ns,
		.duration_ns = 15 * NS_PER_S,
		.columns = x->columns,
		.n_columns = 2,
		.streams = x->stream_ptrs,
		.n_streams = g->n_streams,
		.label_sets = x->sets,
		.n_label_sets = GEN_MAX_SETS,
		.row_sample = x->row_sample,
		.row_stream = x->row_stream,
		.row_labels = x->row_labels,
		.values = x->values,
		.n_rows = n,
		.gauges = x->gauges,
		.n_gauges = GEN_GAUGES,
		.coverage = &x->coverage,
		.n_coverage = 1,
		.cursor_key = {x->key, strlen(x->key)},
		.cursor_before = {x->before, strlen(x->before)},
		.cursor_after = {x->after, strlen(x->after)},
	};
	return x;
}

static inline void gen_scrape_free(struct gen_scrape *x)
{
	profile_done(&x->profile);
	for (unsigned i = 0; i < GEN_MAX_STREAMS; i++)
		labels_done(&x->streams[i]);
	for (unsigned i = 0; i < GEN_MAX_SETS; i++)
		labels_done(&x->sets[i]);
	for (unsigned i = 0; i < GEN_GAUGES; i++)
		labels_done(&x->gauge_labels[i]);
	labels_done(&x->target);
	free(x->row_sample);
	free(x->row_stream);
	free(x->row_labels);
	free(x->values);
	free(x);
}

/* Everything that the store answers, as one text: profiles of all parts, each line with its stream in front, sorted. */
static inline int gen_by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline char *gen_dump_store(struct store *s, bool check)
{
	struct bytes all = {.data = NULL}, out = {.data = NULL};
	struct store_parts parts;
	char **lines = NULL, *stream = NULL, *profile = NULL, *save = NULL, *text;
	size_t n = 0, cap = 0;
	int r = store_parts_get(s, INT64_MIN, INT64_MAX, &parts);

	ASSERT(!r);
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;
		struct dump_options o = {.rows = true};
		struct dump_counts counts;
		struct errbuf eb = {.text = ""};

		r = part_reader_open(parts.items[i], NULL, &reader, &eb);
		if (!r && check)
			r = dump_check(reader, &counts);
		if (!r)
			r = dump_part(reader, &o, &all);
		if (r)
			fprintf(stderr, "dump: %s\n", reader ? part_reader_error(reader) : eb.text);
		ASSERT(!r);
	}
	store_parts_put(s, &parts);
	bytes_put_u8(&all, 0);
	for (char *l = strtok_r((char *)all.data, "\n", &save); l;
		l = strtok_r(NULL, "\n", &save)) {
		if (l[0] != ' ')
			stream = l;
		else if (l[2] != ' ')
			profile = l;
		if (l[0] != ' ')
			continue;
		r = alloc_grow(&lines, &cap, n + 1, sizeof(*lines));
		ASSERT(!r);
		lines[n++] = l[2] != ' ' ? xasprintf("%s%s", stream, l)
					 : xasprintf("%s%s%s", stream, profile, l);
	}
	if (n)
		qsort(lines, n, sizeof(*lines), gen_by_line);
	for (size_t i = 0; i < n; i++) {
		bytes_put_str(&out, lines[i]);
		bytes_put_u8(&out, '\n');
		free(lines[i]);
	}
	free(lines);
	bytes_put_u8(&out, 0);
	text = xstrdup((char *)out.data);
	bytes_done(&out);
	bytes_done(&all);
	return text;
}
