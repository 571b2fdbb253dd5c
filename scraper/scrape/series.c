/* SPDX-License-Identifier: Apache-2.0
 *
 * Sample labels are interned twice: as the part that makes series and the part that stays with rows. A set is a list of (name, value)
 * string indices of the profile, in order of name; index 0 of both interners is the empty set.
 */
#include "scraper/scrape/series.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include "lib/prof/number.h"
#include <stdio.h>
#include <string.h>

enum { MAX_SAMPLE_LABELS = 256, MAX_COLLAPSES = 64 };

/* A label of a sample, reduced to what is stored. */
struct pair {
	const char *name, *value; /* in the arena, or static */
};

struct build {
	const struct scrape_series_input *in;
	const struct profile *p;
	struct arena *arena;
	struct errbuf *eb;
	size_t columns[STORE_MAX_COLUMNS];
	size_t n_columns;

	uint8_t *tiers;	    /* per profile string used as a key: tier + 1, 0 not asked yet */
	bool *collapsed;    /* per profile string used as a key */
	const char **texts; /* per profile string: NUL-terminated copy, checked UTF-8 */
	const char **names; /* the same as names of the legacy scheme; NULL under any other */
	struct interner series, rows;
	uint32_t *sample_series, *sample_rows; /* per sample: ids */
	uint64_t n_joined;
};

size_t scrape_series_columns(const struct profile *p, const struct config_profile *override,
	size_t ret[STORE_MAX_COLUMNS])
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_types && n < STORE_MAX_COLUMNS; i++) {
		bool keep = !override || !override->n_keep_sample_types;

		for (size_t k = 0; !keep && k < override->n_keep_sample_types; k++)
			keep = profile_str_is(
				       p, p->types[i].type, override->keep_sample_types[k].type) &&
			       profile_str_is(
				       p, p->types[i].unit, override->keep_sample_types[k].unit);
		if (keep)
			ret[n++] = i;
	}
	return n;
}

/* The text of a profile's string as a label name or value; NULL when it is no valid UTF-8 or memory is out. */
static const char *text_of(struct build *b, uint32_t i)
{
	struct prof_str s = profile_str(b->p, i);

	if (b->texts[i])
		return b->texts[i];
	if (!str_is_utf8(s.p, s.len) || memchr(s.p ? s.p : "", 0, s.len))
		return NULL;
	b->texts[i] = arena_strndup(b->arena, s.len ? s.p : "", s.len);
	return b->texts[i];
}

/* A label's name; under the legacy scheme with _ for each character that it does not allow. */
static const char *name_of(struct build *b, uint32_t key)
{
	const char *text = text_of(b, key);
	char *name, *to;

	if (!text || !b->names)
		return text;
	if (b->names[key])
		return b->names[key];
	b->names[key] = name = to = arena_strdup(b->arena, text);
	for (const char *c = text; name && *c; c++) {
		char one[] = {'_', *c, 0};

		if (((uint8_t)*c & 0xc0) == 0x80) /* the rest of a character */
			continue;
		*to = relabel_is_legacy_name(to == name ? one + 1 : one) ? *c : '_';
		to++;
	}
	if (name)
		*to = '\0';
	return name;
}

static enum scrape_tier tier_of(struct build *b, uint32_t key)
{
	const struct scrape_series_input *in = b->in;
	struct prof_str s = profile_str(b->p, key);
	enum scrape_tier tier;

	if (b->tiers[key])
		return (enum scrape_tier)(b->tiers[key] - 1);
	tier = scrape_label_tier(&in->job->profiling, in->preset, in->labels_header, s.p, s.len);
	/* a scraped label that wins over the target's must be part of the series */
	if (tier == SCRAPE_TIER_ROW && in->job->honor_labels && text_of(b, key) &&
		*labels_get(in->target, text_of(b, key)))
		tier = SCRAPE_TIER_SERIES;
	b->tiers[key] = (uint8_t)(tier + 1);
	b->collapsed[key] = scrape_limit_is_collapsed(in->limit, s.p, s.len);
	return tier;
}

