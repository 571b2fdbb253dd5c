/* SPDX-License-Identifier: Apache-2.0
 *
 * Fakes of scraper/store/part/part.h for tests of queries and of the API: parts over plain records, with ids of their own order,
 * pages of seven rows and profiles that cross them. A test program that includes this needs no store.
 */
#pragma once
#include "scraper/store/part/part.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_STRINGS = 256,
	MAX_SETS = 512,
	MAX_LABELS = 6,
	MAX_STREAMS = 256,
	MAX_PROFILES = 2048,
	MAX_ROWS = 8192,
	MAX_NODES = 2048,
	MAX_DEPTH = 5,
	PAGE_ROWS = 7,
	N_FUNCTIONS = 9,
	COVERAGE = 3,
};
static const int64_t SEC = 1000000000;

/* ---- the records, which both sides read ---- */

static const char *const label_names[] = {"__name__", "comm", "job", "node", "thread_name"};
enum { N_NAMES = 5, NAME = 0 };

/* Values by index of label_names; NULL: absent. */
struct set {
	const char *value[N_NAMES];
};

struct row {
	struct set labels;
	uint8_t stack[MAX_DEPTH]; /* functions, root first */
	unsigned depth;
	int64_t value[2];
};

struct record {
	unsigned part;
	struct set series;
	int kind; /* of both columns: enum store_column_kind, or COVERAGE */
	int64_t time, duration;
	struct row *rows;
	size_t n_rows;
	double gauge;
	int cpus; /* of COVERAGE */
};

static struct record records[MAX_PROFILES];
static size_t n_records;
static unsigned n_fakes;

/* ---- a fake part ---- */

struct part {
	struct part_info info;
	const char *strings[MAX_STRINGS];
	struct prof_str label_strings[MAX_STRINGS];
	struct part_schema schemas[4]; /* by column kind, the last for coverage */
	struct part_stream streams[MAX_STREAMS];
	struct set stream_labels[MAX_STREAMS];
	uint32_t first[MAX_SETS + 1];
	struct part_label pairs[MAX_SETS * MAX_LABELS];
	struct set sets[MAX_SETS];
	uint32_t parents[MAX_NODES], locations[MAX_NODES];
	uint32_t location_of[N_FUNCTIONS]; /* function → location id of this part */
	struct {
		int64_t time[MAX_PROFILES], duration[MAX_PROFILES], period[MAX_PROFILES],
			total[2][MAX_PROFILES];
		uint8_t resolution[MAX_PROFILES];
		uint32_t n_profiles[MAX_PROFILES], n_rows[MAX_PROFILES];
		uint64_t first_row[MAX_PROFILES];
	} profiles; /* of all streams, one after the other */
	size_t first_profile[MAX_STREAMS + 1];
	uint32_t row_nodes[MAX_ROWS], row_sets[MAX_ROWS];
	int64_t row_values[2][MAX_ROWS];
	struct part_page pages[MAX_ROWS / PAGE_ROWS + 1];
	bool breaks; /* its rows show damage */
	_Atomic bool is_damaged;
};

static struct part *fakes[8];
static _Atomic bool fake_is_slow; /* rows come once this is false again */
static _Atomic int n_fake_slow;	  /* threads that wait for that */

static uint32_t fake_string(struct part *p, const char *s)
{
	for (uint32_t i = 0; i < p->info.n_strings; i++)
		if (!strcmp(p->strings[i], s))
			return i;
	assert_true(p->info.n_strings < MAX_STRINGS);
	p->strings[p->info.n_strings] = s;
	return p->info.n_strings++;
}

static bool same_set(const struct set *a, const struct set *b)
{
	for (int i = 0; i < N_NAMES; i++)
		if ((a->value[i] || b->value[i]) &&
			(!a->value[i] || !b->value[i] || strcmp(a->value[i], b->value[i]) != 0))
			return false;
	return true;
}

static uint32_t fake_set(struct part *p, const struct set *s)
{
	uint32_t n = p->first[p->info.n_label_sets];

	for (uint32_t i = 0; i < p->info.n_label_sets; i++)
		if (same_set(&p->sets[i], s))
			return i;
	assert_true(p->info.n_label_sets < MAX_SETS);
	p->sets[p->info.n_label_sets] = *s;
	for (int i = 0; i < N_NAMES; i++)
		if (s->value[i])
			p->pairs[n++] = (struct part_label) {
				fake_string(p, label_names[i]), fake_string(p, s->value[i])};
	p->first[p->info.n_label_sets + 1] = n;
	return p->info.n_label_sets++;
}

