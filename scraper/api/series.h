/* SPDX-License-Identifier: Apache-2.0
 *
 * What the endpoints of values over time share.
 */
#pragma once
#include "scraper/api/api_impl.h"

/* One selector, no tags, json or csv; -EINVAL names what is wrong. */
int series_check(const struct api_job *q, const char *endpoint, struct errbuf *eb) _must_check_;
/* Which stacks count: filters and `at`. */
struct tree_choice series_choice(const struct api_params *p);
/* Selector, range and step. */
struct query_spec series_spec(const struct api_params *p);
/* The parameter `of`. -EINVAL. */
int series_of(const struct api_job *q, struct query_spec *spec, struct errbuf *eb) _must_check_;

/* Begins the object: resultType, profile_type, unit, step. */
void series_begin(const struct api_job *q, const struct query_type *type, struct json *j);
/* values [[t, "v"]…]; none when `l` is NULL. */
void series_put_values(struct json *j, const struct query_line *l);
/* The set as one quoted field. */
void series_put_csv_labels(struct bytes *out, const struct labels *l);
/* ",time,value" and the line's end. */
void series_put_csv_point(struct bytes *out, const struct query_point *p);
