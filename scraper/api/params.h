/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters that query endpoints share. Pure.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/render/render.h"
#include "scraper/query/query.h"
#include <stdbool.h>
#include <stdint.h>

struct url_params;
struct regex;

enum api_format {
	API_JSON,
	API_PPROF,
	API_FOLDED,
	API_SPEEDSCOPE,
	API_SVG,
	API_HTML,
	API_DOT,
	API_CSV,
	API_TEXT,
	API_PROTOBUF,
	API_N_FORMATS,
};

enum { API_MAX_AT = 1024, API_DEFAULT_NODES = 8192, API_MAX_TAGS = 8, API_MAX_PROFILES = 250 };

struct api_params {
	enum api_format format;
	const char *query;		  /* query= as given, or NULL */
	struct query_selector *selectors; /* of query=, or of every match[]; may be none */
	size_t n_selectors;
	enum query_terms terms; /* profile terms with query=, else Prometheus' */
	int64_t start_ns, end_ns, step_ns;
	/* profile_id: the range is then that of their times. */
	struct query_profile_id *profiles;
	size_t n_profiles;
	struct regex *focus, *ignore, *hide, *show, *show_from;
	const char **group_by, **at; /* texts belong to the request */
	size_t n_group_by, n_at;
	char *tag_text; /* what tags point into */
	const char **
		tags; /* labels that become frames: first those above the stack, then those below it */
	size_t n_tag_roots, n_tag_leaves;
	bool group; /* group_by was given, even empty: `group_by=` puts all series together */
	struct tree_identity identity; /* what frames are one function */
	enum render_names names;       /* of tables, pictures and pages */
	size_t max_nodes;	       /* 0: not given */
	size_t limit;		       /* 0: none */
};

/* The format named in `params`, or `fallback`; for errors, before anything else is known to be right. */
enum api_format api_format_of(const struct url_params *params, enum api_format fallback);
const char *api_format_type(enum api_format f);	  /* Content-Type */
const char *api_format_suffix(enum api_format f); /* "pb.gz" … */

/*
 * Parses and checks all of them: query, match[], start, end, seconds, profile_id, step, focus … show_from, group_by, at, by_build,
 * names, max_nodes, limit, format. Times default to the hour before `now_ns`, step to 15 s or a 250th of the range. -EINVAL names the parameter.
 * `params` must outlive `ret`.
 */
int api_params_parse(const struct url_params *params, int64_t now_ns, enum api_format fallback,
	uint32_t max_max_nodes, struct api_params *ret, struct errbuf *eb) _must_check_;
void api_params_done(struct api_params *p);
#define _cleanup_api_params_ _cleanup_(api_params_done)

/* Seconds as a number, or a duration as Prometheus writes it; from 1 ms to 1e9 s. -EINVAL. */
int api_parse_step(const char *text, int64_t *ret_ns, struct errbuf *eb) _must_check_;
/* "2026-11-21T10:00:00.123Z"; 0 gives Prometheus' "0001-01-01T00:00:00Z". */
void api_format_time(int64_t ns, char ret[40]);