static const char *number_text(struct build *b, const struct prof_label *l)
{
	struct prof_str unit = profile_str(b->p, l->num_unit);
	char text[PROF_NUMBER_TEXT_MAX];

	if (!str_is_utf8(unit.p, unit.len))
		return NULL;
	prof_number_text(l->num, unit, text);
	return arena_strdup(b->arena, text);
}

static enum scrape_reason bad_label(struct build *b, const struct prof_label *l)
{
	struct prof_str key = profile_str(b->p, l->key);

	if (arena_error(b->arena, b->eb) < 0)
		return SCRAPE_FAIL_MEMORY;
	if (!str_is_utf8(key.p, key.len))
		err_set(b->eb, -EBADMSG, "a sample label's name is not valid UTF-8");
	else
		err_set(b->eb, -EBADMSG, "the value of sample label \"%.*s\" is not valid UTF-8",
			(int)MIN(key.len, 80U), key.p);
	return SCRAPE_FAIL_LABELS;
}

/* The stored pair of one label; *ret_tier DROP when it has none. */
static enum scrape_reason read_label(
	struct build *b, const struct prof_label *l, struct pair *ret, enum scrape_tier *ret_tier)
{
	*ret_tier = l->key ? tier_of(b, l->key) : SCRAPE_TIER_DROP;
	if (*ret_tier == SCRAPE_TIER_DROP)
		return SCRAPE_OK;
	ret->name = name_of(b, l->key);
	ret->value = !ret->name		    ? NULL
		     : b->collapsed[l->key] ? SCRAPE_OTHER
		     : l->str		    ? text_of(b, l->str)
					    : number_text(b, l);
	if (!ret->name || !ret->value)
		return bad_label(b, l);
	if (!*ret->value)
		*ret_tier = SCRAPE_TIER_DROP;
	return SCRAPE_OK;
}

/* Keeps pairs[0..n) in order of name; a name that is there already keeps its first value. */
static void insert_pair(struct pair *pairs, size_t *n, const struct pair *pair)
{
	size_t i = *n;

	while (i > 0 && strcmp(pairs[i - 1].name, pair->name) > 0)
		i--;
	if (i > 0 && !strcmp(pairs[i - 1].name, pair->name))
		return;
	memmove(&pairs[i + 1], &pairs[i], (*n - i) * sizeof(*pairs));
	pairs[i] = *pair;
	++*n;
}

/* Texts are unique per profile string but not per value (numbers, __other__), so sets are compared by content. */
static uint32_t intern_pairs(
	struct interner *t, const struct pair *pairs, size_t n, struct bytes *scratch)
{
	bytes_reset(scratch);
	for (size_t i = 0; i < n; i++) {
		bytes_put(scratch, pairs[i].name, strlen(pairs[i].name) + 1);
		bytes_put(scratch, pairs[i].value, strlen(pairs[i].value) + 1);
	}
	return bytes_error(scratch) < 0
		       ? INTERNER_NONE
		       : interner_add(t, scratch->len ? (const char *)scratch->data : "",
				 scratch->len, NULL);
}

static enum scrape_reason read_sample(struct build *b, size_t sample, struct bytes *scratch)
{
	struct pair series[MAX_SAMPLE_LABELS], rows[MAX_SAMPLE_LABELS];
	uint64_t first = b->p->label_first[sample], last = b->p->label_first[sample + 1];
	size_t n_series = 0, n_rows = 0;

	if (last - first > MAX_SAMPLE_LABELS) {
		err_set(b->eb, -EBADMSG, "a sample with %llu labels, more than %d",
			(unsigned long long)(last - first), MAX_SAMPLE_LABELS);
		return SCRAPE_FAIL_LABELS;
	}
	for (uint64_t i = first; i < last; i++) {
		struct pair pair;
		enum scrape_tier tier;
		enum scrape_reason reason = read_label(b, &b->p->labels[i], &pair, &tier);

		if (reason)
			return reason;
		if (tier == SCRAPE_TIER_SERIES)
			insert_pair(series, &n_series, &pair);
		else if (tier == SCRAPE_TIER_ROW)
			insert_pair(rows, &n_rows, &pair);
	}
	b->sample_series[sample] = intern_pairs(&b->series, series, n_series, scratch);
	b->sample_rows[sample] = intern_pairs(&b->rows, rows, n_rows, scratch);
	if (b->sample_series[sample] != INTERNER_NONE && b->sample_rows[sample] != INTERNER_NONE)
		return SCRAPE_OK;
	err_set(b->eb, -ENOMEM, "no memory for the labels of %zu samples", b->p->n_samples);
	return SCRAPE_FAIL_MEMORY;
}

