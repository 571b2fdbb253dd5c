/* SPDX-License-Identifier: Apache-2.0
 *
 * A side of a difference as replicates: one tree for each label set (instance) in each stretch of time. Neighbouring scrapes are no
 * replicates: what one second does the next one does too, so stretches are minutes.
 */
#pragma once
#include "lib/stats/trees.h"
#include "scraper/api/api_impl.h"

/*
 * What values are divided by: the time for which their targets were watched, all together; the same times the targets' CPUs; nothing;
 * the time in which at least one target was watched, so that a stretch of all targets is one replicate.
 */
enum replicates_per { PER_SECOND, PER_CPU_SECOND, PER_RUN, PER_WATCHED_SECOND };

enum { REPLICATES_MAX_LABELS = 8, REPLICATES_MAX_BLOCKS = 64 };

/* replicate=LABEL,…,DURATION */
struct replicates_spec {
	char *text; /* what labels point into */
	const char *labels[REPLICATES_MAX_LABELS];
	size_t n_labels;
	int64_t block_ns;
};
/* "" is "instance,5m". -EINVAL names what was expected. replicates_spec_done is due in any case. */
int replicates_parse(const char *text, struct replicates_spec *ret, struct errbuf *eb) _must_check_;
void replicates_spec_done(struct replicates_spec *s);

struct replicates {
	struct tree *trees; /* of functions */
	struct stats_run *runs;
	int64_t *covered_ns;
	size_t n, cap_trees, cap_runs, cap_covered;
	size_t n_dropped; /* that were watched for less than half as long as the median one */
	int64_t block_ns; /* as it was: at most REPLICATES_MAX_BLOCKS fit into the range */
};
/* Merges the stretches of the parameters' range one by one. Only delta types are divided. `ret` is zeroed before; replicates_done is due in
 * any case. Errors of query_merge. */
int replicates_make(struct api_job *q, const struct api_params *p,
	const struct replicates_spec *spec, enum replicates_per per, struct tree_symbols *symbols,
	struct replicates *ret, struct errbuf *eb) _must_check_;
void replicates_done(struct replicates *r);
