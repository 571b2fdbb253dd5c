/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/status/tsdb: the head and the blocks, and which labels the series of the asked time (by default the last hour) have most of, as in
 * Prometheus; /api/v1/status/tsdb/blocks: the blocks one by one, and those in quarantine.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/table.h"
#include "scraper/api/api_impl.h"
#include <string.h>

enum { SHOWN = 10 };

/* How often, or how many bytes, per text. */
struct tally {
	struct interner keys;
	uint64_t *n;
	size_t cap;
};
struct tallies {
	struct tally metrics, values, bytes, pairs;
};

static void tallies_init(struct tallies *t, struct budget *budget)
{
	*t = (struct tallies) {};
	interner_init(&t->metrics.keys, budget);
	interner_init(&t->values.keys, budget);
	interner_init(&t->bytes.keys, budget);
	interner_init(&t->pairs.keys, budget);
}

static void tally_done(struct tally *t)
{
	interner_done(&t->keys);
	free(t->n);
}

static void tallies_done(struct tallies *t)
{
	tally_done(&t->metrics);
	tally_done(&t->values);
	tally_done(&t->bytes);
	tally_done(&t->pairs);
}

static int add(struct tally *t, const char *key, size_t len, uint64_t by, bool *ret_new)
{
	uint32_t id = interner_add(&t->keys, key, len, ret_new);

	if (id == INTERNER_NONE || alloc_grow(&t->n, &t->cap, id + 1UL, sizeof(*t->n)) < 0)
		return -ENOMEM;
	if (*ret_new)
		t->n[id] = 0;
	t->n[id] += by;
	return 0;
}

static int add_label(struct tallies *t, const struct label *l, struct bytes *pair)
{
	size_t n_name = strlen(l->name);
	bool is_new, unused;
	int r;

	bytes_reset(pair);
	bytes_printf(pair, "%s=%s", l->name, l->value);
	r = bytes_error(pair);
	r = r ? r : add(&t->pairs, (const char *)pair->data, pair->len, 1, &is_new);
	r = r ? r : add(&t->values, l->name, n_name, is_new, &unused);
	r = r ? r : add(&t->bytes, l->name, n_name, is_new ? strlen(l->value) : 0, &unused);
	if (!r && !strcmp(l->name, "__name__"))
		r = add(&t->metrics, l->value, strlen(l->value), 1, &unused);
	return r;
}

static int count_labels(struct tallies *t, const struct labels *series, size_t n, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes pair = {};

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < series[i].n; k++)
			if (add_label(t, &series[i].items[k], &pair) < 0)
				return err_set(eb, -ENOMEM, "out of memory for the query");
	return 0;
}

/* The ids with the largest counts; of equal ones the first by name. */
static size_t largest(const struct tally *t, size_t limit, uint32_t *ret)
{
	size_t n = 0;

	for (uint32_t id = 0; id < t->keys.n; id++) {
		size_t at = n;

		while (at && (t->n[ret[at - 1]] < t->n[id] ||
				     (t->n[ret[at - 1]] == t->n[id] &&
					     strcmp(interner_str(&t->keys, ret[at - 1]),
						     interner_str(&t->keys, id)) > 0)))
			at--;
		if (at == limit)
			continue;
		n = MIN(n + 1, limit);
		memmove(&ret[at + 1], &ret[at], (n - at - 1) * sizeof(*ret));
		ret[at] = id;
	}
	return n;
}

