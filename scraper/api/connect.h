/* SPDX-License-Identifier: Apache-2.0
 *
 * Connect's unary calls over HTTP/1.1 (https://connectrpc.com/docs/protocol), as Grafana's Pyroscope datasource makes them: a POST
 * with one message as its body, in protobuf or JSON, plain or gzipped; the answer has the request's content type, an error is JSON.
 */
#pragma once
#include "scraper/api/api_impl.h"
#include "scraper/query/heatmap.h"
#include <protobuf-c/protobuf-c.h>

struct connect_call {
	struct api_job q;
	struct arena arena;	     /* of request and response */
	ProtobufCAllocator in_arena; /* for messages that are read */
	bool is_json;
	/* The answer: a message in the arena, or one that is encoded already. */
	const ProtobufCMessage *message;
	struct bytes encoded;
	const ProtobufCMessageDescriptor *encoded_as;
};

/* Sets the call's answer, or returns an error: -EINVAL invalid_argument, -ENOTSUP unimplemented, -ENOMEM resource_exhausted … */
typedef int connect_fn(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb);

/* Zeroed memory of the call for a message or array; NULL sticks in the arena. */
#define CONNECT_NEW(c, type) ((type *)arena_zalloc(&(c)->arena, sizeof(type)))
#define CONNECT_ARRAY(c, n, type) ((type *)arena_zalloc(&(c)->arena, ((n) + 1) * sizeof(type)))
/* Takes a message as the answer unless the arena failed. */
int connect_answer(
	struct connect_call *c, const ProtobufCMessage *m, struct errbuf *eb) _must_check_;
/* A copy of a text in the call's arena; "" when memory is out, which sticks. */
char *connect_text(struct connect_call *c, const char *s);
/* {"code":…,"message":…} with the code's status. */
void connect_reply_error(struct http_request *r, int error, const char *text);

/* ---- what the methods share (querier_select.c) ---- */

/* Moves the matchers of `from` to `into`: both must hold. -EINVAL when that makes too many, or the types differ. */
int querier_and(
	struct query_selector *into, struct query_selector *from, struct errbuf *eb) _must_check_;
/* A profile type and a selector, both from outside. -EINVAL names the field. */
int querier_selector(const char *type_id, const char *text, struct query_selector *ret,
	struct errbuf *eb) _must_check_;
/* Selectors that must all hold; an empty one, and none, mean everything. */
int querier_matchers(char *const *matchers, size_t n, struct query_selector *ret,
	struct errbuf *eb) _must_check_;
/* Milliseconds to nanoseconds; both 0: the last hour. The end is that of its millisecond. */
int querier_range(const struct api *a, int64_t start_ms, int64_t end_ms, int64_t *ret_start_ns,
	int64_t *ret_end_ns, struct errbuf *eb) _must_check_;

/* What is merged: SelectMerge…, Diff and /pyroscope/render ask for the same thing in different words. */
struct querier_merge {
	struct query_selector selector;
	int64_t start_ns, end_ns;
	const char *const *call_site; /* functions that stacks begin with, root first */
	size_t n_call_site, max_nodes;
	struct query_profile_id *profiles; /* these alone; 0: all */
	size_t n_profiles;
	bool pgo; /* stacks cut for Go's optimizer: the innermost keep_locations, 0 all */
	size_t keep_locations;
	bool aggregate_callees;
	bool compares; /* one side of a difference */
	bool average;  /* of values over time */
	struct query_trees trees;
	struct tree functions;
};
void querier_merge_done(struct querier_merge *m);
#define _cleanup_querier_merge_ _cleanup_(querier_merge_done)
/* Merges into m->trees (one group); with `functions` also into a function tree. Errors of query_merge and api_job_start;
 * querier_merge_done is due in any case. */
int querier_merge_run(
	struct api_job *q, struct querier_merge *m, bool functions, struct errbuf *eb) _must_check_;
/* The names of a selector's call site, in the call's arena; *ret stays as it is without a selector. -EINVAL: too many; -ENOMEM. */
struct Types__V1__StackTraceSelector;
int querier_call_site(struct connect_call *c, const struct Types__V1__StackTraceSelector *s,
	const char *const **ret, size_t *ret_n, struct errbuf *eb) _must_check_;
/* The labels as messages in the call's arena, *ret_n of them; NULL sticks in the arena. */
struct Types__V1__LabelPair;
struct Types__V1__LabelPair **querier_label_pairs(
	struct connect_call *c, const struct labels *l, size_t *ret_n);
struct Types__V1__Exemplar;
struct Types__V1__Exemplar *querier_exemplar(
	struct connect_call *c, const struct query_exemplar *e); /* querier_heatmap.c */
enum { QUERIER_MAX_GROUP_BY = 31 }; /* and one more that distinguishes spans */
/* Steps (seconds) and group_by of requests for values over time. -EINVAL names the field. */
int querier_check_step(
	double step, size_t n_group_by, int64_t limit, struct errbuf *eb) _must_check_;
/* max_nodes as clients give it: 0 is the default. -EINVAL: below 0 or above --query.max-nodes. */
int querier_max_nodes(const struct api *a, int64_t given, size_t fallback, size_t *ret,
	struct errbuf *eb) _must_check_;

/* ---- methods, by file ---- */
connect_fn querier_profile_types, querier_label_names, querier_label_values,
	querier_series;					 /* querier_catalog.c */
connect_fn querier_profile_stats, querier_analyze_query; /* querier_catalog.c */
connect_fn querier_select_series;			 /* querier_series.c */
connect_fn querier_select_heatmap;			 /* querier_heatmap.c */
connect_fn querier_stacktraces, querier_span_profile, querier_profile,
	querier_diff;					/* querier_trees.c */
connect_fn settings_get, settings_set, settings_delete; /* settings.c */
