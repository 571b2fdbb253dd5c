/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' query endpoints: what their files share.
 */
#pragma once
#include "scraper/api/api_impl.h"
#include "scraper/promql/promql.h"

struct prometheus_query {
	struct api_job q;
	struct arena arena; /* of values */
};

/* promql_run's select over the job's parts (prometheus_source.c); ctx is the struct prometheus_query. Errors of query_over_time. */
int prometheus_select(
	void *ctx, const struct promql_select *s, struct promql_value *ret, struct errbuf *eb);
/* The time of the oldest profile that an expression may read at points from start_ns on. */
int64_t prometheus_reads_from(const struct promql_query *q, int64_t start_ns);

/* As Prometheus writes them (util/jsonutil): seconds with three digits or none; a number in a string, in full unless it is below 1e-6 or from 1e21 on. prometheus_json.c */
void prometheus_put_time(struct json *j, int64_t ns);
void prometheus_put_value(struct json *j, double v);
void prometheus_format_value(double v, char ret[400]);