static uint32_t fake_node(struct part *p, const struct row *row)
{
	uint32_t node = 0;

	for (unsigned d = 0; d < row->depth; d++) {
		uint32_t location = p->location_of[row->stack[d]], i = 1;

		while (i < p->info.n_nodes &&
			(p->parents[i] != node || p->locations[i] != location))
			i++;
		assert_true(i < MAX_NODES);
		if (i == p->info.n_nodes) {
			p->parents[i] = node;
			p->locations[i] = location;
			p->info.n_nodes++;
		}
		node = i;
	}
	return node;
}

static void fake_schemas(struct part *p)
{
	static const char *const types[] = {"samples", "cpu"}, *const units[] = {
								       "count", "nanoseconds"};

	p->info.n_schemas = 4;
	p->schemas[COVERAGE].kind = STORE_COVERAGE;
	for (int k = 0; k < 3; k++) {
		struct part_schema *s = &p->schemas[k];

		s->kind = k == STORE_GAUGE ? STORE_GAUGES : STORE_PROFILE;
		s->n_columns = k == STORE_GAUGE ? 1 : 2;
		s->period_type = fake_string(p, k == STORE_GAUGE ? "" : "cpu");
		s->period_unit = fake_string(p, k == STORE_GAUGE ? "" : "nanoseconds");
		for (unsigned c = 0; c < s->n_columns; c++)
			s->columns[c] = (struct part_column) {
				fake_string(p, k == STORE_GAUGE ? "" : types[c]),
				fake_string(p, k == STORE_GAUGE ? "" : units[c]), (uint8_t)k};
	}
}

static void fake_rows(struct part *p, const struct record *r, size_t at)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		uint64_t row = p->info.n_rows++;

		assert_true(row < MAX_ROWS);
		p->row_nodes[row] = fake_node(p, &r->rows[i]);
		p->row_sets[row] = fake_set(p, &r->rows[i].labels);
		for (int c = 0; c < 2; c++) {
			p->row_values[c][row] = r->rows[i].value[c];
			p->profiles.total[c][at] += r->rows[i].value[c];
		}
	}
}

static void fake_profile(struct part *p, uint32_t stream, const struct record *r)
{
	size_t at = p->info.n_profiles++;
	struct part_stream *st = &p->streams[stream];
	union {
		double d;
		int64_t i;
	} gauge = {.d = r->gauge};

	p->profiles.time[at] = r->time;
	p->profiles.duration[at] = r->duration;
	p->profiles.n_profiles[at] = 1;
	p->profiles.n_rows[at] = (uint32_t)r->n_rows;
	p->profiles.first_row[at] = p->info.n_rows;
	if (r->kind == STORE_GAUGE)
		p->profiles.total[0][at] = gauge.i;
	else if (r->kind == COVERAGE)
		p->profiles.total[1][at] = r->cpus;
	else
		fake_rows(p, r, at);
	st->min_time_ns = st->n_profiles ? MIN(st->min_time_ns, r->time) : r->time;
	st->max_time_ns = st->n_profiles ? MAX(st->max_time_ns, r->time) : r->time;
	st->max_duration_ns = MAX(st->max_duration_ns, r->duration);
	st->n_profiles++;
	p->info.min_time_ns = MIN(p->info.min_time_ns, r->time);
	p->info.max_time_ns = MAX(p->info.max_time_ns, r->time);
	p->info.max_duration_ns = MAX(p->info.max_duration_ns, r->duration);
}

