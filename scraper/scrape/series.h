/* SPDX-License-Identifier: Apache-2.0
 *
 * From a decoded profile to streams and rows: the three tiers of sample labels, honor_labels, max_series, label_set_limit,
 * metric_relabel_configs, service_name, keep_sample_type. Everything it makes lies in the given arena.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/prof/profile.h"
#include "scraper/config/config.h"
#include "scraper/scrape/limit.h"
#include "scraper/scrape/preset.h"
#include "scraper/scrape/reason.h"
#include "scraper/store/model/append.h"

struct scrape_series_input {
	const struct profile *profile;
	const struct config_job *job;
	const struct scrape_spec *spec;
	enum scrape_preset preset;
	const char *labels_header;   /* Sonde-Labels, or NULL */
	const struct labels *target; /* the type's labels, with __name__ */
	struct scrape_limit *limit;  /* of the job */
	int64_t now_ns;		     /* monotonic */
};

struct scrape_series_result {
	struct labels *streams; /* their blocks are freed by scrape_series_done */
	size_t n_streams;
	struct labels *label_sets;
	size_t n_label_sets;
	uint64_t *stream_hashes;   /* labels_hash of each stream */
	uint64_t n_samples;	   /* pprof samples × kept columns */
	uint64_t n_kept;	   /* the same after metric relabeling */
	uint64_t n_dropped_series; /* by metric_relabel_configs */
	uint64_t n_joined_series;  /* beyond max_series */
};

/* Fills profile, columns, streams, label_sets and rows of `out`. A refusal names the limit or the label. */
enum scrape_reason scrape_series_build(const struct scrape_series_input *in, struct arena *a,
	struct store_scrape *out, struct scrape_series_result *ret, struct errbuf *eb) _must_check_;
void scrape_series_done(struct scrape_series_result *r);

/* Which value columns of the profile are kept (keep_sample_type; all when none is given): indices into ret[STORE_MAX_COLUMNS]. */
size_t scrape_series_columns(const struct profile *p, const struct config_profile *override,
	size_t ret[STORE_MAX_COLUMNS]);

/* Sets service_name when it is absent (docs/scraper.md): the first of namespace/container_name, container_name, systemd_unit, base name of
 * executable, comm, job that is not empty. */
void scrape_series_set_service(struct labels_builder *b);