/* The same labels as the previous sample's, as is usual: no need to read them again. */
static bool same_labels(const struct profile *p, size_t i)
{
	uint64_t n = p->label_first[i + 1] - p->label_first[i];

	return i > 0 && n == p->label_first[i] - p->label_first[i - 1] &&
	       (!n || !memcmp(&p->labels[p->label_first[i]], &p->labels[p->label_first[i - 1]],
			      n * sizeof(*p->labels)));
}

static enum scrape_reason read_samples(struct build *b)
{
	_cleanup_bytes_ struct bytes scratch = {0};

	bytes_init(&scratch, NULL, 0);
	interner_done(&b->series);
	interner_done(&b->rows);
	interner_init(&b->series, b->arena->budget);
	interner_init(&b->rows, b->arena->budget);
	memset(b->tiers, 0, b->p->n_strings + 1);
	if (interner_add(&b->series, "", 0, NULL) != 0 ||
		interner_add(&b->rows, "", 0, NULL) != 0) {
		err_set(b->eb, -ENOMEM, "no memory for labels");
		return SCRAPE_FAIL_MEMORY;
	}
	for (size_t i = 0; i < b->p->n_samples; i++) {
		enum scrape_reason reason;

		if (same_labels(b->p, i)) {
			b->sample_series[i] = b->sample_series[i - 1];
			b->sample_rows[i] = b->sample_rows[i - 1];
			continue;
		}
		reason = read_sample(b, i, &scratch);
		if (reason)
			return reason;
	}
	return SCRAPE_OK;
}

/* The pairs of set `id`, as labels in the arena; NULL on failure. */
static struct label *unpack(struct build *b, const struct interner *t, uint32_t id, size_t *ret_n)
{
	const char *at = t->items[id].bytes, *end = at + t->items[id].len;
	struct label *labels;
	size_t n = 0;

	for (const char *s = at; s < end; s += strlen(s) + 1)
		n++;
	labels = arena_alloc_array(b->arena, n / 2 + 1, sizeof(*labels));
	for (size_t i = 0; labels && i < n / 2; i++) {
		labels[i].name = arena_strdup(b->arena, at);
		at += strlen(at) + 1;
		labels[i].value = arena_strdup(b->arena, at);
		at += strlen(at) + 1;
		if (!labels[i].name || !labels[i].value)
			return NULL;
	}
	*ret_n = n / 2;
	return labels;
}

static bool fill_sets(
	struct build *b, const struct interner *t, uint64_t seed, struct scrape_limit_set *to)
{
	for (uint32_t id = 0; id < t->n; id++) {
		to[id].hash = hash_xxh3_seed(t->items[id].bytes, t->items[id].len, seed);
		to[id].labels = unpack(b, t, id, &to[id].n);
		if (!to[id].labels)
			return false;
	}
	return true;
}

/* Reads the samples' labels until they fit under the job's label_set_limit. */
static enum scrape_reason read_and_limit(struct build *b)
{
	uint64_t seed = labels_hash(b->in->target);

	for (int round = 0; round <= MAX_COLLAPSES; round++) {
		struct scrape_limit_set *sets;
		enum scrape_reason reason = read_samples(b);

		if (reason)
			return reason;
		sets = arena_alloc_array(b->arena, b->series.n + b->rows.n, sizeof(*sets));
		if (!sets || !fill_sets(b, &b->series, seed, sets) ||
			!fill_sets(b, &b->rows, 0, sets + b->series.n)) {
			(void)!arena_error(b->arena, b->eb);
			return SCRAPE_FAIL_MEMORY;
		}
		if (scrape_limit_admit(b->in->limit, sets, b->series.n + b->rows.n, b->in->now_ns))
			break;
	}
	return SCRAPE_OK;
}