static struct part *fake_new(unsigned number)
{
	static const struct set none;
	struct part *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	snprintf(p->info.ulid, sizeof(p->info.ulid), "FAKE%u", number);
	p->info.min_time_ns = INT64_MAX;
	p->info.max_time_ns = INT64_MIN;
	p->info.n_nodes = 1;
	p->info.n_label_strings = MAX_STRINGS;
	fake_string(p, "");
	fake_set(p, &none);
	fake_schemas(p);
	for (unsigned i = 0; i < N_FUNCTIONS; i++) /* another order in every part */
		p->location_of[i] = (i * 5 + number * 3) % N_FUNCTIONS;
	p->info.n_locations = p->info.n_functions = N_FUNCTIONS;
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];
		uint32_t s = 0;

		if (r->part != number)
			continue;
		while (s < p->info.n_streams && (!same_set(&p->stream_labels[s], &r->series) ||
							p->streams[s].schema != (uint32_t)r->kind))
			s++;
		if (s < p->info.n_streams)
			continue;
		assert_true(s < MAX_STREAMS);
		p->stream_labels[s] = r->series;
		p->streams[s] = (struct part_stream) {
			.schema = r->kind, .label_set = fake_set(p, &r->series)};
		p->info.n_streams++;
		p->first_profile[s] = p->info.n_profiles;
		for (size_t k = i; k < n_records; k++) /* records are in order of time */
			if (records[k].part == number && records[k].kind == r->kind &&
				same_set(&records[k].series, &r->series))
				fake_profile(p, s, &records[k]);
		p->first_profile[s + 1] = p->info.n_profiles;
	}
	for (uint64_t row = 0; row < p->info.n_rows; row += PAGE_ROWS)
		p->pages[p->info.n_pages++] = (struct part_page) {.first_row = row,
			.n_rows = (uint32_t)MIN((uint64_t)PAGE_ROWS, p->info.n_rows - row)};
	return p;
}

struct part_reader {
	struct part *part;
};

int part_reader_open_at(struct part *p, enum part_resolution resolution, struct budget *b,
	struct part_reader **ret, struct errbuf *eb)
{
	return resolution == PART_RAW ? part_reader_open(p, b, ret, eb) : -ENOENT;
}

int part_reader_open(struct part *p, struct budget *b, struct part_reader **ret, struct errbuf *eb)
{
	(void)b;
	(void)eb;
	*ret = malloc(sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->part = p;
	return 0;
}

void part_reader_closep(struct part_reader **r)
{
	free(*r);
}

const struct part_info *part_reader_info(const struct part_reader *r)
{
	return &r->part->info;
}

bool part_is_damage(int error)
{
	return error == -EBADMSG;
}

bool part_is_damaged(const struct part *p)
{
	return p->is_damaged;
}

void part_report_damage(struct part_reader *r, const char *what)
{
	(void)what;
	r->part->is_damaged = true;
}

const char *part_reader_error(const struct part_reader *r)
{
	(void)r;
	return "fake";
}

int part_schemas(struct part_reader *r, const struct part_schema **ret)
{
	*ret = r->part->schemas;
	return 0;
}

int part_streams(struct part_reader *r, const struct part_stream **ret)
{
	*ret = r->part->streams;
	return 0;
}

int part_label_sets(struct part_reader *r, struct part_label_sets *ret)
{
	*ret = (struct part_label_sets) {r->part->first, r->part->pairs};
	return 0;
}

int part_mappings(struct part_reader *r, const struct part_mapping **ret)
{
	static const struct part_mapping none;

	(void)r;
	*ret = &none;
	return 0;
}

int part_label_strings(struct part_reader *r, const struct prof_str **ret)
{
	struct part *p = r->part;

	for (uint32_t i = 0; i < p->info.n_strings; i++)
		p->label_strings[i] =
			(struct prof_str) {p->strings[i], (uint32_t)strlen(p->strings[i])};
	*ret = p->label_strings;
	return 0;
}

int part_nodes(struct part_reader *r, const uint32_t **parents, const uint32_t **locations)
{
	*parents = r->part->parents;
	*locations = r->part->locations;
	return 0;
}

int part_strings(struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(ids[i] < r->part->info.n_strings);
		ret[i] = (struct prof_str) {
			r->part->strings[ids[i]], (uint32_t)strlen(r->part->strings[ids[i]])};
	}
	return 0;
}

/* Function f has the name "fN", N its number in every part, and is line 0 of the one location that has it. */
int part_functions(struct part_reader *r, const uint32_t *ids, size_t n, struct part_function *ret)
{
	static const char *const names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"};

	for (size_t i = 0; i < n; i++) {
		uint32_t name = fake_string(r->part, names[ids[i]]);

		ret[i] = (struct part_function) {.name = name, .system_name = name};
	}
	return 0;
}

int part_location_keys(struct part_reader *r, const uint64_t **ret)
{
	static uint64_t keys[8][N_FUNCTIONS];
	uint64_t *mine = keys[r->part->info.ulid[4] % 8];

	for (uint32_t f = 0; f < N_FUNCTIONS; f++)
		mine[r->part->location_of[f]] = (f + 1) * 0x9e3779b97f4a7c15ULL;
	*ret = mine;
	return 0;
}