static void put_tally(struct json *j, const char *key, const struct tally *t, size_t limit)
{
	_cleanup_free_ uint32_t *ids = xcalloc(limit, sizeof(*ids));
	size_t n = largest(t, limit, ids);

	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < n; i++) {
		json_object_begin(j);
		json_kv_string(j, "name", interner_str(&t->keys, ids[i]));
		json_kv_uint(j, "value", t->n[ids[i]]);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_store(struct json *j, const struct store_stats *s, const struct tallies *t)
{
	bool is_empty = s->min_time_ns > s->max_time_ns;

	json_key(j, "headStats");
	json_object_begin(j);
	json_kv_uint(j, "numSeries", s->head_streams);
	json_kv_uint(j, "numLabelPairs", t->pairs.keys.n);
	json_kv_uint(j, "chunkCount", s->head_pages);
	json_kv_uint(j, "numRows", s->head_rows);
	json_kv_uint(j, "numNodes", s->head_nodes);
	json_kv_uint(j, "bytes", s->head_bytes);
	json_kv_uint(j, "generations", s->heads);
	json_kv_int(j, "minTime", is_empty ? 0 : s->min_time_ns / NS_PER_MS);
	json_kv_int(j, "maxTime", is_empty ? 0 : s->max_time_ns / NS_PER_MS);
	json_object_end(j);
	json_kv_uint(j, "blocks", s->blocks);
	json_kv_uint(j, "blockBytes", s->block_bytes);
	json_kv_uint(j, "blocksQuarantined", s->blocks_quarantined);
	json_kv_uint(j, "walSegments", s->wal_segments);
	json_kv_uint(j, "walBytes", s->wal_bytes);
	json_kv_bool(j, "ingestStopped", s->stopped);
	json_kv_string(j, "ingestStopReason", s->stop_reason);
}

/* ---- /api/v1/status/tsdb/blocks ---- */

static void put_block(void *arg, const struct store_block_info *b)
{
	struct json *j = arg;

	json_object_begin(j);
	json_kv_string(j, "ulid", b->ulid);
	json_kv_int(j, "minTime", b->min_time_ns / NS_PER_MS);
	json_kv_int(j, "maxTime", b->max_time_ns / NS_PER_MS);
	json_key(j, "stats");
	json_object_begin(j);
	json_kv_uint(j, "numSeries", b->streams);
	json_kv_uint(j, "numProfiles", b->profiles);
	json_kv_uint(j, "numSamples", b->rows);
	json_kv_uint(j, "numBytes", b->bytes);
	json_kv_uint(j, "numTombstones", b->n_deletions);
	json_object_end(j);
	json_key(j, "compaction");
	json_object_begin(j);
	json_kv_uint(j, "level", b->level);
	json_object_end(j);
	json_kv_bool(j, "rollups", b->has_rollups);
	json_kv_int(j, "version", 1);
	json_object_end(j);
}

static void put_quarantined(void *arg, const char *name, const char *reason)
{
	struct json *j = arg;

	json_object_begin(j);
	json_kv_string(j, "name", name);
	json_kv_string(j, "reason", reason);
	json_object_end(j);
}

static int put_blocks(struct json *j, struct store *s)
{
	int r;

	json_object_begin(j);
	json_key(j, "blocks");
	json_array_begin(j);
	store_each_block(s, put_block, j);
	json_array_end(j);
	json_key(j, "quarantined");
	json_array_begin(j);
	r = store_each_quarantined(s, put_quarantined, j);
	json_array_end(j);
	json_object_end(j);
	return r;
}

void api_tsdb_blocks(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct json j;
	int e = -EAGAIN;

	api_json_begin(&out, &j);
	pthread_rwlock_rdlock(&a->lock);
	if (a->store)
		e = put_blocks(&j, a->store);
	pthread_rwlock_unlock(&a->lock);
	if (!e) {
		api_reply_json(r, &j, &out);
		return;
	}
	bytes_done(&out);
	api_reply_error(r, API_JSON, e,
		e == -EAGAIN ? "the store is not open yet"
			     : "the directory quarantine/ cannot be read");
}

/* ---- /api/v1/status/tsdb ---- */

void api_tsdb(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_bytes_ struct bytes out = {};
	_cleanup_(tallies_done)
	struct tallies t;
	_cleanup_query_series_list_ struct query_series_list series = {};
	struct query_catalog what;
	struct store_stats s;
	struct errbuf eb = {};
	struct json j;
	size_t limit;
	int e;

	tallies_init(&t, NULL);
	if (api_job_begin(&q, r, arg, "tsdb", API_JSON) != 0)
		return;
	what = api_job_catalog(&q);
	what.terms = QUERY_PROMETHEUS_TERMS;
	e = query_series(&what, 0, &series, &eb);
	if (!e)
		e = count_labels(&t, series.items, series.n, &eb);
	query_series_list_done(&series);
	if (!e && !api_take_stats(arg, &s))
		e = err_set(&eb, -EAGAIN, "the store is not open yet");
	if (e) {
		api_job_fail(&q, e, &eb);
		return;
	}
	limit = q.params.limit ? MIN((size_t)q.params.limit, t.pairs.keys.n + 1) : SHOWN;
	api_job_json_begin(&q, &out, &j);
	json_object_begin(&j);
	put_store(&j, &s, &t);
	put_tally(&j, "seriesCountByMetricName", &t.metrics, limit);
	put_tally(&j, "labelValueCountByLabelName", &t.values, limit);
	put_tally(&j, "memoryInBytesByLabelName", &t.bytes, limit);
	put_tally(&j, "seriesCountByLabelValuePair", &t.pairs, limit);
	json_object_end(&j);
	api_job_reply_json(&q, &j, &out);
}