/* Series beyond max_series lose their sample labels. */
static void limit_series(struct build *b)
{
	uint64_t max = b->in->job->profiling.max_series;

	if (!max || b->series.n <= max)
		return;
	b->n_joined = b->series.n - max;
	for (size_t i = 0; i < b->p->n_samples; i++)
		if (b->sample_series[i] >= max)
			b->sample_series[i] = 0;
}

/* A scraped label: with honor_labels it replaces the target's, else it is renamed until free. */
static void add_scraped(
	struct labels_builder *lb, const struct labels *target, const struct label *l, bool honor)
{
	char name[STORE_MAX_STRING + 1];
	size_t n;

	if (strncmp(l->name, "__", 2) && (honor || !*labels_get(target, l->name))) {
		labels_builder_set(lb, l->name, l->value);
		return;
	}
	n = (size_t)snprintf(name, sizeof(name), "exported_%s", l->name);
	while (n < sizeof(name) && (*labels_get(target, name) || *labels_builder_get(lb, name))) {
		char longer[STORE_MAX_STRING + 1];

		n = (size_t)snprintf(longer, sizeof(longer), "exported_%s", name);
		memcpy(name, longer, MIN(n + 1, sizeof(name)));
	}
	labels_builder_set(lb, name, l->value);
}

static void set_service(
	struct labels_builder *b, const char *first, const char *between, const char *last)
{
	char text[1024];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s%s%s", first, between, last);

	if (n >= sizeof(text))
		text[str_utf8_fit(text, n, sizeof(text) - 2)] = '\0';
	labels_builder_set(b, "service_name", text);
}

void scrape_series_set_service(struct labels_builder *b)
{
	static const char *const plain[] = {
		"container_name", "systemd_unit", "executable", "comm", "job"};
	const char *namespace = labels_builder_get(b, "namespace");
	const char *container = labels_builder_get(b, "container_name");

	if (*labels_builder_get(b, "service_name"))
		return;
	if (*namespace && *container) {
		set_service(b, namespace, "/", container);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		const char *value = labels_builder_get(b, plain[i]);
		const char *slash = strcmp(plain[i], "executable") ? NULL : strrchr(value, '/');

		if (!*value)
			continue;
		set_service(b, slash && slash[1] ? slash + 1 : value, "", "");
		return;
	}
}

static enum scrape_reason check_limits(struct build *b, const struct labels *l)
{
	const struct config_limits *limits = &b->in->job->limits;

	if (limits->labels && l->n > limits->labels) {
		err_set(b->eb, -EFBIG,
			"label_limit exceeded: a series has %zu labels, the limit is %llu", l->n,
			(unsigned long long)limits->labels);
		return SCRAPE_FAIL_LABELS;
	}
	for (size_t i = 0; i < l->n; i++) {
		size_t n_name = strlen(l->items[i].name), n_value = strlen(l->items[i].value);

		if (limits->label_name_bytes && n_name > limits->label_name_bytes) {
			err_set(b->eb, -EFBIG,
				"label_name_length_limit exceeded: label name \"%.64s\" has %zu "
				"bytes, the limit is %llu",
				l->items[i].name, n_name,
				(unsigned long long)limits->label_name_bytes);
			return SCRAPE_FAIL_LABELS;
		}
		if (limits->label_value_bytes && n_value > limits->label_value_bytes) {
			err_set(b->eb, -EFBIG,
				"label_value_length_limit exceeded: the value of label \"%.64s\" "
				"has %zu bytes, the limit is %llu",
				l->items[i].name, n_value,
				(unsigned long long)limits->label_value_bytes);
			return SCRAPE_FAIL_LABELS;
		}
	}
	return SCRAPE_OK;
}

/* The labels of one series; *ret_kept false when a rule dropped it. */
static enum scrape_reason series_labels(
	struct build *b, uint32_t id, struct labels_builder *lb, struct labels *ret, bool *ret_kept)
{
	const struct scrape_series_input *in = b->in;
	size_t n = 0;
	const struct label *pairs = unpack(b, &b->series, id, &n);
	int r = labels_builder_reset(lb, in->target);