int part_locations(struct part_reader *r, const uint32_t *ids, size_t n, struct part_location *ret)
{
	static struct part_line lines[N_FUNCTIONS];

	for (size_t i = 0; i < n; i++) {
		uint32_t f = 0;

		while (r->part->location_of[f] != ids[i])
			f++;
		lines[f] = (struct part_line) {.function = f, .line = 10};
		ret[i] = (struct part_location) {
			.mapping = STORE_NONE, .n_lines = 1, .lines = &lines[f]};
	}
	return 0;
}

int part_profiles(
	struct part_reader *r, uint32_t stream, int64_t from, int64_t to, struct part_profiles *ret)
{
	struct part *p = r->part;
	size_t first = p->first_profile[stream], end = p->first_profile[stream + 1];

	while (first < end && p->profiles.time[first] < from)
		first++;
	while (end > first && p->profiles.time[end - 1] > to)
		end--;
	*ret = (struct part_profiles) {.n = end - first,
		.time_ns = p->profiles.time + first,
		.duration_ns = p->profiles.duration + first,
		.period = p->profiles.period + first,
		.resolution = p->profiles.resolution + first,
		.n_profiles = p->profiles.n_profiles + first,
		.n_rows = p->profiles.n_rows + first,
		.first_row = p->profiles.first_row + first,
		.total = {p->profiles.total[0] + first, p->profiles.total[1] + first}};
	return 0;
}

/* No more than what is promised. */
int part_totals(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from, int64_t to,
	struct part_profiles *ret)
{
	int e = part_profiles(r, stream, from, to, ret);

	ret->period = NULL;
	ret->n_rows = NULL;
	ret->first_row = NULL;
	ret->total[!column] = NULL;
	return e;
}

int part_span(struct part_reader *r, uint32_t stream, uint32_t n_streams, struct part_span *ret)
{
	const struct part *p = r->part;
	size_t first = p->first_profile[stream], end = p->first_profile[stream + n_streams];

	*ret = (struct part_span) {.first_row = first < end ? p->profiles.first_row[first] : 0,
		.n_profiles = end - first};
	for (size_t i = first; i < end; i++) {
		int64_t begin = p->profiles.time[i] - p->profiles.duration[i];

		if (p->profiles.first_row[i] != ret->first_row + ret->n_rows ||
			p->profiles.resolution[i] != PART_RAW)
			return 1;
		ret->n_rows += p->profiles.n_rows[i];
		ret->duration_ns += p->profiles.duration[i];
		ret->min_begin_ns = i == first ? begin : MIN(ret->min_begin_ns, begin);
		ret->max_time_ns = i == first ? p->profiles.time[i]
					      : MAX(ret->max_time_ns, p->profiles.time[i]);
		ret->period = i == first || ret->period == p->profiles.period[i]
				      ? p->profiles.period[i]
				      : 0;
	}
	return 0;
}

int part_recall(
	struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret, size_t *ret_n)
{
	(void)r, (void)key, (void)n_key, (void)ret, (void)ret_n;
	return 0;
}

void part_remember(struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n)
{
	(void)r, (void)key, (void)n_key, (void)data, (void)n;
}

int part_pages(struct part_reader *r, const struct part_page **ret)
{
	*ret = r->part->pages;
	return 0;
}

uint32_t part_page_of(const struct part_page *pages, uint32_t n_pages, uint64_t row)
{
	(void)pages;
	return row / PAGE_ROWS < n_pages ? (uint32_t)(row / PAGE_ROWS) : n_pages;
}

int part_rows(struct part_reader *r, uint32_t page, uint32_t columns, struct part_rows *ret)
{
	const struct part *p = r->part;
	uint64_t first = p->pages[page].first_row;
	bool is_const = true;

	if (p->breaks) {
		part_report_damage(r, NULL);
		return -EBADMSG;
	}
	n_fake_slow++;
	while (fake_is_slow)
		usleep(1000);
	n_fake_slow--;
	*ret = (struct part_rows) {.n_rows = p->pages[page].n_rows,
		.nodes = p->row_nodes + first,
		.label_sets = p->row_sets + first,
		.const_label_set = p->row_sets[first]};
	for (uint32_t i = 0; i < ret->n_rows; i++)
		is_const &= ret->label_sets[i] == ret->const_label_set;
	if (is_const)
		ret->label_sets = NULL;
	for (int c = 0; c < 2; c++)
		ret->values[c] = columns & 1U << c ? p->row_values[c] + first : NULL;
	return 0;
}