	for (size_t i = 0; pairs && i < n; i++)
		add_scraped(lb, in->target, &pairs[i], in->job->honor_labels);
	if (r < 0 || !pairs) {
		err_set(b->eb, -ENOMEM, "no memory for the labels of a series");
		return SCRAPE_FAIL_MEMORY;
	}
	r = relabel_apply(in->job->metric_relabel, in->job->n_metric_relabel, lb, NULL, b->eb);
	*ret_kept = r == 1;
	if (r < 0)
		return SCRAPE_FAIL_LABELS;
	if (!*ret_kept)
		return SCRAPE_OK;
	scrape_series_set_service(lb);
	/* the profile type is the store's key: rules may rename it, not remove it */
	if (!*labels_builder_get(lb, "__name__"))
		labels_builder_set(lb, "__name__", in->spec->name);
	if (labels_builder_finish(lb, ret) < 0) {
		err_set(b->eb, -ENOMEM, "no memory for the labels of a series");
		return SCRAPE_FAIL_MEMORY;
	}
	return check_limits(b, ret);
}

static uint32_t find_stream(
	const struct scrape_series_result *res, const struct labels *l, uint64_t hash)
{
	for (size_t i = 0; i < res->n_streams; i++)
		if (res->stream_hashes[i] == hash && labels_equal(&res->streams[i], l))
			return (uint32_t)i;
	return STORE_NONE;
}

/* Maps series that samples refer to onto streams; two series that relabeling made equal share one. */
static enum scrape_reason make_streams(
	struct build *b, struct scrape_series_result *res, uint32_t *stream_of)
{
	_cleanup_labels_builder_ struct labels_builder lb;
	enum scrape_reason reason = SCRAPE_OK;

	labels_builder_init(&lb);
	for (uint32_t id = 0; id < b->series.n && !reason; id++)
		stream_of[id] = STORE_NONE;
	for (size_t i = 0; i < b->p->n_samples && !reason; i++) {
		uint32_t id = b->sample_series[i];
		struct labels l = {0};
		bool kept = false;
		uint64_t hash = 0;

		if (stream_of[id] != STORE_NONE)
			continue;
		reason = series_labels(b, id, &lb, &l, &kept);
		if (!reason && !kept) {
			stream_of[id] = STORE_NONE - 1;
			res->n_dropped_series++;
		} else if (!reason) {
			hash = labels_hash(&l);
			stream_of[id] = find_stream(res, &l, hash);
		}
		if (reason || !kept || stream_of[id] != STORE_NONE) {
			labels_done(&l);
			continue;
		}
		stream_of[id] = (uint32_t)res->n_streams;
		res->stream_hashes[res->n_streams] = hash;
		res->streams[res->n_streams++] = l;
	}
	return reason;
}

/* Row labels never hide the target's. */
static enum scrape_reason make_label_sets(struct build *b, struct scrape_series_result *res)
{
	_cleanup_labels_builder_ struct labels_builder lb;

	labels_builder_init(&lb);
	for (uint32_t id = 0; id < b->rows.n; id++) {
		size_t n = 0;
		const struct label *pairs = unpack(b, &b->rows, id, &n);

		if (!pairs || labels_builder_reset(&lb, NULL) < 0) {
			err_set(b->eb, -ENOMEM, "no memory for row labels");
			return SCRAPE_FAIL_MEMORY;
		}
		for (size_t i = 0; i < n; i++)
			add_scraped(&lb, b->in->target, &pairs[i], false);
		if (labels_builder_finish(&lb, &res->label_sets[id]) < 0) {
			err_set(b->eb, -ENOMEM, "no memory for row labels");
			return SCRAPE_FAIL_MEMORY;
		}
		res->n_label_sets++;
	}
	return SCRAPE_OK;
}

static bool is_zero(const struct build *b, size_t sample)
{
	for (size_t c = 0; c < b->n_columns; c++)
		if (b->p->values[sample * b->p->n_types + b->columns[c]])
			return false;
	return true;
}

/* Samples without any value (no allocation since the last scrape) make no rows. */
static bool make_rows(struct build *b, const uint32_t *stream_of, struct store_scrape *out,
	struct scrape_series_result *res)
{
	size_t n = b->p->n_samples, n_rows = 0;
	uint32_t *row_sample = arena_alloc_array(b->arena, n + 1, sizeof(*row_sample));
	uint32_t *row_stream = arena_alloc_array(b->arena, n + 1, sizeof(*row_stream));
	uint32_t *row_labels = arena_alloc_array(b->arena, n + 1, sizeof(*row_labels));
	int64_t *values = arena_alloc_array(b->arena, n * b->n_columns + 1, sizeof(*values));

	if (!row_sample || !row_stream || !row_labels || !values)
		return false;
	for (size_t i = 0; i < n; i++) {
		uint32_t stream = stream_of[b->sample_series[i]];

		if (stream >= STORE_NONE - 1)
			continue;
		res->n_kept += b->n_columns;
		if (is_zero(b, i))
			continue;
		row_sample[n_rows] = (uint32_t)i;
		row_stream[n_rows] = stream;
		row_labels[n_rows] = b->sample_rows[i] ? b->sample_rows[i] : STORE_NONE;
		for (size_t c = 0; c < b->n_columns; c++)
			values[n_rows * b->n_columns + c] =
				b->p->values[i * b->p->n_types + b->columns[c]];
		n_rows++;
	}
	out->row_sample = row_sample;
	out->row_stream = row_stream;
	out->row_labels = row_labels;
	out->values = values;
	out->n_rows = n_rows;
	return true;
}

static enum scrape_reason make_columns(struct build *b, struct store_scrape *out)
{
	struct store_column *columns =
		arena_alloc_array(b->arena, b->n_columns + 1, sizeof(*columns));

	for (size_t c = 0; columns && c < b->n_columns; c++) {
		const struct prof_value_type *t = &b->p->types[b->columns[c]];

		columns[c].type = text_of(b, t->type);
		columns[c].unit = text_of(b, t->unit);
		columns[c].kind = scrape_column_is_instant(b->in->spec, b->p, b->columns[c])
					  ? STORE_INSTANT
					  : STORE_DELTA;
		if (!columns[c].type || !columns[c].unit) {
			err_set(b->eb, -EBADMSG, "a sample type's name is not valid UTF-8");
			return arena_error(b->arena, NULL) < 0 ? SCRAPE_FAIL_MEMORY
							       : SCRAPE_FAIL_PPROF;
		}
	}
	out->columns = columns;
	out->n_columns = b->n_columns;
	out->period_type = text_of(b, b->p->period_type.type);
	out->period_unit = text_of(b, b->p->period_type.unit);
	out->period = b->p->period;
	if (columns && out->period_type && out->period_unit)
		return SCRAPE_OK;
	err_set(b->eb, -EBADMSG, "the period type's name is not valid UTF-8");
	return arena_error(b->arena, b->eb) < 0 ? SCRAPE_FAIL_MEMORY : SCRAPE_FAIL_PPROF;
}

/* As in Prometheus: what rules drop does not count. */
static enum scrape_reason check_samples(struct build *b, uint64_t n)
{
	uint64_t limit = b->in->job->limits.samples;

	if (!limit || n <= limit)
		return SCRAPE_OK;
	err_set(b->eb, -EFBIG, "sample_limit exceeded: %llu samples × values, the limit is %llu",
		(unsigned long long)n, (unsigned long long)limit);
	return SCRAPE_FAIL_SAMPLE_LIMIT;
}

static enum scrape_reason check_input(struct build *b, struct scrape_series_result *res)
{
	if (b->p->n_types > STORE_MAX_COLUMNS) {
		err_set(b->eb, -EBADMSG, "%zu sample types, more than %d", b->p->n_types,
			STORE_MAX_COLUMNS);
		return SCRAPE_FAIL_PPROF;
	}
	if (b->p->n_types && !b->n_columns) {
		err_set(b->eb, -EINVAL,
			"keep_sample_type matches none of the answer's sample types");
		return SCRAPE_FAIL_PPROF;
	}
	res->n_samples = (uint64_t)b->p->n_samples * b->n_columns;
	if (b->in->job->n_metric_relabel)
		return SCRAPE_OK;
	/* without rules all stay, so what is too much need not be looked at */
	res->n_kept = res->n_samples;
	return check_samples(b, res->n_kept);
}

static bool alloc_sample_arrays(struct build *b)
{
	b->tiers = arena_alloc(b->arena, b->p->n_strings + 1);
	b->collapsed = arena_zalloc(b->arena, b->p->n_strings + 1);
	b->texts = arena_zalloc(b->arena, (b->p->n_strings + 1) * sizeof(*b->texts));
	b->names = b->in->job->name_scheme == CONFIG_NAMES_LEGACY
			   ? arena_zalloc(b->arena, (b->p->n_strings + 1) * sizeof(*b->names))
			   : NULL;
	b->sample_series =
		arena_alloc_array(b->arena, b->p->n_samples + 1, sizeof(*b->sample_series));
	b->sample_rows = arena_alloc_array(b->arena, b->p->n_samples + 1, sizeof(*b->sample_rows));
	return arena_error(b->arena, NULL) == 0;
}

static enum scrape_reason build(
	struct build *b, struct store_scrape *out, struct scrape_series_result *res)
{
	enum scrape_reason reason = check_input(b, res);
	const struct labels **streams;
	uint32_t *stream_of;

	if (reason)
		return reason;
	if (!alloc_sample_arrays(b))
		return SCRAPE_FAIL_MEMORY;
	reason = make_columns(b, out);
	if (!reason)
		reason = read_and_limit(b);
	if (reason)
		return reason;
	limit_series(b);
	res->n_joined_series = b->n_joined;
	stream_of = arena_alloc_array(b->arena, b->series.n, sizeof(*stream_of));
	streams = arena_alloc_array(b->arena, b->series.n, sizeof(*streams));
	res->streams = arena_alloc_array(b->arena, b->series.n, sizeof(*res->streams));
	res->stream_hashes = arena_alloc_array(b->arena, b->series.n, sizeof(*res->stream_hashes));
	res->label_sets = arena_alloc_array(b->arena, b->rows.n, sizeof(*res->label_sets));
	if (!stream_of || !streams || !res->streams || !res->stream_hashes || !res->label_sets)
		return SCRAPE_FAIL_MEMORY;
	reason = make_streams(b, res, stream_of);
	if (!reason)
		reason = make_label_sets(b, res);
	res->n_kept = 0;
	if (!reason && !make_rows(b, stream_of, out, res))
		reason = SCRAPE_FAIL_MEMORY;
	if (!reason)
		reason = check_samples(b, res->n_kept);
	for (size_t i = 0; i < res->n_streams; i++)
		streams[i] = &res->streams[i];
	out->profile = b->p;
	out->keep_addresses = b->in->job->profiling.addresses;
	out->streams = streams;
	out->n_streams = res->n_streams;
	out->label_sets = res->label_sets;
	out->n_label_sets = res->n_label_sets;
	return reason;
}

enum scrape_reason scrape_series_build(const struct scrape_series_input *in, struct arena *a,
	struct store_scrape *out, struct scrape_series_result *ret, struct errbuf *eb)
{
	struct build b = {.in = in, .p = in->profile, .arena = a, .eb = eb};
	enum scrape_reason reason;

	*ret = (struct scrape_series_result) {0};
	b.n_columns = scrape_series_columns(
		b.p, scrape_spec_override(&in->job->profiling, in->spec->name), b.columns);
	interner_init(&b.series, a->budget);
	interner_init(&b.rows, a->budget);
	reason = build(&b, out, ret);
	if (reason == SCRAPE_FAIL_MEMORY && !eb->text[0] && arena_error(a, eb) == 0)
		err_set(eb, -ENOMEM, "no memory for the answer");
	interner_done(&b.series);
	interner_done(&b.rows);
	return reason;
}

void scrape_series_done(struct scrape_series_result *r)
{
	for (size_t i = 0; i < r->n_streams; i++)
		labels_done(&r->streams[i]);
	for (size_t i = 0; i < r->n_label_sets; i++)
		labels_done(&r->label_sets[i]);
	*r = (struct scrape_series_result) {0};
}
